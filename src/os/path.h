/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files: making them absolute, finding out that two name the same directory, reading a
 * small one.
 */
#ifndef KEEL_OS_PATH_H
#define KEEL_OS_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

enum { OS_PATH_BYTES_MAX = 4096 };

/*
 * `path` if it is absolute, else below the working directory of this moment. IO_ERROR if it does
 * not fit.
 */
fdb_error_t os_path_absolute(const char *path, char absolute[OS_PATH_BYTES_MAX]);

/* What stays the same when a file gets another name, and differs when a name gets another file. */
struct os_path_identity {
    uint64_t device, file;
};

static inline bool os_path_identity_equal(struct os_path_identity a, struct os_path_identity b) {
    return a.device == b.device && a.file == b.file;
}

/*
 * The one name of an existing file without links and dots, and its identity. FILE_NOT_FOUND,
 * IO_ERROR.
 */
fdb_error_t os_path_real(const char *path, char real[OS_PATH_BYTES_MAX],
                         struct os_path_identity *identity);

/*
 * Reads the first `capacity` bytes of a file that need not be writable. FILE_NOT_FOUND, IO_ERROR.
 */
fdb_error_t os_path_read(const char *path, char *buffer, size_t capacity, size_t *length);

#endif
