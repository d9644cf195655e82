/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel serve DIR: a process that owns the database and does nothing else, so that programs can come and go. Others join it through the socket in the directory, as
 * they join any owner; with --listen through TCP as well, by a cluster file that this command writes:
 *
 *     keel:SECRET@HOST:PORT
 *
 * Whoever can read that file gets in: it is made with mode 0600. What goes over TCP is not encrypted, so it stays on this machine (a loopback address) unless
 * --insecure says that the network can be trusted.
 *
 * If another process owns the database, this one waits until that is gone. SIGTERM and SIGINT end it: clients see the connection close, and find the next
 * owner or this one's successor. It speaks systemd's two protocols: a listening socket may be handed in (LISTEN_FDS), and READY=1 is said to NOTIFY_SOCKET.
 */
#include "api/engines.h"
#include "api/place.h"
#include "core.h"
#include "operation.h"
#include "os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SECRET_BYTES = 16, FIRST_HANDED_IN = 3 };

struct serving {
    struct session *session;
    const char *listen, *cluster_file, *insecure, *seconds;
    double until; /* 0: for ever */
    char host[256], port[8], secret[256], file[OS_PATH_BYTES_MAX + 16];
    struct os_socket listener;
    bool has_listener;
};

/* ---- Where to listen ---- */

/* host:port, [ipv6]:port or a port alone. */
static bool split_address(struct serving *serving) {
    const char *text = serving->listen, *colon = strrchr(text, ':');
    const char *host = "127.0.0.1", *port = colon ? colon + 1 : text;
    size_t host_length = strlen(host);
    if (colon) {
        host = text;
        host_length = (size_t)(colon - text);
        if (host_length > 2 && host[0] == '[' && host[host_length - 1] == ']') {
            host++;
            host_length -= 2;
        }
    }
    int64_t number;
    if (!options_number("listen", port, 0, 65535, &number))
        return false;
    if (host_length == 0 || host_length >= sizeof serving->host) {
        report("serve: --listen %s: expected HOST:PORT", text);
        return false;
    }
    snprintf(serving->host, sizeof serving->host, "%.*s", (int)host_length, host);
    snprintf(serving->port, sizeof serving->port, "%lld", (long long)number);
    return true;
}

/* A socket that the service manager has made for us. */
static int handed_in(void) {
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    if (!process || !count || atol(process) != (long)getpid() || atoi(count) < 1)
        return -1;
    return FIRST_HANDED_IN;
}

static bool open_listener(struct serving *serving) {
    int descriptor = handed_in();
    if (descriptor < 0 && !serving->listen)
        return true;
    if (serving->listen && !split_address(serving))
        return false;
    fdb_error_t error = descriptor >= 0 ? os_socket_adopt_listener(descriptor, &serving->listener)
                                        : os_socket_listen_tcp(serving->host, serving->port, &serving->listener);
    if (error) {
        report("serve: cannot listen on %s: %s", serving->listen ? serving->listen : "the socket that was handed in", strerror(errno));
        return false;
    }
    serving->has_listener = true;
    if (!*serving->host)
        snprintf(serving->host, sizeof serving->host, "127.0.0.1");
    snprintf(serving->port, sizeof serving->port, "%d", os_socket_port(&serving->listener));
    if (!os_socket_is_loopback(&serving->listener) && !serving->insecure) {
        report("serve: %s can be reached from other machines, and nothing there is encrypted: add --insecure if the network can be trusted, "
               "or listen on 127.0.0.1 and lead a tunnel there",
               serving->listen ? serving->listen : "the socket that was handed in");
        os_socket_close(&serving->listener);
        serving->has_listener = false;
        return false;
    }
    return true;
}

/* ---- The cluster file ---- */

/* The secret of a file that was written before, so that clients need not read it anew after a restart. */
static bool read_secret(struct serving *serving) {
    char line[1024];
    FILE *file = fopen(serving->file, "re");
    if (!file)
        return false;
    bool found = fgets(line, sizeof line, file) && strncmp(line, "keel:", 5) == 0 && strchr(line, '@');
    fclose(file);
    if (!found)
        return false;
    size_t length = (size_t)(strchr(line, '@') - line) - 5;
    if (length == 0 || length >= sizeof serving->secret)
        return false;
    snprintf(serving->secret, sizeof serving->secret, "%.*s", (int)length, line + 5);
    return true;
}

static bool make_secret(struct serving *serving) {
    uint8_t bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(serving->secret + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool write_cluster_file(struct serving *serving) {
    char temporary[sizeof serving->file + 8], text[1024];
    bool ipv6 = strchr(serving->host, ':') != NULL;
    const char *host = strcmp(serving->host, "*") == 0 ? "127.0.0.1" : serving->host;
    if (access(serving->file, F_OK) == 0 && !read_secret(serving)) {
        report("serve: %s is there and is not a cluster file of keel serve: name another with --cluster-file", serving->file);
        return false;
    }
    if (!*serving->secret && !make_secret(serving))
        return report("serve: no random numbers: %s", strerror(errno)) == EXIT_OK;
    int length = snprintf(text, sizeof text, "keel:%s@%s%s%s:%s\n", serving->secret, ipv6 ? "[" : "", host, ipv6 ? "]" : "", serving->port);
    snprintf(temporary, sizeof temporary, "%s.new", serving->file);
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = descriptor >= 0 && fchmod(descriptor, 0600) == 0 && write(descriptor, text, (size_t)length) == length;
    if (descriptor >= 0)
        written &= close(descriptor) == 0;
    if (!written || rename(temporary, serving->file) != 0) {
        report("serve: cannot write %s: %s", serving->file, strerror(errno));
        (void)unlink(temporary);
        return false;
    }
    return true;
}

/* ---- Serving ---- */

static void notify(const char *text) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (*path == '@')
        address.sun_path[0] = '\0';
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return;
    (void)!sendto(descriptor, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    close(descriptor);
}

static volatile sig_atomic_t terminated;
static void on_terminate(int signal_number) {
    (void)signal_number;
    terminated = 1;
}

static bool is_over(const struct serving *serving) {
    return terminated || session_interrupted() || (serving->until > 0 && seconds_now() >= serving->until);
}

static void rest(void) {
    struct timespec pause = {.tv_nsec = 50 * 1000000};
    (void)nanosleep(&pause, NULL); /* ended early by a signal */
}

/* Until this process owns the database. False: it was told to stop before. */
static bool await_ownership(struct serving *serving, struct engine_entry *entry) {
    if (!engines_database(entry)) {
        fprintf(stderr, "keel: serve: another process has %s open; waiting until it is gone\n", serving->session->path);
        notify("STATUS=another process has the database open");
    }
    while (!engines_database(entry) && !is_over(serving))
        rest();
    return engines_database(entry) != NULL;
}

static int serve(struct serving *serving, struct engine_entry *entry, const char *path) {
    if (!await_ownership(serving, entry))
        return EXIT_OK;
    if (serving->has_listener) {
        serving->has_listener = false;
        fdb_error_t error = engines_listen(entry, serving->listener, serving->secret);
        if (error)
            return report_error("serve", serving->listen, error);
        printf("ready: %s, %s:%s by the cluster file %s\n", path, serving->host, serving->port, serving->file);
    } else {
        printf("ready: %s\n", path);
    }
    fflush(stdout);
    notify("READY=1\nSTATUS=serving");
    while (!is_over(serving))
        rest();
    notify("STOPPING=1");
    return EXIT_OK;
}

static fdb_error_t read_version(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_wait_destroy(fdb_transaction_get_read_version(tr));
}

static int open_and_serve(struct serving *serving) {
    char path[OS_PATH_BYTES_MAX];
    FDBDatabase *database = session_database(serving->session);
    if (!database)
        return EXIT_FAILED;
    fdb_error_t error = place_choose(serving->session->path, path);
    if (!error && strcmp(path, ":memory:") == 0)
        return report("serve: a database in memory belongs to one process");
    if (!error) /* as everybody opens it, so that what is wrong is said as ever */
        error = keel_run_read(database, read_version, NULL);
    struct engine_entry *entry;
    if (!error && access(path, X_OK) != 0)
        return report("serve: %s is not a directory", path);
    if (!error)
        error = engines_open(path, &entry);
    if (error)
        return report_error("serve", path, error);
    if (!serving->cluster_file)
        snprintf(serving->file, sizeof serving->file, "%s.cluster", path);
    int code = EXIT_FAILED;
    if (!serving->has_listener || write_cluster_file(serving))
        code = serve(serving, entry, path);
    place_closing_begin();
    engines_close(entry);
    place_closing_end();
    return code;
}

int command_serve(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("serve");
    struct serving serving = {.session = session};
    const struct option_spec specs[] = {
        {"listen", 'l', true, &serving.listen}, {"cluster-file", 'C', true, &serving.cluster_file}, {"insecure", 0, false, &serving.insecure},
        {"seconds", 0, true, &serving.seconds}, {0}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != (session->no_database ? 2 : 1))
        return usage_error(command, "which database? keel serve DIR");
    if (session->no_database)
        session->path = argv[1];
    if (serving.cluster_file)
        snprintf(serving.file, sizeof serving.file, "%s", serving.cluster_file);
    if (serving.seconds) {
        char *end;
        double seconds = strtod(serving.seconds, &end);
        if (*end || !(seconds > 0))
            return usage_error(command, "--seconds %s: expected a number above 0", serving.seconds);
        serving.until = seconds_now() + seconds;
    }
    struct sigaction terminate = {.sa_handler = on_terminate}, before;
    sigaction(SIGTERM, &terminate, &before);
    int code = EXIT_FAILED;
    if (outside_transaction(session, "serve") && open_listener(&serving))
        code = open_and_serve(&serving);
    if (serving.has_listener)
        os_socket_close(&serving.listener);
    sigaction(SIGTERM, &before, NULL);
    session_forget_interrupt();
    return code;
}
