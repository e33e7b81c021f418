/* SPDX-License-Identifier: Apache-2.0
 *
 * Contention, shown. All groups of a collective run at the same time (the
 * plan is the same on every rank), so what leaves a node shares its adapters,
 * and what leaves a leaf or a rack its uplinks (wires.c). phi is what a byte
 * then costs over what it costs a flow that has them for itself: both prices
 * come from the one function that prices collectives, once with sharing and
 * once without. A layer's collective that runs beside an exchange of gradients
 * shares with it too; that is in the step's timeline (project.c), not here. */
#include "oracle/oracle_priv.h"

#include <string.h>

static bool in_update(const struct pdl_plan *p, int op)
{
    return op >= p->items[p->stages[0].first_update].first_op;
}

static int64_t members(const struct pdl_plan *p, uint32_t group)
{
    int64_t n = 1;

    for (int f = 0; f < p->mesh->nfactors; f++)
        if (group >> f & 1)
            n *= p->mesh->factor[f];
    return n;
}

/* Latencies, waits and copies apart: what the bytes alone take. */
static double bytes_seconds(const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt, int op,
                            uint32_t more)
{
    struct pdl_oracle_options bare = *opt;
    struct pdl_op_price price;

    bare.without |= UINT32_C(1) << ORACLE_LATENCY | UINT32_C(1) << ORACLE_SYNC |
                    UINT32_C(1) << ORACLE_TENSORS | more;
    pdl_price_op(plan, sys, &bare, op, &price);
    return price.seconds;
}

/* Adapters' worth of bytes that leave the block. */
static double uplinks(const struct pdl_system *sys,
                      const struct pdl_op_price *price)
{
    double nics = (double)sys->node.nics.count;
    const struct pdl_level *in = &sys->levels[price->at];
    int64_t nodes = in->pes / sys->node.pes;

    return price->level < 1 ? 0
           : price->at < 1  ? nics
                            : nics * (double)nodes / in[1].oversubscription;
}

static struct pdl_contention first_of(const struct pdl_plan *plan,
                                      const struct pdl_system *sys,
                                      const struct pdl_oracle_options *opt,
                                      int op, const struct pdl_op_price *price)
{
    double shared = bytes_seconds(plan, sys, opt, op, 0);
    double alone =
        bytes_seconds(plan, sys, opt, op, UINT32_C(1) << ORACLE_SHARING);

    return (struct pdl_contention){
        .op = op,
        .gradient = in_update(plan, op),
        .members = members(plan, plan->ops[op].group),
        .level = price->level,
        .at = price->at,
        .groups = price->flows,
        .adapters = uplinks(sys, price),
        .phi = alone > 0 && shared > alone ? shared / alone : 1,
    };
}

static struct pdl_contention *alike(struct pdl_contention *row, int n,
                                    const struct pdl_plan *plan, int op)
{
    const struct pdl_plan_op *x = &plan->ops[op];

    for (int i = 0; i < n; i++) {
        const struct pdl_plan_op *y = &plan->ops[row[i].op];

        if (y->kind == x->kind && y->group == x->group &&
            row[i].gradient == in_update(plan, op))
            return &row[i];
    }
    return NULL;
}

enum pdl_status pdl_contention(pdl_arena *a, const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct pdl_contentions *out, struct pdl_err *err)
{
    enum { MOST = 64 };
    struct pdl_contention *row = PDL_NEW(a, struct pdl_contention, MOST);
    struct pdl_op_price *prices =
        PDL_NEW(a, struct pdl_op_price, plan->nops + 1);
    int n = 0;

    if (!row || !prices)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (oracle_price_ops(plan, sys, opt, true, prices, err) != PDL_OK)
        return PDL_ENOMEM;
    for (int i = 0; i < plan->nops; i++) {
        struct pdl_contention *c;
        struct pdl_op_price price = prices[i];
        int64_t times = in_update(plan, i) ? 1 : plan->micro_batches;

        c = price.level >= 0 ? alike(row, n, plan, i) : NULL;
        if (!c && price.level >= 0 && n < MOST) {
            c = &row[n++];
            *c = first_of(plan, sys, opt, i, &price);
        }
        if (c) {
            c->count += times;
            c->seconds += (double)times * price.seconds;
        }
    }
    *out = (struct pdl_contentions){n, row};
    return PDL_OK;
}
