/* Ranks that do the same are simulated as one: every figure is that of a run
 * in which each is simulated for itself, and what does not turn is not
 * folded. */
#include "paradl/coll.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SIZE = 9 * 5 * 7 * 4096 };

// clang-format off
static const struct fold_case {
    const char *collective, *algorithm, *topology;
    int folded; /* this many ranks are one */
} cases[] = {
    {"allreduce",      "ring",             "torus:5x4x3",              3},
    {"allreduce",      "ring",             "torus:5x4",                4},
    {"allreduce",      "ring-ring:k=5",    "torus:5x3x4",              20},
    {"allreduce",      "ring-ring:k=4",    "torus:5x4x3",              3},
    {"allreduce",      "ring-ring:k=10",   "torus:5x6x4",              4},
    {"allreduce",      "torus:x=5,y=3,z=4", "torus:5x3x4",             60},
    {"allreduce",      "ring-ring:k=4",    "dln:q=4,p=2",              64},
    {"allreduce",      "ring-ring:k=2",    "dln:q=3,p=2",              8},
    {"allreduce",      "ring-ring:k=4",    "dln:q=3,p=1,ranks=4",      32},
    {"allreduce",      "ring-ring:k=8",    "dln2d:x=2,y=2,z=1",        16},
    {"allreduce",      "ring",             "dln:q=4,p=2,double=1",     16},
    {"allreduce",      "ring",             "fat-tree:down=4x4,up=1x2", 4},
    {"allreduce",      "kautz",            "kautz:d=4",                5},
    {"allreduce",      "kautz-small",      "kautz:d=3",                4},
    {"allreduce",      "ring-ring:k=3",    "hyperx:4x5,hosts=3",       15},
    {"allreduce",      "ring-ring-pipelined:k=4", "dln:q=4,p=2",       64},
    {"allreduce",      "ring-ring-pipelined:k=5", "torus:5x4x3",       15},
    {"allreduce",      "segmented-ring",   "torus:5x4x3",              3},
    {"alltoall",       "pairwise",         "full2d:4x5",               5},
    {"alltoall",       "linear",           "full2d:4x5,routing=yx",    5},
    {"reduce-scatter", "ring",             "torus:3x7",                7},
    {"reduce-scatter", "kautz",            "kautz:d=5",                6},
    {"allgather",      "ring",             "torus:4x5,duplex=shared",  5},
    {"allgather",      "kautz",            "kautz:d=4",                5},
    {"alltoall",       "pairwise",         "torus:4x5",                5},
    {"alltoall",       "pairwise",         "torus:5x3x3",              3},
    {"alltoall",       "pairwise",         "torus:5x4,ties=up",        4},
    {"alltoall",       "pairwise",         "torus:4x6,ties=up",        6},
    {"alltoall",       "pairwise",         "dln:q=4,p=2",              16},
    {"alltoall",       "pairwise",         "fat-tree:down=4x4,up=1x2", 4},
    {"alltoall",       "torus:x=5,y=3,z=7", "torus:5x3x7",             105},
    {"alltoall",       "torus:x=4,y=6",    "torus:4x6,ties=up",        24},
    {"alltoall",       "linear",           "dln:q=3,p=2",              8},
    {"alltoall",       "linear",           "torus:3x5",                5},
    {"alltoall",       "kautz",            "kautz:d=6",                7},
    /* half way round an even ring one host goes the other way */
    {"alltoall",       "pairwise",         "torus:5x4",                1},
    {"alltoall",       "torus:x=5,y=4",    "torus:5x4",                1},
    /* ports depend on what would be turned; two cables between two */
    {"alltoall",       "pairwise",         "fat-tree:down=4x4,up=1x8", 1},
    {"allreduce",      "ring",             "fat-tree:down=4x4,up=1x2,links=1x2",
     1},
    {"allreduce",      "ring",             "mesh:4x5",                 1},
    {"allreduce",      "halving-doubling", "torus:4x4",                1},
    {"alltoall",       "pairwise",         "torus:4x5,paths=ecmp",     1},
};
// clang-format on

static void close_to(double a, double b, const char *what,
                     const struct fold_case *c)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%s/%s on %s: %s %.17g folded, %.17g not", c->collective,
                 c->algorithm, c->topology, what, a, b);
}

static void same(const struct pdl_net *net, const struct pdl_sim_result *a,
                 const struct pdl_sim_result *b, const struct fold_case *c)
{
    close_to(a->time_s, b->time_s, "time", c);
    close_to(a->energy_j, b->energy_j, "energy", c);
    close_to(a->bounds.lower_s, b->bounds.lower_s, "bound", c);
    close_to(a->bounds.alone_s, b->bounds.alone_s, "alone", c);
    assert_int_equal(a->messages, b->messages);
    assert_int_equal(a->bytes_on_wire, b->bytes_on_wire);
    assert_int_equal(a->max_link_bytes, b->max_link_bytes);
    assert_int_equal(a->max_link, b->max_link);
    for (int r = 0; r < net->nhosts; r++)
        close_to(a->finish_s[r], b->finish_s[r], "a rank's end", c);
    for (int l = 0; l < net->nlinks; l++) {
        assert_int_equal(a->links[l].bytes, b->links[l].bytes);
        close_to(a->links[l].load, b->links[l].load, "load", c);
        close_to(a->links[l].busy_s, b->links[l].busy_s, "use", c);
        close_to(a->links[l].first_s, b->links[l].first_s, "first use", c);
    }
}

static void folded_ranks_end_when_each_for_itself_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct fold_case *c = &cases[i];
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_sim_config config = {
            .energy = PDL_ENERGY_INTEGRATE, .links = true, .bounds = true};
        struct pdl_sim_result folded, each;
        struct pdl_coll_job job;
        struct pdl_traffic traffic;
        const struct pdl_net *net;
        struct pdl_err err;

        assert_int_equal(pdl_net_make(a, c->topology, &net, &err), PDL_OK);
        assert_int_equal(pdl_coll_job_make(c->collective, c->algorithm,
                                           net->nhosts, SIZE, 4, &job, &err),
                         PDL_OK);
        pdl_coll_traffic(&job, NULL, &traffic);
        assert_int_equal(pdl_sim_run(a, net, &traffic, &config, &folded, &err),
                         PDL_OK);
        config.unfolded = true;
        assert_int_equal(pdl_sim_run(a, net, &traffic, &config, &each, &err),
                         PDL_OK);
        assert_int_equal(each.folded, 1);
        if (folded.folded != c->folded)
            fail_msg("%s/%s on %s: %d ranks are one, not %d", c->collective,
                     c->algorithm, c->topology, folded.folded, c->folded);
        same(net, &folded, &each, c);
        pdl_arena_destroy(a);
    }
}

/* ---- what networks say of themselves -------------------------------------- */

static int turned(const struct pdl_net *net, int64_t by, int64_t in, int v)
{
    if (v >= net->nhosts)
        return net->turn ? net->turn(net, by, in, v) : v;
    return (int)(v - v % in + (v % in + by) % in);
}

static bool one_route_turns(const struct pdl_net *net, int64_t by, int64_t in,
                            int src, int dst)
{
    int from[PDL_MAX_ROUTE], to[PDL_MAX_ROUTE];
    int n = net->route(net, src, dst, from);

    if (net->tied && net->tied(net, in, src, dst))
        return true;
    if (net->route(net, turned(net, by, in, src), turned(net, by, in, dst),
                   to) != n)
        return false;
    for (int i = 0; i < n; i++)
        if (turned(net, by, in, net->links[from[i]].from) !=
                net->links[to[i]].from ||
            turned(net, by, in, net->links[from[i]].to) != net->links[to[i]].to)
            return false;
    return true;
}

/* How many ways of a network do not turn where it says they do. */
static int wrong_turns(const struct pdl_net *net)
{
    int wrong = 0;

    for (int k = 0; k < net->turns.n; k++) {
        int64_t by = net->turns.level[k].stride;
        int64_t in = by * net->turns.level[k].extent;

        for (int s = 0; s < net->nhosts; s++)
            for (int d = 0; d < net->nhosts; d++)
                wrong += !one_route_turns(net, by, in, s, d);
    }
    return wrong;
}

static void ways_turn_where_a_network_says_so(void **state)
{
    static const char *const nets[] = {
        "torus:4x5x3",
        "torus:6x4",
        "torus:6x4,ties=up",
        "torus:7",
        "dln:q=4,p=2",
        "dln:q=3,p=1,ranks=3",
        "dln:q=5,p=0,double=1",
        "dln2d:x=2,y=3,z=1",
        "hyperx:3x4,hosts=2",
        "full2d:4x5,routing=yx",
        "fat-tree:down=4x3,up=1x2",
        "fat-tree:down=4x4x3,up=1x2x4",
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net;

    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        assert_int_equal(pdl_net_make(a, nets[i], &net, NULL), PDL_OK);
        assert_true(net->turns.n > 0);
        if (wrong_turns(net))
            fail_msg("%s: %d ways do not turn", nets[i], wrong_turns(net));
    }
    pdl_arena_destroy(a);
}

/* A checker that never says no proves nothing: a mesh that claims to be a
 * torus, a torus that hides its ties. */
static void a_network_that_lies_is_found_out(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *mesh, *torus;
    struct pdl_net lie;

    (void)state;
    assert_int_equal(pdl_net_make(a, "mesh:4x5", &mesh, NULL), PDL_OK);
    lie = *mesh;
    lie.tied = NULL;
    lie.turns = (struct pdl_turns){.n = 1, .level = {{4, 5}}};
    assert_true(wrong_turns(&lie) > 0);
    assert_int_equal(pdl_net_make(a, "torus:4x6", &torus, NULL), PDL_OK);
    lie = *torus;
    lie.tied = NULL;
    assert_true(wrong_turns(&lie) > 0);
    pdl_arena_destroy(a);
}

/* ---- floors ----------------------------------------------------------------- */

/* No algorithm is faster than its floors on any network, and they are not
 * idle: some are met. */
static void nobody_is_faster_than_the_floors(void **state)
{
    static const char *const nets[] = {
        "torus:4x4",
        "dln:q=3,p=1",
        "fat-tree:down=4x4,up=1x2",
        "dragonfly:groups=2,chassis=2,routers=2,nodes=2",
        "kautz:d=4",
    };
    int met = 0;

    (void)state;
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++)
        for (int i = 0; pdl_alg_at(i); i++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_coll_job job;
            struct pdl_traffic traffic;
            struct pdl_sim_result out;
            const struct pdl_net *net;
            double ranks_s, links_s;

            assert_int_equal(pdl_net_make(a, nets[n], &net, NULL), PDL_OK);
            if (pdl_coll_job_make(alg->collective->name, alg->name, net->nhosts,
                                  SIZE, 4, &job, NULL) == PDL_OK) {
                pdl_coll_traffic(&job, NULL, &traffic);
                assert_int_equal(
                    pdl_sim_run(a, net, &traffic, NULL, &out, NULL), PDL_OK);
                ranks_s = pdl_coll_ranks_floor(net, &job, a);
                links_s = pdl_coll_links_floor(net, &job, a);
                if (ranks_s > out.time_s * (1 + 1e-12) ||
                    links_s > out.time_s * (1 + 1e-12))
                    fail_msg("%s/%s on %s takes %g s, floors %g and %g",
                             alg->collective->name, alg->name, nets[n],
                             out.time_s, ranks_s, links_s);
                met += ranks_s > 0.99 * out.time_s;
            }
            pdl_arena_destroy(a);
        }
    assert_true(met > 20);
}

/* ---- scale ------------------------------------------------------------------ */

/* Contended, on 16,384 hosts; rank by rank none of these answers in a minute. */
static void sixteen_thousand_hosts_are_few(void **state)
{
    static const struct fold_case large[] = {
        {"allreduce", "ring-ring:k=64", "dln:q=8,p=6", 16384},
        {"allreduce", "ring-ring:k=16", "torus:16x32x32", 512},
    };

    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        pdl_arena *a = pdl_arena_create((size_t)1 << 30);
        struct pdl_sim_config config = {.memory_limit = (size_t)256 << 20};
        struct pdl_sim_result out;
        struct pdl_coll_job job;
        struct pdl_traffic traffic;
        const struct pdl_net *net;

        assert_int_equal(pdl_net_make(a, large[i].topology, &net, NULL),
                         PDL_OK);
        assert_int_equal(
            pdl_coll_job_make(large[i].collective, large[i].algorithm,
                              net->nhosts, 1 << 24, 4, &job, NULL),
            PDL_OK);
        pdl_coll_traffic(&job, NULL, &traffic);
        assert_int_equal(pdl_sim_run(a, net, &traffic, &config, &out, NULL),
                         PDL_OK);
        assert_int_equal(out.folded, large[i].folded);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_ranks_end_when_each_for_itself_does),
        cmocka_unit_test(ways_turn_where_a_network_says_so),
        cmocka_unit_test(a_network_that_lies_is_found_out),
        cmocka_unit_test(nobody_is_faster_than_the_floors),
        cmocka_unit_test(sixteen_thousand_hosts_are_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
