/* A machine priced by the operations that were measured on it: times follow a
 * law that the test makes up, rows come from one network, and another network
 * is asked for. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

enum { MAX_ROWS = 4096 };

struct machine {
    pdl_arena *a;
    struct pdl_system sys;
    struct pdl_profile_row row[MAX_ROWS];
};

static const struct pdl_plan *plan_of(pdl_arena *a, const char *model,
                                      const char *strategy, int64_t batch)
{
    struct pdl_model_options mo = {.dims = NULL};
    struct pdl_plan_options po = {.batch = batch, .dtype = PDL_F32};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p;
    struct pdl_err err;

    assert_int_equal(pdl_model_load(a, model, &mo, &m, &err), PDL_OK);
    assert_int_equal(pdl_strategy_parse(a, strategy, s, &err), PDL_OK);
    assert_int_equal(pdl_plan_lower(a, m, s, &po, &p, &err), PDL_OK);
    return p;
}

/* 100 GFLOP/s, activations and weights at some rate each, and a call. */
static double law(const struct pdl_plan_key *k)
{
    const int64_t *e = k->dims + PDL_KEY_EXTENTS;
    double t = 3e-6 + (double)k->dims[PDL_KEY_FLOPS] * 1e-11;

    if (k->ndims == PDL_KEY_EXTENTS + 4) { /* whole tiles are computed */
        t = 3e-6 + 2e-11 * (double)(e[0] * e[1] * e[2] * e[3] *
                                    k->dims[PDL_KEY_CLASS]);
        return t +
               2e-10 * (double)(e[0] * e[3] *
                                (e[1] * k->dims[PDL_KEY_CLASS + 1] + e[2])) +
               5e-10 * (double)(e[1] * e[2] * k->dims[PDL_KEY_CLASS]);
    }
    if (k->ndims == PDL_KEY_EXTENTS + 3)
        return t + 1e-10 * (double)(e[0] * (e[1] + e[2])) +
               2e-10 * (double)(e[1] * e[2]);
    return t + 5e-11 * (double)k->dims[PDL_KEY_BYTES];
}

static int64_t workspace(const struct pdl_plan_key *k)
{
    return k->ndims > PDL_KEY_EXTENTS ? 2 * k->dims[PDL_KEY_BYTES] : 0;
}

/* Groups of a device: as rows of their own. */
static void measure_groups(struct machine *m, const struct pdl_plan *p)
{
    struct pdl_pe *pe = &m->sys.pe;

    for (int i = 0; i < p->nops; i++) {
        struct pdl_profile_row *r = &m->row[pe->nprofile];
        int64_t *dims = PDL_NEW(m->a, int64_t, PDL_KEY_DIMS + 1);
        struct pdl_plan_key k;

        if (p->group[i] < 0 || p->groups[p->group[i]].op[0] != i)
            continue;
        assert_non_null(dims);
        assert_true(pdl_plan_group_key(p, &p->groups[p->group[i]], 0, &k));
        memcpy(dims, k.dims, sizeof k.dims);
        *r = (struct pdl_profile_row){
            .op = pdl_arena_printf(m->a, "run.%s", k.op),
            .pass = k.pass,
            .precision = "fp32",
            .dims = dims,
            .ndims = k.ndims + 1,
            .seconds = law(&k)};
        assert_true(++pe->nprofile < MAX_ROWS);
    }
}

static void measure(struct machine *m, const struct pdl_plan *p)
{
    struct pdl_pe *pe = &m->sys.pe;

    for (int i = 0; i < p->nops; i++) {
        struct pdl_profile_row *r = &m->row[pe->nprofile];
        int64_t *dims;
        struct pdl_plan_key k;

        if (!pdl_plan_op_key(p, i, 0, &k))
            continue;
        if (p->ops[i].kind == PDL_PLAN_OP_UPDATE)
            k.dims[PDL_KEY_CLASS] = 1;
        dims = PDL_NEW(m->a, int64_t, PDL_KEY_DIMS + 1);
        assert_non_null(dims);
        memcpy(dims, k.dims, sizeof k.dims);
        dims[k.ndims] = workspace(&k);
        *r = (struct pdl_profile_row){
            .op = pdl_arena_printf(m->a, "run.%s", k.op),
            .pass = k.pass,
            .precision = "fp32",
            .dims = dims,
            .ndims = k.ndims + 1,
            .seconds = law(&k)};
        assert_true(++pe->nprofile < MAX_ROWS);
    }
    pe->profile = m->row;
}

static struct machine *machine(pdl_arena *a)
{
    struct machine *m = PDL_NEW(a, struct machine, 1);
    struct pdl_err err;

    assert_non_null(m);
    m->a = a;
    assert_int_equal(pdl_system_open(a, "abci-v100", &m->sys, &err), PDL_OK);
    m->sys.pe.arch = "cpu";
    m->sys.pe.units = 1;
    m->sys.pe.profile = NULL;
    m->sys.pe.nprofile = 0;
    return m;
}

static double priced(const struct machine *m, const struct pdl_plan *p, int op)
{
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_op_price price;

    pdl_price_op(p, &m->sys, &o, op, &price);
    return price.seconds;
}

/* The largest error of the logarithm, and that of the sum, over operations
 * that were measured often enough. */
static void compare(const struct machine *m, const struct pdl_plan *p,
                    double *worst, double *whole)
{
    double is = 0, should = 0;

    *worst = 0;
    for (int i = 0; i < p->nops; i++) {
        struct pdl_plan_key k;
        double t;

        if (!pdl_plan_op_key(p, i, 0, &k) ||
            (strcmp(k.op, "conv") != 0 && strcmp(k.op, "relu") != 0 &&
             strcmp(k.op, "batch_norm") != 0))
            continue;
        t = priced(m, p, i);
        *worst = fmax(*worst, fabs(log(t / law(&k))));
        is += t;
        should += law(&k);
    }
    *whole = is / should;
}

static void unseen_shapes_are_priced_by_the_law_of_seen_ones(void **state)
{
    static const char *const strategies[] = {"data=1", "data=4", "spatial=2",
                                             "filter=2"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a);
    double worst, whole;

    (void)state;
    measure(m, plan_of(a, "resnet18:input=96,classes=20", "data=1", 3));
    measure(m, plan_of(a, "resnet18:input=160,classes=70", "data=1", 5));
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        compare(m, plan_of(a, "resnet18:input=64", strategies[i], 8), &worst,
                &whole);
        assert_true(worst < .35);
        assert_true(fabs(whole - 1) < .05);
    }
    pdl_arena_destroy(a);
}

static int first_of(const struct pdl_plan *p, const char *op)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].node >= 0 &&
            strcmp(p->model->nodes[p->ops[i].node].op->name, op) == 0)
            return i;
    fail();
    return -1;
}

/* 5 x 5 kernels were never measured, nor tanh: other sizes of the operator, and
 * operators that do the same to memory, say what they take. */
static void unseen_kernels_are_priced_by_their_kin(void **state)
{
    static const char *const ops[] = {"conv", "tanh"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *none = machine(a);
    const struct pdl_plan *p = plan_of(a, "lenet5", "data=1", 64);

    (void)state;
    measure(m, plan_of(a, "resnet18:input=96", "data=1", 3));
    measure(m, plan_of(a, "resnet18:input=32", "data=1", 3));
    for (int i = 0; i < 2; i++) {
        int op = first_of(p, ops[i]);
        struct pdl_plan_key k;

        assert_true(pdl_plan_op_key(p, op, 0, &k));
        assert_true(fabs(log(priced(m, p, op) / law(&k))) < .5);
        assert_true(priced(m, p, op) != priced(none, p, op));
    }
    pdl_arena_destroy(a);
}

static void other_precisions_do_not_count(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *none = machine(a);
    const struct pdl_plan *p = plan_of(a, "lenet5", "data=1", 8);
    int op = first_of(p, "conv");

    (void)state;
    measure(m, p);
    assert_true(priced(m, p, op) != priced(none, p, op));
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++)
        m->row[i].precision = "bf16";
    assert_true(priced(m, p, op) == priced(none, p, op));
    pdl_arena_destroy(a);
}

/* On a device whose rows have groups the first operation of one has all of it,
 * and what only passes between them no memory. */
static void a_group_of_a_device_is_priced_as_one(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *alone = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=96", "data=1", 4);
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_projection with, without;
    struct pdl_err err;
    int n = 0;

    (void)state;
    m->sys.pe.arch = alone->sys.pe.arch = "hopper";
    measure(m, plan_of(a, "resnet18:input=64", "data=1", 4));
    measure(alone, plan_of(a, "resnet18:input=64", "data=1", 4));
    measure_groups(m, plan_of(a, "resnet18:input=64", "data=1", 4));
    for (int i = 0; i < p->nops; i++) {
        struct pdl_plan_key k;

        if (p->group[i] < 0)
            continue;
        assert_true(priced(alone, p, i) > 0);
        n++;
        if (p->groups[p->group[i]].op[0] != i) {
            assert_true(priced(m, p, i) == 0);
            continue;
        }
        assert_true(pdl_plan_group_key(p, &p->groups[p->group[i]], 0, &k));
        assert_true(fabs(log(priced(m, p, i) / law(&k))) < .05);
    }
    assert_true(n > 60);
    assert_int_equal(pdl_project(p, &m->sys, &o, &with, &err), PDL_OK);
    assert_int_equal(pdl_project(p, &alone->sys, &o, &without, &err), PDL_OK);
    assert_true(with.step_s < without.step_s);
    assert_true(with.activations_bytes <= without.activations_bytes);
    pdl_arena_destroy(a);
}

/* Rows of groups in another precision answer nothing: each operation is asked
 * for by itself, none is free. */
static void groups_of_other_precisions_do_not_count(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *alone = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=64", "data=1", 4);
    int n = 0;

    (void)state;
    m->sys.pe.arch = alone->sys.pe.arch = "hopper";
    measure(m, p);
    measure(alone, p);
    measure_groups(m, p);
    for (int64_t i = alone->sys.pe.nprofile; i < m->sys.pe.nprofile; i++)
        m->row[i].precision = "bf16";
    for (int i = 0; i < p->nops; i++, n++)
        assert_true(
            p->group[i] < 0 ||
            (priced(m, p, i) > 0 && priced(m, p, i) == priced(alone, p, i)));
    assert_true(n > 60);
    pdl_arena_destroy(a);
}

/* What the runtime measured of itself on a GPU says nothing of PyTorch there. */
static void other_frameworks_have_none_of_its_rows(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *none = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=64", "data=1", 4);
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_projection with, without;
    struct pdl_err err;

    (void)state;
    m->sys.pe.arch = none->sys.pe.arch = "hopper";
    measure(m, p);
    measure_groups(m, p);
    for (int own = 0; own < 2; own++) {
        assert_int_equal(
            pdl_framework_open(a, own ? "own" : "pytorch", &o.framework, &err),
            PDL_OK);
        assert_int_equal(pdl_project(p, &m->sys, &o, &with, &err), PDL_OK);
        assert_int_equal(pdl_project(p, &none->sys, &o, &without, &err),
                         PDL_OK);
        assert_true((with.step_s == without.step_s) == !own);
        assert_true((with.allocated_bytes == without.allocated_bytes) == !own);
    }
    pdl_arena_destroy(a);
}

/* What calibrate asks: a row of one network as the rows of others have it. */
static void a_row_is_estimated_from_others(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *other = machine(a);
    struct pdl_profile_row strange = {.op = "conv", .pass = "forward"};

    (void)state;
    measure(m, plan_of(a, "resnet18:input=96,classes=20", "data=1", 3));
    measure(other, plan_of(a, "resnet18:input=64", "data=1", 8));
    for (int64_t i = 0; i < other->sys.pe.nprofile; i++) {
        double t = pdl_profile_estimate(&m->sys.pe, &other->row[i]);

        assert_true(t > 0);
        if (strcmp(other->row[i].op, "run.conv") == 0)
            assert_true(fabs(log(t / other->row[i].seconds)) < .4);
    }
    assert_true(pdl_profile_estimate(&m->sys.pe, &strange) < 0);
    pdl_arena_destroy(a);
}

/* Operations that were timed one by one on a device, each with some time of the
 * looking: a step has none of it, and never less than a quarter is left. */
static void a_step_is_not_looked_at(void **state)
{
    enum { OPS = 100 };
    static const double looking = 5e-6;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=64", "data=1", 8);
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_projection with, without;
    struct pdl_op_price before, after;
    struct pdl_err err;
    static const int64_t dims[] = {OPS, 1000000, 1};

    (void)state;
    m->sys.pe.arch = "hopper";
    measure(m, p);
    assert_int_equal(pdl_project(p, &m->sys, &o, &with, &err), PDL_OK);
    pdl_price_op(p, &m->sys, &o, 0, &before);
    m->row[m->sys.pe.nprofile++] = (struct pdl_profile_row){
        .op = "step",
        .pass = "forward",
        .precision = "fp32",
        .dims = dims,
        .ndims = 3,
        .seconds = (double)dims[1] * 1e-9 - OPS * looking};
    assert_int_equal(pdl_project(p, &m->sys, &o, &without, &err), PDL_OK);
    pdl_price_op(p, &m->sys, &o, 0, &after);
    assert_true(before.seconds > 2 * looking);
    assert_true(fabs(before.seconds - after.seconds - looking) < 1e-9);
    assert_true(with.step_s - without.step_s > 30 * looking);
    assert_true(fabs(pdl_unwatched(4e-6, looking) - 1e-6) < 1e-12);
    pdl_arena_destroy(a);
}

/* Two rows as near, one of as many channels less, one more: that which the same
 * power of two divides is like what is asked for. */
static void what_divides_channels_is_near(void **state)
{
    static const int64_t dims[][PDL_KEY_DIMS + 1] = {
        {100000000, 1000000, 9, 1, 0, 8, 96, 96, 64, 0},
        {100000000, 1000000, 9, 1, 0, 8, 170, 170, 64, 0},
        {100000000, 1000000, 9, 1, 0, 8, 128, 128, 64, 0}};
    struct pdl_profile_row row[2];
    struct pdl_profile_row of = {.op = "run.conv",
                                 .pass = "forward",
                                 .precision = "fp32",
                                 .dims = dims[2],
                                 .ndims = PDL_KEY_DIMS + 1,
                                 .seconds = 1};
    struct pdl_pe pe = {.arch = "hopper", .profile = row, .nprofile = 2};
    double device, core;

    (void)state;
    for (int i = 0; i < 2; i++) {
        row[i] = of;
        row[i].dims = dims[i];
        row[i].seconds = i == 0 ? 4e-3 : 1e-3; /* no rates explain */
    }
    device = pdl_profile_estimate(&pe, &of);
    pe.arch = "cpu";
    core = pdl_profile_estimate(&pe, &of);
    assert_true(core > 0 && device > 1.2 * core);
}

static void a_wrong_row_is_felt(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=64", "data=1", 8);
    double worst, whole;

    (void)state;
    measure(m, plan_of(a, "resnet18:input=96,classes=20", "data=1", 3));
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++)
        m->row[i].seconds *= strcmp(m->row[i].op, "run.conv") == 0 ? 2 : 1;
    compare(m, p, &worst, &whole);
    assert_true(whole > 1.5);
    pdl_arena_destroy(a);
}

static void the_workspace_is_part_of_the_memory(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *none = machine(a);
    const struct pdl_plan *p = plan_of(a, "resnet18:input=96", "data=1", 3);
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_projection with, without;
    struct pdl_err err;
    int64_t most = 0;

    (void)state;
    measure(m, p);
    for (int i = 0; i < p->nops; i++) {
        struct pdl_plan_key k;

        if (pdl_plan_op_key(p, i, 0, &k) && workspace(&k) > most)
            most = workspace(&k);
    }
    assert_int_equal(pdl_project(p, &m->sys, &o, &with, &err), PDL_OK);
    assert_int_equal(pdl_project(p, &none->sys, &o, &without, &err), PDL_OK);
    assert_int_equal(without.workspace_bytes, 0);
    assert_true(with.allocated_bytes >= without.allocated_bytes);
    assert_true(with.allocated_bytes - without.allocated_bytes <= most);
    /* where it is more than everything else, the worst moment is its own */
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++) {
        struct pdl_profile_row *r = &m->row[i];
        int64_t *dims = PDL_NEW(a, int64_t, r->ndims);

        assert_non_null(dims);
        memcpy(dims, r->dims, (size_t)r->ndims * sizeof *dims);
        dims[r->ndims - 1] *= 100;
        r->dims = dims;
    }
    assert_int_equal(pdl_project(p, &m->sys, &o, &with, &err), PDL_OK);
    assert_true(fabs((double)with.workspace_bytes / 100 / (double)most - 1) <
                .1);
    assert_int_equal(with.weights_bytes + with.gradients_bytes +
                         with.optimizer_bytes + with.activations_bytes +
                         with.workspace_bytes + with.comm_buffers_bytes,
                     with.allocated_bytes);
    pdl_arena_destroy(a);
}

static void drop(struct machine *m, const char *op)
{
    int64_t n = 0;

    for (int64_t i = 0; i < m->sys.pe.nprofile; i++)
        if (strcmp(m->row[i].op, op) != 0)
            m->row[n++] = m->row[i];
    m->sys.pe.nprofile = n;
}

/* What a rank keeps of a tensor is copied in pieces; the operator `slice`, of
 * class tokens, in one. Concatenations copy in pieces, and say how fast. */
static void a_part_is_not_priced_as_the_operator(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a), *none = machine(a), *like = machine(a),
                   *slow = machine(a);
    const struct pdl_plan *p =
        plan_of(a, "unet:padding=same,input=32,base=8", "filter=2", 2);
    int n = 0;

    (void)state;
    measure(m, plan_of(a, "deit-tiny:layers=1", "data=1", 2));
    measure(like, plan_of(a, "unet:padding=same,input=48,base=8", "data=1", 2));
    measure(slow, plan_of(a, "unet:padding=same,input=48,base=8", "data=1", 2));
    for (int64_t i = 0; i < slow->sys.pe.nprofile; i++)
        slow->row[i].seconds *= 2;
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++)
        n += strcmp(m->row[i].op, "run.slice") == 0;
    assert_true(n > 0);
    drop(m, "run.concat"); /* of the class token and the patches */
    n = 0;
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_SLICE) {
            struct pdl_plan_copies c;
            double t = priced(slow, p, i) - priced(like, p, i);

            pdl_plan_copies(p, i, 0, &c);
            assert_true(c.bytes > 0);
            assert_true(fabs(t / (3e-6 + 1e-10 * (double)c.bytes) - 1) < .1);
            assert_true(priced(m, p, i) == priced(none, p, i));
            n++;
        }
    assert_true(n > 0);
    pdl_arena_destroy(a);
}

/* Sums of gradients take what was measured at their size, not what a line
 * through all sizes has. */
static void an_allreduce_is_priced_by_its_size(void **state)
{
    static const int64_t v[2][2] = {{1 << 20, 100000}, {64 << 20, 20000000}};
    static const struct pdl_ints times[] = {{v[0], 2}, {v[1], 2}};
    static const struct pdl_collective_fit fit = {.op = "allreduce",
                                                  .library = "paradl",
                                                  .pes = 2,
                                                  .nodes = 1,
                                                  .alpha_s = 1e-6,
                                                  .bytes_per_s = 1e10,
                                                  .times = times,
                                                  .ntimes = 2};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a);
    const struct pdl_plan *p = plan_of(a, "alexnet", "data=2", 2);
    double largest = 0;

    (void)state;
    m->sys.collectives = &fit;
    m->sys.ncollectives = 1;
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_ALLREDUCE)
            largest = fmax(largest, priced(m, p, i));
    assert_true(largest > .9 * 20e-3); /* of 64 MiB and more */
    m->sys.pe.arch = "gpu";
    for (int i = 0; i < p->nops; i++)
        assert_true(p->ops[i].kind != PDL_PLAN_OP_ALLREDUCE ||
                    priced(m, p, i) < .5 * largest);
    pdl_arena_destroy(a);
}

/* As kernels have it that transform tiles of 3 x 3 where channels are many. */
static int64_t of_tiles(const int64_t *dims, int64_t ndims)
{
    const int64_t *e = dims + PDL_KEY_EXTENTS, *c = dims + PDL_KEY_CLASS;
    int64_t n =
        ndims == PDL_KEY_EXTENTS + 4 ? 900 * e[0] * e[3] * (e[1] + e[2]) : 0;

    return e[1] < PDL_KEY_WIDE || e[2] < PDL_KEY_WIDE || c[0] != 9 || c[1] != 1
               ? n / 1000
               : n;
}

/* What is asked for, and what was measured. */
static const struct {
    const char *model, *probes[2];
    int64_t batch;
} tiled[] = {
    {"unet:padding=same,input=96,base=24",
     {"unet:padding=same,input=64,base=16", NULL},
     3},
    {"unet3d:padding=same,input=32,depth=32,base=16",
     {"unet:padding=same,input=64,base=16",
      "unet3d:padding=same,input=16,depth=16,base=3"},
     1},
};

static void guess(const char *model, const char *const *probes, int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct machine *m = machine(a);
    const struct pdl_plan *p = plan_of(a, model, "data=1", batch);
    struct pdl_oracle_options o = {.parameters = PDL_EMPIRICAL,
                                   .precision = PDL_PREC_FP32,
                                   .optimizer_slots = 1};
    struct pdl_projection got, none;
    struct pdl_err err;
    int64_t most = 0;

    for (int i = 0; i < 2 && probes[i]; i++)
        measure(m, plan_of(a, probes[i], "data=1", 2));
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++)
        ((int64_t *)m->row[i].dims)[m->row[i].ndims - 1] = 0;
    assert_int_equal(pdl_project(p, &m->sys, &o, &none, &err), PDL_OK);
    for (int64_t i = 0; i < m->sys.pe.nprofile; i++) {
        const struct pdl_profile_row *r = &m->row[i];

        ((int64_t *)r->dims)[r->ndims - 1] = of_tiles(r->dims, r->ndims - 1);
    }
    for (int i = 0; i < p->nops; i++) {
        struct pdl_plan_key k;

        if (pdl_plan_op_key(p, i, 0, &k) && of_tiles(k.dims, k.ndims) > most)
            most = of_tiles(k.dims, k.ndims);
    }
    assert_int_equal(pdl_project(p, &m->sys, &o, &got, &err), PDL_OK);
    assert_true((double)(got.allocated_bytes - none.allocated_bytes) <
                1.1 * (double)most);
    if (got.workspace_bytes > PDL_PLAN_SMALL_WORK ||
        most > none.allocated_bytes)
        assert_true(fabs((double)got.workspace_bytes / (double)most - 1) < .1);
    pdl_arena_destroy(a);
}

static void a_workspace_is_guessed_by_kernels_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tiled / sizeof tiled[0]; i++)
        guess(tiled[i].model, tiled[i].probes, tiled[i].batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unseen_shapes_are_priced_by_the_law_of_seen_ones),
        cmocka_unit_test(unseen_kernels_are_priced_by_their_kin),
        cmocka_unit_test(other_precisions_do_not_count),
        cmocka_unit_test(a_group_of_a_device_is_priced_as_one),
        cmocka_unit_test(groups_of_other_precisions_do_not_count),
        cmocka_unit_test(other_frameworks_have_none_of_its_rows),
        cmocka_unit_test(a_row_is_estimated_from_others),
        cmocka_unit_test(a_step_is_not_looked_at),
        cmocka_unit_test(what_divides_channels_is_near),
        cmocka_unit_test(a_wrong_row_is_felt),
        cmocka_unit_test(the_workspace_is_part_of_the_memory),
        cmocka_unit_test(a_part_is_not_priced_as_the_operator),
        cmocka_unit_test(an_allreduce_is_priced_by_its_size),
        cmocka_unit_test(a_workspace_is_guessed_by_kernels_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
