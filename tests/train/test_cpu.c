/* The cpu backend against the reference: every operator and pass, small odd
 * shapes and shapes of real networks; parts against the whole; and which
 * implementation runs. */
#include "cases.h"

#ifdef PDL_HAVE_DNNL

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
    {"attention of 150 by distances", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{150, 32}, {150, 32}, {150, 32}}, {.heads = 2, .head_dim = 16, .scale = 1}, .weight = 32, .columns = 2},
    {"attention of 70 by distances, causal", "attention", .nin = 3, .rank = {2, 2, 2}, .dim = {{70, 32}, {70, 16}, {70, 16}}, {.heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true}, .weight = 16, .columns = 4},
    {"rope of a part", "rope", X(20, 96), {.head_dim = 24, .features = 8}},
    {"slice 48", "slice", X(20, 64), {.axis = 1, .ndims = 2, .dims = {16, 64}}},
    {"slice_heads 4", "slice_heads", X(20, 128), {.heads = 4, .ndims = 2, .dims = {8, 32}}},
    {"join_heads 4", "join_heads", .nin = 2, .rank = {2, 2}, .dim = {{20, 64}, {20, 12}}, {.heads = 4}},
    {"experts, 600 tokens to 2", "experts", .nin = 2, .rank = {2, 2}, .dim = {{300, 24}, {300, 2}}, {.experts = 2, .topk = 2, .ffn = 20, .gated = true, .no_bias = true}},
    {"experts, 3 of 16", "experts", .nin = 2, .rank = {2, 2}, .dim = {{50, 64}, {50, 16}}, {.experts = 16, .topk = 3, .ffn = 48, .gated = true, .no_bias = true}},
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

static void cpu_equals_ref(void **state)
{
    struct backend ref, cpu;
    const char *names[3];

    (void)state;
    backend_open(&ref, &train_ref);
    backend_open(&cpu, &train_cpu);
    for (int i = 0; i < NCASES; i++)
        compare(&ref, &cpu, &op_cases[i], PDL_F32, 2e-6, names);
    backend_close(&cpu);
    backend_close(&ref);
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
        cmocka_unit_test(cpu_equals_ref),
        cmocka_unit_test(bfloat16_equals_ref),
        cmocka_unit_test(real_shapes_run_fast_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("no oneDNN in this build: the cpu backend is not tested");
    return 77;
}

#endif
