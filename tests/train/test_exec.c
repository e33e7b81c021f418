/* P virtual ranks against serial, tensor by tensor: random small networks x
 * strategies x sizes, uneven and empty shards. Bit for bit where no sum
 * crosses ranks; and what is broken on purpose must be seen. PDL_LONG=1 runs
 * many more triples. */
#include "effort.h"
#include "plan/random_plan.h"
#include "train/optim/optim.h"
#include "train/train_priv.h"

struct triple {
    pdl_arena *a;
    const struct pdl_plan *serial, *plan;
    char what[640];
};

static const struct pdl_plan *lowered(pdl_arena *a, const struct pdl_model *m,
                                      const char *text, int64_t batch,
                                      enum pdl_dtype dtype, bool allow_empty,
                                      struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = batch,
                                   .dtype = dtype,
                                   .allow_empty = allow_empty,
                                   .gather_classes = dtype != PDL_F64};
    const struct pdl_plan *p = NULL;

    if (pdl_strategy_parse(a, text, s, err) != PDL_OK)
        return NULL;
    s->bn = PDL_BN_SYNC; /* the statistics of a serial run */
    return pdl_plan_lower(a, m, s, &opt, &p, err) == PDL_OK ? p : NULL;
}

static const struct pdl_plan *lowered_serial(pdl_arena *a,
                                             const struct pdl_model *m,
                                             const struct pdl_plan *like,
                                             enum pdl_dtype dtype,
                                             struct pdl_err *err)
{
    char text[64] = "serial";

    if (like->micro_batches > 1)
        snprintf(text, sizeof text, "accumulate=%lld",
                 (long long)like->micro_batches);
    return lowered(a, m, text, like->batch, dtype, true, err);
}

/* False: the random strategy does not fit the random network. */
static bool random_triple(uint64_t seed, enum pdl_dtype dtype, struct triple *t)
{
    struct pdl_rng rng = {.key = seed};
    const struct pdl_model *m = random_model(t->a, &rng);
    int64_t batch = 2 * pick(&rng, 1, 4);
    struct pdl_err err;
    char text[512];

    random_strategy(&rng, m, text, sizeof text);
    snprintf(t->what, sizeof t->what, "seed %llu, %s, batch %lld",
             (unsigned long long)seed, text, (long long)batch);
    t->plan = lowered(t->a, m, text, batch, dtype, true, &err);
    if (!t->plan)
        return false;
    t->serial = lowered_serial(t->a, m, t->plan, dtype, &err);
    if (!t->serial)
        fail_msg("%s: %s", t->what, err.msg);
    return true;
}

static void say(const char *what, const struct pdl_train_diff *d)
{
    char at[128] = "";
    size_t n = 0;

    for (int i = 0; i < d->ndims && n + 24 < sizeof at; i++)
        n += (size_t)snprintf(at + n, sizeof at - n, "%s%lld", i ? "," : "",
                              (long long)d->index[i]);
    fail_msg("%s: step %lld, micro-batch %lld, rank %lld, operation %d (%s) "
             "at [%s]: %.17g instead of %.17g%s",
             what, (long long)d->step, (long long)d->micro, (long long)d->rank,
             d->op, d->what, at, d->got, d->want,
             d->exact ? ", must be exact" : "");
}

/* In float32 a second step starts from weights that are already off by the
 * noise of the first, which a batch norm may blow up: one step. */
static int compare_one(const char *backend, uint64_t seed, enum pdl_dtype dtype,
                       double tolerance, struct pdl_train_diff *d)
{
    struct triple t = {.a = pdl_arena_create(PDL_ARENA_DEFAULT)};
    struct pdl_err err;
    int rc = random_triple(seed, dtype, &t);

    if (rc) {
        struct pdl_train_comparison c = {
            .a = t.serial,
            .b = t.plan,
            .opt = {.backend = backend, .seed = seed, .poison = true},
            .steps = dtype == PDL_F64 ? 2 : 1,
            .lr = 0.05,
            .tolerance = tolerance,
            .exact = strcmp(backend, "ref") == 0};

        if (pdl_train_compare(&c, d, &err) != PDL_OK)
            fail_msg("%s: %s", t.what, err.msg);
        if (d->differs)
            say(t.what, d);
    }
    pdl_arena_destroy(t.a);
    return rc;
}

static void compare_many(const char *backend, uint64_t first, int want,
                         enum pdl_dtype dtype, double tolerance)
{
    int64_t compared = 0, bitwise = 0;
    int done = 0;

    for (uint64_t seed = first; done < want; seed++) {
        struct pdl_train_diff d = {.differs = false};

        if (!compare_one(backend, seed, dtype, tolerance, &d))
            continue;
        done++;
        compared += d.compared;
        bitwise += d.bitwise;
        assert_true(d.compared > 0);
    }
    assert_true(bitwise > compared / 10 || strcmp(backend, "ref") != 0);
    print_message("%d triples, %lld tensors, %lld of them bit for bit\n", done,
                  (long long)compared, (long long)bitwise);
}

static void ranks_equal_serial_in_float64(void **state)
{
    (void)state;
    compare_many("ref", 1, effort(40, 150, 3000), PDL_F64, 1e-9);
}

/* Sums of floats taken in another order, through a few layers. */
static void ranks_equal_serial_in_float32(void **state)
{
    (void)state;
    compare_many("ref", 100000, effort(20, 60, 1000), PDL_F32, 2e-3);
}

/* Blockings of oneDNN may depend on the extent of a shard. */
static void ranks_equal_serial_on_the_cpu_backend(void **state)
{
    (void)state;
    if (!train_backend_find("cpu")) {
        print_message("this build has no oneDNN\n");
        skip();
    }
    compare_many("cpu", 200000, effort(20, 60, 1000), PDL_F32, 2e-3);
}

/* ---- strategies by name --------------------------------------------------- */

static const struct pdl_model *deep_net(pdl_arena *a, int nspatial)
{
    pdl_build *b = pdl_build_begin(a, "deep");
    struct pdl_attr conv = {.features = 5};
    struct pdl_attr pool = {.features = 0}, drop = {.scale = 0.3};
    int64_t dim[4] = {3, 9, 7, 8};
    const struct pdl_model *m;
    struct pdl_err err;
    int x =
        pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 1 + nspatial, dim);
    int y, in[2];

    for (int s = 0; s < nspatial; s++) {
        conv.kernel[s] = 3;
        conv.pad[s] = conv.pad_end[s] = 1;
        pool.kernel[s] = 3;
        pool.stride[s] = 2;
        pool.pad[s] = pool.pad_end[s] = 1;
    }
    x = pdl_build_op(b, "conv", "conv1", &conv, &x, 1);
    x = pdl_build_op(b, "relu", "relu1", &(struct pdl_attr){0}, &x, 1);
    y = pdl_build_op(b, "conv", "conv2", &conv, &x, 1);
    y = pdl_build_op(b, "batch_norm", "bn2", &(struct pdl_attr){0}, &y, 1);
    in[0] = x;
    in[1] = y; /* crosses a pipeline stage */
    x = pdl_build_op(b, "add", "add", &(struct pdl_attr){0}, in, 2);
    x = pdl_build_op(b, "max_pool", "pool", &pool, &x, 1);
    conv.stride[0] = 2;
    x = pdl_build_op(b, "conv", "conv3", &conv, &x, 1);
    x = pdl_build_op(b, "relu", "relu3", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "dropout", "drop3", &drop, &x, 1);
    x = pdl_build_op(b, "flatten", "flatten", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "linear", "fc1", &(struct pdl_attr){.features = 9}, &x,
                     1);
    x = pdl_build_op(b, "dropout", "drop4", &drop, &x, 1);
    pdl_build_op(b, "linear", "fc2", &(struct pdl_attr){.features = 4}, &x, 1);
    if (pdl_build_end(b, &m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void equals_serial(const struct pdl_model *m, pdl_arena *a,
                          const char *strategy, int64_t batch)
{
    struct pdl_train_diff d = {.differs = false};
    struct pdl_err err = {"", ""};
    const struct pdl_plan *p =
        lowered(a, m, strategy, batch, PDL_F64, true, &err);
    struct pdl_train_comparison c = {
        .b = p,
        .opt = {.backend = "ref", .seed = 5, .poison = true},
        .steps = 3,
        .lr = 0.05,
        .tolerance = 1e-9,
        .exact = true};

    if (!p)
        fail_msg("%s: %s", strategy, err.msg);
    c.a = lowered_serial(a, m, p, PDL_F64, &err);
    if (pdl_train_compare(&c, &d, &err) != PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    if (d.differs)
        say(strategy, &d);
    assert_true(d.compared > 0);
}

static void every_strategy_equals_serial(void **state)
{
    static const struct {
        const char *text;
        int nspatial;
        int64_t batch;
    } cases[] = {
        {"data=3", 2, 7},
        {"data=7", 2, 7},
        {"spatial=3", 2, 4},
        {"spatial=2x2", 2, 3},
        {"spatial=2x2x2", 3, 2},
        {"spatial=1x2x3", 3, 2},
        {"filter=3", 2, 4},
        {"data=2,zero=3", 2, 4},
        {"pipe=2(1f1b,m=2),data=2,zero=3", 2, 8},
        {"data=3,recompute=full", 2, 6},
        {"data=2,zero=3,recompute=full,accumulate=2", 2, 8},
        {"channel=3", 2, 4},
        {"filter=2,channel=2", 2, 4},
        {"data=2,spatial=2", 2, 4},
        {"data=2,filter=2", 2, 5},
        {"data=2,channel=2,spatial=2", 2, 4},
        {"accumulate=3", 2, 6},
        {"data=2,accumulate=2", 2, 8},
        {"pipe=2(gpipe,m=1)", 2, 4},
        {"pipe=2(gpipe,m=4)", 2, 8},
        {"pipe=2(1f1b,m=4)", 2, 8},
        {"pipe=3(1f1b,m=6)", 2, 12},
        {"pipe=4(1f1b,m=2)", 2, 4},
        {"pipe=3(gpipe,m=3),data=2", 2, 12},
        {"pipe=2(interleaved,v=2,m=4)", 2, 8},
        {"pipe=2(interleaved,v=3,m=2),data=2", 2, 8},
        {"pipe=3(interleaved,v=2,m=6)", 2, 12},
        {"pipe=2(zb-h1,m=4)", 2, 8},
        {"pipe=3(zb-h1,m=2),data=2", 2, 8},
        {"pipe=3(zb-h2,m=6)", 2, 12},
        {"pipe=2(zb-h2,m=3),spatial=2", 2, 6},
        {"pipe=2(zb-v,m=4)", 2, 8},
        {"pipe=2(zb-v,m=1)", 2, 4},
        {"pipe=3(zb-v,m=6),data=2,zero=1", 2, 12},
        {"pipe=2(1f1b,m=3),spatial=2", 2, 6},
        {"pipe=2(1f1b,m=2),data=2,filter=2", 2, 8},
        {"conv1..pool: spatial=4; conv3..fc2: filter=4", 2, 4},
        {"conv1..conv2: data=4; bn2..fc2: channel=2,data=2", 2, 4},
        {"*: data=2; conv1..relu3: spatial=2; flatten..fc2: filter=2", 2, 4},
        {"data=2,bucket=1KiB", 2, 4},
        {"data=4,allreduce=ring", 2, 8},
        {"data=3,filter=2,allreduce=recursive-doubling", 2, 7},
        {"data=3,zero=1", 2, 6},
        {"data=2,zero=2", 2, 4},
        {"data=3,zero=3", 2, 6},
        {"data=2,filter=2,zero=1", 2, 4},
        {"pipe=2(1f1b,m=2),data=2,zero=1", 2, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

        equals_serial(deep_net(a, cases[i].nspatial), a, cases[i].text,
                      cases[i].batch);
        pdl_arena_destroy(a);
    }
}

static void every_strategy_of_a_transformer_equals_serial(void **state)
{
    static const char *const models[] = {
        "gpt:layers=2,hidden=12,heads=3,ffn=20,vocab=17,seq=7",
        "llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=6",
        ("llama:layers=2,hidden=16,heads=4,kv_heads=1,ffn=12,vocab=11,seq=6,"
         "qk_norm=1"),
        ("deepseek:layers=2,dense=2,hidden=8,heads=4,ffn=12,q_lora=6,kv_lora=5,"
         "nope=3,rope=2,v_head_dim=3,vocab=11,seq=6"),
        "bert:layers=1,hidden=8,heads=4,ffn=10,vocab=11,seq=6",
        "t5:layers=1,hidden=8,heads=4,head_dim=3,ffn=10,vocab=11,seq=6",
    };
    static const char *const strategies[] = {
        "data=3",
        "tensor=2",
        "tensor=2+seq",
        "pipe=2(1f1b,m=2)",
        "pipe=3(gpipe,m=2),data=2",
        "data=2,tensor=2",
        "pipe=2(1f1b,m=2),tensor=2+seq",
        "pipe=2(interleaved,v=2,m=2)",
        "pipe=2(zb-h1,m=3),tensor=2+seq",
        "pipe=2(zb-v,m=6),data=2,zero=3",
        "pipe=3(zb-h2,m=6),recompute=full",
        "context=2",
        "data=2,context=3",
        "data=2,zero=1",
        "data=2,zero=3",
        "data=2,recompute=full",
        "tensor=2,recompute=selective",
        "pipe=2(1f1b,m=2),data=2,zero=2,recompute=full",
    };
    size_t every = (size_t)effort(3, 1, 1); /* a third of them on each */

    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k++)
        for (size_t i = k % every; i < sizeof strategies / sizeof *strategies;
             i += every) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            const struct pdl_model *m;
            struct pdl_err err;

            if (pdl_model_load(a, models[k], NULL, &m, &err) != PDL_OK)
                fail_msg("%s: %s", models[k], err.msg);
            equals_serial(m, a, strategies[i], 6);
            pdl_arena_destroy(a);
        }
}

static void named_equals_serial(const char *model, const char *strategy,
                                int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m;
    struct pdl_err err;

    if (pdl_model_load(a, model, NULL, &m, &err) != PDL_OK)
        fail_msg("%s: %s", model, err.msg);
    equals_serial(m, a, strategy, batch);
    pdl_arena_destroy(a);
}

/* Ranks that have the same keys project them each, and add what they say of
 * the gradient. Heads that do not divide: 3 of a group over 2 ranks. */
static void a_tensor_axis_wider_than_the_keys_equals_serial(void **state)
{
    static const char *const models[] = {
        "llama:layers=2,hidden=16,heads=8,kv_heads=2,head_dim=4,ffn=12,vocab="
        "11,"
        "seq=6,qk_norm=1",
        "llama:layers=1,hidden=12,heads=6,kv_heads=2,head_dim=2,ffn=12,vocab="
        "11,"
        "seq=6",
    };
    static const char *const strategies[] = {
        "tensor=4",
        "tensor=4+seq",
        "data=2,tensor=4,zero=1",
        "data=2,tensor=4+seq,zero=3,recompute=full",
        "pipe=2(1f1b,m=2),tensor=4",
        "context=2,tensor=4",
    };

    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
            named_equals_serial(models[k], strategies[i], 4);
}

/* Tokens travel to the experts they visit, and back. */
static void every_strategy_of_a_mixture_equals_serial(void **state)
{
    static const char *const models[] = {
        "moe:layers=2,hidden=8,heads=2,ffn=6,vocab=11,seq=5,experts=4,topk=2",
        "deepseek:layers=2,dense=1,hidden=8,heads=2,ffn=6,moe_ffn=3,experts=4,"
        "topk=2,q_lora=6,kv_lora=5,nope=3,rope=2,v_head_dim=3,vocab=11,seq=5",
    };
    static const char *const strategies[] = {
        "data=3",
        "expert=2",
        "expert=4",
        "expert=3",
        "data=2,expert=2",
        "tensor=2",
        "expert=2,tensor=2",
        "pipe=2(1f1b,m=3),expert=2",
        "pipe=2(zb-h1,m=3),expert=2",
        "expert=2,zero=1",
        "data=2,expert=2,zero=3",
        "pipe=2(zb-h1,m=3),data=2,zero=3",
        "expert=2,accumulate=3",
        "expert=2,recompute=full",
    };
    size_t every = (size_t)effort(2, 1, 1); /* half of them on each */

    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (size_t i = every == 2 ? k : 0;
             i < sizeof strategies / sizeof *strategies; i += every)
            named_equals_serial(models[k], strategies[i], 12);
}

/* ---- batch norm in groups ----------------------------------------------- */

static const struct pdl_plan *as_written(pdl_arena *a,
                                         const struct pdl_model *m,
                                         const char *text, enum pdl_dtype dtype,
                                         struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 16, .dtype = dtype};
    const struct pdl_plan *p = NULL;

    return pdl_strategy_parse(a, text, s, err) == PDL_OK &&
                   pdl_plan_lower(a, m, s, &opt, &p, err) == PDL_OK
               ? p
               : NULL;
}

#define RESNET "resnet-cifar:depth=8,input=8"

static enum pdl_status groups_are(const char *backend, enum pdl_dtype dtype,
                                  const char *groups, const char *ranks,
                                  struct pdl_train_diff *d, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_train_comparison c = {
        .opt = {.backend = backend, .seed = 5, .poison = true},
        .steps = dtype == PDL_F64 ? 3 : 1,
        .lr = 0.05,
        .tolerance = dtype == PDL_F64 ? 1e-9 : 2e-3};
    enum pdl_status st;

    /* Groups are of samples: in float64 few channels tell what many do; the
     * other backends have vectors to fill. */
    st = pdl_model_load(a, dtype == PDL_F64 ? RESNET ",width=4" : RESNET, NULL,
                        &m, err);
    if (st == PDL_OK) {
        c.a = as_written(a, m, groups, dtype, err);
        c.b = as_written(a, m, ranks, dtype, err);
        st = c.a && c.b ? pdl_train_compare(&c, d, err) : PDL_EINVAL;
    }
    pdl_arena_destroy(a);
    return st;
}

/* What one rank does with M groups of its samples is what M ranks do. */
static void groups_of_a_rank_are_ranks(void **state)
{
    static const char *const cases[][2] = {
        {"bn-groups=2", "data=2"},
        {"bn-groups=4", "data=4"},
        {"bn-groups=4", "data=2,bn-groups=4"},
        {"bn-groups=4,accumulate=2", "data=4,accumulate=2"},
        {"bn-groups=4,recompute=full", "data=4"},
        {"bn-groups=16", "data=2,bn-groups=16,zero=1"},
    };
    static const char *const backends[] = {"ref", "cpu"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            struct pdl_train_diff d = {.differs = false};
            struct pdl_err err;

            if (!train_backend_find(backends[k]))
                continue;
            if (groups_are(backends[k], k ? PDL_F32 : PDL_F64, cases[i][0],
                           cases[i][1], &d, &err) != PDL_OK)
                fail_msg("%s: %s", cases[i][1], err.msg);
            if (d.differs)
                say(cases[i][1], &d);
            assert_true(d.compared > 0);
        }
}

static void groups_that_cannot_be_are_told(void **state)
{
    static const char *const cases[][3] = {
        {"bn-groups=3", "serial", "does not divide a micro-batch of 16"},
        {"bn-groups=2", "data=4,bn-groups=2", "cannot be dealt to data=4"},
        {"bn-groups=2,bn=sync", "serial", "contradict"},
        {"bn-groups=2", "data=2,spatial=2,bn-groups=2", "spatial="},
        {"bn-groups=2", "serial", "2 groups of samples in A, 1 in B"},
        {"bn-groups=2", "data=4", "2 groups of samples in A, 4 in B"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pdl_train_diff d = {.differs = false};
        struct pdl_err err = {"", ""};

        assert_int_equal(
            groups_are("ref", PDL_F64, cases[i][0], cases[i][1], &d, &err),
            PDL_EINVAL);
        if (!strstr(err.msg, cases[i][2]))
            fail_msg("%s: %s", cases[i][2], err.msg);
    }
}

/* ---- optimizers ------------------------------------------------------------ */

/* Norms of tensors cut over ranks, and of the whole gradient, are those of
 * the serial run. */
static void every_optimizer_equals_serial(void **state)
{
    static const char *const strategies[] = {
        "data=2", "filter=3", "pipe=2(1f1b,m=2),channel=2",
        "conv1..pool: spatial=2; conv3..fc2: filter=2"};
    size_t every = (size_t)effort(2, 1, 1); /* half of them with each */

    (void)state;
    for (int k = 0; train_optimizer_at(k); k++)
        for (size_t i = every == 2 ? (size_t)k % 2 : 0;
             i < sizeof strategies / sizeof *strategies; i += every) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            const struct pdl_model *m = deep_net(a, 2);
            struct pdl_train_diff d = {.differs = false};
            struct pdl_err err = {"", ""};
            struct pdl_train_comparison c = {
                .opt = {.backend = "ref",
                        .optimizer = train_optimizer_at(k)->name,
                        .clip = i > 1 ? 0.1 : 0,
                        .seed = 5,
                        .poison = true},
                .steps = 3,
                .lr = 0.01,
                .tolerance = 1e-6};

            c.b = lowered(a, m, strategies[i], 8, PDL_F64, true, &err);
            c.a = lowered_serial(a, m, c.b, PDL_F64, &err);
            if (pdl_train_compare(&c, &d, &err) != PDL_OK)
                fail_msg("%s: %s", strategies[i], err.msg);
            if (d.differs)
                say(c.opt.optimizer, &d);
            pdl_arena_destroy(a);
        }
}

/* ---- mutations ------------------------------------------------------------ */

static const struct pdl_model *small_net(pdl_arena *a)
{
    pdl_build *b = pdl_build_begin(a, "small");
    struct pdl_attr conv = {
        .features = 4, .kernel = {3, 3}, .pad = {1, 1}, .pad_end = {1, 1}};
    struct pdl_attr pool = {.kernel = {3, 3}, .stride = {2, 2}};
    int64_t dim[3] = {2, 9, 9};
    const struct pdl_model *m;
    struct pdl_err err;
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 3, dim);

    x = pdl_build_op(b, "conv", "conv1", &conv, &x, 1);
    x = pdl_build_op(b, "batch_norm", "bn1", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "relu", "relu1", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "max_pool", "pool1", &pool, &x, 1);
    x = pdl_build_op(b, "conv", "conv2", &conv, &x, 1);
    x = pdl_build_op(b, "flatten", "flatten", &(struct pdl_attr){0}, &x, 1);
    pdl_build_op(b, "linear", "fc", &(struct pdl_attr){.features = 4}, &x, 1);
    if (pdl_build_end(b, &m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return m;
}

static bool caught(const struct pdl_plan *serial, const struct pdl_plan *p,
                   enum train_fault fault, int op, struct pdl_train_diff *d)
{
    struct pdl_train_comparison c = {
        .a = serial,
        .b = p,
        .opt = {.backend = "ref", .seed = 3, .poison = true},
        .steps = 1,
        .lr = 0.05,
        .tolerance = 1e-9,
        .exact = true};
    struct pdl_err err;

    *d = (struct pdl_train_diff){.differs = false};
    if (train_compare_broken(&c, fault, op, d, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return d->differs;
}

static bool suits(enum train_fault fault, enum pdl_plan_op_kind kind)
{
    return fault == TRAIN_FAULT_SKIP_SUM ? kind == PDL_PLAN_OP_ALLREDUCE
           : fault == TRAIN_FAULT_DROP_ROW
               ? kind == PDL_PLAN_OP_HALO
               : kind == PDL_PLAN_OP_ALLGATHER || kind == PDL_PLAN_OP_ALLTOALL;
}

/* Every exchange of the kind, broken one at a time; the message must name
 * what comes out of it or of an operation right behind it. */
static void mutate(const char *strategy, enum train_fault fault, int at_least)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = small_net(a);
    struct pdl_train_diff d;
    struct pdl_err err = {"", ""};
    const struct pdl_plan *p = lowered(a, m, strategy, 8, PDL_F64, true, &err);
    const struct pdl_plan *serial;
    int broken = 0;

    if (!p)
        fail_msg("%s: %s", strategy, err.msg);
    serial = lowered_serial(a, m, p, PDL_F64, &err);
    assert_false(caught(serial, p, TRAIN_FAULT_NONE, -1, &d));
    for (int i = 0; i < p->nops; i++) {
        if (!suits(fault, p->ops[i].kind))
            continue;
        broken++;
        if (!caught(serial, p, fault, i, &d))
            fail_msg("%s: operation %d (%s %s) was broken and nobody saw it",
                     strategy, i, pdl_plan_op_name(p->ops[i].kind),
                     p->tensors[p->ops[i].out[0]].name);
        assert_true(d.op >= i);
    }
    assert_true(broken >= at_least);
    pdl_arena_destroy(a);
}

static void a_skipped_allreduce_is_caught(void **state)
{
    (void)state;
    mutate("data=2", TRAIN_FAULT_SKIP_SUM, 3);
    mutate("channel=2,exchange=paper", TRAIN_FAULT_SKIP_SUM, 1);
    mutate("spatial=3", TRAIN_FAULT_SKIP_SUM, 3);
}

static void a_dropped_halo_row_is_caught(void **state)
{
    (void)state;
    mutate("spatial=2", TRAIN_FAULT_DROP_ROW, 3);
    mutate("spatial=2x2", TRAIN_FAULT_DROP_ROW, 3);
}

static void two_swapped_ranks_are_caught(void **state)
{
    (void)state;
    mutate("filter=2", TRAIN_FAULT_SWAP_RANKS, 1);
    mutate("filter=4", TRAIN_FAULT_SWAP_RANKS, 1);
}

int main(int argc, char **argv)
{
    (void)random_plan; /* the plan tests' own triples */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_equal_serial_in_float64),
        cmocka_unit_test(ranks_equal_serial_in_float32),
        cmocka_unit_test(ranks_equal_serial_on_the_cpu_backend),
        cmocka_unit_test(every_strategy_equals_serial),
        cmocka_unit_test(every_strategy_of_a_transformer_equals_serial),
        cmocka_unit_test(a_tensor_axis_wider_than_the_keys_equals_serial),
        cmocka_unit_test(every_strategy_of_a_mixture_equals_serial),
        cmocka_unit_test(groups_of_a_rank_are_ranks),
        cmocka_unit_test(groups_that_cannot_be_are_told),
        cmocka_unit_test(every_optimizer_equals_serial),
        cmocka_unit_test(a_skipped_allreduce_is_caught),
        cmocka_unit_test(a_dropped_halo_row_is_caught),
        cmocka_unit_test(two_swapped_ranks_are_caught),
    };

    if (argc > 1) { /* one seed, for a person */
        struct pdl_train_diff d = {.differs = false};

        printf("%d\n", compare_one("ref", strtoull(argv[1], NULL, 10), PDL_F64,
                                   1e-9, &d));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
