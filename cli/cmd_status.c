/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel DB status and keel DB top: what the database tells of itself (status.c), once or again and again.
 *
 * Both read two documents and show the difference as rates; the second reading's sizes and latencies. Figures are those of the process that owns the
 * database: this one, if nobody else has it open, and then there is nothing to see but its own work.
 */
#include "status.h"

#include <unistd.h>

#include "core.h"
#include "operation.h"

/* ---- For people ---- */

static const char *rate_text(const struct rate *rate, double value) {
    return rate->is_bytes ? human_bytes((uint64_t)value) : human_count((uint64_t)(value + 0.5));
}

static void print_state(const struct sample *sample) {
    const char *path = sample_text(sample, "keel.path");
    const char *state = sample_flag(sample, "keel.failed")                  ? "FAILED: a write to the disk failed; close it and open it again"
                        : sample_flag(sample, "keel.disk_full")             ? "THE DISK IS FULL: commits are refused, reads go on"
                        : sample_flag(sample, "cluster.database_available") ? "healthy"
                                                                            : "not available";
    const char *kind = sample_flag(sample, "keel.in_memory") ? ", in memory"
                       : !sample_find(sample, "keel")        ? ""
                       : sample_flag(sample, "keel.durable") ? ""
                                                             : ", commits do not wait for the disk";
    printf("database   %s%s%s%s\n", path, *path ? ": " : "", state, kind);
    if (sample_find(sample, "keel.uptime_seconds"))
        printf("process    %lld, open for %s\n", (long long)sample_number(sample, "keel.process_id"),
               human_seconds(sample_number(sample, "keel.uptime_seconds")));
    if (sample_number(sample, "keel.damaged_reads") > 0)
        printf("DAMAGE     %s reads met rows that do not match their checksum: \"check\" says which\n",
               human_count((uint64_t)sample_number(sample, "keel.damaged_reads")));
}

static void print_versions(const struct sample *sample) {
    double version = sample_number(sample, "keel.read_version");
    if (sample_find(sample, "keel.read_version"))
        printf("version    %s; reads go back %s\n", human_count((uint64_t)version),
               human_seconds((version - sample_number(sample, "keel.horizon_version")) / 1e6));
}

static void print_sizes(const struct sample *sample) {
    uint64_t window = (uint64_t)sample_number(sample, "keel.window_bytes"), window_max = (uint64_t)sample_number(sample, "keel.window_bytes_max");
    if (window_max)
        printf("window     %s of %s\n", human_bytes(window), human_bytes(window_max));
    if (sample_find(sample, "keel.log_bytes"))
        printf("log        %s\n", human_bytes((uint64_t)sample_number(sample, "keel.log_bytes")));
    if (sample_find(sample, "keel.base_bytes"))
        printf("base       %s, %s of it free, %s checkpoints\n", human_bytes((uint64_t)sample_number(sample, "keel.base_bytes")),
               human_bytes((uint64_t)sample_number(sample, "keel.base_free_bytes")),
               human_count((uint64_t)sample_number(sample, "keel.checkpoints")));
    if (!sample_find(sample, "keel") && sample_find(sample, "cluster.data.total_kv_size_bytes"))
        printf("data       %s\n", human_bytes((uint64_t)sample_number(sample, "cluster.data.total_kv_size_bytes")));
}

/* {"commit": {"count": …, "p50": …, …}, …}: whatever is in it, in seconds; nothing where there was nothing to measure. */
static void print_latencies(const struct sample *sample) {
    const char *name, *quantile;
    json_t *latency, *value;
    json_object_foreach(sample_find(sample, "keel.latencies"), name, latency) {
        if (json_number_value(json_object_get(latency, "count")) == 0)
            continue;
        printf("latency    %s", name);
        const char *between = ": ";
        json_object_foreach(latency, quantile, value) {
            if (strcmp(quantile, "count") == 0)
                continue;
            printf("%s%s %s", between, quantile, human_seconds(json_number_value(value)));
            between = ", ";
        }
        putchar('\n');
    }
}

static void print_users(const struct sample *sample) {
    double clients = sample_number(sample, "keel.clients"), long_reads = sample_number(sample, "keel.long_reads");
    if (sample_find(sample, "keel.clients"))
        printf("clients    %s, %s transactions open\n", human_count((uint64_t)clients),
               human_count((uint64_t)sample_number(sample, "keel.transactions_open")));
    printf("watches    %s\n", human_count((uint64_t)sample_number(sample, "keel.watches")));
    if (long_reads > 0)
        printf("long reads %s, the oldest for %s\n", human_count((uint64_t)long_reads),
               human_seconds(sample_number(sample, "keel.oldest_long_read_seconds")));
}

static void print_totals(const struct sample *sample) {
    printf("totals     ");
    const char *between = "";
    for (const struct rate *rate = rates; rate->name; rate++) {
        if (sample_find(sample, rate->path)) {
            printf("%s%s %s", between, rate_text(rate, sample_number(sample, rate->path)), rate->title);
            between = ", ";
        }
    }
    putchar('\n');
}

static void print_rates(const struct sample *before, const struct sample *after) {
    printf("a second   ");
    const char *between = "";
    for (const struct rate *rate = rates; rate->name; rate++) {
        if (sample_find(after, rate->path)) {
            printf("%s%s %s", between, rate_text(rate, sample_rate(before, after, rate->path)), rate->title);
            between = ", ";
        }
    }
    putchar('\n');
}

static void print_screen(const struct sample *before, const struct sample *after) {
    print_state(after);
    print_versions(after);
    if (before)
        print_rates(before, after);
    print_totals(after);
    print_latencies(after);
    print_sizes(after);
    print_users(after);
}

/* ---- status ---- */

int command_status(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("status");
    const char *interval = NULL;
    double seconds = 1;
    const struct option_spec specs[] = {{"interval", 'i', true, &interval}, {0}};
    if (!options_parse(command, &argc, argv, specs) || (interval && !interval_parse(interval, 0, &seconds)))
        return EXIT_USAGE;
    if (argc != 1)
        return usage_error(command, "there is nothing to be named here");
    struct sample before, after = {0};
    int code;
    if (!sample_take(session, &before, &code))
        return code;
    bool with_rates = seconds > 0;
    if (with_rates && !pause_seconds(seconds)) {
        sample_free(&before);
        return EXIT_INTERRUPTED;
    }
    if (with_rates && !sample_take(session, &after, &code)) {
        sample_free(&before);
        return code;
    }
    const struct sample *last = with_rates ? &after : &before;
    if (session->json) {
        json_t *document = json_incref(last->document);
        if (with_rates)
            json_object_set_new(document, "rates", rates_json(&before, &after));
        output_json(document);
    } else {
        print_screen(with_rates ? &before : NULL, last);
    }
    sample_free(&before);
    sample_free(&after);
    return EXIT_OK;
}

/* ---- top ---- */

/* One line, for scripts and files. */
static void print_line(const struct sample *before, const struct sample *after, int64_t number) {
    if (number == 0) {
        for (const struct rate *rate = rates; rate->name; rate++)
            printf("%12s", rate->title);
        printf("%12s%12s%12s\n", "window", "log", "base");
    }
    for (const struct rate *rate = rates; rate->name; rate++)
        printf("%12s", rate_text(rate, sample_rate(before, after, rate->path)));
    printf("%12s%12s%12s\n", human_bytes((uint64_t)sample_number(after, "keel.window_bytes")),
           human_bytes((uint64_t)sample_number(after, "keel.log_bytes")), human_bytes((uint64_t)sample_number(after, "keel.base_bytes")));
}

static void show(const struct session *session, const struct sample *before, const struct sample *after, int64_t number) {
    static const char home_and_clear[] = "\033[H\033[2J";
    if (session->json) {
        json_t *object = rates_json(before, after);
        static const char *const sizes[] = {"window_bytes", "log_bytes", "base_bytes"};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char path[64];
            snprintf(path, sizeof path, "keel.%s", sizes[i]);
            if (sample_find(after, path))
                json_object_set(object, sizes[i], sample_find(after, path));
        }
        output_json(object);
    } else if (isatty(STDOUT_FILENO)) {
        fputs(home_and_clear, stdout);
        print_screen(before, after);
        puts("\nCtrl-C ends");
    } else {
        print_line(before, after, number);
    }
    fflush(stdout);
}

int command_top(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("top");
    const char *interval = NULL, *count_text = NULL;
    double seconds = 1;
    int64_t count = INT64_MAX;
    const struct option_spec specs[] = {{"interval", 'i', true, &interval}, {"count", 'n', true, &count_text}, {0}};
    if (!options_parse(command, &argc, argv, specs) || (interval && !interval_parse(interval, 0.01, &seconds)) ||
        (count_text && !options_number("--count", count_text, 1, 1000000000, &count)))
        return EXIT_USAGE;
    if (argc != 1)
        return usage_error(command, "there is nothing to be named here");
    struct sample before, after;
    int code = EXIT_OK;
    if (!sample_take(session, &before, &code))
        return code;
    for (int64_t i = 0; i < count; i++) {
        if (!pause_seconds(seconds)) {
            session_forget_interrupt(); /* Ctrl-C is how it is meant to end */
            break;
        }
        if (!sample_take(session, &after, &code)) {
            sample_free(&before);
            return code;
        }
        show(session, &before, &after, i);
        sample_free(&before);
        before = after;
    }
    sample_free(&before);
    return EXIT_OK;
}
