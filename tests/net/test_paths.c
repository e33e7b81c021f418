/* Networks with several paths for a pair of hosts: all shortest, spread by
 * flow, and the adaptive choice against a search of all paths. */
#include "net_cases.h"
#include "sim_priv.h"
#include "topo_priv.h"

static const struct pdl_net *make(pdl_arena *a, const char *spec,
                                  const char *paths)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    char text[256];

    snprintf(text, sizeof text, "%s%s%s", spec, strchr(spec, ':') ? "," : ":",
             paths);
    if (pdl_net_make(a, text, &net, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return net;
}

static const char *const specs[] = {
    "fat-tree:down=4x4,up=1x4",
    "fat-tree:down=4x3x2,up=2x2x2,links=2x1x3",
    "leaf-spine:leaves=3,hosts=5,spines=2,cables=2",
    "rack-tree:racks=3,hosts=8,leaves=2,fbb=2,spines=3",
    "torus:4x4x3",
    "torus:5x4,duplex=shared",
    "mesh:3x4",
    "dragonfly:groups=3,chassis=2,routers=3,nodes=2",
    "dragonfly-direct:group=4,groups=5",
    "hyperx:3x4,hosts=2",
    "full2d:3x5",
    "dln:q=4,p=1",
    "dln2d:x=2,y=2,z=1",
    "dln-x:switches=16,hosts=2,x=4",
    "random:switches=20,degree=4,hosts=2",
};
enum { NSPECS = sizeof specs / sizeof specs[0] };

static void every_path_is_a_shortest_walk(void **state)
{
    (void)state;
    for (int i = 0; i < NSPECS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, specs[i], "paths=ecmp");
        struct net_graph g = {.nverts = 0};
        int n = net->nhosts + net->nswitches, links[PDL_MAX_ROUTE];
        int *dist = PDL_NEW(a, int, n), *queue = PDL_NEW(a, int, n);
        struct pdl_err err = {"", ""};

        if (pdl_net_check(net, 4096, &err) != PDL_OK)
            fail_msg("%s: %s", specs[i], err.msg);
        assert_int_equal(net_graph_make(a, net, NULL, &g, NULL), PDL_OK);
        for (int s = 0; s < net->nhosts; s++) {
            net_graph_bfs(&g, s, dist, queue);
            for (int d = 0; d < net->nhosts; d++)
                for (uint64_t flow = 0; flow < 3; flow++)
                    assert_int_equal(net->path(net, s, d, flow, links),
                                     dist[d]);
        }
        pdl_arena_destroy(a);
    }
}

static void flows_of_one_pair_take_several_paths(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net =
        make(a, "leaf-spine:leaves=2,hosts=2,spines=8", "routing=ecmp");
    int used[64] = {0}, spines = 0, links[PDL_MAX_ROUTE], first[4];

    (void)state;
    assert_int_equal(net->route(net, 0, 2, first), 4);
    assert_int_equal(net->path(net, 0, 2, 0, links), 4);
    assert_memory_equal(links, first, sizeof first);
    for (uint64_t flow = 0; flow < 64; flow++) {
        assert_int_equal(net->path(net, 0, 2, flow, links), 4);
        used[links[1]]++;
    }
    for (int l = 0; l < net->nlinks; l++) {
        spines += used[l] > 0;
        assert_true(used[l] < 20); /* 8 on average */
    }
    assert_int_equal(spines, 8);
    pdl_arena_destroy(a);
}

/* n flows of 10 MB from host i to host i + shift, all at once. */
static double together(const struct pdl_net *net, int n, int shift, bool same,
                       uint64_t seed)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_flow flows[64] = {{0}};
    double finish[64], last = 0;
    struct pdl_sim_config config = {.seed = seed};

    for (int i = 0; i < n; i++)
        flows[i] = (struct pdl_flow){same ? 0 : i, shift + (same ? 0 : i),
                                     10000000, 0};
    assert_int_equal(
        pdl_sim_flows(a, net, flows, n, &config, finish, NULL, NULL), PDL_OK);
    for (int i = 0; i < n; i++)
        last = fmax(last, finish[i]);
    pdl_arena_destroy(a);
    return last;
}

/* Eight flows from one leaf to another over eight spines: alone 0.8 ms. */
static void adaptive_flows_avoid_each_other(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const char *spec = "leaf-spine:leaves=2,hosts=8,spines=8";
    const struct pdl_net *first = make(a, spec, "routing=first");
    const struct pdl_net *ecmp = make(a, spec, "paths=ecmp");
    const struct pdl_net *adaptive = make(a, spec, "paths=adaptive");
    double alone = 4e-6 + 10e6 / 12.5e9,
           hashed = together(ecmp, 8, 8, false, 0);
    bool other = false;

    (void)state;
    assert_true(fabs(together(adaptive, 8, 8, false, 0) - alone) < 1e-12);
    assert_true(fabs(together(first, 8, 8, false, 0) - (alone + 5.6e-3)) <
                1e-12);
    assert_true(hashed > 1.5 * alone && hashed < 6 * alone);
    for (uint64_t seed = 1; seed < 6; seed++) {
        double t = together(ecmp, 8, 8, false, seed);

        assert_true(t == together(ecmp, 8, 8, false, seed));
        other = other || t != hashed;
    }
    assert_true(other);
    pdl_arena_destroy(a);
}

/* Two ways from corner to corner of a square. */
static void adaptive_flows_use_both_ways_round_a_square(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    double alone = 2e-6 + 10e6 / 12.5e9;

    (void)state;
    assert_true(
        fabs(together(make(a, "full2d:2x2", "paths=adaptive"), 2, 3, true, 0) -
             alone) < 1e-12);
    assert_true(
        fabs(together(make(a, "full2d:2x2", "paths=single"), 2, 3, true, 0) -
             (2e-6 + 20e6 / 12.5e9)) < 1e-12);
    pdl_arena_destroy(a);
}

/* ---- the choice against all paths ------------------------------------------ */

struct hunt {
    const struct pdl_net *net;
    const struct net_graph *g;
    const int *flying, *dist; /* dist: to the destination */
    double best;
};

static void hunt(struct hunt *h, int at, double crowd)
{
    if (h->dist[at] == 0) {
        h->best = fmin(h->best, crowd);
        return;
    }
    for (int k = h->g->first[at]; k < h->g->first[at + 1]; k++) {
        const struct net_way *w = &h->g->ways[k];

        if (h->dist[w->to] == h->dist[at] - 1)
            hunt(h, w->to,
                 fmax(crowd, (h->flying[w->link] + 1) /
                                 h->net->links[w->link].bytes_per_s));
    }
}

static double crowd_on(const struct hunt *h, const int *links, int n)
{
    double crowd = 0;

    for (int i = 0; i < n; i++)
        crowd = fmax(crowd, (h->flying[links[i]] + 1) /
                                h->net->links[links[i]].bytes_per_s);
    return crowd;
}

static void check_choices(pdl_arena *a, const struct pdl_net *net,
                          struct pdl_rng *rng)
{
    struct net_graph g = {.nverts = 0};
    int n = net->nhosts + net->nswitches, links[PDL_MAX_ROUTE];
    int *dist = PDL_NEW(a, int, n), *queue = PDL_NEW(a, int, n);
    struct net_least least;

    assert_int_equal(net_graph_make(a, net, NULL, &g, NULL), PDL_OK);
    assert_int_equal(net_least_init(&least, a, net, 0, NULL), PDL_OK);
    for (int i = 0; i < 200; i++) {
        int s = (int)pdl_rng_below(rng, (uint64_t)net->nhosts);
        int d = (int)pdl_rng_below(rng, (uint64_t)net->nhosts), m;
        struct hunt h = {net, &g, least.flying, dist, INFINITY};

        for (int l = 0; l < net->nlinks; l++)
            least.flying[l] = (int)pdl_rng_below(rng, 4);
        net_graph_bfs(&g, d, dist, queue);
        m = net_least_route(&least, s, d, links);
        assert_int_equal(m, dist[s]);
        hunt(&h, s, 0);
        assert_true(s == d || crowd_on(&h, links, m) == h.best);
    }
}

static void the_adaptive_choice_is_the_best_of_all(void **state)
{
    struct pdl_rng rng = {.key = 11};

    (void)state;
    for (int i = 0; i < NSPECS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

        check_choices(a, make(a, specs[i], "paths=adaptive"), &rng);
        pdl_arena_destroy(a);
    }
}

static void networks_that_cannot_say_why(void **state)
{
    static const struct {
        const char *spec, *why;
    } cases[] = {
        {"kautz:d=3,paths=ecmp", "one way"},
        {"tsubame3:nodes=2,paths=adaptive", "crossing"},
        {"hybrid-optical:eps=(star:hosts=8),paths=adaptive", "circuits"},
        {"torus:4x4,paths=some", "single"},
        {"kautz:d=3,fail=1", "one way"},
        {"torus:4x4,fail=s0", "no host"},
        {"torus:4x4,fail=h0-h16", "'h16' is no host"},
        {"torus:4x4,fail=h0-h5", "'h0-h5' has no cable"},
        {"torus:4x4,fail=33", "more cables than"},
        {"torus:4x4,fail=2@x", "no seed"},
        {"torus:4x4,fail=h0-h1/2", "divides what is gone"},
        {"torus:4x4,fail=h0", "not connected"},
        {"torus:4x4,slow=h0-h1", "followed by /"},
        {"torus:4x4,slow=h0-h1/0.5", "followed by /"},
        {"torus:4x4,slow=", ""},
        {"dragonfly:groups=3,chassis=2,routers=3,nodes=2,fail=1", "minimal"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL;
        struct pdl_err err = {"", ""};

        assert_true(pdl_net_make(a, cases[i].spec, &net, &err) != PDL_OK ||
                    !*cases[i].why);
        if (!strstr(err.msg, cases[i].why) && !strstr(err.hint, cases[i].why))
            fail_msg("%s: %s (%s)", cases[i].spec, err.msg, err.hint);
        pdl_arena_destroy(a);
    }
}

/* ---- detours --------------------------------------------------------------- */

static void a_detour_is_two_shortest_walks(void **state)
{
    (void)state;
    for (int i = 0; i < NSPECS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = make(a, specs[i], "paths=valiant");
        struct net_graph g = {.nverts = 0};
        int n = net->nhosts + net->nswitches, links[PDL_MAX_ROUTE];
        int *from = PDL_NEW(a, int, n), *to = PDL_NEW(a, int, n);
        int *queue = PDL_NEW(a, int, n);
        struct pdl_err err = {"", ""};

        if (pdl_net_check(net, 4096, &err) != PDL_OK)
            fail_msg("%s: %s", specs[i], err.msg);
        assert_int_equal(net_graph_make(a, net, NULL, &g, NULL), PDL_OK);
        net_graph_bfs(&g, 0, from, queue);
        for (int d = 0; d < net->nhosts; d++) {
            net_graph_bfs(&g, d, to, queue);
            for (uint64_t flow = 0; flow < 8; flow++) {
                int m = net->path(net, 0, d, flow, links), over = 0;

                while (over < n && from[over] + to[over] != m)
                    over++;
                assert_true(over < n); /* a vertex it may have gone over */
            }
        }
        pdl_arena_destroy(a);
    }
}

/* `each` flows of 10 MB from every host i to hosts i + first to i + last. */
static double pattern(const char *paths, int first, int last, int each)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net =
        make(a, "dragonfly-direct:group=4,groups=5", paths);
    enum { MOST = 512 };
    struct pdl_flow flows[MOST];
    double finish[MOST], end = 0;
    struct pdl_sim_config config = {.seed = 0};
    int n = 0;

    for (int k = 0; k < each; k++)
        for (int by = first; by <= last; by++)
            for (int h = 0; h < net->nhosts; h++)
                flows[n++] =
                    (struct pdl_flow){h, (h + by) % net->nhosts, 10000000, 0};
    assert_true(n <= MOST);
    assert_int_equal(
        pdl_sim_flows(a, net, flows, n, &config, finish, NULL, NULL), PDL_OK);
    for (int i = 0; i < n; i++)
        end = fmax(end, finish[i]);
    pdl_arena_destroy(a);
    return end;
}

/* One cable joins two groups. From each group to the next is what minimal ways
 * do worst; from all to all is what they do best. */
static void detours_pay_where_minimal_ways_crowd(void **state)
{
    double bad = pattern("paths=adaptive", 4, 4, 24);
    double bad_valiant = pattern("paths=valiant", 4, 4, 24);
    double bad_ugal = pattern("paths=ugal", 4, 4, 24);
    double good = pattern("paths=adaptive", 1, 19, 1);
    double good_valiant = pattern("paths=valiant", 1, 19, 1);
    double good_ugal = pattern("paths=ugal", 1, 19, 1);

    (void)state;
    assert_true(bad_valiant < bad / 1.5 && bad_ugal < bad * .75);
    assert_true(good_valiant > good * 1.3 && good_ugal < good * 1.15);
}

/* ---- what is broken -------------------------------------------------------- */

static bool is_on(const struct pdl_net *net, int link, int u, int v)
{
    const struct pdl_link *k = &net->links[link];

    return (k->from == u && k->to == v) || (k->from == v && k->to == u);
}

/* Only routes that used the lost cable change, to the shortest that are left. */
static void what_fails_is_gone_around(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *whole = make(a, "torus:5x4", "bw=1GB/s");
    const struct pdl_net *net = make(a, "torus:5x4", "bw=1GB/s,fail=h0-h1");
    struct net_graph g = {.nverts = 0};
    int was[PDL_MAX_ROUTE], is[PDL_MAX_ROUTE], dist[20], queue[20], moved = 0;

    (void)state;
    assert_int_equal(net->nlinks, whole->nlinks - 2);
    assert_int_equal(pdl_net_check(net, 4096, NULL), PDL_OK);
    assert_int_equal(net_graph_make(a, net, NULL, &g, NULL), PDL_OK);
    for (int d = 0; d < 20; d++) {
        net_graph_bfs(&g, d, dist, queue);
        for (int s = 0; s < 20; s++) {
            int n = whole->route(whole, s, d, was);
            int m = net->route(net, s, d, is);
            bool lost = false;

            for (int i = 0; i < n; i++)
                lost = lost || is_on(whole, was[i], 0, 1);
            for (int i = 0; i < m; i++)
                assert_false(is_on(net, is[i], 0, 1));
            assert_int_equal(m, lost ? dist[s] : n);
            for (int i = 0; i < n && !lost; i++)
                assert_true(is_on(net, is[i], whole->links[was[i]].from,
                                  whole->links[was[i]].to));
            moved += lost;
        }
    }
    assert_true(moved > 0 && moved < 100);
    pdl_arena_destroy(a);
}

static void what_is_slow_is_slow(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net =
        make(a, "star:hosts=9", "bw=1GB/s,lat=1us,slow=h8-s0/4");
    struct pdl_metrics was, is;
    struct pdl_net const *torus = make(a, "torus:4x4", "fail=4@7");

    (void)state;
    assert_true(fabs(together(net, 1, 8, false, 0) - 2e-6 - 40e-3) < 1e-12);
    assert_true(fabs(together(net, 1, 7, false, 0) - 2e-6 - 10e-3) < 1e-12);
    assert_int_equal(
        pdl_net_metrics(a, make(a, "torus:4x4", "lat=1us"), &was, NULL),
        PDL_OK);
    assert_int_equal(pdl_net_metrics(a, torus, &is, NULL), PDL_OK);
    assert_true(was.bisection_exact && !is.bisection_exact);
    assert_int_equal(is.cables, was.cables - 4);
    assert_true(is.average_hops > was.average_hops);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_is_a_shortest_walk),
        cmocka_unit_test(flows_of_one_pair_take_several_paths),
        cmocka_unit_test(adaptive_flows_avoid_each_other),
        cmocka_unit_test(adaptive_flows_use_both_ways_round_a_square),
        cmocka_unit_test(the_adaptive_choice_is_the_best_of_all),
        cmocka_unit_test(a_detour_is_two_shortest_walks),
        cmocka_unit_test(detours_pay_where_minimal_ways_crowd),
        cmocka_unit_test(what_fails_is_gone_around),
        cmocka_unit_test(what_is_slow_is_slow),
        cmocka_unit_test(networks_that_cannot_say_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
