/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records with indexes: what is found after every kind of change, unique values, builds that are
 * cut into transactions while others write, and, with many threads, that entries and records agree.
 *
 * A record here is text, "city email age"; the indexes take it apart.
 */
#include <keel/index.h>

#include "testing.h"

/* ---- The records of these tests ---- */

struct person {
    char city[32], email[32];
    int age;
};

static struct person person_of(keel_bytes value) {
    struct person person = {"", "", 0};
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)value.length, (const char *)value.data);
    sscanf(text, "%31s %31s %d", person.city, person.email, &person.age);
    return person;
}

/* "-" is no city: a sparse index. */
static fdb_error_t by_city(const keel_index_record *record, keel_index_entries *entries,
                           const void *context) {
    (void)context;
    struct person person = person_of(record->value);
    return strcmp(person.city, "-") ? keel_index_emit(entries, KEEL_TUPLE(person.city)) : 0;
}

static fdb_error_t by_email(const keel_index_record *record, keel_index_entries *entries,
                            const void *context) {
    (void)context;
    struct person person = person_of(record->value);
    return keel_index_emit(entries, KEEL_TUPLE(person.email));
}

static fdb_error_t by_age_and_city(const keel_index_record *record, keel_index_entries *entries,
                                   const void *context) {
    (void)context;
    struct person person = person_of(record->value);
    return keel_index_emit(entries, KEEL_TUPLE(person.age, person.city));
}

/* Every letter of the city: many entries a record, some of them twice. */
static fdb_error_t by_letter(const keel_index_record *record, keel_index_entries *entries,
                             const void *context) {
    (void)context;
    struct person person = person_of(record->value);
    fdb_error_t error = 0;
    for (const char *at = person.city; *at && !error; at++)
        error = keel_index_emit(entries, KEEL_TUPLE((int)*at));
    return error;
}

static fdb_error_t by_nothing(const keel_index_record *record, keel_index_entries *entries,
                              const void *context) {
    (void)record, (void)entries, (void)context;
    return 100001;
}

enum { CITY, EMAIL, AGE, LETTER, INDEXES };

struct people {
    keel_index indexes[INDEXES];
    keel_index_records records;
    keel_subspace progress;
};

static void people_init(struct people *people) {
    *people = (struct people){
        .indexes = {[CITY] = {.subspace = testing_subspace("city"), .extract = by_city},
                    [EMAIL] = {.subspace = testing_subspace("email"),
                               .extract = by_email,
                               .flags = KEEL_INDEX_UNIQUE},
                    [AGE] = {.subspace = testing_subspace("age"),
                             .extract = by_age_and_city,
                             .flags = KEEL_INDEX_COVERING},
                    [LETTER] = {.subspace = testing_subspace("letter"), .extract = by_letter}},
        .records = {.subspace = testing_subspace("people"), .index_count = INDEXES},
        .progress = testing_subspace("progress")};
    people->records.indexes = people->indexes;
}

static keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

static fdb_error_t put(FDBTransaction *tr, struct people *people, int id, const char *value) {
    return keel_index_put(tr, &people->records, KEEL_ELEMENT(id), KEEL_TUPLE(), text(value));
}

static void put_now(struct people *people, int id, const char *value) {
    FDBTransaction *tr = testing_begin();
    ok(put(tr, people, id, value));
    testing_commit(tr);
}

/* ---- What is found, as text: "id id id " ---- */

static char found[1000];

static fdb_error_t note_element(const keel_element *id) {
    char printed[64];
    size_t length;
    ok(keel_element_print(id, printed, sizeof printed, &length));
    strncat(found, printed, sizeof found - strlen(found) - 1);
    strncat(found, " ", sizeof found - strlen(found) - 1);
    return 0;
}

static fdb_error_t note_entry(const keel_index_entry *entry, void *context) {
    (void)context;
    return note_element(&entry->id);
}

static fdb_error_t note_entry_value(const keel_index_entry *entry, void *context) {
    (void)context;
    snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s;", (int)entry->value.length,
             (const char *)entry->value.data);
    return 0;
}

static fdb_error_t note_record(const keel_index_record *record, void *context) {
    (void)context;
    note_element(&record->id);
    snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s;",
             (int)record->value.length, (const char *)record->value.data);
    return 0;
}

static const char *find(const keel_index *index, keel_tuple values, int limit, bool reverse) {
    FDBTransaction *tr = testing_begin();
    found[0] = 0;
    ok(keel_index_find(tr, index, values, limit, reverse, note_entry, NULL));
    fdb_transaction_destroy(tr);
    return found;
}

/* ---- Tests ---- */

static void update_moves_entries(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "Oslo a@x 30");
    put_now(&people, 2, "Oslo b@x 20");
    put_now(&people, 3, "Rome c@x 30");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Oslo"), 0, false), "1 2 ");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Oslo"), 0, true), "2 1 ");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Oslo"), 1, false), "1 ");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE(), 0, false), "1 2 3 ");
    put_now(&people, 1, "Rome a@x 31");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Oslo"), 0, false), "2 ");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Rome"), 0, false), "1 3 ");
    assert_string_equal(find(&people.indexes[AGE], KEEL_TUPLE(30), 0, false), "3 ");
    assert_string_equal(find(&people.indexes[AGE], KEEL_TUPLE(31, "Rome"), 0, false), "1 ");
    put_now(&people, 1, "- a@x 31"); /* leaves the sparse index */
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Rome"), 0, false), "3 ");
    assert_int_equal(testing_rows(&people.indexes[CITY].subspace), 2);
}

static void many_entries_a_record(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "abba a@x 1");
    put_now(&people, 2, "bcd b@x 1");
    assert_int_equal(testing_rows(&people.indexes[LETTER].subspace), 5);
    assert_string_equal(find(&people.indexes[LETTER], KEEL_TUPLE('b'), 0, false), "1 2 ");
    put_now(&people, 2, "cde b@x 1");
    assert_string_equal(find(&people.indexes[LETTER], KEEL_TUPLE('b'), 0, false), "1 ");
    assert_string_equal(find(&people.indexes[LETTER], KEEL_TUPLE('e'), 0, false), "2 ");
    assert_int_equal(testing_rows(&people.indexes[LETTER].subspace), 5);
}

static void remove_takes_entries_along(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "Oslo a@x 30");
    put_now(&people, 2, "Oslo b@x 30");
    FDBTransaction *tr = testing_begin();
    bool removed = false;
    ok(keel_index_remove(tr, &people.records, KEEL_ELEMENT(1), &removed));
    assert_true(removed);
    ok(keel_index_remove(tr, &people.records, KEEL_ELEMENT(1), &removed));
    assert_false(removed);
    ok(keel_index_remove(tr, &people.records, KEEL_ELEMENT(7), NULL));
    testing_commit(tr);
    for (int i = 0; i < INDEXES; i++)
        assert_int_equal(testing_rows(&people.indexes[i].subspace), i == LETTER ? 4 : 1);
    tr = testing_begin();
    assert_int_equal(
        keel_index_get(tr, &people.records, KEEL_ELEMENT(1), note_record, NULL),
        KEEL_ERROR_NOT_FOUND);
    found[0] = 0;
    ok(keel_index_get(tr, &people.records, KEEL_ELEMENT(2), note_record, NULL));
    assert_string_equal(found, "2 Oslo b@x 30;");
    fdb_transaction_destroy(tr);
}

static void unchanged_entries_are_not_written(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "Oslo a@x 30");
    FDBTransaction *reader = testing_begin();
    ok(keel_index_find(reader, &people.indexes[CITY], KEEL_TUPLE("Oslo"), 0, false, note_entry,
                       NULL));
    put_now(&people, 1, "Oslo a@x 31"); /* same city: the reader's entries are untouched */
    fdb_transaction_set(reader, (const uint8_t *)"t", 1, (const uint8_t *)"", 0);
    testing_commit(reader);
}

static void covering_index_follows_the_value(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    people.indexes[AGE].extract = by_city; /* the entry's key stays, its value does not */
    put_now(&people, 1, "Oslo a@x 30");
    put_now(&people, 1, "Oslo a@x 31");
    FDBTransaction *tr = testing_begin();
    found[0] = 0;
    ok(keel_index_find(tr, &people.indexes[AGE], KEEL_TUPLE("Oslo"), 0, false, note_entry_value,
                       NULL));
    assert_string_equal(found, "Oslo a@x 31;");
    fdb_transaction_destroy(tr);
}

static void records_of_entries(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    FDBTransaction *tr = testing_begin();
    for (int i = 0; i < 100; i++) {
        char value[64];
        snprintf(value, sizeof value, "Oslo m%d 30", i);
        ok(put(tr, &people, i, value));
    }
    found[0] = 0; /* in the transaction that wrote them */
    ok(keel_index_find_records(tr, &people.records, &people.indexes[CITY], KEEL_TUPLE("Oslo"), 3,
                               true, note_record, NULL));
    assert_string_equal(found, "99 Oslo m99 30;98 Oslo m98 30;97 Oslo m97 30;");
    found[0] = 0;
    ok(keel_index_find_records(tr, &people.records, &people.indexes[CITY], KEEL_TUPLE(), 0, false,
                               note_record, NULL));
    assert_int_equal(strncmp(found, "0 Oslo m0 30;1 Oslo m1 30;", 26), 0);
    /* an entry that somebody left behind is passed over */
    keel_tuple nowhere = KEEL_TUPLE("Nowhere");
    ok(keel_index_update(tr, &people.indexes[CITY], KEEL_ELEMENT(4711), NULL, &nowhere,
                         text("")));
    found[0] = 0;
    ok(keel_index_find_records(tr, &people.records, &people.indexes[CITY], nowhere, 0, false,
                               note_record, NULL));
    assert_string_equal(found, "");
    testing_commit(tr);
}

static void ranges_of_values(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    for (int i = 0; i < 6; i++) {
        char value[64];
        snprintf(value, sizeof value, "Oslo m%d %d", i, 20 + i);
        put_now(&people, i, value);
    }
    FDBTransaction *tr = testing_begin();
    const keel_index *age = &people.indexes[AGE];
    found[0] = 0;
    ok(keel_index_find_between(tr, age, KEEL_TUPLE(21), KEEL_TUPLE(24), 0, false, note_entry,
                               NULL));
    assert_string_equal(found, "1 2 3 ");
    found[0] = 0;
    ok(keel_index_find_between(tr, age, KEEL_TUPLE(24), KEEL_TUPLE(), 0, true, note_entry, NULL));
    assert_string_equal(found, "5 4 ");
    found[0] = 0;
    ok(keel_index_find_between(tr, age, KEEL_TUPLE(), KEEL_TUPLE(22), 1, true, note_entry, NULL));
    assert_string_equal(found, "1 ");
    found[0] = 0;
    ok(keel_index_find_between(tr, age, KEEL_TUPLE(22), KEEL_TUPLE(22), 0, true, note_entry, NULL));
    assert_string_equal(found, "");
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_index_find_between(tr, age, KEEL_TUPLE(23), KEEL_TUPLE(22), 0, true, note_entry,
                                    NULL));
    fdb_transaction_destroy(tr);
}

static void unique_refuses_a_duplicate(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "Oslo a@x 30");
    put_now(&people, 2, "Oslo b@x 30");
    FDBTransaction *tr = testing_begin();
    refused(tr, KEEL_ERROR_DUPLICATE, put(tr, &people, 3, "Rome a@x 1"));
    refused(tr, KEEL_ERROR_DUPLICATE, put(tr, &people, 2, "Rome a@x 1"));
    ok(put(tr, &people, 1, "Rome a@x 1"));          /* its own */
    ok(put(tr, &people, 4, "Rome c@x 1"));          /* another, seen by the same transaction */
    refused(tr, KEEL_ERROR_DUPLICATE, put(tr, &people, 5, "Rome c@x 1"));
    ok(put(tr, &people, 1, "Rome d@x 1"));          /* lets go of it */
    ok(put(tr, &people, 5, "Rome a@x 1"));
    ok(keel_index_remove(tr, &people.records, KEEL_ELEMENT(5), NULL));
    ok(put(tr, &people, 6, "Rome a@x 1"));
    testing_commit(tr);
}

static void unique_across_transactions(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    FDBTransaction *one = testing_begin(), *other = testing_begin();
    ok(put(one, &people, 1, "Oslo same@x 30"));
    ok(put(other, &people, 2, "Rome same@x 30"));
    testing_commit(one);
    assert_int_equal(testing_try_commit(other), 1020);
}

static void id_in_the_value(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    people.indexes[EMAIL].flags = KEEL_INDEX_ID_STRING;
    people.records.index_count = 2;
    FDBTransaction *tr = testing_begin();
    ok(keel_index_put(tr, &people.records, KEEL_ELEMENT("ann"), KEEL_TUPLE(), text("Oslo a@x 1")));
    refused(tr, KEEL_ERROR_DUPLICATE,
            keel_index_put(tr, &people.records, KEEL_ELEMENT("bob"), KEEL_TUPLE(),
                           text("Oslo a@x 1")));
    refused(tr, KEEL_ERROR_TUPLE_TYPE, put(tr, &people, 7, "Oslo z@x 1"));
    refused(tr, KEEL_ERROR_TUPLE_TYPE,
            keel_index_put(tr, &people.records, KEEL_ELEMENT(text("bytes")), KEEL_TUPLE(),
                           text("Oslo z@x 1")));
    ok(keel_index_put(tr, &people.records, KEEL_ELEMENT("ann"), KEEL_TUPLE(), text("Rome b@x 1")));
    ok(keel_index_put(tr, &people.records, KEEL_ELEMENT("bob"), KEEL_TUPLE(), text("Rome a@x 1")));
    testing_commit(tr);
    assert_string_equal(find(&people.indexes[EMAIL], KEEL_TUPLE("a@x"), 0, false), "\"bob\" ");
    assert_string_equal(find(&people.indexes[EMAIL], KEEL_TUPLE("b@x"), 0, false), "\"ann\" ");
    tr = testing_begin();
    found[0] = 0;
    ok(keel_index_find_records(tr, &people.records, &people.indexes[EMAIL], KEEL_TUPLE("a@x"), 0,
                               false, note_record, NULL));
    assert_string_equal(found, "\"bob\" Rome a@x 1;");
    people.indexes[EMAIL].flags = KEEL_INDEX_ID_BYTES;
    ok(keel_index_put(tr, &people.records, KEEL_ELEMENT(KEEL_BYTES("\0\xff", 2)), KEEL_TUPLE(),
                      text("Oslo z@x 1")));
    testing_commit(tr);
    assert_string_equal(find(&people.indexes[EMAIL], KEEL_TUPLE("z@x"), 0, false), "0x00ff ");
}

/* (user, id, zipcode) = name, (zipcode_index, zipcode, id) = '' */
static void attribute_in_the_key(void **state) {
    (void)state;
    keel_index zipcode = {.subspace = testing_subspace("zip"), .extract = keel_index_by_rest};
    keel_index_records users = {testing_subspace("user"), &zipcode, 1};
    FDBTransaction *tr = testing_begin();
    ok(keel_index_put(tr, &users, KEEL_ELEMENT("u1"), KEEL_TUPLE(12345), text("Ann")));
    ok(keel_index_put(tr, &users, KEEL_ELEMENT("u2"), KEEL_TUPLE(12345), text("Bob")));
    ok(keel_index_put(tr, &users, KEEL_ELEMENT("u1"), KEEL_TUPLE(54321), text("Ann")));
    ok(keel_index_put(tr, &users, KEEL_ELEMENT("u3"), KEEL_TUPLE(), text("Carl")));
    /* one that begins like another and goes on with a zero byte is another */
    ok(keel_index_put(tr, &users, KEEL_TEXT("u1\0x", 4), KEEL_TUPLE(1), text("Dora")));
    ok(keel_index_put(tr, &users, KEEL_ELEMENT("u1"), KEEL_TUPLE(54321), text("Anna")));
    testing_commit(tr);
    assert_int_equal(testing_rows(&users.subspace), 4);
    assert_string_equal(find(&zipcode, KEEL_TUPLE(12345), 0, false), "\"u2\" ");
    assert_string_equal(find(&zipcode, KEEL_TUPLE(54321), 0, false), "\"u1\" ");
    assert_string_equal(find(&zipcode, KEEL_TUPLE(1), 0, false), "\"u1\\x00x\" ");
    tr = testing_begin();
    ok(keel_index_remove(tr, &users, KEEL_ELEMENT("u1"), NULL));
    testing_commit(tr);
    assert_int_equal(testing_rows(&users.subspace), 3);
    assert_int_equal(testing_rows(&zipcode.subspace), 2);
}

static void index_by_itself(void **state) {
    (void)state;
    keel_index region = {.subspace = testing_subspace("region"), .flags = KEEL_INDEX_UNIQUE};
    keel_tuple north = KEEL_TUPLE("north"), south = KEEL_TUPLE("south");
    FDBTransaction *tr = testing_begin();
    ok(keel_index_update(tr, &region, KEEL_ELEMENT(1), NULL, &north, text("")));
    refused(tr, KEEL_ERROR_DUPLICATE,
            keel_index_update(tr, &region, KEEL_ELEMENT(2), NULL, &north, text("")));
    ok(keel_index_update(tr, &region, KEEL_ELEMENT(1), &north, &south, text("")));
    ok(keel_index_update(tr, &region, KEEL_ELEMENT(2), NULL, &north, text("")));
    ok(keel_index_update(tr, &region, KEEL_ELEMENT(1), &south, NULL, text("")));
    testing_commit(tr);
    assert_string_equal(find(&region, KEEL_TUPLE(), 0, false), "2 ");
}

static void bad_input_changes_nothing(void **state) {
    (void)state;
    static uint8_t big[100001];
    struct people people;
    people_init(&people);
    FDBTransaction *tr = testing_begin();
    ok(put(tr, &people, 1, "Oslo a@x 30"));
    refused(tr, 2103, keel_index_put(tr, &people.records, KEEL_ELEMENT(1), KEEL_TUPLE(),
                                     KEEL_BYTES(big, sizeof big)));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_index_put(tr, &people.records, KEEL_ELEMENT(1),
                                                    KEEL_TUPLE(), KEEL_BYTES(NULL, 1)));
    keel_tuple values = KEEL_TUPLE("Oslo");
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_index_update(tr, &people.indexes[CITY], KEEL_ELEMENT(1), NULL, &values,
                              KEEL_BYTES(NULL, 1)));
    refused(tr, 2102, keel_index_put(tr, &people.records, KEEL_ELEMENT(KEEL_BYTES(big, 10000)),
                                     KEEL_TUPLE(), text("Oslo b@x 1")));
    refused(tr, 2102, keel_index_put(tr, &people.records, KEEL_ELEMENT(1),
                                     KEEL_TUPLE(KEEL_BYTES(big, 10000)), text("Oslo b@x 1")));
    refused(tr, KEEL_ERROR_NOT_UTF8,
            keel_index_put(tr, &people.records, KEEL_ELEMENT("\xff"), KEEL_TUPLE(), text("")));
    refused(tr, KEEL_ERROR_NOT_UTF8, put(tr, &people, 1, "Os\xfflo b@x 1")); /* the index's key */
    refused(tr, KEEL_ERROR_INCOMPLETE_VERSIONSTAMP,
            keel_index_put(tr, &people.records, KEEL_INCOMPLETE(0), KEEL_TUPLE(), text("")));
    people.indexes[LETTER].extract = by_nothing;
    refused(tr, 100001, put(tr, &people, 1, "Rome b@x 1"));
    people.indexes[LETTER].extract = NULL;
    refused(tr, KEEL_ERROR_ARGUMENT, put(tr, &people, 1, "Rome b@x 1"));
    people.indexes[LETTER].extract = by_letter;
    people.indexes[LETTER].flags = KEEL_INDEX_ID_STRING | KEEL_INDEX_ID_BYTES;
    refused(tr, KEEL_ERROR_ARGUMENT, put(tr, &people, 1, "Rome b@x 1"));
    people.indexes[LETTER].flags = KEEL_INDEX_ID_STRING | KEEL_INDEX_COVERING;
    refused(tr, KEEL_ERROR_ARGUMENT, put(tr, &people, 1, "Rome b@x 1"));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_index_find(tr, &people.indexes[CITY], KEEL_TUPLE(), -1,
                                                     false, note_entry, NULL));
    fdb_transaction_destroy(tr);
}

static void foreign_keys_are_reported(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    uint8_t key[600];
    keel_bytes prefix = keel_subspace_prefix(&people.indexes[CITY].subspace);
    memcpy(key, prefix.data, prefix.length);
    key[prefix.length] = 0xfe;
    FDBTransaction *tr = testing_begin();
    fdb_transaction_set(tr, key, (int)prefix.length + 1, key, 0);
    refused(tr, KEEL_ERROR_STORED_FORMAT,
            keel_index_find(tr, &people.indexes[CITY], KEEL_TUPLE(), 0, false, note_entry, NULL));
    fdb_transaction_destroy(tr);
}

/* ---- Builds ---- */

static keel_index_state build_state(struct people *people, int64_t *rows) {
    keel_index_state state;
    FDBTransaction *tr = testing_begin();
    ok(keel_index_build_state(tr, &people->progress, &state, rows));
    fdb_transaction_destroy(tr);
    return state;
}

static void build_over_existing_records(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    people.records.index_count = 0; /* written without any index */
    FDBTransaction *tr = testing_begin();
    for (int i = 0; i < 250; i++) {
        char value[64];
        snprintf(value, sizeof value, "%s m%d %d", i % 10 ? "Oslo" : "Rome", i, i);
        ok(put(tr, &people, i, value));
    }
    testing_commit(tr);
    people.records.index_count = INDEXES;
    int64_t rows = -1;
    assert_int_equal(build_state(&people, &rows), KEEL_INDEX_NOT_BUILT);
    tr = testing_begin();
    keel_index_state reached;
    refused(tr, KEEL_ERROR_NOT_FOUND,
            keel_index_build_step(tr, &people.records, &people.indexes[CITY], &people.progress, 10,
                                  &reached, &rows));
    /* what was left in the index by whatever came before is gone */
    keel_tuple wrong = KEEL_TUPLE("Paris");
    ok(keel_index_update(tr, &people.indexes[CITY], KEEL_ELEMENT(5), NULL, &wrong, text("")));
    ok(keel_index_build_start(tr, &people.indexes[CITY], &people.progress));
    ok(keel_index_build_step(tr, &people.records, &people.indexes[CITY], &people.progress, 100,
                             &reached, &rows));
    testing_commit(tr);
    assert_int_equal(build_state(&people, &rows), KEEL_INDEX_BUILDING);
    assert_int_equal(rows, 100);
    put_now(&people, 3, "Rome m3 3");       /* behind */
    put_now(&people, 200, "Rome m200 200"); /* ahead */
    ok(keel_index_build(testing_database(), &people.records, &people.indexes[CITY],
                        &people.progress, 50)); /* goes on, in several transactions */
    assert_int_equal(build_state(&people, &rows), KEEL_INDEX_BUILT);
    assert_int_equal(rows, 250);
    assert_int_equal(testing_rows(&people.indexes[CITY].subspace), 250);
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Rome"), 3, false), "0 3 10 ");
    assert_string_equal(find(&people.indexes[CITY], KEEL_TUPLE("Rome"), 2, true), "240 230 ");
    ok(keel_index_build(testing_database(), &people.records, &people.indexes[CITY],
                        &people.progress, 50)); /* nothing to do */
}

static void build_finds_duplicates(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    people.records.index_count = 0;
    for (int i = 0; i < 20; i++) {
        char value[64];
        snprintf(value, sizeof value, "Oslo m%d 1", i == 15 ? 2 : i == 5 ? 4 : i);
        put_now(&people, i, value);
    }
    people.records.index_count = INDEXES;
    const keel_index *email = &people.indexes[EMAIL];
    /* within one step */
    assert_int_equal(keel_index_build(testing_database(), &people.records, email,
                                      &people.progress, 10),
                     KEEL_ERROR_DUPLICATE);
    int64_t rows;
    assert_int_equal(build_state(&people, &rows), KEEL_INDEX_NOT_BUILT);
    people.records.index_count = 1;
    put_now(&people, 5, "Oslo m5 1");
    /* across two */
    assert_int_equal(keel_index_build(testing_database(), &people.records, email,
                                      &people.progress, 10),
                     KEEL_ERROR_DUPLICATE);
    assert_int_equal(build_state(&people, &rows), KEEL_INDEX_BUILDING);
    people.records.index_count = INDEXES;
    put_now(&people, 15, "Oslo m15 1");
    ok(keel_index_build(testing_database(), &people.records, email, &people.progress, 10));
    assert_int_equal(testing_rows(&email->subspace), 20);
}

static void build_step_meets_a_change(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    put_now(&people, 1, "Oslo a@x 1");
    put_now(&people, 2, "Oslo b@x 1");
    FDBTransaction *tr = testing_begin();
    ok(keel_index_build_start(tr, &people.indexes[CITY], &people.progress));
    testing_commit(tr);
    keel_index_state reached;
    tr = testing_begin();
    ok(keel_index_build_step(tr, &people.records, &people.indexes[CITY], &people.progress, 0,
                             &reached, NULL));
    put_now(&people, 2, "Rome b@x 1"); /* the step is about to write Oslo */
    assert_int_equal(testing_try_commit(tr), 1020);
}

static void build_of_large_records(void **state) {
    (void)state;
    struct people people;
    people_init(&people);
    people.records.index_count = 0;
    static char value[90000];
    memset(value, ' ', sizeof value - 1);
    memcpy(value, "Oslo x@x 30", 11);
    for (int i = 0; i < 40; i++)
        put_now(&people, i, value);
    FDBTransaction *tr = testing_begin();
    ok(keel_index_build_start(tr, &people.indexes[AGE], &people.progress));
    keel_index_state reached;
    int64_t rows;
    ok(keel_index_build_step(tr, &people.records, &people.indexes[AGE], &people.progress, 0,
                             &reached, &rows));
    testing_commit(tr);
    assert_int_equal(reached, KEEL_INDEX_BUILDING);
    assert_in_range(rows, 1, 12); /* a step stays small, in bytes too */
    ok(keel_index_build(testing_database(), &people.records, &people.indexes[AGE],
                        &people.progress, 0));
    assert_int_equal(testing_rows(&people.indexes[AGE].subspace), 40);
}

/* ---- Many threads ---- */

enum { WRITERS = 6, IDS = 40, EMAILS = 30, CITIES = 5 };
static struct people shared;

struct random_put {
    int id;
    char value[64];
    bool remove;
};

static fdb_error_t put_random(FDBTransaction *tr, void *context) {
    struct random_put *change = context;
    if (change->remove)
        return keel_index_remove(tr, &shared.records, KEEL_ELEMENT(change->id), NULL);
    return put(tr, &shared, change->id, change->value);
}

static void *write_randomly(void *number) {
    uint64_t seed = (uint64_t)(intptr_t)number + 17;
    int duplicates = 0;
    for (int i = 0, rounds = testing_rounds(300); i < rounds; i++) {
        struct random_put change = {.id = (int)(testing_random(&seed) % IDS),
                                    .remove = testing_random(&seed) % 8 == 0};
        snprintf(change.value, sizeof change.value, "c%u e%u %u", testing_random(&seed) % CITIES,
                 testing_random(&seed) % EMAILS, testing_random(&seed) % 3);
        fdb_error_t error = keel_run(testing_database(), put_random, &change);
        if (error == KEEL_ERROR_DUPLICATE)
            duplicates++;
        else if (error)
            fprintf(stderr, "put: %s (%d)\n", keel_error_text(error), error), abort();
    }
    return NULL;
}

struct tally {
    FDBTransaction *tr;
    int records, entries;
    unsigned emails; /* a bit each */
};

static fdb_error_t must_have_entry(const keel_index_entry *entry, void *context) {
    (void)entry;
    ++*(int *)context;
    return 0;
}

/* Each record has its entry, under the value that it has now. */
static fdb_error_t check_record(const keel_index_record *record, void *context) {
    struct tally *tally = context;
    struct person person = person_of(record->value);
    int seen = 0;
    ok(keel_index_find(tally->tr, &shared.indexes[CITY], KEEL_TUPLE(person.city, record->id), 0,
                       false, must_have_entry, &seen));
    assert_int_equal(seen, 1);
    unsigned bit = 1u << atoi(person.email + 1);
    assert_false(tally->emails & bit);
    tally->emails |= bit;
    tally->records++;
    return 0;
}

static void entries_agree_with_records(void) {
    struct tally tally = {.tr = testing_begin()};
    for (int id = 0; id < IDS; id++) {
        fdb_error_t error = keel_index_get(tally.tr, &shared.records, KEEL_ELEMENT(id),
                                           check_record, &tally);
        assert_true(error == 0 || error == KEEL_ERROR_NOT_FOUND);
    }
    assert_true(tally.records > 0 && tally.records <= EMAILS);
    fdb_transaction_destroy(tally.tr);
    for (int i = 0; i < LETTER; i++)
        assert_int_equal(testing_rows(&shared.indexes[i].subspace), tally.records);
    assert_int_equal(testing_rows(&shared.records.subspace), tally.records);
}

static void threads_keep_entries_and_records_together(void **state) {
    (void)state;
    people_init(&shared);
    testing_threads(WRITERS, write_randomly);
    entries_agree_with_records();
}

static void *write_or_build(void *number) {
    if ((intptr_t)number >= 2)
        return write_randomly(number);
    for (int i = 0; i < 5; i++) {
        fdb_error_t error = keel_index_build(testing_database(), &shared.records,
                                             &shared.indexes[CITY], &shared.progress, 3);
        if (error)
            fprintf(stderr, "build: %s (%d)\n", keel_error_text(error), error), abort();
        FDBTransaction *tr;
        if (i < 4 && !fdb_database_create_transaction(testing_database(), &tr)) {
            if (!keel_index_build_start(tr, &shared.indexes[CITY], &shared.progress))
                keel_wait_destroy(fdb_transaction_commit(tr));
            fdb_transaction_destroy(tr);
        }
    }
    return NULL;
}

static void builds_while_others_write(void **state) {
    (void)state;
    people_init(&shared);
    testing_threads(1, write_randomly);
    testing_threads(WRITERS, write_or_build);
    ok(keel_index_build(testing_database(), &shared.records, &shared.indexes[CITY],
                        &shared.progress, 0));
    entries_agree_with_records();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_moves_entries),
        cmocka_unit_test(many_entries_a_record),
        cmocka_unit_test(remove_takes_entries_along),
        cmocka_unit_test(unchanged_entries_are_not_written),
        cmocka_unit_test(covering_index_follows_the_value),
        cmocka_unit_test(records_of_entries),
        cmocka_unit_test(ranges_of_values),
        cmocka_unit_test(unique_refuses_a_duplicate),
        cmocka_unit_test(unique_across_transactions),
        cmocka_unit_test(id_in_the_value),
        cmocka_unit_test(attribute_in_the_key),
        cmocka_unit_test(index_by_itself),
        cmocka_unit_test(bad_input_changes_nothing),
        cmocka_unit_test(foreign_keys_are_reported),
        cmocka_unit_test(build_over_existing_records),
        cmocka_unit_test(build_finds_duplicates),
        cmocka_unit_test(build_step_meets_a_change),
        cmocka_unit_test(build_of_large_records),
        cmocka_unit_test(threads_keep_entries_and_records_together),
        cmocka_unit_test(builds_while_others_write),
    };
    return cmocka_run_group_tests_name("index", tests, testing_open, testing_close);
}
