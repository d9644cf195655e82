/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places, written here and read by their document's Python code
 * (tests/clients/python/recipe_spatial.py), and the other way round.
 *
 *     interop_spatial write DATABASE     writes the set
 *     interop_spatial check DATABASE     compares what is there with the set, and moves labels there
 *                                        and back, so that Python can check it once more
 */
#include <keel/spatial.h>

#include "interop.h"

enum { LABELS = 300, BOXES = 4 };

struct place {
    uint32_t x, y;
};

static const struct {
    struct place min, max;
} boxes[BOXES] = {{{0, 0}, {UINT32_MAX, UINT32_MAX - 1}},
                  {{100, 100}, {50000, 70000}},
                  {{0, 0}, {0, 0}},
                  {{0x80000000u - 100000, 0x80000000u - 100000},
                   {0x80000000u + 100000, 0x80000000u + 100000}}};

static keel_subspace all;
static int times[LABELS], wrong;

static struct place place_of(int i) {
    uint32_t number = (uint32_t)i, x = number * 2654435761u, y = number * (40503u * 65599u);
    if (i == 0)
        return (struct place){0, 0};
    if (i == 1)
        return (struct place){UINT32_MAX, UINT32_MAX};
    if (i % 3 == 0)
        return (struct place){x % 100000, y % 100000};
    if (i % 3 == 1)
        return (struct place){0x80000000u - 50000 + x % 100000, 0x80000000u - 50000 + y % 100000};
    return (struct place){x, y};
}

static keel_element name_of(int i, char name[32]) {
    snprintf(name, 32, i % 2 ? "label %d" : "\xc3\xa9%d", i);
    return keel_element_of_string(name);
}

static fdb_error_t set_all(FDBTransaction *tr, int shift) {
    fdb_error_t error = 0;
    char name[32];
    for (int i = 0; !error && i < LABELS; i++) {
        struct place place = place_of(i + shift);
        error = keel_spatial_set(tr, &all, name_of(i, name), place.x, place.y);
    }
    return error;
}

static fdb_error_t write(FDBTransaction *tr, void *context) {
    (void)context;
    must(keel_subspace_raw(KEEL_BYTES(NULL, 0), &all), "subspace");
    fdb_error_t error = set_all(tr, 7);
    return error ? error : set_all(tr, 0);
}

static fdb_error_t see(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    char text[64], name[32];
    size_t length;
    (void)context;
    fdb_error_t error = keel_element_copy(label, (uint8_t *)text, sizeof text - 1, &length);
    if (error)
        return error;
    text[length] = 0;
    for (int i = 0; i < LABELS; i++) {
        name_of(i, name);
        if (strcmp(name, text))
            continue;
        times[i]++;
        wrong += place_of(i).x != x || place_of(i).y != y;
        return 0;
    }
    wrong++;
    return 0;
}

static void check_box(FDBTransaction *tr, int number) {
    struct place min = boxes[number].min, max = boxes[number].max;
    char text[64];
    memset(times, 0, sizeof times);
    wrong = 0;
    must(keel_spatial_box(tr, &all, min.x, min.y, max.x, max.y, see, NULL), "box");
    for (int i = 0; i < LABELS; i++) {
        struct place place = place_of(i);
        wrong += times[i] !=
                 (place.x >= min.x && place.x <= max.x && place.y >= min.y && place.y <= max.y);
    }
    snprintf(text, sizeof text, "spatial: C's box %d", number);
    check(wrong == 0, text);
}

static fdb_error_t verify(FDBTransaction *tr, void *context) {
    char name[32];
    int right = 0;
    (void)context;
    must(keel_subspace_raw(KEEL_BYTES(NULL, 0), &all), "subspace");
    for (int i = 0; i < LABELS; i++) {
        uint32_t x = 0, y = 0;
        fdb_error_t error = keel_spatial_get(tr, &all, name_of(i, name), &x, &y);
        right += !error && x == place_of(i).x && y == place_of(i).y;
    }
    check(right == LABELS, "spatial: C finds every label");
    for (int i = 0; i < BOXES; i++)
        check_box(tr, i);
    fdb_error_t error = set_all(tr, 3);
    return error ? error : set_all(tr, 0);
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write, verify);
}
