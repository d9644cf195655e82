/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database for tests of src/txn: every version kept in memory, nothing clever. Each commit gets
 * the next version (they grow by 10), is checked against all earlier ones range by range, and is
 * answered at once or, if told so, when the test asks for it.
 */
#ifndef KEEL_TESTS_FAKE_DATABASE_H
#define KEEL_TESTS_FAKE_DATABASE_H

#include "database/database.h"

struct fake_database;

struct fake_database *fake_create(void);
struct database *fake_interface(struct fake_database *fake);

/* Commits wait until fake_answer; fake_waiting says how many do. */
void fake_hold_commits(struct fake_database *fake, bool hold);
int fake_waiting(struct fake_database *fake);
void fake_answer(struct fake_database *fake);

/* The next commit is answered with this error, without being applied. */
void fake_fail_next(struct fake_database *fake, fdb_error_t error);

/* Versions below this one are too old. */
void fake_set_horizon(struct fake_database *fake, int64_t version);
int64_t fake_version(struct fake_database *fake);

/* What came with the last commit. The texts live until the next. */
int fake_mutation_count(struct fake_database *fake);
struct mutation fake_mutation(struct fake_database *fake, int index);
int fake_read_conflict_count(struct fake_database *fake);
struct key_range fake_read_conflict(struct fake_database *fake, int index);
int fake_write_conflict_count(struct fake_database *fake);
struct key_range fake_write_conflict(struct fake_database *fake, int index);

/* Calls so far; watches that are set. */
int fake_gets(struct fake_database *fake);
int fake_range_reads(struct fake_database *fake);
int fake_watches(struct fake_database *fake);
int fake_pins(struct fake_database *fake); /* long reads that hold a state */
bool fake_is_closed(void); /* whether the last one created was closed */

#endif
