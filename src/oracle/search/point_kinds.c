/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stages of a point are alike. */
#include "oracle/search/point_kinds.h"

#include <string.h>

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
             ? oracle_stage_blocks(g, p->nstages, &blocks, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; st == PDL_OK && i < p->nstages; i++) {
        int l = i % p->lanes;
        int stage = pdl_schedule_stage(p->schedule, p->lanes, l, i / p->lanes);
        struct kind k = {.where = where_is(p, stage), .blocks = blocks[stage]};

        for (int kind = 0; kind < LANE_KINDS; kind++)
            k.lane[kind] = oracle_mesh_lane(mesh, l, (enum lane_kind)kind);
        s->of[i] = kind_of(s, &k, f->model->ntensors);
        if (s->of[i] < 0 || blocks[stage] < 1)
            st = pdl_fail(err, PDL_EINVAL, "too many kinds of stages");
    }
    /* interleaved stages take as many micro-batches as lanes at a time */
    s->enough = 3 * (int64_t)p->lanes + p->nstages;
    return st;
}
