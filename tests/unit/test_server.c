/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of the server, each reached: what a stranger may cost, what a client may hold, what
 * happens to one that does not read its answers or dies, and that nothing of it is left behind. The
 * server runs in this process on a database in memory, with limits lowered where the real ones would
 * take long; clients are bare sockets that say what no client library would.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "os/clock.h"
#include "remote/server_internal.h"
#include "util/memory.h"

enum { PATIENCE_US = 300 * 1000000, VALUE_BYTES = 50000, ROWS = 20 };

/* ---- The server ---- */

static struct database *database;
static struct remote_server *server;
static char directory[90];
static struct os_socket listener;

/* To be followed by listen_here, with the limits lowered in between. */
static int start_server(void **state) {
    (void)state;
    struct engine_options options;
    char *message = NULL;
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/server-XXXXXX", parent && *parent && strlen(parent) < 60 ? parent : "/tmp");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(engine_default_options(&options, &message), 0);
    assert_int_equal(engine_open(":memory:", &options, &database, &message), 0);
    assert_int_equal(remote_server_start(database, &server), 0);
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    remote_server_stop(server);
    database_close(database);
    os_socket_remove_in(directory, REMOTE_SOCKET_NAME);
    return rmdir(directory);
}

static void listen_here(void) {
    assert_int_equal(os_socket_listen_in(directory, REMOTE_SOCKET_NAME, &listener), 0);
    assert_int_equal(remote_server_listen(server, listener, NULL), 0);
}

static struct remote_server_status look(void) {
    struct remote_server_status status;
    remote_server_get_status(server, &status);
    return status;
}

static uint64_t watches(void) {
    struct database_status status;
    database_get_status(database, &status);
    return status.watch_count;
}

static long handles(void) {
    os_mutex_lock(&server->lock);
    long count = server->handles;
    os_mutex_unlock(&server->lock);
    return count;
}

/* Waits for something that has to come. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t give_up_us = os_clock_us() + PATIENCE_US;                                          \
        while (!(condition) && os_clock_us() < give_up_us)                                         \
            usleep(1000);                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

/* Nobody is connected, and nothing is held for anybody. */
static void await_nothing_held(void) {
    AWAIT(look().connections == 0);
    AWAIT(look().waiting == 0);
    struct remote_server_status status = look();
    assert_int_equal(status.transactions, 0);
    assert_int_equal(status.bytes_held, 0);
    assert_int_equal(status.buffer_bytes, 0);
    AWAIT(watches() == 0);
    AWAIT(handles() == 0); /* the database's thread may be about to let go of a transaction */
}

/* ---- A client ---- */

struct peer {
    int socket;
    struct protocol_buffer out; /* what it is about to say */
    uint8_t in[1 << 17];
    size_t in_length;
};

static struct peer *wrap(int socket) {
    struct timeval patience = {PATIENCE_US / 1000000, 0};
    struct peer *peer = calloc(1, sizeof *peer);
    peer->socket = socket;
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return peer;
}

static struct peer *meet(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", directory, REMOTE_SOCKET_NAME);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    return wrap(descriptor);
}

static void leave(struct peer *peer) {
    close(peer->socket);
    protocol_free(&peer->out);
    free(peer);
}

static void send_raw(struct peer *peer, const void *data, size_t length) {
    const uint8_t *next = data;
    while (length) {
        ssize_t sent = send(peer->socket, next, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return; /* shown by what is read */
        next += sent;
        length -= (size_t)sent;
    }
}

static void send_out(struct peer *peer) {
    protocol_close_frame(&peer->out);
    send_raw(peer, peer->out.data, peer->out.length);
    protocol_clear(&peer->out, SIZE_MAX);
}

static uint8_t *message(struct peer *peer, enum protocol_question type, size_t size) {
    uint8_t *to = protocol_reserve(&peer->out, 1 + size);
    assert_non_null(to);
    return protocol_u8(to, type);
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static void say_hello(struct peer *peer, const char *secret) {
    uint8_t *to = message(peer, ASK_HELLO, 24 + strlen(secret));
    to = protocol_u32(protocol_u32(protocol_u32(to, PROTOCOL_MAGIC), PROTOCOL_VERSION), PROTOCOL_VERSION);
    protocol_bytes(protocol_u32(protocol_u32(to, 740), (uint32_t)getpid()), text(secret));
    protocol_close_frame(&peer->out);
}

static void say_database(struct peer *peer, uint32_t number) {
    protocol_bytes(protocol_bytes(protocol_u32(message(peer, ASK_DATABASE, 14), number), text("p")), text("c"));
}

static void say_two(struct peer *peer, enum protocol_question type, uint32_t first, uint32_t second) {
    protocol_u32(protocol_u32(message(peer, type, 8), first), second);
}

static void say_set(struct peer *peer, uint32_t transaction, const char *key, size_t value_bytes) {
    uint8_t *to = message(peer, ASK_SET, 4 + 4 + strlen(key) + 4 + value_bytes);
    to = protocol_u32(protocol_bytes(protocol_u32(to, transaction), text(key)), (uint32_t)value_bytes);
    memset(to, 'v', value_bytes);
}

static void say_watch(struct peer *peer, uint32_t transaction, uint32_t request, const char *key) {
    uint8_t *to = message(peer, ASK_WATCH, 8 + 4 + strlen(key));
    protocol_bytes(protocol_u32(protocol_u32(to, transaction), request), text(key));
}

static void say_get(struct peer *peer, uint32_t transaction, uint32_t request, const char *key) {
    uint8_t *to = message(peer, ASK_GET, 8 + 1 + 4 + strlen(key));
    protocol_bytes(protocol_u8(protocol_u32(protocol_u32(to, transaction), request), 1), text(key));
}

/* The next frame, whole; its first message is at *reader. False: the server has hung up. */
static bool hear(struct peer *peer, struct protocol_reader *reader) {
    struct bytes payload;
    size_t total;
    enum protocol_frame_state state;
    while ((state = protocol_next_frame(bytes_make(peer->in, peer->in_length), sizeof peer->in, &payload, &total)) == FRAME_PARTIAL) {
        ssize_t got = recv(peer->socket, peer->in + peer->in_length, sizeof peer->in - peer->in_length, 0);
        if (got < 0 && errno == EINTR) /* stopped and continued */
            continue;
        assert_true(got >= 0 || errno == ECONNRESET); /* not: nothing came */
        if (got <= 0)
            return false;
        peer->in_length += (size_t)got;
    }
    assert_int_equal(state, FRAME_WHOLE);
    static uint8_t copy[sizeof peer->in];
    memcpy(copy, payload.data, payload.length);
    *reader = (struct protocol_reader){copy, copy + payload.length, false};
    peer->in_length -= total;
    memmove(peer->in, peer->in + total, peer->in_length);
    return true;
}

static int hear_type(struct peer *peer) {
    struct protocol_reader reader;
    return hear(peer, &reader) ? protocol_get_u8(&reader) : -1;
}

/* It answers nothing more, and hangs up. */
static bool is_shown_the_door(struct peer *peer) {
    send_out(peer);
    int type;
    while ((type = hear_type(peer)) >= 0)
        if (type == ANSWER_PONG)
            return false;
    return true;
}

/* A ping comes back: all before it was taken. */
static bool is_let_stay(struct peer *peer) {
    message(peer, ASK_PING, 0);
    return !is_shown_the_door(peer);
}

static fdb_error_t hear_error(struct peer *peer, enum protocol_answer expected) {
    struct protocol_reader reader;
    assert_true(hear(peer, &reader));
    assert_int_equal(protocol_get_u8(&reader), expected);
    (void)protocol_get_u32(&reader);
    return protocol_get_i32(&reader);
}

/* One that is in, with a database 0 and a transaction 0. */
static struct peer *join(void) {
    struct peer *peer = meet();
    say_hello(peer, "");
    send_out(peer);
    assert_int_equal(hear_type(peer), ANSWER_WELCOME);
    say_database(peer, 0);
    say_two(peer, ASK_BEGIN, 0, 0);
    return peer;
}

static void commit(struct peer *peer) {
    say_two(peer, ASK_COMMIT, 0, 0);
    send_out(peer);
    assert_int_equal(hear_error(peer, ANSWER_COMMIT), 0);
    protocol_u32(message(peer, ASK_RESET, 4), 0);
}

/* Rows "row00".. of VALUE_BYTES each. */
static void write_rows(struct peer *peer) {
    for (int i = 0; i < ROWS; i++) {
        char key[16];
        snprintf(key, sizeof key, "row%02d", i);
        say_set(peer, 0, key, VALUE_BYTES);
    }
    commit(peer);
}

/* ---- Strangers ---- */

static void a_stranger_cannot_announce_much(void **state) {
    (void)state;
    static const uint32_t lengths[] = {0, PROTOCOL_HELLO_BYTES_MAX + 1, 65536, PROTOCOL_FRAME_BYTES_MAX, 0x7fffffff, 0xffffffff};
    server->limits.hello_us = INT64_MAX; /* it is the length that ends it */
    listen_here();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t header[PROTOCOL_HEADER_BYTES] = {0};
        struct peer *stranger = meet();
        coding_put_u32(header, lengths[i]);
        send_raw(stranger, header, sizeof header);
        assert_int_equal(hear_type(stranger), -1);
        assert_int_equal(look().violations_total, i + 1);
        leave(stranger);
    }
    await_nothing_held();
}

/* The greeting's frame, filled up with pings. */
static struct peer *greet_with(size_t payload_bytes) {
    struct peer *peer = meet();
    say_hello(peer, "");
    peer->out.frame = 0; /* open again */
    while (protocol_open_bytes(&peer->out) < payload_bytes)
        message(peer, ASK_PING, 0);
    send_out(peer);
    return peer;
}

static void a_greeting_fits_into_its_frame(void **state) {
    (void)state;
    listen_here();
    struct peer *fits = greet_with(PROTOCOL_HELLO_BYTES_MAX), *too_long = greet_with(PROTOCOL_HELLO_BYTES_MAX + 1);
    assert_int_equal(hear_type(fits), ANSWER_WELCOME);
    assert_int_equal(hear_type(too_long), -1);
    leave(too_long);
    leave(fits);
    struct peer *hasty = meet(); /* goes on without waiting, with a frame that is longer than a stranger may send */
    say_hello(hasty, "");
    say_database(hasty, 0);
    say_two(hasty, ASK_BEGIN, 0, 0);
    for (int i = 0; i < 20; i++)
        say_set(hasty, 0, "k", 90000);
    say_two(hasty, ASK_COMMIT, 0, 7);
    send_out(hasty);
    assert_int_equal(hear_type(hasty), ANSWER_WELCOME);
    assert_int_equal(hear_error(hasty, ANSWER_COMMIT), 0);
    leave(hasty);
    struct peer *rude = meet();
    message(rude, ASK_PING, 0);
    assert_true(is_shown_the_door(rude));
    leave(rude);
    await_nothing_held();
}

/* Strangers that take their time: each costs a small buffer, and none stays. */
static void a_stranger_who_says_little_costs_little(void **state) {
    (void)state;
    enum { STRANGERS = 100, BYTES_EACH_MAX = 4096 };
    struct peer *strangers[STRANGERS];
    server->limits.hello_us = 1000000;
    listen_here();
    struct peer *honest = join();
    for (int i = 0; i < STRANGERS; i++) {
        uint8_t part[1000] = {0};
        coding_put_u32(part, PROTOCOL_HELLO_BYTES_MAX);
        strangers[i] = meet();
        send_raw(strangers[i], part, i % 2 ? sizeof part : 3);
    }
    assert_true(is_let_stay(honest));
    uint64_t taken = look().buffer_bytes;
    assert_true(taken < (STRANGERS + 64) * BYTES_EACH_MAX);
    for (int i = 0; i < STRANGERS; i++)
        assert_int_equal(hear_type(strangers[i]), -1);
    assert_int_equal(look().violations_total, STRANGERS);
    for (int i = 0; i < STRANGERS; i++)
        leave(strangers[i]);
    assert_true(is_let_stay(honest));
    leave(honest);
    await_nothing_held();
}

static struct peer *meet_tcp(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    return wrap(descriptor);
}

static void over_tcp_one_has_to_know_the_secret(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "secre", "secreT", "secret!", "SECRET"};
    assert_int_equal(os_socket_listen_tcp("127.0.0.1", "0", &listener), 0);
    int port = os_socket_port(&listener);
    assert_int_equal(remote_server_listen(server, listener, "secret"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct peer *stranger = meet_tcp(port);
        struct protocol_reader reader;
        say_hello(stranger, wrong[i]);
        say_database(stranger, 0); /* and what it says behind it is not done */
        say_two(stranger, ASK_BEGIN, 0, 0);
        say_set(stranger, 0, "stolen", 10);
        say_two(stranger, ASK_COMMIT, 0, 0);
        send_out(stranger);
        assert_true(hear(stranger, &reader));
        assert_int_equal(protocol_get_u8(&reader), ANSWER_REFUSED);
        assert_int_equal(protocol_get_i32(&reader), ERROR_PERMISSION_DENIED);
        assert_int_equal(hear_type(stranger), -1);
        assert_int_equal(look().violations_total, i + 1);
        leave(stranger);
    }
    await_nothing_held();
    assert_int_equal(look().requests_total, 0);
    struct peer *friend = meet_tcp(port), *mute = meet_tcp(port);
    uint8_t long_one[PROTOCOL_HEADER_BYTES] = {0, 0, 1};
    send_raw(mute, long_one, sizeof long_one);
    assert_int_equal(hear_type(mute), -1);
    say_hello(friend, "secret");
    send_out(friend);
    assert_int_equal(hear_type(friend), ANSWER_WELCOME);
    leave(mute);
    leave(friend);
    await_nothing_held();
}

/* ---- Who does not read ---- */

static void one_that_does_not_read_is_bounded_and_dropped(void **state) {
    (void)state;
    enum { ASKED = 4000, HELD_BYTES_MAX = 12 << 20 }; /* 200 MB; 4 MB, doubled as a buffer grows, and some input */
    server->limits.output_stuck_us = 1000000;
    listen_here();
    struct peer *other = join();
    write_rows(other);
    struct peer *deaf = join();
    for (uint32_t i = 0; i < ASKED; i++)
        say_get(deaf, 0, i % 10, "row07");
    send_out(deaf);
    AWAIT(look().buffer_bytes > OUTPUT_BYTES_MAX);
    uint64_t most = 0;
    for (uint32_t i = 0; look().connections == 2; i++) { /* until the deaf one is dropped, the other is served */
        uint64_t now = look().buffer_bytes;
        most = now > most ? now : most;
        say_get(other, 0, i % 10, "row09");
        send_out(other);
        assert_int_equal(hear_type(other), ANSWER_VALUE);
        if (i % 200 == 199) { /* a transaction is too old after five seconds */
            protocol_u32(message(other, ASK_RESET, 4), 0);
            usleep(1000);
        }
    }
    assert_true(most < HELD_BYTES_MAX);
    assert_int_equal(look().violations_total, 1);
    AWAIT(look().buffer_bytes < 1 << 20);
    assert_int_equal(look().transactions, 1);
    leave(deaf);
    assert_true(is_let_stay(other));
    leave(other);
    await_nothing_held();
}

/* One that reads again in time gets everything. */
static void one_that_reads_late_gets_all(void **state) {
    (void)state;
    enum { ASKED = 400 }; /* 20 MB */
    listen_here();
    struct peer *slow = join();
    write_rows(slow);
    for (uint32_t i = 0; i < ASKED; i++)
        say_get(slow, 0, i, "row03");
    message(slow, ASK_PING, 0);
    send_out(slow);
    AWAIT(look().buffer_bytes > OUTPUT_BYTES_MAX);
    uint64_t asked = look().requests_total;
    assert_true(asked < ASKED); /* it stopped in the middle of the frame */
    size_t bytes = 0;
    static uint8_t piece[1 << 16];
    while (bytes < (size_t)ASKED * VALUE_BYTES) {
        ssize_t got = recv(slow->socket, piece, sizeof piece, 0);
        assert_true(got > 0);
        bytes += (size_t)got;
    }
    AWAIT(look().requests_total >= ASKED);
    leave(slow);
    await_nothing_held();
}

/* ---- Limits ---- */

static void connections_are_counted(void **state) {
    (void)state;
    enum { MOST = 3 };
    struct peer *peers[MOST];
    server->limits.connections = MOST;
    listen_here();
    for (int i = 0; i < MOST; i++)
        peers[i] = join();
    struct peer *late = meet();
    assert_int_equal(hear_type(late), -1);
    leave(late);
    for (int i = 0; i < MOST; i++)
        assert_true(is_let_stay(peers[i]));
    leave(peers[0]);
    AWAIT(look().connections == MOST - 1);
    peers[0] = join();
    assert_true(is_let_stay(peers[0]));
    for (int i = 0; i < MOST; i++)
        leave(peers[i]);
    await_nothing_held();
}

static void begin_65535(struct peer *peer) { say_two(peer, ASK_BEGIN, PROTOCOL_TRANSACTIONS_MAX - 1, 0); }
static void begin_65536(struct peer *peer) { say_two(peer, ASK_BEGIN, PROTOCOL_TRANSACTIONS_MAX, 0); }
static void begin_twice(struct peer *peer) { say_two(peer, ASK_BEGIN, 0, 0); }
static void begin_nowhere(struct peer *peer) { say_two(peer, ASK_BEGIN, 1, 1); }
static void database_65535(struct peer *peer) { say_database(peer, PROTOCOL_DATABASES_MAX - 1); }
static void database_65536(struct peer *peer) { say_database(peer, PROTOCOL_DATABASES_MAX); }
static void database_twice(struct peer *peer) { say_database(peer, 0); }
static void watch_1048575(struct peer *peer) { say_watch(peer, 0, PROTOCOL_REQUESTS_MAX - 1, "w"); }
static void watch_1048576(struct peer *peer) { say_watch(peer, 0, PROTOCOL_REQUESTS_MAX, "w"); }
static void commit_1048576(struct peer *peer) { say_set(peer, 0, "k", 1); say_two(peer, ASK_COMMIT, 0, PROTOCOL_REQUESTS_MAX); }
static void watch_twice(struct peer *peer) { say_watch(peer, 0, 1, "w"); say_watch(peer, 0, 1, "w"); }
static void use_none(struct peer *peer) { say_set(peer, 5, "k", 1); }
static void destroy_twice(struct peer *peer) {
    for (int i = 0; i < 2; i++)
        protocol_u32(message(peer, ASK_DESTROY, 4), 0);
}
static void long_value(struct peer *peer) { say_set(peer, 0, "k", PROTOCOL_VALUE_BYTES_MAX + 1); }
static void long_frame(struct peer *peer) {
    uint8_t header[PROTOCOL_HEADER_BYTES] = {0};
    coding_put_u32(header, PROTOCOL_FRAME_BYTES_MAX + 1);
    send_out(peer);
    send_raw(peer, header, sizeof header);
}

static void numbers_have_bounds(void **state) {
    (void)state;
    static const struct {
        void (*say)(struct peer *peer);
        bool allowed;
    } cases[] = {{begin_65535, true},     {begin_65536, false},    {begin_twice, false},   {begin_nowhere, false}, {database_65535, true},
                 {database_65536, false}, {database_twice, false}, {watch_1048575, true},  {watch_1048576, false}, {commit_1048576, false},
                 {watch_twice, false},    {use_none, false},       {destroy_twice, false}, {long_value, false},     {long_frame, false}};
    listen_here();
    uint64_t violations = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct peer *peer = join();
        cases[i].say(peer);
        bool stays = is_let_stay(peer);
        if (stays != cases[i].allowed)
            fail_msg("case %zu: %s", i, stays ? "taken" : "refused");
        violations += !cases[i].allowed;
        assert_int_equal(look().violations_total, violations);
        leave(peer);
        await_nothing_held();
    }
}

/* All the transactions that a connection may have, and one more. */
static void all_transactions_at_once(void **state) {
    (void)state;
    listen_here();
    struct peer *peer = join();
    for (uint32_t i = 1; i < PROTOCOL_TRANSACTIONS_MAX; i++)
        say_two(peer, ASK_BEGIN, i, 0);
    assert_true(is_let_stay(peer));
    assert_int_equal(look().transactions, PROTOCOL_TRANSACTIONS_MAX);
    begin_65536(peer);
    assert_false(is_let_stay(peer));
    leave(peer);
    await_nothing_held();
}

static void writes_that_are_held_have_a_bound(void **state) {
    (void)state;
    enum { BYTES = 90000, ONE = 1 << 20, ALL = 3 << 19 };
    server->limits.transaction_bytes_held = ONE;
    server->limits.session_bytes_held = ALL;
    listen_here();
    struct peer *peer = join();
    for (int i = 0; i < 20; i++)
        say_set(peer, 0, "k", BYTES);
    assert_true(is_let_stay(peer));
    uint64_t held = look().bytes_held;
    assert_true(held <= ONE && held > ONE - 2 * BYTES);
    say_two(peer, ASK_COMMIT, 0, 1);
    send_out(peer);
    assert_int_equal(hear_error(peer, ANSWER_COMMIT), ERROR_TRANSACTION_TOO_LARGE);
    for (uint32_t i = 1; i < 4; i++) { /* each below its own bound, together above the connection's */
        say_two(peer, ASK_BEGIN, i, 0);
        for (int row = 0; row < 5; row++)
            say_set(peer, i, "k", BYTES);
    }
    assert_true(is_let_stay(peer));
    assert_true(look().bytes_held <= ALL);
    say_two(peer, ASK_COMMIT, 3, 2);
    send_out(peer);
    assert_int_equal(hear_error(peer, ANSWER_COMMIT), ERROR_TRANSACTION_TOO_LARGE);
    protocol_u32(message(peer, ASK_RESET, 4), 0);
    for (uint32_t i = 1; i < 4; i++)
        protocol_u32(message(peer, ASK_DESTROY, 4), i);
    assert_true(is_let_stay(peer));
    assert_int_equal(look().bytes_held, 0);
    say_set(peer, 0, "k", BYTES); /* and it may write again */
    commit(peer);
    leave(peer);
    await_nothing_held();
}

static void watches_have_a_bound(void **state) {
    (void)state;
    enum { MOST = 10000 }; /* as FoundationDB's, unless the option says otherwise */
    listen_here();
    struct peer *peer = join();
    for (uint32_t i = 0; i < MOST; i++)
        say_watch(peer, 0, 10 + i, "w");
    commit(peer);
    assert_int_equal(look().waiting, MOST);
    assert_int_equal(watches(), MOST);
    say_watch(peer, 0, 5, "w");
    send_out(peer);
    assert_int_equal(hear_error(peer, ANSWER_ERROR), ERROR_TOO_MANY_WATCHES);
    protocol_u32(message(peer, ASK_CANCEL, 4), 10);
    send_out(peer);
    assert_int_equal(hear_error(peer, ANSWER_ERROR), ERROR_OPERATION_CANCELLED);
    say_watch(peer, 0, 5, "w");
    assert_true(is_let_stay(peer)); /* there is room for one */
    AWAIT(look().waiting == MOST);
    leave(peer);
    await_nothing_held();
}

/* ---- Death ---- */

/* Holds some of everything, and says so. */
static void hold_everything(int tell) {
    struct peer *peer = join(), *halfway = join();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t i = 0; i < 50; i++)
        say_watch(peer, 0, 100 + i, "w");
    commit(peer); /* these are set */
    for (uint32_t i = 1; i < 100; i++) {
        say_two(peer, ASK_BEGIN, i, 0);
        say_watch(peer, i, 1000 + i, "x"); /* these are not: their transaction is not committed */
        say_set(peer, i, "unfinished", 1000);
    }
    for (uint32_t i = 0; i < 1000; i++)
        say_get(peer, i % 100, i % 10, "row02"); /* 50 MB that it will not read */
    send_out(peer);
    uint8_t half[] = {0, 0, 128, 0, 1, 2, 3, 4, 5, 6, 7}; /* of 8 MB */
    send_out(halfway);
    send_raw(halfway, half, sizeof half);
    if (write(tell, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void one_that_dies_leaves_nothing(void **state) {
    (void)state;
    int pipes[2];
    char byte;
    listen_here();
    struct peer *other = join();
    write_rows(other);
    assert_true(is_let_stay(other));
    assert_int_equal(look().bytes_held, 0);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0)
        hold_everything(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    AWAIT(look().waiting == 50 + 99 && look().transactions == 1 + 100 + 1 && look().buffer_bytes > OUTPUT_BYTES_MAX);
    assert_int_equal(watches(), 50);
    assert_true(look().bytes_held > 99 * 1000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    AWAIT(look().connections == 1);
    AWAIT(look().waiting == 0 && watches() == 0 && look().transactions == 1);
    assert_int_equal(look().bytes_held, 0);
    assert_int_equal(look().violations_total, 0); /* dying is not against the rules */
    say_set(other, 0, "w", 1); /* what they watched changes, and nobody is told */
    commit(other);
    assert_true(is_let_stay(other));
    leave(other);
    await_nothing_held();
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_server, stop_server)
        TEST(a_stranger_cannot_announce_much),
        TEST(a_greeting_fits_into_its_frame),
        TEST(a_stranger_who_says_little_costs_little),
        TEST(over_tcp_one_has_to_know_the_secret),
        TEST(one_that_does_not_read_is_bounded_and_dropped),
        TEST(one_that_reads_late_gets_all),
        TEST(connections_are_counted),
        TEST(numbers_have_bounds),
        TEST(all_transactions_at_once),
        TEST(writes_that_are_held_have_a_bound),
        TEST(watches_have_a_bound),
        TEST(one_that_dies_leaves_nothing),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
