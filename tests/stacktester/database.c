/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions on the database: reads, writes, conflict ranges, versions, commits. Each collects
 * its arguments in a `request` and has a function of type keel_function that performs the request
 * on a transaction; an ordinary instruction calls it on the current transaction, _DATABASE and
 * _TENANT run it in a retry loop.
 *
 * Futures: GET, ON_ERROR, COMMIT and GET_VERSIONSTAMP push the future itself. The other reads wait,
 * since what they push is made of the result.
 */
#include "machine.h"

#include <stdlib.h>

struct selector {
    keel_bytes key;
    bool or_equal;
    int offset;
};

struct request {
    bool snapshot;
    keel_bytes key, value;
    struct selector begin, end; /* GET_KEY has only `begin` */
    int limit, mode;
    bool reverse;
    FDBMutationType mutation;
    keel_bytes prefix; /* results outside of it do not count */
    bool exists;
    struct buffer result;
};

static struct request request_create(const struct machine *machine) {
    return (struct request){.snapshot = machine->is_snapshot};
}

/* Runs the function where the instruction says. */
static fdb_error_t run(struct machine *machine, keel_function function, struct request *request) {
    if (machine_is_alone(machine))
        return machine_run_alone(machine, function, request);
    return function(machine_transaction(machine), request);
}

/* The same for writes, which push RESULT_NOT_PRESENT if they are committed at once. */
static fdb_error_t run_write(struct machine *machine, keel_function function,
                             struct request *request) {
    fdb_error_t error = run(machine, function, request);
    if (!error && machine_is_alone(machine))
        push_text(machine, "RESULT_NOT_PRESENT");
    return error;
}

static void set_result(struct request *request, const void *data, size_t length) {
    request->result.length = 0;
    buffer_append(&request->result, data, length);
}

/* The end of the range of all keys that begin with the prefix. */
static keel_bytes append_successor(keel_bytes prefix, struct buffer *buffer) {
    size_t length;
    buffer_append(buffer, prefix.data, prefix.length);
    must(keel_strinc(prefix, buffer->data, buffer->length, &length), "the end of a prefix");
    buffer->length = length;
    return buffer_bytes(buffer);
}

/* ---- Reads ---- */

static FDBFuture *start_get(FDBTransaction *transaction, const struct request *request) {
    return fdb_transaction_get(transaction, request->key.data, (int)request->key.length,
                               request->snapshot);
}

static fdb_error_t get(FDBTransaction *transaction, void *context) {
    struct request *request = context;
    fdb_bool_t present;
    const uint8_t *data;
    int length;
    FDBFuture *future = start_get(transaction, request);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &data, &length);
    if (!error) {
        request->exists = present;
        if (present)
            set_result(request, data, (size_t)length);
    }
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t do_get(struct machine *machine) {
    struct request request = request_create(machine);
    request.key = pop_bytes(machine);
    if (!machine_is_alone(machine)) {
        push_future(machine, start_get(machine_transaction(machine), &request), FUTURE_VALUE);
        return 0;
    }
    fdb_error_t error = run(machine, get, &request);
    if (!error && request.exists)
        push_bytes(machine, buffer_bytes(&request.result));
    else if (!error)
        push_text(machine, "RESULT_NOT_PRESENT");
    buffer_free(&request.result);
    return error;
}

static fdb_error_t get_key(FDBTransaction *transaction, void *context) {
    struct request *request = context;
    const uint8_t *data;
    int length;
    FDBFuture *future = fdb_transaction_get_key(
        transaction, request->begin.key.data, (int)request->begin.key.length,
        request->begin.or_equal, request->begin.offset, request->snapshot);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_key(future, &data, &length);
    if (!error)
        set_result(request, data, (size_t)length);
    fdb_future_destroy(future);
    return error;
}

static struct selector pop_selector(struct machine *machine) {
    struct selector selector;
    selector.key = pop_bytes(machine);
    selector.or_equal = pop_int(machine) != 0;
    selector.offset = (int)pop_int(machine);
    return selector;
}

static fdb_error_t do_get_key(struct machine *machine) {
    struct request request = request_create(machine);
    request.begin = pop_selector(machine);
    request.prefix = pop_bytes(machine);
    fdb_error_t error = run(machine, get_key, &request);
    keel_bytes found = buffer_bytes(&request.result);
    struct buffer behind = {0};
    if (!error && bytes_begin_with(found, request.prefix))
        push_bytes(machine, found);
    else if (!error && keel_bytes_compare(found, request.prefix) < 0)
        push_bytes(machine, request.prefix);
    else if (!error)
        push_bytes(machine, append_successor(request.prefix, &behind));
    buffer_free(&behind);
    buffer_free(&request.result);
    return error;
}

/* Appends rows to the elements [key, value, ...], and moves the selectors behind the last one. */
static void take_rows(const FDBKeyValue *rows, int count, struct request *request,
                      struct selector *begin, struct selector *end, struct pool *pool,
                      struct buffer *elements) {
    for (int i = 0; i < count; i++) {
        keel_bytes key = KEEL_BYTES(rows[i].key, (size_t)rows[i].key_length);
        if (!bytes_begin_with(key, request->prefix))
            continue;
        keel_element pair[] = {keel_element_of_bytes(pool_copy(pool, key)),
                               keel_element_of_bytes(pool_copy(
                                   pool, KEEL_BYTES(rows[i].value, (size_t)rows[i].value_length)))};
        buffer_append(elements, pair, sizeof pair);
    }
    keel_bytes last =
        pool_copy(pool, KEEL_BYTES(rows[count - 1].key, (size_t)rows[count - 1].key_length));
    if (request->reverse)
        *end = (struct selector){last, false, 1};
    else
        *begin = (struct selector){last, true, 1};
}

static fdb_error_t get_rows(FDBTransaction *transaction, struct request *request, struct pool *pool,
                            struct buffer *elements) {
    struct selector begin = request->begin, end = request->end;
    int limit = request->limit;
    fdb_bool_t more = 1;
    fdb_error_t error = 0;
    for (int iteration = 1; more; iteration++) {
        const FDBKeyValue *rows;
        int count;
        FDBFuture *future = fdb_transaction_get_range(
            transaction, begin.key.data, (int)begin.key.length, begin.or_equal, begin.offset,
            end.key.data, (int)end.key.length, end.or_equal, end.offset, limit, 0,
            (FDBStreamingMode)request->mode, iteration, request->snapshot, request->reverse);
        error = keel_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
        if (error || count == 0)
            more = 0;
        else
            take_rows(rows, count, request, &begin, &end, pool, elements);
        fdb_future_destroy(future);
        if (more && limit && (limit -= count) == 0)
            more = 0;
    }
    return error;
}

static fdb_error_t get_range(FDBTransaction *transaction, void *context) {
    struct request *request = context;
    struct pool pool = {0};
    struct buffer elements = {0};
    fdb_error_t error = get_rows(transaction, request, &pool, &elements);
    request->result.length = 0;
    if (!error)
        error = tuple_append(keel_tuple_of((const keel_element *)(const void *)elements.data,
                                           elements.length / sizeof(keel_element)),
                             false, &request->result);
    pool_free(&pool);
    buffer_free(&elements);
    return error;
}

static fdb_error_t run_get_range(struct machine *machine, struct request *request) {
    fdb_error_t error = run(machine, get_range, request);
    if (!error)
        push_bytes(machine, buffer_bytes(&request->result));
    buffer_free(&request->result);
    return error;
}

static void pop_range_parameters(struct machine *machine, struct request *request) {
    request->limit = (int)pop_int(machine);
    request->reverse = pop_int(machine) != 0;
    request->mode = (int)pop_int(machine);
}

static fdb_error_t do_get_range(struct machine *machine) {
    struct request request = request_create(machine);
    request.begin = (struct selector){pop_bytes(machine), false, 1};
    request.end = (struct selector){pop_bytes(machine), false, 1};
    pop_range_parameters(machine, &request);
    return run_get_range(machine, &request);
}

static fdb_error_t do_get_range_starts_with(struct machine *machine) {
    struct request request = request_create(machine);
    struct buffer behind = {0};
    keel_bytes prefix = pop_bytes(machine);
    pop_range_parameters(machine, &request);
    request.begin = (struct selector){prefix, false, 1};
    request.end = (struct selector){append_successor(prefix, &behind), false, 1};
    fdb_error_t error = run_get_range(machine, &request);
    buffer_free(&behind);
    return error;
}

static fdb_error_t do_get_range_selector(struct machine *machine) {
    struct request request = request_create(machine);
    request.begin = pop_selector(machine);
    request.end = pop_selector(machine);
    pop_range_parameters(machine, &request);
    request.prefix = pop_bytes(machine);
    return run_get_range(machine, &request);
}

static fdb_error_t do_get_estimated_range_size(struct machine *machine) {
    keel_bytes begin = pop_bytes(machine), end = pop_bytes(machine);
    int64_t size;
    fdb_error_t error = wait_int64(
        fdb_transaction_get_estimated_range_size_bytes(
            machine_transaction(machine), begin.data, (int)begin.length, end.data, (int)end.length),
        &size);
    if (!error)
        push_text(machine, "GOT_ESTIMATED_RANGE_SIZE");
    return error;
}

static fdb_error_t do_get_range_split_points(struct machine *machine) {
    keel_bytes begin = pop_bytes(machine), end = pop_bytes(machine);
    int64_t chunk_bytes = pop_int(machine);
    fdb_error_t error = keel_wait_destroy(fdb_transaction_get_range_split_points(
        machine_transaction(machine), begin.data, (int)begin.length, end.data, (int)end.length,
        chunk_bytes));
    if (!error)
        push_text(machine, "GOT_RANGE_SPLIT_POINTS");
    return error;
}

/* ---- Writes ---- */

static fdb_error_t set(FDBTransaction *transaction, void *context) {
    const struct request *request = context;
    fdb_transaction_set(transaction, request->key.data, (int)request->key.length,
                        request->value.data, (int)request->value.length);
    return 0;
}

static fdb_error_t do_set(struct machine *machine) {
    struct request request = request_create(machine);
    request.key = pop_bytes(machine);
    request.value = pop_bytes(machine);
    return run_write(machine, set, &request);
}

static fdb_error_t clear(FDBTransaction *transaction, void *context) {
    const struct request *request = context;
    fdb_transaction_clear(transaction, request->key.data, (int)request->key.length);
    return 0;
}

static fdb_error_t do_clear(struct machine *machine) {
    struct request request = request_create(machine);
    request.key = pop_bytes(machine);
    return run_write(machine, clear, &request);
}

/* From `key` to `value`. */
static fdb_error_t clear_range(FDBTransaction *transaction, void *context) {
    const struct request *request = context;
    fdb_transaction_clear_range(transaction, request->key.data, (int)request->key.length,
                                request->value.data, (int)request->value.length);
    return 0;
}

static fdb_error_t do_clear_range(struct machine *machine) {
    struct request request = request_create(machine);
    request.key = pop_bytes(machine);
    request.value = pop_bytes(machine);
    return run_write(machine, clear_range, &request);
}

static fdb_error_t do_clear_range_starts_with(struct machine *machine) {
    struct request request = request_create(machine);
    struct buffer behind = {0};
    request.key = pop_bytes(machine);
    request.value = append_successor(request.key, &behind);
    fdb_error_t error = run_write(machine, clear_range, &request);
    buffer_free(&behind);
    return error;
}

static FDBMutationType mutation_named(keel_bytes name) {
    static const struct {
        const char *name;
        FDBMutationType type;
    } mutations[] = {
        {"ADD", FDB_MUTATION_TYPE_ADD},
        {"AND", FDB_MUTATION_TYPE_BIT_AND},
        {"BIT_AND", FDB_MUTATION_TYPE_BIT_AND},
        {"OR", FDB_MUTATION_TYPE_BIT_OR},
        {"BIT_OR", FDB_MUTATION_TYPE_BIT_OR},
        {"XOR", FDB_MUTATION_TYPE_BIT_XOR},
        {"BIT_XOR", FDB_MUTATION_TYPE_BIT_XOR},
        {"APPEND_IF_FITS", FDB_MUTATION_TYPE_APPEND_IF_FITS},
        {"MAX", FDB_MUTATION_TYPE_MAX},
        {"MIN", FDB_MUTATION_TYPE_MIN},
        {"BYTE_MAX", FDB_MUTATION_TYPE_BYTE_MAX},
        {"BYTE_MIN", FDB_MUTATION_TYPE_BYTE_MIN},
        {"COMPARE_AND_CLEAR", FDB_MUTATION_TYPE_COMPARE_AND_CLEAR},
        {"SET_VERSIONSTAMPED_KEY", FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY},
        {"SET_VERSIONSTAMPED_VALUE", FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE},
    };
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        if (bytes_equal(name, keel_bytes_of_string(mutations[i].name)))
            return mutations[i].type;
    }
    fail("unknown atomic operation %.*s", (int)name.length, (const char *)name.data);
}

static fdb_error_t atomic_op(FDBTransaction *transaction, void *context) {
    const struct request *request = context;
    fdb_transaction_atomic_op(transaction, request->key.data, (int)request->key.length,
                              request->value.data, (int)request->value.length, request->mutation);
    return 0;
}

static fdb_error_t do_atomic_op(struct machine *machine) {
    struct request request = request_create(machine);
    request.mutation = mutation_named(pop_bytes(machine));
    request.key = pop_bytes(machine);
    request.value = pop_bytes(machine);
    return run_write(machine, atomic_op, &request);
}

/* ---- Conflict ranges ---- */

static fdb_error_t add_conflict_range(struct machine *machine, keel_bytes begin, keel_bytes end,
                                      FDBConflictRangeType type, const char *result) {
    fdb_error_t error =
        fdb_transaction_add_conflict_range(machine_transaction(machine), begin.data,
                                           (int)begin.length, end.data, (int)end.length, type);
    if (!error)
        push_text(machine, result);
    return error;
}

static fdb_error_t add_conflict_key(struct machine *machine, FDBConflictRangeType type) {
    struct buffer next = {0};
    keel_bytes key = pop_bytes(machine);
    buffer_append(&next, key.data, key.length);
    buffer_append(&next, "", 1);
    fdb_error_t error =
        add_conflict_range(machine, key, buffer_bytes(&next), type, "SET_CONFLICT_KEY");
    buffer_free(&next);
    return error;
}

static fdb_error_t do_read_conflict_range(struct machine *machine) {
    keel_bytes begin = pop_bytes(machine), end = pop_bytes(machine);
    return add_conflict_range(machine, begin, end, FDB_CONFLICT_RANGE_TYPE_READ,
                              "SET_CONFLICT_RANGE");
}

static fdb_error_t do_write_conflict_range(struct machine *machine) {
    keel_bytes begin = pop_bytes(machine), end = pop_bytes(machine);
    return add_conflict_range(machine, begin, end, FDB_CONFLICT_RANGE_TYPE_WRITE,
                              "SET_CONFLICT_RANGE");
}

static fdb_error_t do_read_conflict_key(struct machine *machine) {
    return add_conflict_key(machine, FDB_CONFLICT_RANGE_TYPE_READ);
}

static fdb_error_t do_write_conflict_key(struct machine *machine) {
    return add_conflict_key(machine, FDB_CONFLICT_RANGE_TYPE_WRITE);
}

static fdb_error_t do_disable_write_conflict(struct machine *machine) {
    return fdb_transaction_set_option(machine_transaction(machine),
                                      FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, NULL, 0);
}

/* ---- The life of a transaction ---- */

static fdb_error_t do_on_error(struct machine *machine) {
    fdb_error_t code = (fdb_error_t)pop_int(machine);
    push_future(machine, fdb_transaction_on_error(machine_transaction(machine), code), FUTURE_VOID);
    return 0;
}

static fdb_error_t do_commit(struct machine *machine) {
    push_future(machine, fdb_transaction_commit(machine_transaction(machine)), FUTURE_VOID);
    return 0;
}

static fdb_error_t do_reset(struct machine *machine) {
    fdb_transaction_reset(machine_transaction(machine));
    return 0;
}

static fdb_error_t do_cancel(struct machine *machine) {
    fdb_transaction_cancel(machine_transaction(machine));
    return 0;
}

static fdb_error_t do_get_read_version(struct machine *machine) {
    fdb_error_t error = wait_int64(fdb_transaction_get_read_version(machine_transaction(machine)),
                                   &machine->last_version);
    if (!error)
        push_text(machine, "GOT_READ_VERSION");
    return error;
}

static fdb_error_t do_set_read_version(struct machine *machine) {
    fdb_transaction_set_read_version(machine_transaction(machine), machine->last_version);
    return 0;
}

static fdb_error_t do_get_committed_version(struct machine *machine) {
    fdb_error_t error =
        fdb_transaction_get_committed_version(machine_transaction(machine), &machine->last_version);
    if (!error)
        push_text(machine, "GOT_COMMITTED_VERSION");
    return error;
}

static fdb_error_t do_get_approximate_size(struct machine *machine) {
    int64_t size;
    fdb_error_t error =
        wait_int64(fdb_transaction_get_approximate_size(machine_transaction(machine)), &size);
    if (!error)
        push_text(machine, "GOT_APPROXIMATE_SIZE");
    return error;
}

static fdb_error_t do_get_versionstamp(struct machine *machine) {
    push_future(machine, fdb_transaction_get_versionstamp(machine_transaction(machine)),
                FUTURE_KEY);
    return 0;
}

/* not_committed until no key has the prefix. */
static fdb_error_t wait_empty(FDBTransaction *transaction, void *context) {
    struct request *request = context;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more;
    FDBFuture *future = fdb_transaction_get_range(
        transaction, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(request->key.data, (int)request->key.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(request->value.data, (int)request->value.length), 1, 0,
        FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    fdb_future_destroy(future);
    return !error && count > 0 ? 1020 : error;
}

static fdb_error_t do_wait_empty(struct machine *machine) {
    struct request request = request_create(machine);
    struct buffer behind = {0};
    request.key = pop_bytes(machine);
    request.value = append_successor(request.key, &behind);
    fdb_error_t error = keel_run(machine->tester->database, wait_empty, &request);
    if (!error)
        push_text(machine, "WAITED_FOR_EMPTY");
    buffer_free(&behind);
    return error;
}

const struct operation database_operations[] = {
    {"GET", do_get},
    {"GET_KEY", do_get_key},
    {"GET_RANGE", do_get_range},
    {"GET_RANGE_STARTS_WITH", do_get_range_starts_with},
    {"GET_RANGE_SELECTOR", do_get_range_selector},
    {"GET_ESTIMATED_RANGE_SIZE", do_get_estimated_range_size},
    {"GET_RANGE_SPLIT_POINTS", do_get_range_split_points},
    {"SET", do_set},
    {"CLEAR", do_clear},
    {"CLEAR_RANGE", do_clear_range},
    {"CLEAR_RANGE_STARTS_WITH", do_clear_range_starts_with},
    {"ATOMIC_OP", do_atomic_op},
    {"READ_CONFLICT_RANGE", do_read_conflict_range},
    {"WRITE_CONFLICT_RANGE", do_write_conflict_range},
    {"READ_CONFLICT_KEY", do_read_conflict_key},
    {"WRITE_CONFLICT_KEY", do_write_conflict_key},
    {"DISABLE_WRITE_CONFLICT", do_disable_write_conflict},
    {"ON_ERROR", do_on_error},
    {"COMMIT", do_commit},
    {"RESET", do_reset},
    {"CANCEL", do_cancel},
    {"GET_READ_VERSION", do_get_read_version},
    {"SET_READ_VERSION", do_set_read_version},
    {"GET_COMMITTED_VERSION", do_get_committed_version},
    {"GET_APPROXIMATE_SIZE", do_get_approximate_size},
    {"GET_VERSIONSTAMP", do_get_versionstamp},
    {"WAIT_EMPTY", do_wait_empty},
    {NULL, NULL},
};
