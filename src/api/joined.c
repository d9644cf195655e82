/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions on a database that another process owns: the methods that answer for them
 * (api/foreign.h). A transaction is in two places:
 *
 *     here    a proxy (txn/proxy.c): options, timeouts, retries, order of errors, whoever waits
 *     there   its twin: reads, writes, conflicts, the commit
 *
 * A call is admitted by the proxy, then sent to the twin (remote/client.h); its future is pending and
 * is answered by whichever comes first, the twin's answer or the end the proxy gives it (cancel,
 * reset, timeout). A set or clear is only appended to what will be sent: it costs a copy, and a
 * transaction that only writes is one message there and one back.
 *
 *   1. The future of a request has a `call` in its own storage, and a reference that belongs to the
 *      call: it is given back when the request is answered, which the client does exactly once.
 *   2. A future's result is filled in only by who has claimed its completion.
 *   3. A write that could not be sent makes every later call fail with the reason until the
 *      transaction begins anew: nothing is committed without it.
 *
 * A transaction that asked for nothing but reads, of which none failed, commits here, without asking.
 *
 * Threads: any. Locks: the proxy's and the client's, one after the other; the client's is held
 * between message_begin and message_end only.
 */
#include "api/joined.h"

#include "api/foreign.h"
#include "api/handles.h"
#include "api/place.h"
#include "util/memory.h"

struct call {
    struct remote_request request;
    FDBFuture *future;
    uint64_t round;
    int limit;     /* of split points; -1: none */
    _Atomic bool answered; /* by the twin, or by the client in its place */
};

static inline struct remote_twin *twin_of(FDBTransaction *tr) {
    return transaction_extra(handles_transaction(tr));
}

static struct call *call_of(FDBFuture *future) {
    return (struct call *)(void *)(future + 1); /* the first thing in its storage: see make_call */
}

static FDBFuture *misuse(void) {
    return future_create_failed(ERROR_CLIENT_INVALID_OPERATION);
}

/* ---- Waiting ---- */

static bool drive(FDBFuture *future) {
    struct transaction *transaction = future->tail.pending.transaction;
    struct call *call = call_of(future);
    int64_t deadline_us = transaction_deadline(transaction);
    if (!remote_request_drive(transaction_extra(transaction), &call->request, deadline_us))
        return false;
    if (deadline_us && !future_is_ready(future))
        transaction_expire(transaction);
    return true;
}

static void hurry(FDBFuture *future) {
    remote_request_hurry(transaction_extra(future->tail.pending.transaction), &call_of(future)->request);
}

static const struct future_driver request_driver = {drive, hurry};

/* A versionstamp comes with the answer to the commit, for which others wait. */
static void stamp_hurry(FDBFuture *future) {
    struct remote_twin *twin = transaction_extra(future->tail.pending.transaction);
    remote_client_push(twin->client);
}

static bool stamp_drive(FDBFuture *future) {
    stamp_hurry(future);
    return false;
}

static const struct future_driver stamp_driver = {stamp_drive, stamp_hurry};

static bool is_wanted(struct remote_request *request) {
    return !future_is_ready(((struct call *)(void *)request)->future);
}

static void nudge(struct remote_request *request) {
    future_nudge(((struct call *)(void *)request)->future);
}

/* ---- Results ---- */

static bool keep_bytes(FDBFuture *future, struct protocol_reader *body) {
    struct bytes bytes = protocol_get_bytes(body, SIZE_MAX);
    return !body->bad && arena_copy(&future->arena, bytes, &future->result.bytes);
}

/* The rows as they came, copied as a whole, with pointers into the copy. */
static bool keep_rows(FDBFuture *future, struct protocol_reader *body) {
    bool more = protocol_get_u8(body) != 0;
    uint32_t count = protocol_get_u32(body);
    const uint8_t *begin = body->next;
    for (uint32_t i = 0; i < 2 * (uint64_t)count && !body->bad; i++)
        (void)protocol_get_bytes(body, INT32_MAX);
    if (body->bad)
        return false;
    struct rows *rows = &future->result.rows;
    size_t length = (size_t)(body->next - begin);
    uint8_t *copy = length ? arena_allocate_bytes(&rows->arena, length) : NULL;
    rows->array = count ? memory_allocate(count * sizeof *rows->array) : NULL;
    if (count && (!copy || !rows->array))
        return false;
    if (length)
        memcpy(copy, begin, length);
    struct protocol_reader reader = {copy, copy + length, false};
    for (uint32_t i = 0; i < count; i++) {
        struct bytes key = protocol_get_bytes(&reader, INT32_MAX), value = protocol_get_bytes(&reader, INT32_MAX);
        rows->array[i] = (FDBKeyValue){key.data, (int)key.length, value.data, (int)value.length};
    }
    rows->count = rows->capacity = (int)count;
    future->more = more;
    return true;
}

static bool keep_keys(FDBFuture *future, struct protocol_reader *body, int limit) {
    uint32_t count = protocol_get_u32(body);
    struct rows *rows = &future->result.rows;
    for (uint32_t i = 0; i < count; i++) {
        struct bytes key = protocol_get_bytes(body, INT32_MAX);
        if (body->bad || !rows_append(rows, key, bytes_make(NULL, 0)))
            return false;
    }
    future_limit_split_points(rows, limit);
    future_keep_keys(future);
    return true;
}

static bool keep_strings(FDBFuture *future, struct protocol_reader *body) {
    uint32_t count = protocol_get_u32(body);
    if (count > 1000)
        return false;
    const char **array = arena_allocate(&future->arena, (count + 1) * sizeof *array);
    if (!array)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct bytes text = protocol_get_bytes(body, 4096);
        char *copy = arena_allocate_bytes(&future->arena, text.length + 1);
        if (body->bad || !copy)
            return false;
        memcpy(copy, text.data, text.length);
        copy[text.length] = 0;
        array[i] = copy;
    }
    future->result.strings.array = array;
    future->result.strings.count = (int)count;
    return true;
}

/* Takes the body into the future. False: it is not what was asked for, or memory is out. */
static bool keep(FDBFuture *future, enum protocol_answer type, struct protocol_reader *body, int limit) {
    switch (future->kind) {
    case FUTURE_NOTHING: return type == ANSWER_NOTHING;
    case FUTURE_INT64:
        future->result.int64 = protocol_get_i64(body);
        return type == ANSWER_INT64 && !body->bad;
    case FUTURE_VALUE:
        future->present = type == ANSWER_VALUE;
        return type == ANSWER_ABSENT || (type == ANSWER_VALUE && keep_bytes(future, body));
    case FUTURE_KEY: return type == ANSWER_KEY && keep_bytes(future, body);
    case FUTURE_ROWS: return type == ANSWER_ROWS && keep_rows(future, body);
    case FUTURE_KEYS: return type == ANSWER_KEYS && keep_keys(future, body, limit);
    case FUTURE_STRINGS: return type == ANSWER_STRINGS && keep_strings(future, body);
    default: return false;
    }
}

/* Passes over a body that nobody waits for any more. */
static bool skip(enum protocol_answer type, struct protocol_reader *body) {
    uint64_t pieces = 0;
    if (type == ANSWER_INT64)
        (void)protocol_get_i64(body);
    else if (type == ANSWER_VALUE || type == ANSWER_KEY)
        pieces = 1;
    else if (type == ANSWER_ROWS)
        (void)protocol_get_u8(body), pieces = 2 * (uint64_t)protocol_get_u32(body);
    else if (type == ANSWER_KEYS || type == ANSWER_STRINGS)
        pieces = protocol_get_u32(body);
    while (pieces-- && !body->bad)
        (void)protocol_get_bytes(body, SIZE_MAX);
    return !body->bad;
}

/* ---- Answers ---- */

static bool answered(struct remote_request *request, enum protocol_answer type, fdb_error_t error,
                     struct protocol_reader *body) {
    struct call *call = (struct call *)(void *)request;
    FDBFuture *future = call->future;
    bool good = true;
    call->answered = true;
    if (error && request->kind == REQUEST_READ)
        remote_twin_read_failed(transaction_extra(future->tail.pending.transaction), call->round);
    if (!transaction_proxy_claim(future_completion(future))) {
        good = skip(type, body);
    } else {
        if (!error)
            good = keep(future, type, body, call->limit);
        future_answer(future, good ? error : ERROR_TRANSACTION_TOO_OLD);
    }
    future_release(future);
    return good;
}

static bool commit_answered(struct remote_request *request, enum protocol_answer type, fdb_error_t error,
                            struct protocol_reader *body) {
    struct call *call = (struct call *)(void *)request;
    FDBFuture *future = call->future;
    struct transaction *transaction = future->tail.pending.transaction;
    struct proxy_commit result = {.version = -1};
    bool good = type == ANSWER_COMMIT || error;
    if (type == ANSWER_COMMIT) {
        error = protocol_get_i32(body);
        uint8_t flags = protocol_get_u8(body);
        result.version = protocol_get_i64(body);
        result.stamped = (flags & COMMIT_STAMPED) != 0;
        result.refused = (flags & COMMIT_REFUSED) != 0;
        good = protocol_has(body, sizeof result.stamp) && !body->bad;
    }
    if (good && type == ANSWER_COMMIT) {
        memcpy(result.stamp, body->next, sizeof result.stamp);
        body->next += sizeof result.stamp;
    }
    call->answered = true;
    transaction_proxy_committed(transaction, future_completion(future), call->round,
                                good ? error : ERROR_COMMIT_UNKNOWN_RESULT, &result);
    future_release(future);
    return good;
}

/* The proxy ends the future, or lets the commit's answer through. */
static void done(struct completion *completion, fdb_error_t error) {
    FDBFuture *future = future_of_completion(completion);
    struct call *call = call_of(future);
    struct remote_twin *twin = transaction_extra(future->tail.pending.transaction);
    struct remote_client *client = twin->client;
    bool alone = !call->answered;
    if (alone && call->request.kind == REQUEST_WATCH)
        remote_request_cancel(twin, &call->request);
    future_retain(future); /* it keeps the client */
    future_answer(future, error);
    if (alone)
        remote_client_interrupt(client); /* the thread that blocks on it may be waiting for the socket */
    future_release(future);
}

/* ---- Making calls ---- */

/* A pending future with its call. NULL: memory is out. */
static struct call *make_call(FDBTransaction *tr, enum future_kind kind, enum remote_request_kind request_kind) {
    FDBFuture *future = future_create_pending(kind, handles_transaction(tr));
    if (!future)
        return NULL;
    struct call *call = arena_allocate(&future->arena, sizeof *call); /* fits into its storage */
    call->request = (struct remote_request){.answered = request_kind == REQUEST_COMMIT ? commit_answered : answered,
                                            .is_wanted = is_wanted,
                                            .nudge = nudge,
                                            .kind = request_kind};
    call->future = future;
    call->limit = -1;
    call->round = 0;
    atomic_init(&call->answered, false);
    future_completion(future)->done = done;
    future->tail.pending.driver = &request_driver;
    return call;
}

/* Ends a call that was not sent. */
static void fail_call(struct call *call, bool admitted, fdb_error_t error) {
    FDBFuture *future = call->future;
    call->answered = true;
    if (!admitted || transaction_proxy_claim(future_completion(future)))
        future_answer(future, error);
}

/* Sends an admitted call: room for its fields, or NULL and it has been failed. */
static uint8_t *send_call(FDBTransaction *tr, struct call *call, enum protocol_question type, size_t size) {
    fdb_error_t error;
    future_retain(call->future); /* the call's own */
    uint8_t *to = remote_message_begin(twin_of(tr), call->round, type, &call->request, size, &error);
    if (!to) {
        fail_call(call, true, error);
        future_release(call->future);
    }
    return to;
}

/* Makes, admits and sends a read. *future is what to hand out, in any case. */
static uint8_t *start_read(FDBTransaction *tr, enum future_kind kind, enum proxy_call admission,
                           enum protocol_question type, size_t size, FDBFuture **future, struct call **made) {
    struct call *call = make_call(tr, kind, REQUEST_READ);
    if (!call) {
        *future = future_out_of_memory();
        return NULL;
    }
    *future = call->future;
    if (made)
        *made = call;
    fdb_error_t error =
        transaction_proxy_begin(handles_transaction(tr), admission, future_completion(*future), &call->round);
    if (error) {
        fail_call(call, false, error);
        return NULL;
    }
    return send_call(tr, call, type, size);
}

/* Sends what is not answered; what cannot be sent is kept as the transaction's error. */
static uint8_t *start_write(FDBTransaction *tr, uint64_t round, enum protocol_question type, size_t size) {
    fdb_error_t error;
    uint8_t *to = remote_message_begin(twin_of(tr), round, type, NULL, size, &error);
    if (!to)
        transaction_defer_error(handles_transaction(tr), error);
    return to;
}

/* No key or value is longer than this: a longer one is refused, or matches nothing, as well when it is cut. */
static struct bytes cut(const uint8_t *data, int length, int most) {
    return handles_bytes(data, length < most ? length : most);
}

static struct bytes cut_key(const uint8_t *data, int length) {
    return cut(data, length, PROTOCOL_KEY_BYTES_MAX);
}

/* ---- Life and options ---- */

static void joined_destroy(FDBTransaction *tr) {
    place_closing_begin();
    remote_twin_close(twin_of(tr));
    transaction_destroy(handles_transaction(tr));
    place_closing_end();
}

static void joined_cancel(FDBTransaction *tr) {
    transaction_cancel(handles_transaction(tr));
}

static void joined_reset(FDBTransaction *tr) {
    transaction_reset(handles_transaction(tr));
    remote_twin_reset(twin_of(tr), transaction_proxy_round(handles_transaction(tr)));
}

/* Options that are the proxy's alone. */
static bool stays_here(FDBTransactionOption option) {
    return option == FDB_TR_OPTION_TIMEOUT || option == FDB_TR_OPTION_RETRY_LIMIT || option == FDB_TR_OPTION_MAX_RETRY_DELAY;
}

static fdb_error_t joined_set_option(FDBTransaction *tr, FDBTransactionOption option, uint8_t const *value,
                                     int value_length) {
    if (value && value_length < 0)
        return ERROR_INVALID_OPTION_VALUE;
    int length = value ? value_length : 0;
    fdb_error_t error = transaction_set_option(handles_transaction(tr), (int)option, value, length);
    if (error || stays_here(option))
        return error;
    struct bytes bytes = cut(value, length, 4096); /* texts that long are for logs */
    uint64_t round = transaction_proxy_round(handles_transaction(tr));
    uint8_t *to = start_write(tr, round, ASK_OPTION, 9 + bytes.length);
    if (to) {
        protocol_bytes(protocol_u8(protocol_u32(to, (uint32_t)option), value != NULL), bytes);
        remote_message_end(twin_of(tr));
    }
    return 0;
}

/* ---- Reads ---- */

static void joined_set_read_version(FDBTransaction *tr, int64_t version) {
    uint64_t round = transaction_proxy_round(handles_transaction(tr));
    uint8_t *to = start_write(tr, round, ASK_SET_READ_VERSION, 8);
    if (to) {
        protocol_i64(to, version);
        remote_message_end(twin_of(tr));
    }
}

static FDBFuture *joined_get_read_version(FDBTransaction *tr) {
    FDBFuture *future;
    if (start_read(tr, FUTURE_INT64, PROXY_ASIDE, ASK_GET_READ_VERSION, 0, &future, NULL))
        remote_message_end(twin_of(tr));
    return future;
}

/* Questions to the client rather than to the data may be asked during a commit, too. */
static enum proxy_call admission_of(const uint8_t *key, int length) {
    return length >= 2 && key[0] == 0xff && key[1] == 0xff ? PROXY_ASIDE : PROXY_READ;
}

static FDBFuture *joined_get(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t snapshot) {
    if (!handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future;
    struct bytes bytes = cut_key(key, key_length);
    uint8_t *to = start_read(tr, FUTURE_VALUE, admission_of(key, key_length), ASK_GET, 5 + bytes.length, &future, NULL);
    if (to) {
        protocol_bytes(protocol_u8(to, snapshot != 0), bytes);
        remote_message_end(twin_of(tr));
    }
    return future;
}

static uint8_t *put_selector(uint8_t *to, struct bytes key, fdb_bool_t or_equal, int offset) {
    return protocol_bytes(protocol_u32(protocol_u8(to, or_equal != 0), (uint32_t)offset), key);
}

static FDBFuture *joined_get_key(FDBTransaction *tr, uint8_t const *key, int key_length, fdb_bool_t or_equal, int offset,
                                 fdb_bool_t snapshot) {
    if (!handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future;
    struct bytes bytes = cut_key(key, key_length);
    uint8_t *to = start_read(tr, FUTURE_KEY, PROXY_READ, ASK_GET_KEY, 10 + bytes.length, &future, NULL);
    if (to) {
        put_selector(protocol_u8(to, snapshot != 0), bytes, or_equal, offset);
        remote_message_end(twin_of(tr));
    }
    return future;
}

static FDBFuture *joined_get_addresses_for_key(FDBTransaction *tr, uint8_t const *key, int key_length) {
    if (!handles_are_bytes(key, key_length))
        return misuse();
    FDBFuture *future;
    struct bytes bytes = cut_key(key, key_length);
    uint8_t *to = start_read(tr, FUTURE_STRINGS, PROXY_READ, ASK_ADDRESSES, 4 + bytes.length, &future, NULL);
    if (to) {
        protocol_bytes(to, bytes);
        remote_message_end(twin_of(tr));
    }
    return future;
}

static FDBFuture *joined_get_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, fdb_bool_t begin_or_equal,
                                   int begin_offset, uint8_t const *end, int end_length, fdb_bool_t end_or_equal,
                                   int end_offset, int limit, int target_bytes, FDBStreamingMode mode, int iteration,
                                   fdb_bool_t snapshot, fdb_bool_t reverse) {
    if (!handles_are_bytes(begin, begin_length) || !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future;
    struct bytes first = cut_key(begin, begin_length), last = cut_key(end, end_length);
    enum proxy_call admission = admission_of(begin, begin_length);
    uint8_t *to = start_read(tr, FUTURE_ROWS, admission, ASK_GET_RANGE, 36 + first.length + last.length, &future, NULL);
    if (!to)
        return future;
    to = protocol_u8(protocol_u8(to, snapshot != 0), reverse != 0);
    to = protocol_u32(protocol_u32(to, (uint32_t)limit), (uint32_t)target_bytes);
    to = protocol_u32(protocol_u32(to, (uint32_t)mode), (uint32_t)iteration);
    put_selector(put_selector(to, first, begin_or_equal, begin_offset), last, end_or_equal, end_offset);
    remote_message_end(twin_of(tr));
    return future;
}

static FDBFuture *joined_get_estimated_range_size_bytes(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                        uint8_t const *end, int end_length) {
    if (!handles_are_bytes(begin, begin_length) || !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future;
    struct bytes first = cut_key(begin, begin_length), last = cut_key(end, end_length);
    uint8_t *to =
        start_read(tr, FUTURE_INT64, PROXY_READ, ASK_ESTIMATED_SIZE, 8 + first.length + last.length, &future, NULL);
    if (to) {
        protocol_bytes(protocol_bytes(to, first), last);
        remote_message_end(twin_of(tr));
    }
    return future;
}

static FDBFuture *joined_get_range_split_points_with_limit(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                           uint8_t const *end, int end_length, int64_t chunk_size,
                                                           int limit) {
    if (!handles_are_bytes(begin, begin_length) || !handles_are_bytes(end, end_length))
        return misuse();
    FDBFuture *future;
    struct call *call;
    struct bytes first = cut_key(begin, begin_length), last = cut_key(end, end_length);
    uint8_t *to =
        start_read(tr, FUTURE_KEYS, PROXY_READ, ASK_SPLIT_POINTS, 16 + first.length + last.length, &future, &call);
    if (to) {
        protocol_i64(protocol_bytes(protocol_bytes(to, first), last), chunk_size);
        call->limit = limit; /* under the client's lock: nobody can answer before it is given back */
        remote_message_end(twin_of(tr));
    }
    return future;
}

static FDBFuture *joined_get_range_split_points(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                                uint8_t const *end, int end_length, int64_t chunk_size) {
    return joined_get_range_split_points_with_limit(tr, begin, begin_length, end, end_length, chunk_size, -1);
}

static FDBFuture *joined_get_approximate_size(FDBTransaction *tr) {
    FDBFuture *future;
    if (start_read(tr, FUTURE_INT64, PROXY_SIZE, ASK_APPROXIMATE_SIZE, 0, &future, NULL))
        remote_message_end(twin_of(tr));
    return future;
}

static FDBFuture *joined_get_tag_throttled_duration(FDBTransaction *tr) {
    (void)tr;
    FDBFuture *future = future_create_ready(FUTURE_DOUBLE);
    if (!future)
        return future_out_of_memory();
    future->result.real = 0;
    return future;
}

static FDBFuture *joined_get_total_cost(FDBTransaction *tr) {
    (void)tr;
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    if (!future)
        return future_out_of_memory();
    future->result.int64 = 0;
    return future;
}

/* ---- Writes ---- */

/* Two byte strings behind an optional number; misuse and what cannot be sent are kept for the commit. */
static void write_pair(FDBTransaction *tr, enum protocol_question type, const int *number, const uint8_t *first,
                       int first_length, const uint8_t *second, int second_length) {
    struct transaction *transaction = handles_transaction(tr);
    if (!handles_are_bytes(first, first_length) || !handles_are_bytes(second, second_length)) {
        transaction_defer_error(transaction, ERROR_CLIENT_INVALID_OPERATION);
        return;
    }
    uint64_t round;
    if (!transaction_proxy_write(transaction, &round))
        return;
    bool single = type == ASK_CLEAR;
    struct bytes one = cut_key(first, first_length);
    struct bytes two = cut(second, second_length, type == ASK_SET || type == ASK_ATOMIC ? PROTOCOL_VALUE_BYTES_MAX
                                                                                        : PROTOCOL_KEY_BYTES_MAX);
    size_t size = (number ? 4u : 0u) + 4 + one.length + (single ? 0 : 4 + two.length);
    uint8_t *to = start_write(tr, round, type, size);
    if (!to)
        return;
    if (number)
        to = protocol_u32(to, (uint32_t)*number);
    to = protocol_bytes(to, one);
    if (!single)
        protocol_bytes(to, two);
    remote_message_end(twin_of(tr));
}

static void joined_set(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *value, int value_length) {
    write_pair(tr, ASK_SET, NULL, key, key_length, value, value_length);
}

static void joined_atomic_op(FDBTransaction *tr, uint8_t const *key, int key_length, uint8_t const *param,
                             int param_length, FDBMutationType operation_type) {
    int number = (int)operation_type;
    write_pair(tr, ASK_ATOMIC, &number, key, key_length, param, param_length);
}

static void joined_clear(FDBTransaction *tr, uint8_t const *key, int key_length) {
    write_pair(tr, ASK_CLEAR, NULL, key, key_length, NULL, 0);
}

static void joined_clear_range(FDBTransaction *tr, uint8_t const *begin, int begin_length, uint8_t const *end,
                               int end_length) {
    write_pair(tr, ASK_CLEAR_RANGE, NULL, begin, begin_length, end, end_length);
}

/* The proxy keeps the range, too: that is how it is checked. */
static fdb_error_t joined_add_conflict_range(FDBTransaction *tr, uint8_t const *begin, int begin_length,
                                             uint8_t const *end, int end_length, FDBConflictRangeType type) {
    if (!handles_are_bytes(begin, begin_length) || !handles_are_bytes(end, end_length))
        return ERROR_CLIENT_INVALID_OPERATION;
    struct bytes first = handles_bytes(begin, begin_length), last = handles_bytes(end, end_length);
    fdb_error_t error = transaction_add_conflict_range(handles_transaction(tr), first, last, (int)type);
    if (error)
        return error;
    int number = (int)type;
    write_pair(tr, ASK_CONFLICT_RANGE, &number, begin, begin_length, end, end_length);
    return 0;
}

/* ---- What is answered later in an embedded database, too ---- */

static FDBFuture *joined_commit(FDBTransaction *tr) {
    struct transaction *transaction = handles_transaction(tr);
    struct call *call = make_call(tr, FUTURE_NOTHING, REQUEST_COMMIT);
    if (!call)
        return future_out_of_memory();
    FDBFuture *future = call->future;
    fdb_error_t error = transaction_proxy_commit(transaction, future_completion(future), &call->round);
    if (error) {
        fail_call(call, false, error);
        return future;
    }
    uint8_t *to = NULL;
    future_retain(future);
    if (!remote_twin_is_read_only(twin_of(tr), call->round))
        to = remote_message_begin(twin_of(tr), call->round, ASK_COMMIT, &call->request, 0, &error);
    if (to) {
        remote_message_end(twin_of(tr));
        return future;
    }
    call->answered = true;
    transaction_proxy_committed(transaction, future_completion(future), call->round, error,
                                &(struct proxy_commit){.version = -1});
    future_release(future);
    return future;
}

static FDBFuture *joined_watch(FDBTransaction *tr, uint8_t const *key, int key_length) {
    if (!handles_are_bytes(key, key_length))
        return misuse();
    struct call *call = make_call(tr, FUTURE_NOTHING, REQUEST_WATCH);
    if (!call)
        return future_out_of_memory();
    FDBFuture *future = call->future;
    fdb_error_t error =
        transaction_proxy_watch(handles_transaction(tr), future_completion(future), &call->round);
    if (error) {
        fail_call(call, false, error);
        return future;
    }
    struct bytes bytes = cut_key(key, key_length);
    uint8_t *to = send_call(tr, call, ASK_WATCH, 4 + bytes.length);
    if (to) {
        protocol_bytes(to, bytes);
        remote_message_end(twin_of(tr));
    }
    return future;
}

static fdb_error_t joined_get_committed_version(FDBTransaction *tr, int64_t *out_version) {
    if (!out_version)
        return ERROR_CLIENT_INVALID_OPERATION;
    return transaction_get_committed_version(handles_transaction(tr), out_version);
}

static FDBFuture *joined_get_versionstamp(FDBTransaction *tr) {
    FDBFuture *future = future_create_pending(FUTURE_KEY, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    future->tail.pending.driver = &stamp_driver;
    transaction_get_versionstamp(handles_transaction(tr), future_versionstamp_completion(future));
    return future;
}

static FDBFuture *joined_on_error(FDBTransaction *tr, fdb_error_t error) {
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, handles_transaction(tr));
    if (!future)
        return future_out_of_memory();
    transaction_on_error(handles_transaction(tr), error, future_completion(future));
    return future;
}

/* ---- All of them ---- */

static const struct foreign_transaction_methods methods = {
    .destroy = joined_destroy,
    .cancel = joined_cancel,
    .reset = joined_reset,
    .set_option = joined_set_option,
    .set_read_version = joined_set_read_version,
    .get_read_version = joined_get_read_version,
    .get = joined_get,
    .get_key = joined_get_key,
    .get_addresses_for_key = joined_get_addresses_for_key,
    .get_range = joined_get_range,
    .set = joined_set,
    .atomic_op = joined_atomic_op,
    .clear = joined_clear,
    .clear_range = joined_clear_range,
    .add_conflict_range = joined_add_conflict_range,
    .watch = joined_watch,
    .commit = joined_commit,
    .get_committed_version = joined_get_committed_version,
    .get_versionstamp = joined_get_versionstamp,
    .get_approximate_size = joined_get_approximate_size,
    .get_estimated_range_size_bytes = joined_get_estimated_range_size_bytes,
    .get_range_split_points = joined_get_range_split_points,
    .get_range_split_points_with_limit = joined_get_range_split_points_with_limit,
    .get_tag_throttled_duration = joined_get_tag_throttled_duration,
    .get_total_cost = joined_get_total_cost,
    .on_error = joined_on_error,
};

fdb_error_t joined_create_transaction(struct database_handle *handle, struct remote_database *database,
                                      FDBTransaction **out_transaction) {
    struct transaction *transaction;
    fdb_error_t error = transaction_create_proxy(handle, &methods, sizeof(struct remote_twin), &transaction);
    if (error)
        return error;
    error = remote_twin_open(database, transaction_extra(transaction));
    if (error) {
        transaction_destroy(transaction);
        return error;
    }
    *out_transaction = handles_from_transaction(transaction);
    return 0;
}
