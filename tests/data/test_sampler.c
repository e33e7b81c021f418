/* Samplers: every sample is somewhere exactly once, whatever is exchanged;
 * what is hidden may be; a run goes on where it was. */
#include "data_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"

static pdl_sampler *make(int64_t samples, int64_t batch, const char *deal,
                         const char *hide)
{
    struct pdl_sampler_options o = {.samples = samples,
                                    .batch = batch,
                                    .epochs = 30,
                                    .warmup_epochs = 5,
                                    .seed = 7,
                                    .deal = deal,
                                    .hide = hide};
    struct pdl_err err = {.msg = ""};
    pdl_sampler *s = NULL;

    if (pdl_sampler_create(&o, &s, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* A loss that falls from epoch to epoch, at another pace for each sample. */
static double loss_of(int64_t sample, int64_t epoch)
{
    struct pdl_rng4 x = pdl_philox(99, 0, (uint64_t)sample);
    double pace = x.v[0] * 0x1p-32;

    return 2.3 * exp(-pace * (double)(epoch + 1)) + 1e-3 * (double)(x.v[1] % 7);
}

static void train(pdl_sampler *s, int64_t batch, int64_t from, int64_t to)
{
    int64_t e = pdl_sampler_epoch(s);

    for (int64_t p = from * batch; p < to * batch; p++) {
        int64_t x = pdl_sampler_at(s, p);

        pdl_sampler_saw(s, x, loss_of(x, e), loss_of(x, e) < 0.7);
    }
}

static void refresh(pdl_sampler *s)
{
    const int64_t *hidden;
    int64_t n = pdl_sampler_hidden(s, &hidden);
    int64_t e = pdl_sampler_epoch(s);

    for (int64_t i = 0; pdl_sampler_refreshes(s) && i < n; i++)
        pdl_sampler_saw(s, hidden[i], loss_of(hidden[i], e),
                        loss_of(hidden[i], e) < 0.7);
}

static void run_epoch(pdl_sampler *s, int64_t batch)
{
    pdl_sampler_next(s);
    train(s, batch, 0, pdl_sampler_batches(s));
    refresh(s);
}

/* ---- orders ------------------------------------------------------------ */

static void by_default_the_order_is_the_global_one(void **state)
{
    pdl_sampler *s = make(1000, 32, NULL, NULL);

    (void)state;
    for (int64_t e = 0; e < 3; e++) {
        struct pdl_order o;

        pdl_sampler_next(s);
        pdl_order_begin(&o, pdl_shuffle_find("global", NULL), 7, e, 1000);
        assert_int_equal(pdl_sampler_batches(s), 31);
        for (int64_t p = 0; p < 31 * 32; p++)
            assert_int_equal(pdl_sampler_at(s, p), pdl_order_at(&o, p));
    }
    assert_null(pdl_sampler_part(s, 0));
    assert_true(pdl_sampler_is_plain(s));
    pdl_sampler_destroy(s);
}

/* No sample twice in an epoch, and only the short last batch is missing. */
static void check_epoch(const pdl_sampler *s, int64_t n, int64_t batch)
{
    char *seen = calloc((size_t)n, 1);

    assert_int_equal(pdl_sampler_batches(s), n / batch);
    for (int64_t p = 0; p < n / batch * batch; p++) {
        int64_t x = pdl_sampler_at(s, p);

        assert_true(x >= 0 && x < n);
        assert_int_equal(seen[x]++, 0);
    }
    free(seen);
}

static void check_slots(const pdl_sampler *s, int64_t n)
{
    char *seen = calloc((size_t)n, 1);
    int64_t count = 0;

    for (int64_t w = 0; w < pdl_sampler_workers(s); w++) {
        int64_t own = pdl_sampler_slots(s, w),
                least = n / pdl_sampler_workers(s);

        assert_true(own == least || own == least + 1);
        for (int64_t i = 0; i < own; i++) {
            int64_t x = pdl_sampler_slot(s, w, i);

            assert_true(x >= 0 && x < n);
            assert_int_equal(seen[x]++, 0);
            count++;
        }
    }
    assert_int_equal(count, n);
    free(seen);
}

/* Receiver and sender know each other, and shares are kept. */
static void check_moves(const pdl_sampler *s, double q, int64_t n)
{
    int64_t m = pdl_sampler_workers(s);

    assert_true((double)pdl_sampler_moves(s) <= q * (double)(n / m) + 1e-6);
    for (int64_t w = 0; w < m; w++)
        for (int64_t j = 0; j < pdl_sampler_moves(s); j++) {
            struct pdl_sampler_move a = pdl_sampler_move(s, w, j);

            assert_true(a.to >= 0 && a.to < m);
            assert_int_equal(pdl_sampler_move(s, a.to, j).from, w);
            assert_int_equal(pdl_sampler_move(s, a.from, j).to, w);
            assert_int_equal(a.sample, pdl_sampler_slot(s, w, a.slot));
            for (int64_t k = 0; k < j; k++)
                assert_int_not_equal(pdl_sampler_move(s, w, k).slot, a.slot);
        }
}

static void every_sample_is_on_one_worker_after_every_epoch(void **state)
{
    static const char *const ways[] = {"local", "partial", "pair"};
    int most = effort(9, 64, 64);

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int m = 1; m <= most; m++) {
            int64_t n = 7 * m + m / 2, batch = 2 * m;
            double q = i == 0 ? 0 : 0.3;
            char deal[64];
            pdl_sampler *s;

            snprintf(deal, sizeof deal, "%s:workers=%d%s", ways[i], m,
                     i == 0 ? "" : ",q=0.3");
            s = make(n, batch, deal, NULL);
            for (int e = 0; e < 4; e++) {
                run_epoch(s, batch);
                check_slots(s, n);
                check_moves(s, q, n);
                for (int64_t p = 0; p < pdl_sampler_batches(s) * batch; p++)
                    assert_in_range(pdl_sampler_at(s, p), 0, n - 1);
            }
            pdl_sampler_destroy(s);
        }
}

static void workers_of_equal_shares_see_every_sample_once(void **state)
{
    pdl_sampler *s = make(960, 48, "partial:workers=16,q=0.25", NULL);

    (void)state;
    for (int e = 0; e < 5; e++) {
        run_epoch(s, 48);
        check_epoch(s, 960, 48);
    }
    pdl_sampler_destroy(s);
}

/* A worker trains on what it stores: position by position, and by micro-batch
 * as plans deal them. */
static void positions_belong_to_the_worker_that_stores_them(void **state)
{
    struct pdl_sampler_options o = {.samples = 96,
                                    .batch = 24,
                                    .micros = 2,
                                    .seed = 3,
                                    .deal = "partial:workers=4"};
    pdl_sampler *s = NULL;

    (void)state;
    assert_int_equal(pdl_sampler_create(&o, &s, NULL), PDL_OK);
    for (int e = 0; e < 3; e++) {
        pdl_sampler_next(s);
        for (int64_t p = 0; p < 96; p++) {
            int64_t w = p % 12 / 3, at = pdl_sampler_at(s, p);
            bool found = false;

            for (int64_t i = 0; i < pdl_sampler_slots(s, w); i++)
                found = found || pdl_sampler_slot(s, w, i) == at;
            assert_true(found);
        }
    }
    pdl_sampler_destroy(s);
}

static void what_is_sent_is_what_arrives(void **state)
{
    pdl_sampler *s = make(130, 8, "pair:workers=4,q=0.5", NULL);
    int64_t want[130];

    (void)state;
    for (int e = 0; e < 4; e++) {
        run_epoch(s, 8);
        for (int64_t w = 0, at = 0; w < 4; w++)
            for (int64_t i = 0; i < pdl_sampler_slots(s, w); i++)
                want[at++] = pdl_sampler_slot(s, w, i);
        for (int64_t w = 0; w < 4; w++)
            for (int64_t j = 0; j < pdl_sampler_moves(s); j++) {
                struct pdl_sampler_move a = pdl_sampler_move(s, w, j);
                struct pdl_sampler_move b = pdl_sampler_move(s, a.from, j);

                want[data_slots_begin(s, w) + a.slot] = b.sample;
            }
        pdl_sampler_next(s);
        for (int64_t w = 0, at = 0; w < 4; w++)
            for (int64_t i = 0; i < pdl_sampler_slots(s, w); i++)
                assert_int_equal(pdl_sampler_slot(s, w, i), want[at++]);
    }
    pdl_sampler_destroy(s);
}

static void a_lost_or_doubled_sample_is_noticed(void **state)
{
    pdl_sampler *s = make(60, 6, "partial:workers=6", NULL);

    (void)state;
    pdl_sampler_next(s);
    assert_true(data_deal_is_whole(s));
    s->slot[5] = s->slot[6];
    assert_false(data_deal_is_whole(s));
    assert_int_equal(pdl_sampler_resume(s, 1, NULL), PDL_EPARSE);
    s->slot[5] = 60;
    assert_false(data_deal_is_whole(s));
    pdl_sampler_destroy(s);
}

static void pairs_are_mutual_and_the_middle_one_stays(void **state)
{
    pdl_sampler *s = make(70, 7, "pair:workers=7,q=1", NULL);
    int alone = 0;

    (void)state;
    run_epoch(s, 7);
    pdl_sampler_next(s);
    for (int64_t w = 0; w < 7; w++) {
        int64_t p = pdl_sampler_move(s, w, 0).to;

        assert_int_equal(pdl_sampler_move(s, p, 0).to, w);
        alone += p == w;
    }
    assert_int_equal(alone, 1);
    pdl_sampler_destroy(s);
}

/* The worker with the largest loss meets the one whose largest is least. */
static void the_most_important_meets_the_least(void **state)
{
    pdl_sampler *s = make(64, 8, "pair:workers=8,place=files", NULL);

    (void)state;
    pdl_sampler_next(s);
    for (int64_t x = 0; x < 64; x++)
        pdl_sampler_saw(s, x, x / 8 == 3 ? 9 : x / 8 == 5 ? 0.01 : 1, false);
    data_deal_exchange(s);
    for (int64_t i = 0; i < 64; i++) /* as placed at first */
        s->slot[i] = i;
    s->epoch = -1;
    pdl_sampler_next(s);
    assert_int_equal(pdl_sampler_move(s, 3, 0).to, 5);
    assert_int_equal(pdl_sampler_move(s, 5, 0).to, 3);
    pdl_sampler_destroy(s);
}

static void samples_of_large_loss_leave_first_more_often(void **state)
{
    int large = 0, all = 0;

    (void)state;
    for (int k = 0; k < 20; k++) {
        struct pdl_sampler_options o = {.samples = 400,
                                        .batch = 4,
                                        .seed = (uint64_t)k,
                                        .deal = "pair:workers=4,q=0.1"};
        pdl_sampler *s = NULL;

        assert_int_equal(pdl_sampler_create(&o, &s, NULL), PDL_OK);
        pdl_sampler_next(s);
        for (int64_t x = 0; x < 400; x++)
            pdl_sampler_saw(s, x, x % 10 == 0 ? 9 : 1, false);
        pdl_sampler_next(s);
        for (int64_t w = 0; w < 4; w++)
            for (int64_t j = 0; j < pdl_sampler_moves(s); j++, all++)
                large += pdl_sampler_move(s, w, j).sample % 10 == 0;
        pdl_sampler_destroy(s);
    }
    /* a tenth of the samples has half of the weight */
    assert_in_range(large, all * 4 / 10, all * 6 / 10);
}

static void classes_go_to_workers_in_a_row(void **state)
{
    int32_t labels[40];
    struct pdl_sampler_options o = {.samples = 40,
                                    .batch = 8,
                                    .deal = "local:workers=4,place=class",
                                    .labels = labels};
    pdl_sampler *s = NULL;

    (void)state;
    for (int i = 0; i < 40; i++)
        labels[i] = i * 7 % 4;
    assert_int_equal(pdl_sampler_create(&o, &s, NULL), PDL_OK);
    for (int64_t w = 0; w < 4; w++)
        for (int64_t i = 0; i < 10; i++)
            assert_int_equal(labels[pdl_sampler_slot(s, w, i)], w);
    pdl_sampler_destroy(s);
    o.labels = NULL;
    assert_int_equal(pdl_sampler_create(&o, &s, NULL), PDL_EINVAL);
}

/* ---- hiding ------------------------------------------------------------ */

static void every_way_lists_valid_samples_in_every_epoch(void **state)
{
    enum { N = 203, B = 10 };

    (void)state;
    for (int h = 0; pdl_hide_at(h); h++) {
        pdl_sampler *s = make(N, B, NULL, pdl_hide_at(h)->name);

        for (int e = 0; e < 30; e++) {
            const int64_t *hidden;
            int64_t n;

            run_epoch(s, B);
            n = pdl_sampler_hidden(s, &hidden);
            assert_true(pdl_sampler_batches(s) >= 1);
            for (int64_t p = 0; p < pdl_sampler_batches(s) * B; p++)
                for (int64_t i = 0; i < n; i++)
                    assert_int_not_equal(pdl_sampler_at(s, p), hidden[i]);
            if (!s->hide->lists)
                assert_int_equal(pdl_sampler_batches(s), (N - n) / B);
        }
        pdl_sampler_destroy(s);
    }
}

/* By its definition, sample after sample. */
static void check_kakurenbo(const pdl_sampler *s, double f)
{
    int64_t n = s->opt.samples, k = (int64_t)(f * (double)n + 1e-9);

    for (int64_t x = 0; x < n; x++) {
        int64_t lower = 0;
        bool want;

        for (int64_t y = 0; y < n; y++)
            lower += s->before.loss[y] < s->before.loss[x] ||
                     (s->before.loss[y] == s->before.loss[x] && y < x);
        want = lower < k && (s->before.flags[x] & DATA_CORRECT) &&
               exp(-(double)s->before.loss[x]) >= 0.7;
        assert_int_equal(s->hides[x], want);
    }
}

static void kakurenbo_hides_what_its_definition_says(void **state)
{
    static const struct {
        int from;
        double f, rate;
    } parts[] = {{0, .3, 1},        {5, .3, 1.4286},   {10, .24, 1.3158},
                 {20, .18, 1.2195}, {27, .12, 1.1364}, {30, 0, 0}};
    pdl_sampler *s = make(500, 10, NULL, "kakurenbo");
    const int64_t *hidden;

    (void)state;
    for (int e = 0, k = 0; e < 30; e++) {
        k += e == parts[k + 1].from;
        run_epoch(s, 10);
        check_kakurenbo(s, parts[k].f);
        assert_true(fabs(pdl_sampler_rate(s) - parts[k].rate) < 1e-4);
        assert_true((double)pdl_sampler_hidden(s, &hidden) <=
                    parts[k].f * 500 + 1e-6);
        if (e == 0)
            assert_int_equal(pdl_sampler_hidden(s, &hidden), 0);
    }
    pdl_sampler_destroy(s);
}

static void ties_hide_exactly_as_many_as_may_be(void **state)
{
    pdl_sampler *s = make(1000, 10, NULL, "kakurenbo:f=0.25,lr=realised");
    const int64_t *hidden;

    (void)state;
    for (int e = 0; e < 6; e++) {
        pdl_sampler_next(s);
        for (int64_t x = 0; x < 1000; x++)
            pdl_sampler_saw(s, x, x == 3 ? NAN : 0.125, true);
    }
    assert_int_equal(pdl_sampler_hidden(s, &hidden), 250);
    for (int64_t i = 0; i < 250; i++)
        assert_int_equal(hidden[i], i < 3 ? i : i + 1); /* not the NaN */
    assert_true(fabs(pdl_sampler_rate(s) - 1 / .75) < 1e-12);
    pdl_sampler_destroy(s);
}

static void infobatch_keeps_the_expected_sum_of_losses(void **state)
{
    double mean = 0, all = 0;
    int rounds = effort(5, 40, 200);

    (void)state;
    for (int k = 0; k < rounds; k++) {
        struct pdl_sampler_options o = {.samples = 2000,
                                        .batch = 10,
                                        .epochs = 10,
                                        .seed = (uint64_t)k,
                                        .hide = "infobatch"};
        pdl_sampler *s = NULL;

        assert_int_equal(pdl_sampler_create(&o, &s, NULL), PDL_OK);
        run_epoch(s, 10);
        assert_int_equal(s->nhidden, 0);
        pdl_sampler_next(s);
        for (int64_t x = 0; x < 2000; x++) {
            all += (double)s->before.loss[x];
            if (!s->hides[x])
                mean += (double)(s->weight[x] * s->before.loss[x]);
        }
        assert_true(s->nhidden > 100);
        for (int e = 2; e < 10; e++)
            pdl_sampler_next(s);
        assert_int_equal(s->nhidden, 0); /* 8.75 of 10 and on */
        pdl_sampler_destroy(s);
    }
    assert_true(fabs(mean / all - 1) < 0.02);
}

static void equal_losses_are_not_below_their_mean(void **state)
{
    pdl_sampler *s = make(1000, 10, NULL, "infobatch");
    const int64_t *hidden;

    (void)state;
    pdl_sampler_next(s);
    for (int64_t x = 0; x < 1000; x++)
        pdl_sampler_saw(s, x, 2.302585, false);
    pdl_sampler_next(s);
    assert_int_equal(pdl_sampler_hidden(s, &hidden), 0);
    pdl_sampler_destroy(s);
}

static void hidden_samples_leave_last(void **state)
{
    pdl_sampler *s = make(400, 8, "partial:workers=4,q=0.5", "kakurenbo:f=0.4");
    const int64_t *hidden;

    (void)state;
    for (int e = 0; e < 6; e++)
        run_epoch(s, 8);
    assert_true(pdl_sampler_hidden(s, &hidden) > 50);
    for (int64_t w = 0; w < 4; w++) {
        int64_t trained = 0;

        for (int64_t i = 0; i < 100; i++)
            trained += !s->hides[pdl_sampler_slot(s, w, i)];
        for (int64_t j = 0; j < 50 && j < trained; j++)
            assert_false(s->hides[pdl_sampler_move(s, w, j).sample]);
    }
    pdl_sampler_destroy(s);
}

/* ---- going on ---------------------------------------------------------- */

static void copy_parts(pdl_sampler *to, const pdl_sampler *from)
{
    for (int i = 0; pdl_sampler_part(from, i); i++) {
        const struct pdl_sampler_part *a = pdl_sampler_part(from, i);

        assert_string_equal(a->name, pdl_sampler_part(to, i)->name);
        memcpy(pdl_sampler_part(to, i)->data, a->data,
               (size_t)(a->count * a->bytes));
    }
}

static void a_run_goes_on_in_the_middle_of_an_epoch(void **state)
{
    enum { N = 240, B = 12 };

    (void)state;
    for (int d = 0; pdl_deal_at(d); d++)
        for (int h = 0; pdl_hide_at(h); h++) {
            char deal[64];
            pdl_sampler *a, *b;

            if (strcmp(pdl_hide_at(h)->name, "iswr") == 0 && d > 1)
                continue; /* refused */
            snprintf(deal, sizeof deal, "%s%s", pdl_deal_at(d)->name,
                     d > 1 ? ":workers=6" : "");
            a = make(N, B, deal, pdl_hide_at(h)->name);
            b = make(N, B, deal, pdl_hide_at(h)->name);
            for (int e = 0; e < 5; e++)
                run_epoch(a, B);
            pdl_sampler_next(a);
            train(a, B, 0, 3);
            copy_parts(b, a);
            assert_int_equal(pdl_sampler_resume(b, 5, NULL), PDL_OK);
            train(a, B, 3, pdl_sampler_batches(a));
            train(b, B, 3, pdl_sampler_batches(b));
            refresh(a);
            refresh(b);
            for (int e = 0; e < 4; e++) {
                run_epoch(a, B);
                run_epoch(b, B);
                assert_int_equal(pdl_sampler_batches(a),
                                 pdl_sampler_batches(b));
                for (int64_t p = 0; p < pdl_sampler_batches(a) * B; p++)
                    assert_int_equal(pdl_sampler_at(a, p),
                                     pdl_sampler_at(b, p));
            }
            pdl_sampler_destroy(a);
            pdl_sampler_destroy(b);
        }
}

/* ---- wrong input ------------------------------------------------------- */

static void wrong_texts_are_refused_with_a_hint(void **state)
{
    static const struct {
        const char *deal, *hide, *says;
    } cases[] = {
        {"globl", NULL, "no way to shuffle samples is called 'globl'"},
        {"partial:p=1", NULL, "partial: no parameter is called 'p'"},
        {"partial:q=1.5", NULL, "partial: q=1.5 is outside 0 to 1"},
        {"partial:q=0,q=1", NULL, "partial: q is given twice"},
        {"local:q=0.3", NULL, "local: q is always 0: nothing is exchanged"},
        {NULL, "random:r=1", "random: r=1 is outside 0 to 0.99"},
        {"partial:q=x", NULL, "partial: q='x' is not a number"},
        {"partial:q", NULL, "partial: 'q' is not written key=value"},
        {"partial:", NULL, "partial: '' is not written key=value"},
        {"partial:place=here", NULL, "partial: place=here is not known"},
        {"partial:workers=7", NULL,
         "partial: 7 workers do not divide a micro-batch of 10"},
        {"partial:workers=2.5", NULL,
         "partial: workers=2.5 is no whole number"},
        {"local:workers=200", NULL, "local: 200 workers, but 100 samples"},
        {NULL, "kakurenbo:f=nan", "kakurenbo: f=nan is outside 0 to 0.9"},
        {NULL, "hide", "no way to hide samples is called 'hide'"},
        {"local", "iswr",
         "iswr draws from all samples: --shuffle local has them on workers"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_sampler_options o = {.samples = 100,
                                        .batch = 10,
                                        .deal = cases[i].deal,
                                        .hide = cases[i].hide};
        struct pdl_err err = {.msg = ""};
        pdl_sampler *s = NULL;

        assert_int_not_equal(pdl_sampler_create(&o, &s, &err), PDL_OK);
        assert_string_equal(err.msg, cases[i].says);
        assert_null(s);
    }
}

static void sorting_is_stable_and_knows_all_floats(void **state)
{
    static const float want[] = {-INFINITY, -2, -1e-30f,  0,
                                 1e-30f,    1,  INFINITY, NAN};
    pdl_sampler *s = make(3000, 1, NULL, "kakurenbo");

    (void)state;
    for (int i = 1; i < 8; i++)
        assert_true(data_key_of(want[i - 1]) < data_key_of(want[i]));
    for (int64_t i = 0; i < 3000; i++)
        s->key[i] = pdl_philox(1, 0, (uint64_t)i).v[0] & 0xfff003ffu;
    for (int64_t n = 1; n <= 3000; n = n < 60 ? n + 1 : n * 50) {
        data_sort(s, n);
        for (int64_t i = 1; i < n; i++) {
            int64_t a = s->sorted[i - 1], b = s->sorted[i];

            assert_true(s->key[a] < s->key[b] ||
                        (s->key[a] == s->key[b] && a < b));
        }
    }
    pdl_sampler_destroy(s);
}

/* What is found without sorting is what sorting finds: few values, so that the
 * limit has ties. */
static void the_lowest_are_the_first_of_the_sorted(void **state)
{
    enum { N = 200 };
    pdl_sampler *s = make(N, 1, NULL, "kakurenbo");

    (void)state;
    for (int k = 1; k <= N; k++) {
        uint32_t last;
        int64_t equal, ties = 0;

        for (int i = 0; i < N; i++) {
            uint32_t x = pdl_philox(3, (uint64_t)k, (uint64_t)i).v[0];

            s->before.loss[i] = x % 40 ? (float)(x % (uint32_t)k) / 3 : NAN;
        }
        data_sort_by_loss(s);
        last = s->key[s->sorted[k - 1]];
        for (int i = 0; i < k; i++)
            ties += s->key[s->sorted[i]] == last;
        assert_int_equal(data_lowest_losses(s, k, &equal), last);
        assert_int_equal(equal, ties);
    }
    pdl_sampler_destroy(s);
}

/* Four samples of a worker, and four workers that exchange: of 4800 epochs
 * each of 24 orders comes 200 times, give or take five deviations of 14. */
static void all_orders_of_workers_are_as_likely(void **state)
{
    pdl_sampler *own = make(4, 1, "local:workers=1", NULL);
    pdl_sampler *four = make(8, 4, "partial:workers=4,q=0.5", NULL);
    int orders[2][256] = {0};

    (void)state;
    for (int e = 0; e < 4800; e++) {
        int a = 0, b = 0;

        pdl_sampler_next(own);
        pdl_sampler_next(four);
        for (int64_t i = 0; i < 4; i++) {
            a = a * 4 + (int)pdl_sampler_at(own, i);
            b = b * 4 + (int)pdl_sampler_move(four, i, 0).to;
        }
        orders[0][a]++;
        orders[1][b]++;
    }
    for (int k = 0; k < 2; k++) {
        int seen = 0;

        for (int i = 0; i < 256; i++)
            if (orders[k][i]) {
                assert_in_range(orders[k][i], 130, 270);
                seen++;
            }
        assert_int_equal(seen, 24);
    }
    pdl_sampler_destroy(own);
    pdl_sampler_destroy(four);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_the_order_is_the_global_one),
        cmocka_unit_test(every_sample_is_on_one_worker_after_every_epoch),
        cmocka_unit_test(workers_of_equal_shares_see_every_sample_once),
        cmocka_unit_test(positions_belong_to_the_worker_that_stores_them),
        cmocka_unit_test(what_is_sent_is_what_arrives),
        cmocka_unit_test(a_lost_or_doubled_sample_is_noticed),
        cmocka_unit_test(pairs_are_mutual_and_the_middle_one_stays),
        cmocka_unit_test(the_most_important_meets_the_least),
        cmocka_unit_test(samples_of_large_loss_leave_first_more_often),
        cmocka_unit_test(classes_go_to_workers_in_a_row),
        cmocka_unit_test(every_way_lists_valid_samples_in_every_epoch),
        cmocka_unit_test(kakurenbo_hides_what_its_definition_says),
        cmocka_unit_test(ties_hide_exactly_as_many_as_may_be),
        cmocka_unit_test(infobatch_keeps_the_expected_sum_of_losses),
        cmocka_unit_test(equal_losses_are_not_below_their_mean),
        cmocka_unit_test(hidden_samples_leave_last),
        cmocka_unit_test(a_run_goes_on_in_the_middle_of_an_epoch),
        cmocka_unit_test(wrong_texts_are_refused_with_a_hint),
        cmocka_unit_test(sorting_is_stable_and_knows_all_floats),
        cmocka_unit_test(the_lowest_are_the_first_of_the_sorted),
        cmocka_unit_test(all_orders_of_workers_are_as_likely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
