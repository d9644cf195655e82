/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of all directories, so that a key can be shown as /app/users("id", 7).
 *
 * A directory's node knows its subdirectories, not its own name; so the way from a prefix to a path leads through all of them. They are read as they
 * lie in the database (layers/directory_node.c has the layout), in one pass over the nodes of a layer and one more for each partition, which is a layer
 * of its own:
 *
 *     N (prefix, 0, name)    →  the prefix of the subdirectory `name`
 *     N (prefix, "layer")    →  its tag; "partition": N of the layer inside is prefix fe
 *
 * All entries are collected first, then paths are put together from the root downwards. Entries that make no sense are passed over: this is for
 * showing, `keel check` is for judging. More than NAMES_MAX directories are not loaded: keys then appear as tuples.
 *
 * Reads are snapshot reads, so that showing a key conflicts with nothing. One thread.
 */
#include "core.h"

#include <stdlib.h>

enum { NAMES_MAX = 100000, DEPTH_MAX = 100, BATCH_ROWS = 1000 };

struct name {
    struct buffer prefix; /* of its keys */
    struct buffer parent; /* the prefix of the node it is an entry of */
    struct buffer path;   /* as text; empty until it is known */
    struct buffer own;    /* the last name, as bytes */
    size_t layer;         /* which of the layers it belongs to */
    bool partition;
};

struct layer {
    struct buffer node_prefix;
    struct buffer path; /* of the partition; empty for the root */
};

struct directory_names {
    struct name *names; /* sorted by prefix when loaded */
    size_t count, capacity;
    struct layer *layers;
    size_t layer_count;
    size_t longest;  /* of the prefixes */
    size_t *by_path; /* indexes in the order of paths */
};

static void *grow(void *array, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(array, *capacity * size);
    if (!grown) {
        fputs("keel: out of memory\n", stderr);
        exit(EXIT_FAILED);
    }
    return grown;
}

static int compare_buffers(const struct buffer *a, const struct buffer *b) {
    return keel_bytes_compare(keel_bytes_of(a->data, a->length), keel_bytes_of(b->data, b->length));
}

static int compare_names(const void *a, const void *b) {
    return compare_buffers(&((const struct name *)a)->prefix, &((const struct name *)b)->prefix);
}

static struct name *find_prefix(const struct directory_names *names, const uint8_t *data, size_t length) {
    struct name wanted = {.prefix = {(uint8_t *)(uintptr_t)data, length, length}};
    return names->count ? bsearch(&wanted, names->names, names->count, sizeof wanted, compare_names) : NULL;
}

/* ---- Reading a layer ---- */

static void copy_element(const keel_element *element, struct buffer *bytes) {
    size_t length = 0;
    bytes->length = 0;
    keel_element_copy(element, NULL, 0, &length);
    for (size_t i = 0; i < length; i++)
        buffer_append(bytes, "", 1);
    buffer_text(bytes);
    keel_element_copy(element, bytes->data, length, &length);
}

/* A row of the nodes: an entry is remembered, a tag noted by marking its directory. */
static void take_row(struct directory_names *names, size_t layer, const FDBKeyValue *row, struct buffer *partitions) {
    size_t skipped = names->layers[layer].node_prefix.length;
    keel_element elements[3];
    size_t count = 0;
    keel_bytes packed = keel_bytes_of(row->key + skipped, (size_t)row->key_length - skipped);
    if (keel_tuple_unpack(packed, elements, 3, &count, NULL) != 0 || count < 2 || elements[0].type != KEEL_TYPE_BYTES)
        return;
    struct buffer first = {0}, second = {0};
    copy_element(&elements[0], &first);
    int64_t kind = -1;
    if (count == 3 && keel_element_int(&elements[1], &kind) == 0 && kind == 0 && elements[2].type == KEEL_TYPE_STRING) {
        names->names = grow(names->names, names->count, &names->capacity, sizeof *names->names);
        struct name *name = &names->names[names->count++];
        *name = (struct name){.layer = layer};
        buffer_append(&name->prefix, row->value, (size_t)row->value_length);
        buffer_append(&name->parent, first.data, first.length);
        copy_element(&elements[2], &name->own);
    } else if (count == 2 && elements[1].type == KEEL_TYPE_BYTES && row->value_length == 9 && memcmp(row->value, "partition", 9) == 0) {
        uint32_t length = (uint32_t)first.length;
        copy_element(&elements[1], &second);
        if (second.length == 5 && memcmp(second.data, "layer", 5) == 0) {
            buffer_append(partitions, &length, sizeof length);
            buffer_append(partitions, first.data, first.length);
        }
    }
    buffer_free(&first);
    buffer_free(&second);
}

/* All rows under the node prefix. */
static fdb_error_t read_layer(FDBTransaction *tr, struct directory_names *names, size_t layer, struct buffer *partitions) {
    struct buffer begin = {0}, end = {0};
    buffer_append(&begin, names->layers[layer].node_prefix.data, names->layers[layer].node_prefix.length);
    buffer_append(&end, begin.data, begin.length);
    end.data[end.length - 1]++; /* fe */
    fdb_error_t error = 0;
    fdb_bool_t more = 1;
    while (more && !error && names->count < NAMES_MAX && !session_interrupted()) {
        FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin.data, (int)begin.length),
                                                      FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, (int)end.length), BATCH_ROWS, 0,
                                                      FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
        const FDBKeyValue *rows;
        int count = 0;
        error = session_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
        for (int i = 0; i < count && !error; i++)
            take_row(names, layer, &rows[i], partitions);
        if (count > 0 && !error) {
            begin.length = 0;
            buffer_append(&begin, rows[count - 1].key, (size_t)rows[count - 1].key_length);
            buffer_append(&begin, "", 1);
        }
        fdb_future_destroy(future);
    }
    buffer_free(&begin);
    buffer_free(&end);
    return error;
}

/* ---- Paths ---- */

static void append_name(struct buffer *path, const struct buffer *name) {
    struct buffer one = {0};
    keel_bytes bytes = keel_bytes_of(name->data, name->length);
    text_from_path((keel_path){&bytes, 1}, &one);
    buffer_append(path, one.data, one.length);
    buffer_free(&one);
}

/* From the directory up to the root of its layer, then down again. False: the way up is broken or runs in a circle. */
static bool build_path(struct directory_names *names, struct name *name) {
    const struct name *chain[DEPTH_MAX];
    size_t depth = 0;
    const struct buffer *root = &names->layers[name->layer].node_prefix;
    for (const struct name *at = name; at; at = find_prefix(names, at->parent.data, at->parent.length)) {
        if (depth == DEPTH_MAX || at->layer != name->layer)
            return false;
        chain[depth++] = at;
        if (compare_buffers(&at->parent, root) == 0)
            break;
    }
    if (compare_buffers(&chain[depth - 1]->parent, root) != 0)
        return false;
    buffer_append(&name->path, names->layers[name->layer].path.data, names->layers[name->layer].path.length);
    while (depth > 0)
        append_name(&name->path, &chain[--depth]->own);
    buffer_text(&name->path);
    return true;
}

/* Sorts, builds the paths of a layer's directories, and adds its partitions as layers. */
static void finish_layer(struct directory_names *names, size_t layer, const struct buffer *partitions) {
    if (names->count > 0)
        qsort(names->names, names->count, sizeof *names->names, compare_names);
    for (size_t i = 0; i < names->count; i++) {
        if (names->names[i].layer == layer)
            build_path(names, &names->names[i]);
    }
    for (size_t at = 0; at < partitions->length;) {
        uint32_t length;
        memcpy(&length, partitions->data + at, sizeof length);
        struct name *name = find_prefix(names, partitions->data + at + sizeof length, length);
        at += sizeof length + length;
        if (!name || name->path.length == 0 || name->partition || names->layer_count >= NAMES_MAX)
            continue;
        name->partition = true;
        struct layer *grown = realloc(names->layers, (names->layer_count + 1) * sizeof *grown);
        if (!grown)
            continue;
        names->layers = grown;
        struct layer *inner = &names->layers[names->layer_count++];
        *inner = (struct layer){0};
        buffer_append(&inner->node_prefix, name->prefix.data, name->prefix.length);
        buffer_append(&inner->node_prefix, "\xfe", 1);
        buffer_append(&inner->path, name->path.data, name->path.length);
    }
}

static const struct directory_names *sorting;

static int compare_paths(const void *a, const void *b) {
    return compare_buffers(&sorting->names[*(const size_t *)a].path, &sorting->names[*(const size_t *)b].path);
}

static void sort_paths(struct directory_names *names) {
    names->by_path = calloc(names->count + 1, sizeof *names->by_path);
    for (size_t i = 0; i < names->count; i++) {
        if (names->by_path)
            names->by_path[i] = i;
        if (names->names[i].prefix.length > names->longest)
            names->longest = names->names[i].prefix.length;
    }
    sorting = names;
    if (names->by_path)
        qsort(names->by_path, names->count, sizeof *names->by_path, compare_paths);
}

fdb_error_t directory_names_load(FDBTransaction *tr, struct directory_names **result) {
    struct directory_names *names = calloc(1, sizeof *names);
    if (!names || !(names->layers = calloc(1, sizeof *names->layers))) {
        free(names);
        return 1501;
    }
    names->layer_count = 1;
    buffer_append(&names->layers[0].node_prefix, "\xfe", 1);
    fdb_error_t error = 0;
    for (size_t layer = 0; layer < names->layer_count && !error; layer++) {
        struct buffer partitions = {0};
        error = read_layer(tr, names, layer, &partitions);
        if (!error)
            finish_layer(names, layer, &partitions);
        buffer_free(&partitions);
    }
    if (error) {
        directory_names_free(names);
        return error;
    }
    sort_paths(names);
    *result = names;
    return 0;
}

void directory_names_free(struct directory_names *names) {
    if (!names)
        return;
    for (size_t i = 0; i < names->count; i++) {
        buffer_free(&names->names[i].prefix);
        buffer_free(&names->names[i].parent);
        buffer_free(&names->names[i].path);
        buffer_free(&names->names[i].own);
    }
    for (size_t i = 0; i < names->layer_count; i++) {
        buffer_free(&names->layers[i].node_prefix);
        buffer_free(&names->layers[i].path);
    }
    free(names->names);
    free(names->layers);
    free(names->by_path);
    free(names);
}

/* The longest prefix wins: directories of a partition lie under the partition's own, which is not for keys. */
const char *directory_names_find(const struct directory_names *names, keel_bytes key, size_t *prefix_length) {
    size_t length = key.length < names->longest ? key.length : names->longest;
    for (; length > 0; length--) {
        const struct name *name = find_prefix(names, key.data, length);
        if (name && (name->partition || name->path.length == 0))
            return NULL;
        if (name) {
            *prefix_length = length;
            return (const char *)name->path.data;
        }
    }
    return NULL;
}

size_t directory_names_count(const struct directory_names *names) {
    return names->by_path ? names->count : 0;
}

const char *directory_names_path(const struct directory_names *names, size_t index) {
    const struct name *name = &names->names[names->by_path[index]];
    return name->path.length ? (const char *)name->path.data : "";
}
