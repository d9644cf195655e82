/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: every promise of the fdb_c API that a program can observe, checked through
 * the public API alone. Run without arguments it runs everything; with arguments only the groups
 * named, e.g. `conformance ranges atomics`. See support.h for the database it uses.
 */
#include "support.h"

#include <stdio.h>

struct group {
    const char *name;
    int (*run)(void);
};

static const struct group groups[] = {
    {"errors", group_errors},
    {"get", group_get},
    {"selectors", group_selectors},
    {"ranges", group_ranges},
    {"streaming", group_streaming},
    {"atomics", group_atomics},
    {"read_your_writes", group_read_your_writes},
    {"snapshot", group_snapshot},
    {"versionstamps", group_versionstamps},
    {"conflicts", group_conflicts},
    {"reported_conflicts", group_reported_conflicts},
    {"versions", group_versions},
    {"retry", group_retry},
    {"timeouts", group_timeouts},
    {"lifecycle", group_lifecycle},
    {"watches", group_watches},
    {"metadata", group_metadata},
    {"special_keys", group_special_keys},
    {"limits", group_limits},
    {"futures", group_futures},
    {"options", group_options},
    {"unsupported", group_unsupported},
    {"concurrency", group_concurrency},
    {"processes", group_processes},
    {"embedded_only", group_embedded_only},
};

static bool wanted(const char *name, int count, char **names) {
    for (int i = 1; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return count < 2;
}

static const char *child_name;

/* A test, so that a failed assertion says where. */
static void child(void **state) {
    (void)state;
    int result = child_main(child_name);
    if (result < 0) {
        result = legacy_child_main(child_name);
    }
    if (result < 0) {
        result = embedded_child_main(child_name);
    }
    assert_int_equal(result, 0);
}

static int run_as_child(const char *name) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(child)};
    child_name = name;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "--child") == 0) {
        return run_as_child(arguments[2]);
    }
    run_begin();
    int failures = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (wanted(groups[i].name, count, arguments)) {
            failures += groups[i].run();
        }
    }
    run_end();
    fflush(stdout);
    if (failures) {
        fprintf(stderr, "conformance: %d failed\n", failures);
    }
    return failures ? 1 : 0;
}
