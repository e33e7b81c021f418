/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN 2.6, C API: what convolutions and matrix products share. A plan is a
 * primitive, its operands, and where they lie. Where the primitive wants
 * another layout or type than ours, data is reordered in scratch memory.
 * Scratch pads are the caller's (dnnl_scratchpad_mode_user), so a plan may run
 * in any thread, one at a time. */
#include "train/backends/cpu/cpu_dnnl.h"
#include "paradl/train.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------- */

/* Some virtual machines say that the processor has tiles (AMX) but hide the
 * leaf that says how large they are: oneDNN then leaves the tiles unconfigured,
 * and a product in bfloat16 is an illegal instruction. */
static bool tiles_hidden(void)
{
    enum { FEATURES = 7, TILES = 1 << 24, SIZES = 0x1d };
    unsigned a, b, c, d;

    if (!__get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) || !(d & TILES))
        return false;
    return !__get_cpuid_count(SIZES, 0, &a, &b, &c, &d) || a == 0;
}

/* Whoever says otherwise is obeyed. */
void pdl_train_prepare_dnnl(void)
{
    if (tiles_hidden() && !getenv("ONEDNN_MAX_CPU_ISA") &&
        !getenv("DNNL_MAX_CPU_ISA"))
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

enum pdl_status train_dnnl_open(pdl_arena *a, struct cpu_dnnl **out,
                                struct pdl_err *err)
{
    struct cpu_dnnl *d = PDL_NEW(a, struct cpu_dnnl, 1);

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    d->arena = a;
    pdl_train_prepare_dnnl();
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
    for (struct dnnl_owned *o = d->owned; o; o = o->next) {
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
    struct dnnl_owned *o = PDL_NEW(d->arena, struct dnnl_owned, 1);

    if (!o) {
        if (p)
            dnnl_primitive_destroy(p);
        if (m)
            dnnl_memory_destroy(m);
        return false;
    }
    *o = (struct dnnl_owned){p, m, d->owned};
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

dnnl_data_type_t train_dnnl_type(enum pdl_dtype t)
{
    return t == PDL_BF16 ? dnnl_bf16 : dnnl_f32;
}

const char *train_dnnl_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) !=
            dnnl_success ||
        !name)
        return "";
    return name;
}

bool train_dnnl_is_reference(const char *name)
{
    return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL ||
           name[0] == 0;
}

/* ---- plans ------------------------------------------------------------ */

static int64_t place(struct dnnl_plan *p, int64_t bytes)
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

bool train_dnnl_plan_make(struct dnnl_plan *p, struct cpu_dnnl *d,
                          dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    int64_t bytes = md ? (int64_t)dnnl_memory_desc_get_size(md) : 0;

    p->d = d;
    p->name = pdl_arena_strdup(d->arena, train_dnnl_name(pd));
    if (!p->name || !make_primitive(d, pd, &p->primitive))
        return false;
    if (bytes <= 0)
        return true;
    p->pad_offset = place(p, bytes);
    return make_memory(d, md, &p->pad);
}

bool train_dnnl_plan_operand(struct dnnl_plan *p, int k, int argument,
                             const dnnl_memory_desc_t *mine,
                             const dnnl_memory_desc_t *theirs, bool written)
{
    struct dnnl_operand *o = &p->side[k];

    o->used = true;
    o->written = written;
    p->argument[k] = argument;
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

static bool copy(const struct dnnl_plan *p, const struct dnnl_operand *o)
{
    dnnl_exec_arg_t args[2] = {
        {DNNL_ARG_FROM, o->written ? o->theirs : o->mine},
        {DNNL_ARG_TO, o->written ? o->mine : o->theirs}};

    return dnnl_primitive_execute(o->reorder, p->d->stream, 2, args) ==
           dnnl_success;
}

static bool attach(const struct dnnl_plan *p, const struct dnnl_operand *o,
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

enum pdl_status train_dnnl_plan_run(const struct dnnl_plan *p,
                                    void *const *data, void *scratch,
                                    struct pdl_err *err)
{
    dnnl_exec_arg_t args[DNNL_OPERANDS + 1];
    bool ok = true;
    int n = 0;

    for (int k = 0; k < DNNL_OPERANDS && ok; k++) {
        ok = attach(p, &p->side[k], data[k], scratch);
        if (p->side[k].used)
            args[n++] = (dnnl_exec_arg_t){p->argument[k], p->side[k].theirs};
    }
    if (ok && p->pad) {
        ok = dnnl_memory_set_data_handle(
                 p->pad, (char *)scratch + p->pad_offset) == dnnl_success;
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->pad};
    }
    ok = ok && dnnl_primitive_execute(p->primitive, p->d->stream, n, args) ==
                   dnnl_success;
    for (int k = 0; k < DNNL_OPERANDS && ok; k++)
        if (p->side[k].reorder && p->side[k].written)
            ok = copy(p, &p->side[k]);
    ok = ok && dnnl_stream_wait(p->d->stream) == dnnl_success;
    return ok ? PDL_OK
              : pdl_fail(err, PDL_EWRONG, "oneDNN failed in %s", p->name);
}

/* ---- matrix products -------------------------------------------------- */

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
