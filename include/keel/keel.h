/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of libkeel: the layers on top of the fdb_c API. Link with -lkeel -lfdb_c. docs/layers.md is a
 * tour; each header below is the contract of its part.
 */
#ifndef KEEL_KEEL_H
#define KEEL_KEEL_H

#include <keel/directory.h>
#include <keel/error.h>
#include <keel/options.h>
#include <keel/run.h>
#include <keel/subspace.h>
#include <keel/tuple.h>
#include <keel/version.h>

/* The recipes. */
#include <keel/blob.h>
#include <keel/bulk.h>
#include <keel/counter.h>
#include <keel/document.h>
#include <keel/index.h>
#include <keel/list.h>
#include <keel/log.h>
#include <keel/multimap.h>
#include <keel/pqueue.h>
#include <keel/queue.h>
#include <keel/relation.h>
#include <keel/spatial.h>
#include <keel/table.h>
#include <keel/taskqueue.h>
#include <keel/vector.h>
#include <keel/workspace.h>

#endif
