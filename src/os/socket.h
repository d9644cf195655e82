/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream sockets, waiting for many of them, and a way to wake whoever waits. Every descriptor closes
 * on exec and in a forked child (os/fork.h). No signal is raised by a peer that is gone.
 */
#ifndef KEEL_OS_SOCKET_H
#define KEEL_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct os_socket {
    int descriptor;
};

/*
 * A socket of the file system, `name` in `directory`, however long their path. Listening replaces
 * what lies there, lets only this user in (mode 0600) and does not block in accept.
 *
 * Connecting: FILE_NOT_FOUND where nobody listens (now), IO_ERROR otherwise.
 */
fdb_error_t os_socket_listen_in(const char *directory, const char *name, struct os_socket *listener);
void os_socket_remove_in(const char *directory, const char *name); /* what a listener leaves there; nothing if it is gone */
fdb_error_t os_socket_connect_in(const char *directory, const char *name, struct os_socket *socket);

/*
 * TCP. `host` is a name or a number, "*" every interface of this machine; `port` a number, where listening on 0 lets the
 * system choose: os_socket_port tells. Connecting gives up after `wait_us`: FILE_NOT_FOUND where nobody listens (now), IO_ERROR
 * otherwise.
 */
fdb_error_t os_socket_listen_tcp(const char *host, const char *port, struct os_socket *listener);
fdb_error_t os_socket_connect_tcp(const char *host, const char *port, int64_t wait_us, struct os_socket *socket);
int os_socket_port(const struct os_socket *socket);
bool os_socket_is_loopback(const struct os_socket *listener); /* nobody outside this machine can reach it */

/* Takes over a descriptor that somebody else has made a listening socket of, such as the service manager. */
fdb_error_t os_socket_adopt_listener(int descriptor, struct os_socket *listener);

/* Takes a waiting connection; *accepted is false if there is none (any more). IO_ERROR: out of descriptors, for example. */
fdb_error_t os_socket_accept(struct os_socket *listener, struct os_socket *socket, bool *accepted);

/* Who is at the other end of a socket of the file system. */
fdb_error_t os_socket_peer(struct os_socket *socket, uint32_t *user, int *process);
uint32_t os_user(void); /* who this process acts for */
int os_process(void);

/* Sends what there is room for, without waiting: *sent may be 0. IO_ERROR: the peer is gone. */
fdb_error_t os_socket_send(struct os_socket *socket, const void *data, size_t length, size_t *sent);

/*
 * Receives what is there. With `wait` waits for it, as long as os_socket_limit_wait said. *got is 0
 * and *ended false: nothing came. *ended: the peer has closed or is gone, nothing more will come.
 */
void os_socket_receive(struct os_socket *socket, void *buffer, size_t capacity, bool wait, size_t *got, bool *ended);
fdb_error_t os_socket_limit_wait(struct os_socket *socket, int64_t wait_us);

void os_socket_close(struct os_socket *socket);

/* --- Waking --- */

/* Something that can be waited for like a socket, until it is cleared. Setting: any thread. */
struct os_event {
    int descriptor;
};
fdb_error_t os_event_create(struct os_event *event);
void os_event_set(struct os_event *event);
void os_event_clear(struct os_event *event);
void os_event_close(struct os_event *event);

/* --- Waiting --- */

enum {
    OS_READABLE = 1,
    OS_WRITABLE = 2,
    OS_HUNG_UP = 4, /* the peer will send no more; always asked for */
};

/* For a few: `ready` is filled in. timeout_us < 0: for ever. */
struct os_poll_item {
    int descriptor;
    int wanted, ready;
};
void os_poll(struct os_poll_item *items, int count, int64_t timeout_us);

/* For many, each with a pointer of the caller's. */
struct os_poller {
    int descriptor;
};
struct os_poll_event {
    void *subject;
    int ready;
};
fdb_error_t os_poller_create(struct os_poller *poller);
fdb_error_t os_poller_add(struct os_poller *poller, int descriptor, int wanted, void *subject);
void os_poller_change(struct os_poller *poller, int descriptor, int wanted, void *subject);
void os_poller_remove(struct os_poller *poller, int descriptor);
int os_poller_wait(struct os_poller *poller, struct os_poll_event *events, int capacity, int64_t timeout_us);
void os_poller_close(struct os_poller *poller);

#endif
