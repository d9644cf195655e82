/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of libkeel: the layers on top of the fdb_c API. Link with -lkeel -lfdb_c. docs/layers.md is a
 * tour; each header below is the contract of its part.
 */
#ifndef KEEL_KEEL_H
#define KEEL_KEEL_H

#include <keel/directory.h>
#include <keel/error.h>
#include <keel/run.h>
#include <keel/subspace.h>
#include <keel/tuple.h>

#endif
