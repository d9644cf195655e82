/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning a load, or taking over one that stopped, in one transaction.
 *
 * Taking over writes a new owner into the load's record. Every batch of the owner before has read that record for real, so
 * it is committed before (and its progress is seen here, which is read for real too) or never. What is found then:
 *
 *     progress of the load   rows 1 … 500         done
 *     batches behind it      501 … 600            follows without a gap: becomes part of what is done
 *                            701 … 800            kept: 601 … 700 were in flight when it stopped
 *
 * The input goes on with row 601. When it comes to 701 the rows up to 800 are compared with the sum that the batch left and
 * not written again (bulk_load.c). That is why a key that is found in the database is always one of a row with a smaller
 * number, and a resumed load is no different from one that was never interrupted.
 *
 * A load that is ready, validated or active is opened without a change.
 *
 * Failure: the transaction can be tried again: a record that has our owner already, because an earlier try was committed
 * after all, is ours.
 */
#include "bulk_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_BYTES_DEFAULT = 1000000, BATCH_MS_DEFAULT = 1000, IN_FLIGHT_DEFAULT = 4 };

struct taking {
    struct keel_bulk *bulk;
    const keel_directory *target;
    uint8_t owner[BULK_OWNER_BYTES];
    size_t kept_capacity;
};

/* ---- A new load ---- */

static fdb_error_t write_progress(FDBTransaction *tr, const struct keel_bulk *bulk) {
    struct recipe_key key;
    uint8_t value[BULK_PROGRESS_BYTES_MAX];
    size_t length;
    fdb_error_t error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name), &key);
    if (!error)
        error = bulk_progress_pack(&bulk->done, false, value, &length);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(value, length));
    return error;
}

static fdb_error_t create_directory(FDBTransaction *tr, const struct taking *taking, keel_subspace *rows) {
    struct bulk_path path;
    keel_directory *directory = NULL;
    bulk_path_of(taking->bulk->name, &path);
    fdb_error_t error =
        keel_directory_create(tr, taking->target, path.path, keel_bytes_of(NULL, 0), NULL, &directory);
    if (!error)
        error = keel_directory_subspace(directory, rows);
    keel_directory_close(directory);
    return error;
}

static fdb_error_t create(FDBTransaction *tr, struct taking *taking) {
    struct keel_bulk *bulk = taking->bulk;
    struct recipe_key note;
    fdb_error_t error = create_directory(tr, taking, &bulk->record.rows);
    bulk->record.state = KEEL_BULK_PREPARING;
    bulk->record.begun_ms = bulk->record.changed_ms = bulk->done.time_ms = bulk_now_ms();
    memcpy(bulk->record.owner, taking->owner, BULK_OWNER_BYTES);
    if (!error)
        error = bulk_record_write(tr, &bulk->space, bulk->name, &bulk->record);
    if (!error)
        error = write_progress(tr, bulk);
    if (!error)
        error = recipe_pack(&bulk->space, KEEL_TUPLE("note", bulk->name), &note);
    if (!error && bulk->options.note.length)
        recipe_set(tr, &note, bulk->options.note);
    return error;
}

/* ---- One that is there ---- */

static fdb_error_t keep(struct taking *taking, uint64_t first, const struct bulk_progress *batch) {
    struct keel_bulk *bulk = taking->bulk;
    if (bulk->kept_count == taking->kept_capacity) {
        size_t capacity = taking->kept_capacity ? taking->kept_capacity * 2 : 16;
        struct bulk_kept *larger = realloc(bulk->kept, capacity * sizeof *larger);
        if (!larger)
            return BULK_NO_MEMORY;
        bulk->kept = larger;
        taking->kept_capacity = capacity;
    }
    bulk->kept[bulk->kept_count].first = first;
    bulk->kept[bulk->kept_count++].progress = *batch;
    return 0;
}

/* One batch behind what is done. */
static fdb_error_t meet_batch(FDBTransaction *tr, struct taking *taking, keel_bytes key, keel_bytes value) {
    struct keel_bulk *bulk = taking->bulk;
    struct bulk_progress batch;
    uint64_t first, end = bulk->kept_count ? bulk->kept[bulk->kept_count - 1].progress.rows : bulk->done.rows;
    fdb_error_t error = bulk_progress_first(&bulk->space, key, &first);
    if (!error)
        error = bulk_progress_parse(value, true, &batch);
    if (!error && (first < end || batch.rows <= first))
        error = KEEL_ERROR_STORED_FORMAT;
    if (error)
        return error;
    if (first != bulk->done.rows)
        return keep(taking, first, &batch);
    bulk_progress_add(&bulk->done, &batch);
    fdb_transaction_clear(tr, key.data, (int)key.length);
    return 0;
}

static fdb_error_t meet_progress(FDBTransaction *tr, struct taking *taking, struct recipe_scan *scan) {
    keel_bytes key, value;
    bool found = false;
    fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
    if (error || !found)
        return error ? error : KEEL_ERROR_STORED_FORMAT;
    error = bulk_progress_parse(value, false, &taking->bulk->done);
    while (!error) {
        error = recipe_scan_next(scan, &key, &value, &found);
        if (error || !found)
            break;
        error = meet_batch(tr, taking, key, value);
    }
    return error;
}

/* The largest key there is: those behind it need not be looked for. */
static fdb_error_t find_largest(FDBTransaction *tr, struct keel_bulk *bulk) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    size_t prefix = keel_subspace_prefix(&bulk->record.rows).length;
    fdb_error_t error = bulk_rows_span(&bulk->record.rows, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, true, true);
    error = recipe_scan_next(&scan, &key, &value, &bulk->has_largest);
    bulk->largest.length = 0;
    if (!error && bulk->has_largest)
        error = recipe_append_bytes(&bulk->largest, keel_bytes_of(key.data + prefix, key.length - prefix));
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t take_over(FDBTransaction *tr, struct taking *taking, struct recipe_scan *progress) {
    struct keel_bulk *bulk = taking->bulk;
    bool ours = memcmp(bulk->record.owner, taking->owner, BULK_OWNER_BYTES) == 0;
    if (bulk->options.start == KEEL_BULK_BEGIN && !ours)
        return KEEL_ERROR_BULK_EXISTS;
    if (bulk->record.state >= KEEL_BULK_REPLACED)
        return KEEL_ERROR_BULK_STATE;
    bulk->finished = bulk->record.state != KEEL_BULK_PREPARING;
    fdb_error_t error = meet_progress(tr, taking, progress);
    if (error || bulk->finished)
        return error;
    memcpy(bulk->record.owner, taking->owner, BULK_OWNER_BYTES);
    bulk->record.changed_ms = bulk_now_ms();
    error = bulk_record_write(tr, &bulk->space, bulk->name, &bulk->record);
    if (!error)
        error = write_progress(tr, bulk);
    return error ? error : find_largest(tr, bulk);
}

static fdb_error_t take(FDBTransaction *tr, void *context) {
    struct taking *taking = context;
    struct keel_bulk *bulk = taking->bulk;
    struct recipe_key key;
    struct recipe_span span;
    struct recipe_scan progress;
    fdb_error_t error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name), &key);
    FDBFuture *record = bulk_get(tr, &bulk->space, KEEL_TUPLE("load", bulk->name), &error);
    if (error)
        return error;
    bulk->kept_count = 0;
    bulk->has_largest = false;
    memset(&bulk->done, 0, sizeof bulk->done);
    recipe_span_with(&key, &span);
    recipe_scan_open(&progress, tr, &span, 0, false, false);
    error = bulk_record_finish(record, &bulk->record);
    if (!error)
        error = take_over(tr, taking, &progress);
    else if (error == KEEL_ERROR_NOT_FOUND && bulk->options.start != KEEL_BULK_RESUME)
        error = create(tr, taking);
    recipe_scan_close(&progress);
    fdb_future_destroy(record);
    return error;
}

/* ---- The object ---- */

static fdb_error_t check_options(keel_bulk_options *options) {
    if (!options->batch_bytes)
        options->batch_bytes = BATCH_BYTES_DEFAULT;
    if (!options->batch_ms)
        options->batch_ms = BATCH_MS_DEFAULT;
    if (!options->in_flight)
        options->in_flight = IN_FLIGHT_DEFAULT;
    if (options->batch_bytes > KEEL_BULK_BATCH_BYTES_MAX || options->batch_ms < 0 || options->in_flight < 0 ||
        options->in_flight > KEEL_BULK_IN_FLIGHT_MAX || options->note.length > KEEL_BULK_NOTE_MAX ||
        (!options->note.data && options->note.length) || (int)options->start < KEEL_BULK_BEGIN_OR_RESUME ||
        options->start > KEEL_BULK_RESUME || (int)options->duplicates < KEEL_BULK_REFUSE ||
        options->duplicates > KEEL_BULK_UNCHECKED)
        return KEEL_ERROR_ARGUMENT;
    return 0;
}

/* A name that nobody has, in the order of time. */
static void draw_name(char name[KEEL_BULK_NAME_MAX + 1]) {
    struct timespec now;
    struct tm parts;
    uint8_t chance[8];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(name, KEEL_BULK_NAME_MAX, "%Y%m%dT%H%M%SZ-", &parts);
    recipe_random(chance, sizeof chance);
    for (size_t i = 0; i < sizeof chance; i++)
        length += (size_t)snprintf(name + length, KEEL_BULK_NAME_MAX - length, "%02x", chance[i]);
}

KEEL_EXPORT fdb_error_t keel_bulk_begin(FDBDatabase *database, const keel_directory *target, const char *name,
                                        const keel_bulk_options *options, keel_bulk **bulk) {
    static const keel_bulk_options defaults;
    struct taking taking = {.target = target};
    if (!database || !bulk)
        return KEEL_ERROR_ARGUMENT;
    keel_bulk *made = calloc(1, sizeof *made);
    if (!made)
        return BULK_NO_MEMORY;
    taking.bulk = made;
    made->database = database;
    made->options = options ? *options : defaults;
    recipe_random(taking.owner, sizeof taking.owner);
    fdb_error_t error = check_options(&made->options);
    if (!error && name)
        error = bulk_check_name(name);
    if (!error && name)
        memcpy(made->name, name, strlen(name) + 1);
    else if (!error)
        draw_name(made->name);
    if (!error)
        error = bulk_space(target, &made->space);
    if (!error)
        error = keel_run(database, take, &taking);
    if (!error && !made->finished && !made->has_largest && made->options.duplicates != KEEL_BULK_UNCHECKED)
        error = bulk_filter_make(&made->filter); /* it has all keys: there are none yet */
    if (error) {
        keel_bulk_close(made);
        return error;
    }
    made->options.note = keel_bytes_of(NULL, 0); /* the caller's memory */
    made->rows_added = made->done_stored_rows = made->done.rows;
    *bulk = made;
    return 0;
}
