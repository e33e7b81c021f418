/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN 2.6, C API: the only file that calls it.
 *
 * A convolution is planned once: candidates are tried in order (Winograd in
 * its own layout; channels-last activations; whatever oneDNN likes best), the
 * first that is no reference implementation wins, because oneDNN falls to one
 * 200 times slower without a word. Where its layout differs from ours, data is
 * reordered in scratch memory: weights always are, they are stored as files
 * have them. Scratch pads are the caller's (dnnl_scratchpad_mode_user), so a
 * plan may run in any thread, one at a time. */
#include "cpu.h"

#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------ */

struct owned {
    dnnl_primitive_t primitive;
    dnnl_memory_t memory;
    struct owned *next;
};

struct cpu_dnnl {
    pdl_arena *arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;
    struct owned *owned;
};

enum pdl_status train_dnnl_open(pdl_arena *a, struct cpu_dnnl **out,
                                struct pdl_err *err)
{
    struct cpu_dnnl *d = PDL_NEW(a, struct cpu_dnnl, 1);

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    d->arena = a;
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        dnnl_primitive_attr_create(&d->attr) != dnnl_success ||
        dnnl_primitive_attr_set_scratchpad_mode(
            d->attr, dnnl_scratchpad_mode_user) != dnnl_success) {
        train_dnnl_close(d);
        return pdl_fail(err, PDL_ENOENV, "oneDNN does not start");
    }
    *out = d;
    return PDL_OK;
}

void train_dnnl_close(struct cpu_dnnl *d)
{
    for (struct owned *o = d->owned; o; o = o->next) {
        if (o->primitive)
            dnnl_primitive_destroy(o->primitive);
        if (o->memory)
            dnnl_memory_destroy(o->memory);
    }
    d->owned = NULL;
    if (d->attr)
        dnnl_primitive_attr_destroy(d->attr);
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
}

/* Keeps what was made until close; destroys it when there is no memory. */
static bool own(struct cpu_dnnl *d, dnnl_primitive_t p, dnnl_memory_t m)
{
    struct owned *o = PDL_NEW(d->arena, struct owned, 1);

    if (!o) {
        if (p)
            dnnl_primitive_destroy(p);
        if (m)
            dnnl_memory_destroy(m);
        return false;
    }
    *o = (struct owned){p, m, d->owned};
    d->owned = o;
    return true;
}

static bool make_primitive(struct cpu_dnnl *d, dnnl_primitive_desc_t pd,
                           dnnl_primitive_t *out)
{
    return dnnl_primitive_create(out, pd) == dnnl_success && own(d, *out, NULL);
}

static bool make_memory(struct cpu_dnnl *d, const dnnl_memory_desc_t *md,
                        dnnl_memory_t *out)
{
    return dnnl_memory_create(out, md, d->engine, DNNL_MEMORY_NONE) ==
               dnnl_success &&
           own(d, NULL, *out);
}

/* ---- plans of convolutions -------------------------------------------------- */

enum side { FINE, COARSE, WEIGHTS, BIAS, NSIDES };

/* One operand: as the caller stores it and as the primitive wants it. */
struct operand {
    dnnl_memory_t mine, theirs; /* the same where no reorder is needed */
    dnnl_primitive_t reorder;   /* NULL: none */
    int64_t offset;             /* of theirs in scratch */
    bool used, written;
};

struct cpu_conv_plan {
    struct cpu_dnnl *d;
    enum cpu_conv_pass pass;
    dnnl_primitive_t primitive;
    dnnl_memory_t pad; /* scratch pad; NULL: none */
    int64_t pad_offset, scratch_bytes;
    struct operand side[NSIDES];
    const char *name;
};

struct shapes {
    dnnl_memory_desc_t mine[NSIDES], want[NSIDES];
    dnnl_dims_t strides, dilates, lo, hi;
};

static dnnl_data_type_t type_of(enum pdl_dtype t)
{
    return t == PDL_BF16 ? dnnl_bf16 : dnnl_f32;
}

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
    return plain_tag(&s->mine[FINE], c->ns + 2, fine, type_of(c->dtype),
                     c->fine_last) &&
           plain_tag(&s->mine[COARSE], c->ns + 2, coarse, type_of(c->dtype),
                     c->coarse_last) &&
           plain_tag(&s->mine[WEIGHTS], nw, w, type_of(c->w_dtype), false) &&
           plain_tag(&s->mine[BIAS], 1, bias, type_of(c->w_dtype), false);
}

/* What to ask oneDNN for. */
enum candidate { WINOGRAD, CHANNELS_LAST, ANYTHING, NCANDIDATES };

static bool wanted_shapes(const struct cpu_conv *c, enum candidate how,
                          struct shapes *s)
{
    /* gradients of bf16 weights are summed, and handed over, in f32 */
    dnnl_data_type_t wt = type_of(c->dtype);

    if (c->pass == CPU_WEIGHTS && c->w_dtype == PDL_F32)
        wt = dnnl_f32;
    s->want[BIAS] = s->mine[BIAS];
    if (!any_tag(&s->want[WEIGHTS], &s->mine[WEIGHTS], wt))
        return false;
    if (how == CHANNELS_LAST)
        return plain_tag(&s->want[FINE], c->ns + 2, s->mine[FINE].dims,
                         type_of(c->dtype), true) &&
               plain_tag(&s->want[COARSE], c->ns + 2, s->mine[COARSE].dims,
                         type_of(c->dtype), true);
    return any_tag(&s->want[FINE], &s->mine[FINE], type_of(c->dtype)) &&
           any_tag(&s->want[COARSE], &s->mine[COARSE], type_of(c->dtype));
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

static const char *name_of(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) !=
            dnnl_success ||
        !name)
        return "";
    return name;
}

static bool is_reference(const char *name)
{
    return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL ||
           name[0] == 0;
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
        if (!is_reference(name_of(pd)) && !strstr(name_of(pd), "gemm")) {
            if (gemm)
                dnnl_primitive_desc_destroy(gemm);
            return pd;
        }
        if (!gemm && !is_reference(name_of(pd)))
            gemm = pd; /* better than nothing */
        else
            dnnl_primitive_desc_destroy(pd);
    }
    return gemm;
}

/* ---- operands ------------------------------------------------------------------ */

static int64_t place(struct cpu_conv_plan *p, int64_t bytes)
{
    int64_t at = p->scratch_bytes;

    p->scratch_bytes = (at + bytes + 63) / 64 * 64;
    return at;
}

static bool make_reorder(struct cpu_dnnl *d, const dnnl_memory_desc_t *from,
                         const dnnl_memory_desc_t *to, dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t pd = NULL;
    bool ok;

    if (dnnl_reorder_primitive_desc_create(&pd, from, d->engine, to, d->engine,
                                           NULL) != dnnl_success)
        return false;
    ok = make_primitive(d, pd, out);
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static bool make_operand(struct cpu_conv_plan *p, struct operand *o,
                         const dnnl_memory_desc_t *mine,
                         const dnnl_memory_desc_t *theirs, bool written)
{
    o->used = true;
    o->written = written;
    if (!make_memory(p->d, mine, &o->mine))
        return false;
    if (dnnl_memory_desc_equal(mine, theirs)) {
        o->theirs = o->mine;
        return true;
    }
    o->offset = place(p, (int64_t)dnnl_memory_desc_get_size(theirs));
    return make_memory(p->d, theirs, &o->theirs) &&
           make_reorder(p->d, written ? theirs : mine, written ? mine : theirs,
                        &o->reorder);
}

static bool make_operands(struct cpu_conv_plan *p, const struct cpu_conv *c,
                          const struct shapes *s, dnnl_primitive_desc_t pd)
{
    static const dnnl_query_t queries[][NSIDES] = {
        [CPU_GATHER] = {dnnl_query_src_md, dnnl_query_dst_md,
                        dnnl_query_weights_md, dnnl_query_weights_md},
        [CPU_SCATTER] = {dnnl_query_diff_src_md, dnnl_query_diff_dst_md,
                         dnnl_query_weights_md, dnnl_query_weights_md},
        [CPU_WEIGHTS] = {dnnl_query_src_md, dnnl_query_diff_dst_md,
                         dnnl_query_diff_weights_md,
                         dnnl_query_diff_weights_md},
    };
    static const enum side result[] = {COARSE, FINE, WEIGHTS};

    for (int k = 0; k < NSIDES; k++) {
        const dnnl_memory_desc_t *md;

        if (k == BIAS && (!c->bias || c->pass == CPU_SCATTER))
            continue;
        md = dnnl_primitive_desc_query_md(pd, queries[c->pass][k], k == BIAS);
        if (!md || !make_operand(p, &p->side[k], &s->mine[k], md,
                                 k == (int)result[c->pass] ||
                                     (k == BIAS && c->pass == CPU_WEIGHTS)))
            return false;
    }
    return true;
}

static bool make_pad(struct cpu_conv_plan *p, dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    int64_t bytes = md ? (int64_t)dnnl_memory_desc_get_size(md) : 0;

    if (bytes <= 0)
        return true;
    p->pad_offset = place(p, bytes);
    return make_memory(p->d, md, &p->pad);
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
    p->d = d;
    p->pass = c->pass;
    if (!my_shapes(c, &s))
        return PDL_OK;
    pd = best_pd(d, c, &s);
    if (!pd)
        return PDL_OK;
    p->name = pdl_arena_strdup(d->arena, name_of(pd));
    ok = p->name && make_primitive(d, pd, &p->primitive) &&
         make_operands(p, c, &s, pd) && make_pad(p, pd);
    dnnl_primitive_desc_destroy(pd);
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM,
                        "oneDNN refuses to make a convolution");
    *out = p;
    return PDL_OK;
}

int64_t train_dnnl_conv_scratch(const struct cpu_conv_plan *p)
{
    return p->scratch_bytes;
}

const char *train_dnnl_conv_name(const struct cpu_conv_plan *p)
{
    return p->name;
}

/* ---- running ---------------------------------------------------------------------- */

static bool copy(const struct cpu_conv_plan *p, const struct operand *o)
{
    dnnl_exec_arg_t args[2] = {
        {DNNL_ARG_FROM, o->written ? o->theirs : o->mine},
        {DNNL_ARG_TO, o->written ? o->mine : o->theirs}};

    return dnnl_primitive_execute(o->reorder, p->d->stream, 2, args) ==
           dnnl_success;
}

static bool attach(const struct cpu_conv_plan *p, const struct operand *o,
                   void *data, char *scratch)
{
    if (!o->used)
        return true;
    if (dnnl_memory_set_data_handle(o->mine, data) != dnnl_success)
        return false;
    if (!o->reorder)
        return true;
    return dnnl_memory_set_data_handle(o->theirs, scratch + o->offset) ==
               dnnl_success &&
           (o->written || copy(p, o));
}

static int arguments(const struct cpu_conv_plan *p, dnnl_exec_arg_t *a)
{
    static const int names[][NSIDES] = {
        [CPU_GATHER] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS,
                        DNNL_ARG_BIAS},
        [CPU_SCATTER] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS,
                         DNNL_ARG_BIAS},
        [CPU_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
                         DNNL_ARG_DIFF_BIAS},
    };
    int n = 0;

    for (int k = 0; k < NSIDES; k++)
        if (p->side[k].used)
            a[n++] = (dnnl_exec_arg_t){names[p->pass][k], p->side[k].theirs};
    if (p->pad)
        a[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->pad};
    return n;
}

enum pdl_status train_dnnl_conv_run(const struct cpu_conv_plan *p, void *fine,
                                    void *w, void *bias, void *coarse,
                                    void *scratch, struct pdl_err *err)
{
    void *data[NSIDES] = {fine, coarse, w, bias};
    dnnl_exec_arg_t args[NSIDES + 1];
    bool ok = true;

    for (int k = 0; k < NSIDES && ok; k++)
        ok = attach(p, &p->side[k], data[k], scratch);
    if (ok && p->pad)
        ok = dnnl_memory_set_data_handle(
                 p->pad, (char *)scratch + p->pad_offset) == dnnl_success;
    ok = ok && dnnl_primitive_execute(p->primitive, p->d->stream,
                                      arguments(p, args), args) == dnnl_success;
    for (int k = 0; k < NSIDES && ok; k++)
        if (p->side[k].reorder && p->side[k].written)
            ok = copy(p, &p->side[k]);
    ok = ok && dnnl_stream_wait(p->d->stream) == dnnl_success;
    return ok ? PDL_OK
              : pdl_fail(err, PDL_EWRONG, "oneDNN failed in %s", p->name);
}

/* ---- matrix products ------------------------------------------------------------- */

enum pdl_status train_dnnl_gemm(const struct cpu_gemm *g, const float *a,
                                const float *b, float *c, struct pdl_err *err)
{
    if (g->m == 0 || g->n == 0)
        return PDL_OK;
    if (g->k == 0) { /* oneDNN would leave C as it is */
        for (int64_t i = 0; i < g->m && !g->add; i++)
            memset(c + i * g->ldc, 0, (size_t)g->n * sizeof *c);
        return PDL_OK;
    }
    if (dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k,
                   g->alpha, a, g->lda, b, g->ldb, g->add ? 1 : 0, c,
                   g->ldc) != dnnl_success)
        return pdl_fail(err, PDL_EWRONG, "oneDNN failed in a matrix product");
    return PDL_OK;
}
