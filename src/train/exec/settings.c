/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run was started, as it stands in its checkpoints. Going on with
 * another batch, augmentation, seed or data set would train on other samples
 * than the run would have seen, without a word in any log: that is refused
 * unless asked for, and so is another mean of the weights than the one it
 * keeps. Anything else that differs is said. */
#include "train/exec/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is refused when it differs, and why; anything else is said. */
static const char SAMPLES[] = "the samples would be others";
static const struct {
    const char *name, *why;
    const char *unless; /* the checkpoint has this: nothing to lose */
} held[] = {
    {"batch", SAMPLES, NULL},
    {"seed", SAMPLES, NULL},
    {"data", SAMPLES, NULL},
    {"augment", SAMPLES, NULL},
    {"normalise", SAMPLES, NULL},
    {"shuffle", SAMPLES, NULL},
    {"hide", SAMPLES, NULL},
    {"mask token", SAMPLES, NULL},
    {"ema", "the mean of the weights would be another", "0"},
};

/* ---- the data set, in a few words ------------------------------------- */

/* FNV-1a. */
static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

/* A few whole samples, first and last among them: other data of the same
 * shape are other data. */
static enum pdl_status digest(const struct train_loop *l, uint64_t *out,
                              struct pdl_err *err)
{
    enum { LOOKS = 16 };
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    struct pdl_read in = {.split = l->train.split,
                          .nsamples = 1,
                          .box = pdl_field_box(&d->input)},
                    to = in;
    int64_t n = pdl_box_volume(&in.box), m, total, sample;
    enum pdl_status st = PDL_OK;
    float *x;

    to.box = pdl_field_box(&d->target);
    m = pdl_box_volume(&to.box);
    total = d->split[in.split].samples;
    in.samples = to.samples = &sample;
    x = malloc((size_t)(n + m + 1) * sizeof *x);
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *out = UINT64_C(14695981039346656037);
    for (int64_t i = 0; i < LOOKS && st == PDL_OK; i++) {
        sample = i < total ? (total - 1) * i / (LOOKS - 1) : 0;
        st = pdl_io_input(l->job->io, &in, x, err);
        if (st == PDL_OK)
            st = pdl_io_target(l->job->io, &to, x + n, err);
        if (st == PDL_OK)
            *out = mix(*out, x, (size_t)(n + m) * sizeof *x);
    }
    free(x);
    return st;
}

static enum pdl_status data_text(const struct train_loop *l, char *text,
                                 size_t size, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    uint64_t sum = 0;
    enum pdl_status st = digest(l, &sum, err);
    size_t n;

    n = (size_t)snprintf(text, size, "%" PRId64 " samples of ",
                         d->split[l->train.split].samples);
    for (int i = 0; i < d->input.rank && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%" PRId64, i ? "x" : "",
                              d->input.dim[i]);
    if (n < size)
        snprintf(text + n, size - n, ", %016" PRIx64, sum);
    return st;
}

/* ---- all of it -------------------------------------------------------- */

static void rate_text(const struct train_loop *l, char *text, size_t size)
{
    const struct pdl_train_rates *r = &l->job->rates;
    const char *how = r->schedule ? r->schedule : "constant";

    if (strcmp(how, "step") == 0)
        snprintf(text, size, "step, every %" PRId64 ", times %.6g", r->every,
                 r->gamma);
    else if (strcmp(how, "constant") == 0)
        snprintf(text, size, "constant");
    else
        snprintf(text, size, "%s to %.6g over %" PRId64 " steps", how, r->last,
                 l->steps);
}

static bool add(struct train_loop *l, const char *name, const char *value)
{
    const char *copy = pdl_arena_strdup(l->arena, value);

    if (!copy || l->nsettings == TRAIN_SETTINGS)
        return false;
    l->settings[l->nsettings++] = (struct pdl_setting){name, copy};
    return true;
}

static bool add_number(struct train_loop *l, const char *name, double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", v);
    return add(l, name, text);
}

static const char *yes(bool v)
{
    return v ? "yes" : "no";
}

enum pdl_status train_settings(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_train_job *j = l->job;
    const char *spared = j->opt.spare_biases && j->opt.spare_norms ? "bias,norm"
                         : j->opt.spare_biases                     ? "bias"
                         : j->opt.spare_norms                      ? "norm"
                                                                   : "none";
    char data[160], rates[96], seed[32];
    enum pdl_status st;
    bool ok;

    if (!j->checkpoint)
        return PDL_OK;
    st = data_text(l, data, sizeof data, err);
    if (st != PDL_OK)
        return st;
    rate_text(l, rates, sizeof rates);
    snprintf(seed, sizeof seed, "%" PRIu64, j->opt.seed);
    ok = add_number(l, "batch", (double)j->plan->batch) &&
         add(l, "seed", seed) && add(l, "data", data) &&
         add(l, "augment", yes(j->augment)) &&
         add(l, "normalise", yes(!j->raw)) &&
         add(l, "shuffle", j->shuffle ? j->shuffle : "global") &&
         add(l, "hide", j->hide ? j->hide : "none") &&
         add(l, "optimizer", j->opt.optimizer ? j->opt.optimizer : "sgd") &&
         add_number(l, "lr", j->rates.lr) && add(l, "schedule", rates) &&
         add_number(l, "warmup", (double)j->rates.warmup) &&
         add_number(l, "clip", j->opt.clip) &&
         add_number(l, "label smoothing", j->opt.label_smoothing) &&
         add(l, "loss", j->opt.mean_squares ? "mse" : "cross-entropy") &&
         add_number(l, "mask token", (double)j->mask_token) &&
         add_number(l, "ema", j->ema) && add(l, "no decay", spared) &&
         add(l, "dropout", yes(!j->opt.no_dropout)) &&
         add(l, "frozen", j->opt.freeze ? j->opt.freeze : "none");
    return ok ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

static const char *find(const struct pdl_ckpt_state *s, const char *name)
{
    for (int i = 0; i < s->nsettings; i++)
        if (strcmp(s->settings[i].name, name) == 0)
            return s->settings[i].value;
    return NULL;
}

/* Why a run may not go on with another value than the checkpoint's. */
static const char *reason(const char *name, const char *was)
{
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        if (strcmp(held[i].name, name) == 0)
            return held[i].unless && strcmp(held[i].unless, was) == 0
                       ? NULL
                       : held[i].why;
    return NULL;
}

/* Checkpoints without settings are of an older version: two numbers. */
static enum pdl_status compare_old(const struct train_loop *l,
                                   const pdl_ckpt *c, struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(c);

    if (s->samples != train_samples_of(l))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: made with %" PRId64
                        " samples, the data set has %" PRId64,
                        pdl_ckpt_path(c), s->samples, train_samples_of(l));
    if (s->seed != l->job->opt.seed)
        return pdl_fail(err, PDL_EINVAL, "%s: made with --seed %" PRIu64,
                        pdl_ckpt_path(c), s->seed);
    return PDL_OK;
}

enum pdl_status train_settings_compare(struct train_loop *l, const pdl_ckpt *c,
                                       struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(c);

    if (s->nsettings == 0 && !l->job->resume_anyway)
        return compare_old(l, c, err);
    for (int i = 0; i < l->nsettings; i++) {
        const char *name = l->settings[i].name, *was = find(s, name);
        const char *is = l->settings[i].value, *why;

        if (!was || strcmp(was, is) == 0)
            continue;
        why = reason(name, was);
        if (why && !l->job->resume_anyway) {
            pdl_fail(err, PDL_EINVAL,
                     "%.200s: made with %s %.100s, not %.100s: %s",
                     pdl_ckpt_path(c), name, was, is, why);
            pdl_hint(err, "--resume-anyway goes on all the same");
            return PDL_EINVAL;
        }
        train_note(l, "going on with %s %s; the checkpoint has %s", name, is,
                   was);
    }
    return PDL_OK;
}
