/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retrying and running out of time.
 *
 * on_error decides which errors a retry loop may go round on. For those it waits, resets what the
 * transaction did and completes with success; the options that are meant to last (timeout, retry
 * limit, longest delay, and the database's defaults) stay, and time goes on counting from the
 * transaction's creation or last reset. For any other error, or when the retry limit is reached, it
 * completes with that error and, from API version 610 on, leaves the transaction cancelled.
 *
 * The wait is a random share of the backoff, which starts at 10 ms and doubles with each retry up
 * to the longest delay (a second unless set). An old or future read version waits a fixed 10 ms at
 * most: the next version will do.
 *
 * A timeout is a timer on the loop, and a look at the clock in each call, so that it holds even
 * where the loop is late. It fails the transaction and every completion it has pending; only reset
 * brings it back. A thread that blocks on a future looks at both timers itself (transaction_expire):
 * it waits no longer than it should where the loop does not run at all.
 *
 *   1. A timer that is set holds a reference on the transaction, and so does an expiry under way.
 *   2. Timers are set and cancelled under the lock. An expiry that finds its deadline moved does
 *      nothing.
 */
#include <stddef.h>

#include "os/clock.h"
#include "txn/state.h"

enum {
    BACKOFF_GROWTH = 2,
    OLD_VERSION_DELAY_US = 10000,
    RESOURCE_BACKOFF_MAX_MS = 30000,
};

/* --- Timers --- */

static void set_timer(struct transaction *transaction, struct loop_timer *timer,
                      int64_t deadline_us) {
    if (!loop_timer_cancel(timer))
        retain_memory(transaction);
    loop_timer_set(timer, deadline_us);
}

static void stop_timer(struct transaction *transaction, struct loop_timer *timer) {
    if (loop_timer_cancel(timer))
        atomic_fetch_sub(&transaction->references, 1); /* the caller has one of its own */
}

/* The backoff is over: the transaction begins anew. */
static void begin_anew(struct transaction *transaction, struct ended *ended) {
    pending_end(transaction, transaction->retry, 0, ended);
    transaction_clear_state(transaction, ended);
}

/* Whichever of the two is due; a timeout comes first. */
void transaction_expire(struct transaction *transaction) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    int64_t now_us = os_clock_us();
    if (transaction->deadline_us && !transaction->destroyed && now_us >= transaction->deadline_us)
        transaction_fail(transaction, ERROR_TRANSACTION_TIMED_OUT, &ended);
    if (transaction->retry && now_us >= transaction->retry_deadline_us)
        begin_anew(transaction, &ended);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

int64_t transaction_deadline(struct transaction *transaction) {
    os_mutex_lock(&transaction->lock);
    int64_t timeout_us = transaction->reset_error ? 0 : transaction->deadline_us;
    int64_t retry_us = transaction->retry ? transaction->retry_deadline_us : 0;
    os_mutex_unlock(&transaction->lock);
    return timeout_us && (!retry_us || timeout_us < retry_us) ? timeout_us : retry_us;
}

static void timeout_expire(struct loop_timer *timer) {
    struct transaction *transaction =
        (struct transaction *)((char *)timer - offsetof(struct transaction, timeout_timer));
    transaction_expire(transaction);
    transaction_release(transaction);
}

static void retry_expire(struct loop_timer *timer) {
    struct transaction *transaction =
        (struct transaction *)((char *)timer - offsetof(struct transaction, retry_timer));
    transaction_expire(transaction);
    transaction_release(transaction);
}

void timers_init(struct transaction *transaction) {
    transaction->timeout_timer.expire = timeout_expire;
    transaction->timeout_timer.heap_index = -1;
    transaction->retry_timer.expire = retry_expire;
    transaction->retry_timer.heap_index = -1;
}

void timers_stop(struct transaction *transaction) {
    if (transaction->deadline_us)
        stop_timer(transaction, &transaction->timeout_timer);
    if (transaction->retry_deadline_us)
        stop_timer(transaction, &transaction->retry_timer);
    transaction->deadline_us = transaction->retry_deadline_us = 0;
}

/* Puts the timeout in force that the options ask for. */
void timeout_apply(struct transaction *transaction, struct ended *ended) {
    if (transaction->deadline_us)
        stop_timer(transaction, &transaction->timeout_timer);
    transaction->deadline_us = 0;
    if (!transaction->options.timeout_ms || transaction->destroyed)
        return;
    transaction->deadline_us = transaction->created_us + transaction->options.timeout_ms * 1000;
    transaction->troubled = true;
    if (os_clock_us() >= transaction->deadline_us)
        transaction_fail(transaction, ERROR_TRANSACTION_TIMED_OUT, ended);
    else
        set_timer(transaction, &transaction->timeout_timer, transaction->deadline_us);
}

/* --- on_error --- */

static bool lacks_resources(fdb_error_t error) {
    return error == ERROR_COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED ||
           error == ERROR_GRV_PROXY_MEMORY_LIMIT_EXCEEDED ||
           error == ERROR_TRANSACTION_THROTTLED_HOT_SHARD ||
               error == ERROR_TRANSACTION_REJECTED_RANGE_LOCKED;
}

static bool has_old_version(fdb_error_t error) {
    return error == ERROR_TRANSACTION_TOO_OLD || error == ERROR_FUTURE_VERSION;
}

static bool is_retryable(fdb_error_t error) {
    switch (error) {
    case ERROR_NOT_COMMITTED:
    case ERROR_COMMIT_UNKNOWN_RESULT:
    case ERROR_DATABASE_LOCKED:
    case ERROR_PROCESS_BEHIND:
    case ERROR_BATCH_TRANSACTION_THROTTLED:
    case ERROR_TAG_THROTTLED:
    case ERROR_BLOB_GRANULE_REQUEST_FAILED:
    case ERROR_PROXY_TAG_THROTTLED:
    case ERROR_OWNER_SILENT:
        return true;
    default:
        return lacks_resources(error) || has_old_version(error);
    }
}

/* Between 0 and 1; need not be good, must differ between transactions. */
static double random_share(const struct transaction *transaction) {
    static _Atomic uint64_t counter;
    uint64_t x = atomic_fetch_add(&counter,
                                  0x9e3779b97f4a7c15u) ^ (uint64_t)(uintptr_t)transaction ^
                 (uint64_t)os_clock_us() << 17;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static int64_t delay_us(struct transaction *transaction, fdb_error_t error) {
    double longest = (double)transaction->options.retry_delay_max_ms / 1000.0;
    if (has_old_version(error)) {
        int64_t longest_us = transaction->options.retry_delay_max_ms * 1000;
        return longest_us < OLD_VERSION_DELAY_US ? longest_us : OLD_VERSION_DELAY_US;
    }
    double limit = lacks_resources(error) ? RESOURCE_BACKOFF_MAX_MS / 1000.0 : longest;
    double backoff = transaction->backoff_seconds < limit ? transaction->backoff_seconds : limit;
    double grown = transaction->backoff_seconds * BACKOFF_GROWTH;
    transaction->backoff_seconds = grown < limit ? grown : limit;
    return (int64_t)(backoff * random_share(transaction) * 1e6);
}

/* on_error, or its wait, came to nothing. */
static void give_up(struct transaction *transaction, struct ended *ended) {
    if (transaction->api_version >= 610)
        transaction_fail(transaction, ERROR_TRANSACTION_CANCELLED, ended);
    else
        transaction_clear_state(transaction, ended);
}

void retry_cancel(struct transaction *transaction, struct ended *ended) {
    if (transaction->retry_deadline_us)
        stop_timer(transaction, &transaction->retry_timer);
    transaction->retry_deadline_us = 0;
    give_up(transaction, ended);
}

/* Whether the retry limit still allows another round; counts it. */
static bool count_retry(struct transaction *transaction) {
    int64_t limit = transaction->options.retry_limit;
    return transaction->retries++ < limit || limit == -1;
}

static void wait_and_retry(struct transaction *transaction, fdb_error_t error,
                           struct completion *completion,
                           struct ended *ended) {
    int64_t wait_us = delay_us(transaction, error);
    pending_add(transaction, completion, COMPLETION_RETRY);
    watches_end(transaction, ERROR_TRANSACTION_CANCELLED, ended);
    if (transaction->retry)
        return; /* another on_error is waiting: its reset ends this one */
    transaction->retry = completion;
    if (wait_us <= 0) {
        begin_anew(transaction, ended);
        return;
    }
    transaction->retry_deadline_us = os_clock_us() + wait_us;
    set_timer(transaction, &transaction->retry_timer, transaction->retry_deadline_us);
}

void transaction_on_error(struct transaction *transaction, fdb_error_t error,
                          struct completion *completion) {
    struct ended ended = {0};
    fdb_error_t answer = 0;
    os_mutex_lock(&transaction->lock);
    if (transaction->deadline_us && os_clock_us() >= transaction->deadline_us)
        transaction_fail(transaction, ERROR_TRANSACTION_TIMED_OUT, &ended);
    if (transaction->reset_error) {
        answer = transaction->reset_error;
    } else if (count_retry(transaction) && is_retryable(error)) {
        wait_and_retry(transaction, error, completion, &ended);
    } else {
        answer = error ? error : ERROR_CLIENT_INVALID_OPERATION;
        give_up(transaction, &ended);
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    if (answer)
        finish_one(completion, answer);
}
