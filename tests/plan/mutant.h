/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan whose tensors and operations a test may change. */
#ifndef PDL_TEST_MUTANT_H
#define PDL_TEST_MUTANT_H

#include "paradl/plan.h"

#include <string.h>

struct mutant {
    struct pdl_plan p;
    struct pdl_plan_tensor *tensors;
    struct pdl_plan_op *ops;
};

static struct mutant copy(pdl_arena *a, const struct pdl_plan *p)
{
    struct mutant m = {.p = *p};

    m.tensors = PDL_NEW(a, struct pdl_plan_tensor, p->ntensors);
    m.ops = PDL_NEW(a, struct pdl_plan_op, p->nops);
    memcpy(m.tensors, p->tensors, (size_t)p->ntensors * sizeof *m.tensors);
    memcpy(m.ops, p->ops, (size_t)p->nops * sizeof *m.ops);
    m.p.tensors = m.tensors;
    m.p.ops = m.ops;
    return m;
}

#endif
