/* SPDX-License-Identifier: Apache-2.0
 *
 * Which framework a plan is for: the one that is named, else the one that its
 * export is for, else a default by kind of model. What it does not run is not
 * planned. */
#include "cli/questions/framework.h"

#include "paradl/report.h"

#include <string.h>

/* Formats that are of no framework (sbatch, pipeline-csv) are not here. Others
 * that read the same file: Hugging Face's Trainer is started by accelerate, or
 * with DeepSpeed's configuration. */
static const struct format {
    const char *format, *framework, *also;
} exports[] = {
    {"megatron", "megatron", ""},
    {"deepspeed", "megatron-deepspeed", "transformers"},
    {"torchtitan", "torchtitan", ""},
    {"torchtitan-toml", "torchtitan", ""},
    {"accelerate", "pytorch", "transformers"},
    {"nanotron", "nanotron", ""},
    {"paradl", "own", ""},
};

static const struct format *find_format(const char *format)
{
    for (size_t i = 0; format && i < sizeof exports / sizeof exports[0]; i++)
        if (strcmp(exports[i].format, format) == 0)
            return &exports[i];
    return NULL;
}

static const char *of_export(const char *format)
{
    return find_format(format) ? find_format(format)->framework : NULL;
}

enum pdl_status cli_export_fits(const struct pdl_framework *f, const char *name,
                                const char *export, struct pdl_err *err)
{
    const struct format *x = find_format(export);
    const char *own = f ? pdl_framework_runs(f)->exporter : NULL;

    if (!x || !name || strcmp(name, x->framework) == 0 ||
        strcmp(name, x->also) == 0 || (of_export(own) == x->framework))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             "--export %s writes a job of %s, and its figures would be those "
             "of --framework %.40s",
             export, x->framework, name);
    pdl_hint(err, "leave --framework out");
    return PDL_EINVAL;
}

struct cli_for cli_framework_for(const struct pdl_model *m, const char *asked,
                                 const char *export, bool per_layer)
{
    bool transformer = strcmp(m->kind, "transformer") == 0;

    if (asked)
        return (struct cli_for){asked, "as asked"};
    if (of_export(export))
        return (struct cli_for){of_export(export), "as it is exported"};
    if (per_layer)
        return (struct cli_for){"own", "which alone runs axes and copies of "
                                       "single layers; --framework chooses"};
    if (transformer && pdl_export_suits(m, "megatron", NULL) == PDL_OK)
        return (struct cli_for){
            "megatron", "the default for transformers; --framework chooses"};
    if (transformer)
        return (struct cli_for){"pytorch", "megatron's launch file cannot say "
                                           "it; --framework chooses"};
    return (struct cli_for){"own", "the default for networks that are no "
                                   "transformers; --framework chooses"};
}

bool cli_framework_none(const char *name)
{
    return name && strcmp(name, "none") == 0;
}

/* What memory projections are sure of; the own runtime plans its memory. */
static const char DEFAULT_HEADROOM[] = "10%";

enum pdl_status cli_open_for(struct cli_question *q, const char *export,
                             bool per_layer, struct cli_job *j,
                             struct cli_for *whose, struct pdl_err *err)
{
    enum pdl_status st = cli_job_open(q, j, err);
    bool ideal = q->parameters && strcmp(q->parameters, "ideal") == 0;

    if (st != PDL_OK)
        return st;
    *whose = cli_framework_for(j->model, q->framework, export, per_layer);
    if (ideal && !q->framework)
        *whose = (struct cli_for){"none", "as asked"};
    if (!q->headroom && strcmp(whose->name, "own") != 0 &&
        !cli_framework_none(whose->name))
        q->headroom = DEFAULT_HEADROOM;
    q->framework = whose->name;
    cli_job_close(j);
    *j = (struct cli_job){.job = NULL};
    st = cli_job_open(q, j, err);
    if (st == PDL_OK)
        st = cli_export_fits(j->oracle.framework, q->framework, export, err);
    if (st == PDL_OK && export)
        st = pdl_export_suits(j->model, export, err);
    if (st == PDL_OK && j->oracle.framework && !find_format(export) &&
        !pdl_framework_runs(j->oracle.framework)->exporter)
        whose->why = "as asked; for projection only: no job of it is written";
    return st;
}
