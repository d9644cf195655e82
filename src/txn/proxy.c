/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxies: transactions whose data another process has. A proxy is an ordinary struct transaction of
 * which only the outside is used: options, timeouts, backoff, the order of errors, and the
 * completions that wait on it; so all that behaves as in an embedded database, also while the other
 * process cannot be reached. What touches data is sent to the *twin*, an ordinary transaction in the
 * process that owns the database. This file is where the two meet: a call is admitted here before it
 * is sent, and its answer comes back here.
 *
 *                    admitted                     answered
 *     api/joined.c ────────────► pending or watch ────────────► done
 *                                      │ cancel, reset, timeout, ...: ended as ever, the answer
 *                                      └─► that comes later finds nobody and is dropped
 *
 *   1. `round` counts how often the transaction began anew. A twin is of one round; before a call of
 *      a later one the twin is reset.
 *   2. A commit's answer counts even where its completion was cancelled, because watches wait for it,
 *      but only in its own round.
 *   3. A watch is in `proxy_watches` until it is answered; COMPLETION_PROXY_WAITING until the commit
 *      succeeded, COMPLETION_PROXY_SET from then on: then resets no longer end it.
 *
 * Threads and locks as in transaction.c. Failure: admitting returns what the embedded call would.
 */
#include "txn/state.h"

void *transaction_extra(struct transaction *transaction) {
    return transaction + 1;
}

/* --- Admitting calls --- */

fdb_error_t transaction_proxy_begin(struct transaction *transaction, enum proxy_call call,
                                    struct completion *completion, uint64_t *round) {
    struct ended ended = {0};
    fdb_error_t error;
    os_mutex_lock(&transaction->lock);
    if (call == PROXY_SIZE)
        error = transaction->deferred_error;
    else
        error = transaction_check(transaction, call != PROXY_ASIDE, &ended);
    if (!error) {
        transaction->used |= call == PROXY_READ;
        pending_add(transaction, completion, COMPLETION_PROXY);
        *round = transaction->round;
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

bool transaction_proxy_write(struct transaction *transaction, uint64_t *round) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    bool refused = transaction_used_during_commit(transaction, &ended);
    if (refused)
        transaction_defer(transaction, ERROR_USED_DURING_COMMIT);
    transaction->used = true;
    *round = transaction->round;
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return !refused;
}

uint64_t transaction_proxy_round(struct transaction *transaction) {
    os_mutex_lock(&transaction->lock);
    uint64_t round = transaction->round;
    os_mutex_unlock(&transaction->lock);
    return round;
}

fdb_error_t transaction_proxy_commit(struct transaction *transaction, struct completion *completion,
                                     uint64_t *round) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error) {
        transaction->commit_started = transaction->troubled = true;
        transaction->proxy_commits = true;
        pending_add(transaction, completion, COMPLETION_COMMIT);
        *round = transaction->round;
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

fdb_error_t transaction_proxy_watch(struct transaction *transaction, struct completion *completion,
                                    uint64_t *round) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error) {
        transaction->used = true;
        completion->transaction = transaction;
        completion->kind = COMPLETION_PROXY_WAITING;
        completion->previous = NULL;
        completion->next = transaction->proxy_watches;
        if (completion->next)
            completion->next->previous = completion;
        transaction->proxy_watches = completion;
        *round = transaction->round;
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

/* --- Answers --- */

void proxy_watch_unlink(struct transaction *transaction, struct completion *completion) {
    if (completion->previous)
        completion->previous->next = completion->next;
    else
        transaction->proxy_watches = completion->next;
    if (completion->next)
        completion->next->previous = completion->previous;
    completion->kind = COMPLETION_NONE;
}

bool transaction_proxy_claim(struct completion *completion) {
    struct transaction *transaction = completion->transaction;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    bool claimed = completion->kind != COMPLETION_NONE;
    if (completion->kind == COMPLETION_PROXY_WAITING || completion->kind == COMPLETION_PROXY_SET)
        proxy_watch_unlink(transaction, completion);
    else if (claimed)
        pending_end(transaction, completion, 0, &ended); /* unlinked; `ended` is not worked off */
    os_mutex_unlock(&transaction->lock);
    return claimed;
}

/* A commit that the twin did not even start, for an error kept from an earlier call. */
static void refuse(struct transaction *transaction, struct completion *completion, fdb_error_t error,
                   struct ended *ended) {
    transaction->commit_started = false;
    transaction_defer(transaction, error);
    if (completion)
        pending_end(transaction, completion, error, ended);
}

void transaction_proxy_committed(struct transaction *transaction, struct completion *completion,
                                 uint64_t round, fdb_error_t error,
                                 const struct proxy_commit *result) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    if (transaction->round == round && transaction->proxy_commits) {
        transaction->proxy_commits = false;
        if (completion->kind == COMPLETION_NONE)
            completion = NULL;
        if (error && result->refused) {
            refuse(transaction, completion, error, &ended);
        } else {
            if (!error) {
                transaction->committed_version = result->version;
                transaction->stamp_known = result->stamped;
                memcpy(transaction->stamp, result->stamp, sizeof transaction->stamp);
            }
            fdb_error_t unstamped = error ? ERROR_TRANSACTION_INVALID_VERSION : ERROR_NO_COMMIT_VERSION;
            commit_end(transaction, completion, error, result->stamped && !error ? 0 : unstamped, &ended);
        }
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

void transaction_commit_result(struct transaction *transaction, struct proxy_commit *result) {
    os_mutex_lock(&transaction->lock);
    result->version = transaction->committed_version;
    result->stamped = transaction->stamp_known;
    result->refused = false;
    memcpy(result->stamp, transaction->stamp, sizeof result->stamp);
    os_mutex_unlock(&transaction->lock);
}

fdb_error_t transaction_deferred_error(struct transaction *transaction) {
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction->deferred_error;
    os_mutex_unlock(&transaction->lock);
    return error;
}
