/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of an allreduce, from the algorithm: rounds, bytes and the wires
 * they cross. Flat algorithms are priced by their closed form (coll room) on
 * the worst hop of the group. The hierarchical one is reduce-scatter inside a
 * node, an allreduce between the nodes by every local rank on its own share,
 * and allgather inside; its rings between nodes together carry what one flat
 * ring would, with as many fewer rounds as a node has ranks.
 *
 * allreduce=auto is the quickest of a few, which is what libraries do: NCCL
 * chooses between rings and trees by size (its trees have the rounds and bytes
 * of halving-doubling), MPI between rings and halving-doubling. A framework
 * whose habit is known, and the papers' exchange, keep their ring. */
#include "oracle/wire/wire.h"

#include "paradl/coll.h"

#include <math.h>
#include <string.h>

/* One level of the system, as a closed form needs it. */
struct path {
    double alpha_s, bytes_per_s;
};

static double on_path(const struct pdl_coll_cost *c, const struct path *p)
{
    return c->rounds * p->alpha_s + c->bytes / p->bytes_per_s;
}

/* The closed form of `collective` by `name` on n ranks; infinite where the
 * algorithm does not run on so many. */
static double closed(const char *collective, const char *name, double n,
                     double bytes, const struct path *p)
{
    struct pdl_coll_job job;
    struct pdl_coll_cost cost;
    int64_t count = (int64_t)ceil(bytes);

    if (n < 2)
        return 0;
    if (n > INT32_MAX || pdl_coll_job_make(collective, name, (int)n, count, 1,
                                           &job, NULL) != PDL_OK)
        return INFINITY;
    return pdl_coll_closed_form(&job, &cost) ? on_path(&cost, p) : INFINITY;
}

/* Ranks of the group in one node, when every node has as many. */
static double local_ranks(const struct oracle_wire *w, double n)
{
    double local = (double)w->local;

    return local > 1 && fmod(n, local) == 0 ? local : 1;
}

static double hierarchical(const struct oracle_wire *w, double local, double n,
                           double bytes, const char *between,
                           const struct path *out)
{
    struct path in = {w->near_alpha_s, w->near_bytes_per_s};

    if (local < 2 || local == n || !(in.bytes_per_s > 0))
        return INFINITY;
    return closed("reduce-scatter", "ring", local, bytes, &in) +
           closed("allreduce", between, n / local, bytes, out) +
           closed("allgather", "ring", local, bytes, &in);
}

static double ring(const struct oracle_wire *w, double n, double bytes)
{
    return 2 * (n - 1) * oracle_ring_step(w, bytes / n);
}

/* The large messages stay in the node; of those that leave it, all of its
 * ranks have one at a time. */
static double halving_doubling(const struct oracle_wire *w, double n,
                               double bytes, const struct path *out)
{
    double local = local_ranks(w, n), t = 0, part = bytes / 2;
    double once = closed("allreduce", "halving-doubling", n, bytes, out);

    if (!isfinite(once) || w->level == 0 || !(w->near_bytes_per_s > 0))
        return once;
    for (int64_t d = 1; d < (int64_t)n; d *= 2, part /= 2)
        t += d < (int64_t)local
                 ? w->near_alpha_s + part / w->near_bytes_per_s
                 : out->alpha_s + part * local / out->bytes_per_s;
    return 2 * t;
}

static bool keeps_ring(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    return o->p->strategy->exchange_paper || o->opt->parameters == PDL_IDEAL ||
           (f && (f->one_channel || f->leaders || f->folded_filter));
}

static uint64_t mix(uint64_t h, double x)
{
    uint64_t v;

    memcpy(&v, &x, sizeof v);
    return (h ^ v ^ h >> 29) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The quickest of the algorithms. Ranks of a group and gradients of equal
 * layers ask for the same: answers are kept. */
static double quickest(const struct oracle *o, const struct oracle_wire *w,
                       double n, double bytes, const struct path *p)
{
    static const char *const algs[] = {"ring", "halving-doubling"};
    double best, local = local_ranks(w, n);
    struct oracle_quickest *last = o->quickest;

    if (last)
        last += mix(mix(mix(1, n), bytes), p->bytes_per_s) >> 32 &
                (ORACLE_QUICKEST - 1);
    if (last && last->n == n && last->bytes == bytes && last->local == local &&
        last->alpha_s == p->alpha_s && last->bytes_per_s == p->bytes_per_s &&
        last->near_bytes_per_s == w->near_bytes_per_s)
        return last->seconds;
    best = fmin(ring(w, n, bytes), halving_doubling(w, n, bytes, p));
    for (size_t i = 0; i < sizeof algs / sizeof algs[0]; i++)
        best = fmin(best, hierarchical(w, local, n, bytes, algs[i], p));
    if (last)
        *last = (struct oracle_quickest){
            n,   bytes, local, p->alpha_s, p->bytes_per_s, w->near_bytes_per_s,
            best};
    return best;
}

/* Processors of one node, as it was measured by size: beyond the caches a byte
 * takes nearly twice as long as the line through all sizes has it. */
static bool measured(const struct oracle *o, const struct oracle_wire *w,
                     double n, double bytes, double *out)
{
    return o->pe.core && w->level == 0 && !keeps_ring(o) &&
           bytes < (double)INT64_MAX / 2 &&
           pdl_collective_seconds(o->sys, "allreduce", (int64_t)n,
                                  (int64_t)bytes, out);
}

static double on_torus(const struct oracle *o, const struct oracle_wire *w,
                       const char *name, double n, double bytes)
{
    const struct path p = {w->alpha_s, w->bytes_per_s};
    double t = INFINITY;

    if (!name && !keeps_ring(o) && w->torus.box)
        return 2 * oracle_torus_rings(w, bytes, true);
    if (!name || strcmp(name, "ring") == 0)
        return ring(w, n, bytes);
    t = oracle_torus_named(o, w, name, bytes);
    if (isfinite(t))
        return t;
    return strcmp(name, "ring-ring") == 0
               ? ring(w, n, bytes)
               : closed("allreduce", name, n, bytes, &p);
}

double oracle_allreduce(const struct oracle *o, const struct oracle_wire *w,
                        const char *name, double n, double bytes)
{
    struct path p = {w->alpha_s, w->bytes_per_s};
    double t;

    if (!name && measured(o, w, n, bytes, &t))
        return t;
    if (w->torus.is)
        return on_torus(o, w, name, n, bytes);
    if (!name)
        return keeps_ring(o) ? ring(w, n, bytes) : quickest(o, w, n, bytes, &p);
    if (strcmp(name, "ring") == 0)
        return ring(w, n, bytes);
    if (strcmp(name, "halving-doubling") == 0)
        return halving_doubling(w, n, bytes, &p);
    if (strcmp(name, "ring-ring") != 0)
        return closed("allreduce", name, n, bytes, &p);
    t = hierarchical(w, local_ranks(w, n), n, bytes, "ring", &p);
    return isfinite(t) ? t : ring(w, n, bytes); /* one node, or one each */
}

static enum pdl_status known(const char *name, struct pdl_err *err)
{
    struct pdl_coll_job job = {.alg = NULL};
    enum pdl_status st;

    st = pdl_alg_parse("allreduce", name, &job, err);
    if (st != PDL_OK || job.alg->cost)
        return st;
    pdl_fail(err, PDL_EINVAL, "allreduce=%s has no closed form to price it by",
             name);
    pdl_hint(err, "'paradl simulate allreduce --algorithm %s' times it", name);
    return PDL_EINVAL;
}

/* Most operations say the same as the one before. */
enum pdl_status oracle_allreduce_known(const struct oracle *o,
                                       struct pdl_err *err)
{
    const char *last = NULL;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < o->p->nops && st == PDL_OK; i++) {
        const char *name = o->p->ops[i].algorithm;

        if (!name || name == last)
            continue;
        st = known(name, err);
        last = name;
    }
    return st;
}
