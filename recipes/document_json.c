/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to JSON, rows to JSON, JSON to text, by way of Jansson. document.c has the layout.
 *
 * Rows become a tree without recursion: the containers that the last row went through are a stack
 * of frames; a row leaves those its key does not share, then makes its own. A container is made
 * when the first step inside it is seen, which tells an object from an array.
 *
 * Doubles are printed with the fewest digits, from 15 to 17, with which all doubles of the text
 * read back exactly.
 *
 * Failure: memory, what JSON cannot hold, and rows that are no tree; nothing is kept then.
 */
#include "document_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text to JSON ---- */

/* The deepest nesting of containers, without recursion and without understanding more. */
static size_t measure_depth(const char *text, size_t length) {
    size_t depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            deepest = ++depth > deepest ? depth : deepest;
        else if (!in_string && (c == '}' || c == ']') && depth)
            depth--;
    }
    return deepest;
}

/* `steps`: how deep the value will lie. */
fdb_error_t document_parse(const char *text, size_t length, size_t steps, json_t **json) {
    json_error_t problem;
    if (!text)
        return KEEL_ERROR_ARGUMENT;
    if (measure_depth(text, length) + steps > DEPTH_MAX)
        return KEEL_ERROR_DOCUMENT_DEPTH;
    json_t *parsed = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (parsed) {
        *json = parsed;
        return 0;
    }
    switch (json_error_code(&problem)) {
    case json_error_out_of_memory:
    case json_error_unknown: /* it has a code for everything else */
        return NO_MEMORY;
    case json_error_numeric_overflow:
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    default:
        return KEEL_ERROR_JSON;
    }
}

/* ---- Rows to JSON ---- */

fdb_error_t document_build_open(struct document_build *build, const struct document_tree *tree) {
    build->leaf_in_key = tree->leaf_in_key;
    build->top = 0;
    build->last.length = 0;
    build->frames = malloc((DEPTH_MAX + 2) * sizeof *build->frames);
    json_t *holder = json_array();
    if (!build->frames || !holder) {
        free(build->frames);
        json_decref(holder);
        return NO_MEMORY;
    }
    build->frames[0] = (struct document_frame){holder, tree->key.length, -1};
    return 0;
}

fdb_error_t document_build_again(struct document_build *build, size_t path_length) {
    json_t *holder = build->frames[0].container;
    if (json_array_clear(holder))
        return NO_MEMORY;
    build->top = 0;
    build->last.length = 0;
    build->frames[0] = (struct document_frame){holder, path_length, -1};
    return 0;
}

void document_build_close(struct document_build *build) {
    json_decref(build->frames[0].container);
    free(build->frames);
}

/* A copy of an element's bytes; *text is the caller's. */
static fdb_error_t copy_text(const keel_element *element, char **text, size_t *length) {
    size_t needed = element->value.as_bytes.length;
    char *copy = malloc(needed + 1);
    if (!copy)
        return NO_MEMORY;
    fdb_error_t error = keel_element_copy(element, (uint8_t *)copy, needed + 1, length);
    if (error) {
        free(copy);
        return KEEL_ERROR_STORED_FORMAT;
    }
    copy[*length] = 0;
    *text = copy;
    return 0;
}

/* Why Jansson did not take a text: it is not UTF-8, or there is no memory. */
static fdb_error_t why_not(keel_element text) {
    text.type = KEEL_TYPE_STRING; /* bytes are looked at the same way */
    return keel_element_is_utf8(&text) ? (fdb_error_t)NO_MEMORY
                                       : (fdb_error_t)KEEL_ERROR_STORED_FORMAT;
}

static fdb_error_t text_to_json(const keel_element *leaf, json_t **json) {
    char *text = NULL;
    size_t length = 0;
    fdb_error_t error = copy_text(leaf, &text, &length);
    if (error)
        return error;
    *json = json_stringn(text, length);
    free(text);
    return *json ? 0 : why_not(*leaf);
}

static fdb_error_t real_to_json(double value, json_t **json) {
    if (!isfinite(value)) /* JSON has none */
        return KEEL_ERROR_STORED_FORMAT;
    *json = json_real(value);
    return *json ? 0 : NO_MEMORY;
}

static fdb_error_t leaf_to_json(const keel_element *leaf, json_t **json) {
    switch (leaf->type) {
    case KEEL_TYPE_NULL:
        *json = json_null();
        return 0;
    case KEEL_TYPE_BOOL:
        *json = json_boolean(leaf->value.as_bool);
        return 0;
    case KEEL_TYPE_INT:
        *json = json_integer((json_int_t)leaf->value.as_int);
        return *json ? 0 : NO_MEMORY;
    case KEEL_TYPE_UINT:
    case KEEL_TYPE_BIG_INT:
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    case KEEL_TYPE_FLOAT:
        return real_to_json((double)leaf->value.as_float, json);
    case KEEL_TYPE_DOUBLE:
        return real_to_json(leaf->value.as_double, json);
    case KEEL_TYPE_STRING:
    case KEEL_TYPE_BYTES:
        return text_to_json(leaf, json);
    default:
        return KEEL_ERROR_STORED_FORMAT;
    }
}

static fdb_error_t attach_member(struct document_frame *frame, const keel_element *step,
                                 json_t *value,
                                 bool *attached) {
    char *name = NULL;
    size_t length = 0;
    fdb_error_t error = copy_text(step, &name, &length);
    if (!error && !json_object_getn(frame->container, name, length)) {
        if (json_object_setn(frame->container, name, length, value))
            error = why_not(*step);
        else
            *attached = true;
    }
    free(name);
    return error;
}

static fdb_error_t attach_element(struct document_frame *frame, const keel_element *step,
                                  json_t *value,
                                  bool *attached) {
    int64_t index = 0;
    if (keel_element_int(step, &index) || index < EMPTY_OBJECT)
        return KEEL_ERROR_STORED_FORMAT;
    if (index < 0 || index == frame->last_index)
        return 0; /* a marker; or not the first value at its path */
    if (!json_is_array(frame->container))
        return KEEL_ERROR_STORED_FORMAT;
    if (json_array_append(frame->container, value))
        return NO_MEMORY;
    frame->last_index = index;
    *attached = true;
    return 0;
}

/* Puts the value at a step of the top container and takes over the reference. *attached is false if
   there is something already. */
static fdb_error_t attach(struct document_build *build, const keel_element *step, json_t *value,
                          bool *attached) {
    struct document_frame *frame = &build->frames[build->top];
    bool member = step->type == KEEL_TYPE_STRING || step->type == KEEL_TYPE_BYTES;
    fdb_error_t error = 0;
    *attached = false;
    if (member && !json_is_object(frame->container))
        error = KEEL_ERROR_STORED_FORMAT;
    else
        error = member ? attach_member(frame, step, value, attached)
                       : attach_element(frame, step, value, attached);
    json_decref(value);
    return error;
}

/* A container for the step that follows, attached at `step` and made the top. */
static fdb_error_t descend(struct document_build *build, const keel_element *step,
                           const keel_element *next,
                           size_t end, bool *attached) {
    int64_t index = 0;
    bool object = next->type == KEEL_TYPE_STRING || next->type == KEEL_TYPE_BYTES;
    if (!object && keel_element_int(next, &index))
        return KEEL_ERROR_STORED_FORMAT;
    if (build->top > DEPTH_MAX)
        return KEEL_ERROR_DOCUMENT_DEPTH;
    json_t *container = object || index == EMPTY_OBJECT ? json_object() : json_array();
    if (!container)
        return NO_MEMORY;
    fdb_error_t error = attach(build, step, container, attached);
    if (!error && *attached)
        build->frames[++build->top] = (struct document_frame){container, end, -1};
    return error;
}

/* Leaves the containers through which the key does not go. A path ends in the key where the bytes
   agree and no ff follows, which would go on with a string. */
static void leave(struct document_build *build, keel_bytes key) {
    for (; build->top > 0; build->top--) {
        size_t end = build->frames[build->top].end;
        if (key.length > end && memcmp(key.data, build->last.data, end) == 0 &&
            key.data[end] != 0xff)
            break;
    }
    memcpy(build->last.data, key.data, key.length);
    build->last.length = key.length;
}

/* The next step of a row or, at its end, its leaf. */
static fdb_error_t next_part(const struct document_build *build, keel_tuple_iterator *it,
                             keel_bytes value,
                             keel_element *part, bool *is_leaf) {
    bool in_value = !build->leaf_in_key && keel_tuple_at_end(it);
    if (in_value) {
        keel_tuple_iterator leaf = keel_tuple_iterate(value);
        *is_leaf = true;
        return keel_tuple_next(&leaf, part) ? KEEL_ERROR_STORED_FORMAT : 0;
    }
    if (keel_tuple_next(it, part))
        return KEEL_ERROR_STORED_FORMAT;
    *is_leaf = build->leaf_in_key && keel_tuple_at_end(it);
    return 0;
}

fdb_error_t document_build_row(struct document_build *build, keel_bytes key, keel_bytes value) {
    keel_element step = keel_element_of_int(0), part;
    bool is_leaf = false, attached = true;
    leave(build, key);
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, build->frames[build->top].end);
    fdb_error_t error = 0;
    if (build->top > 0) {
        error = next_part(build, &it, value, &step, &is_leaf);
        if (error || is_leaf)
            return error; /* a leaf where a container is already */
    }
    while (!error && attached) {
        size_t end = it.position;
        error = next_part(build, &it, value, &part, &is_leaf);
        if (error)
            return error;
        if (is_leaf) {
            json_t *json = NULL;
            error = leaf_to_json(&part, &json);
            return error ? error : attach(build, &step, json, &attached);
        }
        error = descend(build, &step, &part, end, &attached);
        step = part;
    }
    return error;
}

/* ---- JSON to text ---- */

struct text {
    char *data;
    size_t length, capacity;
};

static int text_append(const char *bytes, size_t length, void *context) {
    struct text *text = context;
    if (text->capacity - text->length <= length) { /* one for the NUL */
        size_t capacity = text->capacity * 2 + length + 64;
        char *data = realloc(text->data, capacity);
        if (!data)
            return -1;
        text->data = data;
        text->capacity = capacity;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
    return 0;
}

/* The digits with which this double reads back exactly. */
static size_t digits_of(double value) {
    char text[40];
    for (int digits = 15; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return (size_t)digits;
    }
    return 17;
}

/* The digits with which all doubles of the value read back exactly. */
static size_t digits_of_all(json_t *json) {
    size_t digits = 15, each, i;
    const char *name;
    json_t *child;
    if (json_is_real(json))
        return digits_of(json_real_value(json));
    json_object_foreach(json, name, child) {
        each = digits_of_all(child);
        digits = each > digits ? each : digits;
    }
    json_array_foreach(json, i, child) {
        each = digits_of_all(child);
        digits = each > digits ? each : digits;
    }
    return digits;
}

fdb_error_t document_print(json_t *json, char **result, size_t *length) {
    struct text text = {0};
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits_of_all(json));
    if (json_dump_callback(json, text_append, &text, flags)) {
        free(text.data);
        return NO_MEMORY;
    }
    *result = text.data;
    if (length)
        *length = text.length;
    return 0;
}

