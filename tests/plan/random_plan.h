/* Random small networks and strategies, for the tests of plans. */
#ifndef RANDOM_PLAN_H
#define RANDOM_PLAN_H

#include "paradl/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static int64_t pick(struct pdl_rng *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pdl_rng_below(r, (uint64_t)(hi - lo + 1));
}

/* ---- random networks ---------------------------------------------------- */

struct net {
    pdl_build *b;
    struct pdl_rng *rng;
    int nspatial, layers;
    int blocks; /* layers that form one by their names; 0: none */
    int tensor;
};

static const char *name(struct net *n, const char *kind)
{
    static char text[48];

    n->layers++;
    if (n->blocks)
        snprintf(text, sizeof text, "b.%d.%s%d", n->layers / n->blocks, kind,
                 n->layers);
    else
        snprintf(text, sizeof text, "%s%d", kind, n->layers);
    return text;
}

static int op(struct net *n, const char *kind, const struct pdl_attr *attr)
{
    return pdl_build_op(n->b, kind, name(n, kind), attr, &n->tensor, 1);
}

static struct pdl_attr window(struct net *n, bool pool)
{
    const struct pdl_tensor *x = pdl_build_get(n->b, n->tensor);
    struct pdl_attr a = {.groups = 0};

    for (int s = 0; s < n->nspatial; s++) {
        int64_t extent = x->dim[s + 1], reach;

        a.kernel[s] = pick(n->rng, 1, 4);
        a.dilation[s] = pool ? 1 : pick(n->rng, 1, 2);
        a.stride[s] = pick(n->rng, 1, 3);
        reach = (a.kernel[s] - 1) * a.dilation[s] + 1;
        a.pad[s] = pick(n->rng, 0, pool ? a.kernel[s] / 2 : reach - 1);
        a.pad_end[s] = pick(n->rng, 0, pool ? a.kernel[s] / 2 : reach - 1);
        if (extent + a.pad[s] + a.pad_end[s] < reach) {
            a.kernel[s] = 1;
            a.dilation[s] = 1;
            a.pad[s] = a.pad_end[s] = 0;
        }
    }
    return a;
}

static void add_conv(struct net *n)
{
    const struct pdl_tensor *x = pdl_build_get(n->b, n->tensor);
    struct pdl_attr a = window(n, false);
    int64_t c = x->dim[0];

    a.features = pick(n->rng, 1, 6);
    a.no_bias = pick(n->rng, 0, 1);
    if (pick(n->rng, 0, 3) == 0 && c > 1) {
        a.groups = c; /* depthwise */
        a.features = c * pick(n->rng, 1, 2);
    }
    n->tensor = op(n, "conv", &a);
}

/* y = x + conv(x): two consumers of x, and an add of two placements. */
static void add_residual(struct net *n)
{
    const struct pdl_tensor *x = pdl_build_get(n->b, n->tensor);
    struct pdl_attr a = {.features = x->dim[0]};
    int in[2] = {n->tensor, 0};

    for (int s = 0; s < n->nspatial; s++) {
        a.kernel[s] = 3;
        a.stride[s] = a.dilation[s] = 1;
        a.pad[s] = a.pad_end[s] = 1;
    }
    in[1] = op(n, "conv", &a);
    n->tensor =
        pdl_build_op(n->b, "add", name(n, "add"), &(struct pdl_attr){0}, in, 2);
}

static void add_transposed(struct net *n)
{
    const struct pdl_tensor *x = pdl_build_get(n->b, n->tensor);
    struct pdl_attr a = {.features = pick(n->rng, 1, 4),
                         .no_bias = pick(n->rng, 0, 1)};

    for (int s = 0; s < n->nspatial; s++) {
        a.stride[s] = pick(n->rng, 1, 2);
        a.kernel[s] = a.stride[s] + pick(n->rng, 0, 1);
        a.dilation[s] = 1;
        a.pad[s] = a.pad_end[s] = pick(n->rng, 0, a.kernel[s] / 2);
        if (a.kernel[s] == 1 || x->dim[s + 1] == 1)
            a.pad[s] = a.pad_end[s] = 0;
    }
    n->tensor = op(n, "conv_transpose", &a);
}

static void add_concat(struct net *n)
{
    struct pdl_attr a = {.features = pick(n->rng, 1, 4)};
    int in[2] = {n->tensor, 0};

    for (int s = 0; s < n->nspatial; s++)
        a.kernel[s] = a.stride[s] = a.dilation[s] = 1;
    in[1] = op(n, "conv", &a);
    n->tensor = pdl_build_op(n->b, "concat", name(n, "concat"),
                             &(struct pdl_attr){.axis = 0}, in, 2);
}

static void add_pool(struct net *n)
{
    struct pdl_attr a = window(n, true);

    a.count_pad = true;
    n->tensor = op(n, pick(n->rng, 0, 1) ? "max_pool" : "avg_pool", &a);
}

static void add_body(struct net *n)
{
    static const char *const unary[] = {"relu", "gelu", "sigmoid"};
    int count = (int)pick(n->rng, 1, 5);

    for (int i = 0; i < count; i++)
        switch (pick(n->rng, 0, 7)) {
        case 0:
        case 1:
            add_conv(n);
            break;
        case 2:
            n->tensor = op(n, "batch_norm", &(struct pdl_attr){0});
            break;
        case 3:
            n->tensor = op(n, unary[pick(n->rng, 0, 2)], &(struct pdl_attr){0});
            break;
        case 4:
            add_residual(n);
            break;
        case 5:
            add_pool(n);
            break;
        case 6:
            add_transposed(n);
            break;
        default:
            add_concat(n);
        }
}

/* Two or three layers that share one weight, with others between them. */
static void add_tied(struct net *n)
{
    const struct pdl_tensor *x = pdl_build_get(n->b, n->tensor);
    int64_t dim[2] = {x->dim[0], x->dim[0]};
    int w =
        pdl_build_tensor(n->b, "shared", PDL_TENSOR_WEIGHT, PDL_F32, 2, dim);
    struct pdl_attr a = {.features = dim[0], .no_bias = true};

    for (int64_t i = pick(n->rng, 2, 3); i > 0; i--) {
        n->tensor = pdl_build_node(
            n->b, &(struct pdl_build_spec){.op = "linear",
                                           .name = name(n, "tied"),
                                           .attr = &a,
                                           .in = &n->tensor,
                                           .nin = 1,
                                           .weights = &w,
                                           .nweights = 1});
        n->tensor = op(n, "sigmoid", &(struct pdl_attr){0});
    }
}

static void add_head(struct net *n)
{
    int kind = (int)pick(n->rng, 0, 2);

    if (kind == 0)
        return; /* a dense prediction: rows stay */
    if (kind == 1)
        n->tensor = op(n, "global_avg_pool", &(struct pdl_attr){0});
    n->tensor = op(n, "flatten", &(struct pdl_attr){0});
    if (pick(n->rng, 0, 2) == 0 && /* its square is to be executed */
        pdl_build_get(n->b, n->tensor)->dim[0] <= 128)
        add_tied(n);
    for (int64_t i = pick(n->rng, 1, 2); i > 0; i--)
        n->tensor = op(n, "linear",
                       &(struct pdl_attr){.features = pick(n->rng, 1, 6),
                                          .no_bias = pick(n->rng, 0, 1)});
}

static const struct pdl_model *random_model(pdl_arena *a, struct pdl_rng *rng)
{
    struct net n = {.b = pdl_build_begin(a, "random"),
                    .rng = rng,
                    .nspatial = (int)pick(rng, 1, 8)};
    int64_t dim[4] = {pick(rng, 1, 3), pick(rng, 3, 8), pick(rng, 3, 6), 3};
    const struct pdl_model *m;
    struct pdl_err err;

    n.blocks = pick(rng, 0, 2) == 0 ? (int)pick(rng, 2, 5) : 0;
    n.nspatial = n.nspatial > 6 ? 3 : n.nspatial > 3 ? 2 : 1;
    n.tensor = pdl_build_tensor(n.b, "x", PDL_TENSOR_INPUT, PDL_F32,
                                1 + n.nspatial, dim);
    add_conv(&n);
    add_body(&n);
    add_head(&n);
    if (pdl_build_end(n.b, &m, &err) != PDL_OK)
        fail_msg("random model: %s", err.msg);
    return m;
}

/* ---- random transformers --------------------------------------------------- */

/* Of a random transformer; a test of many blocks sets it. */
static int64_t least_layers = 1, most_layers = 2;

static int some_layers(struct pdl_rng *rng)
{
    return (int)pick(rng, least_layers, most_layers);
}

/* Heads that do and do not share keys, odd vocabularies, tied heads. */
static const struct pdl_model *random_transformer(pdl_arena *a,
                                                  struct pdl_rng *rng)
{
    int64_t kv = pick(rng, 1, 3), share = pick(rng, 1, 4);
    int64_t size = 2 * pick(rng, 1, 2);
    static const char *const mixture[] = {"", "", ",experts=4,topk=2",
                                          ",experts=3,topk=1"};
    const struct pdl_model *m;
    struct pdl_err err;
    int kind = (int)pick(rng, 0, 5);
    char text[256];

    if (kind == 4)
        snprintf(text, sizeof text,
                 "deepseek:layers=%d,dense=%d,hidden=%d,heads=%d,ffn=%d,"
                 "moe_ffn=2,experts=3,topk=2,q_lora=%d,kv_lora=%d,nope=%d,"
                 "rope=2,v_head_dim=%d,vocab=%d,seq=%d",
                 some_layers(rng), (int)pick(rng, 0, 1), (int)pick(rng, 2, 6),
                 (int)(kv * share), (int)pick(rng, 1, 7), (int)pick(rng, 0, 3),
                 (int)pick(rng, 1, 4), (int)pick(rng, 1, 3),
                 (int)pick(rng, 1, 3), (int)pick(rng, 3, 9),
                 (int)pick(rng, 2, 6));
    else if (kind == 5)
        snprintf(text, sizeof text,
                 "t5:layers=%d,hidden=%d,heads=%d,head_dim=%d,ffn=%d,vocab=%d,"
                 "seq=%d,gated=%d,tied=%d",
                 some_layers(rng), (int)pick(rng, 2, 6), (int)(kv * share),
                 (int)size, (int)pick(rng, 1, 7), (int)pick(rng, 3, 9),
                 (int)pick(rng, 2, 6), (int)pick(rng, 0, 1),
                 (int)pick(rng, 0, 1));
    else if (kind % 2)
        snprintf(text, sizeof text,
                 "gpt:layers=%d,hidden=%d,heads=%d,vocab=%d,positions=8,seq=%d,"
                 "tied=%d",
                 some_layers(rng), (int)(kv * share * size), (int)(kv * share),
                 (int)pick(rng, 3, 9), (int)pick(rng, 2, 6),
                 (int)pick(rng, 0, 1));
    else
        snprintf(text, sizeof text,
                 "llama:layers=%d,hidden=%d,heads=%d,kv_heads=%d,head_dim=%d,"
                 "ffn=%d,vocab=%d,seq=%d,tied=%d,qk_norm=%d%s",
                 some_layers(rng), (int)pick(rng, 2, 6), (int)(kv * share),
                 (int)kv, (int)size, (int)pick(rng, 1, 7), (int)pick(rng, 3, 9),
                 (int)pick(rng, 2, 6), (int)pick(rng, 0, 1),
                 (int)pick(rng, 0, 1), mixture[pick(rng, 0, 3)]);
    if (pdl_zoo_build(a, text, &m, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return m;
}

static void random_tensor(struct pdl_rng *rng, char *text, size_t size)
{
    static const char *const save[] = {"", ",save=gathered"};
    static const char *const outer[] = {"data", "filter", "channel", "expert"};
    static const char *const context[] = {
        "", "", "", "context=2,", "context=3(a2a),", "context=3(gather),"};
    static const char *const schedules[] = {"1f1b", "interleaved", "zb-h1",
                                            "zb-h2", "zb-v"};
    int n = (int)pick(rng, 2, 4), m = (int)pick(rng, 1, 2), seq, k;
    char pipe[32] = "", axes[64] = "";

    if (pick(rng, 0, 2) == 0)
        snprintf(pipe, sizeof pipe, "pipe=2(%s,m=2),",
                 schedules[pick(rng, 0, 4)]);
    if (pick(rng, 0, 1))
        snprintf(axes, sizeof axes, "%s=%d,",
                 outer[pick(rng, 0, 4) > 2 ? pick(rng, 1, 3) : 0],
                 (int)pick(rng, 2, 3));
    seq = (int)pick(rng, 0, 1);
    k = (int)pick(rng, 0, 1);
    snprintf(text, size, "%s%s%stensor=%d%s%s%s", pipe, axes,
             context[pick(rng, 0, 5)], pick(rng, 0, 3) ? n : 1,
             seq ? "+seq" : "", seq ? save[k] : "",
             !pipe[0] && m == 2 ? ",accumulate=2" : "");
}

/* ---- random strategies ----------------------------------------------------- */

static void random_axes(struct pdl_rng *rng, int64_t budget, char *text,
                        size_t size)
{
    static const char *const axes[] = {"data", "filter", "channel", "spatial"};
    size_t n = 0;
    uint32_t used = 0;

    text[0] = '\0';
    while (budget > 1 && n + 32 < size) {
        int64_t k = pick(rng, 2, budget);
        int a = (int)pick(rng, 0, 3);

        if (used >> a & 1)
            break;
        used |= 1u << a;
        if (a == 3 && pick(rng, 0, 1) && k == 4)
            n += (size_t)snprintf(text + n, size - n, "%sspatial=2x2",
                                  n ? "," : "");
        else
            n += (size_t)snprintf(text + n, size - n, "%s%s=%lld", n ? "," : "",
                                  axes[a], (long long)k);
        budget /= k;
    }
    if (n == 0)
        snprintf(text, size, "data=1");
}

/* PEs of an axes text: every number in it multiplies. */
static int64_t product(const char *axes)
{
    int64_t p = 1;

    for (const char *s = axes; *s; s++)
        if (*s == '=' || *s == 'x')
            p *= strtoll(s + 1, NULL, 10) > 0 ? strtoll(s + 1, NULL, 10) : 1;
    return p;
}

/* One strategy for the first layers, another for the rest. */
static void random_mix(struct pdl_rng *rng, const struct pdl_model *m,
                       char *text, size_t size)
{
    int64_t cut = pick(rng, 0, m->nnodes - 2);
    char a[128], b[128];

    random_axes(rng, pick(rng, 2, 6), a, sizeof a);
    do
        random_axes(rng, product(a), b, sizeof b);
    while (product(a) != product(b));
    snprintf(text, size, "%s..%s: %s; %s..%s: %s", m->nodes[0].name,
             m->nodes[cut].name, a, m->nodes[cut + 1].name,
             m->nodes[m->nnodes - 1].name, b);
}

static void random_strategy(struct pdl_rng *rng, const struct pdl_model *m,
                            char *text, size_t size)
{
    static const char *const bn[] = {"", ",bn=local", ",bn=sync"};
    static const char *const schedules[] = {"gpipe", "gpipe", "zb-h1", "zb-v"};
    char axes[128];

    if (m->nnodes > 1 && pick(rng, 0, 3) == 0) {
        random_mix(rng, m, text, size);
        return;
    }
    random_axes(rng, pick(rng, 1, 8), axes, sizeof axes);
    if (m->nnodes > 2 && pick(rng, 0, 9) == 0) { /* cut where it says */
        int first = (int)pick(rng, 1, m->nnodes - 2);
        int second = (int)pick(rng, first + 1, m->nnodes - 1);

        snprintf(text, size, "pipe=3(gpipe,m=2,at=%s+%s),%s",
                 m->nodes[first].name, m->nodes[second].name, axes);
    } else if (pick(rng, 0, 4) == 0)
        snprintf(text, size, "pipe=%d(%s,m=%d),%s%s", (int)pick(rng, 2, 4),
                 schedules[pick(rng, 0, 3)], (int)pick(rng, 1, 2), axes,
                 bn[pick(rng, 0, 2)]);
    else
        snprintf(text, size, "%s%s%s%s", axes, bn[pick(rng, 0, 2)],
                 pick(rng, 0, 3) ? "" : ",exchange=paper",
                 pick(rng, 0, 5) ? "" : ",accumulate=2");
}

/* Transformations that go with any axes. */
static void add_options(struct pdl_rng *rng, const char *axes, char *text,
                        size_t size)
{
    static const char *const zero[] = {
        "", "", "", ",zero=1", ",zero=2", ",zero=3", ",zero=3:2"};
    static const char *const recompute[] = {"",
                                            "",
                                            "",
                                            ",recompute=full",
                                            ",recompute=selective",
                                            ",recompute=selective-op"};
    static const char *const offload[] = {
        "",
        "",
        "",
        ",offload=activations,prefetch=2",
        ",offload=optimizer",
        ",offload=optimizer,offload=activations"};
    static const char *const own[] = {"recompute=full",
                                      "recompute=none",
                                      "recompute=selective-op",
                                      "offload=activations",
                                      "recompute=full,offload=activations",
                                      "offload=optimizer",
                                      "recompute=full,offload=optimizer"};
    const char *z = zero[pick(rng, 0, 6)], *r = recompute[pick(rng, 0, 5)];
    const char *o = offload[pick(rng, 0, 5)];
    char all[160];

    snprintf(all, sizeof all, "%s%s%s", z, r, o);
    if (!strchr(axes, ';') && pick(rng, 0, 5) == 0) { /* some blocks' own */
        snprintf(text, size, "*: %s%s; *1*: %s", axes, all,
                 own[pick(rng, 0, 6)]);
        return;
    }
    if (strchr(axes, ';') && *all)
        snprintf(text, size, "*: %s; %s", all + 1, axes);
    else
        snprintf(text, size, "%s%s", axes, all);
}

/* Samples that are not dealt evenly; drawn apart, so that other choices of a
 * seed stay as they are. */
static void add_shares(uint64_t seed, char *text, size_t size)
{
    struct pdl_rng rng = {.key = seed, .stream = 1};
    char *at = strstr(text, "data="), *rest;
    char tail[700];
    int64_t n, first;

    if (!at || strchr(text, ';') || pick(&rng, 0, 2) > 0)
        return;
    n = strtoll(at + 5, &rest, 10);
    if (n < 2)
        return;
    first = pick(&rng, 1, n - 1);
    snprintf(tail, sizeof tail, "%s", rest);
    snprintf(rest, size - (size_t)(rest - text), "@x:%lld*%lld+y:%lld*%lld%s",
             (long long)first, (long long)pick(&rng, 1, 3),
             (long long)(n - first), (long long)pick(&rng, 1, 4), tail);
}

struct plan_triple {
    const struct pdl_model *model;
    struct pdl_strategy *strategy;
    struct pdl_plan_options opt;
};

/* A network, a strategy and a batch; false: the strategy does not parse. */
static bool random_plan_triple(pdl_arena *a, uint64_t seed,
                               struct plan_triple *x, char *what, size_t size,
                               struct pdl_err *err)
{
    struct pdl_rng rng = {.key = seed};
    bool transformer = seed % 4 == 0;
    const struct pdl_model *m =
        transformer ? random_transformer(a, &rng) : random_model(a, &rng);
    char axes[512], text[700];

    x->model = m;
    x->opt = (struct pdl_plan_options){.batch = 2 * pick(&rng, 1, 4),
                                       .allow_empty = pick(&rng, 0, 3) > 0};
    x->strategy = PDL_NEW(a, struct pdl_strategy, 1);
    if (transformer && pick(&rng, 0, 3) > 0)
        random_tensor(&rng, axes, sizeof axes);
    else
        random_strategy(&rng, m, axes, sizeof axes);
    add_options(&rng, axes, text, sizeof text);
    add_shares(seed, text, sizeof text);
    snprintf(what, size, "seed %llu, %s, batch %lld", (unsigned long long)seed,
             text, (long long)x->opt.batch);
    *err = (struct pdl_err){"", ""};
    return pdl_strategy_parse(a, text, x->strategy, err) == PDL_OK;
}

/* Lowers a random triple. 0: made; 1: refused, rightly; -1: refused. */
static inline int random_plan(pdl_arena *a, uint64_t seed,
                              const struct pdl_plan **out, char *what,
                              size_t size, struct pdl_err *err)
{
    struct plan_triple x;

    if (random_plan_triple(a, seed, &x, what, size, err) &&
        pdl_plan_lower(a, x.model, x.strategy, &x.opt, out, err) == PDL_OK)
        return 0;
    /* fewer layers than stages, axes that cannot be one mesh, an axis larger
     * than what it cuts */
    return strstr(err->msg, "layers") || strstr(err->msg, "do not nest") ||
                   strstr(err->msg, "cuts only") ||
                   strstr(err->msg, "has no groups") ||
                   strstr(err->msg, "has no layer") ||
                   strstr(err->msg, "uneven shares") ||
                   strstr(err->msg, "is smaller than")
               ? 1
               : -1;
}

#endif
