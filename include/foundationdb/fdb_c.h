/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_c.h: the fdb_c API, versions 510 to 740.
 *
 *     #define FDB_API_VERSION 740
 *     #include <foundationdb/fdb_c.h>
 *
 * A program's life: fdb_select_api_version, fdb_setup_network, fdb_run_network on a thread of its
 * own, fdb_create_database, transactions, fdb_stop_network, join that thread. A process does this
 * once.
 *
 * Rules that hold for every function below:
 *
 * 1. Ownership. What a function hands out as FDBFuture*, FDBResult*, FDBDatabase*, FDBTenant*,
 *    FDBTransaction* or FDBCluster* belongs to the caller, who gives it back with the matching
 *    _destroy. A database outlives its fdb_database_destroy for as long as its transactions live.
 * 2. Input bytes (keys, values, option values) are copied before the call returns. Keys and values
 *    may hold any byte; lengths rule, there is no terminating zero.
 * 3. Output bytes (keys, values, arrays out of a future) stay in the future and live until
 *    fdb_future_destroy or fdb_future_release_memory.
 * 4. Errors. A function that returns fdb_error_t leaves its outputs alone unless it returns 0.
 *    A function that returns FDBFuture* never returns NULL: errors are found in the future. Calls
 *    that cannot fail at once (set, clear, atomic_op, set_read_version, ...) let the commit, or the
 *    next read, fail.
 * 5. Threads. Every function may be called from any thread, on the same object too, except that
 *    _destroy must be the last call on its object and fdb_run_network occupies its thread.
 * 6. What an embedded database does not have (tenants, blob granules, mapped ranges, workers) can
 *    be called and reports an error (2108, unsupported_operation, unless noted).
 */
#ifndef FDB_C_H
#define FDB_C_H

#ifndef DLLEXPORT
#define DLLEXPORT
#endif

#include "fdb_c_apiversion.g.h"

#if defined(FDB_USE_LATEST_API_VERSION)
#define FDB_API_VERSION FDB_LATEST_API_VERSION
#elif defined(FDB_USE_LATEST_BINDINGS_API_VERSION)
#define FDB_API_VERSION FDB_LATEST_BINDINGS_API_VERSION
#endif

#if !defined(FDB_API_VERSION)
#error "define FDB_API_VERSION before including fdb_c.h; the newest is FDB_LATEST_API_VERSION"
#elif FDB_API_VERSION < 510
#error "this FDB_API_VERSION is too old; the oldest supported is 510"
#elif FDB_API_VERSION > FDB_LATEST_API_VERSION
#error "this FDB_API_VERSION needs newer headers"
#endif

#ifndef WARN_UNUSED_RESULT
#ifdef __GNUG__
#define WARN_UNUSED_RESULT __attribute__((warn_unused_result))
#else
#define WARN_UNUSED_RESULT
#endif
#endif

/*
 * Calling a function that FDB_API_VERSION no longer has is a compile error whose text names the
 * reason. Without this a C90 compiler would assume a declaration.
 */
#define FDB_REMOVED_FUNCTION this_function_is_removed_at_the_chosen_FDB_API_VERSION(=)

#include <stdint.h>

#include "fdb_c_options.g.h"
#include "fdb_c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

/* Text of an error number: a constant string, never NULL, also for numbers nobody knows. */
DLLEXPORT const char* fdb_get_error(fdb_error_t code);

/* Answers an FDBErrorPredicate about an error; false for an unknown predicate. */
DLLEXPORT fdb_bool_t fdb_error_predicate(int predicate_test, fdb_error_t code);

/* ---- API version: the first call of a process ---- */

/*
 * Chooses the behaviour of API version v. Errors: 2201 chosen before, 2202 v is newer than
 * FDB_API_VERSION, 2203 not supported by the library.
 */
#define fdb_select_api_version(v) fdb_select_api_version_impl(v, FDB_API_VERSION)

/* The same, taking these headers for no newer than the library is. */
#define fdb_select_api_version_capped(v)                                                          \
    fdb_select_api_version_impl(                                                                  \
        v,                                                                                        \
        FDB_API_VERSION < fdb_get_max_api_version() ? FDB_API_VERSION : fdb_get_max_api_version())

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_select_api_version_impl(int runtime_version,
                                                                     int header_version);

/* Newest API version of the library; may be called before all else. */
DLLEXPORT int fdb_get_max_api_version(void);

/* "release,source,protocol" of the library; a constant string. */
DLLEXPORT const char* fdb_get_client_version(void);

/* ---- The network thread ---- */

/*
 * Sets an FDBNetworkOption. value may be NULL where the option takes none. Errors: 2006 bad value,
 * 2007 unknown option or too late for it, 2200 no API version chosen.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_network_set_option(FDBNetworkOption option,
                                                                uint8_t const* value,
                                                                int value_length);

/*
 * Prepares the network, after reading FDB_NETWORK_OPTION_<NAME> from the environment. Errors: 2009
 * called before, 2022 an option in the environment could not be set, 2200.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_setup_network(void);

/*
 * Runs callbacks until fdb_stop_network, then the completion hooks; returns after them. Errors:
 * 2008 not set up, 2025 ran before.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_run_network(void);

/* Makes fdb_run_network return. Any thread. Errors: 2008 not set up. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_stop_network(void);

/*
 * Has hook(hook_parameter) called once on the network thread when fdb_run_network ends. Errors:
 * 2008 not set up.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_add_network_thread_completion_hook(void (*hook)(void*), void* hook_parameter);

/* ---- Result types ---- */

#pragma pack(push, 4)
typedef struct key {
    const uint8_t* key;
    int key_length;
} FDBKey;

#if FDB_API_VERSION >= 630
typedef struct keyvalue {
    const uint8_t* key;
    int key_length;
    const uint8_t* value;
    int value_length;
} FDBKeyValue;
#else
typedef struct keyvalue {
    const void* key;
    int key_length;
    const void* value;
    int value_length;
} FDBKeyValue;
#endif
#pragma pack(pop)

typedef struct keyselector {
    FDBKey key;
    fdb_bool_t orEqual;
    int offset;
} FDBKeySelector;

typedef struct getrangereqandresult {
    FDBKeySelector begin;
    FDBKeySelector end;
    FDBKeyValue* data;
    int m_size, m_capacity;
} FDBGetRangeReqAndResult;

/* 112 bytes: the row, and the range its mapping led to; buffer is reserved. */
typedef struct mappedkeyvalue {
    FDBKey key;
    FDBKey value;
    FDBGetRangeReqAndResult getRange;
    unsigned char buffer[32];
} FDBMappedKeyValue;

#pragma pack(push, 4)
typedef struct keyrange {
    const uint8_t* begin_key;
    int begin_key_length;
    const uint8_t* end_key;
    int end_key_length;
} FDBKeyRange;

typedef struct granulesummary {
    FDBKeyRange key_range;
    int64_t snapshot_version;
    int64_t snapshot_size;
    int64_t delta_version;
    int64_t delta_size;
} FDBGranuleSummary;
#pragma pack(pop)

/* Callbacks with which a program loads blob granule files for the library. */
typedef struct readgranulecontext {
    /* Handed to every callback as context. */
    void* userContext;

    /* Starts loading a piece of a file and returns an id for it; several may be under way. */
    int64_t (*start_load_f)(const char* filename,
                            int filenameLength,
                            int64_t offset,
                            int64_t length,
                            int64_t fullFileLength,
                            void* context);

    /* Waits for the piece with this id and returns its bytes. */
    uint8_t* (*get_load_f)(int64_t loadId, void* context);

    /* Gives the bytes of this id back. */
    void (*free_load_f)(int64_t loadId, void* context);

    /* For tests: ask for the granules but load no files. */
    fdb_bool_t debugNoMaterialize;

    /* Number of granules loaded at the same time. */
    int granuleParallelism;
} FDBReadBlobGranuleContext;

typedef enum {
    FDB_BG_MUTATION_TYPE_SET_VALUE = 0,
    FDB_BG_MUTATION_TYPE_CLEAR_RANGE = 1
} FDBBGMutationType;

#pragma pack(push, 4)
typedef struct bgtenantprefix {
    fdb_bool_t present;
    FDBKey prefix;
} FDBBGTenantPrefix;

typedef struct bgencryptionkey {
    int64_t domain_id;
    uint64_t base_key_id;
    uint32_t base_kcv;
    uint64_t random_salt;
    FDBKey base_key;
} FDBBGEncryptionKey;

typedef struct bgencryptionctx {
    fdb_bool_t present;
    FDBBGEncryptionKey textKey;
    uint32_t textKCV;
    FDBBGEncryptionKey headerKey;
    uint32_t headerKCV;
    FDBKey iv;
} FDBBGEncryptionCtx;

typedef struct bgfilepointer {
    const uint8_t* filename_ptr;
    int filename_length;
    int64_t file_offset;
    int64_t file_length;
    int64_t full_file_length;
    int64_t file_version;
    FDBBGEncryptionCtx encryption_ctx;
} FDBBGFilePointer;

typedef struct bgmutation {
    uint8_t type; /* an FDBBGMutationType */
    int64_t version;
    const uint8_t* param1_ptr;
    int param1_length;
    const uint8_t* param2_ptr;
    int param2_length;
} FDBBGMutation;

typedef struct bgfiledescription {
    FDBKeyRange key_range;
    fdb_bool_t snapshot_present;
    FDBBGFilePointer snapshot_file_pointer;
    int delta_file_count;
    FDBBGFilePointer* delta_files;
    int memory_mutation_count;
    FDBBGMutation* memory_mutations;
    FDBBGTenantPrefix tenant_prefix;
} FDBBGFileDescription;
#pragma pack(pop)

/* ---- Futures: the result of something under way ---- */

/*
 * Gives the operation up: an unready future becomes ready with 1101 and its callback runs. A ready
 * future stays as it is. A commit that is cancelled may still take effect.
 */
DLLEXPORT void fdb_future_cancel(FDBFuture* f);

/*
 * Frees the result early; the pointers taken from it die, asking again is 1102. The future itself
 * must still be destroyed.
 */
DLLEXPORT void fdb_future_release_memory(FDBFuture* f);

/* Cancels and gives the future back. Allowed inside its own callback. */
DLLEXPORT void fdb_future_destroy(FDBFuture* f);

/*
 * Waits until the future is ready; 0 even if it then holds an error. Errors: 2026 called on the
 * network thread with an unready future.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_block_until_ready(FDBFuture* f);

/* Whether a result or an error is there. */
DLLEXPORT fdb_bool_t fdb_future_is_ready(FDBFuture* f);

typedef void (*FDBCallback)(FDBFuture* future, void* callback_parameter);

/*
 * Has callback(f, callback_parameter) called exactly once when the future is ready: at once on this
 * thread if it is, else on the network thread. One callback a future.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_set_callback(FDBFuture* f,
                                                                 FDBCallback callback,
                                                                 void* callback_parameter);

/* Error of a ready future, 0 if it holds a result. Errors: 2015 not ready. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_error(FDBFuture* f);

/*
 * Results. Each returns the future's error if it has one, 2015 if it is not ready, 1102 after
 * fdb_future_release_memory. The kind must be the one the future was made for.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_bool(FDBFuture* f, fdb_bool_t* out);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_int64(FDBFuture* f, int64_t* out);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_uint64(FDBFuture* f, uint64_t* out);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_double(FDBFuture* f, double* out);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_key(FDBFuture* f,
                                                            uint8_t const** out_key,
                                                            int* out_key_length);

/* out_value and out_value_length are set only if *out_present. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_value(FDBFuture* f,
                                                              fdb_bool_t* out_present,
                                                              uint8_t const** out_value,
                                                              int* out_value_length);

/* *out_more: the range may hold rows beyond these, within the limit or not. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_keyvalue_array(FDBFuture* f,
                                                                       FDBKeyValue const** out_kv,
                                                                       int* out_count,
                                                                       fdb_bool_t* out_more);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_future_get_mappedkeyvalue_array(FDBFuture* f,
                                    FDBMappedKeyValue const** out_kv,
                                    int* out_count,
                                    fdb_bool_t* out_more);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_key_array(FDBFuture* f,
                                                                  FDBKey const** out_key_array,
                                                                  int* out_count);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_string_array(FDBFuture* f,
                                                                     const char*** out_strings,
                                                                     int* out_count);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_future_get_keyrange_array(FDBFuture* f, FDBKeyRange const** out_ranges, int* out_count);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_future_get_granule_summary_array(FDBFuture* f,
                                     FDBGranuleSummary const** out_summaries,
                                     int* out_count);

/* Result of fdb_transaction_read_blob_granules_description. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_future_readbg_get_descriptions(FDBFuture* f, FDBBGFileDescription** out, int* desc_count);

/* ---- Results: computed at once, never waited for ---- */

/* Parse blob granule files the caller has loaded. */
DLLEXPORT WARN_UNUSED_RESULT FDBResult*
fdb_readbg_parse_snapshot_file(const uint8_t* file_data,
                               int file_len,
                               FDBBGTenantPrefix const* tenant_prefix,
                               FDBBGEncryptionCtx const* encryption_ctx);

DLLEXPORT WARN_UNUSED_RESULT FDBResult*
fdb_readbg_parse_delta_file(const uint8_t* file_data,
                            int file_len,
                            FDBBGTenantPrefix const* tenant_prefix,
                            FDBBGEncryptionCtx const* encryption_ctx);

DLLEXPORT void fdb_result_destroy(FDBResult* r);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_result_get_keyvalue_array(FDBResult* r,
                                                                       FDBKeyValue const** out_kv,
                                                                       int* out_count,
                                                                       fdb_bool_t* out_more);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_result_get_bg_mutations_array(FDBResult* r,
                                  FDBBGMutation const** out_mutations,
                                  int* out_count);

/* ---- Databases ---- */

/*
 * Opens the database at a path: an embedded one (a directory, or a path that does not exist yet), a
 * FoundationDB cluster (a cluster file), or ":memory:". NULL or "" looks in the usual places. A
 * database that cannot be opened shows with its first operation, not here. Errors: 2008 network not
 * set up, 2200.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_create_database(const char* cluster_file_path,
                                                             FDBDatabase** out_database);

/* Opens the cluster of a connection string description:id@host:port,... Errors: 2104 malformed. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_create_database_from_connection_string(const char* connection_string,
                                           FDBDatabase** out_database);

DLLEXPORT void fdb_database_destroy(FDBDatabase* d);

/* Sets an FDBDatabaseOption. Errors: 2006 bad value, 2007 unknown option. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_database_set_option(FDBDatabase* d,
                                                                 FDBDatabaseOption option,
                                                                 uint8_t const* value,
                                                                 int value_length);

/* A handle on a tenant; where there are no tenants, every use of it says so. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_database_open_tenant(FDBDatabase* d,
                                                                  uint8_t const* tenant_name,
                                                                  int tenant_name_length,
                                                                  FDBTenant** out_tenant);

/* A transaction with the database's defaults; it reads from the moment of its first read. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_database_create_transaction(FDBDatabase* d, FDBTransaction** out_transaction);

/* Future of int64: 1 if the worker was reached. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_database_reboot_worker(FDBDatabase* db,
                                                                   uint8_t const* address,
                                                                   int address_length,
                                                                   fdb_bool_t check,
                                                                   int duration);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_force_recovery_with_data_loss(FDBDatabase* db, uint8_t const* dcid, int dcid_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_database_create_snapshot(FDBDatabase* db,
                                                                     uint8_t const* uid,
                                                                     int uid_length,
                                                                     uint8_t const* snap_command,
                                                                     int snap_command_length);

/* How busy the network thread is: about 0 idle, 1 or more saturated. */
DLLEXPORT WARN_UNUSED_RESULT double fdb_database_get_main_thread_busyness(FDBDatabase* db);

/* Future of uint64: protocol version; waits while it equals expected_version, unless that is 0. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_get_server_protocol(FDBDatabase* db, uint64_t expected_version);

/* Future of a key to wait with: asks that granules up to purge_version be deleted. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_purge_blob_granules(FDBDatabase* db,
                                 uint8_t const* begin_key_name,
                                 int begin_key_name_length,
                                 uint8_t const* end_key_name,
                                 int end_key_name_length,
                                 int64_t purge_version,
                                 fdb_bool_t force);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_wait_purge_granules_complete(FDBDatabase* db,
                                          uint8_t const* purge_key_name,
                                          int purge_key_name_length);

/* Futures of bool: whether the range was (un)blobbified. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_database_blobbify_range(FDBDatabase* db,
                                                                    uint8_t const* begin_key_name,
                                                                    int begin_key_name_length,
                                                                    uint8_t const* end_key_name,
                                                                    int end_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_blobbify_range_blocking(FDBDatabase* db,
                                     uint8_t const* begin_key_name,
                                     int begin_key_name_length,
                                     uint8_t const* end_key_name,
                                     int end_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_unblobbify_range(FDBDatabase* db,
                              uint8_t const* begin_key_name,
                              int begin_key_name_length,
                              uint8_t const* end_key_name,
                              int end_key_name_length);

/* Future of key ranges. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_list_blobbified_ranges(FDBDatabase* db,
                                    uint8_t const* begin_key_name,
                                    int begin_key_name_length,
                                    uint8_t const* end_key_name,
                                    int end_key_name_length,
                                    int rangeLimit);

/* Future of int64: version up to which the range can be read from granules. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_verify_blob_range(FDBDatabase* db,
                               uint8_t const* begin_key_name,
                               int begin_key_name_length,
                               uint8_t const* end_key_name,
                               int end_key_name_length,
                               int64_t version);

/* Future of bool. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_database_flush_blob_range(FDBDatabase* db,
                              uint8_t const* begin_key_name,
                              int begin_key_name_length,
                              uint8_t const* end_key_name,
                              int end_key_name_length,
                              fdb_bool_t compact,
                              int64_t version);

/* Future of a key: a JSON document on the state of this client. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_database_get_client_status(FDBDatabase* db);

/* ---- Tenants (see rule 6) ---- */

/* As their namesakes of the database, inside a tenant. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_tenant_create_transaction(FDBTenant* tenant, FDBTransaction** out_transaction);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_tenant_purge_blob_granules(FDBTenant* db,
                               uint8_t const* begin_key_name,
                               int begin_key_name_length,
                               uint8_t const* end_key_name,
                               int end_key_name_length,
                               int64_t purge_version,
                               fdb_bool_t force);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_tenant_wait_purge_granules_complete(FDBTenant* db,
                                        uint8_t const* purge_key_name,
                                        int purge_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_tenant_blobbify_range(FDBTenant* tenant,
                                                                  uint8_t const* begin_key_name,
                                                                  int begin_key_name_length,
                                                                  uint8_t const* end_key_name,
                                                                  int end_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_tenant_blobbify_range_blocking(FDBTenant* tenant,
                                   uint8_t const* begin_key_name,
                                   int begin_key_name_length,
                                   uint8_t const* end_key_name,
                                   int end_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_tenant_unblobbify_range(FDBTenant* tenant,
                                                                    uint8_t const* begin_key_name,
                                                                    int begin_key_name_length,
                                                                    uint8_t const* end_key_name,
                                                                    int end_key_name_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_tenant_list_blobbified_ranges(FDBTenant* tenant,
                                  uint8_t const* begin_key_name,
                                  int begin_key_name_length,
                                  uint8_t const* end_key_name,
                                  int end_key_name_length,
                                  int rangeLimit);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_tenant_verify_blob_range(FDBTenant* tenant,
                             uint8_t const* begin_key_name,
                             int begin_key_name_length,
                             uint8_t const* end_key_name,
                             int end_key_name_length,
                             int64_t version);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_tenant_flush_blob_range(FDBTenant* tenant,
                                                                    uint8_t const* begin_key_name,
                                                                    int begin_key_name_length,
                                                                    uint8_t const* end_key_name,
                                                                    int end_key_name_length,
                                                                    fdb_bool_t compact,
                                                                    int64_t version);

/* Future of int64. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_tenant_get_id(FDBTenant* tenant);

DLLEXPORT void fdb_tenant_destroy(FDBTenant* tenant);

/* ---- Transactions ---- */

/* Cancels what is outstanding except commits under way and watches already committed. */
DLLEXPORT void fdb_transaction_destroy(FDBTransaction* tr);

/* Everything outstanding and everything to come fails with 1025 until fdb_transaction_reset. */
DLLEXPORT void fdb_transaction_cancel(FDBTransaction* tr);

/* Sets an FDBTransactionOption. Errors: 2006 bad value, 2007 unknown option, 2000 too late. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_transaction_set_option(FDBTransaction* tr,
                                                                    FDBTransactionOption option,
                                                                    uint8_t const* value,
                                                                    int value_length);

/*
 * Reads from this version instead of the newest. Reads fail with 1007 when it is older than the
 * lifetime of a transaction, with 1009 when it is not there yet; 2010 when a read version is set.
 */
DLLEXPORT void fdb_transaction_set_read_version(FDBTransaction* tr, int64_t version);

/* Future of int64: the version this transaction reads, chosen now if it was not before. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_read_version(FDBTransaction* tr);

/*
 * Future of a value. With snapshot no read conflict range is added. Errors: 2004 a system key
 * without the option, 1007, 1009, 1025, 1031, 1036, 2017.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get(FDBTransaction* tr,
                                                            uint8_t const* key_name,
                                                            int key_name_length,
                                                            fdb_bool_t snapshot);

/*
 * Future of a key: the one a key selector (key, or_equal, offset) names, see FDB_KEYSEL_*; before
 * the first key it is "", behind the last 0xFF (0xFF 0xFF with system keys).
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_key(FDBTransaction* tr,
                                                                uint8_t const* key_name,
                                                                int key_name_length,
                                                                fdb_bool_t or_equal,
                                                                int offset,
                                                                fdb_bool_t snapshot);

/* Future of strings: addresses of the machines that hold the key. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_addresses_for_key(FDBTransaction* tr,
                                      uint8_t const* key_name,
                                      int key_name_length);

/*
 * Future of rows: from the key the begin selector names up to but without the one the end selector
 * names, in reverse from the far end. limit rows and target_bytes bound the answer, 0 meaning no
 * bound; mode bounds it further, for FDB_STREAMING_MODE_ITERATOR by iteration, counted from 1.
 * An end at or before the begin is an empty range, not an error. Errors: 2210 EXACT without a limit,
 * 2012 negative limit, 2000 bad mode or iteration, and those of fdb_transaction_get.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_range(FDBTransaction* tr,
                                                                  uint8_t const* begin_key_name,
                                                                  int begin_key_name_length,
                                                                  fdb_bool_t begin_or_equal,
                                                                  int begin_offset,
                                                                  uint8_t const* end_key_name,
                                                                  int end_key_name_length,
                                                                  fdb_bool_t end_or_equal,
                                                                  int end_offset,
                                                                  int limit,
                                                                  int target_bytes,
                                                                  FDBStreamingMode mode,
                                                                  int iteration,
                                                                  fdb_bool_t snapshot,
                                                                  fdb_bool_t reverse);

/* Future of mapped rows (see rule 6). */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_mapped_range(FDBTransaction* tr,
                                 uint8_t const* begin_key_name,
                                 int begin_key_name_length,
                                 fdb_bool_t begin_or_equal,
                                 int begin_offset,
                                 uint8_t const* end_key_name,
                                 int end_key_name_length,
                                 fdb_bool_t end_or_equal,
                                 int end_offset,
                                 uint8_t const* mapper_name,
                                 int mapper_name_length,
                                 int limit,
                                 int target_bytes,
                                 FDBStreamingMode mode,
                                 int iteration,
                                 fdb_bool_t snapshot,
                                 fdb_bool_t reverse);

/*
 * Writes: kept in the transaction until it commits, seen by its own reads. Errors come with the
 * commit or the next read: 2102 key over 10,000 bytes, 2103 value over 100,000 bytes, 2101
 * transaction over its size limit, 2004 system key without the option, 2005 range upside down.
 */
DLLEXPORT void fdb_transaction_set(FDBTransaction* tr,
                                   uint8_t const* key_name,
                                   int key_name_length,
                                   uint8_t const* value,
                                   int value_length);

/* An FDBMutationType; adds no read conflict range. 2018 for an unknown type. */
DLLEXPORT void fdb_transaction_atomic_op(FDBTransaction* tr,
                                         uint8_t const* key_name,
                                         int key_name_length,
                                         uint8_t const* param,
                                         int param_length,
                                         FDBMutationType operation_type);

DLLEXPORT void fdb_transaction_clear(FDBTransaction* tr,
                                     uint8_t const* key_name,
                                     int key_name_length);

/* Clears begin_key_name <= key < end_key_name. */
DLLEXPORT void fdb_transaction_clear_range(FDBTransaction* tr,
                                           uint8_t const* begin_key_name,
                                           int begin_key_name_length,
                                           uint8_t const* end_key_name,
                                           int end_key_name_length);

/*
 * Future without a value: ready when the key's value is no longer what this transaction sees.
 * It outlives a successful commit, and fails with the transaction otherwise. Errors: 1032 too many
 * watches, 1034 with read_your_writes_disable, 1101 given up.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_watch(FDBTransaction* tr,
                                                              uint8_t const* key_name,
                                                              int key_name_length);

/*
 * Future without a value: ready once the writes are durable, or failed and no write took effect,
 * except for 1021, 1031, 1025 and 1101, where they may have. Errors: 1020 conflict, 1007, 1021,
 * 2101, and errors of earlier calls, reads that failed included. Until it is ready other calls fail with 2017.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_commit(FDBTransaction* tr);

/* Version of the successful commit; -1 if it wrote nothing or there was none. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_transaction_get_committed_version(FDBTransaction* tr, int64_t* out_version);

/* Future of double: seconds this transaction was held back by throttling. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_tag_throttled_duration(FDBTransaction* tr);

/* Future of int64: cost of this transaction so far. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_total_cost(FDBTransaction* tr);

/* Future of int64: bytes this transaction would commit now, conflict ranges included. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_approximate_size(FDBTransaction* tr);

/*
 * Future of a key: the ten bytes the commit put into versionstamps, ready with the commit. Must be
 * called before it (2017 after). Errors: 2021 nothing was written, 2020 the commit failed.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_get_versionstamp(FDBTransaction* tr);

/*
 * Future without a value: for a retryable error waits a little, resets the transaction and is
 * ready; for any other error fails with that error, as it does beyond the retry limit.
 */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_transaction_on_error(FDBTransaction* tr,
                                                                 fdb_error_t error);

/* Back to the state of a new transaction; what is outstanding fails with 1025. */
DLLEXPORT void fdb_transaction_reset(FDBTransaction* tr);

/* Adds a conflict range by hand. Errors: 2005, 2004, 2000 unknown type. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t
fdb_transaction_add_conflict_range(FDBTransaction* tr,
                                   uint8_t const* begin_key_name,
                                   int begin_key_name_length,
                                   uint8_t const* end_key_name,
                                   int end_key_name_length,
                                   FDBConflictRangeType type);

/* Future of int64: about how many bytes the range holds. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_estimated_range_size_bytes(FDBTransaction* tr,
                                               uint8_t const* begin_key_name,
                                               int begin_key_name_length,
                                               uint8_t const* end_key_name,
                                               int end_key_name_length);

/* Future of keys: begin, keys about chunk_size bytes apart, end. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_range_split_points(FDBTransaction* tr,
                                       uint8_t const* begin_key_name,
                                       int begin_key_name_length,
                                       uint8_t const* end_key_name,
                                       int end_key_name_length,
                                       int64_t chunk_size);

/* The same with at most limit keys between begin and end, no bound if limit is negative. */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_range_split_points_with_limit(FDBTransaction* tr,
                                                  uint8_t const* begin_key_name,
                                                  int begin_key_name_length,
                                                  uint8_t const* end_key_name,
                                                  int end_key_name_length,
                                                  int64_t chunk_size,
                                                  int limit);

/* Blob granules (see rule 6). */
DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_get_blob_granule_ranges(FDBTransaction* tr,
                                        uint8_t const* begin_key_name,
                                        int begin_key_name_length,
                                        uint8_t const* end_key_name,
                                        int end_key_name_length,
                                        int rangeLimit);

/* readVersion -2 stands for the read version of the transaction. */
DLLEXPORT WARN_UNUSED_RESULT FDBResult*
fdb_transaction_read_blob_granules(FDBTransaction* tr,
                                   uint8_t const* begin_key_name,
                                   int begin_key_name_length,
                                   uint8_t const* end_key_name,
                                   int end_key_name_length,
                                   int64_t beginVersion,
                                   int64_t readVersion,
                                   FDBReadBlobGranuleContext granuleContext);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_summarize_blob_granules(FDBTransaction* tr,
                                        uint8_t const* begin_key_name,
                                        int begin_key_name_length,
                                        uint8_t const* end_key_name,
                                        int end_key_name_length,
                                        int64_t summaryVersion,
                                        int rangeLimit);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture*
fdb_transaction_read_blob_granules_description(FDBTransaction* tr,
                                               uint8_t const* begin_key_name,
                                               int begin_key_name_length,
                                               uint8_t const* end_key_name,
                                               int end_key_name_length,
                                               int64_t begin_version,
                                               int64_t read_version,
                                               int64_t* read_version_out);

/* The four usual key selectors, to stand for (key_name, key_name_length, or_equal, offset). */
#define FDB_KEYSEL_LAST_LESS_THAN(k, l) k, l, 0, 0
#define FDB_KEYSEL_LAST_LESS_OR_EQUAL(k, l) k, l, 1, 0
#define FDB_KEYSEL_FIRST_GREATER_THAN(k, l) k, l, 1, 1
#define FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(k, l) k, l, 0, 1

/* ---- What earlier API versions had ---- */

#if FDB_API_VERSION < 620
/* Now fdb_future_get_int64. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_version(FDBFuture* f,
                                                                int64_t* out_version);
#else
#define fdb_future_get_version(f, ov) FDB_REMOVED_FUNCTION
#endif

#if FDB_API_VERSION < 610 || defined(FDB_INCLUDE_LEGACY_TYPES)
typedef enum {
    /* There never was one. */
    FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE = -1
} FDBClusterOption;
#endif

#if FDB_API_VERSION < 610
/*
 * Opening in two steps: fdb_create_cluster, fdb_future_get_cluster, fdb_cluster_create_database
 * with the name "DB" (2013 for any other), fdb_future_get_database. The last one hands the database
 * out once.
 */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_cluster(FDBFuture* f,
                                                                FDBCluster** out_cluster);

DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_future_get_database(FDBFuture* f,
                                                                 FDBDatabase** out_database);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_create_cluster(const char* cluster_file_path);

DLLEXPORT void fdb_cluster_destroy(FDBCluster* c);

/* Accepts everything and does nothing. */
DLLEXPORT WARN_UNUSED_RESULT fdb_error_t fdb_cluster_set_option(FDBCluster* c,
                                                                FDBClusterOption option,
                                                                uint8_t const* value,
                                                                int value_length);

DLLEXPORT WARN_UNUSED_RESULT FDBFuture* fdb_cluster_create_database(FDBCluster* c,
                                                                    uint8_t const* db_name,
                                                                    int db_name_length);
#else
#define fdb_future_get_cluster(f, oc) FDB_REMOVED_FUNCTION
#define fdb_future_get_database(f, od) FDB_REMOVED_FUNCTION
#define fdb_create_cluster(cfp) FDB_REMOVED_FUNCTION
#define fdb_cluster_destroy(c) FDB_REMOVED_FUNCTION
#define fdb_cluster_set_option(c, o, v, vl) FDB_REMOVED_FUNCTION
#define fdb_cluster_create_database(c, dn, dnl) FDB_REMOVED_FUNCTION
#endif

/* Gone before API version 510. */
#define fdb_future_is_error(x) FDB_REMOVED_FUNCTION
#define fdb_transaction_get_range_selector(tr, bkn, bknl, boe, bo, ekn, eknl, eoe, eo, lim)       \
    FDB_REMOVED_FUNCTION

#ifdef __cplusplus
}
#endif
#endif
