/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking the log: what log_recovery.c would make of it, without changing anything, and going on where that stops at the first damage. docs/format.md, "Reading a
 * log", has the rules.
 *
 *   1. Every segment has its header.
 *   2. The records that the base does not have yet form one chain: each names the version of the one before, through all segments.
 *   3. Every record in it can be taken apart into changes.
 *   4. Behind the end of the chain is nothing that proves that something before it was on disk once (vouches). What lies there otherwise is what
 *      unsynced batches have left.
 *   5. No version lies above what the lease allows.
 *
 * After a damaged record the next valid one is searched for and the walk goes on there, so that one damage does not hide the next.
 *
 * Threads: one. Failure: errors of the operating system end the check.
 */
#include <stdio.h>

#include "engine/batch.h"
#include "engine/check_internal.h"
#include "engine/log_internal.h"
#include "util/coding.h"
#include "util/memory.h"

enum { READ_CHUNK_BYTES = 256 * 1024 };

struct segment_check {
    struct log_segment segment; /* as log_segment_read_header fills it in */
    char name[40];              /* log/log-….keel */
    bool sound;                 /* its header is */
    struct segment_check *next;
};

struct log_check {
    struct check *check;
    struct segment_check *segments; /* by generation */

    /* A window on the file being read. */
    struct os_file file;
    struct segment_check *open;
    uint8_t *buffer;
    size_t buffer_bytes, window_bytes;
    uint64_t window_offset;

    /* The chain so far. */
    bool begun;
    int64_t last_version;
    uint64_t end_offset;        /* behind the last record … */
    struct segment_check *end;  /* … of this segment; NULL before the first */
    bool damaged;               /* the rest of the chain has no meaning for versions */
};

static const char LOST[] = "the database does not open; commits from here on are lost or in doubt: restore a backup";

static struct check_place place_of(const struct segment_check *segment, uint64_t offset) {
    return (struct check_place){segment->name, (int64_t)offset, NULL};
}

/* --- Reading --- */

static void close_segment(struct log_check *log) {
    if (log->open)
        os_file_close(&log->file);
    log->open = NULL;
    log->window_bytes = 0;
}

static fdb_error_t open_segment(struct log_check *log, struct segment_check *segment) {
    struct check_path path;
    if (log->open == segment)
        return ERROR_SUCCESS;
    close_segment(log);
    fdb_error_t error = check_join(log->check, segment->name, &path);
    if (!error)
        error = os_file_open_read(path.text, &log->file);
    if (error)
        return check_refuse(log->check, error, "%s", os_last_error());
    log->open = segment;
    return ERROR_SUCCESS;
}

/* Makes *bytes point to what lies at `offset` of the open segment, at least `length` bytes unless it ends. */
static fdb_error_t view(struct log_check *log, uint64_t offset, size_t length, const uint8_t **bytes, size_t *available) {
    if (offset < log->window_offset || offset - log->window_offset > log->window_bytes ||
        log->window_bytes - (size_t)(offset - log->window_offset) < length) {
        size_t wanted = length < READ_CHUNK_BYTES ? READ_CHUNK_BYTES : length;
        if (wanted > log->buffer_bytes) {
            uint8_t *larger = memory_resize(log->buffer, wanted);
            if (!larger)
                return ERROR_LARGE_ALLOC_FAILED;
            log->buffer = larger;
            log->buffer_bytes = wanted;
        }
        fdb_error_t error = os_file_read(&log->file, offset, log->buffer, wanted, &log->window_bytes);
        if (error) {
            log->window_bytes = 0;
            return check_refuse(log->check, error, "%s: %s", log->open->name, os_last_error());
        }
        log->window_offset = offset;
        error = check_advance(log->check, log->window_bytes);
        if (error)
            return error;
    }
    *bytes = log->buffer + (offset - log->window_offset);
    *available = log->window_bytes - (size_t)(offset - log->window_offset);
    return ERROR_SUCCESS;
}

/* What stands at an offset of the open segment. *record only if it is valid; its payload until the next view. */
static fdb_error_t record_at(struct log_check *log, uint64_t offset, enum log_record_state *state, struct log_record *record) {
    const struct log_segment *segment = &log->open->segment;
    const uint8_t *bytes;
    size_t available;
    *state = LOG_RECORD_ZERO;
    if (offset + LOG_RECORD_HEADER_BYTES > segment->size)
        return ERROR_SUCCESS;
    fdb_error_t error = view(log, offset, LOG_RECORD_HEADER_BYTES, &bytes, &available);
    if (error || available < LOG_RECORD_HEADER_BYTES)
        return error;
    *state = log_record_check_header(segment, offset, bytes, record);
    if (*state != LOG_RECORD_VALID)
        return ERROR_SUCCESS;
    error = view(log, offset, (size_t)record->bytes, &bytes, &available);
    if (error)
        return error;
    *state = available < record->bytes ? LOG_RECORD_BAD_CHECKSUM : log_record_check(segment, offset, bytes, record);
    return ERROR_SUCCESS;
}

/* Does this record, found behind the end of the chain, prove that something between them was on disk? */
static bool vouches(const struct log_check *log, const struct log_record *record) {
    return record->synced_version > log->last_version;
}

/*
 * Looks for a record at or behind `offset` of the open segment that vouches for what lies before it, or, where no chain has begun, that follows directly on the base
 * though something bad lies between. Its header is enough.
 */
static fdb_error_t find_witness(struct log_check *log, uint64_t offset, bool *found, uint64_t *witness) {
    const struct log_segment *segment = &log->open->segment;
    uint64_t torn_offset = offset; /* a torn record here follows on the chain, too */
    *found = false;
    for (; offset + LOG_RECORD_HEADER_BYTES <= segment->size; offset += 8) {
        const uint8_t *bytes;
        size_t available;
        struct log_record record;
        fdb_error_t error = view(log, offset, LOG_RECORD_HEADER_BYTES, &bytes, &available);
        if (error || available < LOG_RECORD_HEADER_BYTES)
            return error;
        if (coding_get_u64(bytes + 16) != segment->generation)
            continue;
        if (log_record_check_header(segment, offset, bytes, &record) == LOG_RECORD_VALID &&
            (vouches(log, &record) || (!log->begun && offset > torn_offset && record.previous_version <= log->last_version))) {
            *found = true;
            *witness = offset;
            return ERROR_SUCCESS;
        }
    }
    return ERROR_SUCCESS;
}

/* --- The directory --- */

static fdb_error_t add_segment(struct log_check *log, const char *name, uint64_t generation) {
    struct segment_check *segment = memory_allocate_zeroed(sizeof *segment);
    if (!segment)
        return ERROR_LARGE_ALLOC_FAILED;
    segment->segment.generation = generation;
    segment->segment.file.descriptor = -1;
    snprintf(segment->name, sizeof segment->name, "log/%.30s", name);
    struct segment_check **link = &log->segments;
    while (*link && (*link)->segment.generation < generation)
        link = &(*link)->next;
    segment->next = *link;
    *link = segment;
    return ERROR_SUCCESS;
}

static fdb_error_t check_spare(struct log_check *log, const char *name) {
    struct check_path path;
    struct os_file file;
    struct log_segment header;
    const char *reason = NULL;
    char below[40];
    snprintf(below, sizeof below, "log/%.30s", name);
    fdb_error_t error = check_join(log->check, below, &path);
    if (!error)
        error = os_file_open_read(path.text, &file);
    if (error)
        return check_refuse(log->check, error, "%s", os_last_error());
    error = log_segment_read_header(&file, &header, &reason);
    os_file_close(&file);
    if (error && reason)
        check_report(log->check, CHECK_NOTE, "log-spare", (struct check_place){below, 0, NULL}, "the file is not used: it may be removed",
                     "a spare segment: %s", reason);
    return ERROR_SUCCESS;
}

static fdb_error_t visit(void *context, const char *name) {
    struct log_check *log = context;
    uint64_t generation;
    if (log_segment_parse_name(name, "log-", &generation))
        return add_segment(log, name, generation);
    if (log_segment_parse_name(name, "spare-", &generation))
        return check_spare(log, name);
    char below[300];
    snprintf(below, sizeof below, "log/%.280s", name);
    bool unfinished = log_segment_parse_name(name, "new-", &generation);
    check_report(log->check, CHECK_NOTE, unfinished ? "directory-leftover" : "log-file", (struct check_place){below, -1, NULL},
                 unfinished ? "the next open removes it" : "Keel leaves it alone",
                 unfinished ? "a segment that was being made and never finished" : "not a file of the log");
    return ERROR_SUCCESS;
}

static fdb_error_t check_headers(struct log_check *log) {
    for (struct segment_check *at = log->segments; at; at = at->next) {
        uint64_t generation = at->segment.generation, size = 0;
        const char *reason = NULL;
        fdb_error_t error = open_segment(log, at);
        if (error)
            return error;
        log->check->summary->log_segments++;
        if (os_file_size(&log->file, &size) == ERROR_SUCCESS)
            log->check->summary->log_bytes += size;
        error = log_segment_read_header(&log->file, &at->segment, &reason);
        if (error == ERROR_FORMAT_NEWER || error == ERROR_FORMAT_OLDER)
            return check_refuse(log->check, error, "%s: %s", at->name, reason);
        if (error && !reason)
            return check_refuse(log->check, error, "%s: %s", at->name, os_last_error());
        if (!error && at->segment.generation != generation) {
            reason = "the segment header belongs to another file";
            error = ERROR_DATABASE_DAMAGED;
        }
        at->segment.generation = generation;
        at->sound = !error;
        if (error)
            check_report(log->check, CHECK_DAMAGE, "log-header", place_of(at, 0), LOST, "%s", reason);
    }
    return ERROR_SUCCESS;
}

/* --- The chain --- */

/* The newest segment that begins with what the base has, or the first that begins with a record at all; NULL: there is none. */
static fdb_error_t choose_start(struct log_check *log, struct segment_check **start) {
    struct check_summary *summary = log->check->summary;
    struct segment_check *oldest = NULL, *chosen = NULL;
    int64_t oldest_previous = 0;
    for (struct segment_check *at = log->segments; at; at = at->next) {
        enum log_record_state state;
        struct log_record record;
        if (!at->sound)
            continue;
        fdb_error_t error = open_segment(log, at);
        if (!error)
            error = record_at(log, LOG_SEGMENT_HEADER_BYTES, &state, &record);
        if (error)
            return error;
        if (state != LOG_RECORD_VALID)
            continue;
        if (!oldest) {
            oldest = at;
            oldest_previous = record.previous_version;
        }
        if (!summary->base_version_known || record.previous_version <= summary->base_version)
            chosen = summary->base_version_known || !chosen ? at : chosen;
    }
    if (oldest && !chosen)
        check_report(log->check, CHECK_DAMAGE, "log-gap", place_of(oldest, LOG_SEGMENT_HEADER_BYTES), LOST,
                     "the log begins after version %lld, but the base ends at version %lld: an older segment or its first record is missing",
                     (long long)oldest_previous, (long long)summary->base_version);
    *start = chosen ? chosen : oldest;
    return ERROR_SUCCESS;
}

static void check_payload(struct log_check *log, uint64_t offset, const struct log_record *record) {
    struct change change;
    size_t at = 0;
    fdb_error_t error = ERROR_SUCCESS;
    while (batch_next(record->payload, &at, &change, &error))
        continue;
    if (error)
        check_report(log->check, CHECK_DAMAGE, "log-payload", place_of(log->open, offset), LOST,
                     "the record of version %lld matches its checksum but does not hold changes", (long long)record->version);
}

static void accept(struct log_check *log, uint64_t offset, const struct log_record *record) {
    if (log->begun && !log->damaged && record->previous_version != log->last_version)
        check_report(log->check, CHECK_DAMAGE, "log-chain", place_of(log->open, offset), LOST,
                     "the record of version %lld follows version %lld, but the one before it is of version %lld: one is damaged or missing",
                     (long long)record->version, (long long)record->previous_version, (long long)log->last_version);
    check_payload(log, offset, record);
    log->begun = true;
    log->damaged = false;
    log->last_version = record->version;
    log->end = log->open;
    log->end_offset = offset + record->bytes;
    log->check->summary->log_records++;
}

static void report_bad_record(struct log_check *log, uint64_t offset, enum log_record_state state, uint64_t witness) {
    log->damaged = true;
    check_report(log->check, CHECK_DAMAGE, "log-record", place_of(log->open, offset), LOST,
                 "%s, but the record at offset %llu shows that it was on disk",
                 state == LOG_RECORD_BAD_CHECKSUM ? "the record's checksum does not match" : "no valid record header", (unsigned long long)witness);
}

/* Whether a valid record where the chain goes on is a part of it, right or wrong, or was left behind by a batch that was lost. */
static bool belongs(const struct log_check *log, const struct log_record *record) {
    return !log->begun || log->damaged || record->previous_version == log->last_version || vouches(log, record);
}

/* Follows the records of one segment. *rest is where its valid records end. */
static fdb_error_t walk_segment(struct log_check *log, struct segment_check *segment, uint64_t *rest, enum log_record_state *rest_state) {
    uint64_t offset = LOG_SEGMENT_HEADER_BYTES, search_from = 0;
    fdb_error_t error = open_segment(log, segment);
    while (!error) {
        struct log_record record;
        error = record_at(log, offset, rest_state, &record);
        if (error)
            return error;
        if (*rest_state == LOG_RECORD_VALID && belongs(log, &record)) {
            accept(log, offset, &record);
            offset += record.bytes;
            continue;
        }
        *rest = offset;
        bool unused = *rest_state == LOG_RECORD_ZERO && offset == LOG_SEGMENT_HEADER_BYTES;
        bool found = false;
        uint64_t witness = 0;
        if (!unused)
            error = find_witness(log, offset > search_from ? offset : search_from, &found, &witness);
        if (error || !found)
            return error;
        report_bad_record(log, offset, *rest_state, witness);
        offset = witness;
        search_from = witness + 8; /* a witness that is torn itself has been heard */
    }
    return error;
}

/* Through all segments from the start. Where one has ended, the next that has a record must go on with the chain, which accept looks at. */
static fdb_error_t walk(struct log_check *log, struct segment_check *start) {
    struct segment_check *torn = NULL;
    uint64_t torn_offset = 0;
    for (struct segment_check *at = start; at; at = at->next) {
        uint64_t rest = 0;
        enum log_record_state state = LOG_RECORD_ZERO;
        if (!at->sound) {
            log->damaged = true;
            continue;
        }
        fdb_error_t error = walk_segment(log, at, &rest, &state);
        if (error)
            return error;
        if (log->end == at)
            torn = NULL;
        if ((state == LOG_RECORD_BAD_CHECKSUM || state == LOG_RECORD_VALID) && !torn) { /* no valid header means nothing: an earlier use of the file leaves such */
            torn = at;
            torn_offset = rest;
        }
    }
    if (torn)
        check_report(log->check, CHECK_NOTE, "log-tail", place_of(torn, torn_offset), "the next open drops it: nobody was told of it",
                     "behind the last record lies what is left of one that was being written");
    return ERROR_SUCCESS;
}

static void check_versions(struct log_check *log, int64_t ceiling) {
    struct check_summary *summary = log->check->summary;
    summary->log_version = log->begun ? log->last_version : summary->base_version;
    if (log->begun && summary->base_version_known && log->last_version < summary->base_version)
        check_report(log->check, CHECK_DAMAGE, "log-record", place_of(log->end, log->end_offset),
                     "nothing is lost, for the base has them; but the disk does not keep what it was given",
                     "the log ends at version %lld, but the base is at version %lld: the last records are damaged", (long long)log->last_version,
                     (long long)summary->base_version);
    int64_t highest = summary->log_version > summary->base_version ? summary->log_version : summary->base_version;
    if (highest > ceiling)
        check_report(log->check, CHECK_DAMAGE, "lease-behind", (struct check_place){"clock.keel", -1, NULL},
                     "versions could be handed out twice; the next open starts above both, which mends it",
                     "the lease ends at version %lld, but version %lld was committed", (long long)ceiling, (long long)highest);
}

fdb_error_t check_log(struct check *check, int64_t ceiling) {
    const struct check_summary *summary = check->summary;
    struct log_check log = {.check = check, .last_version = summary->base_version_known ? summary->base_version : INT64_MIN};
    struct check_path path;
    struct segment_check *start = NULL;
    fdb_error_t error = check_join(check, "log", &path);
    if (!error) {
        error = os_directory_list(path.text, visit, &log);
        if (error && error != ERROR_LARGE_ALLOC_FAILED)
            check_refuse(check, error, "%s", os_last_error());
    }
    if (!error)
        error = check_headers(&log);
    if (!error)
        error = choose_start(&log, &start);
    if (!error)
        error = walk(&log, start ? start : log.segments);
    if (!error && !log.segments && (!check->summary->base_version_known || check->summary->base_version > 0))
        check_report(check, CHECK_DAMAGE, "log-missing", (struct check_place){"log", -1, NULL}, LOST,
                     "no log segment is left, but the base is at version %lld", (long long)check->summary->base_version);
    if (!error)
        check_versions(&log, ceiling);
    close_segment(&log);
    memory_free(log.buffer);
    while (log.segments) {
        struct segment_check *next = log.segments->next;
        memory_free(log.segments);
        log.segments = next;
    }
    return error;
}
