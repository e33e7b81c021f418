/* SPDX-License-Identifier: Apache-2.0
 *
 * What algorithms have in common when they settle a job: parameters that were
 * not given, and the reasons for refusing one. */
#include "coll_priv.h"

#include <inttypes.h>

/* The largest divisor of n that is at most its square root. */
static int64_t middle_divisor(int64_t n)
{
    int64_t best = 1;

    for (int64_t i = 2; i * i <= n; i++)
        if (n % i == 0)
            best = i;
    return best;
}

enum pdl_status coll_settle_k(struct pdl_coll_job *job, struct pdl_err *err)
{
    int64_t *k = &job->params.k;

    if (*k == 0)
        *k = job->nranks % 4 == 0 ? 4 : middle_divisor(job->nranks);
    if (job->nranks % *k != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%d ranks are not a multiple of k=%" PRId64,
                        job->nranks, *k);
    return PDL_OK;
}

enum pdl_status coll_settle_segments(struct pdl_coll_job *job, int64_t usual)
{
    if (job->params.segments == 0)
        job->params.segments = usual;
    return PDL_OK;
}

enum pdl_status coll_settle_grid(struct pdl_coll_job *job, int dims,
                                 struct pdl_err *err)
{
    struct pdl_coll_params *p = &job->params;

    if (!p->x && !p->y && !p->z) {
        p->x =
            dims > 1 ? job->nranks / middle_divisor(job->nranks) : job->nranks;
        p->y = job->nranks / p->x;
    }
    p->x = p->x ? p->x : 1;
    p->y = p->y ? p->y : 1;
    p->z = p->z ? p->z : 1;
    if (p->x > job->nranks || p->y > job->nranks || p->z > job->nranks ||
        p->x * p->y * p->z != job->nranks)
        return pdl_fail(err, PDL_EINVAL,
                        "a grid of %" PRId64 "x%" PRId64 "x%" PRId64
                        " has not %d ranks",
                        p->x, p->y, p->z, job->nranks);
    return PDL_OK;
}

enum pdl_status coll_need_pow2(const struct pdl_coll_job *job,
                               struct pdl_err *err)
{
    if (coll_is_pow2(job->nranks))
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%d ranks are not a power of two",
                    job->nranks);
}

enum pdl_status coll_need_multiple(const struct pdl_coll_job *job, int64_t n,
                                   struct pdl_err *err)
{
    if (job->count % n == 0)
        return PDL_OK;
    pdl_say(err, "%" PRId64 " elements are not %" PRId64 " equal blocks",
            job->count, n);
    pdl_hint(err, "%" PRId64 " bytes would be",
             (job->count / n + 1) * n * job->elem_bytes);
    return PDL_EINVAL;
}

enum pdl_status coll_pow2_setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_pow2(job, err);

    if (st == PDL_OK)
        coll_one_buffer(job, job->nranks);
    return st;
}
