/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop behind fdb_run_network: runs posted tasks and timers, one at a time, on the one thread that calls loop_run. There is one
 * loop a process, as there is one network. Tasks and timers are memory of their owner: posting never allocates and never fails.
 */
#ifndef KEEL_OS_LOOP_H
#define KEEL_OS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop_task {
    void (*run)(struct loop_task *task); /* may free the task, post others, set timers; holds no lock */
    struct loop_task *next;
};

struct loop_timer {
    void (*expire)(struct loop_timer *timer); /* as run; the timer is no longer set */
    int64_t deadline_us;
    long heap_index; /* -1 while not set */
    struct loop_timer *heap_parent; /* the loop's own while the timer is set */
    struct loop_timer *heap_child[2];
};

/* Any thread, also before loop_run: what is posted then runs first. */
void loop_post(struct loop_task *task);

/* Sets or moves a timer; all zero but `expire` with heap_index -1 is a valid unset timer. Any thread. */
void loop_timer_set(struct loop_timer *timer, int64_t deadline_us);

/* True: it was set and will not expire. False: not set, or expire has been called or is being called right now. Any thread. */
bool loop_timer_cancel(struct loop_timer *timer);

/* Runs until loop_stop; tasks posted before the stop are run, timers are not. */
void loop_run(void);
void loop_stop(void);

/* Is this the thread inside loop_run? */
bool loop_is_self(void);

#endif
