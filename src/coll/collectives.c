/* SPDX-License-Identifier: Apache-2.0
 *
 * What each collective means: where the inputs are at the start and what the
 * result must hold at the end. The verifier and the tests know nothing else
 * about them. A buffer of n chunks on P ranks has blocks of n/P chunks;
 * block i belongs to rank i. */
#include "coll_priv.h"

static int64_t block_of(const struct pdl_coll_job *job, int buf, int64_t c)
{
    return c / (job->buf[buf].chunks / job->nranks);
}

static bool holds_all(const struct pdl_coll_job *job, int rank, int64_t c)
{
    (void)job, (void)rank, (void)c;
    return true;
}

static struct pdl_want want_sum(const struct pdl_coll_job *job, int rank,
                                int64_t c)
{
    (void)job, (void)rank;
    return (struct pdl_want){.what = PDL_WANT_ALL, .chunk = c};
}

static struct pdl_want want_own_sum(const struct pdl_coll_job *job, int rank,
                                    int64_t c)
{
    if (block_of(job, 0, c) == rank)
        return (struct pdl_want){.what = PDL_WANT_ALL, .chunk = c};
    return (struct pdl_want){.what = PDL_WANT_ANYTHING};
}

static bool holds_own_block(const struct pdl_coll_job *job, int rank, int64_t c)
{
    return block_of(job, 0, c) == rank;
}

static struct pdl_want want_blocks(const struct pdl_coll_job *job, int rank,
                                   int64_t c)
{
    (void)rank;
    return (struct pdl_want){
        .what = PDL_WANT_ONE, .from = (int)block_of(job, 0, c), .chunk = c};
}

static bool holds_at_root(const struct pdl_coll_job *job, int rank, int64_t c)
{
    (void)c;
    return rank == job->params.root;
}

static struct pdl_want want_roots(const struct pdl_coll_job *job, int rank,
                                  int64_t c)
{
    (void)rank;
    return (struct pdl_want){
        .what = PDL_WANT_ONE, .from = (int)job->params.root, .chunk = c};
}

/* Block s of the result is the block that rank s has for this rank. */
static struct pdl_want want_transpose(const struct pdl_coll_job *job, int rank,
                                      int64_t c)
{
    int64_t per = job->buf[1].chunks / job->nranks;

    return (struct pdl_want){.what = PDL_WANT_ONE,
                             .from = (int)(c / per),
                             .chunk = rank * per + c % per};
}

/* Chunk 2i is the face towards the lower neighbour in direction i, 2i+1
 * towards the higher; at the border there is nothing to get. */
static struct pdl_want want_faces(const struct pdl_coll_job *job, int rank,
                                  int64_t c)
{
    const struct pdl_coll_params *p = &job->params;
    const int64_t extent[3] = {p->x, p->y, p->z};
    const int64_t stride[3] = {1, p->x, p->x * p->y};
    int dim = (int)(c / 2) % 3;
    int64_t step = c % 2 ? 1 : -1, at;

    at = rank / stride[dim] % extent[dim] + step;
    if (at < 0 || at >= extent[dim])
        return (struct pdl_want){.what = PDL_WANT_ANYTHING};
    return (struct pdl_want){.what = PDL_WANT_ONE,
                             .from = (int)(rank + step * stride[dim]),
                             .chunk = c ^ 1};
}

static struct pdl_want want_partners(const struct pdl_coll_job *job, int rank,
                                     int64_t c)
{
    return (struct pdl_want){
        .what = PDL_WANT_ONE,
        .from = (int)coll_mod(job->params.round - rank, job->nranks),
        .chunk = c};
}

const struct pdl_collective coll_allreduce = {
    "allreduce", "every rank gets the sum of all ranks' vectors", 0, holds_all,
    want_sum};
const struct pdl_collective coll_reduce_scatter = {
    "reduce-scatter", "rank r gets block r of the sum", 0, holds_all,
    want_own_sum};
const struct pdl_collective coll_allgather = {
    "allgather", "every rank gets every rank's block", 0, holds_own_block,
    want_blocks};
const struct pdl_collective coll_broadcast = {
    "broadcast", "every rank gets the root's vector", 0, holds_at_root,
    want_roots};
const struct pdl_collective coll_alltoall = {
    "alltoall", "rank r gets block r of every rank", 1, holds_all,
    want_transpose};
const struct pdl_collective coll_halo = {
    "halo", "ranks of a grid swap the faces they share", 1, holds_all,
    want_faces};
const struct pdl_collective coll_exchange = {
    "exchange", "ranks swap samples in pairs", 1, holds_all, want_partners};

static const struct pdl_collective *const collectives[] = {
    &coll_allreduce, &coll_reduce_scatter, &coll_allgather, &coll_broadcast,
    &coll_alltoall,  &coll_halo,           &coll_exchange,
};
enum { NCOLLECTIVES = sizeof collectives / sizeof collectives[0] };

const struct pdl_collective *pdl_collective_at(int i)
{
    return i >= 0 && i < NCOLLECTIVES ? collectives[i] : NULL;
}

const struct pdl_collective *pdl_collective_find(const char *name)
{
    for (int i = 0; i < NCOLLECTIVES; i++)
        if (strcmp(collectives[i]->name, name) == 0)
            return collectives[i];
    return NULL;
}
