/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions on tenants, through the special keys under which tenants are managed. An embedded
 * database has none: there every one of these pushes the error that the library answers with, as
 * the bindings' testers do.
 */
#include "machine.h"

static const char TENANT_MAP[] = "\xff\xff/management/tenant/map/";

struct change {
    struct buffer key;
    bool create;
    bool checked; /* once whether it exists is known, a retry does not look again */
};

static fdb_error_t tenant_exists(FDBTransaction *transaction, const struct change *change,
                                 bool *exists) {
    fdb_bool_t present = 0;
    const uint8_t *data;
    int length;
    FDBFuture *future =
        fdb_transaction_get(transaction, change->key.data, (int)change->key.length, 0);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &present, &data, &length);
    fdb_future_destroy(future);
    if (!error)
        *exists = present;
    return error;
}

static fdb_error_t change_tenant(FDBTransaction *transaction, void *context) {
    struct change *change = context;
    fdb_error_t error = fdb_transaction_set_option(
        transaction, FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES, NULL, 0);
    if (!error && !change->checked) {
        bool exists = false;
        error = tenant_exists(transaction, change, &exists);
        if (!error && exists == change->create)
            error = change->create ? 2132 : 2131; /* tenant_already_exists, tenant_not_found */
        change->checked = !error;
    }
    if (error)
        return error;
    if (change->create)
        fdb_transaction_set(transaction, change->key.data, (int)change->key.length, NULL, 0);
    else
        fdb_transaction_clear(transaction, change->key.data, (int)change->key.length);
    return 0;
}

static void append_key(struct buffer *buffer, keel_bytes name) {
    buffer_append(buffer, TENANT_MAP, sizeof TENANT_MAP - 1);
    buffer_append(buffer, name.data, name.length);
}

static fdb_error_t run_change(struct machine *machine, bool create) {
    struct change change = {.create = create};
    append_key(&change.key, pop_bytes(machine));
    fdb_error_t error = keel_run(machine->tester->database, change_tenant, &change);
    if (!error)
        push_text(machine, "RESULT_NOT_PRESENT");
    buffer_free(&change.key);
    return error;
}

static fdb_error_t do_create(struct machine *machine) {
    return run_change(machine, true);
}

static fdb_error_t do_delete(struct machine *machine) {
    return run_change(machine, false);
}

static fdb_error_t do_set_active(struct machine *machine) {
    keel_bytes name = pop_bytes(machine);
    FDBTenant *tenant;
    fdb_error_t error =
        fdb_database_open_tenant(machine->tester->database, name.data, (int)name.length, &tenant);
    if (error)
        return error;
    if (machine->tenant)
        fdb_tenant_destroy(machine->tenant);
    machine->tenant = tenant;
    error = wait_int64(fdb_tenant_get_id(tenant), NULL);
    if (!error)
        push_text(machine, "SET_ACTIVE_TENANT");
    return error;
}

static fdb_error_t do_clear_active(struct machine *machine) {
    if (machine->tenant)
        fdb_tenant_destroy(machine->tenant);
    machine->tenant = NULL;
    return 0;
}

struct listing {
    struct buffer begin, end, packed;
    int limit;
};

static fdb_error_t list_tenants(FDBTransaction *transaction, void *context) {
    struct listing *listing = context;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more;
    fdb_error_t error = fdb_transaction_set_option(transaction, FDB_TR_OPTION_RAW_ACCESS, NULL, 0);
    if (error)
        return error;
    FDBFuture *future = fdb_transaction_get_range(
        transaction,
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(listing->begin.data, (int)listing->begin.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(listing->end.data, (int)listing->end.length),
        listing->limit, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    listing->packed.length = 0;
    for (int i = 0; !error && i < count; i++) {
        size_t skipped = sizeof TENANT_MAP - 1;
        keel_bytes name = KEEL_BYTES(rows[i].key + skipped, (size_t)rows[i].key_length - skipped);
        error = tuple_append(KEEL_TUPLE(name), false, &listing->packed);
    }
    fdb_future_destroy(future);
    return error;
}

/* An integer of any size, cut to 32 bits in two's complement. */
static int pop_cut_int(struct machine *machine) {
    const keel_element *element = &pop(machine)->element;
    uint8_t magnitude[KEEL_INTEGER_LENGTH_MAX];
    size_t length = 0;
    uint32_t bits = 0;
    must(keel_element_copy(element, magnitude, sizeof magnitude, &length), "a limit");
    for (size_t i = 0; i < length; i++)
        bits = bits << 8 | magnitude[i];
    return (int)(keel_element_sign(element) < 0 ? 0 - bits : bits);
}

static fdb_error_t do_list(struct machine *machine) {
    struct listing listing = {0};
    append_key(&listing.begin, pop_bytes(machine));
    append_key(&listing.end, pop_bytes(machine));
    listing.limit = pop_cut_int(machine);
    fdb_error_t error = keel_run(machine->tester->database, list_tenants, &listing);
    if (!error)
        push_bytes(machine, buffer_bytes(&listing.packed));
    buffer_free(&listing.begin);
    buffer_free(&listing.end);
    buffer_free(&listing.packed);
    return error;
}

static fdb_error_t do_get_id(struct machine *machine) {
    if (!machine->tenant) {
        push_text(machine, "NO_ACTIVE_TENANT");
        return 0;
    }
    fdb_error_t error = wait_int64(fdb_tenant_get_id(machine->tenant), NULL);
    if (!error)
        push_text(machine, "GOT_TENANT_ID");
    return error;
}

const struct operation tenant_operations[] = {
    {"TENANT_CREATE", do_create},
    {"TENANT_DELETE", do_delete},
    {"TENANT_SET_ACTIVE", do_set_active},
    {"TENANT_CLEAR_ACTIVE", do_clear_active},
    {"TENANT_LIST", do_list},
    {"TENANT_GET_ID", do_get_id},
    {NULL, NULL},
};
