/* SPDX-License-Identifier: Apache-2.0
 *
 * How blocks are dealt to the stages of a point, and which of these are
 * alike. */
#include "oracle/search/point_kinds.h"

#include "oracle/search/blocks.h"

#include <string.h>

static enum pdl_status cut_blocks(struct oracle_block_plans *g, pdl_arena *keep,
                                  int64_t stages, const int64_t **out,
                                  struct pdl_err *err)
{
    int64_t *blocks = PDL_NEW(keep, int64_t, stages);
    enum pdl_status st = PDL_OK;

    if (!blocks)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!g->whole)
        st = pdl_plan_expand(g->arena, g->f->model, &g->whole, err);
    if (st == PDL_OK)
        st = pdl_plan_blocks(g->scratch, g->whole, stages, g->f->plan.split,
                             blocks, err);
    pdl_arena_reset(g->scratch);
    if (st == PDL_OK)
        *out = blocks;
    return st;
}

/* Blocks of each of so many stages (at most as many as blocks): those that all
 * threads of a search share, or its own. */
static enum pdl_status stage_blocks(struct oracle_block_plans *g,
                                    int64_t stages, const int64_t **out,
                                    struct pdl_err *err)
{
    struct oracle_cuts *c = g->f->cuts ? g->f->cuts : &g->cuts;
    enum pdl_status st = PDL_OK;

    pthread_mutex_lock(&c->lock);
    if (!c->blocks)
        c->blocks = PDL_NEW(c->arena, const int64_t *, g->f->layers + 1);
    if (!c->blocks)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    else if (!c->blocks[stages])
        st = cut_blocks(g, c->arena, stages, &c->blocks[stages], err);
    *out = st == PDL_OK ? c->blocks[stages] : NULL;
    pthread_mutex_unlock(&c->lock);
    return st;
}

static enum stage_place where_is(const struct pdl_tasks *p, int stage)
{
    int lane = pdl_schedule_lane(p->schedule, p->lanes, stage);

    if (stage == 0)
        return PLACE_FIRST;
    if (stage == p->nstages - 1)
        return PLACE_LAST;
    if (lane == pdl_schedule_lane(p->schedule, p->lanes, stage + 1))
        return PLACE_DOWN;
    return lane == pdl_schedule_lane(p->schedule, p->lanes, stage - 1)
               ? PLACE_UP
               : PLACE_MIDDLE;
}

/* -1: there are too many. */
static int kind_of(struct split *s, const struct kind *x, int ntensors)
{
    for (int i = 0; i < s->n; i++)
        if (s->kind[i].where == x->where && s->kind[i].blocks == x->blocks &&
            memcmp(s->kind[i].lane, x->lane, sizeof x->lane) == 0)
            return i;
    if (s->n == MAX_KINDS)
        return -1;
    s->kind[s->n] = *x;
    s->stage[s->n] = (struct step_stage){
        .blocks = x->blocks, .slots = 2 * (x->blocks + 1) * ntensors};
    return s->n++;
}

enum pdl_status oracle_split_stages(pdl_arena *a, struct oracle_block_plans *g,
                                    const struct oracle_family *f,
                                    const struct oracle_mesh *mesh,
                                    const struct pdl_tasks *p, struct split *s,
                                    struct pdl_err *err)
{
    const int64_t *blocks;
    enum pdl_status st;

    if (p->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (p->nstages > f->layers)
        return pdl_fail(err, PDL_EINVAL, "%d stages, but %lld blocks",
                        p->nstages, (long long)f->layers);
    s->of = PDL_NEW(a, int, p->nstages);
    s->in_flight = PDL_NEW(a, int64_t, p->nstages);
    s->full = PDL_NEW(a, int, p->lanes);
    st = s->of && s->in_flight && s->full
             ? stage_blocks(g, p->nstages, &blocks, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; st == PDL_OK && i < p->nstages; i++) {
        int l = i % p->lanes;
        int stage = pdl_schedule_stage(p->schedule, p->lanes, l, i / p->lanes);
        struct kind k = {.where = where_is(p, stage), .blocks = blocks[stage]};

        for (int kind = 0; kind < LANE_KINDS; kind++)
            k.lane[kind] = mesh->lanes[kind].of[l];
        s->of[i] = kind_of(s, &k, f->model->ntensors);
        if (s->of[i] < 0 || blocks[stage] < 1)
            st = pdl_fail(err, PDL_EINVAL, "too many kinds of stages");
    }
    /* interleaved stages take as many micro-batches as lanes at a time */
    s->enough = 3 * (int64_t)p->lanes + p->nstages;
    return st;
}
