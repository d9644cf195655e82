/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether directories and recipes keep their rules, seen through the public API alone: layer_check.c has the directories, recipe_check.c the recipes.
 *
 * Everything is read at one snapshot; nothing is written. What is found is told as it is found; an error is one of reading, never of what was read.
 */
#ifndef KEEL_CLI_LAYER_CHECK_H
#define KEEL_CLI_LAYER_CHECK_H

#include "transfer.h"

/* Damage breaks a rule. A remark does not, but somebody may want to know. */
struct findings {
    void (*tell)(void *context, bool damage, const char *kind, const char *where, const char *text);
    void *context;
    const char *kind; /* of what is being checked: a recipe's type, "directory", or what engine/check.h names; for scripts */
    uint64_t damages, remarks;
};

void find_damage(struct findings *findings, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
void find_remark(struct findings *findings, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Bytes for a message, in one of a ring of static buffers. */
const char *shown(keel_bytes bytes);

/* A directory that can be reached. */
struct found_directory {
    char *path; /* as text */
    struct buffer prefix, tag;
};

struct directory_list {
    struct found_directory *items;
    size_t count, capacity;
};

/* Verifies all directories, partitions included, and lists those that can be reached. */
fdb_error_t check_directories(struct snapshot *snapshot, struct findings *findings, struct directory_list *list);
void directory_list_free(struct directory_list *list);

/* ---- Recipes ---- */

/* A structure that is being checked. */
struct structure {
    struct snapshot *snapshot;
    struct findings *findings;
    const char *path;  /* for messages */
    keel_bytes prefix; /* of its keys */
    keel_bytes other;  /* of its second subspace, for types that have one */
    uint64_t rows;     /* that were read */
};

struct recipe_check {
    const char *type;
    const char *second; /* what the second directory is, or NULL if there is one only */
    const char *rules;  /* what is checked, one line */
    fdb_error_t (*run)(struct structure *structure);
};

/* Ended by a row without a type. */
extern const struct recipe_check recipe_checks[];
/* By type, or by a layer tag "keel." and the type; NULL. */
const struct recipe_check *recipe_check_find(const char *type);
const struct recipe_check *recipe_check_of_tag(keel_bytes tag);

#endif
