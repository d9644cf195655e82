/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories: ls, tree, mkdir, mv, rm. (How much is in them: cmd_du.c.)
 *
 * Each is one transaction, the current one or its own. rm looks into the directory in the transaction that removes it: where something is found
 * there and nobody has agreed, the transaction ends with NOT_EMPTY, the question is put outside of it (a transaction does not wait for people),
 * and the second try does not ask again.
 *
 * Threads: one. Failure: errors of the layer are answers and are reported with the path.
 */
#include "structure.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_EMPTY = 100102 };

/* ---- Arguments ---- */

/* The path argument of a command; reports what is wrong. */
static bool path_argument(const struct command *command, const char *text, struct text_path *place) {
    const char *message;
    if (text_to_path(text, place, &message))
        return true;
    usage_error(command, "%s", message);
    text_path_free(place);
    return false;
}

/* Between `least` and `most` arguments behind the options. */
static bool arguments_parse(const struct command *command, int *argc, char **argv, const struct option_spec *specs, int least, int most) {
    if (!options_parse(command, argc, argv, specs))
        return false;
    if (*argc - 1 < least) {
        usage_error(command, least == 2 ? "Two paths are wanted" : "The path is missing");
        return false;
    }
    if (*argc - 1 > most) {
        usage_error(command, "There is an argument too many: %s", argv[most + 1]);
        return false;
    }
    return true;
}

/* ---- ls ---- */

struct ls {
    keel_path path;
    bool details;
    struct node_list list;
};

static fdb_error_t list_directory(FDBTransaction *tr, void *context) {
    struct ls *ls = context;
    node_list_free(&ls->list);
    fdb_error_t error = node_list_children(tr, ls->path, &ls->list);
    for (size_t i = 0; !error && ls->details && i < ls->list.count; i++)
        error = node_load(tr, &ls->list.nodes[i]);
    return error;
}

/* How many columns text takes: its characters, not its bytes. */
static int text_columns(const char *text) {
    int columns = 0;
    for (; *text; text++)
        columns += (*text & 0xc0) != 0x80;
    return columns;
}

static int max(int a, int b) {
    return a > b ? a : b;
}

/* The tag as it is shown; "-": none. */
static const char *layer_text(const struct node *node, struct buffer *text) {
    keel_bytes layer = keel_bytes_of(node->layer.data, node->layer.length);
    keel_path path = {&layer, 1};
    return layer.length > 0 ? path_name_text(path, text) : "-";
}

static void print_details(const struct node_list *list) {
    struct buffer name = {0}, layer = {0}, prefix = {0};
    int name_width = 4, layer_width = 5;
    for (size_t i = 0; i < list->count; i++) {
        name_width = max(name_width, text_columns(path_name_text(list->nodes[i].path, &name)));
        layer_width = max(layer_width, text_columns(layer_text(&list->nodes[i], &layer)));
    }
    if (list->count > 0)
        printf("%-*s  %-*s  prefix\n", name_width, "name", layer_width, "layer");
    for (size_t i = 0; i < list->count; i++) {
        const struct node *node = &list->nodes[i];
        const char *name_shown = path_name_text(node->path, &name), *layer_shown = layer_text(node, &layer);
        text_from_bytes(NULL, keel_bytes_of(node->prefix.data, node->prefix.length), &prefix);
        printf("%s%*s  %s%*s  %.*s\n", name_shown, name_width - text_columns(name_shown), "", layer_shown,
               layer_width - text_columns(layer_shown), "", (int)prefix.length, (const char *)prefix.data);
    }
    buffer_free(&name);
    buffer_free(&layer);
    buffer_free(&prefix);
}

static int run_ls(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("ls");
    const char *details = NULL;
    const struct option_spec specs[] = {{"long", 'l', false, &details}, {0}};
    struct text_path place = {0};
    if (!arguments_parse(command, &argc, argv, specs, 0, 1) || !path_argument(command, argc > 1 ? argv[1] : "/", &place))
        return EXIT_USAGE;
    struct ls ls = {.path = place.path, .details = details || session->json};
    fdb_error_t error = session_read(session, list_directory, &ls);
    int code = error ? report_error("ls", argc > 1 ? argv[1] : "/", error) : EXIT_OK;
    for (size_t i = 0; !error && i < ls.list.count && (session->json || !details); i++) {
        struct buffer name = {0};
        if (session->json)
            output_json(node_json(&ls.list.nodes[i]));
        else
            printf("%s\n", path_name_text(ls.list.nodes[i].path, &name));
        buffer_free(&name);
    }
    if (!error && details && !session->json)
        print_details(&ls.list);
    node_list_free(&ls.list);
    text_path_free(&place);
    return code;
}

/* ---- tree ---- */

/*
 * Which nodes are the last in their directory, from the end of the list backwards: `seen` says for each depth whether a sibling came already.
 */
static void find_last(struct node_list *list, bool *seen) {
    size_t root_count = list->nodes[0].path.count, deepest = 0;
    for (size_t i = list->count; i-- > 0;) {
        size_t depth = list->nodes[i].path.count - root_count;
        for (; deepest > depth; deepest--)
            seen[deepest] = false;
        deepest = depth;
        list->nodes[i].is_last = !seen[depth];
        seen[depth] = true;
    }
}

/* `ended` says for each depth above whether the directory that leads here is the last of its own. */
static void print_branch(const struct node_list *list, size_t index, bool *ended, bool details) {
    const struct node *node = &list->nodes[index];
    size_t depth = node->path.count - list->nodes[0].path.count;
    struct buffer text = {0};
    ended[depth] = node->is_last;
    for (size_t i = 1; i < depth; i++)
        fputs(ended[i] ? "    " : "│   ", stdout);
    if (depth > 0)
        fputs(node->is_last ? "└── " : "├── ", stdout);
    if (index == 0) {
        text_from_path(node->path, &text);
        fwrite(text.data, 1, text.length, stdout);
    } else {
        fputs(path_name_text(node->path, &text), stdout);
    }
    if (node->layer.length > 0)
        printf(" [%s]", layer_text(node, &text));
    if (details && node->path.count > 0) {
        text_from_bytes(NULL, keel_bytes_of(node->prefix.data, node->prefix.length), &text);
        printf(" %.*s", (int)text.length, (const char *)text.data);
    }
    putchar('\n');
    buffer_free(&text);
}

static void print_tree(struct node_list *list, bool details) {
    size_t depth_max = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t depth = list->nodes[i].path.count - list->nodes[0].path.count;
        depth_max = depth > depth_max ? depth : depth_max;
    }
    bool *marks = calloc(2 * (depth_max + 1), sizeof *marks);
    if (!marks) {
        report("out of memory");
        exit(EXIT_FAILED);
    }
    find_last(list, marks);
    for (size_t i = 0; i < list->count; i++)
        print_branch(list, i, marks + depth_max + 1, details);
    free(marks);
}

static int run_tree(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("tree");
    const char *details = NULL, *depth = NULL;
    const struct option_spec specs[] = {{"long", 'l', false, &details}, {"depth", 'd', true, &depth}, {0}};
    struct text_path place = {0};
    struct node_list list = {0};
    int64_t depth_max = INT64_MAX;
    if (!arguments_parse(command, &argc, argv, specs, 0, 1) || (depth && !options_number("depth", depth, 0, INT64_MAX, &depth_max)) ||
        !path_argument(command, argc > 1 ? argv[1] : "/", &place))
        return EXIT_USAGE;
    fdb_error_t error = node_list_walk(session, place.path, (size_t)depth_max, &list);
    for (size_t i = 0; !error && session->json && i < list.count; i++)
        output_json(node_json(&list.nodes[i]));
    if (!error && !session->json)
        print_tree(&list, details != NULL);
    int code = error ? report_error("tree", argc > 1 ? argv[1] : "/", error) : EXIT_OK;
    node_list_free(&list);
    text_path_free(&place);
    return code;
}

/* ---- mkdir ---- */

struct mkdir {
    struct node node; /* the path, and what it became */
    keel_bytes layer;
    bool parents; /* -p */
};

static fdb_error_t make_directory(FDBTransaction *tr, void *context) {
    struct mkdir *mkdir = context;
    keel_path path = mkdir->node.path, parent = {path.names, path.count > 0 ? path.count - 1 : 0};
    fdb_error_t error;
    int exists = 1;
    if (mkdir->parents) {
        error = path.count > 0 ? keel_directory_create_or_open(tr, NULL, path, mkdir->layer, NULL) : 0;
    } else {
        error = parent.count > 0 ? keel_directory_exists(tr, NULL, parent, &exists) : 0;
        if (!error && !exists)
            error = KEEL_ERROR_DIRECTORY_PARENT_MISSING;
        if (!error)
            error = keel_directory_create(tr, NULL, path, mkdir->layer, NULL, NULL);
    }
    return error ? error : node_load(tr, &mkdir->node);
}

static int report_mkdir(const char *path, fdb_error_t error) {
    if (error == KEEL_ERROR_DIRECTORY_PARENT_MISSING) {
        report("mkdir: %s: The parent directory does not exist; mkdir -p makes it as well", path);
        return EXIT_NOT_FOUND;
    }
    if (error == KEEL_ERROR_DIRECTORY_EXISTS || error == KEEL_ERROR_DIRECTORY_ROOT)
        return report("mkdir: %s: The directory exists already; mkdir -p does not mind", path);
    if (error == KEEL_ERROR_DIRECTORY_LAYER)
        return report("mkdir: %s: The directory is there with another layer tag; ls -l shows which", path);
    return report_error("mkdir", path, error);
}

static int run_mkdir(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("mkdir");
    const char *parents = NULL, *layer = NULL;
    const struct option_spec specs[] = {{"parents", 'p', false, &parents}, {"layer", 'l', true, &layer}, {0}};
    struct text_path place = {0};
    struct mkdir mkdir = {0};
    struct buffer layer_bytes = {0};
    const char *message;
    if (!arguments_parse(command, &argc, argv, specs, 1, 1) || !path_argument(command, argv[1], &place))
        return EXIT_USAGE;
    fdb_error_t error = 0;
    int code = EXIT_OK;
    if (layer && !text_to_value(layer, &layer_bytes, &message)) {
        code = usage_error(command, "%s: %s", layer, message);
        goto done;
    }
    mkdir.layer = keel_bytes_of(layer_bytes.data, layer_bytes.length);
    mkdir.parents = parents != NULL;
    if (!(error = node_at(place.path, &mkdir.node)))
        error = session_write(session, make_directory, &mkdir);
    if (error)
        code = report_mkdir(argv[1], error);
    else
        answer_write(session, node_json(&mkdir.node));
done:
    buffer_free(&layer_bytes);
    node_free(&mkdir.node);
    text_path_free(&place);
    return code;
}

/* ---- mv ---- */

struct mv {
    struct text_path from, to;
};

static fdb_error_t move_directory(FDBTransaction *tr, void *context) {
    struct mv *mv = context;
    return keel_directory_move(tr, NULL, mv->from.path, mv->to.path, NULL);
}

static int report_mv(char **argv, fdb_error_t error) {
    if (error == KEEL_ERROR_DIRECTORY_EXISTS)
        return report("mv: %s: The directory exists already; write the new path to its end, name included, or remove this one first", argv[2]);
    if (error == KEEL_ERROR_DIRECTORY_PARENT_MISSING) {
        report("mv: %s: The parent directory does not exist; make it with mkdir -p", argv[2]);
        return EXIT_NOT_FOUND;
    }
    if (error == KEEL_ERROR_DIRECTORY_MOVE_PARTITIONS)
        return report("mv: %s: A directory cannot be moved into another partition, or out of one; make it there and copy its keys", argv[2]);
    return report_error("mv", error == KEEL_ERROR_DIRECTORY_MOVE_INTO_SELF ? argv[2] : argv[1], error);
}

static int run_mv(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("mv");
    const struct option_spec specs[] = {{0}};
    struct mv mv = {0};
    int code = EXIT_USAGE;
    if (arguments_parse(command, &argc, argv, specs, 2, 2) && path_argument(command, argv[1], &mv.from) && path_argument(command, argv[2], &mv.to)) {
        fdb_error_t error = session_write(session, move_directory, &mv);
        code = error ? report_mv(argv, error) : EXIT_OK;
        if (!error)
            answer_write(session, json_pack("{s:o,s:o}", "from", path_json(mv.from.path), "to", path_json(mv.to.path)));
    }
    text_path_free(&mv.from);
    text_path_free(&mv.to);
    return code;
}

/* ---- rm ---- */

struct rm {
    struct node node;
    bool agreed;
    size_t subdirectories;
    bool has_rows;
};

static fdb_error_t count_name(void *context, keel_bytes name) {
    (void)name;
    ++*(size_t *)context;
    return 0;
}

static fdb_error_t ignore_row(void *context, keel_bytes key, keel_bytes value) {
    (void)key, (void)value;
    *(bool *)context = true;
    return 0;
}

/* What would go with the directory. A partition's rows are its directories', which are counted; others are not allowed there. */
static fdb_error_t look_inside(FDBTransaction *tr, struct rm *rm) {
    struct buffer end = {0};
    size_t length = 0;
    bool more;
    rm->subdirectories = 0;
    rm->has_rows = false;
    fdb_error_t error = keel_directory_list(tr, NULL, rm->node.path, count_name, &rm->subdirectories);
    if (!error)
        error = node_load(tr, &rm->node);
    keel_bytes prefix = keel_bytes_of(rm->node.prefix.data, rm->node.prefix.length);
    if (error || rm->node.is_partition || prefix.length == 0)
        return error;
    buffer_append(&end, prefix.data, prefix.length);
    error = keel_strinc(prefix, end.data, end.length, &length);
    if (!error)
        error = rows_visit(tr, prefix, keel_bytes_of(end.data, length), 1, false, ignore_row, &rm->has_rows, &more);
    buffer_free(&end);
    return error;
}

static fdb_error_t remove_directory(FDBTransaction *tr, void *context) {
    struct rm *rm = context;
    if (rm->node.path.count == 0)
        return KEEL_ERROR_DIRECTORY_ROOT;
    if (!rm->agreed) {
        fdb_error_t error = look_inside(tr, rm);
        if (error)
            return error;
        if (rm->subdirectories > 0 || rm->has_rows)
            return NOT_EMPTY;
    }
    return keel_directory_remove(tr, NULL, rm->node.path);
}

/* Puts the question. False: the answer was no, or nobody is there to answer. */
static bool agree(const struct session *session, const char *path, const struct rm *rm) {
    if (rm->subdirectories == 0)
        return confirm(session, "%s is not empty. Remove it and everything in it?", path);
    return confirm(session, "%s holds %s %s%s. Remove it and everything in it?", path, human_count(rm->subdirectories),
                   rm->subdirectories == 1 ? "directory" : "directories", rm->has_rows ? " and data of its own" : "");
}

static int run_rm(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("rm");
    const char *recursive = NULL, *yes = NULL;
    const struct option_spec specs[] = {{"recursive", 'r', false, &recursive}, {"yes", 'y', false, &yes}, {0}};
    struct text_path place = {0};
    struct rm rm = {0};
    if (!arguments_parse(command, &argc, argv, specs, 1, 1) || !path_argument(command, argv[1], &place))
        return EXIT_USAGE;
    rm.agreed = recursive || yes || session->assume_yes;
    fdb_error_t error = node_at(place.path, &rm.node);
    if (!error)
        error = session_write(session, remove_directory, &rm);
    if (error == NOT_EMPTY && agree(session, argv[1], &rm)) {
        rm.agreed = true;
        error = session_write(session, remove_directory, &rm);
    }
    int code = EXIT_OK;
    if (error == NOT_EMPTY)
        code = report("rm: %s: The directory is not empty, and was left as it is", argv[1]);
    else if (error)
        code = error == KEEL_ERROR_DIRECTORY_ROOT ? report("rm: /: The root cannot be removed; remove the directories in it, or clearrange all keys")
                                                  : report_error("rm", argv[1], error);
    else
        answer_write(session, json_pack("{s:o,s:b}", "path", path_json(place.path), "removed", 1));
    node_free(&rm.node);
    text_path_free(&place);
    return code;
}

/* ---- The table ---- */

const struct command structure_commands[] = {
    {"ls", "[-l] [PATH]", "Directories in a directory",
     "Lists the names of the directories in PATH, / if none is given. -l (--long) shows as well the layer tag of each and the prefix under\n"
     "which its keys lie.\n"
     "\n"
     "A path is written /app/users. In a name, \\/ is a slash, \\( a parenthesis, \\\\ a backslash, \\xHH any byte.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/users\n"
     "    $ keel my.db mkdir --layer partition /app/tenant\n"
     "    $ keel my.db ls /app\n"
     "    tenant\n"
     "    users\n"
     "    $ keel my.db ls -l /app\n"
     "    name    layer      prefix\n"
     "    tenant  partition  …\n"
     "    users   -          …\n",
     run_ls, COMMAND_STRUCTURE, true, true},
    {"tree", "[-l] [--depth N] [PATH]", "All directories below a directory",
     "Draws the tree of directories from PATH (or /) down, layer tags in brackets. --depth N (-d) stops N levels below PATH; -l (--long)\n"
     "shows prefixes too.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/users/archive\n"
     "    $ keel my.db mkdir --layer queue /app/jobs\n"
     "    $ keel my.db tree\n"
     "    /\n"
     "    └── app\n"
     "        ├── jobs [queue]\n"
     "        └── users\n"
     "            └── archive\n"
     "    $ keel my.db tree --depth 1 /app\n"
     "    /app\n"
     "    ├── jobs [queue]\n"
     "    └── users\n",
     run_tree, COMMAND_STRUCTURE, true, true},
    {"mkdir", "[-p] [--layer TAG] PATH", "Make a directory",
     "Makes the directory PATH, which gets a short prefix of its own for the keys in it. -p (--parents) makes missing parents too and does\n"
     "not mind if it is there already. --layer TAG (-l) tags it with the name of the program or structure that will use it; whoever opens it\n"
     "with another tag gets an error. The tag partition makes a partition: its directories lie together under one prefix and cannot be\n"
     "moved out of it.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/users\n"
     "    $ keel my.db mkdir --layer partition /app/tenant\n"
     "    $ keel my.db ls /app\n"
     "    tenant\n"
     "    users\n",
     run_mkdir, COMMAND_STRUCTURE, true, false},
    {"mv", "FROM TO", "Rename a directory",
     "Renames the directory FROM, with everything in it and below it, to TO. No data is moved, so it takes no time. TO is the whole new path:\n"
     "it may not exist yet, and its parent has to.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/drafts\n"
     "    $ keel my.db mv /app/drafts /app/archive\n"
     "    $ keel my.db ls /app\n"
     "    archive\n",
     run_mv, COMMAND_STRUCTURE, true, false},
    {"rm", "[-r] PATH", "Remove a directory with everything in it",
     "Removes the directory PATH, its keys and all directories below it. If there is anything in it, it asks on a terminal; in a script it\n"
     "refuses then, unless -r (--recursive) or --yes says that this is meant.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/scratch/old\n"
     "    $ keel my.db rm -r /app/scratch\n"
     "    $ keel my.db ls /app\n",
     run_rm, COMMAND_STRUCTURE, true, false},
    {"du", "[--exact] [--depth N] [PATH]", "How much is in each directory",
     "Shows for PATH (or /) and each directory below it how many bytes of keys and values are in it, and in all with those below it. The\n"
     "numbers are the database's estimates, which cost little; --exact (-e) reads and counts everything, rows too. --depth N (-d) prints\n"
     "directories down to N levels below PATH. In / itself is what lies in no directory, the tree of directories included.\n"
     "\n"
     "    $ keel my.db mkdir -p /app/users\n"
     "    $ keel my.db set '/app/users(1)' ann\n"
     "    $ keel my.db du --exact /app\n"
     "              rows       bytes      in all  directory\n"
     "                 0         0 B  …  /app\n"
     "                 1  …  …  /app/users\n"
     "    $ keel my.db --json du\n"
     "    {\"path\": \"/\", \"exact\": false, …\n"
     "    …\n"
     "    {\"path\": \"/app/users\", …\n",
     run_du, COMMAND_STRUCTURE, true, true},
    {0},
};
