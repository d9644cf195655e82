/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a database costs that another process owns, beside Redis and beside the same calls in-process, in one run.
 *
 *   bench-remote DIRECTORY [ROWS]
 *
 * Three processes: an owner of the database, redis-server on a Unix socket without persistence, and this one, which asks both by
 * the same loops. The two sides of a comparison take turns in short rounds, so that a noisy machine disturbs both alike; the
 * figure to look at is the ratio.
 */
#define _GNU_SOURCE
#include "bench_rows.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { DEPTH = 16, GETS_A_ROUND = 1000, PIPELINED_A_ROUND = 8000, ROUNDS = 15 };

static char directory[80], redis_path[100], database_path[100];
static int redis;

static void open_database(void) {
    (void)start_network();
    check(fdb_create_database(database_path, &database), "open");
}

/* --- Redis: just enough of its protocol --- */

static pid_t start_redis(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* whatever becomes of this process */
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", redis_path, "--save", "", "--appendonly", "no", "--dir", directory,
               "--logfile", "redis.log", (char *)NULL);
        _exit(127);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, redis_path);
    redis = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 1000; i++, usleep(10000))
        if (connect(redis, (struct sockaddr *)&address, sizeof address) == 0)
            return child;
    check(-1, "redis-server does not start");
    return 0;
}

static void redis_send(const char *data, size_t length) {
    check(send(redis, data, length, 0) != (ssize_t)length ? -1 : 0, "redis send");
}

static void redis_receive(char *data, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t more = recv(redis, data + got, length - got, 0);
        check(more <= 0 ? -1 : 0, "redis receive");
        got += (size_t)more;
    }
}

static size_t redis_get(char *to, long row) {
    memcpy(to, "*2\r\n$3\r\nGET\r\n$16\r\n", 18);
    make_key((uint8_t *)to + 18, row);
    memcpy(to + 18 + KEY_BYTES, "\r\n", 2);
    return 20 + KEY_BYTES;
}

enum { REDIS_ANSWER_BYTES = 6 + VALUE_BYTES + 2 }; /* "$100\r\n" value "\r\n" */

static void redis_load(void) {
    enum { BATCH = 500, SET_BYTES = 160 };
    static char text[BATCH * SET_BYTES], answers[BATCH * 5];
    for (long row = 0; row < row_count;) {
        size_t length = 0, count = 0;
        for (; count < BATCH && row < row_count; count++, row++) {
            length += (size_t)sprintf(text + length, "*3\r\n$3\r\nSET\r\n$16\r\n");
            make_key((uint8_t *)text + length, row);
            length += KEY_BYTES;
            length += (size_t)sprintf(text + length, "\r\n$100\r\n");
            memset(text + length, 'v', VALUE_BYTES);
            memcpy(text + length + VALUE_BYTES, "\r\n", 2);
            length += VALUE_BYTES + 2;
        }
        redis_send(text, length);
        redis_receive(answers, count * 5); /* "+OK\r\n" */
    }
}

static void redis_gets(uint64_t *random, int count, int depth) {
    char question[DEPTH * (20 + KEY_BYTES)], answer[DEPTH * REDIS_ANSWER_BYTES];
    for (int done = 0; done < count; done += depth) {
        size_t length = 0;
        for (int i = 0; i < depth; i++)
            length += redis_get(question + length, any_row(random, row_count));
        redis_send(question, length);
        redis_receive(answer, (size_t)depth * REDIS_ANSWER_BYTES);
        check(answer[6] == 'v' ? 0 : -1, "wrong value from redis");
    }
}

/* --- Reads --- */

static void take_value(FDBFuture *future) {
    fdb_bool_t present;
    const uint8_t *value;
    int length;
    check(fdb_future_block_until_ready(future), "get");
    check(fdb_future_get_value(future, &present, &value, &length), "get");
    check(present && length == VALUE_BYTES && value[50] == 'v' ? 0 : -1, "wrong value");
    fdb_future_destroy(future);
}

static void keel_gets(uint64_t *random, int count, int depth) {
    FDBTransaction *tr = begin();
    for (int done = 0; done < count; done += depth) {
        FDBFuture *futures[DEPTH];
        uint8_t key[KEY_BYTES];
        for (int i = 0; i < depth; i++) {
            make_key(key, any_row(random, row_count));
            futures[i] = fdb_transaction_get(tr, key, KEY_BYTES, 0);
        }
        for (int i = 0; i < depth; i++)
            take_value(futures[i]);
        if (done % 1024 == 0)
            fdb_transaction_reset(tr);
    }
    fdb_transaction_destroy(tr);
}

static int by_size(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Seconds a get, of the middle round. */
static double middle(double times[ROUNDS]) {
    qsort(times, ROUNDS, sizeof *times, by_size);
    return times[ROUNDS / 2];
}

static void compare_gets(int count, int depth, double *keel, double *other) {
    double keel_times[ROUNDS], redis_times[ROUNDS];
    uint64_t random = 88172645463325252ull;
    for (int round = -1; round < ROUNDS; round++) { /* the first warms up */
        double start = now();
        keel_gets(&random, count, depth);
        double between = now();
        redis_gets(&random, count, depth);
        if (round >= 0) {
            keel_times[round] = (between - start) / count;
            redis_times[round] = (now() - between) / count;
        }
    }
    *keel = middle(keel_times);
    *other = middle(redis_times);
}

/* --- The owner --- */

static int tell_owner, hear_owner;

static void own(int hear, int tell) {
    char what;
    open_database();
    load_rows();
    double rate = 0;
    while (write(tell, &rate, sizeof rate) == sizeof rate && read(hear, &what, 1) == 1)
        rate = what == 't' ? threads_rate() : callbacks_rate();
    fdb_database_destroy(database);
}

/* Lets the owner do what this process does itself otherwise; 0 at first, when it is ready. */
static double ask_owner(char what) {
    double rate;
    if (what)
        check(write(tell_owner, &what, 1) == 1 ? 0 : -1, "owner");
    check(read(hear_owner, &rate, sizeof rate) == sizeof rate ? 0 : -1, "owner");
    return rate;
}

static pid_t start_owner(void) {
    int down[2], up[2];
    check(pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC) ? -1 : 0, "pipe"); /* redis-server would keep them open */
    pid_t child = fork();
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        own(down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    tell_owner = down[1];
    hear_owner = up[0];
    return child;
}

static void compare_commits(const char *name, char what, double (*rate)(void)) {
    double socket_rate = 0, process_rate = 0;
    for (int i = 0; i < LOADS; i++) {
        socket_rate += rate() / LOADS;
        process_rate += ask_owner(what) / LOADS;
    }
    printf("%-34s %10.0f /s   in-process %10.0f /s   ratio %.2f (aim: at least 0.70)\n", name, socket_rate, process_rate,
           socket_rate / process_rate);
}

int main(int argc, char **argv) {
    if (argc < 2 || strlen(argv[1]) >= sizeof directory) {
        fprintf(stderr, "usage: bench-remote DIRECTORY [ROWS]\n");
        return 2;
    }
    row_count = argc > 2 ? atol(argv[2]) : 100000;
    snprintf(directory, sizeof directory, "%s", argv[1]);
    snprintf(redis_path, sizeof redis_path, "%s/redis.sock", directory);
    snprintf(database_path, sizeof database_path, "%s/db", directory);
    mkdir(directory, 0700);
    setvbuf(stdout, NULL, _IOLBF, 0);
    pid_t owner = start_owner(), redis_process = start_redis();
    redis_load();
    (void)ask_owner(0);
    open_database();
    double keel, other;
    compare_gets(GETS_A_ROUND, 1, &keel, &other);
    printf("%-34s %10.1f us   Redis %15.1f us   ratio %.2f (aim: at most 1.30)\n", "get over the socket", keel * 1e6, other * 1e6,
           keel / other);
    compare_gets(PIPELINED_A_ROUND, DEPTH, &keel, &other);
    printf("%-34s %10.0f /s   Redis %15.0f /s   ratio %.2f (aim: at least 0.50)\n", "gets over the socket, 16 at a time", 1 / keel,
           1 / other, other / keel);
    compare_commits("64 clients' commits, callbacks", 'c', callbacks_rate);
    compare_commits("64 clients' commits, a thread each", 't', threads_rate);
    fdb_database_destroy(database);
    close(tell_owner);
    waitpid(owner, NULL, 0);
    kill(redis_process, SIGTERM);
    waitpid(redis_process, NULL, 0);
    return 0;
}
