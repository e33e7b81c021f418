/* Flows in time: hand cases, the permutations of SimGrid flow by flow and in
 * the mean, what one flow sees, and what is refused. */
#include "net_cases.h"

static const struct {
    const char *name;
    struct hand net;
    int nflows;
    int64_t mbytes[4];
    enum pdl_share share;
    double want_ms[4];
} hand_cases[] = {
    {"1: the slower link",
     {{10, 5}, 1, {"AB"}},
     1,
     {10},
     PDL_SHARE_FAIR,
     {2.002}},
    {"2: what one cannot use the other gets",
     {{10, 2, 100}, 1, {"AC", "AB"}},
     2,
     {80, 40},
     PDL_SHARE_FAIR,
     {10.002, 20.002}},
    {"3: fair",
     {{10, 10, 10}, 10, {"ABC", "A", "B", "B"}},
     4,
     {10, 30, 10, 20},
     PDL_SHARE_FAIR,
     {3.020, 4.010, 3.000, 4.010}},
    /* rtt weights: by SimGrid, and by hand 2/3 of a second as 3.67333.. */
    {"3: rtt",
     {{10, 10, 10}, 10, {"ABC", "A", "B", "B"}},
     4,
     {10, 30, 10, 20},
     PDL_SHARE_RTT,
     {4.010, 3.67 + 0.01 / 3, 2.340, 3.67 + 0.01 / 3}},
    {"4: starts in one instant",
     {{10, 10, 10, 10, 6}, 1, {"AC", "AE", "BD", "BE"}},
     4,
     {70, 30, 70, 30},
     PDL_SHARE_FAIR,
     {10.002, 10.002, 10.002, 10.002}},
    {"a link passed twice counts twice",
     {{10}, 1, {"AA"}},
     1,
     {10},
     PDL_SHARE_FAIR,
     {2.002}},
};

static void hand_cases_come_out(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof hand_cases / sizeof hand_cases[0]; c++) {
        struct pdl_sim_config config = {.share = hand_cases[c].share};
        struct pdl_link links[HAND_LINKS];
        struct pdl_flow flows[4];
        double got[4];
        struct pdl_net net;

        hand_net(&hand_cases[c].net, links, &net);
        for (int i = 0; i < hand_cases[c].nflows; i++)
            flows[i] = (struct pdl_flow){2 * i, 2 * i + 1,
                                         1000000 * hand_cases[c].mbytes[i], 0};
        assert_int_equal(pdl_sim_flows(NULL, &net, flows, hand_cases[c].nflows,
                                       &config, got, NULL, NULL),
                         PDL_OK);
        for (int i = 0; i < hand_cases[c].nflows; i++)
            if (fabs(1e3 * got[i] - hand_cases[c].want_ms[i]) > 1e-9)
                fail_msg("case %s, flow %d: %.12g ms", hand_cases[c].name, i,
                         1e3 * got[i]);
    }
}

static void permutation_64x2_equals_simgrid_flow_by_flow(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT};
    const struct pdl_net *net = anchor_net(a, "ft64");
    FILE *f =
        fopen(PDL_SOURCE_DIR "/tests/data/net/perm64x2_simgrid_full.txt", "r");
    struct pdl_flow *flows;
    double got[128], want, mean = 0, worst = 0;
    int n = permutations(a, 64, 2, &flows), src, dst;
    long long bytes;

    (void)state;
    assert_non_null(f);
    assert_int_equal(n, 124);
    assert_int_equal(pdl_sim_flows(a, net, flows, n, &config, got, NULL, NULL),
                     PDL_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(fscanf(f, "%d %d %lld %lf", &src, &dst, &bytes, &want),
                         4);
        assert_int_equal(src, flows[i].src);
        assert_int_equal(dst, flows[i].dst);
        assert_true(bytes == flows[i].bytes);
        worst = fmax(worst, fabs(got[i] - want));
        mean += got[i] / n;
    }
    fclose(f);
    if (worst > 1e-8)
        fail_msg("off by %g s", worst);
    assert_true(fabs(mean - 8.738257993) < 1e-9);
    /* without the weights it is seconds off: the file tests them */
    config.share = PDL_SHARE_FAIR;
    assert_int_equal(pdl_sim_flows(a, net, flows, n, &config, got, NULL, NULL),
                     PDL_OK);
    mean = 0;
    for (int i = 0; i < n; i++)
        mean += got[i] / n;
    assert_true(fabs(mean - 8.738257993) > 1e-3);
    pdl_arena_destroy(a);
}

static void permutation_means_equal_simgrid(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_doc *perm = pdl_doc_get(anchors(a), "permutation");
    const struct pdl_doc *d = pdl_doc_get(perm, "mean_fct_full")->child;
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT};

    (void)state;
    for (; d; d = d->next) {
        const struct pdl_doc *last =
            pdl_doc_get(pdl_doc_get(perm, "makespan"), d->key);
        double want, end, mean = 0, *got, cpu;
        struct pdl_sim_result out;
        struct pdl_flow *flows;
        char name[32];
        int hosts, rounds, n;

        assert_int_equal(sscanf(d->key, "%dx%d", &hosts, &rounds), 2);
        snprintf(name, sizeof name, "ft%d", hosts);
        n = permutations(a, hosts, rounds, &flows);
        got = PDL_NEW(a, double, n);
        cpu = pdl_cpu_s();
        assert_int_equal(pdl_sim_flows(a, anchor_net(a, name), flows, n,
                                       &config, got, &out, NULL),
                         PDL_OK);
        cpu = pdl_cpu_s() - cpu;
        for (int i = 0; i < n; i++)
            mean += got[i] / n;
        assert_int_equal(pdl_doc_num(d, PDL_UNIT_NONE, 0, 1e9, &want, NULL),
                         PDL_OK);
        print_message("%s: %d flows, mean %.9f (SimGrid %.9f), %lld solves, "
                      "%.3f s\n",
                      d->key, n, mean, want, (long long)out.solves, cpu);
        assert_true(fabs(mean - want) < 1e-9);
        if (last) {
            assert_int_equal(
                pdl_doc_num(last, PDL_UNIT_NONE, 0, 1e9, &end, NULL), PDL_OK);
            assert_true(fabs(out.time_s - end) < 1e-8);
        }
    }
    pdl_arena_destroy(a);
}

static void wrong_flows_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, "ft64");
    static const struct pdl_flow wrong[] = {
        {-1, 2, 1, 0}, {1, 64, 1, 0}, {1, 2, -1, 0}, {1, 2, 1, -1}};
    struct pdl_err err = {"", ""};
    double got;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pdl_sim_flows(a, net, &wrong[i], 1, NULL, &got, NULL, &err),
            PDL_EINVAL);
    assert_string_equal(err.msg, "flow 0 has 1 bytes and starts at -1 s");
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_cases_come_out),
        cmocka_unit_test(permutation_64x2_equals_simgrid_flow_by_flow),
        cmocka_unit_test(permutation_means_equal_simgrid),
        cmocka_unit_test(wrong_flows_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
