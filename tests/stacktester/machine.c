/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine of FoundationDB's binding tester, on Keel's layers. `keel-stacktester PREFIX
 * API_VERSION [CLUSTER_FILE]` reads the instructions that lie under the tuple (PREFIX,) and
 * performs one after another. The specification is bindings/bindingtester/spec/ in
 * apple/foundationdb.
 *
 * An instruction is the value of a row: a packed tuple of a name and, for PUSH, an element. A name
 * may end with _DATABASE (a transaction of its own, with retries), _TENANT (the same in the active
 * tenant) or _SNAPSHOT (reads of the current transaction that conflict with nothing).
 *
 * Threads: START_THREAD runs another machine. Machines share the database and the map of
 * transactions, nothing else; two may use one transaction at a time, which is why the map counts
 * references.
 *
 * Failure: an error of an instruction is a result and lands on the stack. A script that makes no
 * sense, or an error where none may be, ends the process with 1.
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

enum { INSTRUCTIONS_PER_READ = 2000, LOG_ENTRIES_PER_TRANSACTION = 100, LOGGED_BYTES_MAX = 40000 };

/* ---- The map of transactions ---- */

static void transaction_release(struct transaction *transaction) {
    if (transaction && atomic_fetch_sub(&transaction->references, 1) == 1) {
        fdb_transaction_destroy(transaction->handle);
        free(transaction);
    }
}

/* The caller holds the mutex. */
static struct named_transaction *find_named(struct tester *tester, keel_bytes name) {
    for (struct named_transaction *named = tester->transactions; named; named = named->next) {
        if (bytes_equal(buffer_bytes(&named->name), name))
            return named;
    }
    return NULL;
}

/* Puts a transaction (or NULL) under a name. */
static void map_put(struct tester *tester, keel_bytes name, struct transaction *transaction) {
    pthread_mutex_lock(&tester->mutex);
    struct named_transaction *named = find_named(tester, name);
    if (!named) {
        named = allocate(sizeof *named);
        *named = (struct named_transaction){.next = tester->transactions};
        buffer_append(&named->name, name.data, name.length);
        tester->transactions = named;
    }
    struct transaction *old = named->transaction;
    named->transaction = transaction;
    pthread_mutex_unlock(&tester->mutex);
    transaction_release(old);
}

static bool map_has(struct tester *tester, keel_bytes name) {
    pthread_mutex_lock(&tester->mutex);
    bool found = find_named(tester, name) != NULL;
    pthread_mutex_unlock(&tester->mutex);
    return found;
}

static struct transaction *map_take(struct tester *tester, keel_bytes name) {
    pthread_mutex_lock(&tester->mutex);
    struct named_transaction *named = find_named(tester, name);
    struct transaction *transaction = named ? named->transaction : NULL;
    if (transaction)
        atomic_fetch_add(&transaction->references, 1);
    pthread_mutex_unlock(&tester->mutex);
    return transaction;
}

static fdb_error_t new_transaction(struct machine *machine) {
    FDBTransaction *handle;
    fdb_error_t error = machine->tenant
                            ? fdb_tenant_create_transaction(machine->tenant, &handle)
                            : fdb_database_create_transaction(machine->tester->database, &handle);
    if (error)
        return error;
    struct transaction *transaction = allocate(sizeof *transaction);
    atomic_init(&transaction->references, 1);
    transaction->handle = handle;
    map_put(machine->tester, buffer_bytes(&machine->transaction_name), transaction);
    return 0;
}

/* ---- What instructions are written in ---- */

FDBTransaction *machine_transaction(const struct machine *machine) {
    if (!machine->current)
        fail("%s without a transaction", machine->operation);
    return machine->current->handle;
}

bool machine_is_alone(const struct machine *machine) {
    return machine->is_database || machine->is_tenant;
}

static fdb_error_t run_in_tenant(FDBTenant *tenant, keel_function function, void *context) {
    FDBTransaction *transaction;
    fdb_error_t error = fdb_tenant_create_transaction(tenant, &transaction);
    if (error)
        return error;
    do {
        error = function(transaction, context);
        if (!error)
            error = keel_wait_destroy(fdb_transaction_commit(transaction));
    } while (error && !(error = keel_wait_destroy(fdb_transaction_on_error(transaction, error))));
    fdb_transaction_destroy(transaction);
    return error;
}

fdb_error_t machine_run_alone(struct machine *machine, keel_function function, void *context) {
    if (machine->is_tenant && machine->tenant)
        return run_in_tenant(machine->tenant, function, context);
    return keel_run(machine->tester->database, function, context);
}

struct value *pop(struct machine *machine) {
    struct value *value = stack_pop(&machine->stack, NULL);
    if (machine->popped_count == machine->popped_capacity) {
        machine->popped_capacity = machine->popped_capacity ? machine->popped_capacity * 2 : 16;
        machine->popped =
            allocate_more(machine->popped, machine->popped_capacity * sizeof *machine->popped);
    }
    return machine->popped[machine->popped_count++] = value;
}

keel_bytes pop_bytes(struct machine *machine) {
    return value_as_bytes(pop(machine));
}

int64_t pop_int(struct machine *machine) {
    return value_as_int(pop(machine));
}

keel_tuple pop_elements(struct machine *machine, int64_t count) {
    struct buffer elements = {0};
    for (int64_t i = 0; i < count; i++) {
        keel_element element = pop(machine)->element;
        buffer_append(&elements, &element, sizeof element);
    }
    /* The array goes where the popped values go, inside a value of its own. */
    struct value *holder = value_int(0);
    keel_bytes copy = pool_copy(&holder->pool, buffer_bytes(&elements));
    buffer_free(&elements);
    stack_push(&machine->stack, machine->instruction, holder);
    pop(machine);
    return keel_tuple_of((const keel_element *)(const void *)copy.data,
                         count > 0 ? (size_t)count : 0);
}

keel_tuple pop_tuple(struct machine *machine) {
    return pop_elements(machine, pop_int(machine));
}

void push(struct machine *machine, struct value *value) {
    stack_push(&machine->stack, machine->instruction, value);
}

void push_text(struct machine *machine, const char *text) {
    push(machine, value_text(text));
}

void push_bytes(struct machine *machine, keel_bytes bytes) {
    push(machine, value_bytes(bytes));
}

void push_tuple(struct machine *machine, keel_tuple tuple) {
    struct buffer packed = {0};
    must(tuple_append(tuple, false, &packed), "packing a tuple");
    push_bytes(machine, buffer_bytes(&packed));
    buffer_free(&packed);
}

void push_future(struct machine *machine, FDBFuture *future, enum future_kind kind) {
    stack_push_future(&machine->stack, machine->instruction, future, kind);
}

fdb_error_t wait_int64(FDBFuture *future, int64_t *number) {
    int64_t result = 0;
    fdb_error_t error = keel_wait(future);
    if (!error && number)
        error = fdb_future_get_int64(future, &result);
    if (!error && number)
        *number = result;
    fdb_future_destroy(future);
    return error;
}

/* ---- Data operations ---- */

static fdb_error_t do_push(struct machine *machine) {
    if (machine->arguments.count != 1)
        fail("PUSH with %zu items", machine->arguments.count);
    push(machine, value_element(&machine->arguments.elements[0]));
    return 0;
}

static fdb_error_t do_duplicate(struct machine *machine) {
    stack_duplicate(&machine->stack);
    return 0;
}

static fdb_error_t do_empty_stack(struct machine *machine) {
    stack_clear(&machine->stack);
    return 0;
}

static fdb_error_t do_swap(struct machine *machine) {
    stack_swap(&machine->stack, pop_int(machine));
    return 0;
}

static fdb_error_t do_pop(struct machine *machine) {
    pop(machine);
    return 0;
}

static fdb_error_t do_subtract(struct machine *machine) {
    struct value *left = pop(machine), *right = pop(machine);
    push(machine, value_subtract(left, right));
    return 0;
}

static fdb_error_t do_concatenate(struct machine *machine) {
    struct value *left = pop(machine), *right = pop(machine);
    push(machine, value_concatenate(left, right));
    return 0;
}

static fdb_error_t do_wait_future(struct machine *machine) {
    int64_t instruction;
    struct value *value = stack_pop(&machine->stack, &instruction);
    stack_push(&machine->stack, instruction, value);
    return 0;
}

struct log_entry {
    int64_t index;
    int64_t instruction;
    struct value *value;
};

struct log_batch {
    keel_bytes prefix;
    size_t count;
    struct log_entry entries[LOG_ENTRIES_PER_TRANSACTION];
};

static fdb_error_t log_entries(FDBTransaction *transaction, void *context) {
    const struct log_batch *batch = context;
    for (size_t i = 0; i < batch->count; i++) {
        const struct log_entry *entry = &batch->entries[i];
        struct buffer key = {0}, value = {0};
        buffer_append(&key, batch->prefix.data, batch->prefix.length);
        must(tuple_append(KEEL_TUPLE(entry->index, entry->instruction), false, &key),
             "the key of a logged item");
        must(tuple_append(keel_tuple_of(&entry->value->element, 1), false, &value),
             "a logged item");
        size_t length = value.length < LOGGED_BYTES_MAX ? value.length : LOGGED_BYTES_MAX;
        fdb_transaction_set(transaction, key.data, (int)key.length, value.data, (int)length);
        buffer_free(&key);
        buffer_free(&value);
    }
    return 0;
}

static fdb_error_t do_log_stack(struct machine *machine) {
    struct log_batch batch = {.prefix = pop_bytes(machine)};
    fdb_error_t error = 0;
    while (!error && machine->stack.count) {
        batch.count = 0;
        while (machine->stack.count && batch.count < LOG_ENTRIES_PER_TRANSACTION) {
            struct log_entry *entry = &batch.entries[batch.count++];
            entry->index = (int64_t)machine->stack.count - 1;
            entry->value = stack_pop(&machine->stack, &entry->instruction);
        }
        error = keel_run(machine->tester->database, log_entries, &batch);
        for (size_t i = 0; i < batch.count; i++)
            value_release(batch.entries[i].value);
    }
    return error;
}

static fdb_error_t do_use_transaction(struct machine *machine) {
    keel_bytes name = pop_bytes(machine);
    machine->transaction_name.length = 0;
    buffer_append(&machine->transaction_name, name.data, name.length);
    return map_has(machine->tester, name) ? 0 : new_transaction(machine);
}

struct thread_start {
    struct tester *tester;
    struct buffer prefix;
};

static void *thread_main(void *argument) {
    struct thread_start *start = argument;
    machine_run(start->tester, buffer_bytes(&start->prefix));
    buffer_free(&start->prefix);
    free(start);
    return NULL;
}

static fdb_error_t do_start_thread(struct machine *machine) {
    keel_bytes prefix = pop_bytes(machine);
    struct thread_start *start = allocate(sizeof *start);
    struct thread *thread = allocate(sizeof *thread);
    *start = (struct thread_start){.tester = machine->tester};
    buffer_append(&start->prefix, prefix.data, prefix.length);
    if (pthread_create(&thread->handle, NULL, thread_main, start) != 0)
        fail("no thread can be started");
    thread->next = machine->threads;
    machine->threads = thread;
    return 0;
}

static fdb_error_t do_unit_tests(struct machine *machine) {
    run_unit_tests(machine->tester->database);
    return 0;
}

const struct operation data_operations[] = {
    {"PUSH", do_push},
    {"DUP", do_duplicate},
    {"EMPTY_STACK", do_empty_stack},
    {"SWAP", do_swap},
    {"POP", do_pop},
    {"SUB", do_subtract},
    {"CONCAT", do_concatenate},
    {"WAIT_FUTURE", do_wait_future},
    {"LOG_STACK", do_log_stack},
    {"NEW_TRANSACTION", new_transaction},
    {"USE_TRANSACTION", do_use_transaction},
    {"START_THREAD", do_start_thread},
    {"UNIT_TESTS", do_unit_tests},
    {NULL, NULL},
};

/* ---- Running ---- */

static const struct operation *find_operation(const char *name) {
    const struct operation *tables[] = {data_operations, database_operations, tuple_operations,
                                        tenant_operations, directory_operations};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct operation *operation = tables[i]; operation->name; operation++) {
            if (strcmp(operation->name, name) == 0)
                return operation;
        }
    }
    return NULL;
}

/* Cuts the suffix off the name, if it is there. */
static bool cut_suffix(char *name, const char *suffix) {
    size_t length = strlen(name), suffix_length = strlen(suffix);
    if (length <= suffix_length || strcmp(name + length - suffix_length, suffix) != 0)
        return false;
    name[length - suffix_length] = '\0';
    return true;
}

static void perform(struct machine *machine, keel_tuple instruction) {
    char name[64];
    if (instruction.count == 0 || instruction.elements[0].type != KEEL_TYPE_STRING)
        fail("instruction %lld has no name", (long long)machine->instruction);
    keel_bytes text = instruction.elements[0].value.as_bytes;
    snprintf(name, sizeof name, "%.*s", (int)text.length, (const char *)text.data);
    machine->is_database = cut_suffix(name, "_DATABASE");
    machine->is_tenant = cut_suffix(name, "_TENANT");
    machine->is_snapshot = cut_suffix(name, "_SNAPSHOT");
    const struct operation *operation = find_operation(name);
    if (!operation)
        fail("unknown instruction %s", name);
    machine->operation = operation->name;
    machine->arguments = keel_tuple_of(instruction.elements + 1, instruction.count - 1);
    machine->current = machine_is_alone(machine)
                           ? NULL
                           : map_take(machine->tester, buffer_bytes(&machine->transaction_name));
    fdb_error_t error = operation->perform(machine);
    if (error)
        push(machine, value_error(error));
    transaction_release(machine->current);
    while (machine->popped_count)
        value_release(machine->popped[--machine->popped_count]);
}

/* Some rows of instructions, read in one transaction; the values one after another, each behind its
 * length. */
struct instruction_read {
    struct buffer begin, end; /* `begin` is exclusive from the second read on */
    struct buffer values;
    struct buffer last_key;
    size_t count;
};

static fdb_error_t read_instructions(FDBTransaction *transaction, void *context) {
    struct instruction_read *read = context;
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t more;
    read->values.length = 0;
    read->count = 0;
    FDBFuture *future = fdb_transaction_get_range(
        transaction, FDB_KEYSEL_FIRST_GREATER_THAN(read->begin.data, (int)read->begin.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(read->end.data, (int)read->end.length),
        INSTRUCTIONS_PER_READ, 0, FDB_STREAMING_MODE_EXACT, 1, 1, 0);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    for (int i = 0; !error && i < count; i++) {
        size_t length = (size_t)rows[i].value_length;
        buffer_append(&read->values, &length, sizeof length);
        buffer_append(&read->values, rows[i].value, length);
        read->last_key.length = 0;
        buffer_append(&read->last_key, rows[i].key, (size_t)rows[i].key_length);
        read->count++;
    }
    fdb_future_destroy(future);
    return error;
}

static void perform_all(struct machine *machine, const struct instruction_read *read) {
    size_t offset = 0;
    for (size_t i = 0; i < read->count; i++) {
        struct pool pool = {0};
        keel_tuple instruction;
        size_t length;
        memcpy(&length, read->values.data + offset, sizeof length);
        offset += sizeof length;
        must(tuple_decode(keel_tuple_iterate(KEEL_BYTES(read->values.data + offset, length)), &pool,
                          &instruction),
             "an instruction");
        offset += length;
        perform(machine, instruction);
        pool_free(&pool);
        machine->instruction++;
    }
}

static void run_instructions(struct machine *machine) {
    struct instruction_read read = {0};
    uint8_t *begin = allocate(machine->prefix.length * 2 + 8),
            *end = allocate(machine->prefix.length * 2 + 8);
    size_t length;
    must(keel_tuple_range(KEEL_TUPLE(buffer_bytes(&machine->prefix)), begin, end,
                          machine->prefix.length * 2 + 8, &length),
         "the range of instructions");
    buffer_append(&read.begin, begin, length);
    buffer_append(&read.end, end, length);
    free(begin);
    free(end);
    do {
        must(keel_run_read(machine->tester->database, read_instructions, &read),
             "reading instructions");
        perform_all(machine, &read);
        read.begin.length = 0;
        buffer_append(&read.begin, read.last_key.data, read.last_key.length);
    } while (read.count == INSTRUCTIONS_PER_READ);
    buffer_free(&read.begin);
    buffer_free(&read.end);
    buffer_free(&read.values);
    buffer_free(&read.last_key);
}

void machine_run(struct tester *tester, keel_bytes prefix) {
    struct machine machine = {.tester = tester};
    buffer_append(&machine.prefix, prefix.data, prefix.length);
    buffer_append(&machine.transaction_name, prefix.data, prefix.length);
    map_put(tester, prefix, NULL);
    directories_init(&machine.directories);
    run_instructions(&machine);
    while (machine.threads) {
        struct thread *thread = machine.threads;
        machine.threads = thread->next;
        pthread_join(thread->handle, NULL);
        free(thread);
    }
    directories_free(&machine.directories);
    stack_free(&machine.stack);
    free(machine.popped);
    if (machine.tenant)
        fdb_tenant_destroy(machine.tenant);
    buffer_free(&machine.prefix);
    buffer_free(&machine.transaction_name);
}
