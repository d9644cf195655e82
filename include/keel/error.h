/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of the layers. Every function of libkeel that can fail returns an fdb_error_t:
 *
 *     0                 success
 *     1 to 9999         FoundationDB's, from the fdb_c library underneath
 *     20000 to 20999    of Keel's embedded database, from the same place (docs/differences.md)
 *     21000 to 21999    of libkeel: the table below
 *     anything else     is free for programs: a function run by keel_run (keel/run.h) may end its
 *                       transaction with such a code and get it back unchanged. 100000 and up is a
 *                       good place.
 *
 * So no code means two things, and keel_error_text knows them all.
 */
#ifndef KEEL_ERROR_H
#define KEEL_ERROR_H

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The one table of the layers' codes: X(name, code, text). The text is also the documentation. A
 * code never changes its number or meaning; a new one takes the next free number of its group.
 */
#define KEEL_ERROR_TABLE(X)                                                                        \
    /* tuples, subspaces, arguments */                                                             \
    X(BUFFER_TOO_SMALL, 21000, "The buffer is too small for the result")                           \
    X(TUPLE_MALFORMED, 21001, "The bytes are not a packed tuple")                                  \
    X(TUPLE_TYPE, 21002, "The element of the tuple has another type than asked for")               \
    X(TUPLE_END, 21003, "The tuple has no further element")                                        \
    X(TUPLE_TEXT, 21004, "The text does not describe a tuple")                                     \
    X(INTEGER_TOO_LARGE, 21005, "The integer is too large for a tuple or for where it is to go")   \
    X(NO_VERSIONSTAMP, 21006, "The tuple has no incomplete versionstamp, and needs one")           \
    X(MANY_VERSIONSTAMPS, 21007, "The tuple has more than one incomplete versionstamp")            \
    X(INCOMPLETE_VERSIONSTAMP, 21008, "The tuple has an incomplete versionstamp, and may not")     \
    X(NOT_IN_SUBSPACE, 21009, "The key does not begin with the prefix of the subspace")            \
    X(NO_SUCCESSOR, 21010, "No key follows the prefix: it is empty, or all of its bytes are 0xff") \
    X(NOT_UTF8, 21011, "The string is not valid UTF-8")                                            \
    X(ARGUMENT, 21012, "An argument is missing or can never be right")                             \
    /* directories */                                                                              \
    X(DIRECTORY_EXISTS, 21100, "The directory exists already")                                     \
    X(DIRECTORY_MISSING, 21101, "The directory does not exist")                                    \
    X(DIRECTORY_PARENT_MISSING, 21102, "The parent directory does not exist")                      \
    X(DIRECTORY_LAYER, 21103, "The directory was created with another layer")                      \
    X(DIRECTORY_ROOT, 21104, "The root directory cannot be created, opened, moved or removed")     \
    X(DIRECTORY_PREFIX_IN_USE, 21105, "The prefix is used by another directory, in part or whole") \
    X(DIRECTORY_PREFIX_NOT_EMPTY, 21106, "There are keys under the prefix of the new directory")   \
    X(DIRECTORY_MANUAL_PREFIXES, 21107, "The directory layer does not allow a prefix to be given") \
    X(DIRECTORY_MOVE_INTO_SELF, 21108, "A directory cannot be moved into one of its own")          \
    X(DIRECTORY_MOVE_PARTITIONS, 21109, "A directory cannot be moved into another partition")      \
    X(DIRECTORY_VERSION, 21110, "The directories were written by an incompatible version")         \
    X(DIRECTORY_PARTITION_ROOT, 21111, "The root of a partition cannot be used as a subspace")     \
    X(DIRECTORY_READ_ONLY, 21112, "The directories were written by a newer version: read only")    \
    /* opening and running */                                                                      \
    X(FORKED, 21200, "The process was forked after the database was opened; open it after a fork") \
    X(THREAD, 21201, "The network thread could not be started")                                    \
    /* recipes */                                                                                  \
    X(NOT_FOUND, 21300, "There is no such element")                                                \
    X(INDEX_RANGE, 21301, "The index is negative or lies behind the end")                          \
    X(EMPTY_NAME, 21302, "A name or label is empty, and may not be")                               \
    X(DUPLICATE, 21303, "There is an entry with this key or value already, and may be only one")    \
    X(DOCUMENT_PATH, 21304, "The path leads through a value that is not an object or an array")    \
    X(JSON, 21305, "The text is not valid JSON")                                                   \
    X(BOX, 21306, "The box has a minimum above its maximum, or reaches beyond the space")          \
    X(VALUE_TOO_LARGE_FOR_KEY, 21307, "The value does not fit where the structure has to store it") \
    X(LEASE_LOST, 21308, "The lease has ended: the task or load went back or to another worker")   \
    X(CARDINALITY, 21309, "The relationship allows no further member on this side")                \
    X(STORED_FORMAT, 21310, "What is stored under these keys was not written by this structure")   \
    X(DESCRIPTOR, 21311, "The file descriptor could not be read or written")                       \
    X(DOCUMENT_DEPTH, 21312, "The document has more levels inside each other than is allowed") \
    /* bulk work */                                                                                \
    X(BULK_EXISTS, 21400, "There is a load of this name already")                                  \
    X(BULK_STATE, 21401, "The load is in a state that does not allow this")                        \
    X(BULK_NOT_VALIDATED, 21402, "Only a load that was validated can be activated")                \
    X(BULK_MISMATCH, 21403, "The rows in the database are not those that were loaded")             \
    X(BULK_INPUT, 21404, "The input is not the one that an earlier run of this load has read")

/* KEEL_ERROR_BUFFER_TOO_SMALL = 21000 and so on. */
typedef enum keel_error_code {
#define KEEL_ERROR_ENUMERATOR(name, code, text) KEEL_ERROR_##name = code,
    KEEL_ERROR_TABLE(KEEL_ERROR_ENUMERATOR)
#undef KEEL_ERROR_ENUMERATOR
    KEEL_ERROR_FIRST = 21000, /* all of libkeel's codes lie from here … */
    KEEL_ERROR_LAST = 21999   /* … to here */
} keel_error_code;

/*
 * The text of any error code: FoundationDB's, the embedded database's, the layers'; 0 has one too.
 * Never NULL, also for a code nobody knows; static memory. Any thread, at any time.
 */
const char *keel_error_text(fdb_error_t code);

#ifdef __cplusplus
}
#endif

#endif
