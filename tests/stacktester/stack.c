/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack, and futures on it. A future is pushed as it is and waited for when it is popped, so
 * that reads of one transaction run at the same time and results that come too late (after a reset
 * or a cancel) are seen as such.
 *
 * What a future becomes: its value; RESULT_NOT_PRESENT for nothing, also for a get of a key that is
 * not there; the tuple ("ERROR", code).
 */
#include "machine.h"

#include <stdlib.h>

struct pending {
    unsigned references; /* DUP shares it */
    FDBFuture *future;
    enum future_kind kind;
    struct value *value; /* once waited for */
};

static void pending_release(struct pending *pending) {
    if (!pending || --pending->references > 0)
        return;
    fdb_future_destroy(pending->future);
    value_release(pending->value);
    free(pending);
}

static fdb_error_t result_of(FDBFuture *future, enum future_kind kind, struct value **value) {
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int length = 0;
    fdb_error_t error = keel_wait(future);
    if (!error && kind == FUTURE_VALUE)
        error = fdb_future_get_value(future, &present, &data, &length);
    if (!error && kind == FUTURE_KEY) {
        error = fdb_future_get_key(future, &data, &length);
        present = 1;
    }
    if (!error)
        *value = present ? value_bytes(KEEL_BYTES(data, (size_t)length))
                         : value_text("RESULT_NOT_PRESENT");
    return error;
}

static struct value *pending_wait(struct pending *pending) {
    if (!pending->value) {
        fdb_error_t error = result_of(pending->future, pending->kind, &pending->value);
        if (error)
            pending->value = value_error(error);
    }
    return value_retain(pending->value);
}

static void push_entry(struct stack *stack, struct entry entry) {
    if (stack->count == stack->capacity) {
        stack->capacity = stack->capacity ? stack->capacity * 2 : 64;
        stack->entries = allocate_more(stack->entries, stack->capacity * sizeof *stack->entries);
    }
    stack->entries[stack->count++] = entry;
}

void stack_push(struct stack *stack, int64_t instruction, struct value *value) {
    push_entry(stack, (struct entry){instruction, value, NULL});
}

void stack_push_future(struct stack *stack, int64_t instruction, FDBFuture *future,
                       enum future_kind kind) {
    struct pending *pending = allocate(sizeof *pending);
    *pending = (struct pending){1, future, kind, NULL};
    push_entry(stack, (struct entry){instruction, NULL, pending});
}

struct value *stack_pop(struct stack *stack, int64_t *instruction) {
    if (!stack->count)
        fail("pop from an empty stack");
    struct entry entry = stack->entries[--stack->count];
    if (instruction)
        *instruction = entry.instruction;
    if (entry.value)
        return entry.value;
    struct value *value = pending_wait(entry.pending);
    pending_release(entry.pending);
    return value;
}

void stack_duplicate(struct stack *stack) {
    if (!stack->count)
        fail("DUP of an empty stack");
    struct entry entry = stack->entries[stack->count - 1];
    if (entry.value)
        value_retain(entry.value);
    else
        entry.pending->references++;
    push_entry(stack, entry);
}

void stack_swap(struct stack *stack, int64_t depth) {
    if (depth < 0 || (uint64_t)depth >= stack->count)
        fail("SWAP with depth %lld of %zu", (long long)depth, stack->count);
    size_t top = stack->count - 1, other = top - (size_t)depth;
    struct entry entry = stack->entries[top];
    stack->entries[top] = stack->entries[other];
    stack->entries[other] = entry;
}

void stack_clear(struct stack *stack) {
    while (stack->count) {
        struct entry entry = stack->entries[--stack->count];
        value_release(entry.value);
        pending_release(entry.pending);
    }
}

void stack_free(struct stack *stack) {
    stack_clear(stack);
    free(stack->entries);
}
