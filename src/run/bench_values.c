/* SPDX-License-Identifier: Apache-2.0
 *
 * What a benchmark sends, and whether it arrived. Values are small whole
 * numbers that depend on rank, place and turn, so that sums are exact in every
 * type, what they must be is known, and yesterday's result is wrong today.
 * They repeat with a period: one period is made, the rest is copied. */
#include "bench.h"

#include <math.h>
#include <string.h>

enum { PERIOD = 61 };

static double value(int rank, int64_t place, int64_t turn)
{
    return (double)((place + (int64_t)7 * rank + 3 * turn) % PERIOD % 16);
}

static void put(void *to, int64_t i, enum pdl_comm_type type, double v)
{
    uint32_t bits;
    float f = (float)v;

    memcpy(&bits, &f, sizeof bits);
    switch (type) {
    case PDL_COMM_F32:
        ((float *)to)[i] = f;
        break;
    case PDL_COMM_F64:
        ((double *)to)[i] = v;
        break;
    case PDL_COMM_BF16:
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        break;
    case PDL_COMM_F16: /* small whole numbers: exponent moved, no rounding */
        ((uint16_t *)to)[i] =
            v == 0 ? 0 : (uint16_t)((bits >> 13) - ((127 - 15) << 10));
        break;
    case PDL_COMM_I32:
        ((int32_t *)to)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)to)[i] = (int64_t)v;
    }
}

static void write_period(const struct bench *b, char *to, int64_t count,
                         const double *of)
{
    int64_t head = count < PERIOD ? count : PERIOD, have = head;

    for (int64_t i = 0; i < head; i++)
        put(to, i, b->type, of[i]);
    while (have < count) {
        int64_t n = have < count - have ? have : count - have;

        memcpy(to + have * b->size, to, (size_t)(n * b->size));
        have += n; /* a multiple of the period until the last time */
    }
}

static double reduced(const struct bench *b, int64_t place, int64_t turn)
{
    double v = value(0, place, turn);

    for (int r = 1; r < b->ranks; r++) {
        double x = value(r, place, turn);

        v = b->op == PDL_COMM_MAX   ? fmax(v, x)
            : b->op == PDL_COMM_MIN ? fmin(v, x)
                                    : v + x;
    }
    if (b->op != PDL_COMM_AVG)
        return v;
    if (b->type == PDL_COMM_F32)
        return (float)v / (float)b->ranks;
    return b->type == PDL_COMM_F64 ? v / b->ranks : trunc(v / b->ranks);
}

static void one_period(const struct bench *b, const struct bench_part *p,
                       int64_t turn, double *of)
{
    for (int i = 0; i < PERIOD; i++)
        of[i] = p->rank < 0 ? reduced(b, p->place + i, turn)
                            : value(p->rank, p->place + i, turn);
}

void run_bench_write(const struct bench *b, char *to,
                     const struct bench_part *part, int64_t turn)
{
    double of[PERIOD];

    one_period(b, part, turn, of);
    write_period(b, to + part->at * b->size, part->count, of);
}

int64_t run_bench_wrong(const struct bench *b, const char *from,
                        const struct bench_part *part, int64_t turn)
{
    int64_t head = part->count < PERIOD ? part->count : PERIOD, wrong = 0;
    char first[PERIOD * 8];
    double of[PERIOD];

    from += part->at * b->size;
    one_period(b, part, turn, of);
    write_period(b, first, head, of);
    for (int64_t i = 0; i < part->count; i += PERIOD) {
        int64_t n = part->count - i < PERIOD ? part->count - i : PERIOD;

        if (memcmp(from + i * b->size, first, (size_t)(n * b->size)) != 0)
            for (int64_t k = 0; k < n; k++)
                wrong += memcmp(from + (i + k) * b->size, first + k * b->size,
                                (size_t)b->size) != 0;
    }
    return wrong;
}
