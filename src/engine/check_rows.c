/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking the rows of the base: what check_base.c finds in LMDB's main tree, entry by entry in key order. base_lmdb.c draws the trie that they form.
 *
 *   1. The first entry is the record about the base; its checksum and its format are right.
 *   2. Every other entry belongs to the root or to a sub-tree, and matches its checksum.
 *   3. An entry with a full key has a header that makes sense.
 *   4. Every sub-tree that an entry names has entries, every one that has entries is named by exactly one, and from each one the way up leads to the root.
 *
 * LMDB's order puts all of the root before the first sub-tree, so 4 is looked at last, from two lists. They are as long as there are sub-trees; those exist for keys
 * of 510 bytes and more only.
 *
 * Threads: one. Failure: only memory can run out.
 */
#include <stdlib.h>

#include "engine/base_lmdb.h"
#include "engine/check_internal.h"
#include "util/memory.h"

static bool grow(void **array, size_t *capacity, size_t count, size_t item_bytes) {
    if (count < *capacity)
        return true;
    size_t larger = *capacity ? *capacity * 2 : 64;
    void *resized = memory_resize(*array, larger * item_bytes);
    if (!resized)
        return false;
    *array = resized;
    *capacity = larger;
    return true;
}

static fdb_error_t check_record(struct rows_check *rows, uint64_t offset, struct bytes key, struct bytes value) {
    struct check *check = rows->check;
    struct check_place place = {rows->file, (int64_t)offset, NULL};
    static const char consequence[] = "the database does not open: restore a backup";
    if (rows->seen_record || key.length != 1 || value.length < RECORD_BYTES || memcmp(value.data, "KeelBase", 8) != 0) {
        check_report(check, CHECK_DAMAGE, "base-record", place, consequence, "this is not the record about the base, which should be here");
        return ERROR_SUCCESS;
    }
    uint32_t format = coding_get_u32(value.data + RECORD_FORMAT);
    uint8_t copy[RECORD_BYTES];
    memcpy(copy, value.data, RECORD_BYTES);
    coding_put_u32(copy + RECORD_SUM, 0);
    bool whole = value.length == RECORD_BYTES && coding_get_u32(value.data + RECORD_SUM) == checksum_row(key, bytes_make(copy, RECORD_BYTES));
    if (!whole && format > FORMAT_VERSION && format < 1000)
        return check_refuse(check, ERROR_FORMAT_NEWER, "%s: its format %u is newer than this Keel's", rows->file, format);
    if (!whole && format == 1 && coding_get_u32(value.data + RECORD_SUM) == 0)
        return check_refuse(check, ERROR_FORMAT_OLDER, "%s: its format 1 is no longer read", rows->file);
    if (!whole || format != FORMAT_VERSION) {
        check_report(check, CHECK_DAMAGE, "base-record", place, consequence, "the record about the base does not match its checksum");
        return ERROR_SUCCESS;
    }
    rows->seen_record = true;
    rows->subtree_next = coding_get_u64(value.data + RECORD_SUBTREE_NEXT);
    check->summary->base_version = (int64_t)coding_get_u64(value.data + RECORD_VERSION);
    check->summary->base_version_known = true;
    return ERROR_SUCCESS;
}

static fdb_error_t note_present(struct rows_check *rows, uint64_t subtree) {
    if (rows->present_count && rows->present[rows->present_count - 1] == subtree)
        return ERROR_SUCCESS;
    void *array = rows->present;
    if (!grow(&array, &rows->present_capacity, rows->present_count, sizeof *rows->present))
        return ERROR_LARGE_ALLOC_FAILED;
    rows->present = array;
    rows->present[rows->present_count++] = subtree;
    return ERROR_SUCCESS;
}

static fdb_error_t note_link(struct rows_check *rows, uint64_t number, uint64_t parent) {
    void *array = rows->links;
    if (!grow(&array, &rows->link_capacity, rows->link_count, sizeof *rows->links))
        return ERROR_LARGE_ALLOC_FAILED;
    rows->links = array;
    rows->links[rows->link_count++] = (struct subtree_link){number, parent};
    return ERROR_SUCCESS;
}

/* An entry of a full chunk. */
static fdb_error_t check_header(struct rows_check *rows, struct check_place place, uint64_t subtree, struct bytes body) {
    struct entry entry;
    MDB_val value = {body.length, (void *)(uintptr_t)body.data};
    if (!entry_parse(value, &entry) || entry.subtree >= rows->subtree_next) {
        check_report(rows->check, CHECK_DAMAGE, "row-entry", place, "the row, and the rows below it, cannot be read",
                     "the entry of a long key makes no sense");
        return ERROR_SUCCESS;
    }
    rows->check->summary->rows += entry.has_value;
    return entry.subtree ? note_link(rows, entry.subtree, subtree) : ERROR_SUCCESS;
}

fdb_error_t rows_check_entry(struct rows_check *rows, uint64_t offset, struct bytes key, struct bytes value) {
    struct check *check = rows->check;
    if (key.data[0] == NODE_RECORD)
        return check_record(rows, offset, key, value);
    uint64_t subtree = 0;
    struct check_place place = {rows->file, (int64_t)offset, NULL};
    bool in_root = key.data[0] == NODE_ROOT, in_subtree = key.data[0] == NODE_SUBTREE && key.length > SUBTREE_PREFIX_BYTES;
    if (in_subtree)
        subtree = coding_get_u64_big(key.data + 1);
    if ((!in_root && !in_subtree) || (in_subtree && (subtree == 0 || subtree >= rows->subtree_next))) {
        check_report(check, CHECK_DAMAGE, "row-entry", place, "a row is lost, or one appears that was never written",
                     "an entry that belongs neither to the root nor to a sub-tree");
        return ERROR_SUCCESS;
    }
    struct bytes shown = skip(key, in_root ? ROOT_PREFIX_BYTES : SUBTREE_PREFIX_BYTES);
    place.key = &shown;
    MDB_val lmdb_key = {key.length, (void *)(uintptr_t)key.data}, body = {value.length, (void *)(uintptr_t)value.data};
    fdb_error_t error = subtree ? note_present(rows, subtree) : ERROR_SUCCESS;
    if (error)
        return error;
    if (!value_verify(lmdb_key, &body)) {
        check_report(check, CHECK_DAMAGE, "row-checksum", place, "reading the row fails with error 20010: write it again, clear it, or restore a backup",
                     "the row does not match its checksum");
        struct entry entry; /* what it leads to may be right: it is not reported as lost then */
        bool leads = key.length == LMDB_KEY_BYTES && entry_parse(body, &entry) && entry.subtree && entry.subtree < rows->subtree_next;
        return leads ? note_link(rows, entry.subtree, subtree) : ERROR_SUCCESS;
    }
    if (body.mv_size > VALUE_BYTES_MAX + ENTRY_VALUE)
        check_report(check, CHECK_DAMAGE, "row-size", place, "the row was not written by Keel", "the value has %zu bytes", body.mv_size);
    if (key.length == LMDB_KEY_BYTES)
        return check_header(rows, place, subtree, view(body));
    check->summary->rows++;
    return ERROR_SUCCESS;
}

/* --- Sub-trees --- */

static int compare_links(const void *a, const void *b) {
    uint64_t left = ((const struct subtree_link *)a)->number, right = ((const struct subtree_link *)b)->number;
    return left < right ? -1 : left > right;
}

static const struct subtree_link *find_link(const struct rows_check *rows, uint64_t number) {
    struct subtree_link wanted = {number, 0};
    return rows->link_count ? bsearch(&wanted, rows->links, rows->link_count, sizeof wanted, compare_links) : NULL;
}

/*
 * Does the way up from a sub-tree end at the root? Where one further up is named by nobody, that one is lost and reported; what hangs on it is not reported again. A way
 * without end goes in a circle.
 */
static bool is_lost(const struct rows_check *rows, uint64_t number) {
    for (unsigned depth = 0; depth <= DEPTH_MAX; depth++) {
        const struct subtree_link *link = find_link(rows, number);
        if (!link)
            return depth == 0;
        number = link->parent;
        if (number == 0)
            return false;
    }
    return true;
}

static bool is_present(const struct rows_check *rows, uint64_t number) {
    size_t low = 0, high = rows->present_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->present[middle] == number)
            return true;
        if (rows->present[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void check_subtrees(struct rows_check *rows) {
    struct check_place place = {rows->file, -1, NULL};
    if (rows->link_count)
        qsort(rows->links, rows->link_count, sizeof *rows->links, compare_links);
    for (size_t i = 0; i < rows->link_count; i++) {
        unsigned long long number = rows->links[i].number;
        if (i && rows->links[i - 1].number == number)
            check_report(rows->check, CHECK_DAMAGE, "subtree-twice", place, "rows with long keys appear under keys that were never written",
                         "two entries lead to sub-tree %llu", number);
        else if (!is_present(rows, number))
            check_report(rows->check, CHECK_DAMAGE, "subtree-missing", place, "rows with long keys are lost: restore a backup",
                         "an entry leads to sub-tree %llu, which holds nothing", number);
    }
    for (size_t i = 0; i < rows->present_count; i++)
        if (is_lost(rows, rows->present[i]))
            check_report(rows->check, CHECK_DAMAGE, "subtree-unreachable", place, "rows with long keys are lost: restore a backup",
                         "no way leads to sub-tree %llu", (unsigned long long)rows->present[i]);
}

void rows_check_finish(struct rows_check *rows, bool complete) {
    if (complete && !rows->seen_record)
        check_report(rows->check, CHECK_DAMAGE, "base-record", (struct check_place){rows->file, -1, NULL},
                     "the database does not open: restore a backup", "the record about the base is missing");
    if (complete)
        check_subtrees(rows);
    memory_free(rows->links);
    memory_free(rows->present);
}
