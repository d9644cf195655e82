/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs: byte strings of any length, in chunks.
 *
 *     keel_subspace photo;
 *     error = keel_subspace_tuple(KEEL_TUPLE("blob", "photo-17"), &photo);
 *     error = keel_blob_write(tr, &photo, NULL, KEEL_BYTES(data, length));
 *     error = keel_blob_read_at(tr, &photo, 1000, buffer, sizeof buffer, &count);
 *
 * Keys: (subspace, offset) = chunk, one subspace a blob. Chunks never overlap; where there is none
 * is a hole, which reads as zeros and costs nothing. A blob that ends with a hole has an empty
 * chunk at its size. Chunks of any size are read, whoever wrote them, so writers need not agree on
 * one; what is written is cut at the multiples of chunk_bytes. A blob of size 0 has no keys at all.
 *
 * Limits: a transaction holds at most 10,000,000 bytes (transaction_too_large, 2101, refused before
 * anything is changed where one call is beyond it). For more use many transactions, as
 * keel_blob_import does.
 *
 * Errors. INDEX_RANGE for an offset or size that is negative or beyond INT64_MAX, ARGUMENT for NULL
 * where something is needed and for chunk_bytes above KEEL_BLOB_CHUNK_BYTES_MAX, STORED_FORMAT
 * where keys under the subspace are no blob's, DESCRIPTOR if the system refuses to read or write a
 * file descriptor, 1501 if there is no memory. A function that fails has written nothing to the
 * transaction. Errors of the database come back as they are, for the retry loop.
 *
 * Conflicts. Reading a range conflicts with changes of its chunks, and with changes of the size
 * only if it reached the end or a hole at the end. Writing in the middle conflicts with changes of
 * the chunks at its two ends, truncating with changes of the chunk it cuts. append and size
 * conflict with whatever moves the end; write and clear with nothing.
 *
 * Functions with a transaction never commit. Threads: as the transaction.
 */
#ifndef KEEL_BLOB_H
#define KEEL_BLOB_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KEEL_BLOB_CHUNK_BYTES_DEFAULT = 10000,
    KEEL_BLOB_CHUNK_BYTES_MAX = 100000 /* a value's limit */
};

/* NULL wherever it is asked for, and 0 in it, mean the default. */
typedef struct keel_blob_options {
    uint32_t chunk_bytes; /* small: cheap changes in the middle; large: fewer rows */
} keel_blob_options;

/* ---- Writing ---- */

/* Replaces the whole blob. Reads nothing. */
fdb_error_t keel_blob_write(FDBTransaction *tr, const keel_subspace *blob,
                            const keel_blob_options *options, keel_bytes data);

/*
 * Writes over what lies at `offset`, and behind the end, where a hole is left in between. Reads the
 * chunks at the two ends, together.
 */
fdb_error_t keel_blob_write_at(FDBTransaction *tr, const keel_subspace *blob,
                               const keel_blob_options *options, int64_t offset, keel_bytes data);

/* Writes behind the end; *offset (may be NULL) is where that was. Reads the last chunk, which is
   filled up to chunk_bytes before a new one begins. */
fdb_error_t keel_blob_append(FDBTransaction *tr, const keel_subspace *blob,
                             const keel_blob_options *options, keel_bytes data, int64_t *offset);

/* ---- Reading ---- */

/* One row, however large the blob. 0 if there is none. */
fdb_error_t keel_blob_size(FDBTransaction *tr, const keel_subspace *blob, int64_t *size);

/*
 * Up to `capacity` bytes from `offset` on; *count is less than that only at the end, 0 behind it.
 * Reads the chunks that hold them, at most one before, and the last one of the blob; all started
 * together. The buffer's contents are undefined on failure.
 */
fdb_error_t keel_blob_read_at(FDBTransaction *tr, const keel_subspace *blob, int64_t offset,
                              void *buffer, size_t capacity, size_t *count);

/* All of it, malloc'ed with a NUL behind: free() it. Never NULL, also for an empty blob. */
fdb_error_t keel_blob_read(FDBTransaction *tr, const keel_subspace *blob, uint8_t **data,
                           size_t *length);

/* ---- Size and holes ---- */

/*
 * Makes the size exactly `size`: what lies behind is removed, what is missing becomes a hole. Reads
 * one row.
 */
fdb_error_t keel_blob_truncate(FDBTransaction *tr, const keel_subspace *blob, int64_t size);

/* Makes a hole of `length` bytes; the size stays as it is. Reads up to three rows, together. */
fdb_error_t keel_blob_punch(FDBTransaction *tr, const keel_subspace *blob, int64_t offset,
                            int64_t length);

/* Removes the blob. Reads nothing. */
fdb_error_t keel_blob_clear(FDBTransaction *tr, const keel_subspace *blob);

/* ---- File descriptors, in one transaction ----
 *
 * For files that have offsets (not pipes): the position of the descriptor is neither used nor
 * moved, so that the retry loop may call these again.
 */

/* Replaces the blob by `length` bytes of the file from `file_offset` on; less if the file ends
   before. *count (may be NULL): how many. transaction_too_large beyond 10,000,000 of them. */
fdb_error_t keel_blob_load(FDBTransaction *tr, const keel_subspace *blob,
                           const keel_blob_options *options, int fd, int64_t file_offset,
                           size_t length, size_t *count);

/* Writes `length` bytes of the blob from `offset` on, or to its end, into the file at
   `file_offset`. */
fdb_error_t keel_blob_save(FDBTransaction *tr, const keel_subspace *blob, int64_t offset,
                           size_t length, int fd, int64_t file_offset, size_t *count);

/* ---- File descriptors, in many transactions ----
 *
 * For any descriptor and any length. They run transactions of their own, about a megabyte each, and
 * so are not atomic beyond that: others see a blob that grows, and an export is of one moment only
 * if nobody writes meanwhile. To replace a large blob in one moment, import it into a workspace.
 */

/* Replaces the blob by all that can be read until the end of file. On failure the blob holds the
   first *count bytes (may be NULL; set in any case). */
fdb_error_t keel_blob_import(FDBDatabase *database, const keel_subspace *blob,
                             const keel_blob_options *options, int fd, int64_t *count);

/* Writes `length` bytes from `offset` on, or to the end; INT64_MAX for all. *count (may be NULL;
   set in any case): how many were written. */
fdb_error_t keel_blob_export(FDBDatabase *database, const keel_subspace *blob, int64_t offset,
                             int64_t length, int fd, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif
