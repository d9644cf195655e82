/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, single reads and scans for the recipes. A scan asks for its pages in the iterator streaming
 * mode, whose pages grow, so a short scan reads little and a long one is not chatty.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const fdb_error_t KEY_TOO_LARGE = 2102, VALUE_TOO_LARGE = 2103, NO_MEMORY = 1501;

static fdb_error_t pack_result(fdb_error_t error, size_t length, size_t extra, struct recipe_key *key) {
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL || (!error && length > RECIPE_KEY_MAX + extra))
        return KEY_TOO_LARGE;
    if (!error)
        key->length = length;
    return error;
}

fdb_error_t recipe_pack(const keel_subspace *subspace, keel_tuple tuple, struct recipe_key *key) {
    size_t length = 0;
    if (!subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = keel_subspace_pack(subspace, tuple, key->data, sizeof key->data, &length);
    return pack_result(error, length, 0, key);
}

fdb_error_t recipe_pack_versionstamp(const keel_subspace *subspace, keel_tuple tuple,
                                     struct recipe_key *key) {
    size_t length = 0;
    if (!subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error =
        keel_subspace_pack_versionstamp(subspace, tuple, key->data, sizeof key->data, &length);
    return pack_result(error, length, 4, key);
}

fdb_error_t recipe_append_bytes(struct recipe_key *key, keel_bytes bytes) {
    if (bytes.length > RECIPE_KEY_MAX - key->length)
        return KEY_TOO_LARGE;
    if (bytes.length)
        memcpy(key->data + key->length, bytes.data, bytes.length);
    key->length += bytes.length;
    return 0;
}

fdb_error_t recipe_append(struct recipe_key *key, keel_tuple tuple) {
    size_t length = 0;
    fdb_error_t error = keel_tuple_pack(tuple, key->data + key->length,
                                        RECIPE_KEY_MAX - key->length, &length);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL)
        return KEY_TOO_LARGE;
    if (!error)
        key->length += length;
    return error;
}

fdb_error_t recipe_span_of(const keel_subspace *subspace, keel_tuple tuple,
                           struct recipe_span *span) {
    size_t length = 0;
    if (!subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = keel_subspace_range_into(subspace, tuple, span->begin.data, span->end.data,
                                                 sizeof span->begin.data, &length);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL)
        return KEY_TOO_LARGE;
    if (!error)
        span->begin.length = span->end.length = length;
    return error;
}

void recipe_span_with(const struct recipe_key *key, struct recipe_span *span) {
    memcpy(span->begin.data, key->data, key->length);
    memcpy(span->end.data, key->data, key->length);
    span->begin.length = key->length;
    span->end.data[key->length] = 0xff;
    span->end.length = key->length + 1;
}

void recipe_set(FDBTransaction *tr, const struct recipe_key *key, keel_bytes value) {
    fdb_transaction_set(tr, key->data, (int)key->length, value.data, (int)value.length);
}

void recipe_clear(FDBTransaction *tr, const struct recipe_key *key) {
    fdb_transaction_clear(tr, key->data, (int)key->length);
}

void recipe_clear_span(FDBTransaction *tr, const struct recipe_span *span) {
    fdb_transaction_clear_range(tr, span->begin.data, (int)span->begin.length, span->end.data,
                                (int)span->end.length);
}

void recipe_add(FDBTransaction *tr, const struct recipe_key *key, int64_t amount) {
    uint8_t operand[8];
    for (int i = 0; i < 8; i++)
        operand[i] = (uint8_t)((uint64_t)amount >> (8 * i));
    fdb_transaction_atomic_op(tr, key->data, (int)key->length, operand, sizeof operand,
                              FDB_MUTATION_TYPE_ADD);
}

FDBFuture *recipe_get_start(FDBTransaction *tr, const struct recipe_key *key, bool snapshot) {
    return fdb_transaction_get(tr, key->data, (int)key->length, snapshot);
}

fdb_error_t recipe_get_finish(FDBFuture *future, bool *present, keel_bytes *value) {
    fdb_error_t error = keel_wait(future);
    fdb_bool_t found = 0;
    const uint8_t *data = NULL;
    int length = 0;
    if (!error)
        error = fdb_future_get_value(future, &found, &data, &length);
    if (error)
        return error;
    *present = found != 0;
    if (found)
        *value = keel_bytes_of(data, (size_t)length);
    return 0;
}

static void start_page(struct recipe_scan *scan) {
    scan->future = fdb_transaction_get_range(
        scan->tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(scan->begin.data, (int)scan->begin.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(scan->end.data, (int)scan->end.length), scan->limit, 0,
        FDB_STREAMING_MODE_ITERATOR, ++scan->iteration, scan->snapshot, scan->reverse);
    scan->waited = false;
    scan->index = scan->count = 0;
}

static void copy_key(struct recipe_key *to, const struct recipe_key *from) {
    memcpy(to->data, from->data, from->length);
    to->length = from->length;
}

void recipe_scan_open(struct recipe_scan *scan, FDBTransaction *tr, const struct recipe_span *span,
                      int limit, bool reverse, bool snapshot) {
    scan->tr = tr;
    scan->limit = limit;
    scan->iteration = 0;
    scan->reverse = reverse;
    scan->snapshot = snapshot;
    copy_key(&scan->begin, &span->begin);
    copy_key(&scan->end, &span->end);
    start_page(scan);
}

static fdb_error_t wait_for_page(struct recipe_scan *scan) {
    fdb_bool_t more = 0;
    fdb_error_t error = keel_wait(scan->future);
    if (!error)
        error = fdb_future_get_keyvalue_array(scan->future, &scan->rows, &scan->count, &more);
    scan->more = more != 0;
    scan->waited = true;
    return error;
}

/* What the page that was just used up leaves of the range. False: nothing. */
static bool start_next_page(struct recipe_scan *scan) {
    if (!scan->more || scan->count == 0)
        return false;
    if (scan->limit) {
        scan->limit -= scan->count;
        if (scan->limit <= 0)
            return false;
    }
    const FDBKeyValue *last = &scan->rows[scan->count - 1];
    struct recipe_key *edge = scan->reverse ? &scan->end : &scan->begin;
    memcpy(edge->data, last->key, (size_t)last->key_length);
    edge->length = (size_t)last->key_length;
    if (!scan->reverse)
        edge->data[edge->length++] = 0; /* just behind it */
    fdb_future_destroy(scan->future);
    start_page(scan);
    return true;
}

fdb_error_t recipe_scan_next(struct recipe_scan *scan, keel_bytes *key, keel_bytes *value,
                             bool *found) {
    *found = false;
    for (;;) {
        if (!scan->waited) {
            fdb_error_t error = wait_for_page(scan);
            if (error)
                return error;
        }
        if (scan->index < scan->count)
            break;
        if (!start_next_page(scan))
            return 0;
    }
    const FDBKeyValue *row = &scan->rows[scan->index++];
    *key = keel_bytes_of(row->key, (size_t)row->key_length);
    *value = keel_bytes_of(row->value, (size_t)row->value_length);
    *found = true;
    return 0;
}

void recipe_scan_close(struct recipe_scan *scan) {
    fdb_future_destroy(scan->future);
    scan->future = NULL;
}

fdb_error_t recipe_check_value(keel_bytes value) {
    if (!value.data && value.length)
        return KEEL_ERROR_ARGUMENT;
    return value.length > RECIPE_VALUE_MAX ? VALUE_TOO_LARGE : 0;
}

fdb_error_t recipe_copy(keel_bytes bytes, uint8_t **copy, size_t *length) {
    uint8_t *memory = malloc(bytes.length ? bytes.length : 1);
    if (!memory)
        return NO_MEMORY;
    if (bytes.length)
        memcpy(memory, bytes.data, bytes.length);
    *copy = memory;
    *length = bytes.length;
    return 0;
}

void recipe_random(uint8_t *bytes, size_t length) {
    for (size_t done = 0; done < length;) { /* interrupted by a signal at worst */
        ssize_t got = getrandom(bytes + done, length - done, 0);
        if (got > 0)
            done += (size_t)got;
    }
}

fdb_error_t recipe_count(FDBTransaction *tr, const struct recipe_span *span, int64_t *count) {
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found = true;
    int64_t rows = 0;
    fdb_error_t error = 0;
    recipe_scan_open(&scan, tr, span, 0, false, true);
    while (!error && found) {
        error = recipe_scan_next(&scan, &key, &value, &found);
        rows += !error && found;
    }
    recipe_scan_close(&scan);
    if (!error)
        *count = rows;
    return error;
}

fdb_error_t recipe_read_conflict(FDBTransaction *tr, keel_bytes key) {
    struct recipe_key behind;
    if (key.length > RECIPE_KEY_MAX)
        return KEY_TOO_LARGE;
    memcpy(behind.data, key.data, key.length);
    behind.data[key.length] = 0;
    return fdb_transaction_add_conflict_range(tr, key.data, (int)key.length, behind.data,
                                              (int)key.length + 1, FDB_CONFLICT_RANGE_TYPE_READ);
}

fdb_error_t recipe_is_empty(FDBTransaction *tr, const keel_subspace *subspace, bool *empty) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found;
    fdb_error_t error = recipe_span_of(subspace, KEEL_TUPLE(), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, false, false);
    error = recipe_scan_next(&scan, &key, &value, &found);
    if (!error)
        *empty = !found;
    recipe_scan_close(&scan);
    return error;
}
