/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getrange and more: rows in order, a page or all.
 *
 * A page is one range read after another until the limit is reached. --all goes on through the whole range and needs no more memory than a batch: each
 * batch is printed when it is there, and the next begins behind its last key. A transaction that has become too old (five seconds) is replaced by
 * a new one at the place reached, so a range of any size can be read, but not as of one version. Inside begin … commit there is one version, and
 * the command ends with transaction_too_old where the five seconds do. All are snapshot reads unless a transaction is open: nothing is
 * committed, so conflict ranges would only cost memory.
 *
 * `more` remembers the range that is left; it is forgotten when there are no more rows.
 */
#include "core.h"

#include <stdlib.h>

enum { LIMIT_DEFAULT = 25, BATCH_ROWS = 1000 };

struct range {
    struct buffer begin, end;
    bool reverse, keys_only;
    int64_t limit; /* of rows; -1: none */
    int64_t shown;
    bool more; /* behind the last shown there is another */
};

static struct range rest;
static bool rest_is_there;

void range_free(void) {
    buffer_free(&rest.begin);
    buffer_free(&rest.end);
    rest_is_there = false;
}

static bool increment(const struct buffer *prefix, struct buffer *end) {
    size_t length = prefix->length;
    while (length > 0 && prefix->data[length - 1] == 0xff)
        length--;
    end->length = 0;
    if (length == 0)
        return false;
    buffer_append(end, prefix->data, length);
    end->data[length - 1]++;
    return true;
}

fdb_error_t range_from_texts(FDBTransaction *tr, const char *begin_text, const char *end_text, struct buffer *begin, struct buffer *end) {
    fdb_error_t error = text_to_key(tr, begin_text ? begin_text : "", begin);
    if (error || end_text)
        return error ? error : text_to_key(tr, end_text, end);
    /* All keys end at ff, system keys at ff ff, special keys at ff ff ff. */
    if (!increment(begin, end))
        buffer_append(end, "\xff\xff\xff", begin->length < 2 ? begin->length + 1 : 3);
    return 0;
}

/* ---- Reading ---- */

struct read_context {
    struct session *session;
    const char *begin_text, *end_text; /* NULL: the range is there */
    bool parsed;
    struct range *range;
    struct directory_names *names;
};

/* What is left of the range behind a row that was shown. */
static void move_behind(struct range *range, const FDBKeyValue *row) {
    struct buffer *place = range->reverse ? &range->end : &range->begin;
    place->length = 0;
    buffer_append(place, row->key, (size_t)row->key_length);
    if (!range->reverse)
        buffer_append(place, "", 1);
}

/* One batch: prints it, and says whether there is more in the range. One row beyond the limit is asked for, to know whether it is there. */
static fdb_error_t read_batch(FDBTransaction *tr, struct read_context *context, bool *more) {
    struct range *range = context->range;
    int64_t left = range->limit < 0 ? BATCH_ROWS : range->limit - range->shown;
    int wanted = (int)(left < BATCH_ROWS ? left + 1 : BATCH_ROWS);
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range->begin.data, (int)range->begin.length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range->end.data, (int)range->end.length), wanted, 0,
                                                  FDB_STREAMING_MODE_WANT_ALL, 1, context->session->current == NULL, range->reverse);
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t has_more = 0;
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &has_more);
    for (int i = 0; i < count && !error; i++) {
        range->more = range->limit >= 0 && range->shown == range->limit;
        if (range->more)
            break;
        print_row(context->session, context->names, keel_bytes_of(rows[i].key, (size_t)rows[i].key_length),
                  keel_bytes_of(rows[i].value, (size_t)rows[i].value_length), range->keys_only);
        range->shown++;
        move_behind(range, &rows[i]);
    }
    *more = has_more && !range->more;
    fdb_future_destroy(future);
    return error;
}

/* Rows that were printed are not printed again by a retry: the range has become shorter. */
static fdb_error_t in_getrange(FDBTransaction *tr, void *pointer) {
    struct read_context *context = pointer;
    fdb_error_t error = 0;
    if (!context->parsed)
        error = range_from_texts(tr, context->begin_text, context->end_text, &context->range->begin, &context->range->end);
    context->parsed = !error;
    if (!error && !context->names)
        error = directory_names_load(tr, &context->names);
    bool more = !error;
    while (more && !error) {
        error = session_interrupted() ? 1025 : read_batch(tr, context, &more);
    }
    return error;
}

/* ---- The commands ---- */

static void remember(struct range *range) {
    range_free();
    rest = *range;
    rest_is_there = true;
    *range = (struct range){0};
}

static void tell_more(const struct session *session, const struct range *range, const struct directory_names *names) {
    const struct buffer *place = range->reverse ? &range->end : &range->begin;
    keel_bytes next = keel_bytes_of(place->data, place->length);
    if (session->json) {
        output_json(json_pack("{s:b, s:o}", "more", 1, "next", output_json_bytes(names, next)));
    } else if (session->many && !session->quiet) {
        fflush(stdout);
        fputs("There are more rows: \"more\" shows them\n", stderr);
    } else if (!session->quiet) {
        struct buffer text = {0};
        text_word_from_bytes(names, next, &text);
        fflush(stdout);
        fprintf(stderr, "There are more rows: --all shows them, --limit N more of them; the next page %s at %.*s\n", range->reverse ? "ends" : "begins", (int)text.length,
                (const char *)text.data);
        buffer_free(&text);
    }
}

static int show_range(struct session *session, struct read_context *context, const char *what) {
    struct range *range = context->range;
    fdb_error_t error = session_read(session, in_getrange, context);
    int code = EXIT_OK;
    if (error)
        code = report_error("getrange", what, error);
    else if (range->more)
        tell_more(session, range, context->names);
    if (!error && range->more)
        remember(range);
    buffer_free(&range->begin);
    buffer_free(&range->end);
    directory_names_free(context->names);
    return code;
}

int command_getrange(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("getrange");
    const char *limit = NULL, *all = NULL, *reverse = NULL, *keys = NULL;
    const struct option_spec specs[] = {{"limit", 'n', true, &limit}, {"all", 'a', false, &all}, {"reverse", 'r', false, &reverse},
                                        {"keys", 'k', false, &keys},  {NULL, 0, false, NULL}};
    struct range range = {.limit = LIMIT_DEFAULT};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc > 4)
        return usage_error(command, "BEGIN, END and LIMIT are all it takes. A key with spaces goes in quotes");
    if (argc == 4 && limit)
        return usage_error(command, "The limit is given twice");
    limit = argc == 4 ? argv[3] : limit;
    if (limit && all)
        return usage_error(command, "--all and a limit exclude each other");
    if (limit && !options_number("limit", limit, 1, INT64_MAX, &range.limit))
        return EXIT_USAGE;
    range.limit = all ? -1 : range.limit;
    range.reverse = reverse != NULL;
    range.keys_only = keys != NULL;
    range_free();
    struct read_context context = {session, argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL, false, &range, NULL};
    return show_range(session, &context, argc > 1 ? argv[1] : NULL);
}

int command_more(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("more");
    const struct option_spec specs[] = {{NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc > 2)
        return usage_error(command, "A limit is all it takes");
    if (!rest_is_there)
        return report("more: there are no rows left to show; getrange begins");
    struct range range = rest;
    if (argc == 2 && !options_number("limit", argv[1], 1, INT64_MAX, &range.limit))
        return EXIT_USAGE;
    rest = (struct range){0};
    rest_is_there = false;
    range.shown = 0;
    range.more = false;
    struct read_context context = {session, NULL, NULL, true, &range, NULL};
    return show_range(session, &context, NULL);
}
