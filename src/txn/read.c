/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: get, get_key and get_range, with key selectors, limits and the read conflicts they
 * leave.
 *
 * A selector (key, or_equal, offset) is first brought into the form (base, offset): base is the
 * key, or the key after it with or_equal. With offset 1 it means "the first key at or after base"
 * and needs no reading where only a boundary is wanted; with n > 1 the n-th such key; with 0 the
 * last key before base; with -n the n-th before that one. It stops at the ends of what the
 * transaction may read: "" and \xff, or \xff\xff with the system key options.
 *
 * A range read does not look behind an unreadable key for where a selector leads, and asks for no more
 * than it must: it succeeds where the answer does not depend on what lies there (see read_blocked).
 *
 * A range read resolves its selectors, reads the rows between them, and adds one conflict range:
 * from the lowest to the highest key that could have changed the answer, cut short behind the last
 * row where a limit ended the read. The transaction's own writes are then taken out of it.
 *
 * Byte limits: each streaming mode stands for one, target_bytes may lower it, and as with a storage
 * server no batch passes 80,000 bytes unless only rows are limited. A row costs its key, its value
 * and 24 bytes; the row that reaches the limit is the last one.
 *
 *   1. No read is answered at a version that database_check_read_version or get_read_version did
 *      not approve.
 *   2. A failed read adds no conflict and leaves the caller's outputs alone. The transaction cannot commit
 *      any more, even if nobody looks at the read's error; arguments that are refused do not count.
 */
#include "txn/read.h"
#include "util/memory.h"

enum { BATCH_BYTES_MAX = 80000, RESOLVE_ROWS_MAX = 1024 };

static bool sees_own_writes(const struct transaction *transaction, bool snapshot) {
    const struct transaction_options *options = &transaction->options;
    return !options->ryw_disabled && !(snapshot && options->snapshot_ryw <= 0);
}

static fdb_error_t remember(struct transaction *transaction, fdb_error_t error) {
    if (error && !transaction->read_error)
        transaction->read_error = error;
    return error;
}

/* --- Get --- */

/* The value with the transaction's own operations applied. */
static fdb_error_t get_modified(struct transaction *transaction, struct write_segment segment,
                                struct bytes key,
                                struct arena *arena, struct bytes *value, bool *present) {
    if (write_segment_is_unreadable(segment) && !transaction->options.bypass_unreadable)
        return ERROR_ACCESSED_UNREADABLE;
    enum write_kind kind = write_segment_kind(segment);
    struct bytes base;
    bool exists = false;
    if (kind == WRITE_CLEARED) {
        *present = false;
        return 0;
    }
    if (kind != WRITE_INDEPENDENT) {
        fdb_error_t error = transaction_version(transaction);
        if (!error)
            error = database_get(transaction->source, transaction->read_version, key, arena,
                                 &base, &exists);
        if (error)
            return error;
    }
    if (kind != WRITE_UNMODIFIED) {
        fdb_error_t error = write_segment_apply(segment, exists ? &base : NULL, arena, &base,
                                                &exists);
        if (error)
            return error;
        if (exists && !arena_copy(arena, base, &base))
            return ERROR_LARGE_ALLOC_FAILED;
    }
    if (exists)
        *value = base;
    *present = exists;
    return 0;
}

fdb_error_t read_value(struct transaction *transaction, struct bytes key, bool snapshot,
                       struct arena *arena,
                       struct bytes *value, bool *present) {
    enum write_kind kind = WRITE_UNMODIFIED;
    fdb_error_t error;
    transaction->used = true;
    if (!write_map_is_empty(&transaction->writes) && sees_own_writes(transaction, snapshot)) {
        struct write_segment segment = write_map_find(&transaction->writes, key);
        kind = write_segment_kind(segment);
        error = get_modified(transaction, segment, key, arena, value, present);
    } else {
        error = transaction_version(transaction);
        if (!error)
            error = database_get(transaction->source, transaction->read_version, key, arena,
                                 value, present);
    }
    if (!error && !snapshot)
        error = conflict_add_key(transaction, key, kind);
    return error;
}

/* Whether a get is a question to the client: before API version 630 only three keys were. */
static bool is_special_get(const struct transaction *transaction, struct bytes key) {
    if (transaction->api_version >= 630)
        return key_is_special(key);
    return bytes_equal(key, BYTES_LITERAL("\xff\xff/status/json")) ||
           bytes_equal(key, BYTES_LITERAL("\xff\xff/cluster_file_path")) ||
           bytes_equal(key, BYTES_LITERAL("\xff\xff/connection_string"));
}

/* Such a question may be asked during and after a commit. */
static fdb_error_t get_special(struct transaction *transaction, struct bytes key,
                               struct arena *arena, struct bytes *value, bool *present,
                               struct ended *ended) {
    fdb_error_t error = transaction_check(transaction, false, ended);
    return error ? error : special_get(transaction, key, arena, value, present);
}

fdb_error_t transaction_get(struct transaction *transaction, struct bytes key, bool snapshot,
                            struct arena *arena, struct bytes *value, bool *present) {
    struct ended ended = {0};
    fdb_error_t error = 0;
    bool system = key.length && key.data[0] == 0xff;
    os_mutex_lock(&transaction->lock);
    if (system && is_special_get(transaction, key)) {
        error = get_special(transaction, key, arena, value, present, &ended);
        os_mutex_unlock(&transaction->lock);
        finish_all(&ended);
        return error;
    }
    if (transaction->troubled)
        error = transaction_check(transaction, true, &ended);
    if (!error && system && bytes_compare(key, key_max_read(transaction)) >= 0 &&
        !key_is_metadata_version(key))
        error = ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    if (!error && key.length > KEY_BYTES_MAX && key.length > key_bytes_max(key, true))
        *present = false; /* no key is as long */
    else if (!error)
        error = remember(transaction, read_value(transaction, key, snapshot, arena, value, present));
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

/* --- Selectors --- */

/* Room for keys made during one read: the stack for usual ones, the heap for long ones. */
struct keys {
    struct arena arena;
    size_t used;
    uint8_t small[320];
};

static bool keep_key(struct keys *keys, struct bytes key, bool after, struct bytes *copy) {
    size_t length = key.length + (after ? 1 : 0);
    uint8_t *room = keys->small + keys->used;
    if (length <= sizeof keys->small - keys->used)
        keys->used += length;
    else if (!(room = arena_allocate_bytes(&keys->arena, length)))
        return false;
    if (key.length)
        memcpy(room, key.data, key.length);
    if (after)
        room[key.length] = 0;
    *copy = bytes_make(room, length);
    return true;
}

/* A selector in the form (base, offset). */
struct selector {
    struct bytes base;
    int64_t offset;
};

static fdb_error_t simplify(struct keys *keys, struct key_selector selector,
                            struct selector *simple) {
    simple->base = selector.key;
    simple->offset = selector.offset;
    if (selector.or_equal && !keep_key(keys, selector.key, true, &simple->base))
        return ERROR_LARGE_ALLOC_FAILED;
    return 0;
}

/*
 * Looks for the `wanted`-th key in the range, from its end on if reverse. *found is how many there
 * were, at most `wanted`; if all, *key is the last of them, kept in `keys`.
 */
static fdb_error_t count_in_range(struct transaction *transaction, struct keys *keys, struct key_range range,
                                  int64_t wanted, bool reverse, bool merge, int64_t *found, struct bytes *key) {
    struct row_request request = {.range = range, .byte_limit = INT64_MAX, .reverse = reverse, .merge = merge};
    int64_t so_far = 0;
    for (;;) {
        struct rows *rows = &transaction->found;
        bool more;
        request.row_limit = wanted - so_far < RESOLVE_ROWS_MAX ? wanted - so_far : RESOLVE_ROWS_MAX;
        rows_clear(rows);
        fdb_error_t error = merge_rows(transaction, &request, rows, &more);
        if (error)
            return error;
        so_far += rows->count;
        bool complete = so_far == wanted;
        if (rows->count && (complete || more)) {
            struct bytes last = rows_key(rows, rows->count - 1);
            if (!keep_key(keys, last, !complete && !reverse, key))
                return ERROR_LARGE_ALLOC_FAILED;
            *(reverse ? &request.range.end : &request.range.begin) = *key;
        }
        if (complete || !more) {
            *found = so_far;
            return 0;
        }
    }
}

/* The keys that may be read at or after `base`, or backwards before it. */
static struct key_range keys_from(const struct transaction *transaction, struct bytes base, bool reverse) {
    struct bytes max = key_max_read(transaction);
    if (reverse)
        return (struct key_range){BYTES_LITERAL(""), bytes_min(base, max)};
    return (struct key_range){base, max};
}

static fdb_error_t count_keys(struct transaction *transaction, struct keys *keys, struct bytes base, int64_t wanted,
                              bool reverse, bool merge, int64_t *found, struct bytes *key) {
    return count_in_range(transaction, keys, keys_from(transaction, base, reverse), wanted, reverse, merge, found, key);
}

/* The keys between the base and the result decided it. */
static fdb_error_t add_key_conflict(struct transaction *transaction, struct keys *keys,
                                    struct selector selector, struct bytes result) {
    struct bytes after;
    if (selector.offset <= 0)
        return conflict_add_range(transaction, result, selector.base);
    bool is_last = bytes_equal(result, BYTES_LITERAL("\xff\xff"));
    if (!keep_key(keys, result, !is_last, &after))
        return ERROR_LARGE_ALLOC_FAILED;
    return conflict_add_range(transaction, selector.base, after);
}

static fdb_error_t get_key(struct transaction *transaction, struct keys *keys,
                           struct key_selector selector, bool snapshot, struct bytes *result) {
    struct selector simple;
    int64_t found;
    fdb_error_t error = transaction_version(transaction);
    if (!error)
        error = simplify(keys, selector, &simple);
    if (error)
        return error;
    bool reverse = simple.offset <= 0;
    int64_t wanted = reverse ? 1 - simple.offset : simple.offset;
    transaction->used = true;
    error = count_keys(transaction, keys, simple.base, wanted, reverse,
                       sees_own_writes(transaction, snapshot), &found, result);
    if (error)
        return error;
    if (found < wanted)
        *result = reverse ? BYTES_LITERAL("") : key_max_read(transaction);
    return snapshot ? 0 : add_key_conflict(transaction, keys, simple, *result);
}

fdb_error_t transaction_get_key(struct transaction *transaction, struct key_selector selector,
                                bool snapshot, struct arena *arena, struct bytes *key) {
    struct ended ended = {0};
    struct keys keys;
    struct bytes result;
    keys.used = 0;
    keys.arena = (struct arena){0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error && bytes_compare(selector.key, key_max_read(transaction)) > 0)
        error = ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    if (!error)
        error = remember(transaction, get_key(transaction, &keys, selector, snapshot, &result));
    if (!error && !arena_copy(arena, result, key))
        error = ERROR_LARGE_ALLOC_FAILED;
    os_mutex_unlock(&transaction->lock);
    arena_free(&keys.arena);
    finish_all(&ended);
    return error;
}

/* --- Ranges --- */

/*
 * Where a selector leads. `rest` is the offset that was left: 1 unless it ran over an end, or is
 * blocked: from `key` on, where an unreadable key begins (backwards: ends), it is not known.
 */
struct resolved {
    struct bytes key;
    int64_t rest;
    bool over_begin, over_end, blocked;
};

/* Where the first unreadable key at or after `base` begins, or the last before it ends. REQUIRES: there is one. */
static struct bytes find_unreadable(const struct transaction *transaction, struct bytes base, bool reverse) {
    const struct write_map *map = &transaction->writes;
    struct write_segment segment = reverse ? write_map_find_before(map, base) : write_map_find(map, base);
    while (!write_segment_is_unreadable(segment))
        segment = reverse ? write_map_find_before(map, write_segment_begin(segment)) : write_segment_next(segment);
    return reverse ? bytes_min(base, write_segment_end(segment)) : bytes_max(base, write_segment_begin(segment));
}

/* Goes as far as a selector that met an unreadable key can. */
static fdb_error_t resolve_before_unreadable(struct transaction *transaction, struct keys *keys, struct selector selector,
                                             struct resolved *resolved) {
    bool reverse = selector.offset < 1;
    struct bytes at = find_unreadable(transaction, selector.base, reverse), last;
    struct key_range range = {reverse ? at : selector.base, reverse ? selector.base : at};
    int64_t wanted = reverse ? 1 - selector.offset : selector.offset, found = 0;
    fdb_error_t error = 0;
    if (bytes_compare(range.begin, range.end) < 0)
        error = count_in_range(transaction, keys, range, wanted, reverse, true, &found, &last);
    if (error)
        return error;
    resolved->key = at;
    resolved->rest = reverse ? selector.offset + found : selector.offset - found;
    resolved->blocked = resolved->rest != 1;
    return 0;
}

static fdb_error_t resolve(struct transaction *transaction, struct keys *keys,
                           struct selector selector, bool merge,
                           struct resolved *resolved) {
    *resolved = (struct resolved){.key = selector.base, .rest = 1};
    if (selector.offset == 1)
        return 0;
    bool reverse = selector.offset < 1;
    int64_t wanted = reverse ? 1 - selector.offset : selector.offset, found;
    fdb_error_t error =
        count_keys(transaction, keys, selector.base, wanted, reverse, merge, &found,
                   &resolved->key);
    if (error == ERROR_ACCESSED_UNREADABLE)
        return resolve_before_unreadable(transaction, keys, selector, resolved);
    if (error || found == wanted)
        return error;
    resolved->key = reverse ? BYTES_LITERAL("") : key_max_read(transaction);
    if (reverse) {
        resolved->over_begin = true;
        resolved->rest = selector.offset + found;
    } else if (found < wanted - 1) {
        resolved->over_end = true;
        resolved->rest = selector.offset - found;
    }
    return 0;
}

/* A range read under way. */
struct range_read {
    struct transaction *transaction;
    struct keys keys;
    struct selector begin, end;
    int64_t row_limit, byte_limit;
    bool snapshot, reverse;
    bool to_begin, through_end; /* the answer depends on keys up to that end */
    int first;                  /* of the caller's rows, the first that is ours */
};

/* The one conflict range of a range read: see the opening. */
static fdb_error_t add_conflict(struct range_read *read, const struct rows *rows, bool more) {
    struct bytes lower = read->begin.base, upper = read->end.base;
    if (bytes_compare(lower, upper) >= 0) {
        struct bytes swap = lower;
        lower = upper;
        upper = swap;
    } else if (more && !read->reverse && read->end.offset > 0) {
        upper = lower;
    } else if (more && read->reverse && read->begin.offset <= 1) {
        lower = upper;
    }
    if (read->to_begin && read->begin.offset <= 0)
        lower = BYTES_LITERAL("");
    if (read->through_end && read->end.offset > 0)
        upper = key_max_read(read->transaction);
    if (rows->count > read->first) {
        struct bytes low = rows_key(rows, read->reverse ? rows->count - 1 : read->first);
        struct bytes high = rows_key(rows, read->reverse ? read->first : rows->count - 1);
        if (read->reverse || read->begin.offset <= 0)
            lower = bytes_min(lower, low);
        bool extend = !read->reverse || read->end.offset > 0;
        if (extend && bytes_compare(upper, high) <= 0 && !keep_key(&read->keys, high, true, &upper))
            return ERROR_LARGE_ALLOC_FAILED;
    }
    return conflict_add_range(read->transaction, lower, upper);
}

/*
 * Reads from the side where the read starts until its limit is reached, where a selector is blocked:
 *
 *     1. The side where the read starts must be known, and the keys the selectors start from be in order.
 *     2. The other lies behind an unreadable key, or so many rows before it as its rest says: the limit
 *        has to be reached before that key, with that many rows between.
 */
static fdb_error_t read_blocked(struct range_read *read, const struct resolved *begin, const struct resolved *end,
                                struct rows *rows, bool *more) {
    struct transaction *transaction = read->transaction;
    const struct resolved *start = read->reverse ? end : begin, *stop = read->reverse ? begin : end;
    struct bytes last = {0};
    if (start->blocked || bytes_compare(begin->key, end->key) > 0 || bytes_compare(read->begin.base, read->end.base) > 0)
        return ERROR_ACCESSED_UNREADABLE;
    struct row_request request = {.range = keys_from(transaction, start->key, read->reverse),
                                  .row_limit = read->row_limit,
                                  .byte_limit = read->byte_limit,
                                  .reverse = read->reverse,
                                  .merge = true};
    fdb_error_t error = merge_rows(transaction, &request, rows, more);
    if (error)
        return error;
    int64_t between = read->reverse ? stop->rest - 1 : 1 - stop->rest, found = 0;
    if (!*more || between <= 0)
        return 0;
    if (!keep_key(&read->keys, rows_key(rows, rows->count - 1), !read->reverse, &last))
        return ERROR_LARGE_ALLOC_FAILED;
    return count_keys(transaction, &read->keys, last, between, read->reverse, true, &found, &last);
}

static fdb_error_t read_between(struct range_read *read, struct rows *rows, bool *more) {
    struct transaction *transaction = read->transaction;
    bool merge = sees_own_writes(transaction, read->snapshot);
    struct bytes max = key_max_read(transaction);
    struct resolved begin, end;
    fdb_error_t error = resolve(transaction, &read->keys, read->begin, merge, &begin);
    if (!error)
        error = resolve(transaction, &read->keys, read->end, merge, &end);
    if (error)
        return error;
    *more = false;
    if (bytes_compare(begin.key, end.key) >= 0 && begin.rest >= end.rest)
        return 0;
    read->to_begin = begin.over_begin || end.over_begin;
    read->through_end = begin.over_end || end.over_end;
    struct row_request request = {.range = {begin.key, bytes_min(end.key, max)},
                                  .row_limit = read->row_limit,
                                  .byte_limit = read->byte_limit,
                                  .reverse = read->reverse,
                                  .merge = merge};
    error = begin.blocked || end.blocked ? read_blocked(read, &begin, &end, rows, more)
                                         : merge_rows(transaction, &request, rows, more);
    if (*more && read->reverse)
        read->to_begin = false;
    else if (*more)
        read->through_end = false;
    return error;
}

/* Undoes a read that failed half-way. */
static void drop_rows(struct rows *rows, int first) {
    for (int i = first; i < rows->count; i++)
        rows->bytes -= rows_key(rows, i).length + rows_value(rows, i).length;
    rows->count = first;
}

static fdb_error_t read_range(struct range_read *read, struct rows *rows, bool *more) {
    struct transaction *transaction = read->transaction;
    bool ends_early = false;
    fdb_error_t error = transaction_version(transaction);
    if (error)
        return error;
    transaction->used = true;
    read->first = rows->count;
    error = read_between(read, rows, &ends_early);
    if (!error && !read->snapshot)
        error = add_conflict(read, rows, ends_early);
    if (error) {
        drop_rows(rows, read->first);
        return error;
    }
    *more = ends_early;
    return 0;
}

/* The limits that the arguments stand for; INT64_MAX where there is none. */
static fdb_error_t parse_limits(const struct range_arguments *arguments, int64_t *row_limit,
                                int64_t *byte_limit) {
    static const int mode_bytes[] = {-1, 256, 1000, 4096, 80000};
    static const int iteration_bytes[] = {4096, 6144, 9216, 13824, 20736, 31104, 46656, 69984,
                                          80000, 120000};
    int limit = arguments->limit ? arguments->limit : -1;
    int bytes = arguments->target_bytes ? arguments->target_bytes : -1;
    int mode = arguments->mode == FDB_STREAMING_MODE_WANT_ALL ? FDB_STREAMING_MODE_SERIAL
               : arguments->mode;
    int by_mode;
    if (limit == -1 && bytes == -1 && mode == FDB_STREAMING_MODE_EXACT)
        return ERROR_EXACT_MODE_WITHOUT_LIMITS;
    if (mode == FDB_STREAMING_MODE_ITERATOR) {
        if (arguments->iteration <= 0)
            return ERROR_CLIENT_INVALID_OPERATION;
        int steps = (int)(sizeof iteration_bytes / sizeof iteration_bytes[0]);
        by_mode = iteration_bytes[(arguments->iteration < steps ? arguments->iteration
                                   : steps) - 1];
    } else if (mode >= FDB_STREAMING_MODE_EXACT && mode <= FDB_STREAMING_MODE_SERIAL) {
        by_mode = mode_bytes[mode];
    } else {
        return ERROR_CLIENT_INVALID_OPERATION;
    }
    if (bytes == -1 || (by_mode != -1 && by_mode < bytes))
        bytes = by_mode;
    *row_limit = limit == -1 ? INT64_MAX : limit;
    *byte_limit = bytes == -1 ? INT64_MAX : bytes;
    return 0;
}

static bool is_special_range(const struct transaction *transaction,
                             const struct range_arguments *arguments) {
    return transaction->api_version >= 630 && key_is_special(arguments->begin.key) &&
           bytes_compare(arguments->end.key, BYTES_LITERAL("\xff\xff")) >= 0 &&
           bytes_compare(arguments->end.key, BYTES_LITERAL("\xff\xff\xff")) <= 0;
}

static fdb_error_t get_range(struct range_read *read, const struct range_arguments *arguments,
                             struct rows *rows,
                             bool *more, struct ended *ended) {
    struct transaction *transaction = read->transaction;
    bool special = is_special_range(transaction, arguments);
    fdb_error_t error = transaction_check(transaction, !special, ended);
    if (error)
        return error;
    struct bytes max = key_max_read(transaction);
    if (!special &&
        (bytes_compare(arguments->begin.key, max) > 0 || bytes_compare(arguments->end.key,
                max) > 0))
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    if (read->row_limit < 1 || read->byte_limit < 0)
        return ERROR_RANGE_LIMITS_INVALID;
    if (special)
        return special_get_range(transaction, arguments->begin, arguments->end, read->row_limit,
                                 read->byte_limit,
                                 read->reverse, rows, more);
    if (read->byte_limit != INT64_MAX && read->byte_limit > BATCH_BYTES_MAX)
        read->byte_limit = BATCH_BYTES_MAX;
    if ((error = simplify(&read->keys, arguments->begin, &read->begin)) != 0 ||
        (error = simplify(&read->keys, arguments->end, &read->end)) != 0)
        return error;
    if (read->begin.offset >= read->end.offset && bytes_compare(read->begin.base,
                                                                read->end.base) >= 0) {
        *more = false;
        return 0;
    }
    return remember(transaction, read_range(read, rows, more));
}

fdb_error_t transaction_get_range(struct transaction *transaction,
                                  const struct range_arguments *arguments,
                                  struct rows *rows, bool *more) {
    struct ended ended = {0};
    struct range_read read;
    memset(&read, 0, offsetof(struct range_read, keys));
    read.transaction = transaction;
    read.keys.arena = (struct arena){0};
    read.keys.used = 0;
    read.snapshot = arguments->snapshot;
    read.reverse = arguments->reverse;
    read.to_begin = read.through_end = false;
    fdb_error_t error = parse_limits(arguments, &read.row_limit, &read.byte_limit);
    if (error)
        return error;
    os_mutex_lock(&transaction->lock);
    error = get_range(&read, arguments, rows, more, &ended);
    os_mutex_unlock(&transaction->lock);
    arena_free(&read.keys.arena);
    finish_all(&ended);
    return error;
}

/* --- Sizes and places --- */

fdb_error_t transaction_get_estimated_range_size(struct transaction *transaction,
                                                 struct bytes begin, struct bytes end,
                                                 int64_t *bytes) {
    if (bytes_compare(begin, end) > 0)
        return ERROR_INVERTED_RANGE;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error)
        error = database_estimate_bytes(transaction->database, begin, end, bytes);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

/* Walks the range and notes a key each time that many bytes lie behind it. */
static fdb_error_t split(struct transaction *transaction, struct key_range range,
                         int64_t chunk_bytes, struct rows *keys) {
    struct row_request request = {.range = range, .row_limit = RESOLVE_ROWS_MAX,
                                  .byte_limit = INT64_MAX};
    struct rows *rows = &transaction->found;
    struct arena arena = {0};
    fdb_error_t error = rows_append(keys, range.begin, BYTES_LITERAL("")) ? 0
                        : ERROR_LARGE_ALLOC_FAILED;
    int64_t bytes = 0;
    for (bool more = true; more && !error;) {
        rows_clear(rows);
        error = merge_rows(transaction, &request, rows, &more);
        for (int i = 0; !error && i < rows->count; i++) {
            if (bytes >= chunk_bytes) {
                bytes = 0;
                error = rows_append(keys, rows_key(rows, i), BYTES_LITERAL("")) ? 0
                        : ERROR_LARGE_ALLOC_FAILED;
            }
            bytes += (int64_t)(rows_key(rows, i).length + rows_value(rows, i).length);
        }
        arena_reset(&arena);
        if (!error && more && !key_after(&arena, rows_key(rows, rows->count - 1),
                                         &request.range.begin))
            error = ERROR_LARGE_ALLOC_FAILED;
    }
    if (!error && !rows_append(keys, range.end, BYTES_LITERAL("")))
        error = ERROR_LARGE_ALLOC_FAILED;
    arena_free(&arena);
    return error;
}

fdb_error_t transaction_get_range_split_points(struct transaction *transaction, struct bytes begin,
                                               struct bytes end,
                                               int64_t chunk_bytes, struct rows *keys) {
    if (bytes_compare(begin, end) > 0)
        return ERROR_INVERTED_RANGE;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    struct bytes max = key_max_read(transaction);
    if (!error && (bytes_compare(begin, max) > 0 || bytes_compare(end, max) > 0))
        error = ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    if (!error && chunk_bytes <= 0)
        error = ERROR_CLIENT_INVALID_OPERATION;
    if (!error)
        error = transaction_version(transaction);
    if (!error)
        error = split(transaction, (struct key_range){begin, end}, chunk_bytes, keys);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}

fdb_error_t transaction_get_addresses_for_key(struct transaction *transaction, struct bytes key,
                                              struct arena *arena,
                                              const char ***addresses, int *count) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    bool port = transaction->options.include_port;
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    if (error)
        return error;
    const char **list = arena_allocate(arena, sizeof *list);
    if (!list)
        return ERROR_LARGE_ALLOC_FAILED;
    list[0] = port ? "127.0.0.1:0" : "127.0.0.1"; /* the data is in this process */
    *addresses = list;
    *count = bytes_compare(key, BYTES_LITERAL("\xff\xff")) < 0;
    return 0;
}
