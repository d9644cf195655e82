/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes at chosen points: the N-th call that changes a file is a process's last, for every N over open, commits, segment rotation, checkpoint and close.
 *
 *   points [DIRECTORY]        KEEL_ROUNDS rounds (default 160; all points in every variant once it passes their number), KEEL_SEED, KEEL_ROUND for one alone
 *
 * This program defines open, pwrite, writev, fdatasync, fsync, rename, unlink and mkdir itself, so that the engine's calls and LMDB's come here
 * alike. Each call under the directory counts as a point; at the chosen one the process ends before it, after it, or (a write) half-way through.
 *
 *   kill     the process is gone, what it wrote stays in the system's memory
 *   power    so is everything not synced: the journal below takes back, or keeps, or tears what no sync has covered
 *
 * Commits come one by one, and many at a time while a sync takes a while, so that records hold one transaction or many, and segments change in the midst of both.
 *
 * The journal lies in memory that all processes of a round share, as the system's cache does: what a killed process left unsynced can still be lost in
 * a power failure under its successor. It follows the letter of POSIX: a write is safe after an fdatasync of its file that began after it, a name after
 * fsync of its directory. Names are lost from the newest backwards, writes in any combination.
 *
 * A round: a worker dies at point N (kill or power), a second one takes over and dies at some point of its own in a power failure, and a third opens the
 * database, checks it, commits, closes, and checks again. Each transaction writes the same number to keys far apart, so a part of one shows; a
 * counter is raised atomically, so one applied twice or not at all shows, also one in the middle; the number must lie between the last one acknowledged and the last one
 * begun; and the version must be above all that any process was ever given.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine_internal.h"
#include "os/clock.h"
#include "util/memory.h"

enum { EVENTS_MAX = 20000, ARENA_BYTES = 64 << 20, PATH_BYTES = 600, BURST_MAX = 24, CRASHED = 9, BROKEN = 3 };

enum event_kind { EVENT_NONE, EVENT_WRITE, EVENT_CREATE, EVENT_RENAME, EVENT_UNLINK, EVENT_MKDIR };

struct event {
    enum event_kind kind;
    ino_t inode;                     /* WRITE */
    size_t offset, length, old_size; /* WRITE: `length` bytes before and after lie in the arena */
    size_t before, after;
    char path[PATH_BYTES];           /* the name made, moved or removed */
    char to[PATH_BYTES];             /* RENAME */
    char grave[PATH_BYTES];          /* where what had the name is kept until the directory is synced */
    bool buried;                     /* there is something in the grave */
};

/* Shared by all processes of a round. */
struct world {
    long calls;        /* so far in this process */
    long crash_at;     /* 0: never */
    int crash_manner;  /* 0 before, 1 after, 2 half-way */
    bool power;        /* a power failure, not a kill */
    bool armed;
    bool tight_first;  /* the window is small from the first open on, so that the log goes to the base while it is replayed */
    long lease_call;   /* the one that gave the lease its name */
    long record_call;  /* the first that wrote a record of the log */
    uint64_t random;
    int64_t begun, acknowledged, version; /* what the processes tell */
    int grave_count;
    size_t arena_used;
    int event_count;
    char problem[300];
    struct event events[EVENTS_MAX];
    uint8_t arena[ARENA_BYTES];
};

/* Forking under the thread sanitizer takes seconds. */
#ifdef __SANITIZE_THREAD__
enum { ROUNDS_DEFAULT = 10, RECORD_ROUNDS = 0 };
#else
enum { ROUNDS_DEFAULT = 160, RECORD_ROUNDS = 30 };
#endif

static struct world *world;
static char root[400];  /* everything of this program */
static char place[450]; /* the database */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t random_next(void) {
    world->random += 0x9E3779B97F4A7C15u;
    uint64_t z = world->random;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static _Noreturn void broken(const char *what, int64_t detail) {
    snprintf(world->problem, sizeof world->problem, "%s (%lld, errno %d)", what, (long long)detail, errno);
    _exit(BROKEN);
}

/* ---- The calls as the system has them ---- */

static ssize_t raw_pwrite(int descriptor, const void *data, size_t length, size_t offset) {
    return syscall(SYS_pwrite64, descriptor, data, length, offset);
}

static int raw_rename(const char *from, const char *to) {
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int raw_unlink(const char *path) {
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int raw_open(const char *path, int flags, mode_t mode) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- The journal ---- */

static struct event *event_add(enum event_kind kind, const char *path) {
    if (world->event_count == EVENTS_MAX)
        broken("the journal is full", EVENTS_MAX);
    struct event *event = &world->events[world->event_count++];
    memset(event, 0, sizeof *event);
    event->kind = kind;
    snprintf(event->path, sizeof event->path, "%s", path);
    return event;
}

static size_t arena_take(size_t length) {
    if (world->arena_used + length > ARENA_BYTES)
        broken("the arena is full", ARENA_BYTES);
    size_t at = world->arena_used;
    world->arena_used += length;
    return at;
}

static void new_grave(struct event *event) {
    snprintf(event->grave, sizeof event->grave, "%s/grave/%d", root, world->grave_count++);
}

static bool is_in(const char *path, const char *directory) {
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

/* The file with this inode, wherever it is called by now. */
static int open_inode(const char *directory, ino_t inode) {
    DIR *opened = opendir(directory);
    int found = -1;
    struct dirent *entry;
    while (opened && found < 0 && (entry = readdir(opened))) {
        char path[PATH_BYTES * 2];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (entry->d_type == DT_DIR)
            found = open_inode(path, inode);
        else if (entry->d_ino == inode)
            found = raw_open(path, O_RDWR, 0);
    }
    if (opened)
        closedir(opened);
    return found;
}

/* What was written to the file before event `end` is safe. */
static void file_synced(ino_t inode, int end) {
    for (int i = 0; i < end; i++) {
        if (world->events[i].kind == EVENT_WRITE && world->events[i].inode == inode)
            world->events[i].kind = EVENT_NONE;
    }
}

static void directory_synced(const char *path) {
    for (int i = 0; i < world->event_count; i++) {
        struct event *event = &world->events[i];
        if (event->kind <= EVENT_WRITE || !is_in(event->path, path))
            continue;
        struct stat status;
        if (event->buried && stat(event->grave, &status) == 0) {
            raw_unlink(event->grave);
            if (status.st_nlink == 1)
                file_synced(status.st_ino, world->event_count);
        }
        event->kind = EVENT_NONE;
    }
}

static void note_write(int descriptor, const char *path, const uint8_t *data, size_t length, size_t offset) {
    struct stat status;
    fstat(descriptor, &status);
    if (fcntl(descriptor, F_GETFL) & O_DSYNC)
        return;
    struct event *event = event_add(EVENT_WRITE, path);
    event->inode = status.st_ino;
    event->offset = offset;
    event->length = length;
    event->old_size = (size_t)status.st_size;
    event->before = arena_take(length);
    event->after = arena_take(length);
    memset(world->arena + event->before, 0, length);
    int readable = open_inode(root, status.st_ino); /* LMDB may have opened it for writing only */
    if (readable >= 0 && pread(readable, world->arena + event->before, length, (off_t)offset) < 0)
        broken("pread", (int64_t)offset);
    close(readable);
    memcpy(world->arena + event->after, data, length);
}

static void undo(struct event *event) {
    if (event->kind == EVENT_WRITE) {
        int file = open_inode(root, event->inode);
        if (file < 0)
            return;
        if (event->offset < event->old_size)
            raw_pwrite(file, world->arena + event->before, event->length, event->offset);
        if (ftruncate(file, (off_t)event->old_size) != 0)
            broken("ftruncate", (int64_t)event->old_size);
        close(file);
    } else if (event->kind == EVENT_CREATE || event->kind == EVENT_MKDIR) {
        raw_rename(event->path, event->grave);
    } else if (event->kind == EVENT_RENAME) {
        raw_rename(event->to, event->path);
        if (event->buried)
            raw_rename(event->grave, event->to);
    } else if (event->kind == EVENT_UNLINK) {
        raw_rename(event->grave, event->path);
    }
}

static void redo_write(const struct event *event) {
    unsigned fate = random_next() % 3; /* lost, whole, torn */
    int file = fate == 0 ? -1 : open_inode(root, event->inode);
    for (size_t done = 0; file >= 0 && done < event->length;) {
        size_t sector = 512 - (event->offset + done) % 512;
        size_t part = sector < event->length - done ? sector : event->length - done;
        if (fate == 1 || random_next() % 2)
            raw_pwrite(file, world->arena + event->after + done, part, event->offset + done);
        done += part;
    }
    if (file >= 0)
        close(file);
}

static void redo_name(const struct event *event) {
    if (event->kind == EVENT_CREATE || event->kind == EVENT_MKDIR)
        raw_rename(event->grave, event->path);
    else if (event->kind == EVENT_RENAME)
        raw_rename(event->path, event->to);
    else
        raw_unlink(event->path);
}

static bool is_segment(const char *path) {
    return strstr(path, "/log/log-") != NULL;
}

/* Takes everything unsynced back, then lets a part of it have reached the disk after all. */
static void fail_power(void) {
    int names = 0;
    for (int i = world->event_count; i-- > 0;) {
        undo(&world->events[i]);
        names += world->events[i].kind > EVENT_WRITE;
    }
    int names_kept = (int)(random_next() % (uint64_t)(names + 1));
    for (int i = 0; i < world->event_count; i++) {
        const struct event *event = &world->events[i];
        if (event->kind > EVENT_WRITE && names_kept-- > 0)
            redo_name(event);
    }
    for (int i = 0; i < world->event_count; i++) {
        if (world->events[i].kind == EVENT_WRITE)
            redo_write(&world->events[i]);
    }
    world->event_count = 0;
    world->arena_used = 0;
}

/* ---- Points ---- */

static _Noreturn void crash(void) {
    if (world->power)
        fail_power();
    _exit(CRASHED);
}

/* Enters a call; true: it is the one to die at, but not right away. Leaves with the lock held. */
static bool enter(void) {
    pthread_mutex_lock(&lock);
    bool last = ++world->calls == world->crash_at;
    if (last && world->crash_manner == 0)
        crash();
    return last;
}

static void leave(bool last) {
    if (last)
        crash();
    pthread_mutex_unlock(&lock);
}

static bool is_ours(const char *path) {
    return world && world->armed && strncmp(path, place, strlen(place)) == 0;
}

static bool descriptor_is_ours(int descriptor, char path[PATH_BYTES]) {
    if (!world || !world->armed)
        return false;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_BYTES - 1);
    path[length > 0 ? length : 0] = 0;
    return is_ours(path) || strcmp(path, root) == 0;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    struct stat status;
    if (!(flags & O_CREAT) || !is_ours(path) || stat(path, &status) == 0)
        return raw_open(path, flags, mode);
    bool last = enter();
    int descriptor = raw_open(path, flags, mode);
    if (descriptor >= 0)
        new_grave(event_add(EVENT_CREATE, path));
    leave(last);
    return descriptor;
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset) {
    char path[PATH_BYTES];
    if (!descriptor_is_ours(descriptor, path))
        return raw_pwrite(descriptor, data, length, (size_t)offset);
    bool last = enter();
    size_t part = last && world->crash_manner == 2 ? length / 2 : length;
    if (!world->record_call && is_segment(path))
        world->record_call = world->calls;
    note_write(descriptor, path, data, part, (size_t)offset);
    ssize_t result = raw_pwrite(descriptor, data, part, (size_t)offset);
    leave(last);
    return result;
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    char path[PATH_BYTES];
    if (!descriptor_is_ours(descriptor, path))
        return syscall(SYS_writev, descriptor, pieces, count);
    bool last = enter();
    off_t offset = lseek(descriptor, 0, SEEK_CUR);
    int part = last && world->crash_manner == 2 ? count / 2 : count;
    for (int i = 0; i < part; i++) {
        note_write(descriptor, path, pieces[i].iov_base, pieces[i].iov_len, (size_t)offset);
        offset += raw_pwrite(descriptor, pieces[i].iov_base, pieces[i].iov_len, (size_t)offset);
    }
    off_t begun = lseek(descriptor, 0, SEEK_CUR);
    lseek(descriptor, offset, SEEK_SET);
    leave(last);
    return offset - begun;
}

/* Lets a sync of the log take a while. It covers what was written before: says where that ends. */
static int begin_sync(const char *path) {
    pthread_mutex_lock(&lock);
    int end = world->event_count;
    int64_t wait_us = is_segment(path) ? (int64_t)(random_next() % 400) : 0;
    pthread_mutex_unlock(&lock);
    if (wait_us)
        os_sleep_us(wait_us);
    return end;
}

/* Nothing is synced in earnest: the journal is the disk. */
static int sync_descriptor(int descriptor, int call) {
    char path[PATH_BYTES];
    struct stat status;
    if (!descriptor_is_ours(descriptor, path))
        return (int)syscall(call, descriptor);
    int end = begin_sync(path);
    bool last = enter();
    fstat(descriptor, &status);
    if (S_ISDIR(status.st_mode))
        directory_synced(path);
    else
        file_synced(status.st_ino, end);
    leave(last);
    return 0;
}

int fdatasync(int descriptor) {
    return sync_descriptor(descriptor, SYS_fdatasync);
}

int fsync(int descriptor) {
    return sync_descriptor(descriptor, SYS_fsync);
}

int rename(const char *from, const char *to) {
    if (!is_ours(from))
        return raw_rename(from, to);
    bool last = enter();
    struct event *event = event_add(EVENT_RENAME, from);
    snprintf(event->to, sizeof event->to, "%s", to);
    new_grave(event);
    event->buried = link(to, event->grave) == 0;
    if (strstr(to, "/clock.keel"))
        world->lease_call = world->calls;
    int result = raw_rename(from, to);
    if (result != 0)
        event->kind = EVENT_NONE;
    leave(last);
    return result;
}

int unlink(const char *path) {
    if (!is_ours(path))
        return raw_unlink(path);
    bool last = enter();
    struct event *event = event_add(EVENT_UNLINK, path);
    new_grave(event);
    event->buried = true;
    int result = raw_rename(path, event->grave);
    if (result != 0)
        event->kind = EVENT_NONE;
    leave(last);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    if (!is_ours(path))
        return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    bool last = enter();
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0)
        new_grave(event_add(EVENT_MKDIR, path));
    leave(last);
    return result;
}

/* ---- The work ---- */

static struct database *open_engine(bool tight, uint64_t segment_bytes) {
    struct engine_options options = {
        .window_bytes_max = tight ? 1 : 64 << 20, /* tight: every commit waits for a checkpoint */
        .segment_bytes = segment_bytes,
        .lifetime_us = 1000,
        .generation_us = 250,
        .generation_bytes = tight ? 1 : 1 << 20,
        .base_pages_max = tight ? 1 : 2,
        .durable = true,
    };
    struct database *database;
    char *message = NULL;
    fdb_error_t error = engine_open(place, &options, &database, &message);
    if (error) {
        snprintf(world->problem, sizeof world->problem, "open: %d %s", error, message ? message : "");
        _exit(BROKEN);
    }
    int64_t version;
    database_get_read_version(database, &version);
    if (version <= world->version)
        broken("a version was handed out twice", version);
    world->version = version;
    return database;
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static const char *long_key(void) {
    static char key[1200];
    memset(key, 'k', sizeof key - 1);
    return key;
}

/* One transaction: the number everywhere, the counter one up. */
struct attempt {
    struct commit_request request; /* must be first */
    struct mutation mutations[6];
    int64_t number;
    uint8_t value[1500];
    char row[40];
    _Atomic bool finished;
};

/* Answers come in the order of the commits. */
static void done(struct commit_request *request, fdb_error_t error) {
    struct attempt *attempt = (struct attempt *)request;
    if (error)
        broken("commit", error);
    if (attempt->number != world->acknowledged + 1)
        broken("answered out of order", attempt->number);
    world->acknowledged = attempt->number;
    world->version = request->committed_version;
    atomic_store(&attempt->finished, true);
}

static void begin_commit(struct database *database, struct attempt *attempt, int64_t number) {
    static const int64_t one = 1;
    memset(attempt, 0, sizeof *attempt);
    attempt->number = number;
    memset(attempt->value, (int)number, sizeof attempt->value);
    memcpy(attempt->value, &number, 8);
    snprintf(attempt->row, sizeof attempt->row, "r/%d", (int)(number % 5));
    struct bytes small = bytes_make(attempt->value, 8), large = bytes_make(attempt->value, 8 + (size_t)number * 131 % 1400);
    struct mutation mutations[6] = {
        {.type = MUTATION_SET, .key = text("a"), .value = large},
        {.type = MUTATION_ADD, .key = text("counter"), .value = bytes_make(&one, 8)},
        {.type = MUTATION_SET, .key = text(long_key()), .value = small},
        {.type = MUTATION_CLEAR_RANGE, .key = text("r/"), .value = text("r0")},
        {.type = MUTATION_SET, .key = text(attempt->row), .value = small},
        {.type = MUTATION_SET, .key = text("z"), .value = small},
    };
    memcpy(attempt->mutations, mutations, sizeof mutations);
    attempt->request = (struct commit_request){.mutations = attempt->mutations, .mutation_count = 6, .size_bytes = 4000, .complete = done};
    world->begun = number;
    database_commit(database, &attempt->request);
    database_hurry(database);
}

/* Commits the numbers up to `last`, all of them on their way at once. */
static void commit_numbers(struct database *database, int64_t first, int64_t last) {
    static struct attempt attempts[BURST_MAX];
    for (int64_t number = first; number <= last; number++)
        begin_commit(database, &attempts[number - first], number);
    for (int64_t number = first; number <= last; number++)
        while (!atomic_load(&attempts[number - first].finished))
            os_sleep_us(50);
}

static int64_t fresh_version(struct database *database) {
    int64_t version;
    database_get_read_version(database, &version);
    if (version > world->version)
        world->version = version;
    return version;
}

/* The lifetime of versions is short here, so a read may well come too late and is made again. */
static int64_t read_number(struct database *database, const char *key) {
    struct arena arena = {0};
    struct bytes value;
    bool present;
    int64_t number = 0;
    fdb_error_t error;
    do {
        error = database_get(database, fresh_version(database), text(key), &arena, &value, &present);
    } while (error == ERROR_TRANSACTION_TOO_OLD);
    if (error)
        broken("get", error);
    if (present)
        memcpy(&number, value.data, 8);
    arena_free(&arena);
    return number;
}

/* How many rows the range of numbered rows has. */
static int count_rows(struct database *database) {
    struct rows rows = {0};
    bool more;
    struct range_request request = {0, text("r/"), text("r0"), 10, SIZE_MAX, 0, false};
    fdb_error_t error;
    do {
        rows_free(&rows);
        request.version = fresh_version(database);
        error = database_get_range(database, &request, &rows, &more);
    } while (error == ERROR_TRANSACTION_TOO_OLD);
    if (error)
        broken("get range", error);
    int count = rows.count;
    rows_free(&rows);
    return count;
}

/* The one number that everything must say. */
static int64_t check_state(struct database *database) {
    int64_t a = read_number(database, "a");
    if (read_number(database, "z") != a ||
        read_number(database, long_key()) != a)
        broken("a transaction is there in part", a);
    if (read_number(database, "counter") != a)
        broken("the counter does not match", a);
    if (count_rows(database) != (a > 0))
        broken("the range does not match", a);
    if (a < world->acknowledged)
        broken("an acknowledged commit is lost", world->acknowledged - a);
    if (a > world->begun)
        broken("a commit that nobody began", a);
    world->acknowledged = a; /* it was seen, so it must stay */
    return a;
}

/*
 * Opens, checks, commits one by one or many at once, closes; four times, the third in a window so small that checkpoints run beside the commits. Segments take
 * several batches, or are so small that each needs another.
 */
static void work(int rounds, int commits) {
    for (int round = 0; round < rounds; round++) {
        bool tight = round % 4 == 2 || world->tight_first, bursts = (round + rounds) % 2;
        struct database *database = open_engine(tight, bursts ? 1 << 18 : 8192);
        int64_t number = check_state(database);
        for (int i = 0; i < (tight ? 2 : commits); i++) {
            int64_t first = number + 1;
            number += bursts ? BURST_MAX : 1;
            commit_numbers(database, first, number);
        }
        database_close(database);
    }
}

static void verify(void) {
    for (int round = 0; round < 2; round++) {
        struct database *database = open_engine(false, 8192);
        int64_t number = check_state(database);
        if (base_check(engine_of(database)->base))
            broken("the base is damaged", number);
        commit_numbers(database, number + 1, number + 1);
        check_state(database);
        database_close(database);
    }
}

/* ---- Rounds ---- */

/* Runs a process; how it ended: 0, CRASHED, BROKEN, or minus the signal. */
static int run_process(bool only_verify, long crash_at, int manner, bool power, int rounds, int commits) {
    world->calls = 0;
    world->crash_at = crash_at;
    world->crash_manner = manner;
    world->power = power;
    pid_t child = fork();
    if (child == 0) {
        alarm(600); /* for one that hangs */
        world->armed = true;
        if (only_verify)
            verify();
        else
            work(rounds, commits);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    world->armed = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void start_round(uint64_t seed) {
    char command[2000];
    snprintf(command, sizeof command, "rm -rf '%s/db' '%s/grave' && mkdir '%s/grave'", root, root, root);
    if (system(command) != 0)
        exit(2);
    memset(world, 0, offsetof(struct world, events));
    world->random = seed;
}

static bool passed(long round, const char *who, int outcome, bool may_crash) {
    if (outcome == 0 || (may_crash && outcome == CRASHED))
        return true;
    printf("round %ld, %s: %s (ended with %d); again: KEEL_ROUND=%ld\n", round, who, world->problem, outcome, round);
    return false;
}

static bool run_round(long round, long point, uint64_t seed) {
    start_round(seed + (uint64_t)round * 1000003);
    bool power = random_next() % 2;
    int manner = (int)(random_next() % 3);
    if (!passed(round, "first worker", run_process(false, point, manner, power, 4, 10), true))
        return false;
    long second = 1 + (long)(random_next() % 60);
    manner = (int)(random_next() % 3);
    world->tight_first = random_next() % 2;
    return passed(round, "second worker", run_process(false, second, manner, true, 1, 15), true) &&
           passed(round, "verification", run_process(true, 0, 0, false, 0, 0), false);
}

/* Killed when the lease has its name, but in memory only: its successor goes on with it, so it must see to the name, or hand out the same versions again later. */
static bool run_lease_round(long lease_call, long second, uint64_t seed) {
    start_round(seed + (uint64_t)second);
    return passed(-1, "first worker", run_process(false, lease_call, 1, false, 4, 10), true) &&
           passed(-1, "second worker", run_process(false, second, 0, true, 1, 15), true) &&
           passed(-1, "verification", run_process(true, 0, 0, false, 0, 0), false);
}

/*
 * Killed when a record is written, but not synced: its successor replays it and may move it to the base before it sees to its sync. If the power
 * fails in between, and with it the record, the base must have all of it or nothing.
 */
static bool run_record_round(long record_call, long second, uint64_t seed) {
    start_round(seed + (uint64_t)second);
    bool killed = passed(-2, "first worker", run_process(false, record_call, 1, false, 4, 10), true);
    world->tight_first = true;
    return killed && passed(-2, "second worker", run_process(false, second, 1, true, 1, 15), true) &&
           passed(-2, "verification", run_process(true, 0, 0, false, 0, 0), false);
}

static long number_from(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value && *value ? atol(value) : otherwise;
}

int main(int argc, char **argv) {
    char made[300];
    const char *parent = getenv("TMPDIR");
    snprintf(made, sizeof made, "%s/keel-points-XXXXXX", parent ? parent : "/tmp");
    const char *directory = argc > 1 ? argv[1] : mkdtemp(made);
    mkdir(directory, 0700);
    char *real = realpath(directory, NULL);
    if (!real || snprintf(root, sizeof root, "%s", real) >= (int)sizeof root) {
        perror(directory);
        return 2;
    }
    free(real);
    snprintf(place, sizeof place, "%s/db", root);
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = (uint64_t)number_from("KEEL_SEED", 1);
    start_round(seed);
    long failed = !passed(0, "work without a crash", run_process(false, 0, 0, false, 4, 10), false);
    long points = world->calls, lease_call = world->lease_call, record_call = world->record_call;
    long rounds = number_from("KEEL_ROUNDS", ROUNDS_DEFAULT), only = number_from("KEEL_ROUND", -1);
    long run = 1;
    for (long round = 0; round < rounds; round++) {
        long point = 1 + (rounds <= points ? round * points / rounds : round % points);
        if (only >= 0 && round != only)
            continue;
        failed += !run_round(round, point, seed);
        run++;
    }
    for (long second = 4; second <= 10 && only < 0; second++, run++) /* later ones find versions in the log */
        failed += !run_lease_round(lease_call, second, seed);
    for (long second = 1; second <= RECORD_ROUNDS && only < 0; second++, run++)
        failed += !run_record_round(record_call, second, seed);
    char command[2000];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        failed++;
    printf("seed %llu, %ld points\n%ld passed, %ld failed\n", (unsigned long long)seed, points, run - failed, failed);
    return failed != 0;
}
