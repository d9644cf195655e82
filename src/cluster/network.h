/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The official library brought up: its API version, its network options, its network thread. All
 * calls from any thread.
 */
#ifndef KEEL_CLUSTER_NETWORK_H
#define KEEL_CLUSTER_NETWORK_H

#include <stdint.h>

#include "util/error.h"

/*
 * What every use of a cluster begins with: loads the library, selects the program's API version,
 * passes the network options on, sets its network up and runs it on a thread, each once. Errors:
 * CLUSTER_LIBRARY_MISSING, API_VERSION_NOT_SUPPORTED for a library too old (or too new) for the
 * version selected, NETWORK_CANNOT_BE_RESTARTED after fdb_stop_network, OPENED_BEFORE_FORK in a child
 * whose parent had brought it up, and what the library itself says. What failed is tried again by the
 * next call.
 */
fdb_error_t cluster_network_need(void);

/* A network option that has passed our own check: kept for the library, or set there if it is up. */
fdb_error_t cluster_network_set_option(int option, const uint8_t *value, int length);

/* Makes the library's network end, and lets nothing be opened any more. Does not wait. */
void cluster_network_stop(void);

/* Waits until it has ended; at once if it never ran, and on its own thread. After cluster_network_stop. */
void cluster_network_join(void);

#endif
