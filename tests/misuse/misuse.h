/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every case of misuse has at hand. A case is a function that runs in a process of its own and
 * ends with the process: it passes if the child exits with 0, so an abort, a crash, a hang (an
 * alarm goes off) or a leak that a sanitizer finds at exit fails that case and no other.
 *
 * Only <foundationdb/fdb_c.h> is known here.
 */
#ifndef KEEL_TESTS_MISUSE_H
#define KEEL_TESTS_MISUSE_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct misuse_case {
    const char *name;
    void (*run)(void);
};

/* One table a file, each ending in a case without a name. */
extern const struct misuse_case argument_cases[];
extern const struct misuse_case range_cases[];
extern const struct misuse_case object_cases[];
extern const struct misuse_case thread_cases[];
extern const struct misuse_case network_cases[];
extern const struct misuse_case place_cases[];

/* Ends the case as failed. */
_Noreturn void fail_at(const char *file, int line, const char *what, long long found,
                       long long expected);

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition))                                                                         \
            fail_at(__FILE__, __LINE__, #condition, 0, 1);                                        \
    } while (0)

#define CHECK_EQUAL(expression, expected_value)                                                   \
    do {                                                                                          \
        long long found_ = (long long)(expression), expected_ = (long long)(expected_value);      \
        if (found_ != expected_)                                                                  \
            fail_at(__FILE__, __LINE__, #expression, found_, expected_);                          \
    } while (0)

/* Sets up version 740 and the network, and runs it on a thread. */
void network_start(void);
/* Stops it and waits for its thread. */
void network_stop(void);
/* The two halves of network_start, for cases that misuse them. */
void network_set_up(void);
void network_run(void);

FDBDatabase *database_open(const char *path);
FDBTransaction *transaction_begin(FDBDatabase *database);

/* A path inside this case's own empty directory, valid until the next call but three. */
const char *scratch_path(const char *name);

/* Waits, destroys the future and returns its error. */
fdb_error_t finish(FDBFuture *future);
/* Commits and waits. */
fdb_error_t commit(FDBTransaction *tr);
void set_text(FDBTransaction *tr, const char *key, const char *value);
/* Reads a key in a transaction of its own: whether it has this value. */
bool has_text(FDBDatabase *database, const char *key, const char *value);

#define KEY(text) (const uint8_t *)(text), (int)strlen(text)

/* A number as options take it; valid until the next call on this thread. */
const uint8_t *option_number(int64_t number);
void set_transaction_number(FDBTransaction *tr, FDBTransactionOption option, int64_t number);

/* How many rounds to make: less where a checker makes everything slow. */
int rounds(int usual);
bool is_checked_memory(void);

#endif
