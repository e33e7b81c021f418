/* SPDX-License-Identifier: Apache-2.0
 *
 * Independent flows, each with its own start: flow-completion times. */
#include "sim_priv.h"

#include <math.h>
#include <stdlib.h>

struct entry {
    double start_s;
    int flow;
};

static int by_start(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->flow < y->flow ? -1 : x->flow > y->flow;
}

static enum pdl_status check_flows(const struct pdl_net *net,
                                   const struct pdl_flow *flows, int nflows,
                                   struct pdl_err *err)
{
    for (int i = 0; i < nflows; i++) {
        const struct pdl_flow *f = &flows[i];

        if (f->src < 0 || f->src >= net->nhosts || f->dst < 0 ||
            f->dst >= net->nhosts)
            return pdl_fail(err, PDL_EINVAL,
                            "flow %d goes from host %d to %d of %d", i, f->src,
                            f->dst, net->nhosts);
        if (f->bytes < 0 || !(f->start_s >= 0) || !isfinite(f->start_s))
            return pdl_fail(err, PDL_EINVAL,
                            "flow %d has %lld bytes and starts at %g s", i,
                            (long long)f->bytes, f->start_s);
    }
    return PDL_OK;
}

struct run {
    struct net_wire wire;
    const struct pdl_flow *flows;
    const struct entry *order;
    int nflows, next;
    int *flow_of; /* slot -> flow */
    int nslots;
    double *finish_s, end_s;
};

static bool note(struct run *r, int slot, int flow)
{
    if (slot >= r->nslots) {
        r->flow_of =
            pdl_arena_grow(r->wire.arena, r->flow_of, (size_t)r->nslots,
                           (size_t)r->wire.nslots, sizeof *r->flow_of);
        if (!r->flow_of)
            return false;
        r->nslots = r->wire.nslots;
    }
    r->flow_of[slot] = flow;
    return true;
}

/* Starts what starts in this instant. */
static bool start(struct run *r)
{
    double until = r->wire.now + r->wire.now * NET_SAME_INSTANT;

    while (r->next < r->nflows && r->order[r->next].start_s <= until) {
        int i = r->order[r->next++].flow;
        struct net_send send = {r->flows[i].src, r->flows[i].dst,
                                r->flows[i].bytes,
                                (uint64_t)i ^ r->wire.model.config->seed};
        int slot = net_wire_start(&r->wire, &send);

        if (r->wire.failed)
            return false;
        if (slot == NET_WIRE_INSTANT)
            r->finish_s[i] = r->wire.now;
        else if (!note(r, slot, i))
            return false;
    }
    return true;
}

static enum pdl_status run_flows(struct run *r, struct pdl_err *err)
{
    const struct pdl_sim_config *config = r->wire.model.config;

    for (int64_t event = 0;; event++) {
        double t = net_wire_next(&r->wire);

        if (r->next < r->nflows)
            t = fmin(t, fmax(r->order[r->next].start_s, r->wire.now));
        if (!(t < INFINITY))
            return PDL_OK;
        net_wire_go(&r->wire, t);
        for (int i = 0; i < r->wire.ndone; i++)
            r->finish_s[r->flow_of[r->wire.done[i]]] = t;
        r->end_s = t;
        if (!start(r))
            return pdl_fail(err, PDL_ENOMEM, "no memory for %d flows",
                            r->nflows);
        net_wire_share(&r->wire);
        if (r->wire.failed)
            return pdl_fail(err, PDL_ENOMEM, "no memory for %d flows",
                            r->nflows);
        if (event % 64 == 0 && config->progress)
            config->progress(config->progress_ctx, event);
        if (config->interrupt && *config->interrupt)
            return pdl_fail(err, PDL_EINTR, "interrupted at %g s", t);
    }
}

static enum pdl_status prepare(struct run *r, pdl_arena *scratch,
                               struct pdl_err *err)
{
    struct entry *order = PDL_NEW(scratch, struct entry, r->nflows + 1);

    if (!order)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d flows", r->nflows);
    for (int i = 0; i < r->nflows; i++)
        order[i] = (struct entry){
            fmax(r->flows[i].start_s, r->wire.model.net->setup_s), i};
    qsort(order, (size_t)r->nflows, sizeof *order, by_start);
    r->order = order;
    return PDL_OK;
}

enum pdl_status pdl_sim_flows(pdl_arena *a, const struct pdl_net *net,
                              const struct pdl_flow *flows, int nflows,
                              const struct pdl_sim_config *config,
                              double *finish_s, struct pdl_sim_result *out,
                              struct pdl_err *err)
{
    struct pdl_sim_config zero = {.share = PDL_SHARE_FAIR};
    const struct pdl_sim_config *c = config ? config : &zero;
    struct run r = {.flows = flows, .nflows = nflows, .finish_s = finish_s};
    struct pdl_sim_result result = {.max_link = -1};
    double wall = pdl_clock_s();
    pdl_arena *scratch = NULL;
    enum pdl_status st = check_flows(net, flows, nflows, err);

    if (st != PDL_OK)
        return st;
    scratch =
        pdl_arena_create(c->memory_limit ? c->memory_limit : (size_t)8 << 30);
    if (!scratch)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d flows", nflows);
    st = net_wire_init(&r.wire, scratch, net, c, NULL, err);
    if (st == PDL_OK)
        st = prepare(&r, scratch, err);
    if (st == PDL_OK)
        st = run_flows(&r, err);
    if (st == PDL_OK && out)
        st = net_result(a, &r.wire, r.end_s, &result, err);
    pdl_arena_destroy(scratch);
    if (st != PDL_OK || !out)
        return st;
    result.wall_s = pdl_clock_s() - wall;
    *out = result;
    return PDL_OK;
}
