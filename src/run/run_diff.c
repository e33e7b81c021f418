/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run diff-run: where two runs part. Two plans of one model are
 * run side by side and compared tensor by tensor; two logs of runs (--log)
 * are compared step by step, two folders of checkpoints tensor by tensor. */
#include "diff_checkpoints.h"
#include "options/diff_options.h"
#include "run_priv.h"
#include "train_plan.h"
#include "paradl/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_LOG = 1 << 28, MAX_LINE = 4096 };

/* ---- plans ------------------------------------------------------------ */

static void print_json(const struct pdl_train_diff *d)
{
    struct pdl_json j;

    pdl_json_init(&j, run_out());
    pdl_json_schema(&j, "diff-run");
    pdl_json_kbool(&j, "equal", !d->differs || d->rounding);
    if (d->rechecked) {
        pdl_json_kbool(&j, "equal_in_float64", !d->recheck_differs);
        pdl_json_knum(&j, "share_of_elements", d->share);
    }
    pdl_json_kint(&j, "compared", d->compared);
    pdl_json_kint(&j, "bitwise", d->bitwise);
    if (d->differs) {
        pdl_json_kint(&j, "step", d->step);
        pdl_json_kint(&j, "micro_batch", d->micro);
        pdl_json_kint(&j, "rank", d->rank);
        pdl_json_kint(&j, "operation", d->op);
        pdl_json_kstr(&j, "tensor", d->what);
        pdl_json_key(&j, "index");
        pdl_json_flat(&j);
        for (int i = 0; i < d->ndims; i++)
            pdl_json_int(&j, d->index[i]);
        pdl_json_end(&j);
        pdl_json_knum(&j, "a", d->want);
        pdl_json_knum(&j, "b", d->got);
    }
    pdl_json_end(&j);
}

static void print_again(const struct pdl_train_diff *d)
{
    struct pdl_sink *out = run_out();

    if (!d->rechecked)
        return;
    pdl_printf(
        out, "  %.2g %% of its elements differ; in float64 the runs %s\n",
        100 * d->share, d->recheck_differs ? "differ, too" : "are equal");
    if (d->rounding)
        pdl_printf(out, "  so it is rounding: a rectifier or a maximum that "
                        "falls the other way\n");
    else if (!d->recheck_differs)
        pdl_printf(out, "  so it is the float32 kernels: too many elements for "
                        "a rectifier at 0\n");
}

/* parts: of what was compared; runs that have been know no operations. */
static void print_text(const struct pdl_train_diff *d, const char *parts)
{
    struct pdl_sink *out = run_out();

    if (!d->differs) {
        pdl_printf(out, "equal: %lld %s compared, %lld of them bit for bit\n",
                   (long long)d->compared, parts, (long long)d->bitwise);
        return;
    }
    pdl_printf(out, "first difference: step %lld", (long long)d->step);
    if (d->op >= 0)
        pdl_printf(out, ", rank %lld, operation %d", (long long)d->rank, d->op);
    pdl_printf(out, "\n  %s\n", d->what);
    for (int i = 0; i < d->ndims; i++)
        pdl_printf(out, "%s%lld%s", i ? "," : "  at [", (long long)d->index[i],
                   i + 1 == d->ndims ? "]\n" : "");
    print_again(d);
    if (!isnan(d->want) || !isnan(d->got))
        pdl_printf(out, "  A %.17g\n  B %.17g%s\n", d->want, d->got,
                   d->exact ? " (no sum crossed ranks: must be equal)" : "");
}

/* In float32 a rectifier or a maximum falls the other way where two sums
 * differ by a rounding, and the gradient of that element is then another one.
 * Such a difference is of a few elements, in backward or later, and is gone in
 * float64. */
static enum pdl_status look_again(pdl_arena *a, struct pdl_train_comparison *c,
                                  struct pdl_train_diff *d, struct pdl_err *err)
{
    static const double FEW = 0.02;
    const struct pdl_plan **plans[] = {&c->a, &c->b};
    struct pdl_train_diff again = {.differs = false};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < 2 && st == PDL_OK; i++) {
        const struct pdl_plan *p = *plans[i];
        struct pdl_plan_options po = {
            .batch = p->batch, .dtype = PDL_F64, .allow_empty = true};

        st = pdl_plan_lower(a, p->model, p->strategy, &po, plans[i], err);
    }
    c->opt.backend = "ref";
    c->tolerance = 1e-9;
    if (st == PDL_OK)
        st = pdl_train_compare(c, &again, err);
    if (st != PDL_OK)
        return st;
    d->rechecked = true;
    d->recheck_differs = again.differs;
    d->rounding = !again.differs && !d->forward && d->share <= FEW;
    return PDL_OK;
}

static enum pdl_status diff_plans(pdl_arena *a, const struct pdl_args *args,
                                  struct pdl_train_diff *d, struct pdl_err *err)
{
    const struct diff_options *o = args->opts;
    bool single = o->precision && strcmp(o->precision, "fp32") == 0;
    struct train_plan of[2];
    bool ref = !o->backend || strcmp(o->backend, "ref") == 0;
    struct pdl_train_comparison c = {
        .opt = {.backend = o->backend ? o->backend : "ref",
                .optimizer = o->optimizer,
                .seed = (uint64_t)o->seed,
                .poison = true},
        .steps = o->steps > 0 ? o->steps : 2,
        .lr = o->lr > 0 ? o->lr : 0.01,
        .tolerance = o->tolerance > 0 ? o->tolerance
                     : single         ? 1e-3
                                      : 1e-9,
        .exact = ref};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < 2 && st == PDL_OK; i++)
        st = train_plan_read(a, args->pos[i], NULL, false, &of[i], err);
    c.a = of[0].plan;
    c.b = of[1].plan;
    if (st == PDL_OK)
        st = pdl_train_compare(&c, d, err);
    return st == PDL_OK && single && d->differs ? look_again(a, &c, d, err)
                                                : st;
}

/* ---- logs ------------------------------------------------------------- */

struct log {
    const char *at;
    int64_t step;
    double loss;
};

static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    char *end;
    double x;

    if (!at)
        return NAN;
    at += strlen(key);
    at += strspn(at, " ");
    x = pdl_strtod(at, &end);
    return end == at ? NAN : x; /* null: it was no number */
}

/* The next line that has a step and a loss; JSON lines of train. */
static bool next_step(struct log *l)
{
    char line[MAX_LINE];
    double step;

    while (*l->at) {
        size_t n = strcspn(l->at, "\n");

        snprintf(line, sizeof line, "%.*s", n < MAX_LINE ? (int)n : MAX_LINE,
                 l->at);
        l->at += n + (l->at[n] == '\n');
        if (!strstr(line, "\"step\":") || !strstr(line, "\"loss\":") ||
            strstr(line, "\"epoch_ended\"") || strstr(line, "\"schema\""))
            continue;
        step = number_of(line, "\"step\":");
        l->step = step >= 0 && step < 1e18 ? (int64_t)step : 0;
        l->loss = number_of(line, "\"loss\":");
        return true;
    }
    return false;
}

static bool same_loss(const struct log *a, const struct log *b, double share)
{
    return (isnan(a->loss) && isnan(b->loss)) ||
           fabs(a->loss - b->loss) <= share * fabs(a->loss);
}

static enum pdl_status diff_logs(pdl_arena *a, const struct pdl_args *args,
                                 struct pdl_train_diff *d, struct pdl_err *err)
{
    const struct diff_options *o = args->opts;
    struct pdl_bytes in[2];
    struct log log[2];
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < 2 && st == PDL_OK; i++) {
        st = pdl_file_read(a, args->pos[i], MAX_LOG, &in[i], err);
        if (st == PDL_OK)
            log[i] = (struct log){in[i].data, -1, 0};
    }
    while (st == PDL_OK && !d->differs && next_step(&log[0]) &&
           next_step(&log[1])) {
        bool same = log[0].step == log[1].step;

        d->compared++;
        d->bitwise += same_loss(&log[0], &log[1], 0);
        if (same && same_loss(&log[0], &log[1], o->tolerance))
            continue;
        d->differs = true;
        d->step = log[0].step;
        d->want = same ? log[0].loss : (double)log[0].step;
        d->got = same ? log[1].loss : (double)log[1].step;
        snprintf(d->what, sizeof d->what, "%s", same ? "loss" : "step");
    }
    if (st == PDL_OK && d->compared == 0)
        st = pdl_fail(err, PDL_EPARSE, "%s: no steps of train --json in it",
                      args->pos[log[0].step < 0 ? 0 : 1]);
    return st;
}

static bool is_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static enum pdl_status diff_any(pdl_arena *a, const struct pdl_args *args,
                                struct pdl_train_diff *d, const char **parts,
                                struct pdl_err *err)
{
    const struct diff_options *o = args->opts;

    *parts = "parts of tensors";
    if (o->model)
        return diff_plans(a, args, d, err);
    d->op = -1;
    *parts = "tensors of checkpoints";
    if (is_folder(args->pos[0]) && is_folder(args->pos[1]))
        return run_diff_checkpoints(args->pos[0], args->pos[1], o->tolerance, d,
                                    err);
    *parts = "losses";
    return diff_logs(a, args, d, err);
}

static int run(const struct pdl_args *args)
{
    struct pdl_train_diff d = {.differs = false};
    struct pdl_err err = {"", ""};
    const char *parts = "";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    enum pdl_status st = a ? diff_any(a, args, &d, &parts, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");

    pdl_arena_destroy(a);
    if (st != PDL_OK)
        return run_fail(st, &err);
    if (args->json)
        print_json(&d);
    else
        print_text(&d, parts);
    return d.differs && !d.rounding ? EXIT_NO : EXIT_OK;
}

const struct pdl_cmd run_diff = {
    .name = "diff-run",
    .args = "A B",
    .min_pos = 2,
    .max_pos = 2,
    .summary = "the first tensor in which two strategies differ",
    .text = "See paradl diff-run, which starts this.",
    .example = "paradl-run diff-run --help",
    .opts = diff_opts,
    .nopts = NDIFF_OPTS,
    .opts_size = sizeof(struct diff_options),
    .run = run,
};
