/* Rolled plans: unrolled they are what lowering makes of all blocks, byte for
 * byte; where blocks differ nothing is rolled; and the work of lowering one
 * does not grow with the blocks. */
#include "random_plan.h"
#include "effort.h"

static char *text_of(const struct pdl_plan *p)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_plan_print(p, NULL, &b.sink);
    assert_false(b.sink.failed);
    return b.text;
}

static void say_where(const char *what, const char *a, const char *b)
{
    size_t i = 0, line = 0;

    for (; a[i] && a[i] == b[i]; i++)
        line = a[i] == '\n' ? i + 1 : line;
    fail_msg("%s:\n  rolled    %.*s\n  lowered   %.*s", what,
             (int)strcspn(a + line, "\n"), a + line,
             (int)strcspn(b + line, "\n"), b + line);
}

static enum pdl_status same_model(void *ctx, pdl_arena *a,
                                  const struct pdl_plan_head *head,
                                  const struct pdl_model **out,
                                  struct pdl_err *err)
{
    (void)a, (void)head, (void)err;
    *out = ctx;
    return PDL_OK;
}

static enum pdl_status parse(pdl_arena *a, const char *text,
                             const struct pdl_model *m,
                             const struct pdl_plan **out, struct pdl_err *err)
{
    struct pdl_plan_loader l = {same_model, (void *)(uintptr_t)m};
    struct pdl_plan_head head;

    return pdl_plan_parse(a, (struct pdl_bytes){text, strlen(text)}, "p.plan",
                          &l, &head, out, err);
}

static void read_back(pdl_arena *a, const struct pdl_plan *p,
                      const struct pdl_model *m, const char *what)
{
    char *text = text_of(p), *again;
    const struct pdl_plan *q = NULL;
    struct pdl_err err = {"", ""};

    if (parse(a, text, m, &q, &err) != PDL_OK)
        fail_msg("%s: %s", what, err.msg);
    assert_true(pdl_plan_equal(p, q));
    again = text_of(q);
    assert_string_equal(text, again);
    free(text);
    free(again);
}

/* 1: rolled, 0: written out. */
static int compare(pdl_arena *a, const struct plan_triple *x, const char *what)
{
    struct pdl_err err = {"", ""}, other = {"", ""};
    const struct pdl_plan *rolled = NULL, *whole = NULL, *lowered = NULL;
    enum pdl_status st =
        pdl_plan_lower(a, x->model, x->strategy, &x->opt, &lowered, &err);
    char *p, *q;

    if (pdl_plan_lower_rolled(a, x->model, x->strategy, &x->opt, &rolled,
                              &other) != st)
        fail_msg("%s: '%s', rolled '%s'", what, err.msg, other.msg);
    if (st != PDL_OK) {
        assert_string_equal(err.msg, other.msg);
        return 0;
    }
    if (rolled->roll)
        read_back(a, rolled, x->model, what);
    if (pdl_plan_unroll(a, rolled, &whole, &err) != PDL_OK)
        fail_msg("%s: %s", what, err.msg);
    p = text_of(whole);
    q = text_of(lowered);
    if (strcmp(p, q) != 0)
        say_where(what, p, q);
    assert_true(pdl_plan_equal(whole, lowered));
    free(p);
    free(q);
    return rolled->roll != NULL;
}

static void random_plans_unroll_to_what_is_lowered(void **state)
{
    int rolled = 0, n = effort(60, 250, 4000);

    (void)state;
    least_layers = 1;
    most_layers = 15;
    for (int i = 0; i < n; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err;
        struct plan_triple x;
        char what[900];

        if (random_plan_triple(a, (uint64_t)(4 * i), &x, what, sizeof what,
                               &err))
            rolled += compare(a, &x, what);
        pdl_arena_destroy(a);
    }
    print_message("%d of %d rolled\n", rolled, n);
    assert_true(rolled > n / 8);
}

static void networks_unroll_to_what_is_lowered(void **state)
{
    static const struct {
        const char *model, *strategy;
        int64_t batch;
        bool rolled;
    } rows[] = {
        {"gpt2:layers=16", "data=4", 8, true},
        {"gpt2:layers=16", "data=4,bucket=1GiB", 8, true},
        {"gpt2:layers=40", "data=4,bucket=80MiB", 8, true},
        {"gpt2:layers=16", "pipe=2(1f1b,m=4),data=2,zero=1", 8, true},
        {"gpt2:layers=22", "pipe=2(zb-h1,m=4),data=2", 8, true},
        {"gpt2:layers=24", "pipe=2(interleaved,m=4,v=2),tensor=2", 8, true},
        {"llama2-7b", "data=2,tensor=4+seq,zero=3,recompute=full", 8, true},
        {"llama2-7b", "tensor=2,recompute=selective-op,offload=activations", 8,
         true},
        {"gpt2:layers=16", "data=4,offload=optimizer", 8, true},
        /* more operations than any block has lie between the uses of a tied
         * embedding */
        {"gpt:layers=200,hidden=4,heads=2,vocab=5,positions=4,seq=3,tied=1",
         "data=2,zero=3", 8, true},
        {"gpt2:layers=16", "*: data=4; h.3.*: recompute=full", 8, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_strategy s;
        struct plan_triple x = {.strategy = &s,
                                .opt = {.batch = rows[i].batch}};
        char what[200];

        snprintf(what, sizeof what, "%s %s", rows[i].model, rows[i].strategy);
        if (pdl_zoo_build(a, rows[i].model, &x.model, &err) != PDL_OK ||
            pdl_strategy_parse(a, rows[i].strategy, &s, &err) != PDL_OK)
            fail_msg("%s: %s", what, err.msg);
        if (compare(a, &x, what) != rows[i].rolled)
            fail_msg("%s: %s", what,
                     rows[i].rolled ? "is not rolled" : "is rolled");
        pdl_arena_destroy(a);
    }
}

static const struct pdl_plan *rolled_gpt(pdl_arena *a, int layers,
                                         struct pdl_strategy *s)
{
    struct pdl_plan_options opt = {.batch = 8};
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;
    char text[120];

    snprintf(text, sizeof text,
             "gpt:layers=%d,hidden=4,heads=2,vocab=5,positions=4,seq=3",
             layers);
    if (pdl_zoo_build(a, text, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, "data=2,zero=1", s, &err) != PDL_OK ||
        pdl_plan_lower_rolled(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    assert_non_null(p->roll);
    return p;
}

static void more_blocks_are_not_more_work(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    const struct pdl_plan *few = rolled_gpt(a, 12, &s);
    size_t used = pdl_arena_used(a);
    const struct pdl_plan *many = rolled_gpt(a, 200, &s);

    (void)state;
    assert_int_equal(few->nops, many->nops);
    assert_int_equal(few->ntensors, many->ntensors);
    assert_true(pdl_arena_used(a) < 2 * used + 65536);
    pdl_arena_destroy(a);
}

/* A network of so many blocks, of 16-bit weights; small buckets are full after
 * some blocks, others never. */
static const struct pdl_plan *lower_gpt(pdl_arena *a, int64_t layers,
                                        const char *strategy, bool rolled)
{
    struct pdl_plan_options opt = {
        .batch = 24, .dtype = PDL_BF16, .split = PDL_SPLIT_BLOCKS};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_model *named = PDL_NEW(a, struct pdl_model, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;
    char text[120];

    snprintf(text, sizeof text,
             "gpt:layers=%lld,hidden=8,heads=2,vocab=5,positions=4,seq=3",
             (long long)layers);
    if (pdl_zoo_build(a, text, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK)
        fail_msg("%s, %s: %s", text, strategy, err.msg);
    *named = *m;
    named->name = "gpt"; /* however many layers */
    if ((rolled ? pdl_plan_lower_rolled : pdl_plan_lower)(a, named, s, &opt, &p,
                                                          &err) != PDL_OK)
        fail_msg("%s, %s: %s", text, strategy, err.msg);
    return p;
}

/* The same with the names of another plan. */
static const struct pdl_plan *renamed(pdl_arena *a, const struct pdl_plan *p,
                                      const struct pdl_plan *names)
{
    struct pdl_plan *q = PDL_NEW(a, struct pdl_plan, 1);
    struct pdl_plan_tensor *t =
        PDL_NEW(a, struct pdl_plan_tensor, p->ntensors + 1);

    assert_int_equal(p->ntensors, names->ntensors);
    memcpy(t, p->tensors, (size_t)p->ntensors * sizeof *t);
    for (int i = 0; i < p->ntensors; i++)
        t[i].name = names->tensors[i].name;
    *q = *p;
    q->tensors = t;
    return q;
}

/* 1: it was stretched, and is what is lowered of the longer network. */
static int try_stretch(pdl_arena *a, const char *strategy, int64_t layers,
                       int64_t more)
{
    const struct pdl_plan *p = lower_gpt(a, layers, strategy, true), *q, *whole;
    struct pdl_err err = {"", ""};
    char what[120], *x, *y;
    int64_t all;

    if (!p->roll || pdl_plan_stretch(a, p, more, &q, &err) != PDL_OK)
        return 0;
    all = layers + more * p->roll->period * p->roll->ngroups;
    if (pdl_plan_unroll(a, q, &whole, &err) != PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    p = lower_gpt(a, all, strategy, false);
    snprintf(what, sizeof what, "%s: %lld blocks and %lld more", strategy,
             (long long)layers, (long long)more);
    whole = renamed(a, whole, p);
    x = text_of(whole);
    y = text_of(p);
    if (strcmp(x, y) != 0)
        say_where(what, x, y);
    assert_true(pdl_plan_equal(whole, p));
    free(x);
    free(y);
    return 1;
}

static void a_stretched_plan_is_what_is_lowered(void **state)
{
    static const char *const strategies[] = {
        "data=2",
        "data=2,zero=1",
        "data=2,zero=2,bucket=1KiB",
        "data=2,zero=3,recompute=full",
        "data=2,bucket=2500B",
        "data=2,bucket=3400B,tensor=2",
        "pipe=3(1f1b,m=3),data=2",
        "pipe=3(zb-h1,m=4),data=2,zero=1,bucket=5200B",
        "data=2,offload=activations",
        "data=2,offload=optimizer,bucket=3400B",
    };
    enum { N = sizeof strategies / sizeof strategies[0] };
    static const int64_t more[] = {-4, 1, 2, 5, 16};
    int made[N] = {0}, refused = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 5; k++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            int64_t layers = strategies[i][0] == 'p' ? 3 * 24 : 24 + k % 2;
            int one = try_stretch(a, strategies[i], layers, more[k]);

            made[i] += one;
            refused += !one;
            pdl_arena_destroy(a);
        }
    for (int i = 0; i < N; i++)
        if (made[i] == 0)
            fail_msg("%s was never stretched", strategies[i]);
    print_message("%d refused\n", refused);
}

static void a_rolled_plan_is_checked_and_proved_whole(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    const struct pdl_plan *p = rolled_gpt(a, 9, &s);
    struct pdl_err err = {"", ""};

    (void)state;
    if (pdl_plan_check(p, &err) != PDL_OK ||
        pdl_plan_prove(p, 1, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
}

/* An operand of the repeated block that is another's, a copy too many, a
 * tensor of another shape: none of them is unrolled. */
static void what_is_not_alike_is_not_unrolled(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    const struct pdl_plan *p = rolled_gpt(a, 9, &s), *out;
    struct pdl_plan_op *ops = PDL_NEW(a, struct pdl_plan_op, p->nops);
    struct pdl_plan_tensor *t = PDL_NEW(a, struct pdl_plan_tensor, p->ntensors);
    struct pdl_plan_item *items = PDL_NEW(a, struct pdl_plan_item, p->nitems);
    struct pdl_err err;
    int tried = 0;

    (void)state;
    for (int i = 0; i < p->nitems; i++) {
        int op = p->items[i].first_op;
        struct pdl_plan wrong = *p;
        int other[1];

        if (p->items[i].repeat == 1)
            continue;
        wrong.ops = ops;
        memcpy(ops, p->ops, (size_t)p->nops * sizeof *ops);
        if (ops[op].nin == 1) {
            other[0] = ops[op].in[0] + 1;
            ops[op].in = other;
        } else {
            ops[op].group++;
        }
        assert_int_equal(pdl_plan_unroll(a, &wrong, &out, &err), PDL_EWRONG);
        wrong = *p;
        wrong.items = items;
        memcpy(items, p->items, (size_t)p->nitems * sizeof *items);
        items[i].repeat++;
        assert_int_equal(pdl_plan_unroll(a, &wrong, &out, &err), PDL_EWRONG);
        wrong = *p;
        wrong.tensors = t;
        memcpy(t, p->tensors, (size_t)p->ntensors * sizeof *t);
        t[p->ops[op].out[0]].dim[0]++;
        assert_int_equal(pdl_plan_unroll(a, &wrong, &out, &err), PDL_EWRONG);
        tried++;
    }
    assert_true(tried >= 3);
    pdl_arena_destroy(a);
}

static void who_reads_a_rolled_file_gets_all_rounds(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    const struct pdl_plan *p = rolled_gpt(a, 9, &s), *read = NULL, *whole;
    struct pdl_plan_options opt = {.batch = 8};
    struct pdl_plan_loader l = {same_model, (void *)(uintptr_t)p->roll->model};
    struct pdl_plan_head head;
    struct pdl_err err = {"", ""};
    char *text = text_of(p);

    (void)state;
    if (pdl_plan_lower(a, p->roll->model, &s, &opt, &whole, &err) != PDL_OK ||
        pdl_plan_read(a, (struct pdl_bytes){text, strlen(text)}, "p", &l, &head,
                      &read, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_null(read->roll);
    assert_true(pdl_plan_equal(read, whole));
    free(text);
    pdl_arena_destroy(a);
}

static void a_wrong_rolled_file_is_refused(void **state)
{
    static const struct {
        const char *from, *to, *want;
    } rows[] = {
        {"roll segment=1", "roll segment=9", "9 is out of range"},
        {"width=1", "width=0", "0 is out of range"},
        {"width=1", "width=2", "p.plan:"},
        {"period=1", "period=2", "p.plan:"},
        {" 1*", " 2*", "p.plan:"},
        {"1*5", "1*50", "has not so many rounds"},
        {"item repeat=5", "item repeat=4", "are not alike"},
        {" round=2 ", " round=3 ", "are not alike"},
        {"paradl-plan 2", "paradl-plan 1", "expected a tensor"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    const struct pdl_plan *p = rolled_gpt(a, 9, &s), *out;
    char *text = text_of(p);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = strstr(text, rows[i].from);
        struct pdl_err err = {"", ""};
        char *bad;

        assert_non_null(at);
        bad = pdl_arena_printf(a, "%.*s%s%s", (int)(at - text), text,
                               rows[i].to, at + strlen(rows[i].from));
        if (parse(a, bad, p->roll->model, &out, &err) != PDL_EPARSE)
            fail_msg("'%s' was accepted", rows[i].to);
        if (!strstr(err.msg, rows[i].want))
            fail_msg("'%s': %s", rows[i].to, err.msg);
    }
    free(text);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_unroll_to_what_is_lowered),
        cmocka_unit_test(networks_unroll_to_what_is_lowered),
        cmocka_unit_test(more_blocks_are_not_more_work),
        cmocka_unit_test(a_stretched_plan_is_what_is_lowered),
        cmocka_unit_test(a_rolled_plan_is_checked_and_proved_whole),
        cmocka_unit_test(what_is_not_alike_is_not_unrolled),
        cmocka_unit_test(who_reads_a_rolled_file_gets_all_rounds),
        cmocka_unit_test(a_wrong_rolled_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
