/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an error code cannot say, for people who look for it: a line in the file that KEEL_LOG names
 * ("stderr" for that). Silent without it.
 */
#ifndef KEEL_OS_LOG_LINE_H
#define KEEL_OS_LOG_LINE_H

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
