/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the official client library, for tests without a cluster: every fdb_* function is
 * there and leads to a copy of our own library, which is opened under another name. So a test sees
 * what a program sees that has our library in front of another one.
 *
 * Each function is a jump through a pointer, whatever its arguments are, behind a count: which of them
 * were called is written to the file STUB_CALLS at the end, a line each. What has to differ from the
 * copy is in stub_own.c: the symbols here are weak.
 *
 *     STUB_LIBRARY   the copy of libfdb_c.so to lead to
 *     STUB_DATABASE  the directory that stands for the cluster
 *     STUB_SILENT    if set, the cluster does not answer: see stub_own.c
 */
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#define JUMP(name)                                                                                 \
    "lock incq stub_count_" #name "(%rip)\n"                                                       \
    "jmp *stub_target_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name)                                                                                 \
    "adrp x16, stub_count_" #name "\n"                                                             \
    "ldr x17, [x16, :lo12:stub_count_" #name "]\n"                                                 \
    "add x17, x17, 1\n"                                                                            \
    "str x17, [x16, :lo12:stub_count_" #name "]\n"                                                 \
    "adrp x16, stub_target_" #name "\n"                                                            \
    "ldr x16, [x16, :lo12:stub_target_" #name "]\n"                                                \
    "br x16\n"
#else
#error "the stub knows no jump for this machine"
#endif

#define FORWARD(name)                                                                              \
    __attribute__((used)) void *stub_target_##name;                                                \
    __attribute__((used)) long stub_count_##name;                                                  \
    __asm__(".pushsection .text\n"                                                                 \
            ".weak fdb_" #name "\n"                                                                \
            ".type fdb_" #name ", %function\n"                                                     \
            "fdb_" #name ":\n" JUMP(name) ".size fdb_" #name ", . - fdb_" #name "\n"               \
            ".popsection\n");
STUB_FUNCTIONS(FORWARD)

__attribute__((constructor)) static void open_copy(void) {
    const char *path = getenv("STUB_LIBRARY");
    void *copy = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!copy) {
        fprintf(stderr, "stub: STUB_LIBRARY: %s\n", path ? dlerror() : "not set");
        abort();
    }
#define FIND(name) stub_target_##name = dlsym(copy, "fdb_" #name);
    STUB_FUNCTIONS(FIND)
    stub_silence();
}

__attribute__((destructor)) static void write_calls(void) {
    const char *path = getenv("STUB_CALLS");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file)
        return;
#define WRITE(name)                                                                                \
    if (stub_count_##name)                                                                         \
        fprintf(file, "fdb_" #name "\n");
    STUB_FUNCTIONS(WRITE)
    fclose(file);
}
