/* SPDX-License-Identifier: Apache-2.0
 *
 * The bill of materials of a design, and what it costs and draws: ports,
 * cables and optics by their rate. Racks are filled up to what they can draw,
 * switches go into racks of their own. */
#include "design_priv.h"

#include "paradl/net.h"

#include <math.h>

enum { SWITCHES_PER_RACK = 32 };
#define NET_MEMORY ((size_t)8 << 30)

static enum pdl_status count_network(const struct pdl_fabric *fabric,
                                     int64_t sites, struct pdl_materials *m,
                                     struct pdl_err *err)
{
    pdl_arena *scratch = pdl_arena_create(NET_MEMORY);
    const struct pdl_net *net = NULL;
    struct pdl_net_bill b = {.hosts = 0};
    int64_t planes = fabric->planes * sites;
    enum pdl_status st = scratch
                             ? pdl_net_make(scratch, fabric->spec, &net, err)
                             : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = pdl_net_bill(scratch, net, &b, err);
    pdl_arena_destroy(scratch);
    m->planes = fabric->planes;
    m->link_bytes_per_s = fabric->link_bytes_per_s;
    m->switches = b.switches * planes;
    /* without switches the nodes themselves pass messages on */
    m->ports = (b.switches > 0 ? b.ports : b.host_ports) * planes;
    m->near_cables = b.near_cables * planes;
    m->far_cables = b.far_cables * planes;
    m->optics = 2 * m->far_cables;
    m->near_m = b.near_m * (double)planes;
    m->far_m = b.far_m * (double)planes;
    m->longest_m = b.longest_m;
    return st;
}

/* Of a node that waits; peak where idle is not known. */
static double idle_w(const struct pdl_system *s)
{
    double pe = s->pe.idle_w > 0 ? s->pe.idle_w : s->pe.peak_w;

    return pe * (double)s->node.pes +
           (s->node.idle_w > 0 ? s->node.idle_w : s->node.peak_w);
}

enum pdl_status design_count(const struct pdl_question *q,
                             struct pdl_design_point *p, struct pdl_err *err)
{
    const struct pdl_system *s = &p->sys;
    struct pdl_materials *m = &p->bill;
    double node_w = s->pe.peak_w * (double)s->node.pes + s->node.peak_w;
    int64_t nodes = s->nodes * p->jobs, all;

    *m = (struct pdl_materials){
        .nodes = nodes,
        .spare_nodes = (int64_t)ceil(p->text->spares * (double)nodes)};
    if (!(s->pe.peak_w > 0)) {
        pdl_fail(err, PDL_EINVAL, "%s does not say the power of its %s",
                 s->name, s->pe.name);
        pdl_hint(err, "set: {pe.peak_power: 700W}");
        return PDL_EINVAL;
    }
    all = m->nodes + m->spare_nodes;
    m->nodes_w = node_w * (double)all;
    m->spares_w = idle_w(s) * (double)m->spare_nodes;
    m->racks = node_w > q->rack_w
                   ? all * (int64_t)ceil(node_w / q->rack_w)
                   : (int64_t)ceil((double)all / floor(q->rack_w / node_w));
    if (p->fabric.spec) {
        enum pdl_status st = count_network(
            &p->fabric, p->text->sites > 1 ? p->text->sites : 1, m, err);

        if (st != PDL_OK)
            return st;
    }
    m->racks += (m->switches + SWITCHES_PER_RACK - 1) / SWITCHES_PER_RACK;
    return PDL_OK;
}

/* What a node costs, in the mean of the kinds. */
static double nodes_of(const struct design_items *n, const double *value)
{
    double sum = 0, nodes = 0;

    for (int i = 0; i < n->nkinds; i++) {
        const struct design_kind *k = &n->kind[i];

        sum += (double)k->nodes *
               (design_value(k->at, DESIGN_NODE, value) +
                design_value(k->at, DESIGN_PE, value) * (double)k->pes +
                design_value(k->at, DESIGN_HOST, value) +
                design_value(k->at, DESIGN_NIC, value) * k->nic_gb);
        nodes += (double)k->nodes;
    }
    return sum / nodes;
}

void design_bill(const struct pdl_question *q, const struct design_items *n,
                 const double *value, struct pdl_materials *m)
{
#define V(i) design_value(n->at, i, value)
    double gb = m->link_bytes_per_s / 1e9;

    m->network_w = (double)m->ports * gb * V(DESIGN_SWITCH_W) +
                   (double)m->optics * gb * V(DESIGN_OPTIC_W);
    m->facility_w = V(DESIGN_PUE) * (m->nodes_w + m->network_w);
    if (q->rent)
        return;
    m->nodes_cost = nodes_of(n, value) * (double)(m->nodes + m->spare_nodes);
    m->switch_cost = (double)m->ports * gb * V(DESIGN_SWITCH);
    m->cable_cost = (double)m->optics * gb * V(DESIGN_OPTIC) +
                    (double)m->near_cables * gb * V(DESIGN_COPPER) +
                    m->far_m * V(DESIGN_FIBRE);
    m->rack_cost = (double)m->racks * V(DESIGN_RACK);
    m->facility_cost = (m->nodes_w + m->network_w) / 1e3 * V(DESIGN_FACILITY);
    m->capital = m->nodes_cost + m->switch_cost + m->cable_cost + m->rack_cost;
#undef V
}
