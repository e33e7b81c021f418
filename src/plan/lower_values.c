/* SPDX-License-Identifier: Apache-2.0
 *
 * Where values of the network come from before its layers are lowered: inputs
 * that are loaded, and what earlier stages of a pipeline made. */
#include "plan_priv.h"

/* ---- inputs ----------------------------------------------------------- */

/* Inputs are loaded where the first layer wants them: their samples over the
 * data axes, their rows over the spatial ones. */
static struct pdl_place input_place(const struct plan_lower *lo,
                                    const struct pdl_tensor *m)
{
    struct pdl_place p = plan_everywhere();
    int c = lo->clause[0];

    for (int i = 0; c >= 0 && i < lo->mesh->nterms[c]; i++) {
        const struct pdl_mesh_term *x = &lo->mesh->term[c][i];
        int d = x->axis == PDL_AXIS_DATA || x->axis == PDL_AXIS_EXPERT ? 0
                : x->axis == PDL_AXIS_CONTEXT && lo->model->tokens > 0 &&
                        m->rank >= 1 && m->rank <= 2
                    ? 1
                : x->axis == PDL_AXIS_SPATIAL && x->dim + 2 <= m->rank
                    ? x->dim + 2
                    : PDL_REPLICATED;

        for (int f = 0; f < x->count; f++)
            p.at[x->first + f] = (int8_t)d;
    }
    return p;
}

/* A stored table that nodes read as an operand (Swin's positions), not as a
 * weight of theirs. */
static bool is_read_table(const struct pdl_model *m, int tensor)
{
    if (m->tensors[tensor].kind != PDL_TENSOR_BUFFER)
        return false;
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            if (m->nodes[i].in[k] == tensor)
                return true;
    return false;
}

void plan_load_inputs(struct plan_lower *lo)
{
    for (int t = 0; t < lo->model->ntensors && lo->status == PDL_OK; t++) {
        const struct pdl_tensor *m = &lo->model->tensors[t];
        struct pdl_place p = plan_everywhere();
        struct plan_version *v;

        if (m->kind != PDL_TENSOR_INPUT && m->kind != PDL_TENSOR_CONST &&
            !is_read_table(lo->model, t))
            continue;
        if (m->kind == PDL_TENSOR_INPUT)
            p = input_place(lo, m);
        v = PDL_NEW(lo->arena, struct plan_version, 1);
        if (!v) {
            plan_fail(lo, "out of memory");
            return;
        }
        v->tensor = plan_new_activation(lo, t, PDL_PLAN_INPUT, &p);
        lo->values[t].versions = v;
    }
}

/* ---- stages ----------------------------------------------------------- */

/* The next stage after `stage` that reads the tensor; -1: none. */
static int next_reader(const struct plan_lower *lo, int tensor, int stage)
{
    int next = -1;

    for (struct plan_reader *r = lo->values[tensor].readers; r; r = r->next)
        if (r->stage > stage && (next < 0 || r->stage < next))
            next = r->stage;
    return next;
}

void plan_find_readers(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;

    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++) {
            struct plan_value *v = &lo->values[m->nodes[i].in[k]];
            struct plan_reader *r = PDL_NEW(lo->arena, struct plan_reader, 1);

            if (!r) {
                plan_fail(lo, "out of memory");
                return;
            }
            *r = (struct plan_reader){i, k, lo->stage[i], v->readers};
            v->readers = r;
        }
}

/* Sends what later stages read; the receiver's tensor is a new one. */
static void hand_over(struct plan_lower *lo, int tensor, int from, int to)
{
    struct plan_value *v = &lo->values[tensor];
    int t = v->versions->tensor, got;
    struct plan_version *there = PDL_NEW(lo->arena, struct plan_version, 1);

    if (!there || t < 0) {
        plan_fail(lo, "out of memory");
        return;
    }
    lo->stage_now = to;
    got = plan_add_tensor(lo, &lo->tensors[t]);
    lo->stage_now = from;
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_SEND,
                                          .node = -1,
                                          .nin = 1,
                                          .in = &t,
                                          .nout = 1,
                                          .out = &got,
                                          .group = lo->plan.pipe_factors});
    *there = (struct plan_version){got, v->received};
    v->received = there;
}

void plan_send_forward(struct plan_lower *lo, int node)
{
    const struct pdl_node *n = &lo->model->nodes[node];

    for (int k = 0; k < n->nout; k++)
        for (int s = next_reader(lo, n->out[k], lo->stage_now); s >= 0;
             s = next_reader(lo, n->out[k], s))
            hand_over(lo, n->out[k], lo->stage_now, s);
}

/* At the start of a stage: what earlier ones sent becomes the value here. */
void plan_receive_forward(struct plan_lower *lo)
{
    for (int t = 0; t < lo->model->ntensors; t++)
        for (struct plan_version *v = lo->values[t].received; v; v = v->next)
            if (lo->tensors[v->tensor].stage == lo->stage_now) {
                struct plan_version *mine =
                    PDL_NEW(lo->arena, struct plan_version, 1);

                plan_add_op(
                    lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_RECV,
                                              .node = -1,
                                              .nout = 1,
                                              .out = &v->tensor,
                                              .group = lo->plan.pipe_factors});
                if (mine) {
                    mine->tensor = v->tensor;
                    lo->values[t].versions = mine;
                }
            }
}
