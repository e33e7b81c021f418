/* Every generator of the table: sizes and degrees as the papers' formulas
 * have them, routes that are walks and, where the routing is minimal, as
 * short as a search finds. */
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* LONGER: some route has more cables than needed */
enum { MINIMAL = 1, LONGER = 0, EITHER = 2 };

static const struct example {
    const char *spec;
    int hosts, switches, cables; /* cables: both directions counted once */
    int degree;                  /* of every switch, or host without switches;
                                    0: they differ */
    int minimal;
} examples[] = {
    // clang-format off
    {"fat-tree:down=8x8,up=1x8", 64, 16, 128, 0, MINIMAL},
    {"fat-tree:down=4x4,up=1x2,links=1x2", 16, 6, 32, 0, MINIMAL},
    {"fat-tree:down=4x3x2,up=2x2x2,links=2x1x3", 24, 12 + 8 + 8, 96 + 24 + 48, 0, MINIMAL},
    {"fat-tree:1,up=1", 1, 1, 1, 1, MINIMAL},
    {"fat-tree:down=2x2x2x2,up=1x2x2x2,duplex=shared", 16, 32, 64, 0, MINIMAL},
    {"torus:8x8x16", 1024, 0, 3072, 6, MINIMAL},
    {"torus:5", 5, 0, 5, 2, MINIMAL},
    {"torus:2x3", 6, 0, 12, 4, MINIMAL},
    {"torus:1x4x1", 4, 0, 4, 2, MINIMAL},
    {"torus:3x4x5x2,duplex=shared", 120, 0, 480, 8, MINIMAL},
    {"mesh:4x4", 16, 0, 24, 0, MINIMAL},
    {"mesh:2x3x4", 24, 0, 12 + 16 + 18, 0, MINIMAL},
    {"dragonfly:groups=4,chassis=4,routers=4,nodes=4", 256, 64, 454, 0, LONGER},
    {"dragonfly:groups=3,chassis=4,routers=5,nodes=2,blue=4,black=3,green=2", 120, 60, 120 + 120 + 90 + 3, 0, LONGER},
    {"dragonfly:groups=1,chassis=1,routers=1,nodes=3", 3, 1, 3, 3, MINIMAL},
    {"dragonfly:groups=2,chassis=1,routers=4,nodes=2,duplex=shared", 16, 8, 16 + 12 + 1, 0, MINIMAL},
    {"dragonfly-direct:group=16", 272, 0, 17 * 120 + 136, 16, MINIMAL},
    {"dragonfly-direct:group=4,groups=5", 20, 0, 30 + 10, 4, MINIMAL},
    {"dragonfly-direct:group=4,groups=9,global=2", 36, 0, 54 + 36, 5, LONGER},
    {"dragonfly-direct:group=4,groups=3", 12, 0, 18 + 3, 0, MINIMAL},
    {"star:hosts=10", 10, 1, 10, 10, MINIMAL},
    {"star:hosts=10,backbone=2.25GB/s,backbone-lat=500us,duplex=shared", 10, 1, 10, 10, MINIMAL},
    {"leaf-spine:leaves=8,hosts=4,spines=4", 32, 12, 64, 8, MINIMAL},
    {"leaf-spine:leaves=3,hosts=5,spines=2,cables=2,routing=ecmp", 15, 5, 27, 0, MINIMAL},
    {"leaf-spine:leaves=3,hosts=5,spines=2,routing=first,duplex=shared", 15, 5, 21, 0, MINIMAL},
    {"rack-tree:racks=2", 136, 16, 136 + 24 + 12, 0, MINIMAL},
    {"rack-tree:racks=3,hosts=8,leaves=2,fbb=2,spines=3,routing=ecmp", 24, 15, 24 + 12 + 18, 0, MINIMAL},
    {"rack-tree:racks=2,routing=first", 136, 16, 172, 0, MINIMAL},
    {"rail:nodes=4", 32, 4 + 8 + 8, 128, 0, MINIMAL},
    {"rail:nodes=6,gpus=4,unit=2,spines=3,routing=spine", 24, 6 + 12 + 3, 48 + 36, 0, MINIMAL},
    {"rail:nodes=6,gpus=4,unit=2,spines=3", 24, 21, 84, 0, LONGER},
    {"rail:nodes=4,gpus=2,spines=0", 8, 6, 16, 0, MINIMAL},
    {"nodes:nodes=3", 24, 3 + 3 + 1, 24 + 24 + 3, 0, MINIMAL},
    {"nodes:nodes=8,pes=4,units=2x2,pair=50GB/s", 32, 8 + 4 + 2 + 1, 32 + 48 + 8 + 4 + 2, 0, MINIMAL},
    {"nodes:nodes=5,pes=1,units=2", 5, 5 + 3 + 1, 5 + 5 + 3, 0, MINIMAL},
    {"hyperx:4x4,hosts=4", 64, 16, 64 + 48, 10, MINIMAL},
    {"hyperx:3x4x2,hosts=1,cables=2", 24, 24, 24 + 24 + 36 + 12, 7, MINIMAL},
    {"hammingmesh:4x4", 64, 16, 64 + 128, 0, MINIMAL},
    {"hammingmesh:3x2,board=4x3", 72, 18, 6 * 17 + 36 + 48, 0, LONGER},
    {"hammingmesh:3x3,board=1x1", 9, 6, 36, 0, MINIMAL},
    {"full2d:16x17", 272, 0, 17 * 120 + 16 * 136, 31, MINIMAL},
    {"full2d:4x8,routing=yx", 32, 0, 8 * 6 + 4 * 28, 10, MINIMAL},
    {"full2d:1x5", 5, 0, 10, 4, MINIMAL},
    {"dln:q=3,p=2", 32, 8, 32 + 20, 4 + 5, MINIMAL},
    {"dln:switches=64,hosts=4", 256, 64, 256 + 64 * 11 / 2, 4 + 11, MINIMAL},
    {"dln:q=5,p=4", 512, 32, 512 + 16 * 9, 16 + 9, MINIMAL},
    {"dln:q=1,p=0", 2, 2, 3, 2, MINIMAL},
    {"dln:q=9,hosts=1", 512, 512, 512 + 256 * 17, 18, MINIMAL},
    {"dln:q=3,p=2,ranks=2,duplex=shared", 64, 8 + 32, 64 + 32 + 20, 0, MINIMAL},
    {"dln2d:x=3,y=2,z=4", 512, 32, 512 + 32 * 8 / 2, 16 + 8, MINIMAL},
    {"dln2d:x=2,y=2,z=1,ranks=2,double=1", 64, 16 + 32, 64 + 32 + 48, 0, MINIMAL},
    {"dln-x:switches=64,hosts=4,x=5", 256, 64, 256 + 64 + 32 + 64 + 64, 4 + 7, MINIMAL},
    {"dln-x:switches=10,x=8", 10, 10, 10 + 10 + 5 + 10, 6, MINIMAL},
    {"dln-x:switches=2,x=2", 2, 2, 3, 2, MINIMAL},
    {"random:switches=64,degree=7,hosts=4", 256, 64, 256 + 224, 11, MINIMAL},
    {"random:switches=32,degree=5,hosts=2,ring=0,seed=9,routing=ecmp", 64, 32, 64 + 80, 7, MINIMAL},
    {"random:switches=6,degree=5,ring=0", 6, 6, 6 + 15, 6, MINIMAL},
    {"kautz:d=16", 272, 0, 0, 16, MINIMAL},
    {"kautz:d=2,k=3", 12, 0, 0, 2, MINIMAL},
    {"kautz:d=3,k=4", 108, 0, 0, 3, MINIMAL},
    {"kautz:d=4,k=1", 5, 0, 0, 4, MINIMAL},
    {"kautz:d=1,k=2", 2, 0, 0, 1, MINIMAL},
    {"tsubame3:nodes=9", 36, 18 + 3, 9 * 12 + 2, 0, EITHER},
    {"nvcluster:k=2,nodes=13", 26, 13 + 2, 13 * 4 + 1, 0, EITHER},
    {"nvcluster:k=16,nodes=4", 64, 32 + 3, 4 * 56 + 2, 0, EITHER},
    {"dragonfly-gpu:switches=64,global=4", 256, 128 + 64, 64 * 12 + 224, 0, EITHER},
    {"dragonfly-gpu:switches=64", 256, 128 + 64, 64 * 12 + 276, 0, EITHER},
    {"dln-gpu:q=3,p=2", 64, 32 + 8, 16 * 12 + 20, 0, EITHER},
    {"dln-gpu:q=2,p=0,duplex=full", 8, 4 + 4, 2 * 12 + 6, 0, EITHER},
    {"tree-gpu:down=4x4x2", 64, 32 + 11, 16 * 12 + 10, 0, EITHER},
    {"tree-gpu:down=2x3x5,cables=2x3,duplex=full", 60, 30 + 21, 15 * 12 + 20, 0, EITHER},
    {"abci:nodes=68,duplex=full", 272, 136 + 16, 68 * 12 + 36, 0, EITHER},
    {"dgx1-cluster:nodes=7", 56, 28 + 3, 7 * 28 + 2, 0, EITHER},
    {"dgx2-cluster:nodes=4,nvswitch=star", 64, 36 + 3, 4 * 40 + 2, 0, EITHER},
    {"dgx2-cluster:nodes=4", 64, 32 + 3, 4 * 39 + 2, 0, EITHER},
    {"hybrid-optical:eps=(fat-tree:down=8x8,up=1x8),ocs=50GB/s", 64, 16, 0, 0, MINIMAL},
    {"hybrid-optical:eps=(torus:4x4,duplex=shared),stride=4", 16, 0, 0, 0, MINIMAL},
    // clang-format on
};
enum { NEXAMPLES = sizeof examples / sizeof examples[0] };

static const struct pdl_net *make(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return net;
}

static bool has_example(const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < NEXAMPLES; i++)
        if (strncmp(examples[i].spec, name, n) == 0 &&
            examples[i].spec[n] == ':')
            return true;
    return false;
}

static void every_generator_has_its_examples_here(void **state)
{
    (void)state;
    for (int i = 0; pdl_topo_at(i); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

        if (!has_example(pdl_topo_at(i)->name))
            fail_msg("no test of %s", pdl_topo_at(i)->name);
        make(a, pdl_topo_at(i)->example);
        pdl_arena_destroy(a);
    }
}

/* Cables at a vertex; a trunk is one. Arcs count where they leave. */
static int degree(const struct pdl_net *net, int v)
{
    int n = 0;

    for (int i = 0; i < net->nlinks; i++)
        if (net->links[i].from != net->links[i].to)
            n += net->links[i].from == v ||
                 (net->links[i].shared && net->links[i].to == v);
    return n;
}

static int count_cables(const struct pdl_net *net)
{
    int twice = 0;

    for (int i = 0; i < net->nlinks; i++)
        if (net->links[i].from != net->links[i].to)
            twice += net->links[i].shared ? 2 : 1;
    return twice / 2;
}

static void counts_and_degrees_are_the_formulas(void **state)
{
    (void)state;
    for (int i = 0; i < NEXAMPLES; i++) {
        const struct example *x = &examples[i];
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, x->spec);
        int first = x->switches ? net->nhosts : 0;

        if (net->nhosts != x->hosts || net->nswitches != x->switches ||
            (x->cables && count_cables(net) != x->cables))
            fail_msg("%s: %d hosts, %d switches, %d cables", x->spec,
                     net->nhosts, net->nswitches, count_cables(net));
        for (int v = first; x->degree && v < net->nhosts + net->nswitches; v++)
            if (degree(net, v) != x->degree)
                fail_msg("%s: degree %d at %d", x->spec, degree(net, v), v);
        pdl_arena_destroy(a);
    }
}

static void every_route_is_a_walk(void **state)
{
    (void)state;
    for (int i = 0; i < NEXAMPLES; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, examples[i].spec);
        struct pdl_err err = {"", ""};

        if (pdl_net_check(net, 1 << 17, &err) != PDL_OK)
            fail_msg("%s: %s", examples[i].spec, err.msg);
        pdl_arena_destroy(a);
    }
}

static int cables_on(const struct pdl_net *net, const int *links, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += net->links[links[i]].from != net->links[links[i]].to;
    return count;
}

/* Circuits are no part of the packet network's distances. */
static int base_links(const struct pdl_net *net)
{
    int n = 0;

    while (n < net->nlinks && !net->links[n].optical)
        n++;
    return n;
}

static void minimal_routes_are_as_short_as_a_search_finds(void **state)
{
    (void)state;
    for (int i = 0; i < NEXAMPLES; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, examples[i].spec);
        struct pdl_net plain = *net;
        struct net_graph g = {.nverts = 0};
        int *dist = PDL_NEW(a, int, net->nhosts + net->nswitches);
        int *queue = PDL_NEW(a, int, net->nhosts + net->nswitches);
        int links[PDL_MAX_ROUTE], longer = 0;

        plain.nlinks = base_links(net);
        assert_int_equal(net_graph_make(a, &plain, NULL, &g, NULL), PDL_OK);
        for (int s = 0; s < net->nhosts; s += 1 + net->nhosts / 64) {
            net_graph_bfs(&g, s, dist, queue);
            for (int d = 0; d < net->nhosts; d++) {
                int n = net->route(net, s, d, links);

                n = cables_on(net, links, n);
                assert_true(net->jumps || n >= dist[d]);
                longer += n > dist[d];
            }
        }
        if (examples[i].minimal == MINIMAL && longer > 0)
            fail_msg("%s: %d routes too long", examples[i].spec, longer);
        if (examples[i].minimal == LONGER && longer == 0)
            fail_msg("%s: no route is longer", examples[i].spec);
        pdl_arena_destroy(a);
    }
}

static void the_same_text_makes_the_same_network(void **state)
{
    (void)state;
    for (int i = 0; i < NEXAMPLES; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *x = make(a, examples[i].spec);
        const struct pdl_net *y = make(a, examples[i].spec);

        for (int k = 0; k < x->nlinks; k++)
            assert_true(x->links[k].from == y->links[k].from &&
                        x->links[k].to == y->links[k].to);
        pdl_arena_destroy(a);
    }
}

static void another_seed_makes_another_network(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *x = make(a, "random:switches=64,degree=4,seed=1");
    const struct pdl_net *y = make(a, "random:switches=64,degree=4,seed=2");
    int same = 0;

    (void)state;
    assert_int_equal(x->nlinks, y->nlinks);
    for (int k = 0; k < x->nlinks; k++)
        same += x->links[k].from == y->links[k].from &&
                x->links[k].to == y->links[k].to;
    assert_true(same < x->nlinks - 64);
    pdl_arena_destroy(a);
}

static void random_graphs_repeat_no_cable(void **state)
{
    (void)state;
    for (int seed = 0; seed < 20; seed++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net;
        char seen[20][20] = {{0}}, spec[80];

        snprintf(spec, sizeof spec, "random:switches=20,degree=11,seed=%d",
                 seed);
        net = make(a, spec);
        for (int k = 0; k < net->nlinks; k++) {
            int u = net->links[k].from - 20, v = net->links[k].to - 20;

            if (u < 0 || v < 0)
                continue;
            assert_true(u != v && !seen[u][v]);
            seen[u][v] = 1;
        }
        pdl_arena_destroy(a);
    }
}

static void starved_generators_say_so(void **state)
{
    (void)state;
    for (int i = 0; pdl_topo_at(i); i++)
        for (size_t limit = 0; limit < 1 << 15; limit += 509) {
            pdl_arena *a = pdl_arena_create(limit);
            const struct pdl_net *net = NULL;
            struct pdl_err err = {"", ""};
            enum pdl_status st;

            if (!a)
                continue;
            st = pdl_net_make(a, pdl_topo_at(i)->example, &net, &err);
            if (st == PDL_OK ? !net : st != PDL_ENOMEM || !*err.msg || net)
                fail_msg("%s at %zu bytes: %s", pdl_topo_at(i)->name, limit,
                         err.msg);
            pdl_arena_destroy(a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_generator_has_its_examples_here),
        cmocka_unit_test(counts_and_degrees_are_the_formulas),
        cmocka_unit_test(every_route_is_a_walk),
        cmocka_unit_test(minimal_routes_are_as_short_as_a_search_finds),
        cmocka_unit_test(the_same_text_makes_the_same_network),
        cmocka_unit_test(another_seed_makes_another_network),
        cmocka_unit_test(random_graphs_repeat_no_cable),
        cmocka_unit_test(starved_generators_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
