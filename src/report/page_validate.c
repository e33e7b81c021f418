/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl validate`: projected against measured. Runs (or layers,
 * or the operations of a run on this machine) as points around the diagonal
 * with a band of 10 %, how well each group matches, and every row. */
#include "report_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4000, SETS = REPORT_COLOURS, PHASES = 8, SLOWEST = 20 };

struct rows {
    struct report_point *points;
    const struct pdl_doc **docs; /* of each point */
    int n;
    const char *sets[SETS];
    int nsets;
    bool here; /* the step and its phases beside the operations */
    struct report_point phases[PHASES];
    int nphases;
    struct report_point *layers; /* sums of their operations */
    int nlayers;
};

/* Rows of runs have an id and a set, those of layers a layer and an
 * operator. */
static const char *name_of(struct report_page *p, const struct pdl_doc *d)
{
    const char *id = report_opt_str(d, "id");
    const char *layer = report_opt_str(d, "layer");
    const char *model = report_opt_str(d, "model");
    const char *pass = report_opt_str(d, "pass");
    const char *text;

    if (id)
        return id;
    text = pdl_arena_printf(p->arena, "%s %s %s", model ? model : "",
                            layer ? layer : "?", pass ? pass : "");
    return text ? text : "?";
}

/* Of a run on this machine ("here") rows are the step, its phases and its
 * operations: "12 forward conv1". Operations are grouped by their pass. */
static const char *pass_of(struct report_page *p, const char *id)
{
    const char *word = strchr(id, ' ');

    return word ? pdl_arena_strndup(p->arena, word + 1, strcspn(word + 1, " "))
                : NULL;
}

static int colour_of(struct rows *r, const char *set)
{
    for (int i = 0; i < r->nsets; i++)
        if (strcmp(r->sets[i], set) == 0)
            return i;
    if (r->nsets == SETS)
        return SETS;
    r->sets[r->nsets] = set;
    return r->nsets++;
}

static void add_pair(struct report_page *p, const struct pdl_doc *d,
                     struct rows *r)
{
    if (r->nphases < PHASES)
        r->phases[r->nphases++] = (struct report_point){
            .name = name_of(p, d),
            .x = report_get_num(&p->rd, d, "measured_s"),
            .y = report_get_num(&p->rd, d, "projected_s")};
}

/* An operation of a layer: forward, backward, its exchanges. */
static void add_to_layer(struct report_page *p, const struct pdl_doc *d,
                         struct rows *r)
{
    const char *layer = report_opt_str(d, "layer");
    int i = r->nlayers - 1;

    if (!layer || !r->layers)
        return;
    while (i >= 0 && strcmp(r->layers[i].name, layer) != 0)
        i--;
    if (i < 0) {
        if (r->nlayers == MOST)
            return;
        i = r->nlayers++;
        r->layers[i] = (struct report_point){.name = layer};
    }
    r->layers[i].x += report_get_num(&p->rd, d, "measured_s");
    r->layers[i].y += report_get_num(&p->rd, d, "projected_s");
}

static void read_rows(struct report_page *p, const struct pdl_doc *list,
                      struct rows *r)
{
    r->points = PDL_NEW(p->arena, struct report_point, MOST);
    r->docs = PDL_NEW(p->arena, const struct pdl_doc *, MOST);
    r->layers = PDL_NEW(p->arena, struct report_point, MOST);
    for (const struct pdl_doc *d = list->child; r->points && r->docs && d;
         d = d->next) {
        const char *set = report_opt_str(d, "set");
        struct report_point *x = &r->points[r->n];
        int colour;

        if (!pdl_doc_get(d, "measured_s") || r->n == MOST)
            continue; /* memory alone was measured */
        set = set ? set : report_opt_str(d, "op");
        if (set && strcmp(set, "here") == 0) {
            r->here = true;
            set = pass_of(p, name_of(p, d));
            if (!set) { /* the step, a phase */
                add_pair(p, d, r);
                continue;
            }
            add_to_layer(p, d, r);
        }
        colour = colour_of(r, set ? set : "all");
        *x =
            (struct report_point){.name = name_of(p, d),
                                  .x = report_get_num(&p->rd, d, "measured_s"),
                                  .y = report_get_num(&p->rd, d, "projected_s"),
                                  .colour = colour,
                                  .grey = colour == SETS};
        r->docs[r->n] = d;
        r->n += x->x > 0 && x->y > 0;
    }
}

static void summary(struct report_page *p)
{
    static const struct {
        const char *key, *name;
    } facts[] = {{"mean_accuracy", "mean accuracy"},
                 {"mape", "mean error"},
                 {"spearman", "Spearman (rank)"},
                 {"coverage", "in the 80 % interval"},
                 {"median_width", "width of the interval"},
                 {"regret", "regret"}};

    pdl_puts(p->out, "<dl class=\"tiles\">\n");
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        const char *value = report_opt_str(p->doc, facts[i].key);
        double v = 0;

        if (!value ||
            pdl_doc_num(pdl_doc_get(p->doc, facts[i].key), PDL_UNIT_NONE, -1e30,
                        1e30, &v, NULL) != PDL_OK)
            continue;
        pdl_puts(p->out, "<div><dt>");
        report_text(p->out, facts[i].name);
        pdl_printf(p->out,
                   i == 2 ? "</dt><dd>%.2f</dd></div>\n"
                          : "</dt><dd>%.1f %%</dd></div>\n",
                   i == 2 ? v : 100 * v);
    }
    pdl_puts(p->out, "</dl>\n");
}

static void scatter(struct report_page *p, const struct rows *r)
{
    struct report_scatter c = {
        .id = "match-chart",
        .label = "projected against measured time, with a band of 10 percent",
        .x = {.title = "measured", .unit = PDL_UNIT_SECONDS, .log = true},
        .y = {.title = "projected", .unit = PDL_UNIT_SECONDS, .log = true},
        .points = r->points,
        .n = r->n,
        .names = r->sets,
        .nnames = r->nsets,
        .band = 0.1};
    int in = 0;

    if (r->n == 0) {
        report_para(p->out, "No times were measured.");
        return;
    }
    for (int i = 0; i < r->n; i++)
        in += fabs(r->points[i].y / r->points[i].x - 1) <= 0.1;
    report_para(p->out, "%d of %d are within 10 %%.", in, r->n);
    report_scatter(p->out, &c);
}

struct place {
    const struct report_point *x;
};

/* Measured and projected, one above the other. */
static void pairs(struct report_page *p, const char *id, const char *label,
                  const struct place *order, int n)
{
    static const char *const parts[] = {"measured", "projected"};
    struct report_bar bars[2 * SLOWEST] = {{.label = NULL}}, *b = bars;

    for (int i = 0; i < n; i++) {
        const struct report_point *x = order[i].x;

        *b++ = (struct report_bar){.label = x->name, .parts = {x->x, 0}};
        *b++ = (struct report_bar){.label = "", .parts = {0, x->y}};
    }
    report_bars(p->out, &(struct report_bars){.id = id,
                                              .label = label,
                                              .title = "time of one step",
                                              .unit = PDL_UNIT_SECONDS,
                                              .parts = parts,
                                              .nparts = 2,
                                              .bars = bars,
                                              .nbars = 2 * n});
}

static int by_measured(const void *pa, const void *pb)
{
    const struct report_point *a = ((const struct place *)pa)->x;
    const struct report_point *b = ((const struct place *)pb)->x;

    if (a->x != b->x)
        return a->x > b->x ? -1 : 1;
    return (a > b) - (a < b);
}

/* Measured, projected and how far they are apart. */
static void table_of(struct report_page *p, const struct report_point *x, int n)
{
    static const struct report_column columns[] = {
        {"", false}, {"measured", true}, {"projected", true}, {"off by", true}};
    struct report_table t;

    report_table_begin(&t, p->out, columns, 4);
    for (int i = 0; i < n; i++) {
        report_cell(&t, "%s", x[i].name);
        report_cell_unit(&t, x[i].x, PDL_UNIT_SECONDS);
        report_cell_unit(&t, x[i].y, PDL_UNIT_SECONDS);
        if (x[i].x > 0)
            report_cell(&t, "%+.1f %%", 100 * (x[i].y / x[i].x - 1));
        else
            report_cell(&t, " ");
    }
    report_table_end(&t);
}

/* The rows that take longest, as pairs of bars. */
static void slowest(struct report_page *p, const char *id, const char *label,
                    const struct report_point *x, int n)
{
    struct place *order = PDL_NEW(p->arena, struct place, n + 1);

    if (!order)
        return;
    for (int i = 0; i < n; i++)
        order[i].x = &x[i];
    qsort(order, (size_t)n, sizeof *order, by_measured);
    if (n > SLOWEST)
        report_para(p->out, "The %d that take longest of %d.", SLOWEST, n);
    pairs(p, id, label, order, n < SLOWEST ? n : SLOWEST);
}

static void layers(struct report_page *p, const struct rows *r)
{
    report_section(p->out, "layers", "Layer by layer");
    report_para(p->out, "All of a layer's operations in a step, its exchanges "
                        "with them; gradients that travel in buckets and "
                        "updates belong to no layer alone.");
    slowest(p, "layers-chart", "measured and projected layers", r->layers,
            r->nlayers);
    table_of(p, r->layers, r->nlayers);
    report_section_end(p->out);
}

static void here(struct report_page *p, const struct rows *r)
{
    struct place order[PHASES];

    for (int i = 0; i < r->nphases; i++)
        order[i].x = &r->phases[i];
    report_section(p->out, "phases", "Phase by phase");
    pairs(p, "phases-chart", "measured and projected phases", order,
          r->nphases);
    report_section_end(p->out);
    if (r->nlayers > 0)
        layers(p, r);
    report_section(p->out, "operations", "Operation by operation");
    slowest(p, "operations-chart", "measured and projected operations",
            r->points, r->n);
    report_section_end(p->out);
}

static void groups(struct report_page *p, const struct pdl_doc *by)
{
    static const struct report_column columns[] = {
        {"by", false},      {"group", false},     {"rows", true},
        {"accuracy", true}, {"mean error", true}, {"median error", true},
        {"bias", true},     {"Spearman", true}};
    static const char *const keys[] = {"mean_accuracy", "mape", "median_error",
                                       "bias", "spearman"};
    struct report_table t;

    report_section(p->out, "groups", "By group");
    report_table_begin(&t, p->out, columns, 8);
    for (const struct pdl_doc *g = by->child; g; g = g->next)
        for (const struct pdl_doc *d = g->child; d; d = d->next) {
            report_cell(&t, "%s", g->key ? g->key : "");
            report_cell(&t, "%s", d->key ? d->key : "");
            report_cell(&t, "%.0f", report_get_num(&p->rd, d, "rows"));
            for (int i = 0; i < 5; i++) {
                const struct pdl_doc *v = pdl_doc_get(d, keys[i]);
                double x = 0;

                if (v && pdl_doc_num(v, PDL_UNIT_NONE, -1e30, 1e30, &x, NULL) ==
                             PDL_OK)
                    report_cell(&t, i == 4 ? "%.2f" : "%.1f %%",
                                i == 4 ? x : 100 * x);
                else
                    report_cell(&t, " ");
            }
        }
    report_table_end(&t);
    report_section_end(p->out);
}

/* Runs: which network, cut how; the interval of the projection. */
static void table_of_runs(struct report_page *p, const struct rows *r)
{
    static const struct report_column columns[] = {
        {"run", false},      {"model", false},   {"strategy", false},
        {"PEs", true},       {"measured", true}, {"projected", true},
        {"80 % from", true}, {"to", true},       {"off by", true}};
    struct report_table t;

    report_table_begin(&t, p->out, columns, 9);
    for (int i = 0; i < r->n; i++) {
        const struct report_point *x = &r->points[i];
        const char *model = report_opt_str(r->docs[i], "model");
        const char *strategy = report_opt_str(r->docs[i], "strategy");

        report_cell(&t, "%s", x->name);
        report_cell(&t, "%s", model ? model : "");
        report_cell(&t, "%s", strategy ? strategy : "");
        report_cell(&t, "%.0f", report_get_num(&p->rd, r->docs[i], "pes"));
        report_cell_unit(&t, x->x, PDL_UNIT_SECONDS);
        report_cell_unit(&t, x->y, PDL_UNIT_SECONDS);
        report_cell_unit(&t, report_get_num(&p->rd, r->docs[i], "low_s"),
                         PDL_UNIT_SECONDS);
        report_cell_unit(&t, report_get_num(&p->rd, r->docs[i], "high_s"),
                         PDL_UNIT_SECONDS);
        report_cell(&t, "%+.1f %%", 100 * (x->y / x->x - 1));
    }
    report_table_end(&t);
}

static void numbers(struct report_page *p, const struct rows *r)
{
    bool runs = r->n > 0 && !r->here;

    for (int i = 0; runs && i < r->n; i++)
        runs = pdl_doc_get(r->docs[i], "strategy") &&
               pdl_doc_get(r->docs[i], "pes") &&
               report_opt_str(r->docs[i], "low_s") &&
               report_opt_str(r->docs[i], "high_s");
    report_section(p->out, "numbers", "Row by row");
    if (runs)
        table_of_runs(p, r);
    else
        table_of(p, r->points, r->n);
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "rows");
    const struct pdl_doc *by = pdl_doc_get(p->doc, "by");
    struct rows r = {.n = 0};

    report_head(p->out, "Projected against measured");
    summary(p);
    if (!list)
        return;
    read_rows(p, list, &r);
    report_section(p->out, "match", "How well do they match?");
    scatter(p, &r);
    report_section_end(p->out);
    if (r.here && p->rd.st == PDL_OK)
        here(p, &r);
    if (by && by->kind == PDL_DOC_MAP && by->child)
        groups(p, by);
    numbers(p, &r);
}

const struct report_page_kind report_page_validate = {"validate", write_page};
