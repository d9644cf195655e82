/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures of the official library. A program must be handed something our entry points can tell from
 * our own futures, also inside a callback; so an official future gets a shell:
 *
 *     program ──► shell ──► official future ──► its result, which stays where it is
 *                   ▲              │ ready
 *                   └── callback ◄─┘ with the program's own callback and parameter
 *
 * Every call is passed on as it is: when the future is ready, what its getters return and how long
 * that lives, what a cancel does, on which thread a callback runs is all the official library's.
 *
 *   1. A shell lives while references > 0: one is the program's, until destroy, and one each
 *      callback's, until it has returned. The official library calls a callback exactly once, also
 *      after a destroy, which cancels; the callback then still gets a living shell.
 *   2. After destroy the official future is asked for nothing, but by the callback that is still to
 *      come, for which the official library keeps it.
 *
 * A shell that was made before a fork is the parent's: it counts as ready, with OPENED_BEFORE_FORK, as
 * our own pending futures do, and nothing of it is touched or freed.
 *
 * Threads: any. Failure: where there is no memory for a shell the official future is given back and
 * our future that says so is handed out.
 */
#include "cluster/future.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "api/foreign.h"
#include "api/future.h"
#include "cluster/functions.h"
#include "os/fork.h"
#include "util/memory.h"

struct shell {
    struct foreign_future_head head;
    unsigned generation;
    _Atomic int references;
    union {
        FDBFuture *future;
        FDBResult *result;
    } official;
};

struct callback {
    struct shell *shell;
    FDBCallback function;
    void *parameter;
};

/* ---- Life ---- */

static struct shell *shell_of(FDBFuture *future) {
    return (struct shell *)(void *)future;
}

static FDBFuture *official(FDBFuture *future) {
    return shell_of(future)->official.future;
}

static bool is_forked(FDBFuture *future) {
    return shell_of(future)->generation != os_fork_generation;
}

static struct shell *make(const struct foreign_future_methods *methods) {
    struct shell *shell = memory_allocate(sizeof *shell);
    if (shell) {
        shell->head = (struct foreign_future_head){methods, 0};
        shell->generation = os_fork_generation;
        atomic_init(&shell->references, 1);
    }
    return shell;
}

static void release(struct shell *shell) {
    if (atomic_fetch_sub_explicit(&shell->references, 1, memory_order_acq_rel) == 1)
        memory_free(shell);
}

static void future_cancel(FDBFuture *future) {
    if (!is_forked(future))
        cluster_official.future_cancel(official(future));
}

static void future_destroy(FDBFuture *future) {
    if (is_forked(future))
        return;
    cluster_official.future_destroy(official(future));
    release(shell_of(future));
}

static void future_release_memory(FDBFuture *future) {
    if (!is_forked(future))
        cluster_official.future_release_memory(official(future));
}

static fdb_bool_t future_is_ready_(FDBFuture *future) {
    return is_forked(future) || cluster_official.future_is_ready(official(future));
}

static fdb_error_t future_block_until_ready(FDBFuture *future) {
    return is_forked(future) ? 0 : cluster_official.future_block_until_ready(official(future));
}

/* ---- Callbacks ---- */

static void call_back(FDBFuture *official_future, void *parameter) {
    (void)official_future;
    struct callback callback = *(struct callback *)parameter;
    memory_free(parameter);
    callback.function((FDBFuture *)(void *)callback.shell, callback.parameter);
    release(callback.shell);
}

static fdb_error_t future_set_callback(FDBFuture *future, FDBCallback function, void *parameter) {
    if (!function)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (is_forked(future)) {
        function(future, parameter);
        return 0;
    }
    struct callback *callback = memory_allocate(sizeof *callback);
    if (!callback)
        return ERROR_LARGE_ALLOC_FAILED;
    struct shell *shell = shell_of(future);
    *callback = (struct callback){shell, function, parameter};
    atomic_fetch_add_explicit(&shell->references, 1, memory_order_relaxed);
    fdb_error_t error = cluster_official.future_set_callback(shell->official.future, call_back, callback);
    if (error) {
        memory_free(callback);
        release(shell);
    }
    return error;
}

/* ---- Results ---- */

/* What stands in the way of a getter: a fork, or that the official library has no such function. */
static fdb_error_t obstacle(FDBFuture *future, bool is_there) {
    if (is_forked(future))
        return ERROR_OPENED_BEFORE_FORK;
    return is_there ? 0 : ERROR_UNSUPPORTED_OPERATION;
}

static fdb_error_t future_get_error(FDBFuture *future) {
    fdb_error_t error = obstacle(future, true);
    return error ? error : cluster_official.future_get_error(official(future));
}

static fdb_error_t future_get_bool(FDBFuture *future, fdb_bool_t *out) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_bool);
    return error ? error : cluster_official.future_get_bool(official(future), out);
}

/* Before 6.2 the only one of its kind was a version. */
static fdb_error_t future_get_int64(FDBFuture *future, int64_t *out) {
    bool new = cluster_official.future_get_int64 != NULL;
    fdb_error_t error = obstacle(future, new || cluster_official.future_get_version);
    if (error)
        return error;
    return new ? cluster_official.future_get_int64(official(future), out)
               : cluster_official.future_get_version(official(future), out);
}

static fdb_error_t future_get_uint64(FDBFuture *future, uint64_t *out) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_uint64);
    return error ? error : cluster_official.future_get_uint64(official(future), out);
}

static fdb_error_t future_get_double(FDBFuture *future, double *out) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_double);
    return error ? error : cluster_official.future_get_double(official(future), out);
}

static fdb_error_t future_get_key(FDBFuture *future, uint8_t const **key, int *length) {
    fdb_error_t error = obstacle(future, true);
    return error ? error : cluster_official.future_get_key(official(future), key, length);
}

static fdb_error_t future_get_value(FDBFuture *future, fdb_bool_t *present, uint8_t const **value, int *length) {
    fdb_error_t error = obstacle(future, true);
    return error ? error : cluster_official.future_get_value(official(future), present, value, length);
}

static fdb_error_t future_get_keyvalue_array(FDBFuture *future, FDBKeyValue const **rows, int *count, fdb_bool_t *more) {
    fdb_error_t error = obstacle(future, true);
    return error ? error : cluster_official.future_get_keyvalue_array(official(future), rows, count, more);
}

static fdb_error_t future_get_mappedkeyvalue_array(FDBFuture *future, FDBMappedKeyValue const **rows, int *count,
                                                   fdb_bool_t *more) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_mappedkeyvalue_array);
    return error ? error : cluster_official.future_get_mappedkeyvalue_array(official(future), rows, count, more);
}

static fdb_error_t future_get_key_array(FDBFuture *future, FDBKey const **keys, int *count) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_key_array);
    return error ? error : cluster_official.future_get_key_array(official(future), keys, count);
}

static fdb_error_t future_get_string_array(FDBFuture *future, const char ***strings, int *count) {
    fdb_error_t error = obstacle(future, true);
    return error ? error : cluster_official.future_get_string_array(official(future), strings, count);
}

static fdb_error_t future_get_keyrange_array(FDBFuture *future, FDBKeyRange const **ranges, int *count) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_keyrange_array);
    return error ? error : cluster_official.future_get_keyrange_array(official(future), ranges, count);
}

static fdb_error_t future_get_granule_summary_array(FDBFuture *future, FDBGranuleSummary const **summaries, int *count) {
    fdb_error_t error = obstacle(future, cluster_official.future_get_granule_summary_array);
    return error ? error : cluster_official.future_get_granule_summary_array(official(future), summaries, count);
}

static fdb_error_t future_readbg_get_descriptions(FDBFuture *future, FDBBGFileDescription **descriptions, int *count) {
    fdb_error_t error = obstacle(future, cluster_official.future_readbg_get_descriptions);
    return error ? error : cluster_official.future_readbg_get_descriptions(official(future), descriptions, count);
}

static const struct foreign_future_methods future_methods = {
    .cancel = future_cancel,
    .destroy = future_destroy,
    .release_memory = future_release_memory,
    .is_ready = future_is_ready_,
    .block_until_ready = future_block_until_ready,
    .set_callback = future_set_callback,
    .get_error = future_get_error,
    .get_bool = future_get_bool,
    .get_int64 = future_get_int64,
    .get_uint64 = future_get_uint64,
    .get_double = future_get_double,
    .get_key = future_get_key,
    .get_value = future_get_value,
    .get_keyvalue_array = future_get_keyvalue_array,
    .get_mappedkeyvalue_array = future_get_mappedkeyvalue_array,
    .get_key_array = future_get_key_array,
    .get_string_array = future_get_string_array,
    .get_keyrange_array = future_get_keyrange_array,
    .get_granule_summary_array = future_get_granule_summary_array,
    .readbg_get_descriptions = future_readbg_get_descriptions,
};

FDBFuture *cluster_future(FDBFuture *official_future) {
    if (!official_future)
        return future_create_failed(ERROR_INTERNAL_ERROR);
    struct shell *shell = make(&future_methods);
    if (!shell) {
        cluster_official.future_destroy(official_future);
        return future_out_of_memory();
    }
    shell->official.future = official_future;
    return (FDBFuture *)(void *)shell;
}

FDBFuture *cluster_missing(void) {
    return future_create_failed(ERROR_UNSUPPORTED_OPERATION);
}

/* ---- FDBResult: the same shell, with less to ask ---- */

static FDBResult *official_result(FDBFuture *result) {
    return shell_of(result)->official.result;
}

static void result_destroy(FDBFuture *result) {
    if (is_forked(result))
        return;
    cluster_official.result_destroy(official_result(result));
    release(shell_of(result));
}

static fdb_error_t result_get_keyvalue_array(FDBFuture *result, FDBKeyValue const **rows, int *count, fdb_bool_t *more) {
    fdb_error_t error = obstacle(result, cluster_official.result_get_keyvalue_array);
    return error ? error : cluster_official.result_get_keyvalue_array(official_result(result), rows, count, more);
}

static fdb_error_t result_get_bg_mutations_array(FDBFuture *result, FDBBGMutation const **mutations, int *count) {
    fdb_error_t error = obstacle(result, cluster_official.result_get_bg_mutations_array);
    return error ? error : cluster_official.result_get_bg_mutations_array(official_result(result), mutations, count);
}

static const struct foreign_future_methods result_methods = {
    .result_destroy = result_destroy,
    .result_get_keyvalue_array = result_get_keyvalue_array,
    .result_get_bg_mutations_array = result_get_bg_mutations_array,
};

FDBResult *cluster_result(FDBResult *official_result_) {
    struct shell *shell = official_result_ && cluster_official.result_destroy ? make(&result_methods) : NULL;
    if (!shell) {
        if (official_result_ && cluster_official.result_destroy)
            cluster_official.result_destroy(official_result_);
        return (FDBResult *)(void *)future_out_of_memory();
    }
    shell->official.result = official_result_;
    return (FDBResult *)(void *)shell;
}
