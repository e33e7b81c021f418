/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up samples: functions of the seed, the sample's number and the global
 * index of the element, the same for every split. */
#include "train/train_priv.h"

#include <string.h>

/* How many values an integer input may take: rows of what looks it up. */
static int64_t vocabulary(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            if (m->nodes[i].in[k] == tensor && m->nodes[i].attr.vocab > 0)
                return m->nodes[i].attr.vocab;
    return 2;
}

/* Classes of the output that these labels belong to. */
static int64_t classes(const struct pdl_plan *p, const char *label)
{
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];
        const struct pdl_plan_tensor *y;

        if (!train_ends_loss(o) ||
            strcmp(p->tensors[o->in[1]].name, label) != 0)
            continue;
        y = &p->tensors[o->in[0]];
        return y->dim[y->ndims >= 4 ? 1 : y->ndims - 1];
    }
    return 1;
}

enum pdl_status pdl_train_noise(void *ctx, int64_t first, int model_tensor,
                                const struct pdl_train_part *part,
                                struct pdl_err *err)
{
    const struct pdl_train_noise *z = ctx;
    int64_t i[PDL_BOX_DIMS] = {0}, values = 0;
    int d;

    (void)err;
    if (model_tensor < 0)
        values = classes(z->plan, part->name);
    else if (part->dtype == PDL_I32)
        values = vocabulary(z->plan->model, model_tensor);
    if (pdl_box_empty(&part->box))
        return PDL_OK;
    memcpy(i, part->box.lo, sizeof i);
    do {
        uint64_t e = (uint64_t)(z->first + first + i[0]);
        struct pdl_rng4 r;

        for (int k = 1; k < part->ndims; k++)
            e = e * (uint64_t)part->dim[k] + (uint64_t)i[k];
        r = pdl_philox(z->seed, (uint64_t)model_tensor + 1, e);
        pdl_train_put(part, i,
                      values > 0 ? (double)(r.v[0] % (uint64_t)values)
                                 : (double)r.v[0] / 2147483648.0 - 1);
        for (d = part->ndims - 1; d >= 0; d--) {
            if (++i[d] < part->box.hi[d])
                break;
            i[d] = part->box.lo[d];
        }
    } while (d >= 0);
    return PDL_OK;
}
