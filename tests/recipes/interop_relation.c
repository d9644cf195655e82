/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One half of the interoperation test of the relation recipe; the other is
 * tests/clients/python/recipe_relation.py, which has the Python code of the document. Both know one
 * set of users and groups. We write both directions, and read the one that the document has.
 *
 *     interop_relation write DATABASE     writes it
 *     interop_relation check DATABASE     reads what is there, whoever wrote it
 */
#include <keel/relation.h>

#include <stdio.h>
#include <stdlib.h>

enum { USERS = 15, GROUPS = 6 };

static int failures;

static void check(int holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    failures += !holds;
}

static void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

static keel_relation both_ways, one_way;
static const keel_relationship BELONGS_TO = {.name = "belongs_to"};

static int belongs(int user, int group) {
    return (user + group * 2) % 5 < 2;
}

static keel_element group_of(char *buffer, size_t capacity, int number) {
    snprintf(buffer, capacity, "group %d", number);
    return keel_element_of_string(buffer);
}

static fdb_error_t write_all(FDBTransaction *tr, void *context) {
    char region[20], group[20];
    (void)context;
    fdb_error_t error = 0;
    for (int u = 0; u < USERS && !error; u++) {
        snprintf(region, sizeof region, "region %d", u % 4);
        error = keel_relation_set_attribute(tr, &both_ways, KEEL_ELEMENT(u), "region",
                                            keel_bytes_of_string(region));
        for (int g = 0; g < GROUPS && !error; g++) {
            keel_element target = group_of(group, sizeof group, g);
            error = keel_relation_add(tr, &both_ways, &BELONGS_TO, KEEL_ELEMENT(u), target);
            if (!error && !belongs(u, g))
                error = keel_relation_remove(tr, &both_ways, &BELONGS_TO, KEEL_ELEMENT(u), target);
        }
    }
    return error;
}

struct walk {
    int good, seen;
};

static fdb_error_t expect(const keel_element *source, const keel_element *target, void *context) {
    struct walk *walk = context;
    char group[20] = "";
    size_t length = 0;
    int64_t user = -1;
    walk->seen++;
    if (!keel_element_int(source, &user) &&
        !keel_element_copy(target, (uint8_t *)group, sizeof group - 1, &length))
        walk->good += strncmp(group, "group ", 6) == 0 && belongs((int)user, atoi(group + 6));
    return 0;
}

static fdb_error_t check_attributes(FDBTransaction *tr) {
    fdb_error_t error = 0;
    int good = 0;
    for (int u = 0; u < USERS && !error; u++) {
        char region[20];
        uint8_t *value;
        size_t length;
        snprintf(region, sizeof region, "region %d", u % 4);
        error = keel_relation_get_attribute(tr, &one_way, KEEL_ELEMENT(u), "region", &value,
                                            &length);
        if (!error) {
            good += value && length == strlen(region) && memcmp(value, region, length) == 0;
            free(value);
        }
    }
    check(!error && good == USERS, "relation: attributes");
    return error;
}

static fdb_error_t check_all(FDBTransaction *tr, void *context) {
    struct walk targets = {0, 0}, sources = {0, 0}, pairs = {0, 0};
    int expected = 0, right = 0;
    char group[20];
    (void)context;
    fdb_error_t error = check_attributes(tr);
    for (int u = 0; u < USERS && !error; u++) {
        error = keel_relation_targets(tr, &one_way, &BELONGS_TO, KEEL_ELEMENT(u), expect, &targets);
        for (int g = 0; g < GROUPS && !error; g++) {
            bool related = false;
            error = keel_relation_contains(tr, &one_way, &BELONGS_TO, KEEL_ELEMENT(u),
                                           group_of(group, sizeof group, g), &related);
            right += related == belongs(u, g);
            expected += belongs(u, g);
        }
    }
    for (int g = 0; g < GROUPS && !error; g++)
        error = keel_relation_sources(tr, &one_way, &BELONGS_TO, group_of(group, sizeof group, g),
                                      expect, &sources);
    if (!error)
        error = keel_relation_pairs(tr, &one_way, &BELONGS_TO, expect, &pairs);
    check(!error && targets.good == expected && targets.seen == expected, "relation: targets");
    check(!error && sources.good == expected && sources.seen == expected, "relation: sources");
    check(!error && pairs.good == expected && pairs.seen == expected, "relation: all pairs");
    check(!error && right == USERS * GROUPS, "relation: whether two are related");
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    keel_subspace subspace, reverse;
    if (argc != 3) {
        fprintf(stderr, "usage: %s write|check DATABASE\n", argv[0]);
        return 2;
    }
    must(keel_open(argv[2], &db), "open");
    must(keel_subspace_tuple(KEEL_TUPLE("ER"), &subspace), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("ER reverse"), &reverse), "subspace");
    must(keel_relation_both_ways(&subspace, &reverse, &both_ways), "model");
    keel_relation_one_way(&subspace, &one_way);
    if (strcmp(argv[1], "write") == 0)
        must(keel_run(keel_fdb(db), write_all, NULL), "write");
    else
        must(keel_run_read(keel_fdb(db), check_all, NULL), "check");
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
