/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a database. fdb_create_database succeeds whatever it is given; the error comes with
 * the first operation. So what a handle holds is a place: a struct database that stands in front of
 * the real one, opens it when first asked, and passes every call on.
 *
 *     unopened ── first operation ──► open (target set, for good) ── close ──► gone
 *        ▲              │
 *        └── it failed ─┘
 *
 * After a failure the next operation tries again: the other process may have left, the disk may
 * have room.
 *
 *   1. `target` is set once, under `lock`, and read without it.
 *   2. A target from a directory is counted in engines.c; one in memory, or a failure that never
 *      changes, belongs to its place alone.
 *
 * Threads: any; only opening takes a lock. Commits refused here are answered inside
 * database_commit.
 *
 * Failure: opening's errors are returned by every operation; the engine's message goes to the log
 * (log_line), since an error code cannot carry it.
 */
#include "api/place.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/engines.h"
#include "os/file.h"
#include "os/log_line.h"
#include "os/thread.h"
#include "util/memory.h"

struct place {
    struct database database;
    _Atomic(struct database *) target;
    fdb_error_t failure; /* not 0: what every operation says; nothing is ever opened */
    os_mutex lock;
    bool in_memory;
    char path[];
};

/* ---- What a path means ---- */

static bool exists(const char *path) {
    enum os_path_kind kind;
    return os_path_kind(path, &kind) == 0 && kind != OS_PATH_MISSING;
}

fdb_error_t place_choose(const char *path, char chosen[OS_PATH_BYTES_MAX]) {
    static const char *const usual[] = {"./fdb.cluster", "/etc/foundationdb/fdb.cluster"};
    if (!path || !*path)
        path = getenv("FDB_CLUSTER_FILE");
    for (size_t i = 0; (!path || !*path) && i < sizeof usual / sizeof *usual; i++)
        if (exists(usual[i]))
            path = usual[i];
    if (!path || !*path)
        path = "./keel.db";
    if (strcmp(path, ":memory:") == 0) {
        memcpy(chosen, path, strlen(path) + 1);
        return 0;
    }
    return os_path_absolute(path, chosen);
}

static bool ends_in_cluster(const char *path) {
    static const char suffix[] = ".cluster";
    size_t length = strlen(path);
    return length >= sizeof suffix - 1 && strcmp(path + length - (sizeof suffix - 1), suffix) == 0;
}

/* ---- Connection strings ---- */

/* Copies `text` without comments and white space; false if it does not fit. */
static bool strip(const char *text, size_t length, char *bare, size_t capacity) {
    size_t count = 0;
    bool comment = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '#')
            comment = text[i] == '#';
        if (comment || isspace((unsigned char)text[i]))
            continue;
        if (text[i] == '\0' || count + 1 >= capacity)
            return false;
        bare[count++] = text[i];
    }
    bare[count] = '\0';
    return true;
}

static bool is_word(const char *from, const char *to, const char *also) {
    for (; from < to; from++)
        if (!isalnum((unsigned char)*from) && !strchr(also, *from))
            return false;
    return true;
}

/* host:port, [ipv6]:port, each with an optional :tls. */
static bool is_address(const char *from, const char *to) {
    if (to - from > 4 && memcmp(to - 4, ":tls", 4) == 0)
        to -= 4;
    const char *colon = to;
    while (colon > from && colon[-1] != ':')
        colon--;
    if (colon <= from + 1 || colon == to || to - colon > 5)
        return false;
    long port = 0;
    for (const char *digit = colon; digit < to; digit++) {
        if (!isdigit((unsigned char)*digit))
            return false;
        port = port * 10 + (*digit - '0');
    }
    const char *host_end = colon - 1;
    bool host;
    if (*from == '[')
        host = host_end - from > 2 && host_end[-1] == ']' && is_word(from + 1, host_end - 1, ":.");
    else
        host = is_word(from, host_end, "-._");
    return host && port >= 1 && port <= 65535;
}

bool place_is_connection_string(const char *text, size_t length) {
    char bare[8192];
    if (!strip(text, length, bare, sizeof bare))
        return false;
    const char *at = strchr(bare, '@'), *colon = strchr(bare, ':');
    if (!at || !colon || colon > at || !is_word(bare, colon, "_") || !is_word(colon + 1, at, ""))
        return false;
    for (const char *address = at + 1;;) {
        const char *end = strchr(address, ',');
        const char *stop = end ? end : address + strlen(address);
        if (!is_address(address, stop))
            return false;
        if (!end)
            return true;
        address = end + 1;
    }
}

static fdb_error_t cluster_file_error(const char *path) {
    char text[8192];
    size_t length;
    fdb_error_t error = os_path_read(path, text, sizeof text, &length);
    if (error)
        return error == ERROR_FILE_NOT_FOUND ? ERROR_NO_CLUSTER_FILE_FOUND : error;
    bool valid = place_is_connection_string(text, length);
    return valid ? ERROR_CLUSTER_UNSUPPORTED : ERROR_CONNECTION_STRING_INVALID;
}

/* ---- Opening ---- */

/* Why a path that is no directory cannot be opened. */
static fdb_error_t refuse(struct place *place, fdb_error_t error, const char *detail) {
    log_line("cannot open %s: %s%s%s", place->path, error_text(error), *detail ? ": " : "", detail);
    return error;
}

static fdb_error_t open_now(struct place *place, struct database **target) {
    if (place->failure)
        return place->failure;
    if (place->in_memory)
        return engines_open_memory(target);
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(place->path, &kind);
    if (error)
        return refuse(place, error, os_last_error());
    if (kind == OS_PATH_MISSING && ends_in_cluster(place->path))
        return refuse(place, ERROR_NO_CLUSTER_FILE_FOUND, "");
    if (kind == OS_PATH_FILE || kind == OS_PATH_OTHER)
        return refuse(place, cluster_file_error(place->path), "");
    return engines_open(place->path, target);
}

static fdb_error_t open_locked(struct place *place, struct database **target) {
    os_mutex_lock(&place->lock);
    struct database *opened = atomic_load(&place->target);
    fdb_error_t error = opened ? 0 : open_now(place, &opened);
    if (!error) {
        atomic_store(&place->target, opened);
        *target = opened;
    }
    os_mutex_unlock(&place->lock);
    return error;
}

static inline struct database *peek(struct database *database) {
    return atomic_load_explicit(&((struct place *)database)->target, memory_order_acquire);
}

static inline fdb_error_t reach(struct database *database, struct database **target) {
    *target = peek(database);
    return *target ? 0 : open_locked((struct place *)database, target);
}

/* ---- The database interface, passed on ---- */

static void close_place(struct database *database) {
    struct place *place = (struct place *)database;
    struct database *target = peek(database);
    if (target)
        engines_close(target);
    os_mutex_destroy(&place->lock);
    memory_free(place);
}

static fdb_error_t pass_get_read_version(struct database *database, int64_t *version) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_get_read_version(target, version);
}

static fdb_error_t pass_check_read_version(struct database *database, int64_t version) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_check_read_version(target, version);
}

static fdb_error_t pass_get(struct database *database, int64_t version, struct bytes key,
                            struct arena *arena, struct bytes *value, bool *present) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_get(target, version, key, arena, value, present);
}

static fdb_error_t pass_get_range(struct database *database, const struct range_request *request,
                                  struct rows *rows, bool *more) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_get_range(target, request, rows, more);
}

static void pass_commit(struct database *database, struct commit_request *request) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    if (error)
        request->complete(request, error);
    else
        database_commit(target, request);
}

static bool pass_drive(struct database *database, uint64_t ticket) {
    struct database *target = peek(database);
    return target && database_drive(target, ticket);
}

static void pass_hurry(struct database *database) {
    struct database *target = peek(database);
    if (target)
        database_hurry(target);
}

static fdb_error_t pass_watch(struct database *database, struct watch *watch) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_watch(target, watch);
}

static bool pass_unwatch(struct database *database, struct watch *watch) {
    struct database *target = peek(database);
    return target && database_unwatch(target, watch);
}

static fdb_error_t pass_estimate_bytes(struct database *database, struct bytes begin,
                                       struct bytes end, int64_t *bytes) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_estimate_bytes(target, begin, end, bytes);
}

static fdb_error_t pass_pin(struct database *database, int64_t version, struct database **pinned) {
    struct database *target;
    fdb_error_t error = reach(database, &target);
    return error ? error : database_pin(target, version, pinned);
}

static void pass_status(struct database *database, struct database_status *status) {
    struct place *place = (struct place *)database;
    struct database *target = peek(database);
    if (target) {
        database_get_status(target, status);
        return;
    }
    memset(status, 0, sizeof *status);
    size_t length = strlen(place->path);
    if (length > sizeof status->path - 1)
        length = sizeof status->path - 1;
    memcpy(status->path, place->path, length);
}

static const struct database_methods methods = {
    .close = close_place,
    .get_read_version = pass_get_read_version,
    .check_read_version = pass_check_read_version,
    .get = pass_get,
    .get_range = pass_get_range,
    .commit = pass_commit,
    .drive = pass_drive,
    .hurry = pass_hurry,
    .watch = pass_watch,
    .unwatch = pass_unwatch,
    .estimate_bytes = pass_estimate_bytes,
    .pin = pass_pin,
    .status = pass_status,
};

static struct database *create(const char *path, fdb_error_t failure) {
    size_t length = strlen(path) + 1;
    struct place *place = memory_allocate_zeroed(sizeof *place + length);
    if (!place)
        return NULL;
    place->database.methods = &methods;
    place->failure = failure;
    place->in_memory = strcmp(path, ":memory:") == 0;
    os_mutex_init(&place->lock);
    memcpy(place->path, path, length);
    return &place->database;
}

struct database *place_create(const char *path) {
    return create(path, 0);
}

struct database *place_create_failed(fdb_error_t error) {
    return create("", error);
}
