/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a job: model and system, the options of the oracle, the plan, its
 * price; each step where the one before it left off. */
#include "job_priv.h"

#include <string.h>

enum { MAX_PLAN = 1 << 29 };

static enum pdl_status missing(const char *what, struct pdl_err *err)
{
    pdl_fail(err, PDL_EINVAL, "the job has no %s", what);
    pdl_hint(err, "pdl_job_set(job, \"%s\", ...)", what);
    return PDL_EINVAL;
}

/* ---- model and system -------------------------------------------------- */

static enum pdl_status read_plan(pdl_job *j, struct pdl_err *err)
{
    const char *path = j->text[JOB_PLAN];
    struct pdl_err inner = {"", ""};
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(j->source, path, MAX_PLAN, &in, err);

    if (st == PDL_OK)
        st = pdl_plan_read(j->source, in, path, NULL, &j->head, &j->file, err);
    if (st != PDL_OK)
        return st;
    j->model = j->file->model;
    st = pdl_plan_check(j->file, &inner);
    return st == PDL_OK ? st
                        : pdl_fail(err, st == PDL_EWRONG ? PDL_EINVAL : st,
                                   "%s: %s", path, inner.msg);
}

static bool wants_logits(const pdl_job *j)
{
    const char *loss = j->text[JOB_LOSS];

    return loss && strcmp(loss, "mean-squares") != 0;
}

static enum pdl_status read_model(pdl_job *j, struct pdl_err *err)
{
    struct pdl_model_options mo = {.dims = j->text[JOB_DIM],
                                   .logits = wants_logits(j),
                                   /* what is trained has the file's weights */
                                   .families = !j->text[JOB_LOSS]};
    enum pdl_status st;

    if (!j->text[JOB_MODEL])
        return missing("model", err);
    st = pdl_model_load(j->source, j->text[JOB_MODEL], &mo, &j->model, err);
    if (st != PDL_OK || j->model->nunbound == 0)
        return st;
    pdl_fail(err, PDL_EINVAL,
             "%s: the size of '%s' is not known: what it "
             "costs cannot be told",
             j->model->name, j->model->unbound[0]);
    pdl_hint(err, "--dim %s=N binds it; 'paradl model show' names them all",
             j->model->unbound[0]);
    return PDL_EINVAL;
}

static enum pdl_status load(pdl_job *j, struct pdl_err *err)
{
    const char *system = j->text[JOB_SYSTEM];
    enum pdl_status st;

    pdl_arena_reset(j->source);
    j->head = (struct pdl_plan_head){.model = NULL};
    j->file = NULL;
    st = j->text[JOB_PLAN] ? read_plan(j, err) : read_model(j, err);
    if (!system)
        system = j->head.system;
    j->has_system = system != NULL || j->given != NULL;
    if (j->given)
        j->base = *j->given;
    else if (st == PDL_OK && system)
        st = pdl_system_open(j->source, system, &j->base, err);
    if (st == PDL_OK)
        j->state = JOB_LOADED;
    return st;
}

/* Bytes are counted in 64 bits, so those of a batch must fit there: of every
 * element a value and a gradient of 8 bytes, on one PE. */
static enum pdl_status check_batch(const pdl_job *j, struct pdl_err *err)
{
    enum { EACH = 16 };
    struct pdl_model_totals t = {.activations = 0};
    int64_t batch = j->count[JOB_BATCH], n;

    if (!j->text[JOB_BATCH] || !j->model ||
        pdl_model_totals(j->model, &t, NULL) != PDL_OK)
        return PDL_OK; /* who needs them says so */
    return pdl_mul64(t.activations, batch, &n) && pdl_mul64(n, EACH, &n)
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "a batch of %lld samples of %s is too large to count "
                          "its bytes; at most %lld",
                          (long long)batch, j->model->name,
                          (long long)(INT64_MAX / EACH / t.activations));
}

enum pdl_status pdl_job_open(pdl_job *j, struct pdl_err *err)
{
    enum pdl_status st = job_may(j, err);

    if (st == PDL_OK && j->state < JOB_LOADED)
        st = load(j, err);
    if (st != PDL_OK || j->state >= JOB_SETTLED)
        return st;
    j->sys = j->base;
    st = job_settle(j, err);
    if (st == PDL_OK)
        st = check_batch(j, err);
    if (st == PDL_OK && j->has_system && j->count[JOB_PES] > 0)
        st = pdl_system_for_pes(j->source, &j->sys, j->count[JOB_PES], err);
    if (st == PDL_OK)
        j->state = JOB_SETTLED;
    return st;
}

/* ---- plan and price ---------------------------------------------------- */

static enum pdl_status check_pes(const pdl_job *j, struct pdl_err *err)
{
    if (j->count[JOB_PES] == 0 || j->count[JOB_PES] == j->plan->mesh->pes)
        return PDL_OK;
    return pdl_fail(
        err, PDL_EINVAL, "the strategy multiplies to %lld PEs, not %lld",
        (long long)j->plan->mesh->pes, (long long)j->count[JOB_PES]);
}

static struct pdl_plan_options plan_options(const pdl_job *j)
{
    return (struct pdl_plan_options){
        .batch = j->count[JOB_BATCH],
        .allow_empty = j->count[JOB_ALLOW_EMPTY] != 0,
        /* sums over all classes that no exchange of the plan makes */
        .gather_classes = j->text[JOB_LOSS] &&
                          strcmp(j->text[JOB_LOSS], "cross-entropy") != 0};
}

/* On the groups of nodes that it names, in the order of its ranks. */
static enum pdl_status lay(pdl_job *j, int64_t batch, struct pdl_err *err)
{
    struct pdl_system now = j->sys;

    return j->has_system ? pdl_strategy_lay(j->step, &now, j->oracle.precision,
                                            batch, j->strategy, &j->sys, err)
                         : PDL_OK;
}

static enum pdl_status lower(pdl_job *j, struct pdl_err *err)
{
    struct pdl_plan_options po = plan_options(j);
    enum pdl_status st;

    if (!j->text[JOB_STRATEGY])
        return missing("strategy", err);
    if (!j->text[JOB_BATCH])
        return missing("batch", err);
    st = pdl_strategy_parse(j->step, j->text[JOB_STRATEGY], j->asked, err);
    *j->strategy = *j->asked;
    if (st == PDL_OK)
        st = lay(j, po.batch, err);
    return st == PDL_OK ? pdl_oracle_lower(
                              j->step, j->model, j->has_system ? &j->sys : NULL,
                              &j->oracle, &po, j->strategy, &j->plan, err)
                        : st;
}

enum pdl_status pdl_job_lower(pdl_job *j, struct pdl_err *err)
{
    enum pdl_status st = pdl_job_open(j, err);

    if (st != PDL_OK || j->state >= JOB_LOWERED)
        return st;
    pdl_arena_reset(j->step);
    if (j->count[JOB_PES] == 0)
        j->sys = j->base; /* the last plan may have made it grow */
    j->asked = PDL_NEW(j->step, struct pdl_strategy, 1);
    j->strategy = PDL_NEW(j->step, struct pdl_strategy, 1);
    if (!j->asked || !j->strategy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (j->file) {
        *j->asked = *j->strategy = *j->file->strategy;
        j->plan = j->file;
        st = lay(j, j->file->batch, err);
    } else {
        st = lower(j, err);
    }
    if (st == PDL_OK)
        st = check_pes(j, err);
    if (st == PDL_OK)
        j->state = JOB_LOWERED;
    return st;
}

static enum pdl_status no_system(const pdl_job *j, struct pdl_err *err)
{
    if (!j->text[JOB_PLAN])
        return missing("system", err);
    pdl_fail(err, PDL_EINVAL, "%s: names no system", j->text[JOB_PLAN]);
    pdl_hint(err, "give a system");
    return PDL_EINVAL;
}

enum pdl_status pdl_job_price(pdl_job *j, struct pdl_err *err)
{
    enum pdl_status st = pdl_job_lower(j, err);

    if (st == PDL_OK && !j->has_system)
        return no_system(j, err);
    if (st == PDL_OK)
        st = job_may(j, err);
    if (st != PDL_OK || j->state >= JOB_PRICED)
        return st;
    st = pdl_system_for_pes(j->source, &j->sys, j->plan->mesh->pes, err);
    if (st == PDL_OK)
        st = pdl_project(j->plan, &j->sys, &j->oracle, &j->x, err);
    if (st == PDL_OK)
        j->state = JOB_PRICED;
    return st;
}

/* ---- a price without a plan ---------------------------------------------- */

void job_unsettle(pdl_job *j)
{
    pdl_pricer_destroy(j->pricer);
    j->pricer = NULL;
}

/* False: it takes a plan, or fails as that does. */
static bool compose(pdl_job *j, struct pdl_projection *out)
{
    struct pdl_plan_options po = plan_options(j);
    struct pdl_strategy s;

    if (j->file || !j->has_system || !j->text[JOB_STRATEGY] || po.batch < 1)
        return false;
    if (!j->pricer)
        j->pricer = pdl_pricer_create(j->model, &j->oracle);
    pdl_arena_reset(j->step);
    return j->pricer &&
           pdl_strategy_parse(j->step, j->text[JOB_STRATEGY], &s, NULL) ==
               PDL_OK &&
           pdl_pricer_project(j->pricer, &j->base, &po, &s, out) &&
           (j->count[JOB_PES] == 0 || j->count[JOB_PES] == out->pes);
}

enum pdl_status pdl_job_project(pdl_job *j, struct pdl_projection *out,
                                struct pdl_err *err)
{
    enum pdl_status st = pdl_job_open(j, err);

    if (st == PDL_OK && j->state < JOB_LOWERED && compose(j, out))
        return PDL_OK;
    if (st == PDL_OK)
        st = pdl_job_price(j, err);
    if (st == PDL_OK)
        *out = j->x;
    return st;
}

/* ---- the plan as a file ------------------------------------------------ */

enum pdl_status pdl_job_write_plan(const pdl_job *j, struct pdl_sink *out,
                                   struct pdl_err *err)
{
    struct pdl_plan_head head = {
        .model = j->text[JOB_MODEL],
        .dim = j->text[JOB_DIM],
        .output = wants_logits(j) ? "logits" : NULL,
        .system = j->text[JOB_SYSTEM],
        .precision = pdl_precision_name(j->oracle.precision),
        .optimizer = j->oracle.optimizer_slots == 2 ? "adam" : "sgd"};

    if (j->state < JOB_LOWERED)
        return missing("plan", err);
    pdl_plan_print(j->plan, j->file ? &j->head : &head, out);
    return out->failed
               ? pdl_fail(err, PDL_ENOMEM, "the plan is too large to write")
               : PDL_OK;
}
