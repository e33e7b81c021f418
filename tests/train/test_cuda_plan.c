/* What the cuda device says of calls and plans before anything runs, on a GPU
 * that is only described: what forward leaves for backward, and on which boxes;
 * what it refuses; what it forgets when a stretch is done again. Skipped, aloud,
 * where the device is not in the build. */
#include "cases.h"
#include "real_cases.h"
#include "train_runs.h"

#ifdef PDL_HAVE_CUDA
#include "train/backends/cuda/cuda.h"

#define GPU "cuda:" PDL_SOURCE_DIR "/tests/data/cuda/h200.json"

/* ---- what forward leaves --------------------------------------------------------- */

static enum train_aux asked(const struct train_backend *b, struct operands *p,
                            const struct one_op *o, struct train_array *aux)
{
    struct train_array ins[40], outs[40];
    struct train_call c = {.model = o->model,
                           .node = o->node,
                           .pass = PDL_FORWARD,
                           .in = ins,
                           .out = outs};
    struct list in, out;

    p->has_aux = false;
    lists_of(p, o, PDL_FORWARD, &in, &out);
    for (int i = 0; i < in.n; i++)
        ins[i] = in.v[i]->a;
    for (int i = 0; i < out.n; i++)
        outs[i] = out.v[i]->a;
    c.nin = in.n;
    c.nout = out.n;
    return b->aux(&c, aux);
}

/* What the reference leaves beside each result, neighbours want, too. */
static int agree(const struct op_case *c, enum pdl_dtype dtype)
{
    struct train_array ref, gpu;
    struct operands p;
    struct one_op o;
    bool beside;
    int wrong = 0;

    one_op_open(&o, c);
    operands_open(&p, &o, dtype);
    beside = asked(&train_ref, &p, &o, &ref) == TRAIN_AUX_LIKE_Y;
    if ((asked(&train_cuda.kernels, &p, &o, &gpu) == TRAIN_AUX_LIKE_Y) !=
        beside) {
        print_error("%s: cuda's travels %s its result\n", c->name,
                    beside ? "not with" : "with");
        wrong++;
    } else if (beside && !train_same_box(&gpu.box, &p.y[0].a.box)) {
        print_error("%s: cuda's is not one for each result\n", c->name);
        wrong++;
    }
#ifdef PDL_HAVE_DNNL
    if (beside && asked(&train_cpu, &p, &o, &ref) == TRAIN_AUX_LIKE_Y &&
        ref.dtype != gpu.dtype) {
        print_error("%s: cuda's is %s, not %s\n", c->name,
                    pdl_dtype_name(gpu.dtype), pdl_dtype_name(ref.dtype));
        wrong++;
    }
#endif
    operands_close(&p);
    one_op_close(&o);
    return wrong;
}

static void what_forward_leaves_travels_as_the_references(void **state)
{
    int wrong = 0;

    (void)state;
    for (int i = 0; i < NCASES; i++)
        wrong += agree(&op_cases[i], PDL_F32) + agree(&op_cases[i], PDL_BF16);
    for (int i = 0; i < NREAL; i++)
        if (real_cases[i].dim[0][0] <= 64) /* the numbers do not matter */
            wrong += agree(&real_cases[i], PDL_F32);
    assert_int_equal(wrong, 0);
}

/* ---- plans ----------------------------------------------------------------------- */

/* No convolution: nothing here asks for a library. */
static const struct pdl_plan *plan_of(pdl_arena *a, const char *strategy)
{
    static const char yaml[] =
        "format: paradl-model/1\nname: tiny\nkind: cnn\n"
        "inputs:\n  - {name: input, shape: [4, 16, 16]}\n"
        "layers:\n"
        "  - {op: scale, name: scale}\n" /* its gradient: bn has one, too */
        "  - {op: batch_norm, name: bn}\n"
        "  - {op: relu, name: relu}\n"
        "  - {op: max_pool, name: pool, kernel: 3, stride: 2, pad: 1}\n"
        "  - {op: flatten, name: flatten}\n"
        "  - {op: linear, name: fc, features: 10}\n";
    struct pdl_plan_options opt = {.batch = 4, .dtype = PDL_F32};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_yaml(a, (struct pdl_bytes){yaml, strlen(yaml)}, "tiny", &m,
                       &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return p;
}

struct seen {
    const struct pdl_plan *plan;
    int pools, wrong;
    int64_t groups; /* of what a norm leaves */
};

/* A norm leaves the statistics of every group. */
static void look_at_norm(const pdl_trainer *t, const struct pdl_plan_op *o,
                         const struct train_op *x, struct seen *s)
{
    s->wrong += x->kernel && strcmp(x->kernel->implementation, "cuda") != 0;
    for (int k = 0; o->pass == PDL_FORWARD && k < x->nout; k++)
        if (t->arrays[x->out[k]].box.ndims == 3)
            s->groups = t->arrays[x->out[k]].box.hi[0];
}

/* Backward reads a position for each gradient that it reads. */
static void look(pdl_trainer *t, struct seen *s)
{
    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];
        const struct train_op *x = &t->ops[i];
        const struct train_array *dy, *at;

        enum pdl_op_id id;

        if (o->kind != PDL_PLAN_OP_COMPUTE || o->node < 0 || !x->mine)
            continue;
        id = pdl_op_id(t->plan->model->nodes[o->node].op);
        if (id == PDL_ID_BATCH_NORM)
            look_at_norm(t, o, x, s);
        if (o->pass != PDL_BACKWARD_DATA || id != PDL_ID_MAX_POOL)
            continue;
        dy = &t->arrays[x->in[0]];
        at = &t->arrays[x->in[x->nin - 1]];
        s->pools++;
        s->wrong += !train_same_box(&dy->box, &at->box) ||
                    at->dtype != PDL_U8 ||
                    strcmp(x->kernel->implementation, "cuda") != 0;
    }
}

static enum pdl_status open_one(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct seen *s = ctx;
    struct pdl_train_options opt = {.device = GPU, .only_size = true};
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(s->plan, comm, &opt, &t, err);

    if (st == PDL_OK && pdl_comm_rank(comm) == 0)
        look(t, s);
    pdl_trainer_close(t);
    return st;
}

static enum pdl_status open_plan(pdl_arena *a, const char *strategy,
                                 struct seen *s, struct pdl_err *err)
{
    *s = (struct seen){.plan = plan_of(a, strategy)};
    return pdl_train_virtual((int)s->plan->mesh->pes, 60, open_one, s, err);
}

static void positions_of_maxima_have_the_halo_of_gradients(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {{0}, {0}};
    struct seen s;

    (void)state;
    if (open_plan(a, "spatial=2,bn=local", &s, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s.pools, 1);
    assert_int_equal(s.wrong, 0);
    pdl_arena_destroy(a);
}

/* Also where a norm is part of a larger kernel. */
static void groups_of_samples_stay_on_the_device(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {{0}, {0}};
    struct seen s;

    (void)state;
    if (open_plan(a, "bn-groups=2", &s, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s.groups, 2);
    assert_int_equal(s.wrong, 0);
    pdl_arena_destroy(a);
}

/* ---- work that is kept ------------------------------------------------------------- */

static bool remembers(const struct cuda_state *s)
{
    for (int i = 0; i < CUDA_SUMMED; i++)
        if (s->summed[i].aux)
            return true;
    return false;
}

/* A stretch that is done again brings new statistics, one that was only
 * captured has made no sums: those of before are nobody's. No call of the
 * runtime need succeed for that. */
static void sums_of_norms_are_forgotten_with_a_stretch(void **state)
{
    struct cuda_state s = {.device = 0};
    struct train_moment when = {.step = 3};
    void *work = NULL, *room[8] = {NULL};
    struct pdl_err err;

    (void)state;
    s.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    s.summed[3].aux = s.summed[3].dy = &s;
    (void)!train_cuda_repeat(&s, room, &when, &err);
    assert_false(remembers(&s));
    s.summed[3].aux = s.summed[3].dy = &s;
    (void)!train_cuda_held(&s, &work, &err);
    assert_false(remembers(&s));
    train_cuda_drop_held(&s);
    pdl_arena_destroy(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_forward_leaves_travels_as_the_references),
        cmocka_unit_test(positions_of_maxima_have_the_halo_of_gradients),
        cmocka_unit_test(groups_of_samples_stay_on_the_device),
        cmocka_unit_test(sums_of_norms_are_forgotten_with_a_stretch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else
int main(void)
{
    puts("SKIPPED: the device cuda is not in this build");
    return 77;
}
#endif
