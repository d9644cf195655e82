/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of directories as it lies in the database.
 *
 * Each directory has a node, named by the directory's prefix. All nodes lie under the layer's node
 * prefix N:
 *
 *     N (prefix, 0, name)      → the prefix of the subdirectory `name`: an entry
 *     N (prefix, "layer")      → the layer tag, which may be empty
 *     N (N, "version")         → 1, 0, 0 as three 32-bit little-endian integers
 *     N (N, "hca", …)          → the allocator's (allocator.c)
 *
 * prefix, "layer", "version", "hca" and N are byte strings, name is a Unicode string. The root's
 * node is the one with N itself as its prefix. The default layer has N = fe and contents anywhere;
 * a partition with prefix P is a layer of its own with N = P fe and contents under P, so that
 * clearing P removes a partition with all it holds.
 *
 *     /            node fe:         (fe, 0, "app") → 15 02          (fe, "version") → 1.0.0
 *     /app         node 15 02:      (15 02, 0, "users") → 15 2a     (15 02, "layer") → ""
 *     /app/users   node 15 2a:      (15 2a, "layer") → ""           contents: 15 2a …
 *
 *   1. No prefix of a directory is the beginning of another's or of N, nor the other way round:
 *      directory_prefix_* see to it.
 *   2. A node other than the root's has exactly one entry, in its parent's node.
 *
 * Walking: the tag of a node and the entry for the next name can be read at the same time, because
 * the tag only decides whether the entry counts (a partition has no entries here); so a path costs
 * one round trip a name and one more.
 *
 * Removing: nodes are taken from a stack on the heap, some at a time, their entries read together.
 * A node is cleared once its entries are on the stack, so also a tree that is damaged into a circle
 * comes to an end.
 *
 * Threads: nothing is shared. Failure: errors of reads are passed on, 1501 without memory; a tree
 * that cannot be read (a value or key of another form) is TUPLE_… or DIRECTORY_VERSION.
 */
#include "allocator.h"
#include "directory_internal.h"

#include <stdlib.h>

static const keel_bytes tag_name = {(const uint8_t *)"layer", 5};
static const keel_bytes version_name = {(const uint8_t *)"version", 7};
static const keel_bytes allocator_name = {(const uint8_t *)"hca", 3};

enum { ENTRIES = 0, VERSION_LENGTH = 12 };

/* ---- Keys ---- */

/* N (prefix): where a node begins. */
static void build_node(struct directory_key *key, const keel_directory_layer *layer,
                       keel_bytes prefix) {
    directory_key_reset(key);
    directory_key_append(key, layer->node_prefix);
    directory_key_append_bytes(key, prefix);
}

static void build_entry(struct directory_key *key, const keel_directory_layer *layer,
                        keel_bytes prefix, keel_bytes name) {
    build_node(key, layer, prefix);
    directory_key_append_integer(key, ENTRIES);
    directory_key_append_string(key, name);
}

static void build_tag(struct directory_key *key, const keel_directory_layer *layer,
                      keel_bytes prefix) {
    build_node(key, layer, prefix);
    directory_key_append_bytes(key, tag_name);
}

static void build_version(struct directory_key *key, const keel_directory_layer *layer) {
    build_node(key, layer, layer->node_prefix);
    directory_key_append_bytes(key, version_name);
}

/* ---- The version ---- */

static uint32_t decode_32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

fdb_error_t directory_version_start(FDBTransaction *tr, const keel_directory_layer *layer,
                                    bool snapshot, FDBFuture **future) {
    struct directory_key key;
    directory_key_init(&key);
    build_version(&key, layer);
    fdb_error_t error = key.error;
    if (!error)
        *future = directory_read_key(tr, &key, snapshot);
    directory_key_free(&key);
    return error;
}

fdb_error_t directory_version_wait(FDBFuture *future, enum directory_version *version) {
    bool present;
    keel_bytes value;
    fdb_error_t error = directory_wait_value(future, &present, &value);
    if (error)
        return error;
    if (!present) {
        *version = DIRECTORY_VERSION_NONE;
        return 0;
    }
    if (value.length != VERSION_LENGTH || decode_32(value.data) > 1)
        return KEEL_ERROR_DIRECTORY_VERSION;
    *version = decode_32(value.data + 4) > 0 ? DIRECTORY_VERSION_NEWER : DIRECTORY_VERSION_OURS;
    return 0;
}

fdb_error_t directory_version_claim(FDBTransaction *tr, const keel_directory_layer *layer,
                                    enum directory_version version) {
    static const uint8_t ours[VERSION_LENGTH] = {1};
    if (version == DIRECTORY_VERSION_NEWER)
        return KEEL_ERROR_DIRECTORY_READ_ONLY;
    if (version == DIRECTORY_VERSION_OURS)
        return 0;
    struct directory_key key;
    directory_key_init(&key);
    build_version(&key, layer);
    fdb_error_t error = key.error;
    if (!error)
        fdb_transaction_set(tr, key.data, (int)key.length, ours, sizeof ours);
    directory_key_free(&key);
    return error;
}

/* ---- Finding ---- */

void directory_finder_init(struct directory_finder *finder) {
    memset(finder, 0, sizeof *finder);
    directory_key_init(&finder->prefix);
    directory_key_init(&finder->above);
    directory_key_init(&finder->tag);
}

void directory_finder_free(struct directory_finder *finder) {
    directory_future_drop(&finder->tag_read);
    directory_future_drop(&finder->child_read);
    directory_key_free(&finder->prefix);
    directory_key_free(&finder->above);
    directory_key_free(&finder->tag);
}

/* Starts the reads for the node just reached: its tag (the root has none), the entry of the next
 * name. */
static fdb_error_t finder_read_on(struct directory_finder *finder) {
    struct directory_key key;
    keel_bytes prefix = directory_key_bytes(&finder->prefix);
    directory_key_init(&key);
    if (finder->depth > 0) {
        build_tag(&key, finder->layer, prefix);
        if (!key.error)
            finder->tag_read = directory_read_key(finder->tr, &key, finder->snapshot);
    }
    if (!key.error && finder->depth < finder->path.count) {
        build_entry(&key, finder->layer, prefix, finder->path.names[finder->depth]);
        if (!key.error)
            finder->child_read = directory_read_key(finder->tr, &key, finder->snapshot);
    }
    fdb_error_t error = key.error;
    directory_key_free(&key);
    return error;
}

fdb_error_t directory_finder_start(struct directory_finder *finder, FDBTransaction *tr,
                                   const keel_directory_layer *layer, keel_path path,
                                   bool snapshot) {
    directory_finder_free(finder);
    finder->tr = tr;
    finder->layer = layer;
    finder->path = path;
    finder->snapshot = snapshot;
    finder->depth = 0;
    finder->exists = true;
    finder->done = path.count == 0;
    directory_key_append(&finder->prefix, layer->node_prefix);
    return finder->prefix.error ? finder->prefix.error : finder_read_on(finder);
}

static fdb_error_t finder_take_tag(struct directory_finder *finder) {
    bool present;
    keel_bytes tag;
    fdb_error_t error = directory_wait_value(finder->tag_read, &present, &tag);
    if (error)
        return error;
    directory_key_reset(&finder->tag);
    directory_key_append(&finder->tag, tag);
    directory_future_drop(&finder->tag_read);
    return finder->tag.error;
}

static fdb_error_t finder_take_child(struct directory_finder *finder) {
    bool present;
    keel_bytes child;
    fdb_error_t error = directory_wait_value(finder->child_read, &present, &child);
    if (error)
        return error;
    directory_key_reset(&finder->above);
    directory_key_append(&finder->above, directory_key_bytes(&finder->prefix));
    directory_key_reset(&finder->prefix);
    directory_key_append(&finder->prefix, child);
    directory_future_drop(&finder->child_read);
    finder->depth++;
    finder->exists = present;
    finder->done = !present;
    if (finder->above.error)
        return finder->above.error;
    return finder->prefix.error;
}

fdb_error_t directory_finder_step(struct directory_finder *finder) {
    fdb_error_t error = 0;
    if (finder->tag_read) {
        error = finder_take_tag(finder);
        if (error)
            return error;
        if (directory_tag_is_partition(directory_key_bytes(&finder->tag)))
            directory_future_drop(&finder->child_read);
    }
    if (!finder->child_read) {
        finder->done = true;
        return 0;
    }
    error = finder_take_child(finder);
    return error || finder->done ? error : finder_read_on(finder);
}

fdb_error_t directory_finder_finish(struct directory_finder *finder) {
    fdb_error_t error = 0;
    while (!error && !finder->done)
        error = directory_finder_step(finder);
    return error;
}

bool directory_finder_in_partition(const struct directory_finder *finder, bool or_at_it) {
    return finder->exists && finder->depth > 0 &&
           directory_tag_is_partition(directory_key_bytes(&finder->tag)) &&
           (or_at_it || finder->depth < finder->path.count);
}

/* ---- Is a prefix free? ---- */

/* The reads that tell: of the contents, of the last node at or before the prefix, of nodes that
 * extend it. */
struct prefix_check {
    FDBFuture *contents, *before, *extending;
    struct directory_key node; /* N (prefix) */
    bool no_successor;         /* the prefix is all ff */
};

static void prefix_check_free(struct prefix_check *check) {
    directory_future_drop(&check->contents);
    directory_future_drop(&check->before);
    directory_future_drop(&check->extending);
    directory_key_free(&check->node);
}

static fdb_error_t start_contents(struct prefix_check *check, FDBTransaction *tr,
                                  const struct directory_key *prefix) {
    struct directory_key end;
    directory_key_init(&end);
    directory_key_append(&end, directory_key_bytes(prefix));
    directory_key_to_successor(&end);
    fdb_error_t error = end.error;
    if (!error)
        check->contents = directory_read_one(tr, prefix, &end, false, false);
    directory_key_free(&end);
    return error;
}

/* N 00 up to N (prefix) 00, backwards. */
static fdb_error_t start_before(struct prefix_check *check, FDBTransaction *tr,
                                const keel_directory_layer *layer, bool snapshot) {
    struct directory_key begin, end;
    directory_key_init(&begin);
    directory_key_init(&end);
    directory_key_append(&begin, layer->node_prefix);
    directory_key_append_byte(&begin, 0x00);
    directory_key_append(&end, directory_key_bytes(&check->node));
    directory_key_append_byte(&end, 0x00);
    fdb_error_t error = begin.error ? begin.error : end.error;
    if (!error)
        check->before = directory_read_one(tr, &begin, &end, true, snapshot);
    directory_key_free(&begin);
    directory_key_free(&end);
    return error;
}

/* N (prefix) up to N (successor of prefix). */
static fdb_error_t start_extending(struct prefix_check *check, FDBTransaction *tr,
                                   const keel_directory_layer *layer, keel_bytes prefix,
                                   bool snapshot) {
    struct directory_key successor, end;
    directory_key_init(&successor);
    directory_key_init(&end);
    directory_key_append(&successor, prefix);
    directory_key_to_successor(&successor);
    check->no_successor = successor.error == KEEL_ERROR_NO_SUCCESSOR;
    fdb_error_t error = check->no_successor ? 0 : successor.error;
    if (!error && !check->no_successor) {
        build_node(&end, layer, directory_key_bytes(&successor));
        error = end.error;
        if (!error)
            check->extending = directory_read_one(tr, &check->node, &end, false, snapshot);
    }
    directory_key_free(&successor);
    directory_key_free(&end);
    return error;
}

static fdb_error_t prefix_check_start(struct prefix_check *check, FDBTransaction *tr,
                                      const keel_directory_layer *layer, keel_bytes prefix,
                                      bool snapshot) {
    build_node(&check->node, layer, prefix);
    fdb_error_t error = check->node.error;
    if (!error)
        error = start_before(check, tr, layer, snapshot);
    if (!error)
        error = start_extending(check, tr, layer, prefix, snapshot);
    return error;
}

static fdb_error_t wait_one(FDBFuture *future, bool *found, keel_bytes *key) {
    const FDBKeyValue *pairs;
    int count;
    bool more;
    fdb_error_t error = directory_wait_pairs(future, &pairs, &count, &more);
    if (error)
        return error;
    *found = count > 0;
    *key =
        count > 0 ? (keel_bytes){pairs[0].key, (size_t)pairs[0].key_length} : (keel_bytes){NULL, 0};
    return 0;
}

/*
 * Is the prefix of the node before ours a beginning of ours? Byte strings are packed byte by byte,
 * so the packed forms, without the end mark, tell as well as the strings themselves.
 */
static fdb_error_t wait_before(const struct prefix_check *check, size_t node_prefix_length,
                               bool *contained) {
    bool found;
    keel_bytes key;
    fdb_error_t error = wait_one(check->before, &found, &key);
    if (error)
        return error;
    *contained = false;
    if (!found)
        return 0;
    keel_tuple_iterator iterator = keel_tuple_iterate_behind(key, node_prefix_length);
    keel_element element;
    error = keel_tuple_next(&iterator, &element);
    if (!error && element.type != KEEL_TYPE_BYTES)
        error = KEEL_ERROR_TUPLE_TYPE;
    if (error)
        return error;
    keel_bytes before = {key.data, iterator.position - 1};
    keel_bytes ours = {check->node.data, check->node.length - 1};
    *contained = directory_bytes_begin(ours, before);
    return 0;
}

static fdb_error_t prefix_check_wait(const struct prefix_check *check,
                                     const keel_directory_layer *layer, bool *is_free) {
    bool contained, extended;
    keel_bytes key;
    fdb_error_t error = wait_before(check, layer->node_prefix.length, &contained);
    if (error)
        return error;
    if (contained) {
        *is_free = false;
        return 0;
    }
    if (check->no_successor)
        return KEEL_ERROR_NO_SUCCESSOR;
    error = wait_one(check->extending, &extended, &key);
    if (!error)
        *is_free = !extended;
    return error;
}

fdb_error_t directory_prefix_check(FDBTransaction *tr, const keel_directory_layer *layer,
                                   keel_bytes prefix) {
    if (prefix.length == 0 || directory_bytes_begin(prefix, layer->node_prefix))
        return KEEL_ERROR_DIRECTORY_PREFIX_IN_USE;
    struct prefix_check check = {0};
    bool is_free = false;
    directory_key_init(&check.node);
    fdb_error_t error = prefix_check_start(&check, tr, layer, prefix, false);
    if (!error)
        error = prefix_check_wait(&check, layer, &is_free);
    prefix_check_free(&check);
    return error ? error : is_free ? 0 : KEEL_ERROR_DIRECTORY_PREFIX_IN_USE;
}

/* The checks of an allocated prefix: no contents, then no directory in the way. */
static fdb_error_t check_allocated(FDBTransaction *tr, const keel_directory_layer *layer,
                                   const struct directory_key *key) {
    keel_bytes prefix = directory_key_bytes(key);
    bool in_nodes = directory_bytes_begin(prefix, layer->node_prefix);
    bool filled = false, is_free = false;
    keel_bytes found;
    struct prefix_check check = {0};
    directory_key_init(&check.node);
    fdb_error_t error = start_contents(&check, tr, key);
    if (!error && !in_nodes)
        error = prefix_check_start(&check, tr, layer, prefix, true);
    if (!error)
        error = wait_one(check.contents, &filled, &found);
    if (!error && filled)
        error = KEEL_ERROR_DIRECTORY_PREFIX_NOT_EMPTY;
    if (!error && !in_nodes)
        error = prefix_check_wait(&check, layer, &is_free);
    prefix_check_free(&check);
    return error ? error : is_free ? 0 : KEEL_ERROR_DIRECTORY_PREFIX_IN_USE;
}

fdb_error_t directory_prefix_allocate(FDBTransaction *tr, const keel_directory_layer *layer,
                                      struct directory_key *prefix) {
    struct directory_key allocator;
    int64_t integer;
    directory_key_init(&allocator);
    build_node(&allocator, layer, layer->node_prefix);
    directory_key_append_bytes(&allocator, allocator_name);
    fdb_error_t error = allocator.error;
    if (!error)
        error = allocator_allocate(tr, directory_key_bytes(&allocator), &integer);
    directory_key_free(&allocator);
    if (error)
        return error;
    directory_key_reset(prefix);
    directory_key_append(prefix, layer->content_prefix);
    directory_key_append_integer(prefix, integer);
    return prefix->error ? prefix->error : check_allocated(tr, layer, prefix);
}

/* ---- Writing ---- */

fdb_error_t directory_entry_write(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes parent, keel_bytes name, keel_bytes prefix) {
    struct directory_key key;
    directory_key_init(&key);
    build_entry(&key, layer, parent, name);
    fdb_error_t error = key.error;
    if (!error)
        fdb_transaction_set(tr, key.data, (int)key.length, prefix.data, (int)prefix.length);
    directory_key_free(&key);
    return error;
}

fdb_error_t directory_entry_clear(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes parent, keel_bytes name) {
    struct directory_key key;
    directory_key_init(&key);
    build_entry(&key, layer, parent, name);
    fdb_error_t error = key.error;
    if (!error)
        fdb_transaction_clear(tr, key.data, (int)key.length);
    directory_key_free(&key);
    return error;
}

fdb_error_t directory_tag_write(FDBTransaction *tr, const keel_directory_layer *layer,
                                keel_bytes prefix, keel_bytes tag) {
    struct directory_key key;
    directory_key_init(&key);
    build_tag(&key, layer, prefix);
    fdb_error_t error = key.error;
    if (!error)
        fdb_transaction_set(tr, key.data, (int)key.length,
                            tag.length > 0 ? tag.data : (const uint8_t *)"", (int)tag.length);
    directory_key_free(&key);
    return error;
}

/* ---- Entries of a node ---- */

/* A walk over the entries of a node, page by page. */
struct entries {
    struct directory_key begin, end;
    size_t name_offset; /* where the packed name begins in a key */
    FDBFuture *page;
};

static void entries_init(struct entries *entries) {
    directory_key_init(&entries->begin);
    directory_key_init(&entries->end);
    entries->page = NULL;
}

static void entries_free(struct entries *entries) {
    directory_future_drop(&entries->page);
    directory_key_free(&entries->begin);
    directory_key_free(&entries->end);
}

/* Starts the first page. */
static fdb_error_t entries_start(struct entries *entries, FDBTransaction *tr,
                                 const keel_directory_layer *layer, keel_bytes prefix,
                                 bool snapshot) {
    build_node(&entries->begin, layer, prefix);
    directory_key_append_integer(&entries->begin, ENTRIES);
    entries->name_offset = entries->begin.length;
    directory_key_append(&entries->end, directory_key_bytes(&entries->begin));
    directory_key_append_byte(&entries->begin, 0x00);
    directory_key_append_byte(&entries->end, 0xff);
    fdb_error_t error = entries->begin.error ? entries->begin.error : entries->end.error;
    if (!error)
        entries->page = directory_read_many(tr, &entries->begin, &entries->end, snapshot);
    return error;
}

/* Waits for the page under way; its pairs last until entries_next. */
static fdb_error_t entries_wait(const struct entries *entries, const FDBKeyValue **pairs,
                                int *count, bool *more) {
    return directory_wait_pairs(entries->page, pairs, count, more);
}

/* Starts the page behind `last`. */
static fdb_error_t entries_next(struct entries *entries, FDBTransaction *tr,
                                const FDBKeyValue *last, bool snapshot) {
    directory_key_reset(&entries->begin);
    directory_key_append(&entries->begin, keel_bytes_of(last->key, (size_t)last->key_length));
    directory_key_append_byte(&entries->begin, 0x00);
    directory_future_drop(&entries->page);
    if (!entries->begin.error)
        entries->page = directory_read_many(tr, &entries->begin, &entries->end, snapshot);
    return entries->begin.error;
}

/* ---- Listing ---- */

/* Unpacks the name of an entry into `name` and calls the visitor. */
static fdb_error_t visit_entry(const struct entries *entries, const FDBKeyValue *pair,
                               struct directory_key *name, keel_directory_visitor visit,
                               void *context) {
    keel_bytes key = {pair->key, (size_t)pair->key_length};
    keel_tuple_iterator iterator = keel_tuple_iterate_behind(key, entries->name_offset);
    keel_element element;
    fdb_error_t error = keel_tuple_next(&iterator, &element);
    if (!error && element.type != KEEL_TYPE_STRING)
        error = KEEL_ERROR_TUPLE_TYPE;
    if (error)
        return error;
    /* 00 is packed as 00 ff. */
    directory_key_reset(name);
    keel_bytes packed = element.value.as_bytes;
    for (size_t i = 0; i < packed.length; i++) {
        directory_key_append_byte(name, packed.data[i]);
        if (element.escaped && packed.data[i] == 0x00)
            i++;
    }
    return name->error ? name->error : visit(context, directory_key_bytes(name));
}

static fdb_error_t list_pages(struct entries *entries, FDBTransaction *tr, bool snapshot,
                              keel_directory_visitor visit, void *context) {
    struct directory_key name;
    bool more = true;
    fdb_error_t error = 0;
    directory_key_init(&name);
    while (more && !error) {
        const FDBKeyValue *pairs;
        int count;
        error = entries_wait(entries, &pairs, &count, &more);
        if (error)
            break;
        for (int i = 0; i < count && !error; i++)
            error = visit_entry(entries, &pairs[i], &name, visit, context);
        more = more && count > 0;
        if (!error && more)
            error = entries_next(entries, tr, &pairs[count - 1], snapshot);
    }
    directory_key_free(&name);
    return error;
}

fdb_error_t directory_tree_list(FDBTransaction *tr, const keel_directory_layer *layer,
                                keel_bytes prefix, bool snapshot, keel_directory_visitor visit,
                                void *context) {
    struct entries entries;
    entries_init(&entries);
    fdb_error_t error = entries_start(&entries, tr, layer, prefix, snapshot);
    if (!error)
        error = list_pages(&entries, tr, snapshot, visit, context);
    entries_free(&entries);
    return error;
}

/* ---- Removing ---- */

/* A stack of prefixes in one block: each followed by its length. */
static void push_prefix(struct directory_key *stack, keel_bytes prefix) {
    directory_key_append(stack, prefix);
    directory_key_append(stack, keel_bytes_of(&prefix.length, sizeof prefix.length));
}

/* REQUIRES: the stack is not empty. */
static void pop_prefix(struct directory_key *stack, struct directory_key *prefix) {
    size_t length;
    stack->length -= sizeof length;
    memcpy(&length, stack->data + stack->length, sizeof length);
    stack->length -= length;
    directory_key_reset(prefix);
    directory_key_append(prefix, keel_bytes_of(stack->data + stack->length, length));
}

/* One node that is being removed. */
struct removal {
    struct directory_key prefix;
    struct entries entries;
};

enum { REMOVALS_AT_ONCE = 16 };

static void clear_between(FDBTransaction *tr, const struct directory_key *begin,
                          const struct directory_key *end) {
    fdb_transaction_clear_range(tr, begin->data, (int)begin->length, end->data, (int)end->length);
}

/* Clears the contents under the prefix and all keys of the node. */
static fdb_error_t clear_node(FDBTransaction *tr, const keel_directory_layer *layer,
                              const struct directory_key *prefix) {
    struct directory_key successor, begin, end;
    directory_key_init(&successor);
    directory_key_init(&begin);
    directory_key_init(&end);
    directory_key_append(&successor, directory_key_bytes(prefix));
    directory_key_to_successor(&successor);
    build_node(&begin, layer, directory_key_bytes(prefix));
    directory_key_append_byte(&begin, 0x00);
    build_node(&end, layer, directory_key_bytes(prefix));
    directory_key_append_byte(&end, 0xff);
    fdb_error_t error = successor.error;
    if (!error)
        error = begin.error ? begin.error : end.error;
    if (!error) {
        clear_between(tr, prefix, &successor);
        clear_between(tr, &begin, &end);
    }
    directory_key_free(&successor);
    directory_key_free(&begin);
    directory_key_free(&end);
    return error;
}

/* Takes all subdirectories of a node onto the stack, then clears it. */
static fdb_error_t finish_removal(struct removal *removal, FDBTransaction *tr,
                                  const keel_directory_layer *layer, struct directory_key *stack) {
    bool more = true;
    fdb_error_t error = 0;
    while (more && !error) {
        const FDBKeyValue *pairs;
        int count;
        error = entries_wait(&removal->entries, &pairs, &count, &more);
        if (error)
            break;
        for (int i = 0; i < count; i++)
            push_prefix(stack, keel_bytes_of(pairs[i].value, (size_t)pairs[i].value_length));
        error = stack->error;
        more = more && count > 0;
        if (!error && more)
            error = entries_next(&removal->entries, tr, &pairs[count - 1], false);
    }
    return error ? error : clear_node(tr, layer, &removal->prefix);
}

/* Takes some nodes from the stack and removes them. */
static fdb_error_t remove_some(FDBTransaction *tr, const keel_directory_layer *layer,
                               struct directory_key *stack, struct removal *removals) {
    int count = 0;
    fdb_error_t error = 0;
    while (!error && count < REMOVALS_AT_ONCE && stack->length > 0) {
        struct removal *removal = &removals[count++];
        directory_key_init(&removal->prefix);
        entries_init(&removal->entries);
        pop_prefix(stack, &removal->prefix);
        error = removal->prefix.error;
        if (!error)
            error = entries_start(&removal->entries, tr, layer,
                                  directory_key_bytes(&removal->prefix), false);
    }
    for (int i = 0; i < count && !error; i++)
        error = finish_removal(&removals[i], tr, layer, stack);
    for (int i = 0; i < count; i++) {
        directory_key_free(&removals[i].prefix);
        entries_free(&removals[i].entries);
    }
    return error;
}

fdb_error_t directory_tree_remove(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes prefix) {
    struct directory_key stack;
    fdb_error_t error = 0;
    struct removal *removals = malloc(REMOVALS_AT_ONCE * sizeof *removals);
    if (!removals)
        return DIRECTORY_NO_MEMORY;
    directory_key_init(&stack);
    push_prefix(&stack, prefix);
    error = stack.error;
    while (!error && stack.length > 0)
        error = remove_some(tr, layer, &stack, removals);
    directory_key_free(&stack);
    free(removals);
    return error;
}
