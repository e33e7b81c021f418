/* The cuda device against the reference: every operator and pass on the GPU,
 * small odd shapes and those of real networks; then whole runs: two and four
 * ranks on the one GPU under every kind of strategy against the serial run.
 * Skipped, aloud, where there is no GPU; the same calls then run on the twin, so
 * that the test itself is tested. `--only TEXT` runs the cases it names. */
#include "cases.h"
#include "real_cases.h"
#include "train_runs.h"

#include <unistd.h>

static const char *only = "";
static const struct train_device *device; /* cuda, else the twin */
static int every = 1; /* ... which opens its memory for each call: a few do */

/* ---- operators ------------------------------------------------------------- */

/* float32: the difference relative to the size of the whole array. */
static double difference(const struct value *a, const struct value *b)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < a->n; i++) {
        double x = get(a, i), y = get(b, i);

        if (isnan(x) != isnan(y))
            return INFINITY;
        d += (x - y) * (x - y);
        s += x * x;
    }
    return sqrt(d / (s > 0 ? s : 1));
}

/* bfloat16: units in the last place of each element, or of the mean size of
 * elements where that is larger (sums that cancel). */
static double places(const struct value *a, const struct value *b)
{
    double s = 0, most = 0;

    for (int64_t i = 0; i < a->n; i++)
        s += get(a, i) * get(a, i);
    s = sqrt(s / (double)(a->n > 0 ? a->n : 1));
    for (int64_t i = 0; i < a->n; i++) {
        double x = get(a, i), y = get(b, i), size = fmax(fabs(x), s);
        double d = fabs(x - y) / ldexp(1, ilogb(size > 0 ? size : 1) - 7);

        if (isnan(x) != isnan(y))
            return INFINITY;
        most = d > most ? d : most;
    }
    return most;
}

struct bar {
    enum pdl_dtype dtype;
    double (*measure)(const struct value *a, const struct value *b);
    double most;
};

/* What float32 loses in a sum is told by its square root; a kernel that rounds
 * once too often by a unit or two. */
static const struct bar bars[] = {{PDL_F32, difference, 1e-5},
                                  {PDL_BF16, places, 4}};

/* What the host still does for the device, operators and forms of others: these,
 * and nothing unnoticed. */
// clang-format off
static const char *const by_host[] = {
    "abs", "adaptive_avg_pool", "affine", "and", "cast", "clip",
    "cos", "div", "elu", "equal", "erf", "exp",
    "experts", "global_max_pool", "greater", "greater_equal", "group_norm", "instance_norm",
    "join_heads", "leaky_relu", "less", "less_equal", "log", "log_softmax",
    "lrn", "matmul", "max", "mean", "min", "mish",
    "neg", "not", "or", "pad", "pow", "power",
    "prelu", "reciprocal", "reduce_l2", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "resize", "scale", "selu", "sin",
    "slice_heads", "softmax", "softplus", "softsign", "sqrt", "sub",
    "where", "xor",
    NULL};
static const char *const forms_by_host[] = {
    "conv 1-D", "conv_transpose 2x2",
    "conv_transpose grouped", "conv_transpose 64",
    "max_pool 3-D", "max_pool 3-D, large windows",
    "shuffled channels: apart", "shuffled channels: joined",
    "hard_sigmoid, its own line",
    "add stretched", "add a weight",
    "add a long weight", "add three",
    "add of features to an image", "mul stretched",
    "mul stretched, the other way round", "mul a weight",
    "gate of 300 channels", "gate the other way round",
    "mask of an image", "rope of long waves, stretched",
    "rope stretched as in Llama 3.1", "attention with slopes",
    "attention with slopes, causal, grouped", "attention by distances",
    "attention by distances, causal", "attention of 130 with slopes",
    "attention of 150 by distances", "attention of 70 by distances, causal",
    NULL};
// clang-format on

static bool is_listed(const char *op, const char *const *list)
{
    while (*list && strcmp(*list, op) != 0)
        list++;
    return *list != NULL;
}

struct verdict {
    double worst[3];
    const char *names[3];
};

/* Running statistics, which only a forward pass that is no repetition moves. */
static double buffers_apart(struct backend *ref, struct backend *gpu,
                            const struct one_op *o, struct operands *a,
                            struct operands *b, const struct bar *bar)
{
    double most = 0;

    for (int j = 0; j < a->nw; j++) {
        if (a->learned[j])
            continue;
        run_when(ref, a, o, PDL_FORWARD, false);
        run_when(gpu, b, o, PDL_FORWARD, false);
        most = fmax(most, bar->measure(&a->w[j], &b->w[j]));
    }
    return most;
}

static void compare(struct backend *ref, struct backend *gpu,
                    const struct op_case *c, const struct bar *bar,
                    struct verdict *v)
{
    struct one_op o;
    struct operands a, b;

    one_op_open(&o, c);
    operands_open(&a, &o, bar->dtype);
    operands_open(&b, &o, bar->dtype);
    add_aux(ref, &a, &o);
    add_aux(gpu, &b, &o);
    *v = (struct verdict){{0}, {NULL}};
    for (int p = 0; p < 3; p++) {
        run_pass(ref, &a, &o, (enum pdl_pass)p);
        v->names[p] = run_pass(gpu, &b, &o, (enum pdl_pass)p);
    }
    for (int k = 0; k < a.ny; k++)
        v->worst[0] = fmax(v->worst[0], bar->measure(&a.y[k], &b.y[k]));
    for (int i = 0; i < a.nx; i++)
        v->worst[1] = fmax(v->worst[1], bar->measure(&a.dx[i], &b.dx[i]));
    for (int j = 0; j < a.nw; j++)
        if (a.learned[j])
            v->worst[2] = fmax(v->worst[2], bar->measure(&a.dw[j], &b.dw[j]));
    v->worst[0] = fmax(v->worst[0], buffers_apart(ref, gpu, &o, &a, &b, bar));
    operands_close(&a);
    operands_close(&b);
    one_op_close(&o);
}

static bool is_by_host(const struct verdict *v)
{
    for (int p = 0; p < 3; p++)
        if (strncmp(v->names[p], "host:", 5) == 0)
            return true;
    return false;
}

static int judge(struct backend *ref, struct backend *gpu,
                 const struct op_case *c, const struct bar *bar)
{
    static const char *const passes[] = {"forward", "backward-data",
                                         "backward-weights"};
    struct verdict v;
    int wrong = 0;

    if (!strstr(c->name, only))
        return 0;
    compare(ref, gpu, c, bar, &v);
    print_message("%-44s %-5s %9.2g %9.2g %9.2g  %s\n", c->name,
                  pdl_dtype_name(bar->dtype), v.worst[0], v.worst[1],
                  v.worst[2], is_by_host(&v) ? "by the host" : "");
    for (int p = 0; p < 3; p++)
        if (!(v.worst[p] <= bar->most)) {
            print_error("%s, %s in %s differs by %g\n", c->name, passes[p],
                        pdl_dtype_name(bar->dtype), v.worst[p]);
            wrong++;
        }
    if (is_by_host(&v) && !is_listed(c->op, by_host) &&
        !is_listed(c->name, forms_by_host)) {
        print_error("%s runs on the host unnoticed\n", c->name);
        wrong++;
    }
    return wrong;
}

static void every_kernel_is_the_references(void **state)
{
    struct backend ref, gpu;
    int wrong = 0;

    (void)state;
    backend_open(&ref, &train_ref);
    device_open(&gpu, device);
    for (size_t k = 0; k < sizeof bars / sizeof bars[0]; k++) {
        for (int i = 0; i < NCASES; i += every)
            wrong += judge(&ref, &gpu, &op_cases[i], &bars[k]);
        for (int i = 0; i < NREAL; i += every)
            wrong += judge(&ref, &gpu, &real_cases[i], &bars[k]);
    }
    backend_close(&gpu);
    backend_close(&ref);
    assert_int_equal(wrong, 0);
}

/* ---- strategies ------------------------------------------------------------ */

struct example {
    const char *model, *strategy;
    int64_t batch;
};

#define POOL   PDL_SOURCE_DIR "/tests/data/pool.yaml"
#define GPT    "gpt:layers=2,hidden=32,heads=4,ffn=48,vocab=40,seq=16"
#define RESNET "resnet-cifar:depth=8,input=16"
#define MOE \
    "moe:layers=2,hidden=16,heads=2,ffn=12,vocab=24,seq=8,experts=4,topk=2"

// clang-format off
static const struct example examples[] = {
    {"lenet5", "data=2",                       4},
    {"lenet5", "data=4,zero=1",                8},
    {"lenet5", "data=2,zero=3",                4},
    {"lenet5", "spatial=2",                    4},
    {"lenet5", "data=2,spatial=2",             4},
    {"lenet5", "filter=2",                     4},
    {"lenet5", "channel=2",                    4},
    {"lenet5", "data=2,filter=2",              4},
    {"lenet5", "pipe=2",                       4},
    {POOL,     "spatial=2",                    4},
    {RESNET,   "data=2,bn=sync",               8},
    {RESNET,   "spatial=2,bn=sync",            4},
    {RESNET,   "filter=2",                     4},
    {RESNET,   "data=2,bn=sync,recompute=full", 8},
    {GPT,      "data=4",                       8},
    {GPT,      "data=2,zero=3,recompute=full", 8},
    {GPT,      "tensor=2",                     4},
    {GPT,      "tensor=2+seq",                 4},
    {GPT,      "tensor=4+seq",                 4},
    {GPT,      "data=2,tensor=2+seq",          4},
    {GPT,      "context=2",                    4},
    {GPT,      "context=4(plain)",             4},
    {GPT,      "context=2(gather)",            4},
    {GPT,      "pipe=2(gpipe,m=2)",            4},
    {GPT,      "pipe=2(1f1b,m=4)",             8},
    {GPT,      "pipe=2(interleaved,v=2,m=2)",  4},
    {GPT,      "pipe=2(zb-v,m=4)",             8},
    {GPT,      "pipe=2(1f1b,m=2),data=2",      8},
    {MOE,      "expert=2",                     4},
    {MOE,      "data=2,expert=2",              4},
};
// clang-format on

static const struct pdl_plan *plan_of(pdl_arena *a, const struct example *e,
                                      const char *strategy)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {
        .batch = e->batch, .dtype = PDL_F32, .allow_empty = true};
    const struct pdl_model *m = NULL;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_load(a, e->model, NULL, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s, %s: %s", e->model, strategy, err.msg);
    return p;
}

/* A pipeline of m micro-batches is the serial run that takes them in turn. */
static const char *serial_of(const struct example *e, char text[32])
{
    const char *m = strstr(e->strategy, "m=");

    snprintf(text, 32, "accumulate=%d", m ? (int)strtol(m + 2, NULL, 10) : 1);
    return m ? text : "serial";
}

static int same_training(const struct example *e, const char *than,
                         const char *name)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    struct pdl_train_comparison c = {.steps = 3, .lr = 0.01, .tolerance = 1e-4};
    struct pdl_train_diff d;
    struct pdl_err err = {{0}, {0}};
    int wrong = 0;

    c.a = plan_of(a, e, than);
    c.b = plan_of(a, e, e->strategy);
    c.opt = (struct pdl_train_options){.device = name, .seed = 5};
    if (pdl_train_compare(&c, &d, &err) != PDL_OK) {
        print_error("%s, %s: %s\n", e->model, e->strategy, err.msg);
        wrong++;
    } else if (d.differs) {
        print_error("%s, %s: %s in step %d: %g, %s %g\n", e->model, e->strategy,
                    d.what, (int)d.step, d.got, than, d.want);
        wrong++;
    } else {
        print_message("%-60s %-32s %d parts equal, %d in bits\n", e->model,
                      e->strategy, (int)d.compared, (int)d.bitwise);
    }
    pdl_arena_destroy(a);
    return wrong;
}

static void ranks_on_one_device_train_the_serial_network(void **state)
{
    char text[32];
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0];
         i += (size_t)every)
        if (strstr(examples[i].strategy, only))
            wrong += same_training(&examples[i], serial_of(&examples[i], text),
                                   device->name);
    assert_int_equal(wrong, 0);
}

/* What one rank does with groups of its samples is what as many ranks do. */
static void groups_of_a_rank_are_ranks(void **state)
{
    static const struct {
        struct example ranks;
        const char *groups;
    } pairs[] = {
        {{RESNET, "data=4", 8}, "bn-groups=4"},
        {{RESNET, "data=2", 8}, "bn-groups=2"},
        {{RESNET, "data=2,bn-groups=4", 8}, "bn-groups=4"},
        {{RESNET, "data=4,accumulate=2", 16}, "bn-groups=4,accumulate=2"},
        {{RESNET, "data=4", 8}, "bn-groups=4,recompute=full"},
    };
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i += (size_t)every)
        if (strstr(pairs[i].groups, only))
            wrong +=
                same_training(&pairs[i].ranks, pairs[i].groups, device->name);
    assert_int_equal(wrong, 0);
}

/* ---- what is kept and done again ------------------------------------------- */

/* The largest difference of two states, of numbers as large as weights. */
static double apart(const struct pdl_buf *a, const struct pdl_buf *b)
{
    const float *x = (const void *)a->text, *y = (const void *)b->text;
    double most = 0;

    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len / sizeof *x; i++) {
        double d = fabs((double)x[i] - (double)y[i]) / (1 + fabs((double)x[i]));

        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

/* Losses and states of all ranks after three steps. */
static void trains_as_the_host(const struct pdl_plan *plan, const char *name,
                               const char *optimizer, double tolerance)
{
    struct job host = {
        .plan = plan,
        .opt = {.backend = "ref", .optimizer = optimizer, .seed = 5},
        .fault_op = -1};
    struct job gpu = host;
    struct pdl_err err = {{0}, {0}};

    gpu.opt.device = device->name;
    if (run(&host, &err) != PDL_OK || run(&gpu, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    for (int k = 0; k < STEPS; k++)
        assert_true(fabs(gpu.loss[k] / host.loss[k] - 1) < tolerance);
    for (int r = 0; r < (int)plan->mesh->pes; r++) {
        double d = apart(&host.state[r], &gpu.state[r]);

        print_message("%s, rank %d: %g\n", name, r, d);
        assert_true(d < tolerance);
    }
    forget(&host);
    forget(&gpu);
}

/* From the third step on stretches are done again: kernels between them, here
 * norms' gradients between exchanges of small buckets, are of that step. */
static void what_lies_between_stretches_is_of_its_step(void **state)
{
    static const char *const strategies[] = {"serial", "data=2,bucket=1B",
                                             "accumulate=2", "bn-groups=4"};
    /* the twin has no kernels that only many channels reach */
    const char *model = every > 1 ? RESNET ",width=4" : RESNET;

    (void)state;
    for (int i = 0; i < 4; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

        trains_as_the_host(lowered(a, model, strategies[i], 8, PDL_F32),
                           strategies[i], "sgd", 1e-4);
        pdl_arena_destroy(a);
    }
}

/* More rows than a GPU has processors, and rows of which two, one or none fit
 * into the memory of one. Adam shows the gradient of every class, and in bfloat16
 * the signs of the smallest by chance. */
static void losses_of_many_classes_are_the_hosts(void **state)
{
    static const int classes[] = {1000, 20000, 40000, 60000};

    (void)state;
    for (int i = 0; i < (every > 1 ? 1 : 8); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        char model[80];
        bool half = i >= 4;

        snprintf(model, sizeof model,
                 "gpt:layers=1,hidden=8,heads=1,ffn=8,vocab=%d,seq=34",
                 classes[i % 4]);
        trains_as_the_host(
            lowered(a, model, "serial", 8, half ? PDL_BF16 : PDL_F32), model,
            half ? "sgd" : "adam", half ? 1e-3 : 1e-4);
        pdl_arena_destroy(a);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_the_references),
        cmocka_unit_test(ranks_on_one_device_train_the_serial_network),
        cmocka_unit_test(groups_of_a_rank_are_ranks),
        cmocka_unit_test(what_lies_between_stretches_is_of_its_step),
        cmocka_unit_test(losses_of_many_classes_are_the_hosts),
    };
    const char *which = NULL;
    struct pdl_err err;

    if (argc == 3 && strcmp(argv[1], "--only") == 0)
        only = argv[2];
    (void)!train_device_find("auto", &device, &which, &err);
    if (!device) {
        puts("NO GPU that can be used: some of the calls run on the twin");
        every = 10;
        (void)!train_device_find("twin", &device, &which, &err);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
