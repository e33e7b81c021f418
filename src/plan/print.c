/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as text: header, mesh, tensors, one operation a line. */
#include "plan_priv.h"

#include <stdio.h>

static const char *const op_names[] = {
#define X(name, text) text,
    PDL_PLAN_OP_LIST(X)
#undef X
};
static const char *const pass_names[] = {"forward", "backward-data",
                                         "backward-weights"};

const char *pdl_plan_op_name(enum pdl_plan_op_kind kind)
{
    return op_names[kind];
}

static void print_dim(const struct pdl_plan *p, const struct pdl_plan_tensor *t,
                      int d, struct pdl_sink *out)
{
    const char *sign = "/";

    pdl_printf(out, "%s%lld", d ? " " : "", (long long)t->dim[d]);
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (t->place.at[f] == d) {
            pdl_printf(out, "%sa%d", sign, f);
            sign = "*";
        }
    if (t->frame[d].kind == PDL_FRAME_READS)
        pdl_puts(out, "^x");
    if (t->frame[d].kind == PDL_FRAME_READERS)
        pdl_puts(out, "^y");
}

static void print_tensor(const struct pdl_plan *p, int i, struct pdl_sink *out)
{
    const struct pdl_plan_tensor *t = &p->tensors[i];

    pdl_printf(out, "t%d %s %s [", i, t->name, pdl_dtype_name(t->dtype));
    for (int d = 0; d < t->ndims; d++)
        print_dim(p, t, d, out);
    pdl_puts(out, "]");
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (t->place.at[f] == PDL_PARTIAL)
            pdl_printf(out, " ~sum(a%d)", f);
    pdl_puts(out, "\n");
}

static void print_op(const struct pdl_plan *p, int i, struct pdl_sink *out)
{
    const struct pdl_plan_op *op = &p->ops[i];

    pdl_printf(out, "%d %s", i,
               op->kind == PDL_PLAN_OP_COMPUTE ? pass_names[op->pass]
                                               : op_names[op->kind]);
    if (op->part)
        pdl_printf(out, ".%d", op->part);
    if (op->kind == PDL_PLAN_OP_COMPUTE)
        pdl_printf(out, " %s",
                   op->node >= 0 ? p->model->nodes[op->node].name : "loss");
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (op->group >> f & 1)
            pdl_printf(out, " a%d", f);
    for (int k = 0; k < op->nin; k++)
        pdl_printf(out, " t%d", op->in[k]);
    if (op->nout)
        pdl_puts(out, " ->");
    for (int k = 0; k < op->nout; k++)
        pdl_printf(out, " t%d", op->out[k]);
    pdl_puts(out, "\n");
}

void pdl_plan_print(const struct pdl_plan *p, struct pdl_sink *out)
{
    pdl_printf(out,
               "plan model=%s batch=%lld micro=%lld strategy=", p->model->name,
               (long long)p->batch, (long long)p->micro_batches);
    pdl_strategy_print(p->strategy, out);
    pdl_puts(out, "\nmesh");
    for (int f = 0; f < p->mesh->nfactors; f++)
        pdl_printf(out, " a%d=%lld", f, (long long)p->mesh->factor[f]);
    pdl_puts(out, "\n");
    for (int i = 0; i < p->ntensors; i++)
        print_tensor(p, i, out);
    for (int i = 0; i < p->nops; i++)
        print_op(p, i, out);
}
