/* SPDX-License-Identifier: Apache-2.0
 *
 * What the time of a local operation depends on, as a few numbers: the rows of
 * a measured profile (pe.profile) are written and looked up by them. The work
 * comes first; then, of contractions, the extents that decide how fast it is
 * done. */
#include "plan_priv.h"

static int64_t extent(const struct pdl_box *b, int d)
{
    return d >= 0 && d < b->ndims && b->hi[d] > b->lo[d] ? b->hi[d] - b->lo[d]
                                                         : 1;
}

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

/* Kernels of 3 x 3 that go on by one compute whole tiles of 4 x 4 results
 * (Winograd, F(4 x 4, 3 x 3): Lavin and Gray, CVPR 2016): an image of 5 x 5
 * costs as much as one of 8 x 8. */
enum { TILE = 4 };

static bool has_tiles(const struct pdl_attr *a, int dims)
{
    bool yes = dims == 4 && or1(a->groups) == 1;

    for (int i = 0; i < dims - 2 && yes; i++)
        yes = a->kernel[i] == 3 && or1(a->stride[i]) == 1 &&
              or1(a->dilation[i]) == 1;
    return yes;
}

/* Channels of a group, to the power of two below; 0: there are no groups. */
static int64_t in_group(const struct pdl_node *n, const struct pdl_box *x)
{
    int64_t each = extent(x, 1) / or1(n->attr.groups), power = 1;

    if (or1(n->attr.groups) < 2)
        return 0;
    while (2 * power <= each)
        power *= 2;
    return power;
}

static void conv_key(const struct pdl_node *n, const struct pdl_box *x,
                     const struct pdl_box *y, struct pdl_plan_key *k)
{
    int64_t pixels = 1, kernel = 1, stride = 1;
    int64_t tile = has_tiles(&n->attr, y->ndims) ? TILE : 1;

    for (int d = 2; d < y->ndims && d - 2 < PDL_MAX_SPATIAL; d++) {
        pixels *= (extent(y, d) + tile - 1) / tile * tile;
        kernel *= or1(n->attr.kernel[d - 2]);
        stride *= or1(n->attr.stride[d - 2]);
    }
    k->dims[PDL_KEY_CLASS] = kernel;
    k->dims[PDL_KEY_CLASS + 1] = stride;
    k->dims[PDL_KEY_CLASS + 2] = in_group(n, x);
    k->dims[PDL_KEY_EXTENTS] = extent(y, 0);
    k->dims[PDL_KEY_EXTENTS + 1] = extent(x, 1);
    k->dims[PDL_KEY_EXTENTS + 2] = extent(y, 1);
    k->dims[PDL_KEY_EXTENTS + 3] = pixels;
    k->ndims = PDL_KEY_EXTENTS + 4;
}

static void linear_key(const struct pdl_box *x, const struct pdl_box *y,
                       struct pdl_plan_key *k)
{
    int64_t f = extent(y, y->ndims - 1);

    k->dims[PDL_KEY_EXTENTS] = or1(pdl_box_volume(y) / f);
    k->dims[PDL_KEY_EXTENTS + 1] = extent(x, x->ndims - 1);
    k->dims[PDL_KEY_EXTENTS + 2] = f;
    k->ndims = PDL_KEY_EXTENTS + 3;
}

/* What a pool does for an item depends on its window. */
static void pool_key(const struct pdl_node *n, struct pdl_plan_key *k)
{
    k->dims[PDL_KEY_CLASS] = k->dims[PDL_KEY_CLASS + 1] = 1;
    for (int i = 0; i < PDL_MAX_SPATIAL; i++) {
        k->dims[PDL_KEY_CLASS] *= or1(n->attr.kernel[i]);
        k->dims[PDL_KEY_CLASS + 1] *= or1(n->attr.stride[i]);
    }
}

/* The operator, and the boxes of its forward operation: all passes contract
 * the same indices. */
static void compute_key(const struct pdl_plan *p, const struct pdl_plan_op *o,
                        int64_t rank, struct pdl_plan_key *k)
{
    static const char *const passes[] = {
        [PDL_FORWARD] = "forward",
        [PDL_BACKWARD_DATA] = "backward-data",
        [PDL_BACKWARD_WEIGHTS] = "backward-weights"};
    const struct pdl_node *n = o->node >= 0 ? &p->model->nodes[o->node] : NULL;
    int f = o->node >= 0 ? p->forward_op[o->node] : -1;
    enum pdl_op_id id;
    struct pdl_box x, y;

    id = n ? pdl_op_id(n->op) : PDL_ID_OTHER;
    k->op = n ? n->op->name : "loss";
    k->pass = passes[o->pass];
    if (f < 0 || p->ops[f].nin < 1 || p->ops[f].nout < 1)
        return;
    pdl_plan_box(p, p->ops[f].in[0], rank, &x);
    pdl_plan_box(p, p->ops[f].out[0], rank, &y);
    if (o->part > 0) { /* a bias alone is added; a norm in two is a norm */
        if (id == PDL_ID_CONV || id == PDL_ID_LINEAR)
            k->op = "add";
    } else if (id == PDL_ID_CONV && x.ndims > 2) {
        conv_key(n, &x, &y, k);
    } else if (id == PDL_ID_LINEAR) {
        linear_key(&x, &y, k);
    } else if (id == PDL_ID_MAX_POOL || id == PDL_ID_AVG_POOL) {
        pool_key(n, k);
    }
}

bool pdl_plan_op_key(const struct pdl_plan *p, int op, int64_t rank,
                     struct pdl_plan_key *k)
{
    const struct pdl_plan_op *o = &p->ops[op];
    struct pdl_work w;

    *k = (struct pdl_plan_key){.op = pdl_plan_op_name(o->kind),
                               .pass = "forward",
                               .ndims = PDL_KEY_EXTENTS};
    if (o->kind != PDL_PLAN_OP_COMPUTE && o->kind != PDL_PLAN_OP_ADD &&
        o->kind != PDL_PLAN_OP_UPDATE)
        return false;
    pdl_plan_op_work(p, op, rank, &w);
    k->dims[PDL_KEY_FLOPS] = w.flops;
    k->dims[PDL_KEY_BYTES] = w.read_bytes + w.write_bytes;
    if (o->kind == PDL_PLAN_OP_UPDATE)
        for (int i = 0; i < o->nout; i++) /* an item of a weight each */
            k->dims[PDL_KEY_FLOPS] += pdl_plan_elements(p, o->out[i], rank);
    if (o->kind == PDL_PLAN_OP_COMPUTE)
        compute_key(p, o, rank, k);
    return k->dims[PDL_KEY_FLOPS] > 0 || k->dims[PDL_KEY_BYTES] > 0;
}
