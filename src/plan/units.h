/* The units of a rolled plan: which tensors and operations are of which, and
 * where the same ones of the next unit are. */
#ifndef PLAN_UNITS_H
#define PLAN_UNITS_H

#include "plan_priv.h"

struct plan_units {
    const struct pdl_plan *p;
    const struct pdl_plan_roll *roll;
    int per;       /* units of a group: 2 width + 1 */
    int *of_round; /* of each round written: group * per + place; -1: none */
    int nrounds;
    /* the unit of each (-1: none), and the way to the same of the next */
    int *tensor, *op, *fallback;
    int *tensor_step, *op_step, *fallback_step;
    /* nodes and tensors of the short network that are of one round, and the
     * first of the first round */
    int nodes, tensors, first_node, first_tensor;
};

/* Finds them; false: they are not where they should be (*err untouched), or
 * there is no memory. */
bool plan_units_make(pdl_arena *a, const struct pdl_plan *p,
                     const struct pdl_plan_roll *roll, struct plan_units *u);
/* The same in steps: how long rounds are; of which unit each is. */
void plan_units_measure(struct plan_units *u);
bool plan_units_rounds(pdl_arena *a, struct plan_units *u);
/* Are all units of a group alike, and is the middle one read in ways that can
 * be repeated? */
bool plan_units_alike(const struct plan_units *u);

/* Does each item that repeats, and no other, have the middle unit? */
bool plan_units_items(const struct plan_units *u);

static inline int plan_unit_group(const struct plan_units *u, int unit)
{
    return unit < 0 ? -1 : unit / u->per;
}

/* 0 .. 2 width; the middle one is repeated. */
static inline int plan_unit_place(const struct plan_units *u, int unit)
{
    return unit < 0 ? -1 : unit % u->per;
}

static inline bool plan_unit_repeats(const struct plan_units *u, int unit)
{
    return plan_unit_place(u, unit) == u->roll->width;
}

/* Operands [k, k + n) of a list are the middle unit's, with the same of all
 * other units on both sides. Returns n, or 0; *up: in the order of rounds. */
int plan_unit_gathers(const struct plan_units *u, const int *ids, int nids,
                      int k, bool *up);
/* A name so many units later: numbers that are others in the next unit's name
 * are those of rounds. NULL: they differ in more. */
const char *plan_unit_name(pdl_arena *a, const struct plan_units *u,
                           const char *name, const char *next, int64_t later);
bool plan_unit_has_node(const struct plan_units *u, int node);
bool plan_unit_has_tensor(const struct plan_units *u, int tensor);

#endif
