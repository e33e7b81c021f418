/* The framework that plans are made for. */
#ifndef CLI_FRAMEWORK_H
#define CLI_FRAMEWORK_H

#include "cli/questions/projection.h"

struct cli_for {
    const char *name, *why;
};
/* asked: --framework, export: --export; NULL where they are not given. */
struct cli_for cli_framework_for(const struct cli_job *j, const char *asked,
                                 const char *export, bool per_layer);
/* Opens a job for the framework that the question, its export or the kind of
 * model asks for; `q` then names it, and what is left free for it. */
enum pdl_status cli_open_for(struct cli_question *q, const char *export,
                             bool per_layer, struct cli_job *j,
                             struct cli_for *whose, struct pdl_err *err);
/* Whose habits a job has that such a file starts; NULL: of no framework. */
const char *cli_format_framework(const char *format);
/* Is the file of --export one of the framework that was named (NULL: none was),
 * and does that one run on these PEs? */
enum pdl_status cli_export_fits(const struct cli_job *j, const char *name,
                                const char *export, struct pdl_err *err);
/* --framework none: what no framework runs. */
bool cli_framework_none(const char *name);

#endif
