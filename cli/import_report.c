/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows that an import refuses: each of the first is named on stderr as it comes, all are counted by reason and, with --errors-to, copied as they stand
 * in the file, so that they can be mended and imported by themselves.
 */
#include "import.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static const char *const reasons[REASON_COUNT] = {
    [REASON_SYNTAX] = "broken quotes or lines",
    [REASON_FIELDS] = "wrong number of fields, or unknown members",
    [REASON_UTF8] = "not UTF-8",
    [REASON_JSON] = "not JSON",
    [REASON_TYPE] = "not a value of the column's type",
    [REASON_KEY] = "no key",
    [REASON_TOO_LARGE] = "too large",
    [REASON_DUPLICATE] = "a key that was there before",
};

const char *import_reason_text(enum import_reason reason) {
    return reasons[reason];
}

bool problem_set(struct row_problem *problem, enum import_reason reason, keel_bytes column, const char *format, ...) {
    va_list arguments;
    problem->reason = reason;
    problem->field = 0;
    size_t length = column.length < sizeof problem->column - 1 ? column.length : sizeof problem->column - 1;
    while (length < column.length && length && (column.data[length] & 0xc0) == 0x80)
        length--; /* not in the middle of a character */
    if (length)
        memcpy(problem->column, column.data, length);
    problem->column[length] = 0;
    va_start(arguments, format);
    vsnprintf(problem->message, sizeof problem->message, format, arguments);
    va_end(arguments);
    return false;
}

static void print_problem(const struct report *report_, const struct row_problem *problem) {
    report("%s: line %llu%s%s: %s", report_->file, (unsigned long long)problem->line, *problem->column ? ", column " : "", problem->column,
           problem->message);
}

/* The progress bar stands on the line that comes next: away with it. */
static void clear_bar(void) {
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

void report_problem(struct report *report_, const struct row_problem *problem, keel_bytes row) {
    if (report_->total <= report_->lines_max)
        clear_bar();
    if (report_->total < report_->lines_max)
        print_problem(report_, problem);
    else if (report_->total == report_->lines_max && report_->lines_max)
        report("… further rows that are refused are only counted%s", report_->rows ? ", and copied" : " (--errors-to FILE keeps them)");
    report_->counts[problem->reason]++;
    report_->total++;
    if (report_->rows && row.length) {
        fwrite(row.data, 1, row.length, report_->rows);
        if (row.data[row.length - 1] != '\n')
            fputc('\n', report_->rows);
    }
}

void report_summary(const struct report *report_) {
    if (report_->earlier)
        report("%s rows were refused before the import was interrupted", human_count(report_->earlier));
    if (!report_->total)
        return;
    report("%s rows were refused:", human_count(report_->total));
    for (int i = 0; i < REASON_COUNT; i++)
        if (report_->counts[i])
            report("  %10s  %s", human_count(report_->counts[i]), reasons[i]);
}

json_t *report_json(const struct report *report_) {
    json_t *object = json_object();
    for (int i = 0; i < REASON_COUNT; i++)
        if (report_->counts[i])
            json_object_set_new(object, reasons[i], json_integer((json_int_t)report_->counts[i]));
    return object;
}
