/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a whole database: which files are there, the lease, and then the base (check_base.c, check_rows.c) and the log (check_log.c).
 *
 * It promises two things. First, it ends: no damage makes it crash or run for ever. Files are read, never mapped, and every number in them is compared with what it
 * may be before it is used. Second, where it finds no damage the database can be opened and gives back what was written. That is why it goes
 * further than opening does: it looks at every row, at the order of keys and the ways to them, and at the list of free pages, out of which a later write would take its
 * room.
 *
 *     kind               what was found
 *     directory-file     (note) a file that is not the database's
 *     directory-leftover (note) something unfinished that nobody needs
 *     lock-missing       (note) no lock file: the next open makes it
 *     lease-missing, lease-damaged, lease-slot (note: one of two), lease-behind
 *     base-missing, base-short, base-meta, base-record
 *     page-number        a page lies outside the file
 *     page-header, page-layout, page-twice, page-free, tree-depth, tree-count
 *     free-list          the list of free pages makes no sense
 *     pages-lost         (note) pages that nobody uses and nobody lists as free
 *     key-order          keys do not ascend, or lie where nobody would look for them
 *     row-checksum, row-entry, row-size, subtree-missing, subtree-unreachable, subtree-twice
 *     log-missing, log-header, log-gap, log-chain, log-record, log-payload, log-tail (note), log-spare (note), log-file (note)
 *
 * A process that has the database open is not disturbed: the check takes its lock or gives up (DATABASE_IN_USE).
 *
 * Threads: one. Failure: what the operating system refuses ends the check with that error; damage never does.
 */
#include <stdarg.h>
#include <stdio.h>

#include "engine/check_internal.h"
#include "engine/lease.h"
#include "os/file.h"
#include "util/memory.h"

/* --- Reporting --- */

void check_report(struct check *check, enum check_severity severity, const char *kind, struct check_place place, const char *consequence,
                  const char *format, ...) {
    char what[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    struct check_finding finding = {
        .severity = severity,
        .kind = kind,
        .file = place.file,
        .has_offset = place.offset >= 0,
        .offset = place.offset >= 0 ? (uint64_t)place.offset : 0,
        .has_key = place.key != NULL,
        .key = place.key ? *place.key : (struct bytes){0},
        .what = what,
        .consequence = consequence,
    };
    if (severity == CHECK_DAMAGE)
        check->summary->damages++;
    else
        check->summary->notes++;
    check->callbacks->finding(check->callbacks->context, &finding);
}

fdb_error_t check_refuse(struct check *check, fdb_error_t error, const char *format, ...) {
    char text[5000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (*check->message)
        return error;
    char *copy = memory_allocate(strlen(text) + 1);
    if (copy)
        *check->message = strcpy(copy, text);
    return error;
}

fdb_error_t check_advance(struct check *check, uint64_t bytes) {
    check->bytes_done += bytes;
    if (!check->callbacks->progress || check->bytes_done - check->bytes_told < PROGRESS_BYTES)
        return ERROR_SUCCESS;
    check->bytes_told = check->bytes_done;
    uint64_t done = check->bytes_done < check->bytes_total ? check->bytes_done : check->bytes_total;
    return check->callbacks->progress(check->callbacks->context, done, check->bytes_total) ? ERROR_SUCCESS
                                                                                           : ERROR_OPERATION_CANCELLED;
}

fdb_error_t check_join(struct check *check, const char *name, struct check_path *path) {
    if (snprintf(path->text, sizeof path->text, "%s/%s", check->path, name) < (int)sizeof path->text)
        return ERROR_SUCCESS;
    return check_refuse(check, ERROR_IO_ERROR, "the path is too long");
}

/* --- The directory --- */

struct directory_check {
    struct check *check;
    bool lock, lease, base, log;
    unsigned ours, foreign;
    char foreign_name[256];
};

static bool is_leftover(const char *name) {
    return strcmp(name, "clock.keel.new") == 0 || strcmp(name, "base.keel.new") == 0 || strcmp(name, "base.keel.new-lock") == 0 ||
           strcmp(name, "base.keel.compact") == 0;
}

static fdb_error_t note_name(void *context, const char *name) {
    struct directory_check *found = context;
    if (strcmp(name, "lock.keel") == 0)
        found->lock = true;
    else if (strcmp(name, "clock.keel") == 0)
        found->lease = true;
    else if (strcmp(name, "base.keel") == 0)
        found->base = true;
    else if (strcmp(name, "log") == 0)
        found->log = true;
    else if (strcmp(name, "base.keel-lock") != 0 && !is_leftover(name)) {
        found->foreign++;
        snprintf(found->foreign_name, sizeof found->foreign_name, "%s", name);
    }
    return ERROR_SUCCESS;
}

/* Once it is known that the directory is a database's. */
static fdb_error_t report_name(void *context, const char *name) {
    struct check *check = ((struct directory_check *)context)->check;
    struct check_place place = {name, -1, NULL};
    struct directory_check other = {0};
    note_name(&other, name);
    if (is_leftover(name))
        check_report(check, CHECK_NOTE, "directory-leftover", place, "nothing needs it: it may be removed",
                     "something that was being made and never finished");
    else if (other.foreign)
        check_report(check, CHECK_NOTE, "directory-file", place, "Keel leaves it alone", "not a file of the database");
    return ERROR_SUCCESS;
}

static fdb_error_t look_at_directory(struct directory_check *found) {
    struct check *check = found->check;
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(check->path, &kind);
    if (!error && kind == OS_PATH_MISSING)
        return check_refuse(check, ERROR_FILE_NOT_FOUND, "%s does not exist", check->path);
    if (!error && kind != OS_PATH_DIRECTORY)
        return check_refuse(check, ERROR_FORMAT_FOREIGN, "%s is not a directory; a Keel database is one", check->path);
    if (!error)
        error = os_directory_list(check->path, note_name, found);
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    if (!found->lease && !found->base)
        return check_refuse(check, ERROR_FORMAT_FOREIGN, "%s holds no Keel database%s%s", check->path, found->foreign ? ", but " : "",
                            found->foreign_name);
    return os_directory_list(check->path, report_name, found);
}

/* Keeps others out for as long as `file` is open. A missing lock file is nobody's lock. */
fdb_error_t check_lock(struct check *check, bool exists, struct os_file *file) {
    struct check_path path;
    file->descriptor = -1;
    if (!exists) {
        check_report(check, CHECK_NOTE, "lock-missing", (struct check_place){"lock.keel", -1, NULL}, "the next open makes it",
                     "there is no lock file");
        return ERROR_SUCCESS;
    }
    fdb_error_t error = check_join(check, "lock.keel", &path);
    if (!error)
        error = os_file_open_read(path.text, file);
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    error = os_file_lock(file);
    if (!error)
        return ERROR_SUCCESS;
    long holder = os_file_lock_holder(file);
    if (error == ERROR_DATABASE_IN_USE && holder)
        check_refuse(check, error, "%s is open in process %ld", check->path, holder);
    else
        check_refuse(check, error, "%s is open in another process", check->path);
    os_file_close(file);
    return error;
}

/* --- The lease --- */

static void report_slots(struct check *check, const bool whole[2]) {
    for (int i = 0; i < 2; i++)
        if (!whole[i])
            check_report(check, CHECK_NOTE, "lease-slot", (struct check_place){"clock.keel", i * 4096, NULL},
                         "the other one counts; the next open jumps further ahead with its versions and writes this one again",
                         "one of the two slots is not whole, as after a crash while it was written");
}

static fdb_error_t check_lease(struct check *check, int64_t *ceiling) {
    struct check_path path;
    struct os_file file;
    struct lease lease;
    bool whole[2];
    *ceiling = INT64_MAX;
    struct check_place place = {"clock.keel", -1, NULL};
    fdb_error_t error = check_join(check, "clock.keel", &path);
    if (!error)
        error = os_file_open_read(path.text, &file);
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    error = lease_read(&file, &lease, whole);
    os_file_close(&file);
    if (error == ERROR_FORMAT_FOREIGN || error == ERROR_DATABASE_DAMAGED) {
        check_report(check, CHECK_DAMAGE, "lease-damaged", place,
                     "the database does not open. Identity and versions are lost, the data is not: ask before you remove the file",
                     "neither of the two slots is whole");
        return ERROR_SUCCESS;
    }
    if (error == ERROR_FORMAT_NEWER)
        return check_refuse(check, error, "clock.keel: written by a newer Keel");
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    report_slots(check, whole);
    memcpy(check->summary->database_id, lease.database_id, sizeof lease.database_id);
    if (!lease.one_slot_lost)
        *ceiling = lease.ceiling;
    return ERROR_SUCCESS;
}

/* --- The whole --- */

static void report_missing(struct directory_check *found) {
    struct check *check = found->check;
    if (!found->lease)
        check_report(check, CHECK_DAMAGE, "lease-missing", (struct check_place){"clock.keel", -1, NULL},
                     "the next open takes this for a creation that was interrupted: it keeps the data, but gives it a new identity and may repeat versions",
                     "the file with format, identity and lease is missing");
    if (!found->base)
        check_report(check, CHECK_DAMAGE, "base-missing", (struct check_place){"base.keel", -1, NULL},
                     "the database does not open; what is not in the log is lost: restore a backup", "the base is missing");
    if (!found->log)
        check_report(check, CHECK_DAMAGE, "log-missing", (struct check_place){"log", -1, NULL},
                     "the database does not open; commits that were not in the base yet are lost: restore a backup", "the log's directory is missing");
}

static fdb_error_t check_files(struct directory_check *found) {
    struct check *check = found->check;
    int64_t ceiling = INT64_MAX;
    report_missing(found);
    fdb_error_t error = found->lease ? check_lease(check, &ceiling) : ERROR_SUCCESS;
    if (!error && found->base)
        error = check_base(check, "base.keel");
    if (!error && found->log)
        error = check_log(check, ceiling);
    return error;
}

static fdb_error_t add_size(void *context, const char *name) {
    struct check *check = context;
    struct check_path path;
    struct os_file file;
    uint64_t size;
    char below[300];
    if (snprintf(below, sizeof below, "log/%s", name) >= (int)sizeof below || check_join(check, below, &path))
        return ERROR_SUCCESS;
    if (os_file_open_read(path.text, &file))
        return ERROR_SUCCESS;
    if (os_file_size(&file, &size) == ERROR_SUCCESS)
        check->bytes_total += size;
    os_file_close(&file);
    return ERROR_SUCCESS;
}

/* For the progress alone. */
static void add_sizes(struct check *check) {
    struct check_path path;
    struct os_file file;
    uint64_t size;
    if (check_join(check, "base.keel", &path) == ERROR_SUCCESS && os_file_open_read(path.text, &file) == ERROR_SUCCESS) {
        if (os_file_size(&file, &size) == ERROR_SUCCESS)
            check->bytes_total += size;
        os_file_close(&file);
    }
    if (check_join(check, "log", &path) == ERROR_SUCCESS)
        (void)os_directory_list(path.text, add_size, check);
}

fdb_error_t check_look(struct check *check, bool *lock_exists) {
    struct directory_check found = {.check = check};
    fdb_error_t error = look_at_directory(&found);
    *lock_exists = found.lock;
    return error;
}

fdb_error_t check_contents(struct check *check) {
    struct directory_check found = {.check = check};
    fdb_error_t error = os_directory_list(check->path, note_name, &found); /* again: now it stays as it is */
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    add_sizes(check);
    return check_files(&found);
}

fdb_error_t engine_check(const char *path, const struct check_callbacks *callbacks, struct check_summary *summary, char **message) {
    *message = NULL;
    *summary = (struct check_summary){0};
    struct check check = {.path = path, .callbacks = callbacks, .summary = summary, .message = message};
    struct os_file lock;
    bool lock_exists;
    fdb_error_t error = check_look(&check, &lock_exists);
    if (!error)
        error = check_lock(&check, lock_exists, &lock);
    if (error)
        return error;
    error = check_contents(&check);
    if (lock.descriptor >= 0)
        os_file_close(&lock);
    if (!error && callbacks->progress)
        callbacks->progress(callbacks->context, check.bytes_total, check.bytes_total);
    return error;
}
