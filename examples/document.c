/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents: stores a JSON text, reads a part of it, changes one field and appends to an array, each
 * without touching the rest.
 *
 *     cc document.c -lkeel -lfdb_c && ./a.out [DATABASE]
 */
#include <keel/document.h>
#include <keel/run.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USER[] = "{\"user\": \"alice\","
                           " \"profile\": {\"email\": \"alice@example.com\", \"verified\": false},"
                           " \"tags\": [\"admin\"]}";

struct answers {
    keel_subspace users;
    int64_t id;
    char *profile, *whole;
};

static fdb_error_t store(FDBTransaction *tr, void *context) {
    struct answers *answers = context;
    return keel_document_insert(tr, &answers->users, USER, strlen(USER), &answers->id);
}

static fdb_error_t change(FDBTransaction *tr, void *context) {
    struct answers *answers = context;
    keel_element id = KEEL_ELEMENT(answers->id);
    fdb_error_t error = keel_document_set(tr, &answers->users, id,
                                          KEEL_TUPLE("profile", "verified"), "true", 4);
    if (!error)
        error = keel_document_set(tr, &answers->users, id, KEEL_TUPLE("tags", 1), "\"developer\"", 11);
    return error;
}

static fdb_error_t read(FDBTransaction *tr, void *context) {
    struct answers *answers = context;
    keel_element id = KEEL_ELEMENT(answers->id);
    free(answers->profile); /* of an earlier try */
    free(answers->whole);
    answers->profile = answers->whole = NULL;
    fdb_error_t error = keel_document_get(tr, &answers->users, id, KEEL_TUPLE("profile"),
                                          &answers->profile, NULL);
    if (!error)
        error = keel_document_get(tr, &answers->users, id, KEEL_TUPLE(), &answers->whole, NULL);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    struct answers answers = {.id = 0};
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "users"), &answers.users);
    if (!error)
        error = keel_run(keel_fdb(db), store, &answers);
    if (!error)
        error = keel_run(keel_fdb(db), change, &answers);
    if (!error)
        error = keel_run_read(keel_fdb(db), read, &answers);
    if (error) {
        fprintf(stderr, "document: %s (%d)\n", keel_error_text(error), error);
        return 1;
    }
    printf("document %lld\n  its profile: %s\n  all of it:   %s\n", (long long)answers.id,
           answers.profile, answers.whole);
    free(answers.profile);
    free(answers.whole);
    keel_close(db);
    return 0;
}
