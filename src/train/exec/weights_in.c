/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from safetensors, under our names or those of others. Which family
 * of names a file has is found by looking: the one under which most weights of
 * the model are there. All ranks decide about all weights first, so that they
 * agree about what is missing; then each reads its own boxes. Numbers may be of
 * any floating type. */
#include "train/train_priv.h"
#include "train/exec/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loading {
    pdl_trainer *t;
    const struct pdl_model *m;
    const pdl_weights *w;
    pdl_arena *arena;
    const struct pdl_naming *naming;
    const struct pdl_weight_place **places; /* by tensor of the model */
    int *nplaces;
    bool *left; /* tensors that stay as they were made */
    bool *used; /* tensors of the file */
    const struct pdl_train_load *how;
    struct pdl_err *err;
};

static void note(const struct loading *l, const char *text)
{
    if (text && l->how->note)
        l->how->note(l->how->ctx, text);
}

/* ---- finding ---------------------------------------------------------- */

/* Older BERTs call the two of a norm gamma and beta. */
static int find_old(const pdl_weights *w, const char *name)
{
    static const char *const words[][2] = {{".weight", ".gamma"},
                                           {".bias", ".beta"}};
    char old[200];
    size_t n = strlen(name);

    for (int i = 0; i < 2; i++) {
        size_t k = strlen(words[i][0]);

        if (n <= k || n >= sizeof old || strcmp(name + n - k, words[i][0]) != 0)
            continue;
        snprintf(old, sizeof old, "%.*s%s", (int)(n - k), name, words[i][1]);
        return pdl_weights_find(w, old);
    }
    return -1;
}

static int find(const pdl_weights *w, const struct pdl_weight_place *p)
{
    static const char *const wraps[] = {"module.", "_orig_mod.", "model."};
    char name[200];
    int k = pdl_weights_find(w, p->name);

    if (k < 0)
        k = pdl_weights_find(w, p->bare);
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0] && k < 0; i++) {
        snprintf(name, sizeof name, "%s%.180s", wraps[i], p->name);
        k = pdl_weights_find(w, name);
    }
    if (k < 0)
        k = find_old(w, p->name);
    return k >= 0 ? k : find_old(w, p->bare);
}

static bool is_weight(const struct pdl_tensor *t)
{
    return t->kind == PDL_TENSOR_WEIGHT || t->kind == PDL_TENSOR_BUFFER;
}

/* Puts the copy in the first's place where only the copy is there. */
static void settle_copies(struct loading *l, struct pdl_weight_place *p, int n)
{
    for (int i = 0; i < n; i++)
        if (p[i].copy && find(l->w, &p[0]) < 0 && find(l->w, &p[i]) >= 0) {
            p[0].name = p[i].name;
            p[0].bare = p[i].bare;
        }
}

static bool is_there(struct loading *l, const struct pdl_weight_place *p, int n)
{
    bool all = n > 0;

    settle_copies(l, (struct pdl_weight_place *)p, n);
    for (int i = 0; i < n && all; i++)
        all = p[i].copy || find(l->w, &p[i]) >= 0;
    return all;
}

/* How many weights the file has under these names. */
static enum pdl_status look(struct loading *l, const struct pdl_naming *naming,
                            int *found)
{
    enum pdl_status st = PDL_OK;

    *found = 0;
    l->naming = naming;
    for (int i = 0; i < l->m->ntensors && st == PDL_OK; i++) {
        if (!is_weight(&l->m->tensors[i]))
            continue;
        st = pdl_weight_places(l->arena, naming, l->m, i, &l->places[i],
                               &l->nplaces[i], l->err);
        if (st == PDL_OK && is_there(l, l->places[i], l->nplaces[i]))
            (*found)++;
    }
    return st;
}

static enum pdl_status choose(struct loading *l)
{
    const struct pdl_naming *best = NULL;
    enum pdl_status st;
    int found, most;

    st = look(l, NULL, &most);
    for (int i = 0; st == PDL_OK && pdl_naming_at(i); i++) {
        st = look(l, pdl_naming_at(i), &found);
        if (st == PDL_OK && found > most) {
            most = found;
            best = pdl_naming_at(i);
        }
    }
    if (st != PDL_OK)
        return st;
    if (most == 0 && pdl_weights_count(l->w) == 0)
        return pdl_fail(l->err, PDL_EINVAL, "is empty");
    if (most == 0) {
        pdl_fail(l->err, PDL_EINVAL,
                 "has none of the weights of %s; its first is '%.60s'",
                 l->m->name, pdl_weights_tensor(l->w, 0)->name);
        pdl_hint(l->err, "paradl train %s --save FILE shows the names",
                 l->m->name);
        return PDL_EINVAL;
    }
    return look(l, best, &found);
}

/* ---- does it fit? ----------------------------------------------------- */

static void shape_text(char *to, size_t size, const int64_t *dim, int n)
{
    size_t at = 0;

    snprintf(to, size, n ? "" : "a number");
    for (int i = 0; i < n && at + 24 < size; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%lld", i ? "x" : "",
                               (long long)dim[i]);
}

/* What is wrong with a place; false: nothing. */
static bool differs(struct loading *l, const struct pdl_weight_place *p,
                    char *why, size_t size)
{
    int k = find(l->w, p);
    const struct pdl_ckpt_tensor *c =
        k >= 0 ? pdl_weights_tensor(l->w, k) : NULL;
    char want[80], have[80];
    bool same = c && c->rank >= p->rank;
    int ones = c ? c->rank - p->rank : 0;

    if (!c) {
        snprintf(why, size, "%s is not there", p->name);
        return true;
    }
    for (int d = 0; same && d < c->rank; d++)
        same = c->dim[d] == (d < ones ? 1 : p->dim[d - ones]);
    l->used[k] = true;
    shape_text(want, sizeof want, p->dim, p->rank);
    shape_text(have, sizeof have, c->dim, c->rank);
    if (!same)
        snprintf(why, size, "%s is %s, %s wants %s", c->name, have, l->m->name,
                 want);
    else if (!train_weights_type(c->dtype))
        snprintf(why, size, "%s is of type %s", c->name,
                 pdl_dtype_name(c->dtype));
    return !same || !train_weights_type(c->dtype);
}

/* A family without a name for the weight: one of a head that is not there. */
static bool lacks(struct loading *l, int i, char *why, size_t size)
{
    bool bad = l->nplaces[i] == 0;

    if (bad)
        snprintf(why, size, "%s has no name of %s", l->m->tensors[i].name,
                 pdl_naming_name(l->naming));
    for (int k = 0; k < l->nplaces[i] && !bad; k++)
        bad = !l->places[i][k].copy && differs(l, &l->places[i][k], why, size);
    for (int k = 0; k < l->nplaces[i]; k++) {
        int at = find(l->w, &l->places[i][k]);

        if (at >= 0)
            l->used[at] = true;
    }
    return bad;
}

static enum pdl_status check(struct loading *l)
{
    char why[300];
    int n = 0;

    for (int i = 0; i < l->m->ntensors; i++) {
        if (!is_weight(&l->m->tensors[i]) || !lacks(l, i, why, sizeof why))
            continue;
        if (!l->how->partial) {
            pdl_fail(l->err, PDL_EINVAL, "%s", why);
            pdl_hint(l->err, "train --partial leaves such weights alone");
            return PDL_EINVAL;
        }
        l->left[i] = true;
        if (n++ < 8)
            note(l, pdl_arena_printf(l->arena, "left as initialised: %s (%s)",
                                     l->m->tensors[i].name, why));
    }
    if (n > 8)
        note(l,
             pdl_arena_printf(l->arena, "left as initialised: %d more", n - 8));
    return PDL_OK;
}

/* Masks, wavelengths and counters that models of others keep in their files. */
static bool is_known_extra(const char *name)
{
    static const char *const ends[] = {
        "num_batches_tracked", "rotary_emb.inv_freq", "position_ids",
        "attn.bias",           "attn.masked_bias",    "rope.freqs"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);

        if (n >= k && strcmp(name + n - k, ends[i]) == 0)
            return true;
    }
    return false;
}

static void tell_unused(struct loading *l)
{
    const char *first = NULL;
    int n = 0;

    for (int i = 0; i < pdl_weights_count(l->w); i++)
        if (!l->used[i] && !is_known_extra(pdl_weights_tensor(l->w, i)->name)) {
            n++;
            first = first ? first : pdl_weights_tensor(l->w, i)->name;
        }
    if (n == 1)
        note(l, pdl_arena_printf(l->arena, "not used: %s", first));
    if (n > 1)
        note(l, pdl_arena_printf(l->arena, "not used: %s and %d more", first,
                                 n - 1));
    if (l->naming && l->m->inexact)
        note(l, pdl_arena_printf(
                    l->arena,
                    "the weights are %s's, but %s is computed otherwise here",
                    pdl_naming_name(l->naming), l->m->inexact));
}

/* ---- reading ---------------------------------------------------------- */

/* A file may have dimensions of 1 in front that the model does without. */
static struct pdl_box with_ones(const struct pdl_box *b, int rank)
{
    struct pdl_box wide = {.ndims = rank};
    int ones = rank - b->ndims;

    for (int d = 0; d < rank; d++) {
        wide.lo[d] = d < ones ? 0 : b->lo[d - ones];
        wide.hi[d] = d < ones ? 1 : b->hi[d - ones];
    }
    return wide;
}

/* All bits of the exponent are set where a number is none, or infinite. */
static bool all_finite(enum pdl_dtype t, const void *at, int64_t n)
{
    static const struct {
        enum pdl_dtype dtype;
        uint64_t exponent;
    } floats[] = {{PDL_F32, 0x7f800000},
                  {PDL_BF16, 0x7f80},
                  {PDL_F16, 0x7c00},
                  {PDL_F64, UINT64_C(0x7ff) << 52}};
    size_t bytes = (size_t)pdl_dtype_bits(t) / 8;
    uint64_t mask = 0;

    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        mask = floats[i].dtype == t ? floats[i].exponent : mask;
    for (int64_t i = 0; mask && i < n; i++) {
        uint64_t v = 0;

        memcpy(&v, (const char *)at + (size_t)i * bytes, bytes);
        if ((v & mask) == mask)
            return false;
    }
    return true;
}

static enum pdl_status read_place(struct loading *l,
                                  const struct pdl_weight_place *p,
                                  const struct pdl_train_part *part)
{
    int k = find(l->w, p);
    struct train_weights_run run;
    struct pdl_box box;
    enum pdl_status st;
    void *buf;

    if (!train_weights_run(p, part, &run))
        return PDL_OK; /* none of its rows are this rank's */
    run.theirs.dtype = pdl_weights_tensor(l->w, k)->dtype;
    buf = malloc((size_t)(pdl_box_volume(&run.theirs.box) *
                          pdl_dtype_bits(run.theirs.dtype) / 8) +
                 1);
    if (!buf)
        return pdl_fail(l->err, PDL_ENOMEM, "out of memory for the weights");
    run.theirs.data = buf;
    box = with_ones(&run.theirs.box, pdl_weights_tensor(l->w, k)->rank);
    st = pdl_weights_read(l->w, k, &box, buf, l->err);
    if (st == PDL_OK &&
        !all_finite(run.theirs.dtype, buf, pdl_box_volume(&run.theirs.box)))
        st =
            pdl_fail(l->err, PDL_EPARSE, "%s holds a NaN or an infinite number",
                     pdl_weights_tensor(l->w, k)->name);
    if (st == PDL_OK)
        train_weights_copy(p, &run, part, true);
    free(buf);
    return st;
}

static enum pdl_status read_state(struct loading *l,
                                  const struct pdl_train_state *s)
{
    const struct pdl_tensor *t = &l->m->tensors[s->model_tensor];
    const char *name = s->part.name;
    enum pdl_status st = PDL_OK;

    if (strncmp(name, "master.", 7) == 0)
        name += 7;
    if (strcmp(name, t->name) != 0 || l->left[s->model_tensor] ||
        pdl_box_empty(&s->part.box))
        return PDL_OK; /* the optimizer's, or nothing to do */
    for (int k = 0; k < l->nplaces[s->model_tensor] && st == PDL_OK; k++)
        if (!l->places[s->model_tensor][k].copy)
            st = read_place(l, &l->places[s->model_tensor][k], &s->part);
    return st;
}

enum pdl_status pdl_trainer_load(pdl_trainer *t, const pdl_weights *w,
                                 const struct pdl_train_load *how,
                                 struct pdl_err *err)
{
    static const struct pdl_train_load strict = {.partial = false};
    struct loading l = {.t = t,
                        .m = t->plan->model,
                        .w = w,
                        .arena = t->arena,
                        .how = how ? how : &strict,
                        .err = err};
    int n = l.m->ntensors + 1;
    enum pdl_status st;

    l.places = PDL_NEW(t->arena, const struct pdl_weight_place *, n);
    l.nplaces = PDL_NEW(t->arena, int, n);
    l.left = PDL_NEW(t->arena, bool, n);
    l.used = PDL_NEW(t->arena, bool, pdl_weights_count(w) + 1);
    if (!l.places || !l.nplaces || !l.left || !l.used)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the weights");
    st = pdl_trainer_fetch(t, err); /* not all may be replaced */
    if (st == PDL_OK)
        st = choose(&l);
    if (st == PDL_OK)
        st = check(&l);
    if (st == PDL_OK)
        tell_unused(&l);
    for (int i = 0; i < t->nstates && st == PDL_OK; i++)
        st = read_state(&l, &t->states[i]);
    t->naming = l.naming;
    return st == PDL_OK ? train_state_send(t, err) : st;
}
