/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The high-contention allocator of the directory layer.
 *
 * A counter would make every two transactions that allocate conflict. Instead integers are drawn at
 * random from a window that is at most half full, so that two transactions rarely draw the same,
 * and the window moves up as it fills: at any time the integers, and with them the packed keys, are
 * nearly as short as they can be.
 *
 * In the database, under the allocator's prefix:
 *
 *     prefix (0, start)    → draws from the window that begins at `start`: 8 bytes, little-endian
 *     prefix (1, integer)  → ""    taken, or at least tried, in the current window
 *
 *                 start       start + size
 *     ─ ─ ─ ─ ─ ─ ─┼───────────────┼─ ─ ─     the keys of windows that are given up are cleared;
 *      given up    │ x  xx  x    x │  next    what was drawn there stays taken
 *
 * Sizes: 64 for a start below 255, 1024 below 65535, 8192 beyond, so that one-byte and two-byte
 * integers are not used up in a few windows.
 *
 * One allocation:
 *
 *   1. Find the window: the last counter, 0 if there is none (snapshot).
 *   2. Count: add 1 to its counter and read that (snapshot, and the own additions are seen). If the
 *      window is half full, go to the next one, clear all counters and takings below, count again.
 *   3. Draw: a random integer of the window. Read whether it is taken (this read conflicts), mark
 *      it taken without a write conflict, and read the last counter again (snapshot). A newer
 *      window: start over. Taken: draw again.
 *   4. It is ours: add the write conflict for it alone.
 *
 * Why this is right: two transactions that take the same integer have both read its key, and both
 * announce a write of it: the later one fails. Marking in step 3 announces nothing, so drawing an
 * integer that is taken harms nobody. All reads of counters are snapshot reads, so counting, which
 * all do, conflicts with nothing. Clearing the counters does announce a write (harmless: nobody
 * reads them with conflicts); clearing the takings must not, or a window that moves would make all
 * others fail that have drawn from it. An integer of a window that was given up cannot be drawn any
 * more by a transaction that sees the newer counter; one that does not see it was started before
 * and has read a taken key or conflicts with its taker.
 *
 * Invariant: after a commit, at least as many draws are counted for a window as there are takings
 * in it.
 *
 * Threads: the option "the next write announces nothing" belongs to the transaction, so setting it
 * and writing must not be interrupted by another allocation in the same transaction, nor may two
 * draws of the same integer in one transaction both read before either marks. A lock per
 * transaction would do; there is one for each remainder of the transaction's address.
 *
 * Failure: what was marked and counted stays in the transaction; allocating again is safe, one
 * integer is wasted.
 */
#include "allocator.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_COUNT = 61, WINDOW_MAX = 8192, DRAWS_MAX = 1024 };

static pthread_mutex_t locks[LOCK_COUNT];
static pthread_once_t locks_once = PTHREAD_ONCE_INIT;

static void locks_init(void) {
    for (int i = 0; i < LOCK_COUNT; i++)
        pthread_mutex_init(&locks[i], NULL);
}

static pthread_mutex_t *lock_of(const FDBTransaction *tr) {
    pthread_once(&locks_once, locks_init);
    return &locks[((uintptr_t)tr >> 4) % LOCK_COUNT];
}

/* ---- Random numbers ---- */

/* Not a secret, only different in every thread and process: xorshift64*. */
static uint64_t random_bits(void) {
    static _Thread_local uint64_t state;
    while (state == 0) {
        if (getentropy(&state, sizeof state) != 0) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            state = (uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)&state ^ (uint64_t)getpid() << 32;
        }
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1dULL) >> 32;
}

/* ---- The allocator ---- */

static int64_t window_size(int64_t start) {
    if (start < 255)
        return 64;
    return start < 65535 ? 1024 : WINDOW_MAX;
}

/* The keys of an allocator; one is built at a time, in `key` and `other`. */
struct allocation {
    FDBTransaction *tr;
    pthread_mutex_t *lock;
    struct directory_key counters;                     /* (0) */
    struct directory_key counters_begin, counters_end; /* the range of all of them */
    struct directory_key takings;                      /* (1) */
    struct directory_key key, other;
    int64_t start, size;
};

static void allocation_init(struct allocation *a, FDBTransaction *tr, keel_bytes prefix) {
    a->tr = tr;
    a->lock = lock_of(tr);
    struct directory_key *all[] = {&a->counters, &a->counters_begin, &a->counters_end, &a->takings,
                                   &a->key,      &a->other};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        directory_key_init(all[i]);
    for (size_t i = 0; i < 4; i++) {
        directory_key_append(all[i], prefix);
        directory_key_append_integer(all[i], i == 3);
    }
    directory_key_append_byte(&a->counters_begin, 0x00);
    directory_key_append_byte(&a->counters_end, 0xff);
}

static void allocation_free(struct allocation *a) {
    struct directory_key *all[] = {&a->counters, &a->counters_begin, &a->counters_end, &a->takings,
                                   &a->key,      &a->other};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        directory_key_free(all[i]);
}

static void build(struct directory_key *key, const struct directory_key *under, int64_t integer) {
    directory_key_reset(key);
    directory_key_append(key, directory_key_bytes(under));
    directory_key_append_integer(key, integer);
}

static FDBFuture *start_last_counter(const struct allocation *a) {
    return directory_read_one(a->tr, &a->counters_begin, &a->counters_end, true, true);
}

/* Where the newest window starts; 0 if there is no counter. */
static fdb_error_t wait_last_counter(const struct allocation *a, FDBFuture *future,
                                     int64_t *start) {
    const FDBKeyValue *pairs;
    int count;
    bool more;
    fdb_error_t error = directory_wait_pairs(future, &pairs, &count, &more);
    if (error)
        return error;
    if (count == 0) {
        *start = 0;
        return 0;
    }
    keel_bytes key = {pairs[0].key, (size_t)pairs[0].key_length};
    keel_tuple_iterator iterator = keel_tuple_iterate_behind(key, a->counters.length);
    int64_t found;
    error = keel_tuple_next_int(&iterator, &found);
    if (!error && found > INT64_MAX - 2 * WINDOW_MAX)
        error = KEEL_ERROR_INTEGER_TOO_LARGE;
    if (!error)
        *start = found;
    return error;
}

/* No write conflict for the write that comes next. REQUIRES: the lock. */
static fdb_error_t announce_nothing(const struct allocation *a) {
    return fdb_transaction_set_option(a->tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, NULL,
                                      0);
}

static void clear_between(const struct allocation *a, const struct directory_key *begin,
                          const struct directory_key *end) {
    fdb_transaction_clear_range(a->tr, begin->data, (int)begin->length, end->data,
                                (int)end->length);
}

/* Clears what windows below the current one have left. REQUIRES: the lock; `key` is the current
 * counter. */
static fdb_error_t clear_old(struct allocation *a) {
    build(&a->other, &a->takings, a->start);
    if (a->other.error)
        return a->other.error;
    clear_between(a, &a->counters, &a->key);
    fdb_error_t error = announce_nothing(a);
    if (!error)
        clear_between(a, &a->takings, &a->other);
    return error;
}

/* Adds 1 to the counter of the current window and starts reading it. */
static fdb_error_t start_count(struct allocation *a, bool moved, FDBFuture **future) {
    static const uint8_t one[8] = {1};
    fdb_error_t error = 0;
    build(&a->key, &a->counters, a->start);
    if (a->key.error)
        return a->key.error;
    pthread_mutex_lock(a->lock);
    if (moved)
        error = clear_old(a);
    if (!error) {
        fdb_transaction_atomic_op(a->tr, a->key.data, (int)a->key.length, one, sizeof one,
                                  FDB_MUTATION_TYPE_ADD);
        *future = directory_read_key(a->tr, &a->key, true);
    }
    pthread_mutex_unlock(a->lock);
    return error;
}

static fdb_error_t count_draw(struct allocation *a, bool moved, int64_t *drawn) {
    FDBFuture *future = NULL;
    bool present;
    keel_bytes value;
    fdb_error_t error = start_count(a, moved, &future);
    if (!error)
        error = directory_wait_value(future, &present, &value);
    if (!error) {
        uint64_t bits = 0;
        for (size_t i = 0; i < value.length && i < 8; i++)
            bits |= (uint64_t)value.data[i] << (8 * i);
        *drawn = (int64_t)bits;
    }
    directory_future_drop(&future);
    return error;
}

/* Step 2: from `start` on, the first window that is less than half full. */
static fdb_error_t choose_window(struct allocation *a, bool moved) {
    for (;; moved = true) {
        int64_t drawn;
        fdb_error_t error = count_draw(a, moved, &drawn);
        if (error)
            return error;
        a->size = window_size(a->start);
        if (drawn < a->size / 2)
            return 0;
        if (a->start > INT64_MAX - 2 * WINDOW_MAX)
            return KEEL_ERROR_INTEGER_TOO_LARGE;
        a->start += a->size;
    }
}

/* Starts the two reads of a draw and marks the integer, whose key is in `key`. */
static fdb_error_t start_draw(struct allocation *a, FDBFuture **last_counter, FDBFuture **taken) {
    pthread_mutex_lock(a->lock);
    *last_counter = start_last_counter(a);
    *taken = directory_read_key(a->tr, &a->key, false);
    fdb_error_t error = announce_nothing(a);
    if (!error)
        fdb_transaction_set(a->tr, a->key.data, (int)a->key.length, (const uint8_t *)"", 0);
    pthread_mutex_unlock(a->lock);
    return error;
}

enum draw { DRAW_OURS, DRAW_TAKEN, DRAW_OLD_WINDOW };

/* Step 3, once. */
static fdb_error_t draw(struct allocation *a, int64_t integer, enum draw *outcome) {
    FDBFuture *last_counter = NULL, *taken = NULL;
    int64_t newest;
    bool is_taken;
    keel_bytes value;
    build(&a->key, &a->takings, integer);
    fdb_error_t error = a->key.error;
    if (!error)
        error = start_draw(a, &last_counter, &taken);
    if (!error)
        error = wait_last_counter(a, last_counter, &newest);
    if (!error)
        error = directory_wait_value(taken, &is_taken, &value);
    if (!error)
        *outcome = newest > a->start ? DRAW_OLD_WINDOW : is_taken ? DRAW_TAKEN : DRAW_OURS;
    directory_future_drop(&last_counter);
    directory_future_drop(&taken);
    return error;
}

/* Step 4: [key, key 00) is what the transaction announces to have written. */
static fdb_error_t announce(struct allocation *a) {
    size_t length = a->key.length;
    directory_key_append_byte(&a->key, 0x00);
    if (a->key.error)
        return a->key.error;
    return fdb_transaction_add_conflict_range(a->tr, a->key.data, (int)length, a->key.data,
                                              (int)a->key.length, FDB_CONFLICT_RANGE_TYPE_WRITE);
}

/* Draws until an integer is ours, the window is old, or there is no more hope for it. */
static fdb_error_t draw_some(struct allocation *a, enum draw *outcome, int64_t *integer) {
    fdb_error_t error = 0;
    *outcome = DRAW_TAKEN;
    for (int i = 0; i < DRAWS_MAX && !error && *outcome == DRAW_TAKEN; i++) {
        *integer = a->start + (int64_t)(random_bits() % (uint64_t)a->size);
        error = draw(a, *integer, outcome);
    }
    return error;
}

/*
 * Steps 1 to 4, from the top whenever the window turns out to be old. `floor` lies above windows in
 * which every draw was taken though they are half empty by their counters: damage, or a transaction
 * whose snapshot reads do not see its own writes.
 */
static fdb_error_t allocate(struct allocation *a, int64_t *integer) {
    int64_t floor = INT64_MIN;
    for (;;) {
        FDBFuture *future = start_last_counter(a);
        fdb_error_t error = wait_last_counter(a, future, &a->start);
        directory_future_drop(&future);
        bool moved = !error && a->start < floor;
        if (moved)
            a->start = floor;
        enum draw outcome = DRAW_TAKEN;
        int64_t candidate = 0;
        if (!error)
            error = choose_window(a, moved);
        if (!error)
            error = draw_some(a, &outcome, &candidate);
        if (!error && outcome == DRAW_OURS)
            error = announce(a);
        if (!error && outcome == DRAW_OURS)
            *integer = candidate;
        if (error || outcome == DRAW_OURS)
            return error;
        if (outcome == DRAW_TAKEN)
            floor = a->start + a->size;
    }
}

fdb_error_t allocator_allocate(FDBTransaction *tr, keel_bytes prefix, int64_t *integer) {
    struct allocation a;
    allocation_init(&a, tr, prefix);
    fdb_error_t error = a.counters.error;
    if (!error)
        error = a.counters_begin.error;
    if (!error)
        error = a.counters_end.error;
    if (!error)
        error = a.takings.error;
    if (!error)
        error = allocate(&a, integer);
    allocation_free(&a);
    return error;
}
