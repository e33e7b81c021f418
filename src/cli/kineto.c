/* SPDX-License-Identifier: Apache-2.0
 *
 * project --kineto: what a step was projected to do and what a trace of
 * PyTorch's profiler shows, phase by phase. The projected side is the plan's
 * operations of the rank's stage, each with its price; the measured side is
 * the trace over its number of steps. */
#include "kineto.h"

#include <stdio.h>
#include <string.h>

static const size_t MOST_BYTES = (size_t)4 << 30;

/* ---- the projected side --------------------------------------------------------- */

static enum pdl_trace_class layer_class(const char *op)
{
    static const struct {
        const char *op;
        enum pdl_trace_class class;
    } table[] = {
        {"linear", PDL_TRACE_PRODUCT},
        {"matmul", PDL_TRACE_PRODUCT},
        {"experts", PDL_TRACE_PRODUCT},
        {"attention", PDL_TRACE_ATTENTION},
        {"conv", PDL_TRACE_CONVOLUTION},
        {"conv_transpose", PDL_TRACE_CONVOLUTION},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].op, op) == 0)
            return table[i].class;
    return PDL_TRACE_OTHER;
}

static enum pdl_trace_class class_of(const struct pdl_plan *p, int op)
{
    static const enum pdl_trace_class moves[] = {
        [PDL_PLAN_OP_ALLREDUCE] = PDL_TRACE_ALLREDUCE,
        [PDL_PLAN_OP_REDUCE_SCATTER] = PDL_TRACE_REDUCE_SCATTER,
        [PDL_PLAN_OP_ALLGATHER] = PDL_TRACE_ALLGATHER,
        [PDL_PLAN_OP_ALLTOALL] = PDL_TRACE_ALLTOALL,
        [PDL_PLAN_OP_ALLTOALLV] = PDL_TRACE_ALLTOALL,
        [PDL_PLAN_OP_HALO] = PDL_TRACE_SEND,
        [PDL_PLAN_OP_SLICE] = PDL_TRACE_OTHER,
        [PDL_PLAN_OP_SEND] = PDL_TRACE_SEND,
        [PDL_PLAN_OP_RECV] = PDL_TRACE_SEND,
        [PDL_PLAN_OP_ADD] = PDL_TRACE_OTHER,
        [PDL_PLAN_OP_UPDATE] = PDL_TRACE_UPDATE,
        [PDL_PLAN_OP_COPY_OUT] = PDL_TRACE_COPY,
        [PDL_PLAN_OP_COPY_IN] = PDL_TRACE_COPY,
        [PDL_PLAN_OP_FREE] = PDL_TRACE_OTHER,
    };
    const struct pdl_plan_op *o = &p->ops[op];

    if (o->kind != PDL_PLAN_OP_COMPUTE)
        return moves[o->kind];
    return o->node >= 0 ? layer_class(p->model->nodes[o->node].op->name)
                        : PDL_TRACE_OTHER;
}

static void add_items(const struct cli_job *j, int first, int n, double times,
                      double *sum)
{
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < j->plan->items[i].nops; k++) {
            int op = j->plan->items[i].first_op + k;
            struct pdl_price price;

            if (j->plan->ops[op].kind == PDL_PLAN_OP_FREE)
                continue;
            pdl_price_op(j->plan, &j->sys, &j->oracle, op, &price);
            sum[class_of(j->plan, op)] += times * price.seconds;
        }
}

/* The place in the pipeline of a rank; the first where it is not known. */
static int lane_of(const struct pdl_plan *p, int64_t rank)
{
    int64_t lane = 0;

    for (int f = 0; rank >= 0 && rank < p->mesh->pes && f < p->mesh->nfactors;
         f++)
        if (p->pipe_factors >> f & 1)
            lane = lane * p->mesh->factor[f] + pdl_mesh_coord(p->mesh, rank, f);
    return (int)lane;
}

static void project(const struct cli_job *j, int lane, double *sum)
{
    const struct pdl_plan *p = j->plan;
    double m = (double)p->micro_batches;

    for (int s = 0; s < p->nstages; s++) {
        const struct pdl_plan_stage *x = &p->stages[s];

        if (pdl_plan_lane(p, s) != lane)
            continue;
        add_items(j, x->first_forward, x->nforward, m, sum);
        add_items(j, x->first_backward, x->nbackward, m, sum);
        add_items(j, x->first_update, x->nupdate, 1, sum);
    }
}

/* ---- joined ----------------------------------------------------------------------- */

enum pdl_status cli_kineto(pdl_arena *a, const struct cli_job *j,
                           const char *path, int64_t steps,
                           struct cli_joined *out, struct pdl_err *err)
{
    struct pdl_bytes map, text;
    enum pdl_status st = pdl_file_map(path, &map, err);

    if (st != PDL_OK)
        return st;
    *out = (struct cli_joined){.path = path};
    st = pdl_gunzip(a, map, path, MOST_BYTES, &text, err);
    if (st == PDL_OK)
        st = pdl_trace_read(a, text, path, &out->trace, err);
    pdl_file_unmap(&map);
    if (st != PDL_OK)
        return st;
    out->steps = steps > 0              ? steps
                 : out->trace.steps > 0 ? out->trace.steps
                                        : 1;
    out->lane = lane_of(j->plan, out->trace.rank);
    project(j, out->lane, out->projected);
    return PDL_OK;
}

static double measured(const struct cli_joined *x, int class)
{
    return x->trace.busy_s[class] / (double)x->steps;
}

struct row {
    const char *name;
    double projected, measured;
};

/* The step as a whole: what runs beside computation, and what nothing does. */
static void totals(const struct cli_job *j, const struct cli_joined *x,
                   struct row *out)
{
    double n = (double)x->steps;

    out[0] = (struct row){"computing", j->x.compute_s, x->trace.compute_s / n};
    out[1] = (struct row){"only communicating", j->x.exposed_comm_s,
                          x->trace.exposed_s / n};
    out[2] =
        (struct row){"waiting", j->x.bubble_s + j->x.io_s, x->trace.idle_s / n};
    out[3] = (struct row){"step", j->x.step_s, x->trace.span_s / n};
}

static void json_row(struct pdl_json *w, const struct row *r, int64_t calls)
{
    pdl_json_row(w);
    pdl_json_kstr(w, "phase", r->name);
    pdl_json_knum(w, "projected_s", r->projected);
    pdl_json_knum(w, "measured_s", r->measured);
    if (calls >= 0)
        pdl_json_kint(w, "calls", calls);
    pdl_json_end(w);
}

void cli_kineto_json(struct pdl_json *w, const struct cli_job *j,
                     const struct cli_joined *x)
{
    struct row t[4];

    totals(j, x, t);
    pdl_json_key(w, "trace");
    pdl_json_object(w);
    pdl_json_kstr(w, "file", x->path);
    pdl_json_kint(w, "steps", x->steps);
    pdl_json_kint(w, "rank", x->trace.rank);
    pdl_json_key(w, "phases");
    pdl_json_array(w);
    for (int c = 0; c < PDL_TRACE_CLASSES; c++)
        json_row(w,
                 &(struct row){pdl_trace_class_name((enum pdl_trace_class)c),
                               x->projected[c], measured(x, c)},
                 x->trace.calls[c]);
    for (int i = 0; i < 4; i++)
        json_row(w, &t[i], -1);
    pdl_json_end(w);
    pdl_json_end(w);
}

static void text_row(const struct row *r)
{
    char a[32], b[32];

    if (!(r->projected > 0) && !(r->measured > 0))
        return;
    pdl_printf(cli_out(), "  %-22s %12s %12s", r->name,
               pdl_unit_format(r->projected, PDL_UNIT_SECONDS, a, sizeof a),
               pdl_unit_format(r->measured, PDL_UNIT_SECONDS, b, sizeof b));
    if (r->measured > 0)
        pdl_printf(cli_out(), "  %+6.0f %%",
                   100 * (r->projected / r->measured - 1));
    pdl_puts(cli_out(), "\n");
}

void cli_kineto_text(const struct cli_job *j, const struct cli_joined *x)
{
    struct row t[4];

    totals(j, x, t);
    pdl_printf(cli_out(), "\n%s: %lld step%s", x->path, (long long)x->steps,
               x->steps == 1 ? "" : "s");
    if (x->trace.rank >= 0)
        pdl_printf(cli_out(), " of rank %lld", (long long)x->trace.rank);
    pdl_printf(cli_out(), "\n  %-22s %12s %12s\n", "busy, a step", "projected",
               "measured");
    for (int c = 0; c < PDL_TRACE_CLASSES; c++)
        text_row(&(struct row){pdl_trace_class_name((enum pdl_trace_class)c),
                               x->projected[c], measured(x, c)});
    for (int i = 0; i < 4; i++)
        text_row(&t[i]);
}
