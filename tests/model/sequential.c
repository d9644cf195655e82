/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random transactions from one thread, several open at a time and at different read versions, every
 * call compared with the naive reference: what it returns, and whether a commit conflicts. A seed
 * begins with an empty database; most run on one :memory: database, every sixteenth on a directory
 * that is closed and opened again now and then.
 *
 *     model-sequential [SEED]        one seed; or by KEEL_SEED and KEEL_ROUNDS
 *     KEEL_MODEL_PLANT=N …           the checker sees one altered result a seed, and must find it
 *     KEEL_MODEL_AGED=N …            only the aged seeds, N batches of them
 *
 * Aged seeds: databases that remember versions for a tenth of a second only, left alone for a while
 * between calls, so that what they read comes from their base and from their window.
 *
 * Every run begins by planting each kind of wrong result: a checker that cannot fail proves
 * nothing.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSIONS = 3,
    ROUNDS = 3000,
    TRACE_CALLS_MAX = 2000,
    FAILURES_SHOWN_MAX = 3,
    SEEDS_PER_PLANT_MAX = 300,
    SLOW_MS = 3000, /* after that a read version may have become too old: no finding */
    LIFETIME_MS = 5000,
    AGED_DATABASES = 16, /* the last quarter of them directories */
    AGED_PHASES = 3,
    AGED_LIFETIME_MS = 100,
    AGED_SLOW_MS = 50,
    AGED_PAUSE_MS = 800,
    SEEDS_PER_AGED_BATCH = 750,
};

/* What can be altered before the reference sees it. */
enum plant {
    PLANT_NONE,
    PLANT_VALUE,
    PLANT_ROW,
    PLANT_KEY,
    PLANT_READ_VERSION,
    PLANT_SPURIOUS_CONFLICT,
    PLANT_MISSED_CONFLICT,
    PLANT_END,
};

/* A database to run on. */
struct place {
    FDBDatabase *database;
    char path[512];
    bool on_disk;
    int64_t slow_ms;
    int lifetime_ms;
};

struct places {
    char scratch[400];
    struct place memory, directory;
    struct place aged[AGED_DATABASES];
};

struct run {
    struct place *place;
    uint64_t seed;
    enum plant plant; /* PLANT_NONE once it is planted */
    struct arena arena;
    struct random random;
    struct pool pool;
    struct history history;
    struct session sessions[SESSIONS];
    struct txn txns[SESSIONS];
    struct {
        int session;
        struct call call;
    } *trace;
    int trace_count;
    int64_t began_ms;
    bool slow; /* a version became too old */
};

static struct tally tally;

static FDBDatabase *open_database(const char *path) {
    FDBDatabase *database;
    fdb_error_t error = fdb_create_database(path, &database);
    if (error)
        die(path, error);
    return database;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- Planting --- */

static bool plant_in(struct run *run, struct call *call) {
    bool commit = call->kind == CALL_COMMIT && (call->error || call->committed_version >= 0);
    switch (run->plant) {
    case PLANT_VALUE:
        if (call->kind != CALL_GET || call->error || !call->present || !call->result.length)
            return false;
        ((uint8_t *)call->result.data)[call->result.length - 1] ^= 1;
        return true;
    case PLANT_ROW:
        if (call->kind != CALL_GET_RANGE || call->error || !call->rows.count || call->more)
            return false;
        call->rows.count--;
        return true;
    case PLANT_KEY:
        if (call->kind != CALL_GET_KEY || call->error)
            return false;
        call->result = text_after(&run->arena, call->result);
        return true;
    case PLANT_READ_VERSION:
        if (call->kind != CALL_READ_VERSION || call->error)
            return false;
        call->read_version--;
        return true;
    case PLANT_SPURIOUS_CONFLICT:
        if (!commit || call->error)
            return false;
        call->error = 1020;
        return true;
    case PLANT_MISSED_CONFLICT:
        if (!commit || call->error != 1020)
            return false;
        call->error = 0;
        call->committed_version = history_newest(&run->history)->version + 1;
        return true;
    default: return false;
    }
}

/* --- One seed --- */

static void choose_version(struct run *run, struct call *call) {
    const struct history *history = &run->history;
    int index = random_below(&run->random, history->state_count);
    if (random_below(&run->random, 2) && history->state_count > 3)
        index = history->state_count - 1 - random_below(&run->random, 3);
    const struct state *state = &history->states[index];
    call->kind = CALL_SET_READ_VERSION;
    call->version = state->version;
    if (index + 1 < history->state_count && random_below(&run->random, 2)) {
        int64_t span = state[1].version - state->version;
        call->version += random_below(&run->random, 2) ? span - 1
            : (int64_t)(random_next(&run->random) % (uint64_t)span);
    }
}

static void choose(struct run *run, struct session *session, struct call *call) {
    session_choose(session, call);
    int dice = random_below(&run->random, 100);
    if (!session->used && dice < 12)
        choose_version(run, call);
    else if (session->used && (dice < 10 || session->calls > 20))
        call->kind = CALL_COMMIT;
    else if (session->used && dice < 12)
        call->kind = CALL_ABANDON;
}

static const char *check_commit(struct run *run, struct txn *txn, const struct call *call) {
    const char *finding = txn_check(&run->history, txn, call);
    if (finding || txn->read_error || txn_is_read_only(txn))
        return finding;
    struct conflict_search search = {txn->has_version ? txn->version : INT64_MAX, INT64_MAX, 0,
                                     UINT64_MAX, call->error == 0};
    const struct commit *conflict = history_find_conflict(&run->history, txn, &search);
    if (call->error)
        return conflict ? NULL : "a conflict that nothing explains";
    if (conflict)
        return "a conflict was missed";
    return history_commit(&run->history, txn, call);
}

static const char *check(struct run *run, int index, struct call *call) {
    struct txn *txn = &run->txns[index];
    const char *finding = NULL;
    if (run->plant && plant_in(run, call))
        run->plant = PLANT_NONE;
    if (call->kind >= CALL_READ_VERSION && call->kind <= CALL_GET_RANGE && !txn->has_version &&
        !call->error &&
        call->read_version < history_newest(&run->history)->version)
        return "the read version is below the newest commit";
    if (call->kind == CALL_COMMIT)
        finding = check_commit(run, txn, call);
    else if (call->kind != CALL_ABANDON)
        finding = txn_check(&run->history, txn, call);
    if (call->kind == CALL_COMMIT || call->kind == CALL_ABANDON)
        txn_reset(txn);
    return finding;
}

/* Makes one call, and those that go on with a range read. */
static const char *step(struct run *run, int index, struct call *call) {
    struct session *session = &run->sessions[index];
    struct call next;
    for (;;) {
        session_execute(session, call);
        tally_add(&tally, call);
        if (run->trace_count < TRACE_CALLS_MAX) {
            run->trace[run->trace_count].session = index;
            run->trace[run->trace_count++].call = *call;
        }
        if (call->error == 1007 && now_ms() - run->began_ms >= run->place->slow_ms) {
            run->slow = true;
            return "too old";
        }
        const char *finding = check(run, index, call);
        if (finding)
            return finding;
        if (!call_continue(&run->arena, call, &next) || random_below(&run->random, 12) == 0)
            return NULL;
        *call = next;
    }
}

/* The database as a new transaction sees it is the newest state. */
static const char *audit(struct run *run, struct rows *rows, int64_t *version) {
    const struct state *newest = history_newest(&run->history);
    *rows = database_read_all(run->place->database, &run->arena, version);
    if (*version < newest->version)
        return "a new transaction reads below the newest commit";
    if (rows->count != newest->rows.count)
        return "the database holds another number of rows";
    for (int i = 0; i < rows->count; i++) {
        if (!text_equal(rows->array[i].key, newest->rows.array[i].key) ||
            !text_equal(rows->array[i].value, newest->rows.array[i].value))
            return "the database holds another row";
    }
    return NULL;
}

static void open_sessions(struct run *run) {
    for (int i = 0; i < SESSIONS; i++) {
        run->sessions[i] = (struct session){.arena = &run->arena, .pool = &run->pool,
                                            .random = &run->random};
        session_open(&run->sessions[i], run->place->database);
        txn_reset(&run->txns[i]);
    }
}

static void close_sessions(struct run *run) {
    for (int i = 0; i < SESSIONS; i++)
        session_close(&run->sessions[i]);
}

/* Begins the history anew with what the database holds, which must be the newest state. */
static const char *go_on(struct run *run) {
    struct rows rows;
    int64_t version;
    const char *finding = audit(run, &rows, &version);
    if (!finding)
        history_begin(&run->history, &run->arena, version, rows);
    run->began_ms = now_ms();
    return finding;
}

/* It opens with its first use, with the lifetime of then. */
static void open_again(struct place *place) {
    char lifetime[16];
    snprintf(lifetime, sizeof lifetime, "%d", place->lifetime_ms);
    setenv("KEEL_LIFETIME_MS", lifetime, 1);
    place->database = open_database(place->path);
}

/* Closes the directory and opens it again: everything is still there, and versions go on. */
static const char *reopen(struct run *run) {
    close_sessions(run);
    fdb_database_destroy(run->place->database);
    open_again(run->place);
    const char *finding = go_on(run);
    open_sessions(run);
    return finding;
}

/* Most seeds begin with some rows, by calls as any other. */
static const char *populate(struct run *run) {
    const char *finding = NULL;
    struct call call;
    int share = random_below(&run->random, 5);
    for (int i = 0; i < run->pool.count && !finding; i++) {
        if (random_below(&run->random, 4) >= share)
            continue;
        session_choose_row(&run->sessions[0], i, &call);
        finding = step(run, 0, &call);
    }
    if (finding)
        return finding;
    call = (struct call){.kind = CALL_COMMIT, .read_version = -1, .committed_version = -1};
    return step(run, 0, &call);
}

static const char *run_calls(struct run *run) {
    const char *finding = NULL;
    int steps = 20 + random_below(&run->random, 140);
    for (int i = 0; i < steps && !finding; i++) {
        int index = random_below(&run->random, SESSIONS);
        struct call call;
        choose(run, &run->sessions[index], &call);
        finding = step(run, index, &call);
        if (!finding && run->place->on_disk && random_below(&run->random, 60) == 0)
            finding = reopen(run);
    }
    return finding;
}

static void print_trace(const struct run *run, const char *program, const char *finding) {
    bool aged = run->place->slow_ms == AGED_SLOW_MS;
    printf("seed %llu, %s: %s\n", (unsigned long long)run->seed, run->place->path, finding);
    for (int i = 0; i < run->trace_count; i++) {
        printf("  t%d ", run->trace[i].session);
        call_print(stdout, &run->trace[i].call);
        printf("\n");
    }
    printf("again: %sKEEL_SEED=%llu KEEL_ROUNDS=1 %s\n", aged ? "KEEL_MODEL_AGED=1 " : "",
           (unsigned long long)run->seed, program);
}

static const char *run_begin(struct run *run, struct place *place, uint64_t seed) {
    *run = (struct run){.place = place, .seed = seed, .random = {seed}, .began_ms = now_ms()};
    run->trace = arena_take(&run->arena, TRACE_CALLS_MAX * sizeof *run->trace);
    pool_create(&run->pool, &run->arena, &run->random);
    int64_t version = database_clear(place->database);
    history_begin(&run->history, &run->arena, version, (struct rows){0});
    open_sessions(run);
    return populate(run);
}

/* True if the seed passed. `program` NULL: prints nothing. */
static bool run_end(struct run *run, const char *finding, const char *program) {
    struct rows rows;
    int64_t version;
    close_sessions(run);
    if (!finding)
        finding = audit(run, &rows, &version);
    if (run->slow)
        finding = NULL;
    if (finding && program)
        print_trace(run, program, finding);
    arena_free(&run->arena);
    return !finding;
}

static bool run_seed(struct places *places, uint64_t seed, enum plant plant, const char *program) {
    struct run run;
    const char *finding =
        run_begin(&run, seed % 16 == 15 ? &places->directory : &places->memory, seed);
    run.plant = plant;
    if (!finding)
        finding = run_calls(&run);
    return run_end(&run, finding, program);
}

/*
 * One seed for each of the databases that age, all left alone at the same time. Returns how many
 * failed.
 */
static int run_aged(struct places *places, uint64_t seed, const char *program) {
    static struct run runs[AGED_DATABASES];
    const char *findings[AGED_DATABASES];
    int failed = 0;
    for (int i = 0; i < AGED_DATABASES; i++)
        findings[i] = run_begin(&runs[i], &places->aged[i], seed + (uint64_t)i);
    for (int phase = 0; phase < AGED_PHASES; phase++) {
        usleep(AGED_PAUSE_MS * 1000);
        for (int i = 0; i < AGED_DATABASES; i++) {
            close_sessions(&runs[i]);
            if (!findings[i])
                findings[i] = go_on(&runs[i]);
            open_sessions(&runs[i]);
            if (!findings[i])
                findings[i] = run_calls(&runs[i]);
        }
    }
    for (int i = 0; i < AGED_DATABASES; i++)
        failed += !run_end(&runs[i], findings[i], program);
    return failed;
}

/* Plants every kind of wrong result until it is found. Returns how many never were. */
static int self_check(struct places *places) {
    int missed = 0;
    for (enum plant plant = PLANT_NONE + 1; plant < PLANT_END; plant++) {
        uint64_t seed = 1;
        while (seed < SEEDS_PER_PLANT_MAX && run_seed(places, seed, plant, NULL))
            seed++;
        if (seed == SEEDS_PER_PLANT_MAX) {
            printf("planted result %d was not found in %d seeds\n", plant, SEEDS_PER_PLANT_MAX);
            missed++;
        }
    }
    return missed;
}

static void place_open(struct place *place, const char *path, int lifetime_ms, int64_t slow_ms) {
    snprintf(place->path, sizeof place->path, "%s", path);
    place->on_disk = path[0] != ':';
    place->slow_ms = slow_ms;
    place->lifetime_ms = lifetime_ms;
    open_again(place);
    (void)database_clear(place->database);
}

static void places_open(struct places *places) {
    const char *directory = getenv("TMPDIR");
    char path[512];
    snprintf(places->scratch, sizeof places->scratch, "%s/keel-model-XXXXXX",
             directory ? directory : "/tmp");
    if (!mkdtemp(places->scratch))
        die("no temporary directory", 0);
    place_open(&places->memory, ":memory:", LIFETIME_MS, SLOW_MS);
    snprintf(path, sizeof path, "%s/young", places->scratch);
    place_open(&places->directory, path, LIFETIME_MS, SLOW_MS);
    for (int i = 0; i < AGED_DATABASES; i++) {
        snprintf(path, sizeof path, "%s/aged-%d", places->scratch, i);
        place_open(&places->aged[i], i < AGED_DATABASES * 3 / 4 ? ":memory:" : path, AGED_LIFETIME_MS, AGED_SLOW_MS);
    }
}

static void places_close(struct places *places, bool keep) {
    char command[500];
    fdb_database_destroy(places->memory.database);
    fdb_database_destroy(places->directory.database);
    for (int i = 0; i < AGED_DATABASES; i++)
        fdb_database_destroy(places->aged[i].database);
    snprintf(command, sizeof command, "rm -rf '%s'", places->scratch);
    if (!keep && system(command) != 0)
        printf("%s is left behind\n", places->scratch);
}

int main(int argc, char **argv) {
    struct places places;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : environment_number("KEEL_SEED", 1);
    uint64_t rounds = argc > 1 ? 1 : environment_number("KEEL_ROUNDS", ROUNDS);
    enum plant plant = (enum plant)environment_number("KEEL_MODEL_PLANT", PLANT_NONE);
    uint64_t aged = environment_number("KEEL_MODEL_AGED", 0);
    uint64_t passed = 0, failed = 0, batches = aged ? aged : rounds / SEEDS_PER_AGED_BATCH;
    network_start();
    places_open(&places);
    if (!plant && !aged && rounds > 1) {
        failed += (uint64_t)self_check(&places);
        passed += PLANT_END - 1 - failed;
    }
    for (uint64_t round = 0; round < rounds && !aged && failed < FAILURES_SHOWN_MAX; round++) {
        if (run_seed(&places, seed + round, plant, argv[0]))
            passed++;
        else
            failed++;
    }
    for (uint64_t i = 0; i < batches && !plant && failed < FAILURES_SHOWN_MAX; i++) {
        uint64_t found = (uint64_t)run_aged(&places, seed + i * AGED_DATABASES, argv[0]);
        failed += found;
        passed += AGED_DATABASES - found;
    }
    places_close(&places, failed > 0);
    network_stop();
    printf("seeds %llu to %llu\n", (unsigned long long)seed,
           (unsigned long long)(seed + rounds - 1));
    tally_print(&tally);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed ? 1 : 0;
}
