/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures: how every answer leaves the library. A read of an embedded database makes a ready one on
 * the caller's thread; a commit, watch, versionstamp or retry, and everything that another process
 * answers, makes a pending one that some thread of the database, the network thread or a cancelling
 * caller answers later.
 *
 * Representation. One allocation. A ready future is the head of the struct followed by storage for
 * a key or value; a pending one has its bookkeeping (completion, callbacks) in that place and its
 * storage behind it. A future whose head names foreign methods is not of this file at all, and only
 * passes through its entry points.
 * The state is one word:
 *
 *     READY     the error, or the result, is there and fixed
 *     WAITED    a thread sleeps on the word: whoever sets READY wakes it
 *     CLAIMED   somebody has undertaken to answer a future that no transaction answers
 *     HURRIED   the driver was told that somebody waits without blocking
 *     FIRST     the callback that lies in the future is in use
 *     NUDGED    turned over to make a thread that sleeps on the word look again
 *
 *     pending ── completion_done, cancel ──► READY ── destroy ──► gone
 *                                              │                 ▲
 *                                       release_memory ──► READY, memory given back
 *
 * Callbacks are a stack that future_answer takes as a whole, leaving CLOSED behind: who finds
 * CLOSED calls inline, everybody else is called by the network thread. Nobody is called twice and
 * nobody is missed, because both sides swap the same word.
 *
 * Invariants:
 *
 *   1. `error`, `result` and `arena` are written before READY is set, by the one thread that sets
 *      it, and by release_memory's last holder after that.
 *   2. A future's memory lives while references > 0: one for the caller, one for the answerer until
 *      it has answered, one for each callback until it has returned and one for each thread that
 *      blocks. So a callback may destroy its future, and so may a thread on which others wait.
 *   3. A future that waits for a transaction holds a reference on it until it is freed: cancel and
 *      drive may come at any time before.
 *   4. holders < 0 means released: gets return FUTURE_RELEASED.
 *
 * Threads: any, all the time. No lock is held while callbacks, completions or the database are
 * called.
 *
 * A child process that forked may read a parent's ready futures. One that was pending then will never
 * be answered in the child: it counts as ready, with the error OPENED_BEFORE_FORK, and nothing of it
 * is touched or freed.
 *
 * Failure: where there is no memory for a future, one static future that says so is handed out.
 */
#include "api/future.h"

#include <assert.h>

#include "api/foreign.h"
#include "api/place.h"
#include "os/clock.h"
#include "os/wait.h"
#include "util/memory.h"

enum {
    READY = 1,
    WAITED = 2,
    CLAIMED = 4,
    HURRIED = 8,
    FIRST = 16,
    NUDGED = 32,
};

enum {
    RELEASED = -1000000000,
    /* Small malloc classes that still take most values beside the head. */
    FUTURE_BYTES = 496,
    PENDING_BYTES = 752,
    STORAGE_BYTES = FUTURE_BYTES - offsetof(struct FDB_future, tail),
};

_Static_assert(sizeof(struct FDB_future) + 320 <= PENDING_BYTES, "a pending future has room for a small result");
_Static_assert(offsetof(struct FDB_future, foreign) == offsetof(struct foreign_future_head, foreign) &&
                   offsetof(struct FDB_future, state) == offsetof(struct foreign_future_head, zero),
               "a foreign future begins as ours do");

#define CLOSED ((struct future_callback *)1)

static FDBFuture out_of_memory = {
    .state = READY,
    .references = 1,
    .error = ERROR_LARGE_ALLOC_FAILED,
    .kind = FUTURE_OTHER,
};

static bool is_ready(FDBFuture *future) {
    return (atomic_load_explicit(&future->state, memory_order_acquire) & READY) != 0;
}

bool future_is_ready(FDBFuture *future) {
    return is_ready(future);
}

/* Pending since before a fork. */
static bool is_forked(FDBFuture *future) {
    return future->is_pending && future->tail.pending.generation != os_fork_generation;
}

/* ---- Birth ---- */

FDBFuture *future_out_of_memory(void) {
    return &out_of_memory;
}

static void prepare(FDBFuture *future, enum future_kind kind) {
    future->foreign = NULL;
    atomic_init(&future->holders, 0);
    future->error = 0;
    future->kind = kind;
    future->present = future->more = false;
    future->arena = (struct arena){0};
    if (kind == FUTURE_ROWS || kind == FUTURE_KEYS)
        future->result.rows = (struct rows){0};
    else
        future->result.bytes = (struct bytes){0};
}

FDBFuture *future_create_ready(enum future_kind kind) {
    FDBFuture *future = memory_allocate(FUTURE_BYTES);
    if (!future)
        return NULL;
    atomic_init(&future->state, READY);
    atomic_init(&future->references, 1);
    prepare(future, kind);
    future->is_pending = false;
    future->arena.next = future->tail.storage;
    future->arena.end = future->tail.storage + STORAGE_BYTES;
    return future;
}

FDBFuture *future_create_failed(fdb_error_t error) {
    FDBFuture *future = memory_allocate(sizeof *future);
    if (!future)
        return future_out_of_memory();
    atomic_init(&future->state, READY);
    atomic_init(&future->references, 1);
    prepare(future, FUTURE_OTHER);
    future->is_pending = false;
    future->error = error;
    return future;
}

FDBFuture *future_of_completion(struct completion *completion) {
    size_t offset = offsetof(struct FDB_future, tail.pending.answer.completion);
    return (FDBFuture *)(void *)((char *)completion - offset);
}

static void completion_done(struct completion *completion, fdb_error_t error) {
    FDBFuture *future = future_of_completion(completion);
    struct future_pending *pending = &future->tail.pending;
    if (future->kind == FUTURE_KEY)
        future->result.bytes = bytes_make(pending->answer.stamp, sizeof pending->answer.stamp);
    future_answer(future, error);
}

FDBFuture *future_create_pending(enum future_kind kind, struct transaction *transaction) {
    FDBFuture *future = memory_allocate(PENDING_BYTES);
    if (!future)
        return NULL;
    atomic_init(&future->state, 0);
    atomic_init(&future->references, 2);
    prepare(future, kind);
    future->is_pending = true;
    future->arena.next = (uint8_t *)(future + 1);
    future->arena.end = (uint8_t *)future + PENDING_BYTES;
    struct future_pending *pending = &future->tail.pending;
    pending->answer = (struct versionstamp_completion){.completion.done = completion_done};
    pending->transaction = transaction;
    pending->driver = NULL;
    pending->generation = os_fork_generation;
    atomic_init(&pending->callbacks, NULL);
    if (transaction)
        transaction_retain(transaction);
    return future;
}

struct completion *future_completion(FDBFuture *future) {
    return &future->tail.pending.answer.completion;
}

struct versionstamp_completion *future_versionstamp_completion(FDBFuture *future) {
    return &future->tail.pending.answer;
}

void future_limit_split_points(struct rows *rows, int limit) {
    if (limit < 0 || rows->count - 2 <= limit)
        return;
    rows->array[limit + 1] = rows->array[rows->count - 1];
    rows->count = limit + 2;
}

void future_keep_keys(FDBFuture *future) {
    struct rows *rows = &future->result.rows;
    for (int i = 0; i < rows->count; i++) {
        FDBKey key = {rows->array[i].key, rows->array[i].key_length};
        memcpy((char *)rows->array + (size_t)i * sizeof key, &key, sizeof key);
    }
}

/* ---- Death ---- */

static void free_result(FDBFuture *future) {
    switch (future->kind) {
    case FUTURE_ROWS:
    case FUTURE_KEYS:
        rows_free(&future->result.rows);
        break;
    case FUTURE_DATABASE:
        if (future->result.database)
            database_handle_release((struct database_handle *)(void *)future->result.database);
        break;
    case FUTURE_CLUSTER:
        memory_free(future->result.cluster);
        break;
    default:
        break;
    }
    if (future->arena.block)
        arena_free(&future->arena);
}

static void free_future(FDBFuture *future) {
    if (atomic_load_explicit(&future->holders, memory_order_relaxed) >= 0)
        free_result(future);
    if (future->is_pending && future->tail.pending.transaction)
        transaction_release(future->tail.pending.transaction);
    memory_free(future);
}

static void release(FDBFuture *future) {
    if (future == &out_of_memory)
        return;
    /* The last reference is nobody else's: no need for a locked instruction. */
    if (atomic_load_explicit(&future->references, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&future->references, 1, memory_order_acq_rel) == 1)
        free_future(future);
}

void future_retain(FDBFuture *future) {
    atomic_fetch_add_explicit(&future->references, 1, memory_order_relaxed);
}

void future_release(FDBFuture *future) {
    release(future);
}

/* ---- Callbacks ---- */

static void run_callback(struct loop_task *task) {
    struct future_callback *callback = (struct future_callback *)task;
    FDBFuture *future = callback->future;
    callback->function(future, callback->parameter);
    if (callback != &future->tail.pending.first_callback)
        memory_free(callback);
    release(future);
}

/* Posts a taken stack in the order in which it was pushed. */
static void post_callbacks(struct future_callback *newest) {
    struct future_callback *oldest = NULL;
    while (newest) {
        struct future_callback *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct future_callback *next = oldest->next;
        loop_post(&oldest->task);
        oldest = next;
    }
}

static struct future_callback *take_callback_memory(FDBFuture *future) {
    if (atomic_fetch_or(&future->state, FIRST) & FIRST)
        return memory_allocate(sizeof(struct future_callback));
    return &future->tail.pending.first_callback;
}

/* True: pushed, the network thread will call it. False: the future was closed meanwhile. */
static bool push_callback(FDBFuture *future, struct future_callback *callback) {
    struct future_pending *pending = &future->tail.pending;
    struct future_callback *head = atomic_load(&pending->callbacks);
    do {
        if (head == CLOSED)
            return false;
        callback->next = head;
    } while (!atomic_compare_exchange_weak(&pending->callbacks, &head, callback));
    return true;
}

/* ---- Answering ---- */

void future_answer(FDBFuture *future, fdb_error_t error) {
    assert(future->is_pending && !is_ready(future));
    future->error = error;
    uint32_t before = atomic_fetch_or(&future->state, READY);
    if (before & WAITED)
        os_wait_wake(&future->state);
    struct future_callback *callbacks = atomic_exchange(&future->tail.pending.callbacks, CLOSED);
    release(future); /* first, so that it is freed where it was made, not here; each callback has its own reference */
    post_callbacks(callbacks);
}

static void cancel(FDBFuture *future) {
    if (is_ready(future) || is_forked(future))
        return;
    struct future_pending *pending = &future->tail.pending;
    if (pending->transaction)
        (void)transaction_cancel_completion(&pending->answer.completion);
    else if (!(atomic_fetch_or(&future->state, CLAIMED) & CLAIMED))
        future_answer(future, ERROR_OPERATION_CANCELLED);
}

static bool commit_drive(FDBFuture *future) {
    struct transaction *transaction = future->tail.pending.transaction;
    if (!transaction_drive(transaction))
        return false;
    if (!is_ready(future))
        transaction_expire(transaction); /* it may have run out of time */
    return true;
}

static void commit_hurry(FDBFuture *future) {
    transaction_hurry(future->tail.pending.transaction);
}

const struct future_driver future_commit_driver = {commit_drive, commit_hurry};

/* Somebody waits without blocking: tells whoever brings the answer about, once. */
static void hurry(FDBFuture *future) {
    const struct future_driver *driver = future->tail.pending.driver;
    if (driver && !(atomic_fetch_or(&future->state, HURRIED) & (HURRIED | READY)))
        driver->hurry(future);
}

void future_nudge(FDBFuture *future) {
    if (atomic_fetch_xor(&future->state, NUDGED) & WAITED)
        os_wait_wake(&future->state);
}

/*
 * Sleeps until the state is no longer `state`, if it is that now. A backoff or timeout that comes
 * meanwhile is ended by this thread, so that it does not depend on the network thread: that may never
 * have run, or be gone.
 */
static void sleep_on(FDBFuture *future, uint32_t state) {
    struct transaction *transaction = future->tail.pending.transaction;
    uint32_t now = atomic_fetch_or(&future->state, WAITED);
    if ((now ^ state) & (READY | NUDGED))
        return;
    int64_t deadline_us = transaction ? transaction_deadline(transaction) : 0;
    int64_t left_us = deadline_us ? deadline_us - os_clock_us() : 0;
    if (!deadline_us)
        os_wait(&future->state, now | WAITED);
    else if (left_us > 0)
        os_wait_for(&future->state, now | WAITED, left_us);
    else
        transaction_expire(transaction);
}

/* ---- Entry points: life ---- */

void fdb_future_cancel(FDBFuture *future) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        foreign->cancel(future);
    else if (future)
        cancel(future);
}

void fdb_future_destroy(FDBFuture *future) {
    if (!future)
        return;
    if (!is_ready(future) && future->foreign) {
        future->foreign->destroy(future);
        return;
    }
    if (!future->is_pending && future->kind != FUTURE_DATABASE) { /* a read: the usual case */
        release(future);
        return;
    }
    if (is_forked(future))
        return;
    place_closing_begin();
    cancel(future);
    release(future);
    place_closing_end();
}

void fdb_future_release_memory(FDBFuture *future) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign) {
        foreign->release_memory(future);
        return;
    }
    if (!future || future == &out_of_memory || !is_ready(future))
        return;
    int holders = atomic_load(&future->holders);
    int fewer;
    do {
        if (holders <= 0) /* nothing was handed out, or all of it came back */
            return;
        fewer = holders == 1 ? RELEASED : holders - 1;
    } while (!atomic_compare_exchange_weak(&future->holders, &holders, fewer));
    if (fewer == RELEASED)
        free_result(future);
}

fdb_bool_t fdb_future_is_ready(FDBFuture *future) {
    if (!future)
        return 0;
    if (is_ready(future))
        return 1;
    if (future->foreign)
        return future->foreign->is_ready(future);
    if (is_forked(future))
        return 1;
    hurry(future);
    return is_ready(future);
}

/* With a reference of its own: the future may be destroyed, and thereby cancelled, meanwhile. */
static void wait_until_ready(FDBFuture *future) {
    const struct future_driver *driver = future->tail.pending.driver;
    atomic_fetch_add(&future->references, 1);
    for (;;) {
        uint32_t state = atomic_load(&future->state);
        if (state & READY)
            break;
        if (!driver || !driver->drive(future))
            sleep_on(future, state);
    }
    place_closing_begin();
    release(future);
    place_closing_end();
}

fdb_error_t fdb_future_block_until_ready(FDBFuture *future) {
    if (!future)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (is_ready(future))
        return 0;
    if (future->foreign)
        return future->foreign->block_until_ready(future);
    if (is_forked(future))
        return 0;
    if (loop_is_self())
        return ERROR_BLOCKED_FROM_NETWORK_THREAD;
    wait_until_ready(future);
    return 0;
}

fdb_error_t fdb_future_set_callback(FDBFuture *future, FDBCallback function, void *parameter) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        return foreign->set_callback(future, function, parameter);
    if (!future || !function)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (is_ready(future) || is_forked(future)) {
        function(future, parameter);
        return 0;
    }
    hurry(future); /* before the push: after it the callback may run and destroy the future */
    struct future_callback *callback = take_callback_memory(future);
    if (!callback)
        return ERROR_LARGE_ALLOC_FAILED;
    *callback = (struct future_callback){{run_callback, NULL}, function, parameter, future, NULL};
    atomic_fetch_add(&future->references, 1);
    if (!push_callback(future, callback))
        run_callback(&callback->task);
    return 0;
}

/* ---- Entry points: results ---- */

fdb_error_t fdb_future_get_error(FDBFuture *future) {
    if (!future)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (!is_ready(future) && future->foreign)
        return future->foreign->get_error(future);
    if (!is_ready(future))
        return is_forked(future) ? ERROR_OPENED_BEFORE_FORK : ERROR_FUTURE_NOT_SET;
    if (future->error)
        return future->error;
    bool released = atomic_load_explicit(&future->holders, memory_order_relaxed) < 0;
    return released ? ERROR_FUTURE_RELEASED : 0;
}

/* A foreign future never looks ready from here: its getters are found on the way out. */
static bool foreign_unready(FDBFuture *future, fdb_error_t error) {
    return error == ERROR_FUTURE_NOT_SET && future->foreign;
}

fdb_error_t future_hold(FDBFuture *future, enum future_kind kind, const void *output) {
    if (!future || !output)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (!is_ready(future))
        return !future->foreign && is_forked(future) ? ERROR_OPENED_BEFORE_FORK : ERROR_FUTURE_NOT_SET;
    if (future->error)
        return future->error;
    if (future->kind != kind)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (atomic_fetch_add_explicit(&future->holders, 1, memory_order_acquire) >= 0)
        return 0;
    atomic_fetch_sub_explicit(&future->holders, 1, memory_order_relaxed);
    return ERROR_FUTURE_RELEASED;
}

fdb_error_t fdb_future_get_bool(FDBFuture *future, fdb_bool_t *out) {
    fdb_error_t error = future_hold(future, FUTURE_OTHER, out);
    if (foreign_unready(future, error))
        return future->foreign->get_bool(future, out);
    return error ? error : ERROR_CLIENT_INVALID_OPERATION; /* only blob granules say a bool */
}

fdb_error_t fdb_future_get_int64(FDBFuture *future, int64_t *out) {
    fdb_error_t error = future_hold(future, FUTURE_INT64, out);
    if (foreign_unready(future, error))
        return future->foreign->get_int64(future, out);
    if (!error)
        *out = future->result.int64;
    return error;
}

fdb_error_t fdb_future_get_uint64(FDBFuture *future, uint64_t *out) {
    fdb_error_t error = future_hold(future, FUTURE_UINT64, out);
    if (foreign_unready(future, error))
        return future->foreign->get_uint64(future, out);
    if (!error)
        *out = future->result.uint64;
    return error;
}

fdb_error_t fdb_future_get_double(FDBFuture *future, double *out) {
    fdb_error_t error = future_hold(future, FUTURE_DOUBLE, out);
    if (foreign_unready(future, error))
        return future->foreign->get_double(future, out);
    if (!error)
        *out = future->result.real;
    return error;
}

fdb_error_t fdb_future_get_key(FDBFuture *future, uint8_t const **key, int *length) {
    fdb_error_t error = future_hold(future, FUTURE_KEY, key && length ? key : NULL);
    if (foreign_unready(future, error))
        return future->foreign->get_key(future, key, length);
    if (error)
        return error;
    *key = future->result.bytes.data;
    *length = (int)future->result.bytes.length;
    return 0;
}

/* Go reads the client status, which is a key, as a value: a key is one that is present. */
fdb_error_t fdb_future_get_value(FDBFuture *future, fdb_bool_t *present, uint8_t const **value,
                                 int *length) {
    bool is_key = future && is_ready(future) && future->kind == FUTURE_KEY;
    fdb_error_t error = future_hold(future, is_key ? FUTURE_KEY : FUTURE_VALUE, value && length ? present : NULL);
    if (foreign_unready(future, error))
        return future->foreign->get_value(future, present, value, length);
    if (error)
        return error;
    *present = is_key || future->present;
    if (*present) {
        *value = future->result.bytes.data;
        *length = (int)future->result.bytes.length;
    }
    return 0;
}

fdb_error_t fdb_future_get_keyvalue_array(FDBFuture *future, FDBKeyValue const **rows, int *count,
                                          fdb_bool_t *more) {
    fdb_error_t error = future_hold(future, FUTURE_ROWS, count && more ? rows : NULL);
    if (foreign_unready(future, error))
        return future->foreign->get_keyvalue_array(future, rows, count, more);
    if (error)
        return error;
    *rows = future->result.rows.array;
    *count = future->result.rows.count;
    *more = future->more;
    return 0;
}

fdb_error_t fdb_future_get_key_array(FDBFuture *future, FDBKey const **keys, int *count) {
    fdb_error_t error = future_hold(future, FUTURE_KEYS, count ? keys : NULL);
    if (foreign_unready(future, error))
        return future->foreign->get_key_array(future, keys, count);
    if (error)
        return error;
    *keys = (const FDBKey *)(const void *)future->result.rows.array;
    *count = future->result.rows.count;
    return 0;
}

fdb_error_t fdb_future_get_string_array(FDBFuture *future, const char ***strings, int *count) {
    fdb_error_t error = future_hold(future, FUTURE_STRINGS, count ? strings : NULL);
    if (foreign_unready(future, error))
        return future->foreign->get_string_array(future, strings, count);
    if (error)
        return error;
    *strings = future->result.strings.array;
    *count = future->result.strings.count;
    return 0;
}
