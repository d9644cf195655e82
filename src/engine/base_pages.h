/* SPDX-License-Identifier: Apache-2.0 */
/* Does an LMDB file reach as far as its own trees? Looked at page by page, without mapping it. */
#ifndef KEEL_ENGINE_BASE_PAGES_H
#define KEEL_ENGINE_BASE_PAGES_H

#include "os/file.h"

/*
 * Reads every page that the newest meta page leads to. DATABASE_DAMAGED where one lies past the end
 * of the file or is not what it should be; also IO_ERROR, LARGE_ALLOC_FAILED. Nobody may be writing.
 * Changes nothing.
 */
fdb_error_t base_pages_check(struct os_file *file);

#endif
