/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, mutexes and conditions on POSIX.
 *
 * A condition counts time by the clock that os_clock_us reads, so a deadline means the same
 * everywhere in Keel. Threads are started with every signal blocked: signals belong to the program
 * that embeds the database, not to us.
 *
 * Thread numbers. os_thread_number gives each thread the smallest number that no living thread has,
 * on its first call, and takes it back when the thread ends. Taken numbers are bits of a fixed map:
 *
 *   1. a bit is set exactly while one living thread holds its number in `own_number`;
 *   2. the map is touched under `numbers_mutex` only; `own_number` by its own thread only;
 *   3. more threads than the map has bits share the numbers above it by counting, which spreads them
 *      as well and only gives up the promise of difference beyond that count.
 *
 * Failure: only starting a thread can fail for a reason that is not a bug.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np */
#endif
#include "os/thread.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "util/memory.h"

/* For calls whose only failures are bugs; evaluated in every build. */
static void must(int result) {
    assert(result == 0);
    (void)result;
}

void os_mutex_init(os_mutex *mutex) {
    must(pthread_mutex_init(mutex, NULL));
}

void os_mutex_destroy(os_mutex *mutex) {
    must(pthread_mutex_destroy(mutex));
}

void os_condition_init(os_condition *condition) {
    pthread_condattr_t attributes;
    must(pthread_condattr_init(&attributes));
    must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    must(pthread_cond_init(condition, &attributes));
    must(pthread_condattr_destroy(&attributes));
}

void os_condition_destroy(os_condition *condition) {
    must(pthread_cond_destroy(condition));
}

bool os_condition_wait_until(os_condition *condition, os_mutex *mutex, int64_t deadline_us) {
    if (deadline_us < 0)
        deadline_us = 0;
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_us / 1000000),
        .tv_nsec = (long)(deadline_us % 1000000) * 1000,
    };
    int result = pthread_cond_timedwait(condition, mutex, &deadline);
    assert(result == 0 || result == ETIMEDOUT);
    return result == 0;
}

/* ---- Starting ---- */

struct start {
    void *(*function)(void *);
    void *argument;
    char name[16];
};

/* The first frame of every thread: takes over what it was given, names itself, and runs. */
static void *thread_main(void *argument) {
    struct start start = *(struct start *)argument;
    memory_free(argument);
#ifdef __linux__
    pthread_setname_np(pthread_self(), start.name);
#endif
    return start.function(start.argument);
}

fdb_error_t os_thread_start(os_thread *thread, const char *name, void *(*function)(void *),
                            void *argument) {
    struct start *start = memory_allocate(sizeof *start);
    if (!start)
        return ERROR_LARGE_ALLOC_FAILED;
    start->function = function;
    start->argument = argument;
    snprintf(start->name, sizeof start->name, "%s", name);

    sigset_t all, before;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before));
    int result = pthread_create(thread, NULL, thread_main, start);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (result != 0) {
        memory_free(start);
        return ERROR_PLATFORM_ERROR;
    }
    return ERROR_SUCCESS;
}

void os_thread_join(os_thread thread) {
    must(pthread_join(thread, NULL));
}

void os_thread_yield(void) {
    sched_yield();
}

/* ---- Numbers ---- */

enum { NUMBER_WORDS = 256 }; /* 16,384 threads with numbers of their own */

static pthread_mutex_t numbers_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers_taken[NUMBER_WORDS];
static unsigned numbers_overflow;
static pthread_once_t number_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t number_key; /* exists for its destructor, which runs when a thread ends */
static _Thread_local unsigned own_number; /* the number plus one; 0 while there is none */

static void return_number(void *unused) {
    (void)unused;
    unsigned number = own_number - 1;
    own_number = 0;
    if (number >= NUMBER_WORDS * 64)
        return;
    os_mutex_lock(&numbers_mutex);
    numbers_taken[number / 64] &= ~(UINT64_C(1) << (number % 64));
    os_mutex_unlock(&numbers_mutex);
}

static void create_number_key(void) {
    must(pthread_key_create(&number_key, return_number));
}

static unsigned take_number(void) {
    unsigned number = 0;
    os_mutex_lock(&numbers_mutex);
    unsigned word = 0;
    while (word < NUMBER_WORDS && numbers_taken[word] == UINT64_MAX)
        word++;
    if (word < NUMBER_WORDS) {
        unsigned bit = (unsigned)__builtin_ctzll(~numbers_taken[word]);
        numbers_taken[word] |= UINT64_C(1) << bit;
        number = word * 64 + bit;
    } else {
        number = NUMBER_WORDS * 64 + numbers_overflow++ % (NUMBER_WORDS * 64);
    }
    os_mutex_unlock(&numbers_mutex);
    return number;
}

long os_process_id(void) {
    return (long)getpid();
}

unsigned os_thread_number(void) {
    if (own_number == 0) {
        must(pthread_once(&number_key_once, create_number_key));
        own_number = take_number() + 1;
        /* Without the destructor the number is merely never given back. */
        pthread_setspecific(number_key, &own_number);
    }
    return own_number - 1;
}
