/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every error code that Keel can return or be asked about: name, number, text, in the order of numbers. The numbers below 20000 are
 * FoundationDB's, those that only its servers use included, so that every code a program meets has a text; 20000 and up are Keel's own.
 */
#ifndef KEEL_UTIL_ERROR_TABLE_H
#define KEEL_UTIL_ERROR_TABLE_H

#define ERROR_TABLE(X)                                                                             \
    X(SUCCESS, 0, "Success")                                                                       \
    X(END_OF_STREAM, 1, "There is nothing more to read")                                           \
    X(OPERATION_FAILED, 1000, "The operation failed")                                              \
    X(WRONG_SHARD_SERVER, 1001, "The server asked does not hold these keys")                       \
    X(OPERATION_OBSOLETE, 1002, "The answer is no longer needed")                                  \
    X(COLD_CACHE_SERVER, 1003, "The cache has not loaded this range yet")                          \
    X(TIMED_OUT, 1004, "The operation took too long")                                              \
    X(COORDINATED_STATE_CONFLICT, 1005, "Two changes of the coordinators' state collided")         \
    X(ALL_ALTERNATIVES_FAILED, 1006, "Every server that could have answered failed")               \
    X(TRANSACTION_TOO_OLD, 1007, "The transaction is older than the database remembers; start it again") \
    X(NO_MORE_SERVERS, 1008, "There are too few machines for this")                                \
    X(FUTURE_VERSION, 1009, "The read version lies in the future")                                 \
    X(MOVEKEYS_CONFLICT, 1010, "Two moves of data collided")                                       \
    X(TLOG_STOPPED, 1011, "The transaction log was stopped")                                       \
    X(SERVER_REQUEST_QUEUE_FULL, 1012, "The server has too many requests waiting")                 \
    X(NOT_COMMITTED, 1020, "Not committed: a key this transaction read was changed by another; try again") \
    X(COMMIT_UNKNOWN_RESULT, 1021, "The commit may or may not have happened")                      \
    X(COMMIT_UNKNOWN_RESULT_FATAL, 1022, "Whether the commit happened can no longer be found out: its identity has expired") \
    X(TRANSACTION_CANCELLED, 1025, "The transaction was cancelled")                                \
    X(CONNECTION_FAILED, 1026, "The connection was lost")                                          \
    X(COORDINATORS_CHANGED, 1027, "The coordinators are no longer the same")                       \
    X(NEW_COORDINATORS_TIMED_OUT, 1028, "The new coordinators did not answer in time")             \
    X(WATCH_CANCELLED, 1029, "The server gave up the watch: it holds too many")                    \
    X(REQUEST_MAYBE_DELIVERED, 1030, "The request may or may not have arrived")                    \
    X(TRANSACTION_TIMED_OUT, 1031, "The transaction reached its timeout")                          \
    X(TOO_MANY_WATCHES, 1032, "Too many watches are set on this database")                         \
    X(LOCALITY_INFORMATION_UNAVAILABLE, 1033, "Where the key is stored is not known")              \
    X(WATCHES_DISABLED, 1034, "A watch needs read-your-writes, which this transaction has disabled") \
    X(DEFAULT_ERROR_OR, 1035, "No result and no error was set")                                    \
    X(ACCESSED_UNREADABLE, 1036, "The key holds a versionstamp that is known only after the commit") \
    X(PROCESS_BEHIND, 1037, "The storage is behind the requested version")                         \
    X(DATABASE_LOCKED, 1038, "The database is locked")                                             \
    X(CLUSTER_VERSION_CHANGED, 1039, "The cluster speaks another protocol version than before")    \
    X(EXTERNAL_CLIENT_ALREADY_LOADED, 1040, "That client library is loaded already")               \
    X(LOOKUP_FAILED, 1041, "The host name was not found")                                          \
    X(COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED, 1042, "The commit proxy is out of memory for commits; try again") \
    X(SHUTDOWN_IN_PROGRESS, 1043, "The client is shutting down")                                   \
    X(SERIALIZATION_FAILED, 1044, "A message could not be decoded")                                \
    X(CONNECTION_UNREFERENCED, 1048, "Nobody uses the connection any more")                        \
    X(CONNECTION_IDLE, 1049, "The connection was closed because it was idle")                      \
    X(DISK_ADAPTER_RESET, 1050, "The disk queue was reset")                                        \
    X(BATCH_TRANSACTION_THROTTLED, 1051, "Transactions of batch priority are held back; try again") \
    X(DD_CANCELLED, 1052, "Data distribution was stopped")                                         \
    X(DD_NOT_FOUND, 1053, "There is no data distributor")                                          \
    X(WRONG_CONNECTION_FILE, 1054, "The connection file belongs to another cluster")               \
    X(VERSION_ALREADY_COMPACTED, 1055, "The changes asked for were merged away")                   \
    X(LOCAL_CONFIG_CHANGED, 1056, "The local configuration changed: a restart is needed")          \
    X(FAILED_TO_REACH_QUORUM, 1057, "Too few configuration nodes answered; try again")             \
    X(UNSUPPORTED_FORMAT_VERSION, 1058, "The format's version is not supported")                   \
    X(UNKNOWN_CHANGE_FEED, 1059, "There is no such change feed")                                   \
    X(CHANGE_FEED_NOT_REGISTERED, 1060, "The change feed was not registered")                      \
    X(GRANULE_ASSIGNMENT_CONFLICT, 1061, "Two assignments of a blob granule collided")             \
    X(CHANGE_FEED_CANCELLED, 1062, "The change feed was ended")                                    \
    X(BLOB_GRANULE_FILE_LOAD_ERROR, 1063, "A file of a blob granule could not be loaded")          \
    X(BLOB_GRANULE_TRANSACTION_TOO_OLD, 1064, "Blob granules do not reach back to this read version") \
    X(BLOB_MANAGER_REPLACED, 1065, "Another blob manager took over")                               \
    X(CHANGE_FEED_POPPED, 1066, "The change feed no longer holds that version")                    \
    X(REMOTE_KVS_CANCELLED, 1067, "The remote store was stopped")                                  \
    X(PAGE_HEADER_WRONG_PAGE_ID, 1068, "A page lies where another belongs")                        \
    X(PAGE_HEADER_CHECKSUM_FAILED, 1069, "The checksum of a page's header is wrong")               \
    X(PAGE_HEADER_VERSION_NOT_SUPPORTED, 1070, "The version of a page's header is not supported")  \
    X(PAGE_ENCODING_NOT_SUPPORTED, 1071, "The encoding of a page is not supported")                \
    X(PAGE_DECODING_FAILED, 1072, "A page could not be decoded")                                   \
    X(UNEXPECTED_ENCODING_TYPE, 1073, "A page has another encoding than expected")                 \
    X(ENCRYPTION_KEY_NOT_FOUND, 1074, "There is no such encryption key")                           \
    X(DATA_MOVE_CANCELLED, 1075, "The move of data was stopped")                                   \
    X(DATA_MOVE_DEST_TEAM_NOT_FOUND, 1076, "No team was found to move the data to")                \
    X(BLOB_WORKER_FULL, 1077, "The blob worker takes no more granules")                            \
    X(GRV_PROXY_MEMORY_LIMIT_EXCEEDED, 1078, "The proxy is out of memory for read versions; try again") \
    X(BLOB_GRANULE_REQUEST_FAILED, 1079, "The request for blob granules failed")                   \
    X(STORAGE_TOO_MANY_FEED_STREAMS, 1080, "The storage server has too many feed streams")         \
    X(STORAGE_ENGINE_NOT_INITIALIZED, 1081, "The storage engine never came up")                    \
    X(UNKNOWN_STORAGE_ENGINE, 1082, "That storage engine is not known")                            \
    X(DUPLICATE_SNAPSHOT_REQUEST, 1083, "The snapshot was asked for again; the first request is dropped") \
    X(DD_CONFIG_CHANGED, 1084, "The configuration of data distribution changed")                   \
    X(CONSISTENCY_CHECK_URGENT_TASK_FAILED, 1085, "The urgent consistency check failed")           \
    X(DATA_MOVE_CONFLICT, 1086, "Two moves of data collided on a storage server")                  \
    X(CONSISTENCY_CHECK_URGENT_DUPLICATE_REQUEST, 1087, "The urgent consistency check was asked for twice") \
    X(BROKEN_PROMISE, 1100, "Whoever was to answer went away")                                     \
    X(OPERATION_CANCELLED, 1101, "The operation was cancelled")                                    \
    X(FUTURE_RELEASED, 1102, "The future's result was released")                                   \
    X(CONNECTION_LEAKED, 1103, "A connection was lost track of")                                   \
    X(NEVER_REPLY, 1104, "The request will not be answered")                                       \
    X(RETRY, 1105, "Try again")                                                                    \
    X(RECRUITMENT_FAILED, 1200, "No process could be found for a role")                            \
    X(MOVE_TO_REMOVED_SERVER, 1201, "The target of a move was removed")                            \
    X(WORKER_REMOVED, 1202, "The worker was taken out")                                            \
    X(CLUSTER_RECOVERY_FAILED, 1203, "The cluster did not recover")                                \
    X(MASTER_MAX_VERSIONS_IN_FLIGHT, 1204, "Too many versions are under way")                      \
    X(TLOG_FAILED, 1205, "A transaction log failed: the cluster recovers")                         \
    X(WORKER_RECOVERY_FAILED, 1206, "A worker did not recover")                                    \
    X(PLEASE_REBOOT, 1207, "The process is to start again")                                        \
    X(PLEASE_REBOOT_DELETE, 1208, "The process is to start again without its state")               \
    X(COMMIT_PROXY_FAILED, 1209, "A commit proxy failed: the cluster recovers")                    \
    X(RESOLVER_FAILED, 1210, "A resolver failed: the cluster recovers")                            \
    X(SERVER_OVERLOADED, 1211, "The server has too much to do to answer")                          \
    X(BACKUP_WORKER_FAILED, 1212, "A backup worker failed: the cluster recovers")                  \
    X(TAG_THROTTLED, 1213, "Transactions with this tag are held back; try again")                  \
    X(GRV_PROXY_FAILED, 1214, "A read version proxy failed: the cluster recovers")                 \
    X(DD_TRACKER_CANCELLED, 1215, "The tracker of data distribution was stopped")                  \
    X(FAILED_TO_PROGRESS, 1216, "The process does not get on")                                     \
    X(INVALID_CLUSTER_ID, 1217, "The process belongs to another cluster")                          \
    X(RESTART_CLUSTER_CONTROLLER, 1218, "The cluster controller is to start again")                \
    X(PLEASE_REBOOT_KV_STORE, 1219, "The storage engine is to start again")                        \
    X(INCOMPATIBLE_SOFTWARE_VERSION, 1220, "This release cannot read the database's format")       \
    X(AUDIT_STORAGE_FAILED, 1221, "The audit of the storage failed")                               \
    X(AUDIT_STORAGE_EXCEEDED_REQUEST_LIMIT, 1222, "Too many audits run at the same time")          \
    X(PROXY_TAG_THROTTLED, 1223, "The proxy held this tag back for too long; try again")           \
    X(KEY_VALUE_STORE_DEADLINE_EXCEEDED, 1224, "Reading or writing took longer than allowed")      \
    X(STORAGE_QUOTA_EXCEEDED, 1225, "The tenant has used up its storage")                          \
    X(AUDIT_STORAGE_ERROR, 1226, "The audit found damaged data")                                   \
    X(MASTER_FAILED, 1227, "The master failed: the cluster recovers")                              \
    X(TEST_FAILED, 1228, "The test failed")                                                        \
    X(RETRY_CLEAN_UP_DATAMOVE_TOMBSTONE_ADDED, 1229, "A move of data is still to be cleaned up")   \
    X(PERSIST_NEW_AUDIT_METADATA_ERROR, 1230, "The audit's record could not be stored")            \
    X(CANCEL_AUDIT_STORAGE_FAILED, 1231, "The audit could not be stopped")                         \
    X(AUDIT_STORAGE_CANCELLED, 1232, "The audit was stopped")                                      \
    X(LOCATION_METADATA_CORRUPTION, 1233, "The record of where keys are stored is damaged")        \
    X(AUDIT_STORAGE_TASK_OUTDATED, 1234, "The audit was asked for by a former data distributor")   \
    X(TRANSACTION_THROTTLED_HOT_SHARD, 1235, "The keys written are too busy; try again")           \
    X(STORAGE_REPLICA_COMPARISON_ERROR, 1236, "Two copies of the data differ")                     \
    X(UNREACHABLE_STORAGE_REPLICA, 1237, "A copy of the data cannot be reached")                   \
    X(BULKLOAD_TASK_FAILED, 1238, "The bulk load failed")                                          \
    X(BULKLOAD_TASK_OUTDATED, 1239, "The bulk load was replaced by a newer one")                   \
    X(RANGE_LOCK_FAILED, 1241, "The range could not be locked")                                    \
    X(TRANSACTION_REJECTED_RANGE_LOCKED, 1242, "The transaction writes to a locked range; try again") \
    X(BULKDUMP_TASK_FAILED, 1243, "The bulk dump failed")                                          \
    X(BULKDUMP_TASK_OUTDATED, 1244, "The bulk dump was replaced by a newer one")                   \
    X(BULKLOAD_FILESET_INVALID_FILEPATH, 1245, "The bulk load names a bad file")                   \
    X(BULKLOAD_MANIFEST_DECODE_ERROR, 1246, "The manifest of the bulk load cannot be decoded")     \
    X(RANGE_LOCK_REJECT, 1247, "Locking the range was refused")                                    \
    X(RANGE_UNLOCK_REJECT, 1248, "Unlocking the range was refused")                                \
    X(PLATFORM_ERROR, 1500, "The operating system refused a request")                              \
    X(LARGE_ALLOC_FAILED, 1501, "Out of memory")                                                   \
    X(PERFORMANCE_COUNTER_ERROR, 1502, "The performance counter cannot be read")                   \
    X(BAD_ALLOCATOR, 1503, "Memory was asked for without an allocator")                            \
    X(IO_ERROR, 1510, "A file could not be read or written")                                       \
    X(FILE_NOT_FOUND, 1511, "The file was not found")                                              \
    X(BIND_FAILED, 1512, "The network address could not be taken")                                 \
    X(FILE_NOT_READABLE, 1513, "The file cannot be read")                                          \
    X(FILE_NOT_WRITABLE, 1514, "The file cannot be written")                                       \
    X(NO_CLUSTER_FILE_FOUND, 1515, "No cluster file was found")                                    \
    X(FILE_TOO_LARGE, 1516, "The file is too large")                                               \
    X(NON_SEQUENTIAL_OP, 1517, "The file can be used from front to back only")                     \
    X(HTTP_BAD_RESPONSE, 1518, "The HTTP response makes no sense")                                 \
    X(HTTP_NOT_ACCEPTED, 1519, "The HTTP request was refused")                                     \
    X(CHECKSUM_FAILED, 1520, "A checksum does not match its data")                                 \
    X(IO_TIMEOUT, 1521, "The disk took too long")                                                  \
    X(FILE_CORRUPT, 1522, "A file's structure is damaged")                                         \
    X(HTTP_REQUEST_FAILED, 1523, "The HTTP request failed or was not answered")                    \
    X(HTTP_AUTH_FAILED, 1524, "The HTTP server did not accept the credentials")                    \
    X(HTTP_BAD_REQUEST_ID, 1525, "The HTTP response belongs to another request")                   \
    X(REST_INVALID_URI, 1526, "The REST address is malformed")                                     \
    X(REST_INVALID_REST_CLIENT_KNOB, 1527, "A setting of the REST client is not valid")            \
    X(REST_CONNECTPOOL_KEY_NOT_FOUND, 1528, "The REST client has no connection to that server")    \
    X(LOCK_FILE_FAILURE, 1529, "The file could not be locked")                                     \
    X(REST_UNSUPPORTED_PROTOCOL, 1530, "The REST protocol is not supported")                       \
    X(REST_MALFORMED_RESPONSE, 1531, "The REST response makes no sense")                           \
    X(REST_MAX_BASE_CIPHER_LEN, 1532, "The base cipher sent is too long")                          \
    X(RESOURCE_NOT_FOUND, 1533, "The resource was not found")                                      \
    X(CLIENT_INVALID_OPERATION, 2000, "This call is not valid here")                               \
    X(COMMIT_READ_INCOMPLETE, 2002, "The commit began before all of its reads were finished")      \
    X(TEST_SPECIFICATION_INVALID, 2003, "The test's description is not valid")                     \
    X(KEY_OUTSIDE_LEGAL_RANGE, 2004, "The key lies outside the keys this transaction may use")     \
    X(INVERTED_RANGE, 2005, "The range begins after its end")                                      \
    X(INVALID_OPTION_VALUE, 2006, "The option's value is not valid")                               \
    X(INVALID_OPTION, 2007, "The option is not known or not usable here")                          \
    X(NETWORK_NOT_SETUP, 2008, "The network is not set up: call fdb_setup_network first")          \
    X(NETWORK_ALREADY_SETUP, 2009, "The network is set up already")                                \
    X(READ_VERSION_ALREADY_SET, 2010, "The transaction has a read version already")                \
    X(VERSION_INVALID, 2011, "The version is not valid")                                           \
    X(RANGE_LIMITS_INVALID, 2012, "The limits of the range read are not valid")                    \
    X(INVALID_DATABASE_NAME, 2013, "A database can only be called DB")                             \
    X(ATTRIBUTE_NOT_FOUND, 2014, "There is no such attribute")                                     \
    X(FUTURE_NOT_SET, 2015, "The future is not ready")                                             \
    X(FUTURE_NOT_ERROR, 2016, "The future holds no error")                                         \
    X(USED_DURING_COMMIT, 2017, "The transaction is being committed and cannot be used")           \
    X(INVALID_MUTATION_TYPE, 2018, "The mutation type is not known")                               \
    X(ATTRIBUTE_TOO_LARGE, 2019, "The attribute does not fit into an int")                         \
    X(TRANSACTION_INVALID_VERSION, 2020, "The transaction has no commit version: it was not committed") \
    X(NO_COMMIT_VERSION, 2021, "The transaction wrote nothing and has no commit version")          \
    X(INVALID_OPTION_VALUE_ENVIRONMENT, 2022, "An FDB_NETWORK_OPTION_ environment variable holds a bad value") \
    X(TRANSACTION_READ_ONLY, 2023, "The transaction may only read")                                \
    X(INVALID_CACHE_EVICTION_POLICY, 2024, "The cache evicts by random or lru only")               \
    X(NETWORK_CANNOT_BE_RESTARTED, 2025, "The network has run once and cannot run again")          \
    X(BLOCKED_FROM_NETWORK_THREAD, 2026, "Waiting on the network thread for a future would never end") \
    X(INVALID_CONFIG_DB_RANGE_READ, 2027, "That range of the configuration database cannot be read") \
    X(INVALID_CONFIG_DB_KEY, 2028, "The key of the configuration database is not valid")           \
    X(INVALID_CONFIG_PATH, 2029, "The configuration path is not valid")                            \
    X(MAPPER_BAD_INDEX, 2030, "The mapper's K[] or V[] does not name an element")                  \
    X(MAPPER_NO_SUCH_KEY, 2031, "A key the mapper led to is missing")                              \
    X(MAPPER_BAD_RANGE_DECRIPTOR, 2032, "The mapper's {...} must come last")                       \
    X(QUICK_GET_KEY_VALUES_HAS_MORE, 2033, "A range the mapper led to is too large")               \
    X(QUICK_GET_VALUE_MISS, 2034, "A key the mapper led to lies on another server")                \
    X(QUICK_GET_KEY_VALUES_MISS, 2035, "A range the mapper led to lies on another server")         \
    X(BLOB_GRANULE_NO_RYW, 2036, "Reading blob granules needs read_your_writes_disable")           \
    X(BLOB_GRANULE_NOT_MATERIALIZED, 2037, "The blob granules read were not loaded")               \
    X(GET_MAPPED_KEY_VALUES_HAS_MORE, 2038, "A mapped range read cannot be continued")             \
    X(GET_MAPPED_RANGE_READS_YOUR_WRITES, 2039, "A mapped range read meets keys this transaction has written") \
    X(CHECKPOINT_NOT_FOUND, 2040, "There is no such checkpoint")                                   \
    X(KEY_NOT_TUPLE, 2041, "The key is not a tuple")                                               \
    X(VALUE_NOT_TUPLE, 2042, "The value is not a tuple")                                           \
    X(MAPPER_NOT_TUPLE, 2043, "The mapper is not a tuple")                                         \
    X(INVALID_CHECKPOINT_FORMAT, 2044, "The checkpoint's format is not valid")                     \
    X(INVALID_THROTTLE_QUOTA_VALUE, 2045, "The quota is not valid: no more can be reserved than there is in all") \
    X(FAILED_TO_CREATE_CHECKPOINT, 2046, "The checkpoint could not be made")                       \
    X(FAILED_TO_RESTORE_CHECKPOINT, 2047, "The checkpoint could not be restored")                  \
    X(FAILED_TO_CREATE_CHECKPOINT_SHARD_METADATA, 2048, "The checkpoint's shard record could not be written") \
    X(ADDRESS_PARSE_ERROR, 2049, "The address makes no sense")                                     \
    X(INCOMPATIBLE_PROTOCOL_VERSION, 2100, "The other side speaks another protocol version")       \
    X(TRANSACTION_TOO_LARGE, 2101, "The transaction is larger than its limit of bytes")            \
    X(KEY_TOO_LARGE, 2102, "A key is larger than 10,000 bytes")                                    \
    X(VALUE_TOO_LARGE, 2103, "A value is larger than 100,000 bytes")                               \
    X(CONNECTION_STRING_INVALID, 2104, "The connection string is malformed")                       \
    X(ADDRESS_IN_USE, 2105, "The local address is taken")                                          \
    X(INVALID_LOCAL_ADDRESS, 2106, "The local address is not valid")                               \
    X(TLS_ERROR, 2107, "TLS failed")                                                               \
    X(UNSUPPORTED_OPERATION, 2108, "This database does not support this operation")                \
    X(TOO_MANY_TAGS, 2109, "The transaction has too many tags")                                    \
    X(TAG_TOO_LONG, 2110, "The tag is too long")                                                   \
    X(TOO_MANY_TAG_THROTTLES, 2111, "Too many tags are held back")                                 \
    X(SPECIAL_KEYS_CROSS_MODULE_READ, 2112, "The read of special keys spans several modules; see special_key_space_relaxed") \
    X(SPECIAL_KEYS_NO_MODULE_FOUND, 2113, "The read of special keys meets no module; see special_key_space_relaxed") \
    X(SPECIAL_KEYS_WRITE_DISABLED, 2114, "Special keys cannot be written; see special_key_space_enable_writes") \
    X(SPECIAL_KEYS_NO_WRITE_MODULE_FOUND, 2115, "No module takes writes to this special key")      \
    X(SPECIAL_KEYS_CROSS_MODULE_CLEAR, 2116, "The clear of special keys spans several modules")    \
    X(SPECIAL_KEYS_API_FAILURE, 2117, "A call by special keys failed; \\xff\\xff/error_message says why") \
    X(CLIENT_LIB_INVALID_METADATA, 2118, "The record of the client library is not valid")          \
    X(CLIENT_LIB_ALREADY_EXISTS, 2119, "The cluster has a client library of that name")            \
    X(CLIENT_LIB_NOT_FOUND, 2120, "The cluster has no client library of that name")                \
    X(CLIENT_LIB_NOT_AVAILABLE, 2121, "The client library cannot be downloaded now")               \
    X(CLIENT_LIB_INVALID_BINARY, 2122, "The client library's file is not valid")                   \
    X(NO_EXTERNAL_CLIENT_PROVIDED, 2123, "The local client is disabled and no other library was given") \
    X(ALL_EXTERNAL_CLIENTS_FAILED, 2124, "No external client library could be used")               \
    X(INCOMPATIBLE_CLIENT, 2125, "No client library speaks the cluster's protocol version")        \
    X(TENANT_NAME_REQUIRED, 2130, "This cluster's data belongs to tenants: name one")              \
    X(TENANT_NOT_FOUND, 2131, "There is no such tenant")                                           \
    X(TENANT_ALREADY_EXISTS, 2132, "There is a tenant of that name")                               \
    X(TENANT_NOT_EMPTY, 2133, "The tenant still holds data")                                       \
    X(INVALID_TENANT_NAME, 2134, "A tenant's name must not start with \\xff")                      \
    X(TENANT_PREFIX_ALLOCATOR_CONFLICT, 2135, "The tenant's prefix holds data already")            \
    X(TENANTS_DISABLED, 2136, "This database has no tenants")                                      \
    X(ILLEGAL_TENANT_ACCESS, 2138, "The tenant cannot be used so")                                 \
    X(INVALID_TENANT_GROUP_NAME, 2139, "A tenant group's name must not start with \\xff")          \
    X(INVALID_TENANT_CONFIGURATION, 2140, "The tenant's configuration is not valid")               \
    X(CLUSTER_NO_CAPACITY, 2141, "The cluster has no room for this")                               \
    X(TENANT_REMOVED, 2142, "The tenant is gone")                                                  \
    X(INVALID_TENANT_STATE, 2143, "The tenant's state does not allow this")                        \
    X(TENANT_LOCKED, 2144, "The tenant is locked")                                                 \
    X(INVALID_CLUSTER_NAME, 2160, "A data cluster's name must not start with \\xff")               \
    X(INVALID_METACLUSTER_OPERATION, 2161, "This cluster is not part of a metacluster")            \
    X(CLUSTER_ALREADY_EXISTS, 2162, "There is a data cluster of that name")                        \
    X(CLUSTER_NOT_FOUND, 2163, "There is no such data cluster")                                    \
    X(CLUSTER_NOT_EMPTY, 2164, "The cluster still holds data")                                     \
    X(CLUSTER_ALREADY_REGISTERED, 2165, "The data cluster belongs to a metacluster already")       \
    X(METACLUSTER_NO_CAPACITY, 2166, "The metacluster has no room for tenants")                    \
    X(MANAGEMENT_CLUSTER_INVALID_ACCESS, 2167, "A management cluster takes no ordinary transactions") \
    X(TENANT_CREATION_PERMANENTLY_FAILED, 2168, "The tenant was not made in time and will not be") \
    X(CLUSTER_REMOVED, 2169, "The cluster is leaving the metacluster")                             \
    X(CLUSTER_RESTORING, 2170, "The cluster is on its way back into the metacluster") \
    X(INVALID_DATA_CLUSTER, 2171, "The data cluster knows of no metacluster to be restored to")    \
    X(METACLUSTER_MISMATCH, 2172, "The cluster has another name or another metacluster")           \
    X(CONFLICTING_RESTORE, 2173, "The data cluster is being restored by somebody else")            \
    X(INVALID_METACLUSTER_CONFIGURATION, 2174, "The metacluster's configuration is not valid")     \
    X(UNSUPPORTED_METACLUSTER_VERSION, 2175, "This client is too old or too new for the metacluster") \
    X(API_VERSION_UNSET, 2200, "No API version is selected: call fdb_select_api_version first")    \
    X(API_VERSION_ALREADY_SET, 2201, "The API version can be selected once only")                  \
    X(API_VERSION_INVALID, 2202, "The API version is newer than the header it was compiled with")  \
    X(API_VERSION_NOT_SUPPORTED, 2203, "This library does not support that API version")           \
    X(API_FUNCTION_MISSING, 2204, "A client library lacks a function that is needed")              \
    X(EXACT_MODE_WITHOUT_LIMITS, 2210, "The exact streaming mode needs a row limit or a byte limit") \
    X(INVALID_TUPLE_DATA_TYPE, 2250, "The tuple holds a type that is not known")                   \
    X(INVALID_TUPLE_INDEX, 2251, "The tuple is shorter than that")                                 \
    X(KEY_NOT_IN_SUBSPACE, 2252, "The key lies outside the subspace")                              \
    X(MANUAL_PREFIXES_NOT_ENABLED, 2253, "Prefixes cannot be chosen by hand here")                 \
    X(PREFIX_IN_PARTITION, 2254, "Inside a partition no prefix can be chosen")                     \
    X(CANNOT_OPEN_ROOT_DIRECTORY, 2255, "The root directory cannot be opened")                     \
    X(DIRECTORY_ALREADY_EXISTS, 2256, "The directory exists")                                      \
    X(DIRECTORY_DOES_NOT_EXIST, 2257, "There is no such directory")                                \
    X(PARENT_DIRECTORY_DOES_NOT_EXIST, 2258, "The parent directory does not exist")                \
    X(MISMATCHED_LAYER, 2259, "The directory belongs to another layer")                            \
    X(INVALID_DIRECTORY_LAYER_METADATA, 2260, "The directory layer's own data is not valid")       \
    X(CANNOT_MOVE_DIRECTORY_BETWEEN_PARTITIONS, 2261, "A directory cannot move to another partition") \
    X(CANNOT_USE_PARTITION_AS_SUBSPACE, 2262, "A partition is not a subspace")                     \
    X(INCOMPATIBLE_DIRECTORY_VERSION, 2263, "The directories were made by an incompatible version") \
    X(DIRECTORY_PREFIX_NOT_EMPTY, 2264, "The prefix allotted to the directory holds data already") \
    X(DIRECTORY_PREFIX_IN_USE, 2265, "The prefix collides with another directory's")               \
    X(INVALID_DESTINATION_DIRECTORY, 2266, "The directory cannot be moved there")                  \
    X(CANNOT_MODIFY_ROOT_DIRECTORY, 2267, "The root directory cannot be changed")                  \
    X(INVALID_UUID_SIZE, 2268, "A UUID has sixteen bytes")                                         \
    X(INVALID_VERSIONSTAMP_SIZE, 2269, "A versionstamp has twelve bytes")                          \
    X(BACKUP_ERROR, 2300, "The backup failed")                                                     \
    X(RESTORE_ERROR, 2301, "The restore failed")                                                   \
    X(BACKUP_DUPLICATE, 2311, "The backup was asked for twice")                                    \
    X(BACKUP_UNNEEDED, 2312, "The backup is not needed")                                           \
    X(BACKUP_BAD_BLOCK_SIZE, 2313, "The backup's blocks are too small")                            \
    X(BACKUP_INVALID_URL, 2314, "The backup's address is not valid")                               \
    X(BACKUP_INVALID_INFO, 2315, "The backup's description is not valid")                          \
    X(BACKUP_CANNOT_EXPIRE, 2316, "Dropping that much would leave a backup that cannot be restored") \
    X(BACKUP_AUTH_MISSING, 2317, "No credentials were found for the backup's address")             \
    X(BACKUP_AUTH_UNREADABLE, 2318, "The credentials for the backup's address cannot be read")     \
    X(BACKUP_DOES_NOT_EXIST, 2319, "There is no such backup")                                      \
    X(BACKUP_NOT_FILTERABLE_WITH_KEY_RANGES, 2320, "A backup older than 6.3 cannot be restored in part") \
    X(BACKUP_NOT_OVERLAPPED_WITH_KEYS_FILTER, 2321, "The backup holds none of the ranges asked for") \
    X(BUCKET_NOT_IN_URL, 2322, "The backup's address names no bucket")                             \
    X(BACKUP_PARSE_S3_RESPONSE_FAILURE, 2323, "The answer of S3 makes no sense")                   \
    X(RESTORE_INVALID_VERSION, 2361, "The backup cannot be restored to that version")              \
    X(RESTORE_CORRUPTED_DATA, 2362, "The backup's data is damaged")                                \
    X(RESTORE_MISSING_DATA, 2363, "A part of the backup is missing")                               \
    X(RESTORE_DUPLICATE_TAG, 2364, "The restore was asked for twice")                              \
    X(RESTORE_UNKNOWN_TAG, 2365, "There is no restore with that tag")                              \
    X(RESTORE_UNKNOWN_FILE_TYPE, 2366, "A file of the backup has a type that is not known")        \
    X(RESTORE_UNSUPPORTED_FILE_VERSION, 2367, "A file of the backup has a version that is not supported") \
    X(RESTORE_BAD_READ, 2368, "A file of the backup has another length than expected")             \
    X(RESTORE_CORRUPTED_DATA_PADDING, 2369, "A file of the backup is padded with other bytes than expected") \
    X(RESTORE_DESTINATION_NOT_EMPTY, 2370, "The database to restore into is not empty")            \
    X(RESTORE_DUPLICATE_UID, 2371, "That restore was ended before: choose another identity")       \
    X(TASK_INVALID_VERSION, 2381, "The task's version is not valid")                               \
    X(TASK_INTERRUPTED, 2382, "The task was stopped, took too long or was finished elsewhere")     \
    X(INVALID_ENCRYPTION_KEY_FILE, 2383, "The file holds no valid encryption key")                 \
    X(BLOB_RESTORE_MISSING_LOGS, 2384, "The restore lacks mutation logs")                          \
    X(BLOB_RESTORE_CORRUPTED_LOGS, 2385, "The restore's mutation logs are damaged")                \
    X(BLOB_RESTORE_INVALID_MANIFEST_URL, 2386, "The manifest's address is not valid")              \
    X(BLOB_RESTORE_CORRUPTED_MANIFEST, 2387, "The manifest is damaged")                            \
    X(BLOB_RESTORE_MISSING_MANIFEST, 2388, "The manifest is missing")                              \
    X(BLOB_MIGRATOR_REPLACED, 2389, "Another blob migrator took over")                             \
    X(KEY_NOT_FOUND, 2400, "A key that should be there is missing")                                \
    X(JSON_MALFORMED, 2401, "The JSON text is malformed")                                          \
    X(JSON_EOF_EXPECTED, 2402, "The JSON text goes on after its end")                              \
    X(SNAP_DISABLE_TLOG_POP_FAILED, 2500, "The transaction logs could not be told to keep their data") \
    X(SNAP_STORAGE_FAILED, 2501, "The storage servers' snapshot failed")                           \
    X(SNAP_TLOG_FAILED, 2502, "The transaction logs' snapshot failed")                             \
    X(SNAP_COORD_FAILED, 2503, "The coordinators' snapshot failed")                                \
    X(SNAP_ENABLE_TLOG_POP_FAILED, 2504, "The transaction logs could not be told to go on")        \
    X(SNAP_PATH_NOT_WHITELISTED, 2505, "The snapshot program is not among those allowed")          \
    X(SNAP_NOT_FULLY_RECOVERED_UNSUPPORTED, 2506, "No snapshot while the cluster recovers")        \
    X(SNAP_LOG_ANTI_QUORUM_UNSUPPORTED, 2507, "No snapshot with a log anti quorum")                \
    X(SNAP_WITH_RECOVERY_UNSUPPORTED, 2508, "The cluster recovered during the snapshot")           \
    X(SNAP_INVALID_UID_STRING, 2509, "The snapshot's identity must be 32 hexadecimal digits")      \
    X(ENCRYPT_OPS_ERROR, 2700, "Encrypting or decrypting failed")                                  \
    X(ENCRYPT_HEADER_METADATA_MISMATCH, 2701, "The encryption header does not match")              \
    X(ENCRYPT_KEY_NOT_FOUND, 2702, "The encryption key is missing")                                \
    X(ENCRYPT_KEY_TTL_EXPIRED, 2703, "The encryption key is too old")                              \
    X(ENCRYPT_HEADER_AUTHTOKEN_MISMATCH, 2704, "The encryption header is not authentic")           \
    X(ENCRYPT_UPDATE_CIPHER, 2705, "An encryption key would be replaced")                          \
    X(ENCRYPT_INVALID_ID, 2706, "The encryption key's details are not valid")                      \
    X(ENCRYPT_KEYS_FETCH_FAILED, 2707, "The encryption keys could not be fetched")                 \
    X(ENCRYPT_INVALID_KMS_CONFIG, 2708, "The key service's configuration is not valid")            \
    X(ENCRYPT_UNSUPPORTED, 2709, "Encryption is not supported")                                    \
    X(ENCRYPT_MODE_MISMATCH, 2710, "The data is encrypted in another way than configured")         \
    X(ENCRYPT_KEY_CHECK_VALUE_MISMATCH, 2711, "The encryption key fails its check")                \
    X(ENCRYPT_MAX_BASE_CIPHER_LEN, 2712, "The base cipher is too long")                            \
    X(UNKNOWN_ERROR, 4000, "An error without a name")                                              \
    X(INTERNAL_ERROR, 4100, "An internal error: please report it")                                 \
    X(NOT_IMPLEMENTED, 4200, "This is not implemented")                                            \
    X(PERMISSION_DENIED, 6000, "Access to this data is not allowed")                               \
    X(UNAUTHORIZED_ATTEMPT, 6001, "A client without trust spoke to a private part of a server")    \
    X(DIGITAL_SIGNATURE_OPS_ERROR, 6002, "Signing or checking a signature failed")                 \
    X(AUTHORIZATION_TOKEN_VERIFY_FAILED, 6003, "The authorization token is not genuine")           \
    X(PKEY_DECODE_ERROR, 6004, "A key pair could not be decoded")                                  \
    X(PKEY_ENCODE_ERROR, 6005, "A key pair could not be encoded")                                  \
    X(GRPC_ERROR, 7000, "gRPC failed")                                                             \
    X(DATABASE_IN_USE, 20001, "The database is in use by a process that cannot be joined: it is another user's, or of another version of Keel") \
    X(FORMAT_FOREIGN, 20002, "The directory does not hold a Keel database; it was left untouched") \
    X(FORMAT_NEWER, 20003, "The database was written by a newer Keel; it was left untouched")      \
    X(DATABASE_DAMAGED, 20004, "The database's files are damaged")                                 \
    X(DISK_FULL, 20005, "The disk is full: the transaction was refused and nothing was changed")   \
    X(DATABASE_FAILED, 20006, "Writing to disk failed earlier: close the database and open it again") \
    X(DATABASE_CLOSED, 20007, "The database was closed")                                           \
    X(CLUSTER_LIBRARY_MISSING, 20008, "FoundationDB's client library was not found: install foundationdb-clients or set KEEL_FDB_LIBRARY") \
    X(TOO_MANY_LONG_READS, 20009, "Too many transactions hold a long read on this database")       \
    X(ROW_DAMAGED, 20010, "The database is damaged at this key: what the disk holds is not what was written") \
    X(FORMAT_OLDER, 20011, "The database is in a format that this Keel no longer reads; it was left untouched") \
    X(OPENED_BEFORE_FORK, 20020, "Opened before fork(): the child process has to open the database itself") \
    X(OWNER_SILENT, 20021, "The process that owns the database does not answer: it is stopped or hung, or nobody serves at this address")

#endif
