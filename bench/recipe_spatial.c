/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How queries in the plane grow: more and more points, evenly spread, in queries whose answer stays
 * the same size, about a hundred. What must stay flat: the rows read; and a box query may read at
 * most twice the rows it returns.
 *
 *     recipe_spatial [LARGEST SIZE]
 */
#include "recipe_bench.h"

#include <keel/spatial.h>

#include <math.h>

enum { ANSWER = 100, REPEATS = 100, BATCH = 2000 };

static keel_subspace space;
static long filled;
static uint64_t state = 42;
static long visited;

static uint32_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    uint64_t before = state;
    fdb_error_t error = 0;
    for (long i = filled; !error && i < filled + *(long *)context; i++) {
        uint32_t x = draw(), y = draw();
        error = keel_spatial_set(tr, &space, KEEL_ELEMENT(i), x, y);
    }
    if (error)
        state = before; /* the same points once more */
    return error;
}

static void fill_to(long size) {
    while (filled < size) {
        long count = size - filled < BATCH ? size - filled : BATCH;
        bench_check(keel_run(keel_fdb(bench_db), fill, &count), "fill");
        filled += count;
    }
}

static fdb_error_t count(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    (void)context, (void)label, (void)x, (void)y;
    visited++;
    return 0;
}

/* The side of a square that holds ANSWER points. */
static uint32_t side(void) {
    return (uint32_t)(4294967295.0 * sqrt((double)ANSWER / (double)filled));
}

static fdb_error_t box(FDBTransaction *tr, void *context) {
    uint32_t length = side(), x = (uint32_t)(draw() / 4294967296.0 * (4294967295.0 - length)),
             y = (uint32_t)(draw() / 4294967296.0 * (4294967295.0 - length));
    (void)context;
    return keel_spatial_box(tr, &space, x, y, x + length, y + length, count, NULL);
}

static fdb_error_t middle(FDBTransaction *tr, void *context) {
    uint32_t half = side() / 2, x = 0x80000000u;
    (void)context;
    return keel_spatial_box(tr, &space, x - half, x - half, x + half, x + half, count, NULL);
}

static fdb_error_t radius(FDBTransaction *tr, void *context) {
    uint32_t reach = (uint32_t)(side() / 1.7725); /* as large as the square */
    (void)context;
    return keel_spatial_radius(tr, &space, draw(), draw(), reach, count, NULL);
}

static fdb_error_t nearest(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_spatial_nearest(tr, &space, draw(), draw(), ANSWER, count, NULL);
}

static fdb_error_t move(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_spatial_move(tr, &space, KEEL_ELEMENT((int64_t)(draw() % (uint64_t)filled)), draw(),
                             draw());
}

static const struct {
    const char *name;
    keel_function function;
    double rows_more;   /* than at the smallest size */
    double per_visited; /* rows read for one that is returned, at most; 0: no promise */
} OPERATIONS[] = {
    {"spatial box", box, 50, 2},         {"spatial box, middle", middle, 100, 2},
    {"spatial radius", radius, 50, 2},   {"spatial nearest", nearest, 1500, 20},
    {"spatial move", move, 2, 0},
};

int main(int argc, char **argv) {
    enum { COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };
    long largest = argc > 1 ? atol(argv[1]) : 1000000;
    double first[COUNT];
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("bench"), &space), "subspace");
    for (long size = 1000; size <= largest; size *= 10) {
        fill_to(size);
        for (int i = 0; i < COUNT; i++) {
            visited = 0;
            double rows =
                bench_measure(OPERATIONS[i].name, size, OPERATIONS[i].function, NULL, REPEATS);
            double each = (double)visited / REPEATS;
            printf("%-24s %9ld elements   %9.1f rows returned\n", OPERATIONS[i].name, size, each);
            if (size == 1000)
                first[i] = rows;
            if (rows > first[i] + OPERATIONS[i].rows_more ||
                (OPERATIONS[i].per_visited > 0 && rows > OPERATIONS[i].per_visited * each + 20)) {
                printf("%s: reads too much\n", OPERATIONS[i].name);
                failed = 1;
            }
        }
    }
    keel_close(bench_db);
    return failed;
}
