/* SPDX-License-Identifier: Apache-2.0 */
/* Directories as the commands on them see them: structure.c, for cmd_structure.c and cmd_du.c. */
#ifndef KEEL_CLI_STRUCTURE_H
#define KEEL_CLI_STRUCTURE_H

#include "place.h"

/* A directory: where it is in the tree and where its keys are. */
struct node {
    keel_path path;       /* one allocation, names and their bytes */
    struct buffer layer;  /* the tag */
    struct buffer prefix; /* of a partition too; empty for / */
    bool is_partition;
    bool is_last; /* of its siblings, once tree has found out */
};

struct node_list {
    struct node *nodes;
    size_t count, capacity;
};

/* A node with a path and nothing else as yet. */
fdb_error_t node_at(keel_path path, struct node *node);
void node_free(struct node *node);
void node_list_free(struct node_list *list);
/* Looks up layer and prefix. DIRECTORY_MISSING. */
fdb_error_t node_load(FDBTransaction *tr, struct node *node);
/* The last name; "/" for the root. */
keel_bytes node_name(const struct node *node);
/* The text of a path, as JSON. */
json_t *path_json(keel_path path);
/* {"path": …, "name": …, "layer": …, "prefix": …}; / has no prefix. */
json_t *node_json(const struct node *node);

/* Adds the directories in `path`, as node_at makes them. */
fdb_error_t node_list_children(FDBTransaction *tr, keel_path path, struct node_list *list);
/* The directory at `path` and all below it down to `depth_max` levels, parents first. DIRECTORY_MISSING. */
fdb_error_t node_list_walk(struct session *session, keel_path path, size_t depth_max, struct node_list *list);

int run_du(struct session *session, int argc, char **argv);

#endif
