/* SPDX-License-Identifier: Apache-2.0 */
/* Giving the room of free pages back: the base is written anew without them. For a database that nobody has open. */
#ifndef KEEL_ENGINE_COMPACT_H
#define KEEL_ENGINE_COMPACT_H

#include "util/bytes.h"
#include "util/error.h"

struct compact_summary {
    uint64_t bytes_before, bytes_after; /* of base.keel */
    uint64_t rows;                      /* in the base */
};

/*
 * Checks the whole database, writes a copy of its base without free pages beside it, checks that too, and puts it in the base's place. At every moment the
 * directory holds a whole database; a copy that was not finished is removed by the next open or the next try. Needs as much room on the disk as the rows take.
 *
 * `progress` may be NULL; it is called now and then with bytes done and in all, and false gives up. Errors as engine_check; DATABASE_DAMAGED where the
 * check found damage, DISK_FULL; *message (util/memory, or NULL) says more. The database holds what it held, in either case.
 */
fdb_error_t engine_compact(const char *path, bool (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total), void *context,
                           struct compact_summary *summary, char **message);

#endif
