/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures as the entry points make them. Two kinds of birth: ready (reads, which are answered
 * before the call returns) and pending (commits, watches, versionstamps, retries). See future.c for
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

/* What only a pending future needs. */
struct future_pending {
    struct versionstamp_completion answer;
    struct transaction *transaction; /* a reference, or NULL */
    _Atomic(struct future_callback *) callbacks;
    struct future_callback first_callback; /* further ones are allocated */
};

struct FDB_future {
    _Atomic uint32_t state;
    _Atomic int references; /* the caller's, the answerer's, one a callback or blocked thread */
    _Atomic int holders;    /* successful gets less releases */
    fdb_error_t error;      /* fixed when ready */
    enum future_kind kind;
    bool is_pending; /* was born pending: `pending` is there, not `storage` */
    bool commits;    /* waits for a commit: may be driven and hurried */
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
    struct arena arena; /* starts out in `storage` */
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
 * back. With a transaction it takes a reference on that, and cancelling goes through
 * transaction_cancel_completion. NULL when memory is out.
 */
FDBFuture *future_create_pending(enum future_kind kind, struct transaction *transaction);

/* The completion to start a pending future's operation with; its `done` answers the future. */
struct completion *future_completion(FDBFuture *future);
struct versionstamp_completion *future_versionstamp_completion(FDBFuture *future);

/*
 * Turns the rows of a FUTURE_KEYS into an array of their keys, in place. Before it is handed out.
 */
void future_keep_keys(FDBFuture *future);

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

/* fdb_future_destroy for a future that was born ready. */
void future_discard(FDBFuture *future);

#endif
