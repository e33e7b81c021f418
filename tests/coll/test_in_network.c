/* Sums that switches make: times and loads that follow from the network by hand,
 * and networks that cannot. */
#include "paradl/coll.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const double N = 8e6;

static const struct sum_case {
    const char *topology;
    int trees, made;           /* asked; and made */
    double latency_s, busiest; /* bytes of N on the busiest link */
    double rate;               /* its own */
    double wire;               /* bytes of N on all links */
} cases[] = {
    /* up and down eight links */
    {"star:hosts=8,bw=1GB/s,lat=1us", 0, 1, 2e-6, 1, 1e9, 16},
    {"star:hosts=8,bw=1GB/s,lat=1us", 4, 4, 2e-6, 1, 1e9, 16},
    /* one link carries both ways */
    {"star:hosts=8,bw=1GB/s,lat=1us,duplex=shared", 0, 1, 2e-6, 2, 1e9, 16},
    /* 16 hosts, 4 leaves, a root: no more on a link where four hosts meet */
    {"fat-tree:down=4x4,up=1x1,bw=1GB/s,lat=1us", 0, 1, 4e-6, 1, 1e9, 40},
    {"fat-tree:down=4x4,up=1x2,bw=1GB/s,lat=1us", 2, 2, 4e-6, 1, 1e9, 40},
    /* an eighth of it on every rail; each GPU's NVLink has all of it, less
     * that of its own tree upwards */
    {"rail:nodes=4,gpus=8,bw=1GB/s,lat=1us,nvlink=100GB/s,nvlink-lat=250ns", 0,
     8, 3e-6, .125, 1e9, 2 * (4 * 7 + 4 + 4)},
    /* where NVLinks are the narrow ones: 7/8 up, and down to the leader */
    {"rail:nodes=4,gpus=8,bw=100GB/s,lat=1us,nvlink=1GB/s,nvlink-lat=250ns", 0,
     8, 3e-6, 1, 1e9, 2 * (4 * 7 + 4 + 4)},
    /* one tree is one rail: all of it there */
    {"rail:nodes=4,gpus=8,bw=1GB/s,lat=1us,nvlink=100GB/s,nvlink-lat=250ns", 1,
     1, 3e-6, 1, 1e9, 2 * (4 * 7 + 4 + 4)},
    /* one node: the NVSwitch */
    {"rail:nodes=1,gpus=8,bw=1GB/s,nvlink=2GB/s,nvlink-lat=250ns", 0, 1, .5e-6,
     1, 2e9, 16},
};

static void check_case(const struct sum_case *c)
{
    pdl_arena *a = pdl_arena_create(1 << 26);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_sim_result r;
    int trees = c->trees;
    double want = c->latency_s + N * c->busiest / c->rate;

    if (pdl_net_make(a, c->topology, &net, &err) != PDL_OK ||
        pdl_coll_in_network(a, net, net->nhosts, (int64_t)N, &trees, &r,
                            &err) != PDL_OK)
        fail_msg("%s: %s", c->topology, err.msg);
    assert_int_equal(trees, c->made);
    if (fabs(r.time_s / want - 1) > 1e-9 ||
        fabs((double)r.bytes_on_wire / (N * c->wire) - 1) > 1e-9 ||
        fabs(r.bounds.lower_s / want - 1) > .02)
        fail_msg("%s, %d trees: %g s, not %g; %g bytes, not %g; bound %g",
                 c->topology, trees, r.time_s, want, (double)r.bytes_on_wire,
                 N * c->wire, r.bounds.lower_s);
    pdl_arena_destroy(a);
}

static void sums_take_what_links_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(&cases[i]);
}

/* Half of what a ring sends through every host, at most. */
static void a_ring_takes_longer(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 26);
    const struct pdl_net *net = NULL;
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    struct pdl_coll_job job;
    struct pdl_traffic traffic;
    struct pdl_sim_result ring, sum;
    int trees = 0;

    (void)state;
    assert_int_equal(pdl_net_make(a, "fat-tree:down=8x8,up=1x8", &net, NULL),
                     PDL_OK);
    assert_int_equal(
        pdl_coll_job_make("allreduce", "ring", 64, 64 << 16, 4, &job, NULL),
        PDL_OK);
    pdl_coll_traffic(&job, NULL, &traffic);
    assert_int_equal(pdl_sim_run(a, net, &traffic, &config, &ring, NULL),
                     PDL_OK);
    assert_int_equal(
        pdl_coll_in_network(a, net, 64, 64 << 18, &trees, &sum, NULL), PDL_OK);
    assert_true(sum.time_s < .5 * ring.time_s);
    pdl_arena_destroy(a);
}

static void networks_without_such_switches_are_refused(void **state)
{
    static const char *const topologies[] = {"torus:4x4", "kautz:d=3",
                                             "tsubame3:nodes=2", "full2d:3x3"};

    (void)state;
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        pdl_arena *a = pdl_arena_create(1 << 26);
        const struct pdl_net *net = NULL;
        struct pdl_sim_result r;
        struct pdl_err err = {"", ""};
        int trees = 0;

        assert_int_equal(pdl_net_make(a, topologies[i], &net, NULL), PDL_OK);
        assert_int_equal(
            pdl_coll_in_network(a, net, net->nhosts, 1 << 20, &trees, &r, &err),
            PDL_EINVAL);
        assert_true(*err.msg);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_take_what_links_do),
        cmocka_unit_test(a_ring_takes_longer),
        cmocka_unit_test(networks_without_such_switches_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
