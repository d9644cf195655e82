/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recipes' rules, held against their rows: one function a recipe, each a scan over the structure's keys at the snapshot, and where two rows must agree a
 * get of the other one. The rules are those of the headers in include/keel; nothing of the recipes' code is used, so a mistake there does not hide
 * itself here.
 *
 * Memory: a few rows, but for task queues, of which all ids are held (16 bytes each, twice), and documents, of which one path is.
 */
#include "layer_check.h"

#include <stdlib.h>

#include "util/checksum.h"
#include "util/coding.h"

enum { ELEMENTS_MAX = 1100, RANDOM_BYTES = 20, TASK_ID_BYTES = 16, COUNT_BYTES = 8 };

/* ---- Walking ---- */

/* A row, with its key behind the prefix taken apart. */
struct parsed {
    struct row row;
    keel_element elements[ELEMENTS_MAX];
    size_t count;
    bool is_own_key; /* the key is the prefix itself */
};

struct walker {
    struct structure *structure;
    fdb_error_t (*visit)(struct walker *walker, struct parsed *parsed);
    void *context;
    struct buffer value; /* for look-ups */
};

/* All rows below prefix + tuple; a key that is no tuple is damage and not visited. */
static fdb_error_t walk(struct walker *walker, keel_bytes prefix, keel_bytes below) {
    struct structure *structure = walker->structure;
    struct parsed *parsed = malloc(sizeof *parsed);
    struct cursor cursor = {.count = 0};
    uint8_t end[10001];
    size_t length;
    bool present = true;
    fdb_error_t error = parsed ? keel_strinc(below, end, sizeof end, &length) : ERROR_LARGE_ALLOC_FAILED;
    if (!error)
        error = cursor_open(structure->snapshot, below, keel_bytes_of(end, length), &cursor);
    while (!error && !(error = cursor_next(&cursor, &parsed->row, &present)) && present) {
        keel_bytes tuple = keel_bytes_of(parsed->row.key.data + prefix.length, parsed->row.key.length - prefix.length);
        structure->rows++;
        parsed->is_own_key = tuple.length == 0;
        if (keel_tuple_unpack(tuple, parsed->elements, ELEMENTS_MAX, &parsed->count, NULL))
            find_damage(structure->findings, structure->path, "a key is not a tuple: %s", shown(parsed->row.key));
        else
            error = walker->visit(walker, parsed);
    }
    cursor_close(&cursor);
    free(parsed);
    return error;
}

static fdb_error_t walk_all(struct structure *structure, fdb_error_t (*visit)(struct walker *, struct parsed *), void *context) {
    struct walker walker = {.structure = structure, .visit = visit, .context = context};
    fdb_error_t error = walk(&walker, structure->prefix, structure->prefix);
    buffer_free(&walker.value);
    return error;
}

/* The rows of one part of it: (name, …). */
static fdb_error_t walk_part(struct structure *structure, const char *name, fdb_error_t (*visit)(struct walker *, struct parsed *), void *context) {
    struct walker walker = {.structure = structure, .visit = visit, .context = context};
    uint8_t below[10000];
    size_t length;
    fdb_error_t error = keel_tuple_pack_prefix(structure->prefix, KEEL_TUPLE(name), below, sizeof below, &length);
    if (!error)
        error = walk(&walker, structure->prefix, keel_bytes_of(below, length));
    buffer_free(&walker.value);
    return error;
}

/* The value of prefix + tuple, into walker->value. */
static fdb_error_t look_up(struct walker *walker, keel_bytes prefix, keel_tuple tuple, bool *present) {
    uint8_t key[30000];
    size_t length;
    fdb_error_t error = keel_tuple_pack_prefix(prefix, tuple, key, sizeof key, &length);
    return error ? error : snapshot_get(walker->structure->snapshot, keel_bytes_of(key, length), &walker->value, present);
}

static keel_bytes value_of(const struct walker *walker) { return keel_bytes_of(walker->value.data, walker->value.length); }

static fdb_error_t wrong(struct walker *walker, const struct parsed *parsed, const char *what) {
    find_damage(walker->structure->findings, walker->structure->path, "%s: %s", shown(parsed->row.key), what);
    return 0;
}

static bool is_int(const keel_element *element, int64_t min) {
    int64_t value;
    return !keel_element_int(element, &value) && value >= min;
}

static bool is_bytes(const keel_element *element, size_t length) {
    uint8_t copy[64];
    size_t copied;
    return element->type == KEEL_TYPE_BYTES && !keel_element_copy(element, copy, sizeof copy, &copied) && copied == length;
}

static bool is_text(const keel_element *element, const char *text) {
    return element->type == KEEL_TYPE_STRING && !element->escaped && keel_bytes_compare(element->value.as_bytes, keel_bytes_of_string(text)) == 0;
}

static bool equal(keel_bytes a, keel_bytes b) { return keel_bytes_compare(a, b) == 0; }

/* ---- Queues ---- */

static fdb_error_t visit_queue(struct walker *walker, struct parsed *parsed) {
    const keel_element *elements = parsed->elements;
    bool good = parsed->count == 2 && is_int(&elements[0], 0) && is_bytes(&elements[1], RANDOM_BYTES);
    return good ? 0 : wrong(walker, parsed, "is not (index, 20 random bytes), as the keys of a queue are");
}
static fdb_error_t check_queue(struct structure *structure) { return walk_all(structure, visit_queue, NULL); }

static fdb_error_t visit_pqueue(struct walker *walker, struct parsed *parsed) {
    const keel_element *elements = parsed->elements;
    bool good = parsed->count == 3 && is_int(&elements[1], 0) && is_bytes(&elements[2], RANDOM_BYTES);
    return good ? 0 : wrong(walker, parsed, "is not (priority, count, 20 random bytes), as the keys of a priority queue are");
}
static fdb_error_t check_pqueue(struct structure *structure) { return walk_all(structure, visit_pqueue, NULL); }

/* ---- Blobs, vectors, counters, multimaps ---- */

struct blob_walk {
    int64_t end; /* of the chunk before */
    bool empty_seen;
};

static fdb_error_t visit_blob(struct walker *walker, struct parsed *parsed) {
    struct blob_walk *blob = walker->context;
    int64_t offset;
    if (parsed->count != 1 || keel_element_int(&parsed->elements[0], &offset) || offset < 0)
        return wrong(walker, parsed, "is not (offset), as the keys of a blob are");
    if (offset < blob->end)
        wrong(walker, parsed, "the chunk begins before the one in front of it ends");
    if (blob->empty_seen)
        wrong(walker, parsed, "lies behind an empty chunk, which marks the end of a blob");
    blob->empty_seen = parsed->row.value.length == 0;
    blob->end = offset + (int64_t)parsed->row.value.length;
    return 0;
}
static fdb_error_t check_blob(struct structure *structure) { return walk_all(structure, visit_blob, &(struct blob_walk){0}); }

static fdb_error_t visit_vector(struct walker *walker, struct parsed *parsed) {
    size_t *dimensions = walker->context;
    bool good = parsed->count > 0;
    for (size_t i = 0; i < parsed->count; i++)
        good = good && is_int(&parsed->elements[i], 0);
    if (!good)
        return wrong(walker, parsed, "is not (index, …), as the keys of a vector are");
    if (*dimensions && *dimensions != parsed->count)
        wrong(walker, parsed, "has another number of indexes than the key before it");
    *dimensions = parsed->count;
    return 0;
}
static fdb_error_t check_vector(struct structure *structure) { return walk_all(structure, visit_vector, &(size_t){0}); }

static fdb_error_t visit_counter(struct walker *walker, struct parsed *parsed) {
    bool good = parsed->is_own_key || (parsed->count == 1 && is_int(&parsed->elements[0], 0));
    if (!good)
        return wrong(walker, parsed, "is neither the counter's own key nor (shard)");
    return parsed->row.value.length == COUNT_BYTES ? 0 : wrong(walker, parsed, "the value has not 8 bytes, so it is no count");
}
static fdb_error_t check_counter(struct structure *structure) { return walk_all(structure, visit_counter, NULL); }

static fdb_error_t visit_multimap(struct walker *walker, struct parsed *parsed) {
    size_t length = parsed->row.value.length;
    if (parsed->count != 2)
        return wrong(walker, parsed, "is not (key, value), as the keys of a multimap are");
    if (length != 0 && length != COUNT_BYTES)
        return wrong(walker, parsed, "the value is neither empty nor a count of 8 bytes");
    bool counted = length == COUNT_BYTES && (int64_t)coding_get_u64(parsed->row.value.data) <= 0;
    return counted ? wrong(walker, parsed, "the count is not positive, so the entry should not be there") : 0;
}
static fdb_error_t check_multimap(struct structure *structure) { return walk_all(structure, visit_multimap, NULL); }

/* ---- Two orders: tables, spatial indexes, relations ---- */

/* The same two elements the other way round under another name, with the same value. */
static fdb_error_t check_mirror(struct walker *walker, struct parsed *parsed, const char *name) {
    bool present;
    fdb_error_t error = look_up(walker, walker->structure->prefix, KEEL_TUPLE(name, parsed->elements[2], parsed->elements[1]), &present);
    if (error)
        return error;
    if (!present)
        return wrong(walker, parsed, "is missing in the other order");
    return equal(value_of(walker), parsed->row.value) ? 0 : wrong(walker, parsed, "has another value in the other order");
}

static fdb_error_t visit_table(struct walker *walker, struct parsed *parsed) {
    if (parsed->count == 2)
        return 0; /* by rows alone */
    if (parsed->count == 3 && is_text(&parsed->elements[0], "R"))
        return check_mirror(walker, parsed, "C");
    if (parsed->count == 3 && is_text(&parsed->elements[0], "C"))
        return check_mirror(walker, parsed, "R");
    return wrong(walker, parsed, "is neither (row, column) nor (\"R\", row, column) nor (\"C\", column, row)");
}
static fdb_error_t check_table(struct structure *structure) { return walk_all(structure, visit_table, NULL); }

static fdb_error_t visit_spatial(struct walker *walker, struct parsed *parsed) {
    struct buffer *last = walker->context; /* ("L", label) of the row before, packed */
    const keel_element *elements = parsed->elements;
    bool by_label = parsed->count == 3 && is_text(&elements[0], "L"), by_place = parsed->count == 3 && is_text(&elements[0], "Z");
    uint64_t place;
    if (parsed->row.value.length || !(by_label || by_place) || keel_element_uint(&elements[by_label ? 2 : 1], &place))
        return wrong(walker, parsed, "is neither (\"L\", label, z) nor (\"Z\", z, label) without a value");
    if (by_place)
        return check_mirror(walker, parsed, "L");
    uint8_t packed[10000];
    size_t length;
    fdb_error_t error = keel_tuple_pack(keel_tuple_of(elements, 2), packed, sizeof packed, &length);
    if (error)
        return error;
    if (last->length && equal(keel_bytes_of(last->data, last->length), keel_bytes_of(packed, length)))
        wrong(walker, parsed, "the label is at a second place");
    last->length = 0;
    if (!buffer_append(last, packed, length))
        return ERROR_LARGE_ALLOC_FAILED;
    return check_mirror(walker, parsed, "Z");
}

static fdb_error_t check_spatial(struct structure *structure) {
    struct buffer last = {0};
    fdb_error_t error = walk_all(structure, visit_spatial, &last);
    buffer_free(&last);
    return error;
}

/* (relationship, a, b) of one side is (relationship, b, a) of the other; `context` is the other's prefix. */
static fdb_error_t visit_relation(struct walker *walker, struct parsed *parsed) {
    const keel_bytes *other = walker->context;
    const keel_element *elements = parsed->elements;
    if (parsed->count == 2)
        return 0; /* (entity, attribute) */
    if (parsed->count != 3 || elements[0].type != KEEL_TYPE_STRING)
        return wrong(walker, parsed, "is neither (entity, attribute) nor (relationship, entity, entity)");
    bool present;
    fdb_error_t error = look_up(walker, *other, KEEL_TUPLE(elements[0], elements[2], elements[1]), &present);
    if (!error && !present)
        wrong(walker, parsed, "the relationship is missing in the other direction");
    return error;
}

static fdb_error_t check_relation(struct structure *structure) {
    fdb_error_t error = walk_all(structure, visit_relation, &structure->other);
    struct structure reverse = *structure;
    reverse.prefix = structure->other;
    keel_bytes forward = structure->prefix;
    if (!error)
        error = walk_all(&reverse, visit_relation, &forward);
    structure->rows = reverse.rows;
    return error;
}

/* ---- Indexes ---- */

/* Whether there is (id) or (id, …) among the records; its value if it is (id). */
static fdb_error_t find_record(struct walker *walker, keel_element id, bool *present, bool *plain) {
    keel_bytes records = walker->structure->other;
    fdb_error_t error = look_up(walker, records, KEEL_TUPLE(id), present);
    *plain = *present;
    if (error || *present)
        return error;
    uint8_t begin[10000], end[10000];
    size_t length;
    struct cursor cursor;
    struct row row;
    error = keel_tuple_range_prefix(records, KEEL_TUPLE(id), begin, end, sizeof begin, &length);
    if (error)
        return error;
    error = cursor_open(walker->structure->snapshot, keel_bytes_of(begin, length), keel_bytes_of(end, length), &cursor);
    if (!error)
        error = cursor_next(&cursor, &row, present);
    cursor_close(&cursor);
    return error;
}

static fdb_error_t visit_index(struct walker *walker, struct parsed *parsed) {
    bool present = false, plain = false;
    keel_bytes value = parsed->row.value;
    if (parsed->count == 0)
        return wrong(walker, parsed, "is not (values…, id), as the entries of an index are");
    fdb_error_t error = find_record(walker, parsed->elements[parsed->count - 1], &present, &plain);
    if (error || (present && value.length == 0))
        return error;
    if (present)
        return !plain || equal(value, value_of(walker)) ? 0 : wrong(walker, parsed, "the entry holds another value than the record");
    if (value.length) { /* a unique index with the id as its value */
        error = find_record(walker, keel_element_of_text((const char *)value.data, value.length), &present, &plain);
        if (error == KEEL_ERROR_NOT_UTF8)
            error = 0;
        if (!error && !present)
            error = find_record(walker, keel_element_of_bytes(value), &present, &plain);
    }
    return error || present ? error : wrong(walker, parsed, "the entry leads to a record that is not there");
}
static fdb_error_t check_index(struct structure *structure) { return walk_all(structure, visit_index, NULL); }

/* ---- Documents ---- */

/* The path of the row before, and what is known of the containers on it. */
struct document_walk {
    struct buffer last; /* key behind the prefix */
};

static bool is_scalar(keel_bytes value) {
    keel_tuple_iterator at = keel_tuple_iterate(value);
    keel_element leaf;
    if (keel_tuple_next(&at, &leaf) || !keel_tuple_at_end(&at))
        return false;
    return leaf.type != KEEL_TYPE_NESTED && leaf.type != KEEL_TYPE_UUID && leaf.type != KEEL_TYPE_VERSIONSTAMP && leaf.type != KEEL_TYPE_BIG_INT;
}

/* What stands at one level of a path: a member's name, an index, -1 or -2 for an empty array or object. */
static const char *judge_step(const keel_element *step) {
    if (step->type == KEEL_TYPE_STRING)
        return keel_element_is_utf8(step) ? NULL : "has a name that is not UTF-8";
    return is_int(step, -2) ? NULL : "has a step that is neither a name nor an index";
}

/* The first steps that differ, of neighbours in one container. */
static const char *judge_neighbours(const keel_element *before, const keel_element *step) {
    int64_t a, b;
    bool before_is_index = !keel_element_int(before, &a), is_index = !keel_element_int(step, &b);
    if (before_is_index != is_index)
        return "is a name beside indexes, or an index beside names";
    if (is_index && a < 0)
        return "stands beside the mark of an empty object or array";
    return is_index && b != a + 1 ? "leaves a gap in an array" : NULL;
}

static fdb_error_t visit_document(struct walker *walker, struct parsed *parsed) {
    struct document_walk *document = walker->context;
    keel_element *before = malloc(ELEMENTS_MAX * sizeof *before);
    size_t count = 0, shared = 0;
    if (!before)
        return ERROR_LARGE_ALLOC_FAILED;
    (void)keel_tuple_unpack(keel_bytes_of(document->last.data, document->last.length), before, ELEMENTS_MAX, &count, NULL);
    while (shared < count && shared < parsed->count && keel_element_compare(&before[shared], &parsed->elements[shared]) == 0)
        shared++;
    const char *problem = parsed->count == 0 ? "is not (id, step…), as the keys of documents are" : NULL;
    for (size_t i = 1; i < parsed->count && !problem; i++) {
        int64_t index;
        problem = judge_step(&parsed->elements[i]);
        bool is_index = !problem && !keel_element_int(&parsed->elements[i], &index);
        if (is_index && i > shared && index > 0)
            problem = "leaves a gap at the beginning of an array";
        if (is_index && index < 0 && i + 1 < parsed->count)
            problem = "lies inside the mark of an empty object or array";
    }
    if (!problem && shared > 0 && shared < parsed->count)
        problem = shared == count ? "lies inside of a value" : judge_neighbours(&before[shared], &parsed->elements[shared]);
    if (!problem && !is_scalar(parsed->row.value))
        problem = "the value is not a tuple of one JSON scalar";
    free(before);
    document->last.length = 0;
    size_t prefix = walker->structure->prefix.length;
    if (!buffer_append(&document->last, parsed->row.key.data + prefix, parsed->row.key.length - prefix))
        return ERROR_LARGE_ALLOC_FAILED;
    return problem ? wrong(walker, parsed, problem) : 0;
}

static fdb_error_t check_document(struct structure *structure) {
    struct document_walk document = {0};
    fdb_error_t error = walk_all(structure, visit_document, &document);
    buffer_free(&document.last);
    return error;
}

/* ---- Task queues ---- */

struct tasks {
    struct buffer payloads, places; /* ids, TASK_ID_BYTES each */
};

static bool take_id(const keel_element *element, struct buffer *ids) {
    uint8_t id[TASK_ID_BYTES];
    size_t length;
    return element->type == KEEL_TYPE_BYTES && !keel_element_copy(element, id, sizeof id, &length) && length == sizeof id && buffer_append(ids, id, sizeof id);
}

/* Whether a value is a tuple of so many integers, the first of them perhaps a boolean, and then anything. */
static bool is_numbers(keel_bytes value, bool flag, int numbers, bool *leading, int64_t *last) {
    keel_tuple_iterator at = keel_tuple_iterate(value);
    if (flag && keel_tuple_next_bool(&at, leading))
        return false;
    for (int i = 0; i < numbers; i++) {
        if (keel_tuple_next_int(&at, last))
            return false;
    }
    return true;
}

static fdb_error_t visit_ready(struct walker *walker, struct parsed *parsed) {
    struct tasks *tasks = walker->context;
    const keel_element *elements = parsed->elements;
    int64_t claim;
    bool good = parsed->count == 4 && is_int(&elements[1], INT64_MIN) && is_int(&elements[2], 0) && is_numbers(parsed->row.value, false, 3, NULL, &claim) &&
                take_id(&elements[3], &tasks->places);
    return good ? 0 : wrong(walker, parsed, "is not (\"ready\", priority, due, id) = (attempts, most, claim)");
}

static fdb_error_t visit_timer(struct walker *walker, struct parsed *parsed) {
    struct tasks *tasks = walker->context;
    const keel_element *elements = parsed->elements;
    int64_t claim, when, lease[2];
    bool leased, present;
    if (parsed->count != 3 || keel_element_int(&elements[1], &when) || !is_numbers(parsed->row.value, true, 4, &leased, &claim) ||
        !take_id(&elements[2], &tasks->places))
        return wrong(walker, parsed, "is not (\"timer\", when, id) = (leased, priority, attempts, most, claim)");
    fdb_error_t error = look_up(walker, walker->structure->prefix, KEEL_TUPLE("lease", elements[2]), &present);
    if (error)
        return error;
    if (leased != present)
        return wrong(walker, parsed, leased ? "the timer of a lease that is not there" : "a delayed task with a lease");
    keel_tuple_iterator at = keel_tuple_iterate(value_of(walker));
    if (leased && (keel_tuple_next_int(&at, &lease[0]) || keel_tuple_next_int(&at, &lease[1]) || lease[0] != when || lease[1] != claim))
        wrong(walker, parsed, "the lease has another end or another claim");
    return 0;
}

static fdb_error_t visit_lease(struct walker *walker, struct parsed *parsed) {
    int64_t expires;
    bool present;
    keel_tuple_iterator at = keel_tuple_iterate(parsed->row.value);
    if (parsed->count != 2 || !is_bytes(&parsed->elements[1], TASK_ID_BYTES) || keel_tuple_next_int(&at, &expires))
        return wrong(walker, parsed, "is not (\"lease\", id) = (expires, claim)");
    fdb_error_t error = look_up(walker, walker->structure->prefix, KEEL_TUPLE("timer", expires, parsed->elements[1]), &present);
    return error || present ? error : wrong(walker, parsed, "a lease without the timer that ends it");
}

static fdb_error_t visit_dead(struct walker *walker, struct parsed *parsed) {
    struct tasks *tasks = walker->context;
    int64_t claim;
    bool good = parsed->count == 3 && is_int(&parsed->elements[1], 0) && is_numbers(parsed->row.value, false, 4, NULL, &claim) &&
                take_id(&parsed->elements[2], &tasks->places);
    return good ? 0 : wrong(walker, parsed, "is not (\"dead\", when, id) = (priority, attempts, most, claim, reason)");
}

static fdb_error_t visit_payload(struct walker *walker, struct parsed *parsed) {
    struct tasks *tasks = walker->context;
    bool good = parsed->count == 2 && take_id(&parsed->elements[1], &tasks->payloads);
    return good ? 0 : wrong(walker, parsed, "is not (\"payload\", id)");
}

static fdb_error_t visit_task_row(struct walker *walker, struct parsed *parsed) {
    static const struct {
        const char *name;
        fdb_error_t (*visit)(struct walker *, struct parsed *);
    } parts[] = {{"ready", visit_ready}, {"timer", visit_timer}, {"lease", visit_lease}, {"dead", visit_dead}, {"payload", visit_payload}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parsed->count && is_text(&parsed->elements[0], parts[i].name))
            return parts[i].visit(walker, parsed);
    }
    bool signal = parsed->count == 1 && is_text(&parsed->elements[0], "signal");
    return signal ? 0 : wrong(walker, parsed, "belongs to no part of a task queue");
}

static int compare_ids(const void *a, const void *b) { return memcmp(a, b, TASK_ID_BYTES); }

/* Every payload has one place, every place a payload: two sorted lists that must be the same. */
static void match_ids(struct structure *structure, const struct tasks *tasks) {
    size_t i = 0, j = 0, payloads = tasks->payloads.length / TASK_ID_BYTES, places = tasks->places.length / TASK_ID_BYTES;
    while (i < payloads || j < places) {
        const uint8_t *payload = tasks->payloads.data + i * TASK_ID_BYTES, *place = tasks->places.data + j * TASK_ID_BYTES;
        int order = i == payloads ? 1 : j == places ? -1 : memcmp(payload, place, TASK_ID_BYTES);
        if (order < 0)
            find_damage(structure->findings, structure->path, "the task %s has a payload, but is neither ready nor delayed, leased or dead", shown(keel_bytes_of(payload, TASK_ID_BYTES)));
        else if (order > 0)
            find_damage(structure->findings, structure->path, "the task %s is in a second place, or has no payload", shown(keel_bytes_of(place, TASK_ID_BYTES)));
        i += order <= 0;
        j += order >= 0;
    }
}

static fdb_error_t check_taskqueue(struct structure *structure) {
    struct tasks tasks = {0};
    fdb_error_t error = walk_all(structure, visit_task_row, &tasks);
    if (!error) {
        if (tasks.places.length)
            qsort(tasks.places.data, tasks.places.length / TASK_ID_BYTES, TASK_ID_BYTES, compare_ids);
        match_ids(structure, &tasks);
    }
    buffer_free(&tasks.payloads);
    buffer_free(&tasks.places);
    return error;
}

/* ---- Lists ---- */

struct list_walk {
    uint64_t nodes; /* that have a next */
    bool both_ways;
};

static fdb_error_t visit_list(struct walker *walker, struct parsed *parsed) {
    struct list_walk *list = walker->context;
    const keel_element *elements = parsed->elements;
    bool present;
    fdb_error_t error = 0;
    if (parsed->count != 2 || elements[0].type != KEEL_TYPE_BYTES)
        return wrong(walker, parsed, "is not (id, \"next\"), (id, \"previous\") or (id, \"value\")");
    bool next = is_text(&elements[1], "next"), previous = is_text(&elements[1], "previous");
    if (!next && !previous) {
        error = look_up(walker, walker->structure->prefix, KEEL_TUPLE(elements[0], "next"), &present);
        return error || present ? error : wrong(walker, parsed, "a value of a node that is not in the list");
    }
    list->nodes += next && elements[0].value.as_bytes.length > 0;
    list->both_ways = list->both_ways || previous;
    if (next && !list->both_ways && parsed->row.value.length == 0)
        return 0;
    /* next(x) = y: y has a next; in a list of two ways previous(y) = x, and the other way round. */
    keel_element other = keel_element_of_bytes(parsed->row.value);
    error = look_up(walker, walker->structure->prefix, KEEL_TUPLE(other, previous ? "next" : "previous"), &present);
    uint8_t id[10000];
    size_t length;
    if (error || (error = keel_element_copy(&elements[0], id, sizeof id, &length)))
        return error;
    if (present && !equal(value_of(walker), keel_bytes_of(id, length)))
        return wrong(walker, parsed, "the neighbour it names has another neighbour");
    if (previous && !present)
        return wrong(walker, parsed, "the neighbour it names is not in the list");
    if (next && parsed->row.value.length) {
        error = look_up(walker, walker->structure->prefix, KEEL_TUPLE(other, "next"), &present);
        if (!error && !present)
            wrong(walker, parsed, "the next node is not in the list");
    }
    return error;
}

/* From the head along `next`: as many nodes as there are. */
static fdb_error_t follow_list(struct structure *structure, const struct list_walk *list) {
    struct walker walker = {.structure = structure};
    struct buffer id = {0};
    uint64_t seen = 0;
    bool present = true;
    fdb_error_t error = 0;
    while (!error && seen <= list->nodes) {
        error = look_up(&walker, structure->prefix, KEEL_TUPLE(keel_bytes_of(id.data, id.length), "next"), &present);
        if (error || !present || walker.value.length == 0)
            break;
        id.length = 0;
        if (!buffer_append(&id, walker.value.data, walker.value.length))
            error = ERROR_LARGE_ALLOC_FAILED;
        seen++;
    }
    if (!error && seen != list->nodes)
        find_damage(structure->findings, structure->path, seen > list->nodes ? "the list runs in a ring" : "%llu of %llu nodes cannot be reached from the head",
                    (unsigned long long)(list->nodes - seen), (unsigned long long)list->nodes);
    buffer_free(&id);
    buffer_free(&walker.value);
    return error;
}

static fdb_error_t check_list(struct structure *structure) {
    struct list_walk list = {0};
    fdb_error_t error = walk_all(structure, visit_list, &list);
    return error ? error : follow_list(structure, &list);
}

/* ---- Logs ---- */

struct log_walk {
    bool has_head;
    uint8_t head[KEEL_VERSIONSTAMP_LENGTH];
};

static fdb_error_t visit_log(struct walker *walker, struct parsed *parsed) {
    struct log_walk *log = walker->context;
    if (parsed->is_own_key) {
        keel_tuple_iterator at = keel_tuple_iterate(parsed->row.value);
        log->has_head = keel_tuple_next_versionstamp(&at, log->head) == 0;
        return log->has_head ? 0 : wrong(walker, parsed, "the newest position is not a versionstamp");
    }
    if (parsed->count != 1 || parsed->elements[0].type != KEEL_TYPE_VERSIONSTAMP)
        return wrong(walker, parsed, "is not (versionstamp), as the keys of a log are");
    bool behind = !log->has_head || memcmp(parsed->elements[0].value.as_versionstamp, log->head, KEEL_VERSIONSTAMP_LENGTH) > 0;
    return behind ? wrong(walker, parsed, "the entry lies behind the newest position, where readers do not wake up for it") : 0;
}
static fdb_error_t check_log(struct structure *structure) { return walk_all(structure, visit_log, &(struct log_walk){0}); }

/* ---- Bulk targets ---- */

struct bulk_walk {
    uint64_t active; /* loads in this state */
    struct buffer pointer; /* the value of ("active") */
};

struct bulk_load {
    char state[16];
    struct buffer prefix;
    uint64_t pairs, bytes, sum;
};

/* Reads all rows of a load. */
static fdb_error_t sum_load(struct structure *structure, const struct bulk_load *load, uint64_t *pairs, uint64_t *bytes, uint64_t *sum) {
    struct cursor cursor;
    struct row row;
    uint8_t end[10001];
    size_t length, skip = load->prefix.length;
    bool present = true;
    fdb_error_t error = keel_strinc(keel_bytes_of(load->prefix.data, skip), end, sizeof end, &length);
    if (!error)
        error = cursor_open(structure->snapshot, keel_bytes_of(load->prefix.data, skip), keel_bytes_of(end, length), &cursor);
    if (error)
        return error;
    while (!error && !(error = cursor_next(&cursor, &row, &present)) && present) {
        uint64_t seed = checksum(bytes_make(row.key.data + skip, row.key.length - skip), 0);
        *sum += checksum(bytes_make(row.value.data, row.value.length), seed);
        *bytes += row.key.length - skip + row.value.length;
        ++*pairs;
        structure->rows++;
    }
    cursor_close(&cursor);
    return error;
}

/* (state, owner, begun, changed, prefix) */
static bool parse_load(keel_bytes value, struct bulk_load *load) {
    keel_tuple_iterator at = keel_tuple_iterate(value);
    keel_element element;
    size_t length;
    uint8_t prefix[10000];
    bool good = !keel_tuple_next_string(&at, load->state, sizeof load->state, &length) && !keel_tuple_skip(&at, 3) && !keel_tuple_next(&at, &element) &&
                element.type == KEEL_TYPE_BYTES && !keel_element_copy(&element, prefix, sizeof prefix, &length) && keel_tuple_at_end(&at);
    return good && buffer_append(&load->prefix, prefix, length);
}

/* (rows, pairs, bytes, checksum, …) */
static bool parse_totals(keel_bytes value, struct bulk_load *load) {
    keel_tuple_iterator at = keel_tuple_iterate(value);
    return !keel_tuple_skip(&at, 1) && !keel_tuple_next_uint(&at, &load->pairs) && !keel_tuple_next_uint(&at, &load->bytes) && !keel_tuple_next_uint(&at, &load->sum);
}

static fdb_error_t judge_load(struct walker *walker, struct parsed *parsed, struct bulk_load *load) {
    struct structure *structure = walker->structure;
    bool active = strcmp(load->state, "active") == 0, present;
    bool fixed = active || strcmp(load->state, "ready") == 0 || strcmp(load->state, "validated") == 0 || strcmp(load->state, "replaced") == 0;
    ((struct bulk_walk *)walker->context)->active += active;
    if (!fixed)
        return 0;
    fdb_error_t error = look_up(walker, structure->prefix, KEEL_TUPLE("progress", parsed->elements[1]), &present);
    if (error)
        return error;
    if (!present || !parse_totals(value_of(walker), load))
        return wrong(walker, parsed, "the load has no totals");
    uint64_t pairs = 0, bytes = 0, sum = 0;
    error = sum_load(structure, load, &pairs, &bytes, &sum);
    if (error || (pairs == load->pairs && bytes == load->bytes && sum == load->sum))
        return error;
    if (active || strcmp(load->state, "replaced") == 0)
        find_remark(structure->findings, structure->path, "%s: the rows of the load were changed since it was loaded: %llu pairs, %llu then", shown(parsed->row.key),
                    (unsigned long long)pairs, (unsigned long long)load->pairs);
    else
        find_damage(structure->findings, structure->path, "%s: the load is not what was loaded: %llu pairs of %llu, %llu bytes of %llu", shown(parsed->row.key),
                    (unsigned long long)pairs, (unsigned long long)load->pairs, (unsigned long long)bytes, (unsigned long long)load->bytes);
    return 0;
}

static fdb_error_t visit_bulk(struct walker *walker, struct parsed *parsed) {
    struct bulk_walk *bulk = walker->context;
    struct bulk_load load = {.pairs = 0};
    if (parsed->count == 1 && is_text(&parsed->elements[0], "active"))
        return buffer_append(&bulk->pointer, parsed->row.value.data, parsed->row.value.length) ? 0 : ERROR_LARGE_ALLOC_FAILED;
    if (parsed->count != 2 || !is_text(&parsed->elements[0], "load"))
        return 0; /* notes, progress, cleanup */
    fdb_error_t error = 0;
    if (parse_load(parsed->row.value, &load))
        error = judge_load(walker, parsed, &load);
    else
        wrong(walker, parsed, "is not (\"load\", name) = (state, owner, begun, changed, prefix)");
    buffer_free(&load.prefix);
    return error;
}

/* ("active") = (name, prefix) names a load of the state active, which has that prefix. */
static fdb_error_t check_pointer(struct structure *structure, const struct bulk_walk *bulk) {
    struct walker walker = {.structure = structure};
    struct bulk_load load = {.pairs = 0};
    keel_tuple_iterator at = keel_tuple_iterate(keel_bytes_of(bulk->pointer.data, bulk->pointer.length));
    keel_element name, prefix;
    uint8_t bytes[10000];
    size_t length;
    bool present = false;
    fdb_error_t error = 0;
    if (bulk->pointer.length == 0) {
        if (bulk->active)
            find_damage(structure->findings, structure->path, "a load is active, but nothing points to it");
        return 0;
    }
    bool good = !keel_tuple_next(&at, &name) && !keel_tuple_next(&at, &prefix) && !keel_element_copy(&prefix, bytes, sizeof bytes, &length);
    if (good)
        error = look_up(&walker, structure->prefix, KEEL_TUPLE("load", name), &present);
    if (!error && (!good || !present || !parse_load(value_of(&walker), &load) || strcmp(load.state, "active") != 0 ||
                   !equal(keel_bytes_of(load.prefix.data, load.prefix.length), keel_bytes_of(bytes, length))))
        find_damage(structure->findings, structure->path, "(\"active\") does not name an active load with its prefix");
    if (!error && bulk->active > 1)
        find_damage(structure->findings, structure->path, "%llu loads are active at once", (unsigned long long)bulk->active);
    buffer_free(&load.prefix);
    buffer_free(&walker.value);
    return error;
}

static fdb_error_t check_bulk(struct structure *structure) {
    struct bulk_walk bulk = {.active = 0};
    fdb_error_t error = walk_part(structure, "load", visit_bulk, &bulk);
    if (!error)
        error = walk_part(structure, "active", visit_bulk, &bulk);
    if (!error)
        error = check_pointer(structure, &bulk);
    buffer_free(&bulk.pointer);
    return error;
}

/* ---- The table ---- */

const struct recipe_check recipe_checks[] = {
    {"blob", NULL, "keys are offsets, chunks do not overlap, an empty one is the last", check_blob},
    {"bulk", NULL, "one load is active and the pointer names it; loads hold what was loaded", check_bulk},
    {"counter", NULL, "one value of 8 bytes, or one a shard", check_counter},
    {"document", NULL, "leaves are JSON scalars, no gaps in arrays, names or indexes but not both at one place", check_document},
    {"index", "RECORDS", "every entry leads to a record; a covering one holds its value", check_index},
    {"list", NULL, "neighbours name each other, every node can be reached from the head", check_list},
    {"log", NULL, "keys are versionstamps, none behind the newest position", check_log},
    {"multimap", NULL, "values are empty or positive counts", check_multimap},
    {"pqueue", NULL, "keys are (priority, count, random)", check_pqueue},
    {"queue", NULL, "keys are (index, random)", check_queue},
    {"relation", "REVERSE", "every relationship is there in both directions", check_relation},
    {"spatial", NULL, "labels and places name each other, a label is at one place", check_spatial},
    {"table", NULL, "cells are the same by row and by column", check_table},
    {"taskqueue", NULL, "every task has a payload and one place; leases and timers agree", check_taskqueue},
    {"vector", NULL, "keys are indexes, all of the same number", check_vector},
    {0},
};

const struct recipe_check *recipe_check_find(const char *type) {
    for (const struct recipe_check *check = recipe_checks; check->type; check++) {
        if (strcmp(check->type, type) == 0)
            return check;
    }
    return NULL;
}

const struct recipe_check *recipe_check_of_tag(keel_bytes tag) {
    char type[32];
    if (tag.length <= 5 || tag.length - 5 >= sizeof type || memcmp(tag.data, "keel.", 5) != 0)
        return NULL;
    memcpy(type, tag.data + 5, tag.length - 5);
    type[tag.length - 5] = 0;
    const struct recipe_check *check = recipe_check_find(type);
    return check && !check->second ? check : NULL;
}
