/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory layer on a database in memory: the operations and every error they have, manual
 * prefixes, versions, the bytes in the database, conflicts, large trees. Partitions are in
 * test_directory_partitions.c, the allocator in test_directory_allocator.c, random sequences of
 * operations against a reference model in test_directory_model.c, failing memory and reads in
 * test_directory_faults.c.
 */
#include "directory_support.h"

/* ---- Operations ---- */

static void test_create_open_list(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *users = NULL, *again = NULL, *app = NULL, *inner = NULL;

    assert_string_equal(list(tr, NULL, KEEL_PATH()), "");
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH("app"), KEEL_NO_LAYER, &users),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_null(users);
    assert_int_equal(keel_directory_create(tr, NULL, KEEL_PATH("app", "users"), KEEL_LAYER("table"),
                                           NULL, &users),
                     0);
    assert_path(users, KEEL_PATH("app", "users"));
    assert_text(keel_directory_layer_of(users), "table");
    assert_false(keel_directory_is_partition(users));
    commit(tr);

    tr = begin();
    assert_int_equal(
        keel_directory_open(tr, NULL, KEEL_PATH("app", "users"), KEEL_LAYER("table"), &again), 0);
    assert_bytes(prefix_of(again), prefix_of(users).data, prefix_of(users).length);
    app = make(tr, NULL, KEEL_PATH("app"), "");
    assert_text(keel_directory_layer_of(app), "");
    assert_string_equal(list(tr, app, KEEL_PATH()), "users ");
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "app ");
    assert_string_equal(list(tr, NULL, KEEL_PATH("app")), "users ");
    assert_true(exists(tr, app, KEEL_PATH("users")));
    assert_true(exists(tr, app, KEEL_PATH()));
    assert_false(exists(tr, app, KEEL_PATH("users", "users")));
    assert_true(exists(tr, NULL, KEEL_PATH()));
    inner = make(tr, users, KEEL_PATH("a", "b"), "");
    assert_path(inner, KEEL_PATH("app", "users", "a", "b"));
    /* An opened directory opens itself. */
    keel_directory_close(again);
    assert_int_equal(keel_directory_open(tr, users, KEEL_PATH(), KEEL_NO_LAYER, &again), 0);
    assert_path(again, KEEL_PATH("app", "users"));
    commit(tr);
    keel_directory_close(users);
    keel_directory_close(again);
    keel_directory_close(app);
    keel_directory_close(inner);
    keel_directory_close(NULL);
}

static void test_create_open_errors(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *directory = NULL;
    keel_bytes prefix = BYTES("abc"), bad = BYTES("\xc3\x28"), none = {NULL, 3};
    make_closed(tr, NULL, KEEL_PATH("a"), "one");
    assert_int_equal(
        keel_directory_create(tr, NULL, KEEL_PATH("a"), KEEL_LAYER("two"), NULL, &directory),
        KEEL_ERROR_DIRECTORY_EXISTS);
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH("a"), KEEL_LAYER("two"), &directory),
                     KEEL_ERROR_DIRECTORY_LAYER);
    assert_int_equal(
        keel_directory_create_or_open(tr, NULL, KEEL_PATH("a"), KEEL_LAYER("on"), &directory),
        KEEL_ERROR_DIRECTORY_LAYER);
    assert_int_equal(
        keel_directory_create_or_open(tr, NULL, KEEL_PATH(), KEEL_NO_LAYER, &directory),
        KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH(), KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(
        keel_directory_create(tr, NULL, KEEL_PATH(), KEEL_NO_LAYER, &prefix, &directory),
        KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES);
    assert_int_equal(
        keel_directory_create(tr, NULL, KEEL_PATH("a"), KEEL_NO_LAYER, &prefix, &directory),
        KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES);
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH("b", "c"), KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(keel_directory_open(tr, NULL, (keel_path){&bad, 1}, KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_NOT_UTF8);
    assert_int_equal(
        keel_directory_open(tr, NULL, (keel_path){&none, 1}, KEEL_NO_LAYER, &directory),
        KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_open(tr, NULL, (keel_path){NULL, 1}, KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH("a"), none, &directory),
                     KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_open(NULL, NULL, KEEL_PATH("a"), KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_list(tr, NULL, KEEL_PATH("b"), join_name, NULL),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(keel_directory_list(tr, NULL, KEEL_PATH(), NULL, NULL), KEEL_ERROR_ARGUMENT);
    assert_null(directory);
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "a ");
    keel_bytes found;
    keel_subspace subspace;
    assert_int_equal(
        keel_directory_prefix(keel_directory_root(keel_directory_layer_default()), &found),
        KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(
        keel_directory_subspace(keel_directory_root(keel_directory_layer_default()), &subspace),
        KEEL_ERROR_DIRECTORY_ROOT);
    fdb_transaction_destroy(tr);
}

static fdb_error_t stop_at_second(void *context, keel_bytes name) {
    (void)name;
    return ++*(int *)context == 2 ? 123456 : 0;
}

static void test_names(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_bytes odd[] = {BYTES("\0"), BYTES(""), BYTES("z\0y"), BYTES("\xf0\x9f\x90\x9f")};
    for (size_t i = 0; i < 4; i++) {
        keel_directory *directory;
        assert_int_equal(keel_directory_create(tr, NULL, (keel_path){&odd[i], 1}, KEEL_NO_LAYER,
                                               NULL, &directory),
                         0);
        assert_path(directory, (keel_path){&odd[i], 1});
        keel_directory_close(directory);
        assert_true(exists(tr, NULL, (keel_path){&odd[i], 1}));
    }
    char *text = calloc(1, 3000);
    memset(text, 'x', 2999);
    make_closed(tr, NULL, KEEL_PATH(text, "below", text), "");
    assert_true(exists(tr, NULL, KEEL_PATH(text, "below", text)));
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH(text)), 0);
    free(text);
    int visits = 0;
    assert_int_equal(keel_directory_list(tr, NULL, KEEL_PATH(), stop_at_second, &visits), 123456);
    assert_int_equal(visits, 2);
    commit(tr);
}

static void test_move(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *a = make(tr, NULL, KEEL_PATH("a"), "tag"), *moved = NULL, *again = NULL;
    make_closed(tr, a, KEEL_PATH("b", "c"), "");
    make_closed(tr, NULL, KEEL_PATH("d"), "");
    assert_int_equal(keel_directory_move(tr, NULL, KEEL_PATH("a"), KEEL_PATH("d", "e"), &moved), 0);
    assert_path(moved, KEEL_PATH("d", "e"));
    assert_text(keel_directory_layer_of(moved), "tag");
    assert_bytes(prefix_of(moved), prefix_of(a).data, prefix_of(a).length);
    assert_false(exists(tr, NULL, KEEL_PATH("a")));
    assert_false(exists(tr, a, KEEL_PATH()));
    assert_true(exists(tr, NULL, KEEL_PATH("d", "e", "b", "c")));
    assert_int_equal(keel_directory_move_to(tr, moved, KEEL_PATH("x"), &again), 0);
    assert_path(again, KEEL_PATH("x"));
    assert_path(moved, KEEL_PATH("d", "e"));
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "d x ");
    assert_int_equal(keel_directory_move(tr, again, KEEL_PATH("b", "c"), KEEL_PATH("c"), NULL), 0);
    assert_string_equal(list(tr, again, KEEL_PATH()), "b c ");
    commit(tr);
    keel_directory_close(a);
    keel_directory_close(moved);
    keel_directory_close(again);
}

static void test_move_errors(void **state) {
    (void)state;
    static const struct move_case cases[] = {
        {"a", "a", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"a", "a/b/c", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"", "q", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"no", "no/x", KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF},
        {"no", "d", KEEL_ERROR_DIRECTORY_MISSING},
        {"a", "d", KEEL_ERROR_DIRECTORY_EXISTS},
        {"a", "", KEEL_ERROR_DIRECTORY_EXISTS},
        {"a/b", "a", KEEL_ERROR_DIRECTORY_EXISTS},
        {"a", "no/x", KEEL_ERROR_DIRECTORY_PARENT_MISSING},
        {"a", "d/no/x", KEEL_ERROR_DIRECTORY_PARENT_MISSING},
        {"a", "\xff", KEEL_ERROR_NOT_UTF8},
        {"\xff", "a", KEEL_ERROR_NOT_UTF8},
    };
    FDBTransaction *tr = begin();
    make_closed(tr, NULL, KEEL_PATH("a", "b"), "");
    make_closed(tr, NULL, KEEL_PATH("d"), "");
    refuse_moves(tr, NULL, cases, sizeof cases / sizeof cases[0]);
    assert_int_equal(keel_directory_move(tr, NULL, KEEL_PATH("a"), (keel_path){NULL, 1}, NULL),
                     KEEL_ERROR_ARGUMENT);
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "a d ");
    fdb_transaction_destroy(tr);
}

static void test_move_to_errors(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *b = make(tr, NULL, KEEL_PATH("a", "b"), ""), *moved = NULL;
    keel_directory *root = keel_directory_root(keel_directory_layer_default());
    keel_bytes bad = BYTES("\xff");
    make_closed(tr, NULL, KEEL_PATH("d"), "");
    assert_int_equal(keel_directory_move_to(tr, root, KEEL_PATH("x"), &moved),
                     KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(keel_directory_move_to(tr, b, KEEL_PATH("a", "b", "c"), &moved),
                     KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF);
    assert_int_equal(keel_directory_move_to(tr, b, KEEL_PATH("d"), &moved),
                     KEEL_ERROR_DIRECTORY_EXISTS);
    assert_int_equal(keel_directory_move_to(tr, b, (keel_path){&bad, 1}, &moved),
                     KEEL_ERROR_NOT_UTF8);
    assert_int_equal(keel_directory_move_to(tr, NULL, KEEL_PATH("d"), &moved), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_remove(tr, b, KEEL_PATH()), 0);
    assert_int_equal(keel_directory_move_to(tr, b, KEEL_PATH("z"), &moved),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_null(moved);
    fdb_transaction_destroy(tr);
    keel_directory_close(b);
}

static void test_remove(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    int existed = -1;
    keel_directory *a = make(tr, NULL, KEEL_PATH("a"), ""),
                   *c = make(tr, NULL, KEEL_PATH("a", "b", "c"), "");
    keel_directory *other = make(tr, NULL, KEEL_PATH("other"), "");
    set(tr, prefix_of(c), "contents");
    set(tr, prefix_of(other), "stays");
    commit(tr);
    tr = begin();
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH()), KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(keel_directory_remove_if_exists(tr, NULL, KEEL_PATH(), &existed),
                     KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH("no")),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH("no", "no")),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(existed, -1);
    assert_int_equal(keel_directory_remove_if_exists(tr, a, KEEL_PATH("no"), &existed), 0);
    assert_int_equal(existed, 0);
    assert_int_equal(keel_directory_remove_if_exists(tr, a, KEEL_PATH(), &existed), 0);
    assert_int_equal(existed, 1);
    assert_int_equal(keel_directory_remove_if_exists(tr, a, KEEL_PATH(), NULL), 0);
    assert_int_equal(keel_directory_remove(tr, a, KEEL_PATH()), KEEL_ERROR_DIRECTORY_MISSING);
    commit(tr);
    tr = begin();
    uint8_t value[16];
    assert_int_equal(get(tr, prefix_of(c), value, 16), -1);
    assert_int_equal(get(tr, prefix_of(other), value, 16), 5);
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "other ");
    fdb_transaction_destroy(tr);
    keel_directory_close(a);
    keel_directory_close(c);
    keel_directory_close(other);
}

/* ---- The bytes in the database ---- */

static void test_layout(void **state) {
    (void)state;
    keel_directory_layer *layer;
    keel_bytes prefix = BYTES("p\0q");
    keel_directory *directory;
    uint8_t value[64];
    assert_int_equal(keel_directory_layer_create(BYTES("\xfe"), BYTES(""), 1, &layer), 0);
    FDBTransaction *tr = begin();
    assert_int_equal(keel_directory_create(tr, keel_directory_root(layer), KEEL_PATH("n"),
                                           KEEL_LAYER("L"), &prefix, &directory),
                     0);
    commit(tr);
    tr = begin();
    /* fe (b"\xfe", b"version") */
    assert_int_equal(get(tr, BYTES("\xfe\x01\xfe\x00\x01version\x00"), value, 64), 12);
    assert_memory_equal(value, "\1\0\0\0\0\0\0\0\0\0\0\0", 12);
    /* fe (b"\xfe", 0, u"n") */
    assert_int_equal(get(tr, BYTES("\xfe\x01\xfe\x00\x14\x02n\x00"), value, 64), 3);
    assert_memory_equal(value, "p\0q", 3);
    /* fe (b"p\0q", b"layer") */
    assert_int_equal(get(tr, BYTES("\xfe\x01p\x00\xffq\x00\x01layer\x00"), value, 64), 1);
    assert_memory_equal(value, "L", 1);
    assert_int_equal(count_keys(tr, BYTES(""), BYTES("\xff")), 3);
    keel_directory_close(directory);
    /* An allocated one: two more for the node, one counter, one taking. */
    directory = make(tr, keel_directory_root(layer), KEEL_PATH("m"), "");
    assert_int_equal(count_keys(tr, BYTES(""), BYTES("\xff")), 7);
    /* fe (b"\xfe", b"hca", 0, 0) */
    assert_int_equal(get(tr, BYTES("\xfe\x01\xfe\x00\x01hca\x00\x14\x14"), value, 64), 8);
    assert_memory_equal(value, "\1\0\0\0\0\0\0\0", 8);
    /* fe (b"\xfe", b"hca", 1) + the prefix itself */
    uint8_t taking[32] = "\xfe\x01\xfe\x00\x01hca\x00\x15\x01";
    keel_bytes allocated = prefix_of(directory);
    assert_true(allocated.length == 1 || allocated.length == 2);
    memcpy(taking + 11, allocated.data, allocated.length);
    assert_int_equal(get(tr, keel_bytes_of(taking, 11 + allocated.length), value, 64), 0);
    fdb_transaction_destroy(tr);
    keel_directory_close(directory);
    keel_directory_layer_destroy(layer);
}

static void set_version(FDBTransaction *tr, const uint8_t *version, int length) {
    keel_bytes key = BYTES("\xfe\x01\xfe\x00\x01version\x00");
    fdb_transaction_set(tr, key.data, (int)key.length, version, length);
}

static void test_version_written(void **state) {
    (void)state;
    keel_bytes key = BYTES("\xfe\x01\xfe\x00\x01version\x00");
    uint8_t version[12];
    FDBTransaction *tr = begin();
    /* Reading does not write it; a call that writes does, even one that is refused. */
    assert_true(exists(tr, NULL, KEEL_PATH()));
    assert_int_equal(get(tr, key, version, 12), -1);
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH()), KEEL_ERROR_DIRECTORY_ROOT);
    assert_int_equal(get(tr, key, version, 12), 12);
    fdb_transaction_destroy(tr);
}

static void test_version_newer_minor(void **state) {
    (void)state;
    static const uint8_t version[12] = {1, 0, 0, 0, 1, 0, 0, 0, 9}; /* 1.1.9: read only */
    keel_directory *directory = NULL;
    FDBTransaction *tr = begin();
    make_closed(tr, NULL, KEEL_PATH("a"), "");
    set_version(tr, version, 12);
    assert_true(exists(tr, NULL, KEEL_PATH("a")));
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "a ");
    make_closed(tr, NULL, KEEL_PATH("a"), "");
    assert_int_equal(
        keel_directory_create_or_open(tr, NULL, KEEL_PATH("b"), KEEL_NO_LAYER, &directory),
        KEEL_ERROR_DIRECTORY_READ_ONLY);
    assert_int_equal(
        keel_directory_create(tr, NULL, KEEL_PATH("a"), KEEL_NO_LAYER, NULL, &directory),
        KEEL_ERROR_DIRECTORY_EXISTS);
    assert_int_equal(keel_directory_open(tr, NULL, KEEL_PATH("b"), KEEL_NO_LAYER, &directory),
                     KEEL_ERROR_DIRECTORY_MISSING);
    assert_int_equal(keel_directory_move(tr, NULL, KEEL_PATH("a"), KEEL_PATH("a"), &directory),
                     KEEL_ERROR_DIRECTORY_READ_ONLY);
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH()), KEEL_ERROR_DIRECTORY_READ_ONLY);
    assert_null(directory);
    fdb_transaction_destroy(tr);
}

/* A newer major version, and something that is no version, are refused before all else. */
static void test_version_refused(void **state) {
    (void)state;
    keel_directory *directory = NULL;
    uint8_t version[13] = {0};
    FDBTransaction *tr = begin();
    make_closed(tr, NULL, KEEL_PATH("a"), "");
    for (int i = 0; i < 3; i++) {
        version[0] = i == 0 ? 2 : 1;
        set_version(tr, version, i == 0 ? 12 : i == 1 ? 11 : 13);
        int existing;
        keel_bytes prefix = BYTES("x");
        assert_int_equal(keel_directory_exists(tr, NULL, KEEL_PATH("a"), &existing),
                         KEEL_ERROR_DIRECTORY_VERSION);
        assert_int_equal(
            keel_directory_create(tr, NULL, KEEL_PATH(), KEEL_NO_LAYER, &prefix, &directory),
            KEEL_ERROR_DIRECTORY_VERSION);
        assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH()),
                         KEEL_ERROR_DIRECTORY_VERSION);
        assert_int_equal(keel_directory_move(tr, NULL, KEEL_PATH("a"), KEEL_PATH("a"), &directory),
                         KEEL_ERROR_DIRECTORY_VERSION);
    }
    /* An older major version is fine. */
    version[0] = 0;
    set_version(tr, version, 12);
    make_closed(tr, NULL, KEEL_PATH("b"), "");
    assert_null(directory);
    fdb_transaction_destroy(tr);
}

/* ---- Manual prefixes and other layers ---- */

static void test_manual_prefixes(void **state) {
    (void)state;
    keel_directory_layer *layer;
    keel_directory *directory = NULL;
    assert_int_equal(keel_directory_layer_create(BYTES("\xfe"), BYTES(""), 1, &layer), 0);
    keel_directory *root = keel_directory_root(layer);
    FDBTransaction *tr = begin();
    keel_bytes good = BYTES("abc");
    make_closed(tr, root, KEEL_PATH("allocated"), "");
    assert_int_equal(
        keel_directory_create(tr, root, KEEL_PATH("a", "b"), KEEL_NO_LAYER, &good, NULL), 0);

    struct {
        keel_bytes prefix;
        fdb_error_t error;
    } cases[] = {
        {BYTES(""), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("abc"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("ab"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("a"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("abcd"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("abc\0"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("\xfe"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("\xfe\x01"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
        {BYTES("\xff"), KEEL_ERROR_NO_SUCCESSOR},
        {BYTES("\xff\xff"), KEEL_ERROR_NO_SUCCESSOR},
        {BYTES("\x15"), KEEL_ERROR_DIRECTORY_PREFIX_IN_USE},
    };
    make_closed(tr, root, KEEL_PATH("another"), ""); /* at least one of them lies under 15 */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(keel_directory_create(tr, root, KEEL_PATH("x", "y"), KEEL_NO_LAYER,
                                               &cases[i].prefix, &directory),
                         cases[i].error);
    assert_null(directory);
    /* A refused prefix leaves no parent behind. */
    assert_false(exists(tr, root, KEEL_PATH("x")));
    assert_int_equal(
        keel_directory_create(tr, root, KEEL_PATH("a", "b"), KEEL_NO_LAYER, &good, &directory),
        KEEL_ERROR_DIRECTORY_EXISTS);
    /* Neighbours are free, keys in the way are no reason. */
    set(tr, BYTES("abd"), "");
    keel_bytes neighbours[] = {BYTES("abb"), BYTES("abd"), BYTES("ab\0"), BYTES("b")};
    const char *names[] = {"1", "2", "3", "4"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(keel_directory_create(tr, root, KEEL_PATH(names[i]), KEEL_NO_LAYER,
                                               &neighbours[i], NULL),
                         0);
    commit(tr);
    keel_directory_layer_destroy(layer);
}

/* Prefixes of all bytes 00 or mixed, up to the longest that a key with its node can have. */
static void test_long_prefixes(void **state) {
    (void)state;
    static const size_t lengths[] = {100, 159, 160, 161, 240, 511, 1000, 3000, 4500};
    keel_directory_layer *layer;
    assert_int_equal(keel_directory_layer_create(BYTES("nodes"), BYTES(""), 1, &layer), 0);
    keel_directory *root = keel_directory_root(layer);
    FDBTransaction *tr = begin();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t *bytes = calloc(1, lengths[i] + 1);
        bytes[0] = (uint8_t)('A' + i);
        keel_bytes prefix = {bytes, lengths[i]}, longer = {bytes, lengths[i] + 1},
                   shorter = {bytes, lengths[i] - 1};
        char name[2] = {(char)('a' + i), 0};
        keel_directory *directory, *opened, *inside;
        assert_int_equal(
            keel_directory_create(tr, root, KEEL_PATH(name), KEEL_NO_LAYER, &prefix, &directory),
            0);
        assert_int_equal(
            keel_directory_create(tr, root, KEEL_PATH("q"), KEEL_NO_LAYER, &longer, &opened),
            KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
        assert_int_equal(
            keel_directory_create(tr, root, KEEL_PATH("q"), KEEL_NO_LAYER, &shorter, &opened),
            KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
        assert_bytes(prefix_of(directory), bytes, lengths[i]);
        assert_int_equal(keel_directory_open(tr, root, KEEL_PATH(name), KEEL_NO_LAYER, &opened), 0);
        assert_bytes(prefix_of(opened), bytes, lengths[i]);
        keel_subspace subspace;
        fdb_error_t expected =
            lengths[i] > KEEL_SUBSPACE_PREFIX_MAX ? KEEL_ERROR_BUFFER_TOO_SMALL : 0;
        assert_int_equal(keel_directory_subspace(opened, &subspace), expected);
        inside = make(tr, directory, KEEL_PATH("in"), "");
        keel_directory_close(inside);
        assert_string_equal(list(tr, opened, KEEL_PATH()), "in ");
        keel_directory_close(directory);
        keel_directory_close(opened);
        free(bytes);
    }
    commit(tr);
    keel_directory_layer_destroy(layer);
}

/* A partition over a long prefix: its nodes repeat the prefix twice. */
static void test_long_partition(void **state) {
    (void)state;
    keel_directory_layer *layer;
    assert_int_equal(keel_directory_layer_create(BYTES("nodes"), BYTES(""), 1, &layer), 0);
    keel_directory *root = keel_directory_root(layer);
    FDBTransaction *tr = begin();
    uint8_t bytes[1200];
    memset(bytes, 'Z', 1200);
    keel_bytes prefix = {bytes, 1200};
    keel_directory *partition, *inside;
    assert_int_equal(keel_directory_create(tr, root, KEEL_PATH("partition"),
                                           KEEL_LAYER("partition"), &prefix, &partition),
                     0);
    inside = make(tr, partition, KEEL_PATH("1", "2"), "");
    assert_true(prefix_of(inside).length > 1200);
    assert_true(exists(tr, root, KEEL_PATH("partition", "1", "2")));
    commit(tr);
    tr = begin();
    assert_int_equal(keel_directory_remove(tr, root, KEEL_PATH("partition")), 0);
    assert_int_equal(count_keys(tr, prefix, BYTES("a")), 0);
    commit(tr);
    keel_directory_close(partition);
    keel_directory_close(inside);
    keel_directory_layer_destroy(layer);
}

/* The longest key is 10000 bytes; a directory that does not fit is an error at commit, never a
 * shorter key. */
static void test_too_long(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    char *text = calloc(1, 20001);
    memset(text, 'x', 20000);
    fdb_error_t error =
        keel_directory_create_or_open(tr, NULL, KEEL_PATH(text), KEEL_NO_LAYER, NULL);
    if (!error)
        error = keel_wait_destroy(fdb_transaction_commit(tr));
    assert_int_equal(error, 2102);
    fdb_transaction_destroy(tr);
    tr = begin();
    assert_string_equal(list(tr, NULL, KEEL_PATH()), "");
    fdb_transaction_destroy(tr);
    free(text);
}

static void test_other_subspaces(void **state) {
    (void)state;
    keel_directory_layer *one, *two;
    assert_int_equal(keel_directory_layer_create(BYTES("n1"), BYTES("c1"), 0, &one), 0);
    assert_int_equal(keel_directory_layer_create(BYTES("n2"), BYTES("c2"), 1, &two), 0);
    FDBTransaction *tr = begin();
    keel_directory *a = make(tr, keel_directory_root(one), KEEL_PATH("same"), "");
    keel_directory *b = make(tr, keel_directory_root(two), KEEL_PATH("same"), "");
    assert_memory_equal(prefix_of(a).data, "c1", 2);
    assert_memory_equal(prefix_of(b).data, "c2", 2);
    assert_false(exists(tr, NULL, KEEL_PATH("same")));
    /* Opened directories outlive their layer. */
    keel_directory_layer_destroy(one);
    make_closed(tr, a, KEEL_PATH("below"), "");
    assert_true(exists(tr, a, KEEL_PATH("below")));
    keel_directory_close(a);
    /* A given prefix need not lie under the content prefix. */
    keel_bytes prefix = BYTES("elsewhere");
    assert_int_equal(keel_directory_create(tr, keel_directory_root(two), KEEL_PATH("e"),
                                           KEEL_NO_LAYER, &prefix, NULL),
                     0);
    /* Contents all over the nodes: every prefix of 64 lies under n2 (…) or not; here nodes under
     * nothing: no prefix is free. */
    keel_directory_layer *none;
    assert_int_equal(keel_directory_layer_create(BYTES(""), BYTES("c3"), 1, &none), 0);
    assert_int_equal(keel_directory_create(tr, keel_directory_root(none), KEEL_PATH("x"),
                                           KEEL_NO_LAYER, NULL, NULL),
                     KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
    assert_int_equal(keel_directory_create(tr, keel_directory_root(none), KEEL_PATH("x"),
                                           KEEL_NO_LAYER, &prefix, NULL),
                     KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
    commit(tr);
    keel_directory_close(b);
    keel_directory_layer_destroy(two);
    keel_directory_layer_destroy(none);
    keel_directory_layer_destroy(NULL);
    keel_directory_layer_destroy(keel_directory_layer_default());
    keel_directory_close(keel_directory_root(keel_directory_layer_default()));
    assert_int_equal(keel_directory_layer_create(BYTES(""), BYTES(""), 0, NULL),
                     KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_directory_layer_create((keel_bytes){NULL, 1}, BYTES(""), 0, &none),
                     KEEL_ERROR_ARGUMENT);
}

/* The allocator wants a place that is taken: by plain keys, by a directory with a manual prefix. */
static void test_allocator_in_the_way(void **state) {
    (void)state;
    keel_directory_layer *layer;
    assert_int_equal(keel_directory_layer_create(BYTES("n"), BYTES("c"), 1, &layer), 0);
    keel_directory *root = keel_directory_root(layer), *directory = NULL;
    FDBTransaction *tr = begin();
    keel_bytes manual = BYTES("c");
    assert_int_equal(
        keel_directory_create(tr, root, KEEL_PATH("all"), KEEL_NO_LAYER, &manual, NULL), 0);
    assert_int_equal(
        keel_directory_create(tr, root, KEEL_PATH("x", "y"), KEEL_NO_LAYER, NULL, &directory),
        KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
    for (int i = 0; i < 64; i++) {
        uint8_t key[3] = {'c', 0x15, (uint8_t)i};
        set(tr, keel_bytes_of(key, i == 0 ? 2 : 3), "");
    }
    set(tr, BYTES("c\x14"), "");
    assert_int_equal(
        keel_directory_create(tr, root, KEEL_PATH("x", "y"), KEEL_NO_LAYER, NULL, &directory),
        KEEL_ERROR_DIRECTORY_PREFIX_NOT_EMPTY);
    assert_null(directory);
    assert_string_equal(list(tr, root, KEEL_PATH()), "all ");
    /* The parents of a directory with a manual prefix may not lie around or inside it. */
    fdb_transaction_reset(tr);
    keel_directory_layer *narrow;
    assert_int_equal(keel_directory_layer_create(BYTES("n"), BYTES("cc"), 1, &narrow), 0);
    assert_int_equal(keel_directory_create(tr, keel_directory_root(narrow), KEEL_PATH("x", "y"),
                                           KEEL_NO_LAYER, &manual, &directory),
                     KEEL_ERROR_DIRECTORY_PREFIX_IN_USE);
    assert_string_equal(list(tr, keel_directory_root(narrow), KEEL_PATH()), "");
    fdb_transaction_destroy(tr);
    keel_directory_layer_destroy(layer);
    keel_directory_layer_destroy(narrow);
}

/* ---- Conflicts ---- */

static fdb_error_t try_commit(FDBTransaction *tr) {
    fdb_error_t error = keel_wait_destroy(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    return error;
}

/* Two transactions that look and then write what the other has looked at: not_committed (1020),
 * unless one looked by snapshot. */
static void test_conflicts(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    make_closed(tr, NULL, KEEL_PATH("base"), "");
    commit(tr);
    for (int i = 0; i < 3; i++) {
        FDBTransaction *reader = begin(), *writer = begin();
        int found;
        if (i == 0)
            assert_int_equal(keel_directory_exists(reader, NULL, KEEL_PATH("x"), &found), 0);
        else if (i == 1)
            assert_int_equal(keel_directory_exists_snapshot(reader, NULL, KEEL_PATH("x"), &found),
                             0);
        else
            assert_int_equal(
                keel_directory_list_snapshot(reader, NULL, KEEL_PATH(), join_name, (char[1000]){0}),
                0);
        set(reader, BYTES("other"), "");
        make_closed(writer, NULL, KEEL_PATH("x"), "");
        commit(writer);
        assert_int_equal(try_commit(reader), i == 0 ? 1020 : 0);
        tr = begin();
        assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH("x")), 0);
        commit(tr);
    }
    /* Two that create different directories do not conflict; two that create the same do. */
    FDBTransaction *one = begin(), *two = begin(), *three = begin();
    keel_directory *a = make(one, NULL, KEEL_PATH("base", "1"), ""),
                   *b = make(two, NULL, KEEL_PATH("base", "2"), "");
    make_closed(three, NULL, KEEL_PATH("base", "1"), "");
    assert_int_equal(try_commit(one), 0);
    fdb_error_t error = try_commit(two);
    /* They may have drawn the same prefix: 1 in 64. */
    bool same = prefix_of(a).length == prefix_of(b).length &&
                memcmp(prefix_of(a).data, prefix_of(b).data, prefix_of(a).length) == 0;
    assert_int_equal(error, same ? 1020 : 0);
    assert_int_equal(try_commit(three), 1020);
    tr = begin();
    keel_directory *opened;
    assert_int_equal(
        keel_directory_open_snapshot(tr, NULL, KEEL_PATH("base", "1"), KEEL_NO_LAYER, &opened), 0);
    assert_bytes(prefix_of(opened), prefix_of(a).data, prefix_of(a).length);
    fdb_transaction_destroy(tr);
    keel_directory_close(opened);
    keel_directory_close(a);
    keel_directory_close(b);
}

/* ---- Large trees ---- */

enum { DEEP = 400, WIDE = 3000 };

static void test_deep_tree(void **state) {
    (void)state;
    keel_bytes names[DEEP];
    char texts[DEEP][16];
    for (int i = 0; i < DEEP; i++) {
        snprintf(texts[i], sizeof texts[i], "d%d", i);
        names[i] = keel_bytes_of_string(texts[i]);
    }
    FDBTransaction *tr = begin();
    make_closed(tr, NULL, (keel_path){names, DEEP}, "");
    make_closed(tr, NULL, (keel_path){names, DEEP / 2}, "");
    commit(tr);
    tr = begin();
    assert_true(exists(tr, NULL, (keel_path){names, DEEP}));
    assert_int_equal(keel_directory_remove(tr, NULL, (keel_path){names, 1}), 0);
    assert_false(exists(tr, NULL, (keel_path){names, 1}));
    commit(tr);
    tr = begin();
    /* Version and allocator are all that is left. */
    assert_int_equal(count_keys(tr, BYTES(""), BYTES("\xfe\x01\xfe\x00\x01hca\x00")), 0);
    assert_int_equal(count_keys(tr, BYTES("\xfe\x01\xfe\x00\x01version"), BYTES("\xff")), 1);
    fdb_transaction_destroy(tr);
}

static void test_wide_tree(void **state) {
    (void)state;
    keel_directory_layer *layer;
    assert_int_equal(keel_directory_layer_create(BYTES("n"), BYTES("c"), 1, &layer), 0);
    keel_directory *root = keel_directory_root(layer);
    FDBTransaction *tr = begin();
    make_closed(tr, root, KEEL_PATH("w"), "");
    char pad[200];
    memset(pad, 'p', sizeof pad);
    for (int i = 0; i < WIDE; i++) {
        snprintf(pad + 150, 50, "%05d", i);
        uint8_t bytes[6];
        snprintf((char *)bytes, sizeof bytes, "m%04x", (unsigned)i);
        keel_bytes prefix = {bytes, 5};
        assert_int_equal(
            keel_directory_create(tr, root, KEEL_PATH("w", pad), KEEL_NO_LAYER, &prefix, NULL), 0);
        if (i % 500 == 499) {
            commit(tr);
            tr = begin();
        }
    }
    int count = 0;
    assert_int_equal(keel_directory_list(tr, root, KEEL_PATH("w"), count_name, &count), 0);
    assert_int_equal(count, WIDE);
    assert_int_equal(keel_directory_remove(tr, root, KEEL_PATH("w")), 0);
    commit(tr);
    tr = begin();
    assert_int_equal(count_keys(tr, BYTES("m"), BYTES("n\x01m")), 0);
    assert_int_equal(count_keys(tr, BYTES("n\x01m"), BYTES("n\x01n")), 0);
    fdb_transaction_destroy(tr);
    keel_directory_layer_destroy(layer);
}

/* A tree damaged into a circle is removed like any other. */
static void test_circle(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    keel_directory *a = make(tr, NULL, KEEL_PATH("a"), ""), *b = make(tr, a, KEEL_PATH("b"), "");
    uint8_t key[64] = {0xfe};
    size_t length;
    assert_int_equal(
        keel_tuple_pack(KEEL_TUPLE(prefix_of(b), 0, "a"), key + 1, sizeof key - 1, &length), 0);
    fdb_transaction_set(tr, key, (int)length + 1, prefix_of(a).data, (int)prefix_of(a).length);
    assert_true(exists(tr, b, KEEL_PATH("a", "b", "a", "b", "a")));
    assert_int_equal(keel_directory_remove(tr, NULL, KEEL_PATH("a")), 0);
    assert_false(exists(tr, b, KEEL_PATH("a")));
    fdb_transaction_destroy(tr);
    keel_directory_close(a);
    keel_directory_close(b);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_create_open_list),
        TEST(test_create_open_errors),
        TEST(test_names),
        TEST(test_move),
        TEST(test_move_errors),
        TEST(test_move_to_errors),
        TEST(test_remove),
        TEST(test_layout),
        TEST(test_version_written),
        TEST(test_version_newer_minor),
        TEST(test_version_refused),
        TEST(test_manual_prefixes),
        TEST(test_long_prefixes),
        TEST(test_long_partition),
        TEST(test_too_long),
        TEST(test_other_subspaces),
        TEST(test_allocator_in_the_way),
        TEST(test_conflicts),
        TEST(test_deep_tree),
        TEST(test_wide_tree),
        TEST(test_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
