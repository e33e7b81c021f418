/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports: a plan as the configuration of another program. One file a format,
 * one line in the table; what a program cannot express is refused, never
 * dropped in silence. */
#include "export.h"

#include <string.h>

static const struct pdl_exporter *const exporters[] = {
    &report_export_megatron,   &report_export_deepspeed,
    &report_export_torchtitan, &report_export_torchtitan_toml,
    &report_export_accelerate, &report_export_nanotron,
    &report_export_own,        &report_export_sbatch,
    &report_export_pipeline,
};
enum { NEXPORTERS = sizeof exporters / sizeof exporters[0] };

const struct pdl_exporter *pdl_exporter_at(int i)
{
    return i >= 0 && i < NEXPORTERS ? exporters[i] : NULL;
}

static enum pdl_status find(const char *format, const struct pdl_exporter **out,
                            struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, format);
    for (int i = 0; i < NEXPORTERS; i++) {
        *out = exporters[i];
        if (strcmp(exporters[i]->name, format) == 0)
            return PDL_OK;
        pdl_suggest_try(&s, exporters[i]->name);
    }
    pdl_fail(err, PDL_EINVAL, "no export format '%.40s'", format);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl project --help' lists them");
    return PDL_EINVAL;
}

enum pdl_status pdl_export(const struct pdl_export_job *job, const char *format,
                           struct pdl_sink *out, struct pdl_err *err)
{
    const struct pdl_exporter *x;
    enum pdl_status st = find(format, &x, err);

    return st == PDL_OK ? x->write(job, out, err) : st;
}

enum pdl_status pdl_export_suits(const struct pdl_model *m, const char *format,
                                 struct pdl_err *err)
{
    const struct pdl_exporter *x;
    enum pdl_status st = find(format, &x, err);

    return st == PDL_OK && x->suits ? x->suits(m, format, err) : st;
}

/* A name with a line break must not become a line of a script. */
static void one_line(struct pdl_sink *out, const char *text)
{
    for (; *text; text++) {
        char c = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;

        pdl_put(out, &c, 1);
    }
}

void report_export_head(const struct pdl_export_job *job, const char *prefix,
                        struct pdl_sink *out)
{
    char t[32];

    pdl_puts(out, prefix);
    one_line(out, job->model->name);
    pdl_puts(out, " on ");
    one_line(out, job->system->name);
    pdl_puts(out, ", strategy ");
    pdl_strategy_print(job->strategy, out);
    pdl_printf(out, ", batch %lld\n", (long long)job->batch);
    if (job->step_s > 0)
        pdl_printf(out, "%sprojected: %s a step", prefix,
                   pdl_unit_format(job->step_s, PDL_UNIT_SECONDS, t, sizeof t));
    if (job->step_s > 0 && job->memory_bytes > 0)
        pdl_printf(out, ", %s on the fullest PE",
                   pdl_unit_format((double)job->memory_bytes, PDL_UNIT_BYTES, t,
                                   sizeof t));
    if (job->step_s > 0)
        pdl_puts(out, "\n");
    if (!job->command)
        return;
    pdl_printf(out, "%smade by: ", prefix);
    one_line(out, job->command);
    pdl_puts(out, "\n");
}
