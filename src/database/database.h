/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database interface: all that a transaction needs of the place where its data lives. The embedded engine implements it; a
 * database owned by another process will too.
 *
 * Every function may be called from any thread at once. Reads are answered before the call returns; commits and watches are
 * answered later by a callback, exactly once, from some thread of the database that holds no lock.
 */
#ifndef KEEL_DATABASE_DATABASE_H
#define KEEL_DATABASE_DATABASE_H

#include <stdatomic.h>

#include "database/mutation.h"
#include "util/rows.h"

struct database;

/* Rows of [begin, end) at `version`, in key order or backwards. */
struct range_request {
    int64_t version;
    struct bytes begin;
    struct bytes end;
    int row_limit;     /* at least 1 */
    size_t byte_limit; /* stop after the row that reaches it; SIZE_MAX for none */
    size_t row_cost;   /* what a row counts against it beside its key and value */
    bool reverse;
};

/*
 * A commit in flight. The caller fills in the first part, keeps everything it points to alive and unchanged, and
 * gets it back in `complete`. Read-only transactions never come here.
 */
struct commit_request {
    int64_t read_version; /* used only where there are read conflict ranges */
    const struct mutation *mutations;
    size_t mutation_count;
    const struct key_range *read_conflicts; /* any order, may overlap, none empty */
    size_t read_conflict_count;
    const struct key_range *write_conflicts; /* likewise; those of versionstamped keys are added by the database */
    size_t write_conflict_count;
    bool report_conflicts; /* fill in `conflicting` when the answer is NOT_COMMITTED */
    size_t size_bytes;     /* roughly what the above hold: batches are cut by it */

    /*
     * The answer. Called once, from a thread of the database or from one inside database_drive. May start another commit; must
     * not block. The request belongs to the caller again.
     */
    void (*complete)(struct commit_request *request, fdb_error_t error);

    int64_t committed_version; /* on success */
    uint16_t batch_order;      /* on success: with the version, the versionstamp */
    bool *conflicting;         /* one a read conflict range, owned by the caller; needed if report_conflicts */

    _Atomic uint64_t ticket; /* set by database_commit: what database_drive needs to know of the request */

    struct database *database;   /* the database's own, while in flight: itself, … */
    int64_t queued_ns;           /* … when it got the request … */
    void (*answer)(struct commit_request *request, fdb_error_t error); /* … and the caller's `complete` */

    struct commit_request *next; /* the database's own, while in flight */
    bool is_atomic;              /* likewise: has atomic operations */
    fdb_error_t error;           /* likewise */
};

/* A watch, owned by the caller until `fire` is called or database_unwatch has returned true. */
struct watch {
    struct bytes key;    /* stays valid while the watch is set */
    struct bytes value;  /* what the watcher believes to be there */
    bool present;        /* false: believes that the key is missing */
    void (*fire)(struct watch *watch, fdb_error_t error); /* 0: the value changed. Once, holding no lock; must not block. */
    void *links[4];      /* the database's own */
};

/* How long something took lately; `count` is how many were measured. */
struct latency_status {
    uint64_t count;
    int64_t p50_ns, p95_ns, p99_ns, max_ns;
};

/* What the status document and the keel command show. Totals since open, so that rates are the reader's business. */
struct database_status {
    char path[4096];
    int64_t read_version;
    int64_t base_version;
    int64_t horizon_version;
    uint64_t reads, rows_read, commits, conflicts, batches, mutations, mutation_bytes;
    uint64_t window_bytes, window_bytes_max, log_bytes, base_bytes, watch_count;
    uint64_t checkpoints;
    struct latency_status commit_latency; /* from database_commit to the answer, every one */
    struct latency_status read_latency;   /* of get and get_range, one in 64 */
    uint64_t base_free_bytes;             /* of base_bytes: pages that will be used again */
    uint64_t damaged_reads;               /* that met a row whose checksum does not match */
    uint64_t handle_count;                /* FDBDatabase objects that lead here */
    uint64_t connection_count;            /* of other processes */
    int64_t process_id;
    int64_t uptime_us;
    uint64_t pin_count;    /* long reads under way */
    int64_t oldest_pin_us; /* for how long the oldest one has been */
    bool durable, failed, in_memory, disk_full;
};

struct database_methods {
    void (*close)(struct database *database);
    fdb_error_t (*get_read_version)(struct database *database, int64_t *version);
    fdb_error_t (*check_read_version)(struct database *database, int64_t version);
    fdb_error_t (*get)(struct database *database, int64_t version, struct bytes key, struct arena *arena,
                       struct bytes *value, bool *present);
    fdb_error_t (*get_range)(struct database *database, const struct range_request *request, struct rows *rows,
                             bool *more);
    void (*commit)(struct database *database, struct commit_request *request);
    bool (*drive)(struct database *database, uint64_t ticket);
    void (*hurry)(struct database *database);
    fdb_error_t (*watch)(struct database *database, struct watch *watch);
    bool (*unwatch)(struct database *database, struct watch *watch);
    fdb_error_t (*estimate_bytes)(struct database *database, struct bytes begin, struct bytes end, int64_t *bytes);
    fdb_error_t (*pin)(struct database *database, int64_t version, struct database **pinned);
    void (*status)(struct database *database, struct database_status *status);
};

/* The head of every implementation. */
struct database {
    const struct database_methods *methods;
    _Atomic uint64_t handles; /* FDBDatabase objects that lead here: kept, and shown by the status, for who opens and shares it (api/engines.c) */
    _Atomic uint64_t connections; /* of other processes: likewise, for who serves it (remote/server.c) */
};

/*
 * Stops and frees the database. Commits in flight are answered first. REQUIRES: no other call under way or to come. (Transactions may let go
 * of their database inside its `complete` or `fire`: what they hold is a place, api/place.c, which passes that on from another thread.)
 */
static inline void database_close(struct database *database) { database->methods->close(database); }

/*
 * A version at which every commit acknowledged before the call is visible. Never lower than one handed out before.
 * Errors: DATABASE_FAILED.
 */
static inline fdb_error_t database_get_read_version(struct database *database, int64_t *version) {
    return database->methods->get_read_version(database, version);
}

/*
 * Whether a version that came from elsewhere can be read at: TRANSACTION_TOO_OLD below the horizon, FUTURE_VERSION above
 * what is readable now. After success the version is fixed: no later commit will change what it shows.
 */
static inline fdb_error_t database_check_read_version(struct database *database, int64_t version) {
    return database->methods->check_read_version(database, version);
}

/*
 * The value at a version that came from one of the two calls above, copied into `arena`.
 * Errors: TRANSACTION_TOO_OLD, IO_ERROR, LARGE_ALLOC_FAILED.
 */
static inline fdb_error_t database_get(struct database *database, int64_t version, struct bytes key,
                                       struct arena *arena, struct bytes *value, bool *present) {
    return database->methods->get(database, version, key, arena, value, present);
}

/*
 * Appends rows to `rows` until a limit or the range ends; *more is true if a limit ended it and a further row may
 * exist. begin >= end gives no rows. On failure `rows` may hold part of the answer. Errors as database_get.
 */
static inline fdb_error_t database_get_range(struct database *database, const struct range_request *request,
                                             struct rows *rows, bool *more) {
    return database->methods->get_range(database, request, rows, more);
}

/*
 * Starts a commit. The answer is NOT_COMMITTED, TRANSACTION_TOO_OLD, DISK_FULL, DATABASE_FAILED, LARGE_ALLOC_FAILED or success,
 * and success means durable. COMMIT_UNKNOWN_RESULT where a sync failed under it. Does not wait for anything; may do some of
 * the work for others that were started, too.
 */
static inline void database_commit(struct database *database, struct commit_request *request) {
    database->methods->commit(database, request);
}

/*
 * Waits for a commit by its ticket, which may long be answered: the calling thread has nothing else to do and may run the commit pipeline itself instead
 * of waking a thread. True: something has happened, or some milliseconds have passed; look whether the answer is there and call again if not. False: the
 * database has nothing more to do for this ticket; an answer that is not there yet comes without it. REQUIRES: the caller holds no lock.
 */
static inline bool database_drive(struct database *database, uint64_t ticket) {
    return database->methods->drive(database, ticket);
}

/* Tells the database that somebody waits for commits without blocking a thread, by a callback. */
static inline void database_hurry(struct database *database) { database->methods->hurry(database); }

/*
 * Sets a watch: fires when the committed value differs from what the watcher believes, at once if it does already (then
 * `fire` may be called before this returns). Errors: TOO_MANY_WATCHES is the caller's business; here LARGE_ALLOC_FAILED.
 */
static inline fdb_error_t database_watch(struct database *database, struct watch *watch) {
    return database->methods->watch(database, watch);
}

/* Takes a watch back. False: it has fired or is just firing; `fire` was or will be called. */
static inline bool database_unwatch(struct database *database, struct watch *watch) {
    return database->methods->unwatch(database, watch);
}

/* About how many bytes of keys and values lie in [begin, end). Cheap, not exact for large ranges. */
static inline fdb_error_t database_estimate_bytes(struct database *database, struct bytes begin, struct bytes end,
                                                  int64_t *bytes) {
    return database->methods->estimate_bytes(database, begin, end, bytes);
}

/*
 * The database as it is at a version that can be read now, readable there for as long as the caller likes: *pinned answers database_get and
 * database_get_range at that version, from one thread at a time, until database_close gives it back; its other calls are not there. At most
 * DATABASE_PINS_MAX at once: TOO_MANY_LONG_READS beyond. Errors also as database_check_read_version and database_get. REQUIRES: the database
 * outlives it.
 */
enum { DATABASE_PINS_MAX = 64 };
static inline fdb_error_t database_pin(struct database *database, int64_t version, struct database **pinned) {
    return database->methods->pin(database, version, pinned);
}

static inline void database_get_status(struct database *database, struct database_status *status) {
    database->methods->status(database, status);
}

#endif
