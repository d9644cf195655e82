/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the official client library, by name. Their types are those of our fdb_c.h, which
 * are the same from 6.2 to 7.4 for all that is listed here (blob granule ranges have a limit since
 * 7.2, which an older library does not look at).
 */
#ifndef KEEL_CLUSTER_FUNCTIONS_H
#define KEEL_CLUSTER_FUNCTIONS_H

#include "api/export.h"

/* In every release of 5.1 and later: a library without one of them is not what we look for. */
#define CLUSTER_REQUIRED(X)                                                                        \
    X(select_api_version_impl)                                                                     \
    X(get_max_api_version)                                                                         \
    X(get_client_version)                                                                          \
    X(get_error)                                                                                   \
    X(network_set_option)                                                                          \
    X(setup_network)                                                                               \
    X(run_network)                                                                                 \
    X(stop_network)                                                                                \
    X(database_destroy)                                                                            \
    X(database_set_option)                                                                         \
    X(database_create_transaction)                                                                 \
    X(future_cancel)                                                                               \
    X(future_release_memory)                                                                       \
    X(future_destroy)                                                                              \
    X(future_block_until_ready)                                                                    \
    X(future_is_ready)                                                                             \
    X(future_set_callback)                                                                         \
    X(future_get_error)                                                                            \
    X(future_get_key)                                                                              \
    X(future_get_value)                                                                            \
    X(future_get_keyvalue_array)                                                                   \
    X(future_get_string_array)                                                                     \
    X(transaction_destroy)                                                                         \
    X(transaction_cancel)                                                                          \
    X(transaction_set_option)                                                                      \
    X(transaction_set_read_version)                                                                \
    X(transaction_get_read_version)                                                                \
    X(transaction_get)                                                                             \
    X(transaction_get_key)                                                                         \
    X(transaction_get_addresses_for_key)                                                           \
    X(transaction_get_range)                                                                       \
    X(transaction_set)                                                                             \
    X(transaction_atomic_op)                                                                       \
    X(transaction_clear)                                                                           \
    X(transaction_clear_range)                                                                     \
    X(transaction_watch)                                                                           \
    X(transaction_commit)                                                                          \
    X(transaction_get_committed_version)                                                           \
    X(transaction_get_versionstamp)                                                                \
    X(transaction_on_error)                                                                        \
    X(transaction_reset)                                                                           \
    X(transaction_add_conflict_range)

/* Came later: NULL where the library is older. */
#define CLUSTER_OPTIONAL(X)                                                                        \
    X(create_database)                                                                             \
    X(create_database_from_connection_string)                                                      \
    X(database_open_tenant)                                                                        \
    X(database_reboot_worker)                                                                      \
    X(database_force_recovery_with_data_loss)                                                      \
    X(database_create_snapshot)                                                                    \
    X(database_get_main_thread_busyness)                                                           \
    X(database_get_server_protocol)                                                                \
    X(database_purge_blob_granules)                                                                \
    X(database_wait_purge_granules_complete)                                                       \
    X(database_blobbify_range)                                                                     \
    X(database_blobbify_range_blocking)                                                            \
    X(database_unblobbify_range)                                                                   \
    X(database_list_blobbified_ranges)                                                             \
    X(database_verify_blob_range)                                                                  \
    X(database_flush_blob_range)                                                                   \
    X(database_get_client_status)                                                                  \
    X(tenant_create_transaction)                                                                   \
    X(tenant_purge_blob_granules)                                                                  \
    X(tenant_wait_purge_granules_complete)                                                         \
    X(tenant_blobbify_range)                                                                       \
    X(tenant_blobbify_range_blocking)                                                              \
    X(tenant_unblobbify_range)                                                                     \
    X(tenant_list_blobbified_ranges)                                                               \
    X(tenant_verify_blob_range)                                                                    \
    X(tenant_flush_blob_range)                                                                     \
    X(tenant_get_id)                                                                               \
    X(tenant_destroy)                                                                              \
    X(future_get_bool)                                                                             \
    X(future_get_int64)                                                                            \
    X(future_get_uint64)                                                                           \
    X(future_get_double)                                                                           \
    X(future_get_mappedkeyvalue_array)                                                             \
    X(future_get_key_array)                                                                        \
    X(future_get_keyrange_array)                                                                   \
    X(future_get_granule_summary_array)                                                            \
    X(future_readbg_get_descriptions)                                                              \
    X(readbg_parse_snapshot_file)                                                                  \
    X(readbg_parse_delta_file)                                                                     \
    X(result_destroy)                                                                              \
    X(result_get_keyvalue_array)                                                                   \
    X(result_get_bg_mutations_array)                                                               \
    X(transaction_get_mapped_range)                                                                \
    X(transaction_get_tag_throttled_duration)                                                      \
    X(transaction_get_total_cost)                                                                  \
    X(transaction_get_approximate_size)                                                            \
    X(transaction_get_estimated_range_size_bytes)                                                  \
    X(transaction_get_range_split_points)                                                          \
    X(transaction_get_range_split_points_with_limit)                                               \
    X(transaction_get_blob_granule_ranges)                                                         \
    X(transaction_read_blob_granules)                                                              \
    X(transaction_summarize_blob_granules)                                                         \
    X(transaction_read_blob_granules_description)

struct cluster_functions {
#define CLUSTER_FIELD(name) __typeof__(fdb_##name) *name;
    CLUSTER_REQUIRED(CLUSTER_FIELD)
    CLUSTER_OPTIONAL(CLUSTER_FIELD)
#undef CLUSTER_FIELD
    /* Before 6.1 a database is opened through these, and before 6.2 an int64 was a version. */
    FDBFuture *(*create_cluster)(const char *cluster_file_path);
    fdb_error_t (*future_get_cluster)(FDBFuture *future, FDBCluster **out_cluster);
    FDBFuture *(*cluster_create_database)(FDBCluster *cluster, uint8_t const *db_name, int db_name_length);
    fdb_error_t (*future_get_database)(FDBFuture *future, FDBDatabase **out_database);
    void (*cluster_destroy)(FDBCluster *cluster);
    fdb_error_t (*future_get_version)(FDBFuture *future, int64_t *out_version);
};

/*
 * Filled in by cluster_library_load, once, and only read behind that: whoever has an object of the
 * official library may call through it.
 */
extern struct cluster_functions cluster_official;

#endif
