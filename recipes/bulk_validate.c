/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validating a load: reads all of its rows back and compares their number, bytes and checksum with what was loaded.
 *
 *     look (state, owner, what is expected) ──► pages of rows, PAGES to a transaction ──► judge (state, owner again)
 *
 * The rows of a load that is not preparing do not change (bulk.c, invariant 3), so that transactions of different versions
 * see the same ones; the owner, looked at again at the end, says that it is still the same load. Rows of an active load that
 * a program changes meanwhile are a mismatch sooner or later, and rightly so.
 *
 * Within a transaction the next page is asked for before the current one is summed up. A sum counts as soon as its page was
 * read whole, and the next page begins behind it: a retry goes on from there.
 *
 * Failure: nothing is written but the state, in the last transaction.
 */
#include "bulk_private.h"

#include <string.h>

enum { PAGES = 16, PAGE_BYTES = 1000000 };

struct validating {
    keel_subspace space;
    const char *name;
    struct bulk_record record;
    struct recipe_span rows; /* that are left */
    bool at_end;
    keel_bulk_report report;
    bool matches;
};

static fdb_error_t check_state(keel_bulk_state state) {
    return state == KEEL_BULK_PREPARING || state >= KEEL_BULK_ABANDONED ? KEEL_ERROR_BULK_STATE : 0;
}

/* ---- Before ---- */

static fdb_error_t look(FDBTransaction *tr, void *context) {
    struct validating *validating = context;
    struct bulk_progress progress;
    bool present = false;
    keel_bytes value;
    fdb_error_t error = 0;
    FDBFuture *future = bulk_get(tr, &validating->space, KEEL_TUPLE("progress", validating->name), &error);
    if (error)
        return error;
    error = bulk_record_read(tr, &validating->space, validating->name, &validating->record);
    if (!error)
        error = check_state(validating->record.state);
    if (!error)
        error = recipe_get_finish(future, &present, &value);
    if (!error)
        error = present ? bulk_progress_parse(value, false, &progress) : KEEL_ERROR_STORED_FORMAT;
    fdb_future_destroy(future);
    if (error)
        return error;
    validating->report.expected = (keel_bulk_totals){progress.pairs, (uint64_t)progress.bytes, progress.checksum};
    return bulk_rows_span(&validating->record.rows, &validating->rows);
}

/* ---- The rows ---- */

static FDBFuture *start_page(FDBTransaction *tr, const struct recipe_span *rows) {
    return fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(rows->begin.data, (int)rows->begin.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(rows->end.data, (int)rows->end.length), 0, PAGE_BYTES,
        FDB_STREAMING_MODE_WANT_ALL, 0, 1, 0);
}

static void sum_up(struct validating *validating, const FDBKeyValue *rows, int count) {
    size_t prefix = keel_subspace_prefix(&validating->record.rows).length;
    keel_bulk_totals *found = &validating->report.found;
    for (int i = 0; i < count; i++) {
        keel_bytes key = keel_bytes_of(rows[i].key + prefix, (size_t)rows[i].key_length - prefix);
        keel_bytes value = keel_bytes_of(rows[i].value, (size_t)rows[i].value_length);
        found->pairs++;
        found->bytes += key.length + value.length;
        found->checksum += bulk_hash_value(bulk_hash_key(key), value);
    }
}

/* Takes a page; *future is that of the next, or NULL if there is none or it is for the next transaction. */
static fdb_error_t take_page(FDBTransaction *tr, struct validating *validating, bool more_pages, FDBFuture **future) {
    FDBFuture *page = *future;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more = 0;
    *future = NULL;
    fdb_error_t error = keel_wait(page);
    if (!error)
        error = fdb_future_get_keyvalue_array(page, &rows, &count, &more);
    if (!error && count > 0) {
        const FDBKeyValue *last = &rows[count - 1];
        memcpy(validating->rows.begin.data, last->key, (size_t)last->key_length);
        validating->rows.begin.data[last->key_length] = 0;
        validating->rows.begin.length = (size_t)last->key_length + 1;
    }
    if (!error) {
        validating->at_end = !more;
        if (more && more_pages)
            *future = start_page(tr, &validating->rows);
        sum_up(validating, rows, count);
    }
    fdb_future_destroy(page);
    return error;
}

static fdb_error_t read_pages(FDBTransaction *tr, void *context) {
    struct validating *validating = context;
    FDBFuture *future = start_page(tr, &validating->rows);
    fdb_error_t error = 0;
    for (int i = 1; future && !error; i++)
        error = take_page(tr, validating, i < PAGES, &future);
    return error;
}

/* ---- After ---- */

static fdb_error_t judge(FDBTransaction *tr, void *context) {
    struct validating *validating = context;
    struct bulk_record record;
    fdb_error_t error = bulk_record_read(tr, &validating->space, validating->name, &record);
    if (!error)
        error = memcmp(record.owner, validating->record.owner, BULK_OWNER_BYTES) ? KEEL_ERROR_LEASE_LOST
                                                                                  : check_state(record.state);
    if (error)
        return error;
    validating->matches =
        memcmp(&validating->report.expected, &validating->report.found, sizeof(keel_bulk_totals)) == 0;
    keel_bulk_state from = validating->matches ? KEEL_BULK_READY : KEEL_BULK_VALIDATED;
    if (record.state != from)
        return 0;
    record.state = validating->matches ? KEEL_BULK_VALIDATED : KEEL_BULK_READY;
    record.changed_ms = bulk_now_ms();
    return bulk_record_write(tr, &validating->space, validating->name, &record);
}

KEEL_EXPORT fdb_error_t keel_bulk_validate(FDBDatabase *database, const keel_directory *target, const char *name,
                                           keel_bulk_validating callback, void *context, keel_bulk_report *report) {
    struct validating validating = {.name = name};
    if (!database)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &validating.space);
    if (!error)
        error = keel_run_read(database, look, &validating);
    while (!error && !validating.at_end) {
        error = keel_run_read(database, read_pages, &validating);
        if (!error && callback)
            error = callback(context, &validating.report);
    }
    if (!error)
        error = keel_run(database, judge, &validating);
    if (error)
        return error;
    if (report)
        *report = validating.report;
    return validating.matches ? 0 : KEEL_ERROR_BULK_MISMATCH;
}
