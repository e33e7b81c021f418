/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines by event simulation of their schedule. A PE (a lane of the
 * pipeline) runs its tasks in a fixed order; a forward waits for the stage
 * before, a backward for the one after. With interleaving (Narayanan et al.,
 * SC 2021) a lane has several stages: stage s lies on lane s mod p, and lanes
 * take p micro-batches through one stage before they turn to the next.
 *
 * The orders differ in how many forwards a lane runs before its first
 * backward: GPipe all, 1F1B as many as there are lanes from here on,
 * interleaved twice as many as lanes follow and p for each stage but the
 * last; then forwards and backwards alternate. */
#include "oracle_priv.h"

struct pipe {
    const double *seconds[2]; /* forward, backward, of each stage */
    int64_t stages, lanes, chunks, micro;
    double *done; /* [pass][stage][micro]; < 0: not yet */
    const struct oracle *o;
};

struct task {
    bool back;
    int64_t stage, micro;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Forwards of a lane before its first backward. */
static int64_t warm_up(const struct oracle *o, int64_t lane)
{
    int64_t p = o->p->lanes, v = o->p->nstages / p;
    int64_t all = o->p->micro_batches * v;

    if (o->p->strategy->schedule == PDL_SCHEDULE_GPIPE)
        return all;
    return v == 1 ? min64(all, p - lane)
                  : min64(all, 2 * (p - 1 - lane) + (v - 1) * p + 1);
}

/* The k-th forward of a lane, or (chunks backwards) its k-th backward. */
static struct task nth(int64_t lanes, int64_t chunks, int64_t lane, int64_t k,
                       bool back)
{
    int64_t chunk = k / lanes % chunks;

    if (back)
        chunk = chunks - 1 - chunk;
    return (struct task){back, chunk * lanes + lane,
                         k / (lanes * chunks) * lanes + k % lanes};
}

/* After the warm-up: backward, forward, ... then the rest backward. */
static struct task task(const struct pipe *p, int64_t lane, int64_t k)
{
    int64_t warm = warm_up(p->o, lane), all = p->micro * p->chunks, j;

    if (k < warm)
        return nth(p->lanes, p->chunks, lane, k, false);
    j = k - warm;
    if (j < 2 * (all - warm))
        return nth(p->lanes, p->chunks, lane, j % 2 ? warm + j / 2 : j / 2,
                   j % 2 == 0);
    return nth(p->lanes, p->chunks, lane, j - (all - warm), true);
}

static double *when(const struct pipe *p, int pass, int64_t stage,
                    int64_t micro)
{
    return &p->done[(pass * p->stages + stage) * p->micro + micro];
}

/* Runs the lane's next task if what it waits for is done. */
static bool advance(struct pipe *p, int64_t lane, int64_t *next,
                    double *free_at)
{
    struct task t;
    double ready = 0;

    if (*next == 2 * p->micro * p->chunks)
        return false;
    t = task(p, lane, *next);
    if (!t.back && t.stage > 0)
        ready = *when(p, 0, t.stage - 1, t.micro);
    if (t.back)
        ready = t.stage < p->stages - 1 ? *when(p, 1, t.stage + 1, t.micro)
                                        : *when(p, 0, t.stage, t.micro);
    if (ready < 0)
        return false;
    if (*free_at > ready)
        ready = *free_at;
    *free_at = ready + p->seconds[t.back][t.stage];
    *when(p, t.back, t.stage, t.micro) = *free_at;
    ++*next;
    return true;
}

double oracle_makespan(const struct oracle *o, const double *forward,
                       const double *backward)
{
    struct pipe p = {.seconds = {forward, backward},
                     .stages = o->p->nstages,
                     .lanes = o->p->lanes,
                     .chunks = o->p->nstages / o->p->lanes,
                     .micro = o->p->micro_batches,
                     .o = o};
    int64_t *next = PDL_NEW(o->arena, int64_t, p.lanes);
    double *free_at = PDL_NEW(o->arena, double, p.lanes), end = 0;
    bool moved = true;

    p.done = o->record ? o->record->done
                       : PDL_NEW(o->arena, double, 2 * p.stages * p.micro);
    if (!p.done || !next || !free_at)
        return -1;
    for (int64_t i = 0; i < 2 * p.stages * p.micro; i++)
        p.done[i] = -1;
    while (moved) {
        moved = false;
        for (int64_t l = 0; l < p.lanes; l++)
            while (advance(&p, l, &next[l], &free_at[l]))
                moved = true;
    }
    for (int64_t l = 0; l < p.lanes; l++) {
        end = free_at[l] > end ? free_at[l] : end;
        if (next[l] != 2 * p.micro * p.chunks)
            return -1; /* the order itself waits for ever */
    }
    return end;
}

int64_t oracle_in_flight(const struct oracle *o, int stage)
{
    int64_t p = o->p->lanes, v = o->p->nstages / p, n = 0, warm;

    if (o->p->nstages == 1)
        return 1; /* accumulation: one after the other */
    warm = warm_up(o, stage % p);
    for (int64_t k = 0; k < warm; k++)
        n += nth(p, v, stage % p, k, false).stage == stage;
    return n;
}
