/* Finish times of flows on a network, by libparadl:
 *   paradl_flows TOPOLOGY FLOWS fair|rtt
 * FLOWS has a line "src dst bytes start" for each flow. */
#include "paradl/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int read_flows(const char *path, struct pdl_flow *f, int max)
{
    FILE *in = fopen(path, "r");
    int n = 0;

    while (in && n < max &&
           fscanf(in, "%d %d %" SCNd64 " %lf", &f[n].src, &f[n].dst,
                  &f[n].bytes, &f[n].start_s) == 4)
        n++;
    if (in)
        fclose(in);
    return n;
}

int main(int argc, char **argv)
{
    enum { MAX = 1 << 20 };
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct pdl_flow *f = PDL_NEW(a, struct pdl_flow, MAX);
    double *end = PDL_NEW(a, double, MAX);
    /* SimGrid is asked for the same (simgrid_flows.py) */
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR, .precision_s = -1};
    const struct pdl_net *net;
    struct pdl_err err;
    int n;

    if (argc != 4 || !f || !end)
        return 2;
    n = read_flows(argv[2], f, MAX);
    if (strcmp(argv[3], "rtt") == 0)
        config.share = PDL_SHARE_RTT;
    if (pdl_net_make(a, argv[1], &net, &err) != PDL_OK ||
        pdl_sim_flows(a, net, f, n, &config, end, NULL, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 3;
    }
    for (int i = 0; i < n; i++)
        printf("%.12f\n", end[i]);
    pdl_arena_destroy(a);
    return 0;
}
