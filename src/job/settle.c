/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of the oracle that a job's texts mean, defaults included. */
#include "job_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "tiles,host": the bits of the effects named. */
static enum pdl_status effects(const char *text, struct pdl_oracle_options *o,
                               struct pdl_err *err)
{
    o->without = 0;
    while (text && *text) {
        size_t n = strcspn(text, ",");
        char name[64];
        uint32_t bit = 0;
        enum pdl_status st;

        snprintf(name, sizeof name, "%.*s", (int)n, text);
        st = pdl_effect_find(name, &bit, err);
        if (st != PDL_OK)
            return st;
        o->without |= bit;
        text += n + (text[n] == ',');
    }
    return PDL_OK;
}

/* "1.5" or "1..1.5"; the middle of a range is that of its logarithm. */
static enum pdl_status
congestion(const char *text, struct pdl_oracle_options *o, struct pdl_err *err)
{
    const char *dots = text ? strstr(text, "..") : NULL;
    double low, high;
    char first[32];

    if (!text)
        return PDL_OK;
    snprintf(first, sizeof first, "%.*s",
             dots ? (int)(dots - text) : (int)strlen(text), text);
    if (pdl_unit_parse(first, PDL_UNIT_NONE, &low, NULL) == PDL_OK &&
        pdl_unit_parse(dots ? dots + 2 : first, PDL_UNIT_NONE, &high, NULL) ==
            PDL_OK &&
        low >= 1 && high >= low && high <= 1000) {
        o->congestion = sqrt(low * high);
        o->congestion_low = low;
        o->congestion_high = high;
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "congestion '%.40s' is no range", text);
    pdl_hint(err, "a factor from 1 on, or two: 1..1.5");
    return PDL_EINVAL;
}

static enum pdl_status dropout(const char *text, struct pdl_oracle_options *o,
                               struct pdl_err *err)
{
    if (!text ||
        (pdl_unit_parse(text, PDL_UNIT_NONE, &o->dropout, NULL) == PDL_OK &&
         o->dropout >= 0 && o->dropout < 1))
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "dropout '%.40s' is no probability below 1", text);
}

/* "5" or "5%". */
static enum pdl_status headroom(const char *text, struct pdl_oracle_options *o,
                                struct pdl_err *err)
{
    char number[32];
    size_t n = text ? strlen(text) : 0;

    if (!text)
        return PDL_OK;
    n -= n > 0 && text[n - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    if (n < sizeof number &&
        pdl_unit_parse(number, PDL_UNIT_NONE, &o->headroom, NULL) == PDL_OK &&
        o->headroom >= 0 && o->headroom < 100) {
        o->headroom /= 100;
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "headroom '%.40s' is no percentage below 100",
             text);
    pdl_hint(err, "write it like 5%%");
    return PDL_EINVAL;
}

/* Settings whose text is more than a name. */
// clang-format off
static const struct {
    enum job_setting setting;
    enum pdl_status (*read)(const char *text, struct pdl_oracle_options *o,
                            struct pdl_err *err);
} terms[] = {
    {JOB_WITHOUT, effects},
    {JOB_CONGESTION, congestion},
    {JOB_DROPOUT, dropout},
    {JOB_HEADROOM, headroom},
};
// clang-format on
enum { NTERMS = sizeof terms / sizeof terms[0] };

enum pdl_status job_check_term(enum job_setting i, const char *text,
                               struct pdl_err *err)
{
    struct pdl_oracle_options unused = {.dropout = 0};

    for (int k = 0; k < NTERMS; k++)
        if (terms[k].setting == i)
            return terms[k].read(text, &unused, err);
    return PDL_OK;
}

static bool is(const char *text, const char *choice)
{
    return text && strcmp(text, choice) == 0;
}

static bool is_transformer(const pdl_job *j)
{
    return strcmp(j->model->kind, "transformer") == 0;
}

static void choices(const pdl_job *j, struct pdl_oracle_options *o)
{
    const char *precision = j->text[JOB_PRECISION];
    const char *optimizer = j->text[JOB_OPTIMIZER];
    const char *gradient = j->text[JOB_GRADIENT_DTYPE];

    if (!precision)
        precision = j->head.precision   ? j->head.precision
                    : is_transformer(j) ? "bf16"
                                        : "fp32";
    if (!optimizer)
        optimizer = j->head.optimizer;
    *o = (struct pdl_oracle_options){
        .parameters =
            is(j->text[JOB_PARAMETERS], "ideal") ? PDL_IDEAL : PDL_EMPIRICAL,
        .precision = pdl_precision_find(precision),
        .optimizer_slots = optimizer           ? 1 + is(optimizer, "adam")
                           : is_transformer(j) ? 2
                                               : 1,
        .dataset = j->count[JOB_DATASET],
        .unfused = is(j->text[JOB_ATTENTION], "unfused"),
        .own = j->own,
        .nown = j->nown,
        .compile = j->count[JOB_COMPILE] != 0,
        .async_tensor = j->count[JOB_ASYNC_TENSOR] != 0};
    if (gradient)
        o->gradient_bytes =
            (int)pdl_precision_bytes(pdl_precision_find(gradient));
}

static bool has(const pdl_job *j, const struct pdl_oracle_options *o,
                enum pdl_precision p)
{
    return (!j->has_system || j->sys.pe.peak_flop_per_s[p] > 0) &&
           pdl_framework_trains(o->framework, p, o->optimizer_slots, NULL) ==
               PDL_OK;
}

/* Where nobody said which: that of the kind of model, or another that both the
 * PE and the framework have. */
static void have_precision(const pdl_job *j, struct pdl_oracle_options *o)
{
    static const enum pdl_precision others[] = {PDL_PREC_BF16, PDL_PREC_FP16,
                                                PDL_PREC_FP32};

    if (j->text[JOB_PRECISION] || j->head.precision)
        return;
    for (int i = 0; i < 3 && !has(j, o, o->precision); i++)
        if (has(j, o, others[i]))
            o->precision = others[i];
}

enum pdl_status job_settle(pdl_job *j, struct pdl_err *err)
{
    struct pdl_oracle_options *o = &j->oracle;
    enum pdl_status st = PDL_OK;

    choices(j, o);
    if (o->precision == PDL_NPRECISIONS)
        return pdl_fail(err, PDL_EINVAL, "%s: no precision '%.40s'",
                        j->text[JOB_PLAN], j->head.precision);
    if (j->text[JOB_FRAMEWORK])
        st = pdl_framework_open(j->source, j->text[JOB_FRAMEWORK],
                                &o->framework, err);
    if (st == PDL_OK) { /* what is not said is the framework's */
        o->dropout = pdl_framework_dropout(o->framework);
        have_precision(j, o);
    }
    for (int i = 0; i < NTERMS && st == PDL_OK; i++)
        st = terms[i].read(j->text[terms[i].setting], o, err);
    if (st != PDL_OK || !j->has_system ||
        j->sys.pe.peak_flop_per_s[o->precision] > 0)
        return st;
    return pdl_fail(err, PDL_EINVAL, "%s has no %s arithmetic", j->sys.pe.name,
                    pdl_precision_name(o->precision));
}
