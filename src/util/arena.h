/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bump allocator: many small pieces, freed together. Pieces never move. One thread at a time.
 */
#ifndef KEEL_UTIL_ARENA_H
#define KEEL_UTIL_ARENA_H

#include "util/bytes.h"

struct arena_block;

/* All zero is a valid, empty arena. */
struct arena {
    struct arena_block *block; /* newest first; the newest is the one being filled */
    uint8_t *next;             /* first free byte of the newest block */
    uint8_t *end;
    size_t bytes_held;         /* what the arena has taken from the heap */
};

/* `size` bytes aligned to 8, valid until reset or free; NULL when memory is out (nothing changed). */
void *arena_allocate(struct arena *arena, size_t size);

/* What arena_allocate_bytes does when the newest block is full. */
void *arena_allocate_bytes_slowly(struct arena *arena, size_t size);

/* As arena_allocate without alignment, for keys and values. */
static inline void *arena_allocate_bytes(struct arena *arena, size_t size) {
    if ((size_t)(arena->end - arena->next) < size || !arena->next)
        return arena_allocate_bytes_slowly(arena, size);
    void *piece = arena->next;
    arena->next += size;
    return piece;
}

/* Copies `source` in; *copy is untouched on failure (false). The empty view needs no memory. */
bool arena_copy(struct arena *arena, struct bytes source, struct bytes *copy);

/* Makes sure that pieces of `size` bytes in all can be taken without going to the heap; false when memory is out. */
bool arena_reserve(struct arena *arena, size_t size);

/* Forgets every piece; keeps one ordinary block for the next use. */
void arena_reset(struct arena *arena);

/* Gives everything back; the arena is empty and usable again. */
void arena_free(struct arena *arena);

#endif
