/* Max-min rates: hand cases, random sets against a naive solver in long
 * double that shares nothing with ours, flows that come and go against
 * solving afresh, and the certificate on right and on spoilt rates. */
#include "effort.h"
#include "sim_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_LINKS = 24, MAX_FLOWS = 40, MAX_USES = 6 };

struct set {
    double capacity[MAX_LINKS];
    struct pdl_maxmin_use uses[MAX_FLOWS][MAX_USES];
    struct pdl_maxmin_flow flows[MAX_FLOWS];
    struct pdl_maxmin p;
};

/* Progressive filling by the book: raise all open flows together until the
 * first link or bound is met. */
static void naive(const struct pdl_maxmin *p, double *rates)
{
    long double rate[MAX_FLOWS] = {0};
    bool open[MAX_FLOWS];
    int left = p->nflows;

    for (int f = 0; f < p->nflows; f++)
        open[f] = true;
    while (left > 0) {
        long double step = INFINITY;
        long double used[MAX_LINKS] = {0}, weight[MAX_LINKS] = {0};

        for (int f = 0; f < p->nflows; f++)
            for (int i = 0; i < p->flows[f].nuses; i++) {
                const struct pdl_maxmin_use *u = &p->flows[f].uses[i];

                used[u->link] += u->amount * rate[f];
                if (open[f])
                    weight[u->link] +=
                        (long double)u->amount * p->flows[f].weight;
            }
        for (int l = 0; l < p->nlinks; l++)
            if (weight[l] > 0)
                step = fminl(step, (p->capacity[l] - used[l]) / weight[l]);
        for (int f = 0; f < p->nflows; f++)
            if (open[f] && p->flows[f].bound > 0)
                step = fminl(
                    step, (p->flows[f].bound - rate[f]) / p->flows[f].weight);
        for (int f = 0; f < p->nflows; f++)
            if (open[f])
                rate[f] += step * p->flows[f].weight;
        for (int f = 0; f < p->nflows; f++) {
            bool stop = p->flows[f].bound > 0 &&
                        rate[f] >= p->flows[f].bound * (1 - 1e-15L);

            for (int i = 0; i < p->flows[f].nuses && open[f]; i++) {
                int l = p->flows[f].uses[i].link;

                stop = stop || used[l] + step * weight[l] >=
                                   p->capacity[l] * (1 - 1e-15L);
            }
            if (open[f] && stop) {
                open[f] = false;
                left--;
            }
        }
    }
    for (int f = 0; f < p->nflows; f++)
        rates[f] = (double)rate[f];
}

static double pick(struct pdl_rng *r, bool round)
{
    static const double few[] = {1, 1, 2, 5, 10};

    return round ? few[pdl_rng_below(r, 5)]
                 : exp(6 * pdl_rng_unit(r) - 3); /* 0.05 .. 20 */
}

static void random_set(struct set *s, struct pdl_rng *r)
{
    bool round = pdl_rng_below(r, 2) == 0; /* many ties */
    bool bounds = pdl_rng_below(r, 2) == 0, weights = pdl_rng_below(r, 2) == 0;

    s->p = (struct pdl_maxmin){s->capacity, 0, s->flows, 0};
    s->p.nlinks = 1 + (int)pdl_rng_below(r, MAX_LINKS);
    s->p.nflows = 1 + (int)pdl_rng_below(r, MAX_FLOWS);
    for (int l = 0; l < s->p.nlinks; l++)
        s->capacity[l] = 100 * pick(r, round);
    for (int f = 0; f < s->p.nflows; f++) {
        struct pdl_maxmin_flow *flow = &s->flows[f];
        int want = 1 + (int)pdl_rng_below(r, MAX_USES);

        *flow = (struct pdl_maxmin_flow){s->uses[f], 0, 1, 0};
        for (int i = 0; i < want; i++) {
            int l = (int)pdl_rng_below(r, (uint64_t)s->p.nlinks), k = 0;

            while (k < flow->nuses && s->uses[f][k].link != l)
                k++;
            if (k == flow->nuses)
                s->uses[f][flow->nuses++] = (struct pdl_maxmin_use){l, 0};
            s->uses[f][k].amount += pdl_rng_below(r, 4) ? 1 : 0.05;
        }
        if (weights)
            flow->weight = pick(r, round);
        if (bounds && pdl_rng_below(r, 2))
            flow->bound = 20 * pick(r, round);
    }
}

static void assert_same(const double *got, const double *want, int n, int seed)
{
    for (int f = 0; f < n; f++)
        if (fabs(got[f] - want[f]) > 1e-11 * want[f])
            fail_msg("set %d flow %d: %.17g, not %.17g", seed, f, got[f],
                     want[f]);
}

static void random_sets_equal_the_naive_solver(void **state)
{
    int sets = effort(1000, 10000, 200000);

    (void)state;
    for (int i = 0; i < sets; i++) {
        struct pdl_rng r = {.key = 1, .stream = (uint64_t)i};
        double got[MAX_FLOWS], want[MAX_FLOWS];
        struct pdl_err err = {"", ""};
        struct set s;

        random_set(&s, &r);
        naive(&s.p, want);
        assert_int_equal(pdl_maxmin_solve(&s.p, got, &err), PDL_OK);
        assert_same(got, want, s.p.nflows, i);
        if (pdl_maxmin_check(&s.p, got, 1e-9, &err) != PDL_OK)
            fail_msg("set %d: %s", i, err.msg);
    }
}

/* Any one rate moved by a part in a thousand is refused: up breaks a link or
 * a bound, down leaves a flow without a bottleneck. */
static void the_certificate_refuses_spoilt_rates(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct pdl_rng r = {.key = 2, .stream = (uint64_t)i};
        double rates[MAX_FLOWS];
        struct set s;
        int f;

        random_set(&s, &r);
        assert_int_equal(pdl_maxmin_solve(&s.p, rates, NULL), PDL_OK);
        f = (int)pdl_rng_below(&r, (uint64_t)s.p.nflows);
        rates[f] *= i % 2 ? 1.001 : 0.999;
        if (pdl_maxmin_check(&s.p, rates, 1e-6, NULL) != PDL_EWRONG)
            fail_msg("set %d: flow %d spoilt and accepted", i, f);
    }
}

/* Feasible and every link full, yet not max-min: the certificate looks at the
 * proportion, not only at full links. */
static void the_certificate_refuses_full_but_unfair(void **state)
{
    double capacity[] = {10};
    struct pdl_maxmin_use use = {0, 1};
    struct pdl_maxmin_flow flows[] = {{&use, 1, 1, 0}, {&use, 1, 1, 0}};
    struct pdl_maxmin p = {capacity, 1, flows, 2};

    (void)state;
    assert_int_equal(pdl_maxmin_check(&p, (double[]){5, 5}, 1e-9, NULL),
                     PDL_OK);
    assert_int_equal(pdl_maxmin_check(&p, (double[]){4, 6}, 1e-9, NULL),
                     PDL_EWRONG);
    flows[1].weight = 1.5;
    assert_int_equal(pdl_maxmin_check(&p, (double[]){4, 6}, 1e-9, NULL),
                     PDL_OK);
}

/* Flows come and go one or several at a time; after each solve the rates are
 * those of solving the present set afresh, also of flows not reported. */
static void coming_and_going_equals_solving_afresh(void **state)
{
    int sets = effort(150, 1500, 20000);

    (void)state;
    for (int i = 0; i < sets; i++) {
        struct pdl_rng r = {.key = 3, .stream = (uint64_t)i};
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        double known[MAX_FLOWS] = {0};
        bool on[MAX_FLOWS] = {false};
        struct net_share share;
        struct set s;

        random_set(&s, &r);
        assert_int_equal(
            net_share_init(&share, a, s.capacity, s.p.nlinks, NULL), PDL_OK);
        if (i % 3 == 1)
            share.near = 0; /* the far search alone */
        if (i % 3 == 2)
            share.rounds = (int)pdl_rng_below(&r, 3); /* near, then far */
        for (int step = 0; step < 30; step++) {
            struct pdl_maxmin_flow now[MAX_FLOWS];
            struct pdl_maxmin p = {s.capacity, s.p.nlinks, now, 0};
            double want[MAX_FLOWS];
            int which[MAX_FLOWS];

            for (int k = 1 + (int)pdl_rng_below(&r, 5); k > 0; k--) {
                int f = (int)pdl_rng_below(&r, (uint64_t)s.p.nflows);

                if (on[f])
                    net_share_remove(&share, f);
                else
                    net_share_add(&share, f, s.flows[f].uses, s.flows[f].nuses,
                                  s.flows[f].weight, s.flows[f].bound);
                on[f] = !on[f];
                if (on[f])
                    known[f] = share.flows[f].rate; /* alone: at once */
            }
            net_share_solve(&share);
            for (int k = 0; k < share.nchanged; k++)
                known[share.changed[k]] = share.flows[share.changed[k]].rate;
            for (int f = 0; f < s.p.nflows; f++)
                if (on[f]) {
                    which[p.nflows] = f;
                    now[p.nflows++] = s.flows[f];
                }
            if (p.nflows == 0)
                continue;
            naive(&p, want);
            for (int k = 0; k < p.nflows; k++)
                if (fabs(known[which[k]] - want[k]) > 1e-11 * want[k])
                    fail_msg("set %d step %d flow %d: %.17g, not %.17g", i,
                             step, which[k], known[which[k]], want[k]);
        }
        assert_false(share.failed);
        pdl_arena_destroy(a);
    }
}

static void wrong_problems_are_refused(void **state)
{
    double capacity[] = {10, 0}, rate;
    struct pdl_maxmin_use uses[] = {{0, 1}, {0, 1}};
    struct pdl_maxmin_flow flow = {uses, 1, 1, 0};
    struct pdl_maxmin p = {capacity, 1, &flow, 1};

    (void)state;
    assert_int_equal(pdl_maxmin_solve(&p, &rate, NULL), PDL_OK);
    p.nlinks = 2;
    assert_int_equal(pdl_maxmin_solve(&p, &rate, NULL), PDL_EINVAL);
    p.nlinks = 1;
    flow.nuses = 2;
    assert_int_equal(pdl_maxmin_solve(&p, &rate, NULL), PDL_EINVAL);
    flow.nuses = 0;
    assert_int_equal(pdl_maxmin_solve(&p, &rate, NULL), PDL_EINVAL);
    flow.nuses = 1;
    flow.weight = 0;
    assert_int_equal(pdl_maxmin_solve(&p, &rate, NULL), PDL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sets_equal_the_naive_solver),
        cmocka_unit_test(the_certificate_refuses_spoilt_rates),
        cmocka_unit_test(the_certificate_refuses_full_but_unfair),
        cmocka_unit_test(coming_and_going_equals_solving_afresh),
        cmocka_unit_test(wrong_problems_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
