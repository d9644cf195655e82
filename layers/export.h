/* SPDX-License-Identifier: Apache-2.0 */
/* What libkeel shows: everything is hidden unless its definition says KEEL_EXPORT. */
#ifndef LAYERS_EXPORT_H
#define LAYERS_EXPORT_H

#define KEEL_EXPORT __attribute__((visibility("default")))

#endif
