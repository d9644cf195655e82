/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of transactions and databases: every one of FoundationDB's by number and type, and Keel's
 * own (keel/options.h).
 *
 * One table each. A row gives the number, the kind of value, and what values are allowed; what an
 * option does, if anything, is in the two switches below it. An option that means something only on
 * a cluster (priorities, tags, tracing, replicas) is checked and then forgotten.
 *
 *     kind       value
 *     FLAG       none: absent or empty
 *     ANY        ignored: upstream does not look at it
 *     INTEGER    eight bytes, little-endian, within [lowest, highest]
 *     TEXT       bytes, their number within [lowest, highest]; may be absent if lowest is -1
 *
 * An unknown number is INVALID_OPTION, a bad value INVALID_OPTION_VALUE; a few have errors of their
 * own, as upstream. A bad value, besides being returned, is deferred like a bad write
 * (transaction_set_option), for callers who do not look.
 *
 * A database option that is a default for transactions holds for those created or reset later.
 */
#include <keel/options.h>

#include "txn/state.h"
#include "util/coding.h"

_Static_assert(KEEL_LONG_READS_MAX == DATABASE_PINS_MAX, "the header promises what the database keeps");

enum option_kind { FLAG, ANY, INTEGER, TEXT };

struct option_row {
    int number;
    enum option_kind kind;
    int64_t lowest, highest;
};

enum { WATCHES_MAX_MAX = 1000000, TAGS_MAX = 5, TAG_BYTES_MAX = 16, SIZE_LIMIT_MIN = 32 };

static const struct option_row TRANSACTION_OPTIONS[] = {
    {FDB_TR_OPTION_CAUSAL_WRITE_RISKY, FLAG, 0, 0},
    {FDB_TR_OPTION_CAUSAL_READ_RISKY, FLAG, 0, 0},
    {FDB_TR_OPTION_CAUSAL_READ_DISABLE, ANY, 0, 0},
    {FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS, FLAG, 0, 0},
    {FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, FLAG, 0, 0},
    {FDB_TR_OPTION_COMMIT_ON_FIRST_PROXY, FLAG, 0, 0},
    {FDB_TR_OPTION_CHECK_WRITES_ENABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_READ_AHEAD_DISABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_ENABLE, ANY, 0, 0},
    {FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_DISABLE, ANY, 0, 0},
    {FDB_TR_OPTION_READ_PRIORITY_NORMAL, ANY, 0, 0},
    {FDB_TR_OPTION_READ_PRIORITY_LOW, ANY, 0, 0},
    {FDB_TR_OPTION_READ_PRIORITY_HIGH, ANY, 0, 0},
    {FDB_TR_OPTION_DURABILITY_DATACENTER, ANY, 0, 0},
    {FDB_TR_OPTION_DURABILITY_RISKY, ANY, 0, 0},
    {FDB_TR_OPTION_DURABILITY_DEV_NULL_IS_WEB_SCALE, ANY, 0, 0},
    {FDB_TR_OPTION_PRIORITY_SYSTEM_IMMEDIATE, FLAG, 0, 0},
    {FDB_TR_OPTION_PRIORITY_BATCH, FLAG, 0, 0},
    {FDB_TR_OPTION_INITIALIZE_NEW_DATABASE, FLAG, 0, 0},
    {FDB_TR_OPTION_ACCESS_SYSTEM_KEYS, FLAG, 0, 0},
    {FDB_TR_OPTION_READ_SYSTEM_KEYS, FLAG, 0, 0},
    {FDB_TR_OPTION_RAW_ACCESS, FLAG, 0, 0},
    {FDB_TR_OPTION_BYPASS_STORAGE_QUOTA, ANY, 0, 0},
    {FDB_TR_OPTION_DEBUG_DUMP, FLAG, 0, 0},
    {FDB_TR_OPTION_DEBUG_RETRY_LOGGING, TEXT, -1, INT32_MAX},
    {FDB_TR_OPTION_TRANSACTION_LOGGING_ENABLE, TEXT, 1, 100},
    {FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, TEXT, 1, 100},
    {FDB_TR_OPTION_LOG_TRANSACTION, FLAG, 0, 0},
    {FDB_TR_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH, INTEGER, -1, INT32_MAX},
    {FDB_TR_OPTION_SERVER_REQUEST_TRACING, FLAG, 0, 0},
    {FDB_TR_OPTION_TIMEOUT, INTEGER, 0, INT32_MAX},
    {FDB_TR_OPTION_RETRY_LIMIT, INTEGER, -1, INT32_MAX},
    {FDB_TR_OPTION_MAX_RETRY_DELAY, INTEGER, 0, INT32_MAX},
    {FDB_TR_OPTION_SIZE_LIMIT, INTEGER, SIZE_LIMIT_MIN, TRANSACTION_BYTES_MAX},
    {FDB_TR_OPTION_IDEMPOTENCY_ID, TEXT, 0, INT32_MAX},
    {FDB_TR_OPTION_AUTOMATIC_IDEMPOTENCY, FLAG, 0, 0},
    {FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_LOCK_AWARE, FLAG, 0, 0},
    {FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_READ_LOCK_AWARE, FLAG, 0, 0},
    {FDB_TR_OPTION_FIRST_IN_BATCH, FLAG, 0, 0},
    {FDB_TR_OPTION_USE_PROVISIONAL_PROXIES, FLAG, 0, 0},
    {FDB_TR_OPTION_REPORT_CONFLICTING_KEYS, FLAG, 0, 0},
    {FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED, FLAG, 0, 0},
    {FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES, FLAG, 0, 0},
    {FDB_TR_OPTION_TAG, TEXT, 0, INT32_MAX},
    {FDB_TR_OPTION_AUTO_THROTTLE_TAG, TEXT, 0, INT32_MAX},
    {FDB_TR_OPTION_SPAN_PARENT, TEXT, 33, 33},
    {FDB_TR_OPTION_EXPENSIVE_CLEAR_COST_ESTIMATION_ENABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_BYPASS_UNREADABLE, FLAG, 0, 0},
    {FDB_TR_OPTION_USE_GRV_CACHE, FLAG, 0, 0},
    {FDB_TR_OPTION_SKIP_GRV_CACHE, FLAG, 0, 0},
    {FDB_TR_OPTION_AUTHORIZATION_TOKEN, TEXT, -1, INT32_MAX},
    {FDB_TR_OPTION_ENABLE_REPLICA_CONSISTENCY_CHECK, FLAG, 0, 0},
    {FDB_TR_OPTION_CONSISTENCY_CHECK_REQUIRED_REPLICAS, INTEGER, -2, INT64_MAX},
    {(int)KEEL_TR_OPTION_LONG_READ, FLAG, 0, 0},
};

static const struct option_row DATABASE_OPTIONS[] = {
    {FDB_DB_OPTION_LOCATION_CACHE_SIZE, INTEGER, 0, INT32_MAX},
    {FDB_DB_OPTION_MAX_WATCHES, INTEGER, 0, WATCHES_MAX_MAX},
    {FDB_DB_OPTION_MACHINE_ID, TEXT, -1, INT32_MAX},
    {FDB_DB_OPTION_DATACENTER_ID, TEXT, -1, INT32_MAX},
    {FDB_DB_OPTION_SNAPSHOT_RYW_ENABLE, FLAG, 0, 0},
    {FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH, INTEGER, -1, INT32_MAX},
    {FDB_DB_OPTION_TRANSACTION_TIMEOUT, INTEGER, 0, INT32_MAX},
    {FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, INTEGER, -1, INT32_MAX},
    {FDB_DB_OPTION_TRANSACTION_MAX_RETRY_DELAY, INTEGER, 0, INT32_MAX},
    {FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, INTEGER, SIZE_LIMIT_MIN, TRANSACTION_BYTES_MAX},
    {FDB_DB_OPTION_TRANSACTION_CAUSAL_READ_RISKY, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_INCLUDE_PORT_IN_ADDRESS, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_AUTOMATIC_IDEMPOTENCY, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_BYPASS_UNREADABLE, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_USED_DURING_COMMIT_PROTECTION_DISABLE, FLAG, 0, 0},
    {FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS, FLAG, 0, 0},
    {FDB_DB_OPTION_USE_CONFIG_DATABASE, FLAG, 0, 0},
    {FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY, INTEGER, 0, 100},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

void options_defaults(struct transaction_options *options, int api_version) {
    *options = (struct transaction_options){
        .retry_limit = -1,
        .retry_delay_max_ms = 1000,
        .size_limit_bytes = TRANSACTION_BYTES_MAX,
        .snapshot_ryw = 1,
        .include_port = api_version >= 630,
    };
}

/* --- Checking --- */

/* Looks the option up and checks its value; *number is the value of an INTEGER. */
static fdb_error_t check(const struct option_row *rows, size_t count, int option,
                         const uint8_t *value, int length,
                         int64_t *number) {
    const struct option_row *row = rows;
    while (row < rows + count && row->number != option)
        row++;
    if (row == rows + count)
        return ERROR_INVALID_OPTION;
    if (value && length < 0)
        return ERROR_INVALID_OPTION_VALUE;
    switch (row->kind) {
    case FLAG:
        return value && length > 0 ? ERROR_INVALID_OPTION_VALUE : 0;
    case ANY:
        return 0;
    case INTEGER:
        if (!value || length != 8)
            return ERROR_INVALID_OPTION_VALUE;
        *number = (int64_t)coding_get_u64(value);
        return *number < row->lowest || *number > row->highest ? ERROR_INVALID_OPTION_VALUE : 0;
    case TEXT:
        if (!value)
            return row->lowest < 0 ? 0 : ERROR_INVALID_OPTION_VALUE;
        return length < row->lowest || length > row->highest ? ERROR_INVALID_OPTION_VALUE : 0;
    }
    return ERROR_INVALID_OPTION;
}

/* --- Transactions --- */

/* Options that are nothing but a flag or a number in the transaction. */
static void apply_simple(struct transaction_options *options, int option, int64_t number) {
    switch (option) {
    case FDB_TR_OPTION_CAUSAL_WRITE_RISKY: options->causal_write_risky = true; break;
    case FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS: options->include_port = true; break;
    case FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE:
        options->next_write_no_conflict = true;
        break;
    case FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE: options->ryw_disabled = true; break;
    case FDB_TR_OPTION_ACCESS_SYSTEM_KEYS:
        options->read_system_keys = options->write_system_keys = options->raw_access = true;
        break;
    case FDB_TR_OPTION_READ_SYSTEM_KEYS:
        options->read_system_keys = options->raw_access = true;
        break;
    case FDB_TR_OPTION_RAW_ACCESS: options->raw_access = true; break;
    case FDB_TR_OPTION_TIMEOUT: options->timeout_ms = number; break;
    case FDB_TR_OPTION_RETRY_LIMIT: options->retry_limit = number; break;
    case FDB_TR_OPTION_MAX_RETRY_DELAY: options->retry_delay_max_ms = number; break;
    case FDB_TR_OPTION_SIZE_LIMIT: options->size_limit_bytes = number; break;
    case FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE: options->snapshot_ryw++; break;
    case FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE: options->snapshot_ryw--; break;
    case FDB_TR_OPTION_LOCK_AWARE:
        options->lock_aware = true;
        options->read_only = false;
        break;
    case FDB_TR_OPTION_READ_LOCK_AWARE:
        options->read_only |= !options->lock_aware;
        options->lock_aware = true;
        break;
    case FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE:
        options->commit_protection_disabled = true;
        break;
    case FDB_TR_OPTION_REPORT_CONFLICTING_KEYS: options->report_conflicting_keys = true; break;
    case FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED: options->special_relaxed = true; break;
    case FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES: options->special_writes = true; break;
    case FDB_TR_OPTION_BYPASS_UNREADABLE: options->bypass_unreadable = true; break;
    case (int)KEEL_TR_OPTION_LONG_READ: options->long_read = true; break;
    default: break;
    }
}

/* Rules that a table cannot hold. */
static fdb_error_t check_further(struct transaction *transaction, int option, int length,
                                 int64_t number) {
    struct transaction_options *options = &transaction->options;
    switch (option) {
    case FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE:
        return transaction->used ? ERROR_CLIENT_INVALID_OPERATION : 0;
    case (int)KEEL_TR_OPTION_LONG_READ:
        return transaction->used && !options->long_read ? ERROR_CLIENT_INVALID_OPERATION : 0;
    case FDB_TR_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH:
        return number == 0 ? ERROR_INVALID_OPTION_VALUE : 0;
    case FDB_TR_OPTION_TRANSACTION_LOGGING_ENABLE:
    case FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER:
        options->has_identifier = true;
        return 0;
    case FDB_TR_OPTION_LOG_TRANSACTION:
        return options->has_identifier ? 0 : ERROR_CLIENT_INVALID_OPERATION;
    case FDB_TR_OPTION_IDEMPOTENCY_ID:
        return length < 16 || length > 255 ? ERROR_INVALID_OPTION : 0;
    case FDB_TR_OPTION_TAG:
    case FDB_TR_OPTION_AUTO_THROTTLE_TAG:
        if (length > TAG_BYTES_MAX)
            return ERROR_TAG_TOO_LONG;
        if (options->tag_count >= TAGS_MAX)
            return ERROR_TOO_MANY_TAGS;
        options->tag_count++;
        return 0;
    default:
        return 0;
    }
}

static bool lasts(int option) {
    return option == FDB_TR_OPTION_TIMEOUT || option == FDB_TR_OPTION_RETRY_LIMIT ||
           option == FDB_TR_OPTION_MAX_RETRY_DELAY;
}

fdb_error_t options_set(struct transaction *transaction, int option, const uint8_t *value,
                        int length,
                        struct ended *ended) {
    int64_t number = 0;
    fdb_error_t error = check(TRANSACTION_OPTIONS, COUNT(TRANSACTION_OPTIONS), option, value,
                              length, &number);
    if (!error)
        error = check_further(transaction, option, length, number);
    if (error)
        return error;
    apply_simple(&transaction->options, option, number);
    if (lasts(option))
        apply_simple(&transaction->base, option, number);
    if (option == FDB_TR_OPTION_TIMEOUT)
        timeout_apply(transaction, ended);
    if (option == (int)KEEL_TR_OPTION_LONG_READ && transaction->source == transaction->database)
        transaction->version_checked = false; /* a version obtained before is pinned by the first read */
    return 0;
}

/* --- Databases --- */

/*
 * The transaction option for which a database option is the default; 0 if none that matters here.
 */
static int default_for(int option) {
    switch (option) {
    case FDB_DB_OPTION_TRANSACTION_TIMEOUT: return FDB_TR_OPTION_TIMEOUT;
    case FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT: return FDB_TR_OPTION_RETRY_LIMIT;
    case FDB_DB_OPTION_TRANSACTION_MAX_RETRY_DELAY: return FDB_TR_OPTION_MAX_RETRY_DELAY;
    case FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT: return FDB_TR_OPTION_SIZE_LIMIT;
    case FDB_DB_OPTION_TRANSACTION_INCLUDE_PORT_IN_ADDRESS:
        return FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS;
    case FDB_DB_OPTION_TRANSACTION_BYPASS_UNREADABLE: return FDB_TR_OPTION_BYPASS_UNREADABLE;
    case FDB_DB_OPTION_TRANSACTION_USED_DURING_COMMIT_PROTECTION_DISABLE:
        return FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE;
    case FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS:
        return FDB_TR_OPTION_REPORT_CONFLICTING_KEYS;
    case FDB_DB_OPTION_SNAPSHOT_RYW_ENABLE: return FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE;
    case FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE: return FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE;
    default: return 0;
    }
}

fdb_error_t database_handle_set_option(struct database_handle *handle, int option,
                                       const uint8_t *value, int length) {
    int64_t number = 0;
    fdb_error_t error = check(DATABASE_OPTIONS, COUNT(DATABASE_OPTIONS), option, value, length,
                              &number);
    if (error)
        return error;
    if (option == FDB_DB_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH && number == 0)
        return ERROR_INVALID_OPTION_VALUE;
    if (option == FDB_DB_OPTION_MAX_WATCHES)
        atomic_store(&handle->watches_max, (int)number);
    os_mutex_lock(&handle->lock);
    apply_simple(&handle->defaults, default_for(option), number);
    os_mutex_unlock(&handle->lock);
    return 0;
}
