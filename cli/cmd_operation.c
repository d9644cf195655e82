/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the commands that operate a database: look at it, save it, move it, verify it, measure it. docs/operations.md explains how they are meant to be
 * used together; tests/cli/test_operation*.py runs every example here and there.
 */
#include "operation.h"

#include <string.h>
#include <time.h>

#include "util/error.h"

static const char STATUS_HELP[] =
    "Shows the version, how much is read and written, how long that takes, conflicts, and where the bytes are: the\n"
    "window (the last seconds, in memory), the log (commits that may not be in the base yet) and the base\n"
    "(everything else). Rates are taken over --interval seconds (1); 0 shows totals since the database was opened\n"
    "alone. With --json the whole status document of the database, as \\xff\\xff/status/json has it, with \"rates\".\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db status --interval 0\n"
    "    …\n"
    "    $ keel my.db status --interval 0.1 --json\n"
    "    {…\"keel\"…}\n";

static const char TOP_HELP[] =
    "The figures of status, taken again every --interval seconds (1), until Ctrl-C or --count of them. On a\n"
    "terminal the screen is drawn anew; elsewhere each is a line, with --json an object.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db top --count 2 --interval 0.1\n"
    "    …\n";

static const char BACKUP_HELP[] =
    "Writes every key and value of one state of the database into FILE, while others go on using it, or into a pipe\n"
    "(-). The file gets its name when it is complete and on the disk, never before. It is checksummed: --verify\n"
    "reads one and says whether it is whole. Keys under \\xff are not in it. --force replaces a file that is there.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db backup my.backup\n"
    "    my.backup: 1 row…\n"
    "    $ keel my.db backup --verify my.backup\n"
    "    my.backup: whole: 1 row…\n"
    "    $ keel my.db backup - | gzip > my.backup.gz\n"
    "    …\n";

static const char RESTORE_HELP[] =
    "Writes the rows of a backup into an empty database. A database that has rows is refused, unless --force clears\n"
    "it first, or --merge adds to what is there. A file is verified to its last byte before anything is written; of\n"
    "a pipe (-) every block is. If it is interrupted, the database is marked as unfinished; the same command goes\n"
    "on from there. --into KEY puts all keys behind a prefix.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db backup my.backup\n"
    "    …\n"
    "    $ keel other.db restore my.backup\n"
    "    1 row…\n"
    "    $ gzip -c my.backup | gunzip | keel other.db restore --force -\n"
    "    1 row…\n";

static const char COPY_HELP[] =
    "Copies every row from one database to another, each a directory or the cluster file of a FoundationDB cluster,\n"
    "and verifies the result by checksum. With one name it copies from the database that is open. What arrives is\n"
    "one state of the source, which may be in use. A destination that has rows is refused, unless --force clears it\n"
    "first, or --merge adds to what is there. If it is interrupted, the same command goes on and ends with the\n"
    "source's present state.\n"
    "\n"
    "A cluster keeps a state for five seconds. There the copy goes over the rows until nothing has changed since\n"
    "the last time, at most --passes times (10); --bounded does the same with an embedded database.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db copy copy.db\n"
    "    1 row…\n"
    "    $ keel my.db copy --force --json copy.db\n"
    "    {…\"rows\": 1…}\n";

static const char CHECK_HELP[] =
    "Verifies the files (log, base), reads every row, and holds the directories and the recipes in them against\n"
    "their rules. What is wrong is said with file, offset or key; then the command ends with 4. Which structure a\n"
    "directory holds is known by its layer tag, or told by --as TYPE PATH, which may be given several times (index\n"
    "and relation take two paths); --types lists the types. A database that another process has open cannot have\n"
    "its files verified: --online reads rows, directories and recipes through the database alone.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db check\n"
    "    …\n"
    "    $ keel my.db check --online --json\n"
    "    {…}\n";

static const char COMPACT_HELP[] =
    "Writes the base anew without its free pages, which gives back to the disk what deleted rows took. Needs room\n"
    "for a second base while it works, and nobody else may have the database open.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    $ keel my.db compact\n"
    "    …\n";

static const char BENCH_HELP[] =
    "Measures how fast this machine is, in a database of its own beside DB that is removed afterwards (with\n"
    "--memory in memory): gets, range rows, commits of one client and of --clients (16), each for --seconds (1),\n"
    "and beside them the bare time of a sync of this disk, which no commit can beat. The keys of DB are neither\n"
    "read nor written.\n"
    "\n"
    "    $ keel my.db bench --seconds 0.1\n"
    "    …\n";

const struct command operation_commands[] = {
    {.name = "status",
     .arguments = "[--interval SECONDS]",
     .summary = "versions, rates, latencies, sizes",
     .help = STATUS_HELP,
     .run = command_status,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "top",
     .arguments = "[--count N] [--interval SECONDS]",
     .summary = "the same, live",
     .help = TOP_HELP,
     .run = command_top,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "backup",
     .arguments = "[--force | --verify] FILE|-",
     .summary = "one state of the database, into a file or a pipe",
     .help = BACKUP_HELP,
     .run = command_backup,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "restore",
     .arguments = "[--force | --merge] [--into KEY] FILE|-",
     .summary = "a backup, into a database",
     .help = RESTORE_HELP,
     .run = command_restore,
     .group = COMMAND_OPERATION},
    {.name = "copy",
     .arguments = "[--force | --merge] [--bounded] [--passes N] [SRC] DST",
     .summary = "all rows, into another database",
     .help = COPY_HELP,
     .run = command_copy,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "check",
     .arguments = "[--online] [--as TYPE PATH…]… [--types]",
     .summary = "whether files, directories and recipes are sound",
     .help = CHECK_HELP,
     .run = command_check,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "compact",
     .arguments = "",
     .summary = "gives free pages back to the disk",
     .help = COMPACT_HELP,
     .run = command_compact,
     .group = COMMAND_OPERATION,
     .only_reads = true},
    {.name = "bench",
     .arguments = "[--seconds N] [--clients N] [--memory]",
     .summary = "how fast this machine is",
     .help = BENCH_HELP,
     .run = command_bench,
     .group = COMMAND_OPERATION},
    {0},
};

const struct command *operation_command(const char *name) {
    for (const struct command *command = operation_commands; command->name; command++) {
        if (strcmp(command->name, name) == 0)
            return command;
    }
    return NULL;
}

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

const char *time_text(uint64_t microseconds) {
    static char text[64];
    time_t seconds = (time_t)(microseconds / 1000000);
    struct tm broken;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &broken));
    return text;
}

json_t *json_hex(uint64_t number) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
    return json_string(text);
}

fdb_error_t text_to_prefix(FDBTransaction *tr, const char *text, struct buffer *prefix) {
    size_t length = strlen(text);
    bool has_tuple = length > 1 && text[length - 1] == ')' && text[length - 2] != '\\';
    struct buffer directory = {0};
    if (*text != '/' || has_tuple)
        return text_to_key(tr, text, prefix);
    fdb_error_t error = ERROR_LARGE_ALLOC_FAILED;
    if (buffer_append(&directory, text, length) && buffer_append(&directory, "()", 3))
        error = text_to_key(tr, (const char *)directory.data, prefix);
    buffer_free(&directory);
    return error;
}

bool outside_transaction(const struct session *session, const char *command) {
    if (!session->current)
        return true;
    report("%s: works in transactions of its own: commit or rollback this one first", command);
    return false;
}
