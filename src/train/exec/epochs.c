/* SPDX-License-Identifier: Apache-2.0
 *
 * The epochs of a run. A sampler says which samples one trains, how many
 * batches that makes and how the learning rate answers; what a step saw of its
 * samples goes back to it, and at the end of an epoch what a forward pass sees
 * of the hidden ones. All ranks hold the losses of the whole batch (loss.c), so
 * all samplers know the same and no message is added. */
#include "train/train_priv.h"

#include <string.h>

/* ---- opening ----------------------------------------------------------- */

enum pdl_status train_labels(const struct train_samples *s, pdl_arena *a,
                             const int32_t **out, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    int64_t n = d->split[s->split].samples;
    int32_t *labels;
    struct pdl_read r = {.split = s->split, .nsamples = n};
    int64_t *ids;
    enum pdl_status st;

    if (d->classes < 1 || d->target.rank != 0 || !d->target.integer)
        return PDL_OK; /* the sampler says what it misses */
    labels = PDL_NEW(a, int32_t, n);
    ids = PDL_NEW(a, int64_t, n);
    if (!labels || !ids)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for labels");
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    r.samples = ids;
    r.box = pdl_field_box(&d->target);
    st = pdl_io_target(s->io, &r, labels, err);
    *out = labels;
    return st;
}

/* Ranks that share a batch: the parts of the labels along the samples. */
static int64_t data_ranks(const struct pdl_plan *p)
{
    int64_t most = 1;

    for (int i = 0; i < p->ntensors; i++)
        if (p->tensors[i].kind == PDL_PLAN_LABEL)
            for (int64_t r = 0; r < p->mesh->pes; r++) {
                struct pdl_box b;
                int64_t n;

                pdl_plan_box(p, i, r, &b);
                n = b.hi[0] - b.lo[0];
                if (n > 0 && p->tensors[i].dim[0] / n > most)
                    most = p->tensors[i].dim[0] / n;
            }
    return most;
}

enum pdl_status train_epochs_open(struct train_epochs *e,
                                  const struct pdl_train_job *job,
                                  struct train_samples *s, pdl_arena *a,
                                  struct pdl_err *err)
{
    const struct pdl_plan *p = job->plan;
    int64_t n = pdl_io_describe(s->io)->split[s->split].samples;
    struct pdl_sampler_options o = {
        .samples = n,
        .batch = p->batch * (job->sites > 1 ? job->sites : 1),
        .epochs = job->epochs,
        .micros = p->micro_batches,
        .workers = data_ranks(p),
        .seed = job->opt.seed,
        .deal = job->shuffle,
        .hide = job->hide,
    };
    enum pdl_status st = PDL_OK;

    e->full = n / o.batch;
    o.warmup_epochs = (double)job->rates.warmup / (double)e->full;
    if (job->shuffle && strstr(job->shuffle, "place=class"))
        st = train_labels(s, a, &e->labels, err);
    o.labels = e->labels;
    if (st == PDL_OK)
        st = pdl_sampler_create(&o, &e->sampler, err);
    if (st != PDL_OK)
        return st;
    if (pdl_sampler_asks_confidence(e->sampler)) {
        pdl_say(err, "--hide %s: training knows confidences over classes only",
                job->hide);
        pdl_hint(err, "paradl.torch.Sampler takes any: doc/python.md");
        return PDL_EINVAL;
    }
    e->weights = PDL_NEW(a, double, p->batch);
    s->sampler = e->sampler;
    pdl_sampler_next(e->sampler);
    return e->weights ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

void train_epochs_close(struct train_epochs *e)
{
    pdl_sampler_destroy(e->sampler);
    e->sampler = NULL;
}

/* ---- where a run is ---------------------------------------------------- */

int64_t train_epochs_left(const struct train_epochs *e)
{
    return pdl_sampler_batches(e->sampler) - e->index;
}

/* The step that a run without hidden samples would be at: schedules of the
 * learning rate go by the part of the run that is done. */
int64_t train_epochs_progress(const struct train_epochs *e)
{
    int64_t n = pdl_sampler_batches(e->sampler);

    return pdl_sampler_epoch(e->sampler) * e->full +
           ((e->index + 1) * e->full + n - 1) / n;
}

/* Where the order has a state, not beyond the end of the epoch. */
enum pdl_status train_epochs_skip(struct train_epochs *e, int64_t n,
                                  struct pdl_err *err)
{
    int64_t batches = pdl_sampler_batches(e->sampler), at;

    if (!pdl_sampler_is_plain(e->sampler)) {
        e->index = e->index + n < batches ? e->index + n : batches;
        return PDL_OK;
    }
    at = pdl_sampler_epoch(e->sampler) * e->full + e->index + n;
    e->index = at % e->full;
    return pdl_sampler_resume(e->sampler, at / e->full, err);
}

/* ---- what was seen ----------------------------------------------------- */

/* A sequence is right when half of its positions are. */
static void saw(struct train_epochs *e, const pdl_trainer *t, int64_t sample,
                int64_t at)
{
    double right = t->losses[2 * at + 1];

    pdl_sampler_saw(e->sampler, sample, t->losses[2 * at],
                    2 * right >= (double)t->positions);
}

void train_epochs_weigh(struct train_epochs *e, pdl_trainer *t,
                        const struct train_samples *s)
{
    const float *w = pdl_sampler_weights(e->sampler);
    int64_t batch = t->plan->batch;

    t->weights = w ? e->weights : NULL;
    for (int64_t i = 0; w && i < batch; i++)
        e->weights[i] = (double)w[train_sample_of(s, i)];
}

void train_epochs_step(struct train_epochs *e, const pdl_trainer *t,
                       const struct train_samples *s)
{
    int64_t batch = t->plan->batch;

    if (!pdl_sampler_is_plain(e->sampler))
        for (int64_t i = 0; i < batch; i++)
            saw(e, t, train_sample_of(s, i), i);
    e->index++;
}

/* Hidden samples, as evaluation sees them: nothing of the network moves. */
enum pdl_status train_epochs_refresh(struct train_epochs *e, pdl_trainer *t,
                                     struct train_samples *s,
                                     struct pdl_err *err)
{
    int64_t batch = t->plan->batch,
            n = pdl_sampler_hidden(e->sampler, &s->list);
    enum pdl_status st = PDL_OK;

    if (n > 0 && pdl_sampler_refreshes(e->sampler)) {
        n = pdl_sampler_refresh(e->sampler, &s->list);
        st = pdl_trainer_settle(t, err);
    } else {
        n = 0;
    }
    if (st == PDL_OK)
        st = train_pass_begin(s, t, n, err);
    for (int64_t at = 0; at < n && st == PDL_OK; at += batch) {
        struct pdl_train_result r;

        pdl_trainer_vote(t, false, false, false);
        st = train_pass_batch(s, t, at, &r, err);
        for (int64_t i = 0; i < batch && at + i < n && st == PDL_OK; i++)
            if (s->list[at + i] >= 0)
                saw(e, t, s->list[at + i], i);
    }
    train_ahead_close(s);
    s->list = NULL;
    return st;
}

void train_epochs_next(struct train_epochs *e)
{
    pdl_sampler_next(e->sampler);
    e->index = 0;
}

/* ---- checkpoints ------------------------------------------------------- */

static enum pdl_dtype dtype_of(const struct pdl_sampler_part *p)
{
    return p->bytes == 1 ? PDL_U8 : p->bytes == 4 ? PDL_F32 : PDL_I64;
}

struct pdl_shard train_epochs_shard(const struct train_epochs *e, int i)
{
    const struct pdl_sampler_part *p = pdl_sampler_part(e->sampler, i);
    struct pdl_shard x = {.name = NULL};

    if (!p)
        return x;
    x = (struct pdl_shard){.name = p->name,
                           .dtype = dtype_of(p),
                           .rank = 1,
                           .dim = {p->count},
                           .data = p->data};
    x.box = (struct pdl_box){.ndims = 1, .hi = {p->count}};
    return x;
}

/* The batch that comes next. At the end of an epoch that is the next one's
 * first, unless what the epoch hid is still to be looked at. */
void train_epochs_where(const struct train_epochs *e, int64_t *epoch,
                        int64_t *index)
{
    bool ended = train_epochs_left(e) == 0 && pdl_sampler_is_plain(e->sampler);

    *epoch = pdl_sampler_epoch(e->sampler) + ended;
    *index = ended ? 0 : e->index;
}

static enum pdl_status read_part(const pdl_ckpt *c,
                                 const struct pdl_sampler_part *p,
                                 struct pdl_err *err)
{
    struct pdl_box all = {.ndims = 1, .hi = {p->count}};
    int k = pdl_ckpt_find(c, p->name);
    const struct pdl_ckpt_tensor *x = k < 0 ? NULL : pdl_ckpt_tensor(c, k);

    if (!x)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: was made with another --shuffle or --hide",
                        pdl_ckpt_path(c));
    if (x->dtype != dtype_of(p) || x->rank != 1 || x->dim[0] != p->count)
        return pdl_fail(err, PDL_EPARSE, "%s: %s is of another size",
                        pdl_ckpt_path(c), p->name);
    return pdl_ckpt_read(c, k, &all, p->data, err);
}

enum pdl_status train_epochs_resume(struct train_epochs *e, const pdl_ckpt *c,
                                    struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(c);
    const struct pdl_sampler_part *p;
    enum pdl_status st = PDL_OK;

    if (pdl_sampler_is_plain(e->sampler)) { /* also with another batch */
        e->index = s->step % e->full;
        return pdl_sampler_resume(e->sampler, s->step / e->full, err);
    }
    for (int i = 0; st == PDL_OK && (p = pdl_sampler_part(e->sampler, i)); i++)
        st = read_part(c, p, err);
    if (st == PDL_OK)
        st = pdl_sampler_resume(e->sampler, s->epoch, err);
    if (st == PDL_OK &&
        (s->batch < 0 || s->batch > pdl_sampler_batches(e->sampler)))
        st = pdl_fail(err, PDL_EPARSE, "%s: batch %lld of an epoch of %lld",
                      pdl_ckpt_path(c), (long long)s->batch,
                      (long long)pdl_sampler_batches(e->sampler));
    e->index = s->batch;
    return st;
}
