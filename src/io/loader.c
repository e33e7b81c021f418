/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefetch: a thread reads the batches to come while this one is computed, with
 * the help of others where it is told to.
 * A ring of slots; the caller holds one until it asks for the next, so depth
 * batches ahead take depth + 1 slots. The reading thread stops at its first
 * error and leaves it in the slot where the batch would have been, so it comes
 * out in its turn. */
#include "io_priv.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_THREADS = 64, CACHED = 1 << 17 /* numbers */ };

struct slot {
    struct pdl_batch batch;
    int64_t *samples;
    void *input, *target;
    enum pdl_status status;
    struct pdl_err err;
};

struct pdl_loader {
    struct pdl_loader_options opt;
    struct pdl_augment augment;
    struct pdl_batching batching;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, freed;
    struct slot *slot;
    int nslots;
    int64_t made, taken; /* batches filled, and handed out */
    bool stop, holding, ended, started;
    double waited_s;
};

/* Samples [lo, hi) of a slot: what one thread reads. */
struct share {
    const pdl_loader *l;
    struct slot *s;
    int64_t lo, hi;
    enum pdl_status status;
    struct pdl_err err;
};

/* As bfloat16: some samples at a time, which the caches still have when they
 * are made narrow. */
static enum pdl_status read_narrow(const pdl_loader *l, struct pdl_read r,
                                   uint16_t *to, struct pdl_err *err)
{
    int64_t n = r.nsamples, each = pdl_box_volume(&r.box), some;
    enum pdl_status st = PDL_OK;
    float *wide;

    some = each < CACHED ? CACHED / (each > 0 ? each : 1) : 1;
    wide = malloc((size_t)(some * each + 1) * sizeof *wide);
    if (!wide)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for batches");
    for (int64_t i = 0; i < n && st == PDL_OK; i += some) {
        r.nsamples = n - i < some ? n - i : some;
        st = pdl_io_input(l->opt.io, &r, wide, err);
        if (st == PDL_OK)
            pdl_narrow(wide, r.nsamples * each, to + i * each);
        r.samples += r.nsamples;
    }
    free(wide);
    return st;
}

static void *read_share(void *arg)
{
    struct share *x = arg;
    const pdl_loader *l = x->l;
    struct pdl_augment g = l->augment;
    struct pdl_read r = {
        .split = l->opt.split,
        .samples = x->s->samples + x->lo,
        .nsamples = x->hi - x->lo,
        .box = l->opt.input_box,
        .channels_last = l->opt.channels_last,
        .augment = l->opt.augment ? &g : NULL,
    };

    g.seed = l->opt.seed;
    g.epoch = x->s->batch.epoch;
    if (l->opt.input && l->opt.narrow)
        x->status = read_narrow(
            l, r, (uint16_t *)x->s->input + x->lo * pdl_box_volume(&r.box),
            &x->err);
    else if (l->opt.input) /* fields of both kinds have four bytes */
        x->status = pdl_io_input(
            l->opt.io, &r,
            (char *)x->s->input + 4 * x->lo * pdl_box_volume(&r.box), &x->err);
    r.box = l->opt.target_box;
    if (x->status == PDL_OK && l->opt.target)
        x->status = pdl_io_target(
            l->opt.io, &r,
            (char *)x->s->target + 4 * x->lo * pdl_box_volume(&r.box), &x->err);
    return NULL;
}

/* By this thread and others; the first error in the order of samples. */
static enum pdl_status read_part(const pdl_loader *l, struct slot *s,
                                 struct pdl_err *err)
{
    struct share x[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    bool begun[MOST_THREADS] = {false};
    int64_t n = s->batch.nsamples, each;
    int t = l->opt.threads < 1              ? 1
            : l->opt.threads > MOST_THREADS ? MOST_THREADS
                                            : l->opt.threads;
    enum pdl_status st = PDL_OK;

    t = n < t ? (n > 0 ? (int)n : 1) : t;
    each = (n + t - 1) / t;
    for (int i = t - 1; i >= 0; i--) {
        x[i] = (struct share){.l = l,
                              .s = s,
                              .lo = i * each < n ? i * each : n,
                              .hi = (i + 1) * each < n ? (i + 1) * each : n};
        begun[i] =
            i > 0 && pthread_create(&thread[i], NULL, read_share, &x[i]) == 0;
        if (!begun[i])
            read_share(&x[i]);
    }
    for (int i = 0; i < t; i++) {
        if (begun[i])
            pthread_join(thread[i], NULL);
        if (st == PDL_OK && x[i].status != PDL_OK) {
            st = x[i].status;
            *err = x[i].err;
        }
    }
    return st;
}

static int64_t cut(int64_t v, int64_t n)
{
    return v < n ? v : n;
}

static int64_t micros(const struct pdl_loader_options *o)
{
    return o->micros > 0 ? o->micros : 1;
}

static int64_t listed(const pdl_loader *l, int64_t at)
{
    int64_t x = at < l->opt.nlist ? at : 0;

    if (l->opt.list && at < l->opt.nlist)
        x = l->opt.list[at];
    return x < 0 ? ~x : x;
}

/* Which batch of which epoch, and its positions. */
static void find(const pdl_loader *l, struct pdl_batch *b, int64_t *lo,
                 int64_t *hi)
{
    if (!l->opt.sampler && l->opt.nlist == 0) {
        pdl_batch_locate(&l->batching, b->step, &b->epoch, &b->index);
        pdl_batch_range(&l->batching, b->index, lo, hi);
        return;
    }
    b->epoch =
        l->opt.sampler ? pdl_sampler_epoch(l->opt.sampler) : l->augment.epoch;
    b->index = b->step;
    *lo = b->step * l->opt.batch;
    *hi = *lo + l->opt.batch;
}

static void fill(const pdl_loader *l, struct slot *s, int64_t step)
{
    struct pdl_batch *b = &s->batch;
    struct pdl_order o;
    int64_t lo, hi, mine, n, per = l->opt.batch / micros(&l->opt);

    *b = (struct pdl_batch){.step = step,
                            .samples = s->samples,
                            .input = s->input,
                            .target = s->target};
    find(l, b, &lo, &hi);
    b->global = hi - lo;
    mine = cut(l->opt.lo, b->global);
    n = cut(l->opt.hi, b->global) - mine;
    b->nsamples = n * micros(&l->opt);
    if (l->opt.shuffle)
        pdl_order_begin(&o, l->opt.shuffle, l->opt.seed, b->epoch,
                        l->batching.samples);
    for (int64_t i = 0; i < b->nsamples; i++) {
        int64_t at = lo + i / n * per + mine + i % n;

        s->samples[i] = l->opt.sampler   ? pdl_sampler_at(l->opt.sampler, at)
                        : l->opt.shuffle ? pdl_order_at(&o, at)
                                         : listed(l, at);
    }
    s->status = read_part(l, s, &s->err);
}

static void *reader(void *arg)
{
    pdl_loader *l = arg;
    int64_t last = l->opt.last_step > 0 ? l->opt.last_step : INT64_MAX;

    for (int64_t step = l->opt.first_step; step < last; step++) {
        struct slot *s;
        bool stop;

        pthread_mutex_lock(&l->lock);
        while (!l->stop && l->made - l->taken + l->holding >= l->nslots)
            pthread_cond_wait(&l->freed, &l->lock);
        stop = l->stop;
        s = &l->slot[l->made % l->nslots];
        pthread_mutex_unlock(&l->lock);
        if (stop)
            return NULL;
        fill(l, s, step);
        pthread_mutex_lock(&l->lock);
        l->made++;
        stop = s->status != PDL_OK;
        pthread_cond_signal(&l->filled);
        pthread_mutex_unlock(&l->lock);
        if (stop)
            return NULL;
    }
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- creation ---- */

static enum pdl_status check(const struct pdl_loader_options *o,
                             struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(o->io);
    struct pdl_batching b = {.batch = o->batch, .keep_last = o->keep_last};

    int orders = !!o->shuffle + !!o->sampler + (o->nlist > 0);

    if (o->split < 0 || o->split >= d->nsplits || orders != 1 || o->batch < 1 ||
        o->lo < 0 || o->hi < o->lo || o->micros < 0 ||
        o->hi > o->batch / micros(o) || o->batch % micros(o) != 0 ||
        (o->keep_last && micros(o) > 1) || o->first_step < 0 || o->depth < 0 ||
        o->depth > 1024 || (o->narrow && d->input.integer))
        return pdl_fail(err, PDL_EINVAL, "%s: a batch that cannot be", d->name);
    b.samples = d->split[o->split].samples;
    if (o->nlist == 0 && pdl_batch_count(&b) < 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: '%s' has %lld samples, fewer than a batch of %lld",
                        d->name, d->split[o->split].name, (long long)b.samples,
                        (long long)o->batch);
    return PDL_OK;
}

static void *place(const pdl_loader *l, size_t bytes)
{
    return l->opt.place ? l->opt.place(l->opt.ctx, bytes) : malloc(bytes);
}

static void give_back(const pdl_loader *l, void *at)
{
    if (at && l->opt.place)
        l->opt.place_back(l->opt.ctx, at);
    else
        free(at);
}

static bool make_slots(pdl_loader *l)
{
    int64_t n = (l->opt.hi - l->opt.lo) * micros(&l->opt), in, out;

    l->nslots = (l->opt.depth > 0 ? l->opt.depth : 2) + 1;
    l->slot = calloc((size_t)l->nslots, sizeof *l->slot);
    if (!l->slot || !pdl_mul64(n, pdl_box_volume(&l->opt.input_box), &in) ||
        !pdl_mul64(n, pdl_box_volume(&l->opt.target_box), &out) ||
        in > INT64_MAX / 8 || out > INT64_MAX / 8)
        return false;
    for (int i = 0; i < l->nslots; i++) {
        struct slot *s = &l->slot[i];

        s->samples = malloc((size_t)(n + 1) * sizeof *s->samples);
        if (l->opt.input)
            s->input = place(l, (size_t)(in + 1) * (l->opt.narrow ? 2 : 4));
        if (l->opt.target)
            s->target = place(l, (size_t)(out + 1) * 4);
        if (!s->samples || (l->opt.input && !s->input) ||
            (l->opt.target && !s->target))
            return false;
    }
    return true;
}

enum pdl_status pdl_loader_create(const struct pdl_loader_options *opt,
                                  pdl_loader **out, struct pdl_err *err)
{
    enum pdl_status st = check(opt, err);
    pdl_loader *l = st == PDL_OK ? calloc(1, sizeof *l) : NULL;

    if (st != PDL_OK)
        return st;
    if (!l)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for batches");
    l->opt = *opt;
    if (opt->augment)
        l->augment = *opt->augment;
    l->batching = (struct pdl_batching){
        pdl_io_describe(opt->io)->split[opt->split].samples, opt->batch,
        opt->keep_last};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    l->started =
        make_slots(l) && pthread_create(&l->thread, NULL, reader, l) == 0;
    if (!l->started) {
        pdl_loader_destroy(l);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for batches");
    }
    *out = l;
    return PDL_OK;
}

enum pdl_status pdl_loader_next(pdl_loader *l, struct pdl_batch *out,
                                struct pdl_err *err)
{
    double start = pdl_clock_s();
    struct slot *s = NULL;
    enum pdl_status st;

    pthread_mutex_lock(&l->lock);
    l->holding = false; /* the caller is done with the last one */
    pthread_cond_signal(&l->freed);
    while (l->made == l->taken && !l->ended)
        pthread_cond_wait(&l->filled, &l->lock);
    if (l->made > l->taken) {
        s = &l->slot[l->taken % l->nslots];
        if (s->status == PDL_OK) { /* an error stays and is said again */
            l->taken++;
            l->holding = true;
        }
    }
    l->waited_s += pdl_clock_s() - start;
    pthread_mutex_unlock(&l->lock);
    if (!s)
        return pdl_fail(err, PDL_EINVAL, "no batch after the last step");
    st = s->status;
    if (st == PDL_OK)
        *out = s->batch;
    else if (err)
        *err = s->err;
    return st;
}

double pdl_loader_waited_s(const pdl_loader *l)
{
    return l->waited_s;
}

void pdl_loader_destroy(pdl_loader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_signal(&l->freed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; l->slot && i < l->nslots; i++) {
        free(l->slot[i].samples);
        give_back(l, l->slot[i].input);
        give_back(l, l->slot[i].target);
    }
    free(l->slot);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
