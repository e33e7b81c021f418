/* SPDX-License-Identifier: Apache-2.0
 *
 * What the optimizer keeps, in groups of units, each on the PE or on the host
 * (step/outofcore.c). Read off the updates of two plans: with all states here,
 * and with all there. Of a bucket's seconds and bytes a weight has as much as
 * its share of the bucket's.
 *
 * A unit is a group, but only six choose, since all places of them are tried;
 * their neighbours go with them. Gradients of the last units come first, so
 * that many go together there and few at the other end: six are enough for
 * nearly any part of the states. */
#include "oracle/offload/states.h"

enum { CHOOSE = 6 };

/* Parts of all states, from the last unit on. */
static const double upto[CHOOSE] = {.32, .60, .80, .90, .96, 1};

struct shares {
    const struct states_in *in;
    int *unit;                  /* of each tensor of the model; -1: none */
    struct pdl_karma_group *of; /* each unit */
    double *weights;            /* their bytes, of each unit */
};

/* Its layer is the first that uses it, as in plans. */
static void find_units(struct shares *s)
{
    const struct pdl_model *m = s->in->here.plan->model;

    for (int i = 0; i < m->ntensors; i++)
        s->unit[i] = -1;
    for (int i = m->nnodes - 1; i >= 0; i--)
        for (int j = 0; j < m->nodes[i].nweights; j++)
            s->unit[m->nodes[i].weights[j]] = s->in->unit[i];
}

static double bytes_of(const struct pdl_plan *p, int tensor)
{
    return (double)pdl_plan_elements(p, tensor, 0) *
           pdl_dtype_bits(p->tensors[tensor].dtype) / 8;
}

static void add_op(struct shares *s, const struct states_priced *x, int op,
                   bool host)
{
    const struct pdl_plan_op *o = &x->plan->ops[op];
    bool update = o->kind == PDL_PLAN_OP_UPDATE;
    double all = 0;

    if (!update && (!host || (o->kind != PDL_PLAN_OP_COPY_OUT &&
                              o->kind != PDL_PLAN_OP_COPY_IN)))
        return;
    for (int k = 0; k < o->nout; k++)
        all += bytes_of(x->plan, o->out[k]);
    for (int k = 0; k < o->nout; k++) {
        int t = x->plan->tensors[o->out[k]].model_tensor;
        int unit = t >= 0 ? s->unit[t] : -1;
        double n = bytes_of(x->plan, o->out[k]);
        double seconds = all > 0 ? x->seconds[op] * n / all : 0;

        if (unit < 0)
            continue;
        if (update && host)
            s->of[unit].host_s += seconds;
        else if (update)
            s->of[unit].device_s += seconds;
        else if (o->kind == PDL_PLAN_OP_COPY_OUT)
            s->of[unit].out_bytes += (int64_t)n;
        else
            s->of[unit].in_bytes += (int64_t)n;
        s->weights[unit] += update && !host ? n : 0;
    }
}

static void add_plan(struct shares *s, const struct states_priced *x, bool host)
{
    const struct pdl_plan_stage *st = &x->plan->stages[0];

    for (int i = st->first_update; i < st->first_update + st->nupdate; i++)
        for (int k = 0; k < x->plan->items[i].nops; k++)
            add_op(s, x, x->plan->items[i].first_op + k, host);
}

/* Units from the last to the first. */
static int collect(const struct shares *s, double all,
                   struct pdl_karma_group *group, int *of_unit)
{
    double sum = 0;
    int n = 0, choose = 0;

    for (int i = s->in->nunits - 1; i >= 0; i--) {
        bool first = choose == 0 || sum >= upto[choose - 1] * all;

        of_unit[i] = -1;
        if (!(s->weights[i] > 0))
            continue;
        choose += first;
        sum += s->weights[i];
        group[n] = s->of[i];
        group[n].block = i;
        group[n].as_before = !first;
        group[n].state_bytes =
            (int64_t)((double)s->in->state_bytes * s->weights[i] / all);
        of_unit[i] = n++;
    }
    return n;
}

enum pdl_status oracle_state_groups(pdl_arena *a, const struct states_in *in,
                                    struct states_out *out, struct pdl_err *err)
{
    struct shares s = {.in = in};
    struct pdl_karma_group *group =
        PDL_NEW(a, struct pdl_karma_group, in->nunits + 1);
    double all = 0;

    s.unit = PDL_NEW(a, int, in->here.plan->model->ntensors + 1);
    s.of = PDL_NEW(a, struct pdl_karma_group, in->nunits + 1);
    s.weights = PDL_NEW(a, double, in->nunits + 1);
    out->of_unit = PDL_NEW(a, int, in->nunits + 1);
    if (!group || !s.unit || !s.of || !s.weights || !out->of_unit)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    find_units(&s);
    add_plan(&s, &in->here, false);
    add_plan(&s, &in->there, true);
    for (int i = 0; i < in->nunits; i++)
        all += s.weights[i];
    out->n = collect(&s, all, group, out->of_unit);
    out->group = group;
    return PDL_OK;
}
