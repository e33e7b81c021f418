/* SPDX-License-Identifier: Apache-2.0
 *
 * First values of the weights: functions of the seed, the tensor and the
 * global index of the element, so that every split of a tensor starts from
 * the same numbers. Distributions are PyTorch's defaults (uniform in
 * +-1/sqrt(fan in), He et al. 2015 with a = sqrt 5) for networks of images,
 * GPT-2's (normal, 0.02) for transformers. */
#include "train/train_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1 << 14 }; /* elements that are worth a second thread */

enum shape { ZERO, ONE, UNIFORM, NORMAL };

struct init {
    enum shape shape;
    double width;
};

static double unit(uint32_t v)
{
    return ((double)v + 0.5) / 4294967296.0;
}

static double draw(const struct init *in, uint64_t seed, int tensor, int64_t i)
{
    const double pi = 3.14159265358979323846;
    struct pdl_rng4 r;

    if (in->shape == ZERO || in->shape == ONE)
        return in->shape == ONE ? 1 : 0;
    r = pdl_philox(seed, UINT64_C(0x77656967687400) + (uint64_t)tensor,
                   (uint64_t)i);
    if (in->shape == UNIFORM)
        return in->width * (2 * unit(r.v[0]) - 1);
    return in->width * sqrt(-2 * log(unit(r.v[0]))) *
           cos(2 * pi * unit(r.v[1]));
}

static bool is_contraction(const struct pdl_node *n)
{
    enum pdl_op_id id = pdl_op_id(n->op);

    return id == PDL_ID_CONV || id == PDL_ID_LINEAR ||
           id == PDL_ID_CONV_TRANSPOSE;
}

/* Inputs that one output sums, of a weight [F, C/g, k...]. */
static int64_t fan_in(const struct pdl_tensor *w)
{
    int64_t n = 1;

    for (int d = 1; d < w->rank; d++)
        n *= w->dim[d];
    return n > 0 ? n : 1;
}

static struct init init_of(const struct pdl_model *m, const struct pdl_node *n,
                           int j)
{
    const struct pdl_tensor *w = &m->tensors[n->weights[j]];
    bool tf = m->kind && strcmp(m->kind, "transformer") == 0;

    if (w->kind == PDL_TENSOR_BUFFER) /* running mean, running variance */
        return (struct init){j == n->nweights - 1 ? ONE : ZERO, 0};
    if (is_contraction(n) && tf)
        return (struct init){j == 0 ? NORMAL : ZERO, 0.02};
    if (is_contraction(n))
        return (struct init){
            UNIFORM, 1 / sqrt((double)fan_in(&m->tensors[n->weights[0]]))};
    if (pdl_op_id(n->op) == PDL_ID_EMBEDDING || w->rank > 1)
        return (struct init){NORMAL, tf ? 0.02 : 1};
    return (struct init){j == 0 ? ONE : ZERO, 0}; /* norms: scale, shift */
}

static struct init find_init(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int j = 0; j < m->nodes[i].nweights; j++)
            if (m->nodes[i].weights[j] == tensor)
                return init_of(m, &m->nodes[i], j);
    return (struct init){ZERO, 0};
}

/* Elements that differ in the last dimension only: row `row` of the part. */
static void draw_row(const pdl_trainer *t, int tensor, const struct init *in,
                     const struct pdl_train_part *part, int64_t row)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    const struct pdl_box *b = &part->box;
    int last = p->ndims - 1;
    int64_t i[PDL_BOX_DIMS] = {0}, e = 0;

    for (int d = last - 1; d >= 0; d--) {
        int64_t n = b->hi[d] - b->lo[d];

        i[d] = b->lo[d] + row % n;
        row /= n;
    }
    for (int d = 0; d < last; d++)
        e = e * p->dim[d] + i[d];
    for (i[last] = b->lo[last]; i[last] < b->hi[last]; i[last]++)
        pdl_train_put(
            part, i,
            draw(in, t->opt.seed, p->model_tensor, e * p->dim[last] + i[last]));
}

/* By all threads of the rank: large networks have many weights. */
static void draw_all(const pdl_trainer *t, int tensor, enum pdl_dtype dtype,
                     void *data)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    const struct train_array *a = &t->arrays[tensor];
    const struct pdl_train_part part = {.dtype = dtype,
                                        .ndims = p->ndims,
                                        .box = a->box,
                                        .channels_last = a->channels_last,
                                        .data = data};
    const struct init in = find_init(t->plan->model, p->model_tensor);
    int last = p->ndims - 1;
    int64_t n = pdl_box_volume(&a->box), rows;

    if (pdl_box_empty(&a->box))
        return;
    rows = n / (a->box.hi[last] - a->box.lo[last]);
#pragma omp parallel for schedule(static) if (n > MANY)
    for (int64_t r = 0; r < rows; r++)
        draw_row(t, tensor, &in, &part, r);
}

enum pdl_status train_init_weight(pdl_trainer *t, int tensor,
                                  enum pdl_dtype dtype, void *data,
                                  struct pdl_err *err)
{
    int64_t n = train_array_elements(&t->arrays[tensor]);
    int64_t bytes = n * pdl_dtype_bits(dtype) / 8;
    bool away = t->device && !train_is_far(t, tensor);
    void *room = away ? malloc((size_t)bytes + 1) : data;

    if (!room)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the weights");
    draw_all(t, tensor, dtype, room);
    if (away) {
        train_put(t, data, room, bytes);
        free(room);
    }
    return PDL_OK;
}
