/* SPDX-License-Identifier: Apache-2.0
 *
 * Transformers: every pipe x data x tensor on the given number of PEs with a
 * tensor axis that stays inside a node, micro-batches of 1, 2, 4 ... samples,
 * with and without recomputation and sharded optimizer states. Sequence
 * parallelism comes with tensor: it moves the same bytes and keeps less. */
#include "oracle/search/space.h"

struct point {
    int64_t pipe, data, tensor, micro; /* micro: samples of a micro-batch */
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

static int64_t layers_of(const struct pdl_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->nsegments; i++)
        if (m->segments[i].repeat > 1)
            n += m->segments[i].repeat;
    return n > 0 ? n : m->nnodes;
}

static void write(struct oracle_space *s, const struct point *p)
{
    int64_t m = s->opt->batch / (p->data * p->micro);
    struct pdl_buf b;

    pdl_buf_init(&b);
    if (p->pipe > 1)
        pdl_printf(&b.sink, "pipe=%lld(m=%lld),", (long long)p->pipe,
                   (long long)m);
    pdl_printf(&b.sink, "data=%lld", (long long)p->data);
    if (p->tensor > 1)
        pdl_printf(&b.sink, ",tensor=%lld+seq", (long long)p->tensor);
    if (p->zero)
        pdl_puts(&b.sink, ",zero=1");
    pdl_puts(&b.sink, p->recompute);
    if (p->pipe == 1 && m > 1)
        pdl_printf(&b.sink, ",accumulate=%lld", (long long)m);
    oracle_space_add(s, b.text);
    pdl_buf_free(&b);
}

/* The choices that leave the mesh as it is. */
static void variants(struct oracle_space *s, struct point p)
{
    static const char *const recompute[] = {"", ",recompute=selective",
                                            ",recompute=full"};
    int64_t each = s->opt->batch / p.data;
    int most = p.data > 1 ? 1 : 0;

    for (p.micro = 1; p.micro <= each && p.micro <= 16; p.micro *= 2) {
        if (each % p.micro != 0)
            continue;
        for (size_t i = 0; i < sizeof recompute / sizeof recompute[0]; i++) {
            p.recompute = recompute[i];
            for (p.zero = 0; p.zero <= most; p.zero++)
                write(s, &p);
        }
    }
}

void oracle_space_transformer(struct oracle_space *s)
{
    int64_t pes = s->opt->pes, node = s->sys->node.pes;
    int64_t heads = heads_of(s->model), layers = layers_of(s->model);

    for (int64_t t = 1; t <= node && t <= heads; t *= 2) {
        if (pes % t != 0 || (t > 1 && !oracle_space_wants(s, PDL_AXIS_TENSOR)))
            continue;
        for (int64_t p = 1; p <= pes / t && p <= layers; p++) {
            int64_t d = pes / t / p;

            if (pes / t % p != 0 || s->opt->batch % d != 0 ||
                (p > 1 && !oracle_space_wants(s, PDL_AXIS_PIPE)) ||
                (d > 1 && !oracle_space_wants(s, PDL_AXIS_DATA)))
                continue;
            variants(s, (struct point){.pipe = p, .data = d, .tensor = t});
        }
    }
}
