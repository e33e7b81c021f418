/* What beats DLN with shifted halving-doubling on 1024 hosts? Makes networks
 * of 1024 hosts, runs every allreduce algorithm that may be fast on each of
 * them in the simulator, and prints for each size the Pareto front of cost and
 * time, and what dominates each DLN(q,p) with SHD. See doc/beyond-dln.md.
 *
 * beyond full|shared: cables of 12.5 GB/s each way, or for both ways
 * together, 1 us each. */
#include "paradl/coll.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 1024, MAX_NETS = 160, MAX_RADIX = 64, NSIZES = 3 };

static const double RATE = 12.5e9, LATENCY = 1e-6;
static const int64_t sizes[NSIZES] = {1 << 20, 10 << 20, 100 << 20};

struct best {
    double s;
    char alg[48];
};

struct candidate {
    char spec[96];
    bool direct, dln;           /* hosts are the routers; DLN(q,p) */
    int ports, switches, radix; /* all ports, and those of the largest */
    int64_t cables;
    double cost;
    struct best any[NSIZES], shd[NSIZES], ring[NSIZES], hd[NSIZES];
};

static struct candidate nets[MAX_NETS];
static int nnets;

static void add(const char *format, int a, int b, int c)
{
    struct candidate *n = &nets[nnets];

    if (nnets == MAX_NETS) {
        fputs("too many networks\n", stderr);
        exit(4);
    }
    snprintf(n->spec, sizeof n->spec, format, a, b, c);
    nnets++;
}

/* ---- the networks ------------------------------------------------------------ */

enum { FIRST_Q = 4, LAST_Q = 7 };

static void add_dln(void)
{
    for (int q = FIRST_Q; q <= LAST_Q; q++)
        add("dln:q=%d,p=%d", q, 10 - q, 0);
    add("dln:q=%d,p=%d,double=1", 5, 5, 0);
    add("dln:q=%d,p=%d,double=1", 6, 4, 0);
    for (int z = 4; z <= 5; z++)
        for (int x = (11 - z) / 2; x <= 8 - z; x++)
            add("dln2d:x=%d,y=%d,z=%d", x, 10 - z - x, z);
    for (int s = 32; s <= 64; s *= 2)
        for (int x = 4; x <= 6; x += 2)
            add("dln-x:switches=%d,hosts=%d,x=%d", s, HOSTS / s, x);
}

static void add_trees(void)
{
    for (int up = 1; up <= 8; up++)
        if (up != 5 && up != 7)
            add("fat-tree:down=32x32,up=1x%d", up, 0, 0);
    add("fat-tree:down=32x32,up=1x%d", 16, 0, 0);
    add("fat-tree:down=32x32,up=1x%d", 32, 0, 0);
    for (int up = 1; up <= 16; up *= 2)
        add("fat-tree:down=16x64,up=1x%d", up, 0, 0);
    for (int up = 2; up <= 8; up *= 2)
        add("fat-tree:down=16x8x8,up=1x%dx%d", up, up / 2, 0);
    for (int up = 2; up <= 8; up *= 2)
        add("fat-tree:down=32x8x4,up=1x%dx%d", up, up / 2, 0);
}

static const char *const others[] = {
    "torus:32x32",
    "torus:16x8x8",
    "torus:4x4x8x8",
    "torus:4x4x4x4x4",
    "mesh:32x32",
    "mesh:16x8x8",
    "full2d:32x32",
    "kautz:d=32",
    "dragonfly-direct:group=32,groups=32",
    "hyperx:32,hosts=32",
    "hyperx:4x8,hosts=32",
    "hyperx:2x4x4,hosts=32",
    "hyperx:2x2x2x2x2,hosts=32",
    "hyperx:8x8,hosts=16",
    "hyperx:4x16,hosts=16",
    "hyperx:4x4x4,hosts=16",
    "hyperx:2x2x2x2x2x2,hosts=16",
    "hyperx:8x16,hosts=8",
    "hyperx:16x16,hosts=4",
    "hyperx:2x2x2x2x2,hosts=32,cables=2",
    "hyperx:2x2x2x2x2x2,hosts=16,cables=2",
    "hyperx:4x8,hosts=32,cables=2",
    "hyperx:4x4x4,hosts=16,cables=2",
    "dragonfly:groups=8,chassis=1,routers=8,nodes=16,routing=minimal",
    "dragonfly:groups=4,chassis=2,routers=8,nodes=16,routing=minimal",
    "dragonfly:groups=4,chassis=1,routers=8,nodes=32,routing=minimal",
    "random:switches=32,degree=6,hosts=32",
    "random:switches=32,degree=9,hosts=32",
    "random:switches=64,degree=6,hosts=16",
    "random:switches=64,degree=11,hosts=16",
    "rack-tree:racks=16,hosts=64,leaves=2,fbb=2,spines=2,up=4,top=4",
    "fat-tree:down=32x32,up=1x2,paths=adaptive",
    "fat-tree:down=32x32,up=1x4,paths=adaptive",
    "fat-tree:down=32x32,up=1x8,paths=adaptive",
    "hyperx:4x8,hosts=32,paths=adaptive",
    "hyperx:2x2x2x2x2,hosts=32,paths=adaptive",
    "dln2d:x=3,y=2,z=5,paths=adaptive",
};

static const char *const algs[] = {
    "ring",
    "halving-doubling",
    "halving-doubling-far",
    "shd",
    "shd-circulant",
    "recursive-doubling",
    "swing",
    "torus",
    "ring-ring:k=32",
    "ring-rab:k=16",
    "ring-rab:k=32",
    "double-tree:segments=32",
    "kautz",
    "kautz-small",
};

enum { NALGS = sizeof algs / sizeof algs[0] };

/* ---- cost --------------------------------------------------------------------- */

/* Switches and cables as `topology show` prices them. A host with several
 * ports routes for others, so it is charged a switch of its ports and one for
 * itself; then all ports of a network have been paid. */
static enum pdl_status price(pdl_arena *a, const struct pdl_net *net,
                             struct candidate *n, struct pdl_err *err)
{
    struct pdl_metrics m;
    int *ports = PDL_NEW(a, int, net->nhosts + net->nswitches);
    enum pdl_status st = pdl_net_metrics(a, net, &m, err);

    if (st != PDL_OK || !ports)
        return st == PDL_OK ? PDL_ENOMEM : st;
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *l = &net->links[i];

        /* one of two directions stands for a cable */
        if (l->reverse >= 0 && l->reverse < i && !l->shared)
            continue;
        ports[l->from] += l->cables ? l->cables : 1;
        ports[l->to] += l->cables ? l->cables : 1;
    }
    n->cost = m.cost;
    n->cables = m.cables;
    n->switches = m.switches;
    for (int v = 0; v < net->nhosts + net->nswitches; v++) {
        bool router = v < net->nhosts && ports[v] > 1;

        n->direct = n->direct || router;
        if (router)
            n->cost += 350.4 * (ports[v] + 1) - 892.3;
        if (router || v >= net->nhosts)
            n->ports += ports[v] + router;
        if (v >= net->nhosts || router)
            n->radix = ports[v] > n->radix ? ports[v] : n->radix;
    }
    return PDL_OK;
}

/* ---- time --------------------------------------------------------------------- */

/* No algorithm is faster than its rounds and what its busiest rank sends; what
 * is by this alone slower than `limit` is not simulated. */
static bool hopeless(const struct candidate *n, const struct pdl_coll_job *job,
                     bool shared, double limit)
{
    struct pdl_coll_cost c;
    double hops = n->direct ? 1 : 2, rate = RATE * (n->direct ? n->radix : 1);

    if (!pdl_coll_closed_form(job, &c))
        return false;
    return c.rounds * hops * LATENCY + (shared ? 2 : 1) * c.bytes / rate >
           limit;
}

static double simulate(const struct candidate *n, const struct pdl_net *net,
                       const char *alg, int64_t bytes, bool shared,
                       double limit)
{
    struct pdl_coll_job job = {
        .nranks = HOSTS, .count = bytes / 4, .elem_bytes = 4};
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct pdl_err err = {"", ""};
    struct pdl_sim_result r;
    struct pdl_traffic t;
    double s = INFINITY;

    if (strncmp(alg, "kautz", 5) == 0) { /* runs on d(d+1) ranks only */
        job.nranks = net->nhosts;
        job.count = bytes / 4 / net->nhosts * net->nhosts;
    }
    if (pdl_alg_parse("allreduce", alg, &job, &err) == PDL_OK) {
        pdl_coll_suit(&job, net);
        if (pdl_coll_setup(&job, &err) == PDL_OK &&
            !hopeless(n, &job, shared, limit)) {
            pdl_coll_traffic(&job, NULL, &t);
            if (pdl_sim_run(a, net, &t, &config, &r, &err) == PDL_OK)
                s = r.time_s;
        }
    }
    pdl_arena_destroy(a);
    return s;
}

/* What is slower than the slowest DLN + SHD dominates none of them. */
static void set_limits(bool shared, double *limit)
{
    for (int q = FIRST_Q; q <= LAST_Q; q++) {
        pdl_arena *a = pdl_arena_create((size_t)8 << 30);
        struct candidate n = {.direct = false};
        const struct pdl_net *net;
        struct pdl_err err = {"", ""};

        snprintf(n.spec, sizeof n.spec, "dln:q=%d,p=%d,duplex=%s", q, 10 - q,
                 shared ? "shared" : "full");
        if (pdl_net_make(a, n.spec, &net, &err) == PDL_OK)
            for (int i = 0; i < NSIZES; i++)
                limit[i] = fmax(limit[i], simulate(&n, net, "shd", sizes[i],
                                                   shared, INFINITY));
        pdl_arena_destroy(a);
    }
}

static void keep(struct best *b, double s, const char *alg)
{
    if (!(b->s > 0) || s < b->s) {
        b->s = s;
        snprintf(b->alg, sizeof b->alg, "%s", alg);
    }
}

static void measure(struct candidate *n, const struct pdl_net *net, bool shared,
                    const double *limit)
{
    for (int i = 0; i < NSIZES; i++)
        for (size_t k = 0; k < NALGS; k++) {
            bool shd = strncmp(algs[k], "shd", 3) == 0;
            double s;

            if (shd && strncmp(n->spec, "dln", 3) != 0)
                continue; /* its peers follow the loop of switches */
            if (strncmp(algs[k], "kautz", 5) == 0 &&
                strncmp(n->spec, "kautz", 5) != 0)
                continue;
            s = simulate(n, net, algs[k], sizes[i], shared,
                         n->dln && (k < 2 || shd) ? INFINITY : limit[i]);
            keep(&n->any[i], s, algs[k]);
            if (shd)
                keep(&n->shd[i], s, algs[k]);
            if (k == 0)
                keep(&n->ring[i], s, algs[k]);
            if (k == 1)
                keep(&n->hd[i], s, algs[k]);
        }
}

static bool do_net(struct candidate *n, bool shared, const double *limit)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    char spec[160];
    bool ok;

    snprintf(spec, sizeof spec, "%s,duplex=%s,bw=12.5GB/s,lat=1us", n->spec,
             shared ? "shared" : "full");
    n->dln = strncmp(n->spec, "dln:", 4) == 0 && !strstr(n->spec, "double");
    ok = pdl_net_make(a, spec, &net, &err) == PDL_OK &&
         price(a, net, n, &err) == PDL_OK;
    if (!ok)
        fprintf(stderr, "%s: %s\n", spec, err.msg);
    else
        measure(n, net, shared, limit);
    pdl_arena_destroy(a);
    return ok;
}

/* ---- what comes out ------------------------------------------------------------ */

static int by_cost(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;

    return a->cost != b->cost ? (a->cost < b->cost ? -1 : 1)
                              : strcmp(a->spec, b->spec);
}

static void ms(double s)
{
    if (s > 0 && s < INFINITY)
        printf(" %9.3f", 1e3 * s);
    else
        printf(" %9s", "-");
}

static void print_front(int i)
{
    double least = INFINITY;

    printf("\nPareto front, %lld MiB (switches of at most %d ports)\n"
           "%9s %8s %6s %9s  network + algorithm\n",
           (long long)(sizes[i] >> 20), MAX_RADIX, "cost k$", "ports", "radix",
           "ms");
    for (int k = 0; k < nnets; k++) {
        const struct candidate *n = &nets[k];

        if (n->radix > MAX_RADIX || !(n->any[i].s < least))
            continue;
        least = n->any[i].s;
        printf("%9.1f %8d %6d", n->cost / 1e3, n->ports, n->radix);
        ms(n->any[i].s);
        printf("  %s + %s%s\n", n->spec, n->any[i].alg,
               n->direct ? " (direct)" : "");
    }
}

/* The fastest that costs no more; of networks with one port a host, or of
 * all. */
static const struct candidate *winner(const struct candidate *ref, int i,
                                      bool direct)
{
    const struct candidate *best = NULL;

    for (int k = 0; k < nnets; k++) {
        const struct candidate *n = &nets[k];

        if (n->radix <= MAX_RADIX && n->cost <= ref->cost &&
            n->any[i].s < ref->shd[i].s && (direct || !n->direct) &&
            (!best || n->any[i].s < best->any[i].s))
            best = n;
    }
    return best;
}

static void print_winners(int i)
{
    printf("\nDLN + SHD, %lld MiB, and the fastest that costs no more\n"
           "%-14s %8s %9s %9s %9s | winner, one port a host\n",
           (long long)(sizes[i] >> 20), "network", "cost k$", "SHD ms", "HD ms",
           "ring ms");
    for (int k = 0; k < nnets; k++) {
        const struct candidate *n = &nets[k], *w;

        if (!n->dln)
            continue;
        printf("%-14s %8.1f", n->spec, n->cost / 1e3);
        ms(n->shd[i].s);
        ms(n->hd[i].s);
        ms(n->ring[i].s);
        for (int direct = 0; direct < 2; direct++) {
            const struct candidate *last = direct ? winner(n, i, false) : NULL;

            w = winner(n, i, direct);
            if (w && w != last)
                printf(" | %s + %s %.1f k$ %.3f ms (-%.0f %%)", w->spec,
                       w->any[i].alg, w->cost / 1e3, 1e3 * w->any[i].s,
                       100 * (1 - w->any[i].s / n->shd[i].s));
            else if (!direct)
                printf(" | nothing");
        }
        puts("");
    }
}

static void print_all(void)
{
    printf("\nAll networks, best algorithm at 1, 10, 100 MiB; * costs no more "
           "and is faster than some DLN + SHD\n");
    for (int k = 0; k < nnets; k++) {
        const struct candidate *n = &nets[k];

        printf("%9.1f k$ %5d switches %6d cables %6d ports %3d radix%s  %-62s",
               n->cost / 1e3, n->switches, (int)n->cables, n->ports, n->radix,
               n->direct ? " direct" : "       ", n->spec);
        for (int i = 0; i < NSIZES; i++) {
            bool wins = false;

            for (int r = 0; r < nnets; r++)
                wins = wins || (nets[r].dln && n->radix <= MAX_RADIX &&
                                n->cost <= nets[r].cost &&
                                n->any[i].s < nets[r].shd[i].s);
            ms(n->any[i].s);
            printf("%c %-22s", wins ? '*' : ' ', n->any[i].alg);
        }
        puts("");
    }
}

int main(int argc, char **argv)
{
    bool shared = argc > 1 && strcmp(argv[1], "shared") == 0, ok = true;
    double limit[NSIZES] = {0};
    int kept = 0;

    set_limits(shared, limit);
    add_dln();
    add_trees();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        add(others[i], 0, 0, 0);
    for (int i = 0; i < nnets; i++) {
        fprintf(stderr, "\r%d/%d %-70s", i + 1, nnets, nets[i].spec);
        if (do_net(&nets[i], shared, limit))
            nets[kept++] = nets[i];
        else if (!shared) /* one-way arcs (Kautz) cannot be shared cables */
            ok = false;
    }
    nnets = kept;
    fprintf(stderr, "\r%80s\r", "");
    qsort(nets, (size_t)nnets, sizeof nets[0], by_cost);
    printf("== %s\n", shared ? "shared: 12.5 GB/s a cable, both ways together"
                             : "full duplex: 12.5 GB/s a cable each way");
    for (int i = 0; i < NSIZES; i++) {
        print_front(i);
        print_winners(i);
    }
    print_all();
    return ok ? 0 : 1;
}
