/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels in the plane, on the Z-order curve.
 *
 *     ("L", label, z) = ""        one row for each label
 *     ("Z", z, label) = ""        the same the other way round
 *
 * The curve visits the plane quarter by quarter, and each quarter the same way:
 *
 *     y  2 ── 3          A square of side 2^n whose corner is a multiple of 2^n is one stretch of
 *     ▲    ╲             the curve, 4^n long, from the z of its lower left corner. A box from
 * corner
 *     │  0 ── 1          to corner is not: the stretch between its corners can hold nearly all of
 *     └──────► x         the plane.
 *
 * A query cuts the plane into such squares. A square outside what is asked for is dropped, one
 * inside is read as it is, one across the border is cut in four, the one with the most area outside
 * first, until there are PIECES_MAX. Neighbours on the curve are joined. The pieces' first pages
 * are all started before the first is waited for, and then visited in the order of the curve.
 *
 * A piece across the border is read in small pages. Where a page ends outside, the next begins
 * where the curve comes back into the box (`come_back`): this bounds what points crowded just
 * outside can cost. Pages double as long as nothing is outside.
 *
 * The nearest: the rows beside the place on the curve give a distance within which there are
 * enough, never too small but at times far too large. A circle of an eighth of it is asked for
 * first, and doubled until it holds enough; what it then holds decides, since nothing nearer is
 * outside it.
 *
 * Invariants:
 *   1. A label has one row of each kind, with the same z.
 *   2. Every point of what is asked for lies in exactly one piece; every row is checked again.
 *
 * Threads: no state. Failure: writes come last and cannot fail; all futures of a query are
 * destroyed on every way out.
 */
#include <keel/spatial.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { NO_MEMORY = 1501, PIECES_MAX = 64, BORDER_ROWS_MIN = 4, BORDER_ROWS_MAX = 1024 };

typedef unsigned __int128 wide; /* squares of distances have 65 bits */

/* ---- The curve ---- */

/* The bits of a number, with a zero above each. */
static uint64_t spread(uint32_t number) {
    uint64_t bits = number;
    bits = (bits | bits << 16) & 0x0000ffff0000ffffULL;
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ffULL;
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0fULL;
    bits = (bits | bits << 2) & 0x3333333333333333ULL;
    return (bits | bits << 1) & 0x5555555555555555ULL;
}

static uint32_t gather(uint64_t bits) {
    bits &= 0x5555555555555555ULL;
    bits = (bits | bits >> 1) & 0x3333333333333333ULL;
    bits = (bits | bits >> 2) & 0x0f0f0f0f0f0f0f0fULL;
    bits = (bits | bits >> 4) & 0x00ff00ff00ff00ffULL;
    bits = (bits | bits >> 8) & 0x0000ffff0000ffffULL;
    return (uint32_t)(bits | bits >> 16);
}

KEEL_EXPORT uint64_t keel_spatial_z(uint32_t x, uint32_t y) {
    return spread(x) | spread(y) << 1;
}

KEEL_EXPORT void keel_spatial_xy(uint64_t z, uint32_t *x, uint32_t *y) {
    *x = gather(z);
    *y = gather(z >> 1);
}

/* ---- Where a label is ---- */

struct places {
    keel_subspace by_label, by_place;
};

static fdb_error_t places_of(const keel_subspace *space, struct places *places) {
    if (!space)
        return KEEL_ERROR_ARGUMENT;
    keel_element names[] = {keel_element_of_string("L"), keel_element_of_string("Z")};
    fdb_error_t error = keel_subspace_nested(space, keel_tuple_of(&names[0], 1), &places->by_label);
    return error ? error
                 : keel_subspace_nested(space, keel_tuple_of(&names[1], 1), &places->by_place);
}

static fdb_error_t check_label(const keel_element *label) {
    bool named = label->type == KEEL_TYPE_STRING || label->type == KEEL_TYPE_BYTES;
    if (label->type == KEEL_TYPE_NULL || label->type == KEEL_TYPE_NESTED ||
        keel_element_is_incomplete(label))
        return KEEL_ERROR_ARGUMENT;
    return named && label->value.as_bytes.length == 0 ? KEEL_ERROR_EMPTY_NAME : 0;
}

/* The row of a label: where it is, and both its keys as they are stored. */
struct row {
    bool found;
    uint64_t z;
    struct recipe_key by_label, by_place;
};

/* Takes a ("L", label, z) apart. The key of the other kind has the same bytes in another order,
   whichever way they were packed. */
static fdb_error_t read_row(const struct places *places, keel_bytes key, struct row *row) {
    size_t prefix = places->by_label.length, place_prefix = places->by_place.length;
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, prefix);
    if (keel_tuple_skip(&it, 1))
        return KEEL_ERROR_STORED_FORMAT;
    size_t middle = it.position;
    if (keel_tuple_next_uint(&it, &row->z) || !keel_tuple_at_end(&it))
        return KEEL_ERROR_STORED_FORMAT;
    memcpy(row->by_label.data, key.data, key.length);
    row->by_label.length = key.length;
    uint8_t *end = row->by_place.data;
    memcpy(end, places->by_place.prefix, place_prefix);
    memcpy(end + place_prefix, key.data + middle, key.length - middle);
    memcpy(end + place_prefix + key.length - middle, key.data + prefix, middle - prefix);
    row->by_place.length = place_prefix + key.length - prefix;
    row->found = true;
    return 0;
}

static fdb_error_t find(FDBTransaction *tr, const struct places *places, keel_element label,
                        struct row *row) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found = false;
    row->found = false;
    fdb_error_t error = recipe_span_of(&places->by_label, keel_tuple_of(&label, 1), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, false, false);
    error = recipe_scan_next(&scan, &key, &value, &found);
    if (!error && found)
        error = read_row(places, key, row);
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t look_up(FDBTransaction *tr, const keel_subspace *space, keel_element label,
                           struct places *places, struct row *row) {
    fdb_error_t error = tr ? places_of(space, places) : KEEL_ERROR_ARGUMENT;
    if (!error)
        error = check_label(&label);
    return error ? error : find(tr, places, label, row);
}

static fdb_error_t put(FDBTransaction *tr, const keel_subspace *space, keel_element label,
                       uint32_t x, uint32_t y, bool must_exist) {
    struct places places;
    struct row row;
    struct recipe_key by_label, by_place;
    keel_element z = keel_element_of_uint(keel_spatial_z(x, y));
    keel_element there[] = {label, z}, back[] = {z, label};
    fdb_error_t error = look_up(tr, space, label, &places, &row);
    if (!error && must_exist && !row.found)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = recipe_pack(&places.by_label, keel_tuple_of(there, 2), &by_label);
    if (!error)
        error = recipe_pack(&places.by_place, keel_tuple_of(back, 2), &by_place);
    if (error)
        return error;
    if (row.found) {
        recipe_clear(tr, &row.by_label);
        recipe_clear(tr, &row.by_place);
    }
    recipe_set(tr, &by_label, keel_bytes_of(NULL, 0));
    recipe_set(tr, &by_place, keel_bytes_of(NULL, 0));
    return 0;
}

KEEL_EXPORT fdb_error_t keel_spatial_set(FDBTransaction *tr, const keel_subspace *space,
                                         keel_element label, uint32_t x, uint32_t y) {
    return put(tr, space, label, x, y, false);
}

KEEL_EXPORT fdb_error_t keel_spatial_move(FDBTransaction *tr, const keel_subspace *space,
                                          keel_element label, uint32_t x, uint32_t y) {
    return put(tr, space, label, x, y, true);
}

KEEL_EXPORT fdb_error_t keel_spatial_get(FDBTransaction *tr, const keel_subspace *space,
                                         keel_element label, uint32_t *x, uint32_t *y) {
    struct places places;
    struct row row;
    if (!x || !y)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = look_up(tr, space, label, &places, &row);
    if (!error && !row.found)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        keel_spatial_xy(row.z, x, y);
    return error;
}

KEEL_EXPORT fdb_error_t keel_spatial_remove(FDBTransaction *tr, const keel_subspace *space,
                                            keel_element label) {
    struct places places;
    struct row row;
    fdb_error_t error = look_up(tr, space, label, &places, &row);
    if (!error && !row.found)
        error = KEEL_ERROR_NOT_FOUND;
    if (error)
        return error;
    recipe_clear(tr, &row.by_label);
    recipe_clear(tr, &row.by_place);
    return 0;
}

/* ---- What is asked for: a box, or the circle inside one ---- */

struct shape {
    uint32_t x_min, y_min, x_max, y_max;
    bool round;
    uint32_t x, y; /* of the centre */
    wide radius_squared;
};

struct square { /* of the plane: one stretch of the curve */
    uint32_t x, y; /* lower left corner */
    int level;     /* side 2^level */
};

enum side { OUTSIDE, INSIDE, ACROSS };

static wide squared(uint64_t distance) {
    return (wide)distance * distance;
}

/* From a number to the nearest and the farthest of a stretch. */
static uint64_t nearest_of(uint32_t from, uint32_t low, uint32_t high) {
    return from < low ? low - from : from > high ? from - high : 0;
}

static uint64_t farthest_of(uint32_t from, uint32_t low, uint32_t high) {
    uint64_t to_low = from > low ? from - low : low - from;
    uint64_t to_high = from > high ? from - high : high - from;
    return to_low > to_high ? to_low : to_high;
}

static uint32_t last_of(uint32_t first, int level) {
    return (uint32_t)(first + ((uint64_t)1 << level) - 1);
}

static enum side side_of(const struct shape *shape, const struct square *square) {
    uint32_t x = square->x, y = square->y;
    uint32_t x_last = last_of(x, square->level), y_last = last_of(y, square->level);
    if (x > shape->x_max || x_last < shape->x_min || y > shape->y_max || y_last < shape->y_min)
        return OUTSIDE;
    bool inside = x >= shape->x_min && x_last <= shape->x_max && y >= shape->y_min &&
                  y_last <= shape->y_max;
    if (!shape->round)
        return inside ? INSIDE : ACROSS;
    wide near = squared(nearest_of(shape->x, x, x_last)) + squared(nearest_of(shape->y, y, y_last));
    wide far =
        squared(farthest_of(shape->x, x, x_last)) + squared(farthest_of(shape->y, y, y_last));
    if (near > shape->radius_squared)
        return OUTSIDE;
    return far <= shape->radius_squared ? INSIDE : ACROSS;
}

static bool holds(const struct shape *shape, uint32_t x, uint32_t y) {
    struct square point = {x, y, 0};
    return side_of(shape, &point) == INSIDE;
}

/* The area of a square outside the box around the shape. */
static double area_outside(const struct shape *shape, const struct square *square) {
    uint32_t x_last = last_of(square->x, square->level), y_last = last_of(square->y, square->level);
    double side = ldexp(1, square->level);
    double left = square->x > shape->x_min ? square->x : shape->x_min;
    double right = x_last < shape->x_max ? x_last : shape->x_max;
    double bottom = square->y > shape->y_min ? square->y : shape->y_min;
    double top = y_last < shape->y_max ? y_last : shape->y_max;
    return side * side - (right - left + 1) * (top - bottom + 1) +
           (shape->round ? side : 0); /* a circle's squares can be in its box and still be cut */
}

/* ---- Pieces of the curve ---- */

struct piece {
    struct square square;
    bool across;
    double weight;       /* how much there is to gain by cutting it */
    uint64_t first, last; /* on the curve */
    FDBFuture *future;   /* its page under way */
    int limit, iteration;
};

static bool add_piece(const struct shape *shape, struct square square, struct piece *piece) {
    enum side side = side_of(shape, &square);
    if (side == OUTSIDE)
        return false;
    memset(piece, 0, sizeof *piece);
    piece->square = square;
    piece->across = side == ACROSS;
    piece->weight = side == ACROSS ? area_outside(shape, &square) : -1;
    piece->first = keel_spatial_z(square.x, square.y);
    piece->last = piece->first + (square.level == 32 ? 0 : (uint64_t)1 << 2 * square.level) - 1;
    return true;
}

/* The piece to cut next, or -1. */
static int heaviest(const struct piece *pieces, int count) {
    int found = -1;
    for (int i = 0; i < count; i++)
        if (pieces[i].across && (found < 0 || pieces[i].weight > pieces[found].weight))
            found = i;
    return found;
}

static int by_curve(const void *a, const void *b) {
    const struct piece *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Joins what is adjacent on the curve and of the same kind. */
static int join(struct piece *pieces, int count) {
    int last = 0;
    for (int i = 1; i < count; i++) {
        if (pieces[last].last + 1 == pieces[i].first && pieces[last].across == pieces[i].across)
            pieces[last].last = pieces[i].last;
        else
            pieces[++last] = pieces[i];
    }
    return count ? last + 1 : 0;
}

static int cut(const struct shape *shape, struct piece pieces[PIECES_MAX]) {
    struct square plane = {0, 0, 32};
    int count = add_piece(shape, plane, &pieces[0]) ? 1 : 0;
    while (count + 3 <= PIECES_MAX) {
        int next = heaviest(pieces, count);
        if (next < 0)
            break;
        struct square square = pieces[next].square;
        pieces[next] = pieces[--count];
        int level = square.level - 1;
        uint32_t half = (uint32_t)1 << level;
        for (uint32_t quarter = 0; quarter < 4; quarter++) {
            struct square part = {square.x + (quarter & 1) * half, square.y + (quarter >> 1) * half,
                                  level};
            count += add_piece(shape, part, &pieces[count]);
        }
    }
    qsort(pieces, (size_t)count, sizeof *pieces, by_curve);
    return join(pieces, count);
}

/*
 * The next place on the curve behind z that is in the box, which has z outside. False if there is
 * none. Bit by bit from the top, of z and of the box's corners: where they part, the box is halved
 * and either half is all before z, all behind it, or the one to go on in (Tropf and Herzog, 1981).
 */
static bool come_back(const struct shape *shape, uint64_t z, uint64_t *next) {
    uint64_t low = keel_spatial_z(shape->x_min, shape->y_min);
    uint64_t high = keel_spatial_z(shape->x_max, shape->y_max);
    bool found = false;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t one = (uint64_t)1 << bit;
        uint64_t below = (one - 1) & ((bit & 1) ? 0xaaaaaaaaaaaaaaaaULL : 0x5555555555555555ULL);
        bool in_z = z & one, in_low = low & one, in_high = high & one;
        if (!in_z && in_low) { /* all of the box is behind z */
            *next = low;
            return true;
        }
        if (in_z && !in_high) /* all of it is before z */
            return found;
        if (!in_z && in_high && !in_low) { /* the upper half is behind z; go on in the lower */
            *next = (low & ~below) | one;
            found = true;
            high = (high & ~one) | below;
        } else if (in_z && !in_low) { /* only the upper half can be behind z */
            low = (low & ~below) | one;
        }
    }
    return found;
}

/* ---- Reading the pieces ---- */

struct query {
    FDBTransaction *tr;
    const struct shape *shape;
    struct places places;
    keel_spatial_visitor visit;
    void *context;
    struct recipe_span all; /* of the rows by place */
    struct piece pieces[PIECES_MAX];
    int count;
};

static fdb_error_t pack_place(const struct query *query, uint64_t z, struct recipe_key *key) {
    keel_element element = keel_element_of_uint(z);
    return recipe_pack(&query->places.by_place, keel_tuple_of(&element, 1), key);
}

/* Starts a page of a piece from a key on. */
static fdb_error_t start_page(struct query *query, struct piece *piece,
                              const struct recipe_key *begin) {
    struct recipe_key end;
    const struct recipe_key *stop = &query->all.end;
    if (piece->last != UINT64_MAX) {
        fdb_error_t error = pack_place(query, piece->last + 1, &end);
        if (error)
            return error;
        stop = &end;
    }
    if (piece->future)
        fdb_future_destroy(piece->future);
    piece->iteration++;
    piece->future = fdb_transaction_get_range(
        query->tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin->data, (int)begin->length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(stop->data, (int)stop->length), piece->limit, 0,
        piece->across ? FDB_STREAMING_MODE_EXACT : FDB_STREAMING_MODE_ITERATOR, piece->iteration, 0,
        0);
    return 0;
}

static fdb_error_t start_pieces(struct query *query) {
    struct recipe_key begin;
    fdb_error_t error = 0;
    for (int i = 0; !error && i < query->count; i++) {
        query->pieces[i].limit = query->pieces[i].across ? BORDER_ROWS_MIN : 0;
        error = pack_place(query, query->pieces[i].first, &begin);
        if (!error)
            error = start_page(query, &query->pieces[i], &begin);
    }
    return error;
}

/* Takes a ("Z", z, label) apart. */
static fdb_error_t read_place(const struct query *query, const FDBKeyValue *row, uint64_t *z,
                              keel_element *label) {
    keel_bytes key = keel_bytes_of(row->key, (size_t)row->key_length);
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, query->places.by_place.length);
    if (keel_tuple_next_uint(&it, z) || keel_tuple_next(&it, label))
        return KEEL_ERROR_STORED_FORMAT;
    return 0;
}

/* Visits the rows of a page. *outside: how many are not asked for; *z: where the last one is. */
static fdb_error_t visit_rows(struct query *query, const FDBKeyValue *rows, int count, int *outside,
                              uint64_t *z) {
    *outside = 0;
    for (int i = 0; i < count; i++) {
        keel_element label;
        uint32_t x, y;
        fdb_error_t error = read_place(query, &rows[i], z, &label);
        if (error)
            return error;
        keel_spatial_xy(*z, &x, &y);
        if (!holds(query->shape, x, y))
            ++*outside;
        else if ((error = query->visit(query->context, &label, x, y)))
            return error;
    }
    return 0;
}

/* Where to read on behind a row at z. False: nowhere in this piece. */
static fdb_error_t next_begin(struct query *query, const struct piece *piece,
                              const FDBKeyValue *last, uint64_t z, struct recipe_key *begin,
                              bool *more) {
    uint32_t x, y;
    uint64_t next = 0;
    const struct shape *shape = query->shape;
    keel_spatial_xy(z, &x, &y);
    bool in_box =
        x >= shape->x_min && x <= shape->x_max && y >= shape->y_min && y <= shape->y_max;
    *more = true;
    if (in_box) {
        memcpy(begin->data, last->key, (size_t)last->key_length);
        begin->length = (size_t)last->key_length;
        begin->data[begin->length++] = 0; /* just behind it */
        return 0;
    }
    *more = come_back(shape, z, &next) && next <= piece->last;
    return *more ? pack_place(query, next, begin) : 0;
}

/* Visits a page and starts the next. *more: there is one. */
static fdb_error_t visit_page(struct query *query, struct piece *piece, bool *more) {
    const FDBKeyValue *rows;
    struct recipe_key begin;
    int count = 0, outside = 0;
    fdb_bool_t left = 0;
    uint64_t z = 0;
    *more = false;
    fdb_error_t error = keel_wait(piece->future);
    if (!error)
        error = fdb_future_get_keyvalue_array(piece->future, &rows, &count, &left);
    if (!error)
        error = visit_rows(query, rows, count, &outside, &z);
    if (error || count == 0 || (!left && count != piece->limit))
        return error;
    if (piece->across) /* growing while all is well */
        piece->limit = outside ? BORDER_ROWS_MIN
                               : piece->limit < BORDER_ROWS_MAX ? piece->limit * 2 : piece->limit;
    error = next_begin(query, piece, &rows[count - 1], z, &begin, more);
    return error || !*more ? error : start_page(query, piece, &begin);
}

static fdb_error_t run_query(struct query *query) {
    fdb_error_t error = start_pieces(query);
    for (int i = 0; !error && i < query->count; i++) {
        bool more = true;
        while (!error && more)
            error = visit_page(query, &query->pieces[i], &more);
    }
    for (int i = 0; i < query->count; i++)
        if (query->pieces[i].future)
            fdb_future_destroy(query->pieces[i].future);
    return error;
}

static fdb_error_t ask(FDBTransaction *tr, const keel_subspace *space, const struct shape *shape,
                       keel_spatial_visitor visit, void *context) {
    if (!tr || !space || !visit)
        return KEEL_ERROR_ARGUMENT;
    struct query *query = calloc(1, sizeof *query);
    if (!query)
        return NO_MEMORY;
    query->tr = tr;
    query->shape = shape;
    query->visit = visit;
    query->context = context;
    fdb_error_t error = places_of(space, &query->places);
    if (!error)
        error = recipe_span_of(&query->places.by_place, keel_tuple_of(NULL, 0), &query->all);
    if (!error) {
        query->count = cut(shape, query->pieces);
        error = run_query(query);
    }
    free(query);
    return error;
}

KEEL_EXPORT fdb_error_t keel_spatial_box(FDBTransaction *tr, const keel_subspace *space,
                                         uint32_t x_min, uint32_t y_min, uint32_t x_max,
                                         uint32_t y_max, keel_spatial_visitor visit,
                                         void *context) {
    struct shape shape = {.x_min = x_min, .y_min = y_min, .x_max = x_max, .y_max = y_max};
    if (x_min > x_max || y_min > y_max)
        return KEEL_ERROR_BOX;
    return ask(tr, space, &shape, visit, context);
}

static struct shape circle(uint32_t x, uint32_t y, uint64_t radius) {
    struct shape shape = {.round = true, .x = x, .y = y, .radius_squared = squared(radius)};
    shape.x_min = x > radius ? (uint32_t)(x - radius) : 0;
    shape.y_min = y > radius ? (uint32_t)(y - radius) : 0;
    shape.x_max = radius < UINT32_MAX - x ? (uint32_t)(x + radius) : UINT32_MAX;
    shape.y_max = radius < UINT32_MAX - y ? (uint32_t)(y + radius) : UINT32_MAX;
    return shape;
}

KEEL_EXPORT fdb_error_t keel_spatial_radius(FDBTransaction *tr, const keel_subspace *space,
                                            uint32_t x, uint32_t y, uint32_t radius,
                                            keel_spatial_visitor visit, void *context) {
    struct shape shape = circle(x, y, radius);
    return ask(tr, space, &shape, visit, context);
}

/* ---- The nearest ---- */

struct candidate {
    wide distance_squared;
    size_t order; /* in which it came, that of the curve */
    uint32_t x, y;
    size_t label_offset, label_length; /* packed, in `labels` */
};

struct candidates {
    uint32_t x, y; /* from where */
    struct candidate *list;
    size_t count, capacity;
    uint8_t *labels;
    size_t labels_length, labels_capacity;
};

static bool grow(void **memory, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity)
        return true;
    size_t wanted = needed + *capacity + 64;
    void *grown = realloc(*memory, wanted * size);
    if (!grown)
        return false;
    *memory = grown;
    *capacity = wanted;
    return true;
}

static wide distance_squared(uint32_t x, uint32_t y, uint32_t to_x, uint32_t to_y) {
    return squared(nearest_of(x, to_x, to_x)) + squared(nearest_of(y, to_y, to_y));
}

static fdb_error_t add_candidate(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    struct candidates *all = context;
    size_t length = 0;
    void *list = all->list, *labels = all->labels;
    keel_tuple tuple = keel_tuple_of(label, 1);
    fdb_error_t error = keel_tuple_pack(tuple, NULL, 0, &length);
    if (error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return KEEL_ERROR_STORED_FORMAT;
    bool grown = grow(&list, &all->capacity, all->count + 1, sizeof *all->list);
    all->list = list;
    grown = grown && grow(&labels, &all->labels_capacity, all->labels_length + length, 1);
    all->labels = labels;
    if (!grown)
        return NO_MEMORY;
    error = keel_tuple_pack(tuple, all->labels + all->labels_length, length, &length);
    if (error)
        return KEEL_ERROR_STORED_FORMAT;
    all->list[all->count] = (struct candidate){distance_squared(all->x, all->y, x, y), all->count,
                                               x, y, all->labels_length, length};
    all->count++;
    all->labels_length += length;
    return 0;
}

static int by_distance(const void *a, const void *b) {
    const struct candidate *left = a, *right = b;
    if (left->distance_squared != right->distance_squared)
        return left->distance_squared < right->distance_squared ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

static void sort_candidates(struct candidates *all) {
    if (all->count)
        qsort(all->list, all->count, sizeof *all->list, by_distance);
}

static fdb_error_t scan_candidates(struct query *query, struct recipe_scan *scan,
                                   struct candidates *all) {
    bool found = true;
    fdb_error_t error = 0;
    while (!error) {
        keel_bytes key, value;
        keel_element label;
        uint64_t z;
        uint32_t x, y;
        error = recipe_scan_next(scan, &key, &value, &found);
        if (error || !found)
            return error;
        FDBKeyValue row = {.key = key.data, .key_length = (int)key.length};
        error = read_place(query, &row, &z, &label);
        keel_spatial_xy(z, &x, &y);
        if (!error)
            error = add_candidate(all, &label, x, y);
    }
    return error;
}

/* The rows beside the place on the curve. Snapshots: they only say how far to look. */
static fdb_error_t look_beside(struct query *query, int count, struct candidates *all) {
    struct recipe_span before, behind;
    struct recipe_scan back, forth;
    fdb_error_t error =
        recipe_span_of(&query->places.by_place, keel_tuple_of(NULL, 0), &before);
    behind = before;
    if (!error)
        error = pack_place(query, keel_spatial_z(all->x, all->y), &behind.begin);
    if (error)
        return error;
    before.end = behind.begin;
    recipe_scan_open(&back, query->tr, &before, count, true, true);
    recipe_scan_open(&forth, query->tr, &behind, count, false, true);
    error = scan_candidates(query, &back, all);
    if (!error)
        error = scan_candidates(query, &forth, all);
    recipe_scan_close(&back);
    recipe_scan_close(&forth);
    return error;
}

/* A distance within which there are `count` labels; all of the plane if there are not so many. */
static fdb_error_t far_enough(FDBTransaction *tr, const keel_subspace *space, int count,
                              struct candidates *all, uint64_t *radius) {
    struct query *query = calloc(1, sizeof *query);
    if (!query)
        return NO_MEMORY;
    query->tr = tr;
    fdb_error_t error = places_of(space, &query->places);
    if (!error)
        error = look_beside(query, count, all);
    free(query);
    if (error)
        return error;
    sort_candidates(all);
    *radius = (uint64_t)1 << 33;
    if (all->count >= (size_t)count)
        *radius = (uint64_t)sqrtl((long double)all->list[count - 1].distance_squared) + 1;
    return 0;
}

/* Circles from an eighth of the distance on, until one holds enough. */
static fdb_error_t look_around(FDBTransaction *tr, const keel_subspace *space, int count,
                               struct candidates *all) {
    uint64_t radius = 0;
    fdb_error_t error = far_enough(tr, space, count, all, &radius);
    bool everything = all->count < (size_t)count;
    for (uint64_t reach = everything ? radius : radius / 8 + 1; !error; reach *= 2) {
        if (reach > radius)
            reach = radius;
        struct shape shape = circle(all->x, all->y, reach);
        all->count = all->labels_length = 0;
        error = ask(tr, space, &shape, add_candidate, all);
        if (all->count >= (size_t)count || reach == radius)
            break;
    }
    sort_candidates(all);
    return error;
}

KEEL_EXPORT fdb_error_t keel_spatial_nearest(FDBTransaction *tr, const keel_subspace *space,
                                             uint32_t x, uint32_t y, int count,
                                             keel_spatial_visitor visit, void *context) {
    struct candidates all = {.x = x, .y = y};
    if (!tr || !space || !visit || count < 0)
        return KEEL_ERROR_ARGUMENT;
    if (count == 0)
        return 0;
    fdb_error_t error = look_around(tr, space, count, &all);
    for (size_t i = 0; !error && i < all.count && i < (size_t)count; i++) {
        const struct candidate *next = &all.list[i];
        keel_bytes packed = keel_bytes_of(all.labels + next->label_offset, next->label_length);
        keel_tuple_iterator it = keel_tuple_iterate(packed);
        keel_element label;
        error = keel_tuple_next(&it, &label);
        if (!error)
            error = visit(context, &label, next->x, next->y);
    }
    free(all.list);
    free(all.labels);
    return error;
}

/* ---- Latitude and longitude ---- */

static const double EARTH_RADIUS_METERS = 6371008.8;
static const double STEPS = 4294967295.0;
static const double DEGREE = 3.14159265358979323846 / 180;

KEEL_EXPORT fdb_error_t keel_spatial_from_degrees(double latitude, double longitude, uint32_t *x,
                                                  uint32_t *y) {
    if (!x || !y)
        return KEEL_ERROR_ARGUMENT;
    if (!(latitude >= -90 && latitude <= 90 && longitude >= -180 && longitude <= 180))
        return KEEL_ERROR_BOX;
    *x = (uint32_t)((longitude + 180) / 360 * STEPS + 0.5);
    *y = (uint32_t)((latitude + 90) / 180 * STEPS + 0.5);
    return 0;
}

KEEL_EXPORT void keel_spatial_to_degrees(uint32_t x, uint32_t y, double *latitude,
                                         double *longitude) {
    *longitude = x / STEPS * 360 - 180;
    *latitude = y / STEPS * 180 - 90;
}

KEEL_EXPORT double keel_spatial_meters(double latitude_a, double longitude_a, double latitude_b,
                                       double longitude_b) {
    double up = sin((latitude_b - latitude_a) * DEGREE / 2);
    double along = sin((longitude_b - longitude_a) * DEGREE / 2);
    double half = up * up + cos(latitude_a * DEGREE) * cos(latitude_b * DEGREE) * along * along;
    return 2 * EARTH_RADIUS_METERS * asin(sqrt(half < 1 ? half : 1));
}

struct cap { /* of the sphere */
    double latitude, longitude, meters;
    keel_spatial_visitor visit;
    void *context;
};

static fdb_error_t visit_cap(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    struct cap *cap = context;
    double latitude, longitude;
    keel_spatial_to_degrees(x, y, &latitude, &longitude);
    if (keel_spatial_meters(cap->latitude, cap->longitude, latitude, longitude) > cap->meters)
        return 0;
    return cap->visit(cap->context, label, x, y);
}

/* A box in degrees, one step larger on each side for the sake of rounding. */
static fdb_error_t ask_degrees(FDBTransaction *tr, const keel_subspace *space, struct cap *cap,
                               const double latitudes[2], double west, double east) {
    struct shape shape = {0};
    keel_spatial_from_degrees(latitudes[0], west, &shape.x_min, &shape.y_min);
    keel_spatial_from_degrees(latitudes[1], east, &shape.x_max, &shape.y_max);
    shape.x_min -= shape.x_min > 0;
    shape.y_min -= shape.y_min > 0;
    shape.x_max += shape.x_max < UINT32_MAX;
    shape.y_max += shape.y_max < UINT32_MAX;
    return ask(tr, space, &shape, visit_cap, cap);
}

/* How many degrees of longitude a cap reaches to either side; 180 where it holds a pole. */
static double reach_degrees(const struct cap *cap, double angle) {
    double up = fabs(cap->latitude) * DEGREE + angle;
    if (up >= 90 * DEGREE)
        return 180;
    double reach = asin(fmin(1, sin(angle) / cos(cap->latitude * DEGREE))) / DEGREE;
    return reach + 1e-6;
}

KEEL_EXPORT fdb_error_t keel_spatial_within_meters(FDBTransaction *tr, const keel_subspace *space,
                                                   double latitude, double longitude, double meters,
                                                   keel_spatial_visitor visit, void *context) {
    struct cap cap = {latitude, longitude, meters, visit, context};
    uint32_t x, y;
    fdb_error_t error = keel_spatial_from_degrees(latitude, longitude, &x, &y);
    if (error)
        return error;
    if (!visit || !(meters >= 0))
        return KEEL_ERROR_ARGUMENT;
    double angle = fmin(meters / EARTH_RADIUS_METERS, 180 * DEGREE);
    double reach = reach_degrees(&cap, angle), degrees = angle / DEGREE;
    double latitudes[2] = {fmax(latitude - degrees, -90), fmin(latitude + degrees, 90)};
    double west = longitude - reach, east = longitude + reach;
    if (reach >= 180)
        return ask_degrees(tr, space, &cap, latitudes, -180, 180);
    if (west > -180 && east < 180)
        return ask_degrees(tr, space, &cap, latitudes, west, east);
    double edge = west <= -180 ? west + 360 : west; /* across the 180th meridian: two boxes */
    error = ask_degrees(tr, space, &cap, latitudes, edge, 180);
    return error ? error
                 : ask_degrees(tr, space, &cap, latitudes, -180, east >= 180 ? east - 360 : east);
}
