/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded databases this process has open: one engine a directory, however often and under
 * whatever name it is opened.
 */
#ifndef KEEL_API_ENGINES_H
#define KEEL_API_ENGINES_H

#include "database/database.h"

/*
 * Opens the database in a directory, created if it is missing, or joins the one that is open.
 * Errors of engine_open; blocks while another is opened or closed.
 */
fdb_error_t engines_open(const char *path, struct database **database);

/* A private database in memory. */
fdb_error_t engines_open_memory(struct database **database);

/*
 * Gives back what one of the above opened; the last one of a directory closes it: on the spot
 * between place_closing_begin and _end, else on a thread of its own.
 */
void engines_close(struct database *database);

#endif
