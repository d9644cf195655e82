/* SPDX-License-Identifier: Apache-2.0 */
/* The network as the other entry points see it. */
#ifndef KEEL_API_NETWORK_H
#define KEEL_API_NETWORK_H

#include "util/error.h"

/*
 * 0 once fdb_setup_network has succeeded; API_VERSION_UNSET or NETWORK_NOT_SETUP before. Any
 * thread.
 */
fdb_error_t network_check_setup(void);

#endif
