/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transaction options by name: for the current transaction, or kept in a list for all that the session starts.
 *
 * The table has those of fdb_c that a person may want, in the order of names; those for servers and tests are left out. A number goes to the
 * library as 8 bytes, little-endian, a text as it is.
 */
#include "core.h"

#include <stdlib.h>

enum kind { KIND_FLAG, KIND_NUMBER, KIND_TEXT };

static const struct known_option {
    const char *name;
    FDBTransactionOption code;
    enum kind kind;
    const char *summary;
} KNOWN[] = {
    {"access_system_keys", FDB_TR_OPTION_ACCESS_SYSTEM_KEYS, KIND_FLAG, "read and write keys that begin with \\xff"},
    {"authorization_token", FDB_TR_OPTION_AUTHORIZATION_TOKEN, KIND_TEXT, "a JSON web token"},
    {"automatic_idempotency", FDB_TR_OPTION_AUTOMATIC_IDEMPOTENCY, KIND_FLAG, "give each commit a random identity"},
    {"bypass_unreadable", FDB_TR_OPTION_BYPASS_UNREADABLE, KIND_FLAG, "read versionstamped writes before their commit, unfilled"},
    {"causal_read_risky", FDB_TR_OPTION_CAUSAL_READ_RISKY, KIND_FLAG, "a read version may be slightly old after a fault"},
    {"causal_write_risky", FDB_TR_OPTION_CAUSAL_WRITE_RISKY, KIND_FLAG, "no safeguard against committing twice after a fault"},
    {"debug_transaction_identifier", FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, KIND_TEXT, "the transaction's name in logs"},
    {"idempotency_id", FDB_TR_OPTION_IDEMPOTENCY_ID, KIND_TEXT, "the identity of the commit, 16 to 255 bytes"},
    {"lock_aware", FDB_TR_OPTION_LOCK_AWARE, KIND_FLAG, "work on a locked database"},
    {"log_transaction", FDB_TR_OPTION_LOG_TRANSACTION, KIND_FLAG, "log the transaction (needs debug_transaction_identifier)"},
    {"max_retry_delay", FDB_TR_OPTION_MAX_RETRY_DELAY, KIND_NUMBER, "longest wait before a retry, in milliseconds"},
    {"next_write_no_write_conflict_range", FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, KIND_FLAG, "the next write conflicts with nobody"},
    {"priority_batch", FDB_TR_OPTION_PRIORITY_BATCH, KIND_FLAG, "lowest priority, for bulk work"},
    {"priority_system_immediate", FDB_TR_OPTION_PRIORITY_SYSTEM_IMMEDIATE, KIND_FLAG, "highest priority, for tools"},
    {"raw_access", FDB_TR_OPTION_RAW_ACCESS, KIND_FLAG, "the whole key space where there are tenants"},
    {"read_lock_aware", FDB_TR_OPTION_READ_LOCK_AWARE, KIND_FLAG, "read a locked database"},
    {"read_system_keys", FDB_TR_OPTION_READ_SYSTEM_KEYS, KIND_FLAG, "read keys that begin with \\xff"},
    {"read_your_writes_disable", FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE, KIND_FLAG, "reads do not see the transaction's own writes"},
    {"report_conflicting_keys", FDB_TR_OPTION_REPORT_CONFLICTING_KEYS, KIND_FLAG, "after a conflict, say on which keys (begin sets it)"},
    {"retry_limit", FDB_TR_OPTION_RETRY_LIMIT, KIND_NUMBER, "how often to retry; -1 for no limit"},
    {"size_limit", FDB_TR_OPTION_SIZE_LIMIT, KIND_NUMBER, "largest commit in bytes, 32 to 10000000"},
    {"snapshot_ryw_disable", FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE, KIND_FLAG, "snapshot reads do not see the transaction's own writes"},
    {"snapshot_ryw_enable", FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE, KIND_FLAG, "they do again"},
    {"special_key_space_enable_writes", FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES, KIND_FLAG, "write special keys"},
    {"special_key_space_relaxed", FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED, KIND_FLAG, "read special keys of several modules at once"},
    {"tag", FDB_TR_OPTION_TAG, KIND_TEXT, "a throttling tag, at most 16 bytes"},
    {"timeout", FDB_TR_OPTION_TIMEOUT, KIND_NUMBER, "give up after this many milliseconds; 0 for never"},
    {"use_grv_cache", FDB_TR_OPTION_USE_GRV_CACHE, KIND_FLAG, "a cached read version will do"},
};
enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };

/* What is set for transactions to come: the latest value of each. */
struct option_list {
    bool set[KNOWN_COUNT];
    struct buffer values[KNOWN_COUNT];
};

static int find(const char *name) {
    for (int i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(KNOWN[i].name, name) == 0)
            return i;
    }
    report("There is no transaction option %s: \"option\" alone lists them", name);
    return -1;
}

/* The bytes of an option's value. False: reported. */
static bool read_value(const struct known_option *known, const char *text, struct buffer *value) {
    const char *message;
    int64_t number;
    if (known->kind == KIND_FLAG && text && *text) {
        report("The option %s takes no value", known->name);
        return false;
    }
    if (known->kind == KIND_FLAG)
        return true;
    if (!text) {
        report("The option %s needs a value: %s", known->name, known->summary);
        return false;
    }
    if (known->kind == KIND_NUMBER)
        return options_number(known->name, text, INT64_MIN, INT64_MAX, &number) && buffer_append(value, &number, sizeof number);
    if (text_to_value(text, value, &message))
        return true;
    report("%s: %s", known->name, message);
    return false;
}

static fdb_error_t apply(FDBTransaction *transaction, int index, const struct buffer *value) {
    bool flag = KNOWN[index].kind == KIND_FLAG;
    return fdb_transaction_set_option(transaction, KNOWN[index].code, flag ? NULL : value->data, flag ? 0 : (int)value->length);
}

bool session_set_option(struct session *session, const char *name, const char *text) {
    struct buffer value = {0};
    int index = find(name);
    bool good = index >= 0 && read_value(&KNOWN[index], text, &value);
    if (good && session->current) {
        fdb_error_t error = apply(session->current, index, &value);
        if (error)
            report_error("option", name, error);
        good = !error;
    } else if (good) {
        if (!session->options)
            session->options = calloc(1, sizeof *session->options);
        good = session->options != NULL;
    }
    if (good && !session->current) {
        struct buffer old = session->options->values[index];
        session->options->set[index] = true;
        session->options->values[index] = value;
        value = old;
    }
    buffer_free(&value);
    return good;
}

bool session_unset_option(struct session *session, const char *name) {
    int index = name ? find(name) : 0;
    if (name && (index < 0 || !session->options || !session->options->set[index])) {
        if (index >= 0)
            report("The option %s is not set", name);
        return false;
    }
    if (!name) {
        session_free_options(session);
        return true;
    }
    session->options->set[index] = false;
    buffer_free(&session->options->values[index]);
    return true;
}

fdb_error_t session_apply_options(const struct session *session, FDBTransaction *transaction) {
    fdb_error_t error = 0;
    for (int i = 0; session->options && i < KNOWN_COUNT && !error; i++) {
        if (session->options->set[i])
            error = apply(transaction, i, &session->options->values[i]);
    }
    return error;
}

void session_free_options(struct session *session) {
    for (int i = 0; session->options && i < KNOWN_COUNT; i++)
        buffer_free(&session->options->values[i]);
    free(session->options);
    session->options = NULL;
}

void session_list_options(void (*visit)(void *context, const char *name, const char *kind, const char *summary, bool is_set), const struct session *session,
                          void *context) {
    static const char *const kinds[] = {"", "number", "text"};
    for (int i = 0; i < KNOWN_COUNT; i++)
        visit(context, KNOWN[i].name, kinds[KNOWN[i].kind], KNOWN[i].summary, session->options && session->options->set[i]);
}
