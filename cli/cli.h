/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the keel command share. A command is a row of a table (commands.c) and a function that gets a session and its
 * arguments; it runs the same from the shell (keel DB) and alone (keel DB COMMAND …).
 *
 *     main.c       options before the command, opening, exit codes        shell.c     the prompt, history, completion, Ctrl-C
 *     commands.c   the table of all commands, dispatch, help              session.c   the open database and the current transaction
 *     text.c       keys and values as text, both ways                     output.c    rows for people and for --json, progress
 *     cmd_*.c      the commands, a file a subject
 *
 * Threads: one. Ctrl-C sets a flag that every wait and every loop of a command looks at (session_wait, session_interrupted).
 */
#ifndef KEEL_CLI_H
#define KEEL_CLI_H

#include <keel/keel.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The files of the core share more: cli/core.h. */

/* What the command ends with; scripts rely on it. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,        /* the command could not do what it was asked: the message says why */
    EXIT_USAGE = 2,         /* the command line or a key in it is wrong; nothing was done */
    EXIT_NOT_FOUND = 3,     /* the key, directory, document, … that was asked for is not there */
    EXIT_DAMAGE = 4,        /* check found damage */
    EXIT_INTERRUPTED = 130, /* Ctrl-C */
};

/* ---- The session ---- */

struct session {
    const char *path;        /* as given; NULL: the default place */
    keel_db *db;             /* opened by the first command that needs it (session_database) */
    FDBTransaction *current; /* between begin and commit; NULL: each command is a transaction of its own */
    bool json;               /* --json: one JSON value a result, on a line of its own */
    bool interactive;        /* in the shell, on a terminal */
    bool assume_yes;         /* --yes: nothing is asked */
    bool quiet;              /* --quiet: no progress */
    bool many;               /* commands come one after the other, from a terminal or a script: a transaction may span them */
    bool keep_going;         /* --keep-going: a script goes on after an error */
    bool no_database;        /* none was named: keel copy SRC DST and its like, which say all themselves */
    bool must_exist;         /* the command only reads: a database that is not there is an error and not made */
    double timeout_seconds;  /* --timeout, for every transaction; 0: none */
    int64_t committed_version;   /* of the last session_write; -1: nothing was written, or its transaction is still open */
    struct option_list *options; /* transaction options that every transaction of this session gets (session.c) */
};

/* Returned by session_write and session_read where the reason has been reported already; report_error says nothing about it then. */
enum { ERROR_REPORTED = 100000 };

/* Opens on first use. NULL after an error, which has been reported. */
FDBDatabase *session_database(struct session *session);

/*
 * False: `path` is a cluster file, and nobody behind it answers within --timeout or CLUSTER_ANSWERS_SECONDS; reported. A cluster's client would wait
 * for ever. Whatever else may be wrong the next call says.
 */
enum { CLUSTER_ANSWERS_SECONDS = 10 };
bool session_is_answered(const struct session *session, const char *path, FDBDatabase *database);

/*
 * Runs `function` in the current transaction, if there is one, else in one of its own with the retry loop, committed at the end (session_write) or
 * never (session_read). Errors are returned, not reported. Ctrl-C ends it with 1025.
 */
fdb_error_t session_write(struct session *session, keel_function function, void *context);
fdb_error_t session_read(struct session *session, keel_function function, void *context);

/* As keel_wait, but Ctrl-C cancels the future: 1101. */
fdb_error_t session_wait(FDBFuture *future);
/* Ctrl-C since the command began. */
bool session_interrupted(void);
/*
 * Ctrl-C does not end system calls: what may wait for long, a pipe or a terminal, is waited for here first. True: it can be read, written (a part at
 * least). False: a signal came, Ctrl-C (session_interrupted) or another.
 */
bool session_wait_input(int descriptor);
bool session_wait_output(int descriptor);

/* ---- Commands ---- */

typedef int (*command_function)(struct session *session, int argc, char **argv); /* argv[0] is the command's name */

struct command {
    const char *name;
    const char *arguments; /* "KEY VALUE", "[--limit N] BEGIN [END]" */
    const char *summary;   /* one line, no full stop */
    const char *help;      /* paragraphs and examples. An example is a line of four spaces, "$ " and a command as it is typed in bash, on
                              a database my.db in the current directory; lines below it, indented alike, are what it prints ("…" in
                              them stands for anything). tests/cli runs all of a help text one after the other, on a fresh my.db */
    command_function run;
    enum { COMMAND_DATA, COMMAND_STRUCTURE, COMMAND_RECIPE, COMMAND_BULK, COMMAND_OPERATION, COMMAND_SHELL } group;
    bool completes_directories; /* Tab completes directory paths in its arguments */
    bool only_reads;            /* never makes a database: one that is not there is an error */
};

/* Each cmd_*.c defines one table, ended by a row without a name; commands.c lists them. */
extern const struct command data_commands[], structure_commands[], recipe_commands[], bulk_commands[], operation_commands[], shell_commands[];

const struct command *command_find(const char *name);
/*
 * Finds, runs, and turns an unknown name into EXIT_USAGE with the nearest names. --help, --json, --yes and --quiet are taken out of the arguments
 * (before a "--") and count for this command.
 */
int command_run(struct session *session, int argc, char **argv);

/*
 * Options of a command: --name, --name=value, --name value, -n value; "--" ends them. -7 is a number, not an option. Removes what it finds from argv,
 * reports what is wrong (unknown, missing value) with the command's usage and returns false then. `specs` ends with a row without a name.
 */
struct option_spec {
    const char *name;   /* "limit" for --limit */
    char letter;        /* 'n', or 0 */
    bool takes_value;
    const char **value; /* set to the value, or to "" for a flag that is present; NULL stays where it is absent */
};
bool options_parse(const struct command *command, int *argc, char **argv, const struct option_spec *specs);
/* A whole number in [min, max]; reports otherwise. */
bool options_number(const char *option, const char *text, int64_t min, int64_t max, int64_t *number);

/* Reports that the arguments are wrong, with the command's usage: returns EXIT_USAGE. */
int usage_error(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Reporting ---- */

/*
 * "keel: set: users/7: The value is larger than 100,000 bytes (2103). …": what was being done, on what, the error's text and number, and where we
 * know it the remedy. Never prints in the middle of a line of output. Returns the exit code that fits.
 */
int report_error(const char *doing, const char *what, fdb_error_t error);
int report(const char *format, ...) __attribute__((format(printf, 1, 2))); /* our own words; returns EXIT_FAILED */

/* Asks on a terminal; yes without asking if --yes or nobody is there to ask but a script that said so. False: not confirmed. */
bool confirm(const struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Keys and values as text (text.c) ---- */

/* Bytes that a program owns: free(data). */
struct buffer {
    uint8_t *data;
    size_t length, capacity;
};
bool buffer_append(struct buffer *buffer, const void *data, size_t length);
void buffer_free(struct buffer *buffer);

/*
 * Reads a key or value: text with fdbcli's escapes (\\ \" \xHH and quotes taken off by the shell's splitting), or a tuple ("users", 42, 1.5, true, null, …)
 * in keel_tuple's text form, or a directory path and a tuple in it: /app/users("id", 7), which is looked up in `tr`.
 * False: *message (static or kept until the next call) says what is wrong and where.
 */
bool text_to_bytes(FDBTransaction *tr, const char *text, struct buffer *bytes, const char **message);
/* The same for values, where a text that begins with / is no directory path but text. */
bool text_to_value(const char *text, struct buffer *bytes, const char **message);

/*
 * For functions that run in a transaction: as text_to_bytes, but an error of the database comes back as it is, so that it is retried, and
 * anything wrong with the text as ERROR_TEXT, for which report_error prints text_to_bytes' message and returns EXIT_USAGE.
 */
enum { ERROR_TEXT = 100001 };
fdb_error_t text_to_key(FDBTransaction *tr, const char *text, struct buffer *key);

/*
 * Directory paths: /app/users, names between slashes with the escapes of keys (\\/ or \\x2f for a slash in a name); / and the empty text are the root; the first
 * slash may be left out. text_path_free in any case. text_from_path writes one that text_to_path reads back.
 */
struct text_path {
    keel_path path;
    struct buffer bytes; /* of the names */
    keel_bytes *names;
};
bool text_to_path(const char *text, struct text_path *path, const char **message);
void text_path_free(struct text_path *path);
void text_from_path(keel_path path, struct buffer *text);

/*
 * Shows bytes so that text_to_bytes reads the same bytes back: a tuple where they are one and look like one, else escaped text. `directories` (may be NULL)
 * turns prefixes into /paths.
 */
struct directory_names;
fdb_error_t directory_names_load(FDBTransaction *tr, struct directory_names **names); /* all directories, once a command */
void directory_names_free(struct directory_names *names);
void text_from_bytes(const struct directory_names *names, keel_bytes bytes, struct buffer *text);
/* The same as one word of the shell: in quotes where there are spaces in it. What every command prints for people. */
void text_word_from_bytes(const struct directory_names *names, keel_bytes bytes, struct buffer *text);

/* ---- Output (output.c) ---- */

/*
 * A result in --json: prints the object on one line and drops the reference. Keys and values are objects of three members: "text" as
 * text_from_bytes shows it, "tuple" (only where it is one), and "hex".
 */
void output_json(json_t *value);
json_t *output_json_bytes(const struct directory_names *names, keel_bytes bytes);

/* "1.2 GB", "3,141", "2 m 05 s": into a static ring of buffers. */
const char *human_bytes(uint64_t bytes);
const char *human_count(uint64_t count);
const char *human_seconds(double seconds);

/*
 * Progress of long work, on stderr: a bar with rate and time left that redraws itself on a terminal, a plain line every few seconds elsewhere,
 * nothing with --quiet. `total` 0: unknown. `unit` is "rows", "bytes", …
 */
struct progress;
struct progress *progress_begin(const struct session *session, const char *doing, const char *unit, uint64_t total);
void progress_update(struct progress *progress, uint64_t done, uint64_t rows);
void progress_end(struct progress *progress, bool completed);

#endif
