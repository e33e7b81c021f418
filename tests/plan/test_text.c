/* Plans as text: what is written is read back equal, and what has been
 * tampered with is refused. */
#include "effort.h"
#include "random_plan.h"

static enum pdl_status same_model(void *ctx, pdl_arena *a,
                                  const struct pdl_plan_head *head,
                                  const struct pdl_model **out,
                                  struct pdl_err *err)
{
    (void)a, (void)head, (void)err;
    *out = ctx;
    return PDL_OK;
}

static enum pdl_status parse(pdl_arena *a, const char *text, size_t len,
                             const struct pdl_model *m,
                             struct pdl_plan_head *head,
                             const struct pdl_plan **out, struct pdl_err *err)
{
    struct pdl_plan_loader l = {same_model, (void *)(uintptr_t)m};

    return pdl_plan_parse(a, (struct pdl_bytes){text, len}, "p.plan", &l, head,
                          out, err);
}

static void random_plans_read_back_equal_check_and_prove(void **state)
{
    int made = 0;

    (void)state;
    for (uint64_t seed = 0; made < effort(60, 400, 400); seed++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_plan *p = NULL, *again = NULL;
        struct pdl_plan_head head = {.system = "x y"}, got;
        struct pdl_err err = {"", ""};
        struct pdl_buf b, c;
        char what[900];

        if (random_plan(a, seed, &p, what, sizeof what, &err) == 0) {
            pdl_buf_init(&b);
            pdl_buf_init(&c);
            pdl_plan_print(p, &head, &b.sink);
            if (parse(a, b.text, b.len, p->model, &got, &again, &err) != PDL_OK)
                fail_msg("%s: %s", what, err.msg);
            if (!pdl_plan_equal(p, again))
                fail_msg("%s: differs", what);
            assert_string_equal(got.system, "x y");
            assert_null(got.dim);
            pdl_plan_print(again, &got, &c.sink);
            assert_string_equal(b.text, c.text);
            if (pdl_plan_check(again, &err) != PDL_OK)
                fail_msg("%s: %s", what, err.msg);
            if (made % 8 == 0 && pdl_plan_prove(again, seed, &err) != PDL_OK)
                fail_msg("%s: %s", what, err.msg);
            pdl_buf_free(&b);
            pdl_buf_free(&c);
            made++;
        }
        pdl_arena_destroy(a);
    }
}

/* ---- tampering ----------------------------------------------------------- */

struct text {
    char *s;
    size_t len;
};

static char *line_of(const struct text *t, int n)
{
    char *p = t->s;

    while (n-- > 0)
        p = strchr(p, '\n') + 1;
    return p;
}

static int lines(const struct text *t)
{
    int n = 0;

    for (size_t i = 0; i < t->len; i++)
        n += t->s[i] == '\n';
    return n;
}

static void drop(struct text *t, char *at, size_t n)
{
    memmove(at, at + n, t->len - (size_t)(at - t->s) - n + 1);
    t->len -= n;
}

static void drop_line(struct text *t, struct pdl_rng *rng)
{
    char *p = line_of(t, (int)pick(rng, 0, lines(t) - 1));

    drop(t, p, (size_t)(strchr(p, '\n') - p) + 1);
}

static void swap_lines(struct text *t, struct pdl_rng *rng)
{
    int i = (int)pick(rng, 0, lines(t) - 2);
    char *p = line_of(t, i), *q = line_of(t, i + 1);
    size_t n = (size_t)(q - p), m = (size_t)(strchr(q, '\n') - q) + 1;
    char *copy = malloc(n);

    memcpy(copy, p, n);
    memmove(p, q, m);
    memcpy(p + m, copy, n);
    free(copy);
}

static void change_byte(struct text *t, struct pdl_rng *rng)
{
    static const char bytes[] = "0123456789atn*/^~u:=->[]()#\" .\n";

    t->s[pick(rng, 0, (int64_t)t->len - 1)] =
        bytes[pick(rng, 0, (int64_t)sizeof bytes - 2)];
}

static void truncate_text(struct text *t, struct pdl_rng *rng)
{
    t->len = (size_t)pick(rng, 0, (int64_t)t->len - 2);
    t->s[t->len] = '\0';
}

static void drop_word(struct text *t, struct pdl_rng *rng)
{
    char *p = t->s + pick(rng, 0, (int64_t)t->len - 1), *q;

    while (p > t->s && *p != ' ')
        p--;
    q = p + 1;
    while (*q && *q != ' ' && *q != '\n')
        q++;
    drop(t, p, (size_t)(q - p));
}

/* The same numbers, but operations without what is derived from them: only
 * the checker can see these. */
static void reverse_ops(struct text *t, struct pdl_rng *rng)
{
    char *p = t->s + pick(rng, 0, (int64_t)t->len - 1), *q;

    p = strstr(p, " t");
    if (!p)
        return;
    q = strstr(p + 2, " t");
    if (q && p[2] >= '0' && p[2] <= '9' && q[2] >= '0' && q[2] <= '9') {
        char c = p[2];

        p[2] = q[2];
        q[2] = c;
    }
}

static void any_tampered_file_is_refused_or_still_proved(void **state)
{
    static void (*const ways[])(struct text *, struct pdl_rng *) = {
        drop_line,     swap_lines, change_byte,
        truncate_text, drop_word,  reverse_ops};
    int files = effort(200, 1500, 1500);
    int refused = 0, by_checker = 0, harmless = 0;

    (void)state;
    for (uint64_t seed = 0; seed < (uint64_t)files; seed++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_rng rng = {.key = seed + 77};
        const struct pdl_plan *p = NULL, *again = NULL;
        struct pdl_plan_head got;
        struct pdl_err err = {"", ""};
        struct pdl_buf b;
        char what[900];

        if (random_plan(a, seed % 50, &p, what, sizeof what, &err) == 0) {
            struct text t;

            pdl_buf_init(&b);
            pdl_plan_print(p, NULL, &b.sink);
            t = (struct text){malloc(b.len + 1), b.len};
            memcpy(t.s, b.text, b.len + 1);
            ways[seed % 6](&t, &rng);
            if (parse(a, t.s, t.len, p->model, &got, &again, &err) != PDL_OK) {
                assert_true(strncmp(err.msg, "p.plan:", 7) == 0);
                refused++;
            } else if (pdl_plan_equal(p, again)) {
                harmless++; /* a blank, or the same thing again */
            } else if (pdl_plan_check(again, &err) != PDL_OK) {
                by_checker++;
            } else if (pdl_plan_prove(again, seed, &err) != PDL_OK) {
                by_checker++;
            } else {
                harmless++; /* two frees or two names in another order */
            }
            free(t.s);
            pdl_buf_free(&b);
        }
        pdl_arena_destroy(a);
    }
    print_message("%d refused by the reader, %d by the checker or executor, "
                  "%d harmless\n",
                  refused, by_checker, harmless);
    assert_true(refused > files / 3);
    assert_true(by_checker > files / 300);
}

/* ---- named errors ----------------------------------------------------------- */

static const char *lenet_text(pdl_arena *a, const struct pdl_model **m)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 8};
    const struct pdl_plan *p;
    struct pdl_err err = {"", ""};
    struct pdl_buf b;
    const char *text;

    assert_int_equal(pdl_zoo_build(a, "lenet5", m, &err), PDL_OK);
    assert_int_equal(pdl_strategy_parse(a, "data=2,spatial=2", s, &err),
                     PDL_OK);
    if (pdl_plan_lower(a, *m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_buf_init(&b);
    pdl_plan_print(p, &(struct pdl_plan_head){.model = "lenet5"}, &b.sink);
    text = pdl_arena_strdup(a, b.text);
    pdl_buf_free(&b);
    return text;
}

/* The first `from` in the text becomes `to`. */
static char *edited(pdl_arena *a, const char *text, const char *from,
                    const char *to)
{
    const char *at = strstr(text, from);

    assert_non_null(at);
    return pdl_arena_printf(a, "%.*s%s%s", (int)(at - text), text, to,
                            at + strlen(from));
}

static void each_wrong_line_is_named(void **state)
{
    static const struct {
        const char *from, *to, *want;
    } rows[] = {
        {"paradl-plan 2", "paradl plan 2", "p.plan:1:1: is no plan file"},
        {"paradl-plan 2", "paradl-plan 4",
         "p.plan:1:1: version 4 of plan files is not known here"},
        {"model lenet5", "modl lenet5", "p.plan:2:1: expected 'model'"},
        {"strategy data=2", "output y\nstrategy data=2", "p.plan:3:9: an out"},
        {"strategy data=2", "strategy dta=2", "p.plan:3:"},
        {"data=2,spatial=2", "data=2,spatial=2,zero=1,compress=topk:0.1",
         "choose one"},
        {"data=2,spatial=2", "data=2,spatial=3", "p.plan:5:14: does not agree"},
        {"batch 8", "batch 0", "p.plan:4:7: 0 is out of range"},
        {"micro=1", "micro=2", "p.plan:4:16: the strategy makes 1"},
        {"mesh a0=2", "mesh a0=3", "p.plan:5:9: does not agree"},
        {"\nt1 ", "\nt0 ", "t0 stands where t1 must"},
        {"\nt1 ", "\nt99999999999999999999 ", "the number is too large"},
        {"[N:8/a0", "[N:7/a0", "has not the shape that the model gives it"},
        {"[N:8/a0", "[C:8/a0", "this dimension is called 'N'"},
        {"[N:8/a0", "[N:8/a9", "9 is out of range"},
        {"[N:8/a0", "[N:8/a0*a0", "factors must be in order"},
        {" f32 [", " f33 [", "no type of number 'f33'"},
        {" input stage", " inpt stage", "no kind of tensor"},
        {"of=conv1.weight", "of=conv9.weight", "has no tensor 'conv9.weight'"},
        {"forward conv1", "forward conv9", "has no layer 'conv9'"},
        {"\n1 ", "\n2 ", "2 stands where 1 must"},
        {" free ", " fre ", "no operation 'fre'"},
        {"flops=", "flops=1", "does not agree with the plan"},
        {"class 0 stage=0 ranks=0", "class 0 stage=0 ranks=1",
         "does not agree with the plan"},
        {"program backward", "program backwards", "does not agree"},
        {"item repeat=1", "item repeat=2", "repeats"},
        {"\nend\n", "\n", "the file ends too early"},
        {"\nend\n", "\nend\n0 free t1\n", "something follows 'end'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m;
        const char *text = lenet_text(a, &m);
        char *bad = edited(a, text, rows[i].from, rows[i].to);
        struct pdl_plan_head head;
        const struct pdl_plan *p;
        struct pdl_err err = {"", ""};

        if (parse(a, bad, strlen(bad), m, &head, &p, &err) != PDL_EPARSE)
            fail_msg("'%s' was accepted", rows[i].to);
        if (!strstr(err.msg, rows[i].want))
            fail_msg("'%s': %s", rows[i].to, err.msg);
        pdl_arena_destroy(a);
    }
}

/* The reader derives what it can, so these are well-formed and wrong: the
 * checker's business. */
static void the_checker_sees_what_is_well_formed_but_wrong(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m;
    const char *text = lenet_text(a, &m), *at = text;
    struct pdl_plan_head head;
    const struct pdl_plan *p;
    struct pdl_err err = {"", ""};
    int id = -1, seen = 0;
    struct pdl_buf b;

    (void)state;
    /* leave the third free out and number the rest again */
    pdl_buf_init(&b);
    while (*at) {
        const char *nl = strchr(at, '\n');

        if (*at >= '0' && *at <= '9') {
            const char *blank = strchr(at, ' ');

            if (strncmp(blank, " free", 5) != 0 || ++seen != 3)
                pdl_printf(&b.sink, "%d%.*s\n", ++id, (int)(nl - blank), blank);
        } else {
            pdl_put(&b.sink, at, (size_t)(nl - at) + 1);
        }
        at = nl + 1;
    }
    if (parse(a, b.text, b.len, m, &head, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(pdl_plan_check(p, &err), PDL_EWRONG);
    assert_non_null(strstr(err.msg, "never freed"));
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

static void odd_names_are_quoted(void **state)
{
    static const char *const odd[] = {"a b",   "",          "#3",       "loss",
                                      "\"q\\", "tab\tnl\n", "/x/Conv.1"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 4};
    struct pdl_plan_head head = {.model = "dir name/\"x\".onnx",
                                 .dim = "batch=8"};
    const struct pdl_plan *p, *again;
    struct pdl_model *copy;
    struct pdl_node *nodes;
    const struct pdl_model *m;
    struct pdl_err err = {"", ""};
    struct pdl_buf b;

    (void)state;
    assert_int_equal(pdl_zoo_build(a, "lenet5", &m, &err), PDL_OK);
    copy = PDL_NEW(a, struct pdl_model, 1);
    *copy = *m;
    nodes = PDL_NEW(a, struct pdl_node, m->nnodes);
    memcpy(nodes, m->nodes, (size_t)m->nnodes * sizeof *nodes);
    copy->nodes = nodes;
    for (int i = 0; i < 7 && i < m->nnodes; i++)
        nodes[i].name = odd[i];
    nodes[7].name = "a b"; /* twice */
    assert_int_equal(pdl_strategy_parse(a, "data=2", s, &err), PDL_OK);
    if (pdl_plan_lower(a, copy, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_buf_init(&b);
    pdl_plan_print(p, &head, &b.sink);
    if (parse(a, b.text, b.len, copy, &head, &again, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_true(pdl_plan_equal(p, again));
    assert_string_equal(head.model, "dir name/\"x\".onnx");
    assert_string_equal(head.dim, "batch=8");
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

static void equality_sees_every_field(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = NULL;
    struct pdl_plan_tensor *t;
    struct pdl_plan_op *o;
    struct pdl_plan q;
    struct pdl_err err;
    const struct pdl_frame framed[PDL_BOX_DIMS] = {{.kind = PDL_FRAME_READS}};
    char what[900];

    (void)state;
    for (uint64_t s = 0; random_plan(a, s, &p, what, sizeof what, &err); s++)
        ;
    t = PDL_NEW(a, struct pdl_plan_tensor, p->ntensors);
    o = PDL_NEW(a, struct pdl_plan_op, p->nops);
#define DIFFERS(change)                                         \
    do {                                                        \
        memcpy(t, p->tensors, (size_t)p->ntensors * sizeof *t); \
        memcpy(o, p->ops, (size_t)p->nops * sizeof *o);         \
        q = *p;                                                 \
        q.tensors = t;                                          \
        q.ops = o;                                              \
        assert_true(pdl_plan_equal(p, &q));                     \
        change;                                                 \
        assert_false(pdl_plan_equal(p, &q));                    \
    } while (0)
    DIFFERS(t[1].dim[0]++);
    DIFFERS(t[1].unit[0] = 5);
    DIFFERS(t[1].stage++);
    DIFFERS(t[1].kind = PDL_PLAN_STATE);
    DIFFERS(t[1].dtype = PDL_F64);
    DIFFERS(t[1].model_tensor--);
    DIFFERS(t[1].name = "other");
    DIFFERS(t[1].frame = framed);
    DIFFERS(o[0].part = 1);
    DIFFERS(o[0].node++);
    DIFFERS(o[0].group ^= 1);
    DIFFERS(o[0].nin--);
    DIFFERS(o[0].pass = PDL_BACKWARD_DATA);
    DIFFERS(q.batch++);
    DIFFERS(q.nops--);
#undef DIFFERS
    pdl_arena_destroy(a);
}

static enum pdl_status knows_ring(const char *collective, const char *name,
                                  struct pdl_err *err)
{
    assert_string_equal(collective, "allreduce");
    return strcmp(name, "ring") == 0
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL, "no algorithm '%s'", name);
}

static void an_algorithm_is_the_operations(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_plan_options opt = {.batch = 8, .knows = knows_ring};
    const struct pdl_model *m;
    const struct pdl_plan *p, *q;
    struct pdl_strategy s;
    struct pdl_plan_head head;
    struct pdl_err err = {"", ""};
    struct pdl_buf b;
    int sums = 0;
    char *bad;

    (void)state;
    assert_int_equal(pdl_zoo_build(a, "lenet5", &m, &err), PDL_OK);
    assert_int_equal(pdl_strategy_parse(a, "data=2,allreduce=rng", &s, &err),
                     PDL_OK);
    assert_int_equal(pdl_plan_lower(a, m, &s, &opt, &p, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "no algorithm 'rng'");
    pdl_strategy_parse(a, "data=2,allreduce=ring", &s, &err);
    assert_int_equal(pdl_plan_lower(a, m, &s, &opt, &p, &err), PDL_OK);
    for (int i = 0; i < p->nops; i++) {
        bool sum = p->ops[i].kind == PDL_PLAN_OP_ALLREDUCE;

        assert_true(sum == (p->ops[i].algorithm != NULL));
        sums += sum;
    }
    assert_true(sums > 0);
    pdl_buf_init(&b);
    pdl_plan_print(p, NULL, &b.sink);
    assert_non_null(strstr(b.text, " by=ring read="));
    assert_int_equal(parse(a, b.text, b.len, m, &head, &q, &err), PDL_OK);
    assert_true(pdl_plan_equal(p, q));
    bad = edited(a, b.text, " by=ring", " by=tree");
    assert_int_equal(parse(a, bad, strlen(bad), m, &head, &q, &err), PDL_OK);
    assert_false(pdl_plan_equal(p, q));
    bad = edited(a, b.text, " flops", " by=ring flops");
    assert_int_equal(parse(a, bad, strlen(bad), m, &head, &q, &err),
                     PDL_EPARSE);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_read_back_equal_check_and_prove),
        cmocka_unit_test(any_tampered_file_is_refused_or_still_proved),
        cmocka_unit_test(each_wrong_line_is_named),
        cmocka_unit_test(an_algorithm_is_the_operations),
        cmocka_unit_test(the_checker_sees_what_is_well_formed_but_wrong),
        cmocka_unit_test(odd_names_are_quoted),
        cmocka_unit_test(equality_sees_every_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
