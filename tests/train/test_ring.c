/* Attention to keys that come block by block: the serial result, at any number
 * of ranks, masks and heads; in the memory that the plan says; and blocks that
 * go the wrong way round, or are left out, are found. */
#include "effort.h"
#include "train/train_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char GPT[] = "gpt:layers=2,hidden=12,heads=3,ffn=20,vocab=17,"
                          "seq=12";
static const char LLAMA[] = "llama:layers=2,hidden=16,heads=4,kv_heads=2,"
                            "ffn=12,vocab=11,seq=12";

static const struct pdl_plan *lowered(pdl_arena *a, const struct pdl_model *m,
                                      const char *text, enum pdl_dtype dtype)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {
        .batch = 4, .dtype = dtype, .allow_empty = true};
    const struct pdl_plan *p = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_strategy_parse(a, text, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

static const struct pdl_model *named(pdl_arena *a, const char *name)
{
    const struct pdl_model *m = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_model_load(a, name, NULL, &m, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    return m;
}

static int rotations(const struct pdl_plan *p)
{
    int n = 0;

    for (int i = 0; i < p->nops; i++)
        n += p->ops[i].kind == PDL_PLAN_OP_ROTATE;
    return n;
}

struct how {
    const char *backend;
    enum pdl_dtype dtype;
    double tolerance;
    int fault, fault_op;
};

static const struct how exactly = {"ref", PDL_F64, 1e-12, 0, -1};

static struct pdl_train_diff compared(pdl_arena *a, const struct pdl_model *m,
                                      const char *strategy,
                                      const struct how *how)
{
    struct pdl_train_diff d = {.differs = false};
    struct pdl_err err = {"", ""};
    struct pdl_train_comparison c = {
        .b = lowered(a, m, strategy, how->dtype),
        .opt = {.backend = how->backend, .seed = 5, .poison = true},
        .steps = how->dtype == PDL_F64 ? 2 : 1,
        .lr = 0.05,
        .tolerance = how->tolerance,
        .exact = how->dtype == PDL_F64};
    char serial[64] = "serial";

    if (c.b->micro_batches > 1)
        snprintf(serial, sizeof serial, "accumulate=%d",
                 (int)c.b->micro_batches);
    c.a = lowered(a, m, serial, how->dtype);
    if (train_compare_broken(&c, (enum train_fault)how->fault, how->fault_op,
                             &d, &err) != PDL_OK) {
        if (!how->fault || !strstr(err.msg, "bad number")) /* was seen, too */
            fail_msg("%s: %s", strategy, err.msg);
        d.differs = true;
    }
    assert_true(d.differs || d.compared > 0);
    return d;
}

static struct pdl_train_diff differs(pdl_arena *a, const struct pdl_model *m,
                                     const char *strategy,
                                     const struct how *how)
{
    assert_true(rotations(lowered(a, m, strategy, how->dtype)) > 0);
    return compared(a, m, strategy, how);
}

static void equal(pdl_arena *a, const struct pdl_model *m, const char *strategy,
                  const struct how *how)
{
    struct pdl_train_diff d = differs(a, m, strategy, how);

    if (d.differs)
        fail_msg("%s, %s: rank %d, operation %d (%s): %.17g, not %.17g",
                 m->name, strategy, (int)d.rank, d.op, d.what, d.got, d.want);
}

static void equal_named(const char *model, const char *strategy,
                        const struct how *how)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    equal(a, named(a, model), strategy, how);
    pdl_arena_destroy(a);
}

static void rings_equal_serial_in_float64(void **state)
{
    static const struct {
        const char *model, *strategy;
    } cases[] = {
        {GPT, "context=2"},
        {GPT, "context=3"},
        {GPT, "context=4(plain)"},
        {GPT, "context=5"}, /* blocks of 2 and 3 */
        {GPT, "context=5(plain)"},
        {LLAMA, "context=2"},
        {LLAMA, "context=3"},
        {LLAMA, "context=4"},
        {LLAMA, "context=7"},
        {LLAMA, "context=7(plain)"},
        {LLAMA, "data=2,context=3"},
        {LLAMA, "context=2,tensor=2"},
        {LLAMA, "context=2,tensor=4+seq"}, /* two ranks have the same keys */
        {LLAMA, "context=3,tensor=2+seq,save=gathered"},
        {LLAMA, "data=2,context=2,zero=3"},
        {LLAMA, "context=3,recompute=full"},
        {LLAMA, "context=2,recompute=selective"},
        {LLAMA, "context=2,accumulate=2"},
        {LLAMA, "pipe=2(1f1b,m=2),context=2"},
        {LLAMA, "pipe=2(zb-h1,m=2),context=2,tensor=2"},
        /* a rank without positions */
        {"llama:layers=1,hidden=8,heads=2,ffn=8,vocab=11,seq=3", "context=4"},
        /* nobody masks, distances have a table, decoders look across */
        {"t5:layers=1,hidden=8,heads=4,head_dim=3,ffn=10,vocab=11,seq=6",
         "context=3"},
        {("deepseek:layers=1,dense=1,hidden=8,heads=4,ffn=12,q_lora=6,kv_lora="
          "5,nope=3,rope=2,v_head_dim=3,vocab=11,seq=6"),
         "context=3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0];
         i += (size_t)effort(3, 1, 1))
        equal_named(cases[i].model, cases[i].strategy, &exactly);
}

/* Queries that see only a few keys: some blocks not at all. */
static const struct pdl_model *windowed(pdl_arena *a, bool causal,
                                        int64_t window, double slope)
{
    pdl_build *b = pdl_build_begin(a, "windowed");
    int64_t dim[1] = {11};
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_I64, 1, dim);
    struct pdl_attr attend = {.heads = 2,
                              .kv_heads = 1,
                              .head_dim = 3,
                              .causal = causal,
                              .window = window,
                              .alpha = slope};
    const struct pdl_model *m;
    struct pdl_err err = {"", ""};
    int in[3];

    x = pdl_build_op(b, "embedding", "embed",
                     &(struct pdl_attr){.vocab = 13, .features = 8}, &x, 1);
    in[0] = pdl_build_op(b, "linear", "q", &(struct pdl_attr){.features = 6},
                         &x, 1);
    in[1] = pdl_build_op(b, "linear", "k", &(struct pdl_attr){.features = 3},
                         &x, 1);
    in[2] = pdl_build_op(b, "linear", "v", &(struct pdl_attr){.features = 3},
                         &x, 1);
    x = pdl_build_op(b, "attention", "core", &attend, in, 3);
    pdl_build_op(b, "linear", "head", &(struct pdl_attr){.features = 13}, &x,
                 1);
    if (pdl_build_end(b, &m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void windows_over_a_ring_equal_serial(void **state)
{
    static const struct how fast = {"cpu", PDL_F32, 2e-5, 0, -1};
    static const int64_t windows[] = {0, 1, 2, 4, 7};
    static const char *const strategies[] = {"context=2", "context=3",
                                             "context=4"};

    (void)state;
    for (size_t w = 0; w < 5; w += (size_t)effort(2, 1, 1))
        for (int causal = 0; causal < 2; causal++)
            for (size_t i = 0; i < 3; i++) {
                pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
                const struct pdl_model *m =
                    windowed(a, causal, windows[w], w % 2 ? 2 : 0);

                equal(a, m, strategies[i], &exactly);
                if (train_backend_find("cpu"))
                    equal(a, m, strategies[i], &fast);
                pdl_arena_destroy(a);
            }
}

/* Blocks of 64 queries and more, every backend and type. */
static void rings_equal_serial_in_other_types(void **state)
{
    static const char wide[] = "llama:layers=1,hidden=64,heads=4,kv_heads=2,"
                               "ffn=64,vocab=32,seq=160";
    static const struct how hows[] = {
        {"ref", PDL_F32, 5e-6, 0, -1},
        {"cpu", PDL_F32, 5e-6, 0, -1},
        {"ref", PDL_BF16, 3e-2, 0, -1},
        {"cpu", PDL_BF16, 3e-2, 0, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        if (!train_backend_find(hows[i].backend))
            continue;
        equal_named(wide, "context=2", &hows[i]);
        equal_named(wide, "context=3", &hows[i]);
    }
}

/* Positions in a zigzag where keys are gathered or heads are dealt, with
 * dropout, and where only some layers have a context axis. */
static void other_ways_to_keys_equal_serial(void **state)
{
    static const struct how hows[] = {{"ref", PDL_F64, 1e-12, 0, -1},
                                      {"cpu", PDL_F32, 5e-6, 0, -1},
                                      {"cpu", PDL_BF16, 3e-2, 0, -1}};
    static const char *const strategies[] = {
        "context=2(gather)", "context=3(gather)", "context=4(gather)",
        "context=4(gather,plain)", "context=2(a2a)",
        "context=2(gather),tensor=2+seq", "context=3(gather),recompute=full",
        /* layers that have all positions, out of order */
        "embed.tokens..layers.0.ffn.add: data=4; layers.1.*: context=4; "
        "norm..head: data=4",
        "embed.tokens..layers.0.ffn.add: context=4(gather); "
        "layers.1.attn.norm..head: tensor=4"};

    (void)state;
    for (size_t h = 0; h < 3; h++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_train_diff d;

            if (!train_backend_find(hows[h].backend))
                continue;
            d = compared(a, named(a, LLAMA), strategies[i], &hows[h]);
            if (d.differs)
                fail_msg("%s: rank %d, operation %d (%s): %.17g, not %.17g",
                         strategies[i], (int)d.rank, d.op, d.what, d.got,
                         d.want);
            pdl_arena_destroy(a);
        }
}

/* Distances that heads weigh (ALiBi), by positions that are out of order and
 * by heads that others have. */
static void slopes_without_a_ring_equal_serial(void **state)
{
    static const struct how hows[] = {{"ref", PDL_F64, 1e-12, 0, -1},
                                      {"cpu", PDL_F32, 5e-6, 0, -1},
                                      {"cpu", PDL_BF16, 3e-2, 0, -1}};
    static const char *const strategies[] = {
        "context=2(gather)", "context=3(gather)", "tensor=2", "data=2"};

    (void)state;
    for (size_t h = 0; h < 3; h++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_train_diff d = {.differs = false};

            if (train_backend_find(hows[h].backend))
                d = compared(a, windowed(a, true, 0, 2), strategies[i],
                             &hows[h]);
            if (d.differs)
                fail_msg("%s: rank %d, operation %d (%s): %.17g, not %.17g",
                         strategies[i], (int)d.rank, d.op, d.what, d.got,
                         d.want);
            pdl_arena_destroy(a);
        }
}

/* ---- mutations -------------------------------------------------------------- */

/* The two runs of positions of each rank in the other order. */
static void runs_that_change_places_are_caught(void **state)
{
    static const char *const strategies[] = {"context=2", "context=3",
                                             "context=4", "context=2(gather)",
                                             "data=2,context=2,tensor=2"};

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct how how = exactly;

        how.fault = TRAIN_FAULT_DEAL;
        if (!compared(a, named(a, LLAMA), strategies[i], &how).differs)
            fail_msg("%s: runs changed places and nobody saw it",
                     strategies[i]);
        pdl_arena_destroy(a);
    }
}

/* Each attention that has a ring, broken one at a time. */
static void mutate(const char *strategy, int fault, int at_least)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = named(a, LLAMA);
    const struct pdl_plan *p = lowered(a, m, strategy, PDL_F64);
    int broken = 0, last = -1;

    for (int i = 0; i < p->nops; i++) {
        struct how how = exactly;
        int x = pdl_plan_rotates_for(p, i);

        if (p->ops[i].kind != PDL_PLAN_OP_ROTATE || x == last)
            continue;
        last = x;
        broken++;
        how.fault = fault;
        how.fault_op = x;
        if (!differs(a, m, strategy, &how).differs)
            fail_msg("%s: operation %d was broken and nobody saw it", strategy,
                     x);
    }
    assert_true(broken >= at_least);
    pdl_arena_destroy(a);
}

static void blocks_that_go_the_wrong_way_are_caught(void **state)
{
    (void)state;
    mutate("context=3", TRAIN_FAULT_TURN_BACK, 4);
    mutate("context=4,tensor=2", TRAIN_FAULT_TURN_BACK, 4);
}

static void a_block_left_out_is_caught(void **state)
{
    (void)state;
    mutate("context=2", TRAIN_FAULT_DROP_BLOCK, 4);
    mutate("context=3", TRAIN_FAULT_DROP_BLOCK, 4);
}

static void blocks_that_stay_are_caught(void **state)
{
    (void)state;
    mutate("context=3", TRAIN_FAULT_KEEP_BLOCK, 4);
}

/* ---- memory ------------------------------------------------------------------ */

struct seen {
    const struct pdl_plan *plan;
    int turning;
    int64_t live[8];
};

/* What turns has the memory that the plan gives it, to the byte. */
static enum pdl_status measure(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct seen *s = ctx;
    struct pdl_train_options opt = {.optimizer = "sgd"};
    int me = pdl_comm_rank(comm);
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(s->plan, comm, &opt, &t, err);

    for (int i = 0; i < s->plan->ntensors && st == PDL_OK; i++) {
        int64_t said = pdl_plan_elements(s->plan, i, me) *
                       pdl_dtype_bits(s->plan->tensors[i].dtype) / 8;

        if (!train_turns(t, i))
            continue;
        if (me == 0) /* others write nothing there */
            s->turning++;
        if (train_array_bytes(&t->arrays[i]) != said)
            st = pdl_fail(err, PDL_EWRONG, "%s: %lld bytes, not %lld",
                          s->plan->tensors[i].name,
                          (long long)train_array_bytes(&t->arrays[i]),
                          (long long)said);
    }
    if (st == PDL_OK)
        s->live[me] = t->sizes.live;
    pdl_trainer_close(t);
    return st;
}

static int64_t most_live(pdl_arena *a, const char *strategy, int turning)
{
    struct seen s = {
        .plan = lowered(
            a,
            named(a, "llama:layers=1,hidden=32,heads=4,kv_heads=4,ffn=16,"
                     "vocab=8,seq=256"),
            strategy, PDL_F32)};
    struct pdl_err err = {"", ""};

    if (pdl_train_virtual((int)s.plan->mesh->pes, 60, measure, &s, &err) !=
        PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    assert_int_equal(s.turning, turning);
    return s.live[0];
}

static void a_ring_has_two_blocks_in_memory(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int64_t ring = most_live(a, "context=8", 6); /* K,V; K,V and gradients */
    int64_t all = most_live(a, "context=8(gather)", 0);

    (void)state;
    print_message("8 ranks: %lld bytes, with all keys %lld\n", (long long)ring,
                  (long long)all);
    assert_true(ring < all);
    most_live(a, "context=2", 6);
    most_live(a, "context=4,tensor=2", 6);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_equal_serial_in_float64),
        cmocka_unit_test(windows_over_a_ring_equal_serial),
        cmocka_unit_test(rings_equal_serial_in_other_types),
        cmocka_unit_test(other_ways_to_keys_equal_serial),
        cmocka_unit_test(slopes_without_a_ring_equal_serial),
        cmocka_unit_test(runs_that_change_places_are_caught),
        cmocka_unit_test(blocks_that_go_the_wrong_way_are_caught),
        cmocka_unit_test(a_block_left_out_is_caught),
        cmocka_unit_test(blocks_that_stay_are_caught),
        cmocka_unit_test(a_ring_has_two_blocks_in_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
