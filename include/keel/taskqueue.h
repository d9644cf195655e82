/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task queue with leases: work that must be done even if those who do it die.
 *
 *     worker:   claim ──► do the work ──► complete
 *                 │         │   └──────► fail, or give back
 *                 │         └──────────► extend, if it takes longer
 *                 └─ dies: when the lease ends, the task is there again for others
 *
 *     keel_task task;
 *     bool found;
 *     error = keel_taskqueue_claim(tr, &tasks, now_ms, 30000, 1, &found, &task);    and commit
 *     … do the work …
 *     error = keel_taskqueue_complete(tr, &tasks, &task);                           and commit
 *     keel_task_free(&task);
 *
 * Promises: a task is never lost and is claimed at least once, by one worker at a time while leases
 * last. It can be claimed again after its lease has ended, so work may be done twice; but only one
 * worker's complete succeeds, and what is written in the transaction of the complete happens once.
 *
 * Order: small priorities first, within one the task that is due first. Tasks pushed in the same
 * millisecond by one process keep their order.
 *
 * Time: the caller says what time it is, in milliseconds since 1970 (keel_taskqueue_now), so that
 * tests and simulations have a clock of their own. The clocks of workers need to agree as well as
 * leases are long; a wrong one ends leases early or late but loses nothing.
 *
 * Keys, integers in milliseconds and the rest as in keel_task:
 *
 *     tasks + ("ready", priority, due, id) = (attempts, attempts_max, claim)
 *     tasks + ("timer", when, id)          = (leased, priority, attempts, attempts_max, claim)
 *     tasks + ("lease", id)                = (expires, claim)
 *     tasks + ("payload", id)              = payload
 *     tasks + ("dead", when, id)           = (priority, attempts, attempts_max, claim, reason)
 *     tasks + ("signal")                   = a counter that changes when there is something new
 *
 * All functions work inside the caller's transaction, commit nothing, and may be called again after
 * any error, a retry of the transaction included. Errors besides those of the reads: ARGUMENT for
 * times and counts that can never be right, value_too_large (2103), STORED_FORMAT if a key in the
 * subspace is not a task queue's, 1501 without memory. Input is checked before anything is written.
 */
#ifndef KEEL_TASKQUEUE_H
#define KEEL_TASKQUEUE_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KEEL_TASK_ID_LENGTH = 16,
    KEEL_TASK_REASON_MAX = 10000, /* bytes */
    KEEL_TASK_SPREAD_MAX = 100
};

/* The time of day in milliseconds since 1970. */
int64_t keel_taskqueue_now(void);

/* ---- Pushing ---- */

/* All zeros is a fine default; so is NULL where a pointer to it is asked for. */
typedef struct keel_task_options {
    int64_t priority;     /* the smaller, the sooner */
    int64_t delay_ms;     /* not before now + delay; 0 or more */
    int64_t attempts_max; /* after so many the task goes to the dead letters; 0: never */
} keel_task_options;

/*
 * Adds a task with a payload of up to 100,000 bytes. `id` may be NULL. Reads nothing and conflicts
 * with nothing.
 */
fdb_error_t keel_taskqueue_push(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                const keel_task_options *options, keel_bytes payload,
                                uint8_t id[KEEL_TASK_ID_LENGTH]);

/* ---- Working ---- */

/* A claimed task. A plain value, but for the payload. */
typedef struct keel_task {
    uint8_t id[KEEL_TASK_ID_LENGTH];
    int64_t priority;
    int64_t lease_until_ms; /* as it was claimed; keel_taskqueue_extend tells a later one */
    int64_t attempts;       /* this one included; those given back do not count */
    int64_t attempts_max;   /* 0: no limit */
    int64_t claim;          /* grows with every claim of this task: a fencing token */
    uint8_t *payload;       /* free with keel_task_free */
    size_t payload_length;
} keel_task;

/* Frees the payload; a task that is all zeros is fine, and so is a second time. */
void keel_task_free(keel_task *task);

/*
 * Claims the first task for `lease_ms` (1 or more). *found tells whether there was one; *task is
 * set only then, without a look at what it held: a function that is retried frees it first. If the
 * outcome of the commit is unknown, the retry claims another task, and the first comes back when
 * its lease ends. Before it looks, up to 32 tasks whose delay or lease has ended are made ready, or
 * dead if they have no attempt left.
 *
 * `spread` is how many tasks of the first priority to choose from at random, 1 to
 * KEEL_TASK_SPREAD_MAX. 1 is strict order, and workers that claim at the same time conflict; with
 * about the number of workers they seldom do. Several claims may be made in one transaction.
 *
 * Reads `spread` rows, those whose time has come, and the payload. Conflicts with whoever claims
 * the same task or makes the same tasks ready.
 */
fdb_error_t keel_taskqueue_claim(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                 int64_t lease_ms, int spread, bool *found, keel_task *task);

/*
 * The following four need the lease: LEASE_LOST if it has ended and the task was made ready,
 * claimed by another, completed or given back. A lease that has run out counts until somebody
 * notices. After an unknown commit result (1021) LEASE_LOST may also say that the first try had
 * succeeded. Each reads one row.
 */

/* Done: removes the task. */
fdb_error_t keel_taskqueue_complete(FDBTransaction *tr, const keel_subspace *tasks,
                                    const keel_task *task);
/* The lease ends at now + lease_ms instead; *lease_until_ms (may be NULL) is that time. */
fdb_error_t keel_taskqueue_extend(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                  const keel_task *task, int64_t lease_ms, int64_t *lease_until_ms);
/* Not now: the task is ready again after `delay_ms`, and this attempt does not count. */
fdb_error_t keel_taskqueue_give_back(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                     const keel_task *task, int64_t delay_ms);
/*
 * It went wrong: the task is ready again after `delay_ms`, or goes to the dead letters if this was
 * the last attempt, with `reason`, bytes of your choice up to KEEL_TASK_REASON_MAX.
 */
fdb_error_t keel_taskqueue_fail(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                const keel_task *task, int64_t delay_ms, keel_bytes reason);

/* ---- Waiting for work ---- */

/*
 * When to look again: 0 if a task is ready, otherwise when the next delay or lease ends, INT64_MAX
 * if there is nothing to wait for. Reads two rows, as a snapshot.
 */
fdb_error_t keel_taskqueue_next(FDBTransaction *tr, const keel_subspace *tasks, int64_t *when_ms);

/*
 * A future that becomes ready when a task is pushed, given back, failed or retried, once this
 * transaction has committed (fdb_transaction_watch has the fine print). Not when a time comes:
 * combine it with keel_taskqueue_next. The caller destroys it.
 */
fdb_error_t keel_taskqueue_watch(FDBTransaction *tr, const keel_subspace *tasks,
                                 FDBFuture **future);

/* ---- Dead letters ---- */

/* A task that has used up its attempts. */
typedef struct keel_dead_task {
    uint8_t id[KEEL_TASK_ID_LENGTH];
    int64_t died_ms;
    int64_t priority, attempts, attempts_max, claim;
    keel_bytes reason; /* valid during the visit; none if its lease ran out */
} keel_dead_task;

/* A value other than 0 ends the walk, which returns it. */
typedef fdb_error_t (*keel_dead_visit)(void *context, const keel_dead_task *dead);

/* Visits up to `limit` (0: all) dead tasks, those that died first first. Reads them, a snapshot. */
fdb_error_t keel_taskqueue_dead(FDBTransaction *tr, const keel_subspace *tasks, int limit,
                                keel_dead_visit visit, void *context);
/* Makes it ready once more with all its attempts. NOT_FOUND. */
fdb_error_t keel_taskqueue_dead_retry(FDBTransaction *tr, const keel_subspace *tasks,
                                      int64_t now_ms, const keel_dead_task *dead);
/* Forgets it. NOT_FOUND. */
fdb_error_t keel_taskqueue_dead_remove(FDBTransaction *tr, const keel_subspace *tasks,
                                       const keel_dead_task *dead);

/* ---- Looking ---- */

/* The payload of any task that is there, by id; the caller's to free(). NOT_FOUND. */
fdb_error_t keel_taskqueue_payload(FDBTransaction *tr, const keel_subspace *tasks,
                                   const uint8_t id[KEEL_TASK_ID_LENGTH], uint8_t **payload,
                                   size_t *length);

typedef struct keel_taskqueue_counts {
    int64_t ready;   /* those included whose delay or lease has ended */
    int64_t delayed; /* their time is still to come */
    int64_t leased;
    int64_t dead;
} keel_taskqueue_counts;

/* Counts by reading everything but the payloads, as a snapshot. */
fdb_error_t keel_taskqueue_count(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                                 keel_taskqueue_counts *counts);

#ifdef __cplusplus
}
#endif

#endif
