/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, as the log and the lease need them. This is where a commit reaches the disk: os_file_write
 * into a preallocated segment, then os_file_sync.
 *
 * What the calls promise beyond their POSIX namesakes:
 *
 *   1. Interrupted and short transfers are continued; a caller sees all or an error.
 *   2. errno does not leave this file. fail() turns it into a code and keeps a sentence for people in
 *      a buffer of the calling thread, which os_last_error hands out.
 *   3. A new directory's entry is on disk when os_directory_create returns: a database whose
 *      directory vanishes in a power failure has lost every commit it acknowledged.
 *   4. os_file_preallocate writes zeros rather than calling fallocate: blocks that were only reserved
 *      must be marked as written on first use, and that costs a journal commit at every sync. If
 *      there is no room the file is cut back to its old length.
 *   5. A sync that fails is reported once and never retried here: the kernel may have dropped the
 *      dirty pages, so a second sync that succeeds would prove nothing.
 *
 * Threads: any; positions are always explicit, so a file may be shared. The fault hook is set by
 * tests while nothing runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* the strerror_r that returns text */
#endif
#include "os/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fork.h"

/* ---- Errors and injected faults ---- */

static _Thread_local char last_error[512];
static fdb_error_t (*fault_function)(void *context, const char *what, const char *path);
static void *fault_context;

const char *os_last_error(void) {
    return last_error;
}

/* The code for errno, with "action path: reason" left in last_error. */
static fdb_error_t fail(const char *action, const char *path) {
    int reason = errno;
    char text[128];
    snprintf(last_error, sizeof last_error, "%s %s: %s", action, path,
             strerror_r(reason, text, sizeof text));
    switch (reason) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERROR_DISK_FULL;
    case ENOENT:
        return ERROR_FILE_NOT_FOUND;
    case ENOMEM:
        return ERROR_LARGE_ALLOC_FAILED;
    default:
        return ERROR_IO_ERROR;
    }
}

/* The path behind a descriptor, for messages and fault hooks; looked up because both are rare. */
static const char *descriptor_path(int descriptor, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0)
        return "(open file)";
    path[length] = 0;
    return path;
}

static fdb_error_t fail_file(const char *action, const struct os_file *file) {
    int reason = errno;
    char path[PATH_MAX];
    const char *name = descriptor_path(file->descriptor, path);
    errno = reason;
    return fail(action, name);
}

static fdb_error_t fault_at(const char *what, const char *path) {
    if (!fault_function)
        return ERROR_SUCCESS;
    fdb_error_t error = fault_function(fault_context, what, path);
    if (error)
        snprintf(last_error, sizeof last_error, "%s %s: injected fault", what, path);
    return error;
}

static fdb_error_t fault_at_file(const char *what, const struct os_file *file) {
    if (!fault_function)
        return ERROR_SUCCESS;
    char path[PATH_MAX];
    return fault_at(what, descriptor_path(file->descriptor, path));
}

void os_file_set_fault(fdb_error_t (*fault)(void *context, const char *what, const char *path),
                       void *context) {
    fault_function = fault;
    fault_context = context;
}

/* ---- One file ---- */

fdb_error_t os_path_kind(const char *path, enum os_path_kind *kind) {
    struct stat status;
    if (stat(path, &status) != 0) {
        if (errno != ENOENT)
            return fail("look at", path);
        *kind = OS_PATH_MISSING;
    } else if (S_ISREG(status.st_mode)) {
        *kind = OS_PATH_FILE;
    } else if (S_ISDIR(status.st_mode)) {
        *kind = OS_PATH_DIRECTORY;
    } else {
        *kind = OS_PATH_OTHER;
    }
    return ERROR_SUCCESS;
}

static int open_retrying(const char *path, int flags) {
    int descriptor;
    do {
        descriptor = open(path, flags | O_CLOEXEC, 0600);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

fdb_error_t os_file_open(const char *path, bool create, struct os_file *file) {
    int descriptor = open_retrying(path, O_RDWR | (create ? O_CREAT : 0));
    if (descriptor < 0)
        return fail(create ? "create" : "open", path);
    file->descriptor = descriptor;
    return ERROR_SUCCESS;
}

fdb_error_t os_file_open_read(const char *path, struct os_file *file) {
    int descriptor = open_retrying(path, O_RDONLY);
    if (descriptor < 0)
        return fail("open", path);
    file->descriptor = descriptor;
    return ERROR_SUCCESS;
}

fdb_error_t os_file_close(struct os_file *file) {
    int descriptor = file->descriptor;
    file->descriptor = -1;
    os_fork_release(descriptor);
    /* After EINTR the descriptor is gone all the same; closing again could hit another's. */
    if (close(descriptor) != 0 && errno != EINTR)
        return fail("close", "file");
    return ERROR_SUCCESS;
}

fdb_error_t os_file_size(struct os_file *file, uint64_t *size) {
    struct stat status;
    if (fstat(file->descriptor, &status) != 0)
        return fail_file("look at", file);
    *size = (uint64_t)status.st_size;
    return ERROR_SUCCESS;
}

/* Zero, or -1 with errno. */
static int write_fully(int descriptor, uint64_t offset, const uint8_t *data, size_t length) {
    while (length > 0) {
        ssize_t written = pwrite(descriptor, data, length, (off_t)offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        data += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return 0;
}

fdb_error_t os_file_preallocate(struct os_file *file, uint64_t size) {
    /* Small: a system may cache what was written at once as one piece, and go through all of it at every later write and sync. */
    static const uint8_t zeros[16 * 1024];
    fdb_error_t error = fault_at_file("allocate", file);
    if (error)
        return error;
    uint64_t old_size;
    error = os_file_size(file, &old_size);
    if (error)
        return error;
    for (uint64_t offset = old_size; offset < size;) {
        uint64_t left = size - offset;
        size_t chunk = left < sizeof zeros ? (size_t)left : sizeof zeros;
        if (write_fully(file->descriptor, offset, zeros, chunk) != 0) {
            error = fail_file("allocate", file);
            while (ftruncate(file->descriptor, (off_t)old_size) != 0 && errno == EINTR)
                continue;
            return error;
        }
        offset += chunk;
    }
    return ERROR_SUCCESS;
}

fdb_error_t os_file_write(struct os_file *file, uint64_t offset, struct bytes data) {
    fdb_error_t error = fault_at_file("write", file);
    if (error)
        return error;
    if (write_fully(file->descriptor, offset, data.data, data.length) != 0)
        return fail_file("write", file);
    return ERROR_SUCCESS;
}

fdb_error_t os_file_read(struct os_file *file, uint64_t offset, void *buffer, size_t length,
                         size_t *got) {
    size_t done = 0;
    while (done < length) {
        ssize_t count = pread(file->descriptor, (uint8_t *)buffer + done, length - done,
                              (off_t)(offset + done));
        if (count < 0) {
            if (errno == EINTR)
                continue;
            return fail_file("read", file);
        }
        if (count == 0)
            break;
        done += (size_t)count;
    }
    *got = done;
    return ERROR_SUCCESS;
}

void os_file_begin_sync(struct os_file *file, uint64_t offset, uint64_t length) {
    (void)sync_file_range(file->descriptor, (off_t)offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
}

fdb_error_t os_file_sync(struct os_file *file) {
    fdb_error_t error = fault_at_file("sync", file);
    if (error)
        return error;
    int result;
    do {
        result = fdatasync(file->descriptor);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? ERROR_SUCCESS : fail_file("sync", file);
}

/* flock belongs to the open file, not to the process, so a second opener here is refused as well. */
fdb_error_t os_file_lock(struct os_file *file) {
    int result;
    do {
        result = flock(file->descriptor, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
        os_fork_guard(file->descriptor); /* the lock would live as long as a child does */
        return ERROR_SUCCESS;
    }
    if (errno != EWOULDBLOCK)
        return fail_file("lock", file);
    fail_file("lock", file);
    return ERROR_DATABASE_IN_USE;
}

/* Linux lists every lock by the file's device and number: "3: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF". */
long os_file_lock_holder(struct os_file *file) {
    struct stat status;
    FILE *list = fopen("/proc/locks", "r");
    long holder = 0, process;
    unsigned long number;
    char line[256];
    if (list && fstat(file->descriptor, &status) == 0)
        while (!holder && fgets(line, sizeof line, list))
            if (sscanf(line, "%*s FLOCK %*s %*s %ld %*x:%*x:%lu", &process, &number) == 2 && number == status.st_ino)
                holder = process;
    if (list)
        fclose(list);
    return holder > 0 ? holder : 0;
}

/* ---- Directories ---- */

fdb_error_t os_rename(const char *from, const char *to) {
    fdb_error_t error = fault_at("rename", from);
    if (error)
        return error;
    return rename(from, to) == 0 ? ERROR_SUCCESS : fail("rename", from);
}

fdb_error_t os_remove(const char *path) {
    fdb_error_t error = fault_at("remove", path);
    if (error)
        return error;
    return unlink(path) == 0 ? ERROR_SUCCESS : fail("remove", path);
}

fdb_error_t os_directory_sync(const char *path) {
    fdb_error_t error = fault_at("sync", path);
    if (error)
        return error;
    int descriptor = open_retrying(path, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0)
        return fail("open", path);
    int result;
    do {
        result = fsync(descriptor);
    } while (result != 0 && errno == EINTR);
    if (result != 0)
        error = fail("sync", path);
    close(descriptor);
    return error;
}

/* Writes to disk the entry that `path` has in the directory above it. `path` is changed and restored. */
static fdb_error_t sync_parent(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash)
        return os_directory_sync(".");
    if (slash == path)
        return os_directory_sync("/");
    *slash = 0;
    fdb_error_t error = os_directory_sync(path);
    *slash = '/';
    return error;
}

static fdb_error_t create_one_directory(char *path) {
    if (mkdir(path, 0700) == 0)
        return sync_parent(path);
    if (errno != EEXIST)
        return fail("create", path);
    enum os_path_kind kind;
    fdb_error_t error = os_path_kind(path, &kind);
    if (!error && kind == OS_PATH_DIRECTORY)
        (void)sync_parent(path); /* as far as we may: its maker may have been killed before doing so */
    if (error || kind == OS_PATH_DIRECTORY)
        return error;
    errno = ENOTDIR;
    return fail("create", path);
}

fdb_error_t os_directory_create(const char *path) {
    char copy[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof copy) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return fail("create", path);
    }
    memcpy(copy, path, length);
    copy[length] = 0;
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (slash[-1] == '/')
            continue;
        *slash = 0;
        enum os_path_kind kind;
        fdb_error_t error = os_path_kind(copy, &kind);
        if (!error && kind != OS_PATH_DIRECTORY)
            error = create_one_directory(copy);
        *slash = '/';
        if (error)
            return error;
    }
    return create_one_directory(copy);
}

fdb_error_t os_directory_list(const char *path,
                              fdb_error_t (*visit)(void *context, const char *name),
                              void *context) {
    DIR *directory = opendir(path);
    if (!directory)
        return fail("list", path);
    fdb_error_t error = ERROR_SUCCESS;
    while (!error) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno != 0)
                error = fail("list", path);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            error = visit(context, entry->d_name);
    }
    closedir(directory);
    return error;
}

/* ---- Random bytes ---- */

void os_random(void *buffer, size_t length) {
    uint8_t *next = buffer;
    while (length > 0) {
        ssize_t count = getrandom(next, length, 0);
        if (count < 0) {
            assert(errno == EINTR);
            continue;
        }
        next += count;
        length -= (size_t)count;
    }
}
