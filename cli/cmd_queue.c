/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue: first in, first out, one queue a directory (keel/queue.h).
 *
 * pop prints what it took once that is committed: what a script sees is its own. Between begin and commit it is taken when the transaction commits.
 * ls reads the rows of the directory, which are in the order of the queue, some hundred kilobytes at a time.
 *
 * Threads: one. Failure: an empty queue is EXIT_NOT_FOUND, for scripts that work until there is nothing left.
 */
#include "recipes.h"

#include <stdlib.h>

struct queue {
    struct call *call;
    struct buffer *values; /* to push */
    int value_count;
    int64_t count; /* how many to pop or show at most */
    bool remove;
    int64_t size;
    struct results results;

    keel_subspace space;
    struct buffer cursor, last_key; /* ls: where to go on, empty: at the beginning; and the last row */
    bool done;
};

static void queue_free(struct queue *queue) {
    for (int i = 0; queue->values && i < queue->value_count; i++)
        buffer_free(&queue->values[i]);
    free(queue->values);
    results_free(&queue->results);
    buffer_free(&queue->cursor);
    buffer_free(&queue->last_key);
}

static void add_value(struct queue *queue, keel_bytes value) {
    if (queue->call->session->json) {
        results_json(&queue->results, json_pack("{s:o}", "value", output_json_bytes(NULL, value)));
    } else {
        results_value(&queue->results, value);
        results_format(&queue->results, "\n");
        queue->results.count++;
    }
}

/* ---- push ---- */

static fdb_error_t push_values(FDBTransaction *tr, void *context) {
    struct queue *queue = context;
    keel_subspace space;
    fdb_error_t error = call_create(queue->call, tr, &space);
    for (int i = 0; !error && i < queue->value_count; i++)
        error = keel_queue_enqueue(tr, &space, keel_bytes_of(queue->values[i].data, queue->values[i].length));
    return error;
}

static int queue_push(struct call *call) {
    struct queue queue = {.call = call};
    int code = call_begin(call, NULL, 1, -1);
    if (code)
        return code;
    queue.value_count = call->argc;
    queue.values = calloc((size_t)call->argc, sizeof *queue.values);
    if (!queue.values)
        return report("out of memory");
    for (int i = 0; !code && i < call->argc; i++)
        code = call_value(call, call->argv[i], &queue.values[i]) ? EXIT_OK : EXIT_USAGE;
    if (!code) {
        fdb_error_t error = session_write(call->session, push_values, &queue);
        if (error)
            code = call_report(call, NULL, error);
        else
            answer_write(call->session, json_pack("{s:i}", "pushed", queue.value_count));
    }
    queue_free(&queue);
    return code;
}

/* ---- pop and peek ---- */

static fdb_error_t take_values(FDBTransaction *tr, void *context) {
    struct queue *queue = context;
    keel_subspace space;
    uint8_t *value = NULL;
    size_t length;
    results_clear(&queue->results);
    fdb_error_t error = call_open(queue->call, tr, &space);
    for (int64_t i = 0; !error && i < queue->count; i++) {
        error = queue->remove ? keel_queue_dequeue(tr, &space, &value, &length) : keel_queue_peek(tr, &space, &value, &length);
        if (error || !value)
            break;
        add_value(queue, keel_bytes_of(value, length));
        free(value);
    }
    return error ? error : queue->results.count == 0 ? KEEL_ERROR_NOT_FOUND : 0;
}

static int report_values(struct queue *queue, fdb_error_t error) {
    if (error == KEEL_ERROR_NOT_FOUND)
        return call_not_found(queue->call, "The queue is empty");
    if (error)
        return call_report(queue->call, NULL, error);
    results_print(&queue->results);
    return EXIT_OK;
}

static int queue_pop(struct call *call) {
    struct queue queue = {.call = call, .count = 1, .remove = true};
    const char *count = NULL;
    const struct option_spec specs[] = {{"count", 'n', true, &count}, {0}};
    int code = call_begin(call, specs, 0, 0);
    if (!code && count && !options_number("count", count, 1, 10000, &queue.count))
        code = EXIT_USAGE;
    if (!code)
        code = report_values(&queue, session_write(call->session, take_values, &queue));
    queue_free(&queue);
    return code;
}

static int queue_peek(struct call *call) {
    struct queue queue = {.call = call, .count = 1};
    int code = call_begin(call, NULL, 0, 0);
    if (!code)
        code = report_values(&queue, session_read(call->session, take_values, &queue));
    queue_free(&queue);
    return code;
}

/* ---- size, clear ---- */

static fdb_error_t find_size(FDBTransaction *tr, void *context) {
    struct queue *queue = context;
    keel_subspace space;
    fdb_error_t error = call_open(queue->call, tr, &space);
    return error ? error : keel_queue_size(tr, &space, &queue->size);
}

static int queue_size(struct call *call) {
    struct queue queue = {.call = call};
    int code = call_begin(call, NULL, 0, 0);
    if (!code) {
        fdb_error_t error = read_bounded(call->session, find_size, &queue);
        if (error)
            code = call_report(call, NULL, error);
        else if (call->session->json)
            output_json(json_pack("{s:I}", "size", (json_int_t)queue.size));
        else
            printf("%lld\n", (long long)queue.size);
    }
    return code;
}

static fdb_error_t clear_queue(FDBTransaction *tr, void *context) {
    struct queue *queue = context;
    keel_subspace space;
    fdb_error_t error = call_open(queue->call, tr, &space);
    return error ? error : keel_queue_clear(tr, &space);
}

static int queue_clear(struct call *call) {
    struct queue queue = {.call = call};
    int code = call_begin(call, NULL, 0, 0);
    if (!code) {
        fdb_error_t error = session_write(call->session, clear_queue, &queue);
        if (error)
            code = call_report(call, NULL, error);
        else
            answer_write(call->session, json_pack("{s:b}", "cleared", 1));
    }
    return code;
}

/* ---- ls ---- */

static fdb_error_t list_row(void *context, keel_bytes key, keel_bytes value) {
    struct queue *queue = context;
    keel_tuple_iterator iterator;
    int64_t index;
    fdb_error_t error = keel_subspace_unpack(&queue->space, key, &iterator);
    if (!error)
        error = keel_tuple_next_int(&iterator, &index);
    if (error)
        return KEEL_ERROR_STORED_FORMAT;
    add_value(queue, value);
    queue->last_key.length = 0;
    buffer_append(&queue->last_key, key.data, key.length);
    buffer_append(&queue->last_key, "", 1);
    return 0;
}

static fdb_error_t list_some(FDBTransaction *tr, void *context) {
    struct queue *queue = context;
    keel_range range;
    bool more = false;
    results_clear(&queue->results);
    fdb_error_t error = call_open(queue->call, tr, &queue->space);
    if (!error)
        error = keel_subspace_range(&queue->space, KEEL_TUPLE(), &range);
    if (error)
        return error;
    keel_bytes begin = queue->cursor.length > 0 ? keel_bytes_of(queue->cursor.data, queue->cursor.length) : keel_bytes_of(range.begin, range.begin_length);
    int limit = queue->count < 1000 ? (int)queue->count : 1000;
    error = rows_visit(tr, begin, keel_bytes_of(range.end, range.end_length), limit, false, list_row, queue, &more);
    queue->done = !more;
    return error;
}

static int queue_ls(struct call *call) {
    struct queue queue = {.call = call, .count = INT64_MAX};
    const char *limit = NULL;
    const struct option_spec specs[] = {{"limit", 'n', true, &limit}, {0}};
    int code = call_begin(call, specs, 0, 0);
    fdb_error_t error = 0;
    if (!code && limit && !options_number("limit", limit, 1, INT64_MAX, &queue.count))
        code = EXIT_USAGE;
    while (!code && !error && !queue.done && queue.count > 0) {
        if (!(error = session_read(call->session, list_some, &queue))) {
            queue.count -= (int64_t)queue.results.count;
            results_print(&queue.results);
            queue.cursor.length = 0;
            buffer_append(&queue.cursor, queue.last_key.data, queue.last_key.length);
        }
    }
    if (error)
        code = call_report(call, NULL, error);
    queue_free(&queue);
    return code;
}

static const struct subcommand queue_table[] = {
    {"push", "DIRECTORY VALUE|@FILE|-…", queue_push, false},
    {"pop", "[--count N] DIRECTORY", queue_pop, false},
    {"peek", "DIRECTORY", queue_peek, true},
    {"size", "DIRECTORY", queue_size, true},
    {"ls", "[--limit N] DIRECTORY", queue_ls, true},
    {"clear", "DIRECTORY", queue_clear, false},
    {0},
};

int run_queue(struct session *session, int argc, char **argv) {
    return subcommand_run("queue", queue_table, session, argc, argv);
}
