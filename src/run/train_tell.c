/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 tells of a run: lines as text or JSON, a line of progress, the
 * log, the summary. */
#include "train_session.h"

#include <math.h>
#include <stdio.h>

void train_erase(struct session *s)
{
    if (s->line_shown)
        fprintf(stderr, "\r\033[K");
    s->line_shown = false;
}

static void progress(struct session *s, const struct pdl_train_line *l)
{
    double now = pdl_clock_s(), done, left;
    char t[32], line[80]; /* a longer one could not be erased */

    if (!s->o.progress || s->args->quiet || now - s->last_s < 0.1)
        return;
    done = (double)(l->step - s->resumed_at);
    left = (now - s->start_s) / (done > 0 ? done : 1) *
           (double)(l->total - l->step);
    s->last_s = now;
    s->line_shown = true;
    snprintf(line, sizeof line,
             "epoch %lld  step %lld/%lld  loss %.4f  %.*f samples/s  ETA %s",
             (long long)l->epoch + 1, (long long)l->step, (long long)l->total,
             l->loss, l->samples_per_s < 10 ? 2 : 0, l->samples_per_s,
             pdl_unit_format(left, PDL_UNIT_SECONDS, t, sizeof t));
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

static void json_line(struct session *s, const struct pdl_train_line *l)
{
    int64_t every = s->o.log_every > 0 ? s->o.log_every : 1;
    struct pdl_json j;

    if (!l->epoch_ended && l->step % every != 0)
        return;
    pdl_json_init(&j, run_out());
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kint(&j, "step", l->step);
    pdl_json_kint(&j, "epoch", l->epoch);
    pdl_json_knum(&j, "loss", l->loss);
    pdl_json_knum(&j, "lr", l->lr);
    if (!isnan(l->grad_norm))
        pdl_json_knum(&j, "grad_norm", l->grad_norm);
    pdl_json_knum(&j, "samples_per_s", l->samples_per_s);
    if (l->epoch_ended) {
        pdl_json_kbool(&j, "epoch_ended", true);
        pdl_json_knum(&j, "test_loss", l->test_loss);
        if (!isnan(l->perplexity))
            pdl_json_knum(&j, "perplexity", l->perplexity);
        pdl_json_knum(&j, "accuracy", l->accuracy);
        if (s->o.hide)
            pdl_json_kint(&j, "hidden", l->hidden);
    }
    pdl_json_end(&j);
    fflush(stdout);
}

/* What the test split says; what is not a number was not measured. */
static void put_score(struct pdl_sink *out, const char *before, double loss,
                      double perplexity, double accuracy)
{
    if (!isnan(loss))
        pdl_printf(out, "%stest loss %.6f", before, loss);
    if (!isnan(perplexity))
        pdl_printf(out, "%sperplexity %.4g", before, perplexity);
    if (!isnan(accuracy))
        pdl_printf(out, "%saccuracy %.2f %%", before, 100 * accuracy);
}

static void text_line(struct session *s, const struct pdl_train_line *l)
{
    struct pdl_sink *out = run_out();

    if (!l->epoch_ended || s->args->quiet)
        return;
    pdl_printf(out, "epoch %3lld  step %6lld  loss %.6f",
               (long long)l->epoch + 1, (long long)l->step, l->loss);
    put_score(out, "  ", l->test_loss, l->perplexity, l->accuracy);
    if (s->o.hide)
        pdl_printf(out, "  hidden %lld", (long long)l->hidden);
    pdl_printf(out, "  %.*f samples/s\n", l->samples_per_s < 10 ? 2 : 0,
               l->samples_per_s);
    fflush(stdout);
}

static void write_log(struct session *s, const struct pdl_train_line *l)
{
    double step[] = {l->loss, l->lr, l->samples_per_s, l->grad_norm, NAN,
                     NAN,     NAN};
    double test[] = {NAN,          NAN,           NAN,        NAN,
                     l->test_loss, l->perplexity, l->accuracy};

    if (!s->log || s->log_status != PDL_OK)
        return;
    if (!l->epoch_ended) /* steps that are done again after a loss */
        s->log_status = pdl_metrics_back(s->log, l->step - 1, &s->log_err);
    if (s->log_status == PDL_OK && (!l->epoch_ended || !isnan(l->test_loss)))
        s->log_status = pdl_metrics_add(
            s->log, l->step, l->epoch_ended ? test : step, &s->log_err);
}

/* After the step that was measured: the last one in the log. */
static void log_slow(struct session *s, const struct pdl_train_line *l)
{
    for (int i = 0; s->log && i < l->nslow && s->log_status == PDL_OK; i++)
        s->log_status = pdl_metrics_remark(
            s->log, pdl_metrics_last(s->log), "slow_kernel", l->slow[i].op,
            "share", l->slow[i].share, &s->log_err);
}

/* A warning is a line of its own: {"warning": "..."}. */
static void json_warning(const char *note)
{
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kstr(&j, "warning", note);
    pdl_json_end(&j);
    fflush(stdout);
}

void train_tell_line(void *ctx, const struct pdl_train_line *l)
{
    struct session *s = ctx;

    if (l->note) {
        train_erase(s);
        s->resumed_at = l->step; /* 0 but for the note that says so */
        if (!s->args->quiet)
            fprintf(stderr, "paradl: %s\n", l->note);
        if (l->warns && s->args->json)
            json_warning(l->note);
        log_slow(s, l);
        return;
    }
    if (l->epoch_ended)
        train_erase(s);
    if (s->args->json)
        json_line(s, l);
    else
        text_line(s, l);
    write_log(s, l);
    progress(s, l);
}

static void memory_json(struct pdl_json *j, const struct pdl_train_memory *m)
{
    pdl_json_key(j, "memory");
    pdl_json_object(j);
    pdl_json_kint(j, "tensors_bytes", m->arena);
    pdl_json_kint(j, "live_bytes", m->live);
    pdl_json_kint(j, "weights_bytes", m->state);
    pdl_json_kint(j, "optimizer_bytes", m->optimizer);
    pdl_json_kint(j, "workspace_bytes", m->scratch);
    pdl_json_kint(j, "taken_bytes", m->taken);
    pdl_json_kint(j, "far_bytes", m->far);
    pdl_json_end(j);
}

static void classes_json(struct pdl_json *j, const struct pdl_train_summary *x)
{
    if (x->nclasses == 0)
        return;
    pdl_json_key(j, "by_class");
    pdl_json_array(j);
    for (int c = 0; c < x->nclasses; c++)
        pdl_json_num(j, x->by_class[c]);
    pdl_json_end(j);
}

static void summary_json(struct session *s)
{
    const struct pdl_train_summary *x = &s->summary;
    struct pdl_json j;
    char hash[17];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->from.hash);
    pdl_json_init(&j, run_out());
    j.compact = true;
    pdl_json_schema(&j, "train");
    pdl_json_kstr(&j, "plan_hash", hash);
    pdl_json_kint(&j, "ranks", s->plan->mesh->pes * s->sites.sites);
    pdl_json_kint(&j, "batch", s->plan->batch * s->sites.sites);
    pdl_json_kint(&j, "steps", x->steps);
    pdl_json_kint(&j, "resumed_at", x->resumed_at);
    pdl_json_kbool(&j, "stopped", x->stopped);
    pdl_json_knum(&j, "final_loss", x->final_loss);
    pdl_json_knum(&j, "test_loss", x->test_loss);
    if (!isnan(x->perplexity))
        pdl_json_knum(&j, "perplexity", x->perplexity);
    pdl_json_knum(&j, "accuracy", x->accuracy);
    classes_json(&j, x);
    pdl_json_knum(&j, "test_s", x->test_s);
    pdl_json_knum(&j, "samples_per_s", x->samples_per_s);
    pdl_json_knum(&j, "step_s", x->step_s);
    pdl_json_knum(&j, "cpu_s_per_step", x->cpu_s_per_step);
    pdl_json_knum(&j, "io_s", x->io_s);
    if (s->o.checkpoint)
        pdl_json_knum(&j, "checkpoint_stall_s", x->stall_s);
    if (s->o.store) {
        pdl_json_key(&j, "store");
        pdl_json_object(&j);
        pdl_json_kint(&j, "file_bytes", x->store_bytes);
        pdl_json_kint(&j, "exchanged", x->exchanged);
        pdl_json_knum(&j, "exchange_s", x->exchange_s);
        pdl_json_end(&j);
    }
    memory_json(&j, &x->memory);
    pdl_json_end(&j);
}

/* --size */
static void size_told(struct session *s)
{
    const struct pdl_train_summary *x = &s->summary;
    struct pdl_sink *out = run_out();
    char a[32], b[32];
    struct pdl_json j;

    if (!s->args->json) {
        pdl_printf(out, "a rank takes %s",
                   pdl_unit_format((double)x->most_bytes, PDL_UNIT_BYTES, a,
                                   sizeof a));
        if (x->memory.far > 0)
            pdl_printf(out, ", %s wait elsewhere",
                       pdl_unit_format((double)x->memory.far, PDL_UNIT_BYTES, b,
                                       sizeof b));
        pdl_printf(out, "\n");
        if (*s->on_host)
            pdl_printf(out, "the host runs for the device: %s\n", s->on_host);
        return;
    }
    pdl_json_init(&j, out);
    j.compact = true;
    pdl_json_schema(&j, "train-size");
    pdl_json_kint(&j, "ranks", s->plan->mesh->pes);
    pdl_json_kint(&j, "batch", s->plan->batch);
    pdl_json_kint(&j, "most_bytes", x->most_bytes);
    if (*s->on_host)
        pdl_json_kstr(&j, "on_host", s->on_host);
    if (s->copy_rate > 0)
        pdl_json_knum(&j, "copy_bytes_per_s", s->copy_rate);
    if (s->update_rate > 0)
        pdl_json_knum(&j, "update_bytes_per_s", s->update_rate);
    pdl_json_kint(&j, "host_left_bytes", s->host_left);
    memory_json(&j, &x->memory);
    pdl_json_end(&j);
}

static void summary_text(struct session *s)
{
    const struct pdl_train_summary *x = &s->summary;
    struct pdl_sink *out = run_out();
    char a[32], b[32], m[32];

    pdl_printf(out, "%s after %lld steps: loss %.6f",
               x->stopped ? "stopped" : "done", (long long)x->steps,
               x->final_loss);
    put_score(out, ", ", x->test_loss, x->perplexity, x->accuracy);
    pdl_printf(out, "\n");
    if (x->steps > x->resumed_at)
        pdl_printf(
            out, "%.*f samples/s; a step takes %s and %s of processor time\n",
            x->samples_per_s < 10 ? 2 : 0, x->samples_per_s,
            pdl_unit_format(x->step_s, PDL_UNIT_SECONDS, a, sizeof a),
            pdl_unit_format(x->cpu_s_per_step, PDL_UNIT_SECONDS, b, sizeof b));
    if (s->o.store)
        pdl_printf(
            out,
            "a store of %s; %lld samples came from other ranks, a step "
            "waits %s\n",
            pdl_unit_format((double)x->store_bytes, PDL_UNIT_BYTES, a,
                            sizeof a),
            (long long)x->exchanged,
            pdl_unit_format(x->exchange_s, PDL_UNIT_SECONDS, b, sizeof b));
    pdl_printf(
        out, "%s of tensors on a rank",
        pdl_unit_format((double)x->memory.arena, PDL_UNIT_BYTES, m, sizeof m));
    if (x->memory.far > 0)
        pdl_printf(out, ", %s wait elsewhere",
                   pdl_unit_format((double)x->memory.far, PDL_UNIT_BYTES, m,
                                   sizeof m));
    pdl_printf(out, "\n");
}

/* One answer, no steps. */
static void evaluation(struct session *s)
{
    const struct pdl_train_summary *x = &s->summary;
    struct pdl_sink *out = run_out();
    struct pdl_json j;

    if (!s->args->json) {
        pdl_printf(out, "%lld samples of '%s'", (long long)x->test_samples,
                   s->o.split ? s->o.split : "test");
        put_score(out, ", ", x->test_loss, x->perplexity, x->accuracy);
        pdl_printf(out, "\n");
        return;
    }
    pdl_json_init(&j, out);
    pdl_json_schema(&j, "evaluate");
    pdl_json_kstr(&j, "split", s->o.split ? s->o.split : "test");
    pdl_json_kint(&j, "samples", x->test_samples);
    pdl_json_knum(&j, "loss", x->test_loss);
    pdl_json_knum(&j, "perplexity", x->perplexity);
    pdl_json_knum(&j, "accuracy", x->accuracy);
    classes_json(&j, x);
    pdl_json_end(&j);
}

enum pdl_status train_open_log(struct session *s, struct pdl_err *err)
{
    static const char *const columns[] = {
        "loss",      "lr",         "samples_per_s", "grad_norm",
        "test_loss", "perplexity", "accuracy"};

    if (!s->o.log || s->rank != 0)
        return PDL_OK;
    return pdl_metrics_open(s->o.log, columns, 7, s->o.resume ? INT64_MAX : 0,
                            &s->log, err);
}

enum pdl_status train_close_log(struct session *s, enum pdl_status st,
                                struct pdl_err *err)
{
    enum pdl_status closed;

    if (!s->log)
        return st;
    closed =
        pdl_metrics_close(s->log, s->log_status == PDL_OK ? &s->log_err : NULL);
    if (s->log_status == PDL_OK)
        s->log_status = closed;
    if (st != PDL_OK || s->log_status == PDL_OK)
        return st;
    *err = s->log_err;
    return s->log_status;
}

void train_summary(struct session *s)
{
    if (s->o.size)
        size_told(s);
    else if (s->evaluate)
        evaluation(s);
    else if (s->args->json)
        summary_json(s);
    else
        summary_text(s);
}
