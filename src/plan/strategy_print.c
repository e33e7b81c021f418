/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy in its notation again, without what is the default. */
#include "strategy.h"

#include <stdio.h>
#include <string.h>

static void print_pipe(const struct pdl_strategy *s, struct pdl_sink *out)
{
    const char *before = "(";

    if (s->schedule != PDL_SCHEDULE_1F1B) {
        pdl_printf(out, "%s%s", before, plan_schedules[s->schedule]);
        before = ",";
    }
    if (s->micro_batches) {
        pdl_printf(out, "%sm=%lld", before, (long long)s->micro_batches);
        before = ",";
    }
    if (s->virtual_stages) {
        pdl_printf(out, "%sv=%lld", before, (long long)s->virtual_stages);
        before = ",";
    }
    if (s->cuts) {
        pdl_printf(out, "%sat=%s", before, s->cuts);
        before = ",";
    }
    if (*before == ',')
        pdl_puts(out, ")");
}

static void print_context(const struct pdl_strategy *s, struct pdl_sink *out)
{
    bool kind = s->context_kind != PDL_CONTEXT_RING;
    bool order = s->context_order != PDL_ORDER_ZIGZAG;

    if (kind || order)
        pdl_printf(out, "(%s%s%s)",
                   kind ? plan_context_kinds[s->context_kind] : "",
                   kind && order ? "," : "",
                   order ? plan_context_orders[s->context_order] : "");
}

static void print_term(const struct pdl_strategy *s, const struct pdl_term *t,
                       struct pdl_sink *out)
{
    pdl_printf(out, "%s=", pdl_axis_name(t->axis));
    for (int k = 0; k < t->nsizes; k++)
        pdl_printf(out, "%s%lld", k ? "x" : "", (long long)t->size[k]);
    for (int i = 0; i < t->nparts; i++) {
        pdl_printf(out, "%s%s", i ? "+" : "@", t->part[i].group);
        if (t->part[i].count)
            pdl_printf(out, ":%lld", (long long)t->part[i].count);
        if (t->part[i].share)
            pdl_printf(out, "*%lld", (long long)t->part[i].share);
    }
    if (t->axis == PDL_AXIS_PIPE)
        print_pipe(s, out);
    if (t->axis == PDL_AXIS_CONTEXT)
        print_context(s, out);
    if (t->axis == PDL_AXIS_EXPERT && s->imbalance > 0)
        pdl_printf(out, "(imbalance=%.17g)", s->imbalance);
    if (t->axis == PDL_AXIS_TENSOR && s->seq)
        pdl_puts(out, "+seq");
}

static void print_option(const struct pdl_strategy *s,
                         const struct plan_option *o, const char **before,
                         struct pdl_sink *out)
{
    const void *field = (const char *)s + o->offset;
    char value[64] = "";

    switch (o->kind) {
    case PLAN_OPT_CHOICE:
        if (*(const unsigned *)field)
            snprintf(value, sizeof value, "%s",
                     o->words[*(const unsigned *)field]);
        break;
    case PLAN_OPT_FLAG:
        if (*(const bool *)field)
            snprintf(value, sizeof value, "%s", o->words[1]);
        break;
    case PLAN_OPT_COUNT:
        if (*(const int64_t *)field)
            snprintf(value, sizeof value, "%lld",
                     (long long)*(const int64_t *)field);
        break;
    case PLAN_OPT_BYTES: {
        int64_t v = *(const int64_t *)field;

        if (v > INT64_C(1) << 53) /* a double would lose digits */
            snprintf(value, sizeof value, "%lldB", (long long)v);
        else if (v)
            pdl_unit_print((double)v, PDL_UNIT_BYTES, value, sizeof value);
        break;
    }
    case PLAN_OPT_TEXT:
    case PLAN_OPT_COMPRESS:
        if (*(const char *const *)field)
            snprintf(value, sizeof value, "%s", *(const char *const *)field);
        break;
    case PLAN_OPT_ZERO:
        if (s->zero && s->zero_group)
            snprintf(value, sizeof value, "%lld:%lld", (long long)s->zero,
                     (long long)s->zero_group);
        else if (s->zero)
            snprintf(value, sizeof value, "%lld", (long long)s->zero);
        break;
    case PLAN_OPT_OFFLOAD:
        if (s->offload_optimizer && s->offload_activations)
            snprintf(value, sizeof value, "optimizer,offload=activations");
        else if (s->offload_optimizer || s->offload_activations)
            snprintf(value, sizeof value, "%s",
                     s->offload_optimizer ? "optimizer" : "activations");
        break;
    }
    if (*value) {
        pdl_printf(out, "%s%s=%s", *before, o->name, value);
        *before = ",";
    }
}

static void print_options(const struct pdl_strategy *s, const char *before,
                          struct pdl_sink *out)
{
    for (int o = 0; o < plan_noptions; o++)
        print_option(s, &plan_options[o], &before, out);
}

static void print_clause(const struct pdl_strategy *s,
                         const struct pdl_clause *c, struct pdl_sink *out)
{
    const char *before = "";

    for (int t = 0; t < c->nterms; t++, before = ",") {
        pdl_puts(out, before);
        print_term(s, &c->term[t], out);
    }
    if (c->own_recompute) {
        pdl_printf(out, "%srecompute=%s", before,
                   plan_recomputes[c->recompute]);
        before = ",";
    }
    if (c->offload_optimizer) {
        pdl_printf(out, "%soffload=optimizer", before);
        before = ",";
    }
    if (c->offload) {
        pdl_printf(out, "%soffload=activations", before);
        before = ",";
    }
    if (c->compress)
        pdl_printf(out, "%scompress=%s", before, c->compress);
}

void pdl_strategy_print(const struct pdl_strategy *s, struct pdl_sink *out)
{
    bool star = strcmp(s->clause[0].layers, "*") == 0;

    for (int i = 0; i < s->nclauses; i++) {
        const struct pdl_clause *c = &s->clause[i];

        if (i > 0)
            pdl_puts(out, "; ");
        if (i > 0 || !star || s->nclauses > 1)
            pdl_printf(out, "%s: ", c->layers);
        print_clause(s, c, out);
        if (i == 0 && star)
            print_options(s, ",", out);
    }
    if (!star)
        print_options(s, "; *: ", out);
}
