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

/* What it lacks, in words; NULL: nothing. */
static const char *lacks(const struct pdl_abilities *r,
                         const struct pdl_strategy *s, uint32_t axes, char *buf,
                         size_t size)
{
    uint32_t rest = axes & ~(UINT32_C(1) << PDL_AXIS_DATA);

    if (!has_product(r, axes)) {
        snprintf(buf, size, "the product ");
        axes_text(axes, buf + strlen(buf), size - strlen(buf));
        return buf;
    }
    if (s->zero > 0 &&
        (s->zero > 3 || !r->zero[s->zero] || (rest & ~r->zero[s->zero]) != 0)) {
        snprintf(buf, size, "zero=%lld beside ", (long long)s->zero);
        axes_text(axes, buf + strlen(buf), size - strlen(buf));
        return buf;
    }
    if (s->zero_group > 0 && !r->zero_group)
        return "ZeRO inside groups of ranks";
    if (axes >> PDL_AXIS_PIPE & 1 && !has_bit(r->schedules, (int)s->schedule))
        return "this schedule of pipelines";
    if (axes >> PDL_AXIS_CONTEXT & 1 &&
        !has_bit(r->contexts, (int)s->context_kind))
        return "this kind of context";
    if (!has_bit(r->recompute, (int)s->recompute))
        return "this kind of recompute";
    if (s->offload_optimizer && !r->offload_optimizer)
        return "offload=optimizer";
    if (pdl_strategy_offloads(s) && !r->offload_activations)
        return "offload=activations";
    return s->nclauses > 1 && !r->by_layer ? "axes of single layers" : NULL;
}

enum pdl_status pdl_framework_can(const struct pdl_framework *f,
                                  const struct pdl_strategy *s,
                                  struct pdl_err *err)
{
    const struct pdl_abilities *r = pdl_framework_runs(f);
    const char *what;
    char buf[160];

    if (!r->known)
        return PDL_OK;
    what = lacks(r, s, axes_of(s), buf, sizeof buf);
    return what ? pdl_fail(err, PDL_EINVAL, "%s does not run %s", f->name, what)
                : PDL_OK;
}
