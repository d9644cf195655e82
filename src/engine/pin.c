/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: the database at one version, readable for longer than the horizon lets anybody else. A long read
 * (keel/options.h) takes one with its first read.
 *
 * A pin is a reader of its own (readers.c): a view of the window and a snapshot of the base, taken together at a moment when the version was
 * readable, and kept. Nothing that happens later reaches them:
 *
 *     window   the view holds the generations that were on the list. The checkpoint takes them off the list when the base has them, but
 *              their memory stays, and the newest, which may still be written to, only gains states of higher versions.
 *     base     the snapshot is an LMDB read transaction (or a tree in memory): later commits write to other pages.
 *
 * So every read at the pinned version gives the same answer for ever, by the rule that every read follows: the window first, the base where it is silent.
 *
 *   1. The base version of the snapshot is at or below the pinned version: tested once, when it is made.
 *   2. A pin is in the engine's list exactly while it exists; at most DATABASE_PINS_MAX are.
 *   3. The checkpoint waits for no pin. What a pin costs is memory (the generations of its view, up to what the window may hold) and disk
 *      (LMDB uses no page again that became free after its snapshot).
 *
 * Threads: a pin is used by one thread at a time; making and closing pins, and looking at their list, by any. Failure: a pin that cannot be made leaves nothing.
 */
#include "engine/engine_internal.h"
#include "os/clock.h"
#include "util/memory.h"

struct pin {
    struct database database; /* must be first: what the long read sees */
    struct engine *engine;
    struct reader reader;
    int64_t version;
    int64_t begun_us;
    struct pin *previous, *next;
};

static struct pin *pin_of(struct database *database) {
    return (struct pin *)database;
}

static void count_read(struct pin *pin, uint64_t rows) {
    atomic_fetch_add_explicit(&pin->engine->pins.reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pin->engine->pins.rows, rows, memory_order_relaxed);
}

static fdb_error_t pin_get(struct database *database, int64_t version, struct bytes key, struct arena *arena,
                           struct bytes *value, bool *present) {
    struct pin *pin = pin_of(database);
    if (version != pin->version)
        return ERROR_INTERNAL_ERROR;
    fdb_error_t error = reader_get(&pin->reader, version, key, arena, value, present);
    count_read(pin, !error && *present);
    return error;
}

static fdb_error_t pin_get_range(struct database *database, const struct range_request *request, struct rows *rows,
                                 bool *more) {
    struct pin *pin = pin_of(database);
    if (request->version != pin->version)
        return ERROR_INTERNAL_ERROR;
    int rows_before = rows->count;
    fdb_error_t error = reader_get_range(&pin->reader, request, rows, more);
    count_read(pin, (uint64_t)(rows->count - rows_before));
    return error;
}

static void pin_close(struct database *database) {
    struct pin *pin = pin_of(database);
    struct pins *pins = &pin->engine->pins;
    reader_close(pin->engine->readers, &pin->reader); /* first: whoever finds room on the list finds it in the base */
    os_mutex_lock(&pins->lock);
    if (pin->previous)
        pin->previous->next = pin->next;
    else
        pins->newest = pin->next;
    if (pin->next)
        pin->next->previous = pin->previous;
    pins->count--;
    os_mutex_unlock(&pins->lock);
    memory_free(pin);
}

static const struct database_methods METHODS = {.close = pin_close, .get = pin_get, .get_range = pin_get_range};

/* Puts the pin on the list, if there is room. */
static fdb_error_t enlist(struct pins *pins, struct pin *pin) {
    os_mutex_lock(&pins->lock);
    bool room = pins->count < DATABASE_PINS_MAX;
    if (room) {
        pin->next = pins->newest;
        if (pin->next)
            pin->next->previous = pin;
        pins->newest = pin;
        pins->count++;
    }
    os_mutex_unlock(&pins->lock);
    return room ? ERROR_SUCCESS : ERROR_TOO_MANY_LONG_READS;
}

fdb_error_t engine_pin(struct database *database, int64_t version, struct database **pinned) {
    struct engine *engine = engine_of(database);
    struct pin *pin = memory_allocate_aligned(_Alignof(struct pin), sizeof *pin);
    if (!pin)
        return ERROR_LARGE_ALLOC_FAILED;
    memset(pin, 0, sizeof *pin);
    pin->database.methods = &METHODS;
    pin->engine = engine;
    pin->version = version;
    pin->begun_us = os_clock_us();
    fdb_error_t error = enlist(&engine->pins, pin); /* before the snapshot: the base has room for so many */
    if (error) {
        memory_free(pin);
        return error;
    }
    error = reader_open(engine->readers, &pin->reader);
    if (!error) /* after it: what is readable now was not disturbed before */
        error = version < pin->reader.base_version ? ERROR_TRANSACTION_TOO_OLD : engine_check_read_version(database, version);
    if (error) {
        pin_close(&pin->database);
        return error;
    }
    *pinned = &pin->database;
    return ERROR_SUCCESS;
}

void pins_init(struct pins *pins) {
    os_mutex_init(&pins->lock);
}

void pins_destroy(struct pins *pins) {
    os_mutex_destroy(&pins->lock);
}

void pins_count(struct pins *pins, unsigned *count, int64_t *oldest_us) {
    int64_t now = os_clock_us();
    *oldest_us = 0;
    os_mutex_lock(&pins->lock);
    *count = pins->count;
    for (struct pin *pin = pins->newest; pin; pin = pin->next)
        if (now - pin->begun_us > *oldest_us)
            *oldest_us = now - pin->begun_us;
    os_mutex_unlock(&pins->lock);
}
