/* What the tests of the simulator share: small networks made by hand, the
 * fat trees, tori and dragonflies of the anchors, permutation traffic. */
#ifndef NET_CASES_H
#define NET_CASES_H

#include "paradl/net.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- networks by hand: flow i goes from host 2i to host 2i+1 ------------- */

enum { HAND_LINKS = 8, HAND_FLOWS = 8 };

struct hand {
    double gbytes_per_s[HAND_LINKS], latency_us; /* links until a 0 */
    const char *routes[HAND_FLOWS];              /* "ABC": links 0, 1, 2 */
};

static inline int hand_route(const struct pdl_net *net, int src, int dst,
                             int *links)
{
    const struct hand *h = net->shape;
    const char *r = src / 2 == dst / 2 && src != dst ? h->routes[src / 2] : "";
    int n = 0;

    while (r[n]) {
        links[n] = r[n] - 'A';
        n++;
    }
    return n;
}

static inline void hand_net(const struct hand *h, struct pdl_link *links,
                            struct pdl_net *net)
{
    *net = (struct pdl_net){.spec = "by hand",
                            .nhosts = 2 * HAND_FLOWS,
                            .links = links,
                            .route = hand_route,
                            .shape = h};
    while (net->nlinks < HAND_LINKS && h->gbytes_per_s[net->nlinks] > 0) {
        links[net->nlinks] = (struct pdl_link){
            .bytes_per_s = 1e9 * h->gbytes_per_s[net->nlinks],
            .latency_s = 1e-6 * h->latency_us,
            .reverse = -1,
        };
        net->nlinks++;
    }
}

/* ---- the anchors' networks ------------------------------------------------ */

static const struct {
    const char *name, *spec;
    int hosts;
} anchor_nets[] = {
    {"ft64", "fat-tree:down=8x8,up=1x8,links=1x1", 64},
    {"ft256", "fat-tree:down=16x16,up=1x16,links=1x1", 256},
    {"ft1024", "fat-tree:down=32x32,up=1x32,links=1x1", 1024},
    {"ft4096", "fat-tree:down=64x64,up=1x64,links=1x1", 4096},
    {"torus64", "torus:8x8", 64},
    {"torus256", "torus:16x16", 256},
    {"torus1024", "torus:8x8x16", 1024},
    {"torus4096", "torus:16x16x16", 4096},
    {"df256", "dragonfly:groups=4,chassis=4,routers=4,nodes=4", 256},
    {"df1024", "dragonfly:groups=8,chassis=4,routers=8,nodes=4", 1024},
};
enum { NANCHOR_NETS = sizeof anchor_nets / sizeof anchor_nets[0] };

static inline const struct pdl_net *make_net(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    char text[256];

    snprintf(text, sizeof text, "%s,bw=12.5GB/s,lat=1us", spec);
    if (pdl_net_make(a, text, &net, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return net;
}

static inline const struct pdl_net *anchor_net(pdl_arena *a, const char *name)
{
    for (int i = 0; i < NANCHOR_NETS; i++)
        if (strcmp(anchor_nets[i].name, name) == 0)
            return make_net(a, anchor_nets[i].spec);
    fail_msg("no anchor network '%s'", name);
    return NULL;
}

static inline const struct pdl_doc *anchors(pdl_arena *a)
{
    struct pdl_bytes text = {NULL, 0};
    const struct pdl_doc *doc = NULL;
    const char *path = PDL_SOURCE_DIR "/tests/data/net/simgrid_anchors.json";

    assert_int_equal(pdl_file_read(a, path, 1 << 20, &text, NULL), PDL_OK);
    assert_int_equal(pdl_doc_json(a, text, path, &doc, NULL), PDL_OK);
    return doc;
}

/* ---- permutation traffic, as the anchors describe it ---------------------- */

static inline uint64_t lcg(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static inline int permutations(pdl_arena *a, int hosts, int rounds,
                               struct pdl_flow **out)
{
    struct pdl_flow *f = PDL_NEW(a, struct pdl_flow, hosts * rounds);
    int *p = PDL_NEW(a, int, hosts), n = 0;
    uint64_t s = 12345;

    assert_non_null(f);
    assert_non_null(p);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < hosts; i++)
            p[i] = i;
        for (int i = hosts - 1; i > 0; i--) {
            int j = (int)(lcg(&s) % (uint64_t)(i + 1)), t = p[i];

            p[i] = p[j];
            p[j] = t;
        }
        for (int i = 0; i < hosts; i++)
            if (p[i] != i)
                f[n++] = (struct pdl_flow){
                    i, p[i], 1000000 * (1 + (int64_t)(lcg(&s) % 100000)), 0};
    }
    *out = f;
    return n;
}

#endif
