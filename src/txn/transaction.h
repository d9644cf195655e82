/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction: what fdb_transaction_* means, without futures. The api folder wraps every call here into a future; reads are answered before
 * the call returns, commit, watch, versionstamp and on_error complete later through a `completion`.
 *
 * Any function may be called from any thread at any time: a transaction locks itself. Bytes passed in are copied. Bytes handed out are copied
 * into the arena or rows the caller gives.
 */
#ifndef KEEL_TXN_TRANSACTION_H
#define KEEL_TXN_TRANSACTION_H

#include "database/database.h"

struct transaction;

/*
 * How every transaction begins, ours or not: who answers for it (NULL: the functions below; api/foreign.h knows the others), and the fork
 * generation of its birth.
 */
struct foreign_transaction_methods;
struct transaction_head {
    const struct foreign_transaction_methods *foreign;
    unsigned generation;
};

struct key_selector {
    struct bytes key;
    bool or_equal;
    int offset;
};

/*
 * An answer that comes later. Owned by the caller; the transaction links it while it is pending. `done` is called exactly once, by whoever
 * answers first (the database, a cancel, a reset, a timeout), holding no lock; it must not block.
 */
struct completion {
    void (*done)(struct completion *completion, fdb_error_t error);
    struct completion *previous, *next; /* the transaction's own */
    struct transaction *transaction;    /* likewise */
    int kind;                           /* likewise */
    fdb_error_t error;                  /* likewise */
};

struct versionstamp_completion {
    struct completion completion;
    uint8_t stamp[10]; /* set before done(0) */
};

/*
 * Defaults a database gives to its transactions (FDBDatabase options), and what they share. Made by the api with the database; outlives its transactions.
 * Fields are changed under `lock` by database_options_set and read under it by transaction_create.
 */
struct database_handle;

fdb_error_t database_handle_create(struct database *database, int api_version, const char *cluster_file_path,
                                   const char *connection_string, struct database_handle **handle);
void database_handle_retain(struct database_handle *handle);
void database_handle_release(struct database_handle *handle); /* the last one closes the database; nothing in a forked child */
bool database_handle_is_forked(const struct database_handle *handle); /* it belongs to a parent process: use it for nothing */
struct database *database_handle_database(struct database_handle *handle);

/* fdb_database_set_option: INVALID_OPTION, INVALID_OPTION_VALUE, or success. */
fdb_error_t database_handle_set_option(struct database_handle *handle, int option, const uint8_t *value, int length);

/* The last release calls this instead of closing the database, which then outlives the handle. Before the handle is used. */
void database_handle_set_release(struct database_handle *handle, void (*release)(void *context), void *context);

/* Keeps the handle alive. */
fdb_error_t transaction_create(struct database_handle *handle, struct transaction **transaction);

/* fdb_transaction_destroy: pending completions end with TRANSACTION_CANCELLED... except a commit in flight, which goes on and whose completion ends so at once;
 * watches of a committed transaction live on. The memory goes when the database is done with it. */
void transaction_destroy(struct transaction *transaction);

/*
 * The memory is counted: transaction_create hands out one reference and transaction_destroy gives it back. Whoever owns a pending completion takes
 * another before starting it and releases it when no transaction_cancel_completion or transaction_drive is to come, so that these two, and nothing
 * else, may still be called after transaction_destroy. The last release frees the transaction and releases its handle. Any thread, holding no lock.
 */
void transaction_retain(struct transaction *transaction);
void transaction_release(struct transaction *transaction);

fdb_error_t transaction_set_option(struct transaction *transaction, int option, const uint8_t *value, int length);

fdb_error_t transaction_set_read_version(struct transaction *transaction, int64_t version);
fdb_error_t transaction_get_read_version(struct transaction *transaction, int64_t *version);

fdb_error_t transaction_get(struct transaction *transaction, struct bytes key, bool snapshot, struct arena *arena,
                            struct bytes *value, bool *present);
fdb_error_t transaction_get_key(struct transaction *transaction, struct key_selector selector, bool snapshot,
                                struct arena *arena, struct bytes *key);

/* The arguments as fdb_transaction_get_range takes them. */
struct range_arguments {
    struct key_selector begin, end;
    int limit, target_bytes, mode, iteration;
    bool snapshot, reverse;
};
fdb_error_t transaction_get_range(struct transaction *transaction, const struct range_arguments *arguments,
                                  struct rows *rows, bool *more);

/* These four report an error at once for the api to remember, or keep it for the commit, as the official client does. */
void transaction_set(struct transaction *transaction, struct bytes key, struct bytes value);
void transaction_clear(struct transaction *transaction, struct bytes key);
void transaction_clear_range(struct transaction *transaction, struct bytes begin, struct bytes end);
void transaction_atomic_op(struct transaction *transaction, struct bytes key, struct bytes operand, int type);

/* Keeps `error` as a failing set or clear would: the commit fails with it, unless an earlier one is kept. For misuse only the api can see. */
void transaction_defer_error(struct transaction *transaction, fdb_error_t error);

fdb_error_t transaction_add_conflict_range(struct transaction *transaction, struct bytes begin, struct bytes end, int type);

void transaction_commit(struct transaction *transaction, struct completion *completion);

/*
 * For a thread that blocks: when (os_clock_us) the transaction's backoff or timeout ends, 0 if neither is to come; and the ending itself, which is
 * nothing if it is not yet time or somebody was quicker. The loop's timers do the same where the loop runs.
 */
int64_t transaction_deadline(struct transaction *transaction);
void transaction_expire(struct transaction *transaction);

/* The calling thread is about to block on its commit: see database_drive. And: somebody waits by callback, see database_hurry. */
bool transaction_drive(struct transaction *transaction);
void transaction_hurry(struct transaction *transaction);

fdb_error_t transaction_get_committed_version(struct transaction *transaction, int64_t *version);
void transaction_get_versionstamp(struct transaction *transaction, struct versionstamp_completion *completion);
fdb_error_t transaction_get_approximate_size(struct transaction *transaction, int64_t *bytes);
void transaction_watch(struct transaction *transaction, struct bytes key, struct completion *completion);

/*
 * fdb_future_cancel on a completion that was started: takes it out and calls done(OPERATION_CANCELLED). False if it was or is being answered.
 * REQUIRES: the caller holds a reference on the transaction it was given to.
 */
bool transaction_cancel_completion(struct completion *completion);

fdb_error_t transaction_get_estimated_range_size(struct transaction *transaction, struct bytes begin, struct bytes end, int64_t *bytes);
fdb_error_t transaction_get_range_split_points(struct transaction *transaction, struct bytes begin, struct bytes end,
                                               int64_t chunk_bytes, struct rows *keys); /* keys only, values empty */
fdb_error_t transaction_get_addresses_for_key(struct transaction *transaction, struct bytes key, struct arena *arena,
                                              const char ***addresses, int *count);

/* Decides whether `error` may be retried; if so waits the backoff on the loop, resets, and completes with 0; else completes with the error. */
void transaction_on_error(struct transaction *transaction, fdb_error_t error, struct completion *completion);
void transaction_reset(struct transaction *transaction);
void transaction_cancel(struct transaction *transaction);

/* --- Transactions whose data another process has: proxy.c --- */

/*
 * A transaction that is answered for by `foreign`, with `extra_bytes` of zeroes behind it for that one's own use. Of the functions above, those that
 * touch no data work as ever: options, cancel, reset, on_error, versionstamps, committed version, completions, and adding a conflict range, which checks it.
 */
fdb_error_t transaction_create_proxy(struct database_handle *handle, const struct foreign_transaction_methods *foreign, size_t extra_bytes,
                                     struct transaction **transaction);
void *transaction_extra(struct transaction *transaction);

enum proxy_call {
    PROXY_READ,  /* not during or after a commit */
    PROXY_ASIDE, /* also then: read version, special keys */
    PROXY_SIZE,  /* whatever state the transaction is in, but for a kept error */
};

/*
 * Admit a call: an error at once, or the completion is pending and will be ended by a cancel, reset or timeout like any other, or claimed for its
 * answer. *round says how often the transaction had begun anew by then.
 */
fdb_error_t transaction_proxy_begin(struct transaction *transaction, enum proxy_call call, struct completion *completion, uint64_t *round);
fdb_error_t transaction_proxy_commit(struct transaction *transaction, struct completion *completion, uint64_t *round);
fdb_error_t transaction_proxy_watch(struct transaction *transaction, struct completion *completion, uint64_t *round);

/* The like for what returns nothing; false: refused, and kept for the next call that answers. */
bool transaction_proxy_write(struct transaction *transaction, uint64_t *round);
uint64_t transaction_proxy_round(struct transaction *transaction);

/* The answer is there: true, the caller now answers whoever waits; false, it was ended before. Not for commits. */
bool transaction_proxy_claim(struct completion *completion);

struct proxy_commit {
    int64_t version; /* -1: nothing was written */
    uint8_t stamp[10];
    bool stamped;
    bool refused; /* for an error of an earlier call: the commit did not even begin */
};

/* The answer to a commit of that round, *result to be looked at on success or where refused; ends the completion and what else waited. */
void transaction_proxy_committed(struct transaction *transaction, struct completion *completion, uint64_t round, fdb_error_t error,
                                 const struct proxy_commit *result);

/* The twin's side: what its last commit came to; the error it keeps for its next call. */
void transaction_commit_result(struct transaction *transaction, struct proxy_commit *result);
fdb_error_t transaction_deferred_error(struct transaction *transaction);

#endif
