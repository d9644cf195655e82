/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One half of the interoperation test of the index recipe; the other is
 * tests/clients/python/recipe_index.py, which has the Python code of the documents. Both know one
 * set of users.
 *
 *     interop_index write DATABASE     writes it
 *     interop_index check DATABASE     reads what is there, whoever wrote it
 */
#include <keel/index.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 50 };

static int failures;

static void check(int holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    failures += !holds;
}

static void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

static keel_index zipcodes = {.extract = keel_index_by_rest};
static keel_index model_regions = {.extract = keel_index_by_rest};
static keel_index emails = {.flags = KEEL_INDEX_ID_STRING};
static keel_index regions;
static keel_index_records users = {.indexes = &zipcodes, .index_count = 1};
static keel_index_records model_users = {.indexes = &model_regions, .index_count = 1};
static keel_subspace attributes; /* (users, id, attribute) = value */

static void set_up(void) {
    must(keel_subspace_tuple(KEEL_TUPLE("user"), &users.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("zipcode_index"), &zipcodes.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("users"), &attributes), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("email_index"), &emails.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("region_index"), &regions.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("model user"), &model_users.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("region_idx"), &model_regions.subspace), "subspace");
}

static fdb_error_t set_attribute(FDBTransaction *tr, const char *id, const char *name,
                                 const char *value) {
    uint8_t key[100];
    size_t length;
    fdb_error_t error =
        keel_subspace_pack(&attributes, KEEL_TUPLE(id, name), key, sizeof key, &length);
    if (!error)
        fdb_transaction_set(tr, key, (int)length, (const uint8_t *)value, (int)strlen(value));
    return error;
}

/* An index beside records that another part of a program writes. */
static fdb_error_t move(FDBTransaction *tr, const char *id, const char *from, const char *to) {
    keel_tuple old_values = KEEL_TUPLE(keel_bytes_of_string(from));
    keel_tuple new_values = KEEL_TUPLE(keel_bytes_of_string(to));
    fdb_error_t error = set_attribute(tr, id, "region", to);
    if (!error)
        error = keel_index_update(tr, &regions, KEEL_ELEMENT(id), from ? &old_values : NULL,
                                  &new_values, KEEL_BYTES(NULL, 0));
    return error;
}

static fdb_error_t write_user(FDBTransaction *tr, int i) {
    char id[20], name[20], email[20], region[20];
    snprintf(id, sizeof id, "user%02d", i);
    snprintf(name, sizeof name, "name %d", i);
    snprintf(email, sizeof email, "user%d@x", i);
    snprintf(region, sizeof region, "region %d", i % 3);
    keel_bytes value = keel_bytes_of_string(name);
    fdb_error_t error =
        keel_index_put(tr, &users, KEEL_ELEMENT(id), KEEL_TUPLE(99999), value); /* and then moves */
    if (!error)
        error = keel_index_put(tr, &users, KEEL_ELEMENT(id), KEEL_TUPLE(10000 + i % 7), value);
    if (!error)
        error = move(tr, id, NULL, "nowhere");
    if (!error)
        error = move(tr, id, "nowhere", region);
    if (!error)
        error = set_attribute(tr, id, "email", email);
    keel_tuple address = KEEL_TUPLE(email);
    if (!error)
        error = keel_index_update(tr, &emails, KEEL_ELEMENT(id), NULL, &address, value);
    snprintf(region, sizeof region, "region %d", i % 4);
    if (!error)
        error = keel_index_put(tr, &model_users, KEEL_ELEMENT(i), KEEL_TUPLE(region), value);
    return error;
}

static fdb_error_t write_all(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < COUNT && !error; i++)
        error = write_user(tr, i);
    return error;
}

/* What is expected next, and how much was as expected. */
struct walk {
    FDBTransaction *tr;
    int next, step, good, seen;
};

static int number_of(const keel_element *id) {
    char text[20];
    size_t length = 0;
    int64_t number;
    if (!keel_element_int(id, &number))
        return (int)number;
    if (keel_element_copy(id, (uint8_t *)text, sizeof text - 1, &length))
        return -1;
    text[length] = 0;
    return strncmp(text, "user", 4) ? -1 : atoi(text + 4);
}

static fdb_error_t expect_entry(const keel_index_entry *entry, void *context) {
    struct walk *walk = context;
    walk->seen++;
    walk->good += number_of(&entry->id) == walk->next;
    walk->next += walk->step;
    return 0;
}

static fdb_error_t expect_record(const keel_index_record *record, void *context) {
    struct walk *walk = context;
    char name[20];
    snprintf(name, sizeof name, "name %d", walk->next);
    walk->seen++;
    walk->good += number_of(&record->id) == walk->next &&
                  keel_bytes_compare(record->value, keel_bytes_of_string(name)) == 0;
    walk->next += walk->step;
    return 0;
}

static fdb_error_t check_users(FDBTransaction *tr) {
    struct walk walk = {tr, 0, 1, 0, 0};
    fdb_error_t error = 0;
    for (int i = 0; i < COUNT && !error; i++) {
        char id[20];
        snprintf(id, sizeof id, "user%02d", i);
        error = keel_index_get(tr, &users, KEEL_ELEMENT(id), expect_record, &walk);
    }
    check(!error && walk.good == COUNT, "index: records by id");
    walk = (struct walk){tr, 0, 7, 0, 0};
    for (int zipcode = 0; zipcode < 7 && !error; zipcode++) {
        walk.next = zipcode;
        error = keel_index_find_records(tr, &users, &zipcodes, KEEL_TUPLE(10000 + zipcode), 0,
                                        false, expect_record, &walk);
    }
    check(!error && walk.good == COUNT && walk.seen == COUNT, "index: records by zipcode");
    walk = (struct walk){tr, 0, 4, 0, 0};
    for (int region = 0; region < 4 && !error; region++) {
        char name[20];
        snprintf(name, sizeof name, "region %d", region);
        walk.next = region;
        error = keel_index_find(tr, &model_regions, KEEL_TUPLE(name), 0, false, expect_entry,
                                &walk);
    }
    check(!error && walk.good == COUNT && walk.seen == COUNT, "index: ids by region");
    return error;
}

static fdb_error_t check_single(FDBTransaction *tr) {
    struct walk walk = {tr, 0, 1, 0, 0};
    fdb_error_t error = 0;
    for (int i = 0; i < COUNT && !error; i++) {
        char email[20];
        snprintf(email, sizeof email, "user%d@x", i);
        error = keel_index_find(tr, &emails, KEEL_TUPLE(email), 0, false, expect_entry, &walk);
    }
    check(!error && walk.good == COUNT && walk.seen == COUNT, "index: unique, the id in the value");
    walk = (struct walk){tr, 0, 3, 0, 0};
    for (int region = 0; region < 3 && !error; region++) {
        char name[20];
        snprintf(name, sizeof name, "region %d", region);
        walk.next = region;
        error = keel_index_find(tr, &regions, KEEL_TUPLE(keel_bytes_of_string(name)), 0, false,
                                expect_entry, &walk);
    }
    check(!error && walk.good == COUNT && walk.seen == COUNT, "index: entries that moved");
    walk.seen = 0;
    if (!error)
        error = keel_index_find(tr, &regions, KEEL_TUPLE(), 0, false, expect_entry, &walk);
    check(!error && walk.seen == COUNT, "index: nothing besides");
    return error;
}

static fdb_error_t check_all(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = check_users(tr);
    return error ? error : check_single(tr);
}

int main(int argc, char **argv) {
    keel_db *db;
    if (argc != 3) {
        fprintf(stderr, "usage: %s write|check DATABASE\n", argv[0]);
        return 2;
    }
    must(keel_open(argv[2], &db), "open");
    set_up();
    if (strcmp(argv[1], "write") == 0)
        must(keel_run(keel_fdb(db), write_all, NULL), "write");
    else
        must(keel_run_read(keel_fdb(db), check_all, NULL), "check");
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
