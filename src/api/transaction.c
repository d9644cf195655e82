/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_transaction_*: the entry points, thin. Each hands a transaction that is not of an embedded
 * database to whoever answers for it (api/foreign.h). Else it checks what only it can see (null
 * pointers, negative lengths), calls the function of the same name in src/txn/transaction.h, and puts the
 * answer into a future: a ready one for reads, which have been answered when the call returns, a
 * pending one for commit, watch, versionstamp and retry. A point read costs one allocation, the
 * future, whose storage its value is copied into.
 *
 *   1. A function that returns FDBFuture* never returns NULL. Misuse is a future with
 *      CLIENT_INVALID_OPERATION.
 *   2. A function that returns nothing keeps misuse for the commit, so that nothing is lost in
 *      silence; without a transaction to keep it in, it does nothing.
 *
 * Threads: any; transactions lock themselves.
 */
#include "api/foreign.h"
#include "api/handles.h"
#include "api/joined.h"
#include "api/place.h"
#include "cluster/transaction.h"
#include "util/memory.h"

/* ---- Life and options ---- */

fdb_error_t fdb_database_create_transaction(FDBDatabase *database,
                                            FDBTransaction **out_transaction) {
    if (!database || !out_transaction)
        return ERROR_CLIENT_INVALID_OPERATION;
    struct database_handle *handle = handles_database(database);
    if (database_handle_is_forked(handle))
        return ERROR_OPENED_BEFORE_FORK;
    struct place_elsewhere elsewhere;
    if (place_is_elsewhere(database_handle_database(handle), &elsewhere))
        return elsewhere.joined ? joined_create_transaction(handle, elsewhere.joined, out_transaction)
                                : cluster_transaction_create(elsewhere.official, out_transaction);
    struct transaction *transaction;
    fdb_error_t error = transaction_create(handle, &transaction);
    if (!error)
        *out_transaction = handles_from_transaction(transaction);
    return error;
}

void fdb_transaction_destroy(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->destroy(tr);
        return;
    }
    if (!tr)
        return;
    place_closing_begin();
    transaction_destroy(handles_transaction(tr));
    place_closing_end();
}

void fdb_transaction_cancel(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->cancel(tr);
        return;
    }
    if (tr)
        transaction_cancel(handles_transaction(tr));
}

void fdb_transaction_reset(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->reset(tr);
        return;
    }
    if (tr)
        transaction_reset(handles_transaction(tr));
}

fdb_error_t fdb_transaction_set_option(FDBTransaction *tr, FDBTransactionOption option,
                                       uint8_t const *value, int value_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->set_option(tr, option, value, value_length);
    if (!tr)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (value && value_length < 0)
        return ERROR_INVALID_OPTION_VALUE;
    int length = value ? value_length : 0;
    return transaction_set_option(handles_transaction(tr), (int)option, value, length);
}

/* ---- Reads ---- */

static FDBFuture *misuse(void) {
    return future_create_failed(ERROR_CLIENT_INVALID_OPERATION);
}

void fdb_transaction_set_read_version(FDBTransaction *tr, int64_t version) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->set_read_version(tr, version);
        return;
    }
    if (!tr)
        return;
    fdb_error_t error = transaction_set_read_version(handles_transaction(tr), version);
    if (error)
        transaction_defer_error(handles_transaction(tr), error);
}

FDBFuture *fdb_transaction_get_read_version(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_read_version(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    if (!future)
        return future_out_of_memory();
    future->error = transaction_get_read_version(handles_transaction(tr), &future->result.int64);
    return future;
}

FDBFuture *fdb_transaction_get(FDBTransaction *tr, uint8_t const *key, int key_length,
                               fdb_bool_t snapshot) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get(tr, key, key_length, snapshot);
    if (!tr || !handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_VALUE);
    if (!future)
        return future_out_of_memory();
    future->error = transaction_get(handles_transaction(tr), handles_bytes(key, key_length),
                                    snapshot != 0, &future->arena, &future->result.bytes,
                                    &future->present);
    return future;
}

FDBFuture *fdb_transaction_get_key(FDBTransaction *tr, uint8_t const *key, int key_length,
                                   fdb_bool_t or_equal, int offset, fdb_bool_t snapshot) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_key(tr, key, key_length, or_equal, offset, snapshot);
    if (!tr || !handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_KEY);
    if (!future)
        return future_out_of_memory();
    struct key_selector selector = {handles_bytes(key, key_length), or_equal != 0, offset};
    future->error = transaction_get_key(handles_transaction(tr), selector, snapshot != 0,
                                        &future->arena, &future->result.bytes);
    return future;
}

FDBFuture *fdb_transaction_get_addresses_for_key(FDBTransaction *tr, uint8_t const *key,
                                                 int key_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_addresses_for_key(tr, key, key_length);
    if (!tr || !handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_STRINGS);
    if (!future)
        return future_out_of_memory();
    future->error = transaction_get_addresses_for_key(
        handles_transaction(tr), handles_bytes(key, key_length), &future->arena,
        &future->result.strings.array, &future->result.strings.count);
    return future;
}

FDBFuture *fdb_transaction_get_range(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                     fdb_bool_t begin_or_equal, int begin_offset,
                                     uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                                     int end_offset, int limit, int target_bytes,
                                     FDBStreamingMode mode, int iteration, fdb_bool_t snapshot,
                                     fdb_bool_t reverse) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_range(tr, begin, begin_length, begin_or_equal, begin_offset, end, end_length, end_or_equal,
                                  end_offset, limit, target_bytes, mode, iteration, snapshot, reverse);
    if (!tr || !handles_are_bytes(begin, begin_length) ||
        !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_ROWS);
    if (!future)
        return future_out_of_memory();
    struct range_arguments arguments = {
        .begin = {handles_bytes(begin, begin_length), begin_or_equal != 0, begin_offset},
        .end = {handles_bytes(end, end_length), end_or_equal != 0, end_offset},
        .limit = limit,
        .target_bytes = target_bytes,
        .mode = (int)mode,
        .iteration = iteration,
        .snapshot = snapshot != 0,
        .reverse = reverse != 0,
    };
    future->error = transaction_get_range(handles_transaction(tr), &arguments,
                                          &future->result.rows, &future->more);
    return future;
}

FDBFuture *fdb_transaction_get_estimated_range_size_bytes(FDBTransaction *tr, uint8_t const *begin,
                                                          int begin_length, uint8_t const *end,
                                                          int end_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_estimated_range_size_bytes(tr, begin, begin_length, end, end_length);
    if (!tr || !handles_are_bytes(begin, begin_length) ||
        !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    if (!future)
        return future_out_of_memory();
    future->error = transaction_get_estimated_range_size(
        handles_transaction(tr), handles_bytes(begin, begin_length),
        handles_bytes(end, end_length), &future->result.int64);
    return future;
}

static FDBFuture *get_split_points(FDBTransaction *tr, const uint8_t *begin, int begin_length,
                                   const uint8_t *end, int end_length, int64_t chunk_size,
                                   int limit) {
    if (!tr || !handles_are_bytes(begin, begin_length) || !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_KEYS);
    if (!future)
        return future_out_of_memory();
    future->error = transaction_get_range_split_points(
        handles_transaction(tr), handles_bytes(begin, begin_length),
        handles_bytes(end, end_length), chunk_size, &future->result.rows);
    future_limit_split_points(&future->result.rows, limit);
    future_keep_keys(future);
    return future;
}

FDBFuture *fdb_transaction_get_range_split_points(FDBTransaction *tr, uint8_t const *begin,
                                                  int begin_length, uint8_t const *end,
                                                  int end_length, int64_t chunk_size) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_range_split_points(tr, begin, begin_length, end, end_length, chunk_size);
    return get_split_points(tr, begin, begin_length, end, end_length, chunk_size,
                            -1);
}

FDBFuture *fdb_transaction_get_range_split_points_with_limit(
        FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
        int end_length, int64_t chunk_size, int limit) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_range_split_points_with_limit(tr, begin, begin_length, end, end_length, chunk_size,
                                                          limit);
    return get_split_points(tr, begin, begin_length, end, end_length, chunk_size,
                            limit);
}

FDBFuture *fdb_transaction_get_approximate_size(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_approximate_size(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    if (!future)
        return future_out_of_memory();
    struct transaction *transaction = handles_transaction(tr);
    future->error = transaction_get_approximate_size(transaction, &future->result.int64);
    return future;
}

/* Nothing is throttled here. */
FDBFuture *fdb_transaction_get_tag_throttled_duration(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_tag_throttled_duration(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_DOUBLE);
    if (!future)
        return future_out_of_memory();
    future->result.real = 0;
    return future;
}

/* Nothing is charged for here. */
FDBFuture *fdb_transaction_get_total_cost(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_total_cost(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    if (!future)
        return future_out_of_memory();
    future->result.int64 = 0;
    return future;
}

/* ---- Writes ---- */

/* True if the write can go on; else the misuse is kept for the commit. */
static bool can_write(FDBTransaction *tr, const void *first, int first_length, const void *second,
                      int second_length) {
    if (!tr)
        return false;
    if (handles_are_bytes(first, first_length) && handles_are_bytes(second, second_length))
        return true;
    transaction_defer_error(handles_transaction(tr), ERROR_CLIENT_INVALID_OPERATION);
    return false;
}

void fdb_transaction_set(FDBTransaction *tr, uint8_t const *key, int key_length,
                         uint8_t const *value, int value_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->set(tr, key, key_length, value, value_length);
        return;
    }
    if (can_write(tr, key, key_length, value, value_length))
        transaction_set(handles_transaction(tr), handles_bytes(key, key_length),
                        handles_bytes(value, value_length));
}

void fdb_transaction_atomic_op(FDBTransaction *tr, uint8_t const *key, int key_length,
                               uint8_t const *param, int param_length,
                               FDBMutationType operation_type) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->atomic_op(tr, key, key_length, param, param_length, operation_type);
        return;
    }
    if (can_write(tr, key, key_length, param, param_length))
        transaction_atomic_op(handles_transaction(tr), handles_bytes(key, key_length),
                              handles_bytes(param, param_length), (int)operation_type);
}

void fdb_transaction_clear(FDBTransaction *tr, uint8_t const *key, int key_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->clear(tr, key, key_length);
        return;
    }
    if (can_write(tr, key, key_length, NULL, 0))
        transaction_clear(handles_transaction(tr), handles_bytes(key, key_length));
}

void fdb_transaction_clear_range(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                 uint8_t const *end, int end_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign) {
        foreign->clear_range(tr, begin, begin_length, end, end_length);
        return;
    }
    if (can_write(tr, begin, begin_length, end, end_length))
        transaction_clear_range(handles_transaction(tr), handles_bytes(begin, begin_length),
                                handles_bytes(end, end_length));
}

fdb_error_t fdb_transaction_add_conflict_range(FDBTransaction *tr, uint8_t const *begin,
                                               int begin_length, uint8_t const *end, int end_length,
                                               FDBConflictRangeType type) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->add_conflict_range(tr, begin, begin_length, end, end_length, type);
    if (!tr || !handles_are_bytes(begin, begin_length) ||
        !handles_are_bytes(end, end_length))
        return ERROR_CLIENT_INVALID_OPERATION;
    return transaction_add_conflict_range(handles_transaction(tr),
                                          handles_bytes(begin, begin_length),
                                          handles_bytes(end, end_length), (int)type);
}

/* ---- What is answered later ---- */

FDBFuture *fdb_transaction_commit(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->commit(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    future->tail.pending.driver = &future_commit_driver;
    transaction_commit(handles_transaction(tr), future_completion(future));
    return future;
}

FDBFuture *fdb_transaction_get_versionstamp(FDBTransaction *tr) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_versionstamp(tr);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_pending(FUTURE_KEY, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    future->tail.pending.driver = &future_commit_driver;
    transaction_get_versionstamp(handles_transaction(tr), future_versionstamp_completion(future));
    return future;
}

FDBFuture *fdb_transaction_watch(FDBTransaction *tr, uint8_t const *key, int key_length) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->watch(tr, key, key_length);
    if (!tr || !handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    transaction_watch(handles_transaction(tr), handles_bytes(key, key_length),
                      future_completion(future));
    return future;
}

FDBFuture *fdb_transaction_on_error(FDBTransaction *tr, fdb_error_t error) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->on_error(tr, error);
    if (!tr)
        return misuse();
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    transaction_on_error(handles_transaction(tr), error, future_completion(future));
    return future;
}

fdb_error_t fdb_transaction_get_committed_version(FDBTransaction *tr, int64_t *out_version) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign)
        return foreign->get_committed_version(tr, out_version);
    if (!tr || !out_version)
        return ERROR_CLIENT_INVALID_OPERATION;
    return transaction_get_committed_version(handles_transaction(tr), out_version);
}
