/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every conformance test uses: one database for the whole run, a key prefix of its own for
 * each test, short ways to read, write and compare, and a scratch memory that ends with the test.
 *
 * Nothing here or in the tests knows more of the library than <foundationdb/fdb_c.h>, so that the
 * suite judges any libfdb_c. KEEL_TEST_CLUSTER names the database (a cluster file); without it the
 * suite opens a fresh embedded database in a temporary directory and removes it afterwards. With
 * KEEL_TEST_HOLDER, a program (tests/remote/holder.c), that database is owned by another process,
 * and everything goes over its socket.
 */
#ifndef KEEL_TESTS_CONFORMANCE_SUPPORT_H
#define KEEL_TESTS_CONFORMANCE_SUPPORT_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The errors the tests name. */
enum {
    ERROR_TRANSACTION_TOO_OLD = 1007,
    ERROR_FUTURE_VERSION = 1009,
    ERROR_NOT_COMMITTED = 1020,
    ERROR_COMMIT_UNKNOWN_RESULT = 1021,
    ERROR_TRANSACTION_CANCELLED = 1025,
    ERROR_TRANSACTION_TIMED_OUT = 1031,
    ERROR_TOO_MANY_WATCHES = 1032,
    ERROR_WATCHES_DISABLED = 1034,
    ERROR_ACCESSED_UNREADABLE = 1036,
    ERROR_OPERATION_CANCELLED = 1101,
    ERROR_FUTURE_RELEASED = 1102,
    ERROR_CLIENT_INVALID_OPERATION = 2000,
    ERROR_KEY_OUTSIDE_LEGAL_RANGE = 2004,
    ERROR_INVERTED_RANGE = 2005,
    ERROR_INVALID_OPTION_VALUE = 2006,
    ERROR_INVALID_OPTION = 2007,
    ERROR_NETWORK_NOT_SETUP = 2008,
    ERROR_NETWORK_ALREADY_SETUP = 2009,
    ERROR_READ_VERSION_ALREADY_SET = 2010,
    ERROR_VERSION_INVALID = 2011,
    ERROR_RANGE_LIMITS_INVALID = 2012,
    ERROR_INVALID_DATABASE_NAME = 2013,
    ERROR_FUTURE_NOT_SET = 2015,
    ERROR_USED_DURING_COMMIT = 2017,
    ERROR_INVALID_MUTATION_TYPE = 2018,
    ERROR_TRANSACTION_INVALID_VERSION = 2020,
    ERROR_NO_COMMIT_VERSION = 2021,
    ERROR_ENVIRONMENT_OPTION_FAILED = 2022,
    ERROR_NETWORK_CANNOT_BE_RESTARTED = 2025,
    ERROR_BLOCKED_FROM_NETWORK_THREAD = 2026,
    ERROR_TRANSACTION_TOO_LARGE = 2101,
    ERROR_KEY_TOO_LARGE = 2102,
    ERROR_VALUE_TOO_LARGE = 2103,
    ERROR_CONNECTION_STRING_INVALID = 2104,
    ERROR_TOO_MANY_TAGS = 2109,
    ERROR_TAG_TOO_LONG = 2110,
    ERROR_SPECIAL_KEYS_CROSS_MODULE_READ = 2112,
    ERROR_SPECIAL_KEYS_NO_MODULE_FOUND = 2113,
    ERROR_SPECIAL_KEYS_WRITE_DISABLED = 2114,
    ERROR_API_VERSION_ALREADY_SET = 2201,
    ERROR_API_VERSION_INVALID = 2202,
    ERROR_API_VERSION_NOT_SUPPORTED = 2203,
    ERROR_EXACT_MODE_WITHOUT_LIMITS = 2210
};

enum {
    KEY_BYTES_MAX = 10000,
    VALUE_BYTES_MAX = 100000,
    TRANSACTION_BYTES_MAX = 10000000,
    VERSIONSTAMP_BYTES = 10
};

/* Bytes somebody else owns, mostly the scratch memory of the test. */
struct bytes {
    const uint8_t *data;
    int size;
};

/* ---- The run ---- */

extern FDBDatabase *test_database;

/* Selects API version 740, starts the network, opens the database. Ends the process on failure. */
void run_begin(void);
/* Removes the run's keys, closes, stops the network, removes the temporary directory. */
void run_end(void);

/* The same in pieces, for children. run_prepare chooses database and key prefix. */
void run_prepare(void);
void run_begin_at(int runtime_version, int header_version);
void run_start_network(void);
void run_stop_network(void);
void run_clean_up(void);

/* The version the tests run at: 740, or KEEL_TEST_API_VERSION, the newest that the library has. */
int run_version(void);

/* First in a test of something that came with this version. */
#define SINCE(version)                                                                            \
    do {                                                                                          \
        (void)state;                                                                              \
        if (run_version() < (version)) {                                                          \
            SKIP("came with API version " #version);                                              \
        }                                                                                         \
    } while (0)

/* Leaves the test, saying why. */
#define SKIP(reason)                                                                              \
    do {                                                                                          \
        print_message("skipped: %s\n", reason);                                                   \
        skip();                                                                                   \
    } while (0)

/*
 * Whether what is tested is of that version's release or a later one, whatever version is selected: for what came with a release and not with
 * a version (options, retryable errors). An embedded database is; a cluster is taken to be no newer than what it is asked for.
 */
bool run_is_since(int version);

/* Whether the suite opened its own embedded database. */
bool run_is_embedded(void);

/* Path to give to fdb_create_database for one more handle on the same database. */
const char *run_database_path(void);

/* Embedded runs only: a path in the temporary directory that does not exist yet. */
const char *run_temporary_path(const char *name);

/*
 * Runs this program again with "--child name" and the extra environment entry "NAME=value" (or
 * NULL), for tests that need a process of their own; fails the test unless the child exits with 0.
 */
void run_child(const char *name, const char *environment_entry);

/* ---- One test (cmocka setup and teardown) ---- */

int test_begin(void **state);
int test_end(void **state);

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_begin, test_end)

/* Memory until the end of the test; never NULL. */
void *scratch(size_t size);

/* ---- Bytes ---- */

struct bytes raw(const void *data, int size);
struct bytes text(const char *string);
/* The string literal's bytes with embedded zeros, without the final one. */
#define LITERAL(string) raw(string, (int)sizeof(string) - 1)
struct bytes repeat(uint8_t byte, int size);
struct bytes joined(struct bytes first, struct bytes second);
struct bytes little_endian(uint64_t number, int size);

/* This test's key prefix + suffix. */
struct bytes key(const char *suffix);
struct bytes key_bytes(struct bytes suffix);
/* First key behind the prefix. */
struct bytes prefix_end(void);
/* The key right after. */
struct bytes key_after(struct bytes key);

/* ---- Futures: each waits, then destroys the future ---- */

fdb_error_t future_error(FDBFuture *future);

#define assert_ready(future) assert_int_equal(future_error(future), 0)
#define assert_fails(future, error) assert_int_equal(future_error(future), (error))

int64_t future_int64(FDBFuture *future);
struct bytes future_key(FDBFuture *future);

struct value {
    bool present;
    struct bytes bytes;
};
struct value future_value(FDBFuture *future);

struct row {
    struct bytes key, value;
};
struct rows {
    int count;
    bool more;
    struct row *row;
};
struct rows future_rows(FDBFuture *future);

/* Polls until ready, for things with no promise when; false after a generous while. */
bool becomes_ready(FDBFuture *future);
void sleep_milliseconds(int milliseconds);

/* ---- Transactions ---- */

FDBTransaction *begin(void);
FDBTransaction *begin_on(FDBDatabase *database);
/* One more handle on the test's database, for tests that change database options. */
FDBDatabase *open_again(void);

void set_option(FDBTransaction *tr, FDBTransactionOption option);
void set_option_int(FDBTransaction *tr, FDBTransactionOption option, int64_t value);
void set_database_option_int(FDBDatabase *database, FDBDatabaseOption option, int64_t value);

/*
 * The error of setting an option, wherever it shows: from the call, as Keel does, or from the next
 * use of the transaction, as the official library does. Uses the transaction up.
 */
fdb_error_t option_error(FDBTransactionOption option, const void *value, int size);

void put(FDBTransaction *tr, struct bytes key, struct bytes value);
void erase(FDBTransaction *tr, struct bytes key);
void erase_range(FDBTransaction *tr, struct bytes begin, struct bytes end);
void mutate(FDBTransaction *tr, FDBMutationType type, struct bytes key, struct bytes operand);
void add_conflict(FDBTransaction *tr, struct bytes begin, struct bytes end,
                  FDBConflictRangeType type);

FDBFuture *get(FDBTransaction *tr, struct bytes key);
FDBFuture *get_snapshot(FDBTransaction *tr, struct bytes key);
FDBFuture *get_key(FDBTransaction *tr, struct bytes key, bool or_equal, int offset);
struct bytes resolve(FDBTransaction *tr, struct bytes key, bool or_equal, int offset);

struct selector {
    struct bytes key;
    bool or_equal;
    int offset;
};
struct selector first_at_or_after(struct bytes key);
struct selector first_after(struct bytes key);
struct selector last_at_or_before(struct bytes key);
struct selector last_before(struct bytes key);

struct range {
    struct selector begin, end;
    int limit, target_bytes;
    FDBStreamingMode mode;
    int iteration;
    bool snapshot, reverse;
};
/* [begin, end) with WANT_ALL and no limits. */
struct range span(struct bytes begin, struct bytes end);
/* All keys of the test. */
struct range all(void);
FDBFuture *get_range(FDBTransaction *tr, struct range range);
/* One call: what it returns may end early, with `more`, also where WANT_ALL was asked for. */
struct rows read_batch(FDBTransaction *tr, struct range range);
/* With WANT_ALL and no target_bytes all rows of the range up to its limit, in as many calls as it takes; otherwise one. */
struct rows read_range(FDBTransaction *tr, struct range range);

/* Commits and expects success; the transaction stays open. */
void commit(FDBTransaction *tr);
fdb_error_t commit_error(FDBTransaction *tr);

/* Whole transactions of their own, with a retry loop. */
void store(struct bytes key, struct bytes value);
void store_text(const char *suffix, const char *value);
void remove_key(struct bytes key);
struct value load(struct bytes key);

/* ---- Assertions ---- */

void check_value(struct value value, struct bytes expected, const char *file, int line);
void check_absent(struct value value, const char *file, int line);
void check_bytes(struct bytes bytes, struct bytes expected, const char *file, int line);
/* The rows' keys, without the test's prefix, and values: "a=1 b=2"; "" for none. */
void check_rows(struct rows rows, const char *expected, const char *file, int line);

#define assert_value(value, expected) check_value(value, expected, __FILE__, __LINE__)
#define assert_absent(value) check_absent(value, __FILE__, __LINE__)
#define assert_bytes(bytes, expected) check_bytes(bytes, expected, __FILE__, __LINE__)
#define assert_rows(rows, expected) check_rows(rows, expected, __FILE__, __LINE__)

/*
 * Runs reader on a transaction with a read version, commits a write of `written` from elsewhere,
 * then commits the first with a write far away: whether that was refused as a conflict.
 */
typedef void (*transaction_step)(FDBTransaction *tr);
bool read_conflicts_with(transaction_step reader, struct bytes written);

/*
 * A transaction reads `read_key`, then writer runs and commits elsewhere, then the first commits:
 * whether that was refused as a conflict.
 */
bool write_conflicts_with(transaction_step writer, struct bytes read_key);

/* ---- The groups, one a file; each returns the number of failures ---- */

int group_get(void);
int group_selectors(void);
int group_ranges(void);
int group_streaming(void);
int group_atomics(void);
int group_read_your_writes(void);
int group_snapshot(void);
int group_versionstamps(void);
int group_conflicts(void);
int group_reported_conflicts(void);
int group_versions(void);
int group_retry(void);
int group_timeouts(void);
int group_lifecycle(void);
int group_watches(void);
int group_metadata(void);
int group_special_keys(void);
int group_limits(void);
int group_futures(void);
int group_options(void);
int group_unsupported(void);
int group_errors(void);
int group_concurrency(void);
int group_processes(void);
int group_embedded_only(void);

/* The other side of run_child, one a file; 0 is success, -1 an unknown name. */
int child_main(const char *name);
int legacy_child_main(const char *name);
int embedded_child_main(const char *name);

#endif
