/* SPDX-License-Identifier: Apache-2.0
 *
 * Other orders of the axes in the mesh. The search over configurations has
 * tensor innermost and the pipeline outermost, as in Megatron-LM; which axis
 * lies inside nodes changes the price of every collective, but not what is
 * computed or held. So the best of the search are priced once more in other
 * orders, as whole plans: every order of up to three axes; of more, each axis
 * moved to any other place. Frameworks that want equal stages (Megatron-LM)
 * know one other order, with the data axis outermost.
 *
 * Limits: a plan that only another order would bring among the best is not
 * found. */
#include "oracle/search/space.h"

enum { ALL_ORDERS = 3, MOST_AXES = 8 };

struct orders {
    struct oracle_space *space;
    struct pdl_strategy s; /* with its axes in the order at hand */
};

static void write(struct orders *x)
{
    oracle_space_add(x->space, oracle_strategy_text(x->space->arena, &x->s));
}

/* From place `from` to place `to`; those between make room. */
static void move(struct pdl_clause *c, int from, int to)
{
    int step = from < to ? 1 : -1;

    for (int i = from; i != to; i += step) {
        struct pdl_term t = c->term[i];

        c->term[i] = c->term[i + step];
        c->term[i + step] = t;
    }
}

/* Every order of the axes from place k on; the first is the one given. */
static void every_order(struct orders *x, int k, bool given)
{
    struct pdl_clause *c = &x->s.clause[0];

    if (k + 1 >= c->nterms && !given)
        write(x);
    for (int i = k; k + 1 < c->nterms && i < c->nterms; i++) {
        move(c, i, k);
        every_order(x, k + 1, given && i == k);
        move(c, k, i);
    }
}

/* Neighbours change places once. */
static void every_move(struct orders *x)
{
    struct pdl_clause *c = &x->s.clause[0];

    for (int i = 0; i < c->nterms; i++)
        for (int k = 0; k < c->nterms; k++) {
            if (k == i || k == i - 1)
                continue;
            move(c, i, k);
            write(x);
            move(c, k, i);
        }
}

static void data_outermost(struct orders *x)
{
    struct pdl_clause *c = &x->s.clause[0];

    for (int i = 1; i < c->nterms; i++)
        if (c->term[i].axis == PDL_AXIS_DATA &&
            c->term[0].axis == PDL_AXIS_PIPE) {
            move(c, i, 0);
            write(x);
        }
}

enum pdl_status oracle_space_orders(struct oracle_space *s, const char *text,
                                    enum pdl_rank_orders orders,
                                    struct pdl_err *err)
{
    struct orders x = {.space = s};
    enum pdl_status st = pdl_strategy_parse(s->arena, text, &x.s, err);

    if (st != PDL_OK || x.s.nclauses != 1)
        return st;
    oracle_drop_ones(&x.s.clause[0]);
    if (x.s.clause[0].nterms > MOST_AXES)
        return PDL_OK;
    if (orders == PDL_ORDERS_DATA_FIRST)
        data_outermost(&x);
    else if (orders == PDL_ORDERS_FIXED)
        return PDL_OK;
    else if (x.s.clause[0].nterms <= ALL_ORDERS)
        every_order(&x, 0, true);
    else
        every_move(&x);
    return s->failed ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}
