/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a database. fdb_create_database succeeds whatever it is given; the error comes with
 * the first operation. So what a handle holds is a place: a struct database that stands in front of
 * the real one, opens it when first asked, and passes every call on.
 *
 *     unopened ── first operation ──┬─► open (target set, for good) ── close ──► gone
 *        ▲              │           │        ▲ this process has taken over
 *        │              │           ├─► joined (entry set, no target)
 *        └── it failed ─┘           └─► a cluster (official set, for good, no target)
 *
 * After a failure the next operation tries again: the disk may have room. While another process has
 * the database, new transactions are joined ones (place_is_elsewhere), which do not come through
 * here; one that was made while opening failed says DATABASE_IN_USE. Likewise all of a cluster is the
 * official library's, but for a transaction made while that was missing, which says so.
 *
 *   1. `target` is set once, under `lock`, and read without it; so are `entry` and `official`.
 *   2. An entry is counted in engines.c; a database in memory belongs to its place alone.
 *
 * Threads: any; only opening takes a lock. Commits refused here are answered inside
 * database_commit.
 *
 * Failure: opening's errors are returned by every operation; the engine's message goes to the log
 * (log_line), since an error code cannot carry it.
 */
#include "api/export.h"

#include "api/place.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engines.h"
#include "cluster/database.h"
#include "cluster/functions.h"
#include "os/file.h"
#include "os/log_line.h"
#include "os/thread.h"
#include "util/memory.h"

/* An option of the database, for a cluster or a joined owner. */
struct place_option {
    struct place_option *next;
    int option;
    bool matters_to_owner;
    bool given;
    int length;
    uint8_t value[];
};

struct place {
    struct database database;
    _Atomic(struct database *) target;
    struct engine_entry *entry; /* of a directory */
    _Atomic(struct remote_database *) joined; /* while, and after, another process has it */
    _Atomic(FDBDatabase *) official; /* of a cluster */
    struct place_option *options; /* oldest first */
    fdb_error_t failure; /* not 0: what every operation says; nothing is ever opened */
    os_mutex lock;
    bool in_memory;
    bool is_connection; /* `path` is a connection string */
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

/* keel:id@host:port, of a server of ours; the id is its secret. False: another cluster's. */
static bool is_keel_address(const char *bare, struct engine_address *address) {
    const char *at = strchr(bare, '@'), *colon = strrchr(bare, ':');
    if (strncmp(bare, "keel:", 5) != 0 || !at || !colon || colon < at || strchr(at, ','))
        return false;
    const char *host = at + 1, *host_end = colon;
    if (*host == '[' && host_end[-1] == ']') {
        host++;
        host_end--;
    }
    size_t secret_length = (size_t)(at - bare) - 5, host_length = (size_t)(host_end - host);
    if (secret_length == 0 || secret_length >= sizeof address->secret || host_length >= sizeof address->host || strlen(colon + 1) >= sizeof address->port)
        return false;
    memset(address, 0, sizeof *address);
    memcpy(address->secret, bare + 5, secret_length);
    memcpy(address->host, host, host_length);
    memcpy(address->port, colon + 1, strlen(colon + 1));
    snprintf(address->name, sizeof address->name, "%s", at + 1);
    return true;
}

/* ---- Clusters ---- */

static void replay_options(struct place *place, FDBDatabase *official) {
    for (struct place_option *option = place->options; option; option = option->next) {
        fdb_error_t error = cluster_official.database_set_option(official, (FDBDatabaseOption)option->option,
                                                                 option->given ? option->value : NULL, option->length);
        if (error)
            log_line("%s: database option %d: %s (%d)", place->path, option->option, error_text(error), error);
    }
}

/* Leaves the official library's database in the place. REQUIRES: the lock. */
static fdb_error_t open_cluster(struct place *place) {
    FDBDatabase *official;
    fdb_error_t error = place->is_connection ? cluster_open_connection(place->path, &official)
                                             : cluster_open_file(place->path, &official);
    if (error)
        return error;
    replay_options(place, official);
    atomic_store(&place->official, official);
    return 0;
}

/* Opens what a connection string leads to: an entry for a server of ours, else a cluster. REQUIRES: the lock. */
static fdb_error_t open_connection(struct place *place, const char *text, size_t length) {
    char bare[8192];
    struct engine_address address;
    if (!place_is_connection_string(text, length) || !strip(text, length, bare, sizeof bare))
        return ERROR_CONNECTION_STRING_INVALID;
    if (is_keel_address(bare, &address))
        return engines_open_address(&address, &place->entry);
    return open_cluster(place);
}

static fdb_error_t open_cluster_file(struct place *place) {
    char text[8192];
    size_t length;
    fdb_error_t error = os_path_read(place->path, text, sizeof text, &length);
    if (error)
        return error == ERROR_FILE_NOT_FOUND ? ERROR_NO_CLUSTER_FILE_FOUND : error;
    return open_connection(place, text, length);
}

/* ---- Opening ---- */

/* Why a path that is no directory cannot be opened. */
static fdb_error_t refuse(struct place *place, fdb_error_t error, const char *detail) {
    log_line("cannot open %s: %s%s%s", place->path, error_text(error), *detail ? ": " : "", detail);
    return error;
}

/* Opens what is at the path, if that can be a database of ours. */
static fdb_error_t open_directory(struct place *place) {
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(place->path, &kind);
    if (error)
        return refuse(place, error, os_last_error());
    if (kind == OS_PATH_MISSING && ends_in_cluster(place->path))
        return refuse(place, ERROR_NO_CLUSTER_FILE_FOUND, "");
    if (kind == OS_PATH_FILE || kind == OS_PATH_OTHER) {
        error = open_cluster_file(place);
        return error ? refuse(place, error, "") : 0;
    }
    return engines_open(place->path, &place->entry);
}

/* Opens whatever it is: an entry or a cluster is there then. REQUIRES: the lock; neither is. */
static fdb_error_t open_entry(struct place *place) {
    return place->is_connection ? open_connection(place, place->path, strlen(place->path)) : open_directory(place);
}

/* What a transaction that was made here needs, which one on a cluster was only while there was no library. */
static fdb_error_t open_now(struct place *place, struct database **target) {
    if (place->failure)
        return place->failure;
    if (place->in_memory)
        return engines_open_memory(target);
    bool is_open = place->entry || atomic_load(&place->official);
    fdb_error_t error = is_open ? 0 : open_entry(place);
    if (error)
        return error;
    if (!place->entry)
        return ERROR_CLUSTER_LIBRARY_MISSING;
    *target = engines_database(place->entry);
    return *target ? 0 : ERROR_DATABASE_IN_USE;
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

/* ---- Joined ---- */

/* REQUIRES: the lock; the entry is open and another process has the database. */
static struct remote_database *make_joined(struct place *place) {
    struct remote_database *joined =
        remote_database_open(engines_client(place->entry), place->path, PLACE_CONNECTION_EMBEDDED);
    for (struct place_option *option = place->options; option && joined; option = option->next)
        if (option->matters_to_owner)
            remote_database_set_option(joined, option->option, option->given ? option->value : NULL, option->length);
    atomic_store(&place->joined, joined);
    return joined;
}

bool place_is_elsewhere(struct database *database, struct place_elsewhere *elsewhere) {
    struct place *place = (struct place *)database;
    if (peek(database) || place->failure)
        return false;
    *elsewhere = (struct place_elsewhere){NULL, atomic_load(&place->official)};
    if (elsewhere->official)
        return true;
    struct database *target;
    fdb_error_t error = open_locked(place, &target);
    if (error == ERROR_DATABASE_IN_USE) {
        os_mutex_lock(&place->lock);
        elsewhere->joined = atomic_load(&place->joined);
        if (!elsewhere->joined)
            elsewhere->joined = make_joined(place);
        os_mutex_unlock(&place->lock);
    }
    elsewhere->official = atomic_load(&place->official);
    return elsewhere->joined || elsewhere->official;
}

/* Whether the place is a file or a connection string, which may lead to a cluster; without opening anything. */
static fdb_error_t look(struct place *place, bool *may_be) {
    enum os_path_kind kind = OS_PATH_FILE;
    fdb_error_t error = place->is_connection ? 0 : os_path_kind(place->path, &kind);
    if (!error && kind == OS_PATH_MISSING && ends_in_cluster(place->path))
        error = ERROR_NO_CLUSTER_FILE_FOUND;
    *may_be = kind == OS_PATH_FILE || kind == OS_PATH_OTHER;
    return error;
}

fdb_error_t place_official(struct database *database, FDBDatabase **official) {
    struct place *place = (struct place *)database;
    *official = atomic_load(&place->official);
    if (*official || peek(database) || place->in_memory)
        return 0;
    if (place->failure)
        return place->failure;
    bool may_be;
    fdb_error_t error = look(place, &may_be);
    if (error || !may_be)
        return error;
    os_mutex_lock(&place->lock);
    if (!place->entry && !atomic_load(&place->official))
        error = open_entry(place);
    os_mutex_unlock(&place->lock);
    *official = atomic_load(&place->official);
    return error;
}

/* ---- Options ---- */

void place_set_option(struct database *database, int number, const uint8_t *value, int length, bool matters_to_owner) {
    struct place *place = (struct place *)database;
    if (place->in_memory || place->failure || peek(database))
        return;
    struct place_option *option = memory_allocate(sizeof *option + (size_t)length);
    if (!option)
        return;
    *option = (struct place_option){
        .option = number, .matters_to_owner = matters_to_owner, .given = value != NULL, .length = length};
    if (length)
        memcpy(option->value, value, (size_t)length);
    os_mutex_lock(&place->lock);
    struct place_option **last = &place->options;
    while (*last)
        last = &(*last)->next;
    *last = option;
    struct remote_database *joined = atomic_load(&place->joined);
    if (joined && matters_to_owner)
        remote_database_set_option(joined, number, value, length);
    os_mutex_unlock(&place->lock);
}

/* ---- The database interface, passed on ---- */

static void close_place(struct database *database) {
    struct place *place = (struct place *)database;
    struct database *target = peek(database);
    struct remote_database *joined = atomic_load(&place->joined);
    if (joined)
        remote_database_close(joined);
    if (place->entry)
        engines_close(place->entry);
    else if (target)
        engines_close_memory(target);
    if (atomic_load(&place->official))
        cluster_official.database_destroy(atomic_load(&place->official));
    while (place->options) {
        struct place_option *option = place->options;
        place->options = option->next;
        memory_free(option);
    }
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

struct database *place_create_connection(const char *connection_string) {
    struct database *database = create(connection_string, 0);
    if (database) {
        ((struct place *)database)->is_connection = true;
        ((struct place *)database)->in_memory = false;
    }
    return database;
}

struct database *place_create_failed(fdb_error_t error) {
    return create("", error);
}
