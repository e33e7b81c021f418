/* SPDX-License-Identifier: Apache-2.0
 *
 * An epoch by where its samples come from (Nguyen et al., "Why globally
 * re-shuffle?", IPDPS 2022): all of them from the shared file system, or each
 * worker's share from its own disk, of which it exchanges a part.
 *
 *   global    the file system serves N samples: bytes over its bandwidth, or
 *             files times what it takes to open one, whatever is longer; the
 *             steps run beside it
 *   local     steps, and what loading costs a worker (load_s a sample)
 *   partial   the same; q N/M samples of each worker go to others: what that
 *             costs it (exchange_s a sample), and what the network takes beyond
 *             the steps that it runs beside
 *   pair      the same bytes, each worker to one other
 *
 * The network: messages of one step by the flow simulator, on the system's
 * topology, where they are few enough; else bytes over the share of a PE in the
 * slowest level they cross, without collisions. Hidden samples cost a forward
 * pass. A system whose file system has no figures serves at once. */
#include "oracle/oracle_priv.h"
#include "paradl/net.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_FLOWS = 16384, MOST_HOSTS = 2048 };

static int64_t workers_of(const struct pdl_plan *p)
{
    int64_t most = 1;

    for (int i = 0; i < p->ntensors; i++)
        if (p->tensors[i].kind == PDL_PLAN_INPUT ||
            p->tensors[i].kind == PDL_PLAN_LABEL) {
            struct pdl_box b;
            int64_t n;

            pdl_plan_box(p, i, 0, &b);
            n = b.ndims > 0 ? b.hi[0] - b.lo[0] : 0;
            if (n > 0 && p->tensors[i].dim[0] / n > most)
                most = p->tensors[i].dim[0] / n;
        }
    return most;
}

/* Seconds of the shared file system for n samples. */
static double served(const struct pdl_system *sys,
                     const struct pdl_data_about *d, double n)
{
    const struct pdl_storage *s = &sys->storage;
    double bytes = s->bytes_per_s > 0 ? n * d->bytes / s->bytes_per_s : 0;
    double files = (double)d->files / (double)d->samples * n * s->file_s;

    return fmax(bytes, files);
}

/* ---- the network ------------------------------------------------------- */

/* Workers that are shuffled: the j-th messages go to order[], or to the other
 * end of it. */
static void shuffle(int *order, int n, uint64_t key)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        uint64_t x = pdl_philox(key, 7, (uint64_t)i).v[0];
        int k = (int)(x * (uint64_t)(i + 1) >> 32), t = order[i];

        order[i] = order[k];
        order[k] = t;
    }
}

static const struct pdl_net *network(pdl_arena *a, struct pdl_system sys,
                                     int64_t pes)
{
    int64_t per = sys.node.pes > 0 ? sys.node.pes : 1;
    const struct pdl_net *net = NULL;
    const char *spec;

    sys.nodes = (pes + per - 1) / per;
    if (pdl_system_topology(a, &sys, &spec, NULL) != PDL_OK ||
        pdl_net_make(a, spec, &net, NULL) != PDL_OK || net->nhosts < pes)
        return NULL;
    return net;
}

/* `each` messages of every worker; every `apart`-th PE is one. -1: too many,
 * or no such network. */
static double simulate(const struct pdl_system *sys, int64_t workers,
                       int64_t apart, int64_t each, double bytes, bool pairs)
{
    pdl_arena *a = NULL;
    const struct pdl_net *net = NULL;
    struct pdl_flow *f = NULL;
    double *finish = NULL, last = -1;
    int *order = NULL, n = 0;

    if (workers > MOST_HOSTS || each * workers > MOST_FLOWS)
        return -1;
    a = pdl_arena_create((size_t)1 << 30);
    if (a)
        net = network(a, *sys, workers * apart);
    if (net) {
        f = PDL_NEW(a, struct pdl_flow, each * workers);
        finish = PDL_NEW(a, double, each *workers);
        order = PDL_NEW(a, int, workers);
    }
    for (int64_t j = 0; order && f && finish && j < each; j++) {
        shuffle(order, (int)workers, pairs ? 1 : (uint64_t)j + 1);
        for (int w = 0; w < (int)workers; w++) {
            int to = pairs ? order[workers - 1 - w] : order[w];
            int from = pairs ? order[w] : w;

            if (to != from)
                f[n++] = (struct pdl_flow){
                    pdl_net_seat(net, (int)(from * apart)),
                    pdl_net_seat(net, (int)(to * apart)), (int64_t)bytes, 0};
        }
    }
    if (n > 0 && pdl_sim_flows(a, net, f, n, &(struct pdl_sim_config){0},
                               finish, NULL, NULL) == PDL_OK)
        for (int i = 0; i < n; i++)
            last = fmax(last, finish[i]);
    pdl_arena_destroy(a);
    return last;
}

/* A PE's share of the slowest level that random messages cross. */
static double bound(const struct pdl_system *sys, int64_t pes, double bytes)
{
    double slowest = 0;

    for (int l = 0; l < sys->nlevels; l++) {
        const struct pdl_level *x = &sys->levels[l];
        double inside = l > 0 ? (double)sys->levels[l - 1].pes : 1;
        double part = fmax(0, 1 - inside / (double)pes);
        double over = x->oversubscription > 1 ? x->oversubscription : 1;

        if (x->bytes_per_s > 0)
            slowest = fmax(slowest, part * bytes * over / x->bytes_per_s);
        if (x->pes >= pes)
            break;
    }
    return slowest;
}

/* ---- an epoch ------------------------------------------------------------ */

static void exchange(const struct pdl_system *sys, int64_t pes, double steps,
                     const struct pdl_epoch_question *q, struct pdl_epoch *x)
{
    double n = (double)q->about->samples / (double)x->workers * q->q;
    double a_step = n / steps;
    int64_t each = (int64_t)fmax(1, floor(a_step + 0.5));
    double t = simulate(sys, x->workers, pes / x->workers, each,
                        q->about->stored_bytes, q->deal == PDL_EPOCH_PAIR);

    x->moved_bytes = n * q->about->stored_bytes;
    x->simulated = t >= 0;
    x->network_s = t >= 0 ? t * steps * a_step / (double)each
                          : bound(sys, pes, x->moved_bytes);
    x->exchange_s = n * q->about->exchange_s;
}

void pdl_epoch_price(const struct pdl_plan *plan, const struct pdl_system *sys,
                     const struct pdl_projection *p,
                     const struct pdl_epoch_question *q, struct pdl_epoch *out)
{
    double n = (double)q->about->samples;
    double steps = fmax(1, n / (double)p->batch);
    double forward = p->step_s > 0 ? p->forward_s / p->step_s : 0;
    struct pdl_epoch x = {.workers = workers_of(plan)};
    double share = n / (double)x.workers;
    bool global = q->deal == PDL_EPOCH_GLOBAL;

    x.compute_s = steps * p->step_s * (1 - q->hidden + q->hidden * forward);
    x.load_s = share * q->about->load_s;
    x.epoch_s = x.compute_s + x.load_s;
    x.stage_s = global ? 0 : served(sys, q->about, n);
    x.stored_bytes = global ? 0 : share * (1 + q->q) * q->about->stored_bytes;
    if (global) {
        x.read_s = served(sys, q->about, n);
        x.epoch_s = fmax(x.epoch_s, x.read_s);
    } else if (q->q > 0 && x.workers > 1) {
        double room;

        exchange(sys, plan->mesh->pes, steps, q, &x);
        room = x.compute_s - steps * p->exposed_comm_s;
        x.epoch_s += x.exchange_s + fmax(0, x.network_s - fmax(0, room));
    }
    *out = x;
}
