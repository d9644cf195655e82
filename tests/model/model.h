/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two model tests share. A test makes random calls on transactions (calls.c), each
 * recorded with its result; a naive reference (reference.c) says of every recorded call whether its
 * result is the right one, and of every commit whether it had to conflict. The reference keeps
 * every version of the database as a plain sorted array, so that it is easily seen to be right.
 *
 * Only the public API is used: these programs can judge any libfdb_c.
 */
#ifndef KEEL_TESTS_MODEL_H
#define KEEL_TESTS_MODEL_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- Memory: everything of one seed lives in an arena and goes at once --- */

struct block;
struct arena {
    struct block *blocks; /* newest first */
    size_t used;          /* of the newest */
};

void *arena_take(struct arena *arena, size_t size);
void arena_free(struct arena *arena);

/* Makes room for one more element in an array of `*capacity`; returns where the array is now. */
void *arena_grow(struct arena *arena, void *array, int count, int *capacity, size_t element_size);

/* --- Keys and values --- */

struct text {
    const uint8_t *data;
    int length;
};

struct text text_of(const char *literal);
struct text text_copy(struct arena *arena, const uint8_t *data, int length);
struct text text_after(struct arena *arena, struct text text); /* the next possible key */
int text_compare(struct text a, struct text b);
bool text_equal(struct text a, struct text b);

struct row {
    struct text key, value;
};

struct rows {
    struct row *array;
    int count;
};

struct selector {
    struct text key;
    bool or_equal;
    int offset;
};

/* --- Calls --- */

enum call_kind {
    CALL_SET,
    CALL_CLEAR,
    CALL_CLEAR_RANGE,
    CALL_ATOMIC,
    CALL_CONFLICT,         /* fdb_transaction_add_conflict_range */
    CALL_OPTION,
    CALL_SET_READ_VERSION, /* write-like calls end here: they have no result to check */
    CALL_READ_VERSION,
    CALL_GET,
    CALL_GET_KEY,
    CALL_GET_RANGE,
    CALL_COMMIT,
    CALL_ABANDON, /* reset, or destroy and create */
};

struct call {
    enum call_kind kind;
    int type;         /* the mutation's, conflict range's or option's number */
    struct text key;  /* or the begin of a range */
    struct text value; /* or operand, or the end of a range */
    struct selector begin, end; /* get_key uses begin */
    int limit, target_bytes, mode, iteration;
    bool snapshot, reverse;
    int64_t version; /* CALL_SET_READ_VERSION */

    /* the result */
    fdb_error_t error;
    bool present, more;
    struct text result; /* a value or a key */
    struct rows rows;
    /* of a read and CALL_READ_VERSION: the transaction's, asked for afterwards */
    int64_t read_version;
    int64_t committed_version;
    uint8_t stamp[10];
    bool stamped;            /* `stamp` is set */
    uint64_t started, ended; /* on the one clock of all threads */
};

/* --- The reference --- */

struct mutation {
    int type; /* FDBMutationType, or one of these: */
    struct text key, value;
};
enum { MUTATION_SET = 0, MUTATION_CLEAR_RANGE = 1 };

/* `required` ranges must be conflicted on; the others may be, where the rules leave it open. */
struct range {
    struct text begin, end;
    bool required;
};

struct ranges {
    struct range *array;
    int count, capacity;
};

/* A transaction as the reference sees it. All zero but snapshot_ryw, see txn_reset. */
struct txn {
    bool ryw_disabled;
    int snapshot_ryw; /* above 0: snapshot reads see the transaction's own writes */
    bool next_write_unconflicted;
    bool has_version, version_was_set;
    int64_t version;
    struct mutation *mutations;
    int mutation_count, mutation_capacity;
    struct ranges reads, writes;
    struct ranges unreadable; /* `required`: surely so */
    fdb_error_t read_error;   /* a read failed: so will the commit, with the same error */
};

/* One version of the database. */
struct state {
    int64_t version;
    int order; /* in the batch of that version */
    struct rows rows;
};

struct commit {
    int64_t version;
    int order;
    uint64_t started, ended;
    struct ranges writes;
};

struct history {
    struct arena *arena;
    struct state *states; /* in order of commit; the first is what the seed found */
    int state_count, state_capacity;
    struct commit *commits;
    int commit_count, commit_capacity;
};

void history_begin(struct history *history, struct arena *arena, int64_t version, struct rows rows);
const struct state *history_state(const struct history *history, int64_t version);
const struct state *history_newest(const struct history *history);

/* Applies a transaction that committed. Returns NULL, or what is wrong with its version. */
const char *history_commit(struct history *history, struct txn *txn, const struct call *commit);

/*
 * A commit after `after` that wrote what the transaction read; up to (version, order) exclusive,
 * begun before `started_max`.
 */
struct conflict_search {
    int64_t after, version;
    int order;
    uint64_t started_max;
    bool required; /* only by ranges that must be conflicted on */
};
const struct commit *history_find_conflict(const struct history *history, const struct txn *txn,
                                           const struct conflict_search *search);

void txn_reset(struct txn *txn);

/*
 * Notes a call and checks its result: NULL if it is right, else what is wrong, valid until the next
 * call. Commits are checked for their form only. For reads the transaction's version must be in the
 * history.
 */
const char *txn_check(struct history *history, struct txn *txn, const struct call *call);

/* Notes a write-like call without any check. */
void txn_note(struct history *history, struct txn *txn, const struct call *call);

/* A transaction that writes nothing commits without a version. */
bool txn_is_read_only(const struct txn *txn);

/* --- Making calls (calls.c) --- */

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
int random_below(struct random *random, int bound);

/* The keys one seed plays with: few, so that they collide. */
enum { POOL_KEYS_MAX = 40 };
struct pool {
    struct text keys[POOL_KEYS_MAX];
    int count;
};
void pool_create(struct pool *pool, struct arena *arena, struct random *random);

/* One transaction in use. */
struct session {
    FDBDatabase *database;
    FDBTransaction *transaction;
    struct arena *arena;
    const struct pool *pool;
    struct random *random;
    bool version_known; /* it has read, or its version was set */
    bool used;          /* any call was made since it began */
    bool ryw_disabled;
    bool has_conflict_reads; /* explicit read conflict ranges */
    bool stamps;             /* has versionstamped operations */
    bool by_callback;        /* waits for its commits by a callback */
    int calls;
};
void session_open(struct session *session, FDBDatabase *database);
void session_close(struct session *session);

/*
 * Chooses the next call; the caller may overrule it. Versions and commits are the caller's to
 * choose.
 */
void session_choose(struct session *session, struct call *call);

/* A set of one of the pool's keys. */
void session_choose_row(struct session *session, int index, struct call *call);

/*
 * Makes the call and records the result. After a commit or CALL_ABANDON the session is a fresh
 * transaction.
 */
void session_execute(struct session *session, struct call *call);

/* The call that goes on after a range read that had more. */
bool call_continue(struct arena *arena, const struct call *call, struct call *next);

void call_print(FILE *file, const struct call *call);

/* Waits for a future and returns its error. */
fdb_error_t wait_for(FDBFuture *future);

/* Empties the database; returns the version of that. */
int64_t database_clear(FDBDatabase *database);
/* All rows at a version that is at least `version_min`; *version is it. */
struct rows database_read_all(FDBDatabase *database, struct arena *arena, int64_t *version);

/* Starts and stops the network thread. */
void network_start(void);
void network_stop(void);

uint64_t environment_number(const char *name, uint64_t otherwise);

/* What the calls added up to, so that a run shows that it met what it is meant to meet. */
struct tally {
    uint64_t calls, rows, commits, conflicts, unreadable, shared_batches;
};
void tally_add(struct tally *tally, const struct call *call);
void tally_print(const struct tally *tally);

/* Ends the program: something failed that is no finding. */
void die(const char *what, fdb_error_t error);

#endif
