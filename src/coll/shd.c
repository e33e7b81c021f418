/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two forms of shifted halving-doubling share: how ranks sit on a
 * DLN(q,p) network. Rank bits from low to high: log2 g inside a port, p ports
 * of a switch (together pb bits), q bits of the switch; y of these may be a
 * second dimension (2-D DLN), whose shortcuts do not carry into it. */
#include "coll_priv.h"
#include "coll_shd.h"

#include <inttypes.h>

enum pdl_status coll_shd_settle(struct pdl_coll_job *job, struct pdl_err *err)
{
    struct pdl_coll_params *p = &job->params;
    enum pdl_status st = coll_need_pow2(job, err);
    int64_t bits = coll_log2(job->nranks), port;

    if (st != PDL_OK)
        return st;
    p->g = p->g ? p->g : 1;
    if (!coll_is_pow2(p->g) || p->g > job->nranks)
        return pdl_fail(err, PDL_EINVAL,
                        "g=%" PRId64 " ranks per port are not a power of two "
                        "that divides the ranks",
                        p->g);
    port = coll_log2(p->g);
    if (!p->q)
        p->q = p->p ? bits - port - p->p : (bits - port + 1) / 2;
    if (!p->p)
        p->p = bits - port - p->q;
    if (p->q < 0 || p->p < 0 || p->p + p->q + port != bits)
        return pdl_fail(err, PDL_EINVAL,
                        "DLN(q=%" PRId64 ",p=%" PRId64 ") with %" PRId64
                        " ranks per port has not %d ranks",
                        p->q, p->p, p->g, job->nranks);
    if (!p->shift)
        p->shift = port;
    if (p->p > 0 && (p->shift < port || p->shift >= port + p->p))
        return pdl_fail(err, PDL_EINVAL,
                        "shift bit %" PRId64 " does not choose among the "
                        "ports of a switch",
                        p->shift);
    if (p->y > p->q)
        return pdl_fail(err, PDL_EINVAL, "y=%" PRId64 " of q=%" PRId64 " bits",
                        p->y, p->q);
    coll_one_buffer(job, job->nranks);
    return PDL_OK;
}

struct coll_shd coll_shd_shape(const struct pdl_coll_job *job)
{
    const struct pdl_coll_params *p = &job->params;

    return (struct coll_shd){
        .local = (int)p->p + coll_log2(p->g),
        .bits = (int)p->q,
        .row = (int)(p->q - p->y),
        .shift = p->p > 0 ? (int)p->shift : -1,
    };
}

bool coll_shd_shifted(const struct coll_shd *n, int64_t rank)
{
    return n->shift >= 0 && (rank >> n->shift & 1);
}

/* Adds by*2^k to the switch number, in the dimension bit k is in. */
int64_t coll_shd_hop(const struct coll_shd *n, int64_t sw, int k, int by)
{
    int low = k < n->row ? 0 : n->row, high = k < n->row ? n->row : n->bits;
    int64_t size = (int64_t)1 << (high - low), part = (sw >> low) & (size - 1);
    int64_t to = coll_mod(part + by * ((int64_t)1 << (k - low)), size);

    return sw + (to - part) * ((int64_t)1 << low);
}
