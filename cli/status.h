/* SPDX-License-Identifier: Apache-2.0 */
/* The status document of a database, read and compared: status.c. For the commands status and top. */
#ifndef KEEL_CLI_STATUS_H
#define KEEL_CLI_STATUS_H

#include "cli.h"

/* One reading. */
struct sample {
    json_t *document; /* as \xff\xff/status/json has it */
    double seconds;   /* when */
};

/* False: reported, *code says what to return. */
bool sample_take(struct session *session, struct sample *sample, int *code);
void sample_free(struct sample *sample);

/* A number in the document by its path, "keel.log_bytes"; 0 where there is none. */
double sample_number(const struct sample *sample, const char *path);
bool sample_flag(const struct sample *sample, const char *path);
const char *sample_text(const struct sample *sample, const char *path);
/* NULL where there is none; borrowed. */
json_t *sample_find(const struct sample *sample, const char *path);
/* How much a number grew each second between two readings. */
double sample_rate(const struct sample *before, const struct sample *after, const char *path);

/* The rates that status and top show, in this order. */
struct rate {
    const char *name;  /* in --json: "commits" */
    const char *title; /* for people */
    const char *path;
    bool is_bytes;
};
extern const struct rate rates[]; /* ended by a row without a name */

/* {"seconds": …, "commits": …} */
json_t *rates_json(const struct sample *before, const struct sample *after);

/* Waits, but not beyond Ctrl-C: false then. */
bool pause_seconds(double seconds);
/* --interval: a number of seconds from `min` to an hour. False: reported. */
bool interval_parse(const char *text, double min, double *seconds);

#endif
