/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One half of the interoperation test; the other is tests/clients/python/layers_interop.py, which
 * does the same with the official binding's layers. Both know one set of tuples, versionstamps,
 * subspaces and directories:
 *
 *     interop write DATABASE     writes the set
 *     interop check DATABASE     compares what is there with the set, whoever wrote it, and creates
 *                                further directories in the trees, or checks those if it did before
 *
 * so `write` by one and `check` by the other proves that bytes agree, and another `check` by the
 * first that the other's allocator and nodes fit in. One line a check, then `finished`.
 *
 * The set is partly a list, partly drawn from a generator that is the same in both programs: a
 * change here is a change there. Its keys: ("interop", "value", i) holds tuple i packed,
 * ("interop", "key", ...tuple i) the number i.
 */
#include <keel/keel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 2000, RANDOM_CASES = 500, PACKED_BYTES_MAX = 9000, KEY_BYTES_MAX = 10000 };
enum { MANY = 70, MORE = 10, STAMPS = 3 };

static const char side[] = "c";
static int failures;

static void check(int holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    failures += !holds;
}

static void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

static void *take(size_t bytes) { /* never given back: the process is short */
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        abort();
    return memory;
}

static keel_bytes copy(keel_bytes bytes) {
    uint8_t *data = take(bytes.length);
    if (bytes.length)
        memcpy(data, bytes.data, bytes.length);
    return KEEL_BYTES(data, bytes.length);
}

static keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

static int same(keel_bytes a, keel_bytes b) {
    return keel_bytes_compare(a, b) == 0;
}

/* ---- The tuples ---- */

static keel_bytes cases[CASES_MAX]; /* packed */
static int cases_count;
static int cases_damaged; /* of which unpacking gave other elements */

static keel_bytes pack(keel_tuple tuple) {
    static uint8_t buffer[PACKED_BYTES_MAX];
    size_t length;
    must(keel_tuple_pack(tuple, buffer, sizeof buffer, &length), "pack");
    return copy(KEEL_BYTES(buffer, length));
}

static keel_tuple unpack(keel_bytes packed) {
    keel_element *elements = take(64 * sizeof *elements);
    size_t count;
    must(keel_tuple_unpack(packed, elements, 64, &count, NULL), "unpack");
    return keel_tuple_of(elements, count);
}

static void add(keel_tuple tuple) {
    keel_bytes packed = pack(tuple);
    keel_tuple back = unpack(packed);
    if (keel_tuple_compare(tuple, back) != 0 || !same(pack(back), packed))
        cases_damaged++;
    if (cases_count == CASES_MAX)
        abort();
    cases[cases_count++] = packed;
}

static void add_integer(__int128 value) {
    uint8_t magnitude[16];
    unsigned __int128 rest = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    for (int i = 15; i >= 0; i--, rest >>= 8)
        magnitude[i] = (uint8_t)rest;
    add(KEEL_TUPLE(KEEL_BIG(magnitude, sizeof magnitude, value < 0)));
}

/* Without 2^64-1, which the bindings pack in two ways: see check_widest. */
static void add_integers(void) {
    for (int bytes = 0; bytes <= 9; bytes++)
        for (int delta = -1; delta <= 1; delta++) {
            __int128 value = ((__int128)1 << (8 * bytes)) + delta;
            if (value == UINT64_MAX)
                continue;
            add_integer(value);
            add_integer(-value);
        }
    for (int bits = 31; bits <= 63; bits += 32) {
        add_integer(((__int128)1 << bits) - 1);
        add_integer(-((__int128)1 << bits));
    }
    add(KEEL_TUPLE(INT64_MIN, INT64_MAX, UINT64_MAX - 1, (char)7, (unsigned short)65535));
    uint8_t largest[KEEL_INTEGER_LENGTH_MAX];
    memset(largest, 0xff, sizeof largest);
    add(KEEL_TUPLE(KEEL_BIG(largest, sizeof largest, 0)));
    add(KEEL_TUPLE(KEEL_BIG(largest, sizeof largest, 1)));
}

static void add_numbers(void) {
    const float floats[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 3.14f, 0x1p-149f,
                            -0x1p-149f, 0x1.fffffep127f};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        add(KEEL_TUPLE(floats[i]));
    const double doubles[] = {0.0, -0.0, 1.5, -1.5, (double)INFINITY, -(double)INFINITY,
                              (double)NAN,
                              3.14, 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp1023};
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        add(KEEL_TUPLE(doubles[i]));
}

static void add_listed(void) {
    uint8_t counting[16];
    for (int i = 0; i < 16; i++)
        counting[i] = (uint8_t)i;
    const uint8_t stamp[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 1};
    add(KEEL_TUPLE());
    add(KEEL_TUPLE(KEEL_NIL));
    add(KEEL_TUPLE(KEEL_NIL, KEEL_NIL));
    add(KEEL_TUPLE(KEEL_BYTES("", 0)));
    add(KEEL_TUPLE(KEEL_BYTES("\x00", 1)));
    add(KEEL_TUPLE(KEEL_BYTES("\x00\xff\x00", 3)));
    add(KEEL_TUPLE(""));
    add(KEEL_TUPLE(KEEL_TEXT("F\xc3\x94O\0bar", 8)));
    add(KEEL_TUPLE("\xf0\x9f\x98\x80\xef\xbf\xbf\xe7\xbf\xbf"));
    add(KEEL_TUPLE(KEEL_TUPLE()));
    add(KEEL_TUPLE(KEEL_TUPLE(KEEL_NIL)));
    add(KEEL_TUPLE(KEEL_TUPLE("a", KEEL_NIL, KEEL_BYTES("\x00", 1)), KEEL_NIL,
                   KEEL_TUPLE(KEEL_TUPLE())));
    add(KEEL_TUPLE(KEEL_TUPLE(KEEL_TUPLE(KEEL_TUPLE(KEEL_TUPLE(1))))));
    add(KEEL_TUPLE(KEEL_TRUE));
    add(KEEL_TUPLE(KEEL_FALSE));
    add(KEEL_TUPLE(KEEL_UUID(counting)));
    add(KEEL_TUPLE(KEEL_VERSIONSTAMP(stamp)));
    add(KEEL_TUPLE("users", 42, 3.5, KEEL_NIL, KEEL_TRUE, KEEL_UUID(counting),
                   KEEL_TUPLE(1, KEEL_TUPLE(2, KEEL_NIL))));
}

/* ---- The generator, the same in both programs ---- */

static uint64_t generator = 7;

static uint64_t draw(void) {
    generator = generator * 6364136223846793005u + 1442695040888963407u;
    return generator >> 33;
}

static uint64_t draw_64(void) {
    uint64_t high = draw(), middle = draw(), low = draw();
    return high << 33 ^ middle << 11 ^ low;
}

static uint8_t *draw_bytes(size_t count) {
    uint8_t *bytes = take(count);
    for (size_t i = 0; i < count; i++) {
        uint64_t drawn = draw();
        bytes[i] = drawn % 4 == 0 ? 0 : (uint8_t)(drawn >> 2);
    }
    return bytes;
}

static keel_element draw_string(void) {
    static const char *const characters[] = {"a", "Z", "\x7f", "\xc2\x80", "\xc3\xbf", "\xdf\xbf",
                                             "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                                             "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                                             "\xf4\x8f\xbf\xbf"};
    size_t count = draw() % 8;
    char *string = take(count * 4 + 1);
    for (size_t i = 0; i < count; i++)
        strcat(string, characters[draw() % 12]);
    return keel_element_of_string(string);
}

static keel_element draw_integer(void) {
    uint64_t bits = draw_64();
    uint64_t value = bits >> draw() % 64;
    int negative = draw() % 2 && value > 0;
    if (!negative)
        return keel_element_of_uint(value);
    if (value <= INT64_MAX)
        return keel_element_of_int(-(int64_t)value);
    uint8_t *magnitude = take(8);
    for (int i = 0; i < 8; i++)
        magnitude[i] = (uint8_t)(value >> (56 - 8 * i));
    return KEEL_BIG(magnitude, 8, 1);
}

static keel_element draw_big(void) {
    size_t count = 9 + draw() % 247;
    uint8_t *magnitude = draw_bytes(count);
    magnitude[0] |= 1;
    return KEEL_BIG(magnitude, count, draw() % 2);
}

/* Not-a-number comes in shapes that not every language keeps; infinity stands in. */
static keel_element draw_float(void) {
    uint32_t bits = (uint32_t)draw_64();
    if ((bits & 0x7f800000) == 0x7f800000)
        bits &= 0xff800000;
    float value;
    memcpy(&value, &bits, sizeof value);
    return keel_element_of_float(value);
}

static keel_element draw_double(void) {
    uint64_t bits = draw_64();
    if ((bits & 0x7ff0000000000000) == 0x7ff0000000000000)
        bits &= 0xfff0000000000000;
    double value;
    memcpy(&value, &bits, sizeof value);
    return keel_element_of_double(value);
}

static keel_tuple draw_tuple(uint64_t below, int depth);

static keel_element draw_element(int depth) {
    uint64_t kind = draw() % (depth < 3 ? 11 : 10);
    switch (kind) {
    case 0: return KEEL_NIL;
    case 1: {
        size_t count = draw() % 12;
        return keel_element_of_bytes(KEEL_BYTES(draw_bytes(count), count));
    }
    case 2: return draw_string();
    case 3: return draw_integer();
    case 4: return draw_big();
    case 5: return draw_float();
    case 6: return draw_double();
    case 7: return KEEL_BOOL(draw() % 2);
    case 8: return KEEL_UUID(draw_bytes(16));
    case 9: return KEEL_VERSIONSTAMP(draw_bytes(12));
    default: return keel_element_of_tuple(draw_tuple(4, depth + 1));
    }
}

static keel_tuple draw_tuple(uint64_t below, int depth) {
    size_t count = draw() % below;
    keel_element *elements = take(count * sizeof *elements);
    for (size_t i = 0; i < count; i++)
        elements[i] = draw_element(depth);
    return keel_tuple_of(elements, count);
}

static void make_cases(void) {
    add_listed();
    add_numbers();
    add_integers();
    for (int i = 0; i < RANDOM_CASES; i++)
        add(draw_tuple(6, 0));
    check(cases_damaged == 0, "every tuple unpacks into what was packed");
}

/* ---- Reading and writing ---- */

static keel_subspace interop;

static void set(FDBTransaction *tr, keel_bytes key, keel_bytes value) {
    fdb_transaction_set(tr, key.data, (int)key.length, value.data, (int)value.length);
}

static fdb_error_t get(FDBTransaction *tr, keel_bytes key, keel_bytes *value) {
    FDBFuture *future = fdb_transaction_get(tr, key.data, (int)key.length, 0);
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int length = 0;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &data, &length);
    if (!error)
        *value = copy(KEEL_BYTES(data, present ? (size_t)length : 0));
    fdb_future_destroy(future);
    return error;
}

struct row {
    keel_bytes key, value;
};

struct rows {
    struct row row[CASES_MAX];
    int count;
};

/* One page behind the rows that were read before; *more tells whether there are others. */
static fdb_error_t read_page(FDBTransaction *tr, const keel_range *range, struct rows *rows,
                             fdb_bool_t *more) {
    keel_bytes after = KEEL_BYTES(range->begin, range->begin_length);
    if (rows->count)
        after = rows->row[rows->count - 1].key;
    FDBFuture *future = fdb_transaction_get_range(
        tr, after.data, (int)after.length, rows->count > 0, 1,
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range->end, (int)range->end_length), 0, 0,
        FDB_STREAMING_MODE_WANT_ALL, 0, 0, 0);
    const FDBKeyValue *found;
    int count = 0;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &found, &count, more);
    for (int i = 0; i < count; i++) {
        if (rows->count == CASES_MAX)
            abort();
        rows->row[rows->count].key = copy(KEEL_BYTES(found[i].key, (size_t)found[i].key_length));
        rows->row[rows->count++].value = copy(KEEL_BYTES(found[i].value,
                                                         (size_t)found[i].value_length));
    }
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t read_range(FDBTransaction *tr, const keel_subspace *subspace,
                              struct rows *rows) {
    keel_range range;
    must(keel_subspace_range(subspace, KEEL_TUPLE(), &range), "range");
    fdb_bool_t more = 1;
    fdb_error_t error = 0;
    rows->count = 0;
    while (more && !error)
        error = read_page(tr, &range, rows, &more);
    return error;
}

static keel_subspace inside(const char *name) {
    keel_subspace subspace;
    must(keel_subspace_nested(&interop, KEEL_TUPLE(name), &subspace), "subspace");
    return subspace;
}

static keel_bytes key_in(const keel_subspace *subspace, keel_tuple tuple) {
    static uint8_t buffer[KEY_BYTES_MAX];
    size_t length;
    must(keel_subspace_pack(subspace, tuple, buffer, sizeof buffer, &length), "subspace pack");
    return copy(KEEL_BYTES(buffer, length));
}

/* ---- Tuples in the database ---- */

/* 2^64-1 and its negative. */
static keel_bytes widest(void) {
    const uint8_t magnitude[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    return pack(KEEL_TUPLE(UINT64_MAX, KEEL_BIG(magnitude, 8, 1)));
}

/* Whoever packed them, and however long, they unpack into the same. */
static fdb_error_t check_widest(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_bytes value;
    fdb_error_t error = get(tr, key_in(&interop, KEEL_TUPLE("widest")), &value);
    if (!error)
        check(same(pack(unpack(value)), widest()), "the widest integers of 64 bits unpack");
    return error;
}

static fdb_error_t write_tuples(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_subspace values = inside("value"), keys = inside("key");
    for (int i = 0; i < cases_count; i++) {
        set(tr, key_in(&values, KEEL_TUPLE(i)), cases[i]);
        set(tr, key_in(&keys, unpack(cases[i])), pack(KEEL_TUPLE(i)));
    }
    set(tr, key_in(&interop, KEEL_TUPLE("widest")), widest());
    return 0;
}

static struct rows rows;

static fdb_error_t check_values(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_subspace values = inside("value");
    fdb_error_t error = read_range(tr, &values, &rows);
    if (error)
        return error;
    int agreed = 0;
    for (int i = 0; i < rows.count; i++)
        agreed += i < cases_count && same(rows.row[i].key, key_in(&values, KEEL_TUPLE(i))) &&
                  same(rows.row[i].value, cases[i]);
    check(rows.count == cases_count, "as many tuples as the set has");
    check(agreed == cases_count, "every tuple has the same bytes");
    return 0;
}

/* The number that the value of a row in "key" says; -1 if it makes no sense. */
static int row_number(const struct row *row) {
    keel_tuple_iterator iterator = keel_tuple_iterate(row->value);
    int64_t number;
    if (keel_tuple_next_int(&iterator, &number) != 0 || number < 0 || number >= cases_count)
        return -1;
    return (int)number;
}

/* The empty tuple's key is the subspace's own, not in its range. */
static int distinct_cases(void) {
    int distinct = 0;
    for (int i = 0; i < cases_count; i++) {
        int first = cases[i].length > 0;
        for (int j = 0; j < i && first; j++)
            first = !same(cases[i], cases[j]);
        distinct += first;
    }
    return distinct;
}

static fdb_error_t check_keys(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_subspace keys = inside("key");
    fdb_error_t error = read_range(tr, &keys, &rows);
    if (error)
        return error;
    int agreed = 0, ordered = 0;
    keel_tuple before = {NULL, 0};
    for (int i = 0; i < rows.count; i++) {
        keel_tuple_iterator iterator;
        must(keel_subspace_unpack(&keys, rows.row[i].key, &iterator), "unpack in a subspace");
        keel_bytes rest = KEEL_BYTES(rows.row[i].key.data + iterator.position,
                                     rows.row[i].key.length - iterator.position);
        int number = row_number(&rows.row[i]);
        agreed += number >= 0 && same(rest, cases[number]);
        keel_tuple tuple = unpack(rest);
        ordered += i == 0 || keel_tuple_compare(before, tuple) < 0;
        before = tuple;
    }
    check(rows.count == distinct_cases() && agreed == rows.count,
          "every key unpacks into the tuple of its number");
    check(ordered == rows.count, "keys are in the order of their tuples");
    return 0;
}

/* ---- Versionstamps ---- */

static FDBFuture *versionstamp;

static void set_stamped(FDBTransaction *tr, keel_tuple tuple, keel_bytes value) {
    uint8_t key[200];
    size_t length;
    must(keel_subspace_pack_versionstamp(&interop, tuple, key, sizeof key, &length),
         "pack with a versionstamp");
    fdb_transaction_atomic_op(tr, key, (int)length, value.data, (int)value.length,
                              FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY);
}

static fdb_error_t write_stamped(FDBTransaction *tr, void *unused) {
    (void)unused;
    for (int user = 0; user < STAMPS; user++)
        set_stamped(tr, KEEL_TUPLE("stamped", KEEL_INCOMPLETE((uint16_t)user), "x"),
                    pack(KEEL_TUPLE(user)));
    set_stamped(tr, KEEL_TUPLE("nested", KEEL_TUPLE("in", KEEL_NIL, KEEL_INCOMPLETE(700))),
                pack(KEEL_TUPLE(700)));
    keel_bytes key = key_in(&interop, KEEL_TUPLE("stampvalue"));
    uint8_t value[100];
    size_t length;
    must(keel_tuple_pack_versionstamp(KEEL_TUPLE("v", KEEL_INCOMPLETE(9)), value, sizeof value,
                                      &length), "pack");
    fdb_transaction_atomic_op(tr, key.data, (int)key.length, value, (int)length,
                              FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE);
    if (versionstamp)
        fdb_future_destroy(versionstamp);
    versionstamp = fdb_transaction_get_versionstamp(tr);
    return 0;
}

/* What the first transaction's versionstamp was, for whoever checks. */
static fdb_error_t write_stamp(FDBTransaction *tr, void *unused) {
    (void)unused;
    const uint8_t *stamp;
    int length;
    must(keel_wait(versionstamp), "versionstamp");
    must(fdb_future_get_key(versionstamp, &stamp, &length), "versionstamp");
    set(tr, key_in(&interop, KEEL_TUPLE("stamp")), KEEL_BYTES(stamp, (size_t)length));
    return 0;
}

static keel_element completed(keel_bytes stamp, int user) {
    uint8_t bytes[12] = {0};
    memcpy(bytes, stamp.data, stamp.length < 10 ? stamp.length : 10);
    bytes[10] = (uint8_t)(user >> 8);
    bytes[11] = (uint8_t)user;
    return KEEL_VERSIONSTAMP(bytes);
}

static fdb_error_t check_stamped(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_bytes stamp, nested, value;
    fdb_error_t error = get(tr, key_in(&interop, KEEL_TUPLE("stamp")), &stamp);
    if (!error)
        error = get(tr,
                    key_in(&interop,
                           KEEL_TUPLE("nested",
                                      KEEL_TUPLE("in", KEEL_NIL, completed(stamp, 700)))), &nested);
    if (!error)
        error = get(tr, key_in(&interop, KEEL_TUPLE("stampvalue")), &value);
    keel_subspace stamped = inside("stamped");
    if (!error)
        error = read_range(tr, &stamped, &rows);
    if (error)
        return error;
    int agreed = 0;
    for (int i = 0; i < rows.count; i++)
        agreed += same(rows.row[i].key, key_in(&stamped, KEEL_TUPLE(completed(stamp, i), "x"))) &&
                  same(rows.row[i].value, pack(KEEL_TUPLE(i)));
    check(stamp.length == 10, "the versionstamp has ten bytes");
    check(rows.count == STAMPS && agreed == STAMPS, "versionstamps in keys");
    check(same(nested, pack(KEEL_TUPLE(700))), "a versionstamp in a nested tuple");
    check(same(value, pack(KEEL_TUPLE("v", completed(stamp, 9)))), "a versionstamp in a value");
    return 0;
}

/* ---- A subspace with a raw prefix ---- */

static keel_subspace raw_subspace(void) {
    keel_subspace subspace;
    must(keel_subspace_raw_tuple(KEEL_BYTES("\x01raw\x00", 5), KEEL_TUPLE("a", 1), &subspace),
         "raw subspace");
    return subspace;
}

static fdb_error_t write_raw(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_subspace raw = raw_subspace(), x;
    must(keel_subspace_nested(&raw, KEEL_TUPLE("x"), &x), "nested subspace");
    set(tr, keel_subspace_prefix(&raw), text("root"));
    set(tr, key_in(&x, KEEL_TUPLE(2)), text("x2"));
    set(tr, key_in(&raw, KEEL_TUPLE(KEEL_NIL)), text("null"));
    return 0;
}

static fdb_error_t check_raw(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_subspace raw = raw_subspace();
    keel_bytes root;
    fdb_error_t error = get(tr, keel_subspace_prefix(&raw), &root);
    if (!error)
        error = read_range(tr, &raw, &rows);
    if (error)
        return error;
    check(same(root, text("root")), "the subspace's own key");
    check(rows.count == 2 && same(rows.row[0].key, key_in(&raw, KEEL_TUPLE(KEEL_NIL))) &&
              same(rows.row[0].value, text("null")) &&
              same(rows.row[1].key, key_in(&raw, KEEL_TUPLE("x", 2))) && same(rows.row[1].value,
                                                                              text("x2")),
          "the range of a subspace with a raw prefix");
    return 0;
}

/* ---- Directories ---- */

enum { DEPTH_MAX = 4 };

/* A directory of the set; names after the first NULL do not count. */
struct place {
    const char *layer;
    const char *names[DEPTH_MAX];
};

static const struct place tree[] = {
    {"", {"app"}},
    {"table", {"app", "users"}},
    {"", {"app", "gr\xc3\xb6\xc3\x9f" "e \xe2\x98\x83"}},
    {"partition", {"part"}},
    {"x", {"part", "inner", "deep"}},
    {"partition", {"part", "sub"}},
    {"", {"part", "sub", "leaf"}},
    {"", {"app", "moved"}},
    {"moving", {"part", "new"}},
};
enum { PLACES = sizeof tree / sizeof *tree };
static const struct place alternative = {"alt", {"x", "y"}}; /* in a layer over other subspaces */

static keel_path path_of(const struct place *place) {
    keel_bytes *names = take(DEPTH_MAX * sizeof *names);
    size_t count = 0;
    while (count < DEPTH_MAX && place->names[count]) {
        names[count] = text(place->names[count]);
        count++;
    }
    return (keel_path){names, count};
}

static keel_directory *alternative_root(void) {
    static keel_directory_layer *layer;
    if (!layer)
        must(keel_directory_layer_create(text("\x03nodes"), text("\x03" "content"), 1, &layer),
             "directory layer");
    return keel_directory_root(layer);
}

/* The names with slashes between them: what a directory's one key holds. */
static keel_bytes joined(keel_path path) {
    char *names = take(500);
    for (size_t i = 0; i < path.count; i++)
        sprintf(names + strlen(names), "%s%.*s", i ? "/" : "", (int)path.names[i].length,
                (const char *)path.names[i].data);
    return text(names);
}

/* Writes the key of a directory just created, and closes it. */
static fdb_error_t fill(FDBTransaction *tr, keel_directory *directory) {
    keel_subspace subspace;
    if (!keel_directory_is_partition(directory)) {
        must(keel_directory_subspace(directory, &subspace), "directory subspace");
        set(tr, key_in(&subspace, KEEL_TUPLE("path")), joined(keel_directory_path(directory)));
    }
    keel_directory_close(directory);
    return 0;
}

static fdb_error_t make(FDBTransaction *tr, const keel_directory *root, keel_path path,
                        const char *layer) {
    keel_directory *directory;
    fdb_error_t error = keel_directory_create_or_open(tr, root, path, KEEL_LAYER(layer),
                                                      &directory);
    return error ? error : fill(tr, directory);
}

static fdb_error_t make_moved(FDBTransaction *tr) {
    fdb_error_t error = keel_directory_create(tr, NULL, KEEL_PATH("app", "tmp"), KEEL_NO_LAYER,
                                              NULL, NULL);
    if (!error)
        error = keel_directory_move(tr, NULL, KEEL_PATH("app", "tmp"), KEEL_PATH("app", "moved"),
                                    NULL);
    if (!error)
        error = keel_directory_create(tr, NULL, KEEL_PATH("part", "old"), KEEL_LAYER("moving"),
                                      NULL, NULL);
    if (!error)
        error = keel_directory_move(tr, NULL, KEEL_PATH("part", "old"), KEEL_PATH("part", "new"),
                                    NULL);
    if (!error)
        error = keel_directory_create(tr, NULL, KEEL_PATH("app", "gone", "child"), KEEL_NO_LAYER,
                                      NULL, NULL);
    if (!error)
        error = keel_directory_remove(tr, NULL, KEEL_PATH("app", "gone"));
    return error;
}

static fdb_error_t write_directories(FDBTransaction *tr, void *unused) {
    (void)unused;
    fdb_error_t error = 0;
    for (int i = 0; i < PLACES && !error; i++) {
        if (i == PLACES - 2)
            error = make_moved(tr);
        if (!error)
            error = make(tr, NULL, path_of(&tree[i]), tree[i].layer);
    }
    for (int i = 0; i < MANY && !error; i++) {
        char name[16];
        sprintf(name, "%d", i);
        error = make(tr, NULL, KEEL_PATH("many", name), "");
    }
    if (!error)
        error = make(tr, alternative_root(), path_of(&alternative), alternative.layer);
    keel_bytes prefix = text("\x03manual");
    keel_directory *manual;
    if (!error)
        error = keel_directory_create(tr, alternative_root(), KEEL_PATH("manual"), KEEL_NO_LAYER,
                                      &prefix, &manual);
    return error ? error : fill(tr, manual);
}

/* ---- Directories that somebody wrote ---- */

static keel_bytes prefixes[CASES_MAX];
static int prefixes_count;

/* Opens, compares layer, path and contents, and remembers the prefix. */
static fdb_error_t look(FDBTransaction *tr, const keel_directory *root, keel_path path,
                        const char *layer, int *holds) {
    keel_directory *directory;
    keel_bytes prefix, content;
    *holds = 0;
    fdb_error_t error = keel_directory_open(tr, root, path, KEEL_LAYER(layer), &directory);
    if (error == KEEL_ERROR_DIRECTORY_MISSING || error == KEEL_ERROR_DIRECTORY_LAYER)
        return 0;
    if (error)
        return error;
    int right = same(joined(keel_directory_path(directory)), joined(path)) &&
                same(keel_directory_layer_of(directory), KEEL_LAYER(layer));
    if (!keel_directory_is_partition(directory)) {
        must(keel_directory_prefix(directory, &prefix), "prefix");
        keel_subspace subspace;
        must(keel_directory_subspace(directory, &subspace), "directory subspace");
        error = get(tr, key_in(&subspace, KEEL_TUPLE("path")), &content);
        right = right && !error && same(content, joined(path));
        if (!root)
            prefixes[prefixes_count++] = copy(prefix);
    }
    keel_directory_close(directory);
    *holds = right;
    return error;
}

static fdb_error_t count_name(void *context, keel_bytes name) {
    (void)name;
    (*(int *)context)++;
    return 0;
}

static int prefix_free(void) {
    for (int i = 0; i < prefixes_count; i++)
        for (int j = 0; j < prefixes_count; j++)
            if (i != j && prefixes[i].length <= prefixes[j].length &&
                memcmp(prefixes[i].data, prefixes[j].data, prefixes[i].length) == 0)
                return 0;
    return 1;
}

static fdb_error_t check_tree(FDBTransaction *tr, void *unused) {
    (void)unused;
    int holds = 0, agreed = 0, listed = 0;
    fdb_error_t error = 0;
    prefixes_count = 0;
    for (int i = 0; i < PLACES && !error; i++, agreed += holds)
        error = look(tr, NULL, path_of(&tree[i]), tree[i].layer, &holds);
    for (int i = 0; i < MANY && !error; i++, agreed += holds) {
        char name[16];
        sprintf(name, "%d", i);
        error = look(tr, NULL, KEEL_PATH("many", name), "", &holds);
    }
    if (!error)
        error = look(tr, alternative_root(), path_of(&alternative), alternative.layer,
                     &holds), agreed += holds;
    if (!error)
        error = look(tr, alternative_root(), KEEL_PATH("manual"), "", &holds), agreed += holds;
    if (!error)
        error = keel_directory_list(tr, NULL, KEEL_PATH("many"), count_name, &listed);
    if (error)
        return error;
    check(agreed == PLACES + MANY + 2, "every directory has its layer, its path and its contents");
    check(listed == MANY || listed == MANY + MORE || listed == MANY + 2 * MORE,
          "a directory lists its children");
    check(prefix_free(), "no prefix begins with another");
    return 0;
}

static fdb_error_t check_absent(FDBTransaction *tr, void *unused) {
    (void)unused;
    int tmp = 1, old = 1, gone = 1, root_listed = 0;
    fdb_error_t error = keel_directory_exists(tr, NULL, KEEL_PATH("app", "tmp"), &tmp);
    if (!error)
        error = keel_directory_exists(tr, NULL, KEEL_PATH("part", "old"), &old);
    if (!error)
        error = keel_directory_exists(tr, NULL, KEEL_PATH("app", "gone"), &gone);
    if (!error)
        error = keel_directory_list(tr, NULL, KEEL_PATH(), count_name, &root_listed);
    if (error)
        return error;
    keel_directory *directory;
    check(!tmp && !old && !gone, "what was moved or removed is not there");
    check(root_listed == 3, "the root lists its children");
    check(keel_directory_open(tr, NULL, KEEL_PATH("app", "users"), KEEL_LAYER("other"),
                              &directory) ==
              KEEL_ERROR_DIRECTORY_LAYER,
          "another layer is refused");
    return 0;
}

/* The directories that a checker adds in the trees of a writer. */
static fdb_error_t each_addition(FDBTransaction *tr, const char *who, int create, int *agreed) {
    char name[32];
    int holds = 0;
    fdb_error_t error = 0;
    for (int i = 0; i < MORE + 3 && !error; i++, *agreed += holds) {
        sprintf(name, "by-%s-%d", who, i);
        keel_path path = i < MORE       ? KEEL_PATH("many", name)
                         : i == MORE     ? KEEL_PATH("app", "users", name)
                         : i == MORE + 1 ? KEEL_PATH("part", "sub", name)
                                         : KEEL_PATH("x", name);
        const keel_directory *root = i == MORE + 2 ? alternative_root() : NULL;
        error = create ? make(tr, root, path, "extended") : look(tr, root, path, "extended",
                                                                 &holds);
    }
    return error;
}

static fdb_error_t check_additions(FDBTransaction *tr, void *unused) {
    (void)unused;
    int there = 0, agreed = 0;
    prefixes_count = 0;
    fdb_error_t error = keel_directory_exists(tr, NULL, KEEL_PATH("many", "by-python-0"), &there);
    if (!error && there)
        error = each_addition(tr, "python", 0, &agreed);
    if (!error && there)
        check(agreed == MORE + 3, "the other side's additions");
    return error;
}

static fdb_error_t make_additions(FDBTransaction *tr, void *unused) {
    (void)unused;
    int agreed = 0;
    fdb_error_t error = each_addition(tr, side, 1, &agreed);
    if (!error)
        error = each_addition(tr, side, 0, &agreed);
    if (!error)
        check(agreed == MORE + 3, "directories of our own in the tree");
    return error;
}

/* ---- The two modes ---- */

static void run(keel_db *db, keel_function function, const char *what) {
    must(keel_run(keel_fdb(db), function, NULL), what);
}

static void write_all(keel_db *db) {
    run(db, write_tuples, "write tuples");
    run(db, write_stamped, "write versionstamps");
    run(db, write_stamp, "write the versionstamp");
    run(db, write_raw, "write a subspace");
    run(db, write_directories, "write directories");
    check(1, "written");
}

static void check_all(keel_db *db) {
    run(db, check_values, "check tuples in values");
    run(db, check_keys, "check tuples in keys");
    run(db, check_widest, "check the widest integers");
    run(db, check_stamped, "check versionstamps");
    run(db, check_raw, "check a subspace");
    run(db, check_tree, "check directories");
    run(db, check_absent, "check missing directories");
    run(db, check_additions, "check additions");
    run(db, make_additions, "add directories");
}

int main(int count, char **arguments) {
    int writes = count == 3 && strcmp(arguments[1], "write") == 0;
    if (!writes && (count != 3 || strcmp(arguments[1], "check") != 0)) {
        fprintf(stderr, "usage: interop write|check DATABASE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    keel_db *db;
    must(keel_open(arguments[2], &db), "open");
    must(keel_subspace_tuple(KEEL_TUPLE("interop"), &interop), "subspace");
    make_cases();
    if (writes)
        write_all(db);
    else
        check_all(db);
    keel_close(db);
    puts("finished");
    return failures != 0;
}
