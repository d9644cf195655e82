/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena: a list of blocks, the newest being filled from its start. Blocks grow from 512 bytes to 256 KiB, so
 * that a small transaction costs one small malloc and a large one few large ones. A piece larger than the
 * next block gets a block of its own size.
 *
 *   1. `next` and `end` lie in the newest block, or both are NULL.
 *   2. A block, once taken, never moves: pieces stay where they are until reset or free.
 */
#include "util/arena.h"

#include "util/memory.h"

enum { BLOCK_BYTES_MIN = 512, BLOCK_BYTES_MAX = 256 * 1024 };

struct arena_block {
    struct arena_block *older;
    size_t size; /* of `memory` */
    uint8_t memory[];
};

static bool add_block(struct arena *arena, size_t need) {
    size_t size = arena->block ? arena->block->size * 2 : BLOCK_BYTES_MIN;
    if (size > BLOCK_BYTES_MAX)
        size = BLOCK_BYTES_MAX;
    if (size < need)
        size = need;
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return false;
    struct arena_block *block = memory_allocate(sizeof *block + size);
    if (!block)
        return false;
    block->older = arena->block;
    block->size = size;
    arena->block = block;
    arena->next = block->memory;
    arena->end = block->memory + size;
    arena->bytes_held += sizeof *block + size;
    return true;
}

bool arena_reserve(struct arena *arena, size_t size) {
    if (size > SIZE_MAX - 8)
        return false;
    size += 8; /* room for aligning the first piece */
    return (size_t)(arena->end - arena->next) >= size || add_block(arena, size);
}

void *arena_allocate(struct arena *arena, size_t size) {
    if (size > SIZE_MAX - 16)
        return NULL;
    size_t padding = (8 - ((uintptr_t)arena->next & 7)) & 7;
    size_t left = (size_t)(arena->end - arena->next);
    if (left < padding || left - padding < size) {
        if (!add_block(arena, size))
            return NULL;
        padding = 0; /* blocks start aligned */
    }
    void *piece = arena->next + padding;
    arena->next += padding + size;
    return piece;
}

void *arena_allocate_bytes_slowly(struct arena *arena, size_t size) {
    if (!add_block(arena, size))
        return NULL;
    void *piece = arena->next;
    arena->next += size;
    return piece;
}

bool arena_copy(struct arena *arena, struct bytes source, struct bytes *copy) {
    if (source.length == 0) {
        *copy = (struct bytes){(const uint8_t *)"", 0};
        return true;
    }
    uint8_t *piece = arena_allocate_bytes(arena, source.length);
    if (!piece)
        return false;
    memcpy(piece, source.data, source.length);
    *copy = (struct bytes){piece, source.length};
    return true;
}

void arena_reset(struct arena *arena) {
    struct arena_block *keep = NULL;
    while (arena->block) {
        struct arena_block *older = arena->block->older;
        if (!keep && arena->block->size <= BLOCK_BYTES_MAX)
            keep = arena->block;
        else
            memory_free(arena->block);
        arena->block = older;
    }
    *arena = (struct arena){0};
    if (keep) {
        keep->older = NULL;
        arena->block = keep;
        arena->next = keep->memory;
        arena->end = keep->memory + keep->size;
        arena->bytes_held = sizeof *keep + keep->size;
    }
}

void arena_free(struct arena *arena) {
    while (arena->block) {
        struct arena_block *older = arena->block->older;
        memory_free(arena->block);
        arena->block = older;
    }
    *arena = (struct arena){0};
}
