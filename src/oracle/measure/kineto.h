/* Operators of processors in a trace, which lie inside of each other. */
#ifndef KINETO_H
#define KINETO_H

#include "oracle/oracle_priv.h"

struct kineto_op {
    double from, to;
    double own;    /* without those inside of it */
    size_t around; /* the one it is inside of */
    uint32_t thread;
    int16_t kind;
    bool step : 1, update : 1; /* the optimizer's; that, or inside of it */
    bool top : 1, inside : 1;  /* inside of none; of one of its kind */
};
struct kineto_ops {
    struct kineto_op *op;
    size_t n, cap;
};
/* false: no memory */
bool oracle_kineto_add(struct kineto_ops *o, const struct kineto_op *op);
/* Fills the rest; what is inside of the optimizer is of its kind. */
void oracle_kineto_nest(struct kineto_ops *o);

#endif
