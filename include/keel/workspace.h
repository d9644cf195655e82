/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: data that is built aside and then replaced as a whole, in one moment.
 *
 *     keel_directory *catalog;                 a directory of its own, opened by the program
 *     keel_subspace new_items;
 *
 *     in as many transactions as it takes:
 *         error = keel_workspace_new(tr, catalog, &new_items);
 *         ... write under new_items ...
 *     in one:
 *         error = keel_workspace_swap(tr, catalog, KEEL_WORKSPACE_PREVIOUS, NULL);
 *
 * Directories below the one given:
 *
 *     current               what readers use
 *     new                   what is being built
 *     previous              what was current before, if it is kept
 *     history, VERSION      all that was current before, if that is kept
 *
 * A swap renames: it costs the same for any amount of data. Readers ask for `current` in each
 * transaction and see all of the old or all of the new; a subspace must not be kept from one
 * transaction to the next, since after a swap it is somebody else's, or nobody's.
 *
 * Versions are names, at most 255 bytes of UTF-8; where NULL is allowed, the time is taken:
 * "2026-11-15T22:39:12.000000Z", with "+" behind it while that name is taken. Names are listed in
 * their byte order, which for these is the order of time.
 *
 * Errors. NOT_FOUND where there is nothing to swap in, to go back to or to open; EMPTY_NAME for the
 * name "", ARGUMENT for one that is too long and for NULL where something is needed, NOT_UTF8;
 * DIRECTORY_EXISTS if the history has the version already. In these cases nothing was written.
 * Those of keel/directory.h and of the database come back as they are; after them do not commit.
 *
 * Conflicts. Asking for current conflicts with swaps only, so a transaction that reads and then
 * writes elsewhere never relies on data that was replaced meanwhile.
 *
 * Nothing here commits. Threads: as the transaction.
 */
#ifndef KEEL_WORKSPACE_H
#define KEEL_WORKSPACE_H

#include <keel/directory.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_WORKSPACE_VERSION_BYTES_MAX = 255 };

/* What becomes of the data that was current. */
typedef enum keel_workspace_keep {
    KEEL_WORKSPACE_DROP,     /* removed at once */
    KEEL_WORKSPACE_PREVIOUS, /* kept as `previous`, in place of the one that was kept before */
    KEEL_WORKSPACE_HISTORY   /* kept in the history */
} keel_workspace_keep;

/* Where the current data is; empty if there never was any. */
fdb_error_t keel_workspace_current(FDBTransaction *tr, const keel_directory *workspace,
                                   keel_subspace *current);

/* Where the next data is built, with all that was written there since the last swap. */
fdb_error_t keel_workspace_new(FDBTransaction *tr, const keel_directory *workspace,
                               keel_subspace *fresh);

/* Removes what was built. No error if there is nothing. */
fdb_error_t keel_workspace_discard(FDBTransaction *tr, const keel_directory *workspace);

/*
 * Makes the new data current. `version` names what was current in the history; NULL for the time,
 * and NULL (ARGUMENT otherwise) where the history is not asked for. NOT_FOUND without new data.
 */
fdb_error_t keel_workspace_swap(FDBTransaction *tr, const keel_directory *workspace,
                                keel_workspace_keep keep, const char *version);

/* ---- Back to what was ---- */

/* NOT_FOUND if none was kept. */
fdb_error_t keel_workspace_previous(FDBTransaction *tr, const keel_directory *workspace,
                                    keel_subspace *previous);

/* Exchanges current and previous, so that a second rollback undoes the first. NOT_FOUND. */
fdb_error_t keel_workspace_rollback(FDBTransaction *tr, const keel_directory *workspace);

/* One version of the history. NOT_FOUND. */
fdb_error_t keel_workspace_version(FDBTransaction *tr, const keel_directory *workspace,
                                   const char *version, keel_subspace *subspace);

/* The names of all versions in the history, in order. What `visit` returns, if not 0, ends it. */
fdb_error_t keel_workspace_history(FDBTransaction *tr, const keel_directory *workspace,
                                   keel_directory_visitor visit, void *context);

/*
 * Takes a version out of the history and makes it current; what was current goes into the history
 * as `version_of_current` (NULL: the time). NOT_FOUND.
 */
fdb_error_t keel_workspace_restore(FDBTransaction *tr, const keel_directory *workspace,
                                   const char *version, const char *version_of_current);

/* Removes the first versions of the history until at most `keep` are left; *removed (may be NULL)
   is how many. */
fdb_error_t keel_workspace_prune(FDBTransaction *tr, const keel_directory *workspace, size_t keep,
                                 size_t *removed);

#ifdef __cplusplus
}
#endif

#endif
