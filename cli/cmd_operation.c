/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the commands that operate a database: look at it, save it, move it, verify it, measure it. docs/operations.md explains how they are meant to be
 * used together; tests/cli/test_operation*.py runs every example here and there.
 */
#include "operation.h"

#include <string.h>
#include <time.h>

static const char BACKUP_HELP[] =
    "Writes every key and value of one state of the database into FILE, while others go on using it, or into a pipe (-). The file gets its name when it is\n"
    "complete and on the disk, never before. It is checksummed: --verify reads one and says whether it is whole. Keys under \\xff are not in it. --force\n"
    "replaces a file that is there.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    …\n"
    "    $ keel my.db backup my.backup\n"
    "    my.backup: 1 row…\n"
    "    $ keel my.db backup --verify my.backup\n"
    "    my.backup: whole: 1 row…\n"
    "    $ keel my.db backup - | gzip > my.backup.gz\n"
    "    …\n";

static const char RESTORE_HELP[] =
    "Writes the rows of a backup into an empty database. A database that has rows is refused, unless --force clears it first, or --merge adds to what is there. A file\n"
    "is verified to its last byte before anything is written; of a pipe (-) every block is. If it is interrupted, the database is marked as\n"
    "unfinished; the same command goes on from there. --into KEY puts all keys behind a prefix.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    …\n"
    "    $ keel my.db backup my.backup\n"
    "    …\n"
    "    $ keel other.db restore my.backup\n"
    "    1 row…\n"
    "    $ gzip -c my.backup | gunzip | keel other.db restore --force -\n"
    "    1 row…\n";

static const char COPY_HELP[] =
    "Copies every row from one database to another, each a directory or the cluster file of a FoundationDB cluster, and verifies the result by checksum. With one\n"
    "name it copies from the database that is open. What arrives is one state of the source, which may be in use. A destination that has rows is refused, unless\n"
    "--force clears it first, or --merge adds to what is there. If it is interrupted, the same command goes on and ends with the source's\n"
    "present state.\n"
    "\n"
    "A cluster keeps a state for five seconds. There the copy goes over the rows until nothing has changed since the last time, at most --passes times\n"
    "(10); --bounded does the same with an embedded database.\n"
    "\n"
    "    $ keel my.db set hello world\n"
    "    …\n"
    "    $ keel my.db copy copy.db\n"
    "    1 row…\n"
    "    $ keel my.db copy --force --json copy.db\n"
    "    {…\"rows\":1…}\n";

const struct command operation_commands[] = {
    {.name = "backup", .arguments = "[--force | --verify] FILE|-", .summary = "one state of the database, into a file or a pipe", .help = BACKUP_HELP, .run = command_backup, .group = COMMAND_OPERATION, .only_reads = true},
    {.name = "restore", .arguments = "[--force | --merge] [--into KEY] FILE|-", .summary = "a backup, into a database", .help = RESTORE_HELP, .run = command_restore, .group = COMMAND_OPERATION},
    {.name = "copy", .arguments = "[--force | --merge] [--bounded] [--passes N] [SRC] DST", .summary = "all rows, into another database", .help = COPY_HELP, .run = command_copy, .group = COMMAND_OPERATION, .only_reads = true},
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

bool outside_transaction(const struct session *session, const char *command) {
    if (!session->current)
        return true;
    report("%s: works in transactions of its own: commit or rollback this one first", command);
    return false;
}
