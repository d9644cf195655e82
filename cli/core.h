/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What main, shell, session, text and the data commands share with each other and with nobody else.
 */
#ifndef KEEL_CLI_CORE_H
#define KEEL_CLI_CORE_H

#include "cli.h"

/* ---- Interruption (session.c) ---- */

/* Takes Ctrl-C; once, before the first command. */
void session_catch_interrupts(void);
/* As session_wait_input, also false where the terminal has another size, or we were stopped and go on, until session_terminal_changed is asked. */
bool session_wait_prompt(int descriptor);
void session_catch_terminal_changes(void);
bool session_terminal_changed(void);
/* As session_wait, for so long at most, 0 for ever: then 1031. For watches, which outlive their transaction and its timeout. */
fdb_error_t session_wait_seconds(FDBFuture *future, double seconds);
/* A Ctrl-C has done what it should: it does not count for what comes next. Not when a command begins: it may have come for the script. */
void session_forget_interrupt(void);
/* Drops the current transaction, if any, and closes the database. */
void session_close(struct session *session);
/* Starts the current transaction. `read_version` -1: chosen by the database. */
fdb_error_t session_begin(struct session *session, int64_t read_version);
/* Everything of the current transaction is forgotten; it goes on. */
fdb_error_t session_reset(struct session *session);
void session_rollback(struct session *session);

/* ---- Transaction options by name (session_options.c) ---- */

/*
 * Sets an option, on the current transaction if there is one, else on every one to come. False: reported. `value` NULL where the option takes
 * none.
 */
bool session_set_option(struct session *session, const char *name, const char *value);
/* Takes an option, or all (NULL), from the transactions to come. False: it was not set, reported. */
bool session_unset_option(struct session *session, const char *name);
fdb_error_t session_apply_options(const struct session *session, FDBTransaction *transaction);
void session_free_options(struct session *session);
/* Calls visit for each option that a user may set, in the order of names. `kind`: "", "number", "text". */
void session_list_options(void (*visit)(void *context, const char *name, const char *kind, const char *summary, bool is_set), const struct session *session,
                          void *context);

/* ---- Commands ---- */

/* All commands, in the order of help; NULL behind the last. */
const struct command *command_at(size_t index);
void command_print_help(const struct command *command, FILE *file);
int command_help(const char *name); /* NULL: the list of all */
extern const char KEEL_COMMAND_VERSION[];

/* Of the table of data commands: commands that have a file of their own. */
int command_getrange(struct session *session, int argc, char **argv);
int command_more(struct session *session, int argc, char **argv);
int command_atomic(struct session *session, int argc, char **argv);
int command_watch(struct session *session, int argc, char **argv);
/* Watches in the background that have fired since the last call are told about. */
void watches_poll(struct session *session);
void watches_free(void);
void range_free(void); /* what `more` remembers */

/* The bytes of a range given as BEGIN [END]: without an end all keys that begin with BEGIN, without both all keys. */
fdb_error_t range_from_texts(FDBTransaction *tr, const char *begin_text, const char *end_text, struct buffer *begin, struct buffer *end);
/* One row for people or for --json. */
void print_row(const struct session *session, const struct directory_names *names, keel_bytes key, keel_bytes value, bool keys_only);
/* A value for people, with what it is as a number where it looks like one. */
void print_value(keel_bytes value);
/* What a write answers. */
void print_committed(const struct session *session);

/* ---- Words (words.c) ---- */

/* One command of a line, split as the shell does. */
struct words {
    char **argv;
    int argc, capacity;
};
/*
 * Splits from *position up to a ';' or the end and moves *position behind it. A word may hold "…" and '…' (taken off), backslash escapes (kept, for
 * text_to_bytes), and if it begins with ( or /, parentheses with anything inside. # begins a comment. False: *message says what is
 * wrong.
 */
bool words_split(const char *line, size_t length, size_t *position, struct words *words, const char **message);
/* Where the word that ends at the end of `line` begins, and how many words and which first word stand before it: for completion. */
size_t words_last(const char *line, size_t length, int *index, char *first, size_t first_capacity);
void words_free(struct words *words);

/* ---- The shell (shell.c) ---- */

int shell_run(struct session *session);                /* on a terminal */
int shell_script(struct session *session, int descriptor); /* line by line */
/* What Tab offers for the last word of a line: the shell's, and bash's through `keel --complete`. */
struct completions {
    char **words; /* whole words, sorted */
    size_t count, capacity;
    size_t begin; /* where in the line the word begins */
    bool directories; /* words are paths: no space behind them */
};
void complete(struct session *session, const char *line, size_t length, struct completions *completions);
void completions_free(struct completions *completions);

/* ---- Text ---- */

/* The error of the database behind the last false of text_to_bytes; 0: the text itself was wrong. */
fdb_error_t text_error(void);
const char *text_message(void);
/* Where the tuple begins in the last key that text_to_bytes read: 0, the length of a directory's prefix, or SIZE_MAX for a text. */
size_t text_tuple_position(void);
/* Whether the tuple in the last key or value that was read holds incomplete(N). */
bool text_has_incomplete(void);
/* Length of the well-formed, printable UTF-8 character here; 0 if there is none. */
size_t text_printable(const uint8_t *data, size_t length);
/* The text of a packed tuple, if these bytes are one and `lenient` or they look like one; appends. */
bool text_append_tuple(keel_bytes bytes, bool lenient, struct buffer *text);

/* The directory whose keys this one belongs to: its path as text, and how long its prefix is. NULL: none. */
const char *directory_names_find(const struct directory_names *names, keel_bytes key, size_t *prefix_length);
/* Every directory's path, in order: for completion. */
size_t directory_names_count(const struct directory_names *names);
const char *directory_names_path(const struct directory_names *names, size_t index);

bool buffer_append_text(struct buffer *buffer, const char *text);
/* Ends the text with a NUL that is not counted, and gives it. */
const char *buffer_text(struct buffer *buffer);

#endif
