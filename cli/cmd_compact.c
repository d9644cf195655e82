/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB compact: the base written anew without its free pages (engine/compact.h). For an embedded database that nobody has open; at every moment the
 * directory holds a whole database, so it may be interrupted.
 */
#include "engine/compact.h"

#include "file_check.h"
#include "operation.h"
#include "util/memory.h"

struct compacting {
    struct session *session;
    struct progress *progress;
};

static bool on_progress(void *context, uint64_t bytes_done, uint64_t bytes_total) {
    struct compacting *compacting = context;
    if (!compacting->progress)
        compacting->progress = progress_begin(compacting->session, "compact", "bytes", bytes_total);
    progress_update(compacting->progress, bytes_done, 0);
    return !session_interrupted();
}

static int report_failure(const char *path, fdb_error_t error, const char *message) {
    if (session_interrupted()) {
        report("compact: interrupted: the database is as it was");
        return EXIT_INTERRUPTED;
    }
    if (error == ERROR_DATABASE_IN_USE)
        return report("compact: %s: another process has it open, or a watch of this shell: it can be compacted only while nobody has", path);
    if (message)
        report("compact: %s", message);
    int code = report_error("compact", path, error);
    return error == ERROR_DATABASE_DAMAGED ? EXIT_DAMAGE : code;
}

int command_compact(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("compact");
    const struct option_spec specs[] = {{0}};
    struct files files;
    char *message = NULL;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 1)
        return usage_error(command, "there is nothing to be named here");
    if (!outside_transaction(session, "compact") || !files_take(session, "compact", &files))
        return EXIT_FAILED;
    if (!*files.path)
        return report("compact: there are no files to compact: this is not an embedded database on a disk");
    struct compacting compacting = {.session = session};
    struct compact_summary summary = {0};
    double begin = seconds_now();
    fdb_error_t error;
    do {
        memory_free(message);
        message = NULL;
        error = engine_compact(files.path, on_progress, &compacting, &summary, &message);
    } while (files_try_again(&files, error));
    if (compacting.progress)
        progress_end(compacting.progress, !error);
    int code = error ? report_failure(files.path, error, message) : EXIT_OK;
    memory_free(message);
    if (error)
        return code;
    if (session->json)
        output_json(json_pack("{s:I, s:I, s:I, s:f}", "bytes_before", (json_int_t)summary.bytes_before, "bytes_after", (json_int_t)summary.bytes_after, "rows",
                              (json_int_t)summary.rows, "seconds", seconds_now() - begin));
    else
        printf("the base had %s and has %s, with %s rows; %s\n", human_bytes(summary.bytes_before), human_bytes(summary.bytes_after), human_count(summary.rows),
               human_seconds(seconds_now() - begin));
    return EXIT_OK;
}
