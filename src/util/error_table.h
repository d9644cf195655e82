/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every error code that Keel can return or be asked about: name, number, text. The numbers below 20000 are FoundationDB's; 20000 and
 * up are Keel's own.
 */
#ifndef KEEL_UTIL_ERROR_TABLE_H
#define KEEL_UTIL_ERROR_TABLE_H

#define ERROR_TABLE(X)                                                                             \
    X(SUCCESS, 0, "Success")                                                                       \
    X(OPERATION_FAILED, 1000, "The operation failed")                                              \
    X(TIMED_OUT, 1004, "The operation took too long")                                              \
    X(TRANSACTION_TOO_OLD, 1007, "The transaction is older than the database remembers; start it again") \
    X(FUTURE_VERSION, 1009, "The read version lies in the future")                                 \
    X(NOT_COMMITTED, 1020, "Not committed: a key this transaction read was changed by another; try again") \
    X(COMMIT_UNKNOWN_RESULT, 1021, "The commit may or may not have happened")                      \
    X(TRANSACTION_CANCELLED, 1025, "The transaction was cancelled")                                \
    X(TRANSACTION_TIMED_OUT, 1031, "The transaction reached its timeout")                          \
    X(TOO_MANY_WATCHES, 1032, "Too many watches are set on this database")                         \
    X(WATCHES_DISABLED, 1034, "A watch needs read-your-writes, which this transaction has disabled") \
    X(ACCESSED_UNREADABLE, 1036, "The key holds a versionstamp that is known only after the commit") \
    X(PROCESS_BEHIND, 1037, "The storage is behind the requested version")                         \
    X(DATABASE_LOCKED, 1038, "The database is locked")                                             \
    X(OPERATION_CANCELLED, 1101, "The operation was cancelled")                                    \
    X(FUTURE_RELEASED, 1102, "The future's result was released")                                   \
    X(PLATFORM_ERROR, 1500, "The operating system refused a request")                              \
    X(LARGE_ALLOC_FAILED, 1501, "Out of memory")                                                   \
    X(IO_ERROR, 1510, "A file could not be read or written")                                       \
    X(FILE_NOT_FOUND, 1511, "The file was not found")                                              \
    X(NO_CLUSTER_FILE_FOUND, 1515, "No cluster file was found")                                    \
    X(CLIENT_INVALID_OPERATION, 2000, "This call is not valid here")                               \
    X(COMMIT_READ_INCOMPLETE, 2002, "The commit began before all of its reads were finished")      \
    X(KEY_OUTSIDE_LEGAL_RANGE, 2004, "The key lies outside the keys this transaction may use")     \
    X(INVERTED_RANGE, 2005, "The range begins after its end")                                      \
    X(INVALID_OPTION_VALUE, 2006, "The option's value is not valid")                               \
    X(INVALID_OPTION, 2007, "The option is not known or not usable here")                          \
    X(NETWORK_NOT_SETUP, 2008, "The network is not set up: call fdb_setup_network first")          \
    X(NETWORK_ALREADY_SETUP, 2009, "The network is set up already")                                \
    X(RANGE_LIMITS_INVALID, 2012, "The limits of the range read are not valid")                    \
    X(USED_DURING_COMMIT, 2017, "The transaction is being committed and cannot be used")           \
    X(INVALID_MUTATION_TYPE, 2018, "The mutation type is not known")                               \
    X(CLIENT_LIB_FAILED, 2020, "The client library could not be used")                             \
    X(INVALID_OPTION_VALUE_ENVIRONMENT, 2022, "An FDB_NETWORK_OPTION_ environment variable holds a bad value") \
    X(NETWORK_CANNOT_BE_RESTARTED, 2025, "The network has run once and cannot run again")          \
    X(BLOCKED_FROM_NETWORK_THREAD, 2026, "Waiting on the network thread for a future would never end") \
    X(CONNECTION_STRING_INVALID, 2104, "The connection string is malformed")                       \
    X(TRANSACTION_TOO_LARGE, 2101, "The transaction is larger than its limit of bytes")            \
    X(KEY_TOO_LARGE, 2102, "A key is larger than 10,000 bytes")                                    \
    X(VALUE_TOO_LARGE, 2103, "A value is larger than 100,000 bytes")                               \
    X(UNSUPPORTED_OPERATION, 2108, "An embedded database does not support this operation")         \
    X(API_VERSION_UNSET, 2200, "No API version is selected: call fdb_select_api_version first")    \
    X(API_VERSION_ALREADY_SET, 2201, "The API version can be selected once only")                  \
    X(API_VERSION_INVALID, 2202, "The API version is newer than the header it was compiled with")  \
    X(API_VERSION_NOT_SUPPORTED, 2203, "This library does not support that API version")           \
    X(EXACT_MODE_WITHOUT_LIMITS, 2210, "The exact streaming mode needs a row limit or a byte limit") \
    X(UNKNOWN_ERROR, 4000, "An error without a name")                                              \
    X(INTERNAL_ERROR, 4100, "An internal error: please report it")                                 \
    X(DATABASE_IN_USE, 20001, "Another process has this database open")                            \
    X(FORMAT_FOREIGN, 20002, "The directory does not hold a Keel database; it was left untouched") \
    X(FORMAT_NEWER, 20003, "The database was written by a newer Keel; it was left untouched")      \
    X(DATABASE_DAMAGED, 20004, "The database's files are damaged")                                 \
    X(DISK_FULL, 20005, "The disk is full: the transaction was refused and nothing was changed")   \
    X(DATABASE_FAILED, 20006, "Writing to disk failed earlier: close the database and open it again") \
    X(DATABASE_CLOSED, 20007, "The database was closed")

#endif
