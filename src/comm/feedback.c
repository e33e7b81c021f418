/* SPDX-License-Identifier: Apache-2.0
 *
 * Error feedback (Seide et al., Interspeech 2014; Stich et al., NeurIPS 2018:
 * sparsified SGD with memory). The residual is the only copy of what was not
 * sent: the gradient is added to it in the pass that selects, and what is
 * selected is moved out of it, so nothing is lost or counted twice. */
#include "comm_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 }; /* whole cache lines are faster to add to */

struct pdl_feedback {
    pdl_topk *topk;
    float *residual;
};

enum pdl_status pdl_feedback_create(int64_t dim, int64_t k,
                                    enum pdl_topk_how how, uint64_t seed,
                                    pdl_feedback **out, struct pdl_err *err)
{
    pdl_topk *topk;
    pdl_feedback *f;
    size_t bytes = ((size_t)dim * sizeof(float) / ALIGN + 1) * ALIGN;
    enum pdl_status st = pdl_topk_create(dim, k, how, seed, &topk, err);

    if (st != PDL_OK)
        return st;
    f = calloc(1, sizeof *f);
    if (f) {
        f->topk = topk;
        f->residual = aligned_alloc(ALIGN, bytes);
        if (f->residual)
            memset(f->residual, 0, bytes);
    }
    if (!f || !f->residual) {
        if (!f)
            pdl_topk_destroy(topk);
        pdl_feedback_destroy(f);
        return pdl_fail(err, PDL_ENOMEM,
                        "no memory for a residual of %" PRId64 " elements",
                        dim);
    }
    *out = f;
    return PDL_OK;
}

void pdl_feedback_destroy(pdl_feedback *f)
{
    if (!f)
        return;
    pdl_topk_destroy(f->topk);
    free(f->residual);
    free(f);
}

void pdl_feedback_step(pdl_feedback *f, const float *gradient,
                       struct pdl_sparse *out)
{
    comm_topk_take(f->topk, f->residual, gradient, out);
    for (int64_t i = 0; i < out->n; i++)
        f->residual[out->index[i]] = 0;
}

float *pdl_feedback_residual(pdl_feedback *f)
{
    return f->residual;
}
