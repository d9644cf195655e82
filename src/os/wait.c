/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on a word: the futex of Linux, private to the process. Costs nothing while nobody waits,
 * no memory but the word itself, and one system call to sleep or to wake. All failures mean "look
 * again" (EAGAIN, EINTR) or "nobody is there" (EFAULT on memory that was given back after its
 * waiters had seen the change), so none is reported.
 */
#include "os/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void os_wait(_Atomic uint32_t *word, uint32_t expected) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void os_wait_for(_Atomic uint32_t *word, uint32_t expected, int64_t microseconds) {
    struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0);
}

void os_wait_wake(_Atomic uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void os_wait_wake_one(_Atomic uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
