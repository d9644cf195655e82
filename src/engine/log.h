/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: where a commit batch becomes durable. A sequence of records in preallocated segment files, each record one batch.
 * Records are appended by one thread at a time (the leader of the commit pipeline); several may be on their way to the disk together, each
 * synced by a thread of its own; log_release may come from yet another.
 * docs/format.md describes the files.
 */
#ifndef KEEL_ENGINE_LOG_H
#define KEEL_ENGINE_LOG_H

#include "util/bytes.h"
#include "util/error.h"

struct log;

/* How many records may be unsynced at a time, and how many threads sync. */
enum { LOG_LANES_MAX = 2 };

struct log_options {
    uint64_t segment_bytes; /* size of a segment file; a larger record gets a segment of its own size */
    bool sync;              /* false: commits do not wait for the disk (throw-away data) */
};

/* Called for every record in order; its error stops the replay. `payload` is valid during the call only. */
typedef fdb_error_t (*log_replay_function)(void *context, int64_t version, struct bytes payload);

/*
 * Opens the log in `directory` (made if missing), calls `replay` for every record newer than `after_version`, and leaves the log ready
 * to append after the last whole record. A torn tail (the last batches, never acknowledged) is dropped; a damaged record that was once known to
 * be synced is DATABASE_DAMAGED, with the file, offset and reason in *message (malloc'ed through util/memory, or NULL).
 * A file with another magic is FORMAT_FOREIGN, another format FORMAT_NEWER or FORMAT_OLDER. On failure nothing on disk was changed.
 */
fdb_error_t log_open(const char *directory, const struct log_options *options, int64_t after_version,
                     log_replay_function replay, void *context, struct log **log, char **message);

/* True if a record of this size fits behind the last one. Of the appending thread. */
bool log_has_room(const struct log *log, size_t payload_bytes);

/*
 * Makes sure that a record of `payload_bytes` can be appended without needing new space on the disk. DISK_FULL or IO_ERROR: nothing
 * has changed, and the caller may try again later. REQUIRES: log_has_room, or no other thread is in log_sync.
 */
fdb_error_t log_reserve(struct log *log, size_t payload_bytes);

/*
 * Writes one record. REQUIRES: version above all before; log_reserve for at least this size since the last append; fewer than LOG_LANES_MAX records
 * are unsynced. The payload is given in pieces that are joined. After an error the log is unusable until it is opened again.
 */
fdb_error_t log_append(struct log *log, int64_t version, const struct bytes *pieces, size_t piece_count);

/* Starts what log_sync will wait for, so that the caller can do something else meanwhile. Of the appending thread. */
void log_begin_sync(struct log *log);

/*
 * Waits until the record `version` and all before it are on disk. Any thread, as long as no two are in the same lane (below LOG_LANES_MAX) at the same
 * time. After an error the log is unusable until it is opened again; what became of records whose log_sync has not returned is unknown.
 */
fdb_error_t log_sync(struct log *log, int64_t version, unsigned lane);

/*
 * Everything up to `version` is safe in the base: segments that hold nothing newer are kept for reuse (a few) or removed. Any thread.
 */
fdb_error_t log_release(struct log *log, int64_t version);

/* The bytes of all segment files. Any thread. */
uint64_t log_bytes(struct log *log);

/* Closes the files; does not sync. */
void log_close(struct log *log);

#endif
