/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 under load: every acknowledged commit is there afterwards, and no transaction is there in part.
 *
 *   crash DIRECTORY [ROUNDS] [SEED]     runs rounds of: start a worker, kill it at a random moment, verify what it left
 *   crash worker DIRECTORY              (internal) commits until killed, telling its parent each acknowledgement
 *   crash verify DIRECTORY              (internal) reads the state and prints it
 *
 * Each of THREADS threads has COPIES keys that one transaction sets to the same number, a range it clears and refills with the same number, and a
 * counter raised by one atomically. After a kill the copies must agree (no part), equal the counter (each commit once), and be at or above the
 * last number whose commit was acknowledged before the kill (nothing lost) and at or below the last one attempted.
 */
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, COPIES = 6, VALUE_BYTES = 300 };

struct message {
    int32_t thread;
    int32_t acknowledged; /* 0: about to commit, 1: acknowledged */
    int64_t number;
};

static FDBDatabase *database;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "crash: %s: %s (%d)\n", what, fdb_get_error(error), error);
        _exit(3);
    }
}

static fdb_error_t wait_for(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_error(future);
    return error;
}

static fdb_error_t finish(FDBFuture *future) {
    fdb_error_t error = wait_for(future);
    fdb_future_destroy(future);
    return error;
}

static void *run_network(void *unused) {
    (void)unused;
    check(fdb_run_network(), "run network");
    return NULL;
}

static void open_database(const char *path) {
    check(fdb_select_api_version(FDB_API_VERSION), "select API version");
    check(fdb_setup_network(), "set up network");
    pthread_t network;
    pthread_create(&network, NULL, run_network, NULL);
    pthread_detach(network);
    check(fdb_create_database(path, &database), "open");
}

static int key_of(char *buffer, int thread, const char *kind, int copy) {
    return sprintf(buffer, "%c/%d/%s/%d", 'a' + copy % 3, thread, kind, copy); /* copies lie far apart */
}

static void set_number(FDBTransaction *tr, const char *key, int length, int64_t number) {
    uint8_t value[VALUE_BYTES];
    memset(value, (int)(number & 0xff), sizeof value);
    memcpy(value, &number, 8);
    fdb_transaction_set(tr, (const uint8_t *)key, length, value, 8 + (int)((uint64_t)number * 37 % (VALUE_BYTES - 8)));
}

static void write_all(FDBTransaction *tr, int thread, int64_t number) {
    char key[64], end[64];
    for (int copy = 0; copy < COPIES; copy++)
        set_number(tr, key, key_of(key, thread, "copy", copy), number);
    int length = sprintf(key, "range/%d/", thread), end_length = sprintf(end, "range/%d0", thread);
    fdb_transaction_clear_range(tr, (uint8_t *)key, length, (uint8_t *)end, end_length);
    for (int i = 0; i < 3; i++)
        set_number(tr, key, sprintf(key, "range/%d/%" PRId64 "/%d", thread, number % 7, i), number);
    int64_t one = 1;
    fdb_transaction_atomic_op(tr, (uint8_t *)key, sprintf(key, "counter/%d", thread), (uint8_t *)&one, 8,
                              FDB_MUTATION_TYPE_ADD);
}

static int64_t read_number(FDBTransaction *tr, const char *key, int length) {
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)key, length, 0);
    check(wait_for(future), "get");
    fdb_bool_t present;
    const uint8_t *value;
    int value_length;
    check(fdb_future_get_value(future, &present, &value, &value_length), "value");
    int64_t number = 0;
    if (present && value_length >= 8)
        memcpy(&number, value, 8);
    fdb_future_destroy(future);
    return number;
}

static int tell_descriptor;

static void tell(int thread, int acknowledged, int64_t number) {
    struct message message = {thread, acknowledged, number};
    if (write(tell_descriptor, &message, sizeof message) != sizeof message)
        _exit(4);
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument;
    FDBTransaction *tr;
    check(fdb_database_create_transaction(database, &tr), "create transaction");
    char key[64];
    int64_t number = read_number(tr, key, key_of(key, thread, "copy", 0));
    for (;;) {
        fdb_transaction_reset(tr);
        number++;
        write_all(tr, thread, number);
        tell(thread, 0, number);
        check(finish(fdb_transaction_commit(tr)), "commit");
        tell(thread, 1, number);
    }
    return NULL;
}

static int worker(const char *path) {
    tell_descriptor = 3;
    open_database(path);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    pause();
    return 0;
}

/* Prints one line a thread: its number, or why its state is impossible. */
static int verify_all(FDBTransaction *tr) {
    for (int thread = 0; thread < THREADS; thread++) {
        char key[64], end[64];
        int64_t number = read_number(tr, key, key_of(key, thread, "copy", 0));
        for (int copy = 1; copy < COPIES; copy++) {
            int64_t other = read_number(tr, key, key_of(key, thread, "copy", copy));
            if (other != number) {
                printf("torn: thread %d copy %d is %" PRId64 ", copy 0 is %" PRId64 "\n", thread, copy, other, number);
                return 1;
            }
        }
        int64_t counter = read_number(tr, key, sprintf(key, "counter/%d", thread));
        if (counter != number) {
            printf("torn: thread %d counter %" PRId64 ", copies %" PRId64 "\n", thread, counter, number);
            return 1;
        }
        int length = sprintf(key, "range/%d/", thread), end_length = sprintf(end, "range/%d0", thread);
        FDBFuture *future = fdb_transaction_get_range(
            tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((uint8_t *)key, length),
            FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((uint8_t *)end, end_length), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
        check(wait_for(future), "range");
        const FDBKeyValue *rows;
        int count;
        fdb_bool_t more;
        check(fdb_future_get_keyvalue_array(future, &rows, &count, &more), "rows");
        if (number > 0 && count != 3) {
            printf("torn: thread %d has %d rows in its range\n", thread, count);
            return 1;
        }
        for (int i = 0; i < count; i++) {
            int64_t other;
            memcpy(&other, rows[i].value, 8);
            if (other != number) {
                printf("torn: thread %d row %d is %" PRId64 ", copies %" PRId64 "\n", thread, i, other, number);
                return 1;
            }
        }
        fdb_future_destroy(future);
        printf("%" PRId64 "\n", number);
    }
    printf("end\n");
    return 0;
}

static int verify(const char *path) {
    open_database(path);
    FDBTransaction *tr;
    check(fdb_database_create_transaction(database, &tr), "create transaction");
    int result = verify_all(tr);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    return result;
}

static const char *self;

static pid_t start(const char *mode, const char *path, int output_as, int descriptors[2]) {
    if (pipe(descriptors))
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(descriptors[1], output_as);
        for (int i = 4; i < 20; i++)
            close(i);
        execl(self, self, mode, path, (char *)NULL);
        _exit(127);
    }
    close(descriptors[1]);
    return child;
}

/* Runs a worker for a while and kills it; what it told stays in the arrays. */
static int kill_a_worker(const char *path, int64_t acknowledged[THREADS], int64_t attempted[THREADS], int milliseconds) {
    int descriptors[2];
    pid_t child = start("worker", path, 3, descriptors);
    pid_t killer = fork();
    if (killer == 0) {
        struct timespec pause_time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
        nanosleep(&pause_time, NULL);
        kill(child, SIGKILL);
        _exit(0);
    }
    struct message message;
    FILE *stream = fdopen(descriptors[0], "r");
    while (fread(&message, sizeof message, 1, stream) == 1) {
        if (message.acknowledged)
            acknowledged[message.thread] = message.number;
        else
            attempted[message.thread] = message.number;
    }
    fclose(stream);
    int status, unused;
    waitpid(child, &status, 0);
    waitpid(killer, &unused, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        printf("the worker ended by itself, status %d\n", status);
        return 0;
    }
    return 1;
}

static int verify_round(const char *path, int64_t acknowledged[THREADS], int64_t attempted[THREADS]) {
    int descriptors[2], status, good = 1;
    pid_t child = start("verify", path, 1, descriptors);
    FILE *stream = fdopen(descriptors[0], "r");
    char line[200] = "";
    for (int thread = 0; thread < THREADS && fgets(line, sizeof line, stream); thread++) {
        char *end;
        int64_t number = strtoll(line, &end, 10);
        if (*end != '\n') {
            printf("%s", line);
            good = 0;
            break;
        }
        if (number < acknowledged[thread] || number > attempted[thread]) {
            printf("lost: thread %d has %" PRId64 ", acknowledged %" PRId64 ", attempted %" PRId64 "\n", thread, number,
                   acknowledged[thread], attempted[thread]);
            good = 0;
        }
        acknowledged[thread] = attempted[thread] = number;
    }
    int ended = good && fgets(line, sizeof line, stream) && strcmp(line, "end\n") == 0;
    fclose(stream);
    waitpid(child, &status, 0);
    if (good && !ended)
        printf("the verifier gave no answer, status %d\n", status);
    return good && ended;
}

int main(int argc, char **argv) {
    self = "/proc/self/exe";
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return worker(argv[2]);
    if (argc == 3 && strcmp(argv[1], "verify") == 0)
        return verify(argv[2]);
    if (argc < 2) {
        fprintf(stderr, "usage: crash DIRECTORY [ROUNDS] [SEED]\n");
        return 2;
    }
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    int64_t acknowledged[THREADS] = {0}, attempted[THREADS] = {0}, commits = 0;
    int passed = 0, failed = 0;
    /* Small and short-lived, so that kills also meet checkpoints, rotations and recycled segments. */
    setenv("KEEL_LIFETIME_MS", "100", 0);
    setenv("KEEL_SEGMENT_BYTES", "131072", 0);
    for (int round = 0; round < rounds; round++) {
        int64_t before = acknowledged[0];
        int milliseconds = 20 + (int)(rand_r(&seed) % 600);
        if (kill_a_worker(argv[1], acknowledged, attempted, milliseconds) &&
            verify_round(argv[1], acknowledged, attempted))
            passed++;
        else {
            printf("round %d failed; directory kept: %s\n", round, argv[1]);
            failed++;
            break;
        }
        commits += acknowledged[0] - before;
    }
    printf("%" PRId64 " commits a thread survived %d kills\n", commits, passed);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
