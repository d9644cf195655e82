/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes a range of a base holds, from a bounded number of look-ups. Serves every
 * implementation of base.h as estimate_bytes.
 */
#ifndef KEEL_ENGINE_BASE_ESTIMATE_H
#define KEEL_ENGINE_BASE_ESTIMATE_H

#include "engine/base.h"

/*
 * Keys and values in [begin, end): exact up to about 1,000 rows, beyond that within a factor of
 * two unless the keys are very unevenly spread. Moves the snapshot's cursor and leaves it on no
 * row in particular. The same base gives the same answer. Errors: what the base's cursor returns,
 * LARGE_ALLOC_FAILED.
 */
fdb_error_t base_estimate(struct base_snapshot *snapshot, struct bytes begin, struct bytes end,
                          int64_t *bytes);

#endif
