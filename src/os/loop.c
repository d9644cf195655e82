/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: the thread that calls fdb_run_network sits in loop_run and runs what other threads
 * post, callbacks of futures above all, and the timers behind timeouts and backoff. A commit or read
 * that finishes elsewhere reaches its callback through here.
 *
 * Tasks are a stack, linked through the tasks themselves, that posters push to without the mutex and
 * the loop takes as a whole, turns round and runs. Only who pushes to an empty stack looks whether
 * the loop has to be woken, and a thread that has more to post wakes it when it is through
 * (later.h); others' tasks wait with its first till then. Between two such rounds all timers that
 * are due expire, so neither can starve the other.
 *
 * Timers are a binary heap by deadline, linked through the timers themselves, so that setting one
 * needs no memory and cannot fail. The heap is a complete tree; a timer at index i has its children
 * at 2i+1 and 2i+2, which are pointers here, not array places:
 *
 *                0                  The way from the root to index i is spelled by the bits of
 *            1       2              i+1 below its highest one: 0 is left, 1 is right.
 *          3   4   5   6            Index 4: 4+1 = 101, below the leading 1: 0 1, left, right.
 *
 * Invariants; all but the stack is under the mutex:
 *
 *   1. A timer is in the heap if and only if its heap_index is not -1; indices are 0 .. count-1.
 *   2. A parent's deadline is not after its children's.
 *   3. A task is on the stack or being run, never both; it is read no more once run was called.
 *   4. While `sleeping`, whoever makes the loop's answer to "how long?" shorter signals `wake`, once
 *      the mutex is free: the loop would wake only to wait for it.
 *
 * Threads: everything may be called from any thread, loop_run from one at a time. No lock is held
 * while a task or timer runs, so those may call everything but loop_run. Nothing here can fail.
 */
#include "os/loop.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "os/clock.h"
#include "os/fork.h"
#include "os/later.h"
#include "os/thread.h"

static os_mutex mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static os_condition wake;

static struct loop_task *_Atomic newest_task; /* of those posted */
static struct loop_timer *root;
static long timer_count;
static bool sleeping; /* loop_run waits for `wake`, and nobody has signalled it yet */
static void rouse_at_last(struct os_later *later);
static struct os_later rousing = {rouse_at_last, NULL};
static bool rousing_noted; /* it is on some thread's list */
static bool stopping;
static bool running;
static _Thread_local bool inside;

/* A child begins with nothing posted and nobody running: what its parent posted is not its own. */
static void begin_anew(void) {
    os_mutex_init(&mutex);
    os_condition_init(&wake);
    atomic_store(&newest_task, NULL);
    root = NULL;
    timer_count = 0;
    sleeping = rousing_noted = stopping = running = inside = false;
}

static void initialise(void) {
    os_condition_init(&wake);
    os_fork_on_child(begin_anew);
}

static void lock(void) {
    pthread_once(&once, initialise);
    os_mutex_lock(&mutex);
}

static void unlock(void) {
    os_mutex_unlock(&mutex);
}

static void unlock_and_rouse(void) {
    bool asleep = sleeping;
    sleeping = false;
    unlock();
    if (asleep)
        os_condition_signal(&wake);
}

/* ---- The heap. All under the mutex. ---- */

/* The pointer that holds, or would hold, the timer at `index`; *parent is the timer it belongs to. */
static struct loop_timer **heap_place(long index, struct loop_timer **parent) {
    unsigned long long path = (unsigned long long)index + 1;
    struct loop_timer **place = &root;
    *parent = NULL;
    for (int bit = 62 - __builtin_clzll(path); bit >= 0; bit--) {
        *parent = *place;
        place = &(*place)->heap_child[path >> bit & 1];
    }
    return place;
}

/* The pointer that holds `timer`. */
static struct loop_timer **heap_holder(struct loop_timer *timer) {
    struct loop_timer *parent = timer->heap_parent;
    return parent ? &parent->heap_child[parent->heap_child[1] == timer] : &root;
}

static void heap_adopt_children(struct loop_timer *timer) {
    for (int side = 0; side < 2; side++)
        if (timer->heap_child[side])
            timer->heap_child[side]->heap_parent = timer;
}

/* Lets `heir`, which is in no place of its own, take over the place of `timer`. */
static void heap_replace(struct loop_timer *timer, struct loop_timer *heir) {
    *heap_holder(timer) = heir;
    heir->heap_parent = timer->heap_parent;
    heir->heap_child[0] = timer->heap_child[0];
    heir->heap_child[1] = timer->heap_child[1];
    heir->heap_index = timer->heap_index;
    heap_adopt_children(heir);
}

/* Exchanges a timer with its parent. */
static void heap_lift(struct loop_timer *timer) {
    struct loop_timer *parent = timer->heap_parent;
    int side = parent->heap_child[1] == timer;
    struct loop_timer *sibling = parent->heap_child[1 - side];
    long index = timer->heap_index;

    *heap_holder(parent) = timer;
    timer->heap_parent = parent->heap_parent;
    timer->heap_index = parent->heap_index;
    parent->heap_child[0] = timer->heap_child[0];
    parent->heap_child[1] = timer->heap_child[1];
    parent->heap_index = index;
    timer->heap_child[side] = parent;
    timer->heap_child[1 - side] = sibling;
    heap_adopt_children(parent);
    heap_adopt_children(timer);
}

/* Restores invariant 2 after the deadline at this place has changed in either direction. */
static void heap_settle(struct loop_timer *timer) {
    while (timer->heap_parent && timer->deadline_us < timer->heap_parent->deadline_us)
        heap_lift(timer);
    for (;;) {
        struct loop_timer *left = timer->heap_child[0], *right = timer->heap_child[1];
        struct loop_timer *least = left;
        if (right && right->deadline_us < left->deadline_us)
            least = right;
        if (!least || least->deadline_us >= timer->deadline_us)
            return;
        heap_lift(least);
    }
}

static void heap_insert(struct loop_timer *timer) {
    struct loop_timer *parent;
    *heap_place(timer_count, &parent) = timer;
    timer->heap_parent = parent;
    timer->heap_child[0] = timer->heap_child[1] = NULL;
    timer->heap_index = timer_count++;
    heap_settle(timer);
}

static void heap_remove(struct loop_timer *timer) {
    struct loop_timer *parent;
    struct loop_timer **place = heap_place(--timer_count, &parent);
    struct loop_timer *last = *place;
    *place = NULL;
    if (last != timer) {
        heap_replace(timer, last);
        heap_settle(last);
    }
    timer->heap_index = -1;
    timer->heap_parent = timer->heap_child[0] = timer->heap_child[1] = NULL;
}

/* ---- Posting and timers ---- */

void loop_post(struct loop_task *task) {
    pthread_once(&once, initialise); /* before a fork could find the task */
    struct loop_task *newest = atomic_load_explicit(&newest_task, memory_order_relaxed);
    do {
        task->next = newest; /* the task is the loop's, and may be gone, as soon as it is on the stack */
    } while (!atomic_compare_exchange_weak(&newest_task, &newest, task));
    if (newest)
        return;
    lock();
    if (!rousing_noted && os_later_note(&rousing)) {
        rousing_noted = true;
        unlock();
    } else {
        unlock_and_rouse();
    }
}

static void rouse_at_last(struct os_later *later) {
    (void)later;
    lock();
    rousing_noted = false;
    unlock_and_rouse();
}

void loop_timer_set(struct loop_timer *timer, int64_t deadline_us) {
    lock();
    timer->deadline_us = deadline_us;
    if (timer->heap_index < 0)
        heap_insert(timer);
    else
        heap_settle(timer);
    if (root == timer)
        unlock_and_rouse();
    else
        unlock();
}

bool loop_timer_cancel(struct loop_timer *timer) {
    lock();
    bool was_set = timer->heap_index >= 0;
    if (was_set)
        heap_remove(timer);
    unlock();
    return was_set;
}

/* ---- Running ---- */

/* Takes all that is posted, oldest first. */
static struct loop_task *take_tasks(void) {
    struct loop_task *newest = atomic_exchange(&newest_task, NULL), *oldest = NULL;
    while (newest) {
        struct loop_task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void run_tasks(struct loop_task *task) {
    while (task) {
        struct loop_task *next = task->next;
        task->run(task);
        task = next;
    }
}

/*
 * Under the mutex: expires what is due, letting go of the mutex around each expiry. Counted, so that
 * timers which set themselves again at once cannot keep the loop from its tasks.
 */
static void expire_timers(void) {
    if (!root)
        return;
    int64_t now_us = os_clock_us();
    for (long left = timer_count; left > 0; left--) {
        if (!root || root->deadline_us > now_us || stopping)
            return;
        struct loop_timer *timer = root;
        heap_remove(timer);
        unlock();
        timer->expire(timer);
        lock();
    }
}

/* Under the mutex: waits until there is something to do, or for no reason. */
static void wait_for_work(void) {
    sleeping = true;
    if (root)
        os_condition_wait_until(&wake, &mutex, root->deadline_us);
    else
        os_condition_wait(&wake, &mutex);
    sleeping = false;
}

void loop_run(void) {
    lock();
    assert(!running);
    running = inside = true;
    for (;;) {
        bool last_round = stopping;
        struct loop_task *tasks = take_tasks();
        if (tasks) {
            unlock();
            run_tasks(tasks);
            lock();
        }
        if (last_round)
            break;
        expire_timers();
        if (!atomic_load(&newest_task) && !stopping && (!root || root->deadline_us > os_clock_us()))
            wait_for_work();
    }
    running = inside = stopping = false;
    unlock();
}

void loop_stop(void) {
    lock();
    stopping = true;
    unlock_and_rouse();
}

bool loop_is_self(void) {
    return inside;
}
