/* The clusters of the papers: latencies and link lists that the published
 * simulations show, the Dragonfly's graph, the Kautz network's structure. */
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static const struct pdl_net *make(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return net;
}

static void routes_have_the_published_lengths_and_latencies(void **state)
{
    static const struct {
        const char *spec;
        int src, dst, links;
        double ns;
    } cases[] = {
        /* GPU 3 of a node to GPU 0 of the next, inside a leaf, through the
         * NVLink to GPU 0; from node 8 to node 9 through the root */
        {"tsubame3:nodes=64", 3, 4, 7, 452},
        {"tsubame3:nodes=64", 35, 36, 10, 704},
        {"tsubame3:nodes=64", 0, 1, 1, 0},
        /* same leaf, same rack, other rack */
        {"abci:nodes=68", 0, 8, 6, 15232},
        {"abci:nodes=68", 0, 4, 10, 15464},
        {"abci:nodes=68", 0, 136, 14, 16316},
        {"abci:nodes=68", 0, 3, 1, 9000},
        {"dgx1-cluster:nodes=36", 0, 8, 6, 15232},
        {"dgx1-cluster:nodes=36", 0, 48, 10, 16084},
        {"dgx2-cluster:nodes=18,nvswitch=star", 0, 1, 2, 10000},
        {"dgx2-cluster:nodes=18", 0, 15, 2, 10000},
        {"dgx2-cluster:nodes=18", 0, 2, 4, 20000},
        {"nvcluster:k=8,nodes=32", 0, 8, 6, 452},
        {"nvcluster:k=8,nodes=32", 0, 48, 10, 704},
        {"dragonfly-gpu:switches=64,global=4", 0, 4, 8, 578},
        /* inside a switch; to the next; 2^1 + 1 away: two hops */
        {"dln-gpu:q=3,p=2", 3, 4, 6, 15232},
        {"dln-gpu:q=3,p=2", 7, 8, 8, 15348},
        {"dln-gpu:q=3,p=2", 0, 24, 10, 15464},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, cases[i].spec);
        int links[PDL_MAX_ROUTE];
        int n = net->route(net, cases[i].src, cases[i].dst, links);
        double ns = 0;

        for (int k = 0; k < n; k++)
            ns += net->links[links[k]].latency_s * 1e9;
        if (n != cases[i].links || fabs(ns - cases[i].ns) > 1e-3)
            fail_msg("%s %d-%d: %d links, %g ns", cases[i].spec, cases[i].src,
                     cases[i].dst, n, ns);
        pdl_arena_destroy(a);
    }
}

static void a_switch_passed_up_and_down_is_listed_twice(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = make(a, "tsubame3:nodes=18");
    int links[PDL_MAX_ROUTE], n = net->route(net, 3, 4, links);

    (void)state;
    assert_int_equal(n, 7);
    assert_int_equal(links[3], links[4]);
    assert_int_equal(net->links[links[3]].from, net->links[links[3]].to);
    assert_true(net->links[links[3]].bytes_per_s == 225e9);
    /* both ways use the same links: they are shared */
    assert_true(net->links[links[2]].shared);
    n = net->route(net, 3, 36, links);
    assert_int_equal(n, 10);
    assert_true(links[4] != links[2] && links[4] == links[5]);
    pdl_arena_destroy(a);
}

static void the_dragonfly_has_degree_7_diameter_3_and_its_average(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = make(a, "dragonfly-gpu:switches=64,global=4");
    int first = net->nhosts + net->nswitches - 64, edges = 0, far = 0;
    int degree[64] = {0}, dist[64][64];
    double sum = 0;

    (void)state;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            dist[i][j] = i == j ? 0 : 99;
    for (int k = 0; k < net->nlinks; k++) {
        int u = net->links[k].from - first, v = net->links[k].to - first;

        if (u < 0 || v < 0 || u == v)
            continue;
        degree[u]++;
        degree[v]++;
        edges++;
        dist[u][v] = dist[v][u] = 1;
    }
    assert_int_equal(edges, 224);
    for (int k = 0; k < 64; k++)
        for (int i = 0; i < 64; i++)
            for (int j = 0; j < 64; j++)
                if (dist[i][k] + dist[k][j] < dist[i][j])
                    dist[i][j] = dist[i][k] + dist[k][j];
    for (int i = 0; i < 64; i++) {
        assert_int_equal(degree[i], 7);
        for (int j = 0; j < 64; j++) {
            sum += dist[i][j];
            far = dist[i][j] > far ? dist[i][j] : far;
        }
    }
    assert_int_equal(far, 3);
    assert_true(fabs(sum / (64 * 63) - 2.361) < 5e-4);
    pdl_arena_destroy(a);
}

static void kautz_has_its_pairs_triangles_and_distances(void **state)
{
    static const struct {
        int d, arcs, pairs, triangles;
    } cases[] = {
        {2, 12, 3, 2}, {3, 36, 6, 8}, {4, 80, 10, 20}, {16, 4352, 136, 1360}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        int d = cases[i].d, links[PDL_MAX_ROUTE], pairs = 0, single = 0;
        const struct pdl_net *net;
        char spec[40];

        snprintf(spec, sizeof spec, "kautz:d=%d", d);
        net = make(a, spec);
        assert_int_equal(net->nlinks, cases[i].arcs);
        for (int k = 0; k < net->nlinks; k++) {
            int u = net->links[k].from, v = net->links[k].to;
            int w = pdl_kautz_credit(d, u, v);

            if (net->links[k].reverse >= 0) {
                pairs++;
                assert_int_equal(w, u);
                continue;
            }
            single++; /* v -> w -> u are arcs too */
            assert_int_equal(net->route(net, v, w, links), 1);
            assert_int_equal(net->route(net, w, u, links), 1);
            assert_int_equal(pdl_kautz_credit(d, v, w), u);
        }
        assert_int_equal(pairs, 2 * cases[i].pairs);
        assert_int_equal(single, 3 * cases[i].triangles);
        pdl_arena_destroy(a);
    }
}

static void kautz_of_16_has_255_hosts_at_two_hops(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = make(a, "kautz:d=16,k=2");
    int links[PDL_MAX_ROUTE];

    (void)state;
    for (int s = 0; s < net->nhosts; s++) {
        int at[3] = {0};

        for (int t = 0; t < net->nhosts; t++)
            at[net->route(net, s, t, links)]++;
        assert_int_equal(at[0], 1);
        assert_int_equal(at[1], 16);
        assert_int_equal(at[2], 255);
    }
    pdl_arena_destroy(a);
}

static void wavelengths_are_a_latin_square_in_every_grating(void **state)
{
    (void)state;
    for (int d = 1; d <= 17; d++) {
        int hosts = d * (d + 1), arcs = 0;
        static char out[18][400][18], in[18][400][18];

        memset(out, 0, sizeof out);
        memset(in, 0, sizeof in);
        for (int u = 0; u < hosts; u++)
            for (int v = 0; v < hosts; v++) {
                int grating, wave;

                if (!pdl_kautz_wave(d, u, v, &grating, &wave))
                    continue;
                arcs++;
                assert_in_range(grating, 0, d);
                assert_in_range(wave, 0, d - 1);
                /* no input sends, no output receives one twice */
                assert_false(out[grating][u][wave]++);
                assert_false(in[grating][v][wave]++);
            }
        assert_int_equal(arcs, hosts * d);
    }
}

static void what_is_no_arc_has_neither_credit_nor_wavelength(void **state)
{
    int x = 7, y = 7;

    (void)state;
    assert_int_equal(pdl_kautz_credit(4, 0, 0), -1);
    assert_int_equal(pdl_kautz_credit(4, -1, 3), -1);
    assert_int_equal(pdl_kautz_credit(4, 3, 20), -1);
    assert_false(pdl_kautz_wave(4, 20, 0, &x, &y));
    assert_false(pdl_kautz_wave(0, 0, 0, &x, &y));
    assert_int_equal(x, 7);
    assert_int_equal(y, 7);
}

static void large_messages_take_the_circuit(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net =
        make(a, "hybrid-optical:eps=(fat-tree:down=4x4,up=1x4),ocs=100GB/s,"
                "threshold=1MiB,stride=4,fibre=30ns,reconfigure=3ms");
    int links[PDL_MAX_ROUTE];

    (void)state;
    assert_true(net->setup_s == 3e-3);
    assert_int_equal(pdl_net_route(net, 0, 4, (1 << 20) - 1, links), 4);
    assert_int_equal(pdl_net_route(net, 0, 4, 1 << 20, links), 1);
    assert_true(net->links[links[0]].optical);
    assert_true(net->links[links[0]].bytes_per_s == 100e9);
    assert_true(fabs(net->links[links[0]].latency_s - 30e-9) < 1e-18);
    assert_int_equal(pdl_net_route(net, 12, 0, 1 << 20, links), 1);
    assert_int_equal(pdl_net_route(net, 4, 0, 1 << 20, links), 4);
    assert_int_equal(pdl_net_route(net, 0, 5, 1 << 20, links), 4);
    assert_int_equal(net->route(net, 0, 4, links), 4);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_have_the_published_lengths_and_latencies),
        cmocka_unit_test(a_switch_passed_up_and_down_is_listed_twice),
        cmocka_unit_test(the_dragonfly_has_degree_7_diameter_3_and_its_average),
        cmocka_unit_test(kautz_has_its_pairs_triangles_and_distances),
        cmocka_unit_test(kautz_of_16_has_255_hosts_at_two_hops),
        cmocka_unit_test(wavelengths_are_a_latin_square_in_every_grating),
        cmocka_unit_test(what_is_no_arc_has_neither_credit_nor_wavelength),
        cmocka_unit_test(large_messages_take_the_circuit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
