/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_c_options.g.h: the numbers of the fdb_c API, included by fdb_c.h.
 *
 * The names and numbers are those of FoundationDB 7.4 and never change. Above each name stands the
 * parameter an option takes: nothing, (int) eight bytes little-endian, (string) or (bytes). A
 * parameter of the wrong shape or out of range is error 2006, an unknown number 2007.
 */
#ifndef FDB_C_OPTIONS_G_H
#define FDB_C_OPTIONS_G_H

/* Options of fdb_network_set_option; most must be set before fdb_setup_network. */
typedef enum {
    /* (string) Obsolete, ignored. */
    FDB_NET_OPTION_LOCAL_ADDRESS = 10,
    /* (string) Obsolete, ignored; pass the path to fdb_create_database. */
    FDB_NET_OPTION_CLUSTER_FILE = 20,
    /* (string) Directory for trace files; NULL or empty is the working directory. */
    FDB_NET_OPTION_TRACE_ENABLE = 30,
    /* (int) Size at which one trace file is rolled, 0 for never. */
    FDB_NET_OPTION_TRACE_ROLL_SIZE = 31,
    /* (int) Size of all trace files together, 0 for no bound. */
    FDB_NET_OPTION_TRACE_MAX_LOGS_SIZE = 32,
    /* (string) Value of the LogGroup field in every trace event. */
    FDB_NET_OPTION_TRACE_LOG_GROUP = 33,
    /* (string) "xml" or "json"; anything else is 2006. */
    FDB_NET_OPTION_TRACE_FORMAT = 34,
    /* (string) "now" or "realtime"; anything else is 2006. */
    FDB_NET_OPTION_TRACE_CLOCK_SOURCE = 35,
    /* (string) Word that stands for the process in trace file names. */
    FDB_NET_OPTION_TRACE_FILE_IDENTIFIER = 36,
    /* One base name for the trace files of all client threads. */
    FDB_NET_OPTION_TRACE_SHARE_AMONG_CLIENT_THREADS = 37,
    /* Open trace files in fdb_setup_network rather than with the first database. */
    FDB_NET_OPTION_TRACE_INITIALIZE_ON_SETUP = 38,
    /* (string) Suffix a trace file carries until it is complete. */
    FDB_NET_OPTION_TRACE_PARTIAL_FILE_SUFFIX = 39,
    /* (string) An internal setting, written name=value. */
    FDB_NET_OPTION_KNOB = 40,
    /* (string) Obsolete, ignored. */
    FDB_NET_OPTION_TLS_PLUGIN = 41,
    /* (bytes) Certificate chain. */
    FDB_NET_OPTION_TLS_CERT_BYTES = 42,
    /* (string) File with the certificate chain. */
    FDB_NET_OPTION_TLS_CERT_PATH = 43,
    /* (bytes) Private key. */
    FDB_NET_OPTION_TLS_KEY_BYTES = 45,
    /* (string) File with the private key. */
    FDB_NET_OPTION_TLS_KEY_PATH = 46,
    /* (bytes) Rule for checking the peer's certificate. */
    FDB_NET_OPTION_TLS_VERIFY_PEERS = 47,
    /* Fault injection inside the official client; no effect here. */
    FDB_NET_OPTION_BUGGIFY_ENABLE = 48,
    /* Ends fault injection. */
    FDB_NET_OPTION_BUGGIFY_DISABLE = 49,
    /* (int) Percentage, 0 to 100. */
    FDB_NET_OPTION_BUGGIFY_SECTION_ACTIVATED_PROBABILITY = 50,
    /* (int) Percentage, 0 to 100. */
    FDB_NET_OPTION_BUGGIFY_SECTION_FIRED_PROBABILITY = 51,
    /* (bytes) Bundle of certificate authorities. */
    FDB_NET_OPTION_TLS_CA_BYTES = 52,
    /* (string) File with the bundle of certificate authorities. */
    FDB_NET_OPTION_TLS_CA_PATH = 53,
    /* (string) Passphrase of the private key, given before the key. */
    FDB_NET_OPTION_TLS_PASSWORD = 54,
    /* Refuse connections without TLS. */
    FDB_NET_OPTION_TLS_DISABLE_PLAINTEXT_CONNECTION = 55,
    /* Use the local client only. Before fdb_setup_network. */
    FDB_NET_OPTION_DISABLE_MULTI_VERSION_CLIENT_API = 60,
    /* Callbacks may run on threads of an external client. Before fdb_setup_network. */
    FDB_NET_OPTION_CALLBACKS_ON_EXTERNAL_THREADS = 61,
    /* (string) Path of a further client library. Before fdb_setup_network. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_LIBRARY = 62,
    /* (string) Directory of further client libraries. Before fdb_setup_network. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_DIRECTORY = 63,
    /* Connect through external client libraries only. */
    FDB_NET_OPTION_DISABLE_LOCAL_CLIENT = 64,
    /* (int) Number of client threads for each library version. */
    FDB_NET_OPTION_CLIENT_THREADS_PER_VERSION = 65,
    /* (string) Client library that speaks a coming protocol; for tests. */
    FDB_NET_OPTION_FUTURE_VERSION_CLIENT_LIBRARY = 66,
    /* Keep temporary copies of external client libraries. */
    FDB_NET_OPTION_RETAIN_CLIENT_LIBRARY_COPIES = 67,
    /* Go on when an external client cannot be initialized. */
    FDB_NET_OPTION_IGNORE_EXTERNAL_CLIENT_FAILURES = 68,
    /* Return an error when no client matches the server's version. */
    FDB_NET_OPTION_FAIL_INCOMPATIBLE_CLIENT = 69,
    /* No sampled statistics in the trace files. */
    FDB_NET_OPTION_DISABLE_CLIENT_STATISTICS_LOGGING = 70,
    /* Former name of enable_run_loop_profiling. */
    FDB_NET_OPTION_ENABLE_SLOW_TASK_PROFILING = 71,
    /* Profile the network thread into the trace files. */
    FDB_NET_OPTION_ENABLE_RUN_LOOP_PROFILING = 71,
    /* Keep the multi-version layer even without external clients. */
    FDB_NET_OPTION_DISABLE_CLIENT_BYPASS = 72,
    /* Make requests fail at random; for testing retry loops. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_ENABLE = 80,
    /* Ends random failures. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_DISABLE = 81,
    /* (int) Percentage, 0 to 100. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_SECTION_ACTIVATED_PROBABILITY = 82,
    /* (int) Percentage, 0 to 100. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY = 83,
    /* (string) "none", "log_file" or "network_lossy". */
    FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER = 90,
    /* (string) Directory for temporary files. */
    FDB_NET_OPTION_CLIENT_TMP_DIR = 91,
    /* (string) Internal. */
    FDB_NET_OPTION_SUPPORTED_CLIENT_VERSIONS = 1000,
    /* Internal. */
    FDB_NET_OPTION_EXTERNAL_CLIENT = 1001,
    /* (int) Internal. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_TRANSPORT_ID = 1002
} FDBNetworkOption;

/* Options of fdb_database_set_option. Those named transaction_* are defaults for transactions
 * created, reset or retried afterwards. */
typedef enum {
    /* (int) Entries of the key location cache; nothing to cache here. */
    FDB_DB_OPTION_LOCATION_CACHE_SIZE = 10,
    /* (int) Outstanding watches allowed, 0 to 1,000,000, at first 10,000; one more is 1032. */
    FDB_DB_OPTION_MAX_WATCHES = 20,
    /* (string) Machine this client runs on. */
    FDB_DB_OPTION_MACHINE_ID = 21,
    /* (string) Datacenter this client runs in. */
    FDB_DB_OPTION_DATACENTER_ID = 22,
    /* Snapshot reads of new transactions see their own writes (the default). */
    FDB_DB_OPTION_SNAPSHOT_RYW_ENABLE = 26,
    /* Snapshot reads of new transactions do not see their own writes. */
    FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE = 27,
    /* (int) Default of the transaction option of that name. */
    FDB_DB_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH = 405,
    /* (int) Default timeout of transactions, API 610 and later. */
    FDB_DB_OPTION_TRANSACTION_TIMEOUT = 500,
    /* (int) Default retry limit of transactions. */
    FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT = 501,
    /* (int) Default largest backoff of transactions. */
    FDB_DB_OPTION_TRANSACTION_MAX_RETRY_DELAY = 502,
    /* (int) Default size limit of transactions. */
    FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT = 503,
    /* Default of the transaction option causal_read_risky. */
    FDB_DB_OPTION_TRANSACTION_CAUSAL_READ_RISKY = 504,
    /* Default of include_port_in_address. */
    FDB_DB_OPTION_TRANSACTION_INCLUDE_PORT_IN_ADDRESS = 505,
    /* Default of automatic_idempotency. */
    FDB_DB_OPTION_TRANSACTION_AUTOMATIC_IDEMPOTENCY = 506,
    /* Default of bypass_unreadable. */
    FDB_DB_OPTION_TRANSACTION_BYPASS_UNREADABLE = 700,
    /* Default of used_during_commit_protection_disable. */
    FDB_DB_OPTION_TRANSACTION_USED_DURING_COMMIT_PROTECTION_DISABLE = 701,
    /* Default of report_conflicting_keys. */
    FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS = 702,
    /* Talk to the configuration database. */
    FDB_DB_OPTION_USE_CONFIG_DATABASE = 800,
    /* (int) Percentage, 0 to 100; internal test. */
    FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY = 900
} FDBDatabaseOption;

/* Options of fdb_transaction_set_option. */
typedef enum {
    /* Skip the safeguard against committing twice after a fault. */
    FDB_TR_OPTION_CAUSAL_WRITE_RISKY = 10,
    /* Allow a read version that a fault may have made slightly old. */
    FDB_TR_OPTION_CAUSAL_READ_RISKY = 20,
    /* Do not wait for causal consistency of the read version. */
    FDB_TR_OPTION_CAUSAL_READ_DISABLE = 21,
    /* Addresses carry the port; always so from API 630. */
    FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS = 23,
    /* The next write, and only that, adds no write conflict range. */
    FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE = 30,
    /* Internal. */
    FDB_TR_OPTION_COMMIT_ON_FIRST_PROXY = 40,
    /* Internal. */
    FDB_TR_OPTION_CHECK_WRITES_ENABLE = 50,
    /* Reads do not see this transaction's writes; 2000 after the first read or write. */
    FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE = 51,
    /* Obsolete, ignored. */
    FDB_TR_OPTION_READ_AHEAD_DISABLE = 52,
    /* Reads may fill the block cache (the default). */
    FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_ENABLE = 507,
    /* Reads should not fill the block cache. */
    FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_DISABLE = 508,
    /* Normal read priority (the default). */
    FDB_TR_OPTION_READ_PRIORITY_NORMAL = 509,
    /* Low read priority. */
    FDB_TR_OPTION_READ_PRIORITY_LOW = 510,
    /* High read priority. */
    FDB_TR_OPTION_READ_PRIORITY_HIGH = 511,
    /* No effect. */
    FDB_TR_OPTION_DURABILITY_DATACENTER = 110,
    /* No effect. */
    FDB_TR_OPTION_DURABILITY_RISKY = 120,
    /* Obsolete, ignored. */
    FDB_TR_OPTION_DURABILITY_DEV_NULL_IS_WEB_SCALE = 130,
    /* Highest priority; for tools. */
    FDB_TR_OPTION_PRIORITY_SYSTEM_IMMEDIATE = 200,
    /* Lowest priority; for bulk work. */
    FDB_TR_OPTION_PRIORITY_BATCH = 201,
    /* For tools that configure a database. */
    FDB_TR_OPTION_INITIALIZE_NEW_DATABASE = 300,
    /* Reads and writes may touch keys that begin with 0xFF. */
    FDB_TR_OPTION_ACCESS_SYSTEM_KEYS = 301,
    /* Reads may touch keys that begin with 0xFF. */
    FDB_TR_OPTION_READ_SYSTEM_KEYS = 302,
    /* Use the whole key space although tenants are on. */
    FDB_TR_OPTION_RAW_ACCESS = 303,
    /* Ignore storage quotas. */
    FDB_TR_OPTION_BYPASS_STORAGE_QUOTA = 304,
    /* Internal. */
    FDB_TR_OPTION_DEBUG_DUMP = 400,
    /* (string) Log retries under the given name. */
    FDB_TR_OPTION_DEBUG_RETRY_LOGGING = 401,
    /* (string) Former pair of 403 and 404. */
    FDB_TR_OPTION_TRANSACTION_LOGGING_ENABLE = 402,
    /* (string) Name of this transaction in logs, at most 100 bytes. */
    FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER = 403,
    /* Log this transaction; needs the identifier first. */
    FDB_TR_OPTION_LOG_TRANSACTION = 404,
    /* (int) Longest key or value in the log, -1 for whole. */
    FDB_TR_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH = 405,
    /* Trace this transaction through the servers. */
    FDB_TR_OPTION_SERVER_REQUEST_TRACING = 406,
    /* (int) Milliseconds until everything on this transaction fails with 1031; 0 for never.
       Kept by on_error from API 610. */
    FDB_TR_OPTION_TIMEOUT = 500,
    /* (int) Times on_error may retry; -1 for no limit. Kept by on_error from API 610. */
    FDB_TR_OPTION_RETRY_LIMIT = 501,
    /* (int) Longest backoff in milliseconds, at first 1000. Kept by on_error from API 610. */
    FDB_TR_OPTION_MAX_RETRY_DELAY = 502,
    /* (int) Largest commit in bytes, 32 to 10,000,000; beyond it is 2101. */
    FDB_TR_OPTION_SIZE_LIMIT = 503,
    /* (string) Identity of this commit, 16 to 255 bytes. */
    FDB_TR_OPTION_IDEMPOTENCY_ID = 504,
    /* Give this commit a random identity. */
    FDB_TR_OPTION_AUTOMATIC_IDEMPOTENCY = 505,
    /* Snapshot reads see this transaction's writes; undoes one disable. */
    FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE = 600,
    /* Snapshot reads do not see this transaction's writes; counts up. */
    FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE = 601,
    /* Work on a locked database. */
    FDB_TR_OPTION_LOCK_AWARE = 700,
    /* A call during a commit fails alone and leaves the commit be. */
    FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE = 701,
    /* Read a locked database. */
    FDB_TR_OPTION_READ_LOCK_AWARE = 702,
    /* Internal. */
    FDB_TR_OPTION_FIRST_IN_BATCH = 710,
    /* For tools that configure a database. */
    FDB_TR_OPTION_USE_PROVISIONAL_PROXIES = 711,
    /* After 1020, the ranges that conflicted can be read under
       \xff\xff/transaction/conflicting_keys/. */
    FDB_TR_OPTION_REPORT_CONFLICTING_KEYS = 712,
    /* A special key read may span any number of modules. */
    FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED = 713,
    /* Special keys may be written. */
    FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES = 714,
    /* (string) Throttling tag, at most 16 bytes, at most 5 of them. */
    FDB_TR_OPTION_TAG = 800,
    /* (string) Tag for automatic throttling as well. */
    FDB_TR_OPTION_AUTO_THROTTLE_TAG = 801,
    /* (bytes) Parent span, 33 bytes. */
    FDB_TR_OPTION_SPAN_PARENT = 900,
    /* Ask for the exact cost of range clears. */
    FDB_TR_OPTION_EXPENSIVE_CLEAR_COST_ESTIMATION_ENABLE = 1000,
    /* Reads of versionstamped writes see the unfilled bytes instead of 1036. */
    FDB_TR_OPTION_BYPASS_UNREADABLE = 1100,
    /* A cached read version will do. */
    FDB_TR_OPTION_USE_GRV_CACHE = 1101,
    /* Internal. */
    FDB_TR_OPTION_SKIP_GRV_CACHE = 1102,
    /* (string) JSON web token; kept by reset. */
    FDB_TR_OPTION_AUTHORIZATION_TOKEN = 2000,
    /* Compare the answers of replicas. */
    FDB_TR_OPTION_ENABLE_REPLICA_CONSISTENCY_CHECK = 4000,
    /* (int) Number of replicas to compare. */
    FDB_TR_OPTION_CONSISTENCY_CHECK_REQUIRED_REPLICAS = 4001
} FDBTransactionOption;

/* How much of a range one fdb_transaction_get_range returns. */
typedef enum {
    /* The whole range is wanted: largest batches. */
    FDB_STREAMING_MODE_WANT_ALL = -2,
    /* Batches that grow with the iteration number (the usual choice). */
    FDB_STREAMING_MODE_ITERATOR = -1,
    /* Exactly the given limits in one batch; 2210 without any. */
    FDB_STREAMING_MODE_EXACT = 0,
    /* About 256 bytes a batch. */
    FDB_STREAMING_MODE_SMALL = 1,
    /* About 1,000 bytes a batch. */
    FDB_STREAMING_MODE_MEDIUM = 2,
    /* About 4,096 bytes a batch. */
    FDB_STREAMING_MODE_LARGE = 3,
    /* About 80,000 bytes a batch. */
    FDB_STREAMING_MODE_SERIAL = 4
} FDBStreamingMode;

/* Operations of fdb_transaction_atomic_op. */
typedef enum {
    /* Little-endian sum in the operand's length; a missing value counts as zero. */
    FDB_MUTATION_TYPE_ADD = 2,
    /* Former name of bit_and. */
    FDB_MUTATION_TYPE_AND = 6,
    /* Bitwise and; a missing value takes the operand (API 510 and later). */
    FDB_MUTATION_TYPE_BIT_AND = 6,
    /* Former name of bit_or. */
    FDB_MUTATION_TYPE_OR = 7,
    /* Bitwise or in the operand's length; a missing value counts as zero. */
    FDB_MUTATION_TYPE_BIT_OR = 7,
    /* Former name of bit_xor. */
    FDB_MUTATION_TYPE_XOR = 8,
    /* Bitwise exclusive or in the operand's length; a missing value counts as zero. */
    FDB_MUTATION_TYPE_BIT_XOR = 8,
    /* Appends the operand unless the value would pass 100,000 bytes, then nothing. */
    FDB_MUTATION_TYPE_APPEND_IF_FITS = 9,
    /* Larger of two little-endian unsigned numbers in the operand's length. */
    FDB_MUTATION_TYPE_MAX = 12,
    /* Smaller of two little-endian unsigned numbers; a missing value takes the operand (API 510
       and later). */
    FDB_MUTATION_TYPE_MIN = 13,
    /* Sets the key with ten bytes at the offset in its last four bytes replaced by the
       versionstamp. */
    FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY = 14,
    /* Sets the operand with ten bytes at the offset in its last four bytes replaced by the
       versionstamp. */
    FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE = 15,
    /* Lexicographically smaller value; a missing value takes the operand. */
    FDB_MUTATION_TYPE_BYTE_MIN = 16,
    /* Lexicographically larger value; a missing value takes the operand. */
    FDB_MUTATION_TYPE_BYTE_MAX = 17,
    /* Clears the key if its value equals the operand. */
    FDB_MUTATION_TYPE_COMPARE_AND_CLEAR = 20
} FDBMutationType;

/* Kinds of fdb_transaction_add_conflict_range. */
typedef enum {
    /* Range counts as read. */
    FDB_CONFLICT_RANGE_TYPE_READ = 0,
    /* Range counts as written. */
    FDB_CONFLICT_RANGE_TYPE_WRITE = 1
} FDBConflictRangeType;

/* Questions of fdb_error_predicate. */
typedef enum {
    /* fdb_transaction_on_error will retry this error. */
    FDB_ERROR_PREDICATE_RETRYABLE = 50000,
    /* The commit may have taken effect. */
    FDB_ERROR_PREDICATE_MAYBE_COMMITTED = 50001,
    /* Retryable, and the commit surely had no effect. */
    FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED = 50002
} FDBErrorPredicate;

#endif
