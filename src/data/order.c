/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of an epoch: a table of ways, and the two questions every way
 * answers (which sample is at a position, where is a sample). Keys of a run
 * are derived here, one for each purpose, so that no two uses of the seed see
 * the same numbers. */
#include "data_priv.h"

#include <assert.h>
#include <string.h>

/* To add one: its file, a declaration in data_priv.h, a row here. */
static const struct pdl_shuffle *const shuffles[] = {
    &data_shuffle_global,
    &data_shuffle_none,
};
enum { NSHUFFLES = sizeof shuffles / sizeof shuffles[0] };

const struct pdl_shuffle *pdl_shuffle_at(int i)
{
    return i >= 0 && i < NSHUFFLES ? shuffles[i] : NULL;
}

const struct pdl_shuffle *pdl_shuffle_find(const char *name,
                                           struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; i < NSHUFFLES; i++) {
        if (strcmp(shuffles[i]->name, name) == 0)
            return shuffles[i];
        pdl_suggest_try(&s, shuffles[i]->name);
    }
    pdl_say(err, "no order of samples is called '%.40s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return NULL;
}

uint64_t pdl_draw_key(uint64_t seed, enum pdl_draw purpose, int64_t epoch)
{
    /* the tag keeps these counters apart from those of other rooms, which
     * count layers and steps from 0 */
    uint64_t tag = 0x6461746100000000u | (uint64_t)purpose; /* "data" */
    struct pdl_rng4 x = pdl_philox(seed, tag, (uint64_t)epoch);

    return (uint64_t)x.v[1] << 32 | x.v[0];
}

void pdl_order_begin(struct pdl_order *o, const struct pdl_shuffle *how,
                     uint64_t seed, int64_t epoch, int64_t n)
{
    *o = (struct pdl_order){.how = how, .seed = seed, .epoch = epoch, .n = n};
    how->begin(o);
}

int64_t pdl_order_at(const struct pdl_order *o, int64_t position)
{
    assert(position >= 0 && position < o->n);
    return o->how->at(o, position);
}

int64_t pdl_order_find(const struct pdl_order *o, int64_t sample)
{
    assert(sample >= 0 && sample < o->n);
    return o->how->find(o, sample);
}
