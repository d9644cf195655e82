/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status document that \xff\xff/status/json answers with: the parts of FoundationDB's that make
 * sense for one process, under the names tools look for ("client", "cluster",
 * "database_available"), and a "keel" part with what the engine counts.
 */
#include <stdio.h>

#include "txn/state.h"

enum { TEXT_BYTES = 2048, PATH_BYTES = 6 * 4096 };

/* Copies `text` as the inside of a JSON string. REQUIRES: room for six bytes a byte, and one. */
static void escape(const char *text, char *to) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            to += sprintf(to, "\\%c", *at);
        else if (*at < 0x20)
            to += sprintf(to, "\\u%04x", (unsigned)*at);
        else
            *to++ = (char)*at;
    }
    *to = 0;
}

static const char *yes_or_no(bool value) { return value ? "true" : "false"; }

static int print(char *to, size_t size, const struct database_status *status, const char *path,
                 long watches) {
    return snprintf(
        to, size,
        "{\"client\":{\"coordinators\":{\"coordinators\":[],\"quorum_reachable\":true},"
        "\"database_status\":{\"available\":%s,\"healthy\":%s},\"messages\":[]},"
        "\"cluster\":{\"database_available\":%s,\"full_replication\":true,\"generation\":1,"
        "\"configuration\":{\"storage_engine\":\"%s\",\"redundancy_mode\":\"single\"},"
        "\"data\":{\"total_kv_size_bytes\":%llu,\"state\":{\"healthy\":true,\"name\":\"healthy\"}},"
        "\"workload\":{\"transactions\":{\"committed\":{\"counter\":%llu},\"conflicted\":{\"counter\":%llu}},"
        "\"operations\":{\"reads\":{\"counter\":%llu},\"writes\":{\"counter\":%llu}}}},"
        "\"keel\":{\"path\":\"%s\",\"in_memory\":%s,\"durable\":%s,\"failed\":%s,\"disk_full\":%s,"
        "\"read_version\":%lld,\"base_version\":%lld,\"horizon_version\":%lld,\"rows_read\":%llu,\"batches\":%llu,"
        "\"mutation_bytes\":%llu,\"window_bytes\":%llu,\"window_bytes_max\":%llu,\"log_bytes\":%llu,\"base_bytes\":%llu,"
        "\"checkpoints\":%llu,\"watches\":%ld}}",
        yes_or_no(!status->failed), yes_or_no(!status->failed && !status->disk_full),
            yes_or_no(!status->failed),
        status->in_memory ? "memory" : "lmdb", (unsigned long long)(status->base_bytes
                                                                    + status->window_bytes),
        (unsigned long long)status->commits, (unsigned long long)status->conflicts,
            (unsigned long long)status->reads,
        (unsigned long long)status->mutations, path, yes_or_no(status->in_memory),
            yes_or_no(status->durable),
        yes_or_no(status->failed), yes_or_no(status->disk_full), (long long)status->read_version,
        (long long)status->base_version, (long long)status->horizon_version,
            (unsigned long long)status->rows_read,
        (unsigned long long)status->batches, (unsigned long long)status->mutation_bytes,
        (unsigned long long)status->window_bytes, (unsigned long long)status->window_bytes_max,
        (unsigned long long)status->log_bytes, (unsigned long long)status->base_bytes,
        (unsigned long long)status->checkpoints, watches);
}

fdb_error_t status_document(struct database_handle *handle, struct arena *arena,
                            struct bytes *document) {
    struct database_status *status = arena_allocate(arena, sizeof *status);
    char *path = arena_allocate_bytes(arena, PATH_BYTES + 1);
    char *room = arena_allocate_bytes(arena, TEXT_BYTES + PATH_BYTES);
    if (!status || !path || !room)
        return ERROR_LARGE_ALLOC_FAILED;
    memset(status, 0, sizeof *status);
    database_get_status(handle->database, status);
    status->path[sizeof status->path - 1] = 0;
    escape(status->path, path);
    int length = print(room, TEXT_BYTES + PATH_BYTES, status, path,
                       (long)atomic_load(&handle->watch_count));
    *document = bytes_make(room, (size_t)length);
    return 0;
}
