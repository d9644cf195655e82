/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions and futures that are not ours, or not only ours. Every fdb_transaction_* and
 * fdb_future_* entry point looks here first: an object that carries a table of methods is answered
 * by it, with the very arguments of the call. Such are
 *
 *     transactions on a database that another process owns   api/joined.c
 *     everything of a FoundationDB cluster                    cluster/transaction.c, cluster/future.c
 *     everything that was opened before a fork                foreign.c
 *
 * For objects of an embedded database this costs one comparison and one branch a call.
 *
 * A method is never called with a NULL object; other arguments are as the program gave them, checked
 * by nobody. Methods that a kind of object cannot have are NULL only where it says so.
 */
#ifndef KEEL_API_FOREIGN_H
#define KEEL_API_FOREIGN_H

#include "api/export.h"

#include "os/fork.h"
#include "txn/transaction.h"

/* Each is fdb_transaction_<name>. */
struct foreign_transaction_methods {
    void (*destroy)(FDBTransaction *tr);
    void (*cancel)(FDBTransaction *tr);
    void (*reset)(FDBTransaction *tr);
    fdb_error_t (*set_option)(FDBTransaction *tr, FDBTransactionOption option, uint8_t const *value, int value_length);
    void (*set_read_version)(FDBTransaction *tr, int64_t version);
    FDBFuture *(*get_read_version)(FDBTransaction *tr);
    FDBFuture *(*get)(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t snapshot);
    FDBFuture *(*get_key)(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t or_equal, int offset,
                          fdb_bool_t snapshot);
    FDBFuture *(*get_addresses_for_key)(FDBTransaction *tr, uint8_t const *key, int key_length);
    FDBFuture *(*get_range)(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                            int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal, int end_offset,
                            int limit, int target_bytes, FDBStreamingMode mode, int iteration, fdb_bool_t snapshot,
                            fdb_bool_t reverse);
    void (*set)(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *value, int value_length);
    void (*atomic_op)(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *param, int param_length,
                      FDBMutationType operation_type);
    void (*clear)(FDBTransaction *tr, uint8_t const *key, int key_length);
    void (*clear_range)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end, int end_length);
    fdb_error_t (*add_conflict_range)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                      int end_length, FDBConflictRangeType type);
    FDBFuture *(*watch)(FDBTransaction *tr, uint8_t const *key, int key_length);
    FDBFuture *(*commit)(FDBTransaction *tr);
    fdb_error_t (*get_committed_version)(FDBTransaction *tr, int64_t *out_version);
    FDBFuture *(*get_versionstamp)(FDBTransaction *tr);
    FDBFuture *(*get_approximate_size)(FDBTransaction *tr);
    FDBFuture *(*get_estimated_range_size_bytes)(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                 uint8_t const *end, int end_length);
    FDBFuture *(*get_range_split_points)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                         int end_length, int64_t chunk_size);
    FDBFuture *(*get_range_split_points_with_limit)(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                    uint8_t const *end, int end_length, int64_t chunk_size, int limit);
    FDBFuture *(*get_tag_throttled_duration)(FDBTransaction *tr);
    FDBFuture *(*get_total_cost)(FDBTransaction *tr);
    FDBFuture *(*on_error)(FDBTransaction *tr, fdb_error_t error);

    /* NULL: UNSUPPORTED_OPERATION, as an embedded database says. */
    FDBFuture *(*get_mapped_range)(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                                   int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                                   int end_offset, uint8_t const *mapper, int mapper_length, int limit, int target_bytes,
                                   FDBStreamingMode mode, int iteration, fdb_bool_t snapshot, fdb_bool_t reverse);
    FDBFuture *(*get_blob_granule_ranges)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                          int end_length, int range_limit);
    FDBFuture *(*summarize_blob_granules)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                          int end_length, int64_t summary_version, int range_limit);
    FDBFuture *(*read_blob_granules_description)(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                 uint8_t const *end, int end_length, int64_t begin_version,
                                                 int64_t read_version, int64_t *read_version_out);
    FDBResult *(*read_blob_granules)(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                                     int end_length, int64_t begin_version, int64_t read_version,
                                     FDBReadBlobGranuleContext context);
};

/*
 * How a future that is not ours begins. The word behind the pointer is the state of our own futures,
 * where zero is "not ready": what is ready is ours, and only what is not ready is looked at twice.
 */
struct foreign_future_head {
    const struct foreign_future_methods *foreign;
    uint32_t zero;
};

/* Each is fdb_future_<name>, called on the future that was handed out. */
struct foreign_future_methods {
    void (*cancel)(FDBFuture *future);
    void (*destroy)(FDBFuture *future);
    void (*release_memory)(FDBFuture *future);
    fdb_bool_t (*is_ready)(FDBFuture *future);
    fdb_error_t (*block_until_ready)(FDBFuture *future);
    fdb_error_t (*set_callback)(FDBFuture *future, FDBCallback callback, void *callback_parameter);
    fdb_error_t (*get_error)(FDBFuture *future);
    fdb_error_t (*get_bool)(FDBFuture *future, fdb_bool_t *out);
    fdb_error_t (*get_int64)(FDBFuture *future, int64_t *out);
    fdb_error_t (*get_uint64)(FDBFuture *future, uint64_t *out);
    fdb_error_t (*get_double)(FDBFuture *future, double *out);
    fdb_error_t (*get_key)(FDBFuture *future, uint8_t const **out_key, int *out_key_length);
    fdb_error_t (*get_value)(FDBFuture *future, fdb_bool_t *out_present, uint8_t const **out_value, int *out_value_length);
    fdb_error_t (*get_keyvalue_array)(FDBFuture *future, FDBKeyValue const **out_kv, int *out_count, fdb_bool_t *out_more);
    fdb_error_t (*get_mappedkeyvalue_array)(FDBFuture *future, FDBMappedKeyValue const **out_kv, int *out_count,
                                            fdb_bool_t *out_more);
    fdb_error_t (*get_key_array)(FDBFuture *future, FDBKey const **out_key_array, int *out_count);
    fdb_error_t (*get_string_array)(FDBFuture *future, const char ***out_strings, int *out_count);
    fdb_error_t (*get_keyrange_array)(FDBFuture *future, FDBKeyRange const **out_ranges, int *out_count);
    fdb_error_t (*get_granule_summary_array)(FDBFuture *future, FDBGranuleSummary const **out_summaries, int *out_count);
    fdb_error_t (*readbg_get_descriptions)(FDBFuture *future, FDBBGFileDescription **out, int *desc_count);

    /* fdb_result_*: an FDBResult that is not ours begins as such a future does, and has only these. */
    void (*result_destroy)(FDBFuture *result);
    fdb_error_t (*result_get_keyvalue_array)(FDBFuture *result, FDBKeyValue const **out_kv, int *out_count,
                                             fdb_bool_t *out_more);
    fdb_error_t (*result_get_bg_mutations_array)(FDBFuture *result, FDBBGMutation const **out_mutations, int *out_count);
};

/* Every call says OPENED_BEFORE_FORK and touches nothing, not even to free it. */
extern const struct foreign_transaction_methods foreign_forked;

/* Who answers for this transaction; NULL: we do, also for a transaction that is NULL. */
static inline const struct foreign_transaction_methods *foreign_transaction(FDBTransaction *tr) {
    const struct transaction_head *head = (const struct transaction_head *)(const void *)tr;
    if (!head)
        return NULL;
    if (__builtin_expect(head->generation != os_fork_generation, 0))
        return &foreign_forked;
    return head->foreign;
}

/* Likewise for a future. */
static inline const struct foreign_future_methods *foreign_future(FDBFuture *future) {
    if (!future)
        return NULL;
    return *(const struct foreign_future_methods *const *)(const void *)future;
}

#endif
