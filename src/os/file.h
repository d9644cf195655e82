/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files. The only place that opens, reads, writes, syncs, renames or removes one for the engine's log and lease. errno never
 * leaves: ENOSPC and EDQUOT are DISK_FULL, ENOENT is FILE_NOT_FOUND, everything else IO_ERROR (with a line in os_last_error()).
 * Interrupted and short reads and writes are continued here.
 */
#ifndef KEEL_OS_FILE_H
#define KEEL_OS_FILE_H

#include "util/bytes.h"
#include "util/error.h"

struct os_file {
    int descriptor;
};

enum os_path_kind { OS_PATH_MISSING, OS_PATH_FILE, OS_PATH_DIRECTORY, OS_PATH_OTHER };

fdb_error_t os_path_kind(const char *path, enum os_path_kind *kind);

/* Opens for reading and writing. With `create` an absent file is made (mode 0600). */
fdb_error_t os_file_open(const char *path, bool create, struct os_file *file);
/* Opens for reading only. */
fdb_error_t os_file_open_read(const char *path, struct os_file *file);
fdb_error_t os_file_close(struct os_file *file);
fdb_error_t os_file_size(struct os_file *file, uint64_t *size);

/* Makes the file `size` bytes long with every block allocated and written, so that later overwrites never need space. */
fdb_error_t os_file_preallocate(struct os_file *file, uint64_t size);

/* Exactly data.length bytes, or an error. */
fdb_error_t os_file_write(struct os_file *file, uint64_t offset, struct bytes data);

/* Up to `length` bytes; *got is less only at the end of the file. */
fdb_error_t os_file_read(struct os_file *file, uint64_t offset, void *buffer, size_t length, size_t *got);

/* Asks the system to begin writing these bytes to the disk, without waiting: a later sync finds less to do. Only a hint. */
void os_file_begin_sync(struct os_file *file, uint64_t offset, uint64_t length);

/* fdatasync: contents, and what is needed to reach them. */
fdb_error_t os_file_sync(struct os_file *file);

/* Takes the file's advisory lock for this process, at once: DATABASE_IN_USE if another opener (also in this process) has it. */
fdb_error_t os_file_lock(struct os_file *file);

/* The process that holds the lock os_file_lock has just not got, or 0 if the system does not tell. */
long os_file_lock_holder(struct os_file *file);

fdb_error_t os_rename(const char *from, const char *to);
fdb_error_t os_remove(const char *path);
fdb_error_t os_directory_create(const char *path); /* and missing parents; fine if it exists; mode 0700; its entry is on disk then */
fdb_error_t os_directory_sync(const char *path);

/* Calls `visit` with the name of each entry but . and .. ; stops at its first error and returns it. */
fdb_error_t os_directory_list(const char *path, fdb_error_t (*visit)(void *context, const char *name), void *context);

/* Random bytes from the system. */
void os_random(void *buffer, size_t length);

/* What the operating system said to this thread's last failure, for people; never NULL. */
const char *os_last_error(void);

/*
 * For tests: called before every write, sync, preallocation, rename and removal; a non-zero answer is returned instead of doing it.
 * `what` is "write", "sync", "allocate", "rename" or "remove". NULL turns it off.
 */
void os_file_set_fault(fdb_error_t (*fault)(void *context, const char *what, const char *path), void *context);

#endif
