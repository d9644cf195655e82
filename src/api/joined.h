/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions on a database that another process owns. */
#ifndef KEEL_API_JOINED_H
#define KEEL_API_JOINED_H

#include "api/export.h"

#include "remote/client.h"
#include "txn/transaction.h"

/* A transaction whose data is with the owner that `database` reaches. LARGE_ALLOC_FAILED. */
fdb_error_t joined_create_transaction(struct database_handle *handle, struct remote_database *database,
                                      FDBTransaction **out_transaction);

#endif
