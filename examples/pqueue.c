/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A waiting room: patients by urgency, in the order of their arrival where that is the same.
 *
 *     cc pqueue.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/pqueue.h>

#include <stdio.h>
#include <stdlib.h>

static const struct patient {
    const char *name;
    int64_t urgency; /* 1 is the most urgent */
} patients[] = {{"Ada", 3}, {"Blaise", 1}, {"Carl", 3}, {"Dorothy", 2}, {"Evariste", 1}};
enum { PATIENTS = sizeof patients / sizeof *patients };

static keel_subspace room;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "pqueue: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static fdb_error_t arrive(FDBTransaction *tr, void *context) {
    const struct patient *patient = context;
    return keel_pqueue_push(tr, &room, patient->urgency, keel_bytes_of_string(patient->name));
}

struct called {
    uint8_t *name;
    size_t length;
    int64_t urgency;
};

static fdb_error_t call(FDBTransaction *tr, void *context) {
    struct called *called = context;
    return keel_pqueue_pop_min(tr, &room, &called->urgency, &called->name, &called->length);
}

int main(int argc, char **argv) {
    keel_db *db;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("waiting room"), &room), "subspace");
    for (int i = 0; i < PATIENTS; i++) {
        check(keel_run(keel_fdb(db), arrive, (void *)&patients[i]), "push");
        printf("%s arrives, urgency %d\n", patients[i].name, (int)patients[i].urgency);
    }
    for (;;) {
        struct called called;
        check(keel_run(keel_fdb(db), call, &called), "pop");
        if (!called.name)
            break;
        printf("%.*s, please (urgency %d)\n", (int)called.length, (const char *)called.name,
               (int)called.urgency);
        free(called.name);
    }
    keel_close(db);
    return 0;
}
