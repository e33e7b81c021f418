/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server keeps from round to round (vectors and tables, rank 0 alone)
 * and the sum of a round. */
#include "fed/fed_priv.h"

#include <stdlib.h>

enum pdl_status fed_shelf_open(struct fed *f, int shelf, const char *name,
                               int64_t slots, struct pdl_err *err)
{
    struct fed_shelf *s = &f->shelf[shelf];

    *s = (struct fed_shelf){name, f->rank == 0 ? slots : 0, NULL};
    s->at = PDL_NEW(f->arena, float *, s->slots + 1);
    return s->at ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status fed_table_open(struct fed *f, int table, const char *name,
                               int64_t count, struct pdl_err *err)
{
    struct fed_table *t = &f->table[table];

    *t = (struct fed_table){name, f->rank == 0 ? count : 0, NULL};
    t->at = PDL_NEW(f->arena, double, t->count + 1);
    return t->at ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

bool fed_has_slot(const struct fed *f, int shelf, int64_t i)
{
    return f->shelf[shelf].at[i] != NULL;
}

/* A slot that there is no memory for is the scratch one: the run ends when
 * the round is over, and says so. */
float *fed_slot(struct fed *f, int shelf, int64_t i)
{
    float **at = &f->shelf[shelf].at[i];

    if (!*at)
        *at = calloc((size_t)f->n + 1, sizeof **at);
    f->plan.failed = f->plan.failed || !*at;
    return *at ? *at : f->squares;
}

void fed_add(struct fed *f, const float *w, double weight)
{
    for (int64_t i = 0; i < f->n; i++)
        f->sum[i] += weight * (double)w[i];
    f->weight += weight;
}

void fed_mean(struct fed *f)
{
    for (int64_t i = 0; i < f->n && f->weight > 0; i++)
        f->model[i] = (float)(f->sum[i] / f->weight);
}

void fed_shelves_close(struct fed *f)
{
    for (int s = 0; s < FED_SHELVES; s++)
        for (int64_t i = 0; i < f->shelf[s].slots; i++)
            free(f->shelf[s].at[i]);
}
