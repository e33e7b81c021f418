/* SPDX-License-Identifier: Apache-2.0
 *
 * plan --tokens: how long a training takes, and what it costs. */
#include "cli/output/projection.h"

struct training {
    double days, pe_hours, cost; /* cost 0: no price is known */
};

static bool train(const struct pdl_found *f, const struct pdl_system *sys,
                  double tokens, struct training *out)
{
    const struct pdl_projection *x = &f->x;
    double slower = f->anchored_s > 0 ? f->anchored_s / x->step_s : 1, hours;

    if (!(tokens > 0 && x->feasible && x->tokens_per_s > 0))
        return false;
    hours = tokens / x->tokens_per_s * slower / 3600;
    *out = (struct training){
        .days = hours / 24,
        .pe_hours = hours * (double)x->pes,
        .cost = hours * (double)x->pes * sys->pe.price_per_hour};
    return true;
}

void cli_training_text(const struct pdl_found *f, const struct pdl_system *sys,
                       double tokens)
{
    const char *money = sys->currency ? sys->currency : "";
    struct training t;
    char n[32], h[32];

    if (!train(f, sys, tokens, &t))
        return;
    cli_say(2, "%s tokens: %.3g days, %s PE hours without failures%s",
            pdl_unit_format(tokens, PDL_UNIT_NONE, n, sizeof n), t.days,
            pdl_unit_format(t.pe_hours, PDL_UNIT_NONE, h, sizeof h),
            t.cost > 0 ? "" : "; no price is known (pe.price_per_hour)");
    if (t.cost > 0)
        cli_say(2, "  which cost %s%s%s",
                pdl_unit_format(t.cost, PDL_UNIT_NONE, n, sizeof n),
                *money ? " " : "", money);
}

void cli_training_json(struct pdl_json *w, const struct pdl_found *f,
                       const struct pdl_system *sys, double tokens)
{
    struct training t;

    if (!train(f, sys, tokens, &t))
        return;
    pdl_json_key(w, "training");
    pdl_json_object(w);
    pdl_json_knum(w, "tokens", tokens);
    pdl_json_knum(w, "days", t.days);
    pdl_json_knum(w, "pe_hours", t.pe_hours);
    if (t.cost > 0)
        pdl_json_knum(w, "cost", t.cost);
    pdl_json_end(w);
}
