/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing the plan: tensors, operations, items. The first failure sticks. */
#include "plan_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void plan_fail(struct plan_lower *lo, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (lo->status != PDL_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lo->status = pdl_fail(lo->err, PDL_EINVAL, "%s", text);
}

void plan_at_node(struct plan_lower *lo, int node)
{
    lo->round_now = lo->rolled && node >= 0 ? lo->rolled->round[node] : -1;
}

static void no_memory(struct plan_lower *lo)
{
    if (lo->status == PDL_OK)
        lo->status = pdl_fail(lo->err, PDL_ENOMEM, "the plan is too large");
}

/* A layer has seven or eight tensors (two of them weights, each with two
 * gradients) and about as many operations: growing would copy what fresh pages
 * already cost once. */
enum { PER_LAYER = 8 };

/* Room for one more element of an array in the arena. */
static bool reserve(struct plan_lower *lo, void **array, int count, int *cap,
                    int per_layer, size_t size)
{
    int grown = *cap ? *cap + *cap / 2 : 64 + per_layer * lo->model->nnodes;
    void *p;

    if (lo->status != PDL_OK)
        return false;
    if (count < *cap)
        return true;
    p = pdl_arena_grow(lo->arena, *array, (size_t)count, (size_t)grown, size);
    if (!p) {
        no_memory(lo);
        return false;
    }
    *array = p;
    *cap = grown;
    return true;
}

int plan_add_tensor(struct plan_lower *lo, const struct pdl_plan_tensor *t)
{
    void *array = lo->tensors;

    if (!reserve(lo, &array, lo->plan.ntensors, &lo->tensor_cap, PER_LAYER,
                 sizeof *t))
        return -1;
    lo->tensors = array;
    lo->tensors[lo->plan.ntensors] = *t;
    lo->tensors[lo->plan.ntensors].stage = lo->stage_now;
    lo->tensors[lo->plan.ntensors].round = lo->round_now;
    if (!t->frame)
        lo->tensors[lo->plan.ntensors].frame = pdl_no_frames;
    return lo->plan.ntensors++;
}

const char *plan_name(struct plan_lower *lo, const char *before,
                      const char *name, const char *after)
{
    size_t a = strlen(before), n = strlen(name), b = strlen(after);
    char *p = PDL_NEW(lo->arena, char, a + n + b + 1);

    if (!p) {
        no_memory(lo);
        return name;
    }
    memcpy(mempcpy(mempcpy(p, before, a), name, n), after, b + 1);
    return p;
}

const struct pdl_frame *plan_copy_frames(struct plan_lower *lo,
                                         const struct pdl_frame *frames)
{
    struct pdl_frame *p = PDL_NEW(lo->arena, struct pdl_frame, PDL_BOX_DIMS);

    if (!p) {
        no_memory(lo);
        return pdl_no_frames;
    }
    memcpy(p, frames, PDL_BOX_DIMS * sizeof *p);
    return p;
}

/* Both lists of operands, one behind the other. */
static void copy_ids(struct plan_lower *lo, struct pdl_plan_op *op)
{
    int n = op->nin + op->nout;
    int *p = PDL_NEW(lo->arena, int, n > 0 ? n : 1);

    if (!p) {
        no_memory(lo);
        return;
    }
    if (op->nin > 0)
        memcpy(p, op->in, (size_t)op->nin * sizeof *p);
    if (op->nout > 0)
        memcpy(p + op->nin, op->out, (size_t)op->nout * sizeof *p);
    op->in = p;
    op->out = p + op->nin;
}

int plan_push_op(struct plan_lower *lo, const struct pdl_plan_op *op)
{
    void *array = lo->ops;

    if (!reserve(lo, &array, lo->plan.nops, &lo->op_cap, PER_LAYER, sizeof *op))
        return -1;
    lo->ops = array;
    lo->ops[lo->plan.nops] = *op;
    return lo->plan.nops++;
}

const char *plan_algorithm(const struct pdl_strategy *s)
{
    return s->allreduce && strcmp(s->allreduce, "auto") != 0 ? s->allreduce
                                                             : NULL;
}

int plan_add_op(struct plan_lower *lo, const struct pdl_plan_op *op)
{
    struct pdl_plan_op copy = *op;

    for (int i = 0; i < op->nin + op->nout; i++)
        if ((i < op->nin ? op->in[i] : op->out[i - op->nin]) < 0)
            return -1; /* an operand failed before */
    copy_ids(lo, &copy);
    copy.round = lo->round_now;
    if (op->kind == PDL_PLAN_OP_ALLREDUCE)
        copy.algorithm = op->compress ? NULL : plan_algorithm(lo->strategy);
    return lo->status == PDL_OK ? plan_push_op(lo, &copy) : -1;
}

int plan_emit(struct plan_lower *lo, enum pdl_plan_op_kind kind,
              enum pdl_pass pass, int node, const int *in, int nin,
              const int *out, int nout)
{
    return plan_add_op(lo, &(struct pdl_plan_op){.kind = kind,
                                                 .pass = pass,
                                                 .node = node,
                                                 .nin = nin,
                                                 .nout = nout,
                                                 .in = in,
                                                 .out = out});
}

void plan_begin_item(struct plan_lower *lo, int segment, int64_t repeat)
{
    void *array = lo->items;

    if (!reserve(lo, &array, lo->plan.nitems, &lo->item_cap, 0,
                 sizeof *lo->items))
        return;
    lo->items = array;
    lo->items[lo->plan.nitems++] = (struct pdl_plan_item){
        .first_op = lo->plan.nops, .repeat = repeat, .segment = segment};
}

void plan_end_item(struct plan_lower *lo)
{
    struct pdl_plan_item *it;

    if (lo->status != PDL_OK)
        return;
    it = &lo->items[lo->plan.nitems - 1];
    it->nops = lo->plan.nops - it->first_op;
}

void plan_fallback(struct plan_lower *lo, int node, enum pdl_axis axis)
{
    void *array = lo->fallbacks, *rounds = lo->fallback_round;
    int cap = lo->fallback_cap;
    const char *text;

    if (!reserve(lo, &rounds, lo->plan.nfallbacks, &cap, 0,
                 sizeof *lo->fallback_round) ||
        !reserve(lo, &array, lo->plan.nfallbacks, &lo->fallback_cap, 0,
                 sizeof *lo->fallbacks))
        return;
    lo->fallbacks = array;
    lo->fallback_round = rounds;
    lo->fallback_round[lo->plan.nfallbacks] = lo->round_now;
    text = pdl_arena_printf(lo->arena, "%s: %s replicated",
                            lo->model->nodes[node].name, pdl_axis_name(axis));
    if (!text)
        no_memory(lo);
    else
        lo->fallbacks[lo->plan.nfallbacks++] = text;
}
