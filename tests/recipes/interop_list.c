/* SPDX-License-Identifier: Apache-2.0 */
/* Linked lists, beside tests/clients/python/recipe_list.py; see interop.h. */
#include "interop.h"

#include <keel/list.h>

enum { NODES = 20 };

static keel_subspace node_space(void) {
    keel_subspace subspace;
    must(keel_subspace_tuple(KEEL_TUPLE("node"), &subspace), "subspace");
    return subspace;
}

/* The ids hold a zero byte, which the keys escape. */
static keel_bytes id_of(int number, char buffer[16]) {
    return keel_bytes_of(buffer, (size_t)snprintf(buffer, 16, "node%c%02d", 0, number));
}

/* Nodes 0 to 19; the first, and those behind 4 and 18 are removed again. */
static fdb_error_t write_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace list = node_space();
    char id[16], value[16];
    fdb_error_t error = keel_list_clear(tr, &list);
    for (int i = NODES - 1; i >= 0 && !error; i--) {
        snprintf(value, sizeof value, "value %d", i);
        error = keel_list_insert_after(tr, &list, KEEL_LIST_ONE_WAY, KEEL_LIST_HEAD, id_of(i, id),
                                       keel_bytes_of_string(value));
    }
    if (!error)
        error = keel_list_remove_after(tr, &list, KEEL_LIST_ONE_WAY, KEEL_LIST_HEAD, NULL);
    if (!error)
        error = keel_list_remove_after(tr, &list, KEEL_LIST_ONE_WAY, id_of(4, id), NULL);
    if (!error)
        error = keel_list_remove_after(tr, &list, KEEL_LIST_ONE_WAY, id_of(18, id), NULL);
    return error;
}

struct seen {
    int count, wrong, expected;
};

static fdb_error_t look(void *context, keel_bytes id, keel_bytes value) {
    struct seen *seen = context;
    char id_buffer[16], value_buffer[32];
    seen->expected += seen->expected == 4 ? 2 : 1;
    snprintf(value_buffer, sizeof value_buffer, "value %d", seen->expected);
    seen->wrong +=
        keel_bytes_compare(id, id_of(seen->expected, id_buffer)) != 0 ||
        keel_bytes_compare(value, keel_bytes_of_string(value_buffer)) != 0;
    seen->count++;
    return 0;
}

static fdb_error_t check_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_subspace list = node_space();
    struct seen seen = {0, 0, 0};
    char id[16];
    uint8_t *value = NULL;
    size_t length;
    must(keel_list_walk(tr, &list, KEEL_LIST_HEAD, 0, look, &seen), "walk");
    check(seen.count == NODES - 3 && !seen.wrong, "list: the nodes in order");
    check(keel_list_get(tr, &list, id_of(5, id), &value, &length) == KEEL_ERROR_NOT_FOUND,
          "list: what was removed is gone");
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write_set, check_set);
}
