/* Where memory and traffic are: the fullest lane is the projection's, and what
 * crosses a network is what the plan's collectives send, link by link. */
#include "paradl/net.h"
#include "plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct job {
    pdl_arena *a;
    struct pdl_system sys;
    const struct pdl_plan *p;
    struct pdl_oracle_options opt;
    struct pdl_projection x;
};

static void open_job(struct job *j, const char *model, const char *strategy,
                     int64_t batch)
{
    struct pdl_err err = {"", ""};

    memset(j, 0, sizeof *j);
    j->a = pdl_arena_create(PDL_ARENA_DEFAULT);
    j->sys = open_system(j->a, "abci-v100");
    j->p = lower(j->a, model, strategy, batch);
    j->opt.precision = PDL_PREC_FP32;
    j->opt.optimizer_slots = 1;
    if (pdl_project(j->p, &j->sys, &j->opt, &j->x, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
}

static void the_fullest_lane_is_the_projections(void **state)
{
    static const char *const strategies[] = {
        "data=4", "pipe=4(m=4)", "pipe=2(m=4),data=2",
        "pipe=2(interleaved,v=2,m=4)", "data=2,filter=2"};

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        struct pdl_lane_memory lanes;
        struct pdl_err err = {"", ""};
        int64_t most = 0;
        struct job j;

        open_job(&j, "resnet18", strategies[i], 32);
        assert_int_equal(
            pdl_lane_memory(j.a, j.p, &j.sys, &j.opt, &lanes, &err), PDL_OK);
        assert_int_equal(lanes.n, j.p->lanes);
        for (int l = 0; l < lanes.n; l++) {
            assert_true(lanes.lane[l].peak_bytes > 0);
            most = lanes.lane[l].peak_bytes > most ? lanes.lane[l].peak_bytes
                                                   : most;
        }
        assert_int_equal(most, j.x.peak_bytes);
        pdl_arena_destroy(j.a);
    }
}

/* Bytes of all gradients that a data-parallel plan sums, by the plan. */
static int64_t gradient_bytes(const struct pdl_plan *p)
{
    int64_t n = 0;

    for (int i = 0; i < p->nops; i++) {
        struct pdl_work w;

        if (p->ops[i].kind != PDL_PLAN_OP_ALLREDUCE)
            continue;
        pdl_plan_op_work(p, i, 0, &w);
        n += w.read_bytes;
    }
    return n;
}

static int64_t *traffic(struct job *j, const char *topology,
                        const struct pdl_net **net)
{
    struct pdl_err err = {"", ""};
    int64_t *bytes;

    if (pdl_net_make(j->a, topology, net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    bytes = PDL_NEW(j->a, int64_t, (*net)->nlinks + 1);
    if (pdl_link_traffic(j->a, j->p, *net, 1, bytes, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return bytes;
}

/* Every host of a star sends and receives 2(p-1)/p of the gradients. */
static void a_ring_loads_every_link_of_a_star_alike(void **state)
{
    const struct pdl_net *net;
    struct job j;
    int64_t *bytes, want;

    (void)state;
    open_job(&j, "resnet18", "data=4", 32);
    bytes = traffic(&j, "star:hosts=4", &net);
    want = gradient_bytes(j.p) * 2 * 3 / 4;
    assert_true(want > 0);
    for (int i = 0; i < net->nlinks; i++)
        if (llabs(bytes[i] - want) > 64)
            fail_msg("link %d has %lld bytes, wanted %lld", i,
                     (long long)bytes[i], (long long)want);
    pdl_arena_destroy(j.a);
}

/* An algorithm that the strategy names loads links by its own program: a
 * reduction to one rank and back, in trees, is 2(p-1) messages of everything,
 * and the busiest link of a star carries log2 p of them each way. */
static void a_named_algorithm_loads_links_by_its_program(void **state)
{
    const struct pdl_net *net;
    int64_t *bytes, all, sum = 0, most = 0, least = INT64_MAX;
    struct job j;

    (void)state;
    open_job(&j, "resnet18", "data=4,allreduce=binomial", 32);
    bytes = traffic(&j, "star:hosts=4", &net);
    all = gradient_bytes(j.p);
    for (int i = 0; i < net->nlinks; i++) {
        sum += bytes[i];
        most = bytes[i] > most ? bytes[i] : most;
        least = bytes[i] < least ? bytes[i] : least;
    }
    assert_true(all > 0);
    assert_int_equal(sum, 2 * 6 * all); /* up one link, down another */
    assert_int_equal(most, 2 * all);
    assert_int_equal(least, all);
    pdl_arena_destroy(j.a);
}

/* Messages between two stages cross the link between their hosts, once for
 * each micro-batch and direction, and nothing else crosses anything. */
static void stages_send_what_the_plan_sends(void **state)
{
    const struct pdl_net *net;
    int64_t *bytes, want = 0, sum = 0;
    struct job j;

    (void)state;
    open_job(&j, "resnet18", "pipe=2(m=4)", 32);
    for (int i = 0; i < j.p->nops; i++)
        if (j.p->ops[i].kind == PDL_PLAN_OP_SEND) {
            struct pdl_work w;

            pdl_plan_op_work(j.p, i, j.p->tensors[j.p->ops[i].in[0]].stage, &w);
            want += 4 * w.read_bytes;
        }
    bytes = traffic(&j, "star:hosts=2", &net);
    for (int i = 0; i < net->nlinks; i++)
        sum += bytes[i];
    assert_true(want > 0);
    assert_int_equal(sum, 2 * want); /* up one link, down another */
    pdl_arena_destroy(j.a);
}

/* Halos pass between neighbours only. */
static void halos_stay_between_neighbours(void **state)
{
    const struct pdl_net *net;
    int64_t *bytes, far = 0, near = 0;
    struct job j;

    (void)state;
    open_job(&j, "resnet18", "spatial=4", 8);
    bytes = traffic(&j, "torus:4", &net);
    for (int i = 0; i < net->nlinks; i++) {
        int a = net->links[i].from, b = net->links[i].to;

        *(abs(a - b) == 3 ? &far : &near) += bytes[i];
    }
    /* the ring of gradients closes over the far link, halos do not */
    assert_true(near > 3 * far);
    pdl_arena_destroy(j.a);
}

/* What the price spreads over all adapters of a node the picture does, too: no
 * link carries more in a step than it can. */
static void no_link_carries_more_than_it_can(void **state)
{
    static const char *const strategies[] = {
        "data=64,zero=1", "data=64,zero=3", "data=8,tensor=8+seq,zero=1",
        "pipe=4(m=8),data=4,tensor=4+seq,zero=1", "data=16,context=4,zero=1"};
    static const char *const model = "llama:layers=4,hidden=4096,heads=32,"
                                     "ffn=8192,vocab=32000,seq=512";

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        struct pdl_oracle_options opt = {.precision = PDL_PREC_BF16,
                                         .optimizer_slots = 2};
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_system sys = open_system(a, "dgx-h100:nodes=8");
        const struct pdl_plan *p = lower_as(
            a, model, strategies[i],
            &(struct pdl_plan_options){.batch = 64, .dtype = PDL_BF16});
        const struct pdl_net *net = NULL;
        struct pdl_projection x = {0};
        struct pdl_err err = {"", ""};
        const char *spec = NULL;
        int64_t *bytes;

        if (pdl_system_topology(a, &sys, &spec, &err) != PDL_OK ||
            pdl_net_make(a, spec, &net, &err) != PDL_OK ||
            pdl_project(p, &sys, &opt, &x, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        bytes = PDL_NEW(a, int64_t, net->nlinks + 1);
        assert_int_equal(pdl_link_traffic(a, p, net, sys.node.pes, bytes, &err),
                         PDL_OK);
        for (int k = 0; k < net->nlinks; k++)
            if ((double)bytes[k] > 1.01 * net->links[k].bytes_per_s * x.step_s)
                fail_msg("%s: link %d %.0f %%", strategies[i], k,
                         100 * (double)bytes[k] /
                             (net->links[k].bytes_per_s * x.step_s));
        pdl_arena_destroy(a);
    }
}

static void too_small_a_network_is_refused(void **state)
{
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    int64_t bytes[64];
    struct job j;

    (void)state;
    open_job(&j, "resnet18", "data=4", 32);
    assert_int_equal(pdl_net_make(j.a, "star:hosts=2", &net, &err), PDL_OK);
    assert_int_equal(pdl_link_traffic(j.a, j.p, net, 1, bytes, &err),
                     PDL_EINVAL);
    assert_non_null(strstr(err.msg, "2 hosts, not 4"));
    pdl_arena_destroy(j.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_lane_is_the_projections),
        cmocka_unit_test(no_link_carries_more_than_it_can),
        cmocka_unit_test(a_ring_loads_every_link_of_a_star_alike),
        cmocka_unit_test(a_named_algorithm_loads_links_by_its_program),
        cmocka_unit_test(stages_send_what_the_plan_sends),
        cmocka_unit_test(halos_stay_between_neighbours),
        cmocka_unit_test(too_small_a_network_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
