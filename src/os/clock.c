/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time from the system. Everything the engine measures (versions, the horizon, timers, timeouts) uses
 * the monotonic clock, which no administrator can turn back; the wall clock is for people only.
 *
 * Threads: any. Failure: the two clocks exist on every supported system, so a refusal is a bug.
 */
#include "os/clock.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

static int64_t read_clock_us(clockid_t clock) {
    struct timespec now;
    int result = clock_gettime(clock, &now);
    assert(result == 0);
    (void)result;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t os_clock_us(void) {
    return read_clock_us(CLOCK_MONOTONIC);
}

int64_t os_clock_ns(void) {
    struct timespec now;
    int result = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(result == 0);
    (void)result;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t os_clock_coarse_us(void) {
#ifdef CLOCK_MONOTONIC_COARSE
    return read_clock_us(CLOCK_MONOTONIC_COARSE);
#else
    return read_clock_us(CLOCK_MONOTONIC);
#endif
}

double os_clock_wall_seconds(void) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    assert(result == 0);
    (void)result;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sleeps towards a moment, not for a span, so that interruptions by signals do not lengthen it. */
void os_sleep_us(int64_t microseconds) {
    if (microseconds <= 0)
        return;
    int64_t wake_us = os_clock_us() + microseconds;
    struct timespec wake = {
        .tv_sec = (time_t)(wake_us / 1000000),
        .tv_nsec = (long)(wake_us % 1000000) * 1000,
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        continue;
}
