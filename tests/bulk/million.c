/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users imported and flipped while others read:  bulk-million DIRECTORY [USERS [FLIPS]]
 *
 * Each state has its own number of users, and every user carries the number of the state. While the next one is prepared,
 * activated and the last one removed, readers take what is active, each time in a transaction of its own, and check that it is
 * one complete state: some look at the first user, the last, the place behind the last and some in between; one reads all users.
 * A reader of all whose transaction becomes too old on a slow machine has seen nothing, and is counted apart.
 */
#include <keel/keel.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKERS = 2, LOOKS = 10, MORE_USERS = 7, NOT_WHOLE = 100000, TRANSACTION_TOO_OLD = 1007 };

static int64_t users_of_first;
static keel_db *db;
static keel_directory *target;
static atomic_bool done;
static atomic_long looked, read_whole, too_old, mixed;

static void must(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "million: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int64_t users_of(int64_t state) {
    return users_of_first + state * MORE_USERS;
}

/* ---- Readers ---- */

static FDBFuture *start(FDBTransaction *tr, const keel_subspace *users, int64_t id) {
    uint8_t key[64];
    size_t length;
    must(keel_subspace_pack(users, KEEL_TUPLE(id), key, sizeof key, &length), "pack");
    return fdb_transaction_get(tr, key, (int)length, 0);
}

/* The state that a user carries; -1: there is no such user. */
static fdb_error_t finish(FDBFuture *future, int64_t *state) {
    fdb_bool_t present = 0;
    const uint8_t *value;
    int length;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error && present)
        memcpy(state, value, sizeof *state);
    else
        *state = -1;
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t look(FDBTransaction *tr, void *context) {
    uint64_t *seed = context;
    keel_subspace users;
    int64_t state = -1, other;
    fdb_error_t error = keel_bulk_active(tr, target, &users);
    if (!error)
        error = finish(start(tr, &users, 0), &state);
    if (error)
        return error;
    if (state < 0)
        return NOT_WHOLE;
    FDBFuture *futures[LOOKS];
    for (int i = 0; i < LOOKS; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        int64_t id = i == 0 ? users_of(state) - 1 : i == 1 ? users_of(state) : (int64_t)(*seed >> 20) % users_of(state);
        futures[i] = start(tr, &users, id);
    }
    bool whole = true;
    for (int i = 0; i < LOOKS; i++) {
        fdb_error_t failed = finish(futures[i], &other);
        error = error ? error : failed;
        whole = whole && other == (i == 1 ? -1 : state);
    }
    return error ? error : whole ? 0 : NOT_WHOLE;
}

static void *look_all_the_time(void *context) {
    uint64_t seed = (uint64_t)(uintptr_t)context;
    while (!atomic_load(&done)) {
        fdb_error_t error = keel_run_read(keel_fdb(db), look, &seed);
        if (error == NOT_WHOLE)
            atomic_fetch_add(&mixed, 1);
        else
            must(error, "look");
        atomic_fetch_add(&looked, 1);
    }
    return NULL;
}

/* All users, in one transaction. */
static fdb_error_t read_all(FDBTransaction *tr) {
    keel_subspace users;
    keel_range range;
    int64_t state = -1, count = 0;
    fdb_bool_t more = 1;
    bool whole = true;
    fdb_error_t error = keel_bulk_active(tr, target, &users);
    if (!error)
        error = keel_subspace_range(&users, KEEL_TUPLE(), &range);
    while (!error && more) {
        const FDBKeyValue *rows;
        int rows_count = 0;
        FDBFuture *future = fdb_transaction_get_range(
            tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
            FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0, FDB_STREAMING_MODE_SERIAL, 0, 1, 0);
        error = keel_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &rows_count, &more);
        for (int i = 0; !error && i < rows_count; i++, count++) {
            if (count == 0)
                memcpy(&state, rows[i].value, sizeof state);
            whole = whole && memcmp(&state, rows[i].value, sizeof state) == 0;
        }
        if (!error && rows_count > 0) {
            memcpy(range.begin, rows[rows_count - 1].key, (size_t)rows[rows_count - 1].key_length);
            range.begin[rows[rows_count - 1].key_length] = 0;
            range.begin_length = (size_t)rows[rows_count - 1].key_length + 1;
        }
        fdb_future_destroy(future);
    }
    return error ? error : whole && count == users_of(state) ? 0 : NOT_WHOLE;
}

static void *read_all_the_time(void *context) {
    while (!atomic_load(&done)) {
        FDBTransaction *tr;
        must(fdb_database_create_transaction(keel_fdb(db), &tr), "transaction");
        fdb_error_t error = read_all(tr);
        fdb_transaction_destroy(tr);
        if (error == NOT_WHOLE)
            atomic_fetch_add(&mixed, 1);
        else if (error == TRANSACTION_TOO_OLD)
            atomic_fetch_add(&too_old, 1);
        else
            must(error, "read all");
        if (!error)
            atomic_fetch_add(&read_whole, 1);
    }
    return context;
}

/* ---- The writer ---- */

static fdb_error_t open_target(FDBTransaction *tr, void *context) {
    return keel_directory_create_or_open(tr, NULL, KEEL_PATH("million", "users"), KEEL_NO_LAYER, context);
}

static fdb_error_t flip(FDBTransaction *tr, void *context) {
    return keel_bulk_activate(tr, target, context);
}

static void import(int64_t state) {
    keel_bulk *bulk = NULL;
    char name[40];
    snprintf(name, sizeof name, "state %lld", (long long)state);
    must(keel_bulk_begin(keel_fdb(db), target, name, NULL, &bulk), "begin");
    double begun = now();
    for (int64_t id = 0; id < users_of(state); id++) {
        uint8_t key[32];
        struct {
            int64_t state;
            char rest[72];
        } user = {.state = state};
        size_t length;
        snprintf(user.rest, sizeof user.rest, "user %lld, who has a name and an address", (long long)id);
        must(keel_tuple_pack(KEEL_TUPLE(id), key, sizeof key, &length), "pack");
        must(keel_bulk_set(bulk, keel_bytes_of(key, length), keel_bytes_of(&user, sizeof user)), "set");
        must(keel_bulk_row(bulk, keel_bytes_of(&id, sizeof id)), "row");
    }
    must(keel_bulk_finish(bulk), "finish");
    keel_bulk_close(bulk);
    must(keel_bulk_validate(keel_fdb(db), target, name, NULL, NULL, NULL), "validate");
    must(keel_run(keel_fdb(db), flip, name), "flip");
    printf("%lld users imported, validated and activated in %.1f s\n", (long long)users_of(state), now() - begun);
    fflush(stdout);
    must(keel_bulk_cleanup(keel_fdb(db), target, 0, NULL, NULL, NULL), "cleanup");
}

int main(int argc, char **argv) {
    pthread_t threads[LOOKERS + 1];
    int flips = argc > 3 ? atoi(argv[3]) : 3;
    users_of_first = argc > 2 ? atoll(argv[2]) : 1000000;
    if (argc < 2) {
        fprintf(stderr, "usage: bulk-million DIRECTORY [USERS [FLIPS]]\n");
        return 2;
    }
    must(keel_open(argv[1], &db), "open");
    must(keel_run(keel_fdb(db), open_target, &target), "target");
    import(0);
    for (int i = 0; i <= LOOKERS; i++)
        if (pthread_create(&threads[i], NULL, i ? look_all_the_time : read_all_the_time, (void *)(uintptr_t)(i + 1)) != 0)
            return 1;
    for (int64_t state = 1; state <= flips; state++)
        import(state);
    while (atomic_load(&read_whole) == 0 && atomic_load(&mixed) == 0 && atomic_load(&too_old) < 3) {
        struct timespec moment = {0, 10000000};
        nanosleep(&moment, NULL);
    }
    atomic_store(&done, true);
    for (int i = 0; i <= LOOKERS; i++)
        pthread_join(threads[i], NULL);
    printf("looked %ld times, read all users %ld times (%ld transactions too old), not one state: %ld\n", looked, read_whole, too_old,
           mixed);
    bool good = looked > 0 && mixed == 0;
    printf("%d passed, %d failed\n", good, !good);
    keel_directory_close(target);
    keel_close(db);
    return !good;
}
