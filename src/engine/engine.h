/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded database: opens a directory (or memory) and implements the database interface on it. engine.c ties the parts together; a
 * transaction's way to the disk is commit.c, prepare.c, resolver.c, log.c, window.c, and later checkpoint.c, base_lmdb.c; its reads are read.c.
 */
#ifndef KEEL_ENGINE_ENGINE_H
#define KEEL_ENGINE_ENGINE_H

#include "database/database.h"

/* All settings of the engine, with their defaults in engine_default_options; docs/settings.md explains them. */
struct engine_options {
    uint64_t window_bytes_max;   /* KEEL_WINDOW_BYTES: commits wait while the window holds more */
    uint64_t segment_bytes;      /* KEEL_SEGMENT_BYTES: size of a log segment */
    int64_t lifetime_us;         /* KEEL_LIFETIME_MS: how long a version can be read and committed against */
    int64_t generation_us;       /* how long a generation of the window is written to */
    uint64_t generation_bytes;   /* or until it holds this much */
    uint64_t base_pages_max;     /* after so many pages the checkpoint ends a transaction of the base and goes on in another */
    bool durable;                /* KEEL_DURABILITY=none: a commit does not wait for the disk */
};

/* The defaults, changed by the environment variables named above; INVALID_OPTION_VALUE_ENVIRONMENT names a bad one in *message. */
fdb_error_t engine_default_options(struct engine_options *options, char **message);

/*
 * Opens the database in a directory, creating it if it does not exist; `path` ":memory:" is a private one in memory. Errors: DATABASE_IN_USE,
 * FORMAT_FOREIGN, FORMAT_NEWER, DATABASE_DAMAGED, IO_ERROR, DISK_FULL, LARGE_ALLOC_FAILED, PLATFORM_ERROR; *message (util/memory) then
 * says which file and why, or is NULL. Nothing on disk is changed by a refusal.
 */
fdb_error_t engine_open(const char *path, const struct engine_options *options, struct database **database, char **message);

#endif
