/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures as the entry points make them. Two kinds of birth: ready (reads of an embedded database,
 * which are answered before the call returns) and pending (commits, watches, versionstamps, retries,
 * and whatever another process answers). See future.c for
 * the representation.
 */
#ifndef KEEL_API_FUTURE_H
#define KEEL_API_FUTURE_H

#include "api/export.h"

#include <stdatomic.h>

#include "os/loop.h"
#include "txn/transaction.h"
#include "util/rows.h"

/* What a future's result is; the getters refuse any other kind with CLIENT_INVALID_OPERATION. */
enum future_kind {
    FUTURE_NOTHING,
    FUTURE_INT64,
    FUTURE_UINT64,
    FUTURE_DOUBLE,
    FUTURE_KEY,
    FUTURE_VALUE,
    FUTURE_ROWS,
    FUTURE_KEYS,
    FUTURE_STRINGS,
    FUTURE_CLUSTER,
    FUTURE_DATABASE,
    FUTURE_OTHER, /* a result that never exists here: such futures hold errors only */
};

struct future_callback {
    struct loop_task task;
    FDBCallback function;
    void *parameter;
    FDBFuture *future; /* a reference */
    struct future_callback *next;
};

/*
 * What brings a pending future's answer about, where waiting alone is not enough. Called without a
 * lock, by a thread that holds a reference on the future.
 */
struct future_driver {
    /*
     * The calling thread is about to block. True: something has happened, look again and call again;
     * false: there is nothing to do but to sleep.
     */
    bool (*drive)(FDBFuture *future);
    /* Somebody waits without blocking a thread. Once a future. */
    void (*hurry)(FDBFuture *future);
};

/* For what waits for a commit of its transaction. */
extern const struct future_driver future_commit_driver;

/* What only a pending future needs. */
struct future_pending {
    struct versionstamp_completion answer;
    struct transaction *transaction; /* a reference, or NULL */
    const struct future_driver *driver; /* or NULL */
    unsigned generation;                /* of forks: a parent's pending future is never answered */
    _Atomic(struct future_callback *) callbacks;
    struct future_callback first_callback; /* further ones are allocated */
};

struct foreign_future_methods;

struct FDB_future {
    const struct foreign_future_methods *foreign; /* first, and NULL in our own: api/foreign.h */
    _Atomic uint32_t state;
    _Atomic int references; /* the caller's, the answerer's, one a callback or blocked thread */
    _Atomic int holders;    /* successful gets less releases */
    fdb_error_t error;      /* fixed when ready */
    enum future_kind kind;
    bool is_pending; /* was born pending: `pending` is there, not `storage` */
    bool present;    /* of a value */
    bool more;       /* of rows */
    union {
        int64_t int64;
        uint64_t uint64;
        double real;
        struct bytes bytes; /* key or value: in `arena` */
        struct rows rows;   /* of keys too: then its array holds FDBKey, see future_keep_keys */
        struct {
            const char **array;
            int count;
        } strings;
        FDBCluster *cluster;
        FDBDatabase *database;
    } result;
    struct arena arena; /* starts out behind what is used of `tail` */
    union {
        struct future_pending pending;
        uint8_t storage[1]; /* in truth longer: see FUTURE_BYTES in future.c */
    } tail;
};

/*
 * A ready future whose result and error the maker fills in before handing it out; until then nobody
 * else knows it. Its arena can take a key or value of a few hundred bytes without another
 * allocation. NULL when memory is out: hand out future_out_of_memory() then.
 */
FDBFuture *future_create_ready(enum future_kind kind);

/* A ready future that holds an error; never NULL. */
FDBFuture *future_create_failed(fdb_error_t error);

/* The one future that needs no memory: ready, LARGE_ALLOC_FAILED, never freed. */
FDBFuture *future_out_of_memory(void);

/*
 * A pending future with two references: the caller's, and the answerer's, which future_answer gives
 * back. Its result, of any kind, is filled in by the answerer before that; its arena has room for a
 * small one. With a transaction it takes a reference on that, and cancelling goes through
 * transaction_cancel_completion. NULL when memory is out.
 */
FDBFuture *future_create_pending(enum future_kind kind, struct transaction *transaction);

/*
 * The completion to start a pending future's operation with; its `done` answers the future, and may
 * be replaced by one that does more. And the way back.
 */
struct completion *future_completion(FDBFuture *future);
FDBFuture *future_of_completion(struct completion *completion);
struct versionstamp_completion *future_versionstamp_completion(FDBFuture *future);

/*
 * Turns the rows of a FUTURE_KEYS into an array of their keys, in place. Before it is handed out.
 */
void future_keep_keys(FDBFuture *future);

/* Keeps the first and last row and at most `limit` (-1: all) of those between. Before future_keep_keys. */
void future_limit_split_points(struct rows *rows, int limit);

/*
 * What every getter asks first: FUTURE_NOT_SET, the future's own error, FUTURE_RELEASED, or
 * CLIENT_INVALID_OPERATION for another kind or a missing output. On success the result stays until
 * one more fdb_future_release_memory.
 */
fdb_error_t future_hold(FDBFuture *future, enum future_kind kind, const void *output);

/*
 * Makes a pending future ready, once: wakes who waits, posts the callbacks. Any thread that holds
 * no lock.
 */
void future_answer(FDBFuture *future, fdb_error_t error);

/* Makes a thread that blocks on a pending future look again, and drive. Any thread. */
void future_nudge(FDBFuture *future);

/* Whether the answer is there. */
bool future_is_ready(FDBFuture *future);

/* One more reference, and giving one back. The last frees the future. */
void future_retain(FDBFuture *future);
void future_release(FDBFuture *future);

#endif
