/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a database that nobody has open: every file, every byte that anybody would believe. Nothing is opened for writing and nothing changed; LMDB is not
 * asked, so that no damage, whatever it is, can crash the check. docs/format.md says what must hold.
 */
#ifndef KEEL_ENGINE_CHECK_H
#define KEEL_ENGINE_CHECK_H

#include "util/bytes.h"
#include "util/error.h"

enum check_severity {
    CHECK_NOTE,   /* worth knowing, and nothing is lost: leftovers, a torn last batch, somebody's file */
    CHECK_DAMAGE, /* something that was written is not there any more, or something is there that was never written */
};

/*
 * One thing found. `kind` is a short name that stays the same from release to release, for scripts; the texts are for people. All pointers are valid during the
 * call only.
 */
struct check_finding {
    enum check_severity severity;
    const char *kind;        /* "row-checksum", "log-record", …: the table in check.c */
    const char *file;        /* below the database's directory: "base.keel", "log/log-….keel"; "" is the directory */
    bool has_offset;
    uint64_t offset;         /* in the file, in bytes */
    bool has_key;
    struct bytes key;        /* the row's; of one in a sub-tree (a key of 510 bytes or more) the part there */
    const char *what;        /* a sentence without its full stop, as is the next */
    const char *consequence; /* what it means, and what can be done */
};

/* Calls from the thread that checks. `progress` may be NULL; it is called now and then with bytes of files looked at, and false stops the check. */
struct check_callbacks {
    void (*finding)(void *context, const struct check_finding *finding);
    bool (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    void *context;
};

struct check_summary {
    uint64_t damages, notes;           /* findings */
    uint64_t log_segments, log_records, log_bytes;
    uint64_t base_bytes, base_pages_used, base_pages_free, base_pages_lost; /* lost: neither used nor free */
    uint64_t rows;                     /* in the base */
    bool base_version_known;           /* false: its record could not be read */
    int64_t base_version, log_version; /* of the base; of the last record of the log, or the base's if there is none */
    uint8_t database_id[16];
};

/*
 * Success means that the check came to its end: summary->damages tells what it found. Otherwise it could not be made: FILE_NOT_FOUND (there is no such directory),
 * FORMAT_FOREIGN (not a database), FORMAT_NEWER, FORMAT_OLDER, DATABASE_IN_USE (with the process in *message, if the system tells), IO_ERROR, LARGE_ALLOC_FAILED,
 * OPERATION_CANCELLED (progress said so); *message (util/memory, or NULL) says more. *summary is filled in as far as the check came.
 */
fdb_error_t engine_check(const char *path, const struct check_callbacks *callbacks, struct check_summary *summary, char **message);

#endif
