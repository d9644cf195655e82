/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that do everything at once: to one transaction, to what another thread waits for, to the
 * list of open databases; and one that does everything ten thousand times, watching memory. Run
 * under the thread and address sanitizers as well.
 */
#define _GNU_SOURCE /* gettid */
#include "misuse.h"

enum { THREADS = 8 };

static FDBDatabase *database;
static FDBTransaction *shared;
static atomic_int turn;

static void run_threads(void *(*function)(void *), int number) {
    pthread_t threads[THREADS];
    for (int i = 0; i < number; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, function, (void *)(intptr_t)i), 0);
    for (int i = 0; i < number; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- One transaction, eight threads ---- */

/* A future whose answer nobody can foretell: wait for it or not, look or not, let go of it. */
static void toss(FDBFuture *future, unsigned choice, bool may_block) {
    CHECK(future);
    const FDBKeyValue *rows;
    int64_t number;
    int length;
    fdb_bool_t truth;
    if (choice & 1)
        fdb_future_cancel(future);
    if (choice & 2)
        (void)fdb_future_is_ready(future);
    if (may_block && (choice & 4))
        CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    (void)!fdb_future_get_keyvalue_array(future, &rows, &length, &truth);
    (void)!fdb_future_get_int64(future, &number);
    if (choice & 8)
        fdb_future_release_memory(future);
    fdb_future_destroy(future);
}

static void do_writes(FDBTransaction *tr, unsigned choice, const uint8_t *key) {
    static const uint8_t stamp[14];
    switch (choice % 8) {
    case 0: fdb_transaction_set(tr, key, 2, key, 2); break;
    case 1: fdb_transaction_clear(tr, key, 2); break;
    case 2: fdb_transaction_clear_range(tr, key, 1, key, 2); break;
    case 3: fdb_transaction_atomic_op(tr, key, 2, key, 2, FDB_MUTATION_TYPE_ADD); break;
    case 4: fdb_transaction_atomic_op(tr, stamp, 14, key, 2,
                                      FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY);
        break;
    case 5: (void)!fdb_transaction_add_conflict_range(tr, key, 1, key, 2, choice / 8 % 2); break;
    case 6:
        if (choice / 8 % 16 == 0) /* hardly ever, for it spoils what follows */
            fdb_transaction_set_read_version(tr, (int64_t)choice);
        break;
    default: (void)!fdb_transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT,
                                               option_number(choice / 8 % 3 ? 0 : 5), 8);
        break;
    }
}

static atomic_int commits_done;

static void commit_and_toss(FDBTransaction *tr, unsigned more) {
    FDBFuture *future = fdb_transaction_commit(tr);
    if (more % 4 == 0) {
        CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
        if (fdb_future_get_error(future) == 0)
            atomic_fetch_add(&commits_done, 1);
    }
    toss(future, more, true);
}

static void do_anything(FDBTransaction *tr, unsigned choice, unsigned more) {
    uint8_t key[2] = {'a', (uint8_t)(more % 16)};
    int64_t version;
    switch (choice % 16) {
    case 0: toss(fdb_transaction_get(tr, key, 2, more & 1), more, true); break;
    case 1: toss(fdb_transaction_get_range(tr, key, 1, 0, 1, KEY("b"), 1, 1, 0, 0, -2, 0, 0, 0),
                 more, true);
        break;
    case 2: toss(fdb_transaction_get_key(tr, key, 2, 1, -1, 0), more, true); break;
    case 3: commit_and_toss(tr, more); break;
    case 4: toss(fdb_transaction_on_error(tr, more % 64 ? 1020 : 2000), more, true); break;
    case 5: toss(fdb_transaction_watch(tr, key, 2), more, false); break;
    case 6: toss(fdb_transaction_get_versionstamp(tr), more, false); break;
    case 7: fdb_transaction_reset(tr); break;
    case 8:
        if (more % 16 == 0)
            fdb_transaction_cancel(tr);
        else
            fdb_transaction_reset(tr);
        break;
    case 9: (void)!fdb_transaction_get_committed_version(tr, &version); break;
    case 10: toss(fdb_transaction_get_approximate_size(tr), more, true); break;
    case 11: toss(fdb_transaction_get(tr, KEY("\xff\xff/transaction/write_conflict_range/"), 0),
                  more, true);
        break;
    default: do_writes(tr, more, key); break;
    }
}

static void *do_anything_often(void *number) {
    unsigned state = (unsigned)(intptr_t)number * 7919u + 1;
    for (int i = 0; i < rounds(20000); i++) {
        unsigned choice = next_random(&state);
        do_anything(shared, choice, next_random(&state));
    }
    return NULL;
}

static void eight_threads_on_one_transaction(void) {
    network_start();
    database = database_open(":memory:");
    shared = transaction_begin(database);
    run_threads(do_anything_often, THREADS);
    CHECK(atomic_load(&commits_done) > 0);
    fdb_transaction_reset(shared);
    set_text(shared, "k", "v");
    CHECK_EQUAL(commit(shared), 0);
    fdb_transaction_destroy(shared);
    CHECK(has_text(database, "k", "v"));
    fdb_database_destroy(database);
    network_stop();
}

static void eight_threads_without_protection(void) {
    network_start();
    database = database_open(scratch_path("db"));
    FDBDatabaseOption unprotected =
        FDB_DB_OPTION_TRANSACTION_USED_DURING_COMMIT_PROTECTION_DISABLE;
    CHECK_EQUAL(fdb_database_set_option(database, unprotected, NULL, 0), 0);
    CHECK_EQUAL(fdb_database_set_option(database, FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS,
                                        NULL, 0), 0);
    shared = transaction_begin(database);
    run_threads(do_anything_often, THREADS);
    fdb_transaction_destroy(shared);
    fdb_database_destroy(database);
    network_stop();
}

/* ---- Ending what another thread waits for ---- */

static FDBFuture *waited[4];

static void *wait_for_one(void *number) {
    FDBFuture *future = waited[(intptr_t)number];
    atomic_fetch_add(&turn, 1);
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_error(future);
    CHECK(error == 0 || error == 1025 || error == 1020 || error == 2017 || error == 2020 ||
          error == 2021);
    return NULL;
}

/* Four futures of one transaction, each with a thread that blocks on it, then `end`. */
static void end_while_blocked(const char *path, void (*end)(FDBTransaction *), bool destroyed) {
    network_start();
    for (int i = 0; i < rounds(200); i++) {
        database = database_open(path);
        FDBTransaction *tr = transaction_begin(database);
        set_text(tr, "k", "v");
        waited[0] = fdb_transaction_watch(tr, KEY("w"));
        waited[1] = fdb_transaction_get_versionstamp(tr);
        waited[2] = i % 2 ? fdb_transaction_on_error(tr, 1020)
                          : fdb_transaction_get(tr, KEY("k"), 0);
        waited[3] = fdb_transaction_commit(tr);
        atomic_store(&turn, 0);
        pthread_t threads[4];
        for (int j = 0; j < 4; j++)
            CHECK_EQUAL(pthread_create(&threads[j], NULL, wait_for_one, (void *)(intptr_t)j), 0);
        while (i % 3 && atomic_load(&turn) < 4)
            sched_yield();
        end(tr);
        /* a commit that was quicker leaves the watch to whoever writes */
        FDBTransaction *writer = transaction_begin(database);
        set_text(writer, "w", i % 2 ? "1" : "2");
        CHECK_EQUAL(commit(writer), 0);
        fdb_transaction_destroy(writer);
        for (int j = 0; j < 4; j++) {
            CHECK_EQUAL(pthread_join(threads[j], NULL), 0);
            fdb_future_destroy(waited[j]);
        }
        if (!destroyed)
            fdb_transaction_destroy(tr);
        fdb_database_destroy(database);
    }
    network_stop();
}

static void destroy_while_blocked(void) {
    end_while_blocked(":memory:", fdb_transaction_destroy, true);
}

static void reset_while_blocked(void) {
    end_while_blocked(":memory:", fdb_transaction_reset, false);
}

static void cancel_while_blocked(void) {
    end_while_blocked(":memory:", fdb_transaction_cancel, false);
}

static _Atomic pid_t blocked[THREADS]; /* 0: not yet */

static void *block_only(void *future) {
    blocked[atomic_fetch_add(&turn, 1)] = gettid();
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    return NULL;
}

/* Whether the kernel says that the thread sleeps. */
static bool is_asleep(pid_t thread) {
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(name, "r");
    bool read = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return read && state == 'S';
}

/* Forbidden, but all too easy: the wait ends as with a cancel, and touches no freed memory. */
static void future_destroyed_under_blocked_threads(void) {
    network_start();
    database = database_open(":memory:");
    for (int i = 0; i < rounds(20); i++) {
        FDBTransaction *tr = transaction_begin(database);
        FDBFuture *watch = fdb_transaction_watch(tr, KEY("w"));
        pthread_t threads[THREADS];
        atomic_store(&turn, 0);
        for (int j = 0; j < THREADS; j++)
            atomic_store(&blocked[j], 0);
        for (int j = 0; j < THREADS; j++)
            CHECK_EQUAL(pthread_create(&threads[j], NULL, block_only, watch), 0);
        for (int j = 0; j < THREADS; j++) {
            while (!is_asleep(blocked[j]))
                usleep(1000);
        }
        usleep(is_checked_memory() ? 200000 : 20000); /* now they surely sleep for the future */
        if (i % 2)
            fdb_transaction_destroy(tr);
        fdb_future_destroy(watch);
        for (int j = 0; j < THREADS; j++)
            CHECK_EQUAL(pthread_join(threads[j], NULL), 0);
        if (i % 2 == 0)
            fdb_transaction_destroy(tr);
    }
    fdb_database_destroy(database);
    network_stop();
}

static void *commit_and_forget(void *number) {
    unsigned state = (unsigned)(intptr_t)number + 1;
    for (int i = 0; i < rounds(500); i++) {
        FDBTransaction *tr = transaction_begin(database);
        uint8_t key[1] = {(uint8_t)(next_random(&state) % 8)};
        fdb_transaction_set(tr, key, 1, key, 1);
        FDBFuture *watch = fdb_transaction_watch(tr, key, 1);
        FDBFuture *done = fdb_transaction_commit(tr);
        unsigned choice = next_random(&state);
        if (choice & 1)
            fdb_transaction_destroy(tr);
        if (choice & 2)
            CHECK_EQUAL(fdb_future_block_until_ready(done), 0);
        if (choice & 4)
            fdb_future_destroy(watch);
        fdb_future_destroy(done);
        if (!(choice & 4))
            fdb_future_destroy(watch);
        if (!(choice & 1))
            fdb_transaction_destroy(tr);
    }
    return NULL;
}

static void commits_and_watches_given_up(void) {
    network_start();
    database = database_open(":memory:");
    run_threads(commit_and_forget, 4);
    fdb_database_destroy(database);
    network_stop();
}

/* ---- Opening and closing ---- */

static void *open_and_close(void *number) {
    unsigned state = (unsigned)(intptr_t)number + 99;
    char name[8];
    for (int i = 0; i < rounds(60); i++) {
        int which = (int)(next_random(&state) % 3);
        snprintf(name, sizeof name, "db%d", which);
        FDBDatabase *opened = database_open(scratch_path(name));
        FDBTransaction *tr = transaction_begin(opened);
        if (next_random(&state) % 2)
            fdb_database_destroy(opened), opened = NULL;
        uint8_t one[8] = {1};
        fdb_transaction_atomic_op(tr, KEY("counter"), one, 8, FDB_MUTATION_TYPE_ADD);
        CHECK_EQUAL(commit(tr), 0);
        atomic_fetch_add(&turn, 1);
        fdb_transaction_destroy(tr);
        fdb_database_destroy(opened);
    }
    return NULL;
}

static void opening_and_closing_at_once(void) {
    setenv("KEEL_DURABILITY", "none", 1);
    network_start();
    run_threads(open_and_close, 4);
    int64_t total = 0;
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "db%d", i);
        database = database_open(scratch_path(name));
        FDBTransaction *tr = transaction_begin(database);
        FDBFuture *future = fdb_transaction_get(tr, KEY("counter"), 0);
        fdb_bool_t present;
        const uint8_t *value;
        int length;
        CHECK_EQUAL(fdb_future_get_value(future, &present, &value, &length), 0);
        int64_t part = 0;
        if (present)
            memcpy(&part, value, 8);
        total += part;
        fdb_future_destroy(future);
        fdb_transaction_destroy(tr);
        fdb_database_destroy(database);
    }
    CHECK_EQUAL(total, atomic_load(&turn));
    network_stop();
}

static void *use_first(void *number) {
    (void)number;
    FDBTransaction *tr = transaction_begin(database);
    CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), 0);
    fdb_transaction_destroy(tr);
    return NULL;
}

static void *read_for_a_while(void *number) {
    for (int i = 0; i < 20; i++) {
        use_first(number);
        usleep(100);
    }
    return NULL;
}

/* More threads than there are places for readers. */
static void five_hundred_readers(void) {
    enum { MANY = 500 };
    static pthread_t threads[MANY];
    network_start();
    int number = rounds(MANY);
    for (int round = 0; round < 2; round++) {
        database = database_open(round ? ":memory:" : scratch_path("db"));
        for (int i = 0; i < number; i++)
            CHECK_EQUAL(pthread_create(&threads[i], NULL, read_for_a_while, NULL), 0);
        for (int i = 0; i < number; i++)
            CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        fdb_database_destroy(database);
    }
    network_stop();
}

static void first_use_by_many_threads(void) {
    network_start();
    for (int i = 0; i < rounds(40); i++) {
        database = database_open(i % 2 ? ":memory:" : scratch_path("db"));
        run_threads(use_first, THREADS);
        fdb_database_destroy(database);
    }
    network_stop();
}

/* ---- Memory ---- */

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file);
    CHECK_EQUAL(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void ignore(FDBFuture *future, void *parameter) {
    (void)parameter;
    fdb_future_destroy(future);
}

static void cycle(int i) {
    FDBDatabase *opened = i % 10 ? database_open(":memory:") : NULL;
    FDBTransaction *tr = transaction_begin(database);
    FDBTenant *tenant = NULL;
    char key[16];
    snprintf(key, sizeof key, "k%d", i % 100);
    set_transaction_number(tr, FDB_TR_OPTION_TIMEOUT, 60000);
    fdb_future_destroy(fdb_transaction_get_range(tr, KEY(""), 0, 1, KEY("\xff"), 0, 1, 10, 0, -2, 0,
                                                 0, 0));
    set_text(tr, key, key);
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    FDBFuture *watch = fdb_transaction_watch(tr, KEY(key));
    fdb_error_t error = commit(tr);
    CHECK(error == 0 || error == 1007); /* on a machine that is very slow */
    CHECK_EQUAL(finish(stamp), error ? 2020 : 0);
    fdb_future_cancel(watch);
    CHECK_EQUAL(fdb_future_set_callback(watch, ignore, NULL), 0);
    CHECK_EQUAL(fdb_transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT, option_number(0), 8), 0);
    fdb_transaction_reset(tr);
    set_transaction_number(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 0);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 0);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 2000)), 2000);
    set_text(tr, "never", "committed");
    fdb_transaction_destroy(tr);
    CHECK_EQUAL(fdb_database_open_tenant(database, KEY("t"), &tenant), 0);
    CHECK(finish(fdb_tenant_get_id(tenant)));
    fdb_tenant_destroy(tenant);
    fdb_database_destroy(opened);
    if (i % 100 == 0) {
        opened = database_open(":memory:");
        CHECK(!has_text(opened, "k", "v"));
        fdb_database_destroy(opened);
    }
}

static void ten_thousand_cycles(void) {
    setenv("KEEL_LIFETIME_MS", "100", 1); /* so that history is given up as fast as it is made */
    network_start();
    database = database_open(":memory:");
    int number = rounds(10000);
    long warm_pages = 0;
    for (int i = 0; i < number; i++) {
        if (i == number / 4)
            warm_pages = resident_pages();
        cycle(i);
    }
    long grown_bytes = (resident_pages() - warm_pages) * sysconf(_SC_PAGESIZE);
    if (!is_checked_memory() && grown_bytes > 6 << 20)
        fail_at(__FILE__, __LINE__, "memory grown by bytes", grown_bytes, 0);
    fdb_database_destroy(database);
    network_stop();
}

const struct misuse_case thread_cases[] = {
    {"threads: eight on one transaction", eight_threads_on_one_transaction},
    {"threads: eight on one transaction, unprotected", eight_threads_without_protection},
    {"threads: destroy what others wait for", destroy_while_blocked},
    {"threads: reset what others wait for", reset_while_blocked},
    {"threads: cancel what others wait for", cancel_while_blocked},
    {"threads: future destroyed under blocked threads", future_destroyed_under_blocked_threads},
    {"threads: commits and watches given up", commits_and_watches_given_up},
    {"threads: opening and closing at once", opening_and_closing_at_once},
    {"threads: first use by many", first_use_by_many_threads},
    {"threads: five hundred readers", five_hundred_readers},
    {"memory: ten thousand cycles of everything", ten_thousand_cycles},
    {NULL, NULL},
};
