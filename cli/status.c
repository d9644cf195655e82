/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the status document. Counters in it are totals since the database was opened; two readings make a rate. What a database does not tell (a
 * cluster has no "keel" part) reads as 0 or nothing, and is not shown.
 */
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "operation.h"

const struct rate rates[] = {
    {"commits", "commits", "cluster.workload.transactions.committed.counter", false},
    {"conflicts", "conflicts", "cluster.workload.transactions.conflicted.counter", false},
    {"reads", "reads", "cluster.workload.operations.reads.counter", false},
    {"rows_read", "rows read", "keel.rows_read", false},
    {"writes", "writes", "cluster.workload.operations.writes.counter", false},
    {"bytes_written", "written", "keel.mutation_bytes", true},
    {"batches", "batches", "keel.batches", false},
    {0},
};

struct reading {
    json_t *document;
};

/* The document is answered by a database that is not open yet too, with zeros: a read version opens it. */
static fdb_error_t open_database(FDBTransaction *tr) {
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    fdb_error_t error = session_wait(future);
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t read_status(FDBTransaction *tr, void *context) {
    struct reading *reading = context;
    static const char key[] = "\xff\xff/status/json";
    fdb_error_t error = open_database(tr);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)key, sizeof key - 1, 1);
    fdb_bool_t present = 0;
    const uint8_t *value = NULL;
    int length = 0;
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error) {
        json_decref(reading->document);
        reading->document = present ? json_loadb((const char *)value, (size_t)length, 0, NULL) : NULL;
    }
    fdb_future_destroy(future);
    return error;
}

bool sample_take(struct session *session, struct sample *sample, int *code) {
    struct reading reading = {NULL};
    FDBDatabase *database = session_database(session);
    *code = EXIT_FAILED;
    if (!database)
        return false;
    fdb_error_t error = keel_run_read(database, read_status, &reading);
    if (error || !reading.document) {
        const char *path = session->path ? session->path : "the database";
        *code = error ? report_error("status", path, error) : report("status: %s: there is no status document that can be read", path);
        json_decref(reading.document);
        return false;
    }
    *sample = (struct sample){reading.document, seconds_now()};
    return true;
}

void sample_free(struct sample *sample) {
    json_decref(sample->document);
    sample->document = NULL;
}

json_t *sample_find(const struct sample *sample, const char *path) {
    json_t *at = sample->document;
    while (at && *path) {
        size_t length = strcspn(path, ".");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        at = json_object_get(at, name);
        path += length + (path[length] == '.');
    }
    return at;
}

double sample_number(const struct sample *sample, const char *path) { return json_number_value(sample_find(sample, path)); }

bool sample_flag(const struct sample *sample, const char *path) { return json_is_true(sample_find(sample, path)); }

const char *sample_text(const struct sample *sample, const char *path) {
    const char *text = json_string_value(sample_find(sample, path));
    return text ? text : "";
}

double sample_rate(const struct sample *before, const struct sample *after, const char *path) {
    double seconds = after->seconds - before->seconds;
    double grown = sample_number(after, path) - sample_number(before, path);
    return seconds > 0 && grown > 0 ? grown / seconds : 0;
}

json_t *rates_json(const struct sample *before, const struct sample *after) {
    json_t *object = json_pack("{s:f}", "seconds", after->seconds - before->seconds);
    for (const struct rate *rate = rates; rate->name; rate++) {
        if (sample_find(after, rate->path))
            json_object_set_new(object, rate->name, json_real(sample_rate(before, after, rate->path)));
    }
    return object;
}

bool pause_seconds(double seconds) {
    double end = seconds_now() + seconds;
    for (double left = seconds; left > 0 && !session_interrupted(); left = end - seconds_now()) {
        double step = left < 0.1 ? left : 0.1;
        nanosleep(&(struct timespec){.tv_nsec = (long)(step * 1e9)}, NULL);
    }
    return !session_interrupted();
}

bool interval_parse(const char *text, double min, double *seconds) {
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end || isnan(value) || value < min || value > 3600) {
        report("--interval: \"%s\" is not a number of seconds from %g to 3600", text, min);
        return false;
    }
    *seconds = value;
    return true;
}
