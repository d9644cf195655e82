/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of versions: one million a second, idle or not, never back. It also decides which version a reader may use while batches are
 * on their way: the one just below the oldest of them.
 */
#ifndef KEEL_ENGINE_VERSION_CLOCK_H
#define KEEL_ENGINE_VERSION_CLOCK_H

#include <stdatomic.h>

#include "os/thread.h"

enum { VERSIONS_PER_SECOND = 1000000, VERSIONS_PENDING_MAX = 4 };

struct version_clock {
    os_mutex lock;
    int64_t start_version; /* the first one handed out since open: nothing below it is readable */
    int64_t start_us;
    int64_t lifetime;      /* in versions */
    int64_t last;          /* the greatest version handed out or given to a batch */
    int64_t pending[VERSIONS_PENDING_MAX]; /* of the batches on their way, oldest first */
    unsigned pending_count;
    _Atomic int64_t oldest_pending; /* pending[0], or 0; written under the lock */
    _Atomic int64_t ceiling; /* the lease on disk: no version above it leaves this clock; written under the lock */
};

void version_clock_init(struct version_clock *clock, int64_t start_version, int64_t ceiling, int64_t lifetime);
void version_clock_destroy(struct version_clock *clock);

/* A version that shows everything committed so far. No batch will ever get a version at or below it. Any thread. */
int64_t version_clock_read(struct version_clock *clock);

/*
 * Gives a new batch its version, above everything handed out; it is pending from now on, and readers get the version just below the oldest that is.
 * May exceed the ceiling only if the caller has not renewed the lease: see version_clock_needs_lease. REQUIRES: fewer than VERSIONS_PENDING_MAX pending.
 */
int64_t version_clock_begin_batch(struct version_clock *clock);

/* The oldest pending batch is readable, or was given up without a trace. REQUIRES: there is one. */
void version_clock_end_batch(struct version_clock *clock);

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
