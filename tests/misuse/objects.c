/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures, transactions, databases and tenants: asked the wrong thing, asked too early, too late
 * and too often, destroyed in every order, also from callbacks.
 */
#include "misuse.h"

static FDBDatabase *database;

static void open_memory(void) {
    network_start();
    database = database_open(":memory:");
    FDBTransaction *tr = transaction_begin(database);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
}

static void close_memory(void) {
    fdb_database_destroy(database);
    network_stop();
}

/* ---- Every getter on every kind of future ---- */

enum kind { NOTHING, INT64, UINT64, DOUBLE, KEYS, KEY_OR_VALUE, VALUE, ROWS, STRINGS, NEVER };

/* Calls getter number `which`; checks that it leaves its outputs alone unless it succeeds. */
static fdb_error_t get_as(FDBFuture *future, int which, enum kind *kind) {
    static int mark;
    fdb_bool_t truth = 77, more = 77;
    int64_t number = 77;
    uint64_t large = 77;
    double real = 77;
    const void *pointer = &mark;
    int count = 77;
    fdb_error_t error = 0;
    switch (which) {
    case 0: *kind = INT64, error = fdb_future_get_int64(future, &number); break;
    case 1: *kind = UINT64, error = fdb_future_get_uint64(future, &large); break;
    case 2: *kind = DOUBLE, error = fdb_future_get_double(future, &real); break;
    case 3:
        *kind = KEY_OR_VALUE;
        error = fdb_future_get_key(future, (const uint8_t **)&pointer, &count);
        break;
    case 4:
        *kind = VALUE;
        error = fdb_future_get_value(future, &truth, (const uint8_t **)&pointer, &count);
        break;
    case 5:
        *kind = ROWS;
        error = fdb_future_get_keyvalue_array(future, (const FDBKeyValue **)&pointer, &count,
                                              &more);
        break;
    case 6:
        *kind = KEYS;
        error = fdb_future_get_key_array(future, (const FDBKey **)&pointer, &count);
        break;
    case 7:
        *kind = STRINGS;
        error = fdb_future_get_string_array(future, (const char ***)&pointer, &count);
        break;
    case 8: *kind = NEVER, error = fdb_future_get_bool(future, &truth); break;
    case 9:
        *kind = NEVER;
        error = fdb_future_get_mappedkeyvalue_array(future, (const FDBMappedKeyValue **)&pointer,
                                                    &count, &more);
        break;
    case 10:
        *kind = NEVER;
        error = fdb_future_get_keyrange_array(future, (const FDBKeyRange **)&pointer, &count);
        break;
    case 11:
        *kind = NEVER;
        error = fdb_future_get_granule_summary_array(future, (const FDBGranuleSummary **)&pointer,
                                                     &count);
        break;
    default:
        *kind = NEVER;
        error = fdb_future_readbg_get_descriptions(future, (FDBBGFileDescription **)&pointer,
                                                   &count);
        break;
    }
    bool untouched = truth == 77 && more == 77 && number == 77 && large == 77 && real == 77 &&
                     pointer == &mark && count == 77;
    CHECK(!error || untouched);
    return error;
}

enum { GETTERS = 13 };

static bool matches(enum kind asked, enum kind held) {
    return asked == held || (asked == VALUE && held == KEY_OR_VALUE);
}

static void ask_everything(FDBFuture *future, enum kind held, fdb_error_t whole) {
    for (int which = 0; which < GETTERS; which++) {
        enum kind asked;
        fdb_error_t error = get_as(future, which, &asked);
        CHECK_EQUAL(error, whole ? whole : matches(asked, held) ? 0 : 2000);
    }
}

static FDBFuture *make_ready(FDBTransaction *tr, int which, enum kind *kind) {
    switch (which) {
    case 0: *kind = INT64; return fdb_transaction_get_read_version(tr);
    case 1: *kind = VALUE; return fdb_transaction_get(tr, KEY("k"), 0);
    case 2: *kind = KEY_OR_VALUE; return fdb_transaction_get_key(tr, KEY("k"), 0, 1, 0);
    case 3:
        *kind = ROWS;
        return fdb_transaction_get_range(tr, KEY(""), 0, 1, KEY("\xff"), 0, 1, 0, 0, -2, 0, 0, 0);
    case 4: *kind = STRINGS; return fdb_transaction_get_addresses_for_key(tr, KEY("k"));
    case 5:
        *kind = KEYS;
        return fdb_transaction_get_range_split_points(tr, KEY(""), KEY("\xff"), 10);
    case 6: *kind = INT64; return fdb_transaction_get_approximate_size(tr);
    case 7: *kind = INT64; return fdb_transaction_get_total_cost(tr);
    case 8: *kind = DOUBLE; return fdb_transaction_get_tag_throttled_duration(tr);
    case 9: *kind = UINT64; return fdb_database_get_server_protocol(database, 0);
    case 10: *kind = KEY_OR_VALUE; return fdb_database_get_client_status(database);
    case 11:
        *kind = INT64;
        return fdb_transaction_get_estimated_range_size_bytes(tr, KEY(""), KEY("\xff"));
    default: return NULL;
    }
}

static void getters_of_the_wrong_kind(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    enum kind kind;
    FDBFuture *future;
    for (int which = 0; (future = make_ready(tr, which, &kind)) != NULL; which++) {
        CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
        fdb_future_release_memory(future); /* nothing was handed out: nothing happens */
        ask_everything(future, kind, 0);
        ask_everything(future, kind, 0);
        fdb_future_cancel(future);
        ask_everything(future, kind, 0);
        for (int i = 0; i < 20; i++)
            fdb_future_release_memory(future);
        CHECK_EQUAL(fdb_future_get_error(future), 1102);
        for (int i = 0; i < GETTERS; i++) {
            fdb_error_t error = get_as(future, i, &kind);
            CHECK(error == 1102 || error == 2000);
        }
        CHECK(fdb_future_is_ready(future));
        fdb_future_destroy(future);
    }
    fdb_transaction_destroy(tr);
    close_memory();
}

static void getters_of_failed_futures(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    fdb_transaction_cancel(tr);
    FDBFuture *failed[] = {fdb_transaction_get(tr, KEY("k"), 0),
                           fdb_transaction_get_read_version(tr),
                           fdb_transaction_commit(tr),
                           fdb_transaction_watch(tr, KEY("k")),
                           fdb_transaction_get_versionstamp(tr),
                           fdb_transaction_on_error(tr, 1020)};
    for (size_t i = 0; i < sizeof failed / sizeof *failed; i++) {
        CHECK(fdb_future_is_ready(failed[i]));
        ask_everything(failed[i], NOTHING, 1025);
        fdb_future_release_memory(failed[i]);
        ask_everything(failed[i], NOTHING, 1025);
        CHECK_EQUAL(fdb_future_get_error(failed[i]), 1025);
        fdb_future_destroy(failed[i]);
    }
    fdb_transaction_destroy(tr);
    close_memory();
}

static void getters_of_unready_futures(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    FDBFuture *status = fdb_database_get_server_protocol(database, 0);
    uint64_t protocol = 0;
    CHECK_EQUAL(fdb_future_get_uint64(status, &protocol), 0);
    fdb_future_destroy(status);
    FDBFuture *unready[] = {fdb_transaction_watch(tr, KEY("k")),
                            fdb_transaction_get_versionstamp(tr),
                            fdb_database_get_server_protocol(database, protocol)};
    for (int i = 0; i < 3; i++) {
        CHECK(!fdb_future_is_ready(unready[i]));
        ask_everything(unready[i], NOTHING, 2015);
        fdb_future_release_memory(unready[i]);
        ask_everything(unready[i], NOTHING, 2015);
        CHECK_EQUAL(fdb_future_get_error(unready[i]), 2015);
        fdb_future_cancel(unready[i]);
        fdb_future_cancel(unready[i]);
        ask_everything(unready[i], NOTHING, 1101);
        CHECK_EQUAL(finish(unready[i]), 1101);
    }
    fdb_transaction_destroy(tr);
    close_memory();
}

/* ---- Orders of destruction ---- */

enum { COMMIT, WATCH, STAMP, RETRY, READ, FUTURES, TRANSACTION = FUTURES, DATABASE, OBJECTS };

struct objects {
    FDBFuture *futures[FUTURES];
    FDBTransaction *tr;
    FDBDatabase *database;
};

static struct objects make_objects(const char *path, bool retries) {
    struct objects made = {.database = database_open(path)};
    made.tr = transaction_begin(made.database);
    made.futures[READ] = fdb_transaction_get(made.tr, KEY("k"), 0);
    set_text(made.tr, "k", "v");
    made.futures[WATCH] = fdb_transaction_watch(made.tr, KEY("w"));
    made.futures[STAMP] = fdb_transaction_get_versionstamp(made.tr);
    if (retries)
        made.futures[RETRY] = fdb_transaction_on_error(made.tr, 1020);
    made.futures[COMMIT] = fdb_transaction_commit(made.tr);
    return made;
}

static void destroy_object(struct objects *objects, int which) {
    if (which < FUTURES)
        fdb_future_destroy(objects->futures[which]);
    else if (which == TRANSACTION)
        fdb_transaction_destroy(objects->tr);
    else
        fdb_database_destroy(objects->database);
}

/* The permutation of OBJECTS things with this number. */
static void permute(int number, int order[OBJECTS]) {
    for (int i = 0; i < OBJECTS; i++)
        order[i] = i;
    for (int i = OBJECTS - 1; i > 0; i--) {
        int j = number % (i + 1), swap = order[i];
        number /= i + 1;
        order[i] = order[j];
        order[j] = swap;
    }
}

static void destroy_in_orders(const char *path, int step) {
    for (int number = 0; number < 5040; number += step) {
        struct objects objects = make_objects(path, number % 3 == 0);
        int order[OBJECTS];
        permute(number, order);
        if (number % 5 == 0)
            CHECK_EQUAL(fdb_future_block_until_ready(objects.futures[COMMIT]), 0);
        for (int i = 0; i < OBJECTS; i++)
            destroy_object(&objects, order[i]);
    }
}

static void destroy_in_every_order_in_memory(void) {
    network_start();
    destroy_in_orders(":memory:", 5040 / rounds(1680));
    network_stop();
}

static void destroy_in_every_order_on_disk(void) {
    setenv("KEEL_DURABILITY", "none", 1);
    network_start();
    destroy_in_orders(scratch_path("db"), 5040 / rounds(70) | 1);
    network_stop();
}

static void futures_outlive_everything(void) {
    network_start();
    for (int i = 0; i < rounds(200); i++) {
        struct objects objects = make_objects(":memory:", false);
        fdb_transaction_destroy(objects.tr);
        fdb_database_destroy(objects.database);
        fdb_error_t error = fdb_future_block_until_ready(objects.futures[COMMIT]);
        CHECK_EQUAL(error, 0);
        error = fdb_future_get_error(objects.futures[COMMIT]);
        CHECK(error == 0 || error == 1025);
        CHECK_EQUAL(fdb_future_get_error(objects.futures[READ]), 0);
        fdb_bool_t present = 1;
        const uint8_t *value;
        int length;
        CHECK_EQUAL(fdb_future_get_value(objects.futures[READ], &present, &value, &length), 0);
        CHECK(!present);
        for (int j = 0; j < FUTURES; j++)
            fdb_future_destroy(objects.futures[j]);
    }
    network_stop();
}

/* ---- Callbacks ---- */

static atomic_int calls;

static void wait_for_calls(int wanted) {
    while (atomic_load(&calls) < wanted)
        usleep(200);
    CHECK_EQUAL(atomic_load(&calls), wanted);
}

static void count(FDBFuture *future, void *parameter) {
    (void)future, (void)parameter;
    atomic_fetch_add(&calls, 1);
}

static void destroy_all(FDBFuture *future, void *parameter) {
    struct objects *objects = parameter;
    CHECK(future == objects->futures[COMMIT]);
    for (int i = OBJECTS - 1; i >= 0; i--)
        destroy_object(objects, i);
    atomic_fetch_add(&calls, 1);
}

static void callbacks_destroy_everything(void) {
    network_start();
    for (int i = 0; i < rounds(300); i++) {
        struct objects objects = make_objects(i % 10 ? ":memory:" : scratch_path("db"), i % 2);
        CHECK_EQUAL(fdb_future_set_callback(objects.futures[COMMIT], destroy_all, &objects), 0);
        wait_for_calls(i + 1);
    }
    network_stop();
}

static void set_again(FDBFuture *future, void *parameter) {
    CHECK_EQUAL(fdb_future_set_callback(future, count, parameter), 0);
    atomic_fetch_add(&calls, 1);
    fdb_future_cancel(future);
    CHECK(fdb_future_is_ready(future));
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
}

static void callbacks_twice_and_from_callbacks(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    FDBFuture *watch = fdb_transaction_watch(tr, KEY("w"));
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(fdb_future_set_callback(watch, i % 2 ? set_again : count, NULL), 0);
    CHECK_EQUAL(atomic_load(&calls), 0);
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    set_text(tr, "w", "v");
    CHECK_EQUAL(commit(tr), 0);
    wait_for_calls(15);
    CHECK_EQUAL(fdb_future_set_callback(watch, set_again, NULL), 0); /* ready: at once */
    CHECK_EQUAL(atomic_load(&calls), 17);
    CHECK_EQUAL(finish(watch), 0);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void destroy_with_callback_set(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int i = 0; i < rounds(1000); i++) {
        FDBFuture *watch = fdb_transaction_watch(tr, KEY("w"));
        CHECK_EQUAL(fdb_future_set_callback(watch, count, NULL), 0);
        fdb_future_destroy(watch); /* which cancels, so the callback runs */
    }
    wait_for_calls(rounds(1000));
    fdb_transaction_destroy(tr);
    close_memory();
}

static FDBFuture *never_ready;

static void block_inside(FDBFuture *future, void *parameter) {
    (void)future, (void)parameter;
    CHECK_EQUAL(fdb_future_block_until_ready(never_ready), 2026);
    FDBTransaction *tr = transaction_begin(database); /* reads are answered at once */
    CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), 0);
    set_text(tr, "from a callback", "v");
    FDBFuture *done = fdb_transaction_commit(tr);
    fdb_error_t error = fdb_future_block_until_ready(done);
    CHECK(error == 2026 || error == 0);
    CHECK_EQUAL(fdb_future_set_callback(done, count, NULL), 0);
    fdb_transaction_destroy(tr);
    fdb_future_destroy(done);
    atomic_fetch_add(&calls, 1);
}

static void blocking_inside_a_callback(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    never_ready = fdb_transaction_watch(tr, KEY("w"));
    FDBFuture *watch = fdb_transaction_watch(tr, KEY("x"));
    CHECK_EQUAL(fdb_future_set_callback(watch, block_inside, NULL), 0);
    fdb_future_cancel(watch);
    wait_for_calls(2);
    fdb_future_destroy(watch);
    fdb_future_destroy(never_ready);
    fdb_transaction_destroy(tr);
    close_memory();
}

/* ---- Tenants, and clusters as API versions below 610 have them ---- */

static void tenants_in_any_order(void) {
    network_start();
    for (int i = 0; i < 6; i++) {
        FDBDatabase *opened = database_open(":memory:");
        FDBTenant *tenant = NULL;
        FDBTransaction *tr = NULL;
        CHECK_EQUAL(fdb_database_open_tenant(opened, KEY("t"), &tenant), 0);
        CHECK_EQUAL(fdb_tenant_create_transaction(tenant, &tr), 0);
        if (i % 3 == 0)
            fdb_tenant_destroy(tenant);
        if (i % 2)
            fdb_database_destroy(opened);
        set_text(tr, "k", "v");
        fdb_error_t error = commit(tr);
        CHECK(error >= 2130 && error < 2200);
        FDBFuture *failed = fdb_transaction_get(tr, KEY("k"), 0);
        CHECK(fdb_future_get_error(failed));
        if (i % 3 == 1)
            fdb_tenant_destroy(tenant);
        fdb_transaction_destroy(tr);
        if (i % 3 == 2)
            fdb_tenant_destroy(tenant);
        fdb_future_destroy(failed);
        if (i % 2 == 0)
            fdb_database_destroy(opened);
    }
    FDBDatabase *opened = database_open(":memory:");
    FDBTenant *tenant = NULL;
    CHECK_EQUAL(fdb_database_open_tenant(opened, NULL, 1, &tenant), 2000);
    CHECK_EQUAL(fdb_database_open_tenant(opened, KEY("t"), NULL), 2000);
    CHECK_EQUAL(fdb_database_open_tenant(opened, (const uint8_t *)"t", -1, &tenant), 2000);
    CHECK(!tenant);
    fdb_database_destroy(opened);
    network_stop();
}

#undef fdb_create_cluster
#undef fdb_cluster_destroy
#undef fdb_cluster_set_option
#undef fdb_cluster_create_database
#undef fdb_future_get_cluster
#undef fdb_future_get_database
#undef fdb_future_get_version
FDBFuture *fdb_create_cluster(const char *path);
void fdb_cluster_destroy(FDBCluster *cluster);
fdb_error_t fdb_cluster_set_option(FDBCluster *cluster, int option, uint8_t const *value,
                                   int length);
FDBFuture *fdb_cluster_create_database(FDBCluster *cluster, uint8_t const *name, int length);
fdb_error_t fdb_future_get_cluster(FDBFuture *future, FDBCluster **cluster);
fdb_error_t fdb_future_get_database(FDBFuture *future, FDBDatabase **database);
fdb_error_t fdb_future_get_version(FDBFuture *future, int64_t *version);

static void clusters_of_old(void) {
    CHECK_EQUAL(fdb_select_api_version_impl(600, 740), 0);
    FDBCluster *cluster = NULL, *same = NULL;
    FDBDatabase *opened = NULL, *again = NULL;
    int64_t version = 7;
    fdb_cluster_destroy(NULL);
    CHECK_EQUAL(fdb_cluster_set_option(NULL, 1, NULL, -1), 0);
    CHECK_EQUAL(fdb_future_get_cluster(NULL, &cluster), 2000);
    CHECK_EQUAL(fdb_future_get_database(NULL, &opened), 2000);
    CHECK_EQUAL(fdb_future_get_version(NULL, &version), 2000);
    CHECK_EQUAL(finish(fdb_cluster_create_database(NULL, KEY("DB"))), 2000);
    fdb_future_destroy(fdb_create_cluster(NULL));
    FDBFuture *future = fdb_create_cluster(":memory:");
    CHECK_EQUAL(fdb_future_get_cluster(future, NULL), 2000);
    CHECK_EQUAL(fdb_future_get_database(future, &opened), 2000);
    CHECK_EQUAL(fdb_future_get_cluster(future, &cluster), 0);
    CHECK_EQUAL(fdb_future_get_cluster(future, &same), 0);
    fdb_future_release_memory(future);
    fdb_future_release_memory(future);
    fdb_future_destroy(future);
    fdb_cluster_destroy(same);
    CHECK_EQUAL(finish(fdb_cluster_create_database(cluster, KEY("DB"))), 2008);
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(finish(fdb_cluster_create_database(cluster, KEY("db"))), 2013);
    CHECK_EQUAL(finish(fdb_cluster_create_database(cluster, NULL, -1)), 2000);
    fdb_future_destroy(fdb_cluster_create_database(cluster, KEY("DB")));
    future = fdb_cluster_create_database(cluster, KEY("DB"));
    fdb_cluster_destroy(cluster);
    CHECK_EQUAL(fdb_future_get_database(future, &opened), 0);
    CHECK_EQUAL(fdb_future_get_database(future, &again), 0);
    fdb_future_destroy(future);
    fdb_database_destroy(opened);
    FDBTransaction *tr = transaction_begin(again);
    fdb_database_destroy(again);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
}

const struct misuse_case object_cases[] = {
    {"futures: getters of the wrong kind, after release", getters_of_the_wrong_kind},
    {"futures: getters of failed futures", getters_of_failed_futures},
    {"futures: getters of unready futures", getters_of_unready_futures},
    {"objects: destroyed in every order, in memory", destroy_in_every_order_in_memory},
    {"objects: destroyed in every order, on disk", destroy_in_every_order_on_disk},
    {"objects: futures outlive everything", futures_outlive_everything},
    {"callbacks: destroy everything", callbacks_destroy_everything},
    {"callbacks: set twice, set from callbacks", callbacks_twice_and_from_callbacks},
    {"callbacks: future destroyed with a callback set", destroy_with_callback_set},
    {"callbacks: blocking inside", blocking_inside_a_callback},
    {"objects: tenants in any order", tenants_in_any_order},
    {"objects: clusters of old API versions", clusters_of_old},
    {NULL, NULL},
};
