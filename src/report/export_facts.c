/* SPDX-License-Identifier: Apache-2.0
 *
 * What launchers want to know of a transformer, read from its graph by the
 * names that every decoder of the zoo and of an HF config has
 * (layers.{i}.attn.core ...), and of a strategy, as degrees. */
#include "export.h"

#include <string.h>

/* ---- the model --------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && memcmp(name + n - k, end, k) == 0;
}

const struct pdl_node *report_node(const struct pdl_model *m, const char *name)
{
    for (int i = 0; i < m->nnodes; i++)
        if (*name == '.' ? ends_with(m->nodes[i].name, name)
                         : strcmp(m->nodes[i].name, name) == 0)
            return &m->nodes[i];
    return NULL;
}

static bool has(const struct pdl_model *m, const char *name)
{
    return report_node(m, name) != NULL;
}

/* Width of what a node makes; 0 where it is not there. */
static int64_t width(const struct pdl_model *m, const char *name)
{
    const struct pdl_node *n = report_node(m, name);
    const struct pdl_tensor *t = n ? &m->tensors[n->out[0]] : NULL;

    return t && t->rank > 0 ? t->dim[t->rank - 1] : 0;
}

bool report_biased(const struct pdl_model *m, const char *name)
{
    const struct pdl_node *n = report_node(m, name);

    return n && n->nweights > 1;
}

/* Rounds of the segments whose layers have such a node. */
static int64_t layers_with(const struct pdl_model *m, const char *name)
{
    int64_t n = 0;

    for (int s = 0; s < m->nsegments; s++)
        for (int i = 0; i < m->segments[s].nnodes; i++)
            if (ends_with(m->nodes[m->segments[s].first_node + i].name, name)) {
                n += m->segments[s].repeat;
                break;
            }
    return n;
}

static void read_experts(const struct pdl_model *m, struct report_gpt *g)
{
    const struct pdl_node *e = report_node(m, ".moe.experts");

    if (!e)
        return;
    g->experts = e->attr.experts;
    g->topk = e->attr.topk;
    g->moe_ffn = e->attr.ffn;
    g->gated = g->gated || e->attr.gated;
    g->shared_ffn = width(m, ".moe.shared.up");
    g->dense_layers = g->layers - layers_with(m, ".moe.experts");
}

static void read_latent(const struct pdl_model *m, struct report_gpt *g)
{
    const struct pdl_node *core = report_node(m, ".attn.core");

    if (!has(m, ".attn.kv_a"))
        return;
    g->q_lora = width(m, ".attn.q_a");
    g->kv_lora = width(m, ".attn.latent");
    g->qk_rope = width(m, ".attn.kv_a") - g->kv_lora;
    g->qk_nope = g->head_dim - g->qk_rope;
    g->v_head_dim = core->attr.v_head_dim;
}

static void read_rope(const struct pdl_model *m, struct report_gpt *g)
{
    const struct pdl_node *n = report_node(m, ".attn.q_rope");

    if (!n)
        return;
    g->rope_base = n->attr.theta;
    g->rope_scale = n->attr.alpha > 0 ? n->attr.scale : 0;
}

static int64_t positions(const struct pdl_model *m)
{
    const struct pdl_node *n = report_node(m, "embed.positions");

    return n && n->nweights > 0 ? m->tensors[n->weights[0]].dim[0] : 0;
}

static enum pdl_status read_gpt(const struct pdl_model *m, const char *format,
                                struct report_gpt *g, struct pdl_err *err)
{
    const struct pdl_node *core = report_node(m, ".attn.core");
    const struct pdl_node *embed = report_node(m, "embed.tokens");
    const struct pdl_node *head = report_node(m, "head");
    const struct pdl_node *norm = report_node(m, "norm");

    if (!core || !embed || !head || !norm || !core->attr.causal) {
        pdl_fail(err, PDL_EINVAL,
                 "%s launches decoder-only transformers; %s "
                 "is none",
                 format, m->name);
        pdl_hint(err, "'paradl project --emit' writes the plan itself");
        return PDL_EINVAL;
    }
    *g = (struct report_gpt){
        .layers = layers_with(m, ".attn.core"),
        .hidden = width(m, "embed.tokens"),
        .heads = core->attr.heads,
        .kv_heads =
            core->attr.kv_heads ? core->attr.kv_heads : core->attr.heads,
        .head_dim = core->attr.head_dim,
        .ffn = width(m, ".ffn.up"),
        .vocab = embed->attr.vocab,
        .tokens = m->tokens,
        .positions = positions(m),
        .rms = pdl_op_id(norm->op) == PDL_ID_RMS_NORM,
        .epsilon = norm->attr.epsilon,
        .rope = has(m, ".attn.q_rope"),
        .gated = has(m, ".ffn.gate"),
        .tied = head->weights[0] == embed->weights[0],
        .causal = core->attr.causal,
        .bias = report_biased(m, ".attn.out"),
        .qkv_bias = report_biased(m, ".attn.q"),
        .qk_norm = has(m, ".attn.q_norm"),
        .correction = has(m, ".moe.correction"),
    };
    read_experts(m, g);
    read_latent(m, g);
    read_rope(m, g);
    return PDL_OK;
}

enum pdl_status report_gpt_make(const struct pdl_model *m, const char *format,
                                struct report_gpt *out, struct pdl_err *err)
{
    enum pdl_status st = read_gpt(m, format, out, err);

    return st == PDL_OK ? report_usual(m, format, err) : st;
}

enum pdl_status report_gpt_suits(const struct pdl_model *m, const char *format,
                                 struct pdl_err *err)
{
    struct report_gpt g;

    return report_gpt_make(m, format, &g, err);
}

/* ---- the strategy ------------------------------------------------------ */

static const struct pdl_term *term(const struct pdl_strategy *s,
                                   enum pdl_axis axis)
{
    for (int i = 0; s->nclauses > 0 && i < s->clause[0].nterms; i++)
        if (s->clause[0].term[i].axis == axis)
            return &s->clause[0].term[i];
    return NULL;
}

static int64_t degree(const struct pdl_strategy *s, enum pdl_axis axis)
{
    const struct pdl_term *t = term(s, axis);

    return t ? t->size[0] : 1;
}

static enum pdl_status expressible(const struct pdl_strategy *s,
                                   const char *format, struct pdl_err *err)
{
    static const enum pdl_axis ours[] = {PDL_AXIS_SPATIAL, PDL_AXIS_FILTER,
                                         PDL_AXIS_CHANNEL};

    if (s->nclauses > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s has one strategy for all layers, this has %d",
                        format, s->nclauses);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (degree(s, ours[i]) > 1)
            return pdl_fail(err, PDL_EINVAL, "%s has no %s parallelism", format,
                            pdl_axis_name(ours[i]));
    if (s->swap || s->compress)
        return pdl_fail(err, PDL_EINVAL, "%s has no %s", format,
                        s->swap ? "swap=" : "compress=");
    if (pdl_schedule_copies(s->schedule) > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s has no pipeline that is entered at both ends",
                        format);
    return PDL_OK;
}

enum pdl_status report_machines(const struct pdl_system *sys,
                                const char *format, int64_t pes, int64_t *n,
                                int64_t *each, struct pdl_err *err)
{
    int64_t most = pdl_system_machine_pes(sys);

    *each = pes < most ? pes : most;
    *n = pes / *each;
    return pes % *each == 0
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "%s starts whole machines: %lld PEs are no multiple "
                          "of %lld",
                          format, (long long)pes, (long long)*each);
}

enum pdl_status report_cut_make(const struct pdl_export_job *job,
                                const char *format, struct report_cut *c,
                                struct pdl_err *err)
{
    const struct pdl_strategy *s = job->strategy;
    enum pdl_status st = expressible(s, format, err);
    int64_t per_rank;

    if (st != PDL_OK)
        return st;
    *c = (struct report_cut){
        .pipe = degree(s, PDL_AXIS_PIPE),
        .data = degree(s, PDL_AXIS_DATA) * degree(s, PDL_AXIS_EXPERT),
        .context = degree(s, PDL_AXIS_CONTEXT),
        .expert = degree(s, PDL_AXIS_EXPERT),
        .tensor = degree(s, PDL_AXIS_TENSOR),
        .virtual_stages = pdl_schedule_chunks(s),
    };
    c->micro_count = s->micro_batches ? s->micro_batches
                     : s->accumulate  ? s->accumulate
                                      : 1;
    c->pes = c->pipe * c->data * c->context * c->tensor;
    st = report_machines(job->system, format, c->pes, &c->nodes,
                         &c->pes_per_node, err);
    if (st != PDL_OK)
        return st;
    per_rank = c->data * c->micro_count;
    if (job->batch % per_rank != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s needs equal micro-batches: a batch of %lld does "
                        "not divide by data x micro-batches = %lld",
                        format, (long long)job->batch, (long long)per_rank);
    c->micro_batch = job->batch / per_rank;
    return PDL_OK;
}

/* Layers of a transformer that a stage computes: its attentions. */
static int64_t layers_in(const struct pdl_plan *p, int stage)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    int64_t n = 0;

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int k = 0; k < p->items[i].nops; k++) {
            const struct pdl_plan_op *o = &p->ops[p->items[i].first_op + k];

            if (o->kind == PDL_PLAN_OP_COMPUTE && o->part == 0 &&
                o->node >= 0 &&
                ends_with(p->model->nodes[o->node].name, ".attn.core"))
                n += p->items[i].repeat;
        }
    return n;
}

/* Where the plan was cut, or equally. */
static enum pdl_status read_stages(struct report_launch *l, const char *format,
                                   struct pdl_err *err)
{
    const struct pdl_plan *p = l->job->plan;
    struct report_cut *c = &l->cut;
    int64_t all = 0;

    c->stages = c->pipe * c->virtual_stages;
    if (c->stages > REPORT_STAGES || (p && p->nstages != c->stages))
        return pdl_fail(err, PDL_EINVAL, "%s: %lld stages are not exported",
                        format, (long long)c->stages);
    c->stage_layers =
        l->gpt.layers % c->stages == 0 ? l->gpt.layers / c->stages : 0;
    for (int64_t s = 0; s < c->stages; s++) {
        c->layers_of[s] = p ? layers_in(p, (int)s) : c->stage_layers;
        if (c->layers_of[s] != c->stage_layers)
            c->stage_layers = 0;
        all += c->layers_of[s];
    }
    if (all != l->gpt.layers)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %lld layers do not divide into %lld stages",
                        format, (long long)l->gpt.layers, (long long)c->stages);
    return PDL_OK;
}

enum pdl_status report_launch_make(const struct pdl_export_job *job,
                                   const char *format, struct report_launch *l,
                                   struct pdl_err *err)
{
    enum pdl_status st = report_gpt_make(job->model, format, &l->gpt, err);

    l->job = job;
    if (st == PDL_OK)
        st = report_cut_make(job, format, &l->cut, err);
    return st == PDL_OK ? read_stages(l, format, err) : st;
}
