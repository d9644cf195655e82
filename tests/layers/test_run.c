/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The retry loop, the texts of errors, and keel_open. What happens once in a process (who sets up
 * the network, what exit does) is tested in children: this program run again with --child NAME.
 * A child that hangs is ended by its alarm, which fails the test.
 */
#define _GNU_SOURCE
#include <keel/run.h>

#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    NOT_COMMITTED = 1020,
    COMMIT_UNKNOWN_RESULT = 1021,
    TRANSACTION_CANCELLED = 1025,
    TRANSACTION_TIMED_OUT = 1031,
    USED_DURING_COMMIT = 2017,
    NETWORK_ALREADY_SETUP = 2009,
    NETWORK_CANNOT_BE_RESTARTED = 2025,
    BLOCKED_FROM_NETWORK_THREAD = 2026,
    TRANSACTION_TOO_LARGE = 2101,
    API_VERSION_ALREADY_SET = 2201,
    APPLICATION_ERROR = 123456,
};
enum { CHILD_SECONDS_MAX = 60 };

extern char **environ;

static char scratch[4096]; /* a directory that is removed at the end */

static const char *scratch_path(const char *name) {
    static _Thread_local char path[4200];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

/* ---- Short ways to read and write ---- */

static void set_number(FDBTransaction *tr, const char *key, int64_t number) {
    fdb_transaction_set(tr, (const uint8_t *)key, (int)strlen(key), (const uint8_t *)&number,
                        sizeof number);
}

/* *number stays as it is where the key is absent. */
static fdb_error_t get_number(FDBTransaction *tr, const char *key, int64_t *number) {
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)key, (int)strlen(key), 0);
    fdb_error_t error = keel_wait(future);
    fdb_bool_t present = 0;
    const uint8_t *value;
    int length;
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error && present)
        memcpy(number, value, sizeof *number);
    fdb_future_destroy(future);
    return error;
}

struct cell {
    const char *key;
    int64_t number;
};

static fdb_error_t write_cell(FDBTransaction *tr, void *context) {
    struct cell *cell = context;
    set_number(tr, cell->key, cell->number);
    return 0;
}

static fdb_error_t read_cell(FDBTransaction *tr, void *context) {
    struct cell *cell = context;
    cell->number = -1;
    return get_number(tr, cell->key, &cell->number);
}

static fdb_error_t increment_cell(FDBTransaction *tr, void *context) {
    int64_t number = 0;
    fdb_error_t error = get_number(tr, context, &number);
    if (!error)
        set_number(tr, context, number + 1);
    return error;
}

static void store(keel_db *db, const char *key, int64_t number) {
    struct cell cell = {key, number};
    assert_int_equal(keel_run(keel_fdb(db), write_cell, &cell), 0);
}

/* -1 where the key is absent. */
static int64_t load(keel_db *db, const char *key) {
    struct cell cell = {key, 0};
    assert_int_equal(keel_run_read(keel_fdb(db), read_cell, &cell), 0);
    return cell.number;
}

static keel_db *open_memory(void) {
    keel_db *db = NULL;
    assert_int_equal(keel_open(":memory:", &db), 0);
    assert_non_null(keel_fdb(db));
    return db;
}

static int open_fresh(void **state) {
    *state = open_memory();
    return 0;
}

static int close_fresh(void **state) {
    keel_close(*state);
    return 0;
}

static void set_default(keel_db *db, FDBDatabaseOption option, int64_t value) {
    assert_int_equal(
        fdb_database_set_option(keel_fdb(db), option, (const uint8_t *)&value, sizeof value), 0);
}

/* ---- The loop ---- */

/* Returns each of `results` in turn, the last one for ever; writes `key` each time. */
struct script {
    const char *key;
    const fdb_error_t *results;
    int results_count;
    int calls;
    int prepared;
};

static fdb_error_t play(FDBTransaction *tr, void *context) {
    struct script *script = context;
    int64_t seen = -1;
    fdb_error_t error = get_number(tr, script->key, &seen);
    if (error)
        return error;
    int step = script->calls++;
    set_number(tr, script->key, step);
    return script->results[step < script->results_count ? step : script->results_count - 1];
}

static void success_commits_once(void **state) {
    const fdb_error_t results[] = {0};
    struct script script = {"k", results, 1, 0, 0};
    assert_int_equal(keel_run(keel_fdb(*state), play, &script), 0);
    assert_int_equal(script.calls, 1);
    assert_int_equal(load(*state, "k"), 0);
}

static void a_retryable_error_runs_it_again(void **state) {
    const fdb_error_t results[] = {NOT_COMMITTED, 1007, COMMIT_UNKNOWN_RESULT, 0};
    struct script script = {"k", results, 4, 0, 0};
    assert_int_equal(keel_run(keel_fdb(*state), play, &script), 0);
    assert_int_equal(script.calls, 4);
    assert_int_equal(load(*state, "k"), 3);
}

static void other_codes_end_it_without_a_commit(void **state) {
    const fdb_error_t codes[] = {APPLICATION_ERROR, -7, 1, 999999999, KEEL_ERROR_DIRECTORY_MISSING,
                                 20005, 2000, TRANSACTION_TIMED_OUT, USED_DURING_COMMIT, 3000};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct script script = {"k", &codes[i], 1, 0, 0};
        assert_int_equal(keel_run(keel_fdb(*state), play, &script), codes[i]);
        assert_int_equal(script.calls, 1);
        assert_int_equal(load(*state, "k"), -1);
    }
}

static void an_application_error_after_retries_comes_back(void **state) {
    const fdb_error_t results[] = {NOT_COMMITTED, NOT_COMMITTED, APPLICATION_ERROR};
    struct script script = {"k", results, 3, 0, 0};
    assert_int_equal(keel_run(keel_fdb(*state), play, &script), APPLICATION_ERROR);
    assert_int_equal(script.calls, 3);
    assert_int_equal(load(*state, "k"), -1);
}

struct collision {
    keel_db *db;
    int calls;
};

/* Its first call is overtaken by another transaction on the same key. */
static fdb_error_t collide(FDBTransaction *tr, void *context) {
    struct collision *collision = context;
    fdb_error_t error = increment_cell(tr, "k");
    if (!error && collision->calls++ == 0)
        error = keel_run(keel_fdb(collision->db), increment_cell, "k");
    return error;
}

static void a_conflict_is_retried(void **state) {
    struct collision collision = {*state, 0};
    assert_int_equal(keel_run(keel_fdb(*state), collide, &collision), 0);
    assert_int_equal(collision.calls, 2);
    assert_int_equal(load(*state, "k"), 2);
}

enum { COUNTING_THREADS = 4, INCREMENTS = 100 };

static void *count_up(void *db) {
    for (int i = 0; i < INCREMENTS; i++)
        if (keel_run(keel_fdb(db), increment_cell, "counter") != 0)
            return db;
    return NULL;
}

static void threads_lose_no_increment(void **state) {
    pthread_t threads[COUNTING_THREADS];
    for (int i = 0; i < COUNTING_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, *state), 0);
    for (int i = 0; i < COUNTING_THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(load(*state, "counter"), COUNTING_THREADS * INCREMENTS);
}

static void a_final_commit_error_comes_back(void **state) {
    set_default(*state, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, 32);
    struct cell cell = {"a key that is longer than the limit of its transaction", 1};
    assert_int_equal(keel_run(keel_fdb(*state), write_cell, &cell), TRANSACTION_TOO_LARGE);
    assert_int_equal(load(*state, cell.key), -1);
}

/* ---- Limits and options ---- */

static const fdb_error_t always_conflict[] = {NOT_COMMITTED};

static void a_retry_limit_ends_it_with_the_last_error(void **state) {
    set_default(*state, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, 3);
    for (int round = 0; round < 2; round++) {
        struct script script = {"k", always_conflict, 1, 0, 0};
        assert_int_equal(keel_run(keel_fdb(*state), play, &script), NOT_COMMITTED);
        assert_int_equal(script.calls, 4);
        script.calls = 0;
        assert_int_equal(keel_run_read(keel_fdb(*state), play, &script), NOT_COMMITTED);
        assert_int_equal(script.calls, 4);
    }
    assert_int_equal(load(*state, "k"), -1);
}

static void a_timeout_ends_it(void **state) {
    set_default(*state, FDB_DB_OPTION_TRANSACTION_TIMEOUT, 50);
    struct script script = {"k", always_conflict, 1, 0, 0};
    assert_int_equal(keel_run(keel_fdb(*state), play, &script), TRANSACTION_TIMED_OUT);
    assert_true(script.calls > 0);
}

static fdb_error_t set_option(FDBTransaction *tr, FDBTransactionOption option, int64_t value) {
    return fdb_transaction_set_option(tr, option, (const uint8_t *)&value, sizeof value);
}

static fdb_error_t prepare_retry_limit(FDBTransaction *tr, void *context) {
    ((struct script *)context)->prepared++;
    return set_option(tr, FDB_TR_OPTION_RETRY_LIMIT, 2);
}

static fdb_error_t prepare_timeout(FDBTransaction *tr, void *context) {
    ((struct script *)context)->prepared++;
    return set_option(tr, FDB_TR_OPTION_TIMEOUT, 50);
}

static void limits_may_be_prepared(void **state) {
    struct script script = {"k", always_conflict, 1, 0, 0};
    FDBDatabase *database = keel_fdb(*state);
    assert_int_equal(keel_run_with(database, prepare_retry_limit, play, &script), NOT_COMMITTED);
    assert_int_equal(script.calls, 3);
    assert_int_equal(script.prepared, 3);
    script.calls = 0;
    assert_int_equal(keel_run_read_with(database, prepare_retry_limit, play, &script),
                     NOT_COMMITTED);
    assert_int_equal(script.calls, 3);
    assert_int_equal(keel_run_with(database, prepare_timeout, play, &script),
                     TRANSACTION_TIMED_OUT);
    assert_int_equal(keel_run_read_with(database, prepare_timeout, play, &script),
                     TRANSACTION_TIMED_OUT);
}

static fdb_error_t prepare_system_keys(FDBTransaction *tr, void *context) {
    (*(int *)context)++;
    return fdb_transaction_set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS, NULL, 0);
}

/* A read that is only legal with the option, on a first call that has to be run again. */
static fdb_error_t read_system_key(FDBTransaction *tr, void *context) {
    int64_t unused;
    fdb_error_t error = get_number(tr, "\xff/keel", &unused);
    return !error && *(int *)context == 1 ? NOT_COMMITTED : error;
}

static void options_are_set_again_after_a_retry(void **state) {
    int prepared = 0;
    FDBDatabase *database = keel_fdb(*state);
    assert_int_equal(keel_run_with(database, prepare_system_keys, read_system_key, &prepared), 0);
    assert_int_equal(prepared, 2);
    prepared = 0;
    assert_int_equal(keel_run_read_with(database, prepare_system_keys, read_system_key, &prepared),
                     0);
    assert_int_equal(prepared, 2);
    assert_int_equal(keel_run_with(database, NULL, read_system_key, &prepared), 2004);
}

static fdb_error_t refuse(FDBTransaction *tr, void *context) {
    (void)tr, (void)context;
    return APPLICATION_ERROR;
}

static void an_error_of_prepare_ends_it(void **state) {
    const fdb_error_t results[] = {0};
    struct script script = {"k", results, 1, 0, 0};
    assert_int_equal(keel_run_with(keel_fdb(*state), refuse, play, &script), APPLICATION_ERROR);
    assert_int_equal(script.calls, 0);
}

/* ---- Reading only ---- */

static fdb_error_t write_and_read_back(FDBTransaction *tr, void *context) {
    struct cell *cell = context;
    set_number(tr, cell->key, 7);
    return read_cell(tr, cell);
}

static void the_read_form_drops_writes(void **state) {
    struct cell cell = {"k", 0};
    assert_int_equal(keel_run_read(keel_fdb(*state), write_and_read_back, &cell), 0);
    assert_int_equal(cell.number, 7);
    assert_int_equal(load(*state, "k"), -1);
}

static void the_read_form_retries_and_ends(void **state) {
    const fdb_error_t results[] = {1007, 1009, 0};
    struct script script = {"k", results, 3, 0, 0};
    assert_int_equal(keel_run_read(keel_fdb(*state), play, &script), 0);
    assert_int_equal(script.calls, 3);
    assert_int_equal(keel_run_read(keel_fdb(*state), refuse, NULL), APPLICATION_ERROR);
    assert_int_equal(load(*state, "k"), -1);
}

/* ---- Misuse, and futures that outlive the loop ---- */

static fdb_error_t commit_inside(FDBTransaction *tr, void *context) {
    write_cell(tr, context);
    return keel_wait_destroy(fdb_transaction_commit(tr));
}

static fdb_error_t cancel_inside(FDBTransaction *tr, void *context) {
    write_cell(tr, context);
    fdb_transaction_cancel(tr);
    return 0;
}

static void misuse_comes_back_as_an_error(void **state) {
    struct cell cell = {"k", 1}, cancelled = {"cancelled", 1};
    FDBDatabase *database = keel_fdb(*state);
    assert_int_equal(keel_run(database, commit_inside, &cell), USED_DURING_COMMIT);
    assert_int_equal(keel_run(database, cancel_inside, &cancelled), TRANSACTION_CANCELLED);
    assert_int_equal(load(*state, "cancelled"), -1);
    assert_int_equal(keel_run(NULL, write_cell, &cell), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_run(database, NULL, &cell), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_run_read(database, NULL, &cell), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_open(":memory:", NULL), KEEL_ERROR_ARGUMENT);
    assert_null(keel_fdb(NULL));
    keel_close(NULL);
}

struct carried {
    FDBFuture *watch;
    FDBFuture *versionstamp;
};

static fdb_error_t carry_out(FDBTransaction *tr, void *context) {
    struct carried *carried = context;
    set_number(tr, "stamped", 1);
    carried->watch = fdb_transaction_watch(tr, (const uint8_t *)"watched", 7);
    carried->versionstamp = fdb_transaction_get_versionstamp(tr);
    return 0;
}

static void watches_and_versionstamps_outlive_the_loop(void **state) {
    struct carried carried;
    assert_int_equal(keel_run(keel_fdb(*state), carry_out, &carried), 0);
    const uint8_t *stamp;
    int length = 0;
    assert_int_equal(keel_wait(carried.versionstamp), 0);
    assert_int_equal(fdb_future_get_key(carried.versionstamp, &stamp, &length), 0);
    assert_int_equal(length, 10);
    fdb_future_destroy(carried.versionstamp);
    assert_false(fdb_future_is_ready(carried.watch));
    store(*state, "watched", 1);
    assert_int_equal(keel_wait_destroy(carried.watch), 0);
}

struct on_network {
    keel_db *db;
    fdb_error_t error;
    atomic_int done;
};

static void run_on_network(FDBFuture *future, void *context) {
    (void)future;
    struct on_network *on_network = context;
    struct cell cell = {"blocked", 1};
    on_network->error = keel_run(keel_fdb(on_network->db), write_cell, &cell);
    on_network->done = 1;
}

static void it_does_not_block_the_network_thread(void **state) {
    struct on_network on_network = {.db = *state};
    struct carried carried;
    assert_int_equal(keel_run(keel_fdb(*state), carry_out, &carried), 0);
    fdb_future_destroy(carried.versionstamp);
    assert_int_equal(fdb_future_set_callback(carried.watch, run_on_network, &on_network), 0);
    store(*state, "watched", 1);
    while (!on_network.done)
        usleep(1000);
    assert_int_equal(on_network.error, BLOCKED_FROM_NETWORK_THREAD);
    fdb_future_destroy(carried.watch);
}

/* ---- Texts ---- */

static void every_code_has_a_text(void **state) {
    (void)state;
    struct { int code; const char *text; } table[] = {
#define ROW(name, code, text) {KEEL_ERROR_##name, text},
        KEEL_ERROR_TABLE(ROW)
#undef ROW
    };
    size_t count = sizeof table / sizeof *table;
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(keel_error_text(table[i].code), table[i].text);
        for (size_t j = 0; j < i; j++) {
            assert_true(table[j].code < table[i].code);
            assert_string_not_equal(table[j].text, table[i].text);
        }
    }
    for (int code = -2; code < 30000; code++)
        assert_true(strlen(keel_error_text(code)) > 0);
    const int foreign[] = {0, 1007, 1020, 2101, 20001, 20005, 21999, APPLICATION_ERROR, -1};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_string_equal(keel_error_text(foreign[i]), fdb_get_error(foreign[i]));
}

/* ---- Opening, in this process ---- */

static void one_path_may_be_open_several_times(void **state) {
    (void)state;
    keel_db *first, *second;
    for (int order = 0; order < 2; order++) {
        assert_int_equal(keel_open(scratch_path("shared"), &first), 0);
        assert_int_equal(keel_open(scratch_path("shared"), &second), 0);
        store(first, "k", order);
        assert_int_equal(load(second, "k"), order);
        keel_close(order ? first : second);
        assert_int_equal(load(order ? second : first, "k"), order);
        keel_close(order ? second : first);
    }
}

static void a_transaction_outlives_the_close(void **state) {
    (void)state;
    keel_db *db;
    FDBTransaction *tr;
    assert_int_equal(keel_open(scratch_path("outlived"), &db), 0);
    assert_int_equal(fdb_database_create_transaction(keel_fdb(db), &tr), 0);
    set_number(tr, "k", 5);
    keel_close(db);
    assert_int_equal(keel_wait_destroy(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
    assert_int_equal(keel_open(scratch_path("outlived"), &db), 0);
    assert_int_equal(load(db, "k"), 5);
    keel_close(db);
}

static void what_was_committed_is_there_when_opened_again(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        keel_db *db;
        assert_int_equal(keel_open(scratch_path("again"), &db), 0);
        assert_int_equal(load(db, "round"), round - 1);
        store(db, "round", round);
        keel_close(db);
    }
}

static void many_may_be_open(void **state) {
    (void)state;
    enum { MANY = 64 };
    keel_db *databases[MANY];
    for (int i = 0; i < MANY; i++) {
        databases[i] = open_memory();
        store(databases[i], "number", i);
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(load(databases[i], "number"), i);
    for (int i = 0; i < MANY; i++)
        keel_close(databases[i * 37 % MANY]); /* 37 and 64 have no factor in common */
}

static void opening_fails_with_the_first_transaction(void **state) {
    (void)state;
    keel_db *db;
    assert_int_equal(keel_open("/dev/null/database", &db), 0);
    struct cell cell = {"k", 1};
    fdb_error_t error = keel_run(keel_fdb(db), write_cell, &cell);
    assert_int_not_equal(error, 0);
    keel_close(db);
}

/* ---- Children ---- */

/* In a child: says what was wrong and ends without exit's handlers, which are what is tested. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

static keel_db *child_db; /* reachable, so that nobody calls it leaked */

static fdb_error_t child_increment(keel_db *db) {
    return keel_run(keel_fdb(db), increment_cell, "k");
}

static int64_t child_load(keel_db *db) {
    struct cell cell = {"k", 0};
    CHECK(keel_run_read(keel_fdb(db), read_cell, &cell) == 0);
    return cell.number;
}

static void child_open(void) {
    CHECK(keel_open("database", &child_db) == 0);
    CHECK(child_increment(child_db) == 0);
}

static void child_exits_without_close(void) {
    child_open();
}

static void child_finds_what_the_other_left(void) {
    CHECK(keel_open("database", &child_db) == 0);
    CHECK(child_load(child_db) == 1);
    keel_close(child_db);
}

static void child_opens_the_default(void) {
    CHECK(keel_open(NULL, &child_db) == 0);
    CHECK(child_increment(child_db) == 0);
    keel_close(child_db);
    CHECK(access("keel.db", F_OK) == 0);
}

static void child_exits_from_a_function(void) {
    child_open();
    exit(0);
}

static void *loop_for_ever(void *unused) {
    (void)unused;
    for (;;)
        (void)child_increment(child_db);
    return NULL;
}

static void child_exits_with_live_threads(void) {
    child_open();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, loop_for_ever, NULL) == 0);
        pthread_detach(thread);
    }
    usleep(20000);
}

static fdb_error_t stay(FDBTransaction *tr, void *context) {
    (void)tr, (void)context;
    return NOT_COMMITTED;
}

static void *wait_for_ever(void *unused) {
    (void)keel_run(keel_fdb(child_db), stay, NULL); /* in backoff nearly all of the time */
    return unused;
}

static void child_exits_during_backoff(void) {
    child_open();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    pthread_detach(thread);
    usleep(20000);
}

static void *open_and_close(void *result) {
    keel_db *db;
    *(fdb_error_t *)result = keel_open("database", &db);
    if (*(fdb_error_t *)result)
        return NULL;
    *(fdb_error_t *)result = child_increment(db);
    keel_close(db);
    return NULL;
}

static void child_opens_in_threads(void) {
    enum { OPENING_THREADS = 8 };
    pthread_t threads[OPENING_THREADS];
    fdb_error_t errors[OPENING_THREADS];
    for (int i = 0; i < OPENING_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_close, &errors[i]) == 0);
    for (int i = 0; i < OPENING_THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(errors[i] == 0);
    }
    CHECK(keel_open("database", &child_db) == 0);
    CHECK(child_load(child_db) == OPENING_THREADS);
}

static atomic_int own_run_result = -1;

static void *own_network(void *unused) {
    own_run_result = fdb_run_network();
    return unused;
}

/* A program with a network of its own: keel_open must neither run nor stop it. */
static void child_has_its_own_network(void) {
    pthread_t thread;
    CHECK(fdb_select_api_version(710) == 0);
    CHECK(fdb_setup_network() == 0);
    CHECK(keel_open("before", &child_db) == 0);
    CHECK(pthread_create(&thread, NULL, own_network, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(child_increment(child_db) == 0);
        keel_close(child_db);
        CHECK(keel_open("database", &child_db) == 0);
    }
    keel_close(child_db);
    CHECK(own_run_result == -1);
    CHECK(fdb_stop_network() == 0);
    pthread_join(thread, NULL);
    CHECK(own_run_result == 0);
}

static void check_still_running(void) {
    if (own_run_result != -1)
        _exit(98);
}

/* The same, ending while its network runs: exit must not stop it. */
static void child_leaves_its_own_network_running(void) {
    pthread_t thread;
    CHECK(atexit(check_still_running) == 0); /* called after what keel_open may have registered */
    CHECK(fdb_select_api_version(740) == 0);
    CHECK(fdb_setup_network() == 0);
    CHECK(pthread_create(&thread, NULL, own_network, NULL) == 0);
    pthread_detach(thread);
    child_open();
}

static void child_selects_the_version(void) {
    CHECK(fdb_select_api_version(630) == 0);
    child_open();
    CHECK(fdb_select_api_version(740) == API_VERSION_ALREADY_SET);
    CHECK(fdb_setup_network() == NETWORK_ALREADY_SETUP);
    CHECK(fdb_run_network() == NETWORK_CANNOT_BE_RESTARTED);
}

/* A program that stops our network: nothing can be opened any more, and exit does not mind. */
static void child_stops_our_network(void) {
    child_open();
    CHECK(fdb_stop_network() == 0);
    fdb_error_t error;
    keel_db *other;
    while ((error = keel_open("other", &other)) == 0) { /* until the thread has come back */
        keel_close(other);
        usleep(1000);
    }
    CHECK(error == NETWORK_CANNOT_BE_RESTARTED);
    keel_close(child_db);
}

static void exit_in_callback(FDBFuture *future, void *unused) {
    (void)future, (void)unused;
    exit(0);
}

static void child_exits_in_a_callback(void) {
    child_open();
    struct carried carried;
    CHECK(keel_run(keel_fdb(child_db), carry_out, &carried) == 0);
    fdb_future_destroy(carried.versionstamp);
    CHECK(fdb_future_set_callback(carried.watch, exit_in_callback, NULL) == 0);
    struct cell cell = {"watched", 1};
    CHECK(keel_run(keel_fdb(child_db), write_cell, &cell) == 0);
    for (;;)
        pause();
}

static void use_at_exit(void) {
    CHECK(child_increment(child_db) == 0);
    CHECK(child_load(child_db) == 2);
    keel_close(child_db);
}

static void child_uses_the_database_at_exit(void) {
    child_open();
    CHECK(atexit(use_at_exit) == 0);
}

/* A forked child may exit, and cannot open; its parent goes on. */
static void child_forks(void) {
    child_open();
    for (int i = 0; i < 3; i++) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            alarm(CHILD_SECONDS_MAX);
            keel_db *db = NULL;
            CHECK(keel_open("database", &db) == KEEL_ERROR_FORKED);
            CHECK(db == NULL);
            exit(42);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
        CHECK(child_increment(child_db) == 0);
    }
    CHECK(child_load(child_db) == 4);
    keel_close(child_db);
}

static void child_forks_before_opening(void) {
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    int status = 0;
    if (grandchild != 0)
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    child_open();
    CHECK(child_load(child_db) == (grandchild ? 2 : 1));
}

/* No thread now; later there is one. */
static void child_has_no_room_for_a_thread(void) {
    pthread_attr_t usual, absurd;
    CHECK(pthread_getattr_default_np(&usual) == 0);
    CHECK(pthread_attr_init(&absurd) == 0);
    CHECK(pthread_attr_setstacksize(&absurd, (size_t)1 << 47) == 0);
    CHECK(pthread_setattr_default_np(&absurd) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(keel_open("database", &child_db) == KEEL_ERROR_THREAD);
    CHECK(child_db == NULL);
    CHECK(pthread_setattr_default_np(&usual) == 0);
    child_open();
    keel_close(child_db);
}

static void child_has_a_bad_option(void) {
    CHECK(setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "many", 1) == 0);
    CHECK(keel_open("database", &child_db) == 2022);
    CHECK(child_db == NULL);
    CHECK(unsetenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE") == 0);
    child_open();
    keel_close(child_db);
}

static const struct child {
    const char *name;
    void (*main)(void);
    const char *then; /* another child, in the same directory */
} children[] = {
    {"exits_without_close", child_exits_without_close, "finds_what_the_other_left"},
    {"opens_the_default", child_opens_the_default, NULL},
    {"exits_from_a_function", child_exits_from_a_function, "finds_what_the_other_left"},
    {"exits_with_live_threads", child_exits_with_live_threads, NULL},
    {"exits_during_backoff", child_exits_during_backoff, NULL},
    {"opens_in_threads", child_opens_in_threads, NULL},
    {"has_its_own_network", child_has_its_own_network, NULL},
    {"leaves_its_own_network_running", child_leaves_its_own_network_running, NULL},
    {"selects_the_version", child_selects_the_version, NULL},
    {"stops_our_network", child_stops_our_network, NULL},
    {"exits_in_a_callback", child_exits_in_a_callback, NULL},
    {"uses_the_database_at_exit", child_uses_the_database_at_exit, NULL},
    {"forks", child_forks, NULL},
    {"forks_before_opening", child_forks_before_opening, NULL},
    {"has_no_room_for_a_thread", child_has_no_room_for_a_thread, NULL},
    {"has_a_bad_option", child_has_a_bad_option, NULL},
    {"finds_what_the_other_left", child_finds_what_the_other_left, NULL}, /* not run by itself */
};
enum { CHILDREN = sizeof children / sizeof *children, CHILD_TESTS = CHILDREN - 1 };

/* In the child: finds its part and plays it in the directory given. */
static int be_a_child(const char *name, const char *directory) {
    alarm(CHILD_SECONDS_MAX);
    CHECK(chdir(directory) == 0);
    for (int i = 0; i < CHILDREN; i++)
        if (strcmp(children[i].name, name) == 0) {
            children[i].main();
            return 0;
        }
    return 97;
}

static void run_child(const char *name, const char *directory) {
    char *arguments[] = {(char *)"test_run", (char *)"--child", (char *)name, (char *)directory,
                         NULL};
    pid_t child = 0;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("child %s ended with %s %d", name, WIFEXITED(status) ? "exit code" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void in_a_child(void **state) {
    const struct child *child = *state;
    char directory[4200];
    snprintf(directory, sizeof directory, "%s/%s-XXXXXX", scratch, child->name);
    assert_non_null(mkdtemp(directory));
    run_child(child->name, directory);
    if (child->then)
        run_child(child->then, directory);
}

/* ---- All of it ---- */

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk) {
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

#define ON_FRESH(test) cmocka_unit_test_setup_teardown(test, open_fresh, close_fresh)

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        ON_FRESH(success_commits_once),
        ON_FRESH(a_retryable_error_runs_it_again),
        ON_FRESH(other_codes_end_it_without_a_commit),
        ON_FRESH(an_application_error_after_retries_comes_back),
        ON_FRESH(a_conflict_is_retried),
        ON_FRESH(threads_lose_no_increment),
        ON_FRESH(a_final_commit_error_comes_back),
        ON_FRESH(a_retry_limit_ends_it_with_the_last_error),
        ON_FRESH(a_timeout_ends_it),
        ON_FRESH(limits_may_be_prepared),
        ON_FRESH(options_are_set_again_after_a_retry),
        ON_FRESH(an_error_of_prepare_ends_it),
        ON_FRESH(the_read_form_drops_writes),
        ON_FRESH(the_read_form_retries_and_ends),
        ON_FRESH(misuse_comes_back_as_an_error),
        ON_FRESH(watches_and_versionstamps_outlive_the_loop),
        ON_FRESH(it_does_not_block_the_network_thread),
        cmocka_unit_test(every_code_has_a_text),
        cmocka_unit_test(one_path_may_be_open_several_times),
        cmocka_unit_test(a_transaction_outlives_the_close),
        cmocka_unit_test(what_was_committed_is_there_when_opened_again),
        cmocka_unit_test(many_may_be_open),
        cmocka_unit_test(opening_fails_with_the_first_transaction),
    };
    struct CMUnitTest child_tests[CHILD_TESTS];
    for (int i = 0; i < CHILD_TESTS; i++)
        child_tests[i] = (struct CMUnitTest){children[i].name, in_a_child, NULL, NULL,
                                             (void *)&children[i]};
    int failed = cmocka_run_group_tests_name("run", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("processes", child_tests, NULL, NULL);
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "--child") == 0)
        return be_a_child(arguments[2], arguments[3]);
    const char *temporary = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-run-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(scratch))
        return 1;
    int failed = run_all();
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return failed != 0;
}
