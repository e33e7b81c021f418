/* SimGrid platform files: what is read, what is refused and how, and that
 * what is written is read back as the same network. */
#include "effort.h"
#include "topo_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define DATA PDL_SOURCE_DIR "/tests/data/net/"

static enum pdl_status read_text(pdl_arena *a, const char *text,
                                 const struct pdl_net **net,
                                 struct pdl_err *err)
{
    return pdl_net_read_simgrid(a, (struct pdl_bytes){text, strlen(text)},
                                "p.xml", net, err);
}

static void sample_platforms_are_read(void **state)
{
    static const struct {
        const char *file, *spec;
        int hosts, links;
    } cases[] = {
        {DATA "cluster_backbone.xml",
         "star:hosts=100,backbone=2.25GB/s,backbone-lat=500us,bw=125MB/s,"
         "lat=50us,duplex=full",
         100, 201},
        {DATA "cluster_fat_tree.xml",
         "fat-tree:down=4x4,up=1x2,links=1x2,bw=125MB/s,lat=50us,duplex=full",
         16, 64},
        {DATA "cluster_torus.xml",
         "torus:3x2x2,bw=125MB/s,lat=50us,duplex=full", 12, 72},
        /* with a limiter at each of 120 hosts and 60 routers */
        {DATA "cluster_dragonfly.xml",
         "dragonfly:groups=3,blue=4,chassis=4,black=3,routers=5,green=1,"
         "nodes=2,bw=125MB/s,lat=50us,duplex=full",
         120, 666 + 180},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL;
        struct pdl_err err = {"", ""};

        if (pdl_net_make(a, cases[i].file, &net, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(net->spec, cases[i].spec);
        assert_int_equal(net->nhosts, cases[i].hosts);
        assert_int_equal(net->nlinks, cases[i].links);
        assert_int_equal(pdl_net_check(net, 1 << 16, &err), PDL_OK);
        pdl_arena_destroy(a);
    }
}

static void limiters_are_on_the_route_of_every_vertex(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    int links[PDL_MAX_ROUTE], n;
    char name[128];

    (void)state;
    assert_int_equal(pdl_net_make(a, DATA "cluster_dragonfly.xml", &net, NULL),
                     PDL_OK);
    /* host, up, router, down, host */
    n = net->route(net, 0, 1, links);
    assert_int_equal(n, 5);
    assert_string_equal(pdl_net_link_name(net, links[0], name, sizeof name),
                        "limiter_0");
    assert_string_equal(pdl_net_link_name(net, links[2], name, sizeof name),
                        "limiter_120");
    assert_string_equal(pdl_net_link_name(net, links[4], name, sizeof name),
                        "limiter_1");
    assert_true(net->links[links[2]].bytes_per_s == 150e6);
    pdl_arena_destroy(a);
}

#define P(inside) "<platform version=\"4.1\">" inside "</platform>"
#define C(more)                                                              \
    "<cluster id=\"c\" prefix=\"n\" suffix=\"\" speed=\"1Gf\" bw=\"1GBps\" " \
    "lat=\"1us\" " more "/>"

#define H(id) "<host id=\"" id "\"/>"
#define L(id) "<link id=\"" id "\" bandwidth=\"1GBps\"/>"

static void what_is_not_read_is_refused_in_one_line(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        // clang-format off
        {"", "p.xml:1:1: no element found"},
        {"<platform", "p.xml:1:1: unclosed token"},
        {"hello", "p.xml:1:1: syntax error"},
        {"<topology/>", "p.xml:1:1: not a SimGrid platform: element topology"},
        {"<platform version=\"3\"/>", "p.xml:1:1: platform version 4 is read, not 3"},
        {P(""), "p.xml: neither a <cluster> nor hosts in it"},
        {P("\n <peer id=\"h\"/>"), "p.xml:2:2: this element of a platform is not read: peer"},
        {P("<zone id=\"z\" routing=\"Vivaldi\"/>"), "p.xml:1:25: a zone with routing 'Vivaldi' is not read"},
        {P("<zone>" C("radical=\"0-3\"") C("radical=\"0-3\"") "</zone>"), "p.xml: 'c' is there twice"},
        {P("<zone>" C("radical=\"0-3\"") H("a") "</zone>"), "p.xml: two hosts without a route between them (host 0 to host 4)"},
        {P("<zone>" C("radical=\"0-3\" topology=\"TORUS\" topo_parameters=\"2,2\"") H("a") "</zone>"), "p.xml: beside others a cluster must be FLAT"},
        {P("<zone>" C("radical=\"0-3\" limiter_link=\"1GBps\"") H("a") "</zone>"), "p.xml: beside others a cluster cannot have a limiter_link"},
        {P("<zone>" C("radical=\"0-9999\"") H("a") "</zone>"), "p.xml: beside others a cluster is too large"},
        {P("<zone>" H("a") "</zone><zone>" H("b") "</zone>"), "p.xml:1:52: a second zone that holds all others"},
        {P("<zone><zone id=\"x\">" H("a") "</zone><zone id=\"y\">" H("b") "</zone><route src=\"x\" dst=\"y\"/></zone>"), "p.xml:1:99: a route between zones is a <zoneRoute>"},
        {P("<zone><zone id=\"x\">" H("a") "</zone><zone id=\"y\">" H("b") "</zone><zoneRoute src=\"x\" dst=\"y\" gw_src=\"b\" gw_dst=\"b\"/></zone>"), "p.xml:1:99: gw_src: 'b' is no gateway of its zone"},
        {P("<zone><zone id=\"x\">" H("a") "</zone><zone id=\"y\">" H("b") "</zone><route src=\"a\" dst=\"b\"/></zone>"), "p.xml:1:99: a route from 'a' to 'b', which are not both there"},
        {P("<zone routing=\"Cluster\">" H("a") "<host_link id=\"a\" up=\"l\" down=\"l\"/></zone>"), "p.xml:1:63: host_link: no such host or link: 'a'"},
        {P("<zone routing=\"Cluster\">" H("a") H("b") "</zone>"), "p.xml: a cluster without links (host 0 to host 1)"},
        {P("<zone routing=\"Cluster\"><cabinet radical=\"1-\" bw=\"1Bps\"/></zone>"), "p.xml:1:49: radical: is not like 0-15"},
        {P("<zone>" H("a") H("a") "</zone>"), "p.xml:1:45: 'a' is there twice"},
        {P("<zone>" H("a") H("b") "</zone>"), "p.xml: two hosts without a route between them (host 0 to host 1)"},
        {P("<zone routing=\"Floyd\">" H("a") H("b") "</zone>"), "p.xml: two hosts without a route between them (host 0 to host 1)"},
        {P("<zone>" H("a") L("l") "<route src=\"a\" dst=\"c\"/></zone>"), "p.xml:1:77: a route from 'a' to 'c', which are not both there"},
        {P("<zone>" H("a") H("b") "<route src=\"a\" dst=\"b\"/></zone>"), "p.xml:1:83: a route without links"},
        {P("<zone>" H("a") H("b") "<route src=\"a\" dst=\"b\"><link_ctn id=\"x\"/></route></zone>"), "p.xml:1:82: link_ctn: no link 'x'"},
        {P("<link id=\"l\" bandwidth=\"0Bps\"/>"), "p.xml:1:25: bandwidth: '0Bps' is not positive"},
        {P("<link id=\"l\" bandwidth=\"1Bps\" sharing_policy=\"WIFI\"/>"), "p.xml:1:25: sharing_policy: none of SPLITDUPLEX, SHARED, FATPIPE"},
        {P(C("")), "p.xml:1:25: radical: is missing"},
        {P(C("radical=\"0-\"")), "p.xml:1:25: radical: is not like 0-15"},
        {P(C("radical=\"3-1\"")), "p.xml:1:25: radical: is not like 0-15"},
        {P(C("radical=\"0-3,\"")), "p.xml:1:25: radical: is not like 0-15"},
        {P(C("radical=\"0-99999999999\"")), "p.xml:1:25: radical: is not like 0-15"},
        {P(C("radical=\"0-3\" topology=\"RING\"")), "p.xml:1:25: topology: none of FLAT, TORUS, FAT_TREE, DRAGONFLY"},
        {P(C("radical=\"0-3\" topology=\"TORUS\"")), "p.xml:1:25: topo_parameters is not like 8,8"},
        {P(C("radical=\"0-3\" topology=\"TORUS\" topo_parameters=\"lat=1s\"")), "p.xml:1:25: topo_parameters is not like 8,8"},
        {P(C("radical=\"0-3\" topology=\"TORUS\" topo_parameters=\"2,3\"")), "p.xml:1:25: radical names 4 hosts, the topology has 6"},
        {P(C("radical=\"0-3\" topology=\"FAT_TREE\" topo_parameters=\"3;2,2;1,1;1,1\"")), "p.xml:1:25: topo_parameters is not like 2;4,4;1,2;1,2"},
        {P(C("radical=\"0-3\" topology=\"FAT_TREE\" topo_parameters=\"2;2,2;1,1;1,1;1\"")), "p.xml:1:25: topo_parameters is not like 2;4,4;1,2;1,2"},
        {P(C("radical=\"0-3\" topology=\"DRAGONFLY\" topo_parameters=\"1;1,1;1,1;4\"")), "p.xml:1:25: topo_parameters is not like 3,4;4,3;5,1;2"},
        {P(C("radical=\"0-3\" topology=\"DRAGONFLY\" topo_parameters=\"2,1;1,1;1,1;2\"")), "p.xml:1:25: dragonfly: 2 groups need as many routers in a chassis (1)"},
        {P(C("radical=\"0-3\" sharing_policy=\"WIFI\"")), "p.xml:1:25: sharing_policy: none of SPLITDUPLEX, SHARED"},
        {P(C("radical=\"0-3\" bb_bw=\"fast\"")), "p.xml:1:25: bb_bw: 'fast' is not a number"},
        {P(C("radical=\"0-3\" bb_bw=\"1GBps\" bb_sharing_policy=\"WIFI\"")), "p.xml:1:25: bb_sharing_policy: only SHARED is supported"},
        {P("<zone><cluster radical=\"0-3\" lat=\"1us\"/></zone>"), "p.xml:1:31: bw: is missing"},
        {"<!DOCTYPE platform [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>" P("&b;"), "p.xml:1:32: entities are not allowed: a"},
        {"<!DOCTYPE platform [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>" P("&x;"), "p.xml:1:59: entities are not allowed: x"},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL;
        struct pdl_err err = {"", ""};

        if (read_text(a, cases[i].text, &net, &err) == PDL_OK || net ||
            strcmp(err.msg, cases[i].msg) != 0)
            fail_msg("%s: \"%s\"", cases[i].text, err.msg);
        pdl_arena_destroy(a);
    }
}

/* Zones in a zone: cabinets, a cluster, hosts around a router; from hop to hop
 * through the cluster's router, over its backbone. */
static void routes_go_from_zone_to_zone(void **state)
{
    static const struct {
        int src, dst;
        const char *links;
    } cases[] = {
        {0, 1, "link_h1_UP ba link_h2_DOWN"},
        {2, 0, "lx_UP ba link_h1_DOWN"},
        {3, 5, "link_n0_UP b_backbone link_n2_DOWN"},
        {0, 3, "link_h1_UP ba ab b_backbone link_n0_DOWN"},
        {4, 7, "link_n1_UP b_backbone bc l2"},
        {0, 6, "link_h1_UP ba ab bc l1"},
        {6, 2, "l1 bc ab ba lx_DOWN"},
        {6, 7, "l1 l2"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    (void)state;
    if (pdl_net_make(a,
                     PDL_SOURCE_DIR "/tests/fuzz/corpus/simgrid_xml/zones.xml",
                     &net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(net->nhosts, 8);
    assert_int_equal(pdl_net_check(net, 1 << 16, &err), PDL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int links[PDL_MAX_ROUTE];
        int n = net->route(net, cases[i].src, cases[i].dst, links);
        char got[512] = "", name[128];
        size_t len = 0;

        for (int k = 0; k < n; k++)
            len += (size_t)snprintf(
                got + len, sizeof got - len, "%s%s", k ? " " : "",
                pdl_net_link_name(net, links[k], name, sizeof name));
        assert_string_equal(got, cases[i].links);
    }
    pdl_arena_destroy(a);
}

/* One link between any two of three hosts: no graph, but routes and times. */
static void routes_that_fit_no_graph_can_be_simulated(void **state)
{
    static const char text[] =
        P("<zone>" H("a") H("b") H("c")
              L("l") "<route src=\"a\" "
                     "dst=\"b\"><link_ctn id=\"l\"/></route><route src=\"a\" "
                     "dst=\"c\"><link_ctn id=\"l\"/></route><route src=\"b\" "
                     "dst=\"c\"><link_ctn id=\"l\"/></route></zone>");
    struct pdl_flow flows[] = {{0, 1, 1000000, 0}, {1, 2, 1000000, 0}};
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_metrics m;
    double end[2];

    (void)state;
    assert_int_equal(read_text(a, text, &net, NULL), PDL_OK);
    assert_int_equal(pdl_net_check(net, 100, NULL), PDL_OK);
    assert_int_equal(pdl_net_metrics(a, net, &m, NULL), PDL_OK);
    assert_int_equal(m.diameter, 0);
    assert_int_equal(pdl_sim_flows(a, net, flows, 2, &config, end, NULL, NULL),
                     PDL_OK);
    assert_float_equal(end[0], 2e-3, 1e-12);
    assert_float_equal(end[1], 2e-3, 1e-12);
    pdl_arena_destroy(a);
}

/* Two flows over one link of 1 GB/s: each has it to itself. */
static void a_fatpipe_is_not_shared(void **state)
{
    static const struct {
        const char *policy;
        double end_s;
    } cases[] = {{"SHARED", 2e-3}, {"FATPIPE", 1e-3}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL;
        struct pdl_flow flows[] = {{0, 1, 1000000, 0}, {0, 1, 1000000, 0}};
        struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
        char *text = pdl_arena_printf(
            a,
            P("<zone>" H("a") H("b") "<link id=\"l\" bandwidth=\"1GBps\" "
                                     "sharing_policy=\"%s\"/><route src=\"a\" "
                                     "dst=\"b\"><link_ctn "
                                     "id=\"l\"/></route></zone>"),
            cases[i].policy);
        double end[2];

        assert_int_equal(read_text(a, text, &net, NULL), PDL_OK);
        assert_int_equal(
            pdl_sim_flows(a, net, flows, 2, &config, end, NULL, NULL), PDL_OK);
        assert_float_equal(end[0], cases[i].end_s, 1e-12);
        assert_float_equal(end[1], cases[i].end_s, 1e-12);
        pdl_arena_destroy(a);
    }
}

static void nesting_has_a_limit(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;

    (void)state;
    pdl_buf_init(&text);
    pdl_puts(&text.sink, "<platform version='4'>");
    for (int i = 0; i < 100000; i++)
        pdl_puts(&text.sink, "<zone>");
    assert_int_equal(read_text(a, text.text, &net, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "nested too deep"));
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
}

static void old_files_without_units_are_read(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    (void)state;
    if (read_text(a,
                  "<platform version='4'><AS><cluster id='c' radical='0,2-4' "
                  "bw='125000000' lat='5E-5'/></AS></platform>",
                  &net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(net->nhosts, 4);
    assert_true(net->links[0].bytes_per_s == 125e6);
    assert_true(net->links[0].latency_s == 5e-5);
    pdl_arena_destroy(a);
}

static void assert_same(const struct pdl_net *x, const struct pdl_net *y)
{
    assert_int_equal(x->nhosts, y->nhosts);
    assert_int_equal(x->nlinks, y->nlinks);
    for (int k = 0; k < x->nlinks; k++)
        assert_true(x->links[k].bytes_per_s == y->links[k].bytes_per_s &&
                    x->links[k].latency_s == y->links[k].latency_s &&
                    x->links[k].from == y->links[k].from &&
                    x->links[k].shared == y->links[k].shared);
    for (int s = 0; s < x->nhosts; s += 7)
        for (int d = 0; d < x->nhosts; d++) {
            int a[PDL_MAX_ROUTE], b[PDL_MAX_ROUTE];
            int n = x->route(x, s, d, a);

            assert_int_equal(n, y->route(y, s, d, b));
            assert_memory_equal(a, b, (size_t)n * sizeof(int));
        }
}

static void clusters_written_are_read_back_the_same(void **state)
{
    static const char *const specs[] = {
        "fat-tree:down=4x3,up=2x2,links=2x3,bw=1.23456789GB/s,lat=333ns",
        "fat-tree:down=4x4,up=1x4,links=1",
        "torus:3x4x5,duplex=shared,lat=0s",
        "dragonfly:groups=3,chassis=2,routers=4,nodes=2,blue=2,black=3",
        "star:hosts=12,backbone=3GB/s,backbone-lat=1.5us",
        "star:hosts=2",
        DATA "cluster_dragonfly.xml",
    };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_net *net = NULL, *back = NULL;
        struct pdl_err err = {"", ""};
        struct pdl_buf text;

        pdl_buf_init(&text);
        assert_int_equal(pdl_net_make(a, specs[i], &net, &err), PDL_OK);
        assert_int_equal(pdl_net_write_simgrid(net, &text.sink, &err), PDL_OK);
        if (read_text(a, text.text, &back, &err) != PDL_OK)
            fail_msg("%s: %s", specs[i], err.msg);
        assert_same(net, back);
        pdl_buf_free(&text);
        pdl_arena_destroy(a);
    }
}

/* The same routes over the same links, and the same distances: the switches
 * may be numbered otherwise. */
static void assert_alike(const char *spec, const struct pdl_net *x,
                         const struct pdl_net *y)
{
    struct pdl_err err = {"", ""};

    if (x->nhosts != y->nhosts || x->nlinks != y->nlinks)
        fail_msg("%s: %d hosts, %d links", spec, y->nhosts, y->nlinks);
    if (pdl_net_check(y, 1 << 16, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    for (int k = 0; k < x->nlinks; k++)
        assert_true(x->links[k].bytes_per_s == y->links[k].bytes_per_s &&
                    x->links[k].latency_s == y->links[k].latency_s);
    for (int s = 0; s < x->nhosts; s++)
        for (int d = 0; d < x->nhosts; d++) {
            int a[PDL_MAX_ROUTE], b[PDL_MAX_ROUTE];
            int n = x->route(x, s, d, a);

            assert_int_equal(n, y->route(y, s, d, b));
            assert_memory_equal(a, b, (size_t)n * sizeof(int));
        }
}

/* Every network is read back as it was written, routes and all. */
static void listed_networks_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; pdl_topo_at(i); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const char *spec = pdl_topo_at(i)->example;
        const struct pdl_net *net = NULL, *back = NULL;
        struct pdl_err err = {"", ""};
        struct pdl_buf text;

        pdl_buf_init(&text);
        assert_int_equal(pdl_net_make(a, spec, &net, &err), PDL_OK);
        if (net->nhosts <= effort(100, 300, 300) && !net->jumps) {
            assert_int_equal(pdl_net_write_simgrid(net, &text.sink, &err),
                             PDL_OK);
            if (read_text(a, text.text, &back, &err) != PDL_OK)
                fail_msg("%s: %s", spec, err.msg);
            assert_alike(spec, net, back);
        }
        pdl_buf_free(&text);
        pdl_arena_destroy(a);
    }
}

static const struct pdl_net *read_ok(pdl_arena *a, const char *text)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (read_text(a, text, &net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return net;
}

/* So many links from one host to another, and the name of one of them. */
struct way {
    int src, dst, n, at;
    const char *name;
};

static void check_ways(const struct pdl_net *net, const struct way *w, size_t n)
{
    int links[PDL_MAX_ROUTE];
    char name[80];

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(net->route(net, w[i].src, w[i].dst, links), w[i].n);
        assert_string_equal(
            pdl_net_link_name(net, links[w[i].at], name, sizeof name),
            w[i].name);
    }
}

/* Two leaves under a root, hops given, the rest by Floyd's algorithm; the
 * switch's own link is listed by the cable that leads into it. */
static void hops_are_put_together(void **state)
{
    static const char text[] =
        "<platform version='4.1'><zone id='w' routing='Full'>"
        "<zone id='z' routing='Floyd'>" H("a") H("b")
            H("c") "<router id='l0'/><router id='l1'/><router id='r'/>" L("a0")
                L("b0") L("c1") L(
                    "u0") "<link id='u1' bandwidth='2GBps' latency='3us' "
                          "sharing_policy='SPLITDUPLEX'/>" L(
                              "x") "<route src='a' dst='l0'><link_ctn "
                                   "id='a0'/></route>"
                                   "<route src='b' dst='l0'><link_ctn "
                                   "id='b0'/></route>"
                                   "<route src='c' dst='l1'><link_ctn "
                                   "id='c1'/></route>"
                                   "<route src='l0' dst='r'><link_ctn "
                                   "id='u0'/><link_ctn id='x'/></route>"
                                   "<route src='l1' dst='r'><link_ctn id='u1' "
                                   "direction='UP'/>"
                                   "<link_ctn "
                                   "id='x'/></route></zone></zone></platform>";
    static const struct way want[] = {{0, 1, 2, 1, "b0"},
                                      {0, 2, 6, 5, "c1"},
                                      {2, 0, 6, 5, "a0"},
                                      {0, 2, 6, 4, "u1_DOWN"}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = read_ok(a, text);
    int links[PDL_MAX_ROUTE];

    (void)state;
    assert_int_equal(net->nhosts, 3);
    assert_int_equal(net->nswitches, 3);
    assert_int_equal(net->nlinks, 7);
    assert_int_equal(pdl_net_check(net, 100, NULL), PDL_OK);
    check_ways(net, want, sizeof want / sizeof want[0]);
    net->route(net, 0, 2, links);
    assert_true(links[2] == links[3] &&
                net->links[links[2]].from == net->links[links[2]].to);
    pdl_arena_destroy(a);
}

/* From end to end, one way, and never as a hop of a longer route. */
static void a_bypass_comes_first_and_goes_one_way(void **state)
{
    static const char text[] =
        "<platform version='4.1'><zone id='w' routing='Floyd'>" H("a") H("b")
            H("c") L("ab") L("bc")
                L("by") "<route src='a' dst='b'><link_ctn id='ab'/></route>"
                        "<route src='b' dst='c'><link_ctn id='bc'/></route>"
                        "<bypassRoute src='a' dst='b'><link_ctn id='by'/>"
                        "<link_ctn id='ab'/></bypassRoute></zone></platform>";
    static const struct way want[] = {
        {0, 1, 2, 0, "by"}, {1, 0, 1, 0, "ab"}, {0, 2, 2, 0, "ab"}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    check_ways(read_ok(a, text), want, sizeof want / sizeof want[0]);
    pdl_arena_destroy(a);
}

static void other_networks_are_written_with_their_routes(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;

    (void)state;
    pdl_buf_init(&text);
    assert_int_equal(pdl_net_make(a, "kautz:d=2", &net, &err), PDL_OK);
    assert_int_equal(pdl_net_write_simgrid(net, &text.sink, &err), PDL_OK);
    assert_non_null(strstr(text.text, "<link id=\"l11\""));
    assert_non_null(strstr(text.text, "<route src=\"node-5\" dst=\"node-4\""));
    assert_int_equal(pdl_net_make(a, "mesh:32x32", &net, &err), PDL_OK);
    assert_int_equal(pdl_net_write_simgrid(net, &text.sink, &err), PDL_EINVAL);
    assert_string_equal(err.msg,
                        "mesh:32x32: SimGrid has no such cluster, and 1024 "
                        "hosts are too many to list every route (at most 512)");
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_platforms_are_read),
        cmocka_unit_test(limiters_are_on_the_route_of_every_vertex),
        cmocka_unit_test(what_is_not_read_is_refused_in_one_line),
        cmocka_unit_test(routes_go_from_zone_to_zone),
        cmocka_unit_test(routes_that_fit_no_graph_can_be_simulated),
        cmocka_unit_test(a_fatpipe_is_not_shared),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(old_files_without_units_are_read),
        cmocka_unit_test(clusters_written_are_read_back_the_same),
        cmocka_unit_test(listed_networks_are_read_back),
        cmocka_unit_test(hops_are_put_together),
        cmocka_unit_test(a_bypass_comes_first_and_goes_one_way),
        cmocka_unit_test(other_networks_are_written_with_their_routes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
