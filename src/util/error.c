/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts and classes of error codes. Both are pure functions of the code over the table in
 * error_table.h, callable from any thread at any time, before an API version is selected too.
 *
 * A retry loop asks three questions about the error of a commit:
 *
 *     maybe committed          the commit may have taken effect: 1021 and 1039
 *     retryable, not committed it surely had none, and trying again can help
 *     retryable                either of these; what fdb_transaction_on_error waits for and tries again
 */
#include "util/error.h"

#include "foundationdb/fdb_c_options.g.h"

const char *error_text(fdb_error_t code) {
    switch (code) {
#define ERROR_CASE(name, number, text)                                                             \
    case number:                                                                                   \
        return text;
        ERROR_TABLE(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "An error code that this library does not know";
    }
}

static int maybe_committed(fdb_error_t code) {
    return code == ERROR_COMMIT_UNKNOWN_RESULT || code == ERROR_CLUSTER_VERSION_CHANGED;
}

static int retryable_not_committed(fdb_error_t code) {
    switch (code) {
    case ERROR_NOT_COMMITTED:
    case ERROR_TRANSACTION_TOO_OLD:
    case ERROR_FUTURE_VERSION:
    case ERROR_DATABASE_LOCKED:
    case ERROR_GRV_PROXY_MEMORY_LIMIT_EXCEEDED:
    case ERROR_COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED:
    case ERROR_TRANSACTION_THROTTLED_HOT_SHARD:
    case ERROR_BATCH_TRANSACTION_THROTTLED:
    case ERROR_PROCESS_BEHIND:
    case ERROR_TAG_THROTTLED:
    case ERROR_PROXY_TAG_THROTTLED:
    case ERROR_TRANSACTION_REJECTED_RANGE_LOCKED:
    case ERROR_OWNER_SILENT:
        return 1;
    default:
        return 0;
    }
}

int error_predicate(int predicate, fdb_error_t code) {
    switch (predicate) {
    case FDB_ERROR_PREDICATE_RETRYABLE:
        return maybe_committed(code) || retryable_not_committed(code);
    case FDB_ERROR_PREDICATE_MAYBE_COMMITTED:
        return maybe_committed(code);
    case FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED:
        return retryable_not_committed(code);
    default:
        return 0;
    }
}
