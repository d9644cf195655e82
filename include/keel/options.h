/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of Keel's own, for fdb_transaction_set_option on an embedded database. Their numbers lie
 * above FoundationDB's, whose library refuses them with 2007 (invalid_option): a program that runs on
 * both asks and goes on without.
 */
#ifndef KEEL_OPTIONS_H
#define KEEL_OPTIONS_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

/*
 * Flag, no value. Reads of this transaction stay possible at its read version for as long as the
 * transaction lives, not for five seconds only: for backups, copies and exports, which need one state
 * of the whole database. It ends with a reset, an on_error, a commit, a cancel, a timeout or the
 * transaction's destruction.
 *
 *   - Set it before the first read or write: 2000 (client_invalid_operation) after that. The state is
 *     held from the first read, or fdb_transaction_get_read_version, on. With
 *     fdb_transaction_set_read_version several transactions can read one state, each on its own thread;
 *     the version must be readable (1007, 1009) when the transaction's first read comes.
 *   - It only reads: a commit with a write or a write conflict range is 2023 (transaction_read_only).
 *     What it reads leaves no conflict ranges.
 *   - KEEL_LONG_READS_MAX of them can hold a state at once in a database; the next one's first read is
 *     20009.
 *   - While it lives, the memory of the last seconds before its version (up to KEEL_WINDOW_BYTES) is
 *     kept, and the base grows by what is written meanwhile instead of using free pages again. Nobody
 *     waits for it: commits and checkpoints go on.
 */
#define KEEL_TR_OPTION_LONG_READ ((FDBTransactionOption)20001)
#define KEEL_LONG_READS_MAX 64

#endif
