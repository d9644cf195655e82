/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KEEL_MAP(f, a, b, …) is `f(a), f(b), …` and KEEL_COUNT(a, b, …) is how many there are, for 0 to
 * 32 arguments: what KEEL_TUPLE and KEEL_PATH are made of. Plain C11 preprocessor, no extension.
 * More than 32 arguments name the limit in the compiler's message. Names with a trailing underscore
 * are internal.
 */
#ifndef KEEL_MAP_H
#define KEEL_MAP_H

#define KEEL_PICK_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, \
    a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, \
    a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, \
    a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, n, ...) n
#define KEEL_EXPAND_(x) x
#define KEEL_JOIN_(a, b) KEEL_JOIN_AGAIN_(a, b)
#define KEEL_JOIN_AGAIN_(a, b) a##b

/* 1 to 64 arguments: their number, or the complaint. */
#define KEEL_COUNT_SOME_(...) KEEL_EXPAND_(KEEL_PICK_(__VA_ARGS__, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, holds_at_most_32_arguments, holds_at_most_32_arguments, \
    holds_at_most_32_arguments, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, \
    16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
#define KEEL_HAS_COMMA_(...) KEEL_EXPAND_(KEEL_PICK_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0))

/*
 * Is the list empty? It is if it has no comma, does not become one with a comma when something is
 * put before it or behind it alone, but does when both are.
 */
#define KEEL_COMMA_(...) ,
#define KEEL_EMPTY_(...) \
    KEEL_EMPTY_CASE_(KEEL_HAS_COMMA_(__VA_ARGS__), KEEL_HAS_COMMA_(KEEL_COMMA_ __VA_ARGS__), \
                     KEEL_HAS_COMMA_(__VA_ARGS__ ()), KEEL_HAS_COMMA_(KEEL_COMMA_ __VA_ARGS__ ()))
#define KEEL_EMPTY_CASE_(a, b, c, d) KEEL_EMPTY_CASE_AGAIN_(a, b, c, d)
#define KEEL_EMPTY_CASE_AGAIN_(a, b, c, d) KEEL_HAS_COMMA_(KEEL_EMPTY_CASE_##a##b##c##d##_)
#define KEEL_EMPTY_CASE_0001_ ,

#define KEEL_COUNT(...) KEEL_JOIN_(KEEL_COUNT_, KEEL_EMPTY_(__VA_ARGS__))(__VA_ARGS__)
#define KEEL_COUNT_0(...) KEEL_COUNT_SOME_(__VA_ARGS__)
#define KEEL_COUNT_1(...) 0

#define KEEL_MAP(f, ...) KEEL_JOIN_(KEEL_MAP_, KEEL_COUNT(__VA_ARGS__))(f, __VA_ARGS__)
#define KEEL_MAP_0(f, ...)
#define KEEL_MAP_1(f, a) f(a)
#define KEEL_MAP_2(f, a, ...) f(a), KEEL_MAP_1(f, __VA_ARGS__)
#define KEEL_MAP_3(f, a, ...) f(a), KEEL_MAP_2(f, __VA_ARGS__)
#define KEEL_MAP_4(f, a, ...) f(a), KEEL_MAP_3(f, __VA_ARGS__)
#define KEEL_MAP_5(f, a, ...) f(a), KEEL_MAP_4(f, __VA_ARGS__)
#define KEEL_MAP_6(f, a, ...) f(a), KEEL_MAP_5(f, __VA_ARGS__)
#define KEEL_MAP_7(f, a, ...) f(a), KEEL_MAP_6(f, __VA_ARGS__)
#define KEEL_MAP_8(f, a, ...) f(a), KEEL_MAP_7(f, __VA_ARGS__)
#define KEEL_MAP_9(f, a, ...) f(a), KEEL_MAP_8(f, __VA_ARGS__)
#define KEEL_MAP_10(f, a, ...) f(a), KEEL_MAP_9(f, __VA_ARGS__)
#define KEEL_MAP_11(f, a, ...) f(a), KEEL_MAP_10(f, __VA_ARGS__)
#define KEEL_MAP_12(f, a, ...) f(a), KEEL_MAP_11(f, __VA_ARGS__)
#define KEEL_MAP_13(f, a, ...) f(a), KEEL_MAP_12(f, __VA_ARGS__)
#define KEEL_MAP_14(f, a, ...) f(a), KEEL_MAP_13(f, __VA_ARGS__)
#define KEEL_MAP_15(f, a, ...) f(a), KEEL_MAP_14(f, __VA_ARGS__)
#define KEEL_MAP_16(f, a, ...) f(a), KEEL_MAP_15(f, __VA_ARGS__)
#define KEEL_MAP_17(f, a, ...) f(a), KEEL_MAP_16(f, __VA_ARGS__)
#define KEEL_MAP_18(f, a, ...) f(a), KEEL_MAP_17(f, __VA_ARGS__)
#define KEEL_MAP_19(f, a, ...) f(a), KEEL_MAP_18(f, __VA_ARGS__)
#define KEEL_MAP_20(f, a, ...) f(a), KEEL_MAP_19(f, __VA_ARGS__)
#define KEEL_MAP_21(f, a, ...) f(a), KEEL_MAP_20(f, __VA_ARGS__)
#define KEEL_MAP_22(f, a, ...) f(a), KEEL_MAP_21(f, __VA_ARGS__)
#define KEEL_MAP_23(f, a, ...) f(a), KEEL_MAP_22(f, __VA_ARGS__)
#define KEEL_MAP_24(f, a, ...) f(a), KEEL_MAP_23(f, __VA_ARGS__)
#define KEEL_MAP_25(f, a, ...) f(a), KEEL_MAP_24(f, __VA_ARGS__)
#define KEEL_MAP_26(f, a, ...) f(a), KEEL_MAP_25(f, __VA_ARGS__)
#define KEEL_MAP_27(f, a, ...) f(a), KEEL_MAP_26(f, __VA_ARGS__)
#define KEEL_MAP_28(f, a, ...) f(a), KEEL_MAP_27(f, __VA_ARGS__)
#define KEEL_MAP_29(f, a, ...) f(a), KEEL_MAP_28(f, __VA_ARGS__)
#define KEEL_MAP_30(f, a, ...) f(a), KEEL_MAP_29(f, __VA_ARGS__)
#define KEEL_MAP_31(f, a, ...) f(a), KEEL_MAP_30(f, __VA_ARGS__)
#define KEEL_MAP_32(f, a, ...) f(a), KEEL_MAP_31(f, __VA_ARGS__)

#endif
