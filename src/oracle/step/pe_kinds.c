/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines with PEs of several kinds (pe_groups of a system). A stage of a
 * pipeline runs as fast as the slowest PE it has; its prices are those of that
 * PE, and the cut of the network into stages weighs their speeds. Memory is
 * that of the smallest PE in use, the peak rate the mean of all. Without
 * pipelines every rank gets the same share, so the slowest PE sets the pace. */
#include "oracle/oracle_priv.h"

static double rate(const struct pdl_pe *pe, enum pdl_precision p)
{
    return pdl_pe_matmul_rate(pe, p, 1);
}

static const struct pdl_pe *pe_of_rank(const struct oracle *o, int64_t rank)
{
    int64_t node = rank / o->sys->node.pes;

    return pdl_system_pe(o->sys, o->opt->nodes ? o->opt->nodes[node] : node);
}

/* The slowest PE of a lane. */
static const struct pdl_pe *slowest(const struct oracle *o, int lane)
{
    const struct pdl_pe *worst = NULL;

    for (int64_t r = 0; r < o->p->mesh->pes; r++) {
        const struct pdl_pe *pe = pe_of_rank(o, r);

        if (pdl_plan_rank_lane(o->p, r) == lane &&
            (!worst ||
             rate(pe, o->opt->precision) < rate(worst, o->opt->precision)))
            worst = pe;
    }
    return worst;
}

const struct oracle *oracle_on_stage(const struct oracle *o, int stage,
                                     struct oracle_lane *own)
{
    const struct pdl_pe *pe;

    if (o->sys->npe_groups == 0)
        return o;
    pe = slowest(o, pdl_plan_lane(o->p, stage));
    own->o = *o;
    own->sys = *o->sys;
    own->sys.pe = pe ? *pe : o->sys->pe;
    own->o.sys = &own->sys;
    oracle_settle(&own->o, &own->changed);
    return &own->o;
}

double oracle_peak(const struct oracle *o)
{
    double sum = 0;

    if (o->sys->npe_groups == 0)
        return o->sys->pe.peak_flop_per_s[o->opt->precision];
    for (int64_t r = 0; r < o->p->mesh->pes; r++)
        sum += pe_of_rank(o, r)->peak_flop_per_s[o->opt->precision];
    return sum / (double)o->p->mesh->pes;
}

static int64_t usable(const struct pdl_pe *pe)
{
    return (int64_t)((double)pe->memory_bytes *
                     (pe->memory_usable > 0 ? pe->memory_usable : 1));
}

int64_t oracle_capacity(const struct oracle *o)
{
    int64_t least = usable(&o->sys->pe);

    for (int64_t r = 0; o->sys->npe_groups > 0 && r < o->p->mesh->pes; r++) {
        int64_t n = usable(pe_of_rank(o, r));

        least = r == 0 || n < least ? n : least;
    }
    return (int64_t)((double)least * (1 - o->opt->headroom));
}

enum pdl_status pdl_speeds(pdl_arena *a, const struct pdl_system *sys,
                           enum pdl_precision precision,
                           struct pdl_plan_options *out, struct pdl_err *err)
{
    struct pdl_speed *list;

    if (sys->npe_groups == 0)
        return PDL_OK;
    list = PDL_NEW(a, struct pdl_speed, sys->npe_groups + 1);
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < sys->npe_groups; i++)
        list[i] = (struct pdl_speed){sys->pe_groups[i].nodes * sys->node.pes,
                                     rate(&sys->pe_groups[i].pe, precision)};
    list[sys->npe_groups] =
        (struct pdl_speed){INT64_MAX, rate(&sys->pe, precision)};
    for (int64_t i = 0; i <= sys->npe_groups; i++)
        if (!(list[i].speed > 0))
            return pdl_fail(
                err, PDL_EINVAL, "%s has no %s arithmetic",
                i < sys->npe_groups ? sys->pe_groups[i].pe.name : sys->pe.name,
                pdl_precision_name(precision));
    out->speeds = list;
    out->nspeeds = (int)sys->npe_groups + 1;
    return PDL_OK;
}
