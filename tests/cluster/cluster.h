/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of clusters share. Each scenario runs in a process of its own, with an environment of its own. */
#ifndef KEEL_TESTS_CLUSTER_H
#define KEEL_TESTS_CLUSTER_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ERROR_TRANSACTION_TOO_LARGE = 2101,
    ERROR_OPERATION_CANCELLED = 1101,
    ERROR_FUTURE_RELEASED = 1102,
    ERROR_NO_CLUSTER_FILE = 1515,
    ERROR_INVALID_OPTION_VALUE = 2006,
    ERROR_NETWORK_CANNOT_BE_RESTARTED = 2025,
    ERROR_BLOCKED_FROM_NETWORK_THREAD = 2026,
    ERROR_CONNECTION_STRING_INVALID = 2104,
    ERROR_UNSUPPORTED_OPERATION = 2108,
    ERROR_TENANTS_DISABLED = 2136,
    ERROR_API_VERSION_NOT_SUPPORTED = 2203,
    ERROR_LIBRARY_MISSING = 20008,
    ERROR_OPENED_BEFORE_FORK = 20020,
};

extern int check_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            check_failures++;                                                                      \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(found, expected)                                                               \
    do {                                                                                           \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                  \
        if (found_ != expected_) {                                                                 \
            fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, #found,      \
                    found_, #expected, expected_);                                                 \
            check_failures++;                                                                      \
        }                                                                                          \
    } while (0)

/* The scratch directory of the run, and names in it; the cluster file. */
const char *scratch_path(const char *name);
const char *cluster_file(void);
/* Where the stubs are: "libfdb_stub.so" and its kin. */
const char *library_path(const char *name);

/* Selects the version, sets the network up and runs it; stops it and waits for its end. */
void network_begin(int version);
void network_end(void);

FDBDatabase *open_database(const char *path);
FDBTransaction *begin(FDBDatabase *database);

/* Each waits, and gives the future back. */
fdb_error_t error_of(FDBFuture *future);
fdb_error_t first_error(FDBDatabase *database); /* of a read on a new transaction */

fdb_error_t write_text(FDBDatabase *database, const char *key, const char *value);
/* The value, at most 99 bytes, in static memory; "" if there is none, "!" on an error. */
const char *read_text(FDBDatabase *database, const char *key);

FDBFuture *get(FDBTransaction *tr, const char *key);

/* A function of the stub beside the fdb_* ones, in the library that is loaded. */
void *stub_function(const char *library, const char *name);

/* Whether the file KEEL_LOG names has this text. */
bool log_has(const char *text);

/* Scenarios in other files. */
void scenario_everything(void);
void scenario_old(void);
void scenario_ancient(void);
void scenario_ancient_clusters(void);

#endif
