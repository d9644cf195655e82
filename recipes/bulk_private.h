/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of bulk work share. Private to recipes/.
 *
 *     bulk.c           what is stored about loads; listing, flipping, abandoning: everything inside the caller's transaction
 *     bulk_pairs.c     pairs in memory with a table of their keys: a row, a batch
 *     bulk_filter.c    which keys cannot be duplicates
 *     bulk_begin.c     beginning a load, or taking it over
 *     bulk_batch.c     one batch on its way into the database
 *     bulk_load.c      the keel_bulk object: rows into batches, batches in flight
 *     bulk_validate.c  reading a load back
 *     bulk_cleanup.c   removing loads
 */
#ifndef RECIPES_BULK_PRIVATE_H
#define RECIPES_BULK_PRIVATE_H

#include <keel/bulk.h>

#include "support.h"

enum { BULK_OWNER_BYTES = 16, BULK_PROGRESS_BYTES_MAX = 2 * KEEL_BULK_BOOKMARK_MAX + 128, BULK_NO_MEMORY = 1501 };

/* ---- What is stored (bulk.c) ---- */

/* ("load", name) */
struct bulk_record {
    keel_bulk_state state;
    uint8_t owner[BULK_OWNER_BYTES];
    int64_t begun_ms, changed_ms;
    keel_subspace rows;
};

/* ("progress", name) and ("progress", name, first), where all but the rows count from that batch's beginning. */
struct bulk_progress {
    uint64_t rows; /* of the input up to the end of this */
    uint64_t pairs;
    int64_t bytes; /* of a batch that replaces long values by short ones below 0 */
    uint64_t checksum, skipped;
    int64_t time_ms;
    uint64_t input; /* of batches only */
    size_t bookmark_length;
    uint8_t bookmark[KEEL_BULK_BOOKMARK_MAX];
};

int64_t bulk_now_ms(void);
fdb_error_t bulk_check_name(const char *name);

/* The subspace of a target, and a key in it. */
fdb_error_t bulk_space(const keel_directory *target, keel_subspace *space);
/* The path of the directory of rows below the target; points into itself. */
struct bulk_path {
    keel_bytes names[2];
    keel_path path;
};
void bulk_path_of(const char *name, struct bulk_path *path);

/* One row of the load's own keys; NOT_FOUND, STORED_FORMAT. Start and finish, so that several are under way. */
FDBFuture *bulk_get(FDBTransaction *tr, const keel_subspace *space, keel_tuple tuple, fdb_error_t *error);
fdb_error_t bulk_record_finish(FDBFuture *future, struct bulk_record *record);
fdb_error_t bulk_record_read(FDBTransaction *tr, const keel_subspace *space, const char *name, struct bulk_record *record);
fdb_error_t bulk_record_write(FDBTransaction *tr, const keel_subspace *space, const char *name,
                              const struct bulk_record *record);
fdb_error_t bulk_progress_parse(keel_bytes value, bool of_batch, struct bulk_progress *progress);
fdb_error_t bulk_progress_pack(const struct bulk_progress *progress, bool of_batch,
                               uint8_t value[BULK_PROGRESS_BYTES_MAX], size_t *length);
/* Adds the batch that follows. */
void bulk_progress_add(struct bulk_progress *sum, const struct bulk_progress *batch);
/* The row behind which a batch begins, from the key of its progress. */
fdb_error_t bulk_progress_first(const keel_subspace *space, keel_bytes key, uint64_t *first);

/* All keys of the rows: [begin, end). */
fdb_error_t bulk_rows_span(const keel_subspace *rows, struct recipe_span *span);

/* ---- Pairs in memory (bulk_pairs.c) ---- */

struct bulk_pair {
    uint64_t key_hash, hash; /* of the key, and of both */
    uint32_t offset, key_length, value_length;
    uint32_t row; /* within the batch */
    bool check;   /* the database is to be asked whether it has the key */
    bool dropped; /* its row is left out */
};

/* `table` has `table_size` slots, a power of two, of indexes + 1; it is used once there are more than a few pairs. */
struct bulk_pairs {
    uint8_t *data;
    size_t length, capacity;
    struct bulk_pair *pairs;
    uint32_t count, pairs_capacity;
    uint32_t *table;
    uint32_t table_size;
    size_t cost; /* in bytes of a transaction, prefixes not counted */
};

uint64_t bulk_hash_key(keel_bytes key);
uint64_t bulk_hash_value(uint64_t key_hash, keel_bytes value);
keel_bytes bulk_pair_key(const struct bulk_pairs *pairs, const struct bulk_pair *pair);
keel_bytes bulk_pair_value(const struct bulk_pairs *pairs, const struct bulk_pair *pair);
/* Copies; 1501. Does not look whether it is there. */
fdb_error_t bulk_pairs_add(struct bulk_pairs *pairs, uint64_t key_hash, uint64_t hash, keel_bytes key, keel_bytes value,
                           struct bulk_pair **added);
/* The pair of that key that is not dropped, or NULL. */
struct bulk_pair *bulk_pairs_find(const struct bulk_pairs *pairs, uint64_t key_hash, keel_bytes key);
/* Bytes that belong to no pair; *offset is where they are. */
fdb_error_t bulk_pairs_keep(struct bulk_pairs *pairs, keel_bytes bytes, uint32_t *offset);
void bulk_pairs_clear(struct bulk_pairs *pairs); /* keeps the memory */
void bulk_pairs_free(struct bulk_pairs *pairs);

/* ---- Keys that cannot be there (bulk_filter.c) ---- */

struct bulk_filter {
    uint64_t *words; /* NULL: nothing is known, everything may be there */
};
fdb_error_t bulk_filter_make(struct bulk_filter *filter);
bool bulk_filter_may_have(const struct bulk_filter *filter, uint64_t key_hash);
void bulk_filter_add(struct bulk_filter *filter, uint64_t key_hash);
void bulk_filter_free(struct bulk_filter *filter);

/* ---- A batch (bulk_batch.c) ---- */

enum bulk_batch_state {
    BATCH_FILLING,
    BATCH_READING,    /* owner, own progress, keys that may be there already */
    BATCH_COMMITTING,
    BATCH_WAITING,    /* before another try */
    BATCH_DONE
};

struct bulk_row {
    uint32_t bookmark; /* offset */
    uint16_t bookmark_length;
    bool skipped, certain; /* certain: known not to be in the database */
};

/* So many keys are asked for at once: what the database has there may be long. */
enum { BULK_READS_MAX = 1000 };

struct bulk_batch {
    enum bulk_batch_state state;
    bool decided;           /* which rows it writes */
    uint64_t first;         /* rows before it */
    uint64_t carried_rows;  /* of `done`, which it brings along */
    int64_t begun_ms;       /* monotonic */
    struct bulk_pairs pairs;
    struct bulk_row *rows;
    uint32_t row_count, row_capacity;
    struct bulk_progress progress; /* what it adds; complete once decided */
    FDBTransaction *tr;
    FDBFuture *future;                  /* of the commit or the wait */
    FDBFuture *owner_read, *own_read;
    uint32_t checked;                   /* pairs, from the first on, that need no look at the database any more */
    uint32_t asked;                     /* … and those that are asked for */
    FDBFuture *reads[BULK_READS_MAX];   /* for the pairs between the two that are to be checked, in order */
    int reads_count;
};

/* Appends a row made of `row`'s pairs; those that are to be looked up have `check`. */
fdb_error_t bulk_batch_append(struct bulk_batch *batch, const struct bulk_pairs *row, keel_bytes bookmark);
/* Appends a row that is left out. */
fdb_error_t bulk_batch_append_skipped(struct bulk_batch *batch, const struct bulk_pairs *row, keel_bytes bookmark);
/* Leaves out a row that was appended; its first pair; the key of a pair in the database. */
void bulk_batch_drop(struct bulk_batch *batch, uint32_t row);
uint32_t bulk_batch_first_pair(const struct bulk_batch *batch, uint32_t row);
fdb_error_t bulk_batch_key(const struct keel_bulk *bulk, const struct bulk_batch *batch, const struct bulk_pair *pair,
                           struct recipe_key *key);
/* What problem there is with a pair of it. */
keel_bulk_problem bulk_batch_problem(const struct bulk_batch *batch, const struct bulk_pair *pair, fdb_error_t error);

/*
 * Sends a batch that was being filled; bulk_batch_step moves it on: without waiting if !block, else until its state has
 * changed. A final error is returned; that of a row also fills *problem, which then points into the batch.
 */
fdb_error_t bulk_batch_send(struct keel_bulk *bulk, struct bulk_batch *batch);
fdb_error_t bulk_batch_step(struct keel_bulk *bulk, struct bulk_batch *batch, bool block, keel_bulk_problem *problem);
/* Ends all reads and the transaction. */
void bulk_batch_stop(struct bulk_batch *batch);
void bulk_batch_clear(struct bulk_batch *batch, uint64_t first); /* to be filled anew */
void bulk_batch_free(struct bulk_batch *batch);

/* ---- The object (bulk_load.c) ---- */

/* A batch that an earlier run has committed behind the gap: its rows are only compared. */
struct bulk_kept {
    uint64_t first;
    struct bulk_progress progress;
};

/*
 * `batches` is a ring of in_flight + 1: `count` of them, from `head` on, are sent and in the order of their rows; the one
 * behind them is being filled.
 */
struct keel_bulk {
    FDBDatabase *database;
    keel_subspace space;
    struct bulk_record record;
    char name[KEEL_BULK_NAME_MAX + 1];
    keel_bulk_options options;
    bool finished;
    uint64_t rows_added;
    struct bulk_progress done;   /* all rows up to the first that is not committed */
    uint64_t done_stored_rows;   /* the largest `done` that is known to be in the database */
    struct bulk_kept *kept;
    size_t kept_count, kept_passed, kept_done; /* passed by the input, and added to `done` */
    uint64_t kept_input;         /* of the one that the input is in */
    struct bulk_pairs row;       /* that is being put together */
    bool has_largest;
    struct recipe_key largest;   /* no key of the load is larger, those in flight included */
    struct bulk_filter filter;   /* has all keys of the load, those in flight included */
    struct bulk_batch batches[KEEL_BULK_IN_FLIGHT_MAX + 1];
    int head, count;
    keel_bulk_problem problem;
    uint8_t *problem_memory;
};

#endif
