/* Two hosts and a cable: the factors of SMPI's model and the energy of links
 * are the formulas. */
#include "allreduce_traffic.h"

static double factor_of(double bytes, double *bound)
{
    *bound = bytes > 65472 ? 0.940694 : 0.58729; /* 1 MiB and 10 kB */
    return bytes > 65472 ? 11.6436 : 2.59299;
}

static int pair_route(const struct pdl_net *net, int src, int dst, int *links)
{
    if (src == dst)
        return 0;
    links[0] = net->links[0].shared ? 0 : src;
    return 1;
}

/* Two hosts and a cable, shared or duplex. */
static void pair_net(bool shared, struct pdl_link *links, struct pdl_net *net)
{
    for (int l = 0; l < 2; l++)
        links[l] = (struct pdl_link){.from = l,
                                     .to = 1 - l,
                                     .bytes_per_s = 1e10,
                                     .latency_s = 1e-6,
                                     .shared = shared,
                                     .idle_w = 10,
                                     .peak_w = 30,
                                     .reverse = shared ? 0 : 1 - l};
    *net = (struct pdl_net){.spec = "pair",
                            .nhosts = 2,
                            .nlinks = shared ? 1 : 2,
                            .links = links,
                            .route = pair_route};
}

static int64_t single_nops(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return 1;
}

/* Rank 0 sends to rank 1, which (if both) sends as much back. */
struct single {
    int64_t bytes;
    bool both;
};

static void single_op(void *ctx, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    const struct single *s = ctx;
    bool sends = rank == 0 || s->both, receives = rank == 1 || s->both;

    exchange(i, sends ? 1 - rank : -1, receives ? 1 - rank : -1, s->bytes,
             s->bytes, out);
}

static void smpi_times_are_the_formula(void **state)
{
    static const int64_t sizes[] = {1 << 20, 10000};

    (void)state;
    for (int i = 0; i < 8; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct single s = {sizes[i / 4], i % 2};
        struct pdl_traffic t = {
            .nranks = 2, .ctx = &s, .nops = single_nops, .op = single_op};
        struct pdl_sim_config config = {.wire = PDL_WIRE_SMPI};
        struct pdl_link links[2];
        struct pdl_net net;
        struct pdl_sim_result out;
        bool shared = i / 2 % 2;
        double bytes = (double)s.bytes, bound, use, latency, want;

        pair_net(shared, links, &net);
        latency = 1e-6 * factor_of(bytes, &bound);
        use = shared ? 1.05 * (1 + s.both) : s.both ? 1.05 : 1;
        want = latency + bytes / (1e10 * fmin(bound, 0.97 / use));
        out = run(a, &net, &t, &config);
        if (fabs(out.time_s - want) > 1e-12 * want)
            fail_msg("case %d: %.15g, not %.15g", i, out.time_s, want);
        /* a send below 64 KiB does not hold its sender */
        if (!s.both)
            assert_true(s.bytes >= 65536 ? out.finish_s[0] == out.time_s
                                         : out.finish_s[0] == 0);
        pdl_arena_destroy(a);
    }
}

static int64_t there_and_back_nops(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return 2;
}

static void there_and_back_op(void *ctx, int rank, int64_t i,
                              struct pdl_traffic_op *out)
{
    bool sends = rank == i;

    (void)ctx;
    exchange(i, sends ? 1 - rank : -1, sends ? -1 : 1 - rank, 1000000, 1000000,
             out);
}

static void energy_is_the_formula(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct single s = {1000000, false};
    struct pdl_traffic t = {
        .nranks = 2, .ctx = &s, .nops = single_nops, .op = single_op};
    struct pdl_sim_config config = {.energy = PDL_ENERGY_INTEGRATE,
                                    .links = true};
    struct pdl_link links[2];
    struct pdl_net net;
    struct pdl_sim_result out;

    (void)state;
    pair_net(false, links, &net);
    /* 1 us latency, then 100 us at the full rate; the way back costs nothing */
    out = run(a, &net, &t, &config);
    assert_true(fabs(out.energy_j - (10 * 101e-6 + 20 * 100e-6)) < 1e-15);
    assert_true(out.links[1].energy_j == 0 && out.links[1].first_s < 0);
    config.energy = PDL_ENERGY_PLUGIN; /* latency charged as busy */
    out = run(a, &net, &t, &config);
    assert_true(fabs(out.energy_j - 30 * 101e-6) < 1e-15);
    /* and back: the way back costs from its first use on, the way there draws
     * idle power while it waits */
    t.nops = there_and_back_nops;
    t.op = there_and_back_op;
    out = run(a, &net, &t, &config);
    assert_true(fabs(out.links[0].energy_j - 30 * 101e-6 - 10 * 101e-6) <
                1e-15);
    assert_true(fabs(out.links[1].energy_j - 30 * 101e-6) < 1e-15);
    config.energy = PDL_ENERGY_INTEGRATE;
    out = run(a, &net, &t, &config);
    assert_true(fabs(out.energy_j - 10 * 303e-6 - 20 * 200e-6) < 1e-15);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smpi_times_are_the_formula),
        cmocka_unit_test(energy_is_the_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
