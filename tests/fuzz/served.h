/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzz_protocol.c and fuzz_answers.c share: chance by seed, a process that owns a database, and
 * an honest client that says whether it is served well.
 */
#ifndef KEEL_TESTS_FUZZ_SERVED_H
#define KEEL_TESTS_FUZZ_SERVED_H

#include <foundationdb/fdb_c.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (KEEL_SEED=%llu, round %ld)\n", __FILE__, __LINE__,         \
                    #condition, (unsigned long long)first_seed, current_round);                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum { ROWS = 50, LARGE_BYTES = 90000 };

static unsigned long long first_seed = 1;
static long current_round = -1;
static uint64_t chance_state;
static char scratch[300], path[400];

static inline uint32_t chance(uint32_t below) {
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return (uint32_t)(chance_state >> 20) % below;
}

static inline void seed_round(long round) {
    current_round = round;
    chance_state = (first_seed + (uint64_t)round) * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < 4; i++)
        (void)chance(1);
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void make_scratch(void) {
    const char *parent = getenv("TMPDIR"), *seed = getenv("KEEL_SEED");
    if (seed)
        first_seed = strtoull(seed, NULL, 10);
    snprintf(scratch, sizeof scratch, "%s/fuzz-XXXXXX", parent && *parent && strlen(parent) < 60 ? parent : "/tmp");
    CHECK(mkdtemp(scratch));
    snprintf(path, sizeof path, "%s/db", scratch);
}

static inline void remove_scratch(void) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        fprintf(stderr, "%s is left behind\n", scratch);
}

/* A socket connected to, or listening on, a name in the database's directory; -1. */
static inline int socket_in(const char *name, bool listens) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", path, name) < (int)sizeof address.sun_path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(descriptor >= 0);
    int result = listens ? bind(descriptor, (struct sockaddr *)&address, sizeof address)
                         : connect(descriptor, (struct sockaddr *)&address, sizeof address);
    if (result == 0 && (!listens || listen(descriptor, 64) == 0))
        return descriptor;
    close(descriptor);
    return -1;
}

/* ---- Processes: told by a byte what to do, and answering with one ---- */

struct process {
    pid_t id;
    int tell, hear;
};

static inline struct process start_process(void (*function)(int hear, int tell)) {
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    fflush(NULL);
    struct process process = {fork(), down[1], up[0]};
    CHECK(process.id >= 0);
    if (process.id == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(down[1]);
        close(up[0]);
        function(down[0], up[1]);
        exit(0); /* a sanitizer looks for leaks here */
    }
    close(down[0]);
    close(up[1]);
    return process;
}

static inline bool hear(int descriptor, char *byte) {
    return read(descriptor, byte, 1) == 1;
}

/* Tells and waits for the answer; how long that took. */
static inline double ask(struct process process, char byte) {
    char answer = 0;
    double start = seconds();
    CHECK(write(process.tell, &byte, 1) == 1);
    CHECK(hear(process.hear, &answer) && answer == byte);
    return seconds() - start;
}

static inline void end_process(struct process process) {
    int status = 1;
    close(process.tell);
    CHECK(waitpid(process.id, &status, 0) == process.id);
    close(process.hear);
    CHECK(status == 0);
}

/* ---- A database ---- */

static inline void *run_network(void *unused) {
    (void)fdb_run_network();
    return unused;
}

static pthread_t network;

static inline FDBDatabase *open_path(void) {
    FDBDatabase *database;
    CHECK(fdb_select_api_version(FDB_API_VERSION) == 0 && fdb_setup_network() == 0);
    CHECK(pthread_create(&network, NULL, run_network, NULL) == 0);
    CHECK(fdb_create_database(path, &database) == 0);
    return database;
}

static inline void close_path(FDBDatabase *database) {
    fdb_database_destroy(database);
    CHECK(fdb_stop_network() == 0 && pthread_join(network, NULL) == 0);
}

static inline fdb_error_t finish(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

static inline void set_rows(FDBTransaction *tr, int generation) {
    for (int i = 0; i < ROWS; i++) {
        char key[32], value[32];
        int key_length = snprintf(key, sizeof key, "honest/%02d", i);
        int value_length = snprintf(value, sizeof value, "%d of %d", i, generation);
        fdb_transaction_set(tr, (uint8_t *)key, key_length, (uint8_t *)value, value_length);
    }
}

static inline fdb_error_t check_row(FDBTransaction *tr, int row, int generation) {
    char key[32], value[32];
    int key_length = snprintf(key, sizeof key, "honest/%02d", row);
    int value_length = snprintf(value, sizeof value, "%d of %d", row, generation), length = 0;
    const uint8_t *found;
    fdb_bool_t present = 0;
    FDBFuture *future = fdb_transaction_get(tr, (uint8_t *)key, key_length, 0);
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &found, &length);
    if (!error)
        CHECK(present && length == value_length && memcmp(found, value, (size_t)length) == 0);
    fdb_future_destroy(future);
    return error;
}

/* Reads the rows as of a commit: what others wrote since does not matter. */
static inline fdb_error_t check_rows(FDBTransaction *tr, int64_t version, int generation) {
    fdb_error_t error = 0;
    fdb_transaction_set_read_version(tr, version);
    for (int i = 0; i < ROWS && !error; i++)
        error = check_row(tr, i, generation);
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"honest/", 7),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"honest0", 7), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t more;
    if (!error)
        error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    if (!error)
        CHECK(count == ROWS && !more);
    fdb_future_destroy(future);
    return error;
}

/* Writes rows, reads them back, and lets nothing pass but errors that retry loops know. */
static inline void be_served(FDBDatabase *database, int generation) {
    FDBTransaction *tr;
    CHECK(fdb_database_create_transaction(database, &tr) == 0);
    fdb_error_t error;
    do {
        int64_t version = 0;
        set_rows(tr, generation);
        error = finish(fdb_transaction_commit(tr));
        if (!error)
            CHECK(fdb_transaction_get_committed_version(tr, &version) == 0);
        if (!error) {
            fdb_transaction_reset(tr);
            error = check_rows(tr, version, generation);
        }
        if (error)
            CHECK(finish(fdb_transaction_on_error(tr, error)) == 0);
    } while (error);
    fdb_transaction_destroy(tr);
}

/* Owns the database until it is told no more. */
static inline void own(int hear_from, int tell) {
    FDBDatabase *database = open_path();
    char byte;
    be_served(database, 0);
    while (hear(hear_from, &byte))
        CHECK(write(tell, &byte, 1) == 1);
    close_path(database);
}

/* The honest client: asked for it, it is served once more. */
static inline void be_honest(int hear_from, int tell) {
    FDBDatabase *database = open_path();
    char byte;
    for (int generation = 1; hear(hear_from, &byte); generation++) {
        be_served(database, generation);
        CHECK(write(tell, &byte, 1) == 1);
    }
    close_path(database);
}

#endif
