/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory layer when memory or the database fails: one scenario with every operation is run
 * again and again, with the first, the second, … allocation or answer of the database failing,
 * until it comes through. Each time the error must come back as it is, results must be untouched,
 * and no block of memory and no future may be left behind.
 *
 * The layer's files are compiled into this program, with their calls for memory and to the database
 * replaced by ones that count.
 */
#include "directory_support.h"

enum { PLANTED = 1037 }; /* process_behind, as an error of the database */

static long countdown = -1; /* until the failure; -1: never */
static long blocks, futures;

/* Is it this call's turn to fail? */
static bool fails(void) {
    return countdown >= 0 && countdown-- == 0;
}

static void *fault_malloc(size_t size) {
    void *block = fails() ? NULL : malloc(size);
    blocks += block != NULL;
    return block;
}

static void *fault_realloc(void *block, size_t size) {
    return fails() ? NULL : realloc(block, size);
}

static void fault_free(void *block) {
    blocks -= block != NULL;
    free(block);
}

static FDBFuture *fault_get(FDBTransaction *tr, const uint8_t *key, int length,
                            fdb_bool_t snapshot) {
    futures++;
    return fdb_transaction_get(tr, key, length, snapshot);
}

static FDBFuture *fault_get_range(FDBTransaction *tr, const uint8_t *begin_key, int begin_length,
                                  fdb_bool_t begin_equal, int begin_offset, const uint8_t *end_key,
                                  int end_length, fdb_bool_t end_equal, int end_offset, int limit,
                                  int target_bytes, FDBStreamingMode mode, int iteration,
                                  fdb_bool_t snapshot, fdb_bool_t reverse) {
    futures++;
    /* Pages of two, so that every listing has several. */
    return fdb_transaction_get_range(tr, begin_key, begin_length, begin_equal, begin_offset,
                                     end_key, end_length, end_equal, end_offset, limit ? limit : 2,
                                     target_bytes, mode, iteration, snapshot, reverse);
}

static void fault_destroy(FDBFuture *future) {
    futures--;
    fdb_future_destroy(future);
}

static fdb_error_t fault_get_value(FDBFuture *future, fdb_bool_t *present, const uint8_t **value,
                                   int *length) {
    return fails() ? PLANTED : fdb_future_get_value(future, present, value, length);
}

static fdb_error_t fault_get_pairs(FDBFuture *future, const FDBKeyValue **pairs, int *count,
                                   fdb_bool_t *more) {
    return fails() ? PLANTED : fdb_future_get_keyvalue_array(future, pairs, count, more);
}

static fdb_error_t fault_set_option(FDBTransaction *tr, FDBTransactionOption option,
                                    const uint8_t *value, int length) {
    return fails() ? PLANTED : fdb_transaction_set_option(tr, option, value, length);
}

static fdb_error_t fault_add_conflict_range(FDBTransaction *tr, const uint8_t *begin_key,
                                            int begin_length, const uint8_t *end_key,
                                            int end_length, FDBConflictRangeType type) {
    return fails() ? PLANTED
                   : fdb_transaction_add_conflict_range(tr, begin_key, begin_length, end_key,
                                                        end_length, type);
}

#define malloc fault_malloc
#define realloc fault_realloc
#define free fault_free
#define fdb_transaction_get fault_get
#define fdb_transaction_get_range fault_get_range
#define fdb_transaction_set_option fault_set_option
#define fdb_transaction_add_conflict_range fault_add_conflict_range
#define fdb_future_destroy fault_destroy
#define fdb_future_get_value fault_get_value
#define fdb_future_get_keyvalue_array fault_get_pairs
#define clear_between allocator_clear_between
#include "../../layers/allocator.c"
#undef clear_between
#include "../../layers/directory.c"
#include "../../layers/directory_key.c"
#include "../../layers/directory_node.c"
#include "../../layers/directory_object.c"
#undef malloc
#undef realloc
#undef free
#undef fdb_transaction_get
#undef fdb_transaction_get_range
#undef fdb_future_destroy

/* ---- The scenario ---- */

enum { OPENED_MAX = 16 };

static keel_directory *opened[OPENED_MAX];
static size_t opened_count;
static char long_name[400];

/* Takes what a call gave; on failure it must have given nothing. */
static fdb_error_t take(fdb_error_t error, keel_directory **directory) {
    if (error)
        assert_null(*directory);
    else
        opened[opened_count++] = *directory;
    *directory = NULL;
    return error;
}

static fdb_error_t opening_steps(FDBTransaction *tr, keel_directory *root) {
    keel_directory *directory = NULL;
    uint8_t bytes[400] = {'m'};
    keel_bytes prefix = keel_bytes_of(bytes, sizeof bytes);
    fdb_error_t error = take(keel_directory_create_or_open(tr, root, KEEL_PATH("a", long_name, "b"),
                                                           KEEL_LAYER("tag"), &directory),
                             &directory);
    if (!error)
        error = take(keel_directory_create(tr, root, KEEL_PATH("m", "n"), KEEL_NO_LAYER, &prefix,
                                           &directory),
                     &directory);
    if (!error)
        error = take(keel_directory_open(tr, root, KEEL_PATH("m", "n"), KEEL_NO_LAYER, &directory),
                     &directory);
    if (!error)
        error = take(keel_directory_create(tr, root, KEEL_PATH("p"), KEEL_LAYER("partition"), NULL,
                                           &directory),
                     &directory);
    if (!error)
        error = take(keel_directory_create_or_open(tr, root, KEEL_PATH("p", "q", "r"),
                                                   KEEL_LAYER("partition"), &directory),
                     &directory);
    if (!error)
        error = take(keel_directory_create_or_open(tr, opened[4], KEEL_PATH("s", "t"),
                                                   KEEL_NO_LAYER, &directory),
                     &directory);
    return error;
}

static fdb_error_t moving_steps(FDBTransaction *tr, keel_directory *root) {
    keel_directory *directory = NULL;
    fdb_error_t error = take(
        keel_directory_move(tr, root, KEEL_PATH("a", long_name), KEEL_PATH("a", "c"), &directory),
        &directory);
    if (!error)
        error = take(keel_directory_move(tr, root, KEEL_PATH("p", "q", "r", "s"),
                                         KEEL_PATH("p", "q", "r", "u"), &directory),
                     &directory);
    if (!error)
        error = take(keel_directory_move_to(tr, opened[4], KEEL_PATH("p", "v"), &directory),
                     &directory);
    return error;
}

static fdb_error_t looking_steps(FDBTransaction *tr, keel_directory *root) {
    int found = -1, count = 0;
    fdb_error_t error = keel_directory_exists(tr, root, KEEL_PATH("p", "v", "u", "t"), &found);
    if (error)
        assert_int_equal(found, -1);
    else
        assert_int_equal(found, 1);
    if (!error)
        error = keel_directory_list(tr, root, KEEL_PATH(), count_name, &count);
    if (!error)
        assert_int_equal(count, 3);
    return error;
}

static fdb_error_t removing_steps(FDBTransaction *tr, keel_directory *root) {
    int existed = -1;
    fdb_error_t error = keel_directory_remove(tr, root, KEEL_PATH("p", "v", "u"));
    if (!error)
        error = keel_directory_remove(tr, root, KEEL_PATH("a"));
    if (!error)
        error = keel_directory_remove_if_exists(tr, root, KEEL_PATH("p"), &existed);
    if (!error)
        assert_int_equal(existed, 1);
    return error;
}

static fdb_error_t scenario(FDBTransaction *tr) {
    keel_directory_layer *layer = NULL;
    uint8_t node[200] = {'n', 0};
    fdb_error_t error =
        keel_directory_layer_create(keel_bytes_of(node, sizeof node), BYTES("c"), 1, &layer);
    if (error)
        assert_null(layer);
    keel_directory *root = layer ? keel_directory_root(layer) : NULL;
    if (!error)
        error = opening_steps(tr, root);
    if (!error)
        error = moving_steps(tr, root);
    if (!error)
        error = looking_steps(tr, root);
    if (!error)
        error = removing_steps(tr, root);
    while (opened_count > 0)
        keel_directory_close(opened[--opened_count]);
    keel_directory_layer_destroy(layer);
    return error;
}

static void test_faults(void **state) {
    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    long failures = 0;
    for (fdb_error_t error = 1; error; failures++) {
        FDBTransaction *tr = begin();
        countdown = failures;
        error = scenario(tr);
        bool fired = countdown < 0;
        countdown = -1;
        if (error)
            assert_true(error == PLANTED || error == DIRECTORY_NO_MEMORY);
        assert_int_equal(fired, error != 0);
        assert_int_equal(blocks, 0);
        assert_int_equal(futures, 0);
        fdb_transaction_destroy(tr);
    }
    printf("test_directory_faults: %ld failures\n", failures - 1);
    assert_true(failures > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
