/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of measurements, and tables of how well groups of rows match. */
#include "cli/questions/measured.h"

#include <string.h>

enum { MAX_FILE = 64 << 20 };

enum pdl_status cli_measured_open(struct cli_measured *m, struct pdl_err *err)
{
    struct pdl_bytes in;
    struct pdl_system sys;
    const struct pdl_doc *schema;
    enum pdl_status st = pdl_file_read(m->a, m->file, MAX_FILE, &in, err);

    if (st == PDL_OK)
        st = pdl_doc_json(m->a, in, m->file, &m->doc, err);
    if (st != PDL_OK)
        return st;
    schema = m->doc->kind == PDL_DOC_MAP ? pdl_doc_get(m->doc, "schema") : NULL;
    m->schema = schema && schema->kind == PDL_DOC_SCALAR ? schema->text : "";
    if (strcmp(m->schema, "paradl.layers/1") == 0 ||
        strcmp(m->schema, "paradl.runs/1") == 0)
        return m->system ? pdl_system_open(m->a, m->system, &sys, err) : PDL_OK;
    pdl_doc_fail(m->doc, err, "no measurements: schema is '%s'", m->schema);
    pdl_hint(err, "expected paradl.layers/1 or paradl.runs/1");
    return PDL_EPARSE;
}

static enum pdl_status add_group(pdl_arena *a, struct cli_groups *g,
                                 struct cli_group x)
{
    if (g->n == g->cap) {
        int cap = g->cap ? 2 * g->cap : 32;

        g->group = pdl_arena_grow(a, g->group, (size_t)g->n, (size_t)cap,
                                  sizeof *g->group);
        g->cap = g->group ? cap : 0;
        if (!g->group)
            return PDL_ENOMEM;
    }
    g->group[g->n++] = x;
    return PDL_OK;
}

/* Has row i's text been met before it? */
static bool met(const char *const *text, int i)
{
    for (int k = 0; k < i; k++)
        if (text[k] && strcmp(text[k], text[i]) == 0)
            return true;
    return false;
}

enum pdl_status cli_group_by(pdl_arena *a, struct cli_groups *g, const char *by,
                             const char *const *text, const double *projected,
                             const double *measured, int n)
{
    double *p = PDL_NEW(a, double, n + 1), *m = PDL_NEW(a, double, n + 1);

    if (!p || !m)
        return PDL_ENOMEM;
    for (int i = 0; i < n; i++) {
        struct cli_group x = {.by = by, .name = text[i]};
        enum pdl_status st;
        int k = 0;

        if (!text[i] || !*text[i] || met(text, i))
            continue;
        for (int r = i; r < n; r++)
            if (text[r] && strcmp(text[r], text[i]) == 0) {
                p[k] = projected[r];
                m[k++] = measured[r];
            }
        st = pdl_match_times(a, p, m, k, &x.match);
        if (st == PDL_OK)
            st = add_group(a, g, x);
        if (st != PDL_OK)
            return st;
    }
    return PDL_OK;
}

/* Groups [from, to) of one kind. Names have a common width, so that the tables
 * of all kinds line up. */
static void print_kind(const struct cli_groups *g, int from, int to, int width,
                       pdl_arena *a)
{
    const struct pdl_column columns[] = {
        {g->group[from].by, false}, {"rows", true}, {"accuracy", true},
        {"|error|", true},          {"bias", true}, {"Spearman", true},
    };
    struct pdl_table t;

    pdl_table_init(&t, a, columns, sizeof columns / sizeof columns[0]);
    t.whole = 1;
    for (int i = from; i < to; i++) {
        const struct cli_group *x = &g->group[i];

        pdl_table_cell(&t, "%-*s", width, x->name);
        pdl_table_cell(&t, "%5d", x->match.n);
        pdl_table_cell(&t, "%.1f %%", 100 * x->match.accuracy);
        pdl_table_cell(&t, "%.1f %%", 100 * x->match.median);
        pdl_table_cell(&t, "%+6.1f %%", 100 * x->match.bias);
        pdl_table_cell(&t, "%.2f", x->match.spearman);
    }
    pdl_table_print(&t, cli_text_width(), cli_out());
}

void cli_groups_print(const struct cli_groups *g, pdl_arena *a)
{
    enum { NUMBERS = 46 }; /* columns of a line that are not the name's */
    int width = 0;

    for (int i = 0; i < g->n; i++) {
        int w = pdl_text_width(g->group[i].name);

        if (w > width && w <= cli_text_width() - NUMBERS)
            width = w;
    }
    for (int from = 0, to; from < g->n; from = to) {
        for (to = from + 1; to < g->n; to++)
            if (strcmp(g->group[to].by, g->group[from].by) != 0)
                break;
        print_kind(g, from, to, width, a);
    }
}

void cli_groups_json(const struct cli_groups *g, struct pdl_json *w)
{
    pdl_json_key(w, "by");
    pdl_json_object(w);
    for (int i = 0; i < g->n; i++) {
        const struct cli_group *x = &g->group[i];

        if (i == 0 || strcmp(x->by, g->group[i - 1].by) != 0) {
            if (i > 0)
                pdl_json_end(w);
            pdl_json_key(w, x->by);
            pdl_json_object(w);
        }
        pdl_json_key(w, x->name);
        pdl_json_row(w);
        pdl_json_kint(w, "rows", x->match.n);
        pdl_json_knum(w, "mean_accuracy", x->match.accuracy);
        pdl_json_knum(w, "mape", x->match.mape);
        pdl_json_knum(w, "median_error", x->match.median);
        pdl_json_knum(w, "bias", x->match.bias);
        pdl_json_knum(w, "spearman", x->match.spearman);
        pdl_json_end(w);
    }
    if (g->n > 0)
        pdl_json_end(w);
    pdl_json_end(w);
}
