/* What is wrong is said in one line, quickly, whatever the numbers; and the
 * checker of networks says no to a broken one. */
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <stdlib.h>

static void bad_texts_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *spec, *msg, *hint;
    } cases[] = {
        // clang-format off
        {"", "no topology ''", "'paradl topology list' shows them"},
        {"fat-tre:down=8", "no topology 'fat-tre'", "did you mean 'fat-tree'?"},
        {"fat-tree", "fat-tree: 'down' is missing", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=8x8", "fat-tree: 'up' is missing", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=8x8,up=1", "fat-tree: down has 2 levels and up 1", ""},
        {"fat-tree:down=8x8,up=1x8,links=1x1x1", "fat-tree: down has 2 levels and links 3", ""},
        {"fat-tree:down=8x8,up=1x0", "fat-tree: up: 0 is outside 1 to 1048576", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=8x8,up=1x8,", "fat-tree: empty parameter", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=8x,up=1x8", "fat-tree: down: '' is not a whole number", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=1x1x1x1x1x1x1x1x1,up=1", "fat-tree: down: '1x1x1x1x1x1x1x1x1' has more than 8 dimensions", "write it like fat-tree:down=8x8,up=1x8"},
        {"fat-tree:down=8x8,up=1x8,donw=3", "fat-tree: unknown parameter 'donw'", "did you mean 'down'?"},
        {"fat-tree:down=8x8,down=8x8", "fat-tree: 'down' is set twice", "write it like fat-tree:down=8x8,up=1x8"},
        {"torus:8x8,bw=12.5", "torus: bw: '12.5' needs a unit", "write it like 12.5GB/s or 400Gbps"},
        {"torus:8x8,bw=0B/s", "torus: bw: '0B/s' must be more than 0", "write it like torus:8x8x16"},
        {"torus:8x8,lat=-1us", "torus: lat: '-1us' must be 0 or more", "write it like torus:8x8x16"},
        {"torus:8x8,bw=1GB/s,bw=1GB/s", "torus: 'bw' is set twice", "write it like torus:8x8x16"},
        {"torus:8x8,duplex=half", "torus: duplex: 'half' is none of full|shared", "write it like torus:8x8x16"},
        {"torus:8x8,8", "torus: '8' is not written key=value", "write it like torus:8x8x16"},
        {"torus:9000", "torus: routes of 4500 links are longer than 4096", ""},
        {"torus:1024x1024x2", "torus: more than 1048576 hosts", ""},
        {"mesh:5000", "mesh: routes of 4999 links are longer than 4096", ""},
        {"dragonfly:groups=5,chassis=1,routers=4,nodes=1", "dragonfly: 5 groups need as many routers in a chassis (4)", ""},
        {"dragonfly:groups=65536,chassis=65536,routers=65536,nodes=65536", "dragonfly: more than 1048576 hosts", ""},
        {"dragonfly-direct:group=4,groups=9", "dragonfly-direct: 9 groups, but a group has 4 global cables", ""},
        {"rail:nodes=64,spines=0", "rail: without spines there is one unit and routing=pxn", ""},
        {"full2d:4x4x4", "full2d: dims: 3 dimensions, not 2", ""},
        {"dln:switches=64", "dln: give one of hosts and p", ""},
        {"dln:switches=64,q=6,hosts=1", "dln: give one of switches and q", ""},
        {"dln:switches=48,hosts=1", "dln: switches: 48 is not a power of two of 2 or more", ""},
        {"dln:switches=1099511627776,hosts=4", "dln: switches: 1099511627776 is outside 0 to 1048576", "write it like dln:switches=64,hosts=4"},
        {"dln:switches=2,hosts=0", "dln: hosts: 0 is outside 1 to 65536", ""},
        {"dln2d:x=16,y=16,z=1", "dln2d: more than 1048576 switches", ""},
        {"random:switches=7,degree=3", "random: 7 switches, not even", ""},
        {"random:switches=4,degree=4", "random: degree 4 needs more than 4 switches", ""},
        {"random:switches=4,degree=1", "random: a ring needs degree 2 and 4 switches", ""},
        {"random:switches=64,degree=1,ring=0", "random: the network is not connected", ""},
        {"kautz:d=4,duplex=shared", "kautz: arcs have one direction, duplex=shared is not possible", ""},
        {"hybrid-optical:eps=(torus:4),bw=1GB/s", "hybrid-optical: bw, lat and duplex belong inside eps=(...)", ""},
        {"hybrid-optical:eps=(torus:4),stride=4", "hybrid-optical: stride 4 leads a host to itself", ""},
        {"hybrid-optical:eps=(torus:4x)", "torus: dims: '' is not a whole number", "write it like torus:8x8x16"},
        {"hybrid-optical:eps=(hybrid-optical:eps=(hybrid-optical:eps=(hybrid-optical:eps=(torus:4))))", "hybrid-optical: nested too deep", ""},
        {"nvcluster:k=5,nodes=2", "nvcluster: k: '5' is none of 2|4|8|16", "write it like nvcluster:k=8,nodes=32"},
        {"dragonfly-gpu:switches=10", "dragonfly-gpu: 10 switches, not a multiple of 4", ""},
        {"abci:nodes=2048", "abci: a table of routes for 12717 vertices is too large, at most 8192", ""},
        {"/no/such/file.xml", "/no/such/file.xml: No such file or directory", ""},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL;
        struct pdl_err err = {"", ""};
        enum pdl_status st = pdl_net_make(a, cases[i].spec, &net, &err);

        if (st == PDL_OK || net || strcmp(err.msg, cases[i].msg) != 0 ||
            strcmp(err.hint, cases[i].hint) != 0)
            fail_msg("%s: \"%s\" \"%s\"", cases[i].spec, err.msg, err.hint);
        pdl_arena_destroy(a);
    }
}

static void what_is_too_large_is_refused_at_once(void **state)
{
    static const char *const specs[] = {
        "fat-tree:down=1048576x1048576,up=1x1",
        "fat-tree:down=1048576x1048576x1048576x1048576,up=1x1x1x1",
        "fat-tree:down=2x2,up=1x1048576,links=1x65536",
        "fat-tree:down=1024x1024,up=1x1024",
        "torus:1048576x1048576x1048576x1048576",
        "dragonfly:groups=65536,chassis=65536,routers=65536,nodes=1",
        "dragonfly:groups=1,chassis=1,routers=65536,nodes=1",
        "star:hosts=1099511627776",
        "leaf-spine:leaves=65536,hosts=65536,spines=65536,cables=4096",
        "rack-tree:racks=65536,hosts=65536,leaves=4096,fbb=4096,spines=4096",
        "rail:nodes=65536,gpus=1024,unit=1,spines=65536",
        "hyperx:65536x65536x65536x65536,hosts=65536",
        "hyperx:65536,hosts=1",
        "full2d:65536x65536",
        "dln:q=20,p=16",
        "dln:q=20,p=0,ranks=64",
        "dln2d:x=10,y=10,z=16",
        "kautz:d=1024,k=16",
        "kautz:d=1024,k=2",
        "random:switches=8192,degree=8191",
        "hybrid-optical:eps=(star:hosts=1099511627776)",
    };
    double start = pdl_clock_s();

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        pdl_arena *a = pdl_arena_create((size_t)64 << 20);
        const struct pdl_net *net = NULL;
        struct pdl_err err = {"", ""};

        if (pdl_net_make(a, specs[i], &net, &err) == PDL_OK || !*err.msg ||
            strchr(err.msg, '\n'))
            fail_msg("%s: '%s'", specs[i], err.msg);
        pdl_arena_destroy(a);
    }
    assert_true(pdl_clock_s() - start < 20);
}

/* ---- the checker must be able to say no -------------------------------------- */

static int mutant; /* which fault the route below has */
static const struct pdl_net *whole;

static int faulty_route(const struct pdl_net *net, int src, int dst, int *links)
{
    int n = whole->route(whole, src, dst, links);

    (void)net;
    if (src != 3 || n == 0)
        return n;
    if (mutant == 1)
        return n - 1; /* stops short */
    if (mutant == 2)
        links[0] ^= 1; /* starts with the way back */
    if (mutant == 3)
        links[n - 1] = 1 << 20; /* no such link */
    if (mutant == 4)
        return -1;
    if (mutant == 5)
        return PDL_MAX_ROUTE + 1;
    return n;
}

static void a_wrong_route_is_caught(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_net copy;

    (void)state;
    assert_int_equal(pdl_net_make(a, "fat-tree:down=4x4,up=1x4", &net, NULL),
                     PDL_OK);
    whole = net;
    copy = *net;
    copy.route = faulty_route;
    for (mutant = 0; mutant <= 5; mutant++) {
        struct pdl_err err = {"", ""};
        enum pdl_status st = pdl_net_check(&copy, 1 << 20, &err);

        assert_int_equal(st, mutant == 0 ? PDL_OK : PDL_EWRONG);
        assert_true(mutant == 0 || strstr(err.msg, "route 3-"));
    }
    pdl_arena_destroy(a);
}

static void a_wrong_link_is_caught(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;

    (void)state;
    assert_int_equal(pdl_net_make(a, "torus:4x4", &net, NULL), PDL_OK);
    for (int fault = 0; fault <= 7; fault++) {
        struct pdl_link *links = PDL_NEW(a, struct pdl_link, net->nlinks);
        struct pdl_net copy = *net;

        memcpy(links, net->links, (size_t)net->nlinks * sizeof *links);
        copy.links = links;
        if (fault == 1)
            links[5].to = 99;
        if (fault == 2)
            links[5].bytes_per_s = 0;
        if (fault == 3)
            links[5].latency_s = -1;
        if (fault == 4)
            links[5].reverse = 5;
        if (fault == 5)
            links[5].reverse = 7;
        if (fault == 6)
            links[5].shared = true;
        if (fault == 7)
            links[5].from = 9;
        assert_int_equal(pdl_net_check(&copy, 1 << 20, NULL),
                         fault ? PDL_EWRONG : PDL_OK);
    }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_texts_are_refused_with_a_reason),
        cmocka_unit_test(what_is_too_large_is_refused_at_once),
        cmocka_unit_test(a_wrong_route_is_caught),
        cmocka_unit_test(a_wrong_link_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
