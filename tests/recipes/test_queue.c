/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: order, edges, bad input, and many producers and consumers, simple and staged. */
#define _GNU_SOURCE
#include <keel/queue.h>

#include "queues.h"

enum { PRODUCERS = 4, CONSUMERS = 32, ITEMS_EACH = 60, ITEMS = PRODUCERS * ITEMS_EACH };
enum { EACH_GETS = 15 };

static void enqueue(const keel_subspace *queue, const char *string) {
    FDBTransaction *tr = begin();
    ok(keel_queue_enqueue(tr, queue, text(string)));
    ok(commit(tr));
}

static void expect_item(fdb_error_t error, uint8_t *value, size_t length, const char *string) {
    ok(error);
    if (!string) {
        assert_null(value);
        return;
    }
    assert_non_null(value);
    assert_int_equal(length, strlen(string));
    assert_memory_equal(value, string, length);
    free(value);
}

static void expect_dequeue(const keel_subspace *queue, const char *string) {
    FDBTransaction *tr = begin();
    uint8_t *value;
    size_t length;
    fdb_error_t error = keel_queue_dequeue(tr, queue, &value, &length);
    expect_item(error, value, length, string);
    ok(commit(tr));
}

static int64_t size_now(const keel_subspace *queue) {
    FDBTransaction *tr = begin();
    int64_t size = -1;
    ok(keel_queue_size(tr, queue, &size));
    fdb_transaction_destroy(tr);
    return size;
}

static void test_first_in_first_out(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("order");
    expect_dequeue(&queue, NULL);
    char name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "item %d", i);
        enqueue(&queue, name);
    }
    assert_int_equal(size_now(&queue), 300);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "item %d", i);
        expect_dequeue(&queue, name);
    }
    expect_dequeue(&queue, NULL);
    assert_int_equal(size_now(&queue), 0);
}

static void test_one_transaction(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("one");
    FDBTransaction *tr = begin();
    fdb_error_t error;
    uint8_t *value;
    size_t length;
    bool empty = false;
    ok(keel_queue_empty(tr, &queue, &empty));
    assert_true(empty);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        ok(keel_queue_enqueue(tr, &queue, text(name)));
    }
    ok(keel_queue_empty(tr, &queue, &empty));
    assert_false(empty);
    error = keel_queue_peek(tr, &queue, &value, &length);
    expect_item(error, value, length, "0");
    error = keel_queue_dequeue(tr, &queue, &value, &length);
    expect_item(error, value, length, "0");
    error = keel_queue_dequeue(tr, &queue, &value, &length);
    expect_item(error, value, length, "1");
    ok(commit(tr));
    expect_dequeue(&queue, "2");
    tr = begin();
    ok(keel_queue_clear(tr, &queue));
    ok(commit(tr));
    expect_dequeue(&queue, NULL);
}

static void test_values(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("values");
    uint8_t *large = calloc(1, 100001), *value;
    size_t length = 7;
    FDBTransaction *tr = begin();
    ok(keel_queue_enqueue(tr, &queue, KEEL_BYTES(NULL, 0)));
    ok(keel_queue_enqueue(tr, &queue, KEEL_BYTES(large, 100000)));
    int64_t before = size_of(tr);
    assert_int_equal(keel_queue_enqueue(tr, &queue, KEEL_BYTES(large, 100001)), 2103);
    assert_int_equal(keel_queue_enqueue(tr, &queue, KEEL_BYTES(NULL, 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_queue_enqueue(tr, NULL, KEEL_BYTES("a", 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_queue_clear(tr, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(size_of(tr), before);
    ok(keel_queue_dequeue(tr, &queue, &value, &length));
    assert_non_null(value); /* no bytes, but an item */
    assert_int_equal(length, 0);
    free(value);
    ok(keel_queue_dequeue(tr, &queue, &value, &length));
    assert_int_equal(length, 100000);
    free(value);
    free(large);
    ok(commit(tr));
}

static void test_foreign_keys(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("foreign");
    uint8_t key[64];
    size_t length;
    ok(keel_subspace_pack(&queue, KEEL_TUPLE("zebra"), key, sizeof key, &length));
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, key, (int)length, NULL, 0);
    assert_int_equal(keel_queue_enqueue(tr, &queue, text("x")), KEEL_ERROR_STORED_FORMAT);
    fdb_transaction_clear(tr, key, (int)length);
    ok(keel_subspace_pack(&queue, KEEL_TUPLE(INT64_MAX), key, sizeof key, &length));
    fdb_transaction_set(tr, key, (int)length, NULL, 0);
    assert_int_equal(keel_queue_enqueue(tr, &queue, text("x")), KEEL_ERROR_STORED_FORMAT);
    fdb_transaction_destroy(tr);
}

/* Concurrent enqueues never conflict; two dequeues of one item do. */
static void test_conflicts(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("conflicts");
    FDBTransaction *a = begin(), *b = begin();
    fdb_error_t error;
    uint8_t *value;
    size_t length;
    ok(keel_queue_enqueue(a, &queue, text("x")));
    ok(keel_queue_enqueue(b, &queue, text("x")));
    ok(commit(a));
    ok(commit(b));
    assert_int_equal(size_now(&queue), 2);
    a = begin();
    b = begin();
    FDBTransaction *c = begin();
    error = keel_queue_dequeue(a, &queue, &value, &length);
    expect_item(error, value, length, "x");
    error = keel_queue_dequeue(b, &queue, &value, &length);
    expect_item(error, value, length, "x");
    ok(keel_queue_enqueue(c, &queue, text("x")));
    ok(commit(c));
    ok(commit(a)); /* not disturbed by the enqueue */
    assert_int_equal(commit(b), 1020);
    assert_int_equal(size_now(&queue), 2);
}

/* ---- Requests ---- */

static void expect_answer(const keel_subspace *requests, const keel_queue_ticket *ticket,
                          keel_queue_answer wanted, const char *string) {
    FDBTransaction *tr = begin();
    keel_queue_answer answer;
    uint8_t *value;
    size_t length;
    fdb_error_t error = keel_queue_collect(tr, requests, ticket, &answer, &value, &length);
    expect_item(error, value, length, string);
    assert_int_equal(answer, wanted);
    ok(commit(tr));
}

static void test_requests(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("staged"), requests = subspace_of("staged requests");
    keel_queue_ticket tickets[4];
    enqueue(&queue, "a");
    enqueue(&queue, "b");
    for (int i = 0; i < 4; i++) {
        FDBTransaction *tr = begin();
        ok(keel_queue_request(tr, &requests, &tickets[i]));
        ok(commit(tr));
    }
    expect_answer(&requests, &tickets[0], KEEL_QUEUE_WAITING, NULL);
    FDBTransaction *tr = begin();
    int served = -1;
    assert_int_equal(keel_queue_serve(tr, &queue, &requests, 0, &served), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_queue_serve(tr, &queue, &requests, 1001, &served), KEEL_ERROR_ARGUMENT);
    assert_int_equal(served, -1);
    ok(keel_queue_serve(tr, &queue, &requests, 3, &served));
    assert_int_equal(served, 3);
    ok(commit(tr));
    expect_answer(&requests, &tickets[1], KEEL_QUEUE_ITEM, "b"); /* in any order */
    expect_answer(&requests, &tickets[0], KEEL_QUEUE_ITEM, "a");
    expect_answer(&requests, &tickets[0], KEEL_QUEUE_EMPTY, NULL); /* once */
    expect_answer(&requests, &tickets[2], KEEL_QUEUE_EMPTY, NULL);
    expect_answer(&requests, &tickets[3], KEEL_QUEUE_WAITING, NULL);
}

/* Two that serve at once: one commits. */
static void test_serve_conflict(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("served"), requests = subspace_of("served requests");
    keel_queue_ticket ticket;
    enqueue(&queue, "a");
    FDBTransaction *tr = begin(), *a, *b;
    ok(keel_queue_request(tr, &requests, &ticket));
    ok(commit(tr));
    int served;
    a = begin();
    b = begin();
    ok(keel_queue_serve(a, &queue, &requests, 10, &served));
    ok(keel_queue_serve(b, &queue, &requests, 10, &served));
    ok(commit(a));
    assert_int_equal(commit(b), 1020);
    expect_answer(&requests, &ticket, KEEL_QUEUE_ITEM, "a");
}

static void test_pop(void **state) {
    (void)state;
    keel_subspace queue = subspace_of("popped"), requests = subspace_of("popped requests");
    uint8_t *value;
    size_t length;
    fdb_error_t error = keel_queue_pop(keel_fdb(db), &queue, &requests, &value, &length);
    expect_item(error, value, length, NULL);
    enqueue(&queue, "a");
    enqueue(&queue, "b");
    error = keel_queue_pop(keel_fdb(db), &queue, &requests, &value, &length);
    expect_item(error, value, length, "a");
    /* somebody waits: this one goes behind, and serves both */
    keel_queue_ticket ticket;
    FDBTransaction *tr = begin();
    ok(keel_queue_request(tr, &requests, &ticket));
    ok(commit(tr));
    error = keel_queue_pop(keel_fdb(db), &queue, &requests, &value, &length);
    expect_item(error, value, length, NULL);
    expect_answer(&requests, &ticket, KEEL_QUEUE_ITEM, "b");
    assert_int_equal(size_now(&requests), 0);
}

/* ---- Many at once ---- */

static keel_subspace shared_queue, shared_requests;
static atomic_int taken_count[ITEMS], taken_total, out_of_order, producing;

static fdb_error_t enqueue_number(FDBTransaction *tr, void *context) {
    return keel_queue_enqueue(tr, &shared_queue, KEEL_BYTES(context, sizeof(int)));
}

/* Items are producer * ITEMS_EACH + i: those of a producer come out in order. */
static void *produce(int producer) {
    for (int i = 0; i < ITEMS_EACH; i++) {
        int number = producer * ITEMS_EACH + i;
        must(keel_run(keel_fdb(db), enqueue_number, &number), "enqueue");
    }
    atomic_fetch_sub(&producing, 1);
    return NULL;
}

static void note_taken(const uint8_t *value, int *last) {
    int number;
    memcpy(&number, value, sizeof number);
    int producer = number / ITEMS_EACH;
    if (number <= last[producer])
        atomic_fetch_add(&out_of_order, 1);
    last[producer] = number;
    atomic_fetch_add(&taken_count[number], 1);
    atomic_fetch_add(&taken_total, 1);
}

static void *consume(void) {
    int last[PRODUCERS] = {-1, -1, -1, -1};
    for (;;) {
        bool may_end = atomic_load(&producing) == 0; /* before the queue is found empty */
        uint8_t *value;
        size_t length;
        must(keel_queue_pop(keel_fdb(db), &shared_queue, &shared_requests, &value, &length), "pop");
        if (value)
            note_taken(value, last);
        else if (may_end)
            return NULL;
        free(value);
    }
}

static void *produce_or_consume(void *number) {
    int i = (int)(intptr_t)number;
    return i < PRODUCERS ? produce(i) : consume();
}

/* Nothing lost, nothing twice, every producer's items in order for each consumer, no residue. */
static void test_many_consumers(void **state) {
    (void)state;
    shared_queue = subspace_of("shared");
    shared_requests = subspace_of("shared requests");
    atomic_store(&producing, PRODUCERS);
    run_threads(PRODUCERS + CONSUMERS, produce_or_consume);
    assert_int_equal(taken_total, ITEMS);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(taken_count[i], 1);
    assert_int_equal(out_of_order, 0);
    assert_int_equal(size_now(&shared_queue), 0);
    assert_int_equal(size_now(&shared_requests), 0);
}

static void *consume_some(void *unused) {
    (void)unused;
    for (int i = 0; i < EACH_GETS; i++) {
        uint8_t *value;
        size_t length;
        must(keel_queue_pop(keel_fdb(db), &shared_queue, &shared_requests, &value, &length), "pop");
        if (!value)
            abort(); /* there are more items than all of them take */
        free(value);
    }
    return NULL;
}

static fdb_error_t enqueue_many(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < 100 && !error; i++)
        error = keel_queue_enqueue(tr, &shared_queue, text("item"));
    return error;
}

/* 32 consumers on a full queue: every one of them gets what it wants. */
static void test_nobody_starves(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++)
        ok(keel_run(keel_fdb(db), enqueue_many, NULL));
    run_threads(CONSUMERS, consume_some);
    assert_int_equal(size_now(&shared_queue), 500 - CONSUMERS * EACH_GETS);
    assert_int_equal(size_now(&shared_requests), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_first_out), cmocka_unit_test(test_one_transaction),
        cmocka_unit_test(test_values),             cmocka_unit_test(test_foreign_keys),
        cmocka_unit_test(test_conflicts),          cmocka_unit_test(test_requests),
        cmocka_unit_test(test_serve_conflict),     cmocka_unit_test(test_pop),
    };
    const struct CMUnitTest crowded[] = {
        cmocka_unit_test(test_many_consumers),
        cmocka_unit_test(test_nobody_starves),
    };
    int failures = cmocka_run_group_tests(tests, open_database, close_database);
    return failures + cmocka_run_group_tests(crowded, open_on_disk, close_on_disk);
}
