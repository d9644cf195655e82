/* SPDX-License-Identifier: Apache-2.0 */
/* What libkeel.so shows: everything is compiled with hidden visibility, public functions are marked. */
#ifndef KEEL_LAYERS_EXPORT_H
#define KEEL_LAYERS_EXPORT_H

#define KEEL_EXPORT __attribute__((visibility("default")))

#endif
