/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version clock. A version is the start version plus the microseconds since open, so versions of one process are a straight line over time;
 * the start version of the next process is the ceiling this one had leased on disk (lease.c), which lies above every version it ever handed out.
 *
 *   1. `last` never goes down, and no version above `last` is known to anybody.
 *   2. While a batch is pending, readers get pending - 1: everything at or below it is applied, the batch itself is not. Of two it is the older one.
 *   3. A batch's version is above every version a reader was given, so what a reader saw at its version never changes.
 *   4. Nothing above `ceiling` leaves the clock: a process that slept through its lease stands still until it is renewed.
 */
#include "engine/version_clock.h"

#include "os/clock.h"

static int64_t version_now(const struct version_clock *clock) {
    return clock->start_version + (os_clock_us() - clock->start_us);
}

static int64_t advance(struct version_clock *clock) {
    int64_t now = version_now(clock);
    if (now > clock->ceiling)
        now = clock->ceiling;
    if (now > clock->last)
        clock->last = now;
    return clock->last;
}

void version_clock_init(struct version_clock *clock, int64_t start_version, int64_t ceiling, int64_t lifetime) {
    os_mutex_init(&clock->lock);
    clock->start_version = start_version;
    clock->start_us = os_clock_us();
    clock->lifetime = lifetime;
    clock->last = start_version;
    clock->pending = 0;
    clock->pending_next = 0;
    clock->abandoned = false;
    clock->ceiling = ceiling;
}

void version_clock_destroy(struct version_clock *clock) {
    os_mutex_destroy(&clock->lock);
}

int64_t version_clock_read(struct version_clock *clock) {
    os_mutex_lock(&clock->lock);
    int64_t version = clock->pending ? clock->pending - 1 : advance(clock);
    os_mutex_unlock(&clock->lock);
    return version;
}

int64_t version_clock_begin_batch(struct version_clock *clock) {
    os_mutex_lock(&clock->lock);
    int64_t version = clock->last = advance(clock) + 1;
    if (clock->pending)
        clock->pending_next = version;
    else
        clock->pending = version;
    os_mutex_unlock(&clock->lock);
    return version;
}

void version_clock_end_batch(struct version_clock *clock) {
    os_mutex_lock(&clock->lock);
    if (!clock->abandoned) {
        clock->pending = clock->pending_next;
        clock->pending_next = 0;
    }
    os_mutex_unlock(&clock->lock);
}

void version_clock_abandon_batch(struct version_clock *clock) {
    os_mutex_lock(&clock->lock);
    clock->abandoned = true;
    os_mutex_unlock(&clock->lock);
}

bool version_clock_needs_lease(struct version_clock *clock, int64_t lease) {
    os_mutex_lock(&clock->lock);
    bool needs = version_now(clock) > clock->ceiling - lease / 2 || clock->last >= clock->ceiling - lease / 2;
    os_mutex_unlock(&clock->lock);
    return needs;
}

int64_t version_clock_next_ceiling(struct version_clock *clock, int64_t lease) {
    os_mutex_lock(&clock->lock);
    int64_t now = version_now(clock);
    int64_t ceiling = (now > clock->last ? now : clock->last) + lease;
    os_mutex_unlock(&clock->lock);
    return ceiling;
}

void version_clock_set_ceiling(struct version_clock *clock, int64_t ceiling) {
    os_mutex_lock(&clock->lock);
    clock->ceiling = ceiling;
    os_mutex_unlock(&clock->lock);
}

int64_t version_clock_horizon(const struct version_clock *clock) {
    int64_t now = clock->start_version + (os_clock_coarse_us() - clock->start_us);
    int64_t ceiling = atomic_load_explicit(&clock->ceiling, memory_order_relaxed);
    int64_t horizon = (now < ceiling ? now : ceiling) - clock->lifetime; /* it stands still with the clock: invariant 4 */
    int64_t pending = atomic_load_explicit(&clock->pending, memory_order_relaxed);
    if (pending && horizon > pending - 1)
        horizon = pending - 1;
    return horizon > clock->start_version ? horizon : clock->start_version;
}
