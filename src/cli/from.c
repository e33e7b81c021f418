/* SPDX-License-Identifier: Apache-2.0
 *
 * --from: the launch file of a job that runs today, as a question. What is
 * given on the command line wins over what the file says. */
#include "projection.h"

#include <string.h>

enum { MAX_FILE = 16 << 20 };

/* "megatron-args" is Megatron's file: its habits are those of the job. */
static const char *framework_of(const char *format)
{
    const struct pdl_framework *f;

    for (int i = 0; (f = pdl_framework_at(i)) != NULL; i++) {
        size_t n = strlen(f->name);

        if (strncmp(format, f->name, n) == 0 &&
            (format[n] == '\0' || format[n] == '-'))
            return f->name;
    }
    return NULL;
}

enum pdl_status cli_from(pdl_arena *a, const char *format,
                         const struct pdl_args *args, struct cli_question *q,
                         struct pdl_launch *out, struct pdl_err *err)
{
    const char *path = args->pos[0];
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(a, path, MAX_FILE, &in, err);

    if (st == PDL_OK)
        st = pdl_launch_read(a, format, in, path, q->pes, out, err);
    if (st != PDL_OK)
        return st;
    if (args->npos > 1)
        out->model = args->pos[1];
    if (!out->model) {
        pdl_fail(err, PDL_EINVAL, "%s: does not say which model it trains",
                 path);
        pdl_hint(err, "name it: paradl project --from %s %.60s llama3-8b ...",
                 format, path);
        return PDL_EINVAL;
    }
    q->model = out->model;
    q->pes = out->pes;
    q->strategy = q->strategy ? q->strategy : out->strategy;
    q->batch = q->batch ? q->batch : out->batch;
    q->precision =
        q->precision ? q->precision : pdl_precision_name(out->precision);
    q->dropout = q->dropout ? q->dropout : out->dropout;
    q->framework = q->framework ? q->framework : framework_of(format);
    return PDL_OK;
}

void cli_from_json(struct pdl_json *w, const char *format,
                   const struct pdl_launch *l)
{
    pdl_json_key(w, "from");
    pdl_json_object(w);
    pdl_json_kstr(w, "format", format);
    pdl_json_kstr(w, "model", l->model);
    pdl_json_kstr(w, "strategy", l->strategy);
    pdl_json_kint(w, "batch", l->batch);
    pdl_json_kint(w, "pes", l->pes);
    pdl_json_key(w, "notes");
    pdl_json_array(w);
    for (int i = 0; i < l->nnotes; i++)
        pdl_json_str(w, l->note[i]);
    pdl_json_end(w);
    pdl_json_end(w);
}

void cli_from_text(const struct pdl_launch *l, const struct cli_job *j)
{
    const struct pdl_framework *f = j->oracle.framework;

    pdl_printf(cli_out(), "from the file: %s --strategy %s --batch %lld%s%s\n",
               l->model, l->strategy, (long long)l->batch,
               f ? " --framework " : "", f ? f->name : "");
    for (int i = 0; i < l->nnotes; i++)
        pdl_printf(cli_out(), "  note: %s\n", l->note[i]);
}
