/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked lists, of one way and of two: against a plain array under random operations, and whole
 * under the hands of many threads. KEEL_SEED and KEEL_ROUNDS as everywhere.
 */
#include "fixture.h"

#include <keel/list.h>

enum { VALUE_TOO_LARGE = 2103 };

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("node", name), &subspace), 0);
    return subspace;
}

static fdb_error_t note(void *context, keel_bytes id, keel_bytes value) {
    char *all = context;
    sprintf(all + strlen(all), "%.*s=%.*s ", (int)id.length, (const char *)id.data,
            (int)value.length, value.data ? (const char *)value.data : "");
    return strstr(all, "stop") ? 123456 : 0;
}

static void assert_list(FDBTransaction *tr, const keel_subspace *list, const char *expected) {
    char all[4000] = "";
    assert_int_equal(keel_list_walk(tr, list, KEEL_LIST_HEAD, 0, note, all), 0);
    assert_string_equal(all, expected);
}

static void insert_after(FDBTransaction *tr, const keel_subspace *list, keel_list_links links,
                         const char *after, const char *id) {
    assert_int_equal(keel_list_insert_after(tr, list, links, text(after), text(id), text(id)), 0);
}

static void test_one_way(void **state) {
    (void)state;
    keel_subspace list = named("one way");
    bool removed = true;
    FDBTransaction *tr = begin();
    assert_list(tr, &list, "");
    assert_int_equal(keel_list_remove_after(tr, &list, 0, KEEL_LIST_HEAD, &removed), 0);
    assert_false(removed);
    insert_after(tr, &list, 0, "", "b");
    insert_after(tr, &list, 0, "", "a");
    insert_after(tr, &list, 0, "b", "d");
    insert_after(tr, &list, 0, "b", "c");
    commit(tr);
    tr = begin();
    assert_list(tr, &list, "a=a b=b c=c d=d ");
    assert_int_equal(keel_list_insert_before(tr, &list, 0, KEEL_LIST_HEAD, text("z"), text("")), 0);
    assert_int_equal(keel_list_insert_before(tr, &list, 0, text("a"), text("0"), text("")), 0);
    assert_list(tr, &list, "0= a=a b=b c=c d=d z= ");
    assert_int_equal(keel_list_remove_after(tr, &list, 0, text("b"), &removed), 0);
    assert_true(removed);
    assert_int_equal(keel_list_remove(tr, &list, 0, text("a")), 0);
    assert_int_equal(keel_list_remove(tr, &list, 0, text("z")), 0);
    assert_list(tr, &list, "0= b=b d=d ");
    assert_int_equal(keel_list_remove_after(tr, &list, 0, text("d"), &removed), 0);
    assert_false(removed);
    assert_int_equal(keel_list_set(tr, &list, text("b"), text("B")), 0);
    uint8_t *value;
    size_t length;
    assert_int_equal(keel_list_get(tr, &list, text("b"), &value, &length), 0);
    assert_string_equal((char *)value, "B");
    assert_int_equal(length, 1);
    free(value);
    assert_int_equal(count_rows(tr, &list), 3 * 2 + 1); /* nothing is left of those removed */
    char all[100] = "";
    assert_int_equal(keel_list_walk(tr, &list, KEEL_LIST_HEAD, 2, note, all), 0);
    assert_string_equal(all, "0= b=B ");
    assert_int_equal(keel_list_walk(tr, &list, text("b"), 2, note, all), 0); /* going on */
    assert_string_equal(all, "0= b=B d=d ");
    assert_int_equal(keel_list_walk_back(tr, &list, KEEL_LIST_HEAD, 0, note, all),
                     KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(keel_list_clear(tr, &list), 0);
    assert_list(tr, &list, "");
    commit(tr);
}

static void test_two_ways(void **state) {
    (void)state;
    keel_subspace list = named("two ways");
    const keel_list_links two = KEEL_LIST_TWO_WAY;
    FDBTransaction *tr = begin();
    char all[100] = "";
    assert_int_equal(keel_list_walk_back(tr, &list, KEEL_LIST_HEAD, 0, note, all), 0);
    assert_string_equal(all, "");
    assert_int_equal(keel_list_insert_before(tr, &list, two, KEEL_LIST_HEAD, text("b"), text("")),
                     0);
    assert_int_equal(keel_list_insert_before(tr, &list, two, KEEL_LIST_HEAD, text("d"), text("")),
                     0);
    assert_int_equal(keel_list_insert_before(tr, &list, two, text("d"), text("c"), text("")), 0);
    assert_int_equal(keel_list_insert_after(tr, &list, two, KEEL_LIST_HEAD, text("a"), text("")),
                     0);
    commit(tr);
    tr = begin();
    assert_list(tr, &list, "a= b= c= d= ");
    assert_int_equal(keel_list_walk_back(tr, &list, KEEL_LIST_HEAD, 0, note, all), 0);
    assert_string_equal(all, "d= c= b= a= ");
    assert_int_equal(keel_list_remove(tr, &list, two, text("b")), 0);
    assert_int_equal(keel_list_remove_after(tr, &list, two, text("c"), NULL), 0);
    all[0] = 0;
    assert_int_equal(keel_list_walk_back(tr, &list, KEEL_LIST_HEAD, 1, note, all), 0);
    assert_string_equal(all, "c= ");
    assert_int_equal(keel_list_walk_back(tr, &list, text("c"), 0, note, all), 0);
    assert_string_equal(all, "c= a= ");
    assert_int_equal(keel_list_remove(tr, &list, two, text("a")), 0);
    assert_int_equal(keel_list_remove(tr, &list, two, text("c")), 0);
    assert_list(tr, &list, "");
    assert_int_equal(count_rows(tr, &list), 2); /* the head */
    commit(tr);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace list = named("bad");
    static uint8_t large[100001];
    keel_bytes none = KEEL_BYTES(NULL, 0), long_id = KEEL_BYTES(large, 1001);
    keel_bytes too_large = KEEL_BYTES(large, sizeof large), a = text("a"), x = text("x");
    uint8_t *value = NULL;
    size_t length = 7;
    char all[100] = "";
    FDBTransaction *tr = begin();
    insert_after(tr, &list, 0, "", "a");
    for (int links = 0; links < 2; links++) {
        keel_list_links l = (keel_list_links)links;
        assert_refused(tr, keel_list_insert_after(tr, &list, l, a, none, x), KEEL_ERROR_EMPTY_NAME);
        assert_refused(tr, keel_list_insert_before(tr, &list, l, a, none, x),
                       KEEL_ERROR_EMPTY_NAME);
        assert_refused(tr, keel_list_insert_after(tr, &list, l, a, long_id, x),
                       KEEL_ERROR_ARGUMENT);
        assert_refused(tr, keel_list_insert_after(tr, &list, l, long_id, x, x),
                       KEEL_ERROR_ARGUMENT);
        assert_refused(tr, keel_list_insert_after(tr, &list, l, a, x, too_large), VALUE_TOO_LARGE);
        assert_refused(tr, keel_list_insert_after(tr, NULL, l, a, x, x), KEEL_ERROR_ARGUMENT);
        assert_refused(tr, keel_list_remove(tr, &list, l, none), KEEL_ERROR_EMPTY_NAME);
        assert_refused(tr, keel_list_remove_after(tr, &list, l, long_id, NULL),
                       KEEL_ERROR_ARGUMENT);
        assert_int_equal(keel_list_insert_after(tr, &list, l, x, text("y"), x),
                         KEEL_ERROR_NOT_FOUND);
        assert_int_equal(keel_list_insert_before(tr, &list, l, x, text("y"), x),
                         KEEL_ERROR_NOT_FOUND);
        assert_int_equal(keel_list_insert_after(tr, &list, l, KEEL_LIST_HEAD, a, x),
                         KEEL_ERROR_DUPLICATE);
        assert_int_equal(keel_list_remove(tr, &list, l, x), KEEL_ERROR_NOT_FOUND);
        assert_int_equal(keel_list_remove_after(tr, &list, l, x, NULL), KEEL_ERROR_NOT_FOUND);
    }
    assert_refused(tr, keel_list_insert_after(tr, &list, (keel_list_links)5, a, x, x),
                   KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_list_set(tr, &list, none, x), KEEL_ERROR_EMPTY_NAME);
    assert_refused(tr, keel_list_set(tr, &list, a, too_large), VALUE_TOO_LARGE);
    assert_refused(tr, keel_list_walk(tr, &list, none, 0, NULL, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_list_set(tr, &list, x, x), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_list_get(tr, &list, x, &value, &length), KEEL_ERROR_NOT_FOUND);
    assert_int_equal(keel_list_walk(tr, &list, x, 0, note, all), KEEL_ERROR_NOT_FOUND);
    assert_null(value);
    assert_int_equal(length, 7);
    assert_int_equal(keel_list_remove(tr, &list, KEEL_LIST_TWO_WAY, a), KEEL_ERROR_STORED_FORMAT);
    assert_list(tr, &list, "a=a ");
    assert_int_equal(count_rows(tr, &list), 3);
    insert_after(tr, &list, 0, "a", "stop");
    insert_after(tr, &list, 0, "stop", "behind");
    assert_int_equal(keel_list_walk(tr, &list, none, 0, note, all), 123456);
    fdb_transaction_destroy(tr);
}

static void test_ids(void **state) {
    (void)state;
    keel_subspace list = named("ids");
    uint8_t one[16], two[16], zeros[3] = {0, 0xff, 0};
    char all[100] = "";
    assert_int_equal(keel_list_new_id(one), 0);
    assert_int_equal(keel_list_new_id(two), 0);
    assert_memory_not_equal(one, two, 16);
    FDBTransaction *tr = begin();
    assert_int_equal(keel_list_insert_after(tr, &list, KEEL_LIST_TWO_WAY, KEEL_LIST_HEAD,
                                            KEEL_BYTES(zeros, 3), text("v")),
                     0);
    assert_int_equal(keel_list_insert_after(tr, &list, KEEL_LIST_TWO_WAY, KEEL_BYTES(zeros, 3),
                                            KEEL_BYTES(one, 16), text("w")),
                     0);
    assert_int_equal(keel_list_remove(tr, &list, KEEL_LIST_TWO_WAY, KEEL_BYTES(zeros, 3)), 0);
    assert_int_equal(keel_list_remove(tr, &list, KEEL_LIST_TWO_WAY, KEEL_BYTES(one, 16)), 0);
    assert_int_equal(keel_list_walk(tr, &list, KEEL_LIST_HEAD, 0, note, all), 0);
    assert_string_equal(all, "");
    fdb_transaction_destroy(tr);
}

/* ---- Random operations against an array of ids ---- */

enum { NODES_MAX = 30 };
struct model {
    char ids[NODES_MAX][8];
    int count, next_id;
    uint64_t random;
};

static void model_insert(struct model *model, int at, const char *id) {
    memmove(model->ids[at + 1], model->ids[at], (size_t)(model->count - at) * 8);
    strcpy(model->ids[at], id);
    model->count++;
}

static void model_remove(struct model *model, int at) {
    model->count--;
    memmove(model->ids[at], model->ids[at + 1], (size_t)(model->count - at) * 8);
}

static void random_step(FDBTransaction *tr, const keel_subspace *list, keel_list_links links,
                        struct model *model) {
    char id[8];
    int at = (int)(draw(&model->random) % (uint32_t)(model->count + 1)), count = model->count;
    keel_bytes left = at ? text(model->ids[at - 1]) : KEEL_LIST_HEAD;
    keel_bytes right = at < count ? text(model->ids[at]) : KEEL_LIST_HEAD;
    snprintf(id, sizeof id, "%d", model->next_id++);
    switch (draw(&model->random) % 4) {
    case 0:
    case 1:
        if (count == NODES_MAX - 1)
            break;
        if (model->next_id % 2)
            assert_int_equal(keel_list_insert_after(tr, list, links, left, text(id), text(id)), 0);
        else
            assert_int_equal(keel_list_insert_before(tr, list, links, right, text(id), text(id)),
                             0);
        model_insert(model, at, id);
        break;
    case 2:
        assert_int_equal(keel_list_remove_after(tr, list, links, left, NULL), 0);
        if (at < count)
            model_remove(model, at);
        break;
    default:
        if (at < count) {
            assert_int_equal(keel_list_remove(tr, list, links, right), 0);
            model_remove(model, at);
        }
    }
}

static void run_model(const keel_subspace *list, keel_list_links links, int rounds,
                      uint64_t seed) {
    struct model model = {.count = 0, .random = seed};
    FDBTransaction *tr = begin();
    for (int i = 0; i < rounds; i++) {
        char expected[1000] = "", backwards[1000] = "", found[1000] = "";
        random_step(tr, list, links, &model);
        for (int j = 0; j < model.count; j++) {
            sprintf(expected + strlen(expected), "%s=%s ", model.ids[j], model.ids[j]);
            const char *id = model.ids[model.count - 1 - j];
            sprintf(backwards + strlen(backwards), "%s=%s ", id, id);
        }
        assert_list(tr, list, expected);
        if (links == KEEL_LIST_TWO_WAY) {
            assert_int_equal(keel_list_walk_back(tr, list, KEEL_LIST_HEAD, 0, note, found), 0);
            assert_string_equal(found, backwards);
        }
        if (i % 10 == 9) {
            commit(tr);
            tr = begin();
        }
    }
    commit(tr);
}

static void test_random(void **state) {
    (void)state;
    const char *seed_text = getenv("KEEL_SEED"), *rounds_text = getenv("KEEL_ROUNDS");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 4711;
    int rounds = rounds_text ? atoi(rounds_text) : 1000;
    keel_subspace one = named("random one"), two = named("random two");
    print_message("KEEL_SEED=%llu KEEL_ROUNDS=%d\n", (unsigned long long)seed, rounds);
    run_model(&one, KEEL_LIST_ONE_WAY, rounds, seed);
    run_model(&two, KEEL_LIST_TWO_WAY, rounds, seed + 1);
}

/* ---- Conflicts ---- */

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace list = named("conflicts");
    const keel_list_links two = KEEL_LIST_TWO_WAY;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 8; i++)
        insert_after(tr, &list, two, "", (char[]){(char)('h' - i), 0});
    commit(tr);
    FDBTransaction *a = begin(), *b = begin(); /* far from each other: side by side */
    insert_after(a, &list, two, "a", "a1");
    assert_int_equal(keel_list_remove(b, &list, two, text("e")), 0);
    assert_int_equal(keel_list_set(b, &list, text("a"), text("new")), 0);
    commit(b);
    commit(a);
    a = begin(), b = begin(); /* neighbours are both removed: one tries again */
    assert_int_equal(keel_list_remove(a, &list, two, text("b")), 0);
    assert_int_equal(keel_list_remove(b, &list, two, text("c")), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
    a = begin(), b = begin(); /* behind a node that is removed */
    insert_after(a, &list, two, "f", "f1");
    assert_int_equal(keel_list_remove(b, &list, two, text("f")), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
    a = begin(), b = begin(); /* a value for a node that is removed */
    assert_int_equal(keel_list_set(a, &list, text("g"), text("new")), 0);
    assert_int_equal(keel_list_remove(b, &list, two, text("g")), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
    tr = begin();
    assert_list(tr, &list, "a=new a1=a1 b=b d=d h=h ");
    commit(tr);
}

/* ---- Threads: nothing lost, nothing twice, one chain, both ways ---- */

enum { THREADS = 8, EACH = 60 };
struct job {
    keel_subspace list;
    keel_list_links links;
    char mine[EACH][8]; /* the nodes that this thread has in the list */
    int count, at;
    uint64_t random;
    char id[8];
    int inserted[THREADS];
};

static fdb_error_t insert_one(FDBTransaction *tr, void *context) {
    struct job *job = context;
    keel_bytes place = job->at < job->count ? text(job->mine[job->at]) : KEEL_LIST_HEAD;
    if (job->links == KEEL_LIST_TWO_WAY && job->at % 2)
        return keel_list_insert_before(tr, &job->list, job->links, place, text(job->id),
                                       text(job->id));
    return keel_list_insert_after(tr, &job->list, job->links, place, text(job->id), text(job->id));
}

static fdb_error_t remove_one(FDBTransaction *tr, void *context) {
    struct job *job = context;
    return keel_list_remove(tr, &job->list, job->links, text(job->mine[job->at]));
}

static fdb_error_t change_list(int number, void *context) {
    struct job job = *(struct job *)context;
    FDBDatabase *database = keel_fdb(fixture_db);
    fdb_error_t error = 0;
    job.count = 0;
    job.random = (uint64_t)number * 77 + 1;
    for (int i = 0; i < EACH && !error; i++) {
        job.at = (int)(draw(&job.random) % (uint32_t)(job.count + 1));
        if (job.at < job.count && draw(&job.random) % 3 == 0) {
            error = keel_run(database, remove_one, &job);
            job.count--;
            memmove(job.mine[job.at], job.mine[job.count], 8);
        } else {
            snprintf(job.id, sizeof job.id, "%d.%d", number, i);
            error = keel_run(database, insert_one, &job);
            strcpy(job.mine[job.count++], job.id);
        }
    }
    ((struct job *)context)->inserted[number] = job.count;
    return error;
}

static fdb_error_t count_node(void *context, keel_bytes id, keel_bytes value) {
    int *counts = context;
    if (keel_bytes_compare(id, value) != 0)
        return 100001;
    counts[id.data[0] - '0']++;
    return 0;
}

static void check_threads(const char *name, keel_list_links links) {
    static struct job job;
    int forwards[THREADS] = {0}, backwards[THREADS] = {0}, nodes = 0;
    memset(&job, 0, sizeof job);
    job.list = named(name);
    job.links = links;
    in_threads(THREADS, change_list, &job);
    FDBTransaction *tr = begin();
    assert_int_equal(keel_list_walk(tr, &job.list, KEEL_LIST_HEAD, 0, count_node, forwards), 0);
    if (links == KEEL_LIST_TWO_WAY)
        assert_int_equal(
            keel_list_walk_back(tr, &job.list, KEEL_LIST_HEAD, 0, count_node, backwards), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(forwards[i], job.inserted[i]);
        if (links == KEEL_LIST_TWO_WAY)
            assert_int_equal(backwards[i], job.inserted[i]);
        nodes += job.inserted[i];
    }
    int rows_a_node = links == KEEL_LIST_TWO_WAY ? 3 : 2;
    assert_int_equal(count_rows(tr, &job.list), nodes * rows_a_node + rows_a_node - 1);
    fdb_transaction_destroy(tr);
}

static void test_threads(void **state) {
    (void)state;
    check_threads("threads one", KEEL_LIST_ONE_WAY);
    check_threads("threads two", KEEL_LIST_TWO_WAY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_way),   cmocka_unit_test(test_two_ways),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
