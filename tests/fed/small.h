/* A small network and made-up samples for federated tests. */
#ifndef TESTS_FED_SMALL_H
#define TESTS_FED_SMALL_H

#include "fed/fed_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, NCLASSES = 10 };

struct small {
    pdl_arena *arena;
    const struct pdl_model *model;
    pdl_io *io;
    struct pdl_fed_job job;
};

/* conv, (batch norm,) ReLU, conv, ReLU, linear, tanh, linear. */
static inline const struct pdl_model *small_model(pdl_arena *a, bool norm)
{
    int64_t dim[3] = {1, SIDE, SIDE};
    pdl_build *b = pdl_build_begin(a, "small");
    struct pdl_attr none = {.groups = 0};
    struct pdl_attr conv = {.kernel = {3, 3},
                            .stride = {2, 2},
                            .pad = {1, 1},
                            .pad_end = {1, 1},
                            .features = 4};
    struct pdl_attr wide = {.features = 12}, last = {.features = NCLASSES};
    const struct pdl_model *m = NULL;
    struct pdl_err err = {"", ""};
    int x = pdl_build_tensor(b, "input", PDL_TENSOR_INPUT, PDL_F32, 3, dim);

    x = pdl_build_op(b, "conv", "conv1", &conv, &x, 1);
    if (norm)
        x = pdl_build_op(b, "batch_norm", "bn1", &none, &x, 1);
    x = pdl_build_op(b, "relu", "relu1", &none, &x, 1);
    x = pdl_build_op(b, "conv", "conv2", &conv, &x, 1);
    x = pdl_build_op(b, "relu", "relu2", &none, &x, 1);
    x = pdl_build_op(b, "flatten", "flat", &none, &x, 1);
    x = pdl_build_op(b, "linear", "fc1", &wide, &x, 1);
    x = pdl_build_op(b, "tanh", "tanh1", &none, &x, 1);
    x = pdl_build_op(b, "linear", "fc2", &last, &x, 1);
    (void)x;
    assert_int_equal(pdl_build_end(b, &m, &err), PDL_OK);
    return m;
}

static inline void small_divide(struct small *s, const char *how,
                                int64_t clients)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    int64_t n = d->split[0].samples;
    int64_t *ids = PDL_NEW(s->arena, int64_t, n);
    int32_t *labels = PDL_NEW(s->arena, int32_t, n);
    struct pdl_read r = {
        .samples = ids, .nsamples = n, .box = pdl_field_box(&d->target)};
    struct pdl_partition_options o = {.samples = n,
                                      .clients = clients,
                                      .how = how,
                                      .labels = labels,
                                      .classes = NCLASSES,
                                      .seed = 3};
    struct pdl_err err = {"", ""};

    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    assert_int_equal(pdl_io_target(s->io, &r, labels, &err), PDL_OK);
    assert_int_equal(pdl_partition_make(s->arena, &o, &s->job.partition, &err),
                     PDL_OK);
}

static inline void small_open(struct small *s, int64_t samples, bool norm,
                              const char *how, int64_t clients)
{
    struct pdl_dataset like = {.name = "synthetic",
                               .format = "synthetic",
                               .input = {false, 3, {1, SIDE, SIDE}},
                               .target = {.integer = true},
                               .classes = NCLASSES,
                               .nsplits = 2,
                               .split = {{"train", samples}, {"test", 130}}};
    struct pdl_io_options io = {.like = &like, .seed = 7};
    struct pdl_err err = {"", ""};

    *s = (struct small){.arena = pdl_arena_create(1 << 28)};
    s->model = small_model(s->arena, norm);
    assert_int_equal(pdl_io_open("synthetic", &io, &s->io, &err), PDL_OK);
    small_divide(s, how, clients);
    s->job = (struct pdl_fed_job){.model = s->model,
                                  .io = s->io,
                                  .partition = s->job.partition,
                                  .rounds = 3,
                                  .epochs = 1,
                                  .batch = 8,
                                  .lr = 0.1,
                                  .seed = 11,
                                  .spread = 0.7,
                                  .only = -1};
}

static inline void small_close(struct small *s)
{
    pdl_io_close(s->io);
    pdl_arena_destroy(s->arena);
}

/* Client 4's, or 0's, models come back as no numbers. */
static inline enum pdl_status small_spoil_4(void *ctx, int64_t client,
                                            struct pdl_err *err)
{
    (void)ctx;
    (void)err;
    return client == 4 ? PDL_EWRONG : PDL_OK;
}

static inline enum pdl_status small_spoil_0(void *ctx, int64_t client,
                                            struct pdl_err *err)
{
    (void)ctx;
    (void)err;
    return client == 0 ? PDL_EWRONG : PDL_OK;
}

/* Runs the job on so many workers; what rank 0 says of it. */
struct small_run {
    const struct pdl_fed_job *job;
    struct pdl_fed_summary sum;
};

static inline enum pdl_status small_body(void *ctx, pdl_comm *comm,
                                         struct pdl_err *err)
{
    struct small_run *r = ctx;
    struct pdl_fed_summary sum;
    enum pdl_status st = pdl_fed_run(r->job, comm, &sum, err);

    if (pdl_comm_rank(comm) == 0)
        r->sum = sum;
    return st;
}

static inline enum pdl_status small_run(const struct pdl_fed_job *job,
                                        int workers,
                                        struct pdl_fed_summary *sum,
                                        struct pdl_err *err)
{
    struct small_run r = {.job = job};
    enum pdl_status st = pdl_train_virtual(workers, 60, small_body, &r, err);

    *sum = r.sum;
    return st;
}

/* The plans of the job. */
static inline struct pdl_buf small_emit(const struct pdl_fed_job *job)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf text;

    pdl_buf_init(&text);
    assert_int_equal(pdl_fed_emit(job, &text.sink, &err), PDL_OK);
    return text;
}

#endif
