/* The three topologies that SimGrid has too, on routes worked out by hand
 * from its description of them. tests/peers/simgrid_routes.sh compares all
 * routes of random platforms with SimGrid itself. */
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static const struct pdl_net *make(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return net;
}

static void routes_are_those_worked_out_by_hand(void **state)
{
    static const struct {
        const char *spec;
        int src, dst;
        const char *route;
    } cases[] = {
        /* 8 leaves of 8 hosts: the spine is the destination modulo 8 */
        {"fat-tree:down=8x8,up=1x8", 0, 1,
         "level0_0_port0_up "
         "level0_1_port0_down"},
        {"fat-tree:down=8x8,up=1x8", 0, 13,
         "level0_0_port0_up level1_0_port5_up level1_1_port5_down "
         "level0_13_port0_down"},
        /* figure 1(b) of Zahavi: 2 spines, 2 cables to each */
        {"fat-tree:down=4x4,up=1x2,links=1x2", 0, 4,
         "level0_0_port0_up level1_0_port0_up level1_1_port0_down "
         "level0_4_port0_down"},
        {"fat-tree:down=4x4,up=1x2,links=1x2", 1, 15,
         "level0_1_port0_up level1_0_port3_up level1_3_port3_down "
         "level0_15_port0_down"},
        {"torus:3x2x2", 0, 2, "link_from_2_to_0_down"},
        {"torus:3x2x2", 2, 9,
         "link_from_2_to_0_up link_from_0_to_3_up "
         "link_from_3_to_9_up"},
        /* ties: without the wrap from the lower half, with it from the upper */
        {"torus:4", 0, 2, "link_from_0_to_1_up link_from_1_to_2_up"},
        {"torus:4", 2, 0, "link_from_1_to_2_down link_from_0_to_1_down"},
        {"torus:4", 3, 1, "link_from_3_to_0_up link_from_0_to_1_up"},
        {"mesh:4", 0, 3,
         "link_from_0_to_1_up link_from_1_to_2_up "
         "link_from_2_to_3_up"},
        {"mesh:2x3", 5, 0,
         "link_from_4_to_5_down link_from_2_to_4_down "
         "link_from_0_to_2_down"},
        /* group 0 chassis 1 slot 0 to group 2: green, black, blue, green */
        {"dragonfly:groups=3,chassis=2,routers=4,nodes=1", 4, 19,
         "local_4_router_4_up green_group_0_chassis_1_0_2_up "
         "black_group_0_slot_2_0_1_down blue_0_2_up "
         "green_group_2_chassis_0_0_3_up local_19_router_19_down"},
        /* SimGrid's slip: same chassis, but a black hop from the first */
        {"dragonfly:groups=3,chassis=2,routers=4,nodes=1", 4, 5,
         "local_4_router_4_up green_group_0_chassis_1_0_1_up "
         "black_group_0_slot_1_0_1_up local_5_router_5_down"},
        {"dragonfly:groups=3,chassis=2,routers=4,nodes=1,routing=minimal", 4, 5,
         "local_4_router_4_up green_group_0_chassis_1_0_1_up "
         "local_5_router_5_down"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, cases[i].spec);
        int links[PDL_MAX_ROUTE];
        int n = net->route(net, cases[i].src, cases[i].dst, links);
        struct pdl_buf text;
        char name[128];

        pdl_buf_init(&text);
        for (int k = 0; k < n; k++)
            pdl_printf(&text.sink, "%s%s", k ? " " : "",
                       pdl_net_link_name(net, links[k], name, sizeof name));
        assert_string_equal(text.text, cases[i].route);
        pdl_buf_free(&text);
        pdl_arena_destroy(a);
    }
}

static void the_anchors_platforms_have_their_sizes(void **state)
{
    static const struct {
        const char *spec;
        int hosts, switches, links;
    } cases[] = {
        {"fat-tree:down=32x32,up=1x32,links=1x1", 1024, 64, 4096},
        {"fat-tree:down=64x64,up=1x64,links=1x1", 4096, 128, 16384},
        {"torus:8x8x16", 1024, 0, 6144},
        {"torus:16x16x16", 4096, 0, 24576},
        {"dragonfly:groups=4,chassis=4,routers=4,nodes=4", 256, 64,
         2 * (256 + 16 * 6 + 4 * 6 * 4 + 6)},
        {"dragonfly:groups=8,chassis=4,routers=8,nodes=4", 1024, 256,
         2 * (1024 + 32 * 28 + 8 * 6 * 8 + 28)},
        {"torus:8x8,duplex=shared", 64, 0, 128},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, cases[i].spec);
        struct pdl_err err = {"", ""};

        assert_int_equal(net->nhosts, cases[i].hosts);
        assert_int_equal(net->nswitches, cases[i].switches);
        assert_int_equal(net->nlinks, cases[i].links);
        if (pdl_net_check(net, 100000, &err) != PDL_OK)
            fail_msg("%s: %s", cases[i].spec, err.msg);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_those_worked_out_by_hand),
        cmocka_unit_test(the_anchors_platforms_have_their_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
