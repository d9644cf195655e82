/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities and relationships, in models that go one way and both: attributes, both directions,
 * cardinalities with one transaction and with many threads, entities that disappear.
 */
#include <keel/relation.h>

#include "testing.h"

static keel_relation model_of(void **state) {
    keel_subspace subspace = testing_subspace("model"), reverse = testing_subspace("reverse");
    keel_relation model;
    if (*(const bool *)*state)
        ok(keel_relation_both_ways(&subspace, &reverse, &model));
    else
        keel_relation_one_way(&subspace, &model);
    return model;
}

static keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

static char seen[500];

static void note_element(const keel_element *element, const char *behind) {
    char printed[50];
    size_t length;
    ok(keel_element_print(element, printed, sizeof printed, &length));
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s", printed, behind);
}

static fdb_error_t note_pair(const keel_element *source, const keel_element *target,
                             void *context) {
    (void)context;
    note_element(source, ">");
    note_element(target, " ");
    return 0;
}

static fdb_error_t note_attribute(const keel_element *attribute, keel_bytes value, void *context) {
    (void)context;
    note_element(attribute, "=");
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.*s ", (int)value.length,
             (const char *)value.data);
    return 0;
}

static const keel_relationship MEMBER = {.name = "member"};

static fdb_error_t add(FDBTransaction *tr, const keel_relation *model,
                       const keel_relationship *relationship, int source, int target) {
    return keel_relation_add(tr, model, relationship, KEEL_ELEMENT(source), KEEL_ELEMENT(target));
}

static const char *targets(FDBTransaction *tr, const keel_relation *model,
                           const keel_relationship *relationship, int source) {
    seen[0] = 0;
    ok(keel_relation_targets(tr, model, relationship, KEEL_ELEMENT(source), note_pair, NULL));
    return seen;
}

static const char *sources(FDBTransaction *tr, const keel_relation *model,
                           const keel_relationship *relationship, int target) {
    seen[0] = 0;
    ok(keel_relation_sources(tr, model, relationship, KEEL_ELEMENT(target), note_pair, NULL));
    return seen;
}

static const char *pairs(FDBTransaction *tr, const keel_relation *model,
                         const keel_relationship *relationship) {
    seen[0] = 0;
    ok(keel_relation_pairs(tr, model, relationship, note_pair, NULL));
    return seen;
}

static void attributes(void **state) {
    keel_relation model = model_of(state);
    FDBTransaction *tr = testing_begin();
    keel_element ann = KEEL_ELEMENT("ann");
    uint8_t *value;
    size_t length;
    ok(keel_relation_set_attribute(tr, &model, ann, "region", text("north")));
    ok(keel_relation_set_attribute(tr, &model, ann, "age", text("30")));
    ok(keel_relation_set_attribute(tr, &model, ann, "age", text("31")));
    ok(keel_relation_set_attribute(tr, &model, KEEL_ELEMENT("bob"), "age", text("")));
    ok(keel_relation_get_attribute(tr, &model, ann, "age", &value, &length));
    assert_int_equal(length, 2);
    assert_memory_equal(value, "31", 2);
    free(value);
    ok(keel_relation_get_attribute(tr, &model, KEEL_ELEMENT("bob"), "age", &value, &length));
    assert_non_null(value);
    free(value);
    ok(keel_relation_get_attribute(tr, &model, ann, "name", &value, &length));
    assert_null(value);
    seen[0] = 0;
    ok(keel_relation_attributes(tr, &model, ann, note_attribute, NULL));
    assert_string_equal(seen, "\"age\"=31 \"region\"=north ");
    ok(keel_relation_delete_attribute(tr, &model, ann, "age"));
    ok(keel_relation_delete_attribute(tr, &model, ann, "age"));
    seen[0] = 0;
    ok(keel_relation_attributes(tr, &model, ann, note_attribute, NULL));
    assert_string_equal(seen, "\"region\"=north ");
    fdb_transaction_destroy(tr);
}

static void both_directions(void **state) {
    keel_relation model = model_of(state);
    FDBTransaction *tr = testing_begin();
    bool related = false;
    ok(add(tr, &model, &MEMBER, 1, 10));
    ok(add(tr, &model, &MEMBER, 1, 11));
    ok(add(tr, &model, &MEMBER, 2, 10));
    ok(add(tr, &model, &MEMBER, 2, 10));
    ok(keel_relation_set_attribute(tr, &model, KEEL_ELEMENT(1), "name", text("one")));
    assert_string_equal(targets(tr, &model, &MEMBER, 1), "1>10 1>11 ");
    assert_string_equal(sources(tr, &model, &MEMBER, 10), "1>10 2>10 ");
    assert_string_equal(sources(tr, &model, &MEMBER, 1), "");
    assert_string_equal(pairs(tr, &model, &MEMBER), "1>10 1>11 2>10 ");
    ok(keel_relation_contains(tr, &model, &MEMBER, KEEL_ELEMENT(1), KEEL_ELEMENT(10), &related));
    assert_true(related);
    ok(keel_relation_remove(tr, &model, &MEMBER, KEEL_ELEMENT(1), KEEL_ELEMENT(10)));
    ok(keel_relation_remove(tr, &model, &MEMBER, KEEL_ELEMENT(5), KEEL_ELEMENT(5)));
    ok(keel_relation_contains(tr, &model, &MEMBER, KEEL_ELEMENT(1), KEEL_ELEMENT(10), &related));
    assert_false(related);
    assert_string_equal(sources(tr, &model, &MEMBER, 10), "2>10 ");
    ok(keel_relation_set(tr, &model, &MEMBER, KEEL_ELEMENT(1), KEEL_ELEMENT(12)));
    assert_string_equal(targets(tr, &model, &MEMBER, 1), "1>12 ");
    assert_string_equal(sources(tr, &model, &MEMBER, 11), "");
    testing_commit(tr);
    assert_int_equal(testing_rows(&model.subspace), 3);
    if (model.both_ways)
        assert_int_equal(testing_rows(&model.reverse), 2);
}

static void many_to_one(void **state) {
    keel_relation model = model_of(state);
    const keel_relationship lives_in = {.name = "lives in", .targets_max = 1};
    FDBTransaction *tr = testing_begin();
    ok(add(tr, &model, &lives_in, 1, 10));
    ok(add(tr, &model, &lives_in, 1, 10)); /* the same again */
    ok(add(tr, &model, &lives_in, 2, 10));
    refused(tr, KEEL_ERROR_CARDINALITY, add(tr, &model, &lives_in, 1, 11));
    ok(keel_relation_set(tr, &model, &lives_in, KEEL_ELEMENT(1), KEEL_ELEMENT(11)));
    assert_string_equal(pairs(tr, &model, &lives_in), "1>11 2>10 ");
    ok(keel_relation_remove(tr, &model, &lives_in, KEEL_ELEMENT(2), KEEL_ELEMENT(10)));
    ok(add(tr, &model, &lives_in, 2, 12));
    fdb_transaction_destroy(tr);
}

static void one_to_many_and_one_to_one(void **state) {
    keel_relation model = model_of(state);
    const keel_relationship employs = {.name = "employs", .sources_max = 1};
    const keel_relationship married = {.name = "married", .targets_max = 1, .sources_max = 1};
    FDBTransaction *tr = testing_begin();
    if (!model.both_ways) {
        refused(tr, KEEL_ERROR_ARGUMENT, add(tr, &model, &employs, 1, 10));
        fdb_transaction_destroy(tr);
        return;
    }
    ok(add(tr, &model, &employs, 1, 10));
    ok(add(tr, &model, &employs, 1, 11));
    refused(tr, KEEL_ERROR_CARDINALITY, add(tr, &model, &employs, 2, 10));
    refused(tr, KEEL_ERROR_CARDINALITY,
            keel_relation_set(tr, &model, &employs, KEEL_ELEMENT(2), KEEL_ELEMENT(10)));
    ok(keel_relation_set(tr, &model, &employs, KEEL_ELEMENT(1), KEEL_ELEMENT(10)));
    ok(add(tr, &model, &employs, 2, 11));
    assert_string_equal(pairs(tr, &model, &employs), "1>10 2>11 ");
    ok(add(tr, &model, &married, 1, 2));
    refused(tr, KEEL_ERROR_CARDINALITY, add(tr, &model, &married, 1, 3));
    refused(tr, KEEL_ERROR_CARDINALITY, add(tr, &model, &married, 3, 2));
    ok(add(tr, &model, &married, 3, 4));
    ok(add(tr, &model, &married, 1, 2));
    const keel_relationship shoes = {.name = "wears", .targets_max = 2};
    ok(add(tr, &model, &shoes, 1, 1));
    ok(add(tr, &model, &shoes, 1, 2));
    refused(tr, KEEL_ERROR_CARDINALITY, add(tr, &model, &shoes, 1, 3));
    fdb_transaction_destroy(tr);
}

static void the_last_place_is_taken_once(void **state) {
    keel_relation model = model_of(state);
    const keel_relationship one = {.name = "r", .targets_max = 1};
    FDBTransaction *a = testing_begin(), *b = testing_begin(), *c = testing_begin();
    ok(add(a, &model, &one, 1, 10));
    ok(add(b, &model, &one, 1, 11));
    ok(add(c, &model, &one, 2, 10)); /* another source: no conflict */
    testing_commit(a);
    assert_int_equal(testing_try_commit(b), 1020);
    testing_commit(c);
    a = testing_begin(), b = testing_begin();
    ok(add(a, &model, &MEMBER, 1, 10)); /* without limits all are blind */
    ok(add(b, &model, &MEMBER, 1, 10));
    testing_commit(a);
    testing_commit(b);
}

/* What is replaced or deleted has been read: a pair that appears meanwhile does not survive. */
static void a_pair_appears_meanwhile(void **state) {
    keel_relation model = model_of(state);
    FDBTransaction *set = testing_begin(), *drop = testing_begin(), *tr = testing_begin();
    ok(keel_relation_set(set, &model, &MEMBER, KEEL_ELEMENT(1), KEEL_ELEMENT(10)));
    ok(keel_relation_delete_entity(drop, &model, &MEMBER, 1, KEEL_ELEMENT(20)));
    fdb_transaction_set(drop, (const uint8_t *)"t", 1, NULL, 0);
    ok(add(tr, &model, &MEMBER, 1, 11));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(set), 1020);
    tr = testing_begin();
    ok(add(tr, &model, &MEMBER, 2, 20));
    testing_commit(tr);
    assert_int_equal(testing_try_commit(drop), 1020);
}

static void entities_disappear(void **state) {
    keel_relation model = model_of(state);
    const keel_relationship knows = {.name = "knows"};
    const keel_relationship all[] = {MEMBER, knows};
    FDBTransaction *tr = testing_begin();
    for (int i = 0; i < 5; i++) {
        ok(add(tr, &model, &MEMBER, i, 100));
        ok(add(tr, &model, &knows, 2, i));
        ok(add(tr, &model, &knows, i, 2));
        ok(keel_relation_set_attribute(tr, &model, KEEL_ELEMENT(i), "name", text("x")));
    }
    ok(keel_relation_delete_entity(tr, &model, all, 2, KEEL_ELEMENT(2)));
    assert_string_equal(pairs(tr, &model, &knows), "");
    assert_string_equal(sources(tr, &model, &MEMBER, 100), "0>100 1>100 3>100 4>100 ");
    seen[0] = 0;
    ok(keel_relation_attributes(tr, &model, KEEL_ELEMENT(2), note_attribute, NULL));
    assert_string_equal(seen, "");
    ok(keel_relation_delete_entity(tr, &model, all, 2, KEEL_NIL)); /* nobody */
    /* an entity that is called like a relationship takes only itself along */
    ok(keel_relation_delete_entity(tr, &model, all, 2, KEEL_ELEMENT("member")));
    assert_string_equal(sources(tr, &model, &MEMBER, 100), "0>100 1>100 3>100 4>100 ");
    testing_commit(tr);
    assert_int_equal(testing_rows(&model.subspace), 8);
    if (model.both_ways)
        assert_int_equal(testing_rows(&model.reverse), 4);
}

static void bad_input_changes_nothing(void **state) {
    keel_relation model = model_of(state);
    static uint8_t big[100001];
    const keel_relationship nameless = {.name = ""}, null = {.name = NULL},
                            negative = {.name = "r", .targets_max = -1}, all[] = {MEMBER, nameless};
    keel_element one = KEEL_ELEMENT(1), large = KEEL_ELEMENT(KEEL_BYTES(big, 10000));
    uint8_t *value;
    size_t length;
    FDBTransaction *tr = testing_begin();
    ok(add(tr, &model, &MEMBER, 1, 10));
    refused(tr, KEEL_ERROR_EMPTY_NAME, add(tr, &model, &nameless, 1, 2));
    refused(tr, KEEL_ERROR_EMPTY_NAME, add(tr, &model, &null, 1, 2));
    refused(tr, KEEL_ERROR_EMPTY_NAME, keel_relation_remove(tr, &model, &null, one, one));
    refused(tr, KEEL_ERROR_EMPTY_NAME, keel_relation_set(tr, &model, &null, one, one));
    refused(tr, KEEL_ERROR_EMPTY_NAME,
            keel_relation_pairs(tr, &model, &nameless, note_pair, NULL));
    refused(tr, KEEL_ERROR_EMPTY_NAME, keel_relation_delete_entity(tr, &model, all, 2, one));
    refused(tr, KEEL_ERROR_EMPTY_NAME,
            keel_relation_set_attribute(tr, &model, one, "", text("")));
    refused(tr, KEEL_ERROR_EMPTY_NAME,
            keel_relation_get_attribute(tr, &model, one, NULL, &value, &length));
    refused(tr, KEEL_ERROR_ARGUMENT, add(tr, &model, &negative, 1, 2));
    refused(tr, 2103, keel_relation_set_attribute(tr, &model, one, "a",
                                                  KEEL_BYTES(big, sizeof big)));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_relation_set_attribute(tr, &model, one, "a", KEEL_BYTES(NULL, 1)));
    refused(tr, 2102, keel_relation_set_attribute(tr, &model, large, "a", text("")));
    refused(tr, 2102, keel_relation_add(tr, &model, &MEMBER, one, large));
    refused(tr, 2102, keel_relation_delete_entity(tr, &model, &MEMBER, 1, large));
    refused(tr, KEEL_ERROR_NOT_UTF8,
            keel_relation_set_attribute(tr, &model, one, "\xff", text("")));
    refused(tr, KEEL_ERROR_INCOMPLETE_VERSIONSTAMP,
            keel_relation_add(tr, &model, &MEMBER, one, KEEL_INCOMPLETE(0)));
    fdb_transaction_destroy(tr);
    keel_subspace outer = testing_subspace("outer"), inner;
    ok(keel_subspace_nested(&outer, KEEL_TUPLE("inner"), &inner));
    assert_int_equal(keel_relation_both_ways(&outer, &inner, &model), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_relation_both_ways(&inner, &outer, &model), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_relation_both_ways(&outer, &outer, &model), KEEL_ERROR_ARGUMENT);
}

/* ---- Many threads pair people off: nobody gets two, and both directions agree ---- */

enum { PEOPLE = 8 };
static keel_relation shared;
static const keel_relationship DANCES = {.name = "dances with", .targets_max = 1, .sources_max = 1};

struct step {
    int source, target, kind;
};

static fdb_error_t run_step(FDBTransaction *tr, void *context) {
    struct step *step = context;
    keel_element source = KEEL_ELEMENT(step->source), target = KEEL_ELEMENT(step->target);
    switch (step->kind) {
    case 0:
        return keel_relation_remove(tr, &shared, &DANCES, source, target);
    case 1:
        return keel_relation_delete_entity(tr, &shared, &DANCES, 1, source);
    case 2:
        return keel_relation_set(tr, &shared, &DANCES, source, target);
    default:
        return keel_relation_add(tr, &shared, &DANCES, source, target);
    }
}

static void *run_steps(void *number) {
    uint64_t seed = (uint64_t)(intptr_t)number + 77;
    for (int i = 0, rounds = testing_rounds(250); i < rounds; i++) {
        struct step step = {(int)(testing_random(&seed) % PEOPLE),
                            (int)(testing_random(&seed) % PEOPLE),
                            (int)(testing_random(&seed) % 8)};
        fdb_error_t error = keel_run(testing_database(), run_step, &step);
        if (error && error != KEEL_ERROR_CARDINALITY)
            fprintf(stderr, "relation: %s (%d)\n", keel_error_text(error), error), abort();
    }
    return NULL;
}

struct dance {
    FDBTransaction *tr;
    int pairs, by_source[PEOPLE], by_target[PEOPLE];
};

static fdb_error_t check_pair(const keel_element *source, const keel_element *target,
                              void *context) {
    struct dance *dance = context;
    int64_t from, to;
    ok(keel_element_int(source, &from));
    ok(keel_element_int(target, &to));
    assert_int_equal(dance->by_source[from]++, 0);
    assert_int_equal(dance->by_target[to]++, 0);
    char expected[50];
    snprintf(expected, sizeof expected, "%d>%d ", (int)from, (int)to);
    assert_string_equal(sources(dance->tr, &shared, &DANCES, (int)to), expected);
    dance->pairs++;
    return 0;
}

static void threads_respect_cardinality(void **state) {
    bool both = true;
    void *both_state = &both;
    (void)state;
    shared = model_of(&both_state);
    testing_threads(6, run_steps);
    struct dance dance = {.tr = testing_begin()};
    ok(keel_relation_pairs(dance.tr, &shared, &DANCES, check_pair, &dance));
    fdb_transaction_destroy(dance.tr);
    assert_true(dance.pairs > 0);
    assert_int_equal(testing_rows(&shared.reverse), dance.pairs);
    assert_int_equal(testing_rows(&shared.subspace), dance.pairs);
}

static bool one_way = false, both_ways = true;
#define twice(test)                                                                                \
    cmocka_unit_test_prestate(test, &one_way), cmocka_unit_test_prestate(test, &both_ways)

int main(void) {
    const struct CMUnitTest tests[] = {
        twice(attributes),
        twice(both_directions),
        twice(many_to_one),
        twice(one_to_many_and_one_to_one),
        twice(the_last_place_is_taken_once),
        twice(a_pair_appears_meanwhile),
        twice(entities_disappear),
        twice(bad_input_changes_nothing),
        cmocka_unit_test(threads_respect_cardinality),
    };
    return cmocka_run_group_tests_name("relation", tests, testing_open, testing_close);
}
