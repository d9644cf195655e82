/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive reference: what every call on a transaction must answer and which commits must
 * conflict.
 *
 * The database is a list of states, each a sorted array of rows with the version that made it. A
 * transaction is its read version and the list of its mutations; what it sees is the state at its
 * version with the mutations applied one after the other.
 *
 * The rules for conflicts, as the official client has them:
 *   1. A write adds the keys it writes, unless the option before it said otherwise. A
 *      versionstamped key is added when it is known.
 *   2. A read that is no snapshot read adds what its answer depended on: the key; for a key
 *      selector all between its key and the key found; for a range all between the selectors' keys,
 *      stretched to the rows returned, and cut off behind the last row where more are to come.
 *   3. Of that, only the parts that the transaction has not itself written before count; an atomic
 *      operation on a key it has neither set nor cleared is not such a write. The same holds for
 *      explicit read conflict ranges. With read-your-writes disabled, everything counts.
 * For a few odd reads (an empty result between clamped selectors, ranges with read-your-writes
 * disabled) the rules depend on what happens to be cached: then the reference knows what must be
 * added and what may be.
 */
#include "model.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_BYTES_MAX = 100000,
    ERROR_UNREADABLE = 1036,
    ROW_BYTES = 24, /* what a row may count beside its key and value against a byte limit */
};

static char message[512];

__attribute__((format(printf, 1, 2))) static const char *wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return message;
}

/* --- Memory and text --- */

struct block {
    struct block *next;
    size_t size;
    _Alignas(16) uint8_t data[];
};

void *arena_take(struct arena *arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (!arena->blocks || arena->used + size > arena->blocks->size) {
        size_t block_size = size > 1 << 16 ? size : 1 << 16;
        struct block *block = malloc(sizeof *block + block_size);
        if (!block)
            die("out of memory", 0);
        *block = (struct block){arena->blocks, block_size};
        arena->blocks = block;
        arena->used = 0;
    }
    void *taken = arena->blocks->data + arena->used;
    arena->used += size;
    return taken;
}

void arena_free(struct arena *arena) {
    while (arena->blocks) {
        struct block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

void *arena_grow(struct arena *arena, void *array, int count, int *capacity, size_t element_size) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : 8;
    void *grown = arena_take(arena, (size_t)*capacity * element_size);
    if (count)
        memcpy(grown, array, (size_t)count * element_size);
    return grown;
}

struct text text_of(const char *literal) {
    return (struct text){(const uint8_t *)literal, (int)strlen(literal)};
}

struct text text_copy(struct arena *arena, const uint8_t *data, int length) {
    uint8_t *copy = arena_take(arena, (size_t)length + 1);
    if (length)
        memcpy(copy, data, (size_t)length);
    return (struct text){copy, length};
}

struct text text_after(struct arena *arena, struct text text) {
    uint8_t *copy = arena_take(arena, (size_t)text.length + 1);
    if (text.length)
        memcpy(copy, text.data, (size_t)text.length);
    copy[text.length] = 0;
    return (struct text){copy, text.length + 1};
}

int text_compare(struct text a, struct text b) {
    int shared = a.length < b.length ? a.length : b.length;
    int order = shared ? memcmp(a.data, b.data, (size_t)shared) : 0;
    return order ? order : a.length - b.length;
}

bool text_equal(struct text a, struct text b) {
    return a.length == b.length && text_compare(a, b) == 0;
}

static struct text text_min(struct text a, struct text b) {
    return text_compare(a, b) <= 0 ? a : b;
}

static struct text text_max(struct text a, struct text b) {
    return text_compare(a, b) >= 0 ? a : b;
}

static void ranges_add(struct arena *arena, struct ranges *ranges, struct text begin,
                       struct text end, bool required) {
    if (text_compare(begin, end) >= 0)
        return;
    ranges->array = arena_grow(arena, ranges->array, ranges->count, &ranges->capacity,
                               sizeof *ranges->array);
    ranges->array[ranges->count++] = (struct range){begin, end, required};
}

static bool overlap(struct text begin, struct text end, const struct range *range) {
    return text_compare(begin, range->end) < 0 && text_compare(range->begin, end) < 0;
}

/* --- Atomic operations, by what they mean --- */

/* A value as a little-endian number of `width` bytes. */
static uint8_t *number(struct arena *arena, const struct text *value, int width) {
    uint8_t *bytes = arena_take(arena, (size_t)width + 1);
    memset(bytes, 0, (size_t)width + 1);
    if (value && value->length)
        memcpy(bytes, value->data, (size_t)(value->length < width ? value->length : width));
    return bytes;
}

/* Order of two little-endian numbers. */
static int number_compare(const uint8_t *a, const uint8_t *b, int width) {
    for (int i = width - 1; i >= 0; i--) {
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    }
    return 0;
}

static struct text arithmetic(struct arena *arena, int type, const struct text *old,
                              struct text operand) {
    int width = operand.length;
    uint8_t *a = number(arena, old, width), *b = number(arena, &operand, width);
    int order = number_compare(a, b, width), carry = 0;
    for (int i = 0; i < width; i++) {
        switch (type) {
        case FDB_MUTATION_TYPE_ADD:
            carry += a[i] + b[i];
            a[i] = (uint8_t)carry;
            carry >>= 8;
            break;
        case FDB_MUTATION_TYPE_BIT_AND: a[i] &= b[i]; break;
        case FDB_MUTATION_TYPE_BIT_OR: a[i] |= b[i]; break;
        case FDB_MUTATION_TYPE_BIT_XOR: a[i] ^= b[i]; break;
        case FDB_MUTATION_TYPE_MAX: a[i] = order < 0 ? b[i] : a[i]; break;
        case FDB_MUTATION_TYPE_MIN: a[i] = order > 0 ? b[i] : a[i]; break;
        default: die("an unknown atomic operation", 0);
        }
    }
    return (struct text){a, width};
}

static struct text concatenate(struct arena *arena, struct text a, struct text b) {
    if (a.length + b.length > VALUE_BYTES_MAX)
        return a;
    uint8_t *both = arena_take(arena, (size_t)(a.length + b.length) + 1);
    if (a.length)
        memcpy(both, a.data, (size_t)a.length);
    if (b.length)
        memcpy(both + a.length, b.data, (size_t)b.length);
    return (struct text){both, a.length + b.length};
}

/*
 * The value an atomic operation leaves; false if it leaves none. `old` is NULL for a missing key.
 */
static bool evaluate(struct arena *arena, const struct mutation *mutation, const struct text *old,
                     struct text *value) {
    struct text operand = mutation->value;
    if (mutation->type == FDB_MUTATION_TYPE_COMPARE_AND_CLEAR) {
        if (!old || text_equal(*old, operand))
            return false;
        *value = *old;
        return true;
    }
    if (!old)
        *value = operand;
    else if (mutation->type == FDB_MUTATION_TYPE_BYTE_MIN)
        *value = text_min(*old, operand);
    else if (mutation->type == FDB_MUTATION_TYPE_BYTE_MAX)
        *value = text_max(*old, operand);
    else if (mutation->type == FDB_MUTATION_TYPE_APPEND_IF_FITS)
        *value = concatenate(arena, *old, operand);
    else
        *value = arithmetic(arena, mutation->type, old, operand);
    return true;
}

/* --- States --- */

/* How many rows have keys below `key`. */
static int rows_below(struct rows rows, struct text key) {
    int low = 0, high = rows.count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (text_compare(rows.array[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct text *rows_find(struct rows rows, struct text key) {
    int at = rows_below(rows, key);
    return at < rows.count && text_equal(rows.array[at].key, key) ? &rows.array[at].value : NULL;
}

static void rows_remove(struct rows *rows, int first, int end) {
    memmove(rows->array + first, rows->array + end,
            (size_t)(rows->count - end) * sizeof *rows->array);
    rows->count -= end - first;
}

/* REQUIRES: room for one more. */
static void rows_put(struct rows *rows, struct text key, struct text value) {
    int at = rows_below(*rows, key);
    if (at == rows->count || !text_equal(rows->array[at].key, key)) {
        memmove(rows->array + at + 1, rows->array + at,
                (size_t)(rows->count - at) * sizeof *rows->array);
        rows->count++;
    }
    rows->array[at] = (struct row){key, value};
}

static int stamp_offset(struct text text) {
    const uint8_t *end = text.data + text.length - 4;
    return end[0] | end[1] << 8 | end[2] << 16 | end[3] << 24;
}

/* The text without its offset, with ten bytes filled in. */
static struct text stamped(struct arena *arena, struct text text, const uint8_t *stamp) {
    struct text filled = text_copy(arena, text.data, text.length - 4);
    memcpy((uint8_t *)filled.data + stamp_offset(text), stamp, 10);
    return filled;
}

/*
 * Applies one mutation. Without a stamp, versionstamped keys are left out and values are anything.
 * REQUIRES: room for one more row.
 */
static void rows_apply(struct arena *arena, struct rows *rows, const struct mutation *mutation,
                       const uint8_t *stamp) {
    struct text value;
    switch (mutation->type) {
    case MUTATION_SET: rows_put(rows, mutation->key, mutation->value); return;
    case MUTATION_CLEAR_RANGE:
        rows_remove(rows, rows_below(*rows, mutation->key), rows_below(*rows, mutation->value));
        return;
    case FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY:
        if (stamp)
            rows_put(rows, stamped(arena, mutation->key, stamp), mutation->value);
        return;
    case FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE:
        rows_put(rows, mutation->key, stamp ? stamped(arena, mutation->value, stamp)
                 : text_of("?"));
        return;
    default: break;
    }
    if (evaluate(arena, mutation, rows_find(*rows, mutation->key), &value))
        rows_put(rows, mutation->key, value);
    else if (rows_find(*rows, mutation->key))
        rows_remove(rows, rows_below(*rows, mutation->key), rows_below(*rows, mutation->key) + 1);
}

static struct rows rows_with(struct arena *arena, struct rows base, const struct txn *txn,
                             const uint8_t *stamp) {
    size_t count_max = (size_t)(base.count + txn->mutation_count + 1);
    struct rows rows = {arena_take(arena, count_max * sizeof *rows.array), base.count};
    if (base.count)
        memcpy(rows.array, base.array, (size_t)base.count * sizeof *rows.array);
    for (int i = 0; i < txn->mutation_count; i++)
        rows_apply(arena, &rows, &txn->mutations[i], stamp);
    return rows;
}

static void history_add(struct history *history, int64_t version, int order, struct rows rows) {
    history->states = arena_grow(history->arena, history->states, history->state_count,
                                 &history->state_capacity,
                                 sizeof *history->states);
    history->states[history->state_count++] = (struct state){version, order, rows};
}

void history_begin(struct history *history, struct arena *arena, int64_t version,
                   struct rows rows) {
    *history = (struct history){.arena = arena};
    history_add(history, version, 0, rows);
}

const struct state *history_newest(const struct history *history) {
    return &history->states[history->state_count - 1];
}

const struct state *history_state(const struct history *history, int64_t version) {
    for (int i = history->state_count - 1; i >= 0; i--) {
        if (history->states[i].version <= version)
            return &history->states[i];
    }
    return NULL;
}

/* With read-your-writes a later clear takes a versionstamped key back before it is ever sent. */
static bool is_taken_back(const struct txn *txn, int index) {
    for (int i = index + 1; i < txn->mutation_count && !txn->ryw_disabled; i++) {
        const struct mutation *later = &txn->mutations[i];
        if (later->type == MUTATION_CLEAR_RANGE &&
            text_compare(later->key, txn->mutations[index].key) <= 0 &&
            text_compare(txn->mutations[index].key, later->value) < 0)
            return true;
    }
    return false;
}

const char *history_commit(struct history *history, struct txn *txn, const struct call *commit) {
    const struct state *newest = history_newest(history);
    int64_t version = commit->committed_version;
    int order = commit->stamped ? commit->stamp[8] << 8 | commit->stamp[9] : 0;
    if (version < newest->version || (version == newest->version && order <= newest->order))
        return wrong("committed at (%lld, %d), not above (%lld, %d)", (long long)version, order,
                     (long long)newest->version,
                     newest->order);
    if (txn->has_version && version <= txn->version)
        return wrong("committed at %lld, read at %lld", (long long)version,
                     (long long)txn->version);
    struct commit record = {version, order, commit->started, commit->ended, txn->writes};
    for (int i = 0; i < txn->mutation_count; i++) {
        bool is_stamped = txn->mutations[i].type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY;
        if (!is_stamped || is_taken_back(txn, i))
            continue;
        struct text key = stamped(history->arena, txn->mutations[i].key, commit->stamp);
        ranges_add(history->arena, &record.writes, key, text_after(history->arena, key), true);
    }
    history->commits = arena_grow(history->arena, history->commits, history->commit_count,
                                  &history->commit_capacity,
                                  sizeof *history->commits);
    history->commits[history->commit_count++] = record;
    history_add(history, version, order, rows_with(history->arena, newest->rows, txn,
                                                   commit->stamp));
    return NULL;
}

const struct commit *history_find_conflict(const struct history *history, const struct txn *txn,
                                           const struct conflict_search *search) {
    for (int i = history->commit_count - 1; i >= 0; i--) {
        const struct commit *commit = &history->commits[i];
        if (commit->version <= search->after)
            break;
        if (commit->version > search->version || (commit->version == search->version &&
                                                  commit->order >= search->order))
            continue;
        if (commit->started >= search->started_max)
            continue;
        for (int read = 0; read < txn->reads.count; read++) {
            const struct range *range = &txn->reads.array[read];
            for (int write = 0; write < commit->writes.count && (range->required ||
                                                                 !search->required); write++) {
                if (overlap(range->begin, range->end, &commit->writes.array[write]))
                    return commit;
            }
        }
    }
    return NULL;
}

/* --- What a transaction has written --- */

enum status { UNMODIFIED, DEPENDENT, INDEPENDENT };

static bool is_stamped_key(const struct mutation *mutation) {
    return mutation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY;
}

/* The keys a versionstamped key may become: all stamps from `lowest` on. */
static void stamp_bounds(struct arena *arena, struct text key, int64_t lowest, struct text *begin,
                         struct text *end) {
    uint8_t stamp[10] = {0};
    for (int i = 0; i < 8; i++)
        stamp[i] = (uint8_t)((uint64_t)lowest >> (56 - 8 * i));
    *begin = stamped(arena, key, stamp);
    memset(stamp, 0xff, sizeof stamp);
    *end = text_after(arena, stamped(arena, key, stamp));
}

/* How the transaction's own writes stand to a key, the last write deciding. */
static enum status status_of(struct arena *arena, const struct txn *txn, struct text key) {
    enum status status = UNMODIFIED;
    for (int i = 0; i < txn->mutation_count; i++) {
        const struct mutation *mutation = &txn->mutations[i];
        if (mutation->type == MUTATION_CLEAR_RANGE) {
            if (text_compare(mutation->key, key) <= 0 && text_compare(key, mutation->value) < 0)
                status = INDEPENDENT;
        } else if (is_stamped_key(mutation)) {
            struct text begin, end;
            stamp_bounds(arena, mutation->key, 0, &begin, &end);
            if (text_compare(begin, key) <= 0 && text_compare(key, end) < 0)
                status = UNMODIFIED;
        } else if (text_equal(mutation->key, key)) {
            bool writes_anyway = mutation->type == MUTATION_SET ||
                mutation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE;
            if (writes_anyway)
                status = INDEPENDENT;
            else if (status == UNMODIFIED)
                status = DEPENDENT;
        }
    }
    return status;
}

static int text_order(const void *a, const void *b) {
    return text_compare(*(const struct text *)a, *(const struct text *)b);
}

/* Adds the parts of a range that the transaction has not written itself. */
static void add_read(struct arena *arena, struct txn *txn, struct text begin, struct text end,
                     bool required) {
    if (text_compare(begin, end) >= 0)
        return;
    if (txn->ryw_disabled) {
        ranges_add(arena, &txn->reads, begin, end, required);
        return;
    }
    struct text *cuts = arena_take(arena, (size_t)(2 * txn->mutation_count + 2) * sizeof *cuts);
    int count = 0;
    cuts[count++] = begin;
    for (int i = 0; i < txn->mutation_count; i++) {
        const struct mutation *mutation = &txn->mutations[i];
        struct text first = mutation->key, last;
        if (mutation->type == MUTATION_CLEAR_RANGE)
            last = mutation->value;
        else if (is_stamped_key(mutation))
            stamp_bounds(arena, mutation->key, 0, &first, &last);
        else
            last = text_after(arena, mutation->key);
        cuts[count++] = text_max(begin, text_min(end, first));
        cuts[count++] = text_max(begin, text_min(end, last));
    }
    cuts[count++] = end;
    qsort(cuts, (size_t)count, sizeof *cuts, text_order);
    for (int i = 0; i + 1 < count; i++) {
        if (text_compare(cuts[i], cuts[i + 1]) < 0 && status_of(arena, txn, cuts[i]) != INDEPENDENT)
            ranges_add(arena, &txn->reads, cuts[i], cuts[i + 1], required);
    }
}

/* --- Unreadable keys --- */

static void unreadable_clear(struct arena *arena, struct txn *txn, struct text begin,
                             struct text end) {
    struct ranges old = txn->unreadable;
    txn->unreadable = (struct ranges){0};
    for (int i = 0; i < old.count; i++) {
        ranges_add(arena, &txn->unreadable, old.array[i].begin, text_min(old.array[i].end, begin),
                   old.array[i].required);
        ranges_add(arena, &txn->unreadable, text_max(old.array[i].begin, end), old.array[i].end,
                   old.array[i].required);
    }
}

static void unreadable_note(struct arena *arena, struct txn *txn, const struct mutation *mutation) {
    struct text begin, end;
    if (is_stamped_key(mutation)) {
        /* stamps are above the read version, if it is known; how early that is used is not fixed */
        stamp_bounds(arena, mutation->key, 0, &begin, &end);
        ranges_add(arena, &txn->unreadable, begin, end, false);
        stamp_bounds(arena, mutation->key, txn->has_version ? txn->version + 1 : 0, &begin, &end);
        ranges_add(arena, &txn->unreadable, begin, end, true);
    } else if (mutation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE) {
        ranges_add(arena, &txn->unreadable, mutation->key, text_after(arena, mutation->key), true);
    } else if (mutation->type == MUTATION_CLEAR_RANGE) {
        unreadable_clear(arena, txn, mutation->key, mutation->value);
    }
}

/* Whether an unreadable key lies in the range; `surely`: without doubt. */
static bool touches_unreadable(const struct txn *txn, struct text begin, struct text end,
                               bool surely) {
    for (int i = 0; i < txn->unreadable.count; i++) {
        if ((txn->unreadable.array[i].required || !surely) && overlap(begin, end,
                                                                      &txn->unreadable.array[i]))
            return true;
    }
    return false;
}

/* --- Writes --- */

static void note_mutation(struct history *history, struct txn *txn, struct mutation mutation) {
    bool conflicts = !txn->next_write_unconflicted;
    txn->next_write_unconflicted = false;
    if (mutation.type == MUTATION_CLEAR_RANGE && text_compare(mutation.key, mutation.value) >= 0)
        return;
    txn->mutations = arena_grow(history->arena, txn->mutations, txn->mutation_count,
                                &txn->mutation_capacity,
                                sizeof *txn->mutations);
    txn->mutations[txn->mutation_count++] = mutation;
    if (!txn->ryw_disabled)
        unreadable_note(history->arena, txn, &mutation);
    if (conflicts && !is_stamped_key(&mutation)) {
        bool range = mutation.type == MUTATION_CLEAR_RANGE;
        ranges_add(history->arena, &txn->writes, mutation.key, range ? mutation.value
                   : text_after(history->arena, mutation.key),
                   true);
    }
}

static void note_option(struct txn *txn, int option) {
    switch (option) {
    case FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE:
        txn->next_write_unconflicted = true;
        break;
    case FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE: txn->ryw_disabled = true; break;
    case FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE: txn->snapshot_ryw++; break;
    case FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE: txn->snapshot_ryw--; break;
    default: die("an unknown option", 0);
    }
}

void txn_reset(struct txn *txn) {
    *txn = (struct txn){.snapshot_ryw = 1};
}

void txn_note(struct history *history, struct txn *txn, const struct call *call) {
    switch (call->kind) {
    case CALL_SET:
        note_mutation(history, txn, (struct mutation){MUTATION_SET, call->key, call->value});
        break;
    case CALL_CLEAR:
        note_mutation(history, txn, (struct mutation){MUTATION_CLEAR_RANGE, call->key,
                                                      text_after(history->arena, call->key)});
        break;
    case CALL_CLEAR_RANGE:
        note_mutation(history, txn, (struct mutation){MUTATION_CLEAR_RANGE, call->key,
                                                      call->value});
        break;
    case CALL_ATOMIC:
        note_mutation(history, txn, (struct mutation){call->type, call->key, call->value});
        break;
    case CALL_OPTION: note_option(txn, call->type); break;
    case CALL_CONFLICT:
        if (call->type == FDB_CONFLICT_RANGE_TYPE_READ)
            add_read(history->arena, txn, call->key, call->value, true);
        else
            ranges_add(history->arena, &txn->writes, call->key, call->value, true);
        break;
    case CALL_SET_READ_VERSION:
        txn->version = call->version;
        txn->has_version = txn->version_was_set = true;
        break;
    default: break;
    }
}

bool txn_is_read_only(const struct txn *txn) {
    return txn->mutation_count == 0 && txn->writes.count == 0;
}

/* --- Reads --- */

/* Whether a read looks at the transaction's own writes. */
static bool sees_writes(const struct txn *txn, bool snapshot) {
    return !txn->ryw_disabled && (!snapshot || txn->snapshot_ryw > 0);
}

static struct rows view(struct history *history, const struct txn *txn, bool snapshot) {
    const struct state *state = history_state(history, txn->version);
    if (!state)
        die("a read version from before the seed", 0);
    return sees_writes(txn, snapshot) ? rows_with(history->arena, state->rows, txn, NULL)
        : state->rows;
}

static const char *check_get(struct history *history, struct txn *txn, const struct call *call) {
    struct text after = text_after(history->arena, call->key);
    if (sees_writes(txn, call->snapshot) && touches_unreadable(txn, call->key, after, true))
        return call->error == ERROR_UNREADABLE ? NULL
            : wrong("error %d, not 1036: the key is unreadable", call->error);
    if (call->error)
        return wrong("error %d", call->error);
    const struct text *value = rows_find(view(history, txn, call->snapshot), call->key);
    if (call->present != (value != NULL))
        return wrong("the key is %s", value ? "there" : "not there");
    if (value && !text_equal(*value, call->result))
        return wrong("another value: of %d bytes, not %d", value->length, call->result.length);
    if (!call->snapshot)
        add_read(history->arena, txn, call->key, after, true);
    return NULL;
}

/* A selector in its plain form: the key at `offset` - 1 from the first at or above `key`. */
struct place {
    struct text key;
    int offset;
    int index;           /* in the view; below 0 or above its count if it is off the edge */
    struct text resolved; /* the key, clamped */
};

static struct place place_of(struct arena *arena, struct rows rows, struct selector selector) {
    struct place place = {selector.or_equal ? text_after(arena, selector.key) : selector.key,
                          selector.offset, 0, {0}};
    place.index = rows_below(rows, place.key) + place.offset - 1;
    if (place.index < 0)
        place.resolved = text_of("");
    else
        place.resolved = place.index < rows.count ? rows.array[place.index].key : text_of("\xff");
    return place;
}

/* The keys that finding a place looks at. */
static void place_path(struct arena *arena, const struct place *place, struct text *begin,
                       struct text *end) {
    *begin = place->offset > 0 ? place->key : place->resolved;
    *end = place->offset > 0 ? text_after(arena, place->resolved) : place->key;
}

static const char *check_get_key(struct history *history, struct txn *txn,
                                 const struct call *call) {
    struct place place = place_of(history->arena, view(history, txn, call->snapshot), call->begin);
    struct text begin, end;
    place_path(history->arena, &place, &begin, &end);
    bool own = sees_writes(txn, call->snapshot);
    if (call->error == ERROR_UNREADABLE && own && touches_unreadable(txn, begin, end, false))
        return NULL;
    if (call->error)
        return wrong("error %d", call->error);
    if (own && touches_unreadable(txn, begin, end, true))
        return wrong("not 1036: the way there is unreadable");
    if (!text_equal(place.resolved, call->result))
        return wrong("another key: number %d of the view", place.index);
    if (!call->snapshot)
        add_read(history->arena, txn, begin, end, true);
    return NULL;
}

/* The byte limit a range read has; INT32_MAX for none. */
static int byte_limit(const struct call *call) {
    static const int modes[] = {INT32_MAX, 256, 1000, 4096, 80000};
    static const int iterations[] = {4096, 6144, 9216, 13824, 20736, 31104, 46656, 69984, 80000,
                                     120000};
    int limit;
    if (call->mode == FDB_STREAMING_MODE_ITERATOR)
        limit = iterations[(call->iteration < 10 ? call->iteration : 10) - 1];
    else
        limit = modes[call->mode == FDB_STREAMING_MODE_WANT_ALL ? FDB_STREAMING_MODE_SERIAL
                      : call->mode];
    return call->target_bytes && call->target_bytes < limit ? call->target_bytes : limit;
}

/* Whether the number of rows fits the limits, given that `available` could have been returned. */
static const char *check_limits(const struct call *call, int available) {
    int count = call->rows.count, limit = call->limit ? call->limit : INT32_MAX,
        bytes_max = byte_limit(call);
    int64_t bytes = 0, bytes_before_last = 0;
    for (int i = 0; i < count; i++) {
        bytes_before_last = bytes;
        bytes += call->rows.array[i].key.length + call->rows.array[i].value.length;
    }
    bool reached = count == limit || (count && bytes + ROW_BYTES * count >= bytes_max);
    if (count > limit || (count && bytes_before_last >= bytes_max))
        return wrong("%d rows are more than the limits allow", count);
    if (call->more && !reached)
        return wrong("more, but no limit is reached by %d rows", count);
    if (!call->more && count < available)
        return wrong("no more, but %d rows of %d", count, available);
    if (call->more && count > available)
        return wrong("more than there is");
    return NULL;
}

/* Everything about a range read that its check needs. */
struct range_read {
    const struct call *call;
    struct rows view;
    struct place begin, end;
    int first, last; /* the rows it selects, [first, last) */
    bool low, high;  /* the begin, the end selector ran off the edge */
};

static int clamp(int index, int count) {
    return index < 0 ? 0 : index > count ? count : index;
}

static const char *check_rows(const struct range_read *read) {
    const struct call *call = read->call;
    int available = read->last - read->first;
    for (int i = 0; i < call->rows.count; i++) {
        if (i >= available)
            return wrong("%d rows, but there are %d", call->rows.count, available);
        const struct row *row = &read->view.array[call->reverse ? read->last - 1 - i
                                                  : read->first + i];
        if (!text_equal(row->key, call->rows.array[i].key))
            return wrong("another key in row %d", i);
        if (!text_equal(row->value, call->rows.array[i].value))
            return wrong("another value in row %d", i);
    }
    return check_limits(call, available);
}

/*
 * What the rules of read-your-writes add for a range; with `clamped`, selectors that ran off the
 * edge count.
 */
static void ryw_range(struct arena *arena, const struct range_read *read, bool clamped,
                      struct text *begin, struct text *end) {
    const struct call *call = read->call;
    bool more = call->more, forward = !call->reverse;
    int count = call->rows.count;
    if (text_compare(read->begin.key, read->end.key) < 0) {
        *begin = !forward && read->begin.offset <= 1 && more ? read->end.key : read->begin.key;
        *end = forward && read->end.offset > 0 && more ? read->begin.key : read->end.key;
    } else {
        *begin = read->end.key;
        *end = read->begin.key;
    }
    if (clamped && read->low && read->begin.offset <= 0 && (forward || !more))
        *begin = text_of("");
    if (clamped && read->high && read->end.offset > 0 && (!forward || !more))
        *end = text_of("\xff");
    if (!count)
        return;
    struct text lowest = call->rows.array[forward ? 0 : count - 1].key;
    struct text highest = call->rows.array[forward ? count - 1 : 0].key;
    if (!forward || read->begin.offset <= 0)
        *begin = text_min(*begin, lowest);
    if ((forward || read->end.offset > 0) && text_compare(*end, highest) <= 0)
        *end = text_after(arena, highest);
}

/* Likewise with read-your-writes disabled. */
static void plain_range(struct arena *arena, const struct range_read *read, bool clamped,
                        struct text *begin, struct text *end) {
    const struct call *call = read->call;
    bool more = call->more, forward = !call->reverse;
    int count = call->rows.count, begin_offset = read->begin.offset, end_offset = read->end.offset;
    if (clamped && read->low && (forward || !more))
        *begin = text_of("");
    else if (((forward || !more || begin_offset > 1) && begin_offset > 0) || !count)
        *begin = read->begin.key;
    else
        *begin = call->rows.array[forward ? 0 : count - 1].key;
    if (end_offset > begin_offset)
        *begin = text_min(*begin, read->end.key);
    if (clamped && read->high && (!forward || !more))
        *end = text_of("\xff");
    else if (((!forward || !more || end_offset <= 0) && end_offset <= 1) || !count)
        *end = read->end.key;
    else
        *end = text_after(arena, call->rows.array[forward ? count - 1 : 0].key);
    if (begin_offset < end_offset)
        *end = text_max(*end, read->begin.key);
}

static void add_range_read(struct arena *arena, struct txn *txn, const struct range_read *read) {
    struct text begin, end, wide_begin, wide_end;
    bool rows = read->call->rows.count > 0;
    ryw_range(arena, read, rows, &begin, &end);
    ryw_range(arena, read, true, &wide_begin, &wide_end);
    if (txn->ryw_disabled) {
        for (int clamped = 0; clamped < 2; clamped++) {
            struct text plain_begin, plain_end;
            plain_range(arena, read, clamped, &plain_begin, &plain_end);
            begin = text_max(begin, plain_begin);
            end = text_min(end, plain_end);
            wide_begin = text_min(wide_begin, plain_begin);
            wide_end = text_max(wide_end, plain_end);
        }
        if (read->call->reverse && read->end.offset > 1) {
            wide_begin = text_min(wide_begin, text_min(read->end.key, read->end.resolved));
            wide_end = text_max(wide_end, text_after(arena, read->end.resolved));
        }
    }
    add_read(arena, txn, begin, end, true);
    add_read(arena, txn, wide_begin, wide_end, false);
}

/* Where a range read begins or ends. A plain boundary needs no looking for the next key. */
static struct text edge(const struct place *place) {
    return place->offset == 1 ? place->key : place->resolved;
}

/* All that a range read may look at. */
static void reach(struct arena *arena, const struct range_read *read, struct text *begin,
                  struct text *end) {
    *begin = text_min(edge(&read->begin), edge(&read->end));
    *end = text_max(edge(&read->begin), edge(&read->end));
    const struct place *places[] = {&read->begin, &read->end};
    for (int i = 0; i < 2; i++) {
        struct text from, to;
        if (places[i]->offset == 1)
            continue;
        place_path(arena, places[i], &from, &to);
        *begin = text_min(*begin, from);
        *end = text_max(*end, to);
    }
}

/*
 * A range read that succeeded cannot have come across an unreadable key: between its rows, or from the outermost to a plain boundary that was
 * reached. Where another selector leads it need not have found out.
 */
static bool crossed_unreadable(const struct txn *txn, const struct range_read *read) {
    const struct call *call = read->call;
    int count = call->rows.count;
    bool plain_begin = read->begin.offset == 1 && !(call->more && call->reverse);
    bool plain_end = read->end.offset == 1 && !(call->more && !call->reverse);
    if (!count && !(plain_begin && plain_end))
        return false;
    struct text begin = plain_begin ? read->begin.key : call->rows.array[call->reverse ? count - 1 : 0].key;
    struct text end = plain_end ? read->end.key : call->rows.array[call->reverse ? 0 : count - 1].key;
    return touches_unreadable(txn, begin, end, true);
}

static const char *check_get_range(struct history *history, struct txn *txn,
                                   const struct call *call) {
    struct arena *arena = history->arena;
    struct range_read read = {.call = call, .view = view(history, txn, call->snapshot)};
    read.begin = place_of(arena, read.view, call->begin);
    read.end = place_of(arena, read.view, call->end);
    bool inverted = read.begin.offset >= read.end.offset && text_compare(read.begin.key,
                                                                         read.end.key) >= 0;
    read.first = clamp(read.begin.index, read.view.count);
    read.last = clamp(read.end.index, read.view.count);
    if (inverted || read.last < read.first)
        read.last = read.first;
    read.low = read.begin.index < 0;
    read.high = read.end.index > read.view.count;
    if (sees_writes(txn, call->snapshot) && txn->unreadable.count && !inverted) {
        struct text begin, end;
        reach(arena, &read, &begin, &end);
        if (call->error == ERROR_UNREADABLE && touches_unreadable(txn, begin, end, false))
            return NULL;
        if (!call->error && crossed_unreadable(txn, &read))
            return wrong("not 1036: the range holds unreadable keys");
    }
    if (call->error)
        return wrong("error %d", call->error);
    const char *finding = check_rows(&read);
    if (!finding && !call->snapshot && !inverted)
        add_range_read(arena, txn, &read);
    return finding;
}

static const char *check_commit_form(const struct txn *txn, const struct call *call) {
    if (txn->read_error)
        return call->error == txn->read_error ? NULL : wrong("error %d, not %d as its read", call->error, txn->read_error);
    if (call->error)
        return call->error == 1020 && !txn_is_read_only(txn) ? NULL : wrong("error %d",
                                                                            call->error);
    if (txn_is_read_only(txn))
        return call->committed_version == -1 ? NULL
            : wrong("a read-only transaction has version %lld",
                                                            (long long)call->committed_version);
    uint64_t version = 0;
    for (int i = 0; i < 8; i++)
        version = version << 8 | call->stamp[i];
    if (call->stamped && version != (uint64_t)call->committed_version)
        return wrong("committed at %lld, stamped %lld", (long long)call->committed_version,
                     (long long)version);
    return NULL;
}

const char *txn_check(struct history *history, struct txn *txn, const struct call *call) {
    bool reads = call->kind >= CALL_READ_VERSION && call->kind <= CALL_GET_RANGE;
    if (reads && txn->has_version && txn->version != call->read_version)
        return wrong("the read version changed from %lld to %lld", (long long)txn->version,
                     (long long)call->read_version);
    if (reads && !txn->has_version) {
        txn->has_version = true;
        txn->version = call->read_version;
    }
    if (reads && call->kind != CALL_READ_VERSION && call->error && !txn->read_error)
        txn->read_error = call->error;
    switch (call->kind) {
    case CALL_GET: return check_get(history, txn, call);
    case CALL_GET_KEY: return check_get_key(history, txn, call);
    case CALL_GET_RANGE: return check_get_range(history, txn, call);
    case CALL_COMMIT: return check_commit_form(txn, call);
    default: txn_note(history, txn, call); return call->error ? wrong("error %d", call->error)
        : NULL;
    }
}
