/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions by oneDNN. Candidates are tried in order (Winograd in its own
 * layout; channels-last activations; whatever oneDNN likes best), the first
 * that is no reference implementation wins. Weights are stored as files have
 * them and packed for each call. */
#include "train/backends/cpu/cpu_dnnl.h"

#include <string.h>

enum side { FINE, COARSE, WEIGHTS, BIAS, NSIDES };

struct cpu_conv_plan {
    struct dnnl_plan base;
};

struct shapes {
    dnnl_memory_desc_t mine[NSIDES], want[NSIDES];
    dnnl_dims_t strides, dilates, lo, hi;
};

static bool plain_tag(dnnl_memory_desc_t *md, int nd, const dnnl_dims_t dims,
                      dnnl_data_type_t t, bool last)
{
    static const dnnl_format_tag_t first_tags[] = {
        dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    static const dnnl_format_tag_t last_tags[] = {dnnl_a, dnnl_ab, dnnl_acb,
                                                  dnnl_acdb, dnnl_acdeb};

    return dnnl_memory_desc_init_by_tag(
               md, nd, dims, t,
               last ? last_tags[nd - 1] : first_tags[nd - 1]) == dnnl_success;
}

static bool any_tag(dnnl_memory_desc_t *md, const dnnl_memory_desc_t *like,
                    dnnl_data_type_t t)
{
    return dnnl_memory_desc_init_by_tag(md, like->ndims, like->dims, t,
                                        dnnl_format_tag_any) == dnnl_success;
}

static bool my_shapes(const struct cpu_conv *c, struct shapes *s)
{
    dnnl_dims_t fine = {c->n, c->cf}, coarse = {c->n, c->cc}, w = {0};
    dnnl_dims_t bias = {c->cc};
    int g = c->groups > 1, nw = 0;

    if (g)
        w[nw++] = c->groups;
    w[nw++] = c->cc / c->groups;
    w[nw++] = c->cf / c->groups;
    for (int i = 0; i < c->ns; i++) {
        fine[i + 2] = c->fine[i];
        coarse[i + 2] = c->coarse[i];
        w[nw++] = c->k[i];
        s->strides[i] = c->q[i];
        s->dilates[i] = c->e[i] - 1;
        s->lo[i] = c->lo[i];
        s->hi[i] = c->hi[i];
    }
    return plain_tag(&s->mine[FINE], c->ns + 2, fine, train_dnnl_type(c->dtype),
                     c->fine_last) &&
           plain_tag(&s->mine[COARSE], c->ns + 2, coarse,
                     train_dnnl_type(c->dtype), c->coarse_last) &&
           plain_tag(&s->mine[WEIGHTS], nw, w, train_dnnl_type(c->w_dtype),
                     false) &&
           plain_tag(&s->mine[BIAS], 1, bias, train_dnnl_type(c->w_dtype),
                     false);
}

/* What to ask oneDNN for. */
enum candidate { WINOGRAD, CHANNELS_LAST, ANYTHING, NCANDIDATES };

static bool wanted_shapes(const struct cpu_conv *c, enum candidate how,
                          struct shapes *s)
{
    /* gradients of bf16 weights are summed, and handed over, in f32 */
    dnnl_data_type_t wt = train_dnnl_type(c->dtype);

    if (c->pass == CPU_WEIGHTS && c->w_dtype == PDL_F32)
        wt = dnnl_f32;
    s->want[BIAS] = s->mine[BIAS];
    if (!any_tag(&s->want[WEIGHTS], &s->mine[WEIGHTS], wt))
        return false;
    if (how == CHANNELS_LAST)
        return plain_tag(&s->want[FINE], c->ns + 2, s->mine[FINE].dims,
                         train_dnnl_type(c->dtype), true) &&
               plain_tag(&s->want[COARSE], c->ns + 2, s->mine[COARSE].dims,
                         train_dnnl_type(c->dtype), true);
    return any_tag(&s->want[FINE], &s->mine[FINE], train_dnnl_type(c->dtype)) &&
           any_tag(&s->want[COARSE], &s->mine[COARSE],
                   train_dnnl_type(c->dtype));
}

static dnnl_status_t describe(const struct cpu_conv *c, dnnl_alg_kind_t alg,
                              enum cpu_conv_pass pass, const struct shapes *s,
                              dnnl_convolution_desc_t *out)
{
    const dnnl_memory_desc_t *bias = c->bias ? &s->want[BIAS] : NULL;

    if (pass == CPU_GATHER)
        return dnnl_dilated_convolution_forward_desc_init(
            out, dnnl_forward_training, alg, &s->want[FINE], &s->want[WEIGHTS],
            bias, &s->want[COARSE], s->strides, s->dilates, s->lo, s->hi);
    if (pass == CPU_SCATTER)
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, alg, &s->want[FINE], &s->want[WEIGHTS], &s->want[COARSE],
            s->strides, s->dilates, s->lo, s->hi);
    return dnnl_dilated_convolution_backward_weights_desc_init(
        out, alg, &s->want[FINE], &s->want[WEIGHTS], bias, &s->want[COARSE],
        s->strides, s->dilates, s->lo, s->hi);
}

/* The primitive descriptor of a candidate; NULL: there is none. Backward ones
 * want a forward one as a hint. */
static dnnl_primitive_desc_t candidate_pd(struct cpu_dnnl *d,
                                          const struct cpu_conv *c,
                                          enum candidate how, struct shapes *s)
{
    dnnl_alg_kind_t alg =
        how == WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
    dnnl_convolution_desc_t desc, fwd;
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    struct cpu_conv plain = *c;
    struct shapes f = *s;

    if (!wanted_shapes(c, how, s) ||
        describe(c, alg, c->pass, s, &desc) != dnnl_success)
        return NULL;
    plain.pass = CPU_GATHER;
    plain.bias = false;
    if (c->pass != CPU_GATHER &&
        (!wanted_shapes(&plain, how, &f) ||
         describe(&plain, alg, CPU_GATHER, &f, &fwd) != dnnl_success ||
         dnnl_primitive_desc_create(&hint, &fwd, d->attr, d->engine, NULL) !=
             dnnl_success))
        return NULL;
    if (dnnl_primitive_desc_create(&pd, &desc, d->attr, d->engine, hint) !=
        dnnl_success)
        pd = NULL;
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return pd;
}

static dnnl_primitive_desc_t best_pd(struct cpu_dnnl *d,
                                     const struct cpu_conv *c, struct shapes *s)
{
    dnnl_primitive_desc_t gemm = NULL;

    for (int how = c->winograd ? WINOGRAD : CHANNELS_LAST; how < NCANDIDATES;
         how++) {
        dnnl_primitive_desc_t pd = candidate_pd(d, c, (enum candidate)how, s);

        if (!pd)
            continue;
        if (!train_dnnl_is_reference(train_dnnl_name(pd)) &&
            !strstr(train_dnnl_name(pd), "gemm")) {
            if (gemm)
                dnnl_primitive_desc_destroy(gemm);
            return pd;
        }
        if (!gemm && !train_dnnl_is_reference(train_dnnl_name(pd)))
            gemm = pd; /* better than nothing */
        else
            dnnl_primitive_desc_destroy(pd);
    }
    return gemm;
}

/* ---- operands --------------------------------------------------------- */

static const struct {
    dnnl_query_t query[NSIDES];
    int argument[NSIDES];
    enum side result;
} passes[] = {
    [CPU_GATHER] = {{dnnl_query_src_md, dnnl_query_dst_md,
                     dnnl_query_weights_md, dnnl_query_weights_md},
                    {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS,
                     DNNL_ARG_BIAS},
                    COARSE},
    [CPU_SCATTER] = {{dnnl_query_diff_src_md, dnnl_query_diff_dst_md,
                      dnnl_query_weights_md, dnnl_query_weights_md},
                     {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS,
                      DNNL_ARG_BIAS},
                     FINE},
    [CPU_WEIGHTS] = {{dnnl_query_src_md, dnnl_query_diff_dst_md,
                      dnnl_query_diff_weights_md, dnnl_query_diff_weights_md},
                     {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
                      DNNL_ARG_DIFF_BIAS},
                     WEIGHTS},
};

static bool make_operands(struct cpu_conv_plan *p, const struct cpu_conv *c,
                          const struct shapes *s, dnnl_primitive_desc_t pd)
{
    for (int k = 0; k < NSIDES; k++) {
        const dnnl_memory_desc_t *md;
        bool written = k == (int)passes[c->pass].result ||
                       (k == BIAS && c->pass == CPU_WEIGHTS);

        if (k == BIAS && (!c->bias || c->pass == CPU_SCATTER))
            continue;
        md = dnnl_primitive_desc_query_md(pd, passes[c->pass].query[k],
                                          k == BIAS);
        if (!md ||
            !train_dnnl_plan_operand(&p->base, k, passes[c->pass].argument[k],
                                     &s->mine[k], md, written))
            return false;
    }
    return true;
}

enum pdl_status train_dnnl_conv(struct cpu_dnnl *d, const struct cpu_conv *c,
                                struct cpu_conv_plan **out, struct pdl_err *err)
{
    struct cpu_conv_plan *p = PDL_NEW(d->arena, struct cpu_conv_plan, 1);
    dnnl_primitive_desc_t pd;
    struct shapes s;
    bool ok;

    *out = NULL;
    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memset(&s, 0, sizeof s);
    if (!my_shapes(c, &s))
        return PDL_OK;
    pd = best_pd(d, c, &s);
    if (!pd)
        return PDL_OK;
    ok = train_dnnl_plan_make(&p->base, d, pd) && make_operands(p, c, &s, pd);
    dnnl_primitive_desc_destroy(pd);
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM,
                        "oneDNN refuses to make a convolution");
    *out = p;
    return PDL_OK;
}

int64_t train_dnnl_conv_scratch(const struct cpu_conv_plan *p)
{
    return p->base.scratch_bytes;
}

const char *train_dnnl_conv_name(const struct cpu_conv_plan *p)
{
    return p->base.name;
}

enum pdl_status train_dnnl_conv_run(const struct cpu_conv_plan *p, void *fine,
                                    void *w, void *bias, void *coarse,
                                    void *scratch, struct pdl_err *err)
{
    void *data[NSIDES] = {fine, coarse, w, bias};

    return train_dnnl_plan_run(&p->base, data, scratch, err);
}
