/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows out of a database and rows into one: what backup, restore, copy and check have in common. See transfer.c (reading and writing) and
 * transfer_job.c (what makes an interrupted transfer known, and how it goes on).
 *
 * Threads: a value belongs to one thread. Errors are returned, not reported; Ctrl-C ends every wait with 1101.
 */
#ifndef KEEL_CLI_TRANSFER_H
#define KEEL_CLI_TRANSFER_H

#include "cli.h"
#include "util/error.h"

enum {
    TRANSFER_LOST = 100101,   /* another process has taken the transfer over */
    TRANSFER_CHANGED = 100102 /* more than one version was needed where one was asked for */
};

/* All keys a program can use without the option access_system_keys. */
#define USER_KEYS_BEGIN keel_bytes_of("", 0)
#define USER_KEYS_END keel_bytes_of("\xff", 1)

/* ---- A state of the database ---- */

struct snapshot {
    FDBDatabase *database;
    FDBTransaction *tr;
    int64_t version;
    bool held;        /* long reads: one version for as long as it takes */
    bool one_version; /* while false, a scan may begin another version when its own is too old */
    int versions;     /* how many it has taken so far */
};

/*
 * Takes the present state. Where the database does not know long reads (2007, a cluster), or `bounded` asks for it, versions last five seconds:
 * with `one_version` a scan then ends with TRANSFER_CHANGED, otherwise it goes on at a newer version and counts it.
 */
fdb_error_t snapshot_open(FDBDatabase *database, bool bounded, bool one_version, struct snapshot *snapshot);
void snapshot_close(struct snapshot *snapshot);
/* A value at the snapshot, copied: present false leaves *value empty. */
fdb_error_t snapshot_get(struct snapshot *snapshot, keel_bytes key, struct buffer *value, bool *present);

/* ---- Reading a range ---- */

struct scan {
    struct snapshot *snapshot;
    FDBFuture *current, *ahead; /* what the caller looks at, and the next read, already under way */
    struct buffer last;         /* key: reads go on behind it */
    struct buffer end;
    bool started, done;
};

fdb_error_t scan_open(struct snapshot *snapshot, keel_bytes begin, keel_bytes end, struct scan *scan);
/* The next rows in order, valid until the next call; *count 0 at the end. */
fdb_error_t scan_next(struct scan *scan, const FDBKeyValue **rows, int *count);
void scan_close(struct scan *scan);

/* The same row by row. */
struct row {
    keel_bytes key, value;
};
struct cursor {
    struct scan scan;
    const FDBKeyValue *rows;
    int count, at;
};
fdb_error_t cursor_open(struct snapshot *snapshot, keel_bytes begin, keel_bytes end, struct cursor *cursor);
/* *present false at the end; the row lasts until the next call. */
fdb_error_t cursor_next(struct cursor *cursor, struct row *row, bool *present);
void cursor_close(struct cursor *cursor);

/* What rows amount to, and a checksum that depends on every byte and on their order. Starts as all zeros. */
struct tally {
    uint64_t rows, bytes, checksum;
};
void tally_add(struct tally *tally, keel_bytes key, keel_bytes value);
bool tally_equal(const struct tally *a, const struct tally *b);

/* ---- Writing, many transactions in flight ---- */

enum { LOADER_SLOTS = 8, LOADER_BATCH_BYTES = 500000, LOADER_BATCH_CHANGES = 5000 };

struct job;

struct loader_batch {
    struct buffer changes; /* kind (1), key length (4), value length (4), key, value; one after the other */
    struct buffer last_key;
    uint64_t rows_through; /* how many rows are in once this and all earlier batches are */
    size_t count;
    FDBTransaction *tr;
    FDBFuture *commit; /* NULL: not in flight */
};

struct loader {
    FDBDatabase *database;
    const struct job *job; /* may be NULL: nobody needs to know */
    struct loader_batch batches[LOADER_SLOTS];
    size_t first, in_flight; /* a ring; the one behind those in flight is being filled */
    struct buffer confirmed; /* all rows up to this key are in the database */
    bool any_confirmed;
    uint64_t rows, rows_confirmed;
    struct buffer failed_key; /* first key of the batch that an error came from */
};

void loader_open(FDBDatabase *database, const struct job *job, struct loader *loader);
/*
 * A change, committed with others some time later. Keys given to loader_set ascend: what is confirmed is the longest beginning that is in.
 * loader_repair_* are for changes in any order, which say nothing about how far the transfer is.
 */
fdb_error_t loader_set(struct loader *loader, keel_bytes key, keel_bytes value);
fdb_error_t loader_repair_set(struct loader *loader, keel_bytes key, keel_bytes value);
fdb_error_t loader_repair_clear(struct loader *loader, keel_bytes key);
/* Commits what is left and waits for all. */
fdb_error_t loader_finish(struct loader *loader);
void loader_close(struct loader *loader);

/* ---- The job: a transfer into a database that is under way (transfer_job.c) ---- */

struct job {
    FDBDatabase *database;
    const char *kind;     /* "restore" or "copy" */
    const char *source;   /* what it comes from: the same source goes on with it */
    bool merge;           /* rows that were there stay */
    keel_bytes into;      /* prefix of all keys it writes */
    uint8_t token[16];    /* of this process */
    bool resumed;
    struct buffer through; /* with resumed: all rows up to this key are in, and perhaps some behind it; empty: nothing is known */
    uint64_t rows;         /* with resumed: as many */
    struct buffer record;  /* what stands under the job's key */
};

enum job_start { JOB_STARTED, JOB_RESUMED, JOB_NOT_EMPTY, JOB_UNFINISHED };

/*
 * In one transaction: looks whether the keys below `into` are free (or `merge`, or `force`, which clears them), or hold an unfinished transfer of
 * the same kind and source, which is taken over; records the job. JOB_NOT_EMPTY and JOB_UNFINISHED change nothing; the latter sets *found, which
 * is the caller's to free().
 */
fdb_error_t job_begin(struct job *job, bool force, enum job_start *start, char **found);
/* In every transaction of the transfer: TRANSFER_LOST if it is no longer ours. `through` NULL: no progress to record. */
fdb_error_t job_touch(FDBTransaction *tr, const struct job *job, const keel_bytes *through, uint64_t rows);
/* Removes the record: the database is whole. */
fdb_error_t job_end(struct job *job);
void job_close(struct job *job);
/* A sentence about an unfinished transfer into the database, malloc'ed, or NULL if there is none. */
fdb_error_t job_look(FDBDatabase *database, char **found);

/* Reports what a failed transfer needs said, beyond report_error: returns the exit code. */
int transfer_report(const char *doing, const char *what, fdb_error_t error);

#endif
