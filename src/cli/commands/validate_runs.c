/* SPDX-License-Identifier: Apache-2.0
 *
 * validate --measured with a file of training steps: projected against
 * measured, by run, by strategy and network, and how well strategies are put
 * in order. */
#include "cli/questions/runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Strategies that differ by less are a tie. */
static const double DIFFERENT = .1;
/* Repeats of one job differ by as much. */
static const double TIE = .03;

/* Memory of each set, by what was measured. */
static enum pdl_status group_memory(struct cli_measured *m,
                                    const struct cli_runs *s,
                                    struct cli_groups *g)
{
    const char **text = PDL_NEW(m->a, const char *, s->nmemory + 1);
    double *p = PDL_NEW(m->a, double, s->nmemory + 1);
    double *q = PDL_NEW(m->a, double, s->nmemory + 1);

    if (!text || !p || !q)
        return PDL_ENOMEM;
    for (int i = 0; i < s->nmemory; i++) {
        const struct cli_memory *x = &s->memory[i];

        text[i] = pdl_arena_printf(m->a, "%s %s",
                                   x->run->set ? x->run->set : "", x->kind);
        p[i] = x->projected;
        q[i] = x->measured;
    }
    return cli_group_by(m->a, g, "memory", text, p, q, s->nmemory);
}

static enum pdl_status group(struct cli_measured *m, const struct cli_runs *s,
                             struct cli_groups *g)
{
    static const char *const by[] = {"axes", "model", "set", "axes, model"};
    const char **text = PDL_NEW(m->a, const char *, s->n + 1);
    enum pdl_status st = text ? PDL_OK : PDL_ENOMEM;

    for (int k = 0; k < 4 && st == PDL_OK; k++) {
        for (int i = 0; i < s->n; i++) {
            const struct pdl_run *r = s->measured_run[i];
            int stem = (int)strcspn(r->model, ":");

            text[i] = k == 0   ? r->axes
                      : k == 1 ? pdl_arena_printf(m->a, "%.*s", stem, r->model)
                      : k == 2 ? r->set
                               : pdl_arena_printf(m->a, "%s %.*s", r->axes,
                                                  stem, r->model);
        }
        st =
            cli_group_by(m->a, g, by[k], text, s->projected, s->measured, s->n);
    }
    return st == PDL_OK ? group_memory(m, s, g) : st;
}

static bool same_job(const struct cli_run *a, const struct cli_run *b)
{
    return strcmp(a->q.model, b->q.model) == 0 &&
           a->job->x.pes == b->job->x.pes && a->q.batch == b->q.batch;
}

/* The run one would choose of those like run i: the quickest, and of those
 * that differ by less than the noise of measurements the one with the largest
 * micro-batch, which small costs hurt least. */
static int choose(const struct cli_runs *s, int i)
{
    int quickest = i, chosen;

    for (int k = 0; k < s->n; k++)
        if (same_job(&s->run[k], &s->run[i]) &&
            s->projected[k] < s->projected[quickest])
            quickest = k;
    chosen = quickest;
    for (int k = 0; k < s->n; k++)
        if (same_job(&s->run[k], &s->run[i]) &&
            s->projected[k] < (1 + TIE) * s->projected[quickest] &&
            s->run[k].micro > s->run[chosen].micro)
            chosen = k;
    return chosen;
}

/* Of runs with the same model and number of PEs: how much slower the chosen
 * one is than the best measured one; the mean. */
static double regret(const struct cli_runs *s)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        int best = i, chosen, size = 0;

        for (int k = 0; k < s->n; k++) {
            if (!same_job(&s->run[k], &s->run[i]))
                continue;
            if (k < i)
                break;
            size++;
            best = s->measured[k] < s->measured[best] ? k : best;
        }
        if (size < 2)
            continue;
        chosen = choose(s, i);
        sum += s->measured[chosen] / s->measured[best] - 1;
        n++;
    }
    return n > 0 ? sum / n : 0;
}

/* Memory of a run like with like; null where none was measured. */
static void json_memory(struct pdl_json *w, const struct cli_runs *s,
                        const struct pdl_run *r)
{
    const struct cli_memory *m = NULL;

    for (int i = 0; i < s->nmemory && !m; i++)
        m = s->memory[i].run == r ? &s->memory[i] : NULL;
    pdl_json_kstr(w, "memory", m ? m->kind : NULL);
    pdl_json_knum(w, "projected_bytes", m ? m->projected : NAN);
    pdl_json_knum(w, "measured_bytes", m ? m->measured : NAN);
}

/* Runs of which memory alone was measured. */
static void json_memory_rows(struct pdl_json *w, const struct cli_runs *s)
{
    for (int i = 0; i < s->nmemory; i++) {
        const struct pdl_run *r = s->memory[i].run;

        if (r->step_s > 0)
            continue;
        pdl_json_row(w);
        pdl_json_kstr(w, "id", r->id);
        pdl_json_kstr(w, "set", r->set);
        pdl_json_kstr(w, "model", r->model);
        pdl_json_kstr(w, "strategy", r->strategy);
        json_memory(w, s, r);
        pdl_json_end(w);
    }
}

static void json_rows(struct pdl_json *w, const struct cli_runs *s)
{
    pdl_json_key(w, "rows");
    pdl_json_array(w);
    for (int i = 0; i < s->n; i++) {
        const struct pdl_run *r = s->measured_run[i];
        const struct pdl_projection *x = &s->run[i].job->x;

        pdl_json_row(w);
        pdl_json_kstr(w, "id", r->id);
        pdl_json_kstr(w, "set", r->set);
        pdl_json_kstr(w, "model", r->model);
        pdl_json_kstr(w, "strategy", r->strategy);
        pdl_json_kint(w, "pes", x->pes);
        pdl_json_knum(w, "projected_s", x->step_s);
        pdl_json_knum(w, "low_s", x->low_s > 0 ? x->low_s : NAN);
        pdl_json_knum(w, "high_s", x->high_s > 0 ? x->high_s : NAN);
        pdl_json_knum(w, "measured_s", r->step_s);
        pdl_json_knum(w, "accuracy", 1 - fabs(x->step_s / r->step_s - 1));
        pdl_json_knum(w, "compute_s", x->compute_s);
        pdl_json_knum(w, "comm_s", x->comm_s);
        pdl_json_knum(w, "io_s", x->io_s);
        pdl_json_kbool(w, "feasible", x->feasible);
        pdl_json_kstr(w, "features", s->run[i].key);
        pdl_json_knum(w, "mfu", x->mfu);
        json_memory(w, s, r);
        pdl_json_end(w);
    }
    json_memory_rows(w, s);
    pdl_json_end(w);
}

static double coverage(const struct cli_runs *s)
{
    int in = 0;

    for (int i = 0; i < s->n; i++)
        in += s->run[i].job->x.low_s <= s->measured[i] &&
              s->measured[i] <= s->run[i].job->x.high_s;
    return s->n > 0 ? (double)in / s->n : 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the intervals, as a part of the projected time. */
static double median_width(const struct cli_runs *s, pdl_arena *a)
{
    double *w = PDL_NEW(a, double, s->n + 1);

    if (!w || s->n == 0)
        return 0;
    for (int i = 0; i < s->n; i++)
        w[i] = (s->run[i].job->x.high_s - s->run[i].job->x.low_s) /
               s->projected[i];
    qsort(w, (size_t)s->n, sizeof *w, by_size);
    return s->n % 2 ? w[s->n / 2] : (w[s->n / 2 - 1] + w[s->n / 2]) / 2;
}

/* What one line says of all runs. */
struct summary {
    struct pdl_time_match match;
    struct pdl_ranking ranking;
    double regret, coverage, width;
};

static enum pdl_status sum_up(struct cli_measured *m, const struct cli_runs *s,
                              struct summary *out)
{
    pdl_rank_pairs(s->measured_run, s->pes, s->projected, s->n, DIFFERENT,
                   &out->ranking);
    out->regret = regret(s);
    out->coverage = coverage(s);
    out->width = median_width(s, m->a);
    return pdl_match_times(m->a, s->projected, s->measured, s->n, &out->match);
}

/* Of runs that ran out of memory and those that did not: the part of verdicts
 * that are right, and the mean of both parts. */
static double right_verdicts(const struct cli_verdicts *v)
{
    return v->fit + v->out > 0 ? (double)(v->fit_right + v->out_right) /
                                     (double)(v->fit + v->out)
                               : NAN;
}

static double balanced_verdicts(const struct cli_verdicts *v)
{
    return v->fit > 0 && v->out > 0 ? ((double)v->fit_right / v->fit +
                                       (double)v->out_right / v->out) /
                                          2
                                    : NAN;
}

static void json_verdicts(struct pdl_json *w, const struct cli_verdicts *v)
{
    pdl_json_key(w, "fits");
    pdl_json_object(w);
    pdl_json_kint(w, "ran", v->fit);
    pdl_json_kint(w, "ran_right", v->fit_right);
    pdl_json_kint(w, "out_of_memory", v->out);
    pdl_json_kint(w, "out_of_memory_right", v->out_right);
    pdl_json_knum(w, "accuracy", right_verdicts(v));
    pdl_json_knum(w, "balanced", balanced_verdicts(v));
    pdl_json_key(w, "rows");
    pdl_json_array(w);
    for (int i = 0; i < v->n; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "id", v->row[i].run->id);
        pdl_json_knum(w, "projected_s", v->row[i].projected);
        pdl_json_kbool(w, "feasible", v->row[i].feasible);
        pdl_json_kbool(w, "fits", v->row[i].run->fits);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_end(w);
}

static void print_verdicts(const struct cli_verdicts *v, struct pdl_sink *out)
{
    if (v->fit + v->out == 0)
        return;
    pdl_printf(out,
               "out of memory or not: %.1f %% of %d verdicts are right (%d of "
               "%d that ran, %d of %d that did not)",
               100 * right_verdicts(v), v->fit + v->out, v->fit_right, v->fit,
               v->out_right, v->out);
    if (v->fit > 0 && v->out > 0)
        pdl_printf(out, ", balanced %.1f %%", 100 * balanced_verdicts(v));
    pdl_printf(out, "\n");
}

static enum pdl_status print_json(struct cli_measured *m,
                                  const struct cli_runs *s,
                                  const struct cli_groups *g,
                                  const struct summary *all,
                                  struct pdl_sink *out)
{
    enum pdl_status st = PDL_OK;
    struct pdl_json w;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "validate");
    if (m->command && out != cli_out())
        pdl_json_kstr(&w, "command", m->command);
    json_rows(&w, s);
    pdl_json_knum(&w, "mean_accuracy", all->match.accuracy);
    pdl_json_knum(&w, "mape", all->match.mape);
    pdl_json_knum(&w, "spearman", all->match.spearman);
    pdl_json_knum(&w, "regret", all->regret);
    pdl_json_knum(&w, "coverage", all->coverage);
    pdl_json_knum(&w, "median_width", all->width);
    pdl_json_key(&w, "ranking");
    pdl_json_flat(&w);
    pdl_json_int(&w, all->ranking.right);
    pdl_json_int(&w, all->ranking.pairs);
    pdl_json_end(&w);
    json_verdicts(&w, &s->verdicts);
    cli_groups_json(g, &w);
    if (m->ablate)
        st = cli_ablation_json(m, s, &w);
    pdl_json_end(&w);
    return st;
}

static void print_rows(const struct cli_runs *s, pdl_arena *a)
{
    /* the 80 % interval has room where a line has more than 80 columns */
    static const struct pdl_column columns[] = {
        {"run", false},     {"model", false},    {"strategy", false},
        {"PEs", true},      {"projected", true}, {"measured", true},
        {"accuracy", true}, {"80 %", false},
    };
    enum { STRATEGY = 3, WIDE = 120 };
    bool wide = cli_text_width() >= WIDE;
    struct pdl_table t;

    pdl_table_init(&t, a, columns,
                   (int)(sizeof columns / sizeof columns[0]) - !wide);
    t.whole = STRATEGY;
    for (int i = 0; i < s->n; i++) {
        const char *model = s->measured_run[i]->model;
        char p[32], q[32];

        pdl_table_cell(&t, "%s", s->measured_run[i]->id);
        pdl_table_cell(&t, "%.*s",
                       (int)(wide ? strlen(model) : strcspn(model, ":")),
                       model);
        pdl_table_cell(&t, "%s", s->measured_run[i]->strategy);
        pdl_table_cell(&t, "%lld", (long long)s->run[i].job->x.pes);
        pdl_table_cell(
            &t, "%s",
            pdl_unit_format(s->projected[i], PDL_UNIT_SECONDS, p, sizeof p));
        pdl_table_cell(
            &t, "%s",
            pdl_unit_format(s->measured[i], PDL_UNIT_SECONDS, q, sizeof q));
        pdl_table_cell(&t, "%.1f %%",
                       100 - 100 * fabs(s->projected[i] / s->measured[i] - 1));
        if (wide)
            pdl_table_cell(
                &t, "%+.0f +%.0f %%",
                100 * (s->run[i].job->x.low_s / s->projected[i] - 1),
                100 * (s->run[i].job->x.high_s / s->projected[i] - 1));
    }
    pdl_table_print(&t, cli_text_width(), cli_out());
}

static enum pdl_status print_text(struct cli_measured *m,
                                  const struct cli_runs *s,
                                  const struct cli_groups *g,
                                  const struct summary *all)
{
    struct pdl_sink *out = cli_out();

    print_rows(s, m->a);
    cli_groups_print(g, m->a);
    pdl_printf(out, "mean accuracy %.1f %%, Spearman %.2f, regret %.1f %%\n",
               100 * all->match.accuracy, all->match.spearman,
               100 * all->regret);
    pdl_printf(out,
               "80 %% intervals hold %.0f %% of the runs, median width "
               "%.0f %%\n",
               100 * all->coverage, 100 * all->width);
    print_verdicts(&s->verdicts, out);
    if (all->ranking.pairs > 0)
        pdl_printf(out,
                   "%d of %d pairs of strategies that differ by more than "
                   "%.0f %% are in order\n",
                   all->ranking.right, all->ranking.pairs, 100 * DIFFERENT);
    return m->ablate ? cli_ablation_print(m, s) : PDL_OK;
}

int cli_validate_runs(struct cli_measured *m, bool json, struct pdl_buf *page)
{
    struct pdl_err err = {"", ""};
    struct cli_groups g = {.n = 0};
    struct summary all = {.regret = 0};
    struct cli_runs s;
    enum pdl_status st = cli_runs_read(m, m->ablate, &s, &err);

    if (st != PDL_OK)
        return cli_fail(st, &err);
    st = sum_up(m, &s, &all);
    if (st == PDL_OK)
        st = group(m, &s, &g);
    if (st == PDL_OK && page)
        st = print_json(m, &s, &g, &all, &page->sink);
    if (st == PDL_OK)
        st = json ? print_json(m, &s, &g, &all, cli_out())
                  : print_text(m, &s, &g, &all);
    cli_runs_close(&s);
    if (st == PDL_OK)
        return EXIT_OK;
    pdl_fail(&err, st, "out of memory");
    return cli_fail(st, &err);
}
