/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuple layer, case by case: the bytes of every type (from the format's specification and the
 * published test data of the Java and Go bindings), how C values become elements, versionstamps,
 * the builder, the iterator, malformed bytes, ranges, order and the text form. test_tuple_random.c
 * has the properties that hold for all tuples.
 */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <keel/tuple.h>

enum { SPACE = 4096 };

/* --- Helpers --- */

static size_t from_hex(const char *hex, uint8_t *bytes) {
    size_t length = 0;
    for (; *hex; hex++) {
        if (*hex == ' ')
            continue;
        char pair[3] = {hex[0], hex[1], 0};
        bytes[length++] = (uint8_t)strtoul(pair, NULL, 16);
        hex++;
    }
    return length;
}

static void assert_hex(keel_bytes found, const char *hex) {
    uint8_t expected[SPACE];
    size_t length = from_hex(hex, expected);
    assert_int_equal(found.length, length);
    if (length > 0)
        assert_memory_equal(found.data, expected, length);
}

static void assert_packs(keel_tuple tuple, const char *hex) {
    uint8_t buffer[SPACE];
    size_t length;
    assert_int_equal(keel_tuple_pack(tuple, buffer, sizeof buffer, &length), 0);
    assert_hex(keel_bytes_of(buffer, length), hex);
}

static void assert_refused(keel_tuple tuple, fdb_error_t error) {
    uint8_t buffer[SPACE];
    size_t length = 77;
    assert_int_equal(keel_tuple_pack(tuple, buffer, sizeof buffer, &length), error);
    assert_int_equal(length, 77);
}

/* --- Vectors --- */

typedef struct vector {
    const char *text;
    const char *hex;
} vector;

static const vector vectors[] = {
    /* The specification. */
    {"(null)", "00"},
    {"(0x666f6f00626172)", "01 666f6f00ff626172 00"},
    {"(\"FÔO\\x00bar\")", "02 46c3944f00ff626172 00"},
    {"((0x666f6f00626172, null, ()))", "05 01666f6f00ff62617200 00ff 0500 00"},
    {"(())", "0500"},
    {"((null))", "0500ff00"},
    {"(-5551212)", "11 ab4b93"},
    {"(-1)", "13fe"},
    {"(-42.0f)", "20 3dd7ffff"},
    {"(false, true)", "2627"},
    /* The Java binding's tests. */
    {"()", ""},
    {"(0)", "14"},
    {"(1)", "1501"},
    {"(255)", "15ff"},
    {"(-255)", "1300"},
    {"(256)", "160100"},
    {"(-256)", "12feff"},
    {"(65536)", "17010000"},
    {"(-65536)", "11feffff"},
    {"(9223372036854775807)", "1c7fffffffffffffff"},
    {"(9223372036854775808)", "1c8000000000000000"},
    {"(18446744073709551615)", "1cffffffffffffffff"},
    {"(18446744073709551616)", "1d09010000000000000000"},
    {"(-4294967295)", "1000000000"},
    {"(-9223372036854775806)", "0c8000000000000001"},
    {"(-9223372036854775807)", "0c8000000000000000"},
    {"(-9223372036854775808)", "0c7fffffffffffffff"},
    {"(-9223372036854775809)", "0c7ffffffffffffffe"},
    {"(-18446744073709551615)", "0c0000000000000000"},
    {"(3.14f)", "20c048f5c3"},
    {"(-3.14f)", "203fb70a3c"},
    {"(3.14)", "21c0091eb851eb851f"},
    {"(-3.14)", "213ff6e147ae147ae0"},
    {"(0.0f)", "2080000000"},
    {"(-0.0f)", "207fffffff"},
    {"(0.0)", "218000000000000000"},
    {"(-0.0)", "217fffffffffffffff"},
    {"(inff)", "20ff800000"},
    {"(-inff)", "20007fffff"},
    {"(inf)", "21fff0000000000000"},
    {"(-inf)", "21000fffffffffffff"},
    {"(nanf(0x7fffff))", "20ffffffff"},
    {"(nan(0xfffffffffffff))", "21ffffffffffffffff"},
    {"(-nanf(0x7fffff))", "2000000000"},
    {"(-nan(0xfffffffffffff))", "210000000000000000"},
    {"(0x)", "0100"},
    {"(0x010203)", "0101020300"},
    {"(0x00000004)", "0100ff00ff00ff0400"},
    {"(\"\")", "0200"},
    {"(\"hello\")", "0268656c6c6f00"},
    {"(\"中文\")", "02e4b8ade6968700"},
    {"(\"μάθημα\")", "02cebcceacceb8ceb7cebcceb100"},
    {"(\"\xf0\x9f\x94\xa5\")", "02f09f94a500"},
    {"(\"\xf4\x8f\xbf\xbf\")", "02f48fbfbf00"},
    {"((null, \"hello\"))", "0500ff0268656c6c6f0000"},
    {"((null, \"hell\\x00\"))", "0500ff0268656c6c00ff0000"},
    {"((null), \"hello\")", "0500ff000268656c6c6f00"},
    {"((null), \"hello\", 0x0100, 0x)", "0500ff000268656c6c6f00010100ff000100"},
    {"(uuid(ffffffff-ba5e-ba11-0000-00005ca1ab1e))", "30ffffffffba5eba11000000005ca1ab1e"},
    {"(versionstamp(0xaabbccddeeff00010203, 0))", "33aabbccddeeff000102030000"},
    {"(versionstamp(0x0102030405060708090a, 657))", "330102030405060708090a0291"},
    /* The Go binding's. Its strings need not be UTF-8. */
    {"(uuid(1100aabb-ccdd-eeff-1100-aabbccddeeff), \"foobarbaz\", 1234, null)",
     "301100aabbccddeeff1100aabbccddeeff02666f6f62617262617a001604d200"},
    {"(\"\\x00\", \"\\x00\\xff\", \"\\x00\\x00\\x00\", \"\\xff\\x00\", \"\")",
     "0200ff000200ffff000200ff00ff00ff0002ff00ff000200"},
    {"(\"nam\\x00es\\xffpace\")", "026e616d00ff6573ff7061636500"},
    {"(0xff00ff)", "01ff00ffff00"},
    /* More. */
    {"(\"\\xc2\\x80\\x7f\\n\\r\\t\\x1b\\\"\\\\\")", "02c2807f0a0d091b225c00"},
    {"(nan, -nan, nanf, -nanf)", "21fff8000000000000 210007ffffffffffff 20ffc00000 20003fffff"},
    {"(nan(0x1), nanf(0x1))", "21fff0000000000001 20ff800001"},
    {"(-18446744073709551616)", "0bf6feffffffffffffffff"},
    {"(incomplete(0), incomplete(65535))", "33ffffffffffffffffffff0000 33ffffffffffffffffffffffff"},
    {"(((), (null), ((null))))", "05 0500 0500ff00 050500ff0000 00"},
};

static void test_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        uint8_t packed[SPACE], repacked[SPACE];
        char text[SPACE];
        keel_element elements[32];
        keel_bytes built;
        keel_tuple_builder builder;
        size_t length, count, text_length;
        assert_int_equal(keel_tuple_parse(vectors[i].text, strlen(vectors[i].text), packed,
                                          sizeof packed, &length, NULL), 0);
        assert_hex(keel_bytes_of(packed, length), vectors[i].hex);
        assert_int_equal(keel_tuple_print(keel_bytes_of(packed, length), text, sizeof text,
                                          &text_length), 0);
        assert_string_equal(text, vectors[i].text);
        assert_int_equal(text_length, strlen(text));
        assert_int_equal(keel_tuple_unpack(keel_bytes_of(packed, length), elements, 32, &count,
                                           NULL), 0);
        keel_tuple_builder_init(&builder);
        keel_tuple_append_all(&builder, keel_tuple_of(elements, count));
        assert_int_equal(keel_tuple_builder_finish_any(&builder, &built), 0);
        assert_hex(built, vectors[i].hex);
        if (!keel_tuple_has_incomplete(keel_tuple_of(elements, count))) {
            assert_int_equal(keel_tuple_pack(keel_tuple_of(elements, count), repacked,
                                             sizeof repacked, &length), 0);
            assert_hex(keel_bytes_of(repacked, length), vectors[i].hex);
        }
        keel_tuple_builder_free(&builder);
    }
}

/* The largest integers, and the first beyond. */
static void test_integer_limits(void **state) {
    uint8_t magnitude[257], packed[SPACE];
    char text[SPACE];
    size_t length, text_length, offset;
    keel_element element;
    (void)state;
    memset(magnitude, 0xff, sizeof magnitude);
    magnitude[0] = 0;
    for (int negative = 0; negative < 2; negative++) {
        keel_element big = KEEL_BIG(magnitude, 256, negative); /* a leading zero */
        assert_int_equal(keel_tuple_pack(keel_tuple_of(&big, 1), packed, sizeof packed, &length),
                         0);
        assert_int_equal(length, 257);
        assert_int_equal(packed[0], negative ? 0x0b : 0x1d);
        assert_int_equal(packed[1], negative ? 0x00 : 0xff);
        assert_int_equal(packed[2], negative ? 0x00 : 0xff);
        assert_int_equal(keel_tuple_print(keel_bytes_of(packed, length), text, sizeof text,
                                          &text_length), 0);
        assert_int_equal(text_length, 615 + 2 + (size_t)negative);
        keel_tuple_iterator it = keel_tuple_iterate(keel_bytes_of(packed, length));
        assert_int_equal(keel_tuple_next(&it, &element), 0);
        assert_int_equal(keel_element_sign(&element), negative ? -1 : 1);
        uint8_t copy[255];
        assert_int_equal(keel_element_copy(&element, copy, sizeof copy, &length), 0);
        assert_int_equal(length, 255);
        assert_memory_equal(copy, magnitude + 1, 255);
        text[text_length - 1] = '9'; /* ten times as large */
        text[text_length] = ')';
        assert_int_equal(keel_tuple_parse(text, text_length + 1, packed, sizeof packed, &length,
                                          &offset),
                         KEEL_ERROR_INTEGER_TOO_LARGE);
        big = KEEL_BIG(magnitude, 257, negative);
        assert_refused(keel_tuple_of(&big, 1), KEEL_ERROR_INTEGER_TOO_LARGE);
    }
}

/* Encodings that are longer than needed are read: 2^64-1 as some write it, and worse. */
static void test_long_integers(void **state) {
    static const char *const longer[] =
        {"1d08ffffffffffffffff", "0bf70000000000000000", "16002a",         "12ffd5",
                                         "1d00",                 "0bff",
                                         "1d0a00000000000000000001", "1500"};
    static const char *const values[] =
        {"(18446744073709551615)", "(-18446744073709551615)", "(42)", "(-42)", "(0)", "(0)", "(1)",
         "(0)"};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t packed[32], shortest[32];
        char text[64];
        keel_element element;
        size_t length = from_hex(longer[i], packed), text_length, count, shortest_length;
        assert_int_equal(keel_tuple_print(keel_bytes_of(packed, length), text, sizeof text,
                                          &text_length), 0);
        assert_string_equal(text, values[i]);
        assert_int_equal(keel_tuple_unpack(keel_bytes_of(packed, length), &element, 1, &count,
                                           NULL), 0);
        assert_int_equal(keel_tuple_parse(text, text_length, shortest, sizeof shortest,
                                          &shortest_length, NULL), 0);
        assert_int_equal(keel_tuple_pack(keel_tuple_of(&element, 1), packed, sizeof packed,
                                         &length), 0);
        assert_int_equal(length, shortest_length);
        assert_memory_equal(packed, shortest, length);
    }
}

/* --- C values --- */

static void test_generic(void **state) {
    const char *constant = "a";
    char array[] = "b";
    char *null = NULL;
    const uint8_t uuid[16] = {1};
    const uint8_t stamp[12] = {2};
    const int const_int = 7;
    (void)state;
    assert_packs(KEEL_TUPLE(), "");
    assert_packs(KEEL_TUPLE("users", 123456, "email"), "027573657273001701e24002656d61696c00");
    assert_packs(KEEL_TUPLE((char)1, (signed char)-1, (unsigned char)255, (short)-2,
                            (unsigned short)65535), "150113fe15ff13fd16ffff");
    assert_packs(KEEL_TUPLE(3, 4u, -5l, 6ul, -7ll, 8ull, (size_t)9, const_int),
                 "15031504 13fa1506 13f815081509 1507");
    assert_packs(KEEL_TUPLE(INT64_MIN, UINT64_MAX), "0c7fffffffffffffff 1cffffffffffffffff");
    assert_packs(KEEL_TUPLE(1.0f, 1.0), "20bf800000 21bff0000000000000");
    assert_packs(KEEL_TUPLE((bool)true, (bool)0, KEEL_BOOL(1 == 1), KEEL_TRUE, KEEL_FALSE),
                 "2726272726");
    assert_packs(KEEL_TUPLE(constant, array, null, KEEL_TEXT("x\0y", 3)),
                 "026100 026200 00 027800ff7900");
    assert_packs(KEEL_TUPLE(KEEL_BYTES("\0\x01", 2), KEEL_NIL), "0100ff0100 00");
    assert_packs(KEEL_TUPLE(KEEL_UUID(uuid), KEEL_VERSIONSTAMP(stamp)),
                 "3001000000000000000000000000000000 33020000000000000000000000");
    assert_packs(KEEL_TUPLE(KEEL_NEST("a", KEEL_NEST()), KEEL_TUPLE(1, KEEL_TUPLE(KEEL_NIL))),
                 "05026100050000 051501 0500ff0000");
    assert_packs(KEEL_TUPLE(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                            0, 0, 0, 0, 0, 0, 0, 1),
                 "14141414141414141414141414141414141414141414141414141414141414 1501");
}

static void test_utf8(void **state) {
    static const char *const good[] =
        {"", "plain ascii, longer than eight", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
         "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] =
        {"\x80", "12345678\xff", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf",
         "\xed\xa0\x80",
                                      "\xed\xa0\xbd\xed\xb4\xa5", "\xe4\xb8", "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"};
    uint8_t buffer[64];
    size_t length;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(keel_tuple_pack(KEEL_TUPLE(good[i]), buffer, sizeof buffer, &length), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(KEEL_TUPLE(bad[i]), KEEL_ERROR_NOT_UTF8);
        assert_refused(KEEL_TUPLE(KEEL_TUPLE(bad[i])), KEEL_ERROR_NOT_UTF8);
    }
    /* What others wrote unchecked is read and written again. */
    keel_element element;
    keel_tuple_iterator it = keel_tuple_iterate(KEEL_BYTES("\x02\xff\x00\xff\x80\x00", 6));
    assert_int_equal(keel_tuple_next(&it, &element), 0);
    assert_false(keel_element_is_utf8(&element));
    assert_packs(KEEL_TUPLE(element), "02ff00ff8000");
    it = keel_tuple_iterate(KEEL_BYTES("\x02\x61\x00\xff\x62\x00", 6));
    assert_int_equal(keel_tuple_next(&it, &element), 0);
    assert_true(keel_element_is_utf8(&element));
}

static void test_buffers(void **state) {
    uint8_t buffer[SPACE];
    (void)state;
    for (size_t capacity = 0; capacity < 24; capacity++) {
        size_t length = 0;
        uint8_t *exact = malloc(capacity ? capacity : 1);
        fdb_error_t error = keel_tuple_pack_prefix(KEEL_BYTES("p", 1),
                                                   KEEL_TUPLE("users", 123456, "a\0b",
                                                              KEEL_TUPLE(KEEL_NIL)),
                                                   capacity ? exact : NULL, capacity, &length);
        assert_int_equal(length, 19);
        assert_int_equal(error, capacity < 19 ? KEEL_ERROR_BUFFER_TOO_SMALL : 0);
        if (!error)
            assert_hex(keel_bytes_of(exact, length), "70 02757365727300 1701e240 026100 0500ff00");
        free(exact);
    }
    keel_element forged = keel_element_null();
    forged.type = (keel_type)99;
    assert_refused(keel_tuple_of(&forged, 1), KEEL_ERROR_ARGUMENT);
    forged = keel_element_of_bytes(KEEL_BYTES("a\0b", 3));
    forged.packed = 1;
    assert_refused(keel_tuple_of(&forged, 1), KEEL_ERROR_TUPLE_MALFORMED);
    uint8_t *exact = calloc(1, 1); /* an escape whose second byte lies behind the end */
    forged.value.as_bytes = keel_bytes_of(exact, 1);
    assert_refused(keel_tuple_of(&forged, 1), KEEL_ERROR_TUPLE_MALFORMED);
    free(exact);
    forged.value.as_bytes = KEEL_BYTES("a\0b", 3);
    forged.type = KEEL_TYPE_NESTED;
    assert_refused(keel_tuple_of(&forged, 1), KEEL_ERROR_TUPLE_MALFORMED);
    assert_true(sizeof buffer > 0);
}

/* --- Versionstamps --- */

static void assert_stamps(const char *prefix, keel_tuple tuple, const char *hex) {
    uint8_t buffer[SPACE];
    size_t length;
    assert_int_equal(keel_tuple_pack_versionstamp_prefix(keel_bytes_of_string(prefix), tuple,
                                                         buffer, sizeof buffer, &length), 0);
    assert_hex(keel_bytes_of(buffer, length), hex);
}

static void assert_no_stamp(keel_tuple tuple, fdb_error_t error) {
    uint8_t buffer[SPACE];
    size_t length;
    assert_int_equal(keel_tuple_pack_versionstamp(tuple, buffer, sizeof buffer, &length), error);
}

static void test_versionstamps(void **state) {
    static const uint8_t complete[12] = {1, 2, 3};
    keel_element open = KEEL_INCOMPLETE(1), done = KEEL_VERSIONSTAMP(complete);
    uint8_t buffer[64];
    size_t length;
    (void)state;
    assert_refused(KEEL_TUPLE(open), KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_refused(KEEL_TUPLE(1, KEEL_TUPLE(open)), KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_stamps("", KEEL_TUPLE("a", KEEL_INCOMPLETE(0x0102)),
                  "026100 33ffffffffffffffffffff0102 04000000");
    assert_stamps("pre", KEEL_TUPLE("a", KEEL_TUPLE(KEEL_NIL, KEEL_INCOMPLETE(3)), done),
                  "707265 026100 05 00ff 33ffffffffffffffffffff0003 00 "
                  "33010203000000000000000000 0a000000");
    assert_no_stamp(KEEL_TUPLE("a", done), KEEL_ERROR_NO_VERSIONSTAMP);
    assert_no_stamp(KEEL_TUPLE(open, 3, open), KEEL_ERROR_MANY_VERSIONSTAMPS);
    assert_no_stamp(KEEL_TUPLE(KEEL_TUPLE(open), KEEL_TUPLE(open)), KEEL_ERROR_MANY_VERSIONSTAMPS);
    assert_int_equal(keel_tuple_pack_versionstamp(KEEL_TUPLE(open), buffer, 16, &length),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 17);
    assert_true(keel_tuple_has_incomplete(KEEL_TUPLE(1, KEEL_TUPLE(KEEL_TUPLE(open)))));
    assert_false(keel_tuple_has_incomplete(KEEL_TUPLE(1, KEEL_TUPLE(KEEL_TUPLE(done)))));
}

/* Two bytes of position before API version 520, four since. */
static void test_offset_lengths(void **state) {
    uint8_t *far = calloc(1, 65535);
    keel_bytes prefix = keel_bytes_of(far, 65535);
    keel_element stamp = KEEL_INCOMPLETE(9);
    size_t length;
    (void)state;
    keel_tuple_use_api_version(510);
    assert_stamps("", KEEL_TUPLE(stamp), "33ffffffffffffffffffff0009 0100");
    assert_int_equal(keel_tuple_pack_versionstamp_prefix(prefix, KEEL_TUPLE(stamp), NULL, 0,
                                                         &length), KEEL_ERROR_ARGUMENT);
    keel_tuple_use_api_version(740);
    assert_int_equal(keel_tuple_pack_versionstamp_prefix(prefix, KEEL_TUPLE(stamp), NULL, 0,
                                                         &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 65535 + 13 + 4);
    free(far);
}

/* An incomplete versionstamp in a nested tuple that came from an iterator is found, too. */
static void test_packed_versionstamp(void **state) {
    uint8_t packed[SPACE], buffer[SPACE];
    keel_element element;
    size_t length, count;
    (void)state;
    const char *text = "((\"a\", (incomplete(5))))";
    assert_int_equal(keel_tuple_parse(text, strlen(text), packed, sizeof packed, &length, NULL), 0);
    assert_int_equal(keel_tuple_unpack(keel_bytes_of(packed, length), &element, 1, &count, NULL),
                     0);
    assert_true(keel_tuple_has_incomplete(keel_tuple_of(&element, 1)));
    assert_refused(keel_tuple_of(&element, 1), KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_int_equal(keel_tuple_pack_versionstamp(keel_tuple_of(&element, 1), buffer, sizeof buffer,
                                                  &length), 0);
    assert_hex(keel_bytes_of(buffer, length),
               "05 026100 05 33ffffffffffffffffffff0005 00 00 06000000");
}

/* --- The builder --- */

static void test_builder(void **state) {
    keel_tuple_builder builder;
    keel_bytes packed;
    const uint8_t uuid[16] = {1}, stamp[12] = {2};
    (void)state;
    keel_tuple_builder_init(&builder);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), 0);
    assert_int_equal(packed.length, 0);
    keel_tuple_append_prefix(&builder, KEEL_BYTES("\x15", 1));
    keel_tuple_append_null(&builder);
    keel_tuple_append_bytes(&builder, KEEL_BYTES("\0", 1));
    keel_tuple_append_string(&builder, "s");
    keel_tuple_append_text(&builder, "t\0", 2);
    keel_tuple_append_int(&builder, -1);
    keel_tuple_append_uint(&builder, 1);
    keel_tuple_append_big(&builder, (const uint8_t *)"\0\x07", 2, true);
    keel_tuple_append_float(&builder, 1.0f);
    keel_tuple_append_double(&builder, 1.0);
    keel_tuple_append_bool(&builder, true);
    keel_tuple_append_begin(&builder);
    keel_tuple_append_null(&builder);
    keel_tuple_append_begin(&builder);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), KEEL_ERROR_ARGUMENT);
    keel_tuple_append_end(&builder);
    keel_tuple_append_packed(&builder, KEEL_BYTES("\x00\x05\x00\x16\x00\x01", 6));
    keel_tuple_append_end(&builder);
    keel_tuple_append_tuple(&builder, KEEL_TUPLE(1));
    KEEL_APPEND(&builder, "generic");
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), 0);
    assert_hex(packed,
               "15 00 0100ff00 027300 027400ff00 13fe 1501 13f8 20bf800000 21bff0000000000000 27 "
                       "05 00ff 0500 00ff 0500 1501 00 05150100 0267656e6572696300");
    keel_tuple_append_uuid(&builder, uuid);
    keel_tuple_append_versionstamp(&builder, stamp);
    assert_int_equal(keel_tuple_builder_finish_versionstamp(&builder, &packed),
                     KEEL_ERROR_NO_VERSIONSTAMP);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), 0);
    keel_tuple_builder_clear(&builder);
    keel_tuple_append_begin(&builder);
    keel_tuple_append_incomplete(&builder, 1);
    keel_tuple_append_end(&builder);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed),
                     KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_int_equal(keel_tuple_builder_finish_versionstamp(&builder, &packed), 0);
    assert_hex(packed, "05 33ffffffffffffffffffff0001 00 02000000");
    keel_tuple_append_int(&builder, 1); /* goes on */
    assert_int_equal(keel_tuple_builder_finish_versionstamp(&builder, &packed), 0);
    assert_hex(packed, "05 33ffffffffffffffffffff0001 00 1501 02000000");
    keel_tuple_append_incomplete(&builder, 1);
    assert_int_equal(keel_tuple_builder_finish_versionstamp(&builder, &packed),
                     KEEL_ERROR_MANY_VERSIONSTAMPS);
    keel_tuple_builder_free(&builder);
}

static void test_builder_errors(void **state) {
    keel_tuple_builder builder;
    keel_bytes packed;
    (void)state;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_int(&builder, 1);
    keel_tuple_append_string(&builder, "\xff");
    keel_tuple_append_end(&builder); /* a second error is not the first */
    keel_tuple_append_int(&builder, 2);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), KEEL_ERROR_NOT_UTF8);
    keel_tuple_builder_clear(&builder);
    keel_tuple_append_end(&builder);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), KEEL_ERROR_ARGUMENT);
    keel_tuple_builder_clear(&builder);
    keel_tuple_append_int(&builder, 1);
    keel_tuple_append_prefix(&builder, KEEL_BYTES("p", 1));
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), KEEL_ERROR_ARGUMENT);
    keel_tuple_builder_clear(&builder);
    keel_tuple_append_packed(&builder, KEEL_BYTES("\x15", 1));
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), KEEL_ERROR_TUPLE_MALFORMED);
    keel_tuple_builder_free(&builder);
}

/*
 * Far beyond the inline space, and a copy of a builder before it is outgrown is as good as the
 * original.
 */
static void test_builder_grows(void **state) {
    keel_tuple_builder builder, moved;
    keel_bytes packed;
    int64_t value;
    char *large = malloc(100000);
    (void)state;
    memset(large, 'x', 100000);
    keel_tuple_builder_init(&builder);
    keel_tuple_append_int(&builder, 1);
    moved = builder;
    for (int64_t i = 0; i < 5000; i++)
        keel_tuple_append_int(&moved, i);
    keel_tuple_append_text(&moved, large, 100000);
    assert_int_equal(keel_tuple_builder_finish(&moved, &packed), 0);
    keel_tuple_iterator it = keel_tuple_iterate(packed);
    assert_int_equal(keel_tuple_next_int(&it, &value), 0);
    for (int64_t i = 0; i < 5000; i++) {
        assert_int_equal(keel_tuple_next_int(&it, &value), 0);
        assert_int_equal(value, i);
    }
    assert_int_equal(keel_tuple_skip(&it, 1), 0);
    assert_true(keel_tuple_at_end(&it));
    keel_tuple_builder_free(&moved);
    free(large);
}

/* Memory that is not there: the sanitizers are told to say so as malloc does. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

static void test_builder_without_memory(void **state) {
    keel_tuple_builder builder;
    keel_bytes packed;
    (void)state;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_prefix(&builder, KEEL_BYTES("p", SIZE_MAX / 4));
    keel_tuple_append_int(&builder, 1);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), 1501);
    keel_tuple_builder_clear(&builder);
    keel_tuple_append_int(&builder, 1);
    assert_int_equal(keel_tuple_builder_finish(&builder, &packed), 0);
    assert_hex(packed, "1501");
    keel_tuple_builder_free(&builder);
}

/* --- The iterator --- */

static void test_getters(void **state) {
    uint8_t packed[SPACE], bytes[16], uuid[16], stamp[12];
    const uint8_t given_uuid[16] = {1, 2}, given_stamp[12] = {3};
    char text[16];
    int64_t number;
    uint64_t natural;
    float single;
    double real;
    bool boolean;
    size_t length;
    keel_tuple_iterator it, nested;
    (void)state;
    assert_int_equal(keel_tuple_pack(KEEL_TUPLE("a", KEEL_TEXT("b\0c", 3), KEEL_BYTES("\0\0", 2),
                                                -5, UINT64_MAX, 1.5f, 2.5, KEEL_TRUE, KEEL_NIL,
                                                KEEL_UUID(given_uuid),
                                                KEEL_VERSIONSTAMP(given_stamp),
                                                        KEEL_TUPLE(KEEL_NIL, 7)),
                                     packed, sizeof packed, &length), 0);
    it = keel_tuple_iterate(keel_bytes_of(packed, length));
    assert_int_equal(keel_tuple_next_int(&it, &number), KEEL_ERROR_TUPLE_TYPE);
    assert_int_equal(keel_tuple_next_bytes(&it, bytes, sizeof bytes, &length),
                     KEEL_ERROR_TUPLE_TYPE);
    assert_int_equal(keel_tuple_next_string(&it, text, 1, &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 1);
    assert_int_equal(keel_tuple_next_string(&it, text, 2, &length), 0);
    assert_string_equal(text, "a");
    assert_int_equal(keel_tuple_next_string(&it, text, sizeof text, &length), 0);
    assert_int_equal(length, 3);
    assert_memory_equal(text, "b\0c", 4);
    assert_int_equal(keel_tuple_next_bytes(&it, bytes, 2, &length), 0);
    assert_memory_equal(bytes, "\0\0", 2);
    assert_int_equal(keel_tuple_next_uint(&it, &natural), KEEL_ERROR_INTEGER_TOO_LARGE);
    assert_int_equal(keel_tuple_next_int(&it, &number), 0);
    assert_int_equal(number, -5);
    assert_int_equal(keel_tuple_next_int(&it, &number), KEEL_ERROR_INTEGER_TOO_LARGE);
    assert_int_equal(keel_tuple_next_uint(&it, &natural), 0);
    assert_true(natural == UINT64_MAX);
    assert_int_equal(keel_tuple_next_double(&it, &real), KEEL_ERROR_TUPLE_TYPE);
    assert_int_equal(keel_tuple_next_float(&it, &single), 0);
    assert_int_equal(keel_tuple_next_double(&it, &real), 0);
    assert_true(single == 1.5f && real == 2.5);
    assert_int_equal(keel_tuple_next_null(&it), KEEL_ERROR_TUPLE_TYPE);
    assert_int_equal(keel_tuple_next_bool(&it, &boolean), 0);
    assert_true(boolean);
    assert_int_equal(keel_tuple_next_null(&it), 0);
    assert_int_equal(keel_tuple_next_uuid(&it, uuid), 0);
    assert_memory_equal(uuid, given_uuid, 16);
    assert_int_equal(keel_tuple_next_versionstamp(&it, stamp), 0);
    assert_memory_equal(stamp, given_stamp, 12);
    assert_int_equal(keel_tuple_next_nested(&it, &nested), 0);
    assert_int_equal(keel_tuple_next_null(&nested), 0);
    assert_int_equal(keel_tuple_next_int(&nested, &number), 0);
    assert_int_equal(number, 7);
    assert_int_equal(keel_tuple_next_int(&nested, &number), KEEL_ERROR_TUPLE_END);
    assert_true(keel_tuple_at_end(&it) && keel_tuple_at_end(&nested));
    assert_int_equal(keel_tuple_next_int(&it, &number), KEEL_ERROR_TUPLE_END);
    it = keel_tuple_iterate_behind(KEEL_BYTES("ab\x15\x09", 4), 2);
    assert_int_equal(keel_tuple_next_int(&it, &number), 0);
    assert_int_equal(number, 9);
    it = keel_tuple_iterate_behind(KEEL_BYTES("ab", 2), 3);
    assert_true(keel_tuple_at_end(&it));
}

/* Nothing is copied: elements point into the key. */
static void test_no_copy(void **state) {
    static const uint8_t key[] = {0x02, 'a', 'b', 0x00, 0x01, 'c', 0x00, 0xff, 0x00};
    keel_element elements[2];
    size_t count;
    (void)state;
    assert_int_equal(keel_tuple_unpack(keel_bytes_of(key, sizeof key), elements, 1, &count, NULL),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(count, 2);
    assert_int_equal(keel_tuple_unpack(keel_bytes_of(key, sizeof key), elements, 2, &count, NULL),
                     0);
    assert_ptr_equal(elements[0].value.as_bytes.data, key + 1);
    assert_int_equal(elements[0].value.as_bytes.length, 2);
    assert_int_equal(elements[0].escaped, 0);
    assert_ptr_equal(elements[1].value.as_bytes.data, key + 5);
    assert_int_equal(elements[1].escaped, 1);
}

static void test_malformed(void **state) {
    static const struct {
        const char *hex;
        size_t offset;
    } cases[] = {
        {"01deadc0de", 5}, {"01dead00ffc0de", 7}, {"0268656c6c6f", 6}, {"0268656c00ff6c6f", 8},
            {"050268656c6c6f00", 8},
        {"050268656c6c6f0000ff02746865726500", 17}, {"1601", 2}, {"1201", 2},
        {"1d090102030405060708", 10}, {"0bf60102030405060708", 10},
        {"1d", 1}, {"0b", 1}, {"20010203", 4}, {"2101020304050607", 8},
        {"300102030405060708090a0b0c0d0e", 15},
        {"330102030405060708090a0b", 12}, {"ff", 0}, {"00ff", 1}, {"1501 03", 2}, {"04", 0},
        {"06", 0}, {"0a", 0}, {"1e", 0},
        {"1f", 0}, {"22", 0}, {"25", 0}, {"28", 0}, {"31", 0}, {"32", 0}, {"34", 0}, {"40", 0},
        {"0500ff", 3}, {"05ff00", 1}, {"0505000500", 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[64];
        char text[64] = "untouched";
        keel_element element, elements[4];
        size_t offset = 99, text_length = 7, count = 7, length = from_hex(cases[i].hex, bytes);
        uint8_t *exact = malloc(length);
        memcpy(exact, bytes, length);
        keel_bytes packed = keel_bytes_of(exact, length);
        keel_tuple_iterator it = keel_tuple_iterate(packed);
        fdb_error_t error;
        assert_int_equal(keel_tuple_check(packed, &offset), KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(offset, cases[i].offset);
        while (!(error = keel_tuple_next(&it, &element))) {
        }
        assert_int_equal(error, KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(it.position, cases[i].offset);
        assert_int_equal(keel_tuple_next(&it, &element), KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(keel_tuple_skip(&it, 1), KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(it.position, cases[i].offset);
        assert_false(keel_tuple_at_end(&it));
        assert_int_equal(keel_tuple_print(packed, text, sizeof text, &text_length),
                         KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(text_length, 7);
        assert_int_equal(keel_tuple_unpack(packed, elements, 4, &count, &offset),
                         KEEL_ERROR_TUPLE_MALFORMED);
        assert_int_equal(count, 7);
        assert_int_equal(offset, cases[i].offset);
        free(exact);
    }
}

/* Brackets as deep as a value can be: no recursion, no stack. */
static void test_deep(void **state) {
    enum { DEPTH = 50000 };
    uint8_t *packed = malloc(2 * DEPTH), *parsed = malloc(2 * DEPTH);
    char *text = malloc(2 * DEPTH + 3);
    keel_element element;
    size_t length, count;
    (void)state;
    memset(packed, 0x05, DEPTH);
    memset(packed + DEPTH, 0x00, DEPTH);
    assert_int_equal(keel_tuple_unpack(keel_bytes_of(packed, 2 * DEPTH), &element, 1, &count, NULL),
                     0);
    assert_int_equal(keel_element_compare(&element, &element), 0);
    assert_false(keel_tuple_has_incomplete(keel_tuple_of(&element, 1)));
    assert_int_equal(keel_tuple_pack(keel_tuple_of(&element, 1), parsed, 2 * DEPTH, &length), 0);
    assert_memory_equal(packed, parsed, 2 * DEPTH);
    assert_int_equal(keel_tuple_print(keel_bytes_of(packed, 2 * DEPTH), text, 2 * DEPTH + 3,
                                      &length), 0);
    assert_int_equal(length, 2 * DEPTH + 2);
    assert_int_equal(keel_tuple_parse(text, length, parsed, 2 * DEPTH, &length, NULL), 0);
    assert_memory_equal(packed, parsed, 2 * DEPTH);
    free(packed);
    free(parsed);
    free(text);
}

/* --- Ranges and order --- */

static void test_ranges(void **state) {
    uint8_t begin[64], end[64];
    size_t length = 0;
    (void)state;
    assert_int_equal(keel_tuple_range(KEEL_TUPLE("a"), begin, end, sizeof begin, &length), 0);
    assert_hex(keel_bytes_of(begin, length), "02610000");
    assert_hex(keel_bytes_of(end, length), "026100ff");
    assert_int_equal(keel_tuple_range(KEEL_TUPLE(), begin, end, 1, &length), 0);
    assert_hex(keel_bytes_of(begin, length), "00");
    assert_hex(keel_bytes_of(end, length), "ff");
    assert_int_equal(keel_tuple_range_prefix(KEEL_BYTES("p", 1), KEEL_TUPLE(1), begin, end, 3,
                                             &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 4);
    assert_int_equal(keel_tuple_range_prefix(KEEL_BYTES("p", 1), KEEL_TUPLE(1), begin, end, 2,
                                             &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 4);
    assert_int_equal(keel_tuple_range_prefix(KEEL_BYTES("p", 1), KEEL_TUPLE(1), begin, end, 4,
                                             &length), 0);
    assert_hex(keel_bytes_of(end, length), "701501ff");
    assert_int_equal(keel_tuple_range(KEEL_TUPLE(KEEL_INCOMPLETE(1)), begin, end, 64, &length),
                     KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
}

static void test_strinc(void **state) {
    uint8_t buffer[8];
    size_t length = 5;
    (void)state;
    assert_int_equal(keel_strinc(KEEL_BYTES("", 0), buffer, 8, &length), KEEL_ERROR_NO_SUCCESSOR);
    assert_int_equal(keel_strinc(KEEL_BYTES("\xff\xff", 2), buffer, 8, &length),
                     KEEL_ERROR_NO_SUCCESSOR);
    assert_int_equal(length, 5);
    assert_int_equal(keel_strinc(KEEL_BYTES("a\xff\xff", 3), buffer, 8, &length), 0);
    assert_hex(keel_bytes_of(buffer, length), "62");
    assert_int_equal(keel_strinc(KEEL_BYTES("\0\0", 2), buffer, 1, &length),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 2);
    memcpy(buffer, "ab\xff", 3);
    assert_int_equal(keel_strinc(keel_bytes_of(buffer, 3), buffer, 8, &length), 0);
    assert_hex(keel_bytes_of(buffer, length), "6163");
}

/* Each is below the next. */
static void test_order(void **state) {
    static const char *const ordered[] = {
        "()", "(null)", "(null, null)", "(0x)", "(0x00)", "(0x0000)", "(0x0001)", "(0x00ff)",
            "(0x01)", "(\"\")", "(\"\\x00\")",
        "(\"\\x00a\")", "(\"a\")", "(\"a\", null)", "(\"a\", 0x)", "(\"a\\x00\")", "(\"b\")",
        "(())", "((), null)", "((null))", "((null, null))",
        "((0x))", "((\"\"))", "(((null)))", "((1))", "((1), 0)", "((1, 2))",
        "(-18446744073709551617)", "(-18446744073709551616)",
        "(-18446744073709551615)", "(-9223372036854775809)", "(-9223372036854775808)", "(-256)",
        "(-255)", "(-1)", "(0)", "(1)", "(255)", "(256)",
        "(9223372036854775807)", "(9223372036854775808)", "(18446744073709551615)",
        "(18446744073709551616)",
        "(18446744073709551617)", "(-nanf)", "(-nanf(0x1))", "(-inff)", "(-1.0f)", "(-1e-45f)",
        "(-0.0f)", "(0.0f)", "(1e-45f)", "(1.0f)",
        "(inff)", "(nanf(0x1))", "(nanf)", "(-nan)", "(-inf)", "(-0.0)", "(0.0)", "(5e-324)",
        "(inf)", "(nan)", "(false)", "(true)",
        "(uuid(00000000-0000-0000-0000-000000000000))",
        "(uuid(80000000-0000-0000-0000-000000000000))",
        "(versionstamp(0x00000000000000000000, 1))", "(versionstamp(0x00000000000000000001, 0))",
        "(incomplete(0))", "(incomplete(1))"};
    enum { COUNT = sizeof ordered / sizeof *ordered };
    static uint8_t packed[COUNT][128];
    static keel_element elements[COUNT][4];
    size_t lengths[COUNT], counts[COUNT];
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(keel_tuple_parse(ordered[i], strlen(ordered[i]), packed[i], 128,
                                          &lengths[i], NULL), 0);
        assert_int_equal(keel_tuple_unpack(keel_bytes_of(packed[i], lengths[i]), elements[i], 4,
                                           &counts[i], NULL), 0);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            int order = keel_tuple_compare(keel_tuple_of(elements[i], counts[i]),
                                           keel_tuple_of(elements[j], counts[j]));
            int bytes = keel_bytes_compare(keel_bytes_of(packed[i], lengths[i]),
                                           keel_bytes_of(packed[j], lengths[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal((bytes > 0) - (bytes < 0), (i > j) - (i < j));
        }
    }
}

/* --- Text --- */

static void test_text_forms(void **state) {
    static const vector forms[] = {
        {" ( \"users\" , 42,\t0x00FF,\n3.5, null , ) ",
         "02757365727300 152a 0100ffff00 21c00c000000000000 00"},
        {"(1e0, 1E+0, 1e-0, 1.0e0, 1f, 1e0f)",
         "21bff0000000000000 21bff0000000000000 21bff0000000000000 21bff0000000000000 "
         "20bf800000 20bf800000"},
        {"(\"\\n\\r\\t\\0\\\"\\\\\\u{e9}\\u{1F525}\\u{0}\")", "020a0d0900ff225cc3a9f09f94a500ff00"},
        {"(-0, 007, -000)", "14150714"},
        {"((),)", "0500"},
        {"( ( ) , ( ( ) , ) )", "0500 05050000"},
        {"(uuid( 00112233-4455-6677-8899-AABBCCDDEEFF ))", "3000112233445566778899aabbccddeeff"},
        {"(versionstamp ( 0x00112233445566778899 , 7 ))", "33001122334455667788990007"},
        {"(versionstamp(0xffffffffffffffffffff, 7))", "33ffffffffffffffffffff0007"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        uint8_t packed[SPACE];
        size_t length, needed = 0;
        assert_int_equal(keel_tuple_parse(forms[i].text, strlen(forms[i].text), packed,
                                          sizeof packed, &length, NULL), 0);
        assert_hex(keel_bytes_of(packed, length), forms[i].hex);
        assert_int_equal(keel_tuple_parse(forms[i].text, strlen(forms[i].text), NULL, 0, &needed,
                                          NULL), KEEL_ERROR_BUFFER_TOO_SMALL);
        assert_int_equal(needed, length);
    }
}

static void test_text_errors(void **state) {
    static const struct {
        const char *text;
        size_t offset;
    } cases[] = {
        {"", 0}, {"1", 0}, {"(", 1}, {"(1", 2}, {"(1 2)", 3}, {"(,)", 1}, {"(1,,)", 3}, {"(1))", 3},
            {"((1)", 4}, {"(0x0)", 3}, {"(0xzz)", 3},
        {"(\"a)", 4}, {"(\"\\q\")", 3}, {"(\"\\x0\")", 4}, {"(\"\\u{d800}\")", 9},
        {"(\"\\u{110000}\")", 11}, {"(\"\\u{}\")", 5},
        {"(\"\xff\")", 2}, {"(nul)", 1}, {"(nulls)", 1}, {"(-null)", 2}, {"(1.)", 2}, {"(.5)", 1},
        {"(1e)", 2}, {"(1e999)", 1}, {"(1e99f)", 1},
        {"(nan(0x0))", 8}, {"(nan(0x10000000000000))", 20}, {"(nanf(0x800000))", 13},
        {"(uuid(00))", 8}, {"(incomplete(65536))", 16},
        {"(incomplete())", 12}, {"(versionstamp(0x00, 1))", 18}, {"(+1)", 1}, {"(-)", 2},
        {"(--1)", 2}, {"(-0x00)", 3}, {"() x", 3}, {"(INF)", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t packed[64];
        size_t length = 7, offset = 99, text_length = strlen(cases[i].text);
        char *exact = malloc(text_length + 1);
        memcpy(exact, cases[i].text, text_length);
        exact = realloc(exact, text_length ? text_length : 1); /* no NUL behind it */
        assert_int_equal(keel_tuple_parse(exact, text_length, packed, sizeof packed, &length,
                                          &offset), KEEL_ERROR_TUPLE_TEXT);
        if (offset != cases[i].offset)
            print_message("%s: %zu\n", cases[i].text, offset);
        assert_int_equal(offset, cases[i].offset);
        assert_int_equal(length, 7);
        free(exact);
    }
}

static void test_print_buffers(void **state) {
    char text[64];
    size_t length = 0;
    (void)state;
    keel_bytes packed = KEEL_BYTES("\x02\x61\x00\x15\x07", 5);
    assert_int_equal(keel_tuple_print(packed, NULL, 0, &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 8);
    assert_int_equal(keel_tuple_print(packed, text, 8, &length), KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(keel_tuple_print(packed, text, 9, &length), 0);
    assert_string_equal(text, "(\"a\", 7)");
    keel_element element = KEEL_NEST("a", KEEL_TUPLE(), 1.5f, KEEL_BYTES("\0", 1));
    assert_int_equal(keel_element_print(&element, text, sizeof text, &length), 0);
    assert_string_equal(text, "(\"a\", (), 1.5f, 0x00)");
    element = KEEL_ELEMENT(-12);
    assert_int_equal(keel_element_print(&element, text, sizeof text, &length), 0);
    assert_string_equal(text, "-12");
}

/* The text is the same where the decimal point is a comma (if the machine has such a locale). */
static void test_locale(void **state) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    char text[64];
    uint8_t packed[64];
    size_t length;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i]))
            continue;
        assert_int_equal(keel_tuple_parse("(3.25, 1.5e10f)", 15, packed, sizeof packed, &length,
                                          NULL), 0);
        assert_int_equal(keel_tuple_print(keel_bytes_of(packed, length), text, sizeof text,
                                          &length), 0);
        setlocale(LC_NUMERIC, "C");
        assert_string_equal(text, "(3.25, 1.5e+10f)");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),          cmocka_unit_test(test_integer_limits),
        cmocka_unit_test(test_long_integers),    cmocka_unit_test(test_generic),
        cmocka_unit_test(test_utf8),             cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_versionstamps),    cmocka_unit_test(test_packed_versionstamp),
        cmocka_unit_test(test_offset_lengths),   cmocka_unit_test(test_builder_without_memory),
        cmocka_unit_test(test_builder),          cmocka_unit_test(test_builder_errors),
        cmocka_unit_test(test_builder_grows),    cmocka_unit_test(test_getters),
        cmocka_unit_test(test_no_copy),          cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_deep),             cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_strinc),           cmocka_unit_test(test_order),
        cmocka_unit_test(test_text_forms),       cmocka_unit_test(test_text_errors),
        cmocka_unit_test(test_print_buffers),    cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
