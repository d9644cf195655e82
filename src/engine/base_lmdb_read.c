/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the base on LMDB: snapshots, single keys, and the cursor that walks the trie of
 * sub-trees in key order. The picture, the format and the invariants are in base_lmdb.c.
 *
 * The cursor stands on an LMDB entry of the node `subtrees[depth]`; `path` holds the chunks of the
 * nodes above it. Moving is one LMDB step in that node, and settle() makes a row of the outcome:
 *
 *   a. outside the node (or past LMDB's last key): climb to the entry above and step on from
 *      there; in the root, there is no row;
 *   b. a chunk shorter than the most: a row;
 *   c. a full chunk: its own value is a row and comes before the sub-tree, so going forward it is
 *      the row, going backward the sub-tree's last row is.
 *
 * Threads: a snapshot's owner. Failure: an error leaves the cursor on no row; the snapshot can
 * seek again.
 */
#include "engine/base_lmdb.h"

#include "engine/base_pages.h"
#include "util/memory.h"

/* ---- Reading: snapshots ---- */

void base_lmdb_snapshot_destroy(struct base_snapshot *base_snapshot) {
    struct lmdb_snapshot *s = snapshot_of(base_snapshot);
    if (s->deep)
        mdb_cursor_close(s->deep);
    if (s->shallow)
        mdb_cursor_close(s->shallow);
    if (s->transaction)
        mdb_txn_abort(s->transaction);
    memory_free(s->path);
    memory_free(s);
}

fdb_error_t base_lmdb_snapshot_create(struct base *base, struct base_snapshot **snapshot) {
    struct lmdb_snapshot *s = memory_allocate_zeroed(sizeof *s);
    if (!s)
        return ERROR_LARGE_ALLOC_FAILED;
    s->owner = base_of(base);
    s->snapshot.methods = base->methods;
    int result = mdb_txn_begin(s->owner->environment, NULL, MDB_RDONLY, &s->transaction);
    if (result)
        s->transaction = NULL;
    else
        result = mdb_cursor_open(s->transaction, s->owner->tree, &s->shallow);
    if (result) {
        base_lmdb_snapshot_destroy(&s->snapshot);
        return base_lmdb_error(result);
    }
    mdb_txn_reset(s->transaction);
    *snapshot = &s->snapshot;
    return ERROR_SUCCESS;
}

void base_lmdb_snapshot_reset(struct base_snapshot *base_snapshot) {
    struct lmdb_snapshot *s = snapshot_of(base_snapshot);
    if (s->live)
        mdb_txn_reset(s->transaction);
    s->live = false;
}

fdb_error_t base_lmdb_snapshot_renew(struct base_snapshot *base_snapshot, int64_t *version) {
    struct lmdb_snapshot *s = snapshot_of(base_snapshot);
    base_lmdb_snapshot_reset(base_snapshot);
    int result = base_lmdb_renew(s->owner, s->transaction);
    if (result)
        return base_lmdb_error(result);
    s->live = true;
    s->epoch = atomic_load_explicit(&s->owner->commits, memory_order_relaxed);
    s->page = 0;
    s->shallow_stale = s->deep_stale = true;
    size_t id = mdb_txn_id(s->transaction);
    if (id != s->transaction_id) {
        const uint8_t *record;
        result = base_lmdb_record_read(s->transaction, s->owner->tree, &record);
        if (result) {
            base_lmdb_snapshot_reset(base_snapshot);
            return result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : base_lmdb_error(result);
        }
        s->transaction_id = id;
        s->version = (int64_t)coding_get_u64(record + RECORD_VERSION);
    }
    *version = s->version;
    return ERROR_SUCCESS;
}

/* ---- Reading: one key ---- */

static fdb_error_t get_long(struct lmdb_snapshot *s, struct bytes rest, struct bytes *value,
                            bool *present) {
    uint64_t subtree = 0;
    for (;;) {
        uint8_t buffer[LMDB_KEY_BYTES];
        MDB_val key = entry_key(buffer, subtree, rest), data;
        int result = mdb_get(s->transaction, s->owner->tree, &key, &data);
        if (result && result != MDB_NOTFOUND)
            return base_lmdb_error(result);
        struct entry entry = {.has_value = result == MDB_SUCCESS, .value = {0}};
        if (result == MDB_SUCCESS) {
            fdb_error_t error = value_open(s->owner, key, &data);
            if (error)
                return error;
            if (key.mv_size < LMDB_KEY_BYTES)
                entry.value = view(data);
            else if (!entry_parse(data, &entry))
                return ERROR_DATABASE_DAMAGED;
        }
        size_t chunk_bytes = chunk_bytes_max(subtree);
        if (rest.length <= chunk_bytes || !entry.subtree) {
            *present = entry.has_value && rest.length <= chunk_bytes;
            if (*present)
                *value = entry.value;
            return ERROR_SUCCESS;
        }
        subtree = entry.subtree;
        rest = skip(rest, chunk_bytes);
    }
}

fdb_error_t base_lmdb_get(struct base_snapshot *snapshot, struct bytes key, struct bytes *value,
                          bool *present) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    if (key.length >= ROOT_CHUNK_BYTES)
        return get_long(s, key, value, present);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val lmdb_key = entry_key(buffer, 0, key), data;
    int result = mdb_get(s->transaction, s->owner->tree, &lmdb_key, &data);
    if (result && result != MDB_NOTFOUND)
        return base_lmdb_error(result);
    *present = result == MDB_SUCCESS;
    if (!*present)
        return ERROR_SUCCESS;
    fdb_error_t error = value_open(s->owner, lmdb_key, &data);
    if (!error)
        *value = view(data);
    return error;
}

/* ---- Reading: the cursor ---- */

/*
 * These make a cursor usable for the transaction as it was renewed; the deep one is made when
 * first needed.
 */
static int shallow_ready(struct lmdb_snapshot *s) {
    if (!s->shallow_stale)
        return MDB_SUCCESS;
    int result = mdb_cursor_renew(s->transaction, s->shallow);
    s->shallow_stale = result != MDB_SUCCESS;
    return result;
}

static int deep_ready(struct lmdb_snapshot *s) {
    if (!s->path && !(s->path = memory_allocate(PATH_BYTES)))
        return ENOMEM;
    if (!s->deep) {
        int result = mdb_cursor_open(s->transaction, s->owner->tree, &s->deep);
        if (result)
            s->deep = NULL;
        s->deep_stale = false;
        return result;
    }
    if (!s->deep_stale)
        return MDB_SUCCESS;
    int result = mdb_cursor_renew(s->transaction, s->deep);
    s->deep_stale = result != MDB_SUCCESS;
    return result;
}

static MDB_cursor *cursor_of(struct lmdb_snapshot *s) {
    return s->depth ? s->deep : s->shallow;
}

static uint64_t node_of(struct lmdb_snapshot *s) {
    return s->subtrees[s->depth];
}

/*
 * Enters the sub-tree below the entry of the given chunk; leaves the cursor to be positioned.
 * MDB_CORRUPTED if that is too deep.
 */
static int descend(struct lmdb_snapshot *s, const uint8_t *chunk, uint64_t subtree) {
    if (s->depth == DEPTH_MAX)
        return MDB_CORRUPTED;
    int result = deep_ready(s);
    if (result)
        return result;
    memcpy(s->path + path_offset(s->depth), chunk, chunk_bytes_max(node_of(s)));
    s->subtrees[++s->depth] = subtree;
    return MDB_SUCCESS;
}

/* To the first or last entry of the node just entered, or to one outside it if it is empty. */
static int node_edge(struct lmdb_snapshot *s, bool forward, MDB_val *key, MDB_val *value) {
    uint8_t prefix[SUBTREE_PREFIX_BYTES];
    uint64_t subtree = node_of(s);
    *key = (MDB_val){put_prefix(prefix, forward ? subtree : subtree + 1), prefix};
    int result = mdb_cursor_get(s->deep, key, value, MDB_SET_RANGE);
    if (forward || (result && result != MDB_NOTFOUND))
        return result;
    return mdb_cursor_get(s->deep, key, value, result == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
}

/* Leaves a sub-tree: the cursor is on its parent's entry again, which is read into *value. */
static int climb(struct lmdb_snapshot *s, MDB_val *key, MDB_val *value) {
    s->depth--;
    if (!s->depth)
        return mdb_cursor_get(s->shallow, key, value, MDB_GET_CURRENT);
    uint8_t buffer[LMDB_KEY_BYTES];
    struct bytes chunk = bytes_make(s->path + path_offset(s->depth), SUBTREE_CHUNK_BYTES);
    *key = entry_key(buffer, node_of(s), chunk);
    int result = mdb_cursor_get(s->deep, key, value, MDB_SET_KEY);
    return result == MDB_NOTFOUND ? MDB_CORRUPTED : result;
}

/* The cursor's entry is the row. */
static void row_take(struct lmdb_snapshot *s, MDB_val key, struct bytes value, uint64_t below) {
    size_t prefix = s->depth ? SUBTREE_PREFIX_BYTES : ROOT_PREFIX_BYTES;
    s->snapshot.key = skip(view(key), prefix);
    s->snapshot.value = value;
    s->below = below;
    if (s->depth) {
        size_t offset = path_offset(s->depth);
        memcpy(s->path + offset, s->snapshot.key.data, s->snapshot.key.length);
        s->snapshot.key = bytes_make(s->path, offset + s->snapshot.key.length);
    }
}

/*
 * The cursor was moved, inside the current node or just past its edge, with this outcome. Goes on
 * from there, forward or backward, to the nearest row: down into sub-trees, up out of exhausted
 * ones.
 */
static fdb_error_t settle(struct lmdb_snapshot *s, bool forward, int result, MDB_val key,
                          MDB_val value, bool *found) {
    struct entry entry;
    s->page = 0;
    for (;;) {
        if (result && result != MDB_NOTFOUND)
            return base_lmdb_error(result);
        bool inside = result == MDB_SUCCESS && node_contains(node_of(s), key);
        fdb_error_t error = inside ? value_open(s->owner, key, &value) : ERROR_SUCCESS;
        if (error)
            return error;
        if (!inside) {
            if (!s->depth) {
                *found = false;
                return ERROR_SUCCESS;
            }
            result = climb(s, &key, &value);
            if (!result && (error = value_open(s->owner, key, &value)) != ERROR_SUCCESS)
                return error;
            if (!result && !entry_parse(value, &entry))
                return ERROR_DATABASE_DAMAGED;
            if (!result && !forward && entry.has_value) {
                row_take(s, key, entry.value, entry.subtree);
                break;
            }
            if (!result)
                result = mdb_cursor_get(cursor_of(s), &key, &value, forward ? MDB_NEXT : MDB_PREV);
        } else if (key.mv_size < LMDB_KEY_BYTES) {
            row_take(s, key, view(value), 0);
            break;
        } else if (!entry_parse(value, &entry)) {
            return ERROR_DATABASE_DAMAGED;
        } else if (!entry.subtree || (forward && entry.has_value)) {
            row_take(s, key, entry.value, entry.subtree);
            break;
        } else {
            size_t prefix = s->depth ? SUBTREE_PREFIX_BYTES : ROOT_PREFIX_BYTES;
            result = descend(s, (const uint8_t *)key.mv_data + prefix, entry.subtree);
            if (!result)
                result = node_edge(s, forward, &key, &value);
        }
    }
    *found = true;
    return ERROR_SUCCESS;
}

/*
 * Begins a seek: follows a key that is longer than a chunk down the trie for as long as there are
 * sub-trees for it. On return *rest is what is left of it in the node reached. If *on_entry, the
 * cursor stands on the entry of exactly its next chunk, read into *key and *value, which has no
 * sub-tree though the key is longer. Else *key, in `buffer`, is where to look in that node.
 */
static fdb_error_t follow(struct lmdb_snapshot *s, uint8_t buffer[LMDB_KEY_BYTES],
                          struct bytes *rest, MDB_val *key, MDB_val *value, bool *on_entry) {
    int ready = shallow_ready(s);
    if (ready)
        return base_lmdb_error(ready);
    *on_entry = false;
    s->depth = 0;
    while (rest->length > chunk_bytes_max(node_of(s))) {
        size_t chunk_bytes = chunk_bytes_max(node_of(s));
        *key = entry_key(buffer, node_of(s), *rest);
        int result = mdb_cursor_get(cursor_of(s), key, value, MDB_SET_KEY);
        if (result == MDB_NOTFOUND)
            return ERROR_SUCCESS;
        struct entry entry;
        MDB_val body = *value;
        fdb_error_t error = result ? ERROR_SUCCESS : value_open(s->owner, *key, &body);
        if (error)
            return error;
        if (!result && !entry_parse(body, &entry))
            result = MDB_CORRUPTED;
        if (!result && !entry.subtree) {
            *on_entry = true;
            return ERROR_SUCCESS;
        }
        if (!result)
            result = descend(s, rest->data, entry.subtree);
        if (result)
            return base_lmdb_error(result);
        *rest = skip(*rest, chunk_bytes);
    }
    *key = entry_key(buffer, node_of(s), *rest);
    return ERROR_SUCCESS;
}

/*
 * Testing a checksum takes a fifth of the time that a row of a range takes. So a page all of whose rows
 * were tested is marked, and walks trust it until the next commit: one that a cursor has walked through from
 * one edge to the other, and one of which it has tested so many rows that testing the others pays. A table maps the page to the number of commits begun when the snapshot was renewed.
 * What such a mark says stays true for all who may believe it: a page that a snapshot can reach is not
 * written to while the snapshot lives, and a commit that uses it again begins with a new number.
 */
static _Atomic uint64_t *page_mark(const struct lmdb_snapshot *s, uint64_t *mark) {
    uint64_t number = s->page / s->owner->page_bytes;
    *mark = number << 32 | (s->epoch & UINT32_MAX);
    return &s->owner->verified[number % VERIFIED_PAGES];
}

enum arrival { BY_SEARCH, BY_STEP_ON, BY_STEP_BACK };

/* The shallow cursor has come to another page. */
static void page_enter(struct lmdb_snapshot *s, uintptr_t page, enum arrival arrival) {
    uint64_t mark;
    if (s->page && s->page_whole && arrival == (s->page_forward ? BY_STEP_ON : BY_STEP_BACK)) {
        _Atomic uint64_t *left = page_mark(s, &mark);
        atomic_store_explicit(left, mark, memory_order_relaxed);
    }
    s->page = page;
    s->page_whole = arrival != BY_SEARCH;
    s->page_forward = arrival == BY_STEP_ON;
    s->page_rows = 0;
    _Atomic uint64_t *entered = page_mark(s, &mark);
    s->page_verified = atomic_load_explicit(entered, memory_order_relaxed) == mark;
}

/* Tests every row of the page; marks it if all match. One with values on pages of their own is left to walks. */
static void page_verify(struct lmdb_snapshot *s) {
    const uint8_t *page = (const uint8_t *)s->page;
    size_t size = s->owner->page_bytes, lower = coding_get_u16(page + PAGE_LOWER);
    if (lower > size)
        return;
    for (size_t at = PAGE_HEADER_BYTES; at < lower; at += 2) {
        size_t offset = coding_get_u16(page + at);
        if (offset + NODE_HEADER_BYTES > size)
            return;
        const uint8_t *node = page + offset;
        size_t key_bytes = coding_get_u16(node + NODE_KEY_SIZE);
        size_t value_bytes = coding_get_u16(node + NODE_LOW) | (size_t)coding_get_u16(node + NODE_HIGH) << 16;
        if (coding_get_u16(node + NODE_FLAGS) || offset + NODE_HEADER_BYTES + key_bytes + value_bytes > size)
            return;
        MDB_val key = {key_bytes, (void *)(uintptr_t)(node + NODE_HEADER_BYTES)};
        MDB_val value = {value_bytes, (void *)(uintptr_t)(node + NODE_HEADER_BYTES + key_bytes)};
        bool is_record = key_bytes == 1 && node[NODE_HEADER_BYTES] == NODE_RECORD;
        if (!is_record && !value_verify(key, &value))
            return;
    }
    uint64_t mark;
    _Atomic uint64_t *verified = page_mark(s, &mark);
    atomic_store_explicit(verified, mark, memory_order_relaxed);
    s->page_verified = true;
}

/*
 * Most rows: the root's cursor was moved, with this outcome, to an entry of the root that is a
 * bare value. Takes it as the row. False: settle must find the row, or say that it is damaged.
 */
static inline bool take_short(struct lmdb_snapshot *s, int result, MDB_val key, MDB_val value,
                              enum arrival arrival, bool *found) {
    const uint8_t *data = key.mv_data;
    if (result || s->depth || key.mv_size >= LMDB_KEY_BYTES || data[0] != NODE_ROOT ||
        value.mv_size < SUM_BYTES)
        return false;
    uintptr_t page = (uintptr_t)data & ~(uintptr_t)(s->owner->page_bytes - 1);
    if (page != s->page || arrival == BY_SEARCH)
        page_enter(s, page, arrival);
    if (s->page_verified)
        value.mv_size -= SUM_BYTES;
    else if (!value_verify(key, &value))
        return false;
    else if (++s->page_rows == PAGE_ROWS_TESTED)
        page_verify(s);
    s->snapshot.key = bytes_make(data + ROOT_PREFIX_BYTES, key.mv_size - ROOT_PREFIX_BYTES);
    s->snapshot.value = view(value);
    s->below = 0;
    *found = true;
    return true;
}

fdb_error_t base_lmdb_seek(struct base_snapshot *snapshot, struct bytes rest, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val key, value;
    bool on_entry;
    fdb_error_t error = follow(s, buffer, &rest, &key, &value, &on_entry);
    if (error)
        return error;
    int result = mdb_cursor_get(cursor_of(s), &key, &value, on_entry ? MDB_NEXT : MDB_SET_RANGE);
    return take_short(s, result, key, value, BY_SEARCH, found) ? ERROR_SUCCESS
                                                    : settle(s, true, result, key, value, found);
}

fdb_error_t base_lmdb_seek_before(struct base_snapshot *snapshot, struct bytes rest, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val key, value;
    bool on_entry;
    fdb_error_t error = follow(s, buffer, &rest, &key, &value, &on_entry);
    if (error)
        return error;
    int result = MDB_SUCCESS;
    if (!on_entry) {
        result = mdb_cursor_get(cursor_of(s), &key, &value, MDB_SET_RANGE);
        if (!result || result == MDB_NOTFOUND)
            result = mdb_cursor_get(cursor_of(s), &key, &value, result ? MDB_LAST : MDB_PREV);
    }
    return take_short(s, result, key, value, BY_SEARCH, found) ? ERROR_SUCCESS
                                                    : settle(s, false, result, key, value, found);
}

fdb_error_t base_lmdb_next(struct base_snapshot *snapshot, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    MDB_val key = {0}, value = {0};
    int result;
    if (s->below) {
        size_t chunk_bytes = chunk_bytes_max(node_of(s));
        result = descend(s, s->snapshot.key.data + s->snapshot.key.length - chunk_bytes, s->below);
        if (!result)
            result = node_edge(s, true, &key, &value);
    } else {
        result = mdb_cursor_get(cursor_of(s), &key, &value, MDB_NEXT);
    }
    return take_short(s, result, key, value, BY_STEP_ON, found) ? ERROR_SUCCESS
                                                    : settle(s, true, result, key, value, found);
}

fdb_error_t base_lmdb_previous(struct base_snapshot *snapshot, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    MDB_val key, value;
    int result = mdb_cursor_get(cursor_of(s), &key, &value, MDB_PREV);
    return take_short(s, result, key, value, BY_STEP_BACK, found) ? ERROR_SUCCESS
                                                    : settle(s, false, result, key, value, found);
}
