/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the stub share: the names, and for each where it leads to and how often it was called. */
#ifndef KEEL_TESTS_CLUSTER_STUB_H
#define KEEL_TESTS_CLUSTER_STUB_H

#include "cluster/functions.h"

#define STUB_LEGACY(X)                                                                             \
    X(create_cluster)                                                                              \
    X(future_get_cluster)                                                                          \
    X(cluster_create_database)                                                                     \
    X(future_get_database)                                                                         \
    X(cluster_destroy)                                                                             \
    X(future_get_version)

#define STUB_FUNCTIONS(X) CLUSTER_REQUIRED(X) CLUSTER_OPTIONAL(X) STUB_LEGACY(X)

#define STUB_DECLARE(name)                                                                         \
    extern void *stub_target_##name __attribute__((visibility("hidden")));                         \
    extern long stub_count_##name __attribute__((visibility("hidden")));
STUB_FUNCTIONS(STUB_DECLARE)

/* Once the functions are known: see STUB_SILENT. */
void stub_silence(void) __attribute__((visibility("hidden")));

#endif
