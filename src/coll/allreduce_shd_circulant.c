/* SPDX-License-Identifier: Apache-2.0
 *
 * Shifted halving-doubling, circulant form (after T. T. Nguyen et al., CCGrid
 * 2021; reconstruction). Inside a switch: halving near first. Between
 * switches: the block meant for switch s+b travels along the set bits of b;
 * in round k a rank sends the blocks whose b has bit k set to s+2^k and
 * receives from s-2^k. Shifted ranks count the other way round the loop.
 *
 * Chunk = switch * L + position inside the switch (L = 2^local), so a set of
 * switches at one position is a span with a stride. */
#include "coll_priv.h"
#include "coll_shd.h"

#include <inttypes.h>

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    if (job->params.y)
        return pdl_fail(err, PDL_EINVAL,
                        "the circulant form has one dimension (y=%" PRId64 ")",
                        job->params.y);
    return coll_shd_settle(job, err);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return 2 * (int64_t)coll_log2(job->nranks);
}

/* Round j < local: pairs inside a switch, the same for every block row. */
static void inside(const struct coll_shd *n, int rank, int j, bool back,
                   struct pdl_step *out)
{
    struct coll_butterfly b = {
        .rounds = n->local, .partner = coll_xor_near, .bits = coll_bits_near};
    struct coll_view v = {0, 0, 1};
    int64_t size = (int64_t)1 << n->local;
    struct pdl_span keep, give;

    coll_halves(&b, &v, rank & (size - 1), j, &keep, &give);
    keep.stride = give.stride = size;
    keep.n = give.n = (int64_t)1 << n->bits;
    coll_send(out, rank ^ (1 << j), back ? keep : give);
    coll_recv(out, rank ^ (1 << j), back ? give : keep);
}

/* Round k between switches: every second of the blocks still held. The way
 * back sends what the way in received. */
static void between(const struct coll_shd *n, int rank, int k, bool back,
                    struct pdl_step *out)
{
    struct coll_butterfly b = {
        .rounds = n->local, .partner = coll_xor_near, .bits = coll_bits_near};
    struct coll_view v = {0, 0, 1};
    int64_t size = (int64_t)1 << n->local, local = rank & (size - 1);
    int64_t sw = rank >> n->local, to, from;
    int sign = coll_shd_shifted(n, rank) ? -1 : 1;
    struct pdl_span keep = coll_run(0, 0, 1), give;

    if (n->local > 0)
        coll_halves(&b, &v, local, n->local - 1, &keep, &give);
    to = coll_shd_hop(n, sw, k, sign);
    from = coll_shd_hop(n, sw, k, -sign);
    give = keep;
    give.first += to * size;
    keep.first += sw * size;
    keep.stride = give.stride = sign * (size << (k + 1));
    keep.n = give.n = (int64_t)1 << (n->bits - 1 - k);
    if (!back) {
        coll_send(out, (int)(to << n->local | local), give);
        coll_recv(out, (int)(from << n->local | local), keep);
    } else {
        coll_send(out, (int)(from << n->local | local), keep);
        coll_recv(out, (int)(to << n->local | local), give);
    }
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_shd n = coll_shd_shape(job);
    int rounds = n.local + n.bits;
    bool back = s >= rounds;
    int j = (int)(back ? 2 * rounds - 1 - s : s);

    out->act = back ? PDL_ACT_COPY : PDL_ACT_REDUCE;
    if (j < n.local)
        inside(&n, rank, j, back, out);
    else
        between(&n, rank, j - n.local, back, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = (double)nsteps(job, 0);
    out->bytes = 2 * bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

static const struct pdl_alg_key keys[] = {COLL_SHD_KEYS};

const struct pdl_alg coll_allreduce_shd_circulant = {
    .collective = &coll_allreduce,
    .name = "shd-circulant",
    .summary = "shifted halving-doubling as circulant shifts between switches",
    .source = "Nguyen et al., CCGrid 2021 (reconstruction)",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
