/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two batches on their way: while the log syncs one, the next is prepared. The log's syncs wait, or fail, as a test wants it; so each test knows
 * what the leader is doing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine_support.h"
#include "os/clock.h"
#include "os/file.h"

/* --- The disk --- */

static _Atomic bool closed;    /* syncs of the log wait */
static _Atomic int waiting;    /* how many do */
static _Atomic int let_through; /* how many may pass nevertheless */
static _Atomic bool failing;   /* those that pass fail */

static bool pass(void) {
    int left = atomic_load(&let_through);
    while (left > 0)
        if (atomic_compare_exchange_weak(&let_through, &left, left - 1))
            return true;
    return !atomic_load(&closed);
}

static fdb_error_t at_disk(void *context, const char *what, const char *path) {
    (void)context;
    if (strcmp(what, "sync") != 0 || !strstr(path, "/log-"))
        return 0;
    atomic_fetch_add(&waiting, 1);
    while (!pass())
        os_sleep_us(50);
    atomic_fetch_sub(&waiting, 1);
    return atomic_load(&failing) ? ERROR_IO_ERROR : 0;
}

static void wait_for_sync(void) {
    while (atomic_load(&waiting) == 0)
        os_sleep_us(50);
}

/* --- Support --- */

/* A commit and how it ended. */
struct job {
    struct commit_request request;
    struct mutation mutation;
    struct key_range read, write;
    uint8_t key_end[32];
    _Atomic bool done;
    fdb_error_t error;
    int number; /* it was answered as this one */
};

static _Atomic int answered;

static void job_done(struct commit_request *request, fdb_error_t error) {
    struct job *job = (struct job *)request;
    job->error = error;
    job->number = atomic_fetch_add(&answered, 1);
    atomic_store(&job->done, true);
}

static void job_make(struct job *job, enum mutation_type type, struct bytes key, struct bytes value) {
    *job = (struct job){.mutation = {type, key, value}};
    job->request.mutations = &job->mutation;
    job->request.mutation_count = 1;
    job->request.complete = job_done;
    job->request.size_bytes = key.length + value.length;
    memcpy(job->key_end, key.data, key.length);
    job->write = (struct key_range){key, bytes_make(job->key_end, key.length + 1)};
    job->request.write_conflicts = &job->write;
    job->request.write_conflict_count = 1;
}

/* The commit depends on what a key was at a version. */
static void job_reads(struct job *job, const char *key, const char *key_end, int64_t version) {
    job->read = (struct key_range){text(key), text(key_end)};
    job->request.read_conflicts = &job->read;
    job->request.read_conflict_count = 1;
    job->request.read_version = version;
}

static void job_set(struct database *database, struct job *job, const char *key, const char *value) {
    job_make(job, MUTATION_SET, text(key), text(value));
    database_commit(database, &job->request);
}

static fdb_error_t job_wait(struct job *job) {
    while (!atomic_load(&job->done))
        os_sleep_us(50);
    return job->error;
}

static fdb_error_t set(struct database *database, const char *key, const char *value) {
    struct job job;
    job_set(database, &job, key, value);
    database_hurry(database);
    return job_wait(&job);
}

static int64_t read_version(struct database *database) {
    int64_t version;
    assert_int_equal(database_get_read_version(database, &version), 0);
    return version;
}

static void assert_value(struct database *database, const char *key, struct bytes expected) {
    struct arena arena = {0};
    struct bytes value = {0};
    bool present;
    assert_int_equal(database_get(database, read_version(database), text(key), &arena, &value, &present), 0);
    assert_true(present);
    assert_int_equal(value.length, expected.length);
    assert_memory_equal(value.data, expected.data, expected.length);
    arena_free(&arena);
}

static void assert_absent(struct database *database, const char *key) {
    struct arena arena = {0};
    struct bytes value;
    bool present;
    assert_int_equal(database_get(database, read_version(database), text(key), &arena, &value, &present), 0);
    assert_false(present);
    arena_free(&arena);
}

static unsigned prepared_count(struct database *database) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    os_mutex_lock(&pipeline->prepare_lock);
    unsigned count = pipeline->next->request_count;
    os_mutex_unlock(&pipeline->prepare_lock);
    return count;
}

static struct database *open_fresh(void) {
    struct engine_options options = defaults();
    char path[1000];
    fresh_path(path);
    return open_with(path, &options);
}

/* Opens a database whose first batch, one commit of key "first", waits for the disk. */
static struct database *open_syncing_with(const struct engine_options *options, struct job *first) {
    char path[1000];
    fresh_path(path);
    struct database *database = open_with(path, options);
    assert_int_equal(set(database, "zero", "0"), 0);
    atomic_store(&closed, true);
    job_set(database, first, "first", "1");
    database_hurry(database);
    wait_for_sync();
    return database;
}

static struct database *open_syncing(struct job *first) {
    struct engine_options options = defaults();
    return open_syncing_with(&options, first);
}

static void open_disk(void) {
    atomic_store(&closed, false);
}

/* --- Tests --- */

/* What comes while a batch is synced is prepared at once, in order, and is one batch: no version of it can be read until it is durable itself. */
static void test_the_next_batch_is_prepared_during_a_sync(void **state) {
    (void)state;
    struct job first, jobs[3];
    struct database *database = open_syncing(&first);
    job_set(database, &jobs[0], "a", "1");
    job_set(database, &jobs[1], "a", "2");
    job_set(database, &jobs[2], "b", "3");
    assert_int_equal(prepared_count(database), 3);
    assert_absent(database, "first");
    assert_absent(database, "a");
    assert_true(read_version(database) < jobs[0].request.committed_version);
    atomic_fetch_add(&let_through, 1); /* the first batch alone */
    assert_int_equal(job_wait(&first), 0);
    wait_for_sync();
    assert_value(database, "first", text("1"));
    assert_absent(database, "a");
    assert_true(read_version(database) >= first.request.committed_version);
    assert_true(read_version(database) < jobs[0].request.committed_version);
    open_disk();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(job_wait(&jobs[i]), 0);
        assert_true(jobs[i].request.committed_version > first.request.committed_version);
        assert_int_equal(jobs[i].request.committed_version, jobs[0].request.committed_version);
        assert_int_equal(jobs[i].request.batch_order, i);
        assert_int_equal(jobs[i].number, jobs[0].number + i);
    }
    assert_true(read_version(database) >= jobs[0].request.committed_version);
    assert_value(database, "a", text("2"));
    assert_value(database, "b", text("3"));
    database_close(database);
}

/* A commit that read what the batch in the sync, or one before it in the next batch, has written is a conflict. */
static void test_conflicts_with_what_cannot_be_read_yet(void **state) {
    (void)state;
    struct job first, jobs[4];
    struct database *database = open_syncing(&first);
    int64_t version = read_version(database);
    const char *written[] = {"w", "a", "x", "b"}, *reads[] = {"first", "other", "a", "x"}, *ends[] = {"first!", "other!", "a!", "x!"};
    for (int i = 0; i < 4; i++) {
        job_make(&jobs[i], MUTATION_SET, text(written[i]), text("1"));
        job_reads(&jobs[i], reads[i], ends[i], version);
        database_commit(database, &jobs[i].request);
    }
    assert_int_equal(prepared_count(database), 4);
    open_disk();
    assert_int_equal(job_wait(&jobs[0]), ERROR_NOT_COMMITTED); /* "first" */
    assert_int_equal(job_wait(&jobs[1]), 0);
    assert_int_equal(job_wait(&jobs[2]), ERROR_NOT_COMMITTED); /* "a", by the one before */
    assert_int_equal(job_wait(&jobs[3]), 0); /* "x" was never written */
    assert_int_equal(jobs[1].request.batch_order, 0);
    assert_int_equal(jobs[3].request.batch_order, 1);
    assert_absent(database, "w");
    assert_absent(database, "x");
    database_close(database);
}

/* Atomic operations are left to the leader, who sees the batch before and what was prepared of their own. */
static void test_atomic_operations_behind_what_was_prepared(void **state) {
    (void)state;
    static const uint8_t one[8] = {1}, five[8] = {5};
    struct job first, jobs[5];
    struct database *database = open_syncing(&first);
    job_make(&jobs[0], MUTATION_SET, text("n"), bytes_make(five, 8));
    job_make(&jobs[1], MUTATION_ADD, text("n"), bytes_make(one, 8));
    job_make(&jobs[2], MUTATION_SET, text("m"), bytes_make(five, 8));
    job_make(&jobs[3], MUTATION_ADD, text("m"), bytes_make(one, 8));
    job_make(&jobs[4], MUTATION_APPEND_IF_FITS, text("first"), text("2"));
    for (int i = 0; i < 5; i++)
        database_commit(database, &jobs[i].request);
    assert_int_equal(prepared_count(database), 1); /* what is behind an atomic operation waits with it */
    open_disk();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(job_wait(&jobs[i]), 0);
        assert_int_equal(jobs[i].request.committed_version, jobs[0].request.committed_version);
        assert_int_equal(jobs[i].request.batch_order, i);
    }
    static const uint8_t six[8] = {6};
    assert_value(database, "n", bytes_make(six, 8));
    assert_value(database, "m", bytes_make(six, 8));
    assert_value(database, "first", text("12"));
    database_close(database);
}

/* One who comes to queue a commit does not prepare another's large one. */
static void test_large_commits_are_left_to_the_leader(void **state) {
    (void)state;
    enum { LARGE = 100000 };
    static uint8_t large[LARGE];
    struct job first, jobs[3];
    struct database *database = open_syncing(&first);
    job_set(database, &jobs[0], "a", "1");
    job_make(&jobs[1], MUTATION_SET, text("a"), bytes_make(large, LARGE));
    database_commit(database, &jobs[1].request);
    job_set(database, &jobs[2], "b", "1");
    assert_int_equal(prepared_count(database), 1);
    open_disk();
    for (int i = 0; i < 3; i++)
        assert_int_equal(job_wait(&jobs[i]), 0);
    assert_int_equal(jobs[2].request.batch_order, 2);
    assert_value(database, "a", bytes_make(large, LARGE));
    database_close(database);
}

/* A batch has as many commits as a versionstamp can tell apart, or a few; the others are the next one's. */
static void test_a_full_batch_leaves_the_rest(void **state) {
    (void)state;
    enum { JOBS = 9000, MOST = 8192 };
    static struct job jobs[JOBS];
    struct job first;
    struct database *database = open_syncing(&first);
    for (int i = 0; i < JOBS; i++)
        job_set(database, &jobs[i], "a", i == JOBS - 1 ? "last" : "1");
    assert_int_equal(prepared_count(database), MOST);
    open_disk();
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(job_wait(&jobs[i]), 0);
        assert_int_equal(jobs[i].number, jobs[0].number + i);
        assert_int_equal(jobs[i].request.batch_order, i % MOST);
    }
    assert_true(jobs[MOST].request.committed_version > jobs[MOST - 1].request.committed_version);
    assert_value(database, "a", text("last"));
    database_close(database);
}

/* When a sync fails, what was prepared behind it is refused, and reads go on below. */
static void test_a_failed_sync_refuses_what_was_prepared(void **state) {
    (void)state;
    struct job first, jobs[2];
    struct database *database = open_syncing(&first);
    int64_t version = read_version(database);
    job_set(database, &jobs[0], "a", "1");
    job_set(database, &jobs[1], "b", "1");
    assert_int_equal(prepared_count(database), 2);
    atomic_store(&failing, true);
    open_disk();
    assert_int_equal(job_wait(&first), ERROR_COMMIT_UNKNOWN_RESULT);
    assert_int_equal(job_wait(&jobs[0]), ERROR_DATABASE_FAILED);
    assert_int_equal(job_wait(&jobs[1]), ERROR_DATABASE_FAILED);
    atomic_store(&failing, false);
    assert_int_equal(set(database, "c", "1"), ERROR_DATABASE_FAILED);
    assert_int_equal(read_version(database), version);
    assert_absent(database, "first");
    assert_absent(database, "a");
    assert_value(database, "zero", text("0"));
    database_close(database);
}

/* A batch that the log has no room for leaves nothing, and does not hold up those behind it. */
static void test_a_refused_batch_leaves_nothing(void **state) {
    (void)state;
    enum { JOBS = 60, VALUE = 50000 };
    static struct job jobs[JOBS];
    static uint8_t value[VALUE];
    struct job first;
    struct database *database = open_syncing(&first);
    for (int i = 0; i < JOBS; i++) {
        job_make(&jobs[i], MUTATION_SET, text("a"), bytes_make(value, VALUE));
        database_commit(database, &jobs[i].request);
    }
    assert_int_equal(prepared_count(database), JOBS);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(4096); /* no new segment, and the one there is too small for them */
    atomic_fetch_add(&let_through, 1);
    assert_int_equal(job_wait(&first), 0);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(job_wait(&jobs[i]), ERROR_DISK_FULL);
    limit_files(limit.rlim_cur);
    open_disk();
    assert_absent(database, "a");
    assert_true(read_version(database) > jobs[0].request.committed_version);
    assert_int_equal(set(database, "b", "1"), 0);
    assert_value(database, "b", text("1"));
    database_close(database);
}

struct driver {
    struct database *database;
    struct job *job;
    uint64_t ticket;
};

static void *drive(void *argument) {
    struct driver *driver = argument;
    while (!atomic_load(&driver->job->done))
        if (!database_drive(driver->database, driver->ticket))
            os_sleep_us(50);
    return NULL;
}

/* Stamps are filled in with the version that the batch has got ahead, and the stamped key is one that was written. */
static void test_versionstamps_are_prepared_ahead(void **state) {
    (void)state;
    struct job first, before, stamped, reader;
    struct database *database = open_syncing(&first);
    int64_t version = read_version(database);
    job_set(database, &before, "a", "1");
    job_make(&stamped, MUTATION_SET_VERSIONSTAMPED_KEY, bytes_make("s0123456789\1\0\0\0", 15), text("x"));
    stamped.request.write_conflict_count = 0;
    database_commit(database, &stamped.request);
    job_make(&reader, MUTATION_SET, text("b"), text("1"));
    job_reads(&reader, "s", "t", version);
    database_commit(database, &reader.request);
    assert_int_equal(prepared_count(database), 3);
    open_disk();
    assert_int_equal(job_wait(&stamped), 0);
    assert_int_equal(job_wait(&reader), ERROR_NOT_COMMITTED);
    assert_int_equal(stamped.request.batch_order, 1);
    char key[12] = "s";
    mutation_stamp_write((uint8_t *)key + 1, stamped.request.committed_version, 1);
    struct arena arena = {0};
    struct bytes value = {0};
    bool present;
    assert_int_equal(database_get(database, read_version(database), bytes_make(key, 11), &arena, &value, &present), 0);
    assert_true(present);
    arena_free(&arena);
    database_close(database);
}

/* Atomic operations can make much of little: what is too much for a batch goes to the next, in order, behind what was prepared. */
static void test_what_is_too_much_goes_back(void **state) {
    (void)state;
    enum { VALUE = 99000, PREPARED = 10, JOBS = 400 };
    static struct job jobs[JOBS];
    static uint8_t value[VALUE + JOBS];
    struct job first, large;
    struct database *database = open_syncing(&first);
    for (int i = 0; i < PREPARED; i++)
        job_set(database, &jobs[i], "b", "1");
    job_make(&large, MUTATION_SET, text("a"), bytes_make(value, VALUE));
    database_commit(database, &large.request);
    for (int i = PREPARED; i < JOBS; i++) {
        job_make(&jobs[i], MUTATION_APPEND_IF_FITS, text("a"), bytes_make("", 1));
        database_commit(database, &jobs[i].request);
    }
    assert_int_equal(prepared_count(database), PREPARED);
    open_disk();
    database_hurry(database);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(job_wait(&jobs[i]), 0);
        assert_int_equal(jobs[i].number, jobs[0].number + i + (i >= PREPARED));
    }
    assert_true(jobs[JOBS - 1].request.committed_version > jobs[0].request.committed_version);
    assert_value(database, "a", bytes_make(value, VALUE + JOBS - PREPARED));
    database_close(database);
}

/* What cannot be prepared for want of memory fails by itself. */
static void test_out_of_memory_while_preparing(void **state) {
    (void)state;
    struct job first, jobs[3];
    struct database *database = open_syncing(&first);
    job_set(database, &jobs[0], "a", "1");
    memory_fail_after(0);
    job_set(database, &jobs[1], "b", "1");
    memory_fail_after(-1);
    job_set(database, &jobs[2], "c", "1");
    assert_int_equal(prepared_count(database), 3);
    open_disk();
    assert_int_equal(job_wait(&jobs[0]), 0);
    assert_int_equal(job_wait(&jobs[1]), ERROR_LARGE_ALLOC_FAILED);
    assert_int_equal(job_wait(&jobs[2]), 0);
    assert_absent(database, "b");
    assert_value(database, "c", text("1"));
    database_close(database);
}

/* Nobody reads at an old version because commits wait for room in the window. */
static void test_versions_advance_while_the_window_is_full(void **state) {
    (void)state;
    static uint8_t value[100000];
    struct engine_options options = defaults();
    options.window_bytes_max = 50000;
    options.lifetime_us = 300000;
    char path[1000];
    fresh_path(path);
    struct database *database = open_with(path, &options);
    struct job first, job;
    atomic_store(&closed, true);
    job_make(&first, MUTATION_SET, text("first"), bytes_make(value, sizeof value));
    database_commit(database, &first.request);
    database_hurry(database);
    wait_for_sync();
    job_set(database, &job, "a", "1");
    assert_int_equal(prepared_count(database), 0);
    open_disk();
    assert_int_equal(job_wait(&first), 0);
    assert_int_equal(job_wait(&job), 0); /* when the first can no longer be read below; it got its version not before that */
    assert_true(job.request.committed_version >= first.request.committed_version + options.lifetime_us);
    database_close(database);
}

/* Nor does a batch that has its version wait for room. */
static void test_a_prepared_batch_does_not_wait_for_room(void **state) {
    (void)state;
    struct job first, job;
    struct engine_options options = defaults();
    options.lifetime_us = 30 * 1000000; /* before that nothing leaves the window */
    struct database *database = open_syncing_with(&options, &first);
    job_set(database, &job, "a", "1");
    assert_int_equal(prepared_count(database), 1);
    engine_of(database)->options.window_bytes_max = 0; /* the leader, who looks at it, is in its sync */
    open_disk();
    assert_int_equal(job_wait(&job), 0);
    assert_int_equal(database_check_read_version(database, first.request.committed_version), 0);
    database_close(database);
}

/* Where threads block on their commits nothing is prepared ahead: the leader is not to wait for one that has lost its core. */
static void test_nothing_is_prepared_beside_blocked_threads(void **state) {
    (void)state;
    struct job first, job;
    struct database *database = open_fresh();
    assert_int_equal(set(database, "zero", "0"), 0);
    atomic_store(&closed, true);
    job_make(&first, MUTATION_SET, text("first"), text("1"));
    database_commit(database, &first.request);
    struct driver driver = {database, &first, atomic_load(&first.request.ticket)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
    wait_for_sync();
    while (atomic_load(&engine_of(database)->pipeline.drivers) == 0)
        os_sleep_us(50);
    job_set(database, &job, "a", "1");
    assert_int_equal(prepared_count(database), 0);
    open_disk();
    pthread_join(thread, NULL);
    assert_int_equal(first.error, 0);
    database_hurry(database);
    assert_int_equal(job_wait(&job), 0);
    assert_value(database, "a", text("1"));
    database_close(database);
}

static int set_up(void **state) {
    os_file_set_fault(at_disk, NULL);
    return make_scratch(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_batch_is_prepared_during_a_sync),
        cmocka_unit_test(test_conflicts_with_what_cannot_be_read_yet),
        cmocka_unit_test(test_atomic_operations_behind_what_was_prepared),
        cmocka_unit_test(test_large_commits_are_left_to_the_leader),
        cmocka_unit_test(test_a_full_batch_leaves_the_rest),
        cmocka_unit_test(test_a_failed_sync_refuses_what_was_prepared),
        cmocka_unit_test(test_a_refused_batch_leaves_nothing),
        cmocka_unit_test(test_versionstamps_are_prepared_ahead),
        cmocka_unit_test(test_what_is_too_much_goes_back),
        cmocka_unit_test(test_out_of_memory_while_preparing),
        cmocka_unit_test(test_versions_advance_while_the_window_is_full),
        cmocka_unit_test(test_a_prepared_batch_does_not_wait_for_room),
        cmocka_unit_test(test_nothing_is_prepared_beside_blocked_threads),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
