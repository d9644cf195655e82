/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an embedded database, for check and compact: finding them, having them alone, and passing on what engine/check.h finds in them.
 *
 * The session gives its database back first, since both want it closed; the next command opens it again.
 */
#include "file_check.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "api/place.h"
#include "engine/check.h"
#include "util/memory.h"

enum { PATIENCE = 500, PAUSE_MS = 10 };

bool files_take(struct session *session, const char *doing, struct files *files) {
    char chosen[OS_PATH_BYTES_MAX];
    struct stat about;
    *files = (struct files){.patience = session->db ? PATIENCE : 0};
    fdb_error_t error = place_choose(session->path, chosen);
    if (error) {
        report_error(doing, session->path ? session->path : "the default place", error);
        return false;
    }
    if (strcmp(chosen, ":memory:") == 0)
        return true;
    if (stat(chosen, &about) != 0) {
        report("%s: %s: there is no database here: %s", doing, chosen, strerror(errno));
        return false;
    }
    if (!S_ISDIR(about.st_mode))
        return true;
    keel_close(session->db);
    session->db = NULL;
    snprintf(files->path, sizeof files->path, "%s", chosen);
    return true;
}

bool files_try_again(struct files *files, fdb_error_t error) {
    if (error != ERROR_DATABASE_IN_USE || files->patience == 0 || session_interrupted())
        return false;
    files->patience--;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    return true;
}

struct file_checking {
    struct session *session;
    struct findings *findings;
    struct progress *progress;
};

/* "log/log-….keel at byte 4096, row ("users", 7)" */
static void describe_place(const struct check_finding *finding, char *where, size_t capacity) {
    int length = snprintf(where, capacity, "%s", *finding->file ? finding->file : "the directory");
    if (finding->has_offset && (size_t)length < capacity)
        length += snprintf(where + length, capacity - (size_t)length, " at byte %llu", (unsigned long long)finding->offset);
    if (finding->has_key && (size_t)length < capacity)
        snprintf(where + length, capacity - (size_t)length, ", row %s", shown(keel_bytes_of(finding->key.data, finding->key.length)));
}

static void on_finding(void *context, const struct check_finding *finding) {
    struct file_checking *checking = context;
    char where[2048];
    describe_place(finding, where, sizeof where);
    checking->findings->kind = finding->kind;
    const char *consequence = finding->consequence ? finding->consequence : "";
    if (finding->severity == CHECK_DAMAGE)
        find_damage(checking->findings, where, "%s%s%s", finding->what, *consequence ? ". " : "", consequence);
    else
        find_remark(checking->findings, where, "%s%s%s", finding->what, *consequence ? ". " : "", consequence);
    checking->findings->kind = NULL;
}

static bool on_progress(void *context, uint64_t bytes_done, uint64_t bytes_total) {
    struct file_checking *checking = context;
    if (!checking->progress)
        checking->progress = progress_begin(checking->session, "check files", "bytes", bytes_total);
    progress_update(checking->progress, bytes_done, 0);
    return !session_interrupted();
}

static int report_refusal(const char *path, fdb_error_t error, const char *message) {
    if (session_interrupted())
        return EXIT_INTERRUPTED;
    if (error == ERROR_DATABASE_IN_USE)
        return report("check: %s: another process has it open, or a watch of this shell: its files can be verified only while nobody has. --online leaves them out and "
                      "checks rows, directories and structures through the database", path);
    if (message)
        report("check: %s", message);
    return report_error("check", path, error);
}

static void fill_summary(json_t *files, const struct check_summary *summary) {
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"log_segments", summary->log_segments}, {"log_records", summary->log_records},         {"log_bytes", summary->log_bytes},
        {"base_bytes", summary->base_bytes},     {"base_pages_used", summary->base_pages_used}, {"base_pages_free", summary->base_pages_free},
        {"base_rows", summary->rows},            {"log_version", (uint64_t)summary->log_version},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(files, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    if (summary->base_version_known)
        json_object_set_new(files, "base_version", json_integer(summary->base_version));
}

int check_files(struct session *session, struct findings *findings, json_t *summary_json, bool *online) {
    struct files files;
    if (!files_take(session, "check", &files))
        return EXIT_FAILED;
    if (!*files.path) {
        *online = true;
        return EXIT_OK;
    }
    struct file_checking checking = {.session = session, .findings = findings};
    struct check_callbacks callbacks = {.finding = on_finding, .progress = on_progress, .context = &checking};
    struct check_summary summary = {0};
    char *message = NULL;
    fdb_error_t error;
    do {
        memory_free(message);
        message = NULL;
        error = engine_check(files.path, &callbacks, &summary, &message);
    } while (files_try_again(&files, error));
    if (checking.progress)
        progress_end(checking.progress, !error);
    int code = error ? report_refusal(files.path, error, message) : EXIT_OK;
    memory_free(message);
    if (!error)
        fill_summary(summary_json, &summary);
    return code;
}
