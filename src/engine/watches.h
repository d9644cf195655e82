/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches set on a database, by key. The engine tells of every committed change; a watch whose value differs from what its watcher believes is
 * taken out and handed back to be fired. Locks itself; any thread.
 */
#ifndef KEEL_ENGINE_WATCHES_H
#define KEEL_ENGINE_WATCHES_H

#include "database/database.h"

struct watches;

fdb_error_t watches_create(struct watches **watches);

/* Every watch still set is handed back in *remaining, linked as below. */
void watches_destroy(struct watches *watches, struct watch **remaining);

/* Adds a watch; no allocation, cannot fail. A caller that then finds the value changed already takes it out again and fires it itself. */
void watches_add(struct watches *watches, struct watch *watch);

/* False if it was taken out already. REQUIRES: it was added, or its links are zero. */
bool watches_remove(struct watches *watches, struct watch *watch);

/* How many are set. Cheap enough to ask before every batch: with none set the two calls below are not needed. */
uint64_t watches_count(struct watches *watches);

/*
 * Takes out the watches that a change triggers and puts them in front of *fired, linked through links[0]. A set triggers those on that key that believe something
 * else; a clear those in the range that believe the key present.
 */
void watches_set(struct watches *watches, struct bytes key, struct bytes value, struct watch **fired);
void watches_clear_range(struct watches *watches, struct bytes begin, struct bytes end, struct watch **fired);

/* Calls fire(watch, error) for a list from the calls above. REQUIRES: no lock held. */
void watches_fire(struct watch *fired, fdb_error_t error);

/* Checks every invariant, for tests. Asserts on a violation. */
void watches_check(struct watches *watches);

#endif
