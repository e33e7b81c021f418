/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's part for operators: the operands and results of each pass lie
 * as one contraction says, cut in the same items, and every window has its
 * halo. */
#include "check.h"

#include <string.h>

/* The cuts a factor may make in this node: every role, every shard of every
 * operand. */
static bool next_cut(const struct plan_site *s, int *i, struct plan_cut *cut)
{
    static const struct {
        enum pdl_axis axis;
        int dim;
    } roles[] = {{PDL_AXIS_DATA, 0},    {PDL_AXIS_SPATIAL, 0},
                 {PDL_AXIS_SPATIAL, 1}, {PDL_AXIS_SPATIAL, 2},
                 {PDL_AXIS_FILTER, 0},  {PDL_AXIS_CHANNEL, 0},
                 {PDL_AXIS_TENSOR, 0}};
    int nroles = sizeof roles / sizeof roles[0];

    for (; *i < nroles + s->node->nin * PDL_BOX_DIMS; (*i)++) {
        int k = *i - nroles;
        bool ok = k < 0
                      ? plan_rule_role(s, roles[*i].axis, roles[*i].dim, cut)
                      : k % PDL_BOX_DIMS <=
                                s->model->tensors[s->node->in[k / PDL_BOX_DIMS]]
                                    .rank &&
                            plan_rule_follow(s, k / PDL_BOX_DIMS,
                                             k % PDL_BOX_DIMS, cut);

        if (ok) {
            (*i)++;
            return true;
        }
    }
    return false;
}

static int made(int dim)
{
    return dim >= 0 ? dim : PDL_PARTIAL;
}

/* Is the operation, seen by factor f, this cut (NULL: no cut)? */
static bool is_cut(const struct plan_check *c, const struct pdl_plan_op *o,
                   int f, const struct plan_cut *cut)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    int nx = n->nin, w = o->nin - nx;

    for (int i = 0; i < nx; i++)
        if (plan_check_at(c, o->in[i], f) != (cut ? cut->x[i] : PDL_REPLICATED))
            return false;
    for (int j = 0; j < w && j < n->nweights; j++)
        if (plan_check_at(c, o->in[nx + j], f) !=
            (cut ? cut->w[j] : PDL_REPLICATED))
            return false;
    for (int k = 0; k < o->nout; k++)
        if (plan_check_at(c, o->out[k], f) !=
            (cut ? made(cut->y[k]) : PDL_REPLICATED))
            return false;
    return true;
}

/* How factor f cuts the node, read off its forward operation: 1 and the cut,
 * 0 for no cut, -1 when the operands are no contraction at all. Batch norm's
 * forward may be in two parts; there x alone decides. */
static int cut_of(const struct plan_check *c, int node, int f,
                  struct plan_cut *cut)
{
    const struct pdl_plan_op *o = &c->p->ops[c->forward[node]];
    struct plan_site s;
    int i = 0, d = plan_check_at(c, o->in[0], f);

    plan_site_init(c->p->model, node, 1, &s);
    if (plan_rule_has_statistics(s.node))
        return d == PDL_REPLICATED                         ? 0
               : d >= 0 && plan_rule_follow(&s, 0, d, cut) ? 1
                                                           : -1;
    if (is_cut(c, o, f, NULL))
        return 0;
    while (next_cut(&s, &i, cut))
        if (is_cut(c, o, f, cut))
            return 1;
    return plan_rule_queries(&s, cut) && is_cut(c, o, f, cut) ? 1 : -1;
}

/* Where the cut puts what belongs to a model tensor: x, w, y of the node as
 * `whole`, their gradients as partial sums where the index is missing. */
static int place_of(const struct pdl_node *n, const struct plan_cut *cut,
                    const struct pdl_plan_tensor *t)
{
    bool grad =
        t->kind == PDL_PLAN_GRADIENT || t->kind == PDL_PLAN_WEIGHT_GRADIENT;

    for (int k = 0; k < n->nout; k++)
        if (n->out[k] == t->model_tensor) /* dy is needed whole */
            return cut->y[k];
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] == t->model_tensor)
            return grad ? made(cut->x[i]) : cut->x[i];
    for (int j = 0; j < n->nweights; j++)
        if (n->weights[j] == t->model_tensor) {
            bool bias = j == 1 && plan_rule_has_bias(n);

            if (grad && bias && cut->y[0] < 0)
                return PDL_REPLICATED;
            return grad ? made(cut->w[j]) : cut->w[j];
        }
    return PDL_REPLICATED;
}

/* Batch norm's sums [sets, 2, C]: split by set or channel, and inside a set
 * partial until they have met. */
static bool statistic_fits(const struct plan_check *c, int x_dim, int place)
{
    enum pdl_bn bn = c->p->strategy->bn;
    bool shared =
        (x_dim >= 2 && bn != PDL_BN_LOCAL) || (x_dim == 0 && bn == PDL_BN_SYNC);

    if (x_dim == PDL_REPLICATED)
        return place == PDL_REPLICATED;
    if (shared)
        return place == PDL_REPLICATED || place == PDL_PARTIAL;
    return place == (x_dim == 1 ? 2 : 0);
}

/* Is operand k a gradient of an output? (It may bear another name: an add
 * hands its gradient on.) */
static int output_gradient(const struct pdl_node *n,
                           const struct pdl_plan_op *o, int k)
{
    int first = o->pass == PDL_BACKWARD_WEIGHTS ? n->nin : 0;

    return o->pass != PDL_FORWARD && k < o->nin && k >= first &&
                   k < first + n->nout
               ? k - first
               : -1;
}

/* Does dy come as partial sums over a factor that does not cut the node?
 * Gradients are linear in it, so they are such sums too. */
static bool reads_sums(const struct plan_check *c, const struct pdl_plan_op *o,
                       int f)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    int first = o->pass == PDL_BACKWARD_WEIGHTS ? n->nin : 0;

    return o->pass != PDL_FORWARD && !plan_rule_has_statistics(n) &&
           first < o->nin && plan_check_at(c, o->in[first], f) == PDL_PARTIAL;
}

static bool operand_fits(const struct plan_check *c,
                         const struct pdl_plan_op *o, int k, int f, int cut,
                         const struct plan_cut *how)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    const struct pdl_plan_tensor *x =
        plan_check_tensor(c, k < o->nin ? o->in[k] : o->out[k - o->nin]);
    int dy = output_gradient(n, o, k);
    int place = x->place.at[f], want;
    bool exchanged = o->pass == PDL_BACKWARD_WEIGHTS &&
                     plan_check_tensor(c, o->in[0])->kind == PDL_PLAN_STATISTIC;

    if (x->kind == PDL_PLAN_STATISTIC)
        return statistic_fits(c, cut ? how->x[0] : PDL_REPLICATED, place);
    if (!cut && reads_sums(c, o, f))
        return place == (dy >= 0 || k >= o->nin ? PDL_PARTIAL : PDL_REPLICATED);
    want = !cut ? PDL_REPLICATED : dy >= 0 ? how->y[dy] : place_of(n, how, x);
    if (exchanged && x->kind == PDL_PLAN_WEIGHT_GRADIENT)
        return place == want ||
               (want == PDL_PARTIAL && place == PDL_REPLICATED &&
                plan_check_at(c, o->in[0], f) == PDL_REPLICATED);
    return place == want;
}

/* Of an attention: keys, values, their gradients. */
static bool is_keys(const struct pdl_node *n, const struct pdl_plan_tensor *t)
{
    return plan_key_groups(n) > 0 && n->nin == 3 && t->model_tensor >= 0 &&
           (t->model_tensor == n->in[1] || t->model_tensor == n->in[2]);
}

/* The keys of every query that a rank has are there too. Keys are cut in
 * groups, queries perhaps in heads of a group, so units say nothing. */
static enum pdl_status has_keys(struct plan_check *c,
                                const struct pdl_plan_op *o)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    const struct pdl_plan_op *fwd = &c->p->ops[c->forward[o->node]];
    int64_t pes = c->p->mesh->pes;

    for (int64_t r = 0; r < pes; r++) {
        struct pdl_box q, k;

        if (r >= 64 && r < pes - 64)
            continue;
        pdl_plan_box(c->p, fwd->in[0], r, &q);
        for (int i = 1; i < 3 && !pdl_box_empty(&q); i++) {
            int64_t group, width = c->p->model->tensors[n->in[i]].dim[1];

            pdl_plan_box(c->p, fwd->in[i], r, &k);
            width /= plan_key_groups(n);
            group = n->attr.heads / plan_key_groups(n) * n->attr.head_dim;
            if (width < 1 || group < 1 || q.lo[2] / group * width < k.lo[2] ||
                ((q.hi[2] - 1) / group + 1) * width > k.hi[2])
                return BAD(c, "has not the keys of its queries");
        }
    }
    return PDL_OK;
}

/* An index that a factor cuts has the same items in all operands, so that
 * their parts meet; in a window, rows of x and of y are different indices. */
static enum pdl_status same_items(struct plan_check *c,
                                  const struct pdl_plan_op *o, int f)
{
    struct pdl_window w;
    struct plan_site s;
    int64_t n = -1;
    bool swap;

    plan_site_init(c->p->model, o->node, 1, &s);
    for (int k = 0; k < o->nin + o->nout; k++) {
        int t = k < o->nin ? o->in[k] : o->out[k - o->nin],
            d = plan_check_at(c, t, f);

        if (d < 0 || plan_check_tensor(c, t)->kind == PDL_PLAN_STATISTIC ||
            plan_rule_window(&s, d, &w, &swap) ||
            (d == 2 && is_keys(s.node, plan_check_tensor(c, t))))
            continue;
        if (n >= 0 && plan_check_items(c, t, d) != n)
            return BAD(c, "its operands are cut in different units");
        n = plan_check_items(c, t, d);
    }
    return PDL_OK;
}

/* Every operand and result lies as one cut of the node says. Forward results
 * may be partial sums; a bias is added on any shard (part 1). */
static enum pdl_status node_placement(struct plan_check *c,
                                      const struct pdl_plan_op *o)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    bool plain = !plan_rule_has_statistics(n);

    if (c->forward[o->node] < 0)
        return BAD(c, "comes before the node's forward pass");
    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        struct plan_cut how;
        int cut = cut_of(c, o->node, f, &how);

        if (cut < 0)
            return BAD(c, "its operands are not placed as one contraction");
        if (same_items(c, o, f) != PDL_OK)
            return PDL_EWRONG;
        if (plain && o->pass == PDL_FORWARD)
            continue; /* is_cut has looked at all of it */
        for (int k = 0; k < o->nin + o->nout; k++)
            if (!operand_fits(c, o, k, f, cut, &how))
                return BAD(c, "an operand is not where the forward pass was");
    }
    return PDL_OK;
}

/* The bias lies like the channels of what it is added to. */
static enum pdl_status bias_placement(struct plan_check *c,
                                      const struct pdl_plan_op *o)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    int feature = plan_is(n, PDL_ID_LINEAR)
                      ? plan_check_tensor(c, o->in[0])->ndims - 1
                      : 1;

    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        int y = plan_check_at(c, o->in[0], f);

        if (plan_check_at(c, o->out[0], f) != y ||
            plan_check_at(c, o->in[1], f) !=
                (y == feature ? 0 : PDL_REPLICATED))
            return BAD(c, "the bias does not lie like its sum");
        if (same_items(c, o, f) != PDL_OK)
            return PDL_EWRONG;
    }
    return PDL_OK;
}

/* Labels and statistics lie like the output; where that is cut in classes
 * they are whole, and statistics just made are partial. */
static enum pdl_status loss_placement(struct plan_check *c,
                                      const struct pdl_plan_op *o)
{
    int y = o->in[0],
        classes = plan_loss_classes(plan_check_tensor(c, y)->ndims);
    bool makes = plan_check_tensor(c, o->out[0])->kind == PDL_PLAN_STATISTIC;
    int made = !makes ? classes : o->part == 0 ? PDL_PARTIAL_MAX : PDL_PARTIAL;

    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        bool cut = plan_check_at(c, y, f) == classes;

        for (int k = 1; k < o->nin; k++)
            if (cut ? plan_check_at(c, o->in[k], f) != PDL_REPLICATED
                    : !plan_check_alike(c, y, o->in[k], f))
                return BAD(c, "labels or statistics lie unlike the output");
        if (cut && makes ? plan_check_at(c, o->out[0], f) != made
                         : !plan_check_alike(c, y, o->out[0], f))
            return BAD(c, "the result lies unlike the output");
        if (cut && o->part == 0 && !makes)
            return BAD(c, "has not all classes");
    }
    return PDL_OK;
}

/* What the result's window needs must be inside the operand's box. */
static enum pdl_status window(struct plan_check *c, const struct pdl_plan_op *o,
                              int from, int to, bool forward)
{
    int64_t pes = c->p->mesh->pes;
    struct plan_site s;

    plan_site_init(c->p->model, o->node, 1, &s);
    for (int64_t r = 0; r < pes; r++) {
        struct pdl_box have, make;

        if (r >= 64 && r < pes - 64)
            continue;
        pdl_plan_box(c->p, from, r, &have);
        pdl_plan_box(c->p, to, r, &make);
        for (int d = 2; d < have.ndims && !pdl_box_empty(&make); d++) {
            struct pdl_window w;
            int64_t lo, hi;
            bool swap;

            if (!plan_rule_window(&s, d, &w, &swap))
                break;
            if (forward != swap)
                pdl_window_reads(&w, make.lo[d], make.hi[d], &lo, &hi);
            else
                pdl_window_readers(&w, make.lo[d], make.hi[d], &lo, &hi);
            if (hi > lo && (lo < have.lo[d] || hi > have.hi[d]))
                return BAD(c, "its window reaches beyond the halo");
        }
    }
    return PDL_OK;
}

/* What is linear may read sums (operand_fits). */
static bool may_be_partial(const struct plan_check *c,
                           const struct pdl_plan_op *o, int k, int f)
{
    const struct pdl_node *n =
        o->node >= 0 ? &c->p->model->nodes[o->node] : NULL;

    return n && output_gradient(n, o, k) >= 0 && reads_sums(c, o, f);
}

static enum pdl_status no_partial(struct plan_check *c,
                                  const struct pdl_plan_op *o)
{
    for (int k = 0; k < o->nin; k++)
        for (int f = 0; f < c->p->mesh->nfactors; f++)
            if (plan_check_at(c, o->in[k], f) <= PDL_PARTIAL &&
                !may_be_partial(c, o, k, f))
                return BAD(c, "reads a partial sum");
    return PDL_OK;
}

enum pdl_status plan_check_operator(struct plan_check *c,
                                    const struct pdl_plan_op *o)
{
    const struct pdl_node *n =
        o->node >= 0 ? &c->p->model->nodes[o->node] : NULL;
    enum pdl_status st = no_partial(c, o);

    if (st != PDL_OK)
        return st;
    if (!n)
        return loss_placement(c, o);
    if (o->pass == PDL_FORWARD && o->part == 0)
        c->forward[o->node] = c->op;
    if (o->pass == PDL_FORWARD && o->part == 1 && !plan_rule_has_statistics(n))
        return bias_placement(c, o);
    st = node_placement(c, o);
    if (st == PDL_OK && plan_key_groups(n) > 0 && n->nin == 3)
        st = has_keys(c, o);
    if (st != PDL_OK || plan_rule_has_statistics(n))
        return st;
    if (o->pass == PDL_FORWARD)
        return window(c, o, o->in[0], o->out[0], true);
    if (o->pass == PDL_BACKWARD_DATA && o->nout > 0) {
        st = window(c, o, o->in[0], o->out[0], false);
        /* a max pool's positions need the same halo as dy */
        if (st == PDL_OK && n->op->flags & PDL_OP_SAVES_MASK && o->nin > 1)
            st = window(c, o, o->in[o->nin - 1], o->out[0], false);
    }
    return st;
}
