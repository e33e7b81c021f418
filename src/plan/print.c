/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as text (doc/formats/plan.md): header, mesh, tensors, classes of
 * ranks, then one program for each phase of each stage with one operation a
 * line. What follows from the rest (mesh, classes, FLOPs, bytes) is written
 * for people and compared by the reader. */
#include "text.h"

#include <stdio.h>

static const char *const op_names[] = {
#define X(name, text) text,
    PDL_PLAN_OP_LIST(X)
#undef X
};

const char *pdl_plan_op_name(enum pdl_plan_op_kind kind)
{
    return op_names[kind];
}

const char *pdl_plan_op_text(const struct pdl_plan *p, int op, char *buf,
                             size_t size)
{
    static const char *const passes[] = {"forward", "backward-data",
                                         "backward-weights"};
    const struct pdl_plan_op *o = &p->ops[op];

    if (o->kind != PDL_PLAN_OP_COMPUTE)
        snprintf(buf, size, "%s %s", pdl_plan_op_name(o->kind),
                 o->nin == 1 ? p->tensors[o->in[0]].name : "");
    else
        snprintf(buf, size, "%s %s", passes[o->pass],
                 o->node >= 0 ? p->model->nodes[o->node].name : "loss");
    return buf;
}

struct writer {
    const struct pdl_plan *p;
    struct pdl_sink *out;
    struct plan_names nodes, tensors;
};

void plan_text_round(const struct pdl_plan *p, int round, struct pdl_sink *out)
{
    if (p->roll && round >= 0)
        pdl_printf(out, " round=%d", round);
}

/* ---- tensors ---------------------------------------------------------- */

static void put_frame(const struct pdl_frame *f, struct pdl_sink *out)
{
    const struct pdl_window *w = &f->window;

    if (f->kind == PDL_FRAME_NONE)
        return;
    pdl_printf(out, "^%s(%lld,%lld,%lld,%lld,%lld,%lld)",
               f->kind == PDL_FRAME_READS ? "reads" : "readers",
               (long long)w->kernel, (long long)w->stride,
               (long long)w->dilation, (long long)w->pad, (long long)w->in,
               (long long)w->out);
}

static uint32_t placed(const struct pdl_plan *p,
                       const struct pdl_plan_tensor *t, int at)
{
    uint32_t set = 0;

    for (int f = 0; f < p->mesh->nfactors; f++)
        if (t->place.at[f] == at)
            set |= UINT32_C(1) << f;
    return set;
}

static void put_dim(const struct writer *w, const struct pdl_plan_tensor *t,
                    int d)
{
    uint32_t set = placed(w->p, t, d);
    char name[4];

    plan_text_dim(w->p, t, d, name);
    pdl_printf(w->out, "%s%s:%lld", d ? " " : "", name, (long long)t->dim[d]);
    if (t->unit[d] > 1)
        pdl_printf(w->out, "u%lld", (long long)t->unit[d]);
    if (set) {
        pdl_puts(w->out, "/");
        plan_text_factors(w->p, set, w->out);
    }
    put_frame(&t->frame[d], w->out);
}

static void put_partial(const struct writer *w, const char *op, uint32_t set)
{
    if (!set)
        return;
    pdl_printf(w->out, " ~%s(", op);
    plan_text_factors(w->p, set, w->out);
    pdl_puts(w->out, ")");
}

static void put_tensor(const struct writer *w, int i)
{
    const struct pdl_plan_tensor *t = &w->p->tensors[i];

    pdl_printf(w->out, "t%d ", i);
    plan_text_quote(t->name, false, w->out);
    pdl_printf(w->out, " %s [", pdl_dtype_name(t->dtype));
    for (int d = 0; d < t->ndims; d++)
        put_dim(w, t, d);
    pdl_puts(w->out, "]");
    put_partial(w, "sum", placed(w->p, t, PDL_PARTIAL));
    put_partial(w, "max", placed(w->p, t, PDL_PARTIAL_MAX));
    pdl_printf(w->out, " %s stage=%d", plan_text_kinds[t->kind], t->stage);
    if (t->model_tensor >= 0) {
        pdl_puts(w->out, " of=");
        plan_names_put(&w->tensors, t->model_tensor, w->out);
    }
    if (t->host)
        pdl_puts(w->out, " host");
    if (t->of > 0)
        pdl_printf(w->out, " some=%lld/%lld", (long long)t->some,
                   (long long)t->of);
    plan_text_round(w->p, t->round, w->out);
    pdl_puts(w->out, "\n");
}

/* ---- operations ------------------------------------------------------- */

void plan_text_work(const struct pdl_plan *p, int op, int stage,
                    struct pdl_sink *out)
{
    struct pdl_work work;

    if (p->ops[op].kind == PDL_PLAN_OP_FREE)
        return;
    pdl_plan_op_work(p, op, plan_text_rank(p, stage), &work);
    if (p->ops[op].kind == PDL_PLAN_OP_COMPUTE)
        pdl_printf(out, " flops=%lld", (long long)work.flops);
    pdl_printf(out, " read=%lld write=%lld", (long long)work.read_bytes,
               (long long)work.write_bytes);
}

static void put_op(const struct writer *w, int i, int stage)
{
    const struct pdl_plan_op *op = &w->p->ops[i];
    bool compute = op->kind == PDL_PLAN_OP_COMPUTE;

    pdl_printf(w->out, "%d %s", i,
               compute ? plan_text_passes[op->pass] : op_names[op->kind]);
    if (op->part)
        pdl_printf(w->out, ".%d", op->part);
    if (compute && op->node < 0)
        pdl_puts(w->out, " loss");
    if (compute && op->node >= 0) {
        pdl_puts(w->out, " ");
        plan_names_put(&w->nodes, op->node, w->out);
    }
    if (op->group) {
        pdl_puts(w->out, " ");
        plan_text_factors(w->p, op->group, w->out);
    }
    for (int k = 0; k < op->nin; k++)
        pdl_printf(w->out, " t%d", op->in[k]);
    if (op->nout)
        pdl_puts(w->out, " ->");
    for (int k = 0; k < op->nout; k++)
        pdl_printf(w->out, " t%d", op->out[k]);
    if (op->algorithm) {
        pdl_puts(w->out, " by=");
        plan_text_quote(op->algorithm, false, w->out);
    }
    if (op->compress)
        pdl_printf(w->out, " as=%s", op->compress);
    plan_text_round(w->p, op->round, w->out);
    plan_text_work(w->p, i, stage, w->out);
    pdl_puts(w->out, "\n");
}

static void put_programs(const struct writer *w)
{
    int phase, stage, first, count;

    for (int k = 0; plan_text_program(w->p->nstages, k, &phase, &stage); k++) {
        plan_text_items(&w->p->stages[stage], phase, &first, &count);
        pdl_printf(w->out, "program %s %d rank=%lld\n", plan_text_phases[phase],
                   stage, (long long)plan_text_rank(w->p, stage));
        for (int i = first; i < first + count; i++) {
            const struct pdl_plan_item *it = &w->p->items[i];

            pdl_printf(w->out, "item repeat=%lld segment=%d\n",
                       (long long)it->repeat, it->segment);
            for (int o = 0; o < it->nops; o++)
                put_op(w, it->first_op + o, stage);
        }
    }
}

/* ---- header ----------------------------------------------------------- */

static void put_line(const char *key, const char *value, struct pdl_sink *out)
{
    if (!value)
        return;
    pdl_printf(out, "%s ", key);
    plan_text_quote(value, true, out);
    pdl_puts(out, "\n");
}

void plan_text_mesh(const struct pdl_plan *p, struct pdl_sink *out)
{
    pdl_puts(out, "mesh");
    for (int f = 0; f < p->mesh->nfactors; f++)
        pdl_printf(out, " a%d=%lld", f, (long long)p->mesh->factor[f]);
    if (p->deal.ranks > 1)
        pdl_printf(out, " zigzag=%lld", (long long)p->deal.ranks);
    for (int i = 0; i < p->mesh->nparts; i++) {
        if (i == 0)
            pdl_printf(out, " shares=a%d:", p->mesh->dealt);
        pdl_printf(out, "%s%lld*%lld", i ? "+" : "",
                   (long long)p->mesh->part[i].count,
                   (long long)p->mesh->part[i].share);
    }
    pdl_puts(out, "\n");
}

/* Units from round F of those written on, the middle one R times: F*R. */
static void put_roll(const struct pdl_plan_roll *r, struct pdl_sink *out)
{
    if (!r)
        return;
    pdl_printf(out, "roll segment=%d width=%d period=%d", r->segment, r->width,
               r->period);
    for (int g = 0; g < r->ngroups; g++)
        pdl_printf(out, " %d*%lld", r->groups[g].first,
                   (long long)r->groups[g].repeat);
    pdl_puts(out, "\n");
}

static void put_header(const struct pdl_plan *p,
                       const struct pdl_plan_head *head, struct pdl_sink *out)
{
    struct pdl_buf strategy;

    pdl_printf(out, PLAN_TEXT_MAGIC "%d\n",
               pdl_strategy_compresses(p->strategy) || p->mesh->nparts > 0
                   ? PLAN_TEXT_VERSION
                   : 2);
    put_line("model", head && head->model ? head->model : p->model->name, out);
    put_line("dim", head ? head->dim : NULL, out);
    put_line("output", head ? head->output : NULL, out);
    put_line("system", head ? head->system : NULL, out);
    put_line("precision", head ? head->precision : NULL, out);
    put_line("optimizer", head ? head->optimizer : NULL, out);
    pdl_buf_init(&strategy);
    pdl_strategy_print(p->strategy, &strategy.sink);
    put_line("strategy", strategy.text ? strategy.text : "", out);
    out->failed = out->failed || strategy.sink.failed;
    pdl_buf_free(&strategy);
    pdl_printf(out, "batch %lld micro=%lld\n", (long long)p->batch,
               (long long)p->micro_batches);
    plan_text_mesh(p, out);
    put_roll(p->roll, out);
    for (int i = 0; i < p->nfallbacks; i++)
        put_line("fallback", p->fallbacks[i], out);
}

void pdl_plan_print(const struct pdl_plan *p, const struct pdl_plan_head *head,
                    struct pdl_sink *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct writer w = {.p = p, .out = out};

    if (!a || !plan_names_nodes(a, p->model, &w.nodes) ||
        !plan_names_tensors(a, p->model, &w.tensors)) {
        out->failed = true;
        pdl_arena_destroy(a);
        return;
    }
    put_header(p, head, out);
    for (int i = 0; i < p->ntensors; i++)
        put_tensor(&w, i);
    if (plan_text_classes(p, out) != PDL_OK)
        out->failed = true;
    put_programs(&w);
    pdl_puts(out, "end\n");
    pdl_arena_destroy(a);
}
