/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines split into words, for the shell and for scripts, as fdbcli splits them and a little more.
 *
 *     get hello; set "two words" x     ; ends a command, "…" holds a word together
 *     set user '{"name": "Ada"}'       '…' at the beginning of a word: everything up to the next ' as it stands
 *     get ("users", 42)                a word that begins with ( or / goes on to the ) that closes it, quotes and spaces included
 *     get a\ key\x00                   backslashes and what follows stay for text_to_bytes, which knows their meaning
 *     # to the end of the line         a comment, where a word could begin
 *
 * Quotes are taken off, escapes are not: so a word means the same here and as an argument of `keel DB COMMAND`. A NUL in a line is an
 * error, for a word could not hold it.
 */
#include "core.h"

#include <ctype.h>
#include <stdlib.h>

struct splitter {
    const char *line;
    size_t length, at;
    struct buffer word;
    const char *message;
};

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool fail(struct splitter *splitter, const char *message) {
    splitter->message = message;
    return false;
}

/* A backslash and the character behind it. */
static bool take_escape(struct splitter *splitter) {
    size_t left = splitter->length - splitter->at;
    if (left < 2)
        return fail(splitter, "the line ends in a backslash: write \\\\ for one");
    buffer_append(&splitter->word, splitter->line + splitter->at, 2);
    splitter->at += 2;
    return true;
}

/* Up to the closing quote; `keep` the quotes as well, for tuples. */
static bool take_quoted(struct splitter *splitter, bool keep) {
    if (keep)
        buffer_append(&splitter->word, "\"", 1);
    for (splitter->at++; splitter->at < splitter->length;) {
        char c = splitter->line[splitter->at];
        if (c == '"') {
            splitter->at++;
            return !keep || buffer_append(&splitter->word, "\"", 1);
        }
        if (c == '\\') {
            if (!take_escape(splitter))
                return false;
        } else {
            buffer_append(&splitter->word, &c, 1);
            splitter->at++;
        }
    }
    return fail(splitter, "a quote \" is not closed");
}

static bool take_verbatim(struct splitter *splitter) {
    size_t begin = ++splitter->at;
    while (splitter->at < splitter->length && splitter->line[splitter->at] != '\'')
        splitter->at++;
    if (splitter->at == splitter->length)
        return fail(splitter, "a quote ' is not closed");
    return buffer_append(&splitter->word, splitter->line + begin, splitter->at++ - begin);
}

/* From ( to the ) that closes it. */
static bool take_tuple(struct splitter *splitter) {
    int depth = 0;
    while (splitter->at < splitter->length) {
        char c = splitter->line[splitter->at];
        if (c == '"') {
            if (!take_quoted(splitter, true))
                return false;
            continue;
        }
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        buffer_append(&splitter->word, &c, 1);
        splitter->at++;
        if (depth == 0)
            return true;
    }
    return fail(splitter, "a parenthesis is not closed");
}

static bool take_word(struct splitter *splitter) {
    const char *line = splitter->line;
    bool tuples = line[splitter->at] == '(' || line[splitter->at] == '/';
    splitter->word.length = 0;
    if (line[splitter->at] == '\'')
        return take_verbatim(splitter);
    bool good = true;
    while (good && splitter->at < splitter->length && !is_space(line[splitter->at]) && line[splitter->at] != ';') {
        char c = line[splitter->at];
        if (c == '\0')
            return fail(splitter, "there is a NUL byte in the line: write \\x00");
        if (c == '"')
            good = take_quoted(splitter, false);
        else if (c == '\\')
            good = take_escape(splitter);
        else if (c == '(' && tuples)
            good = take_tuple(splitter);
        else {
            buffer_append(&splitter->word, &c, 1);
            splitter->at++;
        }
    }
    return good;
}

static void add_word(struct words *words, struct buffer *word) {
    if (words->argc + 1 >= words->capacity) {
        words->capacity = words->capacity ? words->capacity * 2 : 16;
        char **grown = realloc(words->argv, (size_t)words->capacity * sizeof *grown);
        if (!grown) {
            fputs("keel: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
        words->argv = grown;
    }
    buffer_text(word);
    words->argv[words->argc++] = (char *)word->data;
    words->argv[words->argc] = NULL;
    *word = (struct buffer){0};
}

bool words_split(const char *line, size_t length, size_t *position, struct words *words, const char **message) {
    struct splitter splitter = {.line = line, .length = length, .at = *position};
    bool good = true;
    *words = (struct words){0};
    while (good && splitter.at < length) {
        char c = line[splitter.at];
        if (c == '#') {
            splitter.at = length;
        } else if (c == ';') {
            splitter.at++;
            break;
        } else if (is_space(c)) {
            splitter.at++;
        } else {
            good = take_word(&splitter);
            if (good && memchr(splitter.word.data ? (char *)splitter.word.data : "", 0, splitter.word.length))
                good = fail(&splitter, "there is a NUL byte in the line: write \\x00");
            if (good)
                add_word(words, &splitter.word);
        }
    }
    *position = splitter.at;
    *message = splitter.message;
    buffer_free(&splitter.word);
    return good;
}

size_t words_last(const char *line, size_t length, int *index, char *first, size_t first_capacity) {
    struct splitter splitter = {.line = line, .length = length};
    size_t begin = length;
    *index = 0;
    *first = '\0';
    while (splitter.at < length) {
        char c = line[splitter.at];
        if (c == ';') {
            *index = 0;
            *first = '\0';
            splitter.at++;
        } else if (is_space(c)) {
            splitter.at++;
        } else {
            begin = splitter.at;
            bool whole = take_word(&splitter) && splitter.at < length;
            if (!whole)
                break; /* it is still being typed */
            if ((*index)++ == 0)
                snprintf(first, first_capacity, "%s", buffer_text(&splitter.word));
            begin = length;
        }
    }
    buffer_free(&splitter.word);
    return begin;
}

void words_free(struct words *words) {
    for (int i = 0; i < words->argc; i++)
        free(words->argv[i]);
    free(words->argv);
    *words = (struct words){0};
}
