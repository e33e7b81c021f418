/* SPDX-License-Identifier: Apache-2.0
 *
 * Masked language modelling (Devlin et al., NAACL 2019, 3.1): of the T tokens
 * of a sample round(0.15 T) are to be told. Of these eight in ten are replaced
 * by the mask, one by any token, one stays; the others have no label. Which
 * ones is a function of (seed, epoch, sample): the positions with the smallest
 * random numbers, so that every rank that holds a part of a sample agrees.
 * The number is the same for all samples, so the mean over what counts needs
 * no exchange.
 *
 * It is what an encoder is trained with on plain text: a model all of whose
 * attention looks both ways, on a data set whose targets are its own tokens. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

static const double SHARE = 0.15;

/* Does every attention see what follows? */
static bool looks_both_ways(const struct pdl_model *m)
{
    bool some = false;

    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_ATTENTION) {
            if (m->nodes[i].attr.causal)
                return false;
            some = true;
        }
    return some && train_inputs(m) == 1;
}

/* Rows of the table that tokens read. */
static int64_t vocabulary(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_EMBEDDING &&
            m->tensors[m->nodes[i].in[0]].kind == PDL_TENSOR_INPUT)
            return m->nodes[i].attr.vocab;
    return 0;
}

enum pdl_status train_mask_open(const struct pdl_dataset *d,
                                const struct pdl_model *m, int64_t token,
                                struct train_masking *out, struct pdl_err *err)
{
    int64_t rows = vocabulary(m), t = d->input.rank == 1 ? d->input.dim[0] : 0;
    bool text =
        strcmp(d->format, "text") == 0 || strcmp(d->format, "tokens") == 0;

    *out = (struct train_masking){.count = 0};
    if (!text || !looks_both_ways(m) || rows < 1 || t < 1)
        return PDL_OK;
    out->positions = t;
    out->count = (int64_t)(SHARE * (double)t + 0.5);
    out->count = out->count > 0 ? out->count : 1;
    out->vocabulary = d->classes < rows ? d->classes : rows;
    out->token = token > 0 ? token : rows - 1;
    if (out->token >= rows)
        return pdl_fail(err, PDL_EINVAL,
                        "--mask-token %lld: %s knows %lld tokens",
                        (long long)token, m->name, (long long)rows);
    if (token > 0 || d->classes < rows)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             "%s: uses all %lld tokens of %s; the mask needs one of its own",
             d->name, (long long)rows, m->name);
    pdl_hint(err, "vocab=%lld, or --mask-token N where one is the mask's",
             (long long)rows + 1);
    return PDL_EINVAL;
}

enum pdl_status pdl_train_masked(const struct pdl_dataset *d,
                                 const struct pdl_model *m, int64_t *out,
                                 struct pdl_err *err)
{
    struct train_masking mask;
    enum pdl_status st = train_mask_open(d, m, 0, &mask, err);

    *out = mask.count;
    return st;
}

struct draw {
    uint32_t at, kind, other;
    int32_t position;
};

static int by_draw(const void *a, const void *b)
{
    const struct draw *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->position < y->position ? -1 : 1;
}

static void draw_all(const struct train_samples *s, int64_t sample,
                     struct draw *d)
{
    int64_t epoch = s->sampler ? pdl_sampler_epoch(s->sampler) : s->mask.epoch;
    uint64_t key = pdl_draw_key(s->mask.seed, PDL_DRAW_MASK, epoch);

    for (int64_t i = 0; i < s->mask.positions; i++) {
        struct pdl_rng4 r = pdl_philox(key, (uint64_t)sample, (uint64_t)i);

        d[i] = (struct draw){r.v[0], r.v[1] % 10, r.v[2], (int32_t)i};
    }
    qsort(d, (size_t)s->mask.positions, sizeof *d, by_draw);
}

/* One sample's tokens [lo, hi) become what the model sees, or its labels. */
static void mask_one(const struct train_samples *s, const struct draw *d,
                     int64_t lo, int64_t hi, bool label, int32_t *ids)
{
    int64_t k = 0;

    for (; k < s->mask.count; k++) {
        int64_t i = d[k].position;

        if (label || i < lo || i >= hi || d[k].kind == 9)
            continue;
        ids[i - lo] = d[k].kind < 8
                          ? (int32_t)s->mask.token
                          : (int32_t)(d[k].other % s->mask.vocabulary);
    }
    for (; label && k < s->mask.positions; k++)
        if (d[k].position >= lo && d[k].position < hi)
            ids[d[k].position - lo] = -1;
}

void train_mask(const struct train_samples *s,
                const struct pdl_train_part *part, bool label)
{
    const struct pdl_box *b = &part->box;
    struct draw *d = s->mask.draws;
    int64_t n = b->hi[1] - b->lo[1];

    if (s->mask.count == 0 || part->dtype != PDL_I32)
        return;
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++) {
        draw_all(s, s->ids[i - b->lo[0]], d);
        mask_one(s, d, b->lo[1], b->hi[1], label,
                 (int32_t *)part->data + (i - b->lo[0]) * n);
    }
}

size_t train_mask_bytes(const struct train_masking *m)
{
    return (size_t)m->positions * sizeof(struct draw);
}
