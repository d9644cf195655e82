/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs, beside tests/clients/python/recipe_blob.py; see interop.h. */
#include "interop.h"

#include <keel/blob.h>

static const struct {
    const char *name;
    size_t length;
    uint32_t chunk_bytes;
} blobs[] = {{"one", 1, 0},      {"chunk", 10000, 0},      {"more", 10001, 0},
             {"many", 234567, 0}, {"small chunks", 5000, 7}, {"large chunks", 234567, 100000}};
enum { BLOBS = sizeof blobs / sizeof *blobs };

static uint8_t *content(size_t length) {
    uint8_t *data = malloc(length);
    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)((i * 31 + i / 251) % 256);
    return data;
}

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    must(keel_subspace_tuple(KEEL_TUPLE("blob", name), &subspace), "subspace");
    return subspace;
}

/* A part at once, the rest appended. */
static fdb_error_t write_blob(FDBTransaction *tr, int i) {
    keel_subspace blob = named(blobs[i].name);
    keel_blob_options options = {blobs[i].chunk_bytes};
    size_t half = blobs[i].length / 2;
    uint8_t *data = content(blobs[i].length);
    fdb_error_t error = keel_blob_write(tr, &blob, &options, keel_bytes_of(data, half));
    if (!error)
        error = keel_blob_append(tr, &blob, &options,
                                 keel_bytes_of(data + half, blobs[i].length - half), NULL);
    free(data);
    return error;
}

static fdb_error_t write_set(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < BLOBS && !error; i++)
        error = write_blob(tr, i);
    return error;
}

static int holds(FDBTransaction *tr, int i) {
    keel_subspace blob = named(blobs[i].name);
    uint8_t *data = NULL, *expected = content(blobs[i].length), part[100];
    size_t length = 0, count = 0, from = blobs[i].length / 3;
    int64_t size = -1;
    must(keel_blob_size(tr, &blob, &size), "size");
    must(keel_blob_read(tr, &blob, &data, &length), "read");
    must(keel_blob_read_at(tr, &blob, (int64_t)from, part, sizeof part, &count), "read_at");
    int same = size == (int64_t)blobs[i].length && length == blobs[i].length &&
               !memcmp(data, expected, length) && !memcmp(part, expected + from, count) &&
               (count == sizeof part || from + count == length);
    free(data);
    free(expected);
    return same;
}

static fdb_error_t check_set(FDBTransaction *tr, void *context) {
    (void)context;
    for (int i = 0; i < BLOBS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blob: %s", blobs[i].name);
        check(holds(tr, i), name);
    }
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write_set, check_set);
}
