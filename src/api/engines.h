/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The databases this process has open: one engine a directory, however often and under whatever name
 * it is opened, served to other processes; or one connection to the process that has it.
 */
#ifndef KEEL_API_ENGINES_H
#define KEEL_API_ENGINES_H

#include "database/database.h"
#include "os/socket.h"
#include "remote/client.h"

struct engine_entry;

/*
 * Opens the database in a directory, created if it is missing, or joins who has it open, in this
 * process or another. Errors of engine_open but DATABASE_IN_USE; blocks while another is opened or
 * closed.
 */
fdb_error_t engines_open(const char *path, struct engine_entry **entry);

/*
 * Joins a database that is served at an address (`keel serve`). Nothing is tried before it is used, and this process never becomes its
 * owner. `name` stands for the address in messages.
 */
struct engine_address {
    char name[320], host[256], port[8], secret[256];
};
fdb_error_t engines_open_address(const struct engine_address *address, struct engine_entry **entry);

/*
 * Serves the database at one more socket, which is taken over, also on failure: see remote_server_listen. DATABASE_IN_USE while another
 * process has it.
 */
fdb_error_t engines_listen(struct engine_entry *entry, struct os_socket listener, const char *secret);

/* The engine. NULL: another process has it, so far. Once it is there it stays until engines_close. */
struct database *engines_database(struct engine_entry *entry);

/* The way to the process that has it. REQUIRES: engines_database was NULL. */
struct remote_client *engines_client(struct engine_entry *entry);

/* A private database in memory. */
fdb_error_t engines_open_memory(struct database **database);

/*
 * Give back what one of the above opened; the last one of a directory closes it: on the spot
 * between place_closing_begin and _end, else on a thread of its own.
 */
void engines_close(struct engine_entry *entry);
void engines_close_memory(struct database *database);

#endif
