/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file a backup is written to and restored from; docs/backup.md describes it byte by byte. See backup_file.c.
 *
 * Threads: a value belongs to one thread. Failure: false, and what is wrong as text in `problem`.
 */
#ifndef KEEL_CLI_BACKUP_FILE_H
#define KEEL_CLI_BACKUP_FILE_H

#include "transfer.h"

enum {
    BACKUP_FORMAT = 1,
    BACKUP_HEADER_BYTES = 72,
    BACKUP_BLOCK_HEADER_BYTES = 32,
    BACKUP_BLOCK_BYTES = 1 << 18,     /* a block is ended by the row that reaches it */
    BACKUP_BLOCK_BYTES_MAX = 1 << 20, /* a longer one is not ours */
    BACKUP_KEY_BYTES_MAX = 30000,
    BACKUP_PROBLEM_BYTES = 512
};

struct backup_header {
    uint8_t id[16];   /* of the backup, random */
    int64_t version;  /* of the database */
    uint64_t time_us; /* since 1970 */
    uint64_t estimate_bytes; /* keys and values, about; 0 unknown */
};

/* ---- Writing ---- */

struct backup_writer {
    int descriptor;
    struct backup_header header;
    struct buffer block;    /* the header's room, then the rows */
    struct buffer last_key; /* of the block */
    uint32_t block_rows;
    uint64_t blocks, file_bytes, chain; /* chain: a checksum over the checksums of all blocks */
    struct tally tally;
    int system_error; /* errno of a failed write */
};

/* Writes the header. The id is drawn here. */
bool backup_writer_open(int descriptor, int64_t version, uint64_t estimate_bytes, struct backup_writer *writer);
/* Keys ascend. */
bool backup_writer_add(struct backup_writer *writer, keel_bytes key, keel_bytes value);
/* Writes the end; what was written is not synced. */
bool backup_writer_finish(struct backup_writer *writer);
void backup_writer_close(struct backup_writer *writer);

/* ---- Reading ---- */

struct backup_reader {
    int descriptor;
    struct backup_header header;
    struct buffer block;    /* its rows, verified */
    struct buffer key;      /* the last row's */
    uint32_t rows_left;
    size_t at;
    uint64_t blocks, file_bytes, chain;
    struct tally tally;
    bool ended;
    char problem[BACKUP_PROBLEM_BYTES];
};

/* Reads the header. */
bool backup_reader_open(int descriptor, struct backup_reader *reader);
/*
 * The next row: *present false behind the last one, when the end was found and agrees with all that came before it. A row is given out only if the
 * block it lies in is whole and undamaged.
 */
bool backup_reader_next(struct backup_reader *reader, struct row *row, bool *present);
/* Reads all that is left: true if the file is whole. */
bool backup_reader_verify(struct backup_reader *reader);
void backup_reader_close(struct backup_reader *reader);

#endif
