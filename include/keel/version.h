/* SPDX-License-Identifier: Apache-2.0 */
/* The version of Keel: MAJOR.MINOR.PATCH. The ABI of libkeel.so changes only with the major version; before 1 with the minor. */
#ifndef KEEL_VERSION_H
#define KEEL_VERSION_H

#define KEEL_VERSION "0.9.0"

#endif
