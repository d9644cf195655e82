/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob: files and other long byte strings in a directory (keel/blob.h). A blob has a name, one element, and lies in the subspace of that name:
 * the chunk at `offset` is at directory + (name, offset).
 *
 * Long ones go in and out in steps of a megabyte. Outside of begin and commit each step is a transaction, so a long blob grows under the eyes of others;
 * a write that ends half way says how much there is. Between begin and commit all steps are part of the one transaction, which holds ten megabytes.
 * get opens its file only when the blob is found, so that a wrong name destroys nothing.
 *
 * A blob without bytes has no keys: it is not there, and put of nothing removes it.
 *
 * Threads: one. Failure: reported with directory and name.
 */
#include "recipes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEP_BYTES = 1000000, NAMES_AT_ONCE = 500, TRANSACTION_CANCELLED = 1025, TRANSACTION_TOO_LARGE = 2101 };

struct blob {
    struct call *call;
    struct name name;
    keel_blob_options options;
    bool create; /* the directory */

    int64_t offset, length; /* what is asked for */
    int64_t size;           /* what is found */
    uint8_t *data;          /* of one step */
    size_t count;
    bool replace; /* this step begins the blob anew */
};

/* ---- The frame ---- */

static fdb_error_t blob_space(struct blob *blob, FDBTransaction *tr, keel_subspace *space) {
    fdb_error_t error = blob->create ? call_create(blob->call, tr, space) : call_open(blob->call, tr, space);
    return error ? error : keel_subspace_nested(space, keel_tuple_of(&blob->name.element, 1), space);
}

/* Options and the name, which is the first argument. */
static int blob_begin(struct blob *blob, struct call *call, const struct option_spec *specs, int least, int most) {
    blob->call = call;
    int code = call_begin(call, specs, least, most);
    return code ? code : call_name(call, call->argv[0], &blob->name) ? EXIT_OK : EXIT_USAGE;
}

static void blob_free(struct blob *blob) {
    name_free(&blob->name);
    free(blob->data);
}

static int blob_report(struct blob *blob, fdb_error_t error) {
    if (error == KEEL_ERROR_NOT_FOUND)
        return call_not_found(blob->call, "There is no blob of this name; blob ls shows those there are");
    if (error == TRANSACTION_TOO_LARGE && blob->call->session->current)
        return report("%s: %s %s: A transaction holds 10,000,000 bytes: write longer blobs outside of begin and commit", blob->call->command.name,
                      blob->call->directory, blob->call->argv[0]);
    return call_report(blob->call, blob->call->argv[0], error);
}

/* {"name": …, "written": …} */
static json_t *blob_json(const struct blob *blob, const char *member, int64_t number) {
    return json_pack("{s:o,s:I}", "name", name_json(&blob->name.element), member, (json_int_t)number);
}

static void blob_answer(const struct blob *blob, const char *member, int64_t number) {
    answer_write(blob->call->session, blob_json(blob, member, number));
}

static fdb_error_t find_size(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    fdb_error_t error = blob_space(blob, tr, &space);
    if (!error)
        error = keel_blob_size(tr, &space, &blob->size);
    return error ? error : blob->size == 0 ? KEEL_ERROR_NOT_FOUND : 0;
}

/* ---- Writing ---- */

static fdb_error_t put_step(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    keel_bytes data = keel_bytes_of(blob->data, blob->count);
    fdb_error_t error = blob_space(blob, tr, &space);
    if (error)
        return error;
    if (blob->replace)
        return keel_blob_write(tr, &space, &blob->options, data);
    return keel_blob_write_at(tr, &space, &blob->options, blob->offset, data);
}

static fdb_error_t append_step(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    fdb_error_t error = blob_space(blob, tr, &space);
    return error ? error : keel_blob_append(tr, &space, &blob->options, keel_bytes_of(blob->data, blob->count), NULL);
}

/* All of the stream, a step at a time. *written: what is in the database. False: the stream could not be read. */
static bool write_stream(struct blob *blob, FILE *stream, uint64_t total, keel_function step, fdb_error_t *error, int64_t *written) {
    struct progress *progress = progress_begin(blob->call->session, blob->call->command.name, "bytes", total);
    bool first = true;
    *error = 0;
    *written = 0;
    blob->data = malloc(STEP_BYTES);
    if (!blob->data)
        *error = 1501;
    while (!*error) {
        blob->count = fread(blob->data, 1, STEP_BYTES, stream);
        if (session_interrupted())
            *error = TRANSACTION_CANCELLED;
        if (*error || ferror(stream) || (blob->count == 0 && !first))
            break;
        if (!(*error = session_write(blob->call->session, step, blob))) {
            *written += (int64_t)blob->count;
            blob->offset += (int64_t)blob->count;
            blob->replace = first = false;
            progress_update(progress, (uint64_t)*written, 0);
        }
    }
    bool good = *error || !ferror(stream);
    progress_end(progress, !*error && good);
    return good;
}

/* A step that fails after others leaves a part behind. */
static int report_part(struct blob *blob, fdb_error_t error, int64_t written) {
    int code = blob_report(blob, error);
    if (written > 0 && !blob->call->session->current)
        report("%s: %s %s: The first %s bytes were written", blob->call->command.name, blob->call->directory, blob->call->argv[0],
               human_count((uint64_t)written));
    return code;
}

static int write_file(struct blob *blob, const char *file, keel_function step) {
    bool is_stdin = strcmp(file, "-") == 0;
    FILE *stream = is_stdin ? stdin : fopen(file, "rb");
    struct stat status;
    fdb_error_t error;
    int64_t written;
    if (!stream)
        return report("%s: %s: %s", blob->call->command.name, file, strerror(errno));
    uint64_t total = fstat(fileno(stream), &status) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
    int code = EXIT_OK;
    errno = 0;
    blob->create = true;
    if (!write_stream(blob, stream, total, step, &error, &written))
        code = report("%s: %s: %s; %s bytes of it were written", blob->call->command.name, file, strerror(errno), human_count((uint64_t)written));
    else if (error)
        code = report_part(blob, error, written);
    else
        blob_answer(blob, "written", written);
    if (is_stdin)
        clearerr(stdin);
    else
        fclose(stream);
    return code;
}

static bool chunk_option(struct blob *blob, const char *text) {
    int64_t number;
    if (!text)
        return true;
    if (!options_number("chunk-bytes", text, 1, KEEL_BLOB_CHUNK_BYTES_MAX, &number))
        return false;
    blob->options.chunk_bytes = (uint32_t)number;
    return true;
}

static int blob_put(struct call *call) {
    const char *chunk = NULL, *at = NULL;
    const struct option_spec specs[] = {{"chunk-bytes", 0, true, &chunk}, {"offset", 0, true, &at}, {0}};
    struct blob blob = {.replace = true};
    int code = blob_begin(&blob, call, specs, 2, 2);
    if (!code && (!chunk_option(&blob, chunk) || (at && !options_number("offset", at, 0, INT64_MAX, &blob.offset))))
        code = EXIT_USAGE;
    if (!code) {
        blob.replace = !at;
        code = write_file(&blob, call->argv[1], put_step);
    }
    blob_free(&blob);
    return code;
}

static int blob_append(struct call *call) {
    const char *chunk = NULL;
    const struct option_spec specs[] = {{"chunk-bytes", 0, true, &chunk}, {0}};
    struct blob blob = {0};
    int code = blob_begin(&blob, call, specs, 2, 2);
    if (!code && !chunk_option(&blob, chunk))
        code = EXIT_USAGE;
    if (!code)
        code = write_file(&blob, call->argv[1], append_step);
    blob_free(&blob);
    return code;
}

/* Runs a change that is one transaction, and answers with the size it leaves. */
static int blob_change(struct blob *blob, keel_function change) {
    fdb_error_t error = session_write(blob->call->session, change, blob);
    if (error)
        return blob_report(blob, error);
    blob_answer(blob, "size", blob->size);
    return EXIT_OK;
}

static fdb_error_t truncate_blob(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    fdb_error_t error = blob_space(blob, tr, &space);
    return error ? error : keel_blob_truncate(tr, &space, blob->size);
}

static int blob_truncate(struct call *call) {
    struct blob blob = {.create = true};
    int code = blob_begin(&blob, call, NULL, 2, 2);
    if (!code && !call_number(call, "A size", call->argv[1], 0, INT64_MAX, &blob.size))
        code = EXIT_USAGE;
    if (!code)
        code = blob_change(&blob, truncate_blob);
    blob_free(&blob);
    return code;
}

static fdb_error_t punch_blob(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    fdb_error_t error = find_size(tr, blob);
    if (!error)
        error = blob_space(blob, tr, &space);
    return error ? error : keel_blob_punch(tr, &space, blob->offset, blob->length);
}

static int blob_punch(struct call *call) {
    struct blob blob = {0};
    int code = blob_begin(&blob, call, NULL, 3, 3);
    if (!code && (!call_number(call, "An offset", call->argv[1], 0, INT64_MAX, &blob.offset) ||
                  !call_number(call, "A length", call->argv[2], 0, INT64_MAX, &blob.length)))
        code = EXIT_USAGE;
    if (!code)
        code = blob_change(&blob, punch_blob);
    blob_free(&blob);
    return code;
}

static fdb_error_t remove_blob(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    fdb_error_t error = find_size(tr, blob);
    if (!error)
        error = blob_space(blob, tr, &space);
    return error ? error : keel_blob_clear(tr, &space);
}

static int blob_rm(struct call *call) {
    struct blob blob = {0};
    int code = blob_begin(&blob, call, NULL, 1, 1);
    if (!code) {
        fdb_error_t error = session_write(call->session, remove_blob, &blob);
        if (error)
            code = blob_report(&blob, error);
        else
            blob_answer(&blob, "removed", blob.size);
    }
    blob_free(&blob);
    return code;
}

/* ---- Reading ---- */

static fdb_error_t get_step(FDBTransaction *tr, void *context) {
    struct blob *blob = context;
    keel_subspace space;
    size_t wanted = blob->length < STEP_BYTES ? (size_t)blob->length : STEP_BYTES;
    fdb_error_t error = blob_space(blob, tr, &space);
    return error ? error : keel_blob_read_at(tr, &space, blob->offset, blob->data, wanted, &blob->count);
}

/* blob->length bytes from blob->offset on, a step at a time. */
static fdb_error_t read_steps(struct blob *blob, bool (*take)(void *context, const uint8_t *data, size_t count), void *context, int64_t *count) {
    struct progress *progress = progress_begin(blob->call->session, "blob get", "bytes", (uint64_t)blob->length);
    fdb_error_t error = 0;
    bool taken = true;
    *count = 0;
    blob->data = malloc(STEP_BYTES);
    if (!blob->data)
        error = 1501;
    while (!error && taken && blob->length > 0) {
        error = session_read(blob->call->session, get_step, blob);
        if (error || blob->count == 0)
            break;
        taken = take(context, blob->data, blob->count);
        blob->offset += (int64_t)blob->count;
        blob->length -= (int64_t)blob->count;
        *count += (int64_t)blob->count;
        progress_update(progress, (uint64_t)*count, 0);
    }
    progress_end(progress, !error && taken);
    return error;
}

static bool take_file(void *context, const uint8_t *data, size_t count) {
    return fwrite(data, 1, count, context) == count;
}

static bool take_buffer(void *context, const uint8_t *data, size_t count) {
    return buffer_append(context, data, count);
}

/* Into a file, or stdout. */
static int get_to_file(struct blob *blob, const char *file) {
    bool is_stdout = strcmp(file, "-") == 0;
    int64_t wanted = blob->length, count;
    FILE *stream = is_stdout ? stdout : fopen(file, "wb");
    if (!stream)
        return report("blob get: %s: %s", file, strerror(errno));
    fdb_error_t error = read_steps(blob, take_file, stream, &count);
    bool failed = ferror(stream) != 0;
    if (is_stdout ? fflush(stdout) : fclose(stream))
        failed = true;
    if (error)
        return blob_report(blob, error);
    if (failed)
        return report("blob get: %s: %s", file, strerror(errno));
    if (count < wanted)
        return report("blob get: %s: The blob became shorter while it was read: %s bytes were written", file, human_count((uint64_t)count));
    if (!is_stdout && blob->call->session->json)
        output_json(json_pack("{s:o,s:s,s:I}", "name", name_json(&blob->name.element), "file", file, "read", (json_int_t)count));
    return EXIT_OK;
}

/* --json and no file: all of it in one object. */
static int get_to_json(struct blob *blob) {
    struct buffer data = {0};
    int64_t count;
    fdb_error_t error = read_steps(blob, take_buffer, &data, &count);
    if (!error)
        output_json(json_pack("{s:o,s:I,s:o}", "name", name_json(&blob->name.element), "size", (json_int_t)blob->size, "data",
                              output_json_bytes(NULL, keel_bytes_of(data.data, data.length))));
    buffer_free(&data);
    return error ? blob_report(blob, error) : EXIT_OK;
}

static int blob_get(struct call *call) {
    const char *offset = NULL, *length = NULL;
    const struct option_spec specs[] = {{"offset", 0, true, &offset}, {"length", 0, true, &length}, {0}};
    struct blob blob = {.length = INT64_MAX};
    int code = blob_begin(&blob, call, specs, 1, 2);
    if (!code && ((offset && !options_number("offset", offset, 0, INT64_MAX, &blob.offset)) ||
                  (length && !options_number("length", length, 0, INT64_MAX, &blob.length))))
        code = EXIT_USAGE;
    if (!code) {
        fdb_error_t error = session_read(call->session, find_size, &blob);
        int64_t rest = blob.offset < blob.size ? blob.size - blob.offset : 0;
        blob.length = blob.length < rest ? blob.length : rest;
        if (error)
            code = blob_report(&blob, error);
        else if (call->argc < 2 && call->session->json)
            code = get_to_json(&blob);
        else
            code = get_to_file(&blob, call->argc > 1 ? call->argv[1] : "-");
    }
    blob_free(&blob);
    return code;
}

static int blob_size(struct call *call) {
    struct blob blob = {0};
    int code = blob_begin(&blob, call, NULL, 1, 1);
    if (!code) {
        fdb_error_t error = session_read(call->session, find_size, &blob);
        if (error)
            code = blob_report(&blob, error);
        else if (call->session->json)
            output_json(blob_json(&blob, "size", blob.size));
        else
            printf("%lld\n", (long long)blob.size);
    }
    blob_free(&blob);
    return code;
}

/* ---- Listing ---- */

struct blob_list {
    struct call *call;
    struct results results;
    keel_subspace space;
    struct buffer cursor, next; /* behind which key to go on, empty: at the beginning; and where this transaction is */
    struct name found;          /* the name in the row that was read */
    bool has_found, done;
};

static fdb_error_t take_name(void *context, keel_bytes key, keel_bytes value) {
    struct blob_list *list = context;
    keel_tuple_iterator iterator;
    keel_element element;
    (void)value;
    fdb_error_t error = keel_subspace_unpack(&list->space, key, &iterator);
    if (!error)
        error = keel_tuple_next(&iterator, &element);
    if (error)
        return KEEL_ERROR_STORED_FORMAT;
    list->has_found = true;
    return name_copy(&element, &list->found);
}

/* Adds the blob whose name was found, and moves behind its last key. */
static fdb_error_t list_blob(FDBTransaction *tr, struct blob_list *list) {
    keel_subspace space;
    keel_range range;
    int64_t size;
    const keel_element *name = &list->found.element;
    fdb_error_t error = keel_subspace_nested(&list->space, keel_tuple_of(name, 1), &space);
    if (!error)
        error = keel_blob_size(tr, &space, &size);
    if (!error)
        error = keel_subspace_range(&space, KEEL_TUPLE(), &range);
    if (error)
        return error;
    list->next.length = 0;
    buffer_append(&list->next, range.end, range.end_length);
    if (list->call->session->json) {
        results_json(&list->results, json_pack("{s:o,s:I}", "name", name_json(name), "size", (json_int_t)size));
    } else {
        results_format(&list->results, "%14s  ", human_count((uint64_t)size));
        results_name(&list->results, name);
        results_format(&list->results, "\n");
        list->results.count++;
    }
    return 0;
}

static fdb_error_t list_some(FDBTransaction *tr, void *context) {
    struct blob_list *list = context;
    keel_range range;
    bool more;
    results_clear(&list->results);
    list->next.length = 0;
    buffer_append(&list->next, list->cursor.data, list->cursor.length);
    fdb_error_t error = call_open(list->call, tr, &list->space);
    if (!error)
        error = keel_subspace_range(&list->space, KEEL_TUPLE(), &range);
    for (list->done = false; !error && !list->done && list->results.count < NAMES_AT_ONCE;) {
        keel_bytes begin = list->next.length > 0 ? keel_bytes_of(list->next.data, list->next.length) : keel_bytes_of(range.begin, range.begin_length);
        list->has_found = false;
        error = rows_visit(tr, begin, keel_bytes_of(range.end, range.end_length), 1, false, take_name, list, &more);
        list->done = !list->has_found;
        if (!error && list->has_found)
            error = list_blob(tr, list);
    }
    return error;
}

static int blob_ls(struct call *call) {
    struct blob_list list = {.call = call};
    int code = call_begin(call, NULL, 0, 0);
    fdb_error_t error = 0;
    while (!code && !error && !list.done) {
        if (!(error = session_read(call->session, list_some, &list))) {
            results_print(&list.results);
            list.cursor.length = 0;
            buffer_append(&list.cursor, list.next.data, list.next.length);
        }
    }
    if (error)
        code = call_report(call, NULL, error);
    results_free(&list.results);
    buffer_free(&list.cursor);
    buffer_free(&list.next);
    name_free(&list.found);
    return code;
}

static const struct subcommand blob_table[] = {
    {"put", "[--offset N] [--chunk-bytes N] DIRECTORY NAME FILE|-", blob_put, false},
    {"append", "[--chunk-bytes N] DIRECTORY NAME FILE|-", blob_append, false},
    {"get", "[--offset N] [--length N] DIRECTORY NAME [FILE|-]", blob_get, true},
    {"size", "DIRECTORY NAME", blob_size, true},
    {"ls", "DIRECTORY", blob_ls, true},
    {"truncate", "DIRECTORY NAME SIZE", blob_truncate, false},
    {"punch", "DIRECTORY NAME OFFSET LENGTH", blob_punch, false},
    {"rm", "DIRECTORY NAME", blob_rm, false},
    {0},
};

int run_blob(struct session *session, int argc, char **argv) {
    return subcommand_run("blob", blob_table, session, argc, argv);
}
