/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of error codes. The layers' own come from the one table, KEEL_ERROR_TABLE in keel/error.h;
 * every other code is the fdb_c library's to explain, FoundationDB's as well as those of Keel's
 * embedded database. The two never overlap (checked below), so the order of asking does not matter.
 *
 * Threads: any; a pure function. Failure: none, an unknown code has the library's text for those.
 */
#include <keel/error.h>

#include "export.h"

#define IN_RANGE(name, code, text)                                                                 \
    _Static_assert(code >= KEEL_ERROR_FIRST && code <= KEEL_ERROR_LAST, "outside libkeel's range");
KEEL_ERROR_TABLE(IN_RANGE)
#undef IN_RANGE

KEEL_EXPORT const char *keel_error_text(fdb_error_t code) {
    switch (code) {
#define ERROR_CASE(name, number, text)                                                             \
    case number:                                                                                   \
        return text;
        KEEL_ERROR_TABLE(ERROR_CASE)
#undef ERROR_CASE
    default:
        return fdb_get_error(code);
    }
}
