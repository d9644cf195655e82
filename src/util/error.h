/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes by name. util/error_table.h is the one table of names, numbers and texts; the enumeration here and
 * fdb_get_error both come from it. Functions return fdb_error_t, zero is success, outputs are untouched on failure.
 */
#ifndef KEEL_UTIL_ERROR_H
#define KEEL_UTIL_ERROR_H

#include "foundationdb/fdb_c_types.h"
#include "util/error_table.h"

enum {
#define ERROR_ENUMERATOR(name, code, text) ERROR_##name = code,
    ERROR_TABLE(ERROR_ENUMERATOR)
#undef ERROR_ENUMERATOR
};

/* The text of any code, never NULL; a code that is not in the table has a text of its own. Static memory, any thread. */
const char *error_text(fdb_error_t code);

/* The three predicates of fdb_error_predicate (50000, 50001, 50002); false for an unknown predicate. */
int error_predicate(int predicate, fdb_error_t code);

#endif
