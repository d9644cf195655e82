/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking the base as a file: LMDB's pages, read one by one and believed in nothing. base_pages.c draws their format. Two trees hang on the newer meta page: the
 * free tree, which lists pages that may be written to, and the main tree, whose entries go to check_rows.c.
 *
 *   1. Every page is reached once, and is what its parent takes it for.
 *   2. A page's nodes lie inside it, one beside the other without gaps.
 *   3. Keys ascend through the whole tree, and those below a branch lie between its separators: else a search would not find them.
 *   4. Depth, entries and pages are as many as the meta page says.
 *   5. No page is both reached and listed as free: LMDB would write over it.
 *
 * A page that is not sound is reported and left out, with all that hangs on it; the walk goes on beside it. What was left out makes counts meaningless, so those are
 * compared only where nothing was.
 *
 * Memory: a buffer for each level, two bits for each page of the file. Threads: one. Failure: errors of the operating system end the check.
 */
#include <stdarg.h>
#include <stdio.h>

#include "engine/base_pages.h"
#include "engine/check_internal.h"
#include "util/coding.h"
#include "util/memory.h"

enum {
    DEPTH_MAX = 32,
    KEY_BYTES_MAX = 511,
    META_BYTES = 136,
    META_MAP_SIZE = 16,
    META_FREE_TREE = 24,
    META_MAIN_TREE = 72,
    META_LAST_PAGE = 120,
    META_TRANSACTION = 128,
    TREE_FLAGS = 4,
    TREE_DEPTH = 6,
    TREE_BRANCHES = 8,
    TREE_LEAVES = 16,
    TREE_OVERFLOWS = 24,
    TREE_ENTRIES = 32,
    TREE_ROOT = 40,
    TREE_INTEGER_KEYS = 0x08,
    TREE_NO_DIRECTORY = 0x4000, /* of the environment, kept in the free tree's flags */
    FIRST_PAGE = 2,
    VALUE_BYTES_SANE = 1 << 28,
};

#define META_MAGIC UINT32_C(0xBEEFC0DE)
#define NO_PAGE UINT64_MAX

struct key_copy {
    bool known;
    size_t length;
    uint8_t data[KEY_BYTES_MAX];
};

struct base_walk {
    struct check *check;
    const char *name; /* of the file, below the directory */
    struct os_file file;
    uint64_t size, page_count, last_page, transaction;
    size_t page_bytes;
    uint8_t *used, *listed; /* a bit for each page: reached; listed as free */
    uint8_t *pages;         /* a buffer for each level */
    uint8_t *value;         /* for a value on pages of its own */
    size_t value_capacity;
    struct rows_check rows;

    /* The tree being walked. */
    bool is_free_tree;
    bool incomplete; /* something was left out, in either tree */
    unsigned leaf_level;
    uint64_t branches, leaves, overflows, entries;
    struct key_copy previous;
};

/* The keys that a page may hold: from low up to but not with high; one without data is no bound. */
struct bounds {
    struct bytes low, high;
};

static struct check_place page_place(const struct base_walk *walk, uint64_t page) {
    bool fits = page < (uint64_t)INT64_MAX / walk->page_bytes;
    return (struct check_place){walk->name, fits ? (int64_t)(page * walk->page_bytes) : -1, NULL};
}

static const char *tree_name(const struct base_walk *walk) {
    return walk->is_free_tree ? "free pages" : "rows";
}

static const char *consequence(const struct base_walk *walk) {
    return walk->is_free_tree ? "the next commit to the base may crash or write over rows: copy the data out, or restore a backup"
                              : "the rows on this page, and on the pages below it, are lost, and reading them may crash: restore a backup";
}

/* Reports a page that is left out. */
__attribute__((format(printf, 4, 5))) static fdb_error_t leave_out(struct base_walk *walk, const char *kind, uint64_t page, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    walk->incomplete = true;
    check_report(walk->check, CHECK_DAMAGE, kind, page_place(walk, page), consequence(walk), "page %llu of the tree of %s: %s",
                 (unsigned long long)page, tree_name(walk), what);
    return ERROR_SUCCESS;
}

/* --- Reading --- */

static fdb_error_t read_at(struct base_walk *walk, uint64_t offset, void *buffer, size_t length, bool *whole) {
    size_t got;
    fdb_error_t error = os_file_read(&walk->file, offset, buffer, length, &got);
    if (error)
        return check_refuse(walk->check, error, "%s: %s", walk->name, os_last_error());
    *whole = got == length;
    return check_advance(walk->check, got);
}

static bool bit(const uint8_t *bits, uint64_t number) { return bits[number / 8] >> (number % 8) & 1; }
static void set_bit(uint8_t *bits, uint64_t number) { bits[number / 8] |= (uint8_t)(1 << number % 8); }

/* May this page be read as part of a tree? Then it is taken. */
static bool take_page(struct base_walk *walk, uint64_t number) {
    if (number < FIRST_PAGE || number > walk->last_page || number >= walk->page_count) {
        leave_out(walk, "page-number", number, "its number is not that of a page of the file");
        return false;
    }
    if (bit(walk->used, number)) {
        leave_out(walk, "page-twice", number, "it is part of a tree in another place already");
        return false;
    }
    set_bit(walk->used, number);
    return true;
}

/* --- Keys --- */

static int compare(const struct base_walk *walk, struct bytes a, struct bytes b) {
    if (!walk->is_free_tree)
        return bytes_compare(a, b);
    uint64_t left = coding_get_u64(a.data), right = coding_get_u64(b.data);
    return left < right ? -1 : left > right;
}

/* Is the key where a search for it would come? */
static bool is_in_order(struct base_walk *walk, struct bytes key, struct bounds bounds) {
    struct key_copy *previous = &walk->previous;
    bool ascends = !previous->known || compare(walk, bytes_make(previous->data, previous->length), key) < 0;
    bool inside = (!bounds.low.data || compare(walk, bounds.low, key) <= 0) && (!bounds.high.data || compare(walk, key, bounds.high) < 0);
    previous->known = true;
    previous->length = key.length;
    memcpy(previous->data, key.data, key.length);
    return ascends && inside;
}

/* --- Nodes --- */

struct node {
    uint16_t flags;
    struct bytes key;
    uint64_t child;     /* of a branch */
    size_t value_bytes; /* of a leaf */
    const uint8_t *data; /* value, or number of its first page */
};

static size_t node_count(const uint8_t *page) {
    return (coding_get_u16(page + PAGE_LOWER) - (size_t)PAGE_HEADER_BYTES) / 2;
}

/* Takes a node apart; its size in the page, or 0 if it does not lie in it. */
static size_t read_node(const struct base_walk *walk, const uint8_t *page, size_t index, struct node *node) {
    bool is_branch = coding_get_u16(page + PAGE_FLAGS) == PAGE_BRANCH;
    size_t offset = coding_get_u16(page + PAGE_HEADER_BYTES + 2 * index);
    if (offset < coding_get_u16(page + PAGE_UPPER) || offset % 2 || offset + NODE_HEADER_BYTES > walk->page_bytes)
        return 0;
    const uint8_t *at = page + offset;
    uint64_t low = coding_get_u16(at + NODE_LOW) | (uint64_t)coding_get_u16(at + NODE_HIGH) << 16;
    size_t key_bytes = coding_get_u16(at + NODE_KEY_SIZE);
    node->flags = is_branch ? 0 : coding_get_u16(at + NODE_FLAGS);
    node->child = low | (uint64_t)coding_get_u16(at + NODE_FLAGS) << 32;
    node->value_bytes = is_branch ? 0 : (size_t)low;
    node->key = bytes_make(at + NODE_HEADER_BYTES, key_bytes);
    node->data = at + NODE_HEADER_BYTES + key_bytes;
    size_t in_page = node->flags & NODE_BIG ? 8 : node->value_bytes;
    size_t size = NODE_HEADER_BYTES + key_bytes + in_page;
    bool key_fits = walk->is_free_tree ? key_bytes == 8 || (is_branch && index == 0 && key_bytes == 0)
                                       : key_bytes <= KEY_BYTES_MAX && (key_bytes > 0 || (is_branch && index == 0));
    if (!key_fits || offset + size > walk->page_bytes || (node->flags & ~NODE_BIG))
        return 0;
    return size + size % 2;
}

/* Is the page laid out as one of LMDB's? */
static bool is_sound(const struct base_walk *walk, const uint8_t *page) {
    size_t lower = coding_get_u16(page + PAGE_LOWER), upper = coding_get_u16(page + PAGE_UPPER);
    if (lower < PAGE_HEADER_BYTES + 2 || lower % 2 || lower > upper || upper > walk->page_bytes)
        return false;
    size_t total = 0;
    for (size_t i = 0; i < node_count(page); i++) {
        struct node node;
        size_t size = read_node(walk, page, i, &node);
        if (!size)
            return false;
        total += size;
    }
    return total == walk->page_bytes - upper;
}

/* --- Values --- */

/* A value on pages of its own, read into walk->value; *present is false where it was left out. */
static fdb_error_t read_overflow(struct base_walk *walk, const struct node *node, bool *present) {
    uint64_t first = coding_get_u64(node->data);
    uint64_t count = (PAGE_HEADER_BYTES - 1 + (uint64_t)node->value_bytes) / walk->page_bytes + 1;
    *present = false;
    if (first < FIRST_PAGE || first > walk->last_page || count > walk->last_page - first + 1 || first + count > walk->page_count ||
        node->value_bytes > VALUE_BYTES_SANE)
        return leave_out(walk, "page-number", first, "the value that should lie on %llu pages from here does not fit into the file",
                         (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (!take_page(walk, first + i))
            return ERROR_SUCCESS;
    size_t bytes = (size_t)(count * walk->page_bytes);
    if (bytes > walk->value_capacity) {
        uint8_t *larger = memory_resize(walk->value, bytes);
        if (!larger)
            return ERROR_LARGE_ALLOC_FAILED;
        walk->value = larger;
        walk->value_capacity = bytes;
    }
    bool whole;
    fdb_error_t error = read_at(walk, first * walk->page_bytes, walk->value, bytes, &whole);
    if (error)
        return error;
    if (!whole || coding_get_u64(walk->value) != first || coding_get_u16(walk->value + PAGE_FLAGS) != PAGE_OVERFLOW ||
        coding_get_u32(walk->value + PAGE_OVERFLOWS) != count)
        return leave_out(walk, "page-header", first, "not the first of %llu pages with a large value", (unsigned long long)count);
    walk->overflows += count;
    *present = true;
    return ERROR_SUCCESS;
}

/* An entry of the free tree: a transaction's number, and how many and which pages it freed, in descending order. */
static void check_free_list(struct base_walk *walk, uint64_t offset, struct bytes key, struct bytes value) {
    struct check_place place = {walk->name, (int64_t)offset, NULL};
    uint64_t count = value.length >= 8 ? coding_get_u64(value.data) : UINT64_MAX;
    bool sound = value.length % 8 == 0 && count < value.length / 8 && coding_get_u64(key.data) <= walk->transaction;
    for (uint64_t i = 0; sound && i < count; i++) {
        uint64_t page = coding_get_u64(value.data + 8 + 8 * i);
        sound = page >= FIRST_PAGE && page <= walk->last_page && (i == 0 || page < coding_get_u64(value.data + 8 * i));
        if (!sound || page >= walk->page_count)
            continue; /* the last pages may never have been written */
        if (bit(walk->listed, page))
            sound = false;
        set_bit(walk->listed, page);
        walk->check->summary->base_pages_free++;
    }
    if (!sound) {
        walk->incomplete = true;
        check_report(walk->check, CHECK_DAMAGE, "free-list", place, consequence(walk), "a list of free pages makes no sense");
    }
}

/* --- Pages --- */

static fdb_error_t walk_page(struct base_walk *walk, uint64_t number, unsigned level, struct bounds bounds);

static fdb_error_t check_leaf_node(struct base_walk *walk, const uint8_t *page, uint64_t number, const struct node *node, struct bounds bounds) {
    struct bytes value = bytes_make(node->data, node->value_bytes);
    uint64_t offset = number * walk->page_bytes + (uint64_t)(node->key.data - page);
    walk->entries++;
    if (!is_in_order(walk, node->key, bounds)) {
        struct bytes shown = bytes_make(node->key.data + 1, node->key.length - 1);
        walk->incomplete = true;
        check_report(walk->check, CHECK_DAMAGE, "key-order", (struct check_place){walk->name, (int64_t)offset, walk->is_free_tree ? NULL : &shown},
                     walk->is_free_tree ? consequence(walk) : "a search does not find this key, or others beside it: restore a backup",
                     "a key that does not come after the one before it, or lies where nobody looks for it");
    }
    if (node->flags & NODE_BIG) {
        bool present;
        fdb_error_t error = read_overflow(walk, node, &present);
        if (error || !present)
            return error;
        value = bytes_make(walk->value + PAGE_HEADER_BYTES, node->value_bytes);
    }
    if (!walk->is_free_tree)
        return rows_check_entry(&walk->rows, offset, node->key, value);
    check_free_list(walk, offset, node->key, value);
    return ERROR_SUCCESS;
}

static fdb_error_t walk_leaf(struct base_walk *walk, uint64_t number, const uint8_t *page, unsigned level, struct bounds bounds) {
    walk->leaves++;
    if (walk->leaf_level == UINT32_MAX)
        walk->leaf_level = level;
    if (level != walk->leaf_level)
        return leave_out(walk, "tree-depth", number, "a leaf at depth %u, where others are at %u", level, walk->leaf_level);
    fdb_error_t error = ERROR_SUCCESS;
    for (size_t i = 0; !error && i < node_count(page); i++) {
        struct node node;
        read_node(walk, page, i, &node);
        error = check_leaf_node(walk, page, number, &node, bounds);
    }
    return error;
}

static fdb_error_t walk_branch(struct base_walk *walk, const uint8_t *page, unsigned level, struct bounds bounds) {
    walk->branches++;
    fdb_error_t error = ERROR_SUCCESS;
    for (size_t i = 0; !error && i < node_count(page); i++) {
        struct node node, next;
        struct bounds below = bounds;
        read_node(walk, page, i, &node);
        if (i)
            below.low = node.key;
        if (i + 1 < node_count(page)) {
            read_node(walk, page, i + 1, &next);
            below.high = next.key;
        }
        error = walk_page(walk, node.child, level + 1, below);
    }
    return error;
}

static fdb_error_t walk_page(struct base_walk *walk, uint64_t number, unsigned level, struct bounds bounds) {
    if (level == DEPTH_MAX)
        return leave_out(walk, "tree-depth", number, "the tree is deeper than a tree can be");
    if (!take_page(walk, number))
        return ERROR_SUCCESS;
    uint8_t *page = walk->pages + level * walk->page_bytes;
    bool whole;
    fdb_error_t error = read_at(walk, number * walk->page_bytes, page, walk->page_bytes, &whole);
    if (error)
        return error;
    uint16_t flags = coding_get_u16(page + PAGE_FLAGS);
    if (!whole || coding_get_u64(page + PAGE_NUMBER) != number || (flags != PAGE_BRANCH && flags != PAGE_LEAF))
        return leave_out(walk, "page-header", number, "not a page of a tree");
    if (!is_sound(walk, page))
        return leave_out(walk, "page-layout", number, "what it holds does not lie as it should");
    return flags == PAGE_BRANCH ? walk_branch(walk, page, level, bounds) : walk_leaf(walk, number, page, level, bounds);
}

/* --- Trees --- */

static void check_count(struct base_walk *walk, const char *what, uint64_t said, uint64_t found) {
    if (said != found)
        check_report(walk->check, CHECK_DAMAGE, "tree-count", (struct check_place){walk->name, -1, NULL},
                     "something is missing that was there, or the count is damaged: copy the data out and compare, or restore a backup",
                     "the tree of %s should have %llu %s and has %llu", tree_name(walk), (unsigned long long)said, what,
                     (unsigned long long)found);
}

static fdb_error_t walk_tree(struct base_walk *walk, const uint8_t *tree, bool is_free_tree) {
    walk->is_free_tree = is_free_tree;
    walk->branches = walk->leaves = walk->overflows = walk->entries = 0;
    walk->leaf_level = UINT32_MAX;
    walk->previous.known = false;
    if ((coding_get_u16(tree + TREE_FLAGS) & ~(is_free_tree ? TREE_NO_DIRECTORY : 0)) != (is_free_tree ? TREE_INTEGER_KEYS : 0))
        check_report(walk->check, CHECK_DAMAGE, "base-meta", (struct check_place){walk->name, -1, NULL}, consequence(walk),
                     "the tree of %s has flags %x", tree_name(walk), coding_get_u16(tree + TREE_FLAGS));
    uint64_t root = coding_get_u64(tree + TREE_ROOT);
    fdb_error_t error = root == NO_PAGE ? ERROR_SUCCESS : walk_page(walk, root, 0, (struct bounds){0});
    if (error || walk->incomplete)
        return error;
    check_count(walk, "entries", coding_get_u64(tree + TREE_ENTRIES), walk->entries);
    check_count(walk, "leaves", coding_get_u64(tree + TREE_LEAVES), walk->leaves);
    check_count(walk, "branches", coding_get_u64(tree + TREE_BRANCHES), walk->branches);
    check_count(walk, "pages of large values", coding_get_u64(tree + TREE_OVERFLOWS), walk->overflows);
    check_count(walk, "levels", coding_get_u16(tree + TREE_DEPTH), root == NO_PAGE ? 0 : walk->leaf_level + 1);
    return ERROR_SUCCESS;
}

/* Pages that are both used and free, and those that are neither. */
static void compare_bits(struct base_walk *walk) {
    struct check_summary *summary = walk->check->summary;
    uint64_t last = walk->last_page < walk->page_count ? walk->last_page + 1 : walk->page_count;
    for (uint64_t page = FIRST_PAGE; page < last; page++) {
        bool used = bit(walk->used, page), listed = bit(walk->listed, page);
        summary->base_pages_used += used;
        summary->base_pages_lost += !used && !listed;
        if (used && listed)
            check_report(walk->check, CHECK_DAMAGE, "page-free", page_place(walk, page),
                         "the next commit to the base may write over rows: copy the data out, or restore a backup",
                         "page %llu is in use and on the list of free pages", (unsigned long long)page);
    }
    if (summary->base_pages_lost && !walk->incomplete)
        check_report(walk->check, CHECK_NOTE, "pages-lost", (struct check_place){walk->name, -1, NULL}, "they are not used again",
                     "%llu pages are neither used nor listed as free", (unsigned long long)summary->base_pages_lost);
}

/* --- Meta pages --- */

static bool meta_is_sound(const struct base_walk *walk, const uint8_t *page, uint64_t number) {
    const uint8_t *meta = page + PAGE_HEADER_BYTES;
    uint64_t map = coding_get_u64(meta + META_MAP_SIZE);
    return coding_get_u64(page) == number && coding_get_u16(page + PAGE_FLAGS) == PAGE_META && coding_get_u32(meta) == META_MAGIC &&
           coding_get_u32(meta + 4) == 1 && coding_get_u64(meta + 8) == 0 && coding_get_u32(meta + META_FREE_TREE) == walk->page_bytes &&
           map < UINT64_C(1) << 47 && map / walk->page_bytes > coding_get_u64(meta + META_LAST_PAGE) &&
           coding_get_u64(meta + META_LAST_PAGE) >= FIRST_PAGE - 1 && coding_get_u64(meta + META_TRANSACTION) % 2 == number;
}

/* Reads both meta pages; *meta is the newer one, as LMDB chooses. *found is false where that cannot be said. */
static fdb_error_t read_metas(struct base_walk *walk, uint8_t meta[META_BYTES], bool *found) {
    uint8_t pages[2][PAGE_HEADER_BYTES + META_BYTES];
    bool whole = false, sound[2];
    *found = false;
    static const char lost[] = "the database does not open, or opens in an older state: restore a backup";
    fdb_error_t error = read_at(walk, 0, pages[0], sizeof pages[0], &whole);
    if (error)
        return error;
    walk->page_bytes = whole ? coding_get_u32(pages[0] + PAGE_HEADER_BYTES + META_FREE_TREE) : 0;
    bool power = walk->page_bytes && (walk->page_bytes & (walk->page_bytes - 1)) == 0;
    if (!power || walk->page_bytes < PAGE_BYTES_MIN || walk->page_bytes > PAGE_BYTES_MAX) {
        check_report(walk->check, CHECK_DAMAGE, "base-meta", (struct check_place){walk->name, 0, NULL}, lost,
                     "the first page is not one of LMDB's, or its page size is damaged");
        return ERROR_SUCCESS;
    }
    error = read_at(walk, walk->page_bytes, pages[1], sizeof pages[1], &whole);
    if (error)
        return error;
    for (unsigned i = 0; i < 2; i++) {
        sound[i] = (i == 0 || whole) && meta_is_sound(walk, pages[i], i);
        if (!sound[i])
            check_report(walk->check, CHECK_DAMAGE, "base-meta", (struct check_place){walk->name, (int64_t)(i * walk->page_bytes), NULL}, lost,
                         "meta page %u is damaged", i);
    }
    *found = sound[0] && sound[1];
    uint64_t first = coding_get_u64(pages[0] + PAGE_HEADER_BYTES + META_TRANSACTION);
    uint64_t second = coding_get_u64(pages[1] + PAGE_HEADER_BYTES + META_TRANSACTION);
    if (*found && (second > first ? second - first : first - second) != 1)
        check_report(walk->check, CHECK_DAMAGE, "base-meta", (struct check_place){walk->name, -1, NULL}, lost,
                     "the meta pages are of the transactions %llu and %llu, which do not follow one another", (unsigned long long)first,
                     (unsigned long long)second);
    if (*found)
        memcpy(meta, pages[second > first] + PAGE_HEADER_BYTES, META_BYTES);
    return ERROR_SUCCESS;
}

/* --- The file --- */

static fdb_error_t walk_trees(struct base_walk *walk, const uint8_t meta[META_BYTES]) {
    size_t bits = (size_t)(walk->page_count / 8 + 1);
    walk->used = memory_allocate_zeroed(bits);
    walk->listed = memory_allocate_zeroed(bits);
    walk->pages = memory_allocate(DEPTH_MAX * walk->page_bytes);
    walk->rows = (struct rows_check){.check = walk->check, .file = walk->name};
    fdb_error_t error = walk->used && walk->listed && walk->pages ? ERROR_SUCCESS : ERROR_LARGE_ALLOC_FAILED;
    if (!error)
        error = walk_tree(walk, meta + META_FREE_TREE, true);
    bool free_incomplete = walk->incomplete;
    walk->incomplete = false;
    if (!error)
        error = walk_tree(walk, meta + META_MAIN_TREE, false);
    rows_check_finish(&walk->rows, !error && !walk->incomplete);
    walk->incomplete |= free_incomplete;
    if (!error)
        compare_bits(walk);
    memory_free(walk->value);
    memory_free(walk->pages);
    memory_free(walk->listed);
    memory_free(walk->used);
    return error;
}

static fdb_error_t check_open_base(struct base_walk *walk) {
    uint8_t meta[META_BYTES];
    bool found;
    fdb_error_t error = os_file_size(&walk->file, &walk->size);
    if (error)
        return check_refuse(walk->check, error, "%s: %s", walk->name, os_last_error());
    walk->check->summary->base_bytes = walk->size;
    error = read_metas(walk, meta, &found);
    if (error || !found)
        return error;
    walk->page_count = walk->size / walk->page_bytes;
    walk->last_page = coding_get_u64(meta + META_LAST_PAGE);
    walk->transaction = coding_get_u64(meta + META_TRANSACTION);
    return walk_trees(walk, meta);
}

fdb_error_t check_base(struct check *check, const char *name) {
    struct base_walk walk = {.check = check, .name = name};
    struct check_path path;
    fdb_error_t error = check_join(check, name, &path);
    if (!error)
        error = os_file_open_read(path.text, &walk.file);
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    error = check_open_base(&walk);
    os_file_close(&walk.file);
    return error;
}
