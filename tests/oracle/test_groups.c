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

/* ---- groups of nodes, and strategies that lie on them ---------------------- */

#define GROUPS(first, second)                        \
    "name: mixed\ngroups:\n"                         \
    "  - {name: one, system: " first ", nodes: 1}\n" \
    "  - {name: two, system: " second ", nodes: 1}\n"
#define BOTH GROUPS("dgx-h100", "dgx-a100")

/* Lowered and priced as a job does it; "" or why not. */
static const char *lay(struct bed *b, const char *machine, const char *strategy)
{
    static struct pdl_err err;
    struct pdl_oracle_options o = {.precision = PDL_PREC_BF16,
                                   .optimizer_slots = 2};
    struct pdl_plan_options po = {.batch = 64};
    const struct pdl_model *m;
    struct pdl_strategy *s;
    struct pdl_system laid;

    err = (struct pdl_err){"", ""};
    b->arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    s = PDL_NEW(b->arena, struct pdl_strategy, 1);
    read_system(b, machine);
    laid = b->sys;
    if (pdl_zoo_build(b->arena, GPT, &m, &err) == PDL_OK &&
        pdl_strategy_parse(b->arena, strategy, s, &err) == PDL_OK &&
        pdl_strategy_lay(b->arena, &b->sys, PDL_PREC_BF16, 64, s, &laid,
                         &err) == PDL_OK &&
        pdl_oracle_lower(b->arena, m, &laid, &o, &po, s, &b->plan, &err) ==
            PDL_OK &&
        pdl_plan_check(b->plan, &err) == PDL_OK)
        pdl_project(b->plan, &laid, &o, &b->x, &err);
    b->sys = laid;
    return err.msg;
}

static double step_of(const char *machine, const char *strategy)
{
    struct bed b = {.arena = NULL};
    const char *why = lay(&b, machine, strategy);
    double s = b.x.step_s;

    if (*why)
        fail_msg("%s: %s", strategy, why);
    pdl_arena_destroy(b.arena);
    return s;
}

static void samples_by_speed_keep_all_pes_busy(void **state)
{
    double even = step_of(BOTH, "data=16"),
           dealt = step_of(BOTH, "data=16@one+two");
    double fast = step_of("base: dgx-h100\nnodes: 2\n", "data=16");
    double slow = step_of("base: dgx-a100\nnodes: 2\n", "data=16");
    double both = 2 / (1 / fast + 1 / slow);

    (void)state;
    assert_true(fabs(even / slow - 1) < .02);
    /* shares are whole samples, of 64 on 16 ranks */
    assert_true(dealt > both * .98 && dealt < both * 1.25);
    /* as much to each is what nobody said */
    assert_true(fabs(step_of(BOTH, "data=16@one:8*1+two:8*1") / even - 1) <
                1e-9);
    /* and the slower must not get more */
    assert_true(step_of(BOTH, "data=16@one:8*1+two:8*3") > 1.4 * even);
}

static void nodes_come_in_the_order_of_ranks(void **state)
{
    struct bed b = {.arena = NULL};

    (void)state;
    assert_string_equal(lay(&b, BOTH, "pipe=2@two+one(m=8),data=8"), "");
    assert_string_equal(pdl_system_pe(&b.sys, 0)->name, "a100-80g");
    assert_string_equal(pdl_system_pe(&b.sys, 1)->name, "h100-80g");
    assert_true(work(b.plan, 0, 0) < .6 * work(b.plan, 1, 8));
    pdl_arena_destroy(b.arena);
    assert_string_equal(lay(&b, BOTH, "pipe=2@one+two(m=8),data=8"), "");
    assert_true(work(b.plan, 1, 8) < .6 * work(b.plan, 0, 0));
    pdl_arena_destroy(b.arena);
}

/* A stage inside a group has its links; what leaves it has the slowest. */
#define SLOW_LINKS \
    "\"dgx-h200:node.links.measured_bandwidth=9GB/s,\
node.links.bandwidth=10GB/s\""

static void a_group_has_its_own_links(void **state)
{
    static const char *const half = GROUPS("dgx-h200", SLOW_LINKS);
    static const char *const slow = GROUPS(SLOW_LINKS, SLOW_LINKS);
    double a = step_of(GROUPS("dgx-h200", "dgx-h200"), "pipe=2(m=8),tensor=8");
    double b = step_of(half, "pipe=2(m=8),tensor=8");
    double c = step_of(slow, "pipe=2(m=8),tensor=8");

    (void)state;
    assert_true(a < b && b <= c);
    assert_true(step_of(half, "pipe=2(m=1),tensor=8") <
                .8 * step_of(slow, "pipe=2(m=1),tensor=8"));
}

/* Each kind must hold what it is dealt, and no other counts. */
static void memory_is_that_of_the_kind(void **state)
{
    static const char *const small =
        GROUPS("dgx-h100", "\"dgx-a100:pe.memory=20GiB\"");
    struct bed even = {.arena = NULL}, dealt = even, back = even;

    (void)state;
    assert_string_equal(lay(&even, small, "data=16@one:8*1+two:8*1"), "");
    assert_string_equal(lay(&dealt, small, "data=16@one:8*7+two:8*1"), "");
    assert_string_equal(lay(&back, small, "data=16@one:8*1+two:8*7"), "");
    assert_false(even.x.feasible);
    assert_true(dealt.x.feasible);
    assert_false(back.x.feasible);
    assert_true(back.x.peak_bytes > even.x.peak_bytes);
    pdl_arena_destroy(even.arena);
    pdl_arena_destroy(dealt.arena);
    pdl_arena_destroy(back.arena);
}

static void refused(const char *strategy, const char *why)
{
    struct bed b = {.arena = NULL};
    const char *said = lay(&b, BOTH, strategy);

    if (!strstr(said, why))
        fail_msg("%s: '%s', not '%s'", strategy, said, why);
    pdl_arena_destroy(b.arena);
}

static void what_cannot_lie_there_is_refused(void **state)
{
    (void)state;
    refused("data=16@one+three", "no group 'three'");
    refused("data=4@one+two", "tears node 0");
    refused("data=16@one:16", "wants 2 nodes of 'one', which has 1");
    refused("data=15@one+two", "cannot be dealt to 1 of 2 nodes");
    refused("data=32@one+two", "32 PEs; the groups have 16");
    refused("pipe=2@one+two(m=8),data=8@one+two", "one axis lies on groups");
    refused("data=16@one:8*63+two:8*1", "smaller than the shares");
    refused("tensor=16@one+two", "only pipe and data");
    refused("data=16@one:8*2+two:8", "all groups say how many");
    refused("data=16@one:8+two:7", "its groups have 15");
    refused("pipe=16@one:8*2+two:8*1", "shares are of samples");
    refused("data=16@one:8*5000+two:8*1", "at most 4096 shares");
}

static void broken(const char *text, const char *why)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    assert_int_not_equal(
        pdl_system_read(a, (struct pdl_bytes){text, strlen(text)}, "m.yaml",
                        &sys, &err),
        PDL_OK);
    if (!strstr(err.msg, why))
        fail_msg("'%s', not '%s'", err.msg, why);
    pdl_arena_destroy(a);
}

static void groups_that_make_no_machine_are_refused(void **state)
{
    (void)state;
    broken(GROUPS("dgx-h100", "dgx-x"), "groups: no system 'dgx-x'");
    broken(GROUPS("dgx-h100", "summit"), "PEs a node");
    broken("name: m\ngroups:\n  - {system: dgx-h100}\n  - {system: dgx-h100}\n",
           "two are called 'dgx-h100'");
    broken("name: m\ngroups: []\n", "there are none");
    broken("name: m\nbase: dgx-h100\ngroups:\n  - {system: dgx-a100}\n",
           "say twice");
    broken("name: m\nnodes: 1\ngroups:\n  - {system: dgx-a100, nodes: 2}\n",
           "the groups have 2");
    broken("name: m\ngroups:\n  - {system: \"-\"}\n", "no system's name");
}

static void a_file_with_groups_is_written_and_read_again(void **state)
{
    struct bed b = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)}, again = b;
    struct pdl_buf one, two;

    (void)state;
    read_system(&b, BOTH);
    assert_int_equal(b.sys.ngroups, 2);
    assert_int_equal(b.sys.nodes, 2);
    assert_true(b.sys.node.links.bytes_per_s < 400e9);
    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_system_write(&b.sys, &one.sink);
    read_system(&again, one.text);
    pdl_system_write(&again.sys, &two.sink);
    assert_string_equal(one.text, two.text);
    assert_int_equal(again.sys.npe_groups, 2);
    pdl_buf_free(&one);
    pdl_buf_free(&two);
    pdl_arena_destroy(b.arena);
}

/* The search finds what lies on groups, and it is the best. */
static void the_search_deals_by_speed(void **state)
{
    struct pdl_oracle_options o = {.precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_search_options q = {.pes = 16, .batch = 512};
    struct bed b = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
    struct pdl_search_result found;
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;

    (void)state;
    read_system(&b, BOTH);
    assert_int_equal(pdl_zoo_build(b.arena, "resnet50", &m, &err), PDL_OK);
    if (pdl_search(b.arena, m, &b.sys, &o, &q, &found, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(found.list[0].strategy, "data=16@one+two");
    pdl_arena_destroy(b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_cut_by_speed),
        cmocka_unit_test(without_stages_the_slowest_counts),
        cmocka_unit_test(a_description_with_groups_is_written_and_read_again),
        cmocka_unit_test(samples_by_speed_keep_all_pes_busy),
        cmocka_unit_test(nodes_come_in_the_order_of_ranks),
        cmocka_unit_test(a_group_has_its_own_links),
        cmocka_unit_test(memory_is_that_of_the_kind),
        cmocka_unit_test(what_cannot_lie_there_is_refused),
        cmocka_unit_test(groups_that_make_no_machine_are_refused),
        cmocka_unit_test(a_file_with_groups_is_written_and_read_again),
        cmocka_unit_test(the_search_deals_by_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
