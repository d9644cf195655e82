/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of letters: one writer, and four readers who share the work.
 *
 *     cc queue.c -lkeel -lfdb_c -lpthread && ./a.out [DATABASE]
 */
#include <keel/keel.h>
#include <keel/queue.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LETTERS = 20, READERS = 4 };

static keel_db *db;
static keel_subspace letters, requests;

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "queue: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

/* Several items in one transaction: all of them are there, or none. */
static fdb_error_t write_letters(FDBTransaction *tr, void *unused) {
    (void)unused;
    for (int i = 1; i <= LETTERS; i++) {
        char letter[32];
        snprintf(letter, sizeof letter, "letter %d", i);
        fdb_error_t error = keel_queue_enqueue(tr, &letters, keel_bytes_of_string(letter));
        if (error)
            return error;
    }
    return 0;
}

/* keel_queue_pop is the dequeue for many: who loses the race is served by who wins it. */
static void *read_letters(void *count) {
    for (;;) {
        uint8_t *letter;
        size_t length;
        check(keel_queue_pop(keel_fdb(db), &letters, &requests, &letter, &length), "pop");
        if (!letter)
            return NULL;
        ++*(int *)count;
        free(letter);
    }
}

static fdb_error_t first_letter(FDBTransaction *tr, void *unused) {
    (void)unused;
    uint8_t *letter;
    size_t length;
    fdb_error_t error = keel_queue_dequeue(tr, &letters, &letter, &length);
    if (!error && letter)
        printf("the first one out: %.*s\n", (int)length, (const char *)letter);
    if (!error)
        free(letter);
    return error;
}

int main(int argc, char **argv) {
    pthread_t readers[READERS];
    int counts[READERS] = {0}, total = 0;
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("letters"), &letters), "subspace");
    check(keel_subspace_tuple(KEEL_TUPLE("letter requests"), &requests), "subspace");

    check(keel_run(keel_fdb(db), write_letters, NULL), "write");
    printf("wrote %d letters\n", LETTERS);
    check(keel_run(keel_fdb(db), first_letter, NULL), "dequeue");
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_letters, &counts[i]);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
        total += counts[i];
    }
    printf("%d readers shared the other %d\n", READERS, total);
    keel_close(db);
    return total == LETTERS - 1 ? 0 : 1;
}
