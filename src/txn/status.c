/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status document that \xff\xff/status/json answers with: the parts of FoundationDB's that make
 * sense for one process, under the names tools look for ("client", "cluster",
 * "database_available"), and a "keel" part with what the engine counts. Counters are totals since the
 * database was opened; docs/status.md explains each.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "txn/state.h"

enum { TEXT_BYTES = 8192, PATH_BYTES = 6 * 4096 };

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

static double seconds(int64_t ns) { return (double)ns / 1e9; }

static unsigned long long number(uint64_t value) { return value; }

/* Parts of the document, one after the other. REQUIRES: room for all of it. */
struct text {
    char *to;
    size_t used, size;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->to + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    assert(length >= 0 && (size_t)length < text->size - text->used);
    text->used += (size_t)length;
}

/* What FoundationDB's document has, under its names. */
static void add_cluster(struct text *text, const struct database_status *status) {
    bool available = !status->failed;
    add(text,
        "{\"client\":{\"coordinators\":{\"coordinators\":[],\"quorum_reachable\":true},"
        "\"database_status\":{\"available\":%s,\"healthy\":%s},\"messages\":[]},",
        yes_or_no(available), yes_or_no(available && !status->disk_full));
    add(text,
        "\"cluster\":{\"database_available\":%s,\"full_replication\":true,\"generation\":1,"
        "\"configuration\":{\"storage_engine\":\"%s\",\"redundancy_mode\":\"single\"},"
        "\"clients\":{\"count\":%llu},"
        "\"data\":{\"total_kv_size_bytes\":%llu,\"total_disk_used_bytes\":%llu,"
        "\"state\":{\"healthy\":true,\"name\":\"healthy\"}},",
        yes_or_no(available), status->in_memory ? "memory" : "lmdb", number(status->handle_count),
        number(status->base_bytes - status->base_free_bytes + status->window_bytes),
        number(status->in_memory ? 0 : status->base_bytes + status->log_bytes));
    add(text, "\"latency_probe\":{\"commit_seconds\":%.9f,\"read_seconds\":%.9f},",
        seconds(status->commit_latency.p50_ns), seconds(status->read_latency.p50_ns));
    add(text,
        "\"workload\":{\"transactions\":{\"committed\":{\"counter\":%llu},\"conflicted\":{\"counter\":%llu}},"
        "\"operations\":{\"reads\":{\"counter\":%llu},\"writes\":{\"counter\":%llu}}}},",
        number(status->commits), number(status->conflicts), number(status->reads),
        number(status->mutations));
}

static void add_latency(struct text *text, const char *name, const struct latency_status *latency) {
    add(text, "\"%s\":{\"count\":%llu,\"p50\":%.9f,\"p95\":%.9f,\"p99\":%.9f,\"max\":%.9f}", name,
        number(latency->count), seconds(latency->p50_ns), seconds(latency->p95_ns),
        seconds(latency->p99_ns), seconds(latency->max_ns));
}

/* What only Keel has. Latencies are in seconds, of the last half minute or so. */
static void add_keel(struct text *text, const struct database_status *status, const char *path,
                     long watches, long transactions) {
    add(text,
        "\"keel\":{\"path\":\"%s\",\"in_memory\":%s,\"durable\":%s,\"failed\":%s,\"disk_full\":%s,"
        "\"process_id\":%lld,\"uptime_seconds\":%.3f,\"clients\":%llu,\"connections\":%llu,\"transactions_open\":%ld,",
        path, yes_or_no(status->in_memory), yes_or_no(status->durable), yes_or_no(status->failed),
        yes_or_no(status->disk_full), (long long)status->process_id,
        (double)status->uptime_us / 1e6, number(status->handle_count), number(status->connection_count), transactions);
    add(text,
        "\"read_version\":%lld,\"base_version\":%lld,\"horizon_version\":%lld,\"rows_read\":%llu,"
        "\"batches\":%llu,\"mutation_bytes\":%llu,\"window_bytes\":%llu,\"window_bytes_max\":%llu,",
        (long long)status->read_version, (long long)status->base_version,
        (long long)status->horizon_version, number(status->rows_read), number(status->batches),
        number(status->mutation_bytes), number(status->window_bytes),
        number(status->window_bytes_max));
    add(text,
        "\"log_bytes\":%llu,\"base_bytes\":%llu,\"base_free_bytes\":%llu,\"checkpoints\":%llu,"
        "\"damaged_reads\":%llu,\"watches\":%ld,\"long_reads\":%llu,\"oldest_long_read_seconds\":%.3f,",
        number(status->log_bytes), number(status->base_bytes), number(status->base_free_bytes),
        number(status->checkpoints), number(status->damaged_reads), watches,
        number(status->pin_count), (double)status->oldest_pin_us / 1e6);
    add(text, "\"latencies\":{");
    add_latency(text, "commit", &status->commit_latency);
    add(text, ",");
    add_latency(text, "read", &status->read_latency);
    add(text, "}}}");
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
    struct text text = {room, 0, TEXT_BYTES + PATH_BYTES};
    add_cluster(&text, status);
    add_keel(&text, status, path, (long)atomic_load(&handle->watch_count),
             atomic_load(&handle->references) - 1);
    *document = bytes_make(room, text.used);
    return 0;
}
