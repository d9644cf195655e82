/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window: every change committed since the horizon, in memory, readable at any version. It is a list of generations, each an ordered map
 * with an arena of its own; only the newest is written to. One writer; readers take no lock and may run beside it.
 *
 * A reader holds a view: a counted reference to the list of generations as it was when taken. What a view answers is "silent" where no change at or
 * below the asked version covers the key: then the base knows.
 */
#ifndef KEEL_ENGINE_WINDOW_H
#define KEEL_ENGINE_WINDOW_H

#include "util/bytes.h"
#include "util/error.h"

struct window;
struct window_view;
struct generation;

enum window_answer { WINDOW_SILENT, WINDOW_CLEARED, WINDOW_VALUE };

fdb_error_t window_create(struct window **window);

/* REQUIRES: no view is held any more. */
void window_destroy(struct window *window);

/* --- The writer: one thread at a time. --- */

/*
 * Takes the memory that changes of `bytes` bytes of keys and values in `count` mutations may need, so that the following
 * window_set and window_clear_range calls, within that, cannot fail. LARGE_ALLOC_FAILED otherwise, and nothing has changed.
 */
fdb_error_t window_reserve(struct window *window, size_t count, size_t bytes);

/*
 * Versions never go down; calls of the same version are in the order of the mutations, the later wins. Key and value are copied.
 * Not seen by a reader at a lower version, at any moment. An empty or inverted range changes nothing.
 */
void window_set(struct window *window, int64_t version, struct bytes key, struct bytes value);
void window_clear_range(struct window *window, int64_t version, struct bytes begin, struct bytes end);

/* Begins a new generation if the newest holds anything: later changes go there. LARGE_ALLOC_FAILED: goes on with the old one. */
fdb_error_t window_rotate(struct window *window);

/* Bytes held by all generations, and by the newest alone. Any thread. */
uint64_t window_bytes(struct window *window);
uint64_t window_newest_bytes(struct window *window);

/* --- The checkpoint: one thread, beside the writer. --- */

/* The oldest generation if it is closed (not the newest) and nothing in it is newer than `version`, else NULL. */
struct generation *window_oldest_closed(struct window *window, int64_t version);

/* The newest version in a closed generation. */
int64_t generation_last_version(struct generation *generation);

/*
 * Calls back, in key order, with the final state a generation leaves: what it cleared as ranges, what it set as keys. A cleared range never covers a key
 * that the same generation leaves set. The first error stops and is returned.
 */
struct generation_visitor {
    fdb_error_t (*set)(void *context, struct bytes key, struct bytes value);
    fdb_error_t (*clear_range)(void *context, struct bytes begin, struct bytes end);
    void *context;
};
fdb_error_t generation_visit(struct generation *generation, const struct generation_visitor *visitor);

/* Takes the oldest generation off the list; its memory goes when the last view of it is released. LARGE_ALLOC_FAILED: try again. */
fdb_error_t window_drop_oldest(struct window *window);

/* --- Readers: any thread, no lock but a short one for taking a view. --- */

/* A number that grows whenever the list of generations changes. A view whose epoch equals it is up to date. */
uint64_t window_epoch(struct window *window);

/* Taking a view never fails. Release once. */
struct window_view *window_view_acquire(struct window *window);
uint64_t window_view_epoch(struct window_view *view);
void window_view_release(struct window *window, struct window_view *view);

/* The state of a key at a version. *value (if WINDOW_VALUE) lives as long as the view is held. */
enum window_answer window_view_get(struct window_view *view, int64_t version, struct bytes key, struct bytes *value);

/*
 * Walks the key space in stretches over which the answer is the same, so that a range read looks at the window once a stretch, not once a row.
 * WINDOW_VALUE stretches hold exactly one key. A cursor is small, lives on the stack, needs no memory and no closing; it is valid while the view is held.
 */
enum { WINDOW_GENERATIONS_MAX = 64 };

struct window_stretch {
    struct bytes begin; /* forward: where it was asked to begin. backward: lowest key of the stretch */
    struct bytes end;   /* exclusive. A WINDOW_VALUE stretch: the key itself is `begin`, and `end` is unset */
    enum window_answer answer;
    struct bytes value;
};

struct window_cursor {
    struct window_view *view;
    int64_t version;
    const void *positions[WINDOW_GENERATIONS_MAX]; /* a node of each generation, where the last step left off */
};

void window_cursor_open(struct window_cursor *cursor, struct window_view *view, int64_t version);

/*
 * Forward: the stretch that begins at `begin` (inclusive) and ends at or before `limit`. Calls with growing `begin` are cheap.
 * stretch->end <= limit. Silent and cleared stretches may be followed by one with the same answer.
 */
void window_cursor_forward(struct window_cursor *cursor, struct bytes begin, struct bytes limit, struct window_stretch *stretch);

/*
 * Backward: the stretch that ends at `end` (exclusive) and begins at or after `limit`. For a WINDOW_VALUE stretch, `begin` is its key and is the
 * greatest key below `end` that the window has a say on... precisely: no key between it and `end` exists or has another answer than being that key's
 * successor gap, which the previous stretch has already covered.
 */
void window_cursor_backward(struct window_cursor *cursor, struct bytes end, struct bytes limit, struct window_stretch *stretch);

/* Checks every invariant of every generation; for tests. Asserts on a violation. */
void window_check(struct window *window);

#endif
