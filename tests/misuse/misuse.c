/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public API in the hands of a hostile or careless user. What is expected is always the
 * documented error, never an abort, a hang, a leak or a damaged database.
 *
 *     misuse [part of a name ...]     runs all cases, or those whose names contain a part
 *
 * This process never touches the library: each case runs in a child forked before any network
 * exists. The last line counts.
 */
#define _GNU_SOURCE
#include "misuse.h"

#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { CASE_SECONDS = 300 };

static char scratch_directory[512];
static const char *case_name = "?";

/* ---- Within a case ---- */

_Noreturn void fail_at(const char *file, int line, const char *what, long long found,
                       long long expected) {
    fprintf(stderr, "%s: %s:%d: %s is %lld, expected %lld\n", case_name, file, line, what, found,
            expected);
    _exit(1);
}

bool is_checked_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
#endif
}

int rounds(int usual) {
    return is_checked_memory() ? usual / 10 + 1 : usual;
}

static pthread_t network_thread;

static void *network_main(void *unused) {
    CHECK_EQUAL(fdb_run_network(), 0);
    return unused;
}

void network_set_up(void) {
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
}

void network_run(void) {
    CHECK_EQUAL(pthread_create(&network_thread, NULL, network_main, NULL), 0);
}

void network_start(void) {
    network_set_up();
    network_run();
}

void network_stop(void) {
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(pthread_join(network_thread, NULL), 0);
}

FDBDatabase *database_open(const char *path) {
    FDBDatabase *database = NULL;
    CHECK_EQUAL(fdb_create_database(path, &database), 0);
    CHECK(database);
    return database;
}

FDBTransaction *transaction_begin(FDBDatabase *database) {
    FDBTransaction *tr = NULL;
    CHECK_EQUAL(fdb_database_create_transaction(database, &tr), 0);
    CHECK(tr);
    return tr;
}

const char *scratch_path(const char *name) {
    static _Thread_local char paths[4][1024];
    static _Thread_local int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_directory, name);
    return path;
}

fdb_error_t finish(FDBFuture *future) {
    CHECK(future);
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

fdb_error_t commit(FDBTransaction *tr) {
    return finish(fdb_transaction_commit(tr));
}

void set_text(FDBTransaction *tr, const char *key, const char *value) {
    fdb_transaction_set(tr, KEY(key), KEY(value));
}

bool has_text(FDBDatabase *database, const char *key, const char *value) {
    FDBTransaction *tr = transaction_begin(database);
    FDBFuture *future = fdb_transaction_get(tr, KEY(key), 0);
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int length = 0;
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    if (fdb_future_get_error(future) == 1007) { /* the owner has just gone: once more, as a retry loop would */
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1007)), 0);
        fdb_future_destroy(future);
        future = fdb_transaction_get(tr, KEY(key), 0);
        CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    }
    CHECK_EQUAL(fdb_future_get_value(future, &present, &data, &length), 0);
    bool same = present && length == (int)strlen(value) && memcmp(data, value, strlen(value)) == 0;
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    return same;
}

const uint8_t *option_number(int64_t number) {
    static _Thread_local uint8_t bytes[8];
    memcpy(bytes, &number, sizeof bytes);
    return bytes;
}

void set_transaction_number(FDBTransaction *tr, FDBTransactionOption option, int64_t number) {
    CHECK_EQUAL(fdb_transaction_set_option(tr, option, option_number(number), 8), 0);
}

/* ---- The run ---- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    (void)chmod(path, 0700);
    return remove(path);
}

static int open_up(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)place;
    if (type == FTW_D || type == FTW_DNR)
        (void)chmod(path, 0700);
    return 0;
}

static void remove_tree(const char *path) {
    (void)nftw(path, open_up, 16, FTW_PHYS);
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static bool report(const struct misuse_case *test, int status, double seconds) {
    bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%-58s %s", test->name, passed ? "ok" : "FAILED");
    if (WIFSIGNALED(status))
        printf(" (%s)", WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
    else if (!passed)
        printf(" (exit %d)", WEXITSTATUS(status));
    if (seconds > 1)
        printf(" %.1f s", seconds);
    putchar('\n');
    return passed;
}

static bool run_case(const struct misuse_case *test) {
    const char *parent = getenv("TMPDIR");
    snprintf(scratch_directory, sizeof scratch_directory, "%.400s/misuse-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(scratch_directory))
        return false;
    fflush(NULL);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pid_t child = fork();
    if (child == 0) {
        case_name = test->name;
        alarm(CASE_SECONDS); /* for one that hangs */
        test->run();
        exit(0);
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    remove_tree(scratch_directory);
    return report(test, status,
                  (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
}

static bool is_wanted(const char *name, int count, char **parts) {
    for (int i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return true;
    return count == 0;
}

int main(int argc, char **argv) {
    const struct misuse_case *const tables[] = {argument_cases, range_cases,   object_cases,
                                                thread_cases,   network_cases, place_cases};
    int passed = 0, failed = 0;
    unsetenv("FDB_CLUSTER_FILE");
    unsetenv("KEEL_LOG");
    setenv("KEEL_FDB_LIBRARY", "/nowhere/libfdb_c.so", 1); /* whatever is installed */
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct misuse_case *test = tables[i]; test->name; test++) {
            if (!is_wanted(test->name, argc - 1, argv + 1))
                continue;
            bool ok = run_case(test);
            passed += ok;
            failed += !ok;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
