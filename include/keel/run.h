/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The retry loop, and a database in one call.
 *
 *     static fdb_error_t greet(FDBTransaction *transaction, void *text) {
 *         fdb_transaction_set(transaction, (const uint8_t *)"hello", 5, text, (int)strlen(text));
 *         return 0;
 *     }
 *
 *     keel_db *db;
 *     fdb_error_t error = keel_open("my.db", &db);
 *     if (!error)
 *         error = keel_run(keel_fdb(db), greet, "world");
 *     keel_close(db);
 *
 * The loop works on any FDBDatabase, also on one that keel_open did not open.
 */
#ifndef KEEL_RUN_H
#define KEEL_RUN_H

#include <keel/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The retry loop ---- */

/*
 * The body of a transaction. What it returns decides:
 *
 *     0                     commit
 *     a retryable error     everything is undone and the function called again, after the wait that
 *     of FoundationDB's     fdb_transaction_on_error sees fit. fdb_error_predicate says which these
 *                           are (not_committed, transaction_too_old, ...). Pass the errors of
 *                           reads on as they come.
 *     any other code        the end: nothing is committed, and the code comes back unchanged
 *
 * It may be called many times, each time on a transaction that has read and written nothing: what
 * it puts into `context` must not assume that it is called once. Functions that take a transaction
 * compose: call as many as you like inside one, and commit nothing yourself. Not supported inside:
 * fdb_transaction_commit (the loop's own then fails with used_during_commit, which comes back),
 * fdb_transaction_on_error, fdb_transaction_reset and _destroy. fdb_transaction_cancel is allowed
 * and ends the loop with transaction_cancelled.
 *
 * Futures belong to the function, which destroys them before it returns. A watch, a versionstamp or
 * an approximate size may be carried out through `context`: it stays good after the commit. A
 * second call then has to destroy the future of the first.
 *
 * A keel_run inside the function is a transaction of its own, committed before this one.
 */
typedef fdb_error_t (*keel_function)(FDBTransaction *transaction, void *context);

/*
 * Runs `function` in a transaction and commits, again and again until that succeeds or an error is
 * final. Returns 0 once committed, else the code that ended it:
 *
 *   - a code of the function's own, or any error it passes on that is not retryable;
 *   - the error of a commit that is not retryable (transaction_too_large, a full disk, ...);
 *   - the last retryable error when the retry limit is used up;
 *   - transaction_timed_out when the timeout is;
 *   - blocked_from_network_thread on the network thread, where nothing may wait;
 *   - KEEL_ERROR_ARGUMENT if `database` or `function` is NULL.
 *
 * Without limits it goes on for as long as errors are retryable. Limits are options: for all
 * transactions of a database fdb_database_set_option (FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT,
 * _TIMEOUT, _MAX_RETRY_DELAY, ...), for one loop keel_run_with.
 *
 * A commit whose result is unknown (commit_unknown_result, cluster_version_changed) is retried too.
 * If it did take effect, the function's writes are made twice: harmless for setting and clearing,
 * not for adding. A function for which it matters writes a key that is its own (an id drawn before
 * keel_run) and returns early if it finds it. With a retry limit or a timeout, the error that comes
 * back may also leave it open whether the transaction took effect: fdb_error_predicate
 * (FDB_ERROR_PREDICATE_MAYBE_COMMITTED) says so, and transaction_timed_out may always have come
 * during a commit.
 *
 * The transaction is destroyed on every way out. Blocks the calling thread; any number of threads
 * may run loops on one database.
 */
fdb_error_t keel_run(FDBDatabase *database, keel_function function, void *context);

/*
 * The same for functions that only read: nothing is ever committed. What the function writes it can
 * read back, then it is dropped; a watch or versionstamp never comes.
 */
fdb_error_t keel_run_read(FDBDatabase *database, keel_function function, void *context);

/*
 * The same two with options: `prepare` is called with the transaction and `context` before each
 * call of `function`, since a retry takes most options back to the database's defaults. What it
 * returns is treated as if `function` had returned it. It may be NULL. A timeout or a retry limit
 * set there counts over the whole loop, not from each retry.
 */
fdb_error_t keel_run_with(FDBDatabase *database, keel_function prepare, keel_function function,
                          void *context);
fdb_error_t keel_run_read_with(FDBDatabase *database, keel_function prepare,
                               keel_function function, void *context);

/*
 * Blocks until the future is ready and returns its error, 0 if it holds a result. The future stays
 * the caller's. Any thread but the network's, which gets blocked_from_network_thread unless the
 * future is ready.
 */
fdb_error_t keel_wait(FDBFuture *future);

/* The same, and destroys the future: for those without a result. */
fdb_error_t keel_wait_destroy(FDBFuture *future);

/* ---- A database in one call ---- */

/*
 * An open database with everything around it. The first keel_open of a process selects the API
 * version (FDB_API_VERSION's newest here, 740, or the library's own if that is older), sets up the
 * network and runs it on a thread of its own, which serves all later ones. What the program has
 * done itself is left alone:
 *
 *   - an API version selected before is used as it is (one below 520 has to be told to the tuple
 *     layer as well: keel_tuple_use_api_version);
 *   - a network set up before belongs to the program, which runs and stops it; keel_open then
 *     starts no thread. Set it up before the first keel_open, since there can be only one.
 *
 * At exit. When the process exits (exit, or the end of main) the network, if it is ours, is stopped
 * and its thread joined; open databases and other threads do not matter, and nothing that was
 * committed is lost. Functions given to atexit before the first keel_open run after that and must
 * not use a database. A callback that never returns on the network thread keeps the process from
 * exiting.
 *
 * Signals. The threads of the library block all signals, so that handlers run on the program's own. A
 * program whose main thread ends with pthread_exit keeps another thread that takes signals, or SIGTERM
 * does not end it.
 *
 * Fork. A child has no network thread, and no database that its parent opened can be used in it, as
 * with every fdb_c library: it may exec or exit. keel_open in such a child says KEEL_ERROR_FORKED;
 * a program with a network of its own has to look after that itself. A process that wants to fork
 * workers forks them before its first keel_open.
 *
 * Threads: any, at the same time too.
 */
typedef struct keel_db keel_db;

/*
 * Opens the database at `path`; NULL is the default place, as fdb_create_database defines both.
 * Many may be open at once, also the same one several times. As with fdb_create_database, it is the
 * first transaction that really opens it, or joins the process that has it open, and gets the errors
 * of that (20002, the directory holds something else, for example).
 *
 * Errors: KEEL_ERROR_ARGUMENT if `db` is NULL; KEEL_ERROR_THREAD, after which another try is
 * allowed; KEEL_ERROR_FORKED; network_cannot_be_restarted once the network, ours, has stopped
 * (fdb_stop_network, or the process is exiting); those of fdb_setup_network
 * (environment_variable_network_option_failed) and fdb_create_database.
 */
fdb_error_t keel_open(const char *path, keel_db **db);

/* The FDBDatabase inside, for keel_run and all fdb_database_* but _destroy; until keel_close. */
FDBDatabase *keel_fdb(keel_db *db);

/*
 * Closes the database; transactions of it that are still there can be used and keep it open until
 * the last of them is destroyed. Databases are closed in any order, or never; the network thread
 * goes on for later opens. NULL is allowed.
 */
void keel_close(keel_db *db);

#ifdef __cplusplus
}
#endif

#endif
