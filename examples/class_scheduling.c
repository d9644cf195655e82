/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class scheduling of FoundationDB's tutorial, in C: students sign up for classes, drop them and switch between them, many at once, and no class
 * is ever overbooked. docs/tutorial.md builds it step by step.
 *
 *     class_scheduling [DATABASE [STUDENTS [OPERATIONS]]]
 *
 * The data, inside the directory /scheduling:
 *
 *     ("class", name)             = (seats left)
 *     ("attends", student, name)  = nothing: the key says it all
 */
#include <keel/keel.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEATS = 100, CLASSES_MAX = 5, KEY_BYTES = 256 };

/* What a transaction may end with of its own. Codes of 100000 and up are free for programs: keel_run returns them as they are. */
enum { NO_SEATS_LEFT = 100001, TOO_MANY_CLASSES, NO_SUCH_CLASS };

static keel_subspace course, attends; /* ("class", …) and ("attends", …) in the directory */

static const char *explain(fdb_error_t error) {
    switch (error) {
    case NO_SEATS_LEFT: return "no seats left";
    case TOO_MANY_CLASSES: return "five classes already";
    case NO_SUCH_CLASS: return "there is no such class";
    default: return keel_error_text(error);
    }
}

static void must(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "class_scheduling: %s: %s (%d)\n", what, explain(error), error);
        exit(1);
    }
}

/* ---- Keys and values ---- */

struct packed_key {
    uint8_t data[KEY_BYTES];
    size_t length;
};

static fdb_error_t pack(const keel_subspace *subspace, keel_tuple tuple, struct packed_key *key) {
    return keel_subspace_pack(subspace, tuple, key->data, sizeof key->data, &key->length);
}

static FDBFuture *get(FDBTransaction *tr, const struct packed_key *key) {
    return fdb_transaction_get(tr, key->data, (int)key->length, 0);
}

/* Waits for a value that is a tuple of one integer. *present is false where there is none. */
static fdb_error_t finish_get(FDBFuture *future, bool *present, int64_t *number) {
    fdb_bool_t there = 0;
    const uint8_t *value;
    int length;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &there, &value, &length);
    if (!error && there && number) {
        keel_tuple_iterator it = keel_tuple_iterate(KEEL_BYTES(value, (size_t)length));
        error = keel_tuple_next_int(&it, number);
    }
    if (!error)
        *present = there != 0;
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t set_seats(FDBTransaction *tr, const struct packed_key *key, int64_t seats) {
    uint8_t value[16];
    size_t length;
    fdb_error_t error = keel_tuple_pack(KEEL_TUPLE(seats), value, sizeof value, &length);
    if (!error)
        fdb_transaction_set(tr, key->data, (int)key->length, value, (int)length);
    return error;
}

/* Calls `visit` for every row below `subspace` + `tuple`, in order. */
typedef void (*row_visitor)(void *context, keel_tuple_iterator key, keel_bytes value);
static fdb_error_t each_row(FDBTransaction *tr, const keel_subspace *subspace, keel_tuple tuple, row_visitor visit, void *context) {
    keel_range range;
    fdb_error_t error = keel_subspace_range(subspace, tuple, &range);
    fdb_bool_t more = !error;
    while (more) {
        FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
                                                      FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0,
                                                      FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
        const FDBKeyValue *rows;
        int count = 0;
        error = keel_wait(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
        for (int i = 0; !error && i < count; i++) {
            keel_tuple_iterator it;
            error = keel_subspace_unpack(subspace, KEEL_BYTES(rows[i].key, (size_t)rows[i].key_length), &it);
            if (!error)
                visit(context, it, KEEL_BYTES(rows[i].value, (size_t)rows[i].value_length));
        }
        if (!error && more) { /* go on behind the last row: its key and a zero byte */
            range.begin_length = (size_t)rows[count - 1].key_length + 1;
            memcpy(range.begin, rows[count - 1].key, range.begin_length - 1);
            range.begin[range.begin_length - 1] = 0;
        }
        fdb_future_destroy(future);
        if (error)
            break;
    }
    return error;
}

static void count_row(void *count, keel_tuple_iterator key, keel_bytes value) {
    (void)key, (void)value;
    ++*(int *)count;
}

/* ---- The transactions ----
 *
 * Each is a function of a transaction, so that they can be put together: see switch_class. None commits; keel_run does.
 */

struct request {
    const char *student, *class_name, *new_class;
};

static fdb_error_t add_class(FDBTransaction *tr, const char *name) {
    struct packed_key key;
    fdb_error_t error = pack(&course, KEEL_TUPLE(name), &key);
    return error ? error : set_seats(tr, &key, SEATS);
}

static fdb_error_t signup(FDBTransaction *tr, void *context) {
    const struct request *request = context;
    struct packed_key record, seats;
    fdb_error_t error = pack(&attends, KEEL_TUPLE(request->student, request->class_name), &record);
    if (!error)
        error = pack(&course, KEEL_TUPLE(request->class_name), &seats);
    if (error)
        return error;
    FDBFuture *record_future = get(tr, &record), *seats_future = get(tr, &seats); /* both reads begin before either is waited for */
    bool signed_up = false, exists = false;
    int64_t seats_left = 0;
    int classes = 0;
    error = finish_get(record_future, &signed_up, NULL);
    fdb_error_t seats_error = finish_get(seats_future, &exists, &seats_left);
    if (error || seats_error || signed_up)
        return error ? error : seats_error;
    if (!exists)
        return NO_SUCH_CLASS;
    if (seats_left == 0)
        return NO_SEATS_LEFT;
    error = each_row(tr, &attends, KEEL_TUPLE(request->student), count_row, &classes);
    if (!error && classes >= CLASSES_MAX)
        error = TOO_MANY_CLASSES;
    if (!error)
        error = set_seats(tr, &seats, seats_left - 1);
    if (!error)
        fdb_transaction_set(tr, record.data, (int)record.length, NULL, 0);
    return error;
}

static fdb_error_t drop(FDBTransaction *tr, void *context) {
    const struct request *request = context;
    struct packed_key record, seats;
    fdb_error_t error = pack(&attends, KEEL_TUPLE(request->student, request->class_name), &record);
    if (!error)
        error = pack(&course, KEEL_TUPLE(request->class_name), &seats);
    if (error)
        return error;
    FDBFuture *record_future = get(tr, &record), *seats_future = get(tr, &seats);
    bool signed_up = false, exists = false;
    int64_t seats_left = 0;
    error = finish_get(record_future, &signed_up, NULL);
    fdb_error_t seats_error = finish_get(seats_future, &exists, &seats_left);
    if (error || seats_error || !signed_up)
        return error ? error : seats_error;
    error = set_seats(tr, &seats, seats_left + 1);
    if (!error)
        fdb_transaction_clear(tr, record.data, (int)record.length);
    return error;
}

/* Both or neither: if there is no seat in the new class, the old one is kept. */
static fdb_error_t switch_class(FDBTransaction *tr, void *context) {
    const struct request *request = context;
    struct request from = {request->student, request->class_name, NULL}, to = {request->student, request->new_class, NULL};
    fdb_error_t error = drop(tr, &from);
    return error ? error : signup(tr, &to);
}

/* ---- Classes ---- */

enum { LEVELS = 9, TYPES = 10, TIMES = 18, CLASSES = LEVELS * TYPES * TIMES };
static char class_names[CLASSES][40];

/* 1,620 names like "9:00 chem for dummies". */
static void make_class_names(void) {
    static const char *const levels[LEVELS] = {"intro", "for dummies", "remedial", "101", "201", "301", "mastery", "lab", "seminar"};
    static const char *const types[TYPES] = {"chem", "bio", "cs", "geometry", "calc", "alg", "film", "music", "art", "dance"};
    for (int i = 0; i < CLASSES; i++)
        snprintf(class_names[i], sizeof class_names[i], "%d:00 %s %s", 2 + i / (TYPES * LEVELS), types[i / LEVELS % TYPES], levels[i % LEVELS]);
}

static fdb_error_t initialize(FDBTransaction *tr, void *context) {
    (void)context;
    keel_directory *directory;
    keel_subspace scheduling;
    keel_range everything;
    fdb_error_t error = keel_directory_create_or_open(tr, NULL, KEEL_PATH("scheduling"), KEEL_NO_LAYER, &directory);
    if (error)
        return error;
    error = keel_directory_subspace(directory, &scheduling);
    keel_directory_close(directory);
    if (!error)
        error = keel_subspace_nested(&scheduling, KEEL_TUPLE("class"), &course);
    if (!error)
        error = keel_subspace_nested(&scheduling, KEEL_TUPLE("attends"), &attends);
    if (!error)
        error = keel_subspace_range(&scheduling, KEEL_TUPLE(), &everything);
    if (!error)
        fdb_transaction_clear_range(tr, everything.begin, (int)everything.begin_length, everything.end, (int)everything.end_length);
    for (int i = 0; !error && i < CLASSES; i++)
        error = add_class(tr, class_names[i]);
    return error;
}

static void count_available(void *count, keel_tuple_iterator key, keel_bytes value) {
    (void)key;
    int64_t seats = 0;
    keel_tuple_iterator it = keel_tuple_iterate(value);
    if (!keel_tuple_next_int(&it, &seats) && seats > 0)
        ++*(int *)count;
}

static fdb_error_t available_classes(FDBTransaction *tr, void *count) {
    *(int *)count = 0;
    return each_row(tr, &course, KEEL_TUPLE(), count_available, count);
}

/* ---- One student, then many ---- */

static void tell(FDBDatabase *db, const char *text, keel_function function, const char *student, const char *class_name, const char *new_class) {
    struct request request = {student, class_name, new_class};
    fdb_error_t error = keel_run(db, function, &request);
    if (error && error < 100000)
        must(error, text);
    printf("  %-52s %s\n", text, error ? explain(error) : "done");
}

static void one_student(FDBDatabase *db) {
    const char *taken[] = {"9:00 chem intro", "10:00 bio 101", "11:00 cs lab", "13:00 film seminar", "14:00 music 201"};
    printf("\nAda makes up her mind:\n");
    for (int i = 0; i < CLASSES_MAX; i++)
        tell(db, taken[i], signup, "ada", taken[i], NULL);
    tell(db, "a sixth, 15:00 art 301", signup, "ada", "15:00 art 301", NULL);
    tell(db, "from 9:00 chem intro to 15:00 art 301, at once", switch_class, "ada", "9:00 chem intro", "15:00 art 301");
    tell(db, "from 10:00 bio 101 to a class that does not exist", switch_class, "ada", "10:00 bio 101", "25:00 nothing");
    tell(db, "drops 11:00 cs lab", drop, "ada", "11:00 cs lab", NULL);
}

struct student {
    FDBDatabase *db;
    pthread_t thread;
    int number, operations, done, refused, popular;
    unsigned random;
};

/* Adds, drops and switches as the mood takes it, among the first `popular` classes. */
static void *indecisive_student(void *context) {
    struct student *student = context;
    char name[16], mine[CLASSES_MAX][40];
    int count = 0;
    snprintf(name, sizeof name, "s%d", student->number);
    for (int i = 0; i < student->operations; i++) {
        const char *choice = class_names[rand_r(&student->random) % student->popular];
        int mood = count == 0 ? 0 : count == CLASSES_MAX ? 1 + rand_r(&student->random) % 2 : rand_r(&student->random) % 3;
        int which = count ? rand_r(&student->random) % count : 0;
        bool known = false;
        for (int j = 0; j < count; j++)
            known |= strcmp(mine[j], choice) == 0;
        if (known && mood != 1)
            continue;
        struct request request = {name, mood == 0 ? choice : mine[which], choice};
        fdb_error_t error = keel_run(student->db, mood == 0 ? signup : mood == 1 ? drop : switch_class, &request);
        if (error && error < 100000)
            must(error, name);
        student->done += !error;
        student->refused += error != 0;
        if (error)
            continue;
        if (mood == 1)
            memcpy(mine[which], mine[--count], sizeof mine[which]);
        else
            snprintf(mine[mood == 0 ? count++ : which], sizeof mine[0], "%s", choice);
    }
    return NULL;
}

static void many_students(FDBDatabase *db, int students, int operations) {
    enum { POPULAR = 5 };
    struct student *all = calloc((size_t)students, sizeof *all);
    if (!all)
        must(1501, "students");
    int done = 0, refused = 0;
    for (int i = 0; i < students; i++) {
        all[i] = (struct student){.db = db, .number = i, .operations = operations, .popular = POPULAR, .random = (unsigned)i + 1};
        if (pthread_create(&all[i].thread, NULL, indecisive_student, &all[i]) != 0) {
            fprintf(stderr, "class_scheduling: no thread for student %d\n", i);
            exit(1);
        }
    }
    for (int i = 0; i < students; i++) {
        pthread_join(all[i].thread, NULL);
        done += all[i].done;
        refused += all[i].refused;
    }
    free(all);
    printf("\n%d indecisive students at once, each changing its mind %d times among the %d most popular classes:\n", students, operations, POPULAR);
    printf("  %d sign-ups, drops and switches done, %d refused for want of seats\n", done, refused);
}

/* ---- The check: seats and attendance agree ---- */

struct tally {
    int classes, attendances, overfull_students, wrong_classes;
    int taken[CLASSES], seats[CLASSES];
    char student[16];
    int student_classes;
};

static int class_number(const char *name) {
    for (int i = 0; i < CLASSES; i++)
        if (strcmp(class_names[i], name) == 0)
            return i;
    return -1;
}

static void tally_attendance(void *context, keel_tuple_iterator key, keel_bytes value) {
    struct tally *tally = context;
    char student[16] = "", name[40] = "";
    size_t length;
    (void)value;
    if (keel_tuple_next_string(&key, student, sizeof student, &length) || keel_tuple_next_string(&key, name, sizeof name, &length))
        return;
    int number = class_number(name);
    if (number >= 0)
        tally->taken[number]++;
    tally->attendances++;
    tally->student_classes = strcmp(student, tally->student) == 0 ? tally->student_classes + 1 : 1;
    tally->overfull_students += tally->student_classes > CLASSES_MAX;
    snprintf(tally->student, sizeof tally->student, "%s", student);
}

static void tally_class(void *context, keel_tuple_iterator key, keel_bytes value) {
    struct tally *tally = context;
    char name[40];
    size_t length;
    int64_t seats;
    keel_tuple_iterator it = keel_tuple_iterate(value);
    if (keel_tuple_next_string(&key, name, sizeof name, &length) || keel_tuple_next_int(&it, &seats) || class_number(name) < 0)
        return;
    tally->seats[class_number(name)] = (int)seats;
    tally->classes++;
}

static fdb_error_t count_everything(FDBTransaction *tr, void *context) {
    struct tally *tally = context;
    memset(tally, 0, sizeof *tally);
    fdb_error_t error = each_row(tr, &attends, KEEL_TUPLE(), tally_attendance, tally);
    if (!error)
        error = each_row(tr, &course, KEEL_TUPLE(), tally_class, tally);
    for (int i = 0; i < CLASSES; i++)
        tally->wrong_classes += tally->seats[i] < 0 || tally->seats[i] + tally->taken[i] != SEATS;
    return error;
}

static int check(FDBDatabase *db) {
    static struct tally tally;
    must(keel_run_read(db, count_everything, &tally), "check");
    int fullest = 0, available = 0;
    for (int i = 1; i < CLASSES; i++)
        if (tally.taken[i] > tally.taken[fullest])
            fullest = i;
    must(keel_run_read(db, available_classes, &available), "available classes");
    printf("\nThe check, in one transaction:\n");
    printf("  %d classes, %d with seats left; the fullest is %s with %d of %d seats taken\n", tally.classes, available,
           class_names[fullest], tally.taken[fullest], SEATS);
    printf("  %d attendances; classes where seats and attendance disagree: %d; students with more than five: %d\n", tally.attendances,
           tally.wrong_classes, tally.overfull_students);
    return tally.classes != CLASSES || tally.wrong_classes != 0 || tally.overfull_students != 0;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : ":memory:";
    int students = argc > 2 ? atoi(argv[2]) : 10, operations = argc > 3 ? atoi(argv[3]) : 10, available;
    if (students < 1 || operations < 1) {
        fprintf(stderr, "usage: class_scheduling [DATABASE [STUDENTS [OPERATIONS]]]\n");
        return 2;
    }
    keel_db *keel;
    must(keel_open(path, &keel), path);
    FDBDatabase *db = keel_fdb(keel);
    int64_t timeout_ms = 60000, retries = 100;
    must(fdb_database_set_option(db, FDB_DB_OPTION_TRANSACTION_TIMEOUT, (const uint8_t *)&timeout_ms, 8), "timeout");
    must(fdb_database_set_option(db, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, (const uint8_t *)&retries, 8), "retry limit");
    make_class_names();
    must(keel_run(db, initialize, NULL), "initialize");
    must(keel_run_read(db, available_classes, &available), "available classes");
    printf("%s: %d classes with %d seats each in the directory /scheduling\n", path, available, SEATS);
    one_student(db);
    many_students(db, students, operations);
    int failed = check(db);
    printf("  %s\n", failed ? "SOMETHING IS WRONG" : "every seat is accounted for");
    keel_close(keel);
    return failed;
}
