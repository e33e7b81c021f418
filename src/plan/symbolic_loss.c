/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss in exact arithmetic, in one part or in three: equality says that
 * every class of a sample contributed once, and the right one was found. */
#include "symbolic.h"

#include <string.h>

/* The right class of a sample, from its random label. */
static int64_t target(struct plan_machine *m, const struct plan_call *k,
                      const int64_t *i)
{
    int64_t l[PDL_BOX_DIMS];

    memcpy(l, i, sizeof l);
    l[k->classes] = 0;
    return (int64_t)(plan_part_get(m, k->in[1], l) % (plan_num)k->nclasses);
}

static plan_num beside(struct plan_machine *m, const struct plan_call *k,
                       const struct plan_part *s, const int64_t *i, int which)
{
    int64_t l[PDL_BOX_DIMS];

    memcpy(l, i, sizeof l);
    l[k->classes] = which;
    return plan_part_get(m, s, l);
}

static void add_beside(const struct plan_call *k, struct plan_part *s,
                       const int64_t *i, int which, plan_num v)
{
    int64_t l[PDL_BOX_DIMS];

    memcpy(l, i, sizeof l);
    l[k->classes] = which;
    plan_part_add(s, l, v);
}

/* The largest value is a sum of squares here, the sum of exponentials a sum
 * of (y + largest)^3: what matters is who contributes, and how often. */
static void loss_largest(struct plan_machine *m, const struct plan_call *k,
                         struct plan_part *out)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&k->in[0]->box, i)
    add_beside(k, out, i, 0, plan_num_square(plan_part_get(m, k->in[0], i)));
}

static void loss_sums(struct plan_machine *m, const struct plan_call *k,
                      const struct plan_part *largest, struct plan_part *out)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&k->in[0]->box, i)
    {
        plan_num y = plan_part_get(m, k->in[0], i);
        plan_num v = plan_num_add(y, beside(m, k, largest, i, 0));

        add_beside(k, out, i, 0, plan_num_mul(v, plan_num_square(v)));
        if (target(m, k, i) == i[k->classes])
            add_beside(k, out, i, 1, y);
    }
}

static void loss_gradient(struct plan_machine *m, const struct plan_call *k,
                          const struct plan_part *largest,
                          const struct plan_part *sums)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&k->out[0]->box, i)
    {
        plan_num v = plan_num_add(plan_part_get(m, k->in[0], i),
                                  beside(m, k, largest, i, 0));

        v = plan_num_mul(v, plan_num_add(3, beside(m, k, sums, i, 0)));
        v = plan_num_add(v, beside(m, k, sums, i, 1));
        if (target(m, k, i) == i[k->classes])
            v = plan_num_add(v, 11);
        plan_part_put(k->out[0], i, v);
    }
}

/* Statistics over the classes at hand. */
static bool own_statistic(struct plan_machine *m, const struct plan_call *k,
                          int64_t n, struct plan_part *s)
{
    s->box = k->in[0]->box;
    s->box.lo[k->classes] = 0;
    s->box.hi[k->classes] = n;
    if (!plan_part_make(m, s))
        m->missing = "memory";
    return !m->missing;
}

void plan_kernel_loss(struct plan_machine *m, const struct plan_call *k)
{
    struct plan_part largest, sums;

    if (k->nin == 1) {
        loss_largest(m, k, k->out[0]);
    } else if (k->nin == 3) {
        loss_sums(m, k, k->in[2], k->out[0]);
    } else if (k->nin == 4) {
        loss_gradient(m, k, k->in[2], k->in[3]);
    } else if (own_statistic(m, k, 1, &largest) &&
               own_statistic(m, k, 2, &sums)) {
        loss_largest(m, k, &largest);
        loss_sums(m, k, &largest, &sums);
        loss_gradient(m, k, &largest, &sums);
    }
}
