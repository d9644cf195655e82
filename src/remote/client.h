/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's side of a shared database: one connection to the process that owns it, shared by all
 * threads, and made anew when that process is gone. What is said over it is api/joined.c's business;
 * this is how it gets there, and how the answers come back.
 *
 * Any function may be called from any thread, holding no lock of a transaction.
 */
#ifndef KEEL_REMOTE_CLIENT_H
#define KEEL_REMOTE_CLIENT_H

#include "remote/protocol.h"

struct remote_client;

struct remote_client_options {
    const char *directory;   /* of the database; of one that is served at an address, its name in messages */
    const char *host, *port; /* where it is served; NULL: by its owner, in the directory */
    const char *secret;      /* what the server asks for, "" if nothing */
    int api_version;
    int64_t silence_us;      /* an owner that says nothing for so long, though asked, is taken for stopped */

    /*
     * Called by the client's thread when nobody answers: tries to become the owner. True: this process
     * owns the database now, and serves it. Must give up soon after `stopping` says so. NULL: never.
     */
    bool (*take_over)(void *context);
    void *context;
};

/* Makes a client, which begins to look for the owner. All strings are copied. PLATFORM_ERROR, LARGE_ALLOC_FAILED, IO_ERROR. */
fdb_error_t remote_client_create(const struct remote_client_options *options, struct remote_client **client);

/* REQUIRES: no database and no twin is left. Not inside `take_over`. */
void remote_client_close(struct remote_client *client);

/* Whether remote_client_close has begun, for `take_over`. */
bool remote_client_is_closing(struct remote_client *client);

/* Wakes the client's thread, for example to try `take_over` at once. */
void remote_client_wake(struct remote_client *client);

/* --- Databases --- */

/* A database as this process opened it: its transactions at the owner take their defaults from it. */
struct remote_database;

/* NULL when memory is out. */
struct remote_database *remote_database_open(struct remote_client *client, const char *path, const char *connection_string);
void remote_database_set_option(struct remote_database *database, int option, const uint8_t *value, int length);
void remote_database_close(struct remote_database *database);

/* --- Twins --- */

/* The owner's side of a transaction, as this side knows it. All but `client` and `database` under the client's lock. */
struct remote_twin {
    struct remote_client *client;
    struct remote_database *database;
    uint32_t number;
    uint64_t epoch; /* of the connection that knows the twin; 0: none does */
    uint64_t round; /* of the transaction that the twin is in */
    bool used;      /* the twin knows something that a new one would not */
    bool sent_more; /* something other than reads was sent in this round, or a read failed: a commit has to be sent, too */
};

/* LARGE_ALLOC_FAILED: memory is out, or there are more than a connection may have. */
fdb_error_t remote_twin_open(struct remote_database *database, struct remote_twin *twin);
void remote_twin_close(struct remote_twin *twin);

/* --- Messages --- */

enum remote_request_kind { REQUEST_READ, REQUEST_COMMIT, REQUEST_WATCH };

/*
 * A request on its way. Memory of the caller, who keeps it until `answered` was called, exactly once,
 * by a thread that holds no lock: with the answer, or with `type` ANSWER_ERROR and an empty body when
 * there will be none:
 *
 *     COMMIT_UNKNOWN_RESULT   the connection was lost under a commit
 *     TRANSACTION_TOO_OLD     ... under anything else: the twin is gone
 *     OWNER_SILENT            the owner does not answer
 *
 * True: the body made sense.
 */
struct remote_request {
    bool (*answered)(struct remote_request *request, enum protocol_answer type, fdb_error_t error, struct protocol_reader *body);
    bool (*is_wanted)(struct remote_request *request); /* false: whoever blocks on it need not go on */
    void (*nudge)(struct remote_request *request);     /* whoever blocks on it looks again, and drives */
    enum remote_request_kind kind;
    uint32_t number; /* the client's own, as all below */
    bool waiting;
    bool hurried;
    bool outstanding;
    struct remote_request *previous, *next; /* among those that block */
};

/*
 * A message about a twin: _begin locks the client, brings the twin to `round` and returns room for
 * `size` bytes behind the message's type and numbers; _end unlocks it again.
 *
 * With a request that is registered, too. NULL: nothing was sent and nothing is locked; *error is
 * TRANSACTION_TOO_OLD (the twin was lost), OWNER_SILENT, or LARGE_ALLOC_FAILED.
 */
uint8_t *remote_message_begin(struct remote_twin *twin, uint64_t round, enum protocol_question type,
                              struct remote_request *request, size_t size, fdb_error_t *error);
void remote_message_end(struct remote_twin *twin);

/* Tells the owner that the transaction began anew, if there is anything for it to forget. */
void remote_twin_reset(struct remote_twin *twin, uint64_t round);

/* Whether the twin has been asked for nothing but reads in this round, and none is known to have failed. */
bool remote_twin_is_read_only(struct remote_twin *twin, uint64_t round);

/* A read of this round failed: only the twin knows whether that matters to the commit. */
void remote_twin_read_failed(struct remote_twin *twin, uint64_t round);

/* Tells the owner that nobody waits for this watch any more. It is answered all the same. */
void remote_request_cancel(struct remote_twin *twin, struct remote_request *request);

/*
 * The calling thread is about to block on the request: sends what is to be sent, and if nobody else
 * is reading reads answers itself, until something came or `deadline_us` (0: none). False: another
 * reads; sleep, and call again when nudged.
 */
bool remote_request_drive(struct remote_twin *twin, struct remote_request *request, int64_t deadline_us);

/* Somebody waits for the request without blocking. */
void remote_request_hurry(struct remote_twin *twin, struct remote_request *request);

/* Sends what is to be sent. */
void remote_client_push(struct remote_client *client);

/* Whoever blocks in remote_request_drive should look again: something ended without an answer. */
void remote_client_interrupt(struct remote_client *client);

#endif
