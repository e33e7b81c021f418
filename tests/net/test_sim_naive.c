/* Random traffic on random networks against a simulator that is as plain as
 * can be: every message listed, rates filled afresh by the book at every
 * event, long double, no queue, no window buffer, no matching tables. It
 * shares nothing with ours but the meaning of the words. */
#include "effort.h"
#include "net_cases.h"

enum { HOSTS = 6, LINKS = 8, MESSAGES = 40, OPS = 2 * MESSAGES };

/* ---- a random network and random traffic on it ------------------------------ */

struct world {
    struct pdl_link links[LINKS];
    int nroute[HOSTS][HOSTS], route[HOSTS][HOSTS][4];
    int nops[HOSTS];
    struct pdl_traffic_op op[HOSTS][OPS];
    int window;
};

static int world_route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct world *w = net->shape;

    for (int i = 0; i < w->nroute[src][dst]; i++)
        links[i] = w->route[src][dst][i];
    return w->nroute[src][dst];
}

static int64_t world_nops(void *ctx, int rank)
{
    return ((struct world *)ctx)->nops[rank];
}

static void world_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    *out = ((struct world *)ctx)->op[rank][i];
}

static struct pdl_traffic_op *new_op(struct world *w, int rank,
                                     struct pdl_rng *r)
{
    int i = w->nops[rank]++;
    struct pdl_traffic_op *op = &w->op[rank][i];

    *op = (struct pdl_traffic_op){.send_to = -1, .recv_from = -1};
    for (int k = 0; i > 0 && k < (int)pdl_rng_below(r, 3); k++)
        op->after[op->nafter++] =
            i - 1 - (int)pdl_rng_below(r, i < 4 ? (uint64_t)i : 4);
    return op;
}

/* Messages in one global order; an operation waits only for earlier ones, so
 * nothing can lock. Some are exchanges, one operation on each side. */
static void make_world(struct world *w, struct pdl_rng *r, bool big)
{
    *w = (struct world){.window = 1 + (int)pdl_rng_below(r, 6)};
    for (int l = 0; l < LINKS; l++)
        w->links[l] = (struct pdl_link){
            .bytes_per_s = 1e9 * (double)(1 + pdl_rng_below(r, 8)),
            .latency_s = 1e-6 * (double)pdl_rng_below(r, 4),
            .reverse = -1};
    for (int s = 0; s < HOSTS; s++)
        for (int d = 0; d < HOSTS; d++)
            for (int n = s == d ? 0 : 1 + (int)pdl_rng_below(r, 4); n > 0; n--)
                w->route[s][d][w->nroute[s][d]++] =
                    (int)pdl_rng_below(r, LINKS);
    for (int m = 0; m < MESSAGES; m++) {
        int src = (int)pdl_rng_below(r, HOSTS);
        int dst = (int)pdl_rng_below(r, HOSTS);
        struct pdl_traffic_op *a = new_op(w, src, r), *b;
        int64_t bytes =
            (int64_t)pdl_rng_below(r, big ? 200000 : 3) * (big ? 1 : 50000);

        b = src == dst ? a : new_op(w, dst, r);
        a->send_to = dst;
        b->recv_from = src;
        a->send_bytes = b->recv_bytes = bytes;
        if (pdl_rng_below(r, 3) == 0 && src != dst) {
            b->send_to = src;
            a->recv_from = dst;
            b->send_bytes = a->recv_bytes = bytes / 2;
        }
    }
}

/* ---- the plain simulator -------------------------------------------------------- */

struct message {
    int src, src_op, dst, dst_op;
    long double left, begins, rate;
    enum { WAITING, LATENCY, FLOWING, OVER } state;
    bool detached;
};

struct plain {
    const struct world *w;
    bool rtt, smpi;
    struct message m[2 * MESSAGES];
    int nm;
    bool complete[HOSTS][OPS];
    long double now, finish[HOSTS];
};

static void list_messages(struct plain *p)
{
    const struct world *w = p->w;

    for (int s = 0; s < HOSTS; s++)
        for (int d = 0; d < HOSTS; d++) {
            int j = 0;

            for (int i = 0; i < w->nops[s]; i++) {
                if (w->op[s][i].send_to != d)
                    continue;
                while (w->op[d][j].recv_from != s)
                    j++;
                p->m[p->nm++] = (struct message){
                    .src = s,
                    .src_op = i,
                    .dst = d,
                    .dst_op = j++,
                    .left = w->op[s][i].send_bytes,
                    .detached = p->smpi && w->op[s][i].send_bytes < 65536};
            }
        }
}

static bool ready(const struct plain *p, int rank, int i)
{
    const struct pdl_traffic_op *op = &p->w->op[rank][i];

    for (int k = 0; k < op->nafter; k++)
        if (!p->complete[rank][op->after[k]])
            return false;
    for (int k = 0; k <= i - p->w->window; k++)
        if (!p->complete[rank][k])
            return false;
    return true;
}

/* SMPI's factors for the sizes drawn here. */
static void smpi_factors(int64_t bytes, double *lf, double *bf)
{
    static const double t[][3] = {
        {65472, 11.6436, 0.940694}, {15424, 3.48845, 0.697866},
        {9376, 2.59299, 0.58729},   {5776, 2.18796, 1.08739},
        {3484, 1.88101, 0.77493},   {1426, 1.61075, 0.608902},
        {732, 1.9503, 0.341987},    {257, 1.95341, 0.338112},
        {0, 2.01467, 0.812084},     {-1, 1, 1}};
    int i = 0;

    while ((double)bytes <= t[i][0])
        i++;
    *lf = t[i][1];
    *bf = t[i][2];
}

static int64_t bytes_of(const struct plain *p, const struct message *m)
{
    return p->w->op[m->src][m->src_op].send_bytes;
}

static double latency_of(const struct plain *p, const struct message *m)
{
    double sum = 0, lf = 1, bf;

    for (int i = 0; i < p->w->nroute[m->src][m->dst]; i++)
        sum += p->w->links[p->w->route[m->src][m->dst][i]].latency_s;
    if (p->smpi)
        smpi_factors(bytes_of(p, m), &lf, &bf);
    return sum * lf;
}

static long double amount_on(const struct plain *p, const struct message *m,
                             int link)
{
    long double sum = 0;

    for (int i = 0; i < p->w->nroute[m->src][m->dst]; i++)
        sum += p->w->route[m->src][m->dst][i] == link;
    for (int i = 0; p->smpi && i < p->w->nroute[m->dst][m->src]; i++)
        sum += p->w->route[m->dst][m->src][i] == link ? 0.05 : 0;
    return sum;
}

static long double weight_of(const struct plain *p, const struct message *m)
{
    double sum = 0;

    for (int i = 0; i < p->w->nroute[m->src][m->dst]; i++)
        sum += p->w->links[p->w->route[m->src][m->dst][i]].latency_s;
    return p->rtt && sum > 0 ? 1 / sum : 1;
}

static long double bound_of(const struct plain *p, const struct message *m)
{
    double slow = INFINITY, lf, bf;

    if (!p->smpi)
        return INFINITY;
    for (int i = 0; i < p->w->nroute[m->src][m->dst]; i++)
        slow =
            fmin(slow, p->w->links[p->w->route[m->src][m->dst][i]].bytes_per_s);
    smpi_factors(bytes_of(p, m), &lf, &bf);
    return slow * bf;
}

/* Progressive filling by the book. */
static void fill_rates(struct plain *p)
{
    bool open[2 * MESSAGES];
    int left = 0;

    for (int i = 0; i < p->nm; i++) {
        open[i] = p->m[i].state == FLOWING;
        p->m[i].rate = 0;
        left += open[i];
    }
    while (left > 0) {
        long double step = INFINITY, used[LINKS] = {0}, w[LINKS] = {0};

        for (int i = 0; i < p->nm; i++) {
            for (int l = 0; p->m[i].state == FLOWING && l < LINKS; l++) {
                used[l] += amount_on(p, &p->m[i], l) * p->m[i].rate;
                if (open[i])
                    w[l] += amount_on(p, &p->m[i], l) * weight_of(p, &p->m[i]);
            }
            if (open[i])
                step = fminl(step, (bound_of(p, &p->m[i]) - p->m[i].rate) /
                                       weight_of(p, &p->m[i]));
        }
        for (int l = 0; l < LINKS; l++)
            if (w[l] > 0)
                step = fminl(
                    step, (p->w->links[l].bytes_per_s * (p->smpi ? 0.97 : 1.0) -
                           used[l]) /
                              w[l]);
        for (int i = 0; i < p->nm; i++) {
            bool stop = false;

            if (!open[i])
                continue;
            p->m[i].rate += step * weight_of(p, &p->m[i]);
            stop = p->m[i].rate >= bound_of(p, &p->m[i]) * (1 - 1e-15L);
            for (int l = 0; l < LINKS; l++)
                stop = stop || (amount_on(p, &p->m[i], l) > 0 &&
                                used[l] + step * w[l] >=
                                    p->w->links[l].bytes_per_s *
                                        (p->smpi ? 0.97 : 1.0) * (1 - 1e-15L));
            if (stop) {
                open[i] = false;
                left--;
            }
        }
    }
}

/* An operation is complete when its sides are; true if any became so. */
static bool complete_ops(struct plain *p)
{
    bool any = false;

    for (int r = 0; r < HOSTS; r++)
        for (int i = 0; i < p->w->nops[r]; i++) {
            bool open = p->complete[r][i] || !ready(p, r, i);

            for (int k = 0; k < p->nm && !open; k++) {
                const struct message *m = &p->m[k];

                open = m->state != OVER &&
                       ((m->src == r && m->src_op == i && !m->detached) ||
                        (m->dst == r && m->dst_op == i));
            }
            if (!open) {
                p->complete[r][i] = any = true;
                p->finish[r] = p->now;
            }
        }
    return any;
}

static bool start_messages(struct plain *p)
{
    bool any = false;

    for (int k = 0; k < p->nm; k++) {
        struct message *m = &p->m[k];

        if (m->state == WAITING && ready(p, m->src, m->src_op) &&
            ready(p, m->dst, m->dst_op)) {
            m->state = LATENCY;
            m->begins = p->now + (long double)latency_of(p, m);
            any = true;
        }
        if (m->state == LATENCY && m->begins <= p->now * (1 + 1e-13L)) {
            m->state = m->left > 0 && m->src != m->dst ? FLOWING : OVER;
            any = true;
        }
    }
    return any;
}

static long double simulate(struct plain *p)
{
    list_messages(p);
    for (;;) {
        long double next = INFINITY;

        while (complete_ops(p) || start_messages(p))
            ;
        fill_rates(p);
        for (int k = 0; k < p->nm; k++)
            if (p->m[k].state == LATENCY)
                next = fminl(next, p->m[k].begins);
            else if (p->m[k].state == FLOWING)
                next = fminl(next, p->now + p->m[k].left / p->m[k].rate);
        if (!(next < INFINITY))
            return p->now;
        for (int k = 0; k < p->nm; k++)
            if (p->m[k].state == FLOWING) {
                p->m[k].left -= p->m[k].rate * (next - p->now);
                if (p->m[k].left <= p->m[k].rate * next * 1e-13L)
                    p->m[k].state = OVER;
            }
        p->now = next;
    }
}

/* ---- the comparison ---------------------------------------------------------------- */

static void random_traffic_equals_the_plain_simulator(void **state)
{
    int runs = effort(100, 1000, 10000);

    (void)state;
    for (int i = 0; i < runs; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_rng r = {.key = 11, .stream = (uint64_t)i};
        struct world *w = PDL_NEW(a, struct world, 1);
        struct plain *p = PDL_NEW(a, struct plain, 1);
        struct pdl_net net = {.spec = "random",
                              .nhosts = HOSTS,
                              .nlinks = LINKS,
                              .route = world_route,
                              .shape = w};
        struct pdl_traffic t = {
            .nranks = HOSTS, .ctx = w, .nops = world_nops, .op = world_op};
        struct pdl_sim_config config = {
            .share = i % 2 ? PDL_SHARE_RTT : PDL_SHARE_FAIR,
            .wire = i % 4 < 2 ? PDL_WIRE_PLAIN : PDL_WIRE_SMPI,
            .precision_s = -1, /* SimGrid's nanosecond is its own */
            .critical_path = i % 3 == 0};
        struct pdl_sim_result out;
        struct pdl_err err = {"", ""};

        make_world(w, &r, i % 8 < 4);
        net.links = w->links;
        t.window = w->window;
        *p = (struct plain){
            .w = w, .rtt = i % 2, .smpi = config.wire == PDL_WIRE_SMPI};
        simulate(p);
        if (pdl_sim_run(a, &net, &t, &config, &out, &err) != PDL_OK)
            fail_msg("traffic %d: %s", i, err.msg);
        for (int h = 0; h < HOSTS; h++)
            if (fabs(out.finish_s[h] - (double)p->finish[h]) > 1e-12)
                fail_msg("traffic %d: rank %d is done at %.15g, not %.15g", i,
                         h, out.finish_s[h], (double)p->finish[h]);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traffic_equals_the_plain_simulator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
