/* SPDX-License-Identifier: Apache-2.0
 *
 * What a point holds: live bytes of stages from pieces, on every lane and every
 * rank that none is fuller than. */
#include "oracle/search/point_priv.h"

/* ---- memory -------------------------------------------------------------------------- */

/* Ranks that hold what none before them does. */
static void find_held(struct oracle_pricer *c, const struct oracle_point *x,
                      const struct rank_slots *work,
                      const struct rank_slots *update)
{
    int n = 0;

    for (int r = 0; r < work->n; r++) {
        int k = 0;

        while (k < n && (c->held_by[x->zero].work[k] != work->slot[r] ||
                         c->held_by[x->zero].update[k] != update->slot[r]))
            k++;
        if (k < n)
            continue;
        c->held_by[x->zero].work[n] = work->slot[r];
        c->held_by[x->zero].update[n++] = update->slot[r];
    }
    c->held_by[x->zero].n = n;
}

/* A rank by what it holds: slots of passes and of updates; -1: states are not
 * looked at, only what passes hold besides weights and their gradients. */
struct rank {
    int work, update;
};

/* A pass without weights and their gradients. */
static struct oracle_span without(const struct oracle_span *s)
{
    struct oracle_span x = *s;

    x.top_all -= s->top_gradients + s->top_weights;
    x.all -= s->gradients + s->weights;
    x.top_gradients = x.gradients = x.top_weights = x.weights = 0;
    return x;
}

/* A stage on a rank. */
static void live(const struct class *k, const struct oracle_point *x,
                 struct rank r, bool flying, struct oracle_lived *l)
{
    const struct stage_live *w = &k->work->live[r.work];
    bool all = r.update >= 0;

    *l = (struct oracle_lived){.weights = 0};
    if (all)
        *l = k->update[x->zero][x->optimizer]->lived[r.update];
    l->input = w->input;
    l->label = w->label;
    l->written = all ? w->written : 0;
    l->ahead = flying ? w->ahead : 0;
    l->forward = k->passes->live[r.work].forward;
    l->backward = k->passes->live[r.work].backward;
    l->late = k->passes->live[r.work].late;
    if (all)
        return;
    l->forward = without(&l->forward);
    l->backward = without(&l->backward);
    l->late = without(&l->late);
}

/* One rank of every lane that none is fuller than. */
static void live_rank(const struct oracle_pricer *c,
                      const struct oracle_point *x, struct rank r,
                      struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived lived[2 * MAX_CLASSES];
    const struct oracle_lived *stages[ORACLE_MAX_STAGES];
    bool done[2 * MAX_CLASSES] = {false};

    for (int i = 0; i < s->nlanes; i++) {
        int64_t l = s->lanes[i];

        for (int64_t k = 0; k < s->chunks; k++) {
            int class = s->of[k * c->mesh.pipe + l];
            bool flying = x->activations && s->in_flight[l * s->chunks + k] > 1;
            int at = 2 * class + flying;

            if (!done[at])
                live(&s->classes[class], x, r, flying, &lived[at]);
            done[at] = true;
            stages[k] = &lived[at];
        }
        oracle_lane_memory(stages, &s->in_flight[l * s->chunks], (int)s->chunks,
                           out);
    }
}

/* With backward in two tasks no two lanes hold the same. */
static void live_tasks(struct oracle_pricer *c, const struct oracle_point *x,
                       struct rank r, struct pdl_projection *out)
{
    const struct split *s = c->split;
    const struct oracle_order *o = oracle_point_order(c, true);
    struct oracle_lived lived[MAX_CLASSES][2];

    for (int i = 0; i < s->nclasses; i++)
        for (int f = 0; f < (x->activations ? 2 : 1); f++)
            live(&s->classes[i], x, r, f, &lived[i][f]);
    for (int64_t l = 0; o && l < c->mesh.pipe; l++) {
        const struct oracle_lived *stages[ORACLE_MAX_STAGES];
        const int64_t *n = &s->in_flight[l * s->chunks];

        for (int64_t k = 0; k < s->chunks; k++)
            stages[k] =
                &lived[s->of[k * c->mesh.pipe + l]][x->activations && n[k] > 1];
        oracle_tasks_memory(&o->runs[l], stages, n, (int)s->chunks, out);
    }
}

static void live_any(struct oracle_pricer *c, const struct oracle_point *x,
                     struct rank r, struct pdl_projection *out)
{
    if (pdl_schedule_splits(c->strategy.schedule))
        live_tasks(c, x, r, out);
    else
        live_rank(c, x, r, out);
}

/* Overlap or not, it is the same. */
static void fill_memory(struct oracle_pricer *c, const struct oracle_point *x,
                        struct pdl_projection *out)
{
    struct pdl_projection *known = &c->memory[x->zero][x->optimizer];
    const struct class *k = &c->split->classes[0];

    if (!c->known[x->zero][x->optimizer]) {
        *known = (struct pdl_projection){.reason = ""};
        if (c->held_by[x->zero].n == 0)
            find_held(c, x, k->works->ranks, k->update_ranks[x->zero]);
        for (int r = c->held_by[x->zero].n - 1; r >= 0; r--)
            live_any(c, x,
                     (struct rank){c->held_by[x->zero].work[r],
                                   c->held_by[x->zero].update[r]},
                     known);
        oracle_fill_device(&c->lite, known);
        c->known[x->zero][x->optimizer] = true;
    }
    *out = *known;
}

/* ---- what no sharding helps ---------------------------------------------------------- */

/* Sharded states leave passes as they are, and gather weights and scatter
 * gradients besides: what the same passes hold with whole weights, less weights
 * and their gradients, any of them holds. */
enum pdl_status oracle_point_least_bytes(struct oracle_pricer *c,
                                         const struct oracle_point *x,
                                         struct pdl_projection *out,
                                         struct pdl_err *err)
{
    struct oracle_point base = *x;
    const struct rank_slots *ranks;
    enum pdl_status st;

    base.zero = 0;
    base.optimizer = false;
    *out = (struct pdl_projection){.reason = ""};
    st = oracle_point_prepare(c, &base, err);
    if (st != PDL_OK)
        return st;
    ranks = c->split->classes[0].works->ranks;
    for (int r = 0; r < ranks->n; r++)
        live_any(c, &base, (struct rank){ranks->slot[r], -1}, out);
    return PDL_OK;
}

bool oracle_point_hopeless(struct oracle_pricer *c,
                           const struct oracle_point *x)
{
    struct pdl_projection y;
    struct pdl_err err;

    if (c->hopeless && oracle_same_passes(&c->hopeless_of, x))
        return c->hopeless > 0;
    c->hopeless_of = *x;
    c->hopeless = -1;
    if (oracle_point_least_bytes(c, x, &y, &err) == PDL_OK &&
        (y.allocated_bytes > oracle_capacity(&c->lite) ||
         !oracle_host_fits(&c->lite, &y)))
        c->hopeless = 1;
    return c->hopeless > 0;
}

enum pdl_status oracle_point_memory(struct oracle_pricer *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out, double *least_s,
                                    struct pdl_err *err)
{
    enum pdl_status st = oracle_point_prepare(c, x, err);
    bool fits;

    c->strategy.offload_optimizer = x->optimizer;
    if (st == PDL_OK && x->optimizer)
        st = oracle_host_known(&c->lite, err);
    if (st == PDL_OK)
        st = oracle_point_updates(c, x, err);
    if (st != PDL_OK)
        return st;
    fill_memory(c, x, out);
    fits = oracle_host_fits(&c->lite, out);
    out->feasible = out->peak_bytes <= out->capacity_bytes;
    if (!out->feasible)
        out->reason = "more memory than a PE has";
    else if (!fits)
        out->reason = "more memory than a host has";
    out->feasible = out->feasible && fits;
    *least_s = c->least;
    return PDL_OK;
}
