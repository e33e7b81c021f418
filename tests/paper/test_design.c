/* Published co-design results from our own counts: Rail-only's savings by the
 * size of the NVLink domain (arXiv 2307.12169v5), and the goodput of Llama 3
 * (arXiv 2407.21783). */
#include "paradl/design.h"
#include "paradl/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

enum { GPUS = 32768 };

struct network {
    double ports, optics; /* every cable has two transceivers */
};

static struct network counted(const char *family, int domain)
{
    pdl_arena *a = pdl_arena_create((size_t)4 << 30);
    struct pdl_system sys;
    struct pdl_fabric f = {.spec = NULL};
    const struct pdl_net *net = NULL;
    struct pdl_net_bill b = {.hosts = 0};
    struct network n;
    char name[80];

    snprintf(name, sizeof name, "dgx-h100:pes_per_node=%d,nic=%dx50GB/s",
             domain, domain);
    assert_int_equal(pdl_system_open(a, name, &sys, NULL), PDL_OK);
    assert_int_equal(pdl_fabric_make(a, family, &sys, GPUS / domain, &f, NULL),
                     PDL_OK);
    assert_int_equal(pdl_net_make(a, f.spec, &net, NULL), PDL_OK);
    assert_int_equal(pdl_net_bill(a, net, &b, NULL), PDL_OK);
    n.ports = (double)(b.ports * f.planes);
    n.optics = 2 * (double)((b.near_cables + b.far_cables) * f.planes);
    pdl_arena_destroy(a);
    return n;
}

static double saved(const struct network *clos, const struct network *rail,
                    double port, double optic)
{
    return 1 - (rail->ports * port + rail->optics * optic) /
                   (clos->ports * port + clos->optics * optic);
}

static double price(const struct pdl_prices *p, const char *item)
{
    assert_non_null(pdl_price_find(p, item));
    return pdl_price_find(p, item)->value;
}

/* 32,768 GPUs on switches of 64 ports. Published: cost -38 to -77 %, power -37
 * to -75 %. */
static void rail_only_saves_more_the_larger_the_domain(void **state)
{
    static const int domains[] = {16, 64, 256, 512};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct network clos = counted("fat-tree", 8);
    struct pdl_prices p;
    double cost[4], power[4];

    (void)state;
    assert_int_equal(pdl_prices_open(a, "public", &p, NULL), PDL_OK);
    for (int i = 0; i < 4; i++) {
        struct network rail = counted("rail-only", domains[i]);

        cost[i] = saved(&clos, &rail, price(&p, "switch"), price(&p, "optic"));
        power[i] = saved(&clos, &rail, price(&p, "power.switch"),
                         price(&p, "power.optic"));
        print_message("domain %d: cost -%.1f %%, power -%.1f %%\n", domains[i],
                      100 * cost[i], 100 * power[i]);
        assert_true(i == 0 || (cost[i] >= cost[i - 1] - 1e-9 &&
                               power[i] >= power[i - 1] - 1e-9));
    }
    assert_true(fabs(power[0] - 0.37) < 0.03 && fabs(power[3] - 0.75) < 0.03);
    /* with today's prices optics weigh more than in the paper */
    assert_true(fabs(cost[0] - 0.38) < 0.05 && fabs(cost[3] - 0.77) < 0.06);
    pdl_arena_destroy(a);
}

/* Messages to other rails pass the NVSwitch first. Published: all-to-all of
 * experts +8.2 to +11.2 %. */
static void experts_pay_for_forwarding(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    double wire = 0, inside = 0;
    int links[PDL_MAX_ROUTE];

    (void)state;
    assert_int_equal(
        pdl_net_make(a,
                     "rail:nodes=16,gpus=8,spines=0,nvlink=450GB/s,bw=50GB/s",
                     &net, NULL),
        PDL_OK);
    for (int dst = 8; dst < net->nhosts; dst++) { /* of the other nodes */
        int n = net->route(net, 0, dst, links);

        for (int i = 0; i < n; i++) {
            const struct pdl_link *k = &net->links[links[i]];
            double s = 1 / k->bytes_per_s;

            if (k->from == 0 && k->bytes_per_s > 100e9)
                inside += s; /* up to the NVSwitch */
            if (k->from < net->nhosts && k->bytes_per_s < 100e9)
                wire += s; /* out of an adapter */
        }
    }
    print_message("all-to-all +%.1f %%\n", 100 * inside / wire);
    assert_true(inside / wire > 0.082 - 0.05 && inside / wire < 0.112 + 0.05);
    pdl_arena_destroy(a);
}

/* 466 interruptions in 54 days of 16,384 PEs; published: more than 90 %. */
static void goodput_of_llama_3_has_no_free_parameter(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_prices p;
    struct pdl_goodput g;
    struct pdl_long_run run = {.steps_s = 50 * 86400.0, .pes = 16384};

    (void)state;
    assert_int_equal(pdl_prices_open(a, "public", &p, NULL), PDL_OK);
    run.mtbf_pe_s = 3600 * price(&p, "mtbf");
    run.restart_s = price(&p, "restart");
    /* weights, a copy and two moments of 405 G parameters, 2,048 nodes */
    run.checkpoint_s = 405e9 * 14 / 1e9 / (2048 * price(&p, "storage"));
    pdl_goodput(&run, &g);
    print_message("goodput %.1f %%, %.0f interruptions\n", 100 * g.goodput,
                  g.failures);
    assert_true(g.goodput > 0.90 && g.goodput < 0.95);
    assert_true(fabs(g.failures - 466 * g.train_s / (54 * 86400.0)) < 1);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rail_only_saves_more_the_larger_the_domain),
        cmocka_unit_test(experts_pay_for_forwarding),
        cmocka_unit_test(goodput_of_llama_3_has_no_free_parameter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
