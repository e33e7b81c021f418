/* SPDX-License-Identifier: Apache-2.0
 *
 * How many PEs an axis can have (the papers' limits: p <= B, min F, min C,
 * rows, layers). No second formula: the plan says no, with the layer and the
 * reason, and the largest number to which it says yes is searched for. */
#include "oracle/oracle_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t MOST = INT64_C(1) << 20;

static const struct {
    const char *name;
    bool transformer; /* cuts what only these have: heads, tokens, experts */
} axes[] = {
    {"data", false},  {"spatial", false}, {"filter", false}, {"channel", false},
    {"tensor", true}, {"context", true},  {"expert", true},  {"pipe", false},
};

/* Can the model be cut so? The reason into err where not. */
static bool admits(const struct pdl_model *model, const char *axis, int64_t p,
                   int64_t batch, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = a ? PDL_NEW(a, struct pdl_strategy, 1) : NULL;
    struct pdl_plan_options opt = {.batch = batch};
    const struct pdl_plan *plan;
    char text[64];
    bool yes;

    snprintf(text, sizeof text, "%s=%lld", axis, (long long)p);
    *err = (struct pdl_err){"", ""};
    yes = s && pdl_strategy_parse(a, text, s, err) == PDL_OK &&
          pdl_plan_lower(a, model, s, &opt, &plan, err) == PDL_OK;
    pdl_arena_destroy(a);
    return yes;
}

/* Doubles until the plan refuses, then halves the gap. */
static int64_t most_of(const struct pdl_model *model, const char *axis,
                       int64_t batch, struct pdl_err *why)
{
    int64_t yes = 1, no = 2;
    struct pdl_err err;

    while (no <= MOST && admits(model, axis, no, batch, why)) {
        yes = no;
        no *= 2;
    }
    while (no <= MOST && no - yes > 1) {
        int64_t middle = yes + (no - yes) / 2;

        if (admits(model, axis, middle, batch, &err)) {
            yes = middle;
        } else {
            no = middle;
            *why = err;
        }
    }
    return yes;
}

enum pdl_status pdl_axis_limits(pdl_arena *a, const struct pdl_model *model,
                                int64_t batch, struct pdl_axis_limit *out,
                                int *n, struct pdl_err *err)
{
    *n = 0;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        struct pdl_err why = {"", ""};
        const char *reason;
        int64_t most;

        if (axes[i].transformer && strcmp(model->kind, "transformer") != 0)
            continue;
        most = most_of(model, axes[i].name, batch, &why);
        reason = pdl_arena_strdup(a, why.msg);
        if (!reason)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (most > 1 && most < MOST)
            out[(*n)++] = (struct pdl_axis_limit){axes[i].name, reason, most};
    }
    return PDL_OK;
}
