/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file clock.keel: says that a directory is a Keel database, in which format, and up to which version the clock may go. docs/format.md
 * describes it. One thread at a time.
 */
#ifndef KEEL_ENGINE_LEASE_H
#define KEEL_ENGINE_LEASE_H

#include "os/file.h"

enum { LEASE_FORMAT = 1 };

struct lease {
    struct os_file file;
    uint64_t sequence; /* of the newest slot */
    int64_t ceiling;
    bool one_slot_lost; /* the other slot counts: the true ceiling may be one raise higher */
    uint8_t database_id[16];
};

/*
 * Opens an existing lease. FILE_NOT_FOUND, FORMAT_FOREIGN (wrong magic), FORMAT_NEWER, DATABASE_DAMAGED (neither slot is whole), IO_ERROR.
 * Changes nothing on disk.
 */
fdb_error_t lease_open(const char *path, struct lease *lease);

/*
 * Reads what an open file holds, for a check: which slots are whole, and what counts. *lease has no file. Errors as lease_open.
 */
fdb_error_t lease_read(struct os_file *file, struct lease *lease, bool whole[2]);

/* Creates one with a fresh database id, whole or not at all: written beside and renamed. */
fdb_error_t lease_create(const char *directory, const char *path, int64_t ceiling, struct lease *lease);

/* Durably raises the ceiling. Overwrites in place, so it needs no space. */
fdb_error_t lease_raise(struct lease *lease, int64_t ceiling);

void lease_close(struct lease *lease);

#endif
