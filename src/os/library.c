/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen and its kin. A library is opened RTLD_NOW, so that one that lacks something fails here and
 * not in the middle of a call, and RTLD_LOCAL, so that nobody else's lookups meet its names. Not
 * RTLD_DEEPBIND: see docs/decisions/0008-cluster.md. Threads: any. Failure: NULL.
 */
#include "os/library.h"

#include <dlfcn.h>
#include <string.h>

static _Thread_local char last_error[512];

static void keep_error(void) {
    const char *text = dlerror();
    size_t length = text ? strlen(text) : 0;
    if (length > sizeof last_error - 1)
        length = sizeof last_error - 1;
    if (length)
        memcpy(last_error, text, length);
    last_error[length] = '\0';
}

void *os_library_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        keep_error();
    return library;
}

void *os_library_symbol(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol)
        keep_error();
    return symbol;
}

const char *os_library_error(void) {
    return last_error;
}
