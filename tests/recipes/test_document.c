/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and hierarchies: what goes in comes out, by whole and by path; the keys are those of
 * the documents; what is not allowed changes nothing; a random document follows a model kept as a
 * Jansson value; threads that change different members do not conflict, and none is lost.
 */
#include "testing.h"

#include <keel/document.h>

#include <jansson.h>

#define ID KEEL_ELEMENT(7)
#define ROOT KEEL_TUPLE()

static fdb_error_t put(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                       const char *json) {
    return keel_document_set(tr, space, ID, path, json, strlen(json));
}

static fdb_error_t mix(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                       const char *json) {
    return keel_document_merge(tr, space, ID, path, json, strlen(json));
}

static void expect(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                   const char *json) {
    char *found = NULL;
    size_t length = 0;
    ok(keel_document_get(tr, space, ID, path, &found, &length));
    assert_string_equal(found, json);
    assert_int_equal(length, strlen(json));
    free(found);
}

static void test_round_trip(void **state) {
    static const char *const texts[] = {
        "{}", "[]", "null", "true", "false", "0", "-1", "\"\"", "[[]]", "[{}]", "{\"\":{}}",
        "9223372036854775807", "-9223372036854775808", "0.1", "-0.0", "1e300",
        "1.7976931348623157e308", "5e-324", "[0.10000000000000001,0.30000000000000004]",
        "\"\\u0000\\u0001\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "[1,[2,[3,[]]],{},null]",
        "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":[],\"e\":{},\"\xc3\xa9\":\"x\"}",
        "{\"a\":1,\"a\\\"b\":2,\"a b\":3}", "{\"-1\":1,\"0\":2}", "[-1,-2,null]",
        "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]",
    };
    (void)state;
    keel_subspace space = testing_subspace("round");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FDBTransaction *tr = testing_begin();
        char *found = NULL;
        ok(put(tr, &space, ROOT, texts[i]));
        ok(keel_document_get(tr, &space, ID, ROOT, &found, NULL));
        json_t *before = json_loads(texts[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        json_t *after = json_loads(found, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_true(json_equal(before, after));
        json_decref(before);
        json_decref(after);
        free(found);
        testing_commit(tr);
    }
    FDBTransaction *tr = testing_begin();
    expect(tr, &space, ROOT, texts[sizeof texts / sizeof *texts - 1]);
    ok(put(tr, &space, ROOT, "{\"b\":0.1,\"a\":[0.5,2.5e10]}"));
    expect(tr, &space, ROOT, "{\"a\":[0.5,25000000000.0],\"b\":0.1}"); /* shortest digits */
    fdb_transaction_destroy(tr);
}

static void expect_row(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple,
                       const char *value, size_t value_length) {
    uint8_t key[200];
    size_t length;
    fdb_bool_t present = 0;
    const uint8_t *data;
    int data_length;
    ok(keel_subspace_pack(space, tuple, key, sizeof key, &length));
    FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
    ok(keel_wait(future));
    ok(fdb_future_get_value(future, &present, &data, &data_length));
    assert_true(present);
    assert_int_equal(data_length, value_length);
    assert_memory_equal(data, value, value_length);
    fdb_future_destroy(future);
}

static void test_keys(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("keys");
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &space, ROOT,
           "{\"user\":{\"name\":\"al\",\"tags\":[\"dev\",5]},\"o\":{},\"a\":[],\"n\":null}"));
    expect_row(tr, &space, KEEL_TUPLE(7, "user", "name"), "\x02" "al\0", 4);
    expect_row(tr, &space, KEEL_TUPLE(7, "user", "tags", 0), "\x02" "dev\0", 5);
    expect_row(tr, &space, KEEL_TUPLE(7, "user", "tags", 1), "\x15\x05", 2);
    expect_row(tr, &space, KEEL_TUPLE(7, "o", -2), "\0", 1);
    expect_row(tr, &space, KEEL_TUPLE(7, "a", -1), "\0", 1);
    expect_row(tr, &space, KEEL_TUPLE(7, "n"), "\0", 1);
    assert_int_equal(testing_look(tr, &space).rows, 6);
    ok(put(tr, &space, ROOT, "true"));
    expect_row(tr, &space, KEEL_TUPLE(7), "\x27", 1);
    assert_int_equal(testing_look(tr, &space).rows, 1);
    fdb_transaction_destroy(tr);
}

static void test_paths(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("paths");
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &space, ROOT, "{\"p\":{\"mail\":\"a\",\"on\":true},\"t\":[\"x\",{\"y\":1}]}"));
    expect(tr, &space, KEEL_TUPLE("p"), "{\"mail\":\"a\",\"on\":true}");
    expect(tr, &space, KEEL_TUPLE("p", "mail"), "\"a\"");
    expect(tr, &space, KEEL_TUPLE("t", 1), "{\"y\":1}");
    expect(tr, &space, KEEL_TUPLE("t", 1, "y"), "1");
    ok(put(tr, &space, KEEL_TUPLE("p", "mail"), "{\"a\":[1]}")); /* scalar to object */
    expect(tr, &space, KEEL_TUPLE("p"), "{\"mail\":{\"a\":[1]},\"on\":true}");
    ok(put(tr, &space, KEEL_TUPLE("p"), "5"));                     /* and back */
    ok(put(tr, &space, KEEL_TUPLE("new", "way", 0, "down"), "[]")); /* parents are made */
    ok(put(tr, &space, KEEL_TUPLE("t", 2), "3"));                  /* appended */
    ok(put(tr, &space, KEEL_TUPLE("t", 0), "{}"));
    expect(tr, &space, ROOT,
           "{\"new\":{\"way\":[{\"down\":[]}]},\"p\":5,\"t\":[{},{\"y\":1},3]}");
    ok(put(tr, &space, KEEL_TUPLE("t", 0, "z"), "0")); /* no longer empty */
    ok(put(tr, &space, KEEL_TUPLE("new", "way", 0, "down", 0), "1"));
    expect(tr, &space, ROOT,
           "{\"new\":{\"way\":[{\"down\":[1]}]},\"p\":5,\"t\":[{\"z\":0},{\"y\":1},3]}");
    int there = -1;
    ok(keel_document_exists(tr, &space, ID, KEEL_TUPLE("t", 2), &there));
    assert_int_equal(there, 1);
    ok(keel_document_exists(tr, &space, ID, KEEL_TUPLE("t", 3), &there));
    assert_int_equal(there, 0);
    fdb_transaction_destroy(tr);
}

static void test_names_alike(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("alike");
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &space, ROOT, "{\"a\":{\"x\":1},\"ab\":{\"x\":2},\"a\\u0001\":{\"x\":3}}"));
    expect(tr, &space, ROOT, "{\"a\":{\"x\":1},\"a\\u0001\":{\"x\":3},\"ab\":{\"x\":2}}");
    /* a name with NUL, which only other writers store: 'a\0b' begins with the bytes of 'a' */
    uint8_t key[100];
    size_t length;
    ok(keel_subspace_pack(&space, KEEL_TUPLE(7, KEEL_TEXT("a\0b", 3), "x"), key, sizeof key,
                          &length));
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"\x15\x04", 2);
    expect(tr, &space, ROOT,
           "{\"a\":{\"x\":1},\"a\\u0000b\":{\"x\":4},\"a\\u0001\":{\"x\":3},\"ab\":{\"x\":2}}");
    expect(tr, &space, KEEL_TUPLE("a"), "{\"x\":1}");
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("a")));
    expect(tr, &space, ROOT,
           "{\"a\\u0000b\":{\"x\":4},\"a\\u0001\":{\"x\":3},\"ab\":{\"x\":2}}");
    fdb_transaction_destroy(tr);
}

static void test_delete(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("delete");
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &space, ROOT, "{\"o\":{\"a\":1,\"b\":{\"c\":2}},\"t\":[[1],{\"k\":2},3,[]]}"));
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("t", 1)));
    expect(tr, &space, KEEL_TUPLE("t"), "[[1],3,[]]");
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("t", 0)));
    expect(tr, &space, KEEL_TUPLE("t"), "[3,[]]");
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("t", 1)));
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("t", 0)));
    expect(tr, &space, KEEL_TUPLE("t"), "[]");
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("o", "a")));
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("o", "b", "c")));
    expect(tr, &space, ROOT, "{\"o\":{\"b\":{}},\"t\":[]}");
    refused(tr, KEEL_ERROR_NOT_FOUND, keel_document_delete(tr, &space, ID, KEEL_TUPLE("o", "a")));
    refused(tr, KEEL_ERROR_NOT_FOUND, keel_document_delete(tr, &space, ID, KEEL_TUPLE("t", 0)));
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("t")));
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("o")));
    expect(tr, &space, ROOT, "{}");
    ok(keel_document_delete(tr, &space, ID, ROOT));
    assert_int_equal(testing_look(tr, &space).rows, 0);
    fdb_transaction_destroy(tr);
}

static void test_merge(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("merge");
    FDBTransaction *tr = testing_begin();
    ok(mix(tr, &space, ROOT, "{\"a\":{\"x\":1},\"l\":[1,2,3],\"s\":5}"));
    ok(mix(tr, &space, ROOT, "{\"a\":{\"y\":2},\"l\":[9],\"s\":{\"t\":{}},\"e\":{}}"));
    expect(tr, &space, ROOT,
           "{\"a\":{\"x\":1,\"y\":2},\"e\":{},\"l\":[9],\"s\":{\"t\":{}}}");
    ok(mix(tr, &space, KEEL_TUPLE("s", "t"), "{\"u\":[{}],\"v\":null}"));
    ok(mix(tr, &space, ROOT, "{\"a\":{},\"l\":{\"m\":1},\"e\":{\"f\":1}}"));
    expect(tr, &space, ROOT,
           "{\"a\":{\"x\":1,\"y\":2},\"e\":{\"f\":1},\"l\":{\"m\":1},"
           "\"s\":{\"t\":{\"u\":[{}],\"v\":null}}}");
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, mix(tr, &space, KEEL_TUPLE("e", "f", "g"), "{}"));
    ok(mix(tr, &space, KEEL_TUPLE("e", "f"), "[]"));
    expect(tr, &space, KEEL_TUPLE("e"), "{\"f\":[]}");
    fdb_transaction_destroy(tr);
}

static fdb_error_t collect(void *context, const keel_element *id) {
    char **end = context;
    size_t length;
    ok(keel_element_print(id, *end, 40, &length));
    *end += length;
    *(*end)++ = ' ';
    **end = 0;
    return 0;
}

static void test_insert_and_list(void **state) {
    static const char given[] = "{\"doc_id\":\"me\",\"x\":1}", text[] = "{\"x\":[]}";
    (void)state;
    keel_subspace space = testing_subspace("insert");
    FDBTransaction *tr = testing_begin();
    int64_t id = -5;
    char *json = NULL, names[400] = "", *end = names;
    ok(keel_document_insert(tr, &space, given, strlen(given), &id));
    assert_int_equal(id, -5);
    ok(keel_document_get(tr, &space, KEEL_ELEMENT("me"), ROOT, &json, NULL));
    assert_string_equal(json, given);
    free(json);
    ok(keel_document_insert(tr, &space, text, strlen(text), &id));
    assert_true(id >= 0);
    ok(keel_document_get(tr, &space, KEEL_ELEMENT(id), KEEL_TUPLE("doc_id"), &json, NULL));
    assert_int_equal(strtoll(json, NULL, 10), id);
    free(json);
    ok(keel_document_delete(tr, &space, KEEL_ELEMENT(id), ROOT));
    for (int i = 0; i < 5; i++)
        ok(keel_document_set(tr, &space, KEEL_ELEMENT(i), ROOT, text, strlen(text)));
    ok(keel_document_set(tr, &space, KEEL_ELEMENT(2), ROOT, "1", 1)); /* a scalar, at its own key */
    ok(keel_document_list(tr, &space, NULL, 0, collect, &end));
    assert_string_equal(names, "\"me\" 0 1 2 3 4 ");
    end = names;
    keel_element after = KEEL_ELEMENT(1);
    ok(keel_document_list(tr, &space, &after, 2, collect, &end));
    assert_string_equal(names, "2 3 ");
    refused(tr, KEEL_ERROR_ARGUMENT, keel_document_insert(tr, &space, "[1]", 3, &id));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_document_insert(tr, &space, "{\"doc_id\":[1]}", 14, &id));
    fdb_transaction_destroy(tr);
}

static void test_bad_json(void **state) {
    static const char *const texts[] = {
        "", " ", "{", "[", "[1,]", "{\"a\"}", "{a:1}", "nul", "1 2", "\"", "\"\xff\"", "'a'",
        "\"\\ud800\"", "{\"a\\u0000\":1}", "[1", "NaN", "01", "\"\x01\"", "]", "}{",
    };
    (void)state;
    keel_subspace space = testing_subspace("bad");
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &space, ROOT, "{\"keep\":[1]}"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        refused(tr, KEEL_ERROR_JSON, put(tr, &space, ROOT, texts[i]));
        refused(tr, KEEL_ERROR_JSON, mix(tr, &space, ROOT, texts[i]));
    }
    refused(tr, KEEL_ERROR_INTEGER_TOO_LARGE, put(tr, &space, ROOT, "9223372036854775808"));
    refused(tr, KEEL_ERROR_INTEGER_TOO_LARGE, put(tr, &space, ROOT, "[1e999]"));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_document_set(tr, &space, ID, ROOT, NULL, 0));
    expect(tr, &space, ROOT, "{\"keep\":[1]}");
    fdb_transaction_destroy(tr);
}

static void test_bad_paths(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("bad");
    FDBTransaction *tr = testing_begin();
    char *json = NULL;
    ok(put(tr, &space, ROOT, "{\"s\":1,\"a\":[1,[]],\"o\":{},\"p\":{\"q\":null}}"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("s", "x"), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("s", 0), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("p", "q", "r", "s"), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("a", "x"), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("a", 1, "x"), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE("o", 0), "1"));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, put(tr, &space, KEEL_TUPLE(0), "1"));
    refused(tr, KEEL_ERROR_INDEX_RANGE, put(tr, &space, KEEL_TUPLE("a", 3), "1"));
    refused(tr, KEEL_ERROR_INDEX_RANGE, put(tr, &space, KEEL_TUPLE("a", -1), "1"));
    refused(tr, KEEL_ERROR_INDEX_RANGE, put(tr, &space, KEEL_TUPLE("a", 1, 1), "1"));
    refused(tr, KEEL_ERROR_INDEX_RANGE, put(tr, &space, KEEL_TUPLE("new", 1), "1"));
    refused(tr, KEEL_ERROR_ARGUMENT, put(tr, &space, KEEL_TUPLE(1.5), "1"));
    refused(tr, KEEL_ERROR_ARGUMENT, put(tr, &space, KEEL_TUPLE(KEEL_NIL), "1"));
    refused(tr, KEEL_ERROR_NOT_UTF8, put(tr, &space, KEEL_TUPLE("\xff"), "1"));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_document_set(tr, &space, KEEL_NEST(1), ROOT, "1", 1));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_document_set(tr, &space, KEEL_INCOMPLETE(0), ROOT, "1", 1));
    assert_int_equal(keel_document_get(tr, &space, ID, KEEL_TUPLE("s", "x"), &json, NULL),
                     KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_document_get(tr, &space, KEEL_ELEMENT(8), ROOT, &json, NULL),
                     KEEL_ERROR_NOT_FOUND);
    assert_null(json);
    fdb_transaction_destroy(tr);
}

static char *nested(size_t depth, const char *open, const char *middle, const char *close) {
    char *text = malloc(depth * (strlen(open) + strlen(close)) + strlen(middle) + 1), *end = text;
    for (size_t i = 0; i < depth; i++)
        end = stpcpy(end, open);
    end = stpcpy(end, middle);
    for (size_t i = 0; i < depth; i++)
        end = stpcpy(end, close);
    return text;
}

static void test_depth(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("depth");
    FDBTransaction *tr = testing_begin();
    char *text = nested(KEEL_DOCUMENT_DEPTH_MAX, "[", "1", "]");
    ok(put(tr, &space, ROOT, text));
    expect(tr, &space, ROOT, text);
    ok(mix(tr, &space, ROOT, text));
    refused(tr, KEEL_ERROR_DOCUMENT_DEPTH, put(tr, &space, KEEL_TUPLE("a"), text));
    free(text);
    text = nested(KEEL_DOCUMENT_DEPTH_MAX, "{\"a\":", "{}", "}");
    refused(tr, KEEL_ERROR_DOCUMENT_DEPTH, put(tr, &space, ROOT, text));
    free(text);
    text = nested(KEEL_DOCUMENT_DEPTH_MAX - 1, "{\"a\":", "{}", "}");
    ok(mix(tr, &space, ROOT, text));
    expect(tr, &space, ROOT, text);
    free(text);
    text = nested(3000000, "[", "", "]");
    refused(tr, KEEL_ERROR_DOCUMENT_DEPTH, put(tr, &space, ROOT, text));
    refused(tr, KEEL_ERROR_DOCUMENT_DEPTH, mix(tr, &space, ROOT, text));
    refused(tr, KEEL_ERROR_DOCUMENT_DEPTH, keel_document_insert(tr, &space, text, 3000000, NULL));
    free(text);
    ok(put(tr, &space, ROOT, "\"[[[[\\\"[[[\"")); /* brackets in a string do not count */
    fdb_transaction_destroy(tr);
}

/* Deeper rows than any text may have do not overflow the stack either. */
static void test_deep_rows(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("depth");
    FDBTransaction *tr = testing_begin();
    uint8_t key[9000];
    size_t length;
    char *json = NULL;
    ok(keel_subspace_pack(&space, KEEL_TUPLE(7), key, sizeof key, &length));
    memset(key + length, 0x14, sizeof key - length); /* index 0, again and again */
    fdb_transaction_set(tr, key, sizeof key, (const uint8_t *)"\0", 1);
    assert_int_equal(keel_document_get(tr, &space, ID, ROOT, &json, NULL),
                     KEEL_ERROR_DOCUMENT_DEPTH);
    fdb_transaction_destroy(tr);
}

static char *long_string(size_t length) {
    char *text = malloc(length + 3);
    memset(text, 'x', length + 2);
    text[0] = text[length + 1] = '"';
    text[length + 2] = 0;
    return text;
}

static void test_limits(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("limits"), tree = testing_subspace("limits");
    FDBTransaction *tr = testing_begin();
    char *text = long_string(100000 - 2);
    ok(put(tr, &space, ROOT, text));
    expect(tr, &space, ROOT, text);
    refused(tr, 2102, keel_hierarchy_set(tr, &tree, KEEL_TUPLE("x"), text, strlen(text)));
    free(text);
    text = long_string(100000 - 1);
    refused(tr, 2103, put(tr, &space, ROOT, text));
    free(text);
    text = long_string(10000);
    char *object = malloc(20000);
    sprintf(object, "{\"a\":1,%s:1}", text);
    refused(tr, 2102, put(tr, &space, ROOT, object));
    text[strlen(text) - 1] = 0;
    refused(tr, 2102, put(tr, &space, KEEL_TUPLE(text), "1"));
    free(object);
    free(text);
    text = malloc(11000000);
    char *end = stpcpy(text, "[0");
    while (end < text + 10000000)
        end = stpcpy(end, ",\"01234567890123456789012345678901234567890123456789\"");
    strcpy(end, "]");
    refused(tr, 2101, put(tr, &space, ROOT, text));
    free(text);
    fdb_transaction_destroy(tr);
}

static void put_row(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple,
                    keel_tuple value) {
    uint8_t key[200], packed[200];
    size_t length, value_length;
    ok(keel_subspace_pack(space, tuple, key, sizeof key, &length));
    ok(keel_tuple_pack(value, packed, sizeof packed, &value_length));
    fdb_transaction_set(tr, key, (int)length, packed, (int)value_length);
}

/* Rows as other writers may leave them. */
static void test_strange_rows(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("strange");
    FDBTransaction *tr = testing_begin();
    char *json = NULL;
    put_row(tr, &space, KEEL_TUPLE(7, "a"), KEEL_TUPLE(1));
    put_row(tr, &space, KEEL_TUPLE(7, "a", "b"), KEEL_TUPLE(2)); /* behind the scalar: not seen */
    put_row(tr, &space, KEEL_TUPLE(7, "l", 0), KEEL_TUPLE(1));
    put_row(tr, &space, KEEL_TUPLE(7, "l", 5, "x"), KEEL_TUPLE(2)); /* a gap */
    put_row(tr, &space, KEEL_TUPLE(7, "l", 5, "y"), KEEL_TUPLE(3.5f));
    put_row(tr, &space, KEEL_TUPLE(7, "m", "x"), KEEL_TUPLE(2));
    put_row(tr, &space, KEEL_TUPLE(7, "m", -2), KEEL_TUPLE(KEEL_NIL)); /* a marker too many */
    expect(tr, &space, ROOT, "{\"a\":1,\"l\":[1,{\"x\":2,\"y\":3.5}],\"m\":{\"x\":2}}");
    const keel_tuple bad[] = {KEEL_TUPLE(KEEL_UUID((const uint8_t *)"0123456789abcdef")),
                              KEEL_TUPLE(KEEL_NEST(1)), KEEL_TUPLE(0.0 / 0.0),
                              KEEL_TUPLE(KEEL_BYTES("\xff", 1)), KEEL_TUPLE()};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_row(tr, &space, KEEL_TUPLE(8), bad[i]);
        assert_int_equal(keel_document_get(tr, &space, KEEL_ELEMENT(8), ROOT, &json, NULL),
                         KEEL_ERROR_STORED_FORMAT);
    }
    put_row(tr, &space, KEEL_TUPLE(8), KEEL_TUPLE(UINT64_MAX));
    assert_int_equal(keel_document_get(tr, &space, KEEL_ELEMENT(8), ROOT, &json, NULL),
                     KEEL_ERROR_INTEGER_TOO_LARGE);
    put_row(tr, &space, KEEL_TUPLE(9, "x", KEEL_NIL, 1), KEEL_TUPLE(1));
    assert_int_equal(keel_document_get(tr, &space, KEEL_ELEMENT(9), ROOT, &json, NULL),
                     KEEL_ERROR_STORED_FORMAT);
    put_row(tr, &space, KEEL_TUPLE(10, "x"), KEEL_TUPLE(1));
    put_row(tr, &space, KEEL_TUPLE(10, 0), KEEL_TUPLE(1));
    assert_int_equal(keel_document_get(tr, &space, KEEL_ELEMENT(10), ROOT, &json, NULL),
                     KEEL_ERROR_STORED_FORMAT);
    assert_null(json);
    fdb_transaction_destroy(tr);
}

static void expect_hierarchy(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                             const char *json) {
    char *found = NULL;
    ok(keel_hierarchy_get(tr, space, path, &found, NULL));
    assert_string_equal(found, json);
    free(found);
}

static void test_hierarchy(void **state) {
    static const char jones[] =
                          "{\"user\":{\"jones\":{\"friendOf\":\"smith\",\"group\":[\"sales\"]}}}",
                      smith[] = "{\"user\":{\"smith\":{\"friendOf\":\"jones\",\"group\":[]}}}",
                      change[] = "{\"user\":{\"jones\":{\"friendOf\":null,\"age\":4}}}";
    (void)state;
    keel_subspace space = testing_subspace("hierarchy");
    FDBTransaction *tr = testing_begin();
    ok(keel_hierarchy_insert(tr, &space, jones, strlen(jones)));
    ok(keel_hierarchy_insert(tr, &space, smith, strlen(smith)));
    expect_row(tr, &space, KEEL_TUPLE("user", "jones", "group", 0, "sales"), "", 0);
    expect_row(tr, &space, KEEL_TUPLE("user", "smith", "group", -1, KEEL_NIL), "", 0);
    expect_hierarchy(tr, &space, KEEL_TUPLE("user", "smith"),
                     "{\"friendOf\":\"jones\",\"group\":[]}");
    ok(keel_hierarchy_insert(tr, &space, change, strlen(change)));
    expect_hierarchy(tr, &space, KEEL_TUPLE("user", "jones"),
                     "{\"age\":4,\"friendOf\":null,\"group\":[\"sales\"]}");
    expect_hierarchy(tr, &space, KEEL_TUPLE("user", "jones", "friendOf"), "null");
    ok(keel_hierarchy_set(tr, &space, KEEL_TUPLE("user", "smith", "group", 0), "2.5", 3));
    ok(keel_hierarchy_set(tr, &space, KEEL_TUPLE("user", "smith", "group", 1), "[true]", 6));
    ok(keel_hierarchy_delete(tr, &space, KEEL_TUPLE("user", "smith", "friendOf")));
    ok(keel_hierarchy_delete(tr, &space, KEEL_TUPLE("user", "smith", "group", 0)));
    expect_hierarchy(tr, &space, KEEL_TUPLE("user", "smith"), "{\"group\":[[true]]}");
    refused(tr, KEEL_ERROR_DOCUMENT_PATH,
            keel_hierarchy_set(tr, &space, KEEL_TUPLE("user", "jones", "age", "x"), "1", 1));
    ok(keel_hierarchy_set(tr, &space, KEEL_TUPLE("user", "jones"), "\"gone\"", 6));
    refused(tr, KEEL_ERROR_DOCUMENT_PATH, /* ("user", "jones", "gone") is a leaf, no object */
            keel_hierarchy_set(tr, &space, KEEL_TUPLE("user", "jones", "gone"), "1", 1));
    refused(tr, KEEL_ERROR_NOT_FOUND,
            keel_hierarchy_delete(tr, &space, KEEL_TUPLE("user", "jones", "gone")));
    ok(keel_hierarchy_insert(tr, &space, jones, strlen(jones)));
    expect_hierarchy(tr, &space, KEEL_TUPLE("user", "jones", "group"), "[\"sales\"]");
    ok(keel_hierarchy_delete(tr, &space, ROOT));
    assert_int_equal(testing_look(tr, &space).rows, 0);
    fdb_transaction_destroy(tr);
}

/* ---- No memory: the Nth allocation of Jansson fails ---- */

static long allocations_left = -1;

static void *allocate(size_t bytes) {
    if (allocations_left == 0)
        return NULL;
    allocations_left -= allocations_left > 0;
    return malloc(bytes);
}

typedef fdb_error_t (*attempt)(FDBTransaction *tr, const keel_subspace *space);

static const char WIDE[] = "{\"a\":{\"b\":[1,2.5,\"text\",{}]},\"c\":[],\"d\":null,\"e\":{\"f\":true}}";

static fdb_error_t try_set(FDBTransaction *tr, const keel_subspace *space) {
    return put(tr, space, KEEL_TUPLE("new"), WIDE);
}

static fdb_error_t try_merge(FDBTransaction *tr, const keel_subspace *space) {
    return mix(tr, space, ROOT, WIDE);
}

static fdb_error_t try_insert(FDBTransaction *tr, const keel_subspace *space) {
    return keel_document_insert(tr, space, WIDE, sizeof WIDE - 1, NULL);
}

static fdb_error_t try_get(FDBTransaction *tr, const keel_subspace *space) {
    char *json = NULL;
    fdb_error_t error = keel_document_get(tr, space, ID, ROOT, &json, NULL);
    free(json);
    return error;
}

static void test_no_memory(void **state) {
    static const attempt attempts[] = {try_set, try_merge, try_insert, try_get};
    (void)state;
    keel_subspace space = testing_subspace("memory");
    json_set_alloc_funcs(allocate, free);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        FDBTransaction *tr = testing_begin();
        ok(put(tr, &space, ROOT, WIDE));
        long failing = 0;
        fdb_error_t error = 1501;
        for (; error; failing++) {
            struct testing_state before = testing_look(tr, &space);
            allocations_left = failing;
            error = attempts[i](tr, &space);
            allocations_left = -1;
            if (!error)
                break;
            /* Jansson takes a token it has no memory for as one that is not valid */
            assert_true(error == 1501 || error == KEEL_ERROR_JSON);
            assert_true(testing_look(tr, &space).sum == before.sum);
        }
        assert_true(failing > 10);
        fdb_transaction_destroy(tr);
    }
    json_set_alloc_funcs(malloc, free);
}

/* ---- Rows of any kind: an answer or an error, never a crash ---- */

static keel_element random_element(uint64_t *seed) {
    static const uint8_t bytes[] = "\xff\0a\xc3\xa9";
    switch (testing_random(seed) % 9) {
    case 0:
        return KEEL_NIL;
    case 1:
        return KEEL_ELEMENT(KEEL_BYTES(bytes, testing_random(seed) % 5));
    case 2:
        return KEEL_TEXT((const char *)bytes + 1, testing_random(seed) % 3);
    case 3:
        return KEEL_ELEMENT((int64_t)(testing_random(seed) % 5) - 3);
    case 4:
        return KEEL_ELEMENT((double)testing_random(seed));
    case 5:
        return KEEL_TRUE;
    case 6:
        return KEEL_ELEMENT(UINT64_MAX - testing_random(seed) % 2);
    default:
        return testing_random(seed) % 2 ? KEEL_ELEMENT("a") : KEEL_ELEMENT(0);
    }
}

static void put_random_row(FDBTransaction *tr, const keel_subspace *space, uint64_t *seed) {
    keel_element elements[6];
    uint8_t key[300], value[100];
    size_t length, value_length;
    size_t count = testing_random(seed) % 6;
    for (size_t i = 0; i < 6; i++)
        elements[i] = random_element(seed);
    ok(keel_subspace_pack(space, keel_tuple_of(elements, count), key, sizeof key, &length));
    ok(keel_tuple_pack(keel_tuple_of(&elements[5], 1), value, sizeof value, &value_length));
    if (testing_random(seed) % 4 == 0)
        length -= testing_random(seed) % 2; /* cut off */
    if (testing_random(seed) % 8 == 0)
        value[0] = (uint8_t)testing_random(seed);
    fdb_transaction_set(tr, key, (int)length, value, (int)value_length);
}

static void try_everything(FDBTransaction *tr, const keel_subspace *space, uint64_t *seed) {
    char *json = NULL;
    keel_element steps[2] = {KEEL_ELEMENT("a"), KEEL_ELEMENT((int)testing_random(seed) % 3)};
    keel_tuple path = keel_tuple_of(&steps[testing_random(seed) % 2], testing_random(seed) % 2);
    if (!keel_document_get(tr, space, KEEL_ELEMENT(0), path, &json, NULL)) {
        json_t *found = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_true(found || strstr(json, "\\u0000")); /* a name with NUL cannot be parsed */
        json_decref(found);
    }
    free(json);
    json = NULL;
    keel_hierarchy_get(tr, space, path, &json, NULL);
    free(json);
    if (testing_random(seed) % 2)
        put(tr, space, path, "{\"a\":[{}]}");
    if (testing_random(seed) % 2)
        mix(tr, space, path, "{\"a\":{\"a\":{}}}");
    keel_document_delete(tr, space, KEEL_ELEMENT(0), path);
    keel_hierarchy_delete(tr, space, path);
}

static void test_random_rows(void **state) {
    uint64_t seed = 3;
    (void)state;
    keel_subspace space = testing_subspace("random");
    for (int round = 0; round < testing_rounds(2000); round++) {
        FDBTransaction *tr = testing_begin();
        for (uint32_t i = testing_random(&seed) % 8; i < 8; i++)
            put_random_row(tr, &space, &seed);
        try_everything(tr, &space, &seed);
        fdb_transaction_destroy(tr);
    }
}

/* ---- A random document beside a Jansson value ---- */

static json_t *random_json(uint64_t *seed, int depth) {
    json_t *json;
    uint32_t kind = testing_random(seed) % (depth > 0 ? 8 : 5), count = testing_random(seed) % 4;
    char name[2] = {0};
    switch (kind) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(testing_random(seed) % 2);
    case 2:
        return json_integer((json_int_t)testing_random(seed) - 1000000000);
    case 3:
        return json_real((double)testing_random(seed) / 7);
    case 4:
        return json_string(count ? "text" : "");
    case 5:
        json = json_array();
        for (uint32_t i = 0; i < count; i++)
            json_array_append_new(json, random_json(seed, depth - 1));
        return json;
    default:
        json = json_object();
        for (uint32_t i = 0; i < count; i++) {
            name[0] = (char)('a' + testing_random(seed) % 4);
            json_object_set_new(json, name, random_json(seed, depth - 1));
        }
        return json;
    }
}

/* A way from the root of the model; the last step may not be there. Returns the parent. */
static json_t *random_path(uint64_t *seed, json_t *model, keel_element *steps, size_t *count) {
    static const char *const names[] = {"a", "b", "c", "d"};
    json_t *parent = NULL;
    *count = 0;
    while (*count < 6 && (json_is_object(model) || json_is_array(model))) {
        if (*count > 0 && testing_random(seed) % 3 == 0)
            break;
        parent = model;
        if (json_is_object(model)) {
            const char *name = names[testing_random(seed) % 4];
            steps[(*count)++] = keel_element_of_string(name);
            model = json_object_get(model, name);
        } else {
            size_t index = testing_random(seed) % (json_array_size(model) + 1);
            steps[(*count)++] = keel_element_of_int((int64_t)index);
            model = json_array_get(model, index);
        }
    }
    return parent;
}

static void model_set(json_t *parent, const keel_element *step, json_t *value) {
    if (json_is_object(parent))
        json_object_setn(parent, (const char *)step->value.as_bytes.data,
                         step->value.as_bytes.length, value);
    else if ((size_t)step->value.as_int == json_array_size(parent))
        json_array_append(parent, value);
    else
        json_array_set(parent, (size_t)step->value.as_int, value);
}

static int model_delete(json_t *parent, const keel_element *step) {
    if (json_is_object(parent))
        return json_object_deln(parent, (const char *)step->value.as_bytes.data,
                                step->value.as_bytes.length);
    return json_array_remove(parent, (size_t)step->value.as_int);
}

static void change_both(FDBTransaction *tr, const keel_subspace *space, bool hierarchy,
                        uint64_t *seed, json_t *model) {
    keel_element steps[8];
    size_t count;
    json_t *parent = random_path(seed, model, steps, &count);
    keel_tuple path = keel_tuple_of(steps, count);
    if (testing_random(seed) % 4 == 0) {
        fdb_error_t expected = model_delete(parent, &steps[count - 1]) ? KEEL_ERROR_NOT_FOUND : 0;
        assert_int_equal(hierarchy ? keel_hierarchy_delete(tr, space, path)
                                   : keel_document_delete(tr, space, ID, path),
                         expected);
        return;
    }
    json_t *value = random_json(seed, 3);
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    ok(hierarchy ? keel_hierarchy_set(tr, space, path, text, strlen(text))
                 : keel_document_set(tr, space, ID, path, text, strlen(text)));
    model_set(parent, &steps[count - 1], value);
    free(text);
    json_decref(value);
}

static void compare_both(FDBTransaction *tr, const keel_subspace *space, bool hierarchy,
                         const json_t *model) {
    char *text = NULL;
    ok(hierarchy ? keel_hierarchy_get(tr, space, ROOT, &text, NULL)
                 : keel_document_get(tr, space, ID, ROOT, &text, NULL));
    json_t *found = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_true(json_equal(found, model));
    json_decref(found);
    free(text);
}

static void follow_model(bool hierarchy) {
    uint64_t seed = 42;
    keel_subspace space = testing_subspace("model");
    json_t *model = json_object();
    FDBTransaction *tr = testing_begin();
    ok(hierarchy ? keel_hierarchy_set(tr, &space, ROOT, "{}", 2) : put(tr, &space, ROOT, "{}"));
    testing_commit(tr);
    for (int round = 0; round < testing_rounds(400); round++) {
        tr = testing_begin();
        for (uint32_t i = testing_random(&seed) % 3; i < 3; i++)
            change_both(tr, &space, hierarchy, &seed, model);
        compare_both(tr, &space, hierarchy, model);
        testing_commit(tr);
    }
    tr = testing_begin();
    compare_both(tr, &space, hierarchy, model);
    fdb_transaction_destroy(tr);
    json_decref(model);
}

static void test_model(void **state) {
    (void)state;
    follow_model(false);
}

static void test_model_hierarchy(void **state) {
    (void)state;
    follow_model(true);
}

/* ---- Side by side ---- */

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("conflicts");
    FDBTransaction *tr = testing_begin(), *other;
    ok(put(tr, &space, ROOT, "{\"a\":1,\"o\":{\"x\":1},\"l\":[1]}"));
    testing_commit(tr);
    tr = testing_begin(), other = testing_begin(); /* members of one object: no conflict */
    ok(put(tr, &space, KEEL_TUPLE("o", "x"), "2"));
    ok(put(other, &space, KEEL_TUPLE("o", "y"), "3"));
    testing_commit(tr);
    testing_commit(other);
    tr = testing_begin(), other = testing_begin(); /* a parent replaced: conflict */
    ok(put(tr, &space, KEEL_TUPLE("o"), "5"));
    ok(put(other, &space, KEEL_TUPLE("o", "z"), "4"));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
    tr = testing_begin(), other = testing_begin(); /* two appends: conflict */
    ok(put(tr, &space, KEEL_TUPLE("l", 1), "2"));
    ok(put(other, &space, KEEL_TUPLE("l", 1), "3"));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
    tr = testing_begin(), other = testing_begin(); /* an append and a delete before it: conflict */
    ok(keel_document_delete(tr, &space, ID, KEEL_TUPLE("l", 1)));
    ok(put(other, &space, KEEL_TUPLE("l", 2), "3"));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
    tr = testing_begin(), other = testing_begin(); /* nothing found, then something: conflict */
    ok(put(other, &space, KEEL_TUPLE("n", "a"), "{}"));
    ok(put(tr, &space, KEEL_TUPLE("n"), "[]"));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
    tr = testing_begin();
    expect(tr, &space, ROOT, "{\"a\":1,\"l\":[1],\"n\":[],\"o\":5}");
    fdb_transaction_destroy(tr);
}

/* The first thing at a place where nothing was: by name, by index, or as an empty object. */
static fdb_error_t begin_container(FDBTransaction *tr, const keel_subspace *space, int way) {
    switch (way) {
    case 0:
        return put(tr, space, KEEL_TUPLE("a", "x"), "1");
    case 1:
        return mix(tr, space, ROOT, "{\"a\":{\"y\":2}}");
    case 2:
        return mix(tr, space, ROOT, "{\"a\":{}}");
    default:
        return put(tr, space, KEEL_TUPLE("a", 0), "3");
    }
}

static void test_first_conflicts(void **state) {
    (void)state;
    static const char *const results[] = {"{\"x\":1}", "{\"y\":2}", "{}", "[3]"};
    for (int pair = 0; pair < 16; pair++) {
        int first = pair / 4, second = pair % 4;
        keel_subspace space = testing_subspace("first");
        FDBTransaction *tr = testing_begin();
        ok(put(tr, &space, ROOT, "{\"s\":1}"));
        testing_commit(tr);
        tr = testing_begin();
        FDBTransaction *other = testing_begin();
        ok(begin_container(tr, &space, first));
        ok(begin_container(other, &space, second));
        testing_commit(tr);
        fdb_error_t error = testing_try_commit(other);
        if (first == 3 || second == 3) /* an array is nothing else besides */
            assert_int_equal(error, 1020);
        else if (first < 2 && second < 2) /* members of one object */
            assert_int_equal(error, 0);
        tr = testing_begin();
        if (error)
            expect(tr, &space, KEEL_TUPLE("a"), results[first]);
        else if (first != second && first < 2 && second < 2)
            expect(tr, &space, KEEL_TUPLE("a"), "{\"x\":1,\"y\":2}");
        else
            expect(tr, &space, KEEL_TUPLE("a"), results[first < second ? first : second]);
        fdb_transaction_destroy(tr);
    }
}

enum { THREADS = 8 };
static keel_subspace shared;

struct work {
    intptr_t thread;
    int round;
};

/* Each thread has a member that it adds and takes away, a member that counts, and an array that all
   append to. */
static fdb_error_t change_shared(FDBTransaction *tr, void *context) {
    struct work *work = context;
    char name[24], number[24], *json = NULL;
    snprintf(name, sizeof name, "t%d", (int)work->thread);
    snprintf(number, sizeof number, "%d", work->round);
    fdb_error_t error = put(tr, &shared, KEEL_TUPLE("count", name), number);
    if (!error && work->round % 2 == 0)
        error = put(tr, &shared, KEEL_TUPLE("flicker", name, "deep"), "{}");
    if (!error && work->round % 2)
        error = keel_document_delete(tr, &shared, ID, KEEL_TUPLE("flicker", name));
    if (!error)
        error = keel_document_get(tr, &shared, ID, KEEL_TUPLE("list"), &json, NULL);
    if (error)
        return error;
    json_t *list = json_loads(json, 0, NULL);
    free(json);
    error = put(tr, &shared, KEEL_TUPLE("list", (uint64_t)json_array_size(list)), number);
    json_decref(list);
    return error;
}

static void *changer(void *argument) {
    int rounds = testing_rounds(20) & ~1;
    for (int round = 0; round < rounds; round++) {
        struct work work = {(intptr_t)argument, round};
        ok(keel_run(testing_database(), change_shared, &work));
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    shared = testing_subspace("threads");
    int rounds = testing_rounds(20) & ~1;
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &shared, ROOT, "{\"flicker\":{},\"count\":{},\"list\":[]}"));
    testing_commit(tr);
    testing_threads(THREADS, changer);
    tr = testing_begin();
    char *json = NULL;
    expect(tr, &shared, KEEL_TUPLE("flicker"), "{}"); /* nothing left, and still an object */
    ok(keel_document_get(tr, &shared, ID, ROOT, &json, NULL));
    json_t *found = json_loads(json, 0, NULL), *list = json_object_get(found, "list");
    assert_int_equal(json_array_size(list), THREADS * rounds); /* nothing lost, nothing twice */
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_integer_value(json_array_get(list, i));
    assert_int_equal(sum, THREADS * rounds * (rounds - 1) / 2);
    assert_int_equal(json_object_size(json_object_get(found, "count")), THREADS);
    json_decref(found);
    free(json);
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_keys),
        cmocka_unit_test(test_paths),         cmocka_unit_test(test_names_alike),
        cmocka_unit_test(test_delete),        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_insert_and_list), cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_bad_paths),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_deep_rows),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_strange_rows),  cmocka_unit_test(test_hierarchy),
        cmocka_unit_test(test_model),         cmocka_unit_test(test_model_hierarchy),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_conflicts),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_first_conflicts),
    };
    return cmocka_run_group_tests(tests, testing_open, testing_close);
}
