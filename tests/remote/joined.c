/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share a database, beyond what the conformance suite can see: watches and read
 * versions across processes, an owner that stops, one that goes, forks. Each test forks before it
 * touches the library, so that every process has its own; a child is told what to do by a byte.
 */
#define _GNU_SOURCE
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define CHECK_EQUAL(value, expected)                                                               \
    do {                                                                                           \
        long long value_ = (value), expected_ = (expected);                                        \
        if (value_ != expected_) {                                                                 \
            fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #value, value_, expected_); \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum { OPENED_BEFORE_FORK = 20020, OWNER_SILENT = 20021 };

static char scratch[300], path[400];

/* ---- Short ways ---- */

static void *run_network(void *unused) {
    fdb_run_network();
    return unused;
}

static FDBDatabase *open_path(void) {
    FDBDatabase *database;
    CHECK_EQUAL(fdb_create_database(path, &database), 0);
    return database;
}

static FDBDatabase *start(void) {
    pthread_t thread;
    CHECK_EQUAL(fdb_select_api_version(FDB_API_VERSION), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, run_network, NULL), 0);
    return open_path();
}

static FDBTransaction *begin(FDBDatabase *database) {
    FDBTransaction *tr;
    CHECK_EQUAL(fdb_database_create_transaction(database, &tr), 0);
    return tr;
}

static fdb_error_t finish(FDBFuture *future) {
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

static void set(FDBTransaction *tr, const char *key, const char *value) {
    fdb_transaction_set(tr, (const uint8_t *)key, (int)strlen(key), (const uint8_t *)value, (int)strlen(value));
}

static FDBFuture *get(FDBTransaction *tr, const char *key) {
    return fdb_transaction_get(tr, (const uint8_t *)key, (int)strlen(key), 0);
}

/* Reads, and is patient with what a retry loop is patient with. */
static bool has(FDBDatabase *database, const char *key, const char *value) {
    FDBTransaction *tr = begin(database);
    for (;;) {
        FDBFuture *future = get(tr, key);
        fdb_bool_t present = 0;
        const uint8_t *data;
        int length;
        CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
        fdb_error_t error = fdb_future_get_value(future, &present, &data, &length);
        bool same = !error && present && length == (int)strlen(value) && memcmp(data, value, (size_t)length) == 0;
        fdb_future_destroy(future);
        if (error) {
            CHECK_EQUAL(finish(fdb_transaction_on_error(tr, error)), 0);
            continue;
        }
        fdb_transaction_destroy(tr);
        return same;
    }
}

static void put(FDBDatabase *database, const char *key, const char *value) {
    FDBTransaction *tr = begin(database);
    fdb_error_t error;
    do {
        set(tr, key, value);
        error = finish(fdb_transaction_commit(tr));
    } while (error && !finish(fdb_transaction_on_error(tr, error)));
    CHECK_EQUAL(error, 0);
    fdb_transaction_destroy(tr);
}

/* ---- Another process ---- */

struct other {
    pid_t process;
    int tell, hear;
};

/* Forks a process that runs `function` with a pipe each way. Before the library is used. */
static struct other start_other(void (*function)(int hear, int tell)) {
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    struct other other = {fork(), down[1], up[0]};
    if (other.process == 0) {
        close(down[1]);
        close(up[0]);
        function(down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    return other;
}

static void say(int descriptor) {
    CHECK_EQUAL(write(descriptor, "x", 1), 1);
}

static void await(int descriptor) {
    char byte;
    CHECK_EQUAL(read(descriptor, &byte, 1), 1);
}

static void end(struct other other, bool killed) {
    int status;
    if (killed)
        kill(other.process, SIGKILL);
    else
        say(other.tell);
    CHECK_EQUAL(waitpid(other.process, &status, 0), other.process);
    CHECK(killed ? WIFSIGNALED(status) : status == 0);
}

/* Owns the database until it is told to close it. */
static void own(int hear, int tell) {
    FDBDatabase *database = start();
    put(database, "k", "v");
    say(tell);
    await(hear);
    fdb_database_destroy(database);
}

static struct other start_owner(void) {
    struct other owner = start_other(own);
    await(owner.hear);
    return owner;
}

/* ---- Across processes ---- */

static void writes_and_reads_cross(void) {
    struct other owner = start_owner();
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    put(database, "k", "w");
    CHECK(has(database, "k", "w"));
    end(owner, false);
    CHECK(has(database, "k", "w")); /* we own it now */
    put(database, "k", "x");
    CHECK(has(database, "k", "x"));
    fdb_database_destroy(database);
}

/* Watches a key, then sends a read version; passes on a byte when the watch has fired. */
static void watch_for_other(int hear, int tell) {
    FDBDatabase *database = start();
    FDBTransaction *tr = begin(database);
    FDBFuture *watch = fdb_transaction_watch(tr, (const uint8_t *)"w", 1);
    CHECK_EQUAL(finish(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
    CHECK(!fdb_future_is_ready(watch));
    say(tell);
    CHECK_EQUAL(finish(watch), 0);
    CHECK(has(database, "w", "1"));
    say(tell);
    await(hear);
    fdb_database_destroy(database);
}

static void watches_cross(void) {
    struct other watcher = start_other(watch_for_other);
    await(watcher.hear); /* the watcher owns the database */
    struct other second = start_other(watch_for_other);
    await(second.hear); /* this one has joined */
    FDBDatabase *database = start();
    put(database, "w", "1");
    await(watcher.hear);
    await(second.hear);
    end(watcher, false);
    end(second, false);
    fdb_database_destroy(database);
}

/* Takes a read version from the pipe and reads at it. */
static void read_at_version(int hear, int tell) {
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    say(tell);
    int64_t version;
    CHECK_EQUAL(read(hear, &version, sizeof version), sizeof version);
    FDBTransaction *tr = begin(database);
    fdb_transaction_set_read_version(tr, version);
    FDBFuture *future = get(tr, "k");
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_bool_t present;
    const uint8_t *data;
    int length;
    CHECK_EQUAL(fdb_future_get_value(future, &present, &data, &length), 0);
    CHECK(present && length == 1 && *data == 'v'); /* not what was written since */
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    say(tell);
    await(hear);
    fdb_database_destroy(database);
}

static void read_versions_cross(void) {
    struct other owner = start_owner(), reader = start_other(read_at_version);
    await(reader.hear);
    FDBDatabase *database = start();
    FDBTransaction *tr = begin(database);
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    int64_t version;
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_int64(future, &version), 0);
    fdb_future_destroy(future);
    put(database, "k", "later");
    CHECK_EQUAL(write(reader.tell, &version, sizeof version), sizeof version);
    await(reader.hear);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    end(reader, false);
    end(owner, false);
}

/* ---- The owner goes ---- */

static void what_is_under_way_fails_as_it_should(void) {
    struct other owner = start_owner();
    FDBDatabase *database = start();
    FDBTransaction *used = begin(database), *fresh = begin(database);
    FDBTransaction *watching = begin(database);
    FDBFuture *watch = fdb_transaction_watch(watching, (const uint8_t *)"k", 1);
    CHECK_EQUAL(finish(fdb_transaction_commit(watching)), 0);
    CHECK_EQUAL(finish(get(used, "k")), 0);
    set(used, "k", "half");
    CHECK_EQUAL(finish(get(used, "k")), 0); /* the owner has it */
    end(owner, true);
    CHECK_EQUAL(finish(watch), 1007);
    fdb_error_t error = finish(fdb_transaction_commit(used));
    CHECK_EQUAL(error, 1007);
    CHECK_EQUAL(finish(get(used, "k")), 2017);
    fdb_transaction_reset(used);
    CHECK_EQUAL(finish(get(used, "k")), 0);
    CHECK_EQUAL(finish(get(fresh, "k")), 0); /* it had done nothing yet */
    CHECK(has(database, "k", "v"));
    fdb_transaction_destroy(used);
    fdb_transaction_destroy(fresh);
    fdb_transaction_destroy(watching);
    fdb_database_destroy(database);
}

static void callbacks_come_too(FDBFuture *future, void *count) {
    (void)future;
    __atomic_fetch_add((int *)count, 1, __ATOMIC_SEQ_CST);
}

static void answers_reach_callbacks(void) {
    enum { MANY = 200 };
    struct other owner = start_owner();
    FDBDatabase *database = start();
    FDBTransaction *tr = begin(database);
    FDBFuture *futures[MANY];
    int calls = 0;
    for (int i = 0; i < MANY; i++) {
        futures[i] = get(tr, "k");
        CHECK_EQUAL(fdb_future_set_callback(futures[i], callbacks_come_too, &calls), 0);
    }
    while (__atomic_load_n(&calls, __ATOMIC_SEQ_CST) < MANY)
        usleep(1000);
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(finish(futures[i]), 0);
    FDBFuture *forgotten = fdb_transaction_commit(tr); /* nobody waits, nobody asks */
    fdb_future_destroy(forgotten);
    fdb_transaction_reset(tr);
    set(tr, "k", "sent all the same");
    fdb_future_destroy(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    while (!has(database, "k", "sent all the same"))
        usleep(1000);
    fdb_database_destroy(database);
    end(owner, false);
}

/* A client whose next commit begins in the callback of the last. */
struct chain {
    FDBDatabase *database;
    FDBTransaction *tr;
    int number, commits;
    _Atomic bool *ended;
};

static void next_link(FDBFuture *future, void *context) {
    struct chain *chain = context;
    char key[40];
    if (future) {
        CHECK_EQUAL(fdb_future_get_error(future), 0);
        fdb_future_destroy(future);
        fdb_transaction_destroy(chain->tr);
    }
    if (chain->commits == 50) {
        fdb_database_destroy(chain->database); /* others' messages of this round may not have been sent yet */
        atomic_store(chain->ended, true);
        return;
    }
    chain->tr = begin(chain->database);
    snprintf(key, sizeof key, "chain %d, %d", chain->number, ++chain->commits);
    set(chain->tr, key, "committed");
    CHECK_EQUAL(fdb_future_set_callback(fdb_transaction_commit(chain->tr), next_link, chain), 0);
}

/* Commits that callbacks make go out together, and none stays behind: not even where the last use of a database is in a callback. */
static void callbacks_commit_on(void) {
    enum { CHAINS = 20 };
    struct other owner = start_owner();
    static struct chain chains[CHAINS];
    static _Atomic bool ended[CHAINS];
    FDBDatabase *database = start();
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (struct chain){open_path(), NULL, i, 0, &ended[i]};
        next_link(NULL, &chains[i]);
    }
    for (int i = 0; i < CHAINS; i++) {
        while (!atomic_load(&ended[i]))
            usleep(1000);
        char key[40];
        snprintf(key, sizeof key, "chain %d, 50", i);
        CHECK(has(database, key, "committed"));
    }
    fdb_database_destroy(database);
    end(owner, false);
}

/* ---- The owner stops ---- */

static void a_stopped_owner_is_noticed(void) {
    setenv("KEEL_OWNER_TIMEOUT", "2", 1);
    struct other owner = start_owner();
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    FDBTransaction *tr = begin(database), *limited = begin(database);
    kill(owner.process, SIGSTOP);
    CHECK_EQUAL(waitpid(owner.process, NULL, WUNTRACED), owner.process);
    int64_t limit_ms = 100;
    CHECK_EQUAL(fdb_transaction_set_option(limited, FDB_TR_OPTION_TIMEOUT, (const uint8_t *)&limit_ms, 8), 0);
    CHECK_EQUAL(finish(get(limited, "k")), 1031); /* its own limit is kept by this side */
    fdb_error_t error = finish(get(tr, "k"));
    CHECK(error == 1007 || error == OWNER_SILENT);
    FDBTransaction *later = begin(database);
    CHECK_EQUAL(finish(get(later, "k")), OWNER_SILENT); /* at once */
    CHECK(fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, OWNER_SILENT));
    set(later, "k", "unsaid");
    kill(owner.process, SIGCONT);
    CHECK_EQUAL(finish(fdb_transaction_on_error(later, OWNER_SILENT)), 0);
    CHECK(has(database, "k", "v")); /* it goes on, with a retry loop */
    fdb_transaction_destroy(later);
    fdb_transaction_destroy(tr);
    fdb_transaction_destroy(limited);
    fdb_database_destroy(database);
    end(owner, false);
}

/* ---- Forks ---- */

/* In a child: everything from before says so, nothing crashes, and it may open for itself. */
static void use_what_the_parent_opened(FDBDatabase *database, FDBTransaction *tr, FDBFuture *ready, FDBFuture *pending) {
    FDBTransaction *new_one = NULL;
    int64_t version;
    CHECK_EQUAL(fdb_database_create_transaction(database, &new_one), OPENED_BEFORE_FORK);
    CHECK_EQUAL(finish(get(tr, "k")), OPENED_BEFORE_FORK);
    set(tr, "k", "never");
    CHECK_EQUAL(finish(fdb_transaction_commit(tr)), OPENED_BEFORE_FORK);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), OPENED_BEFORE_FORK);
    CHECK_EQUAL(fdb_transaction_set_option(tr, FDB_TR_OPTION_RAW_ACCESS, NULL, 0), OPENED_BEFORE_FORK);
    CHECK_EQUAL(fdb_transaction_get_committed_version(tr, &version), OPENED_BEFORE_FORK);
    fdb_transaction_reset(tr);
    fdb_transaction_cancel(tr);
    CHECK_EQUAL(finish(ready), 0);
    CHECK(fdb_future_is_ready(pending));
    CHECK_EQUAL(finish(pending), OPENED_BEFORE_FORK);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
#ifndef __SANITIZE_THREAD__ /* which does not allow threads behind a fork */
    pthread_t thread;
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, run_network, NULL), 0);
    FDBDatabase *own_one = open_path();
    CHECK(has(own_one, "k", "v"));
    put(own_one, "from the child", "1");
    fdb_database_destroy(own_one);
    CHECK_EQUAL(fdb_stop_network(), 0);
    pthread_join(thread, NULL);
#endif
}

static void fork_with(FDBDatabase *database) {
    FDBTransaction *tr = begin(database);
    FDBFuture *ready = get(tr, "k");
    CHECK_EQUAL(fdb_future_block_until_ready(ready), 0);
    FDBTransaction *watching = begin(database);
    FDBFuture *pending = fdb_transaction_watch(watching, (const uint8_t *)"k", 1);
    CHECK_EQUAL(finish(fdb_transaction_commit(watching)), 0);
    pid_t child = fork();
    if (child == 0) {
        use_what_the_parent_opened(database, tr, ready, pending);
        _exit(0);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
#ifndef __SANITIZE_THREAD__
    CHECK(has(database, "from the child", "1"));
#endif
    CHECK(!fdb_future_is_ready(pending));
    put(database, "k", "w");
    CHECK_EQUAL(finish(pending), 0);
    fdb_future_destroy(ready);
    fdb_transaction_destroy(tr);
    fdb_transaction_destroy(watching);
    fdb_database_destroy(database);
}

static void a_fork_of_the_owner(void) {
    FDBDatabase *database = start();
    put(database, "k", "v");
    fork_with(database);
}

static void a_fork_of_one_that_joined(void) {
    struct other owner = start_owner();
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    fork_with(database);
    end(owner, false);
}

/* A child that only lives on must not keep the database from others: neither its lock nor its socket. */
static void own_and_leave_a_child(int hear, int tell) {
    FDBDatabase *database = start();
    put(database, "k", "v");
    if (fork() == 0) {
        await(hear); /* until everybody is gone */
        _exit(0);
    }
    say(tell);
    for (;;)
        pause();
}

static void a_child_keeps_nothing_alive(void) {
    struct other owner = start_other(own_and_leave_a_child);
    await(owner.hear);
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    end(owner, true);
    CHECK(has(database, "k", "v"));
    put(database, "k", "w");
    CHECK(has(database, "k", "w"));
    say(owner.tell);
    fdb_database_destroy(database);
}

/* ---- As many as can be ---- */

/* A connection has numbers for so many transactions; who wants more is told, and nobody is cut off. */
static void transactions_run_out(void) {
    enum { MOST = 65536, LARGE_ALLOC_FAILED = 1501 };
    static FDBTransaction *all[MOST];
    struct other owner = start_owner();
    FDBDatabase *database = start();
    FDBTransaction *one_more = NULL;
    for (int i = 0; i < MOST; i++)
        all[i] = begin(database);
    CHECK_EQUAL(finish(get(all[0], "k")), 0);
    CHECK_EQUAL(finish(get(all[MOST - 1], "k")), 0);
    CHECK_EQUAL(fdb_database_create_transaction(database, &one_more), LARGE_ALLOC_FAILED);
    CHECK(!one_more);
    fdb_transaction_destroy(all[7]);
    all[7] = begin(database);
    CHECK_EQUAL(finish(get(all[7], "k")), 0);
    for (int i = 0; i < MOST; i++)
        fdb_transaction_destroy(all[i]);
    CHECK(has(database, "k", "v"));
    fdb_database_destroy(database);
    end(owner, false);
}

/* ---- The socket ---- */

static void strangers_are_shown_the_door(void) {
    struct other owner = start_owner();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    char name[500];
    snprintf(name, sizeof name, "%s/keel.sock", path);
    CHECK_EQUAL(stat(name, &status), 0);
    CHECK_EQUAL(status.st_mode & 0777, 0600);
    CHECK(strlen(name) < sizeof address.sun_path);
    strcpy(address.sun_path, name);
    static const char nonsense[][16] = {"", "GET / HTTP/1.0\r", "\1\0\0\0\0\0\0\0\1", "\377\377\377\377\377\377\377\377"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        int stranger = socket(AF_UNIX, SOCK_STREAM, 0);
        char answer[16];
        CHECK_EQUAL(connect(stranger, (struct sockaddr *)&address, sizeof address), 0);
        CHECK_EQUAL(write(stranger, nonsense[i], sizeof nonsense[i]), sizeof nonsense[i]);
        CHECK_EQUAL(read(stranger, answer, sizeof answer), 0); /* closed */
        close(stranger);
    }
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v")); /* and the others never noticed */
    fdb_database_destroy(database);
    end(owner, false);
}

/* One who may open the files, and is not who opened them. Needs root, to become somebody else. */
static void another_user_is_told_so(void) {
    enum { DATABASE_IN_USE = 20001, NOBODY = 65534 };
    char command[1000];
    if (geteuid() != 0)
        return;
    struct other owner = start_owner();
    snprintf(command, sizeof command, "chmod a+rx '%s' && chmod -R a+rwX '%s'", scratch, path);
    CHECK_EQUAL(system(command), 0);
    CHECK_EQUAL(setgid(NOBODY), 0);
    CHECK_EQUAL(setuid(NOBODY), 0);
    if (access(path, R_OK | W_OK | X_OK) != 0) { /* the scratch directory is in a place that is closed to others */
        end(owner, false);
        return;
    }
    FDBDatabase *database = start();
    FDBTransaction *tr = begin(database);
    CHECK_EQUAL(finish(get(tr, "k")), DATABASE_IN_USE);
    CHECK(!fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, DATABASE_IN_USE));
    CHECK(strstr(fdb_get_error(DATABASE_IN_USE), "in use") && strstr(fdb_get_error(DATABASE_IN_USE), "cannot be joined"));
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    end(owner, false);
}

static void long_paths_are_no_obstacle(void) {
    size_t length = strlen(path);
    while (length < sizeof path - 40) {
        memcpy(path + length, "/a-rather-long-name-of-a-directory", 35);
        length += 34;
    }
    struct other owner = start_owner();
    FDBDatabase *database = start();
    CHECK(has(database, "k", "v"));
    fdb_database_destroy(database);
    end(owner, false);
}

/* ---- All of them ---- */

static const struct {
    const char *name;
    void (*run)(void);
} TESTS[] = {
    {"writes and reads cross", writes_and_reads_cross},
    {"watches cross", watches_cross},
    {"read versions cross", read_versions_cross},
    {"what is under way fails as it should", what_is_under_way_fails_as_it_should},
    {"answers reach callbacks", answers_reach_callbacks},
    {"callbacks commit on", callbacks_commit_on},
    {"a stopped owner is noticed", a_stopped_owner_is_noticed},
    {"a fork of the owner", a_fork_of_the_owner},
    {"a fork of one that joined", a_fork_of_one_that_joined},
    {"a child keeps nothing alive", a_child_keeps_nothing_alive},
    {"transactions run out", transactions_run_out},
    {"strangers are shown the door", strangers_are_shown_the_door},
    {"another user is told so", another_user_is_told_so},
    {"long paths are no obstacle", long_paths_are_no_obstacle},
};

/* Each in a process of its own, with a scratch directory of its own. */
static bool run(size_t index) {
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/joined-XXXXXX", parent && *parent && strlen(parent) < 60 ? parent : "/tmp");
    CHECK(mkdtemp(scratch));
    snprintf(path, sizeof path, "%s/db", scratch);
    pid_t child = fork();
    if (child == 0) {
        alarm(300);                             /* for one that hangs */
        setenv("KEEL_OWNER_TIMEOUT", "100", 1); /* for those about something else */
        setenv("KEEL_LIFETIME_MS", "300000", 1);
        TESTS[index].run();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        fprintf(stderr, "%s is left behind\n", scratch);
    if (status != 0)
        printf("status %x: ", (unsigned)status);
    return status == 0;
}

int main(int count, char **arguments) {
    int passed = 0, failed = 0;
    setbuf(stdout, NULL);
    for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
        if (count > 1 && strcmp(arguments[1], TESTS[i].name) != 0)
            continue;
        bool good = run(i);
        printf("%s %s\n", good ? "ok   " : "FAIL ", TESTS[i].name);
        *(good ? &passed : &failed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
