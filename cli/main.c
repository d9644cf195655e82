/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel [OPTION]… DB [COMMAND …]: options, then a shell, a script from standard input, or one command; and the exit code.
 *
 * Options stand before the command, before or behind DB; what follows the command's name is the command's. The database is opened by the first
 * command that needs it (session.c), so help never touches one.
 *
 * The end. A reader of our output that goes away (head, less) ends us by SIGPIPE, quietly; the database is safe against that as against any
 * death. Output that could not be written otherwise (a full disk) is an error and an exit code of 1, whatever the command said.
 */
#include "core.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* Says what is wrong before the command's name; EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) static int wrong_line(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("keel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\nusage: keel [OPTION]… DB [COMMAND …]\n\"keel help\" says more.\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

/* What an argument before the command is: the session learns it. */
enum answer { NOT_AN_OPTION, TAKEN, TAKEN_WITH_VALUE, WRONG };

static bool flag(const char *argument, const char *name, bool *value) {
    if (strcmp(argument, name) != 0)
        return false;
    *value = true;
    return true;
}

/* The value of --name=value or --name value; NULL: another option, or the value is missing (*missing). */
static const char *option_value(char **argv, const char *name, bool *separate, bool *missing) {
    size_t length = strlen(name);
    if (strncmp(argv[0], name, length) != 0 || (argv[0][length] && argv[0][length] != '='))
        return NULL;
    *separate = argv[0][length] == '\0';
    if (!*separate)
        return argv[0] + length + 1;
    *missing = argv[1] == NULL;
    return argv[1];
}

static enum answer take_timeout(struct session *session, const char *text) {
    char *end;
    session->timeout_seconds = strtod(text, &end);
    if (*text && *end == '\0' && session->timeout_seconds > 0 && session->timeout_seconds <= 1e6)
        return TAKEN;
    wrong_line("--timeout: \"%s\" is not a number of seconds", text);
    return WRONG;
}

static enum answer take_transaction_option(struct session *session, const char *text) {
    char *name = strdup(text);
    if (!name)
        return WRONG;
    char *equals = strchr(name, '=');
    if (equals)
        *equals = '\0';
    bool good = session_set_option(session, name, equals ? equals + 1 : NULL);
    free(name);
    return good ? TAKEN : WRONG;
}

static enum answer take_option(struct session *session, char **argv) {
    if (argv[0][0] != '-' || argv[0][1] == '\0')
        return NOT_AN_OPTION;
    if (flag(argv[0], "--json", &session->json) || flag(argv[0], "--yes", &session->assume_yes) || flag(argv[0], "--quiet", &session->quiet) ||
        flag(argv[0], "--keep-going", &session->keep_going))
        return TAKEN;
    bool separate = false, missing = false;
    const char *value = option_value(argv, "--timeout", &separate, &missing);
    enum answer answer = WRONG;
    if (value)
        answer = take_timeout(session, value);
    else if (!missing && (value = option_value(argv, "--option", &separate, &missing)) != NULL)
        answer = take_transaction_option(session, value);
    else if (missing)
        wrong_line("The option %s needs a value", argv[0]);
    else
        wrong_line("There is no option %s here", argv[0]);
    return answer == TAKEN && separate ? TAKEN_WITH_VALUE : answer;
}

/* Moves *at behind the options that stand there. False: one is wrong, reported. */
static bool take_options(struct session *session, char **argv, int *at) {
    for (; argv[*at]; (*at)++) {
        enum answer answer = take_option(session, argv + *at);
        if (answer == NOT_AN_OPTION)
            return true;
        if (answer == WRONG)
            return false;
        *at += answer == TAKEN_WITH_VALUE;
    }
    return true;
}

/* Data is UTF-8, so the terminal is taken to be that as well. Numbers are read and printed as in the C locale. */
static void set_locale(void) {
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

/* --complete LINE: what bash's completion asks, one word a line. */
static int print_completions(struct session *session, const char *line) {
    struct completions completions = {0};
    complete(session, line, strlen(line), &completions);
    for (size_t i = 0; i < completions.count; i++)
        puts(completions.words[i]);
    completions_free(&completions);
    return EXIT_OK;
}

static int run_command(struct session *session, int argc, char **argv) {
    if (strcmp(argv[0], "--complete") == 0)
        return print_completions(session, argc > 1 ? argv[1] : "");
    return command_run(session, argc, argv);
}

/* keel copy SRC DST, keel serve DIR and keel backup --verify FILE name all they need: no DB stands before them (unless one of that name is there). */
static bool needs_no_database(char **argv) {
    if (!argv[1] || access(argv[0], F_OK) == 0)
        return false;
    return ((strcmp(argv[0], "copy") == 0 || strcmp(argv[0], "serve") == 0) && !command_find(argv[1])) || (strcmp(argv[0], "backup") == 0 && strcmp(argv[1], "--verify") == 0);
}

static int run(struct session *session, int argc, char **argv) {
    int at = 1;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return command_help(NULL);
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        return printf("keel %s\n", KEEL_COMMAND_VERSION) < 0;
    if (argc == 3 && strcmp(argv[2], "--help") == 0 && command_find(argv[1]))
        return command_help(argv[1]);
    if (argc > 1 && argc < 4 && strcmp(argv[1], "help") == 0)
        return command_help(argv[2]);
    if (!take_options(session, argv, &at))
        return EXIT_USAGE;
    if (!argv[at])
        return wrong_line("Which database? Give the path of a directory; it is made if it does not exist");
    session->no_database = needs_no_database(argv + at);
    if (session->no_database)
        return run_command(session, argc - at, argv + at);
    if (command_find(argv[at]) && access(argv[at], F_OK) != 0)
        return wrong_line("%s is a command: the database stands before it, as in keel my.db %s (one that is named %s is ./%s)", argv[at], argv[at],
                          argv[at], argv[at]);
    session->path = strcmp(argv[at], "-") == 0 ? NULL : argv[at];
    at++;
    if (argv[at] && (strcmp(argv[at], "--help") == 0))
        return command_help(NULL);
    if (!(argv[at] && strcmp(argv[at], "--complete") == 0) && !take_options(session, argv, &at))
        return EXIT_USAGE;
    if (argv[at])
        return run_command(session, argc - at, argv + at);
    session->many = true;
    session->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    return session->interactive ? shell_run(session) : shell_script(session, STDIN_FILENO);
}

int main(int argc, char **argv) {
    struct session session = {.committed_version = -1};
    signal(SIGPIPE, SIG_DFL);
    set_locale();
    session_catch_interrupts();
    int code = run(&session, argc, argv);
    watches_free();
    range_free();
    session_close(&session);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
        if (errno != EPIPE)
            fprintf(stderr, "keel: the output could not be written: %s\n", strerror(errno));
        code = EXIT_FAILED;
    }
    return code;
}
