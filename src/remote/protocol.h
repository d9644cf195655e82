/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection between a process that uses a database and the process that owns it.
 * docs/protocol.md describes it for people; this is its only implementation in bytes.
 *
 * A connection carries frames, a frame carries messages, a message is a type and its fields. All
 * numbers are little-endian; bytes are preceded by their number.
 *
 *     frame     u32 bytes of the payload │ u32 checksum of the payload │ payload
 *     payload   message…
 */
#ifndef KEEL_REMOTE_PROTOCOL_H
#define KEEL_REMOTE_PROTOCOL_H

#include "util/bytes.h"
#include "util/coding.h"
#include "util/error.h"

enum {
    PROTOCOL_MAGIC = 0x4c45454b, /* "KEEL" */
    PROTOCOL_VERSION = 1,
    PROTOCOL_HEADER_BYTES = 8,
    PROTOCOL_FRAME_BYTES_MAX = 16 * 1024 * 1024,  /* of a payload to the owner */
    PROTOCOL_ANSWER_BYTES_MAX = 512 * 1024 * 1024, /* and from it */
    PROTOCOL_KEY_BYTES_MAX = 65536,      /* longer ones are cut here: they are refused, or match nothing, all the same */
    PROTOCOL_VALUE_BYTES_MAX = 1048576,  /* likewise */
    PROTOCOL_TRANSACTIONS_MAX = 65536,   /* of a connection at a time: ids are below */
    PROTOCOL_REQUESTS_MAX = 1048576,
    PROTOCOL_DATABASES_MAX = 65536,
    PROTOCOL_SECRET_BYTES_MAX = 255,
    PROTOCOL_HELLO_BYTES_MAX = 1024, /* of the frame with the greeting: strangers get no more memory */
};

/* To the owner. `transaction`, `request` and `database` are numbers the client chose. */
enum protocol_question {
    ASK_HELLO = 1,         /* u32 magic, u32 lowest and u32 highest protocol version, u32 API version, u32 process id, bytes secret */
    ASK_PING,              /* nothing: answered by ANSWER_PONG */
    ASK_CANCEL,            /* u32 request: a watch that nobody waits for any more; it is still answered */
    ASK_DATABASE,          /* u32 database, bytes path, bytes connection string: what its transactions take defaults from */
    ASK_DATABASE_OPTION,   /* u32 database, u32 option, u8 given, bytes value */
    ASK_DATABASE_CLOSE,    /* u32 database */
    ASK_BEGIN,             /* u32 transaction, u32 database */
    ASK_DESTROY,           /* u32 transaction, as all below */
    ASK_RESET,
    ASK_OPTION,            /* u32 option, u8 given, bytes value */
    ASK_SET_READ_VERSION,  /* i64 version */
    ASK_SET,               /* bytes key, bytes value */
    ASK_CLEAR,             /* bytes key */
    ASK_CLEAR_RANGE,       /* bytes begin, bytes end */
    ASK_ATOMIC,            /* u32 type, bytes key, bytes operand */
    ASK_CONFLICT_RANGE,    /* u32 type, bytes begin, bytes end */

    /* u32 transaction, u32 request, and each is answered once. */
    ASK_GET_READ_VERSION = 64, /* -> INT64 */
    ASK_GET,               /* u8 snapshot, bytes key -> VALUE or ABSENT */
    ASK_GET_KEY,           /* u8 snapshot, u8 or_equal, i32 offset, bytes key -> KEY */
    ASK_GET_RANGE,         /* u8 snapshot, u8 reverse, i32 limit, target bytes, mode, iteration, two selectors -> ROWS */
    ASK_COMMIT,            /* -> COMMIT */
    ASK_WATCH,             /* bytes key -> NOTHING, when it fires */
    ASK_APPROXIMATE_SIZE,  /* -> INT64 */
    ASK_ESTIMATED_SIZE,    /* bytes begin, bytes end -> INT64 */
    ASK_SPLIT_POINTS,      /* bytes begin, bytes end, i64 chunk bytes -> KEYS */
    ASK_ADDRESSES,         /* bytes key -> STRINGS */
};

/* From the owner; all but the first three begin with u32 request. */
enum protocol_answer {
    ANSWER_WELCOME = 1,    /* u32 magic, u32 protocol version, u32 process id */
    ANSWER_REFUSED,        /* i32 error, bytes text; the connection is closed behind it */
    ANSWER_PONG,
    ANSWER_ERROR = 64,     /* i32 error */
    ANSWER_NOTHING,
    ANSWER_INT64,          /* i64 */
    ANSWER_ABSENT,
    ANSWER_VALUE,          /* bytes */
    ANSWER_KEY,            /* bytes */
    ANSWER_ROWS,           /* u8 more, u32 count, count times bytes key, bytes value */
    ANSWER_KEYS,           /* u32 count, bytes… */
    ANSWER_STRINGS,        /* u32 count, bytes… */
    ANSWER_COMMIT,         /* i32 error, u8 flags, i64 version, 10 bytes of versionstamp */
};

enum { COMMIT_STAMPED = 1, COMMIT_REFUSED = 2 }; /* flags of ANSWER_COMMIT */

/* --- Writing --- */

/*
 * Bytes to be sent: whole frames, and the one being written, whose header is filled in when it is
 * closed. A buffer that runs out of memory says so from then on, until it is cleared; what is
 * written to it is lost.
 */
struct protocol_buffer {
    uint8_t *data;
    size_t length, capacity;
    size_t frame; /* where the open frame begins; == length: none is open */
    bool failed;
};

/* Room for `size` bytes in an open frame, or NULL. */
uint8_t *protocol_reserve(struct protocol_buffer *buffer, size_t size);
void protocol_close_frame(struct protocol_buffer *buffer);

/* Bytes of the payload of the open frame. */
static inline size_t protocol_open_bytes(const struct protocol_buffer *buffer) {
    return buffer->length == buffer->frame ? 0 : buffer->length - buffer->frame - PROTOCOL_HEADER_BYTES;
}

/* Takes `count` bytes that were sent off the front: cheap if nothing is left. */
void protocol_consume(struct protocol_buffer *buffer, size_t count);

/* Empties it; keeps at most `kept_max` bytes of memory. */
void protocol_clear(struct protocol_buffer *buffer, size_t kept_max);
void protocol_free(struct protocol_buffer *buffer);

static inline uint8_t *protocol_u8(uint8_t *to, unsigned value) { *to = (uint8_t)value; return to + 1; }
static inline uint8_t *protocol_u32(uint8_t *to, uint32_t value) { coding_put_u32(to, value); return to + 4; }
static inline uint8_t *protocol_i64(uint8_t *to, int64_t value) { coding_put_u64(to, (uint64_t)value); return to + 8; }
static inline uint8_t *protocol_bytes(uint8_t *to, struct bytes bytes) {
    coding_put_u32(to, (uint32_t)bytes.length);
    if (bytes.length)
        memcpy(to + 4, bytes.data, bytes.length);
    return to + 4 + bytes.length;
}

/* --- Reading --- */

/*
 * A payload being taken apart. Reading past its end gives zeroes and makes it bad for good; nobody
 * acts on what he read before he asked protocol_is_bad.
 */
struct protocol_reader {
    const uint8_t *next, *end;
    bool bad;
};

static inline bool protocol_has(struct protocol_reader *reader, size_t size) {
    if (__builtin_expect((size_t)(reader->end - reader->next) < size, 0)) {
        reader->bad = true;
        reader->next = reader->end;
        return false;
    }
    return true;
}
static inline uint8_t protocol_get_u8(struct protocol_reader *reader) {
    return protocol_has(reader, 1) ? *reader->next++ : 0;
}
static inline uint32_t protocol_get_u32(struct protocol_reader *reader) {
    if (!protocol_has(reader, 4))
        return 0;
    reader->next += 4;
    return coding_get_u32(reader->next - 4);
}
static inline int32_t protocol_get_i32(struct protocol_reader *reader) { return (int32_t)protocol_get_u32(reader); }
static inline int64_t protocol_get_i64(struct protocol_reader *reader) {
    if (!protocol_has(reader, 8))
        return 0;
    reader->next += 8;
    return (int64_t)coding_get_u64(reader->next - 8);
}
/* A view into the payload. More than `most` bytes are bad. */
static inline struct bytes protocol_get_bytes(struct protocol_reader *reader, size_t most) {
    size_t length = protocol_get_u32(reader);
    if (length > most || !protocol_has(reader, length)) {
        reader->bad = true;
        reader->next = reader->end;
        return (struct bytes){NULL, 0};
    }
    reader->next += length;
    return bytes_make(reader->next - length, length);
}

/* What lies at the front of bytes that came in. */
enum protocol_frame_state { FRAME_WHOLE, FRAME_PARTIAL, FRAME_BAD };

/*
 * FRAME_WHOLE: *payload is the first frame's, which takes *total bytes. FRAME_PARTIAL: the rest is
 * still to come; *total says how many bytes are needed, as far as is known. FRAME_BAD: it is empty,
 * longer than `payload_bytes_max`, or damaged.
 */
enum protocol_frame_state protocol_next_frame(struct bytes input, size_t payload_bytes_max, struct bytes *payload, size_t *total);

#endif
