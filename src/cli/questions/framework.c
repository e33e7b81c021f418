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
    {"megatron-args", "megatron", ""}, /* as it is read */
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

const char *cli_format_framework(const char *format)
{
    return find_format(format) ? find_format(format)->framework : NULL;
}

/* Does it run on these PEs? */
static bool runs_on(const char *name, const struct pdl_pe *pe)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_framework *f = NULL;
    bool on = a && pdl_framework_open(a, name, &f, NULL) == PDL_OK &&
              pdl_framework_on(f, pe);

    pdl_arena_destroy(a);
    return on;
}

enum pdl_status cli_export_fits(const struct cli_job *j, const char *name,
                                const char *export, struct pdl_err *err)
{
    const struct format *x = find_format(export);
    const char *own = pdl_framework_runs(j->oracle.framework)->exporter;

    if (x && !runs_on(x->framework, &j->sys.pe))
        return pdl_fail(err, PDL_EINVAL,
                        "--export %s writes a job of %s, which does not run "
                        "on %s",
                        export, x->framework, j->sys.pe.name);
    if (!x || !name || strcmp(name, x->framework) == 0 ||
        strcmp(name, x->also) == 0 ||
        (cli_format_framework(own) == x->framework))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             "--export %s writes a job of %s, and its figures would be those "
             "of --framework %.40s",
             export, x->framework, name);
    pdl_hint(err, "leave --framework out");
    return PDL_EINVAL;
}

static struct cli_for by_kind(const struct cli_job *j)
{
    static const char there[] = "the default on such PEs; --framework chooses";
    bool transformer = strcmp(j->model->kind, "transformer") == 0;
    const struct pdl_pe *pe = &j->sys.pe;

    if (transformer && runs_on("megatron", pe)) {
        if (pdl_export_suits(j->model, "megatron", NULL) == PDL_OK)
            return (struct cli_for){"megatron", "the default for transformers; "
                                                "--framework chooses"};
        return (struct cli_for){"pytorch", "megatron's launch file cannot say "
                                           "it; --framework chooses"};
    }
    if (!runs_on("own", pe))
        return (struct cli_for){runs_on("pytorch", pe) ? "pytorch" : "in-house",
                                there};
    return (struct cli_for){"own", transformer
                                       ? there
                                       : "the default for networks that are no "
                                         "transformers; --framework chooses"};
}

struct cli_for cli_framework_for(const struct cli_job *j, const char *asked,
                                 const char *export, bool per_layer)
{
    if (asked)
        return (struct cli_for){asked, "as asked"};
    if (cli_format_framework(export))
        return (struct cli_for){cli_format_framework(export),
                                "as it is exported"};
    if (per_layer)
        return (struct cli_for){"own", "which alone runs axes and copies of "
                                       "single layers; --framework chooses"};
    return by_kind(j);
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
    bool asked = q->framework || ideal;

    if (st != PDL_OK)
        return st;
    *whose = cli_framework_for(j, q->framework, export, per_layer);
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
        st = pdl_framework_trains(j->oracle.framework, j->oracle.precision,
                                  j->oracle.optimizer_slots, err);
    if (st == PDL_OK)
        st = cli_export_fits(j, q->framework, export, err);
    if (st == PDL_OK && export)
        st = pdl_export_suits(j->model, export, err);
    if (st == PDL_OK && j->oracle.framework && !find_format(export) &&
        !pdl_framework_runs(j->oracle.framework)->exporter)
        whose->why = asked ? "as asked; for projection only: no job of it is "
                             "written"
                           : "the default on such PEs, for projection only; "
                             "--framework chooses";
    return st;
}
