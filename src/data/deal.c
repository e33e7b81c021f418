/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that live on workers: who has what, in which order a worker sees its
 * own, and what it exchanges with others in an epoch. Every worker sends as
 * many samples as it receives, and what it receives takes the slots of what it
 * sent, so shares never grow; old copies go at the end of the epoch, so no
 * worker ever stores more than (1 + q) times its share (Nguyen et al., "Why
 * globally re-shuffle?", IPDPS 2022). Who sends what is a function of the
 * seed, the epoch and, by pairs, of the losses: nobody has to ask. */
#include "data_priv.h"

#include <assert.h>
#include <string.h>

int64_t data_slots_begin(const pdl_sampler *s, int64_t worker)
{
    int64_t n = s->opt.samples, m = s->workers;

    return n / m * worker + n % m * worker / m; /* floor(n * worker / m) */
}

int64_t pdl_sampler_workers(const pdl_sampler *s)
{
    return s->workers;
}

int64_t pdl_sampler_slots(const pdl_sampler *s, int64_t worker)
{
    return data_slots_begin(s, worker + 1) - data_slots_begin(s, worker);
}

int64_t pdl_sampler_slot(const pdl_sampler *s, int64_t worker, int64_t slot)
{
    assert(s->slot && slot >= 0 && slot < pdl_sampler_slots(s, worker));
    return s->slot[data_slots_begin(s, worker) + slot];
}

/* ---- opening ----------------------------------------------------------- */

static enum pdl_status check_workers(const pdl_sampler *s, struct pdl_err *err)
{
    const struct pdl_sampler_options *o = &s->opt;
    const char *name = s->deal->is.name;
    int64_t micro = o->batch / o->micros;

    if (s->workers > o->samples)
        return pdl_fail(err, PDL_EINVAL, "%s: %lld workers, but %lld samples",
                        name, (long long)s->workers, (long long)o->samples);
    if (micro % s->workers != 0) {
        pdl_say(err, "%s: %lld workers do not divide a micro-batch of %lld",
                name, (long long)s->workers, (long long)micro);
        pdl_hint(err, "every worker needs the same share of each batch");
        return PDL_EINVAL;
    }
    return PDL_OK;
}

enum { FILES, RANDOM, CLASS };
const char *const data_places[] = {"files", "random", "class", NULL};

static enum pdl_status place_samples(pdl_sampler *s, struct pdl_err *err)
{
    int64_t n = s->opt.samples;
    int place = (int)s->deal_with.value[DATA_DEAL_PLACE];
    struct pdl_order o;

    if (place == CLASS && !s->opt.labels)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: place=class, but samples have no classes",
                        s->deal->is.name);
    pdl_order_begin(&o, &data_shuffle_global,
                    pdl_draw_key(s->opt.seed, PDL_DRAW_PLACE, 0), 0, n);
    for (int64_t i = 0; i < n; i++) {
        s->slot[i] = place == RANDOM ? pdl_order_at(&o, i) : i;
        if (place == CLASS)
            s->key[i] = (uint32_t)s->opt.labels[i];
    }
    if (place == CLASS) {
        data_sort(s, n);
        memcpy(s->slot, s->sorted, (size_t)n * sizeof s->slot[0]);
    }
    return PDL_OK;
}

static enum pdl_status no_memory(const pdl_sampler *s, struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "out of memory for %lld samples",
                    (long long)s->opt.samples);
}

enum pdl_status data_deal_open(pdl_sampler *s, struct pdl_err *err)
{
    int64_t n = s->opt.samples, least;
    double asked = s->deal_with.value[DATA_DEAL_WORKERS];
    double q = s->deal_with.value[DATA_DEAL_Q];
    enum pdl_status st;

    s->workers = asked > 0 ? (int64_t)asked : s->opt.workers;
    s->workers = s->workers > 0 ? s->workers : 1;
    if (asked > 0 && (double)s->workers != asked)
        return pdl_fail(err, PDL_EINVAL, "%s: workers=%g is no whole number",
                        s->deal->is.name, asked);
    st = check_workers(s, err);
    if (st != PDL_OK)
        return st;
    s->slot = PDL_NEW(s->arena, int64_t, n);
    s->mine = PDL_NEW(s->arena, int64_t, n);
    s->leaving = PDL_NEW(s->arena, int64_t, n);
    s->nmine = PDL_NEW(s->arena, int64_t, s->workers);
    s->partner = PDL_NEW(s->arena, int64_t, s->workers);
    s->key = PDL_NEW(s->arena, uint32_t, n);
    s->sorted = PDL_NEW(s->arena, int64_t, 2 * n);
    if (!s->slot || !s->mine || !s->leaving || !s->nmine || !s->partner ||
        !s->key || !s->sorted)
        return no_memory(s, err);
    least = n / s->workers; /* the smallest share */
    if (s->deal->leave)     /* a rounding error is no sample */
        s->nmoves = (int64_t)(q * (double)least + 1e-9);
    if (!s->deal->by_loss) {
        s->to = PDL_NEW(s->arena, int32_t, s->nmoves * s->workers + 1);
        s->from = PDL_NEW(s->arena, int32_t, s->nmoves * s->workers + 1);
        if (!s->to || !s->from)
            return no_memory(s, err);
    }
    return place_samples(s, err);
}

bool data_deal_is_whole(const pdl_sampler *s)
{
    int64_t n = s->opt.samples;

    memset(s->sorted, 0, (size_t)n * sizeof s->sorted[0]);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = s->slot[i];

        if (x < 0 || x >= n || s->sorted[x]++)
            return false;
    }
    return true;
}

/* ---- an epoch ---------------------------------------------------------- */

/* Fisher and Yates. 32 bits a draw: no place of n is likelier than another by
 * more than n / 2^32 of its chance. */
static void shuffle(int64_t *list, int64_t n, uint64_t key, uint64_t stream)
{
    enum { AT_ONCE = 256 };
    uint32_t word[AT_ONCE];

    for (int64_t i = n - 1, at = 0; i > 0; i--, at++) {
        int64_t j, x = list[i];

        if (at % AT_ONCE == 0)
            pdl_philox_words(key, stream, (uint64_t)at,
                             i < AT_ONCE ? i : AT_ONCE, word);
        j = (int64_t)((uint64_t)word[at % AT_ONCE] * (uint64_t)(i + 1) >> 32);
        list[i] = list[j];
        list[j] = x;
    }
}

/* What a worker trains: its samples that are not hidden, shuffled; all of them
 * when every one is. */
static void shuffle_own(pdl_sampler *s, int64_t w)
{
    int64_t from = data_slots_begin(s, w), n = pdl_sampler_slots(s, w), k = 0;
    const int64_t *slot = s->slot + from;
    int64_t *mine = s->mine + from;

    for (int64_t i = 0; s->hides && i < n; i++) {
        mine[k] = slot[i];
        k += !s->hides[slot[i]];
    }
    if (k == 0) {
        memcpy(mine, slot, (size_t)n * sizeof mine[0]);
        k = n;
    }
    s->nmine[w] = k;
    shuffle(mine, k, pdl_draw_key(s->opt.seed, PDL_DRAW_ORDER, s->epoch),
            (uint64_t)w);
}

/* Positions of a batch go to workers as the plan deals them to ranks: each
 * micro-batch in equal parts. */
int64_t data_worker_at(const pdl_sampler *s, int64_t position, int64_t *number)
{
    int64_t batch = position / s->opt.batch, at = position % s->opt.batch;
    int64_t micro = s->opt.batch / s->opt.micros, per = micro / s->workers;

    *number = batch * per * s->opt.micros + at / micro * per + at % per;
    return at % micro / per;
}

/* The number of the next hidden slot of a worker, from `slot` on; -1: none. */
static int64_t next_hidden(const pdl_sampler *s, int64_t w, int64_t slot)
{
    int64_t n = pdl_sampler_slots(s, w);

    while (slot < n && !s->hides[pdl_sampler_slot(s, w, slot)])
        slot++;
    return slot < n ? slot : -1;
}

static int64_t most_hidden(const pdl_sampler *s)
{
    int64_t most = 0;

    for (int64_t w = 0; w < s->workers; w++) {
        int64_t k = 0;

        for (int64_t i = next_hidden(s, w, 0); i >= 0;
             i = next_hidden(s, w, i + 1))
            k++;
        most = k > most ? k : most;
    }
    return most;
}

/* Workers with fewer than others repeat their first sample. */
int64_t data_deal_again(const pdl_sampler *s)
{
    int64_t share = s->opt.batch / s->workers, most = most_hidden(s);
    int64_t n = (most + share - 1) / share * s->opt.batch;
    int64_t *at = s->sorted; /* nothing is being sorted */

    for (int64_t w = 0; w < s->workers; w++)
        at[w] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t number, w = data_worker_at(s, i, &number), slot = -1;

        if (at[w] >= 0)
            slot = next_hidden(s, w, at[w]);
        at[w] = slot < 0 ? -1 : slot + 1;
        s->again[i] = slot < 0 ? ~pdl_sampler_slot(s, w, 0)
                               : pdl_sampler_slot(s, w, slot);
    }
    return n;
}

void data_deal_epoch(pdl_sampler *s)
{
    for (int64_t w = 0; w < s->workers; w++)
        shuffle_own(s, w);
    if (s->deal->leave)
        s->deal->leave(s);
}

void data_leave_in_order(pdl_sampler *s, int64_t w)
{
    int64_t from = data_slots_begin(s, w), n = pdl_sampler_slots(s, w);
    int64_t *to = s->leaving + from;

    data_sort(s, n);
    if (!s->hides) {
        memcpy(to, s->sorted, (size_t)n * sizeof to[0]);
        return;
    }
    for (int hidden = 0; hidden < 2; hidden++)
        for (int64_t i = 0; i < n; i++) {
            int64_t x = s->slot[from + s->sorted[i]];

            if (s->hides[x] == hidden)
                *to++ = s->sorted[i];
        }
}

/* ---- exchange ---------------------------------------------------------- */

int64_t pdl_sampler_moves(const pdl_sampler *s)
{
    return s->nmoves;
}

/* A permutation of the workers for each j. Its streams of random numbers begin
 * behind those of leave_at_random, one a worker. */
void data_draw_receivers(pdl_sampler *s)
{
    const uint64_t first = (uint64_t)1 << 32;
    uint64_t key = pdl_draw_key(s->opt.seed, PDL_DRAW_EXCHANGE, s->epoch);
    int64_t m = s->workers, *to = s->sorted; /* nothing is being sorted */

    for (int64_t j = 0; j < s->nmoves; j++) {
        for (int64_t w = 0; w < m; w++)
            to[w] = w;
        shuffle(to, m, key, first + (uint64_t)j);
        for (int64_t w = 0; w < m; w++) {
            s->to[j * m + w] = (int32_t)to[w];
            s->from[j * m + to[w]] = (int32_t)w;
        }
    }
}

struct pdl_sampler_move pdl_sampler_move(const pdl_sampler *s, int64_t w,
                                         int64_t j)
{
    struct pdl_sampler_move m = {.slot = -1};

    assert(w >= 0 && w < s->workers && j >= 0 && j < s->nmoves);
    m.slot = s->leaving[data_slots_begin(s, w) + j];
    m.sample = pdl_sampler_slot(s, w, m.slot);
    if (s->deal->by_loss) {
        m.to = m.from = s->partner[w];
    } else {
        m.to = s->to[j * s->workers + w];
        m.from = s->from[j * s->workers + w];
    }
    return m;
}

/* All that was sent has arrived: slots of the next epoch. */
void data_deal_exchange(pdl_sampler *s)
{
    int64_t *next = s->mine; /* this epoch's order has had its day */

    memcpy(next, s->slot, (size_t)s->opt.samples * sizeof next[0]);
    for (int64_t w = 0; w < s->workers; w++)
        for (int64_t j = 0; j < s->nmoves; j++) {
            struct pdl_sampler_move m = pdl_sampler_move(s, w, j);
            int64_t there = s->leaving[data_slots_begin(s, m.from) + j];

            next[data_slots_begin(s, w) + m.slot] =
                pdl_sampler_slot(s, m.from, there);
        }
    memcpy(s->slot, next, (size_t)s->opt.samples * sizeof next[0]);
}
