/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities with attributes, and relationships between them that are read both ways and keep their
 * cardinality.
 *
 *     keel_relation model;
 *     keel_relationship employs = {.name = "employs", .sources_max = 1};     one to many
 *     error = keel_relation_both_ways(&subspace, &reverse, &model);
 *     ...
 *     error = keel_relation_set_attribute(tr, &model, KEEL_ELEMENT(7), "name", value);
 *     error = keel_relation_add(tr, &model, &employs, KEEL_ELEMENT("acme"), KEEL_ELEMENT(7));
 *     error = keel_relation_targets(tr, &model, &employs, KEEL_ELEMENT("acme"), visit, context);
 *     error = keel_relation_sources(tr, &model, &employs, KEEL_ELEMENT(7), visit, context);
 *
 * Keys. Entities are elements of tuples; attributes and relationships have names that are not
 * empty:
 *
 *     (model, entity, attribute)               = value
 *     (model, relationship, source, target)    = ''
 *     (reverse, relationship, target, source)  = ''     keel_relation_both_ways
 *
 * An entity must not be a string that is also the name of a relationship: they share a place in the
 * keys.
 *
 * Cardinality. A relationship says how many targets a source may have and how many sources a
 * target; 0 is any number:
 *
 *     one to one {name, 1, 1}    one to many {name, 0, 1}    many to one {name, 1, 0}
 *     many to many {name}        a pair of shoes {name, 2, 1}
 *
 * An add that would exceed it is refused with KEEL_ERROR_CARDINALITY. All who add must give the
 * same limits. What a program without limits has written is not undone, but counts.
 *
 * Conflicts. Without limits add and remove are blind and conflict with nothing. With a limit, add
 * reads the members of that side, so that two that compete for the last place conflict. Attributes
 * are blind to set and delete.
 *
 * Costs. add: at most as many rows as the limits say, both sides at once. Everything that visits
 * reads what it visits.
 *
 * Every function takes the transaction, never commits it, and on an error has written nothing.
 * Errors of all: KEEL_ERROR_EMPTY_NAME, key_too_large (2102), errors of keel_tuple_pack and of
 * reads. Any thread.
 */
#ifndef KEEL_RELATION_H
#define KEEL_RELATION_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A model ---- */

/* A value; its members are private. */
typedef struct keel_relation {
    keel_subspace subspace, reverse;
    bool both_ways;
} keel_relation;

typedef struct keel_relationship {
    const char *name;
    int targets_max; /* of one source; 0: any number */
    int sources_max; /* of one target; 0: any number. Needs a model that goes both ways */
} keel_relationship;

/* Relationships are stored from source to target only. */
void keel_relation_one_way(const keel_subspace *subspace, keel_relation *model);
/*
 * They are stored from target to source as well, under `reverse`, which must lie outside of
 * `subspace` (KEEL_ERROR_ARGUMENT if one contains the other).
 */
fdb_error_t keel_relation_both_ways(const keel_subspace *subspace, const keel_subspace *reverse,
                                    keel_relation *model);

/* ---- Attributes ---- */

/* value_too_large (2103). */
fdb_error_t keel_relation_set_attribute(FDBTransaction *tr, const keel_relation *model,
                                        keel_element entity, const char *attribute,
                                        keel_bytes value);
/* *value is NULL and *length 0 if there is none; else free() it. 1501 without memory. */
fdb_error_t keel_relation_get_attribute(FDBTransaction *tr, const keel_relation *model,
                                        keel_element entity, const char *attribute,
                                        uint8_t **value, size_t *length);
fdb_error_t keel_relation_delete_attribute(FDBTransaction *tr, const keel_relation *model,
                                           keel_element entity, const char *attribute);

/* What is visited lives as long as the call. Anything but 0 ends the walk and is returned by it. */
typedef fdb_error_t (*keel_relation_visit_attribute)(const keel_element *attribute,
                                                     keel_bytes value, void *context);
/* Visits the attributes of an entity, in the order of their names. */
fdb_error_t keel_relation_attributes(FDBTransaction *tr, const keel_relation *model,
                                     keel_element entity, keel_relation_visit_attribute visit,
                                     void *context);

/* ---- Relationships ---- */

/*
 * Relates two entities. Nothing happens if they are related already. KEEL_ERROR_CARDINALITY;
 * KEEL_ERROR_ARGUMENT for a limit that is negative, or one of sources in a model that goes one way.
 */
fdb_error_t keel_relation_add(FDBTransaction *tr, const keel_relation *model,
                              const keel_relationship *relationship, keel_element source,
                              keel_element target);
/*
 * Makes `target` the only one of `source`, in place of those it had. KEEL_ERROR_CARDINALITY if the
 * target has as many sources as it may.
 */
fdb_error_t keel_relation_set(FDBTransaction *tr, const keel_relation *model,
                              const keel_relationship *relationship, keel_element source,
                              keel_element target);
/* Unrelates two entities, whether or not they were related. */
fdb_error_t keel_relation_remove(FDBTransaction *tr, const keel_relation *model,
                                 const keel_relationship *relationship, keel_element source,
                                 keel_element target);
fdb_error_t keel_relation_contains(FDBTransaction *tr, const keel_relation *model,
                                   const keel_relationship *relationship, keel_element source,
                                   keel_element target, bool *related);

typedef fdb_error_t (*keel_relation_visit)(const keel_element *source, const keel_element *target,
                                           void *context);
/* Visits the targets of a source, in their order. */
fdb_error_t keel_relation_targets(FDBTransaction *tr, const keel_relation *model,
                                  const keel_relationship *relationship, keel_element source,
                                  keel_relation_visit visit, void *context);
/* Visits the sources of a target. In a model that goes one way it reads all of the relationship. */
fdb_error_t keel_relation_sources(FDBTransaction *tr, const keel_relation *model,
                                  const keel_relationship *relationship, keel_element target,
                                  keel_relation_visit visit, void *context);
/* Visits all pairs, by source, then by target. */
fdb_error_t keel_relation_pairs(FDBTransaction *tr, const keel_relation *model,
                                const keel_relationship *relationship, keel_relation_visit visit,
                                void *context);

/*
 * Deletes an entity: its attributes, and its part in these relationships, on either side. Reads all
 * of that.
 */
fdb_error_t keel_relation_delete_entity(FDBTransaction *tr, const keel_relation *model,
                                        const keel_relationship *relationships,
                                        size_t relationship_count, keel_element entity);

#ifdef __cplusplus
}
#endif

#endif
