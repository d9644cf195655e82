/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions of the official library, as objects that our entry points know (api/foreign.h). */
#ifndef KEEL_CLUSTER_TRANSACTION_H
#define KEEL_CLUSTER_TRANSACTION_H

#include "api/export.h"

/*
 * On an official database or tenant. UNSUPPORTED_OPERATION where the library has no tenants; what it
 * says itself; LARGE_ALLOC_FAILED.
 */
fdb_error_t cluster_transaction_create(FDBDatabase *official, FDBTransaction **transaction);
fdb_error_t cluster_transaction_create_in_tenant(FDBTenant *official, FDBTransaction **transaction);

#endif
