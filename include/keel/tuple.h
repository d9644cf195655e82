/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuple layer: ordered, typed keys, byte for byte those of FoundationDB's bindings.
 *
 *     uint8_t key[64];
 *     size_t length;
 *     error = keel_tuple_pack(KEEL_TUPLE("users", id, "email"), key, sizeof key, &length);
 *
 *     char table[16];
 *     int64_t id;
 *     keel_tuple_iterator it = keel_tuple_iterate(KEEL_BYTES(key, length));
 *     if (!(error = keel_tuple_next_string(&it, table, sizeof table, &length)))
 *         error = keel_tuple_next_int(&it, &id);
 *
 * Packing never touches the heap (only a builder does, beyond its inline space). Unpacking iterates
 * over the packed bytes and copies nothing unless asked to. Every function may be called from any
 * thread; values that are changed (iterators, builders) belong to one thread at a time.
 *
 * Errors: outputs are untouched on failure, with two exceptions that are useful:
 * KEEL_ERROR_BUFFER_TOO_SMALL sets *length to what is needed, and functions with an error offset
 * set that. A NULL where bytes are expected is fine if the length is 0.
 *
 * UTF-8: strings are checked when they are packed (KEEL_ERROR_NOT_UTF8): surrogates, overlong forms
 * and anything beyond U+10FFFF are refused, so that every binding can read the key. They are not
 * checked when unpacked, since some bindings write strings unchecked and their keys must stay
 * readable; such an element packs again unchanged, and keel_element_is_utf8 tells.
 *
 * Integers: unpacking takes any of the bindings' encodings, also those that are longer than needed
 * (some bindings give 2^64-1 one); packing always writes the shortest.
 */
#ifndef KEEL_TUPLE_H
#define KEEL_TUPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <keel/error.h>
#include <keel/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Values --- */

/* A view of bytes that somebody else owns. */
typedef struct keel_bytes {
    const uint8_t *data;
    size_t length;
} keel_bytes;

typedef enum keel_type {
    KEEL_TYPE_NULL,
    KEEL_TYPE_BYTES,   /* as_bytes */
    KEEL_TYPE_STRING,  /* as_bytes: UTF-8, no terminating NUL */
    KEEL_TYPE_NESTED,  /* as_tuple, or if `packed`: as_bytes, for keel_element_iterate */
    KEEL_TYPE_INT,     /* as_int */
    KEEL_TYPE_UINT,    /* as_uint; the iterator gives it only above INT64_MAX */
    KEEL_TYPE_BIG_INT, /* as_big; the iterator gives it only beyond both of the above */
    KEEL_TYPE_FLOAT,   /* as_float */
    KEEL_TYPE_DOUBLE,  /* as_double */
    KEEL_TYPE_BOOL,    /* as_bool */
    KEEL_TYPE_UUID,    /* as_uuid */
    /*
     * as_versionstamp: 10 bytes of the database, 2 of the user, big-endian; incomplete if the 10
     * are all 0xff.
     */
    KEEL_TYPE_VERSIONSTAMP
} keel_type;

enum {
    KEEL_UUID_LENGTH = 16,
    KEEL_VERSIONSTAMP_LENGTH = 12,
    KEEL_TRANSACTION_VERSION_LENGTH = 10, /* what fdb_transaction_get_versionstamp gives */
    KEEL_INTEGER_LENGTH_MAX = 255         /* bytes of an integer's magnitude */
};

typedef struct keel_element keel_element;

/* Elements that somebody else owns. */
typedef struct keel_tuple {
    const keel_element *elements;
    size_t count;
} keel_tuple;

typedef struct keel_big_int {
    keel_bytes magnitude; /* big-endian */
    bool negative;
} keel_big_int;

/*
 * One element. Made by KEEL_TUPLE and the functions below, or by an iterator, which sets `packed`
 * where the bytes lie in the key: then they are as the key has them. `escaped` says that this
 * differs from what they mean (00 ff for 00 in bytes and strings; all bits flipped in negative big
 * integers): take the value with keel_element_copy. Where it is 0, as_bytes is the value itself. An
 * element of either kind can be packed, compared, printed and appended.
 */
struct keel_element {
    keel_type type;
    uint8_t packed;
    uint8_t escaped;
    union {
        keel_bytes as_bytes;
        keel_tuple as_tuple;
        int64_t as_int;
        uint64_t as_uint;
        keel_big_int as_big;
        float as_float;
        double as_double;
        bool as_bool;
        uint8_t as_uuid[KEEL_UUID_LENGTH];
        uint8_t as_versionstamp[KEEL_VERSIONSTAMP_LENGTH];
    } value;
};

static inline keel_bytes keel_bytes_of(const void *data, size_t length) {
    keel_bytes bytes;
    bytes.data = (const uint8_t *)data;
    bytes.length = length;
    return bytes;
}

/* The bytes of a C string, without its NUL; NULL is no bytes. */
static inline keel_bytes keel_bytes_of_string(const char *string) {
    return keel_bytes_of(string, string ? strlen(string) : 0);
}

static inline keel_element keel_element_null(void) {
    keel_element element;
    memset(&element, 0, sizeof element);
    return element;
}
static inline keel_element keel_element_of_type_(keel_type type) {
    keel_element element = keel_element_null();
    element.type = type;
    return element;
}
static inline keel_element keel_element_of_bytes(keel_bytes bytes) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_BYTES);
    element.value.as_bytes = bytes;
    return element;
}
/* A UTF-8 string of a given length; it may hold NULs. */
static inline keel_element keel_element_of_text(const char *text, size_t length) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_STRING);
    element.value.as_bytes = keel_bytes_of(text, length);
    return element;
}
/* A C string as UTF-8. A NULL pointer is the element null. */
static inline keel_element keel_element_of_string(const char *string) {
    return string ? keel_element_of_text(string, strlen(string)) : keel_element_null();
}
static inline keel_element keel_element_of_int(int64_t value) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_INT);
    element.value.as_int = value;
    return element;
}
static inline keel_element keel_element_of_uint(uint64_t value) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_UINT);
    element.value.as_uint = value;
    return element;
}
/* An integer of any size: big-endian magnitude (leading zeros are allowed) and sign. */
static inline keel_element keel_element_of_big(const uint8_t *magnitude, size_t length,
                                               bool negative) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_BIG_INT);
    element.value.as_big.magnitude = keel_bytes_of(magnitude, length);
    element.value.as_big.negative = negative;
    return element;
}
static inline keel_element keel_element_of_float(float value) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_FLOAT);
    element.value.as_float = value;
    return element;
}
static inline keel_element keel_element_of_double(double value) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_DOUBLE);
    element.value.as_double = value;
    return element;
}
static inline keel_element keel_element_of_bool(bool value) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_BOOL);
    element.value.as_bool = value;
    return element;
}
static inline keel_element keel_element_of_uuid(const uint8_t *uuid) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_UUID);
    memcpy(element.value.as_uuid, uuid, KEEL_UUID_LENGTH);
    return element;
}
/* All 12 bytes. */
static inline keel_element keel_element_of_versionstamp(const uint8_t *versionstamp) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_VERSIONSTAMP);
    memcpy(element.value.as_versionstamp, versionstamp, KEEL_VERSIONSTAMP_LENGTH);
    return element;
}
/*
 * A versionstamp that the database completes at commit; user_version orders those of one
 * transaction.
 */
static inline keel_element keel_element_of_incomplete(uint16_t user_version) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_VERSIONSTAMP);
    memset(element.value.as_versionstamp, 0xff, KEEL_TRANSACTION_VERSION_LENGTH);
    element.value.as_versionstamp[10] = (uint8_t)(user_version >> 8);
    element.value.as_versionstamp[11] = (uint8_t)user_version;
    return element;
}
static inline keel_element keel_element_of_tuple(keel_tuple tuple) {
    keel_element element = keel_element_of_type_(KEEL_TYPE_NESTED);
    element.value.as_tuple = tuple;
    return element;
}
static inline keel_element keel_element_of_element_(keel_element element) {
    return element;
}
static inline keel_tuple keel_tuple_of(const keel_element *elements, size_t count) {
    keel_tuple tuple;
    tuple.elements = elements;
    tuple.count = count;
    return tuple;
}

/* Bytes, as an element of a tuple and wherever keel_bytes is asked for. */
#define KEEL_BYTES(data, length) keel_bytes_of((data), (length))

/*
 * Elements that C has no type for. KEEL_BOOL because true and a == b are of type int in C before
 * C23.
 */
#define KEEL_NIL keel_element_null()
#define KEEL_BOOL(value) keel_element_of_bool(value)
#define KEEL_TRUE keel_element_of_bool(1)
#define KEEL_FALSE keel_element_of_bool(0)
#define KEEL_TEXT(text, length) keel_element_of_text((text), (length))
#define KEEL_BIG(magnitude, length, negative) keel_element_of_big((magnitude), (length), (negative))
#define KEEL_UUID(uuid) keel_element_of_uuid(uuid)
#define KEEL_VERSIONSTAMP(versionstamp) keel_element_of_versionstamp(versionstamp)
#define KEEL_INCOMPLETE(user_version) keel_element_of_incomplete(user_version)

#ifndef __cplusplus
/*
 * The element for a C value, by its type: bool; every integer type, char included, as an integer;
 * float; double; char * as a UTF-8 string (NULL as null); keel_bytes as bytes; keel_tuple as a
 * nested tuple; keel_element as itself. Anything else, a pointer to unsigned char among it, does
 * not compile: say KEEL_BYTES or KEEL_TEXT.
 */
#define KEEL_ELEMENT(value) \
    _Generic((value), _Bool: keel_element_of_bool, char: keel_element_of_int, \
        signed char: keel_element_of_int, unsigned char: keel_element_of_uint, \
        short: keel_element_of_int, unsigned short: keel_element_of_uint, \
        int: keel_element_of_int, unsigned int: keel_element_of_uint, \
        long: keel_element_of_int, unsigned long: keel_element_of_uint, \
        long long: keel_element_of_int, unsigned long long: keel_element_of_uint, \
        float: keel_element_of_float, double: keel_element_of_double, \
        char *: keel_element_of_string, const char *: keel_element_of_string, \
        keel_bytes: keel_element_of_bytes, keel_tuple: keel_element_of_tuple, \
        keel_element: keel_element_of_element_)(value)

/*
 * A tuple of 0 to 32 values: KEEL_TUPLE("users", id, 3.5, KEEL_BYTES(p, n)). It lives until the end
 * of the enclosing block and points to the strings, bytes and tuples it was made of. Not for file
 * scope. C only: in C++ build an array of keel_element_of_… for keel_tuple_of.
 */
#define KEEL_TUPLE(...) KEEL_JOIN_(KEEL_TUPLE_, KEEL_EMPTY_(__VA_ARGS__))(__VA_ARGS__)
#define KEEL_TUPLE_0(...) \
    keel_tuple_of((const keel_element[]){KEEL_MAP(KEEL_ELEMENT, __VA_ARGS__)}, \
                  KEEL_COUNT(__VA_ARGS__))
#define KEEL_TUPLE_1(...) keel_tuple_of((const keel_element *)0, 0)

/* A tuple as an element of another. KEEL_TUPLE("a", KEEL_TUPLE("b")) means the same. */
#define KEEL_NEST(...) keel_element_of_tuple(KEEL_TUPLE(__VA_ARGS__))
#endif

/* --- Packing into the caller's buffer --- */

/*
 * The packed form of `tuple`, at most `capacity` bytes of it into `buffer`; *length is set to its
 * whole length. BUFFER_TOO_SMALL (with *length; what the buffer holds is then undefined; NULL with
 * capacity 0 asks for the length), NOT_UTF8, INTEGER_TOO_LARGE, INCOMPLETE_VERSIONSTAMP, ARGUMENT
 * (an element without a type), TUPLE_MALFORMED (a `packed` element that is none).
 */
fdb_error_t keel_tuple_pack(keel_tuple tuple, uint8_t *buffer, size_t capacity, size_t *length);

/* The same behind `prefix`. */
fdb_error_t keel_tuple_pack_prefix(keel_bytes prefix, keel_tuple tuple, uint8_t *buffer,
                                   size_t capacity, size_t *length);

/*
 * Packs a tuple with exactly one incomplete versionstamp, nested ones included, and appends the
 * stamp's position as FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY (or _VALUE) wants it. Errors as
 * above, with NO_VERSIONSTAMP and MANY_VERSIONSTAMPS; ARGUMENT if the position does not fit.
 */
fdb_error_t keel_tuple_pack_versionstamp(keel_tuple tuple, uint8_t *buffer, size_t capacity,
                                         size_t *length);
fdb_error_t keel_tuple_pack_versionstamp_prefix(keel_bytes prefix, keel_tuple tuple,
                                                uint8_t *buffer, size_t capacity, size_t *length);

/*
 * The API version that the program selected, if it is another than FDB_API_VERSION 740: positions
 * of versionstamps have 4 bytes from 520 on, 2 before. The C API does not tell, so say it once
 * after fdb_select_api_version. For the whole process.
 */
void keel_tuple_use_api_version(int api_version);

/* Whether the tuple, or one nested in it, holds an incomplete versionstamp. */
bool keel_tuple_has_incomplete(keel_tuple tuple);
/* Whether this element is one. */
bool keel_element_is_incomplete(const keel_element *element);

/*
 * The keys that extend the tuple by at least one element: [packed 00, packed ff). Both have the
 * same *length; both buffers hold `capacity`.
 */
fdb_error_t keel_tuple_range(keel_tuple tuple, uint8_t *begin, uint8_t *end, size_t capacity,
                             size_t *length);
fdb_error_t keel_tuple_range_prefix(keel_bytes prefix, keel_tuple tuple, uint8_t *begin,
                                    uint8_t *end, size_t capacity, size_t *length);

/*
 * The first key behind all that begin with `prefix`, of at most prefix.length bytes; buffer may be
 * prefix.data. NO_SUCCESSOR, BUFFER_TOO_SMALL.
 */
fdb_error_t keel_strinc(keel_bytes prefix, uint8_t *buffer, size_t capacity, size_t *length);

/* --- Packing step by step --- */

enum { KEEL_TUPLE_BUILDER_SPACE = 256 };

/*
 * Grows as needed; touches the heap beyond KEEL_TUPLE_BUILDER_SPACE bytes only. The first error
 * sticks: appends after it do nothing, finish returns it. So a caller may append everything and
 * look once. The members are private.
 *
 *     keel_tuple_builder builder;
 *     keel_bytes key;
 *     keel_tuple_builder_init(&builder);
 *     keel_tuple_append_string(&builder, "matrix");
 *     for (size_t i = 0; i < dimensions; i++)
 *         keel_tuple_append_int(&builder, index[i]);
 *     if (!(error = keel_tuple_builder_finish(&builder, &key)))
 *         fdb_transaction_set(tr, key.data, (int)key.length, …);
 *     keel_tuple_builder_free(&builder);
 */
typedef struct keel_tuple_builder {
    uint8_t *heap; /* NULL while the bytes fit into `space` */
    size_t length, capacity;
    size_t prefix_length;
    size_t stamp_position; /* of the last incomplete versionstamp */
    uint32_t stamp_count;
    uint32_t depth; /* of open nested tuples */
    fdb_error_t error;
    uint8_t space[KEEL_TUPLE_BUILDER_SPACE];
} keel_tuple_builder;

void keel_tuple_builder_init(keel_tuple_builder *builder);
/* Forgets what was appended, and the error; keeps the memory. */
void keel_tuple_builder_clear(keel_tuple_builder *builder);
/* Gives the memory back; the builder may be initialised again. */
void keel_tuple_builder_free(keel_tuple_builder *builder);

/* Raw bytes before the tuple; before the first element only (ARGUMENT). */
void keel_tuple_append_prefix(keel_tuple_builder *builder, keel_bytes prefix);

void keel_tuple_append(keel_tuple_builder *builder, keel_element element);
/* each of its elements */
void keel_tuple_append_all(keel_tuple_builder *builder, keel_tuple tuple);
/* each element of a packed tuple; TUPLE_MALFORMED */
void keel_tuple_append_packed(keel_tuple_builder *builder, keel_bytes packed);
void keel_tuple_append_null(keel_tuple_builder *builder);
void keel_tuple_append_bytes(keel_tuple_builder *builder, keel_bytes bytes);
void keel_tuple_append_string(keel_tuple_builder *builder, const char *string);
void keel_tuple_append_text(keel_tuple_builder *builder, const char *text, size_t length);
void keel_tuple_append_int(keel_tuple_builder *builder, int64_t value);
void keel_tuple_append_uint(keel_tuple_builder *builder, uint64_t value);
void keel_tuple_append_big(keel_tuple_builder *builder, const uint8_t *magnitude, size_t length,
                           bool negative);
void keel_tuple_append_float(keel_tuple_builder *builder, float value);
void keel_tuple_append_double(keel_tuple_builder *builder, double value);
void keel_tuple_append_bool(keel_tuple_builder *builder, bool value);
void keel_tuple_append_uuid(keel_tuple_builder *builder, const uint8_t *uuid);
void keel_tuple_append_versionstamp(keel_tuple_builder *builder, const uint8_t *versionstamp);
void keel_tuple_append_incomplete(keel_tuple_builder *builder, uint16_t user_version);
/* as one nested element */
void keel_tuple_append_tuple(keel_tuple_builder *builder, keel_tuple tuple);
/* What is appended between the two becomes one nested element; they pair up (ARGUMENT). */
void keel_tuple_append_begin(keel_tuple_builder *builder);
void keel_tuple_append_end(keel_tuple_builder *builder);

/* KEEL_APPEND(&builder, value): keel_tuple_append by the value's C type. */
#ifndef __cplusplus
#define KEEL_APPEND(builder, value) keel_tuple_append((builder), KEEL_ELEMENT(value))
#endif

/*
 * The packed tuple; the bytes are the builder's, until it is changed or freed. Appending may go on
 * afterwards. The first error of the appends (those of keel_tuple_pack, or 1501
 * large_alloc_failed), ARGUMENT if a nested tuple is open, INCOMPLETE_VERSIONSTAMP.
 */
fdb_error_t keel_tuple_builder_finish(keel_tuple_builder *builder, keel_bytes *packed);
/*
 * The same for exactly one incomplete versionstamp, its position appended (to what is returned, not
 * to the builder). NO_VERSIONSTAMP, MANY_VERSIONSTAMPS.
 */
fdb_error_t keel_tuple_builder_finish_versionstamp(keel_tuple_builder *builder, keel_bytes *packed);
/*
 * The same, where incomplete versionstamps may stand as they are: ten 0xff. For texts and tests,
 * not for keys.
 */
fdb_error_t keel_tuple_builder_finish_any(keel_tuple_builder *builder, keel_bytes *packed);

/* --- Unpacking by iteration --- */

/*
 * Walks over packed bytes, which must outlive it and all elements taken from it. A value: copy it
 * to remember a position. `position` is the offset, in the bytes it was started on, of the next
 * element, or of the byte that is wrong; the rest is private.
 */
typedef struct keel_tuple_iterator {
    const uint8_t *data;
    size_t length;
    size_t position;
    fdb_error_t error; /* sticks */
    bool nested;       /* null is 00 ff in here */
} keel_tuple_iterator;

keel_tuple_iterator keel_tuple_iterate(keel_bytes packed);
/*
 * Iterates behind the first `prefix_length` bytes of a key; nothing is left if there are not that
 * many.
 */
keel_tuple_iterator keel_tuple_iterate_behind(keel_bytes key, size_t prefix_length);

/*
 * The next element. TUPLE_END when none is left. TUPLE_MALFORMED: iterator->position is then the
 * offset of the byte that is wrong, or of the end if bytes are missing there, and stays so: later
 * calls say the same. A nested tuple is checked to its depths before it is returned.
 */
fdb_error_t keel_tuple_next(keel_tuple_iterator *iterator, keel_element *element);
/* Skips `count` elements. */
fdb_error_t keel_tuple_skip(keel_tuple_iterator *iterator, size_t count);
bool keel_tuple_at_end(const keel_tuple_iterator *iterator);

/*
 * The next element as a C value. TUPLE_TYPE if it is of another type, INTEGER_TOO_LARGE if it does
 * not fit (also: negative for uint), BUFFER_TOO_SMALL; in these cases the iterator stays before the
 * element. Others as keel_tuple_next.
 */
fdb_error_t keel_tuple_next_null(keel_tuple_iterator *iterator);
fdb_error_t keel_tuple_next_int(keel_tuple_iterator *iterator, int64_t *value);
fdb_error_t keel_tuple_next_uint(keel_tuple_iterator *iterator, uint64_t *value);
fdb_error_t keel_tuple_next_float(keel_tuple_iterator *iterator, float *value);
fdb_error_t keel_tuple_next_double(keel_tuple_iterator *iterator, double *value);
fdb_error_t keel_tuple_next_bool(keel_tuple_iterator *iterator, bool *value);
fdb_error_t keel_tuple_next_uuid(keel_tuple_iterator *iterator, uint8_t uuid[KEEL_UUID_LENGTH]);
fdb_error_t keel_tuple_next_versionstamp(keel_tuple_iterator *iterator,
                                         uint8_t versionstamp[KEEL_VERSIONSTAMP_LENGTH]);
/* A copy of the bytes. */
fdb_error_t keel_tuple_next_bytes(keel_tuple_iterator *iterator, uint8_t *buffer, size_t capacity,
                                  size_t *length);
/* A copy of the string with a NUL behind it; *length does not count the NUL, the capacity must. */
fdb_error_t keel_tuple_next_string(keel_tuple_iterator *iterator, char *buffer, size_t capacity,
                                   size_t *length);
/* An iterator over the next element, a nested tuple. */
fdb_error_t keel_tuple_next_nested(keel_tuple_iterator *iterator, keel_tuple_iterator *nested);

/*
 * Whether these bytes are a packed tuple: 0, or TUPLE_MALFORMED with *offset (may be NULL) as in
 * keel_tuple_next.
 */
fdb_error_t keel_tuple_check(keel_bytes packed, size_t *offset);

/*
 * All elements at once, without a copy. *count is set to their number, also with BUFFER_TOO_SMALL;
 * TUPLE_MALFORMED sets *offset (may be NULL).
 */
fdb_error_t keel_tuple_unpack(keel_bytes packed, keel_element *elements, size_t capacity,
                              size_t *count, size_t *offset);

/* --- Looking into elements, of either kind --- */

/* Errors as those of keel_tuple_next_… */
fdb_error_t keel_element_int(const keel_element *element, int64_t *value);
fdb_error_t keel_element_uint(const keel_element *element, uint64_t *value);

/*
 * The value of bytes or a string, or the magnitude of any integer (big-endian, shortest; zero is no
 * bytes). TUPLE_TYPE, BUFFER_TOO_SMALL.
 */
fdb_error_t keel_element_copy(const keel_element *element, uint8_t *buffer, size_t capacity,
                              size_t *length);
/* -1, 0 or 1 for an integer of any size; 0 for other types. */
int keel_element_sign(const keel_element *element);
/* Whether this is a string whose bytes are UTF-8. */
bool keel_element_is_utf8(const keel_element *element);
/* An iterator over a nested tuple that an iterator returned. TUPLE_TYPE for anything else. */
fdb_error_t keel_element_iterate(const keel_element *element, keel_tuple_iterator *nested);

/* --- Order --- */

/* Each is negative, 0 or positive. Packed keys are in the order of their bytes. */
int keel_bytes_compare(keel_bytes a, keel_bytes b);
/*
 * The order of the packed forms, without packing: first by type (null, bytes, strings, nested,
 * integers, floats, doubles, booleans, UUIDs, versionstamps), then by value; integers by value
 * whatever their size; floats in IEEE's total order (-nan < -inf < … < -0.0 < 0.0 < … < inf < nan);
 * a tuple before its extensions. An element without a known type is greatest.
 */
int keel_element_compare(const keel_element *a, const keel_element *b);
int keel_tuple_compare(keel_tuple a, keel_tuple b);

/* --- Text --- */

/*
 * Every tuple has a text that parses back into the same bytes:
 *
 *     ("users", 42, 0x00ff, 3.5, null)
 *
 *     tuple         ( element, … ); spaces, tabs and newlines may stand between any two tokens;
 *                   a comma may follow the last element
 *     null          null
 *     bytes         0x and an even number of hex digits; 0x alone is no bytes
 *     string        "…" in UTF-8 with the escapes \" \\ \n \r \t \0, \xHH for any byte (also
 *                   such as are not UTF-8) and \u{H…} for a code point. Printed with \n \r \t,
 *                   with \xHH for other control characters and whatever is not UTF-8, else as is
 *     nested tuple  a tuple
 *     integer       decimal digits, - before them if negative; up to 255 bytes of magnitude
 *     double        decimal with a point, an exponent or both: 3.5 -0.0 1e300; inf -inf; nan
 *                   -nan, and nan(0x…) with the 52 bits of its mantissa where they are not just
 *                   the topmost. Printed with the fewest digits that read back exactly
 *     float         the same followed by f: 3.5f 1e10f inff nanf nanf(0x…) with 23 bits
 *     boolean       true false
 *     UUID          uuid(00112233-4455-6677-8899-aabbccddeeff)
 *     versionstamp  versionstamp(0x00112233445566778899, 7): ten bytes and the user version;
 *                   incomplete(7)
 *
 * The locale has no influence. An integer that was packed longer than needed is the one thing that
 * reads back in other bytes.
 */

/*
 * The text of packed bytes, NUL-terminated; *length does not count the NUL, the capacity must.
 * BUFFER_TOO_SMALL (*length), TUPLE_MALFORMED (keel_tuple_check has the offset).
 */
fdb_error_t keel_tuple_print(keel_bytes packed, char *buffer, size_t capacity, size_t *length);
/* The text of one element, of either kind. */
fdb_error_t keel_element_print(const keel_element *element, char *buffer, size_t capacity,
                               size_t *length);

/*
 * The packed bytes of a text; incomplete versionstamps are ten 0xff in them. TUPLE_TEXT,
 * INTEGER_TOO_LARGE: *offset (may be NULL) is where in the text. BUFFER_TOO_SMALL. `buffer` may be
 * NULL with capacity 0 to ask for the length.
 */
fdb_error_t keel_tuple_parse(const char *text, size_t text_length, uint8_t *buffer, size_t capacity,
                             size_t *length, size_t *offset);

#ifdef __cplusplus
}
#endif

#endif
