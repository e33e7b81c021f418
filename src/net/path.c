/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path: each rank carries the chain of messages that made it as
 * late as it is. A message starts when the later of its two ranks is ready,
 * so it goes on that one's chain. Sums are kept from the start, single steps
 * only the last PDL_PATH_STEPS of each chain: chains are shared like the
 * branches of a tree, and what no chain can reach within that many steps is
 * forgotten when room runs out. */
#include "sim_priv.h"

#include <math.h>

enum { NODES_MIN = 1 << 16 };

enum pdl_status net_path_init(struct net_path *p, pdl_arena *a, int nranks,
                              bool on, struct pdl_err *err)
{
    int64_t cap = (int64_t)nranks * 4 * PDL_PATH_STEPS;

    *p = (struct net_path){.on = on, .nranks = nranks};
    if (!on)
        return PDL_OK;
    cap = cap < NODES_MIN ? NODES_MIN : cap;
    if (cap > 1 << 27)
        return pdl_fail(err, PDL_EINVAL, "no critical path for %d ranks",
                        nranks);
    p->cap = (int)cap;
    p->nodes = PDL_NEW(a, struct net_path_node, cap);
    p->tips = PDL_NEW(a, int, nranks + 1);
    if (!p->nodes || !p->tips)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the critical path");
    for (int r = 0; r < nranks; r++)
        p->tips[r] = -1;
    return PDL_OK;
}

int net_path_add(struct net_path *p, int parent,
                 const struct pdl_path_step *step, double latency_s,
                 double wire_s)
{
    struct net_path_node *n = &p->nodes[p->n];

    *n = (struct net_path_node){.step = *step, .parent = parent};
    if (parent >= 0)
        n->sum = p->nodes[parent].sum;
    n->sum.messages++;
    n->sum.latency_s += latency_s;
    n->sum.wire_s += wire_s;
    n->sum.shared_s += step->end_s - step->start_s - latency_s - wire_s;
    return p->n++;
}

/* Marks the last steps of a chain with how many steps are asked of each. */
static void mark(const struct net_path *p, int *asked, int tip)
{
    for (int i = 0; i < PDL_PATH_STEPS && tip >= 0; i++) {
        int left = PDL_PATH_STEPS - i;

        if (asked[tip] >= left)
            return;
        asked[tip] = left;
        tip = p->nodes[tip].parent;
    }
}

void net_path_trim(struct net_path *p, int n, int **live, int nlive)
{
    int *asked, kept = 0;
    pdl_arena *scratch;

    if (!p->on || p->n + n <= p->cap)
        return;
    scratch = pdl_arena_create((size_t)p->n * sizeof *asked + 4096);
    asked = scratch ? PDL_NEW(scratch, int, p->n) : NULL;
    if (!asked) { /* give up the path, not the run */
        p->on = false;
        pdl_arena_destroy(scratch);
        return;
    }
    for (int r = 0; r < p->nranks; r++)
        mark(p, asked, p->tips[r]);
    for (int i = 0; i < nlive; i++)
        mark(p, asked, *live[i]);
    for (int i = 0; i < p->n; i++) {
        struct net_path_node node = p->nodes[i];

        if (asked[i] == 0)
            continue;
        /* a parent has a lower number; asked[] becomes the new number + 1 */
        node.parent = node.parent >= 0 ? asked[node.parent] - 1 : -1;
        p->nodes[kept] = node;
        asked[i] = ++kept;
    }
    for (int r = 0; r < p->nranks; r++)
        if (p->tips[r] >= 0)
            p->tips[r] = asked[p->tips[r]] - 1;
    for (int i = 0; i < nlive; i++)
        if (*live[i] >= 0)
            *live[i] = asked[*live[i]] - 1;
    p->n = kept;
    if (p->n + n > p->cap)
        p->on = false;
    pdl_arena_destroy(scratch);
}

enum pdl_status net_path_result(const struct net_path *p, pdl_arena *a,
                                int rank, struct pdl_path *out,
                                struct pdl_err *err)
{
    int n = 0, tip = p->on ? p->tips[rank] : -1;

    *out = (struct pdl_path){.nsteps = 0};
    if (tip < 0)
        return PDL_OK;
    out->messages = p->nodes[tip].sum.messages;
    out->latency_s = p->nodes[tip].sum.latency_s;
    out->wire_s = p->nodes[tip].sum.wire_s;
    out->shared_s = fmax(0, p->nodes[tip].sum.shared_s); /* but for rounding */
    for (int i = tip; i >= 0 && n < PDL_PATH_STEPS; i = p->nodes[i].parent)
        n++;
    out->steps = PDL_NEW(a, struct pdl_path_step, n);
    if (!out->steps)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the critical path");
    out->nsteps = n;
    while (n > 0) {
        out->steps[--n] = p->nodes[tip].step;
        tip = p->nodes[tip].parent;
    }
    return PDL_OK;
}
