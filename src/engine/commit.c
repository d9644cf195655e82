/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit pipeline: from a waiting commit_request to the disk.
 *
 *     engine_commit ─► queue ─► prepare (prepare.c) ─► next batch ─► lead: log ─► window ─► sync ─► publish ─► answer
 *                                │ conflicts leave here                              │ the clock │ watches,
 *                                │ atomic ops, versionstamps                         │ moves on  │ completions
 *
 * Whoever finds the pipeline idle leads it. A thread that blocks on its own commit (engine_drive) does so itself and pays no thread switch; for
 * everyone else, the committer thread does. While a leader syncs, new commits become the next batch: the group commit. They queue up; and where
 * clients wait by callbacks, whoever queues one while another thread leads prepares it as well, so that the leader finds little to do between two
 * syncs. (The price: after a sync that took longer than a transaction may live, the next batch's version is as old, and so are those read until it ends.)
 *
 *   1. At most one thread leads (pipeline.leading); the appending end of the log is the leader's, and so is a batch from take_batch on.
 *   2. At most one thread prepares: the resolver and the next batch are under prepare_lock.
 *   3. Nothing of a batch can be read before it is durable: it is in the window before, but its version is pending until version_clock_end_batch,
 *      and neither a reader nor the checkpoint goes as far as a pending version. Two may be pending: the leader's batch and the next.
 *   4. Everything that may fail comes before the append (room in the log, memory in the window), so a refused batch leaves no trace.
 *   5. After a failed append or sync nobody knows what the disk holds: the batch answers COMMIT_UNKNOWN_RESULT, its version stays pending for ever,
 *      and every later commit is refused with DATABASE_FAILED. Reads go on at the last good version.
 *   6. Every request is answered exactly once, in commit order, with no lock held. Commit order is the order of the queue.
 */
#include "engine/engine_internal.h"

#include <assert.h>

#include "os/clock.h"
#include "os/later.h"
#include "os/wait.h"
#include "util/memory.h"

enum {
    BATCH_COMMITS_MAX = 8192,       /* a versionstamp's order has 16 bits */
    BATCH_BYTES_MAX = 8 * 1024 * 1024, /* a batch may pass it by one transaction */
    AHEAD_BYTES_MAX = 64 * 1024,    /* a thread that does not lead prepares about this much at a time: it has come to queue a commit of its own */
    OVERLAP_CHANGES_MIN = 8,        /* with this many changes to apply it is worth a system call to have the disk begin before */
    TICK_US = 500,                  /* a commit that nobody drives or hurries waits at most this long for the committer thread */
    QUIET_TICKS_MAX = 20,           /* after this many without a commit the committer thread sleeps */
    GATHER_US_MAX = 2000,           /* for so long at most, */
    GATHER_SHARE = 4,               /* and for no more than this part of what a sync takes, a leader waits for clients to come back */
    GATHER_PAUSE_MIN = 4,
    GATHER_PAUSE_MAX = 1024,
    LOOK_US = 10000,                /* how often a waiting thread looks whether its answer came another way: a timeout, a cancel */
};

void pipeline_init(struct pipeline *pipeline) {
    os_mutex_init(&pipeline->lock);
    os_mutex_init(&pipeline->prepare_lock);
    os_condition_init(&pipeline->work);
    os_condition_init(&pipeline->room);
    os_condition_init(&pipeline->gathered);
    pipeline->tail = &pipeline->head;
    pipeline->next_batch = 1;
    for (int i = 0; i < 2; i++)
        prepared_init(&pipeline->batches[i]);
    pipeline->next = &pipeline->batches[0];
}

void pipeline_destroy(struct pipeline *pipeline) {
    for (int i = 0; i < 2; i++)
        prepared_free(&pipeline->batches[i]);
    os_condition_destroy(&pipeline->gathered);
    os_condition_destroy(&pipeline->room);
    os_condition_destroy(&pipeline->work);
    os_mutex_destroy(&pipeline->prepare_lock);
    os_mutex_destroy(&pipeline->lock);
}

/* --- Writing: log, then window --- */

static fdb_error_t decode_changes(struct prepared_batch *prepared) {
    if (prepared->change_capacity < prepared->batch.count) {
        struct change *changes = memory_resize(prepared->changes, prepared->batch.count * sizeof *changes);
        if (!changes)
            return ERROR_LARGE_ALLOC_FAILED;
        prepared->changes = changes;
        prepared->change_capacity = prepared->batch.count;
    }
    struct bytes payload = bytes_make(prepared->batch.data, prepared->batch.length);
    size_t offset = 0;
    fdb_error_t error = ERROR_SUCCESS;
    for (size_t i = 0; batch_next(payload, &offset, &prepared->changes[i], &error); i++)
        continue;
    return error;
}

/* Takes everything the batch will need, so that nothing after the append can fail. */
static fdb_error_t reserve(struct engine *engine, struct prepared_batch *prepared) {
    fdb_error_t error = decode_changes(prepared);
    if (!error)
        error = window_reserve(engine->window, prepared->changes, prepared->batch.count);
    if (!error && engine->log)
        error = log_reserve(engine->log, prepared->batch.length);
    if (error == ERROR_DISK_FULL)
        atomic_store(&engine->disk_full, true);
    return error;
}

static void trigger_watches(struct engine *engine, const struct prepared_batch *prepared, struct watch **fired) {
    if (watches_count(engine->watches) == 0)
        return;
    for (size_t i = 0; i < prepared->batch.count; i++) {
        const struct change *change = &prepared->changes[i];
        if (change->clear)
            watches_clear_range(engine->watches, change->key, change->value, fired);
        else
            watches_set(engine->watches, change->key, change->value, fired);
    }
}

static void count_batch(struct engine *engine, const struct prepared_batch *prepared) {
    struct engine_counters *counters = &engine->counters;
    atomic_fetch_add_explicit(&counters->commits, prepared->commit_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutations, prepared->batch.count, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutation_bytes, prepared->batch.length, memory_order_relaxed);
}

/* To the log, to the window, and to the disk: the window is filled while the disk begins to write. */
static fdb_error_t write_durably(struct engine *engine, const struct prepared_batch *prepared) {
    const struct batch *batch = &prepared->batch;
    fdb_error_t error = ERROR_SUCCESS;
    if (engine->log) {
        struct bytes payload = bytes_make(batch->data, batch->length);
        error = log_append(engine->log, prepared->version, &payload, 1);
        if (error)
            return error;
        if (batch->count >= OVERLAP_CHANGES_MIN)
            log_begin_sync(engine->log);
    }
    window_apply(engine->window, prepared->version, prepared->changes, batch->count);
    if (!engine->log)
        return ERROR_SUCCESS;
    int64_t begun_us = os_clock_us();
    error = log_sync(engine->log);
    engine->pipeline.gathering.sync_us = os_clock_us() - begun_us;
    return error;
}

/* Brings what was prepared to the disk and the window. */
static fdb_error_t write_batch(struct engine *engine, struct prepared_batch *prepared) {
    checkpoint_rotate_if_due(engine);
    bool window_was_empty = window_bytes(engine->window) == 0;
    fdb_error_t error = reserve(engine, prepared);
    if (error)
        return error;
    if (write_durably(engine, prepared)) {
        atomic_store(&engine->failed, true);
        return ERROR_COMMIT_UNKNOWN_RESULT;
    }
    if (window_was_empty || (engine->log && log_wants_next(engine->log)))
        checkpoint_request(engine); /* it sleeps long while there is nothing to move; and it makes the log's next segment */
    atomic_store_explicit(&engine->disk_full, false, memory_order_relaxed);
    return ERROR_SUCCESS;
}

/* Does a commit have to wait for the checkpoint? Not if that cannot help: then it is refused. */
static bool is_window_full(struct engine *engine) {
    return window_bytes(engine->window) > engine->options.window_bytes_max && !atomic_load(&engine->failed) &&
           !atomic_load(&engine->disk_full);
}

/* Whether commits are taken at all. */
static fdb_error_t admit(struct engine *engine) {
    if (atomic_load(&engine->failed))
        return ERROR_DATABASE_FAILED;
    if (atomic_load(&engine->disk_full) && window_bytes(engine->window) > engine->options.window_bytes_max)
        return ERROR_DISK_FULL; /* the window cannot be emptied into the base */
    return engine_renew_lease(engine);
}

/* A batch that nothing more is added to: on return its outcome is known, and what it committed can be read. */
static void process(struct engine *engine, struct prepared_batch *prepared, struct watch **fired) {
    if (!prepared->outcome && prepared->batch.count > 0)
        prepared->outcome = write_batch(engine, prepared);
    if (prepared->outcome == ERROR_COMMIT_UNKNOWN_RESULT)
        version_clock_abandon_batch(&engine->clock);
    else if (prepared->version)
        version_clock_end_batch(&engine->clock);
    if (!prepared->outcome) {
        trigger_watches(engine, prepared, fired);
        count_batch(engine, prepared);
    }
}

/* --- The queue, and preparing --- */

static unsigned queued(struct pipeline *pipeline) {
    return atomic_load_explicit(&pipeline->queued, memory_order_relaxed);
}

/*
 * Cuts off the front of the queue what the next batch still has room for; with `ahead`, only what a thread that does not lead prepares: nothing large,
 * and no atomic operations, which have to read what the leader's batch leaves. *batch_count: how many the batch will have. REQUIRES: both locks.
 */
static struct commit_request *cut_queue(struct pipeline *pipeline, bool ahead, unsigned *batch_count) {
    struct commit_request *first = pipeline->head, **link = &pipeline->head;
    unsigned count = pipeline->next->request_count;
    size_t bytes = pipeline->next->request_bytes;
    size_t bytes_max = ahead && bytes + AHEAD_BYTES_MAX < BATCH_BYTES_MAX ? bytes + AHEAD_BYTES_MAX : BATCH_BYTES_MAX;
    while (*link && count < BATCH_COMMITS_MAX && bytes < bytes_max) {
        if (ahead && ((*link)->is_atomic || (*link)->size_bytes > AHEAD_BYTES_MAX))
            break;
        bytes += (*link)->size_bytes;
        count++;
        link = &(*link)->next;
    }
    if (batch_count)
        *batch_count = count;
    if (link == &pipeline->head)
        return NULL;
    pipeline->head = *link;
    if (!pipeline->head)
        pipeline->tail = &pipeline->head;
    *link = NULL;
    return first;
}

/* Puts what did not fit into a batch back in front. */
static void put_back(struct pipeline *pipeline, struct commit_request *rest) {
    struct commit_request *last = rest;
    unsigned count = 1;
    for (; last->next; last = last->next)
        count++;
    os_mutex_lock(&pipeline->lock);
    last->next = pipeline->head;
    if (!pipeline->head)
        pipeline->tail = &last->next;
    pipeline->head = rest;
    atomic_fetch_add_explicit(&pipeline->queued, count, memory_order_relaxed);
    os_mutex_unlock(&pipeline->lock);
}

/* A batch that gets its version waits for nothing but the sync before it: readers stand still below it. Nor is a lease renewed here. */
static bool may_open_ahead(struct engine *engine) {
    return !atomic_load(&engine->failed) && !is_window_full(engine) && !version_clock_needs_lease(&engine->clock, LEASE_VERSIONS);
}

/*
 * Takes what is to be prepared ahead off the queue, if it is worth it and nobody else is at it; NULL if not. Nothing is prepared ahead while threads block
 * on their commits: there are more of them than cores, and if one lost its core while it prepares, the leader would have to wait for it.
 * REQUIRES: the lock. Not NULL: prepare_lock is held, too.
 */
static struct commit_request *claim_ahead(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    if (!pipeline->leading || atomic_load_explicit(&pipeline->drivers, memory_order_relaxed) > 0 ||
        !os_mutex_try_lock(&pipeline->prepare_lock))
        return NULL;
    struct commit_request *requests = NULL;
    if (pipeline->next_opened || may_open_ahead(engine))
        requests = cut_queue(pipeline, true, NULL);
    if (requests)
        pipeline->next_opened = true;
    else
        os_mutex_unlock(&pipeline->prepare_lock);
    return requests;
}

/* Gives a batch its version, unless it has one; the resolver forgets what has become too old to matter. REQUIRES: prepare_lock. */
static void open_batch(struct engine *engine, struct prepared_batch *batch) {
    if (batch->version)
        return;
    resolver_forget(engine->resolver, version_clock_horizon(&engine->clock));
    batch->version = version_clock_begin_batch(&engine->clock);
}

/* REQUIRES: prepare_lock, which is let go. */
static void prepare_ahead(struct engine *engine, struct commit_request *requests) {
    struct pipeline *pipeline = &engine->pipeline;
    open_batch(engine, pipeline->next);
    struct commit_request *rest = prepared_add(engine, pipeline->next, requests);
    assert(!rest); /* without atomic operations the limit of a batch's requests is far below that of its results */
    (void)rest;
    os_mutex_unlock(&pipeline->prepare_lock);
}

/* Closes the next batch, with what else is queued and has room in it, and opens another one. REQUIRES: leading, something is queued. */
static struct prepared_batch *take_batch(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->prepare_lock);
    struct prepared_batch *taken = pipeline->next;
    os_mutex_lock(&pipeline->lock);
    unsigned count;
    struct commit_request *requests = cut_queue(pipeline, false, &count), *rest = NULL;
    atomic_fetch_sub_explicit(&pipeline->queued, count, memory_order_relaxed);
    pipeline->next_batch++;
    pipeline->next_opened = false;
    os_mutex_unlock(&pipeline->lock);
    fdb_error_t error = admit(engine);
    if (error)
        prepared_refuse(taken, requests, error);
    else
        open_batch(engine, taken);
    if (!error && requests)
        rest = prepared_add(engine, taken, requests);
    if (rest)
        put_back(pipeline, rest);
    pipeline->next = taken == &pipeline->batches[0] ? &pipeline->batches[1] : &pipeline->batches[0];
    os_mutex_unlock(&pipeline->prepare_lock);
    return taken;
}

/* --- Leading --- */

/*
 * Clients that commit again as soon as they are answered would otherwise fall into two groups, one queueing while the other is synced, and each
 * sync would serve half of them. So the leader waits a little for those who were just answered, if they were seen to come back: most of the clients at
 * work shall be in the batch. Where they do not come back in time, as on a disk that is as quick as they are, it does not wait again for a while.
 * REQUIRES: the lock; leading.
 */
static void gather(struct pipeline *pipeline) {
    struct gathering *gathering = &pipeline->gathering;
    unsigned target = gathering->clients - gathering->clients / 8;
    if (target > BATCH_COMMITS_MAX)
        target = BATCH_COMMITS_MAX;
    if (queued(pipeline) >= target)
        return;
    if (gathering->pause_left > 0) {
        gathering->pause_left--;
        return;
    }
    int64_t patience_us = gathering->sync_us / GATHER_SHARE;
    int64_t deadline = gathering->answered_us + (patience_us < GATHER_US_MAX ? patience_us : GATHER_US_MAX);
    if (os_clock_us() >= deadline)
        return;
    pipeline->gather_target = target;
    while (queued(pipeline) < target && !pipeline->stopping && os_clock_us() < deadline)
        os_condition_wait_until(&pipeline->gathered, &pipeline->lock, deadline);
    pipeline->gather_target = 0;
    if (queued(pipeline) >= target && os_clock_us() < deadline) { /* a system's timers are late: then it was in vain, too */
        gathering->pause = 0;
    } else {
        gathering->pause = gathering->pause < GATHER_PAUSE_MIN ? GATHER_PAUSE_MIN : gathering->pause * 2;
        if (gathering->pause > GATHER_PAUSE_MAX)
            gathering->pause = GATHER_PAUSE_MAX;
        gathering->pause_left = gathering->pause;
    }
}

/* Waits until the window has room; not with a batch that has its version: see may_open_ahead. REQUIRES: the lock; leading. */
static void wait_for_room(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    while (is_window_full(engine) && !pipeline->next_opened) {
        checkpoint_rotate_if_due(engine);
        checkpoint_request(engine);
        os_condition_wait_until(&pipeline->room, &pipeline->lock, os_clock_us() + 100000);
    }
}

static void answer(const struct prepared_batch *prepared) {
    struct commit_request *request = prepared->requests;
    os_later_open();
    while (request) {
        struct commit_request *next = request->next; /* complete may free the request */
        if (next)
            __builtin_prefetch(next); /* another core wrote it last */
        request->complete(request, request->error ? request->error : prepared->outcome);
        request = next;
    }
    os_later_close();
}

/*
 * Tells the threads that sleep in engine_drive for this batch. Waking many takes longer than a sync, so the leader wakes one, and that one, on its
 * way out, the others (pass_on): the leader is free for the next batch.
 */
static void announce(struct pipeline *pipeline, uint64_t batch) {
    struct batch_answer *answer = &pipeline->answers[batch % ANSWERS_MAX];
    atomic_store(&pipeline->answered_batch, batch);
    atomic_store(&answer->pass_on, true);
    atomic_fetch_add(&answer->announcements, 1);
    os_wait_wake_one(&answer->announcements);
}

static void pass_on(struct batch_answer *answer) {
    if (atomic_load_explicit(&answer->pass_on, memory_order_relaxed) && atomic_exchange(&answer->pass_on, false))
        os_wait_wake(&answer->announcements);
}

/*
 * Runs batches until the queue is empty or batch `last` is answered; what is left then goes to the committer thread.
 * REQUIRES: the lock, nobody leading; both hold again at return.
 */
static void lead(struct engine *engine, uint64_t last) {
    struct pipeline *pipeline = &engine->pipeline;
    pipeline->leading = true;
    while (queued(pipeline) > 0 && atomic_load_explicit(&pipeline->answered_batch, memory_order_relaxed) < last) {
        wait_for_room(engine);
        gather(pipeline);
        uint64_t number = pipeline->next_batch;
        pipeline->urgent = false;
        os_mutex_unlock(&pipeline->lock);
        struct prepared_batch *taken = take_batch(engine);
        struct watch *fired = NULL;
        struct gathering *gathering = &pipeline->gathering;
        process(engine, taken, &fired);
        gathering->clients = queued(pipeline) + taken->request_count;
        answer(taken);
        announce(pipeline, number);
        gathering->answered_us = os_clock_us();
        watches_fire(fired, ERROR_SUCCESS);
        prepared_clean(taken);
        os_mutex_lock(&pipeline->lock);
    }
    pipeline->leading = false;
    if (queued(pipeline) > 0 || pipeline->stopping) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
}

static bool has_atomic(const struct commit_request *request) {
    for (size_t i = 0; i < request->mutation_count; i++)
        if (mutation_is_atomic(request->mutations[i].type))
            return true;
    return false;
}

void engine_commit(struct database *database, struct commit_request *request) {
    struct engine *engine = engine_of(database);
    struct pipeline *pipeline = &engine->pipeline;
    request->next = NULL;
    request->error = ERROR_SUCCESS;
    request->is_atomic = has_atomic(request);
    os_mutex_lock(&pipeline->lock);
    *pipeline->tail = request;
    pipeline->tail = &request->next;
    pipeline->arrivals++;
    unsigned waiting = atomic_fetch_add_explicit(&pipeline->queued, 1, memory_order_relaxed) + 1;
    bool gathered = waiting == pipeline->gather_target;
    atomic_store_explicit(&request->ticket, pipeline->next_batch, memory_order_relaxed);
    bool wake = pipeline->asleep;
    pipeline->asleep = false; /* or is just being woken */
    struct commit_request *ahead = claim_ahead(engine);
    os_mutex_unlock(&pipeline->lock);
    if (wake)
        os_condition_signal(&pipeline->work);
    if (gathered)
        os_condition_signal(&pipeline->gathered);
    if (ahead)
        prepare_ahead(engine, ahead);
}

/* Leads if nobody does; a full window is waited for by the committer thread, so that this one can see its timeout. */
static bool try_to_lead(struct engine *engine, uint64_t ticket) {
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    bool idle = queued(pipeline) > 0 && !pipeline->leading;
    bool led = idle && !is_window_full(engine);
    if (led) {
        lead(engine, ticket);
    } else if (idle && !pipeline->urgent) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
    os_mutex_unlock(&pipeline->lock);
    return led;
}

/* Waits for a batch that another thread leads; false: it was answered before. */
static bool wait_for_answer(struct pipeline *pipeline, uint64_t ticket) {
    struct batch_answer *answer = &pipeline->answers[ticket % ANSWERS_MAX];
    uint32_t seen = atomic_load(&answer->announcements); /* before the look at answered_batch, so that none is slept over */
    if (atomic_load(&pipeline->answered_batch) >= ticket)
        return false;
    os_wait_for(&answer->announcements, seen, LOOK_US);
    pass_on(answer);
    return true;
}

bool engine_drive(struct database *database, uint64_t ticket) {
    struct engine *engine = engine_of(database);
    struct pipeline *pipeline = &engine->pipeline;
    atomic_fetch_add_explicit(&pipeline->drivers, 1, memory_order_relaxed);
    bool happened = try_to_lead(engine, ticket) || wait_for_answer(pipeline, ticket);
    atomic_fetch_sub_explicit(&pipeline->drivers, 1, memory_order_relaxed);
    return happened;
}

void engine_hurry(struct database *database) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    os_mutex_lock(&pipeline->lock);
    bool wake = queued(pipeline) > 0 && !pipeline->leading && !pipeline->urgent;
    if (wake) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
    os_mutex_unlock(&pipeline->lock);
}

/*
 * Sleeps until there is a queue that the committer thread has to work on: one that is urgent, or one that nobody came to drive for a tick. While
 * commits keep coming it dozes from tick to tick, so that a client that drives its own commits need not wake it each time.
 * REQUIRES: the lock. False: time to end.
 */
static bool wait_for_work(struct pipeline *pipeline) {
    for (int quiet_ticks = 0;;) {
        bool workable = queued(pipeline) > 0 && !pipeline->leading;
        if (workable && (pipeline->urgent || pipeline->stopping))
            return true;
        if (pipeline->stopping && queued(pipeline) == 0 && !pipeline->leading)
            return false;
        if (quiet_ticks == QUIET_TICKS_MAX) {
            pipeline->asleep = true;
            os_condition_wait(&pipeline->work, &pipeline->lock);
            pipeline->asleep = false;
            quiet_ticks = 0;
            continue;
        }
        uint64_t arrivals = pipeline->arrivals;
        bool signalled = os_condition_wait_until(&pipeline->work, &pipeline->lock, os_clock_us() + TICK_US);
        if (!signalled && queued(pipeline) > 0 && !pipeline->leading)
            return true;
        quiet_ticks = pipeline->arrivals == arrivals ? quiet_ticks + 1 : 0;
    }
}

/* The committer thread: leads whenever nobody else does, until the engine closes and the queue is empty. */
void *engine_committer(void *argument) {
    struct engine *engine = argument;
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    while (wait_for_work(pipeline))
        lead(engine, UINT64_MAX);
    os_mutex_unlock(&pipeline->lock);
    return NULL;
}
