/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that are in a file twice, found without a database and without memory that grows with the file: for the dry run.
 *
 * For each row 24 bytes go to a temporary file that has no name: 128 bits of the key's hash and the line. At the end the file is read once for every
 * SLICE_ROWS rows in it, each time keeping the rows whose hash falls in a slice of all hashes; these are sorted, and equal hashes stand side by side.
 * That two different keys have the same 128 bits will not happen.
 */
#include "import.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SLICE_ROWS = 1000000, READ_ROWS = 4096 };

struct mark {
    uint64_t high, low, line;
};

struct duplicates {
    FILE *file;
    uint64_t count;
};

struct duplicates *duplicates_open(void) {
    struct duplicates *duplicates = calloc(1, sizeof *duplicates);
    if (duplicates && !(duplicates->file = tmpfile())) {
        free(duplicates);
        duplicates = NULL;
    }
    return duplicates;
}

void duplicates_close(struct duplicates *duplicates) {
    if (!duplicates)
        return;
    fclose(duplicates->file);
    free(duplicates);
}

bool duplicates_add(struct duplicates *duplicates, keel_bytes id, uint64_t line) {
    XXH128_hash_t hash = XXH3_128bits(id.data, id.length);
    struct mark mark = {hash.high64, hash.low64, line};
    duplicates->count++;
    return fwrite(&mark, sizeof mark, 1, duplicates->file) == 1;
}

static int compare(const void *a, const void *b) {
    const struct mark *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Reads the marks of one slice of all hashes, as many as there is room for: more than that are there only if most keys are one and the same. */
static bool read_slice(struct duplicates *duplicates, uint64_t slice, uint64_t slices, struct mark *kept, size_t room, size_t *count) {
    struct mark some[READ_ROWS];
    size_t read;
    *count = 0;
    rewind(duplicates->file);
    while ((read = fread(some, sizeof *some, READ_ROWS, duplicates->file)) > 0)
        for (size_t i = 0; i < read; i++) {
            uint64_t its = (uint64_t)((unsigned __int128)some[i].high * slices >> 64);
            if (its == slice && *count < room)
                kept[(*count)++] = some[i];
        }
    return !ferror(duplicates->file);
}

bool duplicates_find(struct duplicates *duplicates, void (*found)(void *context, uint64_t line, uint64_t first_line), void *context) {
    uint64_t slices = duplicates->count / SLICE_ROWS + 1;
    size_t room = duplicates->count < SLICE_ROWS ? duplicates->count + 1 : 2 * SLICE_ROWS, count = 0; /* twice the mean, and hashes spread evenly */
    struct mark *kept = malloc(room * sizeof *kept);
    bool fine = kept && fflush(duplicates->file) == 0;
    for (uint64_t slice = 0; fine && slice < slices; slice++) {
        fine = read_slice(duplicates, slice, slices, kept, room, &count);
        qsort(kept, count, sizeof *kept, compare);
        for (size_t i = 1, first = 0; i < count; i++) {
            bool same = kept[i].high == kept[first].high && kept[i].low == kept[first].low;
            if (same)
                found(context, kept[i].line, kept[first].line);
            else
                first = i;
        }
    }
    free(kept);
    return fine;
}
