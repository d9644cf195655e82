/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the bulk commands, with what their help says, and `loads`: what has been prepared in a directory, and what becomes of it.
 */
#include "import.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char import_help[] =
    "Loads the rows of FILE (- for standard input) into the directory DIR, which is made if it does not exist. The rows are prepared aside in many\n"
    "transactions and then become what readers see in one: until that moment they see what was there before. CSV with a header and JSON lines\n"
    "(an object a line) are read; the file's name or --format tells which.\n"
    "\n"
    "  --into DIR           the directory that the rows replace\n"
    "  --format csv|jsonl   where the name does not tell; --delimiter C|tab, --quote C|none\n"
    "  --no-header --columns A,B,…   for CSV without a header\n"
    "  --key COL[,COL]      what makes a row's key (default: the first column); auto: the number of the row\n"
    "  --types COL:TYPE,…   text (default), int, float, bool, hex, base64, date, timestamp, uuid, json; auto guesses int, float and bool\n"
    "                       from the first 1,000 rows\n"
    "  --index COL[,COL]    an index over these columns; may be given many times\n"
    "  --as records|documents   a tuple of the columns a row (default for CSV), or a document of the recipe (default for JSON lines)\n"
    "  --on-error stop|skip the first row that is refused ends the import (default), or it is left out\n"
    "  --errors-to FILE     copies the rows that are refused, with the header; --error-lines N (10): so many are named\n"
    "  --dry-run            reads and checks everything, duplicate keys too, and writes nothing\n"
    "  --resume             goes on where an interrupted import stopped; --name NAME tells loads apart\n"
    "  --no-activate        prepares and validates only; \"loads --activate\" makes it what readers see\n"
    "\n"
    "An import that was interrupted, by Ctrl-C, a refused row, kill -9 or the power, is resumed by the same command with --resume. What was read\n"
    "before is checked to be unchanged.\n"
    "\n"
    "Examples:\n"
    "    $ printf 'id,name,city\\n7,Ann,Oslo\\n8,Bob,Rome\\n' > users.csv\n"
    "    $ keel my.db import users.csv --into /app/users --types id:int --index city\n"
    "    2 rows of users.csv are in /app/users, load …\n"
    "    $ keel my.db export /app/users\n"
    "    id,name,city\n"
    "    7,Ann,Oslo\n"
    "    8,Bob,Rome\n"
    "    $ printf '{\"id\": 1, \"tags\": [\"a\"]}\\n' | keel my.db import - --format jsonl --key id --into /app/docs\n"
    "    1 rows of standard input are in /app/docs, load …\n";

static const char export_help[] =
    "Writes what an import has put into DIR, in the order of the keys, to FILE or to standard output: CSV with a header, or JSON lines. All rows are of\n"
    "one moment, however long it takes.\n"
    "\n"
    "  --format csv|jsonl   default: what FILE's name says, else csv for records and jsonl for documents\n"
    "  --columns A,B,…      only these, in this order; needed for documents as CSV\n"
    "  --delimiter C|tab    of CSV; --no-header leaves the header out\n"
    "  --name NAME          another load than the active one\n"
    "  --as documents       DIR is no import: its documents, as the document recipe stores them\n"
    "  --no-hold            does not hold one version of the database: after five seconds the export goes on at a later one, in the same load\n"
    "\n"
    "Examples:\n"
    "    $ printf 'id,n\\na,1\\nb,\\nc,\"\"\\n' > small.csv\n"
    "    $ keel my.db import small.csv --into /small\n"
    "    3 rows of small.csv are in /small, load …\n"
    "    $ keel my.db export /small\n"
    "    id,n\n"
    "    a,1\n"
    "    b,\n"
    "    c,\"\"\n"
    "    $ keel my.db export /small --format jsonl\n"
    "    {\"id\":\"a\",\"n\":\"1\"}\n"
    "    {\"id\":\"b\",\"n\":null}\n"
    "    {\"id\":\"c\",\"n\":\"\"}\n";

static const char loads_help[] =
    "Lists the loads of a directory, or says what becomes of one. A load is what an import, or a program with keel/bulk.h, has prepared there.\n"
    "\n"
    "  --activate NAME      validates it if need be and makes it what readers see\n"
    "  --abandon NAME       gives it up\n"
    "  --cleanup            removes what was replaced or abandoned; --older-than AGE (30s, 15m, 24h, 7d) spares what was so more recently\n"
    "\n"
    "Examples:\n"
    "    $ printf 'id\\n1\\n' > one.csv\n"
    "    $ keel my.db import one.csv --into /one --name first --no-activate\n"
    "    1 rows of one.csv are in /one, load first, prepared and validated (…\n"
    "    $ keel my.db loads --into /one\n"
    "    …\n"
    "    $ keel my.db loads --into /one --activate first\n"
    "    load first of /one is active\n";

const struct command bulk_commands[] = {
    {.name = "import", .arguments = "FILE --into DIR [OPTION]…", .summary = "Loads CSV or JSON lines into a directory, all at once for readers", .help = import_help,
     .run = command_import, .group = COMMAND_BULK, .completes_directories = true},
    {.name = "export", .arguments = "DIR [FILE] [OPTION]…", .summary = "Writes what was imported as CSV or JSON lines", .help = export_help,
     .run = command_export, .group = COMMAND_BULK, .completes_directories = true, .only_reads = true},
    {.name = "loads", .arguments = "--into DIR [--activate NAME | --abandon NAME | --cleanup [--older-than AGE]]",
     .summary = "Lists what was prepared; activates, abandons, cleans up", .help = loads_help, .run = command_loads, .group = COMMAND_BULK,
     .completes_directories = true},
    {.name = NULL},
};

/* ---- loads ---- */

struct listing {
    const keel_directory *target;
    FDBTransaction *tr;
    bool json;
    int count;
    struct buffer text; /* printed at the end: a retry begins anew */
};

static void append_load(struct listing *listing, const keel_bulk_load *load, const struct load_note *note) {
    char line[1024], when[32];
    time_t begun = (time_t)(load->begun_ms / 1000);
    struct tm parts;
    uint64_t rows = load->rows - load->skipped;
    if (note->import && rows)
        rows--; /* the schema */
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&begun, &parts));
    int length = snprintf(line, sizeof line, "%-28s %-10s %14s rows %10s  begun %s  %.300s\n", load->name, keel_bulk_state_name(load->state),
                          human_count(rows), human_bytes(load->bytes), when, note->file);
    buffer_append(&listing->text, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static void append_load_json(struct listing *listing, const keel_bulk_load *load, const struct load_note *note) {
    uint64_t rows = load->rows - load->skipped;
    json_t *object = json_pack("{ss ss sI sI sI sI sI ss ss}", "name", load->name, "state", keel_bulk_state_name(load->state), "rows",
                               (json_int_t)(note->import && rows ? rows - 1 : rows), "pairs", (json_int_t)load->pairs, "bytes", (json_int_t)load->bytes,
                               "begun_ms", (json_int_t)load->begun_ms, "changed_ms", (json_int_t)load->changed_ms, "file", note->file, "command",
                               note->command ? note->command : "");
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text) {
        buffer_append(&listing->text, text, strlen(text));
        buffer_append(&listing->text, "\n", 1);
    }
    free(text);
    json_decref(object);
}

static fdb_error_t list_one(void *context, const keel_bulk_load *load) {
    struct listing *listing = context;
    struct load_note note = {0};
    fdb_error_t error = load_note_read(listing->tr, listing->target, load->name, &note);
    if (error && error != KEEL_ERROR_NOT_FOUND)
        return error;
    listing->count++;
    (listing->json ? append_load_json : append_load)(listing, load, &note);
    free(note.command);
    return 0;
}

static fdb_error_t list_all(FDBTransaction *tr, void *context) {
    struct listing *listing = context;
    listing->tr = tr;
    listing->count = 0;
    listing->text.length = 0;
    return keel_bulk_list(tr, listing->target, list_one, listing);
}

static int print_loads(struct session *session, const keel_directory *target, const char *into) {
    struct listing listing = {.target = target, .json = session->json};
    fdb_error_t error = session_read(session, list_all, &listing);
    if (!error)
        fwrite(listing.text.data, 1, listing.text.length, stdout);
    if (!error && !listing.count && !session->json)
        printf("%s has no loads\n", into);
    buffer_free(&listing.text);
    return error ? report_error("loads", into, error) : EXIT_OK;
}

/* ---- Giving up, cleaning up ---- */

struct named_load {
    const keel_directory *target;
    const char *name;
};

static fdb_error_t abandon(FDBTransaction *tr, void *context) {
    const struct named_load *load = context;
    return keel_bulk_abandon(tr, load->target, load->name);
}

static int abandon_load(struct session *session, const keel_directory *target, const char *into, const char *name) {
    struct named_load load = {target, name};
    fdb_error_t error = session_write(session, abandon, &load);
    if (error)
        return report_error("loads", name, error);
    if (session->json)
        output_json(json_pack("{ss ss}", "load", name, "state", "abandoned"));
    else
        printf("load %s of %s is abandoned; --cleanup removes it\n", name, into);
    return EXIT_OK;
}

static int activate_load(struct session *session, const keel_directory *target, const char *into, const char *name) {
    int exit_code = load_complete(session, target, into, name, true);
    if (exit_code == EXIT_OK && session->json)
        output_json(json_pack("{ss ss}", "load", name, "state", "active"));
    else if (exit_code == EXIT_OK)
        printf("load %s of %s is active\n", name, into);
    return exit_code;
}

static fdb_error_t cleaned_some(void *context, const keel_bulk_cleaning *cleaning) {
    progress_update(context, cleaning->transactions, 0);
    return session_interrupted() ? 1101 : 0;
}

static int clean_up(struct session *session, const keel_directory *target, const char *into, int64_t age_ms) {
    keel_bulk_cleaning cleaning = {0};
    FDBDatabase *database = session_database(session);
    if (!database)
        return EXIT_FAILED;
    struct progress *progress = progress_begin(session, "cleaning up", "steps", 0);
    fdb_error_t error = keel_bulk_cleanup(database, target, age_ms, cleaned_some, progress, &cleaning);
    progress_end(progress, !error);
    if (error)
        return report_error("loads", into, error);
    if (session->json)
        output_json(json_pack("{sI}", "removed", (json_int_t)cleaning.loads));
    else
        printf("%s loads of %s were removed\n", human_count(cleaning.loads), into);
    return EXIT_OK;
}

/* "30s", "15m", "24h", "7d". */
static bool age_of(const char *text, int64_t *milliseconds) {
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;
    char digits[12];
    if (!unit || length > 10) {
        report("--older-than: %s is no age: 30s, 15m, 24h, 7d", text);
        return false;
    }
    memcpy(digits, text, length - 1);
    digits[length - 1] = 0;
    int64_t number = 0;
    if (!options_number("older-than", digits, 0, 1000000, &number))
        return false;
    *milliseconds = number * seconds[unit - units] * 1000;
    return true;
}

int command_loads(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("loads");
    const char *into = NULL, *activate = NULL, *abandoned = NULL, *cleanup = NULL, *older_than = NULL;
    const struct option_spec specs[] = {{"into", 'i', true, &into},       {"activate", 0, true, &activate},     {"abandon", 0, true, &abandoned},
                                        {"cleanup", 0, false, &cleanup}, {"older-than", 0, true, &older_than}, {NULL, 0, false, NULL}};
    int64_t age_ms = 0;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (!into || argc > 1)
        return usage_error(command, into ? "an argument too many: %s" : "--into DIR is missing", argv[1] ? argv[1] : "");
    if (!!activate + !!abandoned + !!cleanup > 1 || (older_than && !cleanup))
        return usage_error(command, "one of --activate, --abandon and --cleanup; --older-than goes with --cleanup");
    if (older_than && !age_of(older_than, &age_ms))
        return EXIT_USAGE;
    int exit_code = EXIT_OK;
    keel_directory *target = target_open(session, "loads", into, false, &exit_code);
    if (!target)
        return exit_code;
    if (activate)
        exit_code = activate_load(session, target, into, activate);
    else if (abandoned)
        exit_code = abandon_load(session, target, into, abandoned);
    else if (cleanup)
        exit_code = clean_up(session, target, into, age_ms);
    else
        exit_code = print_loads(session, target, into);
    keel_directory_close(target);
    return exit_code;
}
