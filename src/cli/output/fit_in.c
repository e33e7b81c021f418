/* SPDX-License-Identifier: Apache-2.0
 *
 * What paradl fit-in prints. */
#include "cli/output/fit_in.h"

#include <stdio.h>
#include <string.h>

double cli_fit_train_s(const struct cli_fit *k, const struct cli_fit_trial *t)
{
    return t->x.step_s * (double)k->o->train / (double)t->batch;
}

double cli_fit_train_cost(const struct cli_fit *k,
                          const struct cli_fit_trial *t)
{
    return t->bill.cost * (double)k->o->train / (double)t->batch;
}

static void one_json(struct pdl_json *w, const struct cli_fit *k,
                     const char *key, const struct cli_fit_trial *t)
{
    pdl_json_key(w, key);
    pdl_json_row(w);
    pdl_json_kbool(w, "fits", t->fits);
    if (t->strategy && (t->fits || t->x.step_s > 0)) {
        pdl_json_kint(w, "pes", t->pes);
        pdl_json_kint(w, "batch", t->batch);
        if (t->tokens > 0)
            pdl_json_kint(w, "tokens", t->tokens);
        if (t->layers > 0)
            pdl_json_kint(w, "layers", t->layers);
        if (t->most)
            pdl_json_kbool(w, "or_more", true);
        pdl_json_kstr(w, "strategy", t->strategy);
        pdl_json_knum(w, "step_s", t->x.step_s);
        pdl_json_kint(w, "peak_bytes", t->x.peak_bytes);
        pdl_json_knum(
            w, "headroom",
            1 - (double)t->x.peak_bytes / (double)t->x.capacity_bytes);
        pdl_json_kbool(w, "tight", pdl_memory_tight(&t->x));
        if (k->o->train > 0) {
            pdl_json_knum(w, "train_s", cli_fit_train_s(k, t));
            pdl_json_knum(w, "cost", cli_fit_train_cost(k, t));
        }
    }
    pdl_json_end(w);
}

/* Of the first whose memory is nearly full; the others are alike. */
static void note_tight(const struct cli_fit_answers *x, struct cli_notes *out)
{
    const struct cli_fit_trial *all[] = {&x->as_asked, &x->batch,  &x->pes,
                                         &x->sequence, &x->layers, &x->deadline,
                                         &x->budget};
    char note[256];

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->fits && cli_memory_note(&all[i]->x, note, sizeof note)) {
            cli_note(out, note);
            return;
        }
}

/* As asked, and of the model and system alone where that does not fit. */
static void notes_of(const struct cli_fit *k, const struct cli_fit_answers *x,
                     struct cli_notes *out)
{
    if (x->as_asked.fits)
        cli_job_notes(k->j, out);
    else
        cli_given_notes(k->j, out);
    if (k->j->oracle.headroom < PDL_MEMORY_ERROR && !pdl_memory_tight(&k->j->x))
        note_tight(x, out);
}

void cli_fit_json(struct pdl_json *w, const struct cli_fit *k,
                  const struct cli_fit_answers *x)
{
    struct cli_notes notes;

    pdl_json_kstr(w, "model", k->model);
    pdl_json_kstr(w, "system", k->o->q.system);
    pdl_json_kstr(w, "framework", k->whose.name);
    pdl_json_kstr(w, "framework_why", k->whose.why);
    pdl_json_kint(w, "searches", k->searches);
    one_json(w, k, "as_asked", &x->as_asked);
    one_json(w, k, "largest_batch", &x->batch);
    one_json(w, k, "fewest_pes", &x->pes);
    if (k->j->model->tokens > 0)
        one_json(w, k, "longest_sequence", &x->sequence);
    if (cli_fit_layers(k->model) > 0)
        one_json(w, k, "most_layers", &x->layers);
    if (k->o->deadline_s > 0)
        one_json(w, k, "deadline", &x->deadline);
    if (k->o->budget > 0)
        one_json(w, k, "budget", &x->budget);
    cli_methods_json(w, &x->methods);
    notes_of(k, x, &notes);
    cli_notes_json(w, &notes);
}

/* The size that the question is about may be larger. */
static const char *more(const struct cli_fit_trial *t, const char *what,
                        const char *size)
{
    return t->most && strstr(what, size) ? " or more" : "";
}

static void one_text(const struct cli_fit *k, const char *what,
                     const struct cli_fit_trial *t)
{
    char a[32], b[32], c[32];
    struct pdl_sink *out = cli_out();

    if (!t->fits) {
        pdl_printf(out, "%-17s none fits\n", what);
        return;
    }
    pdl_printf(out, "%-17s %lld PE%s, batch %lld%s", what, (long long)t->pes,
               t->pes == 1 ? "" : "s", (long long)t->batch,
               more(t, what, "batch"));
    if (t->tokens > 0)
        pdl_printf(out, ", %lld tokens%s", (long long)t->tokens,
                   more(t, what, "sequence"));
    if (t->layers > 0)
        pdl_printf(out, ", %lld layers%s", (long long)t->layers,
                   more(t, what, "layers"));
    pdl_puts(out, "\n");
    cli_say(
        6, "    %s: %s a step, %s of a PE", t->strategy,
        cli_span(t->x.step_s, a, sizeof a),
        pdl_unit_format((double)t->x.peak_bytes, PDL_UNIT_BYTES, b, sizeof b));
    if (k->o->train > 0)
        pdl_printf(out, "    %lld samples in %s", (long long)k->o->train,
                   cli_span(cli_fit_train_s(k, t), c, sizeof c));
    if (k->o->train > 0 && t->bill.cost > 0)
        pdl_printf(out,
                   cli_fit_train_cost(k, t) < 1e3 ? " for %.4g" : " for %.0f",
                   cli_fit_train_cost(k, t));
    if (k->o->train > 0)
        pdl_puts(out, "\n");
}

void cli_fit_text(const struct cli_fit *k, const struct cli_fit_answers *x)
{
    struct cli_notes notes;

    cli_say(2, "%s on %s, %s%s (%s)", k->j->model->name, k->j->sys.name,
            cli_framework_none(k->whose.name) ? "" : "for ",
            cli_framework_none(k->whose.name) ? "ideal: no framework runs this"
                                              : k->whose.name,
            k->whose.why);
    one_text(k, "as asked", &x->as_asked);
    one_text(k, "largest batch", &x->batch);
    one_text(k, "fewest PEs", &x->pes);
    if (k->j->model->tokens > 0)
        one_text(k, "longest sequence", &x->sequence);
    if (cli_fit_layers(k->model) > 0)
        one_text(k, "most layers", &x->layers);
    if (k->o->deadline_s > 0)
        one_text(k, "in time", &x->deadline);
    if (k->o->budget > 0)
        one_text(k, "within budget", &x->budget);
    cli_methods_text(&x->methods);
    pdl_printf(cli_out(), "%lld searches; sizes are tried by doubling%s\n",
               (long long)k->searches,
               x->batch.most || x->sequence.most || x->layers.most
                   ? "; or more: no larger one was"
                   : "");
    notes_of(k, x, &notes);
    cli_notes_text(&notes);
}
