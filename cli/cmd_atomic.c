/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atomic: every mutation of fdb_c that computes with the value in the database.
 *
 * Operands are bytes as in `set`, but whole numbers for add, min and max: 8 bytes, little-endian, as counters are kept. The two versionstamped
 * operations want to know where the ten bytes of the stamp go, as a 32-bit little-endian number behind the key or value. In a tuple that is where
 * incomplete(N) stands; in a text where ten bytes ff stand, once.
 */
#include "core.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { STAMP_LENGTH = KEEL_TRANSACTION_VERSION_LENGTH };

static const struct operation {
    const char *name;
    FDBMutationType type;
    bool takes_number;
} OPERATIONS[] = {
    {"add", FDB_MUTATION_TYPE_ADD, true},
    {"min", FDB_MUTATION_TYPE_MIN, true},
    {"max", FDB_MUTATION_TYPE_MAX, true},
    {"and", FDB_MUTATION_TYPE_BIT_AND, false},
    {"or", FDB_MUTATION_TYPE_BIT_OR, false},
    {"xor", FDB_MUTATION_TYPE_BIT_XOR, false},
    {"byte_min", FDB_MUTATION_TYPE_BYTE_MIN, false},
    {"byte_max", FDB_MUTATION_TYPE_BYTE_MAX, false},
    {"append_if_fits", FDB_MUTATION_TYPE_APPEND_IF_FITS, false},
    {"compare_and_clear", FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, false},
    {"set_versionstamped_key", FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, false},
    {"set_versionstamped_value", FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, false},
};

static const struct operation *find_operation(const char *name) {
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof OPERATIONS[0]; i++) {
        if (strcmp(OPERATIONS[i].name, name) == 0)
            return &OPERATIONS[i];
    }
    return NULL;
}

/* ---- Versionstamps ---- */

/* The position of ten bytes ff in a text; counts the places where they could begin. */
static size_t find_stamp(const struct buffer *bytes, size_t *position) {
    static const uint8_t mark[STAMP_LENGTH] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    size_t count = 0;
    for (size_t i = 0; i + STAMP_LENGTH <= bytes->length; i++) {
        if (memcmp(bytes->data + i, mark, STAMP_LENGTH) == 0) {
            *position = i;
            count++;
        }
    }
    return count;
}

static void append_position(struct buffer *bytes, size_t position) {
    uint8_t coded[4] = {(uint8_t)position, (uint8_t)(position >> 8), (uint8_t)(position >> 16), (uint8_t)(position >> 24)};
    buffer_append(bytes, coded, sizeof coded);
}

/* Puts the stamp's position behind the bytes that text_to_bytes has just read. False: reported. */
static bool complete_stamp(struct buffer *bytes, const char *text) {
    size_t tuple = text_tuple_position(), position = 0;
    if (tuple == SIZE_MAX) {
        size_t count = find_stamp(bytes, &position);
        if (count != 1) {
            report("atomic: %.200s: %s: ten bytes \\xff, once, mark where the versionstamp goes; in a tuple it is incomplete(0)", text,
                   count ? "the place of the versionstamp is not clear" : "there is no place for a versionstamp");
            return false;
        }
        append_position(bytes, position);
        return true;
    }
    keel_tuple_builder builder;
    keel_bytes packed;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_prefix(&builder, keel_bytes_of(bytes->data, tuple));
    keel_tuple_append_packed(&builder, keel_bytes_of(bytes->data + tuple, bytes->length - tuple));
    fdb_error_t error = keel_tuple_builder_finish_versionstamp(&builder, &packed);
    if (!error) {
        bytes->length = 0;
        buffer_append(bytes, packed.data, packed.length);
    } else {
        report("atomic: %.200s: %s (%d). Write incomplete(0) where it goes", text, keel_error_text(error), error);
    }
    keel_tuple_builder_free(&builder);
    return !error;
}

/* ---- The command ---- */

struct atomic_context {
    const struct operation *operation;
    const char *key_text;
    struct buffer key, operand;
    FDBFuture *stamp; /* of versionstamped operations outside a transaction */
    bool wants_stamp;
};

static fdb_error_t in_atomic(FDBTransaction *tr, void *pointer) {
    struct atomic_context *context = pointer;
    fdb_error_t error = text_to_key(tr, context->key_text, &context->key);
    if (error)
        return error;
    if (context->operation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY && !complete_stamp(&context->key, context->key_text))
        return ERROR_REPORTED;
    fdb_transaction_atomic_op(tr, context->key.data, (int)context->key.length, context->operand.data, (int)context->operand.length,
                              context->operation->type);
    if (context->stamp)
        fdb_future_destroy(context->stamp);
    context->stamp = context->wants_stamp ? fdb_transaction_get_versionstamp(tr) : NULL;
    return 0;
}

static bool read_number(const char *text, struct buffer *operand) {
    char *end;
    errno = 0;
    bool negative = *text == '-';
    if (!isdigit((unsigned char)text[negative]))
        return false;
    uint64_t number = negative ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0)
        return false;
    uint8_t coded[8];
    for (int i = 0; i < 8; i++)
        coded[i] = (uint8_t)(number >> (8 * i));
    return buffer_append(operand, coded, sizeof coded);
}

/* EXIT_OK, or reported. */
static int read_operand(const struct operation *operation, const char *text, bool as_bytes, struct buffer *operand) {
    const char *message;
    if (operation->takes_number && !as_bytes) {
        if (read_number(text, operand))
            return EXIT_OK;
        report("atomic: %s: \"%.60s\" is not a whole number of 64 bits; --bytes takes it as bytes", operation->name, text);
        return EXIT_USAGE;
    }
    if (!text_to_value(text, operand, &message)) {
        report("atomic: the operand: %s", message);
        return EXIT_USAGE;
    }
    if (operation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE && !complete_stamp(operand, text))
        return EXIT_USAGE;
    return EXIT_OK;
}

static void print_stamp(const struct session *session, FDBFuture *future) {
    const uint8_t *stamp;
    int length;
    if (session_wait(future) != 0 || fdb_future_get_key(future, &stamp, &length) != 0) {
        print_committed(session);
        return;
    }
    char hex[2 * STAMP_LENGTH + 1] = "";
    for (int i = 0; i < length && i < STAMP_LENGTH; i++)
        snprintf(hex + 2 * i, 3, "%02x", stamp[i]);
    if (session->json)
        output_json(json_pack("{s:I, s:s}", "committed_version", (json_int_t)session->committed_version, "versionstamp", hex));
    else
        printf("versionstamp 0x%s\n", hex);
}

int command_atomic(struct session *session, int argc, char **argv) {
    const struct command *command = command_find("atomic");
    const char *as_bytes = NULL;
    const struct option_spec specs[] = {{"bytes", 'b', false, &as_bytes}, {NULL, 0, false, NULL}};
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 4)
        return usage_error(command, "An operation, a key and an operand are needed");
    struct atomic_context context = {.operation = find_operation(argv[1]), .key_text = argv[2]};
    if (!context.operation)
        return usage_error(command, "There is no operation %.60s", argv[1]);
    bool stamped = context.operation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY || context.operation->type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE;
    context.wants_stamp = stamped && !session->current;
    int code = read_operand(context.operation, argv[3], as_bytes, &context.operand);
    if (code == EXIT_OK) {
        fdb_error_t error = session_write(session, in_atomic, &context);
        if (error)
            code = report_error("atomic", argv[2], error);
        else if (context.stamp)
            print_stamp(session, context.stamp);
        else
            print_committed(session);
    }
    if (context.stamp)
        fdb_future_destroy(context.stamp);
    buffer_free(&context.key);
    buffer_free(&context.operand);
    return code;
}
