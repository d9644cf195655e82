/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backup file: all rows of a database at one version, in key order, so that damage anywhere is found before it does harm.
 *
 *     header │ block 0 │ block 1 │ … │ end block
 *
 * Integers are little-endian, checksums XXH3 with 64 bits.
 *
 *     header   0   8  magic "KEELBACK"             block    0  4  kind: 1 rows, 2 end
 *              8   4  format version, 1                     4  4  bytes of the payload
 *             12   4  bytes of the header, 72               8  8  number of the block, from 0
 *             16  16  id of the backup, random             16  8  checksum of the payload
 *             32   8  version of the database              24  8  checksum of bytes 0 to 23
 *             40   8  time, microseconds since 1970        32     payload
 *             48   8  bytes of rows, about; 0 unknown
 *             56   8  zero
 *             64   8  checksum of bytes 0 to 63
 *
 *     rows     0  4  number of rows, at least 1    end      0  8  rows in all blocks
 *              then each row:                               8  8  bytes of their keys and values
 *              2  bytes shared with the key before         16  8  checksum of all rows in order (tally_add)
 *              2  bytes of the rest of the key             24  8  blocks before this one
 *              4  bytes of the value                       32  8  checksum of the blocks' payload checksums, chained
 *              the rest of the key, the value
 *
 *   1. Checksums of a block are seeded with the first eight bytes of the id plus the block's number, those of the header with 0: a block is valid in
 *      one place of one backup only.
 *   2. Nothing of a block is believed before its header and then its payload have been verified; the first row of a block shares nothing.
 *   3. Keys ascend strictly through the whole file.
 *   4. A file without its end block, or with anything behind it, is not whole.
 *
 * Descriptors may be pipes: both directions go once from the front to the back.
 */
#include "backup_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "os/file.h"
#include "util/checksum.h"
#include "util/coding.h"

enum { KIND_ROWS = 1, KIND_END = 2, ROW_HEADER_BYTES = 8, END_BYTES = 40, COUNT_BYTES = 4 };

static const char MAGIC[8] = {'K', 'E', 'E', 'L', 'B', 'A', 'C', 'K'};

static uint64_t seed_of(const struct backup_header *header, uint64_t block) { return coding_get_u64(header->id) + block; }

/* ---- Writing ---- */

static bool write_all(struct backup_writer *writer, const uint8_t *data, size_t length) {
    while (length > 0) {
        while (!session_wait_output(writer->descriptor) && !session_interrupted())
            ;
        ssize_t written = session_interrupted() ? -1 : write(writer->descriptor, data, length);
        if (written < 0 && errno == EINTR && !session_interrupted())
            continue;
        if (written <= 0) {
            writer->system_error = written < 0 ? errno : EIO;
            return false;
        }
        data += written;
        length -= (size_t)written;
        writer->file_bytes += (uint64_t)written;
    }
    return true;
}

static bool begin_block(struct backup_writer *writer) {
    static const uint8_t room[BACKUP_BLOCK_HEADER_BYTES + COUNT_BYTES];
    writer->block.length = writer->last_key.length = 0;
    writer->block_rows = 0;
    return buffer_append(&writer->block, room, sizeof room);
}

bool backup_writer_open(int descriptor, int64_t version, uint64_t estimate_bytes, struct backup_writer *writer) {
    struct timespec now;
    uint8_t header[BACKUP_HEADER_BYTES] = {0};
    *writer = (struct backup_writer){.descriptor = descriptor};
    clock_gettime(CLOCK_REALTIME, &now);
    writer->header = (struct backup_header){
        .version = version, .time_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, .estimate_bytes = estimate_bytes};
    os_random(writer->header.id, sizeof writer->header.id);
    memcpy(header, MAGIC, sizeof MAGIC);
    coding_put_u32(header + 8, BACKUP_FORMAT);
    coding_put_u32(header + 12, BACKUP_HEADER_BYTES);
    memcpy(header + 16, writer->header.id, 16);
    coding_put_u64(header + 32, (uint64_t)version);
    coding_put_u64(header + 40, writer->header.time_us);
    coding_put_u64(header + 48, estimate_bytes);
    coding_put_u64(header + 64, checksum(bytes_make(header, 64), 0));
    return begin_block(writer) && write_all(writer, header, sizeof header);
}

/* Sends the block in the buffer, whose payload is complete. */
static bool write_block(struct backup_writer *writer, uint32_t kind) {
    uint8_t *header = writer->block.data;
    size_t payload_bytes = writer->block.length - BACKUP_BLOCK_HEADER_BYTES;
    uint64_t seed = seed_of(&writer->header, writer->blocks);
    uint64_t sum = checksum(bytes_make(header + BACKUP_BLOCK_HEADER_BYTES, payload_bytes), seed);
    coding_put_u32(header, kind);
    coding_put_u32(header + 4, (uint32_t)payload_bytes);
    coding_put_u64(header + 8, writer->blocks);
    coding_put_u64(header + 16, sum);
    coding_put_u64(header + 24, checksum(bytes_make(header, 24), seed));
    writer->chain = checksum(bytes_make(header + 16, 8), writer->chain);
    writer->blocks++;
    return write_all(writer, header, writer->block.length) && begin_block(writer);
}

static bool end_rows(struct backup_writer *writer) {
    if (writer->block_rows == 0)
        return true;
    coding_put_u32(writer->block.data + BACKUP_BLOCK_HEADER_BYTES, writer->block_rows);
    return write_block(writer, KIND_ROWS);
}

static size_t shared_length(keel_bytes a, keel_bytes b) {
    size_t length = a.length < b.length ? a.length : b.length, shared = 0;
    while (shared < length && a.data[shared] == b.data[shared])
        shared++;
    return shared;
}

bool backup_writer_add(struct backup_writer *writer, keel_bytes key, keel_bytes value) {
    size_t shared = shared_length(keel_bytes_of(writer->last_key.data, writer->last_key.length), key);
    uint8_t row[ROW_HEADER_BYTES];
    coding_put_u16(row, (uint16_t)shared);
    coding_put_u16(row + 2, (uint16_t)(key.length - shared));
    coding_put_u32(row + 4, (uint32_t)value.length);
    writer->last_key.length = shared;
    if (!buffer_append(&writer->block, row, sizeof row) || !buffer_append(&writer->block, key.data + shared, key.length - shared) ||
        !buffer_append(&writer->block, value.data, value.length) || !buffer_append(&writer->last_key, key.data + shared, key.length - shared)) {
        writer->system_error = ENOMEM;
        return false;
    }
    writer->block_rows++;
    tally_add(&writer->tally, key, value);
    return writer->block.length < BACKUP_BLOCK_BYTES || end_rows(writer);
}

bool backup_writer_finish(struct backup_writer *writer) {
    if (!end_rows(writer))
        return false;
    uint8_t end[END_BYTES];
    coding_put_u64(end, writer->tally.rows);
    coding_put_u64(end + 8, writer->tally.bytes);
    coding_put_u64(end + 16, writer->tally.checksum);
    coding_put_u64(end + 24, writer->blocks);
    coding_put_u64(end + 32, writer->chain);
    writer->block.length = BACKUP_BLOCK_HEADER_BYTES;
    return buffer_append(&writer->block, end, sizeof end) && write_block(writer, KIND_END);
}

void backup_writer_close(struct backup_writer *writer) {
    buffer_free(&writer->block);
    buffer_free(&writer->last_key);
}

/* ---- Reading ---- */

static bool wrong(struct backup_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct backup_reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->problem, sizeof reader->problem, format, arguments);
    va_end(arguments);
    return false;
}

/* Up to `length` bytes; fewer only at the end of the file. */
static bool read_some(struct backup_reader *reader, uint8_t *data, size_t length, size_t *got) {
    *got = 0;
    while (*got < length) {
        while (!session_wait_input(reader->descriptor) && !session_interrupted())
            ;
        if (session_interrupted())
            return wrong(reader, "was not read to its end: interrupted");
        ssize_t count = read(reader->descriptor, data + *got, length - *got);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return wrong(reader, "cannot be read at byte %" PRIu64 ": %s", reader->file_bytes, strerror(errno));
        if (count == 0)
            break;
        *got += (size_t)count;
        reader->file_bytes += (uint64_t)count;
    }
    return true;
}

static bool check_header(struct backup_reader *reader, const uint8_t *header, size_t got) {
    if (got < sizeof MAGIC || memcmp(header, MAGIC, sizeof MAGIC) != 0)
        return wrong(reader, got == 0 ? "is empty" : "is not a backup made by keel: it does not begin with KEELBACK");
    if (got >= 12 && coding_get_u32(header + 8) > BACKUP_FORMAT)
        return wrong(reader, "has format version %u, this keel reads up to %d: it was made by a newer keel, or its header is damaged",
                     coding_get_u32(header + 8), BACKUP_FORMAT);
    if (got < BACKUP_HEADER_BYTES)
        return wrong(reader, "is cut off inside its header, at byte %zu", got);
    if (checksum(bytes_make(header, 64), 0) != coding_get_u64(header + 64))
        return wrong(reader, "is damaged in its header (bytes 0 to %d)", BACKUP_HEADER_BYTES - 1);
    if (coding_get_u32(header + 8) != BACKUP_FORMAT || coding_get_u32(header + 12) != BACKUP_HEADER_BYTES)
        return wrong(reader, "has a header that this keel does not understand");
    return true;
}

bool backup_reader_open(int descriptor, struct backup_reader *reader) {
    uint8_t header[BACKUP_HEADER_BYTES];
    size_t got;
    *reader = (struct backup_reader){.descriptor = descriptor};
    if (!read_some(reader, header, sizeof header, &got) || !check_header(reader, header, got))
        return false;
    memcpy(reader->header.id, header + 16, sizeof reader->header.id);
    reader->header.version = (int64_t)coding_get_u64(header + 32);
    reader->header.time_us = coding_get_u64(header + 40);
    reader->header.estimate_bytes = coding_get_u64(header + 48);
    return true;
}

/* Verifies a block's header; *bytes is what its payload has. */
static bool read_block_header(struct backup_reader *reader, uint8_t header[BACKUP_BLOCK_HEADER_BYTES], uint32_t *kind, size_t *bytes) {
    uint64_t begin = reader->file_bytes;
    size_t got;
    if (!read_some(reader, header, BACKUP_BLOCK_HEADER_BYTES, &got))
        return false;
    if (got == 0)
        return wrong(reader, "is cut off at byte %" PRIu64 ", behind block %" PRIu64 ": its end is missing", begin, reader->blocks);
    if (got < BACKUP_BLOCK_HEADER_BYTES)
        return wrong(reader, "is cut off at byte %" PRIu64 ", inside the header of block %" PRIu64, reader->file_bytes, reader->blocks);
    *kind = coding_get_u32(header);
    *bytes = coding_get_u32(header + 4);
    if (checksum(bytes_make(header, 24), seed_of(&reader->header, reader->blocks)) != coding_get_u64(header + 24) ||
        coding_get_u64(header + 8) != reader->blocks || *bytes > BACKUP_BLOCK_BYTES_MAX || (*kind != KIND_ROWS && *kind != KIND_END))
        return wrong(reader, "is damaged at byte %" PRIu64 ", in the header of block %" PRIu64, begin, reader->blocks);
    return true;
}

/* Reads a block as a whole and verifies it. */
static bool read_block(struct backup_reader *reader, uint32_t *kind) {
    uint8_t header[BACKUP_BLOCK_HEADER_BYTES];
    size_t bytes = 0, got = 0;
    if (!read_block_header(reader, header, kind, &bytes))
        return false;
    uint64_t begin = reader->file_bytes;
    if (reader->block.capacity < bytes) {
        free(reader->block.data);
        reader->block = (struct buffer){.data = malloc(bytes), .capacity = bytes};
        if (!reader->block.data) {
            reader->block.capacity = 0;
            return wrong(reader, "cannot be read: there is no memory for a block");
        }
    }
    if (!read_some(reader, reader->block.data, bytes, &got))
        return false;
    if (got < bytes)
        return wrong(reader, "is cut off at byte %" PRIu64 ", inside block %" PRIu64, reader->file_bytes, reader->blocks);
    if (checksum(bytes_make(reader->block.data, bytes), seed_of(&reader->header, reader->blocks)) != coding_get_u64(header + 16))
        return wrong(reader, "is damaged between bytes %" PRIu64 " and %" PRIu64 ", in the rows of block %" PRIu64, begin, reader->file_bytes - 1, reader->blocks);
    reader->block.length = bytes;
    if (*kind == KIND_ROWS) {
        reader->chain = checksum(bytes_make(header + 16, 8), reader->chain);
        reader->blocks++;
    }
    return true;
}

static bool check_end(struct backup_reader *reader) {
    const uint8_t *end = reader->block.data;
    uint8_t byte;
    size_t got;
    if (reader->block.length != END_BYTES || coding_get_u64(end) != reader->tally.rows || coding_get_u64(end + 8) != reader->tally.bytes ||
        coding_get_u64(end + 16) != reader->tally.checksum || coding_get_u64(end + 24) != reader->blocks || coding_get_u64(end + 32) != reader->chain)
        return wrong(reader, "does not hold what its end block counts: %" PRIu64 " rows in %" PRIu64 " blocks were read", reader->tally.rows, reader->blocks);
    uint64_t size = reader->file_bytes;
    if (!read_some(reader, &byte, 1, &got))
        return false;
    if (got > 0)
        return wrong(reader, "goes on behind its end, at byte %" PRIu64, size);
    reader->ended = true;
    return true;
}

/* Makes the next block that of the reader; at the end of all blocks reader->ended. */
static bool next_block(struct backup_reader *reader) {
    uint32_t kind = 0;
    if (!read_block(reader, &kind))
        return false;
    if (kind == KIND_END)
        return check_end(reader);
    reader->rows_left = reader->block.length >= COUNT_BYTES ? coding_get_u32(reader->block.data) : 0;
    reader->at = COUNT_BYTES;
    if (reader->rows_left == 0)
        return wrong(reader, "has a block %" PRIu64 " without rows", reader->blocks - 1);
    return true;
}

/* The row at reader->at; the block is verified, so what is wrong here was written so. */
static bool parse_row(struct backup_reader *reader, struct row *row, bool first) {
    size_t left = reader->block.length - reader->at;
    const uint8_t *at = reader->block.data + reader->at;
    if (left < ROW_HEADER_BYTES)
        return wrong(reader, "has a block %" PRIu64 " that is shorter than its rows", reader->blocks - 1);
    size_t shared = coding_get_u16(at), rest = coding_get_u16(at + 2), value_bytes = coding_get_u32(at + 4);
    if (left - ROW_HEADER_BYTES < rest || left - ROW_HEADER_BYTES - rest < value_bytes || shared > (first ? 0 : reader->key.length) ||
        shared + rest > BACKUP_KEY_BYTES_MAX)
        return wrong(reader, "has a block %" PRIu64 " with a row that does not fit in it", reader->blocks - 1);
    keel_bytes tail = keel_bytes_of(at + ROW_HEADER_BYTES, rest);
    keel_bytes before = keel_bytes_of(reader->key.data + (reader->key.length ? shared : 0), reader->key.length - shared);
    if (reader->tally.rows > 0 && keel_bytes_compare(tail, before) <= 0)
        return wrong(reader, "has keys out of order in block %" PRIu64, reader->blocks - 1);
    reader->key.length = shared;
    if (!buffer_append(&reader->key, tail.data, tail.length))
        return wrong(reader, "cannot be read: there is no memory for a key");
    *row = (struct row){keel_bytes_of(reader->key.data, reader->key.length), keel_bytes_of(tail.data + rest, value_bytes)};
    reader->at += ROW_HEADER_BYTES + rest + value_bytes;
    return true;
}

bool backup_reader_next(struct backup_reader *reader, struct row *row, bool *present) {
    *present = false;
    bool first = reader->rows_left == 0;
    if (reader->ended)
        return true;
    if (first && !next_block(reader))
        return false;
    if (reader->ended)
        return true;
    if (!parse_row(reader, row, first))
        return false;
    reader->rows_left--;
    if (reader->rows_left == 0 && reader->at != reader->block.length)
        return wrong(reader, "has a block %" PRIu64 " that is longer than its rows", reader->blocks - 1);
    tally_add(&reader->tally, row->key, row->value);
    *present = true;
    return true;
}

bool backup_reader_verify(struct backup_reader *reader) {
    struct row row;
    bool present = true;
    while (present) {
        if (!backup_reader_next(reader, &row, &present))
            return false;
        if (session_interrupted())
            return wrong(reader, "was not read to its end: interrupted");
    }
    return true;
}

void backup_reader_close(struct backup_reader *reader) {
    buffer_free(&reader->block);
    buffer_free(&reader->key);
}
