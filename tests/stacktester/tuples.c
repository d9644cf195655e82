/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions on tuples. Items come from the stack as elements and are packed by the layer; packed
 * tuples come as byte strings and are taken apart by it.
 */
#include "machine.h"

#include <stdlib.h>

static fdb_error_t do_pack(struct machine *machine) {
    push_tuple(machine, pop_tuple(machine));
    return 0;
}

static fdb_error_t do_pack_with_versionstamp(struct machine *machine) {
    struct buffer packed = {0};
    keel_bytes prefix = pop_bytes(machine);
    keel_tuple tuple = pop_tuple(machine);
    buffer_append(&packed, prefix.data, prefix.length);
    fdb_error_t error = tuple_append(tuple, true, &packed);
    if (error == KEEL_ERROR_NO_VERSIONSTAMP) {
        push_text(machine, "ERROR: NONE");
    } else if (error == KEEL_ERROR_MANY_VERSIONSTAMPS) {
        push_text(machine, "ERROR: MULTIPLE");
    } else {
        must(error, "packing a versionstamp");
        push_text(machine, "OK");
        push_bytes(machine, buffer_bytes(&packed));
    }
    if (keel_tuple_has_incomplete(tuple) == (error == KEEL_ERROR_NO_VERSIONSTAMP))
        fail("keel_tuple_has_incomplete disagrees with packing: %d", error);
    buffer_free(&packed);
    return 0;
}

static fdb_error_t do_unpack(struct machine *machine) {
    struct pool pool = {0};
    keel_tuple tuple;
    must(tuple_decode(keel_tuple_iterate(pop_bytes(machine)), &pool, &tuple), "TUPLE_UNPACK");
    for (size_t i = 0; i < tuple.count; i++)
        push_tuple(machine, keel_tuple_of(&tuple.elements[i], 1));
    pool_free(&pool);
    return 0;
}

static fdb_error_t do_range(struct machine *machine) {
    keel_tuple tuple = pop_tuple(machine);
    size_t capacity = 0, length;
    fdb_error_t error = keel_tuple_range(tuple, NULL, NULL, 0, &capacity);
    if (error != KEEL_ERROR_BUFFER_TOO_SMALL)
        must(error, "TUPLE_RANGE");
    uint8_t *begin = allocate(capacity), *end = allocate(capacity);
    must(keel_tuple_range(tuple, begin, end, capacity, &length), "TUPLE_RANGE");
    push_bytes(machine, KEEL_BYTES(begin, length));
    push_bytes(machine, KEEL_BYTES(end, length));
    free(begin);
    free(end);
    return 0;
}

static int compare_tuples(const void *left, const void *right) {
    return keel_tuple_compare(*(const keel_tuple *)left, *(const keel_tuple *)right);
}

static fdb_error_t do_sort(struct machine *machine) {
    struct pool pool = {0};
    size_t count = (size_t)pop_int(machine);
    keel_tuple *tuples = pool_take(&pool, count * sizeof *tuples);
    for (size_t i = 0; i < count; i++)
        must(tuple_decode(keel_tuple_iterate(pop_bytes(machine)), &pool, &tuples[i]), "TUPLE_SORT");
    qsort(tuples, count, sizeof *tuples, compare_tuples);
    for (size_t i = 0; i < count; i++)
        push_tuple(machine, tuples[i]);
    pool_free(&pool);
    return 0;
}

/* The big-endian bytes of a number of this size, and back. */
static uint64_t pop_bits(struct machine *machine, size_t size) {
    keel_bytes bytes = pop_bytes(machine);
    uint64_t bits = 0;
    if (bytes.length != size)
        fail("%s of %zu bytes", machine->operation, bytes.length);
    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | bytes.data[i];
    return bits;
}

static void push_bits(struct machine *machine, uint64_t bits, size_t size) {
    uint8_t bytes[sizeof bits];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(bits >> (8 * (size - 1 - i)));
    push_bytes(machine, KEEL_BYTES(bytes, size));
}

static fdb_error_t do_encode_float(struct machine *machine) {
    uint32_t bits = (uint32_t)pop_bits(machine, sizeof bits);
    float number;
    memcpy(&number, &bits, sizeof number);
    keel_element element = keel_element_of_float(number);
    push(machine, value_element(&element));
    return 0;
}

static fdb_error_t do_encode_double(struct machine *machine) {
    uint64_t bits = pop_bits(machine, sizeof bits);
    double number;
    memcpy(&number, &bits, sizeof number);
    keel_element element = keel_element_of_double(number);
    push(machine, value_element(&element));
    return 0;
}

static fdb_error_t do_decode_float(struct machine *machine) {
    const keel_element *element = &pop(machine)->element;
    uint32_t bits;
    if (element->type != KEEL_TYPE_FLOAT)
        fail("DECODE_FLOAT of type %d", (int)element->type);
    memcpy(&bits, &element->value.as_float, sizeof bits);
    push_bits(machine, bits, sizeof bits);
    return 0;
}

static fdb_error_t do_decode_double(struct machine *machine) {
    const keel_element *element = &pop(machine)->element;
    uint64_t bits;
    if (element->type != KEEL_TYPE_DOUBLE)
        fail("DECODE_DOUBLE of type %d", (int)element->type);
    memcpy(&bits, &element->value.as_double, sizeof bits);
    push_bits(machine, bits, sizeof bits);
    return 0;
}

const struct operation tuple_operations[] = {
    {"TUPLE_PACK", do_pack},
    {"TUPLE_PACK_WITH_VERSIONSTAMP", do_pack_with_versionstamp},
    {"TUPLE_UNPACK", do_unpack},
    {"TUPLE_RANGE", do_range},
    {"TUPLE_SORT", do_sort},
    {"ENCODE_FLOAT", do_encode_float},
    {"ENCODE_DOUBLE", do_encode_double},
    {"DECODE_FLOAT", do_decode_float},
    {"DECODE_DOUBLE", do_decode_double},
    {NULL, NULL},
};
