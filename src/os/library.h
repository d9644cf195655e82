/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries, opened while the program runs. */
#ifndef KEEL_OS_LIBRARY_H
#define KEEL_OS_LIBRARY_H

/*
 * Opens the library at `path` with all it needs; its names become nobody else's. NULL: it cannot be
 * opened, os_library_error says why. It stays open to the end of the process.
 */
void *os_library_open(const char *path);

/* The function of this name in the library itself or what it brought along; NULL if there is none. */
void *os_library_symbol(void *library, const char *name);

/* What went wrong on this thread last, for people; never NULL. */
const char *os_library_error(void);

#endif
