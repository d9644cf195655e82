/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls on real transactions: choosing them, making them, recording and printing them.
 *
 * Keys come from a small pool, so that transactions meet. Their first byte is never 's', where
 * versionstamped keys live: a range then covers all of those or none, and what a clear does to a
 * key whose stamp is not known yet does not depend on the stamp.
 */
#include "model.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One clock for all threads: if a call ended before another began, its number is smaller. */
static _Atomic uint64_t moment;

static uint64_t now(void) {
    return atomic_fetch_add(&moment, 1);
}

void die(const char *what, fdb_error_t error) {
    fprintf(stderr, "%s%s%s\n", what, error ? ": " : "", error ? fdb_get_error(error) : "");
    exit(2);
}

uint64_t environment_number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t random_next(struct random *random) {
    uint64_t z = (random->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int random_below(struct random *random, int bound) {
    return (int)(random_next(random) % (unsigned)bound);
}

/* --- Network and database --- */

static pthread_t network_thread;

static void *run_network(void *argument) {
    (void)argument;
    fdb_error_t error = fdb_run_network();
    if (error)
        die("fdb_run_network", error);
    return NULL;
}

void network_start(void) {
    fdb_error_t error = fdb_select_api_version(FDB_API_VERSION);
    if (!error)
        error = fdb_setup_network();
    if (error)
        die("fdb_setup_network", error);
    if (pthread_create(&network_thread, NULL, run_network, NULL))
        die("no thread", 0);
}

void network_stop(void) {
    fdb_error_t error = fdb_stop_network();
    if (error)
        die("fdb_stop_network", error);
    pthread_join(network_thread, NULL);
}

fdb_error_t wait_for(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    return error ? error : fdb_future_get_error(future);
}

/* Waits, and ends the program if the future holds an error. */
static void wait_or_die(FDBFuture *future, const char *what) {
    fdb_error_t error = wait_for(future);
    if (error)
        die(what, error);
}

static FDBTransaction *begin(FDBDatabase *database) {
    FDBTransaction *transaction;
    fdb_error_t error = fdb_database_create_transaction(database, &transaction);
    if (error)
        die("fdb_database_create_transaction", error);
    return transaction;
}

int64_t database_clear(FDBDatabase *database) {
    FDBTransaction *transaction = begin(database);
    int64_t version;
    fdb_transaction_clear_range(transaction, (const uint8_t *)"", 0, (const uint8_t *)"\xff", 1);
    FDBFuture *future = fdb_transaction_commit(transaction);
    wait_or_die(future, "clearing the database");
    fdb_future_destroy(future);
    fdb_error_t error = fdb_transaction_get_committed_version(transaction, &version);
    if (error)
        die("fdb_transaction_get_committed_version", error);
    fdb_transaction_destroy(transaction);
    return version;
}

static int64_t read_version(FDBTransaction *transaction, fdb_error_t *error) {
    int64_t version = -1;
    FDBFuture *future = fdb_transaction_get_read_version(transaction);
    *error = wait_for(future);
    if (!*error)
        *error = fdb_future_get_int64(future, &version);
    fdb_future_destroy(future);
    return version;
}

static void record_rows(struct arena *arena, FDBFuture *future, struct rows *rows, bool *more) {
    const FDBKeyValue *array;
    int count;
    fdb_bool_t has_more;
    fdb_error_t error = fdb_future_get_keyvalue_array(future, &array, &count, &has_more);
    if (error)
        die("fdb_future_get_keyvalue_array", error);
    *more = has_more;
    *rows = (struct rows){arena_take(arena, (size_t)(count + 1) * sizeof *rows->array), count};
    for (int i = 0; i < count; i++) {
        rows->array[i].key = text_copy(arena, array[i].key, array[i].key_length);
        rows->array[i].value = text_copy(arena, array[i].value, array[i].value_length);
    }
}

struct rows database_read_all(FDBDatabase *database, struct arena *arena, int64_t *version) {
    FDBTransaction *transaction = begin(database);
    struct rows all = {0};
    int capacity = 0;
    bool more = true;
    struct text from = text_of("");
    while (more) {
        FDBFuture *future =
            fdb_transaction_get_range(transaction, from.data, from.length, 0, 1,
                                      (const uint8_t *)"\xff", 1, 0, 1, 0, 0,
                                      FDB_STREAMING_MODE_WANT_ALL, 0, 1, 0);
        struct rows rows;
        wait_or_die(future, "reading everything");
        record_rows(arena, future, &rows, &more);
        fdb_future_destroy(future);
        for (int i = 0; i < rows.count; i++) {
            all.array = arena_grow(arena, all.array, all.count, &capacity, sizeof *all.array);
            all.array[all.count++] = rows.array[i];
            from = text_after(arena, rows.array[i].key);
        }
    }
    fdb_error_t error;
    *version = read_version(transaction, &error);
    if (error)
        die("fdb_transaction_get_read_version", error);
    fdb_transaction_destroy(transaction);
    return all;
}

/* --- Choosing --- */

static void pool_add(struct pool *pool, struct text key) {
    for (int i = 0; i < pool->count; i++) {
        if (text_equal(pool->keys[i], key))
            return;
    }
    if (pool->count < POOL_KEYS_MAX)
        pool->keys[pool->count++] = key;
}

static void pool_add_long(struct pool *pool, struct arena *arena, struct random *random) {
    uint8_t data[10000];
    memset(data, "ab"[random_below(random, 2)], sizeof data);
    int base = 600 + random_below(random, 9398);
    static const int ends[] = {505, 511, 512, 600, 1022, 9999, 10000};
    for (int i = 0; i < 3; i++) {
        int length = random_below(random, 2) ? base : ends[random_below(random, 7)];
        data[length - 1] = (uint8_t)random_below(random, 256);
        pool_add(pool, text_copy(arena, data, length));
    }
}

void pool_create(struct pool *pool, struct arena *arena, struct random *random) {
    static const uint8_t first[] = {0, 'a', 'b', 't'}, later[] = {0, 'a', 'b', 0xff};
    pool->count = 0;
    int count = 4 + random_below(random, 24);
    if (random_below(random, 3) == 0)
        pool_add(pool, text_of(""));
    while (count--) {
        uint8_t data[4];
        int length = 1 + random_below(random, 3);
        data[0] = first[random_below(random, 4)];
        for (int i = 1; i < length; i++)
            data[i] = later[random_below(random, 4)];
        pool_add(pool, text_copy(arena, data, length));
    }
    if (random_below(random, 4) == 0)
        pool_add_long(pool, arena, random);
}

static struct text choose_key(struct session *session) {
    return session->pool->keys[random_below(session->random, session->pool->count)];
}

/* A key as a boundary: also the one behind a pool key, and the very first and last. */
static struct text choose_boundary(struct session *session) {
    switch (random_below(session->random, 10)) {
    case 0: return text_of("");
    case 1: return text_of("\xff");
    case 2: {
        struct text key = choose_key(session);
        return key.length < 10000 ? text_after(session->arena, key) : key;
    }
    default: return choose_key(session);
    }
}

static struct text choose_value(struct session *session, int length_max) {
    uint8_t data[4000];
    int length = random_below(session->random, length_max + 1);
    if (random_below(session->random, 5) == 0)
        length = 0;
    if (random_below(session->random, 40) == 0)
        length = random_below(session->random, (int)sizeof data);
    for (int i = 0; i < length; i++)
        data[i] = i < 16 ? (uint8_t)random_next(session->random) : 'v';
    if (length && random_below(session->random, 3) == 0)
        /* carries, equal values */
        memset(data, random_below(session->random, 2) ? 0xff : 1, (size_t)length);
    return text_copy(session->arena, data, length);
}

static void choose_range(struct session *session, struct call *call) {
    struct text a = choose_boundary(session), b = choose_boundary(session);
    bool ordered = text_compare(a, b) <= 0;
    call->key = ordered ? a : b;
    call->value = ordered ? b : a;
    if (text_equal(a, b) && session->ryw_disabled) {
        call->key = text_of("");
        call->value = text_of("a");
    }
}

/* A range that is cleared: mostly a narrow one, so that something is left. */
static void choose_cleared(struct session *session, struct call *call) {
    choose_range(session, call);
    if (random_below(session->random, 4) == 0)
        return;
    call->key = choose_key(session);
    call->value = text_of("\xff");
    for (int i = 0; i < session->pool->count; i++) {
        struct text key = session->pool->keys[i];
        if (text_compare(key, call->key) > 0 && text_compare(key, call->value) < 0)
            call->value = key;
    }
    bool extend = call->value.length < 10000 && !text_equal(call->value, text_of("\xff"));
    if (extend && random_below(session->random, 2))
        call->value = text_after(session->arena, call->value);
}

/* Text with room for a stamp and the offset of that room behind it. */
static struct text choose_stamped(struct session *session, bool is_key) {
    uint8_t data[64];
    memset(data, 'x', sizeof data);
    int offset = is_key ? 1 : random_below(session->random, 5);
    int length = offset + 10 + random_below(session->random, 3);
    if (is_key)
        data[0] = 's';
    memcpy(data + length, (uint8_t[4]){(uint8_t)offset, 0, 0, 0}, 4);
    return text_copy(session->arena, data, length + 4);
}

static void choose_atomic(struct session *session, struct call *call) {
    static const int types[] = {
        FDB_MUTATION_TYPE_ADD,      FDB_MUTATION_TYPE_BIT_AND,        FDB_MUTATION_TYPE_BIT_OR,
        FDB_MUTATION_TYPE_BIT_XOR,  FDB_MUTATION_TYPE_MAX,            FDB_MUTATION_TYPE_MIN,
        FDB_MUTATION_TYPE_BYTE_MIN, FDB_MUTATION_TYPE_BYTE_MAX,
        FDB_MUTATION_TYPE_APPEND_IF_FITS, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR,
    };
    call->kind = CALL_ATOMIC;
    call->key = choose_key(session);
    if (random_below(session->random, 16) == 0) {
        bool key = random_below(session->random, 2);
        call->type = key ? FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY
                         : FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE;
        if (key)
            call->key = choose_stamped(session, true);
        call->value = key ? choose_value(session, 8) : choose_stamped(session, false);
        return;
    }
    call->type = types[random_below(session->random, (int)(sizeof types / sizeof *types))];
    call->value = choose_value(session, 9);
}

static struct selector choose_selector(struct session *session) {
    struct selector selector = {choose_boundary(session), random_below(session->random, 2), 1};
    switch (random_below(session->random, 4)) {
    case 0: selector.offset = random_below(session->random, 13) - 6; break;
    case 1: selector.offset = random_below(session->random, 2); break;
    case 2:
        if (random_below(session->random, 20) == 0)
            selector.offset = random_below(session->random, 200) - 100;
        break;
    default: selector.or_equal = false; break;
    }
    return selector;
}

static void choose_get_range(struct session *session, struct call *call) {
    struct random *random = session->random;
    call->kind = CALL_GET_RANGE;
    call->begin = choose_selector(session);
    call->end = choose_selector(session);
    if (random_below(random, 4) && text_compare(call->begin.key, call->end.key) > 0) {
        struct selector begin = call->begin;
        call->begin = call->end;
        call->end = begin;
    }
    call->mode = random_below(random, 7) - 2;
    call->limit = random_below(random, 3) ? 1 + random_below(random, 6) : 0;
    call->target_bytes = random_below(random, 4) ? 0 : 1 + random_below(random, 200);
    if (call->mode == FDB_STREAMING_MODE_EXACT && !call->limit && !call->target_bytes)
        call->limit = 1000;
    call->iteration = 1;
    call->reverse = random_below(random, 3) == 0;
}

static void choose_option(struct session *session, struct call *call) {
    static const int options[] = {FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE,
                                  FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE,
                                  FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE,
                                  FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE};
    call->kind = CALL_OPTION;
    call->type = options[random_below(session->random, 4)];
    if (!session->used && random_below(session->random, 2))
        call->type = FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE;
}

void session_choose_row(struct session *session, int index, struct call *call) {
    *call = (struct call){.kind = CALL_SET, .read_version = -1, .committed_version = -1};
    call->key = session->pool->keys[index];
    call->value = choose_value(session, 12);
}

void session_choose(struct session *session, struct call *call) {
    struct random *random = session->random;
    *call = (struct call){.read_version = -1, .committed_version = -1};
    int choice = random_below(random, 100);
    if (!session->used && random_below(random, 12) == 0)
        choice = 99;
    if (choice < 18) {
        call->kind = CALL_SET;
        call->key = choose_key(session);
        call->value = choose_value(session, 12);
    } else if (choice < 23) {
        call->kind = CALL_CLEAR;
        call->key = choose_key(session);
    } else if (choice < 28) {
        call->kind = CALL_CLEAR_RANGE;
        choose_cleared(session, call);
    } else if (choice < 42) {
        choose_atomic(session, call);
    } else if (choice < 60) {
        call->kind = CALL_GET;
        call->key = choose_key(session);
    } else if (choice < 72) {
        call->kind = CALL_GET_KEY;
        call->begin = choose_selector(session);
    } else if (choice < 92) {
        choose_get_range(session, call);
    } else if (choice < 95) {
        call->kind = CALL_CONFLICT;
        call->type = random_below(random, 2) ? FDB_CONFLICT_RANGE_TYPE_READ
                                             : FDB_CONFLICT_RANGE_TYPE_WRITE;
        choose_range(session, call);
    } else if (choice < 96) {
        call->kind = CALL_READ_VERSION;
    } else {
        choose_option(session, call);
    }
    call->snapshot = random_below(random, 5) == 0;
}

bool call_continue(struct arena *arena, const struct call *call, struct call *next) {
    if (call->kind != CALL_GET_RANGE || call->error || !call->more || !call->rows.count)
        return false;
    if (call->limit && call->limit <= call->rows.count)
        return false;
    struct text last = call->rows.array[call->rows.count - 1].key;
    *next = *call;
    next->rows = (struct rows){0};
    next->more = false;
    next->iteration++;
    if (next->limit)
        next->limit -= call->rows.count;
    if (call->reverse)
        next->end = (struct selector){last, false, 1};
    else
        next->begin = (struct selector){last, true, 1};
    (void)arena;
    return true;
}

/* --- Making calls --- */

void session_open(struct session *session, FDBDatabase *database) {
    session->database = database;
    session->transaction = begin(database);
    session->version_known = session->used = session->ryw_disabled = false;
    session->has_conflict_reads = session->stamps = false;
    session->calls = 0;
}

void session_close(struct session *session) {
    fdb_transaction_destroy(session->transaction);
    session->transaction = NULL;
}

/* Begins anew, by one of the ways there are. */
static void renew(struct session *session, fdb_error_t error) {
    FDBTransaction *transaction = session->transaction;
    int way = random_below(session->random, 16);
    if (error && way == 0) {
        FDBFuture *future = fdb_transaction_on_error(transaction, error);
        wait_or_die(future, "fdb_transaction_on_error");
        fdb_future_destroy(future);
    } else if (way < 8) {
        fdb_transaction_reset(transaction);
    } else {
        if (way < 10)
            fdb_transaction_cancel(transaction);
        fdb_transaction_destroy(transaction);
        transaction = NULL;
    }
    FDBTransaction *kept = transaction;
    if (!kept)
        kept = begin(session->database);
    session->transaction = kept;
    session->version_known = session->used = session->ryw_disabled = false;
    session->has_conflict_reads = session->stamps = false;
    session->calls = 0;
}

static void execute_get(struct session *session, struct call *call) {
    FDBFuture *future = fdb_transaction_get(session->transaction, call->key.data, call->key.length,
                                            call->snapshot);
    call->error = wait_for(future);
    if (!call->error) {
        fdb_bool_t present;
        const uint8_t *value;
        int length;
        call->error = fdb_future_get_value(future, &present, &value, &length);
        call->present = present;
        if (present)
            call->result = text_copy(session->arena, value, length);
    }
    fdb_future_destroy(future);
}

static void execute_get_key(struct session *session, struct call *call) {
    const struct selector *selector = &call->begin;
    FDBFuture *future = fdb_transaction_get_key(session->transaction, selector->key.data,
                                                selector->key.length, selector->or_equal,
                                                selector->offset, call->snapshot);
    call->error = wait_for(future);
    if (!call->error) {
        const uint8_t *key;
        int length;
        call->error = fdb_future_get_key(future, &key, &length);
        if (!call->error)
            call->result = text_copy(session->arena, key, length);
    }
    fdb_future_destroy(future);
}

static void execute_get_range(struct session *session, struct call *call) {
    FDBFuture *future = fdb_transaction_get_range(
        session->transaction, call->begin.key.data, call->begin.key.length, call->begin.or_equal,
        call->begin.offset, call->end.key.data, call->end.key.length, call->end.or_equal,
        call->end.offset, call->limit, call->target_bytes,
        (FDBStreamingMode)call->mode, call->iteration, call->snapshot, call->reverse);
    call->error = wait_for(future);
    if (!call->error)
        record_rows(session->arena, future, &call->rows, &call->more);
    fdb_future_destroy(future);
}

static void wake(FDBFuture *future, void *done) {
    (void)future;
    sem_post(done);
}

/* As a program does that has no thread to spare for each commit: the database is then driven by its own. */
static fdb_error_t wait_by_callback(FDBFuture *future) {
    sem_t done;
    sem_init(&done, 0, 0);
    fdb_error_t error = fdb_future_set_callback(future, wake, &done);
    if (error)
        die("fdb_future_set_callback", error);
    while (sem_wait(&done) != 0)
        continue;
    sem_destroy(&done);
    return fdb_future_get_error(future);
}

static void execute_commit(struct session *session, struct call *call) {
    FDBFuture *stamp = fdb_transaction_get_versionstamp(session->transaction);
    FDBFuture *future = fdb_transaction_commit(session->transaction);
    call->error = session->by_callback ? wait_by_callback(future) : wait_for(future);
    if (!call->error)
        call->error = fdb_transaction_get_committed_version(session->transaction,
                                                            &call->committed_version);
    if (!call->error && call->committed_version >= 0) {
        const uint8_t *bytes;
        int length;
        wait_or_die(stamp, "fdb_transaction_get_versionstamp");
        fdb_error_t error = fdb_future_get_key(stamp, &bytes, &length);
        if (error || length != 10)
            die("a versionstamp that is none", error);
        memcpy(call->stamp, bytes, 10);
        call->stamped = true;
    }
    fdb_future_destroy(future);
    fdb_future_destroy(stamp);
    call->ended = now();
    renew(session, call->error == 1036 ? 0 : call->error); /* which is not retried */
}

/* Calls that only note something in the transaction. */
static void execute_write(struct session *session, struct call *call) {
    FDBTransaction *transaction = session->transaction;
    const uint8_t *key = call->key.data, *value = call->value.data;
    int key_length = call->key.length, value_length = call->value.length;
    switch (call->kind) {
    case CALL_SET: fdb_transaction_set(transaction, key, key_length, value, value_length); break;
    case CALL_CLEAR: fdb_transaction_clear(transaction, key, key_length); break;
    case CALL_CLEAR_RANGE:
        fdb_transaction_clear_range(transaction, key, key_length, value, value_length);
        break;
    case CALL_ATOMIC:
        fdb_transaction_atomic_op(transaction, key, key_length, value, value_length,
                                  (FDBMutationType)call->type);
        session->stamps |= call->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY ||
                           call->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE;
        break;
    case CALL_CONFLICT:
        call->error = fdb_transaction_add_conflict_range(transaction, key, key_length, value,
                                                         value_length,
                                                         (FDBConflictRangeType)call->type);
        session->has_conflict_reads |= call->type == FDB_CONFLICT_RANGE_TYPE_READ;
        break;
    case CALL_OPTION:
        call->error = fdb_transaction_set_option(transaction, (FDBTransactionOption)call->type,
                                                 NULL, 0);
        session->ryw_disabled |= call->type == FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE;
        break;
    default:
        fdb_transaction_set_read_version(transaction, call->version);
        session->version_known = true;
        break;
    }
}

void session_execute(struct session *session, struct call *call) {
    call->started = now();
    session->used = true;
    session->calls++;
    switch (call->kind) {
    case CALL_GET: execute_get(session, call); break;
    case CALL_GET_KEY: execute_get_key(session, call); break;
    case CALL_GET_RANGE: execute_get_range(session, call); break;
    case CALL_COMMIT: execute_commit(session, call); return;
    case CALL_ABANDON: renew(session, 0); break;
    case CALL_READ_VERSION: break;
    default: execute_write(session, call); break;
    }
    if (call->kind >= CALL_READ_VERSION && call->kind <= CALL_GET_RANGE) {
        fdb_error_t error;
        call->read_version = read_version(session->transaction, &error);
        if (error && !call->error)
            call->error = error;
        session->version_known = true;
    }
    call->ended = now();
}

/* --- Printing --- */

void tally_add(struct tally *tally, const struct call *call) {
    bool committed = call->kind == CALL_COMMIT && !call->error && call->committed_version >= 0;
    tally->calls++;
    tally->rows += (uint64_t)call->rows.count;
    tally->commits += committed;
    tally->conflicts += call->kind == CALL_COMMIT && call->error == 1020;
    tally->unreadable += call->kind != CALL_COMMIT && call->error == 1036;
    tally->shared_batches += committed && (call->stamp[8] || call->stamp[9]);
}

void tally_print(const struct tally *tally) {
    printf("%llu calls, %llu rows read, %llu commits, %llu of them behind another in their batch, "
           "%llu conflicts, %llu reads of unreadable keys\n",
           (unsigned long long)tally->calls, (unsigned long long)tally->rows,
           (unsigned long long)tally->commits, (unsigned long long)tally->shared_batches,
           (unsigned long long)tally->conflicts, (unsigned long long)tally->unreadable);
}

static void print_text(FILE *file, struct text text) {
    fputc('"', file);
    for (int i = 0; i < text.length; i++) {
        if (i == 40 && text.length > 60) {
            fprintf(file, "…(%d bytes)…", text.length);
            i = text.length - 10;
        }
        if (text.data[i] >= 32 && text.data[i] < 127 && text.data[i] != '\\' && text.data[i] != '"')
            fputc(text.data[i], file);
        else
            fprintf(file, "\\x%02x", text.data[i]);
    }
    fputc('"', file);
}

static void print_selector(FILE *file, const struct selector *selector) {
    print_text(file, selector->key);
    fprintf(file, "%s%+d", selector->or_equal ? "=" : "", selector->offset);
}

static const char *kind_name(enum call_kind kind) {
    static const char *const names[] = {
        "set",        "clear",            "clear_range",      "atomic_op", "add_conflict_range",
        "set_option", "set_read_version", "get_read_version", "get",       "get_key",
        "get_range",  "commit",           "abandon"};
    return names[kind];
}

static void print_result(FILE *file, const struct call *call) {
    if (call->error) {
        fprintf(file, " -> error %d", call->error);
        return;
    }
    switch (call->kind) {
    case CALL_GET:
        fputs(call->present ? " -> " : " -> missing", file);
        if (call->present)
            print_text(file, call->result);
        break;
    case CALL_GET_KEY:
        fputs(" -> ", file);
        print_text(file, call->result);
        break;
    case CALL_GET_RANGE:
        fprintf(file, " -> %d rows%s", call->rows.count, call->more ? " and more" : "");
        for (int i = 0; i < call->rows.count; i++) {
            fputc(' ', file);
            print_text(file, call->rows.array[i].key);
        }
        break;
    case CALL_COMMIT:
        fprintf(file, " -> %lld", (long long)call->committed_version);
        if (call->stamped)
            fprintf(file, " order %d", call->stamp[8] << 8 | call->stamp[9]);
        break;
    default: break;
    }
    if (call->kind >= CALL_READ_VERSION && call->kind <= CALL_GET_RANGE)
        fprintf(file, " at %lld", (long long)call->read_version);
}

void call_print(FILE *file, const struct call *call) {
    fputs(kind_name(call->kind), file);
    if (call->kind == CALL_ATOMIC || call->kind == CALL_CONFLICT || call->kind == CALL_OPTION)
        fprintf(file, " type %d", call->type);
    if (call->kind == CALL_SET_READ_VERSION)
        fprintf(file, " %lld", (long long)call->version);
    if (call->kind <= CALL_CONFLICT || call->kind == CALL_GET) {
        fputc(' ', file);
        print_text(file, call->key);
    }
    if (call->kind <= CALL_CONFLICT && call->kind != CALL_CLEAR) {
        fputc(' ', file);
        print_text(file, call->value);
    }
    if (call->kind == CALL_GET_KEY || call->kind == CALL_GET_RANGE) {
        fputc(' ', file);
        print_selector(file, &call->begin);
    }
    if (call->kind == CALL_GET_RANGE) {
        fputs(" .. ", file);
        print_selector(file, &call->end);
        fprintf(file, " limit %d bytes %d mode %d iteration %d%s", call->limit, call->target_bytes,
                call->mode, call->iteration,
                call->reverse ? " reverse" : "");
    }
    if (call->snapshot && call->kind >= CALL_GET && call->kind <= CALL_GET_RANGE)
        fputs(" snapshot", file);
    print_result(file, call);
}
