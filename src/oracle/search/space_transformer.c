/* SPDX-License-Identifier: Apache-2.0
 *
 * Transformers whose blocks differ, each strategy lowered by itself: every pipe
 * x data x expert x context x tensor on the given number of PEs with a tensor
 * axis that stays inside a node, micro-batches of 1, 2, 4 ... samples, with and
 * without recomputation and sharded states, as far as the framework has them.
 * Sequence parallelism comes with tensor: it moves the same bytes and keeps
 * less. */
#include "oracle/habit/framework.h"
#include "oracle/search/space.h"

#include <string.h>

/* Positions that a rank of the context axis keeps at least, as of equal blocks
 * (space_axes.c). */
enum { LEAST_POSITIONS = 4096 };

struct point {
    int64_t pipe, data, expert, context, tensor;
    int64_t micro; /* samples of a micro-batch */
    const char *recompute;
    int zero;
};

static int64_t heads_of(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (m->nodes[i].attr.heads > 0)
            return m->nodes[i].attr.heads;
    return 1;
}

static int64_t experts_of(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (m->nodes[i].attr.experts > 1)
            return m->nodes[i].attr.experts;
    return 1;
}

static int64_t layers_of(const struct pdl_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->nsegments; i++)
        if (m->segments[i].repeat > 1)
            n += m->segments[i].repeat;
    return n > 0 ? n : m->nnodes;
}

/* Does the framework run it, and can its launch file say it? */
static bool runs(const struct oracle_space *s, const char *text)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy as;
    bool fine = a && pdl_strategy_parse(a, text, &as, NULL) == PDL_OK &&
                pdl_framework_plans(s->framework, &as, NULL) == PDL_OK;

    pdl_arena_destroy(a);
    return fine;
}

static bool write(struct oracle_space *s, const struct point *p)
{
    int64_t m = s->opt->batch / (p->data * p->expert * p->micro);
    struct pdl_buf b;
    bool fine;

    pdl_buf_init(&b);
    if (p->pipe > 1)
        pdl_printf(&b.sink, "pipe=%lld(m=%lld),", (long long)p->pipe,
                   (long long)m);
    pdl_printf(&b.sink, "data=%lld", (long long)p->data);
    if (p->expert > 1)
        pdl_printf(&b.sink, ",expert=%lld", (long long)p->expert);
    if (p->context > 1)
        pdl_printf(&b.sink, ",context=%lld", (long long)p->context);
    if (p->tensor > 1)
        pdl_printf(&b.sink, ",tensor=%lld+seq", (long long)p->tensor);
    if (p->zero)
        pdl_printf(&b.sink, ",zero=%d", p->zero);
    pdl_puts(&b.sink, p->recompute);
    if (p->pipe == 1 && m > 1)
        pdl_printf(&b.sink, ",accumulate=%lld", (long long)m);
    fine = !s->framework || runs(s, b.text);
    if (fine)
        oracle_space_add(s, b.text);
    pdl_buf_free(&b);
    return fine;
}

static const char *const recomputes[] = {
    ",recompute=full", ",recompute=selective-op", ",recompute=selective", ""};
enum { NRECOMPUTES = sizeof recomputes / sizeof recomputes[0], ITS_OWN = 1 };

/* What needs least memory of all that the framework runs on this mesh. */
static void smallest(struct oracle_space *s, struct point p, int most)
{
    p.micro = 1;
    for (int i = 0; i < NRECOMPUTES; i++)
        for (p.zero = most; p.zero >= 0; p.zero--) {
            p.recompute = recomputes[i];
            if (write(s, &p))
                return;
        }
}

/* The choices that leave the mesh as it is. */
static void variants(struct oracle_space *s, struct point p)
{
    int64_t copies = p.data * p.expert, each = s->opt->batch / copies;
    int most = copies * p.context == 1 ? 0 : s->most_zero;

    if (s->opt->only_fits) {
        smallest(s, p, most);
        return;
    }
    for (p.micro = 1; p.micro <= each && p.micro <= 16; p.micro *= 2) {
        if (each % p.micro != 0)
            continue;
        for (int i = NRECOMPUTES - 1; i >= 0; i--) {
            p.recompute = recomputes[i];
            if (i == ITS_OWN && !s->framework)
                continue; /* of frameworks that have no other */
            for (p.zero = 0; p.zero <= most; p.zero++)
                write(s, &p);
        }
    }
}

static void add_pipes(struct oracle_space *s, struct point p, int64_t left)
{
    int64_t layers = layers_of(s->model);

    for (p.pipe = 1; p.pipe <= left && p.pipe <= layers; p.pipe++) {
        p.data = left / p.pipe;
        if (left % p.pipe == 0 && s->opt->batch % (p.data * p.expert) == 0 &&
            (p.pipe == 1 || oracle_space_wants(s, PDL_AXIS_PIPE)) &&
            (p.data == 1 || oracle_space_wants(s, PDL_AXIS_DATA)))
            variants(s, p);
    }
}

static void add_contexts(struct oracle_space *s, struct point p, int64_t left)
{
    for (p.context = 1;
         p.context == 1 || p.context * LEAST_POSITIONS <= s->model->tokens;
         p.context *= 2)
        if (left % p.context == 0 &&
            (p.context == 1 || oracle_space_wants(s, PDL_AXIS_CONTEXT)))
            add_pipes(s, p, left / p.context);
}

void oracle_space_transformer(struct oracle_space *s)
{
    int64_t pes = s->opt->pes, node = s->sys->node.pes;
    int64_t heads = heads_of(s->model), experts = experts_of(s->model);
    struct point p = {.tensor = 1};

    for (; p.tensor <= node && p.tensor <= heads; p.tensor *= 2) {
        if (pes % p.tensor != 0 ||
            (p.tensor > 1 && !oracle_space_wants(s, PDL_AXIS_TENSOR)))
            continue;
        for (p.expert = 1; p.expert * p.tensor <= experts || p.expert == 1;
             p.expert++)
            if (pes / p.tensor % p.expert == 0 && experts % p.expert == 0 &&
                (p.expert == 1 || oracle_space_wants(s, PDL_AXIS_EXPERT)))
                add_contexts(s, p, pes / p.tensor / p.expert);
    }
}
