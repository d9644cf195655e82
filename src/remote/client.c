/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the owner of a database, and the thread that keeps it.
 *
 *            nobody there ──► take_over: are we the owner now?
 *            ┌────────────────────────────────────┐
 *     down ──┴─ connect, hello, welcome ──► up ───┴─ end of stream, nonsense, silence ──► down
 *
 * While it is down, messages are collected and go out with the welcome, so that a new owner costs
 * those who begin only the time it takes. What was under way when the connection was lost is
 * answered with an error (client_lose), and the epoch rises: twins of an older one are gone.
 * After `silence_us` of being down the owner counts as silent: everything that waits fails and new
 * messages are refused, until somebody answers.
 *
 * Who reads? A thread that blocks on an answer reads the socket itself if nobody does: it sends,
 * receives, and is done, two system calls and no other thread involved. Others that block meanwhile
 * sleep; when the reader has what it came for it passes the baton to one of them. The client's own
 * thread reads when somebody waits by callback, or when nobody has read for a few ticks (an idle
 * program must learn, too, that the owner is gone, and that a watch fired); it gives the role up to
 * a thread that blocks. So:
 *
 *   1. `reading` is the role; the input buffer and the closing of the socket belong to who has it.
 *   2. Sending is done under the lock and never waits; what does not go out is left to the thread.
 *   3. What was appended and not sent is sent by the thread within a tick: it never sleeps longer
 *      unless there is nothing to send, and whoever appends then wakes it (thread_sleeps).
 *   4. No `answered` is called under the lock.
 *
 * Silence: while something is outstanding and nothing was heard, pings go out; what answers nothing
 * for `silence_us`, not even those, is taken for stopped (SIGSTOP, a debugger) or hung. Heard is a whole
 * frame, or PIECE_BYTES of one that is long: behind a length that was made up even pongs vanish, and
 * an owner that only dribbles is as good as silent.
 *
 * Failure: a connection that cannot be made is tried again for as long as the client lives.
 */
#include "remote/client_internal.h"

#include "os/clock.h"
#include "os/file.h"
#include "os/log_line.h"
#include "remote/server.h"
#include "util/memory.h"

enum {
    INPUT_BYTES = 64 * 1024,
    INPUT_BYTES_KEPT = 1024 * 1024,
    OUTPUT_BYTES_KEPT = 1024 * 1024,
    QUIET_TICKS = 10,       /* without a message: the thread may sleep longer than a tick */
    UNREAD_TICKS = 2,       /* without anybody reading: the thread does */
    RETRY_FIRST_US = 1000,  /* between attempts to connect, doubling */
    RETRY_MOST_US = 16000,
    REFUSED_RETRY_US = 200000,
    CONNECT_US = 2000000,   /* for a machine that does not even refuse */
    PIECE_BYTES = 64 * 1024,  /* of a frame that is not whole yet, in `silence_us`: less is silence */
    ADDRESS_BYTES_MAX = 1024, /* host, port and secret with their ends */
};

void client_kick(struct remote_client *client) {
    os_event_set(&client->event);
}

void remote_client_wake(struct remote_client *client) {
    client_kick(client);
}

bool remote_client_is_closing(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    bool closing = client->closing;
    os_mutex_unlock(&client->lock);
    return closing;
}

/* ---- Sending ---- */

static void free_later(struct later_flush *later) {
    os_mutex_destroy(&later->lock);
    memory_free(later);
}

static void clear_output(struct remote_client *client) {
    protocol_clear(&client->output, OUTPUT_BYTES_KEPT);
    client->sent = 0;
    os_condition_broadcast(&client->room);
}

/* A failure shows when the socket is read. */
void client_flush(struct remote_client *client) {
    struct protocol_buffer *output = &client->output;
    size_t sent = 0;
    protocol_close_frame(output);
    if (!client->up || client->sent == output->length)
        return;
    if (os_socket_send(&client->socket, output->data + client->sent, output->length - client->sent, &sent))
        sent = output->length - client->sent; /* nobody will read it */
    client->sent += sent;
    if (client->sent == output->length)
        clear_output(client);
}

static void flush_later(struct loop_task *task) {
    struct later_flush *later = (struct later_flush *)task;
    os_mutex_lock(&later->lock);
    struct remote_client *client = later->client;
    if (client) {
        os_mutex_lock(&client->lock);
        later->posted = false;
        client_flush(client);
        os_mutex_unlock(&client->lock);
    }
    os_mutex_unlock(&later->lock);
    if (!client)
        free_later(later);
}

void client_flush_soon(struct remote_client *client) {
    if (!loop_is_self()) {
        client_flush(client);
    } else if (!client->later->posted) {
        client->later->posted = true;
        loop_post(&client->later->task);
    }
}

/* The client closes: a task that is posted frees itself when it runs. */
static void leave_later(struct remote_client *client) {
    struct later_flush *later = client->later;
    os_mutex_lock(&later->lock);
    later->client = NULL;
    bool posted = later->posted;
    os_mutex_unlock(&later->lock);
    if (!posted)
        free_later(later);
}

/* ---- Losing the connection ---- */

void client_pass_baton(struct remote_client *client) {
    while (!client->reading && client->first_waiting) {
        struct remote_request *request = client->first_waiting;
        client_unwait(client, request); /* it comes back to the line if it does not read */
        if (request->is_wanted(request)) {
            request->nudge(request);
            return;
        }
    }
}

/* All that is outstanding, as a list: commits first, because what else waits on their transactions follows them. */
static struct remote_request *take_all(struct remote_client *client) {
    struct remote_request *commits = NULL, *others = NULL, **last = &commits;
    for (size_t i = 0; i < client->request_capacity && client->outstanding; i++) {
        struct remote_request *request = client->requests[i];
        if (!request)
            continue;
        client_forget_request(client, request);
        struct remote_request **list = request->kind == REQUEST_COMMIT ? &commits : &others;
        request->next = *list;
        *list = request;
    }
    while (*last)
        last = &(*last)->next;
    *last = others;
    return commits;
}

void client_lose(struct remote_client *client, fdb_error_t failing) {
    if (client->up) {
        os_socket_close(&client->socket);
        client->down_since_us = os_clock_us();
    }
    client->up = false;
    client->epoch++;
    client->failing = failing;
    client->input_length = client->piece_bytes = 0;
    clear_output(client);
    struct remote_request *request = take_all(client);
    client_kick(client);
    os_mutex_unlock(&client->lock);
    while (request) {
        struct remote_request *next = request->next;
        struct protocol_reader nothing = {NULL, NULL, false};
        fdb_error_t lost = request->kind == REQUEST_COMMIT ? ERROR_COMMIT_UNKNOWN_RESULT : ERROR_TRANSACTION_TOO_OLD;
        bool unsent = failing && failing != ERROR_OWNER_SILENT;
        (void)request->answered(request, ANSWER_ERROR, unsent ? failing : lost, &nothing);
        request = next;
    }
    os_mutex_lock(&client->lock);
}

/* The owner is silent: what to do about it, for people. */
static void log_silence(struct remote_client *client, int64_t silent_us) {
    log_line("%s: the process that owns the database, %d, has not answered for %.1f s%s; what waits for it fails with error %d until "
             "it does. If it is stopped, continue it (kill -CONT %d) or end it: another process will take over",
             client->options.directory, client->owner_process, (double)silent_us / 1e6,
             client->input_length ? ", and began an answer that does not end" : "", ERROR_OWNER_SILENT, client->owner_process);
}

/* ---- Receiving ---- */

static bool make_room(struct remote_client *client, size_t total) {
    size_t needed = total > INPUT_BYTES ? total : INPUT_BYTES;
    if (client->input_capacity >= needed && client->input_length < client->input_capacity)
        return true;
    uint8_t *grown = memory_resize(client->input, needed + client->input_length);
    if (!grown)
        return false;
    client->input = grown;
    client->input_capacity = needed + client->input_length;
    return true;
}

/* Takes what was worked off from the front. */
static void consume_input(struct remote_client *client, size_t count) {
    client->input_length -= count;
    if (client->input_length)
        memmove(client->input, client->input + count, client->input_length);
    else if (client->input_capacity > INPUT_BYTES_KEPT) {
        memory_free(client->input);
        client->input = NULL;
        client->input_capacity = 0;
    }
}

/* Works off whole frames. False: nonsense. */
static bool take_frames(struct remote_client *client) {
    size_t done = 0;
    bool good = true;
    while (good) {
        struct bytes rest = bytes_make(client->input + done, client->input_length - done), payload;
        size_t total;
        enum protocol_frame_state state = protocol_next_frame(rest, PROTOCOL_ANSWER_BYTES_MAX, &payload, &total);
        if (state == FRAME_PARTIAL)
            break;
        struct protocol_reader reader = {payload.data, payload.data + payload.length, false};
        good = state == FRAME_WHOLE;
        while (good && reader.next < reader.end)
            good = client_take_answer(client, &reader) && !reader.bad;
        done += total;
    }
    if (good)
        consume_input(client, done);
    return good;
}

/* Asks whether the owner is still there, and at last gives it up. REQUIRES: the lock; reading; up. */
static void check_silence(struct remote_client *client) {
    int64_t now_us = os_clock_us(), quiet_us = now_us - client->heard_us;
    int64_t patience_us = client->options.silence_us;
    if (!client->outstanding || quiet_us < patience_us / 4)
        return;
    if (quiet_us >= patience_us && client->pinged_us > client->heard_us) {
        log_silence(client, quiet_us);
        client_lose(client, ERROR_OWNER_SILENT);
        return;
    }
    if (now_us - client->pinged_us < patience_us / 4)
        return;
    uint8_t *to = protocol_reserve(&client->output, 1);
    if (to)
        protocol_u8(to, ASK_PING);
    client->pinged_us = now_us;
    client_flush(client);
}

static size_t frame_needed(const struct remote_client *client) {
    size_t length = client->input_length < 4 ? 0 : coding_get_u32(client->input);
    return length > PROTOCOL_ANSWER_BYTES_MAX ? 0 : PROTOCOL_HEADER_BYTES + length; /* too long is found out later */
}

/* Whether what has come by now is something heard: see Silence, above. */
static bool is_heard(struct remote_client *client, size_t got) {
    client->piece_bytes += got;
    if (client->input_length < frame_needed(client) && client->piece_bytes < PIECE_BYTES)
        return false;
    client->piece_bytes = 0;
    return got > 0;
}

void client_receive(struct remote_client *client, bool wait, int64_t deadline_us) {
    size_t got = 0;
    bool ended = false, good = make_room(client, frame_needed(client));
    if (good && deadline_us) {
        int64_t left_us = deadline_us - os_clock_us();
        struct os_poll_item item = {.descriptor = client->socket.descriptor, .wanted = OS_READABLE};
        os_poll(&item, 1, left_us < 0 ? 0 : left_us < RECEIVE_WAIT_US ? left_us : RECEIVE_WAIT_US);
        wait = false;
    }
    if (good)
        os_socket_receive(&client->socket, client->input + client->input_length,
                          client->input_capacity - client->input_length, wait, &got, &ended);
    client->input_length += got;
    bool heard = is_heard(client, got);
    if (got) {
        os_mutex_lock(&client->lock);
        if (heard)
            client->heard_us = os_clock_coarse_us();
        client->foreground_reads += !client->thread_reads;
        os_mutex_unlock(&client->lock);
        good = take_frames(client);
        if (!good)
            log_line("%s: the owner, process %d, sent something that makes no sense", client->options.directory,
                     client->owner_process);
    }
    if (heard && good)
        return;
    os_mutex_lock(&client->lock);
    if (ended || !good)
        client_lose(client, 0);
    else
        check_silence(client);
    os_mutex_unlock(&client->lock);
}

/* ---- Connecting: the client's thread ---- */

/* Waits to be woken, or for a while; anything but `closing` is found out by looking. */
static void doze(struct remote_client *client, int64_t wait_us) {
    struct os_poll_item item = {.descriptor = client->event.descriptor, .wanted = OS_READABLE};
    os_poll(&item, 1, wait_us);
    if (item.ready)
        os_event_clear(&client->event);
}

/* Gives up on what waits when it has waited too long. */
static void check_patience(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    int64_t down_us = os_clock_us() - client->down_since_us;
    if (down_us > client->options.silence_us && !client->failing) {
        log_silence(client, down_us);
        client_lose(client, ERROR_OWNER_SILENT);
    }
    os_mutex_unlock(&client->lock);
}

static void set_owner(struct remote_client *client, int process) {
    os_mutex_lock(&client->lock);
    client->owner_process = process;
    os_mutex_unlock(&client->lock);
}

static bool say_hello(struct remote_client *client, struct os_socket *socket) {
    struct protocol_buffer hello = {0};
    struct bytes secret = bytes_make(client->options.secret, strlen(client->options.secret));
    uint8_t *to = protocol_reserve(&hello, 25 + secret.length);
    size_t sent = 0;
    if (!to)
        return false;
    to = protocol_u32(protocol_u8(to, ASK_HELLO), PROTOCOL_MAGIC);
    to = protocol_u32(protocol_u32(to, PROTOCOL_VERSION), PROTOCOL_VERSION);
    to = protocol_u32(protocol_u32(to, (uint32_t)client->options.api_version), (uint32_t)os_process());
    protocol_bytes(to, secret);
    protocol_close_frame(&hello);
    bool said = os_socket_send(socket, hello.data, hello.length, &sent) == 0 && sent == hello.length;
    protocol_free(&hello);
    return said;
}

enum welcome { WELCOME_YES, WELCOME_NO, WELCOME_NOT_YET };

/* What the owner said to the greeting. */
static enum welcome read_welcome(struct remote_client *client, struct protocol_reader *reader, fdb_error_t *refusal) {
    uint8_t type = protocol_get_u8(reader);
    if (type == ANSWER_REFUSED) {
        fdb_error_t error = protocol_get_i32(reader);
        struct bytes text = protocol_get_bytes(reader, 1000);
        log_line("%s: the owner, process %d, refuses this process: %.*s", client->options.directory, client->owner_process,
                 (int)text.length, (const char *)text.data);
        *refusal = error && !reader->bad ? error : ERROR_DATABASE_IN_USE;
        return WELCOME_NO;
    }
    uint32_t magic = protocol_get_u32(reader), version = protocol_get_u32(reader), process = protocol_get_u32(reader);
    if (type != ANSWER_WELCOME || reader->bad || magic != PROTOCOL_MAGIC || version != PROTOCOL_VERSION)
        return WELCOME_NO;
    set_owner(client, (int)process);
    return WELCOME_YES;
}

static enum welcome await_welcome(struct remote_client *client, struct os_socket *socket, fdb_error_t *refusal) {
    struct os_poll_item items[2] = {{.descriptor = socket->descriptor, .wanted = OS_READABLE},
                                    {.descriptor = client->event.descriptor, .wanted = OS_READABLE}};
    os_poll(items, 2, RECEIVE_WAIT_US);
    if (items[1].ready)
        os_event_clear(&client->event);
    if (!items[0].ready)
        return WELCOME_NOT_YET;
    size_t got, total;
    bool ended;
    if (!make_room(client, 0))
        return WELCOME_NO;
    os_socket_receive(socket, client->input + client->input_length, client->input_capacity - client->input_length, false,
                      &got, &ended);
    client->input_length += got;
    struct bytes payload;
    enum protocol_frame_state state =
        protocol_next_frame(bytes_make(client->input, client->input_length), 4096, &payload, &total);
    if (state != FRAME_WHOLE)
        return state == FRAME_BAD || ended ? WELCOME_NO : WELCOME_NOT_YET;
    struct protocol_reader reader = {payload.data, payload.data + payload.length, false};
    enum welcome welcome = read_welcome(client, &reader, refusal);
    consume_input(client, total);
    return welcome;
}

static void install(struct remote_client *client, struct os_socket socket) {
    os_mutex_lock(&client->lock);
    client->socket = socket;
    client->up = true;
    client->failing = 0;
    client->heard_us = client->pinged_us = os_clock_us();
    client_flush(client);
    client_pass_baton(client);
    os_mutex_unlock(&client->lock);
}

/* With a connected socket: greets, and waits for the welcome however long it takes. True: it is up. */
static bool greet(struct remote_client *client, struct os_socket socket) {
    uint32_t user;
    int process;
    enum welcome welcome;
    fdb_error_t refusal = 0;
    client->input_length = 0;
    if (os_socket_peer(&socket, &user, &process) == 0)
        set_owner(client, process);
    (void)os_socket_limit_wait(&socket, RECEIVE_WAIT_US);
    bool said = say_hello(client, &socket); /* if not, it may have been refused before */
    do {
        welcome = await_welcome(client, &socket, &refusal);
        check_patience(client);
    } while (said && welcome == WELCOME_NOT_YET && !remote_client_is_closing(client));
    if (welcome == WELCOME_YES) {
        install(client, socket);
        return true;
    }
    os_socket_close(&socket);
    if (refusal) {
        os_mutex_lock(&client->lock);
        if (!client->failing)
            client_lose(client, refusal);
        os_mutex_unlock(&client->lock);
        doze(client, REFUSED_RETRY_US);
    }
    return false;
}

/* Whether nobody needs a connection: this process has become the owner, and old transactions are done. */
static bool is_dormant(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    bool dormant = client->owned && !client->closing && !client->outstanding && !client->output.length && !client->reading;
    client->thread_sleeps = dormant;
    os_mutex_unlock(&client->lock);
    return dormant;
}

/* A thread that was reading may still be on its way out with the old socket. */
static bool is_being_left(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    bool left = client->reading;
    os_mutex_unlock(&client->lock);
    return left;
}

/* Differs between processes, so that they do not all try at the same moment. */
static int64_t spread(int64_t wait_us) {
    uint32_t random;
    os_random(&random, sizeof random);
    return wait_us / 2 + (int64_t)(random % (uint32_t)wait_us);
}

static bool reach_owner(struct remote_client *client, struct os_socket *socket) {
    const struct remote_client_options *options = &client->options;
    if (options->host)
        return os_socket_connect_tcp(options->host, options->port, CONNECT_US, socket) == 0;
    return os_socket_connect_in(options->directory, REMOTE_SOCKET_NAME, socket) == 0;
}

static void connect_step(struct remote_client *client, int64_t *retry_us) {
    if (is_dormant(client)) {
        doze(client, -1);
        return;
    }
    struct os_socket socket;
    if (is_being_left(client)) {
        doze(client, RETRY_FIRST_US);
        return;
    }
    if (!client->owned && client->options.take_over)
        client->owned = client->options.take_over(client->options.context);
    if (reach_owner(client, &socket) && greet(client, socket)) {
        *retry_us = RETRY_FIRST_US;
        return;
    }
    check_patience(client);
    doze(client, spread(*retry_us));
    *retry_us = *retry_us * 2 < RETRY_MOST_US ? *retry_us * 2 : RETRY_MOST_US;
}

/* ---- The thread while the connection is up ---- */

struct watchman {
    uint64_t appends, reads; /* as of the last round */
    int quiet_ticks, unread_ticks;
};

/* Sends what is left over, and decides whether to read. Returns how long to wait. REQUIRES: the lock. */
static int64_t look_around(struct remote_client *client, struct watchman *watchman) {
    client_flush(client);
    watchman->quiet_ticks = client->appends != watchman->appends ? 0 : watchman->quiet_ticks + 1;
    watchman->unread_ticks = client->foreground_reads != watchman->reads ? 0 : watchman->unread_ticks + 1;
    watchman->appends = client->appends;
    watchman->reads = client->foreground_reads;
    if (!client->reading && (client->hurried_count || watchman->unread_ticks >= UNREAD_TICKS))
        client->reading = client->thread_reads = true;
    client->thread_sleeps = client->reading && watchman->quiet_ticks > QUIET_TICKS && !client->output.length;
    if (!client->thread_sleeps)
        return TICK_US;
    return client->outstanding && client->thread_reads ? client->options.silence_us / 4 : -1;
}

/* After a wait: gives the role up where a thread that blocks would rather read itself. REQUIRES: the lock. */
static void yield_role(struct remote_client *client, struct watchman *watchman) {
    client->thread_sleeps = false;
    if (!client->thread_reads)
        return;
    if (client->up && !(client->reader_wanted && !client->hurried_count))
        return;
    client->reading = client->thread_reads = client->reader_wanted = false;
    watchman->unread_ticks = 0;
    if (client->up)
        client_pass_baton(client);
}

static void watch_step(struct remote_client *client, struct watchman *watchman) {
    os_mutex_lock(&client->lock);
    int64_t wait_us = look_around(client, watchman);
    bool reads = client->thread_reads, unsent = client->output.length > 0;
    struct os_poll_item items[2] = {
        {.descriptor = client->event.descriptor, .wanted = OS_READABLE},
        {.descriptor = client->socket.descriptor, .wanted = (reads ? OS_READABLE : 0) | (unsent ? OS_WRITABLE : 0)}};
    os_mutex_unlock(&client->lock);
    /* Without the role the socket may be closed under us: then its number is waited for in vain, for a tick. */
    os_poll(items, reads || unsent ? 2 : 1, wait_us);
    if (items[0].ready)
        os_event_clear(&client->event);
    if (reads)
        client_receive(client, false, 0);
    os_mutex_lock(&client->lock);
    yield_role(client, watchman);
    os_mutex_unlock(&client->lock);
}

static void *run(void *argument) {
    struct remote_client *client = argument;
    struct watchman watchman = {0};
    int64_t retry_us = RETRY_FIRST_US;
    for (;;) {
        os_mutex_lock(&client->lock);
        bool up = client->up, closing = client->closing;
        os_mutex_unlock(&client->lock);
        if (closing)
            return NULL;
        if (up)
            watch_step(client, &watchman);
        else
            connect_step(client, &retry_us);
    }
}

/* ---- Life ---- */

static void free_client(struct remote_client *client) {
    leave_later(client);
    os_event_close(&client->event);
    protocol_free(&client->output);
    memory_free(client->input);
    memory_free(client->requests);
    memory_free(client->twin_numbers.free);
    memory_free(client->database_numbers.free);
    memory_free(client->request_numbers.free);
    os_condition_destroy(&client->room);
    os_mutex_destroy(&client->lock);
    memory_free(client);
}

static const char *keep_text(char **to, const char *text) {
    size_t length = strlen(text) + 1;
    char *kept = memcpy(*to, text, length);
    *to += length;
    return kept;
}

fdb_error_t remote_client_create(const struct remote_client_options *options, struct remote_client **created) {
    struct remote_client *client = memory_allocate_zeroed(sizeof *client + strlen(options->directory) + 1 + ADDRESS_BYTES_MAX);
    if (!client)
        return ERROR_LARGE_ALLOC_FAILED;
    char *text = client->texts;
    client->options = *options;
    client->options.directory = keep_text(&text, options->directory);
    client->options.secret = keep_text(&text, options->secret);
    if (options->host) {
        client->options.host = keep_text(&text, options->host);
        client->options.port = keep_text(&text, options->port);
    }
    client->later = memory_allocate_zeroed(sizeof *client->later);
    if (!client->later) {
        memory_free(client);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    client->later->task.run = flush_later;
    client->later->client = client;
    os_mutex_init(&client->later->lock);
    client->epoch = 1;
    client->socket.descriptor = client->event.descriptor = -1;
    client->down_since_us = os_clock_us();
    os_mutex_init(&client->lock);
    os_condition_init(&client->room);
    fdb_error_t error = os_event_create(&client->event);
    if (!error)
        error = os_thread_start(&client->thread, "keel-join", run, client);
    if (error) {
        free_client(client);
        return error;
    }
    *created = client;
    return 0;
}

void remote_client_close(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    client->closing = true;
    client_flush(client);
    os_mutex_unlock(&client->lock);
    client_kick(client);
    os_thread_join(client->thread);
    if (client->up)
        os_socket_close(&client->socket);
    free_client(client);
}
