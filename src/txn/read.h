/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as a transaction sees them: between read.c, which knows selectors, limits and conflicts, and
 * merge.c, which knows rows.
 */
#ifndef KEEL_TXN_READ_H
#define KEEL_TXN_READ_H

#include "txn/state.h"

/* What a row counts beside its key and value against a byte limit, as upstream. */
enum { ROW_COST = 24 };

/* Rows of [begin, end) to be found. */
struct row_request {
    struct key_range range;
    int64_t row_limit;  /* INT64_MAX: none */
    int64_t byte_limit; /* likewise; a row costs its bytes and ROW_COST */
    bool reverse;
    bool merge;         /* see the transaction's own writes */
};

/*
 * Appends rows in order; *more says that a limit was reached. Under the lock, with a read version.
 * Errors: ACCESSED_UNREADABLE where a key in the way holds a versionstamp, and what
 * database_get_range gives.
 */
fdb_error_t merge_rows(struct transaction *transaction, const struct row_request *request,
                       struct rows *rows, bool *more);

#endif
