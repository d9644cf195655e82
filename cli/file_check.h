/* SPDX-License-Identifier: Apache-2.0 */
/* The part of check that looks into the files: file_check.c. */
#ifndef KEEL_CLI_FILE_CHECK_H
#define KEEL_CLI_FILE_CHECK_H

#include "layer_check.h"

/*
 * The absolute path of the session's database if it is an embedded one with files that are there; the session is closed, so that they can be had alone.
 * *path is empty for a cluster, :memory: and what is not there. False: reported.
 */
bool files_take(struct session *session, char path[4096]);

/*
 * Verifies log and base; fills `files` with what was read. *online is set where there are no files to look at. EXIT_OK also with damage, which is among the
 * findings; otherwise the code of what was reported.
 */
int check_files(struct session *session, struct findings *findings, json_t *files, bool *online);

#endif
