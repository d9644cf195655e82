/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the check share: check.c (the directory, and the order), check_log.c, check_base.c (pages), check_rows.c (rows). */
#ifndef KEEL_ENGINE_CHECK_INTERNAL_H
#define KEEL_ENGINE_CHECK_INTERNAL_H

#include "engine/check.h"
#include "os/file.h"

enum { CHECK_PATH_BYTES = 4400, PROGRESS_BYTES = 1 << 20 };

struct check {
    const char *path;
    const struct check_callbacks *callbacks;
    struct check_summary *summary;
    char **message;
    uint64_t bytes_done, bytes_total, bytes_told;
};

/* Where a finding is. */
struct check_place {
    const char *file;
    int64_t offset;          /* -1: none */
    const struct bytes *key; /* NULL: none */
};

/* Everything but the lock, whose presence *lock_exists tells; and the lock, held while *lock is open (descriptor -1: there is none). */
fdb_error_t check_look(struct check *check, bool *lock_exists);
fdb_error_t check_lock(struct check *check, bool lock_exists, struct os_file *lock);
fdb_error_t check_contents(struct check *check);

/* Reports one finding; the last arguments make `what`. */
void check_report(struct check *check, enum check_severity severity, const char *kind, struct check_place place, const char *consequence,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Leaves a message about why the check cannot go on, and passes the error on. */
fdb_error_t check_refuse(struct check *check, fdb_error_t error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* So many bytes more were looked at: OPERATION_CANCELLED if the caller wants no more. */
fdb_error_t check_advance(struct check *check, uint64_t bytes);

/* The database's directory, a slash, and a name. */
struct check_path {
    char text[CHECK_PATH_BYTES];
};
fdb_error_t check_join(struct check *check, const char *name, struct check_path *path);

/* Looks at all of base.keel, or of another file of that kind in the directory. */
fdb_error_t check_base(struct check *check, const char *name);

/* Looks at the log, knowing the base's version; `ceiling` is the lease's, or INT64_MAX. */
fdb_error_t check_log(struct check *check, int64_t ceiling);

/* ---- check_rows.c: what the entries of LMDB's main tree say, in key order ---- */

struct subtree_link {
    uint64_t number; /* a sub-tree */
    uint64_t parent; /* where the entry lies that names it: a sub-tree, or 0 for the root */
};

struct rows_check {
    struct check *check;
    const char *file;
    bool seen_record;
    uint64_t subtree_next;
    struct subtree_link *links; /* as entries name them */
    size_t link_count, link_capacity;
    uint64_t *present; /* sub-trees that have entries, ascending */
    size_t present_count, present_capacity;
};

/* One entry at an offset of the file. REQUIRES: keys ascend; 1 <= key.length <= 511. LARGE_ALLOC_FAILED, FORMAT_NEWER, FORMAT_OLDER. */
fdb_error_t rows_check_entry(struct rows_check *rows, uint64_t offset, struct bytes key, struct bytes value);

/* After the last entry; frees what was taken. `complete`: no page was skipped, so that what is missing is missing. */
void rows_check_finish(struct rows_check *rows, bool complete);

#endif
