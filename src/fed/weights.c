/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a list of arrays by name, the file of whoever takes part with
 * another framework: what is written is read back, in any order. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a divided network but the first have their number before. */
static const char *name_of(const struct fed *f, const char *name, int64_t at)
{
    int64_t each = f->n / fed_learner_parts(f->learner);

    return at < each ? name
                     : pdl_arena_printf(f->arena, "part%lld.%s",
                                        (long long)(at / each), name);
}

/* The tensors of one model; x: NULL counts them. */
static int list_model(struct fed *f, const char *prefix, const float *w,
                      struct pdl_shard *x)
{
    const struct pdl_train_state *s;
    int64_t at;
    int n = 0;

    for (; (s = fed_learner_tensor(f->learner, n, &at)); n++) {
        if (!x)
            continue;
        x[n] = (struct pdl_shard){
            .name = pdl_arena_printf(f->arena, "%s%s", prefix,
                                     name_of(f, s->part.name, at)),
            .dtype = PDL_F32,
            .rank = s->part.ndims,
            .box = s->part.box,
            .data = w + at};
        memcpy(x[n].dim, s->part.dim,
               (size_t)s->part.ndims * sizeof x[n].dim[0]);
    }
    return n;
}

/* The model; of clients that train alone each one's, named by its number. */
enum pdl_status fed_weights_write(struct fed *f, const char *path,
                                  struct pdl_err *err)
{
    struct pdl_weights_options opt = {.metadata = NULL};
    int64_t models = f->alg->apart ? f->job->partition.clients : 1;
    int64_t each = list_model(f, "", NULL, NULL);
    struct pdl_shard *x = calloc((size_t)(models * each) + 1, sizeof x[0]);
    enum pdl_status st;
    int n = 0;

    if (!x || models * each > INT32_MAX) {
        free(x);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for %lld models",
                        (long long)models);
    }
    for (int64_t c = 0; c < models; c++)
        if (!f->alg->apart)
            n += list_model(f, "", f->model, x);
        else if (fed_has_slot(f, 0, c))
            n += list_model(
                f, pdl_arena_printf(f->arena, "client%lld.", (long long)c),
                fed_slot(f, 0, c), x + n);
    st = pdl_weights_write(path, x, n, &opt, err);
    free(x);
    return st;
}

static bool is_like(const struct pdl_ckpt_tensor *x,
                    const struct pdl_train_state *s)
{
    bool same = x->dtype == PDL_F32 && x->rank == s->part.ndims;

    for (int d = 0; same && d < x->rank; d++)
        same = x->dim[d] == s->part.dim[d];
    return same;
}

static enum pdl_status read_one(struct fed *f, const pdl_weights *w,
                                const struct pdl_train_state *s, int64_t at,
                                struct pdl_err *err)
{
    const char *path = f->job->weights_in, *name = name_of(f, s->part.name, at);
    int64_t n = pdl_box_volume(&s->part.box);
    int k = name ? pdl_weights_find(w, name) : -1;
    enum pdl_status st;

    if (k < 0 || !is_like(pdl_weights_tensor(w, k), s)) {
        pdl_fail(err, PDL_EINVAL, "%.200s: %s of %s is %s", path,
                 name ? name : "?", f->job->model_name,
                 k < 0 ? "not there" : "of another shape, or not float32");
        pdl_hint(err, "names and shapes are those of a file of --save");
        return PDL_EINVAL;
    }
    st = pdl_weights_read(w, k, &s->part.box, f->model + at, err);
    for (int64_t i = at; i < at + n && st == PDL_OK; i++)
        if (!isfinite(f->model[i]))
            st = pdl_fail(err, PDL_EINVAL, "%.200s: %s has what is no number",
                          path, name);
    return st;
}

enum pdl_status fed_weights_read(struct fed *f, struct pdl_err *err)
{
    const struct pdl_train_state *s;
    pdl_weights *w = NULL;
    int64_t at;
    enum pdl_status st = PDL_OK;

    if (!f->job->weights_in)
        return PDL_OK;
    st = pdl_weights_open(f->job->weights_in, &w, err);
    for (int i = 0;
         st == PDL_OK && (s = fed_learner_tensor(f->learner, i, &at)); i++)
        st = read_one(f, w, s, at, err);
    pdl_weights_close(w);
    return st;
}
