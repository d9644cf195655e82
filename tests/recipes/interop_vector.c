/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors, beside tests/clients/python/recipe_vector.py; see interop.h. */
#include "interop.h"

#include <keel/vector.h>

enum { ELEMENTS = 300, SPARSE = 70000, ROWS = 3, COLUMNS = 4, DAYS = 365 };

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    must(keel_subspace_tuple(KEEL_TUPLE(name), &subspace), "subspace");
    return subspace;
}

static fdb_error_t write_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace v = named("V"), matrix = named("matrix"), days = named("temps2012");
    char text[32];
    fdb_error_t error = keel_vector_truncate(tr, &v, 0);
    for (int i = 0; i < ELEMENTS + 10 && !error; i++) {
        snprintf(text, sizeof text, "element %d", i);
        error = keel_vector_push(tr, &v, keel_bytes_of_string(text), NULL);
    }
    if (!error)
        error = keel_vector_truncate(tr, &v, ELEMENTS);
    if (!error)
        error = keel_vector_set(tr, &v, SPARSE, keel_bytes_of("\0\xff", 2));
    for (int64_t i = 0; i < ROWS * COLUMNS && !error; i++) {
        int64_t at[2] = {i / COLUMNS, i % COLUMNS};
        snprintf(text, sizeof text, "%d", (int)i);
        error = keel_vector_set_at(tr, &matrix, at, 2, keel_bytes_of_string(text));
    }
    for (int day = 1; day <= DAYS && !error; day++) {
        snprintf(text, sizeof text, "%d", day % 40);
        error = keel_vector_set(tr, &days, day, keel_bytes_of_string(text));
    }
    return error;
}

struct seen {
    int count, wrong;
    int64_t last;
};

static fdb_error_t look(void *context, int64_t index, keel_bytes value) {
    struct seen *seen = context;
    char text[32];
    int length = snprintf(text, sizeof text, "element %lld", (long long)index);
    if (index == SPARSE)
        seen->wrong += value.length != 2 || memcmp(value.data, "\0\xff", 2) != 0;
    else
        seen->wrong += value.length != (size_t)length || memcmp(value.data, text, value.length);
    seen->count++;
    seen->last = index;
    return 0;
}

static fdb_error_t look_at(void *context, const int64_t *at, size_t dimensions, keel_bytes value) {
    struct seen *seen = context;
    char text[32];
    int length = snprintf(text, sizeof text, "%d", (int)(at[0] * COLUMNS + at[1]));
    seen->wrong += dimensions != 2 || value.length != (size_t)length ||
                   memcmp(value.data, text, value.length);
    seen->count++;
    return 0;
}

static fdb_error_t check_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace v = named("V"), matrix = named("matrix"), days = named("temps2012");
    struct seen seen = {0, 0, 0}, cells = {0, 0, 0};
    int64_t size;
    uint8_t *value;
    size_t length;
    must(keel_vector_size(tr, &v, &size), "size");
    check(size == SPARSE + 1, "vector: the size");
    must(keel_vector_scan(tr, &v, 0, KEEL_VECTOR_END, NULL, look, &seen), "scan");
    check(seen.count == ELEMENTS + 1 && !seen.wrong && seen.last == SPARSE,
          "vector: the elements");
    must(keel_vector_get(tr, &v, ELEMENTS, &value, &length), "get");
    check(!value, "vector: a hole");
    must(keel_vector_scan_at(tr, &matrix, NULL, 0, look_at, &cells), "scan_at");
    check(cells.count == ROWS * COLUMNS && !cells.wrong, "vector: two dimensions");
    must(keel_vector_get(tr, &days, DAYS, &value, &length), "get");
    check(value && !strcmp((char *)value, "5"), "vector: the array of days");
    free(value);
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write_set, check_set);
}
