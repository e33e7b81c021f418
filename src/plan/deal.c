/* SPDX-License-Identifier: Apache-2.0
 *
 * Which position of a sequence stands at which place. A plan cuts places: the
 * part of a rank is one run of them, and splits, moves and boxes need to know
 * nothing else. Under a causal mask late positions see more keys than early
 * ones, so that with as many positions each the last rank would have nearly
 * twice the mean work (2 - 1/ranks). Zigzag gives each rank a run of early
 * positions and the run as far from the end (Brandon et al., Striped Attention,
 * 2023, name the imbalance; Llama 3, 2024, 3.3.2, cuts the sequence into twice
 * as many chunks as ranks and gives rank i the chunks i and 2P - 1 - i):
 * queries of all ranks see as many keys.
 *
 * The part of rank r begins at place s(r). It takes the ceil(s(r+1)/2) -
 * ceil(s(r)/2) positions that follow the front runs of the ranks before it, and
 * as many from the end as are left: for lengths that 2P does not divide, too.
 *
 * Places are positions (no zigzag) where the strategy says `plain`, where
 * attention has all positions and some heads (a2a), and in models that are not
 * causal all through or whose layers look at neighbours (recurrences, windows
 * of a convolution): there one order of places would be wrong or useless. */
#include "plan_priv.h"

/* The first place of a rank's part, as pdl_split cuts. */
static int64_t start(const struct pdl_deal *d, int64_t rank)
{
    int64_t lo, hi;

    if (rank >= d->ranks)
        return d->positions;
    pdl_split(d->positions, 1, d->ranks, rank, &lo, &hi);
    return lo;
}

/* Position at a place, and places from there on whose positions follow. */
static int64_t stands(const struct pdl_deal *d, int64_t place, int64_t *run)
{
    int64_t r, lo, hi, front;

    if (d->ranks < 2 || place < 0 || place >= d->positions) { /* in order */
        *run = place < 0 ? 1 : INT64_MAX - place;
        return place;
    }
    r = (int64_t)((double)place * (double)d->ranks / (double)d->positions);
    while (r > 0 && start(d, r) > place)
        r--;
    while (start(d, r + 1) <= place)
        r++;
    lo = start(d, r);
    hi = start(d, r + 1);
    front = (hi + 1) / 2 - (lo + 1) / 2;
    if (place < lo + front) {
        *run = lo + front - place;
        return (lo + 1) / 2 + place - lo;
    }
    *run = hi - place;
    return d->positions - hi / 2 + place - lo - front;
}

int64_t pdl_deal_position(const struct pdl_deal *d, int64_t place)
{
    int64_t run;

    return stands(d, place, &run);
}

int64_t pdl_deal_run(const struct pdl_deal *d, int64_t place, int64_t end)
{
    int64_t run;

    stands(d, place, &run);
    return run < end - place ? run : end - place;
}

bool pdl_deal_ascends(const struct pdl_deal *d, int64_t lo, int64_t hi)
{
    int64_t last = -1;

    for (int64_t at = lo, n; at < hi; at += n) {
        int64_t p = pdl_deal_position(d, at);

        n = pdl_deal_run(d, at, hi);
        if (p <= last)
            return false;
        last = p + n - 1;
    }
    return true;
}

double pdl_deal_mean(const struct pdl_deal *d, int64_t lo, int64_t hi)
{
    double sum = 0;

    for (int64_t at = lo, n; at < hi; at += n) {
        n = pdl_deal_run(d, at, hi);
        sum += (double)n *
               ((double)pdl_deal_position(d, at) + (double)(n - 1) / 2);
    }
    return hi > lo ? sum / (double)(hi - lo) : 0;
}

/* ---- may positions change their places? ------------------------------- */

/* Layers that treat every position alike, or by its number. */
static bool by_position(const struct pdl_node *n)
{
    static const enum pdl_op_id alike[] = {
        PDL_ID_LINEAR,
        PDL_ID_LAYER_NORM,
        PDL_ID_RMS_NORM,
        PDL_ID_EMBEDDING,
        PDL_ID_POSITION_EMBEDDING,
        PDL_ID_EXPERTS,
        PDL_ID_ATTENTION,
        PDL_ID_ROPE,
        PDL_ID_SLICE_HEADS,
        PDL_ID_JOIN_HEADS,
    };

    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++)
        if (plan_is(n, alike[i]))
            return true;
    if (plan_is(n, PDL_ID_CONCAT) || plan_is(n, PDL_ID_SLICE) ||
        plan_is(n, PDL_ID_SOFTMAX) || plan_is(n, PDL_ID_CUMSUM))
        return n->attr.axis > 0;
    return plan_rule_is_pointwise(n);
}

static bool has_positions(const struct pdl_model *m, int tensor, int64_t n)
{
    const struct pdl_tensor *t = &m->tensors[tensor];

    return (t->kind == PDL_TENSOR_INPUT || t->kind == PDL_TENSOR_ACTIVATION) &&
           t->rank >= 1 && t->dim[0] == n;
}

static bool keeps_positions(const struct pdl_model *m, const struct pdl_node *n,
                            int64_t positions)
{
    bool good = by_position(n);

    if (plan_is(n, PDL_ID_ATTENTION))
        good = n->attr.causal && n->nin == 3 && n->nweights == 0;
    for (int k = 0; k < n->nin && good; k++)
        good = has_positions(m, n->in[k], positions);
    for (int k = 0; k < n->nout && good; k++)
        good = has_positions(m, n->out[k], positions);
    return good;
}

/* Positions of the first attention; 0: there is none. */
static int64_t positions_of(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (plan_is(&m->nodes[i], PDL_ID_ATTENTION) && m->nodes[i].nin > 0)
            return m->tensors[m->nodes[i].in[0]].dim[0];
    return 0;
}

/* Ranks of the context axis; 0: none, or layers differ in it, for which no one
 * order of places is right. */
static int64_t context_ranks(const struct pdl_strategy *s)
{
    int64_t ranks = 0;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++) {
            const struct pdl_term *x = &s->clause[c].term[t];

            if (x->axis != PDL_AXIS_CONTEXT || x->size[0] < 2)
                continue;
            if (ranks && ranks != x->size[0])
                return 0;
            ranks = x->size[0];
        }
    return ranks;
}

struct pdl_deal plan_deal(const struct pdl_strategy *s,
                          const struct pdl_model *m)
{
    struct pdl_deal none = {0, 0}, d = {0, context_ranks(s)};

    if (d.ranks < 2 || s->context_order == PDL_ORDER_PLAIN ||
        s->context_kind == PDL_CONTEXT_A2A)
        return none;
    d.positions = positions_of(m);
    for (int i = 0; i < m->nnodes && d.positions > 0; i++)
        if (!keeps_positions(m, &m->nodes[i], d.positions))
            d.positions = 0;
    return d.positions > 0 ? d : none;
}

bool pdl_plan_dealt(const struct pdl_plan *p, int tensor)
{
    const struct pdl_plan_tensor *t = &p->tensors[tensor];

    return p->deal.ranks > 1 && t->ndims >= 2 &&
           t->dim[1] == p->deal.positions && t->kind != PDL_PLAN_WEIGHT &&
           t->kind != PDL_PLAN_WEIGHT_GRADIENT && t->kind != PDL_PLAN_STATE;
}
