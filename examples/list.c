/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked lists: a playlist that is put together, changed in the middle, and played both ways.
 *
 *     cc list.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/list.h>

#include <stdio.h>

static keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

static fdb_error_t print(void *context, keel_bytes id, keel_bytes value) {
    (void)context;
    printf("  %.*s (%.*s)", (int)value.length, (const char *)value.data, (int)id.length,
           (const char *)id.data);
    return 0;
}

static fdb_error_t build(FDBTransaction *tr, void *context) {
    const keel_list_links two = KEEL_LIST_TWO_WAY;
    const keel_bytes end = KEEL_LIST_HEAD;
    fdb_error_t error = keel_list_clear(tr, context); /* what an earlier run left */
    if (!error)
        error = keel_list_insert_before(tr, context, two, end, text("s1"), text("overture"));
    if (!error)
        error = keel_list_insert_before(tr, context, two, end, text("s2"), text("waltz"));
    if (!error)
        error = keel_list_insert_before(tr, context, two, end, text("s3"), text("finale"));
    return error;
}

static fdb_error_t change(FDBTransaction *tr, void *context) {
    const keel_list_links two = KEEL_LIST_TWO_WAY;
    fdb_error_t error = keel_list_insert_after(tr, context, two, text("s1"), text("s4"),
                                               text("march"));
    return error ? error : keel_list_remove(tr, context, two, text("s2"));
}

static fdb_error_t play(FDBTransaction *tr, void *context) {
    printf("forwards: ");
    fdb_error_t error = keel_list_walk(tr, context, KEEL_LIST_HEAD, 0, print, NULL);
    printf("\nbackwards:");
    if (!error)
        error = keel_list_walk_back(tr, context, KEEL_LIST_HEAD, 0, print, NULL);
    printf("\n");
    return error;
}

int main(int argc, char **argv) {
    keel_db *db = NULL;
    keel_subspace playlist;
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "playlist"), &playlist);
    if (!error)
        error = keel_run(keel_fdb(db), build, &playlist);
    if (!error)
        error = keel_run_read(keel_fdb(db), play, &playlist);
    if (!error)
        error = keel_run(keel_fdb(db), change, &playlist);
    if (!error)
        error = keel_run_read(keel_fdb(db), play, &playlist);
    if (error)
        fprintf(stderr, "list: %s (%d)\n", keel_error_text(error), error);
    keel_close(db);
    return error != 0;
}
