/* SPDX-License-Identifier: Apache-2.0
 *
 * Small changes to decisions that a search has found: of one block, of two, as
 * long as one of them is faster. Searches keep few labels a block, and lose
 * what looks dear early and is cheap late. */
#include "karma_priv.h"

enum { MOST_RUNS = 60000 };

struct polish {
    const struct pdl_karma *k;
    struct pdl_karma_plan *p;
    int64_t runs;
};

/* Is it faster with these decisions? If not they are taken back. */
static bool faster(struct polish *w, int i, enum pdl_karma_choice ci, int j,
                   enum pdl_karma_choice cj)
{
    enum pdl_karma_choice *choice = w->p->choice;
    enum pdl_karma_choice was[2] = {choice[i], choice[j]};
    struct pdl_karma_step s;

    choice[j] = cj;
    choice[i] = ci;
    w->runs++;
    if (pdl_karma_run(w->k, w->p, NULL, &s, NULL) == PDL_OK && s.fits &&
        s.step_s < w->p->step.step_s * (1 - 1e-9)) {
        w->p->step = s;
        return true;
    }
    choice[i] = was[0];
    choice[j] = was[1];
    return false;
}

static bool is_new(const struct polish *w, int i, int c)
{
    return c != (int)w->p->choice[i] &&
           karma_may(w->k, i, (enum pdl_karma_choice)c);
}

static bool change_one(struct polish *w)
{
    bool any = false;

    for (int i = 0; i < w->k->nblocks; i++)
        for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
            any |= is_new(w, i, c) && faster(w, i, (enum pdl_karma_choice)c, i,
                                             (enum pdl_karma_choice)c);
    return any;
}

/* One gives memory, another takes it. */
static bool change_two(struct polish *w, int i, int j)
{
    for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
        for (int d = 0; d < PDL_KARMA_NCHOICES; d++)
            if (is_new(w, i, c) && is_new(w, j, d) &&
                faster(w, i, (enum pdl_karma_choice)c, j,
                       (enum pdl_karma_choice)d))
                return true;
    return false;
}

void pdl_karma_polish(const struct pdl_karma *k, struct pdl_karma_plan *p)
{
    struct polish w = {.k = k, .p = p};
    bool any = p->step.fits && !p->exact;

    while (any && w.runs < MOST_RUNS) {
        any = change_one(&w);
        for (int i = 0; i < k->nblocks; i++)
            for (int j = i + 1; j < k->nblocks && w.runs < MOST_RUNS; j++)
                any |= change_two(&w, i, j);
    }
}
