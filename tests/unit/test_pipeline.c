/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several batches on their way at once: the clock with several versions pending, and the commit pipeline with its syncs held at a gate, so that a test decides
 * which of them returns when, and with what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "engine/check.h"
#include "engine/engine_internal.h"
#include "os/clock.h"
#include "util/coding.h"

/* --- The clock --- */

static void test_clock_with_several_pending(void **state) {
    (void)state;
    struct version_clock clock;
    version_clock_init(&clock, 1000000, INT64_MAX / 2, 1); /* versions live for a microsecond: the horizon is close behind */
    int64_t before = version_clock_read(&clock), version[VERSIONS_PENDING_MAX];
    for (int i = 0; i < VERSIONS_PENDING_MAX; i++) {
        version[i] = version_clock_begin_batch(&clock);
        assert_true(version[i] > (i ? version[i - 1] : before));
        assert_int_equal(version_clock_read(&clock), version[0] - 1);
    }
    os_sleep_us(20000); /* more than the slack of the coarse clock */
    for (int i = 0; i < VERSIONS_PENDING_MAX; i++) {
        assert_int_equal(version_clock_read(&clock), version[i] - 1);
        assert_int_equal(version_clock_horizon(&clock), version[i] - 1);
        version_clock_end_batch(&clock);
    }
    int64_t after = version_clock_read(&clock);
    assert_true(after >= version[VERSIONS_PENDING_MAX - 1]);
    assert_true(version_clock_begin_batch(&clock) > after);
    version_clock_end_batch(&clock);
    version_clock_destroy(&clock);
}

/* --- Syncs of the log at a gate --- */

enum { SYNCS_MAX = 8, HELD = -1 };

static struct {
    os_mutex lock;
    os_condition changed;
    bool closed;
    int arrived;              /* syncs of segments since the gate was closed */
    fdb_error_t verdict[SYNCS_MAX];
} gate;

static fdb_error_t hold(void *context, const char *what, const char *path) {
    (void)context;
    if (strcmp(what, "sync") != 0 || !strstr(path, "/log/log-"))
        return 0;
    os_mutex_lock(&gate.lock);
    fdb_error_t verdict = 0;
    if (gate.closed) {
        int mine = gate.arrived++;
        assert_true(mine < SYNCS_MAX);
        os_condition_broadcast(&gate.changed);
        while (gate.verdict[mine] == HELD)
            os_condition_wait(&gate.changed, &gate.lock);
        verdict = gate.verdict[mine];
    }
    os_mutex_unlock(&gate.lock);
    return verdict;
}

static void gate_close(void) {
    os_mutex_lock(&gate.lock);
    gate.closed = true;
    gate.arrived = 0;
    for (int i = 0; i < SYNCS_MAX; i++)
        gate.verdict[i] = HELD;
    os_mutex_unlock(&gate.lock);
}

static void gate_wait_for(int arrived) {
    os_mutex_lock(&gate.lock);
    while (gate.arrived < arrived)
        os_condition_wait(&gate.changed, &gate.lock);
    os_mutex_unlock(&gate.lock);
}

static void gate_pass(int which, fdb_error_t verdict) {
    os_mutex_lock(&gate.lock);
    gate.verdict[which] = verdict;
    os_condition_broadcast(&gate.changed);
    os_mutex_unlock(&gate.lock);
}

static void gate_open(void) {
    os_mutex_lock(&gate.lock);
    gate.closed = false;
    os_mutex_unlock(&gate.lock);
}

/* --- Commits --- */

enum { GROUP = 8, COMMITS = 1 + GROUP }; /* a group this large goes beside another */

struct commit {
    struct commit_request request; /* must be first */
    struct mutation mutation;
    fdb_error_t error;
    int order; /* of the answers, from 1 */
    _Atomic bool done;
};

static _Atomic int answers;

static void complete(struct commit_request *request, fdb_error_t error) {
    struct commit *commit = (struct commit *)request;
    commit->error = error;
    commit->order = ++answers;
    atomic_store(&commit->done, true);
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static void start(struct database *database, struct commit *commit, struct mutation mutation) {
    *commit = (struct commit){.mutation = mutation};
    commit->request = (struct commit_request){.mutations = &commit->mutation, .mutation_count = 1, .size_bytes = 100, .complete = complete};
    database_commit(database, &commit->request);
    database_hurry(database);
}

static fdb_error_t wait_for(struct commit *commit) {
    while (!atomic_load(&commit->done))
        os_sleep_us(100);
    return commit->error;
}

static int64_t read_counter(struct database *database) {
    struct arena arena = {0};
    struct bytes value;
    bool present;
    int64_t version;
    assert_int_equal(database_get_read_version(database, &version), 0);
    assert_int_equal(database_get(database, version, text("counter"), &arena, &value, &present), 0);
    int64_t counter = present ? (int64_t)coding_get_u64(value.data) : 0;
    arena_free(&arena);
    return counter;
}

static const uint8_t one[8] = {1};
static const struct mutation *raise_counter(void) {
    static struct mutation mutation;
    mutation = (struct mutation){MUTATION_ADD, text("counter"), bytes_make(one, 8)};
    return &mutation;
}

static char path[500];
static struct engine_options options;

static struct database *open_database(void) {
    struct database *database = NULL;
    char *message = NULL;
    os_file_set_fault(hold, NULL);
    assert_int_equal(engine_open(path, &options, &database, &message), 0);
    return database;
}

/* One commit whose sync is held, and behind it a group whose sync is held too. */
static struct database *open_with_two_in_flight(struct commit commits[COMMITS]) {
    struct database *database = open_database();
    answers = 0;
    gate_close();
    start(database, &commits[0], *raise_counter());
    gate_wait_for(1);
    for (int i = 1; i < COMMITS; i++)
        start(database, &commits[i], *raise_counter());
    gate_wait_for(2);
    assert_int_equal(read_counter(database), 0);
    return database;
}

static void close_database(struct database *database) {
    gate_open();
    database_close(database);
}

/* The second batch is durable first. It stands on the first, so it is neither shown nor acknowledged before that one is. */
static void test_answers_wait_for_those_before(void **state) {
    (void)state;
    struct commit commits[COMMITS];
    struct database *database = open_with_two_in_flight(commits);
    gate_pass(1, 0);
    os_sleep_us(20000);
    assert_int_equal(answers, 0);
    assert_int_equal(read_counter(database), 0);
    gate_pass(0, 0);
    for (int i = 0; i < COMMITS; i++) {
        assert_int_equal(wait_for(&commits[i]), 0);
        assert_int_equal(commits[i].order, i + 1);
        assert_true(i == 0 || commits[i].request.committed_version >= commits[i - 1].request.committed_version);
    }
    assert_true(commits[1].request.committed_version > commits[0].request.committed_version);
    assert_int_equal(read_counter(database), COMMITS); /* each saw the ones before it, unpublished as they were */
    close_database(database);
    database = open_database();
    assert_int_equal(read_counter(database), COMMITS);
    database_close(database);
}

/* What the disk holds after a failed sync may be found by the next open; if so, then a beginning of it. */
static void check_after_failure(struct database *database, int known) {
    struct commit late;
    start(database, &late, *raise_counter());
    assert_int_equal(wait_for(&late), ERROR_DATABASE_FAILED);
    assert_int_equal(read_counter(database), known);
    close_database(database);
    database = open_database();
    int64_t counter = read_counter(database);
    assert_true(counter >= known && (counter == 0 || counter == 1 || counter == COMMITS));
    database_close(database);
}

static void test_a_failed_sync_takes_later_batches_along(void **state) {
    (void)state;
    for (int later_first = 0; later_first < 2; later_first++) {
        snprintf(path + strlen(path), 4, "-%d", later_first);
        struct commit commits[COMMITS];
        struct database *database = open_with_two_in_flight(commits);
        if (later_first) {
            gate_pass(1, 0);
            os_sleep_us(10000);
        }
        gate_pass(0, ERROR_IO_ERROR);
        if (!later_first)
            gate_pass(1, 0);
        for (int i = 0; i < COMMITS; i++)
            assert_int_equal(wait_for(&commits[i]), ERROR_COMMIT_UNKNOWN_RESULT);
        check_after_failure(database, 0);
    }
}

static void test_a_failed_sync_leaves_earlier_batches_alone(void **state) {
    (void)state;
    struct commit commits[COMMITS];
    struct database *database = open_with_two_in_flight(commits);
    gate_pass(0, 0);
    assert_int_equal(wait_for(&commits[0]), 0);
    assert_int_equal(read_counter(database), 1);
    gate_pass(1, ERROR_IO_ERROR);
    for (int i = 1; i < COMMITS; i++)
        assert_int_equal(wait_for(&commits[i]), ERROR_COMMIT_UNKNOWN_RESULT);
    check_after_failure(database, 1);
}

static void note_tail(void *context, const struct check_finding *finding) {
    *(bool *)context |= finding->severity == CHECK_NOTE && strcmp(finding->kind, "log-tail") == 0;
}

/* Opens a crash's leftovers: the check of a closed database must come to the same result as recovery. */
static void expect_after_crash(uint64_t records, bool tail, int64_t counter) {
    struct check_summary summary;
    char *message = NULL;
    bool tail_noted = false;
    const struct check_callbacks callbacks = {.finding = note_tail, .context = &tail_noted};
    assert_int_equal(engine_check(path, &callbacks, &summary, &message), 0);
    assert_int_equal(summary.damages, 0);
    assert_int_equal(summary.log_records, records);
    assert_int_equal(tail_noted, tail);
    struct database *database = open_database();
    assert_int_equal(read_counter(database), counter);
    database_close(database);
}

static void run(const char *format, const char *argument, const char *second) {
    char command[1500];
    snprintf(command, sizeof command, format, argument, second);
    assert_int_equal(system(command), 0);
}

/* The machine goes down with two batches unsynced. The first is torn, the second whole: both are gone. */
static void test_a_crash_with_two_in_flight(void **state) {
    (void)state;
    char original[500];
    struct commit commits[COMMITS];
    struct database *database = open_with_two_in_flight(commits);
    snprintf(original, sizeof original, "%s", path);
    run("cp -r '%s' '%s-whole'", path, path);
    run("cp -r '%s' '%s-torn'", path, path);
    gate_pass(0, 0);
    gate_pass(1, 0);
    close_database(database);
    snprintf(path, sizeof path, "%.480s-whole", original);
    expect_after_crash(2, false, COMMITS);
    snprintf(path, sizeof path, "%.480s-torn", original);
    run("printf x | dd of='%s/log/log-0000000000000001.keel' bs=1 seek=%s conv=notrunc status=none", path, "115"); /* in the first record's payload */
    expect_after_crash(0, true, 0);
    expect_after_crash(0, false, 0); /* and stay gone */
}

/* A segment is left only when all of it is synced: the batch that needs another one waits. */
static void test_a_new_segment_waits_for_the_old_one(void **state) {
    (void)state;
    static uint8_t large[20000];
    options.segment_bytes = 64 << 10;
    struct commit commits[COMMITS];
    struct database *database = open_database();
    gate_close();
    start(database, &commits[0], *raise_counter());
    gate_wait_for(1);
    for (int i = 1; i < COMMITS; i++)
        start(database, &commits[i], (struct mutation){MUTATION_SET, text("large"), bytes_make(large, sizeof large)});
    os_sleep_us(20000);
    assert_int_equal(gate.arrived, 1);
    assert_int_equal(atomic_load(&commits[1].done), false);
    gate_pass(1, 0);
    gate_pass(0, 0);
    for (int i = 0; i < COMMITS; i++)
        assert_int_equal(wait_for(&commits[i]), 0);
    close_database(database);
    database = open_database();
    assert_int_equal(read_counter(database), 1);
    database_close(database);
}

/* A few commits do not go beside another batch: they wait for it, and go together. */
static void test_a_few_commits_gather(void **state) {
    (void)state;
    struct commit commits[COMMITS - 1];
    struct database *database = open_database();
    gate_close();
    start(database, &commits[0], *raise_counter());
    gate_wait_for(1);
    for (int i = 1; i < COMMITS - 1; i++)
        start(database, &commits[i], *raise_counter());
    os_sleep_us(20000);
    assert_int_equal(gate.arrived, 1);
    gate_pass(1, 0);
    gate_pass(0, 0);
    for (int i = 0; i < COMMITS - 1; i++)
        assert_int_equal(wait_for(&commits[i]), 0);
    assert_int_equal(gate.arrived, 2);
    close_database(database);
}

/* --- Running --- */

static char scratch[300];

static int make_scratch(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-pipeline-XXXXXX", parent ? parent : "/tmp");
    os_mutex_init(&gate.lock);
    os_condition_init(&gate.changed);
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static int setup(void **state) {
    (void)state;
    static int number;
    char *message = NULL;
    snprintf(path, sizeof path, "%s/db-%d", scratch, number++);
    return engine_default_options(&options, &message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_with_several_pending),
        cmocka_unit_test_setup(test_answers_wait_for_those_before, setup),
        cmocka_unit_test_setup(test_a_failed_sync_takes_later_batches_along, setup),
        cmocka_unit_test_setup(test_a_failed_sync_leaves_earlier_batches_alone, setup),
        cmocka_unit_test_setup(test_a_crash_with_two_in_flight, setup),
        cmocka_unit_test_setup(test_a_new_segment_waits_for_the_old_one, setup),
        cmocka_unit_test_setup(test_a_few_commits_gather, setup),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
