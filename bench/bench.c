/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first benchmark: what a read, a range and a commit cost, beside the floor they stand on, in one run.
 *
 *   bench DIRECTORY [ROWS]
 *
 * Reads are measured beside raw LMDB holding the same rows, commits beside a bare write and fdatasync of the same size. The two sides of a comparison
 * take turns in short rounds, so that a noisy machine disturbs both alike; the figure to look at is the ratio.
 */
#define _GNU_SOURCE /* memmem */
#include "bench_rows.h"

#include <fcntl.h>
#include <lmdb.h>
#include <stdlib.h>
#include <sys/stat.h>

static MDB_env *lmdb;
static MDB_dbi lmdb_dbi;

static void check_lmdb(int error, const char *what) {
    if (error) {
        fprintf(stderr, "bench: LMDB, %s: error %d %s\n", what, error, mdb_strerror(error));
        exit(1);
    }
}

/* --- Loading --- */

static void load_lmdb(const char *path) {
    mkdir(path, 0700);
    check_lmdb(mdb_env_create(&lmdb), "load");
    check_lmdb(mdb_env_set_mapsize(lmdb, 8ul << 30), "load");
    check_lmdb(mdb_env_open(lmdb, path, MDB_NOTLS, 0600), "load");
    MDB_txn *txn;
    check_lmdb(mdb_txn_begin(lmdb, NULL, 0, &txn), "load");
    check_lmdb(mdb_dbi_open(txn, NULL, 0, &lmdb_dbi), "load");
    uint8_t key[KEY_BYTES], value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    for (long row = 0; row < row_count; row++) {
        make_key(key, row);
        MDB_val k = {KEY_BYTES, key}, v = {VALUE_BYTES, value};
        check_lmdb(mdb_put(txn, lmdb_dbi, &k, &v, MDB_APPEND), "put");
    }
    check_lmdb(mdb_txn_commit(txn), "load");
}

/* --- Reads: operations in one round, both sides --- */

enum { GETS_A_ROUND = 20000, GETS_A_TRANSACTION = 1000, RANGES_A_ROUND = 1000, ROWS_A_RANGE = 100, ROUNDS = 20 };

static void keel_gets(uint64_t *random) {
    uint8_t key[KEY_BYTES];
    for (int done = 0; done < GETS_A_ROUND; done += GETS_A_TRANSACTION) {
        FDBTransaction *tr = begin();
        for (int i = 0; i < GETS_A_TRANSACTION; i++) {
            make_key(key, any_row(random, row_count));
            FDBFuture *future = fdb_transaction_get(tr, key, KEY_BYTES, 0);
            fdb_bool_t present;
            const uint8_t *value;
            int length;
            check(fdb_future_block_until_ready(future), "get");
            check(fdb_future_get_value(future, &present, &value, &length), "get");
            if (!present || length != VALUE_BYTES || value[99] != 'v')
                check(1, "wrong value");
            fdb_future_destroy(future);
        }
        fdb_transaction_destroy(tr);
    }
}

static void lmdb_gets(uint64_t *random) {
    uint8_t key[KEY_BYTES];
    static uint8_t copy[VALUE_BYTES];
    for (int done = 0; done < GETS_A_ROUND; done += GETS_A_TRANSACTION) {
        MDB_txn *txn;
        check_lmdb(mdb_txn_begin(lmdb, NULL, MDB_RDONLY, &txn), "begin");
        for (int i = 0; i < GETS_A_TRANSACTION; i++) {
            make_key(key, any_row(random, row_count));
            MDB_val k = {KEY_BYTES, key}, v;
            check_lmdb(mdb_get(txn, lmdb_dbi, &k, &v), "get");
            memcpy(copy, v.mv_data, v.mv_size);
            if (copy[99] != 'v')
                check(1, "wrong value");
        }
        mdb_txn_abort(txn);
    }
}

static long keel_sum, lmdb_sum;

static void keel_ranges(uint64_t *random) {
    uint8_t from[KEY_BYTES], to[KEY_BYTES];
    for (int done = 0; done < RANGES_A_ROUND; done += 100) {
        FDBTransaction *tr = begin();
        for (int i = 0; i < 100; i++) {
            long row = any_row(random, row_count - ROWS_A_RANGE);
            make_key(from, row);
            make_key(to, row + ROWS_A_RANGE);
            FDBFuture *future = fdb_transaction_get_range(
                tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(from, KEY_BYTES), FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(to, KEY_BYTES),
                0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
            const FDBKeyValue *rows;
            int count;
            fdb_bool_t more;
            check(fdb_future_block_until_ready(future), "range");
            check(fdb_future_get_keyvalue_array(future, &rows, &count, &more), "range");
            if (count != ROWS_A_RANGE)
                check(1, "wrong count");
            for (int r = 0; r < count; r++)
                keel_sum += rows[r].value[50];
            fdb_future_destroy(future);
        }
        fdb_transaction_destroy(tr);
    }
}

static void lmdb_ranges(uint64_t *random) {
    uint8_t from[KEY_BYTES];
    for (int done = 0; done < RANGES_A_ROUND; done += 100) {
        MDB_txn *txn;
        MDB_cursor *cursor;
        check_lmdb(mdb_txn_begin(lmdb, NULL, MDB_RDONLY, &txn), "begin");
        check_lmdb(mdb_cursor_open(txn, lmdb_dbi, &cursor), "cursor");
        for (int i = 0; i < 100; i++) {
            make_key(from, any_row(random, row_count - ROWS_A_RANGE));
            MDB_val k = {KEY_BYTES, from}, v;
            check_lmdb(mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE), "seek");
            for (int r = 0; r < ROWS_A_RANGE; r++) {
                lmdb_sum += ((uint8_t *)v.mv_data)[50];
                if (r + 1 < ROWS_A_RANGE)
                    check_lmdb(mdb_cursor_get(cursor, &k, &v, MDB_NEXT), "next");
            }
        }
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
    }
}

static double timed(void (*function)(uint64_t *), uint64_t *random) {
    double start = now();
    function(random);
    return now() - start;
}

static void compare_reads(const char *what, void (*keel)(uint64_t *), void (*raw)(uint64_t *), long operations, double aim) {
    uint64_t random = 88172645463325252ull;
    double keel_seconds = 0, raw_seconds = 0;
    keel(&random); /* warm both up */
    raw(&random);
    for (int round = 0; round < ROUNDS; round++) {
        keel_seconds += timed(keel, &random);
        raw_seconds += timed(raw, &random);
    }
    double keel_rate = (double)(operations * ROUNDS) / keel_seconds, raw_rate = (double)(operations * ROUNDS) / raw_seconds;
    printf("%-28s %12.0f /s   raw LMDB %12.0f /s   ratio %.2f (aim: at least %.2f)\n", what, keel_rate, raw_rate,
           keel_rate / raw_rate, aim);
}

/* --- Commits --- */

static int bare_descriptor;
static off_t bare_offset;
enum { BARE_FILE_BYTES = 16 << 20, BARE_WRITE_BYTES = 168 };

static void bare_open(const char *path) {
    bare_descriptor = open(path, O_RDWR | O_CREAT, 0600);
    static char zeros[1 << 16];
    for (int i = 0; i < BARE_FILE_BYTES >> 16; i++)
        check(write(bare_descriptor, zeros, sizeof zeros) != sizeof zeros, "bare file");
    fsync(bare_descriptor);
}

static void bare_sync(void) {
    static char data[BARE_WRITE_BYTES];
    memset(data, 'b', sizeof data);
    check(pwrite(bare_descriptor, data, sizeof data, bare_offset) != sizeof data, "bare write");
    bare_offset = (bare_offset + BARE_WRITE_BYTES) % (BARE_FILE_BYTES - BARE_WRITE_BYTES);
    check(fdatasync(bare_descriptor), "bare sync");
}

enum { COMMITS = 200, TURNS = 5 };

/* Commits of one client and bare syncs take turns; adds their seconds. */
static void one_client(double *one_seconds, double *bare_seconds) {
    for (int turn = 0; turn < TURNS; turn++) {
        double start = now();
        for (int i = 0; i < COMMITS; i++)
            commit_one();
        *one_seconds += now() - start;
        start = now();
        for (int i = 0; i < COMMITS; i++)
            bare_sync();
        *bare_seconds += now() - start;
    }
}

/* Waits until what was written is in the base: its moving competes for the disk. */
static void settle(void) {
    static const char name[] = "\xff\xff/status/json", word[] = "\"window_bytes\":";
    for (;;) {
        FDBTransaction *tr = begin();
        FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)name, sizeof name - 1, 0);
        fdb_bool_t present;
        const uint8_t *value;
        int length;
        check(fdb_future_block_until_ready(future), "status");
        check(fdb_future_get_value(future, &present, &value, &length), "status");
        const char *found = memmem(value, (size_t)length, word, sizeof word - 1);
        check(found ? 0 : -1, "status without window_bytes");
        bool empty = strtoll(found + sizeof word - 1, NULL, 10) == 0;
        fdb_future_destroy(future);
        fdb_transaction_destroy(tr);
        if (empty)
            return;
        sleep_for(0.1);
    }
}

/* One client is measured before and after the many: the machine may have become quicker or slower meanwhile. */
static void compare_commits(void) {
    double one_seconds = 0, bare_seconds = 0, by_threads = 0, by_callbacks = 0;
    one_client(&one_seconds, &bare_seconds);
    for (int load = 0; load < LOADS; load++) {
        by_threads += threads_rate() / LOADS;
        by_callbacks += callbacks_rate() / LOADS;
    }
    settle();
    one_client(&one_seconds, &bare_seconds);
    double one = one_seconds / (2 * COMMITS * TURNS), bare = bare_seconds / (2 * COMMITS * TURNS);
    printf("%-28s %12.1f us   write+fdatasync %8.1f us   ratio %.2f (aim: at most 1.30)\n", "one-client durable commit",
           one * 1e6, bare * 1e6, one / bare);
    printf("%-28s %12.0f /s   one client %14.0f /s   ratio %.1f (aim: at least 25)\n", "64 clients, callbacks",
           by_callbacks, 1 / one, by_callbacks * one);
    printf("%-28s %12.0f /s   one client %14.0f /s   ratio %.1f (aim: at least 25)\n", "64 clients, a thread each",
           by_threads, 1 / one, by_threads * one);
}

/* --- Opening and idling --- */

static long resident_kilobytes(void) {
    long pages = 0, unused;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &unused, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void touch_database(void) {
    FDBTransaction *tr = begin();
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)"x", 1, 0);
    finish(future, "first read");
    fdb_transaction_destroy(tr);
}

static void measure_fresh(const char *directory) {
    enum { OPENS = 10 };
    double times[OPENS], least = 1e9, sum = 0;
    long before = resident_kilobytes(), after = 0;
    for (int i = 0; i < OPENS; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/fresh-%d", directory, i);
        double start = now();
        check(fdb_create_database(path, &database), "open");
        touch_database();
        times[i] = now() - start;
        sum += times[i];
        if (times[i] < least)
            least = times[i];
        if (i == 0)
            after = resident_kilobytes();
        fdb_database_destroy(database);
    }
    printf("%-28s %12.2f ms mean, %.2f ms least, to the first read (aim: under 10)\n", "open a fresh database",
           sum / OPENS * 1e3, least * 1e3);
    printf("%-28s %12.1f MB in the process, %.1f MB of it by the database (aim: under 20)\n", "idle fresh database",
           (double)after / 1024, (double)(after - before) / 1024);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: bench DIRECTORY [ROWS]\n");
        return 2;
    }
    row_count = argc > 2 ? atol(argv[2]) : 1000000;
    char path[4096];
    mkdir(argv[1], 0700);
    pthread_t network = start_network();
    measure_fresh(argv[1]);

    snprintf(path, sizeof path, "%s/keel", argv[1]);
    check(fdb_create_database(path, &database), "open");
    double start = now();
    load_rows();
    double loaded = now();
    fdb_database_destroy(database); /* everything moves to the base */
    printf("%-28s %12.0f rows/s, %.1f s to move them to the base and close\n", "load", (double)row_count / (loaded - start),
           now() - loaded);
    start = now();
    check(fdb_create_database(path, &database), "reopen");
    touch_database();
    printf("%-28s %12.2f ms to the first read\n", "reopen", (now() - start) * 1e3);
    snprintf(path, sizeof path, "%s/lmdb", argv[1]);
    load_lmdb(path);

    compare_reads("random gets", keel_gets, lmdb_gets, GETS_A_ROUND, 0.6);
    compare_reads("rows of 100-row ranges", keel_ranges, lmdb_ranges, (long)RANGES_A_ROUND * ROWS_A_RANGE, 0.5);
    snprintf(path, sizeof path, "%s/bare", argv[1]);
    bare_open(path);
    compare_commits();

    fdb_database_destroy(database);
    mdb_env_close(lmdb);
    check(fdb_stop_network(), "stop");
    pthread_join(network, NULL);
    return keel_sum + lmdb_sum == 0;
}
