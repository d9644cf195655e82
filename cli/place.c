/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as text, the frame of a sub-command, and results (place.h).
 *
 * Names of things inside a directory are elements of a tuple. People write 7 and mean the number, write ann and mean text; what could be either is
 * settled by its form: digits are a number unless they begin with a zero that a number would not have, so that zip codes and dates stay text, and a
 * number with an exponent needs its point (1e5 is text: hashes look like that).
 *
 * Results. A transaction may be retried, so what it finds is collected first: as JSON rows or as text, cleared when the function begins, and
 * printed by the command when the transaction is through.
 *
 * Failure: buffers that cannot grow end the program (text.c), and so does a JSON value that cannot be made.
 */
#include "place.h"

#include "core.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NO_MEMORY = 1501, TRANSACTION_TOO_OLD = 1007, TOO_OLD_MAX = 3 };

/* ---- Text ---- */

const char *path_name_text(keel_path path, struct buffer *text) {
    keel_path last = {path.names + path.count - 1, 1};
    text_from_path(path.count > 0 ? last : path, text);
    return buffer_text(text) + (path.count > 0);
}

json_t *json_text(keel_bytes bytes) {
    json_t *string = json_stringn((const char *)bytes.data, bytes.length);
    struct buffer text = {0};
    if (!string) {
        text_from_bytes(NULL, bytes, &text);
        string = json_stringn((const char *)text.data, text.length);
    }
    buffer_free(&text);
    return string;
}

/* ---- Names ---- */

static bool is_number(const char *text) {
    const char *c = text + (*text == '-');
    if (!isdigit((unsigned char)*c) || (c[0] == '0' && isdigit((unsigned char)c[1])))
        return false;
    while (isdigit((unsigned char)*c))
        c++;
    if (*c == '.') {
        if (!isdigit((unsigned char)*++c))
            return false;
        while (isdigit((unsigned char)*c))
            c++;
        if (*c == 'e' || *c == 'E') {
            c++;
            c += *c == '-' || *c == '+';
            while (isdigit((unsigned char)*c))
                c++;
        }
    }
    return *c == '\0';
}

static bool is_tuple_text(const char *text) {
    return is_number(text) || strchr("\"(", *text) || strncmp(text, "0x", 2) == 0 || strncmp(text, "uuid(", 5) == 0 ||
           strncmp(text, "versionstamp(", 13) == 0;
}

/* "(text)" as a packed tuple of one element. */
static bool parse_element(const char *text, struct name *name, const char **message) {
    size_t length = strlen(text), packed_length, count;
    char *tuple = malloc(length + 3);
    fdb_error_t error = NO_MEMORY;
    if (tuple) {
        snprintf(tuple, length + 3, "(%s)", text);
        error = keel_tuple_parse(tuple, length + 2, NULL, 0, &packed_length, NULL);
    }
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL) {
        name->bytes = (struct buffer){malloc(packed_length), packed_length, packed_length};
        error = name->bytes.data ? keel_tuple_parse(tuple, length + 2, name->bytes.data, packed_length, &packed_length, NULL) : NO_MEMORY;
    }
    free(tuple);
    if (!error)
        error = keel_tuple_unpack(keel_bytes_of(name->bytes.data, name->bytes.length), &name->element, 1, &count, NULL);
    if (error)
        *message = "It begins like a number, \"text in quotes\", a tuple, 0x…, uuid(…) or versionstamp(…), but is none";
    return !error;
}

static bool parse_text(const char *text, struct name *name, const char **message) {
    if (!text_to_value(text, &name->bytes, message))
        return false;
    name->element = keel_element_of_text((const char *)name->bytes.data, name->bytes.length);
    *message = "It is not UTF-8: bytes are written 0x00ff";
    return keel_element_is_utf8(&name->element);
}

bool name_parse(const char *text, struct name *name, const char **message) {
    struct name parsed = {0};
    if (*text && is_tuple_text(text) ? parse_element(text, &parsed, message) : parse_text(text, &parsed, message)) {
        *name = parsed;
        return true;
    }
    name_free(&parsed);
    return false;
}

void name_free(struct name *name) {
    buffer_free(&name->bytes);
    *name = (struct name){0};
}

/* The value of a string, NUL-terminated. */
static void copy_string(const keel_element *element, struct buffer *text) {
    size_t length = 0;
    keel_element_copy(element, NULL, 0, &length);
    for (size_t i = 0; i <= length; i++)
        buffer_append(text, "", 1);
    text->length = length;
    keel_element_copy(element, text->data, length, &length);
}

/* Whether text can stand as it is: it is not read as something else, and nothing in it has to be escaped. */
static bool is_plain(const struct buffer *text) {
    const char *string = (const char *)text->data;
    if (text->length == 0 || is_tuple_text(string) || strchr("-@#", string[0]))
        return false;
    for (size_t i = 0, length; i < text->length; i += length) {
        length = text_printable(text->data + i, text->length - i);
        if (length == 0 || strchr(" \\\"';", string[i]))
            return false;
    }
    return true;
}

void name_print(const keel_element *element, struct buffer *text) {
    struct buffer string = {0};
    size_t length = 0;
    bool plain = false;
    if (element->type == KEEL_TYPE_STRING && keel_element_is_utf8(element)) {
        copy_string(element, &string);
        if ((plain = is_plain(&string)))
            buffer_append(text, string.data, string.length);
    }
    if (!plain && keel_element_print(element, NULL, 0, &length) == KEEL_ERROR_BUFFER_TOO_SMALL) {
        size_t before = text->length;
        for (size_t i = 0; i <= length; i++)
            buffer_append(text, "", 1);
        keel_element_print(element, (char *)text->data + before, length + 1, &length);
        text->length = before + length;
    }
    buffer_free(&string);
}

json_t *name_json(const keel_element *element) {
    int64_t integer;
    struct buffer text = {0};
    json_t *json = NULL;
    if (element->type == KEEL_TYPE_NULL)
        return json_null();
    if (element->type == KEEL_TYPE_BOOL)
        return json_boolean(element->value.as_bool);
    if (element->type == KEEL_TYPE_DOUBLE && (json = json_real(element->value.as_double)))
        return json;
    if (keel_element_int(element, &integer) == 0)
        return json_integer(integer);
    if (element->type == KEEL_TYPE_STRING && keel_element_is_utf8(element)) {
        copy_string(element, &text);
        json = json_stringn((const char *)text.data, text.length);
    } else {
        name_print(element, &text);
        json = json_pack("{s:o}", "text", json_text(keel_bytes_of(text.data, text.length)));
    }
    buffer_free(&text);
    return json;
}

fdb_error_t name_copy(const keel_element *element, struct name *copy) {
    keel_tuple tuple = keel_tuple_of(element, 1);
    size_t length = 0, count;
    fdb_error_t error = keel_tuple_pack(tuple, NULL, 0, &length);
    if (error && error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return error;
    struct name made = {.bytes = {malloc(length), length, length}};
    error = made.bytes.data ? keel_tuple_pack(tuple, made.bytes.data, length, &length) : NO_MEMORY;
    if (!error)
        error = keel_tuple_unpack(keel_bytes_of(made.bytes.data, length), &made.element, 1, &count, NULL);
    if (error) {
        name_free(&made);
        return error;
    }
    name_free(copy);
    *copy = made;
    return 0;
}

/* ---- Sub-commands ---- */

/* "set, get, rm" */
static void list_subcommands(const struct subcommand *table, char *text, size_t capacity) {
    size_t length = 0;
    for (; table->name && length < capacity; table++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", length > 0 ? ", " : "", table->name);
}

int subcommand_run(const char *command, const struct subcommand *table, struct session *session, int argc, char **argv) {
    struct call call = {.session = session, .command = *command_find(command)};
    char names[256], name[64];
    const struct subcommand *found = table;
    while (argc > 1 && found->name && strcmp(found->name, argv[1]) != 0)
        found++;
    if (argc < 2 || !found->name) {
        list_subcommands(table, names, sizeof names);
        if (argc < 2)
            return usage_error(&call.command, "What to do is missing: one of %s", names);
        return usage_error(&call.command, "There is no \"%s\"; there are %s", argv[1], names);
    }
    snprintf(name, sizeof name, "%s %s", command, found->name);
    call.command.name = name;
    call.command.arguments = found->arguments;
    call.argc = argc - 1;
    call.argv = argv + 1;
    session->must_exist = session->must_exist || found->only_reads;
    int code = found->run(&call);
    text_path_free(&call.path);
    return code && session_interrupted() ? EXIT_INTERRUPTED : code;
}

int call_begin(struct call *call, const struct option_spec *specs, int least, int most) {
    static const struct option_spec none[] = {{0}};
    const char *message;
    if (!options_parse(&call->command, &call->argc, call->argv, specs ? specs : none))
        return EXIT_USAGE;
    if (call->argc < 2)
        return usage_error(&call->command, "The directory is missing");
    call->directory = call->argv[1];
    call->argc -= 2;
    call->argv += 2;
    if (call->argc < least)
        return usage_error(&call->command, "An argument is missing");
    if (most >= 0 && call->argc > most)
        return usage_error(&call->command, "There is an argument too many: %s", call->argv[most]);
    if (!text_to_path(call->directory, &call->path, &message))
        return usage_error(&call->command, "%s", message);
    if (call->path.path.count == 0)
        return usage_error(&call->command, "/ holds directories only: name one in it, such as /app");
    return EXIT_OK;
}

static fdb_error_t directory_subspace(fdb_error_t error, keel_directory *directory, keel_subspace *subspace) {
    if (error)
        return error;
    error = keel_directory_subspace(directory, subspace);
    keel_directory_close(directory);
    return error;
}

fdb_error_t call_create(struct call *call, FDBTransaction *tr, keel_subspace *subspace) {
    keel_directory *directory;
    fdb_error_t error = keel_directory_create_or_open(tr, NULL, call->path.path, KEEL_NO_LAYER, &directory);
    return directory_subspace(error, directory, subspace);
}

fdb_error_t call_open(struct call *call, FDBTransaction *tr, keel_subspace *subspace) {
    keel_directory *directory;
    fdb_error_t error = keel_directory_open(tr, NULL, call->path.path, KEEL_NO_LAYER, &directory);
    return directory_subspace(error, directory, subspace);
}

int call_report(struct call *call, const char *what, fdb_error_t error) {
    char text[512];
    snprintf(text, sizeof text, "%s%s%s", call->directory, what ? " " : "", what ? what : "");
    if (error == TOO_MUCH_TO_READ)
        return report("%s: %s: There is more than can be read in the five seconds that a transaction has", call->command.name, text);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL)
        return report("%s: %s: The name is too long: with the prefix of the directory it may have %d bytes", call->command.name, call->directory,
                      KEEL_SUBSPACE_PREFIX_MAX);
    if (error == KEEL_ERROR_DIRECTORY_PARTITION_ROOT)
        return report("%s: %s: A partition holds directories only: name one in it", call->command.name, call->directory);
    if (error == KEEL_ERROR_STORED_FORMAT)
        return report("%s: %s: What is stored there was not written by this structure (%d). Give each structure a directory of its own",
                      call->command.name, text, error);
    return report_error(call->command.name, error == KEEL_ERROR_DIRECTORY_MISSING ? call->directory : text, error);
}

int call_not_found(struct call *call, const char *what) {
    report("%s: %s: %s", call->command.name, call->directory, what);
    return EXIT_NOT_FOUND;
}

bool call_number(struct call *call, const char *what, const char *text, int64_t min, int64_t max, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && !isspace((unsigned char)*text) && value >= min && value <= max) {
        *number = value;
        return true;
    }
    usage_error(&call->command, "%s: %s is a whole number from %lld to %lld", text, what, (long long)min, (long long)max);
    return false;
}

bool call_name(struct call *call, const char *text, struct name *name) {
    const char *message;
    if (name_parse(text, name, &message))
        return true;
    usage_error(&call->command, "%s: %s", text, message);
    return false;
}

/* "-" and "@FILE". False: it is neither. */
static bool value_from_file(const char *text, struct buffer *value, bool *good) {
    if (strcmp(text, "-") != 0 && text[0] != '@')
        return false;
    *good = input_read(text + (text[0] == '@'), value);
    return true;
}

bool call_value(struct call *call, const char *text, struct buffer *value) {
    const char *message;
    bool good;
    if (value_from_file(text, value, &good))
        return good;
    if (text_to_value(text, value, &message))
        return true;
    usage_error(&call->command, "%s: %s", text, message);
    return false;
}

bool call_text(struct call *call, const char *text, struct buffer *value) {
    bool good;
    (void)call;
    if (value_from_file(text, value, &good))
        return good;
    value->length = 0;
    buffer_append(value, text, strlen(text));
    return true;
}

struct bounded {
    keel_function function;
    void *context;
    int too_old;
};

static fdb_error_t run_bounded(FDBTransaction *tr, void *context) {
    struct bounded *bounded = context;
    fdb_error_t error = bounded->function(tr, bounded->context);
    return error == TRANSACTION_TOO_OLD && ++bounded->too_old >= TOO_OLD_MAX ? TOO_MUCH_TO_READ : error;
}

fdb_error_t read_bounded(struct session *session, keel_function function, void *context) {
    struct bounded bounded = {function, context, 0};
    return session_read(session, run_bounded, &bounded);
}

void answer_write(const struct session *session, json_t *object) {
    if (session->json) {
        bool committed = session->committed_version >= 0;
        json_object_set_new(object, "committed_version", committed ? json_integer((json_int_t)session->committed_version) : json_null());
        output_json(object);
    } else {
        json_decref(object);
        print_committed(session);
    }
}

/* ---- Input ---- */

bool input_read(const char *file, struct buffer *data) {
    FILE *stream = strcmp(file, "-") == 0 ? stdin : fopen(file, "rb");
    uint8_t block[65536];
    size_t count;
    if (!stream) {
        report("%s: %s", file, strerror(errno));
        return false;
    }
    data->length = 0;
    while ((count = fread(block, 1, sizeof block, stream)) > 0)
        buffer_append(data, block, count);
    bool failed = ferror(stream) != 0;
    int reason = errno;
    if (stream == stdin)
        clearerr(stdin);
    else
        fclose(stream);
    if (session_interrupted())
        report("interrupted");
    else if (failed)
        report("%s: %s", file, strerror(reason));
    return !failed && !session_interrupted();
}

/* ---- Rows ---- */

fdb_error_t rows_visit(FDBTransaction *tr, keel_bytes begin, keel_bytes end, int limit, bool snapshot, row_visitor visit, void *context, bool *more) {
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t has_more;
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin.data, (int)begin.length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, (int)end.length), limit, 0,
                                                  FDB_STREAMING_MODE_SERIAL, 0, snapshot, 0);
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &has_more);
    for (int i = 0; !error && i < count; i++)
        error = visit(context, keel_bytes_of(rows[i].key, (size_t)rows[i].key_length), keel_bytes_of(rows[i].value, (size_t)rows[i].value_length));
    if (!error)
        *more = has_more != 0;
    fdb_future_destroy(future);
    return error;
}

/* ---- Results ---- */

void results_clear(struct results *results) {
    json_decref(results->rows);
    results->rows = NULL;
    results->text.length = 0;
    results->count = 0;
}

void results_json(struct results *results, json_t *row) {
    if (!results->rows)
        results->rows = json_array();
    if (!row || json_array_append_new(results->rows, row)) {
        report("out of memory");
        exit(EXIT_FAILED);
    }
    results->count++;
}

void results_text(struct results *results, keel_bytes text) {
    buffer_append(&results->text, text.data, text.length);
}

void results_format(struct results *results, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    results_text(results, keel_bytes_of(text, length < (int)sizeof text ? (size_t)length : sizeof text - 1));
}

void results_name(struct results *results, const keel_element *element) {
    name_print(element, &results->text);
}

void results_value(struct results *results, keel_bytes value) {
    struct buffer text = {0};
    text_word_from_bytes(NULL, value, &text);
    results_text(results, keel_bytes_of(text.data, text.length));
    buffer_free(&text);
}

void results_print(struct results *results) {
    size_t index;
    json_t *row;
    json_array_foreach(results->rows, index, row) output_json(json_incref(row));
    if (results->text.length > 0)
        fwrite(results->text.data, 1, results->text.length, stdout);
    results_clear(results);
}

void results_free(struct results *results) {
    results_clear(results);
    buffer_free(&results->text);
}
