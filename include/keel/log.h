/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log: entries in the order in which their transactions committed, appended by any number of
 * clients without a conflict, read from any position by any number of readers.
 *
 *     error = keel_log_append(tr, &log, 0, KEEL_BYTES("opened", 6));
 *     …
 *     error = keel_log_scan(tr, &log, &position, 100, visit, context);    what came behind position
 *
 * Keys:
 *
 *     log + (versionstamp) = entry                the position: commit version and order within it
 *     log                  = (versionstamp)       the newest position ever; readers watch it
 *
 * The database fills in the versionstamp when it commits, so nobody has to agree on a next number.
 * Entries never change, and none ever appears in front of one that could be read already: that is
 * why all reads here are snapshots, which conflict with nothing, and a reader that goes on behind
 * the last position it saw misses nothing and sees nothing twice.
 *
 * Entries of the transaction that appends them cannot be read in it: a read of the log after an
 * append fails with accessed_unreadable (1036), and the commit with it.
 *
 * All functions but keel_log_wait work inside the caller's transaction, commit nothing, and may be
 * called again after any error. Errors besides those of the reads: STORED_FORMAT if a key in the
 * subspace is not a log's. What is too wrong to be written is refused before anything is.
 */
#ifndef KEEL_LOG_H
#define KEEL_LOG_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where an entry is. A plain value of 12 bytes that can be compared (memcmp), stored and brought
 * back: ten from the database, two the order within a transaction. All zeros lies before every
 * entry.
 */
typedef struct keel_log_position {
    uint8_t bytes[KEEL_VERSIONSTAMP_LENGTH];
} keel_log_position;

/* ---- Appending ---- */

/*
 * Appends an entry of up to 100,000 bytes (value_too_large, 2103; ARGUMENT for NULL with a length).
 * `order` decides among the entries of one transaction, and must be another for each of them: two
 * with the same would be one key, and the later call would win. Reads nothing, conflicts with
 * nothing.
 */
fdb_error_t keel_log_append(FDBTransaction *tr, const keel_subspace *log, uint16_t order,
                            keel_bytes entry);

/*
 * Appends `count` entries with the orders from `first_order` on. ARGUMENT where these would pass
 * 65535; then, as after any error, none is appended.
 */
fdb_error_t keel_log_append_many(FDBTransaction *tr, const keel_subspace *log, uint16_t first_order,
                                 const keel_bytes *entries, size_t count);

/*
 * The position of an appended entry, from what fdb_transaction_get_versionstamp gave after the
 * commit and the order.
 */
keel_log_position keel_log_position_of(const uint8_t *transaction_version, uint16_t order);

/* ---- Reading ---- */

/*
 * Called for each entry; `entry` is valid during the call. A value other than 0 ends the scan,
 * which returns it. May be called again from the beginning when the transaction is retried.
 */
typedef fdb_error_t (*keel_log_visit)(void *context, const keel_log_position *position,
                                      keel_bytes entry);

/*
 * Visits up to `limit` (0: all; negative: ARGUMENT) entries behind the position `after`, oldest
 * first; NULL is the beginning. To read a long log take it in pieces, each behind the last
 * position of the one before, in a transaction each. Reads what it visits.
 */
fdb_error_t keel_log_scan(FDBTransaction *tr, const keel_subspace *log,
                          const keel_log_position *after, int limit, keel_log_visit visit,
                          void *context);

/* Visits the `count` newest entries (at least 1, else ARGUMENT), newest first. Reads these. */
fdb_error_t keel_log_tail(FDBTransaction *tr, const keel_subspace *log, int count,
                          keel_log_visit visit, void *context);

/*
 * The position of the newest entry ever appended, also if it has been trimmed since; all zeros if
 * there never was one. A reader that starts here sees what comes from now on. Reads one row.
 */
fdb_error_t keel_log_last(FDBTransaction *tr, const keel_subspace *log,
                          keel_log_position *position);

/*
 * The number of entries behind `after`, or of all. Reads all of these.
 */
fdb_error_t keel_log_count(FDBTransaction *tr, const keel_subspace *log,
                           const keel_log_position *after, int64_t *count);

/* ---- Waiting ---- */

/*
 * A future that becomes ready when something is appended by another transaction than this one, once
 * this one has committed (fdb_transaction_watch has the fine print). The caller destroys it. To
 * miss nothing, scan first and take the watch in the same transaction if nothing was found.
 */
fdb_error_t keel_log_watch(FDBTransaction *tr, const keel_subspace *log, FDBFuture **future);

/*
 * Blocks until there is an entry behind `after` (NULL: any entry), in transactions of its own, at
 * most `timeout_ms`; negative is for ever. *more says whether there is one. Not on the network
 * thread.
 */
fdb_error_t keel_log_wait(FDBDatabase *database, const keel_subspace *log,
                          const keel_log_position *after, int64_t timeout_ms, bool *more);

/* ---- Removing ---- */

/*
 * Removes the entries up to the position `through` and that one itself; NULL: all that are there.
 * Reads nothing and conflicts with nothing here. Positions stay what they are.
 */
fdb_error_t keel_log_trim(FDBTransaction *tr, const keel_subspace *log,
                          const keel_log_position *through);

#ifdef __cplusplus
}
#endif

#endif
