/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log when calls fail: every write, sync, allocation of space, rename and removal in turn, every allocation of memory in turn; and a
 * crash right before each of them, with and without the names that were not synced yet.
 */
#include "log_model.h"

/* ---- Failing calls ---- */

static long fault_countdown; /* the call that fails, or -1 */
static bool fault_lasting;
static fdb_error_t fault_error;
static long fault_calls;
static struct image *fault_image; /* taken instead of failing */
static void note_durable(const char *what, const char *path);

static fdb_error_t fault(void *context, const char *what, const char *path) {
    (void)context;
    long call = fault_calls++;
    if (fault_image && call <= fault_countdown)
        note_durable(what, path);
    if (fault_countdown < 0 || call < fault_countdown || (call > fault_countdown && !fault_lasting))
        return 0;
    if (fault_image) {
        image_take(fault_image);
        return 0;
    }
    return fault_error;
}

/* Opens, commits, releases, as a database would that stops at its first failed write. Returns how many of the last are in doubt. */
static int run_until_failure(bool *reached_end) {
    struct log *log;
    *reached_end = false;
    replay_next = 0;
    if (open_log(&log) != 0)
        return 0;
    for (int i = 0; i < 40; i++) {
        plan_record(random_below(2500));
        fdb_error_t error = log_reserve(log, model[model_count - 1].length);
        if (error && !fault_lasting) /* nothing has changed: trying again must work */
            error = log_reserve(log, model[model_count - 1].length);
        if (error) {
            model_count--;
            log_close(log);
            return 0;
        }
        if (append_last(log) != 0 || log_sync(log) != 0) {
            assert_int_equal(log_reserve(log, 1), ERROR_DATABASE_FAILED);
            assert_int_equal(log_sync(log), ERROR_DATABASE_FAILED);
            log_close(log);
            return 1;
        }
        if (i % 7 == 6) {
            released = model[model_count - 4].version;
            log_release(log, released); /* may fail; the next one goes on */
            log_prepare(log);
        }
    }
    log_close(log);
    *reached_end = true;
    return 0;
}

static void every_failing_call(bool lasting, fdb_error_t error) {
    fault_lasting = lasting;
    fault_error = error;
    fault_image = NULL;
    bool reached_end = false;
    for (long call = 0;; call++) {
        setup(NULL);
        fault_countdown = call;
        fault_calls = 0;
        os_file_set_fault(fault, NULL);
        int doubtful = run_until_failure(&reached_end);
        os_file_set_fault(NULL, NULL);
        struct log *log = open_checked(doubtful);
        commit(log, 300);
        log_close(log);
        log_close(open_checked(0));
        if (fault_calls <= call)
            break;
    }
    assert_true(reached_end);
}

static void every_write_fails_once(void **state) {
    (void)state;
    every_failing_call(false, ERROR_IO_ERROR);
}

static void every_write_fails_from_then_on(void **state) {
    (void)state;
    every_failing_call(true, ERROR_DISK_FULL);
}

/* Moving on to another segment must not leave a record behind that was not synced. */
static void rotation_syncs_what_it_leaves(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    plan_record(100);
    assert_int_equal(log_reserve(log, 100), 0);
    assert_int_equal(append_last(log), 0);
    fault_countdown = fault_calls = 0;
    fault_lasting = false;
    fault_image = NULL;
    fault_error = ERROR_IO_ERROR;
    os_file_set_fault(fault, NULL);
    assert_int_equal(log_reserve(log, SEGMENT_BYTES - 200), ERROR_IO_ERROR);
    os_file_set_fault(NULL, NULL);
    assert_int_equal(log_reserve(log, 1), ERROR_DATABASE_FAILED);
    log_close(log);
    log_close(open_checked(1));
}

/*
 * The directory as the last sync of it left it: what a power failure gives back of names, while the files' contents are the newest. The
 * other extreme, every name the newest, is what an ordinary image shows.
 */
static struct image durable;
static bool durable_stale;

static void note_durable(const char *what, const char *path) {
    if (durable_stale) {
        image_free(&durable);
        image_take(&durable);
    }
    durable_stale = strcmp(what, "sync") == 0 && strcmp(path, directory) == 0;
}

static void roll_back_names(struct image *image) {
    struct image result = {.count = 0};
    for (int i = 0; i < durable.count; i++) {
        struct image_file *file = &result.files[result.count++], *content = &durable.files[i];
        for (int j = 0; j < image->count; j++)
            if (image->files[j].inode == durable.files[i].inode)
                content = &image->files[j];
        *file = durable.files[i];
        file->size = content->size;
        file->data = malloc(file->size + 1);
        memcpy(file->data, content->data, file->size);
    }
    image_free(image);
    *image = result;
}

/* A crash at every write, sync, rename and removal: an image taken right before it. */
static void crash_at_every_call_with(bool names_lost) {
    fault_lasting = false;
    for (long call = 0;; call++) {
        setup(NULL);
        struct image image = {.count = 0};
        fault_image = &image;
        fault_countdown = call;
        fault_calls = 0;
        durable_stale = false;
        struct log *log = NULL;
        os_file_set_fault(fault, NULL);
        assert_int_equal(open_log(&log), 0);
        bool crashed = fault_calls > call;
        for (int i = 0; i < 40 && !crashed; i++) {
            commit(log, random_below(2500));
            crashed = fault_calls > call;
            if (!crashed && i % 7 == 6) {
                released = model[model_count - 4].version;
                assert_int_equal(log_release(log, released), 0);
                log_prepare(log);
                crashed = fault_calls > call;
            }
        }
        os_file_set_fault(NULL, NULL);
        fault_image = NULL;
        log_close(log);
        if (names_lost)
            roll_back_names(&image);
        image_free(&durable);
        if (crashed)
            image_restore(&image);
        image_free(&image);
        if (!crashed)
            break;
        log = open_checked(model_count ? 1 : 0);
        commit(log, 300);
        log_close(log);
        log_close(open_checked(0));
    }
}

static void kill_at_every_call(void **state) {
    (void)state;
    crash_at_every_call_with(false);
}

static void power_failure_at_every_call(void **state) {
    (void)state;
    crash_at_every_call_with(true);
}

static void full_disk_is_met_in_reserve(void **state) {
    (void)state;
    struct log *log = open_checked(0);
    fault_lasting = true;
    fault_error = ERROR_DISK_FULL;
    fault_image = NULL;
    for (int i = 0; i < 30; i++) {
        struct image before, after;
        plan_record(2000);
        image_take(&before);
        fault_countdown = fault_calls = 0;
        os_file_set_fault(fault, NULL);
        fdb_error_t error = log_reserve(log, 2000);
        os_file_set_fault(NULL, NULL);
        if (error) {
            assert_int_equal(error, ERROR_DISK_FULL);
            assert_int_equal(log_reserve(log, 2000), 0);
        } else {
            image_take(&after);
            assert_true(image_equal(&before, &after));
            image_free(&after);
        }
        image_free(&before);
        assert_int_equal(append_last(log), 0);
        assert_int_equal(log_sync(log), 0);
    }
    log_close(log);
    log_close(open_checked(0));
}

static void every_allocation_fails(void **state) {
    (void)state;
    fault_lasting = true;
    struct log *log = open_checked(0);
    for (int i = 0; i < 30; i++)
        commit(log, 1500);
    log_close(log);
    for (long countdown = 0;; countdown++) {
        memory_fail_after(countdown);
        fdb_error_t error = open_log(&log);
        memory_fail_after(-1);
        if (!error)
            break;
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    }
    for (long countdown = 0; countdown < 3; countdown++) {
        for (size_t length = 10; length < 1000000; length *= 10) {
            memory_fail_after(countdown);
            fdb_error_t error = log_reserve(log, length);
            log_release(log, 0);
            log_prepare(log);
            memory_fail_after(-1);
            assert_true(error == 0 || error == ERROR_LARGE_ALLOC_FAILED);
            commit(log, length);
        }
    }
    log_close(log);
    log_close(open_checked(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_write_fails_once, setup),
        cmocka_unit_test_setup(every_write_fails_from_then_on, setup),
        cmocka_unit_test_setup(rotation_syncs_what_it_leaves, setup),
        cmocka_unit_test_setup(kill_at_every_call, setup),
        cmocka_unit_test_setup(power_failure_at_every_call, setup),
        cmocka_unit_test_setup(full_disk_is_met_in_reserve, setup),
        cmocka_unit_test_setup(every_allocation_fails, setup),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
