/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the base on LMDB share: base_lmdb.c (opening, and the picture of the whole),
 * base_lmdb_read.c, base_lmdb_write.c. Private to them and, for the format of entries and for copying, to check_rows.c and
 * compact.c; the one place that includes lmdb.h.
 */
#ifndef KEEL_ENGINE_BASE_LMDB_H
#define KEEL_ENGINE_BASE_LMDB_H

#include "engine/base.h"

#include <errno.h> /* LMDB returns its numbers */
#include <lmdb.h>
#include <stdatomic.h>

#include "util/checksum.h"
#include "util/coding.h"

#define SMALL_MAP_BYTES                                                                            \
    (UINT64_C(1) << 20) /* for looking, copying and creating; LMDB enlarges it to what the file needs */

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
    SUM_BYTES = 4, /* behind every value but the record */
    FORMAT_VERSION = 2,
    DAMAGE_LINES_MAX = 16, /* in the log, for an open base */
    VERIFIED_PAGES = 1 << 16,
    PAGE_ROWS_TESTED = 16, /* one by one, before the rest of a page is tested too */
};

enum record_offset {
    RECORD_MAGIC = 0,
    RECORD_FORMAT = 8,        /* u32 */
    RECORD_SUM = 12,          /* u32, of the LMDB key and the record with zeros here */
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

struct lmdb_base {
    struct base base;
    MDB_env *environment;
    MDB_dbi tree;
    size_t page_bytes;
    char *path;
    _Atomic int64_t version;
    _Atomic uint64_t commits; /* LMDB commits begun: see base_lmdb_renew */
    bool failed;      /* the writer's: a commit failed in a way that leaves the disk in doubt */
    MDB_txn *writing; /* the write transaction, or NULL; the rest belongs to it */
    MDB_cursor *at;   /* where it last wrote */
    uint64_t subtree_next; /* the first number never used */
    uintptr_t page;        /* the page of the value last written, by its number in memory */
    uint64_t pages;        /* how often that was another page than before */
    uint8_t *scratch;      /* for an entry with a header; made when first needed */
    _Atomic uint64_t *verified; /* VERIFIED_PAGES marks: see page_enter */
    _Atomic uint64_t damage_lines[DAMAGE_LINES_MAX]; /* checksums of the keys that the log names as damaged; 0: free */
};

struct lmdb_snapshot {
    struct base_snapshot snapshot;
    struct lmdb_base *owner;
    MDB_txn *transaction;
    MDB_cursor *shallow;
    MDB_cursor *deep; /* made when the first sub-tree is entered */
    bool live;
    bool shallow_stale, deep_stale; /* the cursor does not yet know the renewed transaction */
    size_t transaction_id; /* the LMDB transaction whose version is cached below; 0 is none */
    int64_t version;

    /* The page that the shallow cursor was in last: see page_enter. */
    uintptr_t page;       /* its address; 0: unknown */
    bool page_verified;   /* every row of it matched its checksum */
    bool page_whole;      /* every row from the edge where the cursor came in up to here did */
    bool page_forward;    /* that edge is the first row */
    unsigned page_rows;   /* tested one by one */
    uint64_t epoch;       /* what a mark made or believed by this snapshot bears: commits begun when it was renewed */

    /* The cursor: where the row in `snapshot` is. */
    uint64_t below; /* the row is an entry's own value, and this sub-tree follows it; else 0 */
    unsigned depth; /* sub-trees entered: 0 is the root */
    uint64_t subtrees[DEPTH_MAX + 1]; /* [depth] is the node the cursor is in, [0] is 0 */
    uint8_t *path; /* the bytes of the chunks entered, then the current one; as `deep` */
};

/* A value with a header, taken apart. */
struct entry {
    bool has_value;
    struct bytes value;
    uint64_t subtree; /* 0: none */
};

/* ---- base_lmdb.c ---- */

/* What an LMDB result means to our callers. */
fdb_error_t base_lmdb_error(int result);

/* Counts the damage and leaves a line about it. Always ROW_DAMAGED. */
fdb_error_t base_lmdb_row_damaged(struct lmdb_base *b, MDB_val key);

/*
 * The record about the base itself. Reading says MDB_NOTFOUND also where it is not one of ours; its checksum is looked at if its format is this one's,
 * MDB_CORRUPTED.
 */
int base_lmdb_record_read(MDB_txn *transaction, MDB_dbi tree, const uint8_t **record);
int base_lmdb_record_write(MDB_txn *transaction, MDB_dbi tree, int64_t version,
                           uint64_t subtree_next);

/* Opens the environment at a path, with so much address space or as much as its file needs. */
int base_lmdb_environment_open(const char *path, unsigned flags, unsigned snapshots_max, size_t map_bytes, MDB_env **environment);

/* Makes a reset read transaction see what is committed now. */
int base_lmdb_renew(struct lmdb_base *b, MDB_txn *transaction);

/* ---- base_lmdb_read.c and base_lmdb_write.c: methods of base.h ---- */

fdb_error_t base_lmdb_snapshot_create(struct base *base, struct base_snapshot **snapshot);
void base_lmdb_snapshot_destroy(struct base_snapshot *snapshot);
fdb_error_t base_lmdb_snapshot_renew(struct base_snapshot *snapshot, int64_t *version);
void base_lmdb_snapshot_reset(struct base_snapshot *snapshot);
fdb_error_t base_lmdb_get(struct base_snapshot *snapshot, struct bytes key, struct bytes *value,
                          bool *present);
fdb_error_t base_lmdb_seek(struct base_snapshot *snapshot, struct bytes key, bool *found);
fdb_error_t base_lmdb_seek_before(struct base_snapshot *snapshot, struct bytes key, bool *found);
fdb_error_t base_lmdb_next(struct base_snapshot *snapshot, bool *found);
fdb_error_t base_lmdb_previous(struct base_snapshot *snapshot, bool *found);

fdb_error_t base_lmdb_write_begin(struct base *base);
fdb_error_t base_lmdb_write_set(struct base *base, struct bytes key, struct bytes value);
fdb_error_t base_lmdb_write_clear(struct base *base, struct bytes key);
fdb_error_t base_lmdb_write_clear_range(struct base *base, struct bytes begin, struct bytes end);
fdb_error_t base_lmdb_write_commit(struct base *base, int64_t version);
void base_lmdb_write_abort(struct base *base);
uint64_t base_lmdb_write_pages(struct base *base);

/* ---- Small parts ---- */

static inline size_t chunk_bytes_max(uint64_t subtree) {
    return subtree ? SUBTREE_CHUNK_BYTES : ROOT_CHUNK_BYTES;
}

/* Writes what every LMDB key of a node begins with; returns its length. Node 0 is the root. */
static inline size_t put_prefix(uint8_t *to, uint64_t subtree) {
    if (!subtree) {
        to[0] = NODE_ROOT;
        return ROOT_PREFIX_BYTES;
    }
    to[0] = NODE_SUBTREE;
    coding_put_u64_big(to + 1, subtree);
    return SUBTREE_PREFIX_BYTES;
}

/* The LMDB key, in `buffer`, of the entry for the first chunk of `rest` in a node. */
static inline MDB_val entry_key(uint8_t buffer[LMDB_KEY_BYTES], uint64_t subtree,
                                struct bytes rest) {
    size_t prefix = put_prefix(buffer, subtree);
    size_t length = rest.length < chunk_bytes_max(subtree) ? rest.length : chunk_bytes_max(subtree);
    if (length)
        memcpy(buffer + prefix, rest.data, length);
    return (MDB_val){prefix + length, buffer};
}

static inline struct bytes skip(struct bytes rest, size_t length) {
    return bytes_make(rest.data + length, rest.length - length);
}

static inline struct bytes view(MDB_val value) {
    return bytes_make(value.mv_data, value.mv_size);
}

/* Takes the checksum off the end of an LMDB value; false if it does not match. In a page the value lies right behind its key. */
static inline bool value_verify(MDB_val key, MDB_val *value) {
    if (value->mv_size < SUM_BYTES)
        return false;
    struct bytes body = bytes_make(value->mv_data, value->mv_size - SUM_BYTES);
    value->mv_size = body.length;
    return coding_get_u32(body.data + body.length) == checksum_row(view(key), body);
}

/* Likewise: ROW_DAMAGED, and reported. */
static inline fdb_error_t value_open(struct lmdb_base *b, MDB_val key, MDB_val *value) {
    return value_verify(key, value) ? ERROR_SUCCESS : base_lmdb_row_damaged(b, key);
}

static inline bool node_contains(uint64_t subtree, MDB_val key) {
    uint8_t prefix[SUBTREE_PREFIX_BYTES];
    return bytes_starts_with(view(key), bytes_make(prefix, put_prefix(prefix, subtree)));
}

/* Takes an entry of a full-length chunk, without its checksum, apart; false if it is not one (invariant 2). */
static inline bool entry_parse(MDB_val value, struct entry *entry) {
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

/* Where in a key the chunk begins that belongs to a node so many sub-trees down. */
static inline size_t path_offset(unsigned depth) {
    return depth ? (size_t)ROOT_CHUNK_BYTES + (depth - 1) * (size_t)SUBTREE_CHUNK_BYTES : 0;
}

static inline struct lmdb_base *base_of(struct base *base) {
    return (struct lmdb_base *)base;
}

static inline struct lmdb_snapshot *snapshot_of(struct base_snapshot *snapshot) {
    return (struct lmdb_snapshot *)snapshot;
}

#endif
