/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of an algorithm that follow from the network it runs on, read
 * from the network's description: "torus:8x8x16" has x=8, y=8, z=16. A rule
 * applies only where the algorithm has the parameter and the user said
 * nothing. */
#include "coll_priv.h"

#include <stdlib.h>

/* The number after "key=" in "name:key=value,..."; the first item may be
 * bare. 0: not there. */
static int64_t value_of(const char *spec, const char *key)
{
    size_t n = strlen(key);
    const char *at = strchr(spec, ':');

    for (; at; at = strchr(at + 1, ','))
        if (strncmp(at + 1, key, n) == 0 && at[n + 1] == '=')
            return strtoll(at + n + 2, NULL, 10);
    return 0;
}

/* The extents of "name:8x8x16" or "name:dims=8x8x16", others are 1; false: it
 * has none, or more. */
static bool extents_of(const char *spec, int64_t out[3])
{
    const char *at = strchr(spec, ':');
    char *end;

    if (!at)
        return false;
    at += strncmp(at + 1, "dims=", 5) == 0 ? 6 : 1;
    for (int i = 0;; i++, at = end + 1) {
        int64_t n = strtoll(at, &end, 10);

        if (end == at || (i > 2 && n != 1))
            return false;
        if (i < 3)
            out[i] = n;
        if (*end != 'x')
            return true;
    }
}

static bool has_key(const struct pdl_alg *alg, const char *name)
{
    for (int i = 0; i < alg->nkeys; i++)
        if (strcmp(alg->keys[i].name, name) == 0)
            return true;
    return false;
}

static void grid(struct pdl_coll_job *job, const struct pdl_net *net)
{
    struct pdl_coll_params *p = &job->params;
    int64_t e[3] = {0, 0, 0};

    if (!has_key(job->alg, "x") || p->x || p->y || p->z ||
        job->nranks != net->nhosts || !extents_of(net->spec, e))
        return;
    if (e[2] > 1 && !has_key(job->alg, "z"))
        return;
    p->x = e[0];
    p->y = e[1];
    p->z = e[2];
}

static void dln(struct pdl_coll_job *job, const struct pdl_net *net)
{
    struct pdl_coll_params *p = &job->params;
    int64_t switches = value_of(net->spec, "switches");
    int64_t q = value_of(net->spec, "q"), g = value_of(net->spec, "ranks");

    if (!has_key(job->alg, "q") || p->p || p->q || p->g ||
        job->nranks != net->nhosts)
        return;
    p->q = q ? q : switches > 0 ? coll_log2(switches) : 0;
    p->g = g;
}

/* Two GPUs share a port. */
static void dln_gpu(struct pdl_coll_job *job, const struct pdl_net *net)
{
    bool given = job->params.g != 0;

    dln(job, net);
    if (has_key(job->alg, "g") && !given && job->nranks == net->nhosts)
        job->params.g = 2;
}

static const struct {
    const char *topology;
    void (*suit)(struct pdl_coll_job *job, const struct pdl_net *net);
} rules[] = {
    {"torus", grid},
    {"full2d", grid},
    {"dln", dln},
    {"dln-gpu", dln_gpu},
};

void pdl_coll_suit(struct pdl_coll_job *job, const struct pdl_net *net)
{
    bool nodes = net->node > 0 && job->nranks % net->node == 0;
    size_t n = net->spec ? strcspn(net->spec, ":") : 0;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strlen(rules[i].topology) == n && n > 0 &&
            memcmp(rules[i].topology, net->spec, n) == 0)
            rules[i].suit(job, net);
    if (nodes && has_key(job->alg, "k") && !job->params.k)
        job->params.k = net->node;
}
