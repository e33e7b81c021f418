/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tenth more of each resource would give: the plan is priced again on a
 * changed copy of the system. */
#include "oracle/answer/answer.h"

#include <math.h>
#include <string.h>

static const double MORE = 1.1;

/* Levels that some communication of the plan crosses; one that leaves a node
 * may do part of its work inside. */
static uint32_t used_levels(const struct oracle_why *w)
{
    uint32_t used = 0;

    for (int i = 0; i < w->p->nops; i++)
        if (w->price[i].level >= 0 && w->price[i].level < 32)
            used |= UINT32_C(1) << w->price[i].level | 1;
    return used;
}

static void faster_arithmetic(struct pdl_pe *pe)
{
    for (int i = 0; i < PDL_NPRECISIONS; i++) {
        pe->peak_flop_per_s[i] *= MORE;
        pe->matmul_flop_per_s[i] *= MORE;
    }
}

static void faster_memory(struct pdl_pe *pe)
{
    pe->memory_bytes_per_s *= MORE;
}

static void more_memory(struct pdl_pe *pe)
{
    pe->memory_bytes = (int64_t)((double)pe->memory_bytes * MORE);
}

/* PEs of every kind that the system has. */
static bool change_pes(const struct oracle_why *w,
                       void (*change)(struct pdl_pe *), struct pdl_system *out)
{
    int64_t n = w->sys->npe_groups;
    struct pdl_pe_group *groups =
        n > 0 ? PDL_NEW(w->arena, struct pdl_pe_group, n) : NULL;

    *out = *w->sys;
    change(&out->pe);
    if (n == 0)
        return true;
    if (!groups)
        return false;
    memcpy(groups, w->sys->pe_groups, (size_t)n * sizeof *groups);
    for (int64_t i = 0; i < n; i++)
        change(&groups[i].pe);
    out->pe_groups = groups;
    return true;
}

static void faster_storage(struct pdl_system *s)
{
    s->storage.bytes_per_s *= MORE;
    s->storage.node_bytes_per_s *= MORE;
    s->storage.latency_s /= MORE;
    s->storage.contention_s /= MORE;
    s->node.storage.bytes_per_s *= MORE;
    s->node.host.pcie_bytes_per_s *= MORE;
    s->node.host.out_bytes_per_s *= MORE;
}

/* A level lies in the list of levels; what overrides it there lies beside. */
static void faster_level(struct pdl_system *s, struct pdl_level *levels, int i,
                         bool latency)
{
    struct pdl_level *l = &levels[i];

    s->levels = levels;
    if (latency) {
        l->latency_s /= MORE;
        l->measured_latency_s /= MORE;
        if (i > 0)
            s->network.step_s /= MORE;
        return;
    }
    l->bytes_per_s *= MORE;
    l->measured_bytes_per_s *= MORE;
    l->flow_bytes_per_s *= MORE;
    if (i == 0)
        s->node.links.link_bytes_per_s *= MORE;
}

static enum pdl_status price_gain(const struct oracle_why *w,
                                  const char *resource,
                                  const struct pdl_system *better,
                                  struct pdl_explanation *out)
{
    struct pdl_gain *g = (struct pdl_gain *)&out->gains[out->ngains];
    struct pdl_projection y;
    enum pdl_status st = pdl_project(w->p, better, w->opt, &y, w->err);

    if (st != PDL_OK)
        return st;
    if (!resource)
        return pdl_fail(w->err, PDL_ENOMEM, "out of memory");
    *g = (struct pdl_gain){resource, MORE, y.step_s, y.feasible};
    out->ngains++;
    return PDL_OK;
}

static enum pdl_status price_levels(const struct oracle_why *w,
                                    struct pdl_explanation *out)
{
    uint32_t used = used_levels(w);
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < w->sys->nlevels && i < 32 && st == PDL_OK; i++)
        for (int latency = 0; latency < 2 && st == PDL_OK; latency++) {
            struct pdl_system better = *w->sys;
            struct pdl_level *levels;

            if (!(used >> i & 1))
                continue;
            levels = PDL_NEW(w->arena, struct pdl_level, better.nlevels);
            if (!levels)
                return pdl_fail(w->err, PDL_ENOMEM, "out of memory");
            memcpy(levels, better.levels,
                   (size_t)better.nlevels * sizeof *levels);
            faster_level(&better, levels, i, latency);
            st = price_gain(
                w,
                pdl_arena_printf(w->arena, "%s:%s",
                                 latency ? "latency" : "link", levels[i].name),
                &better, out);
        }
    return st;
}

/* What a PE may have more of. */
static const struct {
    const char *resource;
    void (*change)(struct pdl_pe *);
} of_pe[] = {
    {"flops", faster_arithmetic},
    {"memory_bw", faster_memory},
    {"memory", more_memory},
};
enum { NOF_PE = sizeof of_pe / sizeof of_pe[0] };

enum pdl_status oracle_find_gains(const struct oracle_why *w,
                                  struct pdl_explanation *out)
{
    struct pdl_system better;
    enum pdl_status st = PDL_OK;

    out->gains =
        PDL_NEW(w->arena, struct pdl_gain, NOF_PE + 1 + 2 * w->sys->nlevels);
    if (!out->gains)
        return pdl_fail(w->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < NOF_PE && st == PDL_OK; i++)
        st = change_pes(w, of_pe[i].change, &better)
                 ? price_gain(w, of_pe[i].resource, &better, out)
                 : pdl_fail(w->err, PDL_ENOMEM, "out of memory");
    better = *w->sys;
    faster_storage(&better);
    if (st == PDL_OK && w->x->io_s > 0)
        st = price_gain(w, "io", &better, out);
    return st == PDL_OK ? price_levels(w, out) : st;
}
