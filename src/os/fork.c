/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forking. pthread_atfork tells us; a program that starts another by exec (also by posix_spawn or a
 * bare clone) needs nothing of this, since every descriptor of Keel closes on exec.
 *
 * In the child, before anything else of the program runs:
 *
 *   1. the generation rises, so that every older handle is refused at the door (api/foreign.h);
 *   2. guarded descriptors are closed: a flock belongs to the open file, which the child shares, so
 *      it would outlive the parent; and a socket kept open hides the parent's end from its peer;
 *   3. modules with state of the process begin anew.
 *
 * Memory of the parent's objects is left as it is: threads that are gone may have been changing it.
 *
 * Threads: a mutex for the table of descriptors, held across the fork so that the child finds it
 * whole. It is a leaf: nothing is called under it.
 */
#include "os/fork.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "util/memory.h"

enum { RESETS_MAX = 16, WORD_BITS = 64 };

unsigned os_fork_generation;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *guarded; /* a bit a descriptor */
static size_t word_count;
static void (*resets[RESETS_MAX])(void);
static int reset_count;

void os_fork_guard(int descriptor) {
    size_t word = (size_t)descriptor / WORD_BITS;
    pthread_mutex_lock(&mutex);
    if (word >= word_count) {
        size_t count = (word + 1) * 2;
        uint64_t *grown = memory_resize(guarded, count * sizeof *grown);
        if (grown) {
            memset(grown + word_count, 0, (count - word_count) * sizeof *grown);
            guarded = grown;
            word_count = count;
        }
    }
    if (word < word_count)
        guarded[word] |= UINT64_C(1) << (size_t)descriptor % WORD_BITS;
    pthread_mutex_unlock(&mutex);
}

void os_fork_release(int descriptor) {
    size_t word = (size_t)descriptor / WORD_BITS;
    pthread_mutex_lock(&mutex);
    if (word < word_count)
        guarded[word] &= ~(UINT64_C(1) << (size_t)descriptor % WORD_BITS);
    pthread_mutex_unlock(&mutex);
}

void os_fork_on_child(void (*reset)(void)) {
    pthread_mutex_lock(&mutex);
    int index = 0;
    while (index < reset_count && resets[index] != reset)
        index++;
    if (index == reset_count && reset_count < RESETS_MAX)
        resets[reset_count++] = reset;
    pthread_mutex_unlock(&mutex);
}

static void before(void) {
    pthread_mutex_lock(&mutex);
}

static void in_parent(void) {
    pthread_mutex_unlock(&mutex);
}

static void close_guarded(void) {
    for (size_t word = 0; word < word_count; word++) {
        for (; guarded[word]; guarded[word] &= guarded[word] - 1)
            close((int)(word * WORD_BITS) + __builtin_ctzll(guarded[word]));
    }
}

static void in_child(void) {
    os_fork_generation++;
    close_guarded();
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < reset_count; i++)
        resets[i]();
}

__attribute__((constructor)) static void watch_forks(void) {
    (void)pthread_atfork(before, in_parent, in_child);
}
