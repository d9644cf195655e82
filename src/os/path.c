/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files. Used when a database is opened, never after: the engine works with the names it
 * was given then, so a later change of the working directory does not matter. Threads: any.
 * Failure: an error, outputs untouched.
 */
#include "os/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(OS_PATH_BYTES_MAX >= PATH_MAX, "realpath writes up to PATH_MAX bytes");

fdb_error_t os_path_absolute(const char *path, char absolute[OS_PATH_BYTES_MAX]) {
    char directory[OS_PATH_BYTES_MAX] = "";
    if (path[0] != '/' && !getcwd(directory, sizeof directory))
        return ERROR_IO_ERROR;
    size_t prefix = strlen(directory), length = strlen(path);
    if (prefix + length + 2 > OS_PATH_BYTES_MAX)
        return ERROR_IO_ERROR;
    memcpy(absolute, directory, prefix);
    if (prefix)
        absolute[prefix++] = '/';
    memcpy(absolute + prefix, path, length + 1);
    return 0;
}

fdb_error_t os_path_real(const char *path, char real[OS_PATH_BYTES_MAX],
                         struct os_path_identity *identity) {
    char resolved[OS_PATH_BYTES_MAX];
    struct stat status;
    if (!realpath(path, resolved) || stat(resolved, &status) != 0)
        return errno == ENOENT || errno == ENOTDIR ? ERROR_FILE_NOT_FOUND : ERROR_IO_ERROR;
    memcpy(real, resolved, strlen(resolved) + 1);
    *identity = (struct os_path_identity){(uint64_t)status.st_dev, (uint64_t)status.st_ino};
    return 0;
}

fdb_error_t os_path_read(const char *path, char *buffer, size_t capacity, size_t *length) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return errno == ENOENT || errno == ENOTDIR ? ERROR_FILE_NOT_FOUND : ERROR_IO_ERROR;
    size_t total = 0;
    ssize_t got = 1;
    while (total < capacity && got != 0) {
        got = read(descriptor, buffer + total, capacity - total);
        if (got < 0 && errno != EINTR)
            break;
        if (got > 0)
            total += (size_t)got;
    }
    close(descriptor);
    if (got < 0)
        return ERROR_IO_ERROR;
    *length = total;
    return 0;
}
