/* Networks for any number of nodes: there is room, the counts are those of
 * the textbook, and levels never promise more than the adapters have. */
#include "paradl/design.h"
#include "paradl/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct pdl_system machine(pdl_arena *a)
{
    struct pdl_system s;

    assert_int_equal(pdl_system_open(a, "dgx-h100", &s, NULL), PDL_OK);
    return s;
}

static void every_family_has_room_for_every_number_of_nodes(void **state)
{
    static const int64_t sizes[] = {2, 3, 7, 16, 60, 128, 1000};

    (void)state;
    for (int f = 0; pdl_family_at(f); f++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_system sys = machine(a);
            struct pdl_fabric x = {.spec = NULL};
            const struct pdl_net *net = NULL;
            struct pdl_err err = {"", ""};
            const char *name = pdl_family_at(f)->name;
            int64_t need = sizes[i];

            if (pdl_fabric_make(a, name, &sys, sizes[i], &x, &err) != PDL_OK ||
                pdl_net_make(a, x.spec, &net, &err) != PDL_OK)
                fail_msg("%s, %lld nodes: %s", name, (long long)sizes[i],
                         err.msg);
            if (strcmp(name, "fat-tree") == 0)
                need *= sys.node.nics.count;
            if (net->nhosts < need)
                fail_msg("%s: %d places for %lld", x.spec, net->nhosts,
                         (long long)need);
            assert_true(x.ntiers > 0);
            assert_true(x.tier[x.ntiers - 1].nodes == sizes[i]);
            for (int k = 0; k < x.ntiers; k++) {
                assert_true(x.tier[k].oversubscription >= 1);
                assert_true(k == 0 || (x.tier[k].nodes > x.tier[k - 1].nodes &&
                                       x.tier[k].oversubscription >=
                                           x.tier[k - 1].oversubscription));
            }
            /* what a node's ports have together is what its adapters have */
            assert_true(x.link_bytes_per_s > 0);
            pdl_arena_destroy(a);
        }
}

static struct pdl_net_bill bill(const char *network, int64_t nodes, int64_t *of)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct pdl_system sys = machine(a);
    struct pdl_fabric x = {.spec = NULL};
    const struct pdl_net *net = NULL;
    struct pdl_net_bill b = {.hosts = 0};

    assert_int_equal(pdl_fabric_make(a, network, &sys, nodes, &x, NULL),
                     PDL_OK);
    assert_int_equal(pdl_net_make(a, x.spec, &net, NULL), PDL_OK);
    assert_int_equal(pdl_net_bill(a, net, &b, NULL), PDL_OK);
    *of = x.planes;
    pdl_arena_destroy(a);
    return b;
}

static void trees_have_the_switches_of_the_textbook(void **state)
{
    int64_t planes;
    /* 1,024 ports on switches of 64: 32 leaves, 16 spines */
    struct pdl_net_bill b = bill("fat-tree", 128, &planes);

    (void)state;
    assert_int_equal(planes, 1);
    assert_int_equal(b.switches, 48);
    assert_int_equal(b.ports, 3 * 1024);
    assert_int_equal(b.most_ports, 64);
    /* 4,096 nodes: a full three-level tree of 64 ports has 65,536 places */
    b = bill("fat-tree", 4096, &planes);
    assert_int_equal(b.switches, 5 * 32768 / 64);
    assert_int_equal(b.ports, 5 * 32768);
    assert_true(b.most_ports <= 64);
    /* half as many uplinks */
    b = bill("fat-tree:taper=3", 128, &planes);
    assert_true(b.most_ports <= 64);
    assert_true(b.ports < 1024 + 2 * 1024 / 3 + 128);
    /* one switch a rail up to 64 nodes */
    b = bill("rail-only", 64, &planes);
    assert_int_equal(planes, 8);
    assert_int_equal(b.switches, 1);
    assert_int_equal(b.ports, 64);
}

static void direct_networks_share_what_the_adapters_have(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = machine(a);
    struct pdl_fabric x;

    (void)state;
    assert_int_equal(pdl_fabric_make(a, "torus:dims=2", &sys, 64, &x, NULL),
                     PDL_OK);
    assert_string_equal(x.spec, "torus:8x8");
    assert_true(fabs(4 * x.link_bytes_per_s - 8 * 50e9) < 1);
    /* a block of 4 x 4 has 16 ways out for 16 nodes of 4 */
    assert_int_equal(x.tier[0].nodes, 4);
    assert_int_equal(x.tier[1].nodes, 16);
    assert_true(x.tier[1].oversubscription == 2);
    assert_true(x.tier[2].oversubscription == 4);
    assert_int_equal(
        pdl_fabric_make(a, "hammingmesh:board=4", &sys, 256, &x, NULL), PDL_OK);
    assert_string_equal(x.spec, "hammingmesh:4x4,board=4x4");
    pdl_arena_destroy(a);
}

static void wrong_networks_are_refused(void **state)
{
    static const char *const wrong[] = {
        "fat-tree:taper=0", "fat-tree:radix=1",    "torus:dims=9",
        "torus:dims=",      "fat-treee",           "fat-tree:radix=2",
        "star:hosts=3",     "hammingmesh:board=1", "torus:4x4"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = machine(a), tpu;
    struct pdl_fabric x;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pdl_err err = {"", ""};

        if (pdl_fabric_make(a, wrong[i], &sys, 100, &x, &err) == PDL_OK)
            fail_msg("%s was accepted", wrong[i]);
        assert_true(*err.msg);
    }
    assert_int_equal(pdl_system_open(a, "tpu-v4", &tpu, NULL), PDL_OK);
    assert_int_not_equal(pdl_fabric_make(a, "fat-tree", &tpu, 64, &x, NULL),
                         PDL_OK);
    pdl_arena_destroy(a);
}

/* A network takes no switch of more ports than radix says. */
static void no_switch_has_more_ports_than_its_radix(void **state)
{
    static const int64_t sizes[] = {2, 7, 60, 128, 1000};
    static const int radices[] = {2, 3, 4, 7, 16, 64};
    int made = 0;

    (void)state;
    for (int f = 0; pdl_family_at(f); f++)
        for (size_t i = 0; i < 30; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_system sys = machine(a);
            struct pdl_fabric x = {.spec = NULL};
            const struct pdl_net *net = NULL;
            struct pdl_net_bill b = {.hosts = 0};
            int radix = radices[i % 6];
            char text[64];

            snprintf(text, sizeof text, "%s:radix=%d", pdl_family_at(f)->name,
                     radix);
            if (strstr(pdl_family_at(f)->params, "radix") &&
                pdl_fabric_make(a, text, &sys, sizes[i / 6], &x, NULL) ==
                    PDL_OK &&
                pdl_net_make(a, x.spec, &net, NULL) == PDL_OK &&
                pdl_net_bill(a, net, &b, NULL) == PDL_OK) {
                made++;
                if (b.switches > 0 && b.most_ports > radix)
                    fail_msg("%s: %d ports for %lld nodes: %s", text,
                             (int)b.most_ports, (long long)sizes[i / 6],
                             x.spec);
            }
            pdl_arena_destroy(a);
        }
    assert_true(made > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_room_for_every_number_of_nodes),
        cmocka_unit_test(trees_have_the_switches_of_the_textbook),
        cmocka_unit_test(direct_networks_share_what_the_adapters_have),
        cmocka_unit_test(wrong_networks_are_refused),
        cmocka_unit_test(no_switch_has_more_ports_than_its_radix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
