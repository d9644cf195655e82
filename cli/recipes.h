/* SPDX-License-Identifier: Apache-2.0 */
/* The commands over the recipes, a file each; their table is in cmd_recipes.c. */
#ifndef KEEL_CLI_RECIPES_H
#define KEEL_CLI_RECIPES_H

#include "place.h"

int run_doc(struct session *session, int argc, char **argv);
int run_blob(struct session *session, int argc, char **argv);
int run_queue(struct session *session, int argc, char **argv);
int run_table(struct session *session, int argc, char **argv);
int run_spatial(struct session *session, int argc, char **argv);

#endif
