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

#include "oracle/habit/framework.h"

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

/* Elements of the two sums of powersgd, of these tensors, and of those that are
 * sent as they are; of them all; how many tensors are factors, and are not. */
struct sums {
    double first, second, plain, all, matrices, others;
};

static void add_matrix(const struct oracle *o, int tensor, int64_t pe,
                       int64_t rank, struct sums *out)
{
    const struct pdl_plan_tensor *t = &o->p->tensors[tensor];
    int64_t n = pdl_plan_elements(o->p, tensor, pe), cols = 1, rows, r;

    for (int d = 1; d < t->ndims; d++)
        cols *= t->dim[d];
    if (t->ndims < 2 || cols > n)
        cols = n > 0 ? n : 1;
    rows = n / cols;
    r = pdl_coll_factors(rows, cols, rank);
    out->first += (double)(r * rows);
    out->second += (double)(r * cols);
    out->plain += r > 0 ? 0 : (double)n;
    out->all += (double)n;
    out->matrices += r > 0;
    out->others += r == 0;
}

static struct sums sums_of(const struct oracle *o,
                           const struct oracle_gradients *g, double rank)
{
    struct sums s = {.all = 0};

    for (int i = g->first; i < g->last; i++) {
        const struct pdl_plan_op *x = &o->p->ops[i];

        for (int k = 0; x->kind == PDL_PLAN_OP_ALLREDUCE && k < x->nin; k++)
            if (o->p->tensors[x->in[k]].kind ==
                o->p->tensors[o->p->ops[g->like].in[0]].kind)
                add_matrix(o, x->in[k], g->pe, (int64_t)rank, &s);
    }
    return s;
}

/* PyTorch's hook (torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py,
 * 1.10): every kernel of it is one of the host, twice 7 rank - 4 a matrix to
 * orthogonalise, a column at a time, and three products; a copy for each of the
 * others, six a bucket. It sums what it sends as it is by itself. And it waits
 * for the device in each bucket before backward goes on: nothing overlaps. */
static double hooked(const struct oracle *o, const struct sums *s, double rank,
                     double part)
{
    double matrix = 2 * (7 * rank - 4) + 3;

    return (part * (s->matrices * matrix + s->others) + 6) *
           o->opt->framework->kernel_s;
}

static bool is_hook(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    return f && f->torch && o->opt->parameters != PDL_IDEAL;
}

/* Seconds; of these, those of coding. */
static double powersgd(const struct oracle *o, const struct oracle_wire *w,
                       const struct oracle_gradients *g, double rank, double n,
                       double bytes, double *coding)
{
    struct sums s = sums_of(o, g, rank);
    double by = s.all > 0 ? bytes / s.all : 0, t;

    *coding += factors(o, rank, bytes / 4);
    if (!is_hook(o))
        return oracle_allreduce(o, w, NULL, n, (s.first + s.plain) * by) +
               oracle_allreduce(o, w, NULL, n, s.second * by);
    t = oracle_allreduce(o, w, NULL, n, s.plain * by) +
        oracle_allreduce(o, w, NULL, n, s.first * by) +
        oracle_allreduce(o, w, NULL, n, s.second * by);
    *coding += hooked(o, &s, rank, by / 4);
    return t;
}

double oracle_compressed(const struct oracle *o, const struct oracle_wire *w,
                         const char *as, const struct oracle_gradients *g,
                         double n, double bytes, double *coding)
{
    struct pdl_compression c;
    double t = 0;

    *coding = 0;
    if (!pdl_compress_parse(as, &c) || c.kind == PDL_COMPRESS_NONE)
        return oracle_allreduce(o, w, NULL, n, bytes);
    *coding = (codes[c.kind].passes + codes[c.kind].own / n) * bytes /
              o->pe.bytes_per_s;
    if (c.kind == PDL_COMPRESS_TOPK)
        t = sparse_ring(c.value, n, bytes, w);
    else if (c.kind == PDL_COMPRESS_POWERSGD)
        t = powersgd(o, w, g, c.value, n, bytes, coding);
    else
        t = to_owners(n, codes[c.kind].wire * bytes, w);
    t += *coding;
    if (c.kind == PDL_COMPRESS_POWERSGD && is_hook(o))
        *coding = t;
    return t;
}
