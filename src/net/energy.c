/* SPDX-License-Identifier: Apache-2.0
 *
 * Energy of links. A link draws idle + (peak - idle) * use / bandwidth from
 * its first message to the end, and nothing if it never carries one (the
 * model of Nguyen et al., CCPE 2021).
 *
 * integrate: the use integrates to the bytes carried, so the energy is exact
 * in closed form. plugin: as SimGrid's link energy plugin charges it: only
 * when a message starts or ends on the link, and then the whole time since
 * the last such moment at the use of this one. A busy link is so charged for
 * its messages' latencies too. */
#include "sim_priv.h"

static double use_of(const struct net_share *s, int link)
{
    const struct net_ref *refs =
        (const struct net_ref *)(const void *)s->refs.base +
        s->links[link].refs;
    double sum = 0;

    for (int i = 0; i < s->links[link].n; i++)
        sum += net_share_uses(s, refs[i].flow)[refs[i].use].amount *
               s->flows[refs[i].flow].rate;
    return sum;
}

static void charge(struct net_wire *w, int link, double until, double use)
{
    const struct pdl_link *l = &w->model.net->links[link];

    w->use[link].energy_j +=
        (until - w->sampled[link]) *
        (l->idle_w + (l->peak_w - l->idle_w) * use / l->bytes_per_s);
    w->sampled[link] = until;
}

void net_energy_sample(struct net_wire *w, int link)
{
    if (w->now > w->sampled[link])
        charge(w, link, w->now, use_of(&w->share, link));
}

double net_energy_finish(struct net_wire *w, double end_s)
{
    const struct pdl_net *net = w->model.net;
    enum pdl_energy mode = w->model.config->energy;
    double sum = 0;

    if (mode == PDL_ENERGY_OFF)
        return 0;
    for (int l = 0; l < net->nlinks; l++) {
        const struct pdl_link *link = &net->links[l];
        struct pdl_link_use *u = &w->use[l];

        if (u->first_s < 0)
            continue;
        if (mode == PDL_ENERGY_PLUGIN)
            charge(w, l, end_s, 0);
        else
            u->energy_j =
                link->idle_w * (end_s - u->first_s) +
                (link->peak_w - link->idle_w) * u->load / link->bytes_per_s;
        sum += u->energy_j;
    }
    return sum;
}
