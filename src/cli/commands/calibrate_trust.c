/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a measured system can be trusted. Each probe network is projected
 * from what the others say: 80 % of the steps are within the projection error
 * that the system then carries (projection_error), and projections on it have
 * an interval. And was the machine quiet: which part of the processors other
 * work took while operators were measured, and how well steps repeat. */
#include "cli/commands/cli_calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROBES = 128, MOST_ERROR = 3 }; /* that a system may say */

static double optional(const struct pdl_doc *map, const char *key, double none)
{
    const struct pdl_doc *x = pdl_doc_get(map, key);
    struct pdl_err err = {"", ""};
    double v = none;

    if (x && pdl_doc_num(x, PDL_UNIT_NONE, -1e9, 1e9, &v, &err) != PDL_OK)
        return none;
    return v;
}

/* The probe of every row of the profile, in its order; -1: none. Rows that
 * were left out there are left out here. */
static bool probes_of(pdl_arena *a, const struct pdl_doc *machine,
                      const struct pdl_pe *pe, int **out)
{
    const struct pdl_doc *list = pdl_doc_get(machine, "operators");
    int *probe = PDL_NEW(a, int, pe->nprofile + 1);
    int64_t n = 0;

    for (const struct pdl_doc *x = list ? list->child : NULL; probe && x;
         x = x->next) {
        const struct pdl_doc *op = pdl_doc_get(x, "op");
        const char *name = "";

        if (op)
            pdl_doc_str(op, &name, NULL);
        if (!(optional(x, "seconds", 0) > 0) || strcmp(name, "call") == 0)
            continue;
        if (n < pe->nprofile)
            probe[n++] = (int)optional(x, "probe", -1);
    }
    *out = probe;
    return probe && n == pe->nprofile;
}

/* log(projected / measured) of the probe's step, its rows left out; not a
 * number: it has none. */
static double error_of(const struct pdl_pe *pe, const int *probe, int which,
                       struct pdl_profile_row *rest)
{
    struct pdl_pe others = *pe;
    double projected = 0, measured = 0;
    int64_t n = 0;

    for (int64_t i = 0; i < pe->nprofile; i++)
        if (probe[i] != which)
            rest[n++] = pe->profile[i];
    others.profile = rest;
    others.nprofile = n;
    for (int64_t i = 0; i < pe->nprofile; i++) {
        double s = probe[i] == which
                       ? pdl_profile_estimate(&others, &pe->profile[i])
                       : -1;

        if (s < 0)
            continue;
        projected += s;
        measured += pe->profile[i].seconds;
    }
    return measured > 0 ? log(projected / measured) : NAN;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void cli_calibrate_trust(pdl_arena *a, const struct pdl_doc *machine,
                         struct pdl_system *sys, struct cli_trust *out)
{
    struct pdl_profile_row *rest =
        PDL_NEW(a, struct pdl_profile_row, sys->pe.nprofile + 1);
    double error[MAX_PROBES];
    int *probe, n = 0, last = -1;

    *out = (struct cli_trust){.others = optional(machine, "others", 0),
                              .spread = optional(machine, "spread", 0)};
    if (!rest || !probes_of(a, machine, &sys->pe, &probe))
        return;
    for (int64_t i = 0; i < sys->pe.nprofile; i++)
        last = probe[i] > last ? probe[i] : last;
    for (int p = 0; p <= last && n < MAX_PROBES; p++) {
        double e = fabs(error_of(&sys->pe, probe, p, rest));

        if (e >= 0)
            error[n++] = e;
    }
    qsort(error, (size_t)n, sizeof error[0], ascending);
    out->probes = n;
    if (n > 1)
        out->error = error[(4 * n + 4) / 5 - 1];
    /* what the machine did not repeat, projections cannot know */
    out->error = sqrt(out->error * out->error + out->spread * out->spread);
    if (out->error > 0)
        sys->projection_error = fmin(out->error, MOST_ERROR);
}
