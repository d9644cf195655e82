/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size of a range, for fdb_transaction_get_estimated_range_size_bytes and split points, from a
 * cursor that can only seek and step.
 *
 * A range of up to ROWS_EXACT rows is simply walked. A larger one is a segment, named by its first
 * and last row, and split again and again:
 *
 *     first ─────────────┬──────────── last
 *     [first, left_last] │ [right_first, last]
 *                      middle
 *
 * The middle is the average of first and last as numbers, taken from the first byte in which they
 * differ. Both halves begin and end at rows, so a half never has an empty margin, and empty
 * stretches of key space cost nothing.
 *
 * Splitting every segment of a list a few times in a row gives up to STRATA segments. From each of
 * them one random way leads down: of two halves take one by the toss of a coin and count it twice,
 * until what is left is small enough to be walked. The expected value of that is the exact size
 * whatever the keys look like (Knuth, 1975, "Estimating the efficiency of backtrack programs"); a
 * half of a few rows is counted exactly instead of being tossed for, which keeps uneven splits
 * from spoiling the result.
 *
 *   1. A segment's first and last are keys of rows, first <= last.
 *   2. The coin is a fixed sequence, so the same base gives the same answer.
 *
 * Threads: the caller's, on its snapshot. Failure: returns the error; the cursor is wherever it
 * was.
 */
#include "engine/base_estimate.h"

#include "util/arena.h"
#include "util/coding.h"

enum {
    ROWS_EXACT = 1000,
    ROWS_SMALL = 12, /* a segment of no more rows is walked, not split */
    STRATA = 16,
    SPLITS_MAX = 400, /* of one segment on its way down: more than the bits of any sensible key */
};

struct segment {
    struct bytes first;
    struct bytes last;
};

struct estimate {
    struct base_snapshot *snapshot;
    struct arena keys; /* of the segments at hand */
    uint64_t coin;
};

/*
 * Walks from the cursor's row to `last`, at most rows_max rows; *complete says that it got there.
 */
static fdb_error_t walk(struct estimate *e, struct bytes last, int rows_max, double *bytes,
                        bool *complete) {
    struct bytes key, value;
    double sum = 0;
    bool found = true;
    for (int rows = 0; found && rows < rows_max; rows++) {
        fdb_error_t error = base_current(e->snapshot, &key, &value);
        if (error)
            return error;
        int order = bytes_compare(key, last);
        if (order <= 0)
            sum += (double)(key.length + value.length);
        if (order >= 0) {
            *bytes = sum;
            *complete = true;
            return ERROR_SUCCESS;
        }
        error = base_next(e->snapshot, &found);
        if (error)
            return error;
    }
    *bytes = sum;
    *complete = !found;
    return ERROR_SUCCESS;
}

static fdb_error_t copy_current(struct estimate *e, struct bytes *copy) {
    struct bytes key, value;
    fdb_error_t error = base_current(e->snapshot, &key, &value);
    if (error)
        return error;
    return arena_copy(&e->keys, key, copy) ? ERROR_SUCCESS : ERROR_LARGE_ALLOC_FAILED;
}

/* Eight bytes of a key as a number, zeros past its end. */
static uint64_t digits(struct bytes key, size_t offset) {
    uint8_t buffer[8] = {0};
    size_t length = key.length - offset;
    memcpy(buffer, key.data + offset, length < 8 ? length : 8);
    return coding_get_u64_big(buffer);
}

/*
 * A key above first and at or below last, about half way; false where they differ only by zeros at
 * the end of last.
 */
static bool middle_key(struct estimate *e, const struct segment *segment, struct bytes *middle,
                       bool *enough_memory) {
    struct bytes first = segment->first, last = segment->last;
    size_t shared = 0, shorter = first.length < last.length ? first.length : last.length;
    while (shared < shorter && first.data[shared] == last.data[shared])
        shared++;
    uint64_t low = digits(first, shared), high = digits(last, shared);
    *enough_memory = true;
    if (low >= high)
        return false;
    uint8_t *key = arena_allocate_bytes(&e->keys, shared + 8);
    if (!key) {
        *enough_memory = false;
        return false;
    }
    if (shared)
        memcpy(key, last.data, shared);
    coding_put_u64_big(key + shared, low + (high - low + 1) / 2);
    size_t length = shared + 8;
    while (length && key[length - 1] == 0) /* `last` may be as short as that */
        length--;
    *middle = bytes_make(key, length);
    return true;
}

/* A half that has been looked at: walked to its end, or with its bounds known. */
struct half {
    struct segment segment;
    double bytes;
    bool complete;
};

static fdb_error_t look(struct estimate *e, struct half *half) {
    return walk(e, half->segment.last, ROWS_SMALL, &half->bytes, &half->complete);
}

/* Splits a segment; *split is false where it has no middle. */
static fdb_error_t split_segment(struct estimate *e, const struct segment *segment,
                                 struct half halves[2], bool *split) {
    struct bytes middle;
    bool found, enough_memory;
    *split = false;
    if (!middle_key(e, segment, &middle, &enough_memory))
        return enough_memory ? ERROR_SUCCESS : ERROR_LARGE_ALLOC_FAILED;
    halves[0].segment.first = segment->first;
    halves[1].segment.last = segment->last;
    fdb_error_t error = base_seek_before(e->snapshot, middle, &found);
    if (error || !found)
        return error;
    if ((error = copy_current(e, &halves[0].segment.last)) != 0)
        return error;
    if ((error = base_next(e->snapshot, &found)) != 0 || !found)
        return error;
    if ((error = copy_current(e, &halves[1].segment.first)) != 0)
        return error;
    if ((error = look(e, &halves[1])) != 0)
        return error;
    if ((error = base_seek(e->snapshot, segment->first, &found)) != 0 || !found)
        return error;
    *split = true;
    return look(e, &halves[0]);
}

static bool toss(struct estimate *e) {
    e->coin ^= e->coin << 13;
    e->coin ^= e->coin >> 7;
    e->coin ^= e->coin << 17;
    return e->coin >> 63;
}

/* One random way down from a segment. */
static fdb_error_t sample(struct estimate *e, struct segment segment, double *bytes) {
    double weight = 1, sum = 0;
    for (int splits = 0; splits < SPLITS_MAX; splits++) {
        struct half halves[2];
        bool split;
        fdb_error_t error = split_segment(e, &segment, halves, &split);
        if (error)
            return error;
        if (!split)
            break;
        int next = toss(e);
        if (halves[0].complete || halves[1].complete) {
            next = halves[0].complete;
            sum += weight * halves[!next].bytes;
        } else {
            weight *= 2;
        }
        if (halves[next].complete) {
            *bytes = sum + weight * halves[next].bytes;
            return ERROR_SUCCESS;
        }
        segment = halves[next].segment;
    }
    bool found, complete;
    double rest = 0; /* it has no middle: count what a bounded walk finds */
    fdb_error_t error = base_seek(e->snapshot, segment.first, &found);
    if (!error && found)
        error = walk(e, segment.last, ROWS_EXACT, &rest, &complete);
    *bytes = sum + weight * rest;
    return error;
}

/* Splits every segment of the list once; small ones are counted and leave it. */
static fdb_error_t spread(struct estimate *e, struct segment *segments, int *count, double *bytes) {
    struct segment split_up[STRATA];
    int made = 0;
    for (int i = 0; i < *count; i++) {
        struct half halves[2];
        bool split;
        fdb_error_t error = split_segment(e, &segments[i], halves, &split);
        if (error)
            return error;
        if (!split)
            split_up[made++] = segments[i];
        for (int side = 0; split && side < 2; side++) {
            if (halves[side].complete)
                *bytes += halves[side].bytes;
            else
                split_up[made++] = halves[side].segment;
        }
    }
    memcpy(segments, split_up, (size_t)made * sizeof *segments);
    *count = made;
    return ERROR_SUCCESS;
}

static fdb_error_t estimate_segment(struct estimate *e, struct segment whole, double *bytes) {
    struct segment segments[STRATA] = {whole};
    int count = 1;
    double sum = 0, part = 0;
    for (int round = 0; round < 8 && count && count <= STRATA / 2; round++) {
        fdb_error_t error = spread(e, segments, &count, &sum);
        if (error)
            return error;
    }
    for (int i = 0; i < count; i++) {
        fdb_error_t error = sample(e, segments[i], &part);
        if (error)
            return error;
        sum += part;
    }
    *bytes = sum;
    return ERROR_SUCCESS;
}

fdb_error_t base_estimate(struct base_snapshot *snapshot, struct bytes begin, struct bytes end,
                          int64_t *bytes) {
    struct estimate e = {.snapshot = snapshot, .coin = UINT64_C(0x9E3779B97F4A7C15)};
    struct segment whole;
    bool found, complete;
    double sum = 0;
    fdb_error_t error = base_seek_before(snapshot, end, &found);
    if (!error && found)
        error = copy_current(&e, &whole.last);
    if (!error && found)
        error = base_seek(snapshot, begin, &found);
    if (!error && found)
        error = copy_current(&e, &whole.first);
    if (!error && found && bytes_compare(whole.first, whole.last) <= 0) {
        error = walk(&e, whole.last, ROWS_EXACT, &sum, &complete);
        if (!error && !complete)
            error = estimate_segment(&e, whole, &sum);
    }
    arena_free(&e.keys);
    if (!error)
        *bytes = (int64_t)sum;
    return error;
}
