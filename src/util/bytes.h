/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view of bytes that somebody else owns. Passed by value; says nothing about lifetime, so every function
 * that stores or returns one states how long it stays valid. An empty view may have any data pointer.
 */
#ifndef KEEL_UTIL_BYTES_H
#define KEEL_UTIL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t length;
};

/* A half-open range of keys: begin <= key < end. */
struct key_range {
    struct bytes begin;
    struct bytes end;
};

#define BYTES_LITERAL(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

static inline struct bytes bytes_make(const void *data, size_t length) {
    return (struct bytes){(const uint8_t *)data, length};
}

/* Byte-wise order, shorter first on a shared prefix: negative, zero or positive. */
static inline int bytes_compare(struct bytes a, struct bytes b) {
    size_t shared = a.length < b.length ? a.length : b.length;
    int order = shared ? memcmp(a.data, b.data, shared) : 0;
    if (order)
        return order;
    return (a.length > b.length) - (a.length < b.length);
}

static inline bool bytes_equal(struct bytes a, struct bytes b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool bytes_starts_with(struct bytes a, struct bytes prefix) {
    return a.length >= prefix.length &&
           (prefix.length == 0 || memcmp(a.data, prefix.data, prefix.length) == 0);
}

static inline struct bytes bytes_min(struct bytes a, struct bytes b) {
    return bytes_compare(a, b) <= 0 ? a : b;
}

static inline struct bytes bytes_max(struct bytes a, struct bytes b) {
    return bytes_compare(a, b) >= 0 ? a : b;
}

static inline bool key_range_contains(struct key_range range, struct bytes key) {
    return bytes_compare(range.begin, key) <= 0 && bytes_compare(key, range.end) < 0;
}

#endif
