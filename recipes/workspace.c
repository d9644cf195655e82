/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: directories called current, new, previous and history below one that is given. All
 * data stays under the prefix it was written to; what changes is which name leads there.
 *
 *         new ──swap──► current ──swap──► previous  or  history/VERSION  or removed
 *                          ▲                 │                │
 *                          └────rollback─────┘                │
 *                          └────────────────restore───────────┘
 *
 * Invariants:
 *   1. Everything is looked up before the first rename, so that an answer (NOT_FOUND, a version
 *      that exists) leaves the transaction unchanged.
 *   2. At the end of each function there is at most one directory of each name; "rollback" is one
 *      that exists only inside keel_workspace_rollback.
 *
 * Failure: errors of the directory layer in the middle of renames are passed on; the transaction is
 * then not to be committed. Directories that are opened here are closed here.
 */
#include <keel/workspace.h>

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LARGE_ALLOC_FAILED = 1501, NAME_BYTES_MAX = KEEL_WORKSPACE_VERSION_BYTES_MAX + 1 };

static const keel_bytes CURRENT = {(const uint8_t *)"current", 7};
static const keel_bytes NEW = {(const uint8_t *)"new", 3};
static const keel_bytes PREVIOUS = {(const uint8_t *)"previous", 8};
static const keel_bytes HISTORY = {(const uint8_t *)"history", 7};
static const keel_bytes ROLLBACK = {(const uint8_t *)"rollback", 8};

/* ---- Paths ---- */

/* One name, or HISTORY and a version. It points into itself: not to be copied. */
struct place {
    keel_bytes names[2];
    keel_path path;
};

static keel_path place_of(struct place *place, keel_bytes name) {
    place->names[0] = name;
    place->path.names = place->names;
    place->path.count = 1;
    return place->path;
}

static keel_path place_in_history(struct place *place, const char *version) {
    place->names[0] = HISTORY;
    place->names[1] = keel_bytes_of_string(version);
    place->path.names = place->names;
    place->path.count = 2;
    return place->path;
}

static fdb_error_t exists(FDBTransaction *tr, const keel_directory *workspace, keel_bytes name,
                          int *found) {
    struct place place;
    return keel_directory_exists(tr, workspace, place_of(&place, name), found);
}

static fdb_error_t rename_to(FDBTransaction *tr, const keel_directory *workspace, keel_path from,
                             keel_path to) {
    keel_directory *moved = NULL;
    fdb_error_t error = keel_directory_move(tr, workspace, from, to, &moved);
    if (!error)
        keel_directory_close(moved);
    return error;
}

/* The subspace of an opened directory, which is closed. */
static fdb_error_t subspace_of(keel_directory *directory, keel_subspace *subspace) {
    fdb_error_t error = keel_directory_subspace(directory, subspace);
    keel_directory_close(directory);
    return error;
}

static fdb_error_t create_or_open(FDBTransaction *tr, const keel_directory *workspace,
                                  keel_bytes name, keel_subspace *subspace) {
    struct place place;
    keel_directory *directory = NULL;
    if (!tr || !workspace || !subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = keel_directory_create_or_open(tr, workspace, place_of(&place, name),
                                                      keel_bytes_of(NULL, 0), &directory);
    return error ? error : subspace_of(directory, subspace);
}

static fdb_error_t open_existing(FDBTransaction *tr, const keel_directory *workspace,
                                 keel_path path, keel_subspace *subspace) {
    keel_directory *directory = NULL;
    fdb_error_t error =
        keel_directory_open(tr, workspace, path, keel_bytes_of(NULL, 0), &directory);
    if (error == KEEL_ERROR_DIRECTORY_MISSING)
        return KEEL_ERROR_NOT_FOUND;
    return error ? error : subspace_of(directory, subspace);
}

/* ---- Versions ---- */

static fdb_error_t check_version(const char *version) {
    if (!version)
        return KEEL_ERROR_ARGUMENT;
    if (!*version)
        return KEEL_ERROR_EMPTY_NAME;
    return strlen(version) > KEEL_WORKSPACE_VERSION_BYTES_MAX ? KEEL_ERROR_ARGUMENT : 0;
}

static void time_now(char name[NAME_BYTES_MAX]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(name, NAME_BYTES_MAX, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(name + length, NAME_BYTES_MAX - length, ".%06ldZ", now.tv_nsec / 1000);
}

/* The name that a version gets in the history: the one given, which must be free, or the time. */
static fdb_error_t choose_version(FDBTransaction *tr, const keel_directory *workspace,
                                  const char *version, char name[NAME_BYTES_MAX]) {
    struct place place;
    int taken = 0;
    if (version)
        memcpy(name, version, strlen(version) + 1);
    else
        time_now(name);
    for (;;) {
        fdb_error_t error =
            keel_directory_exists(tr, workspace, place_in_history(&place, name), &taken);
        if (error || !taken)
            return error;
        if (version || strlen(name) + 1 >= NAME_BYTES_MAX)
            return KEEL_ERROR_DIRECTORY_EXISTS;
        strcat(name, "+");
    }
}

/* Renames current to a version, making the history if there is none yet. */
static fdb_error_t current_to_history(FDBTransaction *tr, const keel_directory *workspace,
                                      const char *name) {
    struct place from, to;
    keel_subspace unused;
    fdb_error_t error = create_or_open(tr, workspace, HISTORY, &unused);
    return error ? error
                 : rename_to(tr, workspace, place_of(&from, CURRENT), place_in_history(&to, name));
}

/* ---- Current and new ---- */

KEEL_EXPORT fdb_error_t keel_workspace_current(FDBTransaction *tr, const keel_directory *workspace,
                                               keel_subspace *current) {
    return create_or_open(tr, workspace, CURRENT, current);
}

KEEL_EXPORT fdb_error_t keel_workspace_new(FDBTransaction *tr, const keel_directory *workspace,
                                           keel_subspace *fresh) {
    return create_or_open(tr, workspace, NEW, fresh);
}

KEEL_EXPORT fdb_error_t keel_workspace_discard(FDBTransaction *tr,
                                               const keel_directory *workspace) {
    struct place place;
    if (!tr || !workspace)
        return KEEL_ERROR_ARGUMENT;
    return keel_directory_remove_if_exists(tr, workspace, place_of(&place, NEW), NULL);
}

/* Makes room where `current` is. */
static fdb_error_t put_away(FDBTransaction *tr, const keel_directory *workspace,
                            keel_workspace_keep keep, const char *name) {
    struct place from, to;
    if (keep == KEEL_WORKSPACE_HISTORY)
        return current_to_history(tr, workspace, name);
    if (keep == KEEL_WORKSPACE_DROP)
        return keel_directory_remove(tr, workspace, place_of(&from, CURRENT));
    fdb_error_t error =
        keel_directory_remove_if_exists(tr, workspace, place_of(&to, PREVIOUS), NULL);
    return error ? error
                 : rename_to(tr, workspace, place_of(&from, CURRENT), place_of(&to, PREVIOUS));
}

KEEL_EXPORT fdb_error_t keel_workspace_swap(FDBTransaction *tr, const keel_directory *workspace,
                                            keel_workspace_keep keep, const char *version) {
    char name[NAME_BYTES_MAX] = "";
    struct place from, to;
    int found_new = 0, found_current = 0;
    if (!tr || !workspace || keep < KEEL_WORKSPACE_DROP || keep > KEEL_WORKSPACE_HISTORY ||
        (version && keep != KEEL_WORKSPACE_HISTORY))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = version ? check_version(version) : 0;
    if (!error)
        error = exists(tr, workspace, NEW, &found_new);
    if (!error && !found_new)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = exists(tr, workspace, CURRENT, &found_current);
    if (!error && keep == KEEL_WORKSPACE_HISTORY)
        error = choose_version(tr, workspace, version, name);
    if (!error && found_current)
        error = put_away(tr, workspace, keep, name);
    if (!error)
        error = rename_to(tr, workspace, place_of(&from, NEW), place_of(&to, CURRENT));
    return error;
}

/* ---- Back to what was ---- */

KEEL_EXPORT fdb_error_t keel_workspace_previous(FDBTransaction *tr, const keel_directory *workspace,
                                                keel_subspace *previous) {
    struct place place;
    if (!tr || !workspace || !previous)
        return KEEL_ERROR_ARGUMENT;
    return open_existing(tr, workspace, place_of(&place, PREVIOUS), previous);
}

KEEL_EXPORT fdb_error_t keel_workspace_rollback(FDBTransaction *tr,
                                                const keel_directory *workspace) {
    struct place current, previous, aside;
    int found_previous = 0, found_current = 0;
    if (!tr || !workspace)
        return KEEL_ERROR_ARGUMENT;
    place_of(&current, CURRENT);
    place_of(&previous, PREVIOUS);
    place_of(&aside, ROLLBACK);
    fdb_error_t error = exists(tr, workspace, PREVIOUS, &found_previous);
    if (!error && !found_previous)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = exists(tr, workspace, CURRENT, &found_current);
    if (!error && found_current)
        error = rename_to(tr, workspace, current.path, aside.path);
    if (!error)
        error = rename_to(tr, workspace, previous.path, current.path);
    if (!error && found_current)
        error = rename_to(tr, workspace, aside.path, previous.path);
    return error;
}

KEEL_EXPORT fdb_error_t keel_workspace_version(FDBTransaction *tr, const keel_directory *workspace,
                                               const char *version, keel_subspace *subspace) {
    struct place place;
    if (!tr || !workspace || !subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_version(version);
    return error ? error
                 : open_existing(tr, workspace, place_in_history(&place, version), subspace);
}

KEEL_EXPORT fdb_error_t keel_workspace_history(FDBTransaction *tr, const keel_directory *workspace,
                                               keel_directory_visitor visit, void *context) {
    struct place place;
    if (!tr || !workspace || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error =
        keel_directory_list(tr, workspace, place_of(&place, HISTORY), visit, context);
    return error == KEEL_ERROR_DIRECTORY_MISSING ? 0 : error;
}

KEEL_EXPORT fdb_error_t keel_workspace_restore(FDBTransaction *tr, const keel_directory *workspace,
                                               const char *version,
                                               const char *version_of_current) {
    char name[NAME_BYTES_MAX] = "";
    struct place from, current;
    int found = 0, found_current = 0;
    if (!tr || !workspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_version(version);
    if (!error && version_of_current)
        error = check_version(version_of_current);
    if (!error)
        error = keel_directory_exists(tr, workspace, place_in_history(&from, version), &found);
    if (!error && !found)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = exists(tr, workspace, CURRENT, &found_current);
    if (!error && found_current)
        error = choose_version(tr, workspace, version_of_current, name);
    if (!error && found_current)
        error = current_to_history(tr, workspace, name);
    if (!error)
        error = rename_to(tr, workspace, from.path, place_of(&current, CURRENT));
    return error;
}

/* ---- Pruning ---- */

struct names {
    char **names;
    size_t count, capacity;
};

static fdb_error_t remember(void *context, keel_bytes name) {
    struct names *all = context;
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? all->capacity * 2 : 16;
        char **larger = realloc(all->names, capacity * sizeof *larger);
        if (!larger)
            return LARGE_ALLOC_FAILED;
        all->names = larger;
        all->capacity = capacity;
    }
    all->names[all->count] = strndup((const char *)name.data, name.length);
    return all->names[all->count] ? (all->count++, 0) : LARGE_ALLOC_FAILED;
}

KEEL_EXPORT fdb_error_t keel_workspace_prune(FDBTransaction *tr, const keel_directory *workspace,
                                             size_t keep, size_t *removed) {
    struct names all = {NULL, 0, 0};
    struct place place;
    size_t count = 0;
    fdb_error_t error = keel_workspace_history(tr, workspace, remember, &all);
    for (; !error && count + keep < all.count; count++)
        error = keel_directory_remove(tr, workspace, place_in_history(&place, all.names[count]));
    if (!error && removed)
        *removed = count;
    for (size_t i = 0; i < all.count; i++)
        free(all.names[i]);
    free(all.names);
    return error;
}
