/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places on the earth: stores some cities, then asks which are in a box, which are within a distance
 * and which are nearest.
 *
 *     cc spatial.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/run.h>
#include <keel/spatial.h>

#include <stdio.h>

static const struct {
    const char *name;
    double latitude, longitude;
} CITIES[] = {
    {"Berlin", 52.52, 13.405}, {"Paris", 48.857, 2.352},    {"London", 51.507, -0.128},
    {"Suva", -18.142, 178.44}, {"Apia", -13.833, -171.767}, {"Prague", 50.088, 14.42},
};

static keel_subspace places;

static fdb_error_t store(FDBTransaction *tr, void *context) {
    fdb_error_t error = 0;
    (void)context;
    for (size_t i = 0; !error && i < sizeof CITIES / sizeof *CITIES; i++) {
        uint32_t x, y;
        error = keel_spatial_from_degrees(CITIES[i].latitude, CITIES[i].longitude, &x, &y);
        if (!error)
            error = keel_spatial_set(tr, &places, KEEL_ELEMENT(CITIES[i].name), x, y);
    }
    return error;
}

static fdb_error_t show(void *context, const keel_element *label, uint32_t x, uint32_t y) {
    char name[64];
    size_t length;
    double latitude, longitude;
    (void)context;
    fdb_error_t error = keel_element_print(label, name, sizeof name, &length);
    keel_spatial_to_degrees(x, y, &latitude, &longitude);
    if (!error)
        printf("  %-10s %8.3f %8.3f\n", name, latitude, longitude);
    return error;
}

static fdb_error_t ask(FDBTransaction *tr, void *context) {
    uint32_t x[2], y[2];
    (void)context;
    fdb_error_t error = keel_spatial_from_degrees(48, 0, &x[0], &y[0]);
    if (!error)
        error = keel_spatial_from_degrees(53, 15, &x[1], &y[1]);
    printf("between 48 and 53 degrees north, 0 and 15 east:\n");
    if (!error)
        error = keel_spatial_box(tr, &places, x[0], y[0], x[1], y[1], show, NULL);
    printf("within 1300 km of Suva, across the 180th meridian:\n");
    if (!error)
        error = keel_spatial_within_meters(tr, &places, -18.142, 178.44, 1300000, show, NULL);
    printf("the two nearest on the map to 50 north, 10 east:\n");
    if (!error)
        error = keel_spatial_from_degrees(50, 10, &x[0], &y[0]);
    return error ? error : keel_spatial_nearest(tr, &places, x[0], y[0], 2, show, NULL);
}

int main(int argc, char **argv) {
    keel_db *db;
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "places"), &places);
    if (!error)
        error = keel_run(keel_fdb(db), store, NULL);
    if (!error)
        error = keel_run_read(keel_fdb(db), ask, NULL);
    if (error) {
        fprintf(stderr, "spatial: %s (%d)\n", keel_error_text(error), error);
        return 1;
    }
    keel_close(db);
    return 0;
}
