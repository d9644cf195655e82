/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an embedded database cannot mean: tenants, blob granules, mapped ranges, the care of a
 * cluster's machines. Bindings look these functions up when they are loaded, so all exist; each
 * answers at once with UNSUPPORTED_OPERATION, touches no output and reads none of its arguments.
 * What belongs to a FoundationDB cluster is handed on to the official library, where that has the
 * function, and where it has not says the same.
 *
 * A tenant can be opened, as many programs do before they know whether they will use it; its
 * transactions are real transactions on a database that answers everything with TENANTS_DISABLED.
 *
 * An FDBResult is a future that is born ready and holds an error. Threads: any.
 */
#include "api/foreign.h"
#include "api/handles.h"

#include "api/api_version.h"
#include "api/place.h"
#include "cluster/functions.h"
#include "cluster/future.h"
#include "cluster/library.h"
#include "cluster/transaction.h"
#include "util/memory.h"

/* Nothing below looks at what it is asked to do. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static FDBFuture *unsupported(void) {
    return future_create_failed(ERROR_UNSUPPORTED_OPERATION);
}

/* For what only a cluster has: why it cannot be asked, 0 standing for that there is none to ask. */
static FDBFuture *refused(fdb_error_t error) {
    return future_create_failed(error ? error : ERROR_UNSUPPORTED_OPERATION);
}

static FDBResult *unsupported_result(void) {
    return (FDBResult *)(void *)unsupported();
}

/* What a getter says about a result that never exists: why. */
static fdb_error_t why(FDBFuture *future, const void *output) {
    fdb_error_t error = future_hold(future, FUTURE_OTHER, output);
    return error ? error : ERROR_CLIENT_INVALID_OPERATION;
}

/* ---- Tenants ---- */

struct FDB_tenant {
    struct database_handle *handle; /* of a database that says TENANTS_DISABLED; NULL in a cluster */
    FDBTenant *official;            /* in a cluster */
    unsigned generation;            /* of forks */
};

/* The official library's tenant; NULL: none, or why not in *error. */
static FDBTenant *official_tenant(FDBTenant *tenant, fdb_error_t *error) {
    *error = !tenant ? ERROR_CLIENT_INVALID_OPERATION : tenant->generation != os_fork_generation ? ERROR_OPENED_BEFORE_FORK : 0;
    return *error ? NULL : tenant->official;
}

static fdb_error_t open_official_tenant(FDBDatabase *official, uint8_t const *name, int length, FDBTenant *tenant) {
    if (!cluster_official.database_open_tenant || !cluster_official.tenant_destroy)
        return ERROR_UNSUPPORTED_OPERATION;
    return cluster_official.database_open_tenant(official, name, length, &tenant->official);
}

static fdb_error_t open_embedded_tenant(FDBTenant *tenant) {
    struct database *place = place_create_failed(ERROR_TENANTS_DISABLED);
    if (!place)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = database_handle_create(place, api_version(), "", "", &tenant->handle);
    if (error)
        database_close(place);
    return error;
}

fdb_error_t fdb_database_open_tenant(FDBDatabase *database, uint8_t const *tenant_name,
                                     int tenant_name_length, FDBTenant **out_tenant) {
    if (!database || !out_tenant || !handles_are_bytes(tenant_name, tenant_name_length))
        return ERROR_CLIENT_INVALID_OPERATION;
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (error)
        return error;
    FDBTenant *tenant = memory_allocate_zeroed(sizeof *tenant);
    if (!tenant)
        return ERROR_LARGE_ALLOC_FAILED;
    tenant->generation = os_fork_generation;
    error = official ? open_official_tenant(official, tenant_name, tenant_name_length, tenant) : open_embedded_tenant(tenant);
    if (error)
        memory_free(tenant);
    else
        *out_tenant = tenant;
    return error;
}

void fdb_tenant_destroy(FDBTenant *tenant) {
    if (!tenant || tenant->generation != os_fork_generation)
        return;
    if (tenant->official)
        cluster_official.tenant_destroy(tenant->official);
    else
        database_handle_release(tenant->handle);
    memory_free(tenant);
}

fdb_error_t fdb_tenant_create_transaction(FDBTenant *tenant, FDBTransaction **out_transaction) {
    if (!tenant || !out_transaction)
        return ERROR_CLIENT_INVALID_OPERATION;
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (official)
        return cluster_transaction_create_in_tenant(official, out_transaction);
    if (error)
        return error;
    struct transaction *transaction;
    error = transaction_create(tenant->handle, &transaction);
    if (!error)
        *out_transaction = handles_from_transaction(transaction);
    return error;
}

FDBFuture *fdb_tenant_get_id(FDBTenant *tenant) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official)
        return future_create_failed(error ? error : ERROR_TENANTS_DISABLED);
    return cluster_official.tenant_get_id ? cluster_future(cluster_official.tenant_get_id(official)) : cluster_missing();
}

FDBFuture *fdb_tenant_purge_blob_granules(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                          uint8_t const *end, int end_length, int64_t purge_version,
                                          fdb_bool_t force) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_purge_blob_granules)
        return refused(error);
    return cluster_future(cluster_official.tenant_purge_blob_granules(official, begin, begin_length, end, end_length, purge_version, force));
}

FDBFuture *fdb_tenant_wait_purge_granules_complete(FDBTenant *tenant, uint8_t const *purge_key,
                                                   int purge_key_length) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_wait_purge_granules_complete)
        return refused(error);
    return cluster_future(cluster_official.tenant_wait_purge_granules_complete(official, purge_key, purge_key_length));
}

FDBFuture *fdb_tenant_blobbify_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                     uint8_t const *end, int end_length) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_blobbify_range)
        return refused(error);
    return cluster_future(cluster_official.tenant_blobbify_range(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_tenant_blobbify_range_blocking(FDBTenant *tenant, uint8_t const *begin,
                                              int begin_length, uint8_t const *end,
                                              int end_length) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_blobbify_range_blocking)
        return refused(error);
    return cluster_future(cluster_official.tenant_blobbify_range_blocking(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_tenant_unblobbify_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                       uint8_t const *end, int end_length) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_unblobbify_range)
        return refused(error);
    return cluster_future(cluster_official.tenant_unblobbify_range(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_tenant_list_blobbified_ranges(FDBTenant *tenant, uint8_t const *begin,
                                             int begin_length, uint8_t const *end, int end_length,
                                             int range_limit) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_list_blobbified_ranges)
        return refused(error);
    return cluster_future(cluster_official.tenant_list_blobbified_ranges(official, begin, begin_length, end, end_length, range_limit));
}

FDBFuture *fdb_tenant_verify_blob_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                        uint8_t const *end, int end_length, int64_t version) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_verify_blob_range)
        return refused(error);
    return cluster_future(cluster_official.tenant_verify_blob_range(official, begin, begin_length, end, end_length, version));
}

FDBFuture *fdb_tenant_flush_blob_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                       uint8_t const *end, int end_length, fdb_bool_t compact,
                                       int64_t version) {
    fdb_error_t error;
    FDBTenant *official = official_tenant(tenant, &error);
    if (!official || !cluster_official.tenant_flush_blob_range)
        return refused(error);
    return cluster_future(cluster_official.tenant_flush_blob_range(official, begin, begin_length, end, end_length, compact, version));
}

/* ---- The machines of a cluster ---- */

FDBFuture *fdb_database_reboot_worker(FDBDatabase *database, uint8_t const *address,
                                      int address_length, fdb_bool_t check, int duration) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_reboot_worker)
        return refused(error);
    return cluster_future(cluster_official.database_reboot_worker(official, address, address_length, check, duration));
}

FDBFuture *fdb_database_force_recovery_with_data_loss(FDBDatabase *database, uint8_t const *dcid,
                                                      int dcid_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_force_recovery_with_data_loss)
        return refused(error);
    return cluster_future(cluster_official.database_force_recovery_with_data_loss(official, dcid, dcid_length));
}

FDBFuture *fdb_database_create_snapshot(FDBDatabase *database, uint8_t const *uid, int uid_length,
                                        uint8_t const *snap_command, int snap_command_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_create_snapshot)
        return refused(error);
    return cluster_future(cluster_official.database_create_snapshot(official, uid, uid_length, snap_command, snap_command_length));
}

/* ---- Blob granules of a database ---- */

FDBFuture *fdb_database_purge_blob_granules(FDBDatabase *database, uint8_t const *begin,
                                            int begin_length, uint8_t const *end, int end_length,
                                            int64_t purge_version, fdb_bool_t force) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_purge_blob_granules)
        return refused(error);
    return cluster_future(cluster_official.database_purge_blob_granules(official, begin, begin_length, end, end_length, purge_version, force));
}

FDBFuture *fdb_database_wait_purge_granules_complete(FDBDatabase *database,
                                                     uint8_t const *purge_key,
                                                     int purge_key_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_wait_purge_granules_complete)
        return refused(error);
    return cluster_future(cluster_official.database_wait_purge_granules_complete(official, purge_key, purge_key_length));
}

FDBFuture *fdb_database_blobbify_range(FDBDatabase *database, uint8_t const *begin,
                                       int begin_length, uint8_t const *end, int end_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_blobbify_range)
        return refused(error);
    return cluster_future(cluster_official.database_blobbify_range(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_database_blobbify_range_blocking(FDBDatabase *database, uint8_t const *begin,
                                                int begin_length, uint8_t const *end,
                                                int end_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_blobbify_range_blocking)
        return refused(error);
    return cluster_future(cluster_official.database_blobbify_range_blocking(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_database_unblobbify_range(FDBDatabase *database, uint8_t const *begin,
                                         int begin_length, uint8_t const *end, int end_length) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_unblobbify_range)
        return refused(error);
    return cluster_future(cluster_official.database_unblobbify_range(official, begin, begin_length, end, end_length));
}

FDBFuture *fdb_database_list_blobbified_ranges(FDBDatabase *database, uint8_t const *begin,
                                               int begin_length, uint8_t const *end, int end_length,
                                               int range_limit) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_list_blobbified_ranges)
        return refused(error);
    return cluster_future(cluster_official.database_list_blobbified_ranges(official, begin, begin_length, end, end_length, range_limit));
}

FDBFuture *fdb_database_verify_blob_range(FDBDatabase *database, uint8_t const *begin,
                                          int begin_length, uint8_t const *end, int end_length,
                                          int64_t version) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_verify_blob_range)
        return refused(error);
    return cluster_future(cluster_official.database_verify_blob_range(official, begin, begin_length, end, end_length, version));
}

FDBFuture *fdb_database_flush_blob_range(FDBDatabase *database, uint8_t const *begin,
                                         int begin_length, uint8_t const *end, int end_length,
                                         fdb_bool_t compact, int64_t version) {
    FDBDatabase *official;
    fdb_error_t error = handles_official(database, &official);
    if (!official || !cluster_official.database_flush_blob_range)
        return refused(error);
    return cluster_future(cluster_official.database_flush_blob_range(official, begin, begin_length, end, end_length, compact, version));
}

/* ---- Blob granules and mapped ranges in a transaction ---- */

FDBFuture *fdb_transaction_get_mapped_range(FDBTransaction *tr, uint8_t const *begin,
                                            int begin_length, fdb_bool_t begin_or_equal,
                                            int begin_offset, uint8_t const *end, int end_length,
                                            fdb_bool_t end_or_equal, int end_offset,
                                            uint8_t const *mapper, int mapper_length, int limit,
                                            int target_bytes, FDBStreamingMode mode, int iteration,
                                            fdb_bool_t snapshot, fdb_bool_t reverse) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign && foreign->get_mapped_range)
        return foreign->get_mapped_range(tr, begin, begin_length, begin_or_equal, begin_offset, end, end_length,
                                         end_or_equal, end_offset, mapper, mapper_length, limit, target_bytes, mode,
                                         iteration, snapshot, reverse);
    return unsupported();
}

FDBFuture *fdb_transaction_get_blob_granule_ranges(FDBTransaction *tr, uint8_t const *begin,
                                                   int begin_length, uint8_t const *end,
                                                   int end_length, int range_limit) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign && foreign->get_blob_granule_ranges)
        return foreign->get_blob_granule_ranges(tr, begin, begin_length, end, end_length, range_limit);
    return unsupported();
}

FDBFuture *fdb_transaction_summarize_blob_granules(FDBTransaction *tr, uint8_t const *begin,
                                                   int begin_length, uint8_t const *end,
                                                   int end_length, int64_t summary_version,
                                                   int range_limit) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign && foreign->summarize_blob_granules)
        return foreign->summarize_blob_granules(tr, begin, begin_length, end, end_length, summary_version, range_limit);
    return unsupported();
}

FDBFuture *fdb_transaction_read_blob_granules_description(FDBTransaction *tr, uint8_t const *begin,
                                                          int begin_length, uint8_t const *end,
                                                          int end_length, int64_t begin_version,
                                                          int64_t read_version,
                                                          int64_t *read_version_out) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign && foreign->read_blob_granules_description)
        return foreign->read_blob_granules_description(tr, begin, begin_length, end, end_length, begin_version,
                                                       read_version, read_version_out);
    return unsupported();
}

FDBResult *fdb_transaction_read_blob_granules(FDBTransaction *tr, uint8_t const *begin,
                                              int begin_length, uint8_t const *end, int end_length,
                                              int64_t begin_version, int64_t read_version,
                                              FDBReadBlobGranuleContext context) {
    const struct foreign_transaction_methods *foreign = foreign_transaction(tr);
    if (foreign && foreign->read_blob_granules)
        return foreign->read_blob_granules(tr, begin, begin_length, end, end_length, begin_version, read_version,
                                           context);
    return unsupported_result();
}

FDBResult *fdb_readbg_parse_snapshot_file(const uint8_t *file_data, int file_length,
                                          FDBBGTenantPrefix const *tenant_prefix,
                                          FDBBGEncryptionCtx const *encryption_ctx) {
    if (cluster_library_is_loaded() && cluster_official.readbg_parse_snapshot_file)
        return cluster_result(cluster_official.readbg_parse_snapshot_file(file_data, file_length, tenant_prefix, encryption_ctx));
    return unsupported_result();
}

FDBResult *fdb_readbg_parse_delta_file(const uint8_t *file_data, int file_length,
                                       FDBBGTenantPrefix const *tenant_prefix,
                                       FDBBGEncryptionCtx const *encryption_ctx) {
    if (cluster_library_is_loaded() && cluster_official.readbg_parse_delta_file)
        return cluster_result(cluster_official.readbg_parse_delta_file(file_data, file_length, tenant_prefix, encryption_ctx));
    return unsupported_result();
}

/* ---- Results that never exist ---- */

fdb_error_t fdb_future_get_mappedkeyvalue_array(FDBFuture *future, FDBMappedKeyValue const **out_kv,
                                                int *out_count, fdb_bool_t *out_more) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        return foreign->get_mappedkeyvalue_array(future, out_kv, out_count, out_more);
    return why(future, out_kv);
}

fdb_error_t fdb_future_get_keyrange_array(FDBFuture *future, FDBKeyRange const **out_ranges,
                                          int *out_count) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        return foreign->get_keyrange_array(future, out_ranges, out_count);
    return why(future, out_ranges);
}

fdb_error_t fdb_future_get_granule_summary_array(FDBFuture *future,
                                                 FDBGranuleSummary const **out_summaries,
                                                 int *out_count) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        return foreign->get_granule_summary_array(future, out_summaries, out_count);
    return why(future, out_summaries);
}

fdb_error_t fdb_future_readbg_get_descriptions(FDBFuture *future, FDBBGFileDescription **out,
                                               int *desc_count) {
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        return foreign->readbg_get_descriptions(future, out, desc_count);
    return why(future, out);
}

fdb_error_t fdb_result_get_keyvalue_array(FDBResult *result, FDBKeyValue const **out_kv,
                                          int *out_count, fdb_bool_t *out_more) {
    FDBFuture *future = (FDBFuture *)(void *)result;
    const struct foreign_future_methods *foreign = foreign_future(future);
    return foreign ? foreign->result_get_keyvalue_array(future, out_kv, out_count, out_more) : why(future, out_kv);
}

fdb_error_t fdb_result_get_bg_mutations_array(FDBResult *result,
                                              FDBBGMutation const **out_mutations, int *out_count) {
    FDBFuture *future = (FDBFuture *)(void *)result;
    const struct foreign_future_methods *foreign = foreign_future(future);
    return foreign ? foreign->result_get_bg_mutations_array(future, out_mutations, out_count) : why(future, out_mutations);
}

void fdb_result_destroy(FDBResult *result) {
    FDBFuture *future = (FDBFuture *)(void *)result;
    const struct foreign_future_methods *foreign = foreign_future(future);
    if (foreign)
        foreign->result_destroy(future);
    else if (future)
        future_release(future);
}
