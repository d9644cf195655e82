/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of LMDB's pages that trusts nothing, for one question when a base is opened: the file is
 * shorter than LMDB's last page number says. Was it cut off, as by a copy that was interrupted, or
 * was its last page simply never written (which LMDB allows)? LMDB itself cannot be asked: it maps
 * the file, and touching a page that is not there kills the process.
 *
 * LMDB's format 1 on a 64-bit little-endian machine, as far as it is needed here:
 *
 *     page    0 number:8   8 pad:2   10 flags:2   12 lower:2   14 upper:2   16 offsets of nodes:2 …
 *             of an overflow page: 12 count:4, how many pages it stretches over
 *     node    0 low:2   2 high:2   4 flags:2   6 key size:2   8 key, then data
 *             in a branch low, high and flags together are the number of the child
 *             in a leaf with BIG set the data is the number of an overflow page
 *     meta    page 0 and 1, at 16: 0 magic:4  4 format:4  16 map size:8  24 free tree:48  72 main
 *             tree:48  120 last page:8  128 transaction:8
 *     tree    0 pad:4 (in the free tree: the page size)  4 flags:2  6 depth:2  40 root:8
 *
 * Threads: one, while nobody writes. Failure: the first thing that is wrong ends the walk.
 */
#include "engine/base_pages.h"

#include "util/coding.h"
#include "util/memory.h"

enum {
    META_BYTES = 136,
    DEPTH_MAX = 32,
};

#define META_MAGIC UINT32_C(0xBEEFC0DE)
#define NO_PAGE UINT64_MAX

struct walk {
    struct os_file *file;
    uint64_t size;
    size_t page_bytes;
    uint8_t *pages; /* one buffer for each level */
};

static fdb_error_t read_exactly(struct walk *walk, uint64_t offset, void *buffer, size_t length) {
    size_t got;
    fdb_error_t error = os_file_read(walk->file, offset, buffer, length, &got);
    if (error)
        return error;
    return got == length ? ERROR_SUCCESS : ERROR_DATABASE_DAMAGED;
}

/* Reads the header of a page, or all of it, and tests that it is the page it should be. */
static fdb_error_t read_page(struct walk *walk, uint64_t number, uint8_t *buffer, size_t length) {
    if (number >= walk->size / walk->page_bytes)
        return ERROR_DATABASE_DAMAGED;
    fdb_error_t error = read_exactly(walk, number * walk->page_bytes, buffer, length);
    if (!error && coding_get_u64(buffer) != number)
        error = ERROR_DATABASE_DAMAGED;
    return error;
}

static fdb_error_t check_overflow(struct walk *walk, uint64_t number) {
    uint8_t header[PAGE_HEADER_BYTES];
    fdb_error_t error = read_page(walk, number, header, sizeof header);
    if (error)
        return error;
    uint64_t count = coding_get_u32(header + 12);
    bool fits = count <= walk->size / walk->page_bytes - number;
    return coding_get_u16(header + 10) & PAGE_OVERFLOW && fits ? ERROR_SUCCESS
                                                               : ERROR_DATABASE_DAMAGED;
}

static fdb_error_t check_page(struct walk *walk, uint64_t number, unsigned level);

/* What a node of a branch or leaf leads to. */
static fdb_error_t check_node(struct walk *walk, const uint8_t *page, size_t offset, bool is_branch,
                              unsigned level) {
    if (offset < PAGE_HEADER_BYTES || offset + NODE_HEADER_BYTES > walk->page_bytes)
        return ERROR_DATABASE_DAMAGED;
    const uint8_t *node = page + offset;
    uint16_t flags = coding_get_u16(node + 4);
    if (is_branch)
        return check_page(walk, coding_get_u32(node) | (uint64_t)flags << 32, level + 1);
    size_t data = offset + NODE_HEADER_BYTES + coding_get_u16(node + 6);
    if (!(flags & NODE_BIG))
        return ERROR_SUCCESS;
    if (data + 8 > walk->page_bytes)
        return ERROR_DATABASE_DAMAGED;
    return check_overflow(walk, coding_get_u64(page + data));
}

static fdb_error_t check_page(struct walk *walk, uint64_t number, unsigned level) {
    if (level == DEPTH_MAX)
        return ERROR_DATABASE_DAMAGED;
    uint8_t *page = walk->pages + level * walk->page_bytes;
    fdb_error_t error = read_page(walk, number, page, walk->page_bytes);
    if (error)
        return error;
    uint16_t flags = coding_get_u16(page + 10), lower = coding_get_u16(page + 12);
    if (!(flags & (PAGE_BRANCH | PAGE_LEAF)) || lower < PAGE_HEADER_BYTES ||
        lower > walk->page_bytes)
        return ERROR_DATABASE_DAMAGED;
    for (size_t at = PAGE_HEADER_BYTES; !error && at < lower; at += 2)
        error = check_node(walk, page, coding_get_u16(page + at), flags & PAGE_BRANCH, level);
    return error;
}

/* Reads both meta pages; `meta` is the newer one. */
static fdb_error_t read_meta(struct walk *walk, uint8_t meta[META_BYTES]) {
    uint8_t other[META_BYTES];
    fdb_error_t error = read_exactly(walk, PAGE_HEADER_BYTES, meta, META_BYTES);
    if (error)
        return error;
    walk->page_bytes = coding_get_u32(meta + 24);
    if (coding_get_u32(meta) != META_MAGIC || walk->page_bytes < PAGE_BYTES_MIN ||
        walk->page_bytes > PAGE_BYTES_MAX)
        return ERROR_DATABASE_DAMAGED;
    error = read_exactly(walk, walk->page_bytes + PAGE_HEADER_BYTES, other, META_BYTES);
    if (!error && coding_get_u32(other) != META_MAGIC)
        error = ERROR_DATABASE_DAMAGED;
    if (!error && coding_get_u64(other + 128) > coding_get_u64(meta + 128))
        memcpy(meta, other, META_BYTES);
    return error;
}

fdb_error_t base_pages_check(struct os_file *file) {
    struct walk walk = {.file = file};
    uint8_t meta[META_BYTES];
    fdb_error_t error = os_file_size(file, &walk.size);
    if (!error)
        error = read_meta(&walk, meta);
    if (error)
        return error;
    walk.pages = memory_allocate(DEPTH_MAX * walk.page_bytes);
    if (!walk.pages)
        return ERROR_LARGE_ALLOC_FAILED;
    for (size_t tree = 24; !error && tree <= 72; tree += 48) {
        uint64_t root = coding_get_u64(meta + tree + 40);
        if (root != NO_PAGE)
            error = check_page(&walk, root, 0);
    }
    memory_free(walk.pages);
    return error;
}
