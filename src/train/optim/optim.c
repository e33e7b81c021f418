/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers, and how they get at numbers: pieces of a shard are
 * brought to float64, worked on, and stored as they were. The update is bound
 * by memory, so the wider arithmetic costs nothing, and one text serves all
 * types. */
#include "train/optim/optim.h"

#include <math.h>
#include <string.h>

static const struct train_optimizer *const optimizers[] = {
    &train_optim_sgd,  &train_optim_adam, &train_optim_adamw,
    &train_optim_lars, &train_optim_lamb,
};

const struct train_optimizer *train_optimizer_at(int i)
{
    int n = (int)(sizeof optimizers / sizeof optimizers[0]);

    return i >= 0 && i < n ? optimizers[i] : NULL;
}

const struct train_optimizer *train_optimizer_find(const char *name)
{
    for (int i = 0; train_optimizer_at(i); i++)
        if (strcmp(train_optimizer_at(i)->name, name) == 0)
            return train_optimizer_at(i);
    return NULL;
}

/* ---- elements --------------------------------------------------------- */

TRAIN_INLINE void load(enum pdl_dtype t, const void *p, int64_t at, int64_t n,
                       double *out)
{
    if (t == PDL_F64) {
        memcpy(out, (const double *)p + at, (size_t)n * sizeof *out);
    } else if (t == PDL_F32) {
        const float *f = (const float *)p + at;

        for (int64_t i = 0; i < n; i++)
            out[i] = f[i];
    } else {
        const uint16_t *h = (const uint16_t *)p + at;

        for (int64_t i = 0; i < n; i++) {
            uint32_t u = (uint32_t)h[i] << 16;
            float f;

            memcpy(&f, &u, sizeof f);
            out[i] = f;
        }
    }
}

TRAIN_INLINE void store(enum pdl_dtype t, void *p, int64_t at, int64_t n,
                        const double *v)
{
    if (t == PDL_F64) {
        memcpy((double *)p + at, v, (size_t)n * sizeof *v);
    } else {
        float *f = (float *)p + at;

        for (int64_t i = 0; i < n; i++)
            f[i] = (float)v[i];
    }
}

/* To the nearest, ties to even; what is not a number stays so. */
TRAIN_INLINE void store_copy(uint16_t *p, int64_t n, const double *v)
{
    for (int64_t i = 0; i < n; i++) {
        float f = (float)v[i];
        uint32_t u;

        memcpy(&u, &f, sizeof u);
        p[i] = (u & 0x7fffffff) > 0x7f800000
                   ? (uint16_t)(u >> 16 | 0x40)
                   : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
}

TRAIN_TARGETS
static void load_chunk(const struct train_shard *x, const struct train_step *s,
                       int nstates, struct train_chunk *c)
{
    c->n = x->n - c->at < TRAIN_CHUNK ? x->n - c->at : TRAIN_CHUNK;
    load(x->dtype, x->w, c->at, c->n, c->w);
    load(x->grad_dtype, x->g, c->at, c->n, c->g);
    for (int64_t i = 0; s->grad_scale != 1 && i < c->n; i++)
        c->g[i] *= s->grad_scale;
    for (int k = 0; k < nstates; k++)
        load(x->dtype, x->state[k], c->at, c->n, c->s[k]);
}

TRAIN_TARGETS
static void store_states(const struct train_shard *x, int nstates,
                         const struct train_chunk *c)
{
    for (int k = 0; k < nstates; k++)
        store(x->dtype, x->state[k], c->at, c->n, c->s[k]);
}

TRAIN_TARGETS
static void store_weights(const struct train_shard *x,
                          const struct train_chunk *c)
{
    store(x->dtype, x->w, c->at, c->n, c->w);
    if (x->copy)
        store_copy(x->copy + c->at, c->n, c->w);
}

void train_chunk_load(const struct train_shard *x, const struct train_step *s,
                      int nstates, struct train_chunk *c)
{
    load_chunk(x, s, nstates, c);
}

void train_chunk_store_states(const struct train_shard *x, int nstates,
                              const struct train_chunk *c)
{
    store_states(x, nstates, c);
}

void train_chunk_store(const struct train_shard *x, int nstates,
                       const struct train_chunk *c)
{
    store_states(x, nstates, c);
    store_weights(x, c);
}

/* ---- clipping and scaling --------------------------------------------- */

double train_grad_squares(const struct train_shard *x)
{
    double sum = 0, g[TRAIN_CHUNK];

    for (int64_t at = 0; at < x->n; at += TRAIN_CHUNK) {
        int64_t n = x->n - at < TRAIN_CHUNK ? x->n - at : TRAIN_CHUNK;

        load(x->grad_dtype, x->g, at, n, g);
        for (int64_t i = 0; i < n; i++)
            sum += g[i] * g[i];
    }
    return sum;
}

/* The small number keeps the result below `most` in spite of rounding. */
double train_clip_factor(double squares, double most)
{
    double f = most / (sqrt(squares) + 1e-6);

    return most > 0 && f < 1 ? f : 1;
}

void train_scaler_init(struct train_scaler *s, double scale, int64_t interval)
{
    *s = (struct train_scaler){scale > 0 ? scale : 1, 0, interval};
}

bool train_scaler_next(struct train_scaler *s, double squares)
{
    static const double least = 1, most = 0x1p127;

    if (!isfinite(squares)) {
        s->good = 0;
        if (s->interval > 0)
            s->scale = fmax(s->scale / 2, least);
        return false;
    }
    if (s->interval > 0 && ++s->good >= s->interval) {
        s->good = 0;
        s->scale = fmin(s->scale * 2, most);
    }
    return true;
}
