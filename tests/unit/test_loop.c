/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: what is posted runs once and in order, timers expire by deadline and not after a
 * cancel, a stop runs what was posted before it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/later.h"
#include "os/loop.h"
#include "os/thread.h"

static void *run_loop(void *unused) {
    (void)unused;
    loop_run();
    return NULL;
}

static os_thread start_loop(void) {
    os_thread thread;
    assert_int_equal(os_thread_start(&thread, "loop", run_loop, NULL), 0);
    return thread;
}

static void stop_loop(os_thread thread) {
    loop_stop();
    os_thread_join(thread);
}

/* ---- Tasks ---- */

enum { POSTERS = 4, TASKS_EACH = 20000 };

struct numbered_task {
    struct loop_task task;
    int poster;
    int number;
};

static int next_number[POSTERS]; /* the loop's thread only */
static atomic_int tasks_run;
static atomic_int disorder;

static void run_numbered(struct loop_task *task) {
    struct numbered_task *numbered = (struct numbered_task *)task;
    if (!loop_is_self() || next_number[numbered->poster] != numbered->number)
        atomic_fetch_add(&disorder, 1);
    next_number[numbered->poster] = numbered->number + 1;
    free(numbered);
    atomic_fetch_add(&tasks_run, 1);
}

/* One poster in two wakes the loop only when it is through with ten of its tasks. */
static void *post_many(void *argument) {
    int poster = (int)(intptr_t)argument;
    bool later = poster % 2;
    for (int number = 0; number < TASKS_EACH; number++) {
        struct numbered_task *task = malloc(sizeof *task);
        *task = (struct numbered_task){{.run = run_numbered}, poster, number};
        if (later && number % 10 == 0)
            os_later_open();
        loop_post(&task->task);
        if (later && number % 10 == 9)
            os_later_close();
        if (number % 1000 == 0)
            os_thread_yield();
    }
    return NULL;
}

static void posting_from_many_threads(void **state) {
    (void)state;
    os_thread loop = start_loop(), posters[POSTERS];
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(os_thread_start(&posters[i], "poster", post_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < POSTERS; i++)
        os_thread_join(posters[i]);
    stop_loop(loop); /* all are posted before the stop, so all are run */
    assert_int_equal(atomic_load(&tasks_run), POSTERS * TASKS_EACH);
    assert_int_equal(atomic_load(&disorder), 0);
    assert_false(loop_is_self());
}

struct counted_task {
    struct loop_task task;
    _Atomic int *count;
};

static void run_counted(struct loop_task *task) {
    atomic_fetch_add(((struct counted_task *)task)->count, 1);
}

static void *post_one(void *task) {
    loop_post(task);
    return NULL;
}

/* What is posted while a thread has a list open with a task of its own is run at the latest when it closes the list. */
static void a_list_of_things_to_do_later(void **state) {
    (void)state;
    _Atomic int count = 0;
    struct counted_task tasks[3] = {{{.run = run_counted}, &count}, {{.run = run_counted}, &count}, {{.run = run_counted}, &count}};
    os_thread loop = start_loop(), other;
    for (int round = 0; round < 1000; round++) {
        atomic_store(&count, 0);
        os_later_open();
        loop_post(&tasks[0].task);
        if (round % 2) {
            assert_int_equal(os_thread_start(&other, "poster", post_one, &tasks[1].task), 0);
            os_thread_join(other);
        }
        loop_post(&tasks[2].task);
        os_later_close();
        while (atomic_load(&count) < (round % 2 ? 3 : 2))
            os_thread_yield();
    }
    stop_loop(loop);
}

static int plain_runs;

static void run_plain(struct loop_task *task) {
    (void)task;
    plain_runs++;
}

static void posted_before_run_and_before_stop(void **state) {
    (void)state;
    plain_runs = 0;
    struct loop_task first = {.run = run_plain}, second = {.run = run_plain};
    loop_post(&first);
    loop_post(&second);
    loop_stop();
    loop_run(); /* on this thread: returns because of the stop, after both */
    assert_int_equal(plain_runs, 2);
}

static struct loop_task late_task = {.run = run_plain};

static void run_stop_then_post(struct loop_task *task) {
    (void)task;
    loop_stop();
    loop_post(&late_task);
}

static void stop_from_a_task(void **state) {
    (void)state;
    plain_runs = 0;
    struct loop_task stopper = {.run = run_stop_then_post};
    loop_post(&stopper);
    loop_run();
    /* Posted after the stop: may run in this run or in the next one, but is not lost. */
    loop_stop();
    loop_run();
    assert_int_equal(plain_runs, 1);
}

/* ---- Timers ---- */

enum { TIMERS = 300 };

struct counted_timer {
    struct loop_timer timer;
    atomic_int expired;
};

static struct counted_timer timers[TIMERS];
static atomic_int expired_count;
static int64_t last_deadline_us;
static atomic_int out_of_order;
static atomic_int too_early;

static void expire_counted(struct loop_timer *timer) {
    struct counted_timer *counted = (struct counted_timer *)timer;
    if (timer->deadline_us < last_deadline_us)
        atomic_fetch_add(&out_of_order, 1);
    if (os_clock_us() < timer->deadline_us)
        atomic_fetch_add(&too_early, 1);
    last_deadline_us = timer->deadline_us;
    atomic_fetch_add(&counted->expired, 1);
    atomic_fetch_add(&expired_count, 1);
}

static void reset_timers(void) {
    for (int i = 0; i < TIMERS; i++) {
        timers[i].timer = (struct loop_timer){.expire = expire_counted, .heap_index = -1};
        atomic_store(&timers[i].expired, 0);
    }
    atomic_store(&expired_count, 0);
    atomic_store(&out_of_order, 0);
    atomic_store(&too_early, 0);
    last_deadline_us = 0;
}

static void wait_for_expired(int count) {
    while (atomic_load(&expired_count) < count)
        os_sleep_us(500);
}

/* Set, moved in both directions and cancelled before the loop starts: what is left comes in order. */
static void timers_expire_in_order(void **state) {
    (void)state;
    srand(7);
    reset_timers();
    int64_t start_us = os_clock_us();
    for (int i = 0; i < TIMERS; i++)
        loop_timer_set(&timers[i].timer, start_us + rand() % 30000);
    for (int i = 0; i < TIMERS; i++)
        if (rand() % 2)
            loop_timer_set(&timers[i].timer, start_us + rand() % 30000);
    int left = TIMERS;
    for (int i = 0; i < TIMERS; i += 3) {
        assert_true(loop_timer_cancel(&timers[i].timer));
        assert_false(loop_timer_cancel(&timers[i].timer));
        left--;
    }
    os_thread loop = start_loop();
    wait_for_expired(left);
    stop_loop(loop);
    assert_int_equal(atomic_load(&out_of_order), 0);
    assert_int_equal(atomic_load(&too_early), 0);
    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(atomic_load(&timers[i].expired), i % 3 != 0);
        assert_int_equal(timers[i].timer.heap_index, -1);
    }
}

/* A running loop that sleeps towards a far timer must wake for a nearer one, and for a moved one. */
static void nearer_timer_wakes_the_loop(void **state) {
    (void)state;
    reset_timers();
    os_thread loop = start_loop();
    loop_timer_set(&timers[0].timer, os_clock_us() + INT64_C(3600) * 1000000);
    os_sleep_us(2000);
    loop_timer_set(&timers[1].timer, os_clock_us() + 1000);
    wait_for_expired(1);
    loop_timer_set(&timers[0].timer, os_clock_us() + 1000);
    wait_for_expired(2);
    loop_timer_set(&timers[2].timer, os_clock_us() + INT64_C(3600) * 1000000);
    stop_loop(loop); /* a timer that is still set does not hold the stop up */
    assert_true(loop_timer_cancel(&timers[2].timer));
}

/* Either the cancel says true and the timer never expires, or false and it does, once. */
static void cancel_against_expiry(void **state) {
    (void)state;
    reset_timers();
    os_thread loop = start_loop();
    bool cancelled[TIMERS];
    int left = 0;
    for (int i = 0; i < TIMERS; i++) {
        loop_timer_set(&timers[i].timer, os_clock_us() + i % 60);
        os_sleep_us(i % 7 * 5);
        cancelled[i] = loop_timer_cancel(&timers[i].timer);
        left += !cancelled[i];
    }
    wait_for_expired(left);
    stop_loop(loop);
    for (int i = 0; i < TIMERS; i++)
        assert_int_equal(atomic_load(&timers[i].expired), !cancelled[i]);
}

static void expire_again(struct loop_timer *timer) {
    loop_timer_set(timer, 0);
}

/* A timer that is due again at once leaves room for tasks and for the stop. */
static void restless_timer_starves_nothing(void **state) {
    (void)state;
    plain_runs = 0;
    struct loop_timer restless = {.expire = expire_again, .heap_index = -1};
    loop_timer_set(&restless, 0);
    os_thread loop = start_loop();
    struct loop_task task = {.run = run_plain};
    os_sleep_us(1000);
    loop_post(&task);
    stop_loop(loop);
    assert_int_equal(plain_runs, 1);
    assert_true(loop_timer_cancel(&restless));
}

/* ---- Threads ---- */

static os_mutex thread_mutex;
static os_condition thread_condition;
static int threads_numbered;
static unsigned thread_numbers[8];

static void *take_number(void *argument) {
    int index = (int)(intptr_t)argument;
    unsigned number = os_thread_number();
    os_mutex_lock(&thread_mutex);
    thread_numbers[index] = number;
    threads_numbered++;
    os_condition_broadcast(&thread_condition);
    while (threads_numbered < 8) /* all eight are alive together */
        os_condition_wait(&thread_condition, &thread_mutex);
    os_mutex_unlock(&thread_mutex);
    return NULL;
}

static void thread_numbers_differ_and_return(void **state) {
    (void)state;
    os_mutex_init(&thread_mutex);
    os_condition_init(&thread_condition);
    for (int round = 0; round < 20; round++) {
        os_thread threads[8];
        threads_numbered = 0;
        for (int i = 0; i < 8; i++)
            assert_int_equal(os_thread_start(&threads[i], "n", take_number, (void *)(intptr_t)i), 0);
        for (int i = 0; i < 8; i++)
            os_thread_join(threads[i]);
        for (int i = 0; i < 8; i++) {
            assert_true(thread_numbers[i] < 32); /* small: numbers come back when threads end */
            for (int j = 0; j < i; j++)
                assert_int_not_equal(thread_numbers[i], thread_numbers[j]);
        }
    }
    os_mutex_lock(&thread_mutex);
    int64_t deadline_us = os_clock_us() + 2000;
    while (os_condition_wait_until(&thread_condition, &thread_mutex, deadline_us))
        continue;
    assert_true(os_clock_us() >= deadline_us);
    os_mutex_unlock(&thread_mutex);
    os_condition_destroy(&thread_condition);
    os_mutex_destroy(&thread_mutex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posting_from_many_threads),
        cmocka_unit_test(a_list_of_things_to_do_later),
        cmocka_unit_test(posted_before_run_and_before_stop),
        cmocka_unit_test(stop_from_a_task),
        cmocka_unit_test(timers_expire_in_order),
        cmocka_unit_test(nearer_timer_wakes_the_loop),
        cmocka_unit_test(cancel_against_expiry),
        cmocka_unit_test(restless_timer_starves_nothing),
        cmocka_unit_test(thread_numbers_differ_and_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
