/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk work: users imported from a CSV file in many transactions, and switched to in one, together with an audit record and a
 * message for whoever wants to know. The import is interrupted on the way and goes on where it was.
 *
 *     cc bulk_user_import.c -lkeel -lfdb_c && ./a.out [DATABASE [FILE.csv]]
 *
 * Without a file it makes one of 10,000 lines: id,name,city.
 */
#include <keel/keel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USERS = 10000, INTERRUPTED = 100001, BAD_LINE = 100002 };

struct import {
    FDBDatabase *database;
    keel_directory *users; /* the target */
    keel_subspace audit, queue;
    const char *id;
    FILE *csv;
};

/* ---- Prepare: many transactions ---- */

/* One line becomes two pairs: the user, and an entry that finds it by city. */
static fdb_error_t add_line(keel_bulk *bulk, char *line) {
    uint8_t key[600];
    size_t length;
    char *name = strchr(line, ','), *city = name ? strchr(name + 1, ',') : NULL;
    if (!city)
        return BAD_LINE;
    *name++ = *city++ = 0;
    city[strcspn(city, "\r\n")] = 0;
    int64_t id = strtoll(line, NULL, 10);
    fdb_error_t error = keel_tuple_pack(KEEL_TUPLE("user", id), key, sizeof key, &length);
    if (!error)
        error = keel_bulk_set(bulk, KEEL_BYTES(key, length), keel_bytes_of_string(name));
    if (!error)
        error = keel_tuple_pack(KEEL_TUPLE("by city", city, id), key, sizeof key, &length);
    return error ? error : keel_bulk_set(bulk, KEEL_BYTES(key, length), KEEL_BYTES(NULL, 0));
}

/* The bookmark of a line is the offset of the next. `stop_after` lines it is "interrupted"; 0: never. */
static fdb_error_t prepare(struct import *import, int stop_after) {
    keel_bulk *bulk = NULL;
    char line[512];
    long offset = 0;
    fdb_error_t error = keel_bulk_begin(import->database, import->users, import->id, NULL, &bulk);
    if (error)
        return error;
    keel_bulk_place place = keel_bulk_position(bulk);
    if (place.bookmark.length == sizeof offset)
        memcpy(&offset, place.bookmark.data, sizeof offset);
    printf("%s: from row %llu on\n", import->id, (unsigned long long)place.rows + 1);
    fseek(import->csv, offset, SEEK_SET);
    for (int lines = 0; !error && !place.finished && fgets(line, sizeof line, import->csv); lines++) {
        if (stop_after && lines == stop_after) {
            keel_bulk_flush(bulk); /* a killed process would not: then it goes on a little earlier */
            error = INTERRUPTED;
            break;
        }
        error = add_line(bulk, line);
        offset = ftell(import->csv);
        if (error == BAD_LINE) {
            keel_bulk_row_discard(bulk);
            error = 0;
        }
        if (!error)
            error = keel_bulk_row(bulk, KEEL_BYTES(&offset, sizeof offset));
    }
    if (!error)
        error = keel_bulk_finish(bulk);
    if (error == KEEL_ERROR_DUPLICATE)
        printf("row %llu has the id of an earlier one\n", (unsigned long long)keel_bulk_problem_of(bulk).row);
    keel_bulk_close(bulk);
    return error;
}

/* ---- Flip: one small transaction ---- */

static fdb_error_t flip(FDBTransaction *tr, void *context) {
    struct import *import = context;
    fdb_error_t error = keel_bulk_activate(tr, import->users, import->id);
    if (!error)
        error = keel_log_append(tr, &import->audit, 0, keel_bytes_of_string(import->id));
    if (!error)
        error = keel_queue_enqueue(tr, &import->queue, keel_bytes_of_string(import->id));
    return error;
}

/* ---- Readers: the pointer first, in the same transaction ---- */

static fdb_error_t show_one(FDBTransaction *tr, void *context) {
    struct import *import = context;
    keel_subspace users;
    uint8_t key[600];
    size_t length;
    fdb_bool_t present = 0;
    const uint8_t *name = NULL;
    int name_length = 0;
    fdb_error_t error = keel_bulk_active(tr, import->users, &users);
    if (!error)
        error = keel_subspace_pack(&users, KEEL_TUPLE("user", 42), key, sizeof key, &length);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &name, &name_length);
    if (!error)
        printf("user 42 is %.*s\n", present ? name_length : 6, present ? (const char *)name : "nobody");
    fdb_future_destroy(future);
    return error;
}

/* ---- All of it ---- */

static fdb_error_t set_up(FDBTransaction *tr, void *context) {
    struct import *import = context;
    keel_directory *app = NULL;
    keel_subspace space;
    fdb_error_t error = keel_directory_create_or_open(tr, NULL, KEEL_PATH("example", "import"), KEEL_NO_LAYER, &app);
    if (error)
        return error;
    keel_directory_close(import->users); /* of an earlier try */
    import->users = NULL;
    error = keel_directory_create_or_open(tr, app, KEEL_PATH("users"), KEEL_NO_LAYER, &import->users);
    if (!error)
        error = keel_directory_subspace(app, &space);
    if (!error)
        error = keel_subspace_nested(&space, KEEL_TUPLE("audit"), &import->audit);
    if (!error)
        error = keel_subspace_nested(&space, KEEL_TUPLE("queue"), &import->queue);
    keel_directory_close(app);
    return error;
}

static FILE *open_csv(const char *path) {
    if (path)
        return fopen(path, "r");
    FILE *csv = tmpfile();
    for (int i = 1; csv && i <= USERS; i++)
        fprintf(csv, "%d,User %d,%s\n", i, i, i % 3 ? "Oslo" : "Bergen");
    return csv;
}

static fdb_error_t import_users(struct import *import, int stop_after) {
    keel_bulk_report report;
    fdb_error_t error = prepare(import, stop_after);
    if (!error)
        error = keel_bulk_validate(import->database, import->users, import->id, NULL, NULL, &report);
    if (!error)
        printf("%s: %llu pairs as they were loaded\n", import->id, (unsigned long long)report.found.pairs);
    if (!error)
        error = keel_run(import->database, flip, import);
    if (!error)
        error = keel_run_read(import->database, show_one, import);
    return error;
}

/* ---- Cleanup: in a real program later, by whoever has time; an age of a day leaves as much time to go back ---- */

static fdb_error_t clean_up(struct import *import) {
    keel_bulk_cleaning report;
    fdb_error_t error = keel_bulk_cleanup(import->database, import->users, 0, NULL, NULL, &report);
    if (!error)
        printf("replaced loads removed: %llu, in %llu transactions\n", (unsigned long long)report.loads,
               (unsigned long long)report.transactions);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db = NULL;
    struct import import = {.csv = open_csv(argc > 2 ? argv[2] : NULL)};
    if (!import.csv) {
        fprintf(stderr, "bulk_user_import: the file cannot be opened\n");
        return 1;
    }
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    import.database = keel_fdb(db);
    if (!error)
        error = keel_run(import.database, set_up, &import);
    import.id = "users of today";
    if (!error)
        error = import_users(&import, USERS / 2);
    if (error == INTERRUPTED) {
        printf("interrupted; the same call once more:\n");
        error = import_users(&import, 0);
    }
    if (!error)
        error = clean_up(&import);
    import.id = "users of tomorrow"; /* replaces the first */
    if (!error)
        error = import_users(&import, 0);
    if (!error)
        error = clean_up(&import);
    if (error)
        fprintf(stderr, "bulk_user_import: %s (%d)\n", keel_error_text(error), error);
    fclose(import.csv);
    keel_directory_close(import.users);
    keel_close(db);
    return error != 0;
}
