/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the declarations of fdb_c.h visible outside the library, which is built with everything
 * else hidden. Every file that defines an fdb_* function includes this first; libfdb_c.map then
 * lets exactly these names through.
 */
#ifndef KEEL_API_EXPORT_H
#define KEEL_API_EXPORT_H

#ifdef FDB_C_TYPES_H
#error "api/export.h comes before the fdb_c headers"
#endif
#ifndef DLLEXPORT
#define DLLEXPORT __attribute__((visibility("default")))
#endif
#ifndef FDB_INCLUDE_LEGACY_TYPES
#define FDB_INCLUDE_LEGACY_TYPES
#endif

#include "foundationdb/fdb_c.h"

#endif
