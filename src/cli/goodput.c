/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a whole training, for commands that project one job: --samples
 * or --tokens, and what stands between a step and it: failures, checkpoints,
 * stragglers, batches that grow. */
#include "goodput.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BATCHES = 1024 };

static bool number(const char *text, double *out)
{
    return pdl_unit_parse(text, PDL_UNIT_NONE, out, NULL) == PDL_OK &&
           *out > 0 && *out < 1e18;
}

/* Samples to train on; 0: nobody asks. */
static enum pdl_status samples(const struct cli_training *t,
                               const struct cli_job *j, double *out,
                               struct pdl_err *err)
{
    const char *text = t->samples ? t->samples : t->tokens;

    *out = 0;
    if (t->samples && t->tokens)
        return pdl_fail(err, PDL_EINVAL, "--samples or --tokens, not both");
    if (!text)
        return t->mtbf_s > 0 || t->every_s > 0 || t->jitter > 0 || t->ramp
                   ? pdl_fail(err, PDL_EINVAL,
                              "how long a training is: give --samples or "
                              "--tokens")
                   : PDL_OK;
    if (!number(text, out))
        return pdl_fail(err, PDL_EINVAL, "'%.40s' is no number of %s", text,
                        t->samples ? "samples" : "tokens");
    if (!t->samples && j->model->tokens <= 0)
        return pdl_fail(err, PDL_EINVAL, "%s has no tokens: give --samples",
                        j->model->name);
    if (!t->samples)
        *out /= (double)j->model->tokens;
    return PDL_OK;
}

/* ---- batches that grow ---------------------------------------------------------- */

/* "16:16:5e6" as Megatron's --rampup-batch-size: from 16 by 16 up to the batch,
 * over so many samples. */
static enum pdl_status read_ramp(const char *text, int64_t *first, int64_t *by,
                                 double *over, struct pdl_err *err)
{
    char a[32], b[32], c[32], rest;

    if (sscanf(text, "%31[^:]:%31[^:]:%31[^:]%c", a, b, c, &rest) == 3 &&
        pdl_int_parse(a, 1, INT64_C(1) << 40, first, NULL) == PDL_OK &&
        pdl_int_parse(b, 1, INT64_C(1) << 40, by, NULL) == PDL_OK &&
        number(c, over))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "--ramp '%.40s' is not FIRST:BY:SAMPLES", text);
    pdl_hint(err, "write it like --ramp 16:16:6e6");
    return PDL_EINVAL;
}

/* The same plan with fewer micro-batches: what a step of this batch takes. */
static enum pdl_status step_of(const struct cli_question *q,
                               const struct cli_job *j, int64_t batch,
                               double *out, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct cli_job *k = a ? PDL_NEW(a, struct cli_job, 1) : NULL;
    int64_t micro = j->plan->micro_batches * batch / j->plan->batch;
    struct cli_question smaller = *q;
    struct pdl_buf text;
    enum pdl_status st = PDL_OK;

    pdl_buf_init(&text);
    if (!k)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK && j->plan->micro_batches > 1 &&
        (micro < 1 || micro * j->plan->batch != j->plan->micro_batches * batch))
        st = pdl_fail(err, PDL_EINVAL,
                      "--ramp: a batch of %lld is no whole number of "
                      "micro-batches of %lld",
                      (long long)batch,
                      (long long)(j->plan->batch / j->plan->micro_batches));
    if (st == PDL_OK) {
        *k = *j;
        k->strategy = j->asked;
        if (k->strategy.micro_batches > 0)
            k->strategy.micro_batches = micro;
        if (k->strategy.accumulate > 0)
            k->strategy.accumulate = micro;
        pdl_strategy_print(&k->strategy, &text.sink);
        smaller.batch = batch;
        st = cli_job_price(a, &smaller, text.text ? text.text : "", k, err);
    }
    if (st == PDL_OK)
        *out = k->x.step_s;
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
    return st;
}

static enum pdl_status ramp(pdl_arena *a, const struct cli_question *q,
                            const struct cli_job *j, const char *text,
                            struct pdl_goodput_options *o, struct pdl_err *err)
{
    int64_t first, by, n;
    struct pdl_ramp *list;
    double over;
    enum pdl_status st = read_ramp(text, &first, &by, &over, err);

    if (st != PDL_OK)
        return st;
    n = first < q->batch ? (q->batch - first + by - 1) / by : 0;
    if (n > MOST_BATCHES)
        return pdl_fail(err, PDL_EINVAL, "--ramp: more than %d batches",
                        MOST_BATCHES);
    list = PDL_NEW(a, struct pdl_ramp, n + 1);
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n && st == PDL_OK; i++) {
        list[i].batch = first + i * by;
        list[i].samples = over / (double)n;
        st = step_of(q, j, list[i].batch, &list[i].step_s, err);
    }
    o->ramp = list;
    o->nramp = (int)n;
    return st;
}

/* ---- the answer ------------------------------------------------------------------ */

enum pdl_status cli_training(pdl_arena *a, const struct cli_question *q,
                             const struct cli_job *j,
                             const struct cli_training *t,
                             struct pdl_goodput *out, struct pdl_err *err)
{
    int64_t per_node = j->sys.node.pes;
    struct pdl_goodput_options o = {
        .mtbf_s = t->mtbf_s,
        .checkpoint_s = t->checkpoint_s,
        .every_s = t->every_s,
        .jitter = t->jitter,
        .nodes = (j->x.pes + per_node - 1) / per_node};
    enum pdl_status st = samples(t, j, &o.samples, err);

    *out = (struct pdl_goodput){.train_s = 0};
    if (st != PDL_OK || o.samples <= 0)
        return st;
    if (!(o.checkpoint_s > 0))
        o.checkpoint_s = pdl_checkpoint_seconds(j->plan, &j->sys, &j->oracle);
    if (o.mtbf_s > 0 && !(o.checkpoint_s > 0)) {
        pdl_fail(err, PDL_EINVAL, "%s does not say how fast its storage is",
                 j->sys.name);
        pdl_hint(err, "give --checkpoint-time, what writing one takes");
        return PDL_EINVAL;
    }
    /* reading one takes what writing one takes, unless said otherwise */
    o.restart_s = t->restart_s > 0 ? t->restart_s : o.checkpoint_s;
    if (t->ramp)
        st = ramp(a, q, j, t->ramp, &o, err);
    if (st == PDL_OK)
        pdl_goodput(&j->x, &o, out);
    return st;
}

static const struct {
    const char *name, *text;
    size_t offset;
} rows[] = {
#define AT(field) offsetof(struct pdl_goodput, field)
    {"ideal_s", "steps", AT(ideal_s)},
    {"ramp_s", "smaller batches", AT(ramp_s)},
    {"stragglers_s", "stragglers", AT(stragglers_s)},
    {"checkpoints_s", "checkpoints", AT(checkpoints_s)},
    {"lost_s", "failures", AT(lost_s)},
#undef AT
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static double value(const struct pdl_goodput *g, int i)
{
    return *(const double *)((const char *)g + rows[i].offset);
}

void cli_training_json(struct pdl_json *w, const struct pdl_goodput *g)
{
    if (!(g->train_s > 0))
        return;
    pdl_json_key(w, "training");
    pdl_json_object(w);
    pdl_json_knum(w, "train_s", g->train_s);
    for (int i = 0; i < NROWS; i++)
        pdl_json_knum(w, rows[i].name, value(g, i));
    pdl_json_knum(w, "goodput", g->goodput);
    pdl_json_knum(w, "checkpoint_s", g->checkpoint_s);
    pdl_json_knum(w, "checkpoint_every_s", g->interval_s);
    pdl_json_knum(w, "failures", g->failures);
    pdl_json_end(w);
}

void cli_training_text(const struct pdl_goodput *g)
{
    struct pdl_sink *out = cli_out();
    char a[32], b[32];

    if (!(g->train_s > 0))
        return;
    pdl_printf(out, "Training takes %s, goodput %.1f %%\n",
               pdl_unit_format(g->train_s, PDL_UNIT_SECONDS, a, sizeof a),
               100 * g->goodput);
    for (int i = 0; i < NROWS; i++)
        if (value(g, i) > 0)
            pdl_printf(
                out, "  %-22s %12s  %5.1f %%\n", rows[i].text,
                pdl_unit_format(value(g, i), PDL_UNIT_SECONDS, a, sizeof a),
                100 * value(g, i) / g->train_s);
    if (g->checkpoints_s > 0)
        pdl_printf(
            out, "  a checkpoint (%s) every %s",
            pdl_unit_format(g->checkpoint_s, PDL_UNIT_SECONDS, a, sizeof a),
            pdl_unit_format(g->interval_s, PDL_UNIT_SECONDS, b, sizeof b));
    if (g->failures > 0)
        pdl_printf(out, ", %.3g failures", g->failures);
    if (g->checkpoints_s > 0)
        pdl_puts(out, "\n");
}
