/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the tuple layer: any bytes, taken as a packed tuple and as a text. Whatever they are,
 * nothing is read beyond them (run it with the address sanitizer), errors have offsets inside, and
 * what is accepted reads back to itself.
 *
 *     clang -DKEEL_LIBFUZZER -fsanitize=fuzzer,address,undefined -g -Iinclude -Ilayers \
 *         tests/fuzz/fuzz_tuple.c layers/tuple*.c -o fuzz_tuple && ./fuzz_tuple
 *
 * Without KEEL_LIBFUZZER it is a program that feeds itself random, mutated and spliced tuples and
 * texts, the same ones every time unless KEEL_SEED says otherwise; KEEL_ROUNDS of them. Or it takes
 * files as arguments, to repeat what the fuzzer found.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../layers/tuple_random.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The packed form of what was printed. */
static void check_text(const char *text, size_t text_length, keel_bytes expected) {
    size_t length = 0;
    fdb_error_t error = keel_tuple_parse(text, text_length, NULL, 0, &length, NULL);
    CHECK(error == (expected.length > 0 ? KEEL_ERROR_BUFFER_TOO_SMALL : 0));
    CHECK(length == expected.length);
    uint8_t *parsed = malloc(length ? length : 1);
    CHECK(keel_tuple_parse(text, text_length, parsed, length, &length, NULL) == 0);
    CHECK(keel_bytes_compare(keel_bytes_of(parsed, length), expected) == 0);
    free(parsed);
}

/* The text of packed bytes; the caller frees it. */
static char *print(keel_bytes packed, size_t *text_length) {
    CHECK(keel_tuple_print(packed, NULL, 0, text_length) == KEEL_ERROR_BUFFER_TOO_SMALL);
    char *text = malloc(*text_length + 1);
    CHECK(keel_tuple_print(packed, text, *text_length + 1, text_length) == 0);
    CHECK(text[*text_length] == '\0');
    return text;
}

/* Goes into nested tuples with iterators, three deep, and takes every value out. */
static size_t iterate(keel_tuple_iterator it, int depth, size_t length) {
    keel_element element;
    size_t count = 0;
    fdb_error_t error;
    while (!(error = keel_tuple_next(&it, &element))) {
        keel_tuple_iterator nested;
        uint8_t copy[300];
        size_t copy_length;
        count++;
        CHECK(keel_element_compare(&element, &element) == 0);
        (void)keel_element_is_utf8(&element);
        fdb_error_t copied = keel_element_copy(&element, copy, sizeof copy, &copy_length);
        CHECK(copied == 0 || copied == KEEL_ERROR_TUPLE_TYPE ||
              copied == KEEL_ERROR_BUFFER_TOO_SMALL);
        if (depth > 0 && keel_element_iterate(&element, &nested) == 0)
            iterate(nested, depth - 1, element.value.as_bytes.length);
    }
    CHECK(error == KEEL_ERROR_TUPLE_END || error == KEEL_ERROR_TUPLE_MALFORMED);
    CHECK(it.position <= length);
    return count;
}

static void as_packed(keel_bytes bytes) {
    size_t offset = SIZE_MAX, count = iterate(keel_tuple_iterate(bytes), 3, bytes.length),
        text_length;
    fdb_error_t error = keel_tuple_check(bytes, &offset);
    if (error) {
        CHECK(error == KEEL_ERROR_TUPLE_MALFORMED && offset <= bytes.length);
        CHECK(keel_tuple_print(bytes, NULL, 0, &text_length) == error);
        return;
    }
    keel_element *elements = malloc((count + 1) * sizeof *elements);
    keel_tuple_builder builder;
    keel_bytes again;
    CHECK(keel_tuple_unpack(bytes, elements, count, &count, NULL) == 0);
    keel_tuple_builder_init(&builder);
    keel_tuple_append_all(&builder, keel_tuple_of(elements, count));
    CHECK(keel_tuple_builder_finish_any(&builder, &again) == 0);
    CHECK(again.length <= bytes.length); /* less if an integer was longer than needed */
    keel_element *second = malloc((count + 1) * sizeof *second);
    CHECK(keel_tuple_unpack(again, second, count, &count, NULL) == 0);
    CHECK(keel_tuple_compare(keel_tuple_of(elements, count), keel_tuple_of(second, count)) == 0);
    char *text = print(bytes, &text_length);
    check_text(text, text_length, again);
    free(text);
    free(second);
    free(elements);
    keel_tuple_builder_free(&builder);
}

static void as_text(keel_bytes bytes) {
    size_t length = 0, offset = SIZE_MAX, text_length;
    const char *given = (const char *)bytes.data;
    fdb_error_t error = keel_tuple_parse(given, bytes.length, NULL, 0, &length, &offset);
    if (error && error != KEEL_ERROR_BUFFER_TOO_SMALL) {
        CHECK(error == KEEL_ERROR_TUPLE_TEXT || error == KEEL_ERROR_INTEGER_TOO_LARGE);
        CHECK(offset <= bytes.length);
        return;
    }
    uint8_t *packed = malloc(length ? length : 1);
    CHECK(keel_tuple_parse(given, bytes.length, packed, length, &length, NULL) == 0);
    CHECK(keel_tuple_check(keel_bytes_of(packed, length), NULL) == 0);
    char *text = print(keel_bytes_of(packed, length), &text_length);
    check_text(text, text_length, keel_bytes_of(packed, length));
    free(text);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    as_packed(keel_bytes_of(data, size));
    as_text(keel_bytes_of(data, size));
    return 0;
}

#ifndef KEEL_LIBFUZZER

enum { INPUT_MAX = 16384 };

/* In memory of exactly its size. */
static void feed(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (size > 0)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* A random tuple, packed or as text. */
static size_t make_input(tuple_random *random, uint8_t *input) {
    keel_tuple_builder builder;
    keel_bytes packed;
    size_t length;
    tuple_random_reset(random);
    keel_tuple_builder_init(&builder);
    keel_tuple_append_all(&builder, tuple_random_tuple(random, 3));
    CHECK(keel_tuple_builder_finish_any(&builder, &packed) == 0);
    if (tuple_random_below(random, 2)) {
        char *text = print(packed, &length);
        length = length < INPUT_MAX ? length : INPUT_MAX;
        memcpy(input, text, length);
        free(text);
    } else {
        length = packed.length < INPUT_MAX ? packed.length : INPUT_MAX;
        if (length > 0)
            memcpy(input, packed.data, length);
    }
    keel_tuple_builder_free(&builder);
    return length;
}

/* A few changes: a byte, a cut, a piece twice. */
static size_t mutate(tuple_random *random, uint8_t *input, size_t length) {
    static const uint8_t interesting[] =
        {0x00, 0xff, 0x05, 0x01, 0x02, 0x0b, 0x1d, 0x33, '(', ')', '"', '\\', ',', '0', 'e', 'f',
         '-'};
    for (size_t changes = 1 + tuple_random_below(random, 4); changes > 0 && length > 0; changes--) {
        size_t at = tuple_random_below(random, length), piece;
        switch (tuple_random_below(random, 4)) {
        case 0:
            input[at] = interesting[tuple_random_below(random, sizeof interesting)];
            break;
        case 1:
            input[at] = (uint8_t)tuple_random_next(random);
            break;
        case 2:
            length = at;
            break;
        default:
            piece = tuple_random_below(random, length - at) + 1;
            if (length + piece <= INPUT_MAX) {
                memmove(input + at + piece, input + at, length - at);
                length += piece;
            }
        }
    }
    return length;
}

static int repeat(const char *path) {
    static uint8_t input[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    feed(input, fread(input, 1, sizeof input, file));
    fclose(file);
    return 0;
}

int main(int argument_count, char **arguments) {
    static tuple_random random;
    static uint8_t input[INPUT_MAX];
    size_t rounds = tuple_random_rounds(20000);
    if (argument_count > 1) {
        int failed = 0;
        for (int i = 1; i < argument_count; i++)
            failed += repeat(arguments[i]);
        return failed > 0;
    }
    random.state = tuple_random_seed();
    random.with_incomplete = true;
    fprintf(stderr, "seed %llu; again with KEEL_SEED=%llu\n", (unsigned long long)random.state,
            (unsigned long long)random.state);
    for (size_t round = 0; round < rounds; round++) {
        size_t length = make_input(&random, input);
        feed(input, length);
        feed(input, mutate(&random, input, length));
    }
    printf("%zu passed, 0 failed\n", rounds * 2);
    return 0;
}

#endif
