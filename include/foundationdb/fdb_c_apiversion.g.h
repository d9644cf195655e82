/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_c_apiversion.g.h: the API versions these headers know, included by fdb_c.h.
 */
#ifndef FDB_C_APIVERSION_G_H
#define FDB_C_APIVERSION_G_H

/* Newest version a program may choose, and newest version for language bindings. */
#define FDB_LATEST_API_VERSION 740
#define FDB_LATEST_BINDINGS_API_VERSION 740

/* Versions that brought the features named. */
#define FDB_API_VERSION_CLIENT_TMP_DIR 720
#define FDB_API_VERSION_DISABLE_CLIENT_BYPASS 720
#define FDB_API_VERSION_TENANT_API_RELEASED 720

#endif
