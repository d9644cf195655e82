/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk work: prepare and flip. What does not fit in five seconds or 10 MB is prepared aside in as many
 * transactions as it takes, and then becomes what readers see in one small transaction.
 *
 *     keel_directory *users;                       the target: a directory of its own, opened by the program
 *     keel_bulk *bulk;
 *     error = keel_bulk_begin(database, users, "2026-11", NULL, &bulk);
 *     place = keel_bulk_position(bulk);            where to go on: seek the input to place.bookmark
 *     for each row of the input:
 *         error = keel_bulk_set(bulk, key, value);             any number of pairs
 *         error = keel_bulk_row(bulk, bookmark);               ends the row
 *     error = keel_bulk_finish(bulk);
 *     keel_bulk_close(bulk);
 *     error = keel_bulk_validate(database, users, "2026-11", NULL, NULL, NULL);
 *
 *     in a transaction, with whatever else is to happen in the same moment:
 *         error = keel_bulk_activate(tr, users, "2026-11");
 *     readers, in each of their transactions:
 *         error = keel_bulk_active(tr, users, &subspace);      rows lie in subspace, under their keys
 *
 * A load has a name, and the states
 *
 *     preparing ── finish ──► ready ── validate ──► validated ── activate ──► active
 *         │                     │                       │         ▲             │ another is activated
 *         └────────── abandon ──┴───────────────────────┤         └─ activate ─ replaced
 *                                                       ▼                       │
 *                                                   abandoned ── cleanup ──► removing ──► gone
 *
 * Interrupted at any point, by kill -9 too, a load is still listed. The same calls with the same input go on
 * where it stopped and end with the same bytes as if nothing had happened; or it is abandoned.
 *
 * Readers see the old state or the new one, never a mix, as long as they ask in each transaction; a subspace
 * must not be kept from one to the next, since what was replaced is removed one day. Nothing stops a program
 * from writing to the rows of the active load.
 *
 * Names: 1 to KEEL_BULK_NAME_MAX bytes of UTF-8, no NUL. One that was removed by the cleanup is free again.
 *
 * Keys in the target's subspace, tuples on both sides; times in milliseconds since 1970:
 *
 *     ("active")                   = (name, prefix)                          the pointer
 *     ("load", name)               = (state, owner, begun, changed, prefix)  state as text, owner a random token
 *     ("note", name)               = bytes given by the program
 *     ("progress", name)           = (rows, pairs, bytes, checksum, skipped, time, bookmark)   up to the first gap
 *     ("progress", name, first)    = (rows, pairs, bytes, checksum, skipped, time, bookmark, input)   a batch behind it
 *     ("cleanup", time, name)      = ()                                      to be removed
 *
 * and the rows in the directory ("load", name) below the target, which has the prefix: prefix + key = value.
 * The checksum is the sum, modulo 2^64, of XXH3_64bits_withSeed(value, XXH3_64bits(key)) over all pairs: it does
 * not depend on their order. `input` is the same over all pairs that came in, the skipped ones too.
 *
 * Errors of all calls: ARGUMENT, EMPTY_NAME, NOT_UTF8; NOT_FOUND if there is no such load; STORED_FORMAT if the
 * keys are not those above; those of keel/directory.h and of the database. Functions that take a transaction
 * commit nothing, may be called again after any error, a retry included, and leave the transaction unchanged
 * when they answer with one of the codes named at them. Functions that take a database run transactions of
 * their own with the retry loop, each far below the limits.
 *
 * Threads: a keel_bulk belongs to one thread at a time; all else any. The target may be shared.
 */
#ifndef KEEL_BULK_H
#define KEEL_BULK_H

#include <keel/directory.h>
#include <keel/run.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KEEL_BULK_NAME_MAX = 255,       /* bytes */
    KEEL_BULK_BOOKMARK_MAX = 1000,  /* bytes */
    KEEL_BULK_NOTE_MAX = 10000,     /* bytes */
    KEEL_BULK_IN_FLIGHT_MAX = 64,   /* batches */
    KEEL_BULK_ROW_BYTES_MAX = 4000000, /* keys and values of one row, with what each costs a transaction */
    KEEL_BULK_BATCH_BYTES_MAX = 4000000
};

/* ---- Loads ---- */

typedef enum keel_bulk_state {
    KEEL_BULK_PREPARING = 1,
    KEEL_BULK_READY,
    KEEL_BULK_VALIDATED,
    KEEL_BULK_ACTIVE,
    KEEL_BULK_REPLACED,
    KEEL_BULK_ABANDONED,
    KEEL_BULK_REMOVING /* the cleanup is at work; to be seen after a crash of it too */
} keel_bulk_state;

/* "preparing" and so on, as stored; never NULL. */
const char *keel_bulk_state_name(keel_bulk_state state);

/* What is known about a load. A plain value. */
typedef struct keel_bulk_load {
    char name[KEEL_BULK_NAME_MAX + 1];
    keel_bulk_state state;
    int64_t begun_ms;
    int64_t changed_ms;  /* when the state changed, or while preparing the last progress */
    uint64_t rows;       /* of the input, up to the first gap while preparing */
    uint64_t pairs;      /* in the database for them */
    uint64_t bytes;      /* of these pairs' keys and values */
    uint64_t checksum;
    uint64_t skipped;    /* rows that were left out as duplicates */
} keel_bulk_load;

/* A value other than 0 ends the walk, which returns it. */
typedef fdb_error_t (*keel_bulk_visit)(void *context, const keel_bulk_load *load);

/* Visits all loads of the target in the order of their names, those to be removed too. */
fdb_error_t keel_bulk_list(FDBTransaction *tr, const keel_directory *target, keel_bulk_visit visit, void *context);
/* One load. */
fdb_error_t keel_bulk_look(FDBTransaction *tr, const keel_directory *target, const char *name, keel_bulk_load *load);
/* The bytes given to keel_bulk_begin when the load was new (none: length 0); the caller's to free(). */
fdb_error_t keel_bulk_note(FDBTransaction *tr, const keel_directory *target, const char *name, uint8_t **note,
                           size_t *length);
/* Where the rows of a load are, in whatever state: to look at them before they are activated. */
fdb_error_t keel_bulk_rows(FDBTransaction *tr, const keel_directory *target, const char *name, keel_subspace *rows);

/* ---- Preparing ---- */

typedef struct keel_bulk keel_bulk;

/* A row that could not be loaded. Its memory is the library's: see where it comes from. */
typedef struct keel_bulk_problem {
    fdb_error_t error;
    uint64_t row;        /* counted from 1 over the whole input; 0: no row is to blame */
    keel_bytes key;      /* the pair's */
    keel_bytes bookmark; /* that was given with the row: where in the input it ends */
} keel_bulk_problem;

/* A key that the load has already, in the same row excepted (which is always refused). */
typedef enum keel_bulk_duplicates {
    KEEL_BULK_REFUSE,   /* ends the load with DUPLICATE; keel_bulk_problem names the second row */
    KEEL_BULK_SKIP,     /* leaves out the whole second row, tells `skip`, and goes on: the first wins */
    KEEL_BULK_REPLACE,  /* the pair of the later row wins; each costs a wait for all batches in flight */
    KEEL_BULK_UNCHECKED /* the program knows that there is none; one that is there makes validate fail */
} keel_bulk_duplicates;

/* Called inside the calls that take a keel_bulk, in no promised order, once a row and run. May be NULL. */
typedef void (*keel_bulk_skip)(void *context, const keel_bulk_problem *problem);

typedef enum keel_bulk_start {
    KEEL_BULK_BEGIN_OR_RESUME,
    KEEL_BULK_BEGIN, /* BULK_EXISTS if there is a load of this name */
    KEEL_BULK_RESUME /* NOT_FOUND if there is none */
} keel_bulk_start;

/* All zeros is the default; so is NULL where a pointer to it is asked for. May differ from run to run. */
typedef struct keel_bulk_options {
    keel_bulk_start start;
    keel_bulk_duplicates duplicates;
    keel_bulk_skip skip;
    void *skip_context;
    size_t batch_bytes; /* a batch is cut at the end of a row before it is larger; 0: 1,000,000 */
    int64_t batch_ms;   /* … and at the end of the first row that comes so long after it was begun; 0: 1000 */
    int in_flight;      /* batches that are being committed at once; 0: 4 */
    keel_bytes note;    /* kept with a new load (a file name, options, …); up to KEEL_BULK_NOTE_MAX bytes */
} keel_bulk_options;

/*
 * Begins the load, or takes over the one of that name: whoever had it before gets LEASE_LOST from its next batch,
 * and nothing it does afterwards counts. `name` NULL: a new one from time and chance, keel_bulk_name tells.
 * A load that is ready, validated or active can be taken too, so that a program that is run again needs no other
 * path: it has nothing to add (place.finished), finish says 0 and adding says BULK_STATE.
 * BULK_STATE: it was replaced, abandoned or is being removed. Memory does not depend on how much was loaded.
 */
fdb_error_t keel_bulk_begin(FDBDatabase *database, const keel_directory *target, const char *name,
                            const keel_bulk_options *options, keel_bulk **bulk);

/* Until close. */
const char *keel_bulk_name(const keel_bulk *bulk);

/*
 * How far the load is, as far as the database has confirmed it: all rows up to `rows`, none left out. After begin it
 * is where the input goes on: rows that are added are `rows` + 1 and following, so seek to the bookmark, or skip
 * `rows` rows. (Later ones that are in the database already are recognized and not written again.)
 */
typedef struct keel_bulk_place {
    uint64_t rows, pairs, bytes, skipped;
    uint64_t rows_added;  /* `rows` and what was added since, committed or not */
    keel_bytes bookmark;  /* of the last of `rows`; none at the beginning. Valid until the next call */
    bool finished;        /* nothing can be added: the load is ready or further */
} keel_bulk_place;
keel_bulk_place keel_bulk_position(const keel_bulk *bulk);

/*
 * A pair of the row that is being put together. `key` lies below the load's prefix: usually a packed tuple, any bytes
 * will do. key_too_large (2102), value_too_large (2103), transaction_too_large (2101, the row), DUPLICATE (the key twice
 * in one row): the pair is not in the row, and the load goes on as if it had not been offered. Copies.
 */
fdb_error_t keel_bulk_set(keel_bulk *bulk, keel_bytes key, keel_bytes value);

/* Drops the pairs since the last end of a row: that row was damaged. It does not count unless keel_bulk_row follows. */
void keel_bulk_row_discard(keel_bulk *bulk);

/*
 * Ends a row, also one without pairs. `bookmark` is whatever the program needs to find the next row in the input again
 * (a file offset, a line number), up to KEEL_BULK_BOOKMARK_MAX bytes. Cuts and sends a batch if it is time; waits when
 * as many are in flight as are allowed, so memory is bounded.
 *
 * Errors of earlier rows come back here, from flush and from finish, and then from every further call: the load has
 * ended in this process, what was committed stays, and keel_bulk_begin goes on from there.
 *     DUPLICATE    KEEL_BULK_REFUSE, keel_bulk_problem tells which row
 *     BULK_INPUT   a row that an earlier run had loaded is another one now: the input is not the same
 *     LEASE_LOST   another process has taken over, or the load was abandoned
 *     BULK_STATE   the load is finished
 *     those of the database that are not retryable
 */
fdb_error_t keel_bulk_row(keel_bulk *bulk, keel_bytes bookmark);

/* What ended the load in this process, or error 0. Its memory is valid until close. */
keel_bulk_problem keel_bulk_problem_of(const keel_bulk *bulk);

/* Sends what there is and waits until all of it is committed: keel_bulk_position then tells all rows. Pairs of a row
   that has not ended are kept for later. */
fdb_error_t keel_bulk_flush(keel_bulk *bulk);

/* Flushes and makes the load ready. BULK_INPUT if the input ended before rows that an earlier run had loaded, or in the
   middle of a row. */
fdb_error_t keel_bulk_finish(keel_bulk *bulk);

/* Frees the object, at any time. Batches that are in flight may be committed or not, what was not sent is not: the load
   can be resumed in any case. Flush first to keep everything. NULL is allowed. */
void keel_bulk_close(keel_bulk *bulk);

/* ---- Validating ---- */

typedef struct keel_bulk_totals {
    uint64_t pairs, bytes, checksum;
} keel_bulk_totals;

typedef struct keel_bulk_report {
    keel_bulk_totals expected; /* as it was loaded */
    keel_bulk_totals found;    /* as the database has it; what was read so far during the work */
} keel_bulk_report;

/* Called after each transaction. A value other than 0 ends the work, which returns it; it can be done again. */
typedef fdb_error_t (*keel_bulk_validating)(void *context, const keel_bulk_report *report);

/*
 * Reads the whole load and compares it with what was loaded; if they agree, a load that was ready is validated now.
 * Otherwise BULK_MISMATCH, and the load is ready (again): it cannot be activated. BULK_STATE while it is preparing,
 * and if it is abandoned or removed. May be called again at any time, of an active load too, whose state stays as it is.
 * LEASE_LOST if it was removed and begun anew meanwhile. `callback` and `report` may be NULL; the report is set with
 * BULK_MISMATCH too.
 */
fdb_error_t keel_bulk_validate(FDBDatabase *database, const keel_directory *target, const char *name,
                               keel_bulk_validating callback, void *context, keel_bulk_report *report);

/* ---- Flipping ---- */

/*
 * Makes a validated load the active one: moves the pointer, and queues the one it replaces for the cleanup. A load that
 * was replaced can be activated again until its removal has begun. Of one that is active already it changes nothing. Reads
 * and writes a few rows, whatever the size of the load. BULK_NOT_VALIDATED if it is preparing or ready, BULK_STATE if it is
 * abandoned or being removed. Conflicts with other flips of the target, and with those who asked which is active.
 */
fdb_error_t keel_bulk_activate(FDBTransaction *tr, const keel_directory *target, const char *name);

/* Where the rows of the active load are. NOT_FOUND while there is none. Reads one row. */
fdb_error_t keel_bulk_active(FDBTransaction *tr, const keel_directory *target, keel_subspace *rows);
/* Its name, with a NUL behind it. NOT_FOUND. */
fdb_error_t keel_bulk_active_name(FDBTransaction *tr, const keel_directory *target, char name[KEEL_BULK_NAME_MAX + 1]);

/* ---- Abandoning and cleaning up ---- */

/* Gives a load up and queues it for the cleanup; who was preparing it gets LEASE_LOST. Of one that is abandoned, replaced or
   being removed it changes nothing. BULK_STATE if it is active. */
fdb_error_t keel_bulk_abandon(FDBTransaction *tr, const keel_directory *target, const char *name);

typedef struct keel_bulk_cleaning {
    uint64_t loads;        /* removed */
    uint64_t transactions; /* that it took */
    char name[KEEL_BULK_NAME_MAX + 1]; /* of the load it is at, or the last */
} keel_bulk_cleaning;

/* Called after each transaction that removed something. A value other than 0 ends the work, which returns it. */
typedef fdb_error_t (*keel_bulk_cleaned)(void *context, const keel_bulk_cleaning *report);

/*
 * Removes the loads that were replaced or abandoned at least `age_ms` ago (0: all of them), the oldest first, in
 * transactions of bounded size. Keep the age above the time that readers may hold a subspace, a transaction at most, or as
 * long as going back to a replaced load is to be possible. Any process may call it, several at once too; one that was cut
 * off is continued by the next. `callback` and `report` may be NULL.
 */
fdb_error_t keel_bulk_cleanup(FDBDatabase *database, const keel_directory *target, int64_t age_ms,
                              keel_bulk_cleaned callback, void *context, keel_bulk_cleaning *report);

#ifdef __cplusplus
}
#endif

#endif
