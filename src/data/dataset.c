/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a data set and what must hold for it. Readers fill it
 * from files that may be hostile, so everything later code multiplies or
 * indexes with is bounded here, once. */
#include "paradl/data.h"

#include <string.h>

static const int64_t MAX_SAMPLE = (int64_t)1 << 40; /* elements */

int pdl_dataset_split(const struct pdl_dataset *d, const char *name)
{
    for (int i = 0; i < d->nsplits; i++)
        if (strcmp(d->split[i].name, name) == 0)
            return i;
    return -1;
}

bool pdl_field_elements(const struct pdl_field *f, int64_t *out)
{
    return pdl_prod64(f->dim, f->rank, out);
}

struct pdl_box pdl_field_box(const struct pdl_field *f)
{
    struct pdl_box b = {.ndims = f->rank};

    for (int i = 0; i < f->rank; i++)
        b.hi[i] = f->dim[i];
    return b;
}

static enum pdl_status check_field(const struct pdl_dataset *d,
                                   const struct pdl_field *f, const char *what,
                                   struct pdl_err *err)
{
    int64_t n;

    if (f->rank < 0 || f->rank > PDL_DATA_RANK)
        return pdl_fail(err, PDL_EPARSE, "%s: the %s of rank %d; at most %d",
                        d->name, what, f->rank, PDL_DATA_RANK);
    for (int i = 0; i < f->rank; i++)
        if (f->dim[i] < 1)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: size %lld of dimension %d of the %s", d->name,
                            (long long)f->dim[i], i, what);
    if (!pdl_field_elements(f, &n) || n > MAX_SAMPLE)
        return pdl_fail(err, PDL_EPARSE, "%s: the %s of a sample is too large",
                        d->name, what);
    return PDL_OK;
}

enum pdl_status pdl_dataset_check(const struct pdl_dataset *d,
                                  struct pdl_err *err)
{
    enum pdl_status st = check_field(d, &d->input, "input", err);

    if (st == PDL_OK)
        st = check_field(d, &d->target, "target", err);
    if (st != PDL_OK)
        return st;
    if (d->classes < 0 || d->classes > INT32_MAX)
        return pdl_fail(err, PDL_EPARSE, "%s: %lld classes", d->name,
                        (long long)d->classes);
    if (d->nsplits < 1 || d->nsplits > PDL_DATA_SPLITS)
        return pdl_fail(err, PDL_EPARSE, "%s: %d splits; 1 to %d are possible",
                        d->name, d->nsplits, PDL_DATA_SPLITS);
    for (int i = 0; i < d->nsplits; i++) {
        const struct pdl_data_split *s = &d->split[i];

        if (s->samples < 1)
            return pdl_fail(err, PDL_EPARSE, "%s: no samples in '%s'", d->name,
                            s->name);
        if (pdl_dataset_split(d, s->name) != i)
            return pdl_fail(err, PDL_EPARSE, "%s: two splits are called '%s'",
                            d->name, s->name);
    }
    return PDL_OK;
}
