/* Metrics against formulas and, for the bisection, against trying every cut
 * of small networks. */
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static const struct pdl_net *make(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return net;
}

static struct pdl_metrics metrics(pdl_arena *a, const char *spec)
{
    struct pdl_metrics m = {0};
    struct pdl_err err = {"", ""};

    if (pdl_net_metrics(a, make(a, spec), &m, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return m;
}

static void figures_are_those_of_the_formulas(void **state)
{
    static const struct {
        const char *spec;
        int hosts, switches;
        int64_t cables;
        int diameter;
        double average;
        int64_t bisection;
        bool exact;
    } cases[] = {
        // clang-format off
        {"torus:8x8", 64, 0, 128, 8, 64.0 * 4 / 63, 16, true},
        {"torus:8x8x16", 1024, 0, 3072, 16, 1024.0 * 8 / 1023, 128, true},
        {"mesh:4x4", 16, 0, 24, 6, 16.0 * 2.5 / 15, 4, true},
        {"full2d:16x16", 256, 0, 256 * 15, 2, (30 + 2 * 225) / 255.0, 1024, true},
        {"full2d:16x17", 272, 0, 17 * 120 + 16 * 136, 2, (31 + 2 * 240) / 271.0, 1088, true},
        {"fat-tree:down=8x8,up=1x8", 64, 16, 128, 4, (2 * 7 + 4 * 56) / 63.0, 32, true},
        {"star:hosts=9", 9, 1, 9, 2, 2, 4, true},
        {"kautz:d=16", 272, 0, 4080 + 136, 2, (16 + 2 * 255) / 271.0, -1, false},
        {"dragonfly-direct:group=4", 20, 0, 40, 3, -1, -1, false},
        {"dragonfly:groups=2,chassis=1,routers=2,nodes=1,blue=4", 4, 4, 4 + 2 + 4, 5, -1, -1, false},
        {"tsubame3:nodes=18", 72, 5, 36 + 4 * 18, -1, -1, -1, false},
        {"rack-tree:racks=2", 136, 16, 136 + 24 * 6 + 12 * 4, 6, -1, 24, false},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_metrics m = metrics(a, cases[i].spec);

        if (m.hosts != cases[i].hosts || m.switches != cases[i].switches ||
            m.cables != cases[i].cables ||
            (cases[i].diameter >= 0 && m.diameter != cases[i].diameter) ||
            (cases[i].average >= 0 &&
             fabs(m.average_hops - cases[i].average) > 1e-9) ||
            (cases[i].bisection >= 0 &&
             m.bisection_cables != cases[i].bisection) ||
            m.bisection_exact != cases[i].exact)
            fail_msg("%s: %d hosts, %d switches, %lld cables, diameter %d, "
                     "average %.9g, bisection %lld%s",
                     cases[i].spec, m.hosts, m.switches, (long long)m.cables,
                     m.diameter, m.average_hops, (long long)m.bisection_cables,
                     m.bisection_exact ? " exactly" : "");
        pdl_arena_destroy(a);
    }
}

/* Capacity of the cut `side`, a bit for each vertex. */
static double cut_of(const struct pdl_net *net, unsigned side)
{
    double sum = 0;

    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        if ((side >> k->from & 1) != (side >> k->to & 1))
            sum += k->shared ? k->bytes_per_s : k->bytes_per_s / 2;
    }
    return sum;
}

static double best_of_all_cuts(const struct pdl_net *net)
{
    int n = net->nhosts + net->nswitches;
    double best = -1;

    for (unsigned side = 0; side < 1u << n; side++) {
        int ones = __builtin_popcount(side & ((1u << net->nhosts) - 1));
        double v;

        if (ones != net->nhosts / 2)
            continue;
        v = cut_of(net, side);
        if (best < 0 || v < best)
            best = v;
    }
    return best;
}

static void no_cut_of_a_small_network_is_smaller_than_the_bisection(void **st)
{
    static const char *const specs[] = {
        "torus:4",
        "torus:2x4",
        "torus:4x4",
        "torus:3x4",
        "torus:2x2x2",
        "torus:4x4,duplex=shared",
        "mesh:4x4",
        "mesh:2x3x2",
        "mesh:6x2",
        "full2d:2x4",
        "full2d:4x4",
        "full2d:4x3",
        "full2d:2x7",
        "star:hosts=7",
        "fat-tree:down=2x4,up=1x2",
        "fat-tree:down=3x2,up=1x3,links=1x1",
        "fat-tree:down=2x2x2,up=1x2x2",
        "fat-tree:down=4x2,up=1x2",
        "fat-tree:down=4x2,up=1x1",
        "fat-tree:down=2x3,up=1x2,links=1x2",
        "dln:q=2,p=1",
        "dln:q=3,p=0",
        "hyperx:2x3,hosts=1",
        "leaf-spine:leaves=4,hosts=2,spines=2,cables=2",
        "leaf-spine:leaves=3,hosts=3,spines=2",
        "kautz:d=2",
        "kautz:d=3",
        "dragonfly-direct:group=3",
        "random:switches=8,degree=3",
        "rack-tree:racks=2,hosts=4,leaves=2,fbb=1,spines=1,up=2,top=1",
        "dragonfly:groups=2,chassis=1,routers=3,nodes=1,blue=2",
    };

    (void)st;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, specs[i]);
        struct pdl_metrics m = metrics(a, specs[i]);
        double best = best_of_all_cuts(net);

        /* equal where a formula claims it, and on these small ones the
         * search must find the best cut too */
        if (fabs(m.bisection_bytes_per_s - best) > 1e-6 * best)
            fail_msg("%s: %g, but a cut has %g", specs[i],
                     m.bisection_bytes_per_s, best);
        pdl_arena_destroy(a);
    }
}

static void cables_and_prices_follow_the_floor_plan(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_metrics m = metrics(a, "star:hosts=16");

    (void)state;
    /* one rack: 16 cables of 2 m, one switch of 16 ports */
    assert_true(fabs(m.cable_m - 32) < 1e-9);
    assert_true(fabs(m.cost - (350.4 * 16 - 892.3 +
                               16 * 40 * (0.4079 * 2 + 0.5771))) < 0.006);
    assert_true(fabs(m.power_w - 2.8 * 16) < 1e-9);
    /* two racks: half of the cables cross, 4 m and one rack's width */
    m = metrics(a, "star:hosts=64");
    assert_true(fabs(m.cable_m - (32 * 2 + 32 * 4.6)) < 1e-9);
    /* 300 m: light is cheaper */
    m = metrics(a, "hybrid-optical:eps=(star:hosts=16)");
    assert_true(fabs(m.cable_m - 64) < 1e-9);
    assert_true(
        fabs(m.cost - (350.4 * 16 - 892.3 + 16 * 40 * (0.4079 * 2 + 0.5771) +
                       16 * 40 * (0.0919 * 2 + 7.2745))) < 0.006);
    /* wires inside nodes are no cables: 36 adapters, 4 trunks of 18, of 5 m */
    m = metrics(a, "tsubame3:nodes=18");
    assert_true(fabs(m.cable_m - 5 * (36 + 72)) < 1e-9);
    pdl_arena_destroy(a);
}

static struct pdl_net_bill bill(pdl_arena *a, const char *spec)
{
    struct pdl_net_bill b = {.hosts = 0};

    assert_int_equal(pdl_net_bill(a, make(a, spec), &b, NULL), PDL_OK);
    return b;
}

static void a_bill_counts_ports_and_cables_by_what_they_need(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_net_bill b = bill(a, "star:hosts=64");

    (void)state;
    assert_int_equal(b.ports, 64);
    assert_int_equal(b.host_ports, 64);
    assert_int_equal(b.near_cables, 32);
    assert_int_equal(b.far_cables, 32);
    assert_true(fabs(b.far_m - 32 * 4.6) < 1e-9);
    /* a trunk counts by its cables, a wire on a board not at all */
    b = bill(a, "leaf-spine:leaves=4,hosts=8,spines=2,cables=4");
    assert_int_equal(b.switches, 6);
    assert_int_equal(b.ports, 4 * 8 + 2 * 4 * 4 * 2);
    assert_int_equal(b.most_ports, 16);
    b = bill(a, "hammingmesh:16x16,board=2x2");
    assert_int_equal(b.host_ports, 16 * 16 * 8);
    assert_int_equal(b.ports, 16 * 16 * 8);
    assert_int_equal(b.near_cables + b.far_cables, 16 * 16 * 8);
    /* what goes by light is never near */
    b = bill(a, "hybrid-optical:eps=(star:hosts=16)");
    assert_int_equal(b.near_cables, 16);
    assert_int_equal(b.far_cables, 16);
    pdl_arena_destroy(a);
}

static void large_networks_are_sampled_and_say_so(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_metrics m = metrics(a, "torus:20x20x20");

    (void)state;
    assert_true(m.sources > 0 && m.sources < m.hosts);
    assert_true(fabs(m.average_hops - 8000.0 * 15 / 7999) < 1e-9);
    assert_int_equal(m.diameter, 30);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_formulas),
        cmocka_unit_test(
            no_cut_of_a_small_network_is_smaller_than_the_bisection),
        cmocka_unit_test(cables_and_prices_follow_the_floor_plan),
        cmocka_unit_test(a_bill_counts_ports_and_cables_by_what_they_need),
        cmocka_unit_test(large_networks_are_sampled_and_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
