/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake_database.h. The state at a version is a sorted array of rows, copied whole for each
 * commit: a test has few of either. One mutex around everything; callbacks run without it.
 */
#include "fake_database.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { STATES_MAX = 4096, VERSION_STEP = 10, HELD_MAX = 64, WATCHES_MAX = 64 };

struct text {
    uint8_t *data;
    size_t length;
};

struct row {
    struct text key, value;
};

struct state {
    int64_t version;
    struct row *rows;
    int count;
    struct key_range *writes; /* conflict ranges of the commit that made it, copied */
    int write_count;
};

struct fake_database {
    struct database base;
    pthread_mutex_t mutex;
    struct arena arena; /* everything ever kept */
    struct state states[STATES_MAX];
    int state_count;
    int64_t horizon;
    bool hold;
    fdb_error_t next_error;
    struct commit_request *held[HELD_MAX];
    int held_count;
    struct watch *watches[WATCHES_MAX];
    int watch_count;
    struct mutation *mutations;
    struct key_range *reads, *writes;
    int mutation_count, read_count, write_count;
    int gets, range_reads;
    int pins;
};

static _Atomic bool closed;

static struct fake_database *fake_of(struct database *database) {
    return (struct fake_database *)database;
}

static struct bytes view(struct text text) {
    return bytes_make(text.data, text.length);
}

static struct bytes copy(struct fake_database *fake, struct bytes source) {
    struct bytes result;
    bool copied = arena_copy(&fake->arena, source, &result);
    assert(copied);
    (void)copied;
    return result;
}

static struct text keep(struct fake_database *fake, struct bytes source) {
    struct bytes kept = copy(fake, source);
    return (struct text){(uint8_t *)(uintptr_t)kept.data, kept.length};
}

static struct state *state_at(struct fake_database *fake, int64_t version) {
    struct state *found = &fake->states[0];
    for (int i = 0; i < fake->state_count; i++)
        if (fake->states[i].version <= version)
            found = &fake->states[i];
    return found;
}

static int position(const struct state *state, struct bytes key) {
    int at = 0;
    while (at < state->count && bytes_compare(view(state->rows[at].key), key) < 0)
        at++;
    return at;
}

static const struct row *row_at(const struct state *state, struct bytes key) {
    int at = position(state, key);
    return at < state->count && bytes_equal(view(state->rows[at].key), key) ? &state->rows[at]
           : NULL;
}

/* --- Reading --- */

static fdb_error_t get_read_version(struct database *database, int64_t *version) {
    *version = fake_version(fake_of(database));
    return 0;
}

static fdb_error_t check_read_version(struct database *database, int64_t version) {
    struct fake_database *fake = fake_of(database);
    if (version < fake->horizon)
        return ERROR_TRANSACTION_TOO_OLD;
    return version > fake_version(fake) ? ERROR_FUTURE_VERSION : 0;
}

static fdb_error_t get(struct database *database, int64_t version, struct bytes key,
                       struct arena *arena, struct bytes *value, bool *present) {
    struct fake_database *fake = fake_of(database);
    if (version < fake->horizon)
        return ERROR_TRANSACTION_TOO_OLD;
    pthread_mutex_lock(&fake->mutex);
    fake->gets++;
    const struct row *row = row_at(state_at(fake, version), key);
    *present = row != NULL;
    if (row && !arena_copy(arena, view(row->value), value))
        abort();
    pthread_mutex_unlock(&fake->mutex);
    return 0;
}

static fdb_error_t get_range(struct database *database, const struct range_request *request,
                             struct rows *rows, bool *more) {
    struct fake_database *fake = fake_of(database);
    *more = false;
    if (request->version < fake->horizon)
        return ERROR_TRANSACTION_TOO_OLD;
    assert(request->row_limit >= 1);
    if (bytes_compare(request->begin, request->end) >= 0)
        return 0;
    pthread_mutex_lock(&fake->mutex);
    fake->range_reads++;
    const struct state *state = state_at(fake, request->version);
    int from = position(state, request->begin), to = position(state, request->end);
    size_t bytes = 0;
    for (int i = 0; i < to - from; i++) {
        const struct row *row = &state->rows[request->reverse ? to - 1 - i : from + i];
        if (!rows_append(rows, view(row->key), view(row->value)))
            abort();
        bytes += row->key.length + row->value.length;
        if (i + 1 == request->row_limit || bytes >= request->byte_limit) {
            *more = i + 1 < to - from;
            break;
        }
    }
    pthread_mutex_unlock(&fake->mutex);
    return 0;
}

/* --- Committing --- */

static void put(struct fake_database *fake, struct state *state, struct bytes key,
                struct bytes value) {
    int at = position(state, key);
    bool there = at < state->count && bytes_equal(view(state->rows[at].key), key);
    if (!there) {
        memmove(&state->rows[at + 1], &state->rows[at],
                (size_t)(state->count - at) * sizeof *state->rows);
        state->count++;
        state->rows[at].key = keep(fake, key);
    }
    state->rows[at].value = keep(fake, value);
}

static void clear(struct state *state, struct bytes begin, struct bytes end) {
    int from = position(state, begin), to = position(state, end);
    if (to <= from)
        return;
    memmove(&state->rows[from], &state->rows[to],
            (size_t)(state->count - to) * sizeof *state->rows);
    state->count -= to - from;
}

static void remove_row(struct state *state, int at) {
    memmove(&state->rows[at], &state->rows[at + 1],
            (size_t)(state->count - at - 1) * sizeof *state->rows);
    state->count--;
}

static struct bytes stamped(struct fake_database *fake, struct bytes text, int64_t version) {
    struct bytes body;
    size_t offset;
    fdb_error_t error = mutation_stamp_position(text, &body, &offset);
    assert(!error);
    (void)error;
    struct text made = keep(fake, body);
    mutation_stamp_write(made.data + offset, version, 0);
    return view(made);
}

static void apply(struct fake_database *fake, struct state *state,
                  const struct mutation *mutation) {
    if (mutation->type == MUTATION_SET) {
        put(fake, state, mutation->key, mutation->value);
    } else if (mutation->type == MUTATION_CLEAR_RANGE) {
        clear(state, mutation->key, mutation->value);
    } else if (mutation->type == MUTATION_SET_VERSIONSTAMPED_KEY) {
        put(fake, state, stamped(fake, mutation->key, state->version), mutation->value);
    } else if (mutation->type == MUTATION_SET_VERSIONSTAMPED_VALUE) {
        put(fake, state, mutation->key, stamped(fake, mutation->value, state->version));
    } else {
        const struct row *row = row_at(state, mutation->key);
        struct bytes present = row ? view(row->value) : BYTES_LITERAL(""), result;
        bool cleared;
        fdb_error_t error = mutation_apply(mutation->type, row ? &present : NULL, mutation->value,
                                           &fake->arena, &result, &cleared);
        assert(!error);
        (void)error;
        if (!cleared)
            put(fake, state, mutation->key, result);
        else if (row)
            remove_row(state, (int)(row - state->rows));
    }
}

static bool overlaps(struct key_range a, struct key_range b) {
    return bytes_compare(a.begin, b.end) < 0 && bytes_compare(b.begin, a.end) < 0;
}

static fdb_error_t resolve(struct fake_database *fake, struct commit_request *request) {
    bool conflict = false;
    if (request->read_conflict_count && request->read_version < fake->horizon)
        return ERROR_TRANSACTION_TOO_OLD;
    for (size_t r = 0; r < request->read_conflict_count; r++) {
        bool hit = false;
        for (int i = 0; i < fake->state_count; i++)
            for (int w = 0; fake->states[i].version > request->read_version &&
                            w < fake->states[i].write_count; w++)
                hit |= overlaps(request->read_conflicts[r], fake->states[i].writes[w]);
        conflict |= hit;
        if (request->report_conflicts)
            request->conflicting[r] = hit;
    }
    return conflict ? ERROR_NOT_COMMITTED : 0;
}

static struct key_range *keep_ranges(struct fake_database *fake, const struct key_range *ranges,
                                     size_t count) {
    struct key_range *kept = arena_allocate(&fake->arena, (count + 1) * sizeof *kept);
    assert(kept);
    for (size_t i = 0; i < count; i++)
        kept[i] = (struct key_range){copy(fake, ranges[i].begin), copy(fake, ranges[i].end)};
    return kept;
}

static void record(struct fake_database *fake, const struct commit_request *request) {
    fake->mutations = arena_allocate(&fake->arena,
                                     (request->mutation_count + 1) * sizeof *fake->mutations);
    assert(fake->mutations);
    for (size_t i = 0; i < request->mutation_count; i++)
        fake->mutations[i] = (struct mutation){request->mutations[i].type,
                                               copy(fake, request->mutations[i].key),
                                               copy(fake, request->mutations[i].value)};
    fake->mutation_count = (int)request->mutation_count;
    fake->reads = keep_ranges(fake, request->read_conflicts, request->read_conflict_count);
    fake->read_count = (int)request->read_conflict_count;
    fake->writes = keep_ranges(fake, request->write_conflicts, request->write_conflict_count);
    fake->write_count = (int)request->write_conflict_count;
}

static void make_state(struct fake_database *fake, struct commit_request *request) {
    assert(fake->state_count < STATES_MAX);
    const struct state *last = &fake->states[fake->state_count - 1];
    struct state *next = &fake->states[fake->state_count];
    next->version = last->version + VERSION_STEP;
    next->count = last->count;
    size_t room = (size_t)last->count + request->mutation_count + 1;
    next->rows = arena_allocate(&fake->arena, room * sizeof *next->rows);
    assert(next->rows);
    if (last->count)
        memcpy(next->rows, last->rows, (size_t)last->count * sizeof *next->rows);
    for (size_t i = 0; i < request->mutation_count; i++)
        apply(fake, next, &fake->mutations[i]);
    next->writes = fake->writes;
    next->write_count = fake->write_count;
    fake->state_count++;
    request->committed_version = next->version;
    request->batch_order = 0;
}

static int take_fired(struct fake_database *fake, struct watch **fired) {
    int count = 0, kept = 0;
    for (int i = 0; i < fake->watch_count; i++) {
        struct watch *watch = fake->watches[i];
        const struct row *row = row_at(&fake->states[fake->state_count - 1], watch->key);
        bool same = watch->present == (row != NULL) &&
                    (!row || bytes_equal(view(row->value), watch->value));
        if (same)
            fake->watches[kept++] = watch;
        else
            fired[count++] = watch;
    }
    fake->watch_count = kept;
    return count;
}

static void answer(struct fake_database *fake, struct commit_request *request) {
    struct watch *fired[WATCHES_MAX];
    int fired_count = 0;
    pthread_mutex_lock(&fake->mutex);
    record(fake, request);
    fdb_error_t error = fake->next_error ? fake->next_error : resolve(fake, request);
    fake->next_error = 0;
    if (!error) {
        make_state(fake, request);
        fired_count = take_fired(fake, fired);
    }
    pthread_mutex_unlock(&fake->mutex);
    request->complete(request, error);
    for (int i = 0; i < fired_count; i++)
        fired[i]->fire(fired[i], 0);
}

static void commit(struct database *database, struct commit_request *request) {
    struct fake_database *fake = fake_of(database);
    pthread_mutex_lock(&fake->mutex);
    bool hold = fake->hold;
    if (hold) {
        assert(fake->held_count < HELD_MAX);
        fake->held[fake->held_count++] = request;
    }
    pthread_mutex_unlock(&fake->mutex);
    if (!hold)
        answer(fake, request);
}

static bool drive(struct database *database, uint64_t ticket) {
    (void)ticket;
    fake_answer(fake_of(database));
    return false;
}

static void hurry(struct database *database) {
    (void)database;
}

/* --- The rest --- */

static fdb_error_t watch(struct database *database, struct watch *watch) {
    struct fake_database *fake = fake_of(database);
    struct watch *fired[WATCHES_MAX];
    pthread_mutex_lock(&fake->mutex);
    assert(fake->watch_count < WATCHES_MAX);
    fake->watches[fake->watch_count++] = watch;
    int count = take_fired(fake, fired);
    pthread_mutex_unlock(&fake->mutex);
    for (int i = 0; i < count; i++)
        fired[i]->fire(fired[i], 0);
    return 0;
}

static bool unwatch(struct database *database, struct watch *watch) {
    struct fake_database *fake = fake_of(database);
    bool found = false;
    pthread_mutex_lock(&fake->mutex);
    for (int i = 0; i < fake->watch_count && !found; i++) {
        if (fake->watches[i] != watch)
            continue;
        fake->watches[i] = fake->watches[--fake->watch_count];
        found = true;
    }
    pthread_mutex_unlock(&fake->mutex);
    return found;
}

static fdb_error_t estimate(struct database *database, struct bytes begin, struct bytes end,
                            int64_t *bytes) {
    struct fake_database *fake = fake_of(database);
    const struct state *state = &fake->states[fake->state_count - 1];
    *bytes = 0;
    for (int i = position(state, begin); i < position(state, end); i++)
        *bytes += (int64_t)(state->rows[i].key.length + state->rows[i].value.length);
    return 0;
}

/* A pinned state: reads of its version work whatever the horizon. */
struct fake_pin {
    struct database base;
    struct fake_database *owner;
};

static fdb_error_t pinned_get(struct database *database, int64_t version, struct bytes key,
                              struct arena *arena, struct bytes *value, bool *present) {
    struct fake_database *fake = ((struct fake_pin *)database)->owner;
    int64_t horizon = fake->horizon;
    fake->horizon = 0;
    fdb_error_t error = get(&fake->base, version, key, arena, value, present);
    fake->horizon = horizon;
    return error;
}

static fdb_error_t pinned_get_range(struct database *database, const struct range_request *request,
                                    struct rows *rows, bool *more) {
    struct fake_database *fake = ((struct fake_pin *)database)->owner;
    int64_t horizon = fake->horizon;
    fake->horizon = 0;
    fdb_error_t error = get_range(&fake->base, request, rows, more);
    fake->horizon = horizon;
    return error;
}

static void unpin(struct database *database) {
    ((struct fake_pin *)database)->owner->pins--;
    free(database);
}

static fdb_error_t pin(struct database *database, int64_t version, struct database **pinned) {
    static const struct database_methods methods = {.close = unpin, .get = pinned_get,
                                                    .get_range = pinned_get_range};
    struct fake_database *fake = fake_of(database);
    fdb_error_t error = check_read_version(database, version);
    if (!error && fake->pins == DATABASE_PINS_MAX)
        error = ERROR_TOO_MANY_LONG_READS;
    if (error)
        return error;
    struct fake_pin *made = malloc(sizeof *made);
    assert(made);
    *made = (struct fake_pin){.base = {.methods = &methods}, .owner = fake};
    fake->pins++;
    *pinned = &made->base;
    return 0;
}

static void status(struct database *database, struct database_status *status) {
    (void)database;
    status->in_memory = true;
    strcpy(status->path, ":fake:\"");
}

static void close_fake(struct database *database) {
    struct fake_database *fake = fake_of(database);
    arena_free(&fake->arena);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
    closed = true;
}

static const struct database_methods METHODS = {
    .close = close_fake,
    .get_read_version = get_read_version,
    .check_read_version = check_read_version,
    .get = get,
    .get_range = get_range,
    .commit = commit,
    .drive = drive,
    .hurry = hurry,
    .watch = watch,
    .unwatch = unwatch,
    .estimate_bytes = estimate,
    .pin = pin,
    .status = status,
};

struct fake_database *fake_create(void) {
    struct fake_database *fake = calloc(1, sizeof *fake);
    assert(fake);
    fake->base.methods = &METHODS;
    pthread_mutex_init(&fake->mutex, NULL);
    fake->state_count = 1;
    fake->states[0].version = 1000;
    closed = false;
    return fake;
}

struct database *fake_interface(struct fake_database *fake) {
    return &fake->base;
}

void fake_hold_commits(struct fake_database *fake, bool hold) {
    fake->hold = hold;
}

int fake_waiting(struct fake_database *fake) {
    pthread_mutex_lock(&fake->mutex);
    int count = fake->held_count;
    pthread_mutex_unlock(&fake->mutex);
    return count;
}

void fake_answer(struct fake_database *fake) {
    struct commit_request *held[HELD_MAX];
    pthread_mutex_lock(&fake->mutex);
    int count = fake->held_count;
    memcpy(held, fake->held, (size_t)count * sizeof held[0]);
    fake->held_count = 0;
    pthread_mutex_unlock(&fake->mutex);
    for (int i = 0; i < count; i++)
        answer(fake, held[i]);
}

void fake_fail_next(struct fake_database *fake, fdb_error_t error) {
    fake->next_error = error;
}

void fake_set_horizon(struct fake_database *fake, int64_t version) {
    fake->horizon = version;
}

int64_t fake_version(struct fake_database *fake) {
    pthread_mutex_lock(&fake->mutex);
    int64_t version = fake->states[fake->state_count - 1].version;
    pthread_mutex_unlock(&fake->mutex);
    return version;
}

int fake_mutation_count(struct fake_database *fake) { return fake->mutation_count; }
struct mutation fake_mutation(struct fake_database *fake,
                              int index) { return fake->mutations[index]; }
int fake_read_conflict_count(struct fake_database *fake) { return fake->read_count; }
struct key_range fake_read_conflict(struct fake_database *fake,
                                    int index) { return fake->reads[index]; }
int fake_write_conflict_count(struct fake_database *fake) { return fake->write_count; }
struct key_range fake_write_conflict(struct fake_database *fake,
                                     int index) { return fake->writes[index]; }
int fake_gets(struct fake_database *fake) { return fake->gets; }
int fake_range_reads(struct fake_database *fake) { return fake->range_reads; }
int fake_watches(struct fake_database *fake) { return fake->watch_count; }
int fake_pins(struct fake_database *fake) { return fake->pins; }
bool fake_is_closed(void) { return closed; }
