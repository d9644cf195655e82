/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory layers and opened directories: what they remember, and who owns it. Nothing here reads
 * or writes the database.
 *
 *     layer ◄──── directory               operations on a directory work in its layer
 *     layer ◄──── partition ────► layer   a partition has two: the one inside it, in which its
 *    (parent)                   (inside)  paths start, and the one that it is a directory of
 *
 * A layer counts its references: one of who created it, one of each directory and partition that
 * works in it, one of each partition that hangs in it, one of each operation under way. So a
 * directory outlives the partition and the layer through which it was opened. The layer inside a
 * partition needs nothing of the layer around it but the path, which it copies; that is why there
 * are no cycles.
 *
 * Layers and directories are one block of memory each: the structure, the names of the path, then
 * all bytes.
 *
 *   1. A layer is freed when its last reference goes; the static one never.
 *   2. directory.path begins with layer.root.path, except for a partition, where they are equal.
 *   3. The root of a layer is part of it and holds no reference.
 *
 * Threads: objects never change after they are made, but for the count, which is atomic.
 * Failure: 1501 without memory, and then nothing has happened.
 */
#include "directory_internal.h"

#include <stdlib.h>

#include "export.h"

static const uint8_t default_node_prefix[] = {0xfe};

static keel_directory_layer default_layer = {
    .fixed = true,
    .node_prefix = {default_node_prefix, sizeof default_node_prefix},
    .root = {.kind = DIRECTORY_ROOT_KIND, .layer = &default_layer},
};

/* ---- Paths ---- */

keel_path directory_path_first(keel_path path, size_t count) {
    return (keel_path){path.names, count};
}

keel_path directory_path_rest(keel_path path, size_t count) {
    return (keel_path){count == 0 ? path.names : path.names + count, path.count - count};
}

bool directory_paths_equal(keel_path a, keel_path b) {
    if (a.count != b.count)
        return false;
    for (size_t i = 0; i < a.count; i++)
        if (!directory_bytes_equal(a.names[i], b.names[i]))
            return false;
    return true;
}

fdb_error_t directory_path_check_pointers(keel_path path) {
    if (path.count > 0 && !path.names)
        return KEEL_ERROR_ARGUMENT;
    for (size_t i = 0; i < path.count; i++)
        if (path.names[i].length > 0 && !path.names[i].data)
            return KEEL_ERROR_ARGUMENT;
    return 0;
}

fdb_error_t directory_path_check_text(keel_path path) {
    struct directory_key scratch;
    fdb_error_t error = 0;
    directory_key_init(&scratch);
    for (size_t i = 0; i < path.count && !error; i++) {
        directory_key_reset(&scratch);
        directory_key_append_string(&scratch, path.names[i]);
        error = scratch.error;
    }
    directory_key_free(&scratch);
    return error;
}

/* ---- One block of memory ---- */

static size_t path_size(keel_path path) {
    size_t size = path.count * sizeof(keel_bytes);
    for (size_t i = 0; i < path.count; i++)
        size += path.names[i].length;
    return size;
}

/* Copies bytes to *next, which moves on. */
static keel_bytes copy_bytes(keel_bytes bytes, uint8_t **next) {
    keel_bytes copy = {*next, bytes.length};
    if (bytes.length > 0)
        memcpy(*next, bytes.data, bytes.length);
    *next += bytes.length;
    return copy;
}

/* Copies the names of one path behind another: the array to `names`, the bytes to *next. */
static keel_path copy_paths(keel_path first, keel_path second, keel_bytes *names, uint8_t **next) {
    size_t count = 0;
    for (size_t i = 0; i < first.count; i++)
        names[count++] = copy_bytes(first.names[i], next);
    for (size_t i = 0; i < second.count; i++)
        names[count++] = copy_bytes(second.names[i], next);
    return (keel_path){names, count};
}

/* ---- Layers ---- */

/* A layer at above + path, whose nodes lie under node_prefix + node_suffix. */
static keel_directory_layer *layer_new(keel_path above, keel_path path, keel_bytes node_prefix,
                                       keel_bytes node_suffix, keel_bytes content_prefix,
                                       bool manual_prefixes) {
    size_t name_count = above.count + path.count;
    keel_directory_layer *layer =
        malloc(sizeof *layer + path_size(above) + path_size(path) + node_prefix.length +
               node_suffix.length + content_prefix.length);
    if (!layer)
        return NULL;
    keel_bytes *names = (keel_bytes *)(layer + 1);
    uint8_t *next = (uint8_t *)(names + name_count);
    memset(layer, 0, sizeof *layer);
    atomic_init(&layer->references, 1);
    layer->manual_prefixes = manual_prefixes;
    layer->root.kind = DIRECTORY_ROOT_KIND;
    layer->root.layer = layer;
    layer->root.path = copy_paths(above, path, names, &next);
    layer->node_prefix = copy_bytes(node_prefix, &next);
    layer->node_prefix.length += copy_bytes(node_suffix, &next).length;
    layer->content_prefix = copy_bytes(content_prefix, &next);
    return layer;
}

KEEL_EXPORT keel_directory_layer *keel_directory_layer_default(void) {
    return &default_layer;
}

KEEL_EXPORT fdb_error_t keel_directory_layer_create(keel_bytes node_prefix,
                                                    keel_bytes content_prefix,
                                                    int allow_manual_prefixes,
                                                    keel_directory_layer **layer) {
    bool pointers_fine = (node_prefix.data || node_prefix.length == 0) &&
                         (content_prefix.data || content_prefix.length == 0);
    if (!layer || !pointers_fine)
        return KEEL_ERROR_ARGUMENT;
    keel_path none = {NULL, 0};
    keel_directory_layer *made = layer_new(none, none, node_prefix, (keel_bytes){NULL, 0},
                                           content_prefix, allow_manual_prefixes != 0);
    if (!made)
        return DIRECTORY_NO_MEMORY;
    *layer = made;
    return 0;
}

fdb_error_t directory_layer_inside(const keel_directory_layer *layer, keel_path path,
                                   keel_bytes prefix, keel_directory_layer **inside) {
    keel_bytes suffix = {default_node_prefix, sizeof default_node_prefix};
    keel_directory_layer *made = layer_new(layer->root.path, path, prefix, suffix, prefix, false);
    if (!made)
        return DIRECTORY_NO_MEMORY;
    *inside = made;
    return 0;
}

keel_directory_layer *directory_layer_retain(keel_directory_layer *layer) {
    if (!layer->fixed)
        atomic_fetch_add_explicit(&layer->references, 1, memory_order_relaxed);
    return layer;
}

void directory_layer_release(keel_directory_layer *layer) {
    if (!layer || layer->fixed)
        return;
    if (atomic_fetch_sub_explicit(&layer->references, 1, memory_order_acq_rel) == 1)
        free(layer);
}

KEEL_EXPORT void keel_directory_layer_destroy(keel_directory_layer *layer) {
    directory_layer_release(layer);
}

KEEL_EXPORT keel_directory *keel_directory_root(keel_directory_layer *layer) {
    return &layer->root;
}

/* ---- Directories ---- */

bool directory_tag_is_partition(keel_bytes tag) {
    return directory_bytes_equal(tag, keel_bytes_of("partition", 9));
}

fdb_error_t directory_new(keel_directory_layer *layer, keel_path path, keel_bytes prefix,
                          keel_bytes tag, keel_directory **directory) {
    keel_path above = layer->root.path;
    bool is_partition = directory_tag_is_partition(tag);
    keel_directory_layer *inside = NULL;
    if (is_partition) {
        fdb_error_t error = directory_layer_inside(layer, path, prefix, &inside);
        if (error)
            return error;
    }
    keel_directory *made =
        malloc(sizeof *made + path_size(above) + path_size(path) + prefix.length + tag.length);
    if (!made) {
        directory_layer_release(inside);
        return DIRECTORY_NO_MEMORY;
    }
    keel_bytes *names = (keel_bytes *)(made + 1);
    uint8_t *next = (uint8_t *)(names + above.count + path.count);
    made->kind = is_partition ? DIRECTORY_PARTITION_KIND : DIRECTORY_PLAIN_KIND;
    made->parent = is_partition ? directory_layer_retain(layer) : NULL;
    made->layer = is_partition ? inside : directory_layer_retain(layer);
    made->path = copy_paths(above, path, names, &next);
    made->prefix = copy_bytes(prefix, &next);
    made->tag = copy_bytes(tag, &next);
    *directory = made;
    return 0;
}

KEEL_EXPORT void keel_directory_close(keel_directory *directory) {
    if (!directory || directory->kind == DIRECTORY_ROOT_KIND)
        return;
    directory_layer_release(directory->layer);
    directory_layer_release(directory->parent);
    free(directory);
}

KEEL_EXPORT keel_path keel_directory_path(const keel_directory *directory) {
    return directory->path;
}

KEEL_EXPORT keel_bytes keel_directory_layer_of(const keel_directory *directory) {
    return directory->tag;
}

KEEL_EXPORT int keel_directory_is_partition(const keel_directory *directory) {
    return directory->kind == DIRECTORY_PARTITION_KIND;
}

KEEL_EXPORT fdb_error_t keel_directory_prefix(const keel_directory *directory, keel_bytes *prefix) {
    if (!directory || !prefix)
        return KEEL_ERROR_ARGUMENT;
    if (directory->kind == DIRECTORY_ROOT_KIND)
        return KEEL_ERROR_DIRECTORY_ROOT;
    if (directory->kind == DIRECTORY_PARTITION_KIND)
        return KEEL_ERROR_DIRECTORY_PARTITION_ROOT;
    *prefix = directory->prefix;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_directory_subspace(const keel_directory *directory,
                                                keel_subspace *subspace) {
    keel_bytes prefix;
    if (!subspace)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = keel_directory_prefix(directory, &prefix);
    return error ? error : keel_subspace_raw(prefix, subspace);
}
