/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read conflict ranges: what a transaction has read and must not have been changed by others when
 * it commits.
 *
 * A read depends on the database only where the transaction's own writes do not decide: of the keys
 * it covered, those that are unmodified and those under an atomic operation that needs the present
 * value. So every range is cut along the write map as it is at the moment of the read; a key that
 * is written later stays in.
 *
 * Ranges are appended as they come, one entry and one copy of the bytes each (a key and the key
 * after it share their bytes), into an arena of their own. They are sorted and joined when the
 * commit needs them, and whenever their number has doubled since the last time, so that a
 * transaction that reads the same keys for ever does not grow for ever.
 *
 *   1. No entry is empty. 2. All bytes lie in read_arena.
 */
#include "txn/state.h"

enum { RANGE_COST = 24, COMPACT_FIRST = 8192 };

static bool copy_into(struct arena *arena, struct key_range *range) {
    return arena_copy(arena, range->begin, &range->begin) && arena_copy(arena, range->end,
            &range->end);
}

/*
 * Sorts and joins the entries and moves what is left into a new arena. When memory is out, nothing
 * changes.
 */
static void compact(struct transaction *transaction) {
    struct arena fresh = {0};
    struct range_list list = {0};
    struct key_range *all;
    if (!range_list_flatten(&transaction->read_conflicts, &transaction->read_arena, &all))
        return;
    size_t kept = key_ranges_merge(all, transaction->read_conflicts.count);
    bool copied = range_list_reserve(&list, &fresh, kept * 2);
    for (size_t i = 0; copied && i < kept; i++) {
        struct key_range range = all[i];
        copied = copy_into(&fresh, &range) && range_list_append(&list, &fresh, range);
    }
    if (!copied) { /* joined ranges are still right where they are, only fewer */
        arena_free(&fresh);
        return;
    }
    arena_free(&transaction->read_arena);
    transaction->read_arena = fresh;
    transaction->read_conflicts = list;
}

static fdb_error_t append(struct transaction *transaction, struct key_range range) {
    if (!range_list_append(&transaction->read_conflicts, &transaction->read_arena, range))
        return ERROR_LARGE_ALLOC_FAILED;
    if (transaction->read_conflicts.count > COMPACT_FIRST &&
        transaction->read_conflicts.count > transaction->read_conflicts_compact_at) {
        if (transaction->read_conflicts_compact_at)
            compact(transaction);
        transaction->read_conflicts_compact_at = transaction->read_conflicts.count * 2;
    }
    return 0;
}

/* The same key again, as loops read it. */
static bool is_last(const struct transaction *transaction, struct bytes key) {
    const struct range_chunk *last = transaction->read_conflicts.last;
    if (!last || !last->count)
        return false;
    const struct key_range *range = &last->ranges[last->count - 1];
    return range->end.data == range->begin.data && bytes_equal(range->begin, key);
}

fdb_error_t conflict_add_key(struct transaction *transaction, struct bytes key,
                             enum write_kind kind) {
    if ((kind != WRITE_UNMODIFIED && kind != WRITE_DEPENDENT) || transaction->options.long_read)
        return 0;
    if (!transaction->options.ryw_disabled)
        transaction->approximate_bytes += (int64_t)(2 * key.length + 1 + RANGE_COST);
    if (is_last(transaction, key))
        return 0;
    struct bytes after;
    if (!key_after(&transaction->read_arena, key, &after))
        return ERROR_LARGE_ALLOC_FAILED;
    return append(transaction, (struct key_range){bytes_make(after.data, key.length), after});
}

static fdb_error_t add_piece(struct transaction *transaction, struct key_range range, size_t cost) {
    if (bytes_compare(range.begin, range.end) >= 0)
        return 0;
    transaction->approximate_bytes += (int64_t)cost;
    if (!copy_into(&transaction->read_arena, &range))
        return ERROR_LARGE_ALLOC_FAILED;
    return append(transaction, range);
}

fdb_error_t conflict_add_range(struct transaction *transaction, struct bytes begin,
                               struct bytes end) {
    if (bytes_compare(begin, end) >= 0 || transaction->options.long_read)
        return 0;
    size_t cost = begin.length + end.length + RANGE_COST;
    if (transaction->options.ryw_disabled) /* where upstream does not count what is read */
        return add_piece(transaction, (struct key_range){begin, end}, 0);
    if (write_map_is_empty(&transaction->writes))
        return add_piece(transaction, (struct key_range){begin, end}, cost);
    struct write_segment segment = write_map_find(&transaction->writes, begin);
    for (;;) {
        enum write_kind kind = write_segment_kind(segment);
        if (kind == WRITE_UNMODIFIED || kind == WRITE_DEPENDENT) {
            struct key_range piece = {bytes_max(begin, write_segment_begin(segment)), end};
            if (!write_segment_is_last(segment))
                piece.end = bytes_min(end, write_segment_end(segment));
            fdb_error_t error = add_piece(transaction, piece, cost);
            if (error)
                return error;
        }
        if (write_segment_is_last(segment))
            return 0;
        segment = write_segment_next(segment);
        if (bytes_compare(write_segment_begin(segment), end) >= 0)
            return 0;
    }
}
