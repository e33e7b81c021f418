/* Plans that are handed to paradl-run: lowered here and nowhere else, written
 * once, known by their hash. */
#ifndef CLI_HANDOVER_H
#define CLI_HANDOVER_H

#include "cli/cli_priv.h"

#include "paradl/job.h"

enum { CLI_HANDOVER_PATH = 256 };

/* A folder of its own for files between this program and paradl-run. */
struct cli_handover {
    char folder[CLI_HANDOVER_PATH];
};
enum pdl_status cli_handover_open(struct cli_handover *h, struct pdl_err *err);
/* Removes the folder and what is in it. */
void cli_handover_close(const struct cli_handover *h);
/* A file of the folder; lives in the arena. NULL: out of memory. */
const char *cli_handover_file(const struct cli_handover *h, pdl_arena *a,
                              const char *name);
/* Writes a job's plan; hash: of its text, in hexadecimal. */
enum pdl_status cli_handover_plan(pdl_job *j, const char *path, char hash[17],
                                  struct pdl_err *err);
/* Sets a count of a job; 0: its default. */
enum pdl_status cli_set_count(pdl_job *j, const char *name, int64_t count,
                              struct pdl_err *err);
enum pdl_status cli_set_flag(pdl_job *j, const char *name, bool flag,
                             struct pdl_err *err);

#endif
