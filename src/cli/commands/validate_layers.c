/* SPDX-License-Identifier: Apache-2.0
 *
 * validate --measured with a file of layer times. */
#include "cli/questions/measured.h"

#include <string.h>

static const char *const keys[] = {"model", "layer", "op", "split",
                                   "dtype", "pass",  NULL};

struct layers {
    struct pdl_layer_times times;
    struct pdl_system sys;
    double *projected, *measured;
    struct cli_groups groups;
    struct pdl_time_match all;
};

static enum pdl_status project(struct cli_measured *m, struct layers *l,
                               struct pdl_err *err)
{
    struct pdl_row_filter select;
    enum pdl_status st =
        pdl_row_filter_parse(m->a, m->select, keys, &select, err);

    if (st == PDL_OK)
        st = pdl_layers_read(m->a, m->doc, &select, &l->times, err);
    if (st == PDL_OK && l->times.n == 0)
        st = pdl_fail(err, PDL_EINVAL, "%s: nothing selected", m->file);
    if (st == PDL_OK)
        st = pdl_system_open(m->a, m->system ? m->system : "dgx-h200", &l->sys,
                             err);
    if (st != PDL_OK)
        return st;
    l->projected = PDL_NEW(m->a, double, l->times.n);
    l->measured = PDL_NEW(m->a, double, l->times.n);
    if (!l->projected || !l->measured)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < l->times.n; i++) {
        l->projected[i] = pdl_layer_seconds(&l->sys.pe, &l->times.row[i]);
        l->measured[i] = l->times.row[i].measured_s;
    }
    return pdl_match_times(m->a, l->projected, l->measured, l->times.n,
                           &l->all);
}

/* One text a row: a field, or fields joined. */
static const char *label(struct cli_measured *m, const struct pdl_layer_time *x,
                         int by)
{
    switch (by) {
    case 0:
        return *x->model ? x->model : "no model";
    case 1:
        return x->op;
    case 2:
        return x->pass;
    case 3:
        return x->split;
    case 4:
        return x->dtype;
    default:
        return *x->model ? pdl_arena_printf(m->a, "%s %s %s", x->model,
                                            x->dtype, x->pass)
                         : pdl_arena_printf(m->a, "%s %s %s", x->op, x->dtype,
                                            x->pass);
    }
}

static enum pdl_status group(struct cli_measured *m, struct layers *l)
{
    static const char *const by[] = {"model", "op",    "pass",
                                     "split", "dtype", "model, dtype, pass"};
    const char **text = PDL_NEW(m->a, const char *, l->times.n);
    enum pdl_status st = text ? PDL_OK : PDL_ENOMEM;

    for (int k = 0; k < 6 && st == PDL_OK; k++) {
        for (int i = 0; i < l->times.n; i++)
            text[i] = label(m, &l->times.row[i], k);
        st = cli_group_by(m->a, &l->groups, by[k], text, l->projected,
                          l->measured, l->times.n);
    }
    return st;
}

static void print_json(const struct layers *l, const char *command,
                       struct pdl_sink *out)
{
    struct pdl_json w;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "validate");
    if (command && out != cli_out())
        pdl_json_kstr(&w, "command", command);
    pdl_json_key(&w, "rows");
    pdl_json_array(&w);
    for (int i = 0; i < l->times.n; i++) {
        const struct pdl_layer_time *x = &l->times.row[i];
        double off = l->projected[i] / l->measured[i] - 1;

        pdl_json_row(&w);
        pdl_json_kstr(&w, "model", x->model);
        pdl_json_kstr(&w, "layer", x->layer);
        pdl_json_kstr(&w, "op", x->op);
        pdl_json_kstr(&w, "pass", x->pass);
        pdl_json_kstr(&w, "dtype", x->dtype);
        pdl_json_kstr(&w, "split", x->split);
        pdl_json_kint(&w, "parts", x->parts);
        pdl_json_knum(&w, "projected_s", l->projected[i]);
        pdl_json_knum(&w, "measured_s", l->measured[i]);
        pdl_json_knum(&w, "accuracy", 1 - (off < 0 ? -off : off));
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_knum(&w, "mean_accuracy", l->all.accuracy);
    pdl_json_knum(&w, "mape", l->all.mape);
    pdl_json_knum(&w, "median_error", l->all.median);
    pdl_json_knum(&w, "bias", l->all.bias);
    pdl_json_knum(&w, "spearman", l->all.spearman);
    cli_groups_json(&l->groups, &w);
    pdl_json_end(&w);
}

int cli_validate_layers(struct cli_measured *m, bool json, struct pdl_buf *page)
{
    struct pdl_err err = {"", ""};
    struct layers l = {.projected = NULL};
    enum pdl_status st = project(m, &l, &err);

    if (st == PDL_OK && group(m, &l) != PDL_OK)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st != PDL_OK)
        return cli_fail(st, &err);
    if (page)
        print_json(&l, m->command, &page->sink);
    if (json) {
        print_json(&l, NULL, cli_out());
        return EXIT_OK;
    }
    pdl_printf(cli_out(), "%d layer times of %s on %s\n", l.times.n, m->file,
               l.sys.pe.name);
    cli_groups_print(&l.groups, m->a);
    pdl_printf(cli_out(), "median |error| %.1f %%, bias %+.1f %%\n",
               100 * l.all.median, 100 * l.all.bias);
    return EXIT_OK;
}
