/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch: waits for the value of a key to change, or has the shell tell of it later.
 *
 * A watch is set in a transaction that also reads the value, and begins to live with its commit. What it says is that the value was different at some
 * moment since; so when it fires the value is read again, in the transaction that sets the next watch: no change between two is lost, though
 * several may be seen as one.
 *
 * Watches in the background are futures in a list; watches_poll looks at them before each prompt and after each command of a script. They end with the
 * shell.
 */
#include "core.h"

#include <stdlib.h>

enum { WATCHES_MAX = 100 };

struct watch {
    char *text; /* the key as it was typed */
    FDBFuture *future;
};

static struct watch watches[WATCHES_MAX];
static size_t watch_count;

struct watch_context {
    const char *text;
    struct buffer key, value;
    fdb_bool_t present;
    FDBFuture *future;
};

/* Reads and sets the watch; `future` outlives the commit. */
static fdb_error_t in_watch(FDBTransaction *tr, void *pointer) {
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

void watches_free(void) {
    while (watch_count > 0) {
        watch_count--;
        fdb_future_destroy(watches[watch_count].future);
        free(watches[watch_count].text);
    }
}

static void tell_fired(struct session *session, struct watch *watch) {
    struct watch_context context = {.text = watch->text};
    FDBTransaction *current = session->current;
    fdb_error_t error = fdb_future_get_error(watch->future);
    session->current = NULL; /* what is new, not what an open transaction sees */
    if (!error)
        error = session_read(session, in_watch, &context);
    session->current = current;
    if (error)
        report_error("watch", watch->text, error);
    else
        tell(session, &context);
    free_context(&context);
}

void watches_poll(struct session *session) {
    for (size_t i = 0; i < watch_count;) {
        if (!fdb_future_is_ready(watches[i].future)) {
            i++;
            continue;
        }
        struct watch fired = watches[i];
        memmove(&watches[i], &watches[i + 1], (--watch_count - i) * sizeof fired);
        tell_fired(session, &fired);
        fdb_future_destroy(fired.future);
        free(fired.text);
    }
}

static int watch_in_background(struct session *session, const char *text) {
    struct watch_context context = {.text = text};
    if (!session->many)
        return report("watch: --background needs a shell or a script to tell of the change");
    if (watch_count == WATCHES_MAX)
        return report("watch: there are %d watches already", WATCHES_MAX);
    fdb_error_t error = session_write(session, in_watch, &context);
    int code = error ? report_error("watch", text, error) : EXIT_OK;
    if (!error) {
        watches[watch_count++] = (struct watch){strdup(text), context.future};
        context.future = NULL;
    }
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
    if (background)
        return watch_in_background(session, argv[1]);
    if (session->current)
        return report("watch: a transaction is open, and a watch begins with its commit: commit first, or watch --background");
    return wait_for_changes(session, argv[1], count);
}
