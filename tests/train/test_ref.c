/* The reference backend against finite differences: every operator, every
 * pass. L = sum of dy * y, so dL/dx and dL/dw are what the backward passes
 * make of dy. */
#include "cases.h"

static double objective(struct backend *b, struct operands *p,
                        const struct one_op *o)
{
    double sum = 0;

    run_pass(b, p, o, PDL_FORWARD);
    for (int k = 0; k < p->ny; k++)
        for (int64_t i = 0; i < p->y[k].n; i++)
            sum += get(&p->dy[k], i) * get(&p->y[k], i);
    return sum;
}

/* The largest difference between a gradient and the slope of L. */
static double worst(struct backend *b, struct operands *p,
                    const struct one_op *o, struct value *v,
                    const struct value *grad)
{
    static const double h = 1e-5;
    double most = 0;

    for (int64_t i = 0; i < v->n; i++) {
        double x = get(v, i), up, down, d;

        put(v, i, x + h);
        up = objective(b, p, o);
        put(v, i, x - h);
        down = objective(b, p, o);
        put(v, i, x);
        d = fabs((up - down) / (2 * h) - get(grad, i));
        most = d > most ? d : most;
    }
    return most;
}

static void check_case(struct backend *b, const struct op_case *c)
{
    struct one_op o;
    struct operands p;

    one_op_open(&o, c);
    operands_open(&p, &o, PDL_F64);
    add_aux(b, &p, &o);
    run_pass(b, &p, &o, PDL_FORWARD);
    run_pass(b, &p, &o, PDL_BACKWARD_DATA);
    run_pass(b, &p, &o, PDL_BACKWARD_WEIGHTS);
    for (int i = 0; p.learns_x && i < p.nx - (c->last > 0); i++) {
        double d = worst(b, &p, &o, &p.x[i], &p.dx[i]);

        if (!(d < 1e-7)) {
            print_error("%s: dx[%d] is off by %g\n", c->name, i, d);
            fail();
        }
    }
    for (int j = 0; j < p.nw; j++) {
        double d = p.learned[j] ? worst(b, &p, &o, &p.w[j], &p.dw[j]) : 0;

        if (!(d < 1e-7)) {
            print_error("%s: dw[%d] is off by %g\n", c->name, j, d);
            fail();
        }
    }
    operands_close(&p);
    one_op_close(&o);
}

static void every_gradient_is_the_slope(void **state)
{
    struct backend b;

    (void)state;
    backend_open(&b, &train_ref);
    for (int i = 0; i < NCASES; i++)
        check_case(&b, &op_cases[i]);
    backend_close(&b);
}

/* The tester itself: a gradient with one wrong element is seen. */
static void a_wrong_gradient_is_seen(void **state)
{
    struct one_op o;
    struct operands p;
    struct backend b;

    (void)state;
    backend_open(&b, &train_ref);
    one_op_open(&o, &op_cases[0]);
    operands_open(&p, &o, PDL_F64);
    run_pass(&b, &p, &o, PDL_FORWARD);
    run_pass(&b, &p, &o, PDL_BACKWARD_DATA);
    put(&p.dx[0], 3, get(&p.dx[0], 3) + 1e-6);
    assert_true(worst(&b, &p, &o, &p.x[0], &p.dx[0]) > 1e-7);
    operands_close(&p);
    one_op_close(&o);
    backend_close(&b);
}

/* Every operator with a kernel is in the table of cases: looked up by making
 * a call of each operator of the model room. */
static void every_kernel_has_a_case(void **state)
{
    struct backend b;

    (void)state;
    backend_open(&b, &train_ref);
    for (int i = 0; pdl_op_at(i); i++) {
        struct pdl_node n = {.name = "n", .op = pdl_op_at(i)};
        struct pdl_model m = {.nodes = &n, .nnodes = 1};
        struct train_call c = {.model = &m, .node = &n};
        struct train_array a[3] = {{.dtype = PDL_OTHER}};
        struct train_kernel *k;
        struct pdl_err err = {{0}, {0}};
        bool listed = false;

        c.in = a;
        c.out = a;
        c.nin = 1; /* refused either way: the message says why */
        assert_int_not_equal(b.b->make(b.state, &c, &k, &err), PDL_OK);
        for (int j = 0; j < NCASES; j++)
            listed = listed || strcmp(op_cases[j].op, n.op->name) == 0;
        if (!listed && !strstr(err.msg, "has no kernel")) {
            print_error("%s has a kernel and no case\n", n.op->name);
            fail();
        }
    }
    backend_close(&b);
}

/* ---- losses -------------------------------------------------------------- */

static double loss_value(struct backend *b, struct value *v, int nlabels,
                         const struct train_loss *how)
{
    struct train_call c = {.loss = how};
    struct train_moment when = {0};
    struct list in = {2, {&v[0], &v[1]}}, out = {2, {&v[2], &v[3]}};
    double sum = 0;

    call_kernel(b, &c, &in, &out, &when);
    for (int i = 0; i < nlabels; i++)
        sum += get(&v[3], i);
    return sum / nlabels;
}

static struct value shaped(enum pdl_dtype t, int n, const int64_t *dim)
{
    struct train_array a = {.dtype = t, .box = {.ndims = n}};

    memcpy(a.box.hi, dim, (size_t)n * sizeof *dim);
    a.channels_last = n > 3;
    return value_of(&a);
}

static void check_loss(struct backend *b, int n, const int64_t *dim, int class,
                       const struct train_loss *how)
{
    struct op_case none = {.tokens = dim[class]};
    int64_t one[PDL_BOX_DIMS];
    struct value v[4];

    memcpy(one, dim, (size_t)n * sizeof *dim);
    one[class] = 1;
    v[0] = shaped(PDL_F64, n, dim);
    v[1] = how->kind == TRAIN_MSE ? shaped(PDL_F64, n, dim)
                                  : shaped(PDL_I32, n, one);
    v[2] = shaped(PDL_F64, n, dim);
    v[3] = shaped(PDL_F64, n, one);
    fill(&v[0], 1, &none);
    fill(&v[1], 2, &none);
    for (int64_t i = 0; i < v[0].n; i++) {
        double x = get(&v[0], i), up, down, have;

        loss_value(b, v, (int)v[3].n, how);
        have = get(&v[2], i);
        put(&v[0], i, x + 1e-5);
        up = loss_value(b, v, (int)v[3].n, how);
        put(&v[0], i, x - 1e-5);
        down = loss_value(b, v, (int)v[3].n, how);
        put(&v[0], i, x);
        assert_true(fabs((up - down) / 2e-5 - have) < 1e-8);
    }
    for (int i = 0; i < 4; i++)
        free(v[i].at);
}

static void losses_have_their_slopes(void **state)
{
    static const struct {
        int n;
        int64_t dim[4];
        int class;
        struct train_loss how;
    } cases[] = {
        {2, {3, 5}, 1, {TRAIN_SOFTMAX, 0, 0}},
        {2, {3, 5}, 1, {TRAIN_SOFTMAX, 0.1, 0}},
        {3, {2, 3, 4}, 2, {TRAIN_SOFTMAX, 0, 0}},
        {4, {2, 4, 3, 2}, 1, {TRAIN_SOFTMAX, 0.2, 0}},
        {2, {3, 4}, 1, {TRAIN_MSE, 0, 0}},
        {4, {2, 4, 3, 2}, 1, {TRAIN_MSE, 0, 0}},
    };
    struct backend b;

    (void)state;
    for (int k = 0; train_backend_at(k); k++) {
        if (train_backend_at(k) != &train_ref)
            continue;
        backend_open(&b, train_backend_at(k));
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            check_loss(&b, cases[i].n, cases[i].dim, cases[i].class,
                       &cases[i].how);
        backend_close(&b);
    }
}

/* Classes cut in three: largest values and sums are exchanged by hand. */
static void a_loss_in_parts_is_the_loss(void **state)
{
    static const int64_t dim[] = {4, 7}, one[] = {4, 1}, two[] = {4, 2};
    struct op_case none = {.tokens = 7};
    struct value v[4], part[3], dy[3], top[3], sum[3], loss, right;
    struct train_moment when = {0};
    struct train_call c = {.population = 4};
    struct backend b;

    (void)state;
    backend_open(&b, &train_ref);
    v[0] = shaped(PDL_F64, 2, dim);
    v[1] = shaped(PDL_I32, 2, one);
    v[2] = shaped(PDL_F64, 2, dim);
    v[3] = shaped(PDL_F64, 2, one);
    loss = shaped(PDL_F64, 2, one);
    right = shaped(PDL_F64, 2, one);
    fill(&v[0], 1, &none);
    fill(&v[1], 2, &none);
    loss_value(&b, v, 4, NULL);
    for (int k = 0; k < 3; k++) {
        struct train_array a = v[0].a;
        struct list in = {1, {&part[k]}}, out = {1, {&top[k]}};

        pdl_split(7, 1, 3, k, &a.box.lo[1], &a.box.hi[1]);
        part[k] = value_of(&a);
        dy[k] = value_of(&a);
        copy_part(&v[0], &part[k]);
        top[k] = shaped(PDL_F64, 2, one);
        sum[k] = shaped(PDL_F64, 2, two);
        call_kernel(&b, &c, &in, &out, &when);
    }
    for (int k = 1; k < 3; k++)
        for (int64_t i = 0; i < 4; i++)
            put(&top[0], i, fmax(get(&top[0], i), get(&top[k], i)));
    c.part = 1;
    for (int k = 0; k < 3; k++) {
        struct list in = {3, {&part[k], &v[1], &top[0]}}, out = {1, {&sum[k]}};

        call_kernel(&b, &c, &in, &out, &when);
        for (int64_t i = 0; i < 8 && k > 0; i++)
            put(&sum[0], i, get(&sum[0], i) + get(&sum[k], i));
    }
    c.part = 2;
    for (int k = 0; k < 3; k++) {
        struct list in = {4, {&part[k], &v[1], &top[0], &sum[0]}},
                    out = {3, {&dy[k], &loss, &right}};

        call_kernel(&b, &c, &in, &out, &when);
        for (int64_t i = 0; i < dy[k].n; i++) {
            int64_t at[2] = {i / (dy[k].a.box.hi[1] - dy[k].a.box.lo[1]),
                             dy[k].a.box.lo[1] +
                                 i % (dy[k].a.box.hi[1] - dy[k].a.box.lo[1])};

            assert_true(fabs(get(&dy[k], i) - get(&v[2], at_index(&v[2], at))) <
                        1e-15);
        }
        for (int64_t i = 0; i < 4; i++)
            assert_true(fabs(get(&loss, i) - get(&v[3], i)) < 1e-14);
        free(part[k].at);
        free(dy[k].at);
    }
    for (int k = 0; k < 3; k++) {
        free(top[k].at);
        free(sum[k].at);
    }
    for (int k = 0; k < 4; k++)
        free(v[k].at);
    free(loss.at);
    free(right.at);
    backend_close(&b);
}

/* ---- batch norm across ranks ------------------------------------------------ */

static void running_statistics_are_used_and_kept(void **state)
{
    static const struct op_case c = {.name = "bn",
                                     .op = "batch_norm",
                                     .nin = 1,
                                     .rank = {2},
                                     .dim = {{2, 4}},
                                     .batch = 3};
    struct train_moment train = {0}, eval = {.evaluate = true};
    struct train_call call;
    struct one_op o;
    struct operands p;
    struct backend b;
    struct list in, out;
    double mean = 0, var = 0;

    (void)state;
    backend_open(&b, &train_ref);
    one_op_open(&o, &c);
    operands_open(&p, &o, PDL_F64);
    call = (struct train_call){.model = o.model, .node = o.node};
    lists_of(&p, &o, PDL_FORWARD, &in, &out);
    put(&p.w[2], 0, 0.5);
    put(&p.w[3], 0, 2);
    for (int64_t n = 0; n < 3; n++)
        for (int64_t t = 0; t < 4; t++)
            mean += get(&p.x[0], n * 8 + t) / 12;
    for (int64_t n = 0; n < 3; n++)
        for (int64_t t = 0; t < 4; t++)
            var += pow(get(&p.x[0], n * 8 + t) - mean, 2) / 11;
    call_kernel(&b, &call, &in, &out, &train);
    assert_true(fabs(get(&p.w[2], 0) - (0.9 * 0.5 + 0.1 * mean)) < 1e-12);
    assert_true(fabs(get(&p.w[3], 0) - (0.9 * 2 + 0.1 * var)) < 1e-12);
    call_kernel(&b, &call, &in, &out, &eval);
    mean = get(&p.w[2], 0);
    var = get(&p.w[3], 0);
    assert_true(fabs(get(&p.y[0], 0) - ((get(&p.x[0], 0) - mean) /
                                            sqrt(var + 1e-5) * get(&p.w[0], 0) +
                                        get(&p.w[1], 0))) < 1e-12);
    operands_close(&p);
    one_op_close(&o);
    backend_close(&b);
}

static void dropout_keeps_the_mean_and_evaluates_as_identity(void **state)
{
    static const struct op_case c = {.name = "drop",
                                     .op = "dropout",
                                     .nin = 1,
                                     .rank = {2},
                                     .dim = {{100, 100}},
                                     .attr = {.scale = 0.25}};
    struct train_moment train = {.seed = 1}, eval = {.evaluate = true};
    struct train_call call;
    struct one_op o;
    struct operands p;
    struct backend b;
    struct list in, out;
    int64_t kept = 0;

    (void)state;
    backend_open(&b, &train_ref);
    one_op_open(&o, &c);
    operands_open(&p, &o, PDL_F32);
    call = (struct train_call){.model = o.model, .node = o.node};
    lists_of(&p, &o, PDL_FORWARD, &in, &out);
    call_kernel(&b, &call, &in, &out, &train);
    for (int64_t i = 0; i < p.y[0].n; i++) {
        double want = get(&p.x[0], i) / 0.75, have = get(&p.y[0], i);

        assert_true(have == 0 || fabs(have - want) < 1e-6);
        kept += have != 0;
    }
    assert_true(fabs((double)kept / (double)p.y[0].n - 0.75) < 0.02);
    call_kernel(&b, &call, &in, &out, &eval);
    assert_memory_equal(p.x[0].at, p.y[0].at, (size_t)p.y[0].n * 4);
    operands_close(&p);
    one_op_close(&o);
    backend_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_the_slope),
        cmocka_unit_test(a_wrong_gradient_is_seen),
        cmocka_unit_test(every_kernel_has_a_case),
        cmocka_unit_test(losses_have_their_slopes),
        cmocka_unit_test(a_loss_in_parts_is_the_loss),
        cmocka_unit_test(running_statistics_are_used_and_kept),
        cmocka_unit_test(dropout_keeps_the_mean_and_evaluates_as_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
