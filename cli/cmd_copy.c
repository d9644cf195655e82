/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel copy SRC DST: all rows of one database into another, embedded or cluster, either way.
 *
 * A pass walks over all rows of the source in order and writes them to the destination, many transactions in flight. Where the source knows long reads, one
 * pass reads one version, and the destination becomes that state. A cluster keeps a version for five seconds; there the pass goes through several, and
 * further passes follow, each holding the rows of both sides against each other and mending what differs:
 *
 *     pass 1          pass 2               pass n
 *     copy all  ──►   differences?  ──►    none: done
 *                     mend them            as many as --passes: give up, say so
 *
 * Why a pass without differences proves a state: every row was read in the pass before and is the same now, and all reads of that pass came before all reads of
 * this one; so at the moment between them the source held exactly these rows, unless one was changed and changed back.
 *
 * Interrupted: the job's record stays in the destination (transfer_job.c). The same command goes on with a pass that compares, since the source may
 * have changed since; what is there already and still right is read but not written again.
 *
 * At the end the destination is read back and its checksum held against the source's. With --merge other rows may lie among them, so each row of the
 * source is looked for instead.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "operation.h"
#include "place.h"
#include "transfer.h"

struct side {
    const char *path; /* as given */
    char real[PATH_MAX];
    FDBDatabase *database;
    keel_db *opened; /* NULL: the session's */
};

struct copy {
    struct session *session;
    struct side from, to;
    bool bounded; /* no long reads at the source */
    int64_t passes_max, passes;
    struct job job;
    struct loader loader;
    struct tally tally; /* of the last pass, at the source */
    uint64_t written;   /* rows, in all passes */
    uint64_t estimate_bytes;
};

/* ---- Reporting ---- */

static int interrupted(const struct copy *copy) {
    report("copy: interrupted: %s is marked as unfinished. The same command goes on from here, --force begins anew", copy->to.path);
    return EXIT_INTERRUPTED;
}

static int report_from(const struct copy *copy, fdb_error_t error) {
    return session_interrupted() ? interrupted(copy) : transfer_report("copy", copy->from.path, error);
}

static int report_to(const struct copy *copy, fdb_error_t error) {
    if (session_interrupted())
        return interrupted(copy);
    struct buffer text = {0};
    const struct buffer *key = &copy->loader.failed_key;
    if (key->length) {
        (void)(buffer_append(&text, copy->to.path, strlen(copy->to.path)) && buffer_append(&text, ": near ", 7));
        text_from_bytes(NULL, keel_bytes_of(key->data, key->length), &text);
    }
    bool known = text.length && buffer_append(&text, "", 1);
    int code = transfer_report("copy", known ? (const char *)text.data : copy->to.path, error);
    buffer_free(&text);
    return code;
}

/* ---- A pass ---- */

enum walk_kind { WALK_COPY, WALK_MEND, WALK_COMPARE };

/* Both sides row by row; where there is nothing to compare with, `to` is closed. */
struct walk {
    struct copy *copy;
    enum walk_kind kind;
    struct cursor from, to;
    struct row from_row, to_row;
    bool from_present, to_present;
    uint64_t differences;
    struct buffer first_difference;
    int code; /* EXIT_OK: go on */
};

static bool next_from(struct walk *walk) {
    fdb_error_t error = cursor_next(&walk->from, &walk->from_row, &walk->from_present);
    if (error)
        walk->code = report_from(walk->copy, error);
    return !error;
}

static bool next_to(struct walk *walk) {
    if (walk->kind == WALK_COPY)
        return true;
    fdb_error_t error = cursor_next(&walk->to, &walk->to_row, &walk->to_present);
    if (error)
        walk->code = report_to(walk->copy, error);
    return !error;
}

static bool differs(struct walk *walk, keel_bytes key) {
    if (walk->differences++ == 0 && !buffer_append(&walk->first_difference, key.data, key.length))
        walk->first_difference.length = 0;
    return walk->kind != WALK_COMPARE;
}

/* A row of the source that the destination has not, or not so. */
static bool put(struct walk *walk) {
    struct copy *copy = walk->copy;
    if (walk->kind != WALK_COPY && !differs(walk, walk->from_row.key))
        return true;
    copy->loader.rows = copy->tally.rows - 1; /* those before this one are there, or on their way */
    fdb_error_t error = loader_set(&copy->loader, walk->from_row.key, walk->from_row.value);
    if (error)
        walk->code = report_to(copy, error);
    copy->written++;
    return !error;
}

/* A row of the destination that the source has not. */
static bool take_away(struct walk *walk) {
    if (walk->copy->job.merge || !differs(walk, walk->to_row.key))
        return true;
    fdb_error_t error = loader_repair_clear(&walk->copy->loader, walk->to_row.key);
    if (error)
        walk->code = report_to(walk->copy, error);
    return !error;
}

static bool step(struct walk *walk) {
    int order = !walk->to_present ? -1 : !walk->from_present ? 1 : keel_bytes_compare(walk->from_row.key, walk->to_row.key);
    if (order > 0)
        return take_away(walk) && next_to(walk);
    if (walk->kind != WALK_COMPARE)
        tally_add(&walk->copy->tally, walk->from_row.key, walk->from_row.value);
    bool same = order == 0 && keel_bytes_compare(walk->from_row.value, walk->to_row.value) == 0;
    if (!same && !put(walk))
        return false;
    return (order < 0 || next_to(walk)) && next_from(walk);
}

/* Runs over everything. `to` NULL for WALK_COPY. False: reported, walk->code says what to return. */
static bool run_walk(struct walk *walk, struct snapshot *from, struct snapshot *to, const char *doing) {
    struct copy *copy = walk->copy;
    struct tally tally = {0};
    if (walk->kind != WALK_COMPARE)
        copy->tally = tally;
    fdb_error_t error = cursor_open(from, USER_KEYS_BEGIN, USER_KEYS_END, &walk->from);
    if (!error && to)
        error = cursor_open(to, USER_KEYS_BEGIN, USER_KEYS_END, &walk->to);
    struct progress *progress = progress_begin(copy->session, doing, "bytes", copy->estimate_bytes);
    if (error)
        walk->code = report_error("copy", copy->from.path, error);
    bool fine = !error && next_from(walk) && next_to(walk);
    while (fine && (walk->from_present || walk->to_present)) {
        fine = step(walk);
        if (copy->tally.rows % 1024 == 0)
            progress_update(progress, copy->tally.bytes, copy->tally.rows);
    }
    if (fine && walk->kind != WALK_COMPARE && (error = loader_finish(&copy->loader))) {
        walk->code = report_to(copy, error);
        fine = false;
    }
    progress_end(progress, fine);
    cursor_close(&walk->from);
    cursor_close(&walk->to);
    return fine;
}

/* One pass at versions of its own. *settled: the destination now is the source at one moment. */
static int run_pass(struct copy *copy, bool fresh, struct snapshot *from, bool *settled) {
    struct snapshot to = {0};
    struct walk walk = {.copy = copy, .kind = fresh ? WALK_COPY : WALK_MEND};
    fdb_error_t error = snapshot_open(copy->from.database, copy->bounded, false, from);
    if (error)
        return report_from(copy, error);
    if (!fresh && (error = snapshot_open(copy->to.database, false, false, &to)))
        return report_to(copy, error);
    copy->bounded = !from->held;
    bool fine = run_walk(&walk, from, fresh ? NULL : &to, fresh ? "copy" : "compare");
    snapshot_close(&to);
    buffer_free(&walk.first_difference);
    if (!fine)
        return walk.code;
    bool provable = from->held || !copy->job.merge || walk.differences == 0; /* verify() cannot look again at a version that is gone */
    *settled = (from->versions == 1 && provable) || (!fresh && copy->passes > 0 && walk.differences == 0);
    copy->passes++;
    if (!*settled && !copy->session->quiet)
        fprintf(stderr, "keel: copy: pass %lld went through %d versions of %s%s%s: another pass\n", (long long)copy->passes, from->versions,
                copy->from.path, fresh ? "" : " and mended rows: ", fresh ? "" : human_count(walk.differences));
    return EXIT_OK;
}

/* ---- The end ---- */

static int report_difference(const struct copy *copy, const struct walk *walk, const struct tally *found) {
    struct buffer text = {0};
    if (walk->differences)
        text_from_bytes(NULL, keel_bytes_of(walk->first_difference.data, walk->first_difference.length), &text);
    bool known = buffer_append(&text, "", 1);
    int code = report("copy: %s does not hold what %s holds: %s rows where there are %s%s%s. Somebody else has written to it meanwhile; run the same "
                      "command again to mend it",
                      copy->to.path, copy->from.path, human_count(found->rows), human_count(copy->tally.rows),
                      walk->differences ? ", the first that differs is " : "", known && walk->differences ? (const char *)text.data : "");
    buffer_free(&text);
    return code;
}

/* Holds the destination against the state that was copied; `from` still has it where it is held. */
static int verify(struct copy *copy, struct snapshot *from) {
    struct snapshot to;
    struct tally found = {0};
    struct row row;
    struct cursor cursor;
    bool present = true;
    fdb_error_t error = snapshot_open(copy->to.database, false, false, &to);
    if (error)
        return report_to(copy, error);
    struct walk walk = {.copy = copy, .kind = WALK_COMPARE};
    int code = EXIT_OK;
    if (!copy->job.merge) {
        error = cursor_open(&to, USER_KEYS_BEGIN, USER_KEYS_END, &cursor);
        while (!error && !(error = cursor_next(&cursor, &row, &present)) && present)
            tally_add(&found, row.key, row.value);
        cursor_close(&cursor);
        if (error)
            code = report_to(copy, error);
    }
    bool different = !error && !copy->job.merge && !tally_equal(&found, &copy->tally);
    if (!error && from->held && (copy->job.merge || different) && !run_walk(&walk, from, &to, "compare"))
        code = walk.code;
    else if (different || walk.differences)
        code = report_difference(copy, &walk, &found);
    buffer_free(&walk.first_difference);
    snapshot_close(&to);
    return code;
}

static void print_result(const struct copy *copy, double seconds) {
    if (copy->session->json)
        output_json(json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:b, s:f}", "from", json_text(keel_bytes_of_string(copy->from.path)), "to",
                              json_text(keel_bytes_of_string(copy->to.path)), "rows", (json_int_t)copy->tally.rows, "bytes",
                              (json_int_t)copy->tally.bytes, "written", (json_int_t)copy->written, "passes", (json_int_t)copy->passes, "checksum",
                              json_hex(copy->tally.checksum), "resumed", copy->job.resumed, "seconds", seconds));
    else
        printf("%s rows, %s of keys and values, from %s to %s, verified, %s\n", human_count(copy->tally.rows), human_bytes(copy->tally.bytes),
               copy->from.path, copy->to.path, human_seconds(seconds));
}

static int begin_job(struct copy *copy, bool force, bool merge) {
    enum job_start start;
    char *found = NULL;
    copy->job = (struct job){.database = copy->to.database, .kind = "copy", .source = copy->from.real, .merge = merge};
    fdb_error_t error = job_begin(&copy->job, force, &start, &found);
    if (error)
        return report_to(copy, error);
    int code = EXIT_OK;
    if (start == JOB_NOT_EMPTY)
        code =
            report("copy: %s holds rows already: copy into a new database, or replace them with --force, or add to them with --merge", copy->to.path);
    if (start == JOB_UNFINISHED)
        code = report("copy: %s holds %s: run that again to finish it, or give it up and clear the database with --force", copy->to.path,
                      found ? found : "an unfinished transfer");
    if (start == JOB_RESUMED && !copy->session->quiet)
        fprintf(stderr, "keel: copy: goes on with an unfinished copy\n");
    free(found);
    return code;
}

static int run_passes(struct copy *copy) {
    struct snapshot from = {0};
    bool settled = false;
    int code = EXIT_OK;
    loader_open(copy->to.database, &copy->job, &copy->loader);
    for (bool fresh = !copy->job.resumed && !copy->job.merge; code == EXIT_OK && !settled && copy->passes < copy->passes_max; fresh = false) {
        snapshot_close(&from);
        code = run_pass(copy, fresh, &from, &settled);
    }
    if (code == EXIT_OK && !settled)
        code = report("copy: %s changes faster than it is copied: after %lld passes %s still differed from it. Stop its writers, or run the same "
                      "command again at a quieter time",
                      copy->from.path, (long long)copy->passes, copy->to.path);
    if (code == EXIT_OK)
        code = verify(copy, &from);
    fdb_error_t error = code == EXIT_OK ? job_end(&copy->job) : 0;
    if (error)
        code = report_to(copy, error);
    loader_close(&copy->loader);
    snapshot_close(&from);
    return code;
}

/* ---- The command ---- */

/* The path by which the source is known again, and both sides are told apart. */
static void find_real(struct side *side) {
    char parent[PATH_MAX];
    if (realpath(side->path, side->real))
        return;
    size_t length = strlen(side->path);
    while (length > 1 && side->path[length - 1] == '/')
        length--;
    if (side->path[0] != '/' && getcwd(parent, sizeof parent))
        snprintf(side->real, sizeof side->real, "%.*s/%.*s", PATH_MAX / 2, parent, (int)length, side->path);
    else
        snprintf(side->real, sizeof side->real, "%.*s", (int)length, side->path);
}

/* Whether a cluster, if it is one, is there. */
static int reach(const struct copy *copy, const struct side *side) {
    if (!session_is_answered(copy->session, side->path, side->database))
        return EXIT_FAILED;
    if (!session_interrupted())
        return EXIT_OK;
    report("copy: interrupted");
    return EXIT_INTERRUPTED;
}

static int open_sides(struct copy *copy) {
    find_real(&copy->from);
    find_real(&copy->to);
    if (strcmp(copy->from.path, ":memory:") == 0 || strcmp(copy->to.path, ":memory:") == 0)
        return report("copy: :memory: is empty when it is opened and gone when the command ends: there is nothing to copy from or to");
    if (strcmp(copy->from.real, copy->to.real) == 0)
        return report("copy: %s and %s are the same database", copy->from.path, copy->to.path);
    if (!copy->from.database) {
        if (access(copy->from.path, F_OK) != 0)
            return report("copy: %s: there is no such database", copy->from.path);
        fdb_error_t error = keel_open(copy->from.path, &copy->from.opened);
        if (error)
            return report_from(copy, error);
        copy->from.database = keel_fdb(copy->from.opened);
        int code = reach(copy, &copy->from);
        if (code != EXIT_OK)
            return code;
    }
    fdb_error_t error = keel_run_read(copy->from.database, transfer_estimate, &copy->estimate_bytes); /* also: can it be opened at all? */
    if (error)
        return report_from(copy, error);
    error = keel_open(copy->to.path, &copy->to.opened);
    if (error)
        return report_to(copy, error);
    copy->to.database = keel_fdb(copy->to.opened);
    return reach(copy, &copy->to);
}

int command_copy(struct session *session, int argc, char **argv) {
    const struct command *command = operation_command("copy");
    const char *force = NULL, *merge = NULL, *bounded = NULL, *passes = NULL;
    const struct option_spec specs[] = {
        {"force", 'f', false, &force}, {"merge", 0, false, &merge}, {"bounded", 0, false, &bounded}, {"passes", 0, true, &passes}, {0}};
    struct copy copy = {.session = session, .passes_max = 10};
    if (!options_parse(command, &argc, argv, specs) || (passes && !options_number("--passes", passes, 1, 1000, &copy.passes_max)))
        return EXIT_USAGE;
    if (argc != 3 && (argc != 2 || session->no_database))
        return usage_error(command, "the database to copy to is needed, and before it the one to copy from unless that is open");
    if (force && merge)
        return usage_error(command, "--force clears what is there, --merge keeps it: only one of them");
    if (!outside_transaction(session, "copy"))
        return EXIT_FAILED;
    copy.bounded = bounded != NULL;
    copy.to.path = argv[argc - 1];
    copy.from.path = argc == 3 ? argv[1] : session->path ? session->path : "keel.db";
    if (argc == 2 && !(copy.from.database = session_database(session)))
        return EXIT_FAILED;
    double begin = seconds_now();
    int code = open_sides(&copy);
    if (code == EXIT_OK)
        code = begin_job(&copy, force != NULL, merge != NULL);
    if (code == EXIT_OK)
        code = run_passes(&copy);
    if (code == EXIT_OK)
        print_result(&copy, seconds_now() - begin);
    job_close(&copy.job);
    keel_close(copy.to.opened);
    keel_close(copy.from.opened);
    return code;
}
