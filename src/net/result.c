/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read off the wire after a run: totals, the busiest link, energy,
 * the timeline; copied out of the scratch into the caller's arena. */
#include "sim_priv.h"

#include <math.h>
#include <string.h>

/* Cuts the timeline to at most n buckets that end with the run. */
static enum pdl_status copy_timeline(pdl_arena *a, const struct net_wire *w,
                                     struct pdl_sim_result *out,
                                     struct pdl_err *err)
{
    const struct net_timeline *t = &w->timeline;
    double all = 0, buckets = t->n > 0 ? ceil(out->time_s / t->width) : 0;
    int n = buckets < t->n ? (int)buckets : t->n;

    if (n < 1)
        return PDL_OK;
    out->timeline = PDL_NEW(a, double, n);
    if (!out->timeline)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d buckets", n);
    for (int l = 0; l < w->model.net->nlinks; l++)
        all += w->model.net->links[l].bytes_per_s;
    for (int i = 0; i < n; i++)
        out->timeline[i] = t->bytes[i] / (all * t->width);
    out->ntimeline = n;
    out->timeline_s = t->width;
    return PDL_OK;
}

enum pdl_status net_result(pdl_arena *a, struct net_wire *w, double end_s,
                           struct pdl_sim_result *out, struct pdl_err *err)
{
    int nlinks = w->model.net->nlinks;
    struct pdl_link_use *links = NULL;

    out->time_s = end_s;
    out->messages = w->messages;
    out->bytes_on_wire = w->bytes_on_wire;
    out->max_link_bytes = 0;
    out->max_link = -1;
    out->solves = w->share.solves;
    out->energy_j = net_energy_finish(w, end_s);
    for (int l = 0; l < nlinks; l++)
        if (w->use[l].bytes > out->max_link_bytes) {
            out->max_link_bytes = w->use[l].bytes;
            out->max_link = l;
        }
    if (w->model.config->links) {
        links = PDL_NEW(a, struct pdl_link_use, nlinks + 1);
        if (!links)
            return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", nlinks);
        memcpy(links, w->use, (size_t)nlinks * sizeof *links);
    }
    out->links = links;
    return copy_timeline(a, w, out, err);
}
