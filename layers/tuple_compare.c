/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of elements and tuples without packing them: the same as that of their packed bytes (a
 * test compares the two over random tuples).
 *
 * First the types, in the order of their codes, where all integers are one type and both booleans
 * are; then the values. Bytes are compared as they would be unescaped, integers by sign, length and
 * magnitude, floats by the order of their turned bits. Two nested tuples are compared element by
 * element: where both lie packed in keys, in lockstep without recursion, since their depths are
 * equal as long as no difference was found; where one is an array of the caller's, by recursion,
 * which goes as deep as the caller's arrays do.
 *
 * No state, any thread. It cannot fail: a `packed` element that is malformed is taken as ending
 * there.
 */
#include "tuple_private.h"

static int compare_numbers(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

KEEL_EXPORT int keel_bytes_compare(keel_bytes a, keel_bytes b) {
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common > 0 ? memcmp(a.data, b.data, common) : 0;
    return order ? order : compare_numbers(a.length, b.length);
}

/* --- Scalars --- */

/* The next byte of bytes that may be escaped, or -1 at their end. */
static int next_byte(const keel_element *element, size_t *position) {
    keel_bytes bytes = element->value.as_bytes;
    if (*position >= bytes.length)
        return -1;
    uint8_t byte = bytes.data[(*position)++];
    if (byte == 0 && element->escaped)
        (*position)++;
    return byte;
}

static int compare_bytes(const keel_element *a, const keel_element *b) {
    size_t position_a = 0, position_b = 0;
    int byte_a, byte_b;
    if (!a->escaped && !b->escaped)
        return keel_bytes_compare(a->value.as_bytes, b->value.as_bytes);
    do {
        byte_a = next_byte(a, &position_a);
        byte_b = next_byte(b, &position_b);
    } while (byte_a == byte_b && byte_a >= 0);
    return byte_a - byte_b;
}

static int compare_integers(const keel_element *a, const keel_element *b) {
    tuple_integer integer_a, integer_b;
    tuple_integer_of(a, &integer_a);
    tuple_integer_of(b, &integer_b);
    if (integer_a.sign != integer_b.sign)
        return integer_a.sign - integer_b.sign;
    int order = compare_numbers(integer_a.length, integer_b.length);
    for (size_t i = 0; order == 0 && i < integer_a.length; i++)
        order = (integer_a.bytes[i] ^ integer_a.mask) - (integer_b.bytes[i] ^ integer_b.mask);
    return integer_a.sign < 0 ? -order : order;
}

static int compare_floats(const keel_element *a, const keel_element *b) {
    uint32_t bits_a, bits_b;
    memcpy(&bits_a, &a->value.as_float, sizeof bits_a);
    memcpy(&bits_b, &b->value.as_float, sizeof bits_b);
    return compare_numbers(tuple_float_to_ordered(bits_a), tuple_float_to_ordered(bits_b));
}

static int compare_doubles(const keel_element *a, const keel_element *b) {
    uint64_t bits_a, bits_b;
    memcpy(&bits_a, &a->value.as_double, sizeof bits_a);
    memcpy(&bits_b, &b->value.as_double, sizeof bits_b);
    return compare_numbers(tuple_double_to_ordered(bits_a), tuple_double_to_ordered(bits_b));
}

static int rank(keel_type type) {
    switch (type) {
    case KEEL_TYPE_NULL:
        return CODE_NULL;
    case KEEL_TYPE_BYTES:
        return CODE_BYTES;
    case KEEL_TYPE_STRING:
        return CODE_STRING;
    case KEEL_TYPE_NESTED:
        return CODE_NESTED;
    case KEEL_TYPE_INT:
    case KEEL_TYPE_UINT:
    case KEEL_TYPE_BIG_INT:
        return CODE_INT_ZERO;
    case KEEL_TYPE_FLOAT:
        return CODE_FLOAT;
    case KEEL_TYPE_DOUBLE:
        return CODE_DOUBLE;
    case KEEL_TYPE_BOOL:
        return CODE_FALSE;
    case KEEL_TYPE_UUID:
        return CODE_UUID;
    case KEEL_TYPE_VERSIONSTAMP:
        return CODE_VERSIONSTAMP;
    }
    return CODE_ESCAPE;
}

/* --- Nested tuples --- */

/*
 * Where a token stands between two tuples equal so far: an end sorts before any element, a begin
 * among elements as its code.
 */
static int token_rank(tuple_token token, const keel_element *element) {
    if (token == TOKEN_FINISH || token == TOKEN_END)
        return -1;
    return token == TOKEN_BEGIN ? CODE_NESTED : rank(element->type);
}

static int compare_packed(keel_bytes a, keel_bytes b) {
    keel_tuple_iterator iterator_a = keel_tuple_iterate(a), iterator_b = keel_tuple_iterate(b);
    size_t depth_a = 0, depth_b = 0;
    iterator_a.nested = iterator_b.nested = true;
    for (;;) {
        tuple_token token_a, token_b;
        keel_element element_a, element_b;
        if (tuple_step(&iterator_a, &depth_a, &token_a, &element_a))
            token_a = TOKEN_FINISH;
        if (tuple_step(&iterator_b, &depth_b, &token_b, &element_b))
            token_b = TOKEN_FINISH;
        int order = token_rank(token_a, &element_a) - token_rank(token_b, &element_b);
        if (order == 0 && token_a == TOKEN_ELEMENT)
            order = keel_element_compare(&element_a, &element_b);
        if (order != 0 || token_a == TOKEN_FINISH || token_b == TOKEN_FINISH)
            return order;
    }
}

/* The elements of a nested tuple of either kind, one by one. */
typedef struct cursor {
    keel_tuple tuple;
    size_t index;
    keel_tuple_iterator iterator;
    bool packed;
} cursor;

static cursor cursor_of(const keel_element *nested) {
    cursor result = {.packed = nested->packed};
    if (nested->packed)
        keel_element_iterate(nested, &result.iterator);
    else
        result.tuple = nested->value.as_tuple;
    return result;
}

static bool cursor_next(cursor *from, keel_element *element) {
    if (from->packed)
        return keel_tuple_next(&from->iterator, element) == 0;
    if (from->index == from->tuple.count)
        return false;
    *element = from->tuple.elements[from->index++];
    return true;
}

static int compare_nested(const keel_element *a, const keel_element *b) {
    if (a->packed && b->packed)
        return compare_packed(a->value.as_bytes, b->value.as_bytes);
    cursor cursor_a = cursor_of(a), cursor_b = cursor_of(b);
    for (;;) {
        keel_element element_a, element_b;
        bool more_a = cursor_next(&cursor_a, &element_a);
        bool more_b = cursor_next(&cursor_b, &element_b);
        if (!more_a || !more_b)
            return (int)more_a - (int)more_b;
        int order = keel_element_compare(&element_a, &element_b);
        if (order)
            return order;
    }
}

/* --- Elements and tuples --- */

KEEL_EXPORT int keel_element_compare(const keel_element *a, const keel_element *b) {
    int order = rank(a->type) - rank(b->type);
    if (order)
        return order;
    switch (a->type) {
    case KEEL_TYPE_NULL:
        return 0;
    case KEEL_TYPE_BYTES:
    case KEEL_TYPE_STRING:
        return compare_bytes(a, b);
    case KEEL_TYPE_NESTED:
        return compare_nested(a, b);
    case KEEL_TYPE_INT:
    case KEEL_TYPE_UINT:
    case KEEL_TYPE_BIG_INT:
        return compare_integers(a, b);
    case KEEL_TYPE_FLOAT:
        return compare_floats(a, b);
    case KEEL_TYPE_DOUBLE:
        return compare_doubles(a, b);
    case KEEL_TYPE_BOOL:
        return (int)a->value.as_bool - (int)b->value.as_bool;
    case KEEL_TYPE_UUID:
        return memcmp(a->value.as_uuid, b->value.as_uuid, KEEL_UUID_LENGTH);
    case KEEL_TYPE_VERSIONSTAMP:
        return memcmp(a->value.as_versionstamp, b->value.as_versionstamp, KEEL_VERSIONSTAMP_LENGTH);
    }
    return 0;
}

KEEL_EXPORT int keel_tuple_compare(keel_tuple a, keel_tuple b) {
    keel_element element_a = keel_element_of_tuple(a), element_b = keel_element_of_tuple(b);
    return compare_nested(&element_a, &element_b);
}
