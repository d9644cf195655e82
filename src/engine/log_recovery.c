/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a log: what was committed before the process ended, or the machine did, is read back and
 * handed to the engine, and the log is made ready to go on.
 *
 *   1. list     names in the directory; every log- file's header is checked, and the first record
 *               behind it looked at
 *   2. choose   the newest segment whose first record follows a version that the base has: all
 *               before it is in the base and need not be read
 *   3. walk     from there record by record, each naming the version of the one before. Where a
 *               segment has no further valid record the chain must go on with the first record of a later one
 *               (no segment at all is right only while the base is empty: a log keeps its last one)
 *   4. verify   where the chain ends, nothing valid may lie behind: what has a valid record after it was
 *               synced once, so it is damage; what has none is the torn last batch, which nobody was told of
 *   5. settle   the last record is written again with zeros behind it, and synced; so is the directory
 *
 * Up to 4 nothing of the log changes, so one that is refused is left as it was found. The engine may
 * have moved records that do not fit in memory to the base by then, but never the last one.
 *
 * Why 5. The last record may have been read from memory that never reached the disk (the process
 * ended before its sync, or its sync failed); once we show it to readers it must stay. A sync alone
 * is not enough: after a failed one the kernel takes the pages for clean. And a torn record must not
 * come back: the zeros make sure of it, even where a mirrored disk reads differently the next time.
 * A process that was killed between renaming a file and syncing the directory leaves a segment or
 * a spare whose name is in memory only; it must be on disk before a record goes there.
 *
 * Threads: called by log_open, alone. Failure: *message names file, offset and reason.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/log_internal.h"
#include "util/coding.h"
#include "util/memory.h"

enum { READ_CHUNK_BYTES = 256 * 1024, MESSAGE_BYTES = 1024 };

struct recovery {
    struct log *log;
    int64_t after_version;
    log_replay_function replay;
    void *context;
    char **message;
    bool directory_exists;

    /* A window on the file of the segment that is being read. */
    struct log_segment *segment;
    uint8_t *buffer;
    size_t buffer_bytes;
    uint64_t window_offset;
    size_t window_bytes;

    /* The chain so far. */
    struct log_segment *end_segment; /* where the last valid record is; NULL before the first */
    uint64_t end_offset;             /* right behind it */
    uint64_t last_offset;            /* where it begins */
    int64_t last_version;
    struct log_segment *suspect; /* a segment since then whose first record is there, but not valid */
};

static void explain(struct recovery *recovery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void explain(struct recovery *recovery, const char *format, ...) {
    if (*recovery->message)
        return;
    char *text = memory_allocate(MESSAGE_BYTES);
    if (!text)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    *recovery->message = text;
}

/* For an error of the operating system or memory. */
static fdb_error_t explain_system(struct recovery *recovery, fdb_error_t error) {
    if (error && error != ERROR_LARGE_ALLOC_FAILED)
        explain(recovery, "%s", os_last_error());
    return error;
}

static const char *segment_path(struct recovery *recovery, const struct log_segment *segment,
                                struct log_path *path) {
    log_segment_path(recovery->log, "log-", segment->generation, path);
    return path->text;
}

/* ---- Reading ---- */

/* Begins reading another segment: opens its file if it is not open. */
static fdb_error_t open_segment(struct recovery *recovery, struct log_segment *segment) {
    struct log_path path;
    if (recovery->segment != segment)
        recovery->window_bytes = 0;
    recovery->segment = segment;
    if (segment->file.descriptor >= 0)
        return ERROR_SUCCESS;
    fdb_error_t error =
        os_file_open(segment_path(recovery, segment, &path), false, &segment->file);
    return explain_system(recovery, error);
}

static void close_segment(struct log_segment *segment) {
    if (segment->file.descriptor >= 0)
        os_file_close(&segment->file);
}

/*
 * Makes *bytes point to what lies at `offset`: at least `length` bytes, in *available, unless the segment ends.
 * Valid until the next call.
 */
static fdb_error_t view(struct recovery *recovery, uint64_t offset, size_t length, uint8_t **bytes,
                        size_t *available) {
    uint64_t left = recovery->segment->size - offset;
    size_t wanted = left < length ? (size_t)left : length;
    uint64_t skip = offset - recovery->window_offset;
    if (offset < recovery->window_offset || skip > recovery->window_bytes ||
        recovery->window_bytes - skip < wanted) {
        size_t chunk = wanted < READ_CHUNK_BYTES ? READ_CHUNK_BYTES : wanted;
        if (chunk > recovery->buffer_bytes) {
            uint8_t *buffer = memory_allocate(chunk);
            if (!buffer)
                return ERROR_LARGE_ALLOC_FAILED;
            memory_free(recovery->buffer);
            recovery->buffer = buffer;
            recovery->buffer_bytes = chunk;
        }
        recovery->window_bytes = 0;
        size_t got, request = left < chunk ? (size_t)left : chunk;
        fdb_error_t error =
            os_file_read(&recovery->segment->file, offset, recovery->buffer, request, &got);
        if (error)
            return explain_system(recovery, error);
        recovery->window_offset = offset;
        recovery->window_bytes = got;
        skip = 0;
    }
    *bytes = recovery->buffer + skip;
    *available = recovery->window_bytes - (size_t)skip;
    return ERROR_SUCCESS;
}

/* What stands at `offset`; *record only if it is valid, its payload until the next view. */
static fdb_error_t read_record(struct recovery *recovery, uint64_t offset,
                               enum log_record_state *state, struct log_record *record) {
    uint8_t *bytes;
    size_t available, payload_bytes;
    *state = LOG_RECORD_ZERO;
    if (offset + LOG_RECORD_HEADER_BYTES > recovery->segment->size)
        return ERROR_SUCCESS;
    fdb_error_t error = view(recovery, offset, LOG_RECORD_HEADER_BYTES, &bytes, &available);
    if (error || available < LOG_RECORD_HEADER_BYTES)
        return error;
    *state = log_record_check_header(recovery->segment, offset, bytes, &payload_bytes);
    if (*state != LOG_RECORD_VALID)
        return ERROR_SUCCESS;
    size_t record_bytes = (size_t)log_record_bytes(payload_bytes);
    error = view(recovery, offset, record_bytes, &bytes, &available);
    if (error)
        return error;
    *state = LOG_RECORD_BAD_CHECKSUM;
    if (available >= record_bytes)
        *state = log_record_check(recovery->segment, offset, bytes, payload_bytes, record);
    return ERROR_SUCCESS;
}

/* Looks for a valid record at or behind `offset` of the segment being read. */
static fdb_error_t find_record(struct recovery *recovery, uint64_t offset, bool *found,
                               uint64_t *found_offset) {
    *found = false;
    while (offset + LOG_RECORD_HEADER_BYTES <= recovery->segment->size) {
        uint8_t *bytes;
        size_t available;
        fdb_error_t error = view(recovery, offset, LOG_RECORD_HEADER_BYTES, &bytes, &available);
        if (error || available < LOG_RECORD_HEADER_BYTES)
            return error;
        size_t places = (available - LOG_RECORD_HEADER_BYTES) / 8 + 1, place = 0;
        while (place < places &&
               coding_get_u64(bytes + place * 8 + 16) != recovery->segment->generation)
            place++;
        offset += place * 8;
        if (place == places)
            continue;
        enum log_record_state state;
        struct log_record record;
        error = read_record(recovery, offset, &state, &record);
        if (error)
            return error;
        if (state == LOG_RECORD_VALID) {
            *found = true;
            *found_offset = offset;
            return ERROR_SUCCESS;
        }
        offset += 8;
    }
    return ERROR_SUCCESS;
}

/* ---- 1. List ---- */

static fdb_error_t add_segment(struct recovery *recovery, struct log_segment **list,
                               uint64_t generation) {
    struct log_segment *segment = memory_allocate_zeroed(sizeof *segment);
    if (!segment)
        return ERROR_LARGE_ALLOC_FAILED;
    segment->generation = generation;
    segment->file.descriptor = -1;
    segment->last_version = INT64_MIN;
    while (*list && (*list)->generation < generation)
        list = &(*list)->next;
    segment->next = *list;
    *list = segment;
    if (generation > recovery->log->generation_last)
        recovery->log->generation_last = generation;
    return ERROR_SUCCESS;
}

static fdb_error_t visit_name(void *context, const char *name) {
    struct recovery *recovery = context;
    uint64_t generation;
    if (log_segment_parse_name(name, "log-", &generation))
        return add_segment(recovery, &recovery->log->segments, generation);
    if (log_segment_parse_name(name, "spare-", &generation))
        return add_segment(recovery, &recovery->log->spares, generation);
    return ERROR_SUCCESS;
}

/* Checks the header of the segment being read against its name. */
static fdb_error_t check_header(struct recovery *recovery, struct log_segment *segment) {
    struct log_path path;
    uint64_t generation = segment->generation;
    const char *reason;
    fdb_error_t error = log_segment_read_header(&segment->file, segment, &reason);
    if (!error && segment->generation != generation) {
        segment->generation = generation;
        reason = "the segment header belongs to another file";
        error = ERROR_DATABASE_DAMAGED;
    }
    if (error && reason)
        explain(recovery, "%s: offset 0: %s", segment_path(recovery, segment, &path), reason);
    return explain_system(recovery, error);
}

static fdb_error_t list_segments(struct recovery *recovery) {
    struct log *log = recovery->log;
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(log->directory, &kind);
    if (error || kind == OS_PATH_MISSING)
        return explain_system(recovery, error);
    if (kind != OS_PATH_DIRECTORY) {
        explain(recovery, "%s: not a directory", log->directory);
        return ERROR_FORMAT_FOREIGN;
    }
    recovery->directory_exists = true;
    error = os_directory_list(log->directory, visit_name, recovery);
    if (error)
        return explain_system(recovery, error);
    for (struct log_segment *segment = log->segments; segment; segment = segment->next) {
        error = open_segment(recovery, segment);
        if (!error)
            error = check_header(recovery, segment);
        close_segment(segment);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

/* ---- 2. Choose ---- */

/* The first record of a segment. */
static fdb_error_t first_record(struct recovery *recovery, struct log_segment *segment,
                                enum log_record_state *state, struct log_record *record) {
    fdb_error_t error = open_segment(recovery, segment);
    if (!error)
        error = read_record(recovery, LOG_SEGMENT_HEADER_BYTES, state, record);
    close_segment(segment);
    return error;
}

/* The oldest readable segment begins after what the base holds. */
static fdb_error_t refuse_start(struct recovery *recovery, struct log_segment *oldest,
                                int64_t previous_version) {
    struct log_path path;
    if (recovery->suspect)
        explain(recovery, "%s: offset %d: the first record is damaged, and later segments follow",
                segment_path(recovery, recovery->suspect, &path), LOG_SEGMENT_HEADER_BYTES);
    else
        explain(recovery,
                "%s: offset %d: the log begins after version %lld, but the base ends at version"
                " %lld: an older segment is missing",
                segment_path(recovery, oldest, &path), LOG_SEGMENT_HEADER_BYTES,
                (long long)previous_version, (long long)recovery->after_version);
    return ERROR_DATABASE_DAMAGED;
}

/* Nothing in the segments before this one can be newer than `version`. */
static void limit_versions_before(struct log *log, struct log_segment *segment, int64_t version) {
    for (struct log_segment *before = log->segments; before != segment; before = before->next)
        if (before->last_version == INT64_MIN)
            before->last_version = version;
}

/* Also notes for every segment the newest version it can hold, as far as a later one tells. */
static fdb_error_t choose_start(struct recovery *recovery, struct log_segment **start) {
    struct log_segment *oldest = NULL;
    int64_t oldest_previous = 0;
    *start = NULL;
    for (struct log_segment *segment = recovery->log->segments; segment; segment = segment->next) {
        enum log_record_state state;
        struct log_record record;
        fdb_error_t error = first_record(recovery, segment, &state, &record);
        if (error)
            return error;
        if (!oldest && state != LOG_RECORD_ZERO && state != LOG_RECORD_VALID)
            recovery->suspect = segment;
        if (state != LOG_RECORD_VALID)
            continue;
        if (!oldest) {
            oldest = segment;
            oldest_previous = record.previous_version;
        }
        if (record.previous_version <= recovery->after_version)
            *start = segment;
        limit_versions_before(recovery->log, segment, record.previous_version);
    }
    if (oldest && !*start)
        return refuse_start(recovery, oldest, oldest_previous);
    recovery->suspect = NULL;
    return ERROR_SUCCESS;
}

/* ---- 3. Walk ---- */

static fdb_error_t accept_record(struct recovery *recovery, uint64_t offset,
                                 const struct log_record *record) {
    recovery->end_segment = recovery->segment;
    recovery->last_offset = offset;
    recovery->end_offset = offset + record->bytes;
    recovery->last_version = record->version;
    recovery->suspect = NULL;
    if (record->version <= recovery->after_version || !recovery->replay)
        return ERROR_SUCCESS;
    return recovery->replay(recovery->context, record->version, record->payload);
}

static fdb_error_t refuse_chain(struct recovery *recovery, uint64_t offset,
                                const struct log_record *record) {
    struct log_path path, end_path;
    struct log_segment *end = recovery->end_segment;
    uint64_t end_offset = recovery->end_offset;
    if (recovery->suspect) {
        end = recovery->suspect;
        end_offset = LOG_SEGMENT_HEADER_BYTES;
    }
    explain(recovery,
            "%s: offset %llu: a damaged or missing record: after version %lld the log continues in"
            " %s, offset %llu, with a record that follows version %lld",
            segment_path(recovery, end, &end_path), (unsigned long long)end_offset,
            (long long)recovery->last_version,
            segment_path(recovery, recovery->segment, &path), (unsigned long long)offset,
            (long long)record->previous_version);
    return ERROR_DATABASE_DAMAGED;
}

/* Follows the chain through one segment, up to the first place that holds no valid record. */
static fdb_error_t walk_segment(struct recovery *recovery, struct log_segment *segment) {
    fdb_error_t error = open_segment(recovery, segment);
    uint64_t offset = LOG_SEGMENT_HEADER_BYTES;
    while (!error) {
        enum log_record_state state;
        struct log_record record;
        error = read_record(recovery, offset, &state, &record);
        if (error)
            break;
        if (state != LOG_RECORD_VALID) {
            if (offset == LOG_SEGMENT_HEADER_BYTES && state != LOG_RECORD_ZERO)
                recovery->suspect = segment;
            break;
        }
        if (recovery->end_segment && record.previous_version != recovery->last_version)
            error = refuse_chain(recovery, offset, &record);
        else
            error = accept_record(recovery, offset, &record);
        offset += record.bytes;
    }
    close_segment(segment);
    return error;
}

static fdb_error_t walk(struct recovery *recovery, struct log_segment *start) {
    fdb_error_t error = ERROR_SUCCESS;
    for (struct log_segment *segment = start; segment && !error; segment = segment->next)
        error = walk_segment(recovery, segment);
    return error;
}

/* ---- 4. Verify ---- */

static fdb_error_t refuse_damage(struct recovery *recovery, uint64_t offset, uint64_t found_offset) {
    struct log_path path;
    enum log_record_state state;
    struct log_record record;
    fdb_error_t error = read_record(recovery, offset, &state, &record);
    if (error)
        return error;
    const char *reason = "no valid record header";
    if (state == LOG_RECORD_BAD_CHECKSUM)
        reason = "the record's checksum does not match";
    explain(recovery, "%s: offset %llu: %s, and a valid record follows at offset %llu",
            segment_path(recovery, recovery->segment, &path), (unsigned long long)offset, reason,
            (unsigned long long)found_offset);
    return ERROR_DATABASE_DAMAGED;
}

/*
 * Nothing valid may follow the end of the chain. A later segment whose first record's place is zero
 * was never written to (see log_segment.c, invariant 4) and is not searched.
 */
static fdb_error_t verify_end(struct recovery *recovery) {
    struct log *log = recovery->log;
    struct log_segment *segment = recovery->end_segment;
    uint64_t offset = recovery->end_offset;
    if (!segment) {
        segment = log->segments;
        offset = LOG_SEGMENT_HEADER_BYTES;
    }
    for (; segment; segment = segment->next, offset = LOG_SEGMENT_HEADER_BYTES) {
        bool found = false;
        uint64_t found_offset = 0;
        enum log_record_state state;
        struct log_record record;
        fdb_error_t error = open_segment(recovery, segment);
        if (!error)
            error = read_record(recovery, offset, &state, &record);
        bool unused = !error && state == LOG_RECORD_ZERO && offset == LOG_SEGMENT_HEADER_BYTES;
        if (!error && !unused)
            error = find_record(recovery, offset, &found, &found_offset);
        if (!error && found)
            error = refuse_damage(recovery, offset, found_offset);
        close_segment(segment);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

/* ---- 5. Settle ---- */

/* Writes the `length` bytes at `offset` of the segment being read again, followed by zeros for one record header. */
static fdb_error_t rewrite(struct recovery *recovery, uint64_t offset, size_t length) {
    struct log_segment *segment = recovery->segment;
    uint64_t left = segment->size - offset - length;
    size_t zeros = left < LOG_RECORD_HEADER_BYTES ? (size_t)left : LOG_RECORD_HEADER_BYTES;
    uint8_t *bytes;
    size_t available;
    fdb_error_t error = view(recovery, offset, length + zeros, &bytes, &available);
    if (error)
        return error;
    if (available < length + zeros)
        return ERROR_IO_ERROR; /* the file shrinks under us */
    memset(bytes + length, 0, zeros);
    return explain_system(
        recovery, os_file_write(&segment->file, offset, bytes_make(bytes, length + zeros)));
}

/* Wipes the torn first record of a segment behind the end of the chain. */
static fdb_error_t wipe_first(struct recovery *recovery, struct log_segment *segment) {
    enum log_record_state state;
    struct log_record record;
    fdb_error_t error = open_segment(recovery, segment);
    if (!error)
        error = read_record(recovery, LOG_SEGMENT_HEADER_BYTES, &state, &record);
    if (error || state == LOG_RECORD_ZERO)
        return error;
    error = rewrite(recovery, LOG_SEGMENT_HEADER_BYTES, 0);
    return error ? error : explain_system(recovery, log_sync_file(recovery->log, &segment->file));
}

/* Makes durable what was replayed; leaves the segments from the current one on open. */
static fdb_error_t settle(struct recovery *recovery, struct log_segment *start) {
    struct log *log = recovery->log;
    struct log_segment *end = recovery->end_segment;
    fdb_error_t error = ERROR_SUCCESS;
    for (struct log_segment *segment = start; end && !error && segment != end->next;
         segment = segment->next) {
        error = open_segment(recovery, segment);
        if (!error && segment == end) {
            size_t length = (size_t)(recovery->end_offset - recovery->last_offset);
            error = rewrite(recovery, recovery->last_offset, length);
        }
        if (!error)
            error = explain_system(recovery, log_sync_file(log, &segment->file));
        if (segment != end)
            close_segment(segment);
    }
    struct log_segment *behind = end ? end->next : log->segments;
    for (; behind && !error; behind = behind->next)
        error = wipe_first(recovery, behind);
    return error;
}

static fdb_error_t visit_unfinished(void *context, const char *name) {
    struct recovery *recovery = context;
    uint64_t generation;
    if (log_segment_parse_name(name, "new-", &generation)) {
        struct log_path path;
        log_segment_path(recovery->log, "new-", generation, &path);
        os_remove(path.text); /* no harm if it stays */
    }
    return ERROR_SUCCESS;
}

/* Keeps the spares that are whole; others are left alone. */
static void adopt_spares(struct recovery *recovery) {
    struct log *log = recovery->log;
    for (struct log_segment **link = &log->spares; *link;) {
        struct log_segment *spare = *link, header;
        struct log_path path;
        const char *reason;
        log_segment_path(log, "spare-", spare->generation, &path);
        fdb_error_t error = os_file_open(path.text, false, &spare->file);
        if (!error)
            error = log_segment_read_header(&spare->file, &header, &reason);
        close_segment(spare);
        if (error) {
            *link = spare->next;
            log_segment_free(spare);
            continue;
        }
        spare->size = header.size;
        log->bytes += spare->size;
        link = &spare->next;
    }
}

/* Sets the log's own fields from what was found. */
static void resume(struct recovery *recovery) {
    struct log *log = recovery->log;
    log->current = recovery->end_segment ? recovery->end_segment : log->segments;
    uint64_t offset = recovery->end_segment ? recovery->end_offset : LOG_SEGMENT_HEADER_BYTES;
    atomic_store(&log->offset, offset);
    log->last_version = recovery->end_segment ? recovery->last_version : recovery->after_version;
    for (struct log_segment *segment = log->segments; segment; segment = segment->next)
        log->bytes += segment->size;
}

fdb_error_t log_recover(struct log *log, int64_t after_version, log_replay_function replay,
                        void *context, char **message) {
    struct recovery recovery = {
        .log = log,
        .after_version = after_version,
        .replay = replay,
        .context = context,
        .message = message,
    };
    struct log_segment *start = NULL;
    fdb_error_t error = list_segments(&recovery);
    if (!error)
        error = choose_start(&recovery, &start);
    if (!error)
        error = walk(&recovery, start);
    if (!error)
        error = verify_end(&recovery);
    if (!error && !log->segments && after_version > 0) {
        explain(&recovery, "%s: no log segment is left, but the base is at version %lld", log->directory,
                (long long)after_version);
        error = ERROR_DATABASE_DAMAGED;
    }
    if (!error && log->segments)
        error = settle(&recovery, start);
    if (!error && recovery.directory_exists)
        error = os_directory_list(log->directory, visit_unfinished, &recovery);
    if (!error && recovery.directory_exists) {
        adopt_spares(&recovery);
        error = explain_system(&recovery, log_sync_directory(log));
    }
    if (!error)
        resume(&recovery);
    memory_free(recovery.buffer);
    return error;
}
