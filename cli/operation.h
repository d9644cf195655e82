/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that operate a database, one function each; cmd_operation.c has their table. */
#ifndef KEEL_CLI_OPERATION_H
#define KEEL_CLI_OPERATION_H

#include "cli.h"

int command_status(struct session *session, int argc, char **argv);  /* cmd_status.c */
int command_top(struct session *session, int argc, char **argv);     /* cmd_status.c */
int command_backup(struct session *session, int argc, char **argv);  /* cmd_backup.c */
int command_restore(struct session *session, int argc, char **argv); /* cmd_restore.c */
int command_copy(struct session *session, int argc, char **argv);    /* cmd_copy.c */
int command_check(struct session *session, int argc, char **argv);   /* cmd_check.c */
int command_compact(struct session *session, int argc, char **argv); /* cmd_compact.c */
int command_bench(struct session *session, int argc, char **argv);   /* cmd_bench.c */

/* Its row of the table, for usage_error. */
const struct command *operation_command(const char *name);

/* Seconds on a clock that never goes back. */
double seconds_now(void);
/* "2026-11-16 00:03:12 UTC" in a static buffer. */
const char *time_text(uint64_t microseconds);
/* 64 bits as 16 hexadecimal digits. */
json_t *json_hex(uint64_t number);

/*
 * The prefix of the keys that a text names: /app/users the keys of that directory, /app/users("x") those of a subspace in it, ("x",) or x any keys that begin so. Errors
 * as text_to_key.
 */
fdb_error_t text_to_prefix(FDBTransaction *tr, const char *text, struct buffer *prefix);

/* What changes many rows at once does so in transactions of its own: false, reported, between begin and commit. */
bool outside_transaction(const struct session *session, const char *command);

#endif
