/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers: a fixed set of slots, each pairing a view of the window with a snapshot of the base. A read borrows one for its duration; between reads
 * the pair stays in the slot as long as it is up to date, so that most reads pay two atomic operations and no more.
 */
#ifndef KEEL_ENGINE_READERS_H
#define KEEL_ENGINE_READERS_H

#include <stdatomic.h>

#include "engine/base.h"
#include "engine/window.h"

enum { READERS_MAX = 64 };

struct reader {
    _Alignas(64) _Atomic unsigned busy; /* borrowed; everything below belongs to the borrower */
    bool live;                          /* view and snapshot are held */
    struct window_view *view;
    struct base_snapshot *snapshot; /* NULL until first needed */
    int64_t base_version;           /* of the snapshot */
    _Atomic uint64_t reads, rows;   /* counted here so that readers on different cores share nothing */
};

struct readers;

fdb_error_t readers_create(struct window *window, struct base *base, struct readers **readers);

/* REQUIRES: none is borrowed. */
void readers_destroy(struct readers *readers);

/*
 * Borrows an up-to-date reader: its view was taken before its snapshot, and both include everything that was published and every
 * checkpoint that was finished before the call. Waits if all are borrowed. Errors: IO_ERROR, LARGE_ALLOC_FAILED.
 */
fdb_error_t reader_borrow(struct readers *readers, struct reader **reader);
void reader_return(struct readers *readers, struct reader *reader);

/*
 * A reader that is nobody else's, outside the slots, up to date at this moment and kept as it is: its view and its snapshot stay until it is closed. The structure
 * is the caller's, all zero. Errors as reader_borrow; then there is nothing to close, and closing does no harm.
 */
fdb_error_t reader_open(struct readers *readers, struct reader *reader);
void reader_close(struct readers *readers, struct reader *reader);

/* Lets go of what idle readers hold, so that old generations and pages can be reused. */
void readers_release_idle(struct readers *readers);

void readers_count(struct readers *readers, uint64_t *reads, uint64_t *rows);

#endif
