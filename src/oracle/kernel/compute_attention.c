/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of attention that stores no scores (Dao et al., FlashAttention,
 * 2022): FLOPs at a part of the peak that grows with the length of the rows,
 * s / (s + HALF). Heads are padded to 64, 128 or 256; what the narrow and the
 * wide ones reach of the middle one, and HALF, come from kernel timings of an
 * H200. Backward does 2.5 times the FLOPs.
 *
 * Heads that are not a multiple of 16 bytes take an earlier generation of
 * kernels (Dao, FlashAttention-2, 2023), which pads them to multiples of 32
 * and reaches half of the rate, and copies that pad the operands and cut the
 * results: three tensors forward, six backward, row by row in short pieces.
 *
 * In 32 bits there are no such kernels: PyTorch's memory-efficient attention
 * (Rabe and Staats 2021; fmha_cutlassF and B, tiles of 64 queries by 64 keys)
 * computes without the matrix units, at WIDE of their rate: profiles of BERT's
 * 512 and ViT's 197 tokens (four tiles of 64: 256) on an H200 agree within 4 %.
 * A causal mask saves a third there, not half: rows of tiles differ in length
 * (one shape measured). */
#include "oracle/context.h"

#include <math.h>

enum { HALF_FORWARD = 600, HALF_BACKWARD = 900, OLD_PAD = 32 };

// clang-format off
static const struct head {
    double size, forward, backward;
} heads[] = {{64, .72, .78}, {128, 1, 1}, {256, 1, .78}},
  old_heads[] = {{128, .48, .61}, {256, .38, .44}};
// clang-format on

/* Part of the rate of the vector units that attention in 32 bits reaches, its
 * tiles, and how much of what a mask hides it leaves out. */
static const double WIDE_FORWARD = .487, WIDE_BACKWARD = .52, WIDE_TILE = 64;
static const double WIDE_SAVED = .7;

/* Part of the streaming rate that copies of unaligned rows reach. */
static const double UNALIGNED_COPY = .37;

/* Each copied tensor is cleared (forward), read and written. */
static double copies(const struct oracle_pe *pe, double bytes, bool back)
{
    double move = 2 / UNALIGNED_COPY;

    return (back ? 6 * move + 1 : 3 * (move + 1)) * bytes / pe->bytes_per_s;
}

static double seen_part(const struct pdl_shape *s)
{
    return s->seen > 0 ? s->seen : s->causal ? .5 : 1;
}

static double in_32_bits(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    bool back = s->pass != PDL_FORWARD;
    double q = ceil((double)s->in[0] / WIDE_TILE) * WIDE_TILE;
    double k = ceil((double)s->out[0] / WIDE_TILE) * WIDE_TILE;
    double flops = 4.0 * (double)s->n * (double)s->groups * q * k *
                   (double)s->c * (1 - WIDE_SAVED * (1 - seen_part(s)));

    return flops > 0
               ? pe->launch_s + flops * (back ? 2.5 : 1) /
                                    (pe->vector_rate *
                                     (back ? WIDE_BACKWARD : WIDE_FORWARD))
               : 0;
}

double oracle_attention(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    bool back = s->pass != PDL_FORWARD;
    double d = (double)s->c, q = (double)s->in[0], k = (double)s->out[0];
    bool aligned = fmod(d * pe->item_bytes, 16) == 0;
    const struct head *h = aligned ? &heads[0] : &old_heads[0];
    const struct head *last = aligned ? &heads[2] : &old_heads[1];
    double flops, part, heads_in = (double)s->n * (double)s->groups, width;
    struct head plain;

    while (h < last && d > h->size)
        h++;
    plain = (struct head){h->size, 1, 1};
    if (pe->any_head)
        h = &plain;
    width = aligned ? h->size : ceil(d / OLD_PAD) * OLD_PAD;
    flops = 4.0 * heads_in * q * k * (d > width ? d : width) * seen_part(s);
    if (!(flops > 0))
        return 0;
    if (pe->item_bytes > 2 && !pe->core)
        return in_32_bits(pe, s);
    part =
        back ? pe->k.attention_backward * h->backward * k / (k + HALF_BACKWARD)
             : pe->k.attention_forward * h->forward * k / (k + HALF_FORWARD);
    return pe->launch_s + flops * (back ? 2.5 : 1) / (pe->peak * part) +
           (aligned ? 0 : copies(pe, heads_in * q * d * pe->item_bytes, back));
}

/* Is the last part the slowest? In order it is, and in a zigzag of equal chunks
 * all see as many keys: a context of hundreds of ranks is priced often. */
static bool parts_are_alike(const struct pdl_plan *p,
                            const struct pdl_plan_tensor *t, int64_t parts)
{
    return p->deal.ranks < 2 ||
           (p->deal.ranks == parts && t->dim[1] == p->deal.positions &&
            t->dim[1] % (2 * parts) == 0);
}

/* The part of all scores that a causal mask leaves to the slowest rank, by the
 * positions that stand in the ranks' parts: a query sees the keys up to it and,
 * on the mean, half of its own. In order the last rank sees all but half of
 * its own, 1 - 1/(2 ranks); zigzag deals them evenly, 1/2. */
static double seen(const struct oracle *o, int q, const struct pdl_shape *s)
{
    const struct pdl_plan_tensor *t = &o->p->tensors[q];
    int64_t parts = 1, lo, hi;
    double most = 0;
    bool one;

    if (!s->causal)
        return 1;
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if (t->place.at[f] == 1)
            parts *= o->p->mesh->factor[f];
    one = parts_are_alike(o->p, t, parts);
    for (int64_t i = parts - 1; i >= 0 && !(one && most > 0); i--) {
        pdl_split(t->dim[1], t->unit[1] > 1 ? t->unit[1] : 1, parts, i, &lo,
                  &hi);
        if (hi > lo)
            most = fmax(most, pdl_deal_mean(&o->p->deal, lo, hi) + .5);
    }
    return most / (double)t->dim[1];
}

bool oracle_attention_shape(const struct oracle *o, int node, int64_t rank,
                            struct pdl_shape *s)
{
    const struct pdl_plan_op *f = &o->p->ops[o->p->forward_op[node]];
    const struct pdl_attr *attr = &o->p->model->nodes[node].attr;
    struct pdl_box q, k;

    if (f->nin < 3 || attr->head_dim <= 0 || attr->window > 0)
        return false;
    pdl_plan_box(o->p, f->in[0], rank, &q);
    pdl_plan_box(o->p, f->in[1], rank, &k);
    if (q.ndims != 3 || k.ndims != 3)
        return false;
    s->kind = PDL_SHAPE_ATTENTION;
    s->causal = attr->causal;
    s->c = attr->head_dim;
    s->n = oracle_extent(&q, 0);
    s->groups = oracle_extent(&q, 2) / attr->head_dim;
    s->in[0] = oracle_extent(&q, 1);
    s->out[0] = oracle_extent(&k, 1);
    s->seen = s->out[0] > 0 ? seen(o, f->in[0], s) : 0;
    return true;
}
