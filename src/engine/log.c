/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: the one place where a commit waits for the disk. The commit pipeline reserves room for a
 * batch, appends it as one record with one write, and syncs it with one fdatasync; only then is
 * anything acknowledged. When the checkpoint has brought a version into the base, log_release lets
 * go of the segments up to it.
 *
 * Segments stand in one list by generation:
 *
 *     full ─ full ─ ... ─ current ─ prepared
 *
 * Records go to the current one. When a record does not fit, log_reserve moves on to the prepared
 * one, or makes one there and then; log_prepare makes the next one ahead of time, from a segment that
 * was retired or as a new file, so that a commit seldom pays for it (log_wants_next). The very first segment is
 * small, so that a fresh database opens at once, and each new one is larger until segment_bytes.
 *
 * Invariants:
 *
 *   1. All that log_append needs (room in the file, memory for the record) is got by log_reserve; so a full
 *      disk is met there, where nothing has happened yet.
 *   2. A record is synced before the next one is written, so that after a crash at most the last is
 *      torn; and each names the version of the one before, so that none can be missing in between.
 *   3. A segment that is not current is never written to again until it has been retired.
 *   4. Only segments before the current one, with nothing newer than the released version, retire.
 *   5. After a failed write or sync nothing is appended (`failed`): what the disk holds is unknown.
 *
 * Threads: reserve, append and sync by one thread at a time, and none of them takes a lock unless
 * the segment changes. log_release and log_bytes from any. Lock order: rotation, mutex.
 *
 * Failure: see invariants 1 and 5. log_release may fail half-way; what it could not rename or remove stays
 * in the list and is tried again.
 */
#include "engine/log.h"

#include <assert.h>
#include <stdio.h>

#include "engine/log_internal.h"
#include "util/memory.h"

enum { BUFFER_BYTES_MIN = 64 * 1024, BUFFER_BYTES_KEPT = 4 * 1024 * 1024 };

/* ---- Opening and closing ---- */

static void set_message(char **message, const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = memory_allocate(length);
    if (copy)
        memcpy(copy, text, length);
    *message = copy;
}

static struct log *create(const char *directory, const struct log_options *options) {
    struct log *log = memory_allocate_zeroed(sizeof *log);
    size_t length = strlen(directory) + 1;
    char *copy = memory_allocate(length);
    if (!log || !copy) {
        memory_free(log);
        memory_free(copy);
        return NULL;
    }
    memcpy(copy, directory, length);
    log->directory = copy;
    log->options = *options;
    if (log->options.segment_bytes < LOG_SEGMENT_BYTES_MIN)
        log->options.segment_bytes = LOG_SEGMENT_BYTES_MIN;
    log->options.segment_bytes &= ~UINT64_C(4095);
    os_mutex_init(&log->rotation);
    os_mutex_init(&log->mutex);
    return log;
}

static void free_list(struct log_segment *segment) {
    while (segment) {
        struct log_segment *next = segment->next;
        log_segment_free(segment);
        segment = next;
    }
}

void log_close(struct log *log) {
    free_list(log->segments);
    free_list(log->spares);
    os_mutex_destroy(&log->mutex);
    os_mutex_destroy(&log->rotation);
    memory_free(log->buffer);
    memory_free(log->directory);
    memory_free(log);
}

/* The size for the next new segment. */
static uint64_t next_segment_bytes(const struct log *log) {
    uint64_t size = LOG_FIRST_SEGMENT_BYTES;
    if (log->current)
        size = log->current->size * LOG_SEGMENT_GROWTH;
    if (size < LOG_FIRST_SEGMENT_BYTES)
        size = LOG_FIRST_SEGMENT_BYTES;
    return size < log->options.segment_bytes ? size : log->options.segment_bytes;
}

/* The first segment of a log that has none. */
static fdb_error_t make_first(struct log *log, int64_t after_version) {
    fdb_error_t error = os_directory_create(log->directory);
    if (error)
        return error;
    struct log_segment *segment;
    error = log_segment_make(log, next_segment_bytes(log), 0, &segment);
    if (error)
        return error;
    log->segments = log->current = segment;
    log->last_version = after_version;
    atomic_store(&log->offset, LOG_SEGMENT_HEADER_BYTES);
    return ERROR_SUCCESS;
}

fdb_error_t log_open(const char *directory, const struct log_options *options, int64_t after_version,
                     log_replay_function replay, void *context, struct log **log, char **message) {
    char *ignored = NULL;
    char **text = message ? message : &ignored;
    *text = NULL;
    if (strlen(directory) > LOG_PATH_BYTES - 64) {
        set_message(text, "the log's path is too long");
        return ERROR_IO_ERROR;
    }
    struct log *opened = create(directory, options);
    if (!opened)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = log_recover(opened, after_version, replay, context, text);
    if (!error && !opened->current) {
        error = make_first(opened, after_version);
        if (error)
            set_message(text, os_last_error());
    }
    if (error) {
        log_close(opened);
    } else {
        *log = opened;
    }
    memory_free(ignored);
    return error;
}

/* ---- Reserving ---- */

static fdb_error_t reserve_buffer(struct log *log, uint64_t record_bytes) {
    if (record_bytes <= log->buffer_bytes)
        return ERROR_SUCCESS;
    size_t size = BUFFER_BYTES_MIN;
    while (size < record_bytes)
        size *= 2;
    uint8_t *buffer = memory_allocate(size);
    if (!buffer)
        return ERROR_LARGE_ALLOC_FAILED;
    memory_free(log->buffer);
    log->buffer = buffer;
    log->buffer_bytes = size;
    return ERROR_SUCCESS;
}

/* Under the mutex: makes `segment`, which follows the current one, the current one. */
static void switch_to(struct log *log, struct log_segment *segment) {
    for (struct log_segment *passed = log->current; passed != segment; passed = passed->next) {
        passed->last_version = log->last_version;
        if (passed->file.descriptor >= 0)
            os_file_close(&passed->file);
    }
    log->current = segment;
    log->asked = false;
    atomic_store_explicit(&log->offset, LOG_SEGMENT_HEADER_BYTES, memory_order_relaxed);
}

/* Moves on to a prepared segment that is large enough, if there is one. */
static bool switch_to_prepared(struct log *log, uint64_t record_bytes) {
    os_mutex_lock(&log->mutex);
    struct log_segment *segment = log->current->next;
    while (segment && segment->size < LOG_SEGMENT_HEADER_BYTES + record_bytes)
        segment = segment->next;
    if (segment)
        switch_to(log, segment);
    os_mutex_unlock(&log->mutex);
    return segment != NULL;
}

/* Under the mutex: a segment just made has the highest generation and goes to the end. */
static void append_segment(struct log *log, struct log_segment *segment) {
    struct log_segment *last = log->current;
    while (last->next)
        last = last->next;
    last->next = segment;
}

/* Moves on to another segment for a record that does not fit into what is left of the current one. */
static fdb_error_t rotate(struct log *log, uint64_t record_bytes) {
    if (log->unsynced) {
        fdb_error_t error = log_sync(log);
        if (error)
            return error;
    }
    if (switch_to_prepared(log, record_bytes))
        return ERROR_SUCCESS;
    os_mutex_lock(&log->rotation);
    fdb_error_t error = ERROR_SUCCESS;
    /* One may have been prepared while we waited. */
    if (!switch_to_prepared(log, record_bytes)) {
        struct log_segment *segment;
        error = log_segment_make(log, next_segment_bytes(log), record_bytes, &segment);
        if (!error) {
            os_mutex_lock(&log->mutex);
            append_segment(log, segment);
            switch_to(log, segment);
            os_mutex_unlock(&log->mutex);
        }
    }
    os_mutex_unlock(&log->rotation);
    return error;
}

fdb_error_t log_reserve(struct log *log, size_t payload_bytes) {
    assert(payload_bytes <= LOG_PAYLOAD_BYTES_MAX);
    if (log->failed)
        return ERROR_DATABASE_FAILED;
    uint64_t record_bytes = log_record_bytes(payload_bytes);
    fdb_error_t error = reserve_buffer(log, record_bytes);
    if (error)
        return error;
    uint64_t offset = atomic_load_explicit(&log->offset, memory_order_relaxed);
    if (record_bytes <= log->current->size - offset)
        return ERROR_SUCCESS;
    return rotate(log, record_bytes);
}

/* ---- Appending ---- */

/* Joins the pieces behind the place of the header, pads, and returns the payload's length. */
static size_t assemble(struct log *log, const struct bytes *pieces, size_t piece_count) {
    size_t length = 0;
    for (size_t i = 0; i < piece_count; i++) {
        assert(pieces[i].length <= log->buffer_bytes - LOG_RECORD_HEADER_BYTES - length);
        if (pieces[i].length > 0)
            memcpy(log->buffer + LOG_RECORD_HEADER_BYTES + length, pieces[i].data, pieces[i].length);
        length += pieces[i].length;
    }
    size_t end = LOG_RECORD_HEADER_BYTES + length;
    memset(log->buffer + end, 0, (size_t)log_record_bytes(length) - end);
    return length;
}

fdb_error_t log_append(struct log *log, int64_t version, const struct bytes *pieces,
                       size_t piece_count) {
    if (log->failed)
        return ERROR_DATABASE_FAILED;
    assert(version > log->last_version);
    struct log_segment *segment = log->current;
    uint64_t offset = atomic_load_explicit(&log->offset, memory_order_relaxed);
    size_t payload_bytes = assemble(log, pieces, piece_count);
    uint64_t record_bytes = log_record_bytes(payload_bytes);
    assert(record_bytes <= segment->size - offset);
    log_record_seal(segment, offset, version, log->last_version, payload_bytes, log->buffer);

    struct bytes record = bytes_make(log->buffer, (size_t)record_bytes);
    fdb_error_t error = os_file_write(&segment->file, offset, record);
    if (error) {
        log->failed = true;
        return error;
    }
    log->unsynced = true;
    log->append_offset = offset;
    log->last_version = version;
    atomic_store_explicit(&log->offset, offset + record_bytes, memory_order_relaxed);
    if (log->buffer_bytes > BUFFER_BYTES_KEPT) {
        memory_free(log->buffer);
        log->buffer = NULL;
        log->buffer_bytes = 0;
    }
    return ERROR_SUCCESS;
}

void log_begin_sync(struct log *log) {
    if (!log->options.sync || !log->unsynced || log->failed)
        return;
    uint64_t end = atomic_load_explicit(&log->offset, memory_order_relaxed);
    os_file_begin_sync(&log->current->file, log->append_offset, end - log->append_offset);
}

fdb_error_t log_sync(struct log *log) {
    if (log->failed)
        return ERROR_DATABASE_FAILED;
    if (!log->unsynced)
        return ERROR_SUCCESS;
    fdb_error_t error = log_sync_file(log, &log->current->file);
    if (error) {
        log->failed = true;
        return error;
    }
    log->unsynced = false;
    return ERROR_SUCCESS;
}

/* ---- Releasing ---- */

/* How many spares to keep, and of what sizes: as many as are in use, for the next burst to be like the last. */
struct spare_limits {
    unsigned room; /* how many more */
    uint64_t size_min;
    uint64_t size_max;
};

/* Under the mutex: counts what is in use and says how many spares are wanted beside it. */
static unsigned set_limits(struct log *log, struct spare_limits *limits) {
    unsigned in_use = 0;
    for (struct log_segment *segment = log->segments; segment; segment = segment->next)
        in_use++;
    limits->size_min = next_segment_bytes(log);
    limits->size_max = log->options.segment_bytes;
    return in_use > LOG_SPARES_MIN ? in_use : LOG_SPARES_MIN;
}

static bool is_good_spare(const struct log_segment *segment, const struct spare_limits *limits) {
    return segment->size >= limits->size_min && segment->size <= limits->size_max;
}

/* Takes off the list what `version` releases; tells how many spares are wanted. */
static struct log_segment *take_released(struct log *log, int64_t version,
                                         struct spare_limits *limits) {
    struct log_segment *released = NULL, **released_end = &released;
    os_mutex_lock(&log->mutex);
    while (log->segments != log->current && log->segments->last_version <= version) {
        struct log_segment *segment = log->segments;
        log->segments = segment->next;
        segment->next = NULL;
        *released_end = segment;
        released_end = &segment->next;
    }
    limits->room = set_limits(log, limits);
    for (struct log_segment *spare = log->spares; spare && limits->room > 0; spare = spare->next)
        limits->room--;
    os_mutex_unlock(&log->mutex);
    return released;
}

/* Renames the file to a spare's name, or removes it. *kept tells which. */
static fdb_error_t retire(struct log *log, struct log_segment *segment, struct spare_limits *limits,
                          bool *kept) {
    struct log_path path, spare_path;
    log_segment_path(log, "log-", segment->generation, &path);
    *kept = limits->room > 0 && is_good_spare(segment, limits);
    if (!*kept)
        return os_remove(path.text);
    log_segment_path(log, "spare-", segment->generation, &spare_path);
    fdb_error_t error = os_rename(path.text, spare_path.text);
    if (!error)
        limits->room--;
    return error;
}

static void put_back(struct log *log, struct log_segment *released) {
    struct log_segment **end = &released;
    while (*end)
        end = &(*end)->next;
    os_mutex_lock(&log->mutex);
    *end = log->segments;
    log->segments = released;
    os_mutex_unlock(&log->mutex);
}

/* Retires a list of segments; what became a spare is returned in *spares, what failed is put back. */
static fdb_error_t retire_all(struct log *log, struct log_segment *released,
                              struct spare_limits *limits, struct log_segment **spares) {
    while (released) {
        bool kept;
        fdb_error_t error = retire(log, released, limits, &kept);
        if (error) {
            put_back(log, released);
            return error;
        }
        struct log_segment *segment = released;
        released = segment->next;
        if (kept) {
            segment->next = *spares;
            *spares = segment;
        } else {
            os_mutex_lock(&log->mutex);
            log->bytes -= segment->size;
            os_mutex_unlock(&log->mutex);
            log_segment_free(segment);
        }
    }
    return ERROR_SUCCESS;
}

/*
 * Offers retired files for reuse, once their new names are on disk: a header of a new life in a file
 * that a crash brings back under its old name would look like damage. Where the directory cannot be
 * synced the files are left to the next open.
 */
static fdb_error_t offer_spares(struct log *log, struct log_segment *spares) {
    if (!spares)
        return ERROR_SUCCESS;
    fdb_error_t error = log_sync_directory(log);
    os_mutex_lock(&log->mutex);
    while (spares) {
        struct log_segment *segment = spares;
        spares = segment->next;
        if (error) {
            log->bytes -= segment->size;
            log_segment_free(segment);
        } else {
            segment->next = log->spares;
            log->spares = segment;
        }
    }
    os_mutex_unlock(&log->mutex);
    return error;
}

/* Removes the files of spares that are too many or, since segments grow, too small by now. */
static void trim_spares(struct log *log) {
    struct log_segment *surplus = NULL;
    struct spare_limits limits;
    os_mutex_lock(&log->mutex);
    unsigned left = set_limits(log, &limits);
    for (struct log_segment **link = &log->spares; *link;) {
        struct log_segment *spare = *link;
        if (left > 0 && is_good_spare(spare, &limits)) {
            left--;
            link = &spare->next;
            continue;
        }
        *link = spare->next;
        spare->next = surplus;
        surplus = spare;
        log->bytes -= spare->size;
    }
    os_mutex_unlock(&log->mutex);
    while (surplus) {
        struct log_segment *spare = surplus;
        struct log_path path;
        surplus = spare->next;
        log_segment_path(log, "spare-", spare->generation, &path);
        os_remove(path.text); /* one that stays is found by the next open */
        log_segment_free(spare);
    }
}

static bool is_quarter_full(struct log *log) {
    return atomic_load_explicit(&log->offset, memory_order_relaxed) >= log->current->size / 4;
}

bool log_wants_next(struct log *log) {
    if (log->asked || !is_quarter_full(log))
        return false;
    log->asked = true;
    return true;
}

/* What goes wrong is left to log_reserve to meet and report. */
void log_prepare(struct log *log) {
    os_mutex_lock(&log->rotation);
    os_mutex_lock(&log->mutex);
    bool wanted = !log->current->next && is_quarter_full(log);
    uint64_t size = next_segment_bytes(log);
    os_mutex_unlock(&log->mutex);
    struct log_segment *segment;
    if (wanted && log_segment_make(log, size, 0, &segment) == 0) {
        os_mutex_lock(&log->mutex);
        append_segment(log, segment);
        os_mutex_unlock(&log->mutex);
    }
    os_mutex_unlock(&log->rotation);
}

fdb_error_t log_release(struct log *log, int64_t version) {
    os_mutex_lock(&log->rotation);
    struct spare_limits limits;
    struct log_segment *spares = NULL;
    struct log_segment *released = take_released(log, version, &limits);
    fdb_error_t error = retire_all(log, released, &limits, &spares);
    fdb_error_t offer_error = offer_spares(log, spares);
    trim_spares(log);
    os_mutex_unlock(&log->rotation);
    return error ? error : offer_error;
}

uint64_t log_bytes(struct log *log) {
    os_mutex_lock(&log->mutex);
    uint64_t bytes = log->bytes;
    os_mutex_unlock(&log->mutex);
    return bytes;
}
