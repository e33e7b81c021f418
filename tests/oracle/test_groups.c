/* Machines with PEs of two kinds: a pipeline's stages are cut by their speeds,
 * priced each on its own kind, and lie between the two pure machines. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define GPT "gpt:layers=24,hidden=2048,heads=16,ffn=8192,vocab=8192,seq=1024"
#define MACHINE(pe, groups)                                            \
    "name: mixed\nnodes: 2\npe: " pe "\n" groups "node:\n  pes: 8\n"   \
    "  links: {type: NVLink3, shape: switch, bandwidth: 300GB/s}\n"    \
    "  nics: {type: HDR, count: 8, bandwidth: 25GB/s, latency: 1us}\n" \
    "network:\n  topology: {type: fat-tree}\n"                         \
    "  levels:\n    - {name: all, latency: 2us}\n"
#define SLOW  MACHINE("a100-80g", "")
#define FAST  MACHINE("h100-80g", "")
#define MIXED MACHINE("h100-80g", "pe_groups:\n  - {pe: a100-80g, nodes: 1}\n")

struct bed {
    pdl_arena *arena;
    struct pdl_system sys;
    const struct pdl_plan *plan;
    struct pdl_projection x;
};

static void read_system(struct bed *b, const char *text)
{
    struct pdl_err err = {"", ""};

    if (pdl_system_read(b->arena, (struct pdl_bytes){text, strlen(text)}, "m",
                        &b->sys, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static void make(struct bed *b, const char *machine, const char *strategy,
                 bool weighed)
{
    struct pdl_oracle_options o = {.precision = PDL_PREC_BF16,
                                   .optimizer_slots = 2};
    struct pdl_plan_options po = {.batch = 64, .dtype = PDL_BF16};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    struct pdl_strategy *s;

    b->arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    s = PDL_NEW(b->arena, struct pdl_strategy, 1);
    read_system(b, machine);
    if (weighed)
        assert_int_equal(
            pdl_speeds(b->arena, &b->sys, PDL_PREC_BF16, &po, &err), PDL_OK);
    if (pdl_zoo_build(b->arena, GPT, &m, &err) != PDL_OK ||
        pdl_strategy_parse(b->arena, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(b->arena, m, s, &po, &b->plan, &err) != PDL_OK ||
        pdl_plan_check(b->plan, &err) != PDL_OK ||
        pdl_project(b->plan, &b->sys, &o, &b->x, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

/* Forward FLOPs of a stage on its first rank. */
static double work(const struct pdl_plan *p, int stage, int64_t rank)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    const struct pdl_plan_item *it = &p->items[s->first_forward];
    double n = 0;

    for (int k = 0; k < it->nops; k++) {
        struct pdl_work w;

        pdl_plan_op_work(p, it->first_op + k, rank, &w);
        n += (double)w.flops;
    }
    return n;
}

static void stages_are_cut_by_speed(void **state)
{
    struct bed slow, fast, even, mixed;
    double a, h;

    (void)state;
    make(&slow, SLOW, "pipe=2(m=8),data=8", true);
    make(&fast, FAST, "pipe=2(m=8),data=8", true);
    make(&even, MIXED, "pipe=2(m=8),data=8", false);
    make(&mixed, MIXED, "pipe=2(m=8),data=8", true);
    assert_true(fast.x.step_s < mixed.x.step_s);
    assert_true(mixed.x.step_s < .9 * even.x.step_s);
    assert_true(even.x.step_s <= slow.x.step_s * (1 + 1e-9));
    a = pdl_pe_matmul_rate(&slow.sys.pe, PDL_PREC_BF16, 1);
    h = pdl_pe_matmul_rate(&fast.sys.pe, PDL_PREC_BF16, 1);
    /* in proportion, up to one layer of 24 */
    assert_true(fabs(work(mixed.plan, 0, 0) / work(mixed.plan, 1, 8) - a / h) <
                .12);
    assert_true(fabs(work(even.plan, 0, 0) / work(even.plan, 1, 8) - 1) < .12);
    pdl_arena_destroy(slow.arena);
    pdl_arena_destroy(fast.arena);
    pdl_arena_destroy(even.arena);
    pdl_arena_destroy(mixed.arena);
}

/* Equal shares without stages: the slowest PE sets the pace. */
static void without_stages_the_slowest_counts(void **state)
{
    struct bed slow, mixed;

    (void)state;
    make(&slow, SLOW, "data=16", true);
    make(&mixed, MIXED, "data=16", true);
    assert_true(fabs(mixed.x.step_s / slow.x.step_s - 1) < 1e-9);
    assert_true(mixed.x.mfu < slow.x.mfu);
    pdl_arena_destroy(slow.arena);
    pdl_arena_destroy(mixed.arena);
}

static void a_description_with_groups_is_written_and_read_again(void **state)
{
    struct bed b = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)}, again = b;
    struct pdl_buf one, two;

    (void)state;
    read_system(&b, MIXED);
    assert_int_equal(b.sys.npe_groups, 1);
    assert_string_equal(pdl_system_pe(&b.sys, 0)->name, "a100-80g");
    assert_string_equal(pdl_system_pe(&b.sys, 1)->name, "h100-80g");
    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_system_write(&b.sys, &one.sink);
    read_system(&again, one.text);
    pdl_system_write(&again.sys, &two.sink);
    assert_string_equal(one.text, two.text);
    assert_int_equal(again.sys.npe_groups, 1);
    pdl_buf_free(&one);
    pdl_buf_free(&two);
    pdl_arena_destroy(b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_cut_by_speed),
        cmocka_unit_test(without_stages_the_slowest_counts),
        cmocka_unit_test(a_description_with_groups_is_written_and_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
