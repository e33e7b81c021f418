/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts in exact arithmetic: sums over the experts that a token
 * visits. */
#include "symbolic.h"

#define MUL plan_num_mul
#define ADD plan_num_add
#define GET plan_part_get

/* y = sum over the experts e that a token visits, gate^2 sum over f of
 * (w0 x)^2 w1. Which it visits follows from its scores, which every rank has
 * whole. */
struct mixture {
    const struct pdl_attr *attr;
    const struct plan_part *x, *scores, *dy, *w0, *w1;
};

static plan_num weight3(struct plan_machine *m, const struct plan_part *w,
                        int64_t e, int64_t a, int64_t b)
{
    int64_t i[3] = {e, a, b};

    return GET(m, w, i);
}

static bool visits(struct plan_machine *m, const struct mixture *k,
                   const int64_t *i, int64_t e)
{
    int64_t first = (int64_t)(plan_part_element(m, k->scores, i[0], i[1], 0) %
                              (plan_num)k->attr->experts);

    return (e - first + k->attr->experts) % k->attr->experts < k->attr->topk;
}

static plan_num gate(struct plan_machine *m, const struct mixture *k,
                     const int64_t *i, int64_t e)
{
    return plan_num_square(plan_part_element(m, k->scores, i[0], i[1], e));
}

/* What row f of expert e makes of the token. */
static plan_num inner(struct plan_machine *m, const struct mixture *k,
                      const int64_t *i, int64_t e, int64_t f)
{
    plan_num s = 0;

    for (int64_t h = k->x->box.lo[2]; h < k->x->box.hi[2]; h++)
        s = ADD(s, MUL(weight3(m, k->w0, e, f, h),
                       plan_part_element(m, k->x, i[0], i[1], h)));
    return s;
}

static void experts_forward(struct plan_machine *m, const struct mixture *k,
                            struct plan_part *y)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&y->box, i)
    {
        plan_num sum = 0;

        for (int64_t e = k->w0->box.lo[0]; e < k->w0->box.hi[0]; e++)
            for (int64_t f = 0; f < k->attr->ffn && visits(m, k, i, e); f++)
                sum = ADD(sum, MUL(MUL(gate(m, k, i, e),
                                       plan_num_square(inner(m, k, i, e, f))),
                                   weight3(m, k->w1, e, i[2], f)));
        plan_part_put(y, i, sum);
    }
}

/* dx and the scores' gradient, over the experts at hand. */
static void experts_data(struct plan_machine *m, const struct mixture *k,
                         struct plan_part *out, bool scores)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&out->box, i)
    {
        plan_num sum = 0;

        for (int64_t e = k->w0->box.lo[0]; e < k->w0->box.hi[0]; e++)
            for (int64_t f = 0; f < k->attr->ffn && visits(m, k, i, e); f++) {
                plan_num d = 0;

                if (scores && e != i[2])
                    continue;
                for (int64_t h = k->dy->box.lo[2]; h < k->dy->box.hi[2]; h++)
                    d = ADD(d, MUL(plan_part_element(m, k->dy, i[0], i[1], h),
                                   weight3(m, k->w1, e, h, f)));
                d = MUL(d, MUL(inner(m, k, i, e, f), gate(m, k, i, e)));
                sum = ADD(sum,
                          scores ? d : MUL(d, weight3(m, k->w0, e, f, i[2])));
            }
        plan_part_put(out, i, sum);
    }
}

/* Of expert e over the tokens at hand that visit it. */
static void experts_weights(struct plan_machine *m, const struct mixture *k,
                            struct plan_part *dw, bool down)
{
    int64_t i[PDL_BOX_DIMS] = {0}, w[PDL_BOX_DIMS] = {0};
    struct pdl_box tokens = k->dy->box;

    tokens.ndims = 2;
    PLAN_EACH(&dw->box, w)
    {
        plan_num sum = 0;

        PLAN_EACH(&tokens, i)
        {
            int64_t h = down ? w[1] : w[2], f = down ? w[2] : w[1];

            if (!visits(m, k, i, w[0]))
                continue;
            sum = ADD(sum, MUL(MUL(gate(m, k, i, w[0]), (plan_num)(f + 3)),
                               MUL(plan_part_element(m, down ? k->dy : k->x,
                                                     i[0], i[1], h),
                                   plan_part_element(m, down ? k->x : k->dy,
                                                     i[0], i[1], 0))));
        }
        plan_part_put(dw, w, sum);
    }
}

/* Forward x scores w0 w1; backward-data dy w0 w1 x scores; backward-weights
 * x scores dy. */
void plan_kernel_experts(struct plan_machine *m, const struct plan_call *k)
{
    struct mixture a = {.attr = &k->node->attr};

    if (k->node->nin != 2 || k->node->nweights != 2) {
        m->missing = "experts with a bias";
        return;
    }
    if (k->pass == PDL_FORWARD) {
        a = (struct mixture){a.attr, k->in[0], k->in[1],
                             NULL,   k->in[2], k->in[3]};
        experts_forward(m, &a, k->out[0]);
    } else if (k->pass == PDL_BACKWARD_DATA) {
        a = (struct mixture){a.attr,   k->in[3], k->in[4],
                             k->in[0], k->in[1], k->in[2]};
        experts_data(m, &a, k->out[0], false);
        if (k->nout > 1)
            experts_data(m, &a, k->out[1], true);
    } else {
        a = (struct mixture){a.attr, k->in[0], k->in[1], k->in[2], NULL, NULL};
        experts_weights(m, &a, k->out[0], false);
        experts_weights(m, &a, k->out[1], true);
    }
}
