/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's messages: taken apart, checked, done, answered. Each is a function of a few lines over
 * the one in src/txn/transaction.h that bears its name.
 *
 *   1. A message is read to its end before anything is done for it; one that is cut short, or names a
 *      transaction that is not there, ends the session (session_violation).
 *   2. What only a program can do wrong (a key too long, a range inverted) is src/txn's business and
 *      answered as ever.
 *   3. Every request is answered once: at once, or through a `late`.
 *
 * Failure: where memory is out the output buffer is marked, and the session ends when it is sent.
 */
#include "remote/server_internal.h"

#include "util/memory.h"

/* ---- Answers ---- */

static uint8_t *answer(struct session *session, enum protocol_answer type, uint32_t request, size_t size) {
    uint8_t *to = protocol_reserve(&session->output, 5 + size);
    if (!to)
        return NULL;
    return protocol_u32(protocol_u8(to, type), request);
}

static void answer_error(struct session *session, uint32_t request, fdb_error_t error) {
    uint8_t *to = answer(session, ANSWER_ERROR, request, 4);
    if (to)
        protocol_u32(to, (uint32_t)error);
}

static void answer_int64(struct session *session, uint32_t request, fdb_error_t error, int64_t number) {
    if (error) {
        answer_error(session, request, error);
        return;
    }
    uint8_t *to = answer(session, ANSWER_INT64, request, 8);
    if (to)
        protocol_i64(to, number);
}

static void answer_bytes(struct session *session, enum protocol_answer type, uint32_t request, struct bytes bytes) {
    uint8_t *to = answer(session, type, request, 4 + bytes.length);
    if (to)
        protocol_bytes(to, bytes);
}

static void answer_rows(struct session *session, uint32_t request, const struct rows *rows, bool more) {
    size_t size = 5 + rows->bytes + 8 * (size_t)rows->count;
    if (size + protocol_open_bytes(&session->output) > PROTOCOL_ANSWER_BYTES_MAX - 64) {
        answer_error(session, request, ERROR_LARGE_ALLOC_FAILED);
        return;
    }
    uint8_t *to = answer(session, ANSWER_ROWS, request, size);
    if (!to)
        return;
    to = protocol_u32(protocol_u8(to, more), (uint32_t)rows->count);
    for (int i = 0; i < rows->count; i++)
        to = protocol_bytes(protocol_bytes(to, rows_key(rows, i)), rows_value(rows, i));
}

static void answer_keys(struct session *session, uint32_t request, const struct rows *rows) {
    size_t size = 4;
    for (int i = 0; i < rows->count; i++)
        size += 4 + rows_key(rows, i).length;
    uint8_t *to = answer(session, ANSWER_KEYS, request, size);
    if (!to)
        return;
    to = protocol_u32(to, (uint32_t)rows->count);
    for (int i = 0; i < rows->count; i++)
        to = protocol_bytes(to, rows_key(rows, i));
}

static void answer_strings(struct session *session, uint32_t request, const char **strings, int count) {
    size_t size = 4;
    for (int i = 0; i < count; i++)
        size += 4 + strlen(strings[i]);
    uint8_t *to = answer(session, ANSWER_STRINGS, request, size);
    if (!to)
        return;
    to = protocol_u32(to, (uint32_t)count);
    for (int i = 0; i < count; i++)
        to = protocol_bytes(to, bytes_make(strings[i], strlen(strings[i])));
}

static void answer_commit(struct session *session, uint32_t request, fdb_error_t error, const struct proxy_commit *result) {
    uint8_t *to = answer(session, ANSWER_COMMIT, request, 13 + sizeof result->stamp);
    if (!to)
        return;
    unsigned flags = (result->stamped ? COMMIT_STAMPED : 0) | (result->refused ? COMMIT_REFUSED : 0);
    to = protocol_i64(protocol_u8(protocol_u32(to, (uint32_t)error), flags), result->version);
    memcpy(to, result->stamp, sizeof result->stamp);
}

void session_answer_late(struct session *session, const struct late *late) {
    if (late->commits)
        answer_commit(session, late->request, late->error, &late->result);
    else if (late->error)
        answer_error(session, late->request, late->error);
    else
        (void)answer(session, ANSWER_NOTHING, late->request, 0);
    session_touch(session);
}

/* ---- The greeting ---- */

void server_send_refusal(struct os_socket *socket, fdb_error_t error, const char *why) {
    struct bytes text = bytes_make(why, strlen(why));
    struct protocol_buffer refusal = {0};
    uint8_t *to = protocol_reserve(&refusal, 9 + text.length);
    if (!to)
        return;
    protocol_bytes(protocol_u32(protocol_u8(to, ANSWER_REFUSED), (uint32_t)error), text);
    protocol_close_frame(&refusal);
    size_t sent;
    (void)os_socket_send(socket, refusal.data, refusal.length, &sent);
    protocol_free(&refusal);
}

static void refuse(struct session *session, fdb_error_t error, const char *why) {
    server_send_refusal(&session->socket, error, why);
    session_violation(session, why);
}

/* In a time that does not tell how much of it was right. */
static bool knows_secret(const struct session *session, struct bytes said) {
    const char *secret = session->listener->secret;
    size_t length = strlen(secret);
    unsigned different = said.length != length;
    for (size_t i = 0; i < length; i++)
        different |= (unsigned)(uint8_t)secret[i] ^ (i < said.length ? said.data[i] : 0u);
    return length == 0 || different == 0;
}

static void hello(struct session *session, struct protocol_reader *reader) {
    uint32_t magic = protocol_get_u32(reader), lowest = protocol_get_u32(reader), highest = protocol_get_u32(reader);
    uint32_t api_version = protocol_get_u32(reader), process = protocol_get_u32(reader);
    struct bytes secret = protocol_get_bytes(reader, PROTOCOL_SECRET_BYTES_MAX);
    if (reader->bad || magic != PROTOCOL_MAGIC || session->greeted) {
        session_violation(session, "its greeting makes no sense");
        return;
    }
    if (!session->process)
        session->process = (int)process;
    if (lowest > PROTOCOL_VERSION || highest < PROTOCOL_VERSION) {
        refuse(session, ERROR_DATABASE_IN_USE, "it speaks another version of the protocol");
        return;
    }
    if (!knows_secret(session, secret)) {
        refuse(session, ERROR_PERMISSION_DENIED, "it does not know the secret of this server");
        return;
    }
    if (api_version < 510 || api_version > 10000) {
        refuse(session, ERROR_API_VERSION_NOT_SUPPORTED, "its API version is not supported");
        return;
    }
    session->greeted = true;
    session->api_version = (int)api_version;
    uint8_t *to = protocol_reserve(&session->output, 13);
    if (to)
        protocol_u32(protocol_u32(protocol_u32(protocol_u8(to, ANSWER_WELCOME), PROTOCOL_MAGIC), PROTOCOL_VERSION),
                     (uint32_t)os_process());
}

/* ---- Databases ---- */

/* Grows an array of `size`-byte elements to hold `index`; new ones are zero. */
static bool grow(void *array, size_t size, size_t *capacity, size_t index) {
    if (index < *capacity)
        return true;
    size_t count = index < 8 ? 8 : (index + 1) * 2;
    void **place = array;
    uint8_t *grown = memory_resize(*place, count * size);
    if (!grown)
        return false;
    memset(grown + *capacity * size, 0, (count - *capacity) * size);
    *place = grown;
    *capacity = count;
    return true;
}

static struct database_handle *find_database(struct session *session, uint32_t number) {
    return number < session->database_capacity ? session->databases[number] : NULL;
}

static bool copy_text(struct bytes text, char copy[5000]) {
    if (text.length >= 5000)
        return false;
    if (text.length)
        memcpy(copy, text.data, text.length);
    copy[text.length] = 0;
    return true;
}

static void open_database(struct session *session, struct protocol_reader *reader) {
    uint32_t number = protocol_get_u32(reader);
    char path[5000], connection[5000];
    bool fits = copy_text(protocol_get_bytes(reader, 4999), path);
    fits = copy_text(protocol_get_bytes(reader, 4999), connection) && fits;
    if (reader->bad || !fits || number >= PROTOCOL_DATABASES_MAX || find_database(session, number)) {
        session_violation(session, "it opens a database that makes no sense");
        return;
    }
    struct remote_server *server = session->server;
    struct database_handle *handle;
    if (!grow(&session->databases, sizeof *session->databases, &session->database_capacity, number) ||
        database_handle_create(server->database, session->api_version, path, connection, &handle)) {
        session_violation(session, "memory is out");
        return;
    }
    os_mutex_lock(&server->lock);
    server->handles++;
    os_mutex_unlock(&server->lock);
    database_handle_set_release(handle, server_handle_released, server);
    session->databases[number] = handle;
}

/* An option as transactions and databases take it. */
struct option {
    int number;
    const uint8_t *value; /* NULL: none was given */
    int length;
};

static struct option get_option(struct protocol_reader *reader) {
    struct option option = {.number = protocol_get_i32(reader)};
    bool given = protocol_get_u8(reader) != 0;
    struct bytes value = protocol_get_bytes(reader, PROTOCOL_VALUE_BYTES_MAX);
    option.value = given ? (value.data ? value.data : (const uint8_t *)"") : NULL;
    option.length = given ? (int)value.length : 0;
    return option;
}

static void set_database_option(struct session *session, struct protocol_reader *reader) {
    struct database_handle *handle = find_database(session, protocol_get_u32(reader));
    struct option option = get_option(reader);
    if (reader->bad || !handle)
        session_violation(session, "it sets an option of no database");
    else
        (void)database_handle_set_option(handle, option.number, option.value, option.length);
}

static void close_database(struct session *session, struct protocol_reader *reader) {
    uint32_t number = protocol_get_u32(reader);
    struct database_handle *handle = find_database(session, number);
    if (reader->bad || !handle) {
        session_violation(session, "it closes no database");
        return;
    }
    session->databases[number] = NULL;
    database_handle_release(handle);
}

/* ---- Transactions: life ---- */

static void begin(struct session *session, struct protocol_reader *reader) {
    uint32_t number = protocol_get_u32(reader);
    struct database_handle *handle = find_database(session, protocol_get_u32(reader));
    bool taken = number < session->twin_capacity && session->twins[number].transaction;
    if (reader->bad || !handle || taken || number >= PROTOCOL_TRANSACTIONS_MAX) {
        session_violation(session, "it begins a transaction that makes no sense");
        return;
    }
    if (!grow(&session->twins, sizeof *session->twins, &session->twin_capacity, number) ||
        transaction_create(handle, &session->twins[number].transaction))
        session_violation(session, "memory is out");
    else
        server_count(&session->server->transactions, 1);
}

static void forget_bytes(struct session *session, struct twin *twin) {
    session->bytes_held -= twin->bytes_held;
    server_count(&session->server->bytes_held, -(uint64_t)twin->bytes_held);
    twin->bytes_held = 0;
}

static void destroy(struct session *session, struct twin *twin) {
    forget_bytes(session, twin);
    struct transaction *transaction = twin->transaction;
    twin->transaction = NULL;
    transaction_destroy(transaction);
    server_count(&session->server->transactions, (uint64_t)-1);
}

/* ---- Transactions: what is not answered ---- */

/* Whether the transaction may hold so much more; else its commit will say why. */
static bool hold(struct session *session, struct twin *twin, size_t bytes) {
    const struct server_limits *limits = &session->server->limits;
    if (twin->bytes_held + bytes > limits->transaction_bytes_held || session->bytes_held + bytes > limits->session_bytes_held) {
        transaction_defer_error(twin->transaction, ERROR_TRANSACTION_TOO_LARGE);
        return false;
    }
    twin->bytes_held += bytes;
    session->bytes_held += bytes;
    server_count(&session->server->bytes_held, bytes);
    return true;
}

static void write_pair(struct session *session, struct twin *twin, enum protocol_question type,
                       struct protocol_reader *reader) {
    enum { OVERHEAD = 64 }; /* what src/txn needs about a write, roughly */
    bool typed = type == ASK_ATOMIC || type == ASK_CONFLICT_RANGE;
    int kind = typed ? protocol_get_i32(reader) : 0;
    struct bytes first = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX), second = {NULL, 0};
    if (type != ASK_CLEAR)
        second = protocol_get_bytes(reader, PROTOCOL_VALUE_BYTES_MAX);
    if (reader->bad || !hold(session, twin, first.length + second.length + OVERHEAD))
        return;
    if (type == ASK_SET)
        transaction_set(twin->transaction, first, second);
    else if (type == ASK_CLEAR)
        transaction_clear(twin->transaction, first);
    else if (type == ASK_CLEAR_RANGE)
        transaction_clear_range(twin->transaction, first, second);
    else if (type == ASK_ATOMIC)
        transaction_atomic_op(twin->transaction, first, second, kind);
    else
        (void)transaction_add_conflict_range(twin->transaction, first, second, kind);
}

static void set_option(struct twin *twin, struct protocol_reader *reader) {
    struct option option = get_option(reader);
    if (!reader->bad)
        (void)transaction_set_option(twin->transaction, option.number, option.value, option.length);
}

static void set_read_version(struct twin *twin, struct protocol_reader *reader) {
    int64_t version = protocol_get_i64(reader);
    if (!reader->bad)
        (void)transaction_set_read_version(twin->transaction, version);
}

/* ---- Transactions: requests ---- */

static void get(struct session *session, struct twin *twin, uint32_t request, struct protocol_reader *reader) {
    bool snapshot = protocol_get_u8(reader) != 0, present = false;
    struct bytes key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX), value;
    if (reader->bad)
        return;
    struct arena *arena = &session->server->arena;
    fdb_error_t error = transaction_get(twin->transaction, key, snapshot, arena, &value, &present);
    if (error)
        answer_error(session, request, error);
    else if (present)
        answer_bytes(session, ANSWER_VALUE, request, value);
    else
        (void)answer(session, ANSWER_ABSENT, request, 0);
    arena_reset(arena);
}

static struct key_selector get_selector(struct protocol_reader *reader) {
    struct key_selector selector;
    selector.or_equal = protocol_get_u8(reader) != 0;
    selector.offset = protocol_get_i32(reader);
    selector.key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    return selector;
}

static void get_key(struct session *session, struct twin *twin, uint32_t request, struct protocol_reader *reader) {
    bool snapshot = protocol_get_u8(reader) != 0;
    struct key_selector selector = get_selector(reader);
    struct bytes key;
    if (reader->bad)
        return;
    struct arena *arena = &session->server->arena;
    fdb_error_t error = transaction_get_key(twin->transaction, selector, snapshot, arena, &key);
    if (error)
        answer_error(session, request, error);
    else
        answer_bytes(session, ANSWER_KEY, request, key);
    arena_reset(arena);
}

/* What a large answer needed is given back. */
static void clear_rows(struct rows *rows) {
    if (rows->bytes > 1024 * 1024)
        rows_free(rows);
    else
        rows_clear(rows);
}

static void get_range(struct session *session, struct twin *twin, uint32_t request, struct protocol_reader *reader) {
    struct range_arguments arguments = {0};
    arguments.snapshot = protocol_get_u8(reader) != 0;
    arguments.reverse = protocol_get_u8(reader) != 0;
    arguments.limit = protocol_get_i32(reader);
    arguments.target_bytes = protocol_get_i32(reader);
    arguments.mode = protocol_get_i32(reader);
    arguments.iteration = protocol_get_i32(reader);
    arguments.begin = get_selector(reader);
    arguments.end = get_selector(reader);
    if (reader->bad)
        return;
    struct rows *rows = &session->server->rows;
    bool more = false;
    fdb_error_t error = transaction_get_range(twin->transaction, &arguments, rows, &more);
    if (error)
        answer_error(session, request, error);
    else
        answer_rows(session, request, rows, more);
    clear_rows(rows);
}

static void get_estimated_size(struct session *session, struct twin *twin, uint32_t request,
                               struct protocol_reader *reader) {
    struct bytes begin_key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    struct bytes end_key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    int64_t bytes = 0;
    if (reader->bad)
        return;
    fdb_error_t error = transaction_get_estimated_range_size(twin->transaction, begin_key, end_key, &bytes);
    answer_int64(session, request, error, bytes);
}

static void get_split_points(struct session *session, struct twin *twin, uint32_t request,
                             struct protocol_reader *reader) {
    struct bytes begin_key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    struct bytes end_key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    int64_t chunk_bytes = protocol_get_i64(reader);
    if (reader->bad)
        return;
    struct rows *rows = &session->server->rows;
    fdb_error_t error = transaction_get_range_split_points(twin->transaction, begin_key, end_key, chunk_bytes, rows);
    if (error)
        answer_error(session, request, error);
    else
        answer_keys(session, request, rows);
    clear_rows(rows);
}

static void get_addresses(struct session *session, struct twin *twin, uint32_t request, struct protocol_reader *reader) {
    struct bytes key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    const char **addresses;
    int count;
    if (reader->bad)
        return;
    struct arena *arena = &session->server->arena;
    fdb_error_t error = transaction_get_addresses_for_key(twin->transaction, key, arena, &addresses, &count);
    if (error)
        answer_error(session, request, error);
    else
        answer_strings(session, request, addresses, count);
    arena_reset(arena);
}

static void get_number(struct session *session, struct twin *twin, enum protocol_question type, uint32_t request) {
    int64_t number = 0;
    fdb_error_t error = type == ASK_GET_READ_VERSION ? transaction_get_read_version(twin->transaction, &number)
                                                     : transaction_get_approximate_size(twin->transaction, &number);
    answer_int64(session, request, error, number);
}

/* ---- Requests that are answered later ---- */

static struct late *make_late(struct session *session, struct twin *twin, uint32_t request) {
    bool taken = request < session->late_capacity && session->late_of[request];
    if (taken || request >= PROTOCOL_REQUESTS_MAX) {
        session_violation(session, "a request's number makes no sense");
        return NULL;
    }
    struct late *late = memory_allocate_zeroed(sizeof *late);
    if (!late || !grow(&session->late_of, sizeof *session->late_of, &session->late_capacity, request)) {
        memory_free(late);
        session_violation(session, "memory is out");
        return NULL;
    }
    session->late_of[request] = late;
    late->completion.done = server_late_done;
    late->server = session->server;
    late->session = session;
    late->transaction = twin->transaction;
    late->request = request;
    transaction_retain(twin->transaction);
    server_count(&session->server->waiting, 1);
    late->next = session->lates;
    if (late->next)
        late->next->previous = late;
    session->lates = late;
    return late;
}

static void commit(struct session *session, struct twin *twin, uint32_t request) {
    fdb_error_t refusal = transaction_deferred_error(twin->transaction);
    if (refusal) {
        answer_commit(session, request, refusal, &(struct proxy_commit){.refused = true});
        return;
    }
    struct late *late = make_late(session, twin, request);
    if (!late)
        return;
    late->commits = true;
    session->server->commits_started = true;
    transaction_commit(twin->transaction, &late->completion);
}

static void watch(struct session *session, struct twin *twin, uint32_t request, struct protocol_reader *reader) {
    struct bytes key = protocol_get_bytes(reader, PROTOCOL_KEY_BYTES_MAX);
    struct late *late = reader->bad ? NULL : make_late(session, twin, request);
    if (late)
        transaction_watch(twin->transaction, key, &late->completion);
}

static void cancel(struct session *session, struct protocol_reader *reader) {
    uint32_t request = protocol_get_u32(reader);
    if (reader->bad)
        return;
    struct late *late = request < session->late_capacity ? session->late_of[request] : NULL;
    if (late && !late->commits)
        (void)transaction_cancel_completion(&late->completion);
}

/* ---- Telling them apart ---- */

static void run_request(struct session *session, struct twin *twin, enum protocol_question type,
                        struct protocol_reader *reader) {
    uint32_t request = protocol_get_u32(reader);
    if (reader->bad)
        return;
    atomic_fetch_add_explicit(&session->server->requests_total, 1, memory_order_relaxed);
    switch (type) {
    case ASK_GET: get(session, twin, request, reader); break;
    case ASK_GET_KEY: get_key(session, twin, request, reader); break;
    case ASK_GET_RANGE: get_range(session, twin, request, reader); break;
    case ASK_COMMIT: commit(session, twin, request); break;
    case ASK_WATCH: watch(session, twin, request, reader); break;
    case ASK_GET_READ_VERSION:
    case ASK_APPROXIMATE_SIZE: get_number(session, twin, type, request); break;
    case ASK_ESTIMATED_SIZE: get_estimated_size(session, twin, request, reader); break;
    case ASK_SPLIT_POINTS: get_split_points(session, twin, request, reader); break;
    case ASK_ADDRESSES: get_addresses(session, twin, request, reader); break;
    default: reader->bad = true; break;
    }
}

static void run_for_transaction(struct session *session, enum protocol_question type, struct protocol_reader *reader) {
    uint32_t number = protocol_get_u32(reader);
    struct twin *twin = number < session->twin_capacity ? &session->twins[number] : NULL;
    if (reader->bad || !twin || !twin->transaction) {
        session_violation(session, "it names no transaction");
        return;
    }
    switch (type) {
    case ASK_DESTROY: destroy(session, twin); break;
    case ASK_RESET:
        forget_bytes(session, twin);
        transaction_reset(twin->transaction);
        break;
    case ASK_OPTION: set_option(twin, reader); break;
    case ASK_SET_READ_VERSION: set_read_version(twin, reader); break;
    case ASK_SET:
    case ASK_CLEAR:
    case ASK_CLEAR_RANGE:
    case ASK_ATOMIC:
    case ASK_CONFLICT_RANGE: write_pair(session, twin, type, reader); break;
    default: run_request(session, twin, type, reader); break;
    }
}

static void run_message(struct session *session, struct protocol_reader *reader) {
    enum protocol_question type = (enum protocol_question)protocol_get_u8(reader);
    if (!session->greeted && type != ASK_HELLO) {
        session_violation(session, "it said no hello");
        return;
    }
    switch (type) {
    case ASK_HELLO: hello(session, reader); break;
    case ASK_PING: {
        uint8_t *to = protocol_reserve(&session->output, 1);
        if (to)
            protocol_u8(to, ANSWER_PONG);
        break;
    }
    case ASK_CANCEL: cancel(session, reader); break;
    case ASK_DATABASE: open_database(session, reader); break;
    case ASK_DATABASE_OPTION: set_database_option(session, reader); break;
    case ASK_DATABASE_CLOSE: close_database(session, reader); break;
    case ASK_BEGIN: begin(session, reader); break;
    default: run_for_transaction(session, type, reader); break;
    }
}

void session_run_frame(struct session *session) {
    struct protocol_reader *reader = &session->frame;
    while (reader->next < reader->end && !session->ending && !session_output_is_full(session)) {
        run_message(session, reader);
        if (reader->bad)
            session_violation(session, "a message makes no sense");
    }
    session_touch(session);
}

/* ---- The end ---- */

void session_release(struct session *session) {
    for (struct late *late = session->lates, *next; late; late = next) {
        next = late->next;
        late->session = NULL; /* before the cancel, which may answer it at once */
        late->previous = late->next = NULL;
        (void)transaction_cancel_completion(&late->completion);
    }
    session->lates = NULL;
    for (size_t i = 0; i < session->twin_capacity; i++)
        if (session->twins[i].transaction)
            destroy(session, &session->twins[i]);
    for (size_t i = 0; i < session->database_capacity; i++)
        if (session->databases[i])
            database_handle_release(session->databases[i]);
    memory_free(session->late_of);
    memory_free(session->twins);
    memory_free(session->databases);
}
