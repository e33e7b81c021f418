/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own runtime: a script of one `paradl train` line, and its reader. The
 * strategy is the notation itself, so nothing is translated. */
#include "export.h"
#include "import.h"

#include <stdlib.h>
#include <string.h>

static const char NAME[] = "paradl";

static bool runs_in(enum pdl_precision p)
{
    return p == PDL_PREC_FP32 || p == PDL_PREC_BF16;
}

/* For a shell, whatever a file is called. */
static void quote(struct pdl_sink *out, const char *text)
{
    pdl_puts(out, "'");
    for (; *text; text++)
        if (*text == '\'')
            pdl_puts(out, "'\\''");
        else
            pdl_put(out, text, 1);
    pdl_puts(out, "'");
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    const char *model = job->spec ? job->spec : job->model->name;
    struct pdl_mesh mesh;
    enum pdl_status st = pdl_mesh_make(job->strategy, &mesh, err);

    if (st != PDL_OK)
        return st;
    if (!runs_in(job->precision))
        return pdl_fail(err, PDL_EINVAL, "%s: it trains in fp32 and bf16",
                        NAME);
    if (job->strategy->offload_optimizer ||
        pdl_strategy_offloads(job->strategy))
        return pdl_fail(err, PDL_EINVAL, "%s: it keeps nothing on the host",
                        NAME);
    if (job->compile || job->async_tensor)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: it has neither a compiler nor collectives in "
                        "pieces",
                        NAME);
    pdl_puts(out, "#!/bin/bash\n");
    report_export_head(job, "# ", out);
    pdl_puts(out, "# EDIT: data (a folder that 'paradl train --help' names), "
                  "learning rate, epochs\n"
                  "exec paradl train ");
    quote(out, model);
    pdl_puts(out, " --data \"${DATA:-EDIT}\" \\\n    --strategy='");
    pdl_strategy_print(job->strategy, out);
    pdl_printf(out,
               "' --ranks %lld --batch %lld \\\n"
               "    --precision %s --optimizer %s \"$@\"\n",
               (long long)mesh.pes, (long long)job->batch,
               pdl_precision_name(job->precision),
               job->sgd ? "sgd:momentum=0.9" : "adam");
    return PDL_OK;
}

const struct pdl_exporter report_export_own = {
    NAME, "script of one paradl train line", write, NULL};

/* ---- and back ------------------------------------------------------------ */

static enum pdl_status count(const struct report_words *s, int i,
                             const char *text, int64_t *out,
                             struct pdl_err *err)
{
    char *end;
    long long v = strtoll(text, &end, 10);

    if (*end || end == text || v < 1)
        return pdl_fail(err, PDL_EPARSE, "%s:%d: '%.40s' is no count", s->name,
                        s->word[i].line, text);
    *out = v;
    return PDL_OK;
}

/* What is given to an option, behind = or as the next word; NULL: it is another
 * one. (A next word that looks like an assignment is none to a shell.) */
static const char *given(const struct report_words *s, int i, const char *name)
{
    size_t n = strlen(name);
    const char *text = s->word[i].text;

    if (strncmp(text, name, n) != 0 || (text[n] && text[n] != '='))
        return NULL;
    if (text[n] == '=')
        return text + n + 1;
    return i + 1 < s->n ? s->word[i + 1].text : NULL;
}

static enum pdl_status option(const struct report_words *s, int i,
                              struct pdl_launch *out, struct pdl_err *err)
{
    const char *v;

    if ((v = given(s, i, "--strategy")) != NULL)
        out->strategy = v;
    else if ((v = given(s, i, "--ranks")) != NULL)
        return count(s, i, v, &out->pes, err);
    else if ((v = given(s, i, "--batch")) != NULL)
        return count(s, i, v, &out->batch, err);
    else if ((v = given(s, i, "--optimizer")) != NULL)
        out->optimizer = strncmp(v, "adam", 4) == 0 ? "adam" : "sgd";
    else if ((v = given(s, i, "--precision")) != NULL) {
        out->precision = pdl_precision_find(v);
        if (out->precision >= PDL_NPRECISIONS)
            return pdl_fail(err, PDL_EPARSE, "%s:%d: no precision '%.40s'",
                            s->name, s->word[i].line, v);
    }
    return PDL_OK;
}

static int train_word(const struct report_words *s)
{
    for (int i = 1; i < s->n; i++)
        if (strcmp(s->word[i].text, "train") == 0 &&
            strcmp(s->word[i - 1].text, "paradl") == 0)
            return i;
    return -1;
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct report_words s;
    enum pdl_status st = report_words(a, in, name, &s, err);
    int at = st == PDL_OK ? train_word(&s) : -1;

    if (st != PDL_OK)
        return st;
    if (at < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no line 'paradl train MODEL ...'",
                        name);
    *out = (struct pdl_launch){.precision = PDL_PREC_FP32};
    if (at + 1 < s.n && s.word[at + 1].text[0] != '-')
        out->model = s.word[at + 1].text;
    for (int i = at + 1; i < s.n && st == PDL_OK; i++)
        st = option(&s, i, out, err);
    if (st == PDL_OK && !out->strategy)
        out->strategy = "serial";
    if (st == PDL_OK && out->batch < 1)
        st = pdl_fail(err, PDL_EINVAL, "%s: does not say --batch", name);
    if (pes > 0)
        out->pes = pes;
    return st;
}

const struct pdl_launch_reader report_import_own = {
    NAME, "script with a paradl train line", read};
