/* Simulated times against published ones: the allreduce algorithms of CCPE
 * 2021 on Tsubame3 and the sparse ones of IPCCC 2019 on ABCI, as the authors
 * logged them from SimGrid 3.19; and closed hand values of rings and
 * butterflies on fat trees and tori that SimGrid 3.32 gives. */
#include "coll_paper.h"

static double time_of(const char *topology, const char *alg, int p,
                      int64_t bytes, double density, enum pdl_wire wire)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net = network(a, topology);
    struct pdl_coll_job job = job_on(net, "allreduce", alg, p, bytes, density);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT, .wire = wire};
    struct pdl_sim_result got;
    struct pdl_traffic traffic;
    struct pdl_err err = {"", ""};

    if (wire == PDL_WIRE_SMPI)
        config.weight_s = PDL_WEIGHT_S_SMPI;
    pdl_coll_traffic(&job, NULL, &traffic);
    if (pdl_sim_run(a, net, &traffic, &config, &got, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return got.time_s;
}

static void compare(const char *what, double got, double want, double tolerance)
{
    double off = got / want - 1;

    if (fabs(off) > tolerance)
        fail_msg("%s: %.6g, published %.6g (%+.2f %%, allowed %.2f %%)", what,
                 got, want, 100 * off, 100 * tolerance);
}

/* Milliseconds, P = 256, k = 4. Where messages are short the nodes of the
 * flat ring (and, at 1-4 MiB, of ring-ring) drift apart over the authors' 1000
 * repetitions, so one repetition differs. */
static void ccpe_times_on_tsubame3(void **state)
{
    static const char *const algs[] = {"ring",          "ring-ring",
                                       "ring-rab",      "ring-rdb",
                                       "binomial-ring", "binomial-binomial"};
    static const struct {
        int mib;
        double ms[6], tolerance[6];
    } rows[] = {
        // clang-format off
        {1,   {1.00508, 0.37501, 0.261207, 0.628079, 0.713186, 1.25033},
              {0.01, 0.03, 0.001, 0.001, 0.02, 0.001}},
        {2,   {1.50473, 0.619716, 0.487771, 1.20697, 1.16174, 2.40809},
              {0.20, 0.001, 0.001, 0.001, 0.01, 0.001}},
        {4,   {2.57118, 1.16057, 0.926743, 2.36476, 2.75589, 4.72361},
              {0.01, 0.01, 0.001, 0.001, 0.001, 0.001}},
        {8,   {3.69864, 2.02446, 1.78955, 4.68029, 4.45851, 9.35469},
              {0.01, 0.002, 0.001, 0.001, 0.001, 0.001}},
        {16,  {9.32531, 4.45857, 3.50368, 9.31139, 7.86373, 18.6168},
              {0.10, 0.001, 0.001, 0.001, 0.001, 0.001}},
        {32,  {14.262, 7.86385, 6.90898, 18.5736, 14.6742, 37.1411},
              {0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
        {64,  {25.8397, 14.6745, 13.7196, 37.098, 28.2951, 74.1896},
              {0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
        {128, {48.9952, 28.2955, 27.3408, 74.1467, 55.5369, 148.286},
              {0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 6; k++) {
            char what[64];

            snprintf(what, sizeof what, "%s, %d MiB", algs[k], rows[i].mib);
            compare(what,
                    1e3 * time_of("tsubame3:nodes=64", algs[k], 0,
                                  (int64_t)rows[i].mib << 20, 0, PDL_WIRE_SMPI),
                    rows[i].ms[k], rows[i].tolerance[k]);
        }
}

/* 32 MiB on P = 32, 64, 128 GPUs. */
static void ccpe_times_by_network_size(void **state)
{
    static const struct {
        int nodes;
        double ring, ring_ring, ring_rab;
    } rows[] = {{8, 11.5863, 6.24865, 6.20659},
                {16, 12.1047, 6.74008, 6.60376},
                {32, 12.8692, 7.13709, 6.80179}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char net[32];

        snprintf(net, sizeof net, "tsubame3:nodes=%d", rows[i].nodes);
        compare("ring",
                1e3 * time_of(net, "ring", 0, 32 << 20, 0, PDL_WIRE_SMPI),
                rows[i].ring, 0.001);
        compare("ring-ring",
                1e3 * time_of(net, "ring-ring", 0, 32 << 20, 0, PDL_WIRE_SMPI),
                rows[i].ring_ring, 0.001);
        compare("ring-rab",
                1e3 * time_of(net, "ring-rab", 0, 32 << 20, 0, PDL_WIRE_SMPI),
                rows[i].ring_rab, 0.001);
    }
}

/* 128 MiB on 64 GPUs: all within 6 %, and 8 segments are best. */
static void ccpe_pipeline_is_best_with_8_segments(void **state)
{
    static const struct {
        int segments;
        double ms;
    } rows[] = {
        {2, 25.381}, {4, 24.557}, {8, 24.192}, {16, 24.583}, {32, 26.422}};
    double best = 1;
    int at = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char alg[64];
        double t;

        snprintf(alg, sizeof alg, "ring-ring-pipelined:k=4,segments=%d",
                 rows[i].segments);
        t = time_of("tsubame3:nodes=16", alg, 0, (int64_t)128 << 20, 0,
                    PDL_WIRE_SMPI);
        compare(alg, 1e3 * t, rows[i].ms, 0.06);
        if (t < best) {
            best = t;
            at = rows[i].segments;
        }
    }
    assert_int_equal(at, 8);
}

/* 33554432 elements, density 2^-7. The logs contain the time to add and merge,
 * 0.6-3.4 % by the authors' count, which is not simulated. */
static void ipccc_times_on_abci(void **state)
{
    static const struct {
        const char *alg;
        double ms[4], tolerance[4]; /* P = 8, 16, 32, 64 */
    } rows[] = {
        // clang-format off
        {"ring", {23.119, 27.458, 33.880, 51.842}, {0.02, 0.02, 0.02, 0.03}},
        {"ring-ring", {15.050, 21.613, 25.880, 37.416},
         {0.02, 0.02, 0.02, 0.02}},
        {"dsar", {24.097, 41.785, 50.636, 54.915}, {0.01, 0.01, 0.01, 0.01}},
        {"ssar", {4.051, 9.959, 20.180, 38.320}, {0.04, 0.04, 0.04, 0.04}},
        {"sparse-ring", {4.505, 9.447, 19.083, 37.752},
         {0.03, 0.03, 0.03, 0.09}},
        {"sparse-ring-ring", {2.356, 5.296, 10.823, 25.013},
         {0.06, 0.04, 0.04, 0.04}},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 4; k++)
            compare(rows[i].alg,
                    1e3 * time_of("abci:nodes=68", rows[i].alg, 8 << k,
                                  (int64_t)128 << 20, 0.0078125, PDL_WIRE_SMPI),
                    rows[i].ms[k], rows[i].tolerance[k]);
}

/* The reconstruction of CCGrid 2021, timed with SimGrid 3.19 on DLN(q,p) of
 * nodes with 4 GPUs and 2 adapters in ABCI's constants: 100 MiB, ms. Acceptance
 * by comm.md 3.6: SHD / HD between 0.70 and 0.77. */
static void shd_times_on_dln(void **state)
{
    static const struct {
        const char *net;
        double ms[3], tolerance[3]; /* ring, halving-doubling, shd */
    } rows[] = {
        // clang-format off
        {"dln-gpu:q=3,p=2", {40.410, 46.127, 32.507}, {0.002, 0.002, 0.002}},
        {"dln-gpu:q=4,p=1", {40.411, 39.321, 23.430}, {0.002, 0.002, 0.002}},
        {"dln-gpu:q=4,p=3", {109.249, 53.645, 37.746}, {0.002, 0.002, 0.002}},
        {"dln-gpu:q=5,p=4", {383.805, 56.550, 40.742}, {0.002, 0.03, 0.002}},
        {"dln-gpu:q=3,p=2,duplex=full", {40.090, 23.947, 17.184},
         {0.002, 0.002, 0.002}},
        {"dln-gpu:q=4,p=3,duplex=full", {108.924, 28.111, 20.167},
         {0.002, 0.002, 0.002}},
        {"dln-gpu:q=5,p=4,duplex=full", {383.475, 29.457, 22.013},
         {0.002, 0.04, 0.002}},
        // clang-format on
    };
    static const char *const algs[] = {"ring", "halving-doubling", "shd"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double t[3];

        for (int k = 0; k < 3; k++) {
            char what[96];

            snprintf(what, sizeof what, "%s on %s", algs[k], rows[i].net);
            t[k] = 1e3 * time_of(rows[i].net, algs[k], 0, (int64_t)100 << 20, 0,
                                 PDL_WIRE_SMPI);
            compare(what, t[k], rows[i].ms[k], rows[i].tolerance[k]);
        }
        if (i != 1) /* the q = p+1 family */
            assert_true(t[2] / t[1] > 0.70 && t[2] / t[1] < 0.77);
    }
}

/* ---- energy over repetitions --------------------------------------------- */

/* The same chain of operations several times, as the authors' program calls
 * MPI_Allreduce in a loop: a link counts from its first use. */
struct loop {
    struct pdl_traffic once;
    int times;
};

static int64_t loop_nops(void *ctx, int rank)
{
    const struct loop *l = ctx;

    return l->times * l->once.nops(l->once.ctx, rank);
}

static void loop_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct loop *l = ctx;

    l->once.op(l->once.ctx, rank, i % l->once.nops(l->once.ctx, rank), out);
    out->nafter = i > 0;
    out->after[0] = i - 1;
}

static double energy_of(const char *alg, int64_t bytes, int times)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net = network(a, "tsubame3:nodes=64");
    struct pdl_coll_job job = job_on(net, "allreduce", alg, 0, bytes, 0);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT,
                                    .wire = PDL_WIRE_SMPI,
                                    .weight_s = PDL_WEIGHT_S_SMPI,
                                    .energy = PDL_ENERGY_PLUGIN};
    struct loop l = {.times = times};
    struct pdl_traffic traffic = {.nranks = job.nranks,
                                  .ctx = &l,
                                  .nops = loop_nops,
                                  .op = loop_op,
                                  .window = 1};
    struct pdl_sim_result got;
    struct pdl_err err = {"", ""};

    pdl_coll_traffic(&job, NULL, &l.once);
    if (pdl_sim_run(a, net, &traffic, &config, &got, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return got.energy_j;
}

/* CCPE 2021: link energy of one of many allreduces of 32 MiB on 256 GPUs; "up
 * to 23 % less" is ring-ring against ring. */
static void ccpe_energy_on_tsubame3(void **state)
{
    static const struct {
        const char *alg;
        double j;
    } rows[] = {{"ring", 94.738}, {"ring-ring", 72.992}, {"ring-rab", 64.352}};
    double got[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        got[i] = energy_of(rows[i].alg, 32 << 20, 3) -
                 energy_of(rows[i].alg, 32 << 20, 2);
        print_message("%s %.3f J, published %.3f J\n", rows[i].alg, got[i],
                      rows[i].j);
        compare(rows[i].alg, got[i], rows[i].j, 0.001);
    }
    assert_true(fabs((1 - got[1] / got[0]) - 0.23) < 0.01);
}

/* net.md 1.3: 100 MiB, 12.5 GB/s, 1 us a link; seconds. */
static void simgrid_times_on_fat_trees_and_tori(void **state)
{
    static const struct {
        const char *net, *alg;
        double s;
    } rows[] = {
        // clang-format off
        {"fat-tree:down=8x8,up=1x8,links=1x1", "halving-doubling-far", .016551072},
        {"fat-tree:down=8x8,up=1x8,links=1x1", "recursive-doubling", .050349648},
        {"fat-tree:down=8x8,up=1x8,links=1x1", "ring", .017019072},
        {"fat-tree:down=16x16,up=1x16,links=1x1", "halving-doubling-far", .01675968},
        {"fat-tree:down=16x16,up=1x16,links=1x1", "recursive-doubling", .067132864},
        {"fat-tree:down=16x16,up=1x16,links=1x1", "ring", .01875168},
        {"fat-tree:down=32x32,up=1x32,links=1x1", "halving-doubling-far", .016820832},
        {"fat-tree:down=32x32,up=1x32,links=1x1", "recursive-doubling", .08391608},
        {"fat-tree:down=32x32,up=1x32,links=1x1", "ring", .024944832},
        {"torus:8x8", "halving-doubling-far", .049573216},
        {"torus:8x8", "recursive-doubling", .117454512},
        {"torus:8x8", "ring", .016767072},
        {"torus:16x16", "halving-doubling-far", .09475952},
        {"torus:16x16", "recursive-doubling", .25168824},
        {"torus:16x16", "ring", .01773168},
        {"torus:8x8x16", "halving-doubling-far", .092283536},
        {"torus:8x8x16", "recursive-doubling", .243298632},
        {"torus:8x8x16", "ring", .022898832},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char net[96];
        double t;

        snprintf(net, sizeof net, "%s,bw=12.5GB/s,lat=1us", rows[i].net);
        t = time_of(net, rows[i].alg, 0, (int64_t)100 << 20, 0, PDL_WIRE_PLAIN);
        if (fabs(t - rows[i].s) > 1e-9)
            fail_msg("%s on %s: %.9f, SimGrid %.9f", rows[i].alg, rows[i].net,
                     t, rows[i].s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ccpe_times_on_tsubame3),
        cmocka_unit_test(ccpe_times_by_network_size),
        cmocka_unit_test(ccpe_pipeline_is_best_with_8_segments),
        cmocka_unit_test(ipccc_times_on_abci),
        cmocka_unit_test(shd_times_on_dln),
        cmocka_unit_test(ccpe_energy_on_tsubame3),
        cmocka_unit_test(simgrid_times_on_fat_trees_and_tori),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
