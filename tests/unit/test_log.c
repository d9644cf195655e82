/* SPDX-License-Identifier: Apache-2.0 */
/* The log: round trips, torn tails, damage, foreign files, random histories, threads. log_model.h says how. */
#include "log_model.h"

/* ---- Round trips ---- */

static void round_trip_over_many_segments(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 300; i++)
        commit(log, i == 100 ? 3 * SEGMENT_BYTES : random_below(3000));
    commit(log, 0);
    log_close(log);
    struct image image;
    image_take(&image);
    assert_true(image_count(&image, "log-") > 40);
    image_free(&image);
    log = open_checked(0);
    commit(log, 17);
    uint64_t bytes = log_bytes(log);
    log_close(log);
    log = open_checked(0);
    assert_true(log_bytes(log) == bytes);
    log_close(log);
    /* With a base in the middle only what is newer comes back; beyond the end nothing does. */
    released = model[150].version;
    log_close(open_checked(0));
    released = model[model_count - 1].version + 5;
    log = open_checked(0);
    commit(log, 5);
    log_close(log);
    log_close(open_checked(0));
}

static fdb_error_t refuse_replay(void *context, int64_t version, struct bytes payload) {
    (void)payload;
    return version == *(int64_t *)context ? ERROR_LARGE_ALLOC_FAILED : 0;
}

static void replay_error_is_handed_on(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 20; i++)
        commit(log, 1000);
    log_close(log);
    struct image before, after;
    image_take(&before);
    assert_int_equal(log_open(directory, &options, 0, refuse_replay, &model[7].version, &log, NULL),
                     ERROR_LARGE_ALLOC_FAILED);
    image_take(&after);
    assert_true(image_equal(&before, &after));
    image_free(&before);
    image_free(&after);
}

static void released_segments_are_recycled(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    uint64_t bytes_max = 0;
    for (int i = 0; i < 2000; i++) {
        commit(log, random_below(2000));
        if (i % 20 == 19) {
            released = model[model_count - 10].version;
            assert_int_equal(log_release(log, released), 0);
            log_prepare(log);
        }
        if (log_bytes(log) > bytes_max)
            bytes_max = log_bytes(log);
    }
    assert_true(bytes_max < 24 * SEGMENT_BYTES);
    released = model[model_count - 1].version;
    assert_int_equal(log_release(log, released), 0);
    log_prepare(log);
    uint64_t bytes = log_bytes(log);
    log_close(log);
    struct image image;
    image_take(&image);
    uint64_t on_disk = 0;
    for (int i = 0; i < image.count; i++)
        on_disk += image.files[i].size;
    assert_true(on_disk == bytes);
    assert_in_range(image_count(&image, "spare-"), 1, 4);
    assert_in_range(image_count(&image, "log-"), 1, 2);
    /* A segment in a new life shows nothing of its old one where its first record goes. */
    for (int i = 0; i < image_count(&image, "log-"); i++) {
        struct image_file *file = image_find(&image, "log-", i);
        uint64_t generation = coding_get_u64(file->data + HEADER_BYTES + 16);
        assert_true(generation == 0 || generation == coding_get_u64(file->data + 16));
    }
    image_free(&image);
    log = open_checked(0);
    assert_true(log_bytes(log) == bytes); /* the spares were found again */
    commit(log, 100);
    log_close(log);
    log_close(open_checked(0));
}

static void first_segment_is_small_and_later_ones_grow(void **state) {
    (void)state;
    options.segment_bytes = 4 << 20;
    struct log *log = open_checked(0);
    assert_true(log_bytes(log) <= 1 << 20);
    for (int i = 0; i < 70; i++)
        commit(log, 100000);
    log_close(log);
    struct image image;
    image_take(&image);
    for (int i = 1; i < image.count; i++)
        assert_true(image.files[i].size >= image.files[i - 1].size);
    assert_int_equal(image.files[image.count - 1].size, 4 << 20);
    image_free(&image);
    log_close(open_checked(0));
}

/* Opening reads from the first segment that is needed, not from the beginning. */
static void damage_before_the_base_does_not_matter(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 40; i++)
        commit(log, 1500);
    log_close(log);
    struct image image;
    image_take(&image);
    image_find(&image, "log-", 1)->data[HEADER_BYTES + 300] ^= 1;
    image_restore(&image);
    assert_int_equal(open_log(&log), ERROR_DATABASE_DAMAGED);
    released = model[20].version;
    log_close(open_checked(0));
    image_free(&image);
}

/* The first record is in the base already and is damaged; the second was acknowledged and is not in the base: it must not be taken for a torn tail. */
static void damage_in_the_base_hides_nothing(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    commit(log, 100);
    commit(log, 100);
    log_close(log);
    struct image image;
    image_take(&image);
    image.files[0].data[HEADER_BYTES + RECORD_HEADER_BYTES + 10] ^= 1;
    image_restore(&image);
    released = model[0].version;
    assert_int_equal(open_log(&log), ERROR_DATABASE_DAMAGED);
    image_free(&image);
}

/* ---- Torn tails ---- */

enum tear { TEAR_REST, TEAR_GARBAGE, TEAR_ZERO, TEAR_LOSE_FRONT, TEAR_KINDS };

static void tear(struct image_file *file, size_t begin, size_t end, size_t position, enum tear kind) {
    switch (kind) {
    case TEAR_REST:
        memset(file->data + position, 0, file->size - position);
        break;
    case TEAR_GARBAGE:
        for (size_t i = position; i < end; i++)
            file->data[i] = (uint8_t)next_random();
        break;
    case TEAR_ZERO:
        memset(file->data + position, 0, end - position);
        break;
    default:
        memset(file->data + begin, 0, position - begin);
    }
}

/* The file and place of the last record, found by its version. */
static struct image_file *find_last_record(struct image *image, size_t *begin, size_t *end) {
    for (int i = 0; i < image->count; i++) {
        struct image_file *file = &image->files[i];
        for (size_t at = HEADER_BYTES; at + RECORD_HEADER_BYTES <= file->size; at += 8)
            if ((int64_t)coding_get_u64(file->data + at + 24) == model[model_count - 1].version &&
                coding_get_u64(file->data + at + 16) == coding_get_u64(file->data + 16)) {
                *begin = at;
                *end = at + ((RECORD_HEADER_BYTES + model[model_count - 1].length + 7) & ~(size_t)7);
                return file;
            }
    }
    fail_msg("the last record is not in the files");
    return NULL;
}

/* Tears the last record at every byte in every way; then goes on, crashes again and goes on. */
static void tear_everywhere(size_t step) {
    struct image whole;
    size_t begin, end;
    image_take(&whole);
    find_last_record(&whole, &begin, &end);
    int whole_count = model_count;
    struct model_record last = model[model_count - 1];
    for (size_t position = begin; position < end; position += step) {
        for (enum tear kind = 0; kind < TEAR_KINDS; kind++) {
            struct image torn;
            image_copy(&whole, &torn);
            model_count = whole_count;
            model[model_count - 1] = last;
            tear(find_last_record(&torn, &begin, &end), begin, end, position, kind);
            image_restore(&torn);
            image_free(&torn);
            struct log *log = open_checked(1);
            commit(log, random_below(60)); /* mostly shorter than what was torn */
            log_close(log);
            log_close(open_checked(0));
        }
    }
    image_free(&whole);
}

static void torn_tail_in_a_new_segment(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 4; i++)
        commit(log, 100 + (size_t)i);
    commit(log, 150);
    log_close(log);
    tear_everywhere(1);
}

static void torn_tail_in_a_recycled_segment(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 200; i++) {
        commit(log, 700);
        if (i < 150) {
            released = model[model_count - 1].version;
            assert_int_equal(log_release(log, released), 0);
            log_prepare(log);
        }
    }
    commit(log, 1200);
    log_close(log);
    tear_everywhere(9);
}

/* The last record is the first of its segment. */
static void torn_first_record(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    commit(log, 5000);
    commit(log, 5000);
    log_close(log);
    tear_everywhere(61);
}

/* A torn record full of copies of valid ones: they are not at their places, so they are not records. */
static void stale_records_stay_dead(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 5; i++)
        commit(log, 200);
    struct image image;
    image_take(&image);
    size_t begin, end;
    struct image_file *file = find_last_record(&image, &begin, &end);
    struct bytes pieces[2] = {bytes_make(file->data + HEADER_BYTES, end - HEADER_BYTES),
                              bytes_make(file->data + HEADER_BYTES, end - HEADER_BYTES)};
    assert_int_equal(log_reserve(log, 2 * (end - HEADER_BYTES)), 0);
    assert_int_equal(log_append(log, model[4].version + 1, pieces, 2), 0);
    log_close(log);
    image_free(&image);
    image_take(&image);
    image.files[0].data[end] ^= 0x80; /* tears it */
    image_restore(&image);
    log = open_checked(0);
    for (int i = 0; i < 8; i++) {
        commit(log, random_below(30));
        log_close(log);
        log = open_checked(0);
    }
    log_close(log);
    image_free(&image);
}

/* What a reopen dropped must not return when the bytes do. */
static void dropped_record_does_not_return(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 5; i++)
        commit(log, 200);
    log_close(log);
    struct image whole, torn;
    image_take(&whole);
    image_copy(&whole, &torn);
    size_t begin, end;
    find_last_record(&torn, &begin, &end)->data[end - 60] ^= 1;
    image_restore(&torn);
    log_close(open_checked(1));
    assert_int_equal(model_count, 4);
    image_free(&torn);
    image_take(&torn);
    torn.files[0].data[end - 60] ^= 1; /* the lost byte is back, the header is not */
    image_restore(&torn);
    log_close(open_checked(0));
    image_free(&torn);
    image_free(&whole);
}

/* ---- Damage and foreign files ---- */

static void expect_refusal(const struct image *image, fdb_error_t expected, const char *mentions) {
    struct image after;
    struct log *log = NULL;
    char *message = NULL;
    image_restore(image);
    replay_next = 0;
    assert_int_equal(log_open(directory, &options, released, check_replay, NULL, &log, &message), expected);
    assert_non_null(message);
    if (mentions && !strstr(message, mentions))
        fail_msg("'%s' is not in: %s", mentions, message);
    memory_free(message);
    image_take(&after);
    assert_true(image_equal(image, &after));
    image_free(&after);
}

static void damaged_records_are_reported(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 30; i++)
        commit(log, 100 + (size_t)i * 30);
    log_close(log);
    struct image image;
    image_take(&image);
    assert_true(image.count >= 3);
    /* Every byte of the second record of each segment but the last, whole segments of damage included. */
    for (int i = 0; i < image.count; i++) {
        struct image_file *file = &image.files[i];
        size_t second = HEADER_BYTES + ((coding_get_u32(file->data + HEADER_BYTES + 12) + RECORD_HEADER_BYTES + 7u) & ~7u);
        size_t third = second + ((coding_get_u32(file->data + second + 12) + RECORD_HEADER_BYTES + 7u) & ~7u);
        if (coding_get_u64(file->data + third + 16) != coding_get_u64(file->data + 16))
            continue; /* the last segment has fewer */
        char place[128];
        snprintf(place, sizeof place, "%s: offset %zu", file->name, second);
        for (size_t at = second; at < third; at += i == 0 ? 1 : 37) {
            uint8_t bit = (uint8_t)(1 << random_below(8));
            file->data[at] ^= bit;
            expect_refusal(&image, ERROR_DATABASE_DAMAGED, place);
            file->data[at] ^= bit;
        }
        uint8_t saved[512];
        memcpy(saved, file->data + second, sizeof saved);
        memset(file->data + second, 0, sizeof saved);
        expect_refusal(&image, ERROR_DATABASE_DAMAGED, place);
        memcpy(file->data + second, saved, sizeof saved);
        file->data[HEADER_BYTES + 45] ^= 4; /* and the first record */
        expect_refusal(&image, ERROR_DATABASE_DAMAGED, file->name);
        file->data[HEADER_BYTES + 45] ^= 4;
    }
    image_free(&image);
}

/* Where no later segment tells, the search behind the damaged record does. */
static void damage_in_the_last_segment_is_reported(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 4; i++)
        commit(log, 40);
    log_close(log);
    struct image image;
    image_take(&image);
    assert_int_equal(image.count, 1);
    for (size_t at = HEADER_BYTES; at < HEADER_BYTES + 3 * 80; at++) {
        char place[64];
        snprintf(place, sizeof place, "offset %zu:", HEADER_BYTES + (at - HEADER_BYTES) / 80 * 80);
        for (int bit = 0; bit < 8; bit += 3) {
            image.files[0].data[at] ^= (uint8_t)(1 << bit);
            expect_refusal(&image, ERROR_DATABASE_DAMAGED, place);
            image.files[0].data[at] ^= (uint8_t)(1 << bit);
        }
    }
    image_free(&image);
}

/* Records of another log, at the same offsets and of the same generation, are not ours. */
static void records_of_another_log_are_not_taken(void **state) {
    (void)state;
    struct image ours, theirs;
    struct log *log = open_checked(0);
    commit(log, 500);
    log_close(log);
    image_take(&theirs);
    setup(NULL);
    log_close(open_checked(0));
    image_take(&ours);
    memcpy(ours.files[0].data + HEADER_BYTES, theirs.files[0].data + HEADER_BYTES, 1000);
    image_restore(&ours);
    log = open_checked(0);
    commit(log, 10);
    log_close(log);
    log_close(open_checked(0));
    image_free(&ours);
    image_free(&theirs);
}

static void missing_segments_are_reported(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 40; i++)
        commit(log, 900);
    log_close(log);
    struct image image;
    image_take(&image);
    for (int i = 0; i + 1 < image.count; i++) {
        struct image missing = image;
        memmove(&missing.files[i], &missing.files[i + 1], sizeof missing.files[0] * (size_t)(image.count - i - 1));
        missing.count--;
        expect_refusal(&missing, ERROR_DATABASE_DAMAGED, "missing");
    }
    /* None left, though the base has had something from the log. */
    struct image nothing = {.count = 0};
    released = model[0].version;
    expect_refusal(&nothing, ERROR_DATABASE_DAMAGED, "no log segment is left");
    image_free(&image);
}

static void bad_headers_are_refused(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    for (int i = 0; i < 20; i++)
        commit(log, 900);
    log_close(log);
    struct image image;
    image_take(&image);
    for (int i = 0; i < image.count; i++) {
        struct image_file *file = &image.files[i];
        for (size_t at = 12; at < HEADER_BYTES; at++) {
            file->data[at] ^= 0x10;
            expect_refusal(&image, ERROR_DATABASE_DAMAGED, file->name);
            file->data[at] ^= 0x10;
        }
        file->data[3] ^= 0x10;
        expect_refusal(&image, ERROR_FORMAT_FOREIGN, file->name);
        file->data[3] ^= 0x10;
        file->data[8]++;
        expect_refusal(&image, ERROR_FORMAT_NEWER, file->name);
        file->data[8]--;
        size_t size = file->size;
        file->size = 0;
        expect_refusal(&image, ERROR_DATABASE_DAMAGED, file->name);
        file->size = size;
    }
    /* A segment under another's name. */
    memcpy(image.files[image.count - 1].name, "log-00000000000fffff.keel", 26);
    expect_refusal(&image, ERROR_DATABASE_DAMAGED, "another");
    image_free(&image);
}

static void other_files_are_left_alone(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    commit(log, 10);
    log_close(log);
    struct image image;
    image_take(&image);
    const char *names[] = {"data.mdb", "log-1.keel", "log-000000000000000G.keel", "log-0000000000000009.keel.bak",
                           "spare-0000000000000008.keel"};
    for (int i = 0; i < 5; i++) {
        struct image_file *file = &image.files[image.count++];
        snprintf(file->name, sizeof file->name, "%s", names[i]);
        file->data = malloc(100);
        memset(file->data, 'x', 100);
        file->size = 100;
    }
    struct image_file *unfinished = &image.files[image.count++];
    snprintf(unfinished->name, sizeof unfinished->name, "new-0000000000000007.keel");
    unfinished->data = calloc(1, 1000);
    unfinished->size = 1000;
    image_restore(&image);
    image_free(&image);
    log = open_checked(0);
    commit(log, 10);
    log_close(log);
    image_take(&image);
    for (int i = 0; i < 5; i++) {
        struct image_file *file = image_find(&image, names[i], 0);
        assert_int_equal(file->size, 100);
        assert_int_equal(file->data[50], 'x');
    }
    assert_int_equal(image_count(&image, "new-"), 0);
    image_free(&image);
    log_close(open_checked(0));
}

/* ---- Random histories ---- */

/* Power fails between append and sync: each sector of the difference reaches the disk or does not. */
static void mix_sectors(struct image *old, struct image *new) {
    for (int i = 0; i < new->count; i++) {
        struct image_file *after = &new->files[i];
        for (int j = 0; j < old->count; j++) {
            struct image_file *before = &old->files[j];
            if (strcmp(before->name, after->name) != 0)
                continue;
            for (size_t at = 0; at + 512 <= before->size && at + 512 <= after->size; at += 512)
                if (random_below(2))
                    memcpy(after->data + at, before->data + at, 512);
        }
    }
}

static struct log *crash_while_appending(struct log *log) {
    struct image before, after;
    size_t length = random_below(4) ? random_below(1500) : random_below(3 * SEGMENT_BYTES);
    plan_record(length);
    assert_int_equal(log_reserve(log, length), 0);
    image_take(&before);
    assert_int_equal(append_last(log), 0);
    image_take(&after);
    log_close(log);
    mix_sectors(&before, &after);
    image_restore(&after);
    image_free(&before);
    image_free(&after);
    return open_checked(1);
}

static void random_histories(void **state) {
    (void)state;
    uint64_t first_seed = random_state;
    for (int round = 0; round < rounds(60); round++) {
        setup(NULL);
        random_state = first_seed + (uint64_t)round;
        if (round == 0)
            printf("KEEL_SEED=%llu and the %d after it\n", (unsigned long long)random_state, rounds(60) - 1);
        struct log *log = open_checked(0);
        int checkpoint = 0;
        for (int step = 0; step < 150; step++) {
            size_t choice = random_below(100);
            if (choice < 70) {
                commit(log, random_below(20) ? random_below(1500) : random_below(2 * SEGMENT_BYTES));
            } else if (choice < 85 && model_count > 0) {
                checkpoint += (int)random_below((size_t)(model_count - checkpoint + 1));
                if (checkpoint > 0)
                    released = model[checkpoint - 1].version;
                assert_int_equal(log_release(log, released), 0);
                log_prepare(log);
            } else if (choice < 93) {
                log = crash_while_appending(log);
                if (checkpoint > model_count)
                    checkpoint = model_count;
            } else {
                log_close(log);
                log = open_checked(0);
            }
        }
        log_close(log);
        log_close(open_checked(0));
    }
}

/* ---- Threads ---- */

static atomic_int thread_stop;
static _Atomic int64_t thread_released;

static void *release_repeatedly(void *argument) {
    struct log *log = argument;
    while (!atomic_load(&thread_stop)) {
        assert_int_equal(log_release(log, atomic_load(&thread_released)), 0);
        log_prepare(log);
        assert_true(log_bytes(log) >= SEGMENT_BYTES);
        os_sleep_us(50);
    }
    return NULL;
}

static void release_beside_append(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    atomic_store(&thread_stop, 0);
    atomic_store(&thread_released, 0);
    os_thread thread;
    assert_int_equal(os_thread_start(&thread, "release", release_repeatedly, log), 0);
    for (int i = 0; i < 5000; i++) {
        commit(log, random_below(1500));
        if (i > 20)
            atomic_store(&thread_released, model[model_count - 20].version);
    }
    atomic_store(&thread_stop, 1);
    os_thread_join(thread);
    released = atomic_load(&thread_released);
    log_close(log);
    log_close(open_checked(0));
}

static void throw_away_data_is_not_synced(void **state) {
    (void)state;
    options.sync = false;
    struct log *log = open_checked(0);
    for (int i = 0; i < 100; i++)
        commit(log, 1000);
    log_close(log);
    log = open_checked(0);
    log_close(log);
    options.sync = true;
    log = open_checked(0);
    commit(log, 1000);
    log_close(log);
    log_close(open_checked(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(round_trip_over_many_segments, setup),
        cmocka_unit_test_setup(replay_error_is_handed_on, setup),
        cmocka_unit_test_setup(damage_in_the_base_hides_nothing, setup),
        cmocka_unit_test_setup(released_segments_are_recycled, setup),
        cmocka_unit_test_setup(first_segment_is_small_and_later_ones_grow, setup),
        cmocka_unit_test_setup(damage_before_the_base_does_not_matter, setup),
        cmocka_unit_test_setup(torn_tail_in_a_new_segment, setup),
        cmocka_unit_test_setup(torn_tail_in_a_recycled_segment, setup),
        cmocka_unit_test_setup(torn_first_record, setup),
        cmocka_unit_test_setup(stale_records_stay_dead, setup),
        cmocka_unit_test_setup(dropped_record_does_not_return, setup),
        cmocka_unit_test_setup(damaged_records_are_reported, setup),
        cmocka_unit_test_setup(damage_in_the_last_segment_is_reported, setup),
        cmocka_unit_test_setup(records_of_another_log_are_not_taken, setup),
        cmocka_unit_test_setup(missing_segments_are_reported, setup),
        cmocka_unit_test_setup(bad_headers_are_refused, setup),
        cmocka_unit_test_setup(other_files_are_left_alone, setup),
        cmocka_unit_test_setup(random_histories, setup),
        cmocka_unit_test_setup(release_beside_append, setup),
        cmocka_unit_test_setup(throw_away_data_is_not_synced, setup),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
