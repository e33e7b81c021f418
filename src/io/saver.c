/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints in the background: save copies everything ("staged") and a
 * thread writes the copy ("durable"). The copy is the point: a tensor that
 * changes while it is written would give a checkpoint of no step at all. One
 * at a time; who comes too early waits, and the wait is counted, so that the
 * interval can be chosen from it. */
#include "paradl/io.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct pdl_saver {
    struct pdl_ckpt_writer w;
    char *dir;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, busy, stop;
    volatile int cancel;
    /* the job: touched by the thread only while busy */
    pdl_arena *arena;
    struct pdl_ckpt_state state;
    struct pdl_shard *shard;
    int nshards;
    char *copy;
    int64_t cap;
    enum pdl_status status; /* of the last job, until it is told */
    struct pdl_err err;
    struct pdl_saver_status said;
};

static void write_job(pdl_saver *s, struct pdl_err *err, enum pdl_status *st)
{
    if (s->w.at)
        s->w.at(s->w.ctx, PDL_CKPT_STAGED);
    *st = pdl_ckpt_part(&s->w, &s->state, s->shard, s->nshards, err);
    if (*st == PDL_OK && s->w.rank == 0)
        *st = pdl_ckpt_commit(&s->w, &s->state, err);
}

static void *writer(void *arg)
{
    pdl_saver *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct pdl_err err = {"", ""};
        enum pdl_status st;
        double start;

        while (!s->busy && !s->stop)
            pthread_cond_wait(&s->changed, &s->lock);
        if (!s->busy)
            break;
        pthread_mutex_unlock(&s->lock);
        start = pdl_clock_s();
        write_job(s, &err, &st);
        pthread_mutex_lock(&s->lock);
        s->said.write_s = pdl_clock_s() - start;
        if (st == PDL_OK)
            s->said.durable_step = s->state.step;
        else if (s->status == PDL_OK)
            s->status = st, s->err = err;
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum pdl_status pdl_saver_create(const struct pdl_ckpt_writer *w,
                                 pdl_saver **out, struct pdl_err *err)
{
    pdl_saver *s = calloc(1, sizeof *s);

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for checkpoints");
    s->w = *w;
    s->said.staged_step = s->said.durable_step = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->dir = strdup(w->dir);
    s->w.dir = s->dir;
    s->w.cancel = &s->cancel;
    s->started = s->dir && pthread_create(&s->thread, NULL, writer, s) == 0;
    if (!s->started) {
        pdl_saver_destroy(s);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for checkpoints");
    }
    *out = s;
    return PDL_OK;
}

/* Waits until nothing is being written. Locked. */
static void settle(pdl_saver *s)
{
    double start = pdl_clock_s();

    while (s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    s->said.blocked_s += pdl_clock_s() - start;
}

/* An error is told once. Locked. */
static enum pdl_status tell(pdl_saver *s, struct pdl_err *err)
{
    enum pdl_status st = s->status;

    if (st != PDL_OK && err)
        *err = s->err;
    s->status = PDL_OK;
    return st;
}

/* ---- the copy ---- */

static bool shard_bytes(const struct pdl_shard *d, int64_t *out)
{
    int64_t n = pdl_box_volume(&d->box);

    return pdl_mul64(n, pdl_dtype_bits(d->dtype), &n) && (*out = n / 8) >= 0;
}

static const char *text(pdl_saver *s, const char *t, bool *ok)
{
    char *copy = pdl_arena_strdup(s->arena, t ? t : "");

    *ok &= copy != NULL;
    return copy;
}

static bool copy_settings(pdl_saver *s, const struct pdl_ckpt_state *from)
{
    struct pdl_setting *v =
        PDL_NEW(s->arena, struct pdl_setting, from->nsettings + 1);
    bool ok = v != NULL;

    for (int i = 0; i < from->nsettings && ok; i++)
        v[i] = (struct pdl_setting){text(s, from->settings[i].name, &ok),
                                    text(s, from->settings[i].value, &ok)};
    s->state.settings = v;
    return ok;
}

static bool copy_state(pdl_saver *s, const struct pdl_ckpt_state *from)
{
    struct pdl_scalar *v =
        PDL_NEW(s->arena, struct pdl_scalar, from->nscalars + 1);
    bool ok = v != NULL;

    s->state = *from;
    s->state.model = text(s, from->model, &ok);
    s->state.strategy = text(s, from->strategy, &ok);
    s->state.optimizer = text(s, from->optimizer, &ok);
    s->state.data = text(s, from->data, &ok);
    for (int i = 0; i < from->nscalars && ok; i++) {
        v[i] = from->scalars[i];
        v[i].name = text(s, v[i].name, &ok);
    }
    s->state.scalars = v;
    return ok && copy_settings(s, from);
}

static bool copy_shards(pdl_saver *s, const struct pdl_shard *from, int n)
{
    int64_t total = 0, bytes;
    bool ok = true;
    char *p;

    for (int i = 0; i < n; i++)
        if (!shard_bytes(&from[i], &bytes) || !pdl_add64(total, bytes, &total))
            return false;
    if (!s->copy || total > s->cap) {
        free(s->copy);
        s->copy = malloc((size_t)total + 1);
        s->cap = s->copy ? total : 0;
    }
    s->shard = PDL_NEW(s->arena, struct pdl_shard, n + 1);
    if (!s->copy || !s->shard)
        return false;
    p = s->copy;
    for (int i = 0; i < n; i++) {
        (void)shard_bytes(&from[i], &bytes);
        s->shard[i] = from[i];
        s->shard[i].name = text(s, from[i].name, &ok);
        s->shard[i].data = p;
        if (bytes > 0) {
            memcpy(p, from[i].data, (size_t)bytes);
            p += bytes;
        }
    }
    s->nshards = n;
    return ok;
}

enum pdl_status pdl_saver_save(pdl_saver *s, const struct pdl_ckpt_state *state,
                               const struct pdl_shard *shards, int n,
                               struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    double start;

    pthread_mutex_lock(&s->lock);
    settle(s);
    start = pdl_clock_s();
    pdl_arena_destroy(s->arena);
    s->arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (s->arena && copy_state(s, state) && copy_shards(s, shards, n)) {
        s->said.staged_step = state->step;
        s->said.stage_s = pdl_clock_s() - start;
        s->said.blocked_s += s->said.stage_s;
        s->cancel = 0;
        s->busy = true;
        pthread_cond_broadcast(&s->changed);
    } else {
        st = pdl_fail(err, PDL_ENOMEM,
                      "%s: out of memory to stage a checkpoint", s->dir);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

enum pdl_status pdl_saver_wait(pdl_saver *s, struct pdl_err *err)
{
    enum pdl_status st;

    pthread_mutex_lock(&s->lock);
    settle(s);
    st = tell(s, err);
    pthread_mutex_unlock(&s->lock);
    return st;
}

enum pdl_status pdl_saver_poll(pdl_saver *s, struct pdl_err *err)
{
    enum pdl_status st;

    pthread_mutex_lock(&s->lock);
    st = s->busy ? PDL_OK : tell(s, err);
    pthread_mutex_unlock(&s->lock);
    return st;
}

bool pdl_saver_busy(pdl_saver *s)
{
    bool busy;

    pthread_mutex_lock(&s->lock);
    busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

void pdl_saver_cancel(pdl_saver *s)
{
    s->cancel = 1;
}

void pdl_saver_status(pdl_saver *s, struct pdl_saver_status *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->said;
    pthread_mutex_unlock(&s->lock);
}

void pdl_saver_destroy(pdl_saver *s)
{
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pdl_arena_destroy(s->arena);
    free(s->copy);
    free(s->dir);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
