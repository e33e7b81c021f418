/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a local operation from a profile of the machine: rows "run.*"
 * that `paradl calibrate` took while networks of its own trained. The rate
 * (FLOPs, or bytes where there are more of them) of an operation is that of
 * the rows of its operator and pass, weighted by how near their extents are:
 * inverse distances in the logarithms of samples, channels, filters and
 * pixels (D. Shepard, A two-dimensional interpolation function for
 * irregularly-spaced data, ACM 1968), of other operators in the logarithm of
 * the bytes. Rows of another kernel size, stride or part do not count.
 *
 * Limits: a rate beyond the measured extents stays that of the nearest ones;
 * nothing is known of operators that the probes do not have. */
#include "oracle_priv.h"

#include <math.h>
#include <string.h>

/* Rows this near (squared) to each other count as one. */
static const double NEAR2 = .02;

static double work_of(const int64_t *dims)
{
    int64_t flops = dims[PDL_KEY_FLOPS], bytes = dims[PDL_KEY_BYTES];

    return (double)(flops > bytes ? flops : bytes);
}

static bool is_alike(const struct pdl_profile_row *r,
                     const struct pdl_plan_key *k, const char *precision)
{
    if (strncmp(r->op, "run.", 4) != 0 || strcmp(r->op + 4, k->op) != 0 ||
        r->ndims != k->ndims || !r->pass || strcmp(r->pass, k->pass) != 0 ||
        (r->precision && strcmp(r->precision, precision) != 0) ||
        !(r->seconds > 0) || !(work_of(r->dims) > 0))
        return false;
    for (int i = PDL_KEY_CLASS; i < PDL_KEY_EXTENTS; i++)
        if (r->dims[i] != k->dims[i])
            return false;
    return true;
}

/* Squared distance in octaves. */
static double distance2(const struct pdl_profile_row *r,
                        const struct pdl_plan_key *k)
{
    int first = k->ndims > PDL_KEY_EXTENTS ? PDL_KEY_EXTENTS : PDL_KEY_BYTES;
    int end = k->ndims > PDL_KEY_EXTENTS ? k->ndims : PDL_KEY_BYTES + 1;
    double sum = 0;

    for (int i = first; i < end; i++)
        if (r->dims[i] > 0 && k->dims[i] > 0) {
            double d = log2((double)r->dims[i] / (double)k->dims[i]);

            sum += d * d;
        }
    return sum;
}

double oracle_profiled(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_pe *pe = &o->sys->pe;
    const char *precision = pdl_precision_name(o->opt->precision);
    double sum = 0, weights = 0;
    struct pdl_plan_key k;

    if (!o->pe.core || pe->nprofile == 0 ||
        !pdl_plan_op_key(o->p, op, rank, &k) || !(work_of(k.dims) > 0))
        return -1;
    if (o->p->ops[op].kind == PDL_PLAN_OP_UPDATE)
        k.dims[PDL_KEY_CLASS] = o->opt->optimizer_slots;
    for (int64_t i = 0; i < pe->nprofile; i++) {
        const struct pdl_profile_row *r = &pe->profile[i];
        double d2, w;

        if (!is_alike(r, &k, precision))
            continue;
        d2 = distance2(r, &k) + NEAR2;
        w = 1 / (d2 * d2);
        sum += w * log(work_of(r->dims) / r->seconds);
        weights += w;
    }
    return weights > 0 ? work_of(k.dims) / exp(sum / weights) : -1;
}
