/* SPDX-License-Identifier: Apache-2.0 */
/* Does an LMDB file reach as far as its own trees? Looked at page by page, without mapping it. */
#ifndef KEEL_ENGINE_BASE_PAGES_H
#define KEEL_ENGINE_BASE_PAGES_H

#include "os/file.h"

/* LMDB's format 1 on a 64-bit little-endian machine, as far as Keel knows of it: base_pages.c draws it. */
enum {
    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 65536,
    PAGE_NUMBER = 0,
    PAGE_FLAGS = 10,
    PAGE_LOWER = 12,    /* where the offsets of nodes end */
    PAGE_UPPER = 14,    /* where the nodes begin */
    PAGE_OVERFLOWS = 12, /* of an overflow page instead: how many pages it stretches over */
    PAGE_HEADER_BYTES = 16,
    PAGE_BRANCH = 0x01,
    PAGE_LEAF = 0x02,
    PAGE_OVERFLOW = 0x04,
    PAGE_META = 0x08,
    NODE_LOW = 0,
    NODE_HIGH = 2,
    NODE_FLAGS = 4,
    NODE_KEY_SIZE = 6,
    NODE_HEADER_BYTES = 8,
    NODE_BIG = 0x01,
};

/*
 * Reads every page that the newest meta page leads to. DATABASE_DAMAGED where one lies past the end
 * of the file or is not what it should be; also IO_ERROR, LARGE_ALLOC_FAILED. Nobody may be writing.
 * Changes nothing.
 */
fdb_error_t base_pages_check(struct os_file *file);

#endif
