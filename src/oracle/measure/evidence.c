/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence for a projection: measured runs that share its features, and how far
 * off they were. Features are the framework, the architecture of the PE, the
 * kind of network, the precision, the axes that are larger than 1 (and whether
 * tensor ranks share a node), and how they are run: ZeRO, the pipeline's
 * schedule, what waits on the host. The table (evidence_table.c) is made by
 * tools/make-evidence.py from all runs there are; a row is the runs of one
 * campaign that share all features.
 *
 * How far off a run of a campaign is that nobody has seen depends on how much
 * of it others had: the widths below are of campaigns left out, one at a time,
 * and of what was noted when each campaign was projected for the first time
 * (doc/accuracy-log.md). */
#include "oracle/measure/measure.h"
#include "oracle/oracle_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- features --------------------------------------------------------- */

static bool is_scan(const struct pdl_node *n)
{
    return strstr(n->name, "mixer.scan") != NULL;
}

static const char *kind_of(const struct pdl_model *m)
{
    const char *kind = m->kind;

    for (int i = 0; i < m->nnodes; i++) {
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_EXPERTS &&
            strcmp(kind, "hybrid") != 0)
            kind = "experts";
        if (is_scan(&m->nodes[i]))
            kind = "hybrid";
    }
    return kind;
}

/* Variants of one program are one framework. */
static const char *family(const char *name)
{
    static const char *const variants[] = {"pytorch", "tensorflow"};

    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        if (strncmp(name, variants[i], strlen(variants[i])) == 0)
            return variants[i];
    return name;
}

/* Matrix units have one rate for both kinds of 16 bits. */
static const char *width_of(enum pdl_precision p)
{
    return p == PDL_PREC_FP16 || p == PDL_PREC_BF16 ? "16-bit"
                                                    : pdl_precision_name(p);
}

static const char *arch_of(const struct pdl_pe *pe)
{
    return pe->arch ? pe->arch : pe->name ? pe->name : "unknown";
}

/* "zero1+interleaved", "1f1b", "-" */
static void how_of(const struct pdl_strategy *s, bool pipe, char *buf,
                   size_t size)
{
    bool host = pdl_strategy_hosts_states(s) || pdl_strategy_offloads(s);
    char zero[32] = "";

    if (s->zero > 0)
        snprintf(zero, sizeof zero, "zero%lld", (long long)s->zero);
    snprintf(buf, size, "%s%s%s%s%s", zero, *zero && pipe ? "+" : "",
             pipe ? pdl_schedule_name(s->schedule) : "",
             host && (*zero || pipe) ? "+" : "", host ? "offload" : "");
    if (!buf[0])
        snprintf(buf, size, "-");
}

/* Tensor ranks that share no node exchange every activation over adapters: what
 * was measured of those inside a node says nothing of it. */
static bool tensor_leaves(const struct pdl_strategy *s,
                          const struct pdl_system *sys)
{
    for (int c = 0; c < s->nclauses && sys->node.nics.count > 0; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_TENSOR &&
                s->clause[c].term[t].size[0] > sys->node.pes)
                return true;
    return false;
}

static const char LEAVES[] = "-between";

void pdl_evidence_key(const struct pdl_model *model,
                      const struct pdl_strategy *strategy,
                      const struct pdl_system *sys,
                      const struct pdl_oracle_options *opt, char *buf,
                      size_t size)
{
    char axes[128], how[64];

    oracle_axes(strategy, axes, sizeof axes);
    how_of(strategy, strstr(axes, "pipe") != NULL, how, sizeof how);
    snprintf(buf, size, "%s/%s/%s/%s/%s%s/%s",
             family(pdl_framework_name(opt->framework)), arch_of(&sys->pe),
             kind_of(model), width_of(opt->precision), axes,
             tensor_leaves(strategy, sys) ? LEAVES : "", how);
}

/* ---- runs like it ----------------------------------------------------- */

enum { FRAMEWORK, ARCH, KIND, PRECISION, AXES, HOW, NFEATURES };

/* A bit for each feature that two keys share. */
static unsigned shared(const char *a, const char *b)
{
    unsigned same = 0;

    for (int i = 0; i < NFEATURES; i++) {
        size_t n = strcspn(a, "/"), m = strcspn(b, "/");

        if (n == m && strncmp(a, b, n) == 0)
            same |= 1u << i;
        a += n + (a[n] == '/');
        b += m + (b[m] == '/');
    }
    return same;
}

static const unsigned ALL = (1u << NFEATURES) - 1;
static const unsigned NEAR = ((1u << NFEATURES) - 1) & ~(1u << HOW);
static const unsigned LIKE = 1u << FRAMEWORK | 1u << KIND;

static bool has(unsigned same, unsigned wanted)
{
    return (same & wanted) == wanted;
}

/* Half of an interval in the logarithm: with runs that share everything, with
 * runs of the framework and kind of network, with runs of either, with none.
 * Of campaigns left out, 0.14 holds 80 % of those of the second kind and 0.19
 * of the third (each campaign as heavy as any other), but the model was settled
 * with all of them in view: as they were read first they are 1.3 to 1.7 times
 * as far off. */
static const double WIDTH[] = {.17, .18, .3, .4};
/* of a normal distribution, what holds 80 % over the mean deviation */
static const double MEAN_TO_80 = 1.6;

static double widen(const struct pdl_evidence *e, bool unknown, double worst)
{
    double w = e->runs > 0    ? WIDTH[0]
               : e->like > 0  ? WIDTH[unknown ? 2 : 1]
               : e->other > 0 ? WIDTH[2]
                              : WIDTH[3];

    return fmax(w, worst);
}

void pdl_evidence_find(const char *key, const char *but,
                       struct pdl_evidence *out)
{
    double sum = 0, near = 0, worst = 0;

    *out = (struct pdl_evidence){.runs = 0};
    for (int i = 0; i < oracle_nevidence; i++) {
        const struct oracle_evidence *e = &oracle_evidence[i];
        unsigned same = shared(key, e->key);

        if (but && strcmp(but, e->campaign) == 0)
            continue;
        if (has(same, ALL)) {
            out->runs += e->runs;
            sum += e->runs * e->error;
            worst = fmax(worst, MEAN_TO_80 * log1p(e->error));
        } else if (has(same, LIKE)) {
            out->like += e->runs;
            out->near += has(same, NEAR) ? e->runs : 0;
            near += has(same, NEAR) ? e->runs * e->error : 0;
        } else if (has(same, 1u << FRAMEWORK) || has(same, 1u << KIND))
            out->other += e->runs;
    }
    out->error = out->runs > 0   ? sum / out->runs
                 : out->near > 0 ? near / out->near
                                 : 0;
    out->half_width = widen(out, strstr(key, LEAVES) != NULL, worst);
}

double pdl_evidence_mfu(const struct pdl_pe *pe, enum pdl_precision p)
{
    for (int i = 0; i < oracle_nreached; i++)
        if (strcmp(oracle_reached[i].arch, arch_of(pe)) == 0 &&
            strcmp(oracle_reached[i].precision, width_of(p)) == 0)
            return oracle_reached[i].mfu;
    return 0;
}
