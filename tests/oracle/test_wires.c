/* The oracle's price of a collective and the simulator's time of the same one
 * on the network of the same system, with the same rates and latencies, are
 * within 10 %: on every built-in system, with ideal and with measured numbers,
 * in one node and in several. On a torus libraries are priced as rings along
 * its dimensions on all links of a PE, and simulated as one on its share. */
#include "plans.h"
#include "paradl/coll.h"
#include "paradl/net.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double WITHIN = .10;

struct place {
    pdl_arena *arena;
    struct pdl_system sys;
    const struct pdl_net *net;
    bool ideal;
    int pes, local;
    int ways; /* of a torus: links of a PE that its dimensions use; 0: none */
};

/* What is priced, and what is simulated for it. */
struct collective {
    const char *strategy; /* after data=PEs; NULL: all-to-alls of attention */
    enum pdl_plan_op_kind kind;
    const char *name, *algorithm;
    bool only_torus;
};

// clang-format off
static const struct collective rows[] = {
    {"bucket=1GiB,allreduce=ring", PDL_PLAN_OP_ALLREDUCE, "allreduce", "ring", false},
    {"bucket=1GiB,allreduce=torus", PDL_PLAN_OP_ALLREDUCE, "allreduce", "torus", true},
    {"bucket=1GiB,allreduce=ring-ring", PDL_PLAN_OP_ALLREDUCE, "allreduce", "ring-ring", false},
    {"bucket=1GiB,allreduce=halving-doubling", PDL_PLAN_OP_ALLREDUCE, "allreduce", "halving-doubling", false},
    {"zero=3", PDL_PLAN_OP_ALLGATHER, "allgather", "ring", false},
    {"zero=3", PDL_PLAN_OP_REDUCE_SCATTER, "reduce-scatter", "ring", false},
    {NULL, PDL_PLAN_OP_ALLTOALL, "alltoall", "node-pairwise", false},
};
// clang-format on

/* Of "4x2x1,...": both ways round a ring, and one between two. */
static int ways_of(const char *dims)
{
    int ways = 0;

    for (char *end; *dims && *dims != ','; dims = *end == 'x' ? end + 1 : end) {
        long n = strtol(dims, &end, 10);

        ways += n > 2 ? 2 : n == 2;
    }
    return ways;
}

static void settle(struct place *p, const char *name, int nodes)
{
    struct pdl_err err = {"", ""};
    struct pdl_system as;
    const char *spec = NULL;

    p->sys = open_system(p->arena, name);
    p->local = (int)p->sys.node.pes;
    p->pes = nodes * p->local;
    if (p->pes < 2)
        return;
    if (pdl_system_set(p->arena, &p->sys, "nodes",
                       pdl_arena_printf(p->arena, "%d", nodes),
                       &err) != PDL_OK ||
        pdl_system_update(p->arena, &p->sys, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    /* what was measured of whole collectives is no rate of a wire */
    p->sys.network.layer_step_s = 0;
    p->sys.ncollectives = 0;
    as = p->sys;
    if (!p->ideal)
        assert_int_equal(pdl_system_measured(p->arena, &as, &err), PDL_OK);
    if (pdl_system_topology(p->arena, &as, &spec, &err) != PDL_OK ||
        pdl_net_make(p->arena, spec, &p->net, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    p->ways = strncmp(spec, "torus:", 6) == 0 ? ways_of(spec + 6) : 0;
}

static double simulate(const struct place *p, const char *name,
                       const char *spec, int64_t bytes)
{
    struct pdl_coll_job job = {.nranks = p->pes,
                               .count = bytes / 4 / p->pes * p->pes,
                               .elem_bytes = 4};
    struct pdl_traffic traffic;
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    struct pdl_sim_result r;
    struct pdl_err err = {"", ""};

    if (pdl_alg_parse(name, spec, &job, NULL) != PDL_OK)
        return 0;
    pdl_coll_suit(&job, p->net);
    if (pdl_coll_setup(&job, NULL) != PDL_OK)
        return 0;
    pdl_coll_traffic(&job, NULL, &traffic);
    if (pdl_sim_run(p->arena, p->net, &traffic, &config, &r, &err) != PDL_OK)
        fail_msg("%s: %s", spec, err.msg);
    return r.time_s;
}

static double simulated(const struct place *p, const struct collective *c,
                        int64_t bytes)
{
    bool two = strcmp(c->algorithm, "ring-ring") == 0;
    char spec[64];

    if (p->ways && !p->ideal && strcmp(c->name, "alltoall") != 0 &&
        strcmp(c->name, "allreduce") != 0)
        return simulate(p, "allreduce", "torus", bytes / p->ways) / 2;
    if (p->ways && strcmp(c->name, "alltoall") == 0)
        return simulate(p, "alltoall", "torus", bytes);
    snprintf(spec, sizeof spec, "%s", c->algorithm);
    if (two && p->pes > p->local)
        snprintf(spec, sizeof spec, "ring-ring:k=%d", p->local);
    else if (strcmp(c->algorithm, "node-pairwise") == 0)
        snprintf(spec, sizeof spec, "node-pairwise:k=%d", p->local);
    else if (two) /* a hierarchy of one level is a ring */
        snprintf(spec, sizeof spec, "ring");
    return simulate(p, c->name, spec, bytes);
}

/* Seconds and bytes of the longest such operation; 0: there is none. */
static double priced(const struct place *p, const char *model,
                     const struct collective *c, int64_t *bytes)
{
    struct pdl_oracle_options opt = {
        .precision = PDL_PREC_FP32,
        .parameters = p->ideal ? PDL_IDEAL : PDL_EMPIRICAL};
    char strategy[96];
    const struct pdl_plan *plan;
    struct pdl_op_price *price;
    double most = 0;

    if (c->strategy) {
        snprintf(strategy, sizeof strategy, "data=%d,%s", p->pes, c->strategy);
    } else {
        snprintf(strategy, sizeof strategy, "context=%d(a2a)", p->pes);
        model = pdl_arena_printf(
            p->arena, "gpt:layers=1,hidden=%d,heads=%d,ffn=64,vocab=64,seq=%d",
            64 * p->pes, p->pes,
            p->pes * (strcmp(model, "vgg16") == 0 ? 256 : 4));
    }
    plan = lower(p->arena, model, strategy, c->strategy ? p->pes : 1);
    price = PDL_NEW(p->arena, struct pdl_op_price, plan->nops);
    assert_non_null(price);
    if (pdl_price_ops(plan, &p->sys, &opt, price, NULL) != PDL_OK)
        return 0;
    for (int i = 0; i < plan->nops; i++) {
        const struct pdl_plan_op *o = &plan->ops[i];
        bool gather = o->kind == PDL_PLAN_OP_ALLGATHER;
        int64_t sum = 0;

        for (int k = 0; k < (gather ? o->nout : o->nin); k++)
            sum +=
                4 * pdl_plan_elements(plan, gather ? o->out[k] : o->in[k], 0);
        if (o->kind == c->kind && price[i].seconds > most) {
            most = price[i].seconds;
            *bytes = sum;
        }
    }
    return most;
}

static int compare(const struct place *p, const char *name, const char *model,
                   double *worst)
{
    int n = 0;

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        int64_t bytes = 0;
        double a, b;

        if (p->pes < 2 || (rows[k].only_torus && !p->ways) ||
            (p->pes & (p->pes - 1) &&
             strcmp(rows[k].algorithm, "halving-doubling") == 0))
            continue;
        a = priced(p, model, &rows[k], &bytes);
        b = a > 0 ? simulated(p, &rows[k], bytes) : 0;
        if (!(a > 0 && b > 0))
            fail_msg("%s, %d PEs: no %s", name, p->pes, rows[k].algorithm);
        if (fabs(a / b - 1) > WITHIN)
            fail_msg("%s, %d PEs, %s, %s %s of %lld bytes: %g s, simulated %g",
                     name, p->pes, p->ideal ? "ideal" : "measured",
                     rows[k].name, rows[k].algorithm, (long long)bytes, a, b);
        *worst = fmax(*worst, fabs(a / b - 1));
        n++;
    }
    return n;
}

/* ---- groups of a torus ------------------------------------------------ */

/* All-to-alls of several groups at once, each of neighbours or strided. */
struct groups {
    struct pdl_traffic one;
    int n;
    bool strided;
};

static int peer_of(const struct groups *g, int rank, int member)
{
    return member < 0   ? member
           : g->strided ? member * g->n + rank % g->n
                        : rank / g->one.nranks * g->one.nranks + member;
}

static int64_t groups_nops(void *ctx, int rank)
{
    const struct groups *g = ctx;

    (void)rank;
    return g->one.nops(g->one.ctx, 0);
}

static void groups_op(void *ctx, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    const struct groups *g = ctx;

    g->one.op(g->one.ctx, g->strided ? rank / g->n : rank % g->one.nranks, i,
              out);
    out->send_to = peer_of(g, rank, out->send_to);
    out->recv_from = peer_of(g, rank, out->recv_from);
}

/* Of a ring of gradients, so many ranks a group. */
static double ring_of_groups(const struct place *p, int ranks, bool strided,
                             int64_t bytes)
{
    struct pdl_coll_job job;
    struct pdl_traffic t;
    struct groups g = {.n = p->pes / ranks, .strided = strided};
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    struct pdl_sim_result r;

    assert_int_equal(
        pdl_coll_job_make("allreduce", "ring", ranks, bytes / 4, 4, &job, NULL),
        PDL_OK);
    pdl_coll_traffic(&job, NULL, &g.one);
    t = (struct pdl_traffic){
        .ctx = &g, .nranks = p->pes, .nops = groups_nops, .op = groups_op};
    assert_int_equal(pdl_sim_run(p->arena, p->net, &t, &config, &r, NULL),
                     PDL_OK);
    return r.time_s;
}

/* tensor is the fastest factor of the mesh, data the slowest, where the
 * strategy says so: the groups of data that are strided, or neighbours. */
static double ring_priced(const struct place *p, int ranks, bool strided,
                          int64_t *bytes)
{
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32,
                                     .parameters = PDL_IDEAL};
    const char *way = ",bucket=1GiB,allreduce=ring";
    int rest = p->pes / ranks;
    const struct pdl_plan *plan =
        lower(p->arena, "vgg16",
              strided ? pdl_arena_printf(p->arena, "data=%d,filter=%d%s", ranks,
                                         rest, way)
                      : pdl_arena_printf(p->arena, "filter=%d,data=%d%s", rest,
                                         ranks, way),
              p->pes);
    struct pdl_op_price *price =
        PDL_NEW(p->arena, struct pdl_op_price, plan->nops);
    double most = 0;

    assert_int_equal(pdl_price_ops(plan, &p->sys, &opt, price, NULL), PDL_OK);
    for (int i = 0; i < plan->nops; i++) {
        const struct pdl_plan_op *o = &plan->ops[i];
        int64_t sum = 0;

        if (o->kind != PDL_PLAN_OP_ALLREDUCE || o->nin < 2 ||
            price[i].seconds <= most)
            continue;
        for (int k = 0; k < o->nin; k++)
            sum += 4 * pdl_plan_elements(plan, o->in[k], 0);
        most = price[i].seconds;
        *bytes = sum;
    }
    return most;
}
static void rings_of_parts_of_a_torus_share_its_links(void **state)
{
    static const char *const systems[] = {"tpu-v4", "tpu-v5e", "fugaku"};
    static const int pes[] = {16, 48, 64};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            for (int ranks = 2; pes[k] % ranks == 0; ranks *= 2)
                for (int strided = 0; strided < 2; strided++) {
                    struct place p = {.ideal = true};
                    int64_t bytes = 0;
                    double a, b;

                    p.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
                    settle(&p, systems[i],
                           pes[k] / (i == 0   ? 4
                                     : i == 1 ? 8
                                              : 1));
                    a = ring_priced(&p, ranks, strided, &bytes);
                    b = ring_of_groups(&p, ranks, strided, bytes);
                    if (fabs(a / b - 1) > WITHIN / 5)
                        fail_msg("%s, groups of %d of %d PEs, %s: %g s, "
                                 "simulated %g",
                                 systems[i], ranks, pes[k],
                                 strided ? "strided" : "neighbours", a, b);
                    pdl_arena_destroy(p.arena);
                }
}

static void prices_are_what_the_simulator_says(void **state)
{
    static const int nodes[] = {1, 2, 4};
    double worst = 0;
    int n = 0;

    (void)state;
    for (int i = 0; pdl_system_builtin(i); i++)
        for (int k = 0; k < 6; k++) {
            struct place p = {.ideal = k >= 3};

            p.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
            settle(&p, pdl_system_builtin(i)->name, nodes[k % 3]);
            n += compare(&p, p.sys.name, "vgg16", &worst);
            n += compare(&p, p.sys.name, "lenet5", &worst);
            pdl_arena_destroy(p.arena);
        }
    print_message("%d collectives, at most %.1f %% apart\n", n, 100 * worst);
    assert_true(n > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_are_what_the_simulator_says),
        cmocka_unit_test(rings_of_parts_of_a_torus_share_its_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
