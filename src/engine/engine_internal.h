/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine's own files share: the state of an open database. Reading order: engine.c (open and close), commit.c over prepare.c (the write path),
 * read.c over readers.c (the read path), pin.c (long reads), checkpoint.c (from the window to the base).
 *
 * The window and the appending end of the log belong to the thread that leads the pipeline, the resolver to the one that prepares. Locks, in the order
 * in which they may be taken: pipeline.prepare_lock, pipeline.lock, checkpoint_lock, then those inside the parts (clock, window, log, watches). None is
 * held while waiting for the disk, except lease_lock (the leader and the checkpoint wait for it) and prepare_lock (the leader does).
 */
#ifndef KEEL_ENGINE_INTERNAL_H
#define KEEL_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "engine/base.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/latency.h"
#include "engine/lease.h"
#include "engine/log.h"
#include "engine/readers.h"
#include "engine/resolver.h"
#include "engine/version_clock.h"
#include "engine/watches.h"
#include "engine/window.h"
#include "os/thread.h"

/* How far above the present version the ceiling on disk is raised at a time: ten minutes. */
#define LEASE_VERSIONS (600LL * VERSIONS_PER_SECOND)

/* Where the threads that wait for a batch sleep. */
struct batch_answer {
    _Atomic uint32_t announcements; /* the word they sleep on */
    _Atomic bool pass_on;           /* the first one to wake shall wake the others */
};
enum { ANSWERS_MAX = 8 };

/* What the leader knows of its clients: see gather in commit.c. */
struct gathering {
    unsigned clients;     /* that were seen at work: the commits of the last batch and those that waited behind it */
    int64_t sync_us;      /* how long that batch waited for the disk */
    int64_t answered_us;  /* and when it was answered */
    unsigned pause;       /* batches for which nobody is waited for, after it was in vain */
    unsigned pause_left;  /* of these, still to come */
};

enum { ATOMIC_KEYS_BITS = 4096 };

/* A batch on its way from the queue to the disk: see prepare.c. Kept between batches to save allocations. */
struct prepared_batch {
    int64_t version;         /* 0: it has none, and nothing was built */
    struct commit_request *requests, **requests_end; /* in commit order */
    unsigned request_count;
    size_t request_bytes;    /* by their size_bytes */
    uint16_t commit_count;   /* of those that have not failed */
    fdb_error_t outcome;     /* of those that have not failed by themselves */
    struct batch batch;      /* what those that have not failed change */
    struct arena arena;      /* values of atomic operations, stamped keys and values */
    struct window *overlay;  /* the batch so far, for atomic operations on keys it has changed itself; NULL until needed */
    uint64_t atomic_keys[ATOMIC_KEYS_BITS / 64]; /* a bit for the hash of each key that an atomic operation of the batch is on */
    struct change *changes;  /* the batch once more, decoded, for the window */
    size_t change_capacity;
};

/* The queue of commits and the right to work on it. */
struct pipeline {
    os_mutex lock;
    struct commit_request *head, **tail; /* waiting and not prepared, oldest first */
    _Atomic unsigned queued; /* how many those are and are in the next batch; changed under the lock */
    uint64_t arrivals;   /* commits ever queued */
    bool leading;       /* some thread is running batches */
    _Atomic unsigned drivers; /* threads in engine_drive: they block on their commits */
    bool urgent;        /* the committer thread shall not wait for a driver to show up */
    bool asleep;        /* the committer thread sleeps and must be woken by the next commit */
    bool stopping;
    os_condition work;  /* wakes the committer thread */
    os_condition room;  /* wakes a leader that waits for the window to shrink */
    os_condition gathered; /* wakes a leader that waits for gather_target commits to be queued */
    unsigned gather_target; /* 0: none waits */
    struct gathering gathering;
    uint64_t next_batch;            /* the number of the batch that is being collected: the ticket of its commits */
    bool next_opened;               /* it has its version, or is just being given it */
    _Atomic uint64_t answered_batch;
    struct batch_answer answers[ANSWERS_MAX]; /* by the number of the batch */

    os_mutex prepare_lock;          /* for what follows, and for the resolver */
    struct prepared_batch batches[2]; /* the next one, and the one that the leader has */
    struct prepared_batch *next;
};

struct engine_counters {
    _Atomic uint64_t commits, conflicts, batches, mutations, mutation_bytes, checkpoints;
};

/* The long reads under way. */
struct pins {
    os_mutex lock;
    struct pin *newest; /* a list, under the lock */
    unsigned count;     /* likewise */
    _Atomic uint64_t reads, rows;
};

struct engine {
    struct database database; /* must be first */
    struct engine_options options;
    char path[4096];
    bool in_memory;

    struct os_file lock_file;
    struct lease lease;     /* not for in_memory */
    os_mutex lease_lock;
    struct log *log;        /* NULL for in_memory */
    struct base *base;
    struct window *window;
    struct resolver *resolver;
    struct watches *watches;
    struct readers *readers;
    struct pins pins;
    struct version_clock clock;

    struct pipeline pipeline;
    _Atomic int64_t newest_generation_us; /* when the newest generation was begun */

    _Atomic bool failed;    /* a write or sync of the log or base failed: no more commits */
    _Atomic bool disk_full; /* the last attempt to get space failed */

    os_thread committer_thread, checkpoint_thread;
    os_mutex checkpoint_lock;
    os_condition checkpoint_wake;
    bool checkpoint_stopping; /* under checkpoint_lock */
    bool checkpoint_hurry;    /* likewise */
    int64_t waiting_since_us; /* the checkpoint thread's: when there was last nothing below the horizon to be moved */

    struct engine_counters counters;
    struct latency commit_latency, read_latency;
    int64_t opened_us;
};

static inline struct engine *engine_of(struct database *database) {
    return (struct engine *)database;
}

/* commit.c */
void pipeline_init(struct pipeline *pipeline);
void pipeline_destroy(struct pipeline *pipeline);
void engine_commit(struct database *database, struct commit_request *request);
bool engine_drive(struct database *database, uint64_t ticket);
void engine_hurry(struct database *database);
void *engine_committer(void *engine);

/* prepare.c */
void prepared_init(struct prepared_batch *prepared);
void prepared_free(struct prepared_batch *prepared);
/* Makes it empty again. */
void prepared_clean(struct prepared_batch *prepared);
/* Resolves and builds requests, in this order, behind those that are there. Returns the last ones if they are too much for it. REQUIRES: a version. */
struct commit_request *prepared_add(struct engine *engine, struct prepared_batch *prepared, struct commit_request *requests);
/* Adds requests to a batch of which nothing will be written: this error is its outcome. */
void prepared_refuse(struct prepared_batch *prepared, struct commit_request *requests, fdb_error_t error);

/* read.c */
fdb_error_t engine_get_read_version(struct database *database, int64_t *version);
fdb_error_t engine_check_read_version(struct database *database, int64_t version);
fdb_error_t engine_get(struct database *database, int64_t version, struct bytes key, struct arena *arena,
                       struct bytes *value, bool *present);
fdb_error_t engine_get_range(struct database *database, const struct range_request *request, struct rows *rows,
                             bool *more);
fdb_error_t engine_estimate_bytes(struct database *database, struct bytes begin, struct bytes end, int64_t *bytes);
fdb_error_t engine_watch(struct database *database, struct watch *watch);
bool engine_unwatch(struct database *database, struct watch *watch);

/* A reader's answer at a version that its view and snapshot are right for; database_get and database_get_range are made of these. */
fdb_error_t reader_get(struct reader *reader, int64_t version, struct bytes key, struct arena *arena, struct bytes *value,
                       bool *present);
fdb_error_t reader_get_range(struct reader *reader, const struct range_request *request, struct rows *rows, bool *more);

/* pin.c */
void pins_init(struct pins *pins);
void pins_destroy(struct pins *pins); /* REQUIRES: there are none */
fdb_error_t engine_pin(struct database *database, int64_t version, struct database **pinned);
void pins_count(struct pins *pins, unsigned *count, int64_t *oldest_us); /* how many, and for how long the oldest */

/* checkpoint.c */
void *engine_checkpointer(void *engine);
/* Asks for a checkpoint soon: the window is large. */
void checkpoint_request(struct engine *engine);
/* Writes every closed generation that nothing newer than `version` is in; the calling thread is the checkpointer, or it has ended. */
fdb_error_t checkpoint_run(struct engine *engine, int64_t version);
/* Closes the newest generation if it is old or large enough. REQUIRES: the caller leads the pipeline, or holds its lock while nobody does. */
void checkpoint_rotate_if_due(struct engine *engine);
/* Renews the lease on versions if it is half used up. */
fdb_error_t engine_renew_lease(struct engine *engine);

#endif
