/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrence of a Mamba-2 branch as its library runs it (Dao and Gu 2024,
 * state space duality; mamba_ssm, ssd_combined.py): tokens in chunks, products
 * inside a chunk, and a state between chunks that passes through memory in 32
 * bits. Its kernels do little arithmetic for what they move, so that bytes are
 * counted, kernel by kernel:
 *
 *   forward   states of chunks are written, carried on (read, and written in 16
 *             bits) and read; the inputs are read twice, scores of the chunks
 *             written and read
 *   backward  states once more, their gradients written, carried back and read
 *             three times; inputs and gradients of outputs are read five times
 *
 * Limits: chunks of 128 tokens (Megatron-Core's, mamba_mixer.py) and a state of
 * 128 or what B is wide, if less; no kernel of it was timed. The recurrence of
 * the first Mamba keeps its states in the chip: its inputs and outputs are
 * streamed once, as of any other operator. So is the gated delta rule's, which
 * is too little. */
#include "oracle/habit/habit.h"

#include <string.h>

enum { CHUNK = 128, STATE = 128, WIDE = 4, INPUTS = 2 };

/* Of one pass: kernels, and how often states, inputs, B and C, and scores of a
 * chunk pass through memory. */
static const struct passes {
    double kernels, states, inputs, shared, scores;
} PASSES[] = {
    [PDL_FORWARD] = {5, 3, 3, 4, 2},
    [PDL_BACKWARD_DATA] = {12, 7.5, 11, 8, 6},
    [PDL_BACKWARD_WEIGHTS] = {0}, /* the same kernels find them */
};

static bool is_scan(const struct pdl_node *n)
{
    return n->source_op && strcmp(n->source_op, "selective_scan") == 0 &&
           n->nin == INPUTS; /* the first Mamba's has three */
}

/* How wide the state of one group is. */
static double state_of(const struct oracle *o, const struct pdl_plan_op *f)
{
    const struct pdl_plan_tensor *in = &o->p->tensors[f->in[0]];
    const struct pdl_plan_tensor *out = &o->p->tensors[f->out[0]];
    int64_t b = (in->dim[in->ndims - 1] - out->dim[out->ndims - 1]) / 2;

    return b < STATE ? (double)b : STATE;
}

double oracle_scan(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;
    const struct passes *p = &PASSES[x->pass];
    double out, shared, state, item = o->pe16.item_bytes;

    if (x->node < 0 || x->part > 0 || o->pe.core ||
        !is_scan(&o->p->model->nodes[x->node]))
        return -1;
    f = &o->p->ops[o->p->forward_op[x->node]];
    state = state_of(o, f);
    out = (double)pdl_plan_elements(o->p, f->out[0], rank);
    shared = ((double)pdl_plan_elements(o->p, f->in[0], rank) - out) / 2;
    if (!(state > 0) || !(shared > 0))
        return -1;
    return p->kernels * o->pe.launch_s +
           (p->states * out * state / CHUNK * WIDE + p->inputs * out * item +
            p->shared * shared * item +
            p->scores * shared / state * CHUNK * WIDE) /
               o->pe.bytes_per_s;
}
