/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base on disk: one LMDB environment in the database's directory. A read comes here when the
 * window is silent about its key; the checkpoint comes here with a generation that no transaction
 * can see changing any more.
 *
 * Files: `base.keel`, the environment, and `base.keel-lock`, LMDB's reader table. The environment
 * is made under the name `base.keel.new` and renamed once it is complete and synced, so a
 * `base.keel` is never half made.
 *
 * Long keys. LMDB's keys have 1 to 511 bytes, ours 0 to 30,000. So the keys form a trie of
 * B-trees, as in Masstree: a node of the trie maps chunks of keys, and what follows a chunk of
 * full length is in a node of its own, a sub-tree. All nodes share LMDB's main tree, told apart by
 * what an LMDB key begins with:
 *
 *     00                         the one record about the base itself (enum record_offset)
 *     01  chunk                  the root of the trie: chunks of 0 to 510 bytes
 *     02  number:8 big  chunk    the sub-tree of that number: chunks of 1 to 502 bytes
 *
 *     root                                    sub-tree 7
 *     01 "apple"      -> value
 *     01 510 bytes    -> {value, below 7} ──► 02 7 "tail"      -> value of a key of 510 + 4 bytes
 *     01 "banana"     -> value                02 7 502 bytes   -> {below 9} ──► sub-tree 9
 *
 * Checksums. LMDB's pages bear none. So every LMDB value but the record's ends with four bytes of
 * XXH3 over its LMDB key and the rest of it, tested when it is read: a row that the disk changed is
 * reported (ROW_DAMAGED), not served. (A range read trusts a page all of whose rows were tested
 * since the last commit: page_enter.) The record has one inside. What follows speaks of values
 * without it.
 *
 *   1. A chunk shorter than its node allows is a whole rest of a key; its entry is the bare value.
 *      This is every key below 510 bytes: the hot path has no header, no allocation and one LMDB
 *      look-up.
 *   2. An entry whose LMDB key has the full 511 bytes starts with a header (enum entry_offset): it
 *      may hold the value of the key that ends there, the number of the sub-tree below it, or
 *      both, never neither.
 *   3. In key order such an entry comes before its sub-tree, and the sub-tree before the node's
 *      next entry. Hence order is exact.
 *   4. A sub-tree is never empty, has exactly one entry naming it, and numbers are never used
 *      again.
 *   5. The version in the record is that of the last write transaction, written inside it.
 *
 * Threads. LMDB lets readers run beside the writer without locks. A snapshot is an LMDB read
 * transaction (MDB_NOTLS: bound to the object, not to a thread) with two cursors: `shallow` stays
 * in the root, `deep` walks sub-trees, so that leaving a sub-tree finds the root's cursor where it
 * was. The write transaction belongs to the thread that began it. Views point into the memory map.
 *
 * Failure. The caller aborts after any error; LMDB then has changed nothing that the last commit's
 * pages refer to. A full disk can be tried again; any other failed commit poisons writing
 * (`failed`) until the base is opened again, reads go on. LMDB writes short when a disk fills up
 * and calls that EIO: write_error asks the disk again. Damage inside a row is found when it is
 * read. A key that damage made unfindable is found missing by nobody but the check of the whole
 * (check.c), and a page that damage made no page may crash LMDB: that check reads pages itself.
 */
#include "engine/base_lmdb.h"

#include <assert.h>
#include <stdio.h>

#include "engine/base_estimate.h"
#include "engine/base_pages.h"
#include "os/file.h"
#include "os/log_line.h"
#include "util/memory.h"

static const uint8_t record_magic[8] = {'K', 'e', 'e', 'l', 'B', 'a', 's', 'e'};
static const char file_name[] = "base.keel";

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

/* ---- Results and the record ---- */

fdb_error_t base_lmdb_error(int result) {
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

/* True if the log has no line about this key yet and has room for one: then it is noted. */
static bool is_news(struct lmdb_base *b, struct bytes key) {
    uint64_t sum = checksum(key, 0) | 1;
    for (int i = 0; i < DAMAGE_LINES_MAX; i++) {
        uint64_t noted = 0;
        if (atomic_compare_exchange_strong(&b->damage_lines[i], &noted, sum))
            return true;
        if (noted == sum)
            return false;
    }
    return false;
}

fdb_error_t base_lmdb_row_damaged(struct lmdb_base *b, MDB_val key) {
    enum { SHOWN_BYTES = 200 };
    char shown[4 * SHOWN_BYTES + 4] = "", *to = shown;
    atomic_fetch_add_explicit(&b->base.damaged_reads, 1, memory_order_relaxed);
    if (!is_news(b, view(key)))
        return ERROR_ROW_DAMAGED;
    const uint8_t *data = key.mv_data;
    size_t from = key.mv_size && data[0] == NODE_SUBTREE ? SUBTREE_PREFIX_BYTES : ROOT_PREFIX_BYTES;
    for (size_t i = from; i < key.mv_size && i < from + SHOWN_BYTES; i++)
        to += sprintf(to, data[i] >= 0x20 && data[i] < 0x7f && data[i] != '\\' ? "%c" : "\\x%02x",
                      data[i]);
    if (key.mv_size > from + SHOWN_BYTES)
        strcpy(to, "...");
    log_line("%s: the row of key %s\"%s\" is damaged: its checksum does not match", b->path,
             from > ROOT_PREFIX_BYTES ? "(a long one, its part) " : "", shown);
    return ERROR_ROW_DAMAGED;
}

static MDB_val record_key(void) {
    static uint8_t key = NODE_RECORD;
    return (MDB_val){1, &key};
}

static uint32_t record_sum(const uint8_t record[RECORD_BYTES]) {
    uint8_t copy[RECORD_BYTES];
    memcpy(copy, record, RECORD_BYTES);
    coding_put_u32(copy + RECORD_SUM, 0);
    return checksum_row(view(record_key()), bytes_make(copy, RECORD_BYTES));
}

int base_lmdb_record_read(MDB_txn *transaction, MDB_dbi tree, const uint8_t **record) {
    MDB_val key = record_key(), value;
    int result = mdb_get(transaction, tree, &key, &value);
    if (result)
        return result;
    if (value.mv_size < RECORD_BYTES ||
        memcmp(value.mv_data, record_magic, sizeof record_magic) != 0)
        return MDB_NOTFOUND;
    const uint8_t *data = value.mv_data;
    if (coding_get_u32(data + RECORD_FORMAT) == FORMAT_VERSION &&
        coding_get_u32(data + RECORD_SUM) != record_sum(data))
        return MDB_CORRUPTED;
    *record = data;
    return MDB_SUCCESS;
}

int base_lmdb_record_write(MDB_txn *transaction, MDB_dbi tree, int64_t version,
                           uint64_t subtree_next) {
    uint8_t record[RECORD_BYTES] = {0};
    memcpy(record + RECORD_MAGIC, record_magic, sizeof record_magic);
    coding_put_u32(record + RECORD_FORMAT, FORMAT_VERSION);
    coding_put_u64(record + RECORD_VERSION, (uint64_t)version);
    coding_put_u64(record + RECORD_SUBTREE_NEXT, subtree_next);
    coding_put_u32(record + RECORD_SUM, record_sum(record));
    MDB_val key = record_key(), value = {sizeof record, record};
    return mdb_put(transaction, tree, &key, &value, 0);
}

/*
 * LMDB (0.9.24) reads the number T of the last transaction and then copies the trees' roots from the
 * meta page of that parity, without looking back: a reader that is held up in between, while T + 1
 * and T + 2 are committed, gets the roots of T + 2, or of both, under the name of T. Transaction
 * T + 2 begins to commit after the reader has begun: so the renewal is repeated if any commit has.
 */
int base_lmdb_renew(struct lmdb_base *b, MDB_txn *transaction) {
    for (;;) {
        uint64_t commits = atomic_load_explicit(&b->commits, memory_order_acquire);
        int result = mdb_txn_renew(transaction);
        if (result)
            return result;
#ifndef __SANITIZE_THREAD__ /* which knows no fences */
        atomic_thread_fence(memory_order_acquire);
#endif
        if (atomic_load_explicit(&b->commits, memory_order_relaxed) == commits)
            return MDB_SUCCESS;
        mdb_txn_reset(transaction);
    }
}

/* ---- Checking ---- */

struct check {
    struct lmdb_base *base;
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
        return result && result != MDB_NOTFOUND ? base_lmdb_error(result) : ERROR_DATABASE_DAMAGED;
    while (!result && node_contains(subtree, key)) {
        check->entries++;
        if (subtree && key.mv_size == prefix)
            return ERROR_DATABASE_DAMAGED;
        if (value_open(check->base, key, &value))
            return ERROR_DATABASE_DAMAGED;
        if (key.mv_size == LMDB_KEY_BYTES) {
            struct entry entry;
            if (!entry_parse(value, &entry) || entry.subtree >= check->subtree_next)
                return ERROR_DATABASE_DAMAGED;
            memcpy(buffer, key.mv_data, LMDB_KEY_BYTES);
            key.mv_data = buffer;
            fdb_error_t error =
                entry.subtree ? check_node(check, entry.subtree, depth + 1) : ERROR_SUCCESS;
            if (error)
                return error;
            result = mdb_cursor_get(check->at, &key, &value, MDB_SET);
        }
        if (!result)
            result = mdb_cursor_get(check->at, &key, &value, MDB_NEXT);
    }
    return result == MDB_NOTFOUND ? ERROR_SUCCESS : base_lmdb_error(result);
}

static fdb_error_t lmdb_check(struct base *base) {
    struct lmdb_base *b = base_of(base);
    struct check check = {.base = b, .entries = 1}; /* the record */
    const uint8_t *record;
    MDB_txn *transaction;
    MDB_stat statistics;
    int result = mdb_txn_begin(b->environment, NULL, MDB_RDONLY, &transaction);
    if (result)
        return base_lmdb_error(result);
    mdb_txn_reset(transaction);
    result = base_lmdb_renew(b, transaction);
    if (!result)
        result = base_lmdb_record_read(transaction, b->tree, &record);
    if (!result)
        result = mdb_stat(transaction, b->tree, &statistics);
    if (!result)
        result = mdb_cursor_open(transaction, b->tree, &check.at);
    fdb_error_t error = result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : base_lmdb_error(result);
    if (!error) {
        check.subtree_next = coding_get_u64(record + RECORD_SUBTREE_NEXT);
        error = check_node(&check, 0, 0);
        if (!error && check.entries != statistics.ms_entries)
            error = ERROR_DATABASE_DAMAGED; /* sub-trees that nothing leads to, or that two do */
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

/* The free tree maps transactions to lists of pages, each with its length in front. */
static uint64_t lmdb_free_bytes(struct base *base) {
    enum { FREE_TREE = 0 };
    struct lmdb_base *b = base_of(base);
    MDB_txn *transaction;
    MDB_cursor *at;
    MDB_val key, list;
    uint64_t pages = 0;
    if (mdb_txn_begin(b->environment, NULL, MDB_RDONLY, &transaction))
        return 0;
    mdb_txn_reset(transaction);
    if (base_lmdb_renew(b, transaction) == MDB_SUCCESS && mdb_cursor_open(transaction, FREE_TREE, &at) == MDB_SUCCESS) {
        while (mdb_cursor_get(at, &key, &list, MDB_NEXT) == MDB_SUCCESS)
            if (list.mv_size >= sizeof(uint64_t))
                pages += coding_get_u64(list.mv_data);
        mdb_cursor_close(at);
    }
    mdb_txn_abort(transaction);
    return pages * b->page_bytes;
}

static void lmdb_close(struct base *base) {
    struct lmdb_base *b = base_of(base);
    base_lmdb_write_abort(base);
    if (b->environment)
        mdb_env_close(b->environment);
    memory_free(b->verified);
    memory_free(b->scratch);
    memory_free(b->path);
    memory_free(b);
}

static const struct base_methods lmdb_methods = {
    .close = lmdb_close,
    .version = lmdb_version,
    .bytes = lmdb_bytes,
    .free_bytes = lmdb_free_bytes,
    .snapshot_create = base_lmdb_snapshot_create,
    .snapshot_destroy = base_lmdb_snapshot_destroy,
    .snapshot_renew = base_lmdb_snapshot_renew,
    .snapshot_reset = base_lmdb_snapshot_reset,
    .get = base_lmdb_get,
    .seek = base_lmdb_seek,
    .seek_before = base_lmdb_seek_before,
    .next = base_lmdb_next,
    .previous = base_lmdb_previous,
    .estimate_bytes = base_estimate,
    .write_begin = base_lmdb_write_begin,
    .write_set = base_lmdb_write_set,
    .write_clear = base_lmdb_write_clear,
    .write_clear_range = base_lmdb_write_clear_range,
    .write_commit = base_lmdb_write_commit,
    .write_abort = base_lmdb_write_abort,
    .write_pages = base_lmdb_write_pages,
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

int base_lmdb_environment_open(const char *path, unsigned flags, unsigned snapshots_max,
                               size_t map_bytes, MDB_env **environment) {
    MDB_env *made;
    int result = mdb_env_create(&made);
    if (result)
        return result;
    result = mdb_env_set_maxreaders(made, snapshots_max +
                                              4); /* for lmdb_check and lmdb_free_bytes, and to spare for a tool */
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
static int environment_read_record(MDB_env *environment, MDB_dbi *tree,
                                   uint8_t copy[RECORD_BYTES]) {
    MDB_txn *transaction;
    const uint8_t *record;
    int result = mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction);
    if (result)
        return result;
    result = mdb_dbi_open(transaction, NULL, 0, tree);
    if (!result)
        result = base_lmdb_record_read(transaction, *tree, &record);
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
    int result = base_lmdb_environment_open(path, MDB_NOLOCK | (sync ? 0 : MDB_NOSYNC), 1, SMALL_MAP_BYTES,
                                  &environment);
    if (result)
        return result;
    result = mdb_txn_begin(environment, NULL, 0, &transaction);
    if (!result) {
        result = mdb_dbi_open(transaction, NULL, 0, &tree);
        if (!result)
            result = base_lmdb_record_write(transaction, tree, 0, 1);
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
            error = refuse(base_lmdb_error(result), new_path, mdb_strerror(result), message);
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
 * Is it safe to read the map of this file? Its trees must not lead past its end: touching a part of
 * the map that the file does not reach kills the process. A file as long as LMDB's last page says
 * is; for a shorter one base_pages_check has to look (see cover_last_page).
 */
static fdb_error_t environment_check_length(MDB_env *environment) {
    MDB_envinfo information;
    MDB_stat statistics;
    struct os_file file;
    uint64_t size;
    mdb_env_info(environment, &information);
    mdb_env_stat(environment, &statistics);
    mdb_env_get_fd(environment, &file.descriptor);
    fdb_error_t error = os_file_size(&file, &size);
    if (!error && size < (information.me_last_pgno + 1) * (uint64_t)statistics.ms_psize)
        error = base_pages_check(&file);
    return error;
}

/*
 * Looks at an existing file without a lock and without changing anything: is it whole, is it ours,
 * and of a format we know?
 */
static fdb_error_t file_probe(const char *path, char **message) {
    MDB_env *environment;
    MDB_dbi tree;
    uint8_t record[RECORD_BYTES];
    int result =
        base_lmdb_environment_open(path, MDB_RDONLY | MDB_NOLOCK, 1, SMALL_MAP_BYTES, &environment);
    if (result == MDB_INVALID || result == MDB_VERSION_MISMATCH)
        return refuse(ERROR_FORMAT_FOREIGN, path, "not a file of Keel's base", message);
    if (result)
        return refuse(base_lmdb_error(result), path, mdb_strerror(result), message);
    fdb_error_t error = environment_check_length(environment);
    if (!error)
        result = environment_read_record(environment, &tree, record);
    mdb_env_close(environment);
    if (error == ERROR_DATABASE_DAMAGED)
        return refuse(error, path, "a part of the file is missing", message);
    if (error)
        return refuse(error, path, os_last_error(), message);
    if (result == MDB_NOTFOUND)
        return refuse(ERROR_FORMAT_FOREIGN, path, "an LMDB file, but not one of Keel's", message);
    if (result)
        return refuse(base_lmdb_error(result), path, mdb_strerror(result), message);
    if (coding_get_u32(record + RECORD_FORMAT) > FORMAT_VERSION)
        return refuse(ERROR_FORMAT_NEWER, path, "its format is newer than this library", message);
    if (coding_get_u32(record + RECORD_FORMAT) < FORMAT_VERSION)
        return refuse(ERROR_FORMAT_OLDER, path,
                      "its format is older than this library reads; copy the data with the Keel"
                      " that wrote it",
                      message);
    return ERROR_SUCCESS;
}

/* A compaction that was interrupted (compact.c) leaves its unfinished copy. Nobody needs it. */
static void remove_leftover(const char *path) {
    size_t size = strlen(path) + sizeof ".compact";
    char *leftover = memory_allocate(size);
    if (!leftover)
        return;
    snprintf(leftover, size, "%s.compact", path);
    (void)os_remove(leftover);
    memory_free(leftover);
}

/* Leaves a file at `path` that is ours and can be opened. */
static fdb_error_t file_prepare(const char *directory, const char *path, bool sync,
                                char **message) {
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
    return file_probe(path, message);
}

/*
 * Opens for good, with as much address space as can be had: the map bounds the size of the base.
 * Where the system refuses a map that large (ENOMEM; valgrind says EINVAL), a smaller one is tried.
 */
static fdb_error_t file_open(struct lmdb_base *b, const struct base_options *options,
                             char **message) {
    int result = ENOMEM;
    unsigned flags = options->sync ? 0 : MDB_NOSYNC;
    uint64_t map_bytes = MAP_BYTES_MAX;
    for (; (result == ENOMEM || result == EINVAL) && map_bytes >= MAP_BYTES_MIN; map_bytes /= 4)
        result =
            base_lmdb_environment_open(b->path, flags, options->snapshots_max, map_bytes, &b->environment);
    if (result) {
        b->environment = NULL;
        return refuse(base_lmdb_error(result), b->path, mdb_strerror(result), message);
    }
    mdb_reader_check(b->environment,
                     NULL); /* readers of processes that were killed hold nothing back */
    uint8_t record[RECORD_BYTES];
    MDB_stat statistics;
    mdb_env_stat(b->environment, &statistics);
    b->page_bytes = statistics.ms_psize;
    assert(mdb_env_get_maxkeysize(b->environment) >= LMDB_KEY_BYTES);
    result = environment_read_record(b->environment, &b->tree, record);
    if (result)
        return refuse(result == MDB_NOTFOUND ? ERROR_DATABASE_DAMAGED : base_lmdb_error(result),
                      b->path, mdb_strerror(result), message);
    atomic_store(&b->version, (int64_t)coding_get_u64(record + RECORD_VERSION));
    return ERROR_SUCCESS;
}

fdb_error_t base_lmdb_open(const char *directory, const struct base_options *options,
                           struct base **base, char **message) {
    *message = NULL;
    struct lmdb_base *b = memory_allocate_zeroed(sizeof *b);
    if (!b)
        return ERROR_LARGE_ALLOC_FAILED;
    b->base.methods = &lmdb_methods;
    size_t size = strlen(directory) + sizeof file_name + 1;
    b->path = memory_allocate(size);
    b->verified = memory_allocate_zeroed(VERIFIED_PAGES * sizeof *b->verified);
    fdb_error_t error = ERROR_LARGE_ALLOC_FAILED;
    if (b->path && b->verified) {
        snprintf(b->path, size, "%s/%s", directory, file_name);
        error = file_prepare(directory, b->path, options->sync, message);
        if (!error)
            remove_leftover(b->path);
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
