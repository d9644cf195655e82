/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a transaction: creating, failing, resetting and destroying it, its read version, and
 * the completions that wait on it.
 *
 *     create ──► open ── commit ──► commit started ── on_error, reset ──► open
 *                  │                     │
 *                  └── cancel, timeout, use during commit, a failed on_error ──► failed ── reset ──► open
 *
 * What a call meets first, in the order of the official client:
 *
 *   deferred_error   a set, clear, ... went wrong: every call that answers fails with it
 *   commit_started   a commit was begun: USED_DURING_COMMIT, which by default fails the rest too
 *   reset_error      the transaction failed: that error, until a reset
 *
 * `troubled` is true whenever one of them, or a deadline, needs a look; otherwise a read goes
 * straight to the data.
 *
 *   1. Every field is read and written under `lock`, except references, handle, database and
 *      api_version.
 *   2. A completion is in `pending` or is a watch's from when it was given until it is ended; its
 *      `done` runs once, without the lock.
 *   3. `source` is a pinned database only between a long read's first read and the call that ends
 *      it; while it is, the transaction's handle keeps the database open.
 *   4. The memory lives as long as `references`: the user's one, one a timer that is set, a commit
 *      in flight, a watch that is set, and what transaction_retain took.
 *
 * Memory running out is reported by the call that met it; by one that returns nothing it is
 * deferred.
 */
#include <assert.h>

#include "os/clock.h"
#include "os/fork.h"
#include "txn/state.h"
#include "util/memory.h"

/* --- Completions --- */

void pending_add(struct transaction *transaction, struct completion *completion,
                 enum completion_kind kind) {
    completion->transaction = transaction;
    completion->kind = (int)kind;
    completion->previous = NULL;
    completion->next = transaction->pending;
    if (completion->next)
        completion->next->previous = completion;
    transaction->pending = completion;
}

static void unlink_pending(struct transaction *transaction, struct completion *completion) {
    if (completion->previous)
        completion->previous->next = completion->next;
    else
        transaction->pending = completion->next;
    if (completion->next)
        completion->next->previous = completion->previous;
    completion->kind = COMPLETION_NONE;
    if (transaction->retry == completion)
        transaction->retry = NULL;
    if (transaction->attempt && transaction->attempt->completion == completion)
        transaction->attempt->completion = NULL;
}

void completion_collect(struct completion *completion, fdb_error_t error, struct ended *ended) {
    completion->kind = COMPLETION_NONE;
    completion->error = error;
    completion->previous = NULL;
    completion->next = ended->first;
    ended->first = completion;
}

void pending_end(struct transaction *transaction, struct completion *completion, fdb_error_t error,
                 struct ended *ended) {
    unlink_pending(transaction, completion);
    completion_collect(completion, error, ended);
}

void pending_end_all(struct transaction *transaction, fdb_error_t error, struct ended *ended) {
    while (transaction->pending)
        pending_end(transaction, transaction->pending, error, ended);
}

void finish_all(struct ended *ended) {
    while (ended->first) {
        struct completion *completion = ended->first;
        ended->first = completion->next;
        completion->next = NULL;
        completion->done(completion, completion->error);
    }
    while (ended->watches) {
        struct pending_watch *watch = ended->watches;
        ended->watches = watch->next;
        memory_free(watch);
    }
}

void finish_one(struct completion *completion, fdb_error_t error) {
    completion->kind = COMPLETION_NONE;
    completion->done(completion, error);
}

bool transaction_cancel_completion(struct completion *completion) {
    struct transaction *transaction = completion->transaction;
    if (!transaction)
        return false;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    if (completion->kind == COMPLETION_NONE) {
        os_mutex_unlock(&transaction->lock);
        return false;
    }
    if (completion->kind == COMPLETION_WATCH)
        return watch_cancel(transaction, completion); /* gives the lock back */
    if (completion->kind == COMPLETION_PROXY_WAITING || completion->kind == COMPLETION_PROXY_SET) {
        proxy_watch_unlink(transaction, completion);
        completion_collect(completion, ERROR_OPERATION_CANCELLED, &ended);
        os_mutex_unlock(&transaction->lock);
        finish_all(&ended);
        return true;
    }
    if (completion->kind == COMPLETION_RETRY) {
        bool waiting = transaction->retry == completion;
        pending_end(transaction, completion, ERROR_OPERATION_CANCELLED, &ended);
        if (waiting)
            retry_cancel(transaction, &ended);
    } else {
        pending_end(transaction, completion, ERROR_OPERATION_CANCELLED, &ended);
    }
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return true;
}

/* --- Failing --- */

void transaction_fail(struct transaction *transaction, fdb_error_t error, struct ended *ended) {
    if (transaction->reset_error)
        return;
    transaction->reset_error = error;
    transaction->troubled = true;
    transaction_unpin(transaction);
    pending_end_all(transaction, error, ended);
}

/* The first error stays: what comes after it may only follow from it. */
void transaction_defer(struct transaction *transaction, fdb_error_t error) {
    if (!error || transaction->deferred_error)
        return;
    transaction->deferred_error = error;
    transaction->troubled = true;
}

void transaction_defer_error(struct transaction *transaction, fdb_error_t error) {
    os_mutex_lock(&transaction->lock);
    transaction_defer(transaction, error);
    os_mutex_unlock(&transaction->lock);
}

bool transaction_used_during_commit(struct transaction *transaction, struct ended *ended) {
    if (!transaction->commit_started)
        return false;
    if (!transaction->options.commit_protection_disabled)
        transaction_fail(transaction, ERROR_USED_DURING_COMMIT, ended);
    return true;
}

fdb_error_t transaction_check(struct transaction *transaction, bool also_commit,
                              struct ended *ended) {
    if (!transaction->troubled)
        return 0;
    if (transaction->deferred_error)
        return transaction->deferred_error;
    if (also_commit && transaction_used_during_commit(transaction, ended))
        return ERROR_USED_DURING_COMMIT;
    if (transaction->deadline_us && !transaction->reset_error &&
        os_clock_us() >= transaction->deadline_us)
        transaction_fail(transaction, ERROR_TRANSACTION_TIMED_OUT, ended);
    return transaction->reset_error;
}

void transaction_cancel(struct transaction *transaction) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction_fail(transaction, ERROR_TRANSACTION_CANCELLED, &ended);
    if (!transaction->attempt && !transaction->proxy_commits)
        watches_end(transaction, ERROR_TRANSACTION_CANCELLED, &ended);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/* --- Creating, resetting, destroying --- */

static void take_defaults(struct transaction *transaction) {
    struct database_handle *handle = transaction->handle;
    os_mutex_lock(&handle->lock);
    transaction->base = handle->defaults;
    os_mutex_unlock(&handle->lock);
    transaction->options = transaction->base;
}

enum { BACKOFF_FIRST_MS = 10 };

static void start_over(struct transaction *transaction) {
    take_defaults(transaction);
    transaction->created_us = os_clock_us();
    transaction->retries = 0;
    transaction->backoff_seconds = BACKOFF_FIRST_MS / 1000.0;
}

fdb_error_t transaction_create_proxy(struct database_handle *handle,
                                     const struct foreign_transaction_methods *foreign,
                                     size_t extra_bytes, struct transaction **result) {
    struct transaction *transaction = memory_allocate_zeroed(sizeof *transaction + extra_bytes);
    if (!transaction)
        return ERROR_LARGE_ALLOC_FAILED;
    transaction->head.foreign = foreign;
    transaction->head.generation = os_fork_generation;
    os_mutex_init(&transaction->lock);
    atomic_init(&transaction->references, 1);
    database_handle_retain(handle);
    transaction->handle = handle;
    transaction->database = transaction->source = handle->database;
    transaction->api_version = handle->api_version;
    transaction->committed_version = -1;
    transaction->writes.arena = &transaction->arena;
    timers_init(transaction);
    start_over(transaction);
    if (transaction->options.timeout_ms) {
        struct ended ended = {0};
        os_mutex_lock(&transaction->lock);
        timeout_apply(transaction, &ended);
        os_mutex_unlock(&transaction->lock);
        finish_all(&ended);
    }
    *result = transaction;
    return 0;
}

fdb_error_t transaction_create(struct database_handle *handle, struct transaction **result) {
    return transaction_create_proxy(handle, NULL, 0, result);
}

/* The commit in flight goes on with the memory it was built in; the transaction starts with new. */
static void orphan_attempt(struct transaction *transaction) {
    struct commit_attempt *attempt = transaction->attempt;
    if (!attempt)
        return;
    attempt->orphaned = true;
    attempt->arena = transaction->arena;
    attempt->read_arena = transaction->read_arena;
    transaction->arena = (struct arena){0};
    transaction->read_arena = (struct arena){0};
    transaction->attempt = NULL;
}

static void forget_data(struct transaction *transaction) {
    transaction->writes = (struct write_map){.arena = &transaction->arena};
    transaction->mutations = (struct mutation_list){0};
    transaction->write_conflicts = (struct range_list){0};
    transaction->stamped_keys = (struct range_list){0};
    transaction->read_conflicts = (struct range_list){0};
    transaction->read_conflicts_compact_at = 0;
}

/* What reset and a successful on_error have in common. */
void transaction_clear_state(struct transaction *transaction, struct ended *ended) {
    timers_stop(transaction);
    pending_end_all(transaction, ERROR_TRANSACTION_CANCELLED, ended);
    watches_end(transaction, ERROR_TRANSACTION_CANCELLED, ended);
    orphan_attempt(transaction);
    transaction_unpin(transaction);
    transaction->round++;
    transaction->proxy_commits = false;
    forget_data(transaction);
    arena_reset(&transaction->arena);
    arena_reset(&transaction->read_arena);
    transaction->commit_started = transaction->used = false;
    transaction->has_version = transaction->version_checked = false;
    transaction->stamp_known = false;
    transaction->deferred_error = transaction->read_error = transaction->reset_error = 0;
    transaction->troubled = false;
    transaction->approximate_bytes = 0;
    transaction->options = transaction->base;
    timeout_apply(transaction, ended);
}

void transaction_reset(struct transaction *transaction) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    start_over(transaction);
    transaction_clear_state(transaction, &ended);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

void transaction_destroy(struct transaction *transaction) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction->destroyed = true;
    timers_stop(transaction);
    transaction_fail(transaction, ERROR_TRANSACTION_CANCELLED, &ended);
    watches_end(transaction, ERROR_TRANSACTION_CANCELLED, &ended);
    if (!transaction->attempt) {
        forget_data(transaction);
        arena_free(&transaction->arena);
        arena_free(&transaction->read_arena);
    }
    rows_free(&transaction->chunk);
    rows_free(&transaction->found);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    transaction_release(transaction);
}

void retain_memory(struct transaction *transaction) {
    atomic_fetch_add_explicit(&transaction->references, 1, memory_order_relaxed);
}

void transaction_retain(struct transaction *transaction) { retain_memory(transaction); }

void transaction_release(struct transaction *transaction) {
    if (atomic_fetch_sub_explicit(&transaction->references, 1, memory_order_acq_rel) != 1)
        return;
    assert(!transaction->attempt && !transaction->pending && !transaction->watches);
    assert(transaction->source == transaction->database);
    struct database_handle *handle = transaction->handle;
    arena_free(&transaction->arena);
    arena_free(&transaction->read_arena);
    rows_free(&transaction->chunk);
    rows_free(&transaction->found);
    memory_free(transaction->report);
    os_mutex_destroy(&transaction->lock);
    memory_free(transaction);
    database_handle_release(handle);
}

/* --- The read version --- */

/* A long read holds the state at its version from here on. */
static fdb_error_t pin_version(struct transaction *transaction) {
    int64_t version = transaction->read_version;
    struct database *pinned;
    fdb_error_t error = transaction->has_version
                            ? 0
                            : database_get_read_version(transaction->database, &version);
    if (!error)
        error = database_pin(transaction->database, version, &pinned);
    if (error)
        return error;
    transaction_unpin(transaction);
    transaction->source = pinned;
    transaction->read_version = version;
    transaction->has_version = transaction->version_checked = true;
    return 0;
}

void transaction_unpin(struct transaction *transaction) {
    if (transaction->source == transaction->database)
        return;
    database_close(transaction->source);
    transaction->source = transaction->database;
}

/* Makes sure that there is a read version and that it can be read at. */
fdb_error_t transaction_version(struct transaction *transaction) {
    if (transaction->version_checked)
        return 0;
    if (transaction->options.long_read)
        return pin_version(transaction);
    fdb_error_t error = transaction->has_version
                            ? database_check_read_version(transaction->database,
                                                          transaction->read_version)
                            : database_get_read_version(transaction->database,
                                                        &transaction->read_version);
    if (error)
        return error;
    transaction->has_version = transaction->version_checked = true;
    return 0;
}

fdb_error_t transaction_set_read_version(struct transaction *transaction, int64_t version) {
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction->has_version ? ERROR_READ_VERSION_ALREADY_SET
                        : version <= 0           ? ERROR_VERSION_INVALID
                                                 : 0;
    if (error) {
        transaction_defer(transaction, error);
    } else {
        transaction->read_version = version;
        transaction->has_version = true;
        transaction->version_checked = false;
    }
    os_mutex_unlock(&transaction->lock);
    return error;
}

fdb_error_t transaction_get_read_version(struct transaction *transaction, int64_t *version) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, false, &ended);
    if (!error && !transaction->has_version)
        error = transaction_version(transaction);
    if (!error)
        *version = transaction->read_version;
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

/* --- What a transaction says of itself --- */

fdb_error_t transaction_get_committed_version(struct transaction *transaction, int64_t *version) {
    os_mutex_lock(&transaction->lock);
    *version = transaction->committed_version;
    os_mutex_unlock(&transaction->lock);
    return 0;
}

fdb_error_t transaction_get_approximate_size(struct transaction *transaction, int64_t *bytes) {
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction->deferred_error;
    if (!error)
        *bytes = transaction->approximate_bytes;
    os_mutex_unlock(&transaction->lock);
    return error;
}

fdb_error_t transaction_set_option(struct transaction *transaction, int option,
                                   const uint8_t *value, int length) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = options_set(transaction, option, value, length, &ended);
    if (error && error != ERROR_INVALID_OPTION)
        transaction_defer(transaction, error);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}
