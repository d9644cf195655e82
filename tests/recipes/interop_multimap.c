/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One half of the interoperation test of the multimap recipe; the other is
 * tests/clients/python/recipe_multimap.py, which has the Python code of the document. Both know one
 * set of enrolments.
 *
 *     interop_multimap write DATABASE     writes it
 *     interop_multimap check DATABASE     reads what is there, whoever wrote it
 */
#include <keel/multimap.h>

#include <stdio.h>
#include <stdlib.h>

enum { STUDENTS = 20, CLASSES = 9 };

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

static keel_multimap enroll, counted = {.flags = KEEL_MULTIMAP_COUNTED};

static int takes(int student, int number) {
    return (student * 7 + number) % 3 == 0;
}

static keel_element named(char *buffer, size_t capacity, const char *kind, int number) {
    snprintf(buffer, capacity, "%s %d", kind, number);
    return keel_element_of_string(buffer);
}

static fdb_error_t write_all(FDBTransaction *tr, void *context) {
    char student[20], class[20];
    (void)context;
    fdb_error_t error = 0;
    for (int s = 0; s < STUDENTS; s++) {
        for (int c = 0; c < CLASSES && !error; c++) {
            keel_element key = named(student, sizeof student, "student", s);
            keel_element value = named(class, sizeof class, "class", c);
            error = keel_multimap_add(tr, &enroll, key, value, 1);
            if (!error && !takes(s, c))
                error = keel_multimap_remove(tr, &enroll, key, value, NULL);
        }
    }
    for (int c = 0; c < CLASSES && !error; c++)
        error = keel_multimap_add(tr, &counted, KEEL_ELEMENT("words"), KEEL_ELEMENT(c), c + 2);
    return error;
}

struct walk {
    int student, next, good, seen;
};

static fdb_error_t expect_class(const keel_element *element, int64_t count, void *context) {
    struct walk *walk = context;
    char class[20];
    while (walk->next < CLASSES && !takes(walk->student, walk->next))
        walk->next++;
    keel_element expected = named(class, sizeof class, "class", walk->next++);
    walk->seen++;
    walk->good += count == 1 && keel_element_compare(element, &expected) == 0;
    return 0;
}

static fdb_error_t expect_count(const keel_element *element, int64_t count, void *context) {
    struct walk *walk = context;
    int64_t number = -1;
    walk->seen++;
    walk->good += keel_element_int(element, &number) == 0 && number == walk->next &&
                  count == walk->next + 2;
    walk->next++;
    return 0;
}

static fdb_error_t expect_key(const keel_element *element, int64_t count, void *context) {
    (void)element, (void)count;
    ++*(int *)context;
    return 0;
}

static fdb_error_t check_all(FDBTransaction *tr, void *context) {
    struct walk walk = {0, 0, 0, 0};
    int expected = 0, right = 0, keys = 0;
    char student[20], class[20];
    (void)context;
    fdb_error_t error = 0;
    for (int s = 0; s < STUDENTS && !error; s++) {
        keel_element key = named(student, sizeof student, "student", s);
        walk.student = s;
        walk.next = 0;
        error = keel_multimap_get(tr, &enroll, key, expect_class, &walk);
        for (int c = 0; c < CLASSES && !error; c++) {
            bool contained = false;
            error = keel_multimap_contains(tr, &enroll, key,
                                           named(class, sizeof class, "class", c), &contained);
            right += contained == takes(s, c);
            expected += takes(s, c);
        }
    }
    check(!error && walk.good == expected && walk.seen == expected,
          "multimap: the values of each key");
    check(!error && right == STUDENTS * CLASSES, "multimap: whether a value is there");
    walk = (struct walk){0, 0, 0, 0};
    if (!error)
        error = keel_multimap_get(tr, &counted, KEEL_ELEMENT("words"), expect_count, &walk);
    check(!error && walk.good == CLASSES && walk.seen == CLASSES, "multimap: counts");
    if (!error)
        error = keel_multimap_keys(tr, &enroll, expect_key, &keys);
    check(!error && keys == STUDENTS, "multimap: keys");
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    if (argc != 3) {
        fprintf(stderr, "usage: %s write|check DATABASE\n", argv[0]);
        return 2;
    }
    must(keel_open(argv[2], &db), "open");
    must(keel_subspace_tuple(KEEL_TUPLE("enroll"), &enroll.subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("counted"), &counted.subspace), "subspace");
    if (strcmp(argv[1], "write") == 0)
        must(keel_run(keel_fdb(db), write_all, NULL), "write");
    else
        must(keel_run_read(keel_fdb(db), check_all, NULL), "check");
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
