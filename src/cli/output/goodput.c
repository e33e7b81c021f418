/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a whole run takes: so many tokens or samples, with a batch that
 * ramps up (Megatron's rule: from START by INCREMENT to the full batch over
 * the first SAMPLES; every size is lowered and priced), on a machine that
 * fails. */
#include "cli/output/projection.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct ramp {
    double start, increment, samples;
};

static enum pdl_status read_ramp(const char *text, struct ramp *out,
                                 struct pdl_err *err)
{
    double *const part[] = {&out->start, &out->increment, &out->samples};
    char word[32];

    for (int i = 0; i < 3; i++) {
        size_t n = strcspn(text, ",");

        if (n >= sizeof word || (text[n] == ',') != (i < 2))
            break;
        memcpy(word, text, n);
        word[n] = '\0';
        if (pdl_unit_parse(word, PDL_UNIT_NONE, part[i], NULL) != PDL_OK ||
            !(*part[i] >= 1) || *part[i] > 1e15)
            break;
        if (i == 2)
            return PDL_OK;
        text += n + 1;
    }
    pdl_fail(err, PDL_EINVAL, "--ramp-up takes START,INCREMENT,SAMPLES");
    pdl_hint(err, "as Megatron's --rampup-batch-size: 32,32,6M");
    return PDL_EINVAL;
}

/* The strategy for a smaller batch: micro-batches keep their size. */
static enum pdl_status fewer_micro_batches(const struct cli_job *j,
                                           int64_t batch, struct pdl_sink *out,
                                           struct pdl_err *err)
{
    struct pdl_strategy s = j->asked;
    int64_t *count = s.micro_batches > 0 ? &s.micro_batches : &s.accumulate;

    if (*count * batch % j->x.batch != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "--ramp-up: %lld samples are no whole number of "
                        "micro-batches",
                        (long long)batch);
    *count = *count * batch / j->x.batch;
    pdl_strategy_print(&s, out);
    return out->failed ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}

static enum pdl_status small_step(const struct cli_question *q,
                                  const struct cli_job *j, int64_t batch,
                                  double *step_s, struct pdl_err *err)
{
    struct cli_job other = {.job = NULL};
    struct cli_question ask = *q;
    struct pdl_buf text;
    enum pdl_status st;

    pdl_buf_init(&text);
    ask.batch = batch;
    st = fewer_micro_batches(j, batch, &text.sink, err);
    if (st == PDL_OK)
        st = cli_job_fork(j, &other, err);
    if (st == PDL_OK)
        st = cli_job_price(&ask, text.text, &other, err);
    if (st == PDL_OK)
        *step_s = other.x.step_s;
    cli_job_close(&other);
    pdl_buf_free(&text);
    return st;
}

/* Seconds and samples of the ramp, as far as the run goes. */
static enum pdl_status ramp_time(const struct cli_question *q,
                                 const struct cli_job *j, const struct ramp *r,
                                 struct cli_whole *out, struct pdl_err *err)
{
    double full = (double)j->x.batch, sizes;

    if (r->start >= full || fmod(full - r->start, r->increment) != 0 ||
        (full - r->start) / r->increment > 1000)
        return pdl_fail(err, PDL_EINVAL,
                        "--ramp-up: %lld samples are not reached from %g in "
                        "at most 1000 steps of %g",
                        (long long)j->x.batch, r->start, r->increment);
    sizes = (full - r->start) / r->increment;
    for (int i = 0; i < (int)sizes; i++) {
        double b = r->start + i * r->increment;
        double share = fmin(r->samples / sizes, out->samples - out->ramped);
        double step_s = 0;
        enum pdl_status st = small_step(q, j, (int64_t)b, &step_s, err);

        if (st != PDL_OK)
            return st;
        out->ramped += share;
        out->ramp_s += share / b * step_s;
    }
    return PDL_OK;
}

/* ---- what only a simulation knows ---------------------------------------- */

static bool is_simulated(const struct pdl_interruptions *m)
{
    return m->interval_s > 0 || m->spares > 0 || m->repair_s > 0 ||
           m->manual > 0 || m->manual_s > 0 || m->slow_mtbf_pe_s > 0 ||
           m->slow_by > 0 || m->found_s > 0;
}

static enum pdl_status check_more(const struct cli_whole_options *o,
                                  struct pdl_err *err)
{
    const struct pdl_interruptions *m = &o->more;
    bool slow = m->slow_mtbf_pe_s > 0;

    if (m->interval_s < 0 || m->spares < 0 || m->repair_s < 0 ||
        m->manual_s < 0 || m->slow_mtbf_pe_s < 0 || m->found_s < 0)
        return pdl_fail(err, PDL_EINVAL, "times of a run are no less than 0");
    if (!is_simulated(m))
        return PDL_OK;
    if (!(o->checkpoint_s > 0) || (!(o->mtbf_s > 0) && !slow))
        return pdl_fail(err, PDL_EINVAL,
                        "interruptions need --checkpoint-time, and --mtbf or "
                        "--slow-mtbf");
    if (m->spares > 0 && !(m->repair_s > 0))
        return pdl_fail(err, PDL_EINVAL,
                        "--spares needs --repair-time: without it nodes are "
                        "never missing");
    if (m->manual < 0 || m->manual > 1 || (m->manual > 0) != (m->manual_s > 0))
        return pdl_fail(err, PDL_EINVAL,
                        "--manual, from 0 to 1, goes with --manual-time");
    if ((slow || m->slow_by != 0 || m->found_s > 0) &&
        !(slow && m->slow_by > 1 && m->found_s > 0))
        return pdl_fail(err, PDL_EINVAL,
                        "--slow-mtbf, --slow-by (more than 1) and "
                        "--slow-found go together");
    return PDL_OK;
}

/* What is given must mean something; *asked: there is a run to project. */
enum pdl_status cli_whole_asked(const struct cli_whole_options *o, bool *asked,
                                struct pdl_err *err)
{
    bool more = o->mtbf_s != 0 || o->checkpoint_s != 0 || o->restart_s != 0 ||
                o->straggler != 0 || o->ramp_up || is_simulated(&o->more);
    enum pdl_status st = check_more(o, err);

    if (st != PDL_OK)
        return st;

    *asked = o->samples != 0 || o->tokens != 0;
    if (more && !*asked)
        return pdl_fail(err, PDL_EINVAL,
                        "a whole run needs --samples or --tokens");
    if (o->samples != 0 && o->tokens != 0)
        return pdl_fail(err, PDL_EINVAL, "--samples or --tokens, not both");
    if (o->samples < 0 || o->tokens < 0)
        return pdl_fail(err, PDL_EINVAL, "a run has at least one sample");
    if (o->mtbf_s < 0 || o->checkpoint_s < 0 || o->restart_s < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "--mtbf, --checkpoint-time and --restart-time are no "
                        "less than 0");
    if (o->straggler != 0 && !(o->straggler >= 1))
        return pdl_fail(err, PDL_EINVAL,
                        "--straggler is a factor from 1 on: 1.05");
    return o->mtbf_s > 0 && !(o->checkpoint_s > 0)
               ? pdl_fail(err, PDL_EINVAL,
                          "--mtbf also needs --checkpoint-time, what saving "
                          "takes")
               : PDL_OK;
}

/* A thousandth of the time is no training. */
static enum pdl_status ends(const struct pdl_goodput *x, double checkpoint_s,
                            struct pdl_err *err)
{
    char a[32], b[32];

    if (x->goodput >= 1e-3)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             "the run would never end: the PEs fail every %s together, and a "
             "checkpoint takes %s",
             cli_span(x->mtbf_s, a, sizeof a),
             cli_span(checkpoint_s, b, sizeof b));
    pdl_hint(err, "--mtbf is that of one PE");
    return PDL_EINVAL;
}

enum pdl_status cli_whole_time(const struct cli_question *q,
                               const struct cli_job *j,
                               const struct cli_whole_options *o,
                               struct cli_whole *out, struct pdl_err *err)
{
    struct pdl_long_run run = {.pes = j->x.pes,
                               .mtbf_pe_s = o->mtbf_s,
                               .checkpoint_s = o->checkpoint_s,
                               .restart_s = o->restart_s,
                               .straggler = o->straggler};
    struct ramp ramp;
    enum pdl_status st = PDL_OK;

    *out = (struct cli_whole){.samples = o->samples};
    if (o->tokens > 0 && j->model->tokens == 0)
        return pdl_fail(err, PDL_EINVAL, "--tokens: %s has none; use --samples",
                        j->model->name);
    if (o->tokens > 0)
        out->samples = o->tokens / (double)j->model->tokens;
    if (o->ramp_up)
        st = read_ramp(o->ramp_up, &ramp, err);
    if (st == PDL_OK && o->ramp_up)
        st = ramp_time(q, j, &ramp, out, err);
    if (st != PDL_OK)
        return st;
    run.steps_s = out->ramp_s + (out->samples - out->ramped) /
                                    (double)j->x.batch * j->x.step_s;
    pdl_goodput(&run, &out->x);
    st = ends(&out->x, o->checkpoint_s, err);
    out->simulated = is_simulated(&o->more);
    if (st == PDL_OK && out->simulated) {
        struct pdl_interruptions more = o->more;

        more.run = run;
        st = pdl_interruptions_simulate(&more, &out->sim, err);
    }
    return st;
}

/* Days and hours where seconds say nothing. */
const char *cli_span(double s, char *buf, size_t size)
{
    if (s < 7200)
        return pdl_unit_format(s, PDL_UNIT_SECONDS, buf, size);
    snprintf(buf, size,
             s < 172800          ? "%.3g h"
             : s < 999 * 86400.0 ? "%.3g d"
                                 : "%.0f d",
             s < 172800 ? s / 3600 : s / 86400);
    return buf;
}

static void line(const char *what, double s, double all)
{
    char t[32];

    if (s > 0)
        pdl_printf(cli_out(), "  %-22s %12s  %5.1f %%\n", what,
                   cli_span(s, t, sizeof t), 100 * s / all);
}

/* Days of a simulated run, and where they go. */
static void simulated_text(const struct cli_whole *r)
{
    const struct pdl_interrupted *x = &r->sim;
    char a[32], b[32];

    line("time, simulated", x->train_s, x->train_s);
    line("steps", r->x.work_s, x->train_s);
    line("of them, ramping up", r->ramp_s, x->train_s);
    line("slow nodes", x->slow_s, x->train_s);
    line("checkpoints", x->saving_s, x->train_s);
    line("work lost", x->lost_s, x->train_s);
    line("restarts", x->restart_s, x->train_s);
    line("waiting for people", x->manual_s, x->train_s);
    line("waiting for nodes", x->waiting_s, x->train_s);
    pdl_printf(cli_out(), "  80 %% of runs take between %s and %s\n",
               cli_span(x->low_s, a, sizeof a),
               cli_span(x->high_s, b, sizeof b));
    pdl_printf(cli_out(),
               "  %.3g failures, %.3g slow nodes taken out; saved "
               "every %s\n",
               x->failures, x->found, cli_span(x->interval_s, a, sizeof a));
}

static void expected_text(const struct cli_whole *r)
{
    const struct pdl_goodput *x = &r->x;
    char a[32], b[32];

    line("time", x->train_s, x->train_s);
    line("steps", x->work_s, x->train_s);
    line("of them, ramping up", r->ramp_s, x->train_s);
    line("slow nodes", x->straggler_s, x->train_s);
    line("checkpoints", x->saving_s, x->train_s);
    line("work lost", x->lost_s, x->train_s);
    line("restarts", x->restart_s, x->train_s);
    if (x->failures > 0)
        pdl_printf(cli_out(), "  %.3g failures, one every %s; saved every %s\n",
                   x->failures, cli_span(x->mtbf_s, a, sizeof a),
                   cli_span(x->interval_s, b, sizeof b));
}

void cli_whole_text(const struct cli_whole *r, const struct cli_job *j)
{
    double train_s = r->simulated ? r->sim.train_s : r->x.train_s;
    struct pdl_bill bill;
    char a[32];

    pdl_printf(cli_out(), "The whole run: %s samples\n",
               pdl_unit_format(r->samples, PDL_UNIT_NONE, a, sizeof a));
    if (r->simulated)
        simulated_text(r);
    else
        expected_text(r);
    pdl_project_bill(&j->x, &j->sys, &bill);
    if (bill.cost > 0)
        pdl_printf(cli_out(), "  costs %.4g, all PEs for that time\n",
                   bill.cost / j->x.step_s * train_s);
}

static void simulated_json(struct pdl_json *w, const struct pdl_interrupted *x)
{
    pdl_json_key(w, "simulated");
    pdl_json_object(w);
    pdl_json_knum(w, "train_s", x->train_s);
    pdl_json_knum(w, "low_s", x->low_s);
    pdl_json_knum(w, "high_s", x->high_s);
    pdl_json_knum(w, "goodput", x->goodput);
    pdl_json_knum(w, "interval_s", x->interval_s);
    pdl_json_knum(w, "slow_s", x->slow_s);
    pdl_json_knum(w, "checkpoint_s", x->saving_s);
    pdl_json_knum(w, "lost_s", x->lost_s);
    pdl_json_knum(w, "restart_s", x->restart_s);
    pdl_json_knum(w, "manual_s", x->manual_s);
    pdl_json_knum(w, "waiting_s", x->waiting_s);
    pdl_json_knum(w, "failures", x->failures);
    pdl_json_knum(w, "slow_nodes", x->found);
    pdl_json_end(w);
}

void cli_whole_json(struct pdl_json *w, const struct cli_whole *r)
{
    pdl_json_key(w, "run");
    pdl_json_object(w);
    pdl_json_knum(w, "samples", r->samples);
    pdl_json_knum(w, "train_s", r->x.train_s);
    pdl_json_knum(w, "goodput", r->x.goodput);
    pdl_json_knum(w, "steps_s", r->x.work_s);
    pdl_json_knum(w, "ramp_s", r->ramp_s);
    pdl_json_knum(w, "straggler_s", r->x.straggler_s);
    pdl_json_knum(w, "checkpoint_s", r->x.saving_s);
    pdl_json_knum(w, "lost_s", r->x.lost_s);
    pdl_json_knum(w, "restart_s", r->x.restart_s);
    pdl_json_knum(w, "mtbf_s", r->x.mtbf_s);
    pdl_json_knum(w, "interval_s", r->x.interval_s);
    pdl_json_knum(w, "failures", r->x.failures);
    if (r->simulated)
        simulated_json(w, &r->sim);
    pdl_json_end(w);
}
