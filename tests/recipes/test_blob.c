/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs: against a plain array under random operations with random chunk sizes, how much is read,
 * holes, sizes, file descriptors, conflicts and threads. KEEL_SEED and KEEL_ROUNDS as everywhere.
 */
#include "fixture.h"

#include <keel/blob.h>

#include <fcntl.h>
#include <unistd.h>

enum { TRANSACTION_TOO_LARGE = 2101 };

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("blob", name), &subspace), 0);
    return subspace;
}

static void assert_blob(FDBTransaction *tr, const keel_subspace *blob, const void *expected,
                        size_t expected_length) {
    uint8_t *data = NULL;
    size_t length = 0;
    int64_t size = -1;
    assert_int_equal(keel_blob_size(tr, blob, &size), 0);
    assert_int_equal(size, expected_length);
    assert_int_equal(keel_blob_read(tr, blob, &data, &length), 0);
    assert_int_equal(length, expected_length);
    assert_memory_equal(data, expected, expected_length);
    assert_int_equal(data[length], 0);
    free(data);
}

static void test_write_and_read(void **state) {
    (void)state;
    keel_subspace blob = named("simple");
    static uint8_t data[25000];
    uint8_t part[100];
    size_t count = 99;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    FDBTransaction *tr = begin();
    assert_blob(tr, &blob, "", 0);
    assert_int_equal(keel_blob_write(tr, &blob, NULL, KEEL_BYTES(data, sizeof data)), 0);
    assert_int_equal(count_rows(tr, &blob), 3); /* 10,000 + 10,000 + 5,000 */
    commit(tr);
    tr = begin();
    assert_blob(tr, &blob, data, sizeof data);
    assert_int_equal(keel_blob_read_at(tr, &blob, 9950, part, 100, &count), 0);
    assert_int_equal(count, 100);
    assert_memory_equal(part, data + 9950, 100);
    assert_int_equal(keel_blob_read_at(tr, &blob, 24990, part, 100, &count), 0);
    assert_int_equal(count, 10);
    assert_int_equal(keel_blob_read_at(tr, &blob, 25000, part, 100, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(keel_blob_read_at(tr, &blob, INT64_MAX, part, 100, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(keel_blob_write(tr, &blob, NULL, text("short")), 0);
    assert_blob(tr, &blob, "short", 5);
    assert_int_equal(count_rows(tr, &blob), 1);
    assert_int_equal(keel_blob_write(tr, &blob, NULL, text("")), 0);
    assert_blob(tr, &blob, "", 0);
    assert_int_equal(count_rows(tr, &blob), 0);
    fdb_transaction_destroy(tr);
}

static void test_append(void **state) {
    (void)state;
    keel_subspace blob = named("append");
    keel_blob_options options = {16};
    char expected[1000] = "";
    FDBTransaction *tr = begin();
    for (int i = 0; i < 100; i++) {
        int64_t offset = -1;
        assert_int_equal(keel_blob_append(tr, &blob, &options, text("1234567"), &offset), 0);
        assert_int_equal(offset, i * 7);
        strcat(expected, "1234567");
    }
    assert_blob(tr, &blob, expected, 700);
    assert_int_equal(count_rows(tr, &blob), 44); /* 700 / 16: chunks are filled up */
    assert_int_equal(keel_blob_append(tr, &blob, &options, text(""), NULL), 0);
    assert_blob(tr, &blob, expected, 700);
    commit(tr);
}

static void test_holes(void **state) {
    (void)state;
    keel_subspace blob = named("holes");
    uint8_t part[16];
    size_t count;
    int64_t size;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_blob_write_at(tr, &blob, NULL, (int64_t)1 << 40, text("far")), 0);
    assert_int_equal(keel_blob_size(tr, &blob, &size), 0);
    assert_int_equal(size, ((int64_t)1 << 40) + 3);
    assert_int_equal(count_rows(tr, &blob), 1);
    assert_int_equal(keel_blob_read_at(tr, &blob, 5, part, sizeof part, &count), 0);
    assert_int_equal(count, sizeof part);
    assert_memory_equal(part, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_int_equal(keel_blob_read_at(tr, &blob, ((int64_t)1 << 40) - 2, part, 16, &count), 0);
    assert_int_equal(count, 5);
    assert_memory_equal(part, "\0\0far", 5);
    assert_int_equal(keel_blob_truncate(tr, &blob, 10), 0); /* nothing but a hole */
    assert_blob(tr, &blob, "\0\0\0\0\0\0\0\0\0\0", 10);
    assert_int_equal(keel_blob_append(tr, &blob, NULL, text("x"), NULL), 0);
    assert_blob(tr, &blob, "\0\0\0\0\0\0\0\0\0\0x", 11);
    assert_int_equal(keel_blob_truncate(tr, &blob, 14), 0); /* longer */
    assert_blob(tr, &blob, "\0\0\0\0\0\0\0\0\0\0x\0\0\0", 14);
    assert_int_equal(keel_blob_truncate(tr, &blob, INT64_MAX), 0);
    assert_int_equal(keel_blob_size(tr, &blob, &size), 0);
    assert_int_equal(size, INT64_MAX);
    assert_int_equal(keel_blob_append(tr, &blob, NULL, text("x"), NULL), KEEL_ERROR_INDEX_RANGE);
    uint8_t *data;
    assert_int_equal(keel_blob_read(tr, &blob, &data, &count), 1501);
    assert_int_equal(keel_blob_write(tr, &blob, NULL, text("0123456789")), 0);
    assert_int_equal(keel_blob_punch(tr, &blob, 3, 4), 0);
    assert_blob(tr, &blob, "012\0\0\0\0" "789", 10);
    assert_int_equal(keel_blob_punch(tr, &blob, 8, 100), 0);
    assert_blob(tr, &blob, "012\0\0\0\0" "7\0\0", 10);
    assert_int_equal(keel_blob_truncate(tr, &blob, 0), 0);
    assert_int_equal(count_rows(tr, &blob), 0);
    fdb_transaction_destroy(tr);
}

/* ---- Random operations against a plain array ---- */

enum { MODEL_MAX = 600 };
struct model {
    uint8_t bytes[MODEL_MAX * 3];
    size_t size;
    uint64_t random;
};

static void model_write(struct model *model, size_t offset, const uint8_t *data, size_t length) {
    if (length == 0)
        return;
    if (offset > model->size)
        memset(model->bytes + model->size, 0, offset - model->size);
    memcpy(model->bytes + offset, data, length);
    if (offset + length > model->size)
        model->size = offset + length;
}

static void random_step(FDBTransaction *tr, const keel_subspace *blob, struct model *model) {
    uint8_t data[MODEL_MAX];
    keel_blob_options options = {1 + draw(&model->random) % 60};
    size_t offset = draw(&model->random) % MODEL_MAX;
    size_t length = draw(&model->random) % (draw(&model->random) % 2 ? 20 : 200);
    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)(1 + draw(&model->random) % 255);
    uint32_t what = draw(&model->random) % 20;
    if (what == 0) {
        assert_int_equal(keel_blob_write(tr, blob, &options, KEEL_BYTES(data, length)), 0);
        model->size = 0;
        model_write(model, 0, data, length);
    } else if (what < 10) {
        assert_int_equal(
            keel_blob_write_at(tr, blob, &options, (int64_t)offset, KEEL_BYTES(data, length)), 0);
        model_write(model, offset, data, length);
    } else if (what < 13 && model->size < 2 * MODEL_MAX) {
        assert_int_equal(keel_blob_append(tr, blob, &options, KEEL_BYTES(data, length), NULL), 0);
        model_write(model, model->size, data, length);
    } else if (what < 16) {
        assert_int_equal(keel_blob_truncate(tr, blob, (int64_t)offset), 0);
        if (offset > model->size)
            memset(model->bytes + model->size, 0, offset - model->size);
        model->size = offset;
    } else {
        assert_int_equal(keel_blob_punch(tr, blob, (int64_t)offset, (int64_t)length), 0);
        for (size_t i = offset; i < offset + length && i < model->size; i++)
            model->bytes[i] = 0;
    }
}

static void assert_random_range(FDBTransaction *tr, const keel_subspace *blob,
                                struct model *model) {
    uint8_t part[300];
    size_t offset = draw(&model->random) % (MODEL_MAX + 100), count = 0;
    size_t capacity = draw(&model->random) % sizeof part;
    size_t expected = offset < model->size ? model->size - offset : 0;
    if (expected > capacity)
        expected = capacity;
    memset(part, 0xee, sizeof part);
    assert_int_equal(keel_blob_read_at(tr, blob, (int64_t)offset, part, capacity, &count), 0);
    assert_int_equal(count, expected);
    if (count)
        assert_memory_equal(part, model->bytes + offset, count);
}

static void test_random(void **state) {
    (void)state;
    const char *seed = getenv("KEEL_SEED"), *rounds = getenv("KEEL_ROUNDS");
    int round_count = rounds ? atoi(rounds) : 1500;
    static struct model model;
    keel_subspace blob = named("random");
    model.random = seed ? strtoull(seed, NULL, 10) : 4711;
    print_message("KEEL_SEED=%llu KEEL_ROUNDS=%d\n", (unsigned long long)model.random, round_count);
    FDBTransaction *tr = begin();
    for (int i = 0; i < round_count; i++) {
        random_step(tr, &blob, &model);
        if (i % 7 == 0) {
            commit(tr);
            tr = begin();
        }
        assert_blob(tr, &blob, model.bytes, model.size);
        assert_random_range(tr, &blob, &model);
    }
    commit(tr);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace blob = named("bad");
    keel_blob_options large = {100001};
    uint8_t buffer[8];
    size_t count = 77;
    int64_t size = 77;
    uint8_t *huge = calloc(1, 10000001);
    FDBTransaction *tr = begin();
    keel_blob_write(tr, &blob, NULL, text("data"));
    assert_refused(tr, keel_blob_write(tr, &blob, &large, text("x")), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_blob_append(tr, &blob, &large, text("x"), NULL), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_blob_write(tr, &blob, NULL, KEEL_BYTES(huge, 10000001)),
                   TRANSACTION_TOO_LARGE);
    assert_refused(tr, keel_blob_append(tr, &blob, NULL, KEEL_BYTES(huge, 10000001), NULL),
                   TRANSACTION_TOO_LARGE);
    assert_refused(tr, keel_blob_write(tr, &blob, NULL, KEEL_BYTES(NULL, 1)), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_blob_write(tr, NULL, NULL, text("x")), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_blob_write_at(tr, &blob, NULL, -1, text("x")), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_write_at(tr, &blob, NULL, INT64_MAX, text("x")),
                   KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_read_at(tr, &blob, -1, buffer, 8, &count), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_read_at(tr, &blob, 0, NULL, 8, &count), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_blob_truncate(tr, &blob, -1), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_punch(tr, &blob, -1, 5), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_punch(tr, &blob, 0, -5), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_punch(tr, &blob, 5, INT64_MAX), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_blob_load(tr, &blob, NULL, -1, 0, 10, NULL), KEEL_ERROR_DESCRIPTOR);
    assert_refused(tr, keel_blob_load(tr, &blob, NULL, 0, -1, 10, NULL), KEEL_ERROR_INDEX_RANGE);
    assert_int_equal(keel_blob_export(keel_fdb(fixture_db), &blob, -1, 5, 1, &size),
                     KEEL_ERROR_INDEX_RANGE);
    assert_int_equal(keel_blob_import(keel_fdb(fixture_db), &blob, NULL, -1, &size),
                     KEEL_ERROR_DESCRIPTOR);
    assert_int_equal(count, 77);
    assert_blob(tr, &blob, "data", 4);
    uint8_t key[100];
    size_t length;
    assert_int_equal(keel_subspace_pack(&blob, KEEL_TUPLE(1, 2), key, sizeof key, &length), 0);
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"x", 1);
    assert_int_equal(keel_blob_size(tr, &blob, &size), KEEL_ERROR_STORED_FORMAT);
    fdb_transaction_destroy(tr);
    free(huge);
}

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace blob = named("conflicts");
    keel_blob_options options = {10};
    uint8_t part[10];
    size_t count;
    FDBTransaction *tr = begin();
    keel_blob_write(tr, &blob, &options, text("aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"));
    commit(tr);
    FDBTransaction *a = begin(), *b = begin(); /* the middle, and an append: no conflict */
    assert_int_equal(keel_blob_read_at(a, &blob, 10, part, 5, &count), 0);
    assert_int_equal(keel_blob_write_at(a, &blob, &options, 12, text("X")), 0);
    assert_int_equal(keel_blob_append(b, &blob, &options, text("e"), NULL), 0);
    commit(b);
    commit(a);
    a = begin(), b = begin(); /* reading over the end, and an append: conflict */
    assert_int_equal(keel_blob_read_at(a, &blob, 35, part, 10, &count), 0);
    assert_int_equal(count, 6);
    assert_int_equal(keel_blob_write_at(a, &blob, &options, 0, text("X")), 0);
    assert_int_equal(keel_blob_append(b, &blob, &options, text("e"), NULL), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
    a = begin(), b = begin(); /* two parts of one chunk: conflict, nothing is lost */
    assert_int_equal(keel_blob_write_at(a, &blob, &options, 20, text("A")), 0);
    assert_int_equal(keel_blob_write_at(b, &blob, &options, 25, text("B")), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
}

/* ---- File descriptors ---- */

static int temporary_file(void) {
    char path[4096];
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/blob-XXXXXX", directory ? directory : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

enum { FILE_BYTES = 2345678 };

static void test_descriptors(void **state) {
    (void)state;
    keel_subspace blob = named("file");
    uint8_t *data = malloc(FILE_BYTES), *back = malloc(FILE_BYTES + 1);
    uint64_t random = 17;
    for (int i = 0; i < FILE_BYTES; i++)
        data[i] = (uint8_t)draw(&random);
    int from = temporary_file(), to = temporary_file();
    int64_t count = -1;
    assert_int_equal(write(from, data, FILE_BYTES), FILE_BYTES);
    lseek(from, 0, SEEK_SET);
    assert_int_equal(keel_blob_import(keel_fdb(fixture_db), &blob, NULL, from, &count), 0);
    assert_int_equal(count, FILE_BYTES);
    FDBTransaction *tr = begin();
    assert_blob(tr, &blob, data, FILE_BYTES);
    assert_int_equal(keel_blob_export(keel_fdb(fixture_db), &blob, 0, INT64_MAX, to, &count), 0);
    assert_int_equal(count, FILE_BYTES);
    assert_int_equal(pread(to, back, FILE_BYTES + 1, 0), FILE_BYTES);
    assert_memory_equal(back, data, FILE_BYTES);
    assert_int_equal(keel_blob_export(keel_fdb(fixture_db), &blob, 5, 10, to, &count), 0);
    assert_int_equal(count, 10);
    size_t saved = 0; /* in one transaction, by offsets */
    assert_int_equal(keel_blob_load(tr, &blob, NULL, from, 1000, 50000, &saved), 0);
    assert_int_equal(saved, 50000);
    assert_blob(tr, &blob, data + 1000, 50000);
    assert_int_equal(keel_blob_load(tr, &blob, NULL, from, FILE_BYTES - 5, 50000, &saved), 0);
    assert_blob(tr, &blob, data + FILE_BYTES - 5, 5);
    assert_int_equal(keel_blob_save(tr, &blob, 1, 100, to, 7, &saved), 0);
    assert_int_equal(saved, 4);
    assert_int_equal(pread(to, back, 4, 7), 4);
    assert_memory_equal(back, data + FILE_BYTES - 4, 4);
    fdb_transaction_destroy(tr);
    close(from);
    close(to);
    free(data);
    free(back);
}

static fdb_error_t feed_pipe(int number, void *context) {
    int *ends = context;
    if (number == 0) {
        for (int i = 0; i < 1000; i++)
            if (write(ends[1], "0123456789", 10) != 10)
                return 1;
        close(ends[1]);
        return 0;
    }
    keel_subspace blob = named("pipe");
    int64_t count = 0;
    fdb_error_t error = keel_blob_import(keel_fdb(fixture_db), &blob, NULL, ends[0], &count);
    close(ends[0]);
    return error ? error : count != 10000;
}

static void test_pipe(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    in_threads(2, feed_pipe, ends);
    keel_subspace blob = named("pipe");
    char part[11] = "";
    size_t count;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_blob_read_at(tr, &blob, 9995, part, 10, &count), 0);
    assert_string_equal(part, "56789");
    fdb_transaction_destroy(tr);
}

/* ---- Threads: appended records are whole, all there, each writer's in its order ---- */

enum { THREADS = 8, RECORDS = 30, RECORD_BYTES = 6 };

static fdb_error_t append_record(FDBTransaction *tr, void *context) {
    keel_subspace blob = named("threads");
    keel_blob_options options = {64};
    return keel_blob_append(tr, &blob, &options, text(context), NULL);
}

static fdb_error_t append_records(int number, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < RECORDS && !error; i++) {
        char record[16];
        snprintf(record, sizeof record, "%d:%03d;", number, i);
        error = keel_run(keel_fdb(fixture_db), append_record, record);
    }
    return error;
}

static void test_threads(void **state) {
    (void)state;
    keel_subspace blob = named("threads");
    uint8_t *data;
    size_t length;
    int next[THREADS] = {0};
    in_threads(THREADS, append_records, NULL);
    FDBTransaction *tr = begin();
    assert_int_equal(keel_blob_read(tr, &blob, &data, &length), 0);
    assert_int_equal(length, THREADS * RECORDS * RECORD_BYTES);
    for (size_t i = 0; i < length; i += RECORD_BYTES) {
        int number, sequence;
        assert_int_equal(sscanf((char *)data + i, "%d:%d;", &number, &sequence), 2);
        assert_int_equal(sequence, next[number]++);
    }
    free(data);
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
