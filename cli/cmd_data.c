/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get, set, clear, clearrange, getkey, getversion; the table of the data commands, others of which have files of their own (cmd_range.c,
 * cmd_atomic.c, cmd_watch.c).
 *
 * Every command is one function that runs in a transaction (in_…) with a context, and one around it that reads the arguments, runs it and prints. A key
 * is read inside the transaction, since /app/users("id", 7) is looked up there. The context outlives retries: buffers are emptied, not
 * allocated again.
 *
 * Sizes are looked at before the database does, so that the message can name the key and the limit.
 */
#include "core.h"

#include <errno.h>
#include <stdlib.h>

enum { KEY_LENGTH_MAX = 10000, VALUE_LENGTH_MAX = 100000, SCREENFUL = 25 };

/* ---- Printing ---- */

static int64_t decode_64(const uint8_t *data) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | data[i];
    return (int64_t)value;
}

/* Behind a comment mark, so that the line can still be read back. */
static void print_number(keel_bytes value, const struct buffer *text) {
    static const int64_t plausible = INT64_C(1) << 56;
    if (value.length != 8 || text->length == 0 || text->data[0] == '(')
        return;
    int64_t number = decode_64(value.data);
    bool printable = true;
    for (size_t i = 0; i < value.length; i++)
        printable = printable && value.data[i] >= 0x20 && value.data[i] < 0x7f;
    if (!printable && number > -plausible && number < plausible)
        printf("  # %lld", (long long)number);
}

void print_value(keel_bytes value) {
    struct buffer text = {0};
    text_word_from_bytes(NULL, value, &text);
    fwrite(text.data, 1, text.length, stdout);
    print_number(value, &text);
    putchar('\n');
    buffer_free(&text);
}

void print_row(const struct session *session, const struct directory_names *names, keel_bytes key, keel_bytes value, bool keys_only) {
    if (session->json) {
        json_t *row = json_pack("{s:o}", "key", output_json_bytes(names, key));
        if (!keys_only)
            json_object_set_new(row, "value", output_json_bytes(NULL, value));
        output_json(row);
        return;
    }
    struct buffer text = {0};
    text_word_from_bytes(names, key, &text);
    fwrite(text.data, 1, text.length, stdout);
    buffer_free(&text);
    if (keys_only) {
        putchar('\n');
        return;
    }
    fputs(" is ", stdout);
    print_value(value);
}

void print_committed(const struct session *session) {
    if (session->json)
        output_json(session->committed_version < 0 ? json_pack("{s:n}", "committed_version")
                                                   : json_pack("{s:I}", "committed_version", (json_int_t)session->committed_version));
    else if (session->interactive && !session->quiet && session->committed_version >= 0)
        printf("Committed at version %lld\n", (long long)session->committed_version);
}

/* ---- get ---- */

struct get_context {
    const char *text;
    struct buffer key, value;
    fdb_bool_t present;
    struct directory_names *names; /* loaded for JSON, which shows the key */
    bool wants_names;
};

static fdb_error_t in_get(FDBTransaction *tr, void *pointer) {
    struct get_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->text, &context->key);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, context->key.data, (int)context->key.length, 0);
    const uint8_t *value;
    int length = 0;
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &context->present, &value, &length);
    context->value.length = 0;
    if (!error && context->present)
        buffer_append(&context->value, value, (size_t)length);
    fdb_future_destroy(future);
    directory_names_free(context->names);
    context->names = NULL;
    return error || !context->wants_names ? error : directory_names_load(tr, &context->names);
}

static int print_got(const struct session *session, const struct get_context *context, bool raw) {
    keel_bytes value = keel_bytes_of(context->value.data, context->value.length);
    if (session->json)
        output_json(json_pack("{s:o, s:o}", "key", output_json_bytes(context->names, keel_bytes_of(context->key.data, context->key.length)), "value",
                              context->present ? output_json_bytes(NULL, value) : json_null()));
    else if (!context->present)
        report("get: %.300s: there is no such key", context->text);
    else if (raw)
        fwrite(value.data, 1, value.length, stdout);
    else
        print_value(value);
    return context->present ? EXIT_OK : EXIT_NOT_FOUND;
}

static int command_get(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("get");
    const char *raw = NULL;
    const struct option_spec specs[] = {{"raw", 'r', false, &raw}, {NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, argc < 2 ? "Which key?" : "One key at a time. A key with spaces goes in quotes");
    struct get_context context = {.text = argv[1], .wants_names = session->json};
    fdb_error_t error = session_read(session, in_get, &context);
    int code = error ? report_error("get", argv[1], error) : print_got(session, &context, raw);
    buffer_free(&context.key);
    buffer_free(&context.value);
    directory_names_free(context.names);
    return code;
}

/* ---- set ---- */

struct set_context {
    const char *text;
    struct buffer key, value;
};

static fdb_error_t in_set(FDBTransaction *tr, void *pointer) {
    struct set_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->text, &context->key);
    if (error)
        return error;
    if (context->key.length > KEY_LENGTH_MAX) {
        report("set: %.60s…: the key has %s bytes; at most 10,000 are possible. Keep keys short: a long text belongs in the value", context->text,
               human_count(context->key.length));
        return ERROR_REPORTED;
    }
    fdb_transaction_set(tr, context->key.data, (int)context->key.length, context->value.data, (int)context->value.length);
    return 0;
}

/* The whole of a file, "-" standard input. False: reported. */
static bool read_whole(const char *path, struct buffer *bytes) {
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char block[4096];
    size_t got;
    if (!file) {
        report("set: %s: %s", path, strerror(errno));
        return false;
    }
    while (bytes->length <= VALUE_LENGTH_MAX && (got = fread(block, 1, sizeof block, file)) > 0)
        buffer_append(bytes, block, got);
    bool good = !ferror(file);
    if (!good)
        report("set: %s: it could not be read", path);
    if (!standard)
        fclose(file);
    return good;
}

static int check_value(const char *key, const struct buffer *value, bool whole) {
    if (value->length <= VALUE_LENGTH_MAX)
        return EXIT_OK;
    return report("set: %.300s: the value has %s%s bytes; at most 100,000 are possible. Spread it over several keys, as \"blob\" does", key,
                  whole ? "" : "more than ", whole ? human_count(value->length) : "100,000");
}

static int command_set(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("set");
    const char *file = NULL, *message;
    const struct option_spec specs[] = {{"file", 'f', true, &file}, {NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != (file ? 2 : 3))
        return usage_error(command, argc < 2 ? "Which key?" : file || argc > 3 ? "One key and one value. What has spaces goes in quotes" : "Which value?");
    if (file && strcmp(file, "-") == 0 && session->many)
        return usage_error(command, "Standard input is where the commands come from: name a file");
    struct set_context context = {.text = argv[1]};
    int code = EXIT_OK;
    if (file && !read_whole(file, &context.value))
        code = EXIT_FAILED;
    else if (!file && !text_to_value(argv[2], &context.value, &message)) {
        report("set: the value: %s", message);
        code = EXIT_USAGE;
    }
    if (code == EXIT_OK)
        code = check_value(argv[1], &context.value, file == NULL);
    if (code == EXIT_OK) {
        fdb_error_t error = session_write(session, in_set, &context);
        code = error ? report_error("set", argv[1], error) : EXIT_OK;
        if (!error)
            print_committed(session);
    }
    buffer_free(&context.key);
    buffer_free(&context.value);
    return code;
}

/* ---- clear ---- */

static fdb_error_t in_clear(FDBTransaction *tr, void *pointer) {
    struct set_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->text, &context->key);
    if (!error)
        fdb_transaction_clear(tr, context->key.data, (int)context->key.length);
    return error;
}

static int command_clear(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("clear");
    const struct option_spec specs[] = {{NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, argc < 2 ? "Which key?" : "One key at a time; clearrange clears many");
    struct set_context context = {.text = argv[1]};
    fdb_error_t error = session_write(session, in_clear, &context);
    int code = error ? report_error("clear", argv[1], error) : EXIT_OK;
    if (!error)
        print_committed(session);
    buffer_free(&context.key);
    return code;
}

/* ---- clearrange ---- */

struct clearrange_context {
    const char *begin_text, *end_text;
    struct buffer begin, end;
    int count; /* of rows, up to a screenful and one */
};

static fdb_error_t in_count(FDBTransaction *tr, void *pointer) {
    struct clearrange_context *context = pointer;
    fdb_error_t error = range_from_texts(tr, context->begin_text, context->end_text, &context->begin, &context->end);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(context->begin.data, (int)context->begin.length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(context->end.data, (int)context->end.length), SCREENFUL + 1, 0,
                                                  FDB_STREAMING_MODE_EXACT, 1, 1, 0);
    const FDBKeyValue *rows;
    fdb_bool_t more;
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &context->count, &more);
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t in_clearrange(FDBTransaction *tr, void *pointer) {
    struct clearrange_context *context = pointer;
    fdb_error_t error = range_from_texts(tr, context->begin_text, context->end_text, &context->begin, &context->end);
    if (!error)
        fdb_transaction_clear_range(tr, context->begin.data, (int)context->begin.length, context->end.data, (int)context->end.length);
    return error;
}

static int command_clearrange(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("clearrange");
    const struct option_spec specs[] = {{NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc < 2 || argc > 3)
        return usage_error(command, argc < 2 ? "Which keys? BEGIN and END, or what they begin with" : "BEGIN and END are all it takes");
    struct clearrange_context context = {.begin_text = argv[1], .end_text = argv[2]};
    fdb_error_t error = session->assume_yes ? 0 : session_read(session, in_count, &context);
    int code = EXIT_OK;
    if (!error && context.count > SCREENFUL && !confirm(session, "clearrange %.200s%s%.200s clears more than %d rows. Go on?", argv[1], argv[2] ? " " : "", argv[2] ? argv[2] : "", SCREENFUL))
        code = session_interrupted() ? EXIT_INTERRUPTED : report("clearrange: nothing was cleared");
    else if (!error)
        error = session_write(session, in_clearrange, &context);
    if (error)
        code = report_error("clearrange", argv[1], error);
    else if (code == EXIT_OK)
        print_committed(session);
    buffer_free(&context.begin);
    buffer_free(&context.end);
    return code;
}

/* ---- getkey ---- */

struct getkey_context {
    const char *text;
    bool or_equal;
    int offset;
    struct buffer key, found;
    struct directory_names *names;
};

static fdb_error_t in_getkey(FDBTransaction *tr, void *pointer) {
    struct getkey_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->text, &context->key);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_key(tr, context->key.data, (int)context->key.length, context->or_equal, context->offset, 0);
    const uint8_t *found;
    int length;
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_key(future, &found, &length);
    context->found.length = 0;
    if (!error)
        buffer_append(&context->found, found, (size_t)length);
    fdb_future_destroy(future);
    directory_names_free(context->names);
    context->names = NULL;
    return error ? error : directory_names_load(tr, &context->names);
}

static const struct selector {
    const char *names[3];
    bool or_equal;
    int offset;
} SELECTORS[] = {
    {{"<", "lt", "last_less_than"}, false, 0},
    {{"<=", "le", "last_less_or_equal"}, true, 0},
    {{">", "gt", "first_greater_than"}, true, 1},
    {{">=", "ge", "first_greater_or_equal"}, false, 1},
};

static const struct selector *find_selector(const char *name) {
    for (size_t i = 0; i < sizeof SELECTORS / sizeof SELECTORS[0]; i++) {
        for (size_t j = 0; j < 3; j++) {
            if (strcmp(SELECTORS[i].names[j], name) == 0)
                return &SELECTORS[i];
        }
    }
    return NULL;
}

/* "" lies before the first key, ff (ff ff with system keys) behind the last. */
static int print_found(const struct session *session, const struct getkey_context *context) {
    keel_bytes found = keel_bytes_of(context->found.data, context->found.length);
    bool before = found.length == 0, behind = !before && found.data[0] == 0xff && (found.length == 1 || (found.length == 2 && found.data[1] == 0xff));
    if (session->json)
        output_json(json_pack("{s:o}", "key", before || behind ? json_null() : output_json_bytes(context->names, found)));
    else if (before || behind)
        report("getkey: %.300s: there is none: the selector leads %s key", context->text, before ? "before the first" : "behind the last");
    else
        print_row(session, context->names, found, found, true);
    return before || behind ? EXIT_NOT_FOUND : EXIT_OK;
}

static int command_getkey(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("getkey");
    const char *offset = NULL;
    const struct option_spec specs[] = {{"offset", 'o', true, &offset}, {NULL, 0, false, NULL}};
    int64_t further = 0;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 3)
        return usage_error(command, "A selector and a key are needed");
    const struct selector *selector = find_selector(argv[1]);
    if (!selector)
        return usage_error(command, "%.60s is no selector: lt, le, gt or ge", argv[1]);
    if (offset && !options_number("--offset", offset, -1000000, 1000000, &further))
        return EXIT_USAGE;
    struct getkey_context context = {.text = argv[2], .or_equal = selector->or_equal, .offset = selector->offset + (int)further};
    fdb_error_t error = session_read(session, in_getkey, &context);
    int code = error ? report_error("getkey", argv[2], error) : print_found(session, &context);
    buffer_free(&context.key);
    buffer_free(&context.found);
    directory_names_free(context.names);
    return code;
}

/* ---- getversion ---- */

static fdb_error_t in_getversion(FDBTransaction *tr, void *version) {
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_int64(future, version);
    fdb_future_destroy(future);
    return error;
}

static int command_getversion(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("getversion");
    const struct option_spec specs[] = {{NULL, 0, false, NULL}};
    int64_t version;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 1)
        return usage_error(command, "It takes no arguments");
    fdb_error_t error = session_read(session, in_getversion, &version);
    if (error)
        return report_error("getversion", NULL, error);
    if (session->json)
        output_json(json_pack("{s:I}", "version", (json_int_t)version));
    else
        printf("%lld\n", (long long)version);
    return EXIT_OK;
}

/* ---- The table ---- */

const struct command data_commands[] = {
    {"get", "[--raw] KEY", "Shows the value of a key",
     "The value is shown so that it can be typed again: text with escapes, or a tuple. --raw gives\n"
     "its bytes as they are, for a file or a pipe. A key that is not there: exit code 3.\n"
     "\n"
     "    $ keel my.db set hello world\n"
     "    $ keel my.db get hello\n"
     "    world\n"
     "    $ keel my.db set '(\"users\", 42)' '(\"Ada\", 1815)'\n"
     "    $ keel my.db get '(\"users\", 42)'\n"
     "    (\"Ada\", 1815)\n"
     "    $ keel my.db get --raw hello | wc -c\n"
     "    5\n"
     "    $ keel my.db --json get hello\n"
     "    {\"key\": {\"text\": \"hello\", \"hex\": \"68656c6c6f\"}, \"value\": {\"text\": \"world\", \"hex\": \"776f726c64\"}}\n",
     command_get, COMMAND_DATA, false, true},
    {"set", "[--file FILE] KEY [VALUE]", "Sets a key to a value",
     "Keys have up to 10,000 bytes, values up to 100,000. Both are text with escapes or tuples; keys\n"
     "also /directory/path(tuple). --file takes the value from a file as it is, - from standard input.\n"
     "\n"
     "    $ keel my.db set hello world\n"
     "    $ keel my.db set 'a\\x00b' 'two words'\n"
     "    $ keel my.db set '(\"point\", 1.5, true)' ''\n"
     "    $ date | keel my.db set --file - now\n"
     "    $ keel my.db getrange a b\n"
     "    a\\x00b is \"two words\"\n",
     command_set, COMMAND_DATA, false, false},
    {"clear", "KEY", "Removes a key",
     "A key that is not there is no error.\n"
     "\n"
     "    $ keel my.db set hello world\n"
     "    $ keel my.db clear hello\n",
     command_clear, COMMAND_DATA, false, false},
    {"clearrange", "BEGIN [END]", "Removes all keys from BEGIN up to, but not including, END",
     "Without END: all keys that begin with BEGIN; for a tuple those are the tuple and all that extend\n"
     "it. More than 25 rows are not cleared unasked: on a terminal it asks, in a script say --yes.\n"
     "\n"
     "    $ keel my.db set a1 x\n"
     "    $ keel my.db set a2 x\n"
     "    $ keel my.db set b1 x\n"
     "    $ keel my.db clearrange a b\n"
     "    $ keel my.db clearrange --yes b\n"
     "    $ keel my.db getrange\n",
     command_clearrange, COMMAND_DATA, false, false},
    {"getrange", "[--limit N] [--all] [--reverse] [--keys] [BEGIN [END [LIMIT]]]", "Shows rows from BEGIN up to, but not including, END",
     "Without END: all keys that begin with BEGIN; without BEGIN: all keys. 25 rows are shown unless\n"
     "--limit says otherwise; in the shell, \"more\" shows the next. --all shows everything: it reads\n"
     "in as many transactions as it needs, so what is written meanwhile may be missing or there. In\n"
     "each line, key and value can be typed again as they stand. --keys shows no values.\n"
     "With --json each row is an object; if there are more rows, the last line is\n"
     "{\"more\": true, \"next\": key}: where to begin (with --reverse: to end) the next time.\n"
     "\n"
     "    $ keel my.db set '(\"users\", 1)' Ada\n"
     "    $ keel my.db set '(\"users\", 2)' Grace\n"
     "    $ keel my.db getrange '(\"users\")'\n"
     "    (\"users\", 1) is Ada\n"
     "    (\"users\", 2) is Grace\n"
     "    $ keel my.db getrange --reverse --limit 1 '(\"users\")'\n"
     "    (\"users\", 2) is Grace\n"
     "    There are more rows: …\n"
     "    $ keel my.db getrange --all --keys > keys.txt\n",
     command_getrange, COMMAND_DATA, false, true},
    {"more", "[LIMIT]", "Shows the rows behind those of the last getrange",
     "In the shell and in scripts.\n"
     "\n"
     "    $ keel my.db set a 1\n"
     "    $ keel my.db set b 2\n"
     "    $ printf 'getrange --limit 1\\n more\\n' | keel my.db\n"
     "    a is 1\n"
     "    There are more rows: \"more\" shows them\n"
     "    b is 2\n",
     command_more, COMMAND_DATA, false, true},
    {"getkey", "[--offset N] lt|le|gt|ge KEY", "Finds a key by a selector",
     "lt: the last key less than KEY, le: less or equal, gt: the first key greater than KEY, ge: greater\n"
     "or equal; also written <, <=, >, >=. --offset goes that many keys further, or back if negative.\n"
     "Where there is none: exit code 3.\n"
     "\n"
     "    $ keel my.db set a 1\n"
     "    $ keel my.db set b 2\n"
     "    $ keel my.db getkey gt a\n"
     "    b\n"
     "    $ keel my.db getkey ge a --offset 1\n"
     "    b\n",
     command_getkey, COMMAND_DATA, false, true},
    {"atomic", "[--bytes] OPERATION KEY OPERAND", "Changes a value without reading it",
     "Such changes never conflict with each other. OPERATION:\n"
     "\n"
     "  add, min, max          on integers of 8 bytes, little-endian; the operand is a number\n"
     "  and, or, xor           bit by bit; the operand is bytes as in \"set\"\n"
     "  byte_min, byte_max     the lesser, the greater as bytes\n"
     "  append_if_fits         puts the operand behind the value, up to 100,000 bytes\n"
     "  compare_and_clear      removes the key if its value is the operand\n"
     "  set_versionstamped_key    sets a key that holds incomplete(N), which the commit completes\n"
     "  set_versionstamped_value  sets a value that does\n"
     "\n"
     "--bytes takes the operand of add, min and max as bytes as well. In a text, not a tuple, ten bytes\n"
     "\\xff mark the place of a versionstamp.\n"
     "\n"
     "    $ keel my.db atomic add counter 5\n"
     "    $ keel my.db atomic add counter -2\n"
     "    $ keel my.db get counter\n"
     "    \\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00  # 3\n"
     "    $ keel my.db atomic set_versionstamped_key '(\"log\", incomplete(0))' 'first line'\n"
     "    versionstamp …\n"
     "    $ keel my.db getrange '(\"log\")'\n"
     "    (\"log\", versionstamp(0x…, 0)) is \"first line\"\n",
     command_atomic, COMMAND_DATA, false, false},
    {"watch", "[--count N] [--background] KEY", "Waits until the value of a key changes",
     "Shows the new value and ends; with --count N after that many changes, 0 for until Ctrl-C.\n"
     "--background (in the shell and in scripts) does not wait: the change is told before the next\n"
     "prompt. --timeout SECONDS before the command limits the waiting.\n"
     "\n"
     "    $ printf 'watch --background hello\\n set hello world\\n' | keel my.db\n"
     "    hello is now world\n",
     command_watch, COMMAND_DATA, false, false},
    {"getversion", "", "Shows the read version: of the current transaction, or of a new one",
     "Versions grow by about a million a second.\n"
     "\n"
     "    $ keel my.db set hello world\n"
     "    $ keel my.db getversion\n"
     "    …\n",
     command_getversion, COMMAND_DATA, false, true},
    {0},
};
