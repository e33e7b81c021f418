/* Traffic in time: the allreduce times of SimGrid on fat trees, tori and
 * dragonflies, short cuts against events, deadlocks and other wrong traffic,
 * bounds, paths, links, energy and SMPI's model. The three algorithms are
 * written here as traffic, so that this test needs no other room. */
#include "net_cases.h"

struct allreduce {
    int n;
    int64_t bytes;
    bool chain_only; /* no alike(): every operation is asked for */
};

static int log2_of(int n)
{
    int k = 0;

    while (1 << k < n)
        k++;
    return k;
}

static void exchange(int64_t i, int peer_to, int peer_from, int64_t sent,
                     int64_t received, struct pdl_traffic_op *out)
{
    *out = (struct pdl_traffic_op){peer_to,  peer_from, sent,
                                   received, i > 0,     {i - 1}};
}

/* Chunk c of n bytes on p ranks: the first ones are a byte longer. */
static int64_t chunk(const struct allreduce *a, int64_t c)
{
    c = (c % a->n + a->n) % a->n;
    return a->bytes / a->n + (c < a->bytes % a->n);
}

static int64_t ring_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * (((struct allreduce *)ctx)->n - 1);
}

static void ring_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;

    exchange(i, rank + 1 == a->n ? 0 : rank + 1,
             rank == 0 ? a->n - 1 : rank - 1, chunk(a, rank - i),
             chunk(a, rank - 1 - i), out);
}

static int64_t ring_alike(void *ctx, int64_t i)
{
    const struct allreduce *a = ctx;

    return a->bytes % a->n ? 1 : 2 * (a->n - 1) - i;
}

static int64_t doubling_nops(void *ctx, int rank)
{
    (void)rank;
    return log2_of(((struct allreduce *)ctx)->n);
}

static void doubling_op(void *ctx, int rank, int64_t i,
                        struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;
    int peer = rank ^ 1 << i;

    exchange(i, peer, peer, a->bytes, a->bytes, out);
}

static int64_t halving_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * log2_of(((struct allreduce *)ctx)->n);
}

static void halving_op(void *ctx, int rank, int64_t i,
                       struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;
    int k = log2_of(a->n), d = i < k ? a->n >> (i + 1) : 1 << (i - k);

    exchange(i, rank ^ d, rank ^ d, a->bytes / a->n * d, a->bytes / a->n * d,
             out);
}

static const struct {
    const char *name;
    int64_t (*nops)(void *, int);
    void (*op)(void *, int, int64_t, struct pdl_traffic_op *);
    int64_t (*alike)(void *, int64_t);
} algorithms[] = {
    {"ring", ring_nops, ring_op, ring_alike},
    {"recursive-doubling", doubling_nops, doubling_op, NULL},
    {"halving-doubling-far", halving_nops, halving_op, NULL},
};
enum { NALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

static struct pdl_traffic traffic_of(const char *name, struct allreduce *a)
{
    for (int i = 0; i < NALGORITHMS; i++)
        if (strcmp(algorithms[i].name, name) == 0)
            return (struct pdl_traffic){
                .nranks = a->n,
                .ctx = a,
                .nops = algorithms[i].nops,
                .op = algorithms[i].op,
                .alike = a->chain_only ? NULL : algorithms[i].alike,
                .window = 1};
    fail_msg("no algorithm '%s'", name);
    return (struct pdl_traffic){.nranks = 0};
}

static struct pdl_sim_result run(pdl_arena *a, const struct pdl_net *net,
                                 const struct pdl_traffic *t,
                                 const struct pdl_sim_config *config)
{
    struct pdl_sim_result out;
    struct pdl_err err = {"", ""};

    if (pdl_sim_run(a, net, t, config, &out, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return out;
}

static void check_anchor(const char *name, const char *algorithm, int64_t bytes,
                         double want, double tolerance)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = anchor_net(a, name);
    struct allreduce job = {net->nhosts, bytes, false};
    struct pdl_traffic t = traffic_of(algorithm, &job);
    struct pdl_sim_config config = {.share = PDL_SHARE_RTT};
    double cpu = pdl_cpu_s();
    struct pdl_sim_result out = run(a, net, &t, &config);

    print_message("%-9s %-20s %.9f s (SimGrid %.9f) %9lld messages, "
                  "%lld short, %lld solves, %.3f s\n",
                  name, algorithm, out.time_s, want, (long long)out.messages,
                  (long long)out.short_cuts, (long long)out.solves,
                  pdl_cpu_s() - cpu);
    if (fabs(out.time_s - want) > tolerance)
        fail_msg("%s %s: %.12f, not %.12f", name, algorithm, out.time_s, want);
    pdl_arena_destroy(a);
}

static void allreduces_of_100_mib_equal_simgrid(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_doc *net =
        pdl_doc_get(anchors(a), "allreduce_100MiB_simtime_s")->child;
    int checked = 0;

    (void)state;
    for (; net; net = net->next)
        for (const struct pdl_doc *d = net->child; d; d = d->next) {
            double want = 0;

            assert_int_equal(pdl_doc_num(d, PDL_UNIT_NONE, 0, 10, &want, NULL),
                             PDL_OK);
            check_anchor(net->key, d->key, 104857600, want, 1e-9);
            checked++;
        }
    assert_int_equal(checked, 28);
    pdl_arena_destroy(a);
}

static void allreduces_of_1_mib_equal_simgrid(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_doc *net =
        pdl_doc_get(anchors(a), "allreduce_1MiB_fat_tree_simtime_s")->child;
    int checked = 0;

    (void)state;
    for (; net; net = net->next)
        for (const struct pdl_doc *d = net->child; d; d = d->next) {
            double want = 0;
            char name[32];

            assert_int_equal(pdl_doc_num(d, PDL_UNIT_NONE, 0, 10, &want, NULL),
                             PDL_OK);
            snprintf(name, sizeof name, "ft%s", net->key);
            /* printed to a nanosecond */
            check_anchor(name, d->key, 1048576, want, 1e-9);
            checked++;
        }
    assert_int_equal(checked, 8);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduces_of_100_mib_equal_simgrid),
        cmocka_unit_test(allreduces_of_1_mib_equal_simgrid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
