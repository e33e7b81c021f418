/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's settings and its life. A setting that changes takes away what was
 * made from it (job_state), nothing else. */
#include "job_priv.h"

#include <stdlib.h>
#include <string.h>

enum kind { TEXT, COUNT, FLAG };
enum depends { SOURCE, TERMS, PLAN, SEARCH };

// clang-format off
static const struct {
    struct pdl_job_setting is;
    enum kind kind;
    enum depends depends;
} settings[JOB_NSETTINGS] = {
#define X(id, name, kind, depends, choices, summary) \
    {{name, choices, summary}, kind, depends},
    JOB_SETTINGS(X)
#undef X
};
// clang-format on

/* What is left of a job when something changes that this depends on. */
static const enum job_state left[] = {[SOURCE] = JOB_EMPTY,
                                      [TERMS] = JOB_LOADED,
                                      [PLAN] = JOB_SETTLED,
                                      [SEARCH] = JOB_PRICED};

const struct pdl_job_setting *pdl_job_setting_at(int i)
{
    return i >= 0 && i < JOB_NSETTINGS ? &settings[i].is : NULL;
}

/* ---- life -------------------------------------------------------------- */

pdl_job *pdl_job_create(void)
{
    pdl_job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->source = pdl_arena_create(PDL_ARENA_DEFAULT);
    j->step = pdl_arena_create(PDL_ARENA_DEFAULT);
    j->found = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (j->source && j->step && j->found)
        return j;
    pdl_job_destroy(j);
    return NULL;
}

void pdl_job_destroy(pdl_job *j)
{
    if (!j)
        return;
    for (int i = 0; i < JOB_NSETTINGS; i++)
        free(j->text[i]);
    job_unsettle(j);
    pdl_arena_destroy(j->source);
    pdl_arena_destroy(j->step);
    pdl_arena_destroy(j->found);
    free(j);
}

pdl_job *pdl_job_fork(const pdl_job *from)
{
    pdl_job *j = pdl_job_create();
    bool whole = j != NULL;

    for (int i = 0; i < JOB_NSETTINGS && whole; i++) {
        j->count[i] = from->count[i];
        if (from->text[i]) {
            j->text[i] = strdup(from->text[i]);
            whole = j->text[i] != NULL;
        }
    }
    if (!whole) {
        pdl_job_destroy(j);
        return NULL;
    }
    j->state = from->state < JOB_SETTLED ? from->state : JOB_SETTLED;
    j->model = from->model;
    j->base = j->sys = from->sys;
    j->has_system = from->has_system;
    j->given = from->given;
    j->own = from->own;
    j->nown = from->nown;
    j->oracle = from->oracle;
    j->head = from->head;
    j->file = from->file;
    return j;
}

/* ---- settings ---------------------------------------------------------- */

static int find(const char *name)
{
    for (int i = 0; i < JOB_NSETTINGS; i++)
        if (strcmp(settings[i].is.name, name) == 0)
            return i;
    return -1;
}

static enum pdl_status no_setting(const char *name, struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; i < JOB_NSETTINGS; i++)
        pdl_suggest_try(&s, settings[i].is.name);
    pdl_fail(err, PDL_EINVAL, "a job has no setting '%.40s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

/* Is it one of "a|b|c"? */
static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);

    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, value, n) == 0 && (at[n] == '|' || !at[n]))
            return n > 0;
    }
    return false;
}

static enum pdl_status check(int i, const char *value, int64_t *count,
                             struct pdl_err *err)
{
    const char *name = settings[i].is.name, *choices = settings[i].is.choices;

    *count = settings[i].kind == FLAG && strcmp(value, "yes") == 0;
    if (settings[i].kind == COUNT &&
        pdl_int_parse(value, 1, INT64_MAX, count, NULL) != PDL_OK)
        return pdl_fail(err, PDL_EINVAL, "%s '%.40s' is no count from 1 on",
                        name, value);
    if (!choices || is_choice(choices, value))
        return job_check_term((enum job_setting)i, value, err);
    pdl_fail(err, PDL_EINVAL, "no %s '%.40s'", name, value);
    pdl_hint(err, "one of %s", choices);
    return PDL_EINVAL;
}

enum pdl_status pdl_job_set(pdl_job *j, const char *name, const char *value,
                            struct pdl_err *err)
{
    int i = find(name);
    int64_t count = 0;
    char *copy = NULL;
    enum pdl_status st;

    if (i < 0)
        return no_setting(name, err);
    st = value ? check(i, value, &count, err) : PDL_OK;
    if (st != PDL_OK)
        return st;
    if (value && !(copy = strdup(value)))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    free(j->text[i]);
    j->text[i] = copy;
    j->count[i] = count;
    if (j->state > left[settings[i].depends])
        j->state = left[settings[i].depends];
    if (j->state < JOB_SETTLED)
        job_unsettle(j);
    atomic_store(&j->cancelled, false);
    return PDL_OK;
}

void pdl_job_use_system(pdl_job *j, const struct pdl_system *sys)
{
    j->given = sys;
    job_unsettle(j);
    if (j->state >= JOB_LOADED && sys) { /* the model stays */
        j->base = *sys;
        j->has_system = true;
        j->state = JOB_LOADED;
    } else {
        j->state = JOB_EMPTY;
    }
    atomic_store(&j->cancelled, false);
}

void pdl_job_use_runs(pdl_job *j, const struct pdl_own_run *run, int n)
{
    j->own = run;
    j->nown = n;
    if (j->state > JOB_LOADED)
        j->state = JOB_LOADED;
    job_unsettle(j);
}

const char *pdl_job_get(const pdl_job *j, const char *name)
{
    int i = find(name);

    return i < 0 ? NULL : j->text[i];
}

/* ---- what was made ----------------------------------------------------- */

const struct pdl_model *pdl_job_model(const pdl_job *j)
{
    return j->state >= JOB_LOADED ? j->model : NULL;
}

const struct pdl_system *pdl_job_system(const pdl_job *j)
{
    return j->state >= JOB_LOADED && j->has_system ? &j->sys : NULL;
}

const struct pdl_oracle_options *pdl_job_options(const pdl_job *j)
{
    return j->state >= JOB_SETTLED ? &j->oracle : NULL;
}

const struct pdl_strategy *pdl_job_asked(const pdl_job *j)
{
    return j->state >= JOB_LOWERED ? j->asked : NULL;
}

const struct pdl_plan *pdl_job_plan(const pdl_job *j)
{
    return j->state >= JOB_LOWERED ? j->plan : NULL;
}

const struct pdl_projection *pdl_job_projection(const pdl_job *j)
{
    return j->state >= JOB_PRICED ? &j->x : NULL;
}

/* ---- progress ---------------------------------------------------------- */

void pdl_job_on_progress(pdl_job *j, pdl_job_progress call, void *ctx)
{
    j->progress = call;
    j->ctx = ctx;
}

void pdl_job_cancel(pdl_job *j)
{
    atomic_store(&j->cancelled, true);
}

enum pdl_status job_may(const pdl_job *j, struct pdl_err *err)
{
    return atomic_load(&j->cancelled)
               ? pdl_fail(err, PDL_EINTR, "the job was cancelled")
               : PDL_OK;
}
