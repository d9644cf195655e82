/* SPDX-License-Identifier: Apache-2.0 */
/* What window.c and window_cursor.c share: the list of generations behind a view. */
#ifndef KEEL_ENGINE_WINDOW_VIEW_H
#define KEEL_ENGINE_WINDOW_VIEW_H

#include "engine/generation.h"

struct window_view {
    _Atomic uint64_t references; /* one of the window while it is the present list, one of each holder */
    uint64_t epoch;
    unsigned count;
    struct generation *generations[]; /* newest first */
};

#endif
