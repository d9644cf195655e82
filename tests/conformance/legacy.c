/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that live at an old API version, compiled against the headers at 510 so that the
 * functions removed since are there: clusters (until 610), get_version (until 620), versionstamps
 * without a four-byte offset (until 520), on_error that resets even when it gives up (until 610),
 * a special key space of three keys (until 630).
 */
#define FDB_API_VERSION 510
#include "support.h"

static FDBDatabase *database_of(FDBCluster *cluster) {
    FDBFuture *future = fdb_cluster_create_database(cluster, (const uint8_t *)"DB", 2);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    FDBDatabase *database = NULL;
    assert_int_equal(fdb_future_get_database(future, &database), 0);
    fdb_future_destroy(future);
    return database;
}

static int64_t legacy_version(FDBFuture *future) {
    int64_t version = 0;
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(fdb_future_get_version(future, &version), 0);
    fdb_future_destroy(future);
    return version;
}

static int child_cluster(void) {
    run_prepare();
    assert_int_equal(fdb_select_api_version(510), 0);
    assert_int_equal(fdb_setup_network(), 0);
    run_start_network();
    FDBFuture *future = fdb_create_cluster(run_database_path());
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    FDBCluster *cluster = NULL;
    assert_int_equal(fdb_future_get_cluster(future, &cluster), 0);
    fdb_future_destroy(future);
    assert_non_null(cluster);
    assert_int_equal(
        fdb_cluster_set_option(cluster, FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE, NULL, 0), 0);
    assert_fails(fdb_cluster_create_database(cluster, (const uint8_t *)"XX", 2),
                 ERROR_INVALID_DATABASE_NAME);
    test_database = database_of(cluster);
    assert_non_null(test_database);
    fdb_cluster_destroy(cluster);
    store(key("a"), text("1"));
    assert_value(load(key("a")), text("1"));
    FDBTransaction *tr = begin();
    assert_true(legacy_version(fdb_transaction_get_read_version(tr)) > 0);
    fdb_transaction_destroy(tr);
    run_end();
    return 0;
}

static int child_versionstamps(void) {
    run_begin_at(510, 510);
    FDBTransaction *tr = begin();
    struct bytes start = key("k");
    struct bytes name = joined(joined(start, repeat('x', VERSIONSTAMP_BYTES)),
                               little_endian((uint64_t)start.size, 2));
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, name, text("v"));
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"),
           joined(repeat('x', VERSIONSTAMP_BYTES), text("tail")));
    FDBFuture *future = fdb_transaction_get_versionstamp(tr);
    commit(tr);
    struct bytes stamp = future_key(future);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), joined(stamp, text("tail")));
    assert_value(load(joined(start, stamp)), text("v"));
    run_end();
    return 0;
}

static int child_on_error(void) {
    run_begin_at(510, 510);
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("forgotten"));
    assert_fails(fdb_transaction_on_error(tr, ERROR_TRANSACTION_TOO_LARGE),
                 ERROR_TRANSACTION_TOO_LARGE);
    assert_absent(future_value(get(tr, key("a"))));
    put(tr, key("b"), text("kept"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("b")), text("kept"));
    run_end();
    return 0;
}

static int child_special_keys(void) {
    run_begin_at(620, 620);
    FDBTransaction *tr = begin();
    assert_true(future_value(get(tr, LITERAL("\xff\xff/status/json"))).present);
    assert_ready(get(tr, LITERAL("\xff\xff/connection_string")));
    assert_ready(get(tr, LITERAL("\xff\xff/cluster_file_path")));
    assert_fails(get(tr, LITERAL("\xff\xff/no such module")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_destroy(tr);
    run_end();
    return 0;
}

int legacy_child_main(const char *name) {
    static const struct {
        const char *name;
        int (*run)(void);
    } children[] = {
        {"legacy-cluster", child_cluster},
        {"legacy-versionstamps", child_versionstamps},
        {"legacy-on-error", child_on_error},
        {"legacy-special-keys", child_special_keys},
    };
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        if (strcmp(name, children[i].name) == 0) {
            return children[i].run();
        }
    }
    return -1;
}
