/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocation gate: malloc behind a countdown that tests can arm. The countdown is one relaxed
 * load when it is off, which is the only cost in production.
 */
#include "util/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static _Atomic long fail_countdown = -1;

static bool must_fail(void) {
    long left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (left < 0)
        return false;
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1))
            return false;
    }
    return left == 0;
}

void *memory_allocate(size_t size) {
    return must_fail() ? NULL : malloc(size ? size : 1);
}

void *memory_allocate_zeroed(size_t size) {
    return must_fail() ? NULL : calloc(1, size ? size : 1);
}

void *memory_resize(void *memory, size_t size) {
    return must_fail() ? NULL : realloc(memory, size ? size : 1);
}

void *memory_allocate_aligned(size_t alignment, size_t size) {
    return must_fail() ? NULL : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void memory_free(void *memory) {
    free(memory);
}

void memory_fail_after(long countdown) {
    atomic_store(&fail_countdown, countdown);
}
