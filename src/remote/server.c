/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: one thread that waits for all connections of a database and does what they ask. It
 * runs in every process that owns the files of a directory.
 *
 *     accept ─► session ── bytes come ──► frames ─► messages ─► src/txn ─► answers ─► one send
 *                  │                                               │
 *                  │                           commits and watches │ answered by a thread of the database:
 *                  └◄──────────── event ◄──── done queue ◄─────────┘ they wait here for ours
 *
 * Reads are answered on the spot: they are synchronous and short. A readable connection costs one
 * receive and, with all answers it led to, one send. Commits go to the database's own pipeline, so
 * this thread never waits for a disk; those that arrive together share a batch there and their
 * answers share a send here.
 *
 * What a client can do to others is bounded:
 *
 *   1. One receive at a time each, in turn.
 *   2. A client that does not read its answers is not read from while more than OUTPUT_BYTES_MAX lie
 *      here for it, also in the middle of a frame, and dropped after output_stuck_us without progress.
 *   3. What it sends is checked before it is used; the first thing that makes no sense ends its
 *      connection and nothing else, with a line in the log.
 *   4. Transactions, requests, databases and the bytes that unfinished transactions hold have limits.
 *   5. When a connection ends, its transactions are destroyed and its watches cancelled; a commit that
 *      is under way ends as it may. Nothing of what a client sent before it hung up is begun any
 *      more: whoever was told that a commit's fate is unknown must not be overtaken by it later.
 *
 * Threads: the server's own, for everything in a session; other threads come in through `lock`, a leaf:
 * new listeners, the done queue, the count of handles. Failure: lack of memory ends the connection
 * it was needed for.
 */
#include "remote/server_internal.h"

#include <assert.h>

#include "os/clock.h"
#include "os/log_line.h"
#include "util/memory.h"

enum {
    INPUT_BYTES = 64 * 1024, /* a receive; a longer frame gets what it needs */
    STRANGER_BYTES = 2048,   /* the same before the greeting, which is shorter */
    INPUT_BYTES_KEPT = 256 * 1024,
    EVENTS_AT_ONCE = 64,
    SWEEP_US = 1000000, /* how often deadlines are looked at */
};

static const struct server_limits LIMITS = {
    .connections = 4096,
    .hello_us = 10 * 1000000,
    .output_stuck_us = 30 * 1000000,
    .transaction_bytes_held = 64 * 1024 * 1024,
    .session_bytes_held = 256 * 1024 * 1024,
};

/* ---- Late answers ---- */

void server_late_done(struct completion *completion, fdb_error_t error) {
    struct late *late = (struct late *)(void *)completion;
    struct remote_server *server = late->server;
    late->error = error;
    late->next_done = NULL;
    if (late->commits && !error)
        transaction_commit_result(late->transaction, &late->result);
    bool ours = os_thread_is_self(server->thread);
    os_mutex_lock(&server->lock);
    bool first = !server->done_first;
    *server->done_last = late;
    server->done_last = &late->next_done;
    if (first && !ours && !server->wake_noted) {
        server->wake_noted = os_later_note(&server->wake);
        if (!server->wake_noted)
            os_event_set(&server->event); /* under the lock: the server cannot be gone before */
    }
    if (server->stopping)
        os_condition_broadcast(&server->changed);
    os_mutex_unlock(&server->lock);
}

/* A thread has given its answers: they can go out together. */
static void wake_thread(struct os_later *wake) {
    struct remote_server *server = (struct remote_server *)(void *)((char *)wake - offsetof(struct remote_server, wake));
    os_mutex_lock(&server->lock);
    server->wake_noted = false;
    os_event_set(&server->event);
    if (server->stopping)
        os_condition_broadcast(&server->changed);
    os_mutex_unlock(&server->lock);
}

static struct late *take_done(struct remote_server *server) {
    os_mutex_lock(&server->lock);
    struct late *first = server->done_first;
    server->done_first = NULL;
    server->done_last = &server->done_first;
    os_mutex_unlock(&server->lock);
    return first;
}

static void unlink_late(struct late *late) {
    struct session *session = late->session;
    if (late->previous)
        late->previous->next = late->next;
    else
        session->lates = late->next;
    if (late->next)
        late->next->previous = late->previous;
    session->late_of[late->request] = NULL;
}

static void answer_done(struct remote_server *server) {
    for (struct late *late = take_done(server), *next; late; late = next) {
        next = late->next_done;
        if (late->session) {
            unlink_late(late);
            if (!late->session->ending)
                session_answer_late(late->session, late);
        }
        transaction_release(late->transaction);
        memory_free(late);
        server_count(&server->waiting, (uint64_t)-1);
    }
}

void server_handle_released(void *context) {
    struct remote_server *server = context;
    os_mutex_lock(&server->lock);
    if (--server->handles == 0)
        os_condition_broadcast(&server->changed);
    os_mutex_unlock(&server->lock);
}

/* ---- Ending sessions ---- */

/* The session's buffers may have grown or shrunk. */
static void count_buffers(struct session *session, size_t bytes) {
    if (bytes == session->buffer_bytes)
        return;
    server_count(&session->server->buffer_bytes, bytes - session->buffer_bytes);
    session->buffer_bytes = bytes;
}

void session_touch(struct session *session) {
    if (session->touched)
        return;
    session->touched = true;
    session->next_touched = session->server->touched;
    session->server->touched = session;
}

static void end_session(struct session *session) {
    session->ending = true;
    session_touch(session);
}

void session_violation(struct session *session, const char *what) {
    if (!session->ending) {
        atomic_fetch_add(&session->server->violations_total, 1);
        log_line("a connection of process %d was closed: %s", session->process, what);
    }
    end_session(session);
}

static void free_session(struct session *session) {
    struct remote_server *server = session->server;
    if (session->previous)
        session->previous->next = session->next;
    else
        server->sessions = session->next;
    if (session->next)
        session->next->previous = session->previous;
    os_poller_remove(&server->poller, session->socket.descriptor);
    os_socket_close(&session->socket);
    session_release(session);
    count_buffers(session, 0);
    protocol_free(&session->output);
    memory_free(session->input);
    memory_free(session);
    atomic_fetch_sub(&server->database->connections, 1);
}

/* ---- Sending ---- */

static void wait_for(struct session *session, int wanted) {
    if (session->waits_for == wanted)
        return;
    session->waits_for = wanted;
    os_poller_change(&session->server->poller, session->socket.descriptor, wanted, session);
}

/* Sends what there is; what does not go out waits for room. */
static void send_output(struct session *session) {
    struct protocol_buffer *output = &session->output;
    protocol_close_frame(output);
    size_t sent = 0;
    if (output->failed || os_socket_send(&session->socket, output->data + session->sent, output->length - session->sent, &sent)) {
        end_session(session);
        return;
    }
    session->sent += sent;
    bool all = session->sent == output->length;
    if (all) {
        protocol_clear(output, INPUT_BYTES_KEPT);
        session->sent = 0;
        session->stuck_since_us = 0;
    } else if (sent || !session->stuck_since_us) {
        session->stuck_since_us = os_clock_us();
        session->server->has_deadlines = true;
    }
    bool full = session_output_is_full(session); /* what was paused goes on with the next event, even if all went out at once */
    wait_for(session, (full ? 0 : OS_READABLE) | (all && !session->paused ? 0 : OS_WRITABLE));
}

/* ---- Receiving ---- */

/* Makes room for a frame of `total` bytes, or for a receive, behind what is there. */
static bool make_room(struct session *session, size_t total) {
    size_t held = session->input_length - session->input_at;
    size_t least = session->greeted ? INPUT_BYTES : STRANGER_BYTES;
    size_t needed = total > least ? total : least;
    if (session->input_at && session->input_at + needed > session->input_capacity) {
        memmove(session->input, session->input + session->input_at, held);
        session->input_at = 0;
        session->input_length = held;
    }
    if (session->input_at + needed <= session->input_capacity && session->input_length < session->input_capacity)
        return true;
    uint8_t *grown = memory_resize(session->input, needed + held);
    if (!grown)
        return false;
    session->input = grown;
    session->input_capacity = needed + held;
    return true;
}

/* Gives memory back that a large frame needed. */
static void shrink_input(struct session *session) {
    if (session->input_at < session->input_length)
        return;
    session->input_at = session->input_length = 0;
    if (session->input_capacity > INPUT_BYTES_KEPT) {
        memory_free(session->input);
        session->input = NULL;
        session->input_capacity = 0;
    }
}

/* Works off whole frames; *needed is what the one behind them takes, as far as is known. */
static void run_input(struct session *session, size_t *needed) {
    *needed = 0;
    while (!session->ending && !session_output_is_full(session)) {
        if (session->frame.next == session->frame.end) {
            session->input_at += session->frame_bytes;
            session->frame_bytes = 0;
            struct bytes rest = bytes_make(session->input + session->input_at, session->input_length - session->input_at);
            struct bytes payload;
            size_t total;
            size_t most = session->greeted ? PROTOCOL_FRAME_BYTES_MAX : PROTOCOL_HELLO_BYTES_MAX;
            enum protocol_frame_state state = protocol_next_frame(rest, most, &payload, &total);
            if (state == FRAME_BAD)
                session_violation(session, "a frame is too long or damaged");
            if (state == FRAME_PARTIAL)
                *needed = total;
            if (state != FRAME_WHOLE)
                break;
            session->frame = (struct protocol_reader){payload.data, payload.data + payload.length, false};
            session->frame_bytes = total;
        }
        session_run_frame(session);
    }
    session->paused = !session->ending && session_output_is_full(session);
}

static void receive(struct session *session) {
    size_t needed = PROTOCOL_HEADER_BYTES, got;
    bool ended;
    if (session->ending || session_output_is_full(session) || session->frame.next != session->frame.end)
        return;
    if (session->input_length - session->input_at >= PROTOCOL_HEADER_BYTES)
        needed += coding_get_u32(session->input + session->input_at); /* its length was checked when it came */
    if (!make_room(session, needed)) {
        end_session(session);
        return;
    }
    os_socket_receive(&session->socket, session->input + session->input_length,
                      session->input_capacity - session->input_length, false, &got, &ended);
    session->input_length += got;
    if (ended) {
        end_session(session);
        return;
    }
    run_input(session, &needed);
    shrink_input(session);
    count_buffers(session, session->input_capacity + session->output.capacity);
}

/* There is room for output again: sends, and goes on with the frame that was paused. */
static void resume(struct session *session) {
    size_t needed;
    if (!session->ending)
        send_output(session);
    if (!session->ending && !session_output_is_full(session)) {
        run_input(session, &needed);
        shrink_input(session);
    }
    session_touch(session);
}

/* ---- Accepting ---- */

static bool may_enter(struct listener *listener, struct os_socket *socket, int *process) {
    uint32_t user;
    *process = 0;
    if (*listener->secret)
        return true; /* it has to say it: see hello */
    return os_socket_peer(socket, &user, process) == 0 && (user == os_user() || user == 0);
}

static void open_session(struct remote_server *server, const struct listener *listener, struct os_socket socket, int process) {
    struct session *session = memory_allocate_zeroed(sizeof *session);
    if (!session || os_poller_add(&server->poller, socket.descriptor, OS_READABLE, session)) {
        memory_free(session);
        os_socket_close(&socket);
        return;
    }
    session->subject.kind = SUBJECT_SESSION;
    session->server = server;
    session->listener = listener;
    session->socket = socket;
    session->waits_for = OS_READABLE;
    session->process = process;
    session->opened_us = os_clock_us();
    session->next = server->sessions;
    if (session->next)
        session->next->previous = session;
    server->sessions = session;
    server->has_deadlines = true;
    atomic_fetch_add(&server->database->connections, 1);
    atomic_fetch_add(&server->connections_total, 1);
}

static void accept_all(struct remote_server *server, struct listener *listener) {
    for (;;) {
        struct os_socket socket;
        bool accepted;
        int process;
        if (os_socket_accept(&listener->socket, &socket, &accepted)) {
            os_sleep_us(1000); /* out of descriptors: it stays readable */
            return;
        }
        if (!accepted)
            return;
        if (!may_enter(listener, &socket, &process)) {
            log_line("a connection of process %d was refused: it is another user's", process);
            server_send_refusal(&socket, ERROR_DATABASE_IN_USE, "it is another user's");
            os_socket_close(&socket);
        } else if (atomic_load(&server->database->connections) >= server->limits.connections) {
            log_line("a connection was refused: there are %llu already", (unsigned long long)server->limits.connections);
            os_socket_close(&socket);
        } else {
            open_session(server, listener, socket, process);
        }
    }
}

/* ---- The thread ---- */

/* Sends and ends what the last events led to. */
static void settle(struct remote_server *server) {
    while (server->touched) {
        struct session *session = server->touched;
        server->touched = session->next_touched;
        session->touched = false;
        if (!session->ending && session->output.length > session->sent)
            send_output(session);
        if (session->ending && !session->touched)
            free_session(session);
        else
            count_buffers(session, session->input_capacity + session->output.capacity);
    }
}

static void handle(struct remote_server *server, struct os_poll_event event) {
    struct subject *subject = event.subject;
    if (subject->kind == SUBJECT_EVENT) {
        os_event_clear(&server->event);
        return;
    }
    if (subject->kind == SUBJECT_LISTENER) {
        accept_all(server, (struct listener *)subject);
        return;
    }
    struct session *session = (struct session *)subject;
    if (event.ready & OS_HUNG_UP)
        end_session(session);
    else if (event.ready & OS_WRITABLE)
        resume(session);
    else if (event.ready & OS_READABLE)
        receive(session);
}

/* Ends who has been silent at the door or does not take his answers. */
static void sweep(struct remote_server *server) {
    int64_t now_us = os_clock_us();
    server->has_deadlines = false;
    for (struct session *session = server->sessions; session; session = session->next) {
        server->has_deadlines |= !session->greeted || session->stuck_since_us;
        if (!session->greeted && now_us - session->opened_us > server->limits.hello_us)
            session_violation(session, "it said no hello");
        else if (session->stuck_since_us && now_us - session->stuck_since_us > server->limits.output_stuck_us)
            session_violation(session, "it does not read its answers");
    }
}

/* How long to wait for the next event; false: time to end. */
static bool next_wait(struct remote_server *server, int64_t *wait_us) {
    os_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    *wait_us = server->done_first ? 0 : server->has_deadlines ? SWEEP_US : -1;
    os_mutex_unlock(&server->lock);
    return !stopping;
}

static bool has_commits(struct remote_server *server) {
    for (struct session *session = server->sessions; session; session = session->next)
        for (struct late *late = session->lates; late; late = late->next)
            if (late->commits)
                return true;
    return false;
}

/* Waits for the commits under way, so that they are answered; then ends everybody. */
static void wind_up(struct remote_server *server) {
    struct os_poll_item event = {.descriptor = server->event.descriptor, .wanted = OS_READABLE};
    while (has_commits(server)) {
        database_hurry(server->database);
        os_poll(&event, 1, 10000);
        os_event_clear(&server->event);
        answer_done(server);
        settle(server);
    }
    for (struct session *session = server->sessions; session; session = session->next)
        end_session(session);
    settle(server);
    answer_done(server);
}

static void *serve(void *argument) {
    struct remote_server *server = argument;
    struct os_poll_event events[EVENTS_AT_ONCE];
    int64_t swept_us = os_clock_us(), wait_us;
    while (next_wait(server, &wait_us)) {
        int count = os_poller_wait(&server->poller, events, EVENTS_AT_ONCE, wait_us);
        for (int i = 0; i < count; i++)
            handle(server, events[i]);
        if (server->commits_started) {
            server->commits_started = false;
            database_hurry(server->database);
        }
        answer_done(server);
        int64_t now_us = os_clock_coarse_us();
        if (server->has_deadlines && now_us - swept_us > SWEEP_US) {
            swept_us = now_us;
            sweep(server);
        }
        settle(server);
    }
    wind_up(server);
    return NULL;
}

/* ---- Life ---- */

static void free_server(struct remote_server *server) {
    for (int i = 0; i < server->listener_count; i++)
        os_socket_close(&server->listeners[i].socket);
    rows_free(&server->rows);
    arena_free(&server->arena);
    os_event_close(&server->event);
    os_poller_close(&server->poller);
    os_condition_destroy(&server->changed);
    os_mutex_destroy(&server->lock);
    memory_free(server);
}

fdb_error_t remote_server_start(struct database *database, struct remote_server **started) {
    struct remote_server *server = memory_allocate_zeroed(sizeof *server);
    if (!server)
        return ERROR_LARGE_ALLOC_FAILED;
    server->database = database;
    server->limits = LIMITS;
    server->done_last = &server->done_first;
    server->wake.run = wake_thread;
    server->event_subject.kind = SUBJECT_EVENT;
    server->event.descriptor = server->poller.descriptor = -1;
    os_mutex_init(&server->lock);
    os_condition_init(&server->changed);
    fdb_error_t error = os_poller_create(&server->poller);
    if (!error)
        error = os_event_create(&server->event);
    if (!error)
        error = os_poller_add(&server->poller, server->event.descriptor, OS_READABLE, &server->event_subject);
    if (!error)
        error = os_thread_start(&server->thread, "keel-serve", serve, server);
    if (error) {
        free_server(server);
        return error;
    }
    *started = server;
    return 0;
}

fdb_error_t remote_server_listen(struct remote_server *server, struct os_socket socket, const char *secret) {
    fdb_error_t error = ERROR_LARGE_ALLOC_FAILED;
    assert(!secret || (*secret && strlen(secret) <= PROTOCOL_SECRET_BYTES_MAX));
    os_mutex_lock(&server->lock);
    if (server->listener_count < LISTENERS_MAX) {
        struct listener *listener = &server->listeners[server->listener_count];
        *listener = (struct listener){.subject = {SUBJECT_LISTENER}, .socket = socket};
        if (secret)
            memcpy(listener->secret, secret, strlen(secret));
        error = os_poller_add(&server->poller, socket.descriptor, OS_READABLE, listener);
        server->listener_count += error == 0;
    }
    os_mutex_unlock(&server->lock);
    if (error)
        os_socket_close(&socket);
    return error;
}

void remote_server_get_status(struct remote_server *server, struct remote_server_status *status) {
    status->connections = atomic_load(&server->database->connections);
    status->connections_total = atomic_load(&server->connections_total);
    status->requests_total = atomic_load(&server->requests_total);
    status->violations_total = atomic_load(&server->violations_total);
    status->transactions = atomic_load(&server->transactions);
    status->waiting = atomic_load(&server->waiting);
    status->bytes_held = atomic_load(&server->bytes_held);
    status->buffer_bytes = atomic_load(&server->buffer_bytes);
}

void remote_server_stop(struct remote_server *server) {
    os_mutex_lock(&server->lock);
    server->stopping = true;
    os_event_set(&server->event);
    os_mutex_unlock(&server->lock);
    os_thread_join(server->thread);
    os_mutex_lock(&server->lock);
    while (server->handles > 0 || server->wake_noted) { /* commits that go on without a session, watches that were just firing */
        if (!server->done_first)
            os_condition_wait(&server->changed, &server->lock);
        os_mutex_unlock(&server->lock);
        answer_done(server);
        os_mutex_lock(&server->lock);
    }
    os_mutex_unlock(&server->lock);
    free_server(server);
}
