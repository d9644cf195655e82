/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB restore: the rows of a backup into a database.
 *
 *   1. A file is read and verified from its first to its last byte before anything is written. A pipe cannot be read twice: there each block is verified
 *      before its rows are written, so that nothing wrong is written either, but where the pipe ends early the database is left unfinished.
 *   2. While rows are on their way, the job's record (transfer_job.c) says that the database is unfinished, and of which backup. The same restore,
 *      run again, goes on behind the rows that are in; --force clears them and begins anew.
 *   3. At the end the rows are read back and held against the backup's checksum (not with --merge, where there are others among them).
 *
 * So a database without the record is what it was before, or the state that was backed up, whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup_file.h"
#include "operation.h"
#include "place.h"

struct restore {
    struct session *session;
    FDBDatabase *database;
    const char *path; /* "-": standard input */
    int descriptor;
    bool seekable;
    off_t begin;
    struct buffer into;
    struct backup_reader reader;
    struct job job;
    struct loader loader;
    char source[64];
};

static const char *name_of(const struct restore *restore) { return strcmp(restore->path, "-") == 0 ? "standard input" : restore->path; }

/* ---- The file ---- */

static bool open_file(struct restore *restore) {
    struct stat about;
    restore->descriptor = strcmp(restore->path, "-") == 0 ? STDIN_FILENO : open(restore->path, O_RDONLY | O_CLOEXEC);
    if (restore->descriptor < 0 || fstat(restore->descriptor, &about) != 0) {
        report("restore: %s: cannot be read: %s", name_of(restore), strerror(errno));
        return false;
    }
    restore->seekable = S_ISREG(about.st_mode);
    restore->begin = restore->seekable ? lseek(restore->descriptor, 0, SEEK_CUR) : 0;
    return true;
}

static int refuse_file(const struct restore *restore) {
    if (session_interrupted())
        return EXIT_INTERRUPTED;
    report("restore: %s %s. Nothing was restored", name_of(restore), restore->reader.problem);
    return EXIT_DAMAGE;
}

/* Reads the header, of a file that can be read twice everything. */
static int verify_file(struct restore *restore) {
    if (!backup_reader_open(restore->descriptor, &restore->reader))
        return refuse_file(restore);
    if (!restore->seekable)
        return EXIT_OK;
    if (!backup_reader_verify(&restore->reader))
        return refuse_file(restore);
    backup_reader_close(&restore->reader);
    if (lseek(restore->descriptor, restore->begin, SEEK_SET) < 0 || !backup_reader_open(restore->descriptor, &restore->reader))
        return report("restore: %s: cannot be read again: %s", name_of(restore), strerror(errno));
    return EXIT_OK;
}

/* ---- The rows ---- */

/* The key in the database of a key in the backup. */
static bool place_key(const struct restore *restore, keel_bytes key, struct buffer *placed, keel_bytes *result) {
    if (restore->into.length == 0) {
        *result = key;
        return true;
    }
    placed->length = 0;
    if (!buffer_append(placed, restore->into.data, restore->into.length) || !buffer_append(placed, key.data, key.length))
        return false;
    *result = keel_bytes_of(placed->data, placed->length);
    return true;
}

static int report_load(struct restore *restore, fdb_error_t error) {
    if (session_interrupted()) {
        report("restore: interrupted, %s rows are in: the same command goes on from there, --force begins anew", human_count(restore->loader.rows_confirmed));
        return EXIT_INTERRUPTED;
    }
    struct buffer key = {0};
    if (restore->loader.failed_key.length)
        text_from_bytes(NULL, keel_bytes_of(restore->loader.failed_key.data, restore->loader.failed_key.length), &key);
    bool known = key.length && buffer_append(&key, "", 1);
    int code = transfer_report("restore", known ? (const char *)key.data : name_of(restore), error);
    buffer_free(&key);
    if (error != TRANSFER_LOST)
        report("restore: %s rows are in: the same command goes on from there, --force begins anew", human_count(restore->loader.rows_confirmed));
    return code;
}

/* Half of a pipe. */
static int report_broken(const struct restore *restore) {
    if (session_interrupted())
        return report_load((struct restore *)(uintptr_t)restore, ERROR_OPERATION_CANCELLED);
    report("restore: %s %s. %s whole rows before that are in, and the database is marked as unfinished: the same backup, undamaged, goes on from there; --force begins "
           "anew", name_of(restore), restore->reader.problem, human_count(restore->loader.rows_confirmed));
    return EXIT_DAMAGE;
}

static int load_rows(struct restore *restore) {
    struct backup_reader *reader = &restore->reader;
    struct buffer placed = {0};
    struct row row;
    bool present = true, readable = true;
    fdb_error_t error = 0;
    keel_bytes through = keel_bytes_of(restore->job.through.data, restore->job.through.length), key;
    struct progress *progress = progress_begin(restore->session, "restore", "bytes", reader->header.estimate_bytes);
    while (!error && (readable = backup_reader_next(reader, &row, &present)) && present) {
        if (!place_key(restore, row.key, &placed, &key))
            error = ERROR_LARGE_ALLOC_FAILED;
        else if (!restore->job.resumed || through.length == 0 || keel_bytes_compare(key, through) > 0)
            error = loader_set(&restore->loader, key, row.value);
        if (reader->rows_left == 0)
            progress_update(progress, reader->tally.bytes, reader->tally.rows);
    }
    buffer_free(&placed);
    fdb_error_t unsent = error ? error : loader_finish(&restore->loader); /* what was whole goes in, also in front of damage */
    progress_end(progress, !unsent && readable);
    if (unsent)
        return report_load(restore, unsent);
    return readable ? EXIT_OK : report_broken(restore);
}

/* Reads back what is in the database now. */
static fdb_error_t tally_database(struct restore *restore, struct tally *tally) {
    struct snapshot snapshot;
    struct cursor cursor;
    struct row row;
    bool present = true;
    uint8_t end[10001] = {0xff};
    size_t end_length = 1, skip = restore->into.length;
    keel_bytes into = keel_bytes_of(restore->into.data, skip);
    fdb_error_t error = skip > 0 ? keel_strinc(into, end, sizeof end, &end_length) : 0;
    if (!error)
        error = snapshot_open(restore->database, false, false, &snapshot);
    if (error)
        return error;
    error = cursor_open(&snapshot, into, keel_bytes_of(end, end_length), &cursor);
    while (!error && !(error = cursor_next(&cursor, &row, &present)) && present)
        tally_add(tally, keel_bytes_of(row.key.data + skip, row.key.length - skip), row.value);
    cursor_close(&cursor);
    snapshot_close(&snapshot);
    return error;
}

static int verify_database(struct restore *restore) {
    struct tally tally = {0};
    if (restore->job.merge)
        return EXIT_OK;
    fdb_error_t error = tally_database(restore, &tally);
    if (error)
        return report_load(restore, error);
    if (tally_equal(&tally, &restore->reader.tally))
        return EXIT_OK;
    return report("restore: the database does not hold what the backup holds: %s rows where the backup has %s. Somebody else has written to it meanwhile; restore again "
                  "with --force while nobody does", human_count(tally.rows), human_count(restore->reader.tally.rows));
}

/* ---- The command ---- */

static void print_result(const struct restore *restore, double seconds) {
    const struct backup_reader *reader = &restore->reader;
    if (restore->session->json)
        output_json(json_pack("{s:o, s:I, s:I, s:I, s:o, s:b, s:f}", "file", json_text(keel_bytes_of_string(restore->path)), "version",
                              (json_int_t)reader->header.version, "rows", (json_int_t)reader->tally.rows, "bytes", (json_int_t)reader->tally.bytes, "checksum",
                              json_hex(reader->tally.checksum), "resumed", restore->job.resumed, "seconds", seconds));
    else
        printf("%s rows, %s of keys and values, from the state of %s (version %" PRId64 "), %s\n", human_count(reader->tally.rows),
               human_bytes(reader->tally.bytes), time_text(reader->header.time_us), reader->header.version, human_seconds(seconds));
}

static int begin_job(struct restore *restore, bool force, bool merge) {
    enum job_start start;
    char *found = NULL;
    uint8_t *id = restore->reader.header.id;
    int length = snprintf(restore->source, sizeof restore->source, "backup ");
    for (size_t i = 0; i < sizeof restore->reader.header.id; i++)
        length += snprintf(restore->source + length, sizeof restore->source - (size_t)length, "%02x", id[i]);
    restore->job = (struct job){.database = restore->database,
                                .kind = "restore",
                                .source = restore->source,
                                .merge = merge,
                                .into = keel_bytes_of(restore->into.data, restore->into.length)};
    fdb_error_t error = job_begin(&restore->job, force, &start, &found);
    if (error)
        return transfer_report("restore", restore->session->path ? restore->session->path : "the database", error);
    int code = EXIT_OK;
    if (start == JOB_NOT_EMPTY)
        code = report("restore: there are rows already: restore into a new database, or replace them with --force, or add to them with --merge");
    if (start == JOB_UNFINISHED)
        code = report("restore: the database holds %s: run that again to finish it, or give it up and clear the database with --force", found ? found : "an unfinished transfer");
    if (start == JOB_RESUMED && !restore->session->quiet)
        fprintf(stderr, "keel: restore: goes on behind %s rows that are in\n", human_count(restore->job.rows));
    free(found);
    return code;
}

static int run_restore(struct restore *restore, bool force, bool merge) {
    double begin = seconds_now();
    int code = verify_file(restore);
    if (code == EXIT_OK)
        code = begin_job(restore, force, merge);
    if (code != EXIT_OK)
        return code;
    loader_open(restore->database, &restore->job, &restore->loader);
    code = load_rows(restore);
    if (code == EXIT_OK)
        code = verify_database(restore);
    fdb_error_t error = code == EXIT_OK ? job_end(&restore->job) : 0;
    if (error)
        code = report_load(restore, error);
    if (code == EXIT_OK)
        print_result(restore, seconds_now() - begin);
    loader_close(&restore->loader);
    return code;
}

struct prefix_request {
    const char *text;
    struct buffer *prefix;
};

static fdb_error_t find_prefix(FDBTransaction *tr, void *context) {
    struct prefix_request *request = context;
    request->prefix->length = 0;
    return text_to_prefix(tr, request->text, request->prefix);
}

int command_restore(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("restore");
    const char *force = NULL, *merge = NULL, *into = NULL;
    const struct option_spec specs[] = {{"force", 'f', false, &force}, {"merge", 0, false, &merge}, {"into", 0, true, &into}, {0}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, "one FILE is needed, or - for a pipe");
    if (force && merge)
        return usage_error(command, "--force clears what is there, --merge keeps it: only one of them");
    if (!outside_transaction(session, "restore"))
        return EXIT_FAILED;
    struct restore restore = {.session = session, .path = argv[1], .descriptor = -1};
    int code = EXIT_FAILED;
    if (!open_file(&restore))
        return code;
    restore.database = session_database(session);
    if (restore.database) {
        struct prefix_request request = {into, &restore.into};
        fdb_error_t error = into ? session_read(session, find_prefix, &request) : 0;
        code = error ? report_error("restore", into, error) : run_restore(&restore, force != NULL, merge != NULL);
    }
    if (restore.descriptor != STDIN_FILENO)
        close(restore.descriptor);
    backup_reader_close(&restore.reader);
    job_close(&restore.job);
    buffer_free(&restore.into);
    return code;
}
