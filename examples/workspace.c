/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: a price list that is replaced as a whole, twice, and then taken back.
 *
 *     cc workspace.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/workspace.h>

#include <stdio.h>
#include <string.h>

static const char *const prices[] = {"3.20", "3.50"};

static fdb_error_t open_prices(FDBTransaction *tr, void *context) {
    return keel_directory_create_or_open(tr, NULL, KEEL_PATH("example", "prices"), KEEL_NO_LAYER,
                                         context);
}

struct job {
    keel_directory *workspace;
    const char *price;
};

/* Builds the new list. A long one is written in many transactions like this one. */
static fdb_error_t build(FDBTransaction *tr, void *context) {
    struct job *job = context;
    keel_subspace fresh;
    uint8_t key[64];
    size_t length;
    fdb_error_t error = keel_workspace_new(tr, job->workspace, &fresh);
    if (!error)
        error = keel_subspace_pack(&fresh, KEEL_TUPLE("coffee"), key, sizeof key, &length);
    if (!error)
        fdb_transaction_set(tr, key, (int)length, (const uint8_t *)job->price,
                            (int)strlen(job->price));
    return error;
}

static fdb_error_t swap(FDBTransaction *tr, void *context) {
    return keel_workspace_swap(tr, context, KEEL_WORKSPACE_PREVIOUS, NULL);
}

static fdb_error_t rollback(FDBTransaction *tr, void *context) {
    return keel_workspace_rollback(tr, context);
}

static fdb_error_t show(FDBTransaction *tr, void *context) {
    keel_subspace current;
    uint8_t key[64];
    size_t length;
    fdb_bool_t present = 0;
    const uint8_t *value = NULL;
    int value_length = 0;
    fdb_error_t error = keel_workspace_current(tr, context, &current);
    if (!error)
        error = keel_subspace_pack(&current, KEEL_TUPLE("coffee"), key, sizeof key, &length);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &value_length);
    if (!error && present)
        printf("coffee costs %.*s\n", value_length, (const char *)value);
    fdb_future_destroy(future);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db = NULL;
    struct job job = {NULL, NULL};
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_run(keel_fdb(db), open_prices, &job.workspace);
    for (int i = 0; i < 2 && !error; i++) {
        job.price = prices[i];
        error = keel_run(keel_fdb(db), build, &job);
        if (!error)
            error = keel_run(keel_fdb(db), swap, job.workspace);
        if (!error)
            error = keel_run_read(keel_fdb(db), show, job.workspace);
    }
    if (!error)
        error = keel_run(keel_fdb(db), rollback, job.workspace);
    if (!error)
        printf("rolled back: ");
    if (!error)
        error = keel_run_read(keel_fdb(db), show, job.workspace);
    if (error)
        fprintf(stderr, "workspace: %s (%d)\n", keel_error_text(error), error);
    keel_directory_close(job.workspace);
    keel_close(db);
    return error != 0;
}
