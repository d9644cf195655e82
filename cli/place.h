/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands on directories and recipes share: names as text, the frame of a sub-command, results that are
 * printed once a transaction has succeeded.
 */
#ifndef KEEL_CLI_PLACE_H
#define KEEL_CLI_PLACE_H

#include "cli.h"

/* ---- Text ---- */

/* The last name of a path as it stands in one (text_from_path); "/" for the root. NUL-terminated. */
const char *path_name_text(keel_path path, struct buffer *text);
/* A string of JSON, from bytes that should be UTF-8 and are escaped where they are not. */
json_t *json_text(keel_bytes bytes);

/* ---- Elements as text: ids, labels, names of rows and columns ---- */

struct name {
    keel_element element; /* points into: */
    struct buffer bytes;
};

/*
 * A number (7, -1.5), bytes (0x00ff), or what else keel_tuple_parse knows by its first character or word: "7" in quotes, a tuple, uuid(…),
 * versionstamp(…). Everything else is text, with the escapes of keys.
 */
bool name_parse(const char *text, struct name *name, const char **message);
void name_free(struct name *name);
/* Appends what name_parse reads as the same element; null, booleans, floats and doubles like 1e300, which cannot be typed, as a tuple shows them. */
void name_print(const keel_element *element, struct buffer *text);
/* Strings, numbers, booleans and null as themselves, anything else as {"text": …}. */
json_t *name_json(const keel_element *element);
/* A copy that outlives the element. */
fdb_error_t name_copy(const keel_element *element, struct name *copy);

/* ---- Sub-commands ---- */

struct call {
    struct session *session;
    struct command command; /* "doc set" and its arguments, for usage_error */
    int argc;               /* once call_begin is through: what is left behind the options and the directory */
    char **argv;
    const char *directory; /* as given */
    struct text_path path;
};

struct subcommand {
    const char *name, *arguments;
    int (*run)(struct call *call);
    bool only_reads;
};

/* Finds argv[1] in the table, which ends with a row without a name, and runs it. */
int subcommand_run(const char *command, const struct subcommand *table, struct session *session, int argc, char **argv);
/*
 * What every sub-command begins with: takes the options and the directory from the arguments and checks that at least `least` and at most `most`
 * (-1: any number) are left. EXIT_OK, or the code to return.
 */
int call_begin(struct call *call, const struct option_spec *specs, int least, int most);

/*
 * The subspace of the call's directory. To write, it is created if it is not there; to read, DIRECTORY_MISSING.
 */
fdb_error_t call_create(struct call *call, FDBTransaction *tr, keel_subspace *subspace);
fdb_error_t call_open(struct call *call, FDBTransaction *tr, keel_subspace *subspace);

/* Reports an error on the directory, or on `what` in it (NULL: none). */
int call_report(struct call *call, const char *what, fdb_error_t error);
/* "keel: queue pop: /jobs: the queue is empty": returns EXIT_NOT_FOUND. */
int call_not_found(struct call *call, const char *what);
/* A number argument. False: reported. */
bool call_number(struct call *call, const char *what, const char *text, int64_t min, int64_t max, int64_t *number);
/* A name argument. */
bool call_name(struct call *call, const char *text, struct name *name);
/* A value argument: text, a tuple, "-" for all of stdin or "@FILE". */
bool call_value(struct call *call, const char *text, struct buffer *value);
/* The same without escapes and tuples: for JSON. */
bool call_text(struct call *call, const char *text, struct buffer *value);

/*
 * session_read for functions that read as much as there is: one that finds its transaction too old three times gets the answer TOO_MUCH_TO_READ
 * instead of a fourth try.
 */
enum { TOO_MUCH_TO_READ = 100101 };
fdb_error_t read_bounded(struct session *session, keel_function function, void *context);

/*
 * What a write answers: with --json the object (its reference is taken) and the version it was committed at, null where its transaction is
 * still open; in the shell the version.
 */
void answer_write(const struct session *session, json_t *object);

/* ---- Input ---- */

/* All of a file, or of stdin if it is "-". False: reported. */
bool input_read(const char *file, struct buffer *data);

/* ---- Rows ---- */

typedef fdb_error_t (*row_visitor)(void *context, keel_bytes key, keel_bytes value);
/*
 * The rows of [begin, end) up to `limit` (0: as many as come in one answer). *more: there may be others. Rows that came before an error do not
 * count. `snapshot`: nothing conflicts with it.
 */
fdb_error_t rows_visit(FDBTransaction *tr, keel_bytes begin, keel_bytes end, int limit, bool snapshot, row_visitor visit, void *context, bool *more);

/* ---- Results: collected in a transaction that may be retried, printed when it is through ---- */

struct results {
    json_t *rows;      /* --json: an array */
    struct buffer text; /* otherwise */
    size_t count;
};

void results_clear(struct results *results);
/* Takes the reference. */
void results_json(struct results *results, json_t *row);
void results_text(struct results *results, keel_bytes text);
void results_format(struct results *results, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An element, a value, as text. */
void results_name(struct results *results, const keel_element *element);
void results_value(struct results *results, keel_bytes value);
/* Prints and clears. */
void results_print(struct results *results);
void results_free(struct results *results);

#endif
