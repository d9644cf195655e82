/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and reads for the directory layer.
 *
 * Keys of the layer have no useful bound: a manual prefix may be long, its node's key holds it with
 * each zero byte doubled, and a name of any length follows. So a key grows: it starts in 160 bytes
 * inside the structure, enough for every allocated prefix with ordinary names, and moves to the
 * heap beyond.
 *
 *   1. data[0 .. length) is the key; data == inside, or a block that directory_key_free frees.
 *   2. error != 0: the key is not to be used; appending does nothing.
 *
 * Reads are started by one function and waited for by another, so that callers can have several
 * under way.
 *
 * Threads: nothing is shared. Failure: 1501 without memory; the errors of futures are passed on.
 */
#include "directory_internal.h"

#include <limits.h>
#include <stdlib.h>

enum { KEY_TOO_LARGE = 2102, KEY_LENGTH_MAX = INT_MAX / 4 };

void directory_key_init(struct directory_key *key) {
    key->data = key->inside;
    key->length = 0;
    key->capacity = sizeof key->inside;
    key->error = 0;
}

void directory_key_free(struct directory_key *key) {
    if (key->data != key->inside)
        free(key->data);
    directory_key_init(key);
}

void directory_key_reset(struct directory_key *key) {
    key->length = 0;
    key->error = 0;
}

/* Makes room for `more` bytes behind the key. */
static bool reserve(struct directory_key *key, size_t more) {
    if (key->error)
        return false;
    if (key->capacity - key->length >= more)
        return true;
    if (more > KEY_LENGTH_MAX || key->length + more > KEY_LENGTH_MAX) {
        key->error = KEY_TOO_LARGE;
        return false;
    }
    size_t capacity = 2 * (key->length + more);
    bool was_inside = key->data == key->inside;
    uint8_t *data = was_inside ? malloc(capacity) : realloc(key->data, capacity);
    if (!data) {
        key->error = DIRECTORY_NO_MEMORY;
        return false;
    }
    if (was_inside)
        memcpy(data, key->inside, key->length);
    key->data = data;
    key->capacity = capacity;
    return true;
}

void directory_key_append(struct directory_key *key, keel_bytes bytes) {
    if (bytes.length == 0 || !reserve(key, bytes.length))
        return;
    memcpy(key->data + key->length, bytes.data, bytes.length);
    key->length += bytes.length;
}

void directory_key_append_byte(struct directory_key *key, uint8_t byte) {
    directory_key_append(key, (keel_bytes){&byte, 1});
}

static void append_element(struct directory_key *key, keel_element element) {
    keel_tuple tuple = {&element, 1};
    for (;;) {
        size_t room = key->capacity - key->length, needed = 0;
        if (key->error)
            return;
        fdb_error_t error = keel_tuple_pack(tuple, key->data + key->length, room, &needed);
        if (!error) {
            key->length += needed;
            return;
        }
        if (error != KEEL_ERROR_BUFFER_TOO_SMALL || needed <= room) {
            key->error = error;
            return;
        }
        reserve(key, needed);
    }
}

void directory_key_append_bytes(struct directory_key *key, keel_bytes bytes) {
    append_element(key, keel_element_of_bytes(bytes));
}

void directory_key_append_string(struct directory_key *key, keel_bytes text) {
    append_element(key, keel_element_of_text((const char *)text.data, text.length));
}

void directory_key_append_integer(struct directory_key *key, int64_t integer) {
    append_element(key, keel_element_of_int(integer));
}

void directory_key_to_successor(struct directory_key *key) {
    if (key->error)
        return;
    while (key->length > 0 && key->data[key->length - 1] == 0xff)
        key->length--;
    if (key->length == 0)
        key->error = KEEL_ERROR_NO_SUCCESSOR;
    else
        key->data[key->length - 1]++;
}

keel_bytes directory_key_bytes(const struct directory_key *key) {
    return (keel_bytes){key->data, key->length};
}

bool directory_bytes_equal(keel_bytes a, keel_bytes b) {
    return a.length == b.length && directory_bytes_begin(a, b);
}

bool directory_bytes_begin(keel_bytes bytes, keel_bytes beginning) {
    return beginning.length <= bytes.length &&
           (beginning.length == 0 || memcmp(bytes.data, beginning.data, beginning.length) == 0);
}

/* ---- Reads ---- */

FDBFuture *directory_read_key(FDBTransaction *tr, const struct directory_key *key, bool snapshot) {
    return fdb_transaction_get(tr, key->data, (int)key->length, snapshot);
}

static FDBFuture *read_range(FDBTransaction *tr, const struct directory_key *begin,
                             const struct directory_key *end, int limit, FDBStreamingMode mode,
                             bool reverse, bool snapshot) {
    return fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin->data, (int)begin->length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end->data, (int)end->length), limit, 0, mode, 1, snapshot,
        reverse);
}

FDBFuture *directory_read_one(FDBTransaction *tr, const struct directory_key *begin,
                              const struct directory_key *end, bool reverse, bool snapshot) {
    return read_range(tr, begin, end, 1, FDB_STREAMING_MODE_EXACT, reverse, snapshot);
}

FDBFuture *directory_read_many(FDBTransaction *tr, const struct directory_key *begin,
                               const struct directory_key *end, bool snapshot) {
    return read_range(tr, begin, end, 0, FDB_STREAMING_MODE_WANT_ALL, false, snapshot);
}

fdb_error_t directory_wait_value(FDBFuture *future, bool *present, keel_bytes *value) {
    fdb_bool_t is_present = 0;
    const uint8_t *data = NULL;
    int length = 0;
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_value(future, &is_present, &data, &length);
    if (error)
        return error;
    *present = is_present;
    *value = is_present ? (keel_bytes){data, (size_t)length} : (keel_bytes){NULL, 0};
    return 0;
}

fdb_error_t directory_wait_pairs(FDBFuture *future, const FDBKeyValue **pairs, int *count,
                                 bool *more) {
    const FDBKeyValue *array = NULL;
    int length = 0;
    fdb_bool_t is_more = 0;
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &array, &length, &is_more);
    if (error)
        return error;
    *pairs = array;
    *count = length;
    *more = is_more;
    return 0;
}

void directory_future_drop(FDBFuture **future) {
    if (*future)
        fdb_future_destroy(*future);
    *future = NULL;
}
