/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backup and copy while others write: is what comes out a state that existed?
 *
 *     operation-load DB ROWS COMMAND ARGUMENT…      backup FILE, or copy [--bounded] DST
 *
 * Fills DB with ROWS rows of padding, between which ACCOUNTS balances lie, so that a reader meets them at different times. WRITERS threads then move money between
 * accounts and count their steps, and keep a journal of every commit with its versionstamp. In the midst of it the command is run, in this process, as the shell would run
 * it. Afterwards the journal is played back from the beginning:
 *
 *     backup   what the file holds must be the state at the file's version, every byte of it
 *     copy     what DST holds must be the state after some commit
 *
 *     operation-load DB ROWS takeover SOURCE        a transfer that another has taken over writes nothing more
 *
 * There must be commits before and after that state, else nothing was shown. The environment's KEEL_LIFETIME_MS makes versions so short-lived that long reads and passes are
 * needed.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "backup_file.h"
#include "core.h"

enum { ACCOUNTS = 50, WRITERS = 4, START = 1000, PADDING_BYTES = 100, BOUNDED_COMMITS = 400 };

struct entry {
    uint8_t stamp[10];
    int writer, from, to;
    int64_t amount, step;
};

struct state {
    int64_t balances[ACCOUNTS], steps[WRITERS];
};

static FDBDatabase *database;
static atomic_bool stopping;
static atomic_long commits;
static long commits_max = LONG_MAX;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "operation-load: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static void fail(const char *what) {
    fprintf(stderr, "operation-load: %s\n", what);
    exit(1);
}

static int account_key(char *key, int account) { return sprintf(key, "account/%03d", account); }
static int step_key(char *key, int writer) { return sprintf(key, "step/%d", writer); }

/* ---- Writers ---- */

struct writer {
    int number;
    uint64_t random;
    pthread_t thread;
    struct entry *entries;
    size_t count, capacity;
    struct entry current;
    FDBFuture *stamp;
};

static int64_t read_number(FDBTransaction *tr, const char *key, int length, fdb_error_t *error) {
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)key, length, 0);
    fdb_bool_t present = 0;
    const uint8_t *value;
    int value_length;
    int64_t number = 0;
    *error = keel_wait(future);
    if (!*error)
        *error = fdb_future_get_value(future, &present, &value, &value_length);
    if (!*error && present)
        memcpy(&number, value, sizeof number);
    fdb_future_destroy(future);
    return number;
}

static fdb_error_t move_money(FDBTransaction *tr, void *context) {
    struct writer *writer = context;
    struct entry *entry = &writer->current;
    char from[32], to[32], step[32];
    int from_length = account_key(from, entry->from), to_length = account_key(to, entry->to), step_length = step_key(step, writer->number);
    fdb_error_t error;
    int64_t there, here = read_number(tr, from, from_length, &error);
    if (error)
        return error;
    there = read_number(tr, to, to_length, &error);
    if (error)
        return error;
    here -= entry->amount;
    there += entry->amount;
    fdb_transaction_set(tr, (uint8_t *)from, from_length, (uint8_t *)&here, sizeof here);
    fdb_transaction_set(tr, (uint8_t *)to, to_length, (uint8_t *)&there, sizeof there);
    fdb_transaction_set(tr, (uint8_t *)step, step_length, (uint8_t *)&entry->step, sizeof entry->step);
    if (writer->stamp)
        fdb_future_destroy(writer->stamp);
    writer->stamp = fdb_transaction_get_versionstamp(tr);
    return 0;
}

static void *run_writer(void *argument) {
    struct writer *writer = argument;
    while (!atomic_load(&stopping) && atomic_load(&commits) < commits_max) {
        writer->random = writer->random * 6364136223846793005u + 1442695040888963407u;
        int from = (int)((writer->random >> 33) % ACCOUNTS), to = (from + 1 + (int)((writer->random >> 20) % (ACCOUNTS - 1))) % ACCOUNTS;
        writer->current = (struct entry){.writer = writer->number, .from = from, .to = to, .amount = (int64_t)(writer->random >> 60), .step = (int64_t)writer->count + 1};
        check(keel_run(database, move_money, writer), "move");
        const uint8_t *stamp;
        int length;
        check(keel_wait(writer->stamp), "stamp");
        check(fdb_future_get_key(writer->stamp, &stamp, &length), "stamp");
        memcpy(writer->current.stamp, stamp, 10);
        if (writer->count == writer->capacity) {
            writer->capacity = writer->capacity ? writer->capacity * 2 : 1024;
            writer->entries = realloc(writer->entries, writer->capacity * sizeof *writer->entries);
        }
        writer->entries[writer->count++] = writer->current;
        atomic_fetch_add(&commits, 1);
    }
    fdb_future_destroy(writer->stamp);
    return NULL;
}

/* ---- The database ---- */

static void fill(long rows) {
    struct loader loader;
    char key[64];
    uint8_t padding[PADDING_BYTES];
    int64_t start = START;
    loader_open(database, NULL, &loader);
    for (int account = 0; account < ACCOUNTS; account++) {
        int length = account_key(key, account);
        check(loader_set(&loader, keel_bytes_of(key, (size_t)length), keel_bytes_of(&start, sizeof start)), "fill");
        for (long row = 0; row < rows / ACCOUNTS; row++) {
            length = sprintf(key, "account/%03d/%06ld", account, row);
            memset(padding, 'a' + (int)(row % 26), sizeof padding);
            check(loader_set(&loader, keel_bytes_of(key, (size_t)length), keel_bytes_of(padding, sizeof padding)), "fill");
        }
    }
    check(loader_finish(&loader), "fill");
    loader_close(&loader);
}

/* A row that was read back: what it says goes into the state, padding is checked. */
static void take_row(struct state *state, long *padding_rows, keel_bytes key, keel_bytes value) {
    char text[64];
    int account, writer, end = 0;
    snprintf(text, sizeof text, "%.*s", (int)key.length, (const char *)key.data);
    long row;
    if (sscanf(text, "account/%3d/%6ld%n", &account, &row, &end) == 2 && end == (int)key.length) {
        for (size_t i = 0; i < value.length; i++) {
            if (value.data[i] != 'a' + row % 26)
                fail("padding has another value");
        }
        ++*padding_rows;
    } else if (sscanf(text, "account/%3d%n", &account, &end) == 1 && end == (int)key.length && value.length == 8) {
        memcpy(&state->balances[account], value.data, 8);
    } else if (sscanf(text, "step/%d%n", &writer, &end) == 1 && end == (int)key.length && value.length == 8) {
        memcpy(&state->steps[writer], value.data, 8);
    } else {
        fail("a row that nobody wrote");
    }
}

static int64_t read_backup(const char *path, struct state *state, long *padding_rows) {
    struct backup_reader reader;
    struct row row;
    bool present = true;
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || !backup_reader_open(descriptor, &reader))
        fail("the backup cannot be read");
    while (present) {
        if (!backup_reader_next(&reader, &row, &present))
            fail(reader.problem);
        if (present)
            take_row(state, padding_rows, row.key, row.value);
    }
    int64_t version = reader.header.version;
    backup_reader_close(&reader);
    close(descriptor);
    return version;
}

static void read_copy(const char *path, struct state *state, long *padding_rows) {
    keel_db *db;
    struct snapshot snapshot;
    struct cursor cursor;
    struct row row;
    bool present = true;
    check(keel_open(path, &db), "open the copy");
    check(snapshot_open(keel_fdb(db), false, true, &snapshot), "read the copy");
    check(cursor_open(&snapshot, USER_KEYS_BEGIN, USER_KEYS_END, &cursor), "read the copy");
    for (;;) {
        check(cursor_next(&cursor, &row, &present), "read the copy");
        if (!present)
            break;
        take_row(state, padding_rows, row.key, row.value);
    }
    cursor_close(&cursor);
    snapshot_close(&snapshot);
    keel_close(db);
}

/* ---- The journal ---- */

static int compare_entries(const void *a, const void *b) { return memcmp(((const struct entry *)a)->stamp, ((const struct entry *)b)->stamp, 10); }

static struct entry *merge_journal(struct writer *writers, size_t *count) {
    *count = 0;
    for (int i = 0; i < WRITERS; i++)
        *count += writers[i].count;
    struct entry *all = malloc((*count + 1) * sizeof *all);
    size_t at = 0;
    for (int i = 0; i < WRITERS; i++) {
        memcpy(all + at, writers[i].entries, writers[i].count * sizeof *all);
        at += writers[i].count;
        free(writers[i].entries);
    }
    qsort(all, *count, sizeof *all, compare_entries);
    return all;
}

static void play(struct state *state, const struct entry *entry) {
    state->balances[entry->from] -= entry->amount;
    state->balances[entry->to] += entry->amount;
    state->steps[entry->writer] = entry->step;
}

static int64_t version_of(const struct entry *entry) {
    uint64_t version;
    memcpy(&version, entry->stamp, 8);
    return (int64_t)__builtin_bswap64(version);
}

/* How many entries lead to the state; -1: none do. `version` -1: any number may. */
static long find_state(const struct entry *entries, size_t count, const struct state *found, int64_t version) {
    struct state state = {0};
    for (int i = 0; i < ACCOUNTS; i++)
        state.balances[i] = START;
    size_t at = 0;
    while (version >= 0 && at < count && version_of(&entries[at]) <= version)
        play(&state, &entries[at++]);
    for (; memcmp(&state, found, sizeof state) != 0; play(&state, &entries[at++])) {
        if (version >= 0 || at == count)
            return -1;
    }
    return (long)at;
}

static void wait_for_commits(long more) {
    for (long from = atomic_load(&commits); atomic_load(&commits) < from + more;)
        usleep(1000);
}

/* Two jobs of the same kind and source: the second one ends the first, wherever that stands. */
static void take_over(const char *source) {
    struct job jobs[2] = {{.database = database, .kind = "restore", .source = source, .merge = true}, {.database = database, .kind = "restore", .source = source, .merge = true}};
    struct loader loaders[2];
    enum job_start start;
    char *found = NULL;
    keel_bytes key = keel_bytes_of_string("key"), value = keel_bytes_of_string("value"), other = keel_bytes_of_string("other");
    check(job_begin(&jobs[0], false, &start, &found), "begin");
    loader_open(database, &jobs[0], &loaders[0]);
    check(loader_set(&loaders[0], key, value), "the first writes");
    check(loader_finish(&loaders[0]), "the first finishes a batch");
    check(job_begin(&jobs[1], false, &start, &found), "begin again");
    if (start != JOB_RESUMED || !jobs[1].resumed)
        fail("the second does not go on with the first");
    check(loader_set(&loaders[0], other, value), "the first fills a batch");
    if (loader_finish(&loaders[0]) != TRANSFER_LOST || job_end(&jobs[0]) != TRANSFER_LOST)
        fail("the first goes on although it was taken over");
    loader_open(database, &jobs[1], &loaders[1]);
    check(loader_set(&loaders[1], other, keel_bytes_of_string("second")), "the second writes");
    check(loader_finish(&loaders[1]), "the second finishes");
    check(job_look(database, &found), "look");
    if (!found || !strstr(found, "unfinished restore"))
        fail("the job is not seen");
    free(found);
    check(job_end(&jobs[1]), "the second ends");
    check(job_look(database, &found), "look");
    if (found)
        fail("the job is still seen");
    for (int i = 0; i < 2; i++) {
        loader_close(&loaders[i]);
        job_close(&jobs[i]);
    }
    puts("taken over");
}

int main(int argc, char **argv) {
    if (argc < 5)
        fail("usage: operation-load DB ROWS COMMAND ARGUMENT…");
    session_catch_interrupts();
    struct session session = {.path = argv[1], .quiet = true, .committed_version = -1};
    bool is_backup = strcmp(argv[3], "backup") == 0;
    const char *result = argv[argc - 1];
    if (strcmp(argv[4], "--bounded") == 0)
        commits_max = BOUNDED_COMMITS; /* passes end when the writers do */
    database = session_database(&session);
    if (strcmp(argv[3], "takeover") == 0) {
        take_over(argv[4]);
        session_close(&session);
        return 0;
    }
    fill(atol(argv[2]));
    struct writer writers[WRITERS] = {{0}};
    for (int i = 0; i < WRITERS; i++) {
        writers[i].number = i;
        writers[i].random = (uint64_t)i + 1;
        pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]);
    }
    wait_for_commits(40);
    long before = atomic_load(&commits);
    int code = command_run(&session, argc - 3, argv + 3);
    long during = atomic_load(&commits) - before;
    if (code == EXIT_OK && is_backup)
        wait_for_commits(40);
    atomic_store(&stopping, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    if (code != EXIT_OK)
        fail("the command failed");
    size_t count;
    struct entry *entries = merge_journal(writers, &count);
    struct state found = {0};
    long padding_rows = 0;
    int64_t version = -1;
    if (is_backup)
        version = read_backup(result, &found, &padding_rows);
    else
        read_copy(result, &found, &padding_rows);
    long at = find_state(entries, count, &found, version);
    free(entries);
    session_close(&session);
    if (padding_rows != atol(argv[2]) / ACCOUNTS * ACCOUNTS)
        fail("rows are missing");
    if (at < 0)
        fail(is_backup ? "the backup is not the state at its version" : "the copy is no state that existed");
    printf("the state after commit %ld of %zu; %ld commits during the command\n", at, count, during);
    if (at == 0 || (is_backup && (size_t)at == count) || during == 0)
        fail("nothing was written before or after that state: nothing was shown");
    return 0;
}
