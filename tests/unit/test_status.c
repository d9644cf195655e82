/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies, and the status: what the engine counts arrives in the structure and in the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keel/options.h>

#include "engine/engine.h"
#include "engine/latency.h"
#include "os/clock.h"
#include "txn/transaction.h"
#include "util/memory.h"

/* --- Latencies --- */

static void test_quantiles(void **state) {
    (void)state;
    struct latency *latency = calloc(1, sizeof *latency);
    struct latency_status status;
    latency_init(latency);
    latency_read(latency, &status);
    assert_int_equal(status.count, 0);
    assert_int_equal(status.p99_ns, 0);
    for (int i = 1; i <= 10000; i++)
        latency_add(latency, (int64_t)i * 1000);
    latency_read(latency, &status);
    assert_int_equal(status.count, 10000);
    assert_int_equal(status.max_ns, 10000000);
    assert_in_range(status.p50_ns, 5000000, 5000000 * 9 / 8);
    assert_in_range(status.p95_ns, 9500000, 10000000);
    assert_in_range(status.p99_ns, 9900000, 10000000);
    latency_destroy(latency);
    free(latency);
}

/* Every length from nothing to centuries has its bucket, which ends at or above it and within an eighth. */
static void test_buckets(void **state) {
    (void)state;
    static const int64_t some[] = {-5, 0, 1, 15, 16, 17, 31, 32, 1000, 999999, INT64_C(1) << 40, INT64_MAX};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct latency *latency = calloc(1, sizeof *latency);
        struct latency_status status;
        int64_t length = some[i] < 0 ? 0 : some[i];
        latency_init(latency);
        latency_add(latency, some[i]);
        latency_add(latency, length / 2);
        latency_add(latency, INT64_MAX);
        latency_read(latency, &status);
        assert_int_equal(status.count, 3);
        assert_true(status.max_ns == INT64_MAX);
        assert_true(status.p50_ns >= length && status.p50_ns - length <= length / 8);
        latency_destroy(latency);
        free(latency);
    }
}

static void *add_many(void *latency) {
    for (int i = 0; i < 100000; i++)
        latency_add(latency, i);
    return NULL;
}

static void test_beside_readers(void **state) {
    (void)state;
    struct latency *latency = calloc(1, sizeof *latency);
    struct latency_status status;
    pthread_t threads[3];
    latency_init(latency);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add_many, latency);
    for (int i = 0; i < 100; i++)
        latency_read(latency, &status);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    latency_read(latency, &status);
    assert_int_equal(status.count, 300000);
    assert_int_equal(status.max_ns, 99999);
    latency_destroy(latency);
    free(latency);
}

/* The older of two spans goes, never both. */
static void test_spans(void **state) {
    (void)state;
    struct latency *latency = calloc(1, sizeof *latency);
    struct latency_status status;
    latency_init(latency);
    latency_add(latency, 7);
    latency->rotated_us -= LATENCY_SPAN_US;
    latency_read(latency, &status); /* and from here on another span */
    assert_int_equal(status.count, 1);
    latency_add(latency, 5);
    latency_read(latency, &status);
    assert_int_equal(status.count, 2);
    assert_int_equal(status.max_ns, 7);
    latency->rotated_us -= LATENCY_SPAN_US;
    latency_read(latency, &status);
    latency_read(latency, &status);
    assert_int_equal(status.count, 1);
    assert_int_equal(status.max_ns, 5);
    latency_destroy(latency);
    free(latency);
}

/* --- A database --- */

static char directory[400];
static struct database *database;
static struct database_handle *handle;

static int open_it(void **state) {
    const char *parent = getenv("TMPDIR");
    struct engine_options options;
    char *message = NULL;
    snprintf(directory, sizeof directory, "%s/keel-status-XXXXXX", parent ? parent : "/tmp");
    if (!*state && !mkdtemp(directory))
        return -1;
    if (*state)
        strcpy(directory, *state);
    engine_default_options(&options, &message);
    options.lifetime_us = 200000;
    options.generation_us = 50000;
    options.durable = false;
    if (engine_open(directory, &options, &database, &message))
        return -1;
    return database_handle_create(database, 740, "", "", &handle) ? -1 : 0;
}

static int close_it(void **state) {
    char command[600];
    database_handle_release(handle);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return *state ? 0 : system(command);
}

struct waiting {
    struct completion completion;
    _Atomic int calls;
    fdb_error_t error;
};

static void note(struct completion *completion, fdb_error_t error) {
    struct waiting *waiting = (struct waiting *)completion;
    waiting->error = error;
    atomic_fetch_add(&waiting->calls, 1);
}

static fdb_error_t commit(struct transaction *tr) {
    struct waiting wait = {.completion = {.done = note}};
    transaction_commit(tr, &wait.completion);
    while (!atomic_load(&wait.calls))
        if (!transaction_drive(tr))
            os_sleep_us(10);
    return wait.error;
}

static struct transaction *begin(void) {
    struct transaction *tr;
    assert_int_equal(transaction_create(handle, &tr), 0);
    return tr;
}

static void write_rows(int rows) {
    static uint8_t value[3000];
    for (int i = 0; i < rows; i++) {
        struct transaction *tr = begin();
        uint8_t key = (uint8_t)i;
        transaction_set(tr, bytes_make(&key, 1), bytes_make(value, sizeof value));
        assert_int_equal(commit(tr), 0);
        transaction_destroy(tr);
    }
}

static void read_rows(int times) {
    struct arena arena = {0};
    for (int i = 0; i < times; i++) {
        struct transaction *tr = begin();
        struct bytes value;
        bool present;
        uint8_t key = (uint8_t)(i % 200);
        assert_int_equal(transaction_get(tr, bytes_make(&key, 1), false, &arena, &value, &present), 0);
        transaction_destroy(tr);
    }
    arena_free(&arena);
}

static void test_structure(void **state) {
    (void)state;
    struct database_status status;
    write_rows(50);
    read_rows(640);
    database_get_status(database, &status);
    assert_int_equal(status.commits, 50);
    assert_int_equal(status.commit_latency.count, 50);
    assert_true(status.commit_latency.p50_ns > 0 && status.commit_latency.p50_ns <= status.commit_latency.p95_ns);
    assert_true(status.commit_latency.p95_ns <= status.commit_latency.p99_ns && status.commit_latency.p99_ns <= status.commit_latency.max_ns);
    assert_in_range(status.read_latency.count, 1, 10);
    assert_int_equal(status.process_id, getpid());
    assert_true(status.uptime_us > 0 && status.uptime_us < INT64_C(600) * 1000000);
    assert_int_equal(status.pin_count, 0);
    assert_int_equal(status.damaged_reads, 0);
}

/* Rows that go leave free pages. Moved to the base in their own good time: a transaction that waits for that would wait for a checkpoint. */
static void test_free_bytes(void **state) {
    (void)state;
    struct database_status status;
    write_rows(200);
    do {
        os_sleep_us(10000);
        database_get_status(database, &status);
    } while (status.window_bytes > 0);
    uint64_t before = status.base_free_bytes;
    struct transaction *tr = begin();
    transaction_clear_range(tr, BYTES_LITERAL(""), BYTES_LITERAL("\xff"));
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
    do {
        os_sleep_us(10000);
        database_get_status(database, &status);
    } while (status.window_bytes > 0);
    if (status.in_memory)
        assert_int_equal(status.base_free_bytes, 0);
    else
        assert_true(status.base_free_bytes > before + 500000 && status.base_free_bytes < status.base_bytes);
}

/* The number behind "name": in the document, or -1. */
static double number_of(const char *document, const char *name) {
    char quoted[60];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(document, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : -1;
}

/* Brackets match, outside of strings. */
static bool is_balanced(const char *document) {
    int depth = 0;
    bool in_string = false;
    for (; *document; document++) {
        if (in_string && *document == '\\')
            document++;
        else if (*document == '"')
            in_string = !in_string;
        else if (!in_string && strchr("{[", *document))
            depth++;
        else if (!in_string && strchr("}]", *document) && --depth < 0)
            return false;
    }
    return depth == 0 && !in_string;
}

static void read_document(char document[8000]) {
    struct arena arena = {0};
    struct bytes value;
    bool present = false;
    struct transaction *tr = begin();
    assert_int_equal(transaction_get(tr, BYTES_LITERAL("\xff\xff/status/json"), false, &arena, &value, &present), 0);
    assert_true(present && value.length < 8000);
    memcpy(document, value.data, value.length);
    document[value.length] = 0;
    arena_free(&arena);
    transaction_destroy(tr);
}

static void test_document(void **state) {
    (void)state;
    char document[8000];
    write_rows(30);
    read_rows(640);
    struct transaction *tr = begin();
    int64_t version;
    assert_int_equal(transaction_set_option(tr, (int)KEEL_TR_OPTION_LONG_READ, NULL, 0), 0);
    assert_int_equal(transaction_get_read_version(tr, &version), 0);
    os_sleep_us(2000);
    read_document(document);
    assert_true(is_balanced(document));
    assert_true(number_of(document, "long_reads") == 1);
    assert_true(number_of(document, "oldest_long_read_seconds") >= 0.002);
    assert_true(number_of(document, "transactions_open") == 2);
    assert_true(number_of(document, "process_id") == getpid());
    assert_true(number_of(document, "uptime_seconds") > 0);
    assert_true(number_of(document, "damaged_reads") == 0);
    assert_true(number_of(document, "base_free_bytes") >= 0);
    assert_true(number_of(document, "commit_seconds") > 0);
    assert_true(number_of(document, "read_seconds") > 0);
    const char *commit_latency = strstr(document, "\"latencies\":{\"commit\":{\"count\":30,"), *read_latency = strstr(document, "\"read\":{\"count\":");
    assert_non_null(commit_latency);
    assert_non_null(read_latency);
    assert_true(number_of(commit_latency, "p50") > 0 && number_of(commit_latency, "p99") <= number_of(commit_latency, "max"));
    assert_true(number_of(read_latency, "p50") > 0);
    transaction_destroy(tr);
    read_document(document);
    assert_true(number_of(document, "long_reads") == 0);
    assert_true(number_of(document, "transactions_open") == 1);
}

#define ON_DISK(test) {#test " on disk", test, open_it, close_it, NULL}
#define IN_MEMORY(test) {#test " in memory", test, open_it, close_it, ":memory:"}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_buckets),   cmocka_unit_test(test_beside_readers),
        cmocka_unit_test(test_spans),     ON_DISK(test_structure),          IN_MEMORY(test_structure),
        ON_DISK(test_free_bytes),         IN_MEMORY(test_free_bytes),       ON_DISK(test_document),
        IN_MEMORY(test_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
