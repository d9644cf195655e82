/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stub is not the copy it leads to: it says that it is another library, of the version
 * STUB_API_VERSION; every cluster is the directory STUB_DATABASE; and it remembers what was asked of
 * its network, for tests to look at through the functions stub_*.
 *
 * With STUB_SILENT set, the cluster behind it never answers a transaction; the file of that name is
 * made when the first question is asked.
 *
 * A library of an older version is this one with fewer names: see the .map files.
 */
#include "stub.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef STUB_API_VERSION
#define STUB_API_VERSION 740
#endif

#define COUNT(name) __atomic_add_fetch(&stub_count_##name, 1, __ATOMIC_RELAXED)
#define TARGET(name) ((__typeof__(fdb_##name) *)stub_target_##name)

static char options[4096];
static int selected_runtime, selected_header;
static _Atomic int runs, ended, held, waits;

DLLEXPORT const char *stub_options(void) {
    return options;
}

DLLEXPORT int stub_selected(int *header) {
    *header = selected_header;
    return selected_runtime;
}

/* How often its network was begun and has ended. */
DLLEXPORT int stub_runs(int *ended_count) {
    *ended_count = ended;
    return runs;
}

/* While it is held, its network does not end when it is stopped; returns whether it waits for that. */
DLLEXPORT int stub_hold(int hold) {
    held = hold;
    return waits;
}

/* As the official one, which has no version before it knows which API is wanted, and crashes. */
const char *fdb_get_client_version(void) {
    COUNT(get_client_version);
    if (!selected_runtime) {
        fprintf(stderr, "stub: asked for its version before one was selected\n");
        abort();
    }
    return "7.4.6,stub,fdb00b074000000";
}

/* It knows FoundationDB's codes and no others. */
const char *fdb_get_error(fdb_error_t code) {
    COUNT(get_error);
    return code >= 20000 ? "UNKNOWN_ERROR" : TARGET(get_error)(code);
}

int fdb_get_max_api_version(void) {
    COUNT(get_max_api_version);
    return STUB_API_VERSION;
}

fdb_error_t fdb_select_api_version_impl(int runtime_version, int header_version) {
    COUNT(select_api_version_impl);
    if (header_version > STUB_API_VERSION)
        return 2203;
    selected_runtime = runtime_version;
    selected_header = header_version;
    return TARGET(select_api_version_impl)(runtime_version, header_version);
}

/* Refuses the knob "refused". */
fdb_error_t fdb_network_set_option(FDBNetworkOption option, uint8_t const *value, int value_length) {
    COUNT(network_set_option);
    if (value && value_length >= 7 && memcmp(value, "refused", 7) == 0)
        return 2006;
    size_t used = strlen(options);
    snprintf(options + used, sizeof options - used, "%d=%.*s;", (int)option, value ? value_length : 0, value ? (const char *)value : "");
    return TARGET(network_set_option)(option, value, value_length);
}

fdb_error_t fdb_run_network(void) {
    COUNT(run_network);
    runs++;
    fdb_error_t error = TARGET(run_network)();
    for (; held; usleep(1000))
        waits = 1;
    usleep(100000); /* so that who does not wait for its end is found out */
    ended++;
    return error;
}

/*
 * What a transaction asks of a silent cluster: a future that comes to its end by being cancelled alone, that of a watch on a key which nobody
 * writes. Whatever other arguments there are stay unseen.
 */
static FDBFuture *never(FDBTransaction *transaction) {
    FILE *asked = fopen(getenv("STUB_SILENT"), "w");
    if (asked)
        fclose(asked);
    return TARGET(transaction_watch)(transaction, (const uint8_t *)"", 0);
}

#define WAITING(X)                                                                                 \
    X(get_read_version)                                                                            \
    X(get)                                                                                         \
    X(get_key)                                                                                     \
    X(get_range)                                                                                   \
    X(get_mapped_range)                                                                            \
    X(get_addresses_for_key)                                                                       \
    X(get_estimated_range_size_bytes)                                                              \
    X(get_range_split_points)                                                                      \
    X(commit)

void stub_silence(void) {
    if (!getenv("STUB_SILENT"))
        return;
#define SILENCE(name) stub_target_transaction_##name = (void *)never;
    WAITING(SILENCE)
}

static const char *directory(void) {
    const char *path = getenv("STUB_DATABASE");
    if (!path) {
        fprintf(stderr, "stub: STUB_DATABASE is not set\n");
        abort();
    }
    return path;
}

fdb_error_t fdb_create_database(const char *cluster_file_path, FDBDatabase **out_database) {
    COUNT(create_database);
    FILE *file = fopen(cluster_file_path, "r");
    if (!file)
        return 1515;
    fclose(file);
    return TARGET(create_database)(directory(), out_database);
}

fdb_error_t fdb_create_database_from_connection_string(const char *connection_string, FDBDatabase **out_database) {
    COUNT(create_database_from_connection_string);
    (void)connection_string;
    return TARGET(create_database)(directory(), out_database);
}

#undef fdb_create_cluster
DLLEXPORT FDBFuture *fdb_create_cluster(const char *cluster_file_path);
FDBFuture *fdb_create_cluster(const char *cluster_file_path) {
    COUNT(create_cluster);
    (void)cluster_file_path;
    return ((FDBFuture * (*)(const char *)) stub_target_create_cluster)(directory());
}
