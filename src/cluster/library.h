/* SPDX-License-Identifier: Apache-2.0 */
/* The official client library: found, opened, its functions looked up. See functions.h for these. */
#ifndef KEEL_CLUSTER_LIBRARY_H
#define KEEL_CLUSTER_LIBRARY_H

#include <stdbool.h>

#include "cluster/functions.h"

/*
 * Opens the library, once; a failure is tried again with the next call. CLUSTER_LIBRARY_MISSING, and
 * a line in the log for every place where it was not. Callers exclude each other.
 */
fdb_error_t cluster_library_load(void);

/* Whether it is open, and then the path it was found at. */
bool cluster_library_is_loaded(void);
const char *cluster_library_path(void);

#endif
