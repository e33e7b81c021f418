/* Where ranks go: never worse than as they were numbered, equal to brute force
 * over all orders of axes and nodes on small machines, and every rank has a PE
 * of its own. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define GPT "gpt:layers=4,hidden=1024,heads=16,ffn=4096,vocab=8192,seq=512"

/* Nodes of 2 PEs, 2 nodes a switch, slow links between switches. */
#define MACHINE                                                             \
    "name: two-levels\n"                                                    \
    "pe: a100-40g\n"                                                        \
    "nodes: 8\n"                                                            \
    "node:\n"                                                               \
    "  pes: 2\n"                                                            \
    "  links: {type: NVLink3, shape: switch, bandwidth: 300GB/s, latency: " \
    "1us}\n"                                                                \
    "  nics: {type: HDR, count: 1, bandwidth: 25GB/s, latency: 1us}\n"      \
    "network:\n"                                                            \
    "  topology: {type: fat-tree}\n"                                        \
    "  levels:\n"                                                           \
    "    - {name: leaf, nodes: 2, bandwidth: 12.5GB/s, latency: 2us}\n"     \
    "    - {name: spine, bandwidth: 1GB/s, latency: 9us}\n"

struct bed {
    pdl_arena *arena;
    struct pdl_system sys;
    struct pdl_strategy strategy;
    struct pdl_plan_options po;
    struct pdl_oracle_options oracle;
    struct pdl_place_job job;
};

static void make(struct bed *b, const char *strategy, const int64_t *nodes,
                 int64_t n)
{
    struct pdl_err err = {"", ""};

    *b = (struct bed){
        .arena = pdl_arena_create(PDL_ARENA_DEFAULT),
        .po = {.batch = 16, .dtype = PDL_BF16},
        .oracle = {.precision = PDL_PREC_BF16, .optimizer_slots = 2}};
    if (pdl_system_read(b->arena, (struct pdl_bytes){MACHINE, strlen(MACHINE)},
                        "m", &b->sys, &err) != PDL_OK ||
        pdl_strategy_parse(b->arena, strategy, &b->strategy, &err) != PDL_OK ||
        pdl_zoo_build(b->arena, GPT, &b->job.model, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    b->job.system = &b->sys;
    b->job.strategy = &b->strategy;
    b->job.plan = &b->po;
    b->job.oracle = &b->oracle;
    b->job.nnodes = n;
    b->job.nodes = nodes;
}

static double price(const struct bed *b, const struct pdl_strategy *s,
                    const int64_t *nodes)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = b->oracle;
    struct pdl_err err = {"", ""};
    const struct pdl_plan *p;
    struct pdl_projection x;

    o.nodes = nodes;
    if (pdl_plan_lower(a, b->job.model, s, &b->po, &p, &err) != PDL_OK ||
        pdl_project(p, &b->sys, &o, &x, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return x.step_s;
}

/* All orders of nodes, then all orders of axes, in the plainest way. */
static void try_nodes(const struct bed *b, const struct pdl_strategy *s,
                      int64_t *order, int k, double *best)
{
    if (k == b->job.nnodes) {
        *best = fmin(*best, price(b, s, order));
        return;
    }
    for (int i = k; i < b->job.nnodes; i++) {
        int64_t t = order[k];

        order[k] = order[i];
        order[i] = t;
        try_nodes(b, s, order, k + 1, best);
        order[i] = order[k];
        order[k] = t;
    }
}

static void try_axes(const struct bed *b, struct pdl_strategy *s, int k,
                     double *best)
{
    struct pdl_clause *c = &s->clause[0];
    int64_t order[8];

    if (k == c->nterms) {
        memcpy(order, b->job.nodes, (size_t)b->job.nnodes * sizeof order[0]);
        try_nodes(b, s, order, 0, best);
        return;
    }
    for (int i = k; i < c->nterms; i++) {
        struct pdl_term t = c->term[k];

        c->term[k] = c->term[i];
        c->term[i] = t;
        try_axes(b, s, k + 1, best);
        c->term[i] = c->term[k];
        c->term[k] = t;
    }
}

static void placements_equal_brute_force(void **state)
{
    static const struct {
        const char *strategy;
        int64_t n, nodes[4];
    } rows[] = {
        {"tensor=2,data=4", 4, {0, 1, 2, 3}},
        {"tensor=2,data=4", 4, {0, 2, 1, 3}},
        {"tensor=4,data=2", 4, {0, 2, 1, 3}},
        {"data=2,tensor=4,zero=1", 4, {4, 0, 5, 1}},
        {"data=2,pipe=2(m=4),tensor=2", 4, {0, 2, 3, 1}},
        {"tensor=2,pipe=4(m=4)", 4, {7, 0, 6, 1}},
        {"data=2,tensor=3", 3, {0, 4, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_placement p;
        struct pdl_err err = {"", ""};
        struct pdl_strategy s;
        double best = INFINITY;
        struct bed b;

        make(&b, rows[i].strategy, rows[i].nodes, rows[i].n);
        if (pdl_place(b.arena, &b.job, &p, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        assert_true(p.step_s <= p.given_s);
        s = b.strategy;
        try_axes(&b, &s, 0, &best);
        if (fabs(p.step_s - best) > 1e-9 * best)
            fail_msg("%s: %g, brute force %g", rows[i].strategy, p.step_s,
                     best);
        assert_true(fabs(p.given_s - price(&b, &b.strategy, rows[i].nodes)) <
                    1e-12);
        pdl_arena_destroy(b.arena);
    }
}

/* A tensor axis across switches is slow: it must end up inside one, whose
 * nodes must come together. */
static void a_bad_order_is_mended(void **state)
{
    static const int64_t nodes[] = {0, 2, 4, 6, 1, 3, 5, 7};
    struct pdl_placement p;
    struct bed b;

    (void)state;
    make(&b, "tensor=4,data=4", nodes, 8);
    assert_int_equal(pdl_place(b.arena, &b.job, &p, NULL), PDL_OK);
    assert_true(p.step_s < .7 * p.given_s);
    assert_int_equal(p.strategy.clause[0].term[1].axis, PDL_AXIS_TENSOR);
    for (int k = 0; k < 8; k += 2)
        assert_int_equal(nodes[p.node[k]] / 2, nodes[p.node[k + 1]] / 2);
    for (int64_t r = 0; r < 4; r++) /* four of one sample share two nodes */
        for (int64_t t = 1; t < 4; t++)
            assert_int_equal(pdl_placed(&b.strategy, &p, r) / 4,
                             pdl_placed(&b.strategy, &p, r + 4 * t) / 4);
    pdl_arena_destroy(b.arena);
}

static void every_rank_has_a_pe_of_its_own(void **state)
{
    static const int64_t nodes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct pdl_placement p;
    bool used[16] = {false};
    struct bed b;

    (void)state;
    make(&b, "tensor=2,pipe=2(m=2),data=4", nodes, 8);
    assert_int_equal(pdl_place(b.arena, &b.job, &p, NULL), PDL_OK);
    for (int64_t r = 0; r < 16; r++) {
        int64_t pe = pdl_placed(&b.strategy, &p, r);

        assert_true(pe >= 0 && pe < 16 && !used[pe]);
        used[pe] = true;
    }
    pdl_arena_destroy(b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_equal_brute_force),
        cmocka_unit_test(a_bad_order_is_mended),
        cmocka_unit_test(every_rank_has_a_pe_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
