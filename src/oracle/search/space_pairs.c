/* SPDX-License-Identifier: Apache-2.0
 *
 * The papers' space: every axis of a network alone, and every product of two
 * on the given number of PEs. */
#include "oracle/search/space.h"

#include <stdio.h>

/* In the order the mesh is written: outermost first. */
static const enum pdl_axis axes[] = {PDL_AXIS_PIPE, PDL_AXIS_DATA,
                                     PDL_AXIS_SPATIAL, PDL_AXIS_FILTER,
                                     PDL_AXIS_CHANNEL};
enum { NAXES = sizeof axes / sizeof axes[0] };

/* Pipelines get as many micro-batches as stages times 4, as far as the batch
 * allows. */
static void term(const struct oracle_space *s, enum pdl_axis axis, int64_t n,
                 int64_t data, char *buf, size_t size)
{
    int64_t m = 4 * n, batch = s->opt->batch;

    if (axis != PDL_AXIS_PIPE) {
        snprintf(buf, size, "%s=%lld", pdl_axis_name(axis), (long long)n);
        return;
    }
    while (m > 1 && (batch % m != 0 || batch / m < data))
        m--;
    snprintf(buf, size, "pipe=%lld(m=%lld)", (long long)n, (long long)m);
}

static void add_pairs(struct oracle_space *s, enum pdl_axis first,
                      enum pdl_axis second)
{
    int64_t pes = s->opt->pes;
    char a[64], b[64], both[160];

    for (int64_t p = 2; p <= pes / 2; p++) {
        if (pes % p != 0)
            continue;
        term(s, first, p, second == PDL_AXIS_DATA ? pes / p : 1, a, sizeof a);
        term(s, second, pes / p, 1, b, sizeof b);
        snprintf(both, sizeof both, "%s,%s", a, b);
        oracle_space_add(s, both);
    }
}

void oracle_space_pairs(struct oracle_space *s)
{
    char text[64];

    if (s->opt->pes == 1)
        oracle_space_add(s, "serial");
    for (int i = 0; s->opt->pes > 1 && i < NAXES; i++) {
        if (!oracle_space_wants(s, axes[i]))
            continue;
        term(s, axes[i], s->opt->pes, 1, text, sizeof text);
        oracle_space_add(s, text);
        for (int k = i + 1; k < NAXES; k++)
            if (oracle_space_wants(s, axes[k]))
                add_pairs(s, axes[i], axes[k]);
    }
}
