/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor: what the window says about a range of keys, stretch by stretch. A range read walks it
 * side by side with the base: silent stretches are copied from the base, cleared ones are skipped
 * there, values are taken from here.
 *
 * A cursor stands at a place, which lies between keys: just before a key or just after it. For each
 * generation, newest first, a slot holds the last node at or below the place, the one after it, and
 * whether the place is at that node's own key, so that its point chain and not its gap chain
 * counts. Walking forward from just before "f":
 *
 *        newest     ---- "b" ------------------ "k" ---     slot: node b, next k, gap
 *        older      ---------- "f" ------------ "k" ---     slot: node f, on its point
 *        oldest     -- "a" ------------ "h" -----------     slot: node a, next h, gap
 *                               ^ place
 *
 * `look` asks the slots in turn until one has an entry: that is the answer, and older generations
 * have no say. If a slot that was asked is on its point, the answer holds for this one key.
 * Otherwise it holds up to the edge: the nearest next node of the slots asked; slots whose next
 * node has the edge's key are tied. `advance` moves the place to the far end: over a point, every
 * slot on it leaves it; to an edge, the tied slots step onto their point. So a step costs one
 * comparison a generation and no search. Backward is the mirror image: the edge is the greatest of
 * the nodes the slots stand on.
 *
 * Invariants:
 *   1. Slots [0, placed) are right for the place. Those behind were shadowed by a clear in a newer
 *      generation while the place moved on; they are placed again when they are asked, by a few
 *      steps from where they were or by a search.
 *   2. An edge and a point are never both set. With neither, the answer holds to the end of the key
 *      space.
 *   3. `resume` is set only to memory of the view: bytes of the caller may be another key by the
 *      next call.
 *   4. What a slot has loaded stays right for the cursor's version, whatever the writer does
 *      meanwhile (see generation.c).
 *
 * Two places can have no key between them: just after "a" and just before "a\0". Such an empty
 * stretch is stepped over, never handed out.
 *
 * Threads: a cursor belongs to one. Failure: there is none.
 */
#include <assert.h>

#include "engine/window_view.h"

enum {
    STEPS_NEAR = 8,    /* so far a slot is moved along the list before it is searched for */
    STEPS_MERGED = 64, /* so many stretches of one answer are joined: the caller waits for the first row meanwhile */
};

static void forget_slots(struct window_cursor *cursor) {
    for (unsigned i = 0; i < cursor->view->count; i++)
        cursor->slots[i].node = NULL;
}

void window_cursor_open(struct window_cursor *cursor, struct window_view *view, int64_t version) {
    cursor->view = view;
    cursor->version = version;
    cursor->resume = (struct bytes){NULL, 0};
    cursor->forward = true;
    forget_slots(cursor);
}

static bool same_memory(struct bytes a, struct bytes b) {
    return a.data == b.data && a.length == b.length;
}

/* --- Placing a slot --- */

static bool within(const struct node *node, const struct search_key *key, bool or_equal) {
    int order = node_compare(node, key);
    return order < 0 || (order == 0 && or_equal);
}

/* One node on or back; slots before the first node stand on `before`, which has no states. */
static void step_slot(struct window_slot *slot, const struct node *before, bool forward) {
    if (forward) {
        slot->node = slot->next;
        slot->next = node_place_next(&slot->list);
        return;
    }
    slot->next = slot->node;
    slot->node = node_place_previous(&slot->list);
    if (!slot->node)
        slot->node = before;
}

/*
 * Moves a slot on to the key if that takes a few steps at most in the direction of the walk; else
 * false.
 */
static bool step_near(struct window_slot *slot, const struct node *before, bool forward, const struct search_key *key,
                      bool or_equal) {
    for (int steps = 0;; steps++) {
        bool below = slot->node == before || within(slot->node, key, or_equal);
        bool above = !slot->next || !within(slot->next, key, or_equal);
        if (below && above)
            return true;
        if (!(forward ? below : above) || steps == STEPS_NEAR)
            return false;
        step_slot(slot, before, forward);
    }
}

static void place_slot(struct window_cursor *cursor, unsigned index) {
    struct node_list *list = &cursor->view->generations[index]->list;
    struct window_slot *slot = &cursor->slots[index];
    struct search_key key = search_key_make(cursor->key);
    bool or_equal = cursor->forward || cursor->after;
    if (!slot->node || !step_near(slot, list->before, cursor->forward, &key, or_equal)) {
        slot->node = node_list_floor(list, NULL, &key, or_equal, &slot->list);
        struct node_place following = slot->list;
        slot->next = node_place_next(&following);
        if (cursor->forward)
            slot->list = following;
    }
    slot->on_point =
        slot->node != list->before && cursor->after != cursor->forward && node_compare(slot->node, &key) == 0;
    cursor->placed = index + 1;
}

/* --- Looking and advancing --- */

static const struct node *slot_edge(const struct window_cursor *cursor, unsigned index) {
    const struct window_slot *slot = &cursor->slots[index];
    if (cursor->forward)
        return slot->next;
    return slot->node == cursor->view->generations[index]->list.before ? NULL : slot->node;
}

static void find_edge(struct window_cursor *cursor) {
    for (unsigned i = 0; i < cursor->considered; i++) {
        const struct node *candidate = slot_edge(cursor, i);
        if (!candidate)
            continue;
        int order = cursor->edge ? node_compare_nodes(candidate, cursor->edge) : 0;
        if (!cursor->edge || (cursor->forward ? order < 0 : order > 0)) {
            cursor->edge = candidate;
            cursor->ties = 0;
        }
        if (cursor->edge == candidate || order == 0)
            cursor->ties |= (uint32_t)1 << i;
    }
}

/* Finds the answer at the place, and how far it holds. */
static void look(struct window_cursor *cursor) {
    unsigned count = cursor->view->count, index = 0;
    cursor->point = cursor->edge = NULL;
    cursor->entry = NULL;
    cursor->ties = 0;
    while (index < count && !cursor->entry) {
        if (index >= cursor->placed)
            place_slot(cursor, index);
        const struct window_slot *slot = &cursor->slots[index++];
        if (slot->on_point)
            cursor->point = slot->node;
        cursor->entry = chain_find(slot->on_point ? &slot->node->point : &slot->node->gap, cursor->version);
    }
    cursor->considered = index;
    if (!cursor->point)
        find_edge(cursor);
    cursor->looked = true;
}

static void leave_point(struct window_cursor *cursor) {
    for (unsigned i = 0; i < cursor->placed; i++) {
        struct window_slot *slot = &cursor->slots[i];
        if (!slot->on_point)
            continue;
        slot->on_point = false;
        if (!cursor->forward)
            step_slot(slot, cursor->view->generations[i]->list.before, false);
    }
    cursor->key = node_key(cursor->point);
    cursor->after = cursor->forward;
}

static void move_to_edge(struct window_cursor *cursor) {
    cursor->placed = cursor->considered;
    for (uint32_t left = cursor->ties; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctz(left);
        struct window_slot *slot = &cursor->slots[index];
        slot->on_point = true;
        if (cursor->forward)
            step_slot(slot, cursor->view->generations[index]->list.before, true);
    }
    cursor->key = node_key(cursor->edge);
    cursor->after = !cursor->forward;
}

static void advance(struct window_cursor *cursor) {
    if (cursor->point)
        leave_point(cursor);
    else
        move_to_edge(cursor);
    cursor->looked = false;
}

/* --- Stretches --- */

static enum window_answer answer_of(const struct entry *entry) {
    if (!entry)
        return WINDOW_SILENT;
    return entry->length == ENTRY_CLEARED ? WINDOW_CLEARED : WINDOW_VALUE;
}

/* No key lies between the place and the edge. */
static bool is_empty(const struct window_cursor *cursor) {
    if (!cursor->edge || cursor->after != cursor->forward)
        return false;
    struct bytes edge = node_key(cursor->edge);
    return cursor->forward ? is_successor(edge, cursor->key) : is_successor(cursor->key, edge);
}

/* The far end of what was looked at, as a key; only where it does not reach the limit. */
static struct bytes far_end(const struct window_cursor *cursor) {
    if (cursor->point)
        return cursor->forward ? node_key_after(cursor->point) : node_key(cursor->point);
    return cursor->forward ? node_key(cursor->edge) : node_key_after(cursor->edge);
}

static bool reaches_limit(const struct window_cursor *cursor, const struct search_key *limit) {
    if (cursor->point) {
        struct bytes key = node_key(cursor->point);
        return cursor->forward ? is_successor(limit->bytes, key) : bytes_equal(limit->bytes, key);
    }
    if (!cursor->edge)
        return true;
    int order = node_compare(cursor->edge, limit);
    return cursor->forward ? order >= 0 : order < 0;
}

static void start(struct window_cursor *cursor, bool forward, struct bytes from) {
    if (cursor->resume.data && same_memory(cursor->resume, from) && cursor->forward == forward)
        return;
    if (cursor->forward != forward)
        forget_slots(cursor);
    cursor->forward = forward;
    cursor->key = from;
    cursor->after = false;
    cursor->looked = false;
    cursor->placed = 0;
}

static void hand_out_value(struct window_cursor *cursor, struct window_stretch *stretch) {
    stretch->answer = WINDOW_VALUE;
    stretch->begin = node_key(cursor->point);
    stretch->end = node_key_after(cursor->point);
    stretch->value = bytes_make(cursor->entry->value, cursor->entry->length);
    advance(cursor);
    cursor->resume = cursor->forward ? stretch->end : stretch->begin;
}

/* One stretch in either direction; *far is where it stops, unless it is a value. */
static void walk(struct window_cursor *cursor, bool forward, struct bytes from, struct bytes limit,
                 struct window_stretch *stretch, struct bytes *far) {
    struct search_key until = search_key_make(limit);
    start(cursor, forward, from);
    for (int steps = 0;;) {
        if (!cursor->looked)
            look(cursor);
        enum window_answer answer = answer_of(cursor->entry);
        if (!is_empty(cursor)) {
            if (steps > 0 && (answer != stretch->answer || steps == STEPS_MERGED))
                return;
            stretch->answer = answer;
            if (answer == WINDOW_VALUE) {
                hand_out_value(cursor, stretch);
                return;
            }
            steps++;
            if (reaches_limit(cursor, &until)) {
                *far = limit;
                cursor->resume = (struct bytes){NULL, 0};
                return;
            }
            *far = cursor->resume = far_end(cursor);
        }
        advance(cursor);
    }
}

void window_cursor_forward(struct window_cursor *cursor, struct bytes begin, struct bytes limit,
                           struct window_stretch *stretch) {
    struct bytes far;
    walk(cursor, true, begin, limit, stretch, &far);
    if (stretch->answer == WINDOW_VALUE)
        return;
    stretch->begin = begin;
    stretch->end = far;
}

void window_cursor_backward(struct window_cursor *cursor, struct bytes end, struct bytes limit,
                            struct window_stretch *stretch) {
    struct bytes far;
    walk(cursor, false, end, limit, stretch, &far);
    if (stretch->answer == WINDOW_VALUE)
        return;
    stretch->begin = far;
    stretch->end = end;
}

/* --- Values only --- */

static bool walk_to_value(struct window_cursor *cursor, bool forward, struct bytes from, struct bytes limit,
                          struct window_stretch *stretch) {
    struct search_key until = search_key_make(limit);
    start(cursor, forward, from);
    for (;;) {
        if (!cursor->looked)
            look(cursor);
        if (answer_of(cursor->entry) == WINDOW_VALUE) {
            hand_out_value(cursor, stretch);
            return true;
        }
        if (reaches_limit(cursor, &until)) {
            cursor->resume = (struct bytes){NULL, 0};
            return false;
        }
        advance(cursor);
    }
}

bool window_cursor_forward_value(struct window_cursor *cursor, struct bytes begin, struct bytes limit,
                                 struct window_stretch *stretch) {
    return walk_to_value(cursor, true, begin, limit, stretch);
}

bool window_cursor_backward_value(struct window_cursor *cursor, struct bytes end, struct bytes limit,
                                  struct window_stretch *stretch) {
    return walk_to_value(cursor, false, end, limit, stretch);
}

/* --- Visiting --- */

/* Tells of a cleared range that has ended; begin->data is NULL while there is none. */
static fdb_error_t tell_cleared(const struct window_visitor *visitor, struct bytes *begin, struct bytes end) {
    struct bytes from = *begin;
    begin->data = NULL;
    if (!from.data)
        return 0;
    if (is_successor(end, from))
        return visitor->clear(visitor->context, from);
    return visitor->clear_range(visitor->context, from, end);
}

fdb_error_t window_view_visit(struct window_view *view, const struct window_visitor *visitor) {
    static const struct bytes limit = {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff", 8}; /* above every key that can be written */
    struct window_cursor cursor;
    struct bytes begin = {(const uint8_t *)"", 0}, cleared = {NULL, 0};
    fdb_error_t error = 0;
    window_cursor_open(&cursor, view, INT64_MAX);
    while (!error && bytes_compare(begin, limit) < 0) {
        struct window_stretch stretch;
        window_cursor_forward(&cursor, begin, limit, &stretch);
        if (stretch.answer != WINDOW_CLEARED)
            error = tell_cleared(visitor, &cleared, stretch.begin);
        else if (!cleared.data)
            cleared = stretch.begin;
        if (!error && stretch.answer == WINDOW_VALUE)
            error = visitor->set(visitor->context, stretch.begin, stretch.value);
        begin = stretch.end;
    }
    assert(error || !cleared.data);
    return error;
}
