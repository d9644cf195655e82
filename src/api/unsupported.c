/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an embedded database cannot mean: tenants, blob granules, mapped ranges, the care of a
 * cluster's machines. Bindings look these functions up when they are loaded, so all exist; each
 * answers at once with UNSUPPORTED_OPERATION, touches no output and reads none of its arguments;
 * only what belongs to somebody else (api/foreign.h) is handed on.
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
#include "util/memory.h"

/* Nothing below looks at what it is asked to do. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static FDBFuture *unsupported(void) {
    return future_create_failed(ERROR_UNSUPPORTED_OPERATION);
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
    struct database_handle *handle; /* of a database that says TENANTS_DISABLED */
};

fdb_error_t fdb_database_open_tenant(FDBDatabase *database, uint8_t const *tenant_name,
                                     int tenant_name_length, FDBTenant **out_tenant) {
    if (!database || !out_tenant || !handles_are_bytes(tenant_name, tenant_name_length))
        return ERROR_CLIENT_INVALID_OPERATION;
    FDBTenant *tenant = memory_allocate(sizeof *tenant);
    struct database *place = place_create_failed(ERROR_TENANTS_DISABLED);
    fdb_error_t error = ERROR_LARGE_ALLOC_FAILED;
    if (tenant && place)
        error = database_handle_create(place, api_version(), "", "", &tenant->handle);
    if (!error) {
        *out_tenant = tenant;
        return 0;
    }
    if (place)
        database_close(place);
    memory_free(tenant);
    return error;
}

void fdb_tenant_destroy(FDBTenant *tenant) {
    if (!tenant)
        return;
    database_handle_release(tenant->handle);
    memory_free(tenant);
}

fdb_error_t fdb_tenant_create_transaction(FDBTenant *tenant, FDBTransaction **out_transaction) {
    if (!tenant || !out_transaction)
        return ERROR_CLIENT_INVALID_OPERATION;
    struct transaction *transaction;
    fdb_error_t error = transaction_create(tenant->handle, &transaction);
    if (!error)
        *out_transaction = handles_from_transaction(transaction);
    return error;
}

FDBFuture *fdb_tenant_get_id(FDBTenant *tenant) {
    return future_create_failed(ERROR_TENANTS_DISABLED);
}

FDBFuture *fdb_tenant_purge_blob_granules(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                          uint8_t const *end, int end_length, int64_t purge_version,
                                          fdb_bool_t force) {
    return unsupported();
}

FDBFuture *fdb_tenant_wait_purge_granules_complete(FDBTenant *tenant, uint8_t const *purge_key,
                                                   int purge_key_length) {
    return unsupported();
}

FDBFuture *fdb_tenant_blobbify_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                     uint8_t const *end, int end_length) {
    return unsupported();
}

FDBFuture *fdb_tenant_blobbify_range_blocking(FDBTenant *tenant, uint8_t const *begin,
                                              int begin_length, uint8_t const *end,
                                              int end_length) {
    return unsupported();
}

FDBFuture *fdb_tenant_unblobbify_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                       uint8_t const *end, int end_length) {
    return unsupported();
}

FDBFuture *fdb_tenant_list_blobbified_ranges(FDBTenant *tenant, uint8_t const *begin,
                                             int begin_length, uint8_t const *end, int end_length,
                                             int range_limit) {
    return unsupported();
}

FDBFuture *fdb_tenant_verify_blob_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                        uint8_t const *end, int end_length, int64_t version) {
    return unsupported();
}

FDBFuture *fdb_tenant_flush_blob_range(FDBTenant *tenant, uint8_t const *begin, int begin_length,
                                       uint8_t const *end, int end_length, fdb_bool_t compact,
                                       int64_t version) {
    return unsupported();
}

/* ---- The machines of a cluster ---- */

FDBFuture *fdb_database_reboot_worker(FDBDatabase *database, uint8_t const *address,
                                      int address_length, fdb_bool_t check, int duration) {
    return unsupported();
}

FDBFuture *fdb_database_force_recovery_with_data_loss(FDBDatabase *database, uint8_t const *dcid,
                                                      int dcid_length) {
    return unsupported();
}

FDBFuture *fdb_database_create_snapshot(FDBDatabase *database, uint8_t const *uid, int uid_length,
                                        uint8_t const *snap_command, int snap_command_length) {
    return unsupported();
}

/* ---- Blob granules of a database ---- */

FDBFuture *fdb_database_purge_blob_granules(FDBDatabase *database, uint8_t const *begin,
                                            int begin_length, uint8_t const *end, int end_length,
                                            int64_t purge_version, fdb_bool_t force) {
    return unsupported();
}

FDBFuture *fdb_database_wait_purge_granules_complete(FDBDatabase *database,
                                                     uint8_t const *purge_key,
                                                     int purge_key_length) {
    return unsupported();
}

FDBFuture *fdb_database_blobbify_range(FDBDatabase *database, uint8_t const *begin,
                                       int begin_length, uint8_t const *end, int end_length) {
    return unsupported();
}

FDBFuture *fdb_database_blobbify_range_blocking(FDBDatabase *database, uint8_t const *begin,
                                                int begin_length, uint8_t const *end,
                                                int end_length) {
    return unsupported();
}

FDBFuture *fdb_database_unblobbify_range(FDBDatabase *database, uint8_t const *begin,
                                         int begin_length, uint8_t const *end, int end_length) {
    return unsupported();
}

FDBFuture *fdb_database_list_blobbified_ranges(FDBDatabase *database, uint8_t const *begin,
                                               int begin_length, uint8_t const *end, int end_length,
                                               int range_limit) {
    return unsupported();
}

FDBFuture *fdb_database_verify_blob_range(FDBDatabase *database, uint8_t const *begin,
                                          int begin_length, uint8_t const *end, int end_length,
                                          int64_t version) {
    return unsupported();
}

FDBFuture *fdb_database_flush_blob_range(FDBDatabase *database, uint8_t const *begin,
                                         int begin_length, uint8_t const *end, int end_length,
                                         fdb_bool_t compact, int64_t version) {
    return unsupported();
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
    return unsupported_result();
}

FDBResult *fdb_readbg_parse_delta_file(const uint8_t *file_data, int file_length,
                                       FDBBGTenantPrefix const *tenant_prefix,
                                       FDBBGEncryptionCtx const *encryption_ctx) {
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
    return why((FDBFuture *)(void *)result, out_kv);
}

fdb_error_t fdb_result_get_bg_mutations_array(FDBResult *result,
                                              FDBBGMutation const **out_mutations, int *out_count) {
    return why((FDBFuture *)(void *)result, out_mutations);
}

void fdb_result_destroy(FDBResult *result) {
    if (result)
        future_release((FDBFuture *)(void *)result);
}
