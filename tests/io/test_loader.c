/* Prefetch: the same batches as reading by hand, for any number of ranks,
 * from any step, and errors in their turn. */
#include "fixtures.h"

static pdl_io *digits(void)
{
    pdl_io *io = NULL;

    assert_int_equal(pdl_io_open("digits", NULL, &io, NULL), PDL_OK);
    return io;
}

static struct pdl_loader_options options(const pdl_io *io, int64_t batch)
{
    const struct pdl_dataset *d = pdl_io_describe(io);

    return (struct pdl_loader_options){
        .io = io,
        .shuffle = pdl_shuffle_find("global", NULL),
        .seed = 3,
        .batch = batch,
        .hi = batch,
        .input = true,
        .target = true,
        .input_box = pdl_field_box(&d->input),
        .target_box = pdl_field_box(&d->target),
    };
}

static pdl_loader *start(const struct pdl_loader_options *o)
{
    struct pdl_err err = {"", ""};
    pdl_loader *l = NULL;

    if (pdl_loader_create(o, &l, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return l;
}

static void batches_are_those_read_by_hand(void **state)
{
    enum { B = 96, STEPS = 40 }; /* 14 batches an epoch */
    struct pdl_augment g = {
        .pad = 1, .channels = 1, .mean = {0.3F}, .std = {0.4F}};
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, B);
    pdl_loader *l;

    (void)state;
    o.augment = &g;
    l = start(&o);
    for (int64_t step = 0; step < STEPS; step++) {
        struct pdl_augment mine = g;
        struct pdl_order order;
        struct pdl_batch b;
        int64_t id[B];
        struct pdl_read r = {
            .samples = id, .nsamples = B, .box = o.input_box, .augment = &mine};
        static float x[B * 64];
        int32_t y[B];

        assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
        assert_true(b.step == step && b.epoch == step / 14);
        assert_true(b.index == step % 14 && b.nsamples == B && b.global == B);
        pdl_order_begin(&order, o.shuffle, o.seed, b.epoch, 1438);
        for (int i = 0; i < B; i++)
            id[i] = pdl_order_at(&order, b.index * B + i);
        assert_memory_equal(id, b.samples, sizeof id);
        mine.seed = o.seed;
        mine.epoch = b.epoch;
        assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
        assert_memory_equal(x, b.input, sizeof x);
        r.box = o.target_box;
        assert_int_equal(pdl_io_target(io, &r, y, NULL), PDL_OK);
        assert_memory_equal(y, b.target, sizeof y);
    }
    pdl_loader_destroy(l);
    pdl_io_close(io);
}

static int places;

static void *place(void *ctx, size_t bytes)
{
    assert_ptr_equal(ctx, &places);
    places++;
    return malloc(bytes);
}

static void place_back(void *ctx, void *at)
{
    assert_ptr_equal(ctx, &places);
    places--;
    free(at);
}

/* As bfloat16, by several threads, into memory that is the caller's. */
static void narrow_batches_are_the_wide_ones_rounded(void **state)
{
    enum { B = 96, STEPS = 6 };
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, B), n = o;
    pdl_loader *wide = start(&o), *narrow;

    (void)state;
    n.narrow = true;
    n.threads = 5;
    n.place = place;
    n.place_back = place_back;
    n.ctx = &places;
    narrow = start(&n);
    assert_int_equal(places, 6); /* three batches, inputs and labels */
    for (int step = 0; step < STEPS; step++) {
        struct pdl_batch a, b;
        static uint16_t want[B * 64];

        assert_int_equal(pdl_loader_next(wide, &a, NULL), PDL_OK);
        assert_int_equal(pdl_loader_next(narrow, &b, NULL), PDL_OK);
        for (int i = 0; i < B * 64; i++)
            want[i] = pdl_to_bf16(((const float *)a.input)[i]);
        assert_memory_equal(want, b.input, sizeof want);
        assert_memory_equal(a.target, b.target, B * 4);
    }
    pdl_loader_destroy(wide);
    pdl_loader_destroy(narrow);
    assert_int_equal(places, 0);
    pdl_io_close(io);
}

/* What p ranks get of a step is what one gets; and starting there gives what
 * going there gives. */
static void ranks_and_restarts_change_nothing(void **state)
{
    enum { B = 60, STEP = 29 };
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, B);
    pdl_loader *l = start(&o);
    struct pdl_batch b;
    static float want[B * 64];
    int64_t ids[B];

    (void)state;
    for (int s = 0; s <= STEP; s++)
        assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    memcpy(want, b.input, sizeof want);
    memcpy(ids, b.samples, sizeof ids);
    pdl_loader_destroy(l);
    for (int p = 1; p <= 7; p++)
        for (int r = 0; r < p; r++) {
            o.lo = B * r / p;
            o.hi = B * (r + 1) / p;
            o.first_step = STEP;
            l = start(&o);
            assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
            assert_int_equal(b.nsamples, o.hi - o.lo);
            assert_memory_equal(b.samples, ids + o.lo,
                                (size_t)b.nsamples * sizeof ids[0]);
            assert_memory_equal(b.input, want + o.lo * 64,
                                (size_t)b.nsamples * 64 * sizeof want[0]);
            pdl_loader_destroy(l);
        }
    pdl_io_close(io);
}

static void micro_batches_come_one_after_another(void **state)
{
    enum { B = 60, M = 3, LO = 5, HI = 12, N = HI - LO };
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, B);
    pdl_loader *l = start(&o);
    struct pdl_batch b;
    static float want[B * 64];
    int64_t ids[B];

    (void)state;
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    memcpy(want, b.input, sizeof want);
    memcpy(ids, b.samples, sizeof ids);
    pdl_loader_destroy(l);
    o.micros = M;
    o.lo = LO;
    o.hi = HI;
    l = start(&o);
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    assert_int_equal(b.nsamples, M * N);
    for (int m = 0; m < M; m++) {
        const int64_t at = (int64_t)B / M * m + LO;

        assert_memory_equal(b.samples + (ptrdiff_t)N * m, ids + at,
                            N * sizeof ids[0]);
        assert_memory_equal((const float *)b.input + (ptrdiff_t)N * m * 64,
                            want + at * 64, N * 64 * sizeof want[0]);
    }
    pdl_loader_destroy(l);
    o.hi = B / M + 1; /* beyond a micro-batch */
    assert_int_equal(pdl_loader_create(&o, &l, NULL), PDL_EINVAL);
    pdl_io_close(io);
}

static void a_short_last_batch_is_kept_or_dropped(void **state)
{
    pdl_io *io = digits(); /* 1438 = 2 * 600 + 238 */
    struct pdl_loader_options o = options(io, 600);
    struct pdl_batch b;
    pdl_loader *l;

    (void)state;
    o.keep_last = true;
    o.lo = 200;
    o.hi = 400;
    o.first_step = 2;
    l = start(&o);
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    assert_true(b.epoch == 0 && b.global == 238 && b.nsamples == 38);
    pdl_loader_destroy(l);
    o.keep_last = false;
    l = start(&o);
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    assert_true(b.epoch == 1 && b.index == 0 && b.nsamples == 200);
    pdl_loader_destroy(l);
    pdl_io_close(io);
}

static void only_what_is_wanted_is_read(void **state)
{
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, 8);
    struct pdl_batch b;
    pdl_loader *l;

    (void)state;
    o.input = false;
    l = start(&o);
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    assert_null(b.input);
    assert_non_null(b.target);
    pdl_loader_destroy(l);
    pdl_io_close(io);
}

/* The token 200 at place 70 is outside the vocabulary of 100: sample 4 of 16
 * tokens. The batches before it come out well. */
static void an_error_of_the_reading_thread_comes_in_its_turn(void **state)
{
    struct pdl_io_options opt = {.format = "tokens",
                                 .sequence = 16,
                                 .holdout = -1,
                                 .classes = 100,
                                 .token_bytes = 2};
    struct pdl_loader_options o;
    struct pdl_err err = {"", ""};
    uint16_t tokens[200] = {0};
    struct pdl_batch b;
    pdl_io *io = NULL;
    pdl_loader *l;

    (void)state;
    fx_begin();
    tokens[70] = 200;
    fx_write("t.bin", tokens, sizeof tokens);
    assert_int_equal(pdl_io_open(fx("t.bin"), &opt, &io, NULL), PDL_OK);
    o = options(io, 2);
    o.shuffle = pdl_shuffle_find("none", NULL);
    l = start(&o);
    assert_int_equal(pdl_loader_next(l, &b, &err), PDL_OK);
    assert_int_equal(pdl_loader_next(l, &b, &err), PDL_OK);
    assert_int_equal(pdl_loader_next(l, &b, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "token 200 at place 70"));
    assert_int_equal(pdl_loader_next(l, &b, &err), PDL_EPARSE);
    pdl_loader_destroy(l);
    pdl_io_close(io);
    fx_end();
}

static void the_end_is_said_and_an_early_end_does_not_hang(void **state)
{
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, 10);
    struct pdl_batch b;
    pdl_loader *l;

    (void)state;
    o.last_step = 3;
    l = start(&o);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
    assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_EINVAL);
    assert_true(pdl_loader_waited_s(l) >= 0);
    pdl_loader_destroy(l);
    o.last_step = 0;
    for (int depth = 1; depth < 20; depth++) {
        o.depth = depth;
        l = start(&o);
        if (depth % 2)
            assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
        pdl_loader_destroy(l);
    }
    pdl_io_close(io);
}

/* Samples of a list, once; the last batch is filled up. */
static void a_list_is_read_once(void **state)
{
    enum { N = 23, B = 10 };
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, B);
    int64_t list[N];
    pdl_loader *l;

    (void)state;
    for (int i = 0; i < N; i++)
        list[i] = i == 7 ? ~(int64_t)70 : 10 * i;
    for (int k = 0; k < 2; k++) {
        struct pdl_batch b;

        o.shuffle = NULL;
        o.list = k ? NULL : list;
        o.nlist = N;
        o.last_step = 3;
        l = start(&o);
        for (int64_t i = 0; i < 3 * B; i++) {
            int64_t want = i >= N ? 0 : k ? i : 10 * i;

            if (i % B == 0)
                assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_OK);
            assert_int_equal(b.nsamples, B);
            assert_int_equal(b.samples[i % B], want);
        }
        assert_int_equal(pdl_loader_next(l, &b, NULL), PDL_EINVAL);
        pdl_loader_destroy(l);
    }
    o.shuffle = pdl_shuffle_find("global", NULL); /* two orders */
    assert_int_equal(pdl_loader_create(&o, &l, NULL), PDL_EINVAL);
    pdl_io_close(io);
}

static void a_batch_larger_than_the_set_is_refused(void **state)
{
    pdl_io *io = digits();
    struct pdl_loader_options o = options(io, 2000);
    struct pdl_err err = {"", ""};
    pdl_loader *l = NULL;

    (void)state;
    assert_int_equal(pdl_loader_create(&o, &l, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "fewer than a batch of 2000"));
    pdl_io_close(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_read_by_hand),
        cmocka_unit_test(narrow_batches_are_the_wide_ones_rounded),
        cmocka_unit_test(ranks_and_restarts_change_nothing),
        cmocka_unit_test(micro_batches_come_one_after_another),
        cmocka_unit_test(a_short_last_batch_is_kept_or_dropped),
        cmocka_unit_test(only_what_is_wanted_is_read),
        cmocka_unit_test(an_error_of_the_reading_thread_comes_in_its_turn),
        cmocka_unit_test(the_end_is_said_and_an_early_end_does_not_hang),
        cmocka_unit_test(a_list_is_read_once),
        cmocka_unit_test(a_batch_larger_than_the_set_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
