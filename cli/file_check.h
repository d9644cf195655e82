/* SPDX-License-Identifier: Apache-2.0 */
/* The part of check that looks into the files: file_check.c. */
#ifndef KEEL_CLI_FILE_CHECK_H
#define KEEL_CLI_FILE_CHECK_H

#include "layer_check.h"

/* The files of an embedded database. */
struct files {
    char path[4096]; /* absolute; empty for a cluster, :memory: and what is not there */
    int patience;    /* how often it is worth to try again: the session had it open, and the last threads may be just letting go of it */
};

/* Finds the session's files; closes the session, so that they can be had alone. False: reported. */
bool files_take(struct session *session, const char *doing, struct files *files);
/* After DATABASE_IN_USE: true if it is worth another try, which it has waited for. */
bool files_try_again(struct files *files, fdb_error_t error);

/*
 * Verifies log and base; fills `files` with what was read. *online is set where there are no files to look at. EXIT_OK also with damage, which is among the
 * findings; otherwise the code of what was reported.
 */
int check_files(struct session *session, struct findings *findings, json_t *files, bool *online);

#endif
