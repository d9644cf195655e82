/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and fields: what is written is read again, and what is cut, damaged or too long is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "remote/protocol.h"
#include "util/memory.h"

static void put_text(struct protocol_buffer *buffer, const char *text) {
    uint8_t *to = protocol_reserve(buffer, 4 + strlen(text));
    assert_non_null(to);
    protocol_bytes(to, bytes_make(text, strlen(text)));
}

static struct bytes whole(const struct protocol_buffer *buffer) {
    return bytes_make(buffer->data, buffer->length);
}

static void fields_come_back(void **state) {
    (void)state;
    struct protocol_buffer buffer = {0};
    uint8_t *to = protocol_reserve(&buffer, 1 + 4 + 8 + 4 + 3 + 4);
    to = protocol_i64(protocol_u32(protocol_u8(to, 200), 0xdeadbeef), -5);
    protocol_bytes(protocol_bytes(to, BYTES_LITERAL("a\0b")), bytes_make(NULL, 0));
    protocol_close_frame(&buffer);
    struct bytes payload;
    size_t total;
    assert_int_equal(protocol_next_frame(whole(&buffer), 100, &payload, &total), FRAME_WHOLE);
    assert_int_equal(total, buffer.length);
    struct protocol_reader reader = {payload.data, payload.data + payload.length, false};
    assert_int_equal(protocol_get_u8(&reader), 200);
    assert_true(protocol_get_u32(&reader) == 0xdeadbeef);
    assert_true(protocol_get_i64(&reader) == -5);
    assert_true(bytes_equal(protocol_get_bytes(&reader, 3), BYTES_LITERAL("a\0b")));
    assert_int_equal(protocol_get_bytes(&reader, 0).length, 0);
    assert_false(reader.bad);
    assert_ptr_equal(reader.next, reader.end);
    assert_int_equal(protocol_get_u8(&reader), 0); /* past the end */
    assert_true(reader.bad);
    protocol_free(&buffer);
}

/* Whatever is read first from a payload that is too short, nothing behind it is touched. */
static void short_payloads_are_bad(void **state) {
    (void)state;
    for (size_t length = 0; length < 12; length++) {
        uint8_t *exact = malloc(length + 1); /* a checker sees a read behind it */
        memset(exact, 0, length + 1);
        uint8_t *begin = realloc(exact, length ? length : 1);
        struct protocol_reader readers[4];
        for (int i = 0; i < 4; i++)
            readers[i] = (struct protocol_reader){begin, begin + length, false};
        (void)protocol_get_u8(&readers[0]);
        (void)protocol_get_u32(&readers[1]);
        (void)protocol_get_i64(&readers[2]);
        (void)protocol_get_bytes(&readers[3], SIZE_MAX);
        assert_int_equal(readers[0].bad, length < 1);
        assert_int_equal(readers[1].bad, length < 4);
        assert_int_equal(readers[2].bad, length < 8);
        assert_int_equal(readers[3].bad, length < 4);
        free(begin);
    }
    uint8_t lying[] = {0xff, 0xff, 0xff, 0xff, 'a'};
    struct protocol_reader reader = {lying, lying + sizeof lying, false};
    assert_int_equal(protocol_get_bytes(&reader, SIZE_MAX).length, 0);
    assert_true(reader.bad);
    uint8_t longer[] = {2, 0, 0, 0, 'a', 'b'};
    reader = (struct protocol_reader){longer, longer + sizeof longer, false};
    (void)protocol_get_bytes(&reader, 1); /* there, but more than is allowed */
    assert_true(reader.bad);
}

static void frames_follow_each_other(void **state) {
    (void)state;
    struct protocol_buffer buffer = {0};
    protocol_close_frame(&buffer); /* nothing is open */
    assert_int_equal(buffer.length, 0);
    put_text(&buffer, "one");
    put_text(&buffer, "two");
    assert_int_equal(protocol_open_bytes(&buffer), 14);
    protocol_close_frame(&buffer);
    protocol_close_frame(&buffer);
    assert_int_equal(protocol_open_bytes(&buffer), 0);
    put_text(&buffer, "three");
    protocol_close_frame(&buffer);
    struct bytes rest = whole(&buffer), payload;
    size_t total;
    assert_int_equal(protocol_next_frame(rest, 100, &payload, &total), FRAME_WHOLE);
    assert_int_equal(payload.length, 14);
    assert_int_equal(total, 14 + PROTOCOL_HEADER_BYTES);
    protocol_consume(&buffer, total);
    assert_int_equal(protocol_next_frame(whole(&buffer), 100, &payload, &total), FRAME_WHOLE);
    assert_int_equal(payload.length, 9);
    put_text(&buffer, "four"); /* behind what was consumed */
    protocol_close_frame(&buffer);
    protocol_consume(&buffer, total);
    assert_int_equal(protocol_next_frame(whole(&buffer), 100, &payload, &total), FRAME_WHOLE);
    assert_memory_equal(payload.data + 4, "four", 4);
    protocol_free(&buffer);
}

static void every_cut_is_partial_and_every_flip_bad(void **state) {
    (void)state;
    struct protocol_buffer buffer = {0};
    put_text(&buffer, "some payload of a frame");
    protocol_close_frame(&buffer);
    struct bytes payload;
    size_t total;
    for (size_t length = 0; length < buffer.length; length++)
        assert_int_equal(protocol_next_frame(bytes_make(buffer.data, length), 100, &payload, &total), FRAME_PARTIAL);
    for (size_t at = 4; at < buffer.length; at++) {
        for (int bit = 0; bit < 8; bit++) {
            buffer.data[at] ^= (uint8_t)(1 << bit);
            assert_int_equal(protocol_next_frame(whole(&buffer), 100, &payload, &total), FRAME_BAD);
            buffer.data[at] ^= (uint8_t)(1 << bit);
        }
    }
    assert_int_equal(protocol_next_frame(whole(&buffer), 27, &payload, &total), FRAME_WHOLE);
    assert_int_equal(protocol_next_frame(whole(&buffer), 26, &payload, &total), FRAME_BAD); /* too long */
    static const uint8_t empty[PROTOCOL_HEADER_BYTES];
    assert_int_equal(protocol_next_frame(bytes_make(empty, sizeof empty), 100, &payload, &total), FRAME_BAD);
    protocol_free(&buffer);
}

static void lack_of_memory_is_remembered(void **state) {
    (void)state;
    struct protocol_buffer buffer = {0};
    memory_fail_after(0);
    assert_null(protocol_reserve(&buffer, 10));
    memory_fail_after(-1);
    assert_true(buffer.failed);
    assert_null(protocol_reserve(&buffer, 10));
    protocol_clear(&buffer, 0);
    assert_non_null(protocol_reserve(&buffer, 10));
    protocol_free(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back),
        cmocka_unit_test(short_payloads_are_bad),
        cmocka_unit_test(frames_follow_each_other),
        cmocka_unit_test(every_cut_is_partial_and_every_flip_bad),
        cmocka_unit_test(lack_of_memory_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
