/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax cross-entropy over the class dimension of what no node reads.
 * Labels have the index n (and positions) and lie like the output.
 *
 * Where ranks have only some of the classes (filter or tensor parallelism of
 * the last layer, a vocabulary of 250,000 words) the output is never brought
 * together: its largest value meets first (a partial maximum), then the sums
 * of exponentials and the value of the right class (partial sums), one number
 * each for a sample instead of one for each class (Shoeybi et al. 2019,
 * section 3). The papers' exchange gathers, as their formulas do. */
#include "plan_priv.h"

int plan_loss_classes(int ndims)
{
    return ndims >= 4 ? 1 : ndims - 1;
}

/* A tensor of y's shape with `n` items in place of the classes; where y's
 * classes are cut it lies as `instead`. */
static int beside(struct plan_lower *lo, int y, enum pdl_plan_kind kind,
                  const char *name, int64_t n, int instead)
{
    struct pdl_plan_tensor t = lo->tensors[y];
    int classes = plan_loss_classes(t.ndims);

    t.kind = kind;
    t.name = plan_name(lo, "", lo->tensors[y].name, name);
    t.dim[classes] = n;
    t.unit[classes] = 0;
    t.model_tensor = -1;
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (t.place.at[f] == classes)
            t.place.at[f] = (int8_t)instead;
    return plan_add_tensor(lo, &t);
}

static bool has_all_classes(const struct plan_lower *lo, int y)
{
    const struct pdl_plan_tensor *t = &lo->tensors[y];

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (t->place.at[f] == plan_loss_classes(t->ndims))
            return false;
    return true;
}

static int brought_together(struct plan_lower *lo, int y)
{
    struct pdl_place p = lo->tensors[y].place;
    int classes = plan_loss_classes(lo->tensors[y].ndims);

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (p.at[f] == classes)
            p.at[f] = PDL_REPLICATED;
    return plan_move(lo, y, &p);
}

static void emit(struct plan_lower *lo, int part, const int *in, int nin,
                 int out)
{
    plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_COMPUTE,
                                          .pass = PDL_FORWARD,
                                          .part = part,
                                          .node = -1,
                                          .nin = nin,
                                          .in = in,
                                          .nout = 1,
                                          .out = &out});
}

/* Largest value, then sums, then the gradient. */
static void in_parts(struct plan_lower *lo, int y, int label, int dy)
{
    int in[4] = {y, label, -1, -1}, largest, sums;

    largest = beside(lo, y, PDL_PLAN_STATISTIC, ".max", 1, PDL_PARTIAL_MAX);
    emit(lo, 0, in, 1, largest);
    in[2] = plan_resolve_partial(lo, largest);
    sums = beside(lo, y, PDL_PLAN_STATISTIC, ".sums", 2, PDL_PARTIAL);
    emit(lo, 1, in, 3, sums);
    in[3] = plan_resolve_partial(lo, sums);
    emit(lo, 2, in, 4, dy);
}

static void loss_of(struct plan_lower *lo, int tensor)
{
    int y = lo->values[tensor].versions->tensor, in[2], dy;
    struct pdl_plan_tensor grad;

    if (lo->strategy->exchange_paper || lo->opt->gather_classes)
        y = brought_together(lo, y);
    if (y < 0)
        return;
    in[0] = y;
    in[1] = beside(lo, y, PDL_PLAN_LABEL, ".label", 1, PDL_REPLICATED);
    grad = lo->tensors[y];
    grad.kind = PDL_PLAN_GRADIENT;
    grad.name = plan_name(lo, "d(", lo->model->tensors[tensor].name, ")");
    dy = plan_add_tensor(lo, &grad);
    if (has_all_classes(lo, y))
        emit(lo, 0, in, 2, dy);
    else
        in_parts(lo, y, in[1], dy);
    plan_contribute(lo, tensor, dy);
}

void plan_loss(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;
    bool *read = PDL_NEW(lo->arena, bool, m->ntensors + 1);
    int n = 0;

    if (!read) {
        plan_fail(lo, "out of memory");
        return;
    }
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            read[m->nodes[i].in[k]] = true;
    for (int t = 0; t < m->ntensors && lo->status == PDL_OK; t++)
        if (!read[t] && lo->values[t].versions && lo->values[t].needs_grad &&
            plan_copy_of(lo, lo->values[t].home_stage) ==
                plan_copy_of(lo, lo->stage_now)) {
            loss_of(lo, t);
            n++;
        }
    if (n == 0)
        plan_fail(lo, "%s has no output to train", m->name);
}
