/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk work, the part inside the caller's transaction: what is stored about loads, listing, flipping, abandoning.
 *
 * Representation: keel/bulk.h. Of the keys
 *
 *     ("active")           changes with a flip, and is all that readers look at
 *     ("load", name)       changes with the state or the owner, never with progress: every batch reads it for real, so that
 *                          whoever changes it stops the batches that are in flight, and they do not stop each other
 *     ("progress", …)      changes with each batch
 *
 * Invariants:
 * 1. ("active") names a load whose state is active, and there is no other in that state.
 * 2. A load is replaced, abandoned or removing exactly while ("cleanup", changed, name) is there, with its time of change.
 * 3. The rows of a load change only while it is preparing (by its owner) or removing.
 * 4. ("progress", name, first) begins at or behind the rows of ("progress", name); no two of a load overlap.
 *
 * The path through the states that these functions make; keel/bulk.h has the whole:
 *
 *     validated, replaced ── keel_bulk_activate ──► active ── keel_bulk_activate of another ──► replaced
 *     preparing, ready, validated ── keel_bulk_abandon ──► abandoned
 *
 * Threads: any. Failure: everything is read and checked before the first write.
 */
#include "bulk_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORD_BYTES_MAX = 2 * KEEL_SUBSPACE_PREFIX_MAX + 128 };

static const char *const STATE_NAMES[] = {"unknown", "preparing", "ready",     "validated",
                                          "active",  "replaced",  "abandoned", "removing"};

KEEL_EXPORT const char *keel_bulk_state_name(keel_bulk_state state) {
    return STATE_NAMES[state >= KEEL_BULK_PREPARING && state <= KEEL_BULK_REMOVING ? state : 0];
}

int64_t bulk_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

fdb_error_t bulk_check_name(const char *name) {
    if (!name)
        return KEEL_ERROR_ARGUMENT;
    if (!*name)
        return KEEL_ERROR_EMPTY_NAME;
    if (strlen(name) > KEEL_BULK_NAME_MAX)
        return KEEL_ERROR_ARGUMENT;
    keel_element element = keel_element_of_string(name);
    return keel_element_is_utf8(&element) ? 0 : KEEL_ERROR_NOT_UTF8;
}

fdb_error_t bulk_space(const keel_directory *target, keel_subspace *space) {
    return target ? keel_directory_subspace(target, space) : KEEL_ERROR_ARGUMENT;
}

void bulk_path_of(const char *name, struct bulk_path *path) {
    path->names[0] = keel_bytes_of_string("load");
    path->names[1] = keel_bytes_of_string(name);
    path->path.names = path->names;
    path->path.count = 2;
}

fdb_error_t bulk_rows_span(const keel_subspace *rows, struct recipe_span *span) {
    keel_bytes prefix = keel_subspace_prefix(rows);
    size_t length = prefix.length;
    memcpy(span->begin.data, prefix.data, length);
    span->begin.length = length;
    while (length > 0 && prefix.data[length - 1] == 0xff)
        length--;
    if (length == 0)
        return KEEL_ERROR_STORED_FORMAT;
    memcpy(span->end.data, prefix.data, length);
    span->end.data[length - 1]++;
    span->end.length = length;
    return 0;
}

/* ---- Records ---- */

FDBFuture *bulk_get(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple, fdb_error_t *error) {
    struct recipe_key key;
    if (!*error)
        *error = recipe_pack(space, tuple, &key);
    return *error ? NULL : recipe_get_start(tr, &key, false);
}

static fdb_error_t set_tuple(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple, keel_tuple value_tuple) {
    struct recipe_key key;
    uint8_t value[RECORD_BYTES_MAX];
    size_t length;
    fdb_error_t error = recipe_pack(space, tuple, &key);
    if (!error)
        error = keel_tuple_pack(value_tuple, value, sizeof value, &length);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(value, length));
    return error;
}

static fdb_error_t clear_tuple(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(space, tuple, &key);
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

static fdb_error_t parse_prefix(keel_tuple_iterator *iterator, keel_subspace *rows) {
    uint8_t prefix[KEEL_SUBSPACE_PREFIX_MAX];
    size_t length;
    if (keel_tuple_next_bytes(iterator, prefix, sizeof prefix, &length))
        return KEEL_ERROR_STORED_FORMAT;
    return keel_subspace_raw(keel_bytes_of(prefix, length), rows);
}

static fdb_error_t parse_record(keel_bytes value, struct bulk_record *record) {
    char state[16];
    size_t length;
    struct bulk_record parsed = {.state = KEEL_BULK_REMOVING};
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    if (keel_tuple_next_string(&iterator, state, sizeof state, &length))
        return KEEL_ERROR_STORED_FORMAT;
    while (parsed.state && strcmp(state, STATE_NAMES[parsed.state]) != 0)
        parsed.state--;
    if (!parsed.state || keel_tuple_next_bytes(&iterator, parsed.owner, sizeof parsed.owner, &length) ||
        length != sizeof parsed.owner || keel_tuple_next_int(&iterator, &parsed.begun_ms) ||
        keel_tuple_next_int(&iterator, &parsed.changed_ms) || parse_prefix(&iterator, &parsed.rows))
        return KEEL_ERROR_STORED_FORMAT;
    *record = parsed;
    return 0;
}

fdb_error_t bulk_record_finish(FDBFuture *future, struct bulk_record *record) {
    bool present;
    keel_bytes value;
    fdb_error_t error = recipe_get_finish(future, &present, &value);
    if (error)
        return error;
    return present ? parse_record(value, record) : KEEL_ERROR_NOT_FOUND;
}

fdb_error_t bulk_record_read(FDBTransaction *tr, const keel_subspace *space, const char *name,
                             struct bulk_record *record) {
    fdb_error_t error = 0;
    FDBFuture *future = bulk_get(tr, space, KEEL_TUPLE("load", name), &error);
    if (error)
        return error;
    error = bulk_record_finish(future, record);
    fdb_future_destroy(future);
    return error;
}

fdb_error_t bulk_record_write(FDBTransaction *tr, const keel_subspace *space, const char *name,
                              const struct bulk_record *record) {
    return set_tuple(tr, space, KEEL_TUPLE("load", name),
                     KEEL_TUPLE(keel_bulk_state_name(record->state), KEEL_BYTES(record->owner, sizeof record->owner),
                                record->begun_ms, record->changed_ms, keel_subspace_prefix(&record->rows)));
}

/* ---- Progress ---- */

fdb_error_t bulk_progress_parse(keel_bytes value, bool of_batch, struct bulk_progress *progress) {
    struct bulk_progress parsed;
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    parsed.input = 0;
    if (keel_tuple_next_uint(&iterator, &parsed.rows) || keel_tuple_next_uint(&iterator, &parsed.pairs) ||
        keel_tuple_next_int(&iterator, &parsed.bytes) || keel_tuple_next_uint(&iterator, &parsed.checksum) ||
        keel_tuple_next_uint(&iterator, &parsed.skipped) || keel_tuple_next_int(&iterator, &parsed.time_ms) ||
        keel_tuple_next_bytes(&iterator, parsed.bookmark, sizeof parsed.bookmark, &parsed.bookmark_length) ||
        (of_batch && keel_tuple_next_uint(&iterator, &parsed.input)))
        return KEEL_ERROR_STORED_FORMAT;
    *progress = parsed;
    return 0;
}

/* The rows come first, so that of two of these the one that has more is the larger in the order of bytes. */
fdb_error_t bulk_progress_pack(const struct bulk_progress *progress, bool of_batch,
                               uint8_t value[BULK_PROGRESS_BYTES_MAX], size_t *length) {
    keel_tuple tuple = KEEL_TUPLE(progress->rows, progress->pairs, progress->bytes, progress->checksum, progress->skipped,
                                  progress->time_ms, KEEL_BYTES(progress->bookmark, progress->bookmark_length),
                                  progress->input);
    if (!of_batch)
        tuple.count--;
    return keel_tuple_pack(tuple, value, BULK_PROGRESS_BYTES_MAX, length);
}

void bulk_progress_add(struct bulk_progress *sum, const struct bulk_progress *batch) {
    sum->rows = batch->rows;
    sum->pairs += batch->pairs;
    sum->bytes += batch->bytes;
    sum->checksum += batch->checksum;
    sum->skipped += batch->skipped;
    sum->time_ms = batch->time_ms > sum->time_ms ? batch->time_ms : sum->time_ms;
    sum->bookmark_length = batch->bookmark_length;
    memcpy(sum->bookmark, batch->bookmark, batch->bookmark_length);
}

fdb_error_t bulk_progress_first(const keel_subspace *space, keel_bytes key, uint64_t *first) {
    keel_tuple_iterator iterator;
    if (keel_subspace_unpack(space, key, &iterator) || keel_tuple_skip(&iterator, 2) ||
        keel_tuple_next_uint(&iterator, first) || !keel_tuple_at_end(&iterator))
        return KEEL_ERROR_STORED_FORMAT;
    return 0;
}

/* ---- Listing: the loads and their progress, two scans side by side ---- */

struct walk {
    const keel_subspace *space;
    struct recipe_scan progress;
    keel_bytes key, value; /* the next of the progress */
    bool found;
    fdb_error_t error;
};

static void walk_next(struct walk *walk) {
    walk->error = recipe_scan_next(&walk->progress, &walk->key, &walk->value, &walk->found);
    walk->found = walk->found && !walk->error;
}

/* Adds what is known about the progress of one load, batches without a gap before them included. */
static fdb_error_t walk_progress(struct walk *walk, const char *name, keel_bulk_load *load) {
    struct recipe_key key;
    struct recipe_span batches;
    struct bulk_progress sum, batch;
    fdb_error_t error = recipe_pack(walk->space, KEEL_TUPLE("progress", name), &key);
    if (error)
        return error;
    recipe_span_with(&key, &batches);
    while (walk->found && keel_bytes_compare(walk->key, keel_bytes_of(key.data, key.length)) < 0)
        walk_next(walk);
    if (walk->error)
        return walk->error;
    if (!walk->found || keel_bytes_compare(walk->key, keel_bytes_of(key.data, key.length)) != 0)
        return KEEL_ERROR_STORED_FORMAT;
    error = bulk_progress_parse(walk->value, false, &sum);
    walk_next(walk);
    while (!error && walk->found &&
           keel_bytes_compare(walk->key, keel_bytes_of(batches.end.data, batches.end.length)) < 0) {
        uint64_t first;
        error = bulk_progress_first(walk->space, walk->key, &first);
        if (!error)
            error = bulk_progress_parse(walk->value, true, &batch);
        if (!error && first == sum.rows)
            bulk_progress_add(&sum, &batch);
        walk_next(walk);
    }
    if (error || walk->error)
        return error ? error : walk->error;
    load->rows = sum.rows;
    load->pairs = sum.pairs;
    load->bytes = (uint64_t)sum.bytes;
    load->checksum = sum.checksum;
    load->skipped = sum.skipped;
    if (load->state == KEEL_BULK_PREPARING && sum.time_ms > load->changed_ms)
        load->changed_ms = sum.time_ms;
    return 0;
}

static fdb_error_t walk_load(struct walk *walk, keel_bytes key, keel_bytes value, keel_bulk_load *load) {
    keel_tuple_iterator iterator;
    struct bulk_record record;
    size_t length;
    if (keel_subspace_unpack(walk->space, key, &iterator) || keel_tuple_skip(&iterator, 1) ||
        keel_tuple_next_string(&iterator, load->name, sizeof load->name, &length))
        return KEEL_ERROR_STORED_FORMAT;
    fdb_error_t error = parse_record(value, &record);
    if (error)
        return error;
    load->state = record.state;
    load->begun_ms = record.begun_ms;
    load->changed_ms = record.changed_ms;
    return walk_progress(walk, load->name, load);
}

/* Of one load, or of all if `name` is NULL. */
static fdb_error_t walk_spans(const keel_subspace *space, const char *name, struct recipe_span *loads,
                              struct recipe_span *progress) {
    struct recipe_key key;
    if (!name) {
        fdb_error_t error = recipe_span_of(space, KEEL_TUPLE("load"), loads);
        return error ? error : recipe_span_of(space, KEEL_TUPLE("progress"), progress);
    }
    fdb_error_t error = recipe_pack(space, KEEL_TUPLE("load", name), &key);
    if (!error)
        recipe_span_with(&key, loads);
    if (!error)
        error = recipe_pack(space, KEEL_TUPLE("progress", name), &key);
    if (!error)
        recipe_span_with(&key, progress);
    return error;
}

static fdb_error_t walk_all(FDBTransaction *tr, const keel_subspace *space, const char *name, keel_bulk_visit visit,
                            void *context) {
    struct recipe_span loads_span, progress_span;
    struct recipe_scan loads;
    struct walk walk = {.space = space};
    keel_bytes key, value;
    bool found = true;
    fdb_error_t error = walk_spans(space, name, &loads_span, &progress_span);
    if (error)
        return error;
    recipe_scan_open(&loads, tr, &loads_span, 0, false, false);
    recipe_scan_open(&walk.progress, tr, &progress_span, 0, false, false);
    walk_next(&walk);
    error = walk.error;
    while (!error) {
        keel_bulk_load load;
        error = recipe_scan_next(&loads, &key, &value, &found);
        if (error || !found)
            break;
        error = walk_load(&walk, key, value, &load);
        if (!error)
            error = visit(context, &load);
    }
    recipe_scan_close(&walk.progress);
    recipe_scan_close(&loads);
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_list(FDBTransaction *tr, const keel_directory *target, keel_bulk_visit visit,
                                       void *context) {
    keel_subspace space;
    if (!tr || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_space(target, &space);
    return error ? error : walk_all(tr, &space, NULL, visit, context);
}

struct looked {
    keel_bulk_load load;
    bool found;
};

static fdb_error_t remember_load(void *context, const keel_bulk_load *load) {
    struct looked *looked = context;
    looked->load = *load;
    looked->found = true;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_bulk_look(FDBTransaction *tr, const keel_directory *target, const char *name,
                                       keel_bulk_load *load) {
    keel_subspace space;
    struct looked looked = {.found = false};
    if (!tr || !load)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &space);
    if (!error)
        error = walk_all(tr, &space, name, remember_load, &looked);
    if (!error && !looked.found)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        *load = looked.load;
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_note(FDBTransaction *tr, const keel_directory *target, const char *name,
                                       uint8_t **note, size_t *length) {
    keel_subspace space;
    struct bulk_record record;
    keel_bytes value = {NULL, 0};
    bool present = false;
    if (!tr || !note || !length)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &space);
    FDBFuture *note_read = bulk_get(tr, &space, KEEL_TUPLE("note", name), &error);
    if (error)
        return error;
    error = bulk_record_read(tr, &space, name, &record);
    if (!error)
        error = recipe_get_finish(note_read, &present, &value);
    if (!error)
        error = recipe_copy(value, note, length);
    fdb_future_destroy(note_read);
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_rows(FDBTransaction *tr, const keel_directory *target, const char *name,
                                       keel_subspace *rows) {
    keel_subspace space;
    struct bulk_record record;
    if (!tr || !rows)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &space);
    if (!error)
        error = bulk_record_read(tr, &space, name, &record);
    if (!error)
        *rows = record.rows;
    return error;
}

/* ---- The pointer ---- */

static fdb_error_t parse_pointer(keel_bytes value, char name[KEEL_BULK_NAME_MAX + 1], keel_subspace *rows) {
    size_t length;
    keel_tuple_iterator iterator = keel_tuple_iterate(value);
    return keel_tuple_next_string(&iterator, name, KEEL_BULK_NAME_MAX + 1, &length) ? KEEL_ERROR_STORED_FORMAT
                                                                                   : parse_prefix(&iterator, rows);
}

static fdb_error_t pointer_finish(FDBFuture *future, char name[KEEL_BULK_NAME_MAX + 1], keel_subspace *rows) {
    bool present;
    keel_bytes value;
    fdb_error_t error = recipe_get_finish(future, &present, &value);
    if (error)
        return error;
    return present ? parse_pointer(value, name, rows) : KEEL_ERROR_NOT_FOUND;
}

static fdb_error_t read_pointer(FDBTransaction *tr, const keel_subspace *space, char name[KEEL_BULK_NAME_MAX + 1],
                                keel_subspace *rows) {
    fdb_error_t error = 0;
    FDBFuture *future = bulk_get(tr, space, KEEL_TUPLE("active"), &error);
    if (error)
        return error;
    error = pointer_finish(future, name, rows);
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_active(FDBTransaction *tr, const keel_directory *target, keel_subspace *rows) {
    keel_subspace space, found;
    char name[KEEL_BULK_NAME_MAX + 1];
    if (!tr || !rows)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_space(target, &space);
    if (!error)
        error = read_pointer(tr, &space, name, &found);
    if (!error)
        *rows = found;
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_active_name(FDBTransaction *tr, const keel_directory *target,
                                              char name[KEEL_BULK_NAME_MAX + 1]) {
    keel_subspace space, rows;
    char found[KEEL_BULK_NAME_MAX + 1];
    if (!tr || !name)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_space(target, &space);
    if (!error)
        error = read_pointer(tr, &space, found, &rows);
    if (!error)
        memcpy(name, found, strlen(found) + 1);
    return error;
}

/* ---- Flipping and abandoning ---- */

/* Into the queue, with the state that leads there. */
static fdb_error_t put_away(FDBTransaction *tr, const keel_subspace *space, const char *name, struct bulk_record *record,
                            keel_bulk_state state, int64_t now_ms) {
    record->state = state;
    record->changed_ms = now_ms;
    fdb_error_t error = bulk_record_write(tr, space, name, record);
    return error ? error : set_tuple(tr, space, KEEL_TUPLE("cleanup", now_ms, name), KEEL_TUPLE());
}

/* Whether a load in this state can be made active. */
static fdb_error_t check_activate(keel_bulk_state state) {
    if (state == KEEL_BULK_PREPARING || state == KEEL_BULK_READY)
        return KEEL_ERROR_BULK_NOT_VALIDATED;
    return state == KEEL_BULK_ABANDONED || state == KEEL_BULK_REMOVING ? KEEL_ERROR_BULK_STATE : 0;
}

static fdb_error_t point_to(FDBTransaction *tr, const keel_subspace *space, const char *name, struct bulk_record *record,
                            int64_t now_ms) {
    fdb_error_t error = 0;
    if (record->state == KEEL_BULK_REPLACED)
        error = clear_tuple(tr, space, KEEL_TUPLE("cleanup", record->changed_ms, name));
    record->state = KEEL_BULK_ACTIVE;
    record->changed_ms = now_ms;
    if (!error)
        error = bulk_record_write(tr, space, name, record);
    return error ? error
                 : set_tuple(tr, space, KEEL_TUPLE("active"), KEEL_TUPLE(name, keel_subspace_prefix(&record->rows)));
}

/* The load and the name of the active one, read side by side; no name: nothing is active. */
static fdb_error_t read_both(FDBTransaction *tr, const keel_subspace *space, const char *name, struct bulk_record *record,
                             char active[KEEL_BULK_NAME_MAX + 1]) {
    keel_subspace rows;
    fdb_error_t error = 0;
    FDBFuture *pointer = bulk_get(tr, space, KEEL_TUPLE("active"), &error);
    if (error)
        return error;
    error = bulk_record_read(tr, space, name, record);
    if (!error) {
        error = pointer_finish(pointer, active, &rows);
        if (error == KEEL_ERROR_NOT_FOUND) {
            active[0] = 0;
            error = 0;
        }
    }
    fdb_future_destroy(pointer);
    return error;
}

KEEL_EXPORT fdb_error_t keel_bulk_activate(FDBTransaction *tr, const keel_directory *target, const char *name) {
    keel_subspace space;
    struct bulk_record record, before;
    char active[KEEL_BULK_NAME_MAX + 1];
    int64_t now_ms = bulk_now_ms();
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &space);
    if (!error)
        error = read_both(tr, &space, name, &record, active);
    if (!error)
        error = check_activate(record.state);
    if (error || record.state == KEEL_BULK_ACTIVE)
        return error;
    if (active[0])
        error = bulk_record_read(tr, &space, active, &before);
    if (!error && active[0])
        error = put_away(tr, &space, active, &before, KEEL_BULK_REPLACED, now_ms);
    return error ? error : point_to(tr, &space, name, &record, now_ms);
}

KEEL_EXPORT fdb_error_t keel_bulk_abandon(FDBTransaction *tr, const keel_directory *target, const char *name) {
    keel_subspace space;
    struct bulk_record record;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_check_name(name);
    if (!error)
        error = bulk_space(target, &space);
    if (!error)
        error = bulk_record_read(tr, &space, name, &record);
    if (error || record.state >= KEEL_BULK_REPLACED)
        return error;
    if (record.state == KEEL_BULK_ACTIVE)
        return KEEL_ERROR_BULK_STATE;
    return put_away(tr, &space, name, &record, KEEL_BULK_ABANDONED, bulk_now_ms());
}
