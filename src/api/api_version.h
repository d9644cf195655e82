/* SPDX-License-Identifier: Apache-2.0 */
/* The API version this process has selected. */
#ifndef KEEL_API_API_VERSION_H
#define KEEL_API_API_VERSION_H

enum { API_VERSION_MIN = 510, API_VERSION_MAX = 740 };

/* What fdb_database_get_server_protocol answers: the protocol version of FoundationDB 7.4. */
#define API_PROTOCOL_VERSION 0x0FDB00B074000000ULL

/* 0 before fdb_select_api_version, then what it was given, for good. Any thread. */
int api_version(void);

#endif
