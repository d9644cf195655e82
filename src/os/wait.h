/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on a word of memory until another thread changes it: the least a future needs to be
 * waited for.
 */
#ifndef KEEL_OS_WAIT_H
#define KEEL_OS_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Sleeps if *word still holds `expected`, until os_wait_wake is called on the same word. Returns at
 * once otherwise, and may return for no reason: callers look again. The order of memory is that of
 * the caller's own atomic operations.
 */
void os_wait(_Atomic uint32_t *word, uint32_t expected);

/* The same for at most this long. */
void os_wait_for(_Atomic uint32_t *word, uint32_t expected, int64_t microseconds);

/*
 * Wakes every thread in os_wait on this word. The word may be gone by then: only its address is
 * used.
 */
void os_wait_wake(_Atomic uint32_t *word);

/* The same for one thread, if there is one. */
void os_wait_wake_one(_Atomic uint32_t *word);

#endif
