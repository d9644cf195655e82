/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the directory layer share. From the bottom up:
 *
 *     directory_key.c      keys that grow, reads that are waited for
 *     allocator.c          short prefixes that nobody else gets
 *     directory_object.c   directory layers, opened directories, their paths
 *     directory_node.c     the tree in the database: finding, checking, writing, removing nodes
 *     directory.c          the public operations
 */
#ifndef KEEL_LAYERS_DIRECTORY_INTERNAL_H
#define KEEL_LAYERS_DIRECTORY_INTERNAL_H

#include <keel/directory.h>

#include <stdatomic.h>
#include <stdbool.h>

enum { DIRECTORY_NO_MEMORY = 1501 }; /* FoundationDB's large_alloc_failed */

/* ---- Keys (directory_key.c) ---- */

/*
 * A key under construction. Short ones live inside, long ones on the heap, so a key is not to be
 * copied or moved. The first failure stays in `error` and makes later calls no-ops: build, then
 * look once.
 */
struct directory_key {
    uint8_t *data;
    size_t length, capacity;
    fdb_error_t error;
    uint8_t inside[160];
};

void directory_key_init(struct directory_key *key);
void directory_key_free(struct directory_key *key);
/* Empties the key; an earlier error is forgotten. */
void directory_key_reset(struct directory_key *key);
void directory_key_append(struct directory_key *key, keel_bytes bytes);
/* Appends one packed element of a tuple. */
void directory_key_append_bytes(struct directory_key *key, keel_bytes bytes);
void directory_key_append_string(struct directory_key *key, keel_bytes text);
void directory_key_append_integer(struct directory_key *key, int64_t integer);
void directory_key_append_byte(struct directory_key *key, uint8_t byte);
/* Makes the key the first one after all that begin with it, or sets NO_SUCCESSOR. */
void directory_key_to_successor(struct directory_key *key);
keel_bytes directory_key_bytes(const struct directory_key *key);

bool directory_bytes_equal(keel_bytes a, keel_bytes b);
bool directory_bytes_begin(keel_bytes bytes, keel_bytes beginning);

/* ---- Reads (directory_key.c) ---- */

/* Starts a read; the future is the caller's. The keys must be without an error. */
FDBFuture *directory_read_key(FDBTransaction *tr, const struct directory_key *key, bool snapshot);
/* At most one pair of [begin, end), the last if `reverse`. */
FDBFuture *directory_read_one(FDBTransaction *tr, const struct directory_key *begin,
                              const struct directory_key *end, bool reverse, bool snapshot);
/* As many pairs of [begin, end) as come at once. */
FDBFuture *directory_read_many(FDBTransaction *tr, const struct directory_key *begin,
                               const struct directory_key *end, bool snapshot);

/* Wait for such a future; what comes out lasts as long as the future. A value that is absent is
   empty and not `present`. */
fdb_error_t directory_wait_value(FDBFuture *future, bool *present, keel_bytes *value);
fdb_error_t directory_wait_pairs(FDBFuture *future, const FDBKeyValue **pairs, int *count,
                                 bool *more);
/* Destroys a future unless it is NULL, and makes it NULL. */
void directory_future_drop(FDBFuture **future);

/* ---- Layers and directories (directory_object.c) ---- */

enum directory_kind { DIRECTORY_ROOT_KIND, DIRECTORY_PLAIN_KIND, DIRECTORY_PARTITION_KIND };

struct keel_directory {
    enum directory_kind kind;
    keel_directory_layer *layer;  /* operations on it work here; of a partition: the one inside */
    keel_directory_layer *parent; /* of a partition only: the layer that it is a directory of */
    keel_path path;               /* from the top, through all partitions */
    keel_bytes prefix;
    keel_bytes tag; /* the layer tag */
};

struct keel_directory_layer {
    atomic_uint references; /* unused in the static layer */
    bool fixed;             /* the static layer: never freed */
    bool manual_prefixes;
    keel_bytes node_prefix;
    keel_bytes content_prefix;
    struct keel_directory root; /* its path: where the layer hangs, empty or a partition's */
};

keel_directory_layer *directory_layer_retain(keel_directory_layer *layer);
void directory_layer_release(keel_directory_layer *layer);

/* The layer inside the partition with `prefix` at `path` of `layer`; released by the caller. */
fdb_error_t directory_layer_inside(const keel_directory_layer *layer, keel_path path,
                                   keel_bytes prefix, keel_directory_layer **inside);

/* A directory or, by its tag, a partition at `path` of `layer`. All arguments are copied. */
fdb_error_t directory_new(keel_directory_layer *layer, keel_path path, keel_bytes prefix,
                          keel_bytes tag, keel_directory **directory);

bool directory_tag_is_partition(keel_bytes tag);
bool directory_paths_equal(keel_path a, keel_path b);
/* The first `count` names, and those behind them. */
keel_path directory_path_first(keel_path path, size_t count);
keel_path directory_path_rest(keel_path path, size_t count);
/* ARGUMENT for pointers that are missing; NOT_UTF8. */
fdb_error_t directory_path_check_pointers(keel_path path);
fdb_error_t directory_path_check_text(keel_path path);

/* ---- Nodes (directory_node.c) ---- */

enum directory_version { DIRECTORY_VERSION_NONE, DIRECTORY_VERSION_OURS, DIRECTORY_VERSION_NEWER };

/* The version key of a layer: start reading, wait. A major version beyond ours, or bytes that are
   none, are DIRECTORY_VERSION. */
fdb_error_t directory_version_start(FDBTransaction *tr, const keel_directory_layer *layer,
                                    bool snapshot, FDBFuture **future);
fdb_error_t directory_version_wait(FDBFuture *future, enum directory_version *version);
/* Before writing: refuses a newer minor version, writes ours where there is none. */
fdb_error_t directory_version_claim(FDBTransaction *tr, const keel_directory_layer *layer,
                                    enum directory_version version);

/*
 * A walk down a path of one layer, from its root to the first missing name, the first partition, or
 * the end. Started, then stepped until it is done; two can be stepped in turn, so that their reads
 * are under way together.
 */
struct directory_finder {
    FDBTransaction *tr;
    const keel_directory_layer *layer;
    bool snapshot;
    keel_path path;

    bool done;
    bool exists;                 /* the node reached exists */
    size_t depth;                /* names walked, a missing last one included */
    struct directory_key prefix; /* of the node reached, if it exists */
    struct directory_key above;  /* prefix of its parent, if depth > 0 */
    struct directory_key tag;    /* its layer tag */

    FDBFuture *tag_read, *child_read;
};

void directory_finder_init(struct directory_finder *finder);
void directory_finder_free(struct directory_finder *finder);
fdb_error_t directory_finder_start(struct directory_finder *finder, FDBTransaction *tr,
                                   const keel_directory_layer *layer, keel_path path,
                                   bool snapshot);
fdb_error_t directory_finder_step(struct directory_finder *finder);
fdb_error_t directory_finder_finish(struct directory_finder *finder);
/* The walk ended at a partition with names left over, or, with `or_at_it`, exactly at one. */
bool directory_finder_in_partition(const struct directory_finder *finder, bool or_at_it);

/* The prefix for a new directory: allocated, with nothing in it and no directory in its way. */
fdb_error_t directory_prefix_allocate(FDBTransaction *tr, const keel_directory_layer *layer,
                                      struct directory_key *prefix);
/* The same checks for a prefix that was given: PREFIX_IN_USE. */
fdb_error_t directory_prefix_check(FDBTransaction *tr, const keel_directory_layer *layer,
                                   keel_bytes prefix);

/* parent/name → prefix, in the layer's nodes; and away with it. */
fdb_error_t directory_entry_write(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes parent, keel_bytes name, keel_bytes prefix);
fdb_error_t directory_entry_clear(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes parent, keel_bytes name);
fdb_error_t directory_tag_write(FDBTransaction *tr, const keel_directory_layer *layer,
                                keel_bytes prefix, keel_bytes tag);

/* Removes the node with this prefix, its contents and all nodes below it, but not its entry. */
fdb_error_t directory_tree_remove(FDBTransaction *tr, const keel_directory_layer *layer,
                                  keel_bytes prefix);
fdb_error_t directory_tree_list(FDBTransaction *tr, const keel_directory_layer *layer,
                                keel_bytes prefix, bool snapshot, keel_directory_visitor visit,
                                void *context);

#endif
