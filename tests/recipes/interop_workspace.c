/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces, beside tests/clients/python/recipe_workspace.py; see interop.h. */
#include "interop.h"

#include <keel/workspace.h>

enum { ITEMS = 20 };

static keel_directory *open_workspace(FDBTransaction *tr) {
    keel_directory *directory = NULL;
    must(keel_directory_create_or_open(tr, NULL, KEEL_PATH("catalog_workspace"), KEEL_NO_LAYER,
                                       &directory),
         "open");
    return directory;
}

/* (item) = (data,), as the other side packs it. */
static void put(FDBTransaction *tr, const keel_subspace *space, int generation, int item) {
    uint8_t key[100], value[100];
    char name[32], data[32];
    size_t key_length, value_length;
    snprintf(name, sizeof name, "item %d", item);
    snprintf(data, sizeof data, "data %d of %d", item, generation);
    must(keel_subspace_pack(space, KEEL_TUPLE(name), key, sizeof key, &key_length), "pack");
    must(keel_tuple_pack(KEEL_TUPLE(data), value, sizeof value, &value_length), "pack");
    fdb_transaction_set(tr, key, (int)key_length, value, (int)value_length);
}

/* Three generations, so that there is an old one to remove; then something new that is not yet
   swapped in. */
static fdb_error_t write_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_directory *workspace = open_workspace(tr);
    keel_subspace fresh;
    for (int generation = 1; generation <= 4; generation++) {
        must(keel_workspace_new(tr, workspace, &fresh), "new");
        for (int i = 0; i < ITEMS + generation; i++)
            put(tr, &fresh, generation, i);
        if (generation < 4)
            must(keel_workspace_swap(tr, workspace, KEEL_WORKSPACE_DROP, NULL), "swap");
    }
    keel_directory_close(workspace);
    return 0;
}

static int count_items(FDBTransaction *tr, const keel_subspace *space, int generation) {
    keel_range range;
    const FDBKeyValue *rows;
    int count = 0, wrong = 0;
    fdb_bool_t more;
    char end[32];
    int end_length = snprintf(end, sizeof end, " of %d", generation);
    must(keel_subspace_range(space, KEEL_TUPLE(), &range), "range");
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0,
        FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    must(keel_wait(future), "read");
    must(fdb_future_get_keyvalue_array(future, &rows, &count, &more), "read");
    for (int i = 0; i < count; i++) {
        char data[64];
        size_t length;
        keel_tuple_iterator it =
            keel_tuple_iterate(keel_bytes_of(rows[i].value, (size_t)rows[i].value_length));
        must(keel_tuple_next_string(&it, data, sizeof data, &length), "value");
        wrong += length < (size_t)end_length || strcmp(data + length - end_length, end) != 0;
    }
    fdb_future_destroy(future);
    return wrong ? -1 : count;
}

static fdb_error_t check_set(FDBTransaction *tr, void *context) {
    (void)context;
    keel_directory *workspace = open_workspace(tr);
    keel_subspace current, fresh, old;
    must(keel_workspace_current(tr, workspace, &current), "current");
    check(count_items(tr, &current, 3) == ITEMS + 3, "workspace: what is current");
    must(keel_workspace_new(tr, workspace, &fresh), "new");
    check(count_items(tr, &fresh, 4) == ITEMS + 4, "workspace: what is being built");
    check(keel_workspace_previous(tr, workspace, &old) == KEEL_ERROR_NOT_FOUND,
          "workspace: nothing was kept");
    keel_directory_close(workspace);
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write_set, check_set);
}
