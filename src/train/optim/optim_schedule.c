/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rates over steps: constant, by steps, cosine (Loshchilov and
 * Hutter, ICLR 2017), polynomial; all after a linear warm-up (Goyal et al.
 * 2017). */
#include "train/optim/optim.h"

#include <math.h>
#include <string.h>

static double constant(const struct train_schedule *s, double t, double p)
{
    (void)t;
    (void)p;
    return s->base;
}

static double steps(const struct train_schedule *s, double t, double p)
{
    double gamma = s->gamma > 0 ? s->gamma : 0.1;

    (void)p;
    return s->every > 0 ? s->base * pow(gamma, floor(t / (double)s->every))
                        : s->base;
}

static double cosine(const struct train_schedule *s, double t, double p)
{
    (void)t;
    return s->last +
           0.5 * (s->base - s->last) * (1 + cos(p * 3.14159265358979323846));
}

static double polynomial(const struct train_schedule *s, double t, double p)
{
    (void)t;
    return s->last +
           (s->base - s->last) * pow(1 - p, s->power > 0 ? s->power : 1);
}

/* t: steps since the warm-up; p: the part of the rest that is over. */
static const struct {
    const char *name;
    double (*rate)(const struct train_schedule *s, double t, double p);
} kinds[] = {
    [TRAIN_CONSTANT] = {"constant", constant},
    [TRAIN_STEPS] = {"step", steps},
    [TRAIN_COSINE] = {"cosine", cosine},
    [TRAIN_POLYNOMIAL] = {"polynomial", polynomial},
};

enum { NKINDS = sizeof kinds / sizeof kinds[0] };

bool train_schedule_find(const char *name, enum train_schedule_kind *out)
{
    for (int i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = (enum train_schedule_kind)i;
            return true;
        }
    return false;
}

double train_schedule_rate(const struct train_schedule *s, int64_t t)
{
    double after = (double)(t - 1 - s->warmup);
    double rest = (double)(s->total - s->warmup), p;

    if (t <= s->warmup)
        return s->base * (double)t / (double)s->warmup;
    p = rest > 0 ? after / rest : 0;
    return kinds[s->kind].rate(s, after, p < 0 ? 0 : p > 1 ? 1 : p);
}
