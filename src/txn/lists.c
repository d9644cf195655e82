/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of ranges and mutations in a transaction's arena. A list is a chain of chunks, each twice
 * as large as the one before, so that appending never moves what is there and a commit of one chunk
 * is sent from where it lies.
 *
 *   1. Only the last chunk has room. `count` is the sum over the chunks.
 *
 * False means that memory is out and that the list is as it was.
 */
#include <stdlib.h>

#include "txn/state.h"

enum { CHUNK_FIRST = 4, CHUNK_LARGEST = 65536 };

static size_t next_capacity(size_t last, size_t wanted) {
    size_t capacity = last ? last * 2 : CHUNK_FIRST;
    if (capacity > CHUNK_LARGEST)
        capacity = CHUNK_LARGEST;
    return capacity < wanted ? wanted : capacity;
}

bool range_list_reserve(struct range_list *list, struct arena *arena, size_t count) {
    struct range_chunk *last = list->last;
    if (last && last->capacity - last->count >= count)
        return true;
    size_t capacity = next_capacity(last ? last->capacity : 0, count);
    struct range_chunk *chunk = arena_allocate(arena, sizeof *chunk
                                               + capacity * sizeof chunk->ranges[0]);
    if (!chunk)
        return false;
    chunk->next = NULL;
    chunk->count = 0;
    chunk->capacity = capacity;
    if (last)
        last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
    return true;
}

bool range_list_append(struct range_list *list, struct arena *arena, struct key_range range) {
    if (!range_list_reserve(list, arena, 1))
        return false;
    list->last->ranges[list->last->count++] = range;
    list->count++;
    return true;
}

bool range_list_flatten(const struct range_list *list, struct arena *arena,
                        struct key_range **array) {
    if (!list->first || list->first == list->last) {
        *array = list->first ? list->first->ranges : NULL;
        return true;
    }
    struct key_range *all = arena_allocate(arena, list->count * sizeof *all);
    if (!all)
        return false;
    size_t at = 0;
    for (const struct range_chunk *chunk = list->first; chunk; chunk = chunk->next) {
        memcpy(all + at, chunk->ranges, chunk->count * sizeof *all);
        at += chunk->count;
    }
    *array = all;
    return true;
}

bool mutation_list_reserve(struct mutation_list *list, struct arena *arena, size_t count) {
    struct mutation_chunk *last = list->last;
    if (last && last->capacity - last->count >= count)
        return true;
    size_t capacity = next_capacity(last ? last->capacity : 0, count);
    struct mutation_chunk *chunk = arena_allocate(arena, sizeof *chunk
                                                  + capacity * sizeof chunk->mutations[0]);
    if (!chunk)
        return false;
    chunk->next = NULL;
    chunk->count = 0;
    chunk->capacity = capacity;
    if (last)
        last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
    return true;
}

bool mutation_list_append(struct mutation_list *list, struct arena *arena,
                          struct mutation mutation) {
    if (!mutation_list_reserve(list, arena, 1))
        return false;
    list->last->mutations[list->last->count++] = mutation;
    list->count++;
    return true;
}

bool mutation_list_flatten(const struct mutation_list *list, struct arena *arena,
                           struct mutation **array) {
    if (!list->first || list->first == list->last) {
        *array = list->first ? list->first->mutations : NULL;
        return true;
    }
    struct mutation *all = arena_allocate(arena, list->count * sizeof *all);
    if (!all)
        return false;
    size_t at = 0;
    for (const struct mutation_chunk *chunk = list->first; chunk; chunk = chunk->next) {
        memcpy(all + at, chunk->mutations, chunk->count * sizeof *all);
        at += chunk->count;
    }
    *array = all;
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const struct key_range *left = a, *right = b;
    return bytes_compare(left->begin, right->begin);
}

size_t key_ranges_merge(struct key_range *ranges, size_t count) {
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = bytes_compare(ranges[i - 1].begin, ranges[i].begin) <= 0;
    if (!sorted)
        qsort(ranges, count, sizeof *ranges, compare_ranges);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept && bytes_compare(ranges[i].begin, ranges[kept - 1].end) <= 0)
            ranges[kept - 1].end = bytes_max(ranges[kept - 1].end, ranges[i].end);
        else
            ranges[kept++] = ranges[i];
    }
    return kept;
}
