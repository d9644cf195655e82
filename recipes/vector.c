/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors: (subspace, index, ...) = value.
 *
 * The tuple layer keeps integers in order, so the last key of the subspace is the last element and
 * neighbours are neighbours. The vector begins at the key of index 0, not at the beginning of the
 * subspace: keys with negative indexes, which only others can have written, are never seen.
 *
 * Invariants:
 *   1. size = last index + 1; there is no other record of it that could disagree.
 *   2. Only pop and resize store an element nobody asked for: `hole`, as the last one, since a hole
 *      cannot be last.
 *   3. Where rows are elements of one dimension (pop, scan) a key with more behind its index
 *      is STORED_FORMAT; size, push, truncate look at the first index only and work on both kinds.
 *
 * The functions of one dimension are those of many with one index, where there is such a pair. Keys
 * are built on the stack. Failure: arguments first, then reads, then writes; writes cannot fail.
 */
#include <keel/vector.h>

#include "support.h"

#include <stdlib.h>

enum { VALUE_TOO_LARGE = 2103, LARGE_ALLOC_FAILED = 1501 };

/* ---- Arguments and keys ---- */

static fdb_error_t check_indexes(const int64_t *indexes, size_t dimensions, size_t minimum) {
    if (dimensions < minimum || dimensions > KEEL_VECTOR_DIMENSIONS_MAX || (dimensions && !indexes))
        return KEEL_ERROR_ARGUMENT;
    for (size_t i = 0; i < dimensions; i++)
        if (indexes[i] < 0 || indexes[i] > KEEL_VECTOR_INDEX_MAX)
            return KEEL_ERROR_INDEX_RANGE;
    return 0;
}

static fdb_error_t check_value(keel_bytes value) {
    if (!value.data && value.length)
        return KEEL_ERROR_ARGUMENT;
    return value.length > RECIPE_VALUE_MAX ? VALUE_TOO_LARGE : 0;
}

/* The tuple of the indexes; `elements` has room for KEEL_VECTOR_DIMENSIONS_MAX. */
static keel_tuple tuple_of(const int64_t *indexes, size_t dimensions, keel_element *elements) {
    for (size_t i = 0; i < dimensions; i++)
        elements[i] = keel_element_of_int(indexes[i]);
    return keel_tuple_of(elements, dimensions);
}

static fdb_error_t pack_indexes(const keel_subspace *vector, const int64_t *indexes,
                                size_t dimensions, struct recipe_key *key) {
    keel_element elements[KEEL_VECTOR_DIMENSIONS_MAX];
    if (!vector)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_indexes(indexes, dimensions, 1);
    return error ? error : recipe_pack(vector, tuple_of(indexes, dimensions, elements), key);
}

static fdb_error_t pack_index(const keel_subspace *vector, int64_t index, struct recipe_key *key) {
    keel_element element = keel_element_of_int(index);
    return recipe_pack(vector, keel_tuple_of(&element, 1), key);
}

/* All keys with a first index from `begin` to below `end`, those with further indexes included. */
static fdb_error_t span_between(const keel_subspace *vector, int64_t begin, int64_t end,
                                struct recipe_span *span) {
    fdb_error_t error = recipe_span_of(vector, keel_tuple_of(NULL, 0), span);
    if (!error)
        error = pack_index(vector, begin, &span->begin);
    if (!error && end != KEEL_VECTOR_END)
        error = pack_index(vector, end, &span->end);
    return error;
}

/* All keys with a first index. */
static fdb_error_t span_of_all(const keel_subspace *vector, struct recipe_span *span) {
    return vector ? span_between(vector, 0, KEEL_VECTOR_END, span) : KEEL_ERROR_ARGUMENT;
}

/* ---- What is stored ---- */

/* The first index of a key; *alone: it is the only one. */
static fdb_error_t index_of(const keel_subspace *vector, keel_bytes key, int64_t *index,
                            bool *alone) {
    keel_tuple_iterator iterator;
    fdb_error_t error = keel_subspace_unpack(vector, key, &iterator);
    if (!error)
        error = keel_tuple_next_int(&iterator, index);
    *alone = !error && keel_tuple_at_end(&iterator);
    if (error || *index < 0 || *index > KEEL_VECTOR_INDEX_MAX)
        return KEEL_ERROR_STORED_FORMAT;
    return 0;
}

static fdb_error_t indexes_of(const keel_subspace *vector, keel_bytes key, int64_t *indexes,
                              size_t *dimensions) {
    keel_tuple_iterator iterator;
    fdb_error_t error = keel_subspace_unpack(vector, key, &iterator);
    size_t count = 0;
    while (!error && !keel_tuple_at_end(&iterator)) {
        if (count == KEEL_VECTOR_DIMENSIONS_MAX)
            return KEEL_ERROR_STORED_FORMAT;
        error = keel_tuple_next_int(&iterator, &indexes[count++]);
    }
    *dimensions = count;
    return error ? KEEL_ERROR_STORED_FORMAT : 0;
}

/* A copy with a NUL behind it. */
static fdb_error_t copy_value(keel_bytes value, uint8_t **copy) {
    uint8_t *memory = malloc(value.length + 1);
    if (!memory)
        return LARGE_ALLOC_FAILED;
    if (value.length)
        memcpy(memory, value.data, value.length);
    memory[value.length] = 0;
    *copy = memory;
    return 0;
}

/* The size, from a scan in reverse that was opened before. */
static fdb_error_t finish_size(const keel_subspace *vector, struct recipe_scan *last,
                               int64_t *size) {
    keel_bytes key, value;
    bool found, alone;
    int64_t index = -1;
    fdb_error_t error = recipe_scan_next(last, &key, &value, &found);
    if (!error && found)
        error = index_of(vector, key, &index, &alone);
    if (!error)
        *size = index + 1;
    return error;
}

/* ---- One dimension ---- */

KEEL_EXPORT fdb_error_t keel_vector_set(FDBTransaction *tr, const keel_subspace *vector,
                                        int64_t index, keel_bytes value) {
    return keel_vector_set_at(tr, vector, &index, 1, value);
}

KEEL_EXPORT fdb_error_t keel_vector_get(FDBTransaction *tr, const keel_subspace *vector,
                                        int64_t index, uint8_t **value, size_t *length) {
    return keel_vector_get_at(tr, vector, &index, 1, value, length);
}

KEEL_EXPORT fdb_error_t keel_vector_erase(FDBTransaction *tr, const keel_subspace *vector,
                                          int64_t index) {
    struct recipe_key key;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = pack_indexes(vector, &index, 1, &key);
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_size(FDBTransaction *tr, const keel_subspace *vector,
                                         int64_t *size) {
    struct recipe_span span;
    struct recipe_scan last;
    if (!tr || !size)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_of_all(vector, &span);
    if (error)
        return error;
    recipe_scan_open(&last, tr, &span, 1, true, false);
    error = finish_size(vector, &last, size);
    recipe_scan_close(&last);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_push(FDBTransaction *tr, const keel_subspace *vector,
                                         keel_bytes value, int64_t *index) {
    struct recipe_key key;
    int64_t size;
    fdb_error_t error = check_value(value);
    if (!error)
        error = keel_vector_size(tr, vector, &size);
    if (!error)
        error = pack_indexes(vector, &size, 1, &key);
    if (error)
        return error;
    recipe_set(tr, &key, value);
    if (index)
        *index = size;
    return 0;
}

/* Takes element `last` away; *before: whether the one before it is there. */
static fdb_error_t remove_last(FDBTransaction *tr, const keel_subspace *vector, int64_t last,
                               bool before, keel_bytes hole) {
    struct recipe_key key, key_before;
    fdb_error_t error = pack_index(vector, last, &key);
    if (!error && !before)
        error = pack_index(vector, last - 1, &key_before);
    if (error)
        return error;
    recipe_clear(tr, &key);
    if (!before)
        recipe_set(tr, &key_before, hole);
    return 0;
}

static fdb_error_t pop_from(FDBTransaction *tr, const keel_subspace *vector,
                            struct recipe_scan *scan, keel_bytes hole, uint8_t **value,
                            size_t *length) {
    keel_bytes key, bytes;
    bool found, found_before, alone = true, alone_before = true;
    int64_t last = -1, before = -1;
    uint8_t *copy = NULL;
    size_t copy_length = 0;
    fdb_error_t error = recipe_scan_next(scan, &key, &bytes, &found);
    if (!error && found) {
        error = index_of(vector, key, &last, &alone);
        if (!error)
            error = alone ? copy_value(bytes, &copy) : KEEL_ERROR_STORED_FORMAT;
        copy_length = bytes.length;
        if (!error)
            error = recipe_scan_next(scan, &key, &bytes, &found_before);
        if (!error && found_before)
            error = index_of(vector, key, &before, &alone_before);
        if (!error)
            error = remove_last(tr, vector, last, before == last - 1, hole);
    }
    if (error) {
        free(copy);
        return error;
    }
    *value = copy;
    *length = copy_length;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_vector_pop(FDBTransaction *tr, const keel_subspace *vector,
                                        keel_bytes hole, uint8_t **value, size_t *length) {
    struct recipe_span span;
    struct recipe_scan scan;
    if (!tr || !value || !length)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_value(hole);
    if (!error)
        error = span_of_all(vector, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 2, true, false);
    error = pop_from(tr, vector, &scan, hole, value, length);
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_swap(FDBTransaction *tr, const keel_subspace *vector, int64_t a,
                                         int64_t b) {
    return keel_vector_swap_at(tr, vector, &a, &b, 1);
}

/* ---- Scanning ---- */

struct vector_scan {
    const keel_subspace *vector;
    const keel_bytes *hole; /* NULL: leave holes out */
    keel_vector_visitor visit;
    void *context;
    int64_t next; /* the index that was not visited yet, where holes are */
};

static fdb_error_t visit_holes(struct vector_scan *scan, int64_t end) {
    fdb_error_t error = 0;
    while (scan->hole && !error && scan->next < end)
        error = scan->visit(scan->context, scan->next++, *scan->hole);
    return error;
}

static fdb_error_t scan_rows(struct vector_scan *scan, struct recipe_scan *rows) {
    for (;;) {
        keel_bytes key, value;
        bool found, alone;
        int64_t index;
        fdb_error_t error = recipe_scan_next(rows, &key, &value, &found);
        if (error || !found)
            return error;
        error = index_of(scan->vector, key, &index, &alone);
        if (!error && !alone)
            error = KEEL_ERROR_STORED_FORMAT;
        if (!error)
            error = visit_holes(scan, index);
        if (!error)
            error = scan->visit(scan->context, index, value);
        if (error)
            return error;
        scan->next = index + 1;
    }
}

/* With holes: those behind the last element of the range need the size. */
static fdb_error_t scan_with_holes(FDBTransaction *tr, struct vector_scan *scan,
                                   struct recipe_scan *rows, int64_t end) {
    struct recipe_span all;
    struct recipe_scan last;
    int64_t size = 0;
    fdb_error_t error = span_of_all(scan->vector, &all);
    if (error)
        return error;
    recipe_scan_open(&last, tr, &all, 1, true, false);
    error = finish_size(scan->vector, &last, &size);
    recipe_scan_close(&last);
    if (!error)
        error = scan_rows(scan, rows);
    return error ? error : visit_holes(scan, end < size ? end : size);
}

KEEL_EXPORT fdb_error_t keel_vector_scan(FDBTransaction *tr, const keel_subspace *vector,
                                         int64_t begin, int64_t end, const keel_bytes *hole,
                                         keel_vector_visitor visit, void *context) {
    struct recipe_span span;
    struct recipe_scan rows;
    struct vector_scan scan = {vector, hole, visit, context, begin};
    if (!tr || !vector || !visit)
        return KEEL_ERROR_ARGUMENT;
    if (begin < 0 || end < begin)
        return KEEL_ERROR_INDEX_RANGE;
    if (begin == end)
        return 0;
    fdb_error_t error = span_between(vector, begin, end, &span);
    if (error)
        return error;
    recipe_scan_open(&rows, tr, &span, 0, false, false);
    error = hole ? scan_with_holes(tr, &scan, &rows, end) : scan_rows(&scan, &rows);
    recipe_scan_close(&rows);
    return error;
}

/* ---- Shorter and longer ---- */

KEEL_EXPORT fdb_error_t keel_vector_truncate(FDBTransaction *tr, const keel_subspace *vector,
                                             int64_t size) {
    struct recipe_span span;
    if (!tr || !vector)
        return KEEL_ERROR_ARGUMENT;
    if (size < 0)
        return KEEL_ERROR_INDEX_RANGE;
    fdb_error_t error = span_between(vector, size, KEEL_VECTOR_END, &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_resize(FDBTransaction *tr, const keel_subspace *vector,
                                           int64_t size, keel_bytes hole) {
    struct recipe_key last;
    fdb_error_t error = check_value(hole);
    if (error || size <= 0 || !tr || !vector)
        return error ? error : keel_vector_truncate(tr, vector, size);
    error = pack_index(vector, size - 1, &last);
    if (error)
        return error;
    bool present = false;
    keel_bytes value;
    FDBFuture *future = recipe_get_start(tr, &last, false);
    error = recipe_get_finish(future, &present, &value);
    fdb_future_destroy(future);
    if (!error)
        error = keel_vector_truncate(tr, vector, size);
    if (!error && !present)
        recipe_set(tr, &last, hole);
    return error;
}

/* ---- Many dimensions ---- */

KEEL_EXPORT fdb_error_t keel_vector_set_at(FDBTransaction *tr, const keel_subspace *vector,
                                           const int64_t *indexes, size_t dimensions,
                                           keel_bytes value) {
    struct recipe_key key;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_value(value);
    if (!error)
        error = pack_indexes(vector, indexes, dimensions, &key);
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_get_at(FDBTransaction *tr, const keel_subspace *vector,
                                           const int64_t *indexes, size_t dimensions,
                                           uint8_t **value, size_t *length) {
    struct recipe_key key;
    bool present;
    keel_bytes bytes = {NULL, 0};
    uint8_t *copy = NULL;
    if (!tr || !value || !length)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = pack_indexes(vector, indexes, dimensions, &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &bytes);
    if (!error && present)
        error = copy_value(bytes, &copy);
    if (!error) {
        *value = copy;
        *length = bytes.length;
    }
    fdb_future_destroy(future);
    return error;
}

static void set_or_clear(FDBTransaction *tr, const struct recipe_key *key, bool present,
                         keel_bytes value) {
    if (present)
        recipe_set(tr, key, value);
    else
        recipe_clear(tr, key);
}

KEEL_EXPORT fdb_error_t keel_vector_swap_at(FDBTransaction *tr, const keel_subspace *vector,
                                            const int64_t *a, const int64_t *b, size_t dimensions) {
    struct recipe_key key_a, key_b;
    bool present_a = false, present_b = false;
    keel_bytes value_a = {NULL, 0}, value_b = {NULL, 0};
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = pack_indexes(vector, a, dimensions, &key_a);
    if (!error)
        error = pack_indexes(vector, b, dimensions, &key_b);
    if (error)
        return error;
    FDBFuture *future_a = recipe_get_start(tr, &key_a, false);
    FDBFuture *future_b = recipe_get_start(tr, &key_b, false);
    error = recipe_get_finish(future_a, &present_a, &value_a);
    if (!error)
        error = recipe_get_finish(future_b, &present_b, &value_b);
    if (!error) {
        set_or_clear(tr, &key_a, present_b, value_b);
        set_or_clear(tr, &key_b, present_a, value_a);
    }
    fdb_future_destroy(future_a);
    fdb_future_destroy(future_b);
    return error;
}

static fdb_error_t scan_rows_at(const keel_subspace *vector, struct recipe_scan *rows,
                                keel_vector_visitor_at visit, void *context) {
    for (;;) {
        int64_t indexes[KEEL_VECTOR_DIMENSIONS_MAX];
        size_t dimensions;
        keel_bytes key, value;
        bool found;
        fdb_error_t error = recipe_scan_next(rows, &key, &value, &found);
        if (error || !found)
            return error;
        error = indexes_of(vector, key, indexes, &dimensions);
        if (!error)
            error = visit(context, indexes, dimensions, value);
        if (error)
            return error;
    }
}

/* The element itself and all behind these first indexes: [packed, packed ff). */
static fdb_error_t span_at(const keel_subspace *vector, const int64_t *indexes, size_t dimensions,
                           struct recipe_span *span) {
    keel_element elements[KEEL_VECTOR_DIMENSIONS_MAX];
    if (!vector)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_indexes(indexes, dimensions, 0);
    if (!error && dimensions == 0)
        return span_of_all(vector, span);
    if (!error)
        error = recipe_span_of(vector, tuple_of(indexes, dimensions, elements), span);
    if (!error)
        span->begin.length--; /* the 00 behind the packed indexes */
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_scan_at(FDBTransaction *tr, const keel_subspace *vector,
                                            const int64_t *indexes, size_t dimensions,
                                            keel_vector_visitor_at visit, void *context) {
    struct recipe_span span;
    struct recipe_scan rows;
    if (!tr || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_at(vector, indexes, dimensions, &span);
    if (error)
        return error;
    recipe_scan_open(&rows, tr, &span, 0, false, false);
    error = scan_rows_at(vector, &rows, visit, context);
    recipe_scan_close(&rows);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_erase_at(FDBTransaction *tr, const keel_subspace *vector,
                                             const int64_t *indexes, size_t dimensions) {
    struct recipe_span span;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_at(vector, indexes, dimensions, &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}

KEEL_EXPORT fdb_error_t keel_vector_row(const keel_subspace *vector, const int64_t *indexes,
                                        size_t dimensions, keel_subspace *row) {
    keel_element elements[KEEL_VECTOR_DIMENSIONS_MAX];
    if (!vector || !row)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_indexes(indexes, dimensions, 1);
    return error ? error
                 : keel_subspace_nested(vector, tuple_of(indexes, dimensions, elements), row);
}
