/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network options, one row each. An embedded database has no wire, no certificates and no trace
 * files, so an option is checked and then has no effect; what counts is that a program which sets
 * it, rightly or wrongly, gets the answer it gets from the official client.
 *
 *     type      value
 *     NONE      none, or an empty one
 *     INT       eight bytes, little-endian, within the row's range
 *     TEXT      any bytes, but some; a check may narrow it
 *     OPTIONAL  any bytes or none
 *
 * The environment names an option in upper case behind FDB_NETWORK_OPTION_. Several values are
 * separated by ':'; '\' makes the next ':' or '\' ordinary. An INT is written in decimal. Read when
 * the first option is set and when the network is set up.
 */
#include "api/network_options.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundationdb/fdb_c_options.g.h"
#include "os/file.h"
#include "util/memory.h"

enum type { NONE, INT, TEXT, OPTIONAL };

struct option {
    int number;
    const char *name; /* NULL: not read from the environment */
    enum type type;
    bool before_setup;
    int64_t least, most;                                   /* of an INT */
    fdb_error_t (*check)(const char *value, size_t length); /* of a TEXT */
};

/* ---- Checks of texts ---- */

static bool is_one_of(const char *value, size_t length, const char *const *choices) {
    for (; *choices; choices++)
        if (strlen(*choices) == length && memcmp(*choices, value, length) == 0)
            return true;
    return false;
}

static fdb_error_t check_format(const char *value, size_t length) {
    static const char *const choices[] = {"xml", "json", NULL};
    return is_one_of(value, length, choices) ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_clock(const char *value, size_t length) {
    static const char *const choices[] = {"now", "realtime", NULL};
    return is_one_of(value, length, choices) ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_tracer(const char *value, size_t length) {
    static const char *const choices[] =
        {"none", "disabled", "logfile", "file", "log_file", "network_lossy", NULL};
    return is_one_of(value, length, choices) ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_identifier(const char *value, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)value[i]) && value[i] != '_')
            return ERROR_INVALID_OPTION_VALUE;
    return length <= 50 ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_knob(const char *value, size_t length) {
    return length && memchr(value, '=', length) ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_not_empty(const char *value, size_t length) {
    (void)value;
    return length ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_file(const char *value, size_t length) {
    char path[4096];
    if (length == 0 || length >= sizeof path)
        return ERROR_INVALID_OPTION_VALUE;
    memcpy(path, value, length);
    path[length] = '\0';
    enum os_path_kind kind;
    return os_path_kind(path, &kind) == 0 && kind != OS_PATH_MISSING ? 0 : ERROR_FILE_NOT_FOUND;
}

/* ---- The table ---- */

#define ROW(name, ...) {FDB_NET_OPTION_##name, #name, __VA_ARGS__}
static const struct option options[] = {
    ROW(LOCAL_ADDRESS, OPTIONAL, false, 0, 0, NULL),
    ROW(CLUSTER_FILE, OPTIONAL, false, 0, 0, NULL),
    ROW(TRACE_ENABLE, OPTIONAL, false, 0, 0, NULL),
    ROW(TRACE_ROLL_SIZE, INT, false, 0, INT64_MAX, NULL),
    ROW(TRACE_MAX_LOGS_SIZE, INT, false, 0, INT64_MAX, NULL),
    ROW(TRACE_LOG_GROUP, OPTIONAL, false, 0, 0, NULL),
    ROW(TRACE_FORMAT, TEXT, false, 0, 0, check_format),
    ROW(TRACE_CLOCK_SOURCE, TEXT, false, 0, 0, check_clock),
    ROW(TRACE_FILE_IDENTIFIER, TEXT, false, 0, 0, check_identifier),
    ROW(TRACE_SHARE_AMONG_CLIENT_THREADS, NONE, false, 0, 0, NULL),
    ROW(TRACE_INITIALIZE_ON_SETUP, NONE, false, 0, 0, NULL),
    ROW(TRACE_PARTIAL_FILE_SUFFIX, TEXT, false, 0, 0, NULL),
    ROW(KNOB, TEXT, false, 0, 0, check_knob),
    ROW(TLS_PLUGIN, TEXT, false, 0, 0, NULL),
    ROW(TLS_CERT_BYTES, TEXT, false, 0, 0, NULL),
    ROW(TLS_CERT_PATH, TEXT, false, 0, 0, NULL),
    ROW(TLS_KEY_BYTES, TEXT, false, 0, 0, NULL),
    ROW(TLS_KEY_PATH, TEXT, false, 0, 0, NULL),
    ROW(TLS_VERIFY_PEERS, TEXT, false, 0, 0, NULL),
    ROW(BUGGIFY_ENABLE, NONE, false, 0, 0, NULL),
    ROW(BUGGIFY_DISABLE, NONE, false, 0, 0, NULL),
    ROW(BUGGIFY_SECTION_ACTIVATED_PROBABILITY, INT, false, 0, 100, NULL),
    ROW(BUGGIFY_SECTION_FIRED_PROBABILITY, INT, false, 0, 100, NULL),
    ROW(TLS_CA_BYTES, TEXT, false, 0, 0, NULL),
    ROW(TLS_CA_PATH, TEXT, false, 0, 0, NULL),
    ROW(TLS_PASSWORD, TEXT, false, 0, 0, NULL),
    ROW(TLS_DISABLE_PLAINTEXT_CONNECTION, NONE, false, 0, 0, NULL),
    ROW(DISABLE_MULTI_VERSION_CLIENT_API, NONE, true, 0, 0, NULL),
    ROW(CALLBACKS_ON_EXTERNAL_THREADS, NONE, true, 0, 0, NULL),
    ROW(EXTERNAL_CLIENT_LIBRARY, TEXT, true, 0, 0, check_file),
    ROW(EXTERNAL_CLIENT_DIRECTORY, TEXT, true, 0, 0, check_not_empty),
    ROW(DISABLE_LOCAL_CLIENT, NONE, true, 0, 0, NULL),
    ROW(CLIENT_THREADS_PER_VERSION, INT, true, 1, 1024, NULL),
    ROW(FUTURE_VERSION_CLIENT_LIBRARY, TEXT, true, 0, 0, check_file),
    ROW(RETAIN_CLIENT_LIBRARY_COPIES, NONE, false, 0, 0, NULL),
    ROW(IGNORE_EXTERNAL_CLIENT_FAILURES, NONE, false, 0, 0, NULL),
    ROW(FAIL_INCOMPATIBLE_CLIENT, NONE, false, 0, 0, NULL),
    ROW(DISABLE_CLIENT_STATISTICS_LOGGING, NONE, false, 0, 0, NULL),
    ROW(ENABLE_RUN_LOOP_PROFILING, NONE, false, 0, 0, NULL),
    ROW(DISABLE_CLIENT_BYPASS, NONE, true, 0, 0, NULL),
    ROW(CLIENT_BUGGIFY_ENABLE, NONE, false, 0, 0, NULL),
    ROW(CLIENT_BUGGIFY_DISABLE, NONE, false, 0, 0, NULL),
    ROW(CLIENT_BUGGIFY_SECTION_ACTIVATED_PROBABILITY, INT, false, 0, 100, NULL),
    ROW(CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY, INT, false, 0, 100, NULL),
    ROW(DISTRIBUTED_CLIENT_TRACER, TEXT, false, 0, 0, check_tracer),
    ROW(CLIENT_TMP_DIR, TEXT, false, 0, 0, check_not_empty),
    {FDB_NET_OPTION_SUPPORTED_CLIENT_VERSIONS, NULL, OPTIONAL, false, 0, 0, NULL},
    {FDB_NET_OPTION_EXTERNAL_CLIENT, NULL, NONE, false, 0, 0, NULL},
    {FDB_NET_OPTION_EXTERNAL_CLIENT_TRANSPORT_ID, NULL, OPTIONAL, false, 0, 0, NULL},
};
#undef ROW

enum { OPTION_COUNT = sizeof options / sizeof *options };

/* ---- Checking one ---- */

static fdb_error_t check_int(const struct option *option, const uint8_t *value, int length) {
    int64_t number;
    if (!value || length != sizeof number)
        return ERROR_INVALID_OPTION_VALUE;
    memcpy(&number, value, sizeof number);
    return number >= option->least && number <= option->most ? 0 : ERROR_INVALID_OPTION_VALUE;
}

static fdb_error_t check_value(const struct option *option, const uint8_t *value, int length) {
    switch (option->type) {
    case NONE:
        return value && length > 0 ? ERROR_INVALID_OPTION_VALUE : 0;
    case INT:
        return check_int(option, value, length);
    case TEXT:
        if (!value)
            return ERROR_INVALID_OPTION_VALUE;
        return option->check ? option->check((const char *)value, (size_t)length) : 0;
    default:
        return 0;
    }
}

fdb_error_t network_options_check(int number, const uint8_t *value, int length, bool is_setup) {
    const struct option *option = NULL;
    for (int i = 0; i < OPTION_COUNT && !option; i++)
        if (options[i].number == number)
            option = &options[i];
    if (!option)
        return ERROR_INVALID_OPTION;
    if (value && length < 0)
        return ERROR_INVALID_OPTION_VALUE;
    fdb_error_t error = check_value(option, value, length);
    if (error)
        return error;
    return option->before_setup && is_setup ? ERROR_INVALID_OPTION : 0;
}

/* ---- The environment ---- */

/* Checks one value as the environment writes it. */
static fdb_error_t check_written(const struct option *option, const char *text, bool is_setup) {
    if (option->type != INT)
        return network_options_check(option->number, (const uint8_t *)text, (int)strlen(text),
                                     is_setup);
    char *end;
    long long parsed = strtoll(text, &end, 10);
    int64_t number = parsed;
    if (end == text || *end || parsed == LLONG_MAX || parsed == LLONG_MIN) /* or beyond them */
        return ERROR_INVALID_OPTION_VALUE;
    return network_options_check(option->number, (const uint8_t *)&number, sizeof number, is_setup);
}

/*
 * Takes the value that starts at *from out of a list, undoing the escapes, into `value`, and moves
 * *from behind it; *last says that none follows.
 */
static fdb_error_t next_value(const char **from, char *value, bool *last) {
    const char *at = *from;
    for (; *at && *at != ':'; at++) {
        if (*at == '\\') {
            at++;
            if (*at != ':' && *at != '\\')
                return ERROR_INVALID_OPTION_VALUE;
        }
        *value++ = *at;
    }
    *value = '\0';
    *last = *at == '\0';
    *from = at + !*last;
    return 0;
}

static fdb_error_t check_list(const struct option *option, const char *list, bool is_setup) {
    char *value = memory_allocate(strlen(list) + 1);
    if (!value)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error;
    bool last = false;
    do {
        error = next_value(&list, value, &last);
        if (!error)
            error = check_written(option, value, is_setup);
    } while (!error && !last);
    memory_free(value);
    return error;
}

fdb_error_t network_options_check_environment(bool is_setup) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!options[i].name)
            continue;
        char name[128];
        snprintf(name, sizeof name, "FDB_NETWORK_OPTION_%s", options[i].name);
        const char *list = getenv(name);
        if (list && check_list(&options[i], list, is_setup))
            return ERROR_INVALID_OPTION_VALUE_ENVIRONMENT;
    }
    return 0;
}
