/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions on directories and subspaces. A machine has a list of them, an index of the current
 * one, and one for when that is missing. Entry 0 is the default directory layer.
 *
 * Errors: whatever goes wrong becomes the byte string DIRECTORY_ERROR, and an instruction that
 * appends to the list appends nothing in its place (DIRECTORY_NONE).
 *
 * The layer's own operations go through `struct call`: the arguments and results of one operation,
 * performed on a transaction by perform_call, which the retry loop may call again.
 */
#include "machine.h"

#include <stdlib.h>

enum directory_kind { DIRECTORY_NONE, DIRECTORY_SUBSPACE, DIRECTORY_LAYER, DIRECTORY_DIRECTORY };

struct directory_entry {
    enum directory_kind kind;
    struct buffer prefix;        /* of a subspace */
    keel_directory_layer *layer; /* ours */
    keel_directory *directory;   /* ours */
};

/* Not a code of the layer: the operation makes no sense on this entry. */
enum { ERROR_WRONG_KIND = 100000 };

/* ---- The list ---- */

static void list_append(struct directories *directories, struct directory_entry entry) {
    size_t bytes = (directories->count + 1) * sizeof *directories->entries;
    directories->entries = allocate_more(directories->entries, bytes);
    directories->entries[directories->count++] = entry;
}

void directories_init(struct directories *directories) {
    *directories = (struct directories){0};
    list_append(directories, (struct directory_entry){.kind = DIRECTORY_LAYER,
                                                      .layer = keel_directory_layer_default()});
}

void directories_free(struct directories *directories) {
    for (size_t i = 0; i < directories->count; i++) {
        struct directory_entry *entry = &directories->entries[i];
        buffer_free(&entry->prefix);
        keel_directory_close(entry->directory);
        keel_directory_layer_destroy(entry->layer);
    }
    free(directories->entries);
}

static struct directory_entry *entry_at(struct machine *machine, int64_t index) {
    if (index < 0 || (uint64_t)index >= machine->directories.count)
        fail("%s with directory %lld of %zu", machine->operation, (long long)index,
             machine->directories.count);
    return &machine->directories.entries[index];
}

static struct directory_entry *current_entry(struct machine *machine) {
    return entry_at(machine, machine->directories.index);
}

/* Pushes DIRECTORY_ERROR if there was an error. */
static fdb_error_t finish(struct machine *machine, fdb_error_t error) {
    if (error)
        push_text(machine, "DIRECTORY_ERROR");
    return 0;
}

/* The same, and appends the entry, or none. */
static fdb_error_t finish_append(struct machine *machine, fdb_error_t error,
                                 struct directory_entry entry) {
    list_append(&machine->directories, error ? (struct directory_entry){0} : entry);
    return finish(machine, error);
}

/* The entry as a directory, on which the layer's operations work. */
static fdb_error_t as_directory(const struct directory_entry *entry,
                                const keel_directory **directory) {
    if (entry->kind == DIRECTORY_LAYER)
        *directory = keel_directory_root(entry->layer);
    else if (entry->kind == DIRECTORY_DIRECTORY)
        *directory = entry->directory;
    else
        return ERROR_WRONG_KIND;
    return 0;
}

/* The prefix of the entry's keys. */
static fdb_error_t as_prefix(const struct directory_entry *entry, keel_bytes *prefix) {
    if (entry->kind == DIRECTORY_DIRECTORY)
        return keel_directory_prefix(entry->directory, prefix);
    if (entry->kind != DIRECTORY_SUBSPACE)
        return ERROR_WRONG_KIND;
    *prefix = buffer_bytes(&entry->prefix);
    return 0;
}

/* ---- Operations of the layer ---- */

enum call_kind {
    CALL_CREATE_OR_OPEN,
    CALL_CREATE,
    CALL_OPEN,
    CALL_MOVE,
    CALL_MOVE_TO,
    CALL_REMOVE,
    CALL_REMOVE_IF_EXISTS,
    CALL_LIST,
    CALL_EXISTS
};

struct call {
    enum call_kind kind;
    bool snapshot;
    const keel_directory *directory;
    keel_path path, to;
    keel_bytes layer, prefix;
    bool has_prefix;
    struct pool pool; /* of the paths */

    keel_directory *result;
    int exists;
    struct buffer names; /* packed as a tuple */
};

static fdb_error_t append_name(void *context, keel_bytes name) {
    return tuple_append(KEEL_TUPLE(KEEL_TEXT((const char *)name.data, name.length)), false,
                        context);
}

static fdb_error_t perform_read(FDBTransaction *transaction, struct call *call) {
    const keel_directory *directory = call->directory;
    switch (call->kind) {
    case CALL_OPEN:
        return (call->snapshot ? keel_directory_open_snapshot : keel_directory_open)(
            transaction, directory, call->path, call->layer, &call->result);
    case CALL_LIST:
        call->names.length = 0;
        return (call->snapshot ? keel_directory_list_snapshot : keel_directory_list)(
            transaction, directory, call->path, append_name, &call->names);
    default:
        return (call->snapshot ? keel_directory_exists_snapshot : keel_directory_exists)(
            transaction, directory, call->path, &call->exists);
    }
}

/* A keel_function. */
static fdb_error_t perform_call(FDBTransaction *transaction, void *context) {
    struct call *call = context;
    const keel_directory *directory = call->directory;
    keel_directory_close(call->result);
    call->result = NULL;
    switch (call->kind) {
    case CALL_CREATE_OR_OPEN:
        return keel_directory_create_or_open(transaction, directory, call->path, call->layer,
                                             &call->result);
    case CALL_CREATE:
        return keel_directory_create(transaction, directory, call->path, call->layer,
                                     call->has_prefix ? &call->prefix : NULL, &call->result);
    case CALL_MOVE:
        return keel_directory_move(transaction, directory, call->path, call->to, &call->result);
    case CALL_MOVE_TO:
        return keel_directory_move_to(transaction, directory, call->to, &call->result);
    case CALL_REMOVE:
        return keel_directory_remove(transaction, directory, call->path);
    case CALL_REMOVE_IF_EXISTS:
        return keel_directory_remove_if_exists(transaction, directory, call->path, &call->exists);
    default:
        return perform_read(transaction, call);
    }
}

static fdb_error_t run_call(struct machine *machine, struct call *call) {
    call->snapshot = machine->is_snapshot;
    fdb_error_t error = as_directory(current_entry(machine), &call->directory);
    if (!error && machine_is_alone(machine))
        error = machine_run_alone(machine, perform_call, call);
    else if (!error)
        error = perform_call(machine_transaction(machine), call);
    if (error) {
        keel_directory_close(call->result);
        call->result = NULL;
    }
    pool_free(&call->pool);
    return error;
}

static keel_path pop_path(struct machine *machine, struct call *call) {
    keel_tuple tuple = pop_tuple(machine);
    keel_bytes *names = pool_take(&call->pool, tuple.count * sizeof *names);
    for (size_t i = 0; i < tuple.count; i++) {
        if (tuple.elements[i].type != KEEL_TYPE_STRING && tuple.elements[i].type != KEEL_TYPE_BYTES)
            fail("%s: a name that is no string", machine->operation);
        names[i] = tuple.elements[i].value.as_bytes;
    }
    return (keel_path){names, tuple.count};
}

/* A string, or nothing for null. */
static keel_bytes pop_optional(struct machine *machine, bool *present) {
    struct value *value = pop(machine);
    *present = !value_is_null(value);
    return *present ? value_as_bytes(value) : KEEL_BYTES(NULL, 0);
}

/* For those whose path is optional. */
static void pop_optional_path(struct machine *machine, struct call *call) {
    if (pop_int(machine) != 0)
        call->path = pop_path(machine, call);
}

static fdb_error_t run_append(struct machine *machine, struct call *call) {
    fdb_error_t error = run_call(machine, call);
    return finish_append(
        machine, error,
        (struct directory_entry){.kind = DIRECTORY_DIRECTORY, .directory = call->result});
}

static fdb_error_t do_create_or_open(struct machine *machine) {
    struct call call = {.kind = CALL_CREATE_OR_OPEN};
    bool present;
    call.path = pop_path(machine, &call);
    call.layer = pop_optional(machine, &present);
    return run_append(machine, &call);
}

static fdb_error_t do_create(struct machine *machine) {
    struct call call = {.kind = CALL_CREATE};
    bool present;
    call.path = pop_path(machine, &call);
    call.layer = pop_optional(machine, &present);
    call.prefix = pop_optional(machine, &call.has_prefix);
    return run_append(machine, &call);
}

static fdb_error_t do_open(struct machine *machine) {
    struct call call = {.kind = CALL_OPEN};
    bool present;
    call.path = pop_path(machine, &call);
    call.layer = pop_optional(machine, &present);
    return run_append(machine, &call);
}

static fdb_error_t do_move(struct machine *machine) {
    struct call call = {.kind = CALL_MOVE};
    call.path = pop_path(machine, &call);
    call.to = pop_path(machine, &call);
    return run_append(machine, &call);
}

static fdb_error_t do_move_to(struct machine *machine) {
    struct call call = {.kind = CALL_MOVE_TO};
    call.to = pop_path(machine, &call);
    return run_append(machine, &call);
}

static fdb_error_t do_remove(struct machine *machine) {
    struct call call = {.kind = CALL_REMOVE};
    pop_optional_path(machine, &call);
    return finish(machine, run_call(machine, &call));
}

static fdb_error_t do_remove_if_exists(struct machine *machine) {
    struct call call = {.kind = CALL_REMOVE_IF_EXISTS};
    pop_optional_path(machine, &call);
    return finish(machine, run_call(machine, &call));
}

static fdb_error_t do_list(struct machine *machine) {
    struct call call = {.kind = CALL_LIST};
    pop_optional_path(machine, &call);
    fdb_error_t error = run_call(machine, &call);
    if (!error)
        push_bytes(machine, buffer_bytes(&call.names));
    buffer_free(&call.names);
    return finish(machine, error);
}

static fdb_error_t do_exists(struct machine *machine) {
    struct call call = {.kind = CALL_EXISTS};
    pop_optional_path(machine, &call);
    fdb_error_t error = run_call(machine, &call);
    if (!error)
        push(machine, value_int(call.exists != 0));
    return finish(machine, error);
}

/* ---- Making entries, choosing the current one ---- */

static fdb_error_t do_create_subspace(struct machine *machine) {
    struct directory_entry entry = {.kind = DIRECTORY_SUBSPACE};
    keel_tuple path = pop_tuple(machine);
    keel_bytes raw = pop_bytes(machine);
    buffer_append(&entry.prefix, raw.data, raw.length);
    fdb_error_t error = tuple_append(path, false, &entry.prefix);
    if (error)
        buffer_free(&entry.prefix);
    return finish_append(machine, error, entry);
}

static fdb_error_t do_create_layer(struct machine *machine) {
    struct directory_entry entry = {.kind = DIRECTORY_LAYER};
    const struct directory_entry *nodes = entry_at(machine, pop_int(machine));
    const struct directory_entry *contents = entry_at(machine, pop_int(machine));
    bool manual = pop_int(machine) == 1;
    if (nodes->kind == DIRECTORY_NONE || contents->kind == DIRECTORY_NONE) {
        list_append(&machine->directories, (struct directory_entry){0});
        return 0;
    }
    keel_bytes node_prefix, content_prefix;
    fdb_error_t error = as_prefix(nodes, &node_prefix);
    if (!error)
        error = as_prefix(contents, &content_prefix);
    if (!error)
        error = keel_directory_layer_create(node_prefix, content_prefix, manual, &entry.layer);
    return finish_append(machine, error, entry);
}

static fdb_error_t do_change(struct machine *machine) {
    int64_t index = pop_int(machine);
    machine->directories.index =
        entry_at(machine, index)->kind == DIRECTORY_NONE ? machine->directories.error_index : index;
    return 0;
}

static fdb_error_t do_set_error_index(struct machine *machine) {
    machine->directories.error_index = pop_int(machine);
    return 0;
}

/* ---- Subspaces ----
 *
 * A keel_subspace has room for short prefixes. Longer ones do occur here (they do not in programs),
 * and are served by the functions on tuples with a prefix.
 */

static fdb_error_t subspace_pack(keel_bytes prefix, keel_tuple tuple, struct buffer *packed) {
    keel_subspace subspace;
    size_t length = 0;
    if (keel_subspace_raw(prefix, &subspace) != 0) {
        buffer_append(packed, prefix.data, prefix.length);
        return tuple_append(tuple, false, packed);
    }
    fdb_error_t error = keel_subspace_pack(&subspace, tuple, NULL, 0, &length);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL) {
        uint8_t *bytes = allocate(length);
        error = keel_subspace_pack(&subspace, tuple, bytes, length, &length);
        if (!error)
            buffer_append(packed, bytes, length);
        free(bytes);
    }
    return error;
}

static fdb_error_t subspace_unpack(keel_bytes prefix, keel_bytes key,
                                   keel_tuple_iterator *iterator) {
    keel_subspace subspace;
    if (keel_subspace_raw(prefix, &subspace) == 0)
        return keel_subspace_unpack(&subspace, key, iterator);
    *iterator = keel_tuple_iterate_behind(key, prefix.length);
    return bytes_begin_with(key, prefix) ? 0 : KEEL_ERROR_NOT_IN_SUBSPACE;
}

static bool subspace_contains(keel_bytes prefix, keel_bytes key) {
    keel_subspace subspace;
    if (keel_subspace_raw(prefix, &subspace) == 0)
        return keel_subspace_contains(&subspace, key);
    return bytes_begin_with(key, prefix);
}

/* A byte string, or the error: an instruction before may have left something else in its place. */
static fdb_error_t pop_key(struct machine *machine, keel_bytes *key) {
    const keel_element *element = &pop(machine)->element;
    if (element->type != KEEL_TYPE_BYTES)
        return ERROR_WRONG_KIND;
    *key = element->value.as_bytes;
    return 0;
}

/* The same, and the prefix of the current entry. */
static fdb_error_t pop_key_and_prefix(struct machine *machine, keel_bytes *key,
                                      keel_bytes *prefix) {
    fdb_error_t error = pop_key(machine, key);
    return error ? error : as_prefix(current_entry(machine), prefix);
}

static fdb_error_t do_pack_key(struct machine *machine) {
    keel_tuple tuple = pop_tuple(machine);
    struct buffer packed = {0};
    keel_bytes prefix;
    fdb_error_t error = as_prefix(current_entry(machine), &prefix);
    if (!error)
        error = subspace_pack(prefix, tuple, &packed);
    if (!error)
        push_bytes(machine, buffer_bytes(&packed));
    buffer_free(&packed);
    return finish(machine, error);
}

static fdb_error_t do_unpack_key(struct machine *machine) {
    struct pool pool = {0};
    keel_tuple_iterator iterator;
    keel_tuple tuple = {0};
    keel_bytes key, prefix;
    fdb_error_t error = pop_key_and_prefix(machine, &key, &prefix);
    if (!error)
        error = subspace_unpack(prefix, key, &iterator);
    if (!error)
        error = tuple_decode(iterator, &pool, &tuple);
    for (size_t i = 0; !error && i < tuple.count; i++)
        push(machine, value_element(&tuple.elements[i]));
    pool_free(&pool);
    return finish(machine, error);
}

static fdb_error_t do_range(struct machine *machine) {
    keel_tuple tuple = pop_tuple(machine);
    keel_bytes prefix;
    size_t capacity = 0, length;
    fdb_error_t error = as_prefix(current_entry(machine), &prefix);
    if (error)
        return finish(machine, error);
    error = keel_tuple_range_prefix(prefix, tuple, NULL, NULL, 0, &capacity);
    if (error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return finish(machine, error ? error : ERROR_WRONG_KIND);
    uint8_t *begin = allocate(capacity), *end = allocate(capacity);
    error = keel_tuple_range_prefix(prefix, tuple, begin, end, capacity, &length);
    if (!error) {
        push_bytes(machine, KEEL_BYTES(begin, length));
        push_bytes(machine, KEEL_BYTES(end, length));
    }
    free(begin);
    free(end);
    return finish(machine, error);
}

static fdb_error_t do_contains(struct machine *machine) {
    keel_bytes key, prefix;
    fdb_error_t error = pop_key_and_prefix(machine, &key, &prefix);
    if (!error)
        push(machine, value_int(subspace_contains(prefix, key)));
    return finish(machine, error);
}

static fdb_error_t do_open_subspace(struct machine *machine) {
    struct directory_entry entry = {.kind = DIRECTORY_SUBSPACE};
    keel_tuple tuple = pop_tuple(machine);
    keel_bytes prefix;
    fdb_error_t error = as_prefix(current_entry(machine), &prefix);
    if (!error)
        error = subspace_pack(prefix, tuple, &entry.prefix);
    if (error)
        buffer_free(&entry.prefix);
    return finish_append(machine, error, entry);
}

static fdb_error_t do_strip_prefix(struct machine *machine) {
    keel_bytes bytes, prefix;
    fdb_error_t error = pop_key_and_prefix(machine, &bytes, &prefix);
    if (!error && !bytes_begin_with(bytes, prefix))
        error = KEEL_ERROR_NOT_IN_SUBSPACE;
    if (!error)
        push_bytes(machine, KEEL_BYTES(bytes.data + prefix.length, bytes.length - prefix.length));
    return finish(machine, error);
}

/* ---- Logging ---- */

static fdb_error_t do_log_subspace(struct machine *machine) {
    struct buffer key = {0};
    keel_bytes log = pop_bytes(machine), prefix;
    buffer_append(&key, log.data, log.length);
    must(tuple_append(KEEL_TUPLE(machine->directories.index), false, &key),
         "the key of a logged subspace");
    fdb_error_t error = as_prefix(current_entry(machine), &prefix);
    if (!error)
        fdb_transaction_set(machine_transaction(machine), key.data, (int)key.length, prefix.data,
                            (int)prefix.length);
    buffer_free(&key);
    return finish(machine, error);
}

/* Sets log[index, name] to the packed tuple. */
static void log_tuple(struct machine *machine, keel_bytes log, const char *name, keel_tuple tuple) {
    struct buffer key = {0}, value = {0};
    buffer_append(&key, log.data, log.length);
    must(tuple_append(KEEL_TUPLE(machine->directories.index, name), false, &key),
         "the key of a logged directory");
    must(tuple_append(tuple, false, &value), "a logged directory");
    fdb_transaction_set(machine_transaction(machine), key.data, (int)key.length, value.data,
                        (int)value.length);
    buffer_free(&key);
    buffer_free(&value);
}

static void log_directory(struct machine *machine, keel_bytes log, const keel_directory *directory,
                          int exists, keel_bytes children) {
    struct pool pool = {0};
    keel_path path = keel_directory_path(directory);
    keel_element *names = pool_take(&pool, path.count * sizeof *names);
    keel_tuple children_tuple;
    for (size_t i = 0; i < path.count; i++)
        names[i] = KEEL_TEXT((const char *)path.names[i].data, path.names[i].length);
    must(tuple_decode(keel_tuple_iterate(children), &pool, &children_tuple),
         "the children of a directory");
    log_tuple(machine, log, "path", keel_tuple_of(names, path.count));
    log_tuple(machine, log, "layer", KEEL_TUPLE(keel_directory_layer_of(directory)));
    log_tuple(machine, log, "exists", KEEL_TUPLE(exists != 0 ? 1 : 0));
    log_tuple(machine, log, "children", children_tuple);
    pool_free(&pool);
}

static fdb_error_t do_log_directory(struct machine *machine) {
    keel_bytes log = pop_bytes(machine);
    struct call exists = {.kind = CALL_EXISTS}, list = {.kind = CALL_LIST};
    fdb_error_t error = run_call(machine, &exists);
    if (!error && exists.exists)
        error = run_call(machine, &list);
    if (!error)
        log_directory(machine, log, exists.directory, exists.exists, buffer_bytes(&list.names));
    buffer_free(&list.names);
    return finish(machine, error);
}

const struct operation directory_operations[] = {
    {"DIRECTORY_CREATE_SUBSPACE", do_create_subspace},
    {"DIRECTORY_CREATE_LAYER", do_create_layer},
    {"DIRECTORY_CREATE_OR_OPEN", do_create_or_open},
    {"DIRECTORY_CREATE", do_create},
    {"DIRECTORY_OPEN", do_open},
    {"DIRECTORY_CHANGE", do_change},
    {"DIRECTORY_SET_ERROR_INDEX", do_set_error_index},
    {"DIRECTORY_MOVE", do_move},
    {"DIRECTORY_MOVE_TO", do_move_to},
    {"DIRECTORY_REMOVE", do_remove},
    {"DIRECTORY_REMOVE_IF_EXISTS", do_remove_if_exists},
    {"DIRECTORY_LIST", do_list},
    {"DIRECTORY_EXISTS", do_exists},
    {"DIRECTORY_PACK_KEY", do_pack_key},
    {"DIRECTORY_UNPACK_KEY", do_unpack_key},
    {"DIRECTORY_RANGE", do_range},
    {"DIRECTORY_CONTAINS", do_contains},
    {"DIRECTORY_OPEN_SUBSPACE", do_open_subspace},
    {"DIRECTORY_LOG_SUBSPACE", do_log_subspace},
    {"DIRECTORY_LOG_DIRECTORY", do_log_directory},
    {"DIRECTORY_STRIP_PREFIX", do_strip_prefix},
    {NULL, NULL},
};
