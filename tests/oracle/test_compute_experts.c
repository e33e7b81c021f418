/* What surrounds the products of experts, from counts by hand: a mixture of 4
 * experts of which a token visits 2, 6 wide, on tokens of 8 numbers. */
#include "oracle/oracle_priv.h"
#include "plans.h"

#include <math.h>
#include <string.h>

#define MIXTURE(topk, seq)                                  \
    "moe:layers=1,hidden=8,heads=2,ffn=6,vocab=16,seq=" seq \
    ",experts=4,topk=" topk

enum { BATCH = 3 };

static const double RATE = 1e9;

struct bed {
    pdl_arena *a;
    struct pdl_oracle_options opt;
    struct pdl_framework framework;
    struct oracle o;
};

static void open_bed(struct bed *b, const char *model, const char *strategy)
{
    *b = (struct bed){.a = pdl_arena_create(PDL_ARENA_DEFAULT)};
    b->opt.parameters = PDL_EMPIRICAL;
    b->o = (struct oracle){.p = lower(b->a, model, strategy, BATCH),
                           .opt = &b->opt,
                           .pe = {.bytes_per_s = RATE},
                           .pe16 = {.item_bytes = 2}};
}

static int experts(const struct bed *b, enum pdl_pass pass)
{
    const struct pdl_plan *p = b->o.p;

    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE && p->ops[i].node >= 0 &&
            p->ops[i].pass == pass &&
            strcmp(p->model->nodes[p->ops[i].node].op->name, "experts") == 0)
            return i;
    fail_msg("no experts");
    return -1;
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-9 * fabs(y);
}

/* 15 tokens visit 2 experts each: 30 rows of 6, read twice and written once
 * by the gated activation, 2 bytes each; backward 5 instead of 3. */
static void the_activation_is_read_and_written(void **state)
{
    struct bed b;

    (void)state;
    open_bed(&b, MIXTURE("2", "5"), "serial");
    assert_true(near(oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0),
                     30 * 6 * 3 * 2 / RATE));
    assert_true(
        near(oracle_experts_more(&b.o, experts(&b, PDL_BACKWARD_DATA), 0),
             30 * 6 * 5 * 2 / RATE));
    assert_true(
        oracle_experts_more(&b.o, experts(&b, PDL_BACKWARD_WEIGHTS), 0) == 0);
    pdl_arena_destroy(b.a);
}

/* Four copies there and four back of 8 numbers for each visit. */
static void a_dispatcher_copies_tokens(void **state)
{
    struct bed b;
    double without, with;

    (void)state;
    open_bed(&b, MIXTURE("2", "5"), "serial");
    without = oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0);
    b.opt.framework = &b.framework;
    assert_true(oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0) ==
                without);
    b.framework.token_copies = true;
    with = oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0);
    assert_true(near(with - without, 30 * 2 * 4 * 8 * 2 / RATE));
    pdl_arena_destroy(b.a);
}

static void it_grows_with_visits_and_tokens_and_is_shared(void **state)
{
    static const struct {
        const char *model, *strategy;
        double times;
    } cases[] = {
        {MIXTURE("1", "5"), "serial", .5},
        {MIXTURE("4", "5"), "serial", 2},
        {MIXTURE("2", "10"), "serial", 2},
        {MIXTURE("2", "5"), "data=3", 1. / 3},
    };
    struct bed b;
    double one;

    (void)state;
    open_bed(&b, MIXTURE("2", "5"), "serial");
    one = oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0);
    pdl_arena_destroy(b.a);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_bed(&b, cases[i].model, cases[i].strategy);
        if (!near(oracle_experts_more(&b.o, experts(&b, PDL_FORWARD), 0),
                  cases[i].times * one))
            fail_msg("%s, %s", cases[i].model, cases[i].strategy);
        pdl_arena_destroy(b.a);
    }
}

/* Every expert's part of what goes into its two products: 8 and 6 numbers of
 * each visit forward, 8 and both halves of 12 backward, 5 bytes each, by two
 * kernels. Gradients of the weights read what was cast. */
static void eight_bits_cast_what_goes_in(void **state)
{
    static const struct {
        enum pdl_pass pass;
        double items, kernels;
    } cases[] = {{PDL_FORWARD, 8 + 6, 16},
                 {PDL_BACKWARD_DATA, 8 + 12, 16},
                 {PDL_BACKWARD_WEIGHTS, 0, 0}};
    struct bed b;

    (void)state;
    open_bed(&b, MIXTURE("2", "5"), "serial");
    b.o.pe = (struct oracle_pe){.bytes_per_s = RATE,
                                .rate = 1e12,
                                .units = 1,
                                .item_bytes = 2,
                                .launch_s = 1e-6,
                                .flat = true};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int op = experts(&b, cases[i].pass);
        double wide, narrow;

        b.opt.precision = PDL_PREC_BF16;
        wide = oracle_experts_products(&b.o, op, 0);
        b.opt.precision = PDL_PREC_FP8;
        narrow = oracle_experts_products(&b.o, op, 0);
        assert_true(near(narrow, wide + cases[i].kernels * 1e-6 +
                                     30 * cases[i].items * 5 / RATE));
    }
    pdl_arena_destroy(b.a);
}

/* As many FLOPs in more experts are rows of more, smaller tiles. */
static void few_tokens_an_expert_are_slow(void **state)
{
    struct bed many, few;
    double t[2];

    (void)state;
    open_bed(&few,
             "moe:layers=1,hidden=64,heads=2,ffn=64,vocab=16,seq=64,"
             "experts=2,topk=2",
             "serial");
    open_bed(&many,
             "moe:layers=1,hidden=64,heads=2,ffn=64,vocab=16,seq=64,"
             "experts=64,topk=2",
             "serial");
    for (int i = 0; i < 2; i++) {
        struct bed *b = i ? &many : &few;

        b->o.pe = (struct oracle_pe){
            .bytes_per_s = 1e15, .rate = 1e9, .units = 1, .item_bytes = 2};
        t[i] = oracle_experts_products(&b->o, experts(b, PDL_FORWARD), 0);
        pdl_arena_destroy(b->a);
    }
    assert_true(t[0] > 0 && t[1] > 4 * t[0]);
}

/* Other layers, and a processor whose kernels are measured whole. */
static void others_have_nothing_more(void **state)
{
    struct bed b;
    int mine;

    (void)state;
    open_bed(&b, MIXTURE("2", "5"), "serial");
    mine = experts(&b, PDL_FORWARD);
    for (int i = 0; i < b.o.p->nops; i++)
        if (b.o.p->ops[i].node != b.o.p->ops[mine].node)
            assert_true(oracle_experts_more(&b.o, i, 0) == 0 &&
                        oracle_experts_products(&b.o, i, 0) < 0);
    b.o.pe.core = true;
    assert_true(oracle_experts_more(&b.o, mine, 0) == 0);
    assert_true(oracle_experts_products(&b.o, mine, 0) < 0);
    pdl_arena_destroy(b.a);
}

/* The plan has a token travel once to each of the ranks it visits; where it
 * travels once for each expert, 4 visits on 2 ranks are twice as much. */
static void tokens_travel_once_a_visit_or_once_a_rank(void **state)
{
    struct bed b;

    (void)state;
    open_bed(&b, MIXTURE("4", "5"), "serial");
    assert_true(oracle_token_copies(&b.o, 2) == 1); /* no such framework */
    b.opt.framework = &b.framework;
    assert_true(oracle_token_copies(&b.o, 2) == 1);
    b.framework.token_copies = true;
    assert_true(oracle_token_copies(&b.o, 2) == 2);
    assert_true(oracle_token_copies(&b.o, 4) == 1);
    assert_true(oracle_token_copies(&b.o, 8) == 1); /* never less */
    b.opt.parameters = PDL_IDEAL;
    assert_true(oracle_token_copies(&b.o, 2) == 1);
    pdl_arena_destroy(b.a);
    open_bed(&b, "gpt:layers=1,hidden=8,heads=2,vocab=16,seq=5", "serial");
    b.opt.framework = &b.framework;
    b.framework.token_copies = true;
    assert_true(oracle_token_copies(&b.o, 2) == 1); /* no experts */
    pdl_arena_destroy(b.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_activation_is_read_and_written),
        cmocka_unit_test(a_dispatcher_copies_tokens),
        cmocka_unit_test(eight_bits_cast_what_goes_in),
        cmocka_unit_test(few_tokens_an_expert_are_slow),
        cmocka_unit_test(it_grows_with_visits_and_tokens_and_is_shared),
        cmocka_unit_test(others_have_nothing_more),
        cmocka_unit_test(tokens_travel_once_a_visit_or_once_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
