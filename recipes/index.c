/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records with secondary indexes, and building an index over records that are there already.
 *
 * A change to a record goes through four steps, in one transaction:
 *
 *   1. gather   what the new record has in each index, from the extract functions; the first errors
 *   2. start    the read of the old record, and of the new values in the unique indexes
 *   3. judge    what the old record had; whether a unique value is another's; the last errors
 *   4. write    entries that are gone, entries that are new, then the record
 *
 * Format: see keel/index.h. A build keeps ("build",) = (state, next key, records seen), packed, in
 * its progress subspace.
 *
 * Invariants:
 *   1. Nothing is written before step 4, and nothing in step 4 can fail.
 *   2. An entry is in an index if and only if the record that is there gives it. A put replaces
 *      both in one transaction that has read the old record, so no entry is left behind.
 *   3. A unique value has one id: a put reads all entries of the value, so another that adds one
 *      conflicts with it.
 *   4. While a build runs, 2 holds for all records before its next key. A step reads its records
 *      and writes their entries in one transaction, so a put that changes one of them conflicts
 *      with it; a put behind the next key keeps up the index itself; one before it is seen by a
 *      later step.
 */
#include <keel/index.h>

#include <stdlib.h>

#include "support.h"

static const fdb_error_t NO_MEMORY = 1501;

enum { ID_IN_VALUE = KEEL_INDEX_ID_STRING | KEEL_INDEX_ID_BYTES };
enum { ANY_UNIQUE = KEEL_INDEX_UNIQUE | ID_IN_VALUE };
enum { BUILD_ROWS_DEFAULT = 500, BUILD_STEP_BYTES_MAX = 1000000, RECORDS_AT_ONCE = 32 };

/* An entry to be, or one that was: its key and its value, in one piece of memory. */
struct item {
    const keel_index *index;
    FDBFuture *check;     /* reads what a unique index has for the value */
    size_t values_length; /* of the key, up to the end of the values */
    size_t key_length, value_length;
    uint8_t bytes[];
};

struct keel_index_entries {
    const keel_index *index;         /* being extracted for */
    const keel_index_record *record; /* being extracted from */
    struct item **items;
    size_t count, capacity, bytes;
};

/* ---- Lists of entries ---- */

static void entries_free(struct keel_index_entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->items[i]->check)
            fdb_future_destroy(entries->items[i]->check);
        free(entries->items[i]);
    }
    free(entries->items);
}

static fdb_error_t entries_add(struct keel_index_entries *entries, const struct recipe_key *key,
                               size_t values_length, keel_bytes value) {
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity ? entries->capacity * 2 : 8;
        struct item **items = realloc(entries->items, capacity * sizeof *items);
        if (!items)
            return NO_MEMORY;
        entries->items = items;
        entries->capacity = capacity;
    }
    struct item *item = malloc(sizeof *item + key->length + value.length);
    if (!item)
        return NO_MEMORY;
    *item = (struct item){entries->index, NULL, values_length, key->length, value.length};
    memcpy(item->bytes, key->data, key->length);
    if (value.length)
        memcpy(item->bytes + key->length, value.data, value.length);
    entries->items[entries->count++] = item;
    entries->bytes += key->length + value.length;
    return 0;
}

/* The bytes of an id that is to be an entry's value. */
static fdb_error_t id_bytes(const keel_index *index, const keel_element *id, uint8_t *buffer,
                            size_t capacity, keel_bytes *bytes) {
    keel_type type =
        index->flags & KEEL_INDEX_ID_STRING ? KEEL_TYPE_STRING : KEEL_TYPE_BYTES;
    size_t length = 0;
    if (id->type != type)
        return KEEL_ERROR_TUPLE_TYPE;
    fdb_error_t error = keel_element_copy(id, buffer, capacity, &length);
    if (!error)
        *bytes = keel_bytes_of(buffer, length);
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_emit(keel_index_entries *entries, keel_tuple values) {
    const keel_index *index = entries->index;
    const keel_element *id = &entries->record->id;
    struct recipe_key key = {.length = 0};
    uint8_t buffer[RECIPE_KEY_MAX];
    keel_bytes value = {NULL, 0};
    fdb_error_t error = recipe_append_bytes(&key, keel_subspace_prefix(&index->subspace));
    if (!error)
        error = recipe_append(&key, values);
    size_t values_length = key.length;
    if (!error && index->flags & ID_IN_VALUE)
        error = values.count ? id_bytes(index, id, buffer, sizeof buffer, &value)
                             : (fdb_error_t)KEEL_ERROR_ARGUMENT;
    else if (!error)
        error = recipe_append(&key, keel_tuple_of(id, 1));
    if (!error && index->flags & KEEL_INDEX_COVERING)
        value = entries->record->value;
    return error ? error : entries_add(entries, &key, values_length, value);
}

KEEL_EXPORT fdb_error_t keel_index_by_rest(const keel_index_record *record,
                                           keel_index_entries *entries, const void *context) {
    (void)context;
    keel_element first;
    keel_tuple_iterator it = keel_tuple_iterate(record->rest);
    fdb_error_t error = keel_tuple_next(&it, &first);
    if (error == KEEL_ERROR_TUPLE_END)
        return 0;
    return error ? error : keel_index_emit(entries, keel_tuple_of(&first, 1));
}

static fdb_error_t check_index(const keel_index *index) {
    unsigned in_value = index->flags & ID_IN_VALUE;
    if (in_value == ID_IN_VALUE || (in_value && index->flags & KEEL_INDEX_COVERING))
        return KEEL_ERROR_ARGUMENT;
    return 0;
}

/* What the record has in one index, appended. */
static fdb_error_t gather_one(const keel_index *index, const keel_index_record *record,
                              struct keel_index_entries *entries) {
    fdb_error_t error = index->extract ? check_index(index) : (fdb_error_t)KEEL_ERROR_ARGUMENT;
    entries->index = index;
    entries->record = record;
    return error ? error : index->extract(record, entries, index->context);
}

static fdb_error_t gather(const keel_index_records *records, const keel_index_record *record,
                          struct keel_index_entries *entries) {
    fdb_error_t error = 0;
    for (size_t i = 0; i < records->index_count && !error; i++)
        error = gather_one(&records->indexes[i], record, entries);
    return error;
}

/* ---- Unique values ---- */

static void start_checks(FDBTransaction *tr, struct keel_index_entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        struct item *item = entries->items[i];
        if (item->check || !(item->index->flags & ANY_UNIQUE))
            continue;
        uint8_t end[RECIPE_KEY_MAX + 1]; /* behind all ids, or behind the key itself */
        memcpy(end, item->bytes, item->values_length);
        end[item->values_length] = item->index->flags & ID_IN_VALUE ? 0 : 0xff;
        item->check = fdb_transaction_get_range(
            tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(item->bytes, (int)item->values_length),
            FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, (int)item->values_length + 1), 2, 0,
            FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    }
}

static bool is_own(const struct item *item, const FDBKeyValue *row) {
    keel_bytes key = keel_bytes_of(row->key, (size_t)row->key_length);
    keel_bytes value = keel_bytes_of(row->value, (size_t)row->value_length);
    if (keel_bytes_compare(key, keel_bytes_of(item->bytes, item->key_length)) != 0)
        return false;
    return !(item->index->flags & ID_IN_VALUE) ||
           keel_bytes_compare(value, keel_bytes_of(item->bytes + item->key_length,
                                                   item->value_length)) == 0;
}

static fdb_error_t finish_checks(struct keel_index_entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        struct item *item = entries->items[i];
        const FDBKeyValue *rows = NULL;
        int count = 0;
        fdb_bool_t more = 0;
        if (!item->check)
            continue;
        fdb_error_t error = keel_wait(item->check);
        if (!error)
            error = fdb_future_get_keyvalue_array(item->check, &rows, &count, &more);
        for (int row = 0; row < count && !error; row++)
            if (!is_own(item, &rows[row]))
                error = KEEL_ERROR_DUPLICATE;
        if (error)
            return error;
    }
    return 0;
}

/* ---- Writing entries ---- */

static int compare_items(const void *a, const void *b) {
    const struct item *left = *(struct item *const *)a, *right = *(struct item *const *)b;
    return keel_bytes_compare(keel_bytes_of(left->bytes, left->key_length),
                              keel_bytes_of(right->bytes, right->key_length));
}

static void sort_items(struct keel_index_entries *entries) {
    if (entries->count)
        qsort(entries->items, entries->count, sizeof *entries->items, compare_items);
}

static const struct item *find_item(const struct keel_index_entries *entries,
                                    const struct item *item) {
    struct item **found = entries->count ? bsearch(&item, entries->items, entries->count,
                                                   sizeof *entries->items, compare_items)
                                         : NULL;
    return found ? *found : NULL;
}

static void write_item(FDBTransaction *tr, const struct item *item) {
    fdb_transaction_set(tr, item->bytes, (int)item->key_length, item->bytes + item->key_length,
                        (int)item->value_length);
}

static void write_entries(FDBTransaction *tr, struct keel_index_entries *old,
                          struct keel_index_entries *fresh) {
    sort_items(old);
    sort_items(fresh);
    for (size_t i = 0; i < old->count; i++)
        if (!find_item(fresh, old->items[i]))
            fdb_transaction_clear(tr, old->items[i]->bytes, (int)old->items[i]->key_length);
    for (size_t i = 0; i < fresh->count; i++) {
        const struct item *item = fresh->items[i], *was = find_item(old, item);
        if (!was || was->value_length != item->value_length ||
            memcmp(was->bytes + was->key_length, item->bytes + item->key_length,
                   item->value_length) != 0)
            write_item(tr, item);
    }
}

/* ---- Records ---- */

/* Takes a record's key apart. */
static fdb_error_t record_of(const keel_index_records *records, keel_bytes key, keel_bytes value,
                             keel_index_record *record) {
    keel_tuple_iterator it;
    fdb_error_t error = keel_subspace_unpack(&records->subspace, key, &it);
    if (!error)
        error = keel_tuple_next(&it, &record->id);
    if (error)
        return KEEL_ERROR_STORED_FORMAT;
    record->rest = keel_bytes_of(key.data + it.position, key.length - it.position);
    record->value = value;
    return keel_tuple_check(record->rest, NULL) ? KEEL_ERROR_STORED_FORMAT : 0;
}

/* A record on its way in or out. */
struct change {
    const keel_index_records *records;
    struct recipe_key row;   /* of the new record */
    struct recipe_span rows; /* all keys of its id */
    struct keel_index_entries old, fresh;
    bool was_there, elsewhere; /* an old row under another key than `row` */
};

static fdb_error_t read_old(struct change *change, struct recipe_scan *scan) {
    keel_bytes key, value;
    bool found;
    for (;;) {
        keel_index_record record;
        fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
        if (error || !found)
            return error;
        error = record_of(change->records, key, value, &record);
        if (!error)
            error = gather(change->records, &record, &change->old);
        if (error)
            return error;
        change->was_there = true;
        if (keel_bytes_compare(key, keel_bytes_of(change->row.data, change->row.length)) != 0)
            change->elsewhere = true;
    }
}

/* Steps 2 and 3. */
static fdb_error_t judge(FDBTransaction *tr, struct change *change) {
    struct recipe_scan scan;
    recipe_scan_open(&scan, tr, &change->rows, 0, false, false);
    start_checks(tr, &change->fresh);
    fdb_error_t error = read_old(change, &scan);
    recipe_scan_close(&scan);
    return error ? error : finish_checks(&change->fresh);
}

static void change_free(struct change *change) {
    entries_free(&change->old);
    entries_free(&change->fresh);
}

static fdb_error_t change_open(struct change *change, const keel_index_records *records,
                               keel_element id) {
    change->records = records;
    change->old = change->fresh = (struct keel_index_entries){.count = 0};
    change->was_there = change->elsewhere = false;
    fdb_error_t error = recipe_pack(&records->subspace, keel_tuple_of(&id, 1), &change->row);
    if (!error)
        recipe_span_with(&change->row, &change->rows);
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_put(FDBTransaction *tr, const keel_index_records *records,
                                       keel_element id, keel_tuple rest, keel_bytes value) {
    struct change change;
    fdb_error_t error = recipe_check_value(value);
    if (error)
        return error;
    error = change_open(&change, records, id);
    size_t rest_begin = error ? 0 : change.row.length;
    if (!error)
        error = recipe_append(&change.row, rest);
    if (!error) {
        keel_bytes packed =
            keel_bytes_of(change.row.data + rest_begin, change.row.length - rest_begin);
        keel_index_record record = {id, packed, value};
        error = gather(records, &record, &change.fresh);
    }
    if (!error)
        error = judge(tr, &change);
    if (!error) {
        write_entries(tr, &change.old, &change.fresh);
        if (change.elsewhere)
            recipe_clear_span(tr, &change.rows);
        recipe_set(tr, &change.row, value);
    }
    change_free(&change);
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_remove(FDBTransaction *tr, const keel_index_records *records,
                                          keel_element id, bool *removed) {
    struct change change;
    fdb_error_t error = change_open(&change, records, id);
    if (!error)
        error = judge(tr, &change);
    if (!error && change.was_there) {
        write_entries(tr, &change.old, &change.fresh);
        recipe_clear_span(tr, &change.rows);
    }
    if (!error && removed)
        *removed = change.was_there;
    change_free(&change);
    return error;
}

/* Starts reading the first row of an id. */
static fdb_error_t start_record(FDBTransaction *tr, const keel_index_records *records,
                                const keel_element *id, FDBFuture **future) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(&records->subspace, keel_tuple_of(id, 1), &key);
    if (error)
        return error;
    int length = (int)key.length;
    uint8_t end[RECIPE_KEY_MAX + 1];
    memcpy(end, key.data, key.length);
    end[key.length] = 0xff;
    *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(key.data, length),
                                        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end, length + 1), 1, 0,
                                        FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    return 0;
}

/* Waits, and gives the future back. */
static fdb_error_t finish_record(FDBFuture *future, const keel_index_records *records,
                                 keel_index_visit_record visit, void *context) {
    const FDBKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    keel_index_record record;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    if (!error && count == 0)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = record_of(records, keel_bytes_of(rows[0].key, (size_t)rows[0].key_length),
                          keel_bytes_of(rows[0].value, (size_t)rows[0].value_length), &record);
    if (!error)
        error = visit(&record, context);
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_get(FDBTransaction *tr, const keel_index_records *records,
                                       keel_element id, keel_index_visit_record visit,
                                       void *context) {
    FDBFuture *future;
    fdb_error_t error = start_record(tr, records, &id, &future);
    return error ? error : finish_record(future, records, visit, context);
}

/* ---- Finding ---- */

static fdb_error_t entry_of(const keel_index *index, keel_bytes key, keel_bytes value,
                            keel_index_entry *entry) {
    keel_tuple_iterator it;
    fdb_error_t error = keel_subspace_unpack(&index->subspace, key, &it);
    size_t begin = index->subspace.length, last = begin;
    while (!error && !keel_tuple_at_end(&it)) {
        last = it.position;
        error = keel_tuple_next(&it, &entry->id);
    }
    if (error || begin == key.length)
        return KEEL_ERROR_STORED_FORMAT;
    entry->value = value;
    if (index->flags & ID_IN_VALUE) {
        last = key.length;
        entry->id = index->flags & KEEL_INDEX_ID_STRING
                        ? keel_element_of_text((const char *)value.data, value.length)
                        : keel_element_of_bytes(value);
    }
    entry->values = keel_bytes_of(key.data + begin, last - begin);
    return 0;
}

static fdb_error_t walk(FDBTransaction *tr, const keel_index *index,
                        const struct recipe_span *span, int limit, bool reverse,
                        keel_index_visit_entry visit, void *context) {
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found = false;
    recipe_scan_open(&scan, tr, span, limit, reverse, false);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, &found);
    while (!error && found) {
        keel_index_entry entry;
        error = entry_of(index, key, value, &entry);
        if (!error)
            error = visit(&entry, context);
        if (!error)
            error = recipe_scan_next(&scan, &key, &value, &found);
    }
    recipe_scan_close(&scan);
    return error;
}

/* All entries, or those whose values begin with these. */
static fdb_error_t span_of_values(const keel_index *index, keel_tuple values,
                                  struct recipe_span *span) {
    struct recipe_key key;
    if (values.count == 0)
        return recipe_span_of(&index->subspace, values, span);
    fdb_error_t error = recipe_pack(&index->subspace, values, &key);
    if (!error)
        recipe_span_with(&key, span);
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_find(FDBTransaction *tr, const keel_index *index,
                                        keel_tuple values, int limit, bool reverse,
                                        keel_index_visit_entry visit, void *context) {
    struct recipe_span span;
    fdb_error_t error = limit < 0 ? (fdb_error_t)KEEL_ERROR_ARGUMENT
                                  : span_of_values(index, values, &span);
    return error ? error : walk(tr, index, &span, limit, reverse, visit, context);
}

KEEL_EXPORT fdb_error_t keel_index_find_between(FDBTransaction *tr, const keel_index *index,
                                                keel_tuple begin, keel_tuple end, int limit,
                                                bool reverse, keel_index_visit_entry visit,
                                                void *context) {
    struct recipe_span span;
    if (limit < 0 || (end.count && keel_tuple_compare(begin, end) > 0))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(&index->subspace, keel_tuple_of(NULL, 0), &span);
    if (!error && begin.count)
        error = recipe_pack(&index->subspace, begin, &span.begin);
    if (!error && end.count)
        error = recipe_pack(&index->subspace, end, &span.end);
    return error ? error : walk(tr, index, &span, limit, reverse, visit, context);
}

/* Records on their way: a ring of reads that are under way, visited in the order of their start. */
struct fetch {
    FDBTransaction *tr;
    const keel_index_records *records;
    keel_index_visit_record visit;
    void *context;
    FDBFuture *futures[RECORDS_AT_ONCE];
    size_t begun, finished;
};

static fdb_error_t fetch_one(struct fetch *fetch) {
    FDBFuture *future = fetch->futures[fetch->finished++ % RECORDS_AT_ONCE];
    fdb_error_t error = finish_record(future, fetch->records, fetch->visit, fetch->context);
    return error == KEEL_ERROR_NOT_FOUND ? 0 : error;
}

static fdb_error_t fetch_entry(const keel_index_entry *entry, void *context) {
    struct fetch *fetch = context;
    fdb_error_t error = 0;
    if (fetch->begun - fetch->finished == RECORDS_AT_ONCE)
        error = fetch_one(fetch);
    FDBFuture **slot = &fetch->futures[fetch->begun % RECORDS_AT_ONCE];
    if (!error)
        error = start_record(fetch->tr, fetch->records, &entry->id, slot);
    if (!error)
        fetch->begun++;
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_find_records(FDBTransaction *tr,
                                                const keel_index_records *records,
                                                const keel_index *index, keel_tuple values,
                                                int limit, bool reverse,
                                                keel_index_visit_record visit, void *context) {
    struct fetch fetch = {.tr = tr, .records = records, .visit = visit, .context = context};
    fdb_error_t error = keel_index_find(tr, index, values, limit, reverse, fetch_entry, &fetch);
    while (!error && fetch.finished < fetch.begun)
        error = fetch_one(&fetch);
    while (fetch.finished < fetch.begun)
        fdb_future_destroy(fetch.futures[fetch.finished++ % RECORDS_AT_ONCE]);
    return error;
}

/* ---- One index by itself ---- */

static fdb_error_t emit_for(const keel_index *index, const keel_index_record *record,
                            const keel_tuple *values, struct keel_index_entries *entries) {
    entries->index = index;
    entries->record = record;
    return values ? keel_index_emit(entries, *values) : 0;
}

KEEL_EXPORT fdb_error_t keel_index_update(FDBTransaction *tr, const keel_index *index,
                                          keel_element id, const keel_tuple *old_values,
                                          const keel_tuple *new_values, keel_bytes value) {
    struct keel_index_entries old = {.count = 0}, fresh = {.count = 0};
    keel_index_record old_record = {id, {NULL, 0}, {NULL, 0}}, record = {id, {NULL, 0}, value};
    fdb_error_t error = check_index(index);
    if (!error)
        error = recipe_check_value(value);
    if (!error)
        error = emit_for(index, &old_record, old_values, &old);
    if (!error)
        error = emit_for(index, &record, new_values, &fresh);
    if (!error) {
        start_checks(tr, &fresh);
        error = finish_checks(&fresh);
    }
    if (!error)
        write_entries(tr, &old, &fresh);
    entries_free(&old);
    entries_free(&fresh);
    return error;
}

/* ---- Building ---- */

struct progress {
    keel_index_state state;
    int64_t rows;
    struct recipe_key next; /* the first key that is not done */
};

static fdb_error_t progress_key(const keel_subspace *progress, struct recipe_key *key) {
    keel_element name = keel_element_of_string("build");
    return recipe_pack(progress, keel_tuple_of(&name, 1), key);
}

static fdb_error_t progress_parse(keel_bytes value, struct progress *progress) {
    keel_tuple_iterator it = keel_tuple_iterate(value);
    int64_t state = 0;
    fdb_error_t error = keel_tuple_next_int(&it, &state);
    if (!error)
        error = keel_tuple_next_bytes(&it, progress->next.data, RECIPE_KEY_MAX,
                                      &progress->next.length);
    if (!error)
        error = keel_tuple_next_int(&it, &progress->rows);
    if (error || (state != KEEL_INDEX_BUILDING && state != KEEL_INDEX_BUILT))
        return KEEL_ERROR_STORED_FORMAT;
    progress->state = (keel_index_state)state;
    return 0;
}

static fdb_error_t progress_read(FDBTransaction *tr, const keel_subspace *subspace,
                                 struct progress *progress) {
    struct recipe_key key;
    bool present = false;
    keel_bytes value;
    fdb_error_t error = progress_key(subspace, &key);
    if (error)
        return error;
    progress->state = KEEL_INDEX_NOT_BUILT;
    progress->rows = 0;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &value);
    if (!error && present)
        error = progress_parse(value, progress);
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t progress_write(FDBTransaction *tr, const keel_subspace *subspace,
                                  const struct progress *progress) {
    struct recipe_key key;
    uint8_t value[2 * RECIPE_KEY_MAX + 64]; /* a zero in the key takes two bytes */
    size_t length = 0;
    keel_element elements[] = {
        keel_element_of_int(progress->state),
        keel_element_of_bytes(keel_bytes_of(progress->next.data, progress->next.length)),
        keel_element_of_int(progress->rows)};
    fdb_error_t error = progress_key(subspace, &key);
    if (!error)
        error = keel_tuple_pack(keel_tuple_of(elements, 3), value, sizeof value, &length);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(value, length));
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_build_start(FDBTransaction *tr, const keel_index *index,
                                               const keel_subspace *subspace) {
    struct progress progress = {.state = KEEL_INDEX_BUILDING, .rows = 0, .next.length = 0};
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(&index->subspace, keel_tuple_of(NULL, 0), &span);
    if (!error)
        error = progress_write(tr, subspace, &progress);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}

/* Gathers the entries of the next records, and moves `progress` behind them. */
static fdb_error_t build_gather(struct recipe_scan *scan, const keel_index_records *records,
                                const keel_index *index, int rows_max, struct progress *progress,
                                struct keel_index_entries *entries) {
    keel_bytes key, value;
    bool found = true;
    size_t bytes = 0;
    for (int rows = 0; rows < rows_max && entries->bytes + bytes < BUILD_STEP_BYTES_MAX; rows++) {
        keel_index_record record;
        fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
        if (!error && !found)
            progress->state = KEEL_INDEX_BUILT;
        if (error || !found)
            return error;
        error = record_of(records, key, value, &record);
        if (!error)
            error = gather_one(index, &record, entries);
        if (error)
            return error;
        memcpy(progress->next.data, key.data, key.length);
        progress->next.data[key.length] = 0;
        progress->next.length = key.length + 1;
        progress->rows++;
        bytes += key.length + value.length;
    }
    return 0;
}

/* Two records of one step with one unique value; entries are sorted. */
static bool duplicate_within(const struct keel_index_entries *entries) {
    for (size_t i = 1; i < entries->count; i++) {
        const struct item *a = entries->items[i - 1], *b = entries->items[i];
        bool same_values = a->values_length == b->values_length &&
                           memcmp(a->bytes, b->bytes, a->values_length) == 0;
        bool same = a->key_length == b->key_length && a->value_length == b->value_length &&
                    memcmp(a->bytes, b->bytes, a->key_length + a->value_length) == 0;
        if (a->index->flags & ANY_UNIQUE && same_values && !same)
            return true;
    }
    return false;
}

static fdb_error_t build_rows(FDBTransaction *tr, const keel_index_records *records,
                              const keel_index *index, int rows_max, struct progress *progress,
                              struct keel_index_entries *entries) {
    struct recipe_span span;
    struct recipe_scan scan;
    fdb_error_t error = recipe_span_of(&records->subspace, keel_tuple_of(NULL, 0), &span);
    if (error)
        return error;
    if (progress->next.length) {
        memcpy(span.begin.data, progress->next.data, progress->next.length);
        span.begin.length = progress->next.length;
    }
    recipe_scan_open(&scan, tr, &span, rows_max, false, false);
    error = build_gather(&scan, records, index, rows_max, progress, entries);
    recipe_scan_close(&scan);
    if (error)
        return error;
    start_checks(tr, entries);
    error = finish_checks(entries);
    sort_items(entries);
    if (!error && duplicate_within(entries))
        error = KEEL_ERROR_DUPLICATE;
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_build_step(FDBTransaction *tr,
                                              const keel_index_records *records,
                                              const keel_index *index,
                                              const keel_subspace *subspace, int rows_max,
                                              keel_index_state *state, int64_t *rows) {
    struct progress progress;
    struct keel_index_entries entries = {.count = 0};
    if (rows_max < 0)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = progress_read(tr, subspace, &progress);
    if (!error && progress.state == KEEL_INDEX_NOT_BUILT)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error && progress.state == KEEL_INDEX_BUILDING) {
        error = build_rows(tr, records, index, rows_max ? rows_max : BUILD_ROWS_DEFAULT, &progress,
                           &entries);
        if (!error)
            error = progress_write(tr, subspace, &progress);
        for (size_t i = 0; i < entries.count && !error; i++)
            write_item(tr, entries.items[i]);
    }
    entries_free(&entries);
    if (error)
        return error;
    *state = progress.state;
    if (rows)
        *rows = progress.rows;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_index_build_state(FDBTransaction *tr, const keel_subspace *subspace,
                                               keel_index_state *state, int64_t *rows) {
    struct progress progress;
    fdb_error_t error = progress_read(tr, subspace, &progress);
    if (error)
        return error;
    *state = progress.state;
    if (rows)
        *rows = progress.rows;
    return 0;
}

struct build {
    const keel_index_records *records;
    const keel_index *index;
    const keel_subspace *progress;
    int rows_max;
    keel_index_state state;
};

static fdb_error_t build_once(FDBTransaction *tr, void *context) {
    struct build *build = context;
    keel_index_state state = KEEL_INDEX_NOT_BUILT;
    fdb_error_t error = keel_index_build_state(tr, build->progress, &state, NULL);
    if (!error && state == KEEL_INDEX_NOT_BUILT)
        error = keel_index_build_start(tr, build->index, build->progress);
    if (!error)
        error = keel_index_build_step(tr, build->records, build->index, build->progress,
                                      build->rows_max, &state, NULL);
    if (!error)
        build->state = state;
    return error;
}

KEEL_EXPORT fdb_error_t keel_index_build(FDBDatabase *database, const keel_index_records *records,
                                         const keel_index *index, const keel_subspace *progress,
                                         int rows_max) {
    struct build build = {records, index, progress, rows_max, KEEL_INDEX_NOT_BUILT};
    fdb_error_t error = 0;
    while (!error && build.state != KEEL_INDEX_BUILT)
        error = keel_run(database, build_once, &build);
    return error;
}
