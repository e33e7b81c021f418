/* SPDX-License-Identifier: Apache-2.0
 *
 * The space of configurations of a transformer of equal blocks: every mesh of
 * pipe, data, expert, context and tensor on the given PEs, and the choices
 * that leave it as it is. What frameworks cannot do is left out where one is
 * named. Limits: the axes lie in the mesh in this order, tensor innermost, as
 * in Megatron-LM (search.c tries others of the best); context only where every
 * rank keeps enough positions, since on short sequences it only adds messages
 * to what data parallelism does. */
#include "oracle/search/space_axes.h"

#include "oracle/habit/framework.h"

#include <string.h>

/* Positions that a rank of the context axis keeps at least. Llama 3 was
 * trained with 8192 on each (Grattafiori et al. 2024, table 4). */
enum { LEAST_POSITIONS = 4096 };

static const struct pdl_space_axis axes[] = {
    {"mesh",
     "pipe x data x expert x context x tensor = PEs; tensor divides the heads "
     "and divides those of keys or is a multiple of them, pipe is at most the "
     "number of blocks, data x expert divides the batch"},
    {"order", "pipe, data, expert, context, tensor, the last innermost; then "
              "the best ten of all in other orders: every one of "
              "up to three axes, of more each axis moved (as far as the "
              "framework has other orders). Not exact: what only another "
              "order would bring among the best is not found"},
    {"expert", "every divisor of the number of experts; expert x tensor is at "
               "most as many"},
    {"context", "ring|a2a, every divisor of the sequence that leaves a rank "
                "4096 positions or more; a2a: context x tensor divides the "
                "heads (of keys)"},
    {"seq", "off|on (with tensor)"},
    {"micro-batch", "every divisor of batch / (data x expert)"},
    {"interleaving", "every number of stages a lane, v = 1 .. blocks / pipe "
                     "(of frameworks that want equal stages: divisors, "
                     "or as many blocks a lane as without, cut by work); v > 1 "
                     "where pipe divides the micro-batches"},
    {"recompute", "none|selective|full (selective-op of frameworks without "
                  "selective)"},
    {"zero", "0|1|2|3 (with data, expert or context; as far as the framework "
             "has it; interleaved 2|3 with equal stages); 3:N, weights shared "
             "by N data ranks (N x expert x context x tensor is a node, N less "
             "than data)"},
    {"overlap", "on|off (as zero, unless the framework never overlaps)"},
    {"schedule", "1f1b|zb-h1|zb-h2|zb-v (with pipe, not interleaved, as far as "
                 "the framework has them; zb-v: two blocks a lane or more)"},
    {"offload", "none|activations|optimizer|both (where the system says what "
                "copies to the host cost)"},
};

/* ---- what the model and the framework allow --------------------------- */

static void look_at_model(const struct pdl_model *m, struct oracle_axes *out)
{
    out->queries = out->heads = out->experts = 1;
    out->positions = m->tokens;
    for (int i = m->nnodes - 1; i >= 0; i--) {
        const struct pdl_attr *x = &m->nodes[i].attr;

        if (x->heads > 0)
            out->queries = x->heads;
        if (x->heads > 0)
            out->heads = x->kv_heads > 0 && x->kv_heads < x->heads ? x->kv_heads
                                                                   : x->heads;
        if (x->experts > 1)
            out->experts = x->experts;
    }
}

static bool has_recompute(const struct pdl_abilities *r, enum pdl_recompute x)
{
    return r->recompute >> x & 1;
}

int oracle_most_zero(const struct pdl_framework *w,
                     const struct pdl_search_options *opt)
{
    int most = w && w->most_zero > 0 ? (int)w->most_zero : 3;

    return opt->most_zero > 0 && opt->most_zero < most ? opt->most_zero : most;
}

void oracle_axes_make(const struct oracle_family *f,
                      const struct pdl_search_options *opt,
                      struct oracle_axes *out)
{
    const struct pdl_framework *w = f->opt->framework;
    const struct pdl_host *h = &f->sys->node.host;
    const struct pdl_abilities *r = oracle_framework_plans(w);
    bool op = r->known && !has_recompute(r, PDL_RECOMPUTE_SELECTIVE);

    *out = (struct oracle_axes){
        .f = f,
        .opt = opt,
        .words = axes,
        .nwords = sizeof axes / sizeof axes[0],
        .even = f->plan.split == PDL_SPLIT_BLOCKS,
        .overlap = !(w && w->no_overlap),
        .experts_seq = w && w->experts_span,
        .offload = h->pcie_bytes_per_s > 0 && h->memory_bytes_per_s > 0 &&
                   opt->offload != PDL_OFFLOAD_NONE,
        .most_zero = oracle_most_zero(w, opt),
        .runs = r,
        .recompute = {PDL_RECOMPUTE_NONE,
                      op ? PDL_RECOMPUTE_SELECTIVE_OP : PDL_RECOMPUTE_SELECTIVE,
                      PDL_RECOMPUTE_FULL}};
    look_at_model(f->model, out);
}

static uint32_t axis_bit(int64_t n, int axis)
{
    return n > 1 ? UINT32_C(1) << axis : 0;
}

/* Does the framework run it, and can its launch file say it? */
static bool runs(const struct oracle_axes *x, const struct oracle_point *p)
{
    struct framework_asked q = {
        .axes = axis_bit(p->pipe, PDL_AXIS_PIPE) |
                axis_bit(p->data, PDL_AXIS_DATA) |
                axis_bit(p->expert, PDL_AXIS_EXPERT) |
                axis_bit(p->context, PDL_AXIS_CONTEXT) |
                axis_bit(p->tensor, PDL_AXIS_TENSOR) |
                axis_bit(p->seq ? p->tensor : 1, PDL_AXIS_SEQUENCE),
        .zero = p->zero,
        .group = p->group > 0,
        .schedule = oracle_point_schedule(p),
        .context = p->a2a ? PDL_CONTEXT_A2A : PDL_CONTEXT_RING,
        .recompute = p->recompute,
        .optimizer = p->optimizer,
        .activations = p->activations,
        .no_overlap = p->no_overlap};

    if (x->experts_seq && x->experts > 1 && p->tensor > 1 && !p->seq)
        return false;
    return oracle_framework_lacks(x->runs, &q) == FRAMEWORK_ALL;
}

/* With whatever else it needs, of what leaves the mesh as it is. */
static bool runs_mesh(const struct oracle_axes *x, struct oracle_point p)
{
    p.chunks = 1;
    p.recompute = PDL_RECOMPUTE_NONE;
    for (p.zero = 0; p.zero <= x->most_zero; p.zero++)
        for (p.bubble = 0; p.bubble <= ORACLE_BUBBLE_V; p.bubble++)
            if (runs(x, &p))
                return true;
    p.zero = p.bubble = 0;
    p.chunks = 2; /* interleaved alone */
    return runs(x, &p);
}

/* ---- meshes ----------------------------------------------------------- */

static bool wants(const struct oracle_axes *x, enum pdl_axis axis, int64_t n)
{
    struct oracle_space space = {.opt = x->opt};

    return n == 1 || oracle_space_wants(&space, axis);
}

struct list {
    struct oracle_point *at;
    int64_t n, most;
};

static void add(const struct oracle_axes *x, struct list *l,
                const struct oracle_point *p)
{
    if (l->n < l->most && runs_mesh(x, *p))
        l->at[l->n++] = *p;
}

/* The mesh, and once more with states that the data ranks of one node share
 * (hybrid sharding: what is gathered stays inside nodes). */
static void add_groups(const struct oracle_axes *x, struct oracle_point p,
                       struct list *l)
{
    int64_t inside = p.expert * p.context * p.tensor;
    int64_t node = x->f->sys->node.pes;

    add(x, l, &p);
    p.group = node / inside;
    if (node % inside == 0 && p.group > 1 && p.group < p.data &&
        p.data % p.group == 0 && x->most_zero > 2 && !x->even && !x->opt->basic)
        add(x, l, &p);
}

/* Every pipe of what is left; the rest is data. */
static void add_pipes(const struct oracle_axes *x, struct oracle_point p,
                      int64_t left, struct list *l)
{
    for (p.pipe = 1; p.pipe <= left && p.pipe <= x->f->layers; p.pipe++) {
        p.data = left / p.pipe;
        if (left % p.pipe == 0 &&
            x->opt->batch % oracle_point_replicas(&p) == 0 &&
            wants(x, PDL_AXIS_PIPE, p.pipe) && wants(x, PDL_AXIS_DATA, p.data))
            add_groups(x, p, l);
    }
}

/* Every context of what is left, as a ring and between exchanges. */
static void add_contexts(const struct oracle_axes *x, struct oracle_point p,
                         int64_t left, struct list *l)
{
    for (p.context = 1;
         p.context == 1 || p.context * LEAST_POSITIONS <= x->positions;
         p.context++) {
        if (left % p.context != 0 ||
            (p.context > 1 && x->positions % p.context != 0) ||
            !wants(x, PDL_AXIS_CONTEXT, p.context))
            continue;
        for (int k = 0; k < (p.context > 1 ? 2 : 1); k++) {
            p.a2a = k;
            if (!k || x->heads % (p.context * p.tensor) == 0)
                add_pipes(x, p, left / p.context, l);
        }
    }
}

static void add_experts(const struct oracle_axes *x, struct oracle_point p,
                        int64_t left, struct list *l)
{
    for (p.expert = 1; p.expert <= x->experts; p.expert++)
        if (left % p.expert == 0 && x->experts % p.expert == 0 &&
            (p.expert == 1 || p.expert * p.tensor <= x->experts) &&
            wants(x, PDL_AXIS_EXPERT, p.expert))
            add_contexts(x, p, left / p.expert, l);
}

/* Does a tensor axis of so many ranks cut the heads evenly? Those of keys may
 * be fewer than ranks: several then have the same. */
static bool cuts_heads(const struct oracle_axes *x, int64_t tensor)
{
    return x->queries % tensor == 0 &&
           (x->heads % tensor == 0 ||
            (tensor % x->heads == 0 && !x->opt->basic));
}

int64_t oracle_axes_meshes(const struct oracle_axes *x,
                           struct oracle_point *out, int64_t most)
{
    struct oracle_point p = {.tensor = 1};
    struct list l = {.at = out, .most = most};

    for (; p.tensor <= x->opt->pes && p.tensor <= x->queries; p.tensor++)
        for (int seq = 0; seq <= (p.tensor > 1 ? 1 : 0); seq++) {
            p.seq = seq;
            if (x->opt->pes % p.tensor == 0 && cuts_heads(x, p.tensor) &&
                wants(x, PDL_AXIS_TENSOR, p.tensor))
                add_experts(x, p, x->opt->pes / p.tensor, &l);
        }
    return l.n;
}

/* ---- what leaves the mesh as it is ------------------------------------ */

static void add_value(struct oracle_values *x, int64_t v)
{
    if (x->n < ORACLE_VALUES)
        x->v[x->n++] = v;
}

/* Of a million samples, or as many of them: of more nobody asks, and a batch
 * may be any number. */
enum { MOST_MICRO = 1 << 20 };

struct oracle_values oracle_axes_micro(const struct oracle_axes *x,
                                       const struct oracle_point *p)
{
    int64_t each = x->opt->batch / oracle_point_replicas(p), root = 0;
    struct oracle_values out = {.n = 0};

    for (int64_t i = 1; i <= each / i && i <= MOST_MICRO; i++) {
        if (each % i == 0)
            add_value(&out, i);
        root = i;
    }
    for (int64_t i = root; i > 0; i--) /* from above the root on */
        if (each % i == 0 && each / i > root)
            add_value(&out, each / i);
    return out;
}

/* Does the framework take v stages a lane? Of those that are told the blocks of
 * each, where no lane gets more of them than without. */
static bool deals(const struct oracle_axes *x, int64_t pipe, int64_t v)
{
    int64_t layers = x->f->layers, stages = v * pipe;

    return !x->even ||
           (layers + stages - 1) / stages * v <= (layers + pipe - 1) / pipe;
}

struct oracle_values oracle_axes_chunks(const struct oracle_axes *x,
                                        const struct oracle_point *p)
{
    int64_t m = x->opt->batch / (oracle_point_replicas(p) * p->micro);
    struct oracle_values out = {.n = 1, .v = {1}};

    for (int64_t v = 2;
         p->pipe > 1 && m % p->pipe == 0 && v * p->pipe <= x->f->layers &&
         v * p->pipe <= ORACLE_MAX_STAGES;
         v++)
        if (deals(x, p->pipe, v))
            add_value(&out, v);
    return out;
}

/* None where stages are interleaved. */
int oracle_axes_bubbles(const struct oracle_axes *x,
                        const struct oracle_point *p)
{
    bool two = 2 * p->pipe <= x->f->layers && 2 * p->pipe <= ORACLE_MAX_STAGES;

    if (x->opt->basic || p->pipe == 1 || p->chunks > 1)
        return 0;
    return two ? ORACLE_BUBBLE_V : 2;
}

/* What travels once for every chunk goes with chunks of equal size. */
static int most_zero(const struct oracle_axes *x, const struct oracle_point *p)
{
    bool equal = x->f->layers % (p->pipe * p->chunks) == 0;

    if (oracle_point_copies(p) < 2)
        return 0;
    return p->chunks > 1 && !equal && x->most_zero > 1 ? 1 : x->most_zero;
}

/* Groups of ranks share weights. */
static int least_zero(const struct oracle_point *p)
{
    return p->group > 0 ? 3 : 0;
}

/* Weights do not travel, unless the framework shards nothing less. */
static int few_zero(const struct oracle_axes *x, const struct oracle_point *p)
{
    int most = most_zero(x, p);

    return most > 1 && (!x->runs->known || x->runs->zero[1]) ? 1 : most;
}

static bool may_overlap(const struct oracle_axes *x,
                        const struct oracle_point *p)
{
    return x->overlap && oracle_point_copies(p) > 1;
}

/* Those that share their work follow each other: activations, ZeRO (0 and 1
 * have the same), overlap. */
int oracle_axes_choices(const struct oracle_axes *x,
                        const struct oracle_point *p, bool few,
                        struct oracle_point *out)
{
    int zeros = few ? few_zero(x, p) : most_zero(x, p);
    int host = x->offload && !few;
    int apart = may_overlap(x, p), least = least_zero(p), n = 0;
    struct oracle_point y = *p;

    for (int a = 0; a <= host; a++)
        for (int last = zeros > 0 ? 1 : 0; last <= zeros; last++)
            for (int off = 0; off <= apart; off++)
                for (int z = last > 1 && last > least ? last : least; z <= last;
                     z++)
                    for (int o = 0; o <= host; o++) {
                        y.activations = a;
                        y.no_overlap = off;
                        y.zero = z;
                        y.optimizer = o;
                        if (runs(x, &y))
                            out[n++] = y;
                    }
    return n;
}

bool oracle_axes_further(const struct oracle_axes *x,
                         const struct oracle_point *p)
{
    bool travels = p->zero > 1;

    return p->group > 0 || p->tensor > x->heads ||
           p->bubble == ORACLE_BUBBLE_V ||
           (p->activations && (p->bubble > 0 || travels)) ||
           (p->chunks > 1 && travels);
}

bool oracle_axes_counted(const struct oracle_axes *x,
                         const struct oracle_point *p)
{
    bool plain = p->context == 1 && p->bubble == 0 && p->zero < 2;

    return (plain || x->opt->basic) && !oracle_axes_further(x, p);
}

int64_t oracle_axes_count(const struct oracle_axes *x, struct oracle_point p)
{
    struct oracle_values micro = oracle_axes_micro(x, &p);
    struct oracle_point list[ORACLE_CHOICES];
    int64_t n = 0;

    for (int i = 0; i < micro.n; i++) {
        struct oracle_values chunks;

        p.micro = micro.v[i];
        chunks = oracle_axes_chunks(x, &p);
        for (int k = 0; k < chunks.n; k++) {
            p.chunks = chunks.v[k];
            for (p.bubble = 0; p.bubble <= oracle_axes_bubbles(x, &p);
                 p.bubble++)
                for (int r = 0; r < ORACLE_RECOMPUTES; r++) {
                    p.recompute = x->recompute[r];
                    n += oracle_axes_choices(x, &p, false, list);
                }
        }
    }
    return n;
}
