/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes that students take, a set for each; and words of a text, counted.
 *
 *     multimap [DATABASE]
 */
#include <keel/multimap.h>

#include <stdio.h>
#include <stdlib.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "multimap: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static keel_multimap classes, words = {.flags = KEEL_MULTIMAP_COUNTED | KEEL_MULTIMAP_TOTALS};

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    static const char *const TEXT[] = {"the", "cat", "and", "the", "dog", "and", "the", "owl"};
    (void)context;
    keel_element ann = KEEL_ELEMENT("ann"), text = KEEL_ELEMENT("text");
    fdb_error_t error = keel_multimap_add(tr, &classes, ann, KEEL_ELEMENT("chemistry"), 1);
    if (!error)
        error = keel_multimap_add(tr, &classes, ann, KEEL_ELEMENT("art"), 1);
    if (!error)
        error = keel_multimap_add(tr, &classes, ann, KEEL_ELEMENT("art"), 1); /* no difference */
    if (!error)
        error = keel_multimap_remove_key(tr, &words, text);
    for (size_t i = 0; i < sizeof TEXT / sizeof TEXT[0] && !error; i++)
        error = keel_multimap_add(tr, &words, text, KEEL_ELEMENT(TEXT[i]), 1);
    return error;
}

static fdb_error_t print(const keel_element *value, int64_t count, void *context) {
    char text[64];
    size_t length;
    (void)context;
    fdb_error_t error = keel_element_print(value, text, sizeof text, &length);
    if (!error)
        printf("  %s, %lld\n", text, (long long)count);
    return error;
}

static fdb_error_t show(FDBTransaction *tr, void *context) {
    int64_t total = 0;
    bool taken = false;
    printf("Ann's classes:\n");
    fdb_error_t error = keel_multimap_get(tr, &classes, KEEL_ELEMENT("ann"), print, context);
    if (!error)
        error = keel_multimap_contains(tr, &classes, KEEL_ELEMENT("ann"), KEEL_ELEMENT("maths"),
                                       &taken);
    printf("Maths is %samong them. Words, and how often:\n", taken ? "" : "not ");
    if (!error)
        error = keel_multimap_get(tr, &words, KEEL_ELEMENT("text"), print, context);
    if (!error)
        error = keel_multimap_total(tr, &words, KEEL_ELEMENT("text"), true, &total);
    printf("%lld words in all.\n", (long long)total);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "enroll"), &classes.subspace), "subspace");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "words"), &words.subspace), "subspace");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "word totals"), &words.totals), "subspace");
    check(keel_run(keel_fdb(db), fill, NULL), "fill");
    check(keel_run_read(keel_fdb(db), show, NULL), "show");
    keel_close(db);
    return 0;
}
