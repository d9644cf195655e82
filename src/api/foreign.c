/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions that were opened before a fork: the threads that would answer them stayed with the
 * parent, and so did the truth about their locks. Every call says so and touches nothing; a destroy
 * leaves the memory where it is. Threads: any. Failure: this is nothing else.
 */
#include "api/foreign.h"

#include "api/future.h"

/* Nothing below looks at what it is asked to do. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static FDBFuture *forked(void) {
    return future_create_failed(ERROR_OPENED_BEFORE_FORK);
}

static void forked_nothing(FDBTransaction *tr) {}

static fdb_error_t forked_set_option(FDBTransaction *tr, FDBTransactionOption option, uint8_t const *value,
                                     int value_length) {
    return ERROR_OPENED_BEFORE_FORK;
}

static void forked_set_read_version(FDBTransaction *tr, int64_t version) {}

static FDBFuture *forked_future(FDBTransaction *tr) {
    return forked();
}

static FDBFuture *forked_get(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t snapshot) {
    return forked();
}

static FDBFuture *forked_get_key(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t or_equal, int offset,
                                 fdb_bool_t snapshot) {
    return forked();
}

static FDBFuture *forked_of_key(FDBTransaction *tr, uint8_t const *key, int key_length) {
    return forked();
}

static FDBFuture *forked_get_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                                   int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                                   int end_offset, int limit, int target_bytes, FDBStreamingMode mode, int iteration,
                                   fdb_bool_t snapshot, fdb_bool_t reverse) {
    return forked();
}

static void forked_set(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *value, int value_length) {}

static void forked_atomic_op(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *param,
                             int param_length, FDBMutationType operation_type) {}

static void forked_clear(FDBTransaction *tr, uint8_t const *key, int key_length) {}

static fdb_error_t forked_add_conflict_range(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                             uint8_t const *end, int end_length, FDBConflictRangeType type) {
    return ERROR_OPENED_BEFORE_FORK;
}

static fdb_error_t forked_get_committed_version(FDBTransaction *tr, int64_t *out_version) {
    return ERROR_OPENED_BEFORE_FORK;
}

static FDBFuture *forked_of_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                  int end_length) {
    return forked();
}

static FDBFuture *forked_split(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                               int end_length, int64_t chunk_size) {
    return forked();
}

static FDBFuture *forked_split_with_limit(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                          int end_length, int64_t chunk_size, int limit) {
    return forked();
}

static FDBFuture *forked_on_error(FDBTransaction *tr, fdb_error_t error) {
    return forked();
}

const struct foreign_transaction_methods foreign_forked = {
    .destroy = forked_nothing,
    .cancel = forked_nothing,
    .reset = forked_nothing,
    .set_option = forked_set_option,
    .set_read_version = forked_set_read_version,
    .get_read_version = forked_future,
    .get = forked_get,
    .get_key = forked_get_key,
    .get_addresses_for_key = forked_of_key,
    .get_range = forked_get_range,
    .set = forked_set,
    .atomic_op = forked_atomic_op,
    .clear = forked_clear,
    .clear_range = forked_set,
    .add_conflict_range = forked_add_conflict_range,
    .watch = forked_of_key,
    .commit = forked_future,
    .get_committed_version = forked_get_committed_version,
    .get_versionstamp = forked_future,
    .get_approximate_size = forked_future,
    .get_estimated_range_size_bytes = forked_of_range,
    .get_range_split_points = forked_split,
    .get_range_split_points_with_limit = forked_split_with_limit,
    .get_tag_throttled_duration = forked_future,
    .get_total_cost = forked_future,
    .on_error = forked_on_error,
};
