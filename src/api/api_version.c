/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API version: the first thing a program says. It is chosen once a process and decides, from
 * then on, what calls mean; transactions get it through their database handle.
 *
 * Two numbers come in: `header_version`, against which the program was compiled, and
 * `runtime_version`, which it asks for. A program cannot ask for what its headers did not know, nor
 * the headers know more than this library. All functions of the versions supported have one binary
 * form, so nothing is redirected: those that were removed (clusters at 610, get_version at 620)
 * stay callable for programs compiled before.
 *
 * Also here: the texts of error codes, which need no version. Threads: any; of two selections at
 * the same time one wins.
 */
#include "api/export.h"

#include "api/api_version.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "util/error.h"

static _Atomic int selected;

int api_version(void) {
    return atomic_load_explicit(&selected, memory_order_acquire);
}

fdb_error_t fdb_select_api_version_impl(int runtime_version, int header_version) {
    if (api_version() != 0)
        return ERROR_API_VERSION_ALREADY_SET;
    if (runtime_version > header_version)
        return ERROR_API_VERSION_INVALID;
    if (header_version > API_VERSION_MAX || runtime_version < API_VERSION_MIN)
        return ERROR_API_VERSION_NOT_SUPPORTED;
    int none = 0;
    if (!atomic_compare_exchange_strong(&selected, &none, runtime_version))
        return ERROR_API_VERSION_ALREADY_SET;
    return 0;
}

/*
 * KEEL_API_VERSION is what we say where we are asked for the newest version there is, for programs that
 * select that while the official library behind a cluster is older. Anything that is not a version we
 * have is passed over.
 */
static int newest(void) {
    const char *text = getenv("KEEL_API_VERSION");
    char *end = NULL;
    long version = text && *text ? strtol(text, &end, 10) : 0;
    return end && !*end && version >= API_VERSION_MIN && version < API_VERSION_MAX ? (int)version : API_VERSION_MAX;
}

int fdb_get_max_api_version(void) {
    return newest();
}

/* Release, source and protocol, as FoundationDB's tools take them apart at the commas. */
const char *fdb_get_client_version(void) {
    return "7.4.6,keel,fdb00b074000000";
}

const char *fdb_get_error(fdb_error_t code) {
    return error_text(code);
}

fdb_bool_t fdb_error_predicate(int predicate, fdb_error_t code) {
    return error_predicate(predicate, code);
}
