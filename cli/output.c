/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands say: results on standard output, everything else on standard error.
 *
 * Results are text for people, or with --json one JSON value a line. Errors are one line: what was being done, on what, what went wrong with its
 * number, and what to do about it where that is known. Before anything goes to standard error, standard output is flushed, so that the two stay in
 * order and no message cuts a line in two.
 *
 * Bytes in JSON:
 *
 *     {"text": "/app/users(\"id\", 7)", "directory": "/app/users", "tuple": ["id", 7], "hex": "150c02696400…"}
 *
 * "directory" and "tuple" only where there are. In a tuple null, booleans, strings, integers and doubles are those of JSON; what JSON lacks is an object of
 * one member: {"bytes": hex}, {"integer": digits} beyond 64 bits, {"float": number or text}, {"double": "nan"}, {"uuid": text},
 * {"versionstamp": hex, "user": number}, {"string": text as in keel/tuple.h} where it is not UTF-8.
 */
#include "core.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- Errors ---- */

static const struct remedy {
    fdb_error_t code;
    const char *text;
} REMEDIES[] = {
    {1007, "A transaction lives five seconds: \"reset\" begins it anew"},
    {1020, "\"begin\" and do it again: what you read has changed since"},
    {1021, "Look whether the change is there before you make it again"},
    {1031, "Give more time with --timeout, or do less at once"},
    {1036, "\"commit\" first, then read it"},
    {1038, "Another program has locked the database; the option lock_aware passes the lock"},
    {1515, "Is the path of the cluster file right?"},
    {2004, "Keys that begin with \\xff belong to the system: --option access_system_keys, or \"option access_system_keys\" in the shell"},
    {2005, "The end of the range lies before its beginning: exchange the two"},
    {2101, "A transaction holds at most 10,000,000 bytes: make several smaller ones"},
    {2102, "A key has at most 10,000 bytes"},
    {2103, "A value has at most 100,000 bytes: spread it over several keys, as \"blob\" does"},
    {2104, "A cluster file holds one line: description:id@host:port"},
    {2203, "FoundationDB's client library is older than Keel: KEEL_LOG=stderr says which version it has, give that in KEEL_API_VERSION"},
    {20001, "End that process, or run this command as its user and with its version of Keel; KEEL_LOG=stderr says which it is and why"},
    {20002, "Give the path of a Keel database, or of one that does not exist yet"},
    {20003, "Use the Keel that wrote it, or a newer one"},
    {20004, "\"check\" says where; a backup has the data"},
    {20005, "Make room and try again: what was committed is safe, reading goes on"},
    {20006, "End every process that has it open, and open it again: that finds out what the disk holds"},
    {20008, "The path names a FoundationDB cluster; KEEL_LOG=stderr says where its library was looked for"},
    {20009, "Wait until some of the backups, copies and exports under way have ended"},
    {20010, "\"check\" lists the damaged rows; a backup has the data"},
    {20011, "Back it up with the Keel that wrote it, and restore that into a new database"},
    {20021, "Continue it or end it (KEEL_LOG=stderr says which it is); where the path is a cluster file, start \"keel serve\" again"},
    {KEEL_ERROR_DIRECTORY_MISSING, "\"tree\" shows the directories there are, mkdir makes one"},
    {KEEL_ERROR_DIRECTORY_EXISTS, "Choose another name, or remove it with \"rm\" first"},
    {KEEL_ERROR_DIRECTORY_PARENT_MISSING, "mkdir makes it"},
};

static const char *remedy_for(fdb_error_t error) {
    for (size_t i = 0; i < sizeof REMEDIES / sizeof REMEDIES[0]; i++) {
        if (REMEDIES[i].code == error)
            return REMEDIES[i].text;
    }
    return NULL;
}

static int exit_code_for(fdb_error_t error) {
    if (error == KEEL_ERROR_DIRECTORY_MISSING || error == KEEL_ERROR_DIRECTORY_PARENT_MISSING || error == KEEL_ERROR_NOT_FOUND)
        return EXIT_NOT_FOUND;
    return EXIT_FAILED;
}

static void print_place(const char *doing, const char *what) {
    fflush(stdout);
    fputs("keel: ", stderr);
    if (doing && *doing)
        fprintf(stderr, "%s: ", doing);
    if (what && *what)
        fprintf(stderr, "%.300s%s: ", what, strlen(what) > 300 ? "…" : "");
}

int report_error(const char *doing, const char *what, fdb_error_t error) {
    if (error == ERROR_REPORTED)
        return EXIT_FAILED;
    if (error == ERROR_TEXT) {
        print_place(doing, NULL);
        fprintf(stderr, "%s\n", text_message());
        return text_error() == KEEL_ERROR_DIRECTORY_MISSING ? EXIT_NOT_FOUND : text_error() ? EXIT_FAILED : EXIT_USAGE;
    }
    if (session_interrupted() && (error == 1025 || error == 1101)) {
        print_place(doing, NULL);
        fputs("interrupted\n", stderr);
        return EXIT_INTERRUPTED;
    }
    print_place(doing, what);
    const char *remedy = remedy_for(error);
    fprintf(stderr, "%s (%d)%s%s\n", keel_error_text(error), error, remedy ? ". " : "", remedy ? remedy : "");
    return exit_code_for(error);
}

int report(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("keel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return EXIT_FAILED;
}

/* ---- Asking ---- */

/* One line from the terminal, its first character; 0 at the end, or with Ctrl-C. */
static char read_answer(void) {
    char first = 0, c;
    for (;;) {
        if (!session_wait_input(STDIN_FILENO)) {
            if (session_interrupted())
                return 0;
            continue;
        }
        if (read(STDIN_FILENO, &c, 1) <= 0)
            return 0;
        if (c == '\n')
            return first;
        if (!first)
            first = c;
    }
}

bool confirm(const struct session *session, const char *format, ...) {
    if (session->assume_yes)
        return true;
    va_list arguments;
    va_start(arguments, format);
    bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fflush(stdout);
    fputs(asks ? "" : "keel: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (!asks) {
        fputs(" Nobody is there to ask: give --yes if it is meant.\n", stderr);
        return false;
    }
    fputs(" [y/N] ", stderr);
    fflush(stderr);
    char answer = read_answer();
    if (answer == 0 && session_interrupted())
        fputc('\n', stderr);
    return answer == 'y' || answer == 'Y';
}

/* ---- JSON ---- */

enum { DEPTH_MAX = 100 }; /* of nested tuples: their JSON is built by recursion */

void output_json(json_t *value) {
    json_dumpf(value, stdout, JSON_ENCODE_ANY);
    putchar('\n');
    json_decref(value);
}

static char *hex_text(const uint8_t *data, size_t length) {
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(length * 2 + 1);
    for (size_t i = 0; hex && i < length; i++) {
        hex[2 * i] = digits[data[i] >> 4];
        hex[2 * i + 1] = digits[data[i] & 15];
    }
    if (hex)
        hex[2 * length] = '\0';
    return hex;
}

static json_t *json_hex(const uint8_t *data, size_t length) {
    char *hex = hex_text(data, length);
    json_t *value = json_string(hex ? hex : "");
    free(hex);
    return value;
}

static void copy_value(const keel_element *element, struct buffer *bytes) {
    size_t length = 0;
    keel_element_copy(element, NULL, 0, &length);
    for (size_t i = 0; i < length; i++)
        buffer_append(bytes, "", 1);
    buffer_text(bytes);
    keel_element_copy(element, bytes->data, length, &length);
}

/* As keel/tuple.h prints it, without what `name` replaces: {"uuid": …}. */
static json_t *json_printed(const char *name, const keel_element *element) {
    char small[64] = "";
    size_t length = 0;
    if (keel_element_print(element, small, sizeof small, &length) == 0)
        return json_pack("{s:s}", name, small);
    char *large = malloc(length + 1);
    json_t *value = large && keel_element_print(element, large, length + 1, &length) == 0 ? json_pack("{s:s}", name, large) : json_null();
    free(large);
    return value;
}

static json_t *json_number(const keel_element *element) {
    bool is_float = element->type == KEEL_TYPE_FLOAT;
    double number = is_float ? (double)element->value.as_float : element->value.as_double;
    if (!isfinite(number))
        return json_printed(is_float ? "float" : "double", element);
    return is_float ? json_pack("{s:f}", "float", number) : json_real(number);
}

static json_t *json_string_element(const keel_element *element) {
    struct buffer bytes = {0};
    copy_value(element, &bytes);
    json_t *value = json_stringn((const char *)bytes.data, bytes.length);
    buffer_free(&bytes);
    return value ? value : json_printed("string", element);
}

static json_t *json_tuple(keel_tuple_iterator iterator, int depth);

static json_t *json_element(const keel_element *element, int depth) {
    struct buffer bytes = {0};
    keel_tuple_iterator nested;
    json_t *value;
    switch (element->type) {
    case KEEL_TYPE_NULL:
        return json_null();
    case KEEL_TYPE_BOOL:
        return json_boolean(element->value.as_bool);
    case KEEL_TYPE_INT:
        return json_integer(element->value.as_int);
    case KEEL_TYPE_UINT:
    case KEEL_TYPE_BIG_INT:
        return json_printed("integer", element);
    case KEEL_TYPE_FLOAT:
    case KEEL_TYPE_DOUBLE:
        return json_number(element);
    case KEEL_TYPE_STRING:
        return json_string_element(element);
    case KEEL_TYPE_NESTED:
        return keel_element_iterate(element, &nested) == 0 ? json_tuple(nested, depth + 1) : json_null();
    case KEEL_TYPE_UUID:
        return json_pack("{s:o}", "uuid", json_hex(element->value.as_uuid, KEEL_UUID_LENGTH));
    case KEEL_TYPE_VERSIONSTAMP:
        return json_pack("{s:o, s:i}", "versionstamp", json_hex(element->value.as_versionstamp, KEEL_TRANSACTION_VERSION_LENGTH), "user",
                         element->value.as_versionstamp[10] << 8 | element->value.as_versionstamp[11]);
    case KEEL_TYPE_BYTES:
        copy_value(element, &bytes);
        value = json_pack("{s:o}", "bytes", json_hex(bytes.data, bytes.length));
        buffer_free(&bytes);
        return value;
    }
    return json_null();
}

/* NULL: too many levels inside each other to be shown. */
static json_t *json_tuple(keel_tuple_iterator iterator, int depth) {
    json_t *array = depth < DEPTH_MAX ? json_array() : NULL;
    keel_element element;
    while (array && keel_tuple_next(&iterator, &element) == 0) {
        json_t *value = json_element(&element, depth);
        if (!value || json_array_append_new(array, value) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *output_json_bytes(const struct directory_names *names, keel_bytes bytes) {
    struct buffer text = {0};
    size_t prefix_length = 0;
    const char *path = names ? directory_names_find(names, bytes, &prefix_length) : NULL;
    json_t *object = json_object();
    text_from_bytes(names, bytes, &text);
    json_object_set_new(object, "text", json_stringn((const char *)text.data, text.length));
    bool in_directory = path && text.length > 0 && text.data[0] == '/';
    text.length = 0;
    if (!in_directory)
        prefix_length = 0;
    keel_bytes rest = keel_bytes_of(bytes.data ? bytes.data + prefix_length : NULL, bytes.length - prefix_length);
    if (in_directory)
        json_object_set_new(object, "directory", json_string(path));
    json_t *tuple = (in_directory || !path) && text_append_tuple(rest, in_directory, &text) ? json_tuple(keel_tuple_iterate(rest), 0) : NULL;
    if (tuple)
        json_object_set_new(object, "tuple", tuple);
    json_object_set_new(object, "hex", json_hex(bytes.data, bytes.length));
    buffer_free(&text);
    return object;
}

/* ---- Figures ---- */

static char *ring(void) {
    static char buffers[16][40];
    static unsigned next;
    return buffers[next++ % 16];
}

const char *human_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    char *text = ring();
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        amount /= 1000;
    snprintf(text, 40, unit > 0 && amount < 99.95 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

const char *human_count(uint64_t count) {
    char digits[24], *text = ring();
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *human_seconds(double seconds) {
    char *text = ring();
    long whole = (long)(seconds + 0.5);
    if (seconds < 0.0009995)
        snprintf(text, 40, "%.0f µs", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(text, 40, "%.0f ms", seconds * 1e3);
    else if (seconds < 59.95)
        snprintf(text, 40, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(text, 40, "%ld m %02ld s", whole / 60, whole % 60);
    else
        snprintf(text, 40, "%ld h %02ld m", whole / 3600, whole / 60 % 60);
    return text;
}

/* ---- Progress ---- */

enum { BAR_WIDTH = 24 };
static const double REDRAW_SECONDS = 0.2, LINE_SECONDS = 5;

struct progress {
    const char *doing, *unit;
    uint64_t total, done, rows;
    double began, shown;
    bool terminal, silent, drawn;
};

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A failed allocation means no progress is shown: NULL is fine for the others. */
struct progress *progress_begin(const struct session *session, const char *doing, const char *unit, uint64_t total) {
    struct progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return NULL;
    *progress = (struct progress){.doing = doing, .unit = unit, .total = total, .began = now_seconds()};
    progress->shown = progress->began;
    progress->terminal = isatty(STDERR_FILENO);
    progress->silent = session->quiet;
    return progress;
}

static const char *amount(const struct progress *progress, uint64_t count) {
    if (strcmp(progress->unit, "bytes") == 0)
        return human_bytes(count);
    char *text = ring();
    snprintf(text, 40, "%s %.10s", human_count(count), progress->unit);
    return text;
}

static void print_progress(const struct progress *progress, double now) {
    double seconds = now - progress->began;
    double rate = seconds > 0 ? (double)progress->done / seconds : 0;
    fprintf(stderr, "%s: ", progress->doing);
    if (progress->total > 0) {
        double part = (double)progress->done / (double)progress->total;
        part = part > 1 ? 1 : part;
        if (progress->terminal) {
            fputc('[', stderr);
            for (int i = 0; i < BAR_WIDTH; i++)
                fputc(i < (int)(part * BAR_WIDTH) ? '#' : '.', stderr);
            fputs("] ", stderr);
        }
        fprintf(stderr, "%.0f%% of %s", part * 100, amount(progress, progress->total));
    } else {
        fputs(amount(progress, progress->done), stderr);
    }
    if (progress->rows > 0 && strcmp(progress->unit, "rows") != 0)
        fprintf(stderr, ", %s rows", human_count(progress->rows));
    if (rate > 0)
        fprintf(stderr, ", %s/s", amount(progress, (uint64_t)rate));
    if (rate > 0 && progress->total > progress->done)
        fprintf(stderr, ", %s left", human_seconds((double)(progress->total - progress->done) / rate));
}

void progress_update(struct progress *progress, uint64_t done, uint64_t rows) {
    if (!progress || progress->silent)
        return;
    progress->done = done;
    progress->rows = rows;
    double now = now_seconds();
    if (now - progress->shown < (progress->terminal ? REDRAW_SECONDS : LINE_SECONDS))
        return;
    progress->shown = now;
    progress->drawn = true;
    fflush(stdout);
    fputs(progress->terminal ? "\r\033[K" : "", stderr);
    print_progress(progress, now);
    fputs(progress->terminal ? "" : "\n", stderr);
    fflush(stderr);
}

/* Takes the bar away; what was done, the command says itself. */
void progress_end(struct progress *progress, bool completed) {
    if (!progress)
        return;
    if (progress->drawn && progress->terminal)
        fputs(completed ? "\r\033[K" : "\n", stderr);
    free(progress);
}
