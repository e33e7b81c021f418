/* Shared by the files of the static checker. */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include "plan_priv.h"

struct plan_check {
    const struct pdl_plan *p;
    pdl_arena *arena;
    struct pdl_err *err;
    unsigned char *life;
    int *forward; /* of each node: its first forward operation, -1: none */
    int op;       /* being looked at */
};

/* Says what is wrong with the operation at hand. */
enum pdl_status plan_check_bad(struct plan_check *c, const char *what);
#define BAD(c, what) plan_check_bad(c, what)

static inline const struct pdl_plan_tensor *
plan_check_tensor(const struct plan_check *c, int t)
{
    return &c->p->tensors[t];
}
/* The placement of a tensor along factor f. */
static inline int plan_check_at(const struct plan_check *c, int t, int f)
{
    return c->p->tensors[t].place.at[f];
}
/* Does factor f cut both in the same way? */
bool plan_check_alike(const struct plan_check *c, int a, int b, int f);
/* The items an index has in this operand: its extent in units of its split. */
int64_t plan_check_items(const struct plan_check *c, int t, int d);

/* check_moves.c, check_operators.c */
enum pdl_status plan_check_collective(struct plan_check *c,
                                      const struct pdl_plan_op *o);
enum pdl_status plan_check_copy(struct plan_check *c,
                                const struct pdl_plan_op *o);
enum pdl_status plan_check_operator(struct plan_check *c,
                                    const struct pdl_plan_op *o);

#endif
