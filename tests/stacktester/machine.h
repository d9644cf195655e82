/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine: its stack, its state, and what the instructions in the other files are written
 * in.
 *
 * An instruction is a function on the machine. It pops its arguments, which stay valid until it
 * returns, and pushes results. The error it returns is pushed as the tuple ("ERROR", code) in place
 * of a result.
 */
#ifndef STACKTESTER_MACHINE_H
#define STACKTESTER_MACHINE_H

#include "value.h"

#include <keel/directory.h>
#include <keel/run.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- The stack ---- */

enum future_kind { FUTURE_VOID, FUTURE_VALUE, FUTURE_KEY };

struct pending; /* a future, counted, waited for by the first who needs the value */

struct entry {
    int64_t instruction;     /* the number of the instruction that pushed it */
    struct value *value;     /* NULL while it is pending */
    struct pending *pending; /* NULL for a value */
};

struct stack {
    struct entry *entries; /* the top is the last */
    size_t count;
    size_t capacity;
};

/* Takes the value over. */
void stack_push(struct stack *stack, int64_t instruction, struct value *value);
/* Takes the future over. */
void stack_push_future(struct stack *stack, int64_t instruction, FDBFuture *future,
                       enum future_kind kind);
/* Waits if it is a future. The caller releases the value; `instruction` may be NULL. */
struct value *stack_pop(struct stack *stack, int64_t *instruction);
void stack_duplicate(struct stack *stack);
void stack_swap(struct stack *stack, int64_t depth);
void stack_clear(struct stack *stack);
void stack_free(struct stack *stack);

/* ---- The machine ---- */

/* A transaction in the map that all machines share. Counted, since another thread may replace it
 * there while it is used. */
struct transaction {
    atomic_uint references;
    FDBTransaction *handle;
};

struct named_transaction {
    struct named_transaction *next;
    struct buffer name;
    struct transaction *transaction; /* NULL: a name without one yet */
};

/* One a process. */
struct tester {
    FDBDatabase *database;
    int api_version;
    pthread_mutex_t mutex; /* guards the map */
    struct named_transaction *transactions;
};

struct directory_entry; /* directories.c */

struct directories {
    struct directory_entry *entries;
    size_t count;
    int64_t index;
    int64_t error_index;
};

struct thread {
    struct thread *next;
    pthread_t handle;
};

/* One a thread. */
struct machine {
    struct tester *tester;
    struct buffer prefix;
    struct stack stack;
    struct buffer transaction_name;
    int64_t last_version;
    FDBTenant *tenant; /* the active one, or NULL */
    struct directories directories;
    struct thread *threads;

    /* The instruction that runs. */
    int64_t instruction;
    const char *operation; /* without its suffix */
    keel_tuple arguments;  /* what follows the name */
    bool is_database, is_tenant, is_snapshot;
    struct transaction *current; /* NULL for _DATABASE and _TENANT */
    struct value **popped;       /* released when the instruction is done */
    size_t popped_count, popped_capacity;
};

struct operation {
    const char *name;
    fdb_error_t (*perform)(struct machine *machine);
};
/* Tables that end with a NULL name. */
extern const struct operation data_operations[], database_operations[], tuple_operations[],
    tenant_operations[], directory_operations[];

/* Runs all instructions under the prefix, then waits for the threads it started. */
void machine_run(struct tester *tester, keel_bytes prefix);

/* The transaction of this instruction. */
FDBTransaction *machine_transaction(const struct machine *machine);
/* Runs the function in a transaction of its own, on the database or the active tenant. */
fdb_error_t machine_run_alone(struct machine *machine, keel_function function, void *context);
/* Whether it is _DATABASE or _TENANT. */
bool machine_is_alone(const struct machine *machine);

struct value *pop(struct machine *machine);
keel_bytes pop_bytes(struct machine *machine);
int64_t pop_int(struct machine *machine);
/* Pops N, then N elements: a tuple that is valid until the instruction is done. */
keel_tuple pop_tuple(struct machine *machine);
/* Pops `count` elements. */
keel_tuple pop_elements(struct machine *machine, int64_t count);
void push(struct machine *machine, struct value *value);
void push_text(struct machine *machine, const char *text);
void push_bytes(struct machine *machine, keel_bytes bytes);
void push_tuple(struct machine *machine, keel_tuple tuple);
void push_future(struct machine *machine, FDBFuture *future, enum future_kind kind);

/* Waits for the future and destroys it; `count` is the number that fdb_future_get_int64 has, or
 * NULL. */
fdb_error_t wait_int64(FDBFuture *future, int64_t *number);

void directories_init(struct directories *directories);
void directories_free(struct directories *directories);

/* UNIT_TESTS: what the instructions do not reach. Fails if something is wrong. */
void run_unit_tests(FDBDatabase *database);

#endif
