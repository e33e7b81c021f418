/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layers of a unit to make again where what is dear stays (as Checkmate,
 * Jain et al. 2020, chooses by tensor): light ones, and heavy ones as long as
 * they cost few seconds for the bytes they leave. What other units read stays
 * anyway. The sets that are tried grow by one heavy layer after another, in the
 * order of seconds a byte; the one is taken whose share of the unit's bytes is
 * furthest above its share of the seconds for which all is made again. */
#include "oracle/offload/chain.h"

#include <string.h>

static const double LEAST = .02; /* of a share, below which none is */

struct parts {
    struct chain *c;
    const struct pdl_plan *plan;
    const double *seconds, *all_s;
    bool *back;            /* of each tensor: backward reads it */
    int *maker;            /* of each tensor: its forward operation; -1: none */
    bool *shared;          /* of each node: other units read what it makes */
    int *of, *first, nall; /* forward operations by unit, in order */
    /* for the unit at hand */
    bool *again, *ran;    /* of nodes: may be, is made again */
    bool *wanted, *stays; /* of tensors */
};

bool oracle_is_heavy(const struct pdl_node *n)
{
    enum pdl_op_id id = pdl_op_id(n->op);

    return id == PDL_ID_CONV || id == PDL_ID_CONV_TRANSPOSE ||
           id == PDL_ID_LINEAR || id == PDL_ID_ATTENTION;
}

static int64_t bytes_of(const struct pdl_plan *p, int tensor)
{
    return p->tensors[tensor].kind == PDL_PLAN_ACTIVATION
               ? pdl_plan_elements(p, tensor, 0) *
                     pdl_dtype_bits(p->tensors[tensor].dtype) / 8
               : 0;
}

static const struct pdl_plan_op *op_of(const struct parts *x, int i)
{
    return &x->plan->ops[x->of[i]];
}

/* ---- what there is ------------------------------------------------------- */

static bool is_layer(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0;
}

static void list_forward(struct parts *x)
{
    const struct pdl_plan_stage *s = &x->plan->stages[0];
    int n = 0;

    for (int u = 0; u < x->c->n; u++) {
        x->first[u] = n;
        for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
            for (int k = 0; k < x->plan->items[i].nops; k++) {
                int op = x->plan->items[i].first_op + k;
                const struct pdl_plan_op *o = &x->plan->ops[op];

                if (!is_layer(o) || x->c->unit[o->node] != u)
                    continue;
                x->of[n++] = op;
                for (int t = 0; t < o->nout; t++)
                    x->maker[o->out[t]] = op;
            }
    }
    x->first[x->c->n] = x->nall = n;
}

static void find_readers(struct parts *x)
{
    const struct pdl_plan_stage *s = &x->plan->stages[0];

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int k = 0; k < x->plan->items[i].nops; k++) {
            const struct pdl_plan_op *o =
                &x->plan->ops[x->plan->items[i].first_op + k];

            for (int t = 0; o->kind != PDL_PLAN_OP_FREE && t < o->nin; t++) {
                int op = x->maker[o->in[t]];
                int node = op >= 0 ? x->plan->ops[op].node : -1;

                if (node >= 0 &&
                    (!is_layer(o) || x->c->unit[o->node] != x->c->unit[node]))
                    x->shared[node] = true;
            }
        }
    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++)
        for (int k = 0; k < x->plan->items[i].nops; k++) {
            const struct pdl_plan_op *o =
                &x->plan->ops[x->plan->items[i].first_op + k];

            for (int t = 0; o->kind != PDL_PLAN_OP_FREE && t < o->nin; t++)
                x->back[o->in[t]] = true;
        }
}

/* ---- one set ------------------------------------------------------------- */

static bool is_again(const struct parts *x, int op)
{
    return op >= 0 && x->again[x->plan->ops[op].node];
}

/* What is made again of the unit for what backward wants of it, and what of the
 * unit stays. */
static void weigh(struct parts *x, int unit, double *seconds, int64_t *bytes)
{
    *seconds = 0;
    *bytes = 0;
    for (int i = x->first[unit]; i < x->first[unit + 1]; i++) {
        const struct pdl_plan_op *o = op_of(x, i);

        x->ran[o->node] = false;
        for (int k = 0; k < o->nout; k++) {
            x->wanted[o->out[k]] = x->back[o->out[k]] && x->again[o->node];
            x->stays[o->out[k]] = x->back[o->out[k]] && !x->again[o->node];
        }
    }
    for (int i = x->first[unit + 1] - 1; i >= x->first[unit]; i--) {
        const struct pdl_plan_op *o = op_of(x, i);
        bool runs = false;

        for (int k = 0; k < o->nout; k++)
            runs = runs || x->wanted[o->out[k]];
        if (!runs)
            continue;
        *seconds += x->seconds[x->of[i]];
        x->ran[o->node] = true;
        for (int k = 0; k < o->nin; k++)
            *(is_again(x, x->maker[o->in[k]]) ? &x->wanted[o->in[k]]
                                              : &x->stays[o->in[k]]) = true;
    }
    for (int i = x->first[unit]; i < x->first[unit + 1]; i++) {
        const struct pdl_plan_op *o = op_of(x, i);

        for (int k = 0; k < o->nout && !x->shared[o->node]; k++)
            *bytes += x->stays[o->out[k]] ? bytes_of(x->plan, o->out[k]) : 0;
    }
}

/* ---- which set ----------------------------------------------------------- */

/* The heavy layer of the unit that costs least for a byte; -1: none is left. */
static int next_heavy(const struct parts *x, int unit)
{
    double least = 0;
    int best = -1;

    for (int i = x->first[unit]; i < x->first[unit + 1]; i++) {
        const struct pdl_plan_op *o = op_of(x, i);
        double bytes = 0, price;

        for (int k = 0; k < o->nout; k++)
            bytes += (double)bytes_of(x->plan, o->out[k]);
        price = bytes > 0 ? x->seconds[x->of[i]] / bytes : 0;
        if (bytes <= 0 || x->shared[o->node] || x->again[o->node] ||
            (best >= 0 && price >= least))
            continue;
        least = price;
        best = o->node;
    }
    return best;
}

static void choose(struct parts *x, int unit)
{
    const struct chain *c = x->c;
    int first = c->first[unit], n = c->last[unit] - first + 1, heavy = -1;
    double seconds, most = LEAST;
    int64_t whole, bytes;

    for (int i = first; i < first + n; i++)
        x->again[i] = false;
    weigh(x, unit, &seconds, &whole);
    for (int i = first; i < first + n; i++)
        x->again[i] = !x->shared[i] && !oracle_is_heavy(&c->whole->nodes[i]);
    do {
        double gain;

        if (heavy >= 0)
            x->again[heavy] = true;
        weigh(x, unit, &seconds, &bytes);
        gain =
            whole > 0 && x->all_s[unit] > 0
                ? 1 - (double)bytes / (double)whole - seconds / x->all_s[unit]
                : 0;
        if (gain > most) {
            most = gain;
            memcpy(c->part + first, x->ran + first,
                   (size_t)n * sizeof *c->part);
        }
        heavy = next_heavy(x, unit);
    } while (heavy >= 0);
}

enum pdl_status oracle_chain_part(struct chain *c, const struct pdl_plan *plan,
                                  const double *seconds, const double *all_s,
                                  struct pdl_err *err)
{
    struct parts x = {.c = c, .plan = plan, .seconds = seconds, .all_s = all_s};
    int nt = plan->ntensors + 1, nn = c->whole->nnodes + 1;

    x.back = PDL_NEW(c->arena, bool, nt);
    x.maker = PDL_NEW(c->arena, int, nt);
    x.wanted = PDL_NEW(c->arena, bool, nt);
    x.stays = PDL_NEW(c->arena, bool, nt);
    x.shared = PDL_NEW(c->arena, bool, nn);
    x.again = PDL_NEW(c->arena, bool, nn);
    x.ran = PDL_NEW(c->arena, bool, nn);
    c->part = PDL_NEW(c->arena, bool, nn);
    x.of = PDL_NEW(c->arena, int, plan->nops + 1);
    x.first = PDL_NEW(c->arena, int, c->n + 1);
    if (!x.back || !x.maker || !x.wanted || !x.stays || !x.shared || !x.again ||
        !x.ran || !c->part || !x.of || !x.first)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < nt; i++)
        x.maker[i] = -1;
    list_forward(&x);
    find_readers(&x);
    for (int u = 0; u < c->n; u++)
        choose(&x, u);
    return PDL_OK;
}
