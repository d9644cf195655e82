/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compacting: LMDB never makes its file smaller, so after much was cleared, or after a long read that kept old pages, the base is larger than its rows.
 *
 *     lock ─► check everything ─► base.keel.compact ─► sync ─► check it ─► rename to base.keel ─► sync the directory
 *
 *   1. Until the rename the database is as it was; the rename is one step. What a crash leaves is base.keel.compact, which the next open removes.
 *   2. A damaged base is not copied: LMDB may crash on it, and the copy would have lost what could still be saved.
 *   3. The copy is believed only after it was read back, row by row, and holds as many as the original, at the same version.
 *
 * The log is not touched: what it holds beyond the base's version it holds beyond the copy's.
 *
 * Threads: one. Failure: the copy is removed, the error passed on.
 */
#include "engine/compact.h"

#include <stdio.h>

#include "engine/base_lmdb.h"
#include "engine/check_internal.h"
#include "os/file.h"
#include "util/memory.h"

static const char COPY_NAME[] = "base.keel.compact";

/* What the check of either file tells. */
struct compaction {
    struct check check;
    struct check_callbacks callbacks;
    struct check_summary summary; /* of the check that is being made */
    bool (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    void *context;
    bool damage_told;
    struct check_path copy_path;
};

static void note_finding(void *context, const struct check_finding *finding) {
    struct compaction *compaction = context;
    if (finding->severity != CHECK_DAMAGE || compaction->damage_told)
        return;
    compaction->damage_told = true;
    if (finding->has_offset)
        check_refuse(&compaction->check, 0, "%s: offset %llu: %s", finding->file, (unsigned long long)finding->offset, finding->what);
    else
        check_refuse(&compaction->check, 0, "%s: %s", finding->file, finding->what);
}

static bool pass_progress(void *context, uint64_t done, uint64_t total) {
    struct compaction *compaction = context;
    return compaction->progress(compaction->context, done, total);
}

/* As LMDB writes it, without free pages. */
static fdb_error_t write_copy(struct compaction *compaction, struct os_file *copy) {
    struct check *check = &compaction->check;
    struct check_path path;
    MDB_env *environment;
    fdb_error_t error = check_join(check, "base.keel", &path);
    if (error)
        return error;
    int result = base_lmdb_environment_open(path.text, MDB_RDONLY | MDB_NOLOCK, 1, SMALL_MAP_BYTES, &environment);
    if (result)
        return check_refuse(check, base_lmdb_error(result), "%s: %s", path.text, mdb_strerror(result));
    result = mdb_env_copyfd2(environment, copy->descriptor, MDB_CP_COMPACT);
    mdb_env_close(environment);
    if (result == MDB_INCOMPATIBLE) /* what LMDB says when pages are neither used nor free */
        return check_refuse(check, ERROR_OPERATION_FAILED, "%s: LMDB does not copy it, because pages of it are neither used nor free", path.text);
    if (result)
        return check_refuse(check, base_lmdb_error(result), "%s: %s", compaction->copy_path.text, mdb_strerror(result));
    error = os_file_sync(copy);
    return error ? check_refuse(check, error, "%s", os_last_error()) : ERROR_SUCCESS;
}

static fdb_error_t make_copy(struct compaction *compaction, uint64_t *bytes) {
    struct check *check = &compaction->check;
    struct os_file copy;
    fdb_error_t error = os_remove(compaction->copy_path.text);
    if (!error || error == ERROR_FILE_NOT_FOUND)
        error = os_file_open(compaction->copy_path.text, true, &copy);
    if (error)
        return check_refuse(check, error, "%s", os_last_error());
    error = write_copy(compaction, &copy);
    if (!error && os_file_size(&copy, bytes))
        error = check_refuse(check, ERROR_IO_ERROR, "%s", os_last_error());
    os_file_close(&copy);
    return error;
}

/* Reads the copy back and compares it with what the check of the original has counted. */
static fdb_error_t verify_copy(struct compaction *compaction) {
    struct check_summary original = compaction->summary;
    compaction->summary = (struct check_summary){0};
    fdb_error_t error = check_base(&compaction->check, COPY_NAME);
    if (error)
        return error;
    struct check_summary *copy = &compaction->summary;
    bool same = copy->rows == original.rows && copy->base_version_known && copy->base_version == original.base_version;
    if (copy->damages || !same)
        return check_refuse(&compaction->check, ERROR_DATABASE_DAMAGED, "the copy does not hold what the base does; the base was left as it is");
    *copy = original;
    return ERROR_SUCCESS;
}

static fdb_error_t replace_base(struct compaction *compaction) {
    struct check_path path;
    fdb_error_t error = check_join(&compaction->check, "base.keel", &path);
    if (error)
        return error;
    error = os_rename(compaction->copy_path.text, path.text);
    if (!error)
        error = os_directory_sync(compaction->check.path);
    return error ? check_refuse(&compaction->check, error, "%s", os_last_error()) : ERROR_SUCCESS;
}

static fdb_error_t compact(struct compaction *compaction, struct compact_summary *summary) {
    fdb_error_t error = check_join(&compaction->check, COPY_NAME, &compaction->copy_path);
    if (!error)
        error = check_contents(&compaction->check);
    if (!error && compaction->summary.damages)
        error = ERROR_DATABASE_DAMAGED;
    if (error)
        return error;
    summary->bytes_before = compaction->summary.base_bytes;
    summary->rows = compaction->summary.rows;
    error = make_copy(compaction, &summary->bytes_after);
    if (!error)
        error = verify_copy(compaction);
    if (!error)
        error = replace_base(compaction);
    if (error)
        (void)os_remove(compaction->copy_path.text);
    return error;
}

fdb_error_t engine_compact(const char *path, bool (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total), void *context,
                           struct compact_summary *summary, char **message) {
    struct compaction compaction = {.progress = progress, .context = context};
    compaction.callbacks = (struct check_callbacks){note_finding, progress ? pass_progress : NULL, &compaction};
    compaction.check = (struct check){.path = path, .callbacks = &compaction.callbacks, .summary = &compaction.summary, .message = message};
    struct compact_summary done = {0};
    struct os_file lock;
    bool lock_exists;
    *message = NULL;
    fdb_error_t error = check_look(&compaction.check, &lock_exists);
    if (!error && !lock_exists)
        return check_refuse(&compaction.check, ERROR_DATABASE_DAMAGED, "%s: lock.keel is missing; opening the database makes it again", path);
    if (!error)
        error = check_lock(&compaction.check, lock_exists, &lock);
    if (error)
        return error;
    error = compact(&compaction, &done);
    os_file_close(&lock);
    if (!error)
        *summary = done;
    return error;
}
