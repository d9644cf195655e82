/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the client share. */
#ifndef KEEL_REMOTE_CLIENT_INTERNAL_H
#define KEEL_REMOTE_CLIENT_INTERNAL_H

#include "os/loop.h"
#include "os/socket.h"
#include "os/thread.h"
#include "remote/client.h"

enum {
    TICK_US = 2000,                      /* what nobody waits for is sent by then */
    RECEIVE_WAIT_US = 100000,            /* a blocking reader looks up so often */
    FRAME_BYTES_WANTED = 256 * 1024,     /* a frame is closed and sent when it is so long */
    OUTPUT_WAIT_BYTES = 32 * 1024 * 1024, /* whoever adds to more than this waits */
};

/* Numbers that are given out and come back; the lowest first, so that tables stay small. */
struct numbers {
    uint32_t *free;
    size_t free_count, capacity;
    uint32_t next;
};

struct remote_database {
    struct remote_client *client;
    uint32_t number;
    uint64_t epoch; /* of the connection that knows it */
    struct database_option *options; /* set so far, newest first */
    struct remote_database *previous, *next;
    size_t path_bytes, connection_bytes;
    char text[]; /* path, connection string */
};

struct database_option {
    struct database_option *next;
    int option;
    bool given;
    int length;
    uint8_t value[];
};

/*
 * The sending of what callbacks asked for, as a task of the network's loop: one callback after the other asks, and all of it goes out together
 * after the last. Of its own memory, because a task that was posted cannot be taken back when the client closes.
 */
struct later_flush {
    struct loop_task task;
    os_mutex lock; /* before the client's */
    struct remote_client *client; /* NULL: it has closed */
    bool posted; /* under the client's lock */
};

struct remote_client {
    os_mutex lock; /* everything below, but for what says otherwise; after it a transaction's, never the other way */
    os_condition room;
    struct remote_client_options options;
    os_thread thread;
    struct os_event event;
    bool closing;

    /* The connection. An epoch ends when it is lost: the owner then knows nothing of what was said in it. */
    bool up;
    uint64_t epoch;
    struct os_socket socket; /* closed and replaced by the reader only, while nobody else reads */
    int owner_process;
    bool owned;              /* this process is the owner: take_over said so */
    fdb_error_t failing;     /* the owner is silent: new messages are refused with it; 0: not so */
    int64_t down_since_us;
    int64_t heard_us, pinged_us;

    struct protocol_buffer output;
    size_t sent;
    struct later_flush *later;
    uint64_t appends; /* messages so far */

    struct numbers twin_numbers, database_numbers, request_numbers;
    struct remote_database *databases;
    struct remote_request **requests; /* by number; NULL: none */
    size_t request_capacity;
    size_t outstanding, hurried_count;

    /* Reading: one thread at a time has the role. The input is its own. */
    bool reading, thread_reads;
    bool reader_wanted; /* a thread that blocks came while the client's thread was reading */
    bool thread_sleeps; /* the client's thread waits longer than a tick */
    uint64_t foreground_reads;
    struct remote_request *first_waiting, *last_waiting;
    uint8_t *input;
    size_t input_length, input_capacity;
    size_t piece_bytes; /* since the owner was last heard, of a frame that is not whole */

    char texts[]; /* of the options */
};

/* --- client.c --- */

/* Wakes the client's thread. Any time. */
void client_kick(struct remote_client *client);

/* Sends what there is, as far as it goes. REQUIRES: the lock. */
void client_flush(struct remote_client *client);

/* The same, for somebody who does not block: on the network's thread not before the callbacks that are due have run. REQUIRES: the lock. */
void client_flush_soon(struct remote_client *client);

/*
 * Ends the epoch, and every request in it: commits with COMMIT_UNKNOWN_RESULT, the rest with
 * TRANSACTION_TOO_OLD; or all with `failing`, which then also refuses new ones.
 * REQUIRES: the lock, which is given back while they are answered. Reading, if `up`.
 */
void client_lose(struct remote_client *client, fdb_error_t failing);

/*
 * Receives once and works off what came. REQUIRES: the caller reads, and holds no lock.
 * `wait`: for a while, or until deadline_us if that is not 0.
 */
void client_receive(struct remote_client *client, bool wait, int64_t deadline_us);

/* Lets the first thread that blocks read, if nobody does. REQUIRES: the lock. */
void client_pass_baton(struct remote_client *client);

/* --- client_messages.c --- */

/* Takes a request out of the line of those that block; out of all tables. REQUIRES: the lock. */
void client_unwait(struct remote_client *client, struct remote_request *request);
void client_forget_request(struct remote_client *client, struct remote_request *request);

/* The answer at the front of the reader. False: it makes no sense. REQUIRES: reading, no lock. */
bool client_take_answer(struct remote_client *client, struct protocol_reader *reader);

#endif
