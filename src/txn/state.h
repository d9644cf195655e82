/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of src/txn share: the transaction itself, its options, its lists. Nothing outside
 * this folder includes it.
 *
 * Lock order: transaction, then handle. Neither is held while a completion's `done` or the
 * database's commit, drive or unwatch runs: whoever ends completions collects them in a list under
 * the lock and calls finish_all after it.
 */
#ifndef KEEL_TXN_STATE_H
#define KEEL_TXN_STATE_H

#include <stdatomic.h>

#include "os/loop.h"
#include "os/thread.h"
#include "txn/transaction.h"
#include "txn/write_map.h"

/* --- Options --- */

/*
 * The options in force. A transaction has two: `base`, what an on_error goes back to, and
 * `options`, what holds now.
 */
struct transaction_options {
    int64_t timeout_ms;       /* 0: none */
    int64_t retry_limit;      /* -1: none */
    int64_t retry_delay_max_ms;
    int64_t size_limit_bytes;
    int snapshot_ryw;         /* > 0: snapshot reads see the transaction's own writes */
    uint8_t tag_count;
    bool ryw_disabled;
    bool next_write_no_conflict;
    bool read_system_keys, write_system_keys, raw_access;
    bool commit_protection_disabled;
    bool bypass_unreadable;
    bool report_conflicting_keys;
    bool special_relaxed, special_writes;
    bool lock_aware, read_only;
    bool long_read;
    bool causal_write_risky;
    bool include_port;
    bool has_identifier; /* debug_transaction_identifier was given: log_transaction needs it */
};

struct database_handle {
    _Atomic long references;
    struct database *database;
    int api_version;
    unsigned generation; /* of forks */
    void (*release)(void *context); /* instead of closing the database; or NULL */
    void *release_context;
    os_mutex lock;
    struct transaction_options defaults; /* under lock */
    _Atomic int watches_max;
    _Atomic int watch_count;
    char *cluster_file_path, *connection_string;
};

void options_defaults(struct transaction_options *options, int api_version);

/* --- Lists in an arena: lists.c --- */

/*
 * Growing arrays of conflict ranges and mutations, in chunks that double: appending copies nothing
 * that is there.
 */
struct range_chunk {
    struct range_chunk *next;
    size_t count, capacity;
    struct key_range ranges[];
};
struct range_list {
    struct range_chunk *first, *last;
    size_t count;
};
struct mutation_chunk {
    struct mutation_chunk *next;
    size_t count, capacity;
    struct mutation mutations[];
};
struct mutation_list {
    struct mutation_chunk *first, *last;
    size_t count;
};

bool range_list_reserve(struct range_list *list, struct arena *arena, size_t count);
bool range_list_append(struct range_list *list, struct arena *arena, struct key_range range);
bool range_list_flatten(const struct range_list *list, struct arena *arena,
                        struct key_range **array);
bool mutation_list_reserve(struct mutation_list *list, struct arena *arena, size_t count);
bool mutation_list_append(struct mutation_list *list, struct arena *arena,
                          struct mutation mutation);
bool mutation_list_flatten(const struct mutation_list *list, struct arena *arena,
                           struct mutation **array);

/*
 * Sorts ranges by where they begin and joins those that overlap or touch; returns how many are
 * left.
 */
size_t key_ranges_merge(struct key_range *ranges, size_t count);

/* --- A commit on its way --- */

/*
 * Lies in the transaction's own arena. When the transaction is reset before the answer, it takes
 * the arenas over and frees them with itself.
 */
struct commit_attempt {
    struct commit_request request;
    struct transaction *transaction; /* counted */
    struct completion *completion;   /* NULL once answered */
    bool orphaned;
    struct arena arena, read_arena; /* owned when orphaned */
};

/* --- A watch --- */

enum watch_state {
    WATCH_WAITING, /* its transaction is not committed yet */
    WATCH_READY,   /* committed, about to be handed to the database */
    WATCH_HELD,
        /* some thread is between the lock and the database with it: that thread frees it */
    WATCH_SET,     /* the database holds it, and a reference on the transaction for it */
    WATCH_FIRED,   /* fired while held */
};

struct pending_watch {
    struct watch watch;
    struct transaction *transaction;
    struct completion *completion; /* NULL once answered */
    enum watch_state state;
    struct pending_watch *previous, *next; /* in the transaction's list */
};

/* --- The transaction --- */

/* Ranges that a failed commit read and another transaction wrote; outlives resets. */
struct conflict_report {
    size_t count;
    struct key_range ranges[];
};

struct transaction {
    struct transaction_head head; /* first: api/foreign.h looks for it there */
    os_mutex lock;
    _Atomic long references;
    struct database_handle *handle;
    struct database *database;
    struct database *source; /* where reads go: the database, or it as it was at the read version, for a long read */
    int api_version;

    /* Everything that makes the next call leave its short path: see transaction_check. */
    bool troubled;

    bool destroyed;
    bool commit_started;  /* until a reset */
    bool used;            /* read or wrote: read_your_writes_disable comes too late */
    bool has_version;     /* a read version is set or was obtained */
    bool version_checked; /* and can be read at */
    fdb_error_t deferred_error; /* of a call that returns nothing */
    fdb_error_t read_error;     /* of the first read that failed: the commit fails with it */
    fdb_error_t reset_error;    /* cancelled, timed out, ...: every call fails until a reset */

    int64_t read_version;
    int64_t committed_version;
    int64_t approximate_bytes;

    struct transaction_options options, base;
    int64_t created_us, deadline_us; /* deadline 0: none */
    int64_t retries;
    double backoff_seconds;

    struct arena arena; /* writes and the commit */
    struct write_map writes;
    struct mutation_list mutations;     /* already out of the map's hands: sent before it */
    struct range_list write_conflicts;  /* likewise */
    struct range_list stamped_keys;     /* begin: the key as given, with its offset */

    struct arena read_arena; /* read conflict ranges */
    struct range_list read_conflicts;
    size_t read_conflicts_compact_at;

    struct rows chunk, found; /* scratch of reads */

    struct commit_attempt *attempt; /* in flight */
    struct completion *pending;     /* commit, versionstamp, on_error; newest first */
    struct completion *retry;       /* the on_error that waits for its backoff, also in `pending` */
    struct pending_watch *watches;
    uint64_t round; /* how often it began anew */
    bool proxy_commits; /* a proxy: the twin has its commit */
    struct completion *proxy_watches; /* a proxy: those not answered */
    struct conflict_report *report;
    uint8_t stamp[10];
    bool stamp_known;

    struct loop_timer timeout_timer, retry_timer; /* one that is set holds a reference */
    int64_t retry_deadline_us;
};

enum completion_kind { COMPLETION_NONE, COMPLETION_COMMIT, COMPLETION_STAMP, COMPLETION_RETRY,
                      COMPLETION_WATCH, COMPLETION_PROXY, COMPLETION_PROXY_WAITING,
                      COMPLETION_PROXY_SET };

/* Completions to be ended once the lock is given back. */
struct ended {
    struct completion *first;
    struct pending_watch *watches; /* to be freed afterwards */
};

/* transaction.c */
void pending_add(struct transaction *transaction, struct completion *completion,
                 enum completion_kind kind);
void pending_end(struct transaction *transaction, struct completion *completion, fdb_error_t error,
                 struct ended *ended);
void pending_end_all(struct transaction *transaction, fdb_error_t error, struct ended *ended);
void completion_collect(struct completion *completion, fdb_error_t error, struct ended *ended);
void finish_all(struct ended *ended);
void finish_one(struct completion *completion, fdb_error_t error);
void transaction_fail(struct transaction *transaction, fdb_error_t error, struct ended *ended);
void transaction_clear_state(struct transaction *transaction, struct ended *ended);
void transaction_defer(struct transaction *transaction, fdb_error_t error);
fdb_error_t transaction_check(struct transaction *transaction, bool also_commit,
                              struct ended *ended);
bool transaction_used_during_commit(struct transaction *transaction, struct ended *ended);
fdb_error_t transaction_version(struct transaction *transaction);
void transaction_unpin(struct transaction *transaction);
void retain_memory(struct transaction *transaction);

/* keys.c */
struct bytes key_max_read(const struct transaction *transaction);
struct bytes key_max_write(const struct transaction *transaction);
size_t key_bytes_max(struct bytes key, bool raw_access);
bool key_is_metadata_version(struct bytes key);
bool key_is_special(struct bytes key);

/* Within the transaction's arena: `key` followed by a zero byte. */
bool key_after(struct arena *arena, struct bytes key, struct bytes *after);

/* conflict_ranges.c: what a read adds, minus what the transaction's own writes decide. */
fdb_error_t conflict_add_key(struct transaction *transaction, struct bytes key,
                             enum write_kind kind);
fdb_error_t conflict_add_range(struct transaction *transaction, struct bytes begin,
                               struct bytes end);

/* commit.c */
void commit_end(struct transaction *transaction, struct completion *completion, fdb_error_t error,
                fdb_error_t stamp_error, struct ended *ended);
fdb_error_t commit_flush(struct transaction *transaction, struct key_range range);
fdb_error_t commit_stamp_range(struct transaction *transaction, struct bytes key,
                               struct arena *arena,
                               struct key_range *range);

/* read.c */
fdb_error_t read_value(struct transaction *transaction, struct bytes key, bool snapshot,
                       struct arena *arena,
                       struct bytes *value, bool *present);

/* watch.c */
void watches_fire_written(struct transaction *transaction, struct key_range range, bool known,
                          const struct bytes *value,
                          struct ended *ended);
void watches_end(struct transaction *transaction, fdb_error_t error, struct ended *ended);
void watches_make_ready(struct transaction *transaction);
void watches_hand_over(struct transaction *transaction); /* REQUIRES: the lock is not held */
bool watch_cancel(struct transaction *transaction, struct completion *completion);

/* proxy.c */
void proxy_watch_unlink(struct transaction *transaction, struct completion *completion);

/* retry.c */
void timeout_apply(struct transaction *transaction, struct ended *ended);
void timers_init(struct transaction *transaction);
void timers_stop(struct transaction *transaction);
void retry_cancel(struct transaction *transaction, struct ended *ended);

/* options.c */
fdb_error_t options_set(struct transaction *transaction, int option, const uint8_t *value,
                        int length,
                        struct ended *ended);

/* special_keys.c; all under the transaction's lock */
fdb_error_t special_get(struct transaction *transaction, struct bytes key, struct arena *arena,
                        struct bytes *value,
                        bool *present);
fdb_error_t special_get_range(struct transaction *transaction, struct key_selector begin,
                              struct key_selector end,
                              int64_t row_limit, int64_t byte_limit, bool reverse,
                                  struct rows *rows, bool *more);
fdb_error_t special_write(struct transaction *transaction, struct bytes begin, struct bytes end);

/* status.c: the status document of an embedded database, as JSON. */
fdb_error_t status_document(struct database_handle *handle, struct arena *arena,
                            struct bytes *document);

#endif
