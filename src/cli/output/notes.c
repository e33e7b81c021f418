/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reader of a projection should know beside its numbers: memory that is
 * filled further than projections of it are sure, and in which order the ranks
 * of a context axis have their positions. One sentence each. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

bool cli_memory_note(const struct pdl_projection *x, char *buf, size_t size)
{
    char peak[32], cap[32];

    buf[0] = '\0';
    if (!pdl_memory_tight(x))
        return false;
    snprintf(
        buf, size,
        "memory is nearly full, %s of %s; 4 of 5 measured runs were within "
        "%.1f %% of their projection, --headroom leaves room",
        pdl_unit_format((double)x->peak_bytes, PDL_UNIT_BYTES, peak,
                        sizeof peak),
        pdl_unit_format((double)x->capacity_bytes, PDL_UNIT_BYTES, cap,
                        sizeof cap),
        100 * PDL_MEMORY_ERROR);
    return true;
}

static int64_t context_of(const struct pdl_strategy *s)
{
    int64_t most = 1;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_CONTEXT &&
                s->clause[c].term[t].size[0] > most)
                most = s->clause[c].term[t].size[0];
    return most;
}

static bool is_causal(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (strcmp(m->nodes[i].op->name, "attention") == 0 &&
            m->nodes[i].attr.causal)
            return true;
    return false;
}

bool cli_order_note(const struct pdl_plan *p, char *buf, size_t size)
{
    int64_t n = context_of(p->strategy);

    buf[0] = '\0';
    if (n < 2 || p->strategy->context_kind == PDL_CONTEXT_A2A ||
        !is_causal(p->model))
        return false;
    if (p->deal.ranks > 1)
        snprintf(buf, size,
                 "context=%lld: positions in a zigzag, so that a causal mask "
                 "leaves all ranks as much work",
                 (long long)n);
    else
        snprintf(
            buf, size,
            "context=%lld: positions in their order, so that a causal mask "
            "leaves the last rank %.3g times the mean work of attention",
            (long long)n, 2 - 1 / (double)n);
    return true;
}
