/* SPDX-License-Identifier: Apache-2.0
 *
 * What a message is to the network, by the wire model.
 *
 * plain: the route's latency, then the bytes; links give all their capacity.
 * smpi: the model behind SimGrid's SMPI (Clauss et al., IPDPS 2011; factors
 * as SimGrid 3.19 ships them). Latency is multiplied and the rate bounded by
 * factors of the size, links give 97 %, and a flow takes 5 % of its rate from
 * the way back. Sends below 64 KiB are detached: the sender goes on.
 *
 * Weights. fair: 1. rtt: 1 / (latency + sum of weight_s / B), with the
 * latency as it is, before the factor; 1 without any latency, as SimGrid has
 * it (such a flow yields to all others on its links).
 *
 * rtt also compares times as SimGrid does (surf/precision, 1e-9 s by default
 * and under smpirun): what would come less than that after an instant comes
 * in it. Thousands of contended steps end nanoseconds earlier for it. Rounds,
 * where nothing is shared, keep exact times. */
#include "sim_priv.h"

#include <math.h>

static const struct factor {
    int64_t above;
    double latency, bandwidth;
} factors[] = {
    // clang-format off
    {65472, 11.6436, 0.940694},
    {15424, 3.48845, 0.697866},
    {9376,  2.59299, 0.58729 },
    {5776,  2.18796, 1.08739 },
    {3484,  1.88101, 0.77493 },
    {1426,  1.61075, 0.608902},
    {732,   1.9503,  0.341987},
    {257,   1.95341, 0.338112},
    {0,     2.01467, 0.812084},
    {-1,    1,       1       },
    // clang-format on
};

static const double smpi_capacity = 0.97, smpi_cross = 0.05;
static const double simgrid_precision_s = 1e-9;
enum { SMPI_DETACHED_BELOW = 65536 };

enum pdl_status net_model_init(struct net_model *m, pdl_arena *a,
                               const struct pdl_net *net,
                               const struct pdl_sim_config *config,
                               struct net_fold *fold, struct pdl_err *err)
{
    double part = config->wire == PDL_WIRE_SMPI ? smpi_capacity : 1;

    *m = (struct net_model){.net = net,
                            .config = config,
                            .fold = fold,
                            .nlinks = fold ? fold->nlinks : net->nlinks};
    if (config->share == PDL_SHARE_RTT)
        m->instant_s = config->precision_s != 0 ? config->precision_s
                                                : simgrid_precision_s;
    m->capacity = PDL_NEW(a, double, m->nlinks + 1);
    m->mark = PDL_NEW(a, int, m->nlinks + 1);
    if (!m->capacity || !m->mark)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", m->nlinks);
    for (int l = 0; l < m->nlinks; l++)
        m->capacity[l] =
            part * net->links[fold ? fold->first[l] : l].bytes_per_s;
    if (!net_by_message(net))
        return PDL_OK;
    m->least = PDL_NEW(a, struct net_least, 1);
    if (!m->least)
        return pdl_fail(err, PDL_ENOMEM, "no memory for adaptive routes");
    return net_least_init(m->least, a, net, config->seed, err);
}

bool net_model_detached(const struct net_model *m, int64_t bytes)
{
    return m->config->wire == PDL_WIRE_SMPI && bytes < SMPI_DETACHED_BELOW;
}

static const struct pdl_link *link_of(const struct net_model *m, int link)
{
    return &m->net->links[m->fold ? m->fold->first[link] : link];
}

static void use(const struct net_model *m, struct net_message *out, int link,
                double amount)
{
    int at = m->mark[link];

    if (link_of(m, link)->fatpipe)
        return; /* nobody else sees it */
    if (!at) {
        out->uses[out->nuses] = (struct pdl_maxmin_use){link, 0};
        out->times[out->nuses] = 0;
        at = m->mark[link] = ++out->nuses;
    }
    out->uses[at - 1].amount += amount;
}

/* How many of the flows that are one here a link carries of each; those of a
 * run in which flows do not see each other have it to themselves. */
static int shared_by(const struct net_model *m, int link)
{
    return m->fold && m->config->share != PDL_SHARE_NONE ? m->fold->times[link]
                                                         : 1;
}

/* Folded links in the place of links. */
static void fold_route(const struct net_model *m, const struct net_send *send,
                       struct net_message *out)
{
    struct net_fold *f = m->fold;

    for (int i = 0; i < f->nturns && m->net->tied; i++)
        if (m->net->tied(m->net, f->within[i], send->src, send->dst))
            f->broken = true;
    for (int i = 0; i < out->nlinks; i++)
        out->links[i] = f->link[out->links[i]];
}

/* The way back: along the same links where flows are spread, so that it is
 * the way there walked backwards. */
static int way_back(const struct net_model *m, const struct net_send *send,
                    const struct net_message *msg, int *back)
{
    if (m->net->spread == PDL_SPREAD_NONE)
        return pdl_net_route(m->net, send->dst, send->src, send->bytes, back);
    for (int i = 0; i < msg->nlinks; i++)
        back[i] = m->net->links[msg->links[msg->nlinks - 1 - i]].reverse;
    return msg->nlinks;
}

static void add_smpi(const struct net_model *m, const struct net_send *send,
                     double slowest, struct net_message *out)
{
    int back[PDL_MAX_ROUTE];
    int n = way_back(m, send, out, back);
    const struct factor *f = factors;

    while (send->bytes <= f->above)
        f++;
    out->latency_s *= f->latency;
    out->bound = f->bandwidth * slowest;
    for (int i = 0; i < n; i++)
        use(m, out, back[i], smpi_cross);
}

static int route_of(const struct net_model *m, const struct net_send *send,
                    int *links)
{
    if (m->least)
        return net_least_route(m->least, send->src, send->dst, links);
    if (m->net->path)
        return m->net->path(m->net, send->src, send->dst, send->flow, links);
    return pdl_net_route(m->net, send->src, send->dst, send->bytes, links);
}

void net_model_message(const struct net_model *m, const struct net_send *send,
                       struct net_message *out)
{
    double slowest = INFINITY, penalty = 0;
    double private = INFINITY; /* of links it has to itself */

    out->nlinks = route_of(m, send, out->links);
    out->nuses = 0;
    out->latency_s = out->bound = 0;
    if (m->fold)
        fold_route(m, send, out);
    for (int i = 0; i < out->nlinks; i++) {
        const struct pdl_link *l = link_of(m, out->links[i]);

        use(m, out, out->links[i], shared_by(m, out->links[i]));
        if (l->fatpipe)
        private = fmin(private, m->capacity[out->links[i]]);
        else out->times[m->mark[out->links[i]] - 1] +=
            m->fold ? m->fold->times[out->links[i]] : 1;
        out->latency_s += l->latency_s;
        penalty += m->config->weight_s / l->bytes_per_s;
        slowest = fmin(slowest, l->bytes_per_s);
    }
    penalty += out->latency_s;
    out->weight = m->config->share == PDL_SHARE_RTT && out->latency_s > 0
                      ? 1 / penalty
                      : 1;
    if (m->config->wire == PDL_WIRE_SMPI && out->nlinks > 0)
        add_smpi(m, send, slowest, out);
    if (private < INFINITY)
        out->bound = out->bound > 0 ? fmin(out->bound, private) : private;
    out->rate = out->bound > 0 ? out->bound : INFINITY;
    for (int i = 0; i < out->nuses; i++) {
        out->rate = fmin(out->rate,
                         m->capacity[out->uses[i].link] / out->uses[i].amount);
        m->mark[out->uses[i].link] = 0;
    }
}
