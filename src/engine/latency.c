/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms of latencies. Buckets grow with what they count: one for each nanosecond up to 15, then eight for each doubling, so that any
 * quantile is right within an eighth, from nanoseconds to hours, in four kilobytes.
 *
 *     bucket of 1,000 ns:  1000 = 1.95 · 2^9  ─►  16 + (9 - 4) · 8 + 7 = 63, which ends at 1,023 ns
 *
 * Two spans take turns: what is measured goes to the active one; who reads, and finds it older than 30 seconds, clears the other and makes that the active one. A
 * measurement that is added meanwhile may land in either, or be lost: nobody counts on one.
 */
#include "engine/latency.h"

#include "os/clock.h"

static unsigned bucket_of(uint64_t ns) {
    if (ns < LATENCY_LINEAR)
        return (unsigned)ns;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    return LATENCY_LINEAR + (exponent - 4) * LATENCY_STEPS + (unsigned)(ns >> (exponent - 3) & (LATENCY_STEPS - 1));
}

/* The largest that a bucket counts. */
static uint64_t bucket_end(unsigned bucket) {
    if (bucket < LATENCY_LINEAR)
        return bucket;
    unsigned exponent = (bucket - LATENCY_LINEAR) / LATENCY_STEPS + 4, step = (bucket - LATENCY_LINEAR) % LATENCY_STEPS;
    return (UINT64_C(1) << exponent) + ((uint64_t)(step + 1) << (exponent - 3)) - 1;
}

void latency_init(struct latency *latency) {
    os_mutex_init(&latency->lock);
    latency->rotated_us = os_clock_us();
}

void latency_destroy(struct latency *latency) {
    os_mutex_destroy(&latency->lock);
}

void latency_add(struct latency *latency, int64_t ns) {
    uint64_t length = ns > 0 ? (uint64_t)ns : 0;
    struct latency_span *span = &latency->spans[atomic_load_explicit(&latency->active, memory_order_relaxed)];
    atomic_fetch_add_explicit(&span->counts[bucket_of(length)], 1, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&span->max_ns, memory_order_relaxed);
    while (length > max &&
           !atomic_compare_exchange_weak_explicit(&span->max_ns, &max, length, memory_order_relaxed, memory_order_relaxed))
        continue;
}

static void rotate_if_due(struct latency *latency) {
    int64_t now = os_clock_us();
    if (now - latency->rotated_us < LATENCY_SPAN_US)
        return;
    unsigned next = 1 - atomic_load_explicit(&latency->active, memory_order_relaxed);
    struct latency_span *span = &latency->spans[next];
    for (int i = 0; i < LATENCY_BUCKETS; i++)
        atomic_store_explicit(&span->counts[i], 0, memory_order_relaxed);
    atomic_store_explicit(&span->max_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&latency->active, next, memory_order_relaxed);
    latency->rotated_us = now;
}

/* The length that this many of the measurements do not exceed. */
static int64_t quantile(const uint64_t counts[LATENCY_BUCKETS], uint64_t rank, uint64_t max) {
    uint64_t seen = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += counts[i];
        if (seen >= rank)
            return (int64_t)(bucket_end(i) < max ? bucket_end(i) : max);
    }
    return (int64_t)max;
}

void latency_read(struct latency *latency, struct latency_status *status) {
    uint64_t counts[LATENCY_BUCKETS], total = 0, max = 0;
    os_mutex_lock(&latency->lock);
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        counts[i] = atomic_load_explicit(&latency->spans[0].counts[i], memory_order_relaxed) +
                    atomic_load_explicit(&latency->spans[1].counts[i], memory_order_relaxed);
        total += counts[i];
    }
    for (int i = 0; i < 2; i++) {
        uint64_t of_span = atomic_load_explicit(&latency->spans[i].max_ns, memory_order_relaxed);
        max = of_span > max ? of_span : max;
    }
    rotate_if_due(latency);
    os_mutex_unlock(&latency->lock);
    *status = (struct latency_status){.count = total};
    if (!total)
        return;
    status->p50_ns = quantile(counts, (total * 50 + 99) / 100, max);
    status->p95_ns = quantile(counts, (total * 95 + 99) / 100, max);
    status->p99_ns = quantile(counts, (total * 99 + 99) / 100, max);
    status->max_ns = (int64_t)max;
}
