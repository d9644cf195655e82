/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window: every change committed since the horizon, in memory, readable at any version. It is a
 * list of generations, each an ordered map with an arena of its own; only the newest is written to.
 * One writer; readers take no lock and may run beside it.
 *
 * A reader holds a view: a counted reference to the list of generations as it was when taken. What
 * a view answers is "silent" where no change at or below the asked version covers the key: then the
 * base knows.
 *
 * A reader asks at versions that were published before its view was taken (or before it last saw
 * the view's epoch unchanged): the writer may be adding changes of higher versions all the while.
 */
#ifndef KEEL_ENGINE_WINDOW_H
#define KEEL_ENGINE_WINDOW_H

#include "engine/batch.h"
#include "engine/node_list.h"
#include "util/bytes.h"
#include "util/error.h"

struct window;
struct window_view;

enum window_answer { WINDOW_SILENT, WINDOW_CLEARED, WINDOW_VALUE };

/* More generations than this are never kept: the newest is then written to for longer. */
enum { WINDOW_GENERATIONS_MAX = 32 };

/* LARGE_ALLOC_FAILED. An empty window is about a kilobyte. */
fdb_error_t window_create(struct window **window);

/* REQUIRES: no view is held any more. */
void window_destroy(struct window *window);

/* --- The writer: one thread at a time. --- */

/*
 * Takes the memory that these changes need, so that window_apply with them, once and with nothing else
 * (no rotation either) in between, cannot fail. LARGE_ALLOC_FAILED otherwise, and nothing has changed. Costs a few operations a set; a
 * range clear is walked over the keys it covers in the newest generation. Reserving and then not
 * applying is harmless.
 */
fdb_error_t window_reserve(struct window *window, const struct change *changes, size_t count);

/*
 * Makes the changes in their order, the later wins, also over earlier calls of the same version.
 * Versions never go down. Key and value are copied. Not seen by a reader at a lower version, at any moment. An empty
 * or inverted range changes nothing. REQUIRES: reserved by window_reserve; no other thread reads at
 * `version` or above before the whole batch is applied.
 */
void window_apply(struct window *window, int64_t version, const struct change *changes, size_t count);

/*
 * Begins a new generation if the newest holds anything and the list is not full: later changes go
 * there. LARGE_ALLOC_FAILED: goes on with the old one.
 */
fdb_error_t window_rotate(struct window *window);

/*
 * Bytes held by all generations on the list, and by the newest alone; one that was never written to
 * counts as 0. Any thread.
 */
uint64_t window_bytes(struct window *window);
uint64_t window_newest_bytes(struct window *window);

/* --- The checkpoint: one thread, beside the writer. --- */

/* Bytes held by the closed generations (all but the newest) that hold nothing newer than `version`. Any thread. */
uint64_t window_closed_bytes(struct window *window, int64_t version);

/*
 * A view of the oldest of these: of at least one and so many that they hold `bytes_wanted` together, or of all; *view is NULL where there is none. To be
 * released. LARGE_ALLOC_FAILED.
 */
fdb_error_t window_closed_view(struct window *window, int64_t version, uint64_t bytes_wanted, struct window_view **view);

/* The newest version in a view of closed generations. */
int64_t window_view_last_version(struct window_view *view);

/*
 * Calls back, in key order, with the final state that the generations of a view leave: what they cleared as single keys and as ranges as wide
 * as possible, what they set as keys. A cleared range never covers a key that is left set. The first error stops and is returned.
 * REQUIRES: the generations are closed.
 */
struct window_visitor {
    fdb_error_t (*set)(void *context, struct bytes key, struct bytes value);
    fdb_error_t (*clear)(void *context, struct bytes key);
    fdb_error_t (*clear_range)(void *context, struct bytes begin, struct bytes end);
    void *context;
};
fdb_error_t window_view_visit(struct window_view *view, const struct window_visitor *visitor);

/*
 * Takes the generations of window_closed_view off the list; their memory goes when the last view of them is released.
 * LARGE_ALLOC_FAILED: try again.
 */
fdb_error_t window_drop_oldest(struct window *window, const struct window_view *closed);

/* --- Readers: any thread, no lock but a short one for taking a view. --- */

/*
 * A number that grows whenever the list of generations changes. A view whose epoch equals it is up
 * to date.
 */
uint64_t window_epoch(struct window *window);

/* Taking a view never fails. Release once. */
struct window_view *window_view_acquire(struct window *window);
uint64_t window_view_epoch(struct window_view *view);
void window_view_release(struct window *window, struct window_view *view);

/* The state of a key at a version. *value (if WINDOW_VALUE) lives as long as the view is held. */
enum window_answer window_view_get(struct window_view *view, int64_t version, struct bytes key, struct bytes *value);

/*
 * A stretch: a range of keys [begin, end), never empty, that all have the same answer. A
 * WINDOW_VALUE stretch holds exactly one key: `begin` is the key and `end` its successor, the same
 * bytes and a zero byte. The window builds no keys: `begin` and `end` are either what the caller
 * passed in, with the caller's lifetime, or memory of the view.
 */
struct window_stretch {
    struct bytes begin;
    struct bytes end;
    struct bytes value; /* of a WINDOW_VALUE stretch; memory of the view */
    enum window_answer answer;
};

/*
 * A cursor walks the key space in stretches, so that a range read looks at the window once a
 * stretch, not once a row. It is small, lives on the stack, needs no memory and no closing, and is
 * valid while the view is held. One thread. The members are the window's own.
 */
struct window_slot {
    const struct node *node; /* the last at or below the place; NULL: never placed */
    const struct node *next; /* the one after it, or NULL */
    struct node_place list;  /* forward: on `next`; backward: on `node` */
    bool on_point;           /* the place is that of the node's own key */
};
struct window_cursor {
    struct window_view *view;
    int64_t version;
    struct bytes resume;     /* where the next call goes on without a search, if asked for these very bytes */
    struct bytes key;        /* the place: just before this key, or just after it */
    bool after;
    bool forward;
    bool looked;             /* what follows is known for the place */
    unsigned placed;         /* slots [0, placed) stand at the place */
    unsigned considered;     /* slots [0, considered) had a say in the answer */
    uint32_t ties;           /* slots whose next node is the edge */
    const struct node *edge; /* where the answer ends, NULL: nowhere */
    const struct node *point; /* the node of the place's key, if one was met */
    const struct entry *entry; /* the answer, NULL: silent */
    struct window_slot slots[WINDOW_GENERATIONS_MAX];
};

void window_cursor_open(struct window_cursor *cursor, struct window_view *view, int64_t version);

/*
 * Forward: a stretch that begins at `begin` and ends at or before `limit`. Backward: one that ends
 * at `end` and begins at or after `limit`. Both may stop short, so the next stretch can have the
 * same answer again. Going on exactly where the last stretch stopped (begin = stretch->end, end =
 * stretch->begin, the very bytes handed out) costs a few pointer steps; anywhere else is right too,
 * and cheap if near. REQUIRES: begin < limit; limit < end.
 */
void window_cursor_forward(struct window_cursor *cursor, struct bytes begin, struct bytes limit,
                           struct window_stretch *stretch);
void window_cursor_backward(struct window_cursor *cursor, struct bytes end, struct bytes limit,
                            struct window_stretch *stretch);

/*
 * The first (last) key in [begin, limit) ([limit, end)) that the window has a value for, passing
 * over everything silent or cleared: for a merge that already knows the base to have no row in
 * between. False: there is none. Otherwise *stretch is that WINDOW_VALUE.
 */
bool window_cursor_forward_value(struct window_cursor *cursor, struct bytes begin, struct bytes limit,
                                 struct window_stretch *stretch);
bool window_cursor_backward_value(struct window_cursor *cursor, struct bytes end, struct bytes limit,
                                  struct window_stretch *stretch);

/*
 * Checks every invariant of every generation; for tests, beside no writer. Asserts on a violation.
 */
void window_check(struct window *window);

#endif
