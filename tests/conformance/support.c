/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implementation of support.h.
 *
 * Cleaning up: every key of the run begins with a random run prefix, every test's keys with the run
 * prefix and the number of the test. test_end clears the test's keys, run_end the run's. A test
 * that fails leaves by longjmp and may leak handles; the process ends soon after.
 *
 * Threads: the tests run on the main thread; the network on its own. Scratch memory belongs to the
 * main thread.
 */
#define _GNU_SOURCE /* pipe2 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

FDBDatabase *test_database;

static pthread_t network_thread;
static char temporary_directory[512];
static char database_path[600];
static bool embedded;
static pid_t holder;      /* the process that owns the database, if it is not this one */
static int holder_input;  /* it ends when this is closed */
static char run_prefix[64];
static char test_prefix[96];
static int test_number;

struct scratch_block {
    struct scratch_block *next;
    uint8_t data[];
};
static struct scratch_block *scratch_blocks;

/* ---- The run ---- */

static void die_on(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "conformance: %s: %d %s\n", what, error, fdb_get_error(error));
        exit(2);
    }
}

static void *run_network(void *unused) {
    (void)unused;
    die_on(fdb_run_network(), "fdb_run_network");
    return NULL;
}

static void choose_database(void) {
    const char *given = getenv("KEEL_TEST_CLUSTER");
    if (given && *given) {
        snprintf(database_path, sizeof database_path, "%s", given);
        return;
    }
    embedded = true;
    const char *parent = getenv("TMPDIR");
    snprintf(temporary_directory, sizeof temporary_directory, "%.480s/conformance-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(temporary_directory)) {
        perror("conformance: mkdtemp");
        exit(2);
    }
    snprintf(database_path, sizeof database_path, "%s/database", temporary_directory);
}

/* Starts the process that owns the database, and waits until it does. */
static void start_holder(const char *program) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC)) {
        exit(2);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    char *arguments[] = {(char *)"holder", database_path, NULL};
    if (posix_spawn(&holder, program, &actions, NULL, arguments, environ)) {
        fprintf(stderr, "conformance: cannot run %s\n", program);
        exit(2);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    holder_input = input[1];
    char byte;
    if (read(output[0], &byte, 1) != 1) {
        fprintf(stderr, "conformance: %s does not hold the database\n", program);
        exit(2);
    }
    close(output[0]);
}

static void stop_holder(void) {
    if (!holder) {
        return;
    }
    close(holder_input);
    int status = 0;
    while (waitpid(holder, &status, 0) < 0 && errno == EINTR) {
    }
    holder = 0;
    if (status != 0) {
        fprintf(stderr, "conformance: the process that held the database ended with status %d\n", status);
        exit(2);
    }
}

void run_prepare(void) {
    choose_database();
    const char *program = getenv("KEEL_TEST_HOLDER");
    if (embedded && program && *program) {
        start_holder(program);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(run_prefix, sizeof run_prefix, "conformance/%lx%lx%x/", (unsigned long)now.tv_sec,
             (unsigned long)now.tv_nsec, (unsigned)getpid());
    snprintf(test_prefix, sizeof test_prefix, "%s", run_prefix);
}

void run_start_network(void) {
    if (pthread_create(&network_thread, NULL, run_network, NULL)) {
        exit(2);
    }
}

void run_stop_network(void) {
    die_on(fdb_stop_network(), "fdb_stop_network");
    pthread_join(network_thread, NULL);
}

int run_version(void) {
    const char *text = getenv("KEEL_TEST_API_VERSION");
    return text && *text ? atoi(text) : 740;
}

void run_begin_at(int runtime_version, int header_version) {
    run_prepare();
    int newest = run_version();
    runtime_version = runtime_version < newest ? runtime_version : newest;
    header_version = header_version < newest ? header_version : newest;
    die_on(fdb_select_api_version_impl(runtime_version, header_version), "select API version");
    die_on(fdb_setup_network(), "fdb_setup_network");
    run_start_network();
    die_on(fdb_create_database(database_path, &test_database), "fdb_create_database");
}

void run_begin(void) {
    run_begin_at(740, 740);
}

static void remove_temporary_directory(void) {
    char command[sizeof temporary_directory + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", temporary_directory);
    if (system(command)) {
        fprintf(stderr, "conformance: %s is left behind\n", temporary_directory);
    }
}

void run_clean_up(void) {
    stop_holder();
    if (embedded) {
        remove_temporary_directory();
    }
}

void run_end(void) {
    snprintf(test_prefix, sizeof test_prefix, "%s", run_prefix);
    void *state = NULL;
    test_end(&state);
    fdb_database_destroy(test_database);
    run_stop_network();
    run_clean_up();
}

bool run_is_embedded(void) {
    return embedded;
}

bool run_is_since(int version) {
    const char *cluster = getenv("KEEL_TEST_CLUSTER");
    return !(cluster && *cluster) || run_version() >= version;
}

const char *run_database_path(void) {
    return database_path;
}

const char *run_temporary_path(const char *name) {
    size_t size = strlen(temporary_directory) + strlen(name) + 2;
    char *path = scratch(size);
    snprintf(path, size, "%s/%s", temporary_directory, name);
    return path;
}

static char **environment_with(const char *entry) {
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **environment = scratch((count + 2) * sizeof *environment);
    memcpy(environment, environ, count * sizeof *environment);
    if (entry) {
        environment[count] = strcpy(scratch(strlen(entry) + 1), entry);
        count++;
    }
    environment[count] = NULL;
    return environment;
}

void run_child(const char *name, const char *environment_entry) {
    char *arguments[] = {(char *)"conformance", (char *)"--child", (char *)name, NULL};
    pid_t child = 0;
    /* Its chatter is not ours; what fails in it goes to stderr. */
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0), 0);
    char self[4096] = {0}; /* read as a link, which a checker that runs us answers with us */
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        fail_msg("cannot find the program itself");
    int spawned = posix_spawn(&child, self, &actions, NULL, arguments,
                              environment_with(environment_entry));
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(spawned, 0);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("child %s ended with %s %d", name, WIFEXITED(status) ? "exit code" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

/* ---- One test ---- */

int test_begin(void **state) {
    (void)state;
    snprintf(test_prefix, sizeof test_prefix, "%s%04d/", run_prefix, ++test_number);
    return 0;
}

int test_end(void **state) {
    (void)state;
    FDBTransaction *tr = NULL;
    if (fdb_database_create_transaction(test_database, &tr)) {
        return -1;
    }
    fdb_error_t error = 0;
    do {
        struct bytes last = prefix_end();
        erase_range(tr, text(test_prefix), last);
        error = future_error(fdb_transaction_commit(tr));
    } while (error && !future_error(fdb_transaction_on_error(tr, error)));
    fdb_transaction_destroy(tr);
    while (scratch_blocks) {
        struct scratch_block *next = scratch_blocks->next;
        free(scratch_blocks);
        scratch_blocks = next;
    }
    return error ? -1 : 0;
}

void *scratch(size_t size) {
    struct scratch_block *block = malloc(sizeof *block + size + 1);
    if (!block) {
        abort();
    }
    block->next = scratch_blocks;
    scratch_blocks = block;
    return block->data;
}

/* ---- Bytes ---- */

struct bytes raw(const void *data, int size) {
    return (struct bytes){data, size};
}

struct bytes text(const char *string) {
    return raw(string, (int)strlen(string));
}

struct bytes repeat(uint8_t byte, int size) {
    return raw(memset(scratch((size_t)size), byte, (size_t)size), size);
}

struct bytes joined(struct bytes first, struct bytes second) {
    uint8_t *data = scratch((size_t)(first.size + second.size));
    memcpy(data, first.data, (size_t)first.size);
    memcpy(data + first.size, second.data, (size_t)second.size);
    return raw(data, first.size + second.size);
}

struct bytes little_endian(uint64_t number, int size) {
    uint8_t *data = scratch((size_t)size);
    for (int i = 0; i < size; i++) {
        data[i] = i < 8 ? (uint8_t)(number >> (8 * i)) : 0;
    }
    return raw(data, size);
}

struct bytes key(const char *suffix) {
    return joined(text(test_prefix), text(suffix));
}

struct bytes key_bytes(struct bytes suffix) {
    return joined(text(test_prefix), suffix);
}

struct bytes prefix_end(void) {
    /* The prefix ends in '/'; '0' is the next byte. */
    struct bytes end = joined(text(test_prefix), text(""));
    ((uint8_t *)end.data)[end.size - 1] = '0';
    return end;
}

struct bytes key_after(struct bytes bytes) {
    return joined(bytes, raw("", 1));
}

/* ---- Futures ---- */

static void block(FDBFuture *future) {
    assert_non_null(future);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
}

fdb_error_t future_error(FDBFuture *future) {
    block(future);
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

int64_t future_int64(FDBFuture *future) {
    block(future);
    int64_t number = 0;
    assert_int_equal(fdb_future_get_int64(future, &number), 0);
    fdb_future_destroy(future);
    return number;
}

struct bytes future_key(FDBFuture *future) {
    block(future);
    const uint8_t *data = NULL;
    int size = 0;
    assert_int_equal(fdb_future_get_key(future, &data, &size), 0);
    struct bytes copy = joined(raw(data, size), text(""));
    fdb_future_destroy(future);
    return copy;
}

struct value future_value(FDBFuture *future) {
    block(future);
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int size = 0;
    assert_int_equal(fdb_future_get_value(future, &present, &data, &size), 0);
    struct value value = {present != 0, text("")};
    if (present) {
        value.bytes = joined(raw(data, size), text(""));
    }
    fdb_future_destroy(future);
    return value;
}

struct rows future_rows(FDBFuture *future) {
    block(future);
    const FDBKeyValue *array = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    assert_int_equal(fdb_future_get_keyvalue_array(future, &array, &count, &more), 0);
    struct rows rows = {count, more != 0, scratch((size_t)count * sizeof *rows.row)};
    for (int i = 0; i < count; i++) {
        rows.row[i].key = joined(raw(array[i].key, array[i].key_length), text(""));
        rows.row[i].value = joined(raw(array[i].value, array[i].value_length), text(""));
    }
    fdb_future_destroy(future);
    return rows;
}

void sleep_milliseconds(int milliseconds) {
    struct timespec pause = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

bool becomes_ready(FDBFuture *future) {
    for (int tries = 0; tries < 6000; tries++) {
        if (fdb_future_is_ready(future)) {
            return true;
        }
        sleep_milliseconds(5);
    }
    return false;
}

/* ---- Transactions ---- */

FDBTransaction *begin_on(FDBDatabase *database) {
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_database_create_transaction(database, &tr), 0);
    assert_non_null(tr);
    return tr;
}

FDBTransaction *begin(void) {
    return begin_on(test_database);
}

FDBDatabase *open_again(void) {
    FDBDatabase *database = NULL;
    assert_int_equal(fdb_create_database(run_database_path(), &database), 0);
    return database;
}

void set_option(FDBTransaction *tr, FDBTransactionOption option) {
    assert_int_equal(fdb_transaction_set_option(tr, option, NULL, 0), 0);
}

void set_option_int(FDBTransaction *tr, FDBTransactionOption option, int64_t value) {
    struct bytes encoded = little_endian((uint64_t)value, 8);
    assert_int_equal(fdb_transaction_set_option(tr, option, encoded.data, encoded.size), 0);
}

void set_database_option_int(FDBDatabase *database, FDBDatabaseOption option, int64_t value) {
    struct bytes encoded = little_endian((uint64_t)value, 8);
    assert_int_equal(fdb_database_set_option(database, option, encoded.data, encoded.size), 0);
}

fdb_error_t option_error(FDBTransactionOption option, const void *value, int size) {
    FDBTransaction *tr = begin();
    fdb_error_t error = fdb_transaction_set_option(tr, option, value, size);
    if (!error) {
        error = future_error(fdb_transaction_get_read_version(tr));
    }
    fdb_transaction_destroy(tr);
    return error;
}

void put(FDBTransaction *tr, struct bytes name, struct bytes value) {
    fdb_transaction_set(tr, name.data, name.size, value.data, value.size);
}

void erase(FDBTransaction *tr, struct bytes name) {
    fdb_transaction_clear(tr, name.data, name.size);
}

void erase_range(FDBTransaction *tr, struct bytes first, struct bytes end) {
    fdb_transaction_clear_range(tr, first.data, first.size, end.data, end.size);
}

void mutate(FDBTransaction *tr, FDBMutationType type, struct bytes name, struct bytes operand) {
    fdb_transaction_atomic_op(tr, name.data, name.size, operand.data, operand.size, type);
}

void add_conflict(FDBTransaction *tr, struct bytes first, struct bytes end,
                  FDBConflictRangeType type) {
    assert_int_equal(fdb_transaction_add_conflict_range(tr, first.data, first.size, end.data,
                                                        end.size, type),
                     0);
}

FDBFuture *get(FDBTransaction *tr, struct bytes name) {
    return fdb_transaction_get(tr, name.data, name.size, 0);
}

FDBFuture *get_snapshot(FDBTransaction *tr, struct bytes name) {
    return fdb_transaction_get(tr, name.data, name.size, 1);
}

FDBFuture *get_key(FDBTransaction *tr, struct bytes name, bool or_equal, int offset) {
    return fdb_transaction_get_key(tr, name.data, name.size, or_equal, offset, 0);
}

struct bytes resolve(FDBTransaction *tr, struct bytes name, bool or_equal, int offset) {
    return future_key(get_key(tr, name, or_equal, offset));
}

struct selector first_at_or_after(struct bytes name) {
    return (struct selector){name, false, 1};
}

struct selector first_after(struct bytes name) {
    return (struct selector){name, true, 1};
}

struct selector last_at_or_before(struct bytes name) {
    return (struct selector){name, true, 0};
}

struct selector last_before(struct bytes name) {
    return (struct selector){name, false, 0};
}

struct range span(struct bytes first, struct bytes end) {
    return (struct range){.begin = first_at_or_after(first),
                          .end = first_at_or_after(end),
                          .mode = FDB_STREAMING_MODE_WANT_ALL};
}

struct range all(void) {
    return span(text(test_prefix), prefix_end());
}

FDBFuture *get_range(FDBTransaction *tr, struct range range) {
    return fdb_transaction_get_range(
        tr, range.begin.key.data, range.begin.key.size, range.begin.or_equal, range.begin.offset,
        range.end.key.data, range.end.key.size, range.end.or_equal, range.end.offset, range.limit,
        range.target_bytes, range.mode, range.iteration, range.snapshot, range.reverse);
}

struct rows read_batch(FDBTransaction *tr, struct range range) {
    return future_rows(get_range(tr, range));
}

static void append(struct rows *rows, struct rows batch) {
    struct row *row = scratch((size_t)(rows->count + batch.count) * sizeof *row);
    memcpy(row, rows->row, (size_t)rows->count * sizeof *row);
    memcpy(row + rows->count, batch.row, (size_t)batch.count * sizeof *row);
    *rows = (struct rows){rows->count + batch.count, batch.more, row};
}

struct rows read_range(FDBTransaction *tr, struct range range) {
    struct rows rows = read_batch(tr, range);
    bool everything = range.mode == FDB_STREAMING_MODE_WANT_ALL && !range.target_bytes;
    while (everything && rows.more && rows.count && (!range.limit || rows.count < range.limit)) {
        struct range rest = range;
        struct bytes last = rows.row[rows.count - 1].key;
        *(range.reverse ? &rest.end : &rest.begin) = range.reverse ? first_at_or_after(last) : first_after(last);
        rest.limit = range.limit ? range.limit - rows.count : 0;
        append(&rows, read_batch(tr, rest));
    }
    return rows;
}

fdb_error_t commit_error(FDBTransaction *tr) {
    return future_error(fdb_transaction_commit(tr));
}

void commit(FDBTransaction *tr) {
    assert_int_equal(commit_error(tr), 0);
}

void store(struct bytes name, struct bytes value) {
    FDBTransaction *tr = begin();
    fdb_error_t error = 0;
    do {
        put(tr, name, value);
        error = commit_error(tr);
    } while (error && !future_error(fdb_transaction_on_error(tr, error)));
    assert_int_equal(error, 0);
    fdb_transaction_destroy(tr);
}

void store_text(const char *suffix, const char *value) {
    store(key(suffix), text(value));
}

void remove_key(struct bytes name) {
    FDBTransaction *tr = begin();
    fdb_error_t error = 0;
    do {
        erase(tr, name);
        error = commit_error(tr);
    } while (error && !future_error(fdb_transaction_on_error(tr, error)));
    assert_int_equal(error, 0);
    fdb_transaction_destroy(tr);
}

struct value load(struct bytes name) {
    FDBTransaction *tr = begin();
    struct value value = future_value(get(tr, name));
    fdb_transaction_destroy(tr);
    return value;
}

/* ---- Assertions ---- */

/* Printable form for messages. */
static const char *shown(struct bytes bytes) {
    int size = bytes.size < 200 ? bytes.size : 200;
    char *out = scratch((size_t)size * 4 + 32);
    char *at = out;
    for (int i = 0; i < size; i++) {
        uint8_t byte = bytes.data[i];
        at += byte >= 0x20 && byte < 0x7f ? sprintf(at, "%c", byte) : sprintf(at, "\\x%02x", byte);
    }
    sprintf(at, " (%d bytes)", bytes.size);
    return out;
}

static bool equal(struct bytes a, struct bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

void check_bytes(struct bytes bytes, struct bytes expected, const char *file, int line) {
    if (!equal(bytes, expected)) {
        print_error("found    %s\nexpected %s\n", shown(bytes), shown(expected));
        _fail(file, line);
    }
}

void check_value(struct value value, struct bytes expected, const char *file, int line) {
    if (!value.present) {
        print_error("no value, expected %s\n", shown(expected));
        _fail(file, line);
    }
    check_bytes(value.bytes, expected, file, line);
}

void check_absent(struct value value, const char *file, int line) {
    if (value.present) {
        print_error("found %s, expected no value\n", shown(value.bytes));
        _fail(file, line);
    }
}

void check_rows(struct rows rows, const char *expected, const char *file, int line) {
    size_t size = 1;
    for (int i = 0; i < rows.count; i++) {
        size += (size_t)(rows.row[i].key.size + rows.row[i].value.size) + 2;
    }
    char *found = scratch(size);
    char *at = found;
    *at = 0;
    int skip = (int)strlen(test_prefix);
    for (int i = 0; i < rows.count; i++) {
        struct bytes name = rows.row[i].key;
        struct bytes value = rows.row[i].value;
        if (name.size < skip || memcmp(name.data, test_prefix, (size_t)skip) != 0) {
            print_error("a row outside the test's keys: %s\n", shown(name));
            _fail(file, line);
        }
        at += sprintf(at, "%s%.*s=%.*s", i ? " " : "", name.size - skip,
                      (const char *)name.data + skip, value.size, (const char *)value.data);
    }
    if (strcmp(found, expected) != 0) {
        print_error("found    \"%s\"\nexpected \"%s\"\n", found, expected);
        _fail(file, line);
    }
}

/* ---- Conflicts ---- */

static bool committed_with_conflict(FDBTransaction *tr) {
    fdb_error_t error = commit_error(tr);
    if (error && error != ERROR_NOT_COMMITTED) {
        fail_msg("commit failed with %d", error);
    }
    fdb_transaction_destroy(tr);
    return error == ERROR_NOT_COMMITTED;
}

bool read_conflicts_with(transaction_step reader, struct bytes written) {
    FDBTransaction *tr = begin();
    future_int64(fdb_transaction_get_read_version(tr));
    reader(tr);
    store(written, text("written elsewhere"));
    put(tr, key("~far away"), text(""));
    return committed_with_conflict(tr);
}

bool write_conflicts_with(transaction_step writer, struct bytes read_key) {
    FDBTransaction *reader = begin();
    future_value(get(reader, read_key));
    FDBTransaction *tr = begin();
    writer(tr);
    commit(tr);
    fdb_transaction_destroy(tr);
    put(reader, key("~far away"), text(""));
    return committed_with_conflict(reader);
}
