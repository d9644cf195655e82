/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing: set, clear, atomic operations and explicit conflict ranges. Each call checks its
 * arguments in the order of the official client and puts the write into the write map; with
 * read_your_writes_disable it goes to the plain list of mutations instead, in the order of the
 * calls.
 *
 * None of these calls returns an error (a conflict range can, for a caller who looks): it is
 * deferred, and the transaction's next call that answers fails with it, the commit too. Nothing of
 * a refused write is kept, and nothing at all of its transaction is committed.
 *
 * A versionstamped key is not known before the commit. It may come to lie anywhere between the
 * first and the last versionstamp that its commit could get, so:
 *
 *   1. what the write map held in that range is sent before it (commit_flush), because later writes
 *      there may not be merged with it;
 *   2. the range becomes unreadable until the commit;
 *   3. the operation itself waits in the write map under a key with the lowest possible stamp,
 *      offset included;
 *   4. its write conflict range is the database's business.
 *
 * The approximate size counts what the official client counts, with the sizes its structures have
 * on 64-bit machines.
 */
#include "txn/state.h"
#include "util/coding.h"

enum { MUTATION_COST = 44, RANGE_COST = 24, STAMP_BYTES = 10, OFFSET_BYTES = 4 };

/* next_write_no_write_conflict_range holds for one write, refused or not. */
static bool take_conflict_wanted(struct transaction *transaction) {
    bool wanted = !transaction->options.next_write_no_conflict;
    transaction->options.next_write_no_conflict = false;
    return wanted;
}

/*
 * A write when read-your-writes is off: appended to the list, with its conflict range where one is
 * wanted.
 */
static fdb_error_t append(struct transaction *transaction, struct mutation mutation,
                          bool conflict) {
    struct key_range range = {mutation.key, mutation.value};
    if (mutation.type != MUTATION_CLEAR_RANGE && conflict) {
        struct bytes after;
        if (!key_after(&transaction->arena, mutation.key, &after))
            return ERROR_LARGE_ALLOC_FAILED;
        range = (struct key_range){bytes_make(after.data, mutation.key.length), after};
        mutation.key = range.begin;
    }
    if (conflict && !range_list_append(&transaction->write_conflicts, &transaction->arena, range))
        return ERROR_LARGE_ALLOC_FAILED;
    return mutation_list_append(&transaction->mutations, &transaction->arena, mutation) ? 0
           : ERROR_LARGE_ALLOC_FAILED;
}

static fdb_error_t write_key(struct transaction *transaction, struct bytes key,
                             enum mutation_type type, struct bytes value,
                             bool conflict, struct ended *ended) {
    if (!arena_copy(&transaction->arena, value, &value))
        return ERROR_LARGE_ALLOC_FAILED;
    transaction->used = true;
    if (transaction->options.ryw_disabled) {
        if (!conflict && !arena_copy(&transaction->arena, key, &key))
            return ERROR_LARGE_ALLOC_FAILED;
        return append(transaction, (struct mutation){type, key, value}, conflict);
    }
    fdb_error_t error = write_map_mutate(&transaction->writes, key, type, value, conflict);
    if (!error && transaction->watches) {
        struct key_range range = {key, key};
        watches_fire_written(transaction, range, type == MUTATION_SET, &value, ended);
    }
    return error;
}

/* --- Set --- */

static fdb_error_t set(struct transaction *transaction, struct bytes key, struct bytes value,
                       struct ended *ended) {
    if (key.length && key.data[0] == 0xff) {
        if (key_is_metadata_version(key))
            return ERROR_CLIENT_INVALID_OPERATION;
        if (key_is_special(key) && transaction->api_version >= 700)
            return special_write(transaction, key, key);
    }
    bool conflict = take_conflict_wanted(transaction);
    if (transaction_used_during_commit(transaction, ended))
        return ERROR_USED_DURING_COMMIT;
    if (bytes_compare(key, key_max_write(transaction)) >= 0)
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    transaction->approximate_bytes += (int64_t)(key.length + value.length + MUTATION_COST);
    if (conflict)
        transaction->approximate_bytes += (int64_t)(RANGE_COST + 2 * key.length + 1);
    if (key.length > key_bytes_max(key, transaction->options.raw_access))
        return ERROR_KEY_TOO_LARGE;
    if (value.length > VALUE_BYTES_MAX)
        return ERROR_VALUE_TOO_LARGE;
    return write_key(transaction, key, MUTATION_SET, value, conflict, ended);
}

void transaction_set(struct transaction *transaction, struct bytes key, struct bytes value) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction_defer(transaction, set(transaction, key, value, &ended));
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/* --- Clear --- */

static fdb_error_t clear_key(struct transaction *transaction, struct bytes key,
                             struct ended *ended) {
    bool conflict = take_conflict_wanted(transaction);
    if (transaction_used_during_commit(transaction, ended))
        return ERROR_USED_DURING_COMMIT;
    if (key_is_special(key) && transaction->api_version >= 700)
        return special_write(transaction, key, key);
    if (bytes_compare(key, key_max_write(transaction)) >= 0)
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    if (key.length > key_bytes_max(key, true))
        return 0; /* no such key */
    transaction->used = true;
    if (transaction->options.ryw_disabled) {
        struct bytes after;
        if (!key_after(&transaction->arena, key, &after))
            return ERROR_LARGE_ALLOC_FAILED;
        struct mutation clear = {MUTATION_CLEAR_RANGE, bytes_make(after.data, key.length), after};
        return append(transaction, clear, conflict);
    }
    transaction->approximate_bytes += (int64_t)(2 * key.length + 1 + RANGE_COST);
    if (conflict)
        transaction->approximate_bytes += (int64_t)(RANGE_COST + 2 * key.length + 1);
    fdb_error_t error = write_map_clear_key(&transaction->writes, key, conflict);
    if (!error && transaction->watches)
        watches_fire_written(transaction, (struct key_range){key, key}, true, NULL, ended);
    return error;
}

void transaction_clear(struct transaction *transaction, struct bytes key) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction_defer(transaction, clear_key(transaction, key, &ended));
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/*
 * No key is longer than the limit, so a longer boundary can be cut: the same keys lie on either
 * side.
 */
static struct bytes cut(struct bytes key) {
    size_t longest = key_bytes_max(key, true);
    return key.length > longest ? bytes_make(key.data, longest + 1) : key;
}

static bool copy_range(struct arena *arena, struct key_range range, struct key_range *copy) {
    return arena_copy(arena, range.begin, &copy->begin) && arena_copy(arena, range.end, &copy->end);
}

static fdb_error_t clear_range(struct transaction *transaction, struct key_range range,
                               struct ended *ended) {
    if (bytes_compare(range.begin, range.end) > 0)
        return ERROR_INVERTED_RANGE;
    bool conflict = take_conflict_wanted(transaction);
    if (transaction_used_during_commit(transaction, ended))
        return ERROR_USED_DURING_COMMIT;
    if (key_is_special(range.begin) && bytes_compare(range.end,
                                                     BYTES_LITERAL("\xff\xff\xff")) <= 0 &&
        transaction->api_version >= 700)
        return special_write(transaction, range.begin, range.end);
    struct bytes max = key_max_write(transaction);
    if (bytes_compare(range.begin, max) > 0 || bytes_compare(range.end, max) > 0)
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    size_t cost = range.begin.length + range.end.length;
    transaction->approximate_bytes += (int64_t)(cost + MUTATION_COST);
    if (conflict)
        transaction->approximate_bytes += (int64_t)(cost + RANGE_COST);
    range = (struct key_range){cut(range.begin), cut(range.end)};
    if (bytes_compare(range.begin, range.end) >= 0)
        return 0;
    transaction->used = true;
    if (transaction->options.ryw_disabled) {
        if (!copy_range(&transaction->arena, range, &range))
            return ERROR_LARGE_ALLOC_FAILED;
        return append(transaction, (struct mutation){MUTATION_CLEAR_RANGE, range.begin, range.end},
                      conflict);
    }
    fdb_error_t error = write_map_clear_range(&transaction->writes, range, conflict);
    if (!error && transaction->watches)
        watches_fire_written(transaction, range, true, NULL, ended);
    return error;
}

void transaction_clear_range(struct transaction *transaction, struct bytes begin,
                             struct bytes end) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction_defer(transaction, clear_range(transaction, (struct key_range){begin, end},
                                               &ended));
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/* --- Atomic operations --- */

static bool is_operation(int type) {
    return type == MUTATION_SET_VERSIONSTAMPED_KEY || type == MUTATION_SET_VERSIONSTAMPED_VALUE ||
           mutation_is_atomic((enum mutation_type)type);
}

static fdb_error_t check_operation(struct transaction *transaction, struct bytes key,
                                   struct bytes operand, int type) {
    static const uint8_t stamp_only[STAMP_BYTES + OFFSET_BYTES];
    if (key_is_metadata_version(key)) {
        if (type != MUTATION_SET_VERSIONSTAMPED_VALUE ||
            !bytes_equal(operand, bytes_make(stamp_only, sizeof stamp_only)))
            return ERROR_CLIENT_INVALID_OPERATION;
    } else if (bytes_compare(key, key_max_write(transaction)) >= 0) {
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    }
    if (!is_operation(type))
        return ERROR_INVALID_MUTATION_TYPE;
    if (key.length > key_bytes_max(key, transaction->options.raw_access))
        return ERROR_KEY_TOO_LARGE;
    return operand.length > VALUE_BYTES_MAX ? ERROR_VALUE_TOO_LARGE : 0;
}

/*
 * Before API version 520 keys ended in two bytes of offset and values had none: brings them into
 * the later form.
 */
static bool with_zeroes(struct transaction *transaction, struct bytes *text, size_t count) {
    uint8_t *copy = arena_allocate_bytes(&transaction->arena, text->length + count);
    if (!copy)
        return false;
    if (text->length)
        memcpy(copy, text->data, text->length);
    memset(copy + text->length, 0, count);
    *text = bytes_make(copy, text->length + count);
    return true;
}

/* Steps 1 and 2 for a versionstamped key; *key becomes the one it waits under. */
static fdb_error_t prepare_stamped_key(struct transaction *transaction, struct bytes *key) {
    struct arena *arena = &transaction->arena;
    struct key_range range;
    fdb_error_t error = commit_stamp_range(transaction, *key, arena, &range);
    if (error)
        return error;
    uint8_t *waiting = arena_allocate_bytes(arena, key->length);
    struct bytes given;
    if (!waiting || !arena_copy(arena, *key, &given) ||
        !range_list_append(&transaction->stamped_keys, arena, (struct key_range){given, given}))
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(waiting, range.begin.data, range.begin.length);
    memcpy(waiting + range.begin.length, key->data + range.begin.length, OFFSET_BYTES);
    *key = bytes_make(waiting, key->length);
    if (transaction->options.ryw_disabled || bytes_compare(range.begin, range.end) >= 0)
        return 0;
    error = commit_flush(transaction, range);
    return error ? error : write_map_make_unreadable(&transaction->writes, range);
}

static fdb_error_t atomic_op(struct transaction *transaction, struct bytes key,
                             struct bytes operand, int type,
                             struct ended *ended) {
    bool conflict = take_conflict_wanted(transaction);
    if (transaction_used_during_commit(transaction, ended))
        return ERROR_USED_DURING_COMMIT;
    fdb_error_t error = check_operation(transaction, key, operand, type);
    if (error)
        return error;
    if (type == MUTATION_MIN)
        type = MUTATION_MIN_V2;
    else if (type == MUTATION_AND)
        type = MUTATION_AND_V2;
    size_t given_bytes = key.length, position;
    struct bytes body;
    bool old = transaction->api_version < 520;
    if (type == MUTATION_SET_VERSIONSTAMPED_KEY) {
        if (old && !with_zeroes(transaction, &key, 2))
            return ERROR_LARGE_ALLOC_FAILED;
        error = prepare_stamped_key(transaction, &key);
        conflict = false;
    } else if (type == MUTATION_SET_VERSIONSTAMPED_VALUE) {
        if (old && !with_zeroes(transaction, &operand, OFFSET_BYTES))
            return ERROR_LARGE_ALLOC_FAILED;
        error = mutation_stamp_position(operand, &body, &position);
    }
    if (error)
        return error;
    transaction->approximate_bytes += (int64_t)(key.length + operand.length + MUTATION_COST);
    if (conflict)
        transaction->approximate_bytes += (int64_t)(RANGE_COST + 2 * given_bytes + 1);
    return write_key(transaction, key, (enum mutation_type)type, operand, conflict, ended);
}

void transaction_atomic_op(struct transaction *transaction, struct bytes key, struct bytes operand,
                           int type) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    transaction_defer(transaction, atomic_op(transaction, key, operand, type, &ended));
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
}

/* --- Explicit conflict ranges --- */

static fdb_error_t add_read_conflict(struct transaction *transaction, struct key_range range) {
    struct bytes max = key_max_read(transaction);
    if ((bytes_compare(range.begin, max) > 0 || bytes_compare(range.end, max) > 0) &&
        !(key_is_metadata_version(range.begin) &&
          bytes_equal(range.end, BYTES_LITERAL("\xff/metadataVersion\0"))))
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    range = (struct key_range){cut(range.begin), cut(range.end)};
    if (transaction->options.ryw_disabled && bytes_compare(range.begin, range.end) < 0)
        transaction->approximate_bytes +=
            (int64_t)(range.begin.length + range.end.length + RANGE_COST);
    return conflict_add_range(transaction, range.begin, range.end);
}

static fdb_error_t add_write_conflict(struct transaction *transaction, struct key_range range) {
    struct bytes max = key_max_write(transaction);
    if (bytes_compare(range.begin, max) > 0 || bytes_compare(range.end, max) > 0)
        return ERROR_KEY_OUTSIDE_LEGAL_RANGE;
    range = (struct key_range){cut(range.begin), cut(range.end)};
    if (bytes_compare(range.begin, range.end) >= 0)
        return 0;
    transaction->approximate_bytes += (int64_t)(range.begin.length + range.end.length + RANGE_COST);
    if (!transaction->options.ryw_disabled) {
        transaction->used = true;
        return write_map_add_conflict(&transaction->writes, range);
    }
    struct arena *arena = &transaction->arena;
    if (!copy_range(arena, range, &range) || !range_list_append(&transaction->write_conflicts,
                                                                arena, range))
        return ERROR_LARGE_ALLOC_FAILED;
    return 0;
}

fdb_error_t transaction_add_conflict_range(struct transaction *transaction, struct bytes begin,
                                           struct bytes end, int type) {
    if (bytes_compare(begin, end) > 0)
        return ERROR_INVERTED_RANGE;
    if (type != FDB_CONFLICT_RANGE_TYPE_READ && type != FDB_CONFLICT_RANGE_TYPE_WRITE)
        return ERROR_CLIENT_INVALID_OPERATION;
    struct key_range range = {begin, end};
    struct ended ended = {0};
    fdb_error_t error;
    os_mutex_lock(&transaction->lock);
    if (transaction_used_during_commit(transaction, &ended))
        error = ERROR_USED_DURING_COMMIT;
    else if (type == FDB_CONFLICT_RANGE_TYPE_READ)
        error = add_read_conflict(transaction, range);
    else
        error = add_write_conflict(transaction, range);
    transaction_defer(transaction, error);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    return error;
}
