/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the official client library. It has the file name, the SONAME and the functions that we
 * have, so finding it means telling it from ourselves, and a Keel may well be installed where it used
 * to be:
 *
 *   1. KEEL_FDB_LIBRARY names it; then nothing else is tried. Otherwise the places where its packages
 *      put it, in order; the first that will do is taken.
 *   2. What says of itself that it is Keel is refused, be it this library under another name (the loader
 *      then hands back what it has already) or another copy, which would only lead back here.
 *   3. It must have every function that FoundationDB 5.1 had; the others are NULL where it is older.
 *
 * It is opened RTLD_LOCAL and never closed: its threads run to the end of the process. The only one of
 * its functions that is called here is fdb_get_error: until an API version is selected the official library
 * answers little else, and fdb_get_client_version not at all (it crashes).
 *
 * Threads: loading under the lock of network.c. Failure: a line in the log for each place, said once;
 * what is installed later is found by the next try.
 */
#include "cluster/library.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os/library.h"
#include "os/log_line.h"
#include "os/path.h"

struct cluster_functions cluster_official;

static _Atomic bool loaded;
static char loaded_path[OS_PATH_BYTES_MAX];
static bool complained; /* about not finding it */

#if defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "x86_64-linux-gnu"
#endif

static const char *const usual_places[] = {
    "/usr/lib/libfdb_c.so",
    "/usr/lib64/libfdb_c.so",
    "/usr/lib/" MULTIARCH "/libfdb_c.so",
    "/usr/lib/foundationdb/libfdb_c.so",
    "/usr/local/lib/libfdb_c.so",
    "/usr/local/lib64/libfdb_c.so",
    "/usr/local/lib/foundationdb/libfdb_c.so",
    "/opt/foundationdb/lib/libfdb_c.so",
    "/opt/foundationdb/lib64/libfdb_c.so",
};

/* Said only once, as every operation on a cluster comes here until there is a library. */
static bool refuse(const char *path, const char *why) {
    if (!complained)
        log_line("%s is not used as FoundationDB's client library: %s", path, why);
    return false;
}

/* ---- Ourselves ---- */

/*
 * Every Keel has a text for CLUSTER_LIBRARY_MISSING, which is outside FoundationDB's numbers: there it
 * has the text that all unknown codes have. What is asked is the function of the library that was
 * opened, whichever way it led to us.
 */
static bool is_keel(const struct cluster_functions *functions) {
    const int never_used = 29999;
    return strcmp(functions->get_error(ERROR_CLUSTER_LIBRARY_MISSING), functions->get_error(never_used)) != 0;
}

/* ---- Its functions ---- */

/* Puts the address of fdb_<name> into the pointer at `field`; NULL if there is none. */
static bool find(void *library, const char *name, void *field) {
    void *symbol = os_library_symbol(library, name);
    memcpy(field, &symbol, sizeof symbol);
    return symbol != NULL;
}

static const char *find_all(void *library, struct cluster_functions *functions) {
#define REQUIRED(name)                                                                             \
    if (!find(library, "fdb_" #name, &functions->name))                                            \
        return "fdb_" #name;
    CLUSTER_REQUIRED(REQUIRED)
#undef REQUIRED
#define OPTIONAL(name) (void)find(library, "fdb_" #name, &functions->name);
    CLUSTER_OPTIONAL(OPTIONAL)
    OPTIONAL(create_cluster)
    OPTIONAL(future_get_cluster)
    OPTIONAL(cluster_create_database)
    OPTIONAL(future_get_database)
    OPTIONAL(cluster_destroy)
    OPTIONAL(future_get_version)
#undef OPTIONAL
    return NULL;
}

/* ---- Trying ---- */

static bool try(const char *path) {
    struct cluster_functions functions;
    void *library = os_library_open(path);
    if (!library)
        return refuse(path, os_library_error());
    const char *missing = find_all(library, &functions);
    if (missing) {
        char why[128];
        snprintf(why, sizeof why, "it has no %s", missing);
        return refuse(path, why);
    }
    if (is_keel(&functions))
        return refuse(path, "it is Keel itself");
    cluster_official = functions;
    snprintf(loaded_path, sizeof loaded_path, "%s", path);
    log_line("FoundationDB's client library is %s", path);
    atomic_store_explicit(&loaded, true, memory_order_release);
    return true;
}

static bool try_usual_places(void) {
    for (size_t i = 0; i < sizeof usual_places / sizeof *usual_places; i++) {
        enum os_path_kind kind;
        bool exists = os_path_kind(usual_places[i], &kind) == 0 && kind != OS_PATH_MISSING;
        if (exists && try(usual_places[i]))
            return true;
    }
    return false;
}

fdb_error_t cluster_library_load(void) {
    if (cluster_library_is_loaded())
        return 0;
    const char *named = getenv("KEEL_FDB_LIBRARY");
    if (named && *named ? try(named) : try_usual_places())
        return 0;
    if (!complained)
        log_line("%s (KEEL_FDB_LIBRARY %s)", error_text(ERROR_CLUSTER_LIBRARY_MISSING), named && *named ? named : "is not set");
    complained = true;
    return ERROR_CLUSTER_LIBRARY_MISSING;
}

bool cluster_library_is_loaded(void) {
    return atomic_load_explicit(&loaded, memory_order_acquire);
}

const char *cluster_library_path(void) {
    return loaded_path;
}
