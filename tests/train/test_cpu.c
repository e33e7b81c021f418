/* The cpu backend against the reference: every operator and pass, small odd
 * shapes and shapes of real networks; parts against the whole; and which
 * implementation runs. */
#include "cases.h"
#include "effort.h"

#ifdef PDL_HAVE_DNNL

#ifdef _OPENMP
#include <omp.h>
#else /* the same kernels, on one thread */
static void omp_set_num_threads(int n)
{
    (void)n;
}
#endif

/* ---- real shapes ------------------------------------------------------------ */

// clang-format off
#define X(...) .nin = 1, .rank = {sizeof((int64_t[]){__VA_ARGS__}) / 8}, .dim = {{__VA_ARGS__}}
#define CONV(k, q, p, f) {.kernel = {k, k}, .stride = {q, q}, .pad = {p, p}, .pad_end = {p, p}, .features = f, .no_bias = true}
static const struct op_case real_cases[] = {
    {"conv of an image", "conv", X(3, 32, 32), CONV(7, 2, 3, 64)},
    {"conv 3x3 64", "conv", X(64, 16, 16), CONV(3, 1, 1, 64)},
    {"conv 3x3 128", "conv", X(128, 7, 7), CONV(3, 1, 1, 128)},
    {"conv 3x3 s2", "conv", X(32, 16, 16), CONV(3, 2, 1, 64)},
    {"conv 1x1", "conv", X(64, 14, 14), CONV(1, 1, 0, 128)},
    {"conv 1x1 to few, with bias", "conv", X(40, 9, 7), {.kernel = {1, 1}, .features = 6}},
    {"conv 1x1 s2", "conv", X(64, 14, 14), CONV(1, 2, 0, 128)},
    {"conv lenet 1", "conv", X(1, 28, 28), {.kernel = {5, 5}, .pad = {2, 2}, .pad_end = {2, 2}, .features = 6}},
    {"conv lenet 2", "conv", X(6, 14, 14), {.kernel = {5, 5}, .features = 16}},
    {"conv of one channel to 8, wide", "conv", X(1, 9, 37), {.kernel = {3, 7}, .pad = {1, 0}, .pad_end = {2, 4}, .features = 8}},
    {"conv of one channel to 5, one pixel wide", "conv", X(1, 7, 3), {.kernel = {2, 3}, .features = 5}},
    {"conv of one channel to 11", "conv", X(1, 12, 13), CONV(3, 1, 1, 11)},
    {"conv of 8 channels to 9, 7 wide", "conv", X(8, 10, 11), {.kernel = {4, 7}, .pad = {2, 3}, .pad_end = {1, 3}, .features = 9}},
    {"conv of 3 channels to 5", "conv", X(3, 6, 7), CONV(3, 1, 2, 5)},
    {"conv of 2 channels to 3, padded far", "conv", X(2, 3, 4), CONV(2, 1, 3, 3)},
    {"conv vgg with bias", "conv", X(64, 12, 12), {.kernel = {3, 3}, .pad = {1, 1}, .pad_end = {1, 1}, .features = 64}},
    {"conv depthwise 32", "conv", X(32, 14, 14), {.kernel = {3, 3}, .pad = {1, 1}, .pad_end = {1, 1}, .groups = 32, .features = 32, .no_bias = true}},
    {"conv 3-D 16", "conv", X(16, 8, 8, 8), {.kernel = {3, 3, 3}, .pad = {1, 1, 1}, .pad_end = {1, 1, 1}, .features = 32}},
    {"conv_transpose 64", "conv_transpose", X(64, 8, 8), {.kernel = {2, 2}, .stride = {2, 2}, .features = 32}},
    {"linear 256", "linear", X(64, 256), {.features = 192}},
    {"batch_norm 64", "batch_norm", X(64, 12, 12), {.groups = 0}, .batch = 4},
    {"batch_norm 100", "batch_norm", X(100, 5, 5), {.groups = 0}, .batch = 4},
    {"layer_norm 384", "layer_norm", X(32, 384), {.groups = 0}},
    {"rms_norm 100", "rms_norm", X(32, 100), {.groups = 0}},
    {"max_pool 64", "max_pool", X(64, 16, 16), {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .pad_end = {1, 1}}},
    {"avg_pool 70", "avg_pool", X(70, 8, 8), {.kernel = {2, 2}, .stride = {2, 2}}},
    {"avg_pool 6", "avg_pool", X(6, 28, 28), {.kernel = {2, 2}, .stride = {2, 2}}},
    {"avg_pool 3, odd", "avg_pool", X(3, 9, 13), {.kernel = {2, 2}, .stride = {2, 2}}},
    {"avg_pool 16", "avg_pool", X(16, 10, 10), {.kernel = {2, 2}, .stride = {2, 2}}},
    {"avg_pool 5, overlapping", "avg_pool", X(5, 9, 8), {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .pad_end = {1, 1}}},
    {"avg_pool 4, gaps", "avg_pool", X(4, 9, 10), {.kernel = {2, 2}, .stride = {3, 3}}},
    {"global_avg_pool 100", "global_avg_pool", X(100, 7, 7), {.groups = 0}},
    {"gelu 1000", "gelu", X(1000), {.groups = 0}},
    {"flatten 70", "flatten", X(70, 5, 5), {.groups = 0}},
    {"attention of 130", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{130, 32}, {130, 32}, {130, 32}}, {.heads = 2, .head_dim = 16, .causal = true}},
    {"attention of 100, grouped, in a window", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{100, 32}, {100, 16}, {100, 16}}, {.heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true, .window = 70}},
    {"attention of 70 in a window", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{70, 8}, {70, 8}, {70, 8}}, {.heads = 1, .head_dim = 8, .window = 9}},
    {"attention of 130 with slopes", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{130, 48}, {130, 48}, {130, 48}}, {.heads = 3, .head_dim = 16, .causal = true, .alpha = 8}},
    {"attention of 150 by distances", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{150, 32}, {150, 32}, {150, 32}}, {.heads = 2, .head_dim = 16, .scale = 1}, .weight = 32, .columns = 2},
    {"attention of 70 by distances, causal", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{70, 32}, {70, 16}, {70, 16}}, {.heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true}, .weight = 16, .columns = 4},
    {"rope of a part", "rope", X(20, 96), {.head_dim = 24, .features = 8}},
    {"slice 48", "slice", X(20, 64), {.axis = 1, .ndims = 2, .dims = {16, 64}}},
    {"slice_heads 4", "slice_heads", X(20, 128), {.heads = 4, .ndims = 2, .dims = {8, 32}}},
    {"join_heads 4", "join_heads", .nin = 2, .rank = {2, 2}, .dim = {{20, 64}, {20, 12}}, {.heads = 4}},
    {"experts, 600 tokens to 2", "experts", .nin = 2, .rank = {2, 2}, .dim = {{300, 24}, {300, 2}}, {.experts = 2, .topk = 2, .ffn = 20, .gated = true, .no_bias = true}},
    {"experts, 3 of 16", "experts", .nin = 2, .rank = {2, 2}, .dim = {{50, 64}, {50, 16}}, {.experts = 16, .topk = 3, .ffn = 48, .gated = true, .no_bias = true}},
    {"gate of 300 channels", "mul", .nin = 2, .rank = {3, 3}, .dim = {{300, 9, 11}, {300, 1, 1}}, {.groups = 0}},
    {"gate the other way round", "mul", .nin = 2, .rank = {3, 3}, .dim = {{72, 1, 1}, {72, 12, 9}}, {.groups = 0}},
    {"mask of an image", "mul", .nin = 2, .rank = {3, 3}, .dim = {{20, 13, 9}, {1, 13, 9}}, {.groups = 0}},
    {"div by a column", "div", .nin = 2, .rank = {2, 2}, .dim = {{40, 130}, {40, 1}}, {.groups = 0}, .positive = true},
    {"max with a row", "max", .nin = 2, .rank = {2, 2}, .dim = {{40, 130}, {1, 130}}, {.groups = 0}},
    {"add a long weight", "add", X(90, 1500), {.groups = 0}, .weight = 1500},
    {"add three", "add", .nin = 3, .rank = {3, 3, 3}, .dim = {{8, 17, 9}, {8, 1, 9}, {1, 1, 9}}, {.groups = 0}},
    {"add of features to an image", "add", .nin = 2, .rank = {3, 1}, .dim = {{5, 6, 7}, {7}}, {.groups = 0}},
    {"prelu 70", "prelu", X(70, 13, 11), {.groups = 0}},
    {"scale 300 features", "scale", X(33, 300), {.groups = 0}},
    {"reduce_mean of images", "reduce_mean", X(70, 12, 13), {.ndims = 2, .dims = {1, 2}}},
    {"reduce_mean of features", "reduce_mean", X(33, 1300), {.ndims = 1, .dims = {1}, .keep_dims = true}},
    {"reduce_sum of channels", "reduce_sum", X(33, 12, 13), {.ndims = 1, .dims = {0}, .keep_dims = true}},
    {"reduce_sum of all", "reduce_sum", X(33, 12, 13), {.ndims = 0}},
    {"transpose of an image", "transpose", X(33, 20, 21), {.ndims = 3, .dims = {1, 2, 0}}},
    {"transpose of features", "transpose", X(70, 90), {.groups = 0}},
    {"shuffled channels: apart", "reshape", X(24, 9, 7), {.ndims = 4, .dims = {4, 6, 9, 7}}},
    {"shuffled channels: turned", "transpose", X(4, 6, 9, 7), {.ndims = 4, .dims = {1, 0, 2, 3}}},
    {"shuffled channels: joined", "reshape", X(6, 4, 9, 7), {.ndims = 3, .dims = {24, 9, 7}}},
    {"tokens of an image", "reshape", X(48, 9, 7), {.ndims = 2, .dims = {48, 63}}},
    {"image of tokens", "reshape", X(63, 48), {.ndims = 3, .dims = {63, 6, 8}}},
    {"concat 5", "concat", .nin = 3, .rank = {3, 3, 3}, .dim = {{32, 7, 9}, {5, 7, 9}, {64, 7, 9}}, {.axis = 0}},
    {"concat of rows", "concat", .nin = 2, .rank = {3, 3}, .dim = {{8, 3, 9}, {8, 4, 9}}, {.axis = 1}},
    {"split of channels", "split", X(48, 9, 8), {.axis = 0, .ndims = 3, .dims = {16, 8, 24}}},
    {"split of features", "split", X(20, 96), {.axis = 1, .ndims = 2, .dims = {32, 64}}},
    {"slice of channels", "slice", X(48, 9, 8), {.axis = 0, .ndims = 2, .dims = {24, 48}}},
    {"resize by 2", "resize", X(40, 9, 8), {.ndims = 2, .dims = {18, 16}}},
    {"resize by 2, linear", "resize", X(40, 9, 8), {.ndims = 2, .dims = {18, 16}, .alpha = 1, .beta = 0.5}},
    {"resize by 2, cubic", "resize", X(40, 9, 8), {.ndims = 2, .dims = {18, 16}, .alpha = -0.75, .beta = 0.5}},
    {"resize of a volume, linear", "resize", X(8, 4, 5, 3), {.ndims = 3, .dims = {8, 3, 6}, .alpha = 1, .offset = 1}},
    {"resize of a volume", "resize", X(8, 4, 5, 3), {.ndims = 3, .dims = {8, 10, 6}}},
    {"adaptive_avg_pool 7", "adaptive_avg_pool", X(40, 13, 10), {.ndims = 2, .dims = {7, 7}}},
    {"global_max_pool 100", "global_max_pool", X(100, 7, 9), {.groups = 0}},
    {"group_norm 32", "group_norm", X(64, 12, 12), {.groups = 32}, .batch = 3},
    {"group_norm 1", "group_norm", X(20, 4, 5, 6), {.groups = 1}},
    {"instance_norm 40", "instance_norm", X(40, 12, 12), {.groups = 0}, .batch = 3},
    {"lrn 64", "lrn", X(64, 9, 9), {.window = 5, .alpha = 0.3}},
    {"softmax 1000", "softmax", X(20, 1000), {.axis = 1}},
    {"softmax down columns", "softmax", X(30, 90), {.axis = 0}},
    {"log_softmax down columns", "log_softmax", X(30, 90), {.axis = 0}},
    {"log_softmax of channels", "log_softmax", X(21, 9, 9), {.axis = 0}},
    {"class_token 96", "class_token", X(49, 96), {.groups = 0}},
    {"dropout of an image", "dropout", X(16, 15, 14), {.groups = 0}},
    {"hard_swish 70000", "hard_swish", X(70, 40, 25), {.groups = 0}},
    {"embedding 50", "embedding", X(40), {.vocab = 50, .features = 33}, .tokens = 50},
};
#undef X
#undef CONV
// clang-format on

/* ---- comparing ------------------------------------------------------------------ */

/* The difference relative to the size of the whole array. */
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

static void check_close(const struct op_case *c, const char *what,
                        const char *impl, const struct value *a,
                        const struct value *b, double most)
{
    double d = difference(a, b);

    if (!(d <= most)) {
        print_error("%s: %s by %s differs by %g\n", c->name, what, impl, d);
        fail();
    }
}

static const char *const pass_names[] = {"forward", "backward-data",
                                         "backward-weights"};

/* Both backends on the same numbers; the names of what ran. */
static void compare(struct backend *ref, struct backend *cpu,
                    const struct op_case *c, enum pdl_dtype dtype, double most,
                    const char **names)
{
    struct one_op o;
    struct operands a, b;

    one_op_open(&o, c);
    operands_open(&a, &o, dtype);
    operands_open(&b, &o, dtype);
    add_aux(ref, &a, &o);
    add_aux(cpu, &b, &o);
    for (int p = 0; p < 3; p++) {
        run_pass(ref, &a, &o, (enum pdl_pass)p);
        names[p] = run_pass(cpu, &b, &o, (enum pdl_pass)p);
        if (strncmp(names[p], "ref:", 4) == 0 || strstr(names[p], ":ref")) {
            print_error("%s: oneDNN runs %s\n", c->name, names[p]);
            fail();
        }
    }
    for (int k = 0; k < a.ny; k++)
        check_close(c, pass_names[0], names[0], &a.y[k], &b.y[k], most);
    for (int i = 0; i < a.nx; i++)
        check_close(c, pass_names[1], names[1], &a.dx[i], &b.dx[i], most);
    for (int j = 0; j < a.nw; j++)
        if (a.learned[j])
            check_close(c, pass_names[2], names[2], &a.dw[j], &b.dw[j], most);
    operands_close(&a);
    operands_close(&b);
    one_op_close(&o);
}

/* On the way of real networks nothing is left to the reference. */
static void real_shapes_run_fast_kernels(void **state)
{
    struct backend ref, cpu;
    const char *names[3];

    (void)state;
    backend_open(&ref, &train_ref);
    backend_open(&cpu, &train_cpu);
    for (size_t i = 0; i < sizeof real_cases / sizeof real_cases[0]; i++) {
        compare(&ref, &cpu, &real_cases[i], PDL_F32, 3e-6, names);
        print_message("%-40s %s, %s, %s\n", real_cases[i].name, names[0],
                      names[1], names[2]);
        for (int p = 0; p < 3; p++)
            assert_string_not_equal(names[p], "ref");
    }
    backend_close(&cpu);
    backend_close(&ref);
}

/* bfloat16 has 8 bits: both backends round the same inputs, then differ by
 * what is rounded on the way. */
static void bfloat16_equals_ref(void **state)
{
    struct backend ref, cpu;
    const char *names[3];

    (void)state;
    backend_open(&ref, &train_ref);
    backend_open(&cpu, &train_cpu);
    for (int i = 0; i < NCASES; i++)
        compare(&ref, &cpu, &op_cases[i], PDL_BF16, 1e-2, names);
    for (size_t i = 0; i < sizeof real_cases / sizeof real_cases[0]; i++) {
        compare(&ref, &cpu, &real_cases[i], PDL_BF16, 1e-2, names);
        print_message("%-40s %s, %s, %s\n", real_cases[i].name, names[0],
                      names[1], names[2]);
        for (int p = 0; p < 3; p++)
            assert_string_not_equal(names[p], "ref");
    }
    backend_close(&cpu);
    backend_close(&ref);
}

/* ---- what the reference still runs -------------------------------------------- */

/* Forms that only the reference has: one line says why. Everything else in the
 * table of operators has a fast kernel, or no kernel at all. */
static const char *const left_to_ref[] = {NULL};

static bool is_listed(const char *op, const char *const *list)
{
    while (*list && strcmp(*list, op) != 0)
        list++;
    return *list != NULL;
}

/* Operators that `paradl train` refuses: the reference has no kernel either. */
static bool runtime_has(const char *op)
{
    static const char *const refused[] = {
        "clip",       "floor",      "ceil",        "round", "sign",
        "mod",        "gather",     "constant",    "other", "reduce_l2",
        "reduce_max", "reduce_min", "reduce_prod", NULL};

    return !is_listed(op, refused);
}

static bool has_a_case(const char *op)
{
    for (int i = 0; i < NCASES; i++)
        if (strcmp(op_cases[i].op, op) == 0)
            return true;
    return false;
}

static void every_operator_has_a_fast_kernel(void **state)
{
    struct backend ref, cpu;
    const char *names[3];

    (void)state;
    backend_open(&ref, &train_ref);
    backend_open(&cpu, &train_cpu);
    for (int i = 0; pdl_op_at(i); i++)
        if (runtime_has(pdl_op_at(i)->name) &&
            !has_a_case(pdl_op_at(i)->name)) {
            print_error("no case for %s\n", pdl_op_at(i)->name);
            fail();
        }
    for (int i = 0; i < NCASES; i++) {
        compare(&ref, &cpu, &op_cases[i], PDL_F32, 2e-6, names);
        for (int p = 0; p < 3; p++)
            if (strcmp(names[p], "ref") == 0 &&
                !is_listed(op_cases[i].name, left_to_ref)) {
                print_error("%s, %s: left to the reference\n", op_cases[i].name,
                            pass_names[p]);
                fail();
            }
    }
    backend_close(&cpu);
    backend_close(&ref);
}

/* ---- the loss ---------------------------------------------------------------------- */

static struct value loss_array(enum pdl_dtype t, int n, const int64_t *dim,
                               int64_t classes, bool channels_last)
{
    struct train_array a = {t, {.ndims = n}, channels_last, 0};

    for (int d = 0; d < n; d++)
        a.box.hi[d] = dim[d];
    a.box.hi[n >= 4 ? 1 : n - 1] = classes;
    return value_of(&a);
}

/* One call by both, outputs of the reference are then those of both. */
static void same_loss(struct backend *ref, struct backend *cpu,
                      const struct train_call *c, const struct list *in,
                      struct list *out)
{
    struct train_moment when = {0};
    struct value want[3];
    struct list wanted = {out->n, {&want[0], &want[1], &want[2]}};

    for (int i = 0; i < out->n; i++)
        want[i] = value_of(&out->v[i]->a);
    call_kernel(ref, c, in, &wanted, &when);
    assert_string_equal(call_kernel(cpu, c, in, out, &when), "own");
    for (int i = 0; i < out->n; i++) {
        for (int64_t j = 0; j < want[i].n; j++)
            assert_true(fabs(get(&want[i], j) - get(out->v[i], j)) < 1e-5);
        free(want[i].at);
    }
}

/* Classes 4 to 7 of 11, or all of them. */
static void losses_of(struct backend *ref, struct backend *cpu, int n,
                      const int64_t *dim)
{
    static const struct op_case labels = {.tokens = 11};
    bool image = n >= 4;
    int d = image ? 1 : n - 1;
    struct train_call c = {.population = 5};
    struct value y = loss_array(PDL_F32, n, dim, 11, image), dy, few, dfew;
    struct value label = loss_array(PDL_I32, n, dim, 1, false);
    struct value top = loss_array(PDL_F64, n, dim, 1, false);
    struct value sums = loss_array(PDL_F64, n, dim, 2, false);
    struct value loss = loss_array(PDL_F64, n, dim, 1, false);
    struct value right = loss_array(PDL_F32, n, dim, 1, false);
    struct train_array part = y.a;

    part.box.lo[d] = 4;
    part.box.hi[d] = 8;
    dy = value_of(&y.a);
    few = value_of(&part);
    dfew = value_of(&part);
    fill(&y, 1, &labels);
    fill(&label, 2, &labels);
    put(&label, 1, -1);
    copy_part(&y, &few);
    same_loss(ref, cpu, &c, &(struct list){2, {&y, &label}},
              &(struct list){3, {&dy, &loss, &right}});
    same_loss(ref, cpu, &c, &(struct list){1, {&few}},
              &(struct list){1, {&top}});
    same_loss(ref, cpu, &c, &(struct list){3, {&few, &label, &top}},
              &(struct list){1, {&sums}});
    same_loss(ref, cpu, &c, &(struct list){4, {&few, &label, &top, &sums}},
              &(struct list){3, {&dfew, &loss, &right}});
    for (int i = 0; i < 9; i++)
        free((struct value *[]){&y, &dy, &few, &dfew, &label, &top, &sums,
                                &loss, &right}[i]
                 ->at);
}

static void every_loss_has_a_fast_kernel(void **state)
{
    struct backend ref, cpu;

    (void)state;
    backend_open(&ref, &train_ref);
    backend_open(&cpu, &train_cpu);
    losses_of(&ref, &cpu, 2, (const int64_t[]){5, 0});
    losses_of(&ref, &cpu, 3, (const int64_t[]){3, 4, 0});
    losses_of(&ref, &cpu, 4, (const int64_t[]){3, 0, 2, 5});
    losses_of(&ref, &cpu, 5, (const int64_t[]){2, 0, 2, 3, 2});
    backend_close(&cpu);
    backend_close(&ref);
}

/* ---- threads ---------------------------------------------------------------------- */

static void same_values(const struct op_case *c, const struct value *a,
                        const struct value *b)
{
    for (int64_t i = 0; i < a->n; i++)
        if (get(a, i) != get(b, i) && !(isnan(get(a, i)) && isnan(get(b, i)))) {
            print_error("%s: threads change a bit\n", c->name);
            fail();
        }
}

/* Only our own kernels promise it; oneDNN's sums may be cut by threads. */
static void threads_do_not_show_in_the_bits(void **state)
{
    struct backend cpu;

    (void)state;
    backend_open(&cpu, &train_cpu);
    for (size_t i = 0; i < sizeof real_cases / sizeof real_cases[0]; i++) {
        struct operands p[2];
        struct one_op o;
        bool own = true;

        one_op_open(&o, &real_cases[i]);
        o.batch = effort(8, 16, 64); /* large enough to be shared */
        for (int k = 0; k < 2; k++) {
            omp_set_num_threads(k == 0 ? 1 : 2);
            operands_open(&p[k], &o, PDL_F32);
            add_aux(&cpu, &p[k], &o);
            for (int pass = 0; pass < 3; pass++) {
                const char *name =
                    run_pass(&cpu, &p[k], &o, (enum pdl_pass)pass);

                own = own && (strcmp(name, "own") == 0 ||
                              strcmp(name, "nothing") == 0);
            }
        }
        for (int j = 0; own && j < p[0].ny; j++)
            same_values(&real_cases[i], &p[0].y[j], &p[1].y[j]);
        for (int j = 0; own && j < p[0].nx; j++)
            same_values(&real_cases[i], &p[0].dx[j], &p[1].dx[j]);
        for (int j = 0; own && j < p[0].nw; j++)
            same_values(&real_cases[i], &p[0].dw[j], &p[1].dw[j]);
        operands_close(&p[0]);
        operands_close(&p[1]);
        one_op_close(&o);
    }
    omp_set_num_threads(1);
    backend_close(&cpu);
}

/* A rank without samples makes zeros, not what was in memory. */
static void an_empty_batch_norm_gives_zeros(void **state)
{
    static const struct op_case c = {.name = "bn",
                                     .op = "batch_norm",
                                     .nin = 1,
                                     .rank = {3},
                                     .dim = {{4, 2, 2}}};
    struct backend cpu;
    struct one_op o;
    struct operands p;

    (void)state;
    backend_open(&cpu, &train_cpu);
    one_op_open(&o, &c);
    o.batch = 0;
    operands_open(&p, &o, PDL_F32);
    add_aux(&cpu, &p, &o);
    for (int j = 0; j < 2; j++)
        for (int64_t i = 0; i < 4; i++)
            put(&p.dw[j], i, NAN);
    for (int k = 0; k < 3; k++)
        run_pass(&cpu, &p, &o, (enum pdl_pass)k);
    for (int j = 0; j < 2; j++)
        for (int64_t i = 0; i < 4; i++)
            assert_true(get(&p.dw[j], i) == 0);
    operands_close(&p);
    one_op_close(&o);
    backend_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_batch_norm_gives_zeros),
        cmocka_unit_test(every_operator_has_a_fast_kernel),
        cmocka_unit_test(every_loss_has_a_fast_kernel),
        cmocka_unit_test(threads_do_not_show_in_the_bits),
        cmocka_unit_test(bfloat16_equals_ref),
        cmocka_unit_test(real_shapes_run_fast_kernels),
    };

    omp_set_num_threads(1); /* what is small is slower on several */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("no oneDNN in this build: the cpu backend is not tested");
    return 77;
}

#endif
