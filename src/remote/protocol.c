/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: writing them into a buffer that is sent from the front, and finding them in what came in.
 * A frame is opened by the first message and closed when it is to be sent, so that everything
 * written in between goes out as one, with one checksum.
 *
 *     data ─► [ whole frame ][ whole frame ][ header │ message message …
 *                                           ^frame                      ^length
 *
 * The checksum is not against an enemy, it finds bugs and broken pipes of the kind TCP lets through:
 * the low half of XXH3.
 *
 * Threads: one at a time a buffer. Failure: out of memory marks the buffer.
 */
#include "remote/protocol.h"

#include "util/checksum.h"
#include "util/memory.h"

enum { CAPACITY_MIN = 4096 };

static uint32_t sum(struct bytes payload) {
    return (uint32_t)checksum(payload, PROTOCOL_MAGIC);
}

static bool grow(struct protocol_buffer *buffer, size_t needed) {
    size_t capacity = buffer->capacity ? buffer->capacity : CAPACITY_MIN;
    while (capacity < needed)
        capacity *= 2;
    uint8_t *data = memory_resize(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

uint8_t *protocol_reserve(struct protocol_buffer *buffer, size_t size) {
    bool opens = buffer->length == buffer->frame;
    size_t needed = buffer->length + size + (opens ? PROTOCOL_HEADER_BYTES : 0);
    if (buffer->failed || (needed > buffer->capacity && !grow(buffer, needed)))
        return NULL;
    uint8_t *room = buffer->data + needed - size;
    buffer->length = needed;
    return room;
}

void protocol_close_frame(struct protocol_buffer *buffer) {
    size_t length = protocol_open_bytes(buffer);
    if (!length)
        return;
    uint8_t *header = buffer->data + buffer->frame;
    coding_put_u32(header, (uint32_t)length);
    coding_put_u32(header + 4, sum(bytes_make(header + PROTOCOL_HEADER_BYTES, length)));
    buffer->frame = buffer->length;
}

void protocol_consume(struct protocol_buffer *buffer, size_t count) {
    buffer->length -= count;
    buffer->frame -= count;
    if (buffer->length)
        memmove(buffer->data, buffer->data + count, buffer->length);
}

void protocol_clear(struct protocol_buffer *buffer, size_t kept_max) {
    if (buffer->capacity > kept_max) {
        memory_free(buffer->data);
        buffer->data = NULL;
        buffer->capacity = 0;
    }
    buffer->length = buffer->frame = 0;
    buffer->failed = false;
}

void protocol_free(struct protocol_buffer *buffer) {
    protocol_clear(buffer, 0);
}

enum protocol_frame_state protocol_next_frame(struct bytes input, size_t payload_bytes_max, struct bytes *payload,
                                              size_t *total) {
    *total = PROTOCOL_HEADER_BYTES;
    if (input.length < PROTOCOL_HEADER_BYTES)
        return FRAME_PARTIAL;
    size_t length = coding_get_u32(input.data);
    if (length == 0 || length > payload_bytes_max)
        return FRAME_BAD;
    *total = PROTOCOL_HEADER_BYTES + length;
    if (input.length < *total)
        return FRAME_PARTIAL;
    *payload = bytes_make(input.data + PROTOCOL_HEADER_BYTES, length);
    return sum(*payload) == coding_get_u32(input.data + 4) ? FRAME_WHOLE : FRAME_BAD;
}
