/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records with secondary indexes that cannot fall behind them.
 *
 *     static fdb_error_t by_city(const keel_index_record *record, keel_index_entries *entries,
 *                                const void *context) {
 *         return keel_index_emit(entries, KEEL_TUPLE(city_of(record->value)));
 *     }
 *
 *     keel_index indexes[] = {{.extract = by_city}};
 *     keel_index_records users = {.indexes = indexes, .index_count = 1};
 *     error = keel_subspace_tuple(KEEL_TUPLE("user"), &users.subspace);
 *     error = keel_subspace_tuple(KEEL_TUPLE("city_index"), &indexes[0].subspace);
 *     ...
 *     error = keel_index_put(tr, &users, KEEL_ELEMENT(id), KEEL_TUPLE(), value);
 *     error = keel_index_find(tr, &indexes[0], KEEL_TUPLE("Oslo"), 0, false, visit, context);
 *
 * Keys. A record has an id, one element (a nested tuple for a composite one), and its value;
 * further elements, the `rest`, may stand behind the id in the key:
 *
 *     (records, id)           = value          a record
 *     (records, id, rest...)  = value          a record that keeps attributes in its key
 *     (index, values..., id)  = ''             an entry
 *     (index, values..., id)  = value          KEEL_INDEX_COVERING: no second read for the record
 *     (index, values...)      = id             KEEL_INDEX_ID_STRING, KEEL_INDEX_ID_BYTES: unique
 *
 * What a record has in an index is said by a function, `extract`, from the record alone: none (a
 * sparse index), one or many entries, each of any number of values. It is asked for the old record
 * too when one is replaced, so the same record must always give the same entries.
 *
 * Conflicts. A put reads the old record, and for a unique index the entries of the new value: two
 * puts of one id conflict, and two of one unique value; others do not. A find conflicts with
 * changes to the entries that it passed.
 *
 * Costs. put and remove: one range read, one more a unique entry, all started together, then a
 * write a changed entry. An entry that stays as it is is not written again. find: the entries it
 * visits. All are independent of the number of records.
 *
 * Every function takes the transaction, never commits it, and on an error has written nothing. Any
 * thread, as far as the transaction allows. Views handed to callbacks live as long as the call.
 */
#ifndef KEEL_INDEX_H
#define KEEL_INDEX_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What is indexed, and how ---- */

typedef struct keel_index_record {
    keel_element id;
    keel_bytes rest; /* packed elements behind the id in the key; most records have none */
    keel_bytes value;
} keel_index_record;

/* Where an extract function puts its entries. */
typedef struct keel_index_entries keel_index_entries;

/*
 * Says what a record has in an index, by calling keel_index_emit once an entry. Whatever it returns
 * but 0 ends the operation and is returned by it. It may not use the transaction.
 */
typedef fdb_error_t (*keel_index_extract)(const keel_index_record *record,
                                          keel_index_entries *entries, const void *context);

/* One entry. key_too_large (2102) and errors of keel_tuple_pack; 1501 if there is no memory. */
fdb_error_t keel_index_emit(keel_index_entries *entries, keel_tuple values);

/*
 * An extract function that is ready made: one entry, the first element of the rest, as in
 * (user, id, zipcode) = name with (zipcode_index, zipcode, id) = ''. No entry without a rest.
 */
fdb_error_t keel_index_by_rest(const keel_index_record *record, keel_index_entries *entries,
                               const void *context);

enum {
    /*
     * Values of one record are refused to any other: KEEL_ERROR_DUPLICATE. All entries of such an
     * index must have the same number of values.
     */
    KEEL_INDEX_UNIQUE = 1,
    KEEL_INDEX_COVERING = 2, /* entries carry the record's value */
    /*
     * Unique, with the id as the entry's value rather than in its key. Ids have to be strings, or
     * bytes (KEEL_ERROR_TUPLE_TYPE). Not with COVERING (KEEL_ERROR_ARGUMENT).
     */
    KEEL_INDEX_ID_STRING = 4,
    KEEL_INDEX_ID_BYTES = 8
};

typedef struct keel_index {
    keel_subspace subspace;
    keel_index_extract extract;
    const void *context; /* given to extract */
    unsigned flags;
} keel_index;

/* Records and all of their indexes. Who writes records must know the same indexes everywhere. */
typedef struct keel_index_records {
    keel_subspace subspace;
    const keel_index *indexes; /* the caller's */
    size_t index_count;
} keel_index_records;

/* ---- Records ---- */

/*
 * Writes a record in place of whatever has this id, and brings every index up to date: entries that
 * no longer hold are removed, those that are new are added.
 *
 * KEEL_ERROR_DUPLICATE: a unique index has the value for another id. key_too_large (2102),
 * value_too_large (2103), errors of keel_tuple_pack, of extract and of reads.
 */
fdb_error_t keel_index_put(FDBTransaction *tr, const keel_index_records *records, keel_element id,
                           keel_tuple rest, keel_bytes value);

/* Removes a record and its entries. *removed (may be NULL) says whether there was one. */
fdb_error_t keel_index_remove(FDBTransaction *tr, const keel_index_records *records,
                              keel_element id, bool *removed);

/* Anything but 0 ends the walk and is returned by it. */
typedef fdb_error_t (*keel_index_visit_record)(const keel_index_record *record, void *context);

/* Calls visit with the record. KEEL_ERROR_NOT_FOUND. */
fdb_error_t keel_index_get(FDBTransaction *tr, const keel_index_records *records, keel_element id,
                           keel_index_visit_record visit, void *context);

/* ---- Finding ---- */

typedef struct keel_index_entry {
    keel_bytes values; /* packed elements */
    keel_element id;
    keel_bytes value; /* of a covering index: the record's */
} keel_index_entry;

typedef fdb_error_t (*keel_index_visit_entry)(const keel_index_entry *entry, void *context);

/*
 * The entries whose values begin with these, in the order of the rest of their values, then of
 * their ids; KEEL_TUPLE() for all of them. At most `limit`, 0 for no limit.
 * KEEL_ERROR_STORED_FORMAT if there is a key that is no entry.
 */
fdb_error_t keel_index_find(FDBTransaction *tr, const keel_index *index, keel_tuple values,
                            int limit, bool reverse, keel_index_visit_entry visit, void *context);

/*
 * The entries with begin <= values < end. An empty tuple as `end` leaves that side open.
 * KEEL_ERROR_ARGUMENT if begin is above end.
 */
fdb_error_t keel_index_find_between(FDBTransaction *tr, const keel_index *index, keel_tuple begin,
                                    keel_tuple end, int limit, bool reverse,
                                    keel_index_visit_entry visit, void *context);

/*
 * As keel_index_find, but visits the records, which it reads many at a time. An entry without a
 * record (left behind by a program that does not remove them) is passed over.
 */
fdb_error_t keel_index_find_records(FDBTransaction *tr, const keel_index_records *records,
                                    const keel_index *index, keel_tuple values, int limit,
                                    bool reverse, keel_index_visit_record visit, void *context);

/* ---- One index by itself, for records of any other layout ---- */

/*
 * Moves the entry of a record from its old values to its new ones. NULL as `old_values`: it had
 * none, as `new_values`: it has none now. `value` is what a covering index keeps. Errors as those
 * of keel_index_put.
 */
fdb_error_t keel_index_update(FDBTransaction *tr, const keel_index *index, keel_element id,
                              const keel_tuple *old_values, const keel_tuple *new_values,
                              keel_bytes value);

/* ---- Building an index over records that are there already ---- */

/*
 * An index that is new, or damaged, is built in many short transactions while the records are read
 * and changed. First let every writer know the index, so that its puts keep it up; then start, and
 * step until done. How far it is stands in the database, under `progress`, a subspace that belongs
 * to this build alone: another process can go on where one has died, and any number may step at
 * once, though they take turns. An index may be relied on for finding, and a unique one for
 * refusing, when it is KEEL_INDEX_BUILT.
 */
typedef enum keel_index_state {
    KEEL_INDEX_NOT_BUILT,
    KEEL_INDEX_BUILDING,
    KEEL_INDEX_BUILT
} keel_index_state;

/* Clears the index, and begins a build with its first record. */
fdb_error_t keel_index_build_start(FDBTransaction *tr, const keel_index *index,
                                   const keel_subspace *progress);

/*
 * Writes the entries of the next `rows_max` records (0: 500; fewer if they are large). *state is
 * what has been reached, *rows (may be NULL) the records seen since the start.
 * KEEL_ERROR_DUPLICATE: two records have one value of a unique index, and the build stands still
 * until one of them is changed. KEEL_ERROR_NOT_FOUND: never started. KEEL_ERROR_STORED_FORMAT: a
 * key under `records` is no record's.
 */
fdb_error_t keel_index_build_step(FDBTransaction *tr, const keel_index_records *records,
                                  const keel_index *index, const keel_subspace *progress,
                                  int rows_max, keel_index_state *state, int64_t *rows);

/* What a build has reached; NOT_BUILT if none was started. */
fdb_error_t keel_index_build_state(FDBTransaction *tr, const keel_subspace *progress,
                                   keel_index_state *state, int64_t *rows);

/*
 * The whole of it, in transactions of its own: starts a build if there is none, or goes on with one
 * that is unfinished, until it is built. Blocks. To build anew, call keel_index_build_start first.
 */
fdb_error_t keel_index_build(FDBDatabase *database, const keel_index_records *records,
                             const keel_index *index, const keel_subspace *progress,
                             int rows_max);

#ifdef __cplusplus
}
#endif

#endif
