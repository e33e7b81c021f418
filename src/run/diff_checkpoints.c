/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs by their checkpoints: of all steps that both folders hold the first
 * in which a tensor differs (weights, statistics, what optimizers keep). The
 * runs may have had any strategies: a checkpoint is whole tensors. */
#include "diff_checkpoints.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 4096 };

struct pair {
    const pdl_ckpt *a, *b;
    double tolerance;
    struct pdl_train_diff *d;
};

static enum pdl_status read_whole(const pdl_ckpt *c, int tensor,
                                  struct pdl_train_part *out,
                                  struct pdl_err *err)
{
    const struct pdl_ckpt_tensor *t = pdl_ckpt_tensor(c, tensor);
    size_t bytes = (size_t)pdl_dtype_bits(t->dtype) / 8;

    *out = (struct pdl_train_part){
        .name = t->name, .dtype = t->dtype, .ndims = t->rank};
    out->box.ndims = t->rank;
    for (int d = 0; d < t->rank; d++) {
        out->dim[d] = out->box.hi[d] = t->dim[d];
        bytes *= (size_t)t->dim[d];
    }
    out->data = malloc(bytes + 1);
    if (!out->data)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", t->name);
    return pdl_ckpt_read(c, tensor, &out->box, out->data, err);
}

static bool next(const struct pdl_box *b, int64_t *i)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++i[d] < b->hi[d])
            return true;
        i[d] = 0;
    }
    return false;
}

static void compare_values(struct pair *p, const struct pdl_train_part *a,
                           const struct pdl_train_part *b)
{
    int64_t i[PDL_BOX_DIMS] = {0};
    double most = 0;
    bool same = true;

    if (pdl_box_volume(&a->box) == 0)
        return;
    do
        most = fmax(most, fabs(pdl_train_get(a, i)));
    while (next(&a->box, i));
    memset(i, 0, sizeof i);
    do {
        double x = pdl_train_get(a, i), y = pdl_train_get(b, i);

        same = same && x == y;
        if (fabs(x - y) <= p->tolerance * most)
            continue;
        p->d->differs = true;
        p->d->want = x;
        p->d->got = y;
        p->d->ndims = a->ndims;
        memcpy(p->d->index, i, sizeof i);
        snprintf(p->d->what, sizeof p->d->what, "%s", a->name);
        return;
    } while (next(&a->box, i));
    p->d->bitwise += same;
}

static bool same_shape(const struct pdl_ckpt_tensor *a,
                       const struct pdl_ckpt_tensor *b)
{
    bool same = a->rank == b->rank;

    for (int d = 0; same && d < a->rank; d++)
        same = a->dim[d] == b->dim[d];
    return same;
}

/* What error feedback keeps belongs to ranks, not to the model. */
static bool is_of_ranks(const char *name)
{
    return strncmp(name, "feedback.", 9) == 0;
}

static enum pdl_status compare_tensor(struct pair *p, int k,
                                      struct pdl_err *err)
{
    const struct pdl_ckpt_tensor *t = pdl_ckpt_tensor(p->a, k);
    int other = pdl_ckpt_find(p->b, t->name);
    struct pdl_train_part a = {.data = NULL}, b = {.data = NULL};
    enum pdl_status st;

    if (is_of_ranks(t->name))
        return PDL_OK;
    p->d->compared++;
    if (other < 0 || !same_shape(t, pdl_ckpt_tensor(p->b, other))) {
        p->d->differs = true;
        p->d->want = p->d->got = NAN;
        snprintf(p->d->what, sizeof p->d->what, "%.200s: B has %s", t->name,
                 other < 0 ? "none" : "another shape");
        return PDL_OK;
    }
    st = read_whole(p->a, k, &a, err);
    if (st == PDL_OK)
        st = read_whole(p->b, other, &b, err);
    if (st == PDL_OK)
        compare_values(p, &a, &b);
    free(a.data);
    free(b.data);
    return st;
}

static enum pdl_status compare_step(struct pair *p, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int k = 0; pdl_ckpt_tensor(p->a, k) && !p->d->differs && st == PDL_OK;
         k++)
        st = compare_tensor(p, k, err);
    return st;
}

/* Steps of a folder, the newest first. */
static enum pdl_status find_steps(const char *dir, int64_t *step, int *n,
                                  struct pdl_err *err)
{
    int64_t before = INT64_MAX;
    enum pdl_status st = PDL_OK;

    for (*n = 0; *n < MOST_STEPS && st == PDL_OK; ++*n) {
        pdl_ckpt *c = NULL;

        st = pdl_ckpt_latest(dir, before, false, &c, NULL, err);
        if (st != PDL_OK || !c)
            break;
        step[*n] = pdl_ckpt_state(c)->step;
        before = step[*n];
        pdl_ckpt_close(c);
    }
    return st;
}

enum pdl_status run_diff_checkpoints(const char *a, const char *b,
                                     double tolerance, struct pdl_train_diff *d,
                                     struct pdl_err *err)
{
    struct pair p = {.tolerance = tolerance, .d = d};
    int64_t *step = calloc(MOST_STEPS, sizeof *step);
    enum pdl_status st =
        step ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
    int n = 0;

    if (st == PDL_OK)
        st = find_steps(a, step, &n, err);
    for (int i = n - 1; i >= 0 && st == PDL_OK && !d->differs; i--) {
        pdl_ckpt *x = NULL, *y = NULL;

        st = pdl_ckpt_latest(a, step[i] + 1, false, &x, NULL, err);
        if (st == PDL_OK)
            st = pdl_ckpt_latest(b, step[i] + 1, false, &y, NULL, err);
        p.a = x;
        p.b = y;
        d->step = step[i];
        if (st == PDL_OK && y && pdl_ckpt_state(y)->step == step[i])
            st = compare_step(&p, err);
        pdl_ckpt_close(x);
        pdl_ckpt_close(y);
    }
    free(step);
    if (st == PDL_OK && d->compared == 0)
        st = pdl_fail(err, PDL_EINVAL,
                      "%.200s and %.200s hold no checkpoint of the same step",
                      a, b);
    return st;
}
