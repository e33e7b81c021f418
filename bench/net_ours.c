/* One measured run of the network simulator:
 *   net_ours HOSTS JOB [share]
 * on the fat tree of HOSTS (a square number) hosts, 12.5 GB/s, 1 us a link.
 * JOB: permutation:ROUNDS (all flows at once), ring:BYTES, halving:BYTES (the
 * allreduces). Prints messages or flows, the simulated time (of permutations
 * the mean), CPU seconds without making the network, and peak memory. */
#include "paradl/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct job {
    int n;
    int64_t bytes;
    int steps; /* log2 n */
};

static int64_t chunk(const struct job *j, int64_t c)
{
    c = (c % j->n + j->n) % j->n;
    return j->bytes / j->n + (c < j->bytes % j->n);
}

static int64_t ring_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * (((struct job *)ctx)->n - 1);
}

static void ring_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct job *j = ctx;

    *out = (struct pdl_traffic_op){(rank + 1) % j->n,
                                   (rank + j->n - 1) % j->n,
                                   chunk(j, rank - i),
                                   chunk(j, rank - 1 - i),
                                   i > 0,
                                   {i - 1}};
}

static int64_t ring_alike(void *ctx, int64_t i)
{
    const struct job *j = ctx;

    return j->bytes % j->n ? 1 : 2 * (j->n - 1) - i;
}

static int64_t halving_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * ((struct job *)ctx)->steps;
}

static void halving_op(void *ctx, int rank, int64_t i,
                       struct pdl_traffic_op *out)
{
    const struct job *j = ctx;
    int d = i < j->steps ? j->n >> (i + 1) : 1 << (i - j->steps);
    int64_t b = j->bytes / j->n * d;

    *out = (struct pdl_traffic_op){rank ^ d, rank ^ d, b, b, i > 0, {i - 1}};
}

static uint64_t lcg(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static int permutation(int hosts, int64_t rounds, struct pdl_flow *f, int *p)
{
    uint64_t s = 12345;
    int n = 0;

    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < hosts; i++)
            p[i] = i;
        for (int i = hosts - 1; i > 0; i--) {
            int k = (int)(lcg(&s) % (uint64_t)(i + 1)), t = p[i];

            p[i] = p[k];
            p[k] = t;
        }
        for (int i = 0; i < hosts; i++)
            if (p[i] != i)
                f[n++] = (struct pdl_flow){
                    i, p[i], 1000000 * (1 + (int64_t)(lcg(&s) % 100000)), 0};
    }
    return n;
}

static enum pdl_status run_flows(pdl_arena *a, const struct pdl_net *net,
                                 int64_t rounds,
                                 const struct pdl_sim_config *config,
                                 int64_t *messages, double *time_s,
                                 struct pdl_err *err)
{
    size_t most = (size_t)net->nhosts * (size_t)rounds;
    struct pdl_flow *f = PDL_NEW(a, struct pdl_flow, most);
    double *end = PDL_NEW(a, double, most);
    int *p = PDL_NEW(a, int, net->nhosts), n;
    enum pdl_status st;

    if (!f || !end || !p)
        return pdl_fail(err, PDL_ENOMEM, "no memory");
    n = permutation(net->nhosts, rounds, f, p);
    st = pdl_sim_flows(a, net, f, n, config, end, NULL, err);
    *messages = n;
    for (int i = 0; i < n; i++)
        *time_s += end[i] / n;
    return st;
}

static enum pdl_status run(pdl_arena *a, const struct pdl_net *net,
                           const char *name, int64_t size,
                           const struct pdl_sim_config *config,
                           int64_t *messages, double *time_s,
                           struct pdl_err *err)
{
    struct job j = {net->nhosts, size, 0};
    bool ring = strcmp(name, "ring") == 0;
    struct pdl_traffic t = {.nranks = net->nhosts,
                            .ctx = &j,
                            .nops = ring ? ring_nops : halving_nops,
                            .op = ring ? ring_op : halving_op,
                            .alike = ring ? ring_alike : NULL,
                            .window = 1};
    struct pdl_sim_result out;
    enum pdl_status st;

    if (strcmp(name, "permutation") == 0)
        return run_flows(a, net, size, config, messages, time_s, err);
    while (1 << j.steps < j.n)
        j.steps++;
    st = pdl_sim_run(a, net, &t, config, &out, err);
    if (st == PDL_OK) {
        *messages = out.messages;
        *time_s = out.time_s;
    }
    return st;
}

int main(int argc, char **argv)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT};
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    struct rusage use;
    char spec[128], name[32] = "";
    int64_t size = 0, messages = 0;
    double time_s = 0, cpu;
    int leaf = 1;

    if (argc < 3 || !a ||
        sscanf(argv[2], "%31[a-z]:%" SCNd64, name, &size) != 2)
        return 2;
    while (leaf * leaf < strtol(argv[1], NULL, 10))
        leaf++;
    snprintf(spec, sizeof spec,
             "fat-tree:down=%dx%d,up=1x%d,links=1x1,bw=12.5GB/s,lat=1us", leaf,
             leaf, leaf);
    if (pdl_net_make(a, spec, &net, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 3;
    }
    cpu = pdl_cpu_s();
    if (run(a, net, name, size, &config, &messages, &time_s, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 3;
    }
    cpu = pdl_cpu_s() - cpu;
    getrusage(RUSAGE_SELF, &use);
    printf("%" PRId64 " %.9f %.3f %.1f\n", messages, time_s, cpu,
           (double)use.ru_maxrss / 1024);
    pdl_arena_destroy(a);
    return 0;
}
