/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes on one database, and the owner of the files killed again and again.
 *
 *     bank [KILLS [PAUSE_MS]]
 *
 * Eight processes move money between accounts. Each transfer writes a marker, which tells what was
 * moved, in the same transaction, and reads it first: a retry after an unknown result finds it there
 * and moves nothing. What was acknowledged is written to a file of the process. Now and then the
 * process that serves the database (whoever listens on its socket) is killed with SIGKILL, and
 * another one is started in its place. Each process also looks at all accounts now and then, in one
 * transaction, and ends where their sum is not what it was. At the end:
 *
 *     the sum of all accounts is what it was
 *     the accounts are exactly what the markers add up to: no transfer is half there, or there twice
 *     every acknowledged transfer has its marker
 *
 * And after the last kill every process commits again. The longest time one was without a commit is printed.
 */
#define _GNU_SOURCE
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 8, ACCOUNTS = 40, BALANCE = 1000, HANG_SECONDS = 300, LOOK_EVERY = 20 };

static char scratch[512], database_path[600];
static FDBDatabase *database;
static int passed, failed;

static void expect(bool good, const char *what) {
    printf("%s %s\n", good ? "ok   " : "FAIL ", what);
    *(good ? &passed : &failed) += 1;
}

static void die(const char *what, fdb_error_t error) {
    fprintf(stderr, "bank: %s: %d %s\n", what, error, fdb_get_error(error));
    _exit(1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static fdb_error_t finish(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

static FDBTransaction *open_database(void) {
    FDBTransaction *tr;
    fdb_error_t error = fdb_select_api_version(FDB_API_VERSION);
    if (!error)
        error = fdb_setup_network();
    if (!error)
        error = fdb_create_database(database_path, &database);
    if (!error)
        error = fdb_database_create_transaction(database, &tr);
    if (error)
        die("open", error);
    return tr;
}

/* ---- One transfer ---- */

struct transfer {
    int from, to, amount;
};

static int account_key(char *key, int account) {
    return sprintf(key, "account/%03d", account);
}

static fdb_error_t read_number(FDBTransaction *tr, const char *key, int length, int *number, bool *present) {
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)key, length, 0);
    fdb_bool_t there = 0;
    const uint8_t *value;
    int size;
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_value(future, &there, &value, &size);
    if (!error && there)
        memcpy(number, value, sizeof *number);
    *present = there != 0;
    fdb_future_destroy(future);
    return error;
}

static void write_bytes(FDBTransaction *tr, const char *key, int length, const void *value, int size) {
    fdb_transaction_set(tr, (const uint8_t *)key, length, value, size);
}

static fdb_error_t try_transfer(FDBTransaction *tr, const char *marker, int marker_length, struct transfer transfer) {
    char from_key[32], to_key[32];
    int from = 0, to = 0, ignored = 0;
    bool present;
    fdb_error_t error = read_number(tr, marker, marker_length, &ignored, &present);
    if (error || present)
        return error; /* an earlier attempt took effect after all */
    int from_length = account_key(from_key, transfer.from), to_length = account_key(to_key, transfer.to);
    if ((error = read_number(tr, from_key, from_length, &from, &present)) != 0 ||
        (error = read_number(tr, to_key, to_length, &to, &present)) != 0)
        return error;
    from -= transfer.amount;
    to += transfer.amount;
    write_bytes(tr, from_key, from_length, &from, sizeof from);
    write_bytes(tr, to_key, to_length, &to, sizeof to);
    write_bytes(tr, marker, marker_length, &transfer, sizeof transfer);
    return finish(fdb_transaction_commit(tr));
}

/* ---- A process that moves money ---- */

struct record {
    int number;
    int gap_us; /* since the one before */
};

/* Reads every account as of one version and adds them up. */
static fdb_error_t try_look(FDBTransaction *tr, int *sum) {
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"account/", 8),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"account0", 8), 0, 0,
                                                  FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more = 0;
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    *sum = 0;
    for (int i = 0; i < count && !error; i++) {
        int balance;
        memcpy(&balance, rows[i].value, sizeof balance);
        *sum += balance;
    }
    fdb_future_destroy(future);
    return error;
}

static void look(FDBTransaction *tr) {
    int sum;
    for (fdb_error_t error; (error = try_look(tr, &sum)) != 0;)
        if (finish(fdb_transaction_on_error(tr, error)))
            die("look", error);
    fdb_transaction_reset(tr);
    if (sum != ACCOUNTS * BALANCE) {
        fprintf(stderr, "bank: the accounts add up to %d\n", sum);
        _exit(1);
    }
}

static void work(int worker, int life) {
    char path[700], marker[64];
    snprintf(path, sizeof path, "%s/acknowledged.%d.%d", scratch, worker, life);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    unsigned seed = (unsigned)(worker * 1000 + life);
    FDBTransaction *tr = open_database();
    double last = seconds();
    for (int number = 0;; number++) {
        struct transfer transfer = {rand_r(&seed) % ACCOUNTS, 0, 1 + rand_r(&seed) % 5};
        transfer.to = (transfer.from + 1 + rand_r(&seed) % (ACCOUNTS - 1)) % ACCOUNTS;
        int length = sprintf(marker, "marker/%d/%d/%08d", worker, life, number);
        fdb_error_t error = try_transfer(tr, marker, length, transfer);
        while (error) {
            if (finish(fdb_transaction_on_error(tr, error)))
                die("transfer", error);
            error = try_transfer(tr, marker, length, transfer);
        }
        fdb_transaction_reset(tr);
        double now = seconds();
        struct record record = {number, (int)((now - last) * 1e6)};
        last = now;
        if (write(file, &record, sizeof record) != sizeof record)
            die("write", 0);
        if (number % LOOK_EVERY == 0)
            look(tr);
    }
}

static pid_t start_worker(int worker, int life) {
    pid_t child = fork();
    if (child == 0) {
        work(worker, life);
        _exit(1);
    }
    return child;
}

/* ---- Who is the owner? ---- */

static pid_t find_owner(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/keel.sock", database_path) >= (int)sizeof address.sun_path)
        return 0;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = connect(probe, (struct sockaddr *)&address, sizeof address) == 0 &&
                 getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    close(probe);
    return found ? peer.pid : 0;
}

static void pause_ms(int milliseconds) {
    usleep((useconds_t)milliseconds * 1000);
}

/* Kills the owner and starts another process in its place. False: it could not be found. */
static bool kill_owner(pid_t workers[WORKERS], int lives[WORKERS]) {
    for (double began = seconds(); seconds() - began < HANG_SECONDS; pause_ms(10)) {
        pid_t owner = find_owner();
        for (int worker = 0; worker < WORKERS; worker++) {
            if (owner && workers[worker] == owner) {
                kill(owner, SIGKILL);
                waitpid(owner, NULL, 0);
                workers[worker] = start_worker(worker, ++lives[worker]);
                return true;
            }
        }
    }
    return false;
}

static off_t acknowledged_bytes(int worker, int life) {
    char path[700];
    struct stat status;
    snprintf(path, sizeof path, "%s/acknowledged.%d.%d", scratch, worker, life);
    return stat(path, &status) == 0 ? status.st_size : 0;
}

/* Until every process has committed once more. */
static bool everybody_goes_on(const int lives[WORKERS]) {
    double began = seconds();
    off_t before[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        before[i] = acknowledged_bytes(i, lives[i]);
    for (int i = 0; i < WORKERS; i++) {
        while (acknowledged_bytes(i, lives[i]) == before[i]) {
            if (seconds() - began > HANG_SECONDS)
                return false;
            pause_ms(10);
        }
    }
    return true;
}

/* ---- The reckoning ---- */

static int balances[ACCOUNTS], expected[ACCOUNTS];
static int marker_count;

static void take_row(const FDBKeyValue *row) {
    int account;
    if (sscanf((const char *)row->key, "account/%3d", &account) == 1) {
        memcpy(&balances[account], row->value, sizeof(int));
        return;
    }
    struct transfer transfer;
    memcpy(&transfer, row->value, sizeof transfer);
    expected[transfer.from] -= transfer.amount;
    expected[transfer.to] += transfer.amount;
    marker_count++;
}

static fdb_error_t read_everything(FDBTransaction *tr) {
    uint8_t begin[64] = "";
    int begin_length = 0;
    fdb_bool_t more = 1;
    fdb_error_t error = 0;
    while (more && !error) {
        FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_THAN(begin, begin_length),
                                                      FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"\xff", 1), 0, 0,
                                                      FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
        const FDBKeyValue *rows;
        int count = 0;
        error = fdb_future_block_until_ready(future);
        if (!error)
            error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
        for (int i = 0; i < count && !error; i++)
            take_row(&rows[i]);
        if (count && !error) {
            begin_length = rows[count - 1].key_length;
            memcpy(begin, rows[count - 1].key, (size_t)begin_length);
        }
        fdb_future_destroy(future);
    }
    return error;
}

static bool has_marker(FDBTransaction *tr, int worker, int life, int number) {
    char marker[64];
    int length = sprintf(marker, "marker/%d/%d/%08d", worker, life, number), ignored;
    bool present = false;
    for (;;) {
        fdb_error_t error = read_number(tr, marker, length, &ignored, &present);
        if (!error)
            return present;
        if (finish(fdb_transaction_on_error(tr, error)))
            die("marker", error);
    }
}

/* What one process was told: every transfer of it must be there. */
static void check_file(FDBTransaction *tr, const char *name, int *acknowledged, int *lost, double *longest) {
    char path[900];
    int worker, life;
    struct record record;
    if (sscanf(name, "acknowledged.%d.%d", &worker, &life) != 2)
        return;
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "r");
    while (file && fread(&record, sizeof record, 1, file) == 1) {
        ++*acknowledged;
        *lost += !has_marker(tr, worker, life, record.number);
        if (record.number > 0 && record.gap_us / 1e6 > *longest)
            *longest = record.gap_us / 1e6;
    }
    if (file)
        fclose(file);
}

static void reckon(int kills) {
    FDBTransaction *tr = open_database();
    fdb_error_t error;
    do {
        memset(balances, 0, sizeof balances);
        marker_count = 0;
        for (int i = 0; i < ACCOUNTS; i++)
            expected[i] = BALANCE;
        error = read_everything(tr);
    } while (error && !finish(fdb_transaction_on_error(tr, error)));
    if (error)
        die("read", error);
    int sum = 0;
    bool same = true;
    for (int i = 0; i < ACCOUNTS; i++) {
        sum += balances[i];
        same &= balances[i] == expected[i];
    }
    int acknowledged = 0, lost = 0;
    double longest = 0;
    DIR *directory = opendir(scratch);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        check_file(tr, entry->d_name, &acknowledged, &lost, &longest);
    closedir(directory);
    printf("%d transfers, %d acknowledged, %d owners killed; longest time without a commit: %.3f s\n", marker_count,
           acknowledged, kills, longest);
    expect(sum == ACCOUNTS * BALANCE, "the sum is constant");
    expect(same, "the accounts are what the markers add up to");
    expect(lost == 0, "every acknowledged transfer is there");
    expect(acknowledged > 0 && acknowledged <= marker_count, "there were transfers");
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void open_accounts(void) {
    FDBTransaction *tr = open_database();
    fdb_error_t error;
    do {
        for (int i = 0; i < ACCOUNTS; i++) {
            char key[32];
            int length = account_key(key, i), balance = BALANCE;
            write_bytes(tr, key, length, &balance, sizeof balance);
        }
        error = finish(fdb_transaction_commit(tr));
    } while (error && !finish(fdb_transaction_on_error(tr, error)));
    if (error)
        die("accounts", error);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

/* In a process of its own, so that this one stays without a database until the end. */
static void run_apart(void (*function)(void)) {
    pid_t child = fork();
    if (child == 0) {
        function();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0)
        exit(1);
}

int main(int count, char **arguments) {
    int kills = count > 1 ? atoi(arguments[1]) : 6, pause = count > 2 ? atoi(arguments[2]) : 400, killed = 0;
    pid_t workers[WORKERS];
    int lives[WORKERS] = {0};
    const char *parent = getenv("TMPDIR");
    setbuf(stdout, NULL);
    snprintf(scratch, sizeof scratch, "%.400s/bank-XXXXXX", parent && *parent && strlen(parent) < 60 ? parent : "/tmp");
    if (!mkdtemp(scratch))
        return 1;
    snprintf(database_path, sizeof database_path, "%s/db", scratch);
    run_apart(open_accounts);
    for (int i = 0; i < WORKERS; i++)
        workers[i] = start_worker(i, 0);
    for (int i = 0; i < kills; i++) {
        pause_ms(pause);
        killed += kill_owner(workers, lives);
    }
    expect(everybody_goes_on(lives), "after the last kill everybody goes on");
    for (int i = 0; i < WORKERS; i++)
        kill(workers[i], SIGKILL);
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;
        waitpid(workers[i], &status, 0);
        expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a process worked to the end, and saw the same sum at every look");
    }
    expect(killed == kills, "every owner was found");
    reckon(killed);
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        fprintf(stderr, "bank: %s is left behind\n", scratch);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
