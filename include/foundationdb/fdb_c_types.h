/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_c_types.h: the opaque handles and scalar types of the fdb_c API, included by fdb_c.h.
 */
#ifndef FDB_C_TYPES_H
#define FDB_C_TYPES_H

#ifndef DLLEXPORT
#define DLLEXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FDB_future FDBFuture;
typedef struct FDB_result FDBResult;
typedef struct FDB_cluster FDBCluster;
typedef struct FDB_database FDBDatabase;
typedef struct FDB_tenant FDBTenant;
typedef struct FDB_transaction FDBTransaction;

/* 0 is success; every other value is a number of fdb_get_error. */
typedef int fdb_error_t;
/* 0 is false, all else true. */
typedef int fdb_bool_t;

#ifdef __cplusplus
}
#endif
#endif
