/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three files of the log share: log.c (append, rotate, release), log_segment.c (one segment file: header, records, birth and
 * retirement) and log_recovery.c (opening what is there). The format is in docs/format.md; log_segment.c repeats it.
 */
#ifndef KEEL_ENGINE_LOG_INTERNAL_H
#define KEEL_ENGINE_LOG_INTERNAL_H

#include <stdatomic.h>

#include "engine/log.h"
#include "os/file.h"
#include "os/thread.h"

enum {
    LOG_FORMAT_VERSION = 1,
    LOG_SEGMENT_HEADER_BYTES = 64,
    LOG_SEGMENT_START_BYTES = 512, /* what giving a segment its generation overwrites: header, and zeros where the first record goes */
    LOG_RECORD_HEADER_BYTES = 40,
    LOG_SEGMENT_BYTES_MIN = 4096,
    LOG_FIRST_SEGMENT_BYTES = 1 << 18,
    LOG_SEGMENT_GROWTH = 4,
    LOG_SPARES_MIN = 4,
    LOG_PATH_BYTES = 4096,
};

#define LOG_PAYLOAD_BYTES_MAX ((size_t)1 << 30)

struct log_segment {
    uint64_t generation;
    uint64_t salt;
    uint64_t size;        /* bytes of the file that may hold records */
    int64_t last_version; /* no record here is newer; set when the segment stops being current */
    struct os_file file;  /* open (descriptor >= 0) for the current segment and those prepared after it */
    struct log_segment *next;
};

struct log {
    char *directory;
    struct log_options options;

    /* The appending thread's own. */
    uint8_t *buffer; /* where a record is put together */
    size_t buffer_bytes;
    int64_t last_version; /* of the last record */
    bool unsynced;        /* the current segment holds a record that was not synced */
    bool asked; /* log_wants_next was true for the current segment */
    bool failed;          /* a write or sync failed: nothing more is taken */
    uint64_t append_offset; /* where the last record begins */
    _Atomic uint64_t offset; /* where the next record goes; written by the appending thread, read by log_release */

    os_mutex rotation; /* held, across I/O, by whoever makes or retires segments; taken before `mutex` */
    os_mutex mutex;    /* the lists below; never held across I/O */
    struct log_segment *segments; /* by generation: retired-to-be ..., current, prepared ... */
    struct log_segment *current;  /* changed by the appending thread only, which may read it without the mutex */
    struct log_segment *spares;   /* files kept for reuse */
    uint64_t generation_last;     /* the newest number ever given to a segment */
    uint64_t bytes;
};

struct log_path {
    char text[LOG_PATH_BYTES];
};

/* What stands at some offset of a segment. */
enum log_record_state { LOG_RECORD_VALID, LOG_RECORD_ZERO, LOG_RECORD_BAD_HEADER, LOG_RECORD_BAD_CHECKSUM };

struct log_record {
    int64_t version;
    int64_t previous_version;
    struct bytes payload;
    uint64_t bytes; /* the whole record with padding */
};

/* ---- log_segment.c ---- */

/* "log-", "spare-" or "new-" with 16 hexadecimal digits and ".keel" in the log's directory. */
void log_segment_path(const struct log *log, const char *kind, uint64_t generation, struct log_path *path);

/* True and the number if `name` is such a name of this kind. */
bool log_segment_parse_name(const char *name, const char *kind, uint64_t *generation);

/* Reads and checks the header of an open file. Fills generation, salt and size. *reason (static text) explains an error that is not one of I/O. */
fdb_error_t log_segment_read_header(struct os_file *file, struct log_segment *segment, const char **reason);

/*
 * Makes a segment with a new generation, named and synced and open, that can take a record of `record_bytes`: from a spare, or as a new
 * file of at least `size`. DISK_FULL, IO_ERROR, LARGE_ALLOC_FAILED: no file was added. REQUIRES: `rotation` held, `mutex` not.
 */
fdb_error_t log_segment_make(struct log *log, uint64_t size, uint64_t record_bytes, struct log_segment **segment);

/* Frees the structure and closes the file if it is open. */
void log_segment_free(struct log_segment *segment);

/* Syncs, unless the log is for throw-away data. */
fdb_error_t log_sync_file(struct log *log, struct os_file *file);
fdb_error_t log_sync_directory(struct log *log);

static inline uint64_t log_record_bytes(size_t payload_bytes) {
    return ((uint64_t)payload_bytes + LOG_RECORD_HEADER_BYTES + 7) & ~UINT64_C(7);
}

/* Completes the record of record_bytes in `record`, whose payload and padding are in place. */
void log_record_seal(const struct log_segment *segment, uint64_t offset, int64_t version, int64_t previous_version,
                     size_t payload_bytes, uint8_t *record);

/* Looks at a record header; *payload_bytes only if VALID. The payload has not been looked at. */
enum log_record_state log_record_check_header(const struct log_segment *segment, uint64_t offset, const uint8_t *header,
                                              size_t *payload_bytes);

/* Looks at a whole record whose header is valid. */
enum log_record_state log_record_check(const struct log_segment *segment, uint64_t offset, const uint8_t *record,
                                       size_t payload_bytes, struct log_record *parsed);

/* ---- log_recovery.c ---- */

/* log_open's work on what is in the directory: fills segments, current, spares, offset, last_version, generation_last and bytes. */
fdb_error_t log_recover(struct log *log, int64_t after_version, log_replay_function replay, void *context, char **message);

#endif
