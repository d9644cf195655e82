/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch: waits for the value of a key to change, or has the shell tell of it later.
 *
 * A watch is set in a transaction that also reads the value, and begins to live with its commit. What it says is that the value was different at some
 * moment since; so when it fires the value is read again, in the transaction that sets the next watch: no change between two is lost, though
 * several may be seen as one.
 *
 * Watches in the background are futures in a list; watches_poll looks at them after each command. A watch fires a moment after the commit that changes
 * the value: so the poll reads the value as well, and where it is another than the watch knows, waits for the firing that has to come. So a script
 * sees the same every time. They end with the shell.
 */
#include "core.h"

#include <stdlib.h>

enum { WATCHES_MAX = 100 };

struct watch_context {
    const char *text; /* the key as it was typed */
    struct buffer key, value;
    fdb_bool_t present;
    FDBFuture *future;
};

static struct watch_context watches[WATCHES_MAX]; /* whose texts are ours */
static size_t watch_count;

static fdb_error_t in_look(FDBTransaction *tr, void *pointer) {
    struct watch_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->text, &context->key);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get(tr, context->key.data, (int)context->key.length, 0);
    const uint8_t *value;
    int length;
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &context->present, &value, &length);
    context->value.length = 0;
    if (!error && context->present)
        buffer_append(&context->value, value, (size_t)length);
    fdb_future_destroy(future);
    return error;
}

/* Reads and sets the watch; `future` outlives the commit. */
static fdb_error_t in_watch(FDBTransaction *tr, void *pointer) {
    struct watch_context *context = pointer;
    fdb_error_t error = in_look(tr, context);
    if (error)
        return error;
    if (context->future)
        fdb_future_destroy(context->future);
    context->future = fdb_transaction_watch(tr, context->key.data, (int)context->key.length);
    return 0;
}

static void tell(const struct session *session, const struct watch_context *context) {
    keel_bytes value = keel_bytes_of(context->value.data, context->value.length);
    if (session->json) {
        output_json(json_pack("{s:o, s:o}", "key", output_json_bytes(NULL, keel_bytes_of(context->key.data, context->key.length)), "value",
                              context->present ? output_json_bytes(NULL, value) : json_null()));
    } else if (context->present) {
        printf("%s is now ", context->text);
        print_value(value);
    } else {
        printf("%s is gone\n", context->text);
    }
    fflush(stdout);
}

static void free_context(struct watch_context *context) {
    if (context->future)
        fdb_future_destroy(context->future);
    buffer_free(&context->key);
    buffer_free(&context->value);
}

/* ---- In the background ---- */

static void free_watch(struct watch_context *watch) {
    free((char *)(uintptr_t)watch->text);
    free_context(watch);
}

void watches_free(void) {
    while (watch_count > 0)
        free_watch(&watches[--watch_count]);
}

/* What is new, not what an open transaction sees. */
static fdb_error_t look(struct session *session, struct watch_context *context) {
    FDBTransaction *current = session->current;
    session->current = NULL;
    fdb_error_t error = session_read(session, in_look, context);
    session->current = current;
    return error;
}

/* True: it has fired, or failed, and was told about. */
static bool poll_watch(struct session *session, struct watch_context *watch) {
    struct watch_context now = {.text = watch->text};
    bool ready = fdb_future_is_ready(watch->future);
    fdb_error_t error = look(session, &now);
    bool same = !error && now.present == watch->present && now.value.length == watch->value.length &&
                (now.value.length == 0 || memcmp(now.value.data, watch->value.data, now.value.length) == 0);
    if (ready || !same) {
        if (!error)
            error = session_wait(watch->future);
        if (error)
            report_error("watch", watch->text, error);
        else
            tell(session, &now);
    }
    free_context(&now);
    return ready || !same;
}

void watches_poll(struct session *session) {
    int64_t committed_version = session->committed_version;
    for (size_t i = 0; i < watch_count;) {
        if (!poll_watch(session, &watches[i])) {
            i++;
            continue;
        }
        free_watch(&watches[i]);
        memmove(&watches[i], &watches[i + 1], (--watch_count - i) * sizeof watches[0]);
    }
    session->committed_version = committed_version;
}

static int watch_in_background(struct session *session, const char *text) {
    struct watch_context context = {.text = text};
    if (!session->many)
        return report("watch: --background needs a shell or a script to tell of the change");
    if (watch_count == WATCHES_MAX)
        return report("watch: there are %d watches already", WATCHES_MAX);
    fdb_error_t error = session_write(session, in_watch, &context);
    int code = error ? report_error("watch", text, error) : EXIT_OK;
    context.text = error ? NULL : strdup(text);
    if (context.text)
        watches[watch_count++] = context;
    else
        free_context(&context);
    return code;
}

/* ---- Waiting ---- */

static int wait_for_changes(struct session *session, const char *text, int64_t count) {
    struct watch_context context = {.text = text};
    fdb_error_t error = session_write(session, in_watch, &context);
    for (int64_t seen = 0; !error && (count == 0 || seen < count); seen++) {
        error = session_wait(context.future);
        if (!error)
            error = session_write(session, in_watch, &context);
        if (!error)
            tell(session, &context);
    }
    free_context(&context);
    return error ? report_error("watch", text, error) : EXIT_OK;
}

int command_watch(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("watch");
    const char *count_text = NULL, *background = NULL;
    const struct option_spec specs[] = {{"count", 'n', true, &count_text}, {"background", 'b', false, &background}, {NULL, 0, false, NULL}};
    int64_t count = 1;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, argc < 2 ? "Which key?" : "One key at a time");
    if (count_text && !options_number("--count", count_text, 0, INT64_MAX, &count))
        return EXIT_USAGE;
    if (session->current)
        return report("watch: a transaction is open, and a watch would begin with its commit: commit or rollback first");
    if (background)
        return watch_in_background(session, argv[1]);
    return wait_for_changes(session, argv[1], count);
}
