/* SPDX-License-Identifier: Apache-2.0
 *
 * Frameworks by name or file, what is asked of one, and whether it can run a
 * strategy. */
#include "oracle/habit/framework.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 20 };

const struct pdl_builtin *pdl_framework_builtin(int i)
{
    for (int k = 0; k <= i; k++)
        if (!oracle_frameworks[k].name)
            return NULL;
    return i < 0 ? NULL : &oracle_frameworks[i];
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* All names: there are few. */
static void hint_all(struct pdl_err *err)
{
    const struct pdl_builtin *b;
    char list[256] = "";
    size_t len = 0;

    for (int i = 0; (b = pdl_framework_builtin(i)) != NULL; i++)
        if (len + strlen(b->name) + 3 < sizeof list)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s",
                                    i > 0 ? ", " : "", b->name);
    pdl_hint(err, "one of %s; a file ends in .yaml", list);
}

/* By the name of the launch files that it writes; false: none does. */
static bool by_export(pdl_arena *a, const char *name,
                      const struct pdl_framework **out)
{
    const struct pdl_framework *f;
    const struct pdl_builtin *b;

    for (int i = 0; (b = pdl_framework_builtin(i)) != NULL; i++)
        if (pdl_framework_read(a, (struct pdl_bytes){b->text, b->len}, b->name,
                               &f, NULL) == PDL_OK &&
            f->runs.exporter && strcmp(f->runs.exporter, name) == 0) {
            *out = f;
            return true;
        }
    return false;
}

enum pdl_status pdl_framework_open(pdl_arena *a, const char *name,
                                   const struct pdl_framework **out,
                                   struct pdl_err *err)
{
    const struct pdl_builtin *b;
    struct pdl_bytes file = {NULL, 0};
    struct pdl_suggest s;
    enum pdl_status st;

    if (ends_with(name, ".yaml") || ends_with(name, ".yml")) {
        st = pdl_file_read(a, name, MAX_FILE, &file, err);
        return st == PDL_OK ? pdl_framework_read(a, file, name, out, err) : st;
    }
    pdl_suggest_init(&s, name);
    for (int i = 0; (b = pdl_framework_builtin(i)) != NULL; i++) {
        if (strcmp(name, b->name) == 0)
            return pdl_framework_read(a, (struct pdl_bytes){b->text, b->len},
                                      b->name, out, err);
        pdl_suggest_try(&s, b->name);
    }
    if (by_export(a, name, out))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "no such framework: '%.60s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        hint_all(err);
    return PDL_EINVAL;
}

const char *pdl_framework_name(const struct pdl_framework *f)
{
    return f ? f->name : "none";
}

const char *pdl_framework_title(const struct pdl_framework *f)
{
    return f ? f->title : "no framework";
}

enum pdl_split pdl_framework_split(const struct pdl_framework *f)
{
    return f ? f->split : PDL_SPLIT_WORK;
}

double pdl_framework_dropout(const struct pdl_framework *f)
{
    return f ? f->dropout : 0;
}

const struct pdl_habit *pdl_framework_habit(const struct pdl_framework *f,
                                            int i)
{
    return f && i >= 0 && i < f->nhabits ? &f->habit[i] : NULL;
}

const struct pdl_habit *pdl_framework_ability(const struct pdl_framework *f,
                                              int i)
{
    return f && i >= 0 && i < f->nabilities ? &f->ability[i] : NULL;
}

const struct pdl_abilities *pdl_framework_runs(const struct pdl_framework *f)
{
    static const struct pdl_abilities all;

    return f ? &f->runs : &all;
}

static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

bool pdl_framework_on(const struct pdl_framework *f, const struct pdl_pe *pe)
{
    for (int i = 0; f && i < f->runs.nnever; i++)
        if (same_text(f->runs.never_on[i], pe->vendor) ||
            same_text(f->runs.never_on[i], pe->arch))
            return false;
    return true;
}

/* All precisions it has, for people. */
static void hint_precisions(const struct pdl_abilities *r, struct pdl_err *err)
{
    char list[96] = "";
    size_t len = 0;

    for (int i = 0; i < PDL_NPRECISIONS && len < sizeof list; i++)
        if (r->precisions >> i & 1)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s",
                                    len > 0 ? ", " : "",
                                    pdl_precision_name((enum pdl_precision)i));
    pdl_hint(err, "it has %s", list);
}

enum pdl_status pdl_framework_trains(const struct pdl_framework *f,
                                     enum pdl_precision p, int slots,
                                     struct pdl_err *err)
{
    const struct pdl_abilities *r = pdl_framework_runs(f);

    if (r->precisions && !(r->precisions >> p & 1)) {
        pdl_fail(err, PDL_EINVAL, "%s does not compute in %s", f->name,
                 pdl_precision_name(p));
        hint_precisions(r, err);
        return PDL_EINVAL;
    }
    if (r->optimizers && !(r->optimizers >> slots & 1))
        return pdl_fail(err, PDL_EINVAL, "%s has no optimizer %s", f->name,
                        slots < 2 ? "sgd" : "adam");
    return PDL_OK;
}

/* ---- can it run this? ---------------------------------------------------- */

static uint32_t axes_of(const struct pdl_strategy *s)
{
    uint32_t set = s->seq ? UINT32_C(1) << PDL_AXIS_SEQUENCE : 0;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++) {
            const struct pdl_term *x = &s->clause[c].term[t];

            for (int k = 0; k < x->nsizes; k++)
                if (x->size[k] > 1)
                    set |= UINT32_C(1) << x->axis;
        }
    return set;
}

static struct framework_asked asked_of(const struct pdl_strategy *s)
{
    return (struct framework_asked){
        .axes = axes_of(s),
        .zero = s->zero,
        .group = s->zero_group > 0,
        .schedule = s->schedule,
        .context = s->context_kind,
        .recompute = s->recompute,
        .optimizer = pdl_strategy_hosts_states(s),
        .activations = pdl_strategy_offloads(s),
        .no_overlap = s->no_overlap,
        .by_layer = s->nclauses > 1,
    };
}

/* "data+pipe" */
static const char *axes_text(uint32_t set, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (int i = 0; i <= PDL_AXIS_SEQUENCE && n < size; i++)
        if (set >> i & 1)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "+" : "",
                                  i == PDL_AXIS_SEQUENCE
                                      ? "sequence"
                                      : pdl_axis_name((enum pdl_axis)i));
    return buf;
}

static bool has_product(const struct pdl_abilities *r, uint32_t axes)
{
    for (int i = 0; i < r->naxes; i++)
        if ((axes & ~r->axes[i]) == 0)
            return true;
    return axes == 0;
}

static bool has_bit(uint32_t set, int i)
{
    return set >> i & 1;
}

static bool has_zero(const struct pdl_abilities *r,
                     const struct framework_asked *x)
{
    uint32_t rest = x->axes & ~(UINT32_C(1) << PDL_AXIS_DATA);

    if (x->zero < 0 || x->zero > 3 || (x->zero > 0 && !r->zero[x->zero]))
        return false;
    return (rest & ~r->zero[x->zero]) == 0;
}

/* Where the axis is not there, how it is run is not asked. */
static bool has_kind(uint32_t set, int kind, uint32_t axes, enum pdl_axis axis)
{
    return !has_bit(axes, (int)axis) || has_bit(set, kind);
}

enum framework_lack oracle_framework_lacks(const struct pdl_abilities *r,
                                           const struct framework_asked *x)
{
    if (!r->known)
        return FRAMEWORK_ALL;
    if (!has_product(r, x->axes))
        return FRAMEWORK_PRODUCT;
    if (!has_zero(r, x))
        return FRAMEWORK_ZERO;
    if (x->group && !r->zero_group)
        return FRAMEWORK_GROUP;
    if (!has_kind(r->schedules, (int)x->schedule, x->axes, PDL_AXIS_PIPE))
        return FRAMEWORK_SCHEDULE;
    if (!has_kind(r->contexts, (int)x->context, x->axes, PDL_AXIS_CONTEXT))
        return FRAMEWORK_CONTEXT;
    if (!has_bit(r->recompute, (int)x->recompute))
        return FRAMEWORK_RECOMPUTE;
    if (x->optimizer && !r->offload_optimizer)
        return FRAMEWORK_OPTIMIZER;
    if (x->activations && !r->offload_activations)
        return FRAMEWORK_ACTIVATIONS;
    if (x->no_overlap && r->overlaps && has_bit(x->axes, PDL_AXIS_DATA))
        return FRAMEWORK_OVERLAP;
    return x->by_layer && !r->by_layer ? FRAMEWORK_BY_LAYER : FRAMEWORK_ALL;
}

/* What it lacks, in words; those of the first two have their axes. */
static const char *const lacking[] = {
    [FRAMEWORK_PRODUCT] = "the product ",
    [FRAMEWORK_ZERO] = "zero",
    [FRAMEWORK_GROUP] = "ZeRO inside groups of ranks",
    [FRAMEWORK_SCHEDULE] = "this schedule of pipelines",
    [FRAMEWORK_CONTEXT] = "this kind of context",
    [FRAMEWORK_RECOMPUTE] = "this kind of recompute",
    [FRAMEWORK_OPTIMIZER] = "offload=optimizer",
    [FRAMEWORK_ACTIVATIONS] = "offload=activations",
    [FRAMEWORK_OVERLAP] = "overlap=off",
    [FRAMEWORK_BY_LAYER] = "axes of single layers",
};

/* As the runtime's own plans do. */
static bool deals_unevenly(const struct pdl_strategy *s)
{
    for (int t = 0; t < s->clause[0].nterms; t++) {
        const struct pdl_term *x = &s->clause[0].term[t];

        for (int i = 1; i < x->nparts; i++)
            if (x->part[i].share != x->part[0].share)
                return true;
    }
    return false;
}

static enum pdl_status can(const struct pdl_framework *f,
                           const struct pdl_abilities *r, const char *verb,
                           const struct pdl_strategy *s, struct pdl_err *err)
{
    struct framework_asked x = asked_of(s);
    enum framework_lack lack = oracle_framework_lacks(r, &x);
    char axes[96], stage[32];

    if (lack == FRAMEWORK_ALL && r->known && deals_unevenly(s) &&
        (!r->exporter || strcmp(r->exporter, "paradl") != 0))
        return pdl_fail(err, PDL_EINVAL,
                        "%s does not %s uneven shares of "
                        "samples",
                        f->name, verb);
    if (lack == FRAMEWORK_ALL)
        return PDL_OK;
    snprintf(stage, sizeof stage, "=%lld beside ", (long long)s->zero);
    return pdl_fail(
        err, PDL_EINVAL, "%s does not %s %s%s%s", f->name, verb, lacking[lack],
        lack == FRAMEWORK_ZERO ? stage : "",
        lack <= FRAMEWORK_ZERO ? axes_text(x.axes, axes, sizeof axes) : "");
}

enum pdl_status pdl_framework_can(const struct pdl_framework *f,
                                  const struct pdl_strategy *s,
                                  struct pdl_err *err)
{
    return f ? can(f, &f->runs, "run", s, err) : PDL_OK;
}

const struct pdl_abilities *
oracle_framework_plans(const struct pdl_framework *f)
{
    return f && f->exports.known ? &f->exports : pdl_framework_runs(f);
}

enum pdl_status pdl_framework_plans(const struct pdl_framework *f,
                                    const struct pdl_strategy *s,
                                    struct pdl_err *err)
{
    enum pdl_status st = pdl_framework_can(f, s, err);

    return st == PDL_OK && f && f->exports.known
               ? can(f, &f->exports, "export", s, err)
               : st;
}
