/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory layer: paths of names, like ("app", "users"), for short prefixes that the layer
 * hands out. Renaming a directory moves no data; removing one removes its contents and everything
 * below it. Compatible in both directions with the directory layers of FoundationDB's bindings.
 *
 *     keel_directory *users;
 *     keel_path path = KEEL_PATH("app", "users");
 *     error = keel_directory_create_or_open(tr, NULL, path, KEEL_NO_LAYER, &users);
 *     error = keel_directory_subspace(users, &subspace);
 *     …
 *     keel_directory_close(users);
 *
 * Every call takes a transaction, never commits it, blocks until it has read what it needs (not on
 * the network thread), and can be called again after any error: run it in keel_run. An error of the
 * layer (KEEL_ERROR_DIRECTORY_…) is an answer, not a reason to retry. After an error do not commit:
 * new directories are written last, but the allocator and the version key may have been touched.
 *
 * Paths are checked against the database in each call; a keel_directory remembers the path and the
 * prefix with which it was opened and does not notice that another client has moved or removed it.
 *
 * Threads: any number may use one layer and one directory at once; what a transaction allows is the
 * library's to say. Several calls may run in one transaction at the same time, also allocating
 * ones. A transaction with the option read_your_writes_disable must not create two directories.
 *
 * Memory: 1501 where there is none. Arguments are copied, results belong to whom each call says.
 */
#ifndef KEEL_DIRECTORY_H
#define KEEL_DIRECTORY_H

#include <keel/map.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A path: `count` names, each UTF-8 without a terminator. Borrowed memory; {NULL, 0}: the root. A name
 * whose key would be longer than 10,000 bytes makes the commit fail (2102).
 */
typedef struct keel_path {
    const keel_bytes *names;
    size_t count;
} keel_path;

#ifndef __cplusplus
/* KEEL_PATH("app", "users") makes a path of up to 32 C strings in place, valid until the end of the
   block it stands in; KEEL_PATH() is the root. */
#define KEEL_PATH(...)                                                                             \
    ((keel_path){&(const keel_bytes[]){{0}, KEEL_MAP(keel_bytes_of_string, __VA_ARGS__)}[1],       \
                 KEEL_COUNT(__VA_ARGS__)})
/* A layer tag from a C string, and none. */
#define KEEL_LAYER(text) keel_bytes_of_string(text)
#define KEEL_NO_LAYER keel_bytes_of(NULL, 0)
#endif

typedef struct keel_directory_layer keel_directory_layer; /* where nodes and contents live */
typedef struct keel_directory keel_directory;             /* an opened directory or partition */

/* ---- Directory layers ---- */

/* The layer that all programs share by default: nodes under 0xfe, contents everywhere, no manual
   prefixes. Static, never freed; destroying it is allowed and does nothing. */
keel_directory_layer *keel_directory_layer_default(void);

/*
 * A layer whose nodes lie under `node_prefix` and whose new directories get prefixes under
 * `content_prefix` (either may be empty, of any length). `allow_manual_prefixes` not 0: prefixes
 * may be given to keel_directory_create. Nothing is read or written. Destroy it when it is no
 * longer used to open directories; what was opened through it stays usable.
 */
fdb_error_t keel_directory_layer_create(keel_bytes node_prefix, keel_bytes content_prefix,
                                        int allow_manual_prefixes, keel_directory_layer **layer);
/* NULL is allowed. */
void keel_directory_layer_destroy(keel_directory_layer *layer);

/* The root of a layer, the parent from which all paths of the layer start. It belongs to the layer;
   closing it does nothing. */
keel_directory *keel_directory_root(keel_directory_layer *layer);

/* ---- Opening and creating ----
 *
 * `parent` NULL is the root of the default layer. `path` counts from `parent` and may lead through
 * partitions. `layer` is the tag of the directory: a new one gets it, an existing one must have it
 * (DIRECTORY_LAYER) unless it is empty, which stands for any. The tag "partition" makes a
 * partition: a directory whose contents are a directory layer of their own. Missing parents are
 * created without a tag.
 * `*directory` is new and the caller's, to be closed; pass NULL if it is not wanted.
 *
 * Errors of all: DIRECTORY_VERSION, NOT_UTF8, ARGUMENT, DIRECTORY_ROOT for the root of a layer or
 * partition, and those of the reads. Of calls that write: DIRECTORY_READ_ONLY. Of calls that
 * create: DIRECTORY_PREFIX_NOT_EMPTY if there are keys where the allocator wanted to put the
 * directory, DIRECTORY_PREFIX_IN_USE if a directory with a manual prefix is there.
 */
fdb_error_t keel_directory_create_or_open(FDBTransaction *tr, const keel_directory *parent,
                                          keel_path path, keel_bytes layer,
                                          keel_directory **directory);
/* DIRECTORY_MISSING. Writes nothing. */
fdb_error_t keel_directory_open(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                keel_bytes layer, keel_directory **directory);
/* DIRECTORY_EXISTS. `prefix` NULL: allocated; otherwise DIRECTORY_MANUAL_PREFIXES where the layer
   (or a partition, always) refuses, DIRECTORY_PREFIX_IN_USE if it is empty, or if it or a beginning
   or an extension of it belongs to a directory or to the layer's nodes; NO_SUCCESSOR if it is all
   0xff. */
fdb_error_t keel_directory_create(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                  keel_bytes layer, const keel_bytes *prefix,
                                  keel_directory **directory);

/* ---- Moving and removing ---- */

/*
 * Moves the directory at `from` to `to`, both from `parent`; its prefix, contents and
 * subdirectories stay with it. In this order: DIRECTORY_MOVE_INTO_SELF if `to` is `from` or below
 * it, DIRECTORY_MISSING, DIRECTORY_MOVE_PARTITIONS, DIRECTORY_EXISTS, DIRECTORY_PARENT_MISSING for
 * the place it goes to.
 */
fdb_error_t keel_directory_move(FDBTransaction *tr, const keel_directory *parent, keel_path from,
                                keel_path to, keel_directory **directory);
/* Moves an opened directory; `to` counts from the root of the layer, through all partitions.
   DIRECTORY_ROOT for the root of a layer, otherwise as above. `directory` stays open, with its old
   path. */
fdb_error_t keel_directory_move_to(FDBTransaction *tr, const keel_directory *directory,
                                   keel_path to, keel_directory **moved);

/* Removes a directory, its contents and all below it. DIRECTORY_MISSING. An empty path is the
   directory itself (of a partition: the partition as a whole); DIRECTORY_ROOT for the root of a
   layer. */
fdb_error_t keel_directory_remove(FDBTransaction *tr, const keel_directory *parent, keel_path path);
/* The same, and a missing one is no error; `existed` may be NULL. */
fdb_error_t keel_directory_remove_if_exists(FDBTransaction *tr, const keel_directory *parent,
                                            keel_path path, int *existed);

/* ---- Looking ---- */

/* Whether there is a directory at the path. Writes nothing. */
fdb_error_t keel_directory_exists(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                  int *exists);

/*
 * Calls `visit` with the name of each direct subdirectory, in the order of their bytes; names last
 * until it returns. Its non-zero answer ends the listing and comes back. Names that came before an
 * error do not count. DIRECTORY_MISSING.
 */
typedef fdb_error_t (*keel_directory_visitor)(void *context, keel_bytes name);
fdb_error_t keel_directory_list(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                keel_directory_visitor visit, void *context);

/* The same with snapshot reads, which conflict with nothing. */
fdb_error_t keel_directory_open_snapshot(FDBTransaction *tr, const keel_directory *parent,
                                         keel_path path, keel_bytes layer,
                                         keel_directory **directory);
fdb_error_t keel_directory_exists_snapshot(FDBTransaction *tr, const keel_directory *parent,
                                           keel_path path, int *exists);
fdb_error_t keel_directory_list_snapshot(FDBTransaction *tr, const keel_directory *parent,
                                         keel_path path, keel_directory_visitor visit,
                                         void *context);

/* ---- An opened directory ----
 *
 * What these give lasts until the directory is closed.
 */

/* The path from the root of the layer, through all partitions; empty for that root. */
keel_path keel_directory_path(const keel_directory *directory);
/* The layer tag; empty if there is none, "partition" for a partition. */
keel_bytes keel_directory_layer_of(const keel_directory *directory);
int keel_directory_is_partition(const keel_directory *directory);

/* The prefix of the directory's keys. DIRECTORY_PARTITION_ROOT for a partition, whose keys are not
   to be used; DIRECTORY_ROOT for the root of a layer, which has none. */
fdb_error_t keel_directory_prefix(const keel_directory *directory, keel_bytes *prefix);
/* The same as a subspace. BUFFER_TOO_SMALL for a manual prefix beyond KEEL_SUBSPACE_PREFIX_MAX. */
fdb_error_t keel_directory_subspace(const keel_directory *directory, keel_subspace *subspace);

/* NULL is allowed. */
void keel_directory_close(keel_directory *directory);

#ifdef __cplusplus
}
#endif

#endif
