/* SPDX-License-Identifier: Apache-2.0
 *
 * Earlier methods, written as decisions: what they would have chosen for the
 * same blocks, from what they knew. They decide by tensor or by layer; a block
 * here is what the caller says, so each is given its idea, not its code.
 *
 * vDNN decides by kind of layer, before it runs, whatever memory there is.
 * SuperNeurons knows kinds of layers and liveness; its cache of tensors moves
 * nothing while there is room. Both ask for one block ahead. Capuchin measures
 * a step: it swaps what it can find a time for that hides it, the rest by what
 * each tensor costs alone, and corrects how early it asks. */
#include "karma_priv.h"

#include <math.h>
#include <string.h>

static bool try_choice(const struct pdl_karma *k, struct pdl_karma_plan *p,
                       int i, enum pdl_karma_choice c)
{
    if (!karma_may(k, i, c))
        return false;
    p->choice[i] = c;
    return true;
}

static bool run(const struct pdl_karma *k, const struct pdl_karma_plan *p,
                struct pdl_karma_step *s)
{
    return pdl_karma_run(k, p, NULL, s, NULL) == PDL_OK;
}

static bool fits(const struct pdl_karma *k, const struct pdl_karma_plan *p)
{
    struct pdl_karma_step s;

    return run(k, p, &s) && s.fits;
}

/* ---- the same for all --- */

static void keep_all(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    (void)k;
    (void)p;
}

static void all(const struct pdl_karma *k, struct pdl_karma_plan *p,
                enum pdl_karma_choice c)
{
    for (int i = 0; i < k->nblocks; i++)
        try_choice(k, p, i, c);
}

static void recompute_all(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    all(k, p, PDL_KARMA_RECOMPUTE);
}

static void swap_all(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    all(k, p, PDL_KARMA_SWAP);
}

static void both_all(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    all(k, p, PDL_KARMA_RECOMPUTE);
    all(k, p, PDL_KARMA_BOTH);
}

/* ---- earlier methods --- */

static void vdnn_conv(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    for (int i = 0; i < k->nblocks; i++)
        if (k->block[i].heavy)
            try_choice(k, p, i, PDL_KARMA_SWAP);
}

/* Heavy blocks leave, light ones are made again, from the first block on until
 * the rest fits. */
static void super_neurons(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    for (int i = 0; i < k->nblocks && !fits(k, p); i++)
        if (!try_choice(
                k, p, i,
                k->block[i].heavy ? PDL_KARMA_SWAP : PDL_KARMA_RECOMPUTE))
            try_choice(k, p, i, PDL_KARMA_SWAP);
}

/* Swaps as long as a time to ask for them is found that hides them, the longest
 * time between uses first. */
static void swap_hidden(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    struct pdl_karma_step before, after;

    for (int i = 0; i < k->nblocks && run(k, p, &before) && !before.fits; i++)
        if (try_choice(k, p, i, PDL_KARMA_SWAP) &&
            (!run(k, p, &after) || after.step_s > before.step_s * (1 + 1e-9)))
            p->choice[i] = PDL_KARMA_KEEP;
}

/* What one way of a block costs for a byte, as measured alone: what is made
 * again its seconds, a copy that cannot hide its own, both ways. Infinite: it
 * gives none. */
static double price_of(const struct pdl_karma *k, int i,
                       enum pdl_karma_choice c)
{
    const struct pdl_karma_block *b = &k->block[i];
    const struct pdl_karma_left *l = karma_left(b, c);
    int64_t gives = b->left[PDL_KARMA_NOTHING].bytes - l->bytes;

    if (karma_moves(c))
        return l->bytes > 0 ? 1 / k->out_bytes_per_s + 1 / k->in_bytes_per_s
                            : INFINITY;
    return gives > 0 ? l->again_s / (double)gives : INFINITY;
}

/* The cheapest way of all that are left; false: none is. */
static bool evict(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    static const enum pdl_karma_choice ways[] = {
        PDL_KARMA_SWAP, PDL_KARMA_RECOMPUTE, PDL_KARMA_PART};
    double least = INFINITY;
    int best = -1, how = 0;

    for (int i = 0; i < k->nblocks; i++)
        for (int w = 0; w < 3; w++) {
            if (p->choice[i] != PDL_KARMA_KEEP || !karma_may(k, i, ways[w]) ||
                price_of(k, i, ways[w]) >= least)
                continue;
            least = price_of(k, i, ways[w]);
            best = i;
            how = w;
        }
    if (best >= 0)
        p->choice[best] = ways[how];
    return best >= 0;
}

static void capuchin(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    int last = k->most_ahead > 0 ? k->most_ahead : PDL_KARMA_AHEAD;
    int best = p->ahead;
    double least = INFINITY;
    struct pdl_karma_step s;

    swap_hidden(k, p);
    while (!fits(k, p) && evict(k, p))
        ;
    for (; p->ahead <= last; p->ahead++)
        if (run(k, p, &s) && s.fits && s.step_s < least) {
            least = s.step_s;
            best = p->ahead;
        }
    p->ahead = best;
}

static const struct pdl_karma_policy policies[] = {
    {"keep", "everything stays", true, keep_all},
    {"recompute", "Chen et al. 2016, every block", true, recompute_all},
    {"swap", "every block waits on the host", true, swap_all},
    {"both", "every block is made again from an input on the host", true,
     both_all},
    {"vdnn-all", "Rhu et al., MICRO 2016", false, swap_all},
    {"vdnn-conv", "Rhu et al., MICRO 2016: blocks with convolutions", false,
     vdnn_conv},
    {"superneurons", "Wang et al., PPoPP 2018", false, super_neurons},
    {"capuchin", "Peng et al., ASPLOS 2020", false, capuchin},
};

const struct pdl_karma_policy *pdl_karma_policy_at(int i)
{
    int n = (int)(sizeof policies / sizeof policies[0]);

    return i >= 0 && i < n ? &policies[i] : NULL;
}

enum pdl_status pdl_karma_follow(pdl_arena *a, const struct pdl_karma *k,
                                 const struct pdl_karma_policy *policy,
                                 struct pdl_karma_plan *out,
                                 struct pdl_err *err)
{
    struct pdl_karma_plan p = {.ahead = 1};
    enum pdl_status st;

    p.choice = PDL_NEW(a, enum pdl_karma_choice, k->nblocks + 1);
    p.host = PDL_NEW(a, bool, k->ngroups + 1);
    if (!p.choice || !p.host)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p.ahead = k->least_ahead > 1 ? k->least_ahead : 1;
    st = pdl_karma_run(k, &p, NULL, &p.step, err); /* are numbers good? */
    for (int all_host = 0; st == PDL_OK && all_host < 2; all_host++) {
        memset(p.choice, 0, (size_t)k->nblocks * sizeof *p.choice);
        for (int g = 0; g < k->ngroups; g++)
            p.host[g] = all_host;
        p.ahead = k->least_ahead > 1 ? k->least_ahead : 1;
        policy->decide(k, &p);
        st = pdl_karma_run(k, &p, NULL, &p.step, err);
        if (p.step.fits)
            break;
    }
    *out = p;
    return st;
}
