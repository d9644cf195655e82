/* SPDX-License-Identifier: Apache-2.0 */
/*
 * du: how much is in each directory.
 *
 * The key space is cut into ranges that do not overlap, each with an owner. A directory owns the keys under its prefix. A partition owns what lies under
 * its prefix and in no directory of it: its tree. / owns what lies in no directory at all. So the own sizes add up to the whole, and the
 * total of a directory is its own size and the totals of those in it.
 *
 * A range is estimated by the database, many at once, or counted by reading it (--exact) in transactions of a bounded number of rows. Either
 * way the progress is kept outside of the transaction, which can end at any point and be followed by another one; the numbers of a
 * database that changes meanwhile are those of different moments.
 *
 * Threads: one. Failure: reported with the path; Ctrl-C between any two reads.
 */
#include "structure.h"

#include <stdlib.h>
#include <string.h>

enum { ESTIMATES_AT_ONCE = 64, ROWS_PER_TRANSACTION = 100000, BYTES_PER_TRANSACTION = 20000000 };

struct size {
    uint64_t rows, bytes;
};

/* [begin, end), owned by a node of the list. */
struct owned {
    keel_bytes begin, end; /* the nodes' prefixes, or their ends */
    size_t owner;
};

struct du {
    struct node_list list;
    struct buffer *ends; /* for each node the key behind its prefix */
    size_t *sorted;      /* nodes in the order of prefixes */
    struct owned *ranges;
    size_t range_count;
    struct size *own, *total;

    size_t next;          /* range that is being measured */
    struct buffer cursor; /* --exact: rows below are counted; empty: at the beginning of the range */
    uint64_t bytes_done, rows_done;
    struct size page;
    struct buffer last_key;
};

/* ---- Cutting ---- */

static const struct node_list *sorted_list;

static keel_bytes prefix_of(const struct node *node) {
    return keel_bytes_of(node->prefix.data, node->prefix.length);
}

static int compare_prefixes(const void *a, const void *b) {
    return keel_bytes_compare(prefix_of(&sorted_list->nodes[*(const size_t *)a]), prefix_of(&sorted_list->nodes[*(const size_t *)b]));
}

static void add_range(struct du *du, keel_bytes begin, keel_bytes end, size_t owner) {
    if (keel_bytes_compare(begin, end) < 0)
        du->ranges[du->range_count++] = (struct owned){begin, end, owner};
}

/* Where in the sorted nodes the first prefix is that is not below `key`. */
static size_t find_prefix(const struct du *du, keel_bytes key) {
    size_t low = 0, high = du->list.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (keel_bytes_compare(prefix_of(&du->list.nodes[du->sorted[middle]]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What of [begin, end) lies under no other node's prefix. */
static void add_gaps(struct du *du, keel_bytes begin, keel_bytes end, size_t owner) {
    keel_bytes here = begin;
    for (size_t i = find_prefix(du, begin); i < du->list.count; i++) {
        size_t index = du->sorted[i];
        keel_bytes prefix = prefix_of(&du->list.nodes[index]);
        if (keel_bytes_compare(prefix, end) >= 0)
            break;
        if (index == owner || prefix.length == 0 || keel_bytes_compare(prefix, here) < 0)
            continue;
        add_range(du, here, prefix, owner);
        here = keel_bytes_of(du->ends[index].data, du->ends[index].length);
    }
    add_range(du, here, end, owner);
}

static fdb_error_t find_ends(struct du *du) {
    fdb_error_t error = 0;
    for (size_t i = 0; !error && i < du->list.count; i++) {
        const struct node *node = &du->list.nodes[i];
        du->sorted[i] = i;
        if (node->path.count == 0) {
            buffer_append(&du->ends[i], "\xff", 1);
        } else {
            buffer_append(&du->ends[i], node->prefix.data, node->prefix.length);
            error = keel_strinc(prefix_of(node), du->ends[i].data, du->ends[i].length, &du->ends[i].length);
        }
    }
    return error;
}

/* The ranges of all nodes. At most two for each prefix, and one more for each partition and /. */
static fdb_error_t cut(struct du *du) {
    size_t count = du->list.count;
    du->ends = calloc(count, sizeof *du->ends);
    du->sorted = calloc(count, sizeof *du->sorted);
    du->own = calloc(count, sizeof *du->own);
    du->total = calloc(count, sizeof *du->total);
    du->ranges = calloc(3 * count + 1, sizeof *du->ranges);
    if (!du->ends || !du->sorted || !du->own || !du->total || !du->ranges)
        return 1501;
    fdb_error_t error = find_ends(du);
    if (error)
        return error;
    sorted_list = &du->list;
    qsort(du->sorted, count, sizeof *du->sorted, compare_prefixes);
    for (size_t i = 0; i < count; i++) {
        const struct node *node = &du->list.nodes[i];
        keel_bytes end = keel_bytes_of(du->ends[i].data, du->ends[i].length);
        if (node->is_partition || node->path.count == 0)
            add_gaps(du, prefix_of(node), end, i);
        else
            add_range(du, prefix_of(node), end, i);
    }
    return 0;
}

static void du_free(struct du *du) {
    for (size_t i = 0; du->ends && i < du->list.count; i++)
        buffer_free(&du->ends[i]);
    free(du->ends);
    free(du->sorted);
    free(du->own);
    free(du->total);
    free(du->ranges);
    node_list_free(&du->list);
    buffer_free(&du->cursor);
    buffer_free(&du->last_key);
}

/* ---- Measuring ---- */

static fdb_error_t estimate_some(FDBTransaction *tr, struct du *du) {
    FDBFuture *futures[ESTIMATES_AT_ONCE];
    size_t count = du->range_count - du->next < ESTIMATES_AT_ONCE ? du->range_count - du->next : ESTIMATES_AT_ONCE;
    fdb_error_t error = 0;
    for (size_t i = 0; i < count; i++) {
        const struct owned *range = &du->ranges[du->next + i];
        futures[i] = fdb_transaction_get_estimated_range_size_bytes(tr, range->begin.data, (int)range->begin.length, range->end.data,
                                                                    (int)range->end.length);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t bytes;
        if (!error)
            error = session_wait(futures[i]);
        if (!error)
            error = fdb_future_get_int64(futures[i], &bytes);
        if (!error) {
            du->own[du->ranges[du->next++].owner].bytes += bytes > 0 ? (uint64_t)bytes : 0;
            du->bytes_done += bytes > 0 ? (uint64_t)bytes : 0;
        }
        fdb_future_destroy(futures[i]);
    }
    return error;
}

static fdb_error_t estimate(FDBTransaction *tr, void *context) {
    struct du *du = context;
    fdb_error_t error = 0;
    while (!error && du->next < du->range_count)
        error = estimate_some(tr, du);
    return error;
}

static fdb_error_t count_row(void *context, keel_bytes key, keel_bytes value) {
    struct du *du = context;
    du->page.rows++;
    du->page.bytes += key.length + value.length;
    du->last_key.length = 0;
    buffer_append(&du->last_key, key.data, key.length);
    return 0;
}

/* One answer of the database. */
static fdb_error_t count_page(FDBTransaction *tr, struct du *du) {
    const struct owned *range = &du->ranges[du->next];
    keel_bytes begin = du->cursor.length > 0 ? keel_bytes_of(du->cursor.data, du->cursor.length) : range->begin;
    bool more;
    du->page = (struct size){0};
    fdb_error_t error = rows_visit(tr, begin, range->end, 0, true, count_row, du, &more);
    if (error)
        return error;
    du->own[range->owner].rows += du->page.rows;
    du->own[range->owner].bytes += du->page.bytes;
    du->rows_done += du->page.rows;
    du->bytes_done += du->page.bytes;
    du->cursor.length = 0;
    if (more && du->page.rows > 0) {
        buffer_append(&du->cursor, du->last_key.data, du->last_key.length);
        buffer_append(&du->cursor, "", 1);
    } else {
        du->next++;
    }
    return 0;
}

static fdb_error_t count_some(FDBTransaction *tr, void *context) {
    struct du *du = context;
    uint64_t rows_max = du->rows_done + ROWS_PER_TRANSACTION, bytes_max = du->bytes_done + BYTES_PER_TRANSACTION;
    fdb_error_t error = 0;
    while (!error && du->next < du->range_count && du->rows_done < rows_max && du->bytes_done < bytes_max)
        error = count_page(tr, du);
    return error;
}

static fdb_error_t count_all(struct session *session, struct du *du) {
    fdb_error_t error = session_read(session, estimate, du);
    struct progress *progress = progress_begin(session, "counting", "bytes", du->bytes_done);
    du->next = 0;
    du->bytes_done = 0;
    memset(du->own, 0, du->list.count * sizeof *du->own);
    while (!error && du->next < du->range_count) {
        error = session_read(session, count_some, du);
        progress_update(progress, du->bytes_done, du->rows_done);
    }
    progress_end(progress, !error);
    return error;
}

/* ---- Adding up and printing ---- */

/* Children stand behind their parents in the list: from the last to the first, each adds its total to its parent's. */
static fdb_error_t add_up(struct du *du) {
    size_t count = du->list.count, root = du->list.nodes[0].path.count, depth_max = 0;
    for (size_t i = 0; i < count; i++)
        depth_max = du->list.nodes[i].path.count - root > depth_max ? du->list.nodes[i].path.count - root : depth_max;
    size_t *parents = calloc(count, sizeof *parents), *last = calloc(depth_max + 1, sizeof *last);
    fdb_error_t error = parents && last ? 0 : 1501;
    for (size_t i = 0; !error && i < count; i++) {
        size_t depth = du->list.nodes[i].path.count - root;
        last[depth] = i;
        parents[i] = depth > 0 ? last[depth - 1] : 0;
        du->total[i] = du->own[i];
    }
    for (size_t i = count; !error && i-- > 1;) {
        du->total[parents[i]].rows += du->total[i].rows;
        du->total[parents[i]].bytes += du->total[i].bytes;
    }
    free(parents);
    free(last);
    return error;
}

static void print_size(const struct du *du, size_t index, bool exact) {
    struct buffer path = {0};
    text_from_path(du->list.nodes[index].path, &path);
    if (exact)
        printf("%14s  ", human_count(du->own[index].rows));
    printf("%10s  %10s  %.*s\n", human_bytes(du->own[index].bytes), human_bytes(du->total[index].bytes), (int)path.length, (const char *)path.data);
    buffer_free(&path);
}

static void print_size_json(const struct du *du, size_t index, bool exact) {
    json_t *object = json_pack("{s:o,s:b,s:I,s:I}", "path", path_json(du->list.nodes[index].path), "exact", exact, "bytes",
                               (json_int_t)du->own[index].bytes, "total_bytes", (json_int_t)du->total[index].bytes);
    if (exact) {
        json_object_set_new(object, "rows", json_integer((json_int_t)du->own[index].rows));
        json_object_set_new(object, "total_rows", json_integer((json_int_t)du->total[index].rows));
    }
    output_json(object);
}

static void print_sizes(const struct session *session, const struct du *du, bool exact, int64_t depth_max) {
    size_t root = du->list.nodes[0].path.count;
    if (!session->json) {
        if (exact)
            printf("%14s  ", "rows");
        printf("%10s  %10s  directory\n", "bytes", "in all");
    }
    for (size_t i = 0; i < du->list.count; i++) {
        if ((int64_t)(du->list.nodes[i].path.count - root) > depth_max)
            continue;
        if (session->json)
            print_size_json(du, i, exact);
        else
            print_size(du, i, exact);
    }
}

int run_du(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("du");
    const char *exact = NULL, *depth = NULL, *message;
    const struct option_spec specs[] = {{"exact", 'e', false, &exact}, {"depth", 'd', true, &depth}, {0}};
    int64_t depth_max = INT64_MAX;
    struct text_path place = {0};
    struct du du = {0};
    if (!options_parse(command, &argc, argv, specs) || (depth && !options_number("depth", depth, 0, INT64_MAX, &depth_max)))
        return EXIT_USAGE;
    if (argc > 2)
        return usage_error(command, "There is an argument too many: %s", argv[2]);
    const char *path = argc > 1 ? argv[1] : "/";
    int code = EXIT_OK;
    if (!text_to_path(path, &place, &message)) {
        code = usage_error(command, "%s", message);
    } else {
        fdb_error_t error = node_list_walk(session, place.path, SIZE_MAX, &du.list);
        if (!error)
            error = cut(&du);
        if (!error)
            error = exact ? count_all(session, &du) : session_read(session, estimate, &du);
        if (!error)
            error = add_up(&du);
        if (error)
            code = report_error("du", path, error);
        else
            print_sizes(session, &du, exact != NULL, depth_max);
    }
    du_free(&du);
    text_path_free(&place);
    return code;
}
