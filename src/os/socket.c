/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets on Linux. The paths of Unix sockets are limited to about 100 bytes, those of databases are
 * not: so the directory is opened and the socket named below /proc/self/fd, which is short.
 *
 * A listener is given its mode before it is bound, so that at no moment anybody else can connect.
 * What lay under its name is removed first: whoever listens holds the lock of the directory, so a
 * socket that is there belongs to a process that is gone.
 *
 * Sockets are in blocking mode and every call says whether it may wait. Waiting in the receiving call
 * itself, bounded by the socket's own time limit, saves the poll before it: that is what makes a
 * blocking read of the client two system calls.
 *
 * Threads: sending and receiving on one socket may be different threads. Failure: errno does not
 * leave, see os/file.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4, struct ucred, POLLRDHUP */
#endif
#include "os/socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/fork.h"

enum { BACKLOG = 512, EVENTS_MAX = 256 };

static fdb_error_t guard(int descriptor, int *kept) {
    if (descriptor < 0)
        return ERROR_IO_ERROR;
    os_fork_guard(descriptor);
    *kept = descriptor;
    return 0;
}

static void close_guarded(int *descriptor) {
    if (*descriptor < 0)
        return;
    os_fork_release(*descriptor);
    (void)close(*descriptor);
    *descriptor = -1;
}

/* ---- Sockets of the file system ---- */

/* The address of directory/name; *holder has to stay open while it is used. */
static fdb_error_t make_address(const char *directory, const char *name, struct sockaddr_un *address, int *holder) {
    *holder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*holder < 0)
        return errno == ENOENT ? ERROR_FILE_NOT_FOUND : ERROR_IO_ERROR;
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", *holder, name);
    return 0;
}

static int bind_and_listen(int descriptor, int holder, const char *name, const struct sockaddr_un *address) {
    if (fchmod(descriptor, 0600) != 0 || (unlinkat(holder, name, 0) != 0 && errno != ENOENT))
        return -1;
    if (bind(descriptor, (const struct sockaddr *)address, sizeof *address) != 0)
        return -1;
    return listen(descriptor, BACKLOG);
}

fdb_error_t os_socket_listen_in(const char *directory, const char *name, struct os_socket *listener) {
    struct sockaddr_un address;
    int holder;
    fdb_error_t error = make_address(directory, name, &address, &holder);
    if (error)
        return error;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor >= 0 && bind_and_listen(descriptor, holder, name, &address) != 0) {
        (void)close(descriptor);
        descriptor = -1;
    }
    (void)close(holder);
    return guard(descriptor, &listener->descriptor);
}

void os_socket_remove_in(const char *directory, const char *name) {
    int holder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (holder < 0)
        return;
    (void)unlinkat(holder, name, 0);
    (void)close(holder);
}

fdb_error_t os_socket_connect_in(const char *directory, const char *name, struct os_socket *connected) {
    struct sockaddr_un address;
    int holder, result = -1;
    fdb_error_t error = make_address(directory, name, &address, &holder);
    if (error)
        return error;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0) /* a full backlog is EAGAIN under O_NONBLOCK, and waited for otherwise */
        (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
    if (descriptor >= 0)
        result = connect(descriptor, (const struct sockaddr *)&address, sizeof address);
    bool nobody = result != 0 && (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR);
    (void)close(holder);
    if (result == 0) {
        (void)fcntl(descriptor, F_SETFL, 0);
        return guard(descriptor, &connected->descriptor);
    }
    if (descriptor >= 0)
        (void)close(descriptor);
    return nobody ? ERROR_FILE_NOT_FOUND : ERROR_IO_ERROR;
}

/* ---- TCP ---- */

static struct addrinfo *look_up(const char *host, const char *port, bool listens) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
    struct addrinfo *found = NULL;
    return getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found) == 0 ? found : NULL;
}

/* Small messages leave at once. */
static void send_at_once(int descriptor) {
    int one = 1;
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

fdb_error_t os_socket_listen_tcp(const char *host, const char *port, struct os_socket *listener) {
    struct addrinfo *addresses = look_up(host, port, true);
    int descriptor = -1, one = 1;
    for (struct addrinfo *address = addresses; address && descriptor < 0; address = address->ai_next) {
        descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (descriptor < 0)
            continue;
        (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(descriptor, address->ai_addr, address->ai_addrlen) != 0 || listen(descriptor, BACKLOG) != 0) {
            (void)close(descriptor);
            descriptor = -1;
        }
    }
    if (addresses)
        freeaddrinfo(addresses);
    return guard(descriptor, &listener->descriptor);
}

/* True: connected. False: errno says why not. */
static bool connect_within(int descriptor, const struct addrinfo *address, int64_t wait_us) {
    if (connect(descriptor, address->ai_addr, address->ai_addrlen) == 0)
        return true;
    if (errno != EINPROGRESS)
        return false;
    struct pollfd item = {descriptor, POLLOUT, 0};
    int failure = ETIMEDOUT;
    socklen_t length = sizeof failure;
    if (poll(&item, 1, (int)(wait_us / 1000)) == 1)
        (void)getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &length);
    errno = failure;
    return failure == 0;
}

fdb_error_t os_socket_connect_tcp(const char *host, const char *port, int64_t wait_us, struct os_socket *connected) {
    struct addrinfo *addresses = look_up(host, port, false);
    fdb_error_t error = ERROR_IO_ERROR;
    for (struct addrinfo *address = addresses; address && error; address = address->ai_next) {
        int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (descriptor < 0)
            continue;
        if (connect_within(descriptor, address, wait_us)) {
            (void)fcntl(descriptor, F_SETFL, 0);
            send_at_once(descriptor);
            error = guard(descriptor, &connected->descriptor);
        } else {
            error = errno == ECONNREFUSED ? ERROR_FILE_NOT_FOUND : ERROR_IO_ERROR;
            (void)close(descriptor);
        }
    }
    if (addresses)
        freeaddrinfo(addresses);
    return error;
}

static bool own_address(const struct os_socket *socket, struct sockaddr_storage *address) {
    socklen_t length = sizeof *address;
    return getsockname(socket->descriptor, (struct sockaddr *)address, &length) == 0;
}

int os_socket_port(const struct os_socket *socket) {
    struct sockaddr_storage address;
    if (!own_address(socket, &address))
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port) : 0;
}

bool os_socket_is_loopback(const struct os_socket *listener) {
    struct sockaddr_storage address;
    if (!own_address(listener, &address))
        return false;
    if (address.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == 127;
    if (address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
    return address.ss_family == AF_UNIX;
}

fdb_error_t os_socket_adopt_listener(int descriptor, struct os_socket *listener) {
    int listening = 0;
    socklen_t length = sizeof listening;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || !listening)
        return ERROR_IO_ERROR;
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return guard(descriptor, &listener->descriptor);
}

/* ---- Connections ---- */

fdb_error_t os_socket_accept(struct os_socket *listener, struct os_socket *accepted_socket, bool *accepted) {
    int descriptor = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC);
    *accepted = descriptor >= 0;
    if (descriptor >= 0)
        return guard(descriptor, &accepted_socket->descriptor);
    bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
    return none ? 0 : ERROR_IO_ERROR;
}

fdb_error_t os_socket_peer(struct os_socket *connected, uint32_t *user, int *process) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(connected->descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return ERROR_IO_ERROR;
    *user = (uint32_t)peer.uid;
    *process = (int)peer.pid;
    return 0;
}

uint32_t os_user(void) {
    return (uint32_t)geteuid();
}

int os_process(void) {
    return (int)getpid();
}

/* ---- Sending and receiving ---- */

fdb_error_t os_socket_send(struct os_socket *connected, const void *data, size_t length, size_t *sent) {
    ssize_t result;
    do {
        result = send(connected->descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (result < 0 && errno == EINTR);
    if (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
        return ERROR_IO_ERROR;
    *sent = result < 0 ? 0 : (size_t)result;
    return 0;
}

void os_socket_receive(struct os_socket *connected, void *buffer, size_t capacity, bool wait, size_t *got, bool *ended) {
    ssize_t result = recv(connected->descriptor, buffer, capacity, wait ? 0 : MSG_DONTWAIT);
    bool nothing = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    *ended = result <= 0 && !nothing;
    *got = result > 0 ? (size_t)result : 0;
}

fdb_error_t os_socket_limit_wait(struct os_socket *connected, int64_t wait_us) {
    struct timeval limit = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
    int result = setsockopt(connected->descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return result == 0 ? 0 : ERROR_IO_ERROR;
}

void os_socket_close(struct os_socket *connected) {
    close_guarded(&connected->descriptor);
}

/* ---- Events ---- */

fdb_error_t os_event_create(struct os_event *event) {
    return guard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), &event->descriptor);
}

void os_event_set(struct os_event *event) {
    uint64_t one = 1;
    ssize_t written = write(event->descriptor, &one, sizeof one);
    (void)written; /* a full counter is set all the same */
}

void os_event_clear(struct os_event *event) {
    uint64_t count;
    ssize_t got = read(event->descriptor, &count, sizeof count);
    (void)got;
}

void os_event_close(struct os_event *event) {
    close_guarded(&event->descriptor);
}

/* ---- Waiting ---- */

static int milliseconds(int64_t timeout_us) {
    if (timeout_us < 0)
        return -1;
    int64_t rounded = (timeout_us + 999) / 1000;
    return rounded > 3600000 ? 3600000 : (int)rounded;
}

void os_poll(struct os_poll_item *items, int count, int64_t timeout_us) {
    struct pollfd polled[4];
    assert(count <= 4);
    for (int i = 0; i < count; i++) {
        int events = (items[i].wanted & OS_READABLE ? POLLIN : 0) | (items[i].wanted & OS_WRITABLE ? POLLOUT : 0);
        polled[i] = (struct pollfd){.fd = items[i].descriptor, .events = (short)(events | POLLRDHUP)};
    }
    int result = poll(polled, (nfds_t)count, milliseconds(timeout_us));
    for (int i = 0; i < count; i++) {
        int events = result > 0 ? polled[i].revents : 0;
        items[i].ready = (events & POLLIN ? OS_READABLE : 0) | (events & POLLOUT ? OS_WRITABLE : 0) |
                         (events & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL) ? OS_HUNG_UP : 0);
    }
}

fdb_error_t os_poller_create(struct os_poller *poller) {
    return guard(epoll_create1(EPOLL_CLOEXEC), &poller->descriptor);
}

static int control(struct os_poller *poller, int operation, int descriptor, int wanted, void *subject) {
    uint32_t events = (wanted & OS_READABLE ? (uint32_t)EPOLLIN : 0) | (wanted & OS_WRITABLE ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = subject};
    return epoll_ctl(poller->descriptor, operation, descriptor, &event);
}

fdb_error_t os_poller_add(struct os_poller *poller, int descriptor, int wanted, void *subject) {
    return control(poller, EPOLL_CTL_ADD, descriptor, wanted, subject) == 0 ? 0 : ERROR_IO_ERROR;
}

void os_poller_change(struct os_poller *poller, int descriptor, int wanted, void *subject) {
    (void)control(poller, EPOLL_CTL_MOD, descriptor, wanted, subject);
}

void os_poller_remove(struct os_poller *poller, int descriptor) {
    (void)control(poller, EPOLL_CTL_DEL, descriptor, 0, NULL);
}

int os_poller_wait(struct os_poller *poller, struct os_poll_event *events, int capacity, int64_t timeout_us) {
    struct epoll_event polled[EVENTS_MAX];
    int most = capacity < EVENTS_MAX ? capacity : EVENTS_MAX;
    int count = epoll_wait(poller->descriptor, polled, most, milliseconds(timeout_us));
    for (int i = 0; i < count; i++) {
        uint32_t bits = polled[i].events;
        events[i].subject = polled[i].data.ptr;
        events[i].ready = (bits & EPOLLIN ? OS_READABLE : 0) | (bits & EPOLLOUT ? OS_WRITABLE : 0) |
                          (bits & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? OS_HUNG_UP : 0);
    }
    return count < 0 ? 0 : count;
}

void os_poller_close(struct os_poller *poller) {
    close_guarded(&poller->descriptor);
}
