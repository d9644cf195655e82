/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What import and loads have in common: the target directory, the note that an import leaves with its load, which load a command means, and the way of a
 * load from ready to active.
 *
 * The note is JSON: {"import": 1, "file": …, "size": …, "command": …}, so that whoever finds an unfinished load knows what it was and what to type.
 */
#include "import.h"

#include <stdlib.h>
#include <string.h>

enum { NOTE_COMMAND_MAX = 6000 };

/* ---- Directories ---- */

struct opening {
    keel_path path;
    bool create;
    keel_directory *directory;
};

static fdb_error_t open_directory(FDBTransaction *tr, void *context) {
    struct opening *opening = context;
    keel_directory_close(opening->directory);
    opening->directory = NULL;
    return opening->create ? keel_directory_create_or_open(tr, NULL, opening->path, KEEL_NO_LAYER, &opening->directory)
                           : keel_directory_open(tr, NULL, opening->path, KEEL_NO_LAYER, &opening->directory);
}

keel_directory *target_open(struct session *session, const char *doing, const char *text, bool create, int *exit_code) {
    struct text_path path = {0};
    const char *message = NULL;
    struct opening opening = {.create = create};
    *exit_code = EXIT_USAGE;
    if (session->current) {
        report("%s: runs transactions of its own: commit or roll back the current one first", doing);
    } else if (!text_to_path(text, &path, &message)) {
        report("%s: %s: %s", doing, text, message);
    } else {
        opening.path = path.path;
        fdb_error_t error = create ? session_write(session, open_directory, &opening) : session_read(session, open_directory, &opening);
        if (error)
            *exit_code = report_error(doing, text, error);
        if (error) {
            keel_directory_close(opening.directory);
            opening.directory = NULL;
        }
    }
    text_path_free(&path);
    return opening.directory;
}

/* ---- Notes ---- */

char *load_note_write(const char *file, uint64_t size, const char *command) {
    json_t *object = json_pack("{si ss sI ss}", "import", 1, "file", file, "size", (json_int_t)size, "command",
                               strlen(command) <= NOTE_COMMAND_MAX ? command : "");
    if (!object) /* a file name that is not UTF-8 */
        object = json_pack("{si ss sI ss}", "import", 1, "file", "?", "size", (json_int_t)size, "command", "");
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

fdb_error_t load_note_read(FDBTransaction *tr, const keel_directory *target, const char *name, struct load_note *note) {
    uint8_t *text = NULL;
    size_t length = 0;
    json_error_t problem;
    *note = (struct load_note){0};
    fdb_error_t error = keel_bulk_note(tr, target, name, &text, &length);
    if (error)
        return error;
    json_t *object = length ? json_loadb((const char *)text, length, 0, &problem) : NULL;
    const char *file = json_string_value(json_object_get(object, "file")), *command = json_string_value(json_object_get(object, "command"));
    if (json_is_integer(json_object_get(object, "import")) && file && command) {
        note->import = true;
        snprintf(note->file, sizeof note->file, "%s", file);
        note->size = (uint64_t)json_integer_value(json_object_get(object, "size"));
        note->command = strdup(command);
    }
    json_decref(object);
    free(text);
    return 0;
}

/* ---- Command lines ---- */

/* As a shell reads it. */
static void append_word(struct buffer *line, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
    if (line->length)
        buffer_append(line, " ", 1);
    if (*word && strspn(word, plain) == strlen(word)) {
        buffer_append(line, word, strlen(word));
        return;
    }
    buffer_append(line, "'", 1);
    for (; *word; word++)
        buffer_append(line, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    buffer_append(line, "'", 1);
}

char *command_line(const struct session *session, int argc, char **argv, const char *extra) {
    struct buffer line = {0};
    bool there = !extra;
    if (!session->many) {
        append_word(&line, "keel");
        append_word(&line, session->path ? session->path : "-");
    }
    for (int i = 0; i < argc; i++) {
        append_word(&line, argv[i]);
        there |= extra && strcmp(argv[i], extra) == 0;
    }
    if (!there)
        append_word(&line, extra);
    if (!buffer_append(&line, "", 1)) {
        buffer_free(&line);
        return NULL;
    }
    return (char *)line.data;
}

/* ---- Which load ---- */

struct choice {
    const keel_directory *target;
    const char *wanted; /* --name, or NULL */
    FDBTransaction *tr;
    int all;                   /* loads there are, of whatever kind */
    bool strangers;            /* none, but other keys */
    int unfinished, validated; /* imports in these states */
    keel_bulk_load load, done; /* the last of each */
    struct load_note note;     /* of `load` */
};

static fdb_error_t consider(void *context, const keel_bulk_load *load) {
    struct choice *choice = context;
    struct load_note note;
    bool named = choice->wanted && strcmp(choice->wanted, load->name) == 0;
    choice->all++;
    if (choice->wanted && !named)
        return 0;
    if (!named && load->state != KEEL_BULK_PREPARING && load->state != KEEL_BULK_READY && load->state != KEEL_BULK_VALIDATED)
        return 0;
    fdb_error_t error = load_note_read(choice->tr, choice->target, load->name, &note);
    if (error)
        return error;
    if (!note.import && !named) { /* a program's own */
        free(note.command);
        return 0;
    }
    if (load->state == KEEL_BULK_VALIDATED) {
        choice->validated++;
        choice->done = *load;
        free(note.command);
        return 0;
    }
    choice->unfinished++;
    choice->load = *load;
    free(choice->note.command);
    choice->note = note;
    return 0;
}

/* Whether there is any key in the directory. */
static fdb_error_t look_for_keys(struct choice *choice) {
    keel_subspace space;
    keel_range range;
    const FDBKeyValue *pairs = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    fdb_error_t error = keel_directory_subspace(choice->target, &space);
    if (!error)
        error = keel_subspace_range(&space, KEEL_TUPLE(), &range);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_range(choice->tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 1, 0, FDB_STREAMING_MODE_EXACT, 0, 1,
                                                  0);
    error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &pairs, &count, &more);
    fdb_future_destroy(future);
    choice->strangers = count > 0;
    return error;
}

static fdb_error_t consider_all(FDBTransaction *tr, void *context) {
    struct choice *choice = context;
    choice->tr = tr;
    choice->all = choice->unfinished = choice->validated = 0;
    fdb_error_t error = keel_bulk_list(tr, choice->target, consider, choice);
    return error || choice->all ? error : look_for_keys(choice);
}

static int refuse_second(const struct choice *choice, const struct import_options *options, const char *resume_command) {
    const keel_bulk_load *load = &choice->load;
    uint64_t rows = load->rows > 1 ? load->rows - 1 : 0;
    report("import: %s has an unfinished load, %s, of %s (%s rows so far)", options->into, load->name, *choice->note.file ? choice->note.file : "a program",
           human_count(rows));
    if (choice->note.command && *choice->note.command)
        report("  it was begun with:     %s", choice->note.command);
    if (choice->note.import)
        report("  to go on with it:      %s", resume_command);
    report("  to give it up:         loads --into %s --abandon %s", options->into, load->name);
    return report("  to load beside it:     add --name NAME");
}

static int refuse_resume(const struct choice *choice, const struct import_options *options) {
    if (options->name)
        return report("import: %s has no load %s to resume", options->into, options->name);
    if (!choice->unfinished && !choice->validated)
        return report("import: %s has no unfinished load: leave --resume out", options->into);
    return report("import: %s has %d unfinished loads: say which with --name (loads --into %s lists them)", options->into,
                  choice->unfinished ? choice->unfinished : choice->validated, options->into);
}

static int refuse_name(const keel_bulk_load *load, const struct import_options *options) {
    return report("import: %s has a load %s already, and it is %s: give another --name", options->into, load->name, keel_bulk_state_name(load->state));
}

static int decide(const struct choice *choice, const struct import_options *options, const char *resume_command, char *name) {
    bool one = choice->unfinished == 1, ended = one && choice->load.state != KEEL_BULK_PREPARING && choice->load.state != KEEL_BULK_READY;
    if (choice->strangers)
        return report("import: %s holds keys of something else: import into a directory of its own", options->into);
    if (ended && !(options->resume && choice->load.state == KEEL_BULK_ACTIVE)) /* which a run did that was cut off behind it */
        return refuse_name(&choice->load, options);
    if (!options->resume) {
        if (choice->unfinished)
            return refuse_second(choice, options, resume_command);
        if (options->name && choice->validated)
            return refuse_name(&choice->done, options);
        snprintf(name, KEEL_BULK_NAME_MAX + 1, "%s", options->name ? options->name : "");
        return EXIT_OK;
    }
    if (!one && !(choice->unfinished == 0 && choice->validated == 1))
        return refuse_resume(choice, options);
    snprintf(name, KEEL_BULK_NAME_MAX + 1, "%s", one ? choice->load.name : choice->done.name);
    return EXIT_OK;
}

bool load_choose(struct session *session, const keel_directory *target, const struct import_options *options, const char *resume_command,
                 char name[KEEL_BULK_NAME_MAX + 1], int *exit_code) {
    struct choice choice = {.target = target, .wanted = options->name};
    if (options->name && (!*options->name || strlen(options->name) > KEEL_BULK_NAME_MAX)) {
        report("import: --name has 1 to %d bytes", KEEL_BULK_NAME_MAX);
        *exit_code = EXIT_USAGE;
        return false;
    }
    fdb_error_t error = session_read(session, consider_all, &choice);
    *exit_code = error ? report_error("import", options->into, error) : decide(&choice, options, resume_command, name);
    free(choice.note.command);
    return *exit_code == EXIT_OK;
}

/* ---- From ready to active ---- */

struct completing {
    const struct session *session;
    struct progress *progress;
};

static fdb_error_t validated_some(void *context, const keel_bulk_report *found) {
    struct completing *completing = context;
    if (!completing->progress)
        completing->progress = progress_begin(completing->session, "validating", "bytes", found->expected.bytes);
    progress_update(completing->progress, found->found.bytes, 0);
    return session_interrupted() ? 1101 : 0;
}

struct flip {
    const keel_directory *target;
    const char *name;
    char previous[KEEL_BULK_NAME_MAX + 1]; /* what was active; "": nothing */
};

static fdb_error_t flip(FDBTransaction *tr, void *context) {
    struct flip *wanted = context;
    fdb_error_t error = keel_bulk_active_name(tr, wanted->target, wanted->previous);
    if (error == KEEL_ERROR_NOT_FOUND) {
        wanted->previous[0] = 0;
        error = 0;
    }
    return error ? error : keel_bulk_activate(tr, wanted->target, wanted->name);
}

int load_activate(struct session *session, const keel_directory *target, const char *path, const char *name) {
    struct flip wanted = {target, name, ""};
    fdb_error_t error = session_write(session, flip, &wanted);
    if (!error && *wanted.previous && strcmp(wanted.previous, name) != 0 && !session->quiet)
        report("load %s, which was active before, is kept until: loads --into %s --cleanup", wanted.previous, path);
    return error ? report_error("activate", path, error) : EXIT_OK;
}

int load_complete(struct session *session, const keel_directory *target, const char *path, const char *name, bool activate) {
    struct completing completing = {.session = session};
    keel_bulk_report found = {0};
    fdb_error_t error = keel_bulk_validate(session_database(session), target, name, validated_some, &completing, &found);
    progress_end(completing.progress, !error);
    if (error == KEEL_ERROR_BULK_MISMATCH)
        return report("validate: load %s of %s is not what was loaded: %s pairs and %s bytes expected, %s and %s found, checksums %016llx and %016llx", name,
                      path, human_count(found.expected.pairs), human_count(found.expected.bytes), human_count(found.found.pairs),
                      human_count(found.found.bytes), (unsigned long long)found.expected.checksum, (unsigned long long)found.found.checksum);
    if (error)
        return report_error("validate", path, error);
    return activate ? load_activate(session, target, path, name) : EXIT_OK;
}
