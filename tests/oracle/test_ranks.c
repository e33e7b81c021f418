/* A projection prices an operation on a few ranks that stand for all, and of
 * those only the ones that differ. On random plans every rank is priced here:
 * none may be slower than what the projection took. */
#include "effort.h"
#include "../plan/random_plan.h"
#include "oracle/oracle_priv.h"

#include <math.h>

/* What one operation takes on the slowest of all ranks of its stage. */
static double slowest_of_all(const struct oracle *o, int op, bool gradient)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int stage = o->p->tensors[x->nin > 0 ? x->in[0] : x->out[0]].stage;
    double most = 0;

    for (int64_t r = 0; r < o->p->mesh->pes; r++) {
        struct oracle_price how;
        double s;
        int64_t at = 0;

        for (int f = 0; f < o->p->mesh->nfactors; f++)
            if (o->p->pipe_factors >> f & 1)
                at = at * o->p->mesh->factor[f] +
                     pdl_mesh_coord(o->p->mesh, r, f);
        if (o->p->pipe_factors && at != pdl_plan_lane(o->p, stage))
            continue;
        s = oracle_comm(o, op, r, gradient, &how);
        if (how.level < 0)
            s = oracle_compute(o, op, r);
        most = s > most ? s : most;
    }
    return most;
}

static bool in_update(const struct pdl_plan *p, int op)
{
    for (int s = 0; s < p->nstages; s++)
        for (int i = 0; i < p->stages[s].nupdate; i++) {
            const struct pdl_plan_item *x =
                &p->items[p->stages[s].first_update + i];

            if (op >= x->first_op && op < x->first_op + x->nops)
                return true;
        }
    return false;
}

struct tally {
    int plans, ops, comms, alltoalls;
};

/* A node of two PEs, so that small groups leave it. */
static void compare(pdl_arena *a, const struct pdl_plan *p, const char *what,
                    struct tally *n)
{
    uint32_t without = 0;
    struct pdl_oracle_options opt = {.optimizer_slots = 1};
    struct oracle o = {.p = p, .opt = &opt};
    struct oracle_changed changed;
    struct pdl_system sys;
    struct pdl_timeline line;
    struct pdl_err err = {"", ""};

    assert_int_equal(pdl_effect_find("interference", &without, NULL), PDL_OK);
    opt.without = without;
    if (pdl_system_open(a, "abci-v100:nodes=64,pes_per_node=2", &sys, &err) !=
            PDL_OK ||
        pdl_timeline(a, p, &sys, &opt, &line, &err) != PDL_OK)
        fail_msg("%s: %s", what, err.msg);
    o.sys = &sys;
    oracle_settle(&o, &changed);
    n->plans++;
    for (int64_t i = 0; i < line.n; i++) {
        const struct pdl_event *e = &line.events[i];
        double all = slowest_of_all(&o, e->op, in_update(p, e->op));
        enum pdl_plan_op_kind kind = p->ops[e->op].kind;

        n->ops++;
        n->comms += kind >= PDL_PLAN_OP_ALLREDUCE && kind <= PDL_PLAN_OP_SEND;
        n->alltoalls += kind == PDL_PLAN_OP_ALLTOALL;
        /* a rank inside an uneven split may have a row more to compute */
        if (fabs(all - e->seconds) >
            (kind == PDL_PLAN_OP_COMPUTE ? 1e-3 : 1e-9) * all)
            fail_msg("%s: %s %d takes %g, on the slowest rank %g", what,
                     pdl_plan_op_name(kind), e->op, e->seconds, all);
    }
}

static void no_rank_is_slower_than_the_projection_says(void **state)
{
    uint64_t seeds = (uint64_t)effort(300, 300, 3000);
    struct tally n = {.plans = 0};

    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_plan *p;
        struct pdl_err err;
        char what[800];

        if (random_plan(a, seed, &p, what, sizeof what, &err) == 0 &&
            p->mesh->pes <= 128)
            compare(a, p, what, &n);
        pdl_arena_destroy(a);
    }
    print_message("%d plans, %d operations, %d of them messages, %d "
                  "alltoalls\n",
                  n.plans, n.ops, n.comms, n.alltoalls);
    assert_true(n.plans > 100 && n.comms > 1000 && n.alltoalls > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_is_slower_than_the_projection_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
