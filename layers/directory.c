/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations of the directory layer.
 *
 * Each goes the same way:
 *
 *     aim       Which layer the call works in, and the path from that layer's root. A directory
 *               works in its layer, a partition in the layer inside it; moving, removing or looking
 *               for a partition itself is the business of the layer around it.
 *     descend   Check the layer's version, refuse what can be refused without looking, walk the
 *               path; where it leads into a partition, do the same again in the layer inside with
 *               the names that are left. No recursion: partitions in partitions are a loop.
 *     act       Read what is missing, then write.
 *
 * The order of the checks is that of FoundationDB's bindings, also where two errors are possible,
 * because a program (or the binding tester) that commits after an error sees the difference. In
 * particular a call that writes claims the version key before it refuses the root, and a directory
 * whose prefix is refused leaves no parents behind: all prefixes are found, the deepest first,
 * before anything of the tree is written.
 *
 * Reads that do not depend on each other run together: the version with the first step of the walk,
 * the two walks of a move.
 *
 * Ownership: the layer of an operation under way is retained, so a thread may close what it was
 * opened through. Results are made before the writes; on failure nothing is handed out.
 *
 * Threads: any. Failure: see keel/directory.h.
 */
#include "directory_internal.h"

#include <stdlib.h>

#include "export.h"

/* ---- Aim ---- */

/* The layer of a call and the path in it. */
struct aim {
    keel_directory_layer *layer; /* retained */
    keel_path path;
    keel_bytes *joined; /* the memory of `path`, or NULL if it is the caller's */
};

static void aim_free(struct aim *aim) {
    directory_layer_release(aim->layer);
    free(aim->joined);
}

/* The path of `parent` in `layer`, with `path` behind it. */
static fdb_error_t aim_at(keel_directory_layer *layer, const keel_directory *parent, keel_path path,
                          struct aim *aim) {
    keel_path relative = directory_path_rest(parent->path, layer->root.path.count);
    keel_bytes *joined = NULL;
    if (relative.count > 0) {
        joined = malloc((relative.count + path.count) * sizeof *joined);
        if (!joined)
            return DIRECTORY_NO_MEMORY;
        memcpy(joined, relative.names, relative.count * sizeof *joined);
        if (path.count > 0)
            memcpy(joined + relative.count, path.names, path.count * sizeof *joined);
        path = (keel_path){joined, relative.count + path.count};
    }
    *aim = (struct aim){directory_layer_retain(layer), path, joined};
    return 0;
}

/* For calls on what is inside `parent`. */
static fdb_error_t aim_inside(const keel_directory *parent, keel_path path, struct aim *aim) {
    fdb_error_t error = directory_path_check_pointers(path);
    if (error)
        return error;
    if (!parent)
        parent = keel_directory_root(keel_directory_layer_default());
    return aim_at(parent->layer, parent, path, aim);
}

/* For calls that, with an empty path, are about `parent` itself. */
static fdb_error_t aim_at_itself(const keel_directory *parent, keel_path path, struct aim *aim) {
    if (parent && parent->kind == DIRECTORY_PARTITION_KIND && path.count == 0)
        return aim_at(parent->parent, parent, path, aim);
    return aim_inside(parent, path, aim);
}

/* ---- Descend ---- */

struct request {
    FDBTransaction *tr;
    bool snapshot;
    bool writes;         /* claim the version on the way */
    bool root_refused;   /* an empty path is DIRECTORY_ROOT */
    bool prefix_given;   /* DIRECTORY_MANUAL_PREFIXES where the layer does not allow it */
    bool into_partition; /* a path that ends at a partition goes on to the root inside */
};

/* Where a descent has ended: in which layer, with what path left, at which node. */
struct place {
    keel_directory_layer *layer; /* retained */
    keel_path path;
    enum directory_version version;
    struct directory_finder finder;
};

static void place_init(struct place *place) {
    place->layer = NULL;
    directory_finder_init(&place->finder);
}

static void place_free(struct place *place) {
    directory_finder_free(&place->finder);
    directory_layer_release(place->layer);
}

/* What is wrong with a request before anything is read. */
static fdb_error_t refuse(const struct request *request, const keel_directory_layer *layer,
                          keel_path path) {
    if (request->prefix_given && !layer->manual_prefixes)
        return KEEL_ERROR_DIRECTORY_MANUAL_PREFIXES;
    if (request->root_refused && path.count == 0)
        return KEEL_ERROR_DIRECTORY_ROOT;
    return directory_path_check_text(path);
}

/* Waits for the version and, for a call that writes, claims it. */
static fdb_error_t check_version(FDBTransaction *tr, const keel_directory_layer *layer, bool writes,
                                 FDBFuture *future, enum directory_version *version) {
    fdb_error_t error = directory_version_wait(future, version);
    if (!error && writes)
        error = directory_version_claim(tr, layer, *version);
    return error;
}

/* One layer of a descent: version, refusals, walk. */
static fdb_error_t descend_once(const struct request *request, struct place *place) {
    FDBFuture *version = NULL;
    fdb_error_t refusal = refuse(request, place->layer, place->path);
    fdb_error_t error =
        directory_version_start(request->tr, place->layer, request->snapshot, &version);
    if (!error && !refusal)
        error = directory_finder_start(&place->finder, request->tr, place->layer, place->path,
                                       request->snapshot);
    if (!error)
        error = check_version(request->tr, place->layer, request->writes, version, &place->version);
    directory_future_drop(&version);
    if (!error)
        error = refusal;
    return error ? error : directory_finder_finish(&place->finder);
}

/* Goes on in the layer inside the partition that the walk has ended at. */
static fdb_error_t enter_partition(struct place *place) {
    const struct directory_finder *finder = &place->finder;
    keel_directory_layer *inside;
    fdb_error_t error =
        directory_layer_inside(place->layer, directory_path_first(place->path, finder->depth),
                               directory_key_bytes(&finder->prefix), &inside);
    if (error)
        return error;
    directory_layer_release(place->layer);
    place->layer = inside;
    place->path = directory_path_rest(place->path, finder->depth);
    return 0;
}

static fdb_error_t descend(const struct request *request, const struct aim *aim,
                           struct place *place) {
    place->layer = directory_layer_retain(aim->layer);
    place->path = aim->path;
    for (;;) {
        fdb_error_t error = descend_once(request, place);
        if (error || !directory_finder_in_partition(&place->finder, request->into_partition))
            return error;
        error = enter_partition(place);
        if (error)
            return error;
    }
}

/* ---- Create and open ---- */

/* What create_or_open, open and create differ in. */
struct opening {
    keel_bytes tag;
    const keel_bytes *prefix; /* given by the caller, or NULL */
    bool may_create, may_open;
};

static fdb_error_t open_existing(const struct place *place, const struct opening *opening,
                                 keel_directory **directory) {
    keel_bytes tag = directory_key_bytes(&place->finder.tag);
    if (!opening->may_open)
        return KEEL_ERROR_DIRECTORY_EXISTS;
    if (opening->tag.length > 0 && !directory_bytes_equal(opening->tag, tag))
        return KEEL_ERROR_DIRECTORY_LAYER;
    return directory_new(place->layer, place->path, directory_key_bytes(&place->finder.prefix), tag,
                         directory);
}

/*
 * Finds a prefix for each missing name, the deepest first, into prefixes[0 .. count). A parent's
 * prefix is also held against the one that was given, which is not in the database yet.
 */
static fdb_error_t find_prefixes(FDBTransaction *tr, const keel_directory_layer *layer,
                                 const keel_bytes *given, struct directory_key *prefixes,
                                 size_t count) {
    fdb_error_t error = 0;
    for (size_t i = count; i-- > 0 && !error;) {
        if (given && i == count - 1) {
            error = directory_prefix_check(tr, layer, *given);
            directory_key_append(&prefixes[i], *given);
        } else {
            error = directory_prefix_allocate(tr, layer, &prefixes[i]);
        }
        if (!error)
            error = prefixes[i].error;
        if (!error && given && i < count - 1) {
            keel_bytes allocated = directory_key_bytes(&prefixes[i]);
            if (directory_bytes_begin(allocated, *given) ||
                directory_bytes_begin(*given, allocated))
                error = KEEL_ERROR_DIRECTORY_PREFIX_IN_USE;
        }
    }
    return error;
}

/* Writes a node for each missing name, from the top: `names` below the node of `parent`. */
static fdb_error_t write_nodes(FDBTransaction *tr, const keel_directory_layer *layer,
                               keel_bytes parent, keel_path names,
                               const struct directory_key *prefixes, keel_bytes tag) {
    fdb_error_t error = 0;
    for (size_t i = 0; i < names.count && !error; i++) {
        keel_bytes prefix = directory_key_bytes(&prefixes[i]);
        bool last = i + 1 == names.count;
        error = directory_entry_write(tr, layer, parent, names.names[i], prefix);
        if (!error)
            error = directory_tag_write(tr, layer, prefix, last ? tag : (keel_bytes){NULL, 0});
        parent = prefix;
    }
    return error;
}

static fdb_error_t create_missing(FDBTransaction *tr, const struct place *place,
                                  const struct opening *opening, keel_directory **directory) {
    keel_path missing = directory_path_rest(place->path, place->finder.depth - 1);
    fdb_error_t error = directory_version_claim(tr, place->layer, place->version);
    if (error)
        return error;
    struct directory_key *prefixes = malloc(missing.count * sizeof *prefixes);
    if (!prefixes)
        return DIRECTORY_NO_MEMORY;
    for (size_t i = 0; i < missing.count; i++)
        directory_key_init(&prefixes[i]);

    keel_directory *made = NULL;
    error = find_prefixes(tr, place->layer, opening->prefix, prefixes, missing.count);
    if (!error)
        error =
            directory_new(place->layer, place->path,
                          directory_key_bytes(&prefixes[missing.count - 1]), opening->tag, &made);
    if (!error)
        error = write_nodes(tr, place->layer, directory_key_bytes(&place->finder.above), missing,
                            prefixes, opening->tag);
    if (!error)
        *directory = made;
    else
        keel_directory_close(made);
    for (size_t i = 0; i < missing.count; i++)
        directory_key_free(&prefixes[i]);
    free(prefixes);
    return error;
}

/* Hands a directory to the caller, or closes it if it is not wanted. */
static void hand_out(keel_directory *made, keel_directory **directory) {
    if (directory)
        *directory = made;
    else
        keel_directory_close(made);
}

static fdb_error_t create_or_open(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                  const struct opening *opening, bool snapshot,
                                  keel_directory **directory) {
    struct request request = {.tr = tr,
                              .snapshot = snapshot,
                              .root_refused = true,
                              .prefix_given = opening->prefix != NULL};
    struct aim aim;
    struct place place;
    keel_directory *made = NULL;
    bool prefix_fine = !opening->prefix || opening->prefix->data || opening->prefix->length == 0;
    if (!tr || !prefix_fine || (opening->tag.length > 0 && !opening->tag.data))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = aim_inside(parent, path, &aim);
    if (error)
        return error;
    place_init(&place);
    error = descend(&request, &aim, &place);
    if (!error && place.finder.exists)
        error = open_existing(&place, opening, &made);
    else if (!error && !opening->may_create)
        error = KEEL_ERROR_DIRECTORY_MISSING;
    else if (!error)
        error = create_missing(tr, &place, opening, &made);
    if (!error)
        hand_out(made, directory);
    place_free(&place);
    aim_free(&aim);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_create_or_open(FDBTransaction *tr,
                                                      const keel_directory *parent, keel_path path,
                                                      keel_bytes layer,
                                                      keel_directory **directory) {
    struct opening opening = {.tag = layer, .may_create = true, .may_open = true};
    return create_or_open(tr, parent, path, &opening, false, directory);
}

KEEL_EXPORT fdb_error_t keel_directory_open(FDBTransaction *tr, const keel_directory *parent,
                                            keel_path path, keel_bytes layer,
                                            keel_directory **directory) {
    struct opening opening = {.tag = layer, .may_open = true};
    return create_or_open(tr, parent, path, &opening, false, directory);
}

KEEL_EXPORT fdb_error_t keel_directory_open_snapshot(FDBTransaction *tr,
                                                     const keel_directory *parent, keel_path path,
                                                     keel_bytes layer, keel_directory **directory) {
    struct opening opening = {.tag = layer, .may_open = true};
    return create_or_open(tr, parent, path, &opening, true, directory);
}

KEEL_EXPORT fdb_error_t keel_directory_create(FDBTransaction *tr, const keel_directory *parent,
                                              keel_path path, keel_bytes layer,
                                              const keel_bytes *prefix,
                                              keel_directory **directory) {
    struct opening opening = {.tag = layer, .prefix = prefix, .may_create = true};
    return create_or_open(tr, parent, path, &opening, false, directory);
}

/* ---- Move ---- */

/* Both ends of a move in one layer. */
struct move {
    FDBTransaction *tr;
    keel_directory_layer *layer; /* retained */
    keel_path from, to;
    struct directory_finder source, target;
};

static bool move_into_self(const struct move *move) {
    return move->from.count <= move->to.count &&
           directory_paths_equal(move->from, directory_path_first(move->to, move->from.count));
}

/* Walks both paths, in turn. */
static fdb_error_t find_both(struct move *move) {
    fdb_error_t error = 0;
    while (!error && !(move->source.done && move->target.done)) {
        if (!move->source.done)
            error = directory_finder_step(&move->source);
        if (!error && !move->target.done)
            error = directory_finder_step(&move->target);
    }
    return error;
}

/* One layer of a move: version, refusals, both walks. */
static fdb_error_t move_descend(struct move *move) {
    FDBFuture *future = NULL;
    enum directory_version version;
    fdb_error_t refusal = directory_path_check_text(move->from);
    if (!refusal)
        refusal = directory_path_check_text(move->to);
    if (!refusal && move_into_self(move))
        refusal = KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF;
    fdb_error_t error = directory_version_start(move->tr, move->layer, false, &future);
    if (!error && !refusal)
        error = directory_finder_start(&move->source, move->tr, move->layer, move->from, false);
    if (!error && !refusal)
        error = directory_finder_start(&move->target, move->tr, move->layer, move->to, false);
    if (!error)
        error = check_version(move->tr, move->layer, true, future, &version);
    directory_future_drop(&future);
    if (!error)
        error = refusal;
    return error ? error : find_both(move);
}

/* If both ends lie in the same partition, goes on in there. */
static fdb_error_t move_enter(struct move *move, bool *entered) {
    bool source_inside = directory_finder_in_partition(&move->source, false);
    bool target_inside = directory_finder_in_partition(&move->target, false);
    *entered = false;
    if (!move->source.exists)
        return KEEL_ERROR_DIRECTORY_MISSING;
    if (!source_inside && !target_inside)
        return 0;
    keel_path partition = directory_path_first(move->from, move->source.depth);
    if (!source_inside || !target_inside ||
        !directory_paths_equal(partition, directory_path_first(move->to, move->target.depth)))
        return KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS;
    keel_directory_layer *inside;
    fdb_error_t error = directory_layer_inside(move->layer, partition,
                                               directory_key_bytes(&move->source.prefix), &inside);
    if (error)
        return error;
    directory_layer_release(move->layer);
    move->layer = inside;
    move->from = directory_path_rest(move->from, move->source.depth);
    move->to = directory_path_rest(move->to, move->target.depth);
    *entered = true;
    return 0;
}

/* Hangs the node of the source below the parent of the target. */
static fdb_error_t move_entry(struct move *move, keel_directory **directory) {
    if (move->target.exists)
        return KEEL_ERROR_DIRECTORY_EXISTS;
    if (move->target.depth < move->to.count)
        return KEEL_ERROR_DIRECTORY_PARENT_MISSING;
    keel_bytes prefix = directory_key_bytes(&move->source.prefix);
    keel_directory *moved;
    fdb_error_t error = directory_new(move->layer, move->to, prefix,
                                      directory_key_bytes(&move->source.tag), &moved);
    if (error)
        return error;
    error = directory_entry_write(move->tr, move->layer, directory_key_bytes(&move->target.above),
                                  move->to.names[move->to.count - 1], prefix);
    if (!error)
        error =
            directory_entry_clear(move->tr, move->layer, directory_key_bytes(&move->source.above),
                                  move->from.names[move->from.count - 1]);
    if (!error)
        *directory = moved;
    else
        keel_directory_close(moved);
    return error;
}

static fdb_error_t move_between(FDBTransaction *tr, keel_directory_layer *layer, keel_path from,
                                keel_path to, keel_directory **directory) {
    struct move move = {.tr = tr, .layer = directory_layer_retain(layer), .from = from, .to = to};
    keel_directory *moved = NULL;
    bool entered = true;
    fdb_error_t error = 0;
    directory_finder_init(&move.source);
    directory_finder_init(&move.target);
    while (!error && entered) {
        error = move_descend(&move);
        if (!error)
            error = move_enter(&move, &entered);
    }
    if (!error)
        error = move_entry(&move, &moved);
    if (!error)
        hand_out(moved, directory);
    directory_finder_free(&move.source);
    directory_finder_free(&move.target);
    directory_layer_release(move.layer);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_move(FDBTransaction *tr, const keel_directory *parent,
                                            keel_path from, keel_path to,
                                            keel_directory **directory) {
    struct aim source, target;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = aim_inside(parent, from, &source);
    if (error)
        return error;
    error = aim_inside(parent, to, &target);
    if (!error) {
        error = move_between(tr, source.layer, source.path, target.path, directory);
        aim_free(&target);
    }
    aim_free(&source);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_move_to(FDBTransaction *tr, const keel_directory *directory,
                                               keel_path to, keel_directory **moved) {
    struct aim source;
    keel_path none = {NULL, 0};
    if (!tr || !directory)
        return KEEL_ERROR_ARGUMENT;
    if (directory->kind == DIRECTORY_ROOT_KIND)
        return KEEL_ERROR_DIRECTORY_ROOT;
    fdb_error_t error = directory_path_check_pointers(to);
    if (!error)
        error = directory_path_check_text(to);
    if (!error)
        error = aim_at_itself(directory, none, &source);
    if (error)
        return error;
    keel_path above = source.layer->root.path;
    if (to.count < above.count ||
        !directory_paths_equal(above, directory_path_first(to, above.count)))
        error = KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS;
    else
        error = move_between(tr, source.layer, source.path, directory_path_rest(to, above.count),
                             moved);
    aim_free(&source);
    return error;
}

/* ---- Remove ---- */

static fdb_error_t remove_found(FDBTransaction *tr, const struct place *place) {
    const struct directory_finder *finder = &place->finder;
    fdb_error_t error =
        directory_tree_remove(tr, place->layer, directory_key_bytes(&finder->prefix));
    return error ? error
                 : directory_entry_clear(tr, place->layer, directory_key_bytes(&finder->above),
                                         place->path.names[place->path.count - 1]);
}

KEEL_EXPORT fdb_error_t keel_directory_remove_if_exists(FDBTransaction *tr,
                                                        const keel_directory *parent,
                                                        keel_path path, int *existed) {
    struct request request = {.tr = tr, .writes = true, .root_refused = true};
    struct aim aim;
    struct place place;
    if (!tr)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = aim_at_itself(parent, path, &aim);
    if (error)
        return error;
    place_init(&place);
    error = descend(&request, &aim, &place);
    bool found = !error && place.finder.exists;
    if (found)
        error = remove_found(tr, &place);
    if (!error && existed)
        *existed = found;
    place_free(&place);
    aim_free(&aim);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_remove(FDBTransaction *tr, const keel_directory *parent,
                                              keel_path path) {
    int existed;
    fdb_error_t error = keel_directory_remove_if_exists(tr, parent, path, &existed);
    return error || existed ? error : KEEL_ERROR_DIRECTORY_MISSING;
}

/* ---- Look ---- */

static fdb_error_t exists_at(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                             bool snapshot, int *exists) {
    struct request request = {.tr = tr, .snapshot = snapshot};
    struct aim aim;
    struct place place;
    if (!tr || !exists)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = aim_at_itself(parent, path, &aim);
    if (error)
        return error;
    place_init(&place);
    error = descend(&request, &aim, &place);
    if (!error)
        *exists = place.finder.exists;
    place_free(&place);
    aim_free(&aim);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_exists(FDBTransaction *tr, const keel_directory *parent,
                                              keel_path path, int *exists) {
    return exists_at(tr, parent, path, false, exists);
}

KEEL_EXPORT fdb_error_t keel_directory_exists_snapshot(FDBTransaction *tr,
                                                       const keel_directory *parent, keel_path path,
                                                       int *exists) {
    return exists_at(tr, parent, path, true, exists);
}

static fdb_error_t list_at(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                           bool snapshot, keel_directory_visitor visit, void *context) {
    struct request request = {.tr = tr, .snapshot = snapshot, .into_partition = true};
    struct aim aim;
    struct place place;
    if (!tr || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = aim_inside(parent, path, &aim);
    if (error)
        return error;
    place_init(&place);
    error = descend(&request, &aim, &place);
    if (!error && !place.finder.exists)
        error = KEEL_ERROR_DIRECTORY_MISSING;
    if (!error)
        error = directory_tree_list(tr, place.layer, directory_key_bytes(&place.finder.prefix),
                                    snapshot, visit, context);
    place_free(&place);
    aim_free(&aim);
    return error;
}

KEEL_EXPORT fdb_error_t keel_directory_list(FDBTransaction *tr, const keel_directory *parent,
                                            keel_path path, keel_directory_visitor visit,
                                            void *context) {
    return list_at(tr, parent, path, false, visit, context);
}

KEEL_EXPORT fdb_error_t keel_directory_list_snapshot(FDBTransaction *tr,
                                                     const keel_directory *parent, keel_path path,
                                                     keel_directory_visitor visit, void *context) {
    return list_at(tr, parent, path, true, visit, context);
}
