/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special keys, \xff\xff to \xff\xff\xff: no data but questions to the client, answered here.
 *
 * The space is divided into modules. A read must stay within one (CROSS_MODULE_READ,
 * NO_MODULE_FOUND) unless special_key_space_relaxed is set. These answer; the other modules of
 * FoundationDB, which describe a cluster, are known and empty:
 *
 *     /status/json                        the status document (status.c)
 *     /connection_string                  as the database was opened
 *     /cluster_file_path                  likewise
 *     /transaction/conflicting_keys/      why the last commit failed, with the option
 *     /transaction/read_conflict_range/   read conflict ranges so far
 *     /transaction/write_conflict_range/  write conflict ranges so far
 *
 * Ranges are shown by their ends: the key where one begins with the value "1", the key where it
 * ends with "0", both behind the prefix.
 *
 * Nothing can be written, except that tenants, of which there are none, can be cleared:
 * WRITE_DISABLED without special_key_space_enable_writes,
 * NO_WRITE_MODULE_FOUND with it.
 *
 * A read makes all rows of the modules it touches, resolves its selectors among them and copies
 * what lies between. That is not fast and need not be. All under the transaction's lock.
 */
#include "txn/state.h"

struct module {
    struct bytes begin, end;
};

#define PREFIX(name) {BYTES("\xff\xff/" name "/"), BYTES("\xff\xff/" name "0")}
#define SINGLE(name) {BYTES("\xff\xff/" name), BYTES("\xff\xff/" name "\0")}
#define BYTES(text) {(const uint8_t *)(text), sizeof(text) - 1}

/* In key order. */
static const struct module MODULES[] = {
    PREFIX("actor_lineage"), PREFIX("actor_profiler_conf"), SINGLE("cluster_file_path"),
        SINGLE("cluster_id"),
    PREFIX("configuration"), SINGLE("connection_string"),   SINGLE("error_message"),
        PREFIX("global_config"),
    PREFIX("management"),    PREFIX("metrics"),             SINGLE("status/json"),
        PREFIX("tracing"),
    PREFIX("transaction"),   PREFIX("worker_interfaces"),
};
enum { MODULE_COUNT = sizeof MODULES / sizeof MODULES[0] };

static const struct bytes SPACE_BEGIN = BYTES("\xff\xff"), SPACE_END = BYTES("\xff\xff\xff");

/* --- Rows --- */

/* All rows of the space within `range`, in order. */
struct gathering {
    struct transaction *transaction;
    struct key_range range;
    struct rows *rows;
    struct arena arena;
};

static fdb_error_t add_row(struct gathering *gathering, struct bytes key, struct bytes value) {
    if (!key_range_contains(gathering->range, key))
        return 0;
    return rows_append(gathering->rows, key, value) ? 0 : ERROR_LARGE_ALLOC_FAILED;
}

static fdb_error_t add_boundary(struct gathering *gathering, struct bytes prefix, struct bytes key,
                                const char *value) {
    uint8_t *room = arena_allocate_bytes(&gathering->arena, prefix.length + key.length);
    if (!room)
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(room, prefix.data, prefix.length);
    if (key.length)
        memcpy(room + prefix.length, key.data, key.length);
    return add_row(gathering, bytes_make(room, prefix.length + key.length), bytes_make(value, 1));
}

/* Sorted, joined ranges as rows behind `prefix`. */
static fdb_error_t add_ranges(struct gathering *gathering, struct bytes prefix,
                              const struct key_range *ranges, size_t count) {
    fdb_error_t error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        error = add_boundary(gathering, prefix, ranges[i].begin, "1");
        if (!error && bytes_compare(ranges[i].end, BYTES_LITERAL("\xff\xff")) < 0)
            error = add_boundary(gathering, prefix, ranges[i].end, "0");
    }
    return error;
}

static fdb_error_t copy_list(struct gathering *gathering, const struct range_list *list,
                             struct range_list *copy) {
    for (const struct range_chunk *chunk = list->first; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count; i++) {
            if (!range_list_append(copy, &gathering->arena, chunk->ranges[i]))
                return ERROR_LARGE_ALLOC_FAILED;
        }
    }
    return 0;
}

static fdb_error_t add_list(struct gathering *gathering, struct bytes prefix,
                            const struct range_list *list) {
    struct key_range *ranges;
    if (!range_list_flatten(list, &gathering->arena, &ranges))
        return ERROR_LARGE_ALLOC_FAILED;
    return add_ranges(gathering, prefix, ranges, ranges ? key_ranges_merge(ranges, list->count)
                      : 0);
}

static fdb_error_t add_read_conflicts(struct gathering *gathering) {
    struct range_list list = {0};
    fdb_error_t error = copy_list(gathering, &gathering->transaction->read_conflicts, &list);
    return error ? error
                 : add_list(gathering, BYTES_LITERAL("\xff\xff/transaction/read_conflict_range/"),
                            &list);
}

/*
 * A versionstamped key conflicts as itself once its stamp is known, before that wherever it may
 * come to lie.
 */
static fdb_error_t stamped_range(struct gathering *gathering, struct bytes key,
                                 struct key_range *range) {
    struct transaction *transaction = gathering->transaction;
    fdb_error_t error = commit_stamp_range(transaction, key, &gathering->arena, range);
    struct bytes body;
    size_t offset;
    if (error || !transaction->stamp_known || mutation_stamp_position(key, &body, &offset))
        return error;
    struct bytes after;
    if (!key_after(&gathering->arena, body, &after))
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy((uint8_t *)(uintptr_t)after.data + offset, transaction->stamp,
           sizeof transaction->stamp);
    *range = (struct key_range){bytes_make(after.data, body.length), after};
    return 0;
}

static fdb_error_t add_write_conflicts(struct gathering *gathering) {
    struct transaction *transaction = gathering->transaction;
    struct range_list list = {0};
    fdb_error_t error = copy_list(gathering, &transaction->write_conflicts, &list);
    for (const struct range_chunk *chunk = transaction->stamped_keys.first; chunk &&
         !error; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count && !error; i++) {
            struct key_range range;
            error = stamped_range(gathering, chunk->ranges[i].begin, &range);
            if (!error && bytes_compare(range.begin, range.end) < 0 &&
                !range_list_append(&list, &gathering->arena, range))
                error = ERROR_LARGE_ALLOC_FAILED;
        }
    }
    if (!error && !write_map_is_empty(&transaction->writes)) {
        struct write_segment segment = write_map_find(&transaction->writes, BYTES_LITERAL(""));
        for (;; segment = write_segment_next(segment)) {
            struct key_range range = {write_segment_begin(segment), write_segment_end(segment)};
            if (write_segment_conflicts(segment) && !range_list_append(&list, &gathering->arena,
                    range))
                return ERROR_LARGE_ALLOC_FAILED;
            if (write_segment_is_last(segment))
                break;
        }
    }
    return error ? error
                 : add_list(gathering, BYTES_LITERAL("\xff\xff/transaction/write_conflict_range/"),
                            &list);
}

static fdb_error_t add_conflicting_keys(struct gathering *gathering) {
    const struct conflict_report *report = gathering->transaction->report;
    if (!report)
        return 0;
    return add_ranges(gathering, BYTES_LITERAL("\xff\xff/transaction/conflicting_keys/"),
                      report->ranges, report->count);
}

static bool wants(const struct gathering *gathering,
                  struct bytes key) { return key_range_contains(gathering->range, key); }

static struct bytes text(const char *string) { return bytes_make(string, strlen(string)); }

/* Module after module in key order. */
static fdb_error_t gather(struct gathering *gathering) {
    const struct database_handle *handle = gathering->transaction->handle;
    struct bytes status = BYTES_LITERAL("\xff\xff/status/json"), document;
    fdb_error_t error = add_row(gathering, BYTES_LITERAL("\xff\xff/cluster_file_path"),
                                text(handle->cluster_file_path));
    if (!error)
        error = add_row(gathering, BYTES_LITERAL("\xff\xff/connection_string"),
                        text(handle->connection_string));
    if (!error && wants(gathering, status)) {
        error = status_document(gathering->transaction->handle, &gathering->arena, &document);
        if (!error)
            error = add_row(gathering, status, document);
    }
    if (!error)
        error = add_conflicting_keys(gathering);
    if (!error)
        error = add_read_conflicts(gathering);
    return error ? error : add_write_conflicts(gathering);
}

/* --- Reading --- */

/* The module, or the gap between two, in which `key` lies. */
static struct module module_at(struct bytes key, bool *known) {
    struct module found = {SPACE_BEGIN, SPACE_END};
    *known = false;
    for (int i = 0; i < MODULE_COUNT; i++) {
        if (bytes_compare(key, MODULES[i].begin) < 0) {
            found.end = MODULES[i].begin;
            return found;
        }
        if (bytes_compare(key, MODULES[i].end) < 0) {
            *known = true;
            return MODULES[i];
        }
        found.begin = MODULES[i].end;
    }
    return found;
}

static fdb_error_t find_boundary(const struct transaction *transaction, struct bytes begin,
                                 struct bytes end,
                                 struct key_range *boundary) {
    *boundary = (struct key_range){SPACE_BEGIN, SPACE_END};
    if (transaction->options.special_relaxed)
        return 0;
    bool known;
    struct module module = module_at(begin, &known);
    if (bytes_compare(module.begin, end) > 0 || bytes_compare(end, module.end) > 0)
        return ERROR_SPECIAL_KEYS_CROSS_MODULE_READ;
    if (!known)
        return ERROR_SPECIAL_KEYS_NO_MODULE_FOUND;
    *boundary = (struct key_range){module.begin, module.end};
    return 0;
}

/* The index in `rows` to which a selector leads: between 0 and rows->count. */
static int64_t locate(const struct rows *rows, struct key_selector selector) {
    int64_t at = 0;
    while (at < rows->count) {
        int order = bytes_compare(rows_key(rows, (int)at), selector.key);
        if (selector.or_equal ? order > 0 : order >= 0)
            break;
        at++;
    }
    at += (int64_t)selector.offset - 1;
    return at < 0 ? 0 : at > rows->count ? rows->count : at;
}

static fdb_error_t copy_rows(const struct rows *all, int64_t from, int64_t to, int64_t row_limit,
                             int64_t byte_limit,
                             bool reverse, struct rows *rows, bool *more) {
    *more = false;
    for (int64_t i = from; i < to; i++) {
        int at = (int)(reverse ? to - 1 - (i - from) : i);
        struct bytes key = rows_key(all, at), value = rows_value(all, at);
        if (!rows_append(rows, key, value))
            return ERROR_LARGE_ALLOC_FAILED;
        if (byte_limit != INT64_MAX)
            byte_limit -= (int64_t)(8 + key.length + value.length);
        if (--row_limit <= 0 || byte_limit <= 0) {
            *more = true;
            return 0;
        }
    }
    return 0;
}

fdb_error_t special_get_range(struct transaction *transaction, struct key_selector begin,
                              struct key_selector end,
                              int64_t row_limit, int64_t byte_limit, bool reverse,
                                  struct rows *rows, bool *more) {
    int order = bytes_compare(begin.key, end.key);
    if (begin.offset >= end.offset && (order > 0 || (order == 0 &&
                                                     begin.or_equal >= end.or_equal))) {
        *more = false;
        return 0;
    }
    struct key_range boundary;
    fdb_error_t error = find_boundary(transaction, begin.key, end.key, &boundary);
    if (error)
        return error;
    struct rows all = {0};
    struct gathering gathering = {.transaction = transaction, .range = boundary, .rows = &all};
    if (begin.offset == 1 && end.offset == 1 && !end.or_equal && !begin.or_equal)
        gathering.range = (struct key_range){bytes_max(begin.key, boundary.begin),
                                             bytes_min(end.key, boundary.end)};
    error = gather(&gathering);
    if (!error) {
        int64_t from = locate(&all, begin), to = locate(&all, end);
        error = copy_rows(&all, from, to, row_limit, byte_limit, reverse, rows, more);
    }
    arena_free(&gathering.arena);
    rows_free(&all);
    return error;
}

fdb_error_t special_get(struct transaction *transaction, struct bytes key, struct arena *arena,
                        struct bytes *value,
                        bool *present) {
    struct rows rows = {0};
    bool more;
    struct key_selector begin = {key, false, 1}, end = {key, true, 1};
    struct bytes after;
    if (!key_after(arena, key, &after))
        return ERROR_LARGE_ALLOC_FAILED;
    end = (struct key_selector){after, false, 1};
    fdb_error_t error = special_get_range(transaction, begin, end, INT64_MAX, INT64_MAX, false,
                                          &rows, &more);
    struct bytes copy;
    if (!error && rows.count && !arena_copy(arena, rows_value(&rows, 0), &copy))
        error = ERROR_LARGE_ALLOC_FAILED;
    if (!error) {
        *present = rows.count > 0;
        if (*present)
            *value = copy;
    }
    rows_free(&rows);
    return error;
}

/* Clearing tenants removes all there are: none. */
static bool is_clear_of_tenants(struct bytes begin, struct bytes end) {
    struct bytes first = BYTES_LITERAL("\xff\xff/management/tenant/map/");
    struct bytes last = BYTES_LITERAL("\xff\xff/management/tenant/map0");
    return bytes_compare(begin, end) < 0 && bytes_compare(first, begin) <= 0 &&
           bytes_compare(end, last) <= 0;
}

fdb_error_t special_write(struct transaction *transaction, struct bytes begin, struct bytes end) {
    if (!transaction->options.special_writes)
        return ERROR_SPECIAL_KEYS_WRITE_DISABLED;
    return is_clear_of_tenants(begin, end) ? 0 : ERROR_SPECIAL_KEYS_NO_WRITE_MODULE_FOUND;
}
