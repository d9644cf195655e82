/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points in the plane with labels: where is a label, which labels are in a box, in a circle, or
 * nearest to a place.
 *
 *     error = keel_spatial_set(tr, &space, KEEL_ELEMENT("home"), 10, 20);
 *     error = keel_spatial_box(tr, &space, 0, 0, 100, 100, visit, context);
 *
 * Keys, both with an empty value:
 *
 *     prefix + ("L", label, z)    where a label is
 *     prefix + ("Z", z, label)    who is at a place
 *
 * z interleaves the bits of both coordinates, x in the even ones: the Z-order curve, on which
 * places that are close in the plane are mostly close. With the empty prefix these are the keys of
 * FoundationDB's documents, whose Python code works on the same data (their Java code too, where y
 * is below 2^31: above, its z is negative).
 *
 * A label is one element of any scalar type, an integer or a string most of the time, and is in one
 * place. Many labels may share a place.
 *
 * Every function takes a transaction, never commits, blocks until it has read what it needs (not on
 * the network thread) and writes nothing unless it returns 0. Errors of all: ARGUMENT (NULL, a
 * label that is null, a tuple or an incomplete versionstamp), EMPTY_NAME for an empty label,
 * NOT_UTF8, key_too_large (2102) for a label that does not fit in a key, STORED_FORMAT for rows
 * that are not such keys, 1501 without memory, the errors of the reads.
 *
 * Conflicts: set, move and remove with others of the same label; queries with changes inside the
 * parts of the plane they read, which are those asked for and a little around them.
 *
 * Threads: any; what a transaction allows is the library's to say.
 */
#ifndef KEEL_SPATIAL_H
#define KEEL_SPATIAL_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Labels ---- */

/* Puts a label at a place, from where it was if it was somewhere. Reads that row. */
fdb_error_t keel_spatial_set(FDBTransaction *tr, const keel_subspace *space, keel_element label,
                             uint32_t x, uint32_t y);
/* The same for a label that is somewhere. NOT_FOUND. */
fdb_error_t keel_spatial_move(FDBTransaction *tr, const keel_subspace *space, keel_element label,
                              uint32_t x, uint32_t y);
/* Where a label is. NOT_FOUND. Reads one row. */
fdb_error_t keel_spatial_get(FDBTransaction *tr, const keel_subspace *space, keel_element label,
                             uint32_t *x, uint32_t *y);
/* NOT_FOUND. Reads one row. */
fdb_error_t keel_spatial_remove(FDBTransaction *tr, const keel_subspace *space,
                                keel_element label);

/* ---- Queries ----
 *
 * `visit` is called for each label that fits, and no other; the label lasts until it returns. Its
 * non-zero answer ends the query and comes back. It must not use this transaction for reads that
 * depend on having seen all.
 *
 * What is asked for is cut into at most 64 pieces of the curve, which are read at once. All but
 * those at its border lie inside it; a piece at the border is read a few rows at a time, and rows
 * outside are jumped over. In points that are spread evenly it reads about a quarter more rows than
 * it visits, however many there are elsewhere.
 */
typedef fdb_error_t (*keel_spatial_visitor)(void *context, const keel_element *label, uint32_t x,
                                            uint32_t y);

/* The labels in a box, its edges included, in the order of the curve. BOX if a minimum is above its
   maximum. */
fdb_error_t keel_spatial_box(FDBTransaction *tr, const keel_subspace *space, uint32_t x_min,
                             uint32_t y_min, uint32_t x_max, uint32_t y_max,
                             keel_spatial_visitor visit, void *context);

/* The labels at most `radius` away, in the order of the curve. */
fdb_error_t keel_spatial_radius(FDBTransaction *tr, const keel_subspace *space, uint32_t x,
                                uint32_t y, uint32_t radius, keel_spatial_visitor visit,
                                void *context);

/*
 * The `count` labels nearest to a place, nearest first; of equally near ones those first on the
 * curve. Fewer if there are not so many. ARGUMENT if count is negative. Looks at `count` rows on
 * either side on the curve, then in circles that grow until they hold enough: in points that are
 * spread evenly about six times `count` rows.
 */
fdb_error_t keel_spatial_nearest(FDBTransaction *tr, const keel_subspace *space, uint32_t x,
                                 uint32_t y, int count, keel_spatial_visitor visit, void *context);

/* ---- Latitude and longitude ----
 *
 * The whole earth on the plane: longitude -180 to 180 is x from 0 to 2^32-1, latitude -90 to 90 is
 * y. A step is at most a centimetre.
 */

/* BOX if a number is not a latitude or longitude. */
fdb_error_t keel_spatial_from_degrees(double latitude, double longitude, uint32_t *x, uint32_t *y);
void keel_spatial_to_degrees(uint32_t x, uint32_t y, double *latitude, double *longitude);
/* Along the surface of a sphere as large as the earth, within half a percent of the truth. */
double keel_spatial_meters(double latitude_a, double longitude_a, double latitude_b,
                           double longitude_b);
/* The labels at most so many meters away, across the poles and the 180th meridian as well. BOX as
   above, ARGUMENT for a distance that is negative or no number. */
fdb_error_t keel_spatial_within_meters(FDBTransaction *tr, const keel_subspace *space,
                                       double latitude, double longitude, double meters,
                                       keel_spatial_visitor visit, void *context);

/* ---- The curve ---- */

/* The place of a point on the Z-order curve, the bits of x and y interleaved, and back again. */
uint64_t keel_spatial_z(uint32_t x, uint32_t y);
void keel_spatial_xy(uint64_t z, uint32_t *x, uint32_t *y);

#ifdef __cplusplus
}
#endif

#endif
