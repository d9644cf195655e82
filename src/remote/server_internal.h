/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the server share. Everything here belongs to the server's one thread, but for what says otherwise. */
#ifndef KEEL_REMOTE_SERVER_INTERNAL_H
#define KEEL_REMOTE_SERVER_INTERNAL_H

#include <stdatomic.h>

#include "os/later.h"
#include "os/thread.h"
#include "remote/protocol.h"
#include "remote/server.h"
#include "txn/transaction.h"

enum {
    LISTENERS_MAX = 4,
    OUTPUT_BYTES_MAX = 4 * 1024 * 1024, /* unsent beyond this: nothing more is read from that client */
};

/* What one may take, and for how long; tests lower it before the server listens. See server.c for the values. */
struct server_limits {
    uint64_t connections;
    int64_t hello_us;              /* a connection that has not said hello by then is closed */
    int64_t output_stuck_us;       /* unsent for this long: the client is dropped */
    size_t transaction_bytes_held; /* of writes; beyond: TRANSACTION_TOO_LARGE */
    size_t session_bytes_held;     /* likewise, over the transactions of a connection */
};

/* What epoll hands back: the first member of everything that can be waited for. */
enum subject_kind { SUBJECT_EVENT, SUBJECT_LISTENER, SUBJECT_SESSION };
struct subject {
    enum subject_kind kind;
};

struct listener {
    struct subject subject;
    struct os_socket socket;
    char secret[PROTOCOL_SECRET_BYTES_MAX + 1]; /* empty: the user decides who gets in */
};

/* A transaction of a client; `transaction` NULL: the number is free. */
struct twin {
    struct transaction *transaction;
    size_t bytes_held; /* of writes since it began anew */
};

/*
 * A request that is answered later: a commit or a watch. In its session's list until it is answered
 * or the session ends; owned by the transaction until `done` has put it into the server's queue.
 */
struct late {
    struct completion completion;
    struct remote_server *server;
    struct session *session; /* NULL: it is gone, nobody wants the answer */
    struct transaction *transaction; /* a reference */
    uint32_t request;
    bool commits;
    fdb_error_t error;          /* set by done */
    struct proxy_commit result; /* likewise, of a commit that succeeded */
    struct late *next_done;
    struct late *previous, *next; /* in the session */
};

/* A connection. */
struct session {
    struct subject subject;
    struct remote_server *server;
    const struct listener *listener; /* where it came in */
    struct os_socket socket;
    bool greeted;      /* hello was said and answered */
    bool ending;       /* to be closed when the events at hand are worked off */
    bool touched;      /* in the list of those with something to send or to end */
    bool paused;       /* input was left because the output was full */
    int waits_for;     /* what the poller was told */
    int api_version;
    int process;
    int64_t opened_us;
    int64_t stuck_since_us; /* output that does not go out; 0: none */

    uint8_t *input;         /* what came in and is not worked off: input[input_at .. input_length) */
    size_t input_at, input_length, input_capacity;
    struct protocol_reader frame; /* the frame being worked on; next == end: none */
    size_t frame_bytes;           /* to be taken off the input with it */
    struct protocol_buffer output;
    size_t sent; /* of output */
    size_t buffer_bytes; /* of input and output, as counted in the status */

    struct twin *twins;
    size_t twin_capacity;
    size_t bytes_held;
    struct database_handle **databases;
    size_t database_capacity;
    struct late *lates;
    struct late **late_of; /* by request */
    size_t late_capacity;

    struct session *previous, *next;
    struct session *next_touched;
};

struct remote_server {
    struct database *database;
    os_thread thread;
    struct os_poller poller;
    struct subject event_subject;
    struct os_event event;

    os_mutex lock; /* what follows, up to the gap; a leaf */
    os_condition changed;
    struct listener listeners[LISTENERS_MAX];
    int listener_count;
    struct late *done_first, **done_last;
    struct os_later wake; /* of the server's thread */
    bool wake_noted;      /* it is on some thread's list */
    bool stopping;
    struct server_limits limits; /* not under the lock: fixed while anybody is connected */
    long handles; /* database handles alive: transactions that go on without their session hold some */

    struct session *sessions, *touched;
    bool commits_started; /* since the last database_hurry */
    bool has_deadlines;   /* some session has one: see sweep */
    struct rows rows;     /* scratch */
    struct arena arena;   /* likewise */
    _Atomic uint64_t connections_total, requests_total, violations_total;
    _Atomic uint64_t transactions, waiting, bytes_held, buffer_bytes; /* see struct remote_server_status */
};

/* A count that the server's thread alone changes, and others read. */
static inline void server_count(_Atomic uint64_t *count, uint64_t added) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + added, memory_order_relaxed);
}

/* server_session.c: works off the messages of the session's frame; stops early where the output is full or the session has to end. */
void session_run_frame(struct session *session);

/* server_session.c: lets go of everything it holds on the database. */
void session_release(struct session *session);

/* server_session.c: tells a stranger why it is not let in. */
void server_send_refusal(struct os_socket *socket, fdb_error_t error, const char *why);

/* server_session.c: writes the answer of a late request. */
void session_answer_late(struct session *session, const struct late *late);

/* server.c: the session has output. */
void session_touch(struct session *session);

/* server.c: ends a session that broke the rules, with a line in the log. */
void session_violation(struct session *session, const char *what);

/* server.c: for a late request's completion; any thread. */
void server_late_done(struct completion *completion, fdb_error_t error);

/* server.c: a database handle of a session was freed; any thread. */
void server_handle_released(void *server);

static inline bool session_output_is_full(const struct session *session) {
    return session->output.length - session->sent > OUTPUT_BYTES_MAX;
}

#endif
