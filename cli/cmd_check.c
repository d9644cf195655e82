/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB check: is everything as it should be? From the bottom up:
 *
 *     files        the log and the base, byte by byte (engine/check.h). Nobody else may have the database open; left out with --online, and where there are no
 *                  files of ours (a cluster, memory)
 *     rows         every one is read once, at one version
 *     directories  layer_check.c
 *     structures   recipe_check.c, those whose directory has a tag keel.TYPE and those named by --as
 *
 * Files that are damaged end it: what is read through them would only repeat it. Otherwise everything is looked at, whatever is found. Nothing is changed. Ends with 4 if
 * there is damage; remarks alone do not count.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "file_check.h"
#include "layer_check.h"
#include "operation.h"
#include "place.h"

enum { AS_MAX = 64 };

/* A structure that was named on the command line. */
struct named {
    const struct recipe_check *check;
    const char *path, *second;
};

struct checking {
    struct session *session;
    bool online;
    struct named named[AS_MAX];
    size_t named_count;
    struct findings findings;
    json_t *damages, *remarks, *structures, *files;
    struct tally tally;
    struct directory_list directories;
    uint64_t structure_count;
};

/* ---- What is found ---- */

static void tell(void *context, bool damage, const char *kind, const char *where, const char *text) {
    struct checking *checking = context;
    if (checking->session->json)
        json_array_append_new(damage ? checking->damages : checking->remarks,
                              json_pack("{s:s, s:o, s:o}", "kind", kind, "where", json_text(keel_bytes_of_string(where)), "what", json_text(keel_bytes_of_string(text))));
    else
        printf("%s (%s): %s: %s\n", damage ? "DAMAGE" : "remark", kind, where, text);
}

/* ---- Rows, directories, structures ---- */

static fdb_error_t read_rows(struct checking *checking, struct snapshot *snapshot) {
    struct cursor cursor;
    struct row row;
    bool present = true;
    fdb_error_t error = cursor_open(snapshot, USER_KEYS_BEGIN, USER_KEYS_END, &cursor);
    struct progress *progress = progress_begin(checking->session, "check", "rows", 0);
    while (!error && !(error = cursor_next(&cursor, &row, &present)) && present) {
        tally_add(&checking->tally, row.key, row.value);
        if (checking->tally.rows % 4096 == 0)
            progress_update(progress, checking->tally.rows, checking->tally.rows);
    }
    progress_end(progress, !error);
    cursor_close(&cursor);
    return error;
}

static fdb_error_t check_structure(struct checking *checking, struct snapshot *snapshot, const struct recipe_check *check, const char *path, keel_bytes prefix,
                                   keel_bytes other) {
    struct structure structure = {.snapshot = snapshot, .findings = &checking->findings, .path = path, .prefix = prefix, .other = other};
    uint64_t damages = checking->findings.damages;
    checking->findings.kind = check->type;
    fdb_error_t error = check->run(&structure);
    checking->findings.kind = NULL;
    if (error)
        return error;
    checking->structure_count++;
    json_array_append_new(checking->structures, json_pack("{s:s, s:o, s:I, s:b}", "type", check->type, "path", json_text(keel_bytes_of_string(path)), "rows",
                                                          (json_int_t)structure.rows, "sound", damages == checking->findings.damages));
    return 0;
}

static fdb_error_t check_tagged(struct checking *checking, struct snapshot *snapshot) {
    fdb_error_t error = 0;
    for (size_t i = 0; i < checking->directories.count && !error; i++) {
        const struct found_directory *directory = &checking->directories.items[i];
        const struct recipe_check *check = recipe_check_of_tag(keel_bytes_of(directory->tag.data, directory->tag.length));
        if (check)
            error = check_structure(checking, snapshot, check, directory->path, keel_bytes_of(directory->prefix.data, directory->prefix.length), keel_bytes_of("", 0));
    }
    return error;
}

struct prefix_request {
    const char *text;
    struct buffer prefix;
};

static fdb_error_t find_prefix(FDBTransaction *tr, void *context) {
    struct prefix_request *request = context;
    request->prefix.length = 0;
    return text_to_prefix(tr, request->text, &request->prefix);
}

/* EXIT_OK, or the code of what was reported. */
static int check_named(struct checking *checking, struct snapshot *snapshot, const struct named *named) {
    struct prefix_request first = {.text = named->path}, second = {.text = named->second};
    const char *failed = named->path;
    fdb_error_t error = session_read(checking->session, find_prefix, &first);
    if (!error && named->second) {
        failed = named->second;
        error = session_read(checking->session, find_prefix, &second);
    }
    if (!error)
        error = check_structure(checking, snapshot, named->check, named->path, keel_bytes_of(first.prefix.data, first.prefix.length),
                                keel_bytes_of(second.prefix.data, second.prefix.length));
    buffer_free(&first.prefix);
    buffer_free(&second.prefix);
    return error ? report_error("check", failed, error) : EXIT_OK;
}

static int check_contents(struct checking *checking) {
    struct session *session = checking->session;
    const char *path = session->path ? session->path : "the database";
    struct snapshot snapshot;
    char *unfinished = NULL;
    FDBDatabase *database = session_database(session);
    if (!database)
        return EXIT_FAILED;
    fdb_error_t error = job_look(database, &unfinished);
    if (unfinished)
        find_remark(&checking->findings, path, "the database holds %s", unfinished);
    free(unfinished);
    if (!error)
        error = snapshot_open(database, false, false, &snapshot);
    if (error)
        return session_interrupted() ? EXIT_INTERRUPTED : report_error("check", path, error);
    error = read_rows(checking, &snapshot);
    if (!error)
        error = check_directories(&snapshot, &checking->findings, &checking->directories);
    if (!error)
        error = check_tagged(checking, &snapshot);
    int code = EXIT_OK;
    for (size_t i = 0; i < checking->named_count && !error && code == EXIT_OK; i++)
        code = check_named(checking, &snapshot, &checking->named[i]);
    snapshot_close(&snapshot);
    if (session_interrupted())
        return EXIT_INTERRUPTED;
    return error ? report_error("check", path, error) : code;
}

/* ---- The command ---- */

static void print_result(struct checking *checking) {
    bool sound = checking->findings.damages == 0;
    if (checking->session->json) {
        output_json(json_pack("{s:b, s:b, s:I, s:I, s:o, s:I, s:O, s:O, s:O, s:O}", "sound", sound, "online", checking->online, "rows", (json_int_t)checking->tally.rows,
                              "bytes", (json_int_t)checking->tally.bytes, "checksum", json_hex(checking->tally.checksum), "directories",
                              (json_int_t)checking->directories.count, "structures", checking->structures, "files", checking->files, "damages", checking->damages,
                              "remarks", checking->remarks));
        return;
    }
    printf("%s: ", sound ? "sound" : "DAMAGED");
    if (!sound)
        printf("%s found; ", human_count(checking->findings.damages));
    printf("%s%s rows, %s of keys and values, %s directories, %s structures\n", json_object_size(checking->files) ? "log and base, " : "", human_count(checking->tally.rows),
           human_bytes(checking->tally.bytes), human_count(checking->directories.count), human_count(checking->structure_count));
}

static int list_types(const struct session *session) {
    for (const struct recipe_check *check = recipe_checks; check->type; check++) {
        if (session->json)
            output_json(json_pack("{s:s, s:s, s:s?}", "type", check->type, "rules", check->rules, "second", check->second));
        else
            printf("%-10s PATH %-8s %s\n", check->type, check->second ? check->second : "", check->rules);
    }
    return EXIT_OK;
}

/* Takes --as TYPE PATH [SECOND] out of the arguments. EXIT_OK, or the code of what was reported. */
static int take_named(struct checking *checking, const struct command *command, int *argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--as") != 0) {
            argv[kept++] = argv[i];
            continue;
        }
        const struct recipe_check *check = i + 1 < *argc ? recipe_check_find(argv[i + 1]) : NULL;
        if (i + 1 >= *argc)
            return usage_error(command, "--as needs a type and the path of a directory");
        if (!check)
            return usage_error(command, "there is no type %s; --types lists them", argv[i + 1]);
        int paths = check->second ? 2 : 1;
        if (i + 1 + paths >= *argc)
            return usage_error(command, "--as %s needs PATH%s%s", check->type, check->second ? " " : "", check->second ? check->second : "");
        if (checking->named_count == AS_MAX)
            return usage_error(command, "at most %d structures can be named", AS_MAX);
        checking->named[checking->named_count++] = (struct named){check, argv[i + 2], check->second ? argv[i + 3] : NULL};
        i += 1 + paths;
    }
    argv[kept] = NULL;
    *argc = kept;
    return EXIT_OK;
}

static int run_check(struct checking *checking) {
    int code = EXIT_OK;
    if (!checking->online)
        code = check_files(checking->session, &checking->findings, checking->files, &checking->online);
    if (code == EXIT_OK && checking->findings.damages == 0)
        code = check_contents(checking);
    if (code != EXIT_OK)
        return code;
    print_result(checking);
    return checking->findings.damages ? EXIT_DAMAGE : EXIT_OK;
}

int command_check(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("check");
    const char *online = NULL, *types = NULL;
    const struct option_spec specs[] = {{"online", 0, false, &online}, {"types", 0, false, &types}, {0}};
    struct checking *checking = calloc(1, sizeof *checking);
    if (!checking)
        return report("check: out of memory");
    *checking = (struct checking){.session = session,
                                  .findings = {.tell = tell, .context = checking},
                                  .damages = json_array(),
                                  .remarks = json_array(),
                                  .structures = json_array(),
                                  .files = json_object()};
    int code = take_named(checking, command, &argc, argv);
    if (code == EXIT_OK && !options_parse(command, &argc, argv, specs))
        code = EXIT_USAGE;
    else if (code == EXIT_OK && argc != 1)
        code = usage_error(command, "%s is not an option; a structure is named by --as TYPE PATH", argv[1]);
    else if (code == EXIT_OK && types)
        code = list_types(session);
    else if (code == EXIT_OK && !outside_transaction(session, "check"))
        code = EXIT_FAILED;
    else if (code == EXIT_OK) {
        checking->online = online != NULL;
        code = run_check(checking);
    }
    json_decref(checking->damages);
    json_decref(checking->remarks);
    json_decref(checking->structures);
    json_decref(checking->files);
    directory_list_free(&checking->directories);
    free(checking);
    return code;
}
