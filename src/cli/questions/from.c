/* SPDX-License-Identifier: Apache-2.0
 *
 * --from: the launch file of a job that runs today, as a question. What is
 * given on the command line wins over what the file says. */
#include "cli/output/projection.h"
#include "cli/questions/framework.h"

#include <string.h>

enum { MAX_FILE = 16 << 20 };

/* A name of the zoo, whatever its parameters. */
static bool known(const char *model)
{
    const struct pdl_zoo_entry *e;
    size_t n = strcspn(model, ":");

    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++)
        if (strlen(e->name) == n && strncmp(e->name, model, n) == 0)
            return true;
    return false;
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
    if (args->npos == 1 && !known(out->model) &&
        strcmp(format, "paradl") != 0) {
        pdl_fail(err, PDL_EINVAL, "%s: its model '%.80s' is not in the zoo",
                 path, out->model);
        pdl_hint(err,
                 "name another, or a file, after it: paradl project "
                 "--from %s %.60s llama3-8b ...",
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
    q->compile = q->compile || out->compile;
    q->async_tensor = q->async_tensor || out->async_tensor;
    q->gradient_dtype =
        q->gradient_dtype ? q->gradient_dtype : out->gradient_dtype;
    q->attention = q->attention ? q->attention : out->attention;
    q->optimizer = q->optimizer ? q->optimizer : out->optimizer;
    q->framework = q->framework ? q->framework : cli_format_framework(format);
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

/* " --name value" of what the file says. */
static void put(struct pdl_sink *out, const char *option, const char *value)
{
    if (value)
        pdl_printf(out, " --%s %s", option, value);
}

void cli_from_text(const struct pdl_launch *l, const struct cli_job *j,
                   const char *system)
{
    const struct pdl_framework *f = j->oracle.framework;
    const char *quote = strpbrk(l->strategy, "(;*") ? "'" : "";
    struct pdl_buf line;

    pdl_buf_init(&line);
    pdl_printf(&line.sink,
               "paradl project %s --system %s --strategy %s%s%s --batch %lld",
               l->model, system, quote, l->strategy, quote,
               (long long)l->batch);
    put(&line.sink, "precision", pdl_precision_name(l->precision));
    put(&line.sink, "dropout", l->dropout);
    put(&line.sink, "attention", l->attention);
    put(&line.sink, "optimizer", l->optimizer);
    put(&line.sink, "gradient-dtype", l->gradient_dtype);
    pdl_puts(&line.sink, l->compile ? " --compile" : "");
    pdl_puts(&line.sink, l->async_tensor ? " --async-tensor" : "");
    put(&line.sink, "framework", f ? pdl_framework_name(f) : NULL);
    pdl_puts(cli_out(), "the file asks:\n");
    cli_say_command(line.text ? line.text : "");
    pdl_buf_free(&line);
    for (int i = 0; i < l->nnotes; i++)
        cli_say(4, "  note: %s", l->note[i]);
}
