/* SPDX-License-Identifier: Apache-2.0 */
/* Futures and results of the official library, as objects that our entry points know (api/foreign.h). */
#ifndef KEEL_CLUSTER_FUTURE_H
#define KEEL_CLUSTER_FUTURE_H

#include "api/export.h"

/* Takes the official future over and hands out one of ours that answers as it does; never NULL. */
FDBFuture *cluster_future(FDBFuture *official);

/* Likewise for a result. */
FDBResult *cluster_result(FDBResult *official);

/* What a function that the official library does not have answers: UNSUPPORTED_OPERATION. */
FDBFuture *cluster_missing(void);

#endif
