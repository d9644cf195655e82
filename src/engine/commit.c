/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit pipeline: from a waiting commit_request to the disk.
 *
 *                    ┌──────────── leading: one thread at a time ────────────┐
 *     engine_commit ─► queue ─► take a batch ─► assemble ─► log ─► window ───┼─► sync ─► publish ─► answer
 *                               │ by groups     │ assemble.c                 │  up to FLIGHTS_MAX  │ watches,
 *                               │               │ conflicts leave here       │  batches at a time  │ completions
 *
 * A batch on this way is a flight. Whoever finds that a flight can be launched leads: a thread that blocks on its own commit (engine_drive) does so
 * itself and pays no thread switch; for everyone else, a committer thread does. The leader lets go of the lead before it syncs, so that another thread can
 * launch the next flight meanwhile; then each lands its own flight, in the order of launching. What arrives while syncs are on their way is the next
 * batch: the group commit.
 *
 * How large a group: with nothing in flight, whatever is there goes at once. Beside another flight only a full group goes, which is a fair share
 * of the commits that were lately on their way together (group_limit). So the clients of a busy database fall into FLIGHTS_MAX groups, of which one is prepared while the
 * other syncs, and a few clients fall into one.
 *
 *   1. At most one thread leads (pipeline.leading); the resolver, the writing end of the window and the appending end of the log are the leader's. A
 *      flight belongs to the thread that launched it.
 *   2. Flights are launched and land in the order of their versions and of the log. A batch is published only after all before it: so what is
 *      acknowledged stands on nothing that could still fail.
 *   3. Nothing of a batch can be read before it is durable: it is in the window before, but its version is pending until version_clock_end_batch,
 *      and neither a reader nor the checkpoint goes as far as a pending version. Only the leader, for atomic operations, reads pending changes.
 *   4. Everything that may fail comes before the append (room in the log, memory in the window), so a refused batch leaves no trace.
 *   5. After a failed append or sync nobody knows what the disk holds: the batch and every one that was appended behind it answer
 *      COMMIT_UNKNOWN_RESULT, their versions stay pending for ever (pipeline.lost), and every later commit is refused with DATABASE_FAILED.
 *      Reads go on at the last good version.
 *   6. Every request is answered exactly once, in commit order, with no lock held.
 *   7. Whoever makes a launch possible by letting go of the lead or by landing sees to it that somebody leads (call_leader).
 */
#include "engine/engine_internal.h"

#include "os/clock.h"
#include "os/wait.h"

enum {
    BATCH_COMMITS_MAX = 8192,       /* a versionstamp's order has 16 bits */
    BATCH_BYTES_MAX = 8 * 1024 * 1024, /* a batch may pass it by one transaction */
    GROUP_COMMITS_MIN = 8,          /* fewer are not worth a sync of their own beside another */
    OVERLAP_CHANGES_MIN = 8,        /* with this many changes to apply it is worth a system call to have the disk begin before */
    TICK_US = 500,                  /* a commit that nobody drives or hurries waits at most this long for a committer thread */
    QUIET_TICKS_MAX = 20,           /* after this many without a commit the committer thread sleeps */
    LOOK_US = 10000,                /* how often a waiting thread looks whether its answer came another way: a timeout, a cancel */
};

_Static_assert((int)FLIGHTS_MAX <= (int)VERSIONS_PENDING_MAX, "every flight has a version pending");

void pipeline_init(struct pipeline *pipeline) {
    os_mutex_init(&pipeline->lock);
    os_condition_init(&pipeline->work);
    os_condition_init(&pipeline->room);
    os_condition_init(&pipeline->landing);
    pipeline->tail = &pipeline->head;
    pipeline->collecting = 1;
}

void pipeline_destroy(struct pipeline *pipeline) {
    for (int i = 0; i < FLIGHTS_MAX; i++)
        workspace_free(&pipeline->flights[i].workspace);
    os_condition_destroy(&pipeline->landing);
    os_condition_destroy(&pipeline->room);
    os_condition_destroy(&pipeline->work);
    os_mutex_destroy(&pipeline->lock);
}

/* --- The queue, in groups --- */

/* How many commits make a group full: a share of those lately on their way. */
static size_t group_limit(const struct pipeline *pipeline) {
    size_t share = pipeline->load / FLIGHTS_MAX;
    if (share < GROUP_COMMITS_MIN)
        return GROUP_COMMITS_MIN;
    return share < BATCH_COMMITS_MAX ? share : BATCH_COMMITS_MAX;
}

static void close_group(struct pipeline *pipeline) {
    pipeline->collecting++;
    pipeline->collected = pipeline->collected_bytes = 0;
}

/* Puts a commit at the end of the queue, in the group that is being collected. REQUIRES: the lock. */
static void enqueue(struct pipeline *pipeline, struct commit_request *request) {
    request->next = NULL;
    *pipeline->tail = request;
    pipeline->tail = &request->next;
    pipeline->arrivals++;
    pipeline->queued++;
    atomic_store_explicit(&request->ticket, pipeline->collecting, memory_order_relaxed);
    pipeline->collected++;
    pipeline->collected_bytes += request->size_bytes;
    if (pipeline->collected >= group_limit(pipeline) || pipeline->collected_bytes >= BATCH_BYTES_MAX)
        close_group(pipeline);
}

/* The number of the group at the head of the queue. REQUIRES: the lock, a queue. */
static uint64_t head_group(const struct pipeline *pipeline) {
    return atomic_load_explicit(&pipeline->head->ticket, memory_order_relaxed);
}

/* Takes the group at the head of the queue for a flight. REQUIRES: the lock, a queue. */
static void take_group(struct pipeline *pipeline, struct flight *flight) {
    flight->group = head_group(pipeline);
    flight->requests = pipeline->head;
    flight->commit_count = 0;
    size_t load = pipeline->queued + pipeline->in_flight, faded = pipeline->load - pipeline->load / 8;
    pipeline->load = load > faded ? load : faded;
    struct commit_request **link = &pipeline->head;
    while (*link && atomic_load_explicit(&(*link)->ticket, memory_order_relaxed) == flight->group) {
        link = &(*link)->next;
        flight->commit_count++;
    }
    pipeline->head = *link;
    *link = NULL;
    if (!pipeline->head)
        pipeline->tail = &pipeline->head;
    pipeline->queued -= flight->commit_count;
    pipeline->in_flight += flight->commit_count;
    if (flight->group == pipeline->collecting)
        close_group(pipeline);
}

/* Puts what a flight could not take back in front, as a group of its own. REQUIRES: the lock. */
static void put_back(struct pipeline *pipeline, struct flight *flight, struct commit_request *rest) {
    struct commit_request *last = rest;
    size_t count = 1;
    for (; last->next; last = last->next)
        count++;
    last->next = pipeline->head;
    if (!pipeline->head)
        pipeline->tail = &last->next;
    pipeline->head = rest;
    flight->commit_count -= count;
    pipeline->in_flight -= count;
    pipeline->queued += count;
}

/* --- Launching: the leader's part --- */

/* Does a commit have to wait for the checkpoint? Not if that cannot help: then it is refused. */
static bool is_window_full(struct engine *engine) {
    return window_bytes(engine->window) > engine->options.window_bytes_max && !atomic_load(&engine->failed) &&
           !atomic_load(&engine->disk_full);
}

/* Waits until the window has room. REQUIRES: the lock; leading. */
static void wait_for_room(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    while (is_window_full(engine)) {
        checkpoint_rotate_if_due(engine);
        checkpoint_request(engine);
        os_condition_wait_until(&pipeline->room, &pipeline->lock, os_clock_us() + 100000);
    }
}

/* Waits until every flight before this one has landed. */
static void wait_for_turn(struct pipeline *pipeline, const struct flight *flight) {
    os_mutex_lock(&pipeline->lock);
    while (pipeline->landed != flight->number)
        os_condition_wait(&pipeline->landing, &pipeline->lock);
    os_mutex_unlock(&pipeline->lock);
}

/* Whether commits are taken at all. */
static fdb_error_t admit(struct engine *engine) {
    if (atomic_load(&engine->failed))
        return ERROR_DATABASE_FAILED;
    if (atomic_load(&engine->disk_full) && window_bytes(engine->window) > engine->options.window_bytes_max)
        return ERROR_DISK_FULL; /* the window cannot be emptied into the base */
    return engine_renew_lease(engine);
}

/* Takes everything the batch will need, so that nothing after the append can fail. */
static fdb_error_t reserve(struct engine *engine, struct flight *flight) {
    struct batch_workspace *workspace = &flight->workspace;
    fdb_error_t error = workspace_decode(workspace);
    if (!error)
        error = window_reserve(engine->window, workspace->changes, workspace->batch.count);
    if (!error && engine->log) {
        if (!log_has_room(engine->log, workspace->batch.length))
            wait_for_turn(&engine->pipeline, flight); /* a segment is left only when all of it is synced */
        error = log_reserve(engine->log, workspace->batch.length);
    }
    if (error == ERROR_DISK_FULL)
        atomic_store(&engine->disk_full, true);
    return error;
}

static void apply(struct engine *engine, const struct flight *flight) {
    for (size_t i = 0; i < flight->workspace.batch.count; i++) {
        const struct change *change = &flight->workspace.changes[i];
        if (change->clear)
            window_clear_range(engine->window, flight->version, change->key, change->value);
        else
            window_set(engine->window, flight->version, change->key, change->value);
    }
}

static fdb_error_t fail(struct engine *engine) {
    atomic_store(&engine->failed, true);
    return ERROR_COMMIT_UNKNOWN_RESULT;
}

/* To the log, and to the window, which is filled while the disk begins to write. */
static fdb_error_t write_batch(struct engine *engine, struct flight *flight) {
    const struct batch *batch = &flight->workspace.batch;
    checkpoint_rotate_if_due(engine);
    bool window_was_empty = window_bytes(engine->window) == 0;
    fdb_error_t error = reserve(engine, flight);
    if (error)
        return error;
    if (engine->log) {
        struct bytes payload = bytes_make(batch->data, batch->length);
        flight->in_log = true;
        if (log_append(engine->log, flight->version, &payload, 1))
            return fail(engine);
        if (batch->count >= OVERLAP_CHANGES_MIN)
            log_begin_sync(engine->log);
    }
    apply(engine, flight);
    if (window_was_empty)
        checkpoint_request(engine); /* it sleeps long while there is nothing to move */
    return ERROR_SUCCESS;
}

/* The serial part of a batch. Returns the requests that did not fit into it. REQUIRES: leading. */
static struct commit_request *launch(struct engine *engine, struct flight *flight) {
    struct commit_request *rest = NULL;
    flight->in_log = false;
    flight->version = 0;
    flight->error = admit(engine);
    if (flight->error)
        return NULL;
    flight->version = version_clock_begin_batch(&engine->clock);
    rest = assemble(engine, &flight->workspace, flight->requests, flight->version);
    if (flight->workspace.batch.count > 0)
        flight->error = write_batch(engine, flight);
    resolver_forget(engine->resolver, version_clock_horizon(&engine->clock));
    return rest;
}

/* --- Landing --- */

static void settle_all(struct commit_request *requests, fdb_error_t error) {
    for (; requests; requests = requests->next)
        request_settle(requests, error);
}

static void trigger_watches(struct engine *engine, const struct flight *flight, struct watch **fired) {
    if (watches_count(engine->watches) == 0)
        return;
    for (size_t i = 0; i < flight->workspace.batch.count; i++) {
        const struct change *change = &flight->workspace.changes[i];
        if (change->clear)
            watches_clear_range(engine->watches, change->key, change->value, fired);
        else
            watches_set(engine->watches, change->key, change->value, fired);
    }
}

static void count_batch(struct engine *engine, const struct flight *flight) {
    uint64_t commits = 0;
    for (const struct commit_request *request = flight->requests; request; request = request->next)
        commits += request->error == ERROR_SUCCESS;
    struct engine_counters *counters = &engine->counters;
    atomic_fetch_add_explicit(&counters->commits, commits, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutations, flight->workspace.batch.count, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutation_bytes, flight->workspace.batch.length, memory_order_relaxed);
}

/* Makes the batch readable, unless it or one before it was lost. REQUIRES: all flights before it have landed. */
static void publish(struct engine *engine, struct flight *flight, struct watch **fired) {
    struct pipeline *pipeline = &engine->pipeline;
    if (pipeline->lost && flight->in_log)
        flight->error = ERROR_COMMIT_UNKNOWN_RESULT;
    pipeline->lost |= flight->error == ERROR_COMMIT_UNKNOWN_RESULT;
    settle_all(flight->requests, flight->error);
    if (flight->version && !pipeline->lost)
        version_clock_end_batch(&engine->clock); /* otherwise it stays pending: invariant 5 */
    if (flight->error)
        return;
    if (flight->workspace.batch.count > 0)
        atomic_store_explicit(&engine->disk_full, false, memory_order_relaxed);
    trigger_watches(engine, flight, fired);
    count_batch(engine, flight);
}

static void answer(struct commit_request *requests) {
    while (requests) {
        struct commit_request *next = requests->next; /* complete may free the request */
        requests->complete(requests, requests->error);
        requests = next;
    }
}

/*
 * Tells the threads that sleep in engine_drive for this batch. Waking many takes longer than a sync, so the leader wakes one, and that one, on its
 * way out, the others (pass_on): the leader is free for the next batch.
 */
static void announce(struct pipeline *pipeline, uint64_t group) {
    struct batch_answer *answer = &pipeline->answers[group % ANSWERS_MAX];
    atomic_store(&pipeline->answered_group, group);
    atomic_store(&answer->pass_on, true);
    atomic_fetch_add(&answer->announcements, 1);
    os_wait_wake_one(&answer->announcements);
}

static void pass_on(struct batch_answer *answer) {
    if (atomic_load_explicit(&answer->pass_on, memory_order_relaxed) && atomic_exchange(&answer->pass_on, false))
        os_wait_wake(&answer->announcements);
}

/* Waits for the disk, then for the flights before this one, and tells everybody. */
static void land(struct engine *engine, struct flight *flight) {
    struct pipeline *pipeline = &engine->pipeline;
    struct watch *fired = NULL;
    if (flight->in_log && !flight->error && log_sync(engine->log, flight->version, (unsigned)(flight->number % FLIGHTS_MAX)))
        flight->error = fail(engine);
    wait_for_turn(pipeline, flight);
    publish(engine, flight, &fired);
    answer(flight->requests);
    announce(pipeline, flight->group);
    watches_fire(fired, ERROR_SUCCESS);
    workspace_clean(&flight->workspace);
}

/* --- Who leads --- */

/* REQUIRES: the lock. */
static bool can_launch(const struct pipeline *pipeline) {
    if (!pipeline->head || pipeline->leading || pipeline->launched - pipeline->landed == FLIGHTS_MAX)
        return false;
    return pipeline->launched == pipeline->landed || head_group(pipeline) != pipeline->collecting; /* which is then full */
}

/* Wakes a committer thread if there is something to launch. REQUIRES: the lock. */
static void call_leader(struct pipeline *pipeline) {
    if (!can_launch(pipeline) || pipeline->urgent)
        return;
    pipeline->urgent = true;
    os_condition_signal(&pipeline->work);
}

/* Takes the group at the head of the queue all the way. REQUIRES: the lock, can_launch; the lock is held again at return. */
static void fly(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    pipeline->leading = true;
    pipeline->urgent = false;
    wait_for_room(engine);
    struct flight *flight = &pipeline->flights[pipeline->launched % FLIGHTS_MAX];
    flight->number = pipeline->launched++;
    take_group(pipeline, flight);
    os_mutex_unlock(&pipeline->lock);
    struct commit_request *rest = launch(engine, flight);
    os_mutex_lock(&pipeline->lock);
    if (rest)
        put_back(pipeline, flight, rest);
    pipeline->leading = false;
    call_leader(pipeline);
    os_mutex_unlock(&pipeline->lock);
    land(engine, flight);
    os_mutex_lock(&pipeline->lock);
    pipeline->in_flight -= flight->commit_count;
    pipeline->landed++;
    os_condition_broadcast(&pipeline->landing);
}

void engine_commit(struct database *database, struct commit_request *request) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    request->settled = false;
    os_mutex_lock(&pipeline->lock);
    enqueue(pipeline, request);
    bool wake = pipeline->asleep;
    pipeline->asleep = false; /* or is just being woken */
    os_mutex_unlock(&pipeline->lock);
    if (wake)
        os_condition_signal(&pipeline->work);
}

/*
 * Leads if the own commit is in the group that can be launched. A full window is waited for by a committer thread, so that this one can see its
 * timeout.
 */
static bool try_to_lead(struct engine *engine, uint64_t ticket) {
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    bool led = can_launch(pipeline) && head_group(pipeline) == ticket && !is_window_full(engine);
    if (led)
        fly(engine);
    call_leader(pipeline);
    if (pipeline->stopping)
        os_condition_broadcast(&pipeline->work);
    os_mutex_unlock(&pipeline->lock);
    return led;
}

bool engine_drive(struct database *database, uint64_t ticket) {
    struct engine *engine = engine_of(database);
    struct pipeline *pipeline = &engine->pipeline;
    if (try_to_lead(engine, ticket))
        return true;
    struct batch_answer *answer = &pipeline->answers[ticket % ANSWERS_MAX];
    uint32_t seen = atomic_load(&answer->announcements); /* before the look at answered_group, so that none is slept over */
    if (atomic_load(&pipeline->answered_group) >= ticket)
        return false;
    os_wait_for(&answer->announcements, seen, LOOK_US);
    pass_on(answer);
    return true;
}

void engine_hurry(struct database *database) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    os_mutex_lock(&pipeline->lock);
    call_leader(pipeline);
    os_mutex_unlock(&pipeline->lock);
}

/* --- The committer threads --- */

/*
 * Sleeps until there is a launch that a committer thread has to do: one that is urgent, or one that nobody came to drive for a tick. While
 * commits keep coming one of the threads dozes from tick to tick, so that a client that drives its own commits need not wake it each time.
 * REQUIRES: the lock. False: time to end.
 */
static bool wait_for_work(struct pipeline *pipeline) {
    for (int quiet_ticks = 0;;) {
        bool ready = can_launch(pipeline);
        if (ready && (pipeline->urgent || pipeline->stopping))
            return true;
        if (pipeline->stopping && !pipeline->head && pipeline->launched == pipeline->landed)
            return false;
        if (pipeline->dozing || quiet_ticks == QUIET_TICKS_MAX) {
            pipeline->asleep = !pipeline->dozing;
            os_condition_wait(&pipeline->work, &pipeline->lock);
            pipeline->asleep = false;
            quiet_ticks = 0;
            continue;
        }
        uint64_t arrivals = pipeline->arrivals;
        pipeline->dozing = true;
        bool signalled = os_condition_wait_until(&pipeline->work, &pipeline->lock, os_clock_us() + TICK_US);
        pipeline->dozing = false;
        if (!signalled && can_launch(pipeline))
            return true;
        quiet_ticks = pipeline->arrivals == arrivals ? quiet_ticks + 1 : 0;
    }
}

/* Leads whenever nobody else does, until the engine closes and the queue is empty. */
static void *committer(void *argument) {
    struct engine *engine = argument;
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    while (wait_for_work(pipeline)) {
        while (can_launch(pipeline))
            fly(engine);
    }
    os_condition_broadcast(&pipeline->work); /* the others may end too */
    os_mutex_unlock(&pipeline->lock);
    return NULL;
}

void committers_stop(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    pipeline->stopping = true;
    os_condition_broadcast(&pipeline->work);
    os_mutex_unlock(&pipeline->lock);
    while (pipeline->committer_count > 0)
        os_thread_join(pipeline->committers[--pipeline->committer_count]);
}

fdb_error_t committers_start(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    fdb_error_t error = ERROR_SUCCESS;
    while (!error && pipeline->committer_count < FLIGHTS_MAX) {
        error = os_thread_start(&pipeline->committers[pipeline->committer_count], "keel-commit", committer, engine);
        pipeline->committer_count += !error;
    }
    if (error)
        committers_stop(engine);
    return error;
}
