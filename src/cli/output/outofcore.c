/* SPDX-License-Identifier: Apache-2.0
 *
 * What swap=karma decided and why, for people and as JSON, beside what earlier
 * methods would have chosen for the same blocks. */
#include "cli/output/projection.h"

#include <string.h>

static const double FULL = .9; /* of the time a link could be busy */

static const char *const verbs[PDL_KARMA_NCHOICES] = {
    "kept",
    "made again",
    "on the host",
    "made again, inputs on the host",
    "made again in part",
    "made again in part, the rest on the host"};

static bool decide(pdl_arena *a, const struct cli_job *j,
                   struct pdl_outofcore *out)
{
    struct pdl_plan_options po = {.batch = j->x.batch, .allow_empty = true};
    struct pdl_strategy *s = a ? PDL_NEW(a, struct pdl_strategy, 1) : NULL;

    if (!s || j->asked.swap != PDL_SWAP_KARMA)
        return false;
    *s = j->asked;
    return pdl_oracle_outofcore(a, j->model, &j->sys, &j->oracle, &po, s, out,
                                NULL) == PDL_OK &&
           out->plan.choice;
}

/* ---- why ----------------------------------------------------------------- */

/* Seconds of a run of blocks: to make them again, to copy them one way. */
static void costs(const struct pdl_outofcore *x, int from, int to,
                  double *again, double *copy)
{
    *again = *copy = 0;
    for (int i = from; i <= to; i++) {
        const struct pdl_karma_left *l = x->karma.block[i].left;
        enum pdl_karma_again way = pdl_karma_again(x->plan.choice[i]);

        *again += l[way ? way : PDL_KARMA_ALL].again_s;
        *copy += (double)l[PDL_KARMA_NOTHING].bytes / x->karma.in_bytes_per_s;
    }
}

static int64_t states_there(const struct pdl_outofcore *x)
{
    int64_t n = 0;

    for (int g = 0; g < x->karma.ngroups; g++)
        n += x->plan.host[g] ? x->karma.group[g].state_bytes : 0;
    return n;
}

/* What share of the time there is for activations the links are busy; with
 * gradients and weights beside them, of the step. */
static void busy(const struct pdl_outofcore *x, double *out, double *in)
{
    const struct pdl_karma_step *s = &x->plan.step;
    bool states = states_there(x) > 0;

    *out = s->out_busy_s / (states ? s->step_s : s->forward_s);
    *in = s->in_busy_s / (states ? s->step_s : s->step_s - s->forward_s);
}

static const char *reason(const struct pdl_outofcore *x, int from, double again,
                          double copy)
{
    const struct pdl_karma_step *s = &x->plan.step;
    double out, in;
    bool full;

    busy(x, &out, &in);
    full = in > FULL || out > FULL;
    switch (x->plan.choice[from]) {
    case PDL_KARMA_KEEP:
        return "there is room";
    case PDL_KARMA_RECOMPUTE:
        return full           ? "the link is full"
               : copy > again ? "copies would take longer"
                              : "copies would not hide";
    case PDL_KARMA_SWAP:
        return s->wait_s > 0 ? "copies hide but for what is waited"
                             : "copies hide";
    case PDL_KARMA_PART:
        return "little time for much of the memory";
    case PDL_KARMA_REST:
        return "what stays is little to copy";
    default:
        return "inputs are small beside what they save";
    }
}

/* ---- JSON ---------------------------------------------------------------- */

static void policies_json(struct pdl_json *w, pdl_arena *a,
                          const struct pdl_outofcore *x)
{
    const struct pdl_karma_policy *p;

    pdl_json_key(w, "policies");
    pdl_json_array(w);
    for (int i = 0; (p = pdl_karma_policy_at(i)) != NULL; i++) {
        struct pdl_karma_plan plan;

        if (pdl_karma_follow(a, &x->karma, p, &plan, NULL) != PDL_OK)
            continue;
        pdl_json_row(w);
        pdl_json_kstr(w, "name", p->name);
        pdl_json_kbool(w, "fits", plan.step.fits);
        pdl_json_knum(w, "step_s", plan.step.step_s + x->rest_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void blocks_json(struct pdl_json *w, const struct pdl_outofcore *x)
{
    pdl_json_key(w, "blocks");
    pdl_json_array(w);
    for (int i = 0; i < x->nunits; i++) {
        double again, copy;

        costs(x, i, i, &again, &copy);
        pdl_json_row(w);
        pdl_json_kstr(w, "first", x->names[(ptrdiff_t)2 * i]);
        pdl_json_kstr(w, "last", x->names[(ptrdiff_t)2 * i + 1]);
        pdl_json_kstr(w, "choice", pdl_karma_word(x->plan.choice[i]));
        pdl_json_kstr(w, "what", verbs[x->plan.choice[i]]);
        pdl_json_kstr(w, "why", reason(x, i, again, copy));
        pdl_json_knum(w, "again_s", again);
        pdl_json_knum(w, "copy_s", copy);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

void cli_outofcore_json(struct pdl_json *w, const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_outofcore x;
    double out, in;

    if (!decide(a, j, &x)) {
        pdl_arena_destroy(a);
        return;
    }
    pdl_json_key(w, "out_of_core");
    pdl_json_object(w);
    pdl_json_knum(w, "in_core_s", x.in_core.step_s);
    pdl_json_kbool(w, "in_core_fits", x.in_core.feasible);
    pdl_json_knum(w, "planned_s", x.plan.step.step_s + x.rest_s);
    pdl_json_knum(w, "bound_s",
                  x.plan.bound_s > 0 ? x.plan.bound_s + x.rest_s : 0);
    pdl_json_kint(w, "ahead", x.plan.ahead);
    busy(&x, &out, &in);
    pdl_json_knum(w, "out_busy", out);
    pdl_json_knum(w, "in_busy", in);
    pdl_json_knum(w, "wait_s", x.plan.step.wait_s);
    blocks_json(w, &x);
    policies_json(w, a, &x);
    pdl_json_end(w);
    pdl_arena_destroy(a);
}

/* ---- for people ---------------------------------------------------------- */

static void run_text(const struct pdl_outofcore *x, int from, int to)
{
    double again, copy;
    char a[32], b[32];

    costs(x, from, to, &again, &copy);
    cli_say(4, "  %s..%s: %s: %s (again %s, a copy %s)",
            x->names[(ptrdiff_t)2 * from], x->names[(ptrdiff_t)2 * to + 1],
            verbs[x->plan.choice[from]], reason(x, from, again, copy),
            pdl_unit_format(again, PDL_UNIT_SECONDS, a, sizeof a),
            pdl_unit_format(copy, PDL_UNIT_SECONDS, b, sizeof b));
}

static void states_text(const struct pdl_outofcore *x)
{
    int64_t there = states_there(x), all = 0;
    char a[32], b[32];

    for (int g = 0; g < x->karma.ngroups; g++)
        all += x->karma.group[g].state_bytes;
    if (there > 0)
        cli_say(
            4,
            "  %s of the optimizer's %s are on the host, which updates them "
            "while backward computes",
            pdl_unit_format((double)there, PDL_UNIT_BYTES, a, sizeof a),
            pdl_unit_format((double)all, PDL_UNIT_BYTES, b, sizeof b));
}

void cli_outofcore_text(const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_outofcore x;

    if (decide(a, j, &x)) {
        const struct pdl_karma_step *s = &x.plan.step;
        double out, in;

        busy(&x, &out, &in);
        pdl_puts(cli_out(), "Out of core\n");
        for (int i = 0, to; i < x.nunits; i = to + 1) {
            for (to = i;
                 to + 1 < x.nunits && x.plan.choice[to + 1] == x.plan.choice[i];
                 to++)
                ;
            run_text(&x, i, to);
        }
        states_text(&x);
        cli_say(2,
                "  %.1f %% of the speed in core%s; links are busy %.0f %% of "
                "%s (out) and %.0f %% of %s (in), computing waits %.1f %% of "
                "the step",
                100 * x.in_core.step_s / x.x.step_s,
                x.in_core.feasible ? ", which fits" : ", which does not fit",
                100 * out, states_there(&x) ? "the step" : "forward", 100 * in,
                states_there(&x) ? "the step" : "backward",
                100 * s->wait_s / s->step_s);
        if (x.plan.bound_s > 0)
            cli_say(2, "  proved: no decisions are more than %.2f %% faster",
                    100 * (1 - (x.plan.bound_s + x.rest_s) /
                                   (s->step_s + x.rest_s)));
    }
    pdl_arena_destroy(a);
}
