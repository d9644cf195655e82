/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the C halves of the recipes' interoperation tests:  interop_NAME write|check DATABASE
 * The other halves are tests/clients/python/recipe_NAME.py. `write` writes a fixed set, `check`
 * compares what is there with it, whoever wrote it. One line a check, then `finished`.
 */
#ifndef RECIPES_INTEROP_H
#define RECIPES_INTEROP_H

#include <keel/keel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int interop_failures;

static inline void check(int holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    interop_failures += !holds;
}

static inline void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

/* A main for the two modes. */
static inline int interop_main(int argc, char **argv, keel_function write, keel_function verify) {
    keel_db *db;
    if (argc != 3 || (strcmp(argv[1], "write") && strcmp(argv[1], "check"))) {
        fprintf(stderr, "usage: %s write|check DATABASE\n", argv[0]);
        return 2;
    }
    must(keel_open(argv[2], &db), "open");
    keel_function function = strcmp(argv[1], "write") ? verify : write;
    must(keel_run(keel_fdb(db), function, keel_fdb(db)), argv[1]);
    keel_close(db);
    printf("finished\n");
    return interop_failures != 0;
}

#endif
