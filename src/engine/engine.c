/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing an embedded database, and its table of methods.
 *
 * A database directory holds
 *
 *     lock.keel     locked by the process that has the database open
 *     keel.sock     where that process serves others (api/engines.c)
 *     base.keel …   the base (base_lmdb.c)
 *     log/          the log (log.c)
 *     clock.keel    format, identity and the lease on versions (lease.c); made last, so its presence says that the rest is complete
 *
 * Recovery is opening: the base tells its version, newer log records are replayed into the window, and the clock starts above every version ever handed
 * out. What was replayed lies below that start, hence below the horizon, so the checkpoint moves it to the base at once, in the background.
 *
 * A directory without clock.keel is taken over only if it is empty or holds nothing but our own file names (a creation that was interrupted:
 * whatever base and log hold is kept). Anything else is somebody's directory and is left untouched.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine_internal.h"
#include "os/clock.h"
#include "util/memory.h"

/* Leaves a text for people in *message, if nobody did before. */
__attribute__((format(printf, 2, 3))) static void explain(char **message, const char *format, ...) {
    if (*message)
        return;
    char text[5000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *copy = memory_allocate(strlen(text) + 1);
    if (copy)
        *message = strcpy(copy, text);
}

/* --- Settings --- */

static fdb_error_t read_number(const char *name, uint64_t low, uint64_t high, uint64_t *number, char **message) {
    const char *text = getenv(name);
    if (!text || !*text)
        return ERROR_SUCCESS;
    char *end;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (*end || *text == '-' || parsed < low || parsed > high) {
        explain(message, "%s=%s: expected a number from %llu to %llu", name, text, (unsigned long long)low,
                (unsigned long long)high);
        return ERROR_INVALID_OPTION_VALUE_ENVIRONMENT;
    }
    *number = parsed;
    return ERROR_SUCCESS;
}

static fdb_error_t read_durability(bool *durable, char **message) {
    const char *text = getenv("KEEL_DURABILITY");
    if (!text || !*text || strcmp(text, "sync") == 0)
        return ERROR_SUCCESS;
    if (strcmp(text, "none") != 0) {
        explain(message, "KEEL_DURABILITY=%s: expected sync or none", text);
        return ERROR_INVALID_OPTION_VALUE_ENVIRONMENT;
    }
    *durable = false;
    return ERROR_SUCCESS;
}

fdb_error_t engine_default_options(struct engine_options *options, char **message) {
    uint64_t window = 512ull << 20, segment = 16ull << 20, lifetime_ms = 5000;
    bool durable = true;
    fdb_error_t error = read_number("KEEL_WINDOW_BYTES", 1 << 20, 1ull << 40, &window, message);
    if (!error)
        error = read_number("KEEL_SEGMENT_BYTES", 64 << 10, 1ull << 30, &segment, message);
    if (!error)
        error = read_number("KEEL_LIFETIME_MS", 100, 3600000, &lifetime_ms, message);
    if (!error)
        error = read_durability(&durable, message);
    if (error)
        return error;
    *options = (struct engine_options){
        .window_bytes_max = window,
        .segment_bytes = segment,
        .lifetime_us = (int64_t)lifetime_ms * 1000,
        .generation_us = (int64_t)lifetime_ms * 1000 / 4,
        .generation_bytes = window / 8,
        .base_pages_max = window / 65536,
        .durable = durable,
    };
    return ERROR_SUCCESS;
}

/* --- The directory --- */

static fdb_error_t join(const char *directory, const char *name, char path[4200], char **message) {
    if (snprintf(path, 4200, "%s/%s", directory, name) < 4200)
        return ERROR_SUCCESS;
    explain(message, "%s: the path is too long", directory);
    return ERROR_IO_ERROR;
}

struct directory_contents {
    bool lease, base, log, foreign;
    char foreign_name[256];
};

static fdb_error_t note_entry(void *context, const char *name) {
    struct directory_contents *contents = context;
    if (strcmp(name, "clock.keel") == 0)
        contents->lease = true;
    else if (strcmp(name, "base.keel") == 0)
        contents->base = true;
    else if (strcmp(name, "log") == 0)
        contents->log = true;
    else if (strcmp(name, "lock.keel") != 0 && strcmp(name, "clock.keel.new") != 0 && strcmp(name, "keel.sock") != 0 &&
             strncmp(name, "base.keel", 9) != 0) {
        contents->foreign = true;
        snprintf(contents->foreign_name, sizeof contents->foreign_name, "%s", name);
    }
    return ERROR_SUCCESS;
}

/* Looks before anything is touched: a fresh place, a database, or somebody else's directory. */
static fdb_error_t inspect(const char *path, struct directory_contents *contents, char **message) {
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(path, &kind);
    if (!error && kind == OS_PATH_MISSING)
        error = os_directory_create(path);
    else if (!error && kind != OS_PATH_DIRECTORY)
        error = ERROR_FORMAT_FOREIGN;
    if (!error)
        error = os_directory_list(path, note_entry, contents);
    if (error == ERROR_FORMAT_FOREIGN)
        explain(message, "%s is not a directory; a Keel database is one", path);
    else if (error)
        explain(message, "%s: %s", path, os_last_error());
    else if (!contents->lease && contents->foreign) {
        explain(message, "%s holds %s and is not a Keel database; it was left untouched", path, contents->foreign_name);
        error = ERROR_FORMAT_FOREIGN;
    } else if (contents->lease && !contents->base) {
        explain(message, "%s: the base (base.keel) is missing", path);
        error = ERROR_DATABASE_DAMAGED;
    } else if (contents->lease && !contents->log) {
        explain(message, "%s: the log directory (log/) is missing", path);
        error = ERROR_DATABASE_DAMAGED;
    }
    return error;
}

static fdb_error_t take_lock(struct engine *engine, char **message) {
    char path[4200];
    fdb_error_t error = join(engine->path, "lock.keel", path, message);
    if (!error)
        error = os_file_open(path, true, &engine->lock_file);
    if (error) {
        explain(message, "%s: %s", path, os_last_error());
        return error;
    }
    error = os_file_lock(&engine->lock_file);
    if (error) {
        explain(message, "%s is open in another process", engine->path);
        os_file_close(&engine->lock_file);
    }
    return error;
}

/* --- Recovery --- */

struct recovery {
    struct engine *engine;
    int64_t last_version;
    bool base_full; /* there was no room to move anything to the base */
};

/*
 * A log that is longer than the window may be large (it was written under other settings, or while the base found no room) goes to the base as it is
 * replayed: nobody reads yet. Where the disk is full it has to fit into memory. Called before a record is applied: that it was written shows that
 * those before it are durable, which the last one need not be (log_recovery.c).
 */
static fdb_error_t make_room(struct recovery *recovery) {
    struct engine *engine = recovery->engine;
    if (recovery->base_full || window_bytes(engine->window) <= engine->options.window_bytes_max)
        return ERROR_SUCCESS;
    fdb_error_t error = window_rotate(engine->window);
    if (!error)
        error = checkpoint_run(engine, INT64_MAX);
    recovery->base_full = error == ERROR_DISK_FULL;
    return recovery->base_full ? ERROR_SUCCESS : error;
}

static fdb_error_t replay(void *context, int64_t version, struct bytes payload) {
    struct recovery *recovery = context;
    struct window *window = recovery->engine->window;
    struct change change;
    size_t offset = 0;
    fdb_error_t error = make_room(recovery);
    if (error)
        return error;
    while (batch_next(payload, &offset, &change, &error)) {
        error = window_reserve(window, &change, 1);
        if (error)
            return error;
        window_apply(window, version, &change, 1);
    }
    recovery->last_version = version;
    if (error)
        return error;
    checkpoint_rotate_if_due(recovery->engine);
    return ERROR_SUCCESS;
}

/* Finds the version to start at and leases what lies above it. */
static fdb_error_t open_lease(struct engine *engine, bool exists, int64_t last_version, char **message) {
    char path[4200];
    fdb_error_t error = join(engine->path, "clock.keel", path, message);
    if (error)
        return error;
    int64_t leased = LEASE_VERSIONS; /* small versions are old ones, also in a new database */
    if (exists) /* the lease was opened and checked before anything else */
        leased = engine->lease.ceiling + (engine->lease.one_slot_lost ? 2 * LEASE_VERSIONS : 0);
    last_version = leased > last_version ? leased : last_version;
    int64_t start = last_version + 1;
    int64_t ceiling = start + LEASE_VERSIONS;
    error = exists ? lease_raise(&engine->lease, ceiling)
                   : lease_create(engine->path, path, ceiling, &engine->lease);
    if (!error && exists)
        error = os_directory_sync(engine->path); /* whoever made it may have been killed before its name was on disk */
    if (error) {
        explain(message, "%s: %s", path, os_last_error());
        return error;
    }
    version_clock_init(&engine->clock, start, ceiling, engine->options.lifetime_us);
    return ERROR_SUCCESS;
}

static fdb_error_t check_lease(struct engine *engine, char **message) {
    char path[4200];
    fdb_error_t error = join(engine->path, "clock.keel", path, message);
    if (!error)
        error = lease_open(path, &engine->lease);
    if (error)
        explain(message, "%s: %s", path, error_text(error));
    return error;
}

static fdb_error_t open_storage(struct engine *engine, bool exists, char **message) {
    struct base_options base_options = {.snapshots_max = READERS_MAX + DATABASE_PINS_MAX, .sync = engine->options.durable};
    fdb_error_t error = base_lmdb_open(engine->path, &base_options, &engine->base, message);
    if (error)
        return error;
    char log_path[4200];
    struct log_options log_options = {.segment_bytes = engine->options.segment_bytes, .sync = engine->options.durable};
    struct recovery recovery = {.engine = engine, .last_version = base_version(engine->base)};
    error = join(engine->path, "log", log_path, message);
    if (!error)
        error = log_open(log_path, &log_options, recovery.last_version, replay, &recovery, &engine->log, message);
    if (error)
        goto close_base;
    error = open_lease(engine, exists, recovery.last_version, message);
    if (error)
        goto close_log;
    return ERROR_SUCCESS;
close_log:
    log_close(engine->log);
close_base:
    base_close(engine->base);
    return error;
}

/* An empty file would be taken for a base that is still to be made. */
static fdb_error_t check_base(struct engine *engine, char **message) {
    char path[4200];
    struct os_file file;
    uint64_t size = 0;
    fdb_error_t error = join(engine->path, "base.keel", path, message);
    if (!error)
        error = os_file_open(path, false, &file);
    if (!error) {
        error = os_file_size(&file, &size);
        os_file_close(&file);
    }
    if (error) {
        explain(message, "%s: %s", path, os_last_error());
    } else if (size == 0) {
        explain(message, "%s: the base is empty", path);
        error = ERROR_DATABASE_DAMAGED;
    }
    return error;
}

/* Looks at what is there: the names, and the lease, which is then open. Changes nothing but making a missing directory. */
static fdb_error_t look(struct engine *engine, struct directory_contents *contents, char **message) {
    *contents = (struct directory_contents){0};
    fdb_error_t error = inspect(engine->path, contents, message);
    if (!error && contents->lease)
        error = check_base(engine, message);
    return !error && contents->lease ? check_lease(engine, message) : error;
}

/*
 * Looks twice: first so that somebody else's directory is not even locked, then under the lock, because until then another process may
 * have created the database, raised its lease and gone.
 */
static fdb_error_t open_directory(struct engine *engine, char **message) {
    struct directory_contents contents;
    fdb_error_t error = look(engine, &contents, message);
    if (error)
        return error;
    if (contents.lease)
        lease_close(&engine->lease);
    error = take_lock(engine, message);
    if (error)
        return error;
    error = look(engine, &contents, message);
    if (error)
        goto unlock;
    if (!contents.lease)
        error = os_directory_create(engine->path); /* whoever made it: its entry must outlive the commits */
    if (!error)
        error = open_storage(engine, contents.lease, message);
    if (!error)
        return ERROR_SUCCESS;
    if (contents.lease)
        lease_close(&engine->lease);
unlock:
    os_file_close(&engine->lock_file);
    return error;
}

static fdb_error_t open_memory(struct engine *engine) {
    struct base_options options = {.snapshots_max = READERS_MAX + DATABASE_PINS_MAX};
    fdb_error_t error = base_memory_open(&options, &engine->base);
    if (!error)
        version_clock_init(&engine->clock, 1 + LEASE_VERSIONS, INT64_MAX / 2, engine->options.lifetime_us);
    return error;
}

static void close_storage(struct engine *engine) {
    version_clock_destroy(&engine->clock);
    base_close(engine->base);
    if (engine->in_memory)
        return;
    log_close(engine->log);
    lease_close(&engine->lease);
    os_file_close(&engine->lock_file);
}

/* --- Threads --- */

static fdb_error_t start_threads(struct engine *engine) {
    fdb_error_t error = os_thread_start(&engine->committer_thread, "keel-commit", engine_committer, engine);
    if (error)
        return error;
    error = os_thread_start(&engine->checkpoint_thread, "keel-checkpoint", engine_checkpointer, engine);
    if (!error)
        return error;
    os_mutex_lock(&engine->pipeline.lock);
    engine->pipeline.stopping = true;
    os_condition_signal(&engine->pipeline.work);
    os_mutex_unlock(&engine->pipeline.lock);
    os_thread_join(engine->committer_thread);
    return error;
}

static void stop_threads(struct engine *engine) {
    os_mutex_lock(&engine->pipeline.lock);
    engine->pipeline.stopping = true;
    os_condition_signal(&engine->pipeline.work);
    os_mutex_unlock(&engine->pipeline.lock);
    os_thread_join(engine->committer_thread);
    os_mutex_lock(&engine->checkpoint_lock);
    engine->checkpoint_stopping = true;
    os_condition_signal(&engine->checkpoint_wake);
    os_mutex_unlock(&engine->checkpoint_lock);
    os_thread_join(engine->checkpoint_thread);
}

/* --- Open and close --- */

static void engine_close(struct database *database);
static void engine_status(struct database *database, struct database_status *status);

/* The pipeline has answered. */
static void answered(struct commit_request *request, fdb_error_t error) {
    latency_add(&engine_of(request->database)->commit_latency, os_clock_ns() - request->queued_ns);
    request->complete = request->answer;
    request->complete(request, error);
}

/* A commit, with a look at the clock before it and after it. */
static void measured_commit(struct database *database, struct commit_request *request) {
    request->database = database;
    request->queued_ns = os_clock_ns();
    request->answer = request->complete;
    request->complete = answered;
    engine_commit(database, request);
}

static const struct database_methods METHODS = {
    .close = engine_close,
    .get_read_version = engine_get_read_version,
    .check_read_version = engine_check_read_version,
    .get = engine_get,
    .get_range = engine_get_range,
    .commit = measured_commit,
    .drive = engine_drive,
    .hurry = engine_hurry,
    .watch = engine_watch,
    .unwatch = engine_unwatch,
    .estimate_bytes = engine_estimate_bytes,
    .pin = engine_pin,
    .status = engine_status,
};

static fdb_error_t create_parts(struct engine *engine) {
    fdb_error_t error = window_create(&engine->window);
    if (error)
        return error;
    error = resolver_create(&engine->resolver);
    if (error)
        goto destroy_window;
    error = watches_create(&engine->watches);
    if (error)
        goto destroy_resolver;
    pipeline_init(&engine->pipeline);
    pins_init(&engine->pins);
    latency_init(&engine->commit_latency);
    latency_init(&engine->read_latency);
    engine->opened_us = os_clock_us();
    os_mutex_init(&engine->lease_lock);
    os_mutex_init(&engine->checkpoint_lock);
    os_condition_init(&engine->checkpoint_wake);
    atomic_store(&engine->newest_generation_us, os_clock_coarse_us());
    return ERROR_SUCCESS;
destroy_resolver:
    resolver_destroy(engine->resolver);
destroy_window:
    window_destroy(engine->window);
    return error;
}

static void destroy_parts(struct engine *engine) {
    struct watch *remaining = NULL;
    watches_destroy(engine->watches, &remaining);
    watches_fire(remaining, ERROR_OPERATION_CANCELLED);
    os_condition_destroy(&engine->checkpoint_wake);
    os_mutex_destroy(&engine->checkpoint_lock);
    os_mutex_destroy(&engine->lease_lock);
    latency_destroy(&engine->read_latency);
    latency_destroy(&engine->commit_latency);
    pins_destroy(&engine->pins);
    pipeline_destroy(&engine->pipeline);
    resolver_destroy(engine->resolver);
    window_destroy(engine->window);
}

static fdb_error_t start(struct engine *engine, char **message) {
    fdb_error_t error = create_parts(engine);
    if (error)
        return error;
    error = engine->in_memory ? open_memory(engine) : open_directory(engine, message);
    if (error)
        goto destroy_parts;
    error = readers_create(engine->window, engine->base, &engine->readers);
    if (error)
        goto close_storage;
    error = start_threads(engine);
    if (error)
        goto destroy_readers;
    return ERROR_SUCCESS;
destroy_readers:
    readers_destroy(engine->readers);
close_storage:
    close_storage(engine);
destroy_parts:
    destroy_parts(engine);
    return error;
}

fdb_error_t engine_open(const char *path, const struct engine_options *options, struct database **database,
                        char **message) {
    *message = NULL;
    struct engine *engine = memory_allocate_zeroed(sizeof *engine);
    if (!engine)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = ERROR_IO_ERROR;
    if (snprintf(engine->path, sizeof engine->path, "%s", path) >= (int)sizeof engine->path) {
        explain(message, "the path is longer than %zu bytes", sizeof engine->path - 1);
        goto free_engine;
    }
    engine->database.methods = &METHODS;
    engine->options = *options;
    engine->in_memory = strcmp(path, ":memory:") == 0;
    error = start(engine, message);
    if (error)
        goto free_engine;
    *database = &engine->database;
    return ERROR_SUCCESS;
free_engine:
    memory_free(engine);
    return error;
}

/* Nobody reads any more: the whole window may go to the base, so that the next open finds nothing to replay. */
static void final_checkpoint(struct engine *engine) {
    if (engine->in_memory || atomic_load(&engine->failed))
        return;
    window_rotate(engine->window);
    checkpoint_run(engine, INT64_MAX); /* on failure the log still has everything */
}

static void engine_close(struct database *database) {
    struct engine *engine = engine_of(database);
    stop_threads(engine);
    final_checkpoint(engine);
    readers_destroy(engine->readers);
    close_storage(engine);
    destroy_parts(engine);
    memory_free(engine);
}

static void engine_status(struct database *database, struct database_status *status) {
    struct engine *engine = engine_of(database);
    struct engine_counters *counters = &engine->counters;
    *status = (struct database_status){0};
    snprintf(status->path, sizeof status->path, "%s", engine->path);
    status->read_version = version_clock_read(&engine->clock);
    status->base_version = base_version(engine->base);
    status->horizon_version = version_clock_horizon(&engine->clock);
    readers_count(engine->readers, &status->reads, &status->rows_read);
    status->reads += atomic_load(&engine->pins.reads);
    status->rows_read += atomic_load(&engine->pins.rows);
    unsigned pins;
    pins_count(&engine->pins, &pins, &status->oldest_pin_us);
    status->pin_count = pins;
    status->commits = atomic_load(&counters->commits);
    status->conflicts = atomic_load(&counters->conflicts);
    status->batches = atomic_load(&counters->batches);
    status->mutations = atomic_load(&counters->mutations);
    status->mutation_bytes = atomic_load(&counters->mutation_bytes);
    status->checkpoints = atomic_load(&counters->checkpoints);
    status->window_bytes = window_bytes(engine->window);
    status->window_bytes_max = engine->options.window_bytes_max;
    status->log_bytes = engine->log ? log_bytes(engine->log) : 0;
    status->base_bytes = base_bytes(engine->base);
    status->base_free_bytes = base_free_bytes(engine->base);
    status->damaged_reads = atomic_load(&engine->base->damaged_reads);
    latency_read(&engine->commit_latency, &status->commit_latency);
    latency_read(&engine->read_latency, &status->read_latency);
    status->handle_count = atomic_load(&engine->database.handles);
    status->connection_count = atomic_load(&engine->database.connections);
    status->process_id = os_process_id();
    status->uptime_us = os_clock_us() - engine->opened_us;
    status->watch_count = watches_count(engine->watches);
    status->durable = engine->options.durable && !engine->in_memory;
    status->failed = atomic_load(&engine->failed);
    status->disk_full = atomic_load(&engine->disk_full);
    status->in_memory = engine->in_memory;
}
