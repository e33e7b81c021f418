/* SPDX-License-Identifier: Apache-2.0
 *
 * The hunt for a number that is none. When the loss of a step is not finite
 * no weight has been changed yet, and everything is a function of the seed:
 * the step is run again and every result looked at, so that an ordinary step
 * pays nothing. Ranks agree on the first bad operation. */
#include "train/train_priv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_bad(pdl_trainer *t, int tensor, int micro)
{
    const struct train_array *a = &t->arrays[tensor];
    const void *data =
        train_view(t, train_data(t, tensor, micro), train_array_bytes(a));
    int64_t n = data ? train_array_elements(a) : 0;

    for (int64_t i = 0; i < n; i++) {
        double v = 0;

        if (a->dtype == PDL_F32) {
            v = (double)((const float *)data)[i];
        } else if (a->dtype == PDL_F64) {
            v = ((const double *)data)[i];
        } else if (a->dtype == PDL_BF16) {
            /* all ones in the exponent: infinite or none */
            if ((((const uint16_t *)data)[i] & 0x7f80) == 0x7f80)
                return true;
        }
        if (!isfinite(v))
            return true;
    }
    return false;
}

void train_hunt(pdl_trainer *t, int op, int micro)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    double place = (double)micro * t->plan->nops + op + 1;

    if ((t->bad > 0 && t->bad <= place) || o->kind == PDL_PLAN_OP_SEND)
        return;
    /* of a group what it stores; not what a backend leaves for backward */
    for (int k = 0; k < t->ops[op].nout; k++) {
        int out = t->ops[op].out[k];

        if (out < t->plan->ntensors && !train_turns(t, out) &&
            is_bad(t, out, micro))
            t->bad = place;
    }
}

/* A result is bad when an operand is: of several ranks the earliest counts.
 * Operations of later stages have higher numbers. */
enum pdl_status train_hunt_end(pdl_trainer *t, double loss, struct pdl_err *err)
{
    double place = t->bad > 0 ? t->bad : INFINITY;
    enum pdl_status st = PDL_OK;
    const struct pdl_plan_op *o;
    const char *name = "the loss";
    int op;

    if (isnan(loss))
        loss = fabs(loss); /* its sign says nothing */
    if (pdl_comm_size(t->world) > 1)
        st = train_transfer_flush(t, err);
    if (st == PDL_OK && pdl_comm_size(t->world) > 1)
        st = pdl_comm_allreduce(t->world, &place, &place, 1, PDL_COMM_F64,
                                PDL_COMM_MIN, err);
    if (st != PDL_OK)
        return st;
    if (!isfinite(place))
        return pdl_fail(err, PDL_EWRONG, "step %" PRId64 ": the loss is %g",
                        t->now, loss);
    op = (int)(((int64_t)place - 1) % t->plan->nops);
    o = &t->plan->ops[op];
    if (o->node >= 0)
        name = t->plan->model->nodes[o->node].name;
    pdl_fail(err, PDL_EWRONG,
             "step %" PRId64 ": the loss is %g; the first bad number is in %s, "
             "made by %s (operation %d)",
             t->now, loss, t->plan->tensors[o->out[0]].name,
             o->kind == PDL_PLAN_OP_COMPUTE ? name : pdl_plan_op_name(o->kind),
             op);
    pdl_hint(err, "a lower learning rate, warm-up or --clip may help");
    return PDL_EWRONG;
}
