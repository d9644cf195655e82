/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, mutexes and conditions: POSIX, with the outcomes that only a bug can produce asserted away.
 * Conditions measure time with the monotonic clock.
 */
#ifndef KEEL_OS_THREAD_H
#define KEEL_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

typedef pthread_mutex_t os_mutex;
typedef pthread_cond_t os_condition;
typedef pthread_t os_thread;

void os_mutex_init(os_mutex *mutex);
void os_mutex_destroy(os_mutex *mutex);
static inline void os_mutex_lock(os_mutex *mutex) { pthread_mutex_lock(mutex); }
static inline void os_mutex_unlock(os_mutex *mutex) { pthread_mutex_unlock(mutex); }

void os_condition_init(os_condition *condition);
void os_condition_destroy(os_condition *condition);
static inline void os_condition_wait(os_condition *condition, os_mutex *mutex) { pthread_cond_wait(condition, mutex); }
/* Waits until signalled or until os_clock_us() reaches `deadline_us`; false in the latter case. May wake for no reason. */
bool os_condition_wait_until(os_condition *condition, os_mutex *mutex, int64_t deadline_us);
static inline void os_condition_signal(os_condition *condition) { pthread_cond_signal(condition); }
static inline void os_condition_broadcast(os_condition *condition) { pthread_cond_broadcast(condition); }

/* Starts a thread with all signals blocked; `name` (15 characters) shows in debuggers. PLATFORM_ERROR if there is none. */
fdb_error_t os_thread_start(os_thread *thread, const char *name, void *(*function)(void *), void *argument);
void os_thread_join(os_thread thread);
static inline bool os_thread_is_self(os_thread thread) { return pthread_equal(thread, pthread_self()) != 0; }
void os_thread_yield(void);

/* The number that the system knows this process by. */
long os_process_id(void);

/* A small number that differs between threads alive at the same time, for spreading them over slots. */
unsigned os_thread_number(void);

#endif
