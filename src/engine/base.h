/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base: everything the database held at one version, the base version, that lies at or below the horizon; while a large generation of the
 * window is on its way into it, also a part of that. On disk it is LMDB
 * (base_lmdb.c), for :memory: an ordered map in memory (base_memory.c). One writer, the checkpoint; any number of readers, each
 * with a snapshot of its own.
 */
#ifndef KEEL_ENGINE_BASE_H
#define KEEL_ENGINE_BASE_H

#include <stdatomic.h>

#include "util/bytes.h"
#include "util/error.h"

struct base;
struct base_snapshot;

struct base_methods {
    void (*close)(struct base *base);
    int64_t (*version)(struct base *base);
    uint64_t (*bytes)(struct base *base);
    uint64_t (*free_bytes)(struct base *base);

    fdb_error_t (*snapshot_create)(struct base *base, struct base_snapshot **snapshot);
    void (*snapshot_destroy)(struct base_snapshot *snapshot);
    fdb_error_t (*snapshot_renew)(struct base_snapshot *snapshot, int64_t *version);
    void (*snapshot_reset)(struct base_snapshot *snapshot);

    fdb_error_t (*get)(struct base_snapshot *snapshot, struct bytes key, struct bytes *value, bool *present);
    fdb_error_t (*seek)(struct base_snapshot *snapshot, struct bytes key, bool *found);
    fdb_error_t (*seek_before)(struct base_snapshot *snapshot, struct bytes key, bool *found);
    fdb_error_t (*next)(struct base_snapshot *snapshot, bool *found);
    fdb_error_t (*previous)(struct base_snapshot *snapshot, bool *found);
    fdb_error_t (*estimate_bytes)(struct base_snapshot *snapshot, struct bytes begin, struct bytes end, int64_t *bytes);

    fdb_error_t (*write_begin)(struct base *base);
    fdb_error_t (*write_set)(struct base *base, struct bytes key, struct bytes value);
    fdb_error_t (*write_clear)(struct base *base, struct bytes key);
    fdb_error_t (*write_clear_range)(struct base *base, struct bytes begin, struct bytes end);
    fdb_error_t (*write_commit)(struct base *base, int64_t version);
    void (*write_abort)(struct base *base);
    uint64_t (*write_pages)(struct base *base);

    fdb_error_t (*check)(struct base *base);
};

struct base {
    const struct base_methods *methods;
    _Atomic uint64_t damaged_reads; /* that met a row whose checksum does not match */
};

struct base_snapshot {
    const struct base_methods *methods;
    struct bytes key; /* the row the cursor stands on; the methods that move it leave it here, so that reading it costs no call */
    struct bytes value;
};

struct base_options {
    unsigned snapshots_max; /* how many snapshots may exist at once */
    bool sync;              /* write_commit waits for the disk */
};

/*
 * Opens or creates the LMDB environment in `directory`, which exists. Errors: FORMAT_FOREIGN or FORMAT_NEWER where the files are not ours, DATABASE_DAMAGED,
 * IO_ERROR, DISK_FULL; *message (util/memory) then says more, or is NULL.
 */
fdb_error_t base_lmdb_open(const char *directory, const struct base_options *options, struct base **base, char **message);
fdb_error_t base_memory_open(const struct base_options *options, struct base **base);

static inline void base_close(struct base *base) { base->methods->close(base); }

/* The version of the last write_commit, 0 in a fresh base. Any thread. */
static inline int64_t base_version(struct base *base) { return base->methods->version(base); }

/* Bytes in use on disk or in memory. Any thread. */
static inline uint64_t base_bytes(struct base *base) { return base->methods->bytes(base); }

/* Of these, what lies free and will be used again. Looks at the list of free pages: for people who ask. Any thread. */
static inline uint64_t base_free_bytes(struct base *base) { return base->methods->free_bytes(base); }

/*
 * A snapshot belongs to one thread at a time. It starts out reset: it must be renewed before use. Renewing takes what is committed now
 * and tells its version; resetting gives it back so that it pins nothing and costs nothing. Both are cheap (no lock, no allocation).
 * Renewing a live snapshot resets it first.
 */
static inline fdb_error_t base_snapshot_create(struct base *base, struct base_snapshot **snapshot) {
    return base->methods->snapshot_create(base, snapshot);
}
static inline void base_snapshot_destroy(struct base_snapshot *snapshot) { snapshot->methods->snapshot_destroy(snapshot); }
static inline fdb_error_t base_snapshot_renew(struct base_snapshot *snapshot, int64_t *version) {
    return snapshot->methods->snapshot_renew(snapshot, version);
}
static inline void base_snapshot_reset(struct base_snapshot *snapshot) { snapshot->methods->snapshot_reset(snapshot); }

/*
 * Reads of a damaged row fail with ROW_DAMAGED and leave a line in the log (os/log_line.h), once a key.
 *
 * Views returned by the calls below stay valid until the snapshot is renewed or reset (the key of a cursor: until it moves). */
static inline fdb_error_t base_get(struct base_snapshot *snapshot, struct bytes key, struct bytes *value, bool *present) {
    return snapshot->methods->get(snapshot, key, value, present);
}

/* A snapshot has one cursor. To the first key at or after `key`; *found is false past the last. */
static inline fdb_error_t base_seek(struct base_snapshot *snapshot, struct bytes key, bool *found) {
    return snapshot->methods->seek(snapshot, key, found);
}
/* To the last key before `key`. */
static inline fdb_error_t base_seek_before(struct base_snapshot *snapshot, struct bytes key, bool *found) {
    return snapshot->methods->seek_before(snapshot, key, found);
}
/* One on, one back. REQUIRES: the cursor stands on a row. */
static inline fdb_error_t base_next(struct base_snapshot *snapshot, bool *found) { return snapshot->methods->next(snapshot, found); }
static inline fdb_error_t base_previous(struct base_snapshot *snapshot, bool *found) { return snapshot->methods->previous(snapshot, found); }
/* The row the cursor stands on. */
static inline fdb_error_t base_current(struct base_snapshot *snapshot, struct bytes *key, struct bytes *value) {
    *key = snapshot->key;
    *value = snapshot->value;
    return ERROR_SUCCESS;
}

/* About the bytes of keys and values in a range: exact when it is small, extrapolated from samples or tree depth when large. */
static inline fdb_error_t base_estimate_bytes(struct base_snapshot *snapshot, struct bytes begin, struct bytes end, int64_t *bytes) {
    return snapshot->methods->estimate_bytes(snapshot, begin, end, bytes);
}

/*
 * One write transaction at a time, on one thread. Keys of 0 to 30,000 bytes, values of 0 to 100,000. After any error the caller aborts;
 * the base is as before the begin. write_commit stores the version in the same transaction. Calls come in key order, which an implementation may use.
 */
static inline fdb_error_t base_write_begin(struct base *base) { return base->methods->write_begin(base); }
static inline fdb_error_t base_write_set(struct base *base, struct bytes key, struct bytes value) { return base->methods->write_set(base, key, value); }
static inline fdb_error_t base_write_clear(struct base *base, struct bytes key) { return base->methods->write_clear(base, key); }
static inline fdb_error_t base_write_clear_range(struct base *base, struct bytes begin, struct bytes end) {
    return base->methods->write_clear_range(base, begin, end);
}
static inline fdb_error_t base_write_commit(struct base *base, int64_t version) { return base->methods->write_commit(base, version); }
static inline void base_write_abort(struct base *base) { base->methods->write_abort(base); }

/* About how many pages the sets of the write transaction have changed so far; 0 where its size is of no concern. */
static inline uint64_t base_write_pages(struct base *base) { return base->methods->write_pages(base); }

/* Reads everything and tests every invariant of the representation: DATABASE_DAMAGED where one is broken. Any thread, beside readers and the writer. */
static inline fdb_error_t base_check(struct base *base) { return base->methods->check(base); }

#endif
