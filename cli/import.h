/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of keel import and keel export share.
 *
 *     file ──► import_input ──► csv_reader / import_json ──► import_row ──► keel_bulk_set, keel_bulk_row     import.c drives it
 *              lines, offsets    rows of fields, objects      keys, values   import_report keeps the rows that were refused
 *
 *     rows ──► export.c ──► export_write ──► file             import_schema and import_types serve both ways
 *
 * What is stored in a load, under its prefix P (docs/import.md is the contract):
 *
 *     P (id)                           = (column, …)   a record: all columns but the key's, in the order of the file
 *     P (id, member or index, …)       = (leaf,)       a document, as recipes/document.c lays it out
 *     P ff (index, value, …, id)       = ''            an entry of the index with that name
 *     P ff (0, n)                      = text          the schema, JSON, in pieces
 *
 * An id is the element of the key column, a nested tuple if there are several, the number of the row with --key auto.
 */
#ifndef KEEL_CLI_IMPORT_H
#define KEEL_CLI_IMPORT_H

#include "cli.h"

#include <keel/bulk.h>

enum {
    IMPORT_ROW_BYTES_MAX = 16000000, /* of a row in the file; the pairs of one are limited more strictly, by keel_bulk_set */
    IMPORT_COLUMNS_MAX = 10000,
    IMPORT_KEY_BYTES_MAX = 10000,
    IMPORT_VALUE_BYTES_MAX = 100000,
};

/* ---- A row that is refused ---- */

enum import_reason {
    REASON_SYNTAX,    /* quotes, carriage returns */
    REASON_FIELDS,    /* too few or too many */
    REASON_UTF8,
    REASON_JSON,
    REASON_TYPE,      /* the text is no value of the column's type */
    REASON_KEY,       /* the key is missing or empty */
    REASON_TOO_LARGE,
    REASON_DUPLICATE,
    REASON_COUNT
};
const char *import_reason_text(enum import_reason reason);

struct row_problem {
    enum import_reason reason;
    uint64_t line;      /* of the file, from 1, where the row begins */
    size_t field;       /* from 1, where `column` is not known to who found it; else 0 */
    char column[80];    /* name, shortened; "": the row as a whole */
    char message[200];
};
/* Returns false, for `return problem_set(…)`. `column` may be NULL. The line is set by who knows it. */
bool problem_set(struct row_problem *problem, enum import_reason reason, keel_bytes column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- The file (import_input.c) ---- */

/*
 * A row is one or more lines that follow each other; its bytes stay in memory until the next begins. A chained checksum
 * of all lines passed tells on a resume whether the beginning of the file is still the same.
 */
struct input {
    const char *name; /* for messages */
    int descriptor;
    bool regular;     /* a file, whose size is known */
    uint64_t size;
    uint8_t *data;
    size_t capacity, filled;
    size_t row_begin, row_end; /* in data; row_end is where the next line begins */
    size_t row_lines;
    uint64_t row_offset; /* of row_begin in the file */
    uint64_t row_line;   /* its line number, from 1 */
    uint64_t chain;      /* over all lines before row_begin */
    bool ended;          /* nothing behind `filled` */
};

/* "-": standard input. Reports and returns false if that cannot be read. A byte order mark is passed over. */
bool input_open(struct input *input, const char *path);
void input_close(struct input *input);

enum input_result { INPUT_LINE, INPUT_END, INPUT_TOO_LONG, INPUT_FAILED };
/* Takes one more line into the row, newline included if it has one. Too long: the row would be beyond IMPORT_ROW_BYTES_MAX. Failed: has been reported. */
enum input_result input_line(struct input *input, keel_bytes *line);
/* Passes the row, and begins the next behind it. */
void input_row_done(struct input *input);
/* Shrinks the row to its first line, so that what follows begins a row of its own. A line that is too long is passed altogether. False: reading failed. */
bool input_row_first_line(struct input *input);
/* Begins the row again. */
void input_row_again(struct input *input);
static inline keel_bytes input_row(const struct input *input) {
    return keel_bytes_of(input->data + input->row_begin, input->row_end - input->row_begin);
}
static inline uint64_t input_row_end_offset(const struct input *input) {
    return input->row_offset + (input->row_end - input->row_begin);
}

/* Where an import is in its file, after a row: what a bookmark of the load holds. */
struct input_place {
    uint64_t begin, end;       /* of the row, offsets */
    uint64_t line, line_next;  /* of the row and of what follows it */
    uint64_t chain;            /* over all lines up to `end` */
    uint64_t ordinal;          /* the row's number in the file, from 1, refused ones counted */
    uint64_t refused;          /* rows before it that were refused */
};
enum { INPUT_BOOKMARK_BYTES = 56 };
struct input_place input_place_of(const struct input *input); /* of the row as it stands; ordinal and refused are 0 */
void input_place_write(const struct input_place *place, uint8_t bookmark[INPUT_BOOKMARK_BYTES]);
bool input_place_read(keel_bytes bookmark, struct input_place *place);
/* Goes behind that row. False, reported: the file is another up to there, or could not be read. */
bool input_go_on(struct input *input, const struct input_place *place);

/* ---- Columns (import_types.c, import_schema.c) ---- */

enum column_type {
    TYPE_TEXT, TYPE_INT, TYPE_FLOAT, TYPE_BOOL, TYPE_HEX, TYPE_BASE64, TYPE_DATE, TYPE_TIMESTAMP, TYPE_UUID, TYPE_JSON,
    TYPE_ANY, /* whatever JSON says it is */
    TYPE_COUNT
};
const char *type_name(enum column_type type);
bool type_of_name(keel_bytes name, enum column_type *type);

/*
 * The element of a field. It may point into the text or into `scratch`, to which it appends within what is reserved
 * there: scratch must have room for `length` + 64 more bytes. False: *message (static) says what is wrong.
 */
bool type_from_text(enum column_type type, keel_bytes text, struct buffer *scratch, keel_element *element, const char **message);
bool type_from_json(enum column_type type, json_t *json, struct buffer *scratch, keel_element *element, const char **message);
/* Appends the text of an element, which may be of another type than the column's; null has none. */
bool type_to_text(enum column_type type, const keel_element *element, struct buffer *text);
bool type_to_json(enum column_type type, const keel_element *element, struct buffer *text);
void json_append_string(struct buffer *text, keel_bytes string);
bool buffer_reserve(struct buffer *buffer, size_t more);
bool bytes_are_ascii(keel_bytes bytes);
bool bytes_are_utf8(keel_bytes bytes);

struct column {
    char *name;
    size_t name_length;
    enum column_type type;
    bool in_key;
};
struct schema_index {
    char *name;      /* its columns, with commas between */
    size_t *columns; /* numbers */
    size_t column_count;
};
struct schema {
    bool documents;
    bool json;           /* came from JSON lines */
    bool open;           /* documents with any members: columns are only those that key and indexes name */
    struct column *columns;
    size_t column_count;
    size_t *key;         /* numbers of the key's columns; none: rows are numbered */
    size_t key_count;
    struct schema_index *indexes;
    size_t index_count;
};
/* Takes a copy. False without memory, reported. */
bool schema_add_column(struct schema *schema, keel_bytes name, enum column_type type);
bool schema_find(const struct schema *schema, keel_bytes name, size_t *column);
/* Lists as the command line has them: "a,b", "a:int,b:float". Report what is wrong and return false. */
bool schema_set_columns(struct schema *schema, const char *list, enum column_type type);
bool schema_set_types(struct schema *schema, const char *list);
bool schema_set_key(struct schema *schema, const char *list);
bool schema_add_index(struct schema *schema, const char *list);
void schema_free(struct schema *schema);
/* The JSON that is stored, free() it; and back. NULL, false: no memory; not a schema. */
char *schema_print(const struct schema *schema);
bool schema_parse(const char *text, size_t length, struct schema *schema);
/* The schema of a load; NOT_FOUND if it has none. */
fdb_error_t schema_load(FDBTransaction *tr, const keel_subspace *rows, char **text, size_t *length);

/* ---- Rows ---- */

struct field {
    const char *data;
    size_t length;
    bool null; /* empty and without quotes */
};
struct row {
    const struct field *fields; /* CSV */
    size_t field_count;
    json_t *object;             /* JSON lines */
    keel_bytes text;            /* its bytes in the file, without the newline: JSON lines */
    uint64_t ordinal;
};
enum row_result { ROW_OK, ROW_BAD, ROW_END, ROW_FAILED /* reported */ };

struct csv_reader;
/* `quote` -1: none. NULL without memory. The reader does not own the input. */
struct csv_reader *csv_reader_open(struct input *input, char delimiter, int quote);
void csv_reader_close(struct csv_reader *reader);
/*
 * The fields live until the next call. Bad: *problem. In both cases input_row is the row, to be passed with input_row_done; of a broken one it is
 * the first line, or nothing if that was too long to be kept.
 */
enum row_result csv_reader_next(struct csv_reader *reader, struct row *row, struct row_problem *problem);

/* The same for JSON lines; with `parse`, row->object is there until the next call. */
struct json_reader {
    struct input *input;
    json_t *object;
    bool parse;
};
enum row_result json_reader_next(struct json_reader *reader, struct row *row, struct row_problem *problem);
void json_reader_close(struct json_reader *reader);
/* What is wrong with a text that Jansson refuses, and where. */
void json_explain(keel_bytes text, struct row_problem *problem);

/* Where the pairs of a row go. An error makes the row a bad one. */
typedef fdb_error_t (*pair_sink)(void *context, keel_bytes key, keel_bytes value);

/* Turns rows into pairs. */
struct mapper;
struct mapper *mapper_open(const struct schema *schema, pair_sink sink, void *context);
void mapper_close(struct mapper *mapper);
/* False: *problem; pairs may have gone to the sink, to be dropped. */
bool mapper_row(struct mapper *mapper, const struct row *row, struct row_problem *problem);
/* The schema itself. */
fdb_error_t mapper_schema(pair_sink sink, void *context, const char *text);
/* The packed id of the last row. */
keel_bytes mapper_id(const struct mapper *mapper);

/* Rows of either format. */
struct source {
    struct input input;
    bool is_json;
    struct csv_reader *csv;
    struct json_reader json;
};
enum row_result source_next(struct source *source, struct row *row, struct row_problem *problem);
void source_close(struct source *source);

/* ---- The command line (import_options.c) ---- */

struct import_options {
    const char *file, *into, *format, *as, *key, *types, *columns, *no_header, *delimiter, *quote, *on_error, *errors_to, *error_lines, *name;
    const char *resume, *no_activate, *dry_run;
    const char **indexes; /* as given, each a list */
    size_t index_count;
    bool is_json, documents, skip;
    char delimiter_byte;
    int quote_byte; /* -1: none */
    int64_t error_lines_max;
};
/* EXIT_OK, or what was wrong has been reported. */
int import_options_parse(int argc, char **argv, struct import_options *options);
void import_options_free(struct import_options *options);
bool source_open(struct source *source, const struct import_options *options);
/* Reads the header or the first object. `ordinal` of the rows that follow begins with 1. False: reported. */
bool import_schema_make(const struct import_options *options, struct source *source, struct schema *schema);
/* csv or jsonl, by --format or the file's name. False: neither tells. */
bool format_of(const char *format, const char *file, bool *is_json);

/* ---- Refused rows (import_report.c) ---- */

struct report {
    const char *file;
    uint64_t counts[REASON_COUNT], total;
    uint64_t earlier;    /* refused before a resume */
    uint64_t lines_max;  /* that are printed as they come */
    FILE *rows;          /* --errors-to */
};
void report_problem(struct report *report, const struct row_problem *problem, keel_bytes row);
void report_summary(const struct report *report);
json_t *report_json(const struct report *report); /* {"reason": count} */

/* ---- Duplicates of a dry run (import_duplicates.c) ---- */

/* Keys are remembered in a temporary file: memory does not grow with their number. */
struct duplicates;
struct duplicates *duplicates_open(void);
void duplicates_close(struct duplicates *duplicates);
bool duplicates_add(struct duplicates *duplicates, keel_bytes id, uint64_t line);
/* Calls `found` for each key that is there again, with both lines; in no promised order. False: the temporary file failed. */
bool duplicates_find(struct duplicates *duplicates, void (*found)(void *context, uint64_t line, uint64_t first_line), void *context);

/* ---- Loads (import_load.c) ---- */

/* What the note of a load says; written by import, read by loads and export. */
struct load_note {
    bool import; /* the load was made by an import */
    char file[512];
    uint64_t size; /* of the file; 0: not known */
    char *command; /* free() */
};
fdb_error_t load_note_read(FDBTransaction *tr, const keel_directory *target, const char *name, struct load_note *note);
char *load_note_write(const char *file, uint64_t size, const char *command);

/* A command line as it would be typed: free(). `extra` (may be NULL) goes behind it, unless it is there. */
char *command_line(const struct session *session, int argc, char **argv, const char *extra);

/*
 * The load that an import into the target begins or goes on with: its name in `name` ("": a new one). False: reported, *exit_code fits.
 */
bool load_choose(struct session *session, const keel_directory *target, const struct import_options *options, const char *resume_command,
                 char name[KEEL_BULK_NAME_MAX + 1], int *exit_code);

/* The directory of a path. NULL: reported, *exit_code fits. */
keel_directory *target_open(struct session *session, const char *doing, const char *path, bool create, int *exit_code);

/* Validates and, if asked, activates; with progress. Returns the exit code. */
int load_complete(struct session *session, const keel_directory *target, const char *path, const char *name, bool activate);
int load_activate(struct session *session, const keel_directory *target, const char *path, const char *name);

/* ---- Commands (cmd_bulk.c has the table) ---- */

int command_import(struct session *session, int argc, char **argv);
int command_export(struct session *session, int argc, char **argv);
int command_loads(struct session *session, int argc, char **argv);

#endif
