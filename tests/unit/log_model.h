/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the log share: images of its directory, and a naive model, an array of what was appended. Crashes are images, taken
 * at any moment and changed as a crash or a bad disk would change them, from which a log is opened again.
 *
 * KEEL_SEED picks the seed of the random tests, KEEL_ROUNDS how often they run.
 */
#ifndef KEEL_TESTS_LOG_MODEL_H
#define KEEL_TESTS_LOG_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/log.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/thread.h"
#include "util/coding.h"
#include "util/memory.h"

enum { SEGMENT_BYTES = 8192, HEADER_BYTES = 64, RECORD_HEADER_BYTES = 48, RECORDS_MAX = 20000 };

static char root[64];
static char directory[128];
static uint64_t random_state;

static inline uint64_t next_random(void) {
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t random_below(size_t limit) {
    return (size_t)(next_random() % limit);
}

/* ---- Images of the directory ---- */

struct image_file {
    char name[64];
    uint8_t *data;
    size_t size;
    uint64_t inode;
};

struct image {
    struct image_file files[512];
    int count;
};

static inline int compare_files(const void *a, const void *b) {
    return strcmp(((const struct image_file *)a)->name, ((const struct image_file *)b)->name);
}

static inline void image_take(struct image *image) {
    image->count = 0;
    DIR *stream = opendir(directory);
    if (!stream)
        return;
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.')
            continue;
        struct image_file *file = &image->files[image->count++];
        assert_true(image->count <= 512);
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        snprintf(file->name, sizeof file->name, "%.63s", entry->d_name);
        FILE *input = fopen(path, "rb");
        assert_non_null(input);
        struct stat status;
        assert_int_equal(fstat(fileno(input), &status), 0);
        file->size = (size_t)status.st_size;
        file->inode = (uint64_t)status.st_ino;
        file->data = malloc(file->size + 1);
        assert_int_equal(fread(file->data, 1, file->size, input), file->size);
        fclose(input);
    }
    closedir(stream);
    qsort(image->files, (size_t)image->count, sizeof image->files[0], compare_files);
}

static inline void image_free(struct image *image) {
    for (int i = 0; i < image->count; i++)
        free(image->files[i].data);
    image->count = 0;
}

static inline void image_copy(const struct image *from, struct image *to) {
    *to = *from;
    for (int i = 0; i < from->count; i++) {
        to->files[i].data = malloc(from->files[i].size + 1);
        memcpy(to->files[i].data, from->files[i].data, from->files[i].size);
    }
}

static inline void clear_directory(void) {
    DIR *stream = opendir(directory);
    if (!stream)
        return;
    for (struct dirent *entry; (entry = readdir(stream));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            assert_int_equal(unlink(path), 0);
    }
    closedir(stream);
    assert_int_equal(rmdir(directory), 0);
}

static inline void image_restore(const struct image *image) {
    clear_directory();
    assert_int_equal(mkdir(directory, 0700), 0);
    for (int i = 0; i < image->count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, image->files[i].name);
        FILE *output = fopen(path, "wb");
        assert_non_null(output);
        assert_int_equal(fwrite(image->files[i].data, 1, image->files[i].size, output), image->files[i].size);
        fclose(output);
    }
}

static inline bool image_equal(const struct image *a, const struct image *b) {
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->files[i].name, b->files[i].name) != 0 || a->files[i].size != b->files[i].size ||
            memcmp(a->files[i].data, b->files[i].data, a->files[i].size) != 0)
            return false;
    return true;
}

static inline int image_count(const struct image *image, const char *prefix) {
    int count = 0;
    for (int i = 0; i < image->count; i++)
        count += strncmp(image->files[i].name, prefix, strlen(prefix)) == 0;
    return count;
}

static inline struct image_file *image_find(struct image *image, const char *prefix, int index) {
    for (int i = 0; i < image->count; i++)
        if (strncmp(image->files[i].name, prefix, strlen(prefix)) == 0 && index-- == 0)
            return &image->files[i];
    fail_msg("no file %s", prefix);
    return NULL;
}

/* ---- The model ---- */

struct model_record {
    int64_t version;
    uint64_t seed;
    size_t length;
};

static struct model_record model[RECORDS_MAX];
static int model_count;
static int64_t released; /* what the base would hold */

static inline uint8_t payload_byte(uint64_t seed, size_t index) {
    return (uint8_t)((seed >> (index % 8 * 8)) + index / 8);
}

static inline void fill_payload(const struct model_record *record, uint8_t *payload) {
    for (size_t i = 0; i < record->length; i++)
        payload[i] = payload_byte(record->seed, i);
}

static inline void reset_model(void) {
    model_count = 0;
    released = 0;
}

/* Where replay has come to in the model; -1 once something differed. */
static int replay_next;

static inline fdb_error_t check_replay(void *context, int64_t version, struct bytes payload) {
    (void)context;
    if (replay_next < 0)
        return 0;
    while (replay_next < model_count && model[replay_next].version <= released)
        replay_next++;
    if (replay_next == model_count || model[replay_next].version != version ||
        model[replay_next].length != payload.length) {
        replay_next = -1;
        return 0;
    }
    for (size_t i = 0; i < payload.length; i++)
        if (payload.data[i] != payload_byte(model[replay_next].seed, i)) {
            replay_next = -1;
            return 0;
        }
    replay_next++;
    return 0;
}

static struct log_options options = {SEGMENT_BYTES, true};

static inline fdb_error_t open_log(struct log **log) {
    char *message = NULL;
    replay_next = 0;
    fdb_error_t error = log_open(directory, &options, released, check_replay, NULL, log, &message);
    memory_free(message);
    return error;
}

/* Opens and insists that everything acknowledged came back, and of the `doubtful` last ones none or some, in order. */
static inline struct log *open_checked(int doubtful) {
    struct log *log = NULL;
    assert_int_equal(open_log(&log), 0);
    assert_int_not_equal(replay_next, -1);
    while (replay_next < model_count && model[replay_next].version <= released)
        replay_next++;
    assert_in_range(replay_next, model_count - doubtful, model_count);
    model_count = replay_next;
    return log;
}

/* Adds to the model what append_last is going to write. */
static inline void plan_record(size_t length) {
    assert_true(model_count < RECORDS_MAX);
    int64_t last = model_count ? model[model_count - 1].version : 0;
    model[model_count++] =
        (struct model_record){(last > released ? last : released) + 1 + (int64_t)random_below(1000), next_random(), length};
}

static inline fdb_error_t append_last(struct log *log) {
    const struct model_record *record = &model[model_count - 1];
    uint8_t *payload = malloc(record->length + 1);
    fill_payload(record, payload);
    size_t cut = record->length / 3;
    struct bytes pieces[3] = {{payload, cut}, {NULL, 0}, {payload + cut, record->length - cut}};
    fdb_error_t error = log_append(log, record->version, pieces, 3);
    free(payload);
    return error;
}

static inline fdb_error_t sync_last(struct log *log) {
    return log_sync(log, model[model_count - 1].version, (unsigned)model_count % LOG_LANES_MAX);
}

static inline void commit(struct log *log, size_t length) {
    plan_record(length);
    assert_int_equal(log_reserve(log, length), 0);
    assert_int_equal(append_last(log), 0);
    assert_int_equal(sync_last(log), 0);
}

static inline int setup(void **state) {
    (void)state;
    reset_model();
    options = (struct log_options){SEGMENT_BYTES, true};
    clear_directory();
    const char *seed = getenv("KEEL_SEED");
    random_state = seed ? strtoull(seed, NULL, 0) : 1;
    return 0;
}

static inline int rounds(int standard) {
    const char *text = getenv("KEEL_ROUNDS");
    return text ? atoi(text) : standard;
}

static inline int make_root(void **state) {
    (void)state;
    struct stat status;
    bool memory = stat("/dev/shm", &status) == 0 && access("/dev/shm", W_OK) == 0;
    snprintf(root, sizeof root, "%s/keel-log-XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (!mkdtemp(root))
        return -1;
    snprintf(directory, sizeof directory, "%s/log", root);
    return 0;
}

static inline int remove_root(void **state) {
    (void)state;
    clear_directory();
    return rmdir(root);
}

#endif
