/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk work: states, resuming, gaps, duplicates, unknown commit results, fencing, validation, the flip, the cleanup.
 *
 * This program has its own fdb_transaction_commit, fdb_transaction_get, fdb_future_get_error and fdb_future_is_ready, in
 * front of the library's: they plant commits that say commit_unknown_result (and were applied, or were not, or are applied
 * only after the next try has read), and one that fails while those behind it succeed, which leaves a gap.
 */
#define _GNU_SOURCE
#include "fixture.h"

#include <dlfcn.h>
#include <stdatomic.h>

enum { COMMIT_UNKNOWN_RESULT = 1021, TRANSACTION_CANCELLED = 1025, TOO_LARGE = 2101, KEY_TOO_LARGE = 2102, VALUE_TOO_LARGE = 2103 };

/* ---- Planted commits ---- */

static enum { PLANT_NONE, PLANT_APPLIED, PLANT_LOST, PLANT_LATE, PLANT_GAP } plant;
static int plant_countdown, plant_every; /* the commits from here to it; 0: none */
static int planted_count;
static atomic_int commit_count;
static FDBFuture *planted;
static FDBTransaction *planted_empty, *late; /* late: its next try reads at late_version, before its last commit */
static int64_t late_version;

static FDBFuture *(*real_commit)(FDBTransaction *);
static FDBFuture *(*real_get)(FDBTransaction *, const uint8_t *, int, fdb_bool_t);
static fdb_error_t (*real_get_error)(FDBFuture *);
static fdb_bool_t (*real_is_ready)(FDBFuture *);

static __attribute__((constructor)) void find_the_library(void) {
    *(void **)&real_commit = dlsym(RTLD_NEXT, "fdb_transaction_commit");
    *(void **)&real_get = dlsym(RTLD_NEXT, "fdb_transaction_get");
    *(void **)&real_get_error = dlsym(RTLD_NEXT, "fdb_future_get_error");
    *(void **)&real_is_ready = dlsym(RTLD_NEXT, "fdb_future_is_ready");
}

static void plant_commits(int kind, int countdown, int every) {
    plant = kind;
    plant_countdown = countdown;
    plant_every = every;
    planted_count = 0;
    atomic_store(&commit_count, 0);
}

static void note_late(FDBTransaction *tr) {
    FDBFuture *version = fdb_transaction_get_read_version(tr);
    late = keel_wait(version) || fdb_future_get_int64(version, &late_version) ? NULL : tr;
    fdb_future_destroy(version);
}

FDBFuture *fdb_transaction_get(FDBTransaction *tr, const uint8_t *key, int length, fdb_bool_t snapshot) {
    if (tr == late && !planted) {
        fdb_transaction_set_read_version(tr, late_version);
        late = NULL;
    }
    return real_get(tr, key, length, snapshot);
}

FDBFuture *fdb_transaction_commit(FDBTransaction *tr) {
    atomic_fetch_add(&commit_count, 1);
    if (plant == PLANT_NONE || planted || plant_countdown == 0 || --plant_countdown > 0)
        return real_commit(tr);
    plant_countdown = plant_every;
    planted_count++;
    if (plant == PLANT_GAP) {
        fdb_transaction_cancel(tr);
        planted = real_commit(tr);
    } else if (plant == PLANT_LOST) {
        if (!planted_empty)
            fdb_database_create_transaction(keel_fdb(fixture_db), &planted_empty);
        fdb_transaction_reset(planted_empty);
        planted = real_commit(planted_empty);
    } else {
        if (plant == PLANT_LATE)
            note_late(tr);
        planted = real_commit(tr);
    }
    return planted;
}

fdb_error_t fdb_future_get_error(FDBFuture *future) {
    fdb_error_t error = real_get_error(future);
    if (future != planted)
        return error;
    planted = NULL;
    return plant == PLANT_GAP || error ? error : COMMIT_UNKNOWN_RESULT;
}

/* The failed one hides until somebody has to wait for it. */
fdb_bool_t fdb_future_is_ready(FDBFuture *future) {
    return future == planted && plant == PLANT_GAP ? 0 : real_is_ready(future);
}

/* ---- Targets and rows ---- */

static FDBDatabase *database(void) {
    return keel_fdb(fixture_db);
}

static keel_directory *open_target(const char *name) {
    keel_directory *directory = NULL;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_directory_create_or_open(tr, NULL, KEEL_PATH("bulk", name), KEEL_NO_LAYER, &directory), 0);
    commit(tr);
    return directory;
}

/* Row `number` (from 1) of an input: its keys and values. Keys of neighbours are far apart unless `sorted`. */
struct input {
    int rows;
    int pairs;   /* a row */
    bool sorted;
    int modulus; /* the keys repeat: row n has the key of row n - modulus; 0: never */
    int changed; /* the row with another value */
};

static keel_bytes key_of(const struct input *input, int number, int pair, uint8_t buffer[64]) {
    size_t length;
    int id = input->modulus ? number % input->modulus : number;
    int64_t spread = input->sorted ? id : (int64_t)((uint64_t)id * 2654435761u % 1000003u);
    assert_int_equal(keel_tuple_pack(KEEL_TUPLE("row", pair, spread), buffer, 64, &length), 0);
    return keel_bytes_of(buffer, length);
}

static keel_bytes value_of(const struct input *input, int number, int pair, char buffer[64]) {
    int length = snprintf(buffer, 64, "%s of row %d, pair %d", number == input->changed ? "other value" : "value", number, pair);
    return keel_bytes_of(buffer, (size_t)length);
}

static fdb_error_t add_row(keel_bulk *bulk, const struct input *input, int number) {
    fdb_error_t error = 0;
    for (int pair = 0; pair < input->pairs && !error; pair++) {
        uint8_t key[64];
        char value[64];
        error = keel_bulk_set(bulk, key_of(input, number, pair, key), value_of(input, number, pair, value));
    }
    return error ? error : keel_bulk_row(bulk, keel_bytes_of(&number, sizeof number));
}

/* The rows behind those that are done, up to `last`. */
static fdb_error_t add_rows(keel_bulk *bulk, const struct input *input, int last) {
    fdb_error_t error = 0;
    for (int number = (int)keel_bulk_position(bulk).rows_added + 1; number <= last && !error; number++)
        error = add_row(bulk, input, number);
    return error;
}

static fdb_error_t load(const keel_directory *target, const char *name, const keel_bulk_options *options,
                        const struct input *input) {
    keel_bulk *bulk = NULL;
    fdb_error_t error = keel_bulk_begin(database(), target, name, options, &bulk);
    if (!error)
        error = add_rows(bulk, input, input->rows);
    if (!error)
        error = keel_bulk_finish(bulk);
    keel_bulk_close(bulk);
    return error;
}

static fdb_error_t validate(const keel_directory *target, const char *name) {
    return keel_bulk_validate(database(), target, name, NULL, NULL, NULL);
}

/* Ends a transaction in which everything was refused: it has written nothing. */
static void assert_unwritten(FDBTransaction *tr) {
    int64_t version = 0;
    assert_int_equal(keel_wait_destroy(fdb_transaction_commit(tr)), 0);
    assert_int_equal(fdb_transaction_get_committed_version(tr, &version), 0);
    assert_int_equal(version, -1);
    fdb_transaction_destroy(tr);
}

static fdb_error_t activate(const keel_directory *target, const char *name) {
    FDBTransaction *tr = begin();
    fdb_error_t error = keel_bulk_activate(tr, target, name);
    if (error)
        assert_unwritten(tr);
    return error ? error : try_commit(tr);
}

static fdb_error_t abandon(const keel_directory *target, const char *name) {
    FDBTransaction *tr = begin();
    fdb_error_t error = keel_bulk_abandon(tr, target, name);
    if (error)
        assert_unwritten(tr);
    return error ? error : try_commit(tr);
}

static keel_bulk_load look(const keel_directory *target, const char *name) {
    keel_bulk_load found;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_look(tr, target, name, &found), 0);
    fdb_transaction_destroy(tr);
    return found;
}

static keel_subspace rows_of(const keel_directory *target, const char *name) {
    keel_subspace rows;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_rows(tr, target, name, &rows), 0);
    fdb_transaction_destroy(tr);
    return rows;
}

/* All rows under a prefix. */
static FDBFuture *scan(FDBTransaction *tr, const keel_subspace *rows, const FDBKeyValue **found, int *count) {
    uint8_t end[KEEL_SUBSPACE_PREFIX_MAX];
    fdb_bool_t more = 0;
    memcpy(end, rows->prefix, rows->length);
    end[rows->length - 1]++;
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(rows->prefix, rows->length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, rows->length), 100000, 0,
                                                  FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_keyvalue_array(future, found, count, &more), 0);
    assert_false(more);
    return future;
}

/* Two loads have the same rows, byte for byte, and the same sums are known of them. */
static void assert_same(const keel_directory *target, const char *one, const char *other) {
    keel_subspace a = rows_of(target, one), b = rows_of(target, other);
    const FDBKeyValue *rows_a, *rows_b;
    int count_a, count_b;
    FDBTransaction *tr = begin();
    FDBFuture *future_a = scan(tr, &a, &rows_a, &count_a), *future_b = scan(tr, &b, &rows_b, &count_b);
    assert_int_equal(count_a, count_b);
    for (int i = 0; i < count_a; i++) {
        assert_int_equal(rows_a[i].key_length - a.length, rows_b[i].key_length - b.length);
        assert_memory_equal(rows_a[i].key + a.length, rows_b[i].key + b.length, (size_t)(rows_a[i].key_length - a.length));
        assert_int_equal(rows_a[i].value_length, rows_b[i].value_length);
        assert_memory_equal(rows_a[i].value, rows_b[i].value, (size_t)rows_a[i].value_length);
    }
    fdb_future_destroy(future_a);
    fdb_future_destroy(future_b);
    fdb_transaction_destroy(tr);
    keel_bulk_load load_a = look(target, one), load_b = look(target, other);
    assert_int_equal(load_a.rows, load_b.rows);
    assert_int_equal(load_a.pairs, load_b.pairs);
    assert_int_equal(load_a.pairs, count_a);
    assert_int_equal(load_a.bytes, load_b.bytes);
    assert_int_equal(load_a.checksum, load_b.checksum);
    assert_int_equal(load_a.skipped, load_b.skipped);
}

static void assert_active(const keel_directory *target, const char *expected) {
    char name[KEEL_BULK_NAME_MAX + 1];
    keel_subspace active, rows = rows_of(target, expected);
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_active_name(tr, target, name), 0);
    assert_string_equal(name, expected);
    assert_int_equal(keel_bulk_active(tr, target, &active), 0);
    assert_int_equal(active.length, rows.length);
    assert_memory_equal(active.prefix, rows.prefix, rows.length);
    fdb_transaction_destroy(tr);
}

/* ---- States ---- */

static fdb_error_t join(void *context, const keel_bulk_load *load) {
    strcat(context, load->name);
    strcat(context, " ");
    strcat(context, keel_bulk_state_name(load->state));
    strcat(context, "; ");
    return 0;
}

static void assert_list(const keel_directory *target, const char *expected) {
    char text_of_list[2000] = "";
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_list(tr, target, join, text_of_list), 0);
    assert_string_equal(text_of_list, expected);
    fdb_transaction_destroy(tr);
}

static void states(void **state) {
    (void)state;
    keel_directory *target = open_target("states");
    struct input input = {.rows = 100, .pairs = 2};
    keel_bulk_options options = {.batch_bytes = 1500, .note = text("users.csv")};
    keel_bulk *bulk = NULL;
    keel_subspace rows;
    uint8_t *note;
    size_t length;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_active(tr, target, &rows), KEEL_ERROR_NOT_FOUND);
    assert_unwritten(tr);
    assert_list(target, "");
    assert_int_equal(keel_bulk_begin(database(), target, "one", &options, &bulk), 0);
    assert_string_equal(keel_bulk_name(bulk), "one");
    assert_int_equal(keel_bulk_position(bulk).rows, 0);
    assert_int_equal(add_rows(bulk, &input, 60), 0);
    assert_list(target, "one preparing; ");
    assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_NOT_VALIDATED);
    assert_int_equal(validate(target, "one"), KEEL_ERROR_BULK_STATE);
    assert_int_equal(add_rows(bulk, &input, 100), 0);
    assert_int_equal(keel_bulk_finish(bulk), 0);
    assert_int_equal(keel_bulk_finish(bulk), 0);
    assert_int_equal(add_row(bulk, &input, 101), KEEL_ERROR_BULK_STATE);
    assert_true(keel_bulk_position(bulk).finished);
    keel_bulk_close(bulk);
    keel_bulk_load found = look(target, "one");
    assert_int_equal(found.state, KEEL_BULK_READY);
    assert_int_equal(found.rows, 100);
    assert_int_equal(found.pairs, 200);
    assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_NOT_VALIDATED);
    assert_int_equal(validate(target, "one"), 0);
    assert_list(target, "one validated; ");
    assert_int_equal(activate(target, "one"), 0);
    assert_int_equal(activate(target, "one"), 0);
    assert_list(target, "one active; ");
    assert_active(target, "one");
    assert_int_equal(abandon(target, "one"), KEEL_ERROR_BULK_STATE);
    tr = begin();
    assert_int_equal(keel_bulk_note(tr, target, "one", &note, &length), 0);
    assert_int_equal(length, 9);
    assert_memory_equal(note, "users.csv", 9);
    free(note);
    fdb_transaction_destroy(tr);
    /* A program that is run again finds nothing to do. */
    assert_int_equal(load(target, "one", NULL, &input), 0);
    assert_active(target, "one");
    keel_directory_close(target);
}

static void arguments(void **state) {
    (void)state;
    keel_directory *target = open_target("arguments");
    keel_bulk *bulk = NULL;
    keel_bulk_load found;
    char too_long[300];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    keel_bulk_options wrong[] = {{.in_flight = KEEL_BULK_IN_FLIGHT_MAX + 1}, {.in_flight = -1}, {.batch_bytes = 5000000},
                                 {.batch_ms = -1}, {.start = 3}, {.duplicates = 4}, {.note = {NULL, 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(keel_bulk_begin(database(), target, "a", &wrong[i], &bulk), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_begin(NULL, target, "a", NULL, &bulk), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_begin(database(), NULL, "a", NULL, &bulk), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_begin(database(), target, "", NULL, &bulk), KEEL_ERROR_EMPTY_NAME);
    assert_int_equal(keel_bulk_begin(database(), target, "\xff", NULL, &bulk), KEEL_ERROR_NOT_UTF8);
    assert_int_equal(keel_bulk_begin(database(), target, too_long, NULL, &bulk), KEEL_ERROR_ARGUMENT);
    keel_bulk_options resume = {.start = KEEL_BULK_RESUME}, fresh = {.start = KEEL_BULK_BEGIN};
    assert_int_equal(keel_bulk_begin(database(), target, "a", &resume, &bulk), KEEL_ERROR_NOT_FOUND);
    assert_null(bulk);
    assert_list(target, "");
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_look(tr, target, "a", &found), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_bulk_activate(tr, target, "a"), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_bulk_abandon(tr, target, "a"), KEEL_ERROR_NOT_FOUND);
    assert_unwritten(tr);
    assert_int_equal(validate(target, "a"), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_bulk_cleanup(database(), target, -1, NULL, NULL, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_begin(database(), target, "a", &fresh, &bulk), 0);
    keel_bulk_close(bulk);
    assert_int_equal(keel_bulk_begin(database(), target, "a", &fresh, &bulk), KEEL_ERROR_BULK_EXISTS);
    assert_int_equal(keel_bulk_begin(database(), target, NULL, NULL, &bulk), 0);
    assert_int_equal(strlen(keel_bulk_name(bulk)), 33);
    keel_bulk_close(bulk);
    keel_bulk_close(NULL);
    keel_directory_close(target);
}

/* ---- Limits and damaged rows ---- */

static void limits(void **state) {
    (void)state;
    keel_directory *target = open_target("limits");
    static uint8_t bytes[100001];
    keel_bulk *bulk = NULL;
    keel_bytes none = {NULL, 0};
    fdb_error_t error = 0;
    assert_int_equal(keel_bulk_begin(database(), target, "one", NULL, &bulk), 0);
    assert_int_equal(keel_bulk_set(bulk, keel_bytes_of(bytes, 10001), none), KEY_TOO_LARGE);
    assert_int_equal(keel_bulk_set(bulk, keel_bytes_of(bytes, 9999), none), KEY_TOO_LARGE);  /* with the prefix */
    assert_int_equal(keel_bulk_set(bulk, text("a"), keel_bytes_of(bytes, 100001)), VALUE_TOO_LARGE);
    assert_int_equal(keel_bulk_set(bulk, keel_bytes_of(NULL, 1), none), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_row(bulk, keel_bytes_of(bytes, KEEL_BULK_BOOKMARK_MAX + 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_bulk_set(bulk, text("a"), keel_bytes_of(bytes, 100000)), 0);
    assert_int_equal(keel_bulk_set(bulk, text("a"), none), KEEL_ERROR_DUPLICATE);
    assert_int_equal(keel_bulk_row(bulk, keel_bytes_of(bytes, KEEL_BULK_BOOKMARK_MAX)), 0);
    assert_int_equal(keel_bulk_set(bulk, none, none), 0); /* the shortest key there is */
    assert_int_equal(keel_bulk_set(bulk, keel_bytes_of(bytes, 9900), none), 0);
    assert_int_equal(keel_bulk_row(bulk, none), 0);
    int pairs = 0;
    for (; !error; pairs++) {
        uint8_t key[8];
        size_t length;
        assert_int_equal(keel_tuple_pack(KEEL_TUPLE(pairs), key, sizeof key, &length), 0);
        error = keel_bulk_set(bulk, keel_bytes_of(key, length), keel_bytes_of(bytes, 100000));
    }
    assert_int_equal(error, TOO_LARGE);
    assert_int_equal(pairs, 40);
    keel_bulk_row_discard(bulk);
    assert_int_equal(keel_bulk_row(bulk, none), 0); /* it counts, without pairs */
    for (pairs = 0; pairs < 39; pairs++) {          /* the largest row passes the database */
        uint8_t key[8];
        size_t length;
        assert_int_equal(keel_tuple_pack(KEEL_TUPLE("l", pairs), key, sizeof key, &length), 0);
        assert_int_equal(keel_bulk_set(bulk, keel_bytes_of(key, length), keel_bytes_of(bytes, 100000)), 0);
    }
    assert_int_equal(keel_bulk_row(bulk, none), 0);
    assert_int_equal(keel_bulk_finish(bulk), 0);
    assert_int_equal(keel_bulk_position(bulk).rows, 4);
    assert_int_equal(keel_bulk_position(bulk).pairs, 3 + 39);
    keel_bulk_close(bulk);
    assert_int_equal(validate(target, "one"), 0);
    keel_directory_close(target);
}

static void half_a_row_is_no_end(void **state) {
    (void)state;
    keel_directory *target = open_target("half");
    keel_bulk *bulk = NULL;
    assert_int_equal(keel_bulk_begin(database(), target, "one", NULL, &bulk), 0);
    assert_int_equal(keel_bulk_set(bulk, text("a"), text("b")), 0);
    assert_int_equal(keel_bulk_flush(bulk), 0);
    assert_int_equal(keel_bulk_position(bulk).rows, 0);
    assert_int_equal(keel_bulk_finish(bulk), KEEL_ERROR_BULK_INPUT);
    keel_bulk_close(bulk);
    assert_int_equal(look(target, "one").state, KEEL_BULK_PREPARING);
    keel_directory_close(target);
}

/* Not one row: a load like any other. */
static void nothing(void **state) {
    (void)state;
    keel_directory *target = open_target("nothing");
    struct input input = {.rows = 0};
    assert_int_equal(load(target, "one", NULL, &input), 0);
    assert_int_equal(validate(target, "one"), 0);
    assert_int_equal(activate(target, "one"), 0);
    assert_active(target, "one");
    keel_directory_close(target);
}

/* ---- Resuming ---- */

static void resuming(void **state) {
    (void)state;
    keel_directory *target = open_target("resuming");
    struct input input = {.rows = 1000, .pairs = 2};
    keel_bulk_options options = {.batch_bytes = 2000};
    uint64_t seed = 7;
    assert_int_equal(load(target, "whole", &options, &input), 0);
    keel_bulk *bulk = NULL;
    int last = 0, stops = 0;
    while (last < input.rows) {
        options.batch_bytes = 500 + draw(&seed) % 5000;
        options.in_flight = 1 + (int)(draw(&seed) % 5);
        assert_int_equal(keel_bulk_begin(database(), target, "parts", &options, &bulk), 0);
        keel_bulk_place place = keel_bulk_position(bulk);
        int bookmark = 0;
        if (place.rows) {
            assert_int_equal(place.bookmark.length, sizeof bookmark);
            memcpy(&bookmark, place.bookmark.data, sizeof bookmark);
        }
        assert_int_equal(bookmark, place.rows);
        assert_int_equal(look(target, "parts").rows, place.rows);
        last = (int)place.rows + 1 + (int)(draw(&seed) % 120);
        last = last < input.rows ? last : input.rows;
        assert_int_equal(add_rows(bulk, &input, last), 0);
        if (draw(&seed) % 2)
            assert_int_equal(keel_bulk_flush(bulk), 0);
        if (last == input.rows)
            assert_int_equal(keel_bulk_finish(bulk), 0);
        keel_bulk_close(bulk);
        stops++;
    }
    assert_true(stops > 5);
    assert_same(target, "whole", "parts");
    assert_int_equal(validate(target, "parts"), 0);
    keel_directory_close(target);
}

/* A batch fails while those behind it succeed. */
static void leave_a_gap(const keel_directory *target, const char *name, const struct input *input, int at) {
    keel_bulk_options options = {.batch_bytes = 1000, .in_flight = 5};
    keel_bulk *bulk = NULL;
    assert_int_equal(keel_bulk_begin(database(), target, name, &options, &bulk), 0);
    plant_commits(PLANT_GAP, at, 0);
    assert_int_equal(add_rows(bulk, input, input->rows), TRANSACTION_CANCELLED);
    assert_int_equal(keel_bulk_problem_of(bulk).error, TRANSACTION_CANCELLED);
    assert_int_equal(keel_bulk_flush(bulk), TRANSACTION_CANCELLED);
    plant_commits(PLANT_NONE, 0, 0);
    keel_bulk_close(bulk);
}

static bool has_rows_behind(const keel_directory *target, const char *name) {
    uint64_t rows = look(target, name).rows;
    keel_subspace space = rows_of(target, name);
    FDBTransaction *tr = begin();
    bool more = (uint64_t)count_rows(tr, &space) > rows;
    fdb_transaction_destroy(tr);
    return more;
}

static void gaps(void **state) {
    (void)state;
    keel_directory *target = open_target("gaps");
    struct input input = {.rows = 400, .pairs = 1};
    assert_int_equal(load(target, "whole", NULL, &input), 0);
    bool behind = false; /* are there rows behind the gap? On a busy machine a round may leave none */
    for (int round = 0; round < 4 || (!behind && round < 12); round++) {
        leave_a_gap(target, "gaps", &input, 1 + round % 4);
        behind = has_rows_behind(target, "gaps");
    }
    assert_true(behind);
    assert_int_equal(load(target, "gaps", NULL, &input), 0);
    assert_same(target, "whole", "gaps");
    assert_int_equal(validate(target, "gaps"), 0);
    keel_directory_close(target);
}

static void other_input(void **state) {
    (void)state;
    keel_directory *target = open_target("other");
    struct input input = {.rows = 400, .pairs = 1};
    leave_a_gap(target, "changed", &input, 2);
    leave_a_gap(target, "short", &input, 2);
    struct input changed = input, shorter = input;
    changed.changed = (int)look(target, "changed").rows + 15; /* batches have about ten rows */
    assert_int_equal(load(target, "changed", NULL, &changed), KEEL_ERROR_BULK_INPUT);
    shorter.rows = (int)look(target, "short").rows + 12;
    assert_int_equal(load(target, "short", NULL, &shorter), KEEL_ERROR_BULK_INPUT);
    assert_int_equal(load(target, "short", NULL, &input), 0); /* the right one still goes on */
    assert_int_equal(validate(target, "short"), 0);
    keel_directory_close(target);
}

/* ---- Unknown results ---- */

static void unknown_results(void **state) {
    (void)state;
    keel_directory *target = open_target("unknown");
    static const struct {
        int kind, policy;
        const char *name;
    } cases[] = {{PLANT_APPLIED, KEEL_BULK_REFUSE, "applied"}, {PLANT_LOST, KEEL_BULK_REFUSE, "lost"},
                 {PLANT_APPLIED, KEEL_BULK_SKIP, "skip"},      {PLANT_APPLIED, KEEL_BULK_REPLACE, "replace"}};
    struct input input = {.rows = 600, .pairs = 2};
    keel_bulk_options undisturbed = {.batch_bytes = 1500, .batch_ms = 100000};
    plant_commits(PLANT_NONE, 0, 0);
    assert_int_equal(load(target, "whole", &undisturbed, &input), 0);
    int commits = commit_count;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        keel_bulk_options options = undisturbed;
        options.duplicates = (keel_bulk_duplicates)cases[i].policy;
        plant_commits(cases[i].kind, 1, 3); /* the one that begins the load too */
        assert_int_equal(load(target, cases[i].name, &options, &input), 0);
        assert_true(planted_count > 10);
        /* What was applied is not committed again, but for the beginning and the end, which have nothing to write then. */
        assert_in_range(commit_count, commits + (cases[i].kind == PLANT_LOST ? planted_count : 0),
                        commits + (cases[i].kind == PLANT_LOST ? planted_count : 2));
        plant_commits(PLANT_NONE, 0, 0);
        assert_same(target, "whole", cases[i].name);
        plant_commits(cases[i].kind, 1, 2);
        assert_int_equal(validate(target, cases[i].name), 0);
        assert_int_equal(keel_bulk_cleanup(database(), target, 0, NULL, NULL, NULL), 0);
        plant_commits(PLANT_NONE, 0, 0);
    }
    /* A fresh start that was committed and said unknown is its own, not somebody else's. */
    keel_bulk_options fresh = {.start = KEEL_BULK_BEGIN};
    plant_commits(PLANT_APPLIED, 1, 0);
    assert_int_equal(load(target, "fresh", &fresh, &input), 0);
    plant_commits(PLANT_NONE, 0, 0);
    assert_same(target, "whole", "fresh");
    keel_directory_close(target);
}

/*
 * A commit that is applied when the next try is under way: that one conflicts, and what it would have brought along does not
 * count. Four rows, each a batch, and a wait: the last is late, so that its second try has more to bring along than its first.
 */
static void late_results(void **state) {
    (void)state;
    enum { ROWS = 60, GROUP = 4, STOP = 20 };
    keel_directory *target = open_target("late");
    struct input input = {.rows = ROWS, .pairs = 1, .sorted = true};
    keel_bulk_options options = {.batch_bytes = 1, .batch_ms = 100000, .in_flight = GROUP};
    keel_bulk *bulk = NULL;
    assert_int_equal(load(target, "whole", &options, &input), 0);
    for (int last = GROUP; last <= ROWS; last += GROUP) {
        if (!bulk)
            assert_int_equal(keel_bulk_begin(database(), target, "late", &options, &bulk), 0);
        plant_commits(PLANT_LATE, GROUP, 0);
        assert_int_equal(add_rows(bulk, &input, last), 0);
        assert_int_equal(keel_bulk_flush(bulk), 0);
        assert_int_equal(planted_count, 1);
        plant_commits(PLANT_NONE, 0, 0);
        if (last == ROWS)
            assert_int_equal(keel_bulk_finish(bulk), 0);
        if (last % STOP != 0)
            continue;
        keel_bulk_close(bulk); /* what is stored must be such that the next begin can go on */
        bulk = NULL;
    }
    assert_same(target, "whole", "late");
    assert_int_equal(validate(target, "late"), 0);
    keel_directory_close(target);
}

/* ---- Duplicates ---- */

static void refused(void **state) {
    (void)state;
    keel_directory *target = open_target("refused");
    static const size_t batches[] = {300, 3000, 1000000};
    for (int round = 0; round < 6; round++) {
        struct input input = {.rows = 400, .pairs = 1, .modulus = 350, .sorted = round % 2 == 0};
        keel_bulk_options options = {.batch_bytes = batches[round / 2]};
        char name[20];
        uint8_t key[64];
        int bookmark;
        keel_bulk *bulk = NULL;
        snprintf(name, sizeof name, "load %d", round);
        assert_int_equal(keel_bulk_begin(database(), target, name, &options, &bulk), 0);
        fdb_error_t error = add_rows(bulk, &input, 400);
        if (!error)
            error = keel_bulk_finish(bulk);
        assert_int_equal(error, KEEL_ERROR_DUPLICATE);
        keel_bulk_problem problem = keel_bulk_problem_of(bulk);
        assert_int_equal(problem.error, KEEL_ERROR_DUPLICATE);
        assert_int_equal(problem.row, 351);
        keel_bytes expected = key_of(&input, 1, 0, key);
        assert_int_equal(problem.key.length, expected.length);
        assert_memory_equal(problem.key.data, expected.data, expected.length);
        memcpy(&bookmark, problem.bookmark.data, sizeof bookmark);
        assert_int_equal(bookmark, 351);
        assert_int_equal(keel_bulk_finish(bulk), KEEL_ERROR_DUPLICATE);
        keel_bulk_close(bulk);
        assert_int_equal(look(target, name).state, KEEL_BULK_PREPARING);
        assert_true(look(target, name).rows <= 350);
        options.duplicates = KEEL_BULK_SKIP; /* it can go on under another rule */
        assert_int_equal(load(target, name, &options, &input), 0);
        assert_int_equal(look(target, name).skipped, 50);
        assert_int_equal(look(target, name).pairs, 350);
        assert_int_equal(validate(target, name), 0);
    }
    keel_directory_close(target);
}

/*
 * Rows that overlap in part, so that which of them count depends on which did: three neighbours share a key, and every second row
 * has a key that an earlier row may have had, of those far away in the database. The rule itself, in memory: a row counts if
 * none of its keys is in a row that counts.
 */
enum { OVERLAP_ROWS = 1500, OVERLAP_KEYS = 2 * OVERLAP_ROWS };

static int overlap_key(int number, int pair) {
    uint64_t seed = (uint64_t)number * 1000003;
    draw(&seed);
    if (pair)
        return OVERLAP_ROWS + number / 3;
    return draw(&seed) % 2 ? number - 1 : (int)(draw(&seed) % (uint32_t)number);
}

static void count_skipped(void *context, const keel_bulk_problem *problem) {
    bool *skipped = context;
    assert_int_equal(problem->error, KEEL_ERROR_DUPLICATE);
    assert_true(problem->row >= 1 && problem->row <= OVERLAP_ROWS);
    assert_false(skipped[problem->row]);
    skipped[problem->row] = true;
}

static fdb_error_t add_overlapping(keel_bulk *bulk, int last) {
    fdb_error_t error = 0;
    for (int number = (int)keel_bulk_position(bulk).rows_added + 1; number <= last && !error; number++) {
        for (int pair = 0; pair < 2 && !error; pair++) {
            uint8_t key[32];
            size_t length;
            assert_int_equal(keel_tuple_pack(KEEL_TUPLE(overlap_key(number, pair)), key, sizeof key, &length), 0);
            error = keel_bulk_set(bulk, keel_bytes_of(key, length), keel_bytes_of(&number, sizeof number));
        }
        if (!error)
            error = keel_bulk_row(bulk, keel_bytes_of(&number, sizeof number));
    }
    return error;
}

static void skipped(void **state) {
    (void)state;
    keel_directory *target = open_target("skipped");
    static bool taken[OVERLAP_KEYS], expected[OVERLAP_ROWS + 1], told[OVERLAP_ROWS + 1];
    static const size_t batches[] = {1, 200, 1000, 5000, 1000000};
    uint64_t count = 0;
    for (int number = 1; number <= OVERLAP_ROWS; number++) {
        int one = overlap_key(number, 0), other = overlap_key(number, 1);
        expected[number] = taken[one] || taken[other];
        if (!expected[number])
            taken[one] = taken[other] = true;
        count += expected[number];
    }
    assert_true(count > 300 && count < OVERLAP_ROWS - 300);
    for (int round = 0; round < 10; round++) {
        keel_bulk_options options = {
            .duplicates = KEEL_BULK_SKIP, .batch_bytes = batches[round % 5], .skip = count_skipped, .skip_context = told};
        char name[20];
        keel_bulk *bulk = NULL;
        snprintf(name, sizeof name, "load %d", round);
        memset(told, 0, sizeof told);
        assert_int_equal(keel_bulk_begin(database(), target, name, &options, &bulk), 0);
        if (round >= 5) { /* in two runs; those of the first that were not committed are told again */
            assert_int_equal(add_overlapping(bulk, 700), 0);
            keel_bulk_close(bulk);
            assert_int_equal(keel_bulk_begin(database(), target, name, &options, &bulk), 0);
            memset(told + keel_bulk_position(bulk).rows + 1, 0, OVERLAP_ROWS - keel_bulk_position(bulk).rows);
        }
        assert_int_equal(add_overlapping(bulk, OVERLAP_ROWS), 0);
        assert_int_equal(keel_bulk_finish(bulk), 0);
        assert_int_equal(keel_bulk_position(bulk).skipped, count);
        keel_bulk_close(bulk);
        assert_memory_equal(told, expected, sizeof told);
        assert_int_equal(validate(target, name), 0);
        assert_same(target, "load 0", name);
    }
    keel_directory_close(target);
}

static void replaced_pairs(void **state) {
    (void)state;
    keel_directory *target = open_target("replaced pairs");
    struct input input = {.rows = 400, .pairs = 2, .modulus = 170};
    static const size_t batches[] = {1, 1000, 1000000};
    for (int round = 0; round < 3; round++) {
        keel_bulk_options options = {.duplicates = KEEL_BULK_REPLACE, .batch_bytes = batches[round]};
        char name[20], expected[64];
        snprintf(name, sizeof name, "load %d", round);
        assert_int_equal(load(target, name, &options, &input), 0);
        assert_int_equal(look(target, name).pairs, 340);
        assert_int_equal(validate(target, name), 0);
        assert_same(target, "load 0", name);
        keel_subspace rows = rows_of(target, name);
        for (int id = 231; id <= 400; id++) { /* the last of each */
            uint8_t key[64 + 16];
            fdb_bool_t present;
            const uint8_t *value;
            int length;
            keel_bytes suffix = key_of(&input, id, 1, key + rows.length);
            memcpy(key, rows.prefix, rows.length);
            FDBTransaction *tr = begin();
            FDBFuture *future = fdb_transaction_get(tr, key, (int)(rows.length + suffix.length), 0);
            assert_int_equal(keel_wait(future), 0);
            assert_int_equal(fdb_future_get_value(future, &present, &value, &length), 0);
            assert_true(present);
            keel_bytes bytes = value_of(&input, id, 1, expected);
            assert_int_equal(length, bytes.length);
            assert_memory_equal(value, bytes.data, bytes.length);
            fdb_future_destroy(future);
            fdb_transaction_destroy(tr);
        }
    }
    keel_directory_close(target);
}

static void unchecked(void **state) {
    (void)state;
    keel_directory *target = open_target("unchecked");
    struct input input = {.rows = 400, .pairs = 1, .modulus = 399};
    keel_bulk_options options = {.duplicates = KEEL_BULK_UNCHECKED, .batch_bytes = 1000};
    keel_bulk_report report;
    assert_int_equal(load(target, "one", &options, &input), 0);
    assert_int_equal(keel_bulk_validate(database(), target, "one", NULL, NULL, &report), KEEL_ERROR_BULK_MISMATCH);
    assert_int_equal(report.expected.pairs, 400);
    assert_int_equal(report.found.pairs, 399);
    assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_NOT_VALIDATED);
    keel_directory_close(target);
}

/* ---- Fencing ---- */

/* More keys in a batch than are asked for at once, none of them behind the largest: each has the database asked. */
static void many_questions(void **state) {
    (void)state;
    keel_directory *target = open_target("questions");
    struct input input = {.rows = 6000, .pairs = 1, .modulus = 5990};
    keel_bulk_options options = {.duplicates = KEEL_BULK_SKIP, .batch_bytes = 1000};
    keel_bulk *bulk = NULL;
    assert_int_equal(load(target, "whole", &options, &input), 0);
    for (int policy = KEEL_BULK_REFUSE; policy <= KEEL_BULK_SKIP; policy++) {
        assert_int_equal(keel_bulk_begin(database(), target, "parts", &options, &bulk), 0);
        assert_int_equal(add_rows(bulk, &input, 500), 0);
        assert_int_equal(keel_bulk_flush(bulk), 0);
        keel_bulk_close(bulk); /* there is no filter from here on */
        options = (keel_bulk_options){.duplicates = (keel_bulk_duplicates)policy, .batch_ms = 100000};
        assert_int_equal(keel_bulk_begin(database(), target, "parts", &options, &bulk), 0);
        fdb_error_t error = add_rows(bulk, &input, input.rows);
        if (!error)
            error = keel_bulk_finish(bulk);
        assert_int_equal(error, policy == KEEL_BULK_REFUSE ? KEEL_ERROR_DUPLICATE : 0);
        if (policy == KEEL_BULK_REFUSE)
            assert_int_equal(keel_bulk_problem_of(bulk).row, 5991);
        keel_bulk_close(bulk);
    }
    assert_same(target, "whole", "parts");
    assert_int_equal(validate(target, "parts"), 0);
    keel_directory_close(target);
}

static void fencing(void **state) {
    (void)state;
    keel_directory *target = open_target("fencing");
    struct input input = {.rows = 500, .pairs = 1};
    keel_bulk_options options = {.batch_bytes = 1000};
    keel_bulk *older = NULL, *newer = NULL;
    assert_int_equal(load(target, "whole", NULL, &input), 0);
    assert_int_equal(keel_bulk_begin(database(), target, "one", &options, &older), 0);
    assert_int_equal(add_rows(older, &input, 200), 0);
    assert_int_equal(keel_bulk_begin(database(), target, "one", &options, &newer), 0);
    assert_true(keel_bulk_position(newer).rows <= 200);
    assert_int_equal(add_rows(older, &input, 300), KEEL_ERROR_LEASE_LOST);
    assert_int_equal(keel_bulk_finish(older), KEEL_ERROR_LEASE_LOST);
    assert_int_equal(add_rows(newer, &input, 500), 0);
    assert_int_equal(keel_bulk_finish(newer), 0);
    keel_bulk_close(older);
    keel_bulk_close(newer);
    assert_same(target, "whole", "one");
    assert_int_equal(validate(target, "one"), 0);
    /* Without a row in between it is the end that tells. */
    assert_int_equal(keel_bulk_begin(database(), target, "two", NULL, &older), 0);
    assert_int_equal(keel_bulk_begin(database(), target, "two", NULL, &newer), 0);
    assert_int_equal(keel_bulk_finish(older), KEEL_ERROR_LEASE_LOST);
    /* An abandoned load takes nothing any more, and cannot be taken. */
    assert_int_equal(abandon(target, "two"), 0);
    assert_int_equal(add_rows(newer, &input, 500), 0);
    assert_int_equal(keel_bulk_finish(newer), KEEL_ERROR_LEASE_LOST);
    keel_bulk_close(older);
    keel_bulk_close(newer);
    assert_int_equal(keel_bulk_begin(database(), target, "two", NULL, &newer), KEEL_ERROR_BULK_STATE);
    assert_int_equal(keel_bulk_begin(database(), target, "three", NULL, &newer), 0);
    assert_int_equal(abandon(target, "three"), 0);
    assert_int_equal(keel_bulk_finish(newer), KEEL_ERROR_LEASE_LOST);
    keel_bulk_close(newer);
    assert_int_equal(activate(target, "two"), KEEL_ERROR_BULK_STATE);
    assert_int_equal(validate(target, "two"), KEEL_ERROR_BULK_STATE);
    keel_directory_close(target);
}

/* ---- Validating ---- */

static void write_pair(const keel_subspace *rows, keel_bytes key, const char *value) {
    uint8_t full[200];
    FDBTransaction *tr = begin();
    memcpy(full, rows->prefix, rows->length);
    memcpy(full + rows->length, key.data, key.length);
    if (value)
        fdb_transaction_set(tr, full, (int)(rows->length + key.length), (const uint8_t *)value, (int)strlen(value));
    else
        fdb_transaction_clear(tr, full, (int)(rows->length + key.length));
    commit(tr);
}

static void mismatches(void **state) {
    (void)state;
    keel_directory *target = open_target("mismatches");
    struct input input = {.rows = 300, .pairs = 1};
    uint8_t key[64], next_key[64];
    char value[64], other[64];
    keel_bulk_report report;
    assert_int_equal(load(target, "one", NULL, &input), 0);
    keel_subspace rows = rows_of(target, "one");
    value_of(&input, 7, 0, value);
    memcpy(other, value, sizeof other);
    other[0] ^= 1; /* one bit */
    for (int round = 0; round < 4; round++) {
        keel_bytes at = round == 2 ? text("new") : key_of(&input, 7, 0, key);
        write_pair(&rows, at, round == 0 ? other : round == 1 ? NULL : round == 2 ? "" : "value of row 8, pair 0");
        if (round == 3) /* two values exchanged: the same bytes, the same number */
            write_pair(&rows, key_of(&input, 8, 0, next_key), value);
        assert_int_equal(keel_bulk_validate(database(), target, "one", NULL, NULL, &report), KEEL_ERROR_BULK_MISMATCH);
        assert_int_equal(report.expected.pairs, 300);
        assert_int_equal(report.found.pairs, round == 1 ? 299 : round == 2 ? 301 : 300);
        assert_int_not_equal(report.expected.checksum, report.found.checksum);
        assert_int_equal(report.expected.bytes == report.found.bytes, round == 0 || round == 3);
        assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_NOT_VALIDATED);
        write_pair(&rows, at, round == 2 ? NULL : value);
        if (round == 3)
            write_pair(&rows, key_of(&input, 8, 0, next_key), "value of row 8, pair 0");
        assert_int_equal(validate(target, "one"), 0);
        assert_int_equal(look(target, "one").state, KEEL_BULK_VALIDATED);
    }
    write_pair(&rows, text("new"), ""); /* validated, then changed, then looked at again: no longer validated */
    assert_int_equal(validate(target, "one"), KEEL_ERROR_BULK_MISMATCH);
    assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_NOT_VALIDATED);
    keel_directory_close(target);
}

static fdb_error_t stop_at_once(void *context, const keel_bulk_report *report) {
    (void)report;
    return *(int *)context;
}

static void validating_can_be_stopped(void **state) {
    (void)state;
    keel_directory *target = open_target("stopped");
    struct input input = {.rows = 10, .pairs = 1};
    int code = 123456;
    assert_int_equal(load(target, "one", NULL, &input), 0);
    assert_int_equal(keel_bulk_validate(database(), target, "one", stop_at_once, &code, NULL), code);
    assert_int_equal(look(target, "one").state, KEEL_BULK_READY);
    keel_directory_close(target);
}

/* ---- Flipping ---- */

static void prepare(const keel_directory *target, const char *name, const struct input *input) {
    assert_int_equal(load(target, name, NULL, input), 0);
    assert_int_equal(validate(target, name), 0);
}

static void flips(void **state) {
    (void)state;
    keel_directory *target = open_target("flips");
    struct input input = {.rows = 20, .pairs = 1};
    prepare(target, "one", &input);
    prepare(target, "two", &input);
    assert_int_equal(activate(target, "one"), 0);
    /* It composes: with an audit record, and with what is undone together with it. */
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_activate(tr, target, "two"), 0);
    keel_subspace rows;
    assert_int_equal(keel_bulk_active(tr, target, &rows), 0); /* its own flip is seen inside */
    keel_subspace two = rows_of(target, "two");
    assert_memory_equal(rows.prefix, two.prefix, two.length);
    fdb_transaction_destroy(tr);
    assert_active(target, "one");
    assert_list(target, "one active; two validated; ");
    assert_int_equal(activate(target, "two"), 0);
    assert_list(target, "one replaced; two active; ");
    assert_int_equal(activate(target, "one"), 0); /* back */
    assert_list(target, "one active; two replaced; ");
    keel_subspace space, queue;
    assert_int_equal(keel_directory_subspace(target, &space), 0);
    assert_int_equal(keel_subspace_nested(&space, KEEL_TUPLE("cleanup"), &queue), 0);
    tr = begin();
    assert_int_equal(count_rows(tr, &queue), 1); /* the one that is used again is not in it */
    fdb_transaction_destroy(tr);
    assert_int_equal(abandon(target, "two"), 0);
    assert_list(target, "one active; two replaced; ");
    assert_int_equal(keel_bulk_cleanup(database(), target, 0, NULL, NULL, NULL), 0);
    assert_list(target, "one active; ");
    assert_active(target, "one");
    assert_int_equal(activate(target, "two"), KEEL_ERROR_NOT_FOUND);
    keel_directory_close(target);
}

/* A reader that relies on what is active conflicts with a flip. */
static void readers_conflict(void **state) {
    (void)state;
    keel_directory *target = open_target("conflict");
    struct input input = {.rows = 20, .pairs = 1};
    keel_subspace rows;
    prepare(target, "one", &input);
    prepare(target, "two", &input);
    assert_int_equal(activate(target, "one"), 0);
    FDBTransaction *reader = begin();
    assert_int_equal(keel_bulk_active(reader, target, &rows), 0);
    fdb_transaction_set(reader, (const uint8_t *)"result", 6, (const uint8_t *)"", 0);
    assert_int_equal(activate(target, "two"), 0);
    assert_int_equal(try_commit(reader), 1020);
    keel_directory_close(target);
}

/* Threads load, flip and clean up one target; readers must see all of one load. */
enum { RACE_LOADS = 6, RACE_ROWS = 300 };

static atomic_int racing;

static fdb_error_t read_state(FDBTransaction *tr, void *context) {
    keel_subspace rows;
    const FDBKeyValue *found;
    int count;
    fdb_bool_t more = 0;
    keel_range range;
    fdb_error_t error = keel_bulk_active(tr, context, &rows);
    if (error == KEEL_ERROR_NOT_FOUND)
        return 0;
    if (!error)
        error = keel_subspace_range(&rows, KEEL_TUPLE(), &range);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &found, &count, &more);
    if (!error) {
        bool whole = count == RACE_ROWS;
        for (int i = 0; i < count && whole; i++)
            whole = found[i].value_length == found[0].value_length &&
                    memcmp(found[i].value, found[0].value, (size_t)found[0].value_length) == 0;
        if (!whole)
            error = 100000;
    }
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t flip_named(FDBTransaction *tr, void *context) {
    void **both = context;
    return keel_bulk_activate(tr, both[0], both[1]);
}

static fdb_error_t load_and_flip(const keel_directory *target, const char *name) {
    keel_bulk_options options = {.batch_bytes = 1500};
    keel_bulk *bulk = NULL;
    fdb_error_t error = keel_bulk_begin(database(), target, name, &options, &bulk);
    for (int i = 0; i < RACE_ROWS && !error; i++) {
        uint8_t key[16];
        size_t length;
        error = keel_tuple_pack(KEEL_TUPLE(i), key, sizeof key, &length);
        if (!error)
            error = keel_bulk_set(bulk, keel_bytes_of(key, length), text(name));
        if (!error)
            error = keel_bulk_row(bulk, keel_bytes_of(&i, sizeof i));
    }
    if (!error)
        error = keel_bulk_finish(bulk);
    keel_bulk_close(bulk);
    if (!error)
        error = validate(target, name);
    void *both[] = {(void *)target, (void *)name};
    return error ? error : keel_run(database(), flip_named, both);
}

static fdb_error_t race(int number, void *context) {
    fdb_error_t error = 0;
    if (number >= 2) {
        while (atomic_load(&racing) > 0 && !error)
            error = number == 2 ? keel_bulk_cleanup(database(), context, 0, NULL, NULL, NULL)
                                : keel_run_read(database(), read_state, context);
        return error;
    }
    for (int i = 0; i < RACE_LOADS && !error; i++) {
        char name[40];
        snprintf(name, sizeof name, "load %d of thread %d", i, number);
        error = load_and_flip(context, name);
    }
    atomic_fetch_sub(&racing, 1);
    return error;
}

static void races(void **state) {
    (void)state;
    keel_directory *target = open_target("races");
    char name[KEEL_BULK_NAME_MAX + 1];
    racing = 2;
    in_threads(6, race, target); /* two load, one cleans up, three read */
    FDBTransaction *tr = begin();
    assert_int_equal(keel_bulk_active_name(tr, target, name), 0);
    fdb_transaction_destroy(tr);
    assert_int_equal(keel_bulk_cleanup(database(), target, 0, NULL, NULL, NULL), 0);
    char expected[300];
    snprintf(expected, sizeof expected, "%s active; ", name);
    assert_list(target, expected);
    keel_directory_close(target);
}

/* ---- Cleaning up ---- */

static fdb_error_t stop_cleaning(void *context, const keel_bulk_cleaning *report) {
    int *countdown = context;
    assert_true(report->transactions > 0);
    return --*countdown == 0 ? 123456 : 0;
}

static void cleanup(void **state) {
    (void)state;
    keel_directory *target = open_target("cleanup");
    struct input large = {.rows = 25000, .pairs = 1, .sorted = true}, small = {.rows = 5, .pairs = 1};
    keel_bulk_cleaning report;
    keel_subspace space;
    FDBTransaction *tr;
    prepare(target, "one", &large);
    prepare(target, "two", &small);
    assert_int_equal(activate(target, "one"), 0);
    assert_int_equal(activate(target, "two"), 0);
    assert_int_equal(load(target, "three", NULL, &small), 0);
    assert_int_equal(abandon(target, "three"), 0);
    assert_int_equal(abandon(target, "three"), 0);
    assert_int_equal(keel_bulk_cleanup(database(), target, 3600000, NULL, NULL, &report), 0); /* too young */
    assert_int_equal(report.loads, 0);
    assert_int_equal(report.transactions, 0);
    assert_list(target, "one replaced; three abandoned; two active; ");
    for (int round = 0; round < 2; round++) { /* cut off after one piece, twice */
        int countdown = 1;
        assert_int_equal(keel_bulk_cleanup(database(), target, 0, stop_cleaning, &countdown, NULL), 123456);
    }
    assert_list(target, "one removing; three abandoned; two active; ");
    assert_int_equal(activate(target, "one"), KEEL_ERROR_BULK_STATE);
    assert_int_equal(keel_bulk_cleanup(database(), target, 0, NULL, NULL, &report), 0);
    assert_int_equal(report.loads, 2);
    assert_list(target, "two active; ");
    assert_int_equal(keel_bulk_cleanup(database(), target, 0, NULL, NULL, &report), 0);
    assert_int_equal(report.loads, 0);
    assert_active(target, "two");
    assert_int_equal(keel_directory_subspace(target, &space), 0);
    tr = begin();
    assert_int_equal(count_rows(tr, &space), 3); /* the pointer, the load, its progress */
    int exists = 1;
    assert_int_equal(keel_directory_exists(tr, target, KEEL_PATH("load", "one"), &exists), 0);
    assert_false(exists);
    fdb_transaction_destroy(tr);
    prepare(target, "one", &small); /* the name is free again */
    assert_int_equal(activate(target, "one"), 0);
    keel_directory_close(target);
}

static fdb_error_t clean(int number, void *context) {
    (void)number;
    return keel_bulk_cleanup(database(), context, 0, NULL, NULL, NULL);
}

static void cleaners(void **state) {
    (void)state;
    keel_directory *target = open_target("cleaners");
    struct input input = {.rows = 12000, .pairs = 1, .sorted = true};
    for (int round = 0; round < 3; round++) {
        assert_int_equal(load(target, "one", NULL, &input), 0);
        assert_int_equal(abandon(target, "one"), 0);
        in_threads(4, clean, target);
        assert_list(target, "");
    }
    keel_directory_close(target);
}

static void stored_by_others(void **state) {
    (void)state;
    keel_directory *target = open_target("stored");
    struct input input = {.rows = 5, .pairs = 1};
    keel_subspace space, rows;
    uint8_t key[64];
    size_t length;
    prepare(target, "one", &input);
    assert_int_equal(activate(target, "one"), 0);
    assert_int_equal(keel_directory_subspace(target, &space), 0);
    assert_int_equal(keel_subspace_pack(&space, KEEL_TUPLE("active"), key, sizeof key, &length), 0);
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"\x05", 1);
    assert_int_equal(keel_bulk_active(tr, target, &rows), KEEL_ERROR_STORED_FORMAT);
    fdb_transaction_destroy(tr);
    keel_directory_close(target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states),
        cmocka_unit_test(arguments),
        cmocka_unit_test(limits),
        cmocka_unit_test(half_a_row_is_no_end),
        cmocka_unit_test(nothing),
        cmocka_unit_test(resuming),
        cmocka_unit_test(gaps),
        cmocka_unit_test(other_input),
        cmocka_unit_test(unknown_results),
        cmocka_unit_test(late_results),
        cmocka_unit_test(refused),
        cmocka_unit_test(skipped),
        cmocka_unit_test(replaced_pairs),
        cmocka_unit_test(unchecked),
        cmocka_unit_test(many_questions),
        cmocka_unit_test(fencing),
        cmocka_unit_test(mismatches),
        cmocka_unit_test(validating_can_be_stopped),
        cmocka_unit_test(flips),
        cmocka_unit_test(readers_conflict),
        cmocka_unit_test(races),
        cmocka_unit_test(cleanup),
        cmocka_unit_test(cleaners),
        cmocka_unit_test(stored_by_others),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
