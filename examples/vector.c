/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors: a year's temperatures with holes, and a small board of two dimensions.
 *
 *     cc vector.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/vector.h>

#include <stdio.h>
#include <stdlib.h>

static fdb_error_t print(void *context, int64_t index, keel_bytes value) {
    (void)context;
    printf("  day %lld: %.*s\n", (long long)index, (int)value.length, (const char *)value.data);
    return 0;
}

static fdb_error_t measure(FDBTransaction *tr, void *context) {
    keel_subspace *days = context;
    int64_t size = 0;
    fdb_error_t error = keel_vector_truncate(tr, days, 0); /* what an earlier run left */
    if (!error)
        error = keel_vector_push(tr, days, keel_bytes_of_string("21"), NULL);
    if (!error)
        error = keel_vector_push(tr, days, keel_bytes_of_string("19"), NULL);
    if (!error)
        error = keel_vector_set(tr, days, 4, keel_bytes_of_string("24")); /* days 2, 3: holes */
    if (!error)
        error = keel_vector_size(tr, days, &size);
    if (!error)
        printf("%lld days, those without a value shown as '-':\n", (long long)size);
    keel_bytes none = keel_bytes_of_string("-");
    if (!error)
        error = keel_vector_scan(tr, days, 0, KEEL_VECTOR_END, &none, print, NULL);
    return error;
}

static fdb_error_t pop(FDBTransaction *tr, void *context) {
    uint8_t *value;
    size_t length;
    fdb_error_t error = keel_vector_pop(tr, context, keel_bytes_of_string("?"), &value, &length);
    if (error)
        return error;
    printf("popped: %s\n", value ? (char *)value : "nothing");
    free(value);
    return 0;
}

static fdb_error_t play(FDBTransaction *tr, void *context) {
    const keel_subspace *board = context;
    const int64_t from[] = {6, 4}, to[] = {4, 4};
    uint8_t *piece = NULL;
    size_t length;
    fdb_error_t error = keel_vector_erase_at(tr, board, NULL, 0);
    if (!error)
        error = keel_vector_set_at(tr, board, from, 2, keel_bytes_of_string("pawn"));
    if (!error)
        error = keel_vector_swap_at(tr, board, from, to, 2); /* with an empty square: a move */
    if (!error)
        error = keel_vector_get_at(tr, board, to, 2, &piece, &length);
    if (!error)
        printf("at (4, 4): %s\n", piece ? (char *)piece : "nothing");
    free(piece);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db = NULL;
    keel_subspace days, board;
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "days"), &days);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "board"), &board);
    if (!error)
        error = keel_run(keel_fdb(db), measure, &days);
    if (!error)
        error = keel_run(keel_fdb(db), pop, &days);
    if (!error)
        error = keel_run(keel_fdb(db), play, &board);
    if (error)
        fprintf(stderr, "vector: %s (%d)\n", keel_error_text(error), error);
    keel_close(db);
    return error != 0;
}
