/* Ring attention: blocks of keys and values go from rank to rank, two at a
 * time; what comes out is that of the unsharded network, and what is left out,
 * taken from elsewhere or read too late is found. */
#include "paradl/plan.h"
#include "mutant.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char llama[] = "llama:layers=2,hidden=8,heads=4,kv_heads=2,"
                            "head_dim=2,ffn=8,vocab=16,seq=8";
static const char gpt[] = "gpt:layers=1,hidden=8,heads=4,vocab=11,positions=8,"
                          "seq=7";

static const struct pdl_plan *lowered(pdl_arena *a, const char *model,
                                      const char *strategy)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 4};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;

    if (pdl_zoo_build(a, model, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    return p;
}

static int count(const struct pdl_plan *p, enum pdl_plan_op_kind kind)
{
    int n = 0;

    for (int i = 0; i < p->nops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

/* The first rotation of a pass; home: of gradients. */
static int rotation(const struct pdl_plan *p, enum pdl_pass pass, bool home)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_ROTATE && p->ops[i].pass == pass &&
            (p->tensors[p->ops[i].in[0]].of > 0) == home)
            return i;
    fail_msg("no rotation");
    return -1;
}

static void keys_and_values_turn_together(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lowered(a, llama, "context=4");
    const struct pdl_plan *g = lowered(a, llama, "context=4(gather)");
    int i = rotation(p, PDL_FORWARD, false), k = p->ops[i].out[0];

    (void)state;
    /* of each layer: forward, backward, and the gradients' way home */
    assert_int_equal(count(p, PDL_PLAN_OP_ROTATE), 2 * 3);
    assert_int_equal(count(p, PDL_PLAN_OP_ALLGATHER), 0);
    assert_int_equal(count(p, PDL_PLAN_OP_REDUCE_SCATTER), 0);
    assert_int_equal(count(g, PDL_PLAN_OP_ROTATE), 0);
    assert_int_equal(count(g, PDL_PLAN_OP_ALLGATHER), 2 * 4);
    assert_int_equal(p->ops[i].nin, 2);
    /* two blocks of the four */
    assert_int_equal(pdl_plan_elements(p, k, 0),
                     2 * pdl_plan_elements(p, p->ops[i].in[0], 0));
    assert_int_equal(pdl_plan_rotates_for(p, i),
                     p->forward_op[p->ops[pdl_plan_rotates_for(p, i)].node]);
    pdl_arena_destroy(a);
}

static void rings_are_proved(void **state)
{
    static const char *const strategies[] = {
        "context=2",
        "context=3",
        "context=7(plain)",
        "context=4(gather)",
        "context=2(gather),save=gathered",
        "context=2,save=gathered",
        "data=2,context=2,zero=3",
        "context=2,tensor=2",
        "context=2,tensor=4+seq",
        "context=3,tensor=2+seq,save=gathered",
        "context=2,recompute=full",
        "context=2,recompute=selective",
        "context=2,recompute=selective-op",
        "context=2,offload=activations",
        "pipe=2(1f1b,m=2),context=2",
        "pipe=2(zb-h1,m=2),context=2,tensor=2",
    };
    static const char *const models[] = {llama, gpt};

    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            const struct pdl_plan *p = lowered(a, models[m], strategies[i]);
            struct pdl_err err = {"", ""};

            if (pdl_plan_check(p, &err) != PDL_OK ||
                pdl_plan_prove(p, 7, &err) != PDL_OK)
                fail_msg("%s: %s", strategies[i], err.msg);
            pdl_arena_destroy(a);
        }
}

static void a_ring_can_be_written_and_read(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lowered(a, llama, "context=4,recompute=full");
    struct pdl_plan_head head = {.model = llama};
    const struct pdl_plan *q;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;

    (void)state;
    pdl_buf_init(&text);
    pdl_plan_print(p, &head, &text.sink);
    if (pdl_plan_parse(a, (struct pdl_bytes){text.text, text.len}, "ring.plan",
                       NULL, &head, &q, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_true(pdl_plan_equal(p, q));
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
}

/* ---- mutations -------------------------------------------------------------- */

/* All readers of `from` after operation i read `to`. */
static void read_instead(pdl_arena *a, struct mutant *m, int i, int from,
                         int to)
{
    for (int k = i + 1; k < m->p.nops; k++) {
        struct pdl_plan_op *o = &m->ops[k];
        int *in = PDL_NEW(a, int, o->nin + 1);

        for (int j = 0; j < o->nin; j++)
            in[j] =
                o->in[j] == from && o->kind != PDL_PLAN_OP_FREE ? to : o->in[j];
        o->in = in;
    }
}

/* Attention meets the keys at hand only. */
static void skip_the_rotation(pdl_arena *a, struct mutant *m)
{
    int i = rotation(&m->p, PDL_FORWARD, false);

    read_instead(a, m, i, m->ops[i].out[0], m->ops[i].in[0]);
    read_instead(a, m, i, m->ops[i].out[1], m->ops[i].in[1]);
}

/* Of keys and values, which have one shape. */
static void swap_two_blocks(pdl_arena *a, struct mutant *m)
{
    int i = rotation(&m->p, PDL_FORWARD, false);
    int *in = PDL_NEW(a, int, 2);

    in[0] = m->ops[i].in[1];
    in[1] = m->ops[i].in[0];
    m->ops[i].in = in;
}

/* Gradients of blocks are brought home, but not added up. */
static void do_not_add_gradients(pdl_arena *a, struct mutant *m)
{
    int i = rotation(&m->p, PDL_BACKWARD_DATA, true);

    (void)a;
    for (int k = 0; k < m->ops[i].nin; k++) {
        m->tensors[m->ops[i].in[k]].some = m->tensors[m->ops[i].in[k]].of = 0;
        m->tensors[m->ops[i].in[k]].place.at[0] = PDL_REPLICATED;
    }
    m->ops[i].kind = PDL_PLAN_OP_SLICE;
    m->ops[i].group = 0;
    m->ops[i].pass = PDL_FORWARD;
}

static void turn_another_ring(pdl_arena *a, struct mutant *m)
{
    (void)a;
    m->ops[rotation(&m->p, PDL_FORWARD, false)].group = 2;
}

static void wrong_rings_are_found(void **state)
{
    static const struct {
        void (*apply)(pdl_arena *, struct mutant *);
        bool exact; /* the executor finds it by itself */
    } mutations[] = {{skip_the_rotation, true},
                     {swap_two_blocks, true},
                     {do_not_add_gradients, true},
                     {turn_another_ring, true}};

    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_plan *p = lowered(a, llama, "context=2,tensor=2");
        struct mutant m = copy(a, p);
        struct pdl_err err = {"", ""};

        mutations[i].apply(a, &m);
        if (pdl_plan_check(&m.p, &err) != PDL_EWRONG)
            fail_msg("mutation %d: the checker accepts it", (int)i);
        if (mutations[i].exact && pdl_plan_prove(&m.p, 7, &err) != PDL_EWRONG)
            fail_msg("mutation %d: it is equal", (int)i);
        pdl_arena_destroy(a);
    }
}

/* The executor has whole tensors, so only the checker can know: backward must
 * not read the blocks of forward, which have passed by. */
static void blocks_that_have_passed_by_are_not_read(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lowered(a, llama, "context=2");
    struct mutant m = copy(a, p);
    struct pdl_err err = {"", ""};
    int f = rotation(p, PDL_FORWARD, false), last = -1, n = 0;

    (void)state;
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_ROTATE &&
            p->ops[i].in[0] == p->ops[f].in[0])
            last = i;
    assert_true(last > f);
    /* backward reads forward's blocks, and the two are freed in exchange */
    for (int i = 0; i < p->nops; i++) {
        struct pdl_plan_op *o = &m.ops[i];
        int *in = PDL_NEW(a, int, o->nin + 1);

        for (int k = 0; k < o->nin; k++)
            in[k] =
                i > last && o->in[k] == p->ops[last].out[1] ? p->ops[f].out[1]
                : o->kind == PDL_PLAN_OP_FREE && o->in[k] == p->ops[f].out[1]
                    ? -1
                    : o->in[k];
        o->in = in;
        for (int k = 0; k < o->nin; k++)
            if (in[k] < 0) { /* freed later instead */
                in[k] = in[--o->nin];
                n++;
            }
    }
    assert_int_equal(n, 1);
    assert_int_equal(pdl_plan_check(&m.p, &err), PDL_EWRONG);
    if (!strstr(err.msg, "passed by"))
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_values_turn_together),
        cmocka_unit_test(rings_are_proved),
        cmocka_unit_test(a_ring_can_be_written_and_read),
        cmocka_unit_test(wrong_rings_are_found),
        cmocka_unit_test(blocks_that_have_passed_by_are_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
