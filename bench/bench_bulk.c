/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk loads of growing size, durable, on disk: rows a second, and whether memory grows with the input.
 *
 *     bench_bulk DIRECTORY [ROWS_MAX]        (make bench-bulk ROWS=10000000)
 *
 * Users of about 100 bytes are loaded under their id, sorted and in random order (which has the database asked for each key),
 * validated, activated and removed again; 100,000, 1,000,000, … up to ROWS_MAX of them, each size in a process of its own.
 * Memory: `anonymous` is the most that the process itself held (heap and stacks: the window of the last five seconds among
 * it, 512 MB at most unless KEEL_WINDOW_BYTES says otherwise), taken every few thousand rows; `resident` is VmHWM, with the
 * pages of the database file that are mapped, which the system takes back when it needs them.
 */
#include <keel/keel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_ROWS = 5000 };

static long anonymous_kb_max;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "bench_bulk: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long status_kb(const char *field) {
    char line[200];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = atol(line + strlen(field) + 1);
    if (file)
        fclose(file);
    return kb;
}

static void sample_memory(void) {
    long kb = status_kb("RssAnon");
    anonymous_kb_max = kb > anonymous_kb_max ? kb : anonymous_kb_max;
}

static fdb_error_t open_target(FDBTransaction *tr, void *context) {
    return keel_directory_create_or_open(tr, NULL, KEEL_PATH("bench", "users"), KEEL_NO_LAYER, context);
}

/* All numbers below a prime above the number of rows, each once, in an order without order. */
static int64_t shuffled(int64_t number, int64_t prime) {
    return (int64_t)((__int128)number * 7919 % prime * 104729 % prime);
}

static int64_t prime_above(int64_t number) {
    for (;; number++) {
        int64_t divisor = 2;
        while (divisor * divisor <= number && number % divisor)
            divisor++;
        if (divisor * divisor > number)
            return number;
    }
}

static void load(FDBDatabase *database, const keel_directory *target, const char *name, int64_t rows, int64_t prime) {
    keel_bulk *bulk;
    check(keel_bulk_begin(database, target, name, NULL, &bulk), "begin");
    for (int64_t row = 0; row < rows; row++) {
        uint8_t key[32];
        char value[160];
        size_t key_length;
        int64_t id = prime ? shuffled(row + 1, prime) : row;
        int length = snprintf(value, sizeof value,
                              "{\"id\":%lld,\"name\":\"User %lld\",\"email\":\"user%lld@example.com\",\"city\":\"Trondheim\"}",
                              (long long)id, (long long)id, (long long)id);
        check(keel_tuple_pack(KEEL_TUPLE(id), key, sizeof key, &key_length), "pack");
        check(keel_bulk_set(bulk, keel_bytes_of(key, key_length), keel_bytes_of(value, (size_t)length)), "set");
        check(keel_bulk_row(bulk, keel_bytes_of(&row, sizeof row)), "row");
        if (row % SAMPLE_ROWS == 0)
            sample_memory();
    }
    check(keel_bulk_finish(bulk), "finish");
    keel_bulk_close(bulk);
}

struct flip {
    const keel_directory *target;
    const char *name;
};

static fdb_error_t flip(FDBTransaction *tr, void *context) {
    const struct flip *what = context;
    return keel_bulk_activate(tr, what->target, what->name);
}

/* One order: prints a line. `before` is the load that it replaces, removed at the end. */
static void measure(FDBDatabase *database, const keel_directory *target, int64_t rows, bool sorted) {
    const char *name = sorted ? "sorted" : "random";
    struct flip what = {target, name};
    double times[5];
    keel_bulk_cleaning cleaning;
    anonymous_kb_max = 0;
    times[0] = now();
    load(database, target, name, rows, sorted ? 0 : prime_above(rows + 2));
    times[1] = now();
    check(keel_bulk_validate(database, target, name, NULL, NULL, NULL), "validate");
    sample_memory();
    times[2] = now();
    check(keel_run(database, flip, &what), "activate");
    times[3] = now();
    check(keel_bulk_cleanup(database, target, 0, NULL, NULL, &cleaning), "cleanup");
    times[4] = now();
    printf("%-8s %10lld rows  load %8.0f rows/s  validate %9.0f rows/s  flip %6.2f ms  cleanup of %d load %6.2f s  anonymous %4ld MB  "
           "resident %5ld MB\n",
           name, (long long)rows, (double)rows / (times[1] - times[0]), (double)rows / (times[2] - times[1]),
           (times[3] - times[2]) * 1e3, (int)cleaning.loads, times[4] - times[3], anonymous_kb_max / 1024,
           status_kb("VmHWM") / 1024);
    fflush(stdout);
}

static int run(const char *path, int64_t rows) {
    keel_db *db = NULL;
    keel_directory *target = NULL;
    check(keel_open(path, &db), "open");
    check(keel_run(keel_fdb(db), open_target, &target), "target");
    measure(keel_fdb(db), target, rows, true);
    measure(keel_fdb(db), target, rows, false);
    keel_directory_close(target);
    keel_close(db);
    return 0;
}

int main(int argc, char **argv) {
    int64_t rows_max = argc > 2 && *argv[2] ? atoll(argv[2]) : 1000000;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_bulk DIRECTORY [ROWS_MAX]\n");
        return 2;
    }
    for (int64_t rows = rows_max < 100000 ? rows_max : 100000; rows <= rows_max; rows *= 10) {
        char path[4096];
        int status = 0;
        snprintf(path, sizeof path, "%s-%lld", argv[1], (long long)rows);
        pid_t child = fork();
        if (child == 0)
            exit(run(path, rows));
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}
