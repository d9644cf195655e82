/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs: (subspace, offset) = chunk.
 *
 *       0        10000      20000            40000   43210
 *       |########|##########|#####           |#######|            # data, blank: a hole
 *       ^ keys are the offsets where chunks begin; the size is the end of the last chunk
 *
 * Invariants:
 *   1. No two chunks overlap, and no empty chunk lies inside another one.
 *   2. size = offset + length of the last chunk. A hole at the end is held by an empty chunk at the
 *      size. An empty chunk that is not last any more means nothing and harms nobody.
 *   3. A chunk has at most 100,000 bytes (a value's limit). So the chunk that covers a position, if
 *      there is one, is the last that begins in the 100,000 positions up to it: one row in reverse,
 *      found without reading anybody else's keys, whatever sizes its writers chose.
 *   4. What is written is cut at multiples of chunk_bytes (cells), so that writing the same range
 *      again meets the same chunks.
 *
 * A write into the middle keeps what its first chunk has before it and its last chunk behind it,
 * clears all chunks that begin inside, and writes the three pieces as one run. Reads that belong to
 * one operation are started together.
 *
 * Failure: arguments, reads and memory first; then writes, which cannot fail (a subspace's prefix
 * leaves room for any offset). System calls: only the file descriptor functions at the end.
 */
#include <keel/blob.h>

#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TRANSACTION_TOO_LARGE = 2101,
    LARGE_ALLOC_FAILED = 1501,
    TRANSACTION_BYTES_MAX = 10000000,
    PAGE_BYTES = 1000000 /* of an import or export, a transaction each */
};

/* ---- Arguments and keys ---- */

static fdb_error_t chunk_bytes_of(const keel_blob_options *options, int64_t *chunk_bytes) {
    uint32_t bytes = options ? options->chunk_bytes : 0;
    if (bytes > KEEL_BLOB_CHUNK_BYTES_MAX)
        return KEEL_ERROR_ARGUMENT;
    *chunk_bytes = bytes ? bytes : KEEL_BLOB_CHUNK_BYTES_DEFAULT;
    return 0;
}

static fdb_error_t check_data(keel_bytes data) {
    if (!data.data && data.length)
        return KEEL_ERROR_ARGUMENT;
    return data.length > TRANSACTION_BYTES_MAX ? TRANSACTION_TOO_LARGE : 0;
}

static fdb_error_t pack_offset(const keel_subspace *blob, int64_t offset, struct recipe_key *key) {
    keel_element element = keel_element_of_int(offset);
    return recipe_pack(blob, keel_tuple_of(&element, 1), key);
}

/* The chunks that begin in [begin, end); INT64_MAX as the end: all that follow. */
static fdb_error_t span_between(const keel_subspace *blob, int64_t begin, int64_t end,
                                struct recipe_span *span) {
    fdb_error_t error = recipe_span_of(blob, keel_tuple_of(NULL, 0), span);
    if (!error)
        error = pack_offset(blob, begin, &span->begin);
    if (!error && end != INT64_MAX)
        error = pack_offset(blob, end, &span->end);
    return error;
}

static fdb_error_t set_chunk(FDBTransaction *tr, const keel_subspace *blob, int64_t offset,
                             const uint8_t *data, int64_t length) {
    struct recipe_key key;
    fdb_error_t error = pack_offset(blob, offset, &key);
    if (!error)
        recipe_set(tr, &key, keel_bytes_of(data, (size_t)length));
    return error;
}

static fdb_error_t clear_chunks(FDBTransaction *tr, const keel_subspace *blob, int64_t begin,
                                int64_t end) {
    struct recipe_span span;
    fdb_error_t error = span_between(blob, begin, end, &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}

/* ---- Reading chunks ---- */

/* A chunk that was read; without one, all 0. The bytes are those of its scan. */
struct chunk {
    bool found;
    int64_t begin, end;
    const uint8_t *data;
};

/* Starts to read the last chunk that begins at or before `position` and may reach it. */
static fdb_error_t open_before(struct recipe_scan *scan, FDBTransaction *tr,
                               const keel_subspace *blob, int64_t position) {
    struct recipe_span span;
    int64_t begin = position - (RECIPE_VALUE_MAX - 1);
    fdb_error_t error = span_between(blob, begin < 0 ? 0 : begin, INT64_MAX, &span);
    if (!error)
        error = pack_offset(blob, position, &span.end);
    if (error)
        return error;
    span.end.data[span.end.length++] = 0; /* just behind it */
    recipe_scan_open(scan, tr, &span, 1, true, false);
    return 0;
}

/* Starts to read the last chunk of all. */
static fdb_error_t open_last(struct recipe_scan *scan, FDBTransaction *tr,
                             const keel_subspace *blob, bool snapshot) {
    struct recipe_span span;
    fdb_error_t error = span_between(blob, 0, INT64_MAX, &span);
    if (!error)
        recipe_scan_open(scan, tr, &span, 1, true, snapshot);
    return error;
}

/* Waits for the next chunk of a scan. */
static fdb_error_t next_chunk(const keel_subspace *blob, struct recipe_scan *scan,
                              struct chunk *chunk) {
    keel_bytes key, value;
    keel_tuple_iterator iterator;
    memset(chunk, 0, sizeof *chunk);
    fdb_error_t error = recipe_scan_next(scan, &key, &value, &chunk->found);
    if (error || !chunk->found)
        return error;
    error = keel_subspace_unpack(blob, key, &iterator);
    if (!error)
        error = keel_tuple_next_int(&iterator, &chunk->begin);
    if (error || !keel_tuple_at_end(&iterator) || chunk->begin < 0 ||
        chunk->begin > INT64_MAX - (int64_t)value.length)
        return KEEL_ERROR_STORED_FORMAT;
    chunk->end = chunk->begin + (int64_t)value.length;
    chunk->data = value.data;
    return 0;
}

/* The chunks around a range: what reaches over its beginning, and over its end. */
struct edges {
    struct recipe_scan left_scan, right_scan;
    struct chunk left, right;
};

/* Reads both; close them in any case. */
static fdb_error_t read_edges(struct edges *edges, FDBTransaction *tr, const keel_subspace *blob,
                              int64_t offset, int64_t end) {
    edges->left_scan.future = edges->right_scan.future = NULL;
    fdb_error_t error = open_before(&edges->left_scan, tr, blob, offset);
    if (!error)
        error = open_before(&edges->right_scan, tr, blob, end);
    if (!error)
        error = next_chunk(blob, &edges->left_scan, &edges->left);
    if (!error)
        error = next_chunk(blob, &edges->right_scan, &edges->right);
    return error;
}

static void close_edges(struct edges *edges) {
    if (edges->left_scan.future)
        recipe_scan_close(&edges->left_scan);
    if (edges->right_scan.future)
        recipe_scan_close(&edges->right_scan);
}

/* ---- Writing a run of bytes, cut into cells ---- */

struct writer {
    FDBTransaction *tr;
    const keel_subspace *blob;
    int64_t chunk_bytes;
    int64_t offset;  /* of the chunk that is being filled */
    uint8_t *buffer; /* chunk_bytes of it: for chunks made of two pieces */
    int64_t used;
};

static fdb_error_t writer_init(struct writer *writer, FDBTransaction *tr, const keel_subspace *blob,
                               int64_t chunk_bytes, int64_t offset) {
    writer->tr = tr;
    writer->blob = blob;
    writer->chunk_bytes = chunk_bytes;
    writer->offset = offset;
    writer->used = 0;
    writer->buffer = malloc((size_t)chunk_bytes);
    return writer->buffer ? 0 : LARGE_ALLOC_FAILED;
}

static fdb_error_t writer_flush(struct writer *writer) {
    if (writer->used == 0)
        return 0;
    fdb_error_t error =
        set_chunk(writer->tr, writer->blob, writer->offset, writer->buffer, writer->used);
    writer->offset += writer->used;
    writer->used = 0;
    return error;
}

static fdb_error_t writer_put(struct writer *writer, const uint8_t *data, int64_t length) {
    fdb_error_t error = 0;
    while (length > 0 && !error) {
        int64_t cell = writer->chunk_bytes - writer->offset % writer->chunk_bytes;
        int64_t room = cell - writer->used;
        int64_t take = length < room ? length : room;
        if (writer->used == 0 && take == room) {
            error = set_chunk(writer->tr, writer->blob, writer->offset, data, take);
            writer->offset += take;
        } else {
            memcpy(writer->buffer + writer->used, data, (size_t)take);
            writer->used += take;
            if (take == room)
                error = writer_flush(writer);
        }
        data += take;
        length -= take;
    }
    return error;
}

/* ---- Writing ---- */

/* What of the left chunk is written again together with data at `offset`: all before it, if the
   chunk reaches over it, or ends there and is in the same cell. */
static int64_t left_length(const struct chunk *left, int64_t offset, int64_t chunk_bytes) {
    if (!left->found || left->begin >= offset || left->end < offset)
        return 0;
    if (left->end == offset && left->begin / chunk_bytes != offset / chunk_bytes)
        return 0;
    return offset - left->begin;
}

/* What of the right chunk: all behind `end`; or all of a chunk that begins there in the same
   cell. */
static int64_t right_length(const struct chunk *right, int64_t end, int64_t chunk_bytes) {
    if (!right->found || right->end <= end)
        return 0;
    if (right->begin == end &&
        (end % chunk_bytes == 0 || right->end > (end / chunk_bytes + 1) * chunk_bytes))
        return 0;
    return right->end - end;
}

/* Writes left piece, data, right piece in place of all chunks that begin between. */
static fdb_error_t write_run(FDBTransaction *tr, const keel_subspace *blob, int64_t chunk_bytes,
                             int64_t offset, keel_bytes data, const struct edges *edges) {
    int64_t end = offset + (int64_t)data.length;
    int64_t before = left_length(&edges->left, offset, chunk_bytes);
    int64_t behind = right_length(&edges->right, end, chunk_bytes);
    struct writer writer;
    fdb_error_t error = writer_init(&writer, tr, blob, chunk_bytes, offset - before);
    if (error)
        return error;
    if (edges->left.found && edges->left.begin == edges->left.end)
        error = clear_chunks(tr, blob, edges->left.begin, edges->left.begin + 1);
    if (!error)
        error = clear_chunks(tr, blob, offset, end);
    if (!error && behind && edges->right.begin == end)
        error = clear_chunks(tr, blob, end, end + 1);
    if (!error && before)
        error = writer_put(&writer, edges->left.data, before);
    if (!error)
        error = writer_put(&writer, data.data, (int64_t)data.length);
    if (!error && behind)
        error = writer_put(&writer, edges->right.data + (end - edges->right.begin), behind);
    if (!error)
        error = writer_flush(&writer);
    free(writer.buffer);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_write(FDBTransaction *tr, const keel_subspace *blob,
                                        const keel_blob_options *options, keel_bytes data) {
    int64_t chunk_bytes;
    struct writer writer;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = chunk_bytes_of(options, &chunk_bytes);
    if (!error)
        error = check_data(data);
    if (!error)
        error = writer_init(&writer, tr, blob, chunk_bytes, 0);
    if (error)
        return error;
    error = keel_blob_clear(tr, blob);
    if (!error)
        error = writer_put(&writer, data.data, (int64_t)data.length);
    if (!error)
        error = writer_flush(&writer);
    free(writer.buffer);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_write_at(FDBTransaction *tr, const keel_subspace *blob,
                                           const keel_blob_options *options, int64_t offset,
                                           keel_bytes data) {
    int64_t chunk_bytes;
    struct edges edges;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = chunk_bytes_of(options, &chunk_bytes);
    if (!error)
        error = check_data(data);
    if (!error && (offset < 0 || offset > INT64_MAX - (int64_t)data.length))
        error = KEEL_ERROR_INDEX_RANGE;
    if (error || data.length == 0)
        return error;
    error = read_edges(&edges, tr, blob, offset, offset + (int64_t)data.length);
    if (!error)
        error = write_run(tr, blob, chunk_bytes, offset, data, &edges);
    close_edges(&edges);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_append(FDBTransaction *tr, const keel_subspace *blob,
                                         const keel_blob_options *options, keel_bytes data,
                                         int64_t *offset) {
    int64_t chunk_bytes;
    struct edges edges;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = chunk_bytes_of(options, &chunk_bytes);
    if (!error)
        error = check_data(data);
    if (!error)
        error = open_last(&edges.left_scan, tr, blob, false);
    if (error)
        return error;
    memset(&edges.right, 0, sizeof edges.right);
    error = next_chunk(blob, &edges.left_scan, &edges.left);
    int64_t end = edges.left.end;
    if (!error && end > INT64_MAX - (int64_t)data.length)
        error = KEEL_ERROR_INDEX_RANGE;
    if (!error && data.length)
        error = write_run(tr, blob, chunk_bytes, end, data, &edges);
    if (!error && offset)
        *offset = end;
    recipe_scan_close(&edges.left_scan);
    return error;
}

/* ---- Reading ---- */

KEEL_EXPORT fdb_error_t keel_blob_size(FDBTransaction *tr, const keel_subspace *blob,
                                       int64_t *size) {
    struct recipe_scan scan;
    struct chunk last;
    if (!tr || !blob || !size)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = open_last(&scan, tr, blob, false);
    if (error)
        return error;
    error = next_chunk(blob, &scan, &last);
    if (!error)
        *size = last.end;
    recipe_scan_close(&scan);
    return error;
}

/* A range that is being read into a buffer. Positions are in the blob. */
struct reader {
    uint8_t *buffer;
    int64_t offset, end; /* what is wanted */
    int64_t position;    /* up to where the buffer is filled */
};

static void fill_zeros(struct reader *reader, int64_t up_to) {
    if (up_to > reader->position) {
        memset(reader->buffer + (reader->position - reader->offset), 0,
               (size_t)(up_to - reader->position));
        reader->position = up_to;
    }
}

static void fill_from(struct reader *reader, const struct chunk *chunk) {
    int64_t end = chunk->end < reader->end ? chunk->end : reader->end;
    if (!chunk->found || end <= reader->position)
        return;
    fill_zeros(reader, chunk->begin < reader->end ? chunk->begin : reader->end);
    memcpy(reader->buffer + (reader->position - reader->offset),
           chunk->data + (reader->position - chunk->begin), (size_t)(end - reader->position));
    reader->position = end;
}

static fdb_error_t fill_from_scan(const keel_subspace *blob, struct recipe_scan *scan,
                                  struct reader *reader) {
    struct chunk chunk;
    fdb_error_t error;
    while (!(error = next_chunk(blob, scan, &chunk)) && chunk.found)
        fill_from(reader, &chunk);
    return error;
}

/* The end was read as a snapshot; from here on the transaction relies on it. */
static fdb_error_t rely_on_last(FDBTransaction *tr, const keel_subspace *blob,
                                const struct chunk *last) {
    struct recipe_span span;
    fdb_error_t error = span_between(blob, last->found ? last->begin : 0, INT64_MAX, &span);
    if (error)
        return error;
    return fdb_transaction_add_conflict_range(
        tr, span.begin.data, (int)span.begin.length, span.end.data, (int)span.end.length,
        FDB_CONFLICT_RANGE_TYPE_READ);
}

/* Everything was started: fills the buffer, and looks at the size where the chunks do not reach. */
static fdb_error_t finish_read(FDBTransaction *tr, const keel_subspace *blob,
                               struct recipe_scan scans[3], struct reader *reader) {
    struct chunk chunk, last;
    fdb_error_t error = next_chunk(blob, &scans[0], &chunk);
    if (error)
        return error;
    fill_from(reader, &chunk);
    error = fill_from_scan(blob, &scans[1], reader);
    if (error || reader->position == reader->end)
        return error;
    error = next_chunk(blob, &scans[2], &last);
    if (!error)
        error = rely_on_last(tr, blob, &last);
    if (!error)
        fill_zeros(reader, last.end < reader->end ? last.end : reader->end);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_read_at(FDBTransaction *tr, const keel_subspace *blob,
                                          int64_t offset, void *buffer, size_t capacity,
                                          size_t *count) {
    struct recipe_scan scans[3]; /* what reaches over the beginning, the rest, the end */
    struct recipe_span span;
    if (!tr || !blob || !count || (!buffer && capacity))
        return KEEL_ERROR_ARGUMENT;
    if (offset < 0)
        return KEEL_ERROR_INDEX_RANGE;
    if (capacity > (uint64_t)(INT64_MAX - offset))
        capacity = (size_t)(INT64_MAX - offset);
    if (capacity == 0) {
        *count = 0;
        return 0;
    }
    struct reader reader = {buffer, offset, offset + (int64_t)capacity, offset};
    fdb_error_t error = span_between(blob, offset + 1, reader.end, &span);
    if (!error)
        error = open_before(&scans[0], tr, blob, offset);
    if (error)
        return error;
    recipe_scan_open(&scans[1], tr, &span, 0, false, false);
    error = open_last(&scans[2], tr, blob, true);
    if (!error) {
        error = finish_read(tr, blob, scans, &reader);
        recipe_scan_close(&scans[2]);
    }
    recipe_scan_close(&scans[0]);
    recipe_scan_close(&scans[1]);
    if (!error)
        *count = (size_t)(reader.position - offset);
    return error;
}

/* The end first, whose read and that of all chunks are under way. */
static fdb_error_t read_all(const keel_subspace *blob, struct recipe_scan *last_scan,
                            struct recipe_scan *scan, uint8_t **data, size_t *length) {
    struct chunk last;
    fdb_error_t error = next_chunk(blob, last_scan, &last);
    if (error)
        return error;
    struct reader reader = {NULL, 0, last.end, 0};
    reader.buffer = last.end < INT64_MAX ? malloc((size_t)last.end + 1) : NULL;
    if (!reader.buffer)
        return LARGE_ALLOC_FAILED;
    error = fill_from_scan(blob, scan, &reader);
    if (error) {
        free(reader.buffer);
        return error;
    }
    fill_zeros(&reader, last.end);
    reader.buffer[last.end] = 0;
    *data = reader.buffer;
    *length = (size_t)last.end;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_blob_read(FDBTransaction *tr, const keel_subspace *blob,
                                       uint8_t **data, size_t *length) {
    struct recipe_scan last, scan;
    struct recipe_span span;
    if (!tr || !blob || !data || !length)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = span_between(blob, 0, INT64_MAX, &span);
    if (!error)
        error = open_last(&last, tr, blob, true); /* the scan of all conflicts for it */
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, false);
    error = read_all(blob, &last, &scan, data, length);
    recipe_scan_close(&last);
    recipe_scan_close(&scan);
    return error;
}

/* ---- Size and holes ---- */

/* Cuts the chunk that reaches over `size`, and marks a hole before it. */
static fdb_error_t truncate_behind(FDBTransaction *tr, const keel_subspace *blob, int64_t size,
                                   const struct chunk *chunk) {
    fdb_error_t error = clear_chunks(tr, blob, size, INT64_MAX);
    if (!error && chunk->found && chunk->end > size)
        error = set_chunk(tr, blob, chunk->begin, chunk->data, size - chunk->begin);
    if (!error && chunk->found && chunk->begin == chunk->end)
        error = clear_chunks(tr, blob, chunk->begin, chunk->begin + 1);
    if (!error && chunk->end < size)
        error = set_chunk(tr, blob, size, NULL, 0);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_truncate(FDBTransaction *tr, const keel_subspace *blob,
                                           int64_t size) {
    struct recipe_scan scan;
    struct chunk chunk;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    if (size < 0)
        return KEEL_ERROR_INDEX_RANGE;
    if (size == 0)
        return keel_blob_clear(tr, blob);
    fdb_error_t error = open_before(&scan, tr, blob, size - 1);
    if (error)
        return error;
    error = next_chunk(blob, &scan, &chunk);
    if (!error)
        error = truncate_behind(tr, blob, size, &chunk);
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t punch_between(FDBTransaction *tr, const keel_subspace *blob, int64_t offset,
                                 int64_t end, const struct edges *edges,
                                 const struct chunk *last) {
    const struct chunk *left = &edges->left, *right = &edges->right;
    fdb_error_t error = clear_chunks(tr, blob, offset, end);
    if (!error && left->found && left->begin < offset && left->end > offset)
        error = set_chunk(tr, blob, left->begin, left->data, offset - left->begin);
    if (!error && right->found && right->begin < end && right->end > end)
        error = set_chunk(tr, blob, end, right->data + (end - right->begin), right->end - end);
    bool lost = last->found && last->end <= end && (last->end > offset || last->begin >= offset);
    if (!error && lost) /* what told the size */
        error = set_chunk(tr, blob, last->end, NULL, 0);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_punch(FDBTransaction *tr, const keel_subspace *blob,
                                        int64_t offset, int64_t length) {
    struct edges edges;
    struct recipe_scan scan;
    struct chunk last;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    if (offset < 0 || length < 0 || offset > INT64_MAX - 1 - length)
        return KEEL_ERROR_INDEX_RANGE;
    if (length == 0)
        return 0;
    fdb_error_t error = open_last(&scan, tr, blob, false);
    if (error)
        return error;
    error = read_edges(&edges, tr, blob, offset, offset + length);
    if (!error)
        error = next_chunk(blob, &scan, &last);
    if (!error)
        error = punch_between(tr, blob, offset, offset + length, &edges, &last);
    close_edges(&edges);
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_clear(FDBTransaction *tr, const keel_subspace *blob) {
    return tr && blob ? clear_chunks(tr, blob, 0, INT64_MAX) : KEEL_ERROR_ARGUMENT;
}

/* ---- File descriptors ---- */

/* From the position of the descriptor, or from `file_offset` if that is not negative. Less than
   `length` only at the end of the file. */
static fdb_error_t read_fully(int fd, int64_t file_offset, uint8_t *buffer, size_t length,
                              size_t *count) {
    size_t done = 0;
    while (done < length) {
        ssize_t bytes = file_offset < 0 ? read(fd, buffer + done, length - done)
                                        : pread(fd, buffer + done, length - done,
                                                (off_t)(file_offset + (int64_t)done));
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return KEEL_ERROR_DESCRIPTOR;
        if (bytes == 0)
            break;
        done += (size_t)bytes;
    }
    *count = done;
    return 0;
}

/* *count also on failure. */
static fdb_error_t write_fully(int fd, int64_t file_offset, const uint8_t *buffer, size_t length,
                               size_t *count) {
    for (*count = 0; *count < length;) {
        ssize_t bytes = file_offset < 0 ? write(fd, buffer + *count, length - *count)
                                        : pwrite(fd, buffer + *count, length - *count,
                                                 (off_t)(file_offset + (int64_t)*count));
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            return KEEL_ERROR_DESCRIPTOR;
        *count += (size_t)bytes;
    }
    return 0;
}

KEEL_EXPORT fdb_error_t keel_blob_load(FDBTransaction *tr, const keel_subspace *blob,
                                       const keel_blob_options *options, int fd,
                                       int64_t file_offset, size_t length, size_t *count) {
    int64_t chunk_bytes;
    size_t loaded = 0;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    if (file_offset < 0)
        return KEEL_ERROR_INDEX_RANGE;
    fdb_error_t error = chunk_bytes_of(options, &chunk_bytes);
    if (error)
        return error;
    /* One byte more than fits tells a file that is too long from one that just fits. */
    size_t capacity = length <= TRANSACTION_BYTES_MAX ? length : TRANSACTION_BYTES_MAX + 1;
    uint8_t *buffer = malloc(capacity + 1);
    if (!buffer)
        return LARGE_ALLOC_FAILED;
    error = read_fully(fd, file_offset, buffer, capacity, &loaded);
    if (!error)
        error = keel_blob_write(tr, blob, options, keel_bytes_of(buffer, loaded));
    free(buffer);
    if (!error && count)
        *count = loaded;
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_save(FDBTransaction *tr, const keel_subspace *blob,
                                       int64_t offset, size_t length, int fd, int64_t file_offset,
                                       size_t *count) {
    size_t saved = 0;
    if (!tr || !blob)
        return KEEL_ERROR_ARGUMENT;
    if (file_offset < 0 || offset < 0)
        return KEEL_ERROR_INDEX_RANGE;
    uint8_t *buffer = malloc(length < PAGE_BYTES ? length + 1 : PAGE_BYTES);
    if (!buffer)
        return LARGE_ALLOC_FAILED;
    fdb_error_t error = 0;
    while (!error && saved < length && offset <= INT64_MAX - (int64_t)saved) {
        size_t want = length - saved < PAGE_BYTES ? length - saved : PAGE_BYTES, got = 0, put;
        error = keel_blob_read_at(tr, blob, offset + (int64_t)saved, buffer, want, &got);
        if (!error)
            error = write_fully(fd, file_offset + (int64_t)saved, buffer, got, &put);
        saved += got;
        if (got < want)
            break;
    }
    free(buffer);
    if (!error && count)
        *count = saved;
    return error;
}

/* One transaction of an import or export. */
struct page {
    const keel_subspace *blob;
    const keel_blob_options *options;
    uint8_t *buffer;
    int64_t offset;
    size_t length, count;
};

/* Writes the same bytes at the same place however often it is run. */
static fdb_error_t import_page(FDBTransaction *tr, void *context) {
    struct page *page = context;
    keel_bytes data = keel_bytes_of(page->buffer, page->count);
    if (page->offset == 0)
        return keel_blob_write(tr, page->blob, page->options, data);
    return keel_blob_write_at(tr, page->blob, page->options, page->offset, data);
}

static fdb_error_t export_page(FDBTransaction *tr, void *context) {
    struct page *page = context;
    return keel_blob_read_at(tr, page->blob, page->offset, page->buffer, page->length,
                             &page->count);
}

KEEL_EXPORT fdb_error_t keel_blob_import(FDBDatabase *database, const keel_subspace *blob,
                                         const keel_blob_options *options, int fd,
                                         int64_t *count) {
    struct page page = {blob, options, NULL, 0, 0, 0};
    int64_t chunk_bytes = 0;
    fdb_error_t error = database && blob ? 0 : KEEL_ERROR_ARGUMENT;
    if (!error)
        error = chunk_bytes_of(options, &chunk_bytes);
    if (!error) { /* whole chunks, so that a page ends where the next begins */
        page.length = (size_t)(PAGE_BYTES / chunk_bytes * chunk_bytes);
        page.buffer = malloc(page.length);
        error = page.buffer ? 0 : LARGE_ALLOC_FAILED;
    }
    while (!error) {
        error = read_fully(fd, -1, page.buffer, page.length, &page.count);
        if (!error && (page.count || page.offset == 0))
            error = keel_run(database, import_page, &page);
        if (!error)
            page.offset += (int64_t)page.count;
        if (page.count < page.length)
            break;
    }
    free(page.buffer);
    if (count)
        *count = page.offset;
    return error;
}

KEEL_EXPORT fdb_error_t keel_blob_export(FDBDatabase *database, const keel_subspace *blob,
                                         int64_t offset, int64_t length, int fd, int64_t *count) {
    struct page page = {blob, NULL, NULL, offset, 0, 0};
    int64_t done = 0;
    size_t put;
    fdb_error_t error = database && blob ? 0 : KEEL_ERROR_ARGUMENT;
    if (!error && (offset < 0 || length < 0))
        error = KEEL_ERROR_INDEX_RANGE;
    if (!error)
        error = (page.buffer = malloc(PAGE_BYTES)) ? 0 : LARGE_ALLOC_FAILED;
    while (!error && done < length) {
        page.length = length - done < PAGE_BYTES ? (size_t)(length - done) : PAGE_BYTES;
        error = keel_run_read(database, export_page, &page);
        if (error)
            break;
        error = write_fully(fd, -1, page.buffer, page.count, &put);
        done += (int64_t)put;
        page.offset += (int64_t)put;
        if (page.count < page.length)
            break;
    }
    free(page.buffer);
    if (count)
        *count = done;
    return error;
}
