/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one gate to the heap. Everything in src/ allocates here, so that a test can make the Nth
 * allocation fail and see that the caller gives a clean error.
 */
#ifndef KEEL_UTIL_MEMORY_H
#define KEEL_UTIL_MEMORY_H

#include <stddef.h>

/* As malloc, calloc and realloc: NULL on failure, aligned for any type. */
void *memory_allocate(size_t size);
void *memory_allocate_zeroed(size_t size);
void *memory_resize(void *memory, size_t size);

/* As aligned_alloc, for structures that want cache lines of their own; size is rounded up to the alignment. */
void *memory_allocate_aligned(size_t alignment, size_t size);

/* Gives back what one of the above returned; NULL is allowed. */
void memory_free(void *memory);

/*
 * For tests: lets the next `countdown` allocations of the process succeed and fails every one after them.
 * A negative number turns failing off, which is the state at start. Any thread.
 */
void memory_fail_after(long countdown);

#endif
