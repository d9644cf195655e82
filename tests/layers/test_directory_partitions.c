/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions of the directory layer: the layer inside them, paths that lead through them, what is
 * done to the partition itself, and what is refused.
 */
#include "directory_support.h"

static void test_partitions(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *p = make(tr, NULL, KEEL_PATH("p"), "partition"), *inside, *same, *deep;
    keel_bytes bytes;
    keel_subspace subspace;
    assert_true(keel_directory_is_partition(p));
    assert_text(keel_directory_layer_of(p), "partition");
    assert_int_equal(keel_directory_prefix(p, &bytes), KEEL_ERROR_DIRECTORY_PARTITION_ROOT);
    assert_int_equal(keel_directory_subspace(p, &subspace), KEEL_ERROR_DIRECTORY_PARTITION_ROOT);
    inside = make(tr, p, KEEL_PATH("a"), "");
    same = make(tr, NULL, KEEL_PATH("p", "a"), "");
    assert_path(inside, KEEL_PATH("p", "a"));
    assert_path(same, KEEL_PATH("p", "a"));
    assert_bytes(prefix_of(inside), prefix_of(same).data, prefix_of(same).length);
    assert_string_equal(list(tr, p, KEEL_PATH()), "a ");
    assert_string_equal(list(tr, NULL, KEEL_PATH("p")), "a ");
    /* Inside lies a layer of its own: its nodes and contents begin with the partition's prefix. */
    uint8_t value[16];
    int length = get(tr, BYTES("\xfe\x01\xfe\x00\x14\x02p\x00"), value, 16);
    assert_true(length > 0 && prefix_of(inside).length > (size_t)length);
    assert_memory_equal(prefix_of(inside).data, value, (size_t)length);
    /* Partitions in partitions, by path and by object. */
    deep = make(tr, p, KEEL_PATH("q", "r"), "partition");
    assert_path(deep, KEEL_PATH("p", "q", "r"));
    make_closed(tr, NULL, KEEL_PATH("p", "q", "r", "s", "t"), "tag");
    assert_string_equal(list(tr, deep, KEEL_PATH("s")), "t ");
    assert_true(exists(tr, inside, KEEL_PATH()));
    assert_true(exists(tr, p, KEEL_PATH()));
    assert_true(exists(tr, deep, KEEL_PATH()));
    assert_true(exists(tr, p, KEEL_PATH("q", "r", "s", "t")));
    assert_false(exists(tr, p, KEEL_PATH("q", "r", "s", "u")));
    /* A directory inside outlives the partition it was opened through. */
    keel_directory *last;
    assert_int_equal(keel_directory_open(tr, deep, KEEL_PATH("s"), KEEL_NO_LAYER, &last), 0);
    keel_directory_close(p);
    keel_directory_close(deep);
    make_closed(tr, last, KEEL_PATH("u"), "");
    assert_string_equal(list(tr, last, KEEL_PATH()), "t u ");
    commit(tr);
    keel_directory_close(inside);
    keel_directory_close(same);
    keel_directory_close(last);
}

/* p and q are partitions, with p/a in one of them, and out is beside them. */
struct partitions {
    keel_directory_layer *layer;
    keel_directory *root, *p, *q, *a;
};

static struct partitions make_partitions(FDBTransaction *tr) {
    struct partitions made;
    assert_int_equal(keel_directory_layer_create(BYTES("\xfe"), BYTES(""), 1, &made.layer), 0);
    made.root = keel_directory_root(made.layer);
    made.p = make(tr, made.root, KEEL_PATH("p"), "partition");
    made.q = make(tr, made.root, KEEL_PATH("q"), "partition");
    made.a = make(tr, made.p, KEEL_PATH("a"), "");
    make_closed(tr, made.root, KEEL_PATH("out"), "");
    return made;
}

static void close_partitions(struct partitions *made) {
    keel_directory_close(made->p);
    keel_directory_close(made->q);
    keel_directory_close(made->a);
    keel_directory_layer_destroy(made->layer);
}

static void test_partition_opening_errors(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct partitions made = make_partitions(tr);
    keel_directory *directory = NULL;
    keel_bytes prefix = BYTES("xyz");
    /* On the partition itself, an empty path is the root inside, where opening is concerned. */
    assert_int_equal(keel_directory_open(tr, made.p, KEEL_PATH(), KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(
        keel_directory_create(tr, made.p, KEEL_PATH(), KEEL_NO_LAYER, NULL, &directory),
        KEEL_ERROR_DIRECTORY_ROOT);
    /* Manual prefixes are for outside only. */
    assert_int_equal(
        keel_directory_create(tr, made.p, KEEL_PATH("m"), KEEL_NO_LAYER, &prefix, &directory),
        KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES);
    assert_int_equal(keel_directory_create(tr, made.root, KEEL_PATH("p", "m"), KEEL_NO_LAYER,
                                           &prefix, &directory),
                     KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES);
    assert_int_equal(
        keel_directory_create(tr, made.a, KEEL_PATH("m"), KEEL_NO_LAYER, &prefix, &directory),
        KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES);
    assert_null(directory);
    fdb_transaction_destroy(tr);
    close_partitions(&made);
}

static void test_partition_move_errors(void **state) {
    (void)state;
    static const struct move_case cases[] = {
        {"p/a", "out/a", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"out", "p/out", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"p/a", "q/a", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"q", "p/q", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"p/a", "p", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"p/a", "", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"no", "p/x", KEEL_ERROR_DIRECTORY_MISSING},
        {"p/no", "p/x", KEEL_ERROR_DIRECTORY_MISSING},
        {"p", "p/x", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"p/a", "p/a/x", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"p/a", "p/no/x", KEEL_ERROR_DIRECTORY_PARENT_MISSING},
    };
    static const struct move_case inside[] = {{"", "x", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF}};
    static const struct move_case to[] = {
        {"", "a", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"", "", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"", "q/a", KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS},
        {"", "p", KEEL_ERROR_DIRECTORY_EXISTS},
    };
    FDBTransaction *tr = begin();
    struct partitions made = make_partitions(tr);
    refuse_moves(tr, made.root, cases, sizeof cases / sizeof cases[0]);
    refuse_moves(tr, made.p, inside, 1);
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        keel_bytes space[8];
        keel_directory *moved = NULL;
        assert_int_equal(keel_directory_move_to(tr, made.a, split(to[i].to, space), &moved),
                         to[i].error);
        assert_null(moved);
    }
    fdb_transaction_destroy(tr);
    close_partitions(&made);
}

/* Moves inside a partition, by path from the top and from the partition; moving and removing the
   partition itself. */
static void test_partition_moves(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct partitions made = make_partitions(tr);
    keel_directory *moved;
    assert_int_equal(
        keel_directory_move(tr, made.root, KEEL_PATH("p", "a"), KEEL_PATH("p", "b"), &moved), 0);
    assert_path(moved, KEEL_PATH("p", "b"));
    keel_directory_close(moved);
    assert_int_equal(keel_directory_move(tr, made.p, KEEL_PATH("b"), KEEL_PATH("c"), NULL), 0);
    assert_int_equal(keel_directory_move_to(tr, made.p, KEEL_PATH("out", "p2"), &moved), 0);
    assert_true(keel_directory_is_partition(moved));
    assert_path(moved, KEEL_PATH("out", "p2"));
    assert_string_equal(list(tr, moved, KEEL_PATH()), "c ");
    /* The old object still reaches the inside, whose keys have not moved; it is gone itself. */
    assert_string_equal(list(tr, made.p, KEEL_PATH()), "c ");
    assert_false(exists(tr, made.p, KEEL_PATH()));
    assert_int_equal(keel_directory_remove(tr, made.p, KEEL_PATH()), KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(keel_directory_remove(tr, moved, KEEL_PATH("c")), 0);
    assert_int_equal(keel_directory_remove(tr, moved, KEEL_PATH()), 0);
    assert_false(exists(tr, made.root, KEEL_PATH("out", "p2")));
    assert_int_equal(keel_directory_remove(tr, made.root, KEEL_PATH("q", "no")),
                     KEEL_ERROR_DIRECTORY_MISSING);
    commit(tr);
    keel_directory_close(moved);
    close_partitions(&made);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_partitions),
        TEST(test_partition_opening_errors),
        TEST(test_partition_move_errors),
        TEST(test_partition_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
