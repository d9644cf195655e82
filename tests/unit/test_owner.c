/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user of a database whose owner talks nonsense slowly: an impostor at a TCP address says welcome,
 * takes a question, and then behaves as the test tells it. Whatever it does, the question ends when
 * KEEL_OWNER_TIMEOUT has passed without anything that counts as heard; an owner that is only slow with
 * a long answer is waited for; and the next connection is as good as new.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "foundationdb/fdb_c.h"
#include "os/clock.h"
#include "remote/protocol.h"
#include "util/error.h"

enum { LONG_BYTES = 1200000, PIECE_BYTES = 150000, PIECE_US = 400000, DRIBBLE_US = 20000, PATIENCE_MS = 1500 };

/* What the impostor does when it is asked for a value. */
enum manner {
    ANSWERS,   /* as it should */
    SLOW,      /* a long value, in good pieces, for longer than the silence limit */
    MADE_UP,   /* announces a frame of 100 MB, then answers pings, and pings only */
    DRIBBLES,  /* a long value, a byte now and then */
    HALF,      /* half a header, and then only pongs */
};
static _Atomic int manner;
static _Atomic int pings, connections;
static int listener;
static uint16_t port;

/* ---- The impostor ---- */

/* False: the user is gone. */
static bool send_all(int user, const uint8_t *data, size_t length) {
    while (length) {
        ssize_t sent = send(user, data, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void send_out(int user, struct protocol_buffer *out) {
    protocol_close_frame(out);
    (void)send_all(user, out->data, out->length);
    protocol_clear(out, SIZE_MAX);
}

static void put_value(struct protocol_buffer *out, uint32_t request, size_t length) {
    uint8_t *to = protocol_reserve(out, 9 + length);
    to = protocol_u32(protocol_u32(protocol_u8(to, ANSWER_VALUE), request), (uint32_t)length);
    memset(to, 'v', length);
    protocol_close_frame(out);
}

static void send_slowly(int user, const struct protocol_buffer *out, size_t piece, useconds_t wait_us) {
    for (size_t at = 0; at < out->length; at += piece) {
        if (!send_all(user, out->data + at, out->length - at < piece ? out->length - at : piece))
            return;
        usleep(wait_us);
    }
}

static void answer_get(int user, struct protocol_buffer *out, uint32_t request) {
    static const uint8_t made_up[] = {0, 0xe1, 0xf5, 0x05, 1, 2, 3, 4};
    int how = manner;
    send_out(user, out);
    switch (how) {
    case MADE_UP: (void)send_all(user, made_up, sizeof made_up); return;
    case HALF: (void)send_all(user, made_up, 2); return;
    default: put_value(out, request, how == ANSWERS ? 1 : LONG_BYTES); break;
    }
    if (how == ANSWERS)
        send_out(user, out);
    else
        send_slowly(user, out, how == SLOW ? PIECE_BYTES : 1, how == SLOW ? PIECE_US : DRIBBLE_US);
    protocol_clear(out, SIZE_MAX);
}

/* One message of the user; false: one that this test does not send. */
static bool take(int user, struct protocol_buffer *out, struct protocol_reader *reader) {
    uint32_t request;
    switch (protocol_get_u8(reader)) {
    case ASK_HELLO:
        protocol_u32(protocol_u32(protocol_u32(protocol_u8(protocol_reserve(out, 13), ANSWER_WELCOME), PROTOCOL_MAGIC), PROTOCOL_VERSION), 1);
        reader->next = reader->end;
        return true;
    case ASK_PING:
        pings++;
        protocol_u8(protocol_reserve(out, 1), ANSWER_PONG);
        return true;
    case ASK_DATABASE:
        (void)protocol_get_u32(reader);
        (void)protocol_get_bytes(reader, 5000);
        (void)protocol_get_bytes(reader, 5000);
        return true;
    case ASK_BEGIN: (void)protocol_get_i64(reader); return true;
    case ASK_RESET:
    case ASK_DATABASE_CLOSE:
    case ASK_DESTROY: (void)protocol_get_u32(reader); return true;
    case ASK_GET:
        (void)protocol_get_u32(reader);
        request = protocol_get_u32(reader);
        (void)protocol_get_u8(reader);
        (void)protocol_get_bytes(reader, 100);
        answer_get(user, out, request);
        return true;
    default: return false;
    }
}

/* Until the user hangs up. */
static void serve(int user) {
    static uint8_t in[1 << 16];
    size_t length = 0, total;
    struct protocol_buffer out = {0};
    struct bytes payload;
    for (;;) {
        ssize_t got = recv(user, in + length, sizeof in - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        while (protocol_next_frame(bytes_make(in, length), sizeof in, &payload, &total) == FRAME_WHOLE) {
            struct protocol_reader reader = {payload.data, payload.data + payload.length, false};
            while (reader.next < reader.end)
                if (!take(user, &out, &reader))
                    abort();
            length -= total;
            memmove(in, in + total, length);
        }
        send_out(user, &out);
    }
    protocol_free(&out);
    close(user);
}

static void *impersonate(void *unused) {
    for (;;) {
        int user = accept(listener, NULL, NULL);
        if (user < 0)
            return unused;
        connections++;
        serve(user);
    }
}

/* ---- The user ---- */

static pthread_t network, impostor;
static FDBDatabase *database;

static void *run_network(void *unused) {
    (void)fdb_run_network();
    return unused;
}

static int start(void **state) {
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    char text[100];
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&impostor, NULL, impersonate, NULL), 0);
    snprintf(text, sizeof text, "%d.%d", PATIENCE_MS / 1000, PATIENCE_MS % 1000 / 100);
    setenv("KEEL_OWNER_TIMEOUT", text, 1);
    assert_int_equal(fdb_select_api_version(740), 0);
    assert_int_equal(fdb_setup_network(), 0);
    assert_int_equal(pthread_create(&network, NULL, run_network, NULL), 0);
    snprintf(text, sizeof text, "keel:secret@127.0.0.1:%d", port);
    assert_int_equal(fdb_create_database_from_connection_string(text, &database), 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    fdb_database_destroy(database);
    assert_int_equal(fdb_stop_network(), 0);
    pthread_join(network, NULL);
    shutdown(listener, SHUT_RDWR);
    pthread_join(impostor, NULL);
    close(listener);
    return 0;
}

static FDBFuture *ask(FDBTransaction *tr) {
    return fdb_transaction_get(tr, (const uint8_t *)"k", 1, 0);
}

/* The answer's length, or its error made negative. */
static int hear(FDBFuture *future) {
    fdb_bool_t present;
    const uint8_t *value;
    int length;
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_value(future, &present, &value, &length);
    fdb_future_destroy(future);
    return error ? -error : length;
}

static void note(FDBFuture *future, void *flag) {
    (void)future;
    atomic_store((_Atomic int *)flag, 1);
}

/* A thread that blocks reads the socket itself; for one that left a callback another does. */
static void gives_up_and_goes_on(enum manner how, int first, int last) {
    for (int by_callback = first; by_callback <= last; by_callback++) {
        FDBTransaction *tr;
        _Atomic int called = 0;
        int connections_before = connections;
        manner = how;
        assert_int_equal(fdb_database_create_transaction(database, &tr), 0);
        int64_t begun_us = os_clock_us();
        FDBFuture *future = ask(tr);
        if (by_callback)
            assert_int_equal(fdb_future_set_callback(future, note, &called), 0);
        while (by_callback && !called)
            usleep(1000);
        assert_int_equal(hear(future), -ERROR_TRANSACTION_TOO_OLD);
        assert_true(os_clock_us() - begun_us > PATIENCE_MS * 900); /* not before its time */
        manner = ANSWERS;
        int length = -ERROR_TRANSACTION_TOO_OLD;
        while (length < 0) { /* as a retry loop does */
            FDBFuture *ready = fdb_transaction_on_error(tr, -length);
            assert_int_equal(fdb_future_block_until_ready(ready), 0);
            assert_int_equal(fdb_future_get_error(ready), 0);
            fdb_future_destroy(ready);
            length = hear(ask(tr));
        }
        assert_int_equal(length, 1);
        assert_true(connections > connections_before); /* one more; two on a machine that was too busy to answer in time */
        fdb_transaction_destroy(tr);
    }
}

static void a_length_that_was_made_up(void **state) {
    (void)state;
    int pings_before = pings;
    gives_up_and_goes_on(MADE_UP, 0, 1);
    assert_true(pings > pings_before); /* the pongs are what made it look alive */
}

static void half_a_header(void **state) {
    (void)state;
    gives_up_and_goes_on(HALF, 0, 0);
}

static void an_answer_by_the_byte(void **state) {
    (void)state;
    gives_up_and_goes_on(DRIBBLES, 1, 1);
}

static void a_long_answer_may_take_its_time(void **state) {
    (void)state;
    int length = 0;
    manner = SLOW;
    for (int attempt = 0; attempt < 20 && length != LONG_BYTES; attempt++) { /* a machine may be too busy to send the next piece in time */
        FDBTransaction *tr;
        assert_int_equal(fdb_database_create_transaction(database, &tr), 0);
        int64_t begun_us = os_clock_us();
        length = hear(ask(tr));
        assert_true(length < 0 || os_clock_us() - begun_us > PATIENCE_MS * 1000); /* or it proves nothing */
        fdb_transaction_destroy(tr);
        usleep(length < 0 ? 500000 : 0);
    }
    assert_int_equal(length, LONG_BYTES);
    manner = ANSWERS;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_answer_may_take_its_time),
        cmocka_unit_test(a_length_that_was_made_up),
        cmocka_unit_test(half_a_header),
        cmocka_unit_test(an_answer_by_the_byte),
    };
    alarm(600); /* what is waited for in vain ends here */
    return cmocka_run_group_tests(tests, start, end);
}
