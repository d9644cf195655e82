/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory layer's rules, held against its rows.
 *
 * All rows of a layer's nodes lie under its node prefix N (fe; for a partition with prefix P: P fe), in this form:
 *
 *     N (prefix, 0, name)            → prefix of the subdirectory `name`
 *     N (prefix, "layer")            → tag
 *     N (N, "version")               → 1, 0, 0, four bytes each
 *     N (N, "hca", 0, start)         → draws from the allocator's window at `start`
 *     N (N, "hca", 1, integer)       → "": drawn
 *
 * One scan collects nodes and entries. Rows come in the order of prefixes, so the nodes are sorted as they are collected. Then:
 *
 *   1. every row has one of these forms (unless none has: then there are no directories, and the keys are somebody's), the version is one we know, names
 *      are UTF-8;
 *   2. every entry leads to a node that has a tag, and every node but the root has exactly one entry: with that, all can be reached from the root, or form a
 *      ring that nobody reaches, which is found too;
 *   3. no prefix is empty, or the beginning of another or of N; inside a partition all begin with P;
 *   4. the allocator counts at least as many draws as there are integers drawn in its newest window. That a directory has a prefix which the
 *      allocator has still to hand out is a remark: prefixes can be chosen by hand;
 *   5. a partition has no entries in the layer around it; the layer inside is checked in turn.
 *
 * Memory: all directories of a layer, none of their contents.
 */
#include "layer_check.h"

#include <stdarg.h>
#include <stdlib.h>

#include "util/coding.h"

/* ---- Findings ---- */

static void find(struct findings *findings, bool damage, const char *where, const char *format, va_list arguments) {
    char text[2048];
    vsnprintf(text, sizeof text, format, arguments);
    if (damage)
        findings->damages++;
    else
        findings->remarks++;
    findings->tell(findings->context, damage, findings->kind ? findings->kind : "database", where, text);
}

void find_damage(struct findings *findings, const char *where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    find(findings, true, where, format, arguments);
    va_end(arguments);
}

void find_remark(struct findings *findings, const char *where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    find(findings, false, where, format, arguments);
    va_end(arguments);
}

const char *shown(keel_bytes bytes) {
    enum { RING = 4, SHOWN_BYTES_MAX = 200 };
    static char ring[RING][1024];
    static int next;
    char *text = ring[next++ % RING];
    struct buffer buffer = {0};
    bool cut = bytes.length > SHOWN_BYTES_MAX;
    if (cut)
        bytes.length = SHOWN_BYTES_MAX;
    text_from_bytes(NULL, bytes, &buffer);
    snprintf(text, sizeof ring[0], "%.*s%s", (int)buffer.length, buffer.data ? (const char *)buffer.data : "", cut ? "…" : "");
    buffer_free(&buffer);
    return text;
}

/* ---- What a scan collects ---- */

enum { NONE = -1, STRANGERS_MAX = 1000 };

struct node {
    struct buffer prefix, tag;
    bool has_tag;
    long entry;      /* the one that leads here, or NONE */
    size_t children; /* entries that begin here */
    bool reached;
};

struct entry {
    size_t parent; /* node */
    struct buffer name, child;
};

struct layer {
    struct snapshot *snapshot;
    struct findings *findings;
    struct directory_list *list;
    const char *path;        /* of the partition; "/" */
    keel_bytes node_prefix;  /* N */
    keel_bytes content;      /* P, or nothing */
    struct node *nodes;
    size_t node_count, node_capacity;
    struct entry *entries;
    size_t entry_count, entry_capacity;
    bool has_version;
    int64_t window;      /* where the newest one starts */
    uint64_t draws, takings; /* in it */
    struct buffer takings_list; /* integers drawn, 8 bytes each */
    struct entry *strangers;    /* rows of no known form, the key in `name`; the first STRANGERS_MAX */
    size_t stranger_count, stranger_capacity;
};

static keel_bytes bytes_of(const struct buffer *buffer) { return keel_bytes_of(buffer->data, buffer->length); }

/* Room for one more element of `size` bytes. */
static bool grow(void **items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return true;
    size_t larger = *capacity ? *capacity * 2 : 64;
    void *moved = realloc(*items, larger * size);
    if (!moved)
        return false;
    *items = moved;
    *capacity = larger;
    return true;
}

/* The node of a prefix, which is the last one or a new one behind it. */
static struct node *node_for(struct layer *layer, keel_bytes prefix) {
    if (layer->node_count && keel_bytes_compare(bytes_of(&layer->nodes[layer->node_count - 1].prefix), prefix) == 0)
        return &layer->nodes[layer->node_count - 1];
    if (!grow((void **)&layer->nodes, layer->node_count, &layer->node_capacity, sizeof *layer->nodes))
        return NULL;
    struct node *node = &layer->nodes[layer->node_count];
    *node = (struct node){.entry = NONE};
    if (!buffer_append(&node->prefix, prefix.data, prefix.length))
        return NULL;
    layer->node_count++;
    return node;
}

static long node_find(const struct layer *layer, keel_bytes prefix) {
    size_t low = 0, high = layer->node_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = keel_bytes_compare(bytes_of(&layer->nodes[middle].prefix), prefix);
        if (order == 0)
            return (long)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NONE;
}

static bool is_root(const struct layer *layer, const struct node *node) { return keel_bytes_compare(bytes_of(&node->prefix), layer->node_prefix) == 0; }

static bool begins(keel_bytes bytes, keel_bytes beginning) {
    return bytes.length >= beginning.length && (beginning.length == 0 || memcmp(bytes.data, beginning.data, beginning.length) == 0);
}

/* ---- Rows ---- */

static int64_t window_size(int64_t start) { return start < 255 ? 64 : start < 65535 ? 1024 : 8192; }

/* (0, start) = draws, or (1, integer) = "". False: it is neither. */
static bool take_allocator_row(struct layer *layer, keel_tuple_iterator *at, keel_bytes value) {
    int64_t kind, number;
    if (keel_tuple_next_int(at, &kind) || keel_tuple_next_int(at, &number) || !keel_tuple_at_end(at) || number < 0 || (kind != 0 && kind != 1))
        return false;
    if (kind == 0) { /* all counters come before all takings */
        if (value.length != 8)
            return false;
        layer->window = number;
        layer->draws = coding_get_u64(value.data);
        return true;
    }
    if (number >= layer->window && number < layer->window + window_size(layer->window))
        layer->takings++;
    return value.length == 0 && buffer_append(&layer->takings_list, &number, sizeof number);
}

static void take_version(struct layer *layer, keel_bytes value) {
    layer->has_version = true;
    if (value.length != 12)
        find_damage(layer->findings, layer->path, "the version of the directory layer has %zu bytes and not 12", value.length);
    else if (coding_get_u32(value.data) > 1)
        find_damage(layer->findings, layer->path, "the directories have version %u.%u, which nobody knows here", coding_get_u32(value.data), coding_get_u32(value.data + 4));
    else if (coding_get_u32(value.data + 4) > 0)
        find_remark(layer->findings, layer->path, "the directories were written by a newer version of the layer and are read only");
}

static bool is_name(const keel_element *element, const char *name) {
    return element->type == KEEL_TYPE_BYTES && !element->escaped && keel_bytes_compare(element->value.as_bytes, keel_bytes_of_string(name)) == 0;
}

static fdb_error_t take_entry(struct layer *layer, struct node *parent, const keel_element *name, keel_bytes child) {
    if (!grow((void **)&layer->entries, layer->entry_count, &layer->entry_capacity, sizeof *layer->entries))
        return ERROR_LARGE_ALLOC_FAILED;
    struct entry *entry = &layer->entries[layer->entry_count];
    *entry = (struct entry){.parent = (size_t)(parent - layer->nodes)};
    size_t length = name->value.as_bytes.length;
    entry->name.data = malloc(length + 1);
    entry->name.capacity = length + 1;
    if (!entry->name.data || keel_element_copy(name, entry->name.data, length, &entry->name.length) || !buffer_append(&entry->child, child.data, child.length)) {
        buffer_free(&entry->name);
        buffer_free(&entry->child);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    layer->entry_count++;
    parent->children++;
    if (!keel_element_is_utf8(name))
        find_damage(layer->findings, layer->path, "a directory's name is not UTF-8: %s", shown(bytes_of(&entry->name)));
    return 0;
}

/* What stands behind (prefix); false: nothing a directory layer writes. */
static bool take_node_row(struct layer *layer, keel_bytes prefix, keel_tuple_iterator *at, keel_bytes value, fdb_error_t *error) {
    keel_element kind, name;
    int64_t number;
    bool root = keel_bytes_compare(prefix, layer->node_prefix) == 0;
    if (keel_tuple_next(at, &kind))
        return false;
    if (root && is_name(&kind, "hca"))
        return take_allocator_row(layer, at, value);
    if (root && is_name(&kind, "version") && keel_tuple_at_end(at)) {
        take_version(layer, value);
        return true;
    }
    struct node *node = node_for(layer, prefix);
    if (!node) {
        *error = ERROR_LARGE_ALLOC_FAILED;
        return true;
    }
    if (is_name(&kind, "layer") && keel_tuple_at_end(at)) {
        node->has_tag = true;
        if (!buffer_append(&node->tag, value.data, value.length))
            *error = ERROR_LARGE_ALLOC_FAILED;
        return true;
    }
    if (keel_element_int(&kind, &number) || number != 0 || keel_tuple_next(at, &name) || name.type != KEEL_TYPE_STRING || !keel_tuple_at_end(at))
        return false;
    *error = take_entry(layer, node, &name, value);
    return true;
}

static fdb_error_t take_stranger(struct layer *layer, keel_bytes key) {
    if (layer->stranger_count == STRANGERS_MAX)
        return 0;
    if (!grow((void **)&layer->strangers, layer->stranger_count, &layer->stranger_capacity, sizeof *layer->strangers))
        return ERROR_LARGE_ALLOC_FAILED;
    struct entry *stranger = &layer->strangers[layer->stranger_count];
    *stranger = (struct entry){0};
    if (!buffer_append(&stranger->name, key.data, key.length))
        return ERROR_LARGE_ALLOC_FAILED;
    layer->stranger_count++;
    return 0;
}

static fdb_error_t take_row(struct layer *layer, const struct row *row) {
    keel_tuple_iterator at = keel_tuple_iterate_behind(row->key, layer->node_prefix.length);
    keel_element element;
    uint8_t prefix[10000];
    size_t length;
    fdb_error_t error = 0;
    bool known = !keel_tuple_next(&at, &element) && element.type == KEEL_TYPE_BYTES && !keel_element_copy(&element, prefix, sizeof prefix, &length) &&
                 take_node_row(layer, keel_bytes_of(prefix, length), &at, row->value, &error);
    return known ? error : take_stranger(layer, row->key);
}

static fdb_error_t collect(struct layer *layer) {
    uint8_t end[10001];
    size_t length;
    struct cursor cursor;
    struct row row;
    bool present = true;
    fdb_error_t error = keel_strinc(layer->node_prefix, end, sizeof end, &length);
    if (!error)
        error = cursor_open(layer->snapshot, layer->node_prefix, keel_bytes_of(end, length), &cursor);
    if (error)
        return error;
    while (!error && !(error = cursor_next(&cursor, &row, &present)) && present)
        error = take_row(layer, &row);
    cursor_close(&cursor);
    return error;
}

/* ---- Rules ---- */

static char *path_of(const struct layer *layer, size_t index, int depth);

/* "/app/users", malloc'ed: where an entry stands. NULL without memory. */
static char *path_of_entry(const struct layer *layer, const struct entry *entry, int depth) {
    char *above = path_of(layer, entry->parent, depth);
    keel_bytes name = bytes_of(&entry->name);
    struct buffer text = {0}, last = {0};
    text_from_path((keel_path){&name, 1}, &last);
    bool made = above && buffer_append(&text, above, strlen(above)) && buffer_append(&text, last.data, last.length) && buffer_append(&text, "", 1);
    free(above);
    buffer_free(&last);
    if (!made)
        buffer_free(&text);
    return (char *)text.data;
}

/* The path of a node; nothing for the root, or where nobody leads to it. */
static char *path_of(const struct layer *layer, size_t index, int depth) {
    const struct node *node = &layer->nodes[index];
    if (is_root(layer, node) || node->entry == NONE || depth > 200)
        return strdup(strcmp(layer->path, "/") == 0 ? "" : layer->path);
    return path_of_entry(layer, &layer->entries[node->entry], depth + 1);
}

static fdb_error_t follow_entry(struct layer *layer, size_t index) {
    struct entry *entry = &layer->entries[index];
    long found = node_find(layer, bytes_of(&entry->child));
    struct node *node = found == NONE ? NULL : &layer->nodes[found];
    bool root = node && is_root(layer, node);
    if (node && !root && node->entry == NONE && node->has_tag) {
        node->entry = (long)index;
        return 0;
    }
    char *path = path_of_entry(layer, entry, 0);
    if (!path)
        return ERROR_LARGE_ALLOC_FAILED;
    if (!node || root)
        find_damage(layer->findings, path, "the entry leads to the prefix %s, which is no directory's", shown(bytes_of(&entry->child)));
    else if (node->entry != NONE) {
        char *other = path_of(layer, (size_t)found, 0);
        find_damage(layer->findings, path, "a second entry, beside %s, leads to the prefix %s", other ? other : "another", shown(bytes_of(&entry->child)));
        free(other);
    } else {
        find_damage(layer->findings, path, "the directory with prefix %s has no layer tag", shown(bytes_of(&entry->child)));
        node->entry = (long)index;
    }
    free(path);
    return 0;
}

/* Marks what the root leads to. Every node has one entry by now, so going up from each decides. */
static void reach(struct layer *layer) {
    for (size_t i = 0; i < layer->node_count; i++) {
        size_t at = i, steps = 0;
        while (!is_root(layer, &layer->nodes[at]) && layer->nodes[at].entry != NONE && steps++ <= layer->node_count)
            at = layer->entries[layer->nodes[at].entry].parent;
        layer->nodes[i].reached = is_root(layer, &layer->nodes[at]);
    }
}

static void check_reached(struct layer *layer) {
    for (size_t i = 0; i < layer->node_count; i++) {
        if (!layer->nodes[i].reached)
            find_damage(layer->findings, layer->path, "the directory with prefix %s cannot be reached from the root", shown(bytes_of(&layer->nodes[i].prefix)));
    }
}

static void check_prefixes(struct layer *layer) {
    for (size_t i = 0; i < layer->node_count; i++) {
        const struct node *node = &layer->nodes[i];
        keel_bytes prefix = bytes_of(&node->prefix);
        char *path = path_of(layer, i, 0);
        const char *where = path && *path ? path : layer->path;
        if (!is_root(layer, node) && (prefix.length <= layer->content.length || !begins(prefix, layer->content)))
            find_damage(layer->findings, where, "the prefix %s is empty or lies outside of the partition", shown(prefix));
        if (i + 1 < layer->node_count && begins(bytes_of(&layer->nodes[i + 1].prefix), prefix))
            find_damage(layer->findings, where, "the prefix %s is the beginning of another directory's, %s: their contents overlap", shown(prefix),
                        shown(bytes_of(&layer->nodes[i + 1].prefix)));
        free(path);
    }
}

static void check_strangers(struct layer *layer) {
    bool any = layer->node_count > 0 || layer->has_version;
    for (size_t i = 0; i < layer->stranger_count && any; i++)
        find_damage(layer->findings, layer->path, "a row among the directories is not one of theirs: %s", shown(bytes_of(&layer->strangers[i].name)));
}

static bool is_taken(const struct layer *layer, int64_t number) {
    size_t low = 0, high = layer->takings_list.length / sizeof number;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int64_t at;
        memcpy(&at, layer->takings_list.data + middle * sizeof at, sizeof at);
        if (at == number)
            return true;
        if (at < number)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void check_allocator(struct layer *layer) {
    if (layer->takings > layer->draws)
        find_damage(layer->findings, layer->path, "the allocator of prefixes has counted %llu draws from the window at %lld, and %llu integers of it are taken",
                    (unsigned long long)layer->draws, (long long)layer->window, (unsigned long long)layer->takings);
    for (size_t i = 0; i < layer->node_count; i++) {
        keel_bytes prefix = bytes_of(&layer->nodes[i].prefix);
        int64_t number;
        keel_tuple_iterator at = keel_tuple_iterate_behind(prefix, layer->content.length);
        if (is_root(layer, &layer->nodes[i]) || !begins(prefix, layer->content) || keel_tuple_next_int(&at, &number) || !keel_tuple_at_end(&at))
            continue;
        if (number >= layer->window && !is_taken(layer, number)) {
            char *path = path_of(layer, i, 0);
            find_remark(layer->findings, path && *path ? path : layer->path,
                        "the allocator does not know of the prefix %s and may try to hand it out again, which creating a directory then refuses", shown(prefix));
            free(path);
        }
    }
}

static bool is_partition(const struct node *node) { return keel_bytes_compare(bytes_of(&node->tag), keel_bytes_of("partition", 9)) == 0; }

static fdb_error_t list_directory(struct layer *layer, size_t index) {
    struct directory_list *list = layer->list;
    if (!grow((void **)&list->items, list->count, &list->capacity, sizeof *list->items))
        return ERROR_LARGE_ALLOC_FAILED;
    struct found_directory *item = &list->items[list->count];
    const struct node *node = &layer->nodes[index];
    *item = (struct found_directory){.path = path_of(layer, index, 0)};
    list->count++;
    if (!item->path || !buffer_append(&item->prefix, node->prefix.data, node->prefix.length) || !buffer_append(&item->tag, node->tag.data, node->tag.length))
        return ERROR_LARGE_ALLOC_FAILED;
    return 0;
}

/* ---- A layer, and those inside it ---- */

static void layer_free(struct layer *layer) {
    for (size_t i = 0; i < layer->node_count; i++) {
        buffer_free(&layer->nodes[i].prefix);
        buffer_free(&layer->nodes[i].tag);
    }
    for (size_t i = 0; i < layer->entry_count; i++) {
        buffer_free(&layer->entries[i].name);
        buffer_free(&layer->entries[i].child);
    }
    for (size_t i = 0; i < layer->stranger_count; i++)
        buffer_free(&layer->strangers[i].name);
    free(layer->nodes);
    free(layer->entries);
    free(layer->strangers);
    buffer_free(&layer->takings_list);
}

static fdb_error_t check_layer(struct snapshot *snapshot, struct findings *findings, struct directory_list *list, const char *path, keel_bytes content);

/* Lists the node, and goes into it if it is a partition. */
static fdb_error_t visit_node(struct layer *layer, size_t index) {
    const struct node *node = &layer->nodes[index];
    if (is_root(layer, node) || !node->reached)
        return 0;
    size_t listed = layer->list->count;
    fdb_error_t error = list_directory(layer, index);
    if (error || !is_partition(node))
        return error;
    char *path = strdup(layer->list->items[listed].path);
    if (!path)
        return ERROR_LARGE_ALLOC_FAILED;
    if (node->children)
        find_damage(layer->findings, path, "the partition has %zu entries in the layer around it, where nobody looks for them", node->children);
    error = check_layer(layer->snapshot, layer->findings, layer->list, path, bytes_of(&node->prefix));
    free(path);
    return error;
}

static fdb_error_t check_layer(struct snapshot *snapshot, struct findings *findings, struct directory_list *list, const char *path, keel_bytes content) {
    struct buffer node_prefix = {0};
    if (!buffer_append(&node_prefix, content.data, content.length) || !buffer_append(&node_prefix, "\xfe", 1)) {
        buffer_free(&node_prefix);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    struct layer layer = {
        .snapshot = snapshot, .findings = findings, .list = list, .path = path, .node_prefix = bytes_of(&node_prefix), .content = content};
    fdb_error_t error = collect(&layer);
    for (size_t i = 0; i < layer.entry_count && !error; i++)
        error = follow_entry(&layer, i);
    if (!error) {
        if (!layer.has_version && layer.node_count)
            find_damage(findings, path, "there are directories, but the version of the directory layer is missing");
        check_strangers(&layer);
        reach(&layer);
        check_reached(&layer);
        check_prefixes(&layer);
        check_allocator(&layer);
    }
    for (size_t i = 0; i < layer.node_count && !error; i++)
        error = visit_node(&layer, i);
    layer_free(&layer);
    buffer_free(&node_prefix);
    return error;
}

fdb_error_t check_directories(struct snapshot *snapshot, struct findings *findings, struct directory_list *list) {
    findings->kind = "directory";
    fdb_error_t error = check_layer(snapshot, findings, list, "/", keel_bytes_of("", 0));
    findings->kind = NULL;
    return error;
}

void directory_list_free(struct directory_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].path);
        buffer_free(&list->items[i].prefix);
        buffer_free(&list->items[i].tag);
    }
    free(list->items);
    *list = (struct directory_list){0};
}
