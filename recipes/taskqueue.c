/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The task queue with leases.
 *
 * Representation (keel/taskqueue.h). A task is its payload and exactly one of the following, which
 * also holds all else that is known about it:
 *
 *     push ───────────────► ready ──────────── claim ───────────► leased ── complete ──► gone
 *       └─ with a delay ──► delayed            give back, fail      │ │
 *                             │   ◄──────────── with a delay ───────┘ │ the lease ends
 *                             └── its time comes ──► ready ◄──────────┤
 *                                                    dead ◄───────────┘ no attempt left
 *
 *     ready    ("ready", priority, due, id)     in the order of claiming
 *     delayed  ("timer", when, id)              in the order of time
 *     leased   ("timer", expires, id) and ("lease", id), which names the holder
 *     dead     ("dead", when, id)
 *
 * Nobody watches the clock: a claim first promotes what is due, up to PROMOTED_MAX tasks.
 *
 * Invariants:
 * 1. Who moves a task from a place it saw in a snapshot has a read conflict on the key of that
 *    place, and clears it. So of two who move the same task one is retried.
 * 2. ("lease", id) exists exactly while ("timer", expires, id) is that of a lease. The holder reads
 *    it for real and compares its claim number, which no two claims of a task share.
 * 3. Keys of new tasks are blind writes under an id that is new. Pushing conflicts with nothing.
 *
 * Threads: any. Failure: input is checked before the first write; after an error of a read in a
 * claim the transaction must not be committed, as after any.
 */
#include <keel/taskqueue.h>

#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROMOTED_MAX = 32, PACKED_MAX = 128 };
enum { DEAD_VALUE_MAX = 2 * KEEL_TASK_REASON_MAX + PACKED_MAX }; /* a NUL takes two bytes */

static const fdb_error_t VALUE_TOO_LARGE = 2103;

/* What is known about a task besides where it is. */
struct record {
    uint8_t id[KEEL_TASK_ID_LENGTH];
    int64_t priority, attempts, attempts_max, claim;
};

KEEL_EXPORT int64_t keel_taskqueue_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* now + span, both 0 or more. */
static fdb_error_t later(int64_t now_ms, int64_t span_ms, int64_t *when_ms) {
    if (now_ms < 0 || span_ms < 0 || span_ms > INT64_MAX - 1 - now_ms)
        return KEEL_ERROR_ARGUMENT;
    *when_ms = now_ms + span_ms;
    return 0;
}

static keel_bytes id_of(const struct record *record) {
    return keel_bytes_of(record->id, sizeof record->id);
}

static struct record record_of(const keel_task *task) {
    struct record record = {.priority = task->priority,
                            .attempts = task->attempts,
                            .attempts_max = task->attempts_max,
                            .claim = task->claim};
    memcpy(record.id, task->id, sizeof record.id);
    return record;
}

static bool has_attempts_left(const struct record *record) {
    return record->attempts_max == 0 || record->attempts < record->attempts_max;
}

/* ---- Writing and clearing the places ---- */

static fdb_error_t set_tuple(FDBTransaction *tr, const keel_subspace *tasks, keel_tuple key_tuple,
                             keel_tuple value_tuple) {
    struct recipe_key key;
    uint8_t value[PACKED_MAX];
    size_t length;
    fdb_error_t error = recipe_pack(tasks, key_tuple, &key);
    if (!error)
        error = keel_tuple_pack(value_tuple, value, sizeof value, &length);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(value, length));
    return error;
}

static fdb_error_t clear_tuple(FDBTransaction *tr, const keel_subspace *tasks, keel_tuple tuple) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(tasks, tuple, &key);
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

static fdb_error_t set_ready(FDBTransaction *tr, const keel_subspace *tasks,
                             const struct record *record, int64_t due_ms) {
    return set_tuple(tr, tasks, KEEL_TUPLE("ready", record->priority, due_ms, id_of(record)),
                     KEEL_TUPLE(record->attempts, record->attempts_max, record->claim));
}

static fdb_error_t set_timer(FDBTransaction *tr, const keel_subspace *tasks,
                             const struct record *record, int64_t when_ms, bool leased) {
    return set_tuple(tr, tasks, KEEL_TUPLE("timer", when_ms, id_of(record)),
                     KEEL_TUPLE(KEEL_BOOL(leased), record->priority, record->attempts,
                                record->attempts_max, record->claim));
}

static fdb_error_t set_lease(FDBTransaction *tr, const keel_subspace *tasks,
                             const struct record *record, int64_t expires_ms) {
    fdb_error_t error = set_timer(tr, tasks, record, expires_ms, true);
    if (!error)
        error = set_tuple(tr, tasks, KEEL_TUPLE("lease", id_of(record)),
                          KEEL_TUPLE(expires_ms, record->claim));
    return error;
}

static fdb_error_t set_dead(FDBTransaction *tr, const keel_subspace *tasks,
                            const struct record *record, int64_t when_ms, keel_bytes reason) {
    struct recipe_key key;
    uint8_t value[DEAD_VALUE_MAX];
    size_t length;
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("dead", when_ms, id_of(record)), &key);
    if (!error)
        error = keel_tuple_pack(KEEL_TUPLE(record->priority, record->attempts, record->attempts_max,
                                           record->claim, reason),
                                value, sizeof value, &length);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(value, length));
    return error;
}

/* Tells those who wait that there is something new. */
static fdb_error_t signal_change(FDBTransaction *tr, const keel_subspace *tasks) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("signal"), &key);
    if (!error)
        recipe_add(tr, &key, 1);
    return error;
}

/* Ready, now or later. */
static fdb_error_t schedule(FDBTransaction *tr, const keel_subspace *tasks,
                            const struct record *record, int64_t now_ms, int64_t due_ms) {
    fdb_error_t error = due_ms > now_ms ? set_timer(tr, tasks, record, due_ms, false)
                                        : set_ready(tr, tasks, record, due_ms);
    return error ? error : signal_change(tr, tasks);
}

/* ---- Reading the places ---- */

/* The elements of a key behind ("place", …): `integers` numbers, then the id. */
static fdb_error_t unpack_key(const keel_subspace *tasks, keel_bytes key, int integers,
                              int64_t *numbers, uint8_t id[KEEL_TASK_ID_LENGTH]) {
    keel_tuple_iterator iterator;
    size_t length = 0;
    fdb_error_t error = keel_subspace_unpack(tasks, key, &iterator);
    if (!error)
        error = keel_tuple_skip(&iterator, 1);
    for (int i = 0; i < integers && !error; i++)
        error = keel_tuple_next_int(&iterator, &numbers[i]);
    if (!error)
        error = keel_tuple_next_bytes(&iterator, id, KEEL_TASK_ID_LENGTH, &length);
    return error || length != KEEL_TASK_ID_LENGTH ? KEEL_ERROR_STORED_FORMAT : 0;
}

static fdb_error_t unpack_integers(keel_tuple_iterator *iterator, int64_t **numbers, int count) {
    fdb_error_t error = 0;
    for (int i = 0; i < count && !error; i++)
        error = keel_tuple_next_int(iterator, numbers[i]);
    return error ? KEEL_ERROR_STORED_FORMAT : 0;
}

static fdb_error_t unpack_ready(const keel_subspace *tasks, keel_bytes key, keel_bytes value,
                                struct record *record) {
    int64_t numbers[2];
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    int64_t *fields[] = {&record->attempts, &record->attempts_max, &record->claim};
    fdb_error_t error = unpack_key(tasks, key, 2, numbers, record->id);
    if (error)
        return error;
    record->priority = numbers[0];
    return unpack_integers(&iterator, fields, 3);
}

static fdb_error_t unpack_timer(const keel_subspace *tasks, keel_bytes key, keel_bytes value,
                                int64_t *when_ms, bool *leased, struct record *record) {
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    int64_t *fields[] = {&record->priority, &record->attempts, &record->attempts_max,
                         &record->claim};
    fdb_error_t error = unpack_key(tasks, key, 1, when_ms, record->id);
    if (!error && keel_tuple_next_bool(&iterator, leased))
        error = KEEL_ERROR_STORED_FORMAT;
    return error ? error : unpack_integers(&iterator, fields, 4);
}

/* ---- Pushing ---- */

/* An id that nobody has; those of one process are in the order in which they are drawn. */
static void draw_id(uint8_t id[KEEL_TASK_ID_LENGTH]) {
    static atomic_uint drawn;
    unsigned number = atomic_fetch_add(&drawn, 1);
    recipe_random(id, KEEL_TASK_ID_LENGTH);
    for (int i = 0; i < 4; i++)
        id[i] = (uint8_t)(number >> (24 - 8 * i));
}

KEEL_EXPORT fdb_error_t keel_taskqueue_push(FDBTransaction *tr, const keel_subspace *tasks,
                                            int64_t now_ms, const keel_task_options *options,
                                            keel_bytes payload, uint8_t id[KEEL_TASK_ID_LENGTH]) {
    static const keel_task_options defaults;
    struct record record = {.attempts = 0};
    struct recipe_key key;
    int64_t due_ms = 0;
    if (!options)
        options = &defaults;
    fdb_error_t error = recipe_check_value(payload);
    if (!error)
        error = later(now_ms, options->delay_ms, &due_ms);
    if (!error && options->attempts_max < 0)
        error = KEEL_ERROR_ARGUMENT;
    if (error)
        return error;
    record.priority = options->priority;
    record.attempts_max = options->attempts_max;
    draw_id(record.id);
    error = recipe_pack(tasks, KEEL_TUPLE("payload", id_of(&record)), &key);
    if (!error)
        error = schedule(tr, tasks, &record, now_ms, due_ms);
    if (error)
        return error;
    recipe_set(tr, &key, payload);
    if (id)
        memcpy(id, record.id, sizeof record.id);
    return 0;
}

/* ---- Claiming ---- */

KEEL_EXPORT void keel_task_free(keel_task *task) {
    free(task->payload);
    task->payload = NULL;
    task->payload_length = 0;
}

/* Moves what a timer holds: to the ready ones, or to the dead. */
static fdb_error_t promote_one(FDBTransaction *tr, const keel_subspace *tasks, keel_bytes key,
                               keel_bytes value, int64_t now_ms) {
    struct record record;
    int64_t when_ms;
    bool leased;
    fdb_error_t error = unpack_timer(tasks, key, value, &when_ms, &leased, &record);
    if (!error)
        error = recipe_read_conflict(tr, key);
    if (error)
        return error;
    fdb_transaction_clear(tr, key.data, (int)key.length);
    if (leased)
        error = clear_tuple(tr, tasks, KEEL_TUPLE("lease", id_of(&record)));
    if (error)
        return error;
    return has_attempts_left(&record)
               ? set_ready(tr, tasks, &record, when_ms)
               : set_dead(tr, tasks, &record, now_ms, keel_bytes_of(NULL, 0));
}

static fdb_error_t promote_due(FDBTransaction *tr, const keel_subspace *tasks,
                               struct recipe_scan *due, int64_t now_ms, int *promoted) {
    keel_bytes key, value;
    bool found = true;
    fdb_error_t error = 0;
    for (*promoted = 0; !error; ++*promoted) {
        error = recipe_scan_next(due, &key, &value, &found);
        if (error || !found)
            break;
        error = promote_one(tr, tasks, key, value, now_ms);
    }
    return error;
}

/* The timers up to now. */
static fdb_error_t due_span(const keel_subspace *tasks, int64_t now_ms, struct recipe_span *span) {
    fdb_error_t error = recipe_span_of(tasks, KEEL_TUPLE("timer"), span);
    return error ? error : recipe_pack(tasks, KEEL_TUPLE("timer", now_ms + 1), &span->end);
}

/* Starts reading what is due and what is ready, promotes the former, and leaves `ready` open. */
static fdb_error_t open_ready(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                              int spread, struct recipe_scan *ready) {
    struct recipe_span timers, span;
    struct recipe_scan due;
    int promoted = 0;
    fdb_error_t error = due_span(tasks, now_ms, &timers);
    if (!error)
        error = recipe_span_of(tasks, KEEL_TUPLE("ready"), &span);
    if (error)
        return error;
    recipe_scan_open(&due, tr, &timers, PROMOTED_MAX, false, true);
    recipe_scan_open(ready, tr, &span, spread, false, true);
    error = promote_due(tr, tasks, &due, now_ms, &promoted);
    recipe_scan_close(&due);
    if (!error && promoted) { /* they may belong in front */
        recipe_scan_close(ready);
        recipe_scan_open(ready, tr, &span, spread, false, true);
    }
    if (error)
        recipe_scan_close(ready);
    return error;
}

static uint32_t random_below(uint32_t limit) {
    uint32_t number;
    recipe_random((uint8_t *)&number, sizeof number);
    return number % limit;
}

/* One of the rows that share the first one's priority, each with the same chance. */
static fdb_error_t choose(const keel_subspace *tasks, struct recipe_scan *ready, bool *found,
                          struct record *chosen, struct recipe_key *chosen_key) {
    keel_bytes key, value;
    struct record record;
    bool more;
    uint32_t count = 0;
    *found = false;
    for (;;) {
        fdb_error_t error = recipe_scan_next(ready, &key, &value, &more);
        if (!error && more)
            error = unpack_ready(tasks, key, value, &record);
        if (error || !more || (count && record.priority != chosen->priority))
            return error;
        if (random_below(++count) != 0)
            continue; /* the n-th replaces the choice with a chance of 1 / n */
        *found = true;
        *chosen = record;
        memcpy(chosen_key->data, key.data, key.length);
        chosen_key->length = key.length;
    }
}

/* Takes one ready task away. A row without a payload is no task: it goes, and the next is tried. */
static fdb_error_t take_ready(FDBTransaction *tr, const keel_subspace *tasks, int64_t now_ms,
                              int spread, bool *found, struct record *record, keel_task *task) {
    struct recipe_scan ready;
    struct recipe_key key;
    for (;;) {
        fdb_error_t error = open_ready(tr, tasks, now_ms, spread, &ready);
        if (error)
            return error;
        error = choose(tasks, &ready, found, record, &key);
        recipe_scan_close(&ready);
        if (!error && *found)
            error = recipe_read_conflict(tr, keel_bytes_of(key.data, key.length));
        if (error || !*found)
            return error;
        error = keel_taskqueue_payload(tr, tasks, record->id, &task->payload,
                                       &task->payload_length);
        if (error && error != KEEL_ERROR_NOT_FOUND)
            return error;
        recipe_clear(tr, &key);
        if (!error)
            return 0;
    }
}

KEEL_EXPORT fdb_error_t keel_taskqueue_claim(FDBTransaction *tr, const keel_subspace *tasks,
                                             int64_t now_ms, int64_t lease_ms, int spread,
                                             bool *found, keel_task *task) {
    struct record record;
    keel_task claimed = {.payload = NULL};
    bool any = false;
    int64_t expires_ms;
    fdb_error_t error = later(now_ms, lease_ms, &expires_ms);
    if (error || lease_ms < 1 || spread < 1 || spread > KEEL_TASK_SPREAD_MAX)
        return KEEL_ERROR_ARGUMENT;
    error = take_ready(tr, tasks, now_ms, spread, &any, &record, &claimed);
    if (!error && any) {
        record.attempts++;
        record.claim++;
        error = set_lease(tr, tasks, &record, expires_ms);
    }
    if (error) {
        keel_task_free(&claimed);
        return error;
    }
    *found = any;
    if (!any)
        return 0;
    memcpy(claimed.id, record.id, sizeof claimed.id);
    claimed.priority = record.priority;
    claimed.lease_until_ms = expires_ms;
    claimed.attempts = record.attempts;
    claimed.attempts_max = record.attempts_max;
    claimed.claim = record.claim;
    *task = claimed;
    return 0;
}

/* ---- With the lease ---- */

/* When the lease ends as the database has it; LEASE_LOST if it is not this task's any more. */
static fdb_error_t check_lease(FDBTransaction *tr, const keel_subspace *tasks,
                               const struct record *record, int64_t *expires_ms) {
    struct recipe_key key;
    keel_bytes value;
    bool present;
    int64_t claim = 0, *fields[] = {expires_ms, &claim};
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("lease", id_of(record)), &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &value);
    if (!error && present) {
        keel_tuple_iterator iterator = keel_tuple_iterate(value);
        error = unpack_integers(&iterator, fields, 2);
    }
    fdb_future_destroy(future);
    if (!error && (!present || claim != record->claim))
        error = KEEL_ERROR_LEASE_LOST;
    return error;
}

/* Checks the lease and removes it: the task is in no place then. */
static fdb_error_t end_lease(FDBTransaction *tr, const keel_subspace *tasks,
                             const struct record *record) {
    int64_t expires_ms;
    fdb_error_t error = check_lease(tr, tasks, record, &expires_ms);
    if (!error)
        error = clear_tuple(tr, tasks, KEEL_TUPLE("timer", expires_ms, id_of(record)));
    if (!error)
        error = clear_tuple(tr, tasks, KEEL_TUPLE("lease", id_of(record)));
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_complete(FDBTransaction *tr, const keel_subspace *tasks,
                                                const keel_task *task) {
    struct record record = record_of(task);
    fdb_error_t error = end_lease(tr, tasks, &record);
    return error ? error : clear_tuple(tr, tasks, KEEL_TUPLE("payload", id_of(&record)));
}

KEEL_EXPORT fdb_error_t keel_taskqueue_extend(FDBTransaction *tr, const keel_subspace *tasks,
                                              int64_t now_ms, const keel_task *task,
                                              int64_t lease_ms, int64_t *lease_until_ms) {
    struct record record = record_of(task);
    int64_t expires_ms;
    if (lease_ms < 1 || later(now_ms, lease_ms, &expires_ms))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = end_lease(tr, tasks, &record);
    if (!error)
        error = set_lease(tr, tasks, &record, expires_ms);
    if (!error && lease_until_ms)
        *lease_until_ms = expires_ms;
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_give_back(FDBTransaction *tr, const keel_subspace *tasks,
                                                 int64_t now_ms, const keel_task *task,
                                                 int64_t delay_ms) {
    struct record record = record_of(task);
    int64_t due_ms;
    fdb_error_t error = later(now_ms, delay_ms, &due_ms);
    if (!error)
        error = end_lease(tr, tasks, &record);
    record.attempts--;
    return error ? error : schedule(tr, tasks, &record, now_ms, due_ms);
}

KEEL_EXPORT fdb_error_t keel_taskqueue_fail(FDBTransaction *tr, const keel_subspace *tasks,
                                            int64_t now_ms, const keel_task *task, int64_t delay_ms,
                                            keel_bytes reason) {
    struct record record = record_of(task);
    int64_t due_ms;
    fdb_error_t error = recipe_check_value(reason);
    if (!error && reason.length > KEEL_TASK_REASON_MAX)
        error = VALUE_TOO_LARGE;
    if (!error)
        error = later(now_ms, delay_ms, &due_ms);
    if (!error)
        error = end_lease(tr, tasks, &record);
    if (error)
        return error;
    return has_attempts_left(&record) ? schedule(tr, tasks, &record, now_ms, due_ms)
                                      : set_dead(tr, tasks, &record, now_ms, reason);
}

/* ---- Waiting for work ---- */

KEEL_EXPORT fdb_error_t keel_taskqueue_next(FDBTransaction *tr, const keel_subspace *tasks,
                                            int64_t *when_ms) {
    struct recipe_span ready_span, timer_span;
    struct recipe_scan ready, timers;
    keel_bytes key, value;
    bool is_ready, is_timed = false;
    int64_t when = INT64_MAX;
    uint8_t id[KEEL_TASK_ID_LENGTH];
    fdb_error_t error = recipe_span_of(tasks, KEEL_TUPLE("ready"), &ready_span);
    if (!error)
        error = recipe_span_of(tasks, KEEL_TUPLE("timer"), &timer_span);
    if (error)
        return error;
    recipe_scan_open(&ready, tr, &ready_span, 1, false, true);
    recipe_scan_open(&timers, tr, &timer_span, 1, false, true);
    error = recipe_scan_next(&ready, &key, &value, &is_ready);
    if (!error)
        error = recipe_scan_next(&timers, &key, &value, &is_timed);
    if (!error && is_timed)
        error = unpack_key(tasks, key, 1, &when, id);
    recipe_scan_close(&timers);
    recipe_scan_close(&ready);
    if (!error)
        *when_ms = is_ready ? 0 : when;
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_watch(FDBTransaction *tr, const keel_subspace *tasks,
                                             FDBFuture **future) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("signal"), &key);
    if (!error)
        *future = fdb_transaction_watch(tr, key.data, (int)key.length);
    return error;
}

/* ---- Dead letters ---- */

/* `space` takes the reason. */
static fdb_error_t unpack_dead(const keel_subspace *tasks, keel_bytes key, keel_bytes value,
                               uint8_t space[KEEL_TASK_REASON_MAX], keel_dead_task *dead) {
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    int64_t *fields[] = {&dead->priority, &dead->attempts, &dead->attempts_max, &dead->claim};
    size_t length = 0;
    fdb_error_t error = unpack_key(tasks, key, 1, &dead->died_ms, dead->id);
    if (!error)
        error = unpack_integers(&iterator, fields, 4);
    if (!error && keel_tuple_next_bytes(&iterator, space, KEEL_TASK_REASON_MAX, &length))
        error = KEEL_ERROR_STORED_FORMAT;
    dead->reason = keel_bytes_of(space, length);
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_dead(FDBTransaction *tr, const keel_subspace *tasks,
                                            int limit, keel_dead_visit visit, void *context) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found;
    uint8_t reason[KEEL_TASK_REASON_MAX];
    if (limit < 0 || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(tasks, KEEL_TUPLE("dead"), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, limit, false, true);
    error = recipe_scan_next(&scan, &key, &value, &found);
    while (!error && found) {
        keel_dead_task dead;
        error = unpack_dead(tasks, key, value, reason, &dead);
        if (!error)
            error = visit(context, &dead);
        if (!error)
            error = recipe_scan_next(&scan, &key, &value, &found);
    }
    recipe_scan_close(&scan);
    return error;
}

/* Takes the entry away; NOT_FOUND if somebody else has. */
static fdb_error_t take_dead(FDBTransaction *tr, const keel_subspace *tasks,
                             const keel_dead_task *dead) {
    struct recipe_key key;
    keel_bytes id = keel_bytes_of(dead->id, sizeof dead->id), value;
    bool present;
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("dead", dead->died_ms, id), &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &value);
    fdb_future_destroy(future);
    if (!error && !present)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_dead_retry(FDBTransaction *tr, const keel_subspace *tasks,
                                                  int64_t now_ms, const keel_dead_task *dead) {
    struct record record = {.priority = dead->priority,
                            .attempts_max = dead->attempts_max,
                            .claim = dead->claim};
    memcpy(record.id, dead->id, sizeof record.id);
    if (now_ms < 0)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = take_dead(tr, tasks, dead);
    return error ? error : schedule(tr, tasks, &record, now_ms, now_ms);
}

KEEL_EXPORT fdb_error_t keel_taskqueue_dead_remove(FDBTransaction *tr, const keel_subspace *tasks,
                                                   const keel_dead_task *dead) {
    keel_bytes id = keel_bytes_of(dead->id, sizeof dead->id);
    fdb_error_t error = take_dead(tr, tasks, dead);
    return error ? error : clear_tuple(tr, tasks, KEEL_TUPLE("payload", id));
}

/* ---- Looking ---- */

KEEL_EXPORT fdb_error_t keel_taskqueue_payload(FDBTransaction *tr, const keel_subspace *tasks,
                                               const uint8_t id[KEEL_TASK_ID_LENGTH],
                                               uint8_t **payload, size_t *length) {
    struct recipe_key key;
    keel_bytes value, name = keel_bytes_of(id, KEEL_TASK_ID_LENGTH);
    bool present;
    fdb_error_t error = recipe_pack(tasks, KEEL_TUPLE("payload", name), &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &value);
    if (!error)
        error = present ? recipe_copy(value, payload, length) : KEEL_ERROR_NOT_FOUND;
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t count_timers(struct recipe_scan *timers, const keel_subspace *tasks,
                                int64_t now_ms, keel_taskqueue_counts *counts) {
    keel_bytes key, value;
    bool found, leased;
    int64_t when_ms;
    struct record record;
    fdb_error_t error = recipe_scan_next(timers, &key, &value, &found);
    while (!error && found) {
        error = unpack_timer(tasks, key, value, &when_ms, &leased, &record);
        if (error)
            break;
        if (when_ms > now_ms)
            *(leased ? &counts->leased : &counts->delayed) += 1;
        else
            *(has_attempts_left(&record) ? &counts->ready : &counts->dead) += 1;
        error = recipe_scan_next(timers, &key, &value, &found);
    }
    return error;
}

static fdb_error_t count_rows(struct recipe_scan *scan, int64_t *count) {
    keel_bytes key, value;
    bool found;
    fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
    while (!error && found) {
        ++*count;
        error = recipe_scan_next(scan, &key, &value, &found);
    }
    return error;
}

KEEL_EXPORT fdb_error_t keel_taskqueue_count(FDBTransaction *tr, const keel_subspace *tasks,
                                             int64_t now_ms, keel_taskqueue_counts *counts) {
    static const char *const places[] = {"ready", "timer", "dead"};
    struct recipe_span spans[3];
    struct recipe_scan scans[3];
    keel_taskqueue_counts all = {0, 0, 0, 0};
    fdb_error_t error = 0;
    for (int i = 0; i < 3 && !error; i++)
        error = recipe_span_of(tasks, KEEL_TUPLE(places[i]), &spans[i]);
    if (error)
        return error;
    for (int i = 0; i < 3; i++)
        recipe_scan_open(&scans[i], tr, &spans[i], 0, false, true);
    error = count_rows(&scans[0], &all.ready);
    if (!error)
        error = count_timers(&scans[1], tasks, now_ms, &all);
    if (!error)
        error = count_rows(&scans[2], &all.dead);
    for (int i = 0; i < 3; i++)
        recipe_scan_close(&scans[i]);
    if (!error)
        *counts = all;
    return error;
}
