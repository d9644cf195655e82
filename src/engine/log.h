/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: where a commit batch becomes durable. A sequence of records in preallocated segment files, each record one batch.
 * Records are appended and synced by one thread at a time (the commit pipeline); log_release may come from another.
 * docs/format.md describes the files.
 */
#ifndef KEEL_ENGINE_LOG_H
#define KEEL_ENGINE_LOG_H

#include "util/bytes.h"
#include "util/error.h"

struct log;

struct log_options {
    uint64_t segment_bytes; /* size of a segment file; a larger record gets a segment of its own size */
    bool sync;              /* false: commits do not wait for the disk (throw-away data) */
};

/* Called for every record in order; its error stops the replay. `payload` is valid during the call only. */
typedef fdb_error_t (*log_replay_function)(void *context, int64_t version, struct bytes payload);

/*
 * Opens the log in `directory` (made if missing), calls `replay` for every record newer than `after_version`, and leaves the log ready
 * to append after the last whole record. A torn tail (the last, never acknowledged batch) is dropped; a damaged record that valid ones
 * follow is DATABASE_DAMAGED, with the file, offset and reason in *message (malloc'ed through util/memory, or NULL).
 * A file with another magic is FORMAT_FOREIGN, a newer format FORMAT_NEWER. On failure nothing on disk was changed.
 */
fdb_error_t log_open(const char *directory, const struct log_options *options, int64_t after_version,
                     log_replay_function replay, void *context, struct log **log, char **message);

/*
 * Makes sure that a record of `payload_bytes` can be appended without needing new space on the disk. DISK_FULL or IO_ERROR: nothing
 * has changed, and the caller may try again later.
 */
fdb_error_t log_reserve(struct log *log, size_t payload_bytes);

/*
 * Writes one record. REQUIRES: version above all before; log_reserve for at least this size since the last append. The payload is given in
 * pieces that are joined. After an error the log is unusable until it is opened again.
 */
fdb_error_t log_append(struct log *log, int64_t version, const struct bytes *pieces, size_t piece_count);

/* Starts what log_sync will wait for, so that the caller can do something else meanwhile. */
void log_begin_sync(struct log *log);

/* Waits until everything appended is on disk. After an error the log is unusable until it is opened again. */
fdb_error_t log_sync(struct log *log);

/*
 * True once a segment: a good part of it is used, and somebody should call log_prepare, which makes the next one ready so that no commit has to. The first by the
 * thread that appends, the second by any other, as often as it likes; it does nothing where there is nothing to do.
 */
bool log_wants_next(struct log *log);
void log_prepare(struct log *log);

/*
 * Everything up to `version` is safe in the base: segments that hold nothing newer are kept for reuse (a few) or removed. Any thread.
 */
fdb_error_t log_release(struct log *log, int64_t version);

/* The bytes of all segment files. Any thread. */
uint64_t log_bytes(struct log *log);

/* Closes the files; does not sync. */
void log_close(struct log *log);

#endif
