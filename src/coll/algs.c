/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective algorithm. The commands, the verifier, the tests and the
 * oracle walk this table; doc/collectives.md is checked against it. */
#include "coll_priv.h"

#include <inttypes.h>
#include <stdio.h>

static const struct pdl_alg *const algs[] = {
    &coll_allreduce_ring,
    &coll_allreduce_segmented_ring,
    &coll_allreduce_recursive_doubling,
    &coll_allreduce_halving_doubling,
    &coll_allreduce_halving_doubling_far,
    &coll_allreduce_rabenseifner,
    &coll_allreduce_shd,
    &coll_allreduce_shd_circulant,
    &coll_allreduce_double_tree,
    &coll_allreduce_binomial,
    &coll_allreduce_swing,
    &coll_allreduce_ring_ring,
    &coll_allreduce_ring_rab,
    &coll_allreduce_ring_rdb,
    &coll_allreduce_binomial_ring,
    &coll_allreduce_binomial_binomial,
    &coll_allreduce_ring_ring_pipelined,
    &coll_allreduce_torus,
    &coll_allreduce_sparse_ring,
    &coll_allreduce_sparse_ring_ring,
    &coll_allreduce_ssar,
    &coll_allreduce_dsar,
    &coll_allreduce_kautz,
    &coll_allreduce_kautz_small,
    &coll_allreduce_ordered,
    &coll_allreduce_flat,
    &coll_reduce_scatter_ring,
    &coll_reduce_scatter_halving,
    &coll_reduce_scatter_kautz,
    &coll_reduce_scatter_ordered,
    &coll_allgather_ring,
    &coll_allgather_recursive_doubling,
    &coll_allgather_bruck,
    &coll_allgather_linear,
    &coll_allgather_kautz,
    &coll_broadcast_binomial,
    &coll_broadcast_scatter_allgather,
    &coll_broadcast_chain,
    &coll_broadcast_linear,
    &coll_alltoall_pairwise,
    &coll_alltoall_node_pairwise,
    &coll_alltoall_torus,
    &coll_alltoall_linear,
    &coll_alltoall_bruck,
    &coll_alltoall_kautz,
    &coll_alltoall_xy,
    &coll_alltoall_half_split,
    &coll_alltoall_parity,
    &coll_alltoall_direct,
    &coll_halo_neighbours,
    &coll_exchange_pairwise,
};
enum { NALGS = sizeof algs / sizeof algs[0] };

const struct pdl_alg *pdl_alg_at(int i)
{
    return i >= 0 && i < NALGS ? algs[i] : NULL;
}

const struct pdl_alg *pdl_alg_find(const char *collective, const char *name)
{
    for (int i = 0; i < NALGS; i++)
        if (strcmp(algs[i]->collective->name, collective) == 0 &&
            strcmp(algs[i]->name, name) == 0)
            return algs[i];
    return NULL;
}

static enum pdl_status no_collective(const char *name, struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_say(err, "no collective '%s'", name);
    pdl_suggest_init(&s, name);
    for (int i = 0; pdl_collective_at(i); i++)
        pdl_suggest_try(&s, pdl_collective_at(i)->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl collective list' shows them");
    return PDL_EINVAL;
}

static enum pdl_status no_algorithm(const char *collective, const char *name,
                                    struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_say(err, "%s has no algorithm '%s'", collective, name);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < NALGS; i++)
        if (strcmp(algs[i]->collective->name, collective) == 0)
            pdl_suggest_try(&s, algs[i]->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl collective list' shows them");
    return PDL_EINVAL;
}

static enum pdl_status no_key(const struct pdl_alg *alg, const char *word,
                              struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_say(err, "%s takes no parameter '%s'", alg->name, word);
    pdl_suggest_init(&s, word);
    for (int i = 0; i < alg->nkeys; i++)
        pdl_suggest_try(&s, alg->keys[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

/* One "key=value"; word is a copy that may be cut. */
static enum pdl_status set_key(struct pdl_coll_job *job, char *word,
                               struct pdl_err *err)
{
    const struct pdl_alg *alg = job->alg;
    char *value = strchr(word, '=');
    const struct pdl_alg_key *key = NULL;
    enum pdl_status st;
    int64_t v;

    if (value)
        *value++ = '\0';
    for (int i = 0; i < alg->nkeys; i++)
        if (strcmp(alg->keys[i].name, word) == 0)
            key = &alg->keys[i];
    if (!key)
        return no_key(alg, word, err);
    if (!value)
        return pdl_fail(err, PDL_EINVAL, "%s: write %s=NUMBER", alg->name,
                        word);
    st = pdl_int_parse(value, key->min, key->max, &v, err);
    if (st != PDL_OK)
        return st;
    memcpy((char *)&job->params + key->offset, &v, sizeof v);
    return PDL_OK;
}

enum pdl_status pdl_alg_parse(const char *collective, const char *spec,
                              struct pdl_coll_job *job, struct pdl_err *err)
{
    char text[256], *word, *next;
    enum pdl_status st = PDL_OK;

    if (!pdl_collective_find(collective))
        return no_collective(collective, err);
    if (strlen(spec) >= sizeof text)
        return pdl_fail(err, PDL_EINVAL, "an algorithm's name is shorter");
    memcpy(text, spec, strlen(spec) + 1);
    word = strchr(text, ':');
    if (word)
        *word++ = '\0';
    job->alg = pdl_alg_find(collective, text);
    if (!job->alg)
        return no_algorithm(collective, text, err);
    for (; word && st == PDL_OK; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        st = set_key(job, word, err);
    }
    return st;
}

enum pdl_status pdl_alg_known(const char *collective, const char *spec,
                              struct pdl_err *err)
{
    struct pdl_coll_job job = {.alg = NULL};

    return pdl_alg_parse(collective, spec, &job, err);
}
