/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of measured training steps (schema paradl.runs/1). Runs without a
 * measured step or memory are passed over; what else is in a run is left
 * alone. */
#include "oracle/measure/measure.h"
#include "oracle/oracle_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const double LONGEST_S = 1e9, MOST_BYTES = 1e18;

const char *const pdl_run_keys[] = {"id",       "set",  "model",     "system",
                                    "strategy", "axes", "framework", NULL};

static const char *text_of(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d =
        map && map->kind == PDL_DOC_MAP ? pdl_doc_get(map, key) : NULL;

    return d && d->kind == PDL_DOC_SCALAR ? d->text : NULL;
}

static bool large(const struct pdl_strategy *s, int axis)
{
    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++) {
            const struct pdl_term *x = &s->clause[c].term[t];

            for (int k = 0; (int)x->axis == axis && k < x->nsizes; k++)
                if (x->size[k] > 1)
                    return true;
        }
    return false;
}

void oracle_axes(const struct pdl_strategy *s, char *buf, size_t size)
{
    size_t len = 0;

    snprintf(buf, size, "serial");
    for (int axis = 0; axis < PDL_NAXES; axis++)
        if (large(s, axis) && len + 16 < size)
            len +=
                (size_t)snprintf(buf + len, size - len, "%s%s", len ? "+" : "",
                                 pdl_axis_name((enum pdl_axis)axis));
}

const char *pdl_strategy_axes(pdl_arena *a, const char *strategy)
{
    struct pdl_strategy s;
    char buf[128];

    if (pdl_strategy_parse(a, strategy, &s, NULL) != PDL_OK)
        return "";
    oracle_axes(&s, buf, sizeof buf);
    return pdl_arena_strdup(a, buf);
}

static bool wanted(const struct pdl_row_filter *s, const struct pdl_run *r)
{
    const char *const value[] = {r->id,       r->set,  r->model,    r->system,
                                 r->strategy, r->axes, r->framework};

    for (int i = 0; pdl_run_keys[i]; i++)
        if (!pdl_row_filter_has(s, pdl_run_keys[i], value[i] ? value[i] : ""))
            return false;
    return true;
}

/* 0 where the map has none. */
static enum pdl_status number(const struct pdl_doc *map, const char *key,
                              double most, double *out, struct pdl_err *err)
{
    const struct pdl_doc *d =
        map && map->kind == PDL_DOC_MAP ? pdl_doc_get(map, key) : NULL;

    *out = 0;
    return d ? pdl_doc_num(d, PDL_UNIT_NONE, 0, most, out, err) : PDL_OK;
}

static enum pdl_status read_numbers(const struct pdl_doc *measured,
                                    struct pdl_run *r, struct pdl_err *err)
{
    const struct {
        const char *key;
        double most, *out;
    } n[] = {
        {"step_s", LONGEST_S, &r->step_s},
        {"compute_s", LONGEST_S, &r->compute_s},
        {"comm_s", LONGEST_S, &r->comm_s},
        {"allocated_bytes", MOST_BYTES, &r->allocated_bytes},
        {"reserved_bytes", MOST_BYTES, &r->reserved_bytes},
        {"device_bytes", MOST_BYTES, &r->device_bytes},
        {"resident_bytes", MOST_BYTES, &r->resident_bytes},
        {"stage0_reserved_bytes", MOST_BYTES, &r->stage0_reserved_bytes},
    };
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof n / sizeof n[0] && st == PDL_OK; i++)
        st = number(measured, n[i].key, n[i].most, n[i].out, err);
    return st;
}

static bool is_true(const struct pdl_doc *map, const char *key)
{
    const char *text = text_of(map, key);

    return text && strcmp(text, "true") == 0;
}

static bool is_measured(const struct pdl_run *r)
{
    return r->step_s > 0 || r->allocated_bytes > 0 || r->reserved_bytes > 0 ||
           r->device_bytes > 0 || r->resident_bytes > 0 ||
           r->stage0_reserved_bytes > 0 || r->tried;
}

/* ---- what stands for what --------------------------------------------- */

/* A run of a framework or machine that the file's author had no name for is
 * written as the nearest one, with a flag that says so. Where there is a
 * description by now, it is taken. */

/* The flag that begins so, from there on; NULL: none. */
static const char *flag_of(const struct pdl_doc *d, const char *begin)
{
    const struct pdl_doc *flags = pdl_doc_get(d, "flags");

    if (!flags || flags->kind != PDL_DOC_LIST)
        return NULL;
    for (const struct pdl_doc *f = flags->child; f; f = f->next)
        if (f->kind == PDL_DOC_SCALAR &&
            strncmp(f->text, begin, strlen(begin)) == 0)
            return f->text + strlen(begin);
    return NULL;
}

/* "framework nanotron: pytorch is the nearest" */
static const char *own_framework(pdl_arena *a, const struct pdl_doc *d,
                                 const char *written)
{
    const char *name = flag_of(d, "framework ");
    const struct pdl_framework *f = NULL;

    if (!name || !strchr(name, ':'))
        return written;
    name = pdl_arena_strndup(a, name, strcspn(name, ":"));
    return name && pdl_framework_open(a, name, &f, NULL) == PDL_OK ? name
                                                                   : written;
}

/* Megatron has had sharded weights of its own since its FSDP of 2025, which has
 * fused attention; beside a Megatron of single products they were
 * DeepSpeed's. */
static const char *then_framework(const struct pdl_run *r)
{
    bool older = r->framework && strcmp(r->framework, "megatron") == 0 &&
                 r->attention && strcmp(r->attention, "unfused") == 0;

    return older && r->strategy && strstr(r->strategy, "zero=3")
               ? "megatron-deepspeed"
               : r->framework;
}

/* "system-missing: GB300, written as GB200": the same nodes with its PEs */
static const char *own_system(pdl_arena *a, const struct pdl_doc *d,
                              const char *written)
{
    const char *name = flag_of(d, "system-missing: ");
    struct pdl_pe pe;
    char *low, *own;

    if (!name || !written || !strstr(name, "written as") ||
        strstr(written, "pe="))
        return written;
    low = pdl_arena_strndup(a, name, strcspn(name, " ,;"));
    for (char *c = low; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!low || pdl_pe_open(a, low, &pe, NULL) != PDL_OK)
        return written;
    own = pdl_arena_printf(a, "%s%cpe=%s", written,
                           strchr(written, ':') ? ',' : ':', low);
    return own ? own : written;
}

static enum pdl_status read_run(pdl_arena *a, const struct pdl_doc *d,
                                struct pdl_run *r, struct pdl_err *err)
{
    const struct pdl_doc *options, *measured, *batch;
    enum pdl_status st;

    if (d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, err, "expected a run");
    options = pdl_doc_get(d, "options");
    measured = pdl_doc_get(d, "measured");
    batch = pdl_doc_get(d, "batch");
    if (options && options->kind != PDL_DOC_MAP)
        return pdl_doc_fail(options, err, "options: expected a map");
    *r = (struct pdl_run){.id = text_of(d, "id"),
                          .set = text_of(d, "set"),
                          .model = text_of(d, "model"),
                          .system = text_of(d, "system"),
                          .strategy = text_of(d, "strategy"),
                          .precision = text_of(d, "precision"),
                          .optimizer = text_of(d, "optimizer"),
                          .framework = text_of(options, "framework"),
                          .attention = text_of(options, "attention"),
                          .dropout = text_of(options, "dropout"),
                          .gradient_dtype = text_of(options, "gradient_dtype"),
                          .compile = is_true(options, "compile"),
                          .async_tensor = is_true(options, "async_tensor")};
    r->system = own_system(a, d, r->system);
    r->framework = own_framework(a, d, r->framework);
    r->framework = then_framework(r);
    r->tried = measured && measured->kind == PDL_DOC_MAP &&
               pdl_doc_get(measured, "fits");
    r->fits = is_true(measured, "fits");
    if (!r->id || !r->model || !r->strategy || !batch)
        return pdl_doc_fail(d, err, "a run needs id, model, strategy, batch");
    st = read_numbers(measured, r, err);
    if (st != PDL_OK || !is_measured(r))
        return st;
    r->axes = pdl_strategy_axes(a, r->strategy);
    return pdl_doc_int(batch, 1, INT64_MAX / 2, &r->batch, err);
}

enum pdl_status pdl_runs_read(pdl_arena *a, const struct pdl_doc *doc,
                              const struct pdl_row_filter *select,
                              struct pdl_runs *out, struct pdl_err *err)
{
    const struct pdl_doc *list =
        doc->kind == PDL_DOC_MAP ? pdl_doc_get(doc, "runs") : NULL;

    *out = (struct pdl_runs){.n = 0};
    if (!list || list->kind != PDL_DOC_LIST)
        return pdl_doc_fail(doc, err, "no list of \"runs\"");
    out->run = PDL_NEW(a, struct pdl_run, list->count + 1);
    if (!out->run)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        struct pdl_run *r = &out->run[out->n];
        enum pdl_status st = read_run(a, d, r, err);

        if (st != PDL_OK)
            return st;
        out->n += is_measured(r) && wanted(select, r);
    }
    return PDL_OK;
}

/* ---- ranking ---------------------------------------------------------- */

static bool same_model(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");

    return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

void pdl_rank_pairs(const struct pdl_run *const *run, const int64_t *pes,
                    const double *projected_s, int n, double least,
                    struct pdl_ranking *out)
{
    *out = (struct pdl_ranking){.pairs = 0};
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            double bi = (double)run[i]->batch, bk = (double)run[k]->batch;
            double measured = bi / run[i]->step_s * (run[k]->step_s / bk);
            double projected = bi / projected_s[i] * (projected_s[k] / bk);

            if (pes[i] != pes[k] || !same_model(run[i]->model, run[k]->model) ||
                strcmp(run[i]->axes, run[k]->axes) == 0)
                continue;
            if (measured < 1 + least && measured > 1 / (1 + least))
                continue;
            out->pairs++;
            out->right += (measured > 1) == (projected > 1);
        }
}
