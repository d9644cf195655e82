/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of events with a reader that remembers where it was: run it twice on one database and the
 * second run prints its own events only.
 *
 *     cc log.c -lkeel -lfdb_c -lpthread && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/log.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 5, WAIT_MS = 10000 };

static keel_db *db;
static keel_subspace events;
static const char BOOKMARK[] = "events read";

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "log: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static fdb_error_t append(FDBTransaction *tr, void *event) {
    return keel_log_append(tr, &events, 0, keel_bytes_of_string(event));
}

static void *write_events(void *unused) {
    for (int i = 1; i <= EVENTS; i++) {
        char event[32];
        snprintf(event, sizeof event, "event %d", i);
        check(keel_run(keel_fdb(db), append, event), "append");
    }
    return unused;
}

struct reader {
    keel_log_position position;
    int count;
    char text[4096];
};

static fdb_error_t take(void *context, const keel_log_position *position, keel_bytes event) {
    struct reader *reader = context;
    size_t length = strlen(reader->text);
    snprintf(reader->text + length, sizeof reader->text - length, "  %.*s\n", (int)event.length,
             (const char *)event.data);
    reader->position = *position;
    reader->count++;
    return 0;
}

/* Reads what is new and moves the bookmark, in one transaction: every event is handled once. */
static fdb_error_t read_events(FDBTransaction *tr, void *context) {
    struct reader *reader = context;
    memset(reader, 0, sizeof *reader); /* it may be called again */
    const uint8_t *value = NULL;
    fdb_bool_t present = 0;
    int length = 0;
    FDBFuture *future =
        fdb_transaction_get(tr, (const uint8_t *)BOOKMARK, sizeof BOOKMARK - 1, 0);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error && present && length == sizeof reader->position)
        memcpy(&reader->position, value, sizeof reader->position);
    fdb_future_destroy(future);
    keel_log_position from = reader->position;
    if (!error)
        error = keel_log_scan(tr, &events, &from, 100, take, reader);
    if (!error)
        fdb_transaction_set(tr, (const uint8_t *)BOOKMARK, sizeof BOOKMARK - 1,
                            reader->position.bytes, sizeof reader->position.bytes);
    return error;
}

int main(int argc, char **argv) {
    pthread_t writer;
    struct reader reader;
    bool more = true;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("events"), &events), "subspace");
    pthread_create(&writer, NULL, write_events, NULL);
    for (int count = 0; count < EVENTS && more; count += reader.count) {
        check(keel_run(keel_fdb(db), read_events, &reader), "read");
        if (reader.count)
            printf("%d new:\n%s", reader.count, reader.text);
        else
            check(keel_log_wait(keel_fdb(db), &events, &reader.position, WAIT_MS, &more), "wait");
    }
    pthread_join(writer, NULL);
    keel_close(db);
    return more ? 0 : 1;
}
