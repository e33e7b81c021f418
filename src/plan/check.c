/* SPDX-License-Identifier: Apache-2.0
 *
 * The static checker: what a plan must satisfy before anybody prices or runs
 * it. Lifetimes (read after write, no use after free, freed exactly once),
 * matching of sends and receives, placements (every collective resolves what
 * it says, every operator is one contraction, every window has its halo), and
 * coverage (what moves is owned by somebody in the group). */
#include "plan_priv.h"

#include <string.h>

enum life { UNWRITTEN, LIVE, FREED };

struct check {
    const struct pdl_plan *p;
    pdl_arena *arena;
    struct pdl_err *err;
    unsigned char *life;
    int *forward; /* of each node: its first forward operation, -1: none */
    int op;       /* being looked at */
};

#define BAD(c, ...) (bad((c), __VA_ARGS__), pdl_same(PDL_EWRONG))

static void bad(struct check *c, const char *what)
{
    const struct pdl_plan_op *o = c->op >= 0 ? &c->p->ops[c->op] : NULL;

    pdl_say(c->err, "plan: operation %d (%s%s%s): %s", c->op,
            o ? pdl_plan_op_name(o->kind) : "-", o && o->node >= 0 ? " " : "",
            o && o->node >= 0 ? c->p->model->nodes[o->node].name : "", what);
}

static const struct pdl_plan_tensor *tensor(const struct check *c, int t)
{
    return &c->p->tensors[t];
}

static bool is_state(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_WEIGHT || t->kind == PDL_PLAN_STATE;
}

static bool is_given(const struct pdl_plan_tensor *t)
{
    return is_state(t) || t->kind == PDL_PLAN_INPUT ||
           t->kind == PDL_PLAN_LABEL;
}

/* ---- lifetimes --------------------------------------------------------------- */

static enum pdl_status read_all(struct check *c, const struct pdl_plan_op *o)
{
    for (int k = 0; k < o->nin; k++) {
        if (c->life[o->in[k]] == FREED)
            return BAD(c, o->kind == PDL_PLAN_OP_FREE ? "frees twice"
                                                      : "reads after free");
        if (c->life[o->in[k]] != LIVE)
            return BAD(c, "reads what is not written yet");
    }
    return PDL_OK;
}

static enum pdl_status write_all(struct check *c, const struct pdl_plan_op *o)
{
    bool update = o->kind == PDL_PLAN_OP_UPDATE;

    for (int k = 0; k < o->nout; k++) {
        int t = o->out[k];

        if (update != is_state(tensor(c, t)))
            return BAD(c, "writes a tensor of the wrong kind");
        if (o->kind == PDL_PLAN_OP_SEND)
            continue; /* the receiver writes it */
        if (!update && c->life[t] != UNWRITTEN)
            return BAD(c, "writes a tensor twice");
        c->life[t] = LIVE;
    }
    return PDL_OK;
}

static enum pdl_status lifetimes(struct check *c, const struct pdl_plan_op *o)
{
    enum pdl_status st = read_all(c, o);

    if (st != PDL_OK)
        return st;
    if (o->kind != PDL_PLAN_OP_FREE)
        return write_all(c, o);
    for (int k = 0; k < o->nin; k++) {
        if (is_state(tensor(c, o->in[k])))
            return BAD(c, "frees a weight");
        if (c->life[o->in[k]] != LIVE)
            return BAD(c, "frees twice");
        c->life[o->in[k]] = FREED;
    }
    return PDL_OK;
}

static enum pdl_status all_freed(struct check *c)
{
    bool *used = PDL_NEW(c->arena, bool, c->p->ntensors + 1);

    if (!used)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++)
        for (int k = 0; k < c->p->ops[i].nin; k++)
            used[c->p->ops[i].in[k]] = true;
    for (int t = 0; t < c->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = tensor(c, t);
        bool touched = used[t] || (c->life[t] == LIVE && !is_given(x));

        if (!is_state(x) && touched && c->life[t] != FREED)
            return pdl_fail(c->err, PDL_EWRONG, "plan: t%d (%s) is never freed",
                            t, x->name);
    }
    return PDL_OK;
}

/* ---- stages ---------------------------------------------------------------------- */

static enum pdl_status stages(struct check *c, const struct pdl_plan_op *o,
                              int stage)
{
    bool send = o->kind == PDL_PLAN_OP_SEND;

    for (int k = 0; k < o->nin + o->nout; k++) {
        int t = k < o->nin ? o->in[k] : o->out[k - o->nin];

        if (t < 0 || t >= c->p->ntensors)
            return BAD(c, "names a tensor that does not exist");
        if (tensor(c, t)->kind == PDL_PLAN_INPUT)
            continue; /* loaded where it is read */
        if ((tensor(c, t)->stage == stage) == (send && k >= o->nin))
            return BAD(c, "touches a tensor of another stage");
    }
    return PDL_OK;
}

/* Between two stages messages arrive in the order they were sent: the k-th
 * send of a to b must be the k-th receive of b from a. */
static enum pdl_status match(struct check *c)
{
    int *source = PDL_NEW(c->arena, int, c->p->ntensors + 1);
    int *order = PDL_NEW(c->arena, int, c->p->ntensors + 1);
    int *last = PDL_NEW(c->arena, int, c->p->nstages * c->p->nstages + 1);
    int sends = 0;

    if (!source || !order || !last)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];

        c->op = i;
        if (o->kind == PDL_PLAN_OP_SEND) {
            if (order[o->out[0]])
                return BAD(c, "sends twice");
            source[o->out[0]] = tensor(c, o->in[0])->stage;
            order[o->out[0]] = ++sends;
            if (!plan_same_shape(tensor(c, o->in[0]), tensor(c, o->out[0])))
                return BAD(c, "sends another shape than is received");
        }
    }
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];
        int *before;

        if (o->kind != PDL_PLAN_OP_RECV)
            continue;
        c->op = i;
        if (!order[o->out[0]])
            return BAD(c, "receives what nobody sends");
        before = &last[source[o->out[0]] * c->p->nstages +
                       tensor(c, o->out[0])->stage];
        if (order[o->out[0]] <= *before)
            return BAD(c, "receives in another order than is sent");
        *before = order[o->out[0]];
        order[o->out[0]] = 0;
        sends--;
    }
    c->op = -1;
    return sends == 0 ? PDL_OK : BAD(c, "something sent is never received");
}

/* ---- placements of collectives ------------------------------------------------------ */

/* What each kind does to the placement of a factor in its group; factors
 * outside keep theirs. */
static bool step_fits(enum pdl_plan_op_kind kind, int from, int to)
{
    switch (kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        return from == PDL_PARTIAL && to == PDL_REPLICATED;
    case PDL_PLAN_OP_REDUCE_SCATTER:
        return from == PDL_PARTIAL && to >= 0;
    case PDL_PLAN_OP_ALLGATHER:
        return from >= 0 && to == PDL_REPLICATED;
    case PDL_PLAN_OP_ALLTOALL:
        return from != PDL_PARTIAL && to != PDL_PARTIAL;
    case PDL_PLAN_OP_HALO:
        return from >= 0 && from == to;
    default:
        return false;
    }
}

static enum pdl_status one_move(struct check *c, const struct pdl_plan_op *o,
                                int k)
{
    const struct pdl_plan_tensor *a = tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = tensor(c, o->out[k]);
    bool slice = o->kind == PDL_PLAN_OP_SLICE;

    if (!plan_same_shape(a, b))
        return BAD(c, "changes the shape");
    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        int from = a->place.at[f], to = b->place.at[f];

        if (slice && from == to)
            continue;
        if (slice && (from != PDL_REPLICATED || to < 0))
            return BAD(c, "is no slice");
        if (!slice && o->group >> f & 1 && !step_fits(o->kind, from, to))
            return BAD(c, "does not resolve the placement of its group");
        if (!slice && !(o->group >> f & 1) && from != to)
            return BAD(c, "changes a placement outside its group");
    }
    return PDL_OK;
}

static bool same_box(const struct pdl_box *a, const struct pdl_box *b)
{
    for (int d = 0; d < a->ndims; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d])
            return false;
    return true;
}

/* Every item a rank receives is owned by somebody in the group. Owners are
 * equal or disjoint, so volumes add up. Large meshes: ranks at both ends. */
static enum pdl_status covered(struct check *c, const struct pdl_plan_op *o,
                               int k)
{
    int64_t pes = c->p->mesh->pes, group[4096];

    for (int64_t r = 0; r < pes; r++) {
        struct pdl_box want, have, common, seen[64];
        int64_t n, got = 0;
        int nseen = 0;

        if (r >= 32 && r < pes - 32)
            continue;
        pdl_plan_box(c->p, o->out[k], r, &want);
        n = pdl_mesh_group(c->p->mesh, r, o->group, group, 4096);
        for (int64_t g = 0; g < n && g < 4096; g++) {
            bool again = false;

            pdl_plan_box(c->p, o->in[k], group[g], &have);
            for (int s = 0; s < nseen; s++)
                again = again || same_box(&seen[s], &have);
            if (again)
                continue;
            if (nseen < 64)
                seen[nseen++] = have;
            if (pdl_box_intersect(&want, &have, &common))
                got += pdl_box_volume(&common);
        }
        if (got < pdl_box_volume(&want))
            return BAD(c, "needs items that nobody in the group has");
    }
    return PDL_OK;
}

/* The group must be the one the change needs, no larger: its ranks wait for
 * each other. */
static bool group_fits(const struct check *c, const struct pdl_plan_op *o,
                       int k)
{
    const struct pdl_plan_tensor *a = tensor(c, o->in[k]);
    const struct pdl_plan_tensor *b = tensor(c, o->out[k]);
    uint32_t framed = 0;

    if (o->kind == PDL_PLAN_OP_ALLTOALL)
        return o->group ==
               plan_exchange_group(c->p->mesh, &a->place, &b->place);
    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (b->place.at[f] >= 0 &&
            b->frame[b->place.at[f]].kind != PDL_FRAME_NONE)
            framed |= UINT32_C(1) << f;
    return o->kind != PDL_PLAN_OP_HALO || o->group == framed;
}

static enum pdl_status collective(struct check *c, const struct pdl_plan_op *o)
{
    enum pdl_status st = PDL_OK;

    if (o->nin != o->nout || o->nin == 0)
        return BAD(c, "has not one result for each operand");
    if (o->kind != PDL_PLAN_OP_SLICE && !o->group)
        return BAD(c, "has an empty group");
    for (int k = 0; k < o->nin && st == PDL_OK; k++) {
        st = one_move(c, o, k);
        if (st == PDL_OK && !group_fits(c, o, k))
            st = BAD(c, "has not the group that its placements need");
        if (st == PDL_OK)
            st = covered(c, o, k);
    }
    return st;
}

/* ---- placements of operators ---------------------------------------------------------- */

/* The cuts a factor may make in this node: every role, every shard of every
 * operand. */
static bool next_cut(const struct plan_site *s, int *i, struct plan_cut *cut)
{
    static const struct {
        enum pdl_axis axis;
        int dim;
    } roles[] = {{PDL_AXIS_DATA, 0},    {PDL_AXIS_SPATIAL, 0},
                 {PDL_AXIS_SPATIAL, 1}, {PDL_AXIS_SPATIAL, 2},
                 {PDL_AXIS_FILTER, 0},  {PDL_AXIS_CHANNEL, 0}};
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

static int at(const struct check *c, int t, int f)
{
    return tensor(c, t)->place.at[f];
}

static int made(int dim)
{
    return dim >= 0 ? dim : PDL_PARTIAL;
}

/* Is the operation, seen by factor f, this cut (NULL: no cut)? */
static bool is_cut(const struct check *c, const struct pdl_plan_op *o, int f,
                   const struct plan_cut *cut)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    int nx = n->nin, w = o->nin - nx;

    for (int i = 0; i < nx; i++)
        if (at(c, o->in[i], f) != (cut ? cut->x[i] : PDL_REPLICATED))
            return false;
    for (int j = 0; j < w && j < n->nweights; j++)
        if (at(c, o->in[nx + j], f) != (cut ? cut->w[j] : PDL_REPLICATED))
            return false;
    for (int k = 0; k < o->nout; k++)
        if (at(c, o->out[k], f) != (cut ? made(cut->y[k]) : PDL_REPLICATED))
            return false;
    return true;
}

/* How factor f cuts the node, read off its forward operation: 1 and the cut,
 * 0 for no cut, -1 when the operands are no contraction at all. Batch norm's
 * forward may be in two parts; there x alone decides. */
static int cut_of(const struct check *c, int node, int f, struct plan_cut *cut)
{
    const struct pdl_plan_op *o = &c->p->ops[c->forward[node]];
    struct plan_site s;
    int i = 0, d = at(c, o->in[0], f);

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
    return -1;
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
static bool statistic_fits(const struct check *c, int x_dim, int place)
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

static bool operand_fits(const struct check *c, const struct pdl_plan_op *o,
                         int k, int f, int cut, const struct plan_cut *how)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    const struct pdl_plan_tensor *x =
        tensor(c, k < o->nin ? o->in[k] : o->out[k - o->nin]);
    int dy = output_gradient(n, o, k);
    int place = x->place.at[f], want;
    bool exchanged = o->pass == PDL_BACKWARD_WEIGHTS &&
                     tensor(c, o->in[0])->kind == PDL_PLAN_STATISTIC;

    if (x->kind == PDL_PLAN_STATISTIC)
        return statistic_fits(c, cut ? how->x[0] : PDL_REPLICATED, place);
    want = !cut ? PDL_REPLICATED : dy >= 0 ? how->y[dy] : place_of(n, how, x);
    if (exchanged && x->kind == PDL_PLAN_WEIGHT_GRADIENT)
        return place == want ||
               (want == PDL_PARTIAL && place == PDL_REPLICATED &&
                at(c, o->in[0], f) == PDL_REPLICATED);
    return place == want;
}

/* Every operand and result lies as one cut of the node says. Forward results
 * may be partial sums; a bias is added on any shard (part 1). */
static enum pdl_status node_placement(struct check *c,
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
        if (plain && o->pass == PDL_FORWARD)
            continue; /* is_cut has looked at all of it */
        for (int k = 0; k < o->nin + o->nout; k++)
            if (!operand_fits(c, o, k, f, cut, &how))
                return BAD(c, "an operand is not where the forward pass was");
    }
    return PDL_OK;
}

/* The bias lies like the channels of what it is added to. */
static enum pdl_status bias_placement(struct check *c,
                                      const struct pdl_plan_op *o)
{
    const struct pdl_node *n = &c->p->model->nodes[o->node];
    int feature = plan_is(n, "linear") ? tensor(c, o->in[0])->ndims - 1 : 1;

    for (int f = 0; f < c->p->mesh->nfactors; f++) {
        int y = at(c, o->in[0], f);

        if (at(c, o->out[0], f) != y ||
            at(c, o->in[1], f) != (y == feature ? 0 : PDL_REPLICATED))
            return BAD(c, "the bias does not lie like its sum");
    }
    return PDL_OK;
}

static enum pdl_status loss_placement(struct check *c,
                                      const struct pdl_plan_op *o)
{
    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (o->nin != 2 || at(c, o->in[0], f) != at(c, o->in[1], f) ||
            at(c, o->in[0], f) != at(c, o->out[0], f))
            return BAD(c, "output, labels and gradient lie differently");
    return PDL_OK;
}

/* What the result's window needs must be inside the operand's box. */
static enum pdl_status window(struct check *c, const struct pdl_plan_op *o,
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

static enum pdl_status no_partial(struct check *c, const struct pdl_plan_op *o)
{
    for (int k = 0; k < o->nin; k++)
        for (int f = 0; f < c->p->mesh->nfactors; f++)
            if (at(c, o->in[k], f) == PDL_PARTIAL)
                return BAD(c, "reads a partial sum");
    return PDL_OK;
}

static enum pdl_status compute(struct check *c, const struct pdl_plan_op *o)
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

static enum pdl_status same_places(struct check *c, const struct pdl_plan_op *o,
                                   int pairs, int step)
{
    for (int k = 0; k < pairs; k++) {
        const struct pdl_plan_tensor *a = tensor(c, o->in[k]);
        const struct pdl_plan_tensor *b = tensor(c, o->in[k + step]);

        if (!plan_same_shape(a, b) ||
            memcmp(a->place.at, b->place.at, (size_t)c->p->mesh->nfactors) != 0)
            return BAD(c, "its operands lie differently");
    }
    return PDL_OK;
}

static enum pdl_status placements(struct check *c, const struct pdl_plan_op *o)
{
    switch (o->kind) {
    case PDL_PLAN_OP_COMPUTE:
        return compute(c, o);
    case PDL_PLAN_OP_ADD:
        return o->nin == 2 ? same_places(c, o, 1, 1)
                           : BAD(c, "adds not two operands");
    case PDL_PLAN_OP_UPDATE:
        return same_places(c, o, o->nout, o->nout);
    case PDL_PLAN_OP_SEND:
    case PDL_PLAN_OP_RECV:
    case PDL_PLAN_OP_FREE:
        return PDL_OK;
    default:
        return collective(c, o);
    }
}

/* ---- all of it ------------------------------------------------------------------------- */

static enum pdl_status run_items(struct check *c, int first, int n, int stage)
{
    enum pdl_status st = PDL_OK;

    for (int i = first; i < first + n; i++) {
        const struct pdl_plan_item *it = &c->p->items[i];

        for (int k = 0; k < it->nops && st == PDL_OK; k++) {
            const struct pdl_plan_op *o = &c->p->ops[it->first_op + k];

            c->op = it->first_op + k;
            st = stages(c, o, stage);
            if (st == PDL_OK)
                st = lifetimes(c, o);
            if (st == PDL_OK)
                st = placements(c, o);
        }
    }
    return st;
}

static enum pdl_status walk(struct check *c)
{
    const struct pdl_plan *p = c->p;
    enum pdl_status st = PDL_OK;

    for (int s = 0; s < p->nstages && st == PDL_OK; s++)
        st = run_items(c, p->stages[s].first_forward, p->stages[s].nforward, s);
    for (int s = p->nstages - 1; s >= 0 && st == PDL_OK; s--)
        st = run_items(c, p->stages[s].first_backward, p->stages[s].nbackward,
                       s);
    for (int s = 0; s < p->nstages && st == PDL_OK; s++)
        st = run_items(c, p->stages[s].first_update, p->stages[s].nupdate, s);
    return st;
}

/* Every learned weight gets one update. */
static enum pdl_status all_updated(struct check *c)
{
    for (int t = 0; t < c->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = tensor(c, t);
        int n = 0;

        if (x->kind != PDL_PLAN_WEIGHT || x->model_tensor < 0 ||
            c->p->model->tensors[x->model_tensor].kind != PDL_TENSOR_WEIGHT)
            continue;
        for (int i = 0; i < c->p->nops; i++)
            for (int k = 0; c->p->ops[i].kind == PDL_PLAN_OP_UPDATE &&
                            k < c->p->ops[i].nout;
                 k++)
                n += c->p->ops[i].out[k] == t;
        if (n != 1)
            return pdl_fail(c->err, PDL_EWRONG, "plan: %s is updated %d times",
                            x->name, n);
    }
    return PDL_OK;
}

enum pdl_status pdl_plan_check(const struct pdl_plan *p, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct check c = {.p = p, .arena = a, .err = err, .op = -1};
    struct plan_spot spot = {-1, -1};
    enum pdl_status st = plan_structure(p, &spot, err);

    if (a)
        c.life = PDL_NEW(a, unsigned char, p->ntensors + 1);
    if (a)
        c.forward = PDL_NEW(a, int, p->model->nnodes + 1);
    for (int i = 0; c.forward && i < p->model->nnodes; i++)
        c.forward[i] = -1;
    if (st == PDL_OK && (!c.life || !c.forward))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int t = 0; st == PDL_OK && t < p->ntensors; t++)
        c.life[t] = is_given(&p->tensors[t]) ? LIVE : UNWRITTEN;
    if (st == PDL_OK)
        st = walk(&c);
    if (st == PDL_OK)
        st = match(&c);
    if (st == PDL_OK)
        st = all_freed(&c);
    if (st == PDL_OK)
        st = all_updated(&c);
    pdl_arena_destroy(a);
    return st;
}
