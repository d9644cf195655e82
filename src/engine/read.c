/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The read path: every read borrows a reader (a view of the window and a snapshot of the base, see readers.c), asks the window at the version, and the
 * base where the window is silent.
 *
 * A version is checked when the read is done, not before it: if it is still at or above the horizon then, no checkpoint that could have disturbed it
 * has begun, for the checkpoint moves only what lies below the horizon of its moment.
 *
 * A range is a walk over the stretches of the window: where a stretch is silent, the base's rows are copied in a tight loop; where it is cleared,
 * the base is skipped; where it is a value, that is the row.
 */
#include "engine/engine_internal.h"
#include "os/clock.h"

fdb_error_t engine_get_read_version(struct database *database, int64_t *version) {
    *version = version_clock_read(&engine_of(database)->clock);
    return ERROR_SUCCESS;
}

fdb_error_t engine_check_read_version(struct database *database, int64_t version) {
    struct engine *engine = engine_of(database);
    if (version < version_clock_horizon(&engine->clock))
        return ERROR_TRANSACTION_TOO_OLD;
    return version > version_clock_read(&engine->clock) ? ERROR_FUTURE_VERSION : ERROR_SUCCESS;
}

/* When a read began that shall be measured, else 0. */
static inline int64_t sample(const struct reader *reader) {
    bool chosen = atomic_load_explicit(&reader->reads, memory_order_relaxed) % LATENCY_READ_SAMPLE == LATENCY_READ_SAMPLE - 1;
    return chosen ? os_clock_ns() : 0;
}

/* Gives the reader back and says whether what was read at `version` counts. */
static fdb_error_t finish(struct engine *engine, struct reader *reader, int64_t version, uint64_t rows, int64_t begun_ns) {
    if (begun_ns)
        latency_add(&engine->read_latency, os_clock_ns() - begun_ns);
    bool too_old = version < reader->base_version || version < version_clock_horizon(&engine->clock);
    /* Only the borrower counts, so these need no atomic addition. */
    atomic_store_explicit(&reader->reads, atomic_load_explicit(&reader->reads, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&reader->rows, atomic_load_explicit(&reader->rows, memory_order_relaxed) + rows,
                          memory_order_relaxed);
    reader_return(engine->readers, reader);
    return too_old ? ERROR_TRANSACTION_TOO_OLD : ERROR_SUCCESS;
}

static fdb_error_t look_up(struct reader *reader, int64_t version, struct bytes key, struct bytes *value, bool *present) {
    enum window_answer answer = window_view_get(reader->view, version, key, value);
    *present = answer == WINDOW_VALUE;
    return answer == WINDOW_SILENT ? base_get(reader->snapshot, key, value, present) : ERROR_SUCCESS;
}

fdb_error_t reader_get(struct reader *reader, int64_t version, struct bytes key, struct arena *arena, struct bytes *value,
                       bool *present) {
    struct bytes found, copy = {0};
    bool exists = false;
    fdb_error_t error = look_up(reader, version, key, &found, &exists);
    if (!error && exists && !arena_copy(arena, found, &copy))
        error = ERROR_LARGE_ALLOC_FAILED;
    if (error)
        return error;
    *value = copy;
    *present = exists;
    return ERROR_SUCCESS;
}

fdb_error_t engine_get(struct database *database, int64_t version, struct bytes key, struct arena *arena,
                       struct bytes *value, bool *present) {
    struct engine *engine = engine_of(database);
    struct reader *reader;
    fdb_error_t error = reader_borrow(engine->readers, &reader);
    if (error)
        return error;
    int64_t begun_ns = sample(reader);
    struct bytes copy = {0};
    bool exists = false;
    error = reader_get(reader, version, key, arena, &copy, &exists);
    fdb_error_t late = finish(engine, reader, version, exists, begun_ns);
    if (error || late)
        return late ? late : error;
    *value = copy;
    *present = exists;
    return ERROR_SUCCESS;
}

/* --- Ranges --- */

/* Where the base's cursor stands while a range is walked. */
enum base_place { BASE_UNPLACED, BASE_ON_ROW, BASE_EXHAUSTED };

struct range_walk {
    const struct range_request *request;
    struct window_view *view;
    struct base_snapshot *base; /* its key and value are the row the cursor stands on */
    struct rows *rows;
    int rows_left;
    size_t bytes_target; /* rows->bytes at which to stop */
    enum base_place place;
};

static bool is_full(const struct range_walk *walk) {
    size_t rows_cost = (size_t)(walk->request->row_limit - walk->rows_left) * walk->request->row_cost;
    return walk->rows_left == 0 || walk->rows->bytes + rows_cost >= walk->bytes_target;
}

static fdb_error_t emit(struct range_walk *walk, struct bytes key, struct bytes value) {
    if (!rows_append(walk->rows, key, value))
        return ERROR_LARGE_ALLOC_FAILED;
    walk->rows_left--;
    return ERROR_SUCCESS;
}

static fdb_error_t step_base(struct range_walk *walk) {
    bool found = false;
    fdb_error_t error = walk->request->reverse ? base_previous(walk->base, &found) : base_next(walk->base, &found);
    walk->place = found ? BASE_ON_ROW : BASE_EXHAUSTED;
    return error;
}

static fdb_error_t search_base(struct range_walk *walk, struct bytes from) {
    bool found = false;
    fdb_error_t error = walk->request->reverse ? base_seek_before(walk->base, from, &found) : base_seek(walk->base, from, &found);
    walk->place = found ? BASE_ON_ROW : BASE_EXHAUSTED;
    return error;
}

/* Is the row the cursor stands on still to come, seen from `from`? */
static bool is_ahead(const struct range_walk *walk, struct bytes from) {
    int order = bytes_compare(walk->base->key, from);
    return walk->request->reverse ? order < 0 : order >= 0;
}

/*
 * Puts the cursor on the first row at or after `from` (backwards: the last one before it). Windows and bases often hold the same keys, so one step is
 * tried before a search.
 */
static fdb_error_t place_base(struct range_walk *walk, struct bytes from) {
    if (walk->place == BASE_EXHAUSTED || (walk->place == BASE_ON_ROW && is_ahead(walk, from)))
        return ERROR_SUCCESS;
    if (walk->place == BASE_ON_ROW) {
        fdb_error_t error = step_base(walk);
        if (error || walk->place == BASE_EXHAUSTED || is_ahead(walk, from))
            return error;
    }
    return search_base(walk, from);
}

/* Copies the base's rows of a silent stretch. */
static fdb_error_t copy_silent(struct range_walk *walk, const struct window_stretch *stretch) {
    bool reverse = walk->request->reverse;
    fdb_error_t error = place_base(walk, reverse ? stretch->end : stretch->begin);
    while (!error && walk->place == BASE_ON_ROW && !is_full(walk)) {
        bool inside = reverse ? bytes_compare(walk->base->key, stretch->begin) >= 0
                              : bytes_compare(walk->base->key, stretch->end) < 0;
        if (!inside)
            break;
        error = emit(walk, walk->base->key, walk->base->value);
        if (!error)
            error = step_base(walk);
    }
    return error;
}

/* True once no row of the base can lie in the rest of the range: then only the window's values matter. */
static bool is_base_done(const struct range_walk *walk) {
    if (walk->place == BASE_ON_ROW)
        return walk->request->reverse ? bytes_compare(walk->base->key, walk->request->begin) < 0
                                      : bytes_compare(walk->base->key, walk->request->end) >= 0;
    return walk->place == BASE_EXHAUSTED;
}

/*
 * One stretch of [begin, end), from the end if the walk is backwards. Where the base is done, dead keys are passed over in one go, as behind the
 * head of a queue; false: there is nothing more.
 */
static bool next_stretch(struct range_walk *walk, struct window_cursor *cursor, struct bytes begin, struct bytes end,
                         struct window_stretch *stretch) {
    bool reverse = walk->request->reverse;
    if (is_base_done(walk))
        return reverse ? window_cursor_backward_value(cursor, end, begin, stretch)
                       : window_cursor_forward_value(cursor, begin, end, stretch);
    if (reverse)
        window_cursor_backward(cursor, end, begin, stretch);
    else
        window_cursor_forward(cursor, begin, end, stretch);
    return true;
}

static fdb_error_t walk_range(struct range_walk *walk, bool *more) {
    const struct range_request *request = walk->request;
    struct bytes begin = request->begin, end = request->end;
    struct window_cursor cursor;
    window_cursor_open(&cursor, walk->view, request->version);
    *more = false;
    fdb_error_t error = place_base(walk, request->reverse ? end : begin);
    while (!error && bytes_compare(begin, end) < 0) {
        struct window_stretch stretch;
        if (!next_stretch(walk, &cursor, begin, end, &stretch))
            return ERROR_SUCCESS;
        if (stretch.answer == WINDOW_VALUE)
            error = emit(walk, stretch.begin, stretch.value);
        else if (stretch.answer == WINDOW_SILENT)
            error = copy_silent(walk, &stretch);
        if (!error && is_full(walk)) {
            *more = true;
            return ERROR_SUCCESS;
        }
        if (request->reverse)
            end = stretch.begin;
        else
            begin = stretch.end;
    }
    return error;
}

fdb_error_t reader_get_range(struct reader *reader, const struct range_request *request, struct rows *rows, bool *more) {
    struct range_walk walk = {
        .request = request,
        .view = reader->view,
        .base = reader->snapshot,
        .rows = rows,
        .rows_left = request->row_limit,
        .bytes_target = request->byte_limit > SIZE_MAX - rows->bytes ? SIZE_MAX : rows->bytes + request->byte_limit,
    };
    return walk_range(&walk, more);
}

fdb_error_t engine_get_range(struct database *database, const struct range_request *request, struct rows *rows,
                             bool *more) {
    struct engine *engine = engine_of(database);
    if (bytes_compare(request->begin, request->end) >= 0) {
        *more = false;
        return ERROR_SUCCESS;
    }
    struct reader *reader;
    fdb_error_t error = reader_borrow(engine->readers, &reader);
    if (error)
        return error;
    int64_t begun_ns = sample(reader);
    int rows_before = rows->count;
    bool limited = false;
    error = reader_get_range(reader, request, rows, &limited);
    fdb_error_t late = finish(engine, reader, request->version, (uint64_t)(rows->count - rows_before), begun_ns);
    if (error || late)
        return late ? late : error;
    *more = limited;
    return ERROR_SUCCESS;
}

/* --- Estimates --- */

enum { ESTIMATE_ROWS_EXACT = 1000, ESTIMATE_STRETCHES_MAX = 10000 };

/* What the window holds in a range, as far as a bounded walk sees it. */
static int64_t window_part(struct reader *reader, const struct range_request *request) {
    int64_t bytes = 0;
    struct bytes begin = request->begin;
    struct window_cursor cursor;
    window_cursor_open(&cursor, reader->view, request->version);
    for (int i = 0; i < ESTIMATE_STRETCHES_MAX && bytes_compare(begin, request->end) < 0; i++) {
        struct window_stretch stretch;
        window_cursor_forward(&cursor, begin, request->end, &stretch);
        if (stretch.answer == WINDOW_VALUE)
            bytes += (int64_t)(stretch.begin.length + stretch.value.length);
        begin = stretch.end;
    }
    return bytes;
}

/* A small range is counted; a large one is the base's estimate and what the window adds. */
static fdb_error_t estimate(struct reader *reader, const struct range_request *request, struct rows *rows, int64_t *bytes) {
    bool more = false;
    struct range_walk walk = {.request = request, .view = reader->view, .base = reader->snapshot, .rows = rows,
                              .rows_left = request->row_limit, .bytes_target = SIZE_MAX};
    fdb_error_t error = walk_range(&walk, &more);
    if (error)
        return error;
    int64_t base_part = 0;
    if (more) {
        error = base_estimate_bytes(reader->snapshot, request->begin, request->end, &base_part);
        if (error)
            return error;
        base_part += window_part(reader, request);
    }
    *bytes = base_part > (int64_t)rows->bytes ? base_part : (int64_t)rows->bytes;
    return ERROR_SUCCESS;
}

fdb_error_t engine_estimate_bytes(struct database *database, struct bytes begin, struct bytes end, int64_t *bytes) {
    struct engine *engine = engine_of(database);
    struct range_request request = {.version = version_clock_read(&engine->clock), .begin = begin, .end = end,
                                    .row_limit = ESTIMATE_ROWS_EXACT, .byte_limit = SIZE_MAX};
    struct reader *reader;
    fdb_error_t error = reader_borrow(engine->readers, &reader);
    if (error)
        return error;
    struct rows rows = {0};
    error = estimate(reader, &request, &rows, bytes);
    rows_free(&rows);
    reader_return(engine->readers, reader);
    return error;
}

/* --- Watches --- */

/*
 * The watch is set first and the value looked at second, so that a commit in between is seen by one or the other. Whoever takes the
 * watch out of the table fires it.
 */
fdb_error_t engine_watch(struct database *database, struct watch *watch) {
    struct engine *engine = engine_of(database);
    watches_add(engine->watches, watch);
    struct arena arena = {0};
    struct bytes value = {0};
    bool present = false;
    fdb_error_t error = engine_get(database, version_clock_read(&engine->clock), watch->key, &arena, &value, &present);
    bool changed = !error && (present != watch->present || (present && !bytes_equal(value, watch->value)));
    arena_free(&arena);
    if (!changed && !error)
        return ERROR_SUCCESS;
    if (!watches_remove(engine->watches, watch))
        return ERROR_SUCCESS; /* it fired meanwhile */
    if (changed)
        watch->fire(watch, ERROR_SUCCESS);
    return error;
}

bool engine_unwatch(struct database *database, struct watch *watch) {
    return watches_remove(engine_of(database)->watches, watch);
}
