/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other half of tests/clients/python/recipe_pqueue.py:
 *
 *     interop_pqueue write DATABASE     pushes ITEMS values: i with the priority i * 7 % 11 - 5
 *     interop_pqueue check DATABASE     pops half from the small end, half as the other side's
 *                                       pop_max does, whoever wrote them
 *     interop_pqueue rest DATABASE      finds it empty
 */
#include <keel/keel.h>
#include <keel/pqueue.h>

#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 220 };

static keel_subspace pqueue;
static int failures;

static void check(bool holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    failures += !holds;
}

static void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

static int64_t priority_of(int i) {
    return i * 7 % 11 - 5;
}

static fdb_error_t push(FDBTransaction *tr, void *number) {
    char buffer[32];
    int i = *(int *)number;
    snprintf(buffer, sizeof buffer, "c %d", i);
    return keel_pqueue_push(tr, &pqueue, priority_of(i), keel_bytes_of_string(buffer));
}

struct taken {
    int64_t priority;
    uint8_t *value;
    size_t length;
};

static fdb_error_t pop_min(FDBTransaction *tr, void *context) {
    struct taken *taken = context;
    return keel_pqueue_pop_min(tr, &pqueue, &taken->priority, &taken->value, &taken->length);
}

static fdb_error_t pop_last(FDBTransaction *tr, void *context) {
    struct taken *taken = context;
    return keel_pqueue_pop_last(tr, &pqueue, &taken->priority, &taken->value, &taken->length);
}

/* Number i, with its priority. */
static bool take(FDBDatabase *database, keel_function pop, int i) {
    struct taken taken;
    char wanted[32];
    must(keel_run(database, pop, &taken), "pop");
    snprintf(wanted, sizeof wanted, "python %d", i);
    keel_bytes value = keel_bytes_of(taken.value, taken.length);
    bool same = taken.value && taken.priority == priority_of(i) &&
                keel_bytes_compare(keel_bytes_of_string(wanted), value) == 0;
    free(taken.value);
    return same;
}

/* In the order of (priority, i), half from the front, half from the back. */
static void check_all(FDBDatabase *database) {
    int order[ITEMS], count = 0, right = 0;
    for (int64_t priority = -5; priority <= 5; priority++)
        for (int i = 0; i < ITEMS; i++)
            if (priority_of(i) == priority)
                order[count++] = i;
    for (int i = 0; i < ITEMS / 2; i++)
        right += take(database, pop_min, order[i]);
    check(right == ITEMS / 2, "pqueue: C pops from the small end what Python pushed");
    for (int i = ITEMS - 1; i >= ITEMS / 2; i--)
        right += take(database, pop_last, order[i]);
    check(right == ITEMS, "pqueue: C pops from the large end what Python pushed");
}

int main(int argc, char **argv) {
    keel_db *db;
    struct taken taken;
    if (argc != 3)
        return 2;
    must(keel_open(argv[2], &db), "open");
    must(keel_subspace_tuple(KEEL_TUPLE("P"), &pqueue), "subspace");
    if (argv[1][0] == 'w') {
        for (int i = 0; i < ITEMS; i++)
            must(keel_run(keel_fdb(db), push, &i), "push");
        check(true, "pqueue: C pushes");
    } else if (argv[1][0] == 'c') {
        check_all(keel_fdb(db));
    } else {
        must(keel_run(keel_fdb(db), pop_min, &taken), "pop");
        check(!taken.value, "pqueue: C finds it empty");
    }
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
