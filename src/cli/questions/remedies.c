/* SPDX-License-Identifier: Apache-2.0
 *
 * What would make a plan fit that does not: small changes of the strategy and
 * the batch, each lowered and priced like any other, the first of its kind
 * that fits. Nothing is estimated: a remedy that is printed has been priced.
 * What cannot fit is not lowered: a change leaves at least those bytes of the
 * fullest moment that it does not touch. */
#include "cli/output/projection.h"

#include <stdio.h>

/* One kind of change; n goes 2, 4, 8 ... until it fits or is refused. */
struct change {
    const char *what; /* for people, with n */
    bool (*apply)(struct pdl_strategy *s, int64_t *batch, int64_t n);
    double (*least)(const struct cli_job *j, int64_t n); /* bytes of a PE */
};

static struct pdl_term *data_term(struct pdl_strategy *s)
{
    for (int i = 0; i < s->clause[0].nterms; i++)
        if (s->clause[0].term[i].axis == PDL_AXIS_DATA)
            return &s->clause[0].term[i];
    return NULL;
}

static bool has_pipe(const struct pdl_strategy *s)
{
    for (int i = 0; i < s->clause[0].nterms; i++)
        if (s->clause[0].term[i].axis == PDL_AXIS_PIPE)
            return true;
    return false;
}

/* n micro-batches, or one for each sample where n does not divide them. */
static bool micro_batches(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    struct pdl_term *t = data_term(s);
    int64_t samples = *batch / (t ? t->size[0] : 1);
    int64_t *count = has_pipe(s) ? &s->micro_batches : &s->accumulate;
    int64_t before = *count > 0 ? *count : 1;

    if (before * (n / 2) >= samples)
        return false;
    n *= before;
    *count = samples % n == 0 ? n : samples;
    return true;
}

static bool shard(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    (void)batch;
    if (s->zero > 0 || n > 4)
        return false;
    s->zero = n == 2 ? 1 : 3;
    return true;
}

static bool recompute(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    (void)batch;
    if (s->recompute != PDL_RECOMPUTE_NONE || n > 4)
        return false;
    s->recompute = n == 2 ? PDL_RECOMPUTE_SELECTIVE : PDL_RECOMPUTE_FULL;
    return true;
}

static bool more_pes(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    struct pdl_term *t = s->nclauses == 1 ? data_term(s) : NULL;

    (void)batch;
    if (!t || n > 1024)
        return false;
    t->size[0] *= n;
    return true;
}

static bool less_batch(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    (void)s;
    if (*batch % n != 0)
        return false;
    *batch /= n;
    return true;
}

/* Together, as small as micro-batches go; for when nothing alone is enough. */
static bool smallest(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    int64_t most = 2;

    while (most < *batch / 2)
        most *= 2;
    while (most >= 2 && !micro_batches(s, batch, most))
        most /= 2;
    return shard(s, batch, n) && (most >= 2 || n > 2);
}

static bool everything(struct pdl_strategy *s, int64_t *batch, int64_t n)
{
    return smallest(s, batch, n) && recompute(s, batch, 4);
}

/* ---- what stays -------------------------------------------------------- */

static double state(const struct cli_job *j)
{
    return (double)(j->x.weights_bytes + j->x.optimizer_bytes);
}

/* A rank's share of n times fewer samples; half of that, for shares are not
 * even. */
static double fewer_samples(const struct cli_job *j, int64_t n)
{
    return state(j) + (double)j->x.activations_bytes / (double)(2 * n);
}

/* With sharded states, more PEs hold less of them. */
static double spread(const struct cli_job *j, int64_t n)
{
    return j->asked.zero > 0 ? 0 : fewer_samples(j, n);
}

static double recomputed(const struct cli_job *j, int64_t n)
{
    (void)n;
    return state(j);
}

static double sharded_alone(const struct cli_job *j, int64_t n)
{
    return (double)j->x.activations_bytes +
           (n == 2 ? (double)j->x.weights_bytes : 0);
}

static double sharded(const struct cli_job *j, int64_t n)
{
    return n == 2 ? (double)j->x.weights_bytes : 0;
}

// clang-format off
static const struct change changes[] = {
    {"micro-batches",   micro_batches, fewer_samples},
    {"sharded states",  shard,         sharded_alone},
    {"recomputation",   recompute,     recomputed},
    {"more PEs",        more_pes,      spread},
    {"a smaller batch", less_batch,    fewer_samples},
    {"micro, sharded",  smallest,      sharded},
    {"and recomputed",  everything,    sharded},
};
// clang-format on
enum { NCHANGES = sizeof changes / sizeof changes[0], NALONE = 5 };

/* Prices the changed question; what is kept goes to `keep`. False and
 * *refused: no use to go on. */
static bool attempt(pdl_arena *keep, const struct cli_question *q,
                    const struct cli_job *j, const struct change *c, int64_t n,
                    struct cli_remedy *out, bool *refused)
{
    struct pdl_strategy s = j->asked;
    struct cli_job other = {.job = NULL};
    struct cli_question ask = *q;
    struct pdl_buf text;
    bool fits = false;

    *refused = true;
    ask.pes = 0;
    if (!c->apply(&s, &ask.batch, n))
        return false;
    if (c->least(j, n) > (double)j->x.capacity_bytes ||
        pdl_framework_can(j->oracle.framework, &s, NULL) != PDL_OK) {
        *refused = false;
        return false;
    }
    pdl_buf_init(&text);
    pdl_strategy_print(&s, &text.sink);
    *refused = text.sink.failed || cli_job_fork(j, &other, NULL) != PDL_OK ||
               cli_job_price(&ask, text.text, &other, NULL) != PDL_OK;
    fits = !*refused && other.x.feasible;
    *out = (struct cli_remedy){c->what,
                               fits ? pdl_arena_strdup(keep, text.text) : NULL,
                               ask.batch, other.x.step_s};
    cli_job_close(&other);
    pdl_buf_free(&text);
    return fits;
}

int cli_remedies(pdl_arena *a, const struct cli_question *q,
                 const struct cli_job *j, struct cli_remedy *out)
{
    int found = 0;

    for (int i = 0; i < NCHANGES && (i < NALONE || found == 0); i++) {
        bool refused = false, fits = false;

        for (int64_t n = 2; !refused && !fits && n <= j->x.batch; n *= 2)
            fits = attempt(a, q, j, &changes[i], n, &out[found], &refused);
        found += fits && out[found].strategy;
    }
    return found;
}

void cli_remedies_text(const struct cli_remedy *r, int n)
{
    char t[32];

    if (n > 0)
        cli_head("It fits with");
    for (int i = 0; i < n; i++)
        cli_say(19, "  %-16s %s, batch %lld: %s a step", r[i].what,
                r[i].strategy, (long long)r[i].batch,
                pdl_unit_format(r[i].step_s, PDL_UNIT_SECONDS, t, sizeof t));
}

void cli_remedies_json(struct pdl_json *w, const struct cli_remedy *r, int n)
{
    pdl_json_key(w, "fits_with");
    pdl_json_array(w);
    for (int i = 0; i < n; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "change", r[i].what);
        pdl_json_kstr(w, "strategy", r[i].strategy);
        pdl_json_kint(w, "batch", r[i].batch);
        pdl_json_knum(w, "step_s", r[i].step_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}
