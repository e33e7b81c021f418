/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a compressed sum of gradients: what goes over the wires as
 * src/comm sends it, and the passes over memory that searching, coding and
 * keeping the rest take there (counted in the source; kernels of a GPU that do
 * several of them at once would take fewer).
 *
 *   topk      a ring of streams of pairs, which grow as terms join
 *   codes     every rank sends every other its part, coded, adds up its own and
 *             sends that to all: of each rank of a node all that is not for
 *             the node leaves it, where a ring leaves it once
 *   powersgd  two dense allreduces: the first factors of all matrices and what
 *             is sent as it is, then the second factors (coll.h) */
#include "oracle/wire/wire.h"

#include "paradl/coll.h"

#include <math.h>

/* Times the bytes of the floats: on the wire; read and written by passes over
 * all of them, and over the part that a rank owns. */
static const struct {
    double wire, passes, own;
} codes[PDL_NCOMPRESS] = {
    /* joins what was kept, 2 readings and a writing; a sample, one reading and
     * its candidates */
    [PDL_COMPRESS_TOPK] = {0, 2 + 1 + 1.5, 0},
    /* joins and is coded in the cache (3), the parts of all ranks are decoded
     * and added (1 + 3), the sums decoded and handed over (1 + 2); of the own
     * sum: coded, decoded, kept, copied (1 + 1 + 4 + 2) */
    [PDL_COMPRESS_INT8] = {1 / 4. + 1 / 256., 10, 8},
    [PDL_COMPRESS_BF16] = {1 / 2., 10, 8},
    [PDL_COMPRESS_FP16] = {1 / 2., 10, 8},
    [PDL_COMPRESS_SIGN] = {1 / 32. + 1 / 256., 10, 8},
    /* joins (3), twice times a factor (2), the sum and the rest made (2 + 3) */
    [PDL_COMPRESS_POWERSGD] = {0, 3 + 2 + 5, 0},
    /* coded (1), the parts decoded and added, the sums handed over; at best */
    [PDL_COMPRESS_LOSSLESS] = {28.0625 / 32, 1 + 4 + 3, 1},
};

static double sparse_ring(double q, double n, double bytes,
                          const struct oracle_wire *w)
{
    double t = 0;
    int64_t part = (int64_t)(bytes / 4 / n);

    for (int terms = 1; terms < (int)n; terms++)
        t += oracle_ring_step(w, pdl_coll_sparse_bytes(part, 4, q, terms)) +
             oracle_ring_step(w, pdl_coll_sparse_bytes(part, 4, q, (int)n));
    return t;
}

/* All parts to their owners at once, and the sums to all. */
static double to_owners(double n, double bytes, const struct oracle_wire *w)
{
    double local = w->level > 0 ? (double)w->local : 1;
    double out = (n - local) * local / n * bytes / w->bytes_per_s;
    double near = w->near_bytes_per_s > 0
                      ? (local - 1) / n * bytes / w->near_bytes_per_s
                      : 0;

    return 2 * (w->alpha_s + fmax(out, near));
}

/* Multiplications and additions of the factors, on the units that are not for
 * matrices. */
static double factors(const struct oracle *o, double rank, double elements)
{
    double rate = o->sys->pe.peak_flop_per_s[PDL_PREC_FP32];

    return rate > 0 ? 8 * rank * elements / rate : 0;
}

/* Elements of the two sums of powersgd, of these tensors; and of them all. */
struct sums {
    double first, second, all;
};

static void add_matrix(const struct oracle *o, int tensor, int64_t pe,
                       int64_t rank, struct sums *out)
{
    const struct pdl_plan_tensor *t = &o->p->tensors[tensor];
    int64_t n = pdl_plan_elements(o->p, tensor, pe), cols = 1, r;

    for (int d = 1; d < t->ndims; d++)
        cols *= t->dim[d];
    if (t->ndims < 2 || cols > n)
        cols = n > 0 ? n : 1;
    r = pdl_coll_factors(n / cols, cols, rank);
    out->first += (double)(r > 0 ? r * (n / cols) : n);
    out->second += (double)(r * cols);
    out->all += (double)n;
}

static struct sums sums_of(const struct oracle *o,
                           const struct oracle_gradients *g, double rank)
{
    struct sums s = {0, 0, 0};

    for (int i = g->first; i < g->last; i++) {
        const struct pdl_plan_op *x = &o->p->ops[i];

        for (int k = 0; x->kind == PDL_PLAN_OP_ALLREDUCE && k < x->nin; k++)
            if (o->p->tensors[x->in[k]].kind ==
                o->p->tensors[o->p->ops[g->like].in[0]].kind)
                add_matrix(o, x->in[k], g->pe, (int64_t)rank, &s);
    }
    return s;
}

static double powersgd(const struct oracle *o, const struct oracle_wire *w,
                       const struct oracle_gradients *g, double rank, double n,
                       double bytes)
{
    struct sums s = sums_of(o, g, rank);
    double by = s.all > 0 ? bytes / s.all : 0;

    return oracle_allreduce(o, w, NULL, n, s.first * by) +
           oracle_allreduce(o, w, NULL, n, s.second * by) +
           factors(o, rank, bytes / 4);
}

double oracle_compressed(const struct oracle *o, const struct oracle_wire *w,
                         const char *as, const struct oracle_gradients *g,
                         double n, double bytes)
{
    struct pdl_compression c;
    double t = 0;

    if (!pdl_compress_parse(as, &c) || c.kind == PDL_COMPRESS_NONE)
        return oracle_allreduce(o, w, NULL, n, bytes);
    if (c.kind == PDL_COMPRESS_TOPK)
        t = sparse_ring(c.value, n, bytes, w);
    else if (c.kind == PDL_COMPRESS_POWERSGD)
        t = powersgd(o, w, g, c.value, n, bytes);
    else
        t = to_owners(n, codes[c.kind].wire * bytes, w);
    return t + (codes[c.kind].passes + codes[c.kind].own / n) * bytes /
                   o->pe.bytes_per_s;
}
