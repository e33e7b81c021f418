/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model said: the tensor that the loss reads, of the whole batch of
 * the last step, before its update. Every item is written by the one rank
 * that owns it into a table of zeros; adding the tables of all ranks adds
 * zeros, so the numbers are those of the rank that made them. */
#include "train/train_priv.h"

#include <stdlib.h>

/* The first loss of the plan: models with several are asked for that one. */
static int output_tensor(const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++)
        if (train_ends_loss(&p->ops[i]))
            return p->ops[i].in[0];
    return -1;
}

enum pdl_status train_outputs_open(struct train_outputs *o,
                                   const struct pdl_plan *p,
                                   struct pdl_err *err)
{
    const struct pdl_plan_tensor *y;
    int64_t n = p->batch;

    *o = (struct train_outputs){.plan = p, .tensor = output_tensor(p)};
    if (o->tensor < 0)
        return pdl_fail(err, PDL_EINVAL, "%s: has no loss", p->model->name);
    y = &p->tensors[o->tensor];
    for (int d = 1; d < y->ndims; d++)
        if (!pdl_mul64(n, y->dim[d], &n))
            n = INT64_MAX / 16;
    o->count = n;
    o->whole =
        n < INT64_MAX / 16 ? calloc((size_t)n + 1, sizeof(double)) : NULL;
    return o->whole ? PDL_OK
                    : pdl_fail(err, PDL_ENOMEM, "out of memory for outputs");
}

void train_outputs_close(struct train_outputs *o)
{
    free(o->whole);
    o->whole = NULL;
}

/* Sees every result; only those of steps, not of evaluations, count. */
void train_outputs_watch(void *ctx, const struct pdl_train_seen *seen)
{
    struct train_outputs *o = ctx;
    const struct pdl_box *b = &seen->part.box;
    int64_t i[PDL_BOX_DIMS] = {0}, at;
    bool dealt = pdl_plan_dealt(o->plan, o->tensor);
    int d;

    if (seen->tensor != o->tensor || !o->on || pdl_box_empty(b) ||
        !train_owns(o->plan, o->tensor, seen->rank))
        return;
    for (d = 0; d < b->ndims; d++)
        i[d] = b->lo[d];
    do {
        at = seen->micro * seen->part.dim[0] + i[0];
        for (d = 1; d < b->ndims; d++)
            at = at * seen->part.dim[d] +
                 (d == 1 && dealt ? pdl_deal_position(&o->plan->deal, i[d])
                                  : i[d]);
        o->whole[at] = pdl_train_get(&seen->part, i);
        for (d = b->ndims - 1; d >= 0; d--) {
            if (++i[d] < b->hi[d])
                break;
            i[d] = b->lo[d];
        }
    } while (d >= 0);
}

static enum pdl_status write_file(const struct train_outputs *o,
                                  const char *path, struct pdl_err *err)
{
    const struct pdl_plan_tensor *y = &o->plan->tensors[o->tensor];
    const char *const meta[] = {"format", "pt", NULL};
    struct pdl_weights_options opt = {.metadata = meta};
    struct pdl_shard s = {.name = "outputs",
                          .dtype = PDL_F64,
                          .rank = y->ndims,
                          .data = o->whole};

    for (int d = 0; d < y->ndims; d++)
        s.dim[d] = y->dim[d];
    s.dim[0] = o->plan->batch;
    return pdl_weights_write(path, &s, 1, &opt, err);
}

enum pdl_status train_outputs_write(struct train_outputs *o, pdl_comm *comm,
                                    const char *path, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (pdl_comm_size(comm) > 1)
        st = pdl_comm_allreduce(comm, o->whole, o->whole, o->count,
                                PDL_COMM_F64, PDL_COMM_SUM, err);
    if (st == PDL_OK && pdl_comm_rank(comm) == 0)
        st = write_file(o, path, err);
    return st;
}
