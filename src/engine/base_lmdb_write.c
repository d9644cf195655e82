/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the base on LMDB: the checkpoint's one transaction, which is one LMDB write transaction
 * with one cursor. The picture, the format and the invariants are in base_lmdb.c.
 *
 * The cursor is kept between calls: they come in key order, and LMDB looks first at the page where
 * its cursor stands. There is only one, so that no deletion has to mend another's position;
 * whoever goes down into a sub-tree seeks its own entry again afterwards.
 *
 *   1. Setting a long key first makes the entries on its way down name sub-trees, top first; the
 *      key itself comes last.
 *   2. Clearing works bottom up: what was below an entry goes first, then entry_prune brings the
 *      entry in line.
 *
 * Threads: the one that called write_begin. Failure: the caller aborts and LMDB forgets; see
 * base_lmdb.c for full disks. An entry with a header is verified before it is changed, so that no
 * damage gets a checksum that fits it.
 */
#include "engine/base_lmdb.h"

#include <assert.h>

#include "os/file.h"
#include "util/memory.h"

/* ---- Transactions ---- */

void base_lmdb_write_abort(struct base *base) {
    struct lmdb_base *b = base_of(base);
    if (!b->writing)
        return;
    if (b->at)
        mdb_cursor_close(b->at);
    mdb_txn_abort(b->writing);
    b->writing = NULL;
    b->at = NULL;
}

fdb_error_t base_lmdb_write_begin(struct base *base) {
    struct lmdb_base *b = base_of(base);
    assert(!b->writing);
    if (b->failed)
        return ERROR_DATABASE_FAILED;
    int result = mdb_txn_begin(b->environment, NULL, 0, &b->writing);
    if (result) {
        b->writing = NULL;
        return base_lmdb_error(result);
    }
    b->page = b->pages = 0;
    const uint8_t *record;
    result = base_lmdb_record_read(b->writing, b->tree, &record);
    if (!result) {
        b->subtree_next = coding_get_u64(record + RECORD_SUBTREE_NEXT);
        result = mdb_cursor_open(b->writing, b->tree, &b->at);
    }
    if (result) {
        b->at = NULL;
        base_lmdb_write_abort(base);
        return result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : base_lmdb_error(result);
    }
    return ERROR_SUCCESS;
}

/*
 * When a disk fills up LMDB may write a part and report EIO. A real write behind the end of the
 * file, where LMDB has nothing yet, tells the two apart.
 */
static fdb_error_t write_error(struct lmdb_base *b, int result) {
    static const uint8_t zeros[256 * 1024];
    struct os_file file;
    uint64_t size;
    if (result != EIO)
        return base_lmdb_error(result);
    mdb_env_get_fd(b->environment, &file.descriptor);
    fdb_error_t error = os_file_size(&file, &size);
    if (!error)
        error = os_file_write(&file, size, bytes_make(zeros, sizeof zeros));
    return error == ERROR_DISK_FULL ? ERROR_DISK_FULL : ERROR_IO_ERROR;
}

/*
 * Puts the writer's cursor on an entry with a header and reads it; *present is false where there
 * is none.
 */
static fdb_error_t entry_read(struct lmdb_base *b, MDB_val key, struct entry *entry,
                              bool *present) {
    assert(key.mv_size == LMDB_KEY_BYTES);
    MDB_val value;
    int result = mdb_cursor_get(b->at, &key, &value, MDB_SET_KEY);
    *present = result == MDB_SUCCESS;
    if (result == MDB_NOTFOUND) {
        *entry = (struct entry){.value = {0}};
        return ERROR_SUCCESS;
    }
    if (result)
        return base_lmdb_error(result);
    fdb_error_t error = value_open(b, key, &value);
    if (error)
        return error;
    return entry_parse(value, entry) ? ERROR_SUCCESS : ERROR_DATABASE_DAMAGED;
}

/* Writes an entry with a header; its value may still lie in the page it came from. */
static fdb_error_t entry_write(struct lmdb_base *b, MDB_val key, const struct entry *entry) {
    assert(key.mv_size == LMDB_KEY_BYTES && (entry->has_value || entry->subtree));
    if (!b->scratch && !(b->scratch = memory_allocate(ENTRY_VALUE + VALUE_BYTES_MAX + SUM_BYTES)))
        return ERROR_LARGE_ALLOC_FAILED;
    size_t length = entry->has_value ? entry->value.length : 0;
    if (length > VALUE_BYTES_MAX)
        return ERROR_DATABASE_DAMAGED;
    uint8_t *body = b->scratch;
    body[ENTRY_FLAGS] = (uint8_t)((entry->has_value ? ENTRY_HAS_VALUE : 0) |
                                  (entry->subtree ? ENTRY_HAS_SUBTREE : 0));
    coding_put_u64(body + ENTRY_SUBTREE, entry->subtree);
    if (length)
        memcpy(body + ENTRY_VALUE, entry->value.data, length);
    length += ENTRY_VALUE;
    coding_put_u32(body + length, checksum_row(view(key), bytes_make(body, length)));
    MDB_val value = {length + SUM_BYTES, body};
    return write_error(b, mdb_cursor_put(b->at, &key, &value, 0));
}

/* Writes an entry that is a bare value, with its checksum, straight into the page. */
static fdb_error_t value_write(struct lmdb_base *b, MDB_val key, struct bytes value) {
    uint32_t sum = checksum_row(view(key), value);
    MDB_val data = {value.length + SUM_BYTES, NULL};
    int result = mdb_cursor_put(b->at, &key, &data, MDB_RESERVE);
    if (result)
        return write_error(b, result);
    if (value.length)
        memcpy(data.mv_data, value.data, value.length);
    coding_put_u32((uint8_t *)data.mv_data + value.length, sum);
    uintptr_t page = (uintptr_t)data.mv_data / b->page_bytes;
    b->pages += page != b->page;
    b->page = page;
    return ERROR_SUCCESS;
}

uint64_t base_lmdb_write_pages(struct base *base) {
    return base_of(base)->pages;
}

static fdb_error_t set_long(struct lmdb_base *b, struct bytes rest, struct bytes value) {
    uint8_t buffer[LMDB_KEY_BYTES];
    struct entry entry;
    bool present;
    uint64_t subtree = 0;
    while (rest.length > chunk_bytes_max(subtree)) {
        MDB_val key = entry_key(buffer, subtree, rest);
        fdb_error_t error = entry_read(b, key, &entry, &present);
        if (!error && !entry.subtree) {
            entry.subtree = b->subtree_next++;
            error = entry_write(b, key, &entry);
        }
        if (error)
            return error;
        rest = skip(rest, chunk_bytes_max(subtree));
        subtree = entry.subtree;
    }
    MDB_val key = entry_key(buffer, subtree, rest);
    if (key.mv_size < LMDB_KEY_BYTES)
        return value_write(b, key, value);
    fdb_error_t error = entry_read(b, key, &entry, &present);
    if (error)
        return error;
    entry.has_value = true;
    entry.value = value;
    return entry_write(b, key, &entry);
}

fdb_error_t base_lmdb_write_set(struct base *base, struct bytes key, struct bytes value) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing && key.length <= KEY_BYTES_MAX && value.length <= VALUE_BYTES_MAX);
    if (key.length >= ROOT_CHUNK_BYTES)
        return set_long(b, key, value);
    uint8_t buffer[LMDB_KEY_BYTES];
    return value_write(b, entry_key(buffer, 0, key), value);
}

static fdb_error_t node_is_empty(struct lmdb_base *b, uint64_t subtree, bool *empty) {
    uint8_t prefix[SUBTREE_PREFIX_BYTES];
    MDB_val key = {put_prefix(prefix, subtree), prefix};
    int result = mdb_cursor_get(b->at, &key, NULL, MDB_SET_RANGE);
    if (result && result != MDB_NOTFOUND)
        return base_lmdb_error(result);
    *empty = result == MDB_NOTFOUND || !node_contains(subtree, key);
    return ERROR_SUCCESS;
}

/*
 * Brings an entry with a header in line with what was removed: drops its value unless
 * `keep_value`, drops the number of a sub-tree that has become empty, and goes itself when nothing
 * is left. *gone says that it went.
 */
static fdb_error_t entry_prune(struct lmdb_base *b, MDB_val key, bool keep_value, bool *gone) {
    struct entry entry;
    bool present, empty = false;
    fdb_error_t error = entry_read(b, key, &entry, &present);
    if (!error && present && entry.subtree)
        error = node_is_empty(b, entry.subtree, &empty);
    if (!error && present) /* the cursor went to look into the sub-tree: back to the entry */
        error = entry_read(b, key, &entry, &present);
    if (error)
        return error;
    *gone = false;
    if (!present || (!empty && (keep_value || !entry.has_value)))
        return ERROR_SUCCESS;
    if (empty)
        entry.subtree = 0;
    entry.has_value = entry.has_value && keep_value;
    if (entry.has_value || entry.subtree)
        return entry_write(b, key, &entry);
    *gone = true;
    return write_error(b, mdb_cursor_del(b->at, 0));
}

static fdb_error_t clear_long(struct lmdb_base *b, struct bytes key) {
    uint64_t subtrees[DEPTH_MAX + 1] = {0};
    unsigned depth = 0;
    uint8_t buffer[LMDB_KEY_BYTES];
    struct entry entry;
    bool present, gone;
    struct bytes rest = key;
    while (rest.length > chunk_bytes_max(subtrees[depth])) {
        fdb_error_t error =
            entry_read(b, entry_key(buffer, subtrees[depth], rest), &entry, &present);
        if (error || !entry.subtree)
            return error;
        if (depth == DEPTH_MAX)
            return ERROR_DATABASE_DAMAGED;
        rest = skip(rest, chunk_bytes_max(subtrees[depth]));
        subtrees[++depth] = entry.subtree;
    }
    MDB_val last = entry_key(buffer, subtrees[depth], rest);
    if (last.mv_size < LMDB_KEY_BYTES) {
        int result = mdb_cursor_get(b->at, &last, NULL, MDB_SET);
        if (!result)
            result = mdb_cursor_del(b->at, 0);
        if (result)
            return result == MDB_NOTFOUND ? ERROR_SUCCESS : write_error(b, result);
        gone = true;
    } else {
        fdb_error_t error = entry_prune(b, last, false, &gone);
        if (error)
            return error;
    }
    while (gone &&
           depth--) { /* a sub-tree may have become empty, and so the entry above it useless */
        fdb_error_t error = entry_prune(
            b, entry_key(buffer, subtrees[depth], skip(key, path_offset(depth))), true, &gone);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

fdb_error_t base_lmdb_write_clear(struct base *base, struct bytes key) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing && key.length <= KEY_BYTES_MAX);
    if (key.length >= ROOT_CHUNK_BYTES)
        return clear_long(b, key);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val lmdb_key = entry_key(buffer, 0, key);
    int result = mdb_cursor_get(b->at, &lmdb_key, NULL, MDB_SET);
    if (!result)
        result = mdb_cursor_del(b->at, 0);
    return result == MDB_NOTFOUND ? ERROR_SUCCESS : write_error(b, result);
}

static fdb_error_t clear_node(struct lmdb_base *b, uint64_t subtree, struct bytes begin,
                              const struct bytes *end, unsigned depth);

/*
 * Clears what an entry with a header holds of a range: all of it, or if the range begins or ends
 * inside the entry's sub-tree, its part there. `chunk` is the entry's, at the end of its LMDB key.
 */
static fdb_error_t clear_entry(struct lmdb_base *b, MDB_val key, struct bytes chunk,
                               const struct entry *entry, struct bytes begin,
                               const struct bytes *end, unsigned depth) {
    bool begins_below = begin.length > chunk.length && bytes_starts_with(begin, chunk);
    bool ends_below = end && end->length > chunk.length && bytes_starts_with(*end, chunk);
    if (depth == DEPTH_MAX)
        return ERROR_DATABASE_DAMAGED;
    if (entry->subtree) {
        struct bytes below_begin = begins_below ? skip(begin, chunk.length) : (struct bytes){0};
        struct bytes below_end = ends_below ? skip(*end, chunk.length) : (struct bytes){0};
        fdb_error_t error =
            clear_node(b, entry->subtree, below_begin, ends_below ? &below_end : NULL, depth + 1);
        if (error)
            return error;
    }
    bool gone;
    return entry_prune(b, key, begins_below, &gone);
}

/*
 * Clears a range of rests of keys in a node and the sub-trees below it; without `end` up to the
 * node's last.
 */
static fdb_error_t clear_node(struct lmdb_base *b, uint64_t subtree, struct bytes begin,
                              const struct bytes *end, unsigned depth) {
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val key = entry_key(buffer, subtree, begin), value;
    size_t prefix = LMDB_KEY_BYTES - chunk_bytes_max(subtree);
    int result = mdb_cursor_get(b->at, &key, &value, MDB_SET_RANGE);
    while (!result && node_contains(subtree, key)) {
        if (end && bytes_compare(skip(view(key), prefix), *end) >= 0)
            break;
        if (key.mv_size < LMDB_KEY_BYTES) {
            result = mdb_cursor_del(b->at, 0);
            if (!result) /* LMDB has moved on to the following entry and will not step over it */
                result = mdb_cursor_get(b->at, &key, &value, MDB_NEXT);
            continue;
        }
        struct entry entry;
        fdb_error_t error = value_open(b, key, &value);
        if (error)
            return error;
        if (!entry_parse(value, &entry))
            return ERROR_DATABASE_DAMAGED;
        memcpy(buffer, key.mv_data, LMDB_KEY_BYTES);
        key = (MDB_val){LMDB_KEY_BYTES, buffer};
        error = clear_entry(b, key, skip(view(key), prefix), &entry, begin, end, depth);
        if (error)
            return error;
        result = mdb_cursor_get(b->at, &key, &value, MDB_SET_RANGE);
        if (!result && bytes_equal(view(key), bytes_make(buffer, LMDB_KEY_BYTES)))
            result = mdb_cursor_get(b->at, &key, &value, MDB_NEXT);
    }
    return result == MDB_NOTFOUND ? ERROR_SUCCESS : write_error(b, result);
}

fdb_error_t base_lmdb_write_clear_range(struct base *base, struct bytes begin, struct bytes end) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing && begin.length <= KEY_BYTES_MAX + 1 && end.length <= KEY_BYTES_MAX + 1);
    if (bytes_compare(begin, end) >= 0)
        return ERROR_SUCCESS;
    return clear_node(b, 0, begin, &end, 0);
}

/*
 * A page that was taken and given back in one transaction counts as used but was never written, so
 * the file may end before LMDB's last page. Writes the end of that page then, so that the next open
 * need not suspect that the file was cut off and read all of it (environment_check_length).
 */
static void cover_last_page(struct lmdb_base *b) {
    static const uint8_t zeros[512];
    MDB_envinfo information;
    struct os_file file;
    uint64_t size;
    mdb_env_info(b->environment, &information);
    mdb_env_get_fd(b->environment, &file.descriptor);
    uint64_t needed = (information.me_last_pgno + 1) * b->page_bytes;
    if (os_file_size(&file, &size) == ERROR_SUCCESS && size < needed)
        (void)os_file_write(&file, needed - sizeof zeros, bytes_make(zeros, sizeof zeros));
}

fdb_error_t base_lmdb_write_commit(struct base *base, int64_t version) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing);
    int result = base_lmdb_record_write(b->writing, b->tree, version, b->subtree_next);
    if (result)
        return write_error(b, result);
    mdb_cursor_close(b->at);
    b->at = NULL;
    atomic_fetch_add(&b->commits, 1);
    result = mdb_txn_commit(b->writing);
    b->writing = NULL;
    if (result) {
        fdb_error_t error = write_error(b, result);
        b->failed = error != ERROR_DISK_FULL && error != ERROR_LARGE_ALLOC_FAILED;
        return error;
    }
    atomic_store(&b->version, version);
    cover_last_page(b);
    return ERROR_SUCCESS;
}
