/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities, their attributes, and relationships that are stored in both directions.
 *
 * Format: see keel/relation.h. Keys of two elements are attributes, keys of three relationships.
 *
 * Invariants:
 *   1. In a model that goes both ways a pair is stored in both directions or in none. Both are
 *      written or cleared in one transaction; where it is not known what is there (deleting an
 *      entity, replacing targets) it is read, serializably, first.
 *   2. A side with a limit never has more members than that: an add has read the members, up to the
 *      limit, in a range that every other add to this side writes into, so two of them conflict.
 *   3. All reads and all packing come before the first write.
 */
#include <keel/relation.h>

#include <stdlib.h>

#include "support.h"

static const fdb_error_t NO_MEMORY = 1501;

KEEL_EXPORT void keel_relation_one_way(const keel_subspace *subspace, keel_relation *model) {
    model->subspace = *subspace;
    model->reverse.length = 0;
    model->both_ways = false;
}

KEEL_EXPORT fdb_error_t keel_relation_both_ways(const keel_subspace *subspace,
                                                const keel_subspace *reverse,
                                                keel_relation *model) {
    if (keel_subspace_contains(subspace, keel_subspace_prefix(reverse)) ||
        keel_subspace_contains(reverse, keel_subspace_prefix(subspace)))
        return KEEL_ERROR_ARGUMENT;
    model->subspace = *subspace;
    model->reverse = *reverse;
    model->both_ways = true;
    return 0;
}

/* ---- Attributes ---- */

static fdb_error_t pack_attribute(const keel_relation *model, keel_element entity,
                                  const char *attribute, struct recipe_key *key) {
    keel_element pair[] = {entity, keel_element_of_string(attribute)};
    if (!attribute || !*attribute)
        return KEEL_ERROR_EMPTY_NAME;
    return recipe_pack(&model->subspace, keel_tuple_of(pair, 2), key);
}

KEEL_EXPORT fdb_error_t keel_relation_set_attribute(FDBTransaction *tr, const keel_relation *model,
                                                    keel_element entity, const char *attribute,
                                                    keel_bytes value) {
    struct recipe_key key;
    fdb_error_t error = pack_attribute(model, entity, attribute, &key);
    if (!error)
        error = recipe_check_value(value);
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_relation_get_attribute(FDBTransaction *tr, const keel_relation *model,
                                                    keel_element entity, const char *attribute,
                                                    uint8_t **value, size_t *length) {
    struct recipe_key key;
    bool present = false;
    keel_bytes found = {NULL, 0};
    fdb_error_t error = pack_attribute(model, entity, attribute, &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &found);
    uint8_t *copy = !error && present ? malloc(found.length + 1) : NULL;
    if (!error && present && !copy)
        error = NO_MEMORY;
    if (!error) {
        if (found.length)
            memcpy(copy, found.data, found.length);
        *value = copy;
        *length = found.length;
    }
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_relation_delete_attribute(FDBTransaction *tr,
                                                       const keel_relation *model,
                                                       keel_element entity,
                                                       const char *attribute) {
    struct recipe_key key;
    fdb_error_t error = pack_attribute(model, entity, attribute, &key);
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

/* ---- Walking over keys ---- */

/* The elements of a key behind the subspace, at most 3; *count says how many, 4 for more. */
static fdb_error_t elements_of(const keel_subspace *subspace, keel_bytes key,
                               keel_element *elements, size_t *count) {
    keel_tuple_iterator it;
    fdb_error_t error = keel_subspace_unpack(subspace, key, &it);
    *count = 0;
    while (!error && !keel_tuple_at_end(&it) && *count < 3)
        error = keel_tuple_next(&it, &elements[(*count)++]);
    if (error)
        return KEEL_ERROR_STORED_FORMAT;
    if (!keel_tuple_at_end(&it))
        *count = 4;
    return 0;
}

/* Gives each key of `wanted` elements to `visit`; those of other lengths are not of this kind. */
typedef fdb_error_t (*visit_elements)(const keel_element *elements, keel_bytes value,
                                      void *context);

static fdb_error_t walk(struct recipe_scan *scan, const keel_subspace *subspace, size_t wanted,
                        visit_elements visit, void *context) {
    keel_bytes key, value;
    bool found;
    for (;;) {
        keel_element elements[3];
        size_t count;
        fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
        if (error || !found)
            return error;
        error = elements_of(subspace, key, elements, &count);
        if (!error && count == wanted)
            error = visit(elements, value, context);
        if (error)
            return error;
    }
}

static fdb_error_t walk_tuple(FDBTransaction *tr, const keel_subspace *subspace, keel_tuple tuple,
                              size_t wanted, visit_elements visit, void *context) {
    struct recipe_span span;
    struct recipe_scan scan;
    fdb_error_t error = recipe_span_of(subspace, tuple, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, false);
    error = walk(&scan, subspace, wanted, visit, context);
    recipe_scan_close(&scan);
    return error;
}

struct attribute_walk {
    keel_relation_visit_attribute visit;
    void *context;
};

static fdb_error_t visit_attribute(const keel_element *elements, keel_bytes value, void *context) {
    struct attribute_walk *attributes = context;
    return attributes->visit(&elements[1], value, attributes->context);
}

KEEL_EXPORT fdb_error_t keel_relation_attributes(FDBTransaction *tr, const keel_relation *model,
                                                 keel_element entity,
                                                 keel_relation_visit_attribute visit,
                                                 void *context) {
    struct attribute_walk attributes = {visit, context};
    return walk_tuple(tr, &model->subspace, keel_tuple_of(&entity, 1), 2, visit_attribute,
                      &attributes);
}

/* ---- Pairs ---- */

static fdb_error_t check_relationship(const keel_relation *model,
                                      const keel_relationship *relationship) {
    if (!relationship->name || !*relationship->name)
        return KEEL_ERROR_EMPTY_NAME;
    if (relationship->targets_max < 0 || relationship->sources_max < 0 ||
        (relationship->sources_max && !model->both_ways))
        return KEEL_ERROR_ARGUMENT;
    return 0;
}

/* The keys of a pair, in both directions. */
struct pair {
    struct recipe_key forward, backward;
};

static fdb_error_t pack_pair(const keel_relation *model, const keel_relationship *relationship,
                             keel_element source, keel_element target, struct pair *pair) {
    keel_element name = keel_element_of_string(relationship->name);
    keel_element forward[] = {name, source, target}, backward[] = {name, target, source};
    fdb_error_t error = check_relationship(model, relationship);
    if (!error)
        error = recipe_pack(&model->subspace, keel_tuple_of(forward, 3), &pair->forward);
    if (!error && model->both_ways)
        error = recipe_pack(&model->reverse, keel_tuple_of(backward, 3), &pair->backward);
    return error;
}

static void write_pair(FDBTransaction *tr, const keel_relation *model, const struct pair *pair) {
    recipe_set(tr, &pair->forward, keel_bytes_of(NULL, 0));
    if (model->both_ways)
        recipe_set(tr, &pair->backward, keel_bytes_of(NULL, 0));
}

static void clear_pair(FDBTransaction *tr, const keel_relation *model, const struct pair *pair) {
    recipe_clear(tr, &pair->forward);
    if (model->both_ways)
        recipe_clear(tr, &pair->backward);
}

/* Starts reading the members of one side, as many as there may be; NULL without a limit. */
static fdb_error_t start_members(FDBTransaction *tr, const keel_subspace *subspace,
                                 const char *name, keel_element owner, int limit,
                                 FDBFuture **future) {
    struct recipe_span span;
    keel_element prefix[] = {keel_element_of_string(name), owner};
    *future = NULL;
    if (!limit)
        return 0;
    fdb_error_t error = recipe_span_of(subspace, keel_tuple_of(prefix, 2), &span);
    if (!error)
        *future = fdb_transaction_get_range(
            tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(span.begin.data, (int)span.begin.length),
            FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(span.end.data, (int)span.end.length), limit, 0,
            FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    return error;
}

/* Waits, and destroys the future: whether there is room for one more. */
static fdb_error_t finish_members(FDBFuture *future, int limit) {
    const FDBKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    if (!future)
        return 0;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    fdb_future_destroy(future);
    if (!error && count >= limit)
        error = KEEL_ERROR_CARDINALITY;
    return error;
}

/* Whether both sides have room for the pair; one that is there already needs none. */
static fdb_error_t check_room(FDBTransaction *tr, const keel_relation *model,
                              const keel_relationship *relationship, keel_element source,
                              keel_element target, const struct pair *pair) {
    FDBFuture *targets = NULL, *sources = NULL;
    bool present = false;
    keel_bytes value;
    if (!relationship->targets_max && !relationship->sources_max)
        return 0;
    FDBFuture *itself = recipe_get_start(tr, &pair->forward, false);
    fdb_error_t error = start_members(tr, &model->subspace, relationship->name, source,
                                      relationship->targets_max, &targets);
    if (!error)
        error = start_members(tr, &model->reverse, relationship->name, target,
                              relationship->sources_max, &sources);
    if (!error)
        error = recipe_get_finish(itself, &present, &value);
    fdb_future_destroy(itself);
    fdb_error_t full = finish_members(targets, relationship->targets_max);
    fdb_error_t taken = finish_members(sources, relationship->sources_max);
    if (error || (present && full == KEEL_ERROR_CARDINALITY))
        full = 0;
    if (error || (present && taken == KEEL_ERROR_CARDINALITY))
        taken = 0;
    return error ? error : full ? full : taken;
}

KEEL_EXPORT fdb_error_t keel_relation_add(FDBTransaction *tr, const keel_relation *model,
                                          const keel_relationship *relationship,
                                          keel_element source, keel_element target) {
    struct pair pair;
    fdb_error_t error = pack_pair(model, relationship, source, target, &pair);
    if (!error)
        error = check_room(tr, model, relationship, source, target, &pair);
    if (!error)
        write_pair(tr, model, &pair);
    return error;
}

KEEL_EXPORT fdb_error_t keel_relation_remove(FDBTransaction *tr, const keel_relation *model,
                                             const keel_relationship *relationship,
                                             keel_element source, keel_element target) {
    struct pair pair;
    fdb_error_t error = pack_pair(model, relationship, source, target, &pair);
    if (!error)
        clear_pair(tr, model, &pair);
    return error;
}

KEEL_EXPORT fdb_error_t keel_relation_contains(FDBTransaction *tr, const keel_relation *model,
                                               const keel_relationship *relationship,
                                               keel_element source, keel_element target,
                                               bool *related) {
    struct pair pair;
    bool present = false;
    keel_bytes value;
    fdb_error_t error = pack_pair(model, relationship, source, target, &pair);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &pair.forward, false);
    error = recipe_get_finish(future, &present, &value);
    fdb_future_destroy(future);
    if (!error)
        *related = present;
    return error;
}

/* ---- Walking over pairs ---- */

struct pair_walk {
    keel_relation_visit visit;
    void *context;
    const keel_element *target; /* only its sources, if there is one */
};

static fdb_error_t visit_forward(const keel_element *elements, keel_bytes value, void *context) {
    struct pair_walk *pairs = context;
    (void)value;
    if (pairs->target && keel_element_compare(pairs->target, &elements[2]) != 0)
        return 0;
    return pairs->visit(&elements[1], &elements[2], pairs->context);
}

static fdb_error_t visit_backward(const keel_element *elements, keel_bytes value, void *context) {
    struct pair_walk *pairs = context;
    (void)value;
    return pairs->visit(&elements[2], &elements[1], pairs->context);
}

KEEL_EXPORT fdb_error_t keel_relation_targets(FDBTransaction *tr, const keel_relation *model,
                                              const keel_relationship *relationship,
                                              keel_element source, keel_relation_visit visit,
                                              void *context) {
    struct pair_walk pairs = {visit, context, NULL};
    keel_element prefix[] = {keel_element_of_string(relationship->name), source};
    fdb_error_t error = check_relationship(model, relationship);
    return error ? error
                 : walk_tuple(tr, &model->subspace, keel_tuple_of(prefix, 2), 3, visit_forward,
                              &pairs);
}

KEEL_EXPORT fdb_error_t keel_relation_sources(FDBTransaction *tr, const keel_relation *model,
                                              const keel_relationship *relationship,
                                              keel_element target, keel_relation_visit visit,
                                              void *context) {
    struct pair_walk pairs = {visit, context, &target};
    keel_element prefix[] = {keel_element_of_string(relationship->name), target};
    fdb_error_t error = check_relationship(model, relationship);
    if (error)
        return error;
    if (model->both_ways)
        return walk_tuple(tr, &model->reverse, keel_tuple_of(prefix, 2), 3, visit_backward, &pairs);
    return walk_tuple(tr, &model->subspace, keel_tuple_of(prefix, 1), 3, visit_forward, &pairs);
}

KEEL_EXPORT fdb_error_t keel_relation_pairs(FDBTransaction *tr, const keel_relation *model,
                                            const keel_relationship *relationship,
                                            keel_relation_visit visit, void *context) {
    struct pair_walk pairs = {visit, context, NULL};
    keel_element name = keel_element_of_string(relationship->name);
    fdb_error_t error = check_relationship(model, relationship);
    return error ? error
                 : walk_tuple(tr, &model->subspace, keel_tuple_of(&name, 1), 3, visit_forward,
                              &pairs);
}

/* ---- Replacing and deleting: keys are gathered, then cleared ---- */

/* Keys one behind the other, each with its length before it. */
struct doomed {
    const keel_relation *model;
    const keel_relationship *relationship;
    uint8_t *bytes;
    size_t length, capacity;
};

static fdb_error_t doom(struct doomed *doomed, const struct recipe_key *key) {
    size_t needed = doomed->length + sizeof key->length + key->length;
    if (needed > doomed->capacity) {
        uint8_t *bytes = realloc(doomed->bytes, needed * 2);
        if (!bytes)
            return NO_MEMORY;
        doomed->bytes = bytes;
        doomed->capacity = needed * 2;
    }
    memcpy(doomed->bytes + doomed->length, &key->length, sizeof key->length);
    memcpy(doomed->bytes + doomed->length + sizeof key->length, key->data, key->length);
    doomed->length = needed;
    return 0;
}

static fdb_error_t doom_pair(const keel_element *source, const keel_element *target,
                             void *context) {
    struct doomed *doomed = context;
    struct pair pair;
    fdb_error_t error = pack_pair(doomed->model, doomed->relationship, *source, *target, &pair);
    if (!error)
        error = doom(doomed, &pair.forward);
    if (!error && doomed->model->both_ways)
        error = doom(doomed, &pair.backward);
    return error;
}

static fdb_error_t doom_attribute(const keel_element *elements, keel_bytes value, void *context) {
    struct doomed *doomed = context;
    struct recipe_key key;
    (void)value;
    fdb_error_t error = recipe_pack(&doomed->model->subspace, keel_tuple_of(elements, 2), &key);
    return error ? error : doom(doomed, &key);
}

static void clear_doomed(FDBTransaction *tr, const struct doomed *doomed) {
    size_t length;
    for (size_t at = 0; at < doomed->length; at += sizeof length + length) {
        memcpy(&length, doomed->bytes + at, sizeof length);
        fdb_transaction_clear(tr, doomed->bytes + at + sizeof length, (int)length);
    }
}

KEEL_EXPORT fdb_error_t keel_relation_set(FDBTransaction *tr, const keel_relation *model,
                                          const keel_relationship *relationship,
                                          keel_element source, keel_element target) {
    struct doomed doomed = {.model = model, .relationship = relationship};
    struct pair_walk pairs = {doom_pair, &doomed, NULL};
    struct pair pair;
    struct recipe_span span;
    struct recipe_scan scan;
    keel_relationship sources_only = {relationship->name, 0, relationship->sources_max};
    keel_element prefix[] = {keel_element_of_string(relationship->name), source};
    fdb_error_t error = pack_pair(model, relationship, source, target, &pair);
    if (!error)
        error = recipe_span_of(&model->subspace, keel_tuple_of(prefix, 2), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, false);
    error = check_room(tr, model, &sources_only, source, target, &pair);
    if (!error)
        error = walk(&scan, &model->subspace, 3, visit_forward, &pairs);
    recipe_scan_close(&scan);
    if (!error) {
        clear_doomed(tr, &doomed);
        write_pair(tr, model, &pair);
    }
    free(doomed.bytes);
    return error;
}

/* One of the scans for all about an entity; they are all opened before the first is waited for. */
struct search {
    struct recipe_scan scan;
    const keel_subspace *subspace;
    const keel_relationship *relationship; /* NULL: attributes */
    const keel_element *target;            /* of a scan that has to look for it */
    visit_elements visit;
};

static fdb_error_t search_open(struct search *search, FDBTransaction *tr, keel_tuple prefix) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(search->subspace, prefix, &span);
    if (!error)
        recipe_scan_open(&search->scan, tr, &span, 0, false, false);
    return error;
}

static fdb_error_t search_run(struct search *search, struct doomed *doomed) {
    if (!search->relationship)
        return walk(&search->scan, search->subspace, 2, doom_attribute, doomed);
    struct pair_walk pairs = {doom_pair, doomed, search->target};
    doomed->relationship = search->relationship;
    return walk(&search->scan, search->subspace, 3, search->visit, &pairs);
}

/* The searches of one relationship: from the entity, and to it. */
static fdb_error_t search_relationship(FDBTransaction *tr, const keel_relation *model,
                                       const keel_relationship *relationship,
                                       const keel_element *entity, struct search *searches,
                                       size_t *opened) {
    keel_element prefix[] = {keel_element_of_string(relationship->name), *entity};
    struct search *from = &searches[*opened], *to = from + 1;
    fdb_error_t error = check_relationship(model, relationship);
    from->subspace = &model->subspace;
    to->subspace = model->both_ways ? &model->reverse : &model->subspace;
    from->relationship = to->relationship = relationship;
    from->target = NULL;
    to->target = model->both_ways ? NULL : entity;
    from->visit = visit_forward;
    to->visit = model->both_ways ? visit_backward : visit_forward;
    if (!error)
        error = search_open(from, tr, keel_tuple_of(prefix, 2));
    if (!error) {
        ++*opened;
        error = search_open(to, tr, keel_tuple_of(prefix, model->both_ways ? 2 : 1));
    }
    if (!error)
        ++*opened;
    return error;
}

KEEL_EXPORT fdb_error_t keel_relation_delete_entity(FDBTransaction *tr, const keel_relation *model,
                                                    const keel_relationship *relationships,
                                                    size_t relationship_count,
                                                    keel_element entity) {
    struct doomed doomed = {.model = model};
    size_t opened = 0;
    struct search *searches = malloc((2 * relationship_count + 1) * sizeof *searches);
    if (!searches)
        return NO_MEMORY;
    searches[0].subspace = &model->subspace;
    searches[0].relationship = NULL;
    fdb_error_t error = search_open(&searches[0], tr, keel_tuple_of(&entity, 1));
    opened += !error;
    for (size_t i = 0; i < relationship_count && !error; i++)
        error = search_relationship(tr, model, &relationships[i], &entity, searches, &opened);
    for (size_t i = 0; i < opened && !error; i++)
        error = search_run(&searches[i], &doomed);
    if (!error)
        clear_doomed(tr, &doomed);
    for (size_t i = 0; i < opened; i++)
        recipe_scan_close(&searches[i].scan);
    free(searches);
    free(doomed.bytes);
    return error;
}
