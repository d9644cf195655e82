/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random transactions from many threads on one database, recorded call by call, and judged
 * afterwards by replaying them in the order of their commit versions and batch orders:
 *
 *   1. No two commits share a version and order, and applied in that order they leave exactly what
 *      the database holds at the end.
 *   2. Every read returned what the state at its read version, with the transaction's own writes,
 *      must return.
 *   3. No commit missed a conflict: nothing it read was written between its read version and its
 *      own place in the order.
 *   4. Every conflict is explained by a commit above its read version that wrote what it read and
 *      had begun before the conflict was reported.
 *   5. Real time is kept: a transaction that asked for its read version after a commit was
 *      acknowledged reads at or above it; a commit that began after a read version was known, or
 *      after another commit was acknowledged, is above that.
 *
 *     model-concurrent [SEED]        one seed; or by KEEL_SEED and KEEL_ROUNDS
 *     KEEL_MODEL_PLANT=N …           the judge sees one altered record a seed, and must find it
 *
 *     KEEL_MODEL_AGED=N …            only the aged seeds, N of them
 *
 * Aged seeds: databases that remember versions for a tenth of a second only, used for much longer
 * than that, so that checkpoints go on under the readers.
 *
 * Crowds: every eighth seed has many threads, in a directory, that wait for their commits by
 * callbacks, so that a batch has several commits and the next is prepared while it is synced.
 *
 * A seed fixes what each thread does; how the threads meet differs from run to run.
 */
#include "model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 4,
    CROWD_THREADS = 24,
    CROWD_TRANSACTIONS = 20,
    SEEDS_PER_CROWD = 8,
    TRANSACTIONS = 60, /* of each thread */
    CALLS_MAX = 12,
    ROUNDS = 200,
    FAILURES_SHOWN_MAX = 3,
    SEEDS_PER_PLANT_MAX = 40,
    VERSIONS_KEPT = 16,
    SLOW_MS = 3000, /* after that a read version may have become too old: no finding */
    AGED_LIFETIME_MS = 100,
    AGED_SLOW_MS = 50,
    AGED_PAUSE_US_MAX = 40000, /* between transactions: a seed outlives many lifetimes */
    SEEDS_PER_AGED = 50,
};

enum plant {
    PLANT_NONE,
    PLANT_VALUE,
    PLANT_READ_VERSION,
    PLANT_COMMIT_ORDER,
    PLANT_SPURIOUS_CONFLICT,
    PLANT_MISSED_CONFLICT,
    PLANT_END,
};

/* One transaction as it happened: its calls, the last of them a commit or an abandonment. */
struct record {
    int thread;
    struct call *calls;
    int count, capacity;
    const struct call *version_call; /* the one that got its read version, or NULL */
    bool version_was_set;
    int64_t began_ms, ended_ms;
    struct txn txn;
};

struct worker {
    pthread_t thread;
    int number;
    FDBDatabase *database;
    bool aged, by_callback;
    int transactions;
    struct arena arena;
    struct random random;
    struct pool *pool;
    struct record records[TRANSACTIONS];
    int64_t versions[VERSIONS_KEPT]; /* seen by this thread: can be read at again */
    int version_count;
};

struct judge {
    struct arena arena;
    struct pool pool;
    struct history history;
    struct worker workers[CROWD_THREADS];
    int threads, transactions; /* of each */
    struct record **records; /* of all threads */
    int record_count;
    struct record **committed; /* in commit order, read-only ones left out */
    int committed_count;
    const struct record *guilty; /* whose finding it is */
    int64_t slow_ms; /* a transaction that took longer may be too old */
};

static struct tally tally;

static struct call *last_call(const struct record *record) {
    return &record->calls[record->count - 1];
}

static bool has_committed(const struct record *record) {
    const struct call *call = last_call(record);
    return call->kind == CALL_COMMIT && !call->error && call->committed_version >= 0;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- The threads --- */

static void remember_version(struct worker *worker, int64_t version) {
    worker->versions[worker->version_count++ % VERSIONS_KEPT] = version;
}

static void record_call(struct worker *worker, struct record *record, struct session *session,
                        struct call *call) {
    bool known = session->version_known;
    session_execute(session, call);
    record->calls = arena_grow(&worker->arena, record->calls, record->count, &record->capacity,
                               sizeof *record->calls);
    record->calls[record->count++] = *call;
    if (!known && call->kind == CALL_SET_READ_VERSION)
        record->version_was_set = true;
    else if (!known && call->read_version >= 0)
        remember_version(worker, call->read_version);
    if (call->kind == CALL_COMMIT && call->committed_version >= 0)
        remember_version(worker, call->committed_version);
}

static void run_transaction(struct worker *worker, struct session *session, struct record *record) {
    int calls = 1 + random_below(&worker->random, CALLS_MAX);
    struct call call;
    record->began_ms = now_ms();
    for (int i = 0; i < calls; i++) {
        session_choose(session, &call);
        if (i == 0 && worker->version_count && random_below(&worker->random, 12) == 0) {
            int known = worker->version_count;
            known = known < VERSIONS_KEPT ? known : VERSIONS_KEPT;
            call.kind = CALL_SET_READ_VERSION;
            call.version = worker->versions[random_below(&worker->random, known)];
        } else if (call.kind == CALL_CONFLICT && !session->version_known) {
            call.kind = CALL_READ_VERSION; /* so that the version it is checked against is known */
        }
        record_call(worker, record, session, &call);
        if (call.error && call.error != 1036)
            break;
    }
    call = (struct call){.kind = CALL_COMMIT, .read_version = -1, .committed_version = -1};
    if (random_below(&worker->random, 12) == 0)
        call.kind = CALL_ABANDON;
    record_call(worker, record, session, &call);
    record->ended_ms = now_ms();
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct session session = {.arena = &worker->arena, .pool = worker->pool,
                              .random = &worker->random, .by_callback = worker->by_callback};
    session_open(&session, worker->database);
    for (int i = 0; i < worker->transactions; i++) {
        worker->records[i].thread = worker->number;
        run_transaction(worker, &session, &worker->records[i]);
        if (worker->aged)
            usleep((unsigned)random_below(&worker->random, AGED_PAUSE_US_MAX));
    }
    session_close(&session);
    return NULL;
}

/* --- The judge --- */

static int commit_order(const void *a, const void *b) {
    const struct call *x = last_call(*(struct record *const *)a),
        *y = last_call(*(struct record *const *)b);
    int order = memcmp(x->stamp, y->stamp, sizeof x->stamp);
    return order ? order : (x->started > y->started) - (x->started < y->started);
}

static void gather(struct judge *judge) {
    size_t count = (size_t)(judge->threads * judge->transactions);
    judge->records = arena_take(&judge->arena, count * sizeof *judge->records);
    judge->committed = arena_take(&judge->arena, count * sizeof *judge->committed);
    for (int thread = 0; thread < judge->threads; thread++) {
        for (int i = 0; i < judge->transactions; i++) {
            struct record *record = &judge->workers[thread].records[i];
            judge->records[judge->record_count++] = record;
            if (has_committed(record))
                judge->committed[judge->committed_count++] = record;
            for (int call = 0; call < record->count; call++) {
                tally_add(&tally, &record->calls[call]);
                if (!record->version_was_set && !record->version_call &&
                    record->calls[call].read_version >= 0)
                    record->version_call = &record->calls[call];
            }
        }
    }
    qsort(judge->committed, (size_t)judge->committed_count, sizeof *judge->committed, commit_order);
}

/* Rule 1, first half: the states, from the writes alone. */
static const char *build_history(struct judge *judge) {
    for (int i = 0; i < judge->committed_count; i++) {
        struct record *record = judge->committed[i];
        struct txn txn;
        judge->guilty = record;
        txn_reset(&txn);
        for (int call = 0; call < record->count; call++)
            txn_note(&judge->history, &txn, &record->calls[call]);
        const char *finding = history_commit(&judge->history, &txn, last_call(record));
        if (finding)
            return finding;
    }
    return NULL;
}

/* Rules 3 and 4. */
static const char *check_outcome(const struct judge *judge, const struct record *record) {
    const struct call *commit = last_call(record);
    const struct txn *txn = &record->txn;
    if (commit->kind != CALL_COMMIT || commit->error == 1007 || txn->read_error || txn_is_read_only(txn))
        return NULL;
    int order = commit->stamp[8] << 8 | commit->stamp[9];
    struct conflict_search search = {txn->version, commit->committed_version, order, UINT64_MAX,
                                     true};
    if (commit->error)
        search = (struct conflict_search){txn->version, INT64_MAX, 0, commit->ended, false};
    if (!txn->has_version)
        return commit->error ? "a conflict without a read" : NULL;
    const struct commit *conflict = history_find_conflict(&judge->history, txn, &search);
    if (commit->error)
        return conflict ? NULL : "a conflict that nothing explains";
    return conflict ? "a conflict was missed" : NULL;
}

/* Whether a transaction may find its version too old. */
static bool may_be_old(const struct judge *judge, const struct record *record) {
    return record->version_was_set || record->ended_ms - record->began_ms >= judge->slow_ms;
}

/* Rules 2 to 4, for one transaction. */
static const char *check_record(struct judge *judge, struct record *record) {
    txn_reset(&record->txn);
    for (int i = 0; i < record->count; i++) {
        if (record->calls[i].kind == CALL_ABANDON)
            return NULL;
        if (record->calls[i].error == 1007 && may_be_old(judge, record))
            continue; /* no answer, no conflict range */
        const char *finding = txn_check(&judge->history, &record->txn, &record->calls[i]);
        if (finding)
            return finding;
    }
    return check_outcome(judge, record);
}

/* Rule 5. Quadratic, and plain. */
static const char *check_real_time(const struct judge *judge, const struct record *record) {
    const struct call *got = record->version_call, *own = last_call(record);
    bool commits = has_committed(record);
    for (int i = 0; i < judge->committed_count; i++) {
        const struct call *other = last_call(judge->committed[i]);
        if (got && other->ended < got->started && other->committed_version > got->read_version)
            return "it reads below a commit that was acknowledged before it asked for its version";
        if (got && other->started > got->ended && other->committed_version <= got->read_version)
            return "a commit that began later is at or below its read version";
        if (commits && other->ended < own->started &&
            other->committed_version >= own->committed_version)
            return "it committed below a commit that was acknowledged before";
    }
    return NULL;
}

/* Rule 1, second half. */
static const char *check_end(struct judge *judge, FDBDatabase *database) {
    int64_t version;
    struct rows rows = database_read_all(database, &judge->arena, &version),
        expected = history_newest(&judge->history)->rows;
    judge->guilty = NULL;
    if (rows.count != expected.count)
        return "the database ends with another number of rows";
    for (int i = 0; i < rows.count; i++) {
        if (!text_equal(rows.array[i].key, expected.array[i].key) ||
            !text_equal(rows.array[i].value, expected.array[i].value))
            return "the database ends with another row";
    }
    return NULL;
}

static const char *judge_all(struct judge *judge, FDBDatabase *database) {
    const char *finding = build_history(judge);
    for (int i = 0; i < judge->record_count && !finding; i++) {
        judge->guilty = judge->records[i];
        finding = check_record(judge, judge->records[i]);
        if (!finding)
            finding = check_real_time(judge, judge->records[i]);
    }
    return finding ? finding : check_end(judge, database);
}

/* --- Planting --- */

static bool plant_in(enum plant plant, struct record *record) {
    for (int i = 0; i < record->count; i++) {
        struct call *call = &record->calls[i];
        if (plant == PLANT_VALUE && call->kind == CALL_GET && !call->error && call->present &&
            call->result.length) {
            ((uint8_t *)call->result.data)[0] ^= 1;
            return true;
        }
        bool commit = call->kind == CALL_COMMIT;
        if (plant == PLANT_SPURIOUS_CONFLICT && commit && !call->error &&
            call->committed_version >= 0 && !record->version_call) {
            call->error = 1020;
            return true;
        }
        if (plant == PLANT_MISSED_CONFLICT && commit && call->error == 1020) {
            call->error = 0; /* as if it had committed at once after all others */
            memset(call->stamp, 0x7f, sizeof call->stamp);
            call->stamped = true;
            call->committed_version = 0x7f7f7f7f7f7f7f7f;
            return true;
        }
    }
    return false;
}

/*
 * Alters the first record that can be altered; those of whole transactions look at the committed
 * ones.
 */
static void plant_one(struct judge *judge, enum plant plant) {
    for (int i = judge->record_count / 2; i < judge->record_count; i++) {
        struct record *record = judge->records[i];
        const struct call *commit = last_call(record);
        if (plant == PLANT_READ_VERSION && record->version_call &&
            record->version_call->read_version > 0 && i > judge->threads) {
            for (int call = 0; call < record->count; call++)
                record->calls[call].read_version = judge->history.states[0].version;
            return;
        }
        if (plant == PLANT_COMMIT_ORDER && has_committed(record) && i > 0) {
            struct record *other = judge->committed[0];
            memcpy(last_call(record)->stamp, last_call(other)->stamp, sizeof commit->stamp);
            last_call(record)->committed_version = last_call(other)->committed_version;
            return;
        }
        if (plant_in(plant, record))
            return;
    }
}

/* --- One seed --- */

static void print_record(const struct record *record) {
    printf("  thread %d:\n", record->thread);
    for (int i = 0; i < record->count; i++) {
        printf("    [%llu..%llu] ", (unsigned long long)record->calls[i].started,
               (unsigned long long)record->calls[i].ended);
        call_print(stdout, &record->calls[i]);
        printf("\n");
    }
}

static void print_finding(const struct judge *judge, uint64_t seed, const char *program,
                          const char *finding) {
    printf("seed %llu: %s\n", (unsigned long long)seed, finding);
    if (judge->guilty) {
        print_record(judge->guilty);
        printf("  the commits above its read version:\n");
    }
    for (int i = 0; i < judge->committed_count; i++) {
        const struct record *record = judge->committed[i];
        if (record != judge->guilty &&
            (!judge->guilty || last_call(record)->committed_version > judge->guilty->txn.version))
            print_record(record);
    }
    printf("again: %sKEEL_SEED=%llu KEEL_ROUNDS=1 %s\n",
           judge->slow_ms == AGED_SLOW_MS ? "KEEL_MODEL_AGED=1 " : "", (unsigned long long)seed,
           program);
}

static void run_threads(struct judge *judge, FDBDatabase *database, uint64_t seed) {
    bool aged = judge->slow_ms == AGED_SLOW_MS;
    for (int i = 0; i < judge->threads; i++) {
        struct worker *worker = &judge->workers[i];
        worker->number = i;
        worker->database = database;
        worker->aged = aged;
        worker->by_callback = judge->threads == CROWD_THREADS;
        worker->transactions = judge->transactions;
        worker->random.state = seed * 1000003 + (uint64_t)i;
        worker->pool = &judge->pool;
        if (pthread_create(&worker->thread, NULL, work, worker))
            die("no thread", 0);
    }
    for (int i = 0; i < judge->threads; i++)
        pthread_join(judge->workers[i].thread, NULL);
}

/* True if the seed passed. `program` NULL: prints nothing. */
static bool run_seed(FDBDatabase *database, int64_t slow_ms, bool crowd, uint64_t seed,
                     enum plant plant, const char *program) {
    struct judge *judge = calloc(1, sizeof *judge);
    struct random random = {seed};
    if (!judge)
        die("out of memory", 0);
    judge->slow_ms = slow_ms;
    judge->threads = crowd ? CROWD_THREADS : THREADS;
    judge->transactions = crowd ? CROWD_TRANSACTIONS : TRANSACTIONS;
    pool_create(&judge->pool, &judge->arena, &random);
    int64_t version = database_clear(database);
    history_begin(&judge->history, &judge->arena, version, (struct rows){0});
    run_threads(judge, database, seed);
    gather(judge);
    if (plant) {
        plant_one(judge, plant);
        judge->record_count = judge->committed_count = 0;
        gather(judge);
    }
    const char *finding = judge_all(judge, database);
    if (finding && program)
        print_finding(judge, seed, program, finding);
    for (int i = 0; i < judge->threads; i++)
        arena_free(&judge->workers[i].arena);
    arena_free(&judge->arena);
    free(judge);
    return !finding;
}

/* Plants every kind of wrong record until it is found. Returns how many never were. */
static int self_check(FDBDatabase *database) {
    int missed = 0;
    for (enum plant plant = PLANT_NONE + 1; plant < PLANT_END; plant++) {
        uint64_t seed = 1;
        while (seed < SEEDS_PER_PLANT_MAX && run_seed(database, SLOW_MS, false, seed, plant, NULL))
            seed++;
        if (seed == SEEDS_PER_PLANT_MAX) {
            printf("planted record %d was not found in %d seeds\n", plant, SEEDS_PER_PLANT_MAX);
            missed++;
        }
    }
    return missed;
}

static FDBDatabase *open_database(const char *path) {
    FDBDatabase *database;
    fdb_error_t error = fdb_create_database(path, &database);
    if (error)
        die(path, error);
    (void)database_clear(database); /* opened now, with the lifetime of now */
    return database;
}

struct places {
    char scratch[400];
    FDBDatabase *memory, *directory;
    FDBDatabase *aged_memory, *aged_directory;
};

static void places_open(struct places *places) {
    const char *scratch = getenv("TMPDIR");
    char path[512], lifetime[16];
    snprintf(places->scratch, sizeof places->scratch, "%s/keel-model-XXXXXX",
             scratch ? scratch : "/tmp");
    if (!mkdtemp(places->scratch))
        die("no temporary directory", 0);
    places->memory = open_database(":memory:");
    snprintf(path, sizeof path, "%s/young", places->scratch);
    places->directory = open_database(path);
    snprintf(lifetime, sizeof lifetime, "%d", AGED_LIFETIME_MS);
    setenv("KEEL_LIFETIME_MS", lifetime, 1);
    places->aged_memory = open_database(":memory:");
    snprintf(path, sizeof path, "%s/aged", places->scratch);
    places->aged_directory = open_database(path);
}

static void places_close(struct places *places, bool keep) {
    char command[500];
    fdb_database_destroy(places->memory);
    fdb_database_destroy(places->directory);
    fdb_database_destroy(places->aged_memory);
    fdb_database_destroy(places->aged_directory);
    snprintf(command, sizeof command, "rm -rf '%s'", places->scratch);
    if (!keep && system(command) != 0)
        printf("%s is left behind\n", places->scratch);
}

int main(int argc, char **argv) {
    struct places places;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : environment_number("KEEL_SEED", 1);
    uint64_t rounds = argc > 1 ? 1 : environment_number("KEEL_ROUNDS", ROUNDS);
    enum plant plant = (enum plant)environment_number("KEEL_MODEL_PLANT", PLANT_NONE);
    uint64_t aged_only = environment_number("KEEL_MODEL_AGED", 0);
    uint64_t aged = aged_only ? aged_only : rounds / SEEDS_PER_AGED;
    uint64_t passed = 0, failed = 0;
    network_start();
    places_open(&places);
    if (!plant && !aged_only && rounds > 1) {
        failed += (uint64_t)self_check(places.memory);
        passed += PLANT_END - 1 - failed;
    }
    for (uint64_t i = seed; i < seed + (aged_only ? 0 : rounds) &&
         failed < FAILURES_SHOWN_MAX; i++) {
        FDBDatabase *database = i % 4 == 3 ? places.directory : places.memory;
        bool crowd = i % SEEDS_PER_CROWD == 3;
        bool good = run_seed(database, SLOW_MS, crowd, i, plant, argv[0]);
        passed += good;
        failed += !good;
    }
    for (uint64_t i = seed; i < seed + aged && failed < FAILURES_SHOWN_MAX; i++) {
        FDBDatabase *database = i % 2 ? places.aged_memory : places.aged_directory;
        bool good = run_seed(database, AGED_SLOW_MS, false, i, plant, argv[0]);
        passed += good;
        failed += !good;
    }
    places_close(&places, failed > 0);
    network_stop();
    printf("seeds %llu to %llu\n", (unsigned long long)seed,
           (unsigned long long)(seed + rounds - 1));
    tally_print(&tally);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed ? 1 : 0;
}
