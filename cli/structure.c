/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories as lists of nodes, and the walk over a tree of them: under ls, tree, rm and du.
 *
 * The walk visits a tree in the order in which it is printed, parents before children and names in the order of their bytes. What is still to
 * be visited lies on a stack that outlives the transaction: a walk that takes longer than a transaction lives goes on in the next one where the last
 * one stopped. Directories that are removed meanwhile are passed over.
 *
 * Partitions. The layer does not tell the prefix of a partition, so that nobody writes there. du and ls -l want to show it, and read it where the
 * layer keeps it: in the entry of the parent's node, N (parent's prefix, 0, name) with N = the prefix of the partition around it and fe
 * (layers/directory_node.c).
 *
 * Threads: one. Failure: errors of the layer come back as they are.
 */
#include "structure.h"

#include <stdlib.h>
#include <string.h>

enum { NO_MEMORY = 1501 };

/* ---- One directory ---- */

struct copier {
    struct node_list *list;
    keel_path parent;
};

/* The path `parent`, with one more name if there is one. */
static fdb_error_t copy_path(keel_path parent, const keel_bytes *name, struct node *node) {
    size_t count = parent.count + (name != NULL), bytes = name ? name->length : 0;
    for (size_t i = 0; i < parent.count; i++)
        bytes += parent.names[i].length;
    keel_bytes *names = malloc(count * sizeof *names + bytes + 1);
    if (!names)
        return NO_MEMORY;
    uint8_t *end = (uint8_t *)(names + count);
    for (size_t i = 0; i < count; i++) {
        keel_bytes from = i < parent.count ? parent.names[i] : *name;
        if (from.length > 0)
            memcpy(end, from.data, from.length);
        names[i] = keel_bytes_of(end, from.length);
        end += from.length;
    }
    *node = (struct node){.path = {names, count}};
    return 0;
}

fdb_error_t node_at(keel_path path, struct node *node) {
    return copy_path(path, NULL, node);
}

void node_free(struct node *node) {
    free((void *)node->path.names);
    buffer_free(&node->layer);
    buffer_free(&node->prefix);
    *node = (struct node){0};
}

void node_list_free(struct node_list *list) {
    for (size_t i = 0; i < list->count; i++)
        node_free(&list->nodes[i]);
    free(list->nodes);
    *list = (struct node_list){0};
}

/* Takes the node. */
static fdb_error_t node_list_add(struct node_list *list, struct node *node) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 16;
        struct node *nodes = realloc(list->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            node_free(node);
            return NO_MEMORY;
        }
        list->nodes = nodes;
        list->capacity = capacity;
    }
    list->nodes[list->count++] = *node;
    *node = (struct node){0};
    return 0;
}

static fdb_error_t add_child(void *context, keel_bytes name) {
    struct copier *copier = context;
    struct node node;
    fdb_error_t error = copy_path(copier->parent, &name, &node);
    return error ? error : node_list_add(copier->list, &node);
}

fdb_error_t node_list_children(FDBTransaction *tr, keel_path path, struct node_list *list) {
    struct copier copier = {list, path};
    return keel_directory_list(tr, NULL, path, add_child, &copier);
}

/* Where the partition at `path` lies. Its directory does not tell, so that nobody writes there; its entry in the parent's node does. */
static fdb_error_t partition_prefix(FDBTransaction *tr, keel_path path, keel_bytes layer_prefix, keel_bytes parent_prefix, struct buffer *prefix) {
    keel_tuple_builder key;
    keel_bytes packed;
    fdb_bool_t present = 0;
    const uint8_t *value;
    int length;
    struct buffer nodes = {0};
    FDBFuture *future = NULL;
    keel_tuple_builder_init(&key);
    buffer_append(&nodes, layer_prefix.data, layer_prefix.length);
    buffer_append(&nodes, "\xfe", 1);
    keel_tuple_append_prefix(&key, keel_bytes_of(nodes.data, nodes.length));
    keel_tuple_append_bytes(&key, parent_prefix.length > 0 ? parent_prefix : keel_bytes_of(nodes.data, nodes.length));
    keel_tuple_append_int(&key, 0);
    keel_tuple_append(&key, keel_element_of_text((const char *)path.names[path.count - 1].data, path.names[path.count - 1].length));
    fdb_error_t error = keel_tuple_builder_finish(&key, &packed);
    if (!error) {
        future = fdb_transaction_get(tr, packed.data, (int)packed.length, 0);
        error = session_wait(future);
    }
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error && !present)
        error = KEEL_ERROR_DIRECTORY_MISSING;
    if (!error)
        buffer_append(prefix, value, (size_t)length);
    if (future)
        fdb_future_destroy(future);
    keel_tuple_builder_free(&key);
    buffer_free(&nodes);
    return error;
}

/*
 * The prefixes that a partition's own is looked up with: that of the innermost partition above it, and that of its parent inside that partition, empty if
 * the parent is the partition (or /) itself.
 */
static fdb_error_t surroundings(FDBTransaction *tr, keel_path path, struct buffer *layer_prefix, struct buffer *parent_prefix) {
    fdb_error_t error = 0;
    for (size_t count = 1; !error && count < path.count; count++) {
        keel_path above = {path.names, count};
        keel_directory *directory;
        keel_bytes prefix;
        if ((error = keel_directory_open(tr, NULL, above, KEEL_NO_LAYER, &directory)))
            break;
        if (keel_directory_is_partition(directory)) {
            struct buffer inner = {0};
            error = partition_prefix(tr, above, keel_bytes_of(layer_prefix->data, layer_prefix->length),
                                     keel_bytes_of(parent_prefix->data, parent_prefix->length), &inner);
            buffer_free(layer_prefix);
            *layer_prefix = inner;
            parent_prefix->length = 0;
        } else if (!(error = keel_directory_prefix(directory, &prefix))) {
            parent_prefix->length = 0;
            buffer_append(parent_prefix, prefix.data, prefix.length);
        }
        keel_directory_close(directory);
    }
    return error;
}

fdb_error_t node_load(FDBTransaction *tr, struct node *node) {
    keel_directory *directory = NULL;
    keel_bytes prefix, layer;
    struct buffer layer_prefix = {0}, parent_prefix = {0};
    node->layer.length = node->prefix.length = 0;
    if (node->path.count == 0) {
        node->is_partition = false;
        return 0;
    }
    fdb_error_t error = keel_directory_open(tr, NULL, node->path, KEEL_NO_LAYER, &directory);
    if (error)
        return error;
    layer = keel_directory_layer_of(directory);
    node->is_partition = keel_directory_is_partition(directory) != 0;
    buffer_append(&node->layer, layer.data, layer.length);
    if (node->is_partition) {
        if (!(error = surroundings(tr, node->path, &layer_prefix, &parent_prefix)))
            error = partition_prefix(tr, node->path, keel_bytes_of(layer_prefix.data, layer_prefix.length),
                                     keel_bytes_of(parent_prefix.data, parent_prefix.length), &node->prefix);
    } else if (!(error = keel_directory_prefix(directory, &prefix))) {
        buffer_append(&node->prefix, prefix.data, prefix.length);
    }
    buffer_free(&layer_prefix);
    buffer_free(&parent_prefix);
    keel_directory_close(directory);
    return error;
}

keel_bytes node_name(const struct node *node) {
    return node->path.count > 0 ? node->path.names[node->path.count - 1] : keel_bytes_of("/", 1);
}

json_t *path_json(keel_path path) {
    struct buffer text = {0};
    text_from_path(path, &text);
    json_t *json = json_text(keel_bytes_of(text.data, text.length));
    buffer_free(&text);
    return json;
}

json_t *node_json(const struct node *node) {
    json_t *object = json_object();
    json_object_set_new(object, "path", path_json(node->path));
    json_object_set_new(object, "name", json_text(node_name(node)));
    json_object_set_new(object, "layer", json_text(keel_bytes_of(node->layer.data, node->layer.length)));
    if (node->path.count > 0)
        json_object_set_new(object, "prefix", output_json_bytes(NULL, keel_bytes_of(node->prefix.data, node->prefix.length)));
    return object;
}

/* ---- The walk ---- */

struct walk {
    struct node_list pending; /* a stack, the next one last */
    struct node_list *visited;
    size_t depth_max; /* below the first */
    size_t root_count;
};

static void reverse(struct node *nodes, size_t count) {
    for (size_t i = 0; i < count / 2; i++) {
        struct node node = nodes[i];
        nodes[i] = nodes[count - 1 - i];
        nodes[count - 1 - i] = node;
    }
}

/* Visits the node on top of the stack; nothing has changed if it fails. */
static fdb_error_t walk_step(FDBTransaction *tr, struct walk *walk) {
    struct node_list children = {0};
    struct node node = walk->pending.nodes[walk->pending.count - 1];
    bool first = walk->visited->count == 0;
    fdb_error_t error = node_load(tr, &node);
    walk->pending.nodes[walk->pending.count - 1] = node; /* its buffers may have grown */
    if (!error && node.path.count - walk->root_count < walk->depth_max)
        error = node_list_children(tr, node.path, &children);
    if (error == KEEL_ERROR_DIRECTORY_MISSING && !first) {
        node_list_free(&children);
        node_free(&walk->pending.nodes[--walk->pending.count]);
        return 0;
    }
    if (!error)
        error = node_list_add(walk->visited, &walk->pending.nodes[--walk->pending.count]);
    reverse(children.nodes, children.count);
    for (size_t i = 0; !error && i < children.count; i++)
        error = node_list_add(&walk->pending, &children.nodes[i]);
    node_list_free(&children);
    return error;
}

static fdb_error_t walk_on(FDBTransaction *tr, void *context) {
    struct walk *walk = context;
    fdb_error_t error = 0;
    while (!error && walk->pending.count > 0)
        error = walk_step(tr, walk);
    return error;
}

fdb_error_t node_list_walk(struct session *session, keel_path path, size_t depth_max, struct node_list *list) {
    struct walk walk = {.visited = list, .depth_max = depth_max, .root_count = path.count};
    struct node root;
    fdb_error_t error = node_at(path, &root);
    if (!error)
        error = node_list_add(&walk.pending, &root);
    if (!error)
        error = session_read(session, walk_on, &walk);
    node_list_free(&walk.pending);
    return error;
}
