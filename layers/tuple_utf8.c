/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as the Unicode standard has it well-formed: no surrogates, no overlong forms, nothing
 * beyond U+10FFFF.
 *
 * Every string of every key passes here when it is packed, so ASCII goes eight bytes at a time.
 * What the second byte of a sequence may be depends on the first:
 *
 *     first    c2..df  e0      e1..ec  ed      ee ef   f0      f1..f3  f4
 *     second   80..bf  a0..bf  80..bf  80..9f  80..bf  90..bf  80..bf  80..8f
 *
 * Later bytes are 80..bf. Nothing is read beyond the bytes given.
 */
#include "tuple_private.h"

static bool is_continuation(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

static bool is_second(uint8_t first, uint8_t second) {
    switch (first) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return is_continuation(second);
    }
}

size_t tuple_utf8_next(const uint8_t *data, size_t length) {
    if (length == 0)
        return 0;
    uint8_t first = data[0];
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    size_t needed = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length < needed || !is_second(first, data[1]))
        return 0;
    for (size_t i = 2; i < needed; i++)
        if (!is_continuation(data[i]))
            return 0;
    return needed;
}

bool tuple_utf8_valid(keel_bytes bytes) {
    size_t position = 0;
    while (position < bytes.length) {
        uint64_t eight;
        if (bytes.length - position >= sizeof eight) {
            memcpy(&eight, bytes.data + position, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                position += sizeof eight;
                continue;
            }
        }
        if (bytes.data[position] < 0x80) {
            position++;
            continue;
        }
        size_t step = tuple_utf8_next(bytes.data + position, bytes.length - position);
        if (step == 0)
            return false;
        position += step;
    }
    return true;
}
