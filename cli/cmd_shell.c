/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the shell and of scripts: transactions over several commands, their options and conflict ranges, help, exit.
 *
 * begin makes the session's current transaction; the other commands then work in it instead of one of their own. It ends with commit, whether that
 * succeeds or not, rollback, or Ctrl-C in a command. A commit that finds a conflict says on which keys: begin asks the library to keep them, and they
 * are read from \xff\xff/transaction/conflicting_keys/ before the transaction is dropped. Ranges there are given by their ends: the key where
 * one begins has the value "1", the key where it ends "0".
 */
#include "core.h"

#include <stdlib.h>

#define CONFLICTING_KEYS "\xff\xff/transaction/conflicting_keys/"
#define READ_CONFLICTS "\xff\xff/transaction/read_conflict_range/"
#define WRITE_CONFLICTS "\xff\xff/transaction/write_conflict_range/"

enum { NOT_COMMITTED = 1020, CONFLICTS_SHOWN_MAX = 100 };

static const struct option_spec NO_OPTIONS[] = {{NULL, 0, false, NULL}};

/* Reports unless there are no arguments. */
static bool no_arguments(const struct command *command, int argc, char **argv) {
    if (!options_parse(command, &argc, argv, NO_OPTIONS))
        return false;
    if (argc > 1)
        usage_error(command, "It takes no arguments");
    return argc == 1;
}

static bool needs_transaction(const struct session *session, const char *doing) {
    if (session->current)
        return true;
    report("%s: no transaction is open: \"begin\" opens one%s", doing, session->many ? "" : ", in the shell (keel DB) or in a script (keel DB < FILE)");
    return false;
}

/* ---- Conflict ranges ---- */

static void print_range(const struct session *session, const struct directory_names *names, const char *kind, keel_bytes begin, keel_bytes end) {
    if (session->json) {
        output_json(json_pack("{s:s, s:o, s:o}", "conflict", kind, "begin", output_json_bytes(names, begin), "end", output_json_bytes(names, end)));
        return;
    }
    struct buffer text = {0};
    text_word_from_bytes(names, begin, &text);
    printf("%s %s", kind, buffer_text(&text));
    bool single = end.length == begin.length + 1 && end.data[begin.length] == 0 && (begin.length == 0 || memcmp(begin.data, end.data, begin.length) == 0);
    if (!single) {
        text_word_from_bytes(names, end, &text);
        printf(" %s", buffer_text(&text));
    }
    putchar('\n');
    buffer_free(&text);
}

/* All ranges that lie under a prefix of special keys. */
static fdb_error_t print_ranges(struct session *session, const char *prefix, const char *kind) {
    size_t length = strlen(prefix);
    struct buffer end = {0};
    struct directory_names *names = NULL;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more;
    buffer_append(&end, prefix, length);
    end.data[length - 1]++;
    FDBFuture *future = fdb_transaction_get_range(session->current, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)prefix, (int)length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, (int)end.length), 2 * CONFLICTS_SHOWN_MAX, 0,
                                                  FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    FDBTransaction *fresh;
    if (!error && fdb_database_create_transaction(session_database(session), &fresh) == 0) {
        if (directory_names_load(fresh, &names) != 0)
            names = NULL;
        fdb_transaction_destroy(fresh);
    }
    for (int i = 0; i < count && !error; i++) {
        if (rows[i].value_length != 1 || rows[i].value[0] != '1')
            continue;
        keel_bytes begin = keel_bytes_of(rows[i].key + length, (size_t)rows[i].key_length - length);
        bool closed = i + 1 < count;
        print_range(session, names, kind, begin, closed ? keel_bytes_of(rows[i + 1].key + length, (size_t)rows[i + 1].key_length - length) : keel_bytes_of("\xff", 1));
    }
    directory_names_free(names);
    fdb_future_destroy(future);
    buffer_free(&end);
    return error;
}

struct conflict_context {
    const char *begin_text, *end_text;
    struct buffer begin, end;
    FDBConflictRangeType type;
};

static fdb_error_t in_conflict(FDBTransaction *tr, void *pointer) {
    struct conflict_context *context = pointer;
    fdb_error_t error;
    if (context->end_text) {
        error = range_from_texts(tr, context->begin_text, context->end_text, &context->begin, &context->end);
    } else {
        error = text_to_key(tr, context->begin_text, &context->begin);
        context->end.length = 0;
        buffer_append(&context->end, context->begin.data, context->begin.length);
        buffer_append(&context->end, "", 1);
    }
    return error ? error
                 : fdb_transaction_add_conflict_range(tr, context->begin.data, (int)context->begin.length, context->end.data, (int)context->end.length,
                                                      context->type);
}

static int command_conflict(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("conflict");
    if (!options_parse(command, &argc, argv, NO_OPTIONS))
        return EXIT_USAGE;
    bool reads = argc > 1 && strcmp(argv[1], "read") == 0, writes = argc > 1 && strcmp(argv[1], "write") == 0;
    if (argc > 4 || argc == 2 || (argc > 1 && !reads && !writes))
        return usage_error(command, "read or write, a key, and perhaps the end of the range");
    if (!needs_transaction(session, "conflict"))
        return EXIT_FAILED;
    fdb_error_t error;
    if (argc == 1) {
        error = print_ranges(session, READ_CONFLICTS, "read");
        if (!error)
            error = print_ranges(session, WRITE_CONFLICTS, "write");
        return error ? report_error("conflict", NULL, error) : EXIT_OK;
    }
    struct conflict_context context = {.begin_text = argv[2], .end_text = argc > 3 ? argv[3] : NULL};
    context.type = reads ? FDB_CONFLICT_RANGE_TYPE_READ : FDB_CONFLICT_RANGE_TYPE_WRITE;
    error = session_write(session, in_conflict, &context);
    buffer_free(&context.begin);
    buffer_free(&context.end);
    return error ? report_error("conflict", argv[2], error) : EXIT_OK;
}

/* ---- Transactions ---- */

static int command_begin(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("begin");
    const char *version_text = NULL;
    const struct option_spec specs[] = {{"read-version", 'v', true, &version_text}, {NULL, 0, false, NULL}};
    int64_t version = -1;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc > 1)
        return usage_error(command, "It takes no arguments");
    if (version_text && !options_number("--read-version", version_text, 0, INT64_MAX, &version))
        return EXIT_USAGE;
    if (!session->many)
        return report("begin: a transaction needs several commands: use the shell (keel DB) or a script (keel DB < FILE)");
    if (session->current)
        return report("begin: a transaction is open already: commit or rollback ends it, reset begins it anew");
    fdb_error_t error = session_begin(session, version);
    return error ? report_error("begin", NULL, error) : EXIT_OK;
}

static int64_t approximate_size(FDBTransaction *transaction) {
    FDBFuture *future = fdb_transaction_get_approximate_size(transaction);
    int64_t size = -1;
    if (session_wait(future) != 0 || fdb_future_get_int64(future, &size) != 0)
        size = -1;
    fdb_future_destroy(future);
    return size;
}

static int report_commit(struct session *session, fdb_error_t error, int64_t size) {
    int code;
    if (error == 2101 && size >= 0)
        code = report("commit: The transaction has about %s bytes; at most 10,000,000 are possible (%d). Make several smaller ones", human_count((uint64_t)size), error);
    else
        code = report_error("commit", NULL, error);
    if (error == NOT_COMMITTED)
        print_ranges(session, CONFLICTING_KEYS, "conflict");
    bool unknown = fdb_error_predicate(FDB_ERROR_PREDICATE_MAYBE_COMMITTED, error) || code == EXIT_INTERRUPTED || error == 1031;
    report(unknown ? "The transaction has ended; whether it took effect is not known" : "The transaction has ended; nothing of it was written");
    return code;
}

static int command_commit(struct session *session, int argc, char **argv) {
    if (!no_arguments(command_find("commit"), argc, argv))
        return EXIT_USAGE;
    if (!needs_transaction(session, "commit"))
        return EXIT_FAILED;
    int64_t size = approximate_size(session->current);
    FDBFuture *future = fdb_transaction_commit(session->current);
    fdb_error_t error = session_wait(future);
    int code = EXIT_OK;
    fdb_future_destroy(future);
    session->committed_version = -1;
    if (error)
        code = report_commit(session, error, size);
    else if (fdb_transaction_get_committed_version(session->current, &session->committed_version) != 0)
        session->committed_version = -1;
    session_rollback(session);
    if (!error)
        print_committed(session);
    return code;
}

static int command_rollback(struct session *session, int argc, char **argv) {
    if (!no_arguments(command_find("rollback"), argc, argv))
        return EXIT_USAGE;
    if (!needs_transaction(session, "rollback"))
        return EXIT_FAILED;
    session_rollback(session);
    return EXIT_OK;
}

static int command_reset(struct session *session, int argc, char **argv) {
    if (!no_arguments(command_find("reset"), argc, argv))
        return EXIT_USAGE;
    if (!needs_transaction(session, "reset"))
        return EXIT_FAILED;
    fdb_error_t error = session_reset(session);
    return error ? report_error("reset", NULL, error) : EXIT_OK;
}

/* ---- Options ---- */

static void print_option(void *context, const char *name, const char *kind, const char *summary, bool is_set) {
    const struct session *session = context;
    if (session->json)
        output_json(json_pack("{s:s, s:s, s:s, s:b}", "name", name, "value", kind, "summary", summary, "set", is_set));
    else
        printf("%s %-34s %-6s  %s\n", is_set ? "*" : " ", name, kind, summary);
}

static int command_option(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("option");
    if (!options_parse(command, &argc, argv, NO_OPTIONS))
        return EXIT_USAGE;
    bool off = argc > 1 && strcmp(argv[1], "off") == 0, on = argc > 1 && strcmp(argv[1], "on") == 0;
    char **names = argv + 1 + (on || off);
    int count = argc - 1 - (on || off);
    if (count > (off ? 1 : 2) || (on && count == 0))
        return usage_error(command, "An option's name, and its value if it has one");
    if (off)
        return session_unset_option(session, count ? names[0] : NULL) ? EXIT_OK : EXIT_FAILED;
    if (count == 0) {
        session_list_options(print_option, session, session);
        return EXIT_OK;
    }
    if (!session->many)
        return report("option: it counts for the commands that follow, and none does: write keel --option %s DB COMMAND", names[0]);
    return session_set_option(session, names[0], count > 1 ? names[1] : NULL) ? EXIT_OK : EXIT_FAILED;
}

/* ---- Help, exit ---- */

static int command_help_(struct session *session, int argc, char **argv) {
    (void)session;
    if (argc > 2)
        return usage_error(command_find("help"), "One command at a time");
    return command_help(argv[1]);
}

static int command_exit(struct session *session, int argc, char **argv) {
    (void)session;
    return no_arguments(command_find(argv[0]), argc, argv) ? EXIT_OK : EXIT_USAGE;
}

const struct command shell_commands[] = {
    {"begin", "[--read-version VERSION]", "Opens a transaction for the commands that follow",
     "They see what it has written; nobody else does before \"commit\". It lives five seconds from its\n"
     "first read. --read-version reads as of a version of the last five seconds (\"getversion\").\n"
     "\n"
     "    $ printf 'begin\\n set a 1\\n set b 2\\n commit\\n' | keel my.db\n"
     "    $ keel my.db getrange\n"
     "    a is 1\n"
     "    b is 2\n",
     command_begin, COMMAND_SHELL, false, false},
    {"commit", "", "Makes the current transaction's writes durable, all or none",
     "If a key that it read has been changed by somebody else, nothing is written, and the keys are\n"
     "named: begin again. The transaction has ended in any case.\n"
     "\n"
     "    $ printf 'begin; set a 1; commit' | keel my.db\n"
     "    $ keel my.db get a\n"
     "    1\n",
     command_commit, COMMAND_SHELL, false, false},
    {"rollback", "", "Ends the current transaction and writes nothing",
     "    $ printf 'begin; set a 1; rollback; getrange' | keel my.db\n",
     command_rollback, COMMAND_SHELL, false, false},
    {"reset", "", "Begins the current transaction anew, without what it has read and written",
     "    $ printf 'begin; set a 1; reset; set b 2; commit; getrange' | keel my.db\n"
     "    b is 2\n",
     command_reset, COMMAND_SHELL, false, false},
    {"option", "[on] NAME [VALUE] | off [NAME] | (nothing: the list)", "Sets a transaction option",
     "On the current transaction; without one, on all that follow, until \"option off\". For a single\n"
     "command: keel --option NAME=VALUE DB COMMAND.\n"
     "\n"
     "    $ printf 'begin; option size_limit 1000; set a 1; commit' | keel my.db\n"
     "    $ keel --option read_system_keys my.db getrange '\\xff' --limit 1 --quiet\n",
     command_option, COMMAND_SHELL, false, true},
    {"conflict", "[read|write KEY [END]]", "Shows or adds conflict ranges of the current transaction",
     "A transaction is refused if one that committed since wrote where it has a read conflict range.\n"
     "Reading and writing add ranges by themselves. Without END the range is the one key.\n"
     "\n"
     "    $ printf 'begin; getrange a b; conflict write c; conflict; rollback' | keel my.db\n"
     "    read a b\n"
     "    write c\n",
     command_conflict, COMMAND_SHELL, false, false},
    {"help", "[COMMAND]", "Lists the commands, or explains one", "    $ keel help get\n    usage: keel DB get [--raw] KEY\n    …\n", command_help_, COMMAND_SHELL, false, false},
    {"exit", "", "Ends the shell; so do quit and Ctrl-D", "An open transaction is dropped.\n", command_exit, COMMAND_SHELL, false, false},
    {"quit", "", "Ends the shell", "As \"exit\".\n", command_exit, COMMAND_SHELL, false, false},
    {0},
};
