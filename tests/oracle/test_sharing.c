/* Contention from the system's levels, counted by hand on small meshes; the
 * most PEs of an axis; the reuse factor. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "plans.h"

/* Factors in mesh order: the last is the fastest. */
static void flows_are_counted_as_by_hand(void **state)
{
    static const struct {
        const char *strategy;
        enum oracle_pattern pattern;
        uint32_t group;
        int64_t block;
        double flows;
    } cases[] = {
        {"data=8", ORACLE_RING, 1, 4, 1},            /* 3 -> 4 */
        {"data=8", ORACLE_PAIRS, 1, 4, 4},           /* all of them */
        {"data=8", ORACLE_NEIGHBOURS, 1, 4, 1},      /* 3 and 4 */
        {"data=16", ORACLE_NEIGHBOURS, 1, 4, 1},     /* rank 0 has no left */
        {"data=4,filter=4", ORACLE_RING, 1, 4, 4},   /* r -> r + 4 */
        {"data=4,filter=4", ORACLE_RING, 2, 4, 1},   /* stays inside */
        {"data=4,filter=4", ORACLE_RING, 3, 4, 1},   /* one ring of all */
        {"data=4,filter=4", ORACLE_RING, 1, 8, 4},   /* two rows a block */
        {"data=4,filter=4", ORACLE_PAIRS, 1, 8, 8},  /* both rows leave */
        {"spatial=4x4", ORACLE_NEIGHBOURS, 3, 4, 4}, /* a row below */
        {"spatial=4x4", ORACLE_NEIGHBOURS, 3, 8, 4}, /* the lower row of two */
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oracle o = {.p = lower(a, "vgg16", cases[i].strategy, 64)};
        double n = oracle_flows(&o, cases[i].pattern, 0, cases[i].group,
                                cases[i].block);

        if (n != cases[i].flows)
            fail_msg("%s, block of %lld: %g flows", cases[i].strategy,
                     (long long)cases[i].block, n);
    }
    pdl_arena_destroy(a);
}

/* Rank by rank: the next of the group in the order of ranks, or the first. */
static int64_t next_of(const struct pdl_mesh *m, int64_t rank, uint32_t group)
{
    int64_t first = -1;

    for (int64_t r = 0; r < m->pes; r++) {
        bool same = true;

        for (int f = 0; f < m->nfactors; f++)
            same = same && ((group >> f & 1) || pdl_mesh_coord(m, r, f) ==
                                                    pdl_mesh_coord(m, rank, f));
        if (same && first < 0)
            first = r;
        if (same && r > rank)
            return r;
    }
    return first;
}

static void rings_are_counted_as_rank_by_rank(void **state)
{
    struct pdl_rng rng = {.key = 7};

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct pdl_mesh m = {.nfactors = 1 + (int)pdl_rng_below(&rng, 4),
                             .pes = 1};
        struct pdl_plan p = {.mesh = &m};
        struct oracle o = {.p = &p};

        for (int f = 0; f < m.nfactors; f++)
            m.pes *= m.factor[f] = 1 + (int64_t)pdl_rng_below(&rng, 4);
        for (uint32_t group = 1; group < 1u << m.nfactors; group++)
            for (int64_t size = 1; size <= m.pes; size++) {
                int64_t n = 0, base = size;

                if (base + size > m.pes)
                    base = 0;
                for (int64_t r = base; r < base + size; r++) {
                    int64_t to = next_of(&m, r, group);

                    n += to < base || to >= base + size;
                }
                if (oracle_flows(&o, ORACLE_RING, base, group, size) !=
                    (n > 0 ? (double)n : 1))
                    fail_msg("mesh of %d, group %x, block of %lld: not %lld",
                             m.nfactors, group, (long long)size, (long long)n);
            }
    }
}

static const struct pdl_contention *worst(const struct pdl_contentions *c)
{
    const struct pdl_contention *w = &c->row[0];

    assert_true(c->n > 0);
    for (int i = 0; i < c->n; i++)
        w = c->row[i].phi > w->phi ? &c->row[i] : w;
    return w;
}

/* 34 nodes of ABCI share a third of their 68 adapters: with filters outside,
 * all 136 PEs of a rack send to other racks at a time. */
static void over_subscribed_uplinks_are_shared(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32};
    const struct pdl_plan *far = lower(a, "vgg16", "filter=4,data=256", 4096);
    const struct pdl_plan *near = lower(a, "vgg16", "data=256,filter=4", 4096);
    struct pdl_contentions c;
    const struct pdl_contention *w;
    struct pdl_projection x, y;
    struct pdl_tier *tiers = PDL_NEW(a, struct pdl_tier, sys.network.ntiers);

    (void)state;
    assert_int_equal(pdl_contention(a, far, &sys, &opt, &c, NULL), PDL_OK);
    w = worst(&c);
    assert_string_equal(sys.levels[w->at].name, "rack");
    assert_true(w->groups == 136);
    assert_true(fabs(w->adapters - 68 / 3.0) < 1e-9);
    assert_true(fabs(w->phi - 12) < 1e-6); /* 4 in a node, and a third */
    assert_int_equal(pdl_contention(a, near, &sys, &opt, &c, NULL), PDL_OK);
    for (int i = 0; i < c.n; i++) /* four rings leave a rack */
        assert_int_equal(c.row[i].at, 0);
    assert_int_equal(pdl_project(far, &sys, &opt, &x, NULL), PDL_OK);
    memcpy(tiers, sys.network.tiers,
           (size_t)sys.network.ntiers * sizeof *tiers);
    tiers[sys.network.ntiers - 1].oversubscription = 1;
    sys.network.tiers = tiers;
    assert_int_equal(pdl_system_update(a, &sys, NULL), PDL_OK);
    assert_int_equal(pdl_project(far, &sys, &opt, &y, NULL), PDL_OK);
    assert_true(x.layer_comm_s > 2 * y.layer_comm_s);
    pdl_arena_destroy(a);
}

static void every_axis_has_a_limit_and_a_reason(void **state)
{
    static const struct {
        const char *axis, *reason;
        int64_t most;
    } want[] = {
        {"data", "smaller than data=97", 96},
        {"spatial", "cuts only 7 rows", 7},
        {"filter", "conv1: filter=65 cuts only 64 filters", 64},
        {"channel", "cuts only 64 channels", 64},
        {"pipe", "has only 175 layers", 175},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_axis_limit list[PDL_AXIS_LIMITS];
    const struct pdl_model *m;
    struct pdl_err err = {"", ""};
    int n;

    (void)state;
    assert_int_equal(pdl_zoo_build(a, "resnet50", &m, &err), PDL_OK);
    assert_int_equal(pdl_axis_limits(a, m, 96, list, &n, &err), PDL_OK);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        bool found = false;

        for (int k = 0; k < n; k++)
            if (strcmp(list[k].axis, want[i].axis) == 0) {
                found = true;
                if (list[k].most != want[i].most ||
                    !strstr(list[k].reason, want[i].reason))
                    fail_msg("%s: %lld, %s", list[k].axis,
                             (long long)list[k].most, list[k].reason);
            }
        assert_true(found);
    }
    pdl_arena_destroy(a);
}

/* Without reuse gamma is 1; with it less, and less the deeper the network. */
static void gamma_is_computed(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32};
    struct pdl_projection x, y;

    (void)state;
    assert_int_equal(
        pdl_project(lower(a, "resnet50", "data=4", 64), &sys, &opt, &x, NULL),
        PDL_OK);
    assert_int_equal(
        pdl_project(lower(a, "resnet50", "data=4,memory=paper", 64), &sys, &opt,
                    &y, NULL),
        PDL_OK);
    assert_true(fabs(y.gamma - 1) < 1e-9);
    assert_true(x.gamma > .1 && x.gamma < .6);
    assert_true(fabs(x.gamma * (double)y.allocated_bytes -
                     (double)x.allocated_bytes) < 1);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_are_counted_as_by_hand),
        cmocka_unit_test(rings_are_counted_as_rank_by_rank),
        cmocka_unit_test(over_subscribed_uplinks_are_shared),
        cmocka_unit_test(every_axis_has_a_limit_and_a_reason),
        cmocka_unit_test(gamma_is_computed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
