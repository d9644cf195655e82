/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multimaps: all of an entry is in its key, so a key's values are neighbours and adding one needs
 * no read. Counts are kept by atomic additions, which do not conflict with each other.
 *
 * Format: see keel/multimap.h.
 *
 * Invariants:
 *   1. A count that reaches zero has no key: whoever subtracts either has read that more is left,
 *      or follows the addition with a compare-and-clear of zero.
 *   2. The total of a key is the sum of the counts of its entries. Every change to an entry changes
 *      the total by the same amount in the same transaction; where the amount is not known
 *      beforehand (adding to a set, removing) the entry is read, serializably, first.
 */
#include <keel/multimap.h>

#include "support.h"

static bool is_counted(const keel_multimap *map) {
    return map->flags & KEEL_MULTIMAP_COUNTED;
}

static bool has_totals(const keel_multimap *map) {
    return map->flags & KEEL_MULTIMAP_TOTALS;
}

/* The keys of an entry and of its total. */
struct place {
    struct recipe_key entry, total;
};

static fdb_error_t place_of(const keel_multimap *map, keel_element key, keel_element value,
                            struct place *place) {
    keel_element pair[] = {key, value};
    fdb_error_t error = recipe_pack(&map->subspace, keel_tuple_of(pair, 2), &place->entry);
    if (!error && has_totals(map))
        error = recipe_pack(&map->totals, keel_tuple_of(pair, 1), &place->total);
    return error;
}

/* The count that an entry's value stands for. */
static fdb_error_t count_of(const keel_multimap *map, keel_bytes value, int64_t *count) {
    uint64_t number = 0;
    if (!is_counted(map) || value.length == 0) {
        *count = 1;
        return 0;
    }
    if (value.length > 8)
        return KEEL_ERROR_STORED_FORMAT;
    for (size_t i = 0; i < value.length; i++)
        number |= (uint64_t)value.data[i] << (8 * i);
    *count = (int64_t)number;
    return 0;
}

/* 0 if there is no entry, or one that fell below zero. */
static fdb_error_t read_count(FDBTransaction *tr, const keel_multimap *map,
                              const struct recipe_key *key, int64_t *count) {
    bool present = false;
    keel_bytes value;
    int64_t stored = 0;
    FDBFuture *future = recipe_get_start(tr, key, false);
    fdb_error_t error = recipe_get_finish(future, &present, &value);
    if (!error && present)
        error = count_of(map, value, &stored);
    fdb_future_destroy(future);
    if (!error)
        *count = stored > 0 ? stored : 0;
    return error;
}

static void clear_if_zero(FDBTransaction *tr, const struct recipe_key *key) {
    static const uint8_t ZERO[8];
    fdb_transaction_atomic_op(tr, key->data, (int)key->length, ZERO, sizeof ZERO,
                              FDB_MUTATION_TYPE_COMPARE_AND_CLEAR);
}

static void change_total(FDBTransaction *tr, const keel_multimap *map, const struct place *place,
                         int64_t amount) {
    if (!has_totals(map))
        return;
    recipe_add(tr, &place->total, amount);
    if (amount < 0)
        clear_if_zero(tr, &place->total);
}

/* ---- Changes ---- */

KEEL_EXPORT fdb_error_t keel_multimap_add(FDBTransaction *tr, const keel_multimap *map,
                                          keel_element key, keel_element value, int64_t times) {
    struct place place;
    int64_t before = 0;
    if (times < 1 || (times != 1 && !is_counted(map)))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = place_of(map, key, value, &place);
    if (!error && !is_counted(map) && has_totals(map))
        error = read_count(tr, map, &place.entry, &before);
    if (error || before)
        return error;
    if (is_counted(map))
        recipe_add(tr, &place.entry, times);
    else
        recipe_set(tr, &place.entry, keel_bytes_of(NULL, 0));
    change_total(tr, map, &place, times);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_multimap_remove(FDBTransaction *tr, const keel_multimap *map,
                                             keel_element key, keel_element value, bool *removed) {
    struct place place;
    int64_t count = 1; /* if nobody needs to know */
    fdb_error_t error = place_of(map, key, value, &place);
    if (!error && (removed || map->flags))
        error = read_count(tr, map, &place.entry, &count);
    if (error)
        return error;
    if (count == 1)
        recipe_clear(tr, &place.entry);
    else if (count > 1)
        recipe_add(tr, &place.entry, -1);
    if (count)
        change_total(tr, map, &place, -1);
    if (removed)
        *removed = count > 0;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_multimap_subtract(FDBTransaction *tr, const keel_multimap *map,
                                               keel_element key, keel_element value,
                                               int64_t times) {
    struct place place;
    if (!is_counted(map) || times < 1)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = place_of(map, key, value, &place);
    if (error)
        return error;
    recipe_add(tr, &place.entry, -times);
    clear_if_zero(tr, &place.entry);
    change_total(tr, map, &place, -times);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_multimap_remove_key(FDBTransaction *tr, const keel_multimap *map,
                                                 keel_element key) {
    struct recipe_span span;
    struct recipe_key total = {.length = 0};
    fdb_error_t error = recipe_span_of(&map->subspace, keel_tuple_of(&key, 1), &span);
    if (!error && has_totals(map))
        error = recipe_pack(&map->totals, keel_tuple_of(&key, 1), &total);
    if (error)
        return error;
    recipe_clear_span(tr, &span);
    if (has_totals(map))
        recipe_clear(tr, &total);
    return 0;
}

/* ---- Reads ---- */

KEEL_EXPORT fdb_error_t keel_multimap_count(FDBTransaction *tr, const keel_multimap *map,
                                            keel_element key, keel_element value, int64_t *count) {
    struct place place;
    fdb_error_t error = place_of(map, key, value, &place);
    return error ? error : read_count(tr, map, &place.entry, count);
}

KEEL_EXPORT fdb_error_t keel_multimap_contains(FDBTransaction *tr, const keel_multimap *map,
                                               keel_element key, keel_element value,
                                               bool *contained) {
    int64_t count;
    fdb_error_t error = keel_multimap_count(tr, map, key, value, &count);
    if (!error)
        *contained = count > 0;
    return error;
}

/* An entry's key and value taken apart; the iterator stands behind the key's first element. */
static fdb_error_t entry_of(const keel_multimap *map, keel_bytes row_key, keel_bytes row_value,
                            keel_element *pair, int64_t *count) {
    keel_tuple_iterator it;
    fdb_error_t error = keel_subspace_unpack(&map->subspace, row_key, &it);
    for (int i = 0; i < 2 && !error; i++)
        error = keel_tuple_next(&it, &pair[i]);
    if (error || !keel_tuple_at_end(&it))
        return KEEL_ERROR_STORED_FORMAT;
    return count_of(map, row_value, count);
}

static fdb_error_t walk(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                        bool snapshot, keel_multimap_visit visit, void *context) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes row_key, row_value;
    bool found = true;
    fdb_error_t error = recipe_span_of(&map->subspace, keel_tuple_of(&key, 1), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, snapshot);
    while (!error && found) {
        keel_element pair[2];
        int64_t count = 0;
        error = recipe_scan_next(&scan, &row_key, &row_value, &found);
        if (!error && found)
            error = entry_of(map, row_key, row_value, pair, &count);
        if (!error && found && count > 0)
            error = visit(&pair[1], count, context);
    }
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_multimap_get(FDBTransaction *tr, const keel_multimap *map,
                                          keel_element key, keel_multimap_visit visit,
                                          void *context) {
    return walk(tr, map, key, false, visit, context);
}

static fdb_error_t add_up(const keel_element *element, int64_t count, void *context) {
    (void)element;
    *(int64_t *)context += count;
    return 0;
}

static fdb_error_t read_total(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                              bool snapshot, int64_t *total) {
    struct recipe_key packed;
    keel_multimap counts = {.flags = KEEL_MULTIMAP_COUNTED}; /* how totals are written */
    bool present = false;
    keel_bytes value;
    fdb_error_t error = recipe_pack(&map->totals, keel_tuple_of(&key, 1), &packed);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &packed, snapshot);
    error = recipe_get_finish(future, &present, &value);
    if (!error && present)
        error = count_of(&counts, value, total);
    else if (!error)
        *total = 0;
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_multimap_total(FDBTransaction *tr, const keel_multimap *map,
                                            keel_element key, bool snapshot, int64_t *total) {
    int64_t sum = 0;
    if (has_totals(map))
        return read_total(tr, map, key, snapshot, total);
    fdb_error_t error = walk(tr, map, key, snapshot, add_up, &sum);
    if (!error)
        *total = sum;
    return error;
}

/* The first entry of what is left; then what is left begins behind the key, or behind the entry. */
static fdb_error_t next_key(FDBTransaction *tr, const keel_multimap *map,
                            struct recipe_span *left, keel_multimap_visit visit, void *context,
                            bool *found) {
    struct recipe_scan scan;
    keel_bytes row_key, row_value;
    keel_element pair[2];
    int64_t count = 0;
    recipe_scan_open(&scan, tr, left, 1, false, false);
    fdb_error_t error = recipe_scan_next(&scan, &row_key, &row_value, found);
    if (!error && *found)
        error = entry_of(map, row_key, row_value, pair, &count);
    if (!error && *found && count > 0) {
        error = visit(&pair[0], count, context);
        if (!error)
            error = recipe_pack(&map->subspace, keel_tuple_of(pair, 1), &left->begin);
        if (!error)
            left->begin.data[left->begin.length++] = 0xff;
    } else if (!error && *found) {
        memcpy(left->begin.data, row_key.data, row_key.length);
        left->begin.data[row_key.length] = 0;
        left->begin.length = row_key.length + 1;
    }
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_multimap_keys(FDBTransaction *tr, const keel_multimap *map,
                                           keel_multimap_visit visit, void *context) {
    struct recipe_span left;
    bool found = true;
    fdb_error_t error = recipe_span_of(&map->subspace, keel_tuple_of(NULL, 0), &left);
    while (!error && found)
        error = next_key(tr, map, &left, visit, context, &found);
    return error;
}
