/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a collective. Ring algorithms over the level of the system that
 * the group really crosses: alpha and beta of the worst hop (Patarasuk and
 * Yuan, JPDC 2009; the ParaDL papers' T_ar, T_ag). Neighbour exchanges are
 * priced message by message from the boxes.
 *
 * Contention: all groups of an operation run at the same time. The flows that
 * leave a node share its adapters, and those that leave a leaf or a rack its
 * uplinks, so one flow gets at most its share of them (wires.c). */
#include "oracle/wire/wire.h"

#include <math.h>
#include <string.h>
#include "paradl/coll.h"

static int64_t group_size(const struct oracle *o, uint32_t group)
{
    int64_t n = 1;

    for (int f = 0; f < o->p->mesh->nfactors; f++)
        n *= group >> f & 1 ? o->p->mesh->factor[f] : 1;
    return n;
}

/* A message inside a node, where the group leaves it. */
static double message_inside(const struct oracle *o,
                             const struct oracle_wire *w, double bytes)
{
    return oracle_inside_latency(o) +
           bytes / oracle_inside_node(o, w->gradient);
}

enum { MANY = 4096 };

/* What comes from each rank of the group, none from the rank itself. */
static int64_t messages(const struct oracle *o, int op, int64_t rank,
                        int64_t *peers, int64_t *bytes_from)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int64_t n = group_size(o, x->group);

    n = n < MANY ? n : MANY;
    pdl_mesh_group(o->p->mesh, rank, x->group, peers, MANY);
    pdl_plan_transfers(o->p, x->in[0], x->out[0], peers, n, rank, bytes_from);
    for (int64_t i = 0; i < n; i++)
        bytes_from[i] = peers[i] == rank ? 0 : bytes_from[i];
    return n;
}

/* A rank's messages, one after another: each costs alpha and its bytes. Those
 * of an alltoall cross the wires that they cross; halos all wait for the worst
 * hop, as do messages of the papers' exchange. */
static double by_boxes(const struct oracle *o, int op, int64_t rank,
                       const struct oracle_wire *w)
{
    int64_t peers[MANY], bytes[MANY], n = messages(o, op, rank, peers, bytes);
    int64_t node = rank / o->sys->node.pes;
    bool near =
        o->p->ops[op].kind == PDL_PLAN_OP_ALLTOALL && w->near_bytes_per_s > 0;
    double t = 0, sum = 0, others = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += (double)bytes[i];
        others += bytes[i] > 0;
    }
    if (w->torus.is && w->pattern == ORACLE_PAIRS)
        return oracle_torus_pairs(w, others, others > 0 ? sum / others : 0);
    for (int64_t i = 0; i < n; i++)
        if (bytes[i] > 0 && near && peers[i] / o->sys->node.pes == node)
            t += message_inside(o, w, (double)bytes[i]);
        else if (bytes[i] > 0)
            t += w->alpha_s + (double)bytes[i] / w->bytes_per_s;
    return t;
}

/* Processors of one node: the runtime has everything but allreduces from all
 * others at once, as the alltoall that was measured has as many bytes, less
 * that one's own part (oracle_packing has what is copied here); < 0: it was
 * not. */
static double at_once(const struct oracle *o, int op, int64_t rank, int level,
                      double in, double out)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int64_t peers[MANY], bytes[MANY], n = group_size(o, x->group);
    double sum = x->kind == PDL_PLAN_OP_REDUCE_SCATTER ? in
                 : x->kind == PDL_PLAN_OP_ALLGATHER    ? out
                                                       : 0;
    double t;

    if (!o->pe.core || level != 0 || o->opt->parameters == PDL_IDEAL ||
        x->kind < PDL_PLAN_OP_REDUCE_SCATTER || x->kind > PDL_PLAN_OP_HALO)
        return -1;
    if (sum <= 0) {
        int64_t k = messages(o, op, rank, peers, bytes);

        for (int64_t i = 0; i < k; i++)
            sum += (double)bytes[i] * (double)n / (double)(n - 1);
    }
    if (!pdl_collective_seconds(o->sys, "alltoall", n, (int64_t)sum, &t))
        return -1;
    return t * (double)(n - 1) / (double)n;
}

/* As many bytes to every other rank of the group. */
static double to_each(const struct oracle *o, const struct oracle_wire *w,
                      double n, double bytes)
{
    double local = w->near_bytes_per_s > 0 ? (double)w->local : 1;

    if (w->torus.is)
        return oracle_torus_pairs(w, n - 1, bytes);
    return (n - local) * (w->alpha_s + bytes / w->bytes_per_s) +
           (local > 1 ? (local - 1) * message_inside(o, w, bytes) : 0);
}

/* Tokens to the ranks of their experts. Where the framework sends one to a node
 * once and passes it on there (DeepEP's and Megatron's hybrid dispatchers),
 * what crosses is as many tokens as nodes are visited, by experts drawn alike;
 * all of them cross the node's links at the same time. Experts that span tensor
 * ranks: each of these sends the shards of a sequence that it has, not all. */
static double send_tokens(const struct oracle *o, const struct oracle_wire *w,
                          double n, double bytes)
{
    const struct pdl_framework *f = o->opt->framework;
    double t = f && f->experts_span && o->p->strategy->seq
                   ? (double)oracle_tensor_ranks(o)
                   : 1;
    double local = fmin((double)w->local * t, n), nodes = n / local;
    double visits = oracle_visits(o), far, ranks = visits < n ? visits : n;

    bytes *= oracle_token_copies(o, n) / t;
    if (!f || !f->node_tokens || w->level < 1 || w->torus.is || local < 2 ||
        !(visits > 1) || o->opt->parameters == PDL_IDEAL)
        return to_each(o, w, n, bytes);
    far = (nodes - 1) * (1 - pow(1 - 1 / nodes, visits)) /
          (ranks * oracle_token_copies(o, n));
    return fmax((nodes - 1) * w->alpha_s + far * n * bytes / w->bytes_per_s,
                (n - 1) * message_inside(o, w, bytes));
}

/* Blocking messages through the host, one rank after the other: every rank
 * sends up before it receives and sends are synchronous, so a sweep up and a
 * sweep down are n - 1 messages each, one after the other. A message takes the
 * host several calls (halo_calls of the framework). */
static double staged(const struct oracle *o, int op, int64_t rank, double n)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_host *h = &o->sys->node.host;
    int64_t peers[2] = {rank, rank};
    bool window = false;
    double message =
        h->staged_latency_s +
        (double)o->opt->framework->halo_calls * oracle_host_call(o);
    double bytes = 0, rate = h->staged_bytes_per_s > 0 ? h->staged_bytes_per_s
                                                       : h->pcie_bytes_per_s;
    int64_t group[64],
        k = pdl_mesh_group(o->p->mesh, rank, x->group, group, 64);

    for (int d = 0; d < o->p->tensors[x->out[0]].ndims; d++)
        window = window || o->p->tensors[x->out[0]].frame[d].window.kernel > 1;
    if (!window)
        return 0; /* rows that only an uneven split moves stay where they are */
    for (int64_t i = 0; i < k && i < 64; i++)
        if (group[i] == rank) {
            peers[0] = i > 0 ? group[i - 1] : rank;
            peers[1] = i + 1 < k && i < 63 ? group[i + 1] : rank;
        }
    for (int i = 0; i < 2; i++)
        if (peers[i] != rank)
            bytes += (double)pdl_plan_transfer(o->p, x->in[0], x->out[0],
                                               peers[i], rank);
    return bytes > 0 ? (n - 1) * (2 * message + bytes / rate) : 0;
}

/* Gradients summed inside the node, then between the nodes' leaders. */
static double by_leaders(const struct oracle *o, double n, double bytes,
                         const struct oracle_wire *w)
{
    double per = (double)o->sys->node.pes, nodes = n / per;
    const struct pdl_level *l = &o->sys->levels[0];
    double rate = oracle_inside_node(o, true);

    return 2 * (per - 1) * (l->latency_s + bytes / per / rate) +
           2 * (nodes - 1) * (w->alpha_s + bytes / nodes / w->bytes_per_s);
}

/* Does filter's allreduce of backward sum its own part only? */
static bool folds(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    return f && f->folded_filter && oracle_has_axis(o, PDL_AXIS_FILTER);
}

static double bytes_of(const struct oracle *o, const int *tensor, int n,
                       int64_t rank)
{
    int64_t sum = 0;

    for (int k = 0; k < n; k++)
        sum += oracle_bytes(o, tensor[k], rank);
    return (double)sum;
}

/* Two stages of one lane (the turn of zb-v): nothing is sent. */
bool oracle_stays_on_lane(const struct oracle *o, const struct pdl_plan_op *x)
{
    return x->kind == PDL_PLAN_OP_SEND &&
           (o->on_lane ||
            pdl_plan_lane(o->p, o->p->tensors[x->in[0]].stage) ==
                pdl_plan_lane(o->p, o->p->tensors[x->out[0]].stage));
}

/* Gradients travel in the type they add up in (FSDP's reduce_dtype, Megatron's
 * main gradients), not in that of the weights. */
double oracle_travels(const struct oracle *o, const struct pdl_plan_op *x)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_tensor *t = &o->p->tensors[x->in[0]];
    double own = pdl_dtype_bits(t->dtype) / 8.0, asked = o->opt->gradient_bytes;

    if (t->kind != PDL_PLAN_WEIGHT_GRADIENT ||
        o->opt->parameters == PDL_IDEAL || !(own > 0))
        return 1;
    if (!(asked > 0) && f)
        asked = f->exchange_bytes;
    return asked > 0 ? asked / own : 1;
}

/* Keys and values, or their gradients, go from rank to rank while attention
 * works on the block that is there: of each step the longer of the two shows
 * (that is what a ring is for: overlap=off is about gradients of weights, a
 * framework that never overlaps waits). Gradients travel with the keys, after
 * the block is done, and take one step more to come home. */
static double rotation(const struct oracle *o, int op, int64_t rank, double n,
                       double block, const struct oracle_wire *w)
{
    const struct pdl_framework *f = o->opt->framework;
    bool home = o->p->tensors[o->p->ops[op].in[0]].of > 0;
    double step = w->alpha_s + block / w->bytes_per_s, each = 0;
    int x = pdl_plan_rotates_for(o->p, op);

    if (x >= 0 && !(f && f->no_overlap))
        each = oracle_compute(o, x, rank) / n;
    if (home)
        each = each > step ? each - step : 0;
    return (n - 1) * (step > each ? step - each : 0) + (home ? step : 0);
}

/* One lap of a reduce-scatter or an allgather of so many bytes in all. */
static double one_lap(const struct oracle *o, const struct oracle_wire *w,
                      double n, double bytes)
{
    return w->torus.box && o->opt->parameters != PDL_IDEAL
               ? oracle_torus_rings(w, bytes, true)
               : (n - 1) * oracle_ring_step(w, bytes / n);
}

static double on_wires(const struct oracle *o, int op, int64_t rank,
                       bool gradient, struct oracle_price *how)
{
    const struct pdl_framework *f =
        o->opt->parameters == PDL_IDEAL ? NULL : o->opt->framework;
    double sync = f && f->no_overlap ? o->sys->network.sync_s : 0;
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = (double)group_size(o, x->group), in, out, fast, part;
    struct oracle_wire w;

    *how = (struct oracle_price){.level = -1};
    if (x->kind < PDL_PLAN_OP_ALLREDUCE || x->kind > PDL_PLAN_OP_SEND ||
        x->kind == PDL_PLAN_OP_SLICE || n < 2 || oracle_stays_on_lane(o, x))
        return 0;
    w = oracle_wire_of(o, rank, x, gradient);
    how->level = w.level;
    how->flows = w.flows;
    how->at = w.at;
    part = gradient ? 1 : oracle_sequence_part(o, x);
    in = part * bytes_of(o, x->in, x->nin, rank) * oracle_travels(o, x);
    out = part * bytes_of(o, x->out, x->nout, rank);
    fast = at_once(o, op, rank, w.level, in, out);
    if (fast < 0 && !gradient)
        fast = oracle_inside_measured(o, x->kind, w.level, n, in, out);
    if (fast < 0)
        fast = oracle_zero_alone(o, op, w.level, n,
                                 x->kind == PDL_PLAN_OP_ALLGATHER ? out : in);
    if (fast >= 0)
        return sync + fast;
    switch (x->kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        if (x->compress)
            return sync + oracle_compressed(
                              o, &w, x->compress,
                              &(struct oracle_gradients){op, op + 1, op, rank},
                              n, in, &how->coding);
        if (f && f->leaders && gradient && w.level > 0 &&
            oracle_has_axis(o, PDL_AXIS_SPATIAL))
            return sync + by_leaders(o, n, in, &w);
        if (f && !gradient && folds(o))
            in /= n; /* after a local stack and sum */
        return sync + oracle_allreduce(o, &w, x->algorithm, n, in);
    case PDL_PLAN_OP_REDUCE_SCATTER:
        return sync + one_lap(o, &w, n, in);
    case PDL_PLAN_OP_ALLGATHER:
        return sync + one_lap(o, &w, n, out);
    case PDL_PLAN_OP_ALLTOALLV: /* of the tokens, those that go elsewhere */
        in = o->p->tensors[x->in[0]].of > 0 ? in : out;
        return sync + send_tokens(o, &w, n, in / n);
    case PDL_PLAN_OP_ROTATE: /* two blocks and one: it is the one */
        return sync + rotation(o, op, rank, n, in < out ? in : out, &w);
    case PDL_PLAN_OP_SEND:
        return oracle_send(o, &w, in);
    default: /* alltoall, halo */
        if (f && f->staged_halo && x->kind == PDL_PLAN_OP_HALO)
            return staged(o, op, rank, n);
        return by_boxes(o, op, rank, &w);
    }
}

double oracle_exchange(const struct oracle *o, int op, int64_t rank,
                       const char *algorithm, const char *compress,
                       double bytes, double *coding)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    struct oracle_wire w = oracle_wire_of(o, rank, x, true);
    double n = (double)group_size(o, x->group);
    const struct oracle_gradients all = {0, o->p->nops, op, rank};

    bytes *= oracle_travels(o, x);
    *coding = 0;
    return compress ? oracle_compressed(o, &w, compress, &all, n, bytes, coding)
                    : oracle_allreduce(o, &w, algorithm, n, bytes);
}

/* Gradients into one buffer, divided there by the number of ranks, and back:
 * each read and written three times, by two copies of its own. */
static double buffering(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_op *x = &o->p->ops[op];

    if (!f || o->opt->parameters == PDL_IDEAL ||
        x->kind != PDL_PLAN_OP_ALLREDUCE)
        return 0;
    if (!f->by_tensor)
        return oracle_graph_cycle(o, bytes_of(o, x->in, x->nin, rank));
    return 2 * x->nin * o->pe.launch_s +
           6 * bytes_of(o, x->in, x->nin, rank) / o->pe.bytes_per_s;
}

double oracle_comm(const struct oracle *o, int op, int64_t rank, bool gradient,
                   struct oracle_price *how)
{
    double t = on_wires(o, op, rank, gradient, how);

    if (how->level < 0)
        return t;
    return t + oracle_packing(o, op, rank) +
           (gradient ? buffering(o, op, rank) : 0);
}

/* Parts of n that CuPy 7 puts together: a kernel each where there are few of
 * them or where they are large (_concatenate). */
static double part_kernels(double n, double bytes)
{
    return n <= 8 || bytes / n >= 2 * 1024 * 1024 ? n : 1;
}

/* One pass over the parts, read and written: the host issues kernels while the
 * device copies. */
static double put_together(const struct oracle *o, double n, double bytes)
{
    double host = o->opt->framework->part_s,
           stream = 2 * bytes / o->pe.bytes_per_s;
    double k = host > 0 ? part_kernels(n, bytes) : 1;

    return fmax(stream, (k - 1) * host);
}

/* The host waited for the collective, so nothing is queued on the device:
 * the calls that copy show in full. What was gathered is put into place; before
 * a folded allreduce the n parts are stacked, and summed by another call, which
 * reads all and writes one of them. Other sums arrive in place. */
double oracle_copy(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = (double)group_size(o, x->group), sum = 0;
    struct pdl_work w;

    if (oracle_is_weight_traffic(o, op))
        return oracle_shard_copies(o, op, rank);
    if (!o->opt->framework || !o->opt->framework->copies ||
        o->opt->parameters == PDL_IDEAL)
        return 0;
    pdl_plan_op_work(o->p, op, rank, &w);
    if (x->kind == PDL_PLAN_OP_ALLREDUCE && folds(o))
        sum = oracle_host_call(o) +
              (1 + 1 / n) * (double)w.write_bytes / o->pe.bytes_per_s;
    else if (x->kind == PDL_PLAN_OP_ALLREDUCE)
        return 0;
    return sum + oracle_host_call(o) +
           put_together(o, n, (double)w.write_bytes);
}
