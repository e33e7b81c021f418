/* SPDX-License-Identifier: Apache-2.0
 *
 * A sampler: which samples an epoch trains, in which order, with which weight.
 * An epoch is a function of the seed, its number, where samples were and what
 * was seen of them when it began. That is what a checkpoint keeps; hidden
 * samples, lists and orders are made again from it, so a run that goes on in
 * the middle of an epoch sees the rest of that epoch. */
#include "data_priv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* To add a way: its file, a declaration in data_priv.h, a row here. */
static const struct data_deal *const deals[] = {
    &data_deal_global,  &data_deal_none, &data_deal_local,
    &data_deal_partial, &data_deal_pair,
};
static const struct data_hide *const hides[] = {
    &data_hide_none, &data_hide_kakurenbo, &data_hide_infobatch, &data_hide_ies,
    &data_hide_seta, &data_hide_random,    &data_hide_iswr,      &data_hide_sb,
};
enum {
    NDEALS = sizeof deals / sizeof deals[0],
    NHIDES = sizeof hides / sizeof hides[0],
};

const struct pdl_sampling *pdl_deal_at(int i)
{
    return i >= 0 && i < NDEALS ? &deals[i]->is : NULL;
}

const struct pdl_sampling *pdl_hide_at(int i)
{
    return i >= 0 && i < NHIDES ? &hides[i]->is : NULL;
}

double data_draw(const pdl_sampler *s, enum pdl_draw why, int64_t sample)
{
    uint64_t key = pdl_draw_key(s->opt.seed, why, s->epoch);
    struct pdl_rng4 x = pdl_philox(key, 0, (uint64_t)sample);

    return ((double)x.v[0] + (double)x.v[1] * 0x1p-32) * 0x1p-32;
}

/* ---- opening ----------------------------------------------------------- */

static void add_part(pdl_sampler *s, const char *name, void *data, int bytes)
{
    if (data)
        s->part[s->nparts++] =
            (struct pdl_sampler_part){.name = name,
                                      .data = data,
                                      .count = s->opt.samples,
                                      .bytes = bytes};
}

static bool new_seen(pdl_sampler *s, struct data_seen *x)
{
    x->loss = PDL_NEW(s->arena, float, s->opt.samples);
    x->flags = PDL_NEW(s->arena, uint8_t, s->opt.samples);
    if (pdl_sampler_asks_confidence(s))
        x->conf = PDL_NEW(s->arena, float, s->opt.samples);
    if (!x->loss || !x->flags || (pdl_sampler_asks_confidence(s) && !x->conf))
        return false;
    for (int64_t i = 0; i < s->opt.samples; i++) {
        x->loss[i] = 1;
        x->flags[i] = 0;
        if (x->conf)
            x->conf[i] = 0;
    }
    return true;
}

static bool watches(const pdl_sampler *s)
{
    return s->hide != &data_hide_none || s->deal->by_loss;
}

static enum pdl_status open_arrays(pdl_sampler *s, struct pdl_err *err)
{
    int64_t n = s->opt.samples;
    bool ok = true, sorts = watches(s) || s->workers > 1;

    if (watches(s))
        ok = new_seen(s, &s->before) && new_seen(s, &s->now);
    for (int i = 0; i < s->hide->history; i++)
        ok = ok && new_seen(s, &s->history[i]);
    if (ok && s->hide != &data_hide_none) {
        s->hides = PDL_NEW(s->arena, uint8_t, n);
        s->hidden = PDL_NEW(s->arena, int64_t, n);
        s->list = PDL_NEW(s->arena, int64_t, n);
        ok = s->hides && s->hidden && s->list;
    }
    if (ok && s->slot && s->hide->refreshes)
        ok = (s->again = PDL_NEW(s->arena, int64_t,
                                 n + s->workers + s->opt.batch)) != NULL;
    if (ok && s->hide->weighs)
        ok = (s->weight = PDL_NEW(s->arena, float, n)) != NULL;
    if (ok && sorts && !s->key) {
        s->key = PDL_NEW(s->arena, uint32_t, n);
        s->sorted = PDL_NEW(s->arena, int64_t, 2 * n);
        ok = s->key && s->sorted;
    }
    return ok ? PDL_OK
              : pdl_fail(err, PDL_ENOMEM, "out of memory for %lld samples",
                         (long long)n);
}

static void list_parts(pdl_sampler *s)
{
    add_part(s, "sampler.before.loss", s->before.loss, 4);
    add_part(s, "sampler.before.flags", s->before.flags, 1);
    add_part(s, "sampler.now.loss", s->now.loss, 4);
    add_part(s, "sampler.now.flags", s->now.flags, 1);
    add_part(s, "sampler.history.1", s->history[0].loss, 4);
    add_part(s, "sampler.history.2", s->history[1].loss, 4);
    add_part(s, "sampler.slot", s->slot, 8);
    add_part(s, "sampler.before.confidence", s->before.conf, 4);
    add_part(s, "sampler.now.confidence", s->now.conf, 4);
}

static enum pdl_status check(const struct pdl_sampler_options *o,
                             struct pdl_err *err)
{
    if (o->samples < 1 || o->batch < 1 || o->batch > o->samples)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld samples do not fill a batch of %lld",
                        (long long)o->samples, (long long)o->batch);
    if (o->micros < 0 || (o->micros > 0 && o->batch % o->micros != 0))
        return pdl_fail(err, PDL_EINVAL,
                        "a batch of %lld is not %lld equal micro-batches",
                        (long long)o->batch, (long long)o->micros);
    return PDL_OK;
}

static enum pdl_status open_sampler(pdl_sampler *s, struct pdl_err *err)
{
    const char *deal = s->opt.deal ? s->opt.deal : "global";
    const char *hide = s->opt.hide ? s->opt.hide : "none";
    enum pdl_status st = pdl_sampling_parse(pdl_deal_at, "shuffle samples",
                                            deal, &s->deal_with, err);

    if (st == PDL_OK)
        st = pdl_sampling_parse(pdl_hide_at, "hide samples", hide,
                                &s->hide_with, err);
    if (st != PDL_OK)
        return st;
    s->deal = deals[s->deal_with.way];
    s->hide = hides[s->hide_with.way];
    s->opt.micros = s->opt.micros > 0 ? s->opt.micros : 1;
    s->opt.epochs = s->opt.epochs > 0 ? s->opt.epochs : 1;
    s->workers = 1;
    s->epoch = -1;
    s->rate = 1;
    if (s->hide->lists && !s->deal->how)
        return pdl_fail(err, PDL_EINVAL,
                        "%s draws from all samples: --shuffle %s has them on "
                        "workers",
                        s->hide->is.name, s->deal->is.name);
    if (!pdl_sampler_is_plain(s) && s->opt.samples > DATA_MOST)
        return pdl_fail(err, PDL_EINVAL,
                        "--shuffle %s, --hide %s: not for %lld samples", deal,
                        hide, (long long)s->opt.samples);
    st = s->deal->how ? PDL_OK : data_deal_open(s, err);
    if (st == PDL_OK)
        st = open_arrays(s, err);
    if (st == PDL_OK)
        list_parts(s);
    return st;
}

enum pdl_status pdl_sampler_create(const struct pdl_sampler_options *o,
                                   pdl_sampler **out, struct pdl_err *err)
{
    enum pdl_status st = check(o, err);
    pdl_arena *a;
    pdl_sampler *s;

    if (st != PDL_OK)
        return st;
    a = pdl_arena_create(SIZE_MAX);
    s = a ? PDL_NEW(a, struct pdl_sampler, 1) : NULL;
    if (!s) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    *s = (struct pdl_sampler){.arena = a, .opt = *o};
    st = open_sampler(s, err);
    if (st != PDL_OK)
        pdl_arena_destroy(a);
    else
        *out = s;
    return st;
}

void pdl_sampler_destroy(pdl_sampler *s)
{
    if (s)
        pdl_arena_destroy(s->arena);
}

/* ---- an epoch ---------------------------------------------------------- */

/* Each is written to both and counted in one: nobody can guess which. */
static void list_samples(pdl_sampler *s)
{
    int64_t hidden = 0, rest = 0;

    if (!s->list)
        return;
    for (int64_t i = 0; i < s->opt.samples; i++) {
        s->hidden[hidden] = i;
        if (!s->hide->lists)
            s->list[rest] = i;
        hidden += s->hides[i];
        rest += !s->hides[i];
    }
    s->nhidden = hidden;
    if (!s->hide->lists)
        s->nlist = rest;
}

/* Less than a batch: the epoch trains hidden samples too. */
static void keep_a_batch(pdl_sampler *s)
{
    if (!s->list || s->nlist >= s->opt.batch)
        return;
    memset(s->hides, 0, (size_t)s->opt.samples);
    s->nhidden = 0;
    s->nlist = s->opt.samples;
    for (int64_t i = 0; i < s->nlist; i++)
        s->list[i] = i;
}

static void begin(pdl_sampler *s)
{
    int64_t n = s->opt.samples;

    s->rate = 1;
    if (s->hides)
        memset(s->hides, 0, (size_t)n);
    for (int64_t i = 0; s->weight && i < n; i++)
        s->weight[i] = 1;
    s->nlist = 0;
    s->hide->choose(s);
    list_samples(s);
    keep_a_batch(s);
    if (s->deal->how) {
        s->nlist = s->list ? s->nlist : n;
        pdl_order_begin(&s->order, s->deal->how, s->opt.seed, s->epoch,
                        s->nlist);
    } else {
        data_deal_epoch(s);
    }
    s->batches = (s->list ? s->nlist : n) / s->opt.batch;
}

static void copy_loss(pdl_sampler *s, struct data_seen *to,
                      const struct data_seen *from)
{
    memcpy(to->loss, from->loss, (size_t)s->opt.samples * sizeof to->loss[0]);
}

void pdl_sampler_next(pdl_sampler *s)
{
    if (s->epoch >= 0 && s->deal->leave)
        data_deal_exchange(s);
    if (s->history[0].loss) {
        copy_loss(s, &s->history[1], &s->history[0]);
        copy_loss(s, &s->history[0], &s->before);
    }
    if (s->before.loss) {
        copy_loss(s, &s->before, &s->now);
        memcpy(s->before.flags, s->now.flags, (size_t)s->opt.samples);
    }
    if (s->before.conf)
        memcpy(s->before.conf, s->now.conf,
               (size_t)s->opt.samples * sizeof s->now.conf[0]);
    s->epoch++;
    begin(s);
}

void pdl_sampler_saw(pdl_sampler *s, int64_t sample, double loss, bool correct)
{
    assert(sample >= 0 && sample < s->opt.samples);
    if (!s->now.loss)
        return;
    s->now.loss[sample] = (float)loss;
    s->now.flags[sample] = (uint8_t)(DATA_SEEN | (correct ? DATA_CORRECT : 0));
}

void pdl_sampler_saw_all(pdl_sampler *s, int64_t n, const int64_t *sample,
                         const double *loss, const bool *correct)
{
    for (int64_t i = 0; i < n; i++)
        pdl_sampler_saw(s, sample[i], loss[i], correct[i]);
}

bool pdl_sampler_asks_confidence(const pdl_sampler *s)
{
    return s->hide->told && s->hide->told(s);
}

void pdl_sampler_tell_confidence(pdl_sampler *s, int64_t n,
                                 const int64_t *sample,
                                 const double *confidence)
{
    for (int64_t i = 0; s->now.conf && i < n; i++) {
        assert(sample[i] >= 0 && sample[i] < s->opt.samples);
        s->now.conf[sample[i]] = (float)confidence[i];
    }
}

/* ---- asking ------------------------------------------------------------ */

static int64_t of_worker(const pdl_sampler *s, int64_t position)
{
    int64_t j, w = data_worker_at(s, position, &j);

    return s->mine[data_slots_begin(s, w) + j % s->nmine[w]];
}

int64_t pdl_sampler_at(const pdl_sampler *s, int64_t position)
{
    int64_t i;

    assert(s->epoch >= 0);
    assert(position >= 0 && position < s->batches * s->opt.batch);
    if (!s->deal->how)
        return of_worker(s, position);
    i = pdl_order_at(&s->order, position);
    return s->list ? s->list[i] : i;
}

void pdl_sampler_order(const pdl_sampler *s, int64_t first, int64_t n,
                       int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = pdl_sampler_at(s, first + i);
}

int64_t pdl_sampler_epoch(const pdl_sampler *s)
{
    return s->epoch;
}

bool pdl_sampler_is_plain(const pdl_sampler *s)
{
    return s->deal == &data_deal_global && !watches(s);
}

int64_t pdl_sampler_batches(const pdl_sampler *s)
{
    return s->batches;
}

const float *pdl_sampler_weights(const pdl_sampler *s)
{
    return s->weight;
}

double pdl_sampler_rate(const pdl_sampler *s)
{
    return s->rate;
}

int64_t pdl_sampler_hidden(const pdl_sampler *s, const int64_t **samples)
{
    *samples = s->hidden;
    return s->nhidden;
}

bool pdl_sampler_refreshes(const pdl_sampler *s)
{
    return s->hide->refreshes;
}

int64_t pdl_sampler_refresh(const pdl_sampler *s, const int64_t **samples)
{
    *samples = s->again ? s->again : s->hidden;
    return s->again ? data_deal_again(s) : s->nhidden;
}

bool pdl_sampler_keeps(const pdl_sampler *s)
{
    return s->slot != NULL;
}

/* ---- going on ---------------------------------------------------------- */

const struct pdl_sampler_part *pdl_sampler_part(const pdl_sampler *s, int i)
{
    return i >= 0 && i < s->nparts ? &s->part[i] : NULL;
}

enum pdl_status pdl_sampler_resume(pdl_sampler *s, int64_t epoch,
                                   struct pdl_err *err)
{
    if (epoch < 0)
        return pdl_fail(err, PDL_EPARSE, "a sampler in epoch %lld",
                        (long long)epoch);
    if (s->slot && !data_deal_is_whole(s))
        return pdl_fail(err, PDL_EPARSE,
                        "samples are not where they can be: one is missing or "
                        "there twice");
    s->epoch = epoch;
    begin(s);
    return PDL_OK;
}
