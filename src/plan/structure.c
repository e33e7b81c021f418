/* SPDX-License-Identifier: Apache-2.0
 *
 * The form of a plan: what must hold before the checker, the executor or the
 * oracle may follow its ids. A plan made by lowering has it by construction;
 * one read from a file, or changed by hand, must show it. */
#include "text.h"

#include <string.h>

struct form {
    const struct pdl_plan *p;
    struct plan_spot *spot;
    struct pdl_err *err;
};

static const int64_t LARGEST_WINDOW = INT64_C(1) << 30;
static const int64_t LARGEST_UNIT = INT64_C(1) << 40;
static const int64_t LARGEST_BYTES = INT64_C(1) << 56;

static enum pdl_status bad_tensor(const struct form *c, int t, const char *what)
{
    c->spot->tensor = t;
    return pdl_fail(c->err, PDL_EWRONG, "plan: t%d (%s) %s", t,
                    c->p->tensors[t].name, what);
}

static enum pdl_status bad_op(const struct form *c, int op, const char *what)
{
    const struct pdl_plan_op *o = &c->p->ops[op];

    c->spot->op = op;
    return pdl_fail(c->err, PDL_EWRONG, "plan: operation %d (%s%s%s): %s", op,
                    pdl_plan_op_name(o->kind), o->node >= 0 ? " " : "",
                    o->node >= 0 ? c->p->model->nodes[o->node].name : "", what);
}

/* ---- tensors ---------------------------------------------------------- */

static bool frame_fits(const struct pdl_plan_tensor *t, int d)
{
    const struct pdl_frame *f = &t->frame[d];
    const struct pdl_window *w = &f->window;

    if (f->kind == PDL_FRAME_NONE)
        return true;
    return w->kernel >= 1 && w->kernel <= LARGEST_WINDOW && w->stride >= 1 &&
           w->stride <= LARGEST_WINDOW && w->dilation >= 1 &&
           w->dilation <= LARGEST_WINDOW && w->pad >= -LARGEST_WINDOW &&
           w->pad <= LARGEST_WINDOW && w->in >= 0 && w->in <= LARGEST_WINDOW &&
           w->out >= 0 && w->out <= LARGEST_WINDOW &&
           (f->kind == PDL_FRAME_READS ? w->in : w->out) == t->dim[d];
}

/* Activations are the model's with N in front, weights as they are. */
static bool model_shape(const struct form *c, const struct pdl_plan_tensor *t)
{
    const struct pdl_tensor *m = &c->p->model->tensors[t->model_tensor];
    bool weight = m->kind == PDL_TENSOR_WEIGHT ||
                  (m->kind == PDL_TENSOR_BUFFER && t->kind != PDL_PLAN_INPUT);
    int n = weight ? 0 : 1;

    if (t->ndims != m->rank + n || (!weight && t->dim[0] != plan_samples(c->p)))
        return false;
    for (int d = 0; d < m->rank; d++)
        if (t->dim[d + n] != m->dim[d])
            return false;
    return true;
}

static bool free_shape(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_STATISTIC || t->kind == PDL_PLAN_LABEL;
}

static enum pdl_status tensor(const struct form *c, int i)
{
    const struct pdl_plan_tensor *t = &c->p->tensors[i];
    int64_t bits = pdl_dtype_bits(t->dtype), n;

    if (t->ndims < 0 || t->ndims > PDL_BOX_DIMS)
        return bad_tensor(c, i, "has too many dimensions");
    if (t->stage < 0 || t->stage >= c->p->nstages)
        return bad_tensor(c, i, "is of a stage that does not exist");
    if (t->some < 0 || t->of < 0 || t->some > t->of ||
        (t->of > 0) != (t->some > 0))
        return bad_tensor(c, i, "has more of its items than there are");
    if (t->model_tensor >= c->p->model->ntensors)
        return bad_tensor(c, i, "is of a tensor that the model has not");
    if (t->model_tensor >= 0 ? !model_shape(c, t) : !free_shape(t))
        return bad_tensor(c, i, "has not the shape that the model gives it");
    for (int d = 0; d < t->ndims; d++) {
        if (t->dim[d] < 0 || t->unit[d] < 0 || t->unit[d] > LARGEST_UNIT)
            return bad_tensor(c, i, "has a size out of range");
        if (!frame_fits(t, d))
            return bad_tensor(c, i, "has a frame that does not fit its size");
    }
    for (int f = 0; f < c->p->mesh->nfactors; f++)
        if (t->place.at[f] < PDL_PARTIAL_MAX || t->place.at[f] >= t->ndims)
            return bad_tensor(c, i, "is cut in a dimension it has not");
    if (!pdl_prod64(t->dim, t->ndims, &n) || !pdl_mul64(n, bits, &n) ||
        n > LARGEST_BYTES)
        return bad_tensor(c, i, "is too large");
    return PDL_OK;
}

/* ---- operations ------------------------------------------------------- */

static bool is_statistic(const struct form *c, int t)
{
    return c->p->tensors[t].kind == PDL_PLAN_STATISTIC;
}

/* Is t this tensor of the model (or a copy, or its gradient)? */
static bool is_of(const struct form *c, int t, int model_tensor)
{
    return c->p->tensors[t].model_tensor == model_tensor;
}

/* Has t the shape of this activation? (A gradient may bear another name: an
 * add hands its gradient on.) */
static bool is_like(const struct form *c, int t, int model_tensor)
{
    const struct pdl_plan_tensor *x = &c->p->tensors[t];
    const struct pdl_tensor *m = &c->p->model->tensors[model_tensor];

    if (x->ndims != m->rank + 1 || x->dim[0] != plan_samples(c->p))
        return false;
    for (int d = 0; d < m->rank; d++)
        if (x->dim[d + 1] != m->dim[d])
            return false;
    return true;
}

/* Is t a statistic of the channels of x? */
static bool is_sums(const struct form *c, int t, const struct pdl_node *n)
{
    const struct pdl_tensor *x = &c->p->model->tensors[n->in[0]];

    return is_statistic(c, t) && x->rank >= 1 && c->p->tensors[t].ndims == 3 &&
           c->p->tensors[t].dim[1] == 2 && c->p->tensors[t].dim[2] == x->dim[0];
}

/* The next k operands are these tensors of the model; steps over them. */
static bool take(const struct form *c, const struct pdl_plan_op *o, int *at,
                 const int *ids, int n)
{
    if (o->nin - *at < n)
        return false;
    for (int i = 0; i < n; i++)
        if (!is_of(c, o->in[(*at)++], ids[i]))
            return false;
    return true;
}

static bool take_like(const struct form *c, const struct pdl_plan_op *o,
                      int *at, const int *ids, int n)
{
    if (o->nin - *at < n)
        return false;
    for (int i = 0; i < n; i++)
        if (!is_like(c, o->in[(*at)++], ids[i]))
            return false;
    return true;
}

static bool take_sums(const struct form *c, const struct pdl_plan_op *o,
                      int *at, const struct pdl_node *n)
{
    return *at < o->nin && is_sums(c, o->in[(*at)++], n);
}

/* Results are gradients of some of these, in their order. */
static bool some_of(const struct form *c, const struct pdl_plan_op *o,
                    const int *ids, int n)
{
    int k = 0;

    for (int i = 0; i < n && k < o->nout; i++)
        k += is_of(c, o->out[k], ids[i]);
    return o->nout >= 1 && k == o->nout;
}

/* A layer whose sum is partial leaves its bias to part 1. */
static bool forward_fits(const struct form *c, const struct pdl_plan_op *o,
                         const struct pdl_node *n)
{
    bool bias = plan_rule_has_bias(n) && n->nweights > 1;
    int at = 0;

    if (o->nout != n->nout || !take(c, o, &at, n->in, n->nin))
        return false;
    for (int k = 0; k < n->nout; k++)
        if (!is_of(c, o->out[k], n->out[k]))
            return false;
    if (bias && o->nin - at == n->nweights - 1)
        return take(c, o, &at, n->weights, 1) &&
               take(c, o, &at, n->weights + 2, n->nweights - 2);
    return take(c, o, &at, n->weights, n->nweights) && at == o->nin;
}

static bool bias_fits(const struct form *c, const struct pdl_plan_op *o,
                      const struct pdl_node *n)
{
    return o->part == 1 && plan_rule_has_bias(n) && n->nweights > 1 &&
           o->nin == 2 && o->nout == 1 && is_of(c, o->in[0], n->out[0]) &&
           is_of(c, o->in[1], n->weights[1]) && is_of(c, o->out[0], n->out[0]);
}

/* dy, the exchanged sums, weights, what forward saved (backward.c: saved). */
static bool data_fits(const struct form *c, const struct pdl_plan_op *o,
                      const struct pdl_node *n, bool sums)
{
    int w = plan_rule_has_bias(n) && n->nweights > 0 ? 1 : n->nweights, at = 0;
    unsigned flags = n->op->flags;

    return take_like(c, o, &at, n->out, n->nout) &&
           (!sums || take_sums(c, o, &at, n)) &&
           take(c, o, &at, n->weights, w) &&
           (!(flags & PDL_OP_SAVES_X) || take(c, o, &at, n->in, n->nin)) &&
           (!(flags & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK)) ||
            take(c, o, &at, n->out, n->nout)) &&
           (!sums || take_sums(c, o, &at, n)) && at == o->nin &&
           some_of(c, o, n->in, n->nin);
}

static bool weights_fit(const struct form *c, const struct pdl_plan_op *o,
                        const struct pdl_node *n)
{
    int at = 0;

    return o->part == 0 && take(c, o, &at, n->in, n->nin) &&
           take_like(c, o, &at, n->out, n->nout) &&
           (!(n->op->flags & PDL_OP_DW_READS_W) ||
            take(c, o, &at, n->weights, n->nweights)) &&
           at == o->nin && some_of(c, o, n->weights, n->nweights);
}

/* Batch norm with an exchange: sums first (part 0), then the rest. */
static bool statistics_fit(const struct form *c, const struct pdl_plan_op *o,
                           const struct pdl_node *n)
{
    bool makes = o->nout == 1 && is_sums(c, o->out[0], n);
    int at = 0;

    if (!plan_rule_has_statistics(n) || n->nin != 1 || n->nout != 1)
        return false;
    if (o->pass == PDL_FORWARD && o->part == 0)
        return makes && take(c, o, &at, n->in, 1) && at == o->nin;
    if (o->pass == PDL_FORWARD)
        return o->part == 1 && o->nout == 1 && is_of(c, o->out[0], n->out[0]) &&
               take(c, o, &at, n->in, 1) && take_sums(c, o, &at, n) &&
               take(c, o, &at, n->weights, n->nweights) && at == o->nin;
    if (o->pass == PDL_BACKWARD_WEIGHTS)
        return o->part == 0 && take_sums(c, o, &at, n) && at == o->nin &&
               some_of(c, o, n->weights, n->nweights);
    if (o->part == 0)
        return makes && take_like(c, o, &at, n->out, 1) &&
               take(c, o, &at, n->in, 1) && take_sums(c, o, &at, n) &&
               at == o->nin;
    return data_fits(c, o, n, true);
}

/* A tensor like y with n items in place of the classes. */
static bool is_beside(const struct form *c, int t, int y,
                      enum pdl_plan_kind kind, int64_t n)
{
    const struct pdl_plan_tensor *a = &c->p->tensors[t];
    const struct pdl_plan_tensor *b = &c->p->tensors[y];
    int classes = plan_loss_classes(b->ndims);

    if (a->kind != kind || a->ndims != b->ndims)
        return false;
    for (int d = 0; d < b->ndims; d++)
        if (a->dim[d] != (d == classes ? n : b->dim[d]))
            return false;
    return true;
}

/* Outputs of the network, and labels with one item for all classes; in one
 * part or three (plan.h). */
static bool loss_fits(const struct form *c, const struct pdl_plan_op *o)
{
    const struct pdl_plan_tensor *t = c->p->tensors;
    int y, made;

    if (o->pass != PDL_FORWARD || o->nin < 1 || o->nout != 1)
        return false;
    y = o->in[0];
    made = o->out[0];
    if (t[y].ndims < 2 || t[y].model_tensor < 0 ||
        !is_like(c, y, t[y].model_tensor) ||
        (o->nin > 1 && !is_beside(c, o->in[1], y, PDL_PLAN_LABEL, 1)) ||
        (o->nin > 2 && !is_beside(c, o->in[2], y, PDL_PLAN_STATISTIC, 1)) ||
        (o->nin > 3 && !is_beside(c, o->in[3], y, PDL_PLAN_STATISTIC, 2)))
        return false;
    if (o->part == 0 && o->nin == 1)
        return is_beside(c, made, y, PDL_PLAN_STATISTIC, 1);
    if (o->part == 1)
        return o->nin == 3 && is_beside(c, made, y, PDL_PLAN_STATISTIC, 2);
    return (o->part == 0 ? o->nin == 2 : o->part == 2 && o->nin == 4) &&
           t[made].kind == PDL_PLAN_GRADIENT &&
           is_of(c, made, t[y].model_tensor);
}

static bool compute_fits(const struct form *c, const struct pdl_plan_op *o)
{
    const struct pdl_node *n;

    if (o->node < 0)
        return loss_fits(c, o);
    n = &c->p->model->nodes[o->node];
    for (int k = 0; k < o->nin + o->nout; k++)
        if (is_statistic(c, k < o->nin ? o->in[k] : o->out[k - o->nin]))
            return statistics_fit(c, o, n);
    if (o->pass == PDL_FORWARD)
        return o->part == 0 ? forward_fits(c, o, n) : bias_fits(c, o, n);
    if (o->pass == PDL_BACKWARD_WEIGHTS)
        return weights_fit(c, o, n);
    return o->part == 0 && data_fits(c, o, n, false);
}

static bool update_fits(const struct pdl_plan_op *o)
{
    return o->nout >= 1 && o->nin == 2 * o->nout &&
           memcmp(o->in, o->out, (size_t)o->nout * sizeof *o->in) == 0;
}

/* How many operands and results, which group, and no pass where there is
 * none. */
static bool counts_fit(const struct form *c, const struct pdl_plan_op *o)
{
    bool plain = o->part == 0 && o->node == -1 && o->pass == PDL_FORWARD;

    switch (o->kind) {
    case PDL_PLAN_OP_COMPUTE:
        return o->group == 0 && compute_fits(c, o);
    case PDL_PLAN_OP_ADD:
        return o->group == 0 && o->nin == 2 && o->nout == 1 && o->part == 0 &&
               o->node == -1 &&
               plan_same_shape(&c->p->tensors[o->in[0]],
                               &c->p->tensors[o->out[0]]);
    case PDL_PLAN_OP_UPDATE:
        return plain && o->group == 0 && update_fits(o);
    case PDL_PLAN_OP_FREE:
        return plain && o->group == 0 && o->nin >= 1 && o->nout == 0;
    case PDL_PLAN_OP_SLICE:
    case PDL_PLAN_OP_COPY_OUT:
    case PDL_PLAN_OP_COPY_IN:
        return plain && o->group == 0 && o->nin >= 1 && o->nin == o->nout;
    case PDL_PLAN_OP_ROTATE:
        return o->part == 0 && o->node == -1 &&
               o->pass != PDL_BACKWARD_WEIGHTS && o->nin >= 1 &&
               o->nin == o->nout;
    case PDL_PLAN_OP_SEND:
        return plain && o->group == c->p->pipe_factors && o->nin == 1 &&
               o->nout == 1;
    case PDL_PLAN_OP_RECV:
        return plain && o->group == c->p->pipe_factors && o->nin == 0 &&
               o->nout == 1;
    default:
        return plain && o->nin >= 1 && o->nin == o->nout;
    }
}

static bool node_fits(const struct pdl_node *n)
{
    return n->nin <= PLAN_MAX_IN && n->nout <= PLAN_MAX_OUT &&
           n->nweights <= PDL_OP_MAX_WEIGHTS;
}

static enum pdl_status operation(const struct form *c, int i)
{
    const struct pdl_plan_op *o = &c->p->ops[i];

    if (o->node < -1 || o->node >= c->p->model->nnodes)
        return pdl_fail(c->err, PDL_EWRONG,
                        "plan: operation %d: is of a layer that the model has "
                        "not",
                        i);
    if (o->node >= 0 && !node_fits(&c->p->model->nodes[o->node]))
        return bad_op(c, i, "has more operands than a plan can hold");
    if (o->group >> c->p->mesh->nfactors)
        return bad_op(c, i, "names a factor that the mesh has not");
    for (int k = 0; k < o->nin + o->nout; k++) {
        int t = k < o->nin ? o->in[k] : o->out[k - o->nin];

        if (t < 0 || t >= c->p->ntensors)
            return bad_op(c, i, "names a tensor that does not exist");
    }
    if (!counts_fit(c, o))
        return bad_op(c, i, "has not the operands that it needs");
    return PDL_OK;
}

/* ---- programs --------------------------------------------------------- */

/* Items follow each other without gap, and so do the programs. */
static enum pdl_status programs(const struct form *c)
{
    int phase, stage, item = 0, op = 0, first, count;

    for (int i = 0; i < c->p->nitems; i++) {
        const struct pdl_plan_item *it = &c->p->items[i];

        if (it->first_op != op || it->nops < 0 || it->nops > c->p->nops - op)
            return pdl_fail(c->err, PDL_EWRONG,
                            "plan: item %d does not follow the one before", i);
        if (c->p->roll ? it->repeat < 1 : it->repeat != 1 || it->segment != 0)
            return pdl_fail(c->err, PDL_EWRONG,
                            "plan: item %d repeats; blocks are written out", i);
        op += it->nops;
    }
    for (int k = 0; plan_text_program(c->p->nstages, k, &phase, &stage); k++) {
        plan_text_items(&c->p->stages[stage], phase, &first, &count);
        if (first != item || count < 0 || count > c->p->nitems - item)
            return pdl_fail(c->err, PDL_EWRONG,
                            "plan: the %s program of stage %d does not follow "
                            "the one before",
                            plan_text_phases[phase], stage);
        item += count;
    }
    return item == c->p->nitems && op == c->p->nops
               ? PDL_OK
               : pdl_fail(c->err, PDL_EWRONG,
                          "plan: operations that no program runs");
}

enum pdl_status plan_structure(const struct pdl_plan *p, struct plan_spot *spot,
                               struct pdl_err *err)
{
    struct form c = {p, spot, err};
    enum pdl_status st = PDL_OK;

    *spot = (struct plan_spot){-1, -1};
    if (p->nstages < 1 || p->lanes < 1 || p->nstages % p->lanes != 0 ||
        p->batch < 1 || p->micro_batches < 1 ||
        p->mesh->nfactors > PDL_MAX_FACTORS)
        return pdl_fail(err, PDL_EWRONG, "plan: no batch, stage or mesh");
    for (int i = 0; i < p->ntensors && st == PDL_OK; i++)
        st = tensor(&c, i);
    for (int i = 0; i < p->nops && st == PDL_OK; i++)
        st = operation(&c, i);
    if (st == PDL_OK)
        st = programs(&c);
    return st;
}
