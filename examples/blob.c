/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs: stores this program's own file, looks at a part of it, changes and truncates it.
 *
 *     cc blob.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/blob.h>
#include <keel/keel.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static fdb_error_t look(FDBTransaction *tr, void *context) {
    char part[4];
    size_t count = 0;
    int64_t size = 0;
    fdb_error_t error = keel_blob_size(tr, context, &size); /* one row, however large */
    if (!error)
        error = keel_blob_read_at(tr, context, 1, part, 3, &count); /* only its first chunk */
    if (!error)
        printf("stored %lld bytes; bytes 1 to 3 are \"%.*s\"\n", (long long)size, (int)count, part);
    return error;
}

static fdb_error_t change(FDBTransaction *tr, void *context) {
    uint8_t *data = NULL;
    size_t length = 0;
    int64_t offset = 0;
    fdb_error_t error = keel_blob_truncate(tr, context, 4);
    if (!error)
        error = keel_blob_write_at(tr, context, NULL, 0, keel_bytes_of_string("keel"));
    if (!error)
        error = keel_blob_append(tr, context, NULL, keel_bytes_of_string(" and more"), &offset);
    if (!error)
        error = keel_blob_read(tr, context, &data, &length);
    if (!error)
        printf("after changes: \"%s\", appended at %lld\n", (char *)data, (long long)offset);
    free(data);
    return error;
}

static fdb_error_t make_sparse(FDBTransaction *tr, void *context) {
    int64_t size = 0;
    fdb_error_t error = keel_blob_truncate(tr, context, (int64_t)1 << 40);
    if (!error)
        error = keel_blob_size(tr, context, &size);
    if (!error)
        printf("now %lld bytes, almost all of them a hole\n", (long long)size);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db = NULL;
    keel_subspace blob;
    int64_t count = 0;
    int fd = open(argv[0], O_RDONLY);
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("blob", "program"), &blob);
    if (!error)
        error = keel_blob_import(keel_fdb(db), &blob, NULL, fd, &count);
    if (!error)
        error = keel_run(keel_fdb(db), look, &blob);
    if (!error)
        error = keel_run(keel_fdb(db), change, &blob);
    if (!error)
        error = keel_run(keel_fdb(db), make_sparse, &blob);
    if (error)
        fprintf(stderr, "blob: %s (%d)\n", keel_error_text(error), error);
    close(fd);
    keel_close(db);
    return error != 0;
}
