/* Partitions: nobody has a sample twice, nothing is lost that the way does not
 * give up on purpose, the same options give the same partition, and each way
 * is what its name says. */
#include "data_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10 };

struct world {
    pdl_arena *arena;
    int32_t *labels;
    struct pdl_partition p;
};

static enum pdl_status make(struct world *w, const char *how, int64_t samples,
                            int64_t clients, uint64_t seed, struct pdl_err *err)
{
    struct pdl_partition_options o = {.samples = samples,
                                      .clients = clients,
                                      .how = how,
                                      .classes = CLASSES,
                                      .seed = seed};

    w->arena = pdl_arena_create(1 << 26);
    w->labels = calloc((size_t)samples + 1, sizeof w->labels[0]);
    for (int64_t i = 0; i < samples; i++)
        w->labels[i] = (int32_t)(i * 7919 % 10007 % CLASSES);
    o.labels = w->labels;
    return pdl_partition_make(w->arena, &o, &w->p, err);
}

static void drop(struct world *w)
{
    pdl_arena_destroy(w->arena);
    free(w->labels);
}

static int64_t size_of(const struct world *w, int64_t client)
{
    return w->p.first[client + 1] - w->p.first[client];
}

static int64_t classes_of(const struct world *w, int64_t client)
{
    int64_t n = 0;

    for (int64_t c = 0; c < CLASSES; c++)
        n += w->p.count[client * CLASSES + c] > 0;
    return n;
}

/* Lists ascend, none is in two, counts are of the labels; how many there are. */
static int64_t check_lists(const struct world *w)
{
    char *seen = calloc((size_t)w->p.samples + 1, 1);

    for (int64_t c = 0; c < w->p.clients; c++) {
        int64_t count[CLASSES] = {0};

        for (int64_t i = w->p.first[c]; i < w->p.first[c + 1]; i++) {
            int64_t x = w->p.sample[i];

            assert_true(x >= 0 && x < w->p.samples && !seen[x]);
            assert_true(i == w->p.first[c] || w->p.sample[i - 1] < x);
            seen[x] = 1;
            count[w->labels[x]]++;
        }
        assert_memory_equal(count, w->p.count + c * CLASSES, sizeof count);
        assert_true(w->p.group[c] >= 0 && w->p.group[c] < w->p.groups);
    }
    free(seen);
    return w->p.first[w->p.clients] - w->p.first[0];
}

static const char *const whole[] = {
    "iid",
    "dirichlet",
    "dirichlet:alpha=0.05",
    "dirichlet:alpha=100",
    "dirichlet:alpha=0.001,least=0",
    "pathological",
    "pathological:classes=1",
    "pathological:classes=3",
    "quantity",
    "quantity:alpha=0.2,least=3",
    "cluster:equal=no",
    "cluster:groups=3,equal=no,main=0.6",
    "cluster:groups=2,classes=7,equal=no",
};
enum { NWHOLE = sizeof whole / sizeof whole[0] };

static void every_sample_is_somebodys_exactly_once(void **state)
{
    static const int64_t sizes[][2] = {{1797, 7}, {1000, 100}, {997, 20}};

    (void)state;
    for (int k = 0; k < NWHOLE; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct pdl_err err = {"", ""};
            struct world w;

            assert_int_equal(
                make(&w, whole[k], sizes[i][0], sizes[i][1], 5 + i, &err),
                PDL_OK);
            assert_int_equal(check_lists(&w), sizes[i][0]);
            drop(&w);
        }
}

static void it_depends_on_the_seed_and_on_nothing_else(void **state)
{
    (void)state;
    for (int k = 0; k < NWHOLE; k++) {
        struct pdl_err err = {"", ""};
        struct world a, b, c;

        assert_int_equal(make(&a, whole[k], 1797, 20, 3, &err), PDL_OK);
        assert_int_equal(make(&b, whole[k], 1797, 20, 3, &err), PDL_OK);
        assert_int_equal(make(&c, whole[k], 1797, 20, 4, &err), PDL_OK);
        assert_memory_equal(a.p.sample, b.p.sample, 1797 * sizeof(int64_t));
        assert_memory_equal(a.p.first, b.p.first, 21 * sizeof(int64_t));
        assert_memory_not_equal(a.p.sample, c.p.sample, 1797 * sizeof(int64_t));
        drop(&a);
        drop(&b);
        drop(&c);
    }
}

static void sizes_are_what_the_way_says(void **state)
{
    struct pdl_err err = {"", ""};
    struct world w;
    int64_t least, most;

    (void)state;
    assert_int_equal(make(&w, "iid", 1003, 10, 1, &err), PDL_OK);
    for (int64_t c = 0; c < 10; c++)
        assert_true(size_of(&w, c) == 100 || size_of(&w, c) == 101);
    drop(&w);
    assert_int_equal(make(&w, "quantity:alpha=0.3,least=4", 5000, 50, 1, &err),
                     PDL_OK);
    least = most = size_of(&w, 0);
    for (int64_t c = 1; c < 50; c++) {
        least = size_of(&w, c) < least ? size_of(&w, c) : least;
        most = size_of(&w, c) > most ? size_of(&w, c) : most;
    }
    assert_true(least >= 4);
    assert_true(most > 300); /* 100 is the mean */
    drop(&w);
    /* nobody is left without, however skewed */
    assert_int_equal(make(&w, "dirichlet:alpha=0.001", 500, 100, 1, &err),
                     PDL_OK);
    for (int64_t c = 0; c < 100; c++)
        assert_true(size_of(&w, c) >= 1);
    drop(&w);
}

/* Mean of the largest class's share over clients. */
static double skew(const char *how)
{
    struct pdl_err err = {"", ""};
    struct world w;
    double sum = 0;

    assert_int_equal(make(&w, how, 20000, 50, 9, &err), PDL_OK);
    for (int64_t c = 0; c < 50; c++) {
        int64_t most = 0;

        for (int64_t k = 0; k < CLASSES; k++)
            most = w.p.count[c * CLASSES + k] > most
                       ? w.p.count[c * CLASSES + k]
                       : most;
        sum += (double)most / (double)size_of(&w, c);
    }
    drop(&w);
    return sum / 50;
}

static void a_smaller_alpha_is_more_skewed(void **state)
{
    (void)state;
    assert_true(skew("dirichlet:alpha=1000") < 0.13);
    assert_true(skew("dirichlet:alpha=0.5") > 0.25);
    assert_true(skew("dirichlet:alpha=0.05") > 0.6);
}

/* Of Dirichlet(alpha) shares of n the mean is 1/n, the variance
 * (1/n)(1 - 1/n) / (n alpha + 1). */
static void shares_have_the_moments_of_their_distribution(void **state)
{
    enum { N = 5, DRAWS = 20000 };
    static const double alphas[] = {0.1, 0.7, 1, 8};
    double share[N];
    struct pdl_partition_options o = {.clients = N};
    struct data_split s = {.opt = &o, .share = share, .rng = {.key = 11}};

    (void)state;
    for (size_t k = 0; k < sizeof alphas / sizeof alphas[0]; k++) {
        double sum = 0, squares = 0, a = alphas[k], variance;

        for (int i = 0; i < DRAWS; i++) {
            data_draw_shares(&s, a);
            sum += share[2];
            squares += share[2] * share[2];
        }
        sum /= DRAWS;
        variance = squares / DRAWS - sum * sum;
        assert_true(fabs(sum - 0.2) < 0.01);
        assert_true(fabs(variance / (0.16 / (N * a + 1)) - 1) < 0.05);
    }
}

static void a_pathological_client_has_few_classes(void **state)
{
    struct pdl_err err = {"", ""};
    struct world w;

    (void)state;
    assert_int_equal(make(&w, "pathological:classes=2", 20000, 100, 2, &err),
                     PDL_OK);
    for (int64_t c = 0; c < 100; c++) {
        assert_true(classes_of(&w, c) <= 4); /* two shards of two at most */
        assert_int_equal(size_of(&w, c), 200);
    }
    drop(&w);
}

static void clients_of_a_group_have_its_classes(void **state)
{
    struct pdl_err err = {"", ""};
    struct world w;
    int64_t members[5] = {0}, used;

    (void)state;
    assert_int_equal(make(&w, "cluster:groups=5,main=0.6", 10000, 20, 2, &err),
                     PDL_OK);
    assert_int_equal(w.p.groups, 5);
    used = check_lists(&w);
    assert_true(used > 3200 && used <= 3340);
    for (int64_t c = 0; c < 20; c++) {
        members[w.p.group[c]]++;
        assert_int_equal(size_of(&w, c), size_of(&w, 0));
        assert_int_equal(classes_of(&w, c), 2);
        for (int64_t k = 0; k < 2; k++) {
            int64_t n = w.p.count[c * CLASSES + (int64_t)2 * w.p.group[c] + k];

            assert_true(llabs(2 * n - size_of(&w, c)) <= 6);
        }
    }
    assert_int_equal(members[0], 12);
    for (int g = 1; g < 5; g++)
        assert_int_equal(members[g], 2);
    drop(&w);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
    static const struct {
        const char *how;
        int64_t samples, clients;
        const char *says;
    } bad[] = {
        {"iid", 100, 0, "0 clients"},
        {"iid", 100, -3, "-3 clients"},
        {"idd", 100, 5, "no way to divide"},
        {"dirichlet:alpha=0", 100, 5, "outside"},
        {"dirichlet:alpha=x", 100, 5, "not a number"},
        {"dirichlet:alfa=1", 100, 5, "no parameter"},
        {"pathological:classes=2", 100, 51, "51 clients"},
        {"cluster:groups=6", 100, 5, "6 groups"},
        {"cluster:groups=2,classes=2", 100, 5, "2 groups of 2 classes"},
        {"cluster:groups=1,main=0.5", 100, 5, "several groups"},
        {"cluster:groups=2.5", 100, 5, "no whole number"},
        {"cluster:groups=5", 100, 100, "leave some of 100 clients none"},
        {"dirichlet:least=0.5", 100, 5, "no whole number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pdl_err err = {"", ""};
        struct world w;

        assert_int_not_equal(
            make(&w, bad[i].how, bad[i].samples, bad[i].clients, 1, &err),
            PDL_OK);
        assert_non_null(strstr(err.msg, bad[i].says));
        drop(&w);
    }
}

static void labels_outside_the_classes_are_refused(void **state)
{
    int32_t labels[4] = {0, 1, 12, 3};
    struct pdl_partition_options o = {
        .samples = 4, .clients = 2, .labels = labels, .classes = 10};
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_err err = {"", ""};
    struct pdl_partition p;

    (void)state;
    assert_int_equal(pdl_partition_make(a, &o, &p, &err), PDL_EPARSE);
    o.classes = 0;
    o.how = "dirichlet";
    assert_int_equal(pdl_partition_make(a, &o, &p, &err), PDL_EINVAL);
    o.how = "iid";
    assert_int_equal(pdl_partition_make(a, &o, &p, &err), PDL_OK);
    assert_null(p.count);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_somebodys_exactly_once),
        cmocka_unit_test(it_depends_on_the_seed_and_on_nothing_else),
        cmocka_unit_test(sizes_are_what_the_way_says),
        cmocka_unit_test(a_smaller_alpha_is_more_skewed),
        cmocka_unit_test(shares_have_the_moments_of_their_distribution),
        cmocka_unit_test(a_pathological_client_has_few_classes),
        cmocka_unit_test(clients_of_a_group_have_its_classes),
        cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
        cmocka_unit_test(labels_outside_the_classes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
