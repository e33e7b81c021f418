/* Any traffic on a small torus: it runs, or is refused with one line; it never
 * hangs, and by rounds or by events the answer is the same. Bytes: ranks,
 * window, model, then operations of the ranks in turn. */
#include "paradl/net.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_RANKS = 12, MAX_OPS = 32 };

struct program {
    int nranks;
    int64_t nops[MAX_RANKS];
    struct pdl_traffic_op op[MAX_RANKS][MAX_OPS];
};

struct input {
    const uint8_t *data;
    size_t left;
};

static int next(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static int64_t nops(void *ctx, int rank)
{
    return ((struct program *)ctx)->nops[rank];
}

static void op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    *out = ((struct program *)ctx)->op[rank][i];
}

static void read_program(struct program *p, struct input *in)
{
    p->nranks = 1 + next(in) % MAX_RANKS;
    for (int r = 0; r < p->nranks; r++)
        p->nops[r] = 0;
    while (in->left > 0) {
        int rank = next(in) % p->nranks, peers = next(in), k = next(in);
        struct pdl_traffic_op *o;

        if (p->nops[rank] == MAX_OPS)
            continue;
        o = &p->op[rank][p->nops[rank]];
        *o = (struct pdl_traffic_op){.send_to = peers % 14 - 1,
                                     .recv_from = peers / 16 % 14 - 1,
                                     .nafter = k % 4};
        o->send_bytes = (int64_t)next(in) * 1000;
        o->recv_bytes = k & 64 ? o->send_bytes : (int64_t)next(in) * 1000;
        for (int i = 0; i < o->nafter; i++) /* now and then a later one */
            o->after[i] = p->nops[rank] - 1 - next(in) % 8 + (k == 131);
        if (k & 128) {
            o->nafter = p->nops[rank] > 0;
            o->after[0] = p->nops[rank] - 1;
        }
        if (k & 32) /* computes; now and then for no time that there is */
            o->compute_s = k == 35 ? -1 : 1e-6 * (peers & 3);
        p->nops[rank]++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size < 2000 ? size : 2000};
    pdl_arena *a = pdl_arena_create(1 << 26);
    struct program *p = PDL_NEW(a, struct program, 1);
    struct pdl_traffic t = {.ctx = p, .nops = nops, .op = op};
    struct pdl_sim_config config = {.links = true, .timeline = 8};
    struct pdl_sim_result x = {.time_s = -1}, y = {.time_s = -1};
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int mode = next(&in);

    if (!p || pdl_net_make(a, "torus:4x3,bw=1GB/s,lat=1us", &net, NULL))
        abort();
    t.window = next(&in) % 6;
    config.share = (enum pdl_share)(mode % 3);
    config.wire = (enum pdl_wire)(mode / 3 % 2);
    config.critical_path = mode & 8;
    config.bounds = mode & 16;
    config.energy = (enum pdl_energy)(mode / 32 % 3);
    read_program(p, &in);
    t.nranks = p->nranks;
    st = pdl_sim_run(a, net, &t, &config, &x, &err);
    if ((st == PDL_OK) != (err.msg[0] == '\0') ||
        (st != PDL_OK && st != PDL_EINVAL))
        abort();
    config.events_only = true;
    if (pdl_sim_run(a, net, &t, &config, &y, &err) != st)
        abort();
    if (st == PDL_OK &&
        (fabs(x.time_s - y.time_s) > 1e-9 * y.time_s ||
         x.messages != y.messages || x.bytes_on_wire != y.bytes_on_wire))
        abort();
    pdl_arena_destroy(a);
    return 0;
}
