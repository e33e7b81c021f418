/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of bfloat16, and of mixed types, by oneDNN: accumulated in
 * float32. float32 alone goes through sgemm (cpu_dnnl.c), which needs no plan
 * and gives the same bits for parts of M and N. */
#include "train/backends/cpu/cpu_dnnl.h"

enum side { A, B, C, BIAS };

struct cpu_matmul_plan {
    struct dnnl_plan base;
};

struct shapes {
    dnnl_memory_desc_t mine[4], want[4];
};

/* [rows, columns], stored transposed or not; ld 0: dense. */
static bool matrix(dnnl_memory_desc_t *md, int64_t rows, int64_t columns,
                   bool transposed, int64_t ld, dnnl_data_type_t t)
{
    dnnl_dims_t dims = {rows, columns}, strides;
    int64_t far = ld ? ld : transposed ? rows : columns;

    strides[0] = transposed ? 1 : far;
    strides[1] = transposed ? far : 1;
    return dnnl_memory_desc_init_by_strides(md, 2, dims, t, strides) ==
           dnnl_success;
}

static bool shapes_of(const struct cpu_matmul *m, struct shapes *s)
{
    dnnl_data_type_t a = train_dnnl_type(m->a), b = train_dnnl_type(m->b);
    dnnl_data_type_t c = train_dnnl_type(m->c), bias = train_dnnl_type(m->bias);

    return matrix(&s->mine[A], m->m, m->k, m->ta, m->lda, a) &&
           matrix(&s->want[A], m->m, m->k, m->ta, m->lda, dnnl_bf16) &&
           matrix(&s->mine[B], m->k, m->n, m->tb, m->ldb, b) &&
           matrix(&s->want[B], m->k, m->n, m->tb, m->ldb, dnnl_bf16) &&
           matrix(&s->mine[C], m->m, m->n, false, m->ldc, c) &&
           matrix(&s->want[C], m->m, m->n, false, m->ldc, c) &&
           matrix(&s->mine[BIAS], 1, m->n, false, 0, bias) &&
           matrix(&s->want[BIAS], 1, m->n, false, 0, bias);
}

static bool make_operands(struct cpu_matmul_plan *p, const struct shapes *s,
                          bool bias)
{
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
                                    DNNL_ARG_DST, DNNL_ARG_BIAS};

    for (int k = 0; k < (bias ? 4 : 3); k++)
        if (!train_dnnl_plan_operand(&p->base, k, arguments[k], &s->mine[k],
                                     &s->want[k], k == C))
            return false;
    return true;
}

enum pdl_status train_dnnl_matmul(struct cpu_dnnl *d,
                                  const struct cpu_matmul *m,
                                  struct cpu_matmul_plan **out,
                                  struct pdl_err *err)
{
    struct cpu_matmul_plan *p = PDL_NEW(d->arena, struct cpu_matmul_plan, 1);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_matmul_desc_t desc;
    struct shapes s;
    bool ok;

    *out = NULL;
    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!shapes_of(m, &s) ||
        dnnl_matmul_desc_init(&desc, &s.want[A], &s.want[B],
                              m->has_bias ? &s.want[BIAS] : NULL,
                              &s.want[C]) != dnnl_success ||
        dnnl_primitive_desc_create(&pd, &desc, d->attr, d->engine, NULL) !=
            dnnl_success)
        return PDL_OK;
    ok = true;
    if (!train_dnnl_is_reference(train_dnnl_name(pd))) {
        ok = train_dnnl_plan_make(&p->base, d, pd) &&
             make_operands(p, &s, m->has_bias);
        *out = ok ? p : NULL;
    }
    dnnl_primitive_desc_destroy(pd);
    return ok ? PDL_OK
              : pdl_fail(err, PDL_ENOMEM,
                         "oneDNN refuses to make a matrix product");
}

int64_t train_dnnl_matmul_scratch(const struct cpu_matmul_plan *p)
{
    return p->base.scratch_bytes;
}

const char *train_dnnl_matmul_name(const struct cpu_matmul_plan *p)
{
    return p->base.name;
}

enum pdl_status train_dnnl_matmul_run(const struct cpu_matmul_plan *p, void *a,
                                      void *b, void *bias, void *c,
                                      void *scratch, struct pdl_err *err)
{
    void *data[4] = {a, b, c, bias};

    return train_dnnl_plan_run(&p->base, data, scratch, err);
}
