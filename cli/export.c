/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel export: what an import has put into a directory, as a file again, in the order of keys.
 *
 * One moment. The whole export reads at one version, held by KEEL_TR_OPTION_LONG_READ for as long as it takes. A database that does not know the option
 * (a cluster) lets go of a version after five seconds; then the export goes on at a later one, in the load that was active at the beginning. Nobody writes to
 * a load any more but programs that change the active one; if the load is being removed meanwhile, the export fails.
 *
 *     open ──► look: which load, its schema ──► page ──► page ──► … ──► done
 *                ▲ another version                │
 *                └──────── 1007 and the like ◄────┘  goes on behind the last row
 *
 * A file is written under another name and renamed when it is complete, so that it is never half an export.
 */
#include "export.h"

#include <keel/options.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INVALID_OPTION = 2007, IO_ERROR = 1510, PROGRESS_EVERY_ROWS = 1024, NO_LOAD = 100201, LOAD_REMOVED = 100202, INTERRUPTED = 100203 };

struct export_options {
    const char *directory, *file, *format, *columns, *delimiter, *no_header, *name, *as, *no_hold;
};

struct export {
    struct session *session;
    struct export_options options;
    keel_directory *target;
    FDBTransaction *tr;
    char name[KEEL_BULK_NAME_MAX + 1]; /* of the load; "": the directory itself */
    uint64_t rows_expected;
    keel_subspace rows;
    struct schema schema;
    struct row_writer writer;
    struct buffer last; /* key of the last record, or the packed id of the last document, that was written */
    struct progress *progress;
    char *part; /* the name under which the file is written */
};

/* ---- Which rows ---- */

/* Begins at a version that stays, where the database can do so. */
static fdb_error_t hold_version(struct export *export) {
    fdb_error_t error = export->options.no_hold ? 0 : fdb_transaction_set_option(export->tr, KEEL_TR_OPTION_LONG_READ, NULL, 0);
    return error == INVALID_OPTION ? 0 : error;
}

/* The name and the place of the load, at the transaction's version. */
static fdb_error_t find_load(struct export *export) {
    keel_bulk_load load;
    fdb_error_t error = 0;
    if (!*export->name && export->options.name)
        snprintf(export->name, sizeof export->name, "%s", export->options.name);
    else if (!*export->name)
        error = keel_bulk_active_name(export->tr, export->target, export->name);
    if (error == KEEL_ERROR_NOT_FOUND)
        return NO_LOAD;
    if (!error)
        error = keel_bulk_look(export->tr, export->target, export->name, &load);
    if (!error && load.state == KEEL_BULK_REMOVING)
        error = LOAD_REMOVED;
    if (!error)
        error = keel_bulk_rows(export->tr, export->target, export->name, &export->rows);
    if (!error)
        export->rows_expected = load.rows - load.skipped;
    return error == KEEL_ERROR_NOT_FOUND && export->last.length ? LOAD_REMOVED : error;
}

static fdb_error_t read_schema(struct export *export) {
    char *text = NULL;
    size_t length = 0;
    fdb_error_t error = schema_load(export->tr, &export->rows, &text, &length);
    if (!error && !schema_parse(text, length, &export->schema))
        error = KEEL_ERROR_STORED_FORMAT;
    free(text);
    return error;
}

static fdb_error_t look(struct export *export) {
    fdb_error_t error = hold_version(export);
    if (error)
        return error;
    if (export->options.as) {
        if (!export->schema.open) /* not again: the writer may have given it columns */
            export->schema = (struct schema){.documents = true, .json = true, .open = true};
        return keel_directory_subspace(export->target, &export->rows);
    }
    error = find_load(export);
    return error || export->schema.columns || export->schema.open ? error : read_schema(export);
}

/* ---- Reading ---- */

static fdb_error_t wrote_row(struct export *export, keel_bytes place) {
    export->last.length = 0;
    if (!buffer_append(&export->last, place.data, place.length))
        return 1501;
    if (export->writer.rows % PROGRESS_EVERY_ROWS == 0)
        progress_update(export->progress, export->writer.rows, export->writer.rows);
    return session_interrupted() ? INTERRUPTED : 0;
}

static fdb_error_t write_page(struct export *export, const FDBKeyValue *pairs, int count) {
    size_t prefix = export->rows.length;
    fdb_error_t error = 0;
    for (int i = 0; i < count && !error; i++) {
        keel_bytes key = keel_bytes_of(pairs[i].key, (size_t)pairs[i].key_length);
        error = row_writer_record(&export->writer, keel_bytes_of(key.data + prefix, key.length - prefix),
                                  keel_bytes_of(pairs[i].value, (size_t)pairs[i].value_length));
        if (!error)
            error = wrote_row(export, key);
    }
    return error;
}

static FDBFuture *start_page(struct export *export, const keel_range *range, int iteration) {
    FDBKeyValue from = {.key = export->last.length ? export->last.data : range->begin,
                        .key_length = (int)(export->last.length ? export->last.length : range->begin_length)};
    if (export->last.length)
        return fdb_transaction_get_range(export->tr, FDB_KEYSEL_FIRST_GREATER_THAN(from.key, from.key_length),
                                         FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range->end, (int)range->end_length), 0, 0, FDB_STREAMING_MODE_ITERATOR,
                                         iteration, 1, 0);
    return fdb_transaction_get_range(export->tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(from.key, from.key_length),
                                     FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range->end, (int)range->end_length), 0, 0, FDB_STREAMING_MODE_ITERATOR, iteration,
                                     1, 0);
}

static fdb_error_t read_records(struct export *export) {
    keel_range range;
    fdb_bool_t more = 1;
    fdb_error_t error = keel_subspace_range(&export->rows, KEEL_TUPLE(), &range);
    for (int iteration = 1; !error && more; iteration++) {
        const FDBKeyValue *pairs = NULL;
        int count = 0;
        FDBFuture *future = start_page(export, &range, iteration);
        error = session_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &pairs, &count, &more);
        if (!error)
            error = write_page(export, pairs, count);
        fdb_future_destroy(future);
    }
    return error;
}

static fdb_error_t read_document(void *context, const keel_element *id, const char *json, size_t length) {
    struct export *export = context;
    uint8_t packed[IMPORT_KEY_BYTES_MAX];
    size_t packed_length = 0;
    fdb_error_t error = row_writer_document(&export->writer, json, length);
    if (!error)
        error = keel_tuple_pack(keel_tuple_of(id, 1), packed, sizeof packed, &packed_length);
    return error ? error : wrote_row(export, keel_bytes_of(packed, packed_length));
}

static fdb_error_t read_documents(struct export *export) {
    keel_element after;
    uint8_t packed[IMPORT_KEY_BYTES_MAX]; /* `last` changes while `after` points to it */
    memcpy(packed, export->last.data ? export->last.data : packed, export->last.length);
    keel_tuple_iterator it = keel_tuple_iterate(keel_bytes_of(packed, export->last.length));
    bool from_start = !export->last.length;
    fdb_error_t error = from_start ? 0 : keel_tuple_next(&it, &after);
    return error ? error : keel_document_scan(export->tr, &export->rows, from_start ? NULL : &after, 0, read_document, export);
}

/* ---- The file ---- */

static bool open_file(struct export *export) {
    const char *file = export->options.file;
    export->writer.file = stdout;
    if (!file || strcmp(file, "-") == 0)
        return true;
    size_t size = strlen(file) + 8;
    export->part = malloc(size);
    if (!export->part)
        return report("no memory"), false;
    snprintf(export->part, size, "%s.part", file);
    export->writer.file = fopen(export->part, "w");
    if (!export->writer.file) {
        report("%s: %s", export->part, strerror(errno));
        export->writer.file = stdout;
        free(export->part);
        export->part = NULL;
        return false;
    }
    return true;
}

static bool close_file(struct export *export, bool complete) {
    if (!export->part)
        return fflush(stdout) == 0;
    bool fine = fflush(export->writer.file) == 0 && (!complete || fsync(fileno(export->writer.file)) == 0);
    fine &= fclose(export->writer.file) == 0;
    fine = fine && (!complete || rename(export->part, export->options.file) == 0);
    if (!fine)
        report("%s: %s", export->options.file, strerror(errno));
    if (!fine || !complete)
        unlink(export->part);
    return fine;
}

/* ---- The command ---- */

static bool parse(int argc, char **argv, struct export *export) {
    const struct command *command = command_find("export");
    struct export_options *options = &export->options;
    bool by_name = false;
    const struct option_spec specs[] = {{"format", 'f', true, &options->format},        {"columns", 'c', true, &options->columns},
                                        {"delimiter", 'd', true, &options->delimiter},  {"no-header", 0, false, &options->no_header},
                                        {"name", 0, true, &options->name},              {"as", 0, true, &options->as},
                                        {"no-hold", 0, false, &options->no_hold},
                                        {NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return false;
    if (argc < 2 || argc > 3)
        return usage_error(command, argc < 2 ? "the directory is missing" : "an argument too many: %s", argc < 2 ? "" : argv[3]), false;
    options->directory = argv[1];
    options->file = argv[2];
    if (options->format && !format_of(options->format, "", &by_name))
        return usage_error(command, "--format is csv or jsonl"), false;
    if (options->as && strcmp(options->as, "documents") != 0)
        return usage_error(command, "--as is documents: records are known only from an import"), false;
    bool tab = options->delimiter && (strcmp(options->delimiter, "tab") == 0 || strcmp(options->delimiter, "\\t") == 0);
    if (options->delimiter && !tab && (strlen(options->delimiter) != 1 || strchr("\"\r\n", options->delimiter[0]) || (options->delimiter[0] & 0x80)))
        return usage_error(command, "--delimiter: one character of ASCII, or tab"), false;
    export->writer.delimiter = tab ? '\t' : options->delimiter ? options->delimiter[0] : ',';
    return true;
}

static int failed(struct export *export, fdb_error_t error) {
    const char *directory = export->options.directory;
    if (error == INTERRUPTED || (session_interrupted() && error == 1101))
        return report("export: interrupted%s", export->part ? "; nothing was written" : ""), EXIT_INTERRUPTED;
    if (error == NO_LOAD)
        return report("export: %s has no active load: nothing was imported into it, or not activated (loads --into %s). --as documents exports the "
                      "documents of a directory",
                      directory, directory),
               EXIT_NOT_FOUND;
    if (error == LOAD_REMOVED)
        return report("export: load %s of %s was replaced and is being removed: begin anew", export->name, directory);
    if (error == KEEL_ERROR_NOT_FOUND && !export->schema.columns)
        return report("export: load %s of %s is not there, or was not made by an import", export->name, directory), EXIT_NOT_FOUND;
    if (error == IO_ERROR)
        return report("export: %s: %s", export->options.file ? export->options.file : "standard output", strerror(errno));
    return report_error("export", directory, error);
}

/* Once the load is known: the format, the file, the header. */
static bool open_writer(struct export *export) {
    const struct export_options *options = &export->options;
    struct row_writer *writer = &export->writer;
    if (!format_of(options->format, options->file ? options->file : "", &writer->json))
        writer->json = export->schema.documents;
    if (!options->delimiter && options->file && strlen(options->file) > 4 && strcmp(options->file + strlen(options->file) - 4, ".tsv") == 0)
        writer->delimiter = '\t';
    if (!row_writer_open(writer, &export->schema, options->columns) || !open_file(export))
        return false;
    if (!writer->json && !options->no_header)
        row_writer_header(writer);
    if (export->part || !isatty(STDOUT_FILENO))
        export->progress = progress_begin(export->session, "exporting", "rows", *export->name ? export->rows_expected - 1 : 0);
    return true;
}

/* Looks and reads, again and again until all rows are written or an error is final. */
static int run(struct export *export) {
    bool opened = false;
    for (;;) {
        fdb_error_t error = look(export);
        if (!error && !opened && !open_writer(export))
            return EXIT_FAILED;
        opened |= !error;
        if (!error)
            error = export->schema.documents ? read_documents(export) : read_records(export);
        if (!error)
            return EXIT_OK;
        if (!fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
            return failed(export, error);
        FDBFuture *future = fdb_transaction_on_error(export->tr, error);
        error = session_wait(future);
        fdb_future_destroy(future);
        if (error)
            return failed(export, error);
    }
}

static void print_result(const struct export *export) {
    if (!export->part)
        return;
    if (export->session->json)
        output_json(json_pack("{ss ss sI}", "directory", export->options.directory, "file", export->options.file, "rows", (json_int_t)export->writer.rows));
    else
        printf("%s rows of %s are in %s\n", human_count(export->writer.rows), export->options.directory, export->options.file);
}

int command_export(struct session *session, int argc, char **argv) {
    struct export export = {.session = session};
    int exit_code = EXIT_USAGE;
    if (!parse(argc, argv, &export))
        return exit_code;
    export.target = target_open(session, "export", export.options.directory, false, &exit_code);
    if (!export.target)
        return exit_code;
    fdb_error_t error = fdb_database_create_transaction(session_database(session), &export.tr);
    exit_code = error ? report_error("export", export.options.directory, error) : run(&export);
    progress_update(export.progress, export.writer.rows, export.writer.rows);
    progress_end(export.progress, exit_code == EXIT_OK);
    if (export.writer.file && !close_file(&export, exit_code == EXIT_OK) && exit_code == EXIT_OK)
        exit_code = EXIT_FAILED;
    if (exit_code == EXIT_OK)
        print_result(&export);
    if (export.tr)
        fdb_transaction_destroy(export.tr);
    keel_directory_close(export.target);
    row_writer_close(&export.writer);
    schema_free(&export.schema);
    buffer_free(&export.last);
    free(export.part);
    return exit_code;
}
