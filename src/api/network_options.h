/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network options: known by number, type and range. None changes what an embedded database
 * does; all are checked as the official client checks them.
 */
#ifndef KEEL_API_NETWORK_OPTIONS_H
#define KEEL_API_NETWORK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

/*
 * Whether the option can be set to this value: INVALID_OPTION for an unknown one, or one that comes
 * too late when `is_setup`; INVALID_OPTION_VALUE; FILE_NOT_FOUND for a library that is not there.
 * `value` is NULL where none is given.
 */
fdb_error_t network_options_check(int option, const uint8_t *value, int length, bool is_setup);

/*
 * Checks every FDB_NETWORK_OPTION_<NAME> of the environment: INVALID_OPTION_VALUE_ENVIRONMENT for a
 * bad one.
 */
fdb_error_t network_options_check_environment(bool is_setup);

#endif
