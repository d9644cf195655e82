/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other half of tests/clients/python/recipe_queue.py:
 *
 *     interop_queue write DATABASE     enqueues ITEMS values
 *     interop_queue check DATABASE     dequeues as many, whoever wrote them, then enqueues one more
 *     interop_queue rest DATABASE      dequeues one value, the other side's, and finds the end
 */
#include <keel/keel.h>
#include <keel/queue.h>

#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 300 };

static keel_subspace queue;
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

/* "c 7" and so on, and every third with a NUL and a byte that is not UTF-8. */
static keel_bytes value_of(const char *side, int i, char *buffer, size_t capacity) {
    int length = snprintf(buffer, capacity, "%s %d%c%c", side, i, 0, 0xff);
    return keel_bytes_of(buffer, (size_t)length - (i % 3 ? 2 : 0));
}

static fdb_error_t enqueue(FDBTransaction *tr, void *number) {
    char buffer[32];
    return keel_queue_enqueue(tr, &queue, value_of("c", *(int *)number, buffer, sizeof buffer));
}

struct taken {
    uint8_t *value;
    size_t length;
};

static fdb_error_t dequeue(FDBTransaction *tr, void *context) {
    struct taken *taken = context;
    return keel_queue_dequeue(tr, &queue, &taken->value, &taken->length);
}

static bool take(FDBDatabase *database, int i) {
    struct taken taken;
    char buffer[32];
    must(keel_run(database, dequeue, &taken), "dequeue");
    keel_bytes wanted = value_of("python", i, buffer, sizeof buffer);
    keel_bytes other = keel_bytes_of(taken.value, taken.length);
    bool same = taken.value && keel_bytes_compare(wanted, other) == 0;
    free(taken.value);
    return same;
}

int main(int argc, char **argv) {
    keel_db *db;
    int right = 0;
    if (argc != 3)
        return 2;
    must(keel_open(argv[2], &db), "open");
    must(keel_subspace_tuple(KEEL_TUPLE("Q"), &queue), "subspace");
    if (argv[1][0] == 'w') {
        for (int i = 0; i < ITEMS; i++)
            must(keel_run(keel_fdb(db), enqueue, &i), "enqueue");
        check(true, "queue: C enqueues");
    } else if (argv[1][0] == 'c') {
        for (int i = 0; i < ITEMS; i++)
            right += take(keel_fdb(db), i);
        check(right == ITEMS, "queue: C dequeues what Python enqueued, in order");
        must(keel_run(keel_fdb(db), enqueue, &(int){ITEMS}), "enqueue");
    } else {
        struct taken taken;
        check(take(keel_fdb(db), ITEMS), "queue: C dequeues what Python enqueued behind");
        must(keel_run(keel_fdb(db), dequeue, &taken), "dequeue");
        check(!taken.value, "queue: C finds it empty");
    }
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
