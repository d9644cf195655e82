/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versionstamped log.
 *
 * Representation (keel/log.h): (versionstamp) = entry, and at the key of the subspace itself, which
 * lies before the range of its tuples, the packed tuple of the newest versionstamp. Both are
 * written by atomic operations whose stamp the database fills in at commit: an append is blind.
 *
 * Invariants:
 * 1. Versionstamps grow with the commit order, and a read version sees exactly the commits up to
 *    it. So what a snapshot shows up to its last entry is final, except for trimming.
 * 2. Every transaction that appends also writes the head. So a watch on the head, taken in a
 *    transaction that found nothing behind a position, fires when there is something.
 *
 * keel_log_wait: look and take the watch in one transaction; sleep on a condition that the watch's
 * callback signals, since futures know no timeout; look again. On a timeout the watch is cancelled,
 * which calls the callback at the latest, so it has always run before its context goes away.
 *
 * Threads: any. Failure: all input is checked before the first write.
 */
#include <keel/log.h>

#include "support.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ORDERS = 65536 };

/* ---- Appending ---- */

static fdb_error_t pack_entry(const keel_subspace *log, uint16_t order, struct recipe_key *key) {
    return recipe_pack_versionstamp(log, KEEL_TUPLE(KEEL_INCOMPLETE(order)), key);
}

static fdb_error_t write_head(FDBTransaction *tr, const keel_subspace *log, uint16_t order) {
    uint8_t stamp[32];
    size_t length;
    fdb_error_t error = keel_tuple_pack_versionstamp(KEEL_TUPLE(KEEL_INCOMPLETE(order)), stamp,
                                                     sizeof stamp, &length);
    if (!error)
        fdb_transaction_atomic_op(tr, log->prefix, log->length, stamp, (int)length,
                                  FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE);
    return error;
}

KEEL_EXPORT fdb_error_t keel_log_append_many(FDBTransaction *tr, const keel_subspace *log,
                                             uint16_t first_order, const keel_bytes *entries,
                                             size_t count) {
    struct recipe_key key;
    if (count > (size_t)(ORDERS - first_order) || (count && !entries))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = pack_entry(log, first_order, &key); /* all of them have the same length */
    for (size_t i = 0; i < count && !error; i++)
        error = recipe_check_value(entries[i]);
    for (size_t i = 0; i < count && !error; i++) {
        error = pack_entry(log, (uint16_t)(first_order + i), &key);
        if (!error)
            fdb_transaction_atomic_op(tr, key.data, (int)key.length, entries[i].data,
                                      (int)entries[i].length,
                                      FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY);
    }
    if (!error && count)
        error = write_head(tr, log, (uint16_t)(first_order + count - 1));
    return error;
}

KEEL_EXPORT fdb_error_t keel_log_append(FDBTransaction *tr, const keel_subspace *log,
                                        uint16_t order, keel_bytes entry) {
    return keel_log_append_many(tr, log, order, &entry, 1);
}

KEEL_EXPORT keel_log_position keel_log_position_of(const uint8_t *transaction_version,
                                                   uint16_t order) {
    keel_log_position position;
    memcpy(position.bytes, transaction_version, KEEL_TRANSACTION_VERSION_LENGTH);
    position.bytes[10] = (uint8_t)(order >> 8);
    position.bytes[11] = (uint8_t)order;
    return position;
}

/* ---- Reading ---- */

/* The key of a position; not by packing, which refuses the one with ten 0xff. */
static fdb_error_t pack_position(const keel_subspace *log, const keel_log_position *position,
                                 struct recipe_key *key) {
    static const uint8_t zeros[KEEL_VERSIONSTAMP_LENGTH];
    fdb_error_t error = recipe_pack(log, KEEL_TUPLE(KEEL_VERSIONSTAMP(zeros)), key);
    if (!error)
        memcpy(key->data + key->length - sizeof zeros, position->bytes, sizeof zeros);
    return error;
}

/* The range behind a position, or all of it. */
static fdb_error_t span_behind(const keel_subspace *log, const keel_log_position *after,
                               struct recipe_span *span) {
    fdb_error_t error = recipe_span_of(log, KEEL_TUPLE(), span);
    if (!error && after) {
        error = pack_position(log, after, &span->begin);
        if (!error)
            span->begin.data[span->begin.length++] = 0;
    }
    return error;
}

static fdb_error_t unpack_position(keel_tuple_iterator iterator, keel_log_position *position) {
    fdb_error_t error = keel_tuple_next_versionstamp(&iterator, position->bytes);
    return error || !keel_tuple_at_end(&iterator) ? KEEL_ERROR_STORED_FORMAT : 0;
}

static fdb_error_t visit_span(FDBTransaction *tr, const keel_subspace *log,
                              const struct recipe_span *span, int limit, bool reverse,
                              keel_log_visit visit, void *context) {
    struct recipe_scan scan;
    keel_bytes key, entry;
    bool found;
    recipe_scan_open(&scan, tr, span, limit, reverse, true);
    fdb_error_t error = recipe_scan_next(&scan, &key, &entry, &found);
    while (!error && found) {
        keel_log_position position;
        error = unpack_position(keel_tuple_iterate_behind(key, log->length), &position);
        if (!error)
            error = visit(context, &position, entry);
        if (!error)
            error = recipe_scan_next(&scan, &key, &entry, &found);
    }
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_log_scan(FDBTransaction *tr, const keel_subspace *log,
                                      const keel_log_position *after, int limit,
                                      keel_log_visit visit, void *context) {
    struct recipe_span span;
    if (limit < 0 || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_behind(log, after, &span);
    return error ? error : visit_span(tr, log, &span, limit, false, visit, context);
}

KEEL_EXPORT fdb_error_t keel_log_tail(FDBTransaction *tr, const keel_subspace *log, int count,
                                      keel_log_visit visit, void *context) {
    struct recipe_span span;
    if (count < 1 || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_behind(log, NULL, &span);
    return error ? error : visit_span(tr, log, &span, count, true, visit, context);
}

KEEL_EXPORT fdb_error_t keel_log_last(FDBTransaction *tr, const keel_subspace *log,
                                      keel_log_position *position) {
    keel_bytes head;
    bool present;
    keel_log_position last;
    if (!log || !position)
        return KEEL_ERROR_ARGUMENT;
    FDBFuture *future = fdb_transaction_get(tr, log->prefix, log->length, 1);
    fdb_error_t error = recipe_get_finish(future, &present, &head);
    memset(&last, 0, sizeof last);
    if (!error && present)
        error = unpack_position(keel_tuple_iterate(head), &last);
    fdb_future_destroy(future);
    if (!error)
        *position = last;
    return error;
}

KEEL_EXPORT fdb_error_t keel_log_count(FDBTransaction *tr, const keel_subspace *log,
                                       const keel_log_position *after, int64_t *count) {
    struct recipe_span span;
    fdb_error_t error = span_behind(log, after, &span);
    return error ? error : recipe_count(tr, &span, count);
}

/* ---- Waiting ---- */

KEEL_EXPORT fdb_error_t keel_log_watch(FDBTransaction *tr, const keel_subspace *log,
                                       FDBFuture **future) {
    if (!log || !future)
        return KEEL_ERROR_ARGUMENT;
    *future = fdb_transaction_watch(tr, log->prefix, log->length);
    return 0;
}

struct look {
    const keel_subspace *log;
    const keel_log_position *after;
    bool more;
    FDBFuture *watch;
};

/* Whether there is something; if not, a watch that says when. */
static fdb_error_t look(FDBTransaction *tr, void *context) {
    struct look *it = context;
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, entry;
    if (it->watch)
        fdb_future_destroy(it->watch); /* of a try that was not committed */
    it->watch = NULL;
    fdb_error_t error = span_behind(it->log, it->after, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, false, true);
    error = recipe_scan_next(&scan, &key, &entry, &it->more);
    recipe_scan_close(&scan);
    if (!error && !it->more)
        error = keel_log_watch(tr, it->log, &it->watch);
    return error;
}

/* A condition on the clock that nobody sets. */
struct signal {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool fired;
};

static void signal_open(struct signal *it) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&it->mutex, NULL);
    pthread_cond_init(&it->condition, &attributes);
    pthread_condattr_destroy(&attributes);
    it->fired = false;
}

static void signal_close(struct signal *it) {
    pthread_cond_destroy(&it->condition);
    pthread_mutex_destroy(&it->mutex);
}

static void fire(FDBFuture *future, void *context) {
    struct signal *it = context;
    (void)future;
    pthread_mutex_lock(&it->mutex);
    it->fired = true;
    pthread_cond_signal(&it->condition);
    pthread_mutex_unlock(&it->mutex);
}

/* Until fired, or until the deadline if there is one. */
static bool sleep_until(struct signal *it, const struct timespec *deadline) {
    int timed_out = 0;
    pthread_mutex_lock(&it->mutex);
    while (!it->fired && !timed_out)
        timed_out = deadline ? pthread_cond_timedwait(&it->condition, &it->mutex, deadline)
                             : pthread_cond_wait(&it->condition, &it->mutex);
    bool fired = it->fired;
    pthread_mutex_unlock(&it->mutex);
    return fired;
}

/* Waits for the watch and destroys it. An error of the watch that passes counts as fired. */
static fdb_error_t await(FDBFuture *watch, const struct timespec *deadline, bool *fired) {
    struct signal signal;
    signal_open(&signal);
    fdb_error_t error = fdb_future_set_callback(watch, fire, &signal);
    if (!error) {
        *fired = sleep_until(&signal, deadline);
        if (*fired) {
            error = fdb_future_get_error(watch);
            if (error && fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
                error = 0;
        } else {
            fdb_future_cancel(watch);
            sleep_until(&signal, NULL);
        }
    }
    fdb_future_destroy(watch);
    signal_close(&signal);
    return error;
}

static struct timespec deadline_in(int64_t timeout_ms) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)(timeout_ms / 1000);
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

KEEL_EXPORT fdb_error_t keel_log_wait(FDBDatabase *database, const keel_subspace *log,
                                      const keel_log_position *after, int64_t timeout_ms,
                                      bool *more) {
    struct look it = {.log = log, .after = after};
    struct timespec deadline = deadline_in(timeout_ms < 0 ? 0 : timeout_ms);
    bool fired = true;
    for (;;) {
        fdb_error_t error = keel_run(database, look, &it);
        if (error || it.more || !fired) {
            if (it.watch)
                fdb_future_destroy(it.watch);
            if (!error)
                *more = it.more;
            return error;
        }
        FDBFuture *watch = it.watch;
        it.watch = NULL;
        error = await(watch, timeout_ms < 0 ? NULL : &deadline, &fired);
        if (error)
            return error;
    }
}

/* ---- Removing ---- */

KEEL_EXPORT fdb_error_t keel_log_trim(FDBTransaction *tr, const keel_subspace *log,
                                      const keel_log_position *through) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(log, KEEL_TUPLE(), &span);
    if (!error && through) {
        error = pack_position(log, through, &span.end);
        if (!error)
            span.end.data[span.end.length++] = 0;
    }
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}
