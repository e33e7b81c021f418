/* Link loads of the papers' collectives on the papers' networks, from steps
 * and routes alone: DLN with shifted halving-doubling (CCGrid 2021), Kautz
 * (IPDPS 2022), 2-D fully connected (CCGrid 2024). The algorithms are
 * reconstructions; the loads are those of their derivations. */
#include "coll_paper.h"

enum { BLOCK = 4096 };

/* The coefficient c of T = rounds*a + c*N*b: bytes on the busiest link,
 * summed over the rounds. */
static double coefficient(const char *topology, const char *coll,
                          const char *alg, int64_t bytes, double unit,
                          int64_t *flows, int max)
{
    pdl_arena *a = pdl_arena_create((size_t)4 << 30);
    const struct pdl_net *net = network(a, topology);
    struct pdl_coll_job job = job_on(net, coll, alg, 0, bytes, 0);
    struct pdl_coll_round *rounds;
    struct pdl_err err = {"", ""};
    int64_t n;
    double sum = 0;

    if (pdl_coll_contention(&job, net, NULL, a, &rounds, &n, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)rounds[i].repeat * rounds[i].link_s;
        if (flows && i < max)
            flows[i] = rounds[i].link_flows;
    }
    sum *= net->links[0].bytes_per_s / unit;
    pdl_arena_destroy(a);
    return sum;
}

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * want)
        fail_msg("%.12g instead of %.12g", got, want);
}

static void dln_coefficients_are_those_of_the_derivation(void **state)
{
    static const struct {
        int q, p;
        double ring, hd, shd; /* comm.md 3.4 */
    } cases[] = {
        {3, 2, 2 * 31.0 / 32, 3.25, 2.5},
        {4, 3, 2 * 127.0 / 128, 3.625, 2.75},
        {5, 4, 2 * 511.0 / 512, 3.8125, 2.875},
    };
    const int64_t bytes = 1 << 22;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char net[64];
        double n = (double)bytes, ring, hd, shd, circ;

        snprintf(net, sizeof net, "dln:q=%d,p=%d", cases[i].q, cases[i].p);
        ring = coefficient(net, "allreduce", "ring", bytes, n, NULL, 0);
        hd = coefficient(net, "allreduce", "halving-doubling", bytes, n, NULL,
                         0);
        shd = coefficient(net, "allreduce", "shd", bytes, n, NULL, 0);
        circ =
            coefficient(net, "allreduce", "shd-circulant", bytes, n, NULL, 0);
        assert_true(fabs(ring - cases[i].ring) < 1e-12);
        assert_true(fabs(hd - cases[i].hd) < 1e-12);
        assert_true(fabs(shd - cases[i].shd) < 1e-12);
        assert_true(fabs(circ - cases[i].shd) < 1e-12);
    }
}

/* Single-path tree HD : DLN HD : SHD : ring -> 6 : 4 : 3 : 2. */
static void large_networks_approach_6_4_3_2(void **state)
{
    const int64_t bytes = 1 << 24;
    const double n = (double)bytes;
    double tree =
        coefficient("fat-tree:down=16x8x8,up=1x1x1,links=1x1x1", "allreduce",
                    "halving-doubling", bytes, n, NULL, 0);
    double hd = coefficient("dln:q=6,p=5", "allreduce", "halving-doubling",
                            bytes, n, NULL, 0);
    double shd =
        coefficient("dln:q=6,p=5", "allreduce", "shd", bytes, n, NULL, 0);

    (void)state;
    assert_true(fabs(tree - 5.375) < 1e-12);
    assert_true(fabs(hd - (4 - 1.0 / 16 - 1.0 / 32)) < 1e-12);
    assert_true(fabs(shd - (3 - 1.0 / 16)) < 1e-12);
}

static void shd_halves_the_flows_on_the_shortcuts(void **state)
{
    int64_t hd[18], shd[18];

    (void)state;
    coefficient("dln:q=5,p=4", "allreduce", "halving-doubling", 1 << 22, 1, hd,
                18);
    coefficient("dln:q=5,p=4", "allreduce", "shd", 1 << 22, 1, shd, 18);
    for (int j = 0; j < 9; j++) {
        assert_int_equal(hd[j], j < 4 ? 1 : 16);
        assert_int_equal(shd[j], j < 4 ? 1 : j < 8 ? 8 : 16);
        assert_int_equal(hd[17 - j], hd[j]);
        assert_int_equal(shd[17 - j], shd[j]);
    }
}

/* comm.md 5: blocks (or chunks) on the busiest arc over both rounds. */
static void kautz_costs_are_those_of_the_table(void **state)
{
    static const int degrees[] = {2, 3, 4, 8, 16};

    (void)state;
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        int d = degrees[i], p = d * (d + 1);
        int64_t bytes = (int64_t)p * BLOCK;
        char net[32];

        snprintf(net, sizeof net, "kautz:d=%d", d);
        assert_near(
            coefficient(net, "alltoall", "kautz", bytes, BLOCK, NULL, 0),
            2 * d + 1);
        assert_near(
            coefficient(net, "allgather", "kautz", bytes, BLOCK, NULL, 0),
            d + 1);
        assert_near(
            coefficient(net, "reduce-scatter", "kautz", bytes, BLOCK, NULL, 0),
            d + 2);
        assert_near(coefficient(net, "allreduce", "kautz-small", bytes,
                                (double)bytes, NULL, 0),
                    2);
        assert_near(
            coefficient(net, "allreduce", "kautz", bytes, BLOCK, NULL, 0),
            2 * d + 3);
    }
}

/* 272 nodes of degree 16: 256 blocks on a global link of the switchless
 * Dragonfly, 33 on an arc of the Kautz network: 7.76. */
static void kautz_beats_the_dragonfly_of_equal_degree(void **state)
{
    static const char *const nets[] = {"kautz:d=16",
                                       "dragonfly-direct:group=16"};
    static const char *const algs[] = {"kautz", "pairwise"};
    double blocks[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        pdl_arena *a = pdl_arena_create((size_t)4 << 30);
        const struct pdl_net *net = network(a, nets[i]);
        struct pdl_coll_job job =
            job_on(net, "alltoall", algs[i], 0, 272 * BLOCK, 0);
        struct pdl_sim_config config = {.links = true};
        struct pdl_sim_result result;
        struct pdl_traffic traffic;
        struct pdl_err err = {"", ""};

        assert_int_equal(net->nhosts, 272);
        pdl_coll_traffic(&job, NULL, &traffic);
        if (pdl_sim_run(a, net, &traffic, &config, &result, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        blocks[i] = (double)result.max_link_bytes / BLOCK;
        pdl_arena_destroy(a);
    }
    assert_true(blocks[0] == 33);
    assert_true(blocks[1] == 256);
}

/* comm.md 6 and the derivation: blocks on the busiest link. The lower bound
 * is max(n,m); half-split reaches it. */
static void half_split_reaches_the_lower_bound(void **state)
{
    static const struct {
        int n, m;
        double xy, half, parity, direct;
    } cases[] = {
        {4, 4, 8, 4, 4, 4},       {8, 8, 16, 8, 8, 8}, {16, 16, 32, 16, 16, 16},
        {16, 17, 33, 17, 18, 17}, {4, 8, 12, 8, 8, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = (int64_t)cases[i].n * cases[i].m * BLOCK;
        char net[32];

        snprintf(net, sizeof net, "full2d:%dx%d", cases[i].n, cases[i].m);
        assert_near(coefficient(net, "alltoall", "xy", bytes, BLOCK, NULL, 0),
                    cases[i].xy);
        assert_near(
            coefficient(net, "alltoall", "half-split", bytes, BLOCK, NULL, 0),
            cases[i].half);
        assert_near(
            coefficient(net, "alltoall", "parity", bytes, BLOCK, NULL, 0),
            cases[i].parity);
        assert_near(
            coefficient(net, "alltoall", "direct", bytes, BLOCK, NULL, 0),
            cases[i].direct);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dln_coefficients_are_those_of_the_derivation),
        cmocka_unit_test(large_networks_approach_6_4_3_2),
        cmocka_unit_test(shd_halves_the_flows_on_the_shortcuts),
        cmocka_unit_test(kautz_costs_are_those_of_the_table),
        cmocka_unit_test(kautz_beats_the_dragonfly_of_equal_degree),
        cmocka_unit_test(half_split_reaches_the_lower_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
