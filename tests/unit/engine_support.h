/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the engine have in common: a scratch directory, databases in it, and files that cannot grow. Include after cmocka.h.
 */
#ifndef KEEL_ENGINE_SUPPORT_H
#define KEEL_ENGINE_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/engine_internal.h"
#include "util/memory.h"

static char scratch[400];
static int scratch_number;

static int make_scratch(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-engine-XXXXXX", parent ? parent : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    char command[1000];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static void fresh_path(char path[1000]) {
    snprintf(path, 1000, "%s/db-%d", scratch, scratch_number++);
}

static struct engine_options defaults(void) {
    struct engine_options options;
    char *message = NULL;
    assert_int_equal(engine_default_options(&options, &message), 0);
    return options;
}

static fdb_error_t try_open(const char *path, const struct engine_options *options, struct database **database) {
    char *message = NULL;
    fdb_error_t error = engine_open(path, options, database, &message);
    assert_true(!error || message);
    memory_free(message);
    return error;
}

static struct database *open_with(const char *path, const struct engine_options *options) {
    struct database *database = NULL;
    assert_int_equal(try_open(path, options, &database), 0);
    return database;
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

#endif
