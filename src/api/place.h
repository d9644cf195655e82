/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a database: what a path given to fdb_create_database means, and a struct database
 * that opens it at the first operation. The same directory opened several times in one process is
 * one engine.
 */
#ifndef KEEL_API_PLACE_H
#define KEEL_API_PLACE_H

#include "database/database.h"
#include "os/path.h"

struct remote_database;

/* What \xff\xff/connection_string says of a database in a directory. */
#define PLACE_CONNECTION_EMBEDDED "keel:embedded@127.0.0.1:1"

/*
 * Where fdb_create_database looks, as an absolute path or ":memory:". NULL or "" is nobody's
 * choice: FDB_CLUSTER_FILE, ./fdb.cluster, /etc/foundationdb/fdb.cluster, and ./keel.db where there
 * is none of these. IO_ERROR if the name is too long.
 */
fdb_error_t place_choose(const char *path, char chosen[OS_PATH_BYTES_MAX]);

/*
 * A database that opens `path` with the first operation that needs it, and tries again with the
 * next one if that fails. Nothing is looked at or created before. Operations fail with what opening
 * said:
 *
 *     a directory, or a missing path         a database there; errors of engine_open, and DATABASE_IN_USE
 *                                            where another process has it, see place_is_elsewhere
 *     a missing path ending in .cluster      NO_CLUSTER_FILE_FOUND
 *     a file that holds a connection string  keel:…, the database that is served there; else a cluster, see
 *                                            place_official; errors of cluster_open_file
 *     any other file                         CONNECTION_STRING_INVALID
 *
 * The caller closes it by database_close. NULL when memory is out.
 */
struct database *place_create(const char *path);

/* The like for the text of a connection string. */
struct database *place_create_connection(const char *connection_string);

/* A database all of whose operations fail with `error`. NULL when memory is out. */
struct database *place_create_failed(fdb_error_t error);

/*
 * For each new transaction: opens the place, and says whether the transaction has to go elsewhere: to
 * the process that has the database, or to the official library; the other one is NULL. False: here,
 * also if the place cannot be opened, which the transaction's operations will say.
 */
struct place_elsewhere {
    struct remote_database *joined;
    FDBDatabase *official;
};
bool place_is_elsewhere(struct database *place, struct place_elsewhere *elsewhere);

/*
 * The official library's database, opened if it is not yet, where the place is a cluster; NULL where
 * it is not, and then nothing is opened. Errors of opening a cluster.
 */
fdb_error_t place_official(struct database *place, FDBDatabase **official);

/*
 * An option of the database, already checked, kept for whoever opens it: a cluster, or, where it
 * matters to the owner in another process, that one.
 */
void place_set_option(struct database *place, int option, const uint8_t *value, int length, bool matters_to_owner);

/* Whether `text` (comments and blanks around it allowed) is description:id@host:port,... */
bool place_is_connection_string(const char *text, size_t length);

/*
 * Closing an engine waits for its threads, which the threads of the engine themselves must not do.
 * So it is done on the spot only between these two calls, which entry points make around what may
 * give back a last reference; elsewhere it is handed to a thread of its own. They nest.
 */
void place_closing_begin(void);
void place_closing_end(void);

#endif
