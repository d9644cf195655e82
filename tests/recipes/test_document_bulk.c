/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents by the many: the rows made without a transaction are those that keel_document_set writes, and a scan gives what keel_document_get gives,
 * for ids of every kind, also such as begin with one another.
 */
#include "testing.h"

#include <keel/document.h>

static const char *const texts[] = {
    "{\"id\": 7, \"name\": \"alice\", \"tags\": [\"dev\", {\"deep\": [1, 2.5, null]}], \"none\": {}, \"empty\": []}",
    "{\"id\": \"a\", \"x\": 1}",
    "{\"id\": \"a\\u0000b\", \"x\": true}",
    "{\"id\": \"ab\", \"x\": \"\\u0000\"}",
    "{\"id\": -1, \"id2\": 1}",
    "{\"id\": 2.5, \"\": 0}",
    "{\"id\": true}",
};
enum { TEXTS = sizeof texts / sizeof *texts };

struct rows {
    FDBTransaction *tr;
    int count;
};

static fdb_error_t write_row(void *context, keel_bytes key, keel_bytes value) {
    struct rows *rows = context;
    fdb_transaction_set(rows->tr, key.data, (int)key.length, value.data, (int)value.length);
    rows->count++;
    return 0;
}

static fdb_error_t count_row(void *context, keel_bytes key, keel_bytes value) {
    (void)key, (void)value;
    return ++((struct rows *)context)->count == 2 ? 100007 : 0;
}

static void fill(FDBTransaction *tr, const keel_subspace *space) {
    struct rows rows = {tr, 0};
    for (int i = 0; i < TEXTS; i++)
        ok(keel_document_rows(space, NULL, "id", texts[i], strlen(texts[i]), write_row, &rows));
}

/* Visits in order and compares each with keel_document_get. */
struct seen {
    FDBTransaction *tr;
    const keel_subspace *space;
    int count;
    keel_element after;
    char text[16];
};

static fdb_error_t compare(void *context, const keel_element *id, const char *json, size_t length) {
    struct seen *seen = context;
    char *expected = NULL;
    size_t expected_length = 0;
    ok(keel_document_get(seen->tr, seen->space, *id, KEEL_TUPLE(), &expected, &expected_length));
    assert_int_equal(length, expected_length);
    assert_string_equal(json, expected);
    free(expected);
    seen->count++;
    if (id->type == KEEL_TYPE_STRING) {
        size_t copied = 0;
        ok(keel_element_copy(id, (uint8_t *)seen->text, sizeof seen->text, &copied));
        seen->after = keel_element_of_text(seen->text, copied);
    } else {
        seen->after = *id;
    }
    return 0;
}

static void test_rows_are_those_of_set(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("rows");
    FDBTransaction *tr = testing_begin();
    fill(tr, &space);
    struct testing_state by_rows = testing_look(tr, &space);
    fdb_transaction_destroy(tr);
    tr = testing_begin();
    keel_element ids[] = {KEEL_ELEMENT(7), KEEL_ELEMENT("a"), KEEL_TEXT("a\0b", 3), KEEL_ELEMENT("ab"),
                          KEEL_ELEMENT(-1), KEEL_ELEMENT(2.5), KEEL_TRUE};
    for (int i = 0; i < TEXTS; i++)
        ok(keel_document_set(tr, &space, ids[i], KEEL_TUPLE(), texts[i], strlen(texts[i])));
    struct testing_state by_set = testing_look(tr, &space);
    assert_int_equal(by_rows.rows, by_set.rows);
    assert_true(by_rows.sum == by_set.sum);
    fdb_transaction_destroy(tr);
}

static void test_given_id(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("given");
    FDBTransaction *tr = testing_begin();
    struct rows rows = {tr, 0};
    keel_element id = KEEL_ELEMENT("mine");
    char *json = NULL;
    ok(keel_document_rows(&space, &id, NULL, "[1, 2]", 6, write_row, &rows));
    assert_int_equal(rows.count, 2);
    ok(keel_document_get(tr, &space, id, KEEL_TUPLE(), &json, NULL));
    assert_string_equal(json, "[1,2]");
    free(json);
    fdb_transaction_destroy(tr);
}

static void test_refused(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("refused");
    struct rows rows = {NULL, 0};
    static const struct {
        const char *json;
        fdb_error_t error;
    } cases[] = {
        {"{}", KEEL_ERROR_NOT_FOUND},          {"[]", KEEL_ERROR_NOT_FOUND},
        {"{\"id\": null}", KEEL_ERROR_TUPLE_TYPE}, {"{\"id\": []}", KEEL_ERROR_TUPLE_TYPE},
        {"{\"id\": 1", KEEL_ERROR_JSON},       {"{\"id\": 99999999999999999999}", KEEL_ERROR_INTEGER_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(keel_document_rows(&space, NULL, "id", cases[i].json, strlen(cases[i].json), count_row, &rows), cases[i].error);
    char large[100100];
    int length = snprintf(large, sizeof large, "{\"a\": 1, \"id\": 1, \"x\": \"%0100010d\"}", 0);
    assert_int_equal(keel_document_rows(&space, NULL, "id", large, (size_t)length, count_row, &rows), 2103);
    assert_int_equal(rows.count, 0);
    assert_int_equal(keel_document_rows(&space, NULL, "id", texts[0], strlen(texts[0]), count_row, &rows), 100007);
    assert_int_equal(rows.count, 2);
    assert_int_equal(keel_document_rows(NULL, NULL, "id", "{}", 2, count_row, &rows), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_document_rows(&space, NULL, NULL, "{}", 2, count_row, &rows), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_document_rows(&space, NULL, "id", NULL, 0, count_row, &rows), KEEL_ERROR_ARGUMENT);
}

static void test_scan(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("scan"), inside;
    FDBTransaction *tr = testing_begin();
    ok(keel_subspace_nested(&space, KEEL_TUPLE("documents"), &inside));
    fdb_transaction_set(tr, space.prefix, space.length, NULL, 0); /* neighbours that must not be seen */
    inside.prefix[inside.length] = 0xff;
    fdb_transaction_set(tr, inside.prefix, inside.length + 1, (const uint8_t *)"x", 1);
    fill(tr, &inside);
    struct seen seen = {.tr = tr, .space = &inside};
    ok(keel_document_scan(tr, &inside, NULL, 0, compare, &seen));
    assert_int_equal(seen.count, TEXTS);
    seen.count = 0;
    ok(keel_document_scan(tr, &inside, NULL, 1, compare, &seen));
    assert_int_equal(seen.count, 1);
    for (int i = 2; i <= TEXTS; i++) { /* one by one, each behind the last */
        keel_element after = seen.after;
        ok(keel_document_scan(tr, &inside, &after, 1, compare, &seen));
        assert_int_equal(seen.count, i);
    }
    keel_element last = seen.after;
    ok(keel_document_scan(tr, &inside, &last, 0, compare, &seen));
    assert_int_equal(seen.count, TEXTS);
    assert_int_equal(keel_document_scan(NULL, &inside, NULL, 0, compare, &seen), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_document_scan(tr, &inside, NULL, -1, compare, &seen), KEEL_ERROR_ARGUMENT);
    fdb_transaction_destroy(tr);
}

static void test_scan_strange(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("strange");
    FDBTransaction *tr = testing_begin();
    uint8_t key[600];
    size_t length = 0;
    struct seen seen = {.tr = tr, .space = &space};
    ok(keel_subspace_pack(&space, KEEL_TUPLE(1, "x"), key, sizeof key, &length));
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"\xff", 1);
    assert_int_equal(keel_document_scan(tr, &space, NULL, 0, compare, &seen), KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(seen.count, 0);
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_set), cmocka_unit_test(test_given_id), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_scan), cmocka_unit_test(test_scan_strange),
    };
    return cmocka_run_group_tests(tests, testing_open, testing_close);
}
