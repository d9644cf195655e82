/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parcels to deliver: one worker delivers, one vanishes with its parcel, which comes back when the
 * lease ends; one parcel cannot be delivered at all and ends with the dead letters. Time is made
 * up.
 *
 *     cc taskqueue.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/taskqueue.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 30000 };

static keel_subspace parcels;
static int64_t now_ms;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "taskqueue: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static fdb_error_t push_parcels(FDBTransaction *tr, void *unused) {
    (void)unused;
    static const struct {
        const char *address;
        keel_task_options options;
    } all[] = {{"to Ada", {.attempts_max = 3}},
               {"to nowhere", {.attempts_max = 2}},
               {"to Blaise, express", {.priority = -1}},
               {"to Carl, tomorrow", {.delay_ms = 86400000}}};
    fdb_error_t error = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && !error; i++)
        error = keel_taskqueue_push(tr, &parcels, now_ms, &all[i].options,
                                    keel_bytes_of_string(all[i].address), NULL);
    return error;
}

struct claimed {
    keel_task task;
    bool found;
};

static fdb_error_t claim(FDBTransaction *tr, void *context) {
    struct claimed *claimed = context;
    keel_task_free(&claimed->task); /* of a try that had to be repeated */
    return keel_taskqueue_claim(tr, &parcels, now_ms, LEASE_MS, 1, &claimed->found, &claimed->task);
}

static fdb_error_t complete(FDBTransaction *tr, void *task) {
    return keel_taskqueue_complete(tr, &parcels, task);
}

static fdb_error_t fail(FDBTransaction *tr, void *task) {
    return keel_taskqueue_fail(tr, &parcels, now_ms, task, 0,
                               keel_bytes_of_string("no such address"));
}

static bool is_to(const keel_task *task, const char *address) {
    return task->payload_length >= strlen(address) &&
           memcmp(task->payload, address, strlen(address)) == 0;
}

/* Works until nothing is left to claim at this time. */
static void work(FDBDatabase *database, const char *forgotten) {
    for (;;) {
        struct claimed claimed;
        memset(&claimed, 0, sizeof claimed);
        check(keel_run(database, claim, &claimed), "claim");
        if (!claimed.found)
            return;
        keel_task *task = &claimed.task;
        printf("  parcel %.*s, attempt %d: ", (int)task->payload_length,
               (const char *)task->payload, (int)task->attempts);
        if (forgotten && is_to(task, forgotten)) {
            puts("the worker vanishes");
        } else if (is_to(task, "to nowhere")) {
            puts("failed");
            check(keel_run(database, fail, task), "fail");
        } else {
            puts("delivered");
            check(keel_run(database, complete, task), "complete");
        }
        keel_task_free(task);
    }
}

static fdb_error_t print_dead(void *unused, const keel_dead_task *dead) {
    (void)unused;
    printf("  one parcel after %d attempts: %.*s\n", (int)dead->attempts, (int)dead->reason.length,
           (const char *)dead->reason.data);
    return 0;
}

static fdb_error_t bury(FDBTransaction *tr, void *unused) {
    return keel_taskqueue_dead(tr, &parcels, 0, print_dead, unused);
}

int main(int argc, char **argv) {
    keel_db *db;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("parcels"), &parcels), "subspace");
    now_ms = keel_taskqueue_now();
    check(keel_run(keel_fdb(db), push_parcels, NULL), "push");
    puts("today:");
    work(keel_fdb(db), "to Ada");
    puts("half a minute later, when the lease has ended:");
    now_ms += LEASE_MS;
    work(keel_fdb(db), NULL);
    puts("tomorrow:");
    now_ms += 86400000;
    work(keel_fdb(db), NULL);
    puts("dead letters:");
    check(keel_run_read(keel_fdb(db), bury, NULL), "dead letters");
    keel_close(db);
    return 0;
}
