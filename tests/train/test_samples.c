/* Which data a model takes, what is said where it does not, and what an
 * encoder is asked when it reads plain text. */
#include "paradl/train.h"
#include "train/train_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VIT  "vit:input=8,channels=1,patch=4,layers=1,hidden=8,heads=2,"
#define BERT "bert:layers=1,hidden=8,heads=2,seq=40,positions=40,"

static const struct pdl_plan *lowered(pdl_arena *a, const char *name)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 2};
    const struct pdl_model *m = NULL;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_load(a, name, NULL, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, "serial", s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    return p;
}

static const struct pdl_dataset images = {
    .name = "images",
    .format = "idx",
    .classes = 10,
    .input = {false, 3, {1, 8, 8}},
    .target = {.integer = true},
};
static const struct pdl_dataset text = {
    .name = "text",
    .format = "text",
    .classes = 20,
    .input = {true, 1, {40}},
    .target = {true, 1, {40}},
};
static const struct pdl_dataset sentences = {
    .name = "sentences",
    .format = "npy",
    .classes = 3,
    .input = {true, 1, {40}},
    .target = {.integer = true},
};

static void data_fits_or_the_line_says_how_to_make_it_fit(void **state)
{
    static const struct {
        const struct pdl_dataset *d;
        const char *model, *msg, *hint;
    } cases[] = {
        {&images, VIT "classes=10", NULL, NULL},
        {&images, VIT "classes=4", "10 classes", "vit with classes=10"},
        {&images, "vit-b16", "1x8x8", "input=8,channels=1,classes=10"},
        {&images, "resnet18", "1x8x8", "input=8,channels=1,classes=10"},
        {&text, BERT "vocab=21,head=1", NULL, NULL},
        {&text, BERT "vocab=21", "pooler", "bert with head=1"},
        {&text, "gpt:layers=1,hidden=8,heads=2,seq=40,vocab=9", "20 classes",
         "gpt with vocab=20"},
        {&text, "gpt:layers=1,hidden=8,heads=2,seq=16,vocab=20", "samples",
         "gpt with seq=40,vocab=20"},
        {&sentences, BERT "vocab=21,classes=3", NULL, NULL},
        {&sentences, BERT "vocab=21,classes=2", "3 classes",
         "bert with classes=3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        const struct pdl_plan *p = lowered(a, cases[i].model);
        enum pdl_status st = train_samples_check(cases[i].d, p, false, &err);

        if ((st == PDL_OK) != !cases[i].msg)
            fail_msg("%s: %s", cases[i].model, err.msg);
        if (cases[i].msg && (!strstr(err.msg, cases[i].msg) ||
                             !strstr(err.hint, cases[i].hint)))
            fail_msg("%s: '%s' '%s'", cases[i].model, err.msg, err.hint);
        pdl_arena_destroy(a);
    }
}

enum { T = 40, N = 200, MASK = 20, TOLD = 6 };

static int64_t epoch; /* that masked() is of */

static void masked(int64_t lo, int64_t hi, bool label, int32_t *ids)
{
    struct pdl_train_part part = {.dtype = PDL_I32, .data = ids};
    int64_t samples[N];
    struct train_samples s = {.ids = samples,
                              .mask = {.count = TOLD,
                                       .positions = T,
                                       .token = MASK,
                                       .vocabulary = MASK,
                                       .epoch = epoch,
                                       .seed = 5}};

    for (int i = 0; i < N; i++)
        samples[i] = 3 * i;
    part.box = (struct pdl_box){.ndims = 2, .lo = {0, lo}, .hi = {N, hi}};
    for (int64_t i = 0; i < N * (hi - lo); i++)
        ids[i] = (int32_t)((lo + i % (hi - lo)) % MASK);
    s.mask.draws = malloc(train_mask_bytes(&s.mask));
    train_mask(&s, &part, label);
    free(s.mask.draws);
}

static void as_many_tokens_of_every_sample_are_to_be_told(void **state)
{
    static int32_t seen[N * T], label[N * T];
    int masks = 0, others = 0;

    (void)state;
    masked(0, T, false, seen);
    masked(0, T, true, label);
    for (int i = 0; i < N; i++) {
        int n = 0;

        for (int t = 0; t < T; t++) {
            int32_t x = seen[i * T + t], y = label[i * T + t];

            n += y >= 0;
            masks += x == MASK;
            others += x != MASK && x != t % MASK;
            assert_true(y < 0 || y == t % MASK);
            assert_true(y >= 0 || x == t % MASK); /* the rest is as it was */
        }
        assert_int_equal(n, TOLD);
    }
    /* 1200 told: 960 masks and nearly 120 others, four deviations at most */
    assert_in_range(masks, 960 - 56, 960 + 56);
    assert_in_range(others, 114 - 41, 114 + 41);
}

static void every_epoch_tells_others(void **state)
{
    static int32_t a[N * T], b[N * T];
    int both = 0;

    (void)state;
    masked(0, T, true, a);
    epoch = 1;
    masked(0, T, true, b);
    epoch = 0;
    for (int i = 0; i < N * T; i++)
        both += a[i] >= 0 && b[i] >= 0;
    assert_in_range(both, 180 - 55, 180 + 55); /* 15 % of 1200 by chance */
}

static void parts_of_a_sample_are_masked_as_the_whole(void **state)
{
    static int32_t whole[N * T], part[N * T];

    (void)state;
    for (int label = 0; label < 2; label++) {
        masked(0, T, label, whole);
        masked(13, 29, label, part);
        for (int i = 0; i < N; i++)
            for (int t = 13; t < 29; t++)
                assert_int_equal(whole[i * T + t], part[i * 16 + t - 13]);
    }
}

static void only_encoders_on_text_are_masked(void **state)
{
    static const struct {
        const struct pdl_dataset *d;
        const char *model;
        int64_t token, count;
    } cases[] = {
        {&text, BERT "vocab=21,head=1", 0, 6},
        {&text, BERT "vocab=20,head=1", 4, 6},
        {&text, BERT "vocab=20,head=1", 0, -1}, /* no row for the mask */
        {&text, BERT "vocab=21,head=1", 21, -1},
        {&sentences, BERT "vocab=21,classes=3", 0, 0},
        {&text, "gpt:layers=1,hidden=8,heads=2,seq=40,vocab=20", 0, 0},
        {&images, VIT "classes=10", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct train_masking m;
        const struct pdl_plan *p = lowered(a, cases[i].model);
        enum pdl_status st =
            train_mask_open(cases[i].d, p->model, cases[i].token, &m, &err);

        assert_int_equal(st != PDL_OK, cases[i].count < 0);
        assert_true(st != PDL_OK || m.count == cases[i].count);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_fits_or_the_line_says_how_to_make_it_fit),
        cmocka_unit_test(as_many_tokens_of_every_sample_are_to_be_told),
        cmocka_unit_test(every_epoch_tells_others),
        cmocka_unit_test(parts_of_a_sample_are_masked_as_the_whole),
        cmocka_unit_test(only_encoders_on_text_are_masked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
