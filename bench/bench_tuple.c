/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast tuples are packed and unpacked, and the proof that neither touches the heap: this
 * program's malloc, calloc, realloc and free are counted while it runs, and it ends with an error
 * if they were called.
 *
 *     bench_tuple [ROUNDS]
 *
 * Prints nanoseconds for each element of ("users", 123456, "email") and of a tuple of every type.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <keel/tuple.h>

/* --- Counting the heap: these stand before the C library's, for libkeel too --- */

static unsigned long heap_calls;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

void *malloc(size_t size) {
    heap_calls++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    heap_calls++;
    return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
    heap_calls++;
    return __libc_realloc(memory, size);
}
void free(void *memory) {
    heap_calls++;
    __libc_free(memory);
}

/* --- Measuring --- */

static double now_nanoseconds(void) {
    struct timespec now;
    /* nothing here waits; others on the machine do not count */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Keeps the compiler from knowing what is in there. */
static void use(void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

static int fail(const char *what, fdb_error_t error) {
    fprintf(stderr, "%s: error %d\n", what, error);
    return 1;
}

static void report(const char *name, const char *what, double nanoseconds, size_t rounds,
                   size_t elements) {
    double each = nanoseconds / (double)rounds / (double)elements;
    printf("%-28s %-8s %8.1f ns per element %12.0f elements/s\n", name, what, each, 1e9 / each);
}

/* The one everybody packs, made anew each time as a program does. */
static int bench_user(size_t rounds) {
    uint8_t key[64];
    char text[16];
    size_t length = 0, text_length;
    int64_t id = 123456;
    fdb_error_t error;
    double start = now_nanoseconds();
    for (size_t i = 0; i < rounds; i++) {
        use(&id);
        if ((error = keel_tuple_pack(KEEL_TUPLE("users", id, "email"), key, sizeof key, &length)))
            return fail("pack", error);
        use(key);
    }
    report("(\"users\", 123456, \"email\")", "pack", now_nanoseconds() - start, rounds, 3);
    start = now_nanoseconds();
    for (size_t i = 0; i < rounds; i++) {
        keel_tuple_iterator it = keel_tuple_iterate(KEEL_BYTES(key, length));
        if ((error = keel_tuple_next_string(&it, text, sizeof text, &text_length)) ||
            (error = keel_tuple_next_int(&it, &id)) ||
            (error = keel_tuple_next_string(&it, text, sizeof text, &text_length)))
            return fail("unpack", error);
        use(text);
    }
    report("(\"users\", 123456, \"email\")", "unpack", now_nanoseconds() - start, rounds, 3);
    return 0;
}

static int bench_all_types(size_t rounds) {
    static const uint8_t uuid[16] = {1}, stamp[12] = {2}, big[20] = {3};
    uint8_t key[256];
    size_t length = 0;
    keel_tuple tuple = KEEL_TUPLE(KEEL_NIL, KEEL_BYTES("a\0b", 3), "string",
                                  KEEL_TUPLE("nested", KEEL_NIL), -5, UINT64_MAX,
                                  KEEL_BIG(big, 20, true), 1.5f, 2.5,
                                  KEEL_TRUE, KEEL_UUID(uuid), KEEL_VERSIONSTAMP(stamp));
    keel_element element;
    fdb_error_t error;
    double start = now_nanoseconds();
    for (size_t i = 0; i < rounds; i++) {
        use(&tuple);
        if ((error = keel_tuple_pack(tuple, key, sizeof key, &length)))
            return fail("pack", error);
    }
    report("one of every type", "pack", now_nanoseconds() - start, rounds, tuple.count);
    start = now_nanoseconds();
    for (size_t i = 0; i < rounds; i++) {
        keel_tuple_iterator it = keel_tuple_iterate(KEEL_BYTES(key, length));
        while (!(error = keel_tuple_next(&it, &element)))
            use(&element);
        if (error != KEEL_ERROR_TUPLE_END)
            return fail("unpack", error);
    }
    report("one of every type", "unpack", now_nanoseconds() - start, rounds, tuple.count);
    return 0;
}

int main(int argument_count, char **arguments) {
    size_t rounds = argument_count > 1 ? (size_t)strtoull(arguments[1], NULL, 0) : 2000000;
    printf("tuples, %zu rounds\n", rounds); /* printf takes its buffer before the count begins */
    free(malloc(1));
    if (heap_calls < 2) {
        fprintf(stderr, "the heap is not counted here\n");
        return 1;
    }
    unsigned long before = heap_calls;
    int failed = bench_user(rounds) || bench_all_types(rounds);
    printf("calls of the heap while packing and unpacking: %lu\n", heap_calls - before);
    return failed || heap_calls != before;
}
