/* SPDX-License-Identifier: Apache-2.0
 *
 * --evidence: what own measured runs make of a projection. */
#include "cli/output/projection.h"

#include <math.h>

enum pdl_status cli_anchor(pdl_arena *a, const struct cli_job *j,
                           struct pdl_anchor *out, struct pdl_err *err)
{
    enum pdl_status st =
        pdl_anchor_to_own(a, j->plan, &j->sys, &j->oracle, &j->x, out);

    return st == PDL_OK ? st : pdl_fail(err, st, "out of memory");
}

void cli_anchor_json(struct pdl_json *w, const struct cli_job *j,
                     const struct pdl_anchor *x)
{
    double step = j->x.step_s * x->factor;

    pdl_json_key(w, "anchored");
    pdl_json_object(w);
    pdl_json_kint(w, "runs", x->runs);
    pdl_json_kbool(w, "alike", x->alike);
    pdl_json_knum(w, "factor", x->runs > 0 ? x->factor : NAN);
    pdl_json_knum(w, "step_s", x->runs > 0 ? step : NAN);
    pdl_json_key(w, "interval_s");
    pdl_json_flat(w);
    pdl_json_num(w, x->runs > 0 ? step * exp(-x->half_width) : NAN);
    pdl_json_num(w, x->runs > 0 ? step * exp(x->half_width) : NAN);
    pdl_json_end(w);
    pdl_json_end(w);
}

void cli_anchor_text(const struct cli_job *j, const struct pdl_anchor *x)
{
    double step = j->x.step_s * x->factor;
    char a[32], b[32], c[32];

    if (x->runs == 0)
        cli_say(2, "own runs: none could be projected");
    else
        cli_say(2,
                "own runs: %d %s, measured %.3g times the projection in the "
                "median: anchored, a step takes %s, 80 %% between %s and %s",
                x->runs, x->alike ? "like it" : "that are not quite like it",
                x->factor, pdl_unit_format(step, PDL_UNIT_SECONDS, a, sizeof a),
                pdl_unit_format(step * exp(-x->half_width), PDL_UNIT_SECONDS, b,
                                sizeof b),
                pdl_unit_format(step * exp(x->half_width), PDL_UNIT_SECONDS, c,
                                sizeof c));
}
