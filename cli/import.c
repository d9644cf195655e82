/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel import: a file of rows becomes a load (keel/bulk.h) of a directory, prepared in many transactions and made active in one.
 *
 *     begin ──► schema, rows ──► finish ──► validate ──► activate
 *        │          │ Ctrl-C, a refused row with --on-error stop, kill -9
 *        └─ --resume ◄──┘
 *
 * The first row of a load is the schema, so row n of the file is row n + 1 of the load, or less where rows were refused. Every row carries a bookmark
 * (struct input_place): where it lies in the file and a checksum of all before it. A resume reads the bookmark of the last row that is certain to
 * be in the database, checks that the file up to there is what it was, and goes on behind it. What follows may have changed: a row that stopped
 * the import can be mended in the file.
 *
 * Refused rows are not part of the load. With --on-error stop the first ends the import, after what came before it has been committed. Rows whose key was
 * there before are found by the load itself, some rows later; their bookmark tells where they are.
 *
 * A dry run does all of it but the load: no database is opened.
 *
 * Memory: the largest row, and what keel_bulk has in flight. Threads: one.
 */
#include "import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_EVERY_ROWS = 256, SCHEMA_ROWS = 1 };

struct import {
    struct session *session;
    struct import_options options;
    struct source source;
    struct schema schema;
    char *schema_text;
    struct mapper *mapper;
    struct report report;
    struct progress *progress;
    char *resume_command, *plain_command;
    keel_directory *target;
    char name[KEEL_BULK_NAME_MAX + 1];
    keel_bulk *bulk;                /* NULL: a dry run */
    struct duplicates *duplicates;  /* of a dry run */
    fdb_error_t fatal;              /* what the load said that is no row's fault */
    uint64_t ordinal, accepted;     /* rows seen; rows that went into the load or would */
    uint64_t begun_at;              /* offset in the file, behind what an earlier run has read */
    struct timespec began;
};

/* How the loop over the rows ended. */
enum ending { ENDED_WELL, ENDED_INTERRUPTED, ENDED_BY_ROW, ENDED_BY_ERROR };

static double seconds_since(const struct timespec *began) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

/* ---- Pairs ---- */

static bool is_row_error(fdb_error_t error) {
    return error == 2101 || error == 2102 || error == 2103 || error == KEEL_ERROR_DUPLICATE;
}

static fdb_error_t sink_load(void *context, keel_bytes key, keel_bytes value) {
    struct import *import = context;
    fdb_error_t error = keel_bulk_set(import->bulk, key, value);
    if (error && !is_row_error(error))
        import->fatal = error;
    return error;
}

/* The limits as the load has them, with room for the prefix that it would put before keys. */
static fdb_error_t sink_dry(void *context, keel_bytes key, keel_bytes value) {
    (void)context;
    enum { PREFIX_BYTES = 8 };
    if (key.length > IMPORT_KEY_BYTES_MAX - PREFIX_BYTES)
        return 2102;
    return value.length > IMPORT_VALUE_BYTES_MAX ? 2103 : 0;
}

/* ---- Refused rows ---- */

/* The name of a field that the reader knows by its number only. */
static void name_field(const struct import *import, struct row_problem *problem) {
    if (problem->field && problem->field <= import->schema.column_count)
        snprintf(problem->column, sizeof problem->column, "%s", import->schema.columns[problem->field - 1].name);
    else if (problem->field)
        snprintf(problem->column, sizeof problem->column, "%zu", problem->field);
}

/* The bytes of a row that has been passed, from the file; free(). */
static uint8_t *read_row(const struct input *input, const struct input_place *place, size_t *length) {
    *length = place->end - place->begin;
    uint8_t *bytes = input->regular && *length <= IMPORT_ROW_BYTES_MAX ? malloc(*length) : NULL;
    if (bytes && pread(input->descriptor, bytes, *length, (off_t)place->begin) != (ssize_t)*length) {
        free(bytes);
        bytes = NULL;
    }
    *length = bytes ? *length : 0;
    return bytes;
}

/* The key of a pair as text. */
static void key_text(keel_bytes key, char *text, size_t capacity) {
    struct buffer shown = {0};
    text_from_bytes(NULL, key, &shown);
    size_t length = shown.length < capacity ? shown.length : capacity - 1;
    if (length)
        memcpy(text, shown.data, length);
    text[length] = 0;
    buffer_free(&shown);
}

static void duplicate_row(struct import *import, const keel_bulk_problem *found) {
    struct row_problem problem = {0};
    struct input_place place = {0};
    const struct schema *schema = &import->schema;
    char key[120];
    size_t length = 0;
    input_place_read(found->bookmark, &place);
    key_text(found->key, key, sizeof key);
    problem_set(&problem, REASON_DUPLICATE, keel_bytes_of_string(schema->key_count ? schema->columns[schema->key[0]].name : ""),
                "the key %s was there before", key);
    problem.line = place.line;
    uint8_t *row = import->report.rows ? read_row(&import->source.input, &place, &length) : NULL;
    report_problem(&import->report, &problem, keel_bytes_of(row, length));
    free(row);
}

static void on_skip(void *context, const keel_bulk_problem *problem) {
    duplicate_row(context, problem);
}

/* False: the import ends here. */
static bool refuse_row(struct import *import, struct row_problem *problem) {
    if (import->bulk)
        keel_bulk_row_discard(import->bulk);
    if (import->fatal)
        return false;
    name_field(import, problem);
    report_problem(&import->report, problem, input_row(&import->source.input));
    return import->options.skip;
}

/* ---- The loop ---- */

static bool end_row(struct import *import) {
    uint8_t bookmark[INPUT_BOOKMARK_BYTES];
    struct input_place place = input_place_of(&import->source.input);
    if (!import->bulk) {
        if (!import->duplicates || duplicates_add(import->duplicates, mapper_id(import->mapper), place.line))
            return true;
        report("the temporary file for keys (TMPDIR): %s", strerror(errno));
        import->fatal = ERROR_REPORTED;
        return false;
    }
    place.ordinal = import->ordinal;
    place.refused = import->report.earlier + import->report.total - import->report.counts[REASON_DUPLICATE];
    input_place_write(&place, bookmark);
    import->fatal = keel_bulk_row(import->bulk, keel_bytes_of(bookmark, sizeof bookmark));
    return import->fatal == 0;
}

static enum ending take_rows(struct import *import) {
    struct input *input = &import->source.input;
    struct row row = {0};
    struct row_problem problem = {0};
    for (;;) {
        enum row_result result = source_next(&import->source, &row, &problem);
        if (session_interrupted()) /* looked at now: a pipe may have ended because who wrote it was interrupted too */
            return ENDED_INTERRUPTED;
        if (result == ROW_END || result == ROW_FAILED)
            return result == ROW_END ? ENDED_WELL : ENDED_BY_ERROR;
        row.ordinal = ++import->ordinal;
        if (result == ROW_OK)
            problem.line = input->row_line;
        if (result == ROW_OK && mapper_row(import->mapper, &row, &problem)) {
            import->accepted++;
            if (!end_row(import))
                return ENDED_BY_ERROR;
        } else if (!refuse_row(import, &problem)) {
            return import->fatal ? ENDED_BY_ERROR : ENDED_BY_ROW;
        }
        input_row_done(input);
        if (import->ordinal % PROGRESS_EVERY_ROWS == 0)
            progress_update(import->progress, input->row_offset - import->begun_at, import->accepted);
    }
}

/* ---- Beginning ---- */

static void show_progress(struct import *import, const char *doing) {
    const struct input *input = &import->source.input;
    import->begun_at = input->row_offset;
    import->progress = progress_begin(import->session, doing, "bytes", input->size > input->row_offset ? input->size - input->row_offset : 0);
}

static bool open_errors_file(struct import *import) {
    if (!import->options.errors_to)
        return true;
    import->report.rows = fopen(import->options.errors_to, import->options.resume ? "a" : "w");
    if (!import->report.rows)
        report("--errors-to %s: %s", import->options.errors_to, strerror(errno));
    return import->report.rows != NULL;
}

/* The refused rows with a header are a file that can be imported when it is mended. */
static void copy_header(struct import *import) {
    if (!import->report.rows || import->options.is_json || import->options.no_header || import->options.resume)
        return;
    size_t length;
    struct input_place header = {.begin = 0, .end = import->source.input.row_offset};
    uint8_t *bytes = read_row(&import->source.input, &header, &length);
    fwrite(bytes, 1, length, import->report.rows);
    free(bytes);
}

static bool prepare(struct import *import) {
    const struct import_options *options = &import->options;
    if (!source_open(&import->source, options))
        return false;
    import->report.file = import->source.input.name;
    import->report.lines_max = (uint64_t)options->error_lines_max;
    if (!import_schema_make(options, &import->source, &import->schema))
        return false;
    import->schema_text = schema_print(&import->schema);
    import->mapper = mapper_open(&import->schema, options->dry_run ? sink_dry : sink_load, import);
    if (!import->mapper)
        report("no memory");
    if (!import->schema_text || !import->mapper || !open_errors_file(import))
        return false;
    copy_header(import);
    return true;
}

/* The first row of the load. */
static fdb_error_t add_schema(struct import *import) {
    uint8_t bookmark[INPUT_BOOKMARK_BYTES];
    struct input_place place = input_place_of(&import->source.input);
    input_place_write(&place, bookmark);
    fdb_error_t error = mapper_schema(sink_load, import, import->schema_text);
    return error ? error : keel_bulk_row(import->bulk, keel_bytes_of(bookmark, sizeof bookmark));
}

struct stored_schema {
    const struct import *import;
    char *text;
    size_t length;
};

static fdb_error_t load_schema(FDBTransaction *tr, void *context) {
    struct stored_schema *stored = context;
    keel_subspace rows;
    free(stored->text);
    stored->text = NULL;
    fdb_error_t error = keel_bulk_rows(tr, stored->import->target, stored->import->name, &rows);
    return error ? error : schema_load(tr, &rows, &stored->text, &stored->length);
}

/* Goes to where the load stopped. False: reported. */
static bool go_on(struct import *import, keel_bulk_place position) {
    struct stored_schema stored = {.import = import};
    struct input_place place;
    fdb_error_t error = session_read(import->session, load_schema, &stored);
    bool same = !error && stored.length == strlen(import->schema_text) && memcmp(stored.text, import->schema_text, stored.length) == 0;
    free(stored.text);
    if (error)
        return report_error("import", import->options.into, error), false;
    if (!same)
        return report("import: load %s was begun with other columns, types, keys or indexes: resume it with the options it was begun with (loads --into %s "
                      "tells), or abandon it",
                      import->name, import->options.into),
               false;
    if (!input_place_read(position.bookmark, &place))
        return report("import: load %s has a bookmark that no import wrote", import->name), false;
    if (!position.finished && !input_go_on(&import->source.input, &place))
        return false;
    import->ordinal = place.ordinal;
    import->accepted = position.rows - SCHEMA_ROWS;
    import->report.earlier = place.refused;
    return true;
}

static int begin(struct import *import) {
    const struct import_options *options = &import->options;
    const struct input *input = &import->source.input;
    char *note = load_note_write(options->file, input->size, import->plain_command ? import->plain_command : "");
    keel_bulk_options wanted = {.start = options->resume ? KEEL_BULK_RESUME : KEEL_BULK_BEGIN,
                                .duplicates = options->skip ? KEEL_BULK_SKIP : KEEL_BULK_REFUSE,
                                .skip = on_skip,
                                .skip_context = import,
                                .note = keel_bytes_of_string(note)};
    FDBDatabase *database = session_database(import->session);
    if (!database)
        return EXIT_FAILED;
    fdb_error_t error = keel_bulk_begin(database, import->target, *import->name ? import->name : NULL, &wanted, &import->bulk);
    free(note);
    if (error)
        return report_error("import", options->into, error);
    snprintf(import->name, sizeof import->name, "%s", keel_bulk_name(import->bulk));
    keel_bulk_place position = keel_bulk_position(import->bulk);
    if (position.rows)
        return go_on(import, position) ? EXIT_OK : session_interrupted() ? EXIT_INTERRUPTED : EXIT_FAILED;
    error = add_schema(import);
    return error ? report_error("import", options->into, error) : EXIT_OK;
}

/* ---- Ending ---- */

/* How to go on, where a load was left behind. */
static void say_resume(const struct import *import) {
    keel_bulk_place position = keel_bulk_position(import->bulk);
    report("%s rows are prepared in load %s. To go on%s:", human_count(position.rows > SCHEMA_ROWS ? position.rows - SCHEMA_ROWS : 0), import->name,
           import->source.input.regular ? "" : ", feeding the same input again from its beginning");
    report("  %s", import->resume_command ? import->resume_command : "the same command with --resume");
}

static int ended_early(struct import *import, enum ending ending) {
    const char *into = import->options.into;
    fdb_error_t error = import->fatal;
    if (!error)
        error = keel_bulk_flush(import->bulk);
    keel_bulk_problem problem = keel_bulk_problem_of(import->bulk);
    int exit_code = ending == ENDED_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_FAILED;
    if (error == KEEL_ERROR_DUPLICATE && problem.row)
        duplicate_row(import, &problem);
    else if (error && error != ERROR_REPORTED)
        exit_code = report_error("import", into, error);
    if (ending == ENDED_INTERRUPTED)
        report("interrupted");
    else if (!error)
        report("the first row that is refused ends the import (--on-error skip passes them over). Mend it in the file, or skip");
    say_resume(import);
    return exit_code;
}

/* Rows that are there at the end, or would be. */
static uint64_t rows_in(const struct import *import) {
    if (!import->bulk)
        return import->accepted - import->report.counts[REASON_DUPLICATE];
    keel_bulk_place position = keel_bulk_position(import->bulk);
    return position.rows - SCHEMA_ROWS - position.skipped;
}

static void print_result(const struct import *import, bool active) {
    uint64_t rows = rows_in(import);
    uint64_t refused = import->report.total + import->report.earlier;
    double seconds = seconds_since(&import->began);
    if (import->session->json) {
        output_json(json_pack("{ss ss* ss sI sI sf sb so}", "file", import->options.file, "load", *import->name ? import->name : NULL, "into",
                              import->options.into, "rows", (json_int_t)rows, "refused", (json_int_t)refused, "seconds", seconds, "active", (int)active,
                              "reasons", report_json(&import->report)));
        return;
    }
    if (import->options.dry_run)
        printf("%s rows of %s can be imported; nothing was written\n", human_count(rows), import->report.file);
    else
        printf("%s rows of %s are in %s, load %s%s (%s, %s rows/s)\n", human_count(rows), import->report.file, import->options.into, import->name,
               active ? ", which is active" : ", prepared and validated", human_seconds(seconds),
               human_count((uint64_t)((double)rows / (seconds > 0 ? seconds : 1))));
}

static int finish(struct import *import) {
    const struct import_options *options = &import->options;
    fdb_error_t error = keel_bulk_finish(import->bulk);
    if (error) {
        import->fatal = error;
        return ended_early(import, ENDED_BY_ERROR);
    }
    bool none = rows_in(import) == 0 && import->report.total + import->report.earlier > 0;
    bool activate = !options->no_activate && !none;
    int exit_code = load_complete(import->session, import->target, options->into, import->name, activate);
    report_summary(&import->report);
    if (exit_code == EXIT_INTERRUPTED)
        report("the load is complete; to validate and activate it:\n  %s", import->resume_command);
    if (exit_code != EXIT_OK)
        return exit_code;
    if (none)
        return report("all rows were refused: load %s is not activated (loads --into %s --activate %s would)", import->name, options->into, import->name);
    print_result(import, activate);
    return EXIT_OK;
}

static int load(struct import *import) {
    const struct import_options *options = &import->options;
    int exit_code = EXIT_OK;
    import->target = target_open(import->session, "import", options->into, !options->resume, &exit_code);
    if (!import->target || !load_choose(import->session, import->target, options, import->resume_command, import->name, &exit_code) ||
        (exit_code = begin(import)) != EXIT_OK)
        return exit_code;
    enum ending ending = ENDED_WELL;
    if (!keel_bulk_position(import->bulk).finished) {
        show_progress(import, import->ordinal ? "importing the rest" : "importing");
        ending = take_rows(import);
        progress_end(import->progress, ending == ENDED_WELL);
    }
    if (ending == ENDED_WELL)
        return finish(import);
    exit_code = ended_early(import, ending);
    report_summary(&import->report);
    return exit_code;
}

/* ---- Dry runs ---- */

static void found_duplicate(void *context, uint64_t line, uint64_t first_line) {
    struct import *import = context;
    struct row_problem problem = {.line = line};
    const struct schema *schema = &import->schema;
    problem_set(&problem, REASON_DUPLICATE, keel_bytes_of_string(schema->key_count ? schema->columns[schema->key[0]].name : ""),
                "the key was there before, in line %llu", (unsigned long long)first_line);
    report_problem(&import->report, &problem, keel_bytes_of(NULL, 0));
}

static int rehearse(struct import *import) {
    import->duplicates = import->schema.key_count ? duplicates_open() : NULL;
    if (import->schema.key_count && !import->duplicates)
        return report("the temporary file for keys (TMPDIR): %s", strerror(errno));
    show_progress(import, "checking");
    import->options.skip = true; /* all that is wrong, at once */
    enum ending ending = take_rows(import);
    progress_end(import->progress, ending == ENDED_WELL);
    if (ending == ENDED_WELL && import->duplicates && !duplicates_find(import->duplicates, found_duplicate, import))
        return report("the temporary file for keys (TMPDIR): %s", strerror(errno));
    report_summary(&import->report);
    if (ending != ENDED_WELL)
        return ending == ENDED_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_FAILED;
    print_result(import, false);
    return import->report.total ? EXIT_FAILED : EXIT_OK;
}

/* ---- The command ---- */

static bool close_errors_file(struct import *import) {
    if (!import->report.rows)
        return true;
    bool failed = ferror(import->report.rows);
    failed |= fclose(import->report.rows) != 0;
    if (failed)
        report("--errors-to %s: it could not be written: %s", import->options.errors_to, strerror(errno));
    return !failed;
}

int command_import(struct session *session, int argc, char **argv) {
    struct import *import = calloc(1, sizeof *import);
    if (!import)
        return report("no memory");
    import->session = session;
    import->source.input.descriptor = -1;
    clock_gettime(CLOCK_MONOTONIC, &import->began);
    import->plain_command = command_line(session, argc, argv, NULL);
    import->resume_command = command_line(session, argc, argv, "--resume");
    int exit_code = import_options_parse(argc, argv, &import->options);
    if (exit_code == EXIT_OK)
        exit_code = !prepare(import) ? EXIT_FAILED : import->options.dry_run ? rehearse(import) : load(import);
    keel_bulk_close(import->bulk);
    keel_directory_close(import->target);
    mapper_close(import->mapper);
    schema_free(&import->schema);
    source_close(&import->source);
    duplicates_close(import->duplicates);
    if (!close_errors_file(import) && exit_code == EXIT_OK)
        exit_code = EXIT_FAILED;
    import_options_free(&import->options);
    free(import->schema_text);
    free(import->plain_command);
    free(import->resume_command);
    free(import);
    return exit_code;
}
