/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and shapes: names, products, comparison. */
#include "model_priv.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
#define X(name, text, bits) {text, bits},
    PDL_DTYPE_LIST(X)
#undef X
};
enum { NDTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *pdl_dtype_name(enum pdl_dtype t)
{
    return (unsigned)t < NDTYPES ? dtypes[t].name : "?";
}

int pdl_dtype_bits(enum pdl_dtype t)
{
    return (unsigned)t < NDTYPES ? dtypes[t].bits : 0;
}

bool pdl_dtype_find(const char *name, enum pdl_dtype *out)
{
    for (int i = 0; i < NDTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (enum pdl_dtype)i;
            return true;
        }
    return false;
}

const char *model_shape_text(const struct pdl_tensor *t, char *buf, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? "," : "[",
                              (long long)t->dim[i]);
    if (n < size)
        snprintf(buf + n, size - n, t->rank ? "]" : "[]");
    return buf;
}

bool model_same_shape(const struct pdl_tensor *a, const struct pdl_tensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

bool model_shape_valid(const struct pdl_tensor *t)
{
    int64_t n = 1;

    if (t->rank < 0 || t->rank > PDL_MAX_RANK)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || !pdl_mul64(n, model_or1(t->dim[i]), &n))
            return false;
    return true;
}

int64_t pdl_tensor_elements(const struct pdl_tensor *t)
{
    int64_t n;

    return pdl_prod64(t->dim, t->rank, &n) ? n : -1;
}

void model_weight(struct pdl_tensor *w, const char *name,
                  enum pdl_tensor_kind kind, int rank, const int64_t *dim)
{
    *w = (struct pdl_tensor){.name = name, .kind = kind, .rank = rank};
    for (int i = 0; i < rank; i++)
        w->dim[i] = dim[i];
}

struct pdl_tensor model_like(const struct pdl_tensor *t)
{
    struct pdl_tensor out = *t;

    out.name = NULL;
    out.kind = PDL_TENSOR_ACTIVATION;
    return out;
}

int64_t model_or1(int64_t v)
{
    return v ? v : 1;
}

int64_t model_prod(const struct pdl_tensor *t, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to && i < t->rank; i++)
        n *= t->dim[i];
    return n;
}
