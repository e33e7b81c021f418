/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between a PE and its host on streams of their own, one each way, and
 * what computation waits for them (offload). */
#include "oracle/step/stage.h"

double oracle_inputs_ready(const struct oracle *o, int op,
                           const struct streams *c)
{
    double t = 0;

    for (int k = 0; k < o->p->ops[op].nin; k++) {
        double r = c->ready[o->p->ops[op].in[k]];

        t = r > t ? r : t;
    }
    return t;
}

void oracle_keep(const struct oracle *o, int op, double start, double seconds)
{
    if (o->record) {
        o->record->start[op] = start;
        o->record->seconds[op] = seconds;
    }
}

/* Copies start when the program comes to them (those of gradients, when these
 * are made); what is copied out keeps its memory until it is done. */
static void run_copy(const struct oracle *o, int op, enum phase phase,
                     double seconds, struct streams *c)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool out = x->kind == PDL_PLAN_OP_COPY_OUT, early = c->ahead && !out;
    double *stream = out ? &c->out : &c->in;
    double start = early ? 0 : oracle_inputs_ready(o, op, c);

    if ((phase != UPDATE && !early) || !c->overlap)
        start = c->compute > start ? c->compute : start;
    start = *stream > start ? *stream : start;
    *stream = start + seconds;
    *(out ? &c->out_busy : &c->in_busy) += phase == UPDATE ? 0 : seconds;
    oracle_keep(o, op, start, seconds);
    for (int k = 0; k < x->nout; k++) {
        c->ready[x->out[k]] = *stream;
        if (out)
            c->ready[x->in[k]] = *stream;
        if (c->copied)
            c->copied[x->out[k]] = c->copied[x->in[k]] = true;
    }
    if (!c->overlap) {
        c->late += *stream - c->compute;
        c->compute = *stream;
    }
}

/* Does the operation wait for a copy, rather than for an exchange? */
bool oracle_waits_for_copy(const struct oracle *o, int op,
                           const struct streams *c)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double last = oracle_inputs_ready(o, op, c);

    for (int k = 0; c->copied && k < x->nin; k++)
        if (c->copied[x->in[k]] && c->ready[x->in[k]] >= last)
            return true;
    return false;
}

/* Nothing is computed from operation k of the item on: its memory may come
 * back while the next task runs. */
static bool is_over(const struct oracle *o, const struct pdl_plan_item *it,
                    int k)
{
    const struct pdl_plan_op *x = &o->p->ops[it->first_op];

    for (; k < it->nops; k++)
        if (x[k].kind != PDL_PLAN_OP_FREE && !oracle_is_copy(x[k].kind))
            return false;
    return true;
}

/* What concerns copies alone; true: the operation is done with. */
bool oracle_of_copies(const struct oracle *o, const struct pdl_plan_item *it,
                      int k, enum phase phase, double seconds,
                      struct streams *c)
{
    enum pdl_plan_op_kind kind = o->p->ops[it->first_op + k].kind;

    if (oracle_is_copy(kind)) {
        run_copy(o, it->first_op + k, phase, seconds, c);
        return true;
    }
    c->ahead = false;
    return kind == PDL_PLAN_OP_FREE && phase == FORWARD && c->out_busy > 0 &&
           is_over(o, it, k);
}
