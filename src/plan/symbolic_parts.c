/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers modulo 2^61 - 1, and parts of tensors made of them. */
#include "symbolic.h"

/* ---- numbers ------------------------------------------------------------- */

plan_num plan_num_add(plan_num a, plan_num b)
{
    plan_num r = a + b;

    return r >= PLAN_NUM_P ? r - PLAN_NUM_P : r;
}

/* 61 x 61 bits by halves: no 128-bit type in C11. a = a1*2^31 + a0. */
plan_num plan_num_mul(plan_num a, plan_num b)
{
    uint64_t a1 = a >> 31, a0 = a & 0x7fffffff;
    uint64_t b1 = b >> 31, b0 = b & 0x7fffffff;
    uint64_t mid = a1 * b0 + a0 * b1; /* < 2^62 */
    uint64_t hi = a1 * b1;            /* times 2^62 = times 2 mod P */
    uint64_t m1 = mid >> 30, m0 = mid & 0x3fffffff; /* mid*2^31 */
    uint64_t r = 2 * hi + m1 + (m0 << 31) + a0 * b0;

    r = (r & PLAN_NUM_P) + (r >> 61);
    return r >= PLAN_NUM_P ? r - PLAN_NUM_P : r;
}

plan_num plan_num_of(uint64_t seed, uint64_t tensor, uint64_t element)
{
    struct pdl_rng4 x = pdl_philox(seed, tensor, element);

    return ((uint64_t)x.v[1] << 32 | x.v[0]) % PLAN_NUM_P;
}

/* ---- parts ------------------------------------------------------------ */

/* -1: the index is not in the part */
int64_t plan_part_offset(const struct plan_part *p, const int64_t *index)
{
    int64_t o = 0;

    for (int d = 0; d < p->box.ndims; d++) {
        if (index[d] < p->box.lo[d] || index[d] >= p->box.hi[d])
            return -1;
        o = o * (p->box.hi[d] - p->box.lo[d]) + index[d] - p->box.lo[d];
    }
    return o;
}

plan_num plan_part_get(struct plan_machine *m, const struct plan_part *p,
                       const int64_t *index)
{
    int64_t o = p->at ? plan_part_offset(p, index) : -1;

    if (o < 0) {
        if (!m->missing)
            m->missing = "an operand";
        return 0;
    }
    return p->at[o];
}

void plan_part_put(struct plan_part *p, const int64_t *index, plan_num v)
{
    p->at[plan_part_offset(p, index)] = v;
}

bool plan_part_make(struct plan_machine *m, struct plan_part *p)
{
    p->at = PDL_NEW(m->arena, plan_num, pdl_box_volume(&p->box) + 1);
    return p->at != NULL;
}

void plan_box_start(const struct pdl_box *b, int64_t *index)
{
    memcpy(index, b->lo, sizeof b->lo);
}

bool plan_box_next(const struct pdl_box *b, int64_t *index)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++index[d] < b->hi[d])
            return true;
        index[d] = b->lo[d];
    }
    return false;
}

void plan_part_add(struct plan_part *p, const int64_t *i, plan_num v)
{
    int64_t o = plan_part_offset(p, i);

    p->at[o] = plan_num_add(p->at[o], v);
}
