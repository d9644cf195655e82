/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said over the connection: databases, twins, messages, requests and their answers.
 *
 * Numbers of databases, twins and requests are this side's choice, so that nothing has to be asked
 * before it can be used: a transaction that reads one key is one frame there and one back. A number is
 * free again as soon as its end was said (or, for a request, answered), because messages are worked
 * off in order.
 *
 * A twin is brought up to date before each message about it (see remote_message_begin):
 *
 *     its epoch is over, nothing was done with it yet, or the transaction began anew: a new twin
 *     its epoch is over otherwise: TRANSACTION_TOO_OLD, until the transaction begins anew
 *     the transaction began anew: a reset
 *
 * All under the client's lock; see client.c for who reads.
 */
#include "remote/client_internal.h"

#include "os/clock.h"
#include "util/memory.h"

enum { COMPANY_MIN = 6 }; /* with so many requests outstanding there are others who are about to send */

/* ---- Numbers ---- */

static bool take_number(struct numbers *numbers, uint32_t limit, uint32_t *number) {
    if (numbers->free_count) {
        *number = numbers->free[--numbers->free_count];
        return true;
    }
    if (numbers->next >= limit)
        return false;
    if (numbers->next >= numbers->capacity) { /* room for its return */
        size_t capacity = numbers->capacity ? numbers->capacity * 2 : 64;
        uint32_t *grown = memory_resize(numbers->free, capacity * sizeof *grown);
        if (!grown)
            return false;
        numbers->free = grown;
        numbers->capacity = capacity;
    }
    *number = numbers->next++;
    return true;
}

static void return_number(struct numbers *numbers, uint32_t number) {
    numbers->free[numbers->free_count++] = number;
}

/* ---- Appending ---- */

/* Room for a message in the output; the thread learns that there is something to send. */
static uint8_t *append(struct remote_client *client, size_t size) {
    if (protocol_open_bytes(&client->output) + size > FRAME_BYTES_WANTED) {
        protocol_close_frame(&client->output);
        client_flush(client);
    }
    client->appends++;
    if (client->thread_sleeps) {
        client->thread_sleeps = false;
        client_kick(client);
    }
    return protocol_reserve(&client->output, size);
}

/* Waits while too much is unsent. */
static void wait_for_room(struct remote_client *client) {
    while (client->output.length - client->sent > OUTPUT_WAIT_BYTES && !client->failing) {
        client_kick(client);
        os_condition_wait_until(&client->room, &client->lock, os_clock_us() + RECEIVE_WAIT_US);
        client_flush(client);
    }
}

/* ---- Databases ---- */

static bool say_option(struct remote_client *client, uint32_t database, const struct database_option *option) {
    uint8_t *to = append(client, 14 + (size_t)option->length);
    if (!to)
        return false;
    to = protocol_u32(protocol_u32(protocol_u8(to, ASK_DATABASE_OPTION), database), (uint32_t)option->option);
    protocol_bytes(protocol_u8(to, option->given), bytes_make(option->value, (size_t)option->length));
    return true;
}

/* Options in the order in which they were set: the list has the newest first. */
static bool say_options(struct remote_database *database, const struct database_option *option) {
    return !option || (say_options(database, option->next) && say_option(database->client, database->number, option));
}

/* Makes the owner know the database. */
static bool announce(struct remote_database *database) {
    struct remote_client *client = database->client;
    if (database->epoch == client->epoch)
        return true;
    uint8_t *to = append(client, 13 + database->path_bytes + database->connection_bytes);
    if (!to)
        return false;
    to = protocol_u32(protocol_u8(to, ASK_DATABASE), database->number);
    to = protocol_bytes(to, bytes_make(database->text, database->path_bytes));
    protocol_bytes(to, bytes_make(database->text + database->path_bytes, database->connection_bytes));
    database->epoch = client->epoch;
    return say_options(database, database->options);
}

struct remote_database *remote_database_open(struct remote_client *client, const char *path, const char *connection_string) {
    size_t path_bytes = strlen(path), connection_bytes = strlen(connection_string);
    struct remote_database *database = memory_allocate_zeroed(sizeof *database + path_bytes + connection_bytes);
    if (!database)
        return NULL;
    database->client = client;
    database->path_bytes = path_bytes;
    database->connection_bytes = connection_bytes;
    memcpy(database->text, path, path_bytes);
    memcpy(database->text + path_bytes, connection_string, connection_bytes);
    os_mutex_lock(&client->lock);
    bool numbered = take_number(&client->database_numbers, PROTOCOL_DATABASES_MAX, &database->number);
    os_mutex_unlock(&client->lock);
    if (numbered)
        return database;
    memory_free(database);
    return NULL;
}

void remote_database_set_option(struct remote_database *database, int number, const uint8_t *value, int length) {
    struct remote_client *client = database->client;
    struct database_option *option = memory_allocate(sizeof *option + (size_t)length);
    if (!option)
        return;
    *option = (struct database_option){.option = number, .given = value != NULL, .length = length};
    if (length)
        memcpy(option->value, value, (size_t)length);
    os_mutex_lock(&client->lock);
    option->next = database->options;
    database->options = option;
    if (database->epoch == client->epoch)
        (void)say_option(client, database->number, option);
    os_mutex_unlock(&client->lock);
}

void remote_database_close(struct remote_database *database) {
    struct remote_client *client = database->client;
    os_mutex_lock(&client->lock);
    uint8_t *to = database->epoch == client->epoch ? append(client, 5) : NULL;
    if (to)
        protocol_u32(protocol_u8(to, ASK_DATABASE_CLOSE), database->number);
    return_number(&client->database_numbers, database->number);
    os_mutex_unlock(&client->lock);
    while (database->options) {
        struct database_option *option = database->options;
        database->options = option->next;
        memory_free(option);
    }
    memory_free(database);
}

/* ---- Twins ---- */

static bool say_begin(struct remote_twin *twin) {
    struct remote_client *client = twin->client;
    if (!announce(twin->database))
        return false;
    uint8_t *to = append(client, 9);
    if (!to)
        return false;
    protocol_u32(protocol_u32(protocol_u8(to, ASK_BEGIN), twin->number), twin->database->number);
    twin->epoch = client->epoch;
    return true;
}

static bool say_of_twin(struct remote_twin *twin, enum protocol_question type) {
    uint8_t *to = append(twin->client, 5);
    if (to)
        protocol_u32(protocol_u8(to, type), twin->number);
    return to != NULL;
}

fdb_error_t remote_twin_open(struct remote_database *database, struct remote_twin *twin) {
    struct remote_client *client = database->client;
    *twin = (struct remote_twin){.client = client, .database = database};
    os_mutex_lock(&client->lock);
    bool opened = take_number(&client->twin_numbers, PROTOCOL_TRANSACTIONS_MAX, &twin->number);
    if (opened && !client->failing)
        (void)say_begin(twin); /* or with its first message */
    os_mutex_unlock(&client->lock);
    return opened ? 0 : ERROR_LARGE_ALLOC_FAILED;
}

void remote_twin_close(struct remote_twin *twin) {
    struct remote_client *client = twin->client;
    os_mutex_lock(&client->lock);
    if (twin->epoch == client->epoch)
        (void)say_of_twin(twin, ASK_DESTROY);
    return_number(&client->twin_numbers, twin->number);
    os_mutex_unlock(&client->lock);
}

/* Brings the twin to `round`. REQUIRES: the lock. */
static fdb_error_t bring_up_to_date(struct remote_twin *twin, uint64_t round) {
    struct remote_client *client = twin->client;
    bool anew = twin->round != round;
    if (client->failing)
        return client->failing;
    if (twin->epoch != client->epoch) {
        if (twin->used && !anew)
            return ERROR_TRANSACTION_TOO_OLD;
        if (!say_begin(twin))
            return ERROR_LARGE_ALLOC_FAILED;
    } else if (!anew) {
        return 0;
    } else if (twin->used && !say_of_twin(twin, ASK_RESET)) {
        return ERROR_LARGE_ALLOC_FAILED;
    }
    twin->round = round;
    twin->used = twin->sent_more = false;
    return 0;
}

void remote_twin_reset(struct remote_twin *twin, uint64_t round) {
    os_mutex_lock(&twin->client->lock);
    if (twin->epoch == twin->client->epoch)
        (void)bring_up_to_date(twin, round);
    os_mutex_unlock(&twin->client->lock);
}

bool remote_twin_is_read_only(struct remote_twin *twin, uint64_t round) {
    os_mutex_lock(&twin->client->lock);
    bool read_only = twin->round != round || !twin->sent_more;
    os_mutex_unlock(&twin->client->lock);
    return read_only;
}

void remote_twin_read_failed(struct remote_twin *twin, uint64_t round) {
    os_mutex_lock(&twin->client->lock);
    if (twin->round == round)
        twin->sent_more = true;
    os_mutex_unlock(&twin->client->lock);
}

/* ---- Requests ---- */

static bool register_request(struct remote_client *client, struct remote_request *request) {
    if (!take_number(&client->request_numbers, PROTOCOL_REQUESTS_MAX, &request->number))
        return false;
    if (request->number >= client->request_capacity) {
        size_t capacity = client->request_capacity ? client->request_capacity * 2 : 64;
        struct remote_request **grown = memory_resize(client->requests, capacity * sizeof *grown);
        if (!grown) {
            return_number(&client->request_numbers, request->number);
            return false;
        }
        memset(grown + client->request_capacity, 0, (capacity - client->request_capacity) * sizeof *grown);
        client->requests = grown;
        client->request_capacity = capacity;
    }
    if (!client->outstanding++)
        client->heard_us = os_clock_coarse_us(); /* silence counts from the question */
    client->requests[request->number] = request;
    request->outstanding = true;
    request->waiting = request->hurried = false;
    return true;
}

void client_unwait(struct remote_client *client, struct remote_request *request) {
    if (!request->waiting)
        return;
    request->waiting = false;
    *(request->previous ? &request->previous->next : &client->first_waiting) = request->next;
    *(request->next ? &request->next->previous : &client->last_waiting) = request->previous;
}

void client_forget_request(struct remote_client *client, struct remote_request *request) {
    client_unwait(client, request);
    client->requests[request->number] = NULL;
    return_number(&client->request_numbers, request->number);
    request->outstanding = false;
    client->outstanding--;
    client->hurried_count -= request->hurried;
}

static bool writes(enum protocol_question type) {
    switch (type) {
    case ASK_OPTION:
    case ASK_GET_READ_VERSION:
    case ASK_GET:
    case ASK_GET_KEY:
    case ASK_GET_RANGE:
    case ASK_APPROXIMATE_SIZE:
    case ASK_ESTIMATED_SIZE:
    case ASK_SPLIT_POINTS:
    case ASK_ADDRESSES: return false;
    default: return true;
    }
}

uint8_t *remote_message_begin(struct remote_twin *twin, uint64_t round, enum protocol_question type,
                              struct remote_request *request, size_t size, fdb_error_t *error) {
    struct remote_client *client = twin->client;
    uint8_t *to = NULL;
    os_mutex_lock(&client->lock);
    wait_for_room(client);
    *error = bring_up_to_date(twin, round);
    if (!*error && request && !register_request(client, request))
        *error = ERROR_LARGE_ALLOC_FAILED;
    if (!*error && !(to = append(client, (request ? 9 : 5) + size))) {
        *error = ERROR_LARGE_ALLOC_FAILED;
        if (request)
            client_forget_request(client, request);
    }
    if (*error) {
        os_mutex_unlock(&client->lock);
        return NULL;
    }
    twin->used = true;
    twin->sent_more |= writes(type);
    to = protocol_u32(protocol_u8(to, type), twin->number);
    return request ? protocol_u32(to, request->number) : to;
}

void remote_message_end(struct remote_twin *twin) {
    os_mutex_unlock(&twin->client->lock);
}

void remote_request_cancel(struct remote_twin *twin, struct remote_request *request) {
    struct remote_client *client = twin->client;
    os_mutex_lock(&client->lock);
    uint8_t *to = request->outstanding ? append(client, 5) : NULL;
    if (to)
        protocol_u32(protocol_u8(to, ASK_CANCEL), request->number);
    os_mutex_unlock(&client->lock);
}

/* ---- Waiting for answers ---- */

static void wait_in_line(struct remote_client *client, struct remote_request *request) {
    if (request->waiting)
        return;
    request->waiting = true;
    request->next = NULL;
    request->previous = client->last_waiting;
    *(request->previous ? &request->previous->next : &client->first_waiting) = request;
    client->last_waiting = request;
}

/*
 * Threads that were answered together come back together. Each lets the others append before it sends, so that most find their message sent: to
 * send costs more than to look again. Who waits by callbacks, as for most watches, is no company. REQUIRES: the lock, which is given back meanwhile.
 */
static void let_others_append(struct remote_client *client) {
    bool unsent = client->output.length > client->sent;
    if (!unsent || client->outstanding - client->hurried_count < COMPANY_MIN || !client->reading || !client->up)
        return;
    os_mutex_unlock(&client->lock);
    os_thread_yield();
    os_mutex_lock(&client->lock);
}

bool remote_request_drive(struct remote_twin *twin, struct remote_request *request, int64_t deadline_us) {
    struct remote_client *client = twin->client;
    os_mutex_lock(&client->lock);
    let_others_append(client);
    if (!request->outstanding) { /* just being answered */
        os_mutex_unlock(&client->lock);
        return false;
    }
    client_flush(client);
    if (client->reading || !client->up) {
        client->reader_wanted |= client->thread_reads;
        wait_in_line(client, request);
        os_mutex_unlock(&client->lock);
        return false;
    }
    client_unwait(client, request);
    client->reading = true;
    os_mutex_unlock(&client->lock);
    client_receive(client, true, deadline_us);
    os_mutex_lock(&client->lock);
    client->reading = false;
    if (!request->outstanding || !request->is_wanted(request))
        client_pass_baton(client);
    if (client->thread_sleeps || !client->up)
        client_kick(client);
    os_mutex_unlock(&client->lock);
    return true;
}

void remote_request_hurry(struct remote_twin *twin, struct remote_request *request) {
    struct remote_client *client = twin->client;
    os_mutex_lock(&client->lock);
    if (request->outstanding) {
        client->hurried_count += !request->hurried;
        request->hurried = true;
        client_flush_soon(client);
        if (!client->thread_reads)
            client_kick(client);
    }
    os_mutex_unlock(&client->lock);
}

void remote_client_push(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    client_flush(client);
    os_mutex_unlock(&client->lock);
}

void remote_client_interrupt(struct remote_client *client) {
    os_mutex_lock(&client->lock);
    if (client->reading && !client->thread_reads && client->up) {
        uint8_t *to = append(client, 1);
        if (to)
            protocol_u8(to, ASK_PING);
        client_flush(client);
    }
    os_mutex_unlock(&client->lock);
}

/* ---- Answers ---- */

bool client_take_answer(struct remote_client *client, struct protocol_reader *reader) {
    enum protocol_answer type = (enum protocol_answer)protocol_get_u8(reader);
    if (type == ANSWER_PONG)
        return true;
    uint32_t number = protocol_get_u32(reader);
    fdb_error_t error = type == ANSWER_ERROR ? protocol_get_i32(reader) : 0;
    if (reader->bad || type < ANSWER_ERROR || (type == ANSWER_ERROR && !error))
        return false;
    os_mutex_lock(&client->lock);
    struct remote_request *request = number < client->request_capacity ? client->requests[number] : NULL;
    if (request)
        client_forget_request(client, request);
    os_mutex_unlock(&client->lock);
    return request && request->answered(request, type, error, reader);
}
