/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a range as a transaction sees them: the database's, overlaid with the transaction's own
 * writes.
 *
 * Where the writes leave a range alone the database's rows go straight to the caller. Otherwise the
 * segments of the write map are walked in the direction of the read:
 *
 *     unmodified    the database's rows in it pass
 *     cleared       the database's rows in it are skipped; reading goes on behind it
 *     independent   the own value, if any; the database is not asked
 *     dependent     the own operations applied to the database's row, which may be missing
 *     unreadable    ends the read with ACCESSED_UNREADABLE, unless a limit ended it before
 *
 * The database's rows come in batches into the transaction's scratch rows (`chunk`), each batch
 * twice the last one, starting at the first key that is needed.
 *
 *   1. A batch is only fetched when its first key is wanted. 2. `index` is the first row of the
 *      batch not yet used.
 */
#include "txn/read.h"

enum { BATCH_ROWS_FIRST = 128, BATCH_ROWS_MAX = 4096, BATCH_BYTES_MAX = 256 * 1024 };

struct merge {
    struct transaction *transaction;
    const struct row_request *request;
    struct rows *rows;
    int64_t rows_left, bytes_left;
    int batch_rows;
    int index;
    bool fetched, exhausted;
    struct arena scratch;
};

static bool reached(const struct merge *merge) { return merge->rows_left <= 0 ||
                                                merge->bytes_left <= 0; }

static fdb_error_t emit(struct merge *merge, struct bytes key, struct bytes value) {
    if (!rows_append(merge->rows, key, value))
        return ERROR_LARGE_ALLOC_FAILED;
    merge->rows_left--;
    if (merge->request->byte_limit != INT64_MAX)
        merge->bytes_left -= (int64_t)(key.length + value.length + ROW_COST);
    return 0;
}

/* --- The database's side --- */

/*
 * The next batch: from `bound` (forwards: at least; backwards: below) or from where the last one
 * ended, whichever is further.
 */
static fdb_error_t fetch(struct merge *merge, struct bytes bound) {
    struct transaction *transaction = merge->transaction;
    struct rows *chunk = &transaction->chunk;
    bool reverse = merge->request->reverse;
    struct key_range range = merge->request->range;
    if (merge->fetched && chunk->count) {
        struct bytes resume = rows_key(chunk, chunk->count - 1);
        if (reverse ? !arena_copy(&merge->scratch, resume, &resume) : !key_after(&merge->scratch,
                resume, &resume))
            return ERROR_LARGE_ALLOC_FAILED;
        *(reverse ? &range.end : &range.begin) = resume;
    }
    if (reverse)
        range.end = bytes_min(range.end, bound);
    else
        range.begin = bytes_max(range.begin, bound);
    rows_clear(chunk);
    merge->index = 0;
    merge->fetched = true;
    struct range_request request = {.version = transaction->read_version,
                                    .begin = range.begin,
                                    .end = range.end,
                                    .row_limit = merge->batch_rows,
                                    .byte_limit = BATCH_BYTES_MAX,
                                    .reverse = reverse};
    bool more = false;
    fdb_error_t error = database_get_range(transaction->source, &request, chunk, &more);
    if (error)
        return error;
    merge->exhausted = !more;
    merge->batch_rows = merge->batch_rows * 2 > BATCH_ROWS_MAX ? BATCH_ROWS_MAX
                        : merge->batch_rows * 2;
    return 0;
}

/* Finds the next row at or after `bound` (backwards: below it); -1 where there is none. */
static fdb_error_t peek(struct merge *merge, struct bytes bound, int *found) {
    struct rows *chunk = &merge->transaction->chunk;
    for (;;) {
        for (; merge->fetched && merge->index < chunk->count; merge->index++) {
            int order = bytes_compare(rows_key(chunk, merge->index), bound);
            if (merge->request->reverse ? order < 0 : order >= 0) {
                *found = merge->index;
                return 0;
            }
        }
        if (merge->exhausted) {
            *found = -1;
            return 0;
        }
        fdb_error_t error = fetch(merge, bound);
        if (error)
            return error;
    }
}

/* --- Segments --- */

static fdb_error_t emit_database_rows(struct merge *merge, struct key_range range) {
    const struct rows *chunk = &merge->transaction->chunk;
    bool reverse = merge->request->reverse;
    while (!reached(merge)) {
        int at;
        fdb_error_t error = peek(merge, reverse ? range.end : range.begin, &at);
        if (error)
            return error;
        if (at < 0 || !key_range_contains(range, rows_key(chunk, at)))
            return 0;
        if ((error = emit(merge, rows_key(chunk, at), rows_value(chunk, at))) != 0)
            return error;
        merge->index++;
    }
    return 0;
}

static fdb_error_t emit_operation(struct merge *merge, struct write_segment segment) {
    const struct rows *chunk = &merge->transaction->chunk;
    struct bytes key = write_segment_begin(segment), base, value;
    const struct bytes *present = NULL;
    bool exists;
    if (write_segment_kind(segment) == WRITE_DEPENDENT) {
        int at;
        fdb_error_t error = peek(merge, merge->request->reverse ? write_segment_end(segment) : key,
                                 &at);
        if (error)
            return error;
        if (at >= 0 && bytes_equal(rows_key(chunk, at), key)) {
            base = rows_value(chunk, at);
            present = &base;
        }
    }
    fdb_error_t error = write_segment_apply(segment, present, &merge->scratch, &value, &exists);
    if (error || !exists)
        return error;
    return emit(merge, key, value);
}

static fdb_error_t emit_segment(struct merge *merge, struct write_segment segment) {
    if (write_segment_is_unreadable(segment))
        return ERROR_ACCESSED_UNREADABLE;
    struct key_range range = merge->request->range;
    switch (write_segment_kind(segment)) {
    case WRITE_CLEARED:
        return 0;
    case WRITE_UNMODIFIED:
        range.begin = bytes_max(range.begin, write_segment_begin(segment));
        if (!write_segment_is_last(segment))
            range.end = bytes_min(range.end, write_segment_end(segment));
        return emit_database_rows(merge, range);
    default:
        return emit_operation(merge, segment);
    }
}

static fdb_error_t walk_forwards(struct merge *merge) {
    const struct key_range range = merge->request->range;
    struct write_segment segment = write_map_find(&merge->transaction->writes, range.begin);
    for (;;) {
        fdb_error_t error = emit_segment(merge, segment);
        if (error || reached(merge) || write_segment_is_last(segment))
            return error;
        segment = write_segment_next(segment);
        if (bytes_compare(write_segment_begin(segment), range.end) >= 0)
            return 0;
    }
}

static fdb_error_t walk_backwards(struct merge *merge) {
    const struct key_range range = merge->request->range;
    const struct write_map *map = &merge->transaction->writes;
    struct write_segment segment = write_map_find_before(map, range.end);
    for (;;) {
        fdb_error_t error = emit_segment(merge, segment);
        struct bytes begin = write_segment_begin(segment);
        if (error || reached(merge) || bytes_compare(begin, range.begin) <= 0)
            return error;
        segment = write_map_find_before(map, begin);
    }
}

/* --- Without own writes --- */

/*
 * Cuts `rows` behind the row that reaches the byte limit, which the database counts without
 * ROW_COST.
 */
static bool cut_at_bytes(struct rows *rows, int first, int64_t byte_limit) {
    int64_t bytes = 0;
    for (int i = first; i < rows->count; i++) {
        bytes += (int64_t)(rows_key(rows, i).length + rows_value(rows, i).length + ROW_COST);
        if (bytes < byte_limit)
            continue;
        for (int cut = i + 1; cut < rows->count; cut++)
            rows->bytes -= rows_key(rows, cut).length + rows_value(rows, cut).length;
        rows->count = i + 1;
        return true;
    }
    return false;
}

static fdb_error_t pass_through(struct transaction *transaction, const struct row_request *request,
                                struct rows *rows,
                                bool *more) {
    int64_t row_limit = request->row_limit;
    bool by_bytes = request->byte_limit != INT64_MAX;
    if (by_bytes && row_limit > request->byte_limit / ROW_COST + 1)
        row_limit = request->byte_limit / ROW_COST + 1;
    if (row_limit > INT32_MAX)
        row_limit = INT32_MAX;
    struct range_request read = {.version = transaction->read_version,
                                 .begin = request->range.begin,
                                 .end = request->range.end,
                                 .row_limit = (int)row_limit,
                                 .byte_limit = by_bytes ? (size_t)request->byte_limit : SIZE_MAX,
                                 .row_cost = by_bytes ? ROW_COST : 0,
                                 .reverse = request->reverse};
    int first = rows->count;
    size_t bytes_before = rows->bytes;
    bool database_more = false;
    fdb_error_t error = database_get_range(transaction->source, &read, rows, &database_more);
    if (error)
        return error;
    int64_t cost = (int64_t)(rows->bytes - bytes_before) + (int64_t)(rows->count - first) * ROW_COST;
    bool cut = by_bytes && cost >= request->byte_limit && cut_at_bytes(rows, first, request->byte_limit);
    *more = cut || database_more || rows->count - first >= request->row_limit;
    return 0;
}

static bool touches_writes(const struct transaction *transaction, struct key_range range) {
    if (write_map_is_empty(&transaction->writes))
        return false;
    struct write_segment segment = write_map_find(&transaction->writes, range.begin);
    if (write_segment_kind(segment) != WRITE_UNMODIFIED || write_segment_is_unreadable(segment))
        return true;
    return !write_segment_is_last(segment) && bytes_compare(write_segment_end(segment),
                                                            range.end) < 0;
}

fdb_error_t merge_rows(struct transaction *transaction, const struct row_request *request,
                       struct rows *rows, bool *more) {
    *more = false;
    if (bytes_compare(request->range.begin, request->range.end) >= 0)
        return 0;
    if (!request->merge || !touches_writes(transaction, request->range))
        return pass_through(transaction, request, rows, more);
    struct merge merge = {.transaction = transaction,
                          .request = request,
                          .rows = rows,
                          .rows_left = request->row_limit,
                          .bytes_left = request->byte_limit,
                          .batch_rows = BATCH_ROWS_FIRST};
    if (request->row_limit <= BATCH_ROWS_MAX) /* about as many as will be used */
        merge.batch_rows = (int)request->row_limit;
    fdb_error_t error = request->reverse ? walk_backwards(&merge) : walk_forwards(&merge);
    *more = reached(&merge);
    arena_free(&merge.scratch);
    return error;
}
