/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of keel export share: export.c reads, export_write.c writes.
 */
#ifndef KEEL_CLI_EXPORT_H
#define KEEL_CLI_EXPORT_H

#include "import.h"

/* Rows as text. */
struct row_writer {
    FILE *file;
    bool json, documents;
    char delimiter;
    const struct schema *schema;
    size_t *columns; /* numbers of the columns that are written, in their order; documents: NULL with column_count 0 for all members as they are */
    size_t column_count;
    bool chosen;     /* by --columns: others are left out */
    keel_element *elements; /* one a column of the schema */
    struct buffer line;
    uint64_t rows;
};
/* `list`: --columns, or NULL. False: reported. The schema may get columns (open documents). */
bool row_writer_open(struct row_writer *writer, struct schema *schema, const char *list);
void row_writer_close(struct row_writer *writer);
void row_writer_header(struct row_writer *writer);
/* STORED_FORMAT: the pair is no record. 1510 (io_error): the file could not be written. */
fdb_error_t row_writer_record(struct row_writer *writer, keel_bytes id, keel_bytes value);
fdb_error_t row_writer_document(struct row_writer *writer, const char *json, size_t length);

#endif
