/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a whole database: a sound one is found sound, each kind of planted damage is found and named, and random damage neither crashes it nor
 * passes unseen. KEEL_SEED and KEEL_ROUNDS change the random test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base_pages.h"
#include "engine/check.h"
#include "engine/engine.h"
#include "os/clock.h"
#include "os/thread.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/memory.h"

static char scratch[400], original[500], damaged[500];

/* --- A database with something of everything --- */

struct waited {
    struct commit_request request;
    _Atomic bool done;
    fdb_error_t error;
};

static void commit_done(struct commit_request *request, fdb_error_t error) {
    struct waited *commit = (struct waited *)request;
    commit->error = error;
    atomic_store(&commit->done, true);
}

static void commit(struct database *database, const struct mutation *mutations, size_t count) {
    struct waited commit = {.request = {.mutations = mutations, .mutation_count = count, .complete = commit_done, .size_bytes = 1000}};
    database_commit(database, &commit.request);
    while (!atomic_load(&commit.done))
        if (!database_drive(database, atomic_load(&commit.request.ticket)))
            os_sleep_us(10);
    assert_int_equal(commit.error, 0);
}

static void set(struct database *database, struct bytes key, struct bytes value) {
    struct mutation mutation = {MUTATION_SET, key, value};
    commit(database, &mutation, 1);
}

static struct bytes text(const char *string) { return bytes_make(string, strlen(string)); }

static struct database *open_with(const char *path, bool durable) {
    struct engine_options options;
    struct database *database;
    char *message = NULL;
    assert_int_equal(engine_default_options(&options, &message), 0);
    options.durable = durable;
    options.segment_bytes = 64 << 10;
    fdb_error_t error = engine_open(path, &options, &database, &message);
    if (error)
        print_error("%s: %d %s\n", path, error, message ? message : "");
    assert_int_equal(error, 0);
    return database;
}

static struct database *open_at(const char *path) { return open_with(path, false); }

static void run(const char *format, ...) {
    char command[3000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

/* Rows of every shape in the base, pages that are free again, and a log whose last records are not in the base. */
static void fill(struct database *database) {
    static char key[3000], value[40000];
    struct mutation mutations[200];
    static char keys[200][16], values[200][120];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 200; i++) {
            snprintf(keys[i], sizeof keys[i], "row/%05d", round * 200 + i);
            memset(values[i], 'a' + i % 26, sizeof values[i]);
            snprintf(values[i], sizeof values[i], "value of %05d:", round * 200 + i);
            values[i][15] = 'x';
            mutations[i] = (struct mutation){MUTATION_SET, text(keys[i]), bytes_make(values[i], (size_t)(30 + i % 90))};
        }
        commit(database, mutations, 200);
    }
    memset(key, 'L', sizeof key);
    memset(value, 'W', sizeof value);
    memcpy(value, "LARGE VALUE", 11);
    for (int i = 0; i < 12; i++) {
        key[520] = (char)('a' + i);
        set(database, bytes_make(key, 521 + (size_t)i * 100), bytes_make(value, (size_t)(100 + i * 2000)));
        snprintf(key + 2900, 20, "large/%d", i);
        set(database, text(key + 2900), bytes_make(value, (size_t)(2500 + i * 3000)));
        memset(key + 2900, 'L', 100);
    }
    set(database, bytes_make(key, 510), text("as long as a chunk"));
}

static int make_original(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-check-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(scratch))
        return -1;
    char live[500];
    snprintf(live, sizeof live, "%s/live", scratch);
    snprintf(original, sizeof original, "%s/original", scratch);
    snprintf(damaged, sizeof damaged, "%s/damaged", scratch);
    struct database *database = open_at(live);
    fill(database);
    database_close(database);
    database = open_at(live); /* once more, so that pages become free */
    fill(database);
    struct mutation clear = {MUTATION_CLEAR_RANGE, text("row/00100"), text("row/00400")};
    commit(database, &clear, 1);
    database_close(database);
    database = open_with(live, true); /* synced: what is lost of it is known to be lost */
    static char value[3000];
    memset(value, 'n', sizeof value);
    for (int i = 0; i < 60; i++) { /* more than a segment */
        char key[20];
        snprintf(key, sizeof key, "late/%03d", i);
        set(database, text(key), bytes_make(value, sizeof value));
    }
    run("cp -r '%s' '%s'", live, original); /* as a crash leaves it */
    database_close(database);
    return 0;
}

static int remove_scratch(void **state) {
    (void)state;
    run("rm -rf '%s'", scratch);
    return 0;
}

static void copy_original(void) { run("rm -rf '%s' && cp -r '%s' '%s'", damaged, original, damaged); }

/* --- Findings --- */

struct findings {
    int count;
    struct {
        enum check_severity severity;
        char kind[40], file[100], key[600], what[400];
        size_t key_length;
        bool has_offset, has_key;
        uint64_t offset;
    } list[200];
    uint64_t last_done, last_total;
    int progress_calls;
    bool stop;
};

static void note_finding(void *context, const struct check_finding *finding) {
    struct findings *findings = context;
    assert_true(strlen(finding->kind) > 3 && strlen(finding->what) > 10 && strlen(finding->consequence) > 10);
    if (findings->count == 200)
        return;
    int i = findings->count++;
    findings->list[i].severity = finding->severity;
    snprintf(findings->list[i].kind, 40, "%s", finding->kind);
    snprintf(findings->list[i].file, 100, "%s", finding->file);
    snprintf(findings->list[i].what, 400, "%s", finding->what);
    findings->list[i].has_offset = finding->has_offset;
    findings->list[i].offset = finding->offset;
    findings->list[i].has_key = finding->has_key;
    findings->list[i].key_length = finding->key.length < 600 ? finding->key.length : 600;
    if (finding->has_key && finding->key.length)
        memcpy(findings->list[i].key, finding->key.data, findings->list[i].key_length);
}

static bool note_progress(void *context, uint64_t done, uint64_t total) {
    struct findings *findings = context;
    assert_true(done >= findings->last_done && done <= total);
    findings->last_done = done;
    findings->last_total = total;
    findings->progress_calls++;
    return !findings->stop;
}

static struct findings findings;
static struct check_summary summary;

static fdb_error_t check_path_of(const char *path) {
    findings = (struct findings){.stop = findings.stop};
    struct check_callbacks callbacks = {note_finding, note_progress, &findings};
    char *message = NULL;
    fdb_error_t error = engine_check(path, &callbacks, &summary, &message);
    if (error)
        assert_true(message || error == ERROR_OPERATION_CANCELLED);
    else
        assert_null(message);
    memory_free(message);
    return error;
}

static void print_findings(void) {
    for (int i = 0; i < findings.count; i++)
        print_message("%s %s %s %llu: %s\n", findings.list[i].severity == CHECK_DAMAGE ? "damage" : "note", findings.list[i].kind,
                      findings.list[i].file, (unsigned long long)findings.list[i].offset, findings.list[i].what);
}

/* The damaged copy has this finding, in a file whose name begins so; returns its index. */
static int expect(enum check_severity severity, const char *kind, const char *file) {
    assert_int_equal(check_path_of(damaged), 0);
    for (int i = 0; i < findings.count; i++)
        if (findings.list[i].severity == severity && strcmp(findings.list[i].kind, kind) == 0 &&
            strncmp(findings.list[i].file, file, strlen(file)) == 0)
            return i;
    print_findings();
    fail_msg("no %s in %s", kind, file);
    return -1;
}

static int expect_damage(const char *kind, const char *file) { return expect(CHECK_DAMAGE, kind, file); }

/* --- Damaging --- */

struct contents {
    uint8_t *data;
    size_t length;
    char path[1000];
};

static struct contents load(const char *name) {
    struct contents contents;
    snprintf(contents.path, sizeof contents.path, "%s/%s", damaged, name);
    FILE *file = fopen(contents.path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    contents.length = (size_t)ftell(file);
    rewind(file);
    contents.data = malloc(contents.length + 1);
    assert_int_equal(fread(contents.data, 1, contents.length, file), contents.length);
    fclose(file);
    return contents;
}

static void store(struct contents contents) {
    FILE *file = fopen(contents.path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(contents.data, 1, contents.length, file), contents.length);
    fclose(file);
    free(contents.data);
}

static uint32_t page_bytes(const struct contents *base) { return coding_get_u32(base->data + 16 + 24); }

/* The newer of the two meta pages. */
static uint8_t *newer_meta(struct contents *base) {
    uint8_t *first = base->data + 16, *second = base->data + page_bytes(base) + 16;
    return coding_get_u64(second + 128) > coding_get_u64(first + 128) ? second : first;
}

static uint8_t *page_at(struct contents *base, uint64_t number) { return base->data + number * page_bytes(base); }

/* The root of the main tree, which is a branch; and the page that its nth child is. */
static uint8_t *root_page(struct contents *base) {
    uint8_t *root = page_at(base, coding_get_u64(newer_meta(base) + 72 + 40));
    assert_int_equal(coding_get_u16(root + PAGE_FLAGS), PAGE_BRANCH);
    return root;
}

static uint8_t *root_node(struct contents *base, int index) {
    uint8_t *root = root_page(base);
    return root + coding_get_u16(root + PAGE_HEADER_BYTES + 2 * index);
}

static uint8_t *child_page(struct contents *base, int index) {
    uint8_t *node = root_node(base, index);
    uint64_t number = coding_get_u16(node) | (uint64_t)coding_get_u16(node + 2) << 16;
    uint8_t *page = page_at(base, number);
    assert_int_equal(coding_get_u16(page + PAGE_FLAGS), PAGE_LEAF);
    return page;
}

/* Where a page of a tree or value holds these bytes: the place in a page that is in use is the one the check complains about, so all are changed. */
static int flip_all(const char *name, const char *bytes, size_t at) {
    struct contents contents = load(name);
    size_t length = strlen(bytes);
    int changed = 0;
    for (size_t i = 0; i + length <= contents.length; i++) {
        if (memcmp(contents.data + i, bytes, length) == 0) {
            contents.data[i + at] ^= 0x20;
            changed++;
        }
    }
    assert_true(changed);
    store(contents);
    return changed;
}

static char segment_names[20][60];
static int segment_count;

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

/* log/log-….keel of the damaged copy, in order. */
static void list_segments(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/log", damaged);
    DIR *directory = opendir(path);
    struct dirent *entry;
    segment_count = 0;
    while ((entry = readdir(directory)))
        if (strncmp(entry->d_name, "log-", 4) == 0 && segment_count < 20)
            snprintf(segment_names[segment_count++], 60, "log/%.50s", entry->d_name);
    closedir(directory);
    qsort(segment_names, (size_t)segment_count, sizeof segment_names[0], compare_names);
    assert_true(segment_count >= 2);
}

/* Changes entries behind Keel's back, with checksums that fit. */
static void change_entry(const void *key, size_t key_length, const void *body, size_t body_length) {
    char path[600];
    MDB_env *environment;
    MDB_txn *transaction;
    MDB_dbi tree;
    snprintf(path, sizeof path, "%s/base.keel", damaged);
    assert_int_equal(mdb_env_create(&environment), 0);
    assert_int_equal(mdb_env_set_mapsize(environment, 1 << 26), 0);
    assert_int_equal(mdb_env_open(environment, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600), 0);
    assert_int_equal(mdb_txn_begin(environment, NULL, 0, &transaction), 0);
    assert_int_equal(mdb_dbi_open(transaction, NULL, 0, &tree), 0);
    MDB_val lmdb_key = {key_length, (void *)(uintptr_t)key};
    if (body) {
        uint8_t *value = malloc(body_length + 4);
        memcpy(value, body, body_length);
        coding_put_u32(value + body_length, checksum_row(bytes_make(key, key_length), bytes_make(body, body_length)));
        MDB_val data = {body_length + 4, value};
        assert_int_equal(mdb_put(transaction, tree, &lmdb_key, &data, 0), 0);
        free(value);
    } else {
        assert_int_equal(mdb_del(transaction, tree, &lmdb_key, NULL), 0);
    }
    assert_int_equal(mdb_txn_commit(transaction), 0);
    mdb_env_close(environment);
}

/* --- A sound database --- */

static void assert_sound(const char *path) {
    assert_int_equal(check_path_of(path), 0);
    if (summary.damages) {
        print_findings();
        fail_msg("%llu damages in a sound database", (unsigned long long)summary.damages);
    }
}

static uint64_t digest_of(const char *path, int *rows_found) {
    struct database *database = open_at(path);
    struct rows rows = {0};
    bool more;
    int64_t version;
    uint64_t sum = 0;
    assert_int_equal(database_get_read_version(database, &version), 0);
    struct range_request request = {version, text(""), text("\xff"), 1000000, SIZE_MAX, 0, false};
    fdb_error_t error = database_get_range(database, &request, &rows, &more);
    for (int i = 0; i < rows.count; i++)
        sum = sum * 31 + checksum(rows_value(&rows, i), checksum(rows_key(&rows, i), 1));
    *rows_found = error ? -error : rows.count;
    rows_free(&rows);
    database_close(database);
    return sum;
}

static void test_sound(void **state) {
    (void)state;
    assert_sound(original);
    assert_int_equal(findings.count, 0);
    assert_true(summary.rows >= 700 && summary.rows < 900);
    assert_true(summary.log_records >= 60 && summary.log_segments >= 2);
    assert_true(summary.base_pages_used > 40 && summary.base_pages_free > 2);
    assert_true(summary.base_version_known && summary.log_version > summary.base_version);
    assert_true(findings.progress_calls > 0 && findings.last_done == findings.last_total);
    copy_original();
    int rows;
    digest_of(damaged, &rows); /* opened, checkpointed, closed */
    assert_sound(damaged);
    assert_true(summary.rows == (uint64_t)rows && summary.base_version == summary.log_version);
}

static void test_fresh(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/fresh", scratch);
    database_close(open_at(path));
    assert_sound(path);
    assert_int_equal(findings.count, 0);
    assert_int_equal(summary.rows, 0);
}

static void test_refused(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/nowhere", scratch);
    assert_int_equal(check_path_of(path), ERROR_FILE_NOT_FOUND);
    run("mkdir '%s' && echo hello > '%s/letter'", path, path);
    assert_int_equal(check_path_of(path), ERROR_FORMAT_FOREIGN);
    snprintf(path, sizeof path, "%s/nowhere/letter", scratch);
    assert_int_equal(check_path_of(path), ERROR_FORMAT_FOREIGN);
    copy_original();
    struct database *database = open_at(damaged);
    struct check_callbacks callbacks = {note_finding, NULL, &findings};
    char *message = NULL, process[30];
    assert_int_equal(engine_check(damaged, &callbacks, &summary, &message), ERROR_DATABASE_IN_USE);
    snprintf(process, sizeof process, "process %ld", (long)getpid());
    assert_non_null(message);
    assert_non_null(strstr(message, process));
    memory_free(message);
    database_close(database);
}

static void test_cancelled(void **state) {
    (void)state;
    findings.stop = true;
    assert_int_equal(check_path_of(original), ERROR_OPERATION_CANCELLED);
    findings.stop = false;
}

/* Nothing is changed, and a database that cannot be written to can be checked. */
static void test_reads_only(void **state) {
    (void)state;
    copy_original();
    run("cd '%s' && find . -type f | sort | xargs cksum > ../before && chmod -R a-w .", damaged);
    assert_sound(damaged);
    run("cd '%s' && chmod -R u+w . && find . -type f | sort | xargs cksum | cmp - ../before", damaged);
}

/* --- Planted damages --- */

static void test_row(void **state) {
    (void)state;
    copy_original();
    flip_all("base.keel", "value of 00042:", 3);
    int i = expect_damage("row-checksum", "base.keel");
    assert_int_equal(findings.list[i].key_length, 9);
    assert_memory_equal(findings.list[i].key, "row/00042", 9);
    assert_true(findings.list[i].has_offset);
    assert_int_equal(summary.damages, 1);
}

static void test_many_rows(void **state) {
    (void)state;
    copy_original();
    flip_all("base.keel", "value of 00042:", 3);
    flip_all("base.keel", "value of 00900:", 14);
    flip_all("base.keel", "as long as a chunk", 0);
    expect_damage("row-checksum", "base.keel");
    assert_int_equal(summary.damages, 3); /* none hides another */
}

static void test_large_values(void **state) {
    (void)state;
    copy_original();
    flip_all("base.keel", "LARGE VALUE", 2);
    int i = expect_damage("row-checksum", "base.keel");
    assert_true(findings.list[i].has_key);
    assert_int_equal(summary.damages, 24); /* short keys and long ones, in the page and on pages of their own */
}

static void test_key(void **state) {
    (void)state;
    copy_original();
    flip_all("base.keel", "row/00777", 8); /* a key in the middle of a page or a separator */
    assert_int_equal(check_path_of(damaged), 0);
    assert_true(summary.damages > 0);
}

static void test_key_order(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    uint8_t *leaf = child_page(&base, 1), swap[2];
    memcpy(swap, leaf + PAGE_HEADER_BYTES, 2);
    memcpy(leaf + PAGE_HEADER_BYTES, leaf + PAGE_HEADER_BYTES + 4, 2);
    memcpy(leaf + PAGE_HEADER_BYTES + 4, swap, 2);
    store(base);
    assert_true(findings.list[expect_damage("key-order", "base.keel")].has_key);
}

/* Two children of a branch change places: every page is sound, and searches go astray. */
static void test_key_place(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    uint8_t *first = root_node(&base, 1), *second = root_node(&base, 2), swap[6];
    memcpy(swap, first, 6);
    memcpy(first, second, 6);
    memcpy(second, swap, 6);
    store(base);
    expect_damage("key-order", "base.keel");
}

static void test_page_number(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    coding_put_u16(root_node(&base, 1) + 2, 0x7fff);
    store(base);
    expect_damage("page-number", "base.keel");
}

static void test_page_twice(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    uint64_t root = coding_get_u64(newer_meta(&base) + 72 + 40);
    coding_put_u16(root_node(&base, 1), (uint16_t)root); /* a cycle */
    coding_put_u16(root_node(&base, 1) + 2, 0);
    memcpy(root_node(&base, 2), root_node(&base, 0), 4);
    store(base);
    expect_damage("page-twice", "base.keel");
    assert_true(summary.damages >= 2);
}

static void test_page_header(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        copy_original();
        struct contents base = load("base.keel");
        uint8_t *leaf = child_page(&base, 1);
        uint64_t number = (uint64_t)(leaf - base.data) / page_bytes(&base);
        if (kind == 0)
            leaf[0] ^= 1;
        else if (kind == 1)
            coding_put_u16(leaf + PAGE_FLAGS, PAGE_LEAF | 0x40);
        else
            memset(leaf, 0, page_bytes(&base));
        uint64_t offset = number * page_bytes(&base);
        store(base);
        int i = expect_damage("page-header", "base.keel");
        assert_true(findings.list[i].has_offset && findings.list[i].offset == offset);
    }
}

static void test_page_layout(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        copy_original();
        struct contents base = load("base.keel");
        uint8_t *leaf = child_page(&base, 1), *node = leaf + coding_get_u16(leaf + PAGE_HEADER_BYTES + 2);
        if (kind == 0)
            coding_put_u16(leaf + PAGE_LOWER, 0xfff0);
        else if (kind == 1)
            coding_put_u16(leaf + PAGE_UPPER, 20);
        else if (kind == 2)
            coding_put_u16(leaf + PAGE_HEADER_BYTES + 2, 0xfffe);
        else if (kind == 3)
            coding_put_u16(node + NODE_KEY_SIZE, 5000);
        else
            coding_put_u16(node + NODE_LOW, 60000);
        store(base);
        expect_damage("page-layout", "base.keel");
    }
}

static void test_meta(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        copy_original();
        struct contents base = load("base.keel");
        uint8_t *meta = newer_meta(&base);
        if (kind == 0)
            meta[0] ^= 1; /* magic */
        else if (kind == 1)
            coding_put_u64(meta + 128, coding_get_u64(meta + 128) - 4); /* transaction: the other page would be chosen */
        else if (kind == 2)
            coding_put_u64(meta + 120, UINT64_MAX / 2); /* last page */
        else if (kind == 3)
            coding_put_u32(base.data + 16 + 24, 5000); /* page size */
        else
            base.length = 100;
        store(base);
        expect_damage("base-meta", "base.keel");
    }
}

static void test_counts(void **state) {
    (void)state;
    for (int field = 8; field <= 32; field += 8) {
        copy_original();
        struct contents base = load("base.keel");
        uint8_t *tree = newer_meta(&base) + 72;
        coding_put_u64(tree + field, coding_get_u64(tree + field) + 1);
        store(base);
        expect_damage("tree-count", "base.keel");
        assert_int_equal(summary.damages, 1);
    }
}

static void test_cut_base(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    base.length = base.length / 2;
    store(base);
    expect_damage("page-number", "base.keel");
}

/* A page of the tree on the list of free pages: the next checkpoint would write over it. */
static void test_free_list(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        copy_original();
        struct contents base = load("base.keel");
        uint8_t *leaf = page_at(&base, coding_get_u64(newer_meta(&base) + 24 + 40));
        assert_int_equal(coding_get_u16(leaf + PAGE_FLAGS), PAGE_LEAF);
        uint8_t *node = leaf + coding_get_u16(leaf + PAGE_HEADER_BYTES);
        uint8_t *list = node + NODE_HEADER_BYTES + 8;
        uint64_t count = coding_get_u64(list);
        assert_true(count >= 1 && !coding_get_u16(node + NODE_FLAGS));
        if (kind == 0) {
            coding_put_u64(list, 1);
            coding_put_u64(list + 8, coding_get_u64(newer_meta(&base) + 72 + 40));
        } else {
            coding_put_u64(list, count + 100000);
        }
        store(base);
        expect_damage(kind == 0 ? "page-free" : "free-list", "base.keel");
    }
}

static void test_record(void **state) {
    (void)state;
    copy_original();
    struct contents base = load("base.keel");
    for (size_t i = 0; i + 32 < base.length; i++)
        if (memcmp(base.data + i, "KeelBase", 8) == 0)
            base.data[i + 17] ^= 1; /* the version */
    store(base);
    expect_damage("base-record", "base.keel");
    assert_false(summary.base_version_known);
}

/* The full key of 511 bytes under which the root has the long keys' sub-tree. */
static void long_entry(uint8_t key[511]) {
    key[0] = 1;
    memset(key + 1, 'L', 510);
}

static void test_subtrees(void **state) {
    (void)state;
    uint8_t key[511], body[9] = {3};
    long_entry(key);
    copy_original();
    change_entry(key, 511, NULL, 0);
    expect_damage("subtree-unreachable", "base.keel");
    copy_original();
    key[500] = 'M';
    body[0] = 2;
    coding_put_u64(body + 1, 1); /* sub-tree 1 once more */
    change_entry(key, 511, body, 9);
    expect_damage("subtree-twice", "base.keel");
    copy_original();
    coding_put_u64(body + 1, 999); /* one that never was */
    change_entry(key, 511, body, 9);
    expect_damage("row-entry", "base.keel");
    copy_original();
    body[0] = 9; /* flags */
    change_entry(key, 511, body, 9);
    expect_damage("row-entry", "base.keel");
    copy_original();
    uint8_t stray[20] = {5};
    change_entry(stray, 5, body, 9); /* neither root nor sub-tree */
    expect_damage("row-entry", "base.keel");
}

/* What nothing leads to, in a circle. */
static void test_subtree_circle(void **state) {
    (void)state;
    uint8_t key[511] = {2}, body[9] = {2};
    copy_original();
    memset(key + 9, 'c', 502);
    coding_put_u64_big(key + 1, 2);
    coding_put_u64(body + 1, 2);
    change_entry(key, 511, body, 9);
    assert_int_equal(check_path_of(damaged), 0);
    assert_true(summary.damages > 0);
}

static void test_missing_files(void **state) {
    (void)state;
    copy_original();
    run("rm '%s/base.keel'", damaged);
    expect_damage("base-missing", "base.keel");
    copy_original();
    run("rm -r '%s/log'", damaged);
    expect_damage("log-missing", "log");
    copy_original();
    run("rm '%s/clock.keel'", damaged);
    expect_damage("lease-missing", "clock.keel");
    copy_original();
    run("rm '%s'/log/*", damaged);
    expect_damage("log-missing", "log");
    copy_original();
    run("rm '%s/lock.keel'", damaged);
    expect(CHECK_NOTE, "lock-missing", "lock.keel");
    assert_int_equal(summary.damages, 0);
}

static void test_other_files(void **state) {
    (void)state;
    copy_original();
    run("cd '%s' && touch notes.txt base.keel.new log/new-00000000000000ff.keel log/readme", damaged);
    expect(CHECK_NOTE, "directory-file", "notes.txt");
    expect(CHECK_NOTE, "directory-leftover", "base.keel.new");
    expect(CHECK_NOTE, "directory-leftover", "log/new-");
    expect(CHECK_NOTE, "log-file", "log/readme");
    assert_int_equal(summary.damages, 0);
    assert_int_equal(summary.notes, 4);
}

static void test_log_header(void **state) {
    (void)state;
    copy_original();
    list_segments();
    struct contents segment = load(segment_names[0]);
    segment.data[25] ^= 1;
    store(segment);
    expect_damage("log-header", segment_names[0]);
    copy_original();
    segment = load(segment_names[1]);
    segment.length -= 4096;
    store(segment);
    expect_damage("log-header", segment_names[1]);
    copy_original();
    run("cd '%s' && mv '%s' log/x && mv '%s' '%s' && mv log/x '%s'", damaged, segment_names[0], segment_names[1], segment_names[0], segment_names[1]);
    expect_damage("log-header", segment_names[0]);
}

/* Where the last commit lies; a segment that was made for later ones may follow. */
static int find_last_record(size_t *at) {
    for (int number = segment_count - 1; number >= 0; number--) {
        struct contents segment = load(segment_names[number]);
        *at = 0;
        for (size_t i = 64; i + 200 < segment.length; i++)
            if (memcmp(segment.data + i, "late/059", 8) == 0)
                *at = i;
        store(segment);
        if (*at)
            return number;
    }
    fail();
    return -1;
}

static void test_log_records(void **state) {
    (void)state;
    copy_original();
    list_segments();
    size_t last;
    int number = find_last_record(&last) - 1;
    assert_true(number >= 0);
    struct contents segment = load(segment_names[number]);
    segment.data[9000] ^= 4;
    segment.data[20000] ^= 4;
    store(segment);
    int i = expect_damage("log-record", segment_names[number]);
    assert_true(findings.list[i].has_offset && findings.list[i].offset > 64 && findings.list[i].offset <= 9000);
    assert_true(summary.damages >= 2); /* the second is found behind the first */
    assert_true(summary.log_records > 30);
}

static void test_log_first_record(void **state) {
    (void)state;
    copy_original();
    list_segments();
    struct contents segment = load(segment_names[0]);
    segment.data[64 + 20] ^= 4;
    store(segment);
    assert_int_equal(check_path_of(damaged), 0);
    assert_true(summary.damages > 0);
}

static void test_log_segment_missing(void **state) {
    (void)state;
    copy_original();
    list_segments();
    run("rm '%s/%s'", damaged, segment_names[0]);
    assert_int_equal(check_path_of(damaged), 0);
    expect_damage("log-gap", "log/log-");
}

/* The very last record is torn, as a crash leaves it: not damage. */
static void test_log_tail(void **state) {
    (void)state;
    copy_original();
    list_segments();
    size_t last;
    int number = find_last_record(&last);
    struct contents segment = load(segment_names[number]);
    memset(segment.data + last + 1000, 0, 100);
    store(segment);
    expect(CHECK_NOTE, "log-tail", segment_names[number]);
    assert_int_equal(summary.damages, 0);
}

static void change_lease(int slot, size_t at, uint64_t number, bool seal) {
    struct contents lease = load("clock.keel");
    uint8_t *bytes = lease.data + slot * 4096;
    coding_put_u64(bytes + at, number);
    if (seal)
        coding_put_u64(bytes + 48, checksum(bytes_make(bytes, 48), 0));
    store(lease);
}

static void test_lease(void **state) {
    (void)state;
    copy_original();
    change_lease(0, 24, 5, false);
    expect(CHECK_NOTE, "lease-slot", "clock.keel");
    assert_int_equal(summary.damages, 0);
    change_lease(1, 24, 5, false);
    expect_damage("lease-damaged", "clock.keel");
    copy_original();
    change_lease(0, 24, 5, true);
    change_lease(1, 24, 5, true);
    expect_damage("lease-behind", "clock.keel");
}

/* --- Random damage --- */

static uint64_t random_state;

static size_t random_below(size_t limit) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((random_state >> 33) % limit);
}

static void damage_randomly(void) {
    list_segments();
    const char *name = "base.keel";
    size_t kind = random_below(10);
    if (kind == 0)
        name = "clock.keel";
    else if (kind <= 3)
        name = segment_names[random_below((size_t)segment_count)];
    struct contents contents = load(name);
    /* In a page, the header and the first offsets are where most can happen. */
    size_t at = random_below(contents.length);
    if (random_below(3) == 0)
        at = at / 4096 * 4096 + random_below(64);
    switch (random_below(6)) {
    case 0:
        contents.data[at] ^= (uint8_t)(1 << random_below(8));
        break;
    case 1:
        contents.data[at] = (uint8_t)random_below(256);
        break;
    case 2:
        for (size_t i = at; i < contents.length && i < at + 64; i++)
            contents.data[i] = (uint8_t)random_below(256);
        break;
    case 3: /* a sector that never reached the disk */
        memset(contents.data + at / 512 * 512, 0, contents.length - at / 512 * 512 < 512 ? contents.length - at / 512 * 512 : 512);
        break;
    case 4: { /* one that reached the wrong place */
        size_t from = random_below(contents.length) / 4096 * 4096, to = at / 4096 * 4096;
        size_t length = contents.length - (from > to ? from : to);
        memmove(contents.data + to, contents.data + from, length < 4096 ? length : 4096);
        break;
    }
    default:
        if (random_below(4) == 0)
            contents.length = at;
        else
            for (int i = 0; i < 3; i++)
                contents.data[random_below(contents.length)] ^= (uint8_t)(1 << random_below(8));
    }
    store(contents);
}

/* Where the check finds nothing, the database opens and holds what it held. Where it finds something, it has not crashed. */
static void test_random_damage(void **state) {
    (void)state;
    const char *seed = getenv("KEEL_SEED"), *rounds = getenv("KEEL_ROUNDS");
    random_state = seed ? strtoull(seed, NULL, 10) : 1;
    int limit = rounds ? atoi(rounds) : 300, unseen = 0;
    print_message("seed %llu, %d rounds (KEEL_SEED, KEEL_ROUNDS)\n", (unsigned long long)random_state, limit);
    int expected_rows, rows;
    copy_original();
    uint64_t expected = digest_of(damaged, &expected_rows);
    assert_int_equal(check_path_of(original), 0);
    uint64_t records = summary.log_records;
    alarm(500);
    for (int round = 0; round < limit; round++) {
        copy_original();
        damage_randomly();
        fdb_error_t error = check_path_of(damaged);
        assert_true(error == 0 || error == ERROR_FORMAT_NEWER || error == ERROR_FORMAT_OLDER || error == ERROR_FORMAT_FOREIGN);
        if (error || summary.damages)
            continue;
        unseen++;
        /* Nobody can tell a damaged last record from one that was never finished; one block can hold the ends of two. */
        uint64_t torn = records - summary.log_records;
        uint64_t digest = digest_of(damaged, &rows);
        if (digest != expected && (torn > 2 || rows != expected_rows - (int)torn)) {
            print_findings();
            fail_msg("round %d: found sound, but %d rows instead of %d", round, rows, expected_rows);
        }
    }
    alarm(0);
    print_message("%d damages hit nothing that counts\n", unseen);
    assert_true(limit < 50 || (unseen > 0 && unseen < limit * 3 / 4));
}

/* No memory: an error, no crash. */
static void test_out_of_memory(void **state) {
    (void)state;
    struct check_callbacks callbacks = {note_finding, NULL, &findings};
    for (long countdown = 0;; countdown++) {
        findings = (struct findings){0};
        char *message = NULL;
        memory_fail_after(countdown);
        fdb_error_t error = engine_check(original, &callbacks, &summary, &message);
        memory_fail_after(-1);
        memory_free(message);
        assert_int_equal(findings.count, 0);
        if (!error)
            break;
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),          cmocka_unit_test(test_fresh),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cancelled),      cmocka_unit_test(test_reads_only),    cmocka_unit_test(test_row),
        cmocka_unit_test(test_many_rows),      cmocka_unit_test(test_large_values),  cmocka_unit_test(test_key),
        cmocka_unit_test(test_key_order),      cmocka_unit_test(test_key_place),     cmocka_unit_test(test_page_number),
        cmocka_unit_test(test_page_twice),     cmocka_unit_test(test_page_header),   cmocka_unit_test(test_page_layout),
        cmocka_unit_test(test_meta),           cmocka_unit_test(test_counts),        cmocka_unit_test(test_cut_base),
        cmocka_unit_test(test_free_list),      cmocka_unit_test(test_record),        cmocka_unit_test(test_subtrees),
        cmocka_unit_test(test_subtree_circle), cmocka_unit_test(test_missing_files), cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_log_header),     cmocka_unit_test(test_log_records),   cmocka_unit_test(test_log_first_record),
        cmocka_unit_test(test_log_segment_missing), cmocka_unit_test(test_log_tail), cmocka_unit_test(test_lease),
        cmocka_unit_test(test_random_damage),  cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_original, remove_scratch);
}
