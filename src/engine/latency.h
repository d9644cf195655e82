/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long something takes: a histogram of the last half minute or so, for the status. Adding is a few instructions and takes no lock; any thread.
 */
#ifndef KEEL_ENGINE_LATENCY_H
#define KEEL_ENGINE_LATENCY_H

#include <stdatomic.h>

#include "database/database.h"
#include "os/thread.h"

enum {
    LATENCY_LINEAR = 16,      /* below it each nanosecond has a bucket */
    LATENCY_STEPS = 8,        /* from there on, buckets for each doubling: within 12.5 % */
    LATENCY_BUCKETS = LATENCY_LINEAR + 60 * LATENCY_STEPS,
    LATENCY_READ_SAMPLE = 64, /* of so many reads one is measured; a power of two */
};
#define LATENCY_SPAN_US 30000000

struct latency_span {
    _Atomic uint64_t counts[LATENCY_BUCKETS];
    _Atomic uint64_t max_ns;
};

struct latency {
    struct latency_span spans[2];
    _Atomic unsigned active;
    os_mutex lock;      /* for who reads */
    int64_t rotated_us; /* when the active span was begun; under the lock */
};

void latency_init(struct latency *latency);
void latency_destroy(struct latency *latency);
void latency_add(struct latency *latency, int64_t ns);

/*
 * What the two spans hold together: the last 30 to 60 seconds, if somebody asks at least every 30; else since somebody asked last, and 30 seconds before. A bucket
 * counts with its upper end.
 */
void latency_read(struct latency *latency, struct latency_status *status);

#endif
