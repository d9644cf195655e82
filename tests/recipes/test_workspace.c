/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: swapping, going back, the history, and readers that never see half of anything. */
#include "fixture.h"

#include <keel/workspace.h>

static keel_directory *open_workspace(const char *name) {
    keel_directory *directory = NULL;
    FDBTransaction *tr = begin();
    keel_path path = KEEL_PATH("workspaces", name);
    assert_int_equal(keel_directory_create_or_open(tr, NULL, path, KEEL_NO_LAYER, &directory), 0);
    commit(tr);
    return directory;
}

static void put(FDBTransaction *tr, const keel_subspace *space, const char *name, int number) {
    uint8_t key[200];
    size_t length;
    assert_int_equal(keel_subspace_pack(space, KEEL_TUPLE(name), key, sizeof key, &length), 0);
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)&number, sizeof number);
}

/* -1 if it is not there. */
static fdb_error_t get(FDBTransaction *tr, const keel_subspace *space, const char *name,
                       int *number) {
    uint8_t key[200];
    size_t length;
    fdb_bool_t present = 0;
    const uint8_t *value;
    int value_length;
    fdb_error_t error = keel_subspace_pack(space, KEEL_TUPLE(name), key, sizeof key, &length);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &value_length);
    if (!error && present)
        memcpy(number, value, sizeof *number);
    else
        *number = -1;
    fdb_future_destroy(future);
    return error;
}

/* Builds number `number` and swaps it in. */
static void release(FDBTransaction *tr, const keel_directory *w, int number,
                    keel_workspace_keep keep, const char *version) {
    keel_subspace fresh;
    assert_int_equal(keel_workspace_new(tr, w, &fresh), 0);
    put(tr, &fresh, "number", number);
    assert_int_equal(keel_workspace_swap(tr, w, keep, version), 0);
}

static void assert_current(FDBTransaction *tr, const keel_directory *w, int expected) {
    keel_subspace current;
    int number;
    assert_int_equal(keel_workspace_current(tr, w, &current), 0);
    assert_int_equal(get(tr, &current, "number", &number), 0);
    assert_int_equal(number, expected);
}

static void assert_previous(FDBTransaction *tr, const keel_directory *w, int expected) {
    keel_subspace previous;
    int number;
    assert_int_equal(keel_workspace_previous(tr, w, &previous), 0);
    assert_int_equal(get(tr, &previous, "number", &number), 0);
    assert_int_equal(number, expected);
}

static fdb_error_t join(void *context, keel_bytes name) {
    strncat(context, (const char *)name.data, name.length);
    strcat(context, " ");
    return 0;
}

static void assert_history(FDBTransaction *tr, const keel_directory *w, const char *expected) {
    char names[1000] = "";
    assert_int_equal(keel_workspace_history(tr, w, join, names), 0);
    assert_string_equal(names, expected);
}

static void test_swap(void **state) {
    (void)state;
    keel_directory *w = open_workspace("swap");
    keel_subspace fresh, old, current;
    FDBTransaction *tr = begin();
    assert_current(tr, w, -1);
    assert_int_equal(keel_workspace_new(tr, w, &fresh), 0);
    put(tr, &fresh, "number", 1);
    commit(tr);
    tr = begin(); /* being built: readers do not see it */
    assert_current(tr, w, -1);
    assert_int_equal(keel_workspace_current(tr, w, &old), 0);
    put(tr, &old, "other", 7);
    assert_int_equal(keel_workspace_swap(tr, w, KEEL_WORKSPACE_DROP, NULL), 0);
    assert_current(tr, w, 1);
    commit(tr);
    tr = begin();
    assert_current(tr, w, 1);
    assert_int_equal(keel_workspace_current(tr, w, &current), 0);
    assert_int_equal(current.length, fresh.length); /* the data did not move */
    assert_memory_equal(current.prefix, fresh.prefix, fresh.length);
    assert_int_equal(count_rows(tr, &old), 0); /* the old is gone */
    assert_int_equal(keel_workspace_new(tr, w, &fresh), 0);
    put(tr, &fresh, "number", 99);
    assert_int_equal(keel_workspace_discard(tr, w), 0);
    assert_int_equal(keel_workspace_discard(tr, w), 0);
    assert_int_equal(keel_workspace_swap(tr, w, KEEL_WORKSPACE_DROP, NULL), KEEL_ERROR_NOT_FOUND);
    assert_current(tr, w, 1);
    commit(tr);
    keel_directory_close(w);
}

static void test_rollback(void **state) {
    (void)state;
    keel_directory *w = open_workspace("rollback");
    FDBTransaction *tr = begin();
    assert_int_equal(keel_workspace_rollback(tr, w), KEEL_ERROR_NOT_FOUND);
    release(tr, w, 1, KEEL_WORKSPACE_PREVIOUS, NULL); /* there was no current: no previous */
    assert_int_equal(keel_workspace_rollback(tr, w), KEEL_ERROR_NOT_FOUND);
    release(tr, w, 2, KEEL_WORKSPACE_PREVIOUS, NULL);
    release(tr, w, 3, KEEL_WORKSPACE_PREVIOUS, NULL);
    commit(tr);
    tr = begin();
    assert_current(tr, w, 3);
    assert_previous(tr, w, 2);
    assert_int_equal(keel_workspace_rollback(tr, w), 0);
    assert_current(tr, w, 2);
    assert_previous(tr, w, 3);
    commit(tr);
    tr = begin();
    assert_int_equal(keel_workspace_rollback(tr, w), 0);
    assert_current(tr, w, 3);
    assert_previous(tr, w, 2);
    commit(tr);
    keel_directory_close(w);
}

static void test_history(void **state) {
    (void)state;
    keel_directory *w = open_workspace("history");
    keel_subspace old;
    int number;
    size_t removed = 99;
    FDBTransaction *tr = begin();
    assert_history(tr, w, "");
    release(tr, w, 1, KEEL_WORKSPACE_HISTORY, "none yet");
    assert_history(tr, w, "");
    release(tr, w, 2, KEEL_WORKSPACE_HISTORY, "v1");
    release(tr, w, 3, KEEL_WORKSPACE_HISTORY, "v2");
    release(tr, w, 4, KEEL_WORKSPACE_HISTORY, "v3");
    commit(tr);
    tr = begin();
    assert_history(tr, w, "v1 v2 v3 ");
    assert_current(tr, w, 4);
    assert_int_equal(keel_workspace_version(tr, w, "v2", &old), 0);
    assert_int_equal(get(tr, &old, "number", &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(keel_workspace_version(tr, w, "v9", &old), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_workspace_restore(tr, w, "v1", "v4"), 0);
    assert_current(tr, w, 1);
    assert_history(tr, w, "v2 v3 v4 ");
    assert_int_equal(keel_workspace_prune(tr, w, 2, &removed), 0);
    assert_int_equal(removed, 1);
    assert_history(tr, w, "v3 v4 ");
    assert_int_equal(keel_workspace_prune(tr, w, 2, &removed), 0);
    assert_int_equal(removed, 0);
    commit(tr);
    tr = begin(); /* by time: one after the other also within a microsecond */
    for (int i = 0; i < 5; i++)
        release(tr, w, i, KEEL_WORKSPACE_HISTORY, NULL);
    char names[1000] = "";
    assert_int_equal(keel_workspace_history(tr, w, join, names), 0);
    assert_int_equal(strncmp(names, "20", 2), 0);
    assert_int_equal(keel_workspace_prune(tr, w, 0, &removed), 0);
    assert_int_equal(removed, 7);
    assert_history(tr, w, "");
    commit(tr);
    keel_directory_close(w);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_directory *w = open_workspace("bad");
    keel_subspace subspace;
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    long_name[299] = 0;
    FDBTransaction *tr = begin();
    release(tr, w, 1, KEEL_WORKSPACE_HISTORY, "v0");
    release(tr, w, 2, KEEL_WORKSPACE_HISTORY, "v1");
    assert_int_equal(keel_workspace_new(tr, w, &subspace), 0);
    const keel_workspace_keep history = KEEL_WORKSPACE_HISTORY;
    assert_refused(tr, keel_workspace_swap(tr, w, history, ""), KEEL_ERROR_EMPTY_NAME);
    assert_refused(tr, keel_workspace_swap(tr, w, history, long_name), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_swap(tr, w, KEEL_WORKSPACE_DROP, "x"), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_swap(tr, w, (keel_workspace_keep)7, NULL),
                   KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_swap(tr, NULL, history, NULL), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_current(tr, w, NULL), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_version(tr, w, "", &subspace), KEEL_ERROR_EMPTY_NAME);
    assert_refused(tr, keel_workspace_version(tr, w, NULL, &subspace), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_workspace_restore(tr, w, "v1", ""), KEEL_ERROR_EMPTY_NAME);
    assert_refused(tr, keel_workspace_history(tr, w, NULL, NULL), KEEL_ERROR_ARGUMENT);
    /* Answers that take a look first: nothing is renamed. */
    assert_int_equal(keel_workspace_swap(tr, w, history, "v1"), KEEL_ERROR_DIRECTORY_EXISTS);
    assert_int_equal(keel_workspace_swap(tr, w, history, "\xff"), KEEL_ERROR_NOT_UTF8);
    assert_int_equal(keel_workspace_restore(tr, w, "v7", NULL), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_workspace_restore(tr, w, "v1", "v1"), KEEL_ERROR_DIRECTORY_EXISTS);
    assert_current(tr, w, 2);
    assert_history(tr, w, "v1 ");
    commit(tr);
    keel_directory_close(w);
}

/* A transaction that relied on the old data does not commit after a swap. */
static void test_conflict(void **state) {
    (void)state;
    keel_directory *w = open_workspace("conflict");
    FDBTransaction *tr = begin();
    release(tr, w, 1, KEEL_WORKSPACE_DROP, NULL);
    commit(tr);
    FDBTransaction *reader = begin(), *writer = begin();
    assert_current(reader, w, 1);
    release(writer, w, 2, KEEL_WORKSPACE_DROP, NULL);
    commit(writer);
    assert_current(reader, w, 1); /* still what it was */
    fdb_transaction_set(reader, (const uint8_t *)"elsewhere", 9, (const uint8_t *)"x", 1);
    assert_int_equal(try_commit(reader), 1020);
    keel_directory_close(w);
}

/* ---- Threads: two release, the others read; every generation is seen whole ---- */

enum { THREADS = 6, RELEASES = 25, READS = 100, ITEMS = 8 };

struct job {
    const keel_directory *workspace;
    int number, wrong, last;
};

static fdb_error_t release_items(FDBTransaction *tr, void *context) {
    struct job *job = context;
    keel_subspace current, fresh;
    int last = 0;
    fdb_error_t error = keel_workspace_current(tr, job->workspace, &current);
    if (!error)
        error = get(tr, &current, "0", &last);
    if (!error)
        error = keel_workspace_new(tr, job->workspace, &fresh);
    for (int i = 0; i < ITEMS && !error; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        put(tr, &fresh, name, last + 1);
    }
    return error ? error
                 : keel_workspace_swap(tr, job->workspace, (keel_workspace_keep)(last % 2), NULL);
}

static fdb_error_t read_items(FDBTransaction *tr, void *context) {
    struct job *job = context;
    keel_subspace current;
    int first = -1;
    fdb_error_t error = keel_workspace_current(tr, job->workspace, &current);
    job->wrong = 0;
    for (int i = 0; i < ITEMS && !error; i++) {
        char name[8];
        int number;
        snprintf(name, sizeof name, "%d", i);
        error = get(tr, &current, name, &number);
        if (i == 0)
            first = number;
        job->wrong |= number != first;
    }
    job->number = first;
    return error;
}

static fdb_error_t work(int number, void *context) {
    struct job job = {context, 0, 0, 0};
    FDBDatabase *database = keel_fdb(fixture_db);
    fdb_error_t error = 0;
    if (number < 2) {
        for (int i = 0; i < RELEASES && !error; i++)
            error = keel_run(database, release_items, &job);
        return error;
    }
    for (int i = 0; i < READS && !error; i++) {
        error = keel_run_read(database, read_items, &job);
        if (!error && (job.wrong || job.number < job.last))
            return 100001;
        job.last = job.number;
    }
    return error;
}

static void test_threads(void **state) {
    (void)state;
    keel_directory *w = open_workspace("threads");
    FDBTransaction *tr = begin();
    struct job job = {w, 0, 0, 0};
    keel_subspace current;
    assert_int_equal(keel_workspace_current(tr, w, &current), 0);
    for (int i = 0; i < ITEMS; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        put(tr, &current, name, 0);
    }
    commit(tr);
    in_threads(THREADS, work, w);
    tr = begin();
    assert_int_equal(read_items(tr, &job), 0);
    assert_int_equal(job.number, 2 * RELEASES); /* none was lost */
    fdb_transaction_destroy(tr);
    keel_directory_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap),      cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_history),   cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_conflict),  cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
