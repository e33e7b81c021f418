/* The cpu backend against the reference: every operator and pass, small odd
 * shapes and shapes of real networks; parts against the whole; and which
 * implementation runs. */
#include "cases.h"
#include "real_cases.h"
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
    for (int i = 0; i < NREAL; i++) {
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
    for (int i = 0; i < NREAL; i++) {
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
    for (int i = 0; i < NREAL; i++) {
        struct operands p[2];
        struct one_op o;
        bool own = true;

        one_op_open(&o, &real_cases[i]);
        o.batch = effort(8, 16, 64); /* large enough to be shared */
        if (o.c->apart > 0)
            o.batch *= o.c->apart;
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
