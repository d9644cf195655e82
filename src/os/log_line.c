/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a library that is silent by default. A line is written only where something could not
 * be opened or closed or is damaged, never on a transaction's usual path, so the file is opened for
 * each line: no state, no descriptor held, and it may be moved away at any time. Threads: any; lines are written
 * whole. A log that cannot be written is nobody's error.
 */
#include "os/log_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"

void log_line(const char *format, ...) {
    const char *name = getenv("KEEL_LOG");
    if (!name || !*name)
        return;
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strcmp(name, "stderr") == 0) {
        fprintf(stderr, "keel: %s\n", text);
        return;
    }
    FILE *file = fopen(name, "a");
    if (!file)
        return;
    fprintf(file, "%.3f %s\n", os_clock_wall_seconds(), text);
    fclose(file);
}
