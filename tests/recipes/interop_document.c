/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and hierarchies, written here and read by their documents' Python code
 * (tests/clients/python/recipe_document.py), and the other way round.
 *
 *     interop_document write DATABASE     writes the set
 *     interop_document check DATABASE     compares what is there with the set
 */
#include <keel/document.h>

#include "interop.h"

static const char *const DOCUMENTS[] = {
    "{\"doc_id\":0,\"profile\":{\"email\":\"alice@example.com\",\"verified\":true},"
    "\"tags\":[\"admin\",\"developer\"],\"user\":\"alice\"}",
    "{\"doc_id\":1,\"e\":{},\"f\":[],\"g\":[[],{},[{}]],\"n\":null,\"z\":{\"y\":{\"x\":[null]}}}",
    "{\"doc_id\":2,\"i\":[0,-1,-2,255,256,-9223372036854775808,9223372036854775807],"
    "\"r\":[0.5,-1.25,1.0000000000000001e300,2.2250738585072014e-308,0.10000000000000001]}",
    "{\"\":{\"\":1},\"doc_id\":3,\"\xc3\xa9\":\"\xe2\x82\xac \xf0\x9f\x98\x80\","
    "\"\xf0\x9f\x98\x80\":[\"\xc3\xa9\"]}",
    "{\"doc_id\":4,\"s\":\"a\\u0000b\\n\\\"\\\\\"}",
    "{\"doc_id\":5,\"l\":[0,1,2,3,4,5,6,7,8,9,10,11,[false],{\"a\":[true]}]}",
};
enum { DOCUMENTS_COUNT = sizeof DOCUMENTS / sizeof *DOCUMENTS };
static const char NAMED[] = "{\"doc_id\":\"by name\",\"x\":1}";
static const char *const HIERARCHIES[] = {
    "{\"user\":{\"jones\":{\"friendOf\":\"smith\",\"group\":[\"sales\",\"service\"]}}}",
    "{\"user\":{\"smith\":{\"friendOf\":\"jones\",\"group\":[\"dev\",\"research\"]}}}",
    "{\"none\":null,\"user\":{\"new\":{\"empty\":{},\"group\":[],\"n\":[1,2.5,true]}}}",
};
static const char TOGETHER[] =
    "{\"none\":null,\"user\":{\"jones\":{\"friendOf\":\"smith\",\"group\":[\"sales\",\"service\"]},"
    "\"new\":{\"empty\":{},\"group\":[],\"n\":[1,2.5,true]},"
    "\"smith\":{\"friendOf\":\"jones\",\"group\":[\"dev\",\"research\"]}}}";

static keel_subspace documents, hierarchy;

static void spaces(void) {
    must(keel_subspace_tuple(KEEL_TUPLE("D"), &documents), "subspace");
    must(keel_subspace_tuple(KEEL_TUPLE("hier"), &hierarchy), "subspace");
}

/* A document that comes about by steps. */
static fdb_error_t write_by_path(FDBTransaction *tr) {
    static const char text[] = "{\"a\":[1,2,3],\"b\":{\"c\":1}}";
    keel_element id = KEEL_ELEMENT(100);
    fdb_error_t error = keel_document_set(tr, &documents, id, KEEL_TUPLE(), text, strlen(text));
    if (!error)
        error = keel_document_delete(tr, &documents, id, KEEL_TUPLE("a", 1));
    if (!error)
        error = keel_document_delete(tr, &documents, id, KEEL_TUPLE("b", "c"));
    if (!error)
        error = keel_document_set(tr, &documents, id, KEEL_TUPLE("a", 2), "{\"e\":[]}", 8);
    if (!error)
        error = keel_document_set(tr, &documents, id, KEEL_TUPLE("d", "e", "f"), "\"g\"", 3);
    return error;
}

static fdb_error_t write(FDBTransaction *tr, void *context) {
    fdb_error_t error = 0;
    (void)context;
    spaces();
    for (int i = 0; !error && i < DOCUMENTS_COUNT; i++)
        error = keel_document_insert(tr, &documents, DOCUMENTS[i], strlen(DOCUMENTS[i]), NULL);
    if (!error)
        error = keel_document_insert(tr, &documents, NAMED, strlen(NAMED), NULL);
    for (size_t i = 0; !error && i < sizeof HIERARCHIES / sizeof *HIERARCHIES; i++)
        error = keel_hierarchy_insert(tr, &hierarchy, HIERARCHIES[i], strlen(HIERARCHIES[i]));
    return error ? error : write_by_path(tr);
}

static void compare(fdb_error_t error, char *found, const char *wanted, const char *name) {
    check(!error && strcmp(found, wanted) == 0, name);
    if (error)
        printf("%s\n", keel_error_text(error));
    else if (strcmp(found, wanted) != 0)
        printf("found %s\n", found);
    free(error ? NULL : found);
}

static fdb_error_t verify(FDBTransaction *tr, void *context) {
    char *found = NULL, name[64];
    (void)context;
    spaces();
    for (int i = 0; i < DOCUMENTS_COUNT; i++) {
        snprintf(name, sizeof name, "document: C reads document %d", i);
        fdb_error_t error =
            keel_document_get(tr, &documents, KEEL_ELEMENT(i), KEEL_TUPLE(), &found, NULL);
        compare(error, found, DOCUMENTS[i], name);
    }
    fdb_error_t error = keel_document_get(tr, &documents, KEEL_ELEMENT("by name"), KEEL_TUPLE(),
                                          &found, NULL);
    compare(error, found, NAMED, "document: C reads by name");
    error = keel_document_get(tr, &documents, KEEL_ELEMENT(0), KEEL_TUPLE("tags", 1), &found, NULL);
    compare(error, found, "\"developer\"", "document: C reads a part");
    error = keel_hierarchy_get(tr, &hierarchy, KEEL_TUPLE(), &found, NULL);
    compare(error, found, TOGETHER, "hierarchy: C reads all");
    error = keel_hierarchy_get(tr, &hierarchy, KEEL_TUPLE("user", "smith", "group"), &found, NULL);
    compare(error, found, "[\"dev\",\"research\"]", "hierarchy: C reads a part");
    return 0;
}

int main(int argc, char **argv) {
    return interop_main(argc, argv, write, verify);
}
