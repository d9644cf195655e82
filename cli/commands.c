/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all commands, made of the tables of the cmd_*.c files; dispatch and help.
 *
 * A command line is words: the name, options, arguments. Four options belong to every command and are taken out here: --help, --json, --yes and
 * --quiet count for the one command they are given to, also in the shell. An unknown name is answered with those that come near it: the same
 * beginning, or a few letters' difference.
 */
#include "core.h"

#include <keel/version.h>

#include <stdlib.h>

const char KEEL_COMMAND_VERSION[] = KEEL_VERSION;

const struct command *command_at(size_t index) {
    const struct command *const tables[] = {data_commands, structure_commands, recipe_commands, bulk_commands, operation_commands, shell_commands};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
        for (const struct command *command = tables[table]; command->name; command++) {
            if (index-- == 0)
                return command;
        }
    }
    return NULL;
}

const struct command *command_find(const char *name) {
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        if (strcmp(command->name, name) == 0)
            return command;
    }
    return NULL;
}

/* ---- Names that come near ---- */

enum { NAME_MAX_LENGTH = 32 };

/* How many letters have to be inserted, removed or replaced. */
static size_t distance(const char *a, const char *b) {
    size_t row[NAME_MAX_LENGTH + 1], length_b = strlen(b);
    if (length_b > NAME_MAX_LENGTH)
        return length_b;
    for (size_t j = 0; j <= length_b; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length_b; j++) {
            size_t replaced = diagonal + (a[i] != b[j]), shorter = row[j] + 1, longer = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = replaced < shorter ? replaced : shorter;
            row[j + 1] = row[j + 1] < longer ? row[j + 1] : longer;
        }
    }
    return row[length_b];
}

static int unknown(const char *name) {
    struct buffer near = {0};
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        size_t apart = distance(name, command->name), length = strlen(command->name);
        bool begins = *name && strncmp(command->name, name, strlen(name)) == 0;
        if (!begins && (apart > 2 || apart >= length))
            continue;
        buffer_append_text(&near, near.length ? ", " : " Did you mean ");
        buffer_append_text(&near, command->name);
    }
    if (near.length)
        buffer_append_text(&near, "?");
    report("There is no command %.60s.%s \"keel help\" lists them all", name, buffer_text(&near));
    buffer_free(&near);
    return EXIT_USAGE;
}

/* ---- Help ---- */

void command_print_help(const struct command *command, FILE *file) {
    fprintf(file, "usage: keel DB %s%s%s\n\n%s.\n\n%s", command->name, *command->arguments ? " " : "", command->arguments, command->summary, command->help);
    size_t length = strlen(command->help);
    if (length == 0 || command->help[length - 1] != '\n')
        fputc('\n', file);
}

static void print_list(void) {
    static const char *const titles[] = {"Data", "Directories", "Data structures", "Import and export", "Operation", "Shell and scripts"};
    puts("usage: keel [OPTION]… DB              a shell on the database DB\n"
         "       keel [OPTION]… DB COMMAND …    one command; \"keel help COMMAND\" says more and has examples\n"
         "       keel [OPTION]… DB < FILE       the commands of a file, line by line\n"
         "\n"
         "DB is a directory (made by the first write), :memory:, a cluster file (of FoundationDB or \"keel serve\"), or - for the default place.\n"
         "\n"
         "Keys: text with escapes (hello, two\\ words, \\x00), tuples (\"users\", 42), or a tuple in a directory: /app/users(\"id\", 7).\n"
         "\n"
         "  --json                 results as JSON, one value a line\n"
         "  --yes                  nothing is asked\n"
         "  --quiet                no progress, no notes\n"
         "  --timeout SECONDS      for each transaction\n"
         "  --option NAME[=VALUE]  a transaction option, see \"keel help option\"\n"
         "  --keep-going           a script goes on after an error\n"
         "  --version, --help");
    for (size_t group = 0; group < sizeof titles / sizeof titles[0]; group++) {
        const struct command *command;
        bool any = false;
        for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
            if ((size_t)command->group != group)
                continue;
            if (!any)
                printf("\n%s:\n", titles[group]);
            any = true;
            printf("  %-14s %s\n", command->name, command->summary);
        }
    }
    puts("\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 damage found, 130 interrupted.");
}

int command_help(const char *name) {
    const struct command *command = name ? command_find(name) : NULL;
    if (name && !command)
        return unknown(name);
    if (command)
        command_print_help(command, stdout);
    else
        print_list();
    return EXIT_OK;
}

/* ---- Dispatch ---- */

/* Takes the options of all commands out of argv. True: --help was among them. */
static bool take_common(struct session *session, int *argc, char **argv) {
    int kept = 1;
    bool help = false, ended = false;
    for (int i = 1; i < *argc; i++) {
        ended = ended || strcmp(argv[i], "--") == 0;
        if (!ended && strcmp(argv[i], "--help") == 0)
            help = true;
        else if (!ended && strcmp(argv[i], "--json") == 0)
            session->json = true;
        else if (!ended && strcmp(argv[i], "--yes") == 0)
            session->assume_yes = true;
        else if (!ended && strcmp(argv[i], "--quiet") == 0)
            session->quiet = true;
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return help;
}

int command_run(struct session *session, int argc, char **argv) {
    const struct command *command = command_find(argv[0]);
    if (!command)
        return unknown(argv[0]);
    bool json = session->json, assume_yes = session->assume_yes, quiet = session->quiet;
    bool help = take_common(session, &argc, argv);
    session->must_exist = command->only_reads;
    int code = EXIT_OK;
    if (help)
        command_print_help(command, stdout);
    else
        code = command->run(session, argc, argv);
    session->json = json;
    session->assume_yes = assume_yes;
    session->quiet = quiet;
    fflush(stdout);
    return code;
}
