/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys a transaction may use, and how long they may be. Three spaces lie one after the other:
 *
 *     "" ........ \xff            the user's keys, at most 10,000 bytes
 *     \xff ...... \xff\xff        system keys, at most 30,000 bytes, behind the system key options
 *     \xff\xff .. \xff\xff\xff    special keys: no data, questions to the client (special_keys.c)
 *
 * One system key, \xff/metadataVersion, is everybody's: readable without an option, writable only
 * with a versionstamp. A key longer than the limit is refused where it would be written and simply
 * absent where it is read or cleared. With raw access (which the system key options imply) eight
 * more bytes may be written, room that upstream gives to tenant prefixes.
 */
#include "txn/state.h"

enum { RAW_ACCESS_EXTRA_BYTES = 8 };

static const struct bytes USER_END = {(const uint8_t *)"\xff", 1};
static const struct bytes SYSTEM_END = {(const uint8_t *)"\xff\xff", 2};

struct bytes key_max_read(const struct transaction *transaction) {
    return transaction->options.read_system_keys ? SYSTEM_END : USER_END;
}

struct bytes key_max_write(const struct transaction *transaction) {
    return transaction->options.write_system_keys ? SYSTEM_END : USER_END;
}

size_t key_bytes_max(struct bytes key, bool raw_access) {
    if (key.length && key.data[0] == 0xff)
        return SYSTEM_KEY_BYTES_MAX;
    return KEY_BYTES_MAX + (raw_access ? RAW_ACCESS_EXTRA_BYTES : 0);
}

bool key_is_metadata_version(struct bytes key) {
    return bytes_equal(key, BYTES_LITERAL("\xff/metadataVersion"));
}

bool key_is_special(struct bytes key) {
    return key.length >= 2 && key.data[0] == 0xff && key.data[1] == 0xff && !(key.length >= 3 &&
            key.data[2] == 0xff);
}

bool key_after(struct arena *arena, struct bytes key, struct bytes *after) {
    uint8_t *copy = arena_allocate_bytes(arena, key.length + 1);
    if (!copy)
        return false;
    if (key.length)
        memcpy(copy, key.data, key.length);
    copy[key.length] = 0;
    *after = bytes_make(copy, key.length + 1);
    return true;
}
