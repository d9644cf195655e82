/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of versions: one million a second, idle or not, never back. It also decides which version a reader may use while a batch is
 * on its way: the one just below the batch.
 */
#ifndef KEEL_ENGINE_VERSION_CLOCK_H
#define KEEL_ENGINE_VERSION_CLOCK_H

#include <stdatomic.h>

#include "os/thread.h"

enum { VERSIONS_PER_SECOND = 1000000 };

struct version_clock {
    os_mutex lock;
    int64_t start_version; /* the first one handed out since open: nothing below it is readable */
    int64_t start_us;
    int64_t lifetime;      /* in versions */
    int64_t last;          /* the greatest version handed out or given to a batch */
    _Atomic int64_t pending; /* the version of the oldest batch in flight, or 0; written under the lock */
    int64_t pending_next;    /* that of the batch behind it, or 0 */
    bool abandoned;          /* the oldest will never end */
    _Atomic int64_t ceiling; /* the lease on disk: no version above it leaves this clock; written under the lock */
};

void version_clock_init(struct version_clock *clock, int64_t start_version, int64_t ceiling, int64_t lifetime);
void version_clock_destroy(struct version_clock *clock);

/* A version that shows everything committed so far. No batch will ever get a version at or below it. Any thread. */
int64_t version_clock_read(struct version_clock *clock);

/*
 * Gives a new batch its version, above everything handed out; from now until version_clock_end_batch readers get a version below it. May exceed the ceiling
 * only if the caller has not renewed the lease: see version_clock_needs_lease. Two batches at a time, which end in the order they began in.
 */
int64_t version_clock_begin_batch(struct version_clock *clock);

/* The oldest batch is readable, or was given up without a trace. */
void version_clock_end_batch(struct version_clock *clock);

/* Nobody knows what became of the oldest batch: readers stay below it for ever, and no other ends. */
void version_clock_abandon_batch(struct version_clock *clock);

/* True if less than half of a lease of `lease` versions is left: raise the ceiling on disk, then tell the clock. */
bool version_clock_needs_lease(struct version_clock *clock, int64_t lease);
int64_t version_clock_next_ceiling(struct version_clock *clock, int64_t lease);
void version_clock_set_ceiling(struct version_clock *clock, int64_t ceiling);

/*
 * The oldest version that may still be read or committed against. Never above what version_clock_read gives, however long a batch takes.
 * Takes no lock; some milliseconds of slack to the lenient side.
 */
int64_t version_clock_horizon(const struct version_clock *clock);

#endif
