/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of a shared database: serves everybody who connects. Every transaction of a client
 * is an ordinary struct transaction here, so that what a client sees is what src/txn does.
 */
#ifndef KEEL_REMOTE_SERVER_H
#define KEEL_REMOTE_SERVER_H

#include "database/database.h"
#include "os/socket.h"

/* The name of the socket in a database's directory. */
#define REMOTE_SOCKET_NAME "keel.sock"

struct remote_server;

/*
 * Starts a server that listens nowhere yet. The database has to outlive it. PLATFORM_ERROR, IO_ERROR
 * or LARGE_ALLOC_FAILED: nothing was started.
 */
fdb_error_t remote_server_start(struct database *database, struct remote_server **server);

/*
 * Accepts connections from this socket too, whatever it is; takes it over, also on failure. Without a
 * `secret`, which needs a socket of the file system, only the user of this process and root get in; with
 * one, whoever knows it: 1 to 255 bytes, copied. Any thread; at most a few sockets (LARGE_ALLOC_FAILED).
 */
fdb_error_t remote_server_listen(struct remote_server *server, struct os_socket listener, const char *secret);

/* What the connections hold, for tests: 0 when they are gone. The database's own status has their number. Any thread. */
struct remote_server_status {
    uint64_t connections, connections_total, requests_total, violations_total;
    uint64_t transactions; /* that clients have */
    uint64_t waiting;      /* commits and watches without an answer */
    uint64_t bytes_held;   /* of writes, for unfinished transactions */
    uint64_t buffer_bytes; /* memory for what came in and for answers that are not sent */
};
void remote_server_get_status(struct remote_server *server, struct remote_server_status *status);

/*
 * Ends all connections and frees the server. Commits that are under way are answered first; whoever
 * else waits finds the connection closed. REQUIRES: not called by a thread of the database.
 */
void remote_server_stop(struct remote_server *server);

#endif
