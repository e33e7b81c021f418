/* SPDX-License-Identifier: Apache-2.0
 *
 * What a federated run trains: the network, the samples, and whose they are. */
#include "federate.h"
#include "train_model.h"

#include <string.h>

/* Samples look like what the model takes: made-up ones, images that are made to
 * fit, and sequences. */
static enum pdl_status open_data(struct federation *s, struct pdl_err *err)
{
    struct pdl_strategy *one = PDL_NEW(s->arena, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 1, .dtype = PDL_F32};
    struct pdl_io_options io = {.seed = (uint64_t)s->o.seed};
    const struct pdl_plan *plan;
    struct pdl_dataset like;
    enum pdl_status st =
        one ? pdl_strategy_parse(s->arena, "serial", one, err)
            : pdl_fail(err, PDL_ENOMEM, "out of memory for a plan");

    if (st == PDL_OK)
        st = pdl_plan_lower(s->arena, s->model, one, &opt, &plan, err);
    if (st != PDL_OK)
        return st;
    train_like_model(plan, s->o.samples > 0 ? s->o.samples : 1024, false,
                     &like);
    if (strcmp(s->o.data, "synthetic") == 0)
        io.like = &like;
    if (like.input.rank == 3)
        io.side = like.input.dim[1];
    io.sequence = like.input.rank == 1 ? like.input.dim[0] : s->model->tokens;
    return pdl_io_open(s->o.data, &io, &s->io, err);
}

static enum pdl_status read_labels(struct federation *s, int split,
                                   int32_t **out, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    int64_t n = d->split[split].samples;
    int64_t *ids = PDL_NEW(s->arena, int64_t, n + 1);
    struct pdl_read r = {.split = split, .samples = ids, .nsamples = n};

    *out = PDL_NEW(s->arena, int32_t, n + 1);
    if (!ids || !*out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for labels");
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    r.box = pdl_field_box(&d->target);
    return pdl_io_target(s->io, &r, *out, err);
}

static enum pdl_status divide(struct federation *s, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    int split =
        pdl_dataset_split(d, "train") < 0 ? 0 : pdl_dataset_split(d, "train");
    bool classes = d->classes > 0 && d->target.rank == 0 && d->target.integer;
    struct pdl_partition_options o = {.samples = d->split[split].samples,
                                      .clients = s->o.clients,
                                      .how = s->o.partition,
                                      .classes = classes ? d->classes : 0,
                                      .seed = (uint64_t)s->o.seed};
    int32_t *labels = NULL;
    enum pdl_status st = classes ? read_labels(s, split, &labels, err) : PDL_OK;

    o.labels = labels;
    return st == PDL_OK
               ? pdl_partition_make(s->arena, &o, &s->job.partition, err)
               : st;
}

/* FedDCT trains narrow parts of the network that is named. */
static enum pdl_status load_model(struct federation *s, struct pdl_err *err)
{
    struct pdl_model_options mo = {.logits = true};
    const char *spec = s->args->pos[0], *how = s->o.algorithm;
    struct pdl_sampling_setting with;
    enum pdl_status st = PDL_OK;

    if (how && strncmp(how, "feddct", 6) == 0) {
        st = pdl_sampling_parse(pdl_fed_algorithm_at, "train together", how,
                                &with, err);
        if (st == PDL_OK)
            st = pdl_zoo_divide(s->arena, spec, (int)with.value[0], &spec, err);
    }
    return st == PDL_OK ? pdl_model_load(s->arena, spec, &mo, &s->model, err)
                        : st;
}

/* As many samples each, of no data set: cohorts of millions. */
static enum pdl_status divide_evenly(struct federation *s, struct pdl_err *err)
{
    int64_t n = s->o.clients;
    int64_t *first = PDL_NEW(s->arena, int64_t, n + 1);
    int32_t *group = PDL_NEW(s->arena, int32_t, n);

    if (!first || !group)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for %lld clients",
                        (long long)n);
    for (int64_t i = 0; i <= n; i++)
        first[i] = i * s->o.client_samples;
    s->job.partition = (struct pdl_partition){
        .clients = n, .groups = 1, .first = first, .group = group};
    return PDL_OK;
}

enum pdl_status federate_prepare(struct federation *s, struct pdl_err *err)
{
    enum pdl_status st;

    s->arena = pdl_arena_create((size_t)8 << 30);
    if (!s->arena)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!s->o.data || s->args->npos != 1)
        return pdl_fail(err, PDL_EINVAL,
                        "paradl-run federate needs MODEL and --data");
    s->o.clients =
        pdl_opt_given(&run_federate, s->args, "clients") ? s->o.clients : 10;
    st = load_model(s, err);
    if (st == PDL_OK)
        st = open_data(s, err);
    if (st == PDL_OK && s->o.project && s->o.client_samples > 0)
        return divide_evenly(s, err);
    return st == PDL_OK ? divide(s, err) : st;
}
