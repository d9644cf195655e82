/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the client: whatever comes back from the socket of a database, a process that uses it does
 * not crash, and is served again when sense is talked.
 *
 * One process owns a database. Its socket is renamed, and this process listens in its place and
 * passes everything on, with damage to the answers: bytes, lengths, counts, types and numbers are
 * changed and the checksum made right again, frames are repeated, dropped, cut off, or replaced by
 * noise. A third process uses the database through all that, with every kind of request and a
 * timeout; any error will do. Every so often the damage stops and it must be served rightly.
 *
 * The same damage every time unless KEEL_SEED says otherwise, as far as the same answers come;
 * KEEL_ROUNDS rounds.
 */
#define _GNU_SOURCE
#include "served.h"

#include <poll.h>

#include "remote/protocol.h"
#include "remote/server.h"

enum { LINES_MAX = 8, REAL_BYTES = 1 << 16, CALLS_A_ROUND = 40, TIMEOUT_MS = 60, SERVED_SECONDS_MAX = 100 };

/* ---- In between: a line from the user's process to the owner ---- */

struct line {
    int user, owner; /* -1: none */
    struct protocol_buffer answers;
};

static struct line lines[LINES_MAX];
static bool damaging;
static long damaged_frames, frames;

static void hang_up(struct line *line) {
    close(line->user);
    close(line->owner);
    line->user = line->owner = -1;
    protocol_clear(&line->answers, 0);
}

static void hang_up_all(void) {
    for (int i = 0; i < LINES_MAX; i++)
        if (lines[i].user >= 0)
            hang_up(&lines[i]);
}

static void send_all(struct line *line, const uint8_t *data, size_t length) {
    while (length && line->user >= 0) {
        ssize_t sent = send(line->user, data, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            hang_up(line);
            return;
        }
        data += sent;
        length -= (size_t)sent;
    }
}

static void send_frame(struct line *line, const uint8_t *payload, size_t length) {
    struct protocol_buffer frame = {0};
    uint8_t *to = protocol_reserve(&frame, length);
    CHECK(to);
    memcpy(to, payload, length);
    protocol_close_frame(&frame);
    send_all(line, frame.data, frame.length);
    protocol_free(&frame);
}

static size_t damage_payload(uint8_t *payload, size_t length) {
    static const uint32_t numbers[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 65536, 1 << 20, 1 << 30, 1007, 1021, 2000};
    for (uint32_t i = 0, count = 1 + chance(3); i < count && length > 0; i++) {
        size_t at = chance((uint32_t)length), size = 1 + chance(20);
        switch (chance(6)) {
        case 0: payload[at] = (uint8_t)chance(256); break;
        case 1: payload[at < 9 ? at : chance(9) % length] ^= (uint8_t)(1u << chance(8)); break; /* where the type and numbers are */
        case 2:
            if (at + 4 <= length)
                coding_put_u32(payload + at, numbers[chance(12)]);
            break;
        case 3: payload[0] = (uint8_t)(chance(8) ? ANSWER_ERROR + chance(11) : chance(5)); break;
        case 4: length = at; break;
        default:
            size = at + size < length ? size : length - at;
            memmove(payload + at, payload + at + size, length - at - size);
            length -= size;
            break;
        }
    }
    return length;
}

/* Passes on a frame of the owner, or something instead. */
static void pass_on(struct line *line, const uint8_t *frame, size_t total) {
    uint8_t *copy = malloc(total + 64);
    size_t length = total - PROTOCOL_HEADER_BYTES;
    memcpy(copy, frame + PROTOCOL_HEADER_BYTES, length);
    damaged_frames++;
    switch (chance(10)) {
    case 0: /* twice */
        send_all(line, frame, total);
        send_all(line, frame, total);
        break;
    case 1: break; /* not at all */
    case 2: /* cut off */
        send_all(line, frame, chance((uint32_t)total));
        if (line->user >= 0)
            hang_up(line);
        break;
    case 3: /* noise */
        for (size_t i = 0; i < length; i++)
            copy[i] = (uint8_t)chance(256);
        if (chance(2))
            send_frame(line, copy, length);
        else
            send_all(line, copy, length);
        break;
    case 4: /* an answer that nobody asked for */
        copy[0] = (uint8_t)(ANSWER_ERROR + chance(11));
        for (size_t i = 1; i < 40; i++)
            copy[i] = (uint8_t)chance(i < 5 ? 2 : 256);
        send_all(line, frame, total);
        send_frame(line, copy, 1 + chance(40));
        break;
    default:
        length = damage_payload(copy, length);
        if (length)
            send_frame(line, copy, length);
        break;
    }
    free(copy);
}

static void hear_owner(struct line *line) {
    uint8_t *to = protocol_reserve(&line->answers, REAL_BYTES);
    CHECK(to);
    ssize_t got = recv(line->owner, to, REAL_BYTES, 0);
    line->answers.length -= REAL_BYTES - (size_t)(got > 0 ? got : 0);
    if (got <= 0) {
        hang_up(line);
        return;
    }
    size_t at = PROTOCOL_HEADER_BYTES, total; /* protocol_reserve leaves room for a header of its own */
    struct bytes payload;
    while (line->user >= 0 && line->answers.length > at) {
        struct bytes rest = bytes_make(line->answers.data + at, line->answers.length - at);
        if (protocol_next_frame(rest, PROTOCOL_ANSWER_BYTES_MAX, &payload, &total) != FRAME_WHOLE)
            break;
        frames++;
        at += total;
        if (damaging && chance(5) == 0)
            pass_on(line, rest.data, total);
        else
            send_all(line, rest.data, total);
    }
    if (line->user < 0)
        return;
    size_t left = line->answers.length - at;
    memmove(line->answers.data + PROTOCOL_HEADER_BYTES, line->answers.data + at, left);
    line->answers.length = PROTOCOL_HEADER_BYTES + left;
}

static void hear_user(struct line *line) {
    static uint8_t buffer[REAL_BYTES];
    ssize_t got = recv(line->user, buffer, sizeof buffer, 0);
    if (got <= 0 || send(line->owner, buffer, (size_t)got, MSG_NOSIGNAL) != got)
        hang_up(line);
}

static void take_call(int listener) {
    int user = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(user >= 0);
    for (int i = 0; i < LINES_MAX; i++) {
        if (lines[i].user < 0) {
            lines[i].user = user;
            lines[i].owner = socket_in("real.sock", false);
            CHECK(lines[i].owner >= 0);
            return;
        }
    }
    close(user);
}

/* Passes everything on until the user's process says that it is through. */
static void pass_until_said(int listener, struct process user, char said) {
    double start = seconds();
    CHECK(write(user.tell, &said, 1) == 1);
    for (;;) {
        struct pollfd items[2 + 2 * LINES_MAX] = {{user.hear, POLLIN, 0}, {listener, POLLIN, 0}};
        for (int i = 0; i < LINES_MAX; i++) {
            items[2 + 2 * i] = (struct pollfd){lines[i].user, POLLIN, 0};
            items[3 + 2 * i] = (struct pollfd){lines[i].owner, POLLIN, 0};
        }
        CHECK(poll(items, 2 + 2 * LINES_MAX, 1000) >= 0);
        CHECK(seconds() - start < SERVED_SECONDS_MAX);
        for (int i = 0; i < LINES_MAX; i++) {
            if (items[2 + 2 * i].revents && lines[i].user >= 0)
                hear_user(&lines[i]);
            if (items[3 + 2 * i].revents && lines[i].user >= 0)
                hear_owner(&lines[i]);
        }
        if (items[1].revents)
            take_call(listener);
        char byte;
        if (items[0].revents) {
            CHECK(hear(user.hear, &byte) && byte == said);
            return;
        }
    }
}

/* ---- The process that uses the database ---- */

static FDBFuture *any_call(FDBTransaction *tr, bool *cancel) {
    static const uint8_t begin[] = "honest/", end[] = "honest0";
    *cancel = chance(3) == 0;
    switch (chance(9)) {
    case 0:
    case 1: return fdb_transaction_get(tr, (const uint8_t *)"honest/07", chance(2) ? 9 : 7, 0);
    case 2: return fdb_transaction_get_key(tr, FDB_KEYSEL_FIRST_GREATER_THAN(begin, 7), 0);
    case 3:
        return fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin, 7), FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, 7), 0,
                                         0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    case 4: return fdb_transaction_get_read_version(tr);
    case 5: return fdb_transaction_get_estimated_range_size_bytes(tr, begin, 7, end, 7);
    case 6: return fdb_transaction_get_range_split_points(tr, begin, 7, end, 7, 100);
    case 7: return fdb_transaction_get_addresses_for_key(tr, begin, 7);
    default: *cancel = true; return fdb_transaction_watch(tr, begin, 7); /* no timeout ends it */
    }
}

/* Looks at all of a result: a sanitizer sees what is not there. */
static void look_at(FDBFuture *future) {
    const FDBKeyValue *rows;
    const FDBKey *keys;
    const uint8_t *data;
    const char **strings;
    int count, length;
    fdb_bool_t more, present;
    unsigned long sum = 0;
    if (fdb_future_get_keyvalue_array(future, &rows, &count, &more) == 0)
        for (int i = 0; i < count; i++)
            for (int at = 0; at < rows[i].value_length; at++)
                sum += rows[i].value[at];
    else if (fdb_future_get_key_array(future, &keys, &count) == 0)
        for (int i = 0; i < count; i++)
            for (int at = 0; at < keys[i].key_length; at++)
                sum += keys[i].key[at];
    else if (fdb_future_get_string_array(future, &strings, &count) == 0)
        for (int i = 0; i < count; i++)
            sum += strlen(strings[i]);
    else if (fdb_future_get_value(future, &present, &data, &length) == 0 && present)
        for (int at = 0; at < length; at++)
            sum += data[at];
    else if (fdb_future_get_key(future, &data, &length) == 0)
        for (int at = 0; at < length; at++)
            sum += data[at];
    volatile unsigned long seen = sum;
    (void)seen;
}

/* A transaction with a timeout: whatever happens, it ends. */
static void use_once(FDBDatabase *database) {
    enum { CALLS = 6 };
    FDBTransaction *tr;
    FDBFuture *futures[CALLS];
    bool cancel[CALLS];
    int64_t timeout_ms = TIMEOUT_MS;
    if (fdb_database_create_transaction(database, &tr))
        return;
    CHECK(fdb_transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT, (uint8_t *)&timeout_ms, 8) == 0);
    fdb_transaction_set(tr, (const uint8_t *)"other", 5, (const uint8_t *)"value", 5);
    for (int i = 0; i < CALLS; i++)
        futures[i] = any_call(tr, &cancel[i]);
    for (int i = 0; i < CALLS; i++) {
        if (cancel[i])
            fdb_future_cancel(futures[i]);
        CHECK(fdb_future_block_until_ready(futures[i]) == 0);
        look_at(futures[i]);
        fdb_future_destroy(futures[i]);
    }
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    fdb_error_t error = finish(fdb_transaction_commit(tr));
    CHECK(fdb_future_block_until_ready(stamp) == 0);
    look_at(stamp);
    fdb_future_destroy(stamp);
    if (error)
        (void)finish(fdb_transaction_on_error(tr, error));
    fdb_transaction_destroy(tr);
}

static void use(int hear_from, int tell) {
    FDBDatabase *database = open_path();
    char byte;
    for (long round = 0; hear(hear_from, &byte); round++) {
        seed_round(round * 2 + 1000);
        if (byte == 'd')
            for (int i = 0; i < CALLS_A_ROUND; i++)
                use_once(database);
        else
            be_served(database, (int)round);
        CHECK(write(tell, &byte, 1) == 1);
    }
    close_path(database);
}

int main(void) {
    const char *given = getenv("KEEL_ROUNDS");
    long rounds = given ? atol(given) : 10;
    char from[500], to[500];
    rounds = rounds > 40 && !getenv("KEEL_SEED") ? 40 : rounds;
    make_scratch();
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < LINES_MAX; i++)
        lines[i] = (struct line){.user = -1, .owner = -1};
    struct process owner = start_process(own);
    (void)ask(owner, 'o');
    snprintf(from, sizeof from, "%s/%s", path, REMOTE_SOCKET_NAME);
    snprintf(to, sizeof to, "%s/real.sock", path);
    CHECK(rename(from, to) == 0);
    int listener = socket_in(REMOTE_SOCKET_NAME, true);
    CHECK(listener >= 0);
    struct process user = start_process(use);
    for (long round = 0; round < rounds; round++) {
        seed_round(round);
        damaging = true;
        pass_until_said(listener, user, 'd');
        damaging = false;
        hang_up_all(); /* a length that was made up has no end */
        pass_until_said(listener, user, 'h');
        CHECK(waitpid(owner.id, NULL, WNOHANG) == 0);
    }
    end_process(user);
    hang_up_all();
    close(listener);
    unlink(from);
    end_process(owner);
    remove_scratch();
    printf("%ld rounds: %ld frames, %ld of them damaged\n", rounds, frames, damaged_frames);
    CHECK(damaged_frames > 0);
    printf("2 passed, 0 failed\n"); /* served between the rounds; a clean end */
    return 0;
}
