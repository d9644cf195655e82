/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment file of the log: what is in it, how it comes to be, how a record in it is recognised.
 *
 *   segment:  header (64 bytes) | record | record | ... | anything
 *
 *   header    0  magic "KEEL-LOG"               record    0  u64 checksum of all that follows
 *             8  u32 format version                       8  u32 checksum of bytes 12 to 47
 *            12  u32 bytes of this header                12  u32 payload bytes
 *            16  u64 generation                          16  u64 generation
 *            24  u64 salt                                24  i64 version
 *            32  u64 bytes of the file                   32  i64 version of the record before
 *            40  zeros                                   40  i64 version up to which all was synced
 *            56  u64 checksum of bytes 0 to 55           48  payload, zeros up to a multiple of 8
 *
 * All integers are little-endian. Both checksums of a record are seeded with the segment's salt plus
 * the record's offset. Files are named by what they are:
 *
 *   new-G.keel    being made; thrown away by the next open
 *   log-G.keel    segment of generation G
 *   spare-G.keel  was segment G, holds nothing that is needed, waits for a new life
 *
 *   (nothing) ─ create_file ─► new ─┐                       ┌─► (removed)
 *                                   ├─ publish ─► log ─ retire (log.c)
 *                      spare ───────┘                       └─► spare
 *
 * Invariants:
 *
 *   1. A file named log-G has a whole header of generation G on disk: the header is synced before
 *      the name is given, and the name is synced before a record is written.
 *   2. A header is overwritten only in a file whose name is spare- or new- on disk: log_release
 *      syncs the directory between retiring a segment and offering it here.
 *   3. Stale bytes never look valid. A record counts only with its segment's generation, at the
 *      offset it was written for, under a salt drawn anew for each life of the file; so neither the
 *      previous life's records nor a copy of a record inside another's payload are taken for one.
 *   4. The place of the first record is zero in a segment that has none yet.
 *
 * Threads: log_segment_make under `rotation`; the rest is pure or the caller's business.
 * Failure: a file that could not be finished is removed.
 */
#include <assert.h>
#include <stdio.h>

#include "engine/log_internal.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/memory.h"

static const char magic[8] = {'K', 'E', 'E', 'L', '-', 'L', 'O', 'G'};

_Static_assert(LOG_SEGMENT_HEADER_BYTES + LOG_RECORD_HEADER_BYTES <= LOG_SEGMENT_START_BYTES,
               "starting a segment wipes the place of its first record");
_Static_assert(LOG_SEGMENT_START_BYTES <= 512, "a segment's start is one sector");
_Static_assert(LOG_SEGMENT_HEADER_BYTES % 8 == 0 && LOG_RECORD_HEADER_BYTES % 8 == 0, "aligned to 8");

/* ---- Names ---- */

void log_segment_path(const struct log *log, const char *kind, uint64_t generation,
                      struct log_path *path) {
    int length = snprintf(path->text, sizeof path->text, "%s/%s%016llx.keel", log->directory, kind,
                          (unsigned long long)generation);
    assert(length > 0 && (size_t)length < sizeof path->text);
    (void)length;
}

bool log_segment_parse_name(const char *name, const char *kind, uint64_t *generation) {
    size_t kind_length = strlen(kind);
    if (strncmp(name, kind, kind_length) != 0)
        return false;
    const char *digits = name + kind_length;
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        char c = digits[i];
        if (c >= '0' && c <= '9')
            number = number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    if (strcmp(digits + 16, ".keel") != 0)
        return false;
    *generation = number;
    return true;
}

/* ---- Header ---- */

static void encode_header(const struct log_segment *segment, uint8_t header[LOG_SEGMENT_HEADER_BYTES]) {
    memset(header, 0, LOG_SEGMENT_HEADER_BYTES);
    memcpy(header, magic, sizeof magic);
    coding_put_u32(header + 8, LOG_FORMAT_VERSION);
    coding_put_u32(header + 12, LOG_SEGMENT_HEADER_BYTES);
    coding_put_u64(header + 16, segment->generation);
    coding_put_u64(header + 24, segment->salt);
    coding_put_u64(header + 32, segment->size);
    coding_put_u64(header + 56, checksum(bytes_make(header, 56), 0));
}

static bool is_zero(const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (bytes[i])
            return false;
    return true;
}

fdb_error_t log_segment_read_header(struct os_file *file, struct log_segment *segment,
                                    const char **reason) {
    uint8_t header[LOG_SEGMENT_HEADER_BYTES] = {0};
    uint64_t file_size;
    size_t got;
    *reason = NULL;
    fdb_error_t error = os_file_size(file, &file_size);
    if (!error)
        error = os_file_read(file, 0, header, sizeof header, &got);
    if (error)
        return error;
    if (is_zero(header, sizeof header)) {
        *reason = "the segment header is missing";
        return ERROR_DATABASE_DAMAGED;
    }
    if (memcmp(header, magic, sizeof magic) != 0) {
        *reason = "not a Keel log segment (other magic)";
        return ERROR_FORMAT_FOREIGN;
    }
    if (coding_get_u32(header + 8) > LOG_FORMAT_VERSION) {
        *reason = "written in a newer format";
        return ERROR_FORMAT_NEWER;
    }
    bool whole = got == sizeof header && coding_get_u32(header + 12) == LOG_SEGMENT_HEADER_BYTES &&
                 coding_get_u64(header + 56) == checksum(bytes_make(header, 56), 0);
    if (whole && coding_get_u32(header + 8) < LOG_FORMAT_VERSION) {
        *reason = "written in an older format, which is no longer read";
        return ERROR_FORMAT_OLDER;
    }
    if (!whole) {
        *reason = "the segment header is damaged";
        return ERROR_DATABASE_DAMAGED;
    }
    uint64_t size = coding_get_u64(header + 32);
    if (file_size < size) { /* it had its full size before it had this header */
        *reason = "the file is shorter than its header says: records may be missing";
        return ERROR_DATABASE_DAMAGED;
    }
    segment->generation = coding_get_u64(header + 16);
    segment->salt = coding_get_u64(header + 24);
    segment->size = size & ~UINT64_C(7);
    return ERROR_SUCCESS;
}

/* ---- Records ---- */

static uint64_t record_seed(const struct log_segment *segment, uint64_t offset) {
    return segment->salt + offset;
}

static uint32_t header_checksum(const uint8_t *record, uint64_t seed) {
    return (uint32_t)checksum(bytes_make(record + 12, LOG_RECORD_HEADER_BYTES - 12), seed);
}

void log_record_seal(const struct log_segment *segment, uint64_t offset, const struct log_record *fields,
                     uint8_t *record) {
    uint64_t seed = record_seed(segment, offset);
    coding_put_u32(record + 12, (uint32_t)fields->payload.length);
    coding_put_u64(record + 16, segment->generation);
    coding_put_u64(record + 24, (uint64_t)fields->version);
    coding_put_u64(record + 32, (uint64_t)fields->previous_version);
    coding_put_u64(record + 40, (uint64_t)fields->synced_version);
    coding_put_u32(record + 8, header_checksum(record, seed));
    size_t covered = (size_t)log_record_bytes(fields->payload.length) - 8;
    coding_put_u64(record, checksum(bytes_make(record + 8, covered), seed));
}

enum log_record_state log_record_check_header(const struct log_segment *segment, uint64_t offset,
                                              const uint8_t *header, struct log_record *parsed) {
    if (is_zero(header, LOG_RECORD_HEADER_BYTES))
        return LOG_RECORD_ZERO;
    if (coding_get_u64(header + 16) != segment->generation)
        return LOG_RECORD_BAD_HEADER;
    if (coding_get_u32(header + 8) != header_checksum(header, record_seed(segment, offset)))
        return LOG_RECORD_BAD_HEADER;
    size_t length = coding_get_u32(header + 12);
    if (length > LOG_PAYLOAD_BYTES_MAX || log_record_bytes(length) > segment->size - offset)
        return LOG_RECORD_BAD_HEADER;
    *parsed = (struct log_record){
        .version = (int64_t)coding_get_u64(header + 24),
        .previous_version = (int64_t)coding_get_u64(header + 32),
        .synced_version = (int64_t)coding_get_u64(header + 40),
        .payload = bytes_make(NULL, length),
        .bytes = log_record_bytes(length),
    };
    return LOG_RECORD_VALID;
}

enum log_record_state log_record_check(const struct log_segment *segment, uint64_t offset,
                                       const uint8_t *record, struct log_record *parsed) {
    uint64_t sum = checksum(bytes_make(record + 8, (size_t)parsed->bytes - 8), record_seed(segment, offset));
    if (coding_get_u64(record) != sum)
        return LOG_RECORD_BAD_CHECKSUM;
    parsed->payload.data = record + LOG_RECORD_HEADER_BYTES;
    return LOG_RECORD_VALID;
}

/* ---- Making a segment ---- */

fdb_error_t log_sync_file(struct log *log, struct os_file *file) {
    return log->options.sync ? os_file_sync(file) : ERROR_SUCCESS;
}

fdb_error_t log_sync_directory(struct log *log) {
    return log->options.sync ? os_directory_sync(log->directory) : ERROR_SUCCESS;
}

void log_segment_free(struct log_segment *segment) {
    if (segment->file.descriptor >= 0)
        os_file_close(&segment->file);
    memory_free(segment);
}

/* Gives the open file at `path` the segment's header and then its name. On failure the name may or may not be the new one. */
static fdb_error_t publish(struct log *log, struct log_segment *segment, const char *path,
                           const char *final_path) {
    uint8_t start[LOG_SEGMENT_START_BYTES] = {0};
    encode_header(segment, start);
    fdb_error_t error = os_file_write(&segment->file, 0, bytes_make(start, sizeof start));
    if (!error)
        error = log_sync_file(log, &segment->file);
    if (!error)
        error = os_rename(path, final_path);
    if (!error)
        error = log_sync_directory(log);
    return error;
}

/*
 * Opens (or makes) the file at `path`, fills it up to the segment's size and publishes it. On failure
 * the file is gone under both names, if the system still lets us remove it: what is left is an empty
 * segment, a spare or a new- file, which the next open knows how to treat.
 */
static fdb_error_t raise_file(struct log *log, struct log_segment *segment, const char *path) {
    struct log_path final_path;
    log_segment_path(log, "log-", segment->generation, &final_path);
    fdb_error_t error = os_file_open(path, true, &segment->file);
    if (error)
        return error;
    error = os_file_preallocate(&segment->file, segment->size);
    if (!error)
        error = publish(log, segment, path, final_path.text);
    if (error) {
        os_file_close(&segment->file);
        if (os_remove(path) != 0)
            os_remove(final_path.text);
    }
    return error;
}

/* Takes the first spare that a record fits into off the list; NULL if there is none. */
static struct log_segment *take_spare(struct log *log, uint64_t record_bytes) {
    os_mutex_lock(&log->mutex);
    struct log_segment **link = &log->spares;
    while (*link && (*link)->size < LOG_SEGMENT_HEADER_BYTES + record_bytes)
        link = &(*link)->next;
    struct log_segment *spare = *link;
    if (spare) {
        *link = spare->next;
        spare->next = NULL;
        log->bytes -= spare->size;
    }
    os_mutex_unlock(&log->mutex);
    return spare;
}

static void begin_life(struct log *log, struct log_segment *segment) {
    os_mutex_lock(&log->mutex);
    segment->generation = ++log->generation_last;
    os_mutex_unlock(&log->mutex);
    os_random(&segment->salt, sizeof segment->salt);
    segment->last_version = INT64_MIN;
}

static void count_bytes(struct log *log, uint64_t bytes) {
    os_mutex_lock(&log->mutex);
    log->bytes += bytes;
    os_mutex_unlock(&log->mutex);
}

static fdb_error_t make_from_spare(struct log *log, struct log_segment *spare) {
    struct log_path path;
    log_segment_path(log, "spare-", spare->generation, &path);
    begin_life(log, spare);
    fdb_error_t error = raise_file(log, spare, path.text);
    if (error)
        memory_free(spare);
    else
        count_bytes(log, spare->size);
    return error;
}

static fdb_error_t make_new(struct log *log, uint64_t size, struct log_segment **made) {
    struct log_segment *segment = memory_allocate_zeroed(sizeof *segment);
    if (!segment)
        return ERROR_LARGE_ALLOC_FAILED;
    struct log_path path;
    begin_life(log, segment);
    segment->size = size;
    log_segment_path(log, "new-", segment->generation, &path);
    fdb_error_t error = raise_file(log, segment, path.text);
    if (error) {
        memory_free(segment);
        return error;
    }
    count_bytes(log, size);
    *made = segment;
    return ERROR_SUCCESS;
}

/* Removes every spare file; true if there were any. Their room may be just what is missing. */
static bool drop_spares(struct log *log) {
    bool any = false;
    struct log_segment *spare;
    while ((spare = take_spare(log, 0))) {
        struct log_path path;
        log_segment_path(log, "spare-", spare->generation, &path);
        if (os_remove(path.text) == 0)
            any = true;
        log_segment_free(spare);
    }
    return any;
}

fdb_error_t log_segment_make(struct log *log, uint64_t size, uint64_t record_bytes,
                             struct log_segment **segment) {
    struct log_segment *spare = take_spare(log, record_bytes);
    if (spare) {
        fdb_error_t error = make_from_spare(log, spare);
        if (!error)
            *segment = spare;
        return error;
    }
    uint64_t needed = LOG_SEGMENT_HEADER_BYTES + record_bytes;
    if (size < needed)
        size = (needed + 4095) & ~UINT64_C(4095);
    fdb_error_t error = make_new(log, size, segment);
    if (error == ERROR_DISK_FULL && drop_spares(log))
        error = make_new(log, size, segment);
    return error;
}
