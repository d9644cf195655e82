/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB bench: a short benchmark where the database lies, on a database of its own.
 *
 * DB itself is not opened: what is measured is a new database beside it, DB.bench-XXXXXX, on the same disk (or :memory:), which is removed at the end, also after
 * Ctrl-C. ROWS rows of KEY_BYTES + VALUE_BYTES; each figure is the mean over --seconds:
 *
 *     gets          one client, random keys, one after the other
 *     range rows    one client, ranges of RANGE_ROWS rows
 *     commits       one client, each setting one row and waiting for it
 *     commits       --clients of them, a thread each
 *     sync          4 KB written over a file that has its blocks, and fdatasync: what the disk makes every commit wait for
 *
 * For figures to compare with others' see make bench: this is for looking at a machine.
 */
#define _GNU_SOURCE /* nftw */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "operation.h"
#include "transfer.h"

enum { ROWS = 50000, KEY_BYTES = 16, VALUE_BYTES = 100, RANGE_ROWS = 100, GETS_A_TRANSACTION = 500, CLIENTS_MAX = 256, SYNC_BYTES = 4096 };

struct bench {
    struct session *session;
    double seconds;
    int64_t clients;
    char *directory; /* NULL: in memory */
    keel_db *db;
    FDBDatabase *database;
    double gets, range_rows, commits_one, commits_many; /* a second */
    double sync_seconds;                                /* one; 0 in memory */
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void make_key(uint8_t key[KEY_BYTES], uint64_t row) {
    uint64_t big_endian = __builtin_bswap64(row);
    memcpy(key, "bench/ro", 8);
    memcpy(key + 8, &big_endian, 8);
}

/* ---- The phases ---- */

static fdb_error_t load(struct bench *bench) {
    struct loader loader;
    uint8_t key[KEY_BYTES], value[VALUE_BYTES];
    fdb_error_t error = 0;
    memset(value, 'v', sizeof value);
    loader_open(bench->database, NULL, &loader);
    for (uint64_t row = 0; row < ROWS && !error; row++) {
        make_key(key, row);
        error = loader_set(&loader, keel_bytes_of(key, sizeof key), keel_bytes_of(value, sizeof value));
    }
    if (!error)
        error = loader_finish(&loader);
    loader_close(&loader);
    return error;
}

/* Some reads in one transaction; *done counts rows. */
typedef fdb_error_t (*read_function)(FDBTransaction *tr, uint64_t *random, uint64_t *done);

static fdb_error_t read_some_rows(FDBTransaction *tr, uint64_t *random, uint64_t *done) {
    fdb_error_t error = 0;
    for (int i = 0; i < GETS_A_TRANSACTION && !error; i++) {
        uint8_t key[KEY_BYTES];
        make_key(key, next_random(random) % ROWS);
        FDBFuture *future = fdb_transaction_get(tr, key, sizeof key, 1);
        fdb_bool_t present = 0;
        const uint8_t *value;
        int length;
        error = session_wait(future);
        if (!error)
            error = fdb_future_get_value(future, &present, &value, &length);
        fdb_future_destroy(future);
        *done += present ? 1 : 0;
    }
    return error;
}

static fdb_error_t read_some_ranges(FDBTransaction *tr, uint64_t *random, uint64_t *done) {
    fdb_error_t error = 0;
    for (int i = 0; i < 20 && !error; i++) {
        uint8_t begin[KEY_BYTES], end[KEY_BYTES];
        uint64_t row = next_random(random) % (ROWS - RANGE_ROWS);
        make_key(begin, row);
        make_key(end, row + RANGE_ROWS);
        FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin, KEY_BYTES), FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, KEY_BYTES),
                                                      0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
        const FDBKeyValue *rows;
        int count = 0;
        fdb_bool_t more;
        error = session_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
        fdb_future_destroy(future);
        *done += (uint64_t)count;
    }
    return error;
}

static fdb_error_t measure_reads(const struct bench *bench, read_function function, double *rate) {
    uint64_t random = 88172645463325252u, done = 0;
    double begin = seconds_now(), now = begin;
    fdb_error_t error = 0;
    while (!error && now - begin < bench->seconds && !session_interrupted()) {
        FDBTransaction *tr;
        error = fdb_database_create_transaction(bench->database, &tr);
        if (error)
            break;
        error = function(tr, &random, &done);
        fdb_transaction_destroy(tr);
        now = seconds_now();
    }
    *rate = now > begin ? (double)done / (now - begin) : 0;
    return error;
}

struct client {
    const struct bench *bench;
    pthread_t thread;
    uint64_t random, commits;
    fdb_error_t error;
    atomic_bool *stop;
};

static fdb_error_t write_row(FDBTransaction *tr, void *context) {
    uint8_t key[KEY_BYTES], value[VALUE_BYTES];
    memset(value, 'w', sizeof value);
    make_key(key, next_random(context) % ROWS);
    fdb_transaction_set(tr, key, sizeof key, value, sizeof value);
    return 0;
}

static void *run_client(void *argument) {
    struct client *client = argument;
    while (!client->error && !atomic_load(client->stop)) {
        client->error = keel_run(client->bench->database, write_row, &client->random);
        client->commits += !client->error;
    }
    return NULL;
}

static fdb_error_t measure_commits(const struct bench *bench, int64_t clients, double *rate) {
    struct client *all = calloc((size_t)clients, sizeof *all);
    atomic_bool stop = false;
    int64_t started = 0;
    if (!all)
        return ERROR_LARGE_ALLOC_FAILED;
    double begin = seconds_now();
    for (; started < clients; started++) {
        struct client *client = &all[started];
        *client = (struct client){.bench = bench, .random = (uint64_t)started * 7919 + 1, .stop = &stop};
        if (pthread_create(&client->thread, NULL, run_client, client) != 0)
            break;
    }
    while (seconds_now() - begin < bench->seconds && !session_interrupted())
        usleep(1000);
    atomic_store(&stop, true);
    fdb_error_t error = started < clients ? (fdb_error_t)KEEL_ERROR_THREAD : 0;
    uint64_t commits = 0;
    for (int64_t i = 0; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        commits += all[i].commits;
        error = error ? error : all[i].error;
    }
    *rate = (double)commits / (seconds_now() - begin);
    free(all);
    return error;
}

/* Mean seconds of a write and sync; 0 if the file cannot be made. */
static double measure_sync(const struct bench *bench) {
    char path[4200];
    static const uint8_t block[SYNC_BYTES];
    snprintf(path, sizeof path, "%s/sync", bench->directory);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return 0;
    bool good = pwrite(descriptor, block, sizeof block, 0) == (ssize_t)sizeof block && fsync(descriptor) == 0;
    double begin = seconds_now(), now = begin, most = bench->seconds < 0.5 ? bench->seconds : 0.5;
    uint64_t count = 0;
    while (good && now - begin < most && !session_interrupted()) {
        good = pwrite(descriptor, block, sizeof block, 0) == (ssize_t)sizeof block && fdatasync(descriptor) == 0;
        count++;
        now = seconds_now();
    }
    close(descriptor);
    return good && count ? (now - begin) / (double)count : 0;
}

/* ---- The place ---- */

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static int open_bench(struct bench *bench, bool memory) {
    const char *path = bench->session->path ? bench->session->path : "keel.db";
    char inside[4200] = ":memory:";
    if (!memory && strcmp(path, ":memory:") != 0) {
        size_t length = strlen(path);
        while (length > 1 && path[length - 1] == '/')
            length--;
        if (asprintf(&bench->directory, "%.*s.bench-XXXXXX", (int)length, path) < 0) {
            bench->directory = NULL;
            return report("bench: out of memory");
        }
        if (!mkdtemp(bench->directory)) {
            int code = report("bench: %s: cannot be made: %s. --memory measures without a disk", bench->directory, strerror(errno));
            free(bench->directory);
            bench->directory = NULL;
            return code;
        }
        snprintf(inside, sizeof inside, "%s/db", bench->directory);
    }
    fdb_error_t error = keel_open(inside, &bench->db);
    if (error)
        return report_error("bench", inside, error);
    bench->database = keel_fdb(bench->db);
    return EXIT_OK;
}

static void close_bench(struct bench *bench) {
    keel_close(bench->db);
    if (bench->directory && nftw(bench->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        report("bench: %s could not be removed: %s", bench->directory, strerror(errno));
    free(bench->directory);
}

static fdb_error_t run_phases(struct bench *bench) {
    fdb_error_t error = load(bench);
    if (!error)
        error = measure_reads(bench, read_some_rows, &bench->gets);
    if (!error)
        error = measure_reads(bench, read_some_ranges, &bench->range_rows);
    if (!error)
        error = measure_commits(bench, 1, &bench->commits_one);
    if (!error)
        error = measure_commits(bench, bench->clients, &bench->commits_many);
    if (!error && bench->directory)
        bench->sync_seconds = measure_sync(bench);
    return error;
}

static void print_result(const struct bench *bench) {
    if (bench->session->json) {
        json_t *result = json_pack("{s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:I}", "gets", bench->gets, "range_rows", bench->range_rows, "commits_1", bench->commits_one,
                                   "commits_n", bench->commits_many, "clients", (json_int_t)bench->clients, "seconds", bench->seconds, "rows", (json_int_t)ROWS,
                                   "row_bytes", (json_int_t)(KEY_BYTES + VALUE_BYTES));
        if (bench->directory)
            json_object_set_new(result, "sync_seconds", json_real(bench->sync_seconds));
        output_json(result);
        return;
    }
    printf("gets        %14s a second, one client\n", human_count((uint64_t)bench->gets));
    printf("range rows  %14s a second, one client, %d a range\n", human_count((uint64_t)bench->range_rows), RANGE_ROWS);
    printf("commits     %14s a second, one client\n", human_count((uint64_t)bench->commits_one));
    printf("commits     %14s a second, %lld clients\n", human_count((uint64_t)bench->commits_many), (long long)bench->clients);
    if (bench->sync_seconds > 0)
        printf("sync        %14s a second is what the disk can do, %s each\n", human_count((uint64_t)(1 / bench->sync_seconds)), human_seconds(bench->sync_seconds));
    printf("%d rows of %d bytes, %g s a figure%s\n", ROWS, KEY_BYTES + VALUE_BYTES, bench->seconds, bench->directory ? "" : ", in memory");
}

int command_bench(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("bench");
    const char *seconds = NULL, *clients = NULL, *memory = NULL;
    const struct option_spec specs[] = {{"seconds", 's', true, &seconds}, {"clients", 'c', true, &clients}, {"memory", 0, false, &memory}, {0}};
    struct bench bench = {.session = session, .seconds = 1, .clients = 16};
    if (!options_parse(command, &argc, argv, specs) || (clients && !options_number("--clients", clients, 1, CLIENTS_MAX, &bench.clients)))
        return EXIT_USAGE;
    if (seconds) {
        char *end;
        bench.seconds = strtod(seconds, &end);
        if (!*seconds || *end || !(bench.seconds >= 0.01 && bench.seconds <= 3600))
            return usage_error(command, "--seconds: \"%s\" is not a number from 0.01 to 3600", seconds);
    }
    if (argc != 1)
        return usage_error(command, "there is nothing to be named here");
    int code = open_bench(&bench, memory != NULL);
    if (code == EXIT_OK) {
        fdb_error_t error = run_phases(&bench);
        if (session_interrupted())
            code = EXIT_INTERRUPTED;
        else if (error)
            code = report_error("bench", bench.directory ? bench.directory : ":memory:", error);
        else
            print_result(&bench);
    }
    close_bench(&bench);
    return code;
}
