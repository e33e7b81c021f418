/* SPDX-License-Identifier: Apache-2.0
 *
 * How the best plan's gradients are best exchanged: what paradl tune answers,
 * asked for a strategy that was searched. */
#include "cli/questions/tuned.h"

const char *cli_loss_name(const char *compress)
{
    static const char *const names[] = {
        [PDL_TUNE_EXACT] = "exact",
        [PDL_TUNE_TRIED] = "tried on small data",
        [PDL_TUNE_UNKNOWN] = "unknown",
    };

    return names[pdl_tune_loss(compress)];
}

enum pdl_status cli_tune_best(pdl_arena *a, const struct cli_question *q,
                              const char *strategy, struct cli_job *j,
                              struct cli_tuned *out, struct pdl_err *err)
{
    struct pdl_tune_options opt = {.lossless = false};
    struct pdl_plan_options plan = {.batch = q->batch};
    enum pdl_status st = cli_job_price(q, strategy, j, err);

    if (st != PDL_OK)
        return st;
    out->step_s = j->x.step_s;
    st = pdl_tune_gradients(a, j->model, &j->sys, &j->oracle, &plan, strategy,
                            &opt, &out->r, &out->why);
    out->known = st == PDL_OK;
    return st == PDL_EINVAL || st == PDL_OK
               ? PDL_OK
               : pdl_fail(err, st, "%s", out->why.msg);
}

void cli_tuned_text(const struct cli_tuned *x)
{
    const struct pdl_tuned *b = x->r.best;
    char step[32];

    if (!x->known) {
        cli_say(2, "collectives: nothing to choose: %s", x->why.msg);
        return;
    }
    cli_say(2, "collectives: %s, %s a step (%+.1f %%; accuracy: %s)",
            b->strategy,
            pdl_unit_format(b->x.step_s, PDL_UNIT_SECONDS, step, sizeof step),
            100 * (b->x.step_s / x->step_s - 1), cli_loss_name(b->compress));
}

void cli_tuned_json(struct pdl_json *w, const struct cli_tuned *x)
{
    if (!x->known)
        return;
    pdl_json_key(w, "collectives");
    pdl_json_object(w);
    pdl_json_kstr(w, "strategy", x->r.best->strategy);
    pdl_json_knum(w, "step_s", x->r.best->x.step_s);
    pdl_json_kstr(w, "accuracy", cli_loss_name(x->r.best->compress));
    pdl_json_end(w);
}
