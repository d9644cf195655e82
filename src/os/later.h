/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things to be done when this thread is through with what it is about: to wake another thread is dear, and to wake it for the first of many
 * answers makes it send them one by one. A thread that is about to give many answers opens a list; whoever is given one and would wake somebody
 * notes that instead, once.
 */
#ifndef KEEL_OS_LATER_H
#define KEEL_OS_LATER_H

#include <stdbool.h>

struct os_later {
    void (*run)(struct os_later *later); /* may free it */
    struct os_later *next;
};

/* REQUIRES: this thread has no list open. */
void os_later_open(void);

/* Runs what was noted, in that order, and closes the list. */
void os_later_close(void);

/* True: this thread has a list open, `later` is on it and will be run by this thread. REQUIRES: it is on no list. False: do it at once. */
bool os_later_note(struct os_later *later);

#endif
