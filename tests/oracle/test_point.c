/* Points priced from blocks, and rolled plans, equal plans that are written out,
 * figure by figure. */
#include "effort.h"
#include "figures.h"
#include "oracle/search/point.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct question {
    const char *model, *system, *framework;
    int64_t pes, batch;
    enum pdl_precision precision;
    int gradient_bytes;
    bool unfused;
    double dropout;
    enum pdl_parameters parameters;
    int64_t experts; /* the most ranks of their axis */
};

static const struct question questions[] = {
    {"gpt3-175b", "dgx-a100", NULL, 512, 1536, PDL_PREC_BF16, 0, false, 0,
     PDL_EMPIRICAL, 1},
    {"gpt3-175b", "dgx-a100", "megatron", 1024, 1536, PDL_PREC_BF16, 4, false,
     .1, PDL_EMPIRICAL, 1},
    {"gpt:layers=11,hidden=1024,heads=16,ffn=4096,vocab=50257,seq=512",
     "abci-v100", NULL, 64, 96, PDL_PREC_FP16, 0, true, .1, PDL_EMPIRICAL, 1},
    {"gpt:layers=7,hidden=768,heads=12,ffn=3072,vocab=50257,seq=128",
     "dgx-a100", "megatron-deepspeed", 32, 64, PDL_PREC_BF16, 4, true, .1,
     PDL_EMPIRICAL, 1},
    {"llama-3-70b", "dgx-h100", NULL, 256, 256, PDL_PREC_BF16, 0, false, 0,
     PDL_EMPIRICAL, 1},
    {"llama3-8b", "dgx-h100", "torchtitan", 128, 256, PDL_PREC_FP8, 4, false, 0,
     PDL_EMPIRICAL, 1},
    {"mixtral-8x7b:layers=10", "jean-zay-a100", NULL, 96, 192, PDL_PREC_BF16, 0,
     false, 0, PDL_EMPIRICAL, 8},
    {"gpt:layers=12,hidden=2048,heads=32,ffn=8192,vocab=32000,seq=1024,tied=0",
     "perlmutter", "pytorch", 48, 144, PDL_PREC_BF16, 0, false, 0,
     PDL_EMPIRICAL, 1},
    {"gpt:layers=8,hidden=512,heads=8,ffn=2048,vocab=1000,seq=256", "abci-v100",
     NULL, 32, 64, PDL_PREC_FP32, 0, false, 0, PDL_IDEAL, 1},
};
enum { NQUESTIONS = sizeof questions / sizeof questions[0] };

struct asked {
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct oracle_family family;
};

static bool ask(pdl_arena *a, const struct question *q, struct asked *x)
{
    struct pdl_plan_options po = {.batch = q->batch, .dtype = PDL_BF16};

    x->oracle = (struct pdl_oracle_options){
        .precision = q->precision,
        .optimizer_slots = 2,
        .unfused = q->unfused,
        .dropout = q->dropout,
        .async_tensor = q->precision == PDL_PREC_FP8,
        .gradient_bytes = q->gradient_bytes,
        .parameters = q->parameters};
    if (q->framework) {
        assert_int_equal(
            pdl_framework_open(a, q->framework, &x->oracle.framework, NULL),
            PDL_OK);
        po.split = pdl_framework_split(x->oracle.framework);
    }
    assert_int_equal(pdl_model_load(a, q->model, NULL, &x->model, NULL),
                     PDL_OK);
    assert_int_equal(pdl_system_open(a, q->system, &x->sys, NULL), PDL_OK);
    assert_int_equal(pdl_system_for_pes(a, &x->sys, q->pes, NULL), PDL_OK);
    return oracle_family_make(x->model, &x->sys, &x->oracle, &po, &x->family);
}

/* ---- random points --------------------------------------------------------------- */

static uint64_t seed;

static int64_t draw(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t divisor(int64_t n, int64_t most)
{
    int64_t d[256];
    int k = 0;

    for (int64_t i = 1; i <= n && i <= most && k < 256; i++)
        if (n % i == 0)
            d[k++] = i;
    return d[draw(k)];
}

/* Tensor is innermost, as in the search; the rest in any order. */
static uint32_t random_order(void)
{
    uint32_t order = 0;
    unsigned used = 0;

    for (int n = 0; n < PDL_AXIS_CONTEXT + 1;) {
        int64_t axis = draw(PDL_AXIS_CONTEXT + 1);

        if (used >> axis & 1)
            continue;
        used |= 1u << axis;
        order |= ((uint32_t)axis + 1) << (4 * n++);
    }
    return order;
}

/* Meshes of one tensor and seq share their small plans. */
static void random_mesh(const struct question *q, const struct asked *x,
                        struct oracle_point *p, bool again)
{
    struct oracle_point before = *p;
    int64_t rest;
    int tries = 0;

    do {
        if (again && tries++ == 200) {
            *p = before; /* no other has such groups */
            return;
        }
        if (!again) {
            *p = (struct oracle_point){.tensor = divisor(q->pes, 16)};
            p->seq = p->tensor > 1 && draw(2);
            p->expert = divisor(q->pes / p->tensor, q->experts);
            rest = q->pes / p->tensor / p->expert;
            p->context = draw(2) ? 1 : divisor(rest, 8);
            p->a2a = p->context > 1 && draw(2);
            p->group = draw(3) ? 0 : divisor(rest / p->context, 8);
            p->group = p->group > 1 ? p->group : 0;
            p->order = draw(2) ? 0 : random_order();
        }
        rest = q->pes / p->tensor / p->expert / p->context;
        p->pipe = divisor(rest, x->family.layers);
        p->data = rest / p->pipe;
    } while (
        q->batch % oracle_point_replicas(p) != 0 ||
        (p->group > 0 && (p->data % p->group != 0 || p->data == p->group)));
}

static void random_rest(const struct question *q, const struct asked *x,
                        struct oracle_point *p)
{
    /* selective-op counts products across blocks: those are not alike */
    static const enum pdl_recompute recompute[] = {
        PDL_RECOMPUTE_NONE, PDL_RECOMPUTE_SELECTIVE, PDL_RECOMPUTE_FULL};
    int64_t each = q->batch / oracle_point_replicas(p);
    int64_t most = x->family.layers / p->pipe, m;

    p->micro = divisor(each, 16);
    m = each / p->micro;
    p->chunks =
        p->pipe > 1 && m % p->pipe == 0 && most > 1 ? 1 + draw(most) : 1;
    p->recompute = recompute[draw(3)];
    p->zero = oracle_point_copies(p) > 1 ? (int)draw(4) : 0;
    p->no_overlap = draw(3) == 0;
    p->optimizer = draw(3) == 0;
    p->activations = draw(3) == 0;
    p->bubble = 0;
    if (p->pipe > 1 && p->chunks == 1)
        p->bubble = (int)draw(2 * p->pipe <= x->family.layers ? 4 : 3);
}

/* ---- against the lowered plan ------------------------------------------------------- */

/* Written out, or rolled where its blocks are alike (1: they are). */
static enum pdl_status in_full(const struct asked *x,
                               const struct oracle_point *p, bool rolled,
                               struct pdl_projection *out, int *rolls)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *plan;
    struct pdl_strategy s;
    enum pdl_status st;

    oracle_point_strategy(&x->family, p, &s);
    st = (rolled ? pdl_plan_lower_rolled : pdl_plan_lower)(
        a, x->model, &s, &x->family.plan, &plan, NULL);
    if (st == PDL_OK)
        st = pdl_project(plan, &x->sys, &x->oracle, out, NULL);
    *rolls += st == PDL_OK && plan->roll;
    pdl_arena_destroy(a);
    return st;
}

static void say(const struct asked *x, const struct oracle_point *p,
                const char *what, const struct pdl_projection *a,
                const struct pdl_projection *b)
{
    struct pdl_strategy s;
    struct pdl_buf text;

    oracle_point_strategy(&x->family, p, &s);
    pdl_buf_init(&text);
    pdl_strategy_print(&s, &text.sink);
    print_message("%s %s: %s differs: step %.12g %.12g allocated %lld %lld "
                  "exposed %.12g %.12g act %lld %lld\n",
                  x->model->name, text.text, what, a->step_s, b->step_s,
                  (long long)a->allocated_bytes, (long long)b->allocated_bytes,
                  a->exposed_comm_s, b->exposed_comm_s,
                  (long long)a->activations_bytes,
                  (long long)b->activations_bytes);
    pdl_buf_free(&text);
}

/* Points that were priced, by what they choose. */
static struct {
    int all, expert, ring, a2a, zero[4], bubble[4], activations, group, mostly,
        rolled;
} priced;

static void count_priced(const struct oracle_point *p)
{
    priced.all++;
    priced.expert += p->expert > 1;
    priced.ring += p->context > 1 && !p->a2a;
    priced.a2a += p->context > 1 && p->a2a;
    priced.zero[p->zero]++;
    priced.group += p->group > 0 && p->zero > 0;
    priced.bubble[p->bubble]++;
    priced.activations += p->activations;
}

static int try_point(const struct asked *x, struct oracle_pricer *c,
                     const struct oracle_point *p)
{
    struct pdl_projection mine = {0}, full = {0}, alone = {0}, rolled = {0};
    struct pdl_err err = {"", ""};
    struct oracle_point base = *p;
    double least = 0, base_s = 0;
    enum pdl_status st;
    enum pdl_status want = in_full(x, p, false, &full, &priced.rolled);
    const char *what = "the answer";

    if (in_full(x, p, true, &rolled, &priced.rolled) != want ||
        (want == PDL_OK && (what = differs(&rolled, &full)))) {
        say(x, p, what, &rolled, &full);
        print_message("    of the rolled plan\n");
        every(&rolled, &full);
        return 1;
    }
    what = "the answer";

    base.recompute = PDL_RECOMPUTE_NONE; /* the same, with more memory */
    base.activations = false;
    base.zero = 0;
    st = oracle_point_floor(c, &base, &base_s, &err);
    if (st == PDL_OK)
        st = oracle_point_floor(c, p, &least, &err);
    if (st == PDL_OK)
        st = oracle_point_least_bytes(c, p, &alone, &err);
    if (st == PDL_OK)
        st = oracle_point_price(c, p, &mine, &err);

    if (st == PDL_OK && want == PDL_OK) {
        what = differs(&mine, &full);
        count_priced(p);
        if (!what && !(least > 0 && least * (1 - 1e-9) <= full.step_s))
            what = "what no step is shorter than";
        if (!what && base_s * (1 - 1e-9) > full.step_s)
            what = "what no step with less memory is shorter than";
        if (!what && (alone.allocated_bytes > full.allocated_bytes ||
                      alone.host_bytes > full.host_bytes))
            what = "what no sharding helps";
        priced.mostly += 2 * alone.allocated_bytes > full.allocated_bytes;
    }
    if ((st == PDL_OK) == (want == PDL_OK) && (st != PDL_OK || !what))
        return 0;
    say(x, p, what, &mine, &full);
    print_message("    %d %d %s\n", st, want, err.msg);
    every(&mine, &full);
    return 1;
}

static int try_meshes(const struct question *q, const struct asked *x, int n)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct oracle_block_plans *forms = NULL;
    struct oracle_point p = {.tensor = 0};
    int wrong = 0;

    for (int k = 0; k < 3; k++) {
        struct oracle_pricer *c;

        random_mesh(q, x, &p, k > 0);
        if (k == 0)
            forms = oracle_block_plans_make(a, scratch, &x->family, &p);
        assert_non_null(forms);
        c = oracle_pricer_make(a, forms, &x->family, &p);
        assert_non_null(c);
        for (int i = 0; i < n; i++) {
            random_rest(q, x, &p);
            wrong += try_point(x, c, &p);
        }
    }
    pdl_arena_destroy(scratch);
    pdl_arena_destroy(a);
    return wrong;
}

static void composed_plans_equal_lowered_ones(void **state)
{
    int meshes = effort(1, 3, 20), points = effort(3, 5, 12), wrong = 0;

    (void)state;
    seed = 1;
    for (int i = 0; i < NQUESTIONS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct asked x = {.model = NULL};

        assert_true(ask(a, &questions[i], &x));
        for (int k = 0; k < meshes; k++)
            wrong += try_meshes(&questions[i], &x, points);
        pdl_arena_destroy(a);
    }
    print_message("%d points: expert %d, ring %d, a2a %d, zero %d %d %d %d, "
                  "zb %d %d %d, activations %d, zero=3:N %d; most of the bytes "
                  "whatever is sharded: %d; rolled plans: %d\n",
                  priced.all, priced.expert, priced.ring, priced.a2a,
                  priced.zero[0], priced.zero[1], priced.zero[2],
                  priced.zero[3], priced.bubble[1], priced.bubble[2],
                  priced.bubble[3], priced.activations, priced.group,
                  priced.mostly, priced.rolled);
    assert_int_equal(wrong, 0);
    if (!effort(0, 1, 1)) /* too few to meet every axis */
        return;
    assert_true(priced.expert > 10 && priced.ring > 10 && priced.a2a > 10);
    assert_true(priced.zero[2] > 30 && priced.zero[3] > 30);
    assert_true(priced.mostly > 10);
    assert_true(priced.rolled > 50);
}

/* Where backward is two tasks, some gradients are made in the first and
 * scattered in the second, in stages of one, two and three blocks. */
static void scatters_wait_for_their_gradients(void **state)
{
    const struct question *q = &questions[3]; /* seven blocks on 32 PEs */
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct oracle_block_plans *forms = NULL;
    struct asked x = {.model = NULL};
    int wrong = 0;

    (void)state;
    assert_true(ask(a, q, &x));
    for (int i = 0; i < 2 * 3 * 2; i++) {
        struct oracle_point p = {.tensor = 1,
                                 .expert = 1,
                                 .context = 1,
                                 .chunks = 1,
                                 .micro = 2,
                                 .pipe = 2 << i / 6,
                                 .data = 16 >> i / 6,
                                 .bubble = 1 + i / 2 % 3,
                                 .zero = 2 + i % 2};
        struct oracle_pricer *c;

        if (p.bubble == ORACLE_BUBBLE_V && 2 * p.pipe > x.family.layers)
            continue;
        if (!forms)
            forms = oracle_block_plans_make(a, scratch, &x.family, &p);
        assert_non_null(forms);
        c = oracle_pricer_make(a, forms, &x.family, &p);
        assert_non_null(c);
        wrong += try_point(&x, c, &p);
    }
    assert_int_equal(wrong, 0);
    pdl_arena_destroy(scratch);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composed_plans_equal_lowered_ones),
        cmocka_unit_test(scatters_wait_for_their_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
