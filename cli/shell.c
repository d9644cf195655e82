/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell on a terminal (libedit), and scripts.
 *
 *     line ─► words_split ─► command_run ─► watches_poll ─► next line
 *
 * A line may hold several commands with ';' between them; the first that fails ends the line. The prompt is "keel> ", in a transaction
 * "keel*> ". History goes to ~/.keel_history (KEEL_HISTORY names another file), saved after each line.
 *
 * Ctrl-C. At the prompt it drops the line. In a command it ends the command; the transaction that was open, if one was, is dropped with it, since
 * half of what a command does is not to be committed. libedit restarts its read after a signal, so characters are read here.
 *
 * Tab. The first word completes to commands, further words to directory paths, for those that begin with / and for commands that ask for it; and to
 * commands behind "help". The same serves bash, through keel DB --complete.
 */
#include "core.h"

#include <histedit.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000 };

/* ---- Running lines ---- */

static bool is_exit(const char *name) {
    return strcmp(name, "exit") == 0 || strcmp(name, "quit") == 0;
}

/* Ctrl-C in a command ends the transaction as well. */
static void after_command(struct session *session, int code) {
    if (code == EXIT_INTERRUPTED && session->current) {
        session_rollback(session);
        report("The transaction has ended; nothing of it was written");
    }
    watches_poll(session);
}

/* Commands take the options out of their arguments; the words stay ours to free. */
static int run_words(struct session *session, const struct words *words) {
    char **argv = calloc((size_t)words->argc + 1, sizeof *argv);
    if (!argv)
        return report("out of memory");
    memcpy(argv, words->argv, (size_t)words->argc * sizeof *argv);
    int code = command_run(session, words->argc, argv);
    free(argv);
    return code;
}

/* Sets *leave for exit and quit. A script says with `where` which line it is. */
static int run_line(struct session *session, const char *line, size_t length, const char *where, bool *leave) {
    int code = EXIT_OK;
    for (size_t position = 0; position < length && !*leave;) {
        struct words words;
        const char *message;
        if (!words_split(line, length, &position, &words, &message)) {
            report("%s%s", where, message);
            words_free(&words);
            return EXIT_USAGE;
        }
        if (words.argc > 0) {
            bool leaves = is_exit(words.argv[0]);
            code = run_words(session, &words);
            *leave = leaves && code == EXIT_OK;
            after_command(session, code);
        }
        words_free(&words);
        if (code != EXIT_OK && !session->keep_going)
            return code;
    }
    return code;
}

/* Lines of a descriptor, read so that Ctrl-C is seen while nothing comes. */
struct reader {
    int descriptor;
    struct buffer bytes;
    size_t position; /* of what has not been handed out */
    bool ended;
};

/* The next line, without its end. False: there is none, or Ctrl-C. */
static bool next_line(struct reader *reader, const char **line, size_t *length) {
    char block[4096];
    size_t searched = 0;
    for (;;) {
        char *begin = (char *)reader->bytes.data + reader->position;
        size_t there = reader->bytes.length - reader->position;
        char *end = there > searched ? memchr(begin + searched, '\n', there - searched) : NULL;
        if (end || (reader->ended && there > 0)) {
            *line = begin;
            *length = end ? (size_t)(end - begin) : there;
            reader->position += *length + (end != NULL);
            return true;
        }
        searched = there;
        if (reader->ended)
            return false;
        memmove(reader->bytes.data, begin, there);
        reader->bytes.length = there;
        reader->position = 0;
        while (!session_wait_input(reader->descriptor)) {
            if (session_interrupted())
                return false;
        }
        ssize_t got = read(reader->descriptor, block, sizeof block);
        reader->ended = got <= 0;
        if (got > 0)
            buffer_append(&reader->bytes, block, (size_t)got);
    }
}

int shell_script(struct session *session, int descriptor) {
    struct reader reader = {.descriptor = descriptor};
    const char *line;
    char where[40];
    size_t length, number = 0;
    int first_error = EXIT_OK;
    bool leave = false;
    buffer_append(&reader.bytes, "", 0);
    while (!leave && !session_interrupted() && next_line(&reader, &line, &length)) {
        snprintf(where, sizeof where, "line %zu: ", ++number);
        int code = run_line(session, line, length, where, &leave);
        if (code == EXIT_OK)
            continue;
        if (first_error == EXIT_OK)
            first_error = code;
        if (session->keep_going && code != EXIT_INTERRUPTED)
            continue;
        if (number > 1)
            report("The script ended at line %zu", number);
        leave = true;
    }
    if (!leave && session_interrupted())
        first_error = EXIT_INTERRUPTED;
    else if (session->current && first_error == EXIT_OK && !leave)
        first_error = report("The script ends in a transaction that was not committed: nothing of it was written");
    buffer_free(&reader.bytes);
    return first_error;
}

/* ---- Completion ---- */

static void offer(struct completions *completions, const char *word, size_t length) {
    if (completions->count == completions->capacity) {
        completions->capacity = completions->capacity ? completions->capacity * 2 : 32;
        char **grown = realloc(completions->words, completions->capacity * sizeof *grown);
        if (!grown)
            return;
        completions->words = grown;
    }
    char *copy = strndup(word, length);
    if (copy)
        completions->words[completions->count++] = copy;
}

static int compare_words(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void offer_commands(struct completions *completions, const char *word) {
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        if (strncmp(command->name, word, strlen(word)) == 0)
            offer(completions, command->name, strlen(command->name));
    }
    qsort(completions->words, completions->count, sizeof *completions->words, compare_words);
}

struct names_context {
    struct directory_names *names;
};

static fdb_error_t in_names(FDBTransaction *tr, void *pointer) {
    struct names_context *context = pointer;
    return directory_names_load(tr, &context->names);
}

/*
 * Paths that go on from the word, up to the next slash behind it: one level at a time. They come in order, so repeats lie side by side. The path that is
 * typed already counts only if nothing goes on from it.
 */
static void offer_paths(const struct directory_names *names, struct completions *completions, const char *word) {
    size_t length = strlen(word);
    bool exact = false;
    for (size_t i = 0; i < directory_names_count(names); i++) {
        const char *path = directory_names_path(names, i);
        if (!*path || strncmp(path, word, length) != 0)
            continue;
        exact = exact || path[length] == '\0';
        size_t end = length;
        while (path[end] && path[end] != '/')
            end += path[end] == '\\' && path[end + 1] ? 2 : 1;
        end += end == length && path[end] == '/';
        const char *last = completions->count ? completions->words[completions->count - 1] : "";
        if (path[length] && (strlen(last) != end || strncmp(last, path, end) != 0))
            offer(completions, path, end);
    }
    if (exact && completions->count == 0)
        offer(completions, word, length);
}

static void offer_directories(struct session *session, struct completions *completions, const char *word) {
    struct names_context context = {0};
    session->must_exist = true;
    if (session_read(session, in_names, &context) != 0)
        return;
    completions->directories = true;
    offer_paths(context.names, completions, word);
    directory_names_free(context.names);
}

void complete(struct session *session, const char *line, size_t length, struct completions *completions) {
    char first[32];
    int index;
    *completions = (struct completions){0};
    completions->begin = words_last(line, length, &index, first, sizeof first);
    char *word = strndup(line + completions->begin, length - completions->begin);
    if (!word)
        return;
    const struct command *command = index > 0 ? command_find(first) : NULL;
    if (index == 0 || (index == 1 && strcmp(first, "help") == 0))
        offer_commands(completions, word);
    else if (*word == '/' || (*word == '\0' && command && command->completes_directories))
        offer_directories(session, completions, *word ? word : "/");
    free(word);
}

void completions_free(struct completions *completions) {
    for (size_t i = 0; i < completions->count; i++)
        free(completions->words[i]);
    free(completions->words);
    *completions = (struct completions){0};
}

static size_t common_length(const struct completions *completions) {
    size_t length = strlen(completions->words[0]);
    for (size_t i = 1; i < completions->count; i++) {
        size_t same = 0;
        while (same < length && completions->words[i][same] == completions->words[0][same])
            same++;
        length = same;
    }
    return length;
}

static void print_choices(const struct completions *completions) {
    putchar('\n');
    for (size_t i = 0; i < completions->count; i++)
        printf("%s%s", completions->words[i], i + 1 < completions->count ? "  " : "\n");
    fflush(stdout);
}

/* ---- The editor ---- */

static struct session *shell_session; /* for the editor's callbacks */
static History *shell_history;

static char *prompt(EditLine *editor) {
    static char plain[] = "keel> ", in_transaction[] = "keel*> ";
    (void)editor;
    return shell_session->current ? in_transaction : plain;
}

/* After Ctrl-Z and fg the terminal has the modes of whoever used it in between. */
static void restore_terminal(EditLine *editor) {
    el_set(editor, EL_PREP_TERM, 0);
    el_set(editor, EL_PREP_TERM, 1);
    el_resize(editor);
    el_set(editor, EL_REFRESH);
}

/*
 * The next character of the terminal. -1: Ctrl-C. A NUL is what the kernel makes of a Ctrl-D that was typed while a command ran; it is left out, as
 * is what is not UTF-8.
 */
static int read_character(EditLine *editor, wchar_t *character) {
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (!session_wait_prompt(STDIN_FILENO)) {
            if (session_interrupted())
                return -1;
            if (session_terminal_changed())
                restore_terminal(editor);
            continue;
        }
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got <= 0)
            return (int)got;
        size_t result = mbrtowc(character, &byte, 1, &state);
        if (result == (size_t)-1)
            state = (mbstate_t){0};
        else if (result == 1)
            return 1;
    }
}

static unsigned char complete_key(EditLine *editor, int key) {
    (void)key;
    const LineInfo *info = el_line(editor);
    size_t length = (size_t)(info->cursor - info->buffer);
    struct completions completions;
    unsigned char answer = CC_ERROR;
    complete(shell_session, info->buffer, length, &completions);
    if (completions.count > 0) {
        size_t typed = length - completions.begin, common = common_length(&completions);
        char *insert = strndup(completions.words[0] + typed, common > typed ? common - typed : 0);
        if (insert && *insert && el_insertstr(editor, insert) == 0)
            answer = CC_REFRESH;
        if (completions.count == 1 && !completions.directories && el_insertstr(editor, " ") == 0)
            answer = CC_REFRESH;
        if (completions.count > 1 && common <= typed) {
            print_choices(&completions);
            answer = CC_REDISPLAY;
        }
        free(insert);
    }
    completions_free(&completions);
    return answer;
}

static void history_path(char *path, size_t capacity) {
    const char *named = getenv("KEEL_HISTORY"), *home = getenv("HOME");
    *path = '\0';
    if (named)
        snprintf(path, capacity, "%s", named);
    else if (home && *home)
        snprintf(path, capacity, "%s/.keel_history", home);
}

static void remember_line(const char *line, const char *path) {
    HistEvent event;
    if (line[strspn(line, " \t\r\n")] == '\0')
        return;
    history(shell_history, &event, H_ENTER, line);
    if (*path)
        history(shell_history, &event, H_SAVE, path);
}

static EditLine *start_editor(const char *history_file) {
    HistEvent event;
    EditLine *editor = el_init("keel", stdin, stdout, stderr);
    shell_history = history_init();
    if (!editor || !shell_history) {
        if (editor)
            el_end(editor);
        return NULL;
    }
    session_catch_terminal_changes();
    history(shell_history, &event, H_SETSIZE, HISTORY_LINES);
    history(shell_history, &event, H_SETUNIQUE, 1);
    if (*history_file)
        history(shell_history, &event, H_LOAD, history_file);
    el_set(editor, EL_PROMPT, prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_GETCFN, read_character);
    el_set(editor, EL_HIST, history, shell_history);
    el_wset(editor, EL_ADDFN, L"keel-complete", L"Completes commands and directories", complete_key); /* el_set would leak the two texts */
    el_set(editor, EL_BIND, "^I", "keel-complete", NULL);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor, NULL);
    return editor;
}

static void print_welcome(const struct session *session) {
    if (session->quiet)
        return;
    const char *place = session->path ? session->path : "the default place";
    printf("keel %s on %s. \"help\" lists the commands, Tab completes, Ctrl-D ends.\n", KEEL_COMMAND_VERSION, place);
}

int shell_run(struct session *session) {
    char path[4096];
    bool leave = false;
    shell_session = session;
    history_path(path, sizeof path);
    EditLine *editor = start_editor(path);
    if (!editor)
        return report("The terminal cannot be used: try keel DB COMMAND");
    print_welcome(session);
    while (!leave) {
        int length = 0;
        session_forget_interrupt();
        el_set(editor, EL_PREP_TERM, 1); /* before the prompt: nothing typed behind it goes elsewhere */
        const char *line = el_gets(editor, &length);
        if (!line && session_interrupted()) {
            el_set(editor, EL_PREP_TERM, 0);
            puts("^C");
            if (session->current)
                puts("The transaction is still open: commit, rollback or reset.");
            el_reset(editor);
            continue;
        }
        if (!line || length <= 0)
            break;
        remember_line(line, path);
        run_line(session, line, (size_t)length, "", &leave);
    }
    if (!leave)
        putchar('\n');
    if (session->current)
        report("The transaction was not committed: nothing of it was written");
    history_end(shell_history);
    el_end(editor);
    return EXIT_OK;
}
