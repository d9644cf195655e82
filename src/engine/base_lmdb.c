/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base on disk: one LMDB environment in the database's directory. A read comes here when the window is silent about its key; the
 * checkpoint comes here with a generation that no transaction can see changing any more.
 *
 * Files: `base.keel`, the environment, and `base.keel-lock`, LMDB's reader table. The environment is made under the name
 * `base.keel.new` and renamed once it is complete and synced, so a `base.keel` is never half made.
 *
 * Long keys. LMDB's keys have 1 to 511 bytes, ours 0 to 30,000. So the keys form a trie of B-trees, as in Masstree: a node of the trie maps
 * chunks of keys, and what follows a chunk of full length is in a node of its own, a sub-tree. All nodes share LMDB's main tree, told
 * apart by what an LMDB key begins with:
 *
 *     00                         the one record about the base itself (enum record_offset)
 *     01  chunk                  the root of the trie: chunks of 0 to 510 bytes
 *     02  number:8 big  chunk    the sub-tree of that number: chunks of 1 to 502 bytes
 *
 *     root                                          sub-tree 7
 *     01 "apple"           -> value                 02 7 "tail"      -> value of a key of 510 + 4 bytes
 *     01 510 bytes "aaa…"  -> {value, below: 7} ──► 02 7 502 bytes   -> {no value, below: 9} ──► sub-tree 9
 *     01 "banana"          -> value
 *
 *   1. A chunk shorter than its node allows is a whole rest of a key; its entry is the bare value. This is every key below 510 bytes: the
 *      hot path has no header, no allocation and one LMDB look-up.
 *   2. An entry whose LMDB key has the full 511 bytes starts with a header (enum entry_offset): it may hold the value of the key
 *      that ends there, the number of the sub-tree below it, or both, never neither.
 *   3. In key order such an entry comes before its sub-tree, and the sub-tree before the node's next entry. Hence order is exact.
 *   4. A sub-tree is never empty, has exactly one entry naming it, and numbers are never used again.
 *   5. The version in the record is that of the last write transaction, written inside it.
 *
 * Threads. LMDB lets readers run beside the writer without locks. A snapshot is an LMDB read transaction (MDB_NOTLS: bound to the
 * object, not to a thread) with two cursors: `shallow` stays in the root, `deep` walks sub-trees, so that leaving a sub-tree finds
 * the root's cursor where it was. The write transaction belongs to the thread that began it. Views point into the memory map.
 *
 * Failure. The caller aborts after any error; LMDB then has changed nothing that the last commit's pages refer to. A full disk can be tried
 * again; any other failed commit poisons writing (`failed`) until the base is opened again, reads go on. LMDB writes short when a disk fills
 * up and calls that EIO: write_error asks the disk again. LMDB's pages bear no checksums: damage inside one is found only where it
 * breaks the tree's structure.
 */
#include "engine/base.h"

#include <assert.h>
#include <errno.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdio.h>

#include "engine/base_estimate.h"
#include "os/file.h"
#include "util/coding.h"
#include "util/memory.h"

/* ---- The format: docs/format.md, "Base" ---- */

enum {
    LMDB_KEY_BYTES = 511, /* the longest key LMDB takes as Debian builds it */
    NODE_RECORD = 0x00,
    NODE_ROOT = 0x01,
    NODE_SUBTREE = 0x02,
    ROOT_PREFIX_BYTES = 1,
    SUBTREE_PREFIX_BYTES = 9,
    ROOT_CHUNK_BYTES = LMDB_KEY_BYTES - ROOT_PREFIX_BYTES,
    SUBTREE_CHUNK_BYTES = LMDB_KEY_BYTES - SUBTREE_PREFIX_BYTES,
    KEY_BYTES_MAX = 30000,
    VALUE_BYTES_MAX = 100000,
    DEPTH_MAX = 1 + (KEY_BYTES_MAX - ROOT_CHUNK_BYTES) / SUBTREE_CHUNK_BYTES,
    PATH_BYTES = ROOT_CHUNK_BYTES + DEPTH_MAX * SUBTREE_CHUNK_BYTES,
    FORMAT_VERSION = 1,
};

enum record_offset {
    RECORD_MAGIC = 0,
    RECORD_FORMAT = 8,        /* u32 */
    RECORD_RESERVED = 12,     /* u32, zero */
    RECORD_VERSION = 16,      /* i64 */
    RECORD_SUBTREE_NEXT = 24, /* u64 */
    RECORD_BYTES = 32,
};

enum entry_offset {
    ENTRY_FLAGS = 0,   /* u8 */
    ENTRY_SUBTREE = 1, /* u64 little-endian, 0 where there is none */
    ENTRY_VALUE = 9,
};
enum { ENTRY_HAS_VALUE = 1, ENTRY_HAS_SUBTREE = 2 };

/* Address space, not memory: a sanitizer and a limit on it (RLIMIT_AS, valgrind) leave less. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MAP_BYTES_MAX (UINT64_C(16) << 30)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define MAP_BYTES_MAX (UINT64_C(16) << 30)
#endif
#endif
#ifndef MAP_BYTES_MAX
#define MAP_BYTES_MAX (UINT64_C(1) << 40)
#endif
#define MAP_BYTES_MIN (UINT64_C(64) << 20)
#define SMALL_MAP_BYTES (UINT64_C(1) << 20) /* for looking and for creating; LMDB enlarges it to what the file needs */

static const uint8_t record_magic[8] = {'K', 'e', 'e', 'l', 'B', 'a', 's', 'e'};
static const char file_name[] = "base.keel";

struct lmdb_base {
    struct base base;
    MDB_env *environment;
    MDB_dbi tree;
    size_t page_bytes;
    char *path;
    _Atomic int64_t version;
    bool failed;           /* the writer's: a commit failed in a way that leaves the disk in doubt */
    MDB_txn *writing;      /* the write transaction, or NULL; the rest belongs to it */
    MDB_cursor *at;        /* where it last wrote */
    uint64_t subtree_next; /* the first number never used */
    uint8_t *scratch;      /* for an entry with a header; made when first needed */
};

struct lmdb_snapshot {
    struct base_snapshot snapshot;
    struct lmdb_base *owner;
    MDB_txn *transaction;
    MDB_cursor *shallow;
    MDB_cursor *deep; /* made when the first sub-tree is entered */
    bool live;
    bool shallow_stale, deep_stale; /* the cursor does not yet know the renewed transaction */
    size_t transaction_id;          /* the LMDB transaction whose version is cached below; 0 is none */
    int64_t version;

    /* The cursor: where the row in `snapshot` is. */
    uint64_t below; /* the row is an entry's own value, and this sub-tree follows it; else 0 */
    unsigned depth; /* sub-trees entered: 0 is the root */
    uint64_t subtrees[DEPTH_MAX + 1]; /* [depth] is the node the cursor is in, [0] is 0 */
    uint8_t *path;                    /* the bytes of the chunks entered, then the current one; as `deep` */
};

/* A value with a header, taken apart. */
struct entry {
    bool has_value;
    struct bytes value;
    uint64_t subtree; /* 0: none */
};

/* ---- Small parts ---- */

static fdb_error_t error_of(int result) {
    switch (result) {
    case MDB_SUCCESS:
        return ERROR_SUCCESS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case MDB_MAP_FULL:
        return ERROR_DISK_FULL;
    case ENOMEM:
        return ERROR_LARGE_ALLOC_FAILED;
    case MDB_PAGE_NOTFOUND:
    case MDB_CORRUPTED:
    case MDB_INVALID:
        return ERROR_DATABASE_DAMAGED;
    case MDB_VERSION_MISMATCH:
        return ERROR_FORMAT_FOREIGN;
    case MDB_PANIC:
        return ERROR_DATABASE_FAILED;
    case MDB_READERS_FULL:
        return ERROR_OPERATION_FAILED;
    default:
        /* Below zero are LMDB's remaining codes, all of them misuse: our bug. */
        return result < 0 ? ERROR_INTERNAL_ERROR : ERROR_IO_ERROR;
    }
}

static size_t chunk_bytes_max(uint64_t subtree) {
    return subtree ? SUBTREE_CHUNK_BYTES : ROOT_CHUNK_BYTES;
}

/* Writes what every LMDB key of a node begins with; returns its length. Node 0 is the root. */
static size_t put_prefix(uint8_t *to, uint64_t subtree) {
    if (!subtree) {
        to[0] = NODE_ROOT;
        return ROOT_PREFIX_BYTES;
    }
    to[0] = NODE_SUBTREE;
    coding_put_u64_big(to + 1, subtree);
    return SUBTREE_PREFIX_BYTES;
}

/* The LMDB key, in `buffer`, of the entry for the first chunk of `rest` in a node. */
static MDB_val entry_key(uint8_t buffer[LMDB_KEY_BYTES], uint64_t subtree, struct bytes rest) {
    size_t prefix = put_prefix(buffer, subtree);
    size_t length = rest.length < chunk_bytes_max(subtree) ? rest.length : chunk_bytes_max(subtree);
    if (length)
        memcpy(buffer + prefix, rest.data, length);
    return (MDB_val){prefix + length, buffer};
}

static struct bytes skip(struct bytes rest, size_t length) {
    return bytes_make(rest.data + length, rest.length - length);
}

static struct bytes view(MDB_val value) {
    return bytes_make(value.mv_data, value.mv_size);
}

static bool node_contains(uint64_t subtree, MDB_val key) {
    uint8_t prefix[SUBTREE_PREFIX_BYTES];
    return bytes_starts_with(view(key), bytes_make(prefix, put_prefix(prefix, subtree)));
}

/* Takes an entry of a full-length chunk apart; false if it is not one (invariant 2). */
static bool entry_parse(MDB_val value, struct entry *entry) {
    const uint8_t *data = value.mv_data;
    if (value.mv_size < ENTRY_VALUE)
        return false;
    uint8_t flags = data[ENTRY_FLAGS];
    entry->has_value = flags & ENTRY_HAS_VALUE;
    entry->subtree = coding_get_u64(data + ENTRY_SUBTREE);
    entry->value = bytes_make(data + ENTRY_VALUE, value.mv_size - ENTRY_VALUE);
    return flags && !(flags & ~(ENTRY_HAS_VALUE | ENTRY_HAS_SUBTREE)) &&
           !!(flags & ENTRY_HAS_SUBTREE) == (entry->subtree != 0);
}

static MDB_val record_key(void) {
    static uint8_t key = NODE_RECORD;
    return (MDB_val){1, &key};
}

/* Reads the record; MDB_NOTFOUND also where it is not a record of ours. */
static int record_read(MDB_txn *transaction, MDB_dbi tree, const uint8_t **record) {
    MDB_val key = record_key(), value;
    int result = mdb_get(transaction, tree, &key, &value);
    if (result)
        return result;
    if (value.mv_size < RECORD_BYTES || memcmp(value.mv_data, record_magic, sizeof record_magic) != 0)
        return MDB_NOTFOUND;
    *record = value.mv_data;
    return MDB_SUCCESS;
}

static int record_write(MDB_txn *transaction, MDB_dbi tree, int64_t version, uint64_t subtree_next) {
    uint8_t record[RECORD_BYTES] = {0};
    memcpy(record + RECORD_MAGIC, record_magic, sizeof record_magic);
    coding_put_u32(record + RECORD_FORMAT, FORMAT_VERSION);
    coding_put_u64(record + RECORD_VERSION, (uint64_t)version);
    coding_put_u64(record + RECORD_SUBTREE_NEXT, subtree_next);
    MDB_val key = record_key(), value = {sizeof record, record};
    return mdb_put(transaction, tree, &key, &value, 0);
}

/* ---- Reading: snapshots ---- */

static struct lmdb_base *base_of(struct base *base) {
    return (struct lmdb_base *)base;
}

static struct lmdb_snapshot *snapshot_of(struct base_snapshot *snapshot) {
    return (struct lmdb_snapshot *)snapshot;
}

static void lmdb_snapshot_destroy(struct base_snapshot *base_snapshot) {
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

static fdb_error_t lmdb_snapshot_create(struct base *base, struct base_snapshot **snapshot) {
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
        lmdb_snapshot_destroy(&s->snapshot);
        return error_of(result);
    }
    mdb_txn_reset(s->transaction);
    *snapshot = &s->snapshot;
    return ERROR_SUCCESS;
}

static void lmdb_snapshot_reset(struct base_snapshot *base_snapshot) {
    struct lmdb_snapshot *s = snapshot_of(base_snapshot);
    if (s->live)
        mdb_txn_reset(s->transaction);
    s->live = false;
}

static fdb_error_t lmdb_snapshot_renew(struct base_snapshot *base_snapshot, int64_t *version) {
    struct lmdb_snapshot *s = snapshot_of(base_snapshot);
    lmdb_snapshot_reset(base_snapshot);
    int result = mdb_txn_renew(s->transaction);
    if (result)
        return error_of(result);
    s->live = true;
    s->shallow_stale = s->deep_stale = true;
    size_t id = mdb_txn_id(s->transaction);
    if (id != s->transaction_id) {
        const uint8_t *record;
        result = record_read(s->transaction, s->owner->tree, &record);
        if (result) {
            lmdb_snapshot_reset(base_snapshot);
            return result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : error_of(result);
        }
        s->transaction_id = id;
        s->version = (int64_t)coding_get_u64(record + RECORD_VERSION);
    }
    *version = s->version;
    return ERROR_SUCCESS;
}

/* ---- Reading: one key ---- */

static fdb_error_t get_long(struct lmdb_snapshot *s, struct bytes rest, struct bytes *value, bool *present) {
    uint64_t subtree = 0;
    for (;;) {
        uint8_t buffer[LMDB_KEY_BYTES];
        MDB_val key = entry_key(buffer, subtree, rest), data;
        int result = mdb_get(s->transaction, s->owner->tree, &key, &data);
        if (result && result != MDB_NOTFOUND)
            return error_of(result);
        struct entry entry = {.has_value = result == MDB_SUCCESS, .value = {0}};
        if (result == MDB_SUCCESS) {
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

static fdb_error_t lmdb_get(struct base_snapshot *snapshot, struct bytes key, struct bytes *value, bool *present) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    if (key.length >= ROOT_CHUNK_BYTES)
        return get_long(s, key, value, present);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val lmdb_key = entry_key(buffer, 0, key), data;
    int result = mdb_get(s->transaction, s->owner->tree, &lmdb_key, &data);
    if (result && result != MDB_NOTFOUND)
        return error_of(result);
    *present = result == MDB_SUCCESS;
    if (*present)
        *value = view(data);
    return ERROR_SUCCESS;
}

/* ---- Reading: the cursor ---- */

/* These make a cursor usable for the transaction as it was renewed; the deep one is made when first needed. */
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

/* Where in `path` the chunk of the current node lies. */
static size_t path_offset(unsigned depth) {
    return depth ? (size_t)ROOT_CHUNK_BYTES + (depth - 1) * (size_t)SUBTREE_CHUNK_BYTES : 0;
}

/* Enters the sub-tree below the entry of the given chunk; leaves the cursor to be positioned. MDB_CORRUPTED if that is too deep. */
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
 * The cursor was moved, inside the current node or just past its edge, with this outcome. Goes on from there, forward or backward, to the nearest
 * row: down into sub-trees, up out of exhausted ones.
 */
static fdb_error_t settle(struct lmdb_snapshot *s, bool forward, int result, MDB_val key, MDB_val value, bool *found) {
    struct entry entry;
    for (;;) {
        if (result && result != MDB_NOTFOUND)
            return error_of(result);
        if (result == MDB_NOTFOUND || !node_contains(node_of(s), key)) {
            if (!s->depth) {
                *found = false;
                return ERROR_SUCCESS;
            }
            result = climb(s, &key, &value);
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
 * Begins a seek: follows a key that is longer than a chunk down the trie for as long as there are sub-trees for it. On return *rest is what is left
 * of it in the node reached. If *on_entry, the cursor stands on the entry of exactly its next chunk, read into *key and *value, which
 * has no sub-tree though the key is longer. Else *key, in `buffer`, is where to look in that node.
 */
static fdb_error_t follow(struct lmdb_snapshot *s, uint8_t buffer[LMDB_KEY_BYTES], struct bytes *rest, MDB_val *key, MDB_val *value,
                          bool *on_entry) {
    int ready = shallow_ready(s);
    if (ready)
        return error_of(ready);
    *on_entry = false;
    s->depth = 0;
    while (rest->length > chunk_bytes_max(node_of(s))) {
        size_t chunk_bytes = chunk_bytes_max(node_of(s));
        *key = entry_key(buffer, node_of(s), *rest);
        int result = mdb_cursor_get(cursor_of(s), key, value, MDB_SET_KEY);
        if (result == MDB_NOTFOUND)
            return ERROR_SUCCESS;
        struct entry entry;
        if (!result && !entry_parse(*value, &entry))
            result = MDB_CORRUPTED;
        if (!result && !entry.subtree) {
            *on_entry = true;
            return ERROR_SUCCESS;
        }
        if (!result)
            result = descend(s, rest->data, entry.subtree);
        if (result)
            return error_of(result);
        *rest = skip(*rest, chunk_bytes);
    }
    *key = entry_key(buffer, node_of(s), *rest);
    return ERROR_SUCCESS;
}

/*
 * Most rows: the root's cursor was moved, with this outcome, to an entry of the root that is a bare value. Takes it as the row. False: settle
 * must find the row.
 */
static inline bool take_short(struct lmdb_snapshot *s, int result, MDB_val key, MDB_val value, bool *found) {
    const uint8_t *data = key.mv_data;
    if (result || s->depth || key.mv_size >= LMDB_KEY_BYTES || data[0] != NODE_ROOT)
        return false;
    s->snapshot.key = bytes_make(data + ROOT_PREFIX_BYTES, key.mv_size - ROOT_PREFIX_BYTES);
    s->snapshot.value = view(value);
    s->below = 0;
    *found = true;
    return true;
}

static fdb_error_t lmdb_seek(struct base_snapshot *snapshot, struct bytes rest, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val key, value;
    bool on_entry;
    fdb_error_t error = follow(s, buffer, &rest, &key, &value, &on_entry);
    if (error)
        return error;
    int result = mdb_cursor_get(cursor_of(s), &key, &value, on_entry ? MDB_NEXT : MDB_SET_RANGE);
    return take_short(s, result, key, value, found) ? ERROR_SUCCESS : settle(s, true, result, key, value, found);
}

static fdb_error_t lmdb_seek_before(struct base_snapshot *snapshot, struct bytes rest, bool *found) {
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
    return take_short(s, result, key, value, found) ? ERROR_SUCCESS : settle(s, false, result, key, value, found);
}

static fdb_error_t lmdb_next(struct base_snapshot *snapshot, bool *found) {
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
    return take_short(s, result, key, value, found) ? ERROR_SUCCESS : settle(s, true, result, key, value, found);
}

static fdb_error_t lmdb_previous(struct base_snapshot *snapshot, bool *found) {
    struct lmdb_snapshot *s = snapshot_of(snapshot);
    MDB_val key, value;
    int result = mdb_cursor_get(cursor_of(s), &key, &value, MDB_PREV);
    return take_short(s, result, key, value, found) ? ERROR_SUCCESS : settle(s, false, result, key, value, found);
}

/* ---- Writing ---- */

static void lmdb_write_abort(struct base *base) {
    struct lmdb_base *b = base_of(base);
    if (!b->writing)
        return;
    if (b->at)
        mdb_cursor_close(b->at);
    mdb_txn_abort(b->writing);
    b->writing = NULL;
    b->at = NULL;
}

static fdb_error_t lmdb_write_begin(struct base *base) {
    struct lmdb_base *b = base_of(base);
    assert(!b->writing);
    if (b->failed)
        return ERROR_DATABASE_FAILED;
    int result = mdb_txn_begin(b->environment, NULL, 0, &b->writing);
    if (result) {
        b->writing = NULL;
        return error_of(result);
    }
    const uint8_t *record;
    result = record_read(b->writing, b->tree, &record);
    if (!result) {
        b->subtree_next = coding_get_u64(record + RECORD_SUBTREE_NEXT);
        result = mdb_cursor_open(b->writing, b->tree, &b->at);
    }
    if (result) {
        b->at = NULL;
        lmdb_write_abort(base);
        return result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : error_of(result);
    }
    return ERROR_SUCCESS;
}

/*
 * When a disk fills up LMDB may write a part and report EIO. A real write behind the end of the file, where LMDB has nothing yet, tells
 * the two apart.
 */
static fdb_error_t write_error(struct lmdb_base *b, int result) {
    static const uint8_t zeros[256 * 1024];
    struct os_file file;
    uint64_t size;
    if (result != EIO)
        return error_of(result);
    mdb_env_get_fd(b->environment, &file.descriptor);
    fdb_error_t error = os_file_size(&file, &size);
    if (!error)
        error = os_file_write(&file, size, bytes_make(zeros, sizeof zeros));
    return error == ERROR_DISK_FULL ? ERROR_DISK_FULL : ERROR_IO_ERROR;
}

/* Puts the writer's cursor on an entry with a header and reads it; *present is false where there is none. */
static fdb_error_t entry_read(struct lmdb_base *b, MDB_val key, struct entry *entry, bool *present) {
    assert(key.mv_size == LMDB_KEY_BYTES);
    MDB_val value;
    int result = mdb_cursor_get(b->at, &key, &value, MDB_SET_KEY);
    *present = result == MDB_SUCCESS;
    if (result == MDB_NOTFOUND) {
        *entry = (struct entry){.value = {0}};
        return ERROR_SUCCESS;
    }
    if (result)
        return error_of(result);
    return entry_parse(value, entry) ? ERROR_SUCCESS : ERROR_DATABASE_DAMAGED;
}

/* Writes an entry with a header; its value may still lie in the page it came from. */
static fdb_error_t entry_write(struct lmdb_base *b, MDB_val key, const struct entry *entry) {
    assert(key.mv_size == LMDB_KEY_BYTES && (entry->has_value || entry->subtree));
    if (!b->scratch && !(b->scratch = memory_allocate(ENTRY_VALUE + VALUE_BYTES_MAX)))
        return ERROR_LARGE_ALLOC_FAILED;
    size_t length = entry->has_value ? entry->value.length : 0;
    if (length > VALUE_BYTES_MAX)
        return ERROR_DATABASE_DAMAGED;
    b->scratch[ENTRY_FLAGS] =
        (uint8_t)((entry->has_value ? ENTRY_HAS_VALUE : 0) | (entry->subtree ? ENTRY_HAS_SUBTREE : 0));
    coding_put_u64(b->scratch + ENTRY_SUBTREE, entry->subtree);
    if (length)
        memcpy(b->scratch + ENTRY_VALUE, entry->value.data, length);
    MDB_val value = {ENTRY_VALUE + length, b->scratch};
    return write_error(b, mdb_cursor_put(b->at, &key, &value, 0));
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
    if (key.mv_size < LMDB_KEY_BYTES) {
        MDB_val data = {value.length, (void *)(uintptr_t)value.data};
        return write_error(b, mdb_cursor_put(b->at, &key, &data, 0));
    }
    fdb_error_t error = entry_read(b, key, &entry, &present);
    if (error)
        return error;
    entry.has_value = true;
    entry.value = value;
    return entry_write(b, key, &entry);
}

static fdb_error_t lmdb_write_set(struct base *base, struct bytes key, struct bytes value) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing && key.length <= KEY_BYTES_MAX && value.length <= VALUE_BYTES_MAX);
    if (key.length >= ROOT_CHUNK_BYTES)
        return set_long(b, key, value);
    uint8_t buffer[LMDB_KEY_BYTES];
    MDB_val lmdb_key = entry_key(buffer, 0, key);
    MDB_val data = {value.length, (void *)(uintptr_t)value.data};
    return write_error(b, mdb_cursor_put(b->at, &lmdb_key, &data, 0));
}

static fdb_error_t node_is_empty(struct lmdb_base *b, uint64_t subtree, bool *empty) {
    uint8_t prefix[SUBTREE_PREFIX_BYTES];
    MDB_val key = {put_prefix(prefix, subtree), prefix};
    int result = mdb_cursor_get(b->at, &key, NULL, MDB_SET_RANGE);
    if (result && result != MDB_NOTFOUND)
        return error_of(result);
    *empty = result == MDB_NOTFOUND || !node_contains(subtree, key);
    return ERROR_SUCCESS;
}

/*
 * Brings an entry with a header in line with what was removed: drops its value unless `keep_value`, drops the number of a sub-tree that has become
 * empty, and goes itself when nothing is left. *gone says that it went.
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
        fdb_error_t error = entry_read(b, entry_key(buffer, subtrees[depth], rest), &entry, &present);
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
    while (gone && depth--) { /* a sub-tree may have become empty, and so the entry above it useless */
        fdb_error_t error = entry_prune(b, entry_key(buffer, subtrees[depth], skip(key, path_offset(depth))), true, &gone);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

static fdb_error_t lmdb_write_clear(struct base *base, struct bytes key) {
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

static fdb_error_t clear_node(struct lmdb_base *b, uint64_t subtree, struct bytes begin, const struct bytes *end, unsigned depth);

/*
 * Clears what an entry with a header holds of a range: all of it, or if the range begins or ends inside the entry's sub-tree, its
 * part there. `chunk` is the entry's, at the end of its LMDB key.
 */
static fdb_error_t clear_entry(struct lmdb_base *b, MDB_val key, struct bytes chunk, const struct entry *entry, struct bytes begin,
                               const struct bytes *end, unsigned depth) {
    bool begins_below = begin.length > chunk.length && bytes_starts_with(begin, chunk);
    bool ends_below = end && end->length > chunk.length && bytes_starts_with(*end, chunk);
    if (depth == DEPTH_MAX)
        return ERROR_DATABASE_DAMAGED;
    if (entry->subtree) {
        struct bytes below_begin = begins_below ? skip(begin, chunk.length) : (struct bytes){0};
        struct bytes below_end = ends_below ? skip(*end, chunk.length) : (struct bytes){0};
        fdb_error_t error = clear_node(b, entry->subtree, below_begin, ends_below ? &below_end : NULL, depth + 1);
        if (error)
            return error;
    }
    bool gone;
    return entry_prune(b, key, begins_below, &gone);
}

/* Clears a range of rests of keys in a node and the sub-trees below it; without `end` up to the node's last. */
static fdb_error_t clear_node(struct lmdb_base *b, uint64_t subtree, struct bytes begin, const struct bytes *end, unsigned depth) {
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
        if (!entry_parse(value, &entry))
            return ERROR_DATABASE_DAMAGED;
        memcpy(buffer, key.mv_data, LMDB_KEY_BYTES);
        key = (MDB_val){LMDB_KEY_BYTES, buffer};
        fdb_error_t error = clear_entry(b, key, skip(view(key), prefix), &entry, begin, end, depth);
        if (error)
            return error;
        result = mdb_cursor_get(b->at, &key, &value, MDB_SET_RANGE);
        if (!result && bytes_equal(view(key), bytes_make(buffer, LMDB_KEY_BYTES)))
            result = mdb_cursor_get(b->at, &key, &value, MDB_NEXT);
    }
    return result == MDB_NOTFOUND ? ERROR_SUCCESS : write_error(b, result);
}

static fdb_error_t lmdb_write_clear_range(struct base *base, struct bytes begin, struct bytes end) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing && begin.length <= KEY_BYTES_MAX + 1 && end.length <= KEY_BYTES_MAX + 1);
    if (bytes_compare(begin, end) >= 0)
        return ERROR_SUCCESS;
    return clear_node(b, 0, begin, &end, 0);
}

/*
 * A page that was taken and given back in one transaction counts as used but was never written, so the file may end before LMDB's last
 * page. Writes the last page then, so that a file that is too short is a sign of damage (see file_lengthen).
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

static fdb_error_t lmdb_write_commit(struct base *base, int64_t version) {
    struct lmdb_base *b = base_of(base);
    assert(b->writing);
    int result = record_write(b->writing, b->tree, version, b->subtree_next);
    if (result)
        return write_error(b, result);
    mdb_cursor_close(b->at);
    b->at = NULL;
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

/* ---- Checking ---- */

struct check {
    MDB_cursor *at;
    uint64_t subtree_next;
    uint64_t entries; /* seen so far */
};

/* Walks a node and everything below it; the invariants at the top are tested on the way. */
static fdb_error_t check_node(struct check *check, uint64_t subtree, unsigned depth) {
    uint8_t buffer[LMDB_KEY_BYTES];
    size_t prefix = put_prefix(buffer, subtree);
    MDB_val key = {prefix, buffer}, value;
    int result = mdb_cursor_get(check->at, &key, &value, MDB_SET_RANGE);
    if (subtree && (depth > DEPTH_MAX || result || !node_contains(subtree, key)))
        return result && result != MDB_NOTFOUND ? error_of(result) : ERROR_DATABASE_DAMAGED;
    while (!result && node_contains(subtree, key)) {
        check->entries++;
        if (subtree && key.mv_size == prefix)
            return ERROR_DATABASE_DAMAGED;
        if (key.mv_size == LMDB_KEY_BYTES) {
            struct entry entry;
            if (!entry_parse(value, &entry) || entry.subtree >= check->subtree_next)
                return ERROR_DATABASE_DAMAGED;
            memcpy(buffer, key.mv_data, LMDB_KEY_BYTES);
            key.mv_data = buffer;
            fdb_error_t error = entry.subtree ? check_node(check, entry.subtree, depth + 1) : ERROR_SUCCESS;
            if (error)
                return error;
            result = mdb_cursor_get(check->at, &key, &value, MDB_SET);
        }
        if (!result)
            result = mdb_cursor_get(check->at, &key, &value, MDB_NEXT);
    }
    return result == MDB_NOTFOUND ? ERROR_SUCCESS : error_of(result);
}

static fdb_error_t lmdb_check(struct base *base) {
    struct lmdb_base *b = base_of(base);
    struct check check = {.entries = 1}; /* the record */
    const uint8_t *record;
    MDB_txn *transaction;
    MDB_stat statistics;
    int result = mdb_txn_begin(b->environment, NULL, MDB_RDONLY, &transaction);
    if (result)
        return error_of(result);
    result = record_read(transaction, b->tree, &record);
    if (!result)
        result = mdb_stat(transaction, b->tree, &statistics);
    if (!result)
        result = mdb_cursor_open(transaction, b->tree, &check.at);
    fdb_error_t error = result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : error_of(result);
    if (!error) {
        check.subtree_next = coding_get_u64(record + RECORD_SUBTREE_NEXT);
        error = check_node(&check, 0, 0);
        if (!error && check.entries != statistics.ms_entries) /* sub-trees that nothing leads to, or that two do */
            error = ERROR_DATABASE_DAMAGED;
        mdb_cursor_close(check.at);
    }
    mdb_txn_abort(transaction);
    return error;
}

/* ---- Opening and closing ---- */

static int64_t lmdb_version(struct base *base) {
    return atomic_load(&base_of(base)->version);
}

static uint64_t lmdb_bytes(struct base *base) {
    struct lmdb_base *b = base_of(base);
    MDB_envinfo information;
    mdb_env_info(b->environment, &information);
    return (information.me_last_pgno + 1) * b->page_bytes;
}

static void lmdb_close(struct base *base) {
    struct lmdb_base *b = base_of(base);
    lmdb_write_abort(base);
    if (b->environment)
        mdb_env_close(b->environment);
    memory_free(b->scratch);
    memory_free(b->path);
    memory_free(b);
}

static const struct base_methods lmdb_methods = {
    .close = lmdb_close,
    .version = lmdb_version,
    .bytes = lmdb_bytes,
    .snapshot_create = lmdb_snapshot_create,
    .snapshot_destroy = lmdb_snapshot_destroy,
    .snapshot_renew = lmdb_snapshot_renew,
    .snapshot_reset = lmdb_snapshot_reset,
    .get = lmdb_get,
    .seek = lmdb_seek,
    .seek_before = lmdb_seek_before,
    .next = lmdb_next,
    .previous = lmdb_previous,
    .estimate_bytes = base_estimate,
    .write_begin = lmdb_write_begin,
    .write_set = lmdb_write_set,
    .write_clear = lmdb_write_clear,
    .write_clear_range = lmdb_write_clear_range,
    .write_commit = lmdb_write_commit,
    .write_abort = lmdb_write_abort,
    .check = lmdb_check,
};

/* Leaves "path: what" for people and passes the error on. */
static fdb_error_t refuse(fdb_error_t error, const char *path, const char *what, char **message) {
    size_t size = strlen(path) + strlen(what) + 3;
    char *text = memory_allocate(size);
    if (text)
        snprintf(text, size, "%s: %s", path, what);
    *message = text;
    return error;
}

static int environment_open(const char *path, unsigned flags, unsigned snapshots_max, size_t map_bytes, MDB_env **environment) {
    MDB_env *made;
    int result = mdb_env_create(&made);
    if (result)
        return result;
    result = mdb_env_set_maxreaders(made, snapshots_max + 2); /* lmdb_check's, and one to spare for a tool */
    if (!result)
        result = mdb_env_set_mapsize(made, map_bytes);
    if (!result)
        result = mdb_env_open(made, path, flags | MDB_NOSUBDIR | MDB_NOTLS, 0600);
    if (result) {
        mdb_env_close(made);
        return result;
    }
    *environment = made;
    return MDB_SUCCESS;
}

/* The main tree's handle and the record; the record's bytes are copied out. */
static int environment_read_record(MDB_env *environment, MDB_dbi *tree, uint8_t copy[RECORD_BYTES]) {
    MDB_txn *transaction;
    const uint8_t *record;
    int result = mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction);
    if (result)
        return result;
    result = mdb_dbi_open(transaction, NULL, 0, tree);
    if (!result)
        result = record_read(transaction, *tree, &record);
    if (!result)
        memcpy(copy, record, RECORD_BYTES);
    mdb_txn_abort(transaction);
    return result;
}

/* Makes a whole environment: its record is committed, and on disk unless told otherwise. */
static int environment_create(const char *path, bool sync) {
    MDB_env *environment;
    MDB_txn *transaction;
    MDB_dbi tree;
    int result = environment_open(path, MDB_NOLOCK | (sync ? 0 : MDB_NOSYNC), 1, SMALL_MAP_BYTES, &environment);
    if (result)
        return result;
    result = mdb_txn_begin(environment, NULL, 0, &transaction);
    if (!result) {
        result = mdb_dbi_open(transaction, NULL, 0, &tree);
        if (!result)
            result = record_write(transaction, tree, 0, 1);
        if (result)
            mdb_txn_abort(transaction);
        else
            result = mdb_txn_commit(transaction);
    }
    mdb_env_close(environment);
    return result;
}

/* Makes the file under another name and renames it when it is whole. */
static fdb_error_t file_create(const char *directory, const char *path, bool sync, char **message) {
    size_t size = strlen(path) + sizeof ".new";
    char *new_path = memory_allocate(size);
    if (!new_path)
        return ERROR_LARGE_ALLOC_FAILED;
    snprintf(new_path, size, "%s.new", path);
    fdb_error_t error = os_remove(new_path);
    if (!error || error == ERROR_FILE_NOT_FOUND) {
        int result = environment_create(new_path, sync);
        if (result) {
            error = refuse(error_of(result), new_path, mdb_strerror(result), message);
            memory_free(new_path);
            return error;
        }
        error = os_rename(new_path, path);
        if (!error && sync)
            error = os_directory_sync(directory);
    }
    memory_free(new_path);
    return error ? refuse(error, path, os_last_error(), message) : ERROR_SUCCESS;
}

/*
 * LMDB maps the file; reading a part of the map that the file does not reach kills the process. So a file that ends before LMDB's last page is
 * made to reach it: with zeros, which LMDB reports as damage if a tree leads there. (If none does, the process was killed before
 * cover_last_page.)
 */
static fdb_error_t file_lengthen(const char *path, uint64_t size) {
    static const uint8_t zeros[512];
    struct os_file file;
    fdb_error_t error = os_file_open(path, false, &file);
    if (error)
        return error;
    error = os_file_write(&file, size - sizeof zeros, bytes_make(zeros, sizeof zeros));
    fdb_error_t close_error = os_file_close(&file);
    return error ? error : close_error;
}

/* How long the file must be for its map to be safe to read, and how long it is. */
static fdb_error_t environment_sizes(MDB_env *environment, uint64_t *needed, uint64_t *size) {
    MDB_envinfo information;
    MDB_stat statistics;
    struct os_file file;
    mdb_env_info(environment, &information);
    mdb_env_stat(environment, &statistics);
    mdb_env_get_fd(environment, &file.descriptor);
    *needed = (information.me_last_pgno + 1) * (uint64_t)statistics.ms_psize;
    return os_file_size(&file, size);
}

/*
 * Looks at an existing file without a lock and without changing anything: is it ours, and of a format we know? *short_of is the size it ought to have
 * if it is too short to be looked into, else 0.
 */
static fdb_error_t file_probe(const char *path, uint64_t *short_of, char **message) {
    MDB_env *environment;
    MDB_dbi tree;
    uint8_t record[RECORD_BYTES];
    int result = environment_open(path, MDB_RDONLY | MDB_NOLOCK, 1, SMALL_MAP_BYTES, &environment);
    if (result == MDB_INVALID || result == MDB_VERSION_MISMATCH)
        return refuse(ERROR_FORMAT_FOREIGN, path, "not a file of Keel's base", message);
    if (result)
        return refuse(error_of(result), path, mdb_strerror(result), message);
    uint64_t needed, size;
    fdb_error_t error = environment_sizes(environment, &needed, &size);
    if (error) {
        mdb_env_close(environment);
        return refuse(error, path, os_last_error(), message);
    }
    *short_of = size < needed ? needed : 0;
    if (!*short_of)
        result = environment_read_record(environment, &tree, record);
    mdb_env_close(environment);
    if (result == MDB_NOTFOUND)
        return refuse(ERROR_FORMAT_FOREIGN, path, "an LMDB file, but not one of Keel's", message);
    if (result)
        return refuse(error_of(result), path, mdb_strerror(result), message);
    if (!*short_of && coding_get_u32(record + RECORD_FORMAT) > FORMAT_VERSION)
        return refuse(ERROR_FORMAT_NEWER, path, "written in a newer format than this library knows", message);
    return ERROR_SUCCESS;
}

/* Leaves a file at `path` that is ours and can be opened. */
static fdb_error_t file_prepare(const char *directory, const char *path, bool sync, char **message) {
    enum os_path_kind kind;
    struct os_file file;
    uint64_t size = 0;
    fdb_error_t error = os_path_kind(path, &kind);
    if (!error && kind == OS_PATH_FILE && !(error = os_file_open(path, false, &file))) {
        error = os_file_size(&file, &size);
        os_file_close(&file);
    }
    if (error)
        return refuse(error, path, os_last_error(), message);
    if (kind == OS_PATH_MISSING || (kind == OS_PATH_FILE && size == 0))
        return file_create(directory, path, sync, message);
    if (kind != OS_PATH_FILE)
        return refuse(ERROR_FORMAT_FOREIGN, path, "not a file", message);
    uint64_t short_of;
    error = file_probe(path, &short_of, message);
    if (error || !short_of)
        return error;
    error = file_lengthen(path, short_of);
    if (error)
        return refuse(error, path, os_last_error(), message);
    return file_probe(path, &short_of, message);
}

/* Opens for good, with as much address space as can be had: the map bounds the size of the base. */
static fdb_error_t file_open(struct lmdb_base *b, const struct base_options *options, char **message) {
    int result = ENOMEM;
    unsigned flags = options->sync ? 0 : MDB_NOSYNC;
    for (uint64_t map_bytes = MAP_BYTES_MAX; result == ENOMEM && map_bytes >= MAP_BYTES_MIN; map_bytes /= 4)
        result = environment_open(b->path, flags, options->snapshots_max, map_bytes, &b->environment);
    if (result) {
        b->environment = NULL;
        return refuse(error_of(result), b->path, mdb_strerror(result), message);
    }
    mdb_reader_check(b->environment, NULL); /* readers of processes that were killed hold nothing back */
    uint8_t record[RECORD_BYTES];
    MDB_stat statistics;
    mdb_env_stat(b->environment, &statistics);
    b->page_bytes = statistics.ms_psize;
    assert(mdb_env_get_maxkeysize(b->environment) >= LMDB_KEY_BYTES);
    result = environment_read_record(b->environment, &b->tree, record);
    if (result)
        return refuse(result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : error_of(result), b->path, mdb_strerror(result), message);
    atomic_store(&b->version, (int64_t)coding_get_u64(record + RECORD_VERSION));
    return ERROR_SUCCESS;
}

fdb_error_t base_lmdb_open(const char *directory, const struct base_options *options, struct base **base, char **message) {
    *message = NULL;
    struct lmdb_base *b = memory_allocate_zeroed(sizeof *b);
    if (!b)
        return ERROR_LARGE_ALLOC_FAILED;
    b->base.methods = &lmdb_methods;
    size_t size = strlen(directory) + sizeof file_name + 1;
    b->path = memory_allocate(size);
    fdb_error_t error = ERROR_LARGE_ALLOC_FAILED;
    if (b->path) {
        snprintf(b->path, size, "%s/%s", directory, file_name);
        error = file_prepare(directory, b->path, options->sync, message);
        if (!error)
            error = file_open(b, options, message);
    }
    if (error) {
        lmdb_close(&b->base);
        return error;
    }
    *base = &b->base;
    return ERROR_SUCCESS;
}
