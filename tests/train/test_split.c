/* Parts against the whole: every operator, every index its rule lets a factor
 * cut, 2, 3 and 5 parts (uneven, thin and empty ones among them). A result that
 * has the index must be the same bits as that place of the whole; one that
 * lacks it is a partial sum, and the parts must add up. */
#include "effort.h"
#include "cases.h"
#include "../../src/plan/plan_priv.h"

/* The rule's names for an index: follow operand 0 in dimension d, or a role. */
struct index {
    int d;              /* >= 0: follow */
    enum pdl_axis role; /* d < 0 */
};

struct cut_case {
    const struct one_op *o;
    struct plan_site site;
    struct plan_cut cut;
    int64_t parts, part;
    bool exact;           /* the same bits are asked for */
    double near;          /* else this near */
    int64_t *equal, *all; /* elements with the same bits, and all */
};

static int64_t parts_of(const struct pdl_box *b, int d)
{
    return b->hi[d];
}

static int64_t unit_of(const struct cut_case *c, const struct pdl_box *b, int d,
                       bool y);

static struct pdl_box cut_box(const struct cut_case *c, const struct pdl_box *b,
                              int d, bool y)
{
    struct pdl_box r = *b;

    if (d >= 0)
        pdl_split(parts_of(b, d), unit_of(c, b, d, y), c->parts, c->part,
                  &r.lo[d], &r.hi[d]);
    return r;
}

/* The frame a window needs around a box. */
static void frame(const struct cut_case *c, struct pdl_box *b, bool forward)
{
    for (int d = 2; d < b->ndims; d++) {
        struct pdl_window w;
        bool swap;

        if (!plan_rule_window(&c->site, d, &w, &swap) || c->cut.x[0] != d)
            continue;
        if (b->hi[d] <= b->lo[d])
            continue;
        if (forward != swap)
            pdl_window_reads(&w, b->lo[d], b->hi[d], &b->lo[d], &b->hi[d]);
        else
            pdl_window_readers(&w, b->lo[d], b->hi[d], &b->lo[d], &b->hi[d]);
    }
}

static struct value part_of(const struct value *whole_, struct pdl_box box)
{
    struct train_array a = whole_->a;
    struct value v;

    a.box = box;
    v = value_of(&a);
    copy_part(whole_, &v);
    return v;
}

/* The unit in which dimension d of a tensor is split: an item of the index
 * (a head), and of a flattened channel all its positions. */
static int64_t unit_of(const struct cut_case *c, const struct pdl_box *b, int d,
                       bool y)
{
    int64_t items = c->cut.items, u = 1;

    /* the plan takes pairs of features; heads are halves side by side */
    if (strcmp(c->o->node->op->name, "rope") == 0 && items > 0)
        items /= 2;
    if (d > 0 && items > 0)
        return b->hi[d] / items;
    if (!y || strcmp(c->o->node->op->name, "flatten") != 0 || d != 1)
        return 1;
    for (int i = 1; i < c->site.x->rank; i++)
        u *= c->site.x->dim[i];
    return u;
}

/* An aux array that stays where it was made is left out: kernels then compute
 * again what they need. */
static bool moves_with_y(const struct operands *w)
{
    return w->has_aux && w->aux.a.box.ndims == w->y[0].a.box.ndims &&
           memcmp(w->aux.a.box.hi, w->y[0].a.box.hi, sizeof w->aux.a.box.hi) ==
               0;
}

/* The parts of all operands that one rank holds in a pass. */
static void take_parts(const struct cut_case *c, struct operands *w,
                       struct operands *p, enum pdl_pass pass)
{
    memset(p, 0, sizeof *p);
    p->nx = w->nx;
    p->nw = w->nw;
    p->ny = w->ny;
    p->has_aux = moves_with_y(w);
    p->learns_x = w->learns_x;
    memcpy(p->learned, w->learned, sizeof p->learned);
    for (int k = 0; k < p->ny; k++) {
        struct pdl_box y = cut_box(c, &w->y[k].a.box, c->cut.y[k], true);
        struct pdl_box x = cut_box(c, &w->x[0].a.box, c->cut.x[0], false);
        struct pdl_box near = y;
        struct pdl_window window;
        bool swap;

        if (pass == PDL_BACKWARD_DATA && k == 0 && c->cut.x[0] >= 2 &&
            plan_rule_window(&c->site, c->cut.x[0], &window, &swap)) {
            struct pdl_box f = x;

            frame(c, &f, false);
            if (pdl_box_empty(&x))
                f.hi[c->cut.x[0]] = f.lo[c->cut.x[0]];
            if (c->cut.y[0] >= 2) {
                near.lo[c->cut.y[0]] = f.lo[c->cut.y[0]];
                near.hi[c->cut.y[0]] = f.hi[c->cut.y[0]];
            }
        }
        p->y[k] = part_of(&w->y[k], near);
        p->dy[k] = part_of(&w->dy[k], near);
    }
    if (p->has_aux) {
        struct pdl_box b = p->y[0].a.box;

        p->aux = part_of(&w->aux, b);
    }
    for (int i = 0; i < p->nx; i++) {
        struct pdl_box x = cut_box(c, &w->x[i].a.box, c->cut.x[i], false);
        struct pdl_window window;
        bool swap;

        p->dx[i] = part_of(&w->dx[i], x);
        if (pass != PDL_BACKWARD_DATA && i == 0 && c->cut.y[0] >= 2 &&
            plan_rule_window(&c->site, c->cut.y[0], &window, &swap)) {
            int d = c->cut.y[0];
            struct pdl_box y = cut_box(c, &w->y[0].a.box, d, true);

            frame(c, &y, true);
            x.lo[d] = y.lo[d];
            x.hi[d] = y.hi[d] > y.lo[d] ? y.hi[d] : y.lo[d];
        }
        p->x[i] = part_of(&w->x[i], x);
    }
    for (int j = 0; j < p->nw; j++) {
        struct pdl_box b = cut_box(c, &w->w[j].a.box, c->cut.w[j], false);

        p->w[j] = part_of(&w->w[j], b);
        p->dw[j] = part_of(&w->dw[j], b);
    }
}

/* ---- comparing ------------------------------------------------------------- */

static uint64_t bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static void same_bits(const struct cut_case *c, const struct value *whole_,
                      const struct value *part, const char *what)
{
    int64_t i[PDL_BOX_DIMS];

    if (pdl_box_empty(&part->a.box))
        return;
    memcpy(i, part->a.box.lo, sizeof i);
    do {
        double a = get(whole_, at_index(whole_, i));
        double b = get(part, at_index(part, i));

        ++*c->all;
        *c->equal += bits(a) == bits(b);
        if (c->exact ? bits(a) != bits(b) : !(fabs(a - b) < c->near)) {
            print_error("%s: %s of part %d of %d: %.9g, not %.9g\n",
                        c->o->c->name, what, (int)c->part, (int)c->parts, b, a);
            fail();
        }
    } while (next_index(&part->a.box, i));
}

static void add_into(struct value *sum, const struct value *part)
{
    int64_t i[PDL_BOX_DIMS];

    if (pdl_box_empty(&part->a.box))
        return;
    memcpy(i, part->a.box.lo, sizeof i);
    do {
        int64_t o = at_index(sum, i);

        put(sum, o, get(sum, o) + get(part, at_index(part, i)));
    } while (next_index(&part->a.box, i));
}

static void adds_up(const struct cut_case *c, const struct value *whole_,
                    const struct value *sum, const char *what)
{
    for (int64_t i = 0; i < sum->n; i++)
        if (!(fabs(get(whole_, i) - get(sum, i)) <
              (c->near > 0 ? c->near : 1e-5) * (1 + fabs(get(whole_, i))))) {
            print_error("%s: %s of %d parts adds up to %.9g, not %.9g\n",
                        c->o->c->name, what, (int)c->parts, get(sum, i),
                        get(whole_, i));
            fail();
        }
}

/* ---- one pass ------------------------------------------------------------------ */

static bool is_partial_bias(const struct cut_case *c)
{
    return is_contraction(c->o->node) && c->cut.y[0] < 0 &&
           c->o->node->nweights > 1;
}

static void forward_pass(struct backend *b, struct cut_case *c,
                         struct operands *w)
{
    struct value sum = value_of(&w->y[0].a), rest = value_of(&w->y[0].a);
    struct train_call bias = {
        .model = c->o->model, .node = c->o->node, .part = 1};
    struct train_moment when = {0};

    for (c->part = 0; c->part < c->parts; c->part++) {
        struct operands p;

        take_parts(c, w, &p, PDL_FORWARD);
        p.nw = is_partial_bias(c) ? 1 : p.nw;
        run_pass(b, &p, c->o, PDL_FORWARD);
        for (int k = 0; k < p.ny; k++)
            if (c->cut.y[k] >= 0)
                same_bits(c, &w->y[k], &p.y[k], "y");
        add_into(&sum, &p.y[0]);
        p.nw = w->nw;
        operands_close(&p);
    }
    if (is_partial_bias(c)) {
        struct list in = {2, {&sum, &w->w[1]}}, out = {1, {&rest}};

        call_kernel(b, &bias, &in, &out, &when);
        adds_up(c, &w->y[0], &rest, "y with bias");
    } else if (c->cut.y[0] < 0) {
        adds_up(c, &w->y[0], &sum, "y");
    }
    free(sum.at);
    free(rest.at);
}

static void data_pass(struct backend *b, struct cut_case *c, struct operands *w)
{
    struct value sum[3];

    for (int i = 0; i < w->nx; i++)
        sum[i] = value_of(&w->dx[i].a);
    for (c->part = 0; c->part < c->parts && w->learns_x; c->part++) {
        struct operands p;

        take_parts(c, w, &p, PDL_BACKWARD_DATA);
        run_pass(b, &p, c->o, PDL_BACKWARD_DATA);
        for (int i = 0; i < p.nx; i++) {
            if (c->cut.x[i] >= 0)
                same_bits(c, &w->dx[i], &p.dx[i], "dx");
            add_into(&sum[i], &p.dx[i]);
        }
        operands_close(&p);
    }
    for (int i = 0; i < w->nx; i++) {
        if (c->cut.x[i] < 0 && w->learns_x)
            adds_up(c, &w->dx[i], &sum[i], "dx");
        free(sum[i].at);
    }
}

static void weights_pass(struct backend *b, struct cut_case *c,
                         struct operands *w)
{
    struct value sum[PDL_OP_MAX_WEIGHTS];

    for (int j = 0; j < w->nw; j++)
        sum[j] = value_of(&w->dw[j].a);
    for (c->part = 0; c->part < c->parts; c->part++) {
        struct operands p;

        take_parts(c, w, &p, PDL_BACKWARD_WEIGHTS);
        run_pass(b, &p, c->o, PDL_BACKWARD_WEIGHTS);
        for (int j = 0; j < p.nw; j++) {
            bool whole_ = j == 1 && is_partial_bias(c);

            if (c->cut.w[j] >= 0 || whole_)
                same_bits(c, &w->dw[j], &p.dw[j], "dw");
            if (!whole_)
                add_into(&sum[j], &p.dw[j]);
        }
        operands_close(&p);
    }
    for (int j = 0; j < w->nw; j++) {
        if (c->cut.w[j] < 0 && w->learned[j] && !(j == 1 && is_partial_bias(c)))
            adds_up(c, &w->dw[j], &sum[j], "dw");
        free(sum[j].at);
    }
}

/* ---- all of them ------------------------------------------------------------------ */

static bool find_cut(struct cut_case *c, const struct index *i)
{
    if (i->d < 0)
        return plan_rule_has_role(c->o->node) &&
               plan_rule_role(&c->site, i->role, 0, &c->cut);
    if (i->d > c->site.x->rank)
        return false;
    if (i->d >= 2 && plan_rule_has_role(c->o->node) &&
        strcmp(c->o->node->op->name, "linear") != 0)
        return plan_rule_role(&c->site, PDL_AXIS_SPATIAL, i->d - 2, &c->cut);
    return plan_rule_follow(&c->site, 0, i->d, &c->cut);
}

/* Statistics of a whole channel do not come from parts: the exchange has its
 * own test. */
static bool needs_an_exchange(const struct one_op *o, const struct index *i)
{
    return strcmp(o->node->op->name, "batch_norm") == 0 && i->d != 1;
}

/* The plan's rule takes a weight of an element-wise operator to go by channel;
 * one that goes by feature is cut wrongly there. */
static bool is_by_feature(const struct one_op *o, const struct index *i)
{
    const struct pdl_tensor *t = o->model->tensors;

    return o->node->nweights == 1 && !plan_rule_has_role(o->node) &&
           t[o->node->weights[0]].rank == 1 && t[o->node->in[0]].rank == 2 &&
           i->d >= 1;
}

static int run_cuts(struct backend *b, const struct op_case *oc, int64_t parts,
                    double near, int64_t *counts)
{
    static const struct index indices[] = {{0, 0},
                                           {1, 0},
                                           {2, 0},
                                           {3, 0},
                                           {4, 0},
                                           {-1, PDL_AXIS_FILTER},
                                           {-1, PDL_AXIS_CHANNEL}};
    struct one_op o;
    struct operands w;
    int done = 0;

    one_op_open(&o, oc);
    operands_open(&w, &o, PDL_F32);
    add_aux(b, &w, &o);
    for (int pass = PDL_FORWARD; pass <= PDL_BACKWARD_WEIGHTS; pass++)
        run_pass(b, &w, &o, (enum pdl_pass)pass);
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        struct cut_case c = {.o = &o,
                             .parts = parts,
                             .exact = b->b == &train_ref,
                             .near = near,
                             .equal = &counts[0],
                             .all = &counts[1]};

        plan_site_init(o.model, (int)(o.node - o.model->nodes), parts, &c.site);
        if (!find_cut(&c, &indices[i]) || needs_an_exchange(&o, &indices[i]) ||
            is_by_feature(&o, &indices[i]))
            continue;
        forward_pass(b, &c, &w);
        data_pass(b, &c, &w);
        weights_pass(b, &c, &w);
        done++;
    }
    operands_close(&w);
    one_op_close(&o);
    return done;
}

/* The same bits from the reference; from the others the same numbers, and
 * nearly always the same bits: a part may get another blocking. */
static void parts_equal_the_whole(void **state)
{
    static const int64_t parts[] = {2, 3, 5};
    struct backend b;

    (void)state;
    for (int t = 0; train_backend_at(t); t++) {
        int64_t counts[2] = {0};
        int done = 0;

        backend_open(&b, train_backend_at(t));
        for (int i = 0; i < NCASES; i++)
            for (int k = effort(i % 3, 0, 0); k < 3; k += effort(3, 1, 1))
                done += run_cuts(&b, &op_cases[i], parts[k], 1e-5, counts);
        print_message("%s: %d cuts, %.2f %% of %lld elements the same bits\n",
                      b.b->name, done,
                      100.0 * (double)counts[0] / (double)counts[1],
                      (long long)counts[1]);
        assert_true(done > effort(130, 400, 400));
        assert_true((double)counts[0] > 0.9 * (double)counts[1]);
        backend_close(&b);
    }
}

/* Channels enough for Winograd, rows that 2 and 4 parts cut between tiles and 3
 * do not: backward to a part reads a halo of the gradient. Winograd's last
 * digits are others. */
static void wide_parts_equal_the_whole(void **state)
{
    struct op_case wide = {
        .name = "conv 3x3, wide",
        .op = "conv",
        .nin = 1,
        .rank = {3},
        .dim = {{32, 16, 8}},
        .attr = {
            .kernel = {3, 3}, .pad = {1, 1}, .features = 48, .no_bias = true}};
    struct backend b;

    (void)state;
    for (int t = 0; train_backend_at(t); t++) {
        int64_t counts[2] = {0};

        backend_open(&b, train_backend_at(t));
        for (int parts = 2; parts <= 4; parts++)
            for (int pad = effort(parts % 2, 0, 0); pad <= 1;
                 pad += effort(2, 1, 1)) {
                wide.attr.pad_end[0] = wide.attr.pad_end[1] = pad;
                assert_int_equal(run_cuts(&b, &wide, parts, 1e-4, counts), 5);
            }
        print_message("%s: %.2f %% of %lld elements the same bits\n", b.b->name,
                      100.0 * (double)counts[0] / (double)counts[1],
                      (long long)counts[1]);
        backend_close(&b);
    }
}

/* ---- batch norm with an exchange ------------------------------------------------------ */

enum { RANKS = 3 };

struct bn_rank {
    struct operands p;
    struct value sums, back;
};

/* dx and the weights' gradients from the sums of all ranks. */
static void bn_backward(struct backend *b, const struct cut_case *c,
                        struct train_call *call, struct operands *w,
                        struct bn_rank *r, int k)
{
    struct train_moment when = {.again = true};
    struct operands *p = &r[k].p;
    struct list in = {2, {&p->dy[0], &r[0].back}}, out = {1, {&p->dx[0]}};
    struct value y = part_of(&w->y[0], p->y[0].a.box);
    struct value dx = part_of(&w->dx[0], p->dx[0].a.box);

    call->part = 1;
    call->pass = PDL_BACKWARD_DATA;
    push(&in, p->w, p->nw);
    push(&in, &p->x[0], 1);
    push(&in, &r[0].sums, 1);
    call_kernel(b, call, &in, &out, &when);
    adds_up(c, &y, &p->y[0], "y");
    adds_up(c, &dx, &p->dx[0], "dx");
    call->part = 0;
    call->pass = PDL_BACKWARD_WEIGHTS;
    in = (struct list){1, {&r[0].back}};
    out = (struct list){2, {&p->dw[0], &p->dw[1]}};
    call_kernel(b, call, &in, &out, &when);
    adds_up(c, &w->dw[0], &p->dw[0], "dw");
    adds_up(c, &w->dw[1], &p->dw[1], "db");
    free(y.at);
    free(dx.at);
}

/* x cut along dimension d; every rank's sums are added by hand. */
static void bn_exchange(struct backend *b, const struct op_case *oc, int d)
{
    struct cut_case c = {.parts = RANKS};
    struct bn_rank r[RANKS];
    struct one_op o;
    struct operands w;
    struct train_moment when = {.again = true};
    struct train_call call = {.population = 0};
    struct train_array sums = {.dtype = PDL_F64, .box = {.ndims = 3}};

    one_op_open(&o, oc);
    operands_open(&w, &o, PDL_F32);
    for (int pass = PDL_FORWARD; pass <= PDL_BACKWARD_WEIGHTS; pass++)
        run_pass(b, &w, &o, (enum pdl_pass)pass);
    c.o = &o;
    plan_site_init(o.model, (int)(o.node - o.model->nodes), RANKS, &c.site);
    assert_true(plan_rule_follow(&c.site, 0, d, &c.cut));
    sums.box.hi[0] = 1;
    sums.box.hi[1] = 2;
    sums.box.hi[2] = w.x[0].a.box.hi[1];
    call.model = o.model;
    call.node = o.node;
    call.population = w.x[0].n / w.x[0].a.box.hi[1];
    for (int k = 0; k < RANKS; k++) {
        struct list in, out;

        c.part = k;
        take_parts(&c, &w, &r[k].p, PDL_BACKWARD_WEIGHTS);
        r[k].sums = value_of(&sums);
        r[k].back = value_of(&sums);
        in = (struct list){1, {&r[k].p.x[0]}};
        out = (struct list){1, {&r[k].sums}};
        call_kernel(b, &call, &in, &out, &when);
    }
    for (int k = 1; k < RANKS; k++)
        add_into(&r[0].sums, &r[k].sums);
    for (int k = 0; k < RANKS; k++) {
        struct operands *p = &r[k].p;
        struct list in = {2, {&p->x[0], &r[0].sums}}, out = {1, {&p->y[0]}};

        call.part = 1;
        push(&in, p->w, p->nw);
        call_kernel(b, &call, &in, &out, &when);
        call.part = 0;
        call.pass = PDL_BACKWARD_DATA;
        in = (struct list){3, {&p->dy[0], &p->x[0], &r[0].sums}};
        out = (struct list){1, {&r[k].back}};
        call_kernel(b, &call, &in, &out, &when);
        call.pass = PDL_FORWARD;
    }
    for (int k = 1; k < RANKS; k++)
        add_into(&r[0].back, &r[k].back);
    for (int k = 0; k < RANKS; k++)
        bn_backward(b, &c, &call, &w, r, k);
    for (int k = 0; k < RANKS; k++) {
        free(r[k].sums.at);
        free(r[k].back.at);
        operands_close(&r[k].p);
    }
    operands_close(&w);
    one_op_close(&o);
}

static void exchanged_statistics_equal_the_whole(void **state)
{
    struct backend b;

    (void)state;
    for (int k = 0; train_backend_at(k); k++) {
        backend_open(&b, train_backend_at(k));
        for (int i = 0; i < NCASES; i++)
            if (strcmp(op_cases[i].op, "batch_norm") == 0 &&
                op_cases[i].apart == 0) /* groups exchange nothing */
                for (int d = 0; d <= op_cases[i].rank[0]; d++)
                    if (d != 1)
                        bn_exchange(&b, &op_cases[i], d);
        backend_close(&b);
    }
}

/* The tester: a part whose halo has a wrong row is seen. */
static void a_missing_halo_is_refused(void **state)
{
    struct cut_case c = {.parts = 2, .part = 0};
    struct train_array in[3], out[1];
    struct train_call call;
    struct train_kernel *k;
    struct pdl_err err = {{0}, {0}};
    struct backend b;
    struct one_op o;
    struct operands w, p;

    (void)state;
    backend_open(&b, &train_ref);
    one_op_open(&o, &op_cases[0]);
    operands_open(&w, &o, PDL_F32);
    c.o = &o;
    plan_site_init(o.model, (int)(o.node - o.model->nodes), 2, &c.site);
    assert_true(plan_rule_role(&c.site, PDL_AXIS_SPATIAL, 0, &c.cut));
    take_parts(&c, &w, &p, PDL_FORWARD);
    in[0] = p.x[0].a;
    in[1] = p.w[0].a;
    in[2] = p.w[1].a;
    out[0] = p.y[0].a;
    call = (struct train_call){.model = o.model,
                               .node = o.node,
                               .nin = 3,
                               .nout = 1,
                               .in = in,
                               .out = out};
    assert_int_equal(b.b->make(b.state, &call, &k, &err), PDL_OK);
    in[0].box.hi[2]--;
    assert_int_equal(b.b->make(b.state, &call, &k, &err), PDL_EWRONG);
    operands_close(&p);
    operands_close(&w);
    one_op_close(&o);
    backend_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_the_whole),
        cmocka_unit_test(wide_parts_equal_the_whole),
        cmocka_unit_test(exchanged_statistics_equal_the_whole),
        cmocka_unit_test(a_missing_halo_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
