/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spatial: labels at places, one index a directory (keel/spatial.h). Places are two whole numbers from 0 to 2^32-1, or with --degrees a latitude and a
 * longitude, which the library lays on that plane; distances are then meters.
 *
 * Threads: one. Failure: a label that is nowhere is EXIT_NOT_FOUND; a query that finds nothing prints nothing and is fine.
 */
#include "recipes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct point {
    uint32_t x, y;
    double latitude, longitude; /* --degrees */
};

struct spatial {
    struct call *call;
    bool degrees;
    struct name label;
    struct point point, corner; /* the place, or the corners of a box */
    double meters;
    int64_t number; /* radius or count */
    struct results results;
};

/* ---- Arguments ---- */

static int spatial_begin(struct spatial *spatial, struct call *call, int count) {
    const char *degrees = NULL;
    const struct option_spec specs[] = {{"degrees", 'd', false, &degrees}, {0}};
    spatial->call = call;
    int code = call_begin(call, specs, count, count);
    spatial->degrees = degrees != NULL;
    return code;
}

static bool read_degrees(struct call *call, const char *text, double limit, double *degrees) {
    char *end;
    errno = 0;
    *degrees = strtod(text, &end);
    if (errno == 0 && end != text && *end == '\0' && fabs(*degrees) <= limit)
        return true;
    usage_error(&call->command, "%s: A %s is a number from -%.0f to %.0f", text, limit > 90 ? "longitude" : "latitude", limit, limit);
    return false;
}

/* Two arguments: X Y, or LATITUDE LONGITUDE. */
static bool read_point(struct spatial *spatial, char **arguments, struct point *point) {
    struct call *call = spatial->call;
    int64_t x, y;
    if (spatial->degrees)
        return read_degrees(call, arguments[0], 90, &point->latitude) && read_degrees(call, arguments[1], 180, &point->longitude) &&
               keel_spatial_from_degrees(point->latitude, point->longitude, &point->x, &point->y) == 0;
    if (!call_number(call, "A coordinate", arguments[0], 0, UINT32_MAX, &x) || !call_number(call, "A coordinate", arguments[1], 0, UINT32_MAX, &y))
        return false;
    point->x = (uint32_t)x;
    point->y = (uint32_t)y;
    return true;
}

static void spatial_free(struct spatial *spatial) {
    name_free(&spatial->label);
    results_free(&spatial->results);
}

static int spatial_report(struct spatial *spatial, fdb_error_t error) {
    return call_report(spatial->call, spatial->label.bytes.data ? spatial->call->argv[0] : NULL, error);
}

/* ---- Output ---- */

static json_t *place_json(const struct spatial *spatial, const keel_element *label, uint32_t x, uint32_t y) {
    json_t *object = json_pack("{s:o,s:I,s:I}", "label", name_json(label), "x", (json_int_t)x, "y", (json_int_t)y);
    double latitude, longitude;
    if (spatial->degrees) {
        keel_spatial_to_degrees(x, y, &latitude, &longitude);
        json_object_set_new(object, "latitude", json_real(latitude));
        json_object_set_new(object, "longitude", json_real(longitude));
    }
    return object;
}

static fdb_error_t add_place(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    struct spatial *spatial = context;
    double latitude, longitude;
    if (spatial->call->session->json) {
        results_json(&spatial->results, place_json(spatial, label, x, y));
        return 0;
    }
    results_name(&spatial->results, label);
    keel_spatial_to_degrees(x, y, &latitude, &longitude);
    if (spatial->degrees)
        results_format(&spatial->results, "  %.6f %.6f\n", latitude, longitude);
    else
        results_format(&spatial->results, "  %u %u\n", x, y);
    return 0;
}

/* A query: runs, prints, reports. */
static int spatial_query(struct spatial *spatial, keel_function function) {
    fdb_error_t error = read_bounded(spatial->call->session, function, spatial);
    if (error)
        return spatial_report(spatial, error);
    results_print(&spatial->results);
    return EXIT_OK;
}

static int spatial_write(struct spatial *spatial, keel_function function) {
    fdb_error_t error = session_write(spatial->call->session, function, spatial);
    if (error)
        return spatial_report(spatial, error);
    answer_write(spatial->call->session, place_json(spatial, &spatial->label.element, spatial->point.x, spatial->point.y));
    return EXIT_OK;
}

/* ---- Labels ---- */

static fdb_error_t set_label(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    fdb_error_t error = call_create(spatial->call, tr, &space);
    return error ? error : keel_spatial_set(tr, &space, spatial->label.element, spatial->point.x, spatial->point.y);
}

static fdb_error_t move_label(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    fdb_error_t error = call_open(spatial->call, tr, &space);
    return error ? error : keel_spatial_move(tr, &space, spatial->label.element, spatial->point.x, spatial->point.y);
}

static int place_label(struct call *call, keel_function function) {
    struct spatial spatial = {0};
    int code = spatial_begin(&spatial, call, 3);
    if (!code && (!call_name(call, call->argv[0], &spatial.label) || !read_point(&spatial, call->argv + 1, &spatial.point)))
        code = EXIT_USAGE;
    if (!code)
        code = spatial_write(&spatial, function);
    spatial_free(&spatial);
    return code;
}

static int spatial_set(struct call *call) {
    return place_label(call, set_label);
}

static int spatial_move(struct call *call) {
    return place_label(call, move_label);
}

static fdb_error_t get_label(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    results_clear(&spatial->results);
    fdb_error_t error = call_open(spatial->call, tr, &space);
    if (!error)
        error = keel_spatial_get(tr, &space, spatial->label.element, &spatial->point.x, &spatial->point.y);
    return error ? error : add_place(spatial, &spatial->label.element, spatial->point.x, spatial->point.y);
}

static int spatial_get(struct call *call) {
    struct spatial spatial = {0};
    int code = spatial_begin(&spatial, call, 1);
    if (!code && !call_name(call, call->argv[0], &spatial.label))
        code = EXIT_USAGE;
    if (!code)
        code = spatial_query(&spatial, get_label);
    spatial_free(&spatial);
    return code;
}

static fdb_error_t remove_label(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    fdb_error_t error = call_open(spatial->call, tr, &space);
    if (!error)
        error = keel_spatial_get(tr, &space, spatial->label.element, &spatial->point.x, &spatial->point.y);
    return error ? error : keel_spatial_remove(tr, &space, spatial->label.element);
}

static int spatial_rm(struct call *call) {
    struct spatial spatial = {0};
    int code = spatial_begin(&spatial, call, 1);
    if (!code && !call_name(call, call->argv[0], &spatial.label))
        code = EXIT_USAGE;
    if (!code)
        code = spatial_write(&spatial, remove_label);
    spatial_free(&spatial);
    return code;
}

/* ---- Queries ---- */

static fdb_error_t find_in_box(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    results_clear(&spatial->results);
    fdb_error_t error = call_open(spatial->call, tr, &space);
    if (error)
        return error;
    return keel_spatial_box(tr, &space, spatial->point.x, spatial->point.y, spatial->corner.x, spatial->corner.y, add_place, spatial);
}

static int spatial_box(struct call *call) {
    struct spatial spatial = {0};
    int code = spatial_begin(&spatial, call, 4);
    if (!code && (!read_point(&spatial, call->argv, &spatial.point) || !read_point(&spatial, call->argv + 2, &spatial.corner)))
        code = EXIT_USAGE;
    if (!code && (spatial.point.x > spatial.corner.x || spatial.point.y > spatial.corner.y))
        code = usage_error(&call->command, "The first corner has the smaller numbers, the second the larger ones");
    if (!code)
        code = spatial_query(&spatial, find_in_box);
    spatial_free(&spatial);
    return code;
}

static int spatial_ls(struct call *call) {
    struct spatial spatial = {.corner = {.x = UINT32_MAX, .y = UINT32_MAX}};
    int code = spatial_begin(&spatial, call, 0);
    if (!code)
        code = spatial_query(&spatial, find_in_box);
    spatial_free(&spatial);
    return code;
}

static fdb_error_t find_around(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    const struct point *point = &spatial->point;
    keel_subspace space;
    results_clear(&spatial->results);
    fdb_error_t error = call_open(spatial->call, tr, &space);
    if (error)
        return error;
    if (spatial->degrees)
        return keel_spatial_within_meters(tr, &space, point->latitude, point->longitude, spatial->meters, add_place, spatial);
    return keel_spatial_radius(tr, &space, point->x, point->y, (uint32_t)spatial->number, add_place, spatial);
}

static bool read_distance(struct spatial *spatial, const char *text) {
    char *end;
    if (!spatial->degrees)
        return call_number(spatial->call, "A distance", text, 0, UINT32_MAX, &spatial->number);
    spatial->meters = strtod(text, &end);
    if (end != text && *end == '\0' && spatial->meters >= 0 && isfinite(spatial->meters))
        return true;
    usage_error(&spatial->call->command, "%s: A distance is a number of meters", text);
    return false;
}

static int spatial_radius(struct call *call) {
    struct spatial spatial = {0};
    int code = spatial_begin(&spatial, call, 3);
    if (!code && (!read_point(&spatial, call->argv, &spatial.point) || !read_distance(&spatial, call->argv[2])))
        code = EXIT_USAGE;
    if (!code)
        code = spatial_query(&spatial, find_around);
    spatial_free(&spatial);
    return code;
}

static fdb_error_t find_nearest(FDBTransaction *tr, void *context) {
    struct spatial *spatial = context;
    keel_subspace space;
    results_clear(&spatial->results);
    fdb_error_t error = call_open(spatial->call, tr, &space);
    return error ? error : keel_spatial_nearest(tr, &space, spatial->point.x, spatial->point.y, (int)spatial->number, add_place, spatial);
}

static int spatial_nearest(struct call *call) {
    struct spatial spatial = {.call = call, .number = 1};
    const char *degrees = NULL, *count = NULL;
    const struct option_spec specs[] = {{"degrees", 'd', false, &degrees}, {"count", 'n', true, &count}, {0}};
    int code = call_begin(call, specs, 2, 2);
    spatial.degrees = degrees != NULL;
    if (!code && ((count && !options_number("count", count, 1, 100000, &spatial.number)) || !read_point(&spatial, call->argv, &spatial.point)))
        code = EXIT_USAGE;
    if (!code)
        code = spatial_query(&spatial, find_nearest);
    spatial_free(&spatial);
    return code;
}

static const struct subcommand spatial_table[] = {
    {"set", "[--degrees] DIRECTORY LABEL X Y", spatial_set, false},
    {"move", "[--degrees] DIRECTORY LABEL X Y", spatial_move, false},
    {"get", "[--degrees] DIRECTORY LABEL", spatial_get, true},
    {"rm", "[--degrees] DIRECTORY LABEL", spatial_rm, false},
    {"box", "[--degrees] DIRECTORY X1 Y1 X2 Y2", spatial_box, true},
    {"radius", "[--degrees] DIRECTORY X Y DISTANCE", spatial_radius, true},
    {"nearest", "[--degrees] [--count N] DIRECTORY X Y", spatial_nearest, true},
    {"ls", "[--degrees] DIRECTORY", spatial_ls, true},
    {0},
};

int run_spatial(struct session *session, int argc, char **argv) {
    return subcommand_run("spatial", spatial_table, session, argc, argv);
}
