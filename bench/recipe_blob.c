/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a blob reads as it grows:  recipe_blob [CHUNKS_MAX]
 * Elements are chunks, of 32 bytes here so that a million of them fit. A range of fixed length, the
 * size, append, a change in the middle and truncate are to stay flat; the program fails otherwise.
 */
#include "recipe_bench.h"

#include <keel/blob.h>

enum { CHUNK = 32, BATCH = 4000, REPEATS = 50, OPERATIONS = 6, MORE_ROWS_MAX = 2 };

static const keel_blob_options options = {CHUNK};
static keel_subspace blob;
static int64_t size_bytes;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    static const uint8_t data[BATCH * CHUNK];
    int64_t from = *(long *)context * CHUNK, length = size_bytes - from;
    if (length > BATCH * CHUNK)
        length = BATCH * CHUNK;
    return keel_blob_write_at(tr, &blob, &options, from, keel_bytes_of(data, (size_t)length));
}

static fdb_error_t size(FDBTransaction *tr, void *context) {
    int64_t found;
    (void)context;
    return keel_blob_size(tr, &blob, &found);
}

static fdb_error_t range(FDBTransaction *tr, void *context) {
    uint8_t buffer[10 * CHUNK];
    size_t count;
    (void)context;
    int64_t from = rand() % (size_bytes - 1000);
    return keel_blob_read_at(tr, &blob, from, buffer, sizeof buffer, &count);
}

static fdb_error_t append(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_blob_append(tr, &blob, &options, keel_bytes_of("1234567", 7), NULL);
}

static fdb_error_t change(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_blob_write_at(tr, &blob, &options, rand() % (size_bytes - 1000),
                              keel_bytes_of("1234567", 7));
}

static fdb_error_t punch(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_blob_punch(tr, &blob, rand() % (size_bytes - 1000), 500);
}

static fdb_error_t truncate_to_size(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_blob_truncate(tr, &blob, size_bytes);
}

int main(int argc, char **argv) {
    static const char *const names[OPERATIONS] = {"size",   "range of 320 bytes", "append",
                                                  "change", "punch",              "truncate"};
    static const keel_function functions[OPERATIONS] = {size,   range, append,
                                                        change, punch, truncate_to_size};
    double first[OPERATIONS];
    long chunks_max = argc > 1 ? atol(argv[1]) : 1000000, filled = 0;
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("blob", 1), &blob), "subspace");
    for (long chunks = 1000; chunks <= chunks_max; chunks *= 10) {
        size_bytes = (int64_t)chunks * CHUNK;
        for (; filled < chunks; filled += BATCH)
            bench_check(keel_run(keel_fdb(bench_db), fill, &filled), "fill");
        filled = chunks;
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(names[i], chunks, functions[i], NULL, REPEATS);
            if (chunks == 1000)
                first[i] = rows;
            else if (rows > first[i] + MORE_ROWS_MAX)
                failed = printf("%s is not flat\n", names[i]);
        }
    }
    keel_close(bench_db);
    return failed != 0;
}
