/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease: two slots, one a block, written in turn, so that a torn write leaves the other whole. The slot with the higher sequence
 * number counts.
 *
 *   offset  size
 *        0     8   magic "KEELCLCK"
 *        8     4   format
 *       12     4   zero
 *       16     8   sequence
 *       24     8   ceiling: every version ever handed out is at or below it
 *       32    16   database id, random, for life
 *       48     8   XXH3 of the 48 bytes before
 *
 * A slot whose magic is right and whose format is newer is refused before its checksum is looked at: a newer Keel may lay out the rest otherwise.
 */
#include "engine/lease.h"

#include <stdio.h>

#include "util/checksum.h"
#include "util/coding.h"

enum { SLOT_BYTES = 56, SLOT_DISTANCE = 4096, FILE_BYTES = 2 * SLOT_DISTANCE };

static const char MAGIC[8] = {'K', 'E', 'E', 'L', 'C', 'L', 'C', 'K'};

static void encode(const struct lease *lease, uint8_t slot[SLOT_BYTES]) {
    memset(slot, 0, SLOT_BYTES);
    memcpy(slot, MAGIC, 8);
    coding_put_u32(slot + 8, LEASE_FORMAT);
    coding_put_u64(slot + 16, lease->sequence);
    coding_put_u64(slot + 24, (uint64_t)lease->ceiling);
    memcpy(slot + 32, lease->database_id, 16);
    coding_put_u64(slot + 48, checksum(bytes_make(slot, 48), 0));
}

/* Takes a slot over into *lease if it is whole and newer than what is there. */
static fdb_error_t decode(const uint8_t slot[SLOT_BYTES], struct lease *lease, bool *ours, bool *whole) {
    bool magic = memcmp(slot, MAGIC, 8) == 0;
    *ours |= magic;
    if (magic && coding_get_u32(slot + 8) > LEASE_FORMAT)
        return ERROR_FORMAT_NEWER;
    if (!magic || coding_get_u64(slot + 48) != checksum(bytes_make(slot, 48), 0)) {
        lease->one_slot_lost = true;
        return ERROR_SUCCESS;
    }
    *whole = true;
    uint64_t sequence = coding_get_u64(slot + 16);
    if (sequence <= lease->sequence)
        return ERROR_SUCCESS;
    lease->sequence = sequence;
    lease->ceiling = (int64_t)coding_get_u64(slot + 24);
    memcpy(lease->database_id, slot + 32, 16);
    return ERROR_SUCCESS;
}

fdb_error_t lease_read(struct os_file *file, struct lease *lease, bool whole[2]) {
    bool ours = false;
    *lease = (struct lease){.file = {-1}};
    whole[0] = whole[1] = false;
    for (uint64_t index = 0; index < 2; index++) {
        uint8_t slot[SLOT_BYTES];
        size_t got;
        fdb_error_t error = os_file_read(file, index * SLOT_DISTANCE, slot, SLOT_BYTES, &got);
        if (!error && got == SLOT_BYTES)
            error = decode(slot, lease, &ours, &whole[index]);
        if (error)
            return error;
    }
    if (!ours)
        return ERROR_FORMAT_FOREIGN;
    return lease->sequence ? ERROR_SUCCESS : ERROR_DATABASE_DAMAGED;
}

fdb_error_t lease_open(const char *path, struct lease *lease) {
    struct lease opened;
    struct os_file file;
    bool whole[2];
    fdb_error_t error = os_file_open(path, false, &file);
    if (error)
        return error;
    error = lease_read(&file, &opened, whole);
    if (error) {
        os_file_close(&file);
        return error;
    }
    opened.file = file;
    *lease = opened;
    return ERROR_SUCCESS;
}

static fdb_error_t write_slot(struct lease *lease) {
    uint8_t slot[SLOT_BYTES];
    encode(lease, slot);
    return os_file_write(&lease->file, (lease->sequence & 1) * SLOT_DISTANCE, bytes_make(slot, SLOT_BYTES));
}

/* Both slots, so that from the first moment the loss of one is survived. */
static fdb_error_t write_new(struct lease *lease) {
    fdb_error_t error = os_file_preallocate(&lease->file, FILE_BYTES);
    while (!error && lease->sequence < 2) {
        lease->sequence++;
        error = write_slot(lease);
    }
    return error ? error : os_file_sync(&lease->file);
}

fdb_error_t lease_create(const char *directory, const char *path, int64_t ceiling, struct lease *lease) {
    char temporary[4200];
    if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary)
        return ERROR_IO_ERROR;
    struct lease created = {.ceiling = ceiling};
    os_random(created.database_id, sizeof created.database_id);
    fdb_error_t error = os_file_open(temporary, true, &created.file);
    if (error)
        return error;
    error = write_new(&created);
    if (!error)
        error = os_rename(temporary, path);
    if (!error)
        error = os_directory_sync(directory);
    if (error) {
        os_file_close(&created.file);
        return error;
    }
    *lease = created;
    return ERROR_SUCCESS;
}

fdb_error_t lease_raise(struct lease *lease, int64_t ceiling) {
    struct lease raised = *lease;
    raised.sequence++;
    raised.ceiling = ceiling;
    fdb_error_t error = write_slot(&raised);
    if (!error)
        error = os_file_sync(&lease->file);
    if (!error)
        *lease = raised;
    return error;
}

void lease_close(struct lease *lease) {
    os_file_close(&lease->file);
}
