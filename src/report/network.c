/* SPDX-License-Identifier: Apache-2.0
 *
 * A section with a network drawn from its description and the heat that was
 * measured on it. The description comes from a file, so it may ask for
 * anything: memory is bounded, and files it names are not opened. */
#include "report_priv.h"

#include <string.h>

static void say(struct pdl_sink *out, const struct report_graph *g,
                const struct report_heat *heat, const struct pdl_net *net)
{
    report_para(out, "%d hosts, %d switches, %d links%s%s.", net->nhosts,
                net->nswitches, net->nlinks, heat->bytes ? "; heat: " : "",
                heat->bytes ? heat->what : "");
    if (g->nv < g->of && g->layout == REPORT_CIRCLE &&
        strncmp(g->v[0].name, "block", 5) == 0)
        report_para(out,
                    "Drawn coarse: %d vertices are too many, so each square "
                    "stands for up to %lld neighbouring ones; its links are "
                    "as hot as the hottest of them.",
                    g->of, (long long)g->v[0].many);
    else if (g->nv < g->of)
        report_para(out,
                    "Drawn coarse: %d vertices are too many, so each switch "
                    "stands for the hosts on it too.",
                    g->of);
}

static bool draw(pdl_arena *scratch, struct pdl_sink *out, const char *id,
                 const struct report_heat *heat, struct pdl_err *err)
{
    const struct pdl_net *net = NULL;
    struct report_graph g;
    bool known;

    if (strstr(heat->topology, ".xml"))
        return pdl_fail(err, PDL_EINVAL, "networks from files are not drawn"),
               false;
    if (pdl_net_make(scratch, heat->topology, &net, err) != PDL_OK)
        return false;
    known = heat->bytes && heat->nbytes >= net->nlinks;
    if (report_graph_make(scratch, net, known ? heat->bytes : NULL,
                          heat->time_s, &g, err) != PDL_OK)
        return false;
    report_layout(&g);
    say(out, &g, heat, net);
    report_graph_draw(out, id, heat->topology, &g);
    return true;
}

void report_network(struct pdl_sink *out, const char *id,
                    const struct report_heat *heat)
{
    enum { LIMIT = 64 << 20 };
    pdl_arena *scratch = pdl_arena_create(LIMIT);
    struct pdl_err err = {"no memory", ""};

    if (!scratch || !draw(scratch, out, id, heat, &err))
        report_para(out, "Not drawn: %s.", err.msg);
    pdl_arena_destroy(scratch);
}
