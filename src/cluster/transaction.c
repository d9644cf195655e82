/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions of the official library: a shell around each, whose methods pass every call on with
 * the arguments it came with, and put the future that comes back into a shell of its own (future.c).
 * Nothing is checked, kept or repeated here: read-your-writes, limits, retries and all errors are the
 * official library's. A function that it does not have yet says UNSUPPORTED_OPERATION.
 *
 * The shell goes with fdb_transaction_destroy; what the official library keeps of the transaction
 * behind it (a commit in flight, watches) is its own affair.
 *
 * Threads: any. Forks: the entry points ask api/foreign.h, which never comes here with a transaction
 * of a parent process.
 */
#include "cluster/transaction.h"

#include <stdbool.h>

#include "api/foreign.h"
#include "api/future.h"
#include "cluster/functions.h"
#include "cluster/future.h"
#include "util/memory.h"

struct shell {
    struct transaction_head head;
    FDBTransaction *official;
};

static inline FDBTransaction *official(FDBTransaction *tr) {
    return ((struct shell *)(void *)tr)->official;
}

/* ---- Life and options ---- */

static void destroy(FDBTransaction *tr) {
    cluster_official.transaction_destroy(official(tr));
    memory_free(tr);
}

static void cancel(FDBTransaction *tr) {
    cluster_official.transaction_cancel(official(tr));
}

static void reset(FDBTransaction *tr) {
    cluster_official.transaction_reset(official(tr));
}

static fdb_error_t set_option(FDBTransaction *tr, FDBTransactionOption option, uint8_t const *value, int value_length) {
    return cluster_official.transaction_set_option(official(tr), option, value, value_length);
}

/* ---- Reads ---- */

static void set_read_version(FDBTransaction *tr, int64_t version) {
    cluster_official.transaction_set_read_version(official(tr), version);
}

static FDBFuture *get_read_version(FDBTransaction *tr) {
    return cluster_future(cluster_official.transaction_get_read_version(official(tr)));
}

static FDBFuture *get(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t snapshot) {
    return cluster_future(cluster_official.transaction_get(official(tr), key, key_length, snapshot));
}

static FDBFuture *get_key(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t or_equal, int offset,
                          fdb_bool_t snapshot) {
    return cluster_future(cluster_official.transaction_get_key(official(tr), key, key_length, or_equal, offset, snapshot));
}

static FDBFuture *get_addresses_for_key(FDBTransaction *tr, uint8_t const *key, int key_length) {
    return cluster_future(cluster_official.transaction_get_addresses_for_key(official(tr), key, key_length));
}

static FDBFuture *get_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                            int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                            int end_offset, int limit, int target_bytes, FDBStreamingMode mode, int iteration,
                            fdb_bool_t snapshot, fdb_bool_t reverse) {
    return cluster_future(cluster_official.transaction_get_range(
        official(tr), begin, begin_length, begin_or_equal, begin_offset, end, end_length, end_or_equal, end_offset, limit,
        target_bytes, mode, iteration, snapshot, reverse));
}

static FDBFuture *get_mapped_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                                   int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                                   int end_offset, uint8_t const *mapper, int mapper_length, int limit, int target_bytes,
                                   FDBStreamingMode mode, int iteration, fdb_bool_t snapshot, fdb_bool_t reverse) {
    if (!cluster_official.transaction_get_mapped_range)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_mapped_range(
        official(tr), begin, begin_length, begin_or_equal, begin_offset, end, end_length, end_or_equal, end_offset, mapper,
        mapper_length, limit, target_bytes, mode, iteration, snapshot, reverse));
}

/* To an inverted range 7 answers as we do here; 6.3 ends the process. */
static FDBFuture *get_estimated_range_size_bytes(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                 uint8_t const *end, int end_length) {
    if (!cluster_official.transaction_get_estimated_range_size_bytes)
        return cluster_missing();
    if (begin_length >= 0 && end_length >= 0 &&
        bytes_compare(bytes_make(begin, (size_t)begin_length), bytes_make(end, (size_t)end_length)) > 0)
        return future_create_failed(ERROR_INVERTED_RANGE);
    return cluster_future(cluster_official.transaction_get_estimated_range_size_bytes(official(tr), begin, begin_length,
                                                                                      end, end_length));
}

static FDBFuture *get_range_split_points(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                         int end_length, int64_t chunk_size) {
    if (!cluster_official.transaction_get_range_split_points)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_range_split_points(official(tr), begin, begin_length, end,
                                                                              end_length, chunk_size));
}

static FDBFuture *get_range_split_points_with_limit(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                    uint8_t const *end, int end_length, int64_t chunk_size, int limit) {
    if (cluster_official.transaction_get_range_split_points_with_limit)
        return cluster_future(cluster_official.transaction_get_range_split_points_with_limit(
            official(tr), begin, begin_length, end, end_length, chunk_size, limit));
    if (limit < 0)
        return get_range_split_points(tr, begin, begin_length, end, end_length, chunk_size);
    return cluster_missing();
}

static FDBFuture *get_approximate_size(FDBTransaction *tr) {
    if (!cluster_official.transaction_get_approximate_size)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_approximate_size(official(tr)));
}

static FDBFuture *get_tag_throttled_duration(FDBTransaction *tr) {
    if (!cluster_official.transaction_get_tag_throttled_duration)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_tag_throttled_duration(official(tr)));
}

static FDBFuture *get_total_cost(FDBTransaction *tr) {
    if (!cluster_official.transaction_get_total_cost)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_total_cost(official(tr)));
}

/* ---- Writes ---- */

static void set(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *value, int value_length) {
    cluster_official.transaction_set(official(tr), key, key_length, value, value_length);
}

static void atomic_op(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *param, int param_length,
                      FDBMutationType operation_type) {
    cluster_official.transaction_atomic_op(official(tr), key, key_length, param, param_length, operation_type);
}

static void clear(FDBTransaction *tr, uint8_t const *key, int key_length) {
    cluster_official.transaction_clear(official(tr), key, key_length);
}

static void clear_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end, int end_length) {
    cluster_official.transaction_clear_range(official(tr), begin, begin_length, end, end_length);
}

static fdb_error_t add_conflict_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                      int end_length, FDBConflictRangeType type) {
    return cluster_official.transaction_add_conflict_range(official(tr), begin, begin_length, end, end_length, type);
}

/* ---- Commit and what goes with it ---- */

static FDBFuture *watch(FDBTransaction *tr, uint8_t const *key, int key_length) {
    return cluster_future(cluster_official.transaction_watch(official(tr), key, key_length));
}

static FDBFuture *commit(FDBTransaction *tr) {
    return cluster_future(cluster_official.transaction_commit(official(tr)));
}

static fdb_error_t get_committed_version(FDBTransaction *tr, int64_t *out_version) {
    return cluster_official.transaction_get_committed_version(official(tr), out_version);
}

static FDBFuture *get_versionstamp(FDBTransaction *tr) {
    return cluster_future(cluster_official.transaction_get_versionstamp(official(tr)));
}

static FDBFuture *on_error(FDBTransaction *tr, fdb_error_t error) {
    return cluster_future(cluster_official.transaction_on_error(official(tr), error));
}

/* ---- Blob granules ---- */

static FDBFuture *get_blob_granule_ranges(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                          int end_length, int range_limit) {
    if (!cluster_official.transaction_get_blob_granule_ranges)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_get_blob_granule_ranges(official(tr), begin, begin_length, end,
                                                                               end_length, range_limit));
}

static FDBFuture *summarize_blob_granules(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                          int end_length, int64_t summary_version, int range_limit) {
    if (!cluster_official.transaction_summarize_blob_granules)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_summarize_blob_granules(
        official(tr), begin, begin_length, end, end_length, summary_version, range_limit));
}

static FDBFuture *read_blob_granules_description(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                 uint8_t const *end, int end_length, int64_t begin_version,
                                                 int64_t read_version, int64_t *read_version_out) {
    if (!cluster_official.transaction_read_blob_granules_description)
        return cluster_missing();
    return cluster_future(cluster_official.transaction_read_blob_granules_description(
        official(tr), begin, begin_length, end, end_length, begin_version, read_version, read_version_out));
}

static FDBResult *read_blob_granules(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                     int end_length, int64_t begin_version, int64_t read_version,
                                     FDBReadBlobGranuleContext context) {
    if (!cluster_official.transaction_read_blob_granules)
        return (FDBResult *)(void *)cluster_missing();
    return cluster_result(cluster_official.transaction_read_blob_granules(official(tr), begin, begin_length, end,
                                                                          end_length, begin_version, read_version, context));
}

static const struct foreign_transaction_methods methods = {
    .destroy = destroy,
    .cancel = cancel,
    .reset = reset,
    .set_option = set_option,
    .set_read_version = set_read_version,
    .get_read_version = get_read_version,
    .get = get,
    .get_key = get_key,
    .get_addresses_for_key = get_addresses_for_key,
    .get_range = get_range,
    .set = set,
    .atomic_op = atomic_op,
    .clear = clear,
    .clear_range = clear_range,
    .add_conflict_range = add_conflict_range,
    .watch = watch,
    .commit = commit,
    .get_committed_version = get_committed_version,
    .get_versionstamp = get_versionstamp,
    .get_approximate_size = get_approximate_size,
    .get_estimated_range_size_bytes = get_estimated_range_size_bytes,
    .get_range_split_points = get_range_split_points,
    .get_range_split_points_with_limit = get_range_split_points_with_limit,
    .get_tag_throttled_duration = get_tag_throttled_duration,
    .get_total_cost = get_total_cost,
    .on_error = on_error,
    .get_mapped_range = get_mapped_range,
    .get_blob_granule_ranges = get_blob_granule_ranges,
    .summarize_blob_granules = summarize_blob_granules,
    .read_blob_granules_description = read_blob_granules_description,
    .read_blob_granules = read_blob_granules,
};

/* ---- Birth ---- */

static struct shell *make(void) {
    struct shell *shell = memory_allocate(sizeof *shell);
    if (shell)
        shell->head = (struct transaction_head){&methods, os_fork_generation};
    return shell;
}

static fdb_error_t keep(struct shell *shell, fdb_error_t error, FDBTransaction **transaction) {
    if (error)
        memory_free(shell);
    else
        *transaction = (FDBTransaction *)(void *)shell;
    return error;
}

fdb_error_t cluster_transaction_create(FDBDatabase *official_database, FDBTransaction **transaction) {
    struct shell *shell = make();
    if (!shell)
        return ERROR_LARGE_ALLOC_FAILED;
    return keep(shell, cluster_official.database_create_transaction(official_database, &shell->official), transaction);
}

fdb_error_t cluster_transaction_create_in_tenant(FDBTenant *official_tenant, FDBTransaction **transaction) {
    if (!cluster_official.tenant_create_transaction)
        return ERROR_UNSUPPORTED_OPERATION;
    struct shell *shell = make();
    if (!shell)
        return ERROR_LARGE_ALLOC_FAILED;
    return keep(shell, cluster_official.tenant_create_transaction(official_tenant, &shell->official), transaction);
}
