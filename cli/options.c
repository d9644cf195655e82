/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a command: taken out of its arguments, wherever they stand, so that what is left are keys, values and names.
 *
 *     --name   --name=value   --name value   -n   -n value   -nvalue   --   (what follows are no options)
 *
 * A minus before a digit begins a number (atomic add counter -5), and a minus alone is a name (a file: standard input or output).
 */
#include "core.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

int usage_error(const struct command *command, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "keel: %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nusage: %s %s\n", command->name, command->arguments);
    fprintf(stderr, "\"keel help %s\" says more.\n", command->name);
    va_end(arguments);
    return EXIT_USAGE;
}

static bool is_option(const char *argument) {
    return argument[0] == '-' && argument[1] != '\0' && !isdigit((unsigned char)argument[1]) && argument[1] != '.';
}

/* The row for "--name…" or "-n…"; *value is what is attached to it, or NULL. */
static const struct option_spec *find(const struct option_spec *specs, const char *argument, const char **value) {
    bool is_long = argument[1] == '-';
    size_t length = is_long ? strcspn(argument + 2, "=") : 1;
    const char *rest = argument + (is_long ? 2 : 1) + length;
    for (; specs->name; specs++) {
        bool same = is_long ? strlen(specs->name) == length && strncmp(specs->name, argument + 2, length) == 0 : specs->letter == argument[1];
        if (!same)
            continue;
        *value = *rest == '\0' ? NULL : is_long ? rest + 1 : rest;
        return specs;
    }
    return NULL;
}

bool options_parse(const struct command *command, int *argc, char **argv, const struct option_spec *specs) {
    int kept = 1;
    bool ended = false;
    for (int i = 1; i < *argc; i++) {
        if (ended || !is_option(argv[i])) {
            argv[kept++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            ended = true;
            continue;
        }
        const char *value = NULL;
        const struct option_spec *spec = find(specs, argv[i], &value);
        if (!spec) {
            usage_error(command, "There is no option %s. (A key or value that begins with a minus goes behind \"--\".)", argv[i]);
            return false;
        }
        if (!spec->takes_value && value) {
            usage_error(command, "The option --%s takes no value", spec->name);
            return false;
        }
        if (spec->takes_value && !value && ++i >= *argc) {
            usage_error(command, "The option --%s needs a value", spec->name);
            return false;
        }
        *spec->value = !spec->takes_value ? "" : value ? value : argv[i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return true;
}

bool options_number(const char *option, const char *text, int64_t min, int64_t max, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || isspace((unsigned char)*text) || *end != '\0') {
        report("%s: \"%s\" is not a whole number", option, text);
        return false;
    }
    if (errno == ERANGE || value < min || value > max) {
        if (max == INT64_MAX)
            report("%s: %s is out of range: at least %lld is needed", option, text, (long long)min);
        else
            report("%s: %s is out of range: it goes from %lld to %lld", option, text, (long long)min, (long long)max);
        return false;
    }
    *number = value;
    return true;
}
