/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB backup: one state of the whole database into a file or a pipe, while others go on using it.
 *
 * What is in it: every key that a program can write without the option access_system_keys, "" to \xff, at one version. What is not: keys
 * under \xff. The only one of them that Keel itself writes for programs is \xff/metadataVersion, a number that means something to caches of this
 * database alone; and the record of an unfinished transfer (transfer_job.c), which is about these files.
 *
 * A file appears under its name only when it is complete and on the disk: it is written as FILE.partial, synced, renamed, and the directory
 * synced. Whatever goes wrong, Ctrl-C included, the partial file is removed; after a kill -9 it stays and is used again by the next
 * backup to the same name. Memory: one block and two reads, however large the database is.
 */
#define _GNU_SOURCE /* asprintf */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "backup_file.h"
#include "operation.h"
#include "place.h"

/* ---- Where it goes ---- */

struct target {
    const char *path; /* "-": standard output */
    char *partial;    /* NULL for standard output */
    int descriptor;
    void (*pipe_handler)(int);
};

static bool target_is_pipe(const struct target *target) { return strcmp(target->path, "-") == 0; }

static bool target_open(const char *path, bool force, struct target *target) {
    *target = (struct target){.path = path, .descriptor = -1, .pipe_handler = signal(SIGPIPE, SIG_IGN)};
    if (target_is_pipe(target)) {
        target->descriptor = STDOUT_FILENO;
        if (!isatty(STDOUT_FILENO))
            return true;
        report("backup: standard output is a terminal: name a file, or send it into a pipe: keel DB backup - | gzip > FILE");
        return false;
    }
    if (!force && access(path, F_OK) == 0) {
        report("backup: %s exists: choose another name, or replace it with --force", path);
        return false;
    }
    if (asprintf(&target->partial, "%s.partial", path) < 0) {
        target->partial = NULL;
        report("backup: out of memory");
        return false;
    }
    int descriptor = open(target->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        report("backup: %s: cannot be written: %s", target->partial, strerror(errno));
        return false;
    }
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        report("backup: %s: another backup is just writing it", target->partial);
        close(descriptor);
        return false;
    }
    target->descriptor = descriptor;
    if (ftruncate(descriptor, 0) == 0)
        return true;
    report("backup: %s: cannot be written: %s", target->partial, strerror(errno));
    return false;
}

/* Nothing of it stays. */
static void target_discard(struct target *target) {
    if (target->partial && target->descriptor >= 0)
        unlink(target->partial);
}

static void target_close(struct target *target) {
    if (target->partial && target->descriptor >= 0)
        close(target->descriptor);
    free(target->partial);
    signal(SIGPIPE, target->pipe_handler);
}

static bool sync_directory(const char *path) {
    char *copy = strdup(path);
    int descriptor = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool synced = descriptor >= 0 && fsync(descriptor) == 0;
    if (descriptor >= 0)
        close(descriptor);
    free(copy);
    return synced;
}

/* Gives the complete file its name, durably. */
static bool target_publish(struct target *target) {
    if (target_is_pipe(target))
        return true;
    if (fsync(target->descriptor) == 0 && rename(target->partial, target->path) == 0 && sync_directory(target->path))
        return true;
    report("backup: %s: %s", target->path, strerror(errno));
    return false;
}

/* ---- What goes there ---- */

static int interrupted(void) {
    report("backup: interrupted: nothing was kept");
    return EXIT_INTERRUPTED;
}

static int report_write(const struct target *target, const struct backup_writer *writer) {
    if (session_interrupted())
        return interrupted();
    const char *name = target_is_pipe(target) ? "standard output" : target->path;
    if (writer->system_error == ENOSPC || writer->system_error == EDQUOT)
        return report("backup: %s: the disk is full after %s: nothing was kept. Make room, or write the backup elsewhere", name, human_bytes(writer->file_bytes));
    if (writer->system_error == EPIPE)
        return report("backup: whoever was to read the backup has closed the pipe after %s", human_bytes(writer->file_bytes));
    return report("backup: %s: writing failed after %s: %s", name, human_bytes(writer->file_bytes), strerror(writer->system_error));
}

static int report_read(const struct session *session, fdb_error_t error) {
    if (session_interrupted())
        return interrupted();
    if (error == TRANSFER_CHANGED)
        return report("backup: this database keeps a version readable for five seconds, which was too short, so the backup would not be one state. Copy it into an "
                      "embedded database first (keel copy %s ./copy.db) and back that up", session->path ? session->path : "DB");
    return transfer_report("backup", session->path ? session->path : "the database", error);
}

static int write_rows(struct session *session, struct snapshot *snapshot, const struct target *target, struct backup_writer *writer) {
    struct scan scan;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_error_t error = scan_open(snapshot, USER_KEYS_BEGIN, USER_KEYS_END, &scan);
    if (error)
        return report_read(session, error);
    struct progress *progress = progress_begin(session, "backup", "bytes", writer->header.estimate_bytes);
    bool written = true;
    while (!(error = scan_next(&scan, &rows, &count)) && count > 0 && written) {
        for (int i = 0; i < count && written; i++)
            written = backup_writer_add(writer, keel_bytes_of(rows[i].key, (size_t)rows[i].key_length),
                                        keel_bytes_of(rows[i].value, (size_t)rows[i].value_length));
        progress_update(progress, writer->tally.bytes, writer->tally.rows);
    }
    written = written && !error && backup_writer_finish(writer);
    progress_end(progress, written);
    scan_close(&scan);
    if (error)
        return report_read(session, error);
    return written ? EXIT_OK : report_write(target, writer);
}

static void print_result(const struct session *session, const struct target *target, const struct backup_writer *writer, double seconds) {
    FILE *to = target_is_pipe(target) ? stderr : stdout;
    if (session->json) {
        json_t *result = json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:f}", "file", json_text(keel_bytes_of_string(target->path)), "version", (json_int_t)writer->header.version, "rows",
                                   (json_int_t)writer->tally.rows, "bytes", (json_int_t)writer->tally.bytes, "file_bytes",
                                   (json_int_t)writer->file_bytes, "checksum", json_hex(writer->tally.checksum), "seconds", seconds);
        if (to == stdout) {
            output_json(result);
            return;
        }
        json_dumpf(result, to, JSON_COMPACT);
        fputc('\n', to);
        json_decref(result);
    } else if (!session->quiet || to == stdout) {
        fprintf(to, "%s: %s rows, %s of keys and values, %s in the file, version %" PRId64 ", %s\n", target->path, human_count(writer->tally.rows),
                human_bytes(writer->tally.bytes), human_bytes(writer->file_bytes), writer->header.version, human_seconds(seconds));
    }
}

/* About how much there is; 0 if that is not known. */
static fdb_error_t estimate(FDBTransaction *tr, void *context) {
    int64_t bytes = 0;
    FDBFuture *future = fdb_transaction_get_estimated_range_size_bytes(tr, (const uint8_t *)"", 0, (const uint8_t *)"\xff", 1);
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_int64(future, &bytes);
    fdb_future_destroy(future);
    if (!error)
        *(uint64_t *)context = bytes > 0 ? (uint64_t)bytes : 0;
    return error;
}

static int backup_to(struct session *session, FDBDatabase *database, struct target *target) {
    struct snapshot snapshot;
    struct backup_writer writer;
    uint64_t estimate_bytes = 0;
    double begin = seconds_now();
    (void)keel_run_read(database, estimate, &estimate_bytes);
    fdb_error_t error = snapshot_open(database, false, true, &snapshot);
    if (error)
        return report_read(session, error);
    int code = EXIT_OK;
    if (backup_writer_open(target->descriptor, snapshot.version, estimate_bytes, &writer))
        code = write_rows(session, &snapshot, target, &writer);
    else
        code = report_write(target, &writer);
    snapshot_close(&snapshot);
    if (code == EXIT_OK && !target_publish(target))
        code = EXIT_FAILED;
    if (code == EXIT_OK)
        print_result(session, target, &writer, seconds_now() - begin);
    backup_writer_close(&writer);
    return code;
}

/* ---- Checking a file ---- */

static int verify(const struct session *session, const char *path) {
    bool from_stdin = strcmp(path, "-") == 0;
    int descriptor = from_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return report("backup: %s: cannot be read: %s", path, strerror(errno));
    struct backup_reader reader;
    bool whole = backup_reader_open(descriptor, &reader) && backup_reader_verify(&reader);
    int code = whole ? EXIT_OK : session_interrupted() ? EXIT_INTERRUPTED : EXIT_DAMAGE;
    if (session->json) {
        json_t *result = json_pack("{s:o, s:b, s:I, s:I, s:I, s:I, s:o}", "file", json_text(keel_bytes_of_string(path)), "whole", whole, "version", (json_int_t)reader.header.version, "rows",
                                   (json_int_t)reader.tally.rows, "bytes", (json_int_t)reader.tally.bytes, "time_us",
                                   (json_int_t)reader.header.time_us, "checksum", json_hex(reader.tally.checksum));
        if (!whole)
            json_object_set_new(result, "problem", json_string(reader.problem));
        output_json(result);
    } else if (whole) {
        printf("%s: whole: %s rows, %s of keys and values, version %" PRId64 ", taken %s\n", path, human_count(reader.tally.rows),
               human_bytes(reader.tally.bytes), reader.header.version, time_text(reader.header.time_us));
    }
    if (!whole)
        report("backup: %s %s", path, reader.problem);
    backup_reader_close(&reader);
    if (!from_stdin)
        close(descriptor);
    return code;
}

int command_backup(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("backup");
    const char *force = NULL, *check = NULL;
    const struct option_spec specs[] = {{"force", 'f', false, &force}, {"verify", 0, false, &check}, {0}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, "one FILE is needed, or - for a pipe");
    if (check)
        return verify(session, argv[1]);
    FDBDatabase *database = session_database(session);
    if (!database)
        return EXIT_FAILED;
    char *unfinished = NULL;
    fdb_error_t error = job_look(database, &unfinished);
    if (error)
        return report_read(session, error);
    if (unfinished && !force) {
        int code = report("backup: the database holds %s: finish that first, or back it up as it is with --force", unfinished);
        free(unfinished);
        return code;
    }
    free(unfinished);
    struct target target;
    int code = target_open(argv[1], force != NULL, &target) ? backup_to(session, database, &target) : EXIT_FAILED;
    if (code != EXIT_OK)
        target_discard(&target);
    target_close(&target);
    return code;
}
