/* SPDX-License-Identifier: Apache-2.0
 *
 * What a point holds: live bytes of stages from pieces, on every lane and every
 * rank that none is fuller than. */
#include "compose_priv.h"

/* ---- memory -------------------------------------------------------------------------- */

/* Ranks that hold what none before them does. */
static void find_held(struct oracle_compose *c, const struct oracle_point *x,
                      const struct piece_ranks *work,
                      const struct piece_ranks *update)
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

/* A stage on rank r of those that are held. */
static void live(const struct oracle_compose *c, const struct class *k,
                 const struct oracle_point *x, int r, bool flying,
                 struct oracle_lived *l)
{
    int work = c->held_by[x->zero].work[r];
    const struct piece_live *w = &k->work->live[work];

    *l = k->update[x->zero][x->optimizer]->lived[c->held_by[x->zero].update[r]];
    l->input = w->input;
    l->label = w->label;
    l->written = w->written;
    l->ahead = flying ? w->ahead : 0;
    l->forward = k->passes->live[work].forward;
    l->backward = k->passes->live[work].backward;
    l->late = k->passes->live[work].late;
}

/* One rank of every lane that none is fuller than. */
static void live_rank(const struct oracle_compose *c,
                      const struct oracle_point *x, int r,
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
                live(c, &s->classes[class], x, r, flying, &lived[at]);
            done[at] = true;
            stages[k] = &lived[at];
        }
        oracle_lane_memory(stages, &s->in_flight[l * s->chunks], (int)s->chunks,
                           out);
    }
}

/* With backward in two tasks no two lanes hold the same. */
static void live_apart(const struct oracle_compose *c,
                       const struct oracle_point *x, int r,
                       struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived lived[MAX_CLASSES][2];

    for (int i = 0; i < s->nclasses; i++)
        for (int f = 0; f < (x->activations ? 2 : 1); f++)
            live(c, &s->classes[i], x, r, f, &lived[i][f]);
    for (int64_t l = 0; l < c->mesh.pipe; l++)
        oracle_zero_bubble_memory(
            &lived[s->of[l]][x->activations && s->in_flight[l] > 1],
            oracle_zero_bubble_warm(c->mesh.pipe, x->bubble, l),
            oracle_zero_bubble_defer(x->bubble, l), c->plan.micro_batches, out);
}

/* The two stages of every lane of zb-v, task by task. From some micro-batch on
 * every round of tasks leaves what it found, so no more than the first of them
 * are looked at. */
static void live_v(struct oracle_compose *c, const struct oracle_point *x,
                   int r, struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived lived[MAX_CLASSES][2];
    struct pdl_plan plan;
    struct oracle o;
    int64_t m = c->plan.micro_batches;

    for (int i = 0; i < s->nclasses; i++)
        for (int f = 0; f < (x->activations ? 2 : 1); f++)
            live(c, &s->classes[i], x, r, f, &lived[i][f]);
    if (oracle_order_v(c, m < s->full ? m : s->full, &plan, &o))
        for (int64_t l = 0; l < c->mesh.pipe; l++) {
            const int64_t *n = &s->in_flight[2 * l];
            const struct oracle_lived *stages[2] = {
                &lived[s->of[l]][x->activations && n[0] > 1],
                &lived[s->of[c->mesh.pipe + l]][x->activations && n[1] > 1]};

            oracle_tasks_memory(&o, (int)l, stages, n, out);
        }
    pdl_arena_reset(oracle_forms_scratch(c->forms));
}

/* Overlap or not, it is the same. */
static void fill_memory(struct oracle_compose *c, const struct oracle_point *x,
                        struct pdl_projection *out)
{
    struct pdl_projection *known = &c->memory[x->zero][x->optimizer];
    const struct class *k = &c->split->classes[0];

    if (!c->known[x->zero][x->optimizer]) {
        *known = (struct pdl_projection){.reason = ""};
        if (c->held_by[x->zero].n == 0)
            find_held(c, x, k->works->ranks, k->update_ranks[x->zero]);
        for (int r = c->held_by[x->zero].n - 1; r >= 0; r--)
            if (x->bubble == ORACLE_BUBBLE_V)
                live_v(c, x, r, known);
            else if (x->bubble)
                live_apart(c, x, r, known);
            else
                live_rank(c, x, r, known);
        oracle_fill_device(&c->lite, known);
        c->known[x->zero][x->optimizer] = true;
    }
    *out = *known;
}

enum pdl_status oracle_compose_memory(struct oracle_compose *c,
                                      const struct oracle_point *x,
                                      struct pdl_projection *out,
                                      double *least_s, struct pdl_err *err)
{
    enum pdl_status st = oracle_compose_prepare(c, x, err);
    bool fits;

    c->strategy.offload_optimizer = x->optimizer;
    if (st == PDL_OK && x->optimizer)
        st = oracle_host_known(&c->lite, err);
    if (st == PDL_OK)
        st = oracle_compose_updates(c, x, err);
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
