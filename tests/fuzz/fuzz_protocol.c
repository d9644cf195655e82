/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the server: whatever comes in on the socket of a database, its owner goes on, serves others
 * rightly and soon, and forgets what a connection held when it ends.
 *
 * One process owns a database, one uses it honestly, and this one sends, a round at a time:
 *
 *     noise       random bytes; random bytes in frames with the right checksum
 *     lies        frames whose header says another length or checksum, or that end in the middle
 *     damage      a session as it should be, with bytes, lengths and numbers changed, parts cut out
 *                 or repeated, and the checksum made right again
 *     storm       well-formed messages in an order that no client library would send: commits of one
 *                 transaction twice, resets and destroys under way, watches, cancels; a ping at
 *                 the end must be answered
 *     deaf        more answers asked for than the owner will hold, and none read
 *     greedy      the same, read as fast as can be, and all must come
 *     crowd       hundreds of connections that say nothing, or hello
 *
 * After each the honest client is served; at the end the owner's memory and descriptors are what
 * they were. The same rounds every time unless KEEL_SEED says otherwise; KEEL_ROUNDS of them.
 */
#define _GNU_SOURCE
#include "served.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>

#include "remote/protocol.h"
#include "remote/server.h"

enum {
    TRANSACTIONS = 6,
    DEAF_KEPT = 8,              /* clients that do not read, kept open meanwhile */
    SERVED_SECONDS_MAX = 100,   /* for one that hangs: the machine may be busy */
    GROWTH_BYTES_MAX = 96 << 20,
};

static struct process owner, honest;
static double longest_seconds;
static long violated, survived, answers_read;

/* ---- Messages ---- */

static struct protocol_buffer out;

static uint8_t *message(enum protocol_question type, size_t size) {
    uint8_t *to = protocol_reserve(&out, 1 + size);
    CHECK(to);
    return protocol_u8(to, type);
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static void say_hello(void) {
    uint8_t *to = message(ASK_HELLO, 24);
    to = protocol_u32(protocol_u32(protocol_u32(to, PROTOCOL_MAGIC), PROTOCOL_VERSION), PROTOCOL_VERSION);
    protocol_bytes(protocol_u32(protocol_u32(to, 740), (uint32_t)getpid()), text(""));
    protocol_close_frame(&out); /* the owner takes no long frame from a stranger */
}

static void say_database(uint32_t number) {
    uint8_t *to = message(ASK_DATABASE, 12 + strlen(path) + 3);
    protocol_bytes(protocol_bytes(protocol_u32(to, number), text(path)), text("a:b"));
}

static void say_begin(uint32_t transaction, uint32_t database) {
    protocol_u32(protocol_u32(message(ASK_BEGIN, 8), transaction), database);
}

static void say_one(enum protocol_question type, uint32_t transaction) {
    protocol_u32(message(type, 4), transaction);
}

static struct bytes any_key(char key[64]) {
    static const char *const odd[] = {"", "\xff", "\xff\xff", "\xff\xff/status/json", "\xff\xff/transaction/conflicting_keys/",
                                      "\xff/system", "\xff\xff\xff", "large/0"};
    if (chance(12) == 0)
        return text(odd[chance(sizeof odd / sizeof *odd)]);
    int length = snprintf(key, 64, "storm/%u", chance(20));
    return bytes_make(key, (size_t)length);
}

static void say_pair(enum protocol_question type, uint32_t transaction) {
    static const uint8_t stamp[30] = "storm/s\0\0\0\0\0\0\0\0\0\0\7";
    char first_text[64], second_text[64];
    struct bytes first = any_key(first_text), second = any_key(second_text);
    bool typed = type == ASK_ATOMIC || type == ASK_CONFLICT_RANGE;
    uint32_t kind = type == ASK_ATOMIC ? chance(24) : chance(3);
    if (type == ASK_ATOMIC && kind == 14)
        first = bytes_make(stamp, 21);
    uint8_t *to = message(type, 4 + (typed ? 4 : 0) + 4 + first.length + (type == ASK_CLEAR ? 0 : 4 + second.length));
    to = protocol_u32(to, transaction);
    if (typed)
        to = protocol_u32(to, kind);
    to = protocol_bytes(to, first);
    if (type != ASK_CLEAR)
        protocol_bytes(to, second);
}

static void say_option(uint32_t transaction) {
    static const uint32_t options[] = {20, 30, 31, 51, 300, 301, 303, 304, 402, 500, 501, 502, 601, 700, 701, 712, 713, 715, 900, 12345};
    uint8_t *to = message(ASK_OPTION, 4 + 4 + 1 + 4 + 8);
    to = protocol_u8(protocol_u32(protocol_u32(to, transaction), options[chance(sizeof options / sizeof *options)]), chance(2));
    protocol_bytes(to, bytes_make("\1\0\0\0\0\0\0\0", 8));
}

static uint8_t *put_selector(uint8_t *to, struct bytes key) {
    return protocol_bytes(protocol_u32(protocol_u8(to, chance(2)), chance(8) ? chance(9) - 4 : chance(1u << 31)), key);
}

static void say_range(uint32_t transaction, uint32_t request, struct bytes begin, struct bytes end) {
    uint8_t *to = message(ASK_GET_RANGE, 8 + 2 + 16 + 18 + begin.length + end.length);
    to = protocol_u8(protocol_u8(protocol_u32(protocol_u32(to, transaction), request), chance(2)), chance(2));
    to = protocol_u32(protocol_u32(to, chance(3) ? 0 : chance(1000)), chance(3) ? 0 : chance(100000));
    to = protocol_u32(protocol_u32(to, chance(10) ? (uint32_t)-2 + chance(7) : chance(1u << 31)), chance(4));
    put_selector(put_selector(to, begin), end);
}

/* Any request of a transaction. */
static void say_request(enum protocol_question type, uint32_t transaction, uint32_t request) {
    char first_text[64], second_text[64];
    struct bytes key = any_key(first_text), end = any_key(second_text);
    bool two = type == ASK_ESTIMATED_SIZE || type == ASK_SPLIT_POINTS;
    if (type == ASK_GET_RANGE) {
        say_range(transaction, request, key, end);
        return;
    }
    bool keyed = two || type == ASK_GET || type == ASK_GET_KEY || type == ASK_WATCH || type == ASK_ADDRESSES;
    size_t size = 8 + (type == ASK_GET) + (keyed ? 4 + key.length : 0) + (type == ASK_GET_KEY ? 6 : 0) + (two ? 4 + end.length : 0) +
                  (type == ASK_SPLIT_POINTS ? 8 : 0);
    uint8_t *to = protocol_u32(protocol_u32(message(type, size), transaction), request);
    if (type == ASK_GET || type == ASK_GET_KEY)
        to = protocol_u8(to, chance(2));
    if (type == ASK_GET_KEY)
        to = put_selector(to, key);
    else if (keyed)
        to = protocol_bytes(to, key);
    if (two)
        to = protocol_bytes(to, end);
    if (type == ASK_SPLIT_POINTS)
        protocol_i64(to, chance(4) ? (int64_t)chance(100000) : -1);
}

/* Something about a transaction that is there. A request takes the next number. */
static void say_anything(uint32_t *request) {
    static const uint8_t plain[] = {ASK_SET, ASK_SET, ASK_SET, ASK_CLEAR, ASK_CLEAR_RANGE, ASK_ATOMIC, ASK_ATOMIC, ASK_CONFLICT_RANGE};
    uint32_t transaction = chance(TRANSACTIONS);
    switch (chance(10)) {
    case 0: say_one(ASK_RESET, transaction); break;
    case 1: say_option(transaction); break;
    case 2: protocol_u32(message(ASK_CANCEL, 4), chance(*request + 3)); break;
    case 3:
        say_one(ASK_DESTROY, transaction);
        say_begin(transaction, 0);
        break;
    case 4:
        protocol_i64(protocol_u32(message(ASK_SET_READ_VERSION, 12), transaction), chance(3) ? (int64_t)chance(1u << 30) - 5 : INT64_MIN);
        break;
    case 5: say_request(ASK_COMMIT, transaction, (*request)++); break;
    case 6: say_request(ASK_WATCH, transaction, (*request)++); break;
    case 7: say_request(ASK_GET_READ_VERSION + chance(10), transaction, (*request)++); break;
    default: say_pair(plain[chance(sizeof plain)], transaction); break;
    }
    if (chance(8) == 0)
        protocol_close_frame(&out);
}

/* A session as it should be. */
static void say_session(int messages) {
    uint32_t request = 0;
    protocol_clear(&out, SIZE_MAX);
    say_hello();
    say_database(0);
    for (uint32_t i = 0; i < TRANSACTIONS; i++)
        say_begin(i, 0);
    for (int i = 0; i < messages; i++)
        say_anything(&request);
    protocol_close_frame(&out);
}

/* ---- Sending and hearing ---- */

/* As much as is taken; what does the owner end the connection for is not of interest. */
static void send_bytes(int socket, const uint8_t *data, size_t length) {
    while (length) {
        ssize_t sent = send(socket, data, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        data += sent;
        length -= (size_t)sent;
    }
}

/* Reads for a while, or to the end. True: the owner has closed it. */
static bool drain(int socket, int wait_ms) {
    static uint8_t buffer[65536];
    struct pollfd item = {socket, POLLIN, 0};
    while (poll(&item, 1, wait_ms) > 0) {
        ssize_t got = recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0)
            return true;
        answers_read++;
    }
    return false;
}

static int connected(void) {
    int socket = socket_in(REMOTE_SOCKET_NAME, false);
    CHECK(socket >= 0);
    return socket;
}

static void finish_with(int socket) {
    if (chance(3))
        *(drain(socket, (int)chance(20)) ? &violated : &survived) += 1;
    if (chance(2))
        shutdown(socket, SHUT_WR);
    close(socket);
}

/* ---- Kinds of rounds ---- */

static void noise(void) {
    size_t length = chance(4) ? chance(300) : chance(200000);
    int socket = connected();
    protocol_clear(&out, SIZE_MAX);
    if (chance(3)) {
        say_session((int)chance(3));
    }
    if (chance(4)) { /* in a frame */
        uint8_t *to = protocol_reserve(&out, length + 1);
        for (size_t i = 0; i < length + 1; i++)
            to[i] = (uint8_t)(chance(3) ? chance(80) : chance(256));
        protocol_close_frame(&out);
    } else {
        for (size_t i = 0; i < length; i++) {
            uint8_t byte = (uint8_t)chance(256);
            if (i % 4096 == 0 && chance(30) == 0)
                break;
            send_bytes(socket, &byte, i < 64);
        }
    }
    send_bytes(socket, out.data, out.length);
    finish_with(socket);
}

static void lies(void) {
    static const uint32_t lengths[] = {0, 1, PROTOCOL_FRAME_BYTES_MAX, PROTOCOL_FRAME_BYTES_MAX + 1, 0x7fffffff, 0xffffffff, 0xfffffff8, 1 << 20};
    int socket = connected();
    say_session((int)chance(20));
    size_t at = chance(2) ? 0 : out.length;
    if (at) { /* behind a good frame */
        uint8_t *room = protocol_reserve(&out, 100);
        memset(room, 'x', 100);
        protocol_close_frame(&out);
    }
    if (chance(4))
        coding_put_u32(out.data + at, chance(4) ? lengths[chance(8)] : chance(1u << 31));
    else
        out.data[at + 4 + chance(4)] ^= (uint8_t)(1 + chance(255));
    size_t length = chance(2) ? out.length : chance((uint32_t)out.length + 1);
    if (chance(4) == 0) { /* in small pieces */
        for (size_t i = 0; i < length; i += 7)
            send_bytes(socket, out.data + i, length - i < 7 ? length - i : 7);
    } else {
        send_bytes(socket, out.data, length);
    }
    finish_with(socket);
}

/* Changes a payload in place; what is left of it. */
static size_t damage_payload(uint8_t *payload, size_t length) {
    static const uint32_t numbers[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 65535, 65536, 1048575, 1048576, 16 << 20, 4999, 5000};
    for (uint32_t i = 0, count = 1 + chance(4); i < count && length > 8; i++) {
        size_t at = chance((uint32_t)length - 4), size = 1 + chance(40);
        switch (chance(6)) {
        case 0: payload[at] = (uint8_t)chance(256); break;
        case 1: payload[at] ^= (uint8_t)(1u << chance(8)); break;
        case 2: coding_put_u32(payload + at, numbers[chance(12)]); break;
        case 3: payload[at] = (uint8_t)(chance(2) ? chance(17) : ASK_GET_READ_VERSION + chance(11)); break;
        case 4: /* cut out */
            size = at + size < length ? size : length - at;
            memmove(payload + at, payload + at + size, length - at - size);
            length -= size;
            break;
        default: /* write a part over another */
            size = at + size < length ? size : length - at;
            memmove(payload + at, payload + chance((uint32_t)(length - size + 1)), size);
            break;
        }
    }
    return length;
}

static void damage(void) {
    int socket = connected();
    say_session(1 + (int)chance(60));
    struct protocol_buffer damaged = {0};
    bool keep_greeting = chance(3) != 0, first = true;
    for (size_t at = 0; at < out.length; first = false) {
        size_t length = coding_get_u32(out.data + at), greeting = 25 + 13 + strlen(path) + 3 + TRANSACTIONS * 9;
        uint8_t *to = protocol_reserve(&damaged, length);
        CHECK(to);
        memcpy(to, out.data + at + PROTOCOL_HEADER_BYTES, length);
        size_t kept = first && keep_greeting && greeting < length ? greeting : 0;
        if (!(first && keep_greeting && !kept) && chance(3))
            damaged.length -= length - kept - damage_payload(to + kept, length - kept);
        protocol_close_frame(&damaged);
        damaged.frame = damaged.length;
        at += PROTOCOL_HEADER_BYTES + length;
    }
    send_bytes(socket, damaged.data, damaged.length);
    protocol_free(&damaged);
    finish_with(socket);
}

/* One more piece of what the owner sends; false: it has closed the connection, or all is quiet for a moment (*quiet). */
static bool hear_more(int socket, struct protocol_buffer *in, bool *quiet) {
    enum { PIECE = 65536 };
    struct pollfd item = {socket, POLLIN, 0};
    *quiet = poll(&item, 1, 20) == 0;
    if (*quiet)
        return false;
    uint8_t *to = protocol_reserve(in, PIECE);
    CHECK(to);
    ssize_t got = recv(socket, to, PIECE, 0);
    in->length -= PIECE - (size_t)(got > 0 ? got : 0);
    return got > 0;
}

/* Pings until a PONG comes alone, behind everything else. False: the owner has closed the connection. */
static bool await_pong(int socket) {
    struct protocol_buffer in = {0}, ping = {0};
    size_t at = PROTOCOL_HEADER_BYTES, total; /* protocol_reserve leaves room for a header of its own */
    double start = seconds();
    bool found = false, quiet = true;
    protocol_u8(protocol_reserve(&ping, 1), ASK_PING);
    protocol_close_frame(&ping);
    send_bytes(socket, ping.data, ping.length);
    while (!found && (hear_more(socket, &in, &quiet) || quiet)) {
        struct bytes payload;
        CHECK(seconds() - start < SERVED_SECONDS_MAX);
        if (quiet)
            send_bytes(socket, ping.data, ping.length);
        while (in.length > at && protocol_next_frame(bytes_make(in.data + at, in.length - at), PROTOCOL_ANSWER_BYTES_MAX, &payload,
                                                     &total) == FRAME_WHOLE) {
            found |= payload.length == 1 && payload.data[0] == ANSWER_PONG;
            at += total;
            answers_read++;
        }
    }
    protocol_free(&in);
    protocol_free(&ping);
    return found;
}

static void storm(void) {
    int socket = connected();
    say_session(20 + (int)chance(200));
    bool cut = chance(4) == 0;
    send_bytes(socket, out.data, cut ? chance((uint32_t)out.length) : out.length);
    if (!cut)
        *(await_pong(socket) ? &survived : &violated) += 1;
    close(socket);
}

static void ask_much(int socket, int requests) {
    protocol_clear(&out, SIZE_MAX);
    say_hello();
    say_database(3);
    say_begin(1, 3);
    uint8_t *large = protocol_bytes(protocol_u32(message(ASK_SET, 4 + 4 + 7 + 4 + LARGE_BYTES), 1), text("large/0"));
    memset(protocol_u32(large, LARGE_BYTES), 'l', LARGE_BYTES); /* its own: others clear what they like */
    for (int i = 0; i < requests; i++) {
        uint8_t *to = message(ASK_GET, 13 + 7);
        to = protocol_u8(protocol_u32(protocol_u32(to, 1), (uint32_t)i), 0);
        protocol_bytes(to, text("large/0"));
        if (chance(50) == 0)
            protocol_close_frame(&out);
    }
    protocol_close_frame(&out);
    send_bytes(socket, out.data, out.length);
}

/* Those that do not read stay for a while. */
static void deaf(void) {
    static int kept[DEAF_KEPT];
    static bool filled[DEAF_KEPT];
    uint32_t place = chance(DEAF_KEPT);
    if (filled[place])
        close(kept[place]);
    filled[place] = true;
    kept[place] = connected();
    ask_much(kept[place], 400);
}

struct reading {
    int socket, wanted, answers;
};

static int count_answers(struct bytes payload) {
    struct protocol_reader reader = {payload.data, payload.data + payload.length, false};
    int count = 0;
    while (reader.next < reader.end) {
        uint8_t type = protocol_get_u8(&reader);
        (void)protocol_get_u32(&reader);
        count += type != ANSWER_WELCOME;
        if (type == ANSWER_VALUE)
            (void)protocol_get_bytes(&reader, LARGE_BYTES);
        else
            (void)(type == ANSWER_WELCOME ? protocol_get_i64(&reader) : (int64_t)protocol_get_u32(&reader));
        CHECK(!reader.bad && (type == ANSWER_WELCOME || type == ANSWER_VALUE || type == ANSWER_ERROR));
    }
    return count;
}

static void *read_all(void *argument) {
    struct reading *reading = argument;
    struct protocol_buffer in = {0};
    double start = seconds();
    bool quiet = false;
    while (reading->answers < reading->wanted && (hear_more(reading->socket, &in, &quiet) || quiet)) {
        struct bytes payload;
        size_t at = PROTOCOL_HEADER_BYTES, total;
        if (seconds() - start > SERVED_SECONDS_MAX)
            break;
        while (in.length > at && protocol_next_frame(bytes_make(in.data + at, in.length - at), PROTOCOL_ANSWER_BYTES_MAX, &payload,
                                                     &total) == FRAME_WHOLE) {
            reading->answers += count_answers(payload);
            at += total;
        }
        memmove(in.data + PROTOCOL_HEADER_BYTES, in.data + at, in.length > at ? in.length - at : 0);
        in.length -= in.length > at ? at - PROTOCOL_HEADER_BYTES : in.length - PROTOCOL_HEADER_BYTES;
    }
    protocol_free(&in);
    return NULL;
}

/* Asks for many megabytes and reads them while the owner sends: every answer must come, also where it paused. */
static void greedy(void) {
    struct reading reading = {connected(), 300, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_all, &reading) == 0);
    ask_much(reading.socket, reading.wanted);
    pthread_join(thread, NULL);
    if (reading.answers != reading.wanted)
        fprintf(stderr, "%d of %d answers came\n", reading.answers, reading.wanted);
    CHECK(reading.answers == reading.wanted);
    close(reading.socket);
}

static void crowd(void) {
    enum { CROWD = 200 };
    int sockets[CROWD];
    protocol_clear(&out, SIZE_MAX);
    say_hello();
    protocol_close_frame(&out);
    for (int i = 0; i < CROWD; i++) {
        sockets[i] = connected();
        if (chance(2))
            send_bytes(sockets[i], out.data, chance(2) ? out.length : chance((uint32_t)out.length));
    }
    (void)ask(honest, 'h');
    for (int i = 0; i < CROWD; i++)
        close(sockets[i]);
}

/* ---- What the owner has ---- */

static long owner_bytes(void) {
    char name[64];
    long total, resident = 0;
    snprintf(name, sizeof name, "/proc/%d/statm", (int)owner.id);
    FILE *file = fopen(name, "r");
    CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int owner_descriptors(void) {
    char name[64];
    int count = 0;
    snprintf(name, sizeof name, "/proc/%d/fd", (int)owner.id);
    DIR *directory = opendir(name);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void run_round(long round) {
    seed_round(round);
    uint32_t kind = chance(100);
    void (*function)(void) = kind < 20   ? noise
                             : kind < 40 ? lies
                             : kind < 65 ? damage
                             : kind < 92 ? storm
                             : kind < 95 ? deaf
                             : kind < 98 ? greedy
                                         : crowd;
    for (uint32_t i = function == deaf || function == greedy || function == crowd ? 1 : 1 + chance(12); i > 0; i--)
        function();
    double took = ask(honest, 'h');
    if (took > longest_seconds)
        longest_seconds = took;
    CHECK(took < SERVED_SECONDS_MAX);
    CHECK(waitpid(owner.id, NULL, WNOHANG) == 0);
}

int main(void) {
    const char *given = getenv("KEEL_ROUNDS");
    long rounds = given ? atol(given) : 150;
    make_scratch();
    signal(SIGPIPE, SIG_IGN);
    owner = start_process(own);
    (void)ask(owner, 'o');
    honest = start_process(be_honest);
    (void)ask(honest, 'h');
    int descriptors = owner_descriptors();
    long warm_bytes = 0;
    for (long round = 0; round < rounds; round++) {
        run_round(round);
        if (round == rounds / 2)
            warm_bytes = owner_bytes();
    }
    long grown = owner_bytes() - warm_bytes;
    printf("%ld rounds: %ld connections were closed by the owner, %ld were not; longest wait of the honest client %.3f s; "
           "memory of the owner %.1f MB at half time, %+.1f MB since\n",
           rounds, violated, survived, longest_seconds, (double)warm_bytes / 1048576, (double)grown / 1048576);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
    CHECK(grown < GROWTH_BYTES_MAX);
#endif
    CHECK(rounds < 100 || (violated > 0 && survived > 0));
    for (int wait = 0; wait < 2000 && owner_descriptors() > descriptors + DEAF_KEPT; wait++)
        usleep(10000);
    CHECK(owner_descriptors() <= descriptors + DEAF_KEPT);
    protocol_free(&out);
    end_process(honest);
    end_process(owner);
    remove_scratch();
    printf("4 passed, 0 failed\n"); /* served each time; bounded memory; descriptors given back; a clean end */
    return 0;
}
