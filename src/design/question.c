/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a design question (doc/formats/design.md). Every entry of `designs` is
 * a grid: the product of its lists, systems first, then numbers of PEs,
 * parameters in the order written, networks. What contradicts itself is refused
 * where it stands. */
#include "design_priv.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DESIGNS = 100000, MAX_SETS = 16, MAX_WORKLOADS = 64 };

static const char *const goals[] = {[PDL_DESIGN_COST] = "cost",
                                    [PDL_DESIGN_TIME] = "time",
                                    [PDL_DESIGN_ENERGY] = "energy",
                                    [PDL_DESIGN_CARBON] = "carbon"};

const char *pdl_design_goal_name(enum pdl_design_goal g)
{
    return g >= 0 && g < PDL_NDESIGN_GOALS ? goals[g] : "";
}

void pdl_question_init(struct pdl_question *out)
{
    *out = (struct pdl_question){.name = "design",
                                 .years = 4,
                                 .utilisation = 0.8,
                                 .rack_w = 40e3,
                                 .region = "world",
                                 .goal = PDL_DESIGN_COST,
                                 .prices = "public"};
}

/* ---- values ------------------------------------------------------------ */

static enum pdl_status opt_num(const struct pdl_doc *map, const char *key,
                               enum pdl_unit unit, const double range[2],
                               double *out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d ? pdl_doc_num(d, unit, range[0], range[1], out, err) : PDL_OK;
}

static enum pdl_status opt_str(const struct pdl_doc *map, const char *key,
                               const char **out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d ? pdl_doc_str(d, out, err) : PDL_OK;
}

static enum pdl_status choice(const struct pdl_doc *map, const char *key,
                              const char *const *names, int n, int *out,
                              struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);
    const char *text = "";
    enum pdl_status st = d ? pdl_doc_str(d, &text, err) : PDL_OK;

    if (!d || st != PDL_OK)
        return st;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return PDL_OK;
        }
    pdl_doc_fail(d, err, "%s: '%.40s' is none", key, text);
    pdl_hint(err, "%s%s%s%s%s%s%s", names[0], n > 1 ? ", " : "",
             n > 1 ? names[1] : "", n > 2 ? ", " : "", n > 2 ? names[2] : "",
             n > 3 ? ", " : "", n > 3 ? names[3] : "");
    return PDL_EPARSE;
}

/* ---- workloads --------------------------------------------------------- */

static enum pdl_status read_workload(const struct pdl_doc *map,
                                     struct pdl_workload *w,
                                     struct pdl_err *err)
{
    static const char *const known[] = {
        "name",   "model",    "framework", "precision", "optimizer",
        "dim",    "batch",    "tokens",    "samples",   "steps",
        "weight", "deadline", NULL};
    static const double run[2] = {1, 1e18}, part[2] = {1e-9, 1e9},
                        time[2] = {1, 1e10};
    const struct pdl_doc *batch;
    enum pdl_status st;

    *w = (struct pdl_workload){.weight = 1};
    if (map->kind != PDL_DOC_MAP)
        return pdl_doc_fail(map, err, "workloads: expected a map");
    st = pdl_doc_only(map, known, err);
    if (st == PDL_OK)
        st = opt_str(map, "model", &w->model, err);
    if (st == PDL_OK && !w->model)
        return pdl_doc_fail(map, err, "a workload without 'model'");
    w->name = w->model;
    batch = pdl_doc_get(map, "batch");
    if (st == PDL_OK && !batch)
        return pdl_doc_fail(map, err, "%.60s: 'batch' is missing", w->model);
    if (st == PDL_OK)
        st = pdl_doc_int(batch, 1, 1LL << 40, &w->batch, err);
    if (st == PDL_OK)
        st = opt_str(map, "name", &w->name, err);
    if (st == PDL_OK)
        st = opt_str(map, "framework", &w->framework, err);
    if (st == PDL_OK)
        st = opt_str(map, "precision", &w->precision, err);
    if (st == PDL_OK)
        st = opt_str(map, "optimizer", &w->optimizer, err);
    if (st == PDL_OK)
        st = opt_str(map, "dim", &w->dim, err);
    if (st == PDL_OK)
        st = opt_num(map, "tokens", PDL_UNIT_NONE, run, &w->tokens, err);
    if (st == PDL_OK)
        st = opt_num(map, "samples", PDL_UNIT_NONE, run, &w->samples, err);
    if (st == PDL_OK)
        st = opt_num(map, "steps", PDL_UNIT_NONE, run, &w->steps, err);
    if (st == PDL_OK)
        st = opt_num(map, "weight", PDL_UNIT_NONE, part, &w->weight, err);
    if (st == PDL_OK)
        st = opt_num(map, "deadline", PDL_UNIT_SECONDS, time, &w->deadline_s,
                     err);
    if (st == PDL_OK &&
        (w->tokens > 0) + (w->samples > 0) + (w->steps > 0) != 1)
        st = pdl_doc_fail(map, err,
                          "%.60s: one of tokens, samples and steps says how "
                          "long it trains",
                          w->name);
    return st;
}

static enum pdl_status read_workloads(pdl_arena *a, const struct pdl_doc *root,
                                      struct pdl_question *q,
                                      struct pdl_err *err)
{
    const struct pdl_doc *list = pdl_doc_get(root, "workloads");
    struct pdl_workload *w;
    enum pdl_status st = PDL_OK;

    if (!list || list->kind != PDL_DOC_LIST || list->count < 1)
        return pdl_doc_fail(list ? list : root, err,
                            "workloads: expected a list of at least one");
    if (list->count > MAX_WORKLOADS)
        return pdl_doc_fail(list, err, "workloads: %d are more than %d",
                            list->count, MAX_WORKLOADS);
    w = PDL_NEW(a, struct pdl_workload, list->count);
    if (!w)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (const struct pdl_doc *d = list->child; d && st == PDL_OK; d = d->next)
        st = read_workload(d, &w[q->nworkloads++], err);
    q->workload = w;
    return st;
}

/* ---- designs ----------------------------------------------------------- */

/* The values of one dimension of the grid: a scalar, or a list of them. */
struct values {
    const char *key; /* NULL: no parameter of the system */
    const struct pdl_doc *first;
    int n;
};

static enum pdl_status read_values(const struct pdl_doc *d, const char *key,
                                   struct values *out, struct pdl_err *err)
{
    bool list = d->kind == PDL_DOC_LIST;

    *out = (struct values){key, list ? d->child : d, list ? d->count : 1};
    if (out->n == 0)
        return pdl_doc_fail(d, err, "%s: an empty list", d->key);
    for (const struct pdl_doc *v = out->first; v; v = list ? v->next : NULL)
        if (v->kind != PDL_DOC_SCALAR)
            return pdl_doc_fail(v, err, "%s: expected a text or a list of them",
                                d->key);
    return PDL_OK;
}

static const struct pdl_doc *value_at(const struct values *v, int i)
{
    const struct pdl_doc *d = v->first;

    while (i-- > 0)
        d = d->next;
    return d;
}

enum { MAX_DIMS = MAX_SETS + 5, MAX_SITES = 1024, MAX_LOCAL = 1000000 };

/* What every design of a grid grows to, and when. */
struct growth {
    double after_s;
    int64_t pes;
};
enum { MAX_GROWTH = 8 };

struct grid {
    struct growth then[MAX_GROWTH];
    int nthen;
    struct values dim[MAX_DIMS];
    int n, system, pes, network, sites, spares; /* which one; -1: none */
    int64_t points;
};

static enum pdl_status add_dim(const struct pdl_doc *d, const char *key,
                               struct grid *g, struct pdl_err *err)
{
    enum pdl_status st;

    if (g->n == MAX_DIMS)
        return pdl_doc_fail(d, err, "set: more than %d parameters", MAX_SETS);
    st = read_values(d, key, &g->dim[g->n], err);
    if (st == PDL_OK && (!pdl_mul64(g->points, g->dim[g->n].n, &g->points) ||
                         g->points > MAX_DESIGNS))
        return pdl_doc_fail(d, err, "more than %d designs", MAX_DESIGNS);
    g->n++;
    return st;
}

static enum pdl_status read_growth(const struct pdl_doc *list, struct grid *g,
                                   struct pdl_err *err)
{
    static const char *const known[] = {"after", "pes", NULL};
    static const double long_s[2] = {1, 1e10};
    double last = 0;

    if (list->kind != PDL_DOC_LIST || list->count < 1 ||
        list->count > MAX_GROWTH)
        return pdl_doc_fail(list, err, "then: expected a list of at most %d",
                            MAX_GROWTH);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        struct growth *t = &g->then[g->nthen++];
        const struct pdl_doc *pes;
        enum pdl_status st;

        if (d->kind != PDL_DOC_MAP || !pdl_doc_get(d, "after") ||
            !pdl_doc_get(d, "pes"))
            return pdl_doc_fail(d, err, "then: expected {after: TIME, pes: N}");
        pes = pdl_doc_get(d, "pes");
        st = pdl_doc_only(d, known, err);
        if (st == PDL_OK)
            st =
                opt_num(d, "after", PDL_UNIT_SECONDS, long_s, &t->after_s, err);
        if (st == PDL_OK)
            st = pdl_doc_int(pes, 1, 1 << 24, &t->pes, err);
        if (st == PDL_OK && t->after_s <= last)
            st = pdl_doc_fail(d, err, "then: not after what stands before");
        if (st != PDL_OK)
            return st;
        last = t->after_s;
    }
    return PDL_OK;
}

static enum pdl_status read_grid(const struct pdl_doc *map, struct grid *g,
                                 struct pdl_err *err)
{
    static const char *const known[] = {"system", "pes",    "set",  "network",
                                        "sites",  "spares", "then", NULL};
    const struct {
        const char *key;
        int *at;
    } more[] = {
        {"network", &g->network}, {"sites", &g->sites}, {"spares", &g->spares}};
    const struct pdl_doc *d;
    enum pdl_status st;

    *g = (struct grid){.points = 1, .network = -1, .sites = -1, .spares = -1};
    if (map->kind != PDL_DOC_MAP)
        return pdl_doc_fail(map, err, "designs: expected a map");
    st = pdl_doc_only(map, known, err);
    for (int i = 0; st == PDL_OK && i < 2; i++) {
        d = pdl_doc_get(map, known[i]);
        if (!d)
            return pdl_doc_fail(map, err, "a design without '%s'", known[i]);
        *(i ? &g->pes : &g->system) = g->n;
        st = add_dim(d, NULL, g, err);
    }
    d = pdl_doc_get(map, "set");
    if (st == PDL_OK && d && d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, err, "set: expected a map of parameters");
    for (d = d ? d->child : NULL; d && st == PDL_OK; d = d->next)
        st = add_dim(d, d->key, g, err);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        d = pdl_doc_get(map, more[i].key);
        if (st != PDL_OK || !d)
            continue;
        *more[i].at = g->n;
        st = add_dim(d, NULL, g, err);
    }
    d = pdl_doc_get(map, "then");
    return st == PDL_OK && d ? read_growth(d, g, err) : st;
}

/* "4": gradients cross in every step; "4:local=100": in every hundredth. */
static enum pdl_status read_sites(const struct pdl_doc *v,
                                  struct pdl_design_text *out,
                                  struct pdl_err *err)
{
    static const char key[] = ":local=";
    const char *more = strchr(v->text, ':');
    char count[16];

    snprintf(count, sizeof count, "%.*s",
             more && more - v->text < 15 ? (int)(more - v->text) : 15, v->text);
    out->local_steps = 1;
    if (pdl_int_parse(count, 1, MAX_SITES, &out->sites, NULL) == PDL_OK &&
        (!more || (out->sites > 1 && strncmp(more, key, sizeof key - 1) == 0 &&
                   pdl_int_parse(more + sizeof key - 1, 1, MAX_LOCAL,
                                 &out->local_steps, NULL) == PDL_OK)))
        return PDL_OK;
    pdl_doc_fail(v, err, "sites: '%.40s' is no number of sites", v->text);
    pdl_hint(err, "4, or 4:local=100, at most %d sites", MAX_SITES);
    return PDL_EPARSE;
}

static enum pdl_status one_design(pdl_arena *a, const struct grid *g,
                                  int64_t at, struct pdl_design_text *out,
                                  struct pdl_err *err)
{
    struct pdl_buf system, label;
    enum pdl_status st = PDL_OK;
    int pick[MAX_DIMS];

    for (int i = g->n - 1; i >= 0; i--) {
        pick[i] = (int)(at % g->dim[i].n);
        at /= g->dim[i].n;
    }
    pdl_buf_init(&system);
    pdl_buf_init(&label);
    for (int i = 0; i < g->n && st == PDL_OK; i++) {
        const struct pdl_doc *v = value_at(&g->dim[i], pick[i]);

        if (i == g->pes) {
            st = pdl_doc_int(v, 1, 1 << 24, &out->pes, err);
            pdl_printf(&label.sink, " x%s", v->text);
        } else if (i == g->sites) {
            st = read_sites(v, out, err);
            pdl_printf(&label.sink, " sites=%s", v->text);
        } else if (i == g->spares) {
            st = pdl_doc_num(v, PDL_UNIT_NONE, 0, 1, &out->spares, err);
            pdl_printf(&label.sink, " spares=%s", v->text);
        } else if (i == g->network) {
            out->network = v->text;
            pdl_printf(&label.sink, " %s", v->text);
        } else if (i == g->system) {
            pdl_puts(&system.sink, v->text);
            pdl_puts(&label.sink, v->text);
        } else {
            pdl_printf(&system.sink, "%c%s=%s",
                       strchr(system.text, ':') ? ',' : ':', g->dim[i].key,
                       v->text);
            pdl_printf(&label.sink, " %s=%s", g->dim[i].key, v->text);
        }
    }
    out->system = pdl_arena_strdup(a, system.text);
    out->label = pdl_arena_strdup(a, label.text);
    if (st == PDL_OK && (system.sink.failed || label.sink.failed ||
                         !out->system || !out->label))
        st = pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    pdl_buf_free(&system);
    pdl_buf_free(&label);
    return st;
}

static enum pdl_status grow_one(pdl_arena *a, const struct grid *g, int at,
                                struct pdl_design_text *all,
                                struct pdl_question *q, struct pdl_err *err)
{
    struct pdl_design_text *first = &all[at];

    for (int i = 0; i < g->nthen; i++) {
        struct pdl_design_text *t = &all[q->nmachines], *last = &all[at];

        if (g->then[i].pes <= last->pes)
            return pdl_fail(err, PDL_EINVAL,
                            "design '%.120s' does not grow: %lld PEs, then "
                            "%lld",
                            first->label, (long long)last->pes,
                            (long long)g->then[i].pes);
        *t = *first;
        t->pes = g->then[i].pes;
        t->after_s = g->then[i].after_s;
        t->then = 0;
        first->label = pdl_arena_printf(a, "%s +x%lld@%gd", first->label,
                                        (long long)(t->pes - last->pes),
                                        t->after_s / 86400);
        if (!first->label)
            return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
        t->label = first->label;
        last->then = q->nmachines;
        at = q->nmachines++;
    }
    return PDL_OK;
}

/* Behind all designs: what they grow to. */
static enum pdl_status grow(pdl_arena *a, const struct pdl_doc *root,
                            struct pdl_design_text *all, struct pdl_question *q,
                            struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(root, "designs")->child;
    enum pdl_status st = PDL_OK;
    int at = 0;

    for (; d && st == PDL_OK; d = d->next) {
        struct grid g;

        st = read_grid(d, &g, err);
        if (st == PDL_OK && g.nthen > 0)
            all = pdl_arena_grow(a, all, (size_t)q->nmachines,
                                 (size_t)(q->nmachines + g.points * g.nthen),
                                 sizeof *all);
        if (!all)
            return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
        for (int64_t i = 0; i < g.points && st == PDL_OK; i++)
            st = grow_one(a, &g, at++, all, q, err);
    }
    q->design = all;
    return st;
}

static enum pdl_status read_designs(pdl_arena *a, const struct pdl_doc *root,
                                    struct pdl_question *q, struct pdl_err *err)
{
    const struct pdl_doc *list = pdl_doc_get(root, "designs");
    struct pdl_design_text *all = NULL;
    enum pdl_status st = PDL_OK;

    if (!list || list->kind != PDL_DOC_LIST || list->count < 1)
        return pdl_doc_fail(list ? list : root, err,
                            "designs: expected a list of at least one");
    for (const struct pdl_doc *d = list->child; d && st == PDL_OK;
         d = d->next) {
        struct grid g;

        st = read_grid(d, &g, err);
        if (st == PDL_OK && g.points > MAX_DESIGNS - q->ndesigns)
            st = pdl_doc_fail(d, err, "more than %d designs", MAX_DESIGNS);
        if (st != PDL_OK)
            return st;
        all = pdl_arena_grow(a, all, (size_t)q->ndesigns,
                             (size_t)(q->ndesigns + g.points), sizeof *all);
        if (!all)
            return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
        for (int64_t i = 0; i < g.points && st == PDL_OK; i++) {
            struct pdl_design_text *t = &all[q->ndesigns++];

            t->spares = q->spares;
            st = one_design(a, &g, i, t, err);
            if (st == PDL_OK && t->spares > 0 && !(q->repair_s > 0))
                st = pdl_doc_fail(d, err,
                                  "spares: without 'repair_time' nodes are "
                                  "never missing");
        }
    }
    q->nmachines = q->ndesigns;
    return st == PDL_OK ? grow(a, root, all, q, err) : st;
}

/* ---- the rest ---------------------------------------------------------- */

static enum pdl_status read_terms(const struct pdl_doc *root,
                                  struct pdl_question *q, struct pdl_err *err)
{
    static const char *const money[] = {"buy", "rent"};
    static const double amount[2] = {1, 1e15}, watt[2] = {1, 1e12},
                        years[2] = {0.01, 100}, part[2] = {0.001, 1},
                        spare[2] = {0, 1}, rate[2] = {1, 1e16},
                        away[2] = {0, 10}, repair[2] = {0, 1e9};
    const struct pdl_doc *racks = pdl_doc_get(root, "racks");
    const struct pdl_doc *delivery = pdl_doc_get(root, "delivery");
    int goal = (int)q->goal, rent = q->rent;
    enum pdl_status st = opt_str(root, "name", &q->name, err);

    if (st == PDL_OK)
        st = opt_num(root, "budget", PDL_UNIT_NONE, amount, &q->budget, err);
    if (st == PDL_OK)
        st = opt_num(root, "power", PDL_UNIT_WATT, watt, &q->power_w, err);
    if (st == PDL_OK && racks)
        st = pdl_doc_int(racks, 1, 1 << 24, &q->racks, err);
    if (st == PDL_OK && delivery)
        st = pdl_doc_int(delivery, 1, 1 << 24, &q->delivery, err);
    if (st == PDL_OK)
        st = choice(root, "money", money, 2, &rent, err);
    if (st == PDL_OK)
        st = opt_num(root, "years", PDL_UNIT_NONE, years, &q->years, err);
    if (st == PDL_OK)
        st = opt_num(root, "utilisation", PDL_UNIT_NONE, part, &q->utilisation,
                     err);
    if (st == PDL_OK)
        st = opt_num(root, "rack_power", PDL_UNIT_WATT, watt, &q->rack_w, err);
    if (st == PDL_OK)
        st = opt_num(root, "spares", PDL_UNIT_NONE, spare, &q->spares, err);
    if (st == PDL_OK)
        st = opt_num(root, "repair_time", PDL_UNIT_SECONDS, repair,
                     &q->repair_s, err);
    if (st == PDL_OK)
        st = opt_num(root, "site_link", PDL_UNIT_BYTES_S, rate,
                     &q->site_bytes_per_s, err);
    if (st == PDL_OK)
        st = opt_num(root, "site_latency", PDL_UNIT_SECONDS, away,
                     &q->site_latency_s, err);
    if (st == PDL_OK)
        st = opt_str(root, "region", &q->region, err);
    if (st == PDL_OK)
        st = opt_str(root, "prices", &q->prices, err);
    if (st == PDL_OK)
        st = choice(root, "goal", goals, PDL_NDESIGN_GOALS, &goal, err);
    q->goal = (enum pdl_design_goal)goal;
    q->rent = rent != 0;
    return st;
}

enum pdl_status pdl_question_read(pdl_arena *a, struct pdl_bytes in,
                                  const char *name, struct pdl_question *out,
                                  struct pdl_err *err)
{
    static const char *const known[] = {
        "name",        "workloads",    "designs",     "budget", "delivery",
        "power",       "racks",        "money",       "years",  "region",
        "utilisation", "spares",       "rack_power",  "goal",   "prices",
        "site_link",   "site_latency", "repair_time", NULL};
    const struct pdl_doc *root = NULL;
    struct pdl_question q;
    enum pdl_status st = pdl_doc_yaml(a, in, name, &root, err);

    if (st != PDL_OK)
        return st;
    pdl_question_init(&q);
    if (root->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, err, "design: expected a map");
    st = pdl_doc_only(root, known, err);
    if (st == PDL_OK)
        st = read_terms(root, &q, err);
    if (st == PDL_OK)
        st = read_workloads(a, root, &q, err);
    if (st == PDL_OK)
        st = read_designs(a, root, &q, err);
    if (st == PDL_OK)
        *out = q;
    return st;
}
