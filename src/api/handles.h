/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the opaque pointers of fdb_c.h are. An FDBDatabase is a database_handle and an
 * FDBTransaction a transaction under another name, so that no call pays for a wrapper; an FDBResult
 * is a future, one that is always ready.
 */
#ifndef KEEL_API_HANDLES_H
#define KEEL_API_HANDLES_H

#include "api/future.h"
#include "api/place.h"

/* Whether a pointer and a length from outside can be a view of bytes. */
static inline bool handles_are_bytes(const void *data, int length) {
    return length == 0 || (length > 0 && data);
}

static inline struct bytes handles_bytes(const uint8_t *data, int length) {
    return bytes_make(data, (size_t)length);
}

static inline struct database_handle *handles_database(FDBDatabase *database) {
    return (struct database_handle *)(void *)database;
}

static inline FDBDatabase *handles_from_database(struct database_handle *handle) {
    return (FDBDatabase *)(void *)handle;
}

/*
 * The official library's database behind a handle, opened if it is not yet; NULL where the handle is
 * not on a cluster. What every function asks that means something else there. CLIENT_INVALID_OPERATION
 * for no handle, OPENED_BEFORE_FORK, errors of place_official.
 */
static inline fdb_error_t handles_official(FDBDatabase *database, FDBDatabase **official) {
    *official = NULL;
    if (!database)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (database_handle_is_forked(handles_database(database)))
        return ERROR_OPENED_BEFORE_FORK;
    return place_official(database_handle_database(handles_database(database)), official);
}

static inline struct transaction *handles_transaction(FDBTransaction *transaction) {
    return (struct transaction *)(void *)transaction;
}

static inline FDBTransaction *handles_from_transaction(struct transaction *transaction) {
    return (FDBTransaction *)(void *)transaction;
}

#endif
