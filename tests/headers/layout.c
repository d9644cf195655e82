/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compile-time facts about the public headers, in the common subset of C90 and C++: the sizes and
 * offsets that compiled bindings rely on, a sample of the numbers, and the address of every
 * function, so that a missing declaration does not compile. check_headers.sh compiles this file in
 * every language and API version.
 */
#include <foundationdb/fdb_c.h>
#include <stddef.h>

/* An array type of negative size if the condition does not hold. */
#define FACT(name, condition) typedef char fact_##name[(condition) ? 1 : -1]

FACT(pointer_is_eight_bytes_or_sizes_differ, sizeof(void *) == 8 || sizeof(void *) == 4);

#define WIDE (sizeof(void *) == 8)
FACT(key, !WIDE || sizeof(FDBKey) == 12);
FACT(keyvalue, !WIDE || sizeof(FDBKeyValue) == 24);
FACT(keyvalue_value, !WIDE || offsetof(FDBKeyValue, value) == 12);
FACT(keyvalue_value_length, !WIDE || offsetof(FDBKeyValue, value_length) == 20);
FACT(keyselector, !WIDE || sizeof(FDBKeySelector) == 20);
FACT(getrange, !WIDE || sizeof(FDBGetRangeReqAndResult) == 56);
FACT(mappedkeyvalue, !WIDE || sizeof(FDBMappedKeyValue) == 112);
FACT(mappedkeyvalue_buffer, !WIDE || offsetof(FDBMappedKeyValue, buffer) == 80);
FACT(keyrange, !WIDE || sizeof(FDBKeyRange) == 24);
FACT(granulesummary, !WIDE || sizeof(FDBGranuleSummary) == 56);
FACT(readcontext, !WIDE || sizeof(FDBReadBlobGranuleContext) == 40);
FACT(tenantprefix, !WIDE || sizeof(FDBBGTenantPrefix) == 16);
FACT(encryptionkey, !WIDE || sizeof(FDBBGEncryptionKey) == 40);
FACT(encryptionctx, !WIDE || sizeof(FDBBGEncryptionCtx) == 104);
FACT(filepointer, !WIDE || sizeof(FDBBGFilePointer) == 148);
FACT(mutation, !WIDE || sizeof(FDBBGMutation) == 36);
FACT(filedescription, !WIDE || sizeof(FDBBGFileDescription) == 216);
FACT(error, sizeof(fdb_error_t) == 4 && sizeof(fdb_bool_t) == 4);

FACT(latest, FDB_LATEST_API_VERSION == 740);
FACT(knob, FDB_NET_OPTION_KNOB == 40);
FACT(client_tmp_dir, FDB_NET_OPTION_CLIENT_TMP_DIR == 91);
FACT(max_watches, FDB_DB_OPTION_MAX_WATCHES == 20);
FACT(size_limit, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT == 503);
FACT(timeout, FDB_TR_OPTION_TIMEOUT == 500);
FACT(special_writes, FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES == 714);
FACT(bypass, FDB_TR_OPTION_BYPASS_UNREADABLE == 1100);
FACT(iterator, FDB_STREAMING_MODE_WANT_ALL == -2 && FDB_STREAMING_MODE_ITERATOR == -1);
FACT(exact, FDB_STREAMING_MODE_EXACT == 0 && FDB_STREAMING_MODE_SERIAL == 4);
FACT(and_or_xor, FDB_MUTATION_TYPE_AND == 6 && FDB_MUTATION_TYPE_BIT_AND == 6);
FACT(compare_and_clear, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR == 20);
FACT(conflict, FDB_CONFLICT_RANGE_TYPE_READ == 0 && FDB_CONFLICT_RANGE_TYPE_WRITE == 1);
FACT(predicates, FDB_ERROR_PREDICATE_RETRYABLE == 50000);
FACT(predicate_maybe, FDB_ERROR_PREDICATE_MAYBE_COMMITTED == 50001);
FACT(predicate_not, FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED == 50002);

typedef void (*any_function)(void);
#define FUNCTION(name) ((any_function)name)

extern const any_function layout_functions[];
const any_function layout_functions[] = {
    FUNCTION(fdb_get_error),
    FUNCTION(fdb_error_predicate),
    FUNCTION(fdb_select_api_version_impl),
    FUNCTION(fdb_get_max_api_version),
    FUNCTION(fdb_get_client_version),
    FUNCTION(fdb_network_set_option),
    FUNCTION(fdb_setup_network),
    FUNCTION(fdb_run_network),
    FUNCTION(fdb_stop_network),
    FUNCTION(fdb_add_network_thread_completion_hook),
    FUNCTION(fdb_future_cancel),
    FUNCTION(fdb_future_release_memory),
    FUNCTION(fdb_future_destroy),
    FUNCTION(fdb_future_block_until_ready),
    FUNCTION(fdb_future_is_ready),
    FUNCTION(fdb_future_set_callback),
    FUNCTION(fdb_future_get_error),
    FUNCTION(fdb_future_get_bool),
    FUNCTION(fdb_future_get_int64),
    FUNCTION(fdb_future_get_uint64),
    FUNCTION(fdb_future_get_double),
    FUNCTION(fdb_future_get_key),
    FUNCTION(fdb_future_get_value),
    FUNCTION(fdb_future_get_keyvalue_array),
    FUNCTION(fdb_future_get_mappedkeyvalue_array),
    FUNCTION(fdb_future_get_key_array),
    FUNCTION(fdb_future_get_string_array),
    FUNCTION(fdb_future_get_keyrange_array),
    FUNCTION(fdb_future_get_granule_summary_array),
    FUNCTION(fdb_future_readbg_get_descriptions),
    FUNCTION(fdb_readbg_parse_snapshot_file),
    FUNCTION(fdb_readbg_parse_delta_file),
    FUNCTION(fdb_result_destroy),
    FUNCTION(fdb_result_get_keyvalue_array),
    FUNCTION(fdb_result_get_bg_mutations_array),
    FUNCTION(fdb_create_database),
    FUNCTION(fdb_create_database_from_connection_string),
    FUNCTION(fdb_database_destroy),
    FUNCTION(fdb_database_set_option),
    FUNCTION(fdb_database_open_tenant),
    FUNCTION(fdb_database_create_transaction),
    FUNCTION(fdb_database_reboot_worker),
    FUNCTION(fdb_database_force_recovery_with_data_loss),
    FUNCTION(fdb_database_create_snapshot),
    FUNCTION(fdb_database_get_main_thread_busyness),
    FUNCTION(fdb_database_get_server_protocol),
    FUNCTION(fdb_database_purge_blob_granules),
    FUNCTION(fdb_database_wait_purge_granules_complete),
    FUNCTION(fdb_database_blobbify_range),
    FUNCTION(fdb_database_blobbify_range_blocking),
    FUNCTION(fdb_database_unblobbify_range),
    FUNCTION(fdb_database_list_blobbified_ranges),
    FUNCTION(fdb_database_verify_blob_range),
    FUNCTION(fdb_database_flush_blob_range),
    FUNCTION(fdb_database_get_client_status),
    FUNCTION(fdb_tenant_create_transaction),
    FUNCTION(fdb_tenant_purge_blob_granules),
    FUNCTION(fdb_tenant_wait_purge_granules_complete),
    FUNCTION(fdb_tenant_blobbify_range),
    FUNCTION(fdb_tenant_blobbify_range_blocking),
    FUNCTION(fdb_tenant_unblobbify_range),
    FUNCTION(fdb_tenant_list_blobbified_ranges),
    FUNCTION(fdb_tenant_verify_blob_range),
    FUNCTION(fdb_tenant_flush_blob_range),
    FUNCTION(fdb_tenant_get_id),
    FUNCTION(fdb_tenant_destroy),
    FUNCTION(fdb_transaction_destroy),
    FUNCTION(fdb_transaction_cancel),
    FUNCTION(fdb_transaction_set_option),
    FUNCTION(fdb_transaction_set_read_version),
    FUNCTION(fdb_transaction_get_read_version),
    FUNCTION(fdb_transaction_get),
    FUNCTION(fdb_transaction_get_key),
    FUNCTION(fdb_transaction_get_addresses_for_key),
    FUNCTION(fdb_transaction_get_range),
    FUNCTION(fdb_transaction_get_mapped_range),
    FUNCTION(fdb_transaction_set),
    FUNCTION(fdb_transaction_atomic_op),
    FUNCTION(fdb_transaction_clear),
    FUNCTION(fdb_transaction_clear_range),
    FUNCTION(fdb_transaction_watch),
    FUNCTION(fdb_transaction_commit),
    FUNCTION(fdb_transaction_get_committed_version),
    FUNCTION(fdb_transaction_get_tag_throttled_duration),
    FUNCTION(fdb_transaction_get_total_cost),
    FUNCTION(fdb_transaction_get_approximate_size),
    FUNCTION(fdb_transaction_get_versionstamp),
    FUNCTION(fdb_transaction_on_error),
    FUNCTION(fdb_transaction_reset),
    FUNCTION(fdb_transaction_add_conflict_range),
    FUNCTION(fdb_transaction_get_estimated_range_size_bytes),
    FUNCTION(fdb_transaction_get_range_split_points),
    FUNCTION(fdb_transaction_get_range_split_points_with_limit),
    FUNCTION(fdb_transaction_get_blob_granule_ranges),
    FUNCTION(fdb_transaction_read_blob_granules),
    FUNCTION(fdb_transaction_summarize_blob_granules),
    FUNCTION(fdb_transaction_read_blob_granules_description),
#if FDB_API_VERSION < 620
    FUNCTION(fdb_future_get_version),
#endif
#if FDB_API_VERSION < 610
    FUNCTION(fdb_future_get_cluster),
    FUNCTION(fdb_future_get_database),
    FUNCTION(fdb_create_cluster),
    FUNCTION(fdb_cluster_destroy),
    FUNCTION(fdb_cluster_set_option),
    FUNCTION(fdb_cluster_create_database),
#endif
    (any_function)0};
