/* SPDX-License-Identifier: Apache-2.0
 *
 * What each physical effect of the model is worth: the accuracy by strategy
 * when it alone is left out, nothing fitted again. (With a fit that never had
 * it: calibrate --without EFFECT, then validate --without EFFECT.) */
#include "cli/questions/runs.h"

#include <math.h>
#include <string.h>

enum { MAX_AXES = 12 };

struct strategies {
    const char *axes[MAX_AXES];
    int n;
};

static struct strategies strategies_of(const struct cli_runs *s)
{
    struct strategies x = {.n = 0};

    for (int i = 0; i < s->n; i++) {
        const char *axes = s->measured_run[i]->axes;
        int k = 0;

        while (k < x.n && strcmp(x.axes[k], axes) != 0)
            k++;
        if (k == x.n && x.n < MAX_AXES)
            x.axes[x.n++] = axes;
    }
    return x;
}

static double accuracy(const struct cli_runs *s, int i, uint32_t without)
{
    const struct cli_job *j = s->run[i].job;
    struct pdl_oracle_options opt = j->oracle;
    struct pdl_projection x;

    opt.without |= without;
    if (pdl_project(j->plan, &j->sys, &opt, &x, NULL) != PDL_OK)
        return 0;
    return 1 - fabs(x.step_s / s->measured[i] - 1);
}

/* The mean of each strategy, and of these means. */
static double by_axes(const struct cli_runs *s, const struct strategies *k,
                      uint32_t without, double *out)
{
    double sum[MAX_AXES] = {0}, all = 0;
    int n[MAX_AXES] = {0};

    for (int i = 0; i < s->n; i++)
        for (int a = 0; a < k->n; a++)
            if (strcmp(k->axes[a], s->measured_run[i]->axes) == 0) {
                sum[a] += accuracy(s, i, without);
                n[a]++;
            }
    for (int a = 0; a < k->n; a++) {
        out[a] = n[a] > 0 ? sum[a] / n[a] : 0;
        all += out[a];
    }
    return k->n > 0 ? all / k->n : 0;
}

/* Row -1 leaves nothing out. */
static const char *effect_name(int i)
{
    return i < 0 ? "nothing" : pdl_effect_at(i)->name;
}

static uint32_t bit(int i)
{
    return i < 0 ? 0 : UINT32_C(1) << i;
}

enum pdl_status cli_ablation_print(struct cli_measured *m,
                                   const struct cli_runs *s)
{
    struct strategies k = strategies_of(s);
    struct pdl_column columns[MAX_AXES + 2] = {{"without", false}};
    double v[MAX_AXES];
    struct pdl_table t;

    for (int a = 0; a < k.n; a++)
        columns[a + 1] = (struct pdl_column){k.axes[a], true};
    columns[k.n + 1] = (struct pdl_column){"mean", true};
    pdl_table_init(&t, m->a, columns, k.n + 2);
    for (int i = -1; i < 0 || pdl_effect_at(i); i++) {
        double mean = by_axes(s, &k, bit(i), v);

        pdl_table_cell(&t, "%s", effect_name(i));
        for (int a = 0; a < k.n; a++)
            pdl_table_cell(&t, "%.1f", 100 * v[a]);
        pdl_table_cell(&t, "%.1f", 100 * mean);
    }
    pdl_printf(cli_out(), "Mean accuracy in %% without an effect:\n");
    pdl_table_print(&t, cli_width(), cli_out());
    for (int i = 0; pdl_effect_at(i); i++)
        pdl_printf(cli_out(), "  %-12s %s\n", pdl_effect_at(i)->name,
                   pdl_effect_at(i)->summary);
    return PDL_OK;
}

enum pdl_status cli_ablation_json(struct cli_measured *m,
                                  const struct cli_runs *s, struct pdl_json *w)
{
    struct strategies k = strategies_of(s);
    double v[MAX_AXES];

    (void)m;
    pdl_json_key(w, "ablation");
    pdl_json_array(w);
    for (int i = -1; i < 0 || pdl_effect_at(i); i++) {
        double mean = by_axes(s, &k, bit(i), v);

        pdl_json_row(w);
        pdl_json_kstr(w, "without", effect_name(i));
        for (int a = 0; a < k.n; a++)
            pdl_json_knum(w, k.axes[a], v[a]);
        pdl_json_knum(w, "mean", mean);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    return PDL_OK;
}
