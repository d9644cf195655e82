/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People and companies: attributes, a one-to-many relationship read from both sides, and what
 * happens when it is to be broken.
 *
 *     relation [DATABASE]
 */
#include <keel/relation.h>

#include <stdio.h>
#include <stdlib.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "relation: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static keel_relation model;
static const keel_relationship EMPLOYS = {.name = "employs", .sources_max = 1}; /* one to many */

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    keel_element ann = KEEL_ELEMENT("ann"), bob = KEEL_ELEMENT("bob"), acme = KEEL_ELEMENT("acme");
    (void)context;
    fdb_error_t error =
        keel_relation_set_attribute(tr, &model, ann, "region", keel_bytes_of_string("north"));
    if (!error)
        error = keel_relation_add(tr, &model, &EMPLOYS, acme, ann);
    if (!error)
        error = keel_relation_add(tr, &model, &EMPLOYS, acme, bob);
    return error;
}

static fdb_error_t hire_twice(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_relation_add(tr, &model, &EMPLOYS, KEEL_ELEMENT("umbrella"), KEEL_ELEMENT("ann"));
}

static fdb_error_t retire(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_relation_delete_entity(tr, &model, &EMPLOYS, 1, KEEL_ELEMENT("bob"));
}

static fdb_error_t print(const keel_element *source, const keel_element *target, void *context) {
    char from[64], to[64];
    size_t length;
    (void)context;
    fdb_error_t error = keel_element_print(source, from, sizeof from, &length);
    if (!error)
        error = keel_element_print(target, to, sizeof to, &length);
    if (!error)
        printf("  %s employs %s\n", from, to);
    return error;
}

static fdb_error_t show(FDBTransaction *tr, void *context) {
    printf("Whom acme employs:\n");
    fdb_error_t error =
        keel_relation_targets(tr, &model, &EMPLOYS, KEEL_ELEMENT("acme"), print, context);
    printf("Who employs ann:\n");
    if (!error)
        error = keel_relation_sources(tr, &model, &EMPLOYS, KEEL_ELEMENT("ann"), print, context);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    keel_subspace subspace, reverse;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "ER"), &subspace), "subspace");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "ER reverse"), &reverse), "subspace");
    check(keel_relation_both_ways(&subspace, &reverse, &model), "model");
    check(keel_run(keel_fdb(db), fill, NULL), "fill");
    check(keel_run_read(keel_fdb(db), show, NULL), "show");
    fdb_error_t error = keel_run(keel_fdb(db), hire_twice, NULL);
    printf("A second employer for ann: %s\n", keel_error_text(error));
    if (error != KEEL_ERROR_CARDINALITY)
        return 1;
    check(keel_run(keel_fdb(db), retire, NULL), "retire");
    printf("Without bob. ");
    check(keel_run_read(keel_fdb(db), show, NULL), "show");
    keel_close(db);
    return 0;
}
