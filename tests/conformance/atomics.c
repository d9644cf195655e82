/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations. Every case of the tables is tried wherever a value can stand when the
 * operation meets it: committed before, set in the same transaction, missing, cleared in the same
 * transaction by key or by range; read back before the commit and after it.
 */
#include "support.h"

/* Bytes with a length; NONE is a missing value. */
#define B(literal) {literal, (int)sizeof(literal) - 1}
#define NONE {NULL, 0}

struct operand {
    const char *data;
    int size;
};

struct sample {
    struct operand existing, param, expected;
};

static struct bytes bytes_of(struct operand operand) {
    return raw(operand.data, operand.size);
}

static void check_result(struct value value, struct operand expected) {
    if (expected.data) {
        assert_value(value, bytes_of(expected));
    } else {
        assert_absent(value);
    }
}

/* The value comes from the same transaction. */
static void prepare_pending(FDBTransaction *tr, struct bytes name, struct operand existing,
                            int how) {
    if (existing.data) {
        put(tr, name, bytes_of(existing));
    } else if (how == 0) {
        erase(tr, name);
    } else {
        erase_range(tr, key("a"), key("z"));
    }
}

static void check_pending(FDBMutationType type, const struct sample *sample, int how) {
    struct bytes name = key("key");
    store(name, text("something in the way"));
    FDBTransaction *tr = begin();
    prepare_pending(tr, name, sample->existing, how);
    mutate(tr, type, name, bytes_of(sample->param));
    check_result(future_value(get(tr, name)), sample->expected);
    commit(tr);
    fdb_transaction_destroy(tr);
    check_result(load(name), sample->expected);
}

/* The value was committed before; read decides whether the transaction looks before committing. */
static void check_committed(FDBMutationType type, const struct sample *sample, bool read) {
    struct bytes name = key("key");
    if (sample->existing.data) {
        store(name, bytes_of(sample->existing));
    } else {
        remove_key(name);
    }
    FDBTransaction *tr = begin();
    mutate(tr, type, name, bytes_of(sample->param));
    if (read) {
        check_result(future_value(get(tr, name)), sample->expected);
        struct rows rows = read_range(tr, span(name, key_after(name)));
        assert_int_equal(rows.count, sample->expected.data ? 1 : 0);
    }
    commit(tr);
    fdb_transaction_destroy(tr);
    check_result(load(name), sample->expected);
}

static void check_samples(FDBMutationType type, const struct sample *samples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        check_committed(type, &samples[i], false);
        check_committed(type, &samples[i], true);
        check_pending(type, &samples[i], 0);
        check_pending(type, &samples[i], 1);
    }
}
#define CHECK(type, samples) check_samples(type, samples, sizeof samples / sizeof samples[0])

static void add(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x01\x00\x00\x00"), B("\x02\x00\x00\x00"), B("\x03\x00\x00\x00")},
        {B("\xff\x00\x00\x00"), B("\x01\x00\x00\x00"), B("\x00\x01\x00\x00")},
        {B("\xff\xff"), B("\x01\x00"), B("\x00\x00")},
        {B("\x05\x00\x00\x00\x00\x00\x00\x00"), B("\xff\xff\xff\xff\xff\xff\xff\xff"),
         B("\x04\x00\x00\x00\x00\x00\x00\x00")},
        {NONE, B("\x07\x00"), B("\x07\x00")},
        {B(""), B("\x07\x00"), B("\x07\x00")},
        {B("\x01"), B("\x02\x03\x04"), B("\x03\x03\x04")},
        {B("\xff"), B("\x01\x00\x00"), B("\x00\x01\x00")},
        {B("\x01\x02\x03\x04"), B("\x01\x01"), B("\x02\x03")},
        {B("\x01\x02"), B(""), B("")},
        {NONE, B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_ADD, samples);
}

static void bit_and(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x0f\xff"), B("\x3c\x55"), B("\x0c\x55")},
        {NONE, B("\x12\x34"), B("\x12\x34")},
        {B(""), B("\x12\x34"), B("\x00\x00")},
        {B("\xff"), B("\x12\x34"), B("\x12\x00")},
        {B("\xff\xff\xff"), B("\x12"), B("\x12")},
        {B("\xff"), B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_BIT_AND, samples);
}

static void bit_or(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x0f\x00"), B("\x30\x55"), B("\x3f\x55")},
        {NONE, B("\x12\x34"), B("\x12\x34")},
        {B(""), B("\x12\x34"), B("\x12\x34")},
        {B("\x01"), B("\x12\x34"), B("\x13\x34")},
        {B("\x01\xff\xff"), B("\x12"), B("\x13")},
        {B("\xff"), B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_BIT_OR, samples);
}

static void bit_xor(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x0f\xff"), B("\x3c\x55"), B("\x33\xaa")},
        {NONE, B("\x12\x34"), B("\x12\x34")},
        {B(""), B("\x12\x34"), B("\x12\x34")},
        {B("\x01"), B("\x13\x34"), B("\x12\x34")},
        {B("\x01\xff\xff"), B("\x12"), B("\x13")},
        {B("\xff"), B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_BIT_XOR, samples);
}

static void append_if_fits(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("one"), B("two"), B("onetwo")}, {NONE, B("two"), B("two")}, {B(""), B("two"), B("two")},
        {B("one"), B(""), B("one")},       {NONE, B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_APPEND_IF_FITS, samples);
}

static void append_that_does_not_fit_changes_nothing(void **state) {
    (void)state;
    struct bytes nearly = repeat('x', VALUE_BYTES_MAX - 1);
    for (int pending = 0; pending < 2; pending++) {
        store(key("key"), nearly);
        FDBTransaction *tr = begin();
        if (pending) {
            put(tr, key("key"), nearly);
        }
        mutate(tr, FDB_MUTATION_TYPE_APPEND_IF_FITS, key("key"), text("yy"));
        assert_value(future_value(get(tr, key("key"))), nearly);
        commit(tr);
        assert_value(load(key("key")), nearly);
        fdb_transaction_reset(tr);
        mutate(tr, FDB_MUTATION_TYPE_APPEND_IF_FITS, key("key"), text("z"));
        commit(tr);
        fdb_transaction_destroy(tr);
        assert_value(load(key("key")), joined(nearly, text("z")));
    }
}

static void max(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x05\x00"), B("\x03\x00"), B("\x05\x00")},
        {B("\x05\x00"), B("\x07\x00"), B("\x07\x00")},
        {B("\xff\x00"), B("\x00\x01"), B("\x00\x01")},
        {B("\x05\x00"), B("\x05\x00"), B("\x05\x00")},
        {NONE, B("\x00\x00"), B("\x00\x00")},
        {B(""), B("\x03\x00"), B("\x03\x00")},
        {B("\x05"), B("\x03\x00"), B("\x05\x00")},
        {B("\x05"), B("\x03\x01"), B("\x03\x01")},
        {B("\x05\x01"), B("\x07"), B("\x07")},
        {B("\x09\x01"), B("\x07"), B("\x09")},
        {B("\x09"), B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_MAX, samples);
}

static void min(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("\x05\x00"), B("\x03\x00"), B("\x03\x00")},
        {B("\x05\x00"), B("\x07\x00"), B("\x05\x00")},
        {B("\xff\x00"), B("\x00\x01"), B("\xff\x00")},
        {NONE, B("\x07\x00"), B("\x07\x00")},
        {B(""), B("\x03\x01"), B("\x00\x00")},
        {B("\x05"), B("\x03\x00"), B("\x03\x00")},
        {B("\x05"), B("\x03\x01"), B("\x05\x00")},
        {B("\x05\x01"), B("\x07"), B("\x05")},
        {B("\x09\x01"), B("\x07"), B("\x07")},
        {B("\x09"), B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_MIN, samples);
}

static void byte_min(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("abc"), B("abd"), B("abc")}, {B("abd"), B("abc"), B("abc")}, {NONE, B("x"), B("x")},
        {B(""), B("x"), B("")},         {B("ab"), B("abc"), B("ab")},   {B("b"), B("abc"), B("abc")},
        {B("x"), B(""), B("")},         {B("\xff"), B("\x01"), B("\x01")},
    };
    CHECK(FDB_MUTATION_TYPE_BYTE_MIN, samples);
}

static void byte_max(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("abc"), B("abd"), B("abd")}, {B("abd"), B("abc"), B("abd")}, {NONE, B("x"), B("x")},
        {B(""), B("x"), B("x")},        {B("ab"), B("abc"), B("abc")},  {B("b"), B("abc"), B("b")},
        {B("x"), B(""), B("x")},        {B("\xff"), B("\x01"), B("\xff")}, {NONE, B(""), B("")},
    };
    CHECK(FDB_MUTATION_TYPE_BYTE_MAX, samples);
}

static void compare_and_clear(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {B("same"), B("same"), NONE}, {B("same"), B("other"), B("same")}, {NONE, B("x"), NONE},
        {B("same"), B("sam"), B("same")}, {B(""), B(""), NONE}, {NONE, B(""), NONE},
        {B("x"), B(""), B("x")},
    };
    CHECK(FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, samples);
}

static void operations_stack_on_an_unread_key(void **state) {
    (void)state;
    store(key("key"), LITERAL("\x01\x00"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x02\x00"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x04\x00"));
    mutate(tr, FDB_MUTATION_TYPE_BIT_XOR, key("key"), LITERAL("\x01\x10"));
    mutate(tr, FDB_MUTATION_TYPE_APPEND_IF_FITS, key("key"), text("tail"));
    mutate(tr, FDB_MUTATION_TYPE_BYTE_MAX, key("key"), LITERAL("\x01"));
    assert_value(future_value(get(tr, key("key"))), LITERAL("\x06\x10tail"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("key")), LITERAL("\x06\x10tail"));
}

static void a_read_between_operations_changes_nothing(void **state) {
    (void)state;
    store(key("key"), LITERAL("\x0a"));
    FDBTransaction *tr = begin();
    assert_value(future_value(get(tr, key("key"))), LITERAL("\x0a"));
    for (int i = 0; i < 5; i++) {
        mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x01"));
        assert_value(future_value(get(tr, key("key"))), repeat((uint8_t)(11 + i), 1));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("key")), LITERAL("\x0f"));
}

static void set_after_operations_wins(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x01"));
    put(tr, key("key"), LITERAL("\x10"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x02"));
    assert_value(future_value(get(tr, key("key"))), LITERAL("\x12"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("key")), LITERAL("\x12"));
}

static void clear_after_operations_wins(void **state) {
    (void)state;
    store(key("key"), LITERAL("\x50"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x01"));
    erase(tr, key("key"));
    assert_absent(future_value(get(tr, key("key"))));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x02"));
    assert_value(future_value(get(tr, key("key"))), LITERAL("\x02"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("key")), LITERAL("\x02"));
}

static void compare_and_clear_within_a_stack(void **state) {
    (void)state;
    store(key("key"), LITERAL("\x01"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x01"));
    mutate(tr, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, key("key"), LITERAL("\x02"));
    assert_absent(future_value(get(tr, key("key"))));
    assert_rows(read_range(tr, all()), "");
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("key"), LITERAL("\x05"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("key")), LITERAL("\x05"));
}

static void operations_show_in_ranges(void **state) {
    (void)state;
    store(key("a"), text("1"));
    store(key("c"), text("3"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_APPEND_IF_FITS, key("a"), text("x"));
    mutate(tr, FDB_MUTATION_TYPE_APPEND_IF_FITS, key("b"), text("y"));
    mutate(tr, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, key("c"), text("3"));
    mutate(tr, FDB_MUTATION_TYPE_BYTE_MAX, key("d"), text("z"));
    assert_rows(read_range(tr, all()), "a=1x b=y d=z");
    struct range range = all();
    range.reverse = true;
    range.limit = 2;
    assert_rows(read_range(tr, range), "d=z b=y");
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=1x b=y d=z");
    fdb_transaction_destroy(tr);
}

static void deprecated_names_are_the_same_numbers(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("key"), LITERAL("\x0f"));
    mutate(tr, FDB_MUTATION_TYPE_AND, key("key"), LITERAL("\x3c"));
    mutate(tr, FDB_MUTATION_TYPE_OR, key("key"), LITERAL("\x40"));
    mutate(tr, FDB_MUTATION_TYPE_XOR, key("key"), LITERAL("\x01"));
    assert_value(future_value(get(tr, key("key"))), LITERAL("\x4d"));
    fdb_transaction_destroy(tr);
}

static void unknown_operations_fail_the_transaction(void **state) {
    (void)state;
    /* Set, clear, undefined numbers, and those only servers use. */
    static const int types[] = {0, 1, 3, 4, 5, 10, 11, 21, 255, -1};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        FDBTransaction *tr = begin();
        mutate(tr, (FDBMutationType)types[i], key("key"), text("x"));
        assert_int_equal(commit_error(tr), ERROR_INVALID_MUTATION_TYPE);
        fdb_transaction_destroy(tr);
    }
    assert_absent(load(key("key")));
}

static void counters_lose_nothing(void **state) {
    (void)state;
    enum { COUNT = 20 };
    FDBTransaction *tr[COUNT];
    FDBFuture *commits[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tr[i] = begin();
        mutate(tr[i], FDB_MUTATION_TYPE_ADD, key("counter"), little_endian(1, 8));
        commits[i] = fdb_transaction_commit(tr[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_ready(commits[i]);
        fdb_transaction_destroy(tr[i]);
    }
    assert_value(load(key("counter")), little_endian(COUNT, 8));
}

int group_atomics(void) {
    const struct CMUnitTest tests[] = {
        TEST(add),
        TEST(bit_and),
        TEST(bit_or),
        TEST(bit_xor),
        TEST(append_if_fits),
        TEST(append_that_does_not_fit_changes_nothing),
        TEST(max),
        TEST(min),
        TEST(byte_min),
        TEST(byte_max),
        TEST(compare_and_clear),
        TEST(operations_stack_on_an_unread_key),
        TEST(a_read_between_operations_changes_nothing),
        TEST(set_after_operations_wins),
        TEST(clear_after_operations_wins),
        TEST(compare_and_clear_within_a_stack),
        TEST(operations_show_in_ranges),
        TEST(deprecated_names_are_the_same_numbers),
        TEST(unknown_operations_fail_the_transaction),
        TEST(counters_lose_nothing),
    };
    return cmocka_run_group_tests_name("atomics", tests, NULL, NULL);
}
