/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk loads under kill -9:  bulk-kills DIRECTORY [LOADS [SEED]]
 *
 * A worker process prepares a load, validates it, activates it together with an audit record, and cleans up what was replaced,
 * while a second thread of it cleans up all the time. It is killed at random moments and started again until it has come to its
 * end; then the next load is begun. Input, batch sizes and batches in flight are drawn anew for each start, as a program that
 * is run again by hand might have it; keys come in random order, so duplicates are looked for.
 *
 * After each load, without kills: its rows in the database must be, byte for byte, those of the input and with them those of an
 * uninterrupted load, which is then made of the same input beside it; the audit log must have each activation once; and of the
 * replaced loads nothing may be left, no record and no directory.
 */
#include <keel/keel.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 12000, PAIRS = 2, KILLS_MAX = 400 };

static int passed, failed;

static void judge(bool good, const char *what) {
    if (!good)
        printf("FAIL: %s\n", what);
    good ? passed++ : failed++;
}

static void must(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "kills: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(3);
    }
}

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void name_of(int number, char name[40]) {
    snprintf(name, 40, "load %03d", number);
}

/* ---- The input ---- */

static keel_bytes key_of(int row, int pair, uint8_t key[40]) {
    size_t length;
    int64_t spread = (int64_t)((uint64_t)row * 7919 % 1000003);
    must(keel_tuple_pack(KEEL_TUPLE(pair ? "by number" : "user", spread), key, 40, &length), "pack");
    return keel_bytes_of(key, length);
}

static keel_bytes value_of(int load, int row, int pair, char value[80]) {
    return keel_bytes_of(value, (size_t)snprintf(value, 80, "%d: value of row %d in load %d, which is not short", pair, row, load));
}

/* Those of rows behind the position. */
static void add_rows(keel_bulk *bulk, int load) {
    for (int row = (int)keel_bulk_position(bulk).rows_added + 1; row <= ROWS; row++) {
        for (int pair = 0; pair < PAIRS; pair++) {
            uint8_t key[40];
            char value[80];
            must(keel_bulk_set(bulk, key_of(row, pair, key), value_of(load, row, pair, value)), "set");
        }
        must(keel_bulk_row(bulk, keel_bytes_of(&row, sizeof row)), "row");
    }
}

/* ---- The worker ---- */

static fdb_error_t open_target(FDBTransaction *tr, void *context) {
    return keel_directory_create_or_open(tr, NULL, KEEL_PATH("kills", "users"), KEEL_NO_LAYER, context);
}

struct flip {
    const keel_directory *target;
    const char *name;
};

/* The flip, and an entry in the log, together: the state tells whether it has happened. */
static fdb_error_t flip(FDBTransaction *tr, void *context) {
    const struct flip *what = context;
    keel_bulk_load load;
    keel_subspace audit;
    fdb_error_t error = keel_bulk_look(tr, what->target, what->name, &load);
    if (error || load.state == KEEL_BULK_ACTIVE)
        return error;
    error = keel_bulk_activate(tr, what->target, what->name);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("audit"), &audit);
    return error ? error : keel_log_append(tr, &audit, 0, keel_bytes_of_string(what->name));
}

static atomic_bool done;

static void *clean(void *context) {
    void **both = context;
    while (!atomic_load(&done))
        must(keel_bulk_cleanup(both[0], both[1], 0, NULL, NULL, NULL), "cleanup");
    return NULL;
}

static int work(const char *path, int number, uint64_t seed) {
    keel_db *db = NULL;
    keel_directory *target = NULL;
    keel_bulk *bulk = NULL;
    pthread_t cleaner;
    char name[40];
    struct flip what;
    keel_bulk_options options = {.batch_bytes = 2000 + draw(&seed) % 200000, .in_flight = 1 + (int)(draw(&seed) % 8)};
    name_of(number, name);
    must(keel_open(path, &db), "open");
    must(keel_run(keel_fdb(db), open_target, &target), "target");
    void *both[] = {keel_fdb(db), target};
    if (pthread_create(&cleaner, NULL, clean, both) != 0)
        return 3;
    must(keel_bulk_begin(keel_fdb(db), target, name, &options, &bulk), "begin");
    if (!keel_bulk_position(bulk).finished)
        add_rows(bulk, number);
    must(keel_bulk_finish(bulk), "finish");
    keel_bulk_close(bulk);
    must(keel_bulk_validate(keel_fdb(db), target, name, NULL, NULL, NULL), "validate");
    what = (struct flip){target, name};
    must(keel_run(keel_fdb(db), flip, &what), "flip");
    must(keel_bulk_cleanup(keel_fdb(db), target, 0, NULL, NULL, NULL), "cleanup");
    atomic_store(&done, true);
    pthread_join(cleaner, NULL);
    keel_directory_close(target);
    keel_close(db);
    return 0;
}

/* Starts and kills workers until one has come to its end. Returns the kills, or -1. */
static int run_load(const char *path, int number, uint64_t *seed) {
    for (int kills = 0; kills < KILLS_MAX; kills++) {
        int status = 0;
        uint64_t worker_seed = draw(seed);
        useconds_t until_kill = 3000 + draw(seed) % 80000 * (unsigned)(1 + kills / 8);
        pid_t child = fork();
        if (child < 0)
            return -1;
        if (child == 0)
            _exit(work(path, number, worker_seed));
        usleep(until_kill);
        kill(child, SIGKILL);
        if (waitpid(child, &status, 0) != child)
            return -1;
        if (WIFEXITED(status))
            return WEXITSTATUS(status) == 0 ? kills : -1;
    }
    return -1;
}

/* ---- Judging ---- */

struct row_check {
    int number, row, pair;
};

static int compare_keys(const void *a, const void *b) {
    const struct row_check *one = a, *other = b;
    uint8_t key_a[40], key_b[40];
    return keel_bytes_compare(key_of(one->row, one->pair, key_a), key_of(other->row, other->pair, key_b));
}

/* The rows of a load are those of the input, in the order of keys, and no others. */
static bool is_whole(FDBDatabase *database, const keel_subspace *rows, int number) {
    static struct row_check expected[ROWS * PAIRS];
    uint8_t begin[KEEL_SUBSPACE_PREFIX_MAX + 64], end[KEEL_SUBSPACE_PREFIX_MAX];
    size_t begin_length = rows->length;
    FDBTransaction *tr;
    int at = 0;
    fdb_bool_t more = 1;
    bool good = true;
    for (int i = 0; i < ROWS * PAIRS; i++)
        expected[i] = (struct row_check){number, i / PAIRS + 1, i % PAIRS};
    qsort(expected, ROWS * PAIRS, sizeof *expected, compare_keys);
    memcpy(begin, rows->prefix, rows->length);
    memcpy(end, rows->prefix, rows->length);
    end[rows->length - 1]++;
    must(fdb_database_create_transaction(database, &tr), "transaction");
    while (more && good) {
        const FDBKeyValue *found;
        int count;
        FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin, (int)begin_length),
                                                      FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, rows->length), 0, 0,
                                                      FDB_STREAMING_MODE_WANT_ALL, 0, 1, 0);
        must(keel_wait(future), "read");
        must(fdb_future_get_keyvalue_array(future, &found, &count, &more), "read");
        for (int i = 0; i < count && good; i++, at++) {
            uint8_t key[40];
            char value[80];
            good = at < ROWS * PAIRS;
            if (!good)
                break;
            keel_bytes k = key_of(expected[at].row, expected[at].pair, key);
            keel_bytes v = value_of(number, expected[at].row, expected[at].pair, value);
            good = (size_t)found[i].key_length == rows->length + k.length && (size_t)found[i].value_length == v.length &&
                   memcmp(found[i].key + rows->length, k.data, k.length) == 0 && memcmp(found[i].value, v.data, v.length) == 0;
            memcpy(begin, found[i].key, (size_t)found[i].key_length);
            begin[found[i].key_length] = 0;
            begin_length = (size_t)found[i].key_length + 1;
        }
        fdb_future_destroy(future);
    }
    fdb_transaction_destroy(tr);
    return good && at == ROWS * PAIRS;
}

static fdb_error_t count_name(void *context, keel_bytes name) {
    (void)name;
    ++*(int *)context;
    return 0;
}

static fdb_error_t count_load(void *context, const keel_bulk_load *load) {
    (void)load;
    ++*(int *)context;
    return 0;
}

struct counts {
    const keel_directory *target;
    int directories, loads, keys;
    int64_t audits;
    char active[KEEL_BULK_NAME_MAX + 1];
    keel_subspace rows;
};

static fdb_error_t count_all(FDBTransaction *tr, void *context) {
    struct counts *counts = context;
    keel_subspace space, audit;
    keel_range range;
    const FDBKeyValue *found;
    fdb_bool_t more;
    counts->directories = counts->loads = 0;
    fdb_error_t error = keel_bulk_active(tr, counts->target, &counts->rows);
    if (!error)
        error = keel_bulk_active_name(tr, counts->target, counts->active);
    if (!error)
        error = keel_bulk_list(tr, counts->target, count_load, &counts->loads);
    if (!error)
        error = keel_directory_list(tr, counts->target, KEEL_PATH("load"), count_name, &counts->directories);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("audit"), &audit);
    if (!error)
        error = keel_log_count(tr, &audit, NULL, &counts->audits);
    if (!error)
        error = keel_directory_subspace(counts->target, &space);
    if (!error)
        error = keel_subspace_range(&space, KEEL_TUPLE(), &range);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 0, 0, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &found, &counts->keys, &more);
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t find_beside(FDBTransaction *tr, void *context) {
    struct counts *counts = context;
    return keel_bulk_rows(tr, counts->target, "uninterrupted", &counts->rows);
}

static fdb_error_t look_at(FDBTransaction *tr, void *context) {
    struct flip *what = ((void **)context)[0];
    return keel_bulk_look(tr, what->target, what->name, ((void **)context)[1]);
}

static fdb_error_t abandon_beside(FDBTransaction *tr, void *context) {
    return keel_bulk_abandon(tr, context, "uninterrupted");
}

/* The same input once more, in one go. */
static void judge_beside(FDBDatabase *database, const keel_directory *target, int number) {
    char name[40];
    keel_bulk *bulk = NULL;
    struct counts counts = {.target = target};
    keel_bulk_load killed, whole;
    name_of(number, name);
    must(keel_bulk_begin(database, target, "uninterrupted", NULL, &bulk), "begin");
    add_rows(bulk, number);
    must(keel_bulk_finish(bulk), "finish");
    keel_bulk_close(bulk);
    must(keel_run_read(database, find_beside, &counts), "rows");
    must(keel_run_read(database, look_at, (void *[]){&(struct flip){target, name}, &killed}), "look");
    must(keel_run_read(database, look_at, (void *[]){&(struct flip){target, "uninterrupted"}, &whole}), "look");
    judge(is_whole(database, &counts.rows, number), "an uninterrupted load has the same rows");
    judge(killed.rows == whole.rows && killed.pairs == whole.pairs && killed.bytes == whole.bytes &&
              killed.checksum == whole.checksum,
          "and the same sums are stored of both");
    must(keel_run(database, abandon_beside, (void *)target), "abandon");
    must(keel_bulk_cleanup(database, target, 0, NULL, NULL, NULL), "cleanup");
}

/* In a process of its own, so that the one that forks never has a database. */
static int judge_load(const char *path, int number) {
    keel_db *db = NULL;
    keel_directory *target = NULL;
    char name[40];
    struct counts counts = {.loads = 0};
    name_of(number, name);
    must(keel_open(path, &db), "open");
    must(keel_run(keel_fdb(db), open_target, &target), "target");
    counts.target = target;
    must(keel_run_read(keel_fdb(db), count_all, &counts), "count");
    judge(strcmp(counts.active, name) == 0, "the last load is the active one");
    judge(is_whole(keel_fdb(db), &counts.rows, number), "its rows are those of an uninterrupted load");
    judge(counts.loads == 1 && counts.directories == 1, "the replaced loads are gone");
    judge(counts.keys == 3, "nothing is left of their records");
    judge(counts.audits == number, "each activation was recorded once");
    judge_beside(keel_fdb(db), target, number);
    keel_directory_close(target);
    keel_close(db);
    return failed;
}

int main(int argc, char **argv) {
    int loads = argc > 2 ? atoi(argv[2]) : 4, kills = 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc < 2) {
        fprintf(stderr, "usage: bulk-kills DIRECTORY [LOADS [SEED]]\n");
        return 2;
    }
    printf("%d loads, seed %llu\n", loads, (unsigned long long)seed);
    fflush(stdout);
    for (int number = 1; number <= loads; number++) {
        int more = run_load(argv[1], number, &seed), status = 1;
        if (more < 0) {
            judge(false, "a load that is killed comes to its end");
            break;
        }
        kills += more;
        pid_t child = fork();
        if (child == 0) {
            int bad = judge_load(argv[1], number);
            fflush(stdout);
            _exit(bad);
        }
        waitpid(child, &status, 0);
        judge(status == 0, "the load is as it should be");
    }
    judge(kills >= loads, "there were kills");
    printf("%d kills\n%d passed, %d failed\n", kills, passed, failed);
    return failed != 0;
}
