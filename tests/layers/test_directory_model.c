/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of directory operations against a reference model: a plain tree in memory,
 * without prefixes, node keys or layers. Operations go through the root, through opened directories
 * and through opened partitions, with names few enough to meet often; after each the answer, and
 * now and then the whole tree and all contents in the database, must be those of the model.
 *
 * KEEL_SEED and KEEL_ROUNDS (operations) change what is run; a failure prints the seed.
 */
#include "directory_support.h"

enum { CHILDREN_MAX = 8, PATH_MAX_NAMES = 4, HANDLES = 12, PREFIX_MAX = 256, DEPTH_MAX = 256 };

static const char *const names[] = {"1", "2", "3", ""};
static const char *const tags[] = {"", "", "", "tag", "other", "partition"};

static uint64_t random_state;

static size_t random_below(size_t limit) {
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (size_t)((z ^ (z >> 31)) % limit);
}

/* ---- The model ---- */

struct node {
    struct node *parent, *children[CHILDREN_MAX];
    const char *name, *tag;
    uint8_t prefix[PREFIX_MAX]; /* as the layer gave it; unknown (length 0) for partitions and
                                   parents made on the way */
    size_t prefix_length;
    bool marked; /* a key was written at its prefix */
};

static struct node root;

static bool is_layer(const struct node *node) {
    return node == &root || strcmp(node->tag, "partition") == 0;
}

static struct node **slot(struct node *node, const char *name) {
    struct node **empty = NULL;
    for (int i = 0; i < CHILDREN_MAX; i++) {
        if (node->children[i] && strcmp(node->children[i]->name, name) == 0)
            return &node->children[i];
        if (!node->children[i])
            empty = &node->children[i];
    }
    assert_non_null(empty);
    return empty;
}

static struct node *child(struct node *node, const char *name) {
    return *slot(node, name);
}

static struct node *add(struct node *parent, const char *name, const char *tag) {
    struct node *node = calloc(1, sizeof *node);
    node->parent = parent;
    node->name = name;
    node->tag = tag;
    *slot(parent, name) = node;
    return node;
}

static void free_below(struct node *node) {
    for (int i = 0; i < CHILDREN_MAX; i++)
        if (node->children[i]) {
            free_below(node->children[i]);
            free(node->children[i]);
            node->children[i] = NULL;
        }
}

struct route {
    const char *names[DEPTH_MAX];
    size_t count;
};

/* The layer that a node belongs to: the nearest layer above it. */
static struct node *layer_around(struct node *node) {
    do
        node = node->parent;
    while (!is_layer(node));
    return node;
}

/* The path from `layer` down to `node`, with `more` behind it. */
static struct route route_from(struct node *layer, struct node *node, const struct route *more) {
    struct route route = {.count = 0};
    size_t depth = 0;
    for (struct node *n = node; n != layer; n = n->parent)
        depth++;
    for (struct node *n = node; n != layer; n = n->parent)
        route.names[--depth] = n->name;
    for (struct node *n = node; n != layer; n = n->parent)
        route.count++;
    for (size_t i = 0; i < more->count; i++)
        route.names[route.count++] = more->names[i];
    return route;
}

/* Follows a route inside one layer: ends early, with *used names, at a missing name (NULL) or a
 * partition. */
static struct node *follow(struct node *layer, const struct route *route, size_t *used) {
    struct node *node = layer;
    for (*used = 0; *used < route->count; ++*used) {
        if (*used > 0 && is_layer(node))
            break;
        node = child(node, route->names[*used]);
        if (!node) {
            ++*used;
            return NULL;
        }
    }
    return node;
}

static struct route rest(const struct route *route, size_t used) {
    struct route left = {.count = route->count - used};
    for (size_t i = used; i < route->count; i++)
        left.names[i - used] = route->names[i];
    return left;
}

static bool begins(const struct route *route, const struct route *beginning) {
    for (size_t i = 0; i < beginning->count; i++)
        if (i >= route->count || strcmp(route->names[i], beginning->names[i]) != 0)
            return false;
    return true;
}

/* What open, create and create_or_open answer, and the node. */
static fdb_error_t model_open(struct node *handle, const struct route *path, const char *tag,
                              bool may_create, bool may_open, bool prefix_given,
                              struct node **result) {
    struct node *layer = is_layer(handle) ? handle : layer_around(handle);
    struct route route = route_from(layer, handle, path);
    for (;;) {
        size_t used;
        if (prefix_given && layer != &root)
            return KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES;
        if (route.count == 0)
            return KEEL_ERROR_DIRECTORY_ROOT;
        struct node *node = follow(layer, &route, &used);
        if (node && used < route.count) {
            layer = node;
            route = rest(&route, used);
            continue;
        }
        if (node && !may_open)
            return KEEL_ERROR_DIRECTORY_EXISTS;
        if (node && *tag && strcmp(tag, node->tag) != 0)
            return KEEL_ERROR_DIRECTORY_LAYER;
        if (!node && !may_create)
            return KEEL_ERROR_DIRECTORY_MISSING;
        if (!node) {
            node = layer;
            for (size_t i = 0; i < route.count; i++) {
                struct node *next = child(node, route.names[i]);
                node = next ? next : add(node, route.names[i], i + 1 == route.count ? tag : "");
            }
        }
        *result = node;
        return 0;
    }
}

static fdb_error_t model_move(struct node *layer, struct route from, struct route to,
                              struct node **result) {
    for (;;) {
        size_t from_used, to_used, parent_used;
        if (begins(&to, &from))
            return KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF;
        struct node *source = follow(layer, &from, &from_used),
                    *target = follow(layer, &to, &to_used);
        if (!source)
            return KEEL_ERROR_DIRECTORY_MISSING;
        bool source_inside = from_used < from.count, target_inside = target && to_used < to.count;
        if (source_inside != target_inside || (source_inside && source != target))
            return KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS;
        if (source_inside) {
            layer = source;
            from = rest(&from, from_used);
            to = rest(&to, to_used);
            continue;
        }
        if (target)
            return KEEL_ERROR_DIRECTORY_EXISTS;
        const char *name = to.names[to.count - 1];
        to.count--;
        struct node *parent = follow(layer, &to, &parent_used);
        if (!parent)
            return KEEL_ERROR_DIRECTORY_PARENT_MISSING;
        *slot(source->parent, source->name) = NULL;
        source->name = name;
        source->parent = parent;
        *slot(parent, name) = source;
        *result = source;
        return 0;
    }
}

/* Where the path from a handle leads; an empty one is the handle itself. NULL if there is nothing.
 */
static struct node *model_find(struct node *handle, const struct route *path) {
    struct node *node = handle;
    for (size_t i = 0; node && i < path->count; i++)
        node = child(node, path->names[i]);
    return node;
}

/* ---- Opened directories ---- */

static struct handle {
    keel_directory *directory;
    struct node *node; /* NULL: unused */
} handles[HANDLES];

static bool is_below(const struct node *node, const struct node *top) {
    while (node && node != top)
        node = node->parent;
    return node != NULL;
}

/* Closes the handles on a node and everything below: they are about to be moved or removed. */
static void forget_below(const struct node *top) {
    for (int i = 1; i < HANDLES; i++)
        if (handles[i].node && is_below(handles[i].node, top)) {
            keel_directory_close(handles[i].directory);
            handles[i].node = NULL;
        }
}

static void remember(keel_directory *directory, struct node *node) {
    size_t i = 1 + random_below(HANDLES - 1);
    if (handles[i].node)
        keel_directory_close(handles[i].directory);
    handles[i] = (struct handle){directory, node};
}

static struct handle *random_handle(void) {
    size_t i = random_below(2) ? 0 : random_below(HANDLES);
    return handles[i].node ? &handles[i] : &handles[0];
}

/* ---- Comparing ---- */

static void check_opened(FDBTransaction *tr, keel_directory *directory, struct node *node) {
    struct route none = {.count = 0}, route = route_from(&root, node, &none);
    keel_path path = keel_directory_path(directory);
    assert_int_equal(path.count, route.count);
    for (size_t i = 0; i < path.count; i++)
        assert_text(path.names[i], route.names[i]);
    assert_text(keel_directory_layer_of(directory), node->tag);
    assert_int_equal(keel_directory_is_partition(directory), is_layer(node));
    keel_bytes prefix = {NULL, 0};
    fdb_error_t error = keel_directory_prefix(directory, &prefix);
    assert_int_equal(error, is_layer(node) ? KEEL_ERROR_DIRECTORY_PARTITION_ROOT : 0);
    if (error)
        return;
    if (node->prefix_length > 0)
        assert_bytes(prefix, node->prefix, node->prefix_length);
    assert_in_range(prefix.length, 1, PREFIX_MAX);
    memcpy(node->prefix, prefix.data, prefix.length);
    node->prefix_length = prefix.length;
    node->marked = true;
    set(tr, prefix, "mark");
}

struct expected {
    struct node *node;
    int seen;
};

static fdb_error_t check_name(void *context, keel_bytes name) {
    struct expected *expected = context;
    char text[8] = "";
    memcpy(text, name.data, name.length < 7 ? name.length : 7);
    assert_non_null(child(expected->node, text));
    expected->seen++;
    return 0;
}

static void check_list(FDBTransaction *tr, keel_directory *directory, keel_path path,
                       struct node *node) {
    struct expected expected = {node, 0};
    int count = 0;
    for (int i = 0; i < CHILDREN_MAX; i++)
        count += node->children[i] != NULL;
    assert_int_equal(keel_directory_list(tr, directory, path, check_name, &expected), 0);
    assert_int_equal(expected.seen, count);
}

static int check_below(FDBTransaction *tr, struct node *node, keel_bytes *path, size_t depth) {
    int marks = node->marked;
    check_list(tr, NULL, (keel_path){path, depth}, node);
    for (int i = 0; i < CHILDREN_MAX; i++)
        if (node->children[i]) {
            path[depth] = keel_bytes_of_string(node->children[i]->name);
            marks += check_below(tr, node->children[i], path, depth + 1);
        }
    return marks;
}

static int count_marks(FDBTransaction *tr) {
    FDBFuture *future =
        fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"", 0),
                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"\xff", 1), 1000000,
                                  0, FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    const FDBKeyValue *pairs;
    int count, marks = 0;
    fdb_bool_t more;
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_keyvalue_array(future, &pairs, &count, &more), 0);
    assert_false(more);
    for (int i = 0; i < count; i++)
        marks += pairs[i].value_length == 4 && memcmp(pairs[i].value, "mark", 4) == 0;
    fdb_future_destroy(future);
    return marks;
}

/* The tree is the model's, and so are the contents: what was removed is gone, what was not is
 * there. */
static void check_all(FDBTransaction *tr) {
    keel_bytes path[DEPTH_MAX];
    assert_int_equal(count_marks(tr), check_below(tr, &root, path, 0));
}

/* ---- Operations ---- */

static struct route random_route(void) {
    struct route route = {.count = random_below(PATH_MAX_NAMES + 1)};
    for (size_t i = 0; i < route.count; i++)
        route.names[i] = names[random_below(4)];
    return route;
}

static keel_path path_of(const struct route *route, keel_bytes *space) {
    for (size_t i = 0; i < route->count; i++)
        space[i] = keel_bytes_of_string(route->names[i]);
    return (keel_path){space, route->count};
}

static void do_open(FDBTransaction *tr, struct handle *handle, size_t kind) {
    struct route route = random_route();
    keel_bytes space[DEPTH_MAX], given, *prefix = NULL;
    const char *tag = tags[random_below(6)];
    keel_path path = path_of(&route, space);
    keel_directory *opened = NULL;
    struct node *node = NULL;
    uint8_t bytes[12];
    static uint64_t serial;
    if (kind == 2 && random_below(3) == 0) {
        bytes[0] = 'm';
        serial++;
        for (size_t i = 0; i < 8; i++)
            bytes[1 + i] = (uint8_t)(serial >> (8 * (7 - i)));
        given = keel_bytes_of(bytes, 9);
        prefix = &given;
    }
    fdb_error_t expected =
        model_open(handle->node, &route, tag, kind != 1, kind != 2, prefix != NULL, &node);
    fdb_error_t error =
        kind == 0
            ? keel_directory_create_or_open(tr, handle->directory, path, KEEL_LAYER(tag), &opened)
        : kind == 1
            ? keel_directory_open(tr, handle->directory, path, KEEL_LAYER(tag), &opened)
            : keel_directory_create(tr, handle->directory, path, KEEL_LAYER(tag), prefix, &opened);
    assert_int_equal(error, expected);
    if (error)
        return;
    if (prefix && !is_layer(node))
        assert_bytes(prefix_of(opened), given.data, given.length);
    check_opened(tr, opened, node);
    remember(opened, node);
}

static void do_move(FDBTransaction *tr, struct handle *handle) {
    struct route from = random_route(), to = random_route();
    struct node *layer = is_layer(handle->node) ? handle->node : layer_around(handle->node),
                *node = NULL;
    keel_bytes from_space[DEPTH_MAX], to_space[DEPTH_MAX];
    keel_path from_path = path_of(&from, from_space), to_path = path_of(&to, to_space);
    keel_directory *moved = NULL, *by = handle->directory;
    fdb_error_t expected = model_move(layer, route_from(layer, handle->node, &from),
                                      route_from(layer, handle->node, &to), &node);
    fdb_error_t error = keel_directory_move(tr, by, from_path, to_path, &moved);
    assert_int_equal(error, expected);
    if (error)
        return;
    check_opened(tr, moved, node);
    forget_below(node);
    remember(moved, node);
}

static void do_move_to(FDBTransaction *tr, struct handle *handle) {
    struct route to = random_route(), none = {.count = 0};
    keel_bytes space[DEPTH_MAX];
    keel_directory *moved = NULL;
    struct node *node = NULL;
    fdb_error_t expected;
    if (handle->node == &root) {
        expected = KEEL_ERROR_DIRECTORY_ROOT;
    } else {
        struct node *layer = layer_around(handle->node);
        struct route above = route_from(&root, layer, &none);
        if (random_below(2)) { /* into the right partition */
            struct route longer = above;
            for (size_t i = 0; i < to.count; i++)
                longer.names[longer.count++] = to.names[i];
            to = longer;
        }
        expected = KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS;
        if (begins(&to, &above))
            expected = model_move(layer, route_from(layer, handle->node, &none),
                                  rest(&to, above.count), &node);
    }
    fdb_error_t error = keel_directory_move_to(tr, handle->directory, path_of(&to, space), &moved);
    assert_int_equal(error, expected);
    if (error)
        return;
    check_opened(tr, moved, node);
    forget_below(node);
    remember(moved, node);
}

static void do_remove(FDBTransaction *tr, struct handle *handle, bool if_exists) {
    struct route route = random_route();
    keel_bytes space[DEPTH_MAX];
    int existed = -1;
    struct node *node = model_find(handle->node, &route);
    fdb_error_t expected = node == &root       ? KEEL_ERROR_DIRECTORY_ROOT
                           : node || if_exists ? 0
                                               : KEEL_ERROR_DIRECTORY_MISSING;
    fdb_error_t error = if_exists
                            ? keel_directory_remove_if_exists(tr, handle->directory,
                                                              path_of(&route, space), &existed)
                            : keel_directory_remove(tr, handle->directory, path_of(&route, space));
    assert_int_equal(error, expected);
    if (if_exists && !error)
        assert_int_equal(existed, node != NULL);
    if (error || !node)
        return;
    forget_below(node);
    *slot(node->parent, node->name) = NULL;
    free_below(node);
    free(node);
}

static void do_look(FDBTransaction *tr, struct handle *handle) {
    struct route route = random_route();
    keel_bytes space[DEPTH_MAX];
    keel_path path = path_of(&route, space);
    struct node *node = model_find(handle->node, &route);
    assert_int_equal(exists(tr, handle->directory, path), node != NULL);
    if (node)
        check_list(tr, handle->directory, path, node);
    else
        assert_int_equal(keel_directory_list(tr, handle->directory, path, check_name, NULL),
                         KEEL_ERROR_DIRECTORY_MISSING);
}

static void do_one(FDBTransaction *tr) {
    struct handle *handle = random_handle();
    switch (random_below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        do_open(tr, handle, 0);
        break;
    case 4:
        do_open(tr, handle, 1);
        break;
    case 5:
    case 6:
        do_open(tr, handle, 2);
        break;
    case 7:
    case 8:
        do_move(tr, handle);
        break;
    case 9:
        do_move_to(tr, handle);
        break;
    case 10:
        do_remove(tr, handle, random_below(2));
        break;
    default:
        do_look(tr, handle);
    }
}

static unsigned long environment(const char *name, unsigned long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

static void test_model(void **state) {
    (void)state;
    unsigned long seed = environment("KEEL_SEED", 1), rounds = environment("KEEL_ROUNDS", 3000);
    keel_directory_layer *layer;
    random_state = seed;
    printf("test_directory_model: KEEL_SEED=%lu KEEL_ROUNDS=%lu\n", seed, rounds);
    /* The default layer's place, so that the NULL parent works, with manual prefixes. */
    assert_int_equal(keel_directory_layer_create(BYTES("\xfe"), BYTES(""), 1, &layer), 0);
    root.name = root.tag = "";
    handles[0] = (struct handle){keel_directory_root(layer), &root};
    for (unsigned long done = 0; done < rounds;) {
        FDBTransaction *tr = begin();
        for (size_t i = 1 + random_below(4); i > 0; i--, done++)
            do_one(tr);
        if (random_below(8) == 0)
            check_all(tr);
        commit(tr);
        if (random_below(8) == 0) {
            tr = begin();
            check_all(tr);
            fdb_transaction_destroy(tr);
        }
    }
    forget_below(&root);
    free_below(&root);
    keel_directory_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_model, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
