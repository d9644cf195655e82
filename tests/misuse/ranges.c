/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Range reads with every mode, limit, byte target, iteration and offset, the senseless ones
 * included. The rules are written down here a second time, so that every combination has one right
 * answer.
 */
#include "misuse.h"

enum { ROWS = 20 };

static FDBDatabase *database;

static void fill(void) {
    network_start();
    database = database_open(":memory:");
    FDBTransaction *tr = transaction_begin(database);
    for (int i = 0; i < ROWS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%02d", i);
        set_text(tr, key, "0123456789");
    }
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
}

static void close_all(void) {
    fdb_database_destroy(database);
    network_stop();
}

static fdb_error_t expected_error(int mode, int limit, int target, int iteration) {
    bool unlimited = (limit == 0 || limit == -1) && (target == 0 || target == -1);
    if (mode == FDB_STREAMING_MODE_EXACT && unlimited)
        return 2210;
    if (mode < FDB_STREAMING_MODE_WANT_ALL || mode > FDB_STREAMING_MODE_SERIAL)
        return 2000;
    if (mode == FDB_STREAMING_MODE_ITERATOR && iteration <= 0)
        return 2000;
    return limit < -1 || target < -1 ? 2012 : 0;
}

static void read_once(FDBTransaction *tr, int mode, int limit, int target, int iteration,
                      bool reverse) {
    FDBFuture *future =
        fdb_transaction_get_range(tr, KEY(""), 0, 1, KEY("\xff"), 0, 1, limit, target,
                                  (FDBStreamingMode)mode, iteration, 0, reverse);
    const FDBKeyValue *rows = NULL;
    int count = -1;
    fdb_bool_t more = -1;
    fdb_error_t error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    CHECK_EQUAL(error, expected_error(mode, limit, target, iteration));
    if (error) {
        CHECK(!rows && count == -1 && more == -1);
    } else {
        CHECK(count >= 1 && count <= ROWS);
        CHECK(limit <= 0 || count <= limit);
        CHECK(count == ROWS || more == 1);
        CHECK(memcmp(rows[0].key, reverse ? "k19" : "k00", 3) == 0);
    }
    fdb_future_destroy(future);
}

static void every_mode_and_limit(void) {
    static const int limits[] = {INT_MIN, -2, -1, 0, 1, 5, INT_MAX};
    static const int iterations[] = {INT_MIN, -1, 0, 1, 9, 10, 11, INT_MAX};
    fill();
    FDBTransaction *tr = transaction_begin(database);
    for (int mode = -4; mode <= 11; mode++)
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 7; j++)
                for (int k = 0; k < 8; k++)
                    read_once(tr, mode, limits[i], limits[j], iterations[k], k % 2);
    read_once(tr, INT_MIN, 0, 0, 1, false);
    read_once(tr, INT_MAX, 0, 0, 1, false);
    fdb_transaction_destroy(tr);
    close_all();
}

/* Where a selector leads among the rows, as an index that is cut to 0 .. ROWS. */
static int64_t selected(int row, bool or_equal, int64_t offset) {
    int64_t index = row + (or_equal ? 1 : 0) + offset - 1;
    return index < 0 ? 0 : index > ROWS ? ROWS : index;
}

static const int offsets[] = {INT_MIN, INT_MIN + 1, -30, -1, 0, 1, 2, 30, INT_MAX - 1, INT_MAX};
enum { OFFSETS = sizeof offsets / sizeof *offsets };

static void every_offset_of_a_key(void) {
    fill();
    FDBTransaction *tr = transaction_begin(database);
    for (int own = 0; own < 2; own++) { /* with own writes another way is taken */
        for (int i = 0; i < OFFSETS; i++) {
            for (int or_equal = 0; or_equal < 2; or_equal++) {
                FDBFuture *future =
                    fdb_transaction_get_key(tr, KEY("k10"), or_equal, offsets[i], 0);
                const uint8_t *key = NULL;
                int length = -1;
                CHECK_EQUAL(fdb_future_get_key(future, &key, &length), 0);
                int64_t index = 10 + or_equal + (int64_t)offsets[i] - 1;
                char expected[24] = "";
                if (index >= ROWS)
                    strcpy(expected, "\xff");
                else if (index >= 0)
                    snprintf(expected, sizeof expected, "k%02lld", (long long)index);
                CHECK_EQUAL(length, strlen(expected));
                CHECK(memcmp(key, expected, strlen(expected)) == 0);
                fdb_future_destroy(future);
            }
        }
        set_text(tr, "k10", "other");
    }
    fdb_transaction_destroy(tr);
    close_all();
}

static void check_range(FDBTransaction *tr, int begin, int end, int flags) {
    bool begin_equal = flags & 1, end_equal = flags & 2, snapshot = flags & 4, reverse = flags & 8;
    FDBFuture *future = fdb_transaction_get_range(tr, KEY("k05"), begin_equal, begin, KEY("k15"),
                                                  end_equal, end, 0, 0, FDB_STREAMING_MODE_WANT_ALL,
                                                  0, snapshot, reverse);
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t more;
    CHECK_EQUAL(fdb_future_get_keyvalue_array(future, &rows, &count, &more), 0);
    int64_t from = selected(5, begin_equal, begin), to = selected(15, end_equal, end);
    CHECK_EQUAL(count, to > from ? to - from : 0);
    fdb_future_destroy(future);
}

static void every_offset_of_a_range(void) {
    fill();
    FDBTransaction *tr = transaction_begin(database);
    for (int own = 0; own < 2; own++) {
        for (int i = 0; i < OFFSETS; i++)
            for (int j = 0; j < OFFSETS; j++)
                for (int flags = 0; flags < 16; flags++)
                    check_range(tr, offsets[i], offsets[j], flags);
        set_text(tr, "k10", "other");
    }
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_all();
}

static void offsets_among_special_keys(void) {
    static const char *const keys[] = {"\xff\xff", "\xff\xff/status/json", "\xff\xff/transaction/",
                                       "\xff\xff/transaction0", "\xff\xff\xff"};
    fill();
    FDBTransaction *tr = transaction_begin(database);
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        for (int i = 0; i < 25; i++)
            for (int j = 0; j < OFFSETS * OFFSETS; j++) {
                fdb_error_t error = finish(fdb_transaction_get_range(
                    tr, KEY(keys[i / 5]), j & 1, offsets[j / OFFSETS], KEY(keys[i % 5]), j & 1,
                    offsets[j % OFFSETS], 0, 0, FDB_STREAMING_MODE_WANT_ALL, 0, 0, j & 1));
                CHECK(error == 0 || error == 2004 || error == 2112 || error == 2113);
            }
        CHECK_EQUAL(
            fdb_transaction_set_option(tr, FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED, NULL, 0), 0);
    }
    CHECK_EQUAL(finish(fdb_transaction_get_key(tr, KEY("\xff\xff"), 0, INT_MAX, 0)), 2004);
    fdb_transaction_destroy(tr);
    close_all();
}

static void ranges_outside_and_upside_down(void) {
    fill();
    FDBTransaction *tr = transaction_begin(database);
    static const char *const keys[] = {"",       "a",         "z", "\xff",
                                       "\xff/", "\xff\xff", "\xff\xff\xff\xff"};
    for (int i = 0; i < 49; i++) {
        const char *begin = keys[i / 7], *end = keys[i % 7];
        fdb_error_t error =
            finish(fdb_transaction_get_range(tr, KEY(begin), 0, 1, KEY(end), 0, 1, 0, 0,
                                             FDB_STREAMING_MODE_SERIAL, 0, 0, 0));
        CHECK(error == 0 || error == 2004 || error == 2112 || error == 2113);
        error = finish(fdb_transaction_get_estimated_range_size_bytes(tr, KEY(begin), KEY(end)));
        CHECK(error == 0 || error == 2004 || error == 2005);
        error = finish(fdb_transaction_get_range_split_points(tr, KEY(begin), KEY(end), 1));
        CHECK(error == 0 || error == 2004 || error == 2005);
        error = fdb_transaction_add_conflict_range(tr, KEY(begin), KEY(end),
                                                   (FDBConflictRangeType)(i % 2));
        CHECK(error == 0 || error == 2004 || error == 2005);
        fdb_transaction_reset(tr);
        fdb_transaction_clear_range(tr, KEY(begin), KEY(end));
        error = commit(tr);
        CHECK(error == 0 || error == 2004 || error == 2005 || error == 2114);
        fdb_transaction_reset(tr);
    }
    fdb_transaction_destroy(tr);
    close_all();
}

const struct misuse_case range_cases[] = {
    {"ranges: every mode, limit, target and iteration", every_mode_and_limit},
    {"ranges: every offset of a key", every_offset_of_a_key},
    {"ranges: every offset of a range", every_offset_of_a_range},
    {"ranges: offsets among special keys", offsets_among_special_keys},
    {"ranges: outside of what is legal, and upside down", ranges_outside_and_upside_down},
    {NULL, NULL},
};
