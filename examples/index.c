/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users with two indexes: by city, and by email, which no two may share. A third index, by age, is
 * added when there are users already, and built over them.
 *
 *     index [DATABASE]
 */
#include <keel/index.h>

#include <stdio.h>
#include <stdlib.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "index: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

/* A user is a packed tuple: (name, city, email, age). Each index takes one element of it. */
static fdb_error_t by_element(const keel_index_record *record, keel_index_entries *entries,
                              const void *position) {
    keel_tuple_iterator it = keel_tuple_iterate(record->value);
    keel_element element;
    fdb_error_t error = keel_tuple_skip(&it, *(const size_t *)position);
    if (!error)
        error = keel_tuple_next(&it, &element);
    return error ? error : keel_index_emit(entries, KEEL_TUPLE(element));
}

static const size_t CITY = 1, EMAIL = 2, AGE = 3;
static keel_index indexes[] = {
    {.extract = by_element, .context = &CITY},
    {.extract = by_element, .context = &EMAIL, .flags = KEEL_INDEX_UNIQUE},
    {.extract = by_element, .context = &AGE},
};
static keel_index_records users = {.indexes = indexes, .index_count = 2};

struct user {
    int id;
    keel_tuple fields;
};

static fdb_error_t put_user(FDBTransaction *tr, void *context) {
    struct user *user = context;
    uint8_t value[256];
    size_t length;
    fdb_error_t error = keel_tuple_pack(user->fields, value, sizeof value, &length);
    if (!error)
        error = keel_index_put(tr, &users, KEEL_ELEMENT(user->id), KEEL_TUPLE(),
                               KEEL_BYTES(value, length));
    return error;
}

static fdb_error_t print_user(const keel_index_record *record, void *context) {
    (void)context;
    char text[256];
    size_t length;
    fdb_error_t error = keel_tuple_print(record->value, text, sizeof text, &length);
    if (!error)
        printf("  %s\n", text);
    return error;
}

static fdb_error_t print_oslo(FDBTransaction *tr, void *context) {
    return keel_index_find_records(tr, &users, &indexes[0], KEEL_TUPLE("Oslo"), 0, false,
                                   print_user, context);
}

static fdb_error_t print_oldest(FDBTransaction *tr, void *context) {
    return keel_index_find_records(tr, &users, &indexes[2], KEEL_TUPLE(), 1, true, print_user,
                                   context);
}

int main(int argc, char **argv) {
    keel_db *db;
    keel_subspace progress;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "user"), &users.subspace), "users");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "city"), &indexes[0].subspace), "city");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "email"), &indexes[1].subspace), "email");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "age"), &indexes[2].subspace), "age");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "age build"), &progress), "progress");

    struct user ann = {1, KEEL_TUPLE("Ann", "Oslo", "ann@example.org", 41)};
    struct user bob = {2, KEEL_TUPLE("Bob", "Oslo", "bob@example.org", 29)};
    struct user moved = {2, KEEL_TUPLE("Bob", "Rome", "bob@example.org", 29)};
    struct user other = {3, KEEL_TUPLE("Ann Other", "Oslo", "ann@example.org", 17)};
    check(keel_run(keel_fdb(db), put_user, &ann), "put");
    check(keel_run(keel_fdb(db), put_user, &bob), "put");
    printf("In Oslo:\n");
    check(keel_run_read(keel_fdb(db), print_oslo, NULL), "find");
    check(keel_run(keel_fdb(db), put_user, &moved), "put");
    printf("In Oslo, after Bob moved:\n");
    check(keel_run_read(keel_fdb(db), print_oslo, NULL), "find");
    fdb_error_t error = keel_run(keel_fdb(db), put_user, &other);
    printf("A second ann@example.org: %s\n", keel_error_text(error));
    if (error != KEEL_ERROR_DUPLICATE)
        return 1;

    users.index_count = 3; /* from here on, everyone who writes users keeps up the third index */
    check(keel_index_build(keel_fdb(db), &users, &indexes[2], &progress, 0), "build");
    printf("The oldest:\n");
    check(keel_run_read(keel_fdb(db), print_oldest, NULL), "find");
    keel_close(db);
    return 0;
}
