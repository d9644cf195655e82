/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: a completion that waits until the value of a key differs from what the transaction saw.
 *
 *                     own write of another value: done(0)
 *                  ┌────────────────────────────────────────►
 *     watch ──► WAITING ── commit succeeds ──► READY ──► HELD ──► SET ── value changes ──► done(0)
 *                  │                                               │
 *                  └── commit fails: its error                     └── fdb_future_cancel: OPERATION_CANCELLED
 *                      cancel, reset, destroy: TRANSACTION_CANCELLED
 *
 * The value watched is the one the transaction reads, its own writes included, and reading it adds
 * a read conflict range. A cancel that comes while the commit is in flight leaves the watches to
 * the commit's fate, and so does a timeout.
 *
 *   1. A watch in the database holds a reference on its transaction; `fire` or the thread that took
 *      it back gives it up.
 *   2. HELD: one thread is in database_watch or database_unwatch with it, without the lock. `fire`
 *      then only marks it FIRED, so that it is not freed under that thread.
 *   3. A handle's watch_count is the number of its watches that are not answered; TOO_MANY_WATCHES
 *      when it has reached the database's limit.
 */
#include <stddef.h>

#include "txn/state.h"
#include "util/memory.h"

static void link_watch(struct transaction *transaction, struct pending_watch *watch) {
    watch->previous = NULL;
    watch->next = transaction->watches;
    if (watch->next)
        watch->next->previous = watch;
    transaction->watches = watch;
}

static void unlink_watch(struct transaction *transaction, struct pending_watch *watch) {
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        transaction->watches = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
}

/* Answers it, if nobody has. */
static void answer(struct pending_watch *watch, fdb_error_t error, struct ended *ended) {
    struct completion *completion = watch->completion;
    if (!completion)
        return;
    watch->completion = NULL;
    atomic_fetch_sub(&watch->transaction->handle->watch_count, 1);
    completion_collect(completion, error, ended);
}

/* Out of the list; freed when `ended` is worked off. */
static void bury(struct transaction *transaction, struct pending_watch *watch,
                 struct ended *ended) {
    unlink_watch(transaction, watch);
    watch->next = ended->watches;
    ended->watches = watch;
}

/* --- Setting --- */

static void fire(struct watch *base, fdb_error_t error) {
    struct pending_watch *watch =
        (struct pending_watch *)((char *)base - offsetof(struct pending_watch, watch));
    struct transaction *transaction = watch->transaction;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    answer(watch, error, &ended);
    bool held = watch->state == WATCH_HELD;
    if (held)
        watch->state = WATCH_FIRED;
    else
        bury(transaction, watch, &ended);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    if (!held)
        transaction_release(transaction);
}

static fdb_error_t make(struct transaction *transaction, struct bytes key,
                        const struct bytes *value,
                        struct pending_watch **made) {
    size_t value_bytes = value ? value->length : 0;
    struct pending_watch *watch = memory_allocate(sizeof *watch + key.length + value_bytes);
    if (!watch)
        return ERROR_LARGE_ALLOC_FAILED;
    memset(watch, 0, sizeof *watch);
    uint8_t *room = (uint8_t *)(watch + 1);
    if (key.length)
        memcpy(room, key.data, key.length);
    if (value_bytes)
        memcpy(room + key.length, value->data, value_bytes);
    watch->watch.key = bytes_make(room, key.length);
    watch->watch.value = bytes_make(room + key.length, value_bytes);
    watch->watch.present = value != NULL;
    watch->watch.fire = fire;
    watch->transaction = transaction;
    *made = watch;
    return 0;
}

static fdb_error_t check_key(struct transaction *transaction, struct bytes key) {
    if (transaction->options.ryw_disabled)
        return ERROR_WATCHES_DISABLED;
    if (bytes_compare(key, BYTES_LITERAL("\xff\xff")) >= 0 ||
        (bytes_compare(key, key_max_read(transaction)) >= 0 && !key_is_metadata_version(key)))
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    return key.length > key_bytes_max(key, transaction->options.raw_access) ? ERROR_KEY_TOO_LARGE
           : 0;
}

static fdb_error_t start(struct transaction *transaction, struct bytes key,
                         struct completion *completion) {
    struct arena arena = {0};
    struct bytes value;
    bool present = false;
    struct pending_watch *watch = NULL;
    struct database_handle *handle = transaction->handle;
    fdb_error_t error = check_key(transaction, key);
    if (!error)
        error = read_value(transaction, key, false, &arena, &value, &present);
    if (!error)
        error = make(transaction, key, present ? &value : NULL, &watch);
    arena_free(&arena);
    if (error)
        return error;
    if (atomic_fetch_add(&handle->watch_count, 1) >= atomic_load(&handle->watches_max)) {
        atomic_fetch_sub(&handle->watch_count, 1);
        memory_free(watch);
        return ERROR_TOO_MANY_WATCHES;
    }
    watch->completion = completion;
    completion->transaction = transaction;
    completion->kind = COMPLETION_WATCH;
    completion->previous = (struct completion *)(void *)watch; /* so that a cancel finds it */
    link_watch(transaction, watch);
    return 0;
}

void transaction_watch(struct transaction *transaction, struct bytes key,
                       struct completion *completion) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error)
        error = start(transaction, key, completion);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    if (error)
        finish_one(completion, error);
}

/* --- Before the commit --- */

/*
 * The transaction wrote a key (a range whose ends are equal stands for it) or cleared a range:
 * `value` is NULL for a clear.
 */
void watches_fire_written(struct transaction *transaction, struct key_range range, bool known,
                          const struct bytes *value,
                          struct ended *ended) {
    bool single = bytes_equal(range.begin, range.end);
    for (struct pending_watch *watch = transaction->watches, *next; watch; watch = next) {
        next = watch->next;
        if (watch->state != WATCH_WAITING)
            continue;
        if (single ? !bytes_equal(watch->watch.key, range.begin) : !key_range_contains(range,
                watch->watch.key))
            continue;
        bool same = known && watch->watch.present == (value != NULL) &&
                    (!value || bytes_equal(*value, watch->watch.value));
        if (same)
            continue;
        answer(watch, 0, ended);
        bury(transaction, watch, ended);
    }
}

void watches_end(struct transaction *transaction, fdb_error_t error, struct ended *ended) {
    for (struct pending_watch *watch = transaction->watches, *next; watch; watch = next) {
        next = watch->next;
        if (watch->state != WATCH_WAITING)
            continue;
        answer(watch, error, ended);
        bury(transaction, watch, ended);
    }
    for (struct completion *at = transaction->proxy_watches, *next; at; at = next) {
        next = at->next;
        if (at->kind != COMPLETION_PROXY_WAITING)
            continue;
        proxy_watch_unlink(transaction, at);
        completion_collect(at, error, ended);
    }
}

/* --- After it --- */

void watches_make_ready(struct transaction *transaction) {
    for (struct pending_watch *watch = transaction->watches; watch; watch = watch->next) {
        if (watch->state == WATCH_WAITING)
            watch->state = WATCH_READY;
    }
    for (struct completion *at = transaction->proxy_watches; at; at = at->next)
        at->kind = COMPLETION_PROXY_SET;
}

/*
 * Takes a watch that was handed over back from the database. The lock is held, and given back in
 * between.
 */
static void take_back(struct transaction *transaction, struct pending_watch *watch,
                      struct ended *ended) {
    watch->state = WATCH_HELD;
    os_mutex_unlock(&transaction->lock);
    bool ours = database_unwatch(transaction->database, &watch->watch);
    os_mutex_lock(&transaction->lock);
    if (ours || watch->state == WATCH_FIRED) {
        bury(transaction, watch, ended);
        atomic_fetch_sub(&transaction->references, 1); /* the caller has one of its own */
    } else {
        watch->state = WATCH_SET; /* just firing: frees it */
    }
}

static struct pending_watch *next_ready(struct transaction *transaction) {
    struct pending_watch *watch = transaction->watches;
    while (watch && watch->state != WATCH_READY)
        watch = watch->next;
    return watch;
}

void watches_hand_over(struct transaction *transaction) {
    struct ended ended = {0};
    struct pending_watch *watch;
    os_mutex_lock(&transaction->lock);
    while ((watch = next_ready(transaction)) != NULL) {
        if (!watch->completion) {
            bury(transaction, watch, &ended);
            continue;
        }
        watch->state = WATCH_HELD;
        retain_memory(transaction);
        os_mutex_unlock(&transaction->lock);
        fdb_error_t error = database_watch(transaction->database, &watch->watch);
        os_mutex_lock(&transaction->lock);
        if (error)
            answer(watch, error, &ended);
        if (error || watch->state == WATCH_FIRED) {
            bury(transaction, watch, &ended);
            atomic_fetch_sub(&transaction->references, 1); /* the caller has one of its own */
        } else if (!watch->completion) {
            take_back(transaction, watch, &ended);
        } else {
            watch->state = WATCH_SET;
        }
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/* For transaction_cancel_completion, which holds the lock; gives it back. */
bool watch_cancel(struct transaction *transaction, struct completion *completion) {
    struct pending_watch *watch = (struct pending_watch *)(void *)completion->previous;
    struct ended ended = {0};
    answer(watch, ERROR_OPERATION_CANCELLED, &ended);
    if (watch->state == WATCH_WAITING || watch->state == WATCH_READY)
        bury(transaction, watch, &ended);
    else if (watch->state == WATCH_SET)
        take_back(transaction, watch, &ended);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return true;
}
