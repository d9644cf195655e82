/* SPDX-License-Identifier: Apache-2.0 */
/* Time. Microseconds since some moment in the past, never going back; the same on all cores. */
#ifndef KEEL_OS_CLOCK_H
#define KEEL_OS_CLOCK_H

#include <stdint.h>

int64_t os_clock_us(void);

/* The same in nanoseconds, for measuring what is short. */
int64_t os_clock_ns(void);

/* Some milliseconds behind os_clock_us, and cheaper. */
int64_t os_clock_coarse_us(void);

/* Wall-clock seconds since 1970, for people. */
double os_clock_wall_seconds(void);

void os_sleep_us(int64_t microseconds);

#endif
