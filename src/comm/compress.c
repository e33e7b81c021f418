/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of gradients that travel as less than their floats. One line of the
 * table a way; what a rank does not send of a gradient it keeps and adds to the
 * next one (error feedback; Seide et al., Interspeech 2014; Karimireddy et al.,
 * ICML 2019), so that over all ranks kept + sum is what was given. */
#include "comm_compress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const struct comm_compressor ways[] = {
    {.is = {"topk", "the share X of largest magnitude, index and value", "X", 0, 1, false}},
    {.is = {"int8", "8 bits and a scale for 256 values", NULL, 0, 0, false}, .codec = &comm_codec_int8},
    {.is = {"bf16", "bfloat16, to nearest", NULL, 0, 0, false}, .codec = &comm_codec_bf16},
    {.is = {"fp16", "IEEE half, to nearest, at most 65504", NULL, 0, 0, false}, .codec = &comm_codec_fp16},
    {.is = {"sign", "one bit and a scale for 256 values", NULL, 0, 0, false}, .codec = &comm_codec_sign},
    {.is = {"powersgd", "two factors of rank R", "R", 1, 64, false}},
    {.is = {"lossless", "exponents in four bits where they are near", NULL, 0, 0, true}, .codec = &comm_codec_lossless},
};
// clang-format on
enum { NWAYS = sizeof ways / sizeof ways[0] };

const struct pdl_compressor *pdl_compressor_at(int i)
{
    return i >= 0 && i < NWAYS ? &ways[i].is : NULL;
}

static const struct comm_compressor *find(const char *name)
{
    for (int i = 0; i < NWAYS; i++)
        if (strcmp(ways[i].is.name, name) == 0)
            return &ways[i];
    return NULL;
}

static const struct comm_compressor *calls_of(const struct comm_compressor *w)
{
    return w->codec                              ? &comm_compress_blocks
           : strcmp(w->is.name, "powersgd") == 0 ? &comm_compress_powersgd
                                                 : &comm_compress_topk;
}

static enum pdl_status check(const struct comm_compressor *w, const char *name,
                             int64_t dim, double value, struct pdl_err *err)
{
    if (!w)
        return pdl_fail(err, PDL_EINVAL, "no compression '%.40s'", name);
    if (dim < 1 || dim > UINT32_MAX)
        return pdl_fail(err, PDL_EINVAL,
                        "%" PRId64 " elements cannot be compressed", dim);
    if (w->is.value &&
        !(value > 0 && value >= w->is.least && value <= w->is.most))
        return pdl_fail(err, PDL_EINVAL, "%s:%g is not within %g to %g", name,
                        value, w->is.least, w->is.most);
    return PDL_OK;
}

enum pdl_status pdl_compress_create(pdl_comm *c, int64_t dim, const char *name,
                                    double value, uint64_t seed,
                                    pdl_compress **out, struct pdl_err *err)
{
    const struct comm_compressor *w = find(name);
    enum pdl_status st = check(w, name, dim, value, err);
    pdl_compress *x;

    if (st != PDL_OK)
        return st;
    x = calloc(1, sizeof *x);
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    x->how = calls_of(w);
    x->codec = w->codec;
    x->comm = c;
    x->dim = dim;
    x->value = value;
    x->seed = seed;
    if (!w->is.exact && x->how != &comm_compress_topk) {
        x->residual = calloc((size_t)dim, sizeof *x->residual);
        if (!x->residual)
            st = pdl_fail(err, PDL_ENOMEM,
                          "no memory for a residual of %" PRId64 " elements",
                          dim);
    }
    if (st == PDL_OK)
        st = x->how->create(x, err);
    if (st != PDL_OK) {
        pdl_compress_destroy(x);
        return st;
    }
    *out = x;
    return PDL_OK;
}

enum pdl_status pdl_compress_shape(pdl_compress *x, int n,
                                   const struct pdl_compress_part *parts,
                                   struct pdl_err *err)
{
    int64_t end = 0;

    for (int i = 0; i < n; i++) {
        int64_t size = 0;

        if (parts[i].rows < 1 || parts[i].cols < 1 || parts[i].begin < end ||
            !pdl_mul64(parts[i].rows, parts[i].cols, &size) ||
            size > x->dim - parts[i].begin)
            return pdl_fail(err, PDL_EINVAL,
                            "matrix %d is not in the vector of %" PRId64
                            " elements",
                            i, x->dim);
        end = parts[i].begin + size;
    }
    return x->how->shape ? x->how->shape(x, n, parts, err) : PDL_OK;
}

void pdl_compress_destroy(pdl_compress *x)
{
    if (!x)
        return;
    x->how->destroy(x);
    free(x->residual);
    free(x);
}

void pdl_compress_take(pdl_compress *x, const float *gradient)
{
    x->sent = 0;
    x->how->take(x, gradient);
}

enum pdl_status pdl_compress_start(pdl_compress *x, struct pdl_err *err)
{
    return x->how->start(x, err);
}

enum pdl_status pdl_compress_test(pdl_compress *x, bool *done,
                                  struct pdl_err *err)
{
    return x->how->go(x, false, done, err);
}

enum pdl_status pdl_compress_wait(pdl_compress *x, struct pdl_err *err)
{
    bool done;

    return x->how->go(x, true, &done, err);
}

void pdl_compress_put(pdl_compress *x, float *sum)
{
    x->how->put(x, sum);
}

float *pdl_compress_residual(pdl_compress *x)
{
    return x->how == &comm_compress_topk ? comm_topk_residual(x) : x->residual;
}

void pdl_compress_forget(pdl_compress *x)
{
    float *kept = pdl_compress_residual(x);

    if (kept)
        memset(kept, 0, (size_t)x->dim * sizeof kept[0]);
    if (x->how->forget)
        x->how->forget(x);
}

int64_t pdl_compress_sent(const pdl_compress *x)
{
    return x->sent;
}

enum pdl_status comm_compress_settle(pdl_compress *x, bool wait, bool *done,
                                     struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    *done = true;
    if (x->request && !wait)
        st = pdl_comm_test(x->request, done, err);
    if (x->request && *done) {
        pdl_comm_request *r = x->request;

        x->request = NULL;
        st = pdl_comm_wait(r, err);
    }
    return st;
}

enum pdl_status pdl_compress_apply(const char *name, const float *in, int64_t n,
                                   float *out, int64_t *bytes,
                                   struct pdl_err *err)
{
    const struct comm_compressor *w = find(name);
    enum pdl_status st = check(w, name, n, 1, err);
    uint8_t *coded;

    if (st == PDL_OK && !w->codec)
        st = pdl_fail(err, PDL_EINVAL, "%s does not work value by value", name);
    if (st != PDL_OK)
        return st;
    coded = malloc((size_t)w->codec->room(n));
    if (!coded)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    *bytes = w->codec->encode(in, n, coded);
    if (!w->codec->decode(coded, *bytes, n, out))
        st = pdl_fail(err, PDL_EWRONG, "%s does not read what it wrote", name);
    free(coded);
    return st;
}
