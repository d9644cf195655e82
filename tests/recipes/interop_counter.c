/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, beside tests/clients/python/recipe_counter.py; see interop.h. */
#include "interop.h"

#include <keel/counter.h>

enum { ADDITIONS = 500, SHARDS = 7 };

static fdb_error_t write_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace plain, sharded;
    must(keel_subspace_raw(keel_bytes_of_string("global_counter"), &plain), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("counter"), &sharded), "subspace");
    fdb_error_t error = 0;
    for (int i = 0; i < ADDITIONS && !error; i++) {
        error = keel_counter_add(tr, &plain, i % 3 - 2);
        if (!error)
            error = keel_counter_sharded_add(tr, &sharded, SHARDS, i);
    }
    return error;
}

static fdb_error_t check_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace plain, sharded;
    int64_t value = 0, total = 0, expected_value = 0, expected_total = 0;
    must(keel_subspace_raw(keel_bytes_of_string("global_counter"), &plain), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("counter"), &sharded), "subspace");
    for (int i = 0; i < ADDITIONS; i++) {
        expected_value += i % 3 - 2;
        expected_total += i;
    }
    must(keel_counter_get(tr, &plain, true, &value), "get");
    must(keel_counter_sharded_total(tr, &sharded, true, &total), "total");
    check(value == expected_value, "counter: of one key");
    check(total == expected_total, "counter: the sum of the shards");
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write_set, check_set);
}
