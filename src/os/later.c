/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a thread: see later.h. Threads: each has its own; nothing is shared. Nothing here can fail.
 */
#include "os/later.h"

#include <assert.h>
#include <stddef.h>

static _Thread_local struct {
    bool open;
    struct os_later *first, **last;
} list;

void os_later_open(void) {
    assert(!list.open);
    list.open = true;
    list.first = NULL;
    list.last = &list.first;
}

void os_later_close(void) {
    assert(list.open);
    list.open = false; /* what is run may wake for itself */
    struct os_later *later = list.first;
    while (later) {
        struct os_later *next = later->next;
        later->run(later);
        later = next;
    }
}

bool os_later_note(struct os_later *later) {
    if (!list.open)
        return false;
    later->next = NULL;
    *list.last = later;
    list.last = &later->next;
    return true;
}
