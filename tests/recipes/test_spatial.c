/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels in the plane: the curve, the keys, queries beside a list that is searched from end to end,
 * how many rows a query reads, what is refused, and threads that move the same labels.
 */
#include "testing.h"

#include <keel/spatial.h>

#include <math.h>

enum { POINTS = 3000 };

struct point {
    uint32_t x, y;
};

static struct point points[POINTS];

/* What a query found: how often each label, and in which order. */
struct seen {
    int times[POINTS], order[POINTS];
    int count, wrong;
    const struct point *where;
};

static struct seen seen;

static fdb_error_t see(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    struct seen *all = context;
    int64_t i = -1;
    if (keel_element_int(label, &i) || i < 0 || i >= POINTS)
        return KEEL_ERROR_STORED_FORMAT;
    all->times[i]++;
    all->order[all->count++ % POINTS] = (int)i;
    all->wrong += x != points[i].x || y != points[i].y;
    return 0;
}

static void forget(void) {
    memset(&seen, 0, sizeof seen);
}

static void test_curve(void **state) {
    uint64_t seed = 1;
    (void)state;
    assert_int_equal(keel_spatial_z(1, 0), 1);
    assert_int_equal(keel_spatial_z(0, 1), 2);
    assert_int_equal(keel_spatial_z(3, 5), 39);
    assert_true(keel_spatial_z(UINT32_MAX, UINT32_MAX) == UINT64_MAX);
    for (int i = 0; i < 1000; i++) {
        uint32_t x = testing_random(&seed) * 2 + (i & 1), y = testing_random(&seed) * 2, a, b;
        uint64_t z = 0;
        for (int bit = 0; bit < 32; bit++) {
            z |= (uint64_t)(x >> bit & 1) << (2 * bit);
            z |= (uint64_t)(y >> bit & 1) << (2 * bit + 1);
        }
        assert_true(keel_spatial_z(x, y) == z);
        keel_spatial_xy(z, &a, &b);
        assert_true(a == x && b == y);
    }
}

static bool has_row(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple) {
    uint8_t key[100];
    size_t length;
    fdb_bool_t present = 0;
    const uint8_t *value;
    int value_length = -1;
    ok(keel_subspace_pack(space, tuple, key, sizeof key, &length));
    FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
    ok(keel_wait(future));
    ok(fdb_future_get_value(future, &present, &value, &value_length));
    fdb_future_destroy(future);
    return present && value_length == 0;
}

static void test_labels(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("labels");
    FDBTransaction *tr = testing_begin();
    uint32_t x = 9, y = 9;
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("home"), 3, 5));
    assert_true(has_row(tr, &space, KEEL_TUPLE("L", "home", 39)));
    assert_true(has_row(tr, &space, KEEL_TUPLE("Z", 39, "home")));
    ok(keel_spatial_get(tr, &space, KEEL_ELEMENT("home"), &x, &y));
    assert_true(x == 3 && y == 5);
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("home"), 4, 5));
    ok(keel_spatial_move(tr, &space, KEEL_ELEMENT("home"), UINT32_MAX, UINT32_MAX));
    ok(keel_spatial_move(tr, &space, KEEL_ELEMENT("home"), UINT32_MAX, UINT32_MAX)); /* stays */
    ok(keel_spatial_get(tr, &space, KEEL_ELEMENT("home"), &x, &y));
    assert_true(x == UINT32_MAX && y == UINT32_MAX);
    assert_int_equal(testing_look(tr, &space).rows, 2);
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT(17), 4, 5)); /* other types, same place */
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT(KEEL_BYTES("b", 1)), 4, 5));
    ok(keel_spatial_remove(tr, &space, KEEL_ELEMENT("home")));
    ok(keel_spatial_remove(tr, &space, KEEL_ELEMENT(17)));
    assert_int_equal(testing_look(tr, &space).rows, 2);
    fdb_transaction_destroy(tr);
}

static void test_refused(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("refused");
    FDBTransaction *tr = testing_begin();
    uint32_t x = 0, y = 0;
    char long_label[10001] = {0};
    memset(long_label, 'x', sizeof long_label - 1);
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("a"), 3, 5));
    refused(tr, KEEL_ERROR_EMPTY_NAME, keel_spatial_set(tr, &space, KEEL_ELEMENT(""), 1, 1));
    refused(tr, KEEL_ERROR_EMPTY_NAME,
            keel_spatial_set(tr, &space, KEEL_ELEMENT(KEEL_BYTES(NULL, 0)), 1, 1));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_spatial_set(tr, &space, KEEL_NIL, 1, 1));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_spatial_set(tr, &space, KEEL_NEST(1), 1, 1));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_spatial_set(tr, &space, KEEL_INCOMPLETE(0), 1, 1));
    refused(tr, KEEL_ERROR_NOT_UTF8, keel_spatial_set(tr, &space, KEEL_ELEMENT("\xff"), 1, 1));
    refused(tr, 2102, keel_spatial_set(tr, &space, KEEL_ELEMENT(long_label), 1, 1));
    refused(tr, KEEL_ERROR_NOT_FOUND, keel_spatial_move(tr, &space, KEEL_ELEMENT("b"), 1, 1));
    refused(tr, KEEL_ERROR_NOT_FOUND, keel_spatial_remove(tr, &space, KEEL_ELEMENT("b")));
    refused(tr, KEEL_ERROR_NOT_FOUND, keel_spatial_get(tr, &space, KEEL_ELEMENT("b"), &x, &y));
    refused(tr, KEEL_ERROR_BOX, keel_spatial_box(tr, &space, 5, 0, 4, 9, see, &seen));
    refused(tr, KEEL_ERROR_BOX, keel_spatial_box(tr, &space, 0, 9, 4, 8, see, &seen));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_spatial_box(tr, &space, 0, 0, 4, 8, NULL, &seen));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_spatial_nearest(tr, &space, 0, 0, -1, see, &seen));
    refused(tr, KEEL_ERROR_BOX, keel_spatial_from_degrees(91, 0, &x, &y));
    refused(tr, KEEL_ERROR_BOX, keel_spatial_from_degrees(0, NAN, &x, &y));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_spatial_within_meters(tr, &space, 0, 0, -1, see, &seen));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_spatial_within_meters(tr, &space, 0, 0, NAN, see, &seen));
    fdb_transaction_destroy(tr);
}

/* ---- Queries beside a search from end to end ---- */

static keel_subspace filled;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; !error && i < POINTS; i++)
        error = keel_spatial_set(tr, &filled, KEEL_ELEMENT(i), points[i].x, points[i].y);
    return error;
}

/* Points in a corner so small that places are shared, in crowds, along lines, and anywhere. */
static void make_points(int kind, uint64_t *seed) {
    for (int i = 0; i < POINTS; i++) {
        uint32_t x = testing_random(seed) * 2 + (testing_random(seed) & 1);
        uint32_t y = testing_random(seed) * 2 + (testing_random(seed) & 1);
        if (kind == 0)
            x %= 64, y %= 64;
        else if (kind == 1)
            x = (x % 8 << 28) + x % 1000, y = (y % 8 << 28) + y % 1000;
        else if (kind == 2)
            x = i % 2 ? x : 0x80000000u - (x & 1), y = i % 2 ? 0x7fffffffu + (y & 3) : y;
        points[i] = (struct point){x, y};
    }
    points[0] = (struct point){0, 0};
    points[1] = (struct point){UINT32_MAX, UINT32_MAX};
    points[2] = (struct point){UINT32_MAX, 0};
}

static uint32_t some_edge(int kind, uint64_t *seed) {
    const struct point *near = &points[testing_random(seed) % POINTS];
    uint32_t edge = testing_random(seed) % 2 ? near->x : near->y;
    uint32_t offset = testing_random(seed) % (kind == 0 ? 8 : 3);
    if (testing_random(seed) % 8 == 0)
        return testing_random(seed) % 2 ? UINT32_MAX : 0;
    return kind == 3 ? edge + (testing_random(seed) >> testing_random(seed) % 31) : edge + offset;
}

static void order(uint32_t *a, uint32_t *b) {
    if (*a > *b) {
        uint32_t c = *a;
        *a = *b;
        *b = c;
    }
}

static void check_box(FDBTransaction *tr, int kind, uint64_t *seed) {
    uint32_t x1 = some_edge(kind, seed), x2 = some_edge(kind, seed), y1 = some_edge(kind, seed),
             y2 = some_edge(kind, seed);
    uint64_t last = 0;
    order(&x1, &x2);
    order(&y1, &y2);
    forget();
    ok(keel_spatial_box(tr, &filled, x1, y1, x2, y2, see, &seen));
    assert_int_equal(seen.wrong, 0);
    for (int i = 0; i < POINTS; i++) {
        const struct point *p = &points[i];
        assert_int_equal(seen.times[i], p->x >= x1 && p->x <= x2 && p->y >= y1 && p->y <= y2);
    }
    for (int i = 0; i < seen.count; i++) { /* in the order of the curve */
        uint64_t z = keel_spatial_z(points[seen.order[i]].x, points[seen.order[i]].y);
        assert_true(z >= last);
        last = z;
    }
}

static unsigned __int128 square_of(uint32_t x, uint32_t y, const struct point *p) {
    uint64_t dx = x > p->x ? x - p->x : p->x - x, dy = y > p->y ? y - p->y : p->y - y;
    return (unsigned __int128)dx * dx + (unsigned __int128)dy * dy;
}

static void check_radius(FDBTransaction *tr, int kind, uint64_t *seed) {
    uint32_t x = some_edge(kind, seed), y = some_edge(kind, seed);
    uint32_t radius = kind == 0 ? testing_random(seed) % 40
                                : testing_random(seed) >> testing_random(seed) % 31;
    forget();
    ok(keel_spatial_radius(tr, &filled, x, y, radius, see, &seen));
    assert_int_equal(seen.wrong, 0);
    for (int i = 0; i < POINTS; i++)
        assert_int_equal(seen.times[i],
                         square_of(x, y, &points[i]) <= (unsigned __int128)radius * radius);
}

static void check_nearest(FDBTransaction *tr, int kind, uint64_t *seed) {
    uint32_t x = some_edge(kind, seed), y = some_edge(kind, seed);
    int count = 1 + (int)(testing_random(seed) % 30);
    unsigned __int128 last = 0;
    forget();
    ok(keel_spatial_nearest(tr, &filled, x, y, count, see, &seen));
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.count, count);
    for (int i = 0; i < count; i++) { /* nearest first, each once */
        unsigned __int128 distance = square_of(x, y, &points[seen.order[i]]);
        assert_true(distance >= last);
        assert_int_equal(seen.times[seen.order[i]], 1);
        last = distance;
    }
    for (int i = 0; i < POINTS; i++) /* and nothing nearer was left out */
        assert_true(seen.times[i] || square_of(x, y, &points[i]) >= last);
}

static void test_queries(void **state) {
    uint64_t seed = 7;
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        filled = testing_subspace("queries");
        make_points(kind, &seed);
        ok(keel_run(testing_database(), fill, NULL));
        FDBTransaction *tr;
        for (int round = 0; round < testing_rounds(60); round++) {
            tr = testing_begin();
            check_box(tr, kind, &seed);
            check_radius(tr, kind, &seed);
            check_nearest(tr, kind, &seed);
            fdb_transaction_destroy(tr);
        }
        tr = testing_begin();
        forget();
        ok(keel_spatial_box(tr, &filled, 0, 0, UINT32_MAX, UINT32_MAX, see, &seen));
        assert_int_equal(seen.count, POINTS);
        forget();
        ok(keel_spatial_nearest(tr, &filled, 5, 5, POINTS + 10, see, &seen));
        assert_int_equal(seen.count, POINTS);
        fdb_transaction_destroy(tr);
    }
}

static fdb_error_t stop(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    (void)label, (void)x, (void)y;
    return ++*(int *)context == 3 ? 123456 : 0;
}

static void test_few(void **state) {
    (void)state;
    int count = 0;
    keel_subspace space = testing_subspace("few");
    FDBTransaction *tr = testing_begin();
    forget();
    ok(keel_spatial_nearest(tr, &space, 1, 1, 5, see, &seen));
    ok(keel_spatial_box(tr, &space, 0, 0, UINT32_MAX, UINT32_MAX, see, &seen));
    assert_int_equal(seen.count, 0);
    for (int i = 0; i < 5; i++)
        ok(keel_spatial_set(tr, &space, KEEL_ELEMENT(i), 7, 7));
    assert_int_equal(keel_spatial_box(tr, &space, 7, 7, 7, 7, stop, &count), 123456);
    assert_int_equal(count, 3);
    count = 0;
    assert_int_equal(keel_spatial_nearest(tr, &space, 0, 0, 4, stop, &count), 123456);
    ok(keel_spatial_nearest(tr, &space, 0, 0, 0, stop, &count));
    assert_int_equal(count, 3);
    fdb_transaction_destroy(tr);
}

/* ---- How much a query reads ---- */

/* From the status of an embedded database; a cluster does not say: the test is skipped. */
static long rows_read(void) {
    static const char KEY[] = "\xff\xff/status/json";
    FDBTransaction *tr = testing_begin();
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)KEY, sizeof KEY - 1, 0);
    fdb_bool_t present = 0;
    const uint8_t *value;
    int length = 0;
    ok(keel_wait(future));
    ok(fdb_future_get_value(future, &present, &value, &length));
    char *text = strndup((const char *)value, (size_t)length);
    const char *found = strstr(text, "\"rows_read\":");
    long rows = found ? strtol(found + strlen("\"rows_read\":"), NULL, 10) : 0;
    free(text);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    if (!found) {
        print_message("skipped: the status does not count the rows that were read\n");
        skip();
    }
    return rows;
}

struct box {
    uint32_t x_min, y_min, x_max, y_max;
};

static fdb_error_t ask_box(FDBTransaction *tr, void *context) {
    const struct box *box = context;
    forget();
    return keel_spatial_box(tr, &filled, box->x_min, box->y_min, box->x_max, box->y_max, see,
                            &seen);
}

/* The documents' code would read from corner to corner: for a box across the middle, everything. */
static void test_rows_read(void **state) {
    uint64_t seed = 11;
    long all = 0, visited = 0;
    (void)state;
    filled = testing_subspace("rows");
    make_points(3, &seed);
    ok(keel_run(testing_database(), fill, NULL));
    for (int round = 0; round < 50; round++) {
        uint32_t side = 0x10000000u + testing_random(&seed) % 0x30000000u;
        uint32_t x = testing_random(&seed), y = testing_random(&seed);
        struct box box = {x, y, x + side, y + side};
        if (round == 0) /* across the middle of the plane */
            box = (struct box){0x70000000u, 0x70000000u, 0x90000000u, 0x90000000u};
        long before = rows_read();
        ok(keel_run_read(testing_database(), ask_box, &box));
        long rows = rows_read() - before;
        assert_true(rows <= 2 * seen.count + 40);
        all += rows;
        visited += seen.count;
    }
    assert_true(visited > 1000);
    assert_true(all * 2 <= visited * 3);
}

/* A crowd just outside the box: read in small pages and jumped over. */
static void test_crowd_outside(void **state) {
    (void)state;
    filled = testing_subspace("crowd");
    for (int i = 0; i < POINTS; i++)
        points[i] = (struct point){0x55555555u - 200 - (uint32_t)i % 50,
                                   0x44444444u + (uint32_t)i / 50};
    points[0] = (struct point){0x55555555u, 0x44444444u};
    ok(keel_run(testing_database(), fill, NULL));
    struct box box = {0x55555555u, 0x33333333u, 0xcccccccc, 0x5a5a5a5au};
    long before = rows_read();
    ok(keel_run_read(testing_database(), ask_box, &box));
    assert_int_equal(seen.count, 1);
    assert_true(rows_read() - before <= 40);
}

/* ---- The earth ---- */

static void test_degrees(void **state) {
    static const struct {
        double latitude, longitude;
    } cities[] = {{52.52, 13.405}, {48.8566, 2.3522}, {-17.7134, 178.065}, {-13.8333, -171.7667},
                  {89.9, 0}, {89.9, 180}, {90, 0}, {0, 180}, {0, -180}, {-90, 12}};
    enum { CITIES = sizeof cities / sizeof *cities };
    static const double meters[] = {0.5, 1000, 30000, 900000, 1300000, 5e6, 1.9e7, 2.1e7};
    (void)state;
    keel_subspace space = testing_subspace("earth");
    FDBTransaction *tr = testing_begin();
    for (int i = 0; i < CITIES; i++) {
        double latitude, longitude;
        ok(keel_spatial_from_degrees(cities[i].latitude, cities[i].longitude, &points[i].x,
                                     &points[i].y));
        keel_spatial_to_degrees(points[i].x, points[i].y, &latitude, &longitude);
        assert_true(fabs(latitude - cities[i].latitude) < 1e-7);
        assert_true(fabs(longitude - cities[i].longitude) < 1e-7);
        ok(keel_spatial_set(tr, &space, KEEL_ELEMENT(i), points[i].x, points[i].y));
    }
    double apart = keel_spatial_meters(52.52, 13.405, 48.8566, 2.3522); /* Berlin, Paris */
    assert_true(apart > 870000 && apart < 885000);
    for (int from = 0; from < CITIES; from++)
        for (size_t m = 0; m < sizeof meters / sizeof *meters; m++) {
            forget();
            ok(keel_spatial_within_meters(tr, &space, cities[from].latitude, cities[from].longitude,
                                          meters[m], see, &seen));
            for (int i = 0; i < CITIES; i++)
                assert_int_equal(seen.times[i], keel_spatial_meters(cities[from].latitude,
                                                                    cities[from].longitude,
                                                                    cities[i].latitude,
                                                                    cities[i].longitude) <=
                                                    meters[m]);
        }
    fdb_transaction_destroy(tr);
}

/* ---- Side by side ---- */

enum { THREADS = 8, LABELS = 20 };
static keel_subspace shared;

static fdb_error_t change(FDBTransaction *tr, void *context) {
    uint64_t seed = *(uint64_t *)context;
    uint32_t label = testing_random(&seed) % LABELS, x = testing_random(&seed) % 4;
    if (testing_random(&seed) % 5 == 0) {
        fdb_error_t error = keel_spatial_remove(tr, &shared, KEEL_ELEMENT(label));
        return error == KEEL_ERROR_NOT_FOUND ? 0 : error;
    }
    return keel_spatial_set(tr, &shared, KEEL_ELEMENT(label), x, testing_random(&seed));
}

static void *changer(void *argument) {
    uint64_t seed = (uint64_t)(intptr_t)argument + 100;
    for (int round = 0; round < testing_rounds(100); round++) {
        testing_random(&seed);
        ok(keel_run(testing_database(), change, &seed));
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    shared = testing_subspace("threads");
    testing_threads(THREADS, changer);
    FDBTransaction *tr = testing_begin();
    int rows = testing_look(tr, &shared).rows, there = 0;
    for (int i = 0; i < LABELS; i++) {
        fdb_error_t error =
            keel_spatial_get(tr, &shared, KEEL_ELEMENT(i), &points[i].x, &points[i].y);
        there += !error;
        if (error)
            assert_int_equal(error, KEEL_ERROR_NOT_FOUND);
    }
    forget();
    ok(keel_spatial_box(tr, &shared, 0, 0, UINT32_MAX, UINT32_MAX, see, &seen));
    assert_int_equal(seen.wrong, 0); /* both kinds of rows agree, and there are no others */
    assert_int_equal(seen.count, there);
    assert_int_equal(rows, 2 * there);
    fdb_transaction_destroy(tr);
}

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace space = testing_subspace("conflicts");
    FDBTransaction *tr = testing_begin(), *other = testing_begin();
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("a"), 1, 1)); /* two labels: none */
    ok(keel_spatial_set(other, &space, KEEL_ELEMENT("b"), 1, 1));
    testing_commit(tr);
    testing_commit(other);
    tr = testing_begin(), other = testing_begin(); /* the same label */
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("a"), 1, 2));
    ok(keel_spatial_set(other, &space, KEEL_ELEMENT("a"), 1, 3));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
    tr = testing_begin(), other = testing_begin(); /* a box that something moves into */
    int count = -100;
    ok(keel_spatial_box(other, &space, 10, 10, 20, 20, stop, &count));
    ok(keel_spatial_set(other, &space, KEEL_ELEMENT("c"), 90, 90));
    ok(keel_spatial_set(tr, &space, KEEL_ELEMENT("a"), 15, 15));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(other), 1020);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curve),     cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_queries),
        cmocka_unit_test(test_few),       cmocka_unit_test(test_rows_read),
        cmocka_unit_test(test_crowd_outside), cmocka_unit_test(test_degrees),
        cmocka_unit_test(test_conflicts), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, testing_open, testing_close);
}
