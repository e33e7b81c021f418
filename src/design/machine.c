/* SPDX-License-Identifier: Apache-2.0
 *
 * From the text of a design to its machine: the system with its parameters,
 * as many nodes as it takes, and the levels of another network where one is
 * named. */
#include "design_priv.h"

#include <string.h>

/* Puts the design before a message. */
static enum pdl_status place(const struct pdl_design_text *t,
                             enum pdl_status st, struct pdl_err *err)
{
    struct pdl_err inner;

    if (!err || st == PDL_OK || st == PDL_ENOMEM)
        return st;
    inner = *err;
    pdl_say(err, "design '%.120s': %s", t->label, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

/* The network that is counted where none is named: a tree as tapered as the
 * described levels are. */
static const char *as_described(pdl_arena *a, const struct pdl_system *s)
{
    return pdl_arena_printf(a, "fat-tree:taper=%g",
                            s->levels[s->nlevels - 1].oversubscription);
}

static enum pdl_status join(pdl_arena *a, struct pdl_design_point *p,
                            struct pdl_err *err)
{
    const char *network = p->text->network;
    struct pdl_system *s = &p->sys;
    struct pdl_tier *tier;
    enum pdl_status st;

    if (!network && s->node.nics.count < 1)
        return PDL_OK; /* its PEs are joined without adapters */
    if (!network)
        network = as_described(a, s);
    st = network ? pdl_fabric_make(a, network, s, s->nodes, &p->fabric, err)
                 : pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    if (st != PDL_OK || !p->text->network)
        return st;
    tier = PDL_NEW(a, struct pdl_tier, p->fabric.ntiers + 1);
    if (!tier)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    memcpy(tier, p->fabric.tier, (size_t)p->fabric.ntiers * sizeof *tier);
    s->network.tiers = tier;
    s->network.ntiers = p->fabric.ntiers;
    s->network.topology = network;
    s->network.nparams = 0;
    s->ncollectives = 0; /* those were measured on another network */
    return pdl_system_update(a, s, err);
}

enum pdl_status design_machine(pdl_arena *a, struct pdl_design_point *p,
                               struct pdl_err *err)
{
    enum pdl_status st = pdl_system_open(a, p->text->system, &p->sys, err);
    struct pdl_system *s = &p->sys;

    if (st == PDL_OK && p->text->pes % s->node.pes != 0 &&
        p->text->pes > s->node.pes)
        st = pdl_fail(err, PDL_EINVAL,
                      "%lld PEs are no whole number of nodes of %lld",
                      (long long)p->text->pes, (long long)s->node.pes);
    if (st == PDL_OK) { /* exactly these nodes, no larger machine */
        s->built_nodes = 0;
        s->nodes = (p->text->pes + s->node.pes - 1) / s->node.pes;
        st = pdl_system_update(a, s, err);
    }
    if (st == PDL_OK)
        st = join(a, p, err);
    return place(p->text, st, err);
}
